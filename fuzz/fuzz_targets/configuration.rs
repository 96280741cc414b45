//! The configuration: any bytes decode or are refused, every question to a decoded one has an answer, and it
//! comes back when it is encoded.
#![no_main]

use iclaustron::wire::config::{Configuration, decode, encode};
use libfuzzer_sys::fuzz_target;

/// Gives the bytes the magic, length and checksum that a configuration has.
fn seal(bytes: &[u8]) -> Vec<u8> {
    let mut words: Vec<u32> = bytes.as_chunks().0.iter().map(|&word| u32::from_be_bytes(word)).collect();
    let length = words.len() as u32;
    if let [a, b, c, .., _] = &mut words[..] {
        (*a, *b, *c) = (u32::from_be_bytes(*b"NDBC"), u32::from_be_bytes(*b"ONF2"), length);
        let sum = words[..words.len() - 1].iter().fold(0, |sum, word| sum ^ word);
        words.pop();
        words.push(sum);
    }
    words.into_iter().flat_map(u32::to_be_bytes).collect()
}

fn ask(configuration: &Configuration) {
    let _ = (configuration.name(), configuration.generation(), configuration.replicas());
    let _ = (configuration.management_servers(), configuration.heartbeat_interval_db_db());
    let _ = configuration.transaction_deadlock_detection_timeout();
    for node in 0..=256 {
        let _ = (configuration.heartbeat_interval(node), configuration.location_domain_id(node));
        let _ = (configuration.connect_backoff_max(node), configuration.start_connect_backoff_max(node));
        if let Err(error) = configuration.links(node) {
            let _ = error.to_string();
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let _ = decode(bytes);
    let Ok(configuration) = decode(&seal(bytes)) else { return };
    ask(&configuration);
    assert_eq!(decode(&encode(&configuration)), Ok(configuration));
});
