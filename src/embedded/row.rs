//! Rows: how they are stored, what ATTRINFO does to them, what is read from them. Source:
//! storage/ndb/src/kernel/blocks/dbtup/DbtupRoutines.cpp.
//!
//! A stored row begins with a word for each column: where its value begins (word, from the start of the row)
//! and how many bytes it has; 0 is NULL, for no value is empty. The values follow, each at a whole word.

use super::table::{Column, Table};
use crate::wire::attribute::packed::Form;
use crate::wire::attribute::{AttributeHeader, pseudo};

const LENGTH_BITS: u32 = 17;

/// The words of a read program are not what a node can follow (880).
const MALFORMED: i32 = 880;
/// A value does not fit its column.
const WRONG_LENGTH: i32 = 829;
const NOT_NULL: i32 = 839;
const NO_SUCH_COLUMN: i32 = 884;
const KEY_CHANGED: i32 = 897;

/// What a read needs besides the row.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings {
    /// The fragment.
    pub fragment: u32,
    /// Rows in it.
    pub rows: u64,
    /// Commits in it.
    pub commits: u64,
}

/// A column's value in a stored row; none is NULL.
#[inline]
pub fn value(row: &[u32], column: usize) -> Option<&[u8]> {
    let entry = *row.get(column)?;
    if entry == 0 {
        return None;
    }
    let (start, length) = (entry >> LENGTH_BITS, entry & ((1 << LENGTH_BITS) - 1));
    bytemuck::cast_slice::<u32, u8>(row.get(start as usize..)?).get(..length as usize)
}

/// The row that a write makes: of nothing, or of the one that is there.
pub fn write(table: &Table, old: Option<&[u32]>, attributes: &[u32]) -> Result<Vec<u32>, i32> {
    let mut values: Vec<Option<&[u8]>> = match old {
        Some(old) => (0..table.columns.len()).map(|at| value(old, at)).collect(),
        None => table.columns.iter().map(|column| column.default.as_deref()).collect(),
    };
    let mut rest = attributes;
    while let Some((&head, after)) = rest.split_first() {
        let head = AttributeHeader(head);
        let (words, after) = after.split_at_checked(head.bytes().div_ceil(4)).ok_or(MALFORMED)?;
        rest = after;
        let bytes = bytemuck::cast_slice::<u32, u8>(words).get(..head.bytes()).ok_or(MALFORMED)?;
        if head.id() == pseudo::ANY_VALUE {
            continue;
        }
        let column = table.columns.get(head.id() as usize).ok_or(NO_SUCH_COLUMN)?;
        if bytes.is_empty() && !column.nullable {
            return Err(if old.is_some() { WRONG_LENGTH } else { NOT_NULL });
        }
        if !bytes.is_empty() && !column.holds(bytes) {
            return Err(WRONG_LENGTH);
        }
        let at = head.id() as usize;
        if column.key && old.is_some() && !column.same(values[at], bytes) {
            return Err(KEY_CHANGED);
        }
        values[at] = (!bytes.is_empty()).then_some(bytes);
    }
    let missing = |(at, column): (usize, &Column)| !column.nullable && values[at].is_none();
    if table.columns.iter().enumerate().any(missing) {
        return Err(NOT_NULL);
    }
    Ok(stored(&values))
}

fn stored(values: &[Option<&[u8]>]) -> Vec<u32> {
    let words: usize = values.iter().flatten().map(|value| value.len().div_ceil(4)).sum();
    let mut row = vec![0; values.len() + words];
    let mut at = values.len();
    for (column, value) in values.iter().enumerate() {
        let Some(value) = value else { continue };
        row[column] = (at as u32) << LENGTH_BITS | value.len() as u32;
        let end = at + value.len().div_ceil(4);
        bytemuck::cast_slice_mut::<u32, u8>(&mut row[at..end])[..value.len()].copy_from_slice(value);
        at = end;
    }
    row
}

