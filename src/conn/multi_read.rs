//! Multi-key reads: many committed reads that complete as one.
//!
//! The keys are split by the node that owns them, each part is one transaction at its owner whose commit
//! rides on its last read, and all parts are packed at once, so each stands in its node's buffer where the
//! call stands among everything else that the connection defines. [`placement`] alone decides how a call is
//! split.
//!
//! Every row is a committed row. Nothing is promised across rows, whether they have one owner or several:
//! each is read when its node comes to it. Nor is a write of the same connection seen that has not completed
//! before the call.

use std::sync::Arc;
use std::time::Duration;

use super::query::State;
use super::slots::NONE;
use super::transaction::{Transaction, Wish};
use super::{Connection, Due, Operation, Query, Work, deadline};
use crate::dict::record::Record;
use crate::dict::standing::Standing;
use crate::dict::table::Table;
use crate::error::{ndb, own};
use crate::wire::hash::LANES;
use crate::wire::transaction::LockMode;

/// Keys in one call at most.
pub const MAX_KEYS: usize = 1 << 14;
/// Keys in one part at most: a node starts on a part when it has all of it.
const PART_KEYS: usize = 256;

/// What a multi-key read wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Every key's row, or that it is missing.
    Gather,
    /// Which keys there are, and how many.
    Exists,
}

/// What becomes of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// Not known yet.
    Pending,
    /// The row is there.
    Found,
    /// There is no such row.
    Missing,
    /// It could not be read, for this reason. It may be there or not.
    Failed(i32),
}

/// How a multi-key read is to be done.
#[derive(Debug, Clone, Copy)]
pub struct Args<T> {
    /// What it wants to know.
    pub kind: Kind,
    /// How long it may go without a reply; the connection's limit when absent.
    pub limit: Option<Duration>,
    /// Completion runs a callback; else it goes to the executed list.
    pub callback: bool,
    /// Given back with the completion.
    pub token: T,
}

/// Where a multi-key read goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// All keys have this owner: one transaction there.
    Slotted(usize),
    /// Keys of several owners: a transaction at each.
    FanOut,
    /// The owner of some key is not certain: one transaction, at any node.
    Coordinator,
}

/// Where a multi-key read goes whose keys have these owners; `None` for one that is not known.
pub fn placement(owners: &[Option<usize>]) -> Placement {
    match owners {
        [Some(first), rest @ ..] if rest.iter().all(|owner| *owner == Some(*first)) => {
            Placement::Slotted(*first)
        }
        [] => Placement::Coordinator,
        _ if owners.iter().all(Option::is_some) => Placement::FanOut,
        _ => Placement::Coordinator,
    }
}

/// A multi-key read that is out, or whose results have not been given up.
#[derive(Debug)]
pub(super) struct MultiRead<T> {
    /// In the caller's order.
    queries: Vec<u32>,
    states: Vec<KeyState>,
    pending: usize,
    found: u32,
    /// The first error of a key that failed.
    error: i32,
    pub(super) state: State,
    callback: bool,
    token: T,
    /// The queries are this connection's own.
    own_queries: bool,
}

/// Queries of this connection's own, for one pair of records.
#[derive(Debug)]
struct Pool {
    table: Arc<Table>,
    key: Arc<Record>,
    attr: Option<Arc<Record>>,
    idle: Vec<u32>,
}

/// What multi-key reads need of a connection, kept for the next ones.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    owners: Vec<Option<usize>>,
    queries: Vec<Vec<u32>>,
    states: Vec<Vec<KeyState>>,
    pools: Vec<Pool>,
    /// Parts that are out.
    pub(super) parts: u64,
}

/// Where the rows of a multi-key read without queries of the caller's come from.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The table.
    pub table: &'a Arc<Table>,
    /// Whether its definition holds.
    pub standing: &'a Arc<Standing>,
    /// The record of the key rows.
    pub key: &'a Arc<Record>,
    /// The record of the result rows; none to read no columns.
    pub attr: Option<&'a Arc<Record>>,
}

