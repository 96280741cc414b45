//! One user thread: a connection, its queries, and the batches that it keeps in flight.
//!
//! Each round sends what is defined, polls once, and starts a batch anew when all of it has completed. No operation
//! allocates. The clock is read once a round, after the poll: latency is from the end of the poll that an operation
//! was defined after to the end of the poll that completed it, so it holds the time that the round's other
//! definitions took.
//!
//! With a pace, batches start at fixed times, whether others are complete or not, and latency is from the time that
//! a batch was to start: if the nodes fall behind, what waits for its start waits in the measured time too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use iclaustron::cluster::Cluster;
use iclaustron::conn::multi_read::{Args, KeyState, Kind};
use iclaustron::conn::{Completed, Connection, Operation};
use iclaustron::error::{Error, is_temporary, ndb, own};
use iclaustron::wire::transaction::{AbortOption, LockMode, WriteKind};

use crate::keys::{Keys, Random};
use crate::table::{self, T9};

/// How long a poll waits; then it looks whether the run is over.
const POLL: Duration = Duration::from_millis(100);
/// Operations of a batch from which on a poll waits for the end of one.
const WORTH_WAITING: u32 = 8;
/// The pause before what met a temporary error is tried again, if nothing else is in flight.
const PAUSE: Duration = Duration::from_millis(5);
/// How long to wait, at the end, for what is in flight.
const LAST_WAIT: Duration = Duration::from_secs(10);
/// The longest latency told apart, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;

/// What the threads of a run are told and tell.
#[derive(Debug, Default)]
pub struct Shared {
    phase: AtomicU8,
    /// Operations of all threads, for the progress line; each adds once a round.
    pub completed: AtomicU64,
    /// A thread has ended, by itself or because the run is over.
    pub ended: AtomicBool,
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Not measured yet.
    WarmUp = 0,
    /// In the measured window.
    Measured = 1,
    /// Over: what is in flight completes, nothing new starts.
    Over = 2,
}

impl Shared {
    /// Tells the threads.
    pub fn set(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::WarmUp,
            1 => Phase::Measured,
            _ => Phase::Over,
        }
    }
}

/// What the operations of a run do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    Read,
    Insert,
    Update,
    Write,
    Delete,
    ReadAndUpdate,
    /// Every slot is a multi-key read.
    MultiRead,
    /// So is every third; the others are updates of one row.
    MultiReadAfterWrites,
}

impl Mix {
    #[inline]
    fn is_multi_read(self, slot: u32) -> bool {
        match self {
            Mix::MultiRead => true,
            Mix::MultiReadAfterWrites => slot % 3 == 2,
            _ => false,
        }
    }
}

/// What a worker keeps in flight.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Operations of a transaction.
    pub size: u32,
    /// Operations of a batch, a multiple of `size`.
    pub batch: u32,
    /// Batches.
    pub depth: u32,
}

/// When the batches of an open loop start.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The first, and the time between two, in nanoseconds.
    pub first: f64,
    pub between: f64,
}

/// How a worker sends and polls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manner {
    /// Completions that each poll waits for; none for what the batch nearest to its end lacks.
    pub poll_min: Option<u32>,
    /// Sends are not held for company.
    pub force: bool,
    /// None: a batch follows on the one before.
    pub pace: Option<Pace>,
}

/// How operations ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// As they should.
    pub completed: u64,
    /// The row was not there.
    pub missing: u64,
    /// The row had a value that nobody wrote.
    pub wrong: u64,
    /// With a temporary error, and were tried again.
    pub temporary: u64,
    /// The first of those, or 0.
    pub first_temporary: i32,
    /// With another error.
    pub errors: u64,
    /// The first of those, or 0.
    pub first_error: i32,
}

impl Counts {
    fn will_retry(&mut self, code: i32) {
        self.temporary += 1;
        if self.first_temporary == 0 {
            self.first_temporary = code;
        }
    }

    fn failed(&mut self, code: i32) {
        self.errors += 1;
        if self.first_error == 0 {
            self.first_error = code;
        }
    }

    /// Both together.
    pub fn add(&mut self, other: &Counts) {
        self.completed += other.completed;
        self.missing += other.missing;
        self.wrong += other.wrong;
        self.temporary += other.temporary;
        self.errors += other.errors;
        for (mine, others) in
            [(&mut self.first_temporary, other.first_temporary), (&mut self.first_error, other.first_error)]
        {
            if *mine == 0 {
                *mine = others;
            }
        }
    }
}

