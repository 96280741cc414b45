//! Table definitions: a data node's definition read into a [`Table`], and a [`NewTable`] checked and written
//! for a data node. Sources: storage/ndb/include/kernel/signaldata/DictTabInfo.hpp,
//! storage/ndb/src/ndbapi/NdbDictionaryImpl.cpp.

use std::sync::Arc;

use crate::error::{Error, own};
use crate::wire::NodeId;
use crate::wire::RNIL;
use crate::wire::column::{ArrayType, ColumnType, value_bytes};
use crate::wire::dictionary::{ObjectId, Partitioning, kind};
use crate::wire::properties::{Reader, Value, Writer};

/// Columns a table can have.
pub const MAX_COLUMNS: usize = 512;
/// Columns a primary key can have.
pub const MAX_KEY_COLUMNS: usize = 32;
/// Bytes of an internal name, without its NUL.
pub const MAX_INTERNAL_NAME: usize = 127;
/// Bytes of a column's name, without its NUL. A data node takes 191 but has room for no more than these: a
/// longer name overwrites what it has read about the column, and the node stops.
pub const MAX_COLUMN_NAME: usize = 127;
/// Words of a row.
const MAX_ROW_WORDS: u32 = 7500;
/// Words of a primary key.
pub const MAX_KEY_WORDS: u32 = 1023;
/// Words of a definition.
const MAX_DEFINITION_WORDS: usize = 24576;
const MAX_FRAGMENTS: usize = 8160;
const MAX_REPLICAS: usize = 4;
const MAX_DECIMAL_DIGITS: u32 = 65;
const MAX_DECIMAL_SCALE: u32 = 30;
const MAX_FRACTION_DIGITS: u32 = 6;

/// Keys of a definition's items.
mod key {
    pub const TABLE_NAME: u16 = 1;
    pub const TABLE_ID: u16 = 2;
    pub const TABLE_VERSION: u16 = 3;
    pub const LOGGED: u16 = 4;
    pub const COLUMN_COUNT: u16 = 6;
    pub const FRAGMENT_TYPE: u16 = 13;
    pub const TABLE_TYPE: u16 = 18;
    pub const PARTITION_BALANCE: u16 = 127;
    pub const FRAGMENT_COUNT: u16 = 128;
    pub const REPLICA_DATA: u16 = 138;
    pub const DEFAULT_FRAGMENTS: u16 = 141;
    pub const ROW_GCI: u16 = 150;
    pub const ROW_CHECKSUM: u16 = 151;
    pub const HASH_MAP_ID: u16 = 153;
    pub const HASH_MAP_VERSION: u16 = 154;
    pub const READ_BACKUP: u16 = 158;
    pub const FULLY_REPLICATED: u16 = 159;
    pub const PARTITION_COUNT: u16 = 160;
    pub const HASH_FUNCTION: u16 = 163;
    pub const TABLE_END: u16 = 999;
    pub const COLUMN_NAME: u16 = 1000;
    pub const COLUMN_ID: u16 = 1001;
    pub const COLUMN_KEY: u16 = 1006;
    pub const COLUMN_STORAGE: u16 = 1007;
    pub const COLUMN_NULLABLE: u16 = 1008;
    pub const COLUMN_DYNAMIC: u16 = 1009;
    pub const COLUMN_DISTRIBUTION_KEY: u16 = 1010;
    pub const COLUMN_TYPE: u16 = 1013;
    pub const COLUMN_PRECISION: u16 = 1014;
    pub const COLUMN_SCALE: u16 = 1015;
    pub const COLUMN_LENGTH: u16 = 1016;
    pub const COLUMN_AUTO_INCREMENT: u16 = 1017;
    pub const COLUMN_ARRAY_TYPE: u16 = 1019;
    pub const COLUMN_DEFAULT_LENGTH: u16 = 1020;
    pub const COLUMN_DEFAULT: u16 = 1021;
    pub const COLUMN_END: u16 = 1999;
    pub const MAP_NAME: u16 = 1;
    pub const MAP_BYTES: u16 = 2;
    pub const MAP_VALUES: u16 = 3;
}

/// The fragment type of tables that a hash map spreads.
const HASH_MAP_PARTITION: u32 = 9;

/// How rows find their fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FragmentType {
    /// By a hash map: type 9.
    HashMap,
    /// Hash modulo the number of fragments: type 4.
    Modulo,
    /// By linear hashing: types 0, 1, 2, 3 and 5.
    Linear,
    /// Any other: no hash tells, the number is kept.
    Other(u32),
}

impl FragmentType {
    /// The type of a number off the wire.
    pub const fn of(number: u32) -> FragmentType {
        match number {
            HASH_MAP_PARTITION => FragmentType::HashMap,
            4 => FragmentType::Modulo,
            0..=3 | 5 => FragmentType::Linear,
            other => FragmentType::Other(other),
        }
    }
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name, as the bytes that the dictionary has.
    pub name: Vec<u8>,
    /// Column number.
    pub id: u16,
    /// Type.
    pub kind: ColumnType,
    /// How values say their length.
    pub array: ArrayType,
    /// Elements: characters' bytes, bits, or 1.
    pub length: u32,
    /// Decimal digits, digits of a fraction, or inline bytes of a blob.
    pub precision: u32,
    /// Decimal digits behind the point, or a blob's part size.
    pub scale: u32,
    /// Number of the character set and collation; 0 for types without.
    pub charset: u32,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// Whether it is part of the primary key.
    pub primary_key: bool,
    /// Whether the definition marks it as part of the distribution key; if no column is marked, all of the
    /// primary key is.
    pub distribution_key: bool,
    /// Whether values lie on disk.
    pub on_disk: bool,
    /// Whether it is stored in the dynamic format.
    pub dynamic: bool,
    /// Whether values are to be taken from the table's auto-increment counter.
    pub auto_increment: bool,
    /// The value of rows inserted without one, length bytes included.
    pub default: Option<Vec<u8>>,
    /// The most bytes that a value takes in a row, length bytes included; whole words for bits.
    pub size: u32,
}

