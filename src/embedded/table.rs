//! Table definitions as a data node keeps them: read from CREATE_TABLE_REQ, completed, written for
//! GET_TABINFO_CONF, and asked by the coordinator (which fragment?) and by the storage (which columns?).
//! Sources: storage/ndb/include/kernel/signaldata/DictTabInfo.hpp, src/kernel/blocks/dbdict/Dbdict.cpp
//! (packTableIntoPages, handleTabInfo), src/kernel/blocks/dbdih/DbdihMain.cpp.

use std::borrow::Cow;
use std::sync::Arc;

use crate::wire::attribute::packed::Form;
use crate::wire::column::{ArrayType, Collation, ColumnType, value_bytes};
use crate::wire::hash::{Hasher, hash};
use crate::wire::properties::{Reader, Value, Writer};
use crate::wire::{NodeId, RNIL};

const MAX_COLUMNS: usize = 512;
const MAX_KEY_COLUMNS: usize = 32;
const MAX_NAME: usize = 127;
const MAX_KEY_WORDS: usize = 1023;
const MAX_ROW_WORDS: usize = 7500;
const MAX_DEFINITION_WORDS: usize = 24576;
const MAX_FRAGMENTS: u32 = 8160;
/// Half of a page of extra metadata: more than this is told under another key.
const MAX_METADATA: usize = 6000;
const HASH_MAP_PARTITION: u32 = 9;
const USER_TABLE: u32 = 2;
/// Log parts that fragments are spread over.
const LOG_PARTS: u32 = 4;
const SPECIFIC: u32 = 0xffff_ffff;
/// Collations that need weight tables, which ASCII text does without: latin1_swedish_ci, utf8mb3_general_ci,
/// utf8mb4_general_ci, utf8mb4_0900_ai_ci.
const WITHOUT_CASE: [u32; 4] = [8, 33, 45, 255];

/// Keys of the items.
mod key {
    pub const TABLE_NAME: u16 = 1;
    pub const TABLE_ID: u16 = 2;
    pub const TABLE_VERSION: u16 = 3;
    pub const LOGGED: u16 = 4;
    pub const KEY_COLUMN_COUNT: u16 = 5;
    pub const COLUMN_COUNT: u16 = 6;
    pub const NULLABLE_COUNT: u16 = 7;
    pub const VARIABLE_COUNT: u16 = 8;
    pub const K_VALUE: u16 = 9;
    pub const MIN_LOAD: u16 = 10;
    pub const MAX_LOAD: u16 = 11;
    pub const KEY_LENGTH: u16 = 12;
    pub const FRAGMENT_TYPE: u16 = 13;
    pub const TABLE_TYPE: u16 = 18;
    pub const FRM_LENGTH: u16 = 26;
    pub const FRM_DATA: u16 = 27;
    pub const TEMPORARY: u16 = 28;
    pub const FORCE_VAR_PART: u16 = 29;
    pub const METADATA: u16 = 30;
    pub const PARTITION_BALANCE: u16 = 127;
    pub const FRAGMENT_COUNT: u16 = 128;
    pub const FRAGMENT_DATA_LENGTH: u16 = 129;
    pub const FRAGMENT_DATA: u16 = 130;
    pub const TABLESPACE_DATA_LENGTH: u16 = 133;
    pub const RANGE_LIST_LENGTH: u16 = 135;
    pub const RANGE_LIST: u16 = 136;
    pub const REPLICA_DATA_LENGTH: u16 = 137;
    pub const REPLICA_DATA: u16 = 138;
    pub const MAX_ROWS_LOW: u16 = 139;
    pub const MAX_ROWS_HIGH: u16 = 140;
    pub const DEFAULT_FRAGMENTS: u16 = 141;
    pub const LINEAR_HASH: u16 = 142;
    pub const MIN_ROWS_LOW: u16 = 143;
    pub const MIN_ROWS_HIGH: u16 = 144;
    pub const ROW_GCI: u16 = 150;
    pub const ROW_CHECKSUM: u16 = 151;
    pub const SINGLE_USER_MODE: u16 = 152;
    pub const HASH_MAP_ID: u16 = 153;
    pub const HASH_MAP_VERSION: u16 = 154;
    pub const STORAGE_TYPE: u16 = 155;
    pub const EXTRA_GCI_BITS: u16 = 156;
    pub const EXTRA_AUTHOR_BITS: u16 = 157;
    pub const READ_BACKUP: u16 = 158;
    pub const FULLY_REPLICATED: u16 = 159;
    pub const PARTITION_COUNT: u16 = 160;
    pub const REPLICATION_TRIGGER: u16 = 161;
    pub const TABLE_END: u16 = 999;
    pub const COLUMN_NAME: u16 = 1000;
    pub const COLUMN_ID: u16 = 1001;
    pub const COLUMN_SIZE_CLASS: u16 = 1003;
    pub const COLUMN_ELEMENTS: u16 = 1005;
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
    pub const DEFAULT_LENGTH: u16 = 1020;
    pub const DEFAULT_VALUE: u16 = 1021;
    pub const COLUMN_END: u16 = 1999;
}