/// What a thread has done up to a moment, or between two.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    /// Operations completed without an error.
    pub operations: u64,
    /// Times the thread was woken in a poll.
    pub wakeups: u64,
}

impl Totals {
    fn since(self, earlier: Totals) -> Totals {
        Totals { operations: self.operations - earlier.operations, wakeups: self.wakeups - earlier.wakeups }
    }
}

/// What a thread tells when it is done.
#[derive(Debug)]
pub struct Outcome {
    /// Of the whole run.
    pub counts: Counts,
    /// Of the measured window.
    pub measured: Totals,
    /// Of the measured window, in nanoseconds.
    pub latencies: Histogram<u64>,
}

/// An operation in its place: a query, used again and again.
#[derive(Debug)]
struct Place {
    query: u64,
    slot: u32,
    key: u32,
    operation: Operation,
}

/// A transaction in its slot.
#[derive(Debug, Default)]
struct Slot {
    transaction: Option<u64>,
    /// Operations that are not complete.
    left: u32,
    /// It met a temporary error: the same keys once more.
    again: bool,
    started: u64,
}

/// Transactions that start together.
#[derive(Debug, Default)]
struct Batch {
    /// Transactions that are not complete.
    left: u32,
    /// When it started, or was to start.
    started: u64,
}

/// A user thread.
#[derive(Debug)]
pub struct Worker {
    connection: Connection<u32>,
    t9: T9,
    keys: Keys,
    mix: Mix,
    random: Random,
    shape: Shape,
    manner: Manner,
    places: Vec<Place>,
    slots: Vec<Slot>,
    batches: Vec<Batch>,
    /// Of an open loop: batches that wait for their time, and when the next one starts.
    free: Vec<u32>,
    due: f64,
    /// Slots to start in the next round.
    later: Vec<u32>,
    /// The queries of one multi-key read.
    queries: Vec<u64>,
    /// No more keys, or no more time.
    over: bool,
    counts: Counts,
    clock: Instant,
    now: u64,
    latencies: Histogram<u64>,
    /// Operations not recorded yet that were started at the same time and completed by the same poll.
    alike: (u64, u64),
}

impl Worker {
    /// A thread's connection, and its queries.
    pub fn new(cluster: &Arc<Cluster>, t9: &T9, keys: Keys, mix: Mix, shape: Shape) -> Result<Worker, Error> {
        let failed = |code| Error::new(code, "making a connection and its queries");
        let mut connection = Connection::new(cluster.clone()).map_err(failed)?;
        let Shape { size, batch, depth } = shape;
        let mut places = Vec::new();
        for at in 0..batch * depth {
            let (key, value) = (t9.key.clone(), Some(t9.value.clone()));
            let query = connection.create_query(t9.table.clone(), t9.standing.clone(), key, value, at);
            let operation = Operation::Read(LockMode::Committed);
            places.push(Place { query: query.map_err(failed)?, slot: at / size, key: 0, operation });
        }
        let slots = batch * depth / size;
        let latencies = Histogram::new_with_bounds(1, LONGEST, 3);
        let latencies = latencies.map_err(|error| Error::new(own::INTERNAL, error.to_string()))?;
        Ok(Worker {
            random: Random::new(connection.cluster().own_node as u64),
            connection,
            t9: t9.clone(),
            keys,
            mix,
            shape,
            manner: Manner::default(),
            places,
            slots: (0..slots).map(|_| Slot::default()).collect(),
            batches: (0..depth).map(|_| Batch::default()).collect(),
            free: Vec::with_capacity(depth as usize),
            due: 0.0,
            later: Vec::with_capacity(slots as usize),
            queries: Vec::with_capacity(size as usize),
            over: false,
            counts: Counts::default(),
            clock: Instant::now(),
            now: 0,
            latencies,
            alike: (0, 0),
        })
    }

    /// How it sends and polls from now on.
    pub fn behave(&mut self, manner: Manner) {
        self.manner = manner;
    }

