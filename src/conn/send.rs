//! Packing requests for their nodes, coordinator records, and the one write per node.

use super::slots::NONE;
use super::transaction::{Phase, Record, Transaction, Usage, Wish};
use super::{Connection, Work};
use crate::dict::table::Table;
use crate::error::{ndb, own};
use crate::link::sender::Company;
use crate::wire::block::{DBTC, block_of};
use crate::wire::transaction::{self as signals, SeizeConf, SeizeRef, TransId, key_request};

/// Coordinator records seized at once when none is idle: as many as the node has, but within these limits, so
/// that a growing load asks seldom.
const SEIZE_AHEAD: (usize, usize) = (4, 64);

impl<T: Copy> Connection<T> {
    /// Index of the node for a new transaction.
    #[inline]
    pub(super) fn choose_node(&mut self, hint: u32, table: Option<&Table>) -> Result<usize, i32> {
        if let Some(table) = table
            && hint > 0
        {
            let replicas = table.fragments.get(hint as usize - 1).ok_or(own::INVALID_ARGUMENT)?;
            for &id in replicas {
                if let Some(at) = self.work.iter().position(|work| work.node.id == id)
                    && self.work[at].adopt()
                {
                    return Ok(at);
                }
            }
        }
        self.next_node = self.next_node.wrapping_add(1);
        let count = self.work.len();
        let mut all = (0..count).map(|i| (self.next_node + i) % count);
        all.find(|&at| self.work[at].adopt()).ok_or(own::NO_NODE)
    }

    /// Puts a transaction on a record.
    #[inline]
    pub(super) fn give_record(&mut self, at: u32, record: u32) {
        self.transactions[at].record = record;
        self.records[record as usize].usage = Usage::Busy(at);
    }

    /// Has a transaction wait for a record of its node, seizing some if too few are on their way.
    pub(super) fn wait_for_record(&mut self, at: u32) {
        let Transaction { node, transid, .. } = self.transactions[at];
        let work = &mut self.work[node];
        work.waiting.push_back((at, transid));
        if work.waiting.len() <= work.seizing {
            return;
        }
        let count = work.records.clamp(SEIZE_AHEAD.0, SEIZE_AHEAD.1);
        let (sender, own) = (self.port.block(), self.own_reference());
        for _ in 0..count {
            let record = Record { node, connect: 0, block: 0, usage: Usage::Seizing };
            let slot = match self.unused_records.pop() {
                Some(slot) => {
                    self.records[slot as usize] = record;
                    slot
                }
                None => {
                    self.records.push(record);
                    self.records.len() as u32 - 1
                }
            };
            let work = &mut self.work[node];
            signals::seize(&mut work.buffer, DBTC, sender, slot << 1, own, 0);
            work.note_request(self.clock);
            work.seizing += 1;
            work.records += 1;
        }
    }

    /// A record was seized.
    pub(super) fn seized(&mut self, node: usize, conf: &SeizeConf) {
        let slot = conf.client >> 1;
        match self.records.get_mut(slot as usize) {
            Some(record) if record.node == node && record.usage == Usage::Seizing => {
                record.connect = conf.connect;
                record.block = block_of(conf.reference);
                record.usage = Usage::Idle;
                self.work[node].seizing -= 1;
                self.reuse_record(slot);
            }
            _ => self.statistics.late_replies += 1,
        }
    }

    /// A seize was refused. A transaction that waits goes on waiting while the node has other records that
    /// will come free, else it tries the next node, and fails after the last.
    pub(super) fn seize_refused(&mut self, node: usize, refused: &SeizeRef) {
        let slot = refused.client >> 1;
        match self.records.get_mut(slot as usize) {
            Some(record) if record.node == node && record.usage == Usage::Seizing => {
                record.usage = Usage::Unused;
                self.unused_records.push(slot);
                self.work[node].seizing -= 1;
                self.work[node].records -= 1;
            }
            _ => {
                self.statistics.late_replies += 1;
                return;
            }
        }
        if self.work[node].records > 0 {
            return;
        }
        while let Some(at) = self.next_waiting(node) {
            self.move_on(at, refused.error);
        }
    }

