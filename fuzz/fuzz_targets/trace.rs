//! The signal trace: any words have a text, with one line for each signal; a message is told by its name.
#![no_main]

use iclaustron::link::page::for_each_signal;
use iclaustron::wire::gsn;
use iclaustron::wire::trace::{Direction, describe};
use iclaustron_fuzz::{for_each_reading, seal, words};
use libfuzzer_sys::fuzz_target;

fn text(words: &[u32]) -> String {
    let mut out = String::new();
    describe(&mut out, Direction::Receive, 1, words);
    out
}

fuzz_target!(|bytes: &[u8]| {
    let mut words = words(bytes);
    let _ = text(&words);
    seal(&mut words);
    let text = text(&words);
    let mut names = Vec::new();
    if for_each_signal(&words, |_, _| true, |signal| names.push(gsn::name(signal.header.gsn))).is_ok() {
        assert_eq!(text.lines().count(), names.len());
        let known = |name: &&str| *name != "unknown signal";
        assert!(text.lines().zip(names).all(|(line, name)| !known(&name) || line.contains(name)));
    }
    for_each_reading(bytes, |signal| drop(format!("{signal:?}")));
});