impl<T: Copy> Connection<T> {
    /// Reads the rows of the queries' keys; they may be of several tables. The queries are in use until it
    /// completes. After an error nothing was done.
    pub fn multi_read(&mut self, queries: &[u64], args: Args<T>) -> Result<u64, i32> {
        let mut slots = self.multi.queries.pop().unwrap_or_default();
        let found = queries.iter().try_for_each(|&query| {
            slots.push(self.query_at(query)?);
            Ok(())
        });
        match found.and_then(|()| self.read_all(&slots, &args)) {
            Ok(()) => Ok(self.start_multi_read(slots, args, false)),
            Err(error) => {
                slots.clear();
                self.multi.queries.push(slots);
                Err(error)
            }
        }
    }

    /// Reads the rows of `keys`, rows of the key record one after the other.
    pub fn multi_read_rows(&mut self, source: Source<'_>, keys: &[u8], args: Args<T>) -> Result<u64, i32> {
        let size = source.key.row_size();
        if size == 0 || !keys.len().is_multiple_of(size) {
            return Err(own::ROW_LENGTH);
        }
        let count = keys.len() / size;
        if count == 0 || count > MAX_KEYS {
            return Err(own::INVALID_ARGUMENT);
        }
        let pool = self.pool(source)?;
        let mut slots = self.multi.queries.pop().unwrap_or_default();
        let outcome = keys.chunks_exact(size).try_for_each(|key| {
            let at = match self.multi.pools[pool].idle.pop() {
                Some(at) => at,
                None => self.own_query(source, args.token)?,
            };
            slots.push(at);
            self.queries[at].key_row.bytes_mut().copy_from_slice(key);
            Ok(())
        });
        match outcome.and_then(|()| self.read_all(&slots, &args)) {
            Ok(()) => Ok(self.start_multi_read(slots, args, true)),
            Err(error) => {
                self.multi.pools[pool].idle.append(&mut slots);
                self.multi.queries.push(slots);
                Err(error)
            }
        }
    }

    /// The error of a multi-key read as a whole: that of the first part that failed. 0 before it completes.
    pub fn multi_read_error(&self, multi_read: u64) -> Result<i32, i32> {
        Ok(self.multi_reads[self.multi_read_at(multi_read)?].error)
    }

    /// How many keys there are so far; a key that was asked for twice counts twice.
    pub fn multi_read_found(&self, multi_read: u64) -> Result<u32, i32> {
        Ok(self.multi_reads[self.multi_read_at(multi_read)?].found)
    }

    /// Whether all its keys are known.
    pub fn multi_read_is_complete(&self, multi_read: u64) -> Result<bool, i32> {
        Ok(self.multi_reads[self.multi_read_at(multi_read)?].pending == 0)
    }

    /// How many keys it has.
    pub fn multi_read_keys(&self, multi_read: u64) -> Result<usize, i32> {
        Ok(self.multi_reads[self.multi_read_at(multi_read)?].states.len())
    }

    /// What became of the key at `index`.
    pub fn multi_read_key(&self, multi_read: u64, index: usize) -> Result<KeyState, i32> {
        let states = &self.multi_reads[self.multi_read_at(multi_read)?].states;
        states.get(index).copied().ok_or(own::INVALID_ARGUMENT)
    }

    /// What its definition gave.
    pub fn multi_read_token(&self, multi_read: u64) -> Result<T, i32> {
        Ok(self.multi_reads[self.multi_read_at(multi_read)?].token)
    }

    /// The result row at `index` of a complete multi-key read by rows; `None` if it was not found.
    pub fn multi_read_row(&self, multi_read: u64, index: usize) -> Result<Option<&[u8]>, i32> {
        let read = &self.multi_reads[self.multi_read_at(multi_read)?];
        if read.state == State::Sent || !read.own_queries {
            return Err(own::QUERY_NOT_IDLE);
        }
        let (state, query) =
            read.states.get(index).zip(read.queries.get(index)).ok_or(own::INVALID_ARGUMENT)?;
        let found = *state == KeyState::Found;
        Ok(found.then(|| self.queries[*query].attr_row.bytes()))
    }