    /// Moves a transaction that waits for a record, and has sent nothing, to the next usable node; ends it with
    /// `error` when it has tried them all.
    pub(super) fn move_on(&mut self, at: u32, error: i32) {
        let transaction = &mut self.transactions[at];
        transaction.refusals += 1;
        if transaction.refusals as usize >= self.work.len() {
            return self.end(at, error, false);
        }
        let (node, count) = (transaction.node, self.work.len());
        match (1..=count).map(|i| (node + i) % count).find(|&to| self.work[to].adopt()) {
            Some(to) => {
                self.transactions[at].node = to;
                match self.work[to].idle.pop() {
                    Some(record) => {
                        self.give_record(at, record);
                        self.advance(at);
                    }
                    None => self.wait_for_record(at),
                }
                // The caller's send may be over.
                self.work[to].urgent = true;
            }
            None => self.end(at, error, false),
        }
    }

    /// Gives a record that is free to the transaction that has waited longest, else keeps it.
    #[inline]
    pub(super) fn reuse_record(&mut self, record: u32) {
        let node = self.records[record as usize].node;
        match self.next_waiting(node) {
            Some(at) => {
                self.give_record(at, record);
                self.advance(at);
            }
            None => {
                self.records[record as usize].usage = Usage::Idle;
                self.work[node].idle.push(record);
            }
        }
    }

    #[inline]
    fn next_waiting(&mut self, node: usize) -> Option<u32> {
        while let Some((at, transid)) = self.work[node].waiting.pop_front() {
            if self.still_waits(at, transid, node) {
                return Some(at);
            }
        }
        None
    }

    /// Whether a transaction that was to wait for a record of a node still does.
    pub(super) fn still_waits(&self, at: u32, transid: TransId, node: usize) -> bool {
        let waits = |t: &Transaction| t.transid == transid && t.record == NONE && t.phase == Phase::Open;
        self.transactions.get(at).is_some_and(|t| waits(t) && t.node == node)
    }

    /// Does what an open transaction with a record has been asked for.
    #[inline]
    pub(super) fn advance(&mut self, at: u32) {
        let transaction = &mut self.transactions[at];
        let defined = transaction.first_defined != NONE;
        match transaction.wish {
            Wish::Commit if defined => self.pack(at, true),
            Wish::Commit if transaction.started => {
                transaction.phase = Phase::Committing;
                let (record, transid) = (self.records[transaction.record as usize], transaction.transid);
                self.start_deadline(at);
                let transaction = &mut self.transactions[at];
                let work = &mut self.work[transaction.node];
                work.note_request(self.clock);
                transaction.epoch = work.epoch;
                work.urgent |= transaction.send_wanted;
                signals::commit(&mut work.buffer, record.block, self.port.block(), record.connect, transid);
            }
            // An empty commit has ended when it was asked for.
            Wish::Commit => self.end(at, 0, true),
            Wish::None if defined && transaction.send_wanted => self.pack(at, false),
            Wish::None => {}
        }
    }

    /// Copies a transaction's defined queries to the buffer of its node, their flags set.
    #[inline]
    fn pack(&mut self, at: u32, commit: bool) {
        let now = self.stamp.packed(&self.cluster.holds);
        let transaction = &mut self.transactions[at];
        let record = self.records[transaction.record as usize];
        let work = &mut self.work[transaction.node];
        let mut next = transaction.first_defined;
        while next != NONE {
            let query = &mut self.queries[next];
            let mut info = query.info;
            if !transaction.started {
                transaction.started = true;
                info = info.start();
            }
            next = query.next;
            if next == NONE {
                info = if commit { info.execute_and_commit() } else { info.execute() };
            }
            key_request::address(&mut query.request, record.block, record.connect, transaction.transid, info);
            query.transid = transaction.transid;
            query.state = super::query::State::Sent;
            query.losses = self.losses;
            query.since = now;
            self.unpacked -= query.request.len();
            work.buffer.extend_from_slice(&query.request);
        }
        transaction.first_defined = NONE;
        transaction.phase = if commit { Phase::ExecutingCommit } else { Phase::Executing };
        transaction.epoch = work.epoch;
        work.urgent |= std::mem::take(&mut transaction.send_wanted);
        work.note_request(self.clock);
        self.due = self.due.min(transaction.start_deadline(self.clock));
    }

    /// At a send: packs what no commit has sealed, and marks what must wait to go out by itself.
    pub(super) fn seal_all(&mut self) {
        let mut unsealed = std::mem::take(&mut self.unsealed);
        for at in unsealed.drain(..) {
            let transaction = &mut self.transactions[at];
            transaction.unsealed = false;
            if transaction.phase == Phase::Executing {
                transaction.send_wanted = true;
            } else if transaction.record == NONE {
                transaction.send_wanted = true;
                if transaction.phase == Phase::Open {
                    self.start_deadline(at);
                }
            } else if transaction.phase == Phase::Open && transaction.first_defined != NONE {
                self.pack(at, false);
            }
        }
        self.unsealed = unsealed;
    }