    /// Runs until there are no more keys, or the run is over. Fails with a code only when the connection is of
    /// no use.
    pub fn run(&mut self, shared: &Shared) -> Result<Outcome, i32> {
        // A thread that starts when all is over has still to be told.
        let mut phase = if shared.phase() == Phase::Measured { Phase::Measured } else { Phase::WarmUp };
        let mut begin = Totals::default();
        let mut end = None;
        self.clock = Instant::now();
        self.tick();
        match self.manner.pace {
            Some(pace) => {
                self.due = pace.first;
                self.free.extend(0..self.shape.depth);
            }
            None => (0..self.shape.depth).try_for_each(|batch| self.start_batch(batch, self.now))?,
        }
        while self.connection.in_flight() > 0 || !self.later.is_empty() || self.is_paced() {
            let before = self.counts.completed;
            self.round()?;
            shared.completed.fetch_add(self.counts.completed - before, Ordering::Relaxed);
            let told = shared.phase();
            if told == phase {
                continue;
            }
            phase = told;
            match phase {
                Phase::WarmUp => {}
                Phase::Measured => {
                    begin = self.totals();
                    self.latencies.reset();
                }
                Phase::Over => {
                    end = Some((self.totals(), self.latencies.clone()));
                    self.finish()?;
                }
            }
        }
        self.connection.finish(Duration::from_secs(1));
        let (end, latencies) = end.unwrap_or_else(|| (self.totals(), self.latencies.clone()));
        Ok(Outcome { counts: self.counts, measured: end.since(begin), latencies })
    }

    fn totals(&self) -> Totals {
        Totals { operations: self.counts.completed, wakeups: self.connection.statistics().wakeups }
    }

    /// Whether batches will start by themselves.
    fn is_paced(&self) -> bool {
        self.manner.pace.is_some() && !self.over
    }

    fn round(&mut self) -> Result<(), i32> {
        if !self.later.is_empty() {
            self.start_later()?;
        }
        let wait = match self.manner.pace {
            Some(pace) if !self.over => self.start_due(pace)?,
            _ => POLL,
        };
        self.connection.send(self.manner.force);
        self.connection.set_poll_min(self.enough());
        // Without anything in flight nothing can come, and the poll lasts as long as it may.
        self.connection.poll(wait)?;
        self.tick();
        while let Some(completion) = self.connection.next_callback() {
            match completion.completed {
                Completed::Query(_) => self.complete(completion.token)?,
                Completed::MultiRead(read) => self.complete_multi_read(read, completion.token)?,
            }
            self.connection.callback_done(completion.completed);
        }
        self.record();
        self.connection.end_poll();
        Ok(())
    }

    /// Completions worth to wait for.
    #[inline]
    fn enough(&self) -> u32 {
        match self.manner {
            Manner { poll_min: Some(poll_min), .. } => poll_min,
            Manner { pace: Some(_), .. } => 1,
            // With smaller batches something starts with nearly every completion.
            _ if self.shape.batch < WORTH_WAITING || !self.later.is_empty() => 1,
            _ => {
                let left = self.batches.iter().map(|batch| batch.left).filter(|&left| left > 0);
                let size = if self.mix == Mix::MultiReadAfterWrites { 1 } else { self.shape.size };
                left.min().unwrap_or(0) * size
            }
        }
    }

    /// Starts the batches whose time has come. How long the next one has to wait.
    fn start_due(&mut self, pace: Pace) -> Result<Duration, i32> {
        while self.due <= self.now as f64 {
            let Some(batch) = self.free.pop() else { return Ok(POLL) };
            let started = self.due as u64;
            self.due += pace.between;
            self.start_batch(batch, started)?;
        }
        Ok(POLL.min(Duration::from_nanos(self.due as u64 - self.now)))
    }

    /// Lets what is in flight complete; what does not in time is an error.
    fn finish(&mut self) -> Result<(), i32> {
        self.over = true;
        self.later.clear();
        let limit = Instant::now() + LAST_WAIT;
        while self.connection.in_flight() > 0 && Instant::now() < limit {
            self.round()?;
        }
        for _ in 0..self.connection.in_flight() {
            self.counts.failed(own::STILL_IN_FLIGHT);
        }
        Ok(())
    }

    #[inline]
    fn tick(&mut self) {
        self.now = self.clock.elapsed().as_nanos() as u64;
    }

