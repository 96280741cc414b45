//! Records: where each column of a table stands in a row of the caller's, a C struct. Rows are packed into
//! KEYINFO and ATTRINFO from here, and replies unpacked. Sources:
//! storage/ndb/include/kernel/AttributeHeader.hpp, storage/ndb/src/ndbapi/NdbRecord.cpp.
//!
//! A variable-length value stands in a row as on the wire: one or two little endian length bytes, then the
//! data. Packing and unpacking allocate nothing beyond the caller's vector; after an error what they wrote is
//! a part only.

use super::table::{Column, Table};
use crate::error::{Error, own};
use crate::wire::column::{ArrayType, Collation};
use crate::wire::dictionary::ObjectId;

/// Attribute id of a packed reply, which is never asked for here.
const READ_PACKED: u32 = 0xfff3;

/// Names a column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnRef<'a> {
    /// By its name.
    Name(&'a [u8]),
    /// By its number.
    Number(u16),
}

/// Where one column shall stand in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldSpec<'a> {
    /// The column.
    pub column: ColumnRef<'a>,
    /// Byte offset of the value in the row.
    pub offset: u32,
    /// Byte and bit (0 to 7) in the row that say NULL when set. A column that may be NULL needs them; those
    /// of a NOT NULL column are never looked at.
    pub null: Option<(u32, u8)>,
}

/// How a field's value says its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// Always the field's size.
    Fixed,
    /// One length byte.
    Var1,
    /// Two length bytes.
    Var2,
}

/// One column's place in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Column number.
    pub column_id: u16,
    /// Byte offset in the row.
    pub offset: u32,
    /// The most bytes, length bytes included.
    pub size: u32,
    /// How values say their length.
    pub kind: FieldKind,
    /// Byte and bit that say NULL, for columns that may be NULL.
    pub null: Option<(u32, u8)>,
    /// Whether the column is part of the primary key.
    pub is_key: bool,
}

/// Which of a record's columns are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns<'a> {
    /// All of them.
    All,
    /// Those whose bit is set: bit `n & 7` of byte `n >> 3` for column number `n`.
    Mask(&'a [u8]),
}

impl Columns<'_> {
    #[inline]
    fn has(self, column_id: u16) -> bool {
        match self {
            Columns::All => true,
            Columns::Mask(mask) => {
                mask.get(column_id as usize >> 3).is_some_and(|byte| byte >> (column_id & 7) & 1 != 0)
            }
        }
    }
}

/// A field of the distribution key, and how it is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HashField {
    pub field: Field,
    /// None: the bytes as they are.
    pub collation: Option<Collation>,
}

/// A layout of rows for one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    table: ObjectId,
    version: u32,
    row_size: u32,
    fields: Box<[Field]>,
    key: Option<Box<[Field]>>,
    hash_fields: Option<Box<[HashField]>>,
    read_list: Box<[u32]>,
}

