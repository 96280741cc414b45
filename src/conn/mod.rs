//! A user thread's connection: queries and transactions, what is packed for each node, and what replies
//! complete.
//!
//! A connection is used by one thread at a time and holds no lock but a link's and its inbox's, each once per
//! round. Defining packs a request in the query itself. A commit seals its transaction's requests: their flags
//! are known then, so they are copied to the buffer of the coordinator's node; a send does the same for
//! transactions that no commit sealed, and writes the buffers. What a transaction waits for (its coordinator
//! record, the end of the batch that is out) holds its queries back; they follow from within a poll.
//!
//! - `send`: packing, coordinator records, the buffers of the nodes;
//! - `reply`: what each reply does;
//! - [`multi_read`]: many reads that complete as one;
//! - `failure`: what the loss of a link does; `deadline`: what ends without a reply;
//! - [`query`], [`transaction`], `slots`, [`row`]: the parts.

mod deadline;
pub mod explain;
mod failure;
pub mod free_set;
pub mod multi_read;
pub mod query;
mod reply;
pub mod row;
#[cfg(all(any(test, fuzzing), not(loom)))]
pub mod scripted;
mod send;
mod slots;
mod statistics;
pub mod transaction;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::cluster::inbox::Enough;
use crate::cluster::node::Node;
use crate::cluster::port::Port;
use crate::cluster::statistics::{Kind, Live};
use crate::dict::record::{Columns, Record};
use crate::dict::standing::Standing;
use crate::dict::table::Table;
use crate::error::own;
use crate::link::page::Page;
use crate::wire::block::reference;
use crate::wire::hash::LANES;
use crate::wire::registration::NodeSet;
use crate::wire::transaction::{AbortOption, LockMode, RequestInfo, TransId, WriteKind, key_request};
use multi_read::MultiRead;
use query::{Query, State};
use slots::{NONE, Slots};
use statistics::Stamp;
use transaction::{NEVER, Phase, Record as CoordinatorRecord, Transaction, Usage, Wish};

pub use crate::cluster::statistics::Statistics;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Reads the columns of the attribute record.
    Read(LockMode),
    /// Reads no column: whether the row is there.
    Exists,
    /// Writes them.
    Write(WriteKind, AbortOption),
}

/// What has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completed {
    /// The query with this handle.
    Query(u64),
    /// The multi-key read with this handle.
    MultiRead(u64),
}

/// Whose callback is due: slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Query(u32),
    MultiRead(u32),
}

/// What has completed and wants its callback to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion<T> {
    /// What it is.
    pub completed: Completed,
    /// What its definition gave.
    pub token: T,
}

/// What the connection has for one node.
#[derive(Debug)]
struct Work {
    node: Arc<Node>,
    /// The generation of the link that everything here belongs to; 0 until something was sent or came.
    generation: u32,
    /// Messages for the next write.
    buffer: Vec<u32>,
    /// The buffer holds more than acknowledgements.
    requests: bool,
    /// A poll must write the buffer: the caller's send has passed over what is in it.
    urgent: bool,
    /// When the first of the requests in the buffer was packed, by the connection's clock.
    packed_at: u64,
    /// What `losses` was when a link of the node was lost last.
    lost_at: u32,
    /// The last generation of the link whose loss was read.
    lost_generation: u32,
    /// Nodes that have told all about this one's transactions, while the loss of its link is still to be read.
    reports: NodeSet,
    /// Its transactions that others tell the outcome of.
    take_over: failure::TakeOver,
    /// Counts writes of the buffer: what was packed in an earlier epoch has been sent.
    epoch: u32,
    /// Idle coordinator records.
    idle: Vec<u32>,
    /// TCSEIZEREQ that are out.
    seizing: usize,
    /// Seized records and those being seized.
    records: usize,
    /// Transactions that wait for a record: slot and transaction id. One that was given up after its commit
    /// was asked for waits on, so the slot's generation does not tell.
    waiting: VecDeque<(u32, TransId)>,
}

