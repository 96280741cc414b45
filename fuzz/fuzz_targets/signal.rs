//! Frames: a message and a stream of messages decode or are refused; what was decoded, and whatever else can
//! be encoded, comes back; a stream of one message is that message.
#![no_main]

use iclaustron::link::page::for_each_signal;
use iclaustron::wire::block::API_PACKED;
use iclaustron::wire::signal::{Header, MAX_SECTIONS, decode, encode};
use iclaustron_fuzz::{seal, words};
use libfuzzer_sys::fuzz_target;

fn comes_back(header: Header, data: &[u32], sections: &[&[u32]]) {
    let mut message = Vec::new();
    if encode(&mut message, header, data, sections).is_ok() {
        let signal = decode(&message).unwrap();
        assert_eq!((signal.header, signal.data, signal.sections()), (header, data, sections));
    }
}

/// A signal of these words: the first says how many are data, and into how many sections the rest is divided.
fn made_of(words: &[u32]) {
    let [first, rest @ ..] = words else { return };
    let header = Header { gsn: *first as u16, receiver: 0x8000, sender: 0xfa2 };
    let (data, rest) = rest.split_at((*first as usize % 28).min(rest.len()));
    let count = 1 + (*first >> 8) as usize % MAX_SECTIONS;
    comes_back(header, data, &rest.chunks(rest.len().div_ceil(count).max(1)).collect::<Vec<_>>());
}

fuzz_target!(|bytes: &[u8]| {
    let mut words = words(bytes);
    made_of(&words);
    let _ = for_each_signal(&words, |_, _| true, |signal| drop(format!("{signal:?}")));
    let _ = decode(&words);
    seal(&mut words);
    let Ok(signal) = decode(&words) else { return };
    if signal.header.receiver != API_PACKED {
        let mut seen = Vec::new();
        for_each_signal(&words, |_, _| true, |signal| seen.push(signal)).unwrap();
        assert_eq!(seen, [signal]);
    }
    comes_back(signal.header, signal.data, signal.sections());
});
