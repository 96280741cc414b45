//! Many operations in flight on several threads, each with a connection of its own.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use iclaustron::cluster::{Cluster, Options};
use iclaustron::conn::transaction::Phase;
use iclaustron::conn::{Completed, Connection, Operation, Statistics};
use iclaustron::wire::transaction::{LockMode, WriteKind};

use crate::cluster;
use crate::kit::{ABORT, Random, TestTable, User, number, until};

const THREADS: u32 = 4;
const IN_FLIGHT: u32 = 64;

/// A slot of a pipeline: one row, written and read in turn by one query after the other.
struct Slot {
    query: u64,
    transaction: u64,
    key: u32,
    /// What the row holds, as far as its last completion tells.
    value: Option<u32>,
    out: Option<Step>,
}

#[derive(Clone, Copy)]
enum Step {
    Write(u32),
    Delete,
    Read(LockMode),
}

/// How a thread polls.
#[derive(Clone, Copy)]
struct Polling {
    wait: Duration,
    /// Completions that a poll waits for.
    least: u32,
    /// In an event loop, on the connection's descriptor; `wait` is zero then.
    watch: bool,
}

const PATIENT: Polling = Polling { wait: Duration::from_millis(50), least: 1, watch: false };

/// Waits until a descriptor is readable, or the wait is over; whether it is.
fn is_readable(fd: RawFd, wait: Duration) -> bool {
    let mut asked = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which outlives the call.
    unsafe { libc::poll(&mut asked, 1, wait.as_millis() as i32) == 1 }
}

struct Pipeline<'a> {
    table: &'a TestTable,
    polling: Polling,
    descriptor: Option<RawFd>,
    connection: Connection<u32>,
    random: Random,
    slots: Vec<Slot>,
    accepted: u64,
    completions: HashMap<u32, u64>,
}

impl<'a> Pipeline<'a> {
    fn new(table: &'a TestTable, thread: u32) -> Self {
        Self::of(cluster::joined(), table, thread, PATIENT)
    }

    fn of(cluster: Arc<Cluster>, table: &'a TestTable, thread: u32, polling: Polling) -> Self {
        let (definition, standing) = table.opened_by(&cluster);
        let mut connection = Connection::new(cluster).unwrap();
        connection.set_poll_min(polling.least);
        let descriptor = polling.watch.then(|| connection.descriptor().unwrap());
        let slots = (0..IN_FLIGHT).map(|slot| {
            let (definition, record) = (definition.clone(), table.record.clone());
            let query = connection
                .create_query(definition, standing.clone(), record.clone(), Some(record), slot)
                .unwrap();
            Slot { query, transaction: 0, key: thread * IN_FLIGHT + slot, value: None, out: None }
        });
        let slots = slots.collect();
        let random = Random(thread as u64);
        Pipeline {
            table,
            polling,
            descriptor,
            connection,
            random,
            slots,
            accepted: 0,
            completions: HashMap::new(),
        }
    }

    fn start(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        let step = match self.random.below(6) {
            0..3 => Step::Write(self.random.next() as u32),
            3 => Step::Read(LockMode::Committed),
            4 => Step::Read(LockMode::Shared(ABORT)),
            _ if slot.value.is_some() => Step::Delete,
            _ => Step::Read(LockMode::Exclusive(ABORT)),
        };
        let (key_row, row) = self.connection.rows(slot.query).unwrap();
        key_row.bytes_mut()[self.table.at("k")].copy_from_slice(&slot.key.to_le_bytes());
        let operation = match step {
            Step::Write(value) => {
                row.bytes_mut()[self.table.at("v")].copy_from_slice(&value.to_le_bytes());
                Operation::Write(WriteKind::Write, ABORT)
            }
            Step::Delete => Operation::Write(WriteKind::Delete, ABORT),
            Step::Read(mode) => Operation::Read(mode),
        };
        // Most follow their hint.
        let hint = match self.random.below(4) {
            0 => 0,
            _ => self.connection.hint_for_query(slot.query).unwrap(),
        };
        slot.transaction = self.connection.start_transaction(hint, Some(&self.table.table)).unwrap();
        self.connection.define(slot.query, slot.transaction, operation, true, at).unwrap();
        self.connection.commit(slot.transaction).unwrap();
        assert!(slot.out.replace(step).is_none());
        self.accepted += 1;
    }

