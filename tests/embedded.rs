//! Embedded data nodes, driven by this library's own client.
#![cfg(feature = "embedded")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use iclaustron::cluster::{self, Cluster};
use iclaustron::conn::transaction::Phase;
use iclaustron::conn::{Connection, Operation};
use iclaustron::dict::client::Client as Dictionary;
use iclaustron::dict::record::{ColumnRef, FieldSpec, Record};
use iclaustron::dict::standing::Standing;
use iclaustron::dict::table::{NewColumn, NewTable, Table};
use iclaustron::embedded::{EmbeddedCluster, Options};
use iclaustron::error::{is_temporary, is_unknown_result};
use iclaustron::wire::column::ColumnType;
use iclaustron::wire::transaction::{AbortOption, LockMode, WriteKind};

const LIMIT: Duration = Duration::from_secs(20);
const INSERT: Operation = Operation::Write(WriteKind::Insert, AbortOption::AbortOnError);
const UPDATE: Operation = Operation::Write(WriteKind::Update, AbortOption::AbortOnError);
const WRITE: Operation = Operation::Write(WriteKind::Write, AbortOption::AbortOnError);
const DELETE: Operation = Operation::Write(WriteKind::Delete, AbortOption::AbortOnError);
const READ: Operation = Operation::Read(LockMode::Committed);
const LOCK: Operation = Operation::Read(LockMode::Exclusive(AbortOption::AbortOnError));

fn start(options: Options) -> EmbeddedCluster {
    EmbeddedCluster::start(options).unwrap()
}

fn quick() -> Options {
    let times = (Duration::from_millis(150), Duration::from_millis(50));
    let seed = std::env::var("IC_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    Options { lock_timeout: times.0, quarantine: times.1, seed, ..Options::default() }
}

fn join(nodes: &EmbeddedCluster) -> Arc<Cluster> {
    let options = cluster::Options { grace: Duration::from_millis(200), ..Default::default() };
    Cluster::connect(Some(&nodes.connectstring()), &options).unwrap()
}

/// A table of an unsigned key and an unsigned value.
fn make_table(cluster: &Arc<Cluster>) -> (Arc<Table>, Arc<Standing>) {
    let mut dictionary = Dictionary::new(cluster.clone()).unwrap();
    let key = NewColumn { primary_key: true, ..NewColumn::new("k", ColumnType::Unsigned) };
    let value = NewColumn::new("v", ColumnType::Unsigned);
    dictionary.create(&NewTable::new("test", "t", vec![key, value])).unwrap();
    dictionary.open("test", "t").unwrap()
}

/// A connection, and queries on the table.
struct Session {
    connection: Connection<()>,
    table: Arc<Table>,
    key: Arc<Record>,
    queries: Vec<u64>,
}

impl Session {
    fn new(cluster: &Arc<Cluster>, (table, standing): (Arc<Table>, Arc<Standing>)) -> Self {
        let record = |name: &'static [u8]| {
            let spec = FieldSpec { column: ColumnRef::Name(name), offset: 0, null: None };
            Arc::new(Record::new(&table, 4, &[spec]).unwrap())
        };
        let (key, value) = (record(b"k"), record(b"v"));
        let mut connection = Connection::new(cluster.clone()).unwrap();
        let mut query = || {
            connection
                .create_query(table.clone(), standing.clone(), key.clone(), Some(value.clone()), ())
                .unwrap()
        };
        let queries = (0..64).map(|_| query()).collect();
        Session { connection, table, key, queries }
    }

    fn transaction(&mut self, key: u32) -> u64 {
        let hint = self.connection.hint_for_key(&self.table, &self.key, &key.to_le_bytes()).unwrap();
        self.connection.start_transaction(hint, Some(&self.table)).unwrap()
    }

    fn define(&mut self, query: usize, transaction: u64, operation: Operation, key: u32, value: u32) {
        let query = self.queries[query];
        let (key_row, value_row) = self.connection.rows(query).unwrap();
        key_row.bytes_mut().copy_from_slice(&key.to_le_bytes());
        value_row.bytes_mut().copy_from_slice(&value.to_le_bytes());
        self.connection.define(query, transaction, operation, false, ()).unwrap();
    }

    /// Sends, and waits until the queries have completed: their errors and values.
    fn execute(&mut self, count: usize) -> Vec<(i32, u32)> {
        let until = Instant::now() + LIMIT;
        self.connection.send(true);
        let mut left = count;
        while left > 0 {
            assert!(
                Instant::now() < until,
                "no reply: {left} of {count}, {:?}, {:?}",
                self.queries[..count].iter().map(|q| self.connection.query_state(*q)).collect::<Vec<_>>(),
                self.connection.statistics()
            );
            self.connection.poll(Duration::from_millis(100)).unwrap();
            while self.connection.next_executed().is_some() {
                left -= 1;
            }
            self.connection.send(true);
        }
        let result = |at: usize| {
            let query = self.queries[at];
            let error = self.connection.query_error(query).unwrap();
            let value = self.connection.rows(query).unwrap().1.bytes().try_into().unwrap();
            (error, u32::from_le_bytes(value))
        };
        (0..count).map(result).collect()
    }

    /// One operation, committed.
    fn one(&mut self, operation: Operation, key: u32, value: u32) -> (i32, u32) {
        let transaction = self.transaction(key);
        self.define(0, transaction, operation, key, value);
        self.connection.commit(transaction).unwrap();
        let result = self.execute(1)[0];
        self.connection.close(transaction).unwrap();
        result
    }

    /// One operation of an open transaction.
    fn step(&mut self, transaction: u64, operation: Operation, key: u32, value: u32) -> (i32, u32) {
        self.define(0, transaction, operation, key, value);
        self.execute(1)[0]
    }

    /// Commits or rolls back, and waits for the end.
    fn end(&mut self, transaction: u64, commit: bool) -> i32 {
        let asked =
            if commit { self.connection.commit(transaction) } else { self.connection.rollback(transaction) };
        let until = Instant::now() + LIMIT;
        while asked.is_ok() && self.connection.transaction_state(transaction).unwrap().0 != Phase::Ended {
            assert!(Instant::now() < until, "no end");
            self.connection.send(true);
            self.connection.poll(Duration::from_millis(10)).unwrap();
        }
        let error = self.connection.transaction_error(transaction).unwrap();
        self.connection.close(transaction).unwrap();
        self.connection.send(true);
        error
    }
}

