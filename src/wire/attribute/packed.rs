//! The packed form of a row (READ_PACKED, READ_ALL): a mask that says which columns are there and which are
//! NULL, then the values without headers. Source: storage/ndb/src/kernel/blocks/dbtup/DbtupRoutines.cpp
//! (read_packed), src/ndbapi/NdbReceiver.cpp.
//!
//! Nothing in a packed row says how long a value is: a reader must know the columns.

use super::{AttributeError, AttributeHeader, MAX_COLUMNS, pseudo};
use crate::wire::signal::EncodeError;

/// How a column's value lies in a packed row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// BIT: so many bits, after those of the BIT column before.
    Bits(u32),
    /// So many bytes, at the next whole word: elements of 32, 64 or 128 bits.
    Words(u32),
    /// So many bytes, at once: elements of 8 or 16 bits.
    Bytes(u32),
    /// One length byte and that many bytes, together at most so many.
    Short(u32),
    /// Two length bytes, low one first, and that many bytes, together at most so many.
    Long(u32),
}

/// What a reader must know of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// How its value lies in the row.
    pub form: Form,
    /// Whether the mask has a NULL bit for it.
    pub nullable: bool,
}

/// A value in a packed row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// The value's bytes, length bytes included.
    Bytes(&'a [u8]),
    /// The value of a BIT column.
    Bits(Bits<'a>),
}

/// The value of a BIT column: it may begin in the middle of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits<'a> {
    words: &'a [u32],
    shift: u32,
    bits: u32,
}

impl<'a> Bits<'a> {
    /// The value as whole words, low one first, unused bits 0.
    #[inline]
    pub fn words(self) -> impl Iterator<Item = u32> + use<'a> {
        let Bits { words, shift, bits } = self;
        (0..bits.div_ceil(32)).map(move |i| {
            let at = |i| words.get(i as usize).copied().unwrap_or(0) as u64;
            let word = ((at(i) | at(i + 1) << 32) >> shift) as u32;
            let left = bits - 32 * i;
            if left < 32 { word & ((1 << left) - 1) } else { word }
        })
    }
}

/// The columns of a packed row that are there: number and value. After an error nothing more comes.
#[derive(Debug, Clone)]
pub struct PackedRow<'a> {
    mask: &'a [u32],
    data: &'a [u32],
    columns: &'a [Column],
    column: usize,
    mask_bit: usize,
    /// Place in `data`: the byte, and the bit inside the word after BIT columns.
    byte: usize,
    bit: u32,
}

impl<'a> PackedRow<'a> {
    /// The packed row that `words` begin with, of a table with these columns.
    #[inline]
    pub fn new(words: &'a [u32], columns: &'a [Column]) -> Result<Self, AttributeError> {
        let (&head, rest) = words.split_first().ok_or(AttributeError)?;
        let head = AttributeHeader(head);
        if head.id() != pseudo::READ_PACKED || !head.bytes().is_multiple_of(4) {
            return Err(AttributeError);
        }
        let (mask, data) = rest.split_at_checked(head.bytes() / 4).ok_or(AttributeError)?;
        Ok(PackedRow { mask, data, columns, column: 0, mask_bit: 0, byte: 0, bit: 0 })
    }

    /// The words after the row: further attributes. To be asked after the last column.
    pub fn rest(&self) -> &'a [u32] {
        let end = self.byte.div_ceil(4) + (self.bit > 0) as usize;
        self.data.get(end..).unwrap_or_default()
    }

    #[inline]
    fn mask_bit(&mut self) -> Option<bool> {
        let word = self.mask.get(self.mask_bit / 32)?;
        let bit = word >> (self.mask_bit % 32) & 1;
        self.mask_bit += 1;
        Some(bit != 0)
    }

    #[inline]
    fn value(&mut self, form: Form) -> Option<Value<'a>> {
        if let Form::Bits(bits) = form {
            return self.bits(bits);
        }
        if self.bit > 0 {
            (self.byte, self.bit) = (self.byte + 4, 0);
        }
        if let Form::Words(_) = form {
            self.byte = self.byte.next_multiple_of(4);
        }
        let from_here = bytemuck::cast_slice::<u32, u8>(self.data).get(self.byte..)?;
        let (length, most) = match (form, from_here) {
            (Form::Short(most), &[low, ..]) => (1 + low as usize, most as usize),
            (Form::Long(most), &[low, high, ..]) => {
                (2 + u16::from_le_bytes([low, high]) as usize, most as usize)
            }
            (Form::Words(bytes) | Form::Bytes(bytes), _) => (bytes as usize, bytes as usize),
            _ => return None,
        };
        let value = from_here.get(..length).filter(|_| length <= most)?;
        self.byte += length;
        Some(Value::Bytes(value))
    }

    #[inline]
    fn bits(&mut self, bits: u32) -> Option<Value<'a>> {
        self.byte = self.byte.next_multiple_of(4);
        let shift = self.bit;
        let end = shift as usize + bits as usize;
        let words = self.data.get(self.byte / 4..)?.get(..end.div_ceil(32))?;
        self.byte += end / 32 * 4;
        self.bit = (end % 32) as u32;
        Some(Value::Bits(Bits { words, shift, bits }))
    }
}