/// Why a table cannot be made: the code, and the key of the item at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// NDB's error code.
    pub code: u32,
    /// The key, 0 for none.
    pub key: u16,
}

const fn refused<T>(code: u32) -> Result<T, Refused> {
    Err(Refused { code, key: 0 })
}

const fn bad_format<T>(key: u16) -> Result<T, Refused> {
    Err(Refused { code: 703, key })
}

/// One column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its name.
    pub name: Vec<u8>,
    /// Its type.
    pub kind: ColumnType,
    /// How values say their length.
    pub array: ArrayType,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// Whether it is part of the key.
    pub key: bool,
    /// Its collation, where one counts for the key; without a known hash form, letters of ASCII are compared
    /// without their case, and other text is refused.
    pub collation: Option<(u32, Option<Collation>)>,
    /// The most bytes of a value; whole words for bits.
    pub size: usize,
    /// How it lies in a packed row.
    pub form: Form,
    /// What rows get that are inserted without it.
    pub default: Option<Vec<u8>>,
    distribution_key: bool,
    length: u32,
    precision: u32,
    scale: u32,
    dynamic: u32,
    auto_increment: u32,
    storage: u32,
}

/// The numbers of a definition that nothing here depends on.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    logged: u32,
    row_gci: u32,
    row_checksum: u32,
    force_var_part: u32,
    min_load: u32,
    max_load: u32,
    k_value: u32,
    max_rows: [u32; 2],
    min_rows: [u32; 2],
    default_partitions: u32,
    linear_hash: u32,
    single_user: u32,
    storage_type: u32,
    extra_gci_bits: u32,
    extra_author_bits: u32,
}

/// A table.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its id.
    pub id: u32,
    /// Its version.
    pub version: u32,
    /// Its internal name.
    pub name: Vec<u8>,
    /// Its columns, by number.
    pub columns: Vec<Column>,
    /// The numbers of its key's columns.
    pub key: Vec<usize>,
    /// The numbers of its distribution key's columns.
    pub distribution: Vec<usize>,
    /// The nodes of each fragment, the preferred primary first.
    pub fragments: Vec<Vec<NodeId>>,
    /// Any replica may answer committed reads.
    pub read_backup: bool,
    /// Every node group has all rows.
    pub fully_replicated: bool,
    /// The hash map: its id and version.
    pub hash_map: (u32, u32),
    /// The fragment of each bucket.
    pub buckets: Arc<[u16]>,
    /// The partition balance.
    pub balance: u32,
    /// The number of fragments that was asked for.
    pub wanted_fragments: u32,
    /// The key is one word as it is: the usual case.
    one_word: bool,
    /// The key needs no more than its words: no collation, nothing left out of the distribution key.
    plain_key: bool,
    metadata: Vec<u8>,
    numbers: Numbers,
}

/// Where a key belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The row's hash inside its fragment.
    pub hash: u32,
    /// The fragment.
    pub fragment: u32,
}

impl Table {
    /// Reads the definition of a table to be made; where its rows lie is still to be said.
    pub fn parse(words: &[u32]) -> Result<Table, Refused> {
        if words.len() > MAX_DEFINITION_WORDS {
            return refused(793);
        }
        let mut table = Table::empty();
        let mut count = None;
        let mut kind = 0;
        let mut columns: Vec<Column> = Vec::new();
        let mut open: Option<Draft> = None;
        for item in Reader::new(words) {
            let Ok((key, value)) = item else { return bad_format(0) };
            if let Some(draft) = &mut open {
                if key == key::COLUMN_END {
                    columns.extend(open.take().map(Draft::finish).transpose()?);
                    if columns.len() > MAX_COLUMNS {
                        return refused(703);
                    }
                } else {
                    draft.take(key, value)?;
                }
                continue;
            }
            match (key, value) {
                (key::TABLE_NAME, Value::Str(name)) => table.name = name.to_vec(),
                (key::COLUMN_COUNT, Value::U32(number)) => count = Some(number as usize),
                (key::TABLE_TYPE, Value::U32(number)) => kind = number,
                (key::METADATA, Value::Bin(bytes)) => table.metadata = bytes.to_vec(),
                (key::COLUMN_NAME, Value::Str(name)) => open = Some(Draft::new(name)),
                (key::TABLE_END, _) => break,
                (_, Value::U32(number)) => table.number(key, number)?,
                _ => {}
            }
        }
        if open.is_some() || count != Some(columns.len()) || columns.is_empty() {
            return bad_format(key::COLUMN_COUNT);
        }
        if table.name.is_empty() || table.name.len() > MAX_NAME {
            return bad_format(key::TABLE_NAME);
        }
        if kind != USER_TABLE {
            return bad_format(key::TABLE_TYPE);
        }
        table.columns = columns;
        table.check()?;
        Ok(table)
    }