/// A connection. `T` is what the caller gives with each definition and gets back with its completion.
#[derive(Debug)]
pub struct Connection<T> {
    cluster: Arc<Cluster>,
    port: Port,
    queries: Slots<Query<T>>,
    transactions: Slots<Transaction>,
    records: Vec<CoordinatorRecord>,
    unused_records: Vec<u32>,
    work: Vec<Work>,
    /// Transactions with queries that no commit has packed.
    unsealed: Vec<u32>,
    multi_reads: Slots<MultiRead<T>>,
    multi: multi_read::Scratch,
    ready: VecDeque<Due>,
    executed: VecDeque<u32>,
    executed_multi_reads: VecDeque<u32>,
    pages: Vec<Page>,
    transid: [u32; 2],
    in_flight: usize,
    /// Transactions with operations in flight.
    busy: usize,
    /// Reads that are confirmed and whose row is still to come: at least so many.
    rows_due: usize,
    next_node: usize,
    /// A callback has asked for a send, with force or without: it follows the callbacks, one write per node
    /// for all of them.
    send_asked: Option<bool>,
    poll_min: u32,
    /// Operations of which the caller can know that they have completed; a multi-key read counts when it has.
    done: u64,
    /// What `done` was at the end of the last poll.
    polled: u64,
    /// An event loop watches the connection's descriptor.
    watched: bool,
    /// The connection takes no more work.
    finished: bool,
    /// A commit or rollback that was out by itself has been answered: news for who polls.
    settled: bool,
    /// Counts losses of links.
    losses: u32,
    /// The time at the last send or poll, nanoseconds of the cluster's clock.
    clock: u64,
    /// No deadline is before this time.
    due: u64,
    /// How long what is sent may go without a reply, nanoseconds.
    limit: u64,
    statistics: Statistics,
    /// The counters that others may read.
    live: Arc<Live>,
    stamp: Stamp,
    /// Words of requests that are defined and not packed for their node.
    unpacked: usize,
    /// See [`crate::cluster::Limits`].
    max_waiting: usize,
    max_in_flight: usize,
}

impl<T: Copy> Connection<T> {
    /// A connection of a connected cluster.
    pub fn new(cluster: Arc<Cluster>) -> Result<Self, i32> {
        if cluster.stopping() {
            return Err(own::NOT_CONNECTED);
        }
        let port = cluster.ports.open().ok_or(own::TOO_MANY_IN_FLIGHT)?;
        let block = port.block();
        // As libndbclient makes them: the block and the node tell connections apart, the counter transactions.
        let high = (block as u32 & 0xfff) << 20 | (cluster.own_node as u32) << 8;
        let low = cluster.next_transaction.load(Ordering::Relaxed);
        let work = cluster.nodes.iter().map(|node| Work {
            node: node.clone(),
            generation: 0,
            buffer: Vec::new(),
            requests: false,
            urgent: false,
            packed_at: 0,
            lost_at: 0,
            // News of a loss that happened before the port was opened does not come.
            lost_generation: match node.open_generation() {
                0 => node.latest_generation(),
                open => open - 1,
            },
            reports: NodeSet::default(),
            take_over: failure::TakeOver::default(),
            epoch: 0,
            idle: Vec::new(),
            seizing: 0,
            records: 0,
            waiting: VecDeque::new(),
        });
        Ok(Connection {
            queries: Slots::new(block),
            transactions: Slots::new(block),
            records: Vec::new(),
            unused_records: Vec::new(),
            work: work.collect(),
            unsealed: Vec::new(),
            multi_reads: Slots::new(block),
            multi: multi_read::Scratch::default(),
            ready: VecDeque::new(),
            executed: VecDeque::new(),
            executed_multi_reads: VecDeque::new(),
            pages: Vec::new(),
            transid: [low, high],
            in_flight: 0,
            busy: 0,
            rows_due: 0,
            next_node: block as usize,
            send_asked: None,
            poll_min: 1,
            done: 0,
            polled: 0,
            watched: false,
            finished: false,
            settled: false,
            losses: 0,
            clock: cluster.holds.now(),
            due: NEVER,
            limit: deadline::nanos(cluster.deadline),
            statistics: Statistics::default(),
            live: cluster.registry.register(block),
            stamp: Stamp::default(),
            unpacked: 0,
            max_waiting: cluster.limits.waiting,
            max_in_flight: cluster.limits.in_flight,
            port,
            cluster,
        })
    }

