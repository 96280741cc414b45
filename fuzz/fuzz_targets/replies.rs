//! Replies of a coordinator: every decoder takes any data, of a signal or a carrier's packet; words that are
//! appended change nothing.
#![no_main]

use iclaustron::wire::packed::Packets;
use iclaustron::wire::signal::Signal;
use iclaustron::wire::transaction::*;
use iclaustron_fuzz::{for_each_reading, words};
use libfuzzer_sys::fuzz_target;

macro_rules! same_when_longer {
    ($data:ident: $($name:ident)*) => {
        let longer = [$data, &[0xffff_ffff]].concat();
        $(if let Some(reply) = $name::decode($data) {
            assert_eq!($name::decode(&longer), Some(reply));
        })*
    };
}

fn replies(data: &[u32]) {
    same_when_longer!(data: SeizeConf SeizeRef ReleaseConf ReleaseRef KeyRef RollbackRep CommitConf CommitRef
        RollbackConf RollbackRef FailConf FailRef);
    if let Some(conf) = KeyConf::decode(data) {
        assert_eq!(conf.operations().count(), conf.operations().len());
        assert_eq!(data.len(), 6 + 2 * conf.operations().len());
    }
    if let Some(row) = Row::decode(data) {
        assert_eq!(row.attributes.len() + 3, data.len());
    }
}

fn all_of(signal: Signal<'_>) {
    replies(signal.data);
    let _ = row_of(&signal);
    let _ = acknowledgement_due(&signal);
}

fuzz_target!(|bytes: &[u8]| {
    for_each_reading(bytes, all_of);
    let words = words(bytes);
    for (_, data) in Packets::new(&words).flatten() {
        replies(data);
    }
});
