//! One user thread: a connection, its queries, and the batches that it keeps in flight.
//!
//! Each round sends, polls once, and starts a batch when there is room for one. No operation allocates. The
//! clock is read once a round, after the poll: latency is from the end of the poll that an operation was
//! defined after to the end of the poll that completed it, so it holds the time that the round's other
//! definitions took.
//!
//! With a pace, batches start at fixed times, whether others are complete or not, and latency is from the
//! time that a batch was to start: if the nodes fall behind, what waits for its start waits in the measured
//! time too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use iclaustron::cluster::Cluster;
use iclaustron::conn::free_set::FreeSet;
use iclaustron::conn::multi_read::{self, Args, KeyState};
use iclaustron::conn::{Completed, Connection, Operation};
use iclaustron::error::{Error, is_temporary, ndb, own};
use iclaustron::wire::hash::LANES;
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
    /// Multi-key reads.
    MultiRead,
    /// One after every two updates of one row.
    MultiReadAfterWrites,
}

impl Mix {
    /// The kinds of slots it needs.
    fn kinds(self) -> &'static [Kind] {
        match self {
            Mix::MultiRead => &[Kind::MultiRead],
            Mix::MultiReadAfterWrites => &[Kind::Transaction, Kind::MultiRead],
            _ => &[Kind::Transaction],
        }
    }

    /// Operations or keys of a slot, when those of the load's transactions or multi-key reads are `size`.
    #[inline]
    fn size(self, kind: Kind, size: u32) -> u32 {
        match (self, kind) {
            (Mix::MultiReadAfterWrites, Kind::Transaction) => 1,
            _ => size,
        }
    }

    /// The kind of the slot that starts as number `turn`.
    #[inline]
    fn kind(self, turn: u64) -> Kind {
        match self {
            Mix::MultiRead => Kind::MultiRead,
            Mix::MultiReadAfterWrites if turn % 3 == 2 => Kind::MultiRead,
            _ => Kind::Transaction,
        }
    }

    /// How many operations, or keys, one completion stands for in the mean.
    #[inline]
    fn operations_of_a_completion(self, size: u32) -> u32 {
        match self {
            Mix::MultiRead => size,
            Mix::MultiReadAfterWrites => size.div_ceil(3),
            _ => 1,
        }
    }
}

/// What a worker keeps in flight. A key of a multi-key read counts as an operation.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Operations of a transaction, or keys of a multi-key read.
    pub size: u32,
    /// Operations that are sent at once, a multiple of `size`.
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

/// A transaction or a multi-key read in its slot.
#[derive(Debug)]
struct Slot {
    /// Its operations or keys, in `Worker::places`.
    first: u32,
    size: u32,
    kind: Kind,
    transaction: Option<u64>,
    /// Operations that are not complete.
    left: u32,
    /// It met a temporary error: the same keys once more.
    again: bool,
    /// When it started, or was to start.
    started: u64,
}

impl Slot {
    #[inline]
    fn places(&self) -> std::ops::Range<usize> {
        self.first as usize..(self.first + self.size) as usize
    }
}