    /// The cluster.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Operations defined and not complete.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    // Queries.

    /// A new query over rows of two records of `table`, whose definition has this `standing`;
    /// without `attr` it reads or writes no columns.
    pub fn create_query(
        &mut self,
        table: Arc<Table>,
        standing: Arc<Standing>,
        key: Arc<Record>,
        attr: Option<Arc<Record>>,
        token: T,
    ) -> Result<u64, i32> {
        let fits = |record: &Record| record.is_of(&table);
        if !fits(&key) || key.key_fields().is_none() || !attr.as_deref().is_none_or(fits) {
            return Err(own::RECORD_MISMATCH);
        }
        let query = Query::new(table, standing, key, attr, token);
        let at = self.queries.insert(query).ok_or(own::TOO_MANY_IN_FLIGHT)?;
        Ok(self.queries.handle(at))
    }

    /// Frees a query that is not in flight.
    pub fn free_query(&mut self, query: u64) -> Result<(), i32> {
        let at = self.query_at(query)?;
        match self.queries[at].state {
            State::Defined | State::Sent | State::Gathered => Err(own::QUERY_NOT_IDLE),
            State::Idle | State::Complete | State::InCallback => {
                self.ready.retain(|&due| due != Due::Query(at));
                self.executed.retain(|&q| q != at);
                self.queries.remove(at);
                Ok(())
            }
        }
    }

    /// The query, if its rows are the caller's now.
    pub fn rows(&mut self, query: u64) -> Result<(&mut row::Row, &mut row::Row), i32> {
        let at = self.query_at(query)?;
        let query = &mut self.queries[at];
        match query.state {
            State::Idle | State::Complete | State::InCallback => {
                Ok((&mut query.key_row, &mut query.attr_row))
            }
            State::Defined | State::Sent | State::Gathered => Err(own::QUERY_NOT_IDLE),
        }
    }

    /// The error of a query's last completion.
    pub fn query_error(&self, query: u64) -> Result<i32, i32> {
        Ok(self.queries[self.query_at(query)?].error)
    }

    /// What the last definition of a query gave.
    pub fn token(&self, query: u64) -> Result<T, i32> {
        Ok(self.queries[self.query_at(query)?].token)
    }

    /// Where a query is in its life.
    pub fn query_state(&self, query: u64) -> Result<State, i32> {
        Ok(self.queries[self.query_at(query)?].state)
    }

    /// Defines an operation in a transaction: packs its request. Nothing is sent.
    #[inline]
    pub fn define(
        &mut self,
        query: u64,
        transaction: u64,
        operation: Operation,
        callback: bool,
        token: T,
    ) -> Result<(), i32> {
        let at = self.query_at(query)?;
        let in_transaction = self.transaction_at(transaction)?;
        let id = self.operation_id(at);
        let transaction = &mut self.transactions[in_transaction];
        if self.finished {
            return Err(own::NOT_CONNECTED);
        }
        if !transaction.takes_work() {
            return Err(own::TRANSACTION_NOT_OPEN);
        }
        let waits = self.work[transaction.node].waiting();
        if 4 * self.unpacked + waits > self.max_waiting {
            return Err(self.refused(own::SEND_BUFFER_FULL));
        }
        if self.in_flight >= self.max_in_flight {
            return Err(self.refused(own::TOO_MANY_IN_FLIGHT));
        }
        let query = &mut self.queries[at];
        if !matches!(query.state, State::Idle | State::InCallback) {
            return Err(own::QUERY_NOT_IDLE);
        }
        query.standing.check(self.cluster.incarnation.load(Ordering::Relaxed))?;
        query.pack(self.port.block(), id, operation)?;
        query.define(callback, token);
        transaction.writes |= matches!(operation, Operation::Write(..));
        self.join(at, in_transaction);
        self.in_flight += 1;
        Ok(())
    }