/// Which fragment a hash value's bucket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashMap {
    /// Its id.
    pub id: ObjectId,
    /// Its version; maps never change, so id and version stand for one map.
    pub version: u32,
    /// Its name.
    pub name: Vec<u8>,
    /// The fragment of each bucket; at least one.
    pub buckets: Vec<u16>,
}

/// One version of a table's definition; indexes have one too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Object id.
    pub id: ObjectId,
    /// Version word: low 24 bits for the table's life, high 8 bits for its alterations.
    pub version: u32,
    /// Internal name, `database/schema/table`.
    pub internal_name: Vec<u8>,
    /// Object type, see [`kind`].
    pub kind: u32,
    /// Columns by number.
    pub columns: Vec<Column>,
    /// Positions in `columns` of the primary key, in column order.
    pub primary_key: Vec<usize>,
    /// Positions in `columns` of the distribution key, in column order.
    pub distribution_key: Vec<usize>,
    /// How rows find their fragment.
    pub fragment_type: FragmentType,
    /// Fragments that differ: less than all in a fully replicated table.
    pub partition_count: u32,
    /// The hash map's id and version, for hash map tables.
    pub hash_map_id: Option<(ObjectId, u32)>,
    /// The hash map, once it has been fetched.
    pub hash_map: Option<Arc<HashMap>>,
    /// Whether the hash is the one that NDB has. RonDB can have another, which gives no hint here.
    pub hash_is_known: bool,
    /// The nodes of each fragment, the preferred primary first.
    pub fragments: Vec<Vec<NodeId>>,
    /// Whether any replica may answer committed reads.
    pub read_backup: bool,
    /// Whether every node group has all rows.
    pub fully_replicated: bool,
    /// Whether rows survive a system restart.
    pub logged: bool,
}

fn malformed(what: &str) -> Error {
    Error::new(own::MALFORMED_REPLY, format!("a definition from a data node: {what}"))
}

fn number(value: Value<'_>) -> Result<u32, Error> {
    match value {
        Value::U32(number) => Ok(number),
        _ => Err(malformed("bytes where a number belongs")),
    }
}

fn string(value: Value<'_>) -> Result<Vec<u8>, Error> {
    match value {
        Value::Str(bytes) => Ok(bytes.to_vec()),
        _ => Err(malformed("something else where a name belongs")),
    }
}

fn binary(value: Value<'_>) -> Result<&[u8], Error> {
    match value {
        Value::Bin(bytes) => Ok(bytes),
        _ => Err(malformed("something else where bytes belong")),
    }
}

/// The items of a definition, their errors turned into ours.
fn items(words: &[u32]) -> impl Iterator<Item = Result<(u16, Value<'_>), Error>> {
    Reader::new(words).map(|item| item.map_err(|_| malformed("no list of items")))
}

/// A column as its items come, with the values that absent items have.
struct Draft {
    name: Vec<u8>,
    id: Option<u32>,
    kind: u32,
    array: u32,
    length: u32,
    precision: u32,
    scale: u32,
    key: u32,
    distribution_key: u32,
    nullable: u32,
    storage: u32,
    dynamic: u32,
    auto_increment: u32,
    default: Option<Vec<u8>>,
}

impl Draft {
    fn new(name: Vec<u8>) -> Draft {
        Draft {
            name,
            id: None,
            kind: ColumnType::Unsigned.number(),
            array: 0,
            length: 0,
            precision: 0,
            scale: 0,
            key: 0,
            distribution_key: 0,
            nullable: 0,
            storage: 0,
            dynamic: 0,
            auto_increment: 0,
            default: None,
        }
    }

    fn take(&mut self, key: u16, value: Value<'_>) -> Result<(), Error> {
        match key {
            key::COLUMN_ID => self.id = Some(number(value)?),
            key::COLUMN_TYPE => self.kind = number(value)?,
            key::COLUMN_ARRAY_TYPE => self.array = number(value)?,
            key::COLUMN_LENGTH => self.length = number(value)?,
            key::COLUMN_PRECISION => self.precision = number(value)?,
            key::COLUMN_SCALE => self.scale = number(value)?,
            key::COLUMN_KEY => self.key = number(value)?,
            key::COLUMN_DISTRIBUTION_KEY => self.distribution_key = number(value)?,
            key::COLUMN_NULLABLE => self.nullable = number(value)?,
            key::COLUMN_STORAGE => self.storage = number(value)?,
            key::COLUMN_DYNAMIC => self.dynamic = number(value)?,
            key::COLUMN_AUTO_INCREMENT => self.auto_increment = number(value)?,
            key::COLUMN_DEFAULT => self.default = default_value(binary(value)?)?,
            _ => {}
        }
        Ok(())
    }

