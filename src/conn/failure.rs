//! What the loss of a link does, and how transactions end whose coordinator's node is lost.
//!
//! A transaction that had no commit out, or no writes, ends at once: the nodes abort it. One with writes
//! whose commit was sent waits, for the nodes that are left decide: TCKEY_FAILCONF says that it was
//! committed, TCKEY_FAILREF that it was aborted, and when every node that was connected has reported the end
//! of the take-over without naming it, no part of it was found, so it was not committed. If one of those
//! nodes is lost before its report, or a node had no link to this client, the outcome cannot be known; so it
//! is when all are lost, as when this client was expelled.
//!
//! All of this is read in the order in which the links brought it: which nodes are connected, which reports
//! have come. A report may even be read before the loss of the link that it explains; so every loss waits for
//! its reports, even if no transaction does, or one that is late would be taken for that of the next. Source:
//! the protocol notes in doc/ndb-protocol.md; storage/ndb/src/kernel/blocks/dbtc/DbtcMain.cpp.

use super::Connection;
use super::query::{Confirmed, State};
use super::slots::NONE;
use super::transaction::{Phase, Usage};
use crate::error::{ndb, own};
use crate::wire::NodeId;
use crate::wire::registration::NodeSet;
use crate::wire::transaction::TransId;

/// Transactions of a lost coordinator, while others tell what became of them.
#[derive(Debug, Default)]
pub(super) struct TakeOver {
    /// Their slots, and their ids, for a slot may come to hold another.
    transactions: Vec<(u32, TransId)>,
    /// The nodes whose reports on the last loss are still to come.
    awaited: NodeSet,
    /// One of them was lost before its report.
    doubtful: bool,
}

impl<T: Copy> Connection<T> {
    /// A generation of a link is lost: what its node coordinated ends, and committed reads whose row was to
    /// come over it are lost.
    #[cold]
    pub(super) fn link_lost(&mut self, node: usize, generation: u32) {
        let id = self.work[node].node.id;
        self.port.forget_fragments(id);
        self.losses += 1;
        let work = &mut self.work[node];
        work.lost_at = self.losses;
        work.lost_generation = work.lost_generation.max(generation);
        let reports = std::mem::take(&mut work.reports);
        for failed in 0..self.work.len() {
            if self.work[failed].take_over.awaited.contains(id) {
                self.work[failed].take_over.doubtful = true;
                self.no_longer_awaited(failed, id);
            }
        }
        // Of an older generation, if it still waits: nobody reports on that any more.
        self.end_take_over(node, true);
        let orphans = match self.work[node].generation == generation {
            true => self.coordinator_lost(node),
            false => Vec::new(),
        };
        self.start_take_over(node, orphans, reports);
        for q in 0..self.queries.bound() {
            let waits = |q: &super::Query<T>| q.state == State::Sent && q.confirmed != Confirmed::No;
            if self.queries.get(q).is_some_and(waits) {
                self.may_be_lost(q);
            }
        }
    }

    /// Ends a read that is confirmed and whose row was to come over a link that was lost since the read was
    /// packed: the row would have come before the news of the loss. Of a read with a lock the confirmation
    /// does not say who sends the row, so any loss ends it.
    #[cold]
    pub(super) fn may_be_lost(&mut self, q: u32) {
        let query = &mut self.queries[q];
        let id = match query.confirmed {
            Confirmed::No => return,
            Confirmed::ReadBy(id) => Some(id),
            Confirmed::Words(_) => None,
        };
        // A node without a link to this client sends the row through the coordinator's node.
        let coordinator = self.work[self.transactions[query.transaction].node].node.id;
        let on_its_way = |node: NodeId| id.is_none_or(|id| node == id || node == coordinator);
        let mut nodes = self.work.iter().filter(|work| on_its_way(work.node.id));
        if nodes.any(|work| work.lost_at > query.losses) && !query.is_answered() {
            self.read_lost(q);
        }
    }