/// Appends what ATTRINFO asks for.
#[inline]
pub fn read(
    table: &Table,
    row: &[u32],
    attributes: &[u32],
    around: &Surroundings,
    out: &mut Vec<u32>,
) -> Result<(), i32> {
    let mut rest = attributes;
    while let Some((&word, after)) = rest.split_first() {
        let head = AttributeHeader(word);
        rest = after;
        match head.id() {
            id if (id as usize) < table.columns.len() => plain(row, id, out),
            pseudo::READ_PACKED => {
                let (mask, after) = rest.split_at_checked(head.bytes().div_ceil(4)).ok_or(MALFORMED)?;
                rest = after;
                packed(
                    table,
                    row,
                    |column| mask.get(column / 32).is_some_and(|m| m >> (column % 32) & 1 != 0),
                    32 * mask.len(),
                    out,
                );
            }
            pseudo::READ_ALL => {
                let count = head.bytes();
                packed(table, row, |column| column < count, count, out);
            }
            // A delete can have a value for those who listen among what it reads.
            pseudo::ANY_VALUE => {
                rest = rest.get(head.bytes().div_ceil(4)..).ok_or(MALFORMED)?;
            }
            id => pseudo_column(id, row, around, out)?,
        }
    }
    Ok(())
}

#[inline]
fn plain(row: &[u32], id: u16, out: &mut Vec<u32>) {
    let value = value(row, id as usize).unwrap_or_default();
    out.push(AttributeHeader::new(id, value.len() as u16).0);
    push(value, out);
}

#[inline]
fn push(value: &[u8], out: &mut Vec<u32>) {
    let (words, tail) = value.as_chunks::<4>();
    out.extend(words.iter().map(|word| u32::from_le_bytes(*word)));
    if !tail.is_empty() {
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        out.push(u32::from_le_bytes(last));
    }
}

fn pseudo_column(id: u16, row: &[u32], around: &Surroundings, out: &mut Vec<u32>) -> Result<(), i32> {
    let low_high = |value: u64| [value as u32, (value >> 32) as u32];
    let words: &[u32] = match id {
        pseudo::FRAGMENT => &[around.fragment],
        pseudo::ROW_COUNT => &low_high(around.rows),
        pseudo::COMMIT_COUNT => &low_high(around.commits),
        pseudo::ROW_SIZE => &[4 * row.len() as u32],
        pseudo::RANGE_NO => &[0],
        pseudo::FRAGMENT_FIXED_MEMORY
        | pseudo::FRAGMENT_VARSIZED_MEMORY
        | pseudo::FRAGMENT_EXTENT_SPACE
        | pseudo::FRAGMENT_FREE_EXTENT_SPACE => &[0, 0],
        pseudo::ROW_AUTHOR => &[],
        _ => return Err(NO_SUCH_COLUMN),
    };
    out.push(AttributeHeader::new(id, 4 * words.len() as u16).0);
    out.extend_from_slice(words);
    Ok(())
}

/// Appends a packed row: the columns that are `wanted` among the first `limit`.
fn packed(table: &Table, row: &[u32], wanted: impl Fn(usize) -> bool, limit: usize, out: &mut Vec<u32>) {
    let columns = &table.columns[..table.columns.len().min(limit)];
    let nullable = columns.iter().enumerate().filter(|(at, column)| column.nullable && wanted(*at)).count();
    let mask_words = (columns.len() + nullable).div_ceil(32);
    out.push(AttributeHeader::new(pseudo::READ_PACKED, 4 * mask_words as u16).0);
    let mask = out.len();
    out.resize(mask + mask_words, 0);
    let mut data = Packer { start: out.len(), byte: 0, bit: 0 };
    let mut bit = 0;
    for (at, column) in columns.iter().enumerate() {
        if !wanted(at) {
            bit += 1;
            continue;
        }
        out[mask + bit / 32] |= 1 << (bit % 32);
        bit += 1;
        let value = value(row, at);
        if column.nullable {
            if value.is_none() {
                out[mask + bit / 32] |= 1 << (bit % 32);
            }
            bit += 1;
        }
        if let Some(value) = value {
            data.push(column.form, value, out);
        }
    }
}

/// Where the next value of a packed row goes.
struct Packer {
    start: usize,
    byte: usize,
    bit: u32,
}