    fn finish(self, position: usize) -> Result<Column, Error> {
        let id = self.id.unwrap_or(position as u32);
        if id != position as u32 || position >= MAX_COLUMNS {
            return Err(malformed("columns that are not numbered in order"));
        }
        let shown = || String::from_utf8_lossy(&self.name).into_owned();
        let Some(kind) = ColumnType::from_number(self.kind) else {
            return Err(malformed(&format!("column {} has the unknown type {}", shown(), self.kind)));
        };
        let array = ArrayType::from_number(self.array).ok_or_else(|| malformed("an unknown array type"))?;
        let precision = self.precision & 0xffff;
        let size = value_bytes(kind, array, self.length, precision, self.scale)
            .ok_or_else(|| malformed(&format!("column {} has an impossible size", shown())))?;
        Ok(Column {
            id: id as u16,
            kind,
            array,
            length: self.length,
            precision,
            scale: self.scale,
            charset: self.precision >> 16,
            nullable: self.nullable != 0,
            primary_key: self.key != 0,
            distribution_key: self.distribution_key != 0,
            on_disk: self.storage != 0,
            dynamic: self.dynamic != 0,
            auto_increment: self.auto_increment != 0,
            default: self.default,
            size,
            name: self.name,
        })
    }
}

/// A default value: a big endian word with its length in the low half, then the value up to a whole word.
fn default_value(bytes: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let Some((&[_, _, high, low], rest)) = bytes.split_first_chunk() else { return Ok(None) };
    match u16::from_be_bytes([high, low]) as usize {
        0 => Ok(None),
        length => match rest.get(..length) {
            Some(value) => Ok(Some(value.to_vec())),
            None => Err(malformed("a default value that is cut off")),
        },
    }
}

/// The nodes of each fragment, from big endian half words: replicas, fragments, then per fragment its log
/// part and its nodes.
fn replica_lists(bytes: &[u8]) -> Result<Vec<Vec<NodeId>>, Error> {
    let halves: Vec<u16> = bytes.as_chunks().0.iter().map(|&pair| u16::from_be_bytes(pair)).collect();
    let [replicas, fragments, lists @ ..] = &halves[..] else { return Ok(Vec::new()) };
    let (replicas, fragments) = (*replicas as usize, *fragments as usize);
    if !(1..=MAX_REPLICAS).contains(&replicas)
        || fragments > MAX_FRAGMENTS
        || lists.len() < fragments * (replicas + 1)
    {
        return Err(malformed("a list of replicas that does not add up"));
    }
    Ok(lists.chunks_exact(replicas + 1).take(fragments).map(|list| list[1..].to_vec()).collect())
}

impl Table {
    /// Reads a definition in SimpleProperties form, as a data node sent it. The hash map comes separately.
    pub fn parse(words: &[u32]) -> Result<Table, Error> {
        let mut table = Table::empty();
        let mut has_id = false;
        let mut column_count = 0;
        let mut map = (RNIL, RNIL);
        let mut draft: Option<Draft> = None;
        for item in items(words) {
            let (key, value) = item?;
            if let Some(open) = &mut draft {
                match key {
                    key::COLUMN_END => {
                        let position = table.columns.len();
                        table.columns.extend(draft.take().map(|d| d.finish(position)).transpose()?);
                    }
                    _ => open.take(key, value)?,
                }
                continue;
            }
            match key {
                key::TABLE_NAME => table.internal_name = string(value)?,
                key::TABLE_ID => (table.id, has_id) = (ObjectId::received(number(value)?), true),
                key::TABLE_VERSION => table.version = number(value)?,
                key::LOGGED => table.logged = number(value)? != 0,
                key::COLUMN_COUNT => column_count = number(value)? as usize,
                key::FRAGMENT_TYPE => table.fragment_type = FragmentType::of(number(value)?),
                key::TABLE_TYPE => table.kind = number(value)?,
                key::REPLICA_DATA => table.fragments = replica_lists(binary(value)?)?,
                key::HASH_MAP_ID => map.0 = number(value)?,
                key::HASH_MAP_VERSION => map.1 = number(value)?,
                key::READ_BACKUP => table.read_backup = number(value)? != 0,
                key::FULLY_REPLICATED => table.fully_replicated = number(value)? != 0,
                key::PARTITION_COUNT => table.partition_count = number(value)?,
                key::HASH_FUNCTION => table.hash_is_known = number(value)? == 0,
                key::COLUMN_NAME => draft = Some(Draft::new(string(value)?)),
                key::TABLE_END => break,
                _ => {}
            }
        }
        if draft.is_some() || column_count != table.columns.len() {
            return Err(malformed("columns are missing"));
        }
        if !has_id || table.internal_name.is_empty() {
            return Err(malformed("a table without id or name"));
        }
        if map.0 != RNIL && map.0 != !0 {
            table.hash_map_id = Some((ObjectId::received(map.0), map.1));
        }
        table.find_keys();
        Ok(table)
    }

    fn empty() -> Table {
        Table {
            id: ObjectId::received(RNIL),
            version: 0,
            internal_name: Vec::new(),
            kind: 0,
            columns: Vec::new(),
            primary_key: Vec::new(),
            distribution_key: Vec::new(),
            fragment_type: FragmentType::HashMap,
            partition_count: 0,
            hash_map_id: None,
            hash_map: None,
            hash_is_known: true,
            fragments: Vec::new(),
            read_backup: false,
            fully_replicated: false,
            logged: true,
        }
    }

    fn find_keys(&mut self) {
        let positions = |wanted: fn(&Column) -> bool| {
            self.columns.iter().enumerate().filter(|(_, c)| wanted(c)).map(|(i, _)| i).collect::<Vec<_>>()
        };
        let primary_key = positions(|c| c.primary_key);
        let distribution_key = positions(|c| c.distribution_key);
        self.distribution_key =
            if distribution_key.is_empty() { primary_key.clone() } else { distribution_key };
        self.primary_key = primary_key;
    }

    /// The table with its hash map.
    pub fn with_hash_map(mut self, map: Arc<HashMap>) -> Table {
        self.hash_map = Some(map);
        self
    }

