//! The dictionary: answers of every number decode or are refused; items come back; of any table that a
//! definition describes, records can be made and keys distributed.
#![no_main]

use std::sync::Arc;

use iclaustron::dict::record::Record;
use iclaustron::dict::table::{HashMap, Table};
use iclaustron::wire::dictionary::{Done, decode, request_of};
use iclaustron::wire::properties::{Reader, Value, Writer};
use iclaustron::wire::signal::Signal;
use iclaustron_fuzz::{for_each_reading, words};
use libfuzzer_sys::fuzz_target;

fn items(definition: &[u32]) {
    let mut writer = Writer::new();
    let mut read = Vec::new();
    for (key, value) in Reader::new(definition).flatten() {
        match value {
            Value::U32(number) => writer.u32(key, number),
            Value::Str(string) => writer.string(key, string),
            Value::Bin(bytes) => writer.binary(key, bytes),
        };
        read.push(Ok((key, value)));
    }
    assert_eq!(Reader::new(&writer.finish()).collect::<Vec<_>>(), read);
}

fn objects(definition: &[u32]) {
    let _ = HashMap::parse(definition);
    let Ok(table) = Table::parse(definition) else { return };
    let _ = (table.names(), table.nodes_of(0));
    let record = Record::natural(&table);
    let row: Vec<u8> = definition
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .cycle()
        .take(record.row_size().min(1 << 20))
        .collect();
    let mut key = Vec::new();
    if record.encode_key(&row, &mut key).is_ok() && record.fixed_key_words().is_some() {
        let before = key.clone();
        record.overwrite_key(&row, &mut key).unwrap();
        assert_eq!(key, before);
    }
    let buckets = definition.iter().map(|&word| word as u16).collect();
    let map = HashMap { id: table.id, version: 0, name: Vec::new(), buckets };
    let table = table.with_hash_map(Arc::new(map));
    if let Some(fragment) = table.fragment_for_key(&record, &row) {
        assert!(!table.nodes_of(fragment).is_empty());
    }
}

fn answers(signal: Signal<'_>) {
    let (data, sections) = (signal.data, signal.sections());
    for gsn in (0..800).filter(|&gsn| request_of(gsn).is_some()) {
        let Ok(answer) = decode(gsn, data, sections) else { continue };
        match answer.outcome {
            Ok(Done::Definition { words, .. }) => {
                items(words);
                objects(words);
            }
            Ok(_) => {}
            Err(refusal) => assert_ne!(refusal.code, 0),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    for_each_reading(bytes, answers);
    let words = words(bytes);
    items(&words);
    objects(&words);
});