    /// What a C program's callback does.
    fn completed(&mut self, at: u32) {
        *self.completions.entry(at).or_default() += 1;
        let slot = &mut self.slots[at as usize];
        let step = slot.out.take().expect("a completion of nothing");
        let error = self.connection.query_error(slot.query).unwrap();
        assert_eq!(self.connection.transaction_state(slot.transaction).unwrap().0, Phase::Ended);
        match step {
            Step::Write(value) => {
                assert_eq!(error, 0);
                slot.value = Some(value);
            }
            Step::Delete => {
                assert_eq!(error, 0);
                slot.value = None;
            }
            Step::Read(mode) => match slot.value {
                Some(value) => {
                    assert_eq!(error, 0, "{mode:?}");
                    let row = self.connection.rows(slot.query).unwrap().1.bytes();
                    assert_eq!(number(&row[self.table.at("v")]), value, "{mode:?}");
                }
                None => assert_eq!(error, 626, "{mode:?}"),
            },
        }
        self.connection.close(slot.transaction).unwrap();
    }

    fn run(mut self, operations: u64) -> (Statistics, HashMap<u32, u64>) {
        (0..IN_FLIGHT).for_each(|at| self.start(at));
        until("the pipeline's end", || {
            self.connection.send(true);
            if let Some(descriptor) = self.descriptor {
                is_readable(descriptor, Duration::from_secs(1));
            }
            self.connection.poll(self.polling.wait).unwrap();
            while let Some(completion) = self.connection.next_callback() {
                self.completed(completion.token);
                if self.accepted < operations {
                    self.start(completion.token);
                }
                self.connection.callback_done(completion.completed);
            }
            self.connection.end_poll();
            (self.connection.in_flight() == 0).then_some(())
        });
        self.connection.finish(Duration::from_secs(10));
        assert!(self.connection.next_callback().is_none());
        (self.connection.statistics(), self.completions)
    }
}

node_test!(each_accepted_operation_completes_exactly_once);
fn each_accepted_operation_completes_exactly_once() {
    const OPERATIONS: u64 = 5000;
    let table = TestTable::numbers("pipe_mixed");
    let nodes = cluster::nodes();
    std::thread::scope(|scope| {
        let table = &table;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || cluster::on(nodes, || Pipeline::new(table, thread).run(OPERATIONS)))
            })
            .collect();
        for thread in threads {
            let (statistics, completions) = thread.join().unwrap();
            assert_eq!((statistics.defined, statistics.completed), (OPERATIONS, OPERATIONS));
            assert_eq!(completions.values().sum::<u64>(), OPERATIONS);
            assert_eq!(completions.len(), IN_FLIGHT as usize, "no slot stands still");
            assert_eq!(statistics.late_replies, 0);
        }
    });
}

/// Threads that poll in different ways on one cluster handle: none starves, nothing is read twice.
fn polled_in_every_way(name: &str, options: &Options, watched: bool) {
    const OPERATIONS: u64 = 1000;
    let table = TestTable::numbers(name);
    let joined = cluster::join(options);
    let nodes = cluster::nodes();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let wait = [0, 1, 50][thread as usize % 3];
                let polling = Polling {
                    wait: Duration::from_millis(wait),
                    least: if thread < 4 { 1 } else { 16 },
                    watch: watched && wait == 0,
                };
                let (table, joined) = (&table, joined.clone());
                scope.spawn(move || {
                    cluster::on(nodes, || Pipeline::of(joined, table, thread, polling).run(OPERATIONS))
                })
            })
            .collect();
        for thread in threads {
            let (statistics, completions) = thread.join().unwrap();
            assert_eq!((statistics.defined, statistics.completed), (OPERATIONS, OPERATIONS));
            assert_eq!(completions.values().sum::<u64>(), OPERATIONS);
            assert_eq!(completions.len(), IN_FLIGHT as usize, "no slot stands still");
            assert_eq!(statistics.late_replies, 0);
        }
    });
    joined.disconnect();
}

node_test!(polled_in_every_way_with_the_role_lent);
fn polled_in_every_way_with_the_role_lent() {
    polled_in_every_way("pipe_lent", &Options::default(), false);
}

