//! Random values of columns of every type that a record can hold.

use iclaustron::dict::record::Record;
use iclaustron::dict::table::{Column, NewColumn, Table};
use iclaustron::wire::column::ColumnType;

use crate::kit::{Random, column};

/// A column of a type, of a shape that the number chooses.
pub fn column_of(name: &str, kind: ColumnType, shape: usize) -> NewColumn {
    use ColumnType::*;
    let of = |choices: &[u32]| choices[shape % choices.len()];
    NewColumn {
        length: match kind {
            Char | Varchar | Binary | Varbinary => of(&[24, 1, 255, 7]),
            Longvarchar | Longvarbinary => of(&[256, 300, 513]),
            Bit => of(&[1, 32, 33, 7, 64, 70]),
            _ => 1,
        },
        precision: match kind {
            Decimal | Decimalunsigned | Olddecimal | Olddecimalunsigned => of(&[10, 65, 1, 30]),
            Time2 | Datetime2 | Timestamp2 => of(&[0, 6, 3, 1]),
            _ => 0,
        },
        scale: if kind.is_decimal() { of(&[2, 30, 0, 10]) } else { 0 },
        charset: if kind.is_character() { of(&[47, 63]) } else { 0 },
        ..column(name, kind)
    }
}

/// Text of at most `room` bytes in a collation's character set.
fn text(charset: u32, room: usize, random: &mut Random) -> Vec<u8> {
    let ascii = ["a", "B", "z", "0", "~", " "];
    let two = ["é", "ß", "Ω", "ж"];
    let three = ["中", "€", "\u{ffee}"];
    let four = ["😀", "𝄞"];
    let mut alphabet = ascii.to_vec();
    if matches!(charset, 46 | 83 | 255 | 309) {
        alphabet.extend(two);
        alphabet.extend(three);
    }
    if matches!(charset, 46 | 255 | 309) {
        alphabet.extend(four);
    }
    let wanted = match random.below(4) {
        0 => room,
        _ => random.below(room + 1),
    };
    let mut text = Vec::new();
    loop {
        let next = alphabet[random.below(alphabet.len())].as_bytes();
        if text.len() + next.len() > wanted {
            return text;
        }
        text.extend_from_slice(next);
    }
}

/// A value of a column as a row holds it, its length bytes included.
pub fn value(column: &Column, random: &mut Random) -> Vec<u8> {
    use ColumnType::*;
    let size = column.size as usize;
    let full = random.below(4) == 0;
    match column.kind {
        Char => {
            let mut value = text(column.charset, size, random);
            value.resize(size, b' ');
            value
        }
        Varchar | Longvarchar | Varbinary | Longvarbinary => {
            let room = column.length as usize;
            let data = match column.kind.is_character() {
                true => text(column.charset, room, random),
                false => {
                    let length = if full { room } else { random.below(room + 1) };
                    random.bytes(length)
                }
            };
            let length = (data.len() as u16).to_le_bytes();
            [&length[..size - room], &data].concat()
        }
        Bit => {
            let mut value = random.bytes(size);
            let bits = column.length as usize;
            for (at, byte) in value.iter_mut().enumerate() {
                let left = bits.saturating_sub(8 * at).min(8);
                *byte &= (0xffu16 >> (8 - left)) as u8;
            }
            value
        }
        // No infinities and no NaN: keys of such values find nothing.
        Float => (random.next() as i32 as f32 / 7.0).to_le_bytes().to_vec(),
        Double => (random.next() as i64 as f64 / 7.0).to_le_bytes().to_vec(),
        Olddecimal | Olddecimalunsigned => (0..size).map(|_| b'0' + random.below(10) as u8).collect(),
        _ => random.bytes(size),
    }
}

/// A row of random values of a record, and its columns as [`read_row`] gives them.
pub fn fill_row(table: &Table, record: &Record, row: &mut [u8], random: &mut Random) {
    for field in record.fields() {
        let column = &table.columns[field.column_id as usize];
        if let Some((byte, bit)) = field.null {
            let null = random.below(4) == 0;
            let byte = &mut row[byte as usize];
            *byte = *byte & !(1 << bit) | (null as u8) << bit;
        }
        let value = value(column, random);
        row[field.offset as usize..][..value.len()].copy_from_slice(&value);
    }
}

/// The columns of a row: number and value, none for NULL.
pub fn read_row(record: &Record, row: &[u8]) -> Vec<(u16, Option<Vec<u8>>)> {
    let value = |field: &iclaustron::dict::record::Field| {
        (!field.is_null(row)).then(|| field.value(row).unwrap().to_vec())
    };
    record.fields().iter().map(|field| (field.column_id, value(field))).collect()
}