    /// Gives up a complete multi-key read and its results.
    pub fn close_multi_read(&mut self, multi_read: u64) -> Result<(), i32> {
        let at = self.multi_read_at(multi_read)?;
        if self.multi_reads[at].state == State::Sent {
            return Err(own::QUERY_NOT_IDLE);
        }
        if self.multi_reads[at].state == State::Complete {
            self.executed_multi_reads.retain(|&read| read != at);
            self.ready.retain(|&due| due != Due::MultiRead(at));
            self.release_queries(at);
        }
        if let Some(MultiRead { mut queries, mut states, own_queries, .. }) = self.multi_reads.remove(at) {
            if own_queries && let Some(&first) = queries.first() {
                let pool = self.pool_of(first);
                self.multi.pools[pool].idle.extend_from_slice(&queries);
            }
            queries.clear();
            states.clear();
            self.multi.queries.push(queries);
            self.multi.states.push(states);
        }
        Ok(())
    }

    /// The oldest complete multi-key read that has no callback.
    pub fn next_executed_multi_read(&mut self) -> Option<u64> {
        let at = self.executed_multi_reads.pop_front()?;
        self.multi_reads[at].state = State::Idle;
        self.release_queries(at);
        Some(self.multi_reads.handle(at))
    }

    pub(super) fn multi_read_at(&self, multi_read: u64) -> Result<u32, i32> {
        self.multi_reads.find(multi_read).ok_or(own::STALE_QUERY)
    }

    /// Its callback is about to run.
    pub(super) fn enter_multi_read(&mut self, at: u32) -> (u64, T) {
        self.multi_reads[at].state = State::InCallback;
        self.release_queries(at);
        (self.multi_reads.handle(at), self.multi_reads[at].token)
    }

    /// The queries are the caller's again.
    fn release_queries(&mut self, at: u32) {
        for &query in &self.multi_reads[at].queries {
            self.queries[query].state = State::Idle;
            self.queries[query].multi_read = NONE;
        }
    }

    /// Checks, packs and places the reads. After an error all is as it was.
    fn read_all(&mut self, queries: &[u32], args: &Args<T>) -> Result<(), i32> {
        if self.finished {
            return Err(own::NOT_CONNECTED);
        }
        if queries.is_empty() || queries.len() > MAX_KEYS {
            return Err(own::INVALID_ARGUMENT);
        }
        if self.in_flight + queries.len() > self.max_in_flight {
            return Err(self.refused(own::TOO_MANY_IN_FLIGHT));
        }
        // Room for every part's transaction.
        if !self.transactions.has_room(queries.len()) || !self.multi_reads.has_room(1) {
            return Err(own::TOO_MANY_IN_FLIGHT);
        }
        if !self.work.iter_mut().any(Work::adopt) {
            self.take_losses();
        }
        let packed = self.pack_all(queries, args);
        let placed = packed.and_then(|()| self.place_all(queries));
        if placed.is_err() {
            self.give_up_queries(queries);
        }
        placed.map(|placement| self.send_parts(queries, placement, args))
    }

    fn give_up_queries(&mut self, queries: &[u32]) {
        for &at in queries {
            let query = &mut self.queries[at];
            if query.state == State::Gathered && query.multi_read == NONE {
                query.state = State::Idle;
            }
        }
    }

    fn pack_all(&mut self, queries: &[u32], args: &Args<T>) -> Result<(), i32> {
        let incarnation = self.cluster.incarnation.load(std::sync::atomic::Ordering::Relaxed);
        let sender = self.port.block();
        let operation = match args.kind {
            Kind::Gather => Operation::Read(LockMode::Committed),
            Kind::Exists => Operation::Exists,
        };
        for &at in queries {
            let id = self.operation_id(at);
            let query = &mut self.queries[at];
            // One that is in the list twice is met here the second time.
            if !matches!(query.state, State::Idle | State::InCallback) {
                return Err(own::QUERY_NOT_IDLE);
            }
            query.standing.check(incarnation)?;
            query.pack(sender, id, operation)?;
            query.state = State::Gathered;
        }
        Ok(())
    }

