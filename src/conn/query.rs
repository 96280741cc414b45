//! A query: one key operation that is defined, sent and completed again and again, with rows of its own.

use std::sync::Arc;

use super::Operation;
use super::explain::Failure;
use super::row::Row;
use super::slots::NONE;
use crate::cluster::statistics::Kind;
use crate::dict::record::Record;
use crate::dict::standing::Standing;
use crate::dict::table::Table;
use crate::wire::NodeId;
use crate::wire::transaction::{RequestInfo, TransId};

/// Where a query is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The rows are the caller's.
    Idle,
    /// Defined in a transaction, not packed for its node yet. From here to `Complete` the rows are the
    /// library's.
    Defined,
    /// Packed for its node: sent, or with the next send.
    Sent,
    /// Complete; waits for its callback, or on the executed list.
    Complete,
    /// Its callback runs.
    InCallback,
    /// Complete, and a part of a multi-key read that is not, or has not been taken: its rows are the library's.
    Gathered,
}

/// What a reply has said about the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Confirmed {
    /// Nothing yet.
    No,
    /// The row has this many words; none for most writes.
    Words(u32),
    /// This node reads it and sends it, or refuses.
    ReadBy(NodeId),
}

/// A query. `T` is what the caller gets back with its completion.
///
/// With hundreds in flight each step of an operation finds its query out of the nearest cache again. So the
/// order of fields is kept, and what one step needs is together: what replies need in the first line of 64
/// bytes, what packing and completing need in the second, what defining needs in the third.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Query<T> {
    pub(super) transid: TransId,
    /// When it was packed, by the connection's clock; in the future until then.
    pub(super) since: u64,
    pub(super) attr: Option<Arc<Record>>,
    pub(super) attr_row: Row,
    pub(super) confirmed: Confirmed,
    pub(super) operation: u32,
    pub(super) transaction: u32,
    pub(super) received: u32,
    pub(super) state: State,
    /// A TCKEYREF came; of a committed read its confirmation may come too, before or after it.
    pub(super) refused: bool,
    /// The row goes into the attribute row.
    pub(super) decodes: bool,
    /// Completion runs a callback; else it goes to the executed list.
    pub(super) callback: bool,

    /// The TCKEYREQ of the present or last definition, a complete message but for what its place in the
    /// transaction decides.
    pub(super) request: Vec<u32>,
    pub(super) info: RequestInfo,
    /// Neighbours among the queries of the transaction.
    pub(super) previous: u32,
    pub(super) next: u32,
    /// How many losses of links the connection knew of when the query was packed.
    pub(super) losses: u32,
    /// The error of the last completion.
    pub(super) error: i32,
    /// The multi-key read that it is a part of, and its place there.
    pub(super) multi_read: u32,
    pub(super) index: u32,
    /// What `request` does.
    pub(super) kind: Kind,
    /// What `request` was packed for, if another key and other values can be written over its own.
    pub(super) template: Option<Operation>,

    pub(super) key_row: Row,
    pub(super) key: Arc<Record>,
    pub(super) table: Arc<Table>,
    /// Whether the table's definition still holds.
    pub(super) standing: Arc<Standing>,
    pub(super) token: T,

    /// Where the last completion with an error came about.
    pub(super) failure: Failure,
    /// The table has columns on disk.
    pub(super) on_disk: bool,
    /// The attribute record has columns outside the key.
    pub(super) has_values: bool,
    /// Every key has the same number of words.
    pub(super) has_fixed_key: bool,
    /// The values outside the key have, too.
    pub(super) has_fixed_values: bool,
}

impl<T> Query<T> {
    /// An idle query.
    pub(super) fn new(
        table: Arc<Table>,
        standing: Arc<Standing>,
        key: Arc<Record>,
        attr: Option<Arc<Record>>,
        token: T,
    ) -> Self {
        let on_disk = table.columns.iter().any(|column| column.on_disk);
        let has_values = attr.iter().any(|attr| attr.fields().iter().any(|field| !field.is_key));
        let has_fixed_key = key.fixed_key_words().is_some();
        let has_fixed_values = attr.iter().all(|attr| attr.has_fixed_values());
        let rows = (Row::new(key.row_size()), Row::new(attr.as_ref().map_or(0, |a| a.row_size())));
        Query {
            table,
            standing,
            on_disk,
            has_values,
            key,
            attr,
            key_row: rows.0,
            attr_row: rows.1,
            state: State::Idle,
            error: 0,
            failure: Failure::default(),
            request: Vec::new(),
            template: None,
            has_fixed_key,
            has_fixed_values,
            info: RequestInfo::read(crate::wire::transaction::LockMode::Committed),
            operation: 0,
            transaction: NONE,
            transid: [0; 2],
            previous: NONE,
            next: NONE,
            confirmed: Confirmed::No,
            received: 0,
            refused: false,
            losses: 0,
            multi_read: NONE,
            index: 0,
            decodes: false,
            callback: false,
            kind: Kind::Read,
            since: 0,
            token,
        }
    }

