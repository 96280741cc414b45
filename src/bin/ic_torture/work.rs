//! A user thread: transactions through the C functions, many in flight, each with a marker row of its own key.
//!
//! Every transaction writes its marker; a transfer also moves an amount between two accounts, which it reads
//! with locks first. So whether it was committed can be told later from the marker alone, whatever the client
//! was told. Half of the completions come by callback, which goes on with the next step at once, half on the
//! executed list.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iclaustron::capi::args::*;
use iclaustron::capi::connection::ApidConnection;
use iclaustron::error::{is_temporary, is_unknown_result, message, ndb, own};

use crate::abi::{Connection, Global, State, Table, Way};
use crate::schedule::{Random, mix};

/// Accounts have the ids below this, markers the ids from 2^32 on.
pub const ACCOUNTS: u64 = 256;
/// What each account has at first.
pub const BALANCE: u64 = 1 << 40;
/// Transactions that a thread has in flight.
const SLOTS: usize = 12;
/// How long all may take to complete once nothing goes wrong any more.
const DRAIN: Duration = Duration::from_secs(40);
/// So much later than its deadline an operation may complete: it is sent after it is defined, and polls take
/// turns with other work on a busy machine.
const LATE: Duration = Duration::from_millis(1500);
/// Freeing a connection waits so long for final replies, as the header says, and calls back after that.
const FREE_WAIT: Duration = Duration::from_secs(2);
/// It takes no longer than this: the machine may be busy.
const FREE_LIMIT: Duration = Duration::from_secs(10);

/// The value of the row of a marker.
pub fn value_of(id: u64) -> u64 {
    mix(id)
}

/// What a client was told about a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    /// Not committed, with an error, or 0 if it was rolled back as wished.
    Refused(i32),
    /// Nobody knows; the code says why.
    Unknown(i32),
}

/// A transaction that is over.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    /// The marker's id.
    pub id: u64,
    /// From which account to which, and how much.
    pub transfer: Option<(u64, u64, u64)>,
    pub outcome: Outcome,
    /// Since the start of the run, in milliseconds.
    pub ended_ms: u32,
    /// The errors of its operations.
    pub errors: [i32; 3],
    /// It was not to be committed.
    pub doomed: bool,
    /// Its connection was freed before its end.
    pub freed: bool,
}

impl std::fmt::Display for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Done { id, transfer, outcome, ended_ms, errors, doomed, freed } = self;
        let at = f64::from(*ended_ms) / 1000.0;
        write!(f, "marker {id:#x}, transfer {transfer:?}, {outcome:?} at {at:.3} s, ")?;
        write!(f, "errors {errors:?}, doomed {doomed}, freed in flight {freed}")
    }
}

/// What a thread has to tell.
#[derive(Debug, Default)]
pub struct Told {
    pub done: Vec<Done>,
    pub operations: u64,
    pub reads: u64,
    pub freed_in_flight: u64,
    pub reopened: u64,
    pub errors: BTreeMap<i32, u64>,
    pub violations: Vec<String>,
    /// The longest time from a definition to its completion, and what it was.
    pub longest: (Duration, String),
}

/// What all threads are told.
pub struct Orders<'a> {
    pub table: &'a CStr,
    pub seed: u64,
    pub rate: u64,
    pub began: Instant,
    pub stop: &'a AtomicBool,
    /// No operation may take longer than this, from its send.
    pub deadline_ms: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    /// The reads of a transfer are out.
    Reading,
    /// The last operations are out, with the commit.
    Committing,
    /// A marker's insert is out, without a commit.
    Executing,
    /// Nothing but the transaction's outcome is out.
    Ending,
    /// A marker that was acknowledged is read.
    Looking,
}

struct Slot {
    queries: [u64; 3],
    pending: [bool; 3],
    errors: [i32; 3],
    phase: Phase,
    trans: u64,
    id: u64,
    transfer: Option<(u64, u64, u64)>,
    callback: bool,
    /// It shall not be committed.
    doomed: bool,
    since: Instant,
}