    /// Writes the buffers that `choose` accepts; without `force` the link may hold them for company.
    pub(super) fn transmit(&mut self, force: bool, choose: impl Fn(&WorkView) -> bool) {
        let mut company = None;
        let mut read_clock = true;
        for at in 0..self.work.len() {
            let work = &self.work[at];
            if work.buffer.is_empty() || !choose(&WorkView { urgent: work.urgent, requests: work.requests }) {
                continue;
            }
            if std::mem::take(&mut read_clock) {
                self.tick();
                let (now, limit) = (self.clock, self.cluster.holds.limit.as_nanos() as u64);
                company = (!force).then_some(Company { from: self.port.block(), now, limit });
            }
            self.restart_deadlines(at);
            let work = &mut self.work[at];
            let waiting = 4 * work.buffer.len() + work.node.sender.waiting();
            self.statistics.most_waiting = self.statistics.most_waiting.max(waiting as u64);
            // A refusal means that the link is lost; its news is in the inbox and ends what was packed.
            if let Ok(sent) = work.node.sender.send(work.generation, &work.buffer, company) {
                work.epoch = work.epoch.wrapping_add(1);
                self.statistics.sends += 1;
                self.statistics.bytes_sent += 4 * work.buffer.len() as u64;
                self.statistics.writes += sent.writes as u64;
                if let Some(deadline) = sent.held {
                    self.statistics.held += 1;
                    self.cluster.holds.hold(at, deadline);
                }
            }
            work.buffer.clear();
            work.requests = false;
            work.urgent = false;
        }
    }

    /// Rolls back a transaction that no commit was sealed for.
    pub(super) fn roll_back(&mut self, at: u32) {
        self.fail_defined(at, ndb::ROLLED_BACK);
        let transaction = &mut self.transactions[at];
        transaction.wish = Wish::None;
        if !transaction.started {
            return self.end(at, 0, false);
        }
        transaction.phase = Phase::RollingBack;
        self.request_rollback(at);
    }

    /// Appends TCROLLBACKREQ for a transaction's record.
    pub(super) fn request_rollback(&mut self, at: u32) {
        let transaction = &mut self.transactions[at];
        let (record, transid) = (self.records[transaction.record as usize], transaction.transid);
        let work = &mut self.work[transaction.node];
        transaction.epoch = work.epoch;
        work.note_request(self.clock);
        signals::rollback(&mut work.buffer, record.block, self.port.block(), record.connect, transid, false);
        // The operations that are out end with the rollback: no later than they would without it.
        let before = transaction.deadline;
        self.start_deadline(at);
        let deadline = &mut self.transactions[at].deadline;
        *deadline = before.min(*deadline);
    }

    /// Releases the records that no transaction is on.
    pub(super) fn release_records(&mut self) {
        let (sender, own) = (self.port.block(), self.own_reference());
        for work in self.work.iter_mut().filter(|work| work.generation != 0) {
            if !work.idle.is_empty() {
                work.note_request(self.clock);
            }
            for slot in work.idle.drain(..) {
                let record = self.records[slot as usize];
                signals::release(&mut work.buffer, record.block, sender, record.connect, own, slot << 1);
            }
        }
    }
}

/// What decides whether a buffer is written.
pub(super) struct WorkView {
    pub urgent: bool,
    pub requests: bool,
}

impl Work {
    /// A request goes into the buffer.
    #[inline]
    pub(super) fn note_request(&mut self, clock: u64) {
        if !self.requests {
            self.requests = true;
            self.packed_at = clock;
        }
    }

    /// Bytes that wait for the node, here and on its link.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        4 * self.buffer.len() + self.node.sender.waiting()
    }

    /// Whether the node has a link of which the loss has not been read.
    pub(super) fn is_connected(&self) -> bool {
        self.node.latest_generation() > self.lost_generation
    }

    /// Whether new work may go to the node now. Takes on its link if nothing of an older one is left here.
    #[inline]
    pub(super) fn adopt(&mut self) -> bool {
        match self.node.usable() {
            Some(generation) if self.generation == 0 => {
                self.generation = generation;
                true
            }
            usable => usable == Some(self.generation),
        }
    }
}