#[test]
fn rows_come_and_go() {
    for (nodes, replicas) in [(1, 1), (2, 2), (2, 1), (4, 2)] {
        let nodes = start(Options { nodes, replicas, ..quick() });
        let cluster = join(&nodes);
        let mut session = Session::new(&cluster, make_table(&cluster));
        for key in 0..40 {
            assert_eq!(session.one(INSERT, key, 2 * key).0, 0);
            assert_eq!(session.one(INSERT, key, 0).0, 630, "it is there");
            assert_eq!(session.one(READ, key, 0), (0, 2 * key));
            assert_eq!(session.one(UPDATE, key, 5).0, 0);
            assert_eq!(session.one(LOCK, key, 0), (0, 5));
            assert_eq!(session.one(WRITE, key, 6).0, 0);
            assert_eq!(session.one(READ, key, 0), (0, 6));
            assert_eq!(session.one(DELETE, key, 0).0, 0);
            assert_eq!(session.one(DELETE, key, 0).0, 626);
            assert_eq!(session.one(UPDATE, key, 0).0, 626);
            assert_eq!(session.one(READ, key, 0).0, 626);
        }
        assert_eq!(nodes.log(), [""; 0]);
        cluster.disconnect();
    }
}

#[test]
fn transactions_are_all_or_nothing() {
    let nodes = start(quick());
    let cluster = join(&nodes);
    let mut session = Session::new(&cluster, make_table(&cluster));
    let transaction = session.transaction(0);
    (0..20).for_each(|at| session.define(at, transaction, INSERT, at as u32, 7));
    assert!(session.execute(20).iter().all(|result| result.0 == 0));
    assert_eq!(session.step(transaction, LOCK, 3, 0), (0, 7), "its own row");
    let mut other = Session::new(&cluster, (session.table.clone(), Standing::new(1)));
    assert_eq!(other.one(READ, 3, 0).0, 626, "not committed");
    assert_eq!(session.end(transaction, false), 0);
    assert_eq!(session.one(READ, 3, 0).0, 626, "rolled back");
    let transaction = session.transaction(0);
    (0..20).for_each(|at| session.define(at, transaction, INSERT, at as u32, at as u32));
    session.connection.commit(transaction).unwrap();
    assert!(session.execute(20).iter().all(|result| result.0 == 0));
    session.connection.close(transaction).unwrap();
    for key in 0..20 {
        assert_eq!(other.one(READ, key, 0), (0, key));
    }
    let transaction = session.transaction(0);
    session.define(0, transaction, UPDATE, 1, 99);
    session.define(1, transaction, INSERT, 2, 99);
    session.connection.commit(transaction).unwrap();
    session.execute(2);
    assert_eq!(session.connection.transaction_error(transaction), Ok(630));
    assert_eq!(other.one(READ, 1, 0), (0, 1), "aborted");
    cluster.disconnect();
}