    /// A read's row does not come.
    fn read_lost(&mut self, q: u32) {
        let query = &mut self.queries[q];
        query.error = ndb::READ_LOST;
        query.refused = true;
        if self.transactions[query.transaction].committed {
            self.rows_lost(q, ndb::READ_LOST);
        }
        self.answered(q);
    }

    /// The transaction of a query is committed and the query's row does not come: its error. Only where
    /// nothing but committed reads was committed may the caller simply do it all again.
    pub(super) fn rows_lost(&mut self, q: u32, error: i32) {
        let query = &mut self.queries[q];
        let harmless =
            matches!(query.confirmed, Confirmed::ReadBy(_)) && !self.transactions[query.transaction].writes;
        query.error = if harmless { error } else { ndb::COMMITTED_ROWS_LOST };
    }

    /// Ends what a node coordinated, but for what others must tell the outcome of, which it returns.
    /// Transactions that wait for a record there go elsewhere.
    fn coordinator_lost(&mut self, node: usize) -> Vec<(u32, TransId)> {
        let work = &mut self.work[node];
        let epoch = work.epoch;
        work.generation = 0;
        work.buffer.clear();
        work.requests = false;
        work.urgent = false;
        work.idle.clear();
        work.seizing = 0;
        work.records = 0;
        let waiting = std::mem::take(&mut work.waiting);
        let mut orphans = Vec::new();
        for slot in 0..self.records.len() as u32 {
            let record = &mut self.records[slot as usize];
            if record.node != node || record.usage == Usage::Unused {
                continue;
            }
            let usage = std::mem::replace(&mut record.usage, Usage::Unused);
            self.unused_records.push(slot);
            let Usage::Busy(at) = usage else { continue };
            let transaction = &mut self.transactions[at];
            transaction.record = NONE;
            match transaction.error_without_reply(epoch) {
                ndb::UNKNOWN_RESULT => {
                    transaction.phase = Phase::TakingOver;
                    orphans.push((at, transaction.transid));
                }
                error => self.end(at, error, false),
            }
        }
        for (at, transid) in waiting {
            if self.still_waits(at, transid, node) {
                self.move_on(at, own::NO_NODE);
            }
        }
        orphans
    }

    /// Has transactions of a lost node wait for the nodes whose report is not among `reports`.
    fn start_take_over(&mut self, node: usize, transactions: Vec<(u32, TransId)>, reports: NodeSet) {
        let id = self.work[node].node.id;
        let others = || self.work.iter().filter(|work| work.node.id != id);
        // The node that takes over may be one without a link to this client: its word would not come.
        let doubtful = others().next().is_none() || !others().all(|work| work.is_connected());
        let connected = others().filter(|work| work.is_connected()).map(|work| work.node.id);
        let awaited = connected.filter(|&other| !reports.contains(other)).collect();
        self.work[node].take_over = TakeOver { transactions, awaited, doubtful };
        if self.work[node].take_over.awaited.is_empty() {
            self.end_take_over(node, doubtful);
        }
    }

    /// The cluster has given a node up, or the take-over of its transactions is over at the node that says
    /// so: what that one has confirmed as read by the lost node does not come, also if it was packed after
    /// the loss was read.
    #[cold]
    pub(super) fn reader_failed(&mut self, failed: NodeId) {
        for q in 0..self.queries.bound() {
            let by_it =
                |q: &super::Query<T>| q.state == State::Sent && q.confirmed == Confirmed::ReadBy(failed);
            if self.queries.get(q).is_some_and(by_it) && !self.queries[q].is_answered() {
                self.read_lost(q);
            }
        }
    }

    /// `reporter` has told all that it had to tell about the transactions of `failed`.
    pub(super) fn taken_over(&mut self, failed: NodeId, reporter: NodeId) {
        let Some(failed) = self.work.iter().position(|work| work.node.id == failed) else { return };
        let work = &mut self.work[failed];
        if work.take_over.awaited.contains(reporter) {
            self.no_longer_awaited(failed, reporter);
        } else if work.is_connected() {
            // The loss of its link is still to be read.
            work.reports.insert(reporter);
        }
    }

