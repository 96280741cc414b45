//! Distribution: which fragment, hence which node, owns a key. A hint only: a wrong one costs a hop, so where
//! the answer is not certain there is none. Sources: storage/ndb/src/ndbapi/Ndb.cpp (computeHash),
//! storage/ndb/src/ndbapi/NdbDictionaryImpl.cpp (getPartition).

use super::record::{HashField, Record};
use super::table::{FragmentType, Table};
use crate::wire::hash::{Hasher, LANES, hash_short, hash_short_lanes};

impl Table {
    /// The fragment that owns the key in `key_row`, a row of `record`. None when it cannot be computed: the
    /// record is another table's or lacks columns, a collation or hash is not known, a value is malformed, or
    /// rows of this table do not follow a hash.
    #[inline]
    pub fn fragment_for_key(&self, record: &Record, key_row: &[u8]) -> Option<u32> {
        if !record.is_of(self) || !self.hash_is_known || key_row.len() != record.row_size() {
            return None;
        }
        self.fragment_for_hash(key_hash(record.hash_fields()?, key_row)?)
    }

    /// The same of several keys in rows of one record, at most [`LANES`], hashed side by side if they are short
    /// numbers. None behind the last.
    #[inline]
    pub fn fragments_for_keys(&self, record: &Record, rows: &[&[u8]]) -> [Option<u32>; LANES] {
        let mut fragments = [None; LANES];
        let all = fragments.iter_mut().zip(rows);
        match self.lanes(record, rows) {
            Some(hashes) => {
                all.zip(hashes).for_each(|((to, _), hash)| *to = self.fragment_for_hash(hash));
            }
            None => all.for_each(|(to, row)| *to = self.fragment_for_key(record, row)),
        }
        fragments
    }

    fn lanes(&self, record: &Record, rows: &[&[u8]]) -> Option<[u32; LANES]> {
        let fits = |row: &&[u8]| row.len() == record.row_size();
        // One alone is faster by itself.
        if rows.len() < 2 || !record.is_of(self) || !self.hash_is_known || !rows.iter().all(fits) {
            return None;
        }
        let [HashField { field, collation: None }] = record.hash_fields()? else { return None };
        if field.null.is_some() {
            return None;
        }
        // Values that differ in length do not get through, whatever the first one's is.
        match field.value(rows[0]).ok()?.len() {
            4 => {
                let mut keys = [[0]; LANES];
                for (key, row) in keys.iter_mut().zip(rows) {
                    *key = [u32::from_le_bytes(field.value(row).ok()?.try_into().ok()?)];
                }
                Some(hash_short_lanes(keys))
            }
            8 => {
                let mut keys = [[0; 2]; LANES];
                for (key, row) in keys.iter_mut().zip(rows) {
                    let [a, b, c, d, e, f, g, h] = field.value(row).ok()?.try_into().ok()?;
                    *key = [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])];
                }
                Some(hash_short_lanes(keys))
            }
            _ => None,
        }
    }

    /// The fragment that a distribution hash belongs to.
    #[inline]
    pub fn fragment_for_hash(&self, hash: u32) -> Option<u32> {
        let count = self.fragments.len() as u32;
        let fragment = match self.fragment_type {
            FragmentType::HashMap => {
                let buckets = &self.hash_map.as_ref()?.buckets;
                *buckets.get(hash.checked_rem(buckets.len() as u32)? as usize)? as u32
            }
            FragmentType::Modulo => hash.checked_rem(count)?,
            FragmentType::Linear => linear(hash, count)?,
            FragmentType::Other(_) => return None,
        };
        (fragment < count).then_some(fragment)
    }
}

/// The hash of a row's distribution key: its hash forms one after the other, each padded to whole words.
#[inline]
fn key_hash(fields: &[HashField], row: &[u8]) -> Option<u32> {
    if let [HashField { field, collation: None }] = fields
        && field.null.is_none()
    {
        match *field.value(row).ok()? {
            [a, b, c, d] => return Some(hash_short([u32::from_le_bytes([a, b, c, d])])[1]),
            [a, b, c, d, e, f, g, h] => {
                let words = [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])];
                return Some(hash_short(words)[1]);
            }
            _ => {}
        }
    }
    general_hash(fields, row)
}

/// As [`key_hash`], for every shape of key.
fn general_hash(fields: &[HashField], row: &[u8]) -> Option<u32> {
    let mut hasher = Hasher::new();
    for HashField { field, collation } in fields {
        if field.is_null(row) {
            return None;
        }
        match collation {
            None => match *field.value(row).ok()? {
                [a, b, c, d] => hasher.write_word(u32::from_le_bytes([a, b, c, d])),
                ref value => {
                    hasher.write(value);
                    hasher.align();
                }
            },
            Some(collation) => {
                let max = field.size as usize - field.length_bytes();
                collation.hash(field.data(row).ok()?, max, &mut hasher)?;
                hasher.align();
            }
        }
    }
    Some(hasher.finish()[1])
}

