//! What connections count, and the sum over all of them.
//!
//! A connection counts in a plain struct, [`Statistics`], and publishes it into shared counters once per send
//! and per poll that brought something. What has a place per kind of operation (failures, the latency
//! histograms) is counted in the shared counters directly: with one writer, a relaxed load and a relaxed
//! store, that is an ordinary addition. So no thread waits for another, nothing is allocated, and whoever
//! reads may be one round behind.

use std::sync::{Arc, Mutex, MutexGuard};

use super::Cluster;
use super::histogram::{Count, Histogram, Latencies};
use crate::error;
use crate::link::statistics::LinkStatistics;

/// Kinds of operations, in the order of [`Kind`].
pub const KINDS: usize = 5;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Kind {
    /// Reads a row.
    #[default]
    Read = 0,
    /// Makes a row.
    Insert = 1,
    /// Changes a row.
    Update = 2,
    /// Makes or changes a row.
    Write = 3,
    /// Removes a row.
    Delete = 4,
}

impl Kind {
    /// All kinds and their names.
    pub const NAMES: [(Kind, &str); KINDS] = [
        (Kind::Read, "read"),
        (Kind::Insert, "insert"),
        (Kind::Update, "update"),
        (Kind::Write, "write"),
        (Kind::Delete, "delete"),
    ];
}

