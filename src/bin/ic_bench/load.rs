//! One user thread: a connection, its queries, and the pipeline that keeps them in flight.
//!
//! Each round sends what is defined, polls once, and starts a transaction anew as soon as it has completed. No
//! operation allocates. The clock is read once a round, after the poll: latency is from the end of the poll that
//! an operation was defined after to the end of the poll that completed it, so it holds the time that the
//! round's other definitions took.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use iclaustron::cluster::Cluster;
use iclaustron::conn::{Connection, Operation};
use iclaustron::error::{Error, is_temporary, ndb, own};
use iclaustron::wire::transaction::{AbortOption, LockMode, WriteKind};

use crate::table::{self, T9};

/// How long a poll waits; then it looks whether the run is over.
const POLL: Duration = Duration::from_millis(100);
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
    Update,
    Write,
    ReadAndUpdate,
}

/// Where keys come from.
#[derive(Debug)]
pub enum Keys {
    Uniform { rows: u32, random: Random },
    Sequential { rows: u32, next: u32 },
    One,
    Once(std::ops::Range<u32>),
}

impl Keys {
    /// Each row once.
    pub fn once(rows: u32) -> Keys {
        Keys::Once(0..rows)
    }

    #[inline]
    fn next(&mut self) -> Option<u32> {
        match self {
            Keys::Uniform { rows, random } => Some(random.below(*rows)),
            Keys::Sequential { rows, next } => {
                let key = *next;
                *next = if key + 1 < *rows { key + 1 } else { 0 };
                Some(key)
            }
            Keys::One => Some(0),
            Keys::Once(range) => range.next(),
        }
    }
}

/// A small generator of numbers that are random enough for a load (SplitMix64).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0xd134_2543_de82_ef95))
    }

    #[inline]
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 32) as u32
    }

    #[inline]
    fn below(&mut self, limit: u32) -> u32 {
        ((self.next() as u64 * limit as u64) >> 32) as u32
    }
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

/// A user thread.
#[derive(Debug)]
pub struct Worker {
    connection: Connection<u32>,
    t9: T9,
    keys: Keys,
    mix: Mix,
    random: Random,
    size: u32,
    places: Vec<Place>,
    slots: Vec<Slot>,
    /// Slots to start in the next round.
    later: Vec<u32>,
    /// No more keys, or no more time.
    over: bool,
    force: bool,
    counts: Counts,
    clock: Instant,
    now: u64,
    latencies: Histogram<u64>,
    /// Operations not recorded yet that were started at the same time and completed by the same poll.
    alike: (u64, u64),
}

impl Worker {
    /// From now on each poll waits for so many completions, and sends are forced or not.
    pub fn tune(&mut self, poll_min: u32, force: bool) {
        self.connection.set_poll_min(poll_min);
        self.force = force;
    }

    /// A thread's connection with `in_flight` queries, `size` to a transaction.
    pub fn new(
        cluster: &Arc<Cluster>,
        t9: &T9,
        keys: Keys,
        mix: Mix,
        in_flight: u32,
        size: u32,
    ) -> Result<Worker, Error> {
        let failed = |code| Error::new(code, "making a connection and its queries");
        let mut connection = Connection::new(cluster.clone()).map_err(failed)?;
        let mut places = Vec::new();
        for at in 0..in_flight {
            let (key, value) = (t9.key.clone(), Some(t9.value.clone()));
            let query = connection.create_query(t9.table.clone(), t9.standing.clone(), key, value, at);
            let operation = Operation::Read(LockMode::Committed);
            places.push(Place { query: query.map_err(failed)?, slot: at / size, key: 0, operation });
        }
        let slots = in_flight / size;
        let latencies = Histogram::new_with_bounds(1, LONGEST, 3);
        let latencies = latencies.map_err(|error| Error::new(own::INTERNAL, error.to_string()))?;
        Ok(Worker {
            random: Random::new(connection.cluster().own_node as u64),
            connection,
            t9: t9.clone(),
            keys,
            mix,
            size,
            places,
            slots: (0..slots).map(|_| Slot::default()).collect(),
            later: Vec::with_capacity(slots as usize),
            over: false,
            force: false,
            counts: Counts::default(),
            clock: Instant::now(),
            now: 0,
            latencies,
            alike: (0, 0),
        })
    }

    /// Runs until there are no more keys, or the run is over. Fails with a code only when the connection is of
    /// no use.
    pub fn run(&mut self, shared: &Shared) -> Result<Outcome, i32> {
        let mut phase = Phase::WarmUp;
        let mut begin = Totals::default();
        let mut end = None;
        self.tick();
        for slot in 0..self.slots.len() as u32 {
            self.start_anew(slot)?;
        }
        while self.connection.in_flight() > 0 || !self.later.is_empty() {
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
        if !self.later.is_empty() {
            self.start_later()?;
        }
        self.connection.send(self.force);
        self.connection.poll(POLL)?;
        self.tick();
        while let Some(completion) = self.connection.next_callback() {
            self.complete(completion.token)?;
            self.connection.callback_done(completion.completed);
        }
        self.record();
        self.connection.end_poll();
        Ok(())
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
            (false, false) => self.start_anew(slot),
        }
    }

    #[inline]
    fn check(&mut self, at: u32) -> Result<(), i32> {
        let place = &self.places[at as usize];
        self.counts.completed += 1;
        if matches!(place.operation, Operation::Read(_)) {
            let (_, value) = self.connection.rows(place.query)?;
            if !word(value.bytes()).is_some_and(|value| table::is_value_of(place.key, value)) {
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
                Mix::Update => UPDATE,
                Mix::Write => WRITE,
                Mix::ReadAndUpdate if self.random.next() & 1 == 0 => READ,
                Mix::ReadAndUpdate => UPDATE,
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
        let first = (slot * self.size) as usize;
        first..first + self.size as usize
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
            value.bytes_mut().copy_from_slice(&new.to_ne_bytes());
        }
        let hint = self.connection.hint_for_query(self.places[places.start].query)?;
        let transaction = self.connection.start_transaction(hint, Some(&self.t9.table))?;
        let state = &mut self.slots[slot as usize];
        state.transaction = Some(transaction);
        state.again = false;
        state.started = self.now;
        for at in places {
            let place = &self.places[at];
            self.connection.define(place.query, transaction, place.operation, true, at as u32)?;
            state.left += 1;
        }
        self.connection.commit(transaction)
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
const UPDATE: Operation = Operation::Write(WriteKind::Update, AbortOption::AbortOnError);
const WRITE: Operation = Operation::Write(WriteKind::Write, AbortOption::AbortOnError);

#[inline]
fn word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_within_the_rows() {
        let mut uniform = Keys::Uniform { rows: 3, random: Random::new(1) };
        let mut seen = [0; 3];
        (0..300).for_each(|_| seen[uniform.next().unwrap() as usize] += 1);
        assert!(seen.iter().all(|&count| count > 50), "{seen:?}");
        let mut sequential = Keys::Sequential { rows: 3, next: 1 };
        let keys: Vec<_> = (0..5).map(|_| sequential.next().unwrap()).collect();
        assert_eq!(keys, [1, 2, 0, 1, 2]);
        let mut once = Keys::once(2);
        assert_eq!([once.next(), once.next(), once.next()], [Some(0), Some(1), None]);
        assert_eq!(Keys::One.next(), Some(0));
    }

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