impl Record {
    /// A layout of rows of `row_size` bytes, checked: fields and NULL bits lie inside and do not overlap.
    pub fn new(table: &Table, row_size: u32, specs: &[FieldSpec<'_>]) -> Result<Record, Error> {
        let mut fields = specs.iter().map(|spec| field(table, spec)).collect::<Result<Vec<_>, _>>()?;
        fields.sort_unstable_by_key(|field| field.column_id);
        if let Some(pair) = fields.windows(2).find(|pair| pair[0].column_id == pair[1].column_id) {
            return Err(layout(table, pair[0], "stands in the record twice"));
        }
        check_layout(table, row_size, &fields)?;
        Ok(Record::compile(table, row_size, fields))
    }

    /// The layout that a C compiler gives to a struct of all columns in order, blobs left out: each at its
    /// natural alignment, variable ones as byte arrays, then bytes for the NULL bits.
    pub fn natural(table: &Table) -> Record {
        let (mut end, mut alignment) = (0u32, 1);
        let mut fields = Vec::new();
        for column in table.columns.iter() {
            let Some(kind) = field_kind(column) else { continue };
            let own_alignment = column.kind.alignment();
            alignment = own_alignment.max(alignment);
            let offset = end.next_multiple_of(own_alignment);
            end = offset + column.size;
            fields.push(Field {
                column_id: column.id,
                offset,
                size: column.size,
                kind,
                null: None,
                is_key: column.primary_key,
            });
        }
        let nullable = |field: &&mut Field| is_nullable(table, field.column_id);
        let mut bits = 0;
        for field in fields.iter_mut().filter(nullable) {
            field.null = Some((end + bits / 8, (bits % 8) as u8));
            bits += 1;
        }
        let row_size = (end + bits.div_ceil(8)).next_multiple_of(alignment);
        Record::compile(table, row_size, fields)
    }

    /// The record of checked fields in column order.
    fn compile(table: &Table, row_size: u32, fields: Vec<Field>) -> Record {
        let find = |&position: &usize| {
            let id = table.columns.get(position)?.id;
            fields.iter().copied().find(|field| field.column_id == id)
        };
        let hash_field = |position: &usize| {
            let column = table.columns.get(*position)?;
            let collation = match column.charset {
                0 => None,
                number => Some(Collation::of(number)?),
            };
            Some(HashField { field: find(position)?, collation })
        };
        Record {
            table: table.id,
            version: table.version,
            row_size,
            key: table.primary_key.iter().map(find).collect(),
            hash_fields: table.distribution_key.iter().map(hash_field).collect(),
            read_list: fields.iter().map(|field| header(field.column_id, 0)).collect(),
            fields: fields.into(),
        }
    }

    /// Bytes of a row.
    pub fn row_size(&self) -> usize {
        self.row_size as usize
    }

    /// All fields, in column order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The field of a column.
    pub fn field(&self, column_id: u16) -> Option<&Field> {
        let position = self.fields.binary_search_by_key(&column_id, |field| field.column_id).ok()?;
        self.fields.get(position)
    }

    /// The fields of the primary key in column order; none if the record lacks one of its columns.
    pub fn key_fields(&self) -> Option<&[Field]> {
        self.key.as_deref()
    }

    /// The fields of the distribution key with their hash forms; none if a column is not in the record or has
    /// a hash form that cannot be computed.
    pub(super) fn hash_fields(&self) -> Option<&[HashField]> {
        self.hash_fields.as_deref()
    }

    /// Whether the record was made for this table. Alterations in place leave it usable.
    pub fn is_of(&self, table: &Table) -> bool {
        table.is_same_table(self.table, self.version)
    }

    /// Appends a key as KEYINFO: each column's value, padded with zeros.
    #[inline]
    pub fn encode_key(&self, row: &[u8], out: &mut Vec<u32>) -> Result<(), i32> {
        for field in self.key_of(row)? {
            if field.is_null(row) {
                return Err(own::NULL_KEY);
            }
            push_value(out, field.value(row)?);
        }
        Ok(())
    }

    /// Words that every key takes as KEYINFO, if they are always the same number.
    pub fn fixed_key_words(&self) -> Option<usize> {
        let key = self.key.as_deref()?;
        let words =
            |field: &Field| (field.kind == FieldKind::Fixed).then_some((field.size as usize).div_ceil(4));
        key.iter().map(words).sum()
    }

    /// Writes a key over KEYINFO that [`Record::encode_key`] has made, of a record whose keys take a fixed
    /// number of words.
    #[inline]
    pub fn overwrite_key(&self, row: &[u8], out: &mut [u32]) -> Result<(), i32> {
        overwrite(self.key_of(row)?, row, 0, out).map(drop)
    }

    /// Whether all values outside the key together always take the same number of words as ATTRINFO.
    pub fn has_fixed_values(&self) -> bool {
        let mut values = self.fields.iter().filter(|field| !field.is_key);
        values.all(|field| field.kind == FieldKind::Fixed && field.null.is_none())
    }

    /// Writes a key's columns over those that [`Record::encode_key_values`] has made, of a record whose keys
    /// take a fixed number of words. What is behind them.
    #[inline]
    pub fn overwrite_key_values<'o>(&self, row: &[u8], out: &'o mut [u32]) -> Result<&'o mut [u32], i32> {
        overwrite(self.key_of(row)?, row, 1, out)
    }

    /// Writes values over those that [`Record::encode_values`] has made of all columns, of a record with
    /// fixed values.
    #[inline]
    pub fn overwrite_values(&self, row: &[u8], out: &mut [u32]) -> Result<(), i32> {
        self.check_length(row)?;
        overwrite(self.fields.iter().filter(|field| !field.is_key), row, 1, out).map(drop)
    }

    /// Appends a key's columns as ATTRINFO: inserting nodes want them again beside KEYINFO.
    #[inline]
    pub fn encode_key_values(&self, row: &[u8], out: &mut Vec<u32>) -> Result<(), i32> {
        for field in self.key_of(row)? {
            if field.is_null(row) {
                return Err(own::NULL_KEY);
            }
            push_attribute(out, field.column_id, field.value(row)?);
        }
        Ok(())
    }

    /// Appends the columns outside the primary key as ATTRINFO.
    #[inline]
    pub fn encode_values(&self, row: &[u8], out: &mut Vec<u32>, which: Columns<'_>) -> Result<(), i32> {
        self.check_length(row)?;
        for field in self.fields.iter().filter(|field| !field.is_key && which.has(field.column_id)) {
            if field.is_null(row) {
                out.push(header(field.column_id, 0));
            } else {
                push_attribute(out, field.column_id, field.value(row)?);
            }
        }
        Ok(())
    }

    /// Appends the request to read every column of the record.
    #[inline]
    pub fn push_read_list(&self, out: &mut Vec<u32>) {
        out.extend_from_slice(&self.read_list);
    }

    /// Unpacks a reply into a row: for each attribute a header, then its padded data. A NULL sets its bit and
    /// leaves the value's bytes; columns that the record has not are skipped.
    #[inline]
    pub fn decode_row(&self, attributes: &[u32], row: &mut [u8]) -> Result<(), i32> {
        self.check_length(row)?;
        let mut rest = attributes;
        // Replies keep the order of the request: the next field is nearly always the right one.
        let mut expected = 0;
        while let Some((&head, after)) = rest.split_first() {
            let (id, length) = (head >> 16, (head & 0xffff) as usize);
            let (data, next) = after.split_at_checked(length.div_ceil(4)).ok_or(own::MALFORMED_REPLY)?;
            rest = next;
            let field = match self.fields.get(expected) {
                Some(field) if field.column_id as u32 == id => field,
                _ if id == READ_PACKED => return Err(own::MALFORMED_REPLY),
                _ => match self.fields.binary_search_by_key(&(id as u16), |field| field.column_id) {
                    Ok(position) => {
                        expected = position;
                        &self.fields[position]
                    }
                    Err(_) => continue,
                },
            };
            expected += 1;
            field.take(data, length, row)?;
        }
        Ok(())
    }

    #[inline]
    fn check_length(&self, row: &[u8]) -> Result<(), i32> {
        if row.len() == self.row_size as usize { Ok(()) } else { Err(own::ROW_LENGTH) }
    }

    #[inline]
    fn key_of(&self, row: &[u8]) -> Result<&[Field], i32> {
        self.check_length(row)?;
        self.key.as_deref().ok_or(own::RECORD_MISMATCH)
    }
}