    fn no_longer_awaited(&mut self, failed: usize, reporter: NodeId) {
        let take_over = &mut self.work[failed].take_over;
        take_over.awaited.remove(reporter);
        if take_over.awaited.is_empty() {
            self.end_take_over(failed, false);
        }
    }

    /// Nobody says more about the transactions of a lost coordinator.
    pub(super) fn end_take_over(&mut self, node: usize, doubtful: bool) {
        let take_over = std::mem::take(&mut self.work[node].take_over);
        let error = match doubtful || take_over.doubtful {
            true => ndb::UNKNOWN_RESULT,
            false => ndb::NODE_FAILURE_ABORT,
        };
        for (at, transid) in take_over.transactions {
            if self.is_taken_over(at, transid) {
                self.end(at, error, false);
            }
        }
    }

    /// Whether a transaction still waits for others to tell its outcome.
    fn is_taken_over(&self, at: u32, transid: TransId) -> bool {
        let waits = |t: &super::Transaction| t.transid == transid && t.phase == Phase::TakingOver;
        self.transactions.get(at).is_some_and(waits)
    }

    /// Whether transactions wait for the outcome of a take-over.
    pub(super) fn awaits_take_over(&self) -> bool {
        let waits = |&(at, transid): &(u32, TransId)| self.is_taken_over(at, transid);
        self.work.iter().any(|work| work.take_over.transactions.iter().any(waits))
    }

    /// What the node that took over says of a transaction: `committed` or aborted. It may come before the
    /// loss of the coordinator's link is read. False if nothing waits for it.
    pub(super) fn outcome_of_take_over(&mut self, transid: TransId, committed: bool) -> bool {
        // Nobody commits what no commit was asked for.
        let live = |phase| match committed {
            true => matches!(phase, Phase::ExecutingCommit | Phase::Committing | Phase::TakingOver),
            false => !matches!(phase, Phase::Open | Phase::Ended),
        };
        let found = (0..self.transactions.bound())
            .find(|&at| self.transactions.get(at).is_some_and(|t| t.transid == transid && live(t.phase)));
        let Some(at) = found else { return false };
        if !committed {
            let asked = self.transactions[at].phase == Phase::RollingBack;
            self.end(at, if asked { 0 } else { ndb::TAKE_OVER_ABORT }, false);
            return true;
        }
        let mut next = self.transactions[at].first;
        while next != NONE {
            let query = &mut self.queries[next];
            next = query.next;
            if query.state == State::Sent && !query.is_answered() {
                // A row that has come is whole. One that has not will not come from the node that is lost.
                query.confirmed = Confirmed::Words(query.received);
                if query.info.is_read() && query.received == 0 && !query.refused {
                    query.error = ndb::COMMITTED_ROWS_LOST;
                }
            }
        }
        self.end(at, 0, true);
        true
    }

    /// Ends everything: the cluster is being left.
    pub(super) fn stop(&mut self) {
        for node in 0..self.work.len() {
            if self.work[node].generation != 0 && self.cluster.stopping() {
                self.link_lost(node, self.work[node].generation);
            }
            self.end_take_over(node, true);
        }
        for at in 0..self.transactions.bound() {
            let Some(transaction) = self.transactions.get(at).filter(|t| t.phase != Phase::Ended) else {
                continue;
            };
            let error = transaction.error_without_reply(self.work[transaction.node].epoch);
            let (busy, rolling_back) = (transaction.started, transaction.phase == Phase::RollingBack);
            if transaction.record != NONE && busy {
                self.set_aside(at, rolling_back);
            }
            self.end(at, error, false);
        }
        for q in 0..self.queries.bound() {
            if self.queries.get(q).is_some_and(|query| query.state == State::Sent) {
                self.rows_lost(q, ndb::READ_LOST);
                self.complete(q);
            }
        }
    }
}