/// Linear hashing: fragments beyond the largest power of two take over half of those at its start.
fn linear(hash: u32, count: u32) -> Option<u32> {
    let mask = (1 << count.checked_ilog2()?) - 1;
    let fragment = hash & mask;
    Some(if fragment < count - (mask + 1) { hash & (2 * mask + 1) } else { fragment })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dict::record::tests::fill_row;
    use crate::dict::record::{ColumnRef, FieldSpec};
    use crate::dict::table::tests::{any_table, as_sent, key_column};
    use crate::dict::table::{NewColumn, NewTable};
    use crate::dict::vectors::{self, Vector};
    use crate::wire::column::ColumnType;
    use crate::wire::hash;
    use proptest::prelude::*;
    use std::sync::Arc;

    /// The table of a recorded key: its columns, and the map over seven fragments that it was seen with.
    fn table_of(vector: &Vector) -> Table {
        let number = |value: &serde_json::Value| value.as_u64().unwrap() as u32;
        let columns = vector.decoded["columns"].as_array().unwrap().iter().map(|c| NewColumn {
            length: number(&c["length"]),
            charset: number(&c["charset"]),
            primary_key: c["pk"].as_bool().unwrap(),
            distribution_key: c["dkey"].as_bool().unwrap(),
            ..NewColumn::new(
                c["name"].as_str().unwrap(),
                ColumnType::from_number(number(&c["type_id"])).unwrap(),
            )
        });
        let table = NewTable::new("db", "t", columns.collect());
        assert_eq!(vector.decoded["hash_map"], "DEFAULT-HASHMAP-3840-7");
        as_sent(&table, 7)
    }

    /// The row of a recorded key. Unused bytes are no zeros: they must not count.
    fn row_of(vector: &Vector, table: &Table, record: &Record) -> Vec<u8> {
        let mut row = vec![0xaa; record.row_size()];
        for (column, value) in table.columns.iter().zip(vector.decoded["key"].as_array().unwrap()) {
            let field = record.field(column.id).unwrap();
            let mut bytes = match value.as_str() {
                Some(hex) => vectors::hex_bytes(hex),
                None => value
                    .as_i64()
                    .map_or_else(|| value.as_u64().unwrap(), |n| n as u64)
                    .to_le_bytes()
                    .to_vec(),
            };
            match column.kind {
                ColumnType::Char => bytes.resize(field.size as usize, b' '),
                _ if field.length_bytes() == 0 => bytes.resize(field.size as usize, 0),
                _ => {
                    let length = bytes.len().to_le_bytes();
                    bytes.splice(0..0, length[..field.length_bytes()].iter().copied());
                }
            }
            row[field.offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        row
    }

    #[test]
    fn every_recorded_key() {
        let mut seen = 0;
        for vector in vectors::dictionary().filter(|v| !v.decoded["fragment"].is_null()) {
            let table = table_of(&vector);
            let record = Record::natural(&table);
            let row = row_of(&vector, &table, &record);
            let hash = vectors::hex_words(&vector.decoded["hash"])[1];
            assert_eq!(key_hash(record.hash_fields().unwrap(), &row), Some(hash), "{}", vector.name);
            let fragment = vector.decoded["fragment_seen"].as_u64().unwrap() as u32;
            assert_eq!(table.fragment_for_key(&record, &row), Some(fragment), "{}", vector.name);
            let mut keyinfo = Vec::new();
            record.encode_key(&row, &mut keyinfo).unwrap();
            let expected = vectors::hex_bytes(vector.decoded["keyinfo"].as_str().unwrap());
            assert_eq!(bytemuck::cast_slice::<u32, u8>(&keyinfo), expected, "{}", vector.name);
            seen += 1;
        }
        assert!(seen >= 72, "{seen} keys");
    }

    fn one_key(kind: ColumnType, charset: u32) -> (Table, Record) {
        let table = NewTable::new("db", "t", vec![NewColumn { charset, length: 8, ..key_column("k", kind) }]);
        let table = as_sent(&table, 6);
        let record = Record::natural(&table);
        (table, record)
    }

    #[test]
    fn no_hint_where_the_fragment_is_not_certain() {
        let (good, record) = one_key(ColumnType::Char, 47);
        let row = [b'a'; 8];
        let hint = |change: fn(&mut Table)| {
            let mut table = good.clone();
            change(&mut table);
            table.fragment_for_key(&record, &row)
        };
        assert!(hint(|_| {}).is_some());
        assert_eq!(hint(|t| t.hash_is_known = false), None);
        assert_eq!(hint(|t| t.version += 1), None);
        assert!(hint(|t| t.version += 1 << 24).is_some(), "altered in place");
        assert_eq!(hint(|t| t.hash_map = None), None);
        assert_eq!(hint(|t| t.fragments.clear()), None);
        assert_eq!(hint(|t| t.fragment_type = FragmentType::of(6)), None);
        assert_eq!(hint(|t| t.fragment_type = FragmentType::of(8)), None);
        assert!(hint(|t| t.fragment_type = FragmentType::of(4)).is_some());
        let empty_map = |t: &mut Table| Arc::make_mut(t.hash_map.as_mut().unwrap()).buckets.clear();
        assert_eq!(hint(empty_map), None);
        assert_eq!(good.fragment_for_key(&record, &row[1..]), None);
        let (table, record) = one_key(ColumnType::Char, 255);
        assert_eq!(table.fragment_for_key(&record, &row), None, "an unknown collation");
        let (table, record) = one_key(ColumnType::Char, 46);
        assert_eq!(table.fragment_for_key(&record, &[0xff; 8]), None, "malformed text");
        let (table, record) = one_key(ColumnType::Varbinary, 0);
        assert_eq!(table.fragment_for_key(&record, &[9; 9]), None, "a value longer than its column");
    }

    #[test]
    fn a_record_without_the_distribution_key_gives_no_hint() {
        let keys = ["a", "b"].map(|name| key_column(name, ColumnType::Unsigned));
        let mut new = NewTable::new("db", "t", keys.to_vec());
        let spec = FieldSpec { column: ColumnRef::Name(b"b"), offset: 0, null: None };
        let hint = |new: &NewTable| {
            let table = as_sent(new, 6);
            table.fragment_for_key(&Record::new(&table, 4, &[spec]).unwrap(), &[1, 0, 0, 0])
        };
        assert_eq!(hint(&new), None);
        new.columns[1].distribution_key = true;
        assert!(hint(&new).is_some(), "part of the primary key is enough");
    }

    #[test]
    fn linear_hashing() {
        assert_eq!(linear(5, 0), None);
        assert_eq!((0..8).map(|h| linear(h, 1).unwrap()).collect::<Vec<_>>(), [0; 8]);
        assert_eq!((0..8).map(|h| linear(h, 4).unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!((0..8).map(|h| linear(h, 6).unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 2, 3]);
    }

    proptest! {
        #[test]
        fn linear_stays_inside(hash: u32, count in 1u32..9000) {
            prop_assert!(linear(hash, count).unwrap() < count);
        }

        #[test]
        fn the_hash_is_that_of_keyinfo_for_keys_without_collation(
            new in any_table(), random in proptest::collection::vec(any::<u8>(), 64..200)
        ) {
            let mut new = new;
            for column in new.columns.iter_mut().filter(|c| c.primary_key && c.charset != 0) {
                (column.kind, column.charset) = (ColumnType::Varbinary, 0);
            }
            let table = as_sent(&new, 5);
            let record = Record::natural(&table);
            let row = fill_row(&record, &random);
            let mut keyinfo = Vec::new();
            record.encode_key(&row, &mut keyinfo).unwrap();
            let expected = table.fragment_for_hash(hash::hash(&keyinfo)[1]);
            prop_assert!(expected.is_some());
            prop_assert_eq!(table.fragment_for_key(&record, &row), expected);
        }

        #[test]
        fn several_keys_at_once_are_as_one_by_one(
            new in any_table(), bytes in proptest::collection::vec(any::<u8>(), 450..800), count in 0..=LANES
        ) {
            let table = as_sent(&new, 5);
            let record = Record::natural(&table);
            let rows: Vec<Vec<u8>> = (0..count).map(|at| fill_row(&record, &bytes[50 * at..])).collect();
            let mut each: Vec<_> = rows.iter().map(|row| table.fragment_for_key(&record, row)).collect();
            each.resize(LANES, None);
            let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(table.fragments_for_keys(&record, &rows).to_vec(), each);
        }

        #[test]
        fn several_short_keys_at_once_are_as_one_by_one(keys: [u64; LANES], count in 1..=LANES, long: bool) {
            let kind = if long { ColumnType::Bigunsigned } else { ColumnType::Unsigned };
            let table = as_sent(&NewTable::new("db", "t", vec![key_column("k", kind)]), 7);
            let record = Record::natural(&table);
            let bytes = keys.map(u64::to_le_bytes);
            let rows = bytes.each_ref().map(|key| &key[..record.row_size()]);
            let mut each = rows.map(|row| table.fragment_for_key(&record, row));
            prop_assert!(each.iter().all(Option::is_some));
            each[count..].fill(None);
            prop_assert_eq!(table.fragments_for_keys(&record, &rows[..count]), each);
        }
    }
}
