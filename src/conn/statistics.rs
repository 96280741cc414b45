//! What a connection counts about itself, and its clock.
//!
//! The clock is not read for every operation: once when pages were taken, and once for what is packed between
//! two polls. So a latency runs from the time at which the first operation since the last poll was packed (in
//! a callback: from the time its poll took pages) to the time at which the poll took the pages that completed
//! it. What resolution this gives depends on the caller alone: the time it takes to define what it sends at
//! once, and how soon it polls when replies are there. An operation that was never packed, as one rolled back
//! before its send, counts with the latency 0.

use super::transaction::Usage;
use super::{Connection, Kind, Operation, Statistics};
use crate::cluster::hold::Holds;
use crate::error;
use crate::link::page::{Content, Page};
use crate::log::log;
use crate::wire::transaction::WriteKind;

/// The time that operations are stamped with, read seldom. Times are nanoseconds of the cluster handle's clock.
#[derive(Debug, Default)]
pub(super) struct Stamp {
    now: u64,
    /// It was read since the last poll ended.
    fresh: bool,
}

impl Stamp {
    /// The time for what is packed now.
    #[inline]
    pub(super) fn packed(&mut self, time: &Holds) -> u64 {
        if !self.fresh {
            self.read(time);
        }
        self.now
    }

    #[cold]
    fn read(&mut self, time: &Holds) {
        self.now = time.now();
        self.fresh = true;
    }

    /// A poll has taken pages at this time.
    #[inline]
    fn taken(&mut self, now: u64) {
        self.now = now;
        self.fresh = true;
    }

    /// How long ago `since` was when the clock was read last.
    #[inline]
    pub(super) fn since(&self, since: u64) -> u64 {
        self.now.saturating_sub(since)
    }

    /// The caller does something else now: the next operation that is packed reads the clock.
    #[inline]
    pub(super) fn let_go(&mut self) {
        self.fresh = false;
    }
}

impl Operation {
    /// The kind that it is counted as.
    pub fn kind(self) -> Kind {
        match self {
            Operation::Read(_) | Operation::Exists => Kind::Read,
            Operation::Write(WriteKind::Insert, _) => Kind::Insert,
            Operation::Write(WriteKind::Update, _) => Kind::Update,
            Operation::Write(WriteKind::Write, _) => Kind::Write,
            Operation::Write(WriteKind::Delete, _) => Kind::Delete,
        }
    }
}

impl Statistics {
    /// Counts a transaction's end.
    #[inline]
    pub(super) fn transaction_ended(&mut self, committed: bool, error: i32) {
        if committed {
            self.commits += 1;
        } else if error::is_unknown_result(error) {
            self.unknown += 1;
        } else {
            self.rollbacks += 1;
        }
    }
}

impl<T> Connection<T> {
    /// What was done so far.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            defined: self.statistics.completed + self.in_flight as u64,
            most_records: self.records.len() as u64,
            most_in_flight: self.statistics.most_in_flight.max(self.in_flight as u64),
            wakeups: self.port.inbox().wakeups(),
            ..self.statistics
        }
    }

    /// What was done so far, by kind and outcome too, with latencies.
    pub fn totals(&self) -> crate::cluster::statistics::Totals {
        crate::cluster::statistics::Totals { statistics: self.statistics(), ..self.live.totals() }
    }

    /// From now on so many operations may be in flight, at least one; 0 for what the cluster handle says.
    /// What is in flight already stays so.
    pub fn set_max_in_flight(&mut self, operations: usize) {
        self.max_in_flight = match operations {
            0 => self.cluster.limits.in_flight,
            _ => operations,
        };
    }

    /// Makes the counters known to other threads.
    pub(super) fn publish(&mut self) {
        self.statistics.defined = self.statistics.completed + self.in_flight as u64;
        self.statistics.most_records = self.records.len() as u64;
        self.live.publish(&self.statistics);
    }

    /// Before operations leave: as many were in flight.
    #[inline]
    pub(super) fn mark_in_flight(&mut self) {
        self.statistics.most_in_flight = self.statistics.most_in_flight.max(self.in_flight as u64);
    }

    /// A poll has taken pages.
    pub(super) fn begin_round(&mut self, pages: &[Page]) {
        if pages.is_empty() {
            return;
        }
        self.stamp.taken(self.clock);
        self.statistics.rounds += 1;
        self.statistics.most_pages = self.statistics.most_pages.max(pages.len() as u64);
        for page in pages {
            if let Content::Signals(words) = &page.content {
                self.statistics.bytes_received += 4 * words.len() as u64;
            }
        }
    }

    /// Before the end: records whose final reply has not come are left to their nodes.
    pub(super) fn log_busy_records(&self) {
        let busy = self.records.iter().filter(|record| matches!(record.usage, Usage::Busy(_))).count();
        if busy > 0 {
            log!(
                Warning,
                "connection {:#x}: {busy} coordinator records set aside, still busy",
                self.port.block()
            );
        }
    }

    /// Counts a definition that was refused; gives its code.
    #[cold]
    pub(super) fn refused(&mut self, code: i32) -> i32 {
        self.statistics.refused += 1;
        code
    }
}

/// What it did stays in the cluster handle's sum.
impl<T> Drop for Connection<T> {
    fn drop(&mut self) {
        self.statistics = self.statistics();
        self.live.publish(&self.statistics);
        self.cluster.registry.unregister(&self.live);
    }
}
