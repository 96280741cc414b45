//! Deadlines: what ends when no reply comes, and the coordinator records that outlive their transactions.
//!
//! What a transaction has out gets its deadline when it is packed, from a clock that is read once per send
//! and once per poll; a send that comes much later starts the time anew. The connection knows a time before
//! which nothing is due, so that looking at all transactions is needed only when that time has come.
//!
//! At its deadline a transaction without a sent commit is rolled back and ends with [`own::DEADLINE`]; one
//! with writes whose commit was sent ends with [`ndb::UNKNOWN_RESULT`]. Its record is set aside until the
//! node's final reply, then used again.

use std::time::Duration;

use super::Connection;
use super::query::State;
use super::slots::NONE;
use super::transaction::{NEVER, Phase, Transaction, Usage};
use crate::cluster::Left;
use crate::error::{ndb, own};
use crate::wire::transaction::{Ending, TransId};

/// Between packing and sending, nanoseconds: a send that comes later starts the deadlines of what it sends
/// anew, and deadlines are so much later than asked for that none is early.
const SLACK: u64 = 10_000_000;

impl<T: Copy> Connection<T> {
    /// How long what is sent from now on may go without a reply; the cluster's default when absent.
    /// Transactions that are started already keep their limits.
    pub fn set_deadline(&mut self, limit: Option<Duration>) {
        self.limit = nanos(limit.unwrap_or(self.cluster.deadline));
    }

    /// The same for one transaction. It holds from its next send.
    pub fn set_transaction_deadline(&mut self, transaction: u64, limit: Option<Duration>) -> Result<(), i32> {
        let at = self.transaction_at(transaction)?;
        self.transactions[at].limit = limit.map_or(self.limit, nanos);
        Ok(())
    }

    /// Reads the clock.
    #[inline]
    pub(super) fn tick(&mut self) {
        self.clock = self.cluster.holds.now();
    }

    /// Something of a transaction goes out, or starts to wait for its record.
    #[inline]
    pub(super) fn start_deadline(&mut self, at: u32) {
        let deadline = self.transactions[at].start_deadline(self.clock);
        self.due = self.due.min(deadline);
    }

    /// The buffer of a node is about to be written: what was packed long before has its time from now.
    #[inline]
    pub(super) fn restart_deadlines(&mut self, node: usize) {
        if self.work[node].requests && self.clock.saturating_sub(self.work[node].packed_at) > SLACK / 2 {
            self.restart_unsent(node);
        }
    }

    #[cold]
    fn restart_unsent(&mut self, node: usize) {
        let epoch = self.work[node].epoch;
        for at in 0..self.transactions.bound() {
            let unsent = |t: &Transaction| t.deadline != NEVER && t.node == node && t.epoch == epoch;
            if self.transactions.get(at).is_some_and(unsent) {
                self.start_deadline(at);
            }
        }
    }

    /// Ends what is due.
    #[inline]
    pub(super) fn check_deadlines(&mut self) {
        if self.clock >= self.due {
            self.expire();
        }
    }

    #[cold]
    fn expire(&mut self) {
        self.due = NEVER;
        for at in 0..self.transactions.bound() {
            let Some(transaction) = self.transactions.get(at) else { continue };
            let over = transaction.phase == Phase::Ended && transaction.first == NONE;
            if transaction.deadline == NEVER || over {
                continue;
            }
            let work = &self.work[transaction.node];
            if transaction.record != NONE && transaction.epoch == work.epoch && work.requests {
                // Packed and not sent yet: its time has not begun.
                self.start_deadline(at);
            } else if transaction.deadline <= self.clock {
                self.expire_transaction(at);
            } else {
                self.due = self.due.min(transaction.deadline);
            }
        }
    }

    fn expire_transaction(&mut self, at: u32) {
        let transaction = &mut self.transactions[at];
        transaction.deadline = NEVER;
        self.statistics.deadlines += 1;
        let writes = transaction.writes;
        match transaction.phase {
            Phase::Open if transaction.record == NONE => self.end(at, own::DEADLINE, false),
            Phase::Open => {}
            Phase::Executing => {
                self.request_rollback(at);
                // The caller's send may be over.
                self.work[self.transactions[at].node].urgent = true;
                self.set_aside(at, true);
                self.end(at, own::DEADLINE, false);
            }
            Phase::RollingBack => {
                self.set_aside(at, true);
                self.end(at, 0, false);
            }
            Phase::ExecutingCommit | Phase::Committing => {
                self.set_aside(at, false);
                // Without writes there is nothing to be unsure of.
                self.end(at, if writes { ndb::UNKNOWN_RESULT } else { own::DEADLINE }, false);
            }
            Phase::TakingOver => self.end(at, ndb::UNKNOWN_RESULT, false),
            Phase::Ended => self.expire_reads(at),
        }
    }

    /// The transaction has ended; rows that it read have not come.
    fn expire_reads(&mut self, at: u32) {
        let mut next = self.transactions[at].first;
        while next != NONE {
            let q = next;
            next = self.queries[q].next;
            if self.queries[q].state == State::Sent {
                self.rows_lost(q, own::DEADLINE);
                self.complete(q);
            }
        }
    }

    /// Parts a transaction from its record, which stays busy until its final reply.
    pub(super) fn set_aside(&mut self, at: u32, rolling_back: bool) {
        let transaction = &mut self.transactions[at];
        let record = std::mem::replace(&mut transaction.record, NONE);
        let transid = transaction.transid;
        self.records[record as usize].usage = Usage::Aside { transid, rolling_back };
    }

    /// The connection ends: records that are still busy are the manager's from now on.
    pub(super) fn leave_records(&mut self) {
        for (slot, record) in self.records.iter().enumerate() {
            let work = &self.work[record.node];
            let Usage::Aside { transid, rolling_back } = record.usage else { continue };
            if work.generation != 0 {
                self.cluster.leave(Left {
                    node: work.node.id,
                    generation: work.generation,
                    port: (self.port.block(), (slot as u32) << 1),
                    coordinator: (record.block, record.connect),
                    transid,
                    rolling_back,
                });
            }
        }
    }

    /// A reply that names a record and no transaction of the caller. The final one of a record that was set
    /// aside frees it.
    #[cold]
    pub(super) fn late_reply(&mut self, node: usize, client: u32, transid: TransId, ending: Ending) {
        self.statistics.late_replies += 1;
        let slot = client >> 1;
        let Some(record) = self.records.get(slot as usize).filter(|record| record.node == node) else {
            return;
        };
        let Usage::Aside { transid: of, rolling_back } = record.usage else { return };
        if of == transid && ending.is_last(rolling_back) {
            self.reuse_record(slot);
        }
    }
}

pub(super) fn nanos(limit: Duration) -> u64 {
    (limit.as_nanos() as u64).saturating_add(SLACK)
}