    /// Database, schema and table; parts that the internal name has not are empty.
    pub fn names(&self) -> (&[u8], &[u8], &[u8]) {
        let mut parts = self.internal_name.splitn(3, |&byte| byte == b'/');
        let mut next = || parts.next().unwrap_or_default();
        (next(), next(), next())
    }

    /// The column of exactly that name.
    pub fn column(&self, name: &[u8]) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Whether two versions are of one life of one table: rows written by one can be read by the other.
    pub fn is_same_table(&self, id: ObjectId, version: u32) -> bool {
        self.id == id && (self.version ^ version) & 0x00ff_ffff == 0
    }

    /// The nodes of a fragment, the preferred primary first; none for a fragment that is not there.
    pub fn nodes_of(&self, fragment: u32) -> &[NodeId] {
        self.fragments.get(fragment as usize).map_or(&[], |nodes| nodes)
    }
}

impl HashMap {
    /// Reads a hash map's definition, as a data node sent it.
    pub fn parse(words: &[u32]) -> Result<HashMap, Error> {
        let mut map =
            HashMap { id: ObjectId::received(RNIL), version: 0, name: Vec::new(), buckets: Vec::new() };
        let mut bytes = 0;
        for item in items(words) {
            let (key, value) = item?;
            match key {
                key::MAP_NAME => map.name = string(value)?,
                key::MAP_BYTES => bytes = number(value)? as usize,
                key::HASH_MAP_ID => map.id = ObjectId::received(number(value)?),
                key::HASH_MAP_VERSION => map.version = number(value)?,
                key::MAP_VALUES => {
                    let (pairs, _) = binary(value)?.as_chunks();
                    map.buckets = pairs.iter().map(|&pair| u16::from_le_bytes(pair)).collect();
                }
                _ => {}
            }
        }
        if map.buckets.is_empty() || map.buckets.len() * 2 != bytes {
            return Err(malformed("a hash map whose length does not add up"));
        }
        Ok(map)
    }
}

/// The internal name of a table, if it can be one.
pub fn internal_name(database: &str, table: &str) -> Result<Vec<u8>, Error> {
    for (what, name) in [("database", database), ("table", table)] {
        let fault = match name {
            "" => "is empty",
            _ if name.contains('\0') => "holds a NUL",
            _ => continue,
        };
        return Err(Error::new(own::INVALID_NAME, format!("the {what}'s name {fault}")));
    }
    let name = format!("{database}/def/{table}");
    if name.len() > MAX_INTERNAL_NAME {
        let text = format!("{name}: {} bytes, {MAX_INTERNAL_NAME} are the most", name.len());
        return Err(Error::new(own::INVALID_NAME, text));
    }
    Ok(name.into_bytes())
}

/// A column of a table to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewColumn {
    /// Name.
    pub name: String,
    /// Type.
    pub kind: ColumnType,
    /// Elements: bytes of character and binary types, bits, or 1.
    pub length: u32,
    /// Decimal digits, or digits of a fraction.
    pub precision: u32,
    /// Decimal digits behind the point.
    pub scale: u32,
    /// Number of the collation, for character types.
    pub charset: u32,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// Whether it is part of the primary key.
    pub primary_key: bool,
    /// Whether it is part of the distribution key; if no column is, all of the primary key is.
    pub distribution_key: bool,
    /// Whether it is stored in the dynamic format, so that columns can be added to the table in place.
    pub dynamic: bool,
    /// The value of rows inserted without one, length bytes included.
    pub default: Option<Vec<u8>>,
}

impl NewColumn {
    /// A NOT NULL column of one element that is in no key.
    pub fn new(name: impl Into<String>, kind: ColumnType) -> NewColumn {
        NewColumn {
            name: name.into(),
            kind,
            length: 1,
            precision: 0,
            scale: 0,
            charset: 0,
            nullable: false,
            primary_key: false,
            distribution_key: false,
            dynamic: false,
            default: None,
        }
    }

    /// The bytes of a value at most, after every check of this column alone.
    fn check(&self) -> Result<u32, Error> {
        let fail = |what: &str| Err(invalid(&format!("column {}: {what}", self.name)));
        if self.name.is_empty() || self.name.contains('\0') || self.name.len() > MAX_COLUMN_NAME {
            let text = format!("a column's name is empty, holds a NUL, or exceeds {MAX_COLUMN_NAME} bytes");
            return Err(Error::new(own::INVALID_NAME, text));
        }
        if self.kind.is_blob() {
            return fail("blobs cannot be created");
        }
        if self.kind.is_character() != (self.charset != 0) || self.charset > 0xffff {
            return fail("character types have a collation, others have none");
        }
        if self.kind.is_decimal() {
            if !(1..=MAX_DECIMAL_DIGITS).contains(&self.precision)
                || self.scale > self.precision.min(MAX_DECIMAL_SCALE)
            {
                return fail("no such decimal precision and scale");
            }
        } else if self.scale != 0
            || self.precision > if self.kind.has_fraction() { MAX_FRACTION_DIGITS } else { 0 }
        {
            return fail("this type has no such precision or scale");
        }
        if self.primary_key && (self.nullable || self.kind == ColumnType::Bit) {
            return fail("a column of the primary key cannot be NULL nor a bit field");
        }
        if self.primary_key && self.dynamic {
            return fail("a column of the primary key cannot be dynamic");
        }
        if self.distribution_key && !self.primary_key {
            return fail("a column of the distribution key must be part of the primary key");
        }
        if matches!(self.kind, ColumnType::Varchar | ColumnType::Varbinary) && self.length > 255 {
            return fail("longer than 255: use the long type");
        }
        let Some(size) =
            value_bytes(self.kind, self.kind.array_type(), self.length, self.precision, self.scale)
        else {
            return fail("no such length");
        };
        if size > 0xffff || self.length == 0 {
            return fail("no such length");
        }
        match &self.default {
            Some(_) if self.primary_key => fail("a column of the primary key has no default value"),
            Some(value) if !self.holds(value, size) => fail("the default value has not the column's length"),
            _ => Ok(size),
        }
    }

