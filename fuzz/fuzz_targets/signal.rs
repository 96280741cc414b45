//! Frames: a message and a stream of messages decode or are refused; a decoded signal survives encoding, and a
//! stream of one message is that message.
#![no_main]

use iclaustron::link::page::for_each_signal;
use iclaustron::wire::block::API_PACKED;
use iclaustron::wire::signal::{decode, encode};
use iclaustron_fuzz::{seal, words};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut words = words(bytes);
    let _ = for_each_signal(&words, |_, _| true, |signal| drop(format!("{signal:?}")));
    let _ = decode(&words);
    seal(&mut words);
    let Ok(signal) = decode(&words) else { return };
    if signal.header.receiver != API_PACKED {
        let mut seen = Vec::new();
        for_each_signal(&words, |_, _| true, |signal| seen.push(signal)).unwrap();
        assert_eq!(seen, [signal]);
    }
    let mut again = Vec::new();
    if encode(&mut again, signal.header, signal.data, signal.sections()).is_ok() {
        let again = decode(&again).unwrap();
        assert_eq!((again.header, again.data), (signal.header, signal.data));
        assert_eq!(again.sections(), signal.sections());
    }
});
