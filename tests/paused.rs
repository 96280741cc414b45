//! A data node that hangs with its connections open: what went there ends at its deadline, the rest goes on,
//! and when the node goes on the same connection uses it again. On embedded nodes that send nothing for a
//! while, and on real processes that are halted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use iclaustron::cluster::Cluster;
use iclaustron::conn::multi_read::{Args, KeyState, Kind};
use iclaustron::conn::{Connection, Operation};
use iclaustron::dict::client::Client as Dictionary;
use iclaustron::dict::record::Record;
use iclaustron::dict::standing::Standing;
use iclaustron::dict::table::{NewColumn, NewTable, Table};
use iclaustron::embedded::{EmbeddedCluster, Options};
use iclaustron::error::{is_temporary, is_unknown_result, own};
use iclaustron::tools::ndb_cluster::{self, NdbCluster};
use iclaustron::wire::NodeId;
use iclaustron::wire::column::ColumnType;
use iclaustron::wire::transaction::{AbortOption, LockMode, WriteKind};

const WRITE: Operation = Operation::Write(WriteKind::Write, AbortOption::AbortOnError);
const READ: Operation = Operation::Read(LockMode::Committed);
const IN_FLIGHT: usize = 64;
/// Long before a paused node goes on.
const DEADLINE: Duration = Duration::from_millis(800);
const PATIENCE: Duration = Duration::from_secs(60);

/// Nodes of which one can be halted.
trait Nodes {
    fn connectstring(&self) -> String;
    fn pause(&mut self, node: NodeId);
    /// When every operation that met the pause has ended.
    fn resume(&mut self, node: NodeId);
}

impl Nodes for EmbeddedCluster {
    fn connectstring(&self) -> String {
        EmbeddedCluster::connectstring(self)
    }

    fn pause(&mut self, node: NodeId) {
        self.stall(node, Duration::from_secs(3600)).unwrap();
    }

    fn resume(&mut self, node: NodeId) {
        self.stall(node, Duration::ZERO).unwrap();
    }
}

impl Nodes for NdbCluster {
    fn connectstring(&self) -> String {
        NdbCluster::connectstring(self)
    }

    fn pause(&mut self, node: NodeId) {
        NdbCluster::pause(self, node).unwrap();
    }

    fn resume(&mut self, node: NodeId) {
        NdbCluster::resume(self, node).unwrap();
    }
}

/// A connection with slots, each one query; of each slot how often its operation was accepted and has
/// completed.
struct Load {
    cluster: Arc<Cluster>,
    connection: Connection<usize>,
    table: Arc<Table>,
    standing: Arc<Standing>,
    record: Arc<Record>,
    slots: Vec<Slot>,
    errors: Vec<i32>,
}

struct Slot {
    query: u64,
    transaction: u64,
    out: bool,
    rounds: u64,
}

impl Load {
    fn new(connectstring: &str) -> Load {
        let cluster = Cluster::connect(Some(connectstring), &Default::default()).unwrap();
        let mut dictionary = Dictionary::new(cluster.clone()).unwrap();
        let key = NewColumn { primary_key: true, ..NewColumn::new("k", ColumnType::Unsigned) };
        let columns = vec![key, NewColumn::new("v", ColumnType::Unsigned)];
        dictionary.create(&NewTable::new("test", "paused", columns)).unwrap();
        let (table, standing) = dictionary.open("test", "paused").unwrap();
        let record = Arc::new(Record::natural(&table));
        let connection = Connection::new(cluster.clone()).unwrap();
        let (slots, errors) = (Vec::new(), Vec::new());
        let mut load = Load { cluster, connection, table, standing, record, slots, errors };
        for key in 0..IN_FLIGHT as u32 {
            let query = load.query(key);
            load.slots.push(Slot { query, transaction: 0, out: false, rounds: 0 });
        }
        load
    }