    /// Its request is packed: nothing is known of the outcome.
    #[inline]
    pub(super) fn define(&mut self, callback: bool, token: T) {
        self.state = State::Defined;
        self.error = 0;
        self.confirmed = Confirmed::No;
        self.received = 0;
        self.refused = false;
        self.since = u64::MAX;
        self.callback = callback;
        self.token = token;
    }

    /// Whether every reply about this operation has come, the transaction's outcome aside.
    #[inline]
    pub(super) fn is_answered(&self) -> bool {
        match self.confirmed {
            Confirmed::No => false,
            Confirmed::Words(words) => self.received >= words || self.refused,
            Confirmed::ReadBy(_) => self.received > 0 || self.refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use proptest::prelude::*;

    use super::*;
    use crate::dict::record::tests::fill_row;
    use crate::dict::standing::Standings;
    use crate::dict::table::tests::{any_table, as_sent, key_column};
    use crate::dict::table::{NewColumn, NewTable};
    use crate::wire::column::ColumnType;
    use crate::wire::transaction::{AbortOption, LockMode, WriteKind};

    #[test]
    fn each_step_has_a_line_of_its_own() {
        type OfC = Query<[usize; 3]>;
        assert_eq!((offset_of!(OfC, request), offset_of!(OfC, key_row)), (64, 120));
        assert_eq!(size_of::<Option<OfC>>(), 192);
    }

    fn query(table: &Arc<Table>) -> Query<()> {
        let record = Arc::new(Record::natural(table));
        let standing = Standings::default().add(table, 1);
        Query::new(table.clone(), standing, record.clone(), Some(record), ())
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let write = |kind| Operation::Write(kind, AbortOption::AbortOnError);
        let writes = [WriteKind::Insert, WriteKind::Update, WriteKind::Write, WriteKind::Delete].map(write);
        let reads = [Operation::Read(LockMode::Committed), Operation::Exists];
        proptest::sample::select([&reads[..], &writes[..]].concat())
    }

    proptest! {
        #[test]
        fn a_request_packed_again_is_as_one_packed_anew(
            new in any_table(),
            bytes in proptest::collection::vec(any::<u8>(), 200..400),
            operations in proptest::collection::vec((operation(), 1..4usize), 1..4),
        ) {
            let table = Arc::new(as_sent(&new, 5));
            let mut used = query(&table);
            let repeated = operations.into_iter().flat_map(|(operation, times)| vec![operation; times]);
            for (round, operation) in repeated.enumerate() {
                let row = fill_row(&used.key, &bytes[10 * round..]);
                let mut fresh = query(&table);
                for query in [&mut used, &mut fresh] {
                    query.key_row.bytes_mut().copy_from_slice(&row);
                    query.attr_row.bytes_mut().copy_from_slice(&row);
                }
                prop_assert_eq!(used.pack(7, 10, operation), Ok(()));
                prop_assert_eq!(fresh.pack(7, 10, operation), Ok(()));
                prop_assert_eq!(&used.request, &fresh.request);
                prop_assert_eq!(used.info, fresh.info);
            }
        }
    }

    #[test]
    fn rows_of_fixed_length_make_templates_and_others_do_not() {
        let made = |value: NewColumn| {
            let columns = vec![key_column("k", ColumnType::Unsigned), value];
            let mut query = query(&Arc::new(as_sent(&NewTable::new("db", "t", columns), 2)));
            [WriteKind::Insert, WriteKind::Update, WriteKind::Write, WriteKind::Delete].map(|kind| {
                query.pack(7, 10, Operation::Write(kind, AbortOption::AbortOnError)).unwrap();
                query.template.is_some()
            })
        };
        let number = NewColumn::new("v", ColumnType::Unsigned);
        assert_eq!(made(NewColumn { nullable: true, ..number.clone() }), [false, false, false, true]);
        assert_eq!(made(NewColumn { nullable: false, ..number }), [true; 4]);
    }
}