impl Packer {
    fn push(&mut self, form: Form, value: &[u8], out: &mut Vec<u32>) {
        if let Form::Bits(bits) = form {
            return self.bits(bits, value, out);
        }
        if self.bit > 0 {
            (self.byte, self.bit) = (self.byte + 4, 0);
        }
        if let Form::Words(_) = form {
            self.byte = self.byte.next_multiple_of(4);
        }
        let end = self.byte + value.len();
        out.resize(self.start + end.div_ceil(4), 0);
        bytemuck::cast_slice_mut::<u32, u8>(&mut out[self.start..])[self.byte..end].copy_from_slice(value);
        self.byte = end;
    }

    fn bits(&mut self, bits: u32, value: &[u8], out: &mut Vec<u32>) {
        self.byte = self.byte.next_multiple_of(4);
        let end = self.bit + bits;
        out.resize(self.start + self.byte / 4 + end.div_ceil(32) as usize, 0);
        let words = &mut out[self.start + self.byte / 4..];
        for (at, chunk) in value.as_chunks::<4>().0.iter().enumerate() {
            let left = bits - 32 * at as u32;
            let word = u32::from_le_bytes(*chunk) & if left < 32 { (1 << left) - 1 } else { u32::MAX };
            words[at] |= word << self.bit;
            if self.bit > 0
                && let Some(next) = words.get_mut(at + 1)
            {
                *next |= word >> (32 - self.bit);
            }
        }
        self.byte += 4 * (end / 32) as usize;
        self.bit = end % 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dict::table::{NewColumn, NewTable};
    use crate::wire::attribute::Attributes;
    use crate::wire::attribute::packed::{self, PackedRow, push_read_all, push_read_packed};
    use crate::wire::column::ColumnType;
    use crate::wire::dictionary::ObjectId;
    use proptest::prelude::*;

    const AROUND: Surroundings = Surroundings { fragment: 3, rows: 7, commits: 9 };

    /// A key, and columns of every form, each nullable.
    fn table() -> Table {
        use ColumnType::*;
        let key = NewColumn { primary_key: true, ..NewColumn::new("k", Unsigned) };
        let kinds = [
            (Tinyint, 1),
            (Bit, 3),
            (Bit, 40),
            (Bigint, 1),
            (Varbinary, 20),
            (Binary, 5),
            (Longvarbinary, 300),
            (Unsigned, 1),
        ];
        let others = kinds.iter().enumerate().map(|(at, &(kind, length))| NewColumn {
            length,
            nullable: true,
            ..NewColumn::new(format!("c{at}"), kind)
        });
        let new = NewTable::new("db", "t", std::iter::once(key).chain(others).collect());
        Table::parse(&new.definition((ObjectId::received(1), 1)).unwrap()).unwrap()
    }

    /// A value of a column, made of random bytes; bits past a field's end are not set.
    fn value_of(column: &Column, random: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = random.iter().copied().cycle().take(column.size).collect();
        match column.form {
            Form::Bits(bits) if bits % 32 != 0 => {
                let last = bytes.len() - 4;
                let word = u32::from_le_bytes(bytes[last..].try_into().unwrap()) & ((1 << (bits % 32)) - 1);
                bytes[last..].copy_from_slice(&word.to_le_bytes());
            }
            Form::Short(_) => {
                let length = random[0] as usize % column.size;
                bytes[0] = length as u8;
                bytes.truncate(1 + length);
            }
            Form::Long(_) => {
                let length = random[0] as usize;
                bytes[..2].copy_from_slice(&(length as u16).to_le_bytes());
                bytes.truncate(2 + length);
            }
            _ => {}
        }
        bytes
    }

    fn put(out: &mut Vec<u32>, id: u16, value: &[u8]) {
        out.push(AttributeHeader::new(id, value.len() as u16).0);
        push(value, out);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            random in prop::collection::vec(any::<u8>(), 1..60),
            null: u16,
            wanted in prop::collection::btree_set(0u16..9, 1..9),
        ) {
            let table = table();
            let mut values = Vec::new();
            let mut attributes = Vec::new();
            for (id, column) in table.columns.iter().enumerate() {
                let value = (!column.nullable || null >> id & 1 == 0).then(|| value_of(column, &random));
                put(&mut attributes, id as u16, value.as_deref().unwrap_or_default());
                values.push(value);
            }
            let row = write(&table, None, &attributes).unwrap();
            // One by one.
            let list: Vec<u32> = wanted.iter().map(|&id| AttributeHeader::new(id, 0).0).collect();
            let mut out = Vec::new();
            read(&table, &row, &list, &AROUND, &mut out).unwrap();
            for (found, &id) in Attributes::new(&out).zip(&wanted) {
                let expected = values[id as usize].as_deref().unwrap_or_default();
                prop_assert_eq!(found.unwrap(), (id, expected));
            }
            // Packed, some of them and all, and something behind them.
            let columns: Vec<_> = table.columns.iter().map(|c| packed::Column { form: c.form, nullable: c.nullable }).collect();
            for all in [false, true] {
                let (mut request, mut out) = (Vec::new(), Vec::new());
                if all {
                    push_read_all(&mut request, 9).unwrap();
                } else {
                    push_read_packed(&mut request, wanted.iter().copied()).unwrap();
                }
                request.push(AttributeHeader::new(pseudo::FRAGMENT, 0).0);
                read(&table, &row, &request, &AROUND, &mut out).unwrap();
                let mut found = PackedRow::new(&out, &columns).unwrap();
                let mut count = 0;
                for cell in found.by_ref() {
                    let (id, cell) = cell.unwrap();
                    prop_assert!(all || wanted.contains(&(id as u16)));
                    let bytes = match cell {
                        packed::Value::Null => None,
                        packed::Value::Bytes(bytes) => Some(bytes.to_vec()),
                        packed::Value::Bits(bits) => Some(bits.words().flat_map(u32::to_le_bytes).collect()),
                    };
                    prop_assert_eq!(&bytes, &values[id]);
                    count += 1;
                }
                prop_assert_eq!(count, if all { 9 } else { wanted.len() });
                prop_assert_eq!(found.rest(), [AttributeHeader::new(pseudo::FRAGMENT, 4).0, 3]);
            }
            // A change of one column leaves the others.
            let mut change = Vec::new();
            put(&mut change, 8, &[1, 2, 3, 4]);
            let changed = write(&table, Some(&row), &change).unwrap();
            prop_assert_eq!(value(&changed, 8), Some(&[1, 2, 3, 4][..]));
            prop_assert_eq!(value(&changed, 5), values[5].as_deref());
        }

        #[test]
        fn any_words_are_done_or_refused(words in prop::collection::vec(prop_oneof![
            any::<u32>(), (0u32..10).prop_map(|id| id << 16), (0u32..10).prop_map(|id| id << 16 | 4),
            Just(0xfff3_0004u32), Just(0xfff0_0005u32),
        ], 0..30)) {
            let table = table();
            let row = write(&table, None, &[4, 1]).unwrap();
            let _ = (write(&table, None, &words), write(&table, Some(&row), &words));
            let _ = read(&table, &row, &words, &AROUND, &mut Vec::new());
        }
    }

    #[test]
    fn faulty_values_are_refused() {
        let table = table();
        let row = write(&table, None, &[4, 1]).unwrap();
        assert_eq!(write(&table, None, &[]), Err(NOT_NULL), "no key");
        assert_eq!(write(&table, None, &[0]), Err(NOT_NULL), "a NULL key");
        assert_eq!(write(&table, Some(&row), &[0]), Err(WRONG_LENGTH));
        assert_eq!(write(&table, Some(&row), &[4, 2]), Err(KEY_CHANGED));
        assert!(write(&table, Some(&row), &[4, 1]).is_ok());
        assert_eq!(write(&table, None, &[4, 1, 99 << 16 | 4, 1]), Err(NO_SUCH_COLUMN));
        assert_eq!(write(&table, None, &[4]), Err(MALFORMED));
        assert_eq!(
            write(&table, None, &[4, 1, 5 << 16 | 3, 7]),
            Err(WRONG_LENGTH),
            "a length byte that lies"
        );
    }
}
