//! Table test.t9: an unsigned key, and one unsigned column that holds a value which tells whose it is. Of
//! longer rows, table test.t9_BYTES: a binary column more, whose last word is the value too.

use std::sync::Arc;

use iclaustron::cluster::Cluster;
use iclaustron::dict::client::Client;
use iclaustron::dict::record::{ColumnRef, FieldSpec, Record};
use iclaustron::dict::standing::Standing;
use iclaustron::dict::table::{NewColumn, NewTable, Table};
use iclaustron::error::{Error, ndb, own};
use iclaustron::wire::column::ColumnType;

use crate::keys::Keys;
use crate::load::{Mix, Shape, Shared, Worker};

const DATABASE: &str = "test";
const NAME: &str = "t9";
const KEY: &str = "id";
const VALUE: &str = "value";
const MORE: &str = "more";
/// Bytes of a row that is nothing but its value.
const SHORTEST: u32 = 4;
/// NDB's code for a name that is taken.
const TABLE_EXISTS: i32 = 721;
/// Rows written at once when the table is filled.
const FILL_IN_FLIGHT: u32 = 256;

/// The table, and the layout of its rows: the key is one word, the value one or more.
#[derive(Debug, Clone)]
pub struct T9 {
    /// The definition.
    pub table: Arc<Table>,
    /// Whether its definition still holds.
    pub standing: Arc<Standing>,
    /// Rows of the key.
    pub key: Arc<Record>,
    /// Rows of the value.
    pub value: Arc<Record>,
}

/// The value of a key after its `generation`th write: 24 bits of the key, then 8 of the generation.
#[inline]
pub fn value(key: u32, generation: u8) -> u32 {
    mark(key) | generation as u32
}

/// Whether some write of `key` could have written `value`.
#[inline]
pub fn is_value_of(key: u32, value: u32) -> bool {
    value & !0xff == mark(key)
}

/// A value that no write of `key` has written.
#[inline]
pub fn no_value_of(key: u32) -> u32 {
    !mark(key)
}

#[inline]
fn mark(key: u32) -> u32 {
    key.wrapping_mul(0x9e37_79b1) & !0xff
}

/// Whether a row, as read, holds a value that some write of `key` could have written.
#[inline]
pub fn holds_value_of(key: u32, row: &[u8]) -> bool {
    let whole = |word: Option<&[u8; 4]>| word.is_some_and(|&word| is_value_of(key, u32::from_ne_bytes(word)));
    whole(row.first_chunk()) && (row.len() == SHORTEST as usize || whole(row.last_chunk()))
}

/// Puts a value into a row.
#[inline]
pub fn put(value: u32, row: &mut [u8]) {
    if let Some(word) = row.last_chunk_mut() {
        *word = value.to_ne_bytes();
    }
    if row.len() != SHORTEST as usize
        && let Some(word) = row.first_chunk_mut()
    {
        *word = value.to_ne_bytes();
    }
}

/// Opens the table of rows of so many bytes, creating it if it is missing, and writes its first `rows` rows.
pub fn prepare(cluster: &Arc<Cluster>, rows: u32, bytes: u32) -> Result<T9, Error> {
    let t9 = open(&mut Client::new(cluster.clone())?, bytes)?;
    all(cluster, &t9, rows, Mix::Write)?;
    Ok(t9)
}

/// Deletes the first `rows` rows, which are all there.
pub fn empty(cluster: &Arc<Cluster>, t9: &T9, rows: u32) -> Result<(), Error> {
    all(cluster, t9, rows, Mix::Delete)
}

fn open(client: &mut Client, bytes: u32) -> Result<T9, Error> {
    let name = match bytes {
        SHORTEST => NAME.to_owned(),
        _ => format!("{NAME}_{bytes}"),
    };
    let (table, standing) = match client.open(DATABASE, &name) {
        Err(error) if error.code == ndb::NO_SUCH_TABLE => {
            create(client, &name, bytes)?;
            client.open(DATABASE, &name)?
        }
        opened => opened?,
    };
    let expected = columns(bytes);
    let as_expected = table.columns.len() == expected.len()
        && table.columns.iter().zip(&expected).all(|(is, new)| {
            is.name[..] == *new.name.as_bytes()
                && (is.kind, is.primary_key, is.nullable, is.length)
                    == (new.kind, new.primary_key, new.nullable, new.length)
        });
    if !as_expected {
        let text = format!("{DATABASE}.{name} is not the table that ic_bench makes: drop it");
        return Err(Error::new(own::INVALID_TABLE, text));
    }
    let record = |fields: &[(&str, u32)], size| {
        let specs: Vec<_> = fields
            .iter()
            .map(|(name, offset)| FieldSpec {
                column: ColumnRef::Name(name.as_bytes()),
                offset: *offset,
                null: None,
            })
            .collect();
        Record::new(&table, size, &specs).map(Arc::new)
    };
    let values = [(VALUE, 0), (MORE, SHORTEST)];
    let (key, value) = (record(&[(KEY, 0)], 4)?, record(&values[..expected.len() - 1], bytes)?);
    Ok(T9 { table, standing, key, value })
}

fn columns(bytes: u32) -> Vec<NewColumn> {
    let key = NewColumn { primary_key: true, ..NewColumn::new(KEY, ColumnType::Unsigned) };
    let more = NewColumn { length: bytes - SHORTEST, ..NewColumn::new(MORE, ColumnType::Binary) };
    let all = [key, NewColumn::new(VALUE, ColumnType::Unsigned), more];
    all.into_iter().take(if bytes == SHORTEST { 2 } else { 3 }).collect()
}

fn create(client: &mut Client, name: &str, bytes: u32) -> Result<(), Error> {
    match client.create(&NewTable::new(DATABASE, name, columns(bytes))) {
        // Another process was faster.
        Err(error) if error.code == TABLE_EXISTS => Ok(()),
        created => created,
    }
}

/// Does the same to each of the first `rows` rows.
fn all(cluster: &Arc<Cluster>, t9: &T9, rows: u32, mix: Mix) -> Result<(), Error> {
    let shape = Shape { size: 1, batch: 1, depth: FILL_IN_FLIGHT.min(rows) };
    let mut worker = Worker::new(cluster, t9, Keys::Once(0..rows), mix, shape)?;
    let failed = |code: i32| Error::new(code, format!("filling {DATABASE}.{NAME}"));
    let outcome = worker.run(&Shared::default()).map_err(failed)?;
    match outcome.counts.first_error {
        0 => Ok(()),
        code => Err(failed(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_holds_its_value_at_both_ends() {
        for bytes in [4, 8, 100] {
            let mut row = vec![0; bytes];
            put(value(7, 3), &mut row);
            assert!(holds_value_of(7, &row) && !holds_value_of(8, &row));
            row[bytes - 1] ^= 1;
            assert!(!holds_value_of(7, &row), "{bytes}");
        }
        assert!(!holds_value_of(7, &[]));
    }

    #[test]
    fn a_value_tells_its_key() {
        let keys = [0, 1, 2, 99_999, u32::MAX];
        for key in keys {
            assert!(!is_value_of(key, no_value_of(key)));
            for written in keys {
                for generation in [0, 1, 255] {
                    assert_eq!(is_value_of(key, value(written, generation)), key == written);
                }
            }
        }
    }
}