    /// Finds the owners, and whether there is room for what goes to them.
    fn place_all(&mut self, queries: &[u32]) -> Result<Placement, i32> {
        let mut owners = std::mem::take(&mut self.multi.owners);
        owners.clear();
        for several in queries.chunks(LANES) {
            let fragments = self.fragments(several);
            owners.extend(several.iter().zip(fragments).map(|(&at, fragment)| self.owner(at, fragment?)));
        }
        let placement = placement(&owners);
        let coordinator = match placement {
            Placement::Coordinator => self.choose_node(0, None).map(Some),
            _ => Ok(None),
        };
        if let Ok(Some(node)) = coordinator {
            owners.iter_mut().for_each(|owner| *owner = Some(node));
        }
        let full = owners.iter().flatten().any(|&node| self.work[node].waiting() > self.max_waiting);
        self.multi.owners = owners;
        match coordinator? {
            _ if full => Err(own::SEND_BUFFER_FULL),
            _ => Ok(placement),
        }
    }

    /// The fragments of some queries' keys; at most [`LANES`].
    fn fragments(&self, queries: &[u32]) -> [Option<u32>; LANES] {
        let Some((&first, others)) = queries.split_first() else { return [None; LANES] };
        let first = &self.queries[first];
        let mut rows = [first.key_row.bytes(); LANES];
        for (row, &at) in rows[1..].iter_mut().zip(others) {
            let query = &self.queries[at];
            if !Arc::ptr_eq(&first.table, &query.table) || !Arc::ptr_eq(&first.key, &query.key) {
                let alone =
                    |query: &Query<T>| query.table.fragment_for_key(&query.key, query.key_row.bytes());
                return std::array::from_fn(|at| queries.get(at).and_then(|&at| alone(&self.queries[at])));
            }
            *row = query.key_row.bytes();
        }
        first.table.fragments_for_keys(&first.key, &rows[..queries.len()])
    }

    /// The node of the first replica of a query's fragment that takes work.
    fn owner(&mut self, at: u32, fragment: u32) -> Option<usize> {
        let replicas = self.queries[at].table.fragments.get(fragment as usize)?;
        replicas.iter().find_map(|&id| {
            let at = self.work.iter().position(|work| work.node.id == id)?;
            self.work[at].adopt().then_some(at)
        })
    }

    /// Makes a transaction of each part, and packs it as its commit would be.
    fn send_parts(&mut self, queries: &[u32], placement: Placement, args: &Args<T>) {
        match placement {
            Placement::Slotted(_) => self.statistics.multikey_slotted += 1,
            Placement::FanOut => self.statistics.multikey_fanout += 1,
            Placement::Coordinator => self.statistics.multikey_coordinator += 1,
        }
        let limit = args.limit.map_or(self.limit, deadline::nanos);
        let owners = std::mem::take(&mut self.multi.owners);
        let mut deferred = false;
        for node in 0..self.work.len() {
            let mut part = NONE;
            let of_node = queries.iter().zip(&owners).filter(|(_, owner)| **owner == Some(node));
            for (key, (&at, _)) in of_node.enumerate() {
                if key.is_multiple_of(PART_KEYS) {
                    deferred |= self.end_part(part);
                    part = self.start_part(node, limit);
                }
                self.queries[at].define(false, args.token);
                self.join(at, part);
            }
            deferred |= self.end_part(part);
        }
        self.multi.owners = owners;
        self.statistics.multikey_deferred += deferred as u64;
        self.in_flight += queries.len();
    }

    fn start_part(&mut self, node: usize, limit: u64) -> u32 {
        let transid = self.transid;
        let transaction = Transaction { closed: true, part: true, ..Transaction::new(node, transid, limit) };
        // There is room, as was checked.
        let at = self.transactions.insert(transaction).unwrap_or(NONE);
        self.transid[0] = transid[0].wrapping_add(1);
        self.statistics.multikey_parts += 1;
        self.multi.parts += 1;
        self.statistics.most_multikey_parts = self.statistics.most_multikey_parts.max(self.multi.parts);
        match self.work[node].idle.pop() {
            Some(record) => self.give_record(at, record),
            None => self.wait_for_record(at),
        }
        at
    }

    /// Packs a part; true if it must wait for a record.
    fn end_part(&mut self, at: u32) -> bool {
        if at == NONE {
            return false;
        }
        self.transactions[at].wish = Wish::Commit;
        if self.transactions[at].record == NONE {
            return true;
        }
        self.advance(at);
        self.is_sealed(at);
        false
    }