    fn empty() -> Table {
        let numbers = Numbers {
            logged: 1,
            row_gci: 1,
            row_checksum: 1,
            force_var_part: 0,
            min_load: 78,
            max_load: 80,
            k_value: 6,
            max_rows: [0; 2],
            min_rows: [0; 2],
            default_partitions: 1,
            linear_hash: 1,
            single_user: 0,
            storage_type: 2,
            extra_gci_bits: 0,
            extra_author_bits: 0,
        };
        Table {
            id: 0,
            version: 0,
            name: Vec::new(),
            columns: Vec::new(),
            key: Vec::new(),
            distribution: Vec::new(),
            fragments: Vec::new(),
            read_backup: false,
            fully_replicated: false,
            hash_map: (RNIL, RNIL),
            buckets: Arc::from([]),
            balance: 0xffff_fffe,
            wanted_fragments: 0,
            one_word: false,
            plain_key: false,
            metadata: Vec::new(),
            numbers,
        }
    }

    fn number(&mut self, key: u16, number: u32) -> Result<(), Refused> {
        let numbers = &mut self.numbers;
        match key {
            key::LOGGED => numbers.logged = number,
            key::K_VALUE => numbers.k_value = number,
            key::MIN_LOAD => numbers.min_load = number,
            key::MAX_LOAD => numbers.max_load = number,
            key::FRAGMENT_TYPE if number != HASH_MAP_PARTITION => return Err(Refused { code: 772, key }),
            key::FORCE_VAR_PART => numbers.force_var_part = number,
            key::PARTITION_BALANCE => self.balance = number,
            key::FRAGMENT_COUNT => self.wanted_fragments = number,
            key::MAX_ROWS_LOW => numbers.max_rows[0] = number,
            key::MAX_ROWS_HIGH => numbers.max_rows[1] = number,
            key::DEFAULT_FRAGMENTS => numbers.default_partitions = number,
            key::LINEAR_HASH => numbers.linear_hash = number,
            key::MIN_ROWS_LOW => numbers.min_rows[0] = number,
            key::MIN_ROWS_HIGH => numbers.min_rows[1] = number,
            key::ROW_GCI => numbers.row_gci = (number != 0) as u32,
            key::ROW_CHECKSUM => numbers.row_checksum = (number != 0) as u32,
            key::SINGLE_USER_MODE => numbers.single_user = number,
            key::HASH_MAP_ID => self.hash_map.0 = number,
            key::HASH_MAP_VERSION => self.hash_map.1 = number,
            key::STORAGE_TYPE => numbers.storage_type = number,
            key::EXTRA_GCI_BITS => numbers.extra_gci_bits = number,
            key::EXTRA_AUTHOR_BITS => numbers.extra_author_bits = number,
            key::READ_BACKUP => self.read_backup = number != 0,
            key::FULLY_REPLICATED => self.fully_replicated = number != 0,
            _ => {}
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), Refused> {
        let mut names: Vec<&[u8]> = self.columns.iter().map(|column| &column.name[..]).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return refused(720);
        }
        let numbers_of = |wanted: fn(&Column) -> bool| {
            self.columns.iter().enumerate().filter(|(_, c)| wanted(c)).map(|(at, _)| at).collect::<Vec<_>>()
        };
        let key = numbers_of(|column| column.key);
        let marked = numbers_of(|column| column.distribution_key && column.key);
        let words = |columns: &mut dyn Iterator<Item = &Column>| -> usize {
            columns.map(|column| column.size.div_ceil(4)).sum()
        };
        let key_words = words(&mut self.columns.iter().filter(|column| column.key));
        if key.is_empty() || key.len() > MAX_KEY_COLUMNS || key_words > MAX_KEY_WORDS {
            return refused(739);
        }
        if words(&mut self.columns.iter()) > MAX_ROW_WORDS {
            return refused(738);
        }
        if self.balance == SPECIFIC && self.wanted_fragments == 0 {
            return refused(799);
        }
        if self.wanted_fragments > MAX_FRAGMENTS {
            return refused(1224);
        }
        let plain = key.iter().all(|&at| self.columns[at].collation.is_none());
        self.plain_key = plain && (marked.is_empty() || marked == key);
        self.one_word = self.plain_key && key.len() == 1 && self.columns[key[0]].form == Form::Words(4);
        self.distribution = if marked.is_empty() { key.clone() } else { marked };
        self.key = key;
        Ok(())
    }

