//! The recorded dictionary messages and hashes of tests/vectors, for tests.

use serde_json::Value;

/// One line of a vectors file.
pub(crate) struct Vector {
    pub name: String,
    pub decoded: Value,
    raw: Value,
}

impl Vector {
    /// The message's words; empty for a hash.
    pub fn words(&self) -> Vec<u32> {
        if self.raw["words"].is_array() { hex_words(&self.raw["words"]) } else { Vec::new() }
    }

    /// The bytes that were hashed.
    pub fn bytes(&self) -> Vec<u8> {
        if let Some(bytes) = self.raw["bytes"].as_str() {
            return hex_bytes(bytes);
        }
        let length = self.decoded["length"].as_u64().unwrap() as usize;
        (0..length as u32 / 4 + 1).flat_map(|i| (0xcafe_babe + i).to_le_bytes()).take(length).collect()
    }
}

/// Every line of the dictionary's vectors, in their order.
pub(crate) fn dictionary() -> impl Iterator<Item = Vector> {
    include_str!("../../tests/vectors/dictionary.jsonl").lines().map(|line| {
        let raw: Value = serde_json::from_str(line).unwrap();
        Vector { name: raw["name"].as_str().unwrap().to_owned(), decoded: raw["decoded"].clone(), raw }
    })
}

/// The vector of that name.
pub(crate) fn named(name: &str) -> Vector {
    dictionary().find(|vector| vector.name == name).unwrap_or_else(|| panic!("no vector {name}"))
}

pub(crate) fn hex_words(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|w| u32::from_str_radix(w.as_str().unwrap(), 16).unwrap()).collect()
}

pub(crate) fn hex_bytes(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// Bytes as words, zero padded.
pub(crate) fn words_of(bytes: &[u8]) -> Vec<u32> {
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, &byte| word << 8 | byte as u32);
    bytes.chunks(4).map(word).collect()
}