    /// The id that stands for a query in requests and replies.
    #[inline]
    fn operation_id(&self, at: u32) -> u32 {
        (self.queries.generation(at) & 0x7ff) << 21 | at << 1
    }

    /// Appends a defined query to its transaction's list.
    #[inline]
    fn join(&mut self, at: u32, in_transaction: u32) {
        let (query, transaction) = (&mut self.queries[at], &mut self.transactions[in_transaction]);
        self.unpacked += query.request.len();
        if !transaction.unsealed {
            transaction.unsealed = true;
            self.unsealed.push(in_transaction);
        }
        let last = std::mem::replace(&mut transaction.last, at);
        if transaction.first_defined == NONE {
            transaction.first_defined = at;
        }
        query.transaction = in_transaction;
        query.previous = last;
        query.next = NONE;
        if last == NONE {
            transaction.first = at;
            self.busy += 1;
        } else {
            self.queries[last].next = at;
        }
    }

    // Transactions.

    /// Which fragment a key is in, plus one; 0 when it cannot be computed.
    #[inline]
    pub fn hint_for_key(&self, table: &Table, record: &Record, key: &[u8]) -> Result<u32, i32> {
        if !record.is_of(table) {
            return Err(own::RECORD_MISMATCH);
        }
        if key.len() != record.row_size() {
            return Err(own::ROW_LENGTH);
        }
        Ok(table.fragment_for_key(record, key).map_or(0, |fragment| fragment + 1))
    }

    /// As [`Connection::hint_for_key`] of several keys, rows of `record` one behind the other: as many as there
    /// are `hints`. Without an error all hints are set.
    #[inline]
    pub fn hints_for_keys(
        &self,
        table: &Table,
        record: &Record,
        keys: &[u8],
        hints: &mut [u32],
    ) -> Result<(), i32> {
        if !record.is_of(table) {
            return Err(own::RECORD_MISMATCH);
        }
        if Some(keys.len()) != record.row_size().checked_mul(hints.len()) {
            return Err(own::ROW_LENGTH);
        }
        let mut rows = keys.chunks_exact(record.row_size().max(1));
        for hints in hints.chunks_mut(LANES) {
            let mut several = [&[][..]; LANES];
            several.iter_mut().zip(&mut rows).for_each(|(to, row)| *to = row);
            let fragments = table.fragments_for_keys(record, &several[..hints.len()]);
            for (hint, fragment) in hints.iter_mut().zip(fragments) {
                *hint = fragment.map_or(0, |fragment| fragment + 1);
            }
        }
        Ok(())
    }

    /// As [`Connection::hint_for_key`], of a query's own key row.
    pub fn hint_for_query(&self, query: u64) -> Result<u32, i32> {
        let query = &self.queries[self.query_at(query)?];
        self.hint_for_key(&query.table, &query.key, query.key_row.bytes())
    }

    /// As [`Connection::start_transaction`], with a query's table.
    pub fn start_transaction_for(&mut self, hint: u32, query: u64) -> Result<u64, i32> {
        let table = self.queries[self.query_at(query)?].table.clone();
        self.start_transaction(hint, Some(&table))
    }

    /// Starts a transaction at the node of a hint, else at any usable one. Never waits: while the node has no
    /// idle coordinator record, the transaction's requests are held back.
    #[inline]
    pub fn start_transaction(&mut self, hint: u32, table: Option<&Table>) -> Result<u64, i32> {
        if self.finished {
            return Err(own::NOT_CONNECTED);
        }
        let node = match self.choose_node(hint, table) {
            Ok(node) => node,
            Err(code) => self.choose_after_losses(code)?,
        };
        if self.work[node].idle.is_empty() && 4 * self.work[node].buffer.len() > self.max_waiting {
            return Err(self.refused(own::SEND_BUFFER_FULL));
        }
        if self.transactions.len() >= 2 * self.max_in_flight {
            return Err(self.refused(own::TOO_MANY_IN_FLIGHT));
        }
        let transid = self.transid;
        let at = self
            .transactions
            .insert(Transaction::new(node, transid, self.limit))
            .ok_or(own::TOO_MANY_IN_FLIGHT)?;
        self.transid[0] = transid[0].wrapping_add(1);
        match self.work[node].idle.pop() {
            Some(record) => self.give_record(at, record),
            None => self.wait_for_record(at),
        }
        Ok(self.transactions.handle(at))
    }

