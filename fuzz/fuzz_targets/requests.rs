//! Requests as an embedded data node reads them: every decoder takes any signal; what is understood comes
//! back when a client sends it.
#![no_main]

use iclaustron::wire::dictionary::{Client, Transaction};
use iclaustron::wire::requests::dictionary::{What, decode as decode_dictionary};
use iclaustron::wire::requests::key::KeyRequest;
use iclaustron::wire::requests::{OfTransaction, Register, Release, Seize, acknowledged};
use iclaustron::wire::signal::{Signal, decode};
use iclaustron::wire::{block, transaction};
use iclaustron_fuzz::for_each_reading;
use libfuzzer_sys::fuzz_target;

/// What `send` appends, as the receiver sees it.
fn sent<T>(send: impl FnOnce(&mut Vec<u32>), see: impl FnOnce(Signal<'_>) -> T) -> T {
    let mut out = Vec::new();
    send(&mut out);
    see(decode(&out).unwrap())
}

fn of_transactions(signal: &Signal<'_>) {
    let data = signal.data;
    let from = data.get(1).map_or(0, |&word| block::node_of(word));
    let _ = Register::decode(data, data.first().map_or(0, |&word| block::node_of(word)));
    if let Ok(it) = Seize::decode(data, from) {
        let send = |out: &mut Vec<u32>| transaction::seize(out, 1, 2, it.client, it.reference, it.instance);
        assert_eq!(sent(send, |signal| Seize::decode(signal.data, from)), Ok(it));
    }
    if let Ok(it) = Release::decode(data, from) {
        let send = |out: &mut Vec<u32>| transaction::release(out, 1, 2, it.connect, it.reference, it.client);
        assert_eq!(sent(send, |signal| Release::decode(signal.data, from)), Ok(it));
    }
    if let Ok(it) = OfTransaction::decode(data) {
        let send = |out: &mut Vec<u32>| transaction::rollback(out, 1, 2, it.connect, it.transid, true);
        assert_eq!(sent(send, |signal| OfTransaction::decode(signal.data)), Ok(it));
    }
    if let Ok(it) = acknowledged(data) {
        let send = |out: &mut Vec<u32>| transaction::commit_ack(out, 1, 2, it);
        assert_eq!(sent(send, |signal| acknowledged(signal.data)), Ok(it));
    }
    if let Ok(it) = KeyRequest::decode(signal) {
        let [key, attributes @ ..] = signal.sections() else { unreachable!("decoded without a key") };
        let attributes = attributes.first().copied().unwrap_or_default();
        assert_eq!(KeyRequest::of_parts(data, key, attributes), Ok(it));
        let info = it.info;
        let _ = (info.kind(), info.committed_read(), info.simple(), info.start(), info.execute());
        let _ = (info.ignore_error(), info.interpreted(), info.of_scan());
        assert!(!info.commit() || info.execute());
    }
}

fn of_the_dictionary(gsn: u16, signal: &Signal<'_>) {
    let data = signal.data;
    for &reference in data.iter().take(2) {
        let from = block::node_of(reference);
        let Ok(it) = decode_dictionary(gsn, data, signal.sections(), from) else { continue };
        let client = Client::new(it.reference);
        let mut out = Vec::new();
        let encoded = match it.what {
            What::GetByName { name: Some(name), transaction, .. } => {
                client.get_by_name(&mut out, it.number, name, transaction)
            }
            What::List { names: true, dependent_on: None, kind } => client.list(&mut out, it.number, kind),
            What::Begin => client.begin(&mut out, it.number),
            What::End { key, abort } => client.end(&mut out, Transaction { id: it.number, key }, !abort),
            _ => continue,
        };
        // A name that no object can have is not sent.
        if encoded.is_ok() {
            let again = decode(&out).unwrap();
            assert_eq!(decode_dictionary(gsn, again.data, again.sections(), from), Ok(it));
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    for_each_reading(bytes, |signal| {
        of_transactions(&signal);
        for gsn in 0..800 {
            of_the_dictionary(gsn, &signal);
        }
    });
});
