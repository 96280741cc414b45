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
