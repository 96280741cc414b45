//! What data nodes refuse when something runs out: ordinary temporary errors, and the load goes on afterwards.

use std::sync::Arc;
use std::time::{Duration, Instant};

use iclaustron::cluster::{self, Cluster};
use iclaustron::conn::{Connection, Operation};
use iclaustron::dict::client::Client as Dictionary;
use iclaustron::dict::record::Record;
use iclaustron::dict::table::{NewColumn, NewTable};
use iclaustron::embedded::{EmbeddedCluster, Options};
use iclaustron::error::is_temporary;
use iclaustron::wire::column::ColumnType;
use iclaustron::wire::transaction::{AbortOption, WriteKind};

const LIMIT: Duration = Duration::from_secs(60);
const WRITE: Operation = Operation::Write(WriteKind::Write, AbortOption::AbortOnError);
/// Coordinator records that an embedded node gives to one client.
const RECORDS: usize = 4096;

struct Load {
    cluster: Arc<Cluster>,
    connection: Connection<()>,
    queries: Vec<u64>,
}

impl Load {
    fn new(nodes: &EmbeddedCluster, queries: usize) -> Load {
        let options = cluster::Options { grace: Duration::from_millis(500), ..Default::default() };
        let cluster = Cluster::connect(Some(&nodes.connectstring()), &options).unwrap();
        let mut dictionary = Dictionary::new(cluster.clone()).unwrap();
        let key = NewColumn { primary_key: true, ..NewColumn::new("k", ColumnType::Unsigned) };
        let columns = vec![key, NewColumn::new("v", ColumnType::Unsigned)];
        dictionary.create(&NewTable::new("test", "overload", columns)).unwrap();
        let (table, standing) = dictionary.open("test", "overload").unwrap();
        let record = Arc::new(Record::natural(&table));
        let mut connection = Connection::new(cluster.clone()).unwrap();
        let mut query = |key: u32| {
            let (table, standing) = (table.clone(), standing.clone());
            let made = connection.create_query(table, standing, record.clone(), Some(record.clone()), ());
            let made = made.unwrap();
            let (key_row, row) = connection.rows(made).unwrap();
            key_row.bytes_mut()[..4].copy_from_slice(&key.to_le_bytes());
            row.bytes_mut()[..4].copy_from_slice(&key.to_le_bytes());
            made
        };
        let queries = (0..queries as u32).map(&mut query).collect();
        Load { cluster, connection, queries }
    }

    /// Writes with so many of the queries at once, each in a transaction of its own: their errors. Without
    /// `commit` the transactions stay open until all have completed.
    fn write(&mut self, count: usize, commit: bool) -> Vec<i32> {
        let mut open = Vec::new();
        let mut errors = vec![0; count];
        let mut defined = vec![false; count];
        for at in 0..count {
            match self.connection.start_transaction(0, None) {
                Ok(transaction) => {
                    self.connection.define(self.queries[at], transaction, WRITE, false, ()).unwrap();
                    if commit {
                        self.connection.commit(transaction).unwrap();
                    }
                    open.push(transaction);
                    defined[at] = true;
                }
                Err(code) => errors[at] = code,
            }
        }
        self.drain();
        for at in (0..count).filter(|&at| defined[at]) {
            errors[at] = self.connection.query_error(self.queries[at]).unwrap();
        }
        for transaction in open {
            self.connection.close(transaction).unwrap();
        }
        self.drain();
        errors
    }

    fn drain(&mut self) {
        let until = Instant::now() + LIMIT;
        self.connection.send(true);
        while self.connection.in_flight() > 0 {
            assert!(Instant::now() < until, "{:?}", self.connection.statistics());
            self.connection.poll(Duration::from_millis(20)).unwrap();
            self.connection.send(true);
        }
        while self.connection.next_executed().is_some() {}
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.connection.finish(LIMIT);
        self.cluster.disconnect();
    }
}

#[test]
fn what_runs_out_is_a_temporary_error_of_one_operation() {
    let nodes = EmbeddedCluster::start(Options::default()).unwrap();
    let mut load = Load::new(&nodes, 200);
    for code in [233, 234, 219, 410, 1217, 1218, 1220, 1221] {
        let faults = [1, 2].map(|node| nodes.fail_operation(node, 20, code).unwrap());
        let errors = load.write(200, true);
        assert!(faults.iter().all(|fault| fault.consumed()), "{code}");
        assert_eq!(errors.iter().filter(|&&error| error == code).count(), 2, "{code}: {errors:?}");
        assert!(errors.iter().all(|&error| error == 0 || error == code), "{code}: {errors:?}");
        assert!(is_temporary(code), "{code}");
        assert!(load.write(200, true).iter().all(|&error| error == 0), "after {code}");
    }
}

#[test]
fn more_transactions_than_there_are_coordinator_records() {
    let nodes = EmbeddedCluster::start(Options::default()).unwrap();
    let count = 2 * RECORDS + 500;
    let mut load = Load::new(&nodes, count);
    // What waits for a record that nobody gives back ends at its deadline.
    load.connection.set_deadline(Some(Duration::from_secs(2)));
    for _ in 0..2 {
        let errors = load.write(count, false);
        let refused: Vec<_> = errors.iter().copied().filter(|&error| error != 0).collect();
        assert!(refused.len() >= 500, "{} of {count} were refused", refused.len());
        assert!(refused.len() < count / 2, "{} of {count} were refused: {:?}", refused.len(), &refused[..5]);
        assert!(refused.iter().all(|&error| is_temporary(error)), "{:?}", &refused[..5]);
        assert!(load.write(200, true).iter().all(|&error| error == 0), "the load goes on");
    }
}
