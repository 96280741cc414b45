//! Table test.t9: an unsigned key, and one unsigned column that holds a value which tells whose it is.

use std::sync::Arc;

use iclaustron::cluster::Cluster;
use iclaustron::dict::client::Client;
use iclaustron::dict::record::{ColumnRef, FieldSpec, Record};
use iclaustron::dict::standing::Standing;
use iclaustron::dict::table::{NewColumn, NewTable, Table};
use iclaustron::error::{Error, ndb, own};
use iclaustron::wire::column::ColumnType;

use crate::load::{Keys, Mix, Shared, Worker};

const DATABASE: &str = "test";
const NAME: &str = "t9";
const KEY: &str = "id";
const VALUE: &str = "value";
/// NDB's code for a name that is taken.
const TABLE_EXISTS: i32 = 721;
/// Rows written at once when the table is filled.
const FILL_IN_FLIGHT: u32 = 256;

/// The table, and the layout of its rows: key and value each are one word.
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

/// Opens the table, creating it if it is missing, and writes its first `rows` rows.
pub fn prepare(cluster: &Arc<Cluster>, rows: u32) -> Result<T9, Error> {
    let t9 = open(&mut Client::new(cluster.clone())?)?;
    fill(cluster, &t9, rows)?;
    Ok(t9)
}

fn open(client: &mut Client) -> Result<T9, Error> {
    let (table, standing) = match client.open(DATABASE, NAME) {
        Err(error) if error.code == ndb::NO_SUCH_TABLE => {
            create(client)?;
            client.open(DATABASE, NAME)?
        }
        opened => opened?,
    };
    let record = |name: &str| {
        let column = ColumnRef::Name(name.as_bytes());
        Record::new(&table, 4, &[FieldSpec { column, offset: 0, null: None }]).map(Arc::new)
    };
    match &table.columns[..] {
        [id, value]
            if id.name[..] == *KEY.as_bytes()
                && id.kind == ColumnType::Unsigned
                && id.primary_key
                && value.name[..] == *VALUE.as_bytes()
                && value.kind == ColumnType::Unsigned
                && !value.primary_key
                && !value.nullable => {}
        _ => {
            let text =
                format!("{DATABASE}.{NAME} is not {KEY} UNSIGNED PRIMARY KEY, {VALUE} UNSIGNED NOT NULL");
            return Err(Error::new(own::INVALID_TABLE, text));
        }
    }
    let (key, value) = (record(KEY)?, record(VALUE)?);
    Ok(T9 { table, standing, key, value })
}

fn create(client: &mut Client) -> Result<(), Error> {
    let key = NewColumn { primary_key: true, ..NewColumn::new(KEY, ColumnType::Unsigned) };
    let columns = vec![key, NewColumn::new(VALUE, ColumnType::Unsigned)];
    match client.create(&NewTable::new(DATABASE, NAME, columns)) {
        // Another process was faster.
        Err(error) if error.code == TABLE_EXISTS => Ok(()),
        created => created,
    }
}

fn fill(cluster: &Arc<Cluster>, t9: &T9, rows: u32) -> Result<(), Error> {
    let keys = Keys::once(rows);
    let mut worker = Worker::new(cluster, t9, keys, Mix::Write, FILL_IN_FLIGHT.min(rows), 1)?;
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
