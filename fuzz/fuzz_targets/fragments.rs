//! Fragments: whatever messages come, an assembler holds no more than it may; what it completes comes back
//! when it is sent in fragments again.
#![no_main]

use iclaustron::wire::fragment::{Assembler, MAX_COLLECTIONS, MAX_WORDS, OwnedSignal};
use iclaustron::wire::signal::{MAX_SECTIONS, decode, encode_any, message_length};
use iclaustron_fuzz::words;
use libfuzzer_sys::fuzz_target;

/// The words cut into messages; a word that begins none is skipped.
fn messages(mut rest: &[u32]) -> impl Iterator<Item = &[u32]> {
    std::iter::from_fn(move || {
        while let Some(&first) = rest.first() {
            match message_length(first).ok().and_then(|length| rest.split_at_checked(length)) {
                Some((message, after)) => {
                    rest = after;
                    return Some(message);
                }
                None => rest = &rest[1..],
            }
        }
        None
    })
}

/// Sends the signal, its sections made longer so that there are several fragments, and assembles it again.
fn send_again(signal: &OwnedSignal) {
    let times = 1 + signal.header.gsn as usize % 256;
    let sections: Vec<_> = signal.sections.iter().map(|section| section.repeat(times)).collect();
    if sections.iter().map(Vec::len).sum::<usize>() > MAX_WORDS {
        return;
    }
    let borrowed: Vec<&[u32]> = sections.iter().map(|section| &section[..]).collect();
    let mut sent = Vec::new();
    if encode_any(&mut sent, signal.header, &signal.data, &borrowed, 1).is_err() {
        return;
    }
    let mut assembler = Assembler::new();
    let found: Vec<_> =
        messages(&sent).filter_map(|message| assembler.add(&decode(message).unwrap()).unwrap()).collect();
    assert_eq!(found, [OwnedSignal { sections, ..signal.clone() }]);
    assert_eq!(assembler.pending(), 0);
}

fuzz_target!(|bytes: &[u8]| {
    let words = words(bytes);
    let mut assembler = Assembler::new();
    for message in messages(&words) {
        let Ok(signal) = decode(message) else { continue };
        if let Ok(Some(whole)) = assembler.add(&signal) {
            assert!(whole.sections.len() <= MAX_SECTIONS);
            assert!(whole.sections.iter().map(Vec::len).sum::<usize>() <= words.len());
            send_again(&whole);
        }
        assert!(assembler.pending() <= MAX_COLLECTIONS);
    }
});