impl Field {
    /// The field's room in a row.
    #[inline]
    fn room<'r>(&self, row: &'r [u8]) -> Result<&'r [u8], i32> {
        let start = self.offset as usize;
        row.get(start..start + self.size as usize).ok_or(own::ROW_LENGTH)
    }

    /// The value in a row, length bytes included.
    #[inline]
    pub fn value<'r>(&self, row: &'r [u8]) -> Result<&'r [u8], i32> {
        let room = self.room(row)?;
        match stored_length(self.kind, room) {
            None => Ok(room),
            Some(length) => room.get(..length).ok_or(own::VALUE_TOO_LONG),
        }
    }

    /// The value in a row without its length bytes.
    #[inline]
    pub(super) fn data<'r>(&self, row: &'r [u8]) -> Result<&'r [u8], i32> {
        self.value(row).map(|value| value.get(self.length_bytes()..).unwrap_or_default())
    }

    /// Length bytes before the data.
    pub(super) fn length_bytes(&self) -> usize {
        match self.kind {
            FieldKind::Fixed => 0,
            FieldKind::Var1 => 1,
            FieldKind::Var2 => 2,
        }
    }

    /// Whether the row says that the column is NULL.
    #[inline]
    pub fn is_null(&self, row: &[u8]) -> bool {
        match self.null {
            None => false,
            Some((byte, bit)) => row.get(byte as usize).is_some_and(|byte| byte >> bit & 1 != 0),
        }
    }

    /// Takes one attribute of `length` bytes into a row.
    #[inline]
    fn take(&self, data: &[u32], length: usize, row: &mut [u8]) -> Result<(), i32> {
        if let Some((byte, bit)) = self.null {
            let byte = row.get_mut(byte as usize).ok_or(own::ROW_LENGTH)?;
            *byte = *byte & !(1 << bit) | ((length == 0) as u8) << bit;
            if length == 0 {
                return Ok(());
            }
        }
        let start = self.offset as usize;
        let room = row.get_mut(start..start + self.size as usize).ok_or(own::ROW_LENGTH)?;
        // Copies of a size that the compiler knows are single moves.
        match (self.kind, data, room.len()) {
            (FieldKind::Fixed, &[word], 4) if length == 4 => room.copy_from_slice(&word.to_le_bytes()),
            (FieldKind::Fixed, &[low, high], 8) if length == 8 => {
                room.copy_from_slice(&(low as u64 | (high as u64) << 32).to_le_bytes());
            }
            _ => {
                let value =
                    bytemuck::cast_slice::<u32, u8>(data).get(..length).ok_or(own::MALFORMED_REPLY)?;
                if stored_length(self.kind, value).unwrap_or(room.len()) != length {
                    return Err(own::MALFORMED_REPLY);
                }
                room.get_mut(..length).ok_or(own::MALFORMED_REPLY)?.copy_from_slice(value);
            }
        }
        Ok(())
    }
}