    /// No node takes work: another try once what has come is read.
    #[cold]
    fn choose_after_losses(&mut self, code: i32) -> Result<usize, i32> {
        if code != own::NO_NODE {
            return Err(code);
        }
        self.take_losses();
        self.choose_node(0, None)
    }

    /// Reads what has come. What is left here of a lost link keeps a new one out, and who has nothing in flight
    /// need not poll before the next try.
    fn take_losses(&mut self) {
        self.take_inbox(None, 1);
    }

    /// Asks for the commit: it rides on the last query defined, or follows what is out.
    #[inline]
    pub fn commit(&mut self, transaction: u64) -> Result<(), i32> {
        let at = self.transaction_at(transaction)?;
        let transaction = &mut self.transactions[at];
        if !transaction.takes_work() {
            return Err(own::TRANSACTION_NOT_OPEN);
        }
        transaction.wish = Wish::Commit;
        if !transaction.started && transaction.first_defined == NONE {
            self.end(at, 0, true);
        } else if transaction.phase == Phase::Open && transaction.record != NONE {
            self.advance(at);
            self.is_sealed(at);
        } else if !transaction.unsealed {
            transaction.unsealed = true;
            self.unsealed.push(at);
        }
        Ok(())
    }

    /// All of a transaction is packed: a send need not look at it, if it is the last that it would look at.
    #[inline]
    fn is_sealed(&mut self, at: u32) {
        if self.unsealed.last() == Some(&at) {
            self.unsealed.pop();
            self.transactions[at].unsealed = false;
        }
    }

    /// Rolls a transaction back that no commit was asked for. Its queries that are not complete end with 4350.
    pub fn rollback(&mut self, transaction: u64) -> Result<(), i32> {
        let at = self.transaction_at(transaction)?;
        if !self.transactions[at].is_open() {
            return Err(own::TRANSACTION_NOT_OPEN);
        }
        self.roll_back(at);
        self.tell();
        Ok(())
    }

    /// Gives a transaction up: one that is open is rolled back, a commit that was asked for goes on. Its
    /// handle is stale at once.
    #[inline]
    pub fn close(&mut self, transaction: u64) -> Result<(), i32> {
        let at = self.transaction_at(transaction)?;
        if self.transactions[at].is_open() {
            self.roll_back(at);
            self.tell();
        }
        let transaction = &mut self.transactions[at];
        if transaction.phase == Phase::Ended && transaction.first == NONE {
            self.remove_transaction(at);
        } else {
            transaction.closed = true;
            self.transactions.retire(at);
        }
        Ok(())
    }

    /// A transaction's error; 0 while there is none.
    pub fn transaction_error(&self, transaction: u64) -> Result<i32, i32> {
        Ok(self.transactions[self.transaction_at(transaction)?].error)
    }

    /// Where a transaction is, and whether it was committed.
    pub fn transaction_state(&self, transaction: u64) -> Result<(Phase, bool), i32> {
        let transaction = &self.transactions[self.transaction_at(transaction)?];
        Ok((transaction.phase, transaction.committed))
    }

    // Sending and completing.

    /// Writes all that was defined, committed and rolled back: one write per data node. Without `force` a
    /// link may hold it for company.
    pub fn send(&mut self, force: bool) {
        if !self.cluster.stopping() {
            self.tick();
            self.seal_all();
            self.mark_in_flight();
            self.transmit(force, |_| true);
            self.publish();
            if self.watched {
                self.port.wake_at(self.due);
            }
        }
    }

    /// A send from within a callback: done by [`Connection::end_poll`], for all callbacks of the poll at once.
    pub fn send_after_callbacks(&mut self, force: bool) {
        self.send_asked = Some(self.send_asked.unwrap_or(false) || force);
    }