/// A thread's state. It is borrowed neither during polls nor while the connection is freed: callbacks borrow
/// it.
pub struct Worker<'a> {
    orders: &'a Orders<'a>,
    global: &'a Global,
    number: u64,
    conn: Connection,
    table: Option<Table<'a>>,
    slots: Vec<Slot>,
    by_query: HashMap<u64, (usize, usize)>,
    random: Random,
    next_id: u64,
    started: u64,
    /// Committed markers that can be looked at.
    committed: Vec<u64>,
    /// No new transactions: the table must be opened again, or the connection freed, or the end is near.
    pausing: bool,
    must_reopen: bool,
    freeing: bool,
    /// The connection was freed and must not be asked any more.
    gone: bool,
    me: *const RefCell<Worker<'a>>,
    told: Told,
}

extern "C" fn on_complete(_conn: *mut ApidConnection, query: u64, user_ref: *mut c_void) {
    // SAFETY: what a definition gave is the worker's own cell, which outlives its connection; the cell is
    // used by this thread alone.
    let cell = unsafe { &*user_ref.cast::<RefCell<Worker<'_>>>() };
    cell.borrow_mut().completed(query);
}

/// Works until told to stop; then everything must come to its end.
pub fn work(global: &Global, number: u64, orders: &Orders<'_>) -> Told {
    let conn = match Connection::new(global) {
        Ok(conn) => conn,
        Err(code) => {
            return Told { violations: vec![format!("no connection: {code}")], ..Told::default() };
        }
    };
    let cell = Box::new(RefCell::new(Worker {
        orders,
        global,
        number,
        conn,
        table: None,
        slots: Vec::new(),
        by_query: HashMap::new(),
        random: Random(mix(orders.seed) ^ mix(number + 1)),
        next_id: (number + 1) << 32,
        started: 0,
        committed: Vec::new(),
        pausing: false,
        must_reopen: true,
        freeing: false,
        gone: false,
        me: std::ptr::null(),
        told: Told::default(),
    }));
    cell.borrow_mut().me = &raw const *cell;
    run(&cell);
    (*cell).into_inner().told
}

fn run(cell: &RefCell<Worker<'_>>) {
    let mut end: Option<Instant> = None;
    loop {
        let (conn, force) = {
            let mut worker = cell.borrow_mut();
            if end.is_none() && worker.orders.stop.load(Ordering::Relaxed) {
                worker.pausing = true;
                end = Some(Instant::now() + DRAIN);
            }
            worker.look_at_endings();
            if worker.slots.iter().all(|slot| slot.phase == Phase::Idle) {
                if end.is_some() {
                    break;
                }
                if worker.must_reopen {
                    worker.reopen();
                }
            }
            if end.is_some_and(|end| Instant::now() > end) {
                worker.report_stuck();
                break;
            }
            worker.start_some();
            (worker.conn, worker.random.below(2) == 0)
        };
        let sent = conn.send(force);
        let wait = if cell.borrow_mut().random.below(8) == 0 { 0 } else { 5 };
        let polled = conn.poll(wait);
        let mut worker = cell.borrow_mut();
        for code in [sent, polled].into_iter().filter_map(Result::err) {
            worker.violation(format!("a send or poll gave {code}"));
        }
        while let Some(query) = worker.conn.next_executed() {
            worker.completed(query);
        }
        // Now and then a connection is freed with all that it has in flight.
        if end.is_none() && worker.random.below(4000) == 0 {
            drop(worker);
            free(cell);
            cell.borrow_mut().connect_again();
        }
    }
    free(cell);
}

/// Frees the connection. What completes by callback must complete; what does not is nobody's knowledge.
fn free(cell: &RefCell<Worker<'_>>) {
    let conn = {
        let mut worker = cell.borrow_mut();
        worker.freeing = true;
        worker.told.freed_in_flight += worker.conn.in_flight();
        worker.conn
    };
    let began = Instant::now();
    let freed = conn.free();
    let mut worker = cell.borrow_mut();
    worker.gone = true;
    if let Err(code) = freed {
        worker.violation(format!("freeing the connection gave {code}"));
    }
    if began.elapsed() > FREE_LIMIT {
        worker.violation(format!("freeing the connection took {:?}", began.elapsed()));
    }
    for at in 0..worker.slots.len() {
        let slot = &worker.slots[at];
        if slot.callback && slot.pending.contains(&true) {
            let text = format!("the connection was freed, and {} has not completed", worker.name(at));
            worker.violation(text);
        }
        let slot = &worker.slots[at];
        if !matches!(slot.phase, Phase::Idle | Phase::Looking) {
            // No commit was asked for in these.
            let harmless = slot.doomed || matches!(slot.phase, Phase::Reading | Phase::Executing);
            let outcome = if harmless { Outcome::Refused(0) } else { Outcome::Unknown(0) };
            worker.record(at, outcome);
        }
        worker.slots[at].phase = Phase::Idle;
    }
    worker.slots.clear();
    worker.by_query.clear();
    worker.table = None;
    worker.freeing = false;
}

impl<'a> Worker<'a> {
    fn violation(&mut self, text: String) {
        let at = self.orders.began.elapsed().as_secs_f64();
        self.told.violations.push(format!("at {at:.3} s, thread {}: {text}", self.number));
    }

    fn name(&self, at: usize) -> String {
        let Slot { id, phase, transfer, errors, pending, callback, trans, doomed, .. } = &self.slots[at];
        let outcome = (!self.gone).then(|| self.conn.outcome(*trans));
        format!(
            "marker {id:#x} ({phase:?}, transfer {transfer:?}, pending {pending:?}, errors {errors:?}, callback \
             {callback}, doomed {doomed}, transaction {outcome:?})"
        )
    }

    fn connect_again(&mut self) {
        match Connection::new(self.global) {
            Ok(conn) => (self.conn, self.gone) = (conn, false),
            Err(code) => self.violation(format!("no new connection: {code}")),
        }
        self.must_reopen = true;
        self.pausing = true;
    }

    /// Opens the table and makes the queries; later again if that fails now.
    fn reopen(&mut self) {
        if let Err(code) = self.conn.set_deadline(self.orders.deadline_ms) {
            self.violation(format!("setting the deadline gave {code}"));
        }
        for query in std::mem::take(&mut self.by_query).into_keys() {
            if let Err(code) = self.conn.free_query(query) {
                self.violation(format!("freeing an idle query gave {code}"));
            }
        }
        self.slots.clear();
        self.table = None;
        match Table::open(self.global, self.orders.table) {
            Ok(table) => {
                self.table = Some(table);
                self.told.reopened += 1;
            }
            Err(code) => return self.count(code),
        }
        for _ in 0..SLOTS {
            let mut queries = [0; 3];
            for (at, query) in queries.iter_mut().enumerate() {
                let Some(table) = &self.table else { return };
                match self.conn.create_query(table) {
                    Ok(made) => *query = made,
                    Err(code) => return self.violation(format!("making a query gave {code}")),
                }
                self.by_query.insert(*query, (self.slots.len(), at));
            }
            self.slots.push(Slot {
                queries,
                pending: [false; 3],
                errors: [0; 3],
                phase: Phase::Idle,
                trans: 0,
                id: 0,
                transfer: None,
                callback: false,
                doomed: false,
                since: Instant::now(),
            });
        }
        self.must_reopen = false;
        self.pausing = false;
    }

    fn start_some(&mut self) {
        let due = self.orders.began.elapsed().as_millis() as u64 * self.orders.rate / 1000;
        // What an outage has kept back is not made up for.
        self.started = self.started.max(due.saturating_sub(self.orders.rate));
        for at in 0..self.slots.len() {
            if !self.pausing && self.started < due && self.slots[at].phase == Phase::Idle {
                self.start(at);
            }
        }
    }

    fn way(&self, at: usize) -> Way {
        match self.slots[at].callback {
            true => Way::Callback(Some(on_complete), self.me.cast_mut().cast()),
            false => Way::List,
        }
    }

    fn start(&mut self, at: usize) {
        self.started += 1;
        let kind = self.random.below(8);
        let looked_at = match kind {
            0 if !self.committed.is_empty() => {
                Some(self.committed[self.random.below(self.committed.len() as u64) as usize])
            }
            _ => None,
        };
        let transfer = (kind > 4).then(|| {
            let (from, other) = (self.random.below(ACCOUNTS), self.random.below(ACCOUNTS - 1));
            let to = (from + 1 + other) % ACCOUNTS;
            // Mostly in one order, so that not all end in dead locks.
            let swap = from > to && self.random.below(16) != 0;
            let (from, to) = if swap { (to, from) } else { (from, to) };
            (from, to, self.random.below(1000))
        });
        let id = looked_at.unwrap_or(self.next_id);
        let Some(table) = &self.table else { return };
        // Now and then at another place than the row's.
        let place = if self.random.below(8) == 0 { self.random.next() } else { transfer.map_or(id, |t| t.0) };
        let trans = match self.conn.start(table, place) {
            Ok(trans) => trans,
            Err(code) => {
                self.pausing_error(code);
                return;
            }
        };
        let callback = self.random.below(2) == 0;
        let doomed = looked_at.is_none() && self.random.below(24) == 0;
        let slot = &mut self.slots[at];
        (slot.trans, slot.id, slot.transfer) = (trans, id, transfer.filter(|_| looked_at.is_none()));
        (slot.callback, slot.doomed, slot.errors) = (callback, doomed, [0; 3]);
        if looked_at.is_some() {
            self.slots[at].phase = Phase::Looking;
            self.told.reads += 1;
            if self.read(at, 2, id, IC_READ_KIND_COMMITTED) {
                self.commit(at);
            }
            return;
        }
        self.next_id += 1;
        if let Some((from, to, _)) = self.slots[at].transfer {
            self.slots[at].phase = Phase::Reading;
            let _ = self.read(at, 0, from, IC_READ_KIND_EXCLUSIVE)
                && self.read(at, 1, to, IC_READ_KIND_EXCLUSIVE);
        } else if doomed || self.random.below(3) == 0 {
            self.slots[at].phase = Phase::Executing;
            self.insert(at);
        } else {
            self.slots[at].phase = Phase::Committing;
            if self.insert(at) {
                self.commit(at);
            }
        }
    }

    fn read(&mut self, at: usize, query: usize, id: u64, kind: i32) -> bool {
        let slot = &self.slots[at];
        self.conn.fill(slot.queries[query], id, 0);
        let defined = self.conn.read(slot.queries[query], slot.trans, kind, self.way(at));
        self.defined(at, query, defined)
    }

    fn insert(&mut self, at: usize) -> bool {
        let id = self.slots[at].id;
        self.write(at, 2, id, value_of(id), IC_WRITE_KIND_INSERT)
    }

    fn write(&mut self, at: usize, query: usize, id: u64, value: u64, kind: i32) -> bool {
        let slot = &self.slots[at];
        self.conn.fill(slot.queries[query], id, value);
        let defined = self.conn.write(slot.queries[query], slot.trans, kind, self.way(at));
        self.defined(at, query, defined)
    }

    /// After a definition: it is pending, or the transaction is given up.
    fn defined(&mut self, at: usize, query: usize, result: Result<(), i32>) -> bool {
        let slot = &mut self.slots[at];
        match result {
            Ok(()) => {
                slot.pending[query] = true;
                slot.since = Instant::now();
                self.told.operations += 1;
                true
            }
            Err(code) => {
                slot.errors[query] = code;
                self.give_up(at, code);
                false
            }
        }
    }

    /// The transaction takes no more work, though it should: roll it back.
    fn give_up(&mut self, at: usize, code: i32) {
        self.slots[at].doomed = true;
        self.pausing_error(code);
        match self.conn.rollback(self.slots[at].trans) {
            Ok(()) | Err(own::TRANSACTION_NOT_OPEN) => {}
            Err(code) => self.violation(format!("a rollback gave {code}: {}", self.name(at))),
        }
        if self.slots[at].phase == Phase::Looking {
            self.close(at);
        } else if !self.slots[at].pending.contains(&true) {
            self.ending(at);
        }
    }

    fn commit(&mut self, at: usize) {
        match self.conn.commit(self.slots[at].trans) {
            Ok(()) => {}
            Err(own::TRANSACTION_NOT_OPEN) => self.slots[at].doomed = true,
            Err(code) => self.violation(format!("a commit gave {code}: {}", self.name(at))),
        }
    }

    /// An error of a call, not of a query.
    fn pausing_error(&mut self, code: i32) {
        self.count(code);
        match code {
            ndb::SCHEMA_VERSION => {
                self.must_reopen = true;
                self.pausing = true;
            }
            own::TRANSACTION_NOT_OPEN | own::NO_NODE => {}
            own::NOT_CONNECTED if self.freeing => {}
            code if is_temporary(code) => {}
            code => self.violation(format!("a call gave {code} ({:?})", message(code))),
        }
    }

    fn count(&mut self, code: i32) {
        *self.told.errors.entry(code).or_default() += 1;
    }

    /// A query is complete.
    fn completed(&mut self, query: u64) {
        let Some(&(at, which)) = self.by_query.get(&query) else {
            return self.violation(format!("query {query:#x} completed, and is not ours"));
        };
        if !self.slots[at].pending[which] {
            let text = format!("query {which} completed twice: {}", self.name(at));
            return self.violation(text);
        }
        let error = self.conn.query_error(query);
        let slot = &mut self.slots[at];
        slot.pending[which] = false;
        slot.errors[which] = error;
        let took = slot.since.elapsed();
        if took > self.told.longest.0 {
            self.told.longest = (took, format!("thread {}, error {error}: {}", self.number, self.name(at)));
        }
        let late = if self.freeing { LATE + FREE_WAIT } else { LATE };
        if took > Duration::from_millis(self.orders.deadline_ms.into()) + late {
            let text = format!("an operation took {took:?}, error {error}: {}", self.name(at));
            self.violation(text);
        }
        if error != 0 {
            self.count(error);
            let expected = is_temporary(error)
                || is_unknown_result(error)
                || matches!(error, ndb::ROLLED_BACK | ndb::SCHEMA_VERSION)
                || (self.freeing && error == own::NOT_CONNECTED);
            if !expected {
                let text = format!("error {error} ({:?}): {}", message(error), self.name(at));
                self.violation(text);
            }
        }
        if !self.slots[at].pending.contains(&true) {
            self.step(at);
        }
    }

    /// Nothing of a transaction is pending: on with it.
    fn step(&mut self, at: usize) {
        let slot = &self.slots[at];
        let failed = slot.errors.iter().any(|&error| error != 0);
        match slot.phase {
            Phase::Reading if !failed && !slot.doomed => self.transfer(at),
            Phase::Executing if !failed && !slot.doomed => {
                self.slots[at].phase = Phase::Ending;
                self.commit(at);
            }
            Phase::Reading | Phase::Executing => {
                self.slots[at].doomed = true;
                match self.conn.rollback(self.slots[at].trans) {
                    Ok(()) | Err(own::TRANSACTION_NOT_OPEN) => {}
                    Err(code) => self.violation(format!("a rollback gave {code}: {}", self.name(at))),
                }
                self.ending(at);
            }
            Phase::Looking => {
                let (query, id, error) = (slot.queries[2], slot.id, slot.errors[2]);
                if error == 0 && self.conn.row(query) != (id, value_of(id)) {
                    let row = self.conn.row(query);
                    let text = format!("marker {id:#x} has the row {row:x?}, not {:#x}", value_of(id));
                    self.violation(text);
                }
                self.close(at);
            }
            _ => self.ending(at),
        }
    }

    fn transfer(&mut self, at: usize) {
        let slot = &self.slots[at];
        let Some((from, to, amount)) = slot.transfer else { return };
        let [(from_id, from_has), (to_id, to_has)] = [0, 1].map(|query| self.conn.row(slot.queries[query]));
        if (from_id, to_id) != (from, to) {
            let text = format!("accounts {from_id} and {to_id} were read: {}", self.name(at));
            self.violation(text);
        }
        self.slots[at].phase = Phase::Committing;
        let update = IC_WRITE_KIND_UPDATE;
        if self.write(at, 0, from, from_has.wrapping_sub(amount), update)
            && self.write(at, 1, to, to_has.wrapping_add(amount), update)
            && self.insert(at)
        {
            self.commit(at);
        }
    }

    /// Waits for the outcome, or takes it if it is there.
    fn ending(&mut self, at: usize) {
        self.slots[at].phase = Phase::Ending;
        let slot = &self.slots[at];
        let outcome = match self.conn.outcome(slot.trans) {
            Ok((State::Busy, _)) => return,
            Ok((State::Open, _)) => {
                // Given up before anything was sent, or refused without an end.
                match self.conn.rollback(self.slots[at].trans) {
                    Ok(()) | Err(own::TRANSACTION_NOT_OPEN) => return,
                    Err(code) => return self.violation(format!("a rollback gave {code}: {}", self.name(at))),
                }
            }
            Ok((State::Committed, 0)) => Outcome::Committed,
            Ok((State::Ended, error)) => {
                let errors = slot.errors.iter().chain([&error]);
                match errors.copied().find(|&error| is_unknown_result(error)) {
                    Some(code) => Outcome::Unknown(code),
                    None => Outcome::Refused(error),
                }
            }
            other => {
                let text = format!("a transaction ended as {other:?}: {}", self.name(at));
                return self.violation(text);
            }
        };
        let failed = slot.errors.iter().any(|&error| error != 0);
        let doomed = slot.doomed;
        if outcome == Outcome::Committed && (failed || doomed) {
            let text = format!("committed in spite of an error: {}", self.name(at));
            self.violation(text);
        }
        if outcome == Outcome::Refused(0) && !failed && !doomed {
            let text = format!("rolled back without an error: {}", self.name(at));
            self.violation(text);
        }
        self.record(at, outcome);
        self.close(at);
    }

    fn record(&mut self, at: usize, outcome: Outcome) {
        let Slot { id, transfer, errors, doomed, .. } = self.slots[at];
        let ended_ms = self.orders.began.elapsed().as_millis() as u32;
        if outcome == Outcome::Committed {
            self.committed.push(id);
        }
        self.told.done.push(Done { id, transfer, outcome, ended_ms, errors, doomed, freed: self.gone });
    }

    fn close(&mut self, at: usize) {
        if let Err(code) = self.conn.close(self.slots[at].trans) {
            self.violation(format!("closing a transaction gave {code}: {}", self.name(at)));
        }
        self.slots[at].phase = Phase::Idle;
    }

    fn look_at_endings(&mut self) {
        for at in 0..self.slots.len() {
            if self.slots[at].phase == Phase::Ending {
                self.ending(at);
            }
        }
    }

    fn report_stuck(&mut self) {
        for at in 0..self.slots.len() {
            if self.slots[at].phase != Phase::Idle {
                let text = format!("has not ended {DRAIN:?} after the last fault: {}", self.name(at));
                self.violation(text);
            }
        }
    }
}