/// What a slot is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Transaction,
    MultiRead,
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
    /// Slots without anything in flight, by kind, and how many operations may still start.
    free: [FreeSet; 2],
    room: u32,
    /// Slots started so far.
    turn: u64,
    /// When the next batch of an open loop starts.
    due: f64,
    /// How long the next poll may wait.
    wait: Duration,
    /// Slots to start in the next round.
    later: Vec<u32>,
    /// Slots that have their keys and start next, at most [`LANES`].
    chosen: Vec<u32>,
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
        let room = shape.batch * shape.depth;
        let (mut places, mut slots, mut free) = (Vec::new(), Vec::new(), <[FreeSet; 2]>::default());
        for &kind in mix.kinds() {
            let size = mix.size(kind, shape.size);
            for _ in 0..room / size {
                let (slot, first) = (slots.len() as u32, places.len() as u32);
                for at in first..first + size {
                    let (key, value) = (t9.key.clone(), Some(t9.value.clone()));
                    let query =
                        connection.create_query(t9.table.clone(), t9.standing.clone(), key, value, at);
                    places.push(Place { query: query.map_err(failed)?, slot, key: 0, operation: READ });
                }
                slots.push(Slot { first, size, kind, transaction: None, left: 0, again: false, started: 0 });
                free[kind as usize].insert(slot);
            }
        }
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
            later: Vec::with_capacity(slots.len()),
            slots,
            free,
            room,
            turn: 0,
            due: 0.0,
            wait: POLL,
            chosen: Vec::with_capacity(LANES),
            queries: Vec::with_capacity(shape.size as usize),
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
        self.due = self.manner.pace.map_or(0.0, |pace| pace.first);
        self.start_more()?;
        while !self.over || self.connection.in_flight() > 0 || !self.later.is_empty() {
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

    fn round(&mut self) -> Result<(), i32> {
        self.connection.send(self.manner.force);
        self.connection.set_poll_min(self.enough());
        // Without anything in flight nothing can come, and the poll lasts as long as it may.
        self.connection.poll(self.wait)?;
        self.tick();
        while let Some(completion) = self.connection.next_callback() {
            match completion.completed {
                Completed::Query(_) => self.complete(completion.token)?,
                Completed::MultiRead(read) => self.complete_multi_read(read, completion.token)?,
            }
            self.connection.callback_done(completion.completed);
        }
        self.record();
        // As callbacks would: what is in flight at the end of a poll takes its acknowledgements along.
        self.start_more()?;
        self.connection.end_poll();
        Ok(())
    }

    /// Starts what there is room, and time, for.
    fn start_more(&mut self) -> Result<(), i32> {
        if !self.later.is_empty() {
            self.start_later()?;
        }
        match self.manner.pace {
            Some(pace) => self.wait = self.start_due(pace)?,
            None => {
                while self.has_room() {
                    self.start_batch(self.now)?;
                }
            }
        }
        Ok(())
    }

    /// Completions worth to wait for: what makes room for a batch.
    #[inline]
    fn enough(&self) -> u32 {
        match self.manner {
            Manner { poll_min: Some(poll_min), .. } => poll_min,
            Manner { pace: Some(_), .. } => 1,
            // With smaller batches something starts with nearly every completion.
            _ if self.shape.batch < WORTH_WAITING || !self.later.is_empty() => 1,
            _ => {
                let missing = self.shape.batch.saturating_sub(self.room);
                (missing / self.mix.operations_of_a_completion(self.shape.size)).max(1)
            }
        }
    }

    #[inline]
    fn has_room(&self) -> bool {
        !self.over && self.room >= self.shape.batch
    }

    /// Starts the batches whose time has come. How long the next one has to wait.
    fn start_due(&mut self, pace: Pace) -> Result<Duration, i32> {
        while self.due <= self.now as f64 {
            if !self.has_room() {
                return Ok(POLL);
            }
            let started = self.due as u64;
            self.due += pace.between;
            self.start_batch(started)?;
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
        for (index, at) in self.slots[slot as usize].places().enumerate() {
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
            (false, false) => {
                self.room += transaction.size;
                self.free[transaction.kind as usize].insert(slot);
                Ok(())
            }
        }
    }

    /// Starts what is next, as much as a batch has room for.
    #[inline]
    fn start_batch(&mut self, started: u64) -> Result<(), i32> {
        let mut left = self.shape.batch;
        while !self.over {
            let kind = self.mix.kind(self.turn);
            let size = self.mix.size(kind, self.shape.size);
            if size > left {
                break;
            }
            let Some(slot) = self.free[kind as usize].take() else { break };
            left -= size;
            self.room -= size;
            self.turn += 1;
            self.slots[slot as usize].started = started;
            if !self.choose_keys(slot) {
                self.over = true;
                break;
            }
            self.chosen.push(slot);
            if self.chosen.len() == LANES {
                self.start_chosen()?;
            }
        }
        self.start_chosen()
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

    /// Gives a slot the next keys; false when there are no more.
    #[inline]
    fn choose_keys(&mut self, slot: u32) -> bool {
        let Slot { kind, .. } = self.slots[slot as usize];
        for at in self.slots[slot as usize].places() {
            let Some(key) = self.keys.next() else { return false };
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
                Mix::MultiReadAfterWrites if kind == Kind::MultiRead => READ,
                Mix::MultiReadAfterWrites => UPDATE,
            };
        }
        true
    }

    /// Starts the slots that have their keys; the hints of all are computed at once.
    #[inline]
    fn start_chosen(&mut self) -> Result<(), i32> {
        let (mut keys, mut hints) = ([[0; size_of::<u32>()]; LANES], [0; LANES]);
        let count = self.chosen.len();
        for (key, &slot) in keys.iter_mut().zip(&self.chosen) {
            *key = self.places[self.slots[slot as usize].first as usize].key.to_ne_bytes();
        }
        // A multi-key read finds the owners of its keys by itself.
        if self.mix != Mix::MultiRead {
            let (keys, hints) = (keys[..count].as_flattened(), &mut hints[..count]);
            self.connection.hints_for_keys(&self.t9.table, &self.t9.key, keys, hints)?;
        }
        for (at, hint) in hints.into_iter().enumerate().take(count) {
            self.start(self.chosen[at], hint)?;
        }
        self.chosen.clear();
        Ok(())
    }

    #[inline]
    fn start(&mut self, slot: u32, hint: u32) -> Result<(), i32> {
        match self.define(slot, hint) {
            Ok(()) => Ok(()),
            Err(code) if is_temporary(code) => self.start_again(slot, code),
            Err(code) => Err(code),
        }
    }

    #[inline]
    fn define(&mut self, slot: u32, hint: u32) -> Result<(), i32> {
        let Slot { kind, .. } = self.slots[slot as usize];
        let places = self.slots[slot as usize].places();
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
        if kind == Kind::MultiRead {
            return self.define_multi_read(slot);
        }
        let transaction = self.connection.start_transaction(hint, Some(&self.t9.table))?;
        let state = &mut self.slots[slot as usize];
        state.transaction = Some(transaction);
        state.again = false;
        for at in places {
            let place = &self.places[at];
            self.connection.define(place.query, transaction, place.operation, true, at as u32)?;
            state.left += 1;
        }
        self.connection.commit(transaction)
    }

    fn define_multi_read(&mut self, slot: u32) -> Result<(), i32> {
        self.queries.clear();
        let state = &mut self.slots[slot as usize];
        self.queries.extend(self.places[state.places()].iter().map(|place| place.query));
        state.again = false;
        let args = Args { kind: multi_read::Kind::Gather, limit: None, callback: true, token: slot };
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
        for slots in std::mem::take(&mut self.later).chunks(LANES) {
            self.chosen.extend_from_slice(slots);
            self.start_chosen()?;
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
