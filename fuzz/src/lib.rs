//! What the fuzz targets share: bytes as words, and signals out of whatever bytes a fuzzer makes.

pub mod script;

use iclaustron::dict::table::Table;
use iclaustron::link::page::for_each_signal;
use iclaustron::wire::column::ColumnType;
use iclaustron::wire::properties::Writer;
use iclaustron::wire::signal::{Header, MAX_DATA, MAX_MESSAGE, Signal, decode};

/// Bits of a message's first word: other byte order or compressed, and checksum.
const REFUSED: u32 = 0x8100_0089;
const CHECKSUM: u32 = 1 << 4;

/// The input as words; bytes that fill no word are left out.
pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect()
}

/// Gives a message the length that it has, and the checksum if it says that there is one, so that the fuzzer
/// need not guess them.
pub fn seal(message: &mut [u32]) {
    let length = message.len();
    if !(4..=MAX_MESSAGE).contains(&length) {
        return;
    }
    message[0] = message[0] & !(REFUSED | 0xffff << 8) | (length as u32) << 8;
    if message[0] & CHECKSUM != 0 {
        message[length - 1] = message[..length - 1].iter().fold(0, |sum, word| sum ^ word);
    }
}

/// Shows `see` every signal that the input can be taken for: a stream of messages, one message, bare data.
pub fn for_each_reading(bytes: &[u8], mut see: impl FnMut(Signal<'_>)) {
    let mut words = words(bytes);
    let _ = for_each_signal(&words, |_, _| true, &mut see);
    if let [header, data @ ..] = &words[..] {
        let header = Header { gsn: *header as u16, receiver: 0x8000, sender: (header >> 16) as u16 };
        see(Signal::short(header, &data[..data.len().min(MAX_DATA)]));
    }
    seal(&mut words);
    if let Ok(signal) = decode(&words) {
        see(signal);
    }
}

/// A table with a key and, for every type that a record can hold, a column that may be NULL and one that may
/// not.
pub fn table_of_all_types() -> Table {
    let mut columns = vec![(ColumnType::Unsigned, true, false), (ColumnType::Varbinary, true, false)];
    for &kind in ColumnType::ALL.iter().filter(|kind| !kind.is_blob()) {
        columns.extend([(kind, false, false), (kind, false, true)]);
    }
    let mut writer = Writer::new();
    writer.string(1, b"db/def/all").u32(2, 7).u32(3, 1).u32(6, columns.len() as u32);
    for (kind, key, nullable) in columns {
        let length = match kind.array_type().length_bytes() {
            1 => 20,
            2 => 300,
            _ if kind.is_character() || kind == ColumnType::Binary => 5,
            _ if kind == ColumnType::Bit => 37,
            _ => 1,
        };
        let (precision, scale) = if kind.is_decimal() { (11, 3) } else { (0, 0) };
        writer
            .string(1000, kind.name().as_bytes())
            .u32(1006, key as u32)
            .u32(1008, nullable as u32)
            .u32(1013, kind.number())
            .u32(1014, if kind.is_character() { 63 << 16 } else { precision })
            .u32(1015, scale)
            .u32(1016, length)
            .u32(1019, kind.array_type() as u32)
            .u32(1999, 1);
    }
    Table::parse(&writer.finish()).expect("a definition")
}