    fn holds(&self, value: &[u8], size: u32) -> bool {
        let length = match (self.kind.array_type(), value) {
            (ArrayType::ShortVar, &[length, ..]) => 1 + length as usize,
            (ArrayType::MediumVar, &[low, high, ..]) => 2 + u16::from_le_bytes([low, high]) as usize,
            (ArrayType::Fixed, _) => size as usize,
            _ => return false,
        };
        value.len() == length && length <= size as usize
    }

    fn write(&self, writer: &mut Writer, distribution_key: bool, with_default: bool) {
        writer
            .string(key::COLUMN_NAME, self.name.as_bytes())
            .u32(key::COLUMN_KEY, self.primary_key as u32)
            .u32(key::COLUMN_NULLABLE, self.nullable as u32)
            .u32(key::COLUMN_TYPE, self.kind.number())
            .u32(key::COLUMN_PRECISION, self.precision | self.charset << 16)
            .u32(key::COLUMN_SCALE, self.scale)
            .u32(key::COLUMN_LENGTH, self.length)
            .u32(key::COLUMN_ARRAY_TYPE, self.kind.array_type() as u32);
        if distribution_key {
            writer.u32(key::COLUMN_DISTRIBUTION_KEY, 1);
        }
        if self.dynamic {
            writer.u32(key::COLUMN_DYNAMIC, 1);
        }
        if with_default {
            let value = self.default.as_deref().unwrap_or_default();
            let mut bytes = (value.len() as u32).to_be_bytes().to_vec();
            bytes.extend_from_slice(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            writer.u32(key::COLUMN_DEFAULT_LENGTH, bytes.len() as u32).binary(key::COLUMN_DEFAULT, &bytes);
        }
        writer.u32(key::COLUMN_END, 1);
    }
}

/// A table to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTable {
    /// Database.
    pub database: String,
    /// Name.
    pub name: String,
    /// Columns, numbered in this order.
    pub columns: Vec<NewColumn>,
    /// How many fragments.
    pub partitioning: Partitioning,
    /// Whether any replica may answer committed reads.
    pub read_backup: bool,
    /// Whether every node group has all rows.
    pub fully_replicated: bool,
    /// Whether rows survive a system restart.
    pub logged: bool,
}

fn invalid(text: &str) -> Error {
    Error::new(own::INVALID_TABLE, text)
}

impl NewTable {
    /// A table with NDB's defaults.
    pub fn new(database: impl Into<String>, name: impl Into<String>, columns: Vec<NewColumn>) -> NewTable {
        NewTable {
            database: database.into(),
            name: name.into(),
            columns,
            partitioning: Partitioning::ForRpByLdm,
            read_backup: false,
            fully_replicated: false,
            logged: true,
        }
    }

