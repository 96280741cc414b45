//! Column types: their numbers, how many bytes a value takes, and the form in which a character value enters
//! the distribution hash. Sources: storage/ndb/include/kernel/signaldata/DictTabInfo.hpp,
//! storage/ndb/src/common/util/NdbSqlUtil.cpp, storage/ndb/src/ndbapi/Ndb.cpp.

use super::hash::Hasher;

/// The most bytes of one column's value.
pub const MAX_VALUE_BYTES: u32 = 65535 + 2;

macro_rules! types {
    ($($name:ident = $number:literal,)*) => {
        /// A column's type, with NDB's number.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum ColumnType {
            $(#[doc = concat!("Type ", stringify!($number), ".")] $name = $number,)*
        }

        impl ColumnType {
            /// Every type, by number.
            pub const ALL: &[ColumnType] = &[$(ColumnType::$name,)*];

            /// The type of a number off the wire.
            pub const fn from_number(number: u32) -> Option<ColumnType> {
                match number { $($number => Some(ColumnType::$name),)* _ => None }
            }

            /// The type's name.
            pub const fn name(self) -> &'static str {
                match self { $(ColumnType::$name => stringify!($name),)* }
            }
        }
    };
}

types! {
    Tinyint = 1, Tinyunsigned = 2, Smallint = 3, Smallunsigned = 4, Mediumint = 5, Mediumunsigned = 6,
    Int = 7, Unsigned = 8, Bigint = 9, Bigunsigned = 10, Float = 11, Double = 12, Olddecimal = 13, Char = 14,
    Varchar = 15, Binary = 16, Varbinary = 17, Datetime = 18, Date = 19, Blob = 20, Text = 21, Bit = 22,
    Longvarchar = 23, Longvarbinary = 24, Time = 25, Year = 26, Timestamp = 27, Olddecimalunsigned = 28,
    Decimal = 29, Decimalunsigned = 30, Time2 = 31, Datetime2 = 32, Timestamp2 = 33,
}

/// How a value says its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ArrayType {
    /// It does not: every value has the same size.
    Fixed = 0,
    /// In one byte before the data.
    ShortVar = 1,
    /// In two bytes before the data, little endian.
    MediumVar = 2,
    /// By the attribute's length alone: only the internal column of a unique index.
    NoneVar = 3,
}

impl ArrayType {
    /// The array type of a number off the wire.
    pub const fn from_number(number: u32) -> Option<ArrayType> {
        Some(match number {
            0 => ArrayType::Fixed,
            1 => ArrayType::ShortVar,
            2 => ArrayType::MediumVar,
            3 => ArrayType::NoneVar,
            _ => return None,
        })
    }

    /// Length bytes before the data.
    pub const fn length_bytes(self) -> u32 {
        match self {
            ArrayType::Fixed | ArrayType::NoneVar => 0,
            ArrayType::ShortVar => 1,
            ArrayType::MediumVar => 2,
        }
    }
}

impl ColumnType {
    /// NDB's number.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Whether the type has a character set.
    pub const fn is_character(self) -> bool {
        matches!(self, ColumnType::Char | ColumnType::Varchar | ColumnType::Longvarchar | ColumnType::Text)
    }

    /// Whether values lie in a table of their own, all but their first bytes.
    pub const fn is_blob(self) -> bool {
        matches!(self, ColumnType::Blob | ColumnType::Text)
    }

    /// Whether precision and scale are digits before and after the decimal point.
    pub const fn is_decimal(self) -> bool {
        use ColumnType::*;
        matches!(self, Olddecimal | Olddecimalunsigned | Decimal | Decimalunsigned)
    }

    /// Whether precision is the number of digits of a second's fraction.
    pub const fn has_fraction(self) -> bool {
        matches!(self, ColumnType::Time2 | ColumnType::Datetime2 | ColumnType::Timestamp2)
    }

    /// The array type that new columns of this type have.
    pub const fn array_type(self) -> ArrayType {
        use ColumnType::*;
        match self {
            Varchar | Varbinary => ArrayType::ShortVar,
            Longvarchar | Longvarbinary | Blob | Text => ArrayType::MediumVar,
            _ => ArrayType::Fixed,
        }
    }

    /// The bytes of one element for types whose size follows from the type alone.
    const fn element_bytes(self) -> Option<u32> {
        use ColumnType::*;
        Some(match self {
            Tinyint | Tinyunsigned | Year => 1,
            Smallint | Smallunsigned => 2,
            Mediumint | Mediumunsigned | Date | Time => 3,
            Int | Unsigned | Float | Timestamp => 4,
            Bigint | Bigunsigned | Double | Datetime => 8,
            _ => return None,
        })
    }

    /// The alignment that a C compiler gives to a value of this type.
    pub const fn alignment(self) -> u32 {
        use ColumnType::*;
        match self {
            Smallint | Smallunsigned => 2,
            Int | Unsigned | Float | Bit => 4,
            Bigint | Bigunsigned | Double => 8,
            _ => 1,
        }
    }
}