#[test]
fn opposite_order_ends_with_one_lock_timeout() {
    let nodes = start(quick());
    let cluster = join(&nodes);
    let table = make_table(&cluster);
    let mut one = Session::new(&cluster, table.clone());
    let mut two = Session::new(&cluster, table);
    assert_eq!((one.one(INSERT, 1, 0).0, one.one(INSERT, 2, 0).0), (0, 0));
    let (first, second) = (one.transaction(1), two.transaction(2));
    assert_eq!(one.step(first, UPDATE, 1, 11).0, 0);
    assert_eq!(two.step(second, UPDATE, 2, 22).0, 0);
    one.define(0, first, UPDATE, 2, 12);
    one.connection.send(true);
    let began = Instant::now();
    let results = std::thread::scope(|scope| {
        let waits = scope.spawn(|| (one.execute(1)[0].0, one.end(first, true)));
        let also = (two.step(second, UPDATE, 1, 21).0, two.end(second, true));
        [waits.join().unwrap(), also]
    });
    assert!(results.contains(&(0, 0)), "one commits: {results:?}");
    assert!(results.iter().any(|result| result.1 == 266), "one is timed out: {results:?}");
    assert!(began.elapsed() < Duration::from_secs(5));
    cluster.disconnect();
}

#[test]
fn a_ledger_keeps_its_sum() {
    const ACCOUNTS: u32 = 50;
    let nodes = start(quick());
    let cluster = join(&nodes);
    let table = make_table(&cluster);
    let mut session = Session::new(&cluster, table.clone());
    (0..ACCOUNTS).for_each(|key| assert_eq!(session.one(INSERT, key, 100).0, 0));
    let move_some = |seed: u32| {
        let mut session = Session::new(&cluster, table.clone());
        let mut random = seed;
        let mut next = || {
            random = random.wrapping_mul(1_103_515_245).wrapping_add(12345);
            random >> 16
        };
        for _ in 0..100 {
            let (from, to, amount) = (next() % ACCOUNTS, next() % ACCOUNTS, next() % 10);
            if from == to {
                continue;
            }
            let transaction = session.transaction(from);
            let (read, there) = session.step(transaction, LOCK, from, 0);
            let (other_read, here) =
                if read == 0 { session.step(transaction, LOCK, to, 0) } else { (read, 0) };
            if read != 0 || other_read != 0 || there < amount {
                session.end(transaction, false);
                continue;
            }
            session.define(0, transaction, UPDATE, from, there - amount);
            session.define(1, transaction, UPDATE, to, here + amount);
            session.connection.commit(transaction).unwrap();
            session.execute(2);
            session.connection.close(transaction).unwrap();
        }
    };
    std::thread::scope(|scope| (1..5).for_each(|seed| drop(scope.spawn(move || move_some(seed)))));
    let sum: u32 = (0..ACCOUNTS).map(|key| session.one(READ, key, 0).1).sum();
    assert_eq!(sum, 100 * ACCOUNTS);
    cluster.disconnect();
}

#[test]
fn rows_survive_one_node_and_then_the_other() {
    let nodes = start(quick());
    let cluster = join(&nodes);
    let table = make_table(&cluster);
    let mut session = Session::new(&cluster, table.clone());
    (0..100).for_each(|key| assert_eq!(session.one(INSERT, key, key).0, 0));
    for dead in [1, 2] {
        nodes.kill(dead).unwrap();
        assert!(!nodes.started().contains(&dead));
        let fresh = join(&nodes);
        let mut again = Session::new(&fresh, table.clone());
        for key in 0..100 {
            assert_eq!(again.one(READ, key, 0), (0, key), "without node {dead}");
        }
        assert_eq!(again.one(UPDATE, 3, 3).0, 0);
        fresh.disconnect();
        nodes.restart(dead).unwrap();
        let until = Instant::now() + LIMIT;
        while !nodes.started().contains(&dead) {
            assert!(Instant::now() < until, "node {dead} does not start");
            std::thread::yield_now();
        }
    }
    cluster.disconnect();
}