/// The length of a value by its own length bytes, them included; a value too short for them has a length that
/// no value has.
#[inline]
fn stored_length(kind: FieldKind, value: &[u8]) -> Option<usize> {
    match (kind, value) {
        (FieldKind::Fixed, _) => None,
        (FieldKind::Var1, &[length, ..]) => Some(1 + length as usize),
        (FieldKind::Var2, &[low, high, ..]) => Some(2 + u16::from_le_bytes([low, high]) as usize),
        _ => Some(usize::MAX),
    }
}

/// Writes the values of fields over those of another row, each behind `headers` words that stay. What is behind
/// the last.
#[inline(always)]
fn overwrite<'f, 'o>(
    fields: impl IntoIterator<Item = &'f Field>,
    row: &[u8],
    headers: usize,
    mut out: &'o mut [u32],
) -> Result<&'o mut [u32], i32> {
    for field in fields {
        if field.is_null(row) {
            return Err(own::NULL_KEY);
        }
        let value = field.value(row)?;
        let here = out.split_off_mut(..headers + value.len().div_ceil(4)).ok_or(own::ROW_LENGTH)?;
        let here = bytemuck::cast_slice_mut::<u32, u8>(&mut here[headers..]);
        match (&mut *here, value) {
            ([a, b, c, d], &[e, f, g, h]) => (*a, *b, *c, *d) = (e, f, g, h),
            _ => here[..value.len()].copy_from_slice(value),
        }
    }
    Ok(out)
}

/// The header of an attribute.
#[inline]
const fn header(column_id: u16, bytes: usize) -> u32 {
    (column_id as u32) << 16 | bytes as u32
}

#[inline]
fn push_attribute(out: &mut Vec<u32>, column_id: u16, value: &[u8]) {
    out.push(header(column_id, value.len()));
    push_value(out, value);
}

/// Appends bytes as words, zero padded.
#[inline]
fn push_value(out: &mut Vec<u32>, value: &[u8]) {
    match *value {
        [a, b, c, d] => out.push(u32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => {
            out.extend([u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])])
        }
        _ => {
            let (words, rest) = value.as_chunks::<4>();
            out.extend(words.iter().map(|&word| u32::from_le_bytes(word)));
            if !rest.is_empty() {
                let mut last = [0; 4];
                last[..rest.len()].copy_from_slice(rest);
                out.push(u32::from_le_bytes(last));
            }
        }
    }
}

/// How a record holds a column, if it can.
fn field_kind(column: &Column) -> Option<FieldKind> {
    if column.kind.is_blob() || column.array != column.kind.array_type() {
        return None;
    }
    match column.array {
        ArrayType::Fixed => Some(FieldKind::Fixed),
        ArrayType::ShortVar => Some(FieldKind::Var1),
        ArrayType::MediumVar => Some(FieldKind::Var2),
        ArrayType::NoneVar => None,
    }
}

fn is_nullable(table: &Table, column_id: u16) -> bool {
    table.columns.get(column_id as usize).is_some_and(|column| column.nullable)
}

/// The name of a table for a person.
fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn layout(table: &Table, field: Field, what: &str) -> Error {
    let name = table.columns.get(field.column_id as usize).map_or(String::new(), |c| shown(&c.name));
    Error::new(own::FIELD_LAYOUT, format!("column {name} of {} {what}", shown(&table.internal_name)))
}

