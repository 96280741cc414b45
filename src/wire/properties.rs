//! SimpleProperties: the list of (key, value) items in which table definitions travel. Item heads are big
//! endian whatever the nodes are; strings end in a NUL that their length counts. Source:
//! storage/ndb/src/common/util/SimpleProperties.cpp.

const TYPE_U32: u32 = 0;
const TYPE_STRING: u32 = 1;
const TYPE_BINARY: u32 = 2;

/// One item's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number.
    U32(u32),
    /// A string's bytes, without the NUL that ends it.
    Str(&'a [u8]),
    /// Bytes as they are; their byte order is the key's affair.
    Bin(&'a [u8]),
}

/// The words are no list of items: one overruns the end, has a type that is not known, or is a string without
/// its NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Reads items one by one; after an error nothing follows.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u32],
}

impl<'a> Reader<'a> {
    /// A reader of a whole list.
    pub fn new(words: &'a [u32]) -> Self {
        Reader { rest: words }
    }

    fn item(&mut self) -> Result<(u16, Value<'a>), Malformed> {
        let [head, second, after @ ..] = self.rest else { return Err(Malformed) };
        let (head, second) = (u32::from_be(*head), u32::from_be(*second));
        let kind = head >> 16;
        let value = match kind {
            TYPE_U32 => {
                self.rest = after;
                Value::U32(second)
            }
            TYPE_STRING | TYPE_BINARY => {
                let length = second as usize;
                let (words, rest) = after.split_at_checked(length.div_ceil(4)).ok_or(Malformed)?;
                let bytes = bytemuck::cast_slice(words).get(..length).ok_or(Malformed)?;
                self.rest = rest;
                match (kind, bytes) {
                    (TYPE_BINARY, _) => Value::Bin(bytes),
                    (_, [string @ .., 0]) => Value::Str(string),
                    _ => return Err(Malformed),
                }
            }
            _ => return Err(Malformed),
        };
        Ok((head as u16, value))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<(u16, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let item = self.item();
        if item.is_err() {
            self.rest = &[];
        }
        Some(item)
    }
}

/// Writes items one after the other.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    words: Vec<u32>,
}

impl Writer {
    /// An empty list.
    pub fn new() -> Self {
        Writer::default()
    }

    /// Adds a number.
    pub fn u32(&mut self, key: u16, value: u32) -> &mut Self {
        self.head(TYPE_U32, key, value)
    }

    /// Adds a string; the NUL that ends it is added.
    pub fn string(&mut self, key: u16, value: &[u8]) -> &mut Self {
        self.head(TYPE_STRING, key, value.len() as u32 + 1);
        self.bytes(value, 1)
    }

    /// Adds bytes as they are.
    pub fn binary(&mut self, key: u16, value: &[u8]) -> &mut Self {
        self.head(TYPE_BINARY, key, value.len() as u32);
        self.bytes(value, 0)
    }

    /// The list.
    pub fn finish(self) -> Vec<u32> {
        self.words
    }

    fn head(&mut self, kind: u32, key: u16, value: u32) -> &mut Self {
        self.words.extend([(kind << 16 | key as u32).to_be(), value.to_be()]);
        self
    }

    fn bytes(&mut self, value: &[u8], zeros: usize) -> &mut Self {
        let start = self.words.len();
        self.words.resize(start + (value.len() + zeros).div_ceil(4), 0);
        bytemuck::cast_slice_mut::<u32, u8>(&mut self.words[start..])[..value.len()].copy_from_slice(value);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dict::vectors;
    use crate::wire::signal;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Owned {
        U32(u32),
        Str(Vec<u8>),
        Bin(Vec<u8>),
    }

    fn owned() -> impl Strategy<Value = Owned> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
        prop_oneof![
            any::<u32>().prop_map(Owned::U32),
            bytes().prop_map(Owned::Str),
            bytes().prop_map(Owned::Bin)
        ]
    }

    fn write(items: &[(u16, Owned)]) -> Vec<u32> {
        let mut writer = Writer::new();
        for (key, value) in items {
            match value {
                Owned::U32(number) => writer.u32(*key, *number),
                Owned::Str(bytes) => writer.string(*key, bytes),
                Owned::Bin(bytes) => writer.binary(*key, bytes),
            };
        }
        writer.finish()
    }

    #[test]
    fn recorded_definitions() {
        let mut seen = 0;
        for vector in vectors::dictionary().filter(|v| v.decoded["section0"].is_array()) {
            let words = vector.words();
            let signal = signal::decode(&words).unwrap();
            let section = signal.sections()[0];
            if signal.fragment != signal::Fragment::Whole {
                continue;
            }
            let items: Vec<_> = Reader::new(section).map(|item| item.unwrap()).collect();
            let expected = vector.decoded["section0"].as_array().unwrap();
            assert_eq!(items.len(), expected.len(), "{}", vector.name);
            for ((key, value), expected) in items.iter().zip(expected) {
                assert_eq!(*key as u64, expected[0].as_u64().unwrap());
                match value {
                    Value::U32(number) => assert_eq!(*number as u64, expected[3].as_u64().unwrap()),
                    Value::Str(bytes) => assert_eq!(*bytes, expected[3].as_str().unwrap().as_bytes()),
                    Value::Bin(_) => assert_eq!(expected[2], "bin"),
                }
            }
            let mut writer = Writer::new();
            for (key, value) in items {
                match value {
                    Value::U32(number) => writer.u32(key, number),
                    Value::Str(bytes) => writer.string(key, bytes),
                    Value::Bin(bytes) => writer.binary(key, bytes),
                };
            }
            assert_eq!(writer.finish(), section, "{}", vector.name);
            seen += 1;
        }
        assert!(seen >= 8, "{seen} definitions");
    }

    #[test]
    fn overruns_are_errors() {
        let mut writer = Writer::new();
        writer.string(1, b"abcd");
        let words = writer.finish();
        assert_eq!(Reader::new(&words).collect::<Vec<_>>(), [Ok((1, Value::Str(b"abcd")))]);
        for length in 1..words.len() {
            assert_eq!(Reader::new(&words[..length]).collect::<Vec<_>>(), [Err(Malformed)]);
        }
        let huge = [(TYPE_BINARY << 16 | 3).to_be(), u32::MAX, 0];
        assert_eq!(Reader::new(&huge).next(), Some(Err(Malformed)));
        let no_nul = [(TYPE_STRING << 16 | 1).to_be(), 4u32.to_be(), 0x61616161];
        assert_eq!(Reader::new(&no_nul).next(), Some(Err(Malformed)));
        assert_eq!(Reader::new(&[(3u32 << 16).to_be(), 0]).next(), Some(Err(Malformed)));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(items in proptest::collection::vec((any::<u16>(), owned()), 0..20)) {
            let words = write(&items);
            let read: Vec<_> = Reader::new(&words).map(|item| item.unwrap()).collect();
            prop_assert_eq!(read.len(), items.len());
            for ((key, value), (read_key, read_value)) in items.iter().zip(read) {
                prop_assert_eq!(*key, read_key);
                match value {
                    Owned::U32(number) => prop_assert_eq!(read_value, Value::U32(*number)),
                    Owned::Str(bytes) => prop_assert_eq!(read_value, Value::Str(bytes)),
                    Owned::Bin(bytes) => prop_assert_eq!(read_value, Value::Bin(bytes)),
                }
            }
        }

        #[test]
        fn any_words_end(words in proptest::collection::vec(prop_oneof![any::<u32>(), 0u32..4], 0..60)) {
            prop_assert!(Reader::new(&words).count() <= words.len());
        }
    }
}