/// The most bytes that a value takes in a row, length bytes included; whole words for bits. None for a
/// length, precision or scale that no column can have.
pub fn value_bytes(
    kind: ColumnType,
    array: ArrayType,
    length: u32,
    precision: u32,
    scale: u32,
) -> Option<u32> {
    use ColumnType::*;
    let bytes = match kind {
        Char | Varchar | Binary | Varbinary | Longvarchar | Longvarbinary => {
            length.checked_add(kind.array_type().length_bytes())?
        }
        Blob | Text if array == ArrayType::Fixed => precision.checked_add(8)?,
        Blob | Text => precision.checked_add(16)?,
        Bit => length.div_ceil(32).checked_mul(4)?,
        Olddecimal => precision.checked_add(1 + (scale > 0) as u32)?.checked_mul(length)?,
        Olddecimalunsigned => precision.checked_add((scale > 0) as u32)?.checked_mul(length)?,
        Decimal | Decimalunsigned => decimal_bytes(precision, scale)?.checked_mul(length)?,
        Time2 => fraction_bytes(3, precision)?.checked_mul(length)?,
        Datetime2 => fraction_bytes(5, precision)?.checked_mul(length)?,
        Timestamp2 => fraction_bytes(4, precision)?.checked_mul(length)?,
        _ => kind.element_bytes()?.checked_mul(length)?,
    };
    (1..=MAX_VALUE_BYTES).contains(&bytes).then_some(bytes)
}

/// The size of a time with that many digits of a fraction: two digits take one byte more.
fn fraction_bytes(whole: u32, digits: u32) -> Option<u32> {
    Some(whole + digits.checked_add(1)? / 2)
}

/// The size of a packed decimal: nine digits take four bytes, fewer take as few as hold them.
fn decimal_bytes(precision: u32, scale: u32) -> Option<u32> {
    const BYTES: [u32; 9] = [0, 1, 1, 2, 2, 3, 3, 4, 4];
    let bytes = |digits: u32| (digits / 9 * 4).checked_add(BYTES[digits as usize % 9]);
    bytes(precision.checked_sub(scale)?)?.checked_add(bytes(scale)?)
}

/// The collations whose hash form can be computed without weight tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collation {
    /// Bytes compare as they are: binary and the 8 bit `_bin` collations.
    Bytes,
    /// utf8mb4_bin: code points in three bytes.
    Utf8mb4Bin,
    /// utf8mb3_bin: code points in two bytes.
    Utf8mb3Bin,
    /// utf8mb4_0900_bin: no padding, and a hash of its own.
    Utf8mb40900Bin,
}

impl Collation {
    /// The collation of that number in MySQL; none when its hash form cannot be computed, so that the only
    /// right hint is no hint.
    pub const fn of(number: u32) -> Option<Collation> {
        Some(match number {
            63 | 47 | 43 | 50 | 53 | 58 | 64..=75 | 77..=82 | 89 | 93 => Collation::Bytes,
            46 => Collation::Utf8mb4Bin,
            83 => Collation::Utf8mb3Bin,
            309 => Collation::Utf8mb40900Bin,
            _ => return None,
        })
    }

    /// Adds `value`, given without length bytes, to a hash in its hash form for a column of at most `max`
    /// bytes. None when the bytes are no text of this collation.
    pub fn hash(self, value: &[u8], max: usize, hasher: &mut Hasher) -> Option<()> {
        match self {
            Collation::Bytes => {
                hasher.write(value.get(..max).unwrap_or(value));
                hasher.fill(b' ', max.saturating_sub(value.len()));
            }
            Collation::Utf8mb4Bin => hash_code_points::<3>(value, max, hasher)?,
            Collation::Utf8mb3Bin => hash_code_points::<2>(value, max, hasher)?,
            Collation::Utf8mb40900Bin => {
                let text = std::str::from_utf8(value).ok()?;
                hasher.write(&fold_bytes(text.trim_end_matches(' ').as_bytes()).to_le_bytes());
            }
        }
        Some(())
    }
}

/// Each character as the low `N` bytes of its code point, big endian, padded with spaces and cut at `max`.
fn hash_code_points<const N: usize>(value: &[u8], max: usize, hasher: &mut Hasher) -> Option<()> {
    let text = std::str::from_utf8(value).ok()?;
    let mut room = max;
    let mut write = |character: char| {
        let bytes = (character as u32).to_be_bytes();
        let (high, low) = bytes.split_at(4 - N);
        let take = room.min(N);
        hasher.write(&low[..take]);
        room -= take;
        (high.iter().all(|&byte| byte == 0)).then_some(room)
    };
    for character in text.chars() {
        write(character)?;
    }
    while write(' ')? > 0 {}
    Some(())
}

