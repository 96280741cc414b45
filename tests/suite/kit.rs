//! What tests are written with: a table that goes with its test, a user thread that counts completions, and
//! random numbers that are the same each time.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iclaustron::cluster::Cluster;
use iclaustron::conn::transaction::Phase;
use iclaustron::conn::{Connection, Operation};
use iclaustron::dict::client::Client;
use iclaustron::dict::record::Record;
use iclaustron::dict::standing::Standing;
use iclaustron::dict::table::{NewColumn, NewTable, Table};
use iclaustron::error::ndb::NO_SUCH_TABLE;
use iclaustron::error::{Error, is_temporary};
use iclaustron::wire::column::ColumnType;
use iclaustron::wire::transaction::{AbortOption, LockMode, WriteKind};

use crate::cluster;

pub const DATABASE: &str = "suite";
pub const ABORT: AbortOption = AbortOption::AbortOnError;
pub const IGNORE: AbortOption = AbortOption::IgnoreError;

/// How long a test waits for what must come. Data nodes on a busy machine can be slow.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest wait between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Polls `look` until it gives something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
    }
}

pub fn column(name: &str, kind: ColumnType) -> NewColumn {
    NewColumn::new(name, kind)
}

pub fn key_column(name: &str, kind: ColumnType) -> NewColumn {
    NewColumn { primary_key: true, ..column(name, kind) }
}

/// A definition of a table with a key `k` and a value `v`, both unsigned.
pub fn numbers(name: &str) -> NewTable {
    let columns = vec![key_column("k", ColumnType::Unsigned), column("v", ColumnType::Unsigned)];
    NewTable::new(DATABASE, name, columns)
}

/// A table that exists as long as this value.
pub struct TestTable {
    dictionary: Client,
    new: NewTable,
    pub table: Arc<Table>,
    pub standing: Arc<Standing>,
    /// All columns.
    pub record: Arc<Record>,
}

impl TestTable {
    /// Makes a table anew.
    pub fn create(new: NewTable) -> TestTable {
        let mut dictionary = Client::new(cluster::joined()).unwrap();
        drop_table(&mut dictionary, &new);
        in_turn(|| dictionary.create(&new)).unwrap();
        let (table, standing) = dictionary.open(&new.database, &new.name).unwrap();
        let record = Arc::new(Record::natural(&table));
        TestTable { dictionary, new, table, standing, record }
    }

    /// Makes a table of [`numbers`].
    pub fn numbers(name: &str) -> TestTable {
        TestTable::create(numbers(name))
    }

    /// The table as a cluster handle other than the process's own sees it.
    pub fn opened_by(&self, cluster: &Arc<Cluster>) -> (Arc<Table>, Arc<Standing>) {
        Client::new(cluster.clone()).unwrap().open(&self.new.database, &self.new.name).unwrap()
    }

    /// Where a column stands in a row of all columns.
    pub fn at(&self, name: &str) -> std::ops::Range<usize> {
        let column = self.table.column(name.as_bytes()).unwrap();
        let field = self.record.field(column.id).unwrap();
        field.offset as usize..(field.offset + field.size) as usize
    }
}

impl Drop for TestTable {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            drop_table(&mut self.dictionary, &self.new);
        }
    }
}

/// A schema change that is tried again while others hold their schema transactions: a cluster has one at a time, and
/// many tests want it at once.
fn in_turn<R>(mut change: impl FnMut() -> Result<R, Error>) -> Result<R, Error> {
    let until = Instant::now() + PATIENCE;
    loop {
        match change() {
            Err(error) if is_temporary(error.code) && Instant::now() < until => {}
            result => return result,
        }
    }
}

/// Drops a table if it is there.
pub fn drop_table(dictionary: &mut Client, new: &NewTable) {
    match in_turn(|| dictionary.drop(&new.database, &new.name)) {
        Err(error) if error.code != NO_SUCH_TABLE => panic!("{error:?}"),
        _ => {}
    }
}

/// A user thread. Its queries are used once each.
pub struct User {
    pub connection: Connection<()>,
    /// Queries in order of completion.
    pub done: Vec<u64>,
    seen: HashSet<u64>,
}

impl User {
    pub fn new() -> User {
        User::of(cluster::joined())
    }

    pub fn of(cluster: Arc<Cluster>) -> User {
        let connection = Connection::new(cluster).unwrap();
        User { connection, done: Vec::new(), seen: HashSet::new() }
    }

    pub fn query(&mut self, table: &TestTable) -> u64 {
        self.query_with(table, &table.record, Some(&table.record))
    }

    pub fn query_with(&mut self, table: &TestTable, key: &Arc<Record>, attr: Option<&Arc<Record>>) -> u64 {
        let definition = table.table.clone();
        self.connection
            .create_query(definition, table.standing.clone(), key.clone(), attr.cloned(), ())
            .unwrap()
    }

    /// Starts a transaction anywhere.
    pub fn start(&mut self) -> u64 {
        self.connection.start_transaction(0, None).unwrap()
    }

    /// Starts a transaction at the node that owns a fragment.
    pub fn start_at(&mut self, table: &TestTable, fragment: u32) -> u64 {
        self.connection.start_transaction(fragment + 1, Some(&table.table)).unwrap()
    }

    /// Has coordinator records seized at every node, so that what is sent goes out at once.
    pub fn warm_up(&mut self, records: usize) {
        let nodes = self.connection.cluster().nodes.len();
        let started: Vec<_> = (0..records * nodes).map(|_| self.start()).collect();
        for transaction in started {
            assert_eq!(self.commit_and_end(transaction), (0, true));
            self.connection.close(transaction).unwrap();
        }
    }