    /// Says where rows lie: so many fragments over these node groups.
    pub fn place(&mut self, fragments: u32, replicas: NodeId, groups: NodeId) {
        let nodes_of = |fragment: u32| {
            let group = fragment % groups as u32;
            // Groups begin with different members, and take turns within.
            let first = fragment / groups as u32 + group;
            (0..replicas as u32)
                .map(|at| (group * replicas as u32 + (first + at) % replicas as u32) as NodeId + 1)
                .collect()
        };
        self.fragments = (0..fragments).map(nodes_of).collect();
    }

    /// Where a key, given as KEYINFO, belongs, and the words that its row is found by: `key` itself, or what
    /// is left in `normal`. None when the words are no key of this table.
    #[inline]
    pub fn locate<'a>(&self, key: &'a [u32], normal: &'a mut Vec<u32>) -> Option<(Place, &'a [u32])> {
        if self.one_word {
            let [_] = key else { return None };
            return Some((self.place_of(hash(key), None), key));
        }
        self.locate_general(key, normal)
    }

    fn locate_general<'a>(&self, key: &'a [u32], normal: &'a mut Vec<u32>) -> Option<(Place, &'a [u32])> {
        let mut rest = key;
        let mut row = Hasher::new();
        let mut distribution = Hasher::new();
        let whole = self.distribution.len() == self.key.len();
        normal.clear();
        for &at in &self.key {
            let column = &self.columns[at];
            let bytes: &[u8] = bytemuck::cast_slice(rest);
            let length = column.value_length(bytes)?;
            let value = bytes.get(..length)?;
            rest = rest.get(length.div_ceil(4)..)?;
            column.hash(value, &mut row)?;
            if !whole && self.distribution.contains(&at) {
                column.hash(value, &mut distribution)?;
            }
            if !self.plain_key {
                push_bytes(normal, &column.compared(value));
            }
        }
        if !rest.is_empty() {
            return None;
        }
        // Without collations the nodes hash the words as they came, padding included.
        let hashes = if self.plain_key { hash(key) } else { row.finish() };
        let place = self.place_of(hashes, (!whole).then(|| distribution.finish()[1]));
        Some((place, if self.plain_key { key } else { normal }))
    }

    #[inline]
    fn place_of(&self, hashes: [u32; 4], distribution: Option<u32>) -> Place {
        let bucket = distribution.unwrap_or(hashes[1]) as usize % self.buckets.len().max(1);
        let fragment = self.buckets.get(bucket).copied().unwrap_or(0) as u32;
        Place { hash: hashes[0], fragment }
    }

    /// The definition as GET_TABINFO_CONF carries it.
    pub fn definition(&self) -> Vec<u32> {
        let numbers = &self.numbers;
        let count = |wanted: fn(&Column) -> bool| self.columns.iter().filter(|c| wanted(c)).count() as u32;
        let key_words: usize = self.key.iter().map(|&at| self.columns[at].size.div_ceil(4)).sum();
        let fragments = self.fragments.len() as u32;
        let partitions = self.buckets.iter().max().map_or(fragments, |&most| most as u32 + 1);
        let mut out = Writer::new();
        out.string(key::TABLE_NAME, &self.name)
            .u32(key::TABLE_ID, self.id)
            .u32(key::TABLE_VERSION, self.version)
            .u32(key::KEY_COLUMN_COUNT, self.key.len() as u32)
            .u32(key::COLUMN_COUNT, self.columns.len() as u32)
            .u32(key::NULLABLE_COUNT, count(|column| column.nullable))
            .u32(key::VARIABLE_COUNT, 0)
            .u32(key::KEY_LENGTH, key_words as u32)
            .u32(key::LOGGED, numbers.logged)
            .u32(key::ROW_GCI, numbers.row_gci)
            .u32(key::ROW_CHECKSUM, numbers.row_checksum)
            .u32(key::TEMPORARY, 0)
            .u32(key::FORCE_VAR_PART, numbers.force_var_part)
            .u32(key::READ_BACKUP, self.read_backup as u32)
            .u32(key::FULLY_REPLICATED, self.fully_replicated as u32)
            .u32(key::MIN_LOAD, numbers.min_load)
            .u32(key::MAX_LOAD, numbers.max_load)
            .u32(key::K_VALUE, numbers.k_value)
            .u32(key::FRAGMENT_TYPE, HASH_MAP_PARTITION)
            .u32(key::TABLE_TYPE, USER_TABLE)
            .u32(key::MAX_ROWS_LOW, numbers.max_rows[0])
            .u32(key::MAX_ROWS_HIGH, numbers.max_rows[1])
            .u32(key::DEFAULT_FRAGMENTS, numbers.default_partitions)
            .u32(key::LINEAR_HASH, numbers.linear_hash)
            .u32(key::PARTITION_BALANCE, self.balance)
            .u32(key::FRAGMENT_COUNT, fragments)
            .u32(key::MIN_ROWS_LOW, numbers.min_rows[0])
            .u32(key::MIN_ROWS_HIGH, numbers.min_rows[1])
            .u32(key::SINGLE_USER_MODE, numbers.single_user)
            .u32(key::HASH_MAP_ID, self.hash_map.0)
            .u32(key::STORAGE_TYPE, numbers.storage_type)
            .u32(key::EXTRA_GCI_BITS, numbers.extra_gci_bits)
            .u32(key::EXTRA_AUTHOR_BITS, numbers.extra_author_bits)
            .u32(key::PARTITION_COUNT, partitions)
            .u32(key::REPLICATION_TRIGGER, RNIL)
            .u32(key::HASH_MAP_VERSION, self.hash_map.1);
        let replicas = self.replica_data();
        out.u32(key::REPLICA_DATA_LENGTH, replicas.len() as u32).binary(key::REPLICA_DATA, &replicas);
        if self.metadata.len() > MAX_METADATA {
            out.binary(key::METADATA, &self.metadata);
        } else {
            out.u32(key::FRM_LENGTH, self.metadata.len() as u32).binary(key::FRM_DATA, &self.metadata);
        }
        out.u32(key::TABLESPACE_DATA_LENGTH, 0)
            .u32(key::FRAGMENT_DATA_LENGTH, 0)
            .binary(key::FRAGMENT_DATA, &[])
            .u32(key::RANGE_LIST_LENGTH, 0)
            .binary(key::RANGE_LIST, &[]);
        for (id, column) in self.columns.iter().enumerate() {
            column.write(id as u32, &mut out);
        }
        out.u32(key::TABLE_END, 1);
        out.finish()
    }

    /// Big endian half words: replicas, fragments, then each fragment's log part and nodes.
    fn replica_data(&self) -> Vec<u8> {
        let replicas = self.fragments.first().map_or(0, Vec::len) as u16;
        let lists = self.fragments.iter().zip(0u32..).flat_map(|(nodes, fragment)| {
            std::iter::once((fragment % LOG_PARTS) as u16).chain(nodes.iter().copied())
        });
        [replicas, self.fragments.len() as u16].into_iter().chain(lists).flat_map(u16::to_be_bytes).collect()
    }
}