    /// An operation is complete.
    #[inline]
    fn complete(&mut self, at: u32) -> Result<(), i32> {
        let place = &self.places[at as usize];
        let error = self.connection.query_error(place.query)?;
        let slot = place.slot;
        let transaction = &mut self.slots[slot as usize];
        transaction.left -= 1;
        if error == 0 {
            if transaction.started != self.alike.0 {
                self.record();
            }
            self.alike = (self.slots[slot as usize].started, self.alike.1 + 1);
            self.check(at)?;
        } else {
            self.failed(slot, error);
        }
        self.answered(slot)
    }

    /// The multi-key read of a slot is complete.
    #[inline]
    fn complete_multi_read(&mut self, read: u64, slot: u32) -> Result<(), i32> {
        self.slots[slot as usize].left -= 1;
        for (index, at) in self.places_of(slot).enumerate() {
            match self.connection.multi_read_key(read, index)? {
                KeyState::Found => self.check(at as u32)?,
                KeyState::Missing => self.failed(slot, ndb::NO_SUCH_ROW),
                KeyState::Failed(error) => self.failed(slot, error),
                KeyState::Pending => return Err(own::INTERNAL),
            }
        }
        if self.slots[slot as usize].started != self.alike.0 {
            self.record();
        }
        self.alike = (self.slots[slot as usize].started, self.alike.1 + 1);
        self.answered(slot)
    }

    /// An operation of a slot is complete; when all are, it starts anew.
    #[inline]
    fn answered(&mut self, slot: u32) -> Result<(), i32> {
        let transaction = &mut self.slots[slot as usize];
        if transaction.left > 0 {
            return Ok(());
        }
        if let Some(transaction) = transaction.transaction.take() {
            self.connection.close(transaction)?;
        }
        match (self.over, transaction.again) {
            (true, _) => Ok(()),
            (false, true) => {
                self.later.push(slot);
                Ok(())
            }
            (false, false) => self.finished(slot),
        }
    }