    /// From now on a poll waits until so many operations have completed, instead of one. It does not wait for
    /// more than are in flight.
    pub fn set_poll_min(&mut self, completions: u32) {
        self.poll_min = completions.max(1);
    }

    /// For what a sleep that ends with `missing` more completions is worth ending.
    ///
    /// A transaction with operations in flight ends them all only after one more confirmation at least, or a
    /// signal that always wakes. So after j confirmations at least `busy - j` operations are still in flight:
    /// no fewer than `missing - (in_flight - busy)` confirmations bring `missing` completions, and never are
    /// more asked for than must come for all to complete. With one operation a transaction it is one for
    /// each. The exception is a read whose confirmation has come before its row; while there is one, rows
    /// count as well.
    fn enough(&self, missing: u64) -> Enough {
        let replies = missing.saturating_sub(self.in_flight.saturating_sub(self.busy) as u64);
        Enough { replies: replies.min(u32::MAX as u64) as u32, rows: self.rows_due > 0 }
    }

    /// A descriptor that is readable while there is something for a poll to take, for an event loop. It is the
    /// connection's, which closes it. From now on the receive role is lent to nobody.
    pub fn descriptor(&mut self) -> std::io::Result<std::os::fd::RawFd> {
        let number = self.port.inbox().descriptor()?;
        self.watched = true;
        self.tell();
        Ok(number)
    }

    /// Makes the descriptor readable, if there is one and something has completed since the last poll, or
    /// callbacks are due: no reply will do it.
    fn tell(&self) {
        if !self.watched {
            return;
        }
        self.port.wake_at(self.due);
        if self.done != self.polled || !self.ready.is_empty() {
            self.port.inbox().poke();
        }
    }

    /// Takes replies, waiting at most `wait` for something to complete: operations, or a commit or rollback
    /// that was out by itself. How many signals it took. Callbacks that are due are handed out by
    /// [`Connection::next_callback`].
    pub fn poll(&mut self, wait: Duration) -> Result<u32, i32> {
        let before = self.statistics.signals;
        // The end of the wait; the first look at the inbox waits not at all.
        let mut until = None;
        let mut missing = 1;
        let enough = (self.poll_min as usize).min(self.in_flight).max(1) as u64;
        // What completed between polls, as by a rollback, is news too.
        let done = self.polled;
        self.settled = false;
        self.mark_in_flight();
        loop {
            let next = until.map(|until: u64| self.cluster.holds.instant(until.min(self.due)));
            self.take_inbox(next, missing);
            if self.cluster.stopping() {
                self.stop();
            }
            let completed = self.done - done;
            if completed >= enough || self.settled || (completed == 0 && !self.ready.is_empty()) {
                break;
            }
            missing = enough - completed;
            if self.cluster.stopping() {
                match completed {
                    0 => return Err(own::NOT_CONNECTED),
                    _ => break,
                }
            }
            // Nothing of ours may lie here while we sleep.
            self.transmit(false, |work| work.urgent || !work.requests);
            if wait.is_zero() || until.is_some_and(|until| self.clock >= until) {
                break;
            }
            until.get_or_insert_with(|| self.clock.saturating_add(wait.as_nanos() as u64));
        }
        self.transmit(false, |work| work.urgent);
        self.polled = self.done;
        if self.statistics.signals != before {
            self.publish();
        }
        Ok((self.statistics.signals - before) as u32)
    }

    /// Takes what is in the inbox, waiting until `until`, if that is given, for `missing` completions, and
    /// ends what is due.
    fn take_inbox(&mut self, until: Option<Instant>, missing: u64) {
        let mut pages = std::mem::take(&mut self.pages);
        self.port.take_enough(until, self.enough(missing), &mut pages);
        self.tick();
        self.take_pages(&mut pages);
        self.pages = pages;
        self.check_deadlines();
    }

    /// After a poll and its callbacks: a send that they asked for is done, and acknowledgements do not stay
    /// here while nothing is in flight, for then there may be no further send.
    pub fn end_poll(&mut self) {
        self.stamp.let_go();
        if let Some(force) = self.send_asked.take() {
            self.send(force);
        } else if self.in_flight == 0 {
            self.transmit(false, |work| !work.requests);
        }
        self.tell();
    }