    fn query(&mut self, key: u32) -> u64 {
        let (table, standing, record) = (self.table.clone(), self.standing.clone(), self.record.clone());
        let query = self.connection.create_query(table, standing, record.clone(), Some(record), 0).unwrap();
        let (key_row, row) = self.connection.rows(query).unwrap();
        key_row.bytes_mut()[..4].copy_from_slice(&key.to_le_bytes());
        row.bytes_mut()[..4].copy_from_slice(&key.to_le_bytes());
        row.bytes_mut()[4..].copy_from_slice(&(10 * key).to_le_bytes());
        query
    }

    /// The node that has the preferred replica of a key.
    fn owner(&self, key: u32) -> NodeId {
        let mut row = vec![0; self.record.row_size()];
        row[..4].copy_from_slice(&key.to_le_bytes());
        let hint = self.connection.hint_for_key(&self.table, &self.record, &row).unwrap();
        self.table.nodes_of(hint - 1)[0]
    }

    fn start(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        let operation = if slot.rounds.is_multiple_of(2) { WRITE } else { READ };
        let hint = self.connection.hint_for_query(slot.query).unwrap();
        slot.transaction = self.connection.start_transaction_for(hint, slot.query).unwrap();
        self.connection.define(slot.query, slot.transaction, operation, true, at).unwrap();
        self.connection.commit(slot.transaction).unwrap();
        slot.out = true;
    }

    /// One round of sends and completions; slots that complete start again if `go_on`.
    fn turn(&mut self, go_on: bool) {
        self.connection.send(true);
        self.connection.poll(Duration::from_millis(20)).unwrap();
        while let Some(completion) = self.connection.next_callback() {
            let at = completion.token;
            let slot = &mut self.slots[at];
            assert!(std::mem::replace(&mut slot.out, false), "slot {at} has completed twice");
            slot.rounds += 1;
            let error = self.connection.query_error(slot.query).unwrap();
            self.errors.push(error);
            self.connection.close(slot.transaction).unwrap();
            self.connection.callback_done(completion.completed);
            if go_on {
                self.start(at);
            }
        }
        self.connection.end_poll();
    }

    fn turn_until(&mut self, what: &str, go_on: bool, done: impl Fn(&Load) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !done(self) {
            assert!(Instant::now() < until, "{what}");
            self.turn(go_on);
        }
    }
}

fn operations_end_while_a_node_is_paused(nodes: &mut dyn Nodes) {
    let mut load = Load::new(&nodes.connectstring());
    load.connection.set_deadline(Some(DEADLINE));
    (0..IN_FLIGHT).for_each(|at| load.start(at));
    load.turn_until("a start", true, |load| load.slots.iter().all(|slot| slot.rounds > 20));
    assert!(load.errors.iter().all(|&error| error == 0));
    nodes.pause(1);
    load.errors.clear();
    let rounds: Vec<u64> = load.slots.iter().map(|slot| slot.rounds).collect();
    // Every slot ends by its reply or by its deadline. Its first end may be from before the pause; of the next
    // two one is of a read, whose deadline is told as such, while a write that was sent has an unknown outcome.
    let moved = |load: &Load| load.slots.iter().zip(&rounds).all(|(slot, before)| slot.rounds > before + 2);
    load.turn_until("operations end without the node", true, moved);
    let failed = load.errors.iter().filter(|&&error| error != 0);
    assert!(failed.clone().count() > 0, "the pause was felt");
    for &error in failed {
        assert!(is_temporary(error) || is_unknown_result(error), "{error}");
    }
    assert!(load.errors.contains(&own::DEADLINE), "{:?}", load.errors);
    nodes.resume(1);
    // What met the pause may still fail; then every slot does well again.
    let failed = |load: &Load| load.errors.iter().filter(|&&error| error != 0).count();
    let until = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < until, "all goes well again");
        let (before, rounds) = (failed(&load), load.slots.iter().map(|slot| slot.rounds).min().unwrap());
        load.turn_until("slots go on", true, |load| load.slots.iter().all(|slot| slot.rounds > rounds + 20));
        if failed(&load) == before {
            break;
        }
    }
    load.turn_until("the end", false, |load| load.connection.in_flight() == 0);
    assert!(load.slots.iter().all(|slot| !slot.out), "each operation has completed once");
    load.cluster.disconnect();
}