impl<'a> Iterator for PackedRow<'a> {
    type Item = Result<(usize, Value<'a>), AttributeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            // A mask that ends early speaks of no further column.
            let column = *self.columns.get(self.column)?;
            if !self.mask_bit()? {
                self.column += 1;
                continue;
            }
            let value = match column.nullable {
                true => self
                    .mask_bit()
                    .and_then(|null| if null { Some(Value::Null) } else { self.value(column.form) }),
                false => self.value(column.form),
            };
            let Some(value) = value else {
                (self.columns, self.data) = (&[], &[]);
                return Some(Err(AttributeError));
            };
            self.column += 1;
            return Some(Ok((self.column - 1, value)));
        }
    }
}

impl std::iter::FusedIterator for PackedRow<'_> {}

/// Appends the wish to read these columns, in any order, as one packed row. They must be columns of the
/// table.
pub fn push_read_packed(
    out: &mut Vec<u32>,
    columns: impl IntoIterator<Item = u16>,
) -> Result<(), EncodeError> {
    let mut mask = [0; MAX_COLUMNS / 32];
    let mut words = 0;
    for column in columns {
        let word = mask.get_mut(column as usize / 32).ok_or(EncodeError::Data)?;
        *word |= 1 << (column % 32);
        words = words.max(column / 32 + 1);
    }
    if words == 0 {
        return Err(EncodeError::Data);
    }
    out.push(AttributeHeader::new(pseudo::READ_PACKED, 4 * words).0);
    out.extend(mask.iter().take(words as usize));
    Ok(())
}