#[test]
fn faults_happen_once_and_say_so() {
    let nodes = start(quick());
    let refused = nodes.refuse_node_ids(1);
    let cluster = join(&nodes);
    assert!(refused.consumed());
    let mut session = Session::new(&cluster, make_table(&cluster));
    let failing = nodes.fail_operation(1, 1, 410).unwrap();
    let also = nodes.fail_operation(2, 1, 410).unwrap();
    let errors: Vec<_> = (0..20).map(|key| session.one(INSERT, key, 1).0).collect();
    assert_eq!(errors.iter().filter(|&&error| error == 410).count(), 2, "{errors:?}");
    assert!(failing.consumed() && also.consumed());
    let time = Duration::from_millis(60);
    let stalls = [1, 2].map(|node| nodes.stall(node, time).unwrap());
    let began = Instant::now();
    assert_eq!(session.one(WRITE, 1, 1).0, 0);
    assert!(began.elapsed() >= Duration::from_millis(40));
    assert!(stalls.iter().any(|stall| stall.consumed()));
    let delay = nodes.delay(1, Duration::from_millis(5)).unwrap();
    nodes.delay(2, Duration::from_millis(5)).unwrap();
    (0..10).for_each(|key| assert_eq!(session.one(WRITE, key, 1).0, 0));
    assert!(delay.consumed());
    cluster.disconnect();
}

#[test]
fn a_dropped_link_expels_the_client_everywhere() {
    for garbage in [false, true] {
        let nodes = start(quick());
        let cluster = join(&nodes);
        let (first, second) = (cluster.own_node, join(&nodes));
        let fault = match garbage {
            false => nodes.drop_link(2, Some(first)).unwrap(),
            true => nodes.send_garbage(2).unwrap(),
        };
        let until = Instant::now() + LIMIT;
        while !fault.consumed() || nodes.log().iter().all(|line| !line.contains("expelled")) {
            assert!(Instant::now() < until, "not expelled");
            std::thread::yield_now();
        }
        cluster.disconnect();
        second.disconnect();
    }
}