    pub fn define(&mut self, query: u64, transaction: u64, operation: Operation) {
        self.connection.define(query, transaction, operation, true, ()).unwrap();
    }

    /// Defines a read of a row of [`numbers`].
    pub fn read(&mut self, table: &TestTable, transaction: u64, key: u32, mode: LockMode) -> u64 {
        let query = self.query(table);
        self.key_row(query)[table.at("k")].copy_from_slice(&key.to_le_bytes());
        self.define(query, transaction, Operation::Read(mode));
        query
    }

    /// Defines a write of a row of [`numbers`].
    pub fn write(
        &mut self,
        table: &TestTable,
        transaction: u64,
        kind: (WriteKind, AbortOption),
        key: u32,
        value: u32,
    ) -> u64 {
        let query = self.query(table);
        self.key_row(query)[table.at("k")].copy_from_slice(&key.to_le_bytes());
        self.row(query)[table.at("v")].copy_from_slice(&value.to_le_bytes());
        self.define(query, transaction, Operation::Write(kind.0, kind.1));
        query
    }

    pub fn insert(&mut self, table: &TestTable, transaction: u64, key: u32, value: u32) -> u64 {
        self.write(table, transaction, (WriteKind::Insert, ABORT), key, value)
    }

    pub fn update(&mut self, table: &TestTable, transaction: u64, key: u32, value: u32) -> u64 {
        self.write(table, transaction, (WriteKind::Update, ABORT), key, value)
    }

    /// Frees a query that is complete.
    pub fn free(&mut self, query: u64) {
        self.connection.free_query(query).unwrap();
        self.seen.remove(&query);
    }

    pub fn key_row(&mut self, query: u64) -> &mut [u8] {
        self.connection.rows(query).unwrap().0.bytes_mut()
    }

    pub fn row(&mut self, query: u64) -> &mut [u8] {
        self.connection.rows(query).unwrap().1.bytes_mut()
    }

    pub fn commit(&mut self, transaction: u64) {
        self.connection.commit(transaction).unwrap();
    }

    pub fn send(&mut self) {
        self.connection.send(true);
    }

    /// One poll, with its callbacks.
    pub fn poll(&mut self) {
        self.connection.poll(LOOK_AGAIN).unwrap();
        self.take_callbacks();
        self.connection.end_poll();
    }

    /// Runs the callbacks that are due.
    pub fn take_callbacks(&mut self) {
        while let Some(completion) = self.connection.next_callback() {
            assert!(self.seen.insert(completion.query), "a second completion");
            self.done.push(completion.query);
            self.connection.callback_done(completion.query);
        }
    }

    /// Polls until a query is complete.
    pub fn wait(&mut self, query: u64) -> i32 {
        until("a query's completion", || {
            self.poll();
            self.seen.contains(&query).then_some(())
        });
        self.error(query)
    }

    /// Sends, and polls until nothing is in flight.
    pub fn run(&mut self) {
        self.send();
        until("nothing in flight", || {
            self.poll();
            (self.connection.in_flight() == 0).then_some(())
        });
    }

    /// Sends, and polls until a transaction is over and nothing is in flight: rows of committed reads can
    /// come after the commit. The transaction's error, and whether it was committed.
    pub fn end(&mut self, transaction: u64) -> (i32, bool) {
        self.run();
        until("a transaction's end", || {
            self.poll();
            self.outcome(transaction)
        })
    }

    /// Commits, and polls until it is over.
    pub fn commit_and_end(&mut self, transaction: u64) -> (i32, bool) {
        self.commit(transaction);
        self.end(transaction)
    }

    /// A transaction's error and whether it was committed, if it is over.
    pub fn outcome(&mut self, transaction: u64) -> Option<(i32, bool)> {
        let (phase, committed) = self.connection.transaction_state(transaction).unwrap();
        let error = self.connection.transaction_error(transaction).unwrap();
        (phase == Phase::Ended).then_some((error, committed))
    }

    pub fn error(&self, query: u64) -> i32 {
        self.connection.query_error(query).unwrap()
    }

    pub fn errors(&self, queries: &[u64]) -> Vec<i32> {
        queries.iter().map(|&query| self.error(query)).collect()
    }

    /// What a read of a row of [`numbers`] found.
    pub fn found(&mut self, table: &TestTable, query: u64) -> Result<u32, i32> {
        match self.error(query) {
            0 => Ok(number(&self.row(query)[table.at("v")])),
            error => Err(error),
        }
    }

    /// The committed value of a row of [`numbers`].
    pub fn look(&mut self, table: &TestTable, key: u32) -> Result<u32, i32> {
        let transaction = self.start();
        let query = self.read(table, transaction, key, LockMode::Committed);
        assert_eq!(self.commit_and_end(transaction), (0, true));
        self.connection.close(transaction).unwrap();
        self.found(table, query)
    }

    /// Commits rows of [`numbers`], whose values are ten times their keys.
    pub fn fill(&mut self, table: &TestTable, keys: impl IntoIterator<Item = u32>) {
        let failed = self.connection.statistics().failed;
        for key in keys {
            let transaction = self.start();
            self.write(table, transaction, (WriteKind::Write, ABORT), key, 10 * key);
            self.commit(transaction);
            self.connection.close(transaction).unwrap();
        }
        self.run();
        assert_eq!(self.connection.statistics().failed, failed);
    }
}

impl Drop for User {
    /// Gives the coordinator records back, of which a node has not many.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.connection.finish(PATIENCE);
        }
    }
}

pub fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().unwrap())
}

/// Random numbers: SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}