fn the_other_parts_of_a_multi_key_read_have_their_rows(nodes: &mut dyn Nodes) {
    let mut load = Load::new(&nodes.connectstring());
    (0..IN_FLIGHT).for_each(|at| load.start(at));
    load.turn_until("the rows", false, |load| load.connection.in_flight() == 0);
    // So that the pause finds coordinator records on both nodes.
    (0..IN_FLIGHT).for_each(|at| load.start(at));
    load.turn_until("the rows again", false, |load| load.connection.in_flight() == 0);
    let keys: Vec<u32> = (0..IN_FLIGHT as u32).collect();
    let queries: Vec<u64> = keys.iter().map(|&key| load.query(key)).collect();
    nodes.pause(2);
    let args = Args { kind: Kind::Gather, limit: Some(DEADLINE), callback: false, token: 0 };
    let read = load.connection.multi_read(&queries, args).unwrap();
    let of_the_first = |load: &Load, at: usize| load.owner(at as u32) == 1;
    let singles: Vec<usize> = (0..IN_FLIGHT).filter(|&at| of_the_first(&load, at)).collect();
    let rounds = |load: &Load| singles.iter().map(|&at| load.slots[at].rounds).min().unwrap();
    // Reads: a write has a replica on each node.
    let before = rounds(&load);
    singles.iter().for_each(|&at| load.slots[at].rounds = before | 1);
    let before = rounds(&load);
    let until = Instant::now() + PATIENCE;
    let mut passed = 0;
    while load.connection.next_executed_multi_read() != Some(read) {
        assert!(Instant::now() < until, "it ends at its deadline");
        for &at in &singles {
            if !load.slots[at].out {
                load.slots[at].rounds |= 1;
                load.start(at);
            }
        }
        load.turn(false);
        passed = rounds(&load) - before;
    }
    assert!(passed > 10, "single reads of the other node went on meanwhile: {passed}");
    assert_eq!(load.connection.multi_read_error(read), Ok(own::DEADLINE));
    for &key in &keys {
        let state = load.connection.multi_read_key(read, key as usize).unwrap();
        match load.owner(key) {
            1 => {
                assert_eq!(state, KeyState::Found);
                let (_, row) = load.connection.rows(queries[key as usize]).unwrap();
                assert_eq!(row.bytes()[4..8], (10 * key).to_le_bytes());
            }
            _ => assert_eq!(state, KeyState::Failed(own::DEADLINE), "never missing"),
        }
    }
    load.connection.close_multi_read(read).unwrap();
    nodes.resume(2);
    load.turn_until("the singles", false, |load| load.connection.in_flight() == 0);
    assert!(load.errors.iter().all(|&error| error == 0), "{:?}", load.errors);
    load.connection.finish(PATIENCE);
    load.cluster.disconnect();
}

fn embedded() -> EmbeddedCluster {
    EmbeddedCluster::start(Options::default()).unwrap()
}

/// A real cluster of this test's own, for its nodes are halted.
fn real(test: impl FnOnce(&mut dyn Nodes)) {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = NdbCluster::start(ndb_cluster::Options::new(dir.path())).unwrap();
    test(&mut cluster);
    cluster.stop().unwrap();
}

#[test]
fn operations_end_on_embedded_nodes() {
    operations_end_while_a_node_is_paused(&mut embedded());
}

#[test]
fn multi_key_reads_end_on_embedded_nodes() {
    the_other_parts_of_a_multi_key_read_have_their_rows(&mut embedded());
}

#[test]
#[cfg_attr(not(real_cluster), ignore = "needs a real cluster: set IC_NDB_HOME")]
fn operations_and_multi_key_reads_end_on_real_nodes() {
    real(|nodes| operations_end_while_a_node_is_paused(nodes));
    real(|nodes| the_other_parts_of_a_multi_key_read_have_their_rows(nodes));
}