fn fold_bytes(bytes: &[u8]) -> u64 {
    let mut hash = 0u64;
    let mut step = 0u64;
    for &byte in bytes {
        let mixed = ((hash & 63).wrapping_add(step)).wrapping_mul(byte as u64).wrapping_add(hash << 8);
        hash ^= mixed;
        step = step.wrapping_add(3);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dict::vectors;
    use proptest::prelude::*;

    fn hash_of(collation: Collation, value: &[u8], max: usize) -> Option<[u32; 4]> {
        let mut hasher = Hasher::new();
        collation.hash(value, max, &mut hasher)?;
        Some(hasher.finish())
    }

    #[test]
    fn types_and_numbers() {
        assert_eq!(ColumnType::ALL.len(), 33);
        for (index, &kind) in ColumnType::ALL.iter().enumerate() {
            assert_eq!(kind.number() as usize, index + 1);
            assert_eq!(ColumnType::from_number(kind.number()), Some(kind));
        }
        assert_eq!(ColumnType::from_number(0), None);
        assert_eq!(ColumnType::from_number(34), None);
    }

    #[test]
    fn sizes() {
        use ColumnType::*;
        let size = |kind: ColumnType, length, precision, scale| {
            value_bytes(kind, kind.array_type(), length, precision, scale)
        };
        assert_eq!(size(Unsigned, 1, 0, 0), Some(4));
        assert_eq!(size(Mediumint, 2, 0, 0), Some(6));
        assert_eq!(size(Varchar, 255, 0, 0), Some(256));
        assert_eq!(size(Longvarbinary, 256, 0, 0), Some(258));
        assert_eq!(size(Bit, 1, 0, 0), Some(4));
        assert_eq!(size(Bit, 33, 0, 0), Some(8));
        assert_eq!(size(Decimal, 1, 10, 2), Some(5));
        assert_eq!(size(Decimal, 1, 65, 30), Some(30));
        assert_eq!(size(Olddecimal, 1, 5, 2), Some(7));
        assert_eq!(size(Olddecimalunsigned, 1, 5, 0), Some(5));
        assert_eq!(size(Time2, 1, 6, 0), Some(6));
        assert_eq!(size(Datetime2, 1, 3, 0), Some(7));
        assert_eq!(size(Timestamp2, 1, 0, 0), Some(4));
        assert_eq!(size(Text, 0, 256, 8000), Some(272));
        assert_eq!(size(Decimal, 1, 2, 3), None);
        assert_eq!(size(Int, 0, 0, 0), None);
        assert_eq!(size(Bigint, u32::MAX, 0, 0), None);
        assert_eq!(size(Longvarchar, 65535, 0, 0), Some(65537));
        assert_eq!(size(Longvarchar, 65536, 0, 0), None);
    }

    #[test]
    fn recorded_hash_forms() {
        let mut seen = std::collections::BTreeSet::new();
        for vector in
            vectors::dictionary().filter(|v| v.name.starts_with("hash-") && !v.decoded["key"].is_null())
        {
            let columns = vector.decoded["columns"].as_array().unwrap();
            let charset = columns[0]["charset"].as_u64().unwrap() as u32;
            if columns.len() > 1 || charset == 0 {
                continue;
            }
            let max = columns[0]["length"].as_u64().unwrap() as usize;
            let mut value = vectors::hex_bytes(vector.decoded["key"][0].as_str().unwrap());
            if columns[0]["type"] == "char" {
                value.resize(max, b' ');
            }
            let hash = hash_of(Collation::of(charset).unwrap(), &value, max).unwrap();
            assert_eq!(hash[..], vectors::hex_words(&vector.decoded["hash"])[..], "{}", vector.name);
            seen.insert(charset);
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [46, 47, 63, 83, 309]);
    }

    #[test]
    fn unknown_collations_and_bad_text_give_none() {
        assert_eq!([255, 8, 45, 33, 0, 76].map(Collation::of), [None; 6]);
        assert_eq!(hash_of(Collation::Utf8mb4Bin, b"a\xff", 8), None);
        assert_eq!(hash_of(Collation::Utf8mb40900Bin, b"\xc3", 8), None);
        assert_eq!(hash_of(Collation::Utf8mb3Bin, "\u{1f600}".as_bytes(), 8), None);
        assert!(hash_of(Collation::Bytes, b"a\xff", 8).is_some());
    }

    proptest! {
        #[test]
        fn nothing_panics(value in proptest::collection::vec(any::<u8>(), 0..80), max in 0usize..80) {
            use Collation::*;
            for collation in [Bytes, Utf8mb4Bin, Utf8mb3Bin, Utf8mb40900Bin] {
                let mut padded = value.clone();
                padded.push(b' ');
                let hash = hash_of(collation, &value, max);
                if value.len() < max {
                    prop_assert_eq!(hash_of(collation, &padded, max), hash, "trailing spaces do not count");
                }
            }
        }

        #[test]
        fn sizes_never_overflow(
            kind in 1u32..34, array in 0u32..4, length: u32, precision: u32, scale: u32
        ) {
            let kind = ColumnType::from_number(kind).unwrap();
            let bytes = value_bytes(kind, ArrayType::from_number(array).unwrap(), length, precision, scale);
            prop_assert!(bytes.is_none_or(|bytes| (1..=MAX_VALUE_BYTES).contains(&bytes)));
        }
    }
}