#[test]
fn garbage_closes_a_socket_and_nothing_else() {
    let nodes = start(quick());
    let cluster = join(&nodes);
    let mut session = Session::new(&cluster, make_table(&cluster));
    let management = nodes.connectstring();
    for bytes in [&[0xff; 5000][..], b"get config\n\n", &[b'a'; 600], b"ndbd\nndbd passwd\n4 1 1\n"] {
        let mut stream = TcpStream::connect(&management).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        // The peer may close before all is written.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(session.one(INSERT, 1, 1).0, 0);
    assert!(!nodes.log().is_empty());
    cluster.disconnect();
}

#[test]
fn sets_are_apart() {
    let sets = [start(quick()), start(quick())];
    let clusters = [join(&sets[0]), join(&sets[1])];
    let mut sessions = [0, 1].map(|at| Session::new(&clusters[at], make_table(&clusters[at])));
    assert_eq!(sessions[0].one(INSERT, 1, 1).0, 0);
    assert_eq!(sessions[1].one(READ, 1, 0).0, 626);
    clusters.iter().for_each(|cluster| cluster.disconnect());
}

#[test]
fn options_that_cannot_be_are_refused() {
    for (nodes, replicas) in [(0, 1), (3, 2), (2, 5), (49, 1)] {
        assert!(EmbeddedCluster::start(Options { nodes, replicas, ..Options::default() }).is_err());
    }
}

/// Writes and reads a row with queries that were made before, until that works; only temporary errors may come.
fn works_again(session: &mut Session, key: u32, value: u32) {
    let until = Instant::now() + LIMIT;
    let mut attempt = |operation: Operation, value: u32| loop {
        assert!(Instant::now() < until, "it does not come back");
        let outcome = session.attempt(operation, key, value);
        match outcome.0 {
            0 => return outcome.1,
            error => assert!(is_temporary(error), "{error}"),
        }
        // Nothing else happens before nodes are usable: a poll waits for news.
        session.connection.poll(Duration::from_millis(10)).unwrap();
    };
    attempt(WRITE, value);
    assert_eq!(attempt(READ, 0), value);
}

impl Session {
    /// One operation, committed; an error wherever it comes.
    fn attempt(&mut self, operation: Operation, key: u32, value: u32) -> (i32, u32) {
        let transaction = match self.connection.start_transaction(0, Some(&self.table)) {
            Ok(transaction) => transaction,
            Err(error) => return (error, 0),
        };
        let query = self.queries[0];
        let (key_row, value_row) = self.connection.rows(query).unwrap();
        key_row.bytes_mut().copy_from_slice(&key.to_le_bytes());
        value_row.bytes_mut().copy_from_slice(&value.to_le_bytes());
        let defined = self.connection.define(query, transaction, operation, false, ());
        let outcome = match defined {
            Ok(()) => {
                self.connection.commit(transaction).unwrap();
                self.execute(1)[0]
            }
            Err(error) => (error, 0),
        };
        self.connection.close(transaction).unwrap();
        outcome
    }
}

#[test]
fn an_expelled_client_comes_back_on_the_same_handles() {
    let nodes = start(quick());
    let cluster = join(&nodes);
    let mut session = Session::new(&cluster, make_table(&cluster));
    assert_eq!(session.one(INSERT, 1, 7).0, 0);
    let before = cluster.incarnation.load(Ordering::Acquire);
    let fault = nodes.drop_link(2, None).unwrap();
    let until = Instant::now() + LIMIT;
    while cluster.incarnation.load(Ordering::Acquire) == before {
        assert!(Instant::now() < until, "one lost link is all lost");
        std::thread::yield_now();
    }
    assert!(fault.consumed());
    assert_eq!(cluster.counts().0, 0, "nobody is dialled before the nodes have forgotten this client");
    works_again(&mut session, 1, 8);
    cluster.wait_usable(2, Instant::now() + LIMIT).unwrap();
    cluster.disconnect();
}

/// Embedded nodes keep nothing when all are down.
#[test]
fn handles_of_tables_that_are_gone_say_so() {
    let nodes = start(quick());
    let cluster = join(&nodes);
    let mut session = Session::new(&cluster, make_table(&cluster));
    assert_eq!(session.one(INSERT, 1, 7).0, 0);
    nodes.kill(1).unwrap();
    nodes.kill(2).unwrap();
    let lost = session.attempt(WRITE, 1, 9).0;
    assert!(is_temporary(lost) || is_unknown_result(lost), "{lost}");
    nodes.restart(1).unwrap();
    nodes.restart(2).unwrap();
    let until = Instant::now() + LIMIT;
    let error = loop {
        assert!(Instant::now() < until, "the cluster does not come back");
        match session.attempt(WRITE, 1, 9).0 {
            error if is_temporary(error) => session.connection.poll(Duration::from_millis(10)).unwrap(),
            error => break error,
        };
    };
    assert_eq!(error, 241);
    let mut session = Session::new(&cluster, make_table(&cluster));
    assert_eq!(session.one(INSERT, 1, 7).0, 0);
    cluster.disconnect();
}

#[test]
fn transactions_of_a_node_that_dies_end_with_what_became_of_them() {
    let nodes = start(quick());
    let cluster = join(&nodes);
    let mut session = Session::new(&cluster, make_table(&cluster));
    for round in 0..20 {
        let keys: Vec<u32> = (0..50).map(|key| 100 * round + key).collect();
        for (at, &key) in keys.iter().enumerate() {
            let transaction = session.transaction(key);
            session.define(at, transaction, INSERT, key, key);
            session.connection.commit(transaction).unwrap();
        }
        let failed = 1 + round as u16 % 2;
        session.connection.send(true);
        nodes.kill(failed).unwrap();
        let outcomes = session.execute(keys.len());
        for (at, &key) in keys.iter().enumerate() {
            let found = loop {
                match session.attempt(READ, key, 0) {
                    (error, _) if is_temporary(error) => {}
                    found => break found,
                }
            };
            let error = outcomes[at].0;
            match error {
                0 => assert_eq!(found, (0, key), "acknowledged"),
                error => {
                    assert!(is_temporary(error), "the other node is up, so nothing is unknown: {error}");
                    assert_eq!(found.0, 626, "refused with {error}");
                }
            }
        }
        nodes.restart(failed).unwrap();
        cluster.wait_usable(2, Instant::now() + LIMIT).unwrap();
    }
    cluster.disconnect();
}