node_test!(polled_in_every_way_with_a_dedicated_thread);
fn polled_in_every_way_with_a_dedicated_thread() {
    let options = Options { lend_receive: false, ..Options::default() };
    polled_in_every_way("pipe_dedicated", &options, false);
}

node_test!(polled_in_every_way_with_two_receive_threads);
fn polled_in_every_way_with_two_receive_threads() {
    let options = Options { receive_threads: 2, ..Options::default() };
    polled_in_every_way("pipe_two", &options, true);
}

node_test!(polled_in_every_way_and_watched);
fn polled_in_every_way_and_watched() {
    polled_in_every_way("pipe_watched", &Options::default(), true);
}

node_test!(a_poll_for_many_is_woken_once_for_them);
fn a_poll_for_many_is_woken_once_for_them() {
    const LEAST: u64 = 24;
    let table = TestTable::numbers("pipe_min");
    let joined = cluster::join(&Options { lend_receive: false, ..Options::default() });
    let (definition, standing) = table.opened_by(&joined);
    let mut user = User::of(joined.clone());
    user.warm_up(64);
    user.connection.set_poll_min(LEAST as u32);
    let queries: Vec<_> = (0..64u32)
        .map(|key| {
            let record = table.record.clone();
            let query = user
                .connection
                .create_query(definition.clone(), standing.clone(), record.clone(), Some(record), ())
                .unwrap();
            user.key_row(query)[table.at("k")].copy_from_slice(&key.to_le_bytes());
            user.row(query)[table.at("v")].copy_from_slice(&key.to_le_bytes());
            query
        })
        .collect();
    let woken = user.connection.statistics().wakeups;
    let mut polls = 0;
    for _ in 0..50 {
        for &query in &queries {
            let transaction = user.start();
            user.define(query, transaction, Operation::Write(WriteKind::Write, ABORT));
            user.commit(transaction);
            user.connection.close(transaction).unwrap();
        }
        user.send();
        while user.connection.in_flight() > 0 {
            let (before, in_flight) = (user.connection.statistics().completed, user.connection.in_flight());
            user.connection.poll(Duration::from_secs(60)).unwrap();
            let completed = user.connection.statistics().completed - before;
            assert!(completed >= LEAST.min(in_flight as u64), "{completed} of {in_flight}");
            while let Some(completion) = user.connection.next_callback() {
                let Completed::Query(query) = completion.completed else {
                    panic!("no query: {completion:?}")
                };
                assert_eq!(user.error(query), 0);
                user.connection.callback_done(completion.completed);
            }
            user.connection.end_poll();
            polls += 1;
        }
    }
    let woken = user.connection.statistics().wakeups - woken;
    assert!(woken <= polls, "woken {woken} times for {polls} polls");
    drop(user);
    joined.disconnect();
}

node_test!(twenty_thousand_writes_leave_nothing_late);
fn twenty_thousand_writes_leave_nothing_late() {
    let table = TestTable::numbers("pipe_writes");
    let mut user = User::new();
    for round in 0..20u32 {
        user.done.clear();
        for key in 0..1000 {
            let transaction = user.start();
            let query = user.write(&table, transaction, (WriteKind::Write, ABORT), key, round * 1000 + key);
            user.commit(transaction);
            user.connection.close(transaction).unwrap();
            assert_eq!(user.done.len(), 0, "{query}");
        }
        user.run();
        let done = std::mem::take(&mut user.done);
        assert_eq!(done.len(), 1000);
        for query in done {
            assert_eq!(user.error(query), 0);
            user.free(query);
        }
    }
    assert!((0..1000).step_by(13).all(|key| user.look(&table, key) == Ok(19_000 + key)));
    let statistics = user.connection.statistics();
    assert_eq!((statistics.late_replies, statistics.failed), (0, 0));
}

node_test!(coordinator_records_are_used_again);
fn coordinator_records_are_used_again() {
    let table = TestTable::numbers("pipe_records");
    let mut user = User::new();
    for key in 0..2000 {
        let transaction = user.start_at(&table, 0);
        user.write(&table, transaction, (WriteKind::Write, ABORT), key % 10, key);
        assert_eq!(user.commit_and_end(transaction), (0, true));
    }
    // One confirmation each, and those of the few records seized at the start.
    let signals = user.connection.statistics().signals;
    assert!((2000..2100).contains(&signals), "{signals} signals for 2000 transactions one by one");
}