    /// A transaction is complete; when all of its batch are, the next follows.
    #[inline]
    fn finished(&mut self, slot: u32) -> Result<(), i32> {
        let at = slot / (self.shape.batch / self.shape.size);
        let batch = &mut self.batches[at as usize];
        batch.left -= 1;
        match (batch.left, self.manner.pace) {
            (0, None) => self.start_batch(at, self.now),
            (0, Some(_)) => {
                self.free.push(at);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Starts the transactions of a batch on the next keys.
    #[inline]
    fn start_batch(&mut self, at: u32, started: u64) -> Result<(), i32> {
        let count = self.shape.batch / self.shape.size;
        self.batches[at as usize] = Batch { left: count, started };
        (at * count..(at + 1) * count).try_for_each(|slot| self.start_anew(slot))
    }

    #[inline]
    fn check(&mut self, at: u32) -> Result<(), i32> {
        let place = &self.places[at as usize];
        self.counts.completed += 1;
        if matches!(place.operation, Operation::Read(_)) {
            let (_, value) = self.connection.rows(place.query)?;
            if !table::holds_value_of(place.key, value.bytes()) {
                self.counts.completed -= 1;
                self.counts.wrong += 1;
            }
        }
        Ok(())
    }

    #[cold]
    fn failed(&mut self, slot: u32, error: i32) {
        let transaction = &mut self.slots[slot as usize];
        match error {
            ndb::NO_SUCH_ROW => self.counts.missing += 1,
            // Its transaction could not be defined to its end, and was counted then.
            ndb::ROLLED_BACK if transaction.again => {}
            _ if is_temporary(error) => {
                self.counts.will_retry(error);
                transaction.again = true;
            }
            _ => self.counts.failed(error),
        }
    }

    /// Records the latency of operations that are alike.
    fn record(&mut self) {
        let (started, count) = std::mem::take(&mut self.alike);
        if count > 0 {
            self.latencies.saturating_record_n(self.now - started, count);
        }
    }

    /// Starts a transaction on the next keys; none when there are no more.
    #[inline]
    fn start_anew(&mut self, slot: u32) -> Result<(), i32> {
        for at in self.places_of(slot) {
            let Some(key) = self.keys.next() else {
                self.over = true;
                return Ok(());
            };
            let place = &mut self.places[at];
            place.key = key;
            place.operation = match self.mix {
                Mix::Read => READ,
                Mix::Insert => INSERT,
                Mix::Update => UPDATE,
                Mix::Write => WRITE,
                Mix::Delete => DELETE,
                Mix::ReadAndUpdate if self.random.next() & 1 == 0 => READ,
                Mix::ReadAndUpdate => UPDATE,
                Mix::MultiRead => READ,
                Mix::MultiReadAfterWrites if self.mix.is_multi_read(slot) => READ,
                Mix::MultiReadAfterWrites => UPDATE,
            };
        }
        self.start(slot)
    }

    #[inline]
    fn start(&mut self, slot: u32) -> Result<(), i32> {
        match self.define(slot) {
            Ok(()) => Ok(()),
            Err(code) if is_temporary(code) => self.start_again(slot, code),
            Err(code) => Err(code),
        }
    }

    fn places_of(&self, slot: u32) -> std::ops::Range<usize> {
        let first = (slot * self.shape.size) as usize;
        let alone = self.mix == Mix::MultiReadAfterWrites && !self.mix.is_multi_read(slot);
        first..first + if alone { 1 } else { self.shape.size as usize }
    }

    #[inline]
    fn define(&mut self, slot: u32) -> Result<(), i32> {
        let places = self.places_of(slot);
        let generation = self.now as u8;
        for place in &self.places[places.clone()] {
            let (key, value) = self.connection.rows(place.query)?;
            key.bytes_mut().copy_from_slice(&place.key.to_ne_bytes());
            let new = match place.operation {
                // So that a read which brings nothing is noticed.
                Operation::Read(_) | Operation::Exists => table::no_value_of(place.key),
                Operation::Write(..) => table::value(place.key, generation),
            };
            table::put(new, value.bytes_mut());
        }
        if self.mix.is_multi_read(slot) {
            return self.define_multi_read(slot);
        }
        let hint = self.connection.hint_for_query(self.places[places.start].query)?;
        let transaction = self.connection.start_transaction(hint, Some(&self.t9.table))?;
        let state = &mut self.slots[slot as usize];
        state.transaction = Some(transaction);
        state.again = false;
        state.started = self.batches[(slot / (self.shape.batch / self.shape.size)) as usize].started;
        for at in places {
            let place = &self.places[at];
            self.connection.define(place.query, transaction, place.operation, true, at as u32)?;
            state.left += 1;
        }
        self.connection.commit(transaction)
    }

    fn define_multi_read(&mut self, slot: u32) -> Result<(), i32> {
        self.queries.clear();
        self.queries.extend(self.places[self.places_of(slot)].iter().map(|place| place.query));
        let state = &mut self.slots[slot as usize];
        state.again = false;
        state.started = self.batches[(slot / (self.shape.batch / self.shape.size)) as usize].started;
        let args = Args { kind: Kind::Gather, limit: None, callback: true, token: slot };
        self.connection.multi_read(&self.queries, args)?;
        state.left = 1;
        Ok(())
    }

    /// A transaction could not be defined to its end.
    #[cold]
    fn start_again(&mut self, slot: u32, code: i32) -> Result<(), i32> {
        self.counts.will_retry(code);
        let state = &mut self.slots[slot as usize];
        state.again = true;
        if let Some(transaction) = state.transaction.take() {
            self.connection.close(transaction)?;
        }
        if state.left == 0 {
            self.later.push(slot);
        }
        Ok(())
    }

    #[cold]
    fn start_later(&mut self) -> Result<(), i32> {
        if self.connection.in_flight() == 0 {
            std::thread::sleep(PAUSE);
        }
        for slot in std::mem::take(&mut self.later) {
            self.start(slot)?;
        }
        Ok(())
    }
}

const READ: Operation = Operation::Read(LockMode::Committed);
const INSERT: Operation = Operation::Write(WriteKind::Insert, AbortOption::AbortOnError);
const DELETE: Operation = Operation::Write(WriteKind::Delete, AbortOption::AbortOnError);
const UPDATE: Operation = Operation::Write(WriteKind::Update, AbortOption::AbortOnError);
const WRITE: Operation = Operation::Write(WriteKind::Write, AbortOption::AbortOnError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_kept() {
        let mut all = Counts::default();
        let mut one = Counts { completed: 5, ..Counts::default() };
        one.failed(4012);
        one.failed(233);
        all.add(&Counts { missing: 1, temporary: 2, ..Counts::default() });
        all.add(&one);
        let Counts { completed, missing, wrong, temporary, errors, .. } = all;
        assert_eq!((completed, missing, wrong, temporary, errors), (5, 1, 0, 2, 2));
        assert_eq!((all.first_error, all.first_temporary), (4012, 0));
    }
}