/// A column as its items come.
struct Draft {
    name: Vec<u8>,
    kind: u32,
    array: Option<u32>,
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
    fn new(name: &[u8]) -> Draft {
        Draft {
            name: name.to_vec(),
            kind: ColumnType::Unsigned.number(),
            array: None,
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

    fn take(&mut self, key: u16, value: Value<'_>) -> Result<(), Refused> {
        let number = match value {
            Value::U32(number) => number,
            Value::Bin(bytes) if key == key::DEFAULT_VALUE => {
                // A big endian word with the value's length, then the value.
                if let Some((&[_, _, high, low], rest)) = bytes.split_first_chunk() {
                    let length = u16::from_be_bytes([high, low]) as usize;
                    let Some(value) = rest.get(..length) else { return bad_format(key) };
                    self.default = (length > 0).then(|| value.to_vec());
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        match key {
            key::COLUMN_KEY => self.key = number,
            key::COLUMN_STORAGE => self.storage = number,
            key::COLUMN_NULLABLE => self.nullable = number,
            key::COLUMN_DYNAMIC => self.dynamic = number,
            key::COLUMN_DISTRIBUTION_KEY => self.distribution_key = number,
            key::COLUMN_TYPE => self.kind = number,
            key::COLUMN_PRECISION => self.precision = number,
            key::COLUMN_SCALE => self.scale = number,
            key::COLUMN_LENGTH => self.length = number,
            key::COLUMN_AUTO_INCREMENT => self.auto_increment = number,
            key::COLUMN_ARRAY_TYPE => self.array = Some(number),
            _ => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<Column, Refused> {
        let Some(kind) = ColumnType::from_number(self.kind) else { return bad_format(key::COLUMN_TYPE) };
        let array = match self.array {
            None => kind.array_type(),
            Some(number) => match ArrayType::from_number(number) {
                Some(ArrayType::NoneVar) | None => return bad_format(key::COLUMN_ARRAY_TYPE),
                Some(array) => array,
            },
        };
        let (key, nullable) = (self.key != 0, self.nullable != 0);
        if self.name.is_empty() {
            return bad_format(key::COLUMN_NAME);
        }
        if self.length == 0 && !kind.is_blob() {
            return refused(736);
        }
        let (precision, charset) = (self.precision & 0xffff, self.precision >> 16);
        let Some(size) = value_bytes(kind, array, self.length, precision, self.scale) else {
            return refused(737);
        };
        if size > 0xffff + 2 || (kind != ColumnType::Bit && size > 0xffff) {
            return refused(737);
        }
        if array != kind.array_type() && !kind.is_blob() {
            return refused(706);
        }
        if kind.is_character() != (charset != 0) {
            return refused(743);
        }
        if self.storage != 0 {
            return refused(755);
        }
        if key && nullable {
            return refused(740);
        }
        if key && (kind.is_blob() || kind == ColumnType::Bit) {
            return refused(906);
        }
        if key && self.default.is_some() {
            return refused(792);
        }
        let collation = match Collation::of(charset) {
            Some(collation) if key && charset != 0 => Some((charset, Some(collation))),
            None if key && WITHOUT_CASE.contains(&charset) => Some((charset, None)),
            // Rows cannot be found by text whose comparison is not known here.
            None if key && charset != 0 => return refused(743),
            _ => None,
        };
        let size = size as usize;
        let column = Column {
            form: form(kind, array, size, self.length),
            name: self.name,
            kind,
            array,
            nullable,
            key,
            collation,
            size,
            default: self.default,
            distribution_key: self.distribution_key != 0,
            length: self.length,
            precision: self.precision,
            scale: self.scale,
            dynamic: self.dynamic,
            auto_increment: self.auto_increment,
            storage: self.storage,
        };
        match &column.default {
            Some(value) if !column.holds(value) => refused(850),
            _ => Ok(column),
        }
    }
}

/// The size of an element: a power of two, counted in bits; 0 for bit fields.
fn size_class(kind: ColumnType) -> u32 {
    use ColumnType::*;
    match kind {
        Bit => 0,
        Smallint | Smallunsigned => 4,
        Int | Unsigned | Float => 5,
        Bigint | Bigunsigned | Double => 6,
        _ => 3,
    }
}

fn form(kind: ColumnType, array: ArrayType, size: usize, length: u32) -> Form {
    let size = size as u32;
    match (size_class(kind), array) {
        (0, _) => Form::Bits(length),
        (_, ArrayType::ShortVar) => Form::Short(size),
        (_, ArrayType::MediumVar | ArrayType::NoneVar) => Form::Long(size),
        (5 | 6, _) => Form::Words(size),
        _ => Form::Bytes(size),
    }
}

impl Column {
    /// The bytes of the value that `bytes` begin with.
    #[inline]
    fn value_length(&self, bytes: &[u8]) -> Option<usize> {
        let length = match (self.array, bytes) {
            (ArrayType::Fixed, _) => self.size,
            (ArrayType::ShortVar, &[low, ..]) => 1 + low as usize,
            (ArrayType::MediumVar | ArrayType::NoneVar, &[low, high, ..]) => {
                2 + u16::from_le_bytes([low, high]) as usize
            }
            _ => return None,
        };
        (length <= self.size).then_some(length)
    }

    /// Whether `value` is one of this column, not one byte more or less.
    #[inline]
    pub fn holds(&self, value: &[u8]) -> bool {
        self.value_length(value) == Some(value.len())
    }

    fn hash(&self, value: &[u8], hasher: &mut Hasher) -> Option<()> {
        match self.collation {
            None => hasher.write(value),
            Some((_, None)) => {
                let text = self.compared(value);
                if !text.is_ascii() {
                    return None;
                }
                hasher.write(&text);
            }
            Some((_, Some(collation))) => {
                let prefix = self.array.length_bytes() as usize;
                collation.hash(value.get(prefix..)?, self.size - prefix, hasher)?;
            }
        }
        hasher.align();
        Some(())
    }

    /// The part of a value that tells it from others.
    fn compared<'a>(&self, value: &'a [u8]) -> Cow<'a, [u8]> {
        const NO_PADDING: [u32; 3] = [63, 255, 309];
        let Some((number, collation)) = self.collation else { return value.into() };
        let text = value.get(self.array.length_bytes() as usize..).unwrap_or_default();
        let padded = self.kind == ColumnType::Char || !NO_PADDING.contains(&number);
        let end = text.iter().rposition(|&byte| byte != b' ').map_or(0, |at| at + 1);
        let text = if padded { &text[..end] } else { text };
        if collation.is_some() { text.into() } else { text.to_ascii_uppercase().into() }
    }

    fn write(&self, id: u32, out: &mut Writer) {
        let class = size_class(self.kind);
        let elements = match class {
            0 => self.length,
            class => self.size as u32 >> (class - 3),
        };
        let default = self.default.as_deref().unwrap_or_default();
        let mut value = (default.len() as u32).to_be_bytes().to_vec();
        value.extend_from_slice(default);
        value.resize(value.len().next_multiple_of(4), 0);
        out.string(key::COLUMN_NAME, &self.name)
            .u32(key::COLUMN_ID, id)
            .u32(key::COLUMN_KEY, self.key as u32)
            .u32(key::COLUMN_SIZE_CLASS, class)
            .u32(key::COLUMN_ELEMENTS, elements)
            .u32(key::COLUMN_ARRAY_TYPE, self.array as u32)
            .u32(key::COLUMN_NULLABLE, self.nullable as u32)
            .u32(key::COLUMN_DYNAMIC, self.dynamic)
            .u32(key::COLUMN_DISTRIBUTION_KEY, self.distribution_key as u32)
            .u32(key::COLUMN_TYPE, self.kind.number())
            .u32(key::COLUMN_PRECISION, self.precision)
            .u32(key::COLUMN_SCALE, self.scale)
            .u32(key::COLUMN_LENGTH, self.length)
            .u32(key::COLUMN_AUTO_INCREMENT, self.auto_increment)
            .u32(key::COLUMN_STORAGE, self.storage)
            .u32(key::DEFAULT_LENGTH, value.len() as u32)
            .binary(key::DEFAULT_VALUE, &value)
            .u32(key::COLUMN_END, 1);
    }
}

/// Appends a length and bytes, so that no two lists of values are equal that differ.
fn push_bytes(out: &mut Vec<u32>, bytes: &[u8]) {
    out.push(bytes.len() as u32);
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(4), 0);
    bytemuck::cast_slice_mut::<u32, u8>(&mut out[start..])[..bytes.len()].copy_from_slice(bytes);
}

impl Column {
    /// Whether a value is the one that is there, as far as keys are compared.
    pub fn same(&self, old: Option<&[u8]>, new: &[u8]) -> bool {
        old.is_some_and(|old| self.compared(old) == self.compared(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dict::vectors;
    use crate::wire::signal;
    use proptest::prelude::*;

    fn section(name: &str) -> Vec<u32> {
        let words = vectors::named(name).words();
        signal::decode(&words).unwrap().sections()[0].to_vec()
    }

    /// A table as a real node was asked to make it, with what the real node gave it.
    fn made(request: &str, id: u32, version: u32) -> Table {
        let mut table = Table::parse(&section(request)).unwrap();
        (table.id, table.version, table.hash_map) = (id, version, (1, 1));
        table.buckets = (0..3840).map(|bucket| bucket % 2).collect();
        table.place(2, 2, 1);
        table
    }

    #[test]
    fn definitions_are_those_of_real_nodes() {
        let table = made("types-create_table_req-55", 25, 9);
        assert_eq!(table.definition(), section("types-get_tabinfo_conf-57"));
        let table = made("lib1-create_table_req-4", 6, 2);
        assert_eq!(table.definition(), section("lib1-get_tabinfo_conf-7"));
    }

    #[test]
    fn fragments_are_spread_as_by_real_nodes() {
        let mut table = made("lib1-create_table_req-4", 6, 2);
        assert_eq!(table.fragments, [[1, 2], [2, 1]]);
        table.place(2, 2, 2);
        assert_eq!(table.fragments, [[1, 2], [4, 3]]);
        table.place(4, 2, 2);
        assert_eq!(table.fragments, [[1, 2], [4, 3], [2, 1], [3, 4]]);
    }

    #[test]
    fn keys_belong_where_real_nodes_keep_them() {
        let mut seen = 0;
        for vector in vectors::dictionary().filter(|v| !v.decoded["fragment_seen"].is_null()) {
            let number = |value: &serde_json::Value| value.as_u64().unwrap() as u32;
            let columns = vector.decoded["columns"].as_array().unwrap();
            let mut out = Writer::new();
            out.string(key::TABLE_NAME, b"db/def/t").u32(key::TABLE_TYPE, USER_TABLE);
            out.u32(key::COLUMN_COUNT, columns.len() as u32);
            for column in columns {
                out.string(key::COLUMN_NAME, column["name"].as_str().unwrap().as_bytes())
                    .u32(key::COLUMN_KEY, column["pk"].as_bool().unwrap() as u32)
                    .u32(key::COLUMN_DISTRIBUTION_KEY, column["dkey"].as_bool().unwrap() as u32)
                    .u32(key::COLUMN_TYPE, number(&column["type_id"]))
                    .u32(key::COLUMN_PRECISION, number(&column["charset"]) << 16)
                    .u32(key::COLUMN_LENGTH, number(&column["length"]))
                    .u32(key::COLUMN_END, 1);
            }
            let mut table = Table::parse(&out.finish()).unwrap();
            table.buckets = (0..3840).map(|bucket| bucket % 7).collect();
            let bytes = vectors::hex_bytes(vector.decoded["keyinfo"].as_str().unwrap());
            let words: Vec<u32> = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
            let mut normal = Vec::new();
            let (place, _) = table.locate(&words, &mut normal).unwrap();
            assert_eq!(place.fragment, number(&vector.decoded["fragment_seen"]), "{}", vector.name);
            assert!(table.locate(&words[1..], &mut normal).is_none(), "{}: cut", vector.name);
            seen += 1;
        }
        assert!(seen >= 72, "{seen} keys");
    }

    #[test]
    fn faulty_definitions_are_refused() {
        let code = |change: fn(&mut Writer) -> &mut Writer| {
            let mut out = Writer::new();
            out.string(key::TABLE_NAME, b"db/def/t")
                .u32(key::TABLE_TYPE, USER_TABLE)
                .u32(key::COLUMN_COUNT, 1);
            out.string(key::COLUMN_NAME, b"k").u32(key::COLUMN_KEY, 1).u32(key::COLUMN_LENGTH, 1);
            change(&mut out);
            out.u32(key::COLUMN_END, 1);
            Table::parse(&out.finish()).map(drop).map_err(|refused| refused.code)
        };
        assert_eq!(code(|out| out), Ok(()));
        assert_eq!(code(|out| out.u32(key::COLUMN_LENGTH, 0)), Err(736));
        assert_eq!(code(|out| out.u32(key::COLUMN_NULLABLE, 1)), Err(740));
        assert_eq!(code(|out| out.u32(key::COLUMN_KEY, 0)), Err(739));
        assert_eq!(code(|out| out.u32(key::COLUMN_TYPE, 14).u32(key::COLUMN_PRECISION, 9 << 16)), Err(743));
        assert_eq!(code(|out| out.u32(key::COLUMN_TYPE, 99)), Err(703));
        assert_eq!(code(|out| out.u32(key::COLUMN_TYPE, 16).u32(key::COLUMN_LENGTH, 5000)), Err(739));
    }

    proptest! {
        #[test]
        fn any_words_are_read_or_refused(
            words in prop::collection::vec(any::<u32>(), 0..60),
            at in any::<prop::sample::Index>(),
            word: u32,
        ) {
            let _ = Table::parse(&words);
            let mut damaged = section("types-create_table_req-55");
            let at = at.index(damaged.len());
            damaged[at] = word;
            if let Ok(table) = Table::parse(&damaged) {
                let _ = table.definition();
            }
        }

        #[test]
        fn any_key_is_found_or_refused(key in prop::collection::vec(any::<u32>(), 0..40)) {
            let table = made("lib1-create_table_req-4", 6, 2);
            let mut normal = Vec::new();
            prop_assert_eq!(table.locate(&key, &mut normal).is_some(), key.len() == table.key.len());
        }
    }
}