    fn start_multi_read(&mut self, queries: Vec<u32>, args: Args<T>, own_queries: bool) -> u64 {
        let mut states = self.multi.states.pop().unwrap_or_default();
        states.resize(queries.len(), KeyState::Pending);
        let read = MultiRead {
            pending: queries.len(),
            states,
            queries,
            found: 0,
            error: 0,
            state: State::Sent,
            callback: args.callback,
            token: args.token,
            own_queries,
        };
        let at = self.multi_reads.insert(read).unwrap_or(NONE);
        for index in 0..self.multi_reads[at].queries.len() {
            let query = self.multi_reads[at].queries[index];
            self.queries[query].multi_read = at;
            self.queries[query].index = index as u32;
        }
        self.multi_reads.handle(at)
    }

    /// A query of a multi-key read is complete.
    pub(super) fn gathered(&mut self, q: u32) {
        let query = &mut self.queries[q];
        query.state = State::Gathered;
        let (at, index, error) = (query.multi_read, query.index as usize, query.error);
        let read = &mut self.multi_reads[at];
        read.states[index] = match error {
            0 => KeyState::Found,
            ndb::NO_SUCH_ROW => KeyState::Missing,
            error => KeyState::Failed(error),
        };
        read.found += (error == 0) as u32;
        if read.error == 0 && error != ndb::NO_SUCH_ROW {
            read.error = error;
        }
        read.pending -= 1;
        if read.pending > 0 {
            return;
        }
        read.state = State::Complete;
        self.done += read.queries.len() as u64;
        if read.callback {
            self.ready.push_back(Due::MultiRead(at));
        } else {
            self.executed_multi_reads.push_back(at);
        }
    }

    /// The pool of queries for these records.
    fn pool(&mut self, source: Source<'_>) -> Result<usize, i32> {
        let fits = |pool: &Pool| {
            Arc::ptr_eq(&pool.table, source.table)
                && Arc::ptr_eq(&pool.key, source.key)
                && pool.attr.as_ref().map(Arc::as_ptr) == source.attr.map(Arc::as_ptr)
        };
        if let Some(at) = self.multi.pools.iter().position(fits) {
            return Ok(at);
        }
        let of_table = |record: &Record| record.is_of(source.table);
        if !of_table(source.key)
            || source.key.key_fields().is_none()
            || !source.attr.is_none_or(|attr| of_table(attr))
        {
            return Err(own::RECORD_MISMATCH);
        }
        let (table, key, attr) = (source.table.clone(), source.key.clone(), source.attr.cloned());
        self.multi.pools.push(Pool { table, key, attr, idle: Vec::new() });
        Ok(self.multi.pools.len() - 1)
    }

    fn pool_of(&self, query: u32) -> usize {
        let query = &self.queries[query];
        let fits = |pool: &Pool| {
            Arc::ptr_eq(&pool.table, &query.table)
                && Arc::ptr_eq(&pool.key, &query.key)
                && pool.attr.as_ref().map(Arc::as_ptr) == query.attr.as_ref().map(Arc::as_ptr)
        };
        self.multi.pools.iter().position(fits).expect("the pool that the query came from")
    }

    /// Queries of the connection's own that wait for their next use.
    #[cfg(all(any(test, fuzzing), not(loom)))]
    pub(super) fn own_idle_queries(&self) -> usize {
        self.multi.pools.iter().map(|pool| pool.idle.len()).sum()
    }

    fn own_query(&mut self, source: Source<'_>, token: T) -> Result<u32, i32> {
        let (table, standing) = (source.table.clone(), source.standing.clone());
        let query = Query::new(table, standing, source.key.clone(), source.attr.cloned(), token);
        self.queries.insert(query).ok_or(own::TOO_MANY_IN_FLIGHT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_function_places() {
        let (a, b) = (Some(3), Some(5));
        assert_eq!(placement(&[a, a, a]), Placement::Slotted(3));
        assert_eq!(placement(&[b]), Placement::Slotted(5));
        assert_eq!(placement(&[a, b, a]), Placement::FanOut);
        assert_eq!(placement(&[a, None]), Placement::Coordinator);
        assert_eq!(placement(&[None, a]), Placement::Coordinator);
        assert_eq!(placement(&[None]), Placement::Coordinator);
    }
}