/// Appends the wish to read all of a table's columns as one packed row.
pub fn push_read_all(out: &mut Vec<u32>, columns: u16) -> Result<(), EncodeError> {
    if columns == 0 || columns as usize > MAX_COLUMNS {
        return Err(EncodeError::Data);
    }
    out.push(AttributeHeader::new(pseudo::READ_ALL, columns).0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn column(form: Form, nullable: bool) -> Column {
        Column { form, nullable }
    }

    /// A value to encode: `None` is NULL. BIT values are given as whole words.
    type Cell = Option<Vec<u8>>;

    /// Packs a row, counting in bits from the start of the data: another view of the same rules.
    fn pack(columns: &[Column], cells: &[Option<Cell>]) -> Vec<u32> {
        let (mut mask, mut data, mut in_bits) = (Vec::new(), Vec::<bool>::new(), false);
        let pad = |data: &mut Vec<bool>, unit| data.resize(data.len().next_multiple_of(unit), true);
        for (column, cell) in columns.iter().zip(cells) {
            mask.push(cell.is_some());
            let Some(cell) = cell else { continue };
            mask.extend(column.nullable.then_some(cell.is_none()));
            let Some(bytes) = cell else { continue };
            let bits = bytes.iter().flat_map(|byte| (0..8).map(move |i| byte >> i & 1 != 0));
            match column.form {
                Form::Bits(n) => {
                    if !in_bits {
                        pad(&mut data, 32);
                    }
                    data.extend(bits.take(n as usize));
                    in_bits = !data.len().is_multiple_of(32);
                }
                form => {
                    pad(&mut data, if in_bits || matches!(form, Form::Words(_)) { 32 } else { 8 });
                    in_bits = false;
                    data.extend(bits);
                }
            }
        }
        pad(&mut data, 32);
        let words = |bits: &[bool]| -> Vec<u32> {
            let word = |bits: &[bool]| bits.iter().enumerate().map(|(i, &bit)| (bit as u32) << i).sum();
            bits.chunks(32).map(word).collect()
        };
        let mask = words(&mask);
        [&[AttributeHeader::new(pseudo::READ_PACKED, 4 * mask.len() as u16).0], &mask[..], &words(&data)]
            .concat()
    }

    /// What the row decodes to, in the shape of the input.
    fn unpack(words: &[u32], columns: &[Column]) -> Result<(Vec<Option<Cell>>, usize), AttributeError> {
        let mut cells = vec![None; columns.len()];
        let mut row = PackedRow::new(words, columns)?;
        for item in row.by_ref() {
            let (number, value) = item?;
            cells[number] = Some(match value {
                Value::Null => None,
                Value::Bytes(bytes) => Some(bytes.to_vec()),
                Value::Bits(bits) => Some(bits.words().flat_map(u32::to_le_bytes).collect()),
            });
        }
        Ok((cells, row.rest().len()))
    }

    fn any_column_and_cell() -> impl Strategy<Value = (Column, Option<Cell>)> {
        let bytes = |range| prop::collection::vec(any::<u8>(), range);
        let value = prop_oneof![
            (1..100u32, bytes(16..17)).prop_map(|(n, mut bytes)| {
                bytes.truncate(4 * n.div_ceil(32) as usize);
                let unused = 8 * bytes.len() as u32 - n;
                for i in 0..unused {
                    let bit = (n + i) as usize;
                    bytes[bit / 8] &= !(1 << (bit % 8));
                }
                (Form::Bits(n), bytes)
            }),
            prop_oneof![Just(4), Just(8), Just(16), Just(12)]
                .prop_flat_map(move |n: usize| bytes(n..n + 1))
                .prop_map(|b| (Form::Words(b.len() as u32), b)),
            bytes(1..9).prop_map(|b| (Form::Bytes(b.len() as u32), b)),
            bytes(0..20).prop_map(|b| (Form::Short(20), [&[b.len() as u8], &b[..]].concat())),
            bytes(0..300).prop_map(|b| (Form::Long(302), [&(b.len() as u16).to_le_bytes(), &b[..]].concat())),
        ];
        (value, any::<bool>(), 0..4u8).prop_map(|((form, bytes), nullable, state)| {
            let cell = match state {
                0 => None,
                1 if nullable => Some(None),
                _ => Some(Some(bytes)),
            };
            (Column { form, nullable }, cell)
        })
    }

    #[test]
    fn a_row_of_a_real_node() {
        let columns = [
            column(Form::Words(4), false),
            column(Form::Words(4), true),
            column(Form::Short(21), true),
            column(Form::Bytes(8), false),
            column(Form::Words(8), false),
        ];
        let words = [
            0xfff3_0004,
            0x6b,
            3,
            0xffff_fffe,
            0x6d61_6e08,
            0x3030_3065,
            0x2033_6333,
            0x2020_2020,
            0xa2bc_e620,
            0xbb8,
            0,
        ];
        let (cells, rest) = unpack(&words, &columns).unwrap();
        assert_eq!(rest, 0);
        assert_eq!(cells[1], Some(Some((-2i32).to_le_bytes().to_vec())));
        assert_eq!(cells[2], Some(Some(b"\x08name0003".to_vec())));
        assert_eq!(cells[3], Some(Some(b"c3      ".to_vec())));
        assert_eq!(cells[4], Some(Some(3000u64.to_le_bytes().to_vec())));
        for cut in 0..words.len() {
            assert_eq!(unpack(&words[..cut], &columns), Err(AttributeError));
        }
    }

    #[test]
    fn neighbouring_bit_columns_share_words() {
        let columns = [
            column(Form::Bits(3), false),
            column(Form::Bits(40), false),
            column(Form::Bytes(1), false),
            column(Form::Bits(32), false),
        ];
        let words = [0xfff3_0004, 0xf, 0b101 | 9 << 3, 0x7ff, 0x55, 0xdead_beef, 77];
        let (cells, rest) = unpack(&words, &columns).unwrap();
        let bytes =
            |words: &[u32]| Some(Some(words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>()));
        assert_eq!(
            cells,
            [bytes(&[5]), bytes(&[9 | 7 << 29, 0xff]), Some(Some(vec![0x55])), bytes(&[0xdead_beef])]
        );
        assert_eq!(rest, 1);
    }

    #[test]
    fn values_longer_than_their_column_are_refused() {
        let short = [column(Form::Short(3), false)];
        assert!(unpack(&[0xfff3_0004, 1, 0x4141_4102, 0], &short).is_ok());
        assert_eq!(unpack(&[0xfff3_0004, 1, 0x4141_4103, 0], &short), Err(AttributeError));
        let long = [column(Form::Long(3), false)];
        assert!(unpack(&[0xfff3_0004, 1, 0x4141_0001, 0], &long).is_ok());
        assert_eq!(unpack(&[0xfff3_0004, 1, 0x4141_0002, 0], &long), Err(AttributeError));
    }

    #[test]
    fn requests_name_columns_by_mask() {
        let mut out = Vec::new();
        push_read_packed(&mut out, [0, 33, 2]).unwrap();
        push_read_all(&mut out, 5).unwrap();
        assert_eq!(out, [0xfff3_0008, 5, 2, 0xfff0_0005]);
        assert_eq!(push_read_packed(&mut out, []), Err(EncodeError::Data));
        assert_eq!(push_read_packed(&mut out, [512]), Err(EncodeError::Data));
        assert_eq!(push_read_all(&mut out, 0), Err(EncodeError::Data));
        assert_eq!(push_read_all(&mut out, 513), Err(EncodeError::Data));
        assert_eq!(out.len(), 4);
    }

    proptest! {
        #[test]
        fn rows_come_back(
            row in prop::collection::vec(any_column_and_cell(), 1..40),
            more in prop::collection::vec(any::<u32>(), 0..3),
            mutation in (any::<prop::sample::Index>(), any::<u32>()),
        ) {
            let (columns, cells): (Vec<_>, Vec<_>) = row.into_iter().unzip();
            let mut words = pack(&columns, &cells);
            words.extend(&more);
            prop_assert_eq!(unpack(&words, &columns), Ok((cells, more.len())));
            for cut in 0..words.len() {
                let _ = unpack(&words[..cut], &columns);
            }
            let place = mutation.0.index(words.len());
            words[place] ^= mutation.1;
            let _ = unpack(&words, &columns);
        }
    }
}