macro_rules! statistics {
    (
        counters { $($(#[$about:meta])* $counter:ident,)* }
        marks { $($(#[$mark_about:meta])* $mark:ident,)* }
    ) => {
        /// What a connection has done so far.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Statistics {
            $($(#[$about])* pub $counter: u64,)*
            $($(#[$mark_about])* pub $mark: u64,)*
        }

        /// The same, for other threads.
        #[derive(Debug, Default)]
        struct Published { $($counter: Count,)* $($mark: Count,)* }

        impl Published {
            #[inline]
            fn set(&self, from: &Statistics) {
                $(self.$counter.set(from.$counter);)*
                $(self.$mark.set(from.$mark);)*
            }

            fn get(&self) -> Statistics {
                Statistics { $($counter: self.$counter.get(),)* $($mark: self.$mark.get(),)* }
            }
        }

        impl std::ops::AddAssign<&Statistics> for Statistics {
            /// Counters are added; of high-water marks the highest counts.
            fn add_assign(&mut self, other: &Statistics) {
                $(self.$counter += other.$counter;)*
                $(self.$mark = self.$mark.max(other.$mark);)*
            }
        }
    };
}

statistics! {
    counters {
        /// Operations defined.
        defined,
        /// Operations completed.
        completed,
        /// Those of them that ended with an error.
        failed,
        /// Transactions committed.
        commits,
        /// Transactions rolled back, by the caller or by a failure.
        rollbacks,
        /// Transactions whose outcome is unknown.
        unknown,
        /// Sends with something for a node, counted per node.
        sends,
        /// Those of them that were held for company.
        held,
        /// Writes to sockets by this connection.
        writes,
        /// Times that a poll took pages.
        rounds,
        /// How often the thread was woken in a poll.
        wakeups,
        /// Pages taken.
        pages,
        /// Signals taken.
        signals,
        /// Replies that nothing waited for any more.
        late_replies,
        /// Deadlines that expired.
        deadlines,
        /// Bytes given to links.
        bytes_sent,
        /// Bytes of the pages taken.
        bytes_received,
        /// Multi-key reads whose keys had one owner.
        multikey_slotted,
        /// Those that were split by owner.
        multikey_fanout,
        /// Those with a key whose owner is not certain: they went to any node, as one.
        multikey_coordinator,
        /// The parts that they were sent in.
        multikey_parts,
        /// Those of which a part had to wait for a coordinator record.
        multikey_deferred,
        /// Definitions and starts refused because too much was in flight or waited to be sent.
        refused,
    }
    marks {
        /// The most operations in flight at once.
        most_in_flight,
        /// The most bytes that waited for one node, here and on its link.
        most_waiting,
        /// The most pages that a poll found.
        most_pages,
        /// The most coordinator records.
        most_records,
        /// The most parts of multi-key reads that were out at once.
        most_multikey_parts,
    }
}

/// Why an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Failure {
    Temporary = 0,
    Permanent = 1,
    Unknown = 2,
}

impl Failure {
    fn of(code: i32) -> Self {
        if error::is_unknown_result(code) {
            Failure::Unknown
        } else if error::is_temporary(code) {
            Failure::Temporary
        } else {
            Failure::Permanent
        }
    }
}

/// The shared counters of a connection.
#[derive(Debug, Default)]
pub struct Live {
    /// The block number of its port.
    block: u16,
    published: Published,
    failures: [[Count; 3]; KINDS],
    latencies: [Histogram; KINDS],
}

impl Live {
    /// By the owner: makes its counters known.
    #[inline]
    pub fn publish(&self, statistics: &Statistics) {
        self.published.set(statistics);
    }

    /// By the owner: an operation has completed.
    #[inline]
    pub fn completed(&self, kind: Kind, ns: u64) {
        self.latencies[kind as usize].record(ns);
    }

    /// By the owner, before [`Live::completed`]: with an error.
    #[cold]
    pub fn failed(&self, kind: Kind, code: i32) {
        self.failures[kind as usize][Failure::of(code) as usize].add(1);
    }

    /// What was counted so far.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals { statistics: self.published.get(), ..Totals::default() };
        for (kind, operations) in totals.operations.iter_mut().enumerate() {
            // First the failures: an operation that ends meanwhile must not be missing among the latencies.
            let failures = &self.failures[kind];
            operations.temporary = failures[Failure::Temporary as usize].get();
            operations.permanent = failures[Failure::Permanent as usize].get();
            operations.unknown = failures[Failure::Unknown as usize].get();
            self.latencies[kind].add_to(&mut operations.latencies);
        }
        totals
    }
}

/// Operations of a kind.
#[derive(Debug, Clone, Default)]
pub struct Operations {
    /// Failed, and a retry may help.
    pub temporary: u64,
    /// Failed, and a retry does not help.
    pub permanent: u64,
    /// Done or not: nobody knows.
    pub unknown: u64,
    /// How long they took, however they ended.
    pub latencies: Latencies,
}

impl Operations {
    /// Those without an error.
    pub fn ok(&self) -> u64 {
        self.latencies.count().saturating_sub(self.temporary + self.permanent + self.unknown)
    }
}

/// What one connection or several have done.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// The counters.
    pub statistics: Statistics,
    /// Operations by [`Kind`].
    pub operations: [Operations; KINDS],
}

impl Totals {
    /// Operations defined and not complete.
    pub fn in_flight(&self) -> u64 {
        self.statistics.defined.saturating_sub(self.statistics.completed)
    }

    /// Completed operations per write to a socket; 0 without a write.
    pub fn operations_per_write(&self) -> f64 {
        match self.statistics.writes {
            0 => 0.0,
            writes => self.statistics.completed as f64 / writes as f64,
        }
    }
}

impl std::ops::AddAssign<&Totals> for Totals {
    fn add_assign(&mut self, other: &Totals) {
        self.statistics += &other.statistics;
        for (to, from) in self.operations.iter_mut().zip(&other.operations) {
            to.temporary += from.temporary;
            to.permanent += from.permanent;
            to.unknown += from.unknown;
            to.latencies += &from.latencies;
        }
    }
}

/// A cluster handle's connections, living and freed.
#[derive(Debug, Default)]
pub struct Registry(Mutex<Connections>);

#[derive(Debug, Default)]
struct Connections {
    living: Vec<Arc<Live>>,
    freed: Box<Totals>,
}

impl Registry {
    /// The counters of a new connection.
    pub fn register(&self, block: u16) -> Arc<Live> {
        let live = Arc::new(Live { block, ..Live::default() });
        self.lock().living.push(live.clone());
        live
    }

    /// A connection is freed: what it did stays in the sum.
    pub fn unregister(&self, live: &Arc<Live>) {
        let totals = live.totals();
        let mut connections = self.lock();
        connections.living.retain(|other| !Arc::ptr_eq(other, live));
        *connections.freed += &totals;
    }

    /// The sum over all connections, and how many live. `wakeups` tells those of the port of a living one.
    pub fn totals(&self, wakeups: impl Fn(u16) -> Option<u64>) -> (Totals, usize) {
        let connections = self.lock();
        let (mut sum, living) = ((*connections.freed).clone(), connections.living.clone());
        // One that is freed from here on is in `living` and not in `freed`.
        drop(connections);
        for live in &living {
            let mut totals = live.totals();
            // Inboxes count them; a connection that goes takes them over.
            let known = &mut totals.statistics.wakeups;
            *known = wakeups(live.block).unwrap_or(0).max(*known);
            sum += &totals;
        }
        (sum, living.len())
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A cluster handle's statistics.
#[derive(Debug, Clone, Default)]
pub struct ClusterStatistics {
    /// Connections that live.
    pub connections: usize,
    /// All connections together.
    pub totals: Totals,
    /// The links, by node: whether new work may go there, and what was done.
    pub links: Vec<(bool, LinkStatistics)>,
}

impl Cluster {
    /// What was done so far. Never waits for a connection; may be one round behind it.
    pub fn statistics(&self) -> ClusterStatistics {
        let (totals, connections) = self.registry.totals(|block| self.ports.wakeups(block));
        let links = self.nodes.iter().map(|node| (node.usable().is_some(), node.sender.statistics()));
        ClusterStatistics { connections, totals, links: links.collect() }
    }
}

impl ClusterStatistics {
    /// The links together.
    pub fn all_links(&self) -> LinkStatistics {
        let mut sum = LinkStatistics::default();
        self.links.iter().for_each(|(_, link)| sum += link);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_freed_connections_did_stays() {
        let registry = Registry::default();
        let (one, other) = (registry.register(0x8000), registry.register(0x8001));
        one.publish(&Statistics { defined: 3, completed: 2, most_pages: 5, ..Default::default() });
        one.failed(Kind::Read, 266);
        one.completed(Kind::Read, 1000);
        one.completed(Kind::Insert, 2000);
        other.publish(&Statistics { defined: 1, completed: 1, most_pages: 4, ..Default::default() });
        other.failed(Kind::Delete, 4012);
        other.completed(Kind::Delete, 1);
        let seen = |registry: &Registry| {
            let (totals, living) = registry.totals(|_| None);
            let outcomes =
                totals.operations.each_ref().map(|o| (o.ok(), o.temporary, o.permanent, o.unknown));
            (living, totals.in_flight(), totals.statistics.most_pages, outcomes)
        };
        let none = (0, 0, 0, 0);
        let outcomes = [(0, 1, 0, 0), (1, 0, 0, 0), none, none, (0, 0, 0, 1)];
        assert_eq!(seen(&registry), (2, 1, 5, outcomes));
        registry.unregister(&one);
        assert_eq!(seen(&registry), (1, 1, 5, outcomes));
        registry.unregister(&other);
        assert_eq!(seen(&registry), (0, 1, 5, outcomes));
    }

    #[test]
    fn failures_are_told_apart() {
        use Failure::*;
        let codes =
            [(626, Permanent), (266, Temporary), (4012, Unknown), (4115, Permanent), (630, Permanent)];
        for (code, failure) in codes {
            assert_eq!(Failure::of(code), failure, "{code}");
        }
    }
}