    /// Says what is wrong with the definition, if anything is.
    pub fn check(&self) -> Result<(), Error> {
        internal_name(&self.database, &self.name)?;
        if !(1..=MAX_COLUMNS).contains(&self.columns.len()) {
            return Err(invalid(&format!("a table has 1 to {MAX_COLUMNS} columns")));
        }
        let (mut row_words, mut key_words) = (0, 0);
        for column in &self.columns {
            let words = column.check()?.div_ceil(4);
            row_words += words;
            key_words += if column.primary_key { words } else { 0 };
        }
        let mut names: Vec<&str> = self.columns.iter().map(|column| &column.name[..]).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(invalid(&format!("two columns have the name {}", pair[0])));
        }
        let key_columns = self.columns.iter().filter(|column| column.primary_key).count();
        if !(1..=MAX_KEY_COLUMNS).contains(&key_columns) {
            return Err(invalid(&format!("a primary key has 1 to {MAX_KEY_COLUMNS} columns")));
        }
        if key_words > MAX_KEY_WORDS {
            return Err(invalid(&format!("a primary key has at most {} bytes", 4 * MAX_KEY_WORDS)));
        }
        if row_words > MAX_ROW_WORDS {
            return Err(invalid(&format!("a row has at most {} bytes", 4 * MAX_ROW_WORDS)));
        }
        match self.partitioning {
            Partitioning::Specific(_) if self.fully_replicated => {
                Err(invalid("a fully replicated table cannot have a number of fragments"))
            }
            Partitioning::Specific(count) if count.get() as usize > MAX_FRAGMENTS => {
                Err(invalid(&format!("a table has at most {MAX_FRAGMENTS} fragments")))
            }
            _ => Ok(()),
        }
    }

    /// The definition as CREATE_TABLE_REQ carries it, with the hash map's id and version.
    pub fn definition(&self, hash_map: (ObjectId, u32)) -> Result<Vec<u32>, Error> {
        self.check()?;
        let mut writer = Writer::new();
        writer
            .string(key::TABLE_NAME, &internal_name(&self.database, &self.name)?)
            .u32(key::TABLE_TYPE, kind::USER_TABLE)
            .u32(key::COLUMN_COUNT, self.columns.len() as u32)
            .u32(key::LOGGED, self.logged as u32)
            .u32(key::ROW_GCI, 1)
            .u32(key::ROW_CHECKSUM, 1)
            .u32(key::FRAGMENT_TYPE, HASH_MAP_PARTITION)
            .u32(key::HASH_MAP_ID, hash_map.0.number())
            .u32(key::HASH_MAP_VERSION, hash_map.1);
        if self.partitioning != Partitioning::ForRpByLdm {
            writer.u32(key::PARTITION_BALANCE, self.partitioning.number());
        }
        if let Partitioning::Specific(count) = self.partitioning {
            writer.u32(key::FRAGMENT_COUNT, count.get()).u32(key::DEFAULT_FRAGMENTS, 0);
        }
        if self.read_backup || self.fully_replicated {
            writer.u32(key::READ_BACKUP, 1);
        }
        if self.fully_replicated {
            writer.u32(key::FULLY_REPLICATED, 1);
        }
        // Nodes want the mark only for a true subset of the key, and a default's item for all columns or
        // none.
        let subset = self.columns.iter().any(|c| c.primary_key && !c.distribution_key);
        let defaults = self.columns.iter().any(|c| c.default.is_some());
        for column in &self.columns {
            column.write(&mut writer, column.distribution_key && subset, defaults);
        }
        let words = writer.finish();
        if words.len() > MAX_DEFINITION_WORDS {
            return Err(invalid("the definition is too long"));
        }
        Ok(words)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::dict::vectors::{self, Vector};
    use crate::wire::signal;
    use proptest::prelude::*;
    use std::num::NonZeroU32;

    /// Section 0 of a vector.
    pub fn section(name: &str) -> Vec<u32> {
        section_of(&vectors::named(name))
    }

    fn section_of(vector: &Vector) -> Vec<u32> {
        let words = vector.words();
        signal::decode(&words).unwrap().sections().first().map_or(Vec::new(), |s| s.to_vec())
    }

    #[test]
    fn a_table_of_all_types() {
        let table = Table::parse(&section("types-get_tabinfo_conf-57")).unwrap();
        assert_eq!(table.names(), (&b"cdb"[..], &b"def"[..], &b"vec_types"[..]));
        assert_eq!((table.id.number(), table.version, table.kind), (25, 9, kind::USER_TABLE));
        assert_eq!(table.columns.len(), 19);
        assert_eq!((&table.primary_key[..], &table.distribution_key[..]), (&[0][..], &[0][..]));
        assert_eq!(table.fragment_type, FragmentType::HashMap);
        assert_eq!(table.fragments, [[1, 2], [2, 1]]);
        assert_eq!(table.nodes_of(1), [2, 1]);
        assert!(table.nodes_of(2).is_empty());
        let (map, version) = table.hash_map_id.unwrap();
        assert_eq!((map.number(), version), (1, 1));
        assert!(table.logged && table.hash_is_known && !table.read_backup && !table.fully_replicated);
        let vc = table.column(b"vc").unwrap();
        assert_eq!(
            (vc.kind, vc.array, vc.charset, vc.size),
            (ColumnType::Varchar, ArrayType::ShortVar, 46, 21)
        );
        assert_eq!(vc.default.as_deref(), Some(&b"\x03abc"[..]));
        assert!(vc.nullable);
        let decimal = table.column(b"dec").unwrap();
        assert_eq!((decimal.precision, decimal.scale, decimal.size), (12, 3, 6));
        assert_eq!(table.column(b"v"), None);
        for (column, expected) in table.columns.iter().zip(sizes_of("types-get_tabinfo_conf-57")) {
            assert_eq!(column.size, expected, "{}", String::from_utf8_lossy(&column.name));
        }
    }

    /// The size in bytes of each column as the node computed it: elements times element size.
    fn sizes_of(name: &str) -> Vec<u32> {
        let vector = vectors::named(name);
        let items = vector.decoded["section0"].as_array().unwrap().clone();
        let values =
            |key: u64| items.iter().filter(move |i| i[0] == key).map(|i| i[3].as_u64().unwrap() as u32);
        values(1003)
            .zip(values(1005))
            .map(|(size, count)| (count << size).div_ceil(8))
            .zip(values(1013))
            .map(|(bytes, kind)| if kind == 22 { bytes.next_multiple_of(4) } else { bytes })
            .collect()
    }

    #[test]
    fn every_recorded_definition() {
        let mut seen = 0;
        for vector in vectors::dictionary().filter(|v| v.name.contains("get_tabinfo_conf")) {
            let section = section_of(&vector);
            if vector.decoded["fragInfo"] != 0 {
                assert!(Table::parse(&section).is_err(), "a piece of a definition is none");
            } else if vector.decoded["tableType"] == kind::HASH_MAP {
                let map = HashMap::parse(&section).unwrap();
                assert_eq!(map.name, b"DEFAULT-HASHMAP-3840-2");
                assert_eq!(map.buckets.len(), 3840);
                assert!(map.buckets.iter().enumerate().all(|(i, &f)| f as usize == i % 2));
                assert_eq!((map.id.number(), map.version), (1, 1));
                assert!(Table::parse(&section).is_err());
                seen += 1;
            } else {
                let table = Table::parse(&section).unwrap();
                assert_eq!(table.id.number() as u64, vector.decoded["tableId"].as_u64().unwrap());
                assert_eq!(table.kind as u64, vector.decoded["tableType"].as_u64().unwrap());
                assert!(HashMap::parse(&section).is_err());
                seen += 1;
            }
        }
        assert!(seen >= 9, "{seen} definitions");
    }

    #[test]
    fn flags_of_a_fully_replicated_table_and_an_index() {
        let table = Table::parse(&section("fullyrep-get_tabinfo_conf-69")).unwrap();
        assert!(table.fully_replicated && table.read_backup);
        assert_eq!(table.partition_count, 1);
        assert_eq!(table.fragments, [[1, 2], [4, 3]]);
        let index = Table::parse(&section("idx-get_tabinfo_conf-62")).unwrap();
        assert_eq!(index.names(), (&b"sys"[..], &b"def"[..], &b"25/ux"[..]));
        assert_eq!(index.kind, kind::UNIQUE_HASH_INDEX);
    }

    #[test]
    fn versions_of_one_table() {
        let table = Table::parse(&section("types-get_tabinfo_conf-57")).unwrap();
        assert!(table.is_same_table(table.id, 9));
        assert!(table.is_same_table(table.id, 0x0300_0009));
        assert!(!table.is_same_table(table.id, 10));
        assert!(!table.is_same_table(ObjectId::received(26), 9));
    }

    #[test]
    fn another_hash_function_is_seen() {
        let mut words = section("types-get_tabinfo_conf-57");
        let mut writer = Writer::new();
        writer.u32(key::HASH_FUNCTION, 1);
        words.splice(0..0, writer.finish());
        assert!(!Table::parse(&words).unwrap().hash_is_known);
    }

    #[test]
    fn changed_and_truncated_definitions_never_panic() {
        for vector in vectors::dictionary().filter(|v| !v.decoded["gsn"].is_null()) {
            let words = section_of(&vector);
            for at in (0..words.len()).step_by(1 + words.len() / 400) {
                let _ = (Table::parse(&words[..at]), HashMap::parse(&words[..at]));
                for change in
                    [0u32, !0, 1 << 24, 0xff00_0000, 0x0100_0000 ^ words[at], words[at].swap_bytes()]
                {
                    let mut changed = words.clone();
                    changed[at] = change;
                    let _ = (Table::parse(&changed), HashMap::parse(&changed));
                }
            }
        }
    }

    /// The table that a recorded CREATE_TABLE_REQ makes.
    fn new_table(section: &[u32]) -> NewTable {
        // A create's section is read as a definition by giving it an id.
        let mut writer = Writer::new();
        writer.u32(key::TABLE_ID, 1);
        let table = Table::parse(&[&writer.finish(), section].concat()).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let columns = table.columns.iter().map(|c| NewColumn {
            name: text(&c.name),
            kind: c.kind,
            length: c.length,
            precision: c.precision,
            scale: c.scale,
            charset: c.charset,
            nullable: c.nullable,
            primary_key: c.primary_key,
            distribution_key: c.distribution_key,
            dynamic: c.dynamic,
            default: c.default.clone(),
        });
        let (database, _, name) = table.names();
        NewTable::new(text(database), text(name), columns.collect())
    }

    #[test]
    fn a_recorded_create_word_for_word() {
        let section = section("types-create_table_req-55");
        assert_eq!(new_table(&section).definition((ObjectId::received(1), 1)).unwrap(), section);
    }

    pub fn column(name: &str, kind: ColumnType) -> NewColumn {
        NewColumn::new(name, kind)
    }

    pub fn key_column(name: &str, kind: ColumnType) -> NewColumn {
        NewColumn { primary_key: true, ..NewColumn::new(name, kind) }
    }

    /// The table that a data node would send for a new one, with id 7 and so many fragments.
    pub fn as_sent(new: &NewTable, fragments: u16) -> Table {
        let mut table = read_back(&new.definition((ObjectId::received(3), 4)).unwrap());
        table.fragments = (0..fragments).map(|f| vec![1 + f % 2, 2 - f % 2]).collect();
        let buckets = (0..3840).map(|bucket| bucket % fragments).collect();
        let name = b"DEFAULT-HASHMAP".to_vec();
        table.with_hash_map(Arc::new(HashMap { id: ObjectId::received(3), version: 4, name, buckets }))
    }

    fn read_back(words: &[u32]) -> Table {
        let mut writer = Writer::new();
        writer.u32(key::TABLE_ID, 7).u32(key::TABLE_VERSION, 1);
        Table::parse(&[&writer.finish(), words].concat()).unwrap()
    }

    #[test]
    fn options_of_new_tables() {
        let mut new = NewTable::new("db", "t", vec![key_column("k", ColumnType::Unsigned)]);
        let find = |new: &NewTable, wanted| {
            let words = new.definition((ObjectId::received(3), 4)).unwrap();
            items(&words).map(|i| i.unwrap()).find(|i| i.0 == wanted).map(|i| number(i.1).unwrap())
        };
        assert_eq!(find(&new, key::PARTITION_BALANCE), None);
        assert_eq!(find(&new, key::LOGGED), Some(1));
        new.partitioning = Partitioning::Specific(NonZeroU32::new(6).unwrap());
        new.logged = false;
        assert_eq!(find(&new, key::PARTITION_BALANCE), Some(!0));
        assert_eq!(find(&new, key::FRAGMENT_COUNT), Some(6));
        assert_eq!(find(&new, key::DEFAULT_FRAGMENTS), Some(0));
        assert_eq!(find(&new, key::LOGGED), Some(0));
        new.partitioning = Partitioning::ForRaByLdm;
        new.fully_replicated = true;
        assert_eq!(find(&new, key::PARTITION_BALANCE), Some(0xffff_fffd));
        assert_eq!((find(&new, key::READ_BACKUP), find(&new, key::FULLY_REPLICATED)), (Some(1), Some(1)));
        assert_eq!(find(&new, key::FRAGMENT_COUNT), None);
    }

    #[test]
    fn inconsistent_tables_are_refused() {
        use ColumnType::*;
        let good = || vec![key_column("k", Unsigned), column("a", Int)];
        let code = |change: fn(&mut NewTable)| {
            let mut new = NewTable::new("db", "t", good());
            new.check().unwrap();
            change(&mut new);
            let error = new.check().unwrap_err();
            assert_eq!(new.definition((ObjectId::received(3), 4)).unwrap_err(), error);
            error.code
        };
        let table_faults: &[fn(&mut NewTable)] = &[
            |t| t.columns.clear(),
            |t| t.columns[0].primary_key = false,
            |t| t.columns[0].nullable = true,
            |t| t.columns[0].kind = Bit,
            |t| t.columns[0].dynamic = true,
            |t| t.columns[0].default = Some(vec![0; 4]),
            |t| t.columns[1].name = "k".into(),
            |t| t.columns[1].kind = Blob,
            |t| t.columns[1].length = 0,
            |t| t.columns[1].length = 20000,
            |t| t.columns[1].charset = 63,
            |t| t.columns[1].kind = Varchar,
            |t| t.columns[1].scale = 1,
            |t| t.columns[1].distribution_key = true,
            |t| t.columns[1].default = Some(vec![0; 3]),
            |t| (t.columns[1].kind, t.columns[1].precision) = (Time2, 7),
            |t| (t.columns[1].kind, t.columns[1].precision) = (Decimal, 66),
            |t| (t.columns[1].kind, t.columns[1].length) = (Varbinary, 256),
            |t| (t.columns[1].kind, t.columns[1].length) = (Longvarbinary, 30000),
            |t| (t.columns[1].kind, t.columns[1].default) = (Varbinary, Some(vec![2, 0])),
            |t| t.columns.extend((0..32).map(|i| key_column(&format!("c{i}"), Int))),
            |t| t.columns.extend((0..511).map(|i| column(&format!("c{i}"), Int))),
            |t| (t.columns[0].kind, t.columns[0].length) = (Binary, 4096),
            |t| {
                t.fully_replicated = true;
                t.partitioning = Partitioning::Specific(NonZeroU32::MIN);
            },
            |t| t.partitioning = Partitioning::Specific(NonZeroU32::new(8161).unwrap()),
        ];
        for (index, &fault) in table_faults.iter().enumerate() {
            assert_eq!(code(fault), own::INVALID_TABLE, "fault {index}");
        }
        let name_faults: &[fn(&mut NewTable)] = &[
            |t| t.name = String::new(),
            |t| t.name = "a\0".into(),
            |t| t.name = "a".repeat(121),
            |t| t.database = String::new(),
            |t| t.columns[0].name = String::new(),
            |t| t.columns[0].name = "a\0".into(),
            |t| t.columns[0].name = "a".repeat(128),
        ];
        for (index, &fault) in name_faults.iter().enumerate() {
            assert_eq!(code(fault), own::INVALID_NAME, "fault {index}");
        }
    }

    /// Columns of every type but blobs, of random shape, none of them a key.
    pub fn any_column() -> impl Strategy<Value = NewColumn> {
        let kinds: Vec<ColumnType> = ColumnType::ALL.iter().copied().filter(|k| !k.is_blob()).collect();
        (proptest::sample::select(kinds), 1u32..60, 0u32..7, any::<bool>()).prop_map(
            |(kind, n, digits, nullable)| {
                use ColumnType::*;
                NewColumn {
                    length: match kind {
                        Char | Varchar | Binary | Varbinary | Longvarchar | Longvarbinary | Bit => n,
                        _ => 1 + (n == 59) as u32,
                    },
                    precision: match kind {
                        _ if kind.is_decimal() => n,
                        _ if kind.has_fraction() => digits,
                        _ => 0,
                    },
                    scale: if kind.is_decimal() { digits.min(n) } else { 0 },
                    charset: if kind.is_character() { 47 } else { 0 },
                    nullable,
                    ..NewColumn::new("c", kind)
                }
            },
        )
    }

    /// Tables with one to three key columns.
    pub fn any_table() -> impl Strategy<Value = NewTable> {
        (proptest::collection::vec(any_column(), 1..4), proptest::collection::vec(any_column(), 0..12))
            .prop_map(|(keys, others)| {
                let mut columns = others;
                let at = columns.len() / 2;
                columns.splice(
                    at..at,
                    keys.into_iter().map(|mut c| {
                        if c.kind == ColumnType::Bit {
                            c.kind = ColumnType::Binary;
                        }
                        NewColumn { primary_key: true, nullable: false, ..c }
                    }),
                );
                columns.iter_mut().enumerate().for_each(|(i, c)| c.name = format!("c{i}"));
                NewTable::new("db", "t", columns)
            })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(new in any_table()) {
            let table = as_sent(&new, 2);
            prop_assert_eq!(&table.internal_name[..], b"db/def/t");
            prop_assert_eq!(table.columns.len(), new.columns.len());
            for (column, new) in table.columns.iter().zip(&new.columns) {
                prop_assert_eq!(&column.name[..], new.name.as_bytes());
                prop_assert_eq!(
                    (column.kind, column.length, column.precision, column.scale, column.charset),
                    (new.kind, new.length, new.precision, new.scale, new.charset)
                );
                prop_assert_eq!((column.nullable, column.primary_key), (new.nullable, new.primary_key));
                prop_assert_eq!(column.size, new.check().unwrap());
            }
        }

        #[test]
        fn any_words_parse_or_not(words in proptest::collection::vec(any::<u32>(), 0..60)) {
            let _ = (Table::parse(&words), HashMap::parse(&words));
        }
    }
}