    /// The next query or multi-key read whose callback is due. Its rows are the caller's. To be followed by
    /// [`Connection::callback_done`].
    #[inline]
    pub fn next_callback(&mut self) -> Option<Completion<T>> {
        match self.ready.pop_front()? {
            Due::Query(at) => {
                self.queries[at].state = State::InCallback;
                let completed = Completed::Query(self.queries.handle(at));
                Some(Completion { completed, token: self.queries[at].token })
            }
            Due::MultiRead(at) => {
                let (handle, token) = self.enter_multi_read(at);
                Some(Completion { completed: Completed::MultiRead(handle), token })
            }
        }
    }

    /// The callback has run: a query is idle unless it was defined anew, or freed; a multi-key read is given
    /// up.
    #[inline]
    pub fn callback_done(&mut self, completed: Completed) {
        match completed {
            Completed::Query(query) => {
                if let Some(at) = self.queries.find(query)
                    && self.queries[at].state == State::InCallback
                {
                    self.queries[at].state = State::Idle;
                }
            }
            // It may have been given up already.
            Completed::MultiRead(read) => drop(self.close_multi_read(read)),
        }
    }

    /// The oldest query on the executed list, which makes it idle.
    #[inline]
    pub fn next_executed(&mut self) -> Option<u64> {
        let at = self.executed.pop_front()?;
        self.queries[at].state = State::Idle;
        Some(self.queries.handle(at))
    }

    /// Takes a query off the executed list, wherever it stands there. False if it is not on it.
    pub fn take_executed(&mut self, query: u64) -> bool {
        let Some(at) = self.queries.find(query) else { return false };
        let Some(place) = self.executed.iter().position(|&q| q == at) else { return false };
        self.executed.remove(place);
        self.queries[at].state = State::Idle;
        true
    }

    /// Ends all that is in flight: transactions without a commit sent are rolled back, and final replies are
    /// waited for until `limit` is over; then what is left ends without them. Idle coordinator records go
    /// back to their nodes; a record still busy then stays with its node until the client leaves the cluster.
    /// Callbacks that are due are handed out as after a poll; the connection is then of no further use.
    pub fn finish(&mut self, limit: Duration) {
        let until = Instant::now() + limit;
        for at in 0..self.transactions.bound() {
            if self.transactions.get(at).is_some_and(|t| matches!(t.phase, Phase::Open | Phase::Executing)) {
                self.roll_back(at);
            }
        }
        // Those that were set aside are the manager's afterwards: nothing of the caller's waits for them.
        let busy = |record: &CoordinatorRecord| matches!(record.usage, Usage::Seizing | Usage::Busy(_));
        while self.records.iter().any(busy) || self.awaits_take_over() {
            self.transmit(true, |_| true);
            if self.cluster.stopping() || Instant::now() >= until {
                break;
            }
            let due = self.cluster.holds.instant(self.due.min(self.cluster.holds.nanos(until)));
            self.take_inbox(Some(due), 1);
        }
        self.log_busy_records();
        self.stop();
        self.release_records();
        self.leave_records();
        self.transmit(true, |_| true);
        self.cluster.next_transaction.fetch_max(self.transid[0], Ordering::Relaxed);
        self.finished = true;
    }

    #[inline]
    fn query_at(&self, query: u64) -> Result<u32, i32> {
        self.queries.find(query).ok_or(own::STALE_QUERY)
    }

    #[inline]
    fn transaction_at(&self, transaction: u64) -> Result<u32, i32> {
        self.transactions.find(transaction).ok_or(own::STALE_TRANSACTION)
    }

    fn remove_transaction(&mut self, at: u32) {
        if self.transactions[at].unsealed {
            self.unsealed.retain(|&t| t != at);
        }
        self.transactions.discard(at);
    }

    fn own_reference(&self) -> u32 {
        reference(self.port.block(), self.cluster.own_node)
    }
}