fn field(table: &Table, spec: &FieldSpec<'_>) -> Result<Field, Error> {
    let table_name = || shown(&table.internal_name);
    let (column, asked) = match spec.column {
        ColumnRef::Name(name) => (table.column(name), shown(name)),
        ColumnRef::Number(number) => (table.columns.get(number as usize), format!("number {number}")),
    };
    let Some(column) = column else {
        return Err(Error::new(own::NO_SUCH_COLUMN, format!("{} has no column {asked}", table_name())));
    };
    let Some(kind) = field_kind(column) else {
        let what = if column.kind.is_blob() { column.kind.name() } else { "this type" };
        let text =
            format!("column {} of {}: {what} cannot be in a record", shown(&column.name), table_name());
        return Err(Error::new(own::UNSUPPORTED_TYPE, text));
    };
    let field = Field {
        column_id: column.id,
        offset: spec.offset,
        size: column.size,
        kind,
        null: spec.null.filter(|_| column.nullable),
        is_key: column.primary_key,
    };
    match field.null {
        None if column.nullable => Err(layout(table, field, "may be NULL and has no NULL bit")),
        Some((_, 8..)) => Err(layout(table, field, "has a NULL bit above 7")),
        _ => Ok(field),
    }
}

fn check_layout(table: &Table, row_size: u32, fields: &[Field]) -> Result<(), Error> {
    let mut by_place = fields.to_vec();
    by_place.sort_unstable_by_key(|field| field.offset);
    let end = |field: &Field| field.offset as u64 + field.size as u64;
    let mut bits = Vec::new();
    for (position, &field) in by_place.iter().enumerate() {
        if end(&field) > row_size as u64 {
            return Err(layout(table, field, "lies outside the row"));
        }
        if by_place.get(position + 1).is_some_and(|next| end(&field) > next.offset as u64) {
            return Err(layout(table, field, "overlaps another column"));
        }
        let Some((byte, bit)) = field.null else { continue };
        if byte >= row_size {
            return Err(layout(table, field, "has its NULL bit outside the row"));
        }
        if fields.iter().any(|other| byte >= other.offset && (byte as u64) < end(other)) {
            return Err(layout(table, field, "has its NULL bit inside a column"));
        }
        if bits.contains(&(byte, bit)) {
            return Err(layout(table, field, "shares its NULL bit with another column"));
        }
        bits.push((byte, bit));
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::dict::table::tests::{any_table, as_sent, column, key_column};
    use crate::dict::table::{NewColumn, NewTable};
    use crate::wire::column::ColumnType;
    use proptest::prelude::*;

    fn by_name(name: &str, offset: u32, null: Option<(u32, u8)>) -> FieldSpec<'_> {
        FieldSpec { column: ColumnRef::Name(name.as_bytes()), offset, null }
    }

    fn sized(name: &str, kind: ColumnType, length: u32) -> NewColumn {
        NewColumn { length, ..column(name, kind) }
    }

    /// k unsigned key, a int, b nullable bigint, v varchar-like, l long, bits.
    fn table() -> Table {
        let new = NewTable::new(
            "db",
            "t",
            vec![
                key_column("k", ColumnType::Unsigned),
                column("a", ColumnType::Int),
                NewColumn { nullable: true, ..column("b", ColumnType::Bigint) },
                sized("v", ColumnType::Varbinary, 255),
                NewColumn { nullable: true, ..sized("l", ColumnType::Longvarbinary, 256) },
                sized("bits", ColumnType::Bit, 33),
            ],
        );
        as_sent(&new, 2)
    }

    #[test]
    fn the_layout_a_c_compiler_gives() {
        let record = Record::natural(&table());
        let offsets: Vec<_> = record.fields().iter().map(|f| (f.offset, f.size)).collect();
        assert_eq!(offsets, [(0, 4), (4, 4), (8, 8), (16, 256), (272, 258), (532, 8)]);
        assert_eq!(record.field(2).unwrap().null, Some((540, 0)));
        assert_eq!(record.field(4).unwrap().null, Some((540, 1)));
        assert_eq!(record.row_size(), 544);
        assert_eq!(record.field(6), None);
        assert_eq!(record.key_fields().unwrap().len(), 1);
    }

    #[test]
    fn layouts_that_are_refused() {
        let table = table();
        let code = |row_size, specs: &[FieldSpec<'_>]| Record::new(&table, row_size, specs).unwrap_err().code;
        let null = Some((12, 0));
        assert_eq!(code(8, &[by_name("K", 0, None)]), own::NO_SUCH_COLUMN);
        assert_eq!(code(8, &[by_name("bit", 0, None)]), own::NO_SUCH_COLUMN);
        let number = FieldSpec { column: ColumnRef::Number(6), offset: 0, null: None };
        assert_eq!(code(8, &[number]), own::NO_SUCH_COLUMN);
        assert_eq!(code(3, &[by_name("k", 0, None)]), own::FIELD_LAYOUT);
        assert_eq!(code(8, &[by_name("k", u32::MAX, None)]), own::FIELD_LAYOUT);
        assert_eq!(code(8, &[by_name("k", 0, None), by_name("a", 3, None)]), own::FIELD_LAYOUT);
        assert_eq!(code(8, &[by_name("k", 0, None), by_name("k", 4, None)]), own::FIELD_LAYOUT);
        assert_eq!(code(16, &[by_name("b", 0, None)]), own::FIELD_LAYOUT);
        assert_eq!(code(16, &[by_name("b", 0, Some((12, 8)))]), own::FIELD_LAYOUT);
        assert_eq!(code(16, &[by_name("b", 0, Some((16, 0)))]), own::FIELD_LAYOUT);
        assert_eq!(code(16, &[by_name("b", 0, Some((7, 0)))]), own::FIELD_LAYOUT);
        assert_eq!(code(16, &[by_name("b", 0, null), by_name("k", 12, None)]), own::FIELD_LAYOUT);
        assert_eq!(code(300, &[by_name("b", 0, null), by_name("l", 16, null)]), own::FIELD_LAYOUT);
        // A NOT NULL column's bit is nobody's business, wherever it points.
        let record = Record::new(&table, 4, &[by_name("k", 0, Some((99, 99)))]).unwrap();
        assert_eq!(record.field(0).unwrap().null, None);
    }

    #[test]
    fn blobs_are_refused_by_name_and_left_out_of_natural_layouts() {
        let mut table = table();
        table.columns[1].kind = ColumnType::Text;
        let error = Record::new(&table, 400, &[by_name("a", 0, None)]).unwrap_err();
        assert_eq!(error.code, own::UNSUPPORTED_TYPE);
        assert!(error.text.contains("column a of db/def/t: Text"), "{}", error.text);
        assert_eq!(Record::natural(&table).field(1), None);
    }

    #[test]
    fn a_row_in_words() {
        let table = table();
        let specs = [
            by_name("bits", 20, None),
            by_name("k", 0, Some((0, 0))),
            by_name("a", 4, None),
            by_name("b", 8, Some((16, 3))),
            by_name("v", 28, None),
        ];
        let record = Record::new(&table, 284, &specs).unwrap();
        let mut row = vec![0xff; 284];
        row[..16].copy_from_slice(&[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
        row[20..28].copy_from_slice(&[5, 0, 0, 0, 1, 0, 0, 0]);
        row[28..34].copy_from_slice(b"\x05hello");
        let mut out = Vec::new();
        record.encode_key(&row, &mut out).unwrap();
        assert_eq!(out, [1]);
        out.clear();
        record.encode_key_values(&row, &mut out).unwrap();
        assert_eq!(out, [4, 1]);
        out.clear();
        record.encode_values(&row, &mut out, Columns::All).unwrap();
        let v = [3 << 16 | 6, u32::from_le_bytes(*b"\x05hel"), u32::from_le_bytes(*b"lo\0\0")];
        assert_eq!(out, [&[1 << 16 | 4, 2, 2 << 16], &v[..], &[5 << 16 | 8, 5, 1]].concat());
        row[16] = 0;
        out.clear();
        record.encode_values(&row, &mut out, Columns::Mask(&[0b0000_0101])).unwrap();
        assert_eq!(out, [2 << 16 | 8, 3, 4], "the key is never among the values");
        out.clear();
        record.push_read_list(&mut out);
        assert_eq!(out, [0, 1 << 16, 2 << 16, 3 << 16, 5 << 16]);
    }

    #[test]
    fn rows_that_are_refused() {
        let table = table();
        let record = Record::new(&table, 300, &[by_name("v", 0, None)]).unwrap();
        let mut out = Vec::new();
        assert_eq!(record.encode_key(&[0; 300], &mut out), Err(own::RECORD_MISMATCH));
        assert_eq!(record.encode_values(&[0; 299], &mut out, Columns::All), Err(own::ROW_LENGTH));
        assert_eq!(record.decode_row(&[], &mut [0; 301]), Err(own::ROW_LENGTH));
        let mut short = table.clone();
        (short.columns[3].length, short.columns[3].size) = (10, 11);
        let record = Record::new(&short, 300, &[by_name("v", 0, None)]).unwrap();
        let mut row = [0; 300];
        row[0] = 10;
        assert_eq!(record.encode_values(&row, &mut out, Columns::All), Ok(()));
        row[0] = 11;
        assert_eq!(record.encode_values(&row, &mut out, Columns::All), Err(own::VALUE_TOO_LONG));
        let mut null_key = table.clone();
        null_key.columns[0].nullable = true;
        let record = Record::natural(&null_key);
        let row = vec![0xff; record.row_size()];
        assert_eq!(record.encode_key(&row, &mut out), Err(own::NULL_KEY));
        assert_eq!(record.encode_key_values(&row, &mut out), Err(own::NULL_KEY));
    }

    #[test]
    fn replies_that_are_refused() {
        let record = Record::natural(&table());
        let decode = |attributes: &[u32]| record.decode_row(attributes, &mut vec![0; record.row_size()]);
        assert_eq!(decode(&[]), Ok(()));
        assert_eq!(decode(&[4, 1]), Ok(()));
        assert_eq!(decode(&[99 << 16 | 5, 1, 2, 4, 1]), Ok(()), "an unknown column is skipped");
        let bad: &[&[u32]] = &[
            &[4],                 // data runs past the end
            &[0],                 // NULL of a NOT NULL column
            &[3, 1],              // too short for its type
            &[5, 1, 0],           // too long for it
            &[2 << 16 | 4, 1],    // half a bigint
            &[3 << 16 | 3, 0x01], // three bytes that say two
            &[3 << 16],           // a variable value without length bytes
            &[4 << 16 | 1, 0],    // one length byte of two
            &[4 << 16 | 300],     // runs past the end
            &[5 << 16 | 5, 1, 2], // bits come in whole words
            &[READ_PACKED << 16 | 4, 1],
            &[99 << 16 | 5, 1],
        ];
        for attributes in bad {
            assert_eq!(decode(attributes), Err(own::MALFORMED_REPLY), "{attributes:x?}");
        }
    }

    #[test]
    fn a_null_leaves_the_bytes_and_a_value_clears_the_bit() {
        let record = Record::natural(&table());
        let mut row = vec![0x55; record.row_size()];
        row[540] = 0xfe;
        record.decode_row(&[2 << 16], &mut row).unwrap();
        assert_eq!((row[540], &row[8..16]), (0xff, &[0x55; 8][..]));
        record.decode_row(&[2 << 16 | 8, 1, 2], &mut row).unwrap();
        assert_eq!((row[540], &row[8..16]), (0xfe, &[1, 0, 0, 0, 2, 0, 0, 0][..]));
    }

    /// A row of random bytes whose variable values have lengths that fit.
    pub fn fill_row(record: &Record, random: &[u8]) -> Vec<u8> {
        let mut row: Vec<u8> = random.iter().copied().cycle().take(record.row_size()).collect();
        for field in record.fields() {
            let start = field.offset as usize;
            let room = field.size as usize - field.length_bytes() + 1;
            match field.kind {
                FieldKind::Fixed => {}
                FieldKind::Var1 => row[start] = (row[start] as usize % room) as u8,
                FieldKind::Var2 => {
                    let length = (row[start] as usize % room) as u16;
                    row[start..start + 2].copy_from_slice(&length.to_le_bytes());
                }
            }
        }
        row
    }

    /// What a row says, whatever its other bytes are.
    fn meaning(record: &Record, row: &[u8]) -> Vec<Option<Vec<u8>>> {
        let value = |field: &Field| (!field.is_null(row)).then(|| field.value(row).unwrap().to_vec());
        record.fields().iter().map(value).collect()
    }

    /// The plain twin of decode_row: finds every field by its number and copies byte by byte.
    fn plain_decode(record: &Record, attributes: &[u32], row: &mut [u8]) -> Result<(), i32> {
        let mut at = 0;
        while at < attributes.len() {
            let (id, length) = (attributes[at] >> 16, (attributes[at] & 0xffff) as usize);
            at += 1;
            let words = length.div_ceil(4);
            if at + words > attributes.len() || id == READ_PACKED {
                return Err(own::MALFORMED_REPLY);
            }
            let bytes: Vec<u8> =
                attributes[at..at + words].iter().flat_map(|w| w.to_le_bytes()).take(length).collect();
            at += words;
            let Some(field) = record.fields().iter().find(|f| f.column_id as u32 == id) else { continue };
            if let Some((byte, bit)) = field.null {
                row[byte as usize] &= !(1 << bit);
                if length == 0 {
                    row[byte as usize] |= 1 << bit;
                    continue;
                }
            }
            let right = match field.kind {
                FieldKind::Fixed => length == field.size as usize,
                FieldKind::Var1 => length >= 1 && length == 1 + bytes[0] as usize,
                FieldKind::Var2 => length >= 2 && length == 2 + bytes[0] as usize + 256 * bytes[1] as usize,
            };
            if !right || length > field.size as usize {
                return Err(own::MALFORMED_REPLY);
            }
            for (i, byte) in bytes.into_iter().enumerate() {
                row[field.offset as usize + i] = byte;
            }
        }
        Ok(())
    }

    fn attributes_of(record: &Record, row: &[u8]) -> Vec<u32> {
        let mut attributes = Vec::new();
        record.encode_key_values(row, &mut attributes).unwrap();
        record.encode_values(row, &mut attributes, Columns::All).unwrap();
        attributes
    }

    /// Words of which many are headers of attributes.
    fn any_word() -> impl Strategy<Value = u32> {
        let header = (0u32..16, 0u32..70).prop_map(|(id, bytes)| id << 16 | bytes);
        prop_oneof![any::<u32>(), 0u32..70, header]
    }

    proptest! {
        #[test]
        fn rows_survive_the_wire(
            new in any_table(),
            random in proptest::collection::vec(any::<u8>(), 64..200),
            other in proptest::collection::vec(any::<u8>(), 64..200),
        ) {
            let table = as_sent(&new, 2);
            let record = Record::natural(&table);
            let row = fill_row(&record, &random);
            let attributes = attributes_of(&record, &row);
            let mut read = fill_row(&record, &other);
            let mut twin = read.clone();
            prop_assert_eq!(record.decode_row(&attributes, &mut read), Ok(()));
            prop_assert_eq!(meaning(&record, &read), meaning(&record, &row));
            prop_assert_eq!(plain_decode(&record, &attributes, &mut twin), Ok(()));
            prop_assert_eq!(&read, &twin);
            // The same record, given as a list of fields.
            let specs: Vec<_> = record.fields().iter().rev().map(|field| FieldSpec {
                column: ColumnRef::Number(field.column_id), offset: field.offset, null: field.null,
            }).collect();
            prop_assert_eq!(Record::new(&table, record.row_size() as u32, &specs).unwrap(), record);
        }

        #[test]
        fn fast_and_plain_agree_on_damage(
            new in any_table(),
            random in proptest::collection::vec(any::<u8>(), 64..200),
            at: prop::sample::Index,
            change in any_word(),
            cut: prop::sample::Index,
        ) {
            let record = Record::natural(&as_sent(&new, 2));
            let mut attributes = attributes_of(&record, &fill_row(&record, &random));
            let at = at.index(attributes.len());
            attributes[at] = change;
            for length in [attributes.len(), cut.index(attributes.len())] {
                let mut row = fill_row(&record, &random);
                let mut twin = row.clone();
                let outcome = record.decode_row(&attributes[..length], &mut row);
                prop_assert_eq!(outcome, plain_decode(&record, &attributes[..length], &mut twin));
                prop_assert_eq!(row, twin);
            }
        }

        #[test]
        fn any_row_encodes_or_not(
            new in any_table(),
            random in proptest::collection::vec(any::<u8>(), 1..200),
        ) {
            let record = Record::natural(&as_sent(&new, 2));
            let row: Vec<u8> = random.iter().copied().cycle().take(record.row_size()).collect();
            let mut out = Vec::new();
            let key = record.encode_key(&row, &mut out);
            for result in [key, record.encode_values(&row, &mut out, Columns::All)] {
                prop_assert!(matches!(result, Ok(()) | Err(own::VALUE_TOO_LONG)));
            }
        }
    }
}