impl<T> Query<T> {
    /// Packs the request of an operation from the query's rows.
    #[inline]
    fn pack(&mut self, sender: u16, id: u32, operation: Operation) -> Result<(), i32> {
        if self.template == Some(operation) {
            return self.pack_again(operation);
        }
        self.template = None;
        self.kind = operation.kind();
        self.pack_anew(sender, id, operation)?;
        let is_fixed = self.has_fixed_key && (self.has_fixed_values || !self.packs_values(operation));
        self.template = is_fixed.then_some(operation);
        Ok(())
    }

    /// The same operation on another key, with other values.
    #[inline]
    fn pack_again(&mut self, operation: Operation) -> Result<(), i32> {
        let key_words = self.request[key_request::SECTION_LENGTHS] as usize;
        let sections = 1 + self.has_attrinfo(operation) as usize;
        let data = &mut self.request[key_request::SECTION_LENGTHS + sections..];
        let (key, values) = data.split_at_mut_checked(key_words).ok_or(own::INTERNAL)?;
        self.key.overwrite_key(self.key_row.bytes(), key)?;
        let values = match operation {
            Operation::Read(_) | Operation::Exists | Operation::Write(WriteKind::Delete, _) => return Ok(()),
            Operation::Write(WriteKind::Update, _) => values,
            Operation::Write(WriteKind::Insert | WriteKind::Write, _) => {
                self.key.overwrite_key_values(self.key_row.bytes(), values)?
            }
        };
        match &self.attr {
            Some(attr) => attr.overwrite_values(self.attr_row.bytes(), values),
            None => Ok(()),
        }
    }

    /// Whether an operation's request holds values of the attribute row.
    fn packs_values(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Write(kind, _) if kind != WriteKind::Delete)
    }

    /// Whether its request has a second section.
    #[inline]
    fn has_attrinfo(&self, operation: Operation) -> bool {
        match operation {
            Operation::Read(_) | Operation::Exists => true,
            Operation::Write(WriteKind::Insert | WriteKind::Write, _) => true,
            Operation::Write(WriteKind::Update, _) => self.has_values,
            Operation::Write(WriteKind::Delete, _) => false,
        }
    }

    fn pack_anew(&mut self, sender: u16, id: u32, operation: Operation) -> Result<(), i32> {
        let info = match operation {
            Operation::Read(mode) => RequestInfo::read(mode),
            Operation::Exists => RequestInfo::read(LockMode::Committed),
            Operation::Write(kind, option) => RequestInfo::write(kind, option).queue_on_redo(),
        };
        self.info = if self.on_disk { info } else { info.no_disk() };
        self.operation = id;
        self.decodes = matches!(operation, Operation::Read(_)) && self.attr.is_some();
        let head = key_request::Operation {
            id,
            table: self.table.id.number(),
            version: self.table.version,
            info: self.info,
        };
        let has_attrinfo = self.has_attrinfo(operation);
        key_request::begin(&mut self.request, sender, head, has_attrinfo);
        let before = self.request.len();
        self.key.encode_key(self.key_row.bytes(), &mut self.request)?;
        let key_words = self.request.len() - before;
        let out = &mut self.request;
        match operation {
            Operation::Read(_) | Operation::Exists => match &self.attr {
                Some(attr) if self.decodes => attr.push_read_list(out),
                // A row is there or not: reading a key column tells.
                _ => out.push((self.table.primary_key[0] as u32) << 16),
            },
            Operation::Write(WriteKind::Insert | WriteKind::Write, _) => {
                // The key is a part of the row too, and always the one that finds it.
                self.key.encode_key_values(self.key_row.bytes(), out)?;
                if let Some(attr) = &self.attr {
                    attr.encode_values(self.attr_row.bytes(), out, Columns::All)?;
                }
            }
            Operation::Write(WriteKind::Update, _) => {
                if let Some(attr) = &self.attr {
                    attr.encode_values(self.attr_row.bytes(), out, Columns::All)?;
                }
            }
            Operation::Write(WriteKind::Delete, _) => {}
        }
        key_request::finish(&mut self.request, key_words).map_err(|_| own::TOO_LARGE)
    }
}

#[cfg(all(test, feature = "embedded", not(loom)))]
mod tests;
