//! Statistics: of a connection, of a cluster handle, and as text.

use std::ffi::c_char;

use super::args::{SizedStruct, write_out};
use super::connection::ApidConnection;
use super::global::ApidGlobal;
use super::handle::borrow;
use super::{guard, put};
use crate::cluster::report;
use crate::cluster::statistics::{KINDS, Operations, Totals};
use crate::error::own;
use crate::link::statistics::LinkStatistics;

/// Reads, in operations of IC_STATS.
pub const IC_STATS_READ: u32 = 0;
/// Inserts.
pub const IC_STATS_INSERT: u32 = 1;
/// Updates.
pub const IC_STATS_UPDATE: u32 = 2;
/// Writes that insert or update.
pub const IC_STATS_WRITE: u32 = 3;
/// Deletes.
pub const IC_STATS_DELETE: u32 = 4;
/// Places for kinds; those from 5 on are for later, and zero.
pub const IC_STATS_KINDS: usize = 8;

/// A table that a person reads.
pub const IC_STATS_FORMAT_TEXT: i32 = 1;
/// Prometheus' text exposition format, version 0.0.4.
pub const IC_STATS_FORMAT_PROMETHEUS: i32 = 2;

/// How operations of one kind ended, and how long they took. Each that completed is counted once, under one
/// outcome. Latencies are in nanoseconds, of all outcomes together: from the packing of the request to the
/// poll that took what completed it. The clock is read once for all that is packed between two polls, and
/// once for each poll that takes something, so the resolution is the time in which the caller defines what it
/// sends at once. Percentiles and the maximum are up to an eighth too large (buckets), and 0 as long as
/// nothing has completed.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct OperationStats {
    /// Operations without an error.
    pub ok: u64,
    /// Operations with an error for which ic_error_is_temporary is true.
    pub temporary: u64,
    /// Operations with another error; a row that is not there (626) is one.
    pub permanent: u64,
    /// Operations with an error for which ic_error_is_unknown_result is true.
    pub unknown: u64,
    /// Nanoseconds: the mean.
    pub mean_ns: u64,
    /// Nanoseconds: half of them took at most so long.
    pub p50_ns: u64,
    /// Nanoseconds: 99 of 100.
    pub p99_ns: u64,
    /// Nanoseconds: 999 of 1000.
    pub p999_ns: u64,
    /// Nanoseconds: all of them.
    pub max_ns: u64,
}

/// What a connection has done since it was created, or all connections of a cluster handle, living and freed,
/// since it was connected.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// Size of the struct in bytes, as the caller knows it.
    pub size: usize,
    /// By kind: IC_STATS_READ and so on.
    pub operations: [OperationStats; IC_STATS_KINDS],
    /// Operations defined.
    pub defined: u64,
    /// Operations completed.
    pub completed: u64,
    /// Completed operations with an error.
    pub failed: u64,
    /// Operations defined and not complete now.
    pub in_flight: u64,
    /// Definitions, and starts of transactions, refused with -21 or -22 because of a limit.
    pub refused: u64,
    /// Transactions committed, empty ones too.
    pub commits: u64,
    /// Transactions rolled back, by the caller or by a failure.
    pub rollbacks: u64,
    /// Transactions whose outcome is unknown.
    pub unknown: u64,
    /// Sends that had something for a data node, counted per node.
    pub sends: u64,
    /// Those of them that were held for company.
    pub held: u64,
    /// Held sends that another connection's send took along. Of a cluster handle only.
    pub held_joined: u64,
    /// Held sends that a forced send, or the same connection's next one, took along. Of a cluster handle
    /// only.
    pub held_forced: u64,
    /// Held sends that were written at their deadline. Of a cluster handle only.
    pub held_deadline: u64,
    /// Writes to sockets: of a connection, by its own thread; of a cluster handle, by all threads.
    pub writes: u64,
    /// Completed operations per thousand writes; 0 without a write.
    pub operations_per_1000_writes: u64,
    /// Bytes given to links; of a cluster handle, written to sockets.
    pub bytes_sent: u64,
    /// Bytes of the pages taken; of a cluster handle, read from sockets.
    pub bytes_received: u64,
    /// Times that a poll took something.
    pub rounds: u64,
    /// How often the thread was woken in a poll.
    pub wakeups: u64,
    /// Pages taken from receive threads.
    pub pages: u64,
    /// Signals taken.
    pub signals: u64,
    /// Replies that nothing waited for any more.
    pub late_replies: u64,
    /// Deadlines that expired.
    pub deadlines: u64,
    /// High-water mark: operations in flight in one connection, as its sends and polls found them.
    pub most_in_flight: u64,
    /// High-water mark: bytes that waited for one data node, in the connection and on the link.
    pub most_waiting: u64,
    /// High-water mark: pages that one poll found.
    pub most_pages: u64,
    /// High-water mark: coordinator records of one connection.
    pub most_records: u64,
    /// Connections that live; 1 of a connection.
    pub connections: u64,
    /// Multi-key reads whose keys had one owner: one transaction there.
    pub multikey_slotted: u64,
    /// Multi-key reads that were split: a transaction at each owner.
    pub multikey_fanout: u64,
    /// Multi-key reads with a key whose owner is not certain: one transaction at any data node.
    pub multikey_coordinator: u64,
    /// The parts that they were sent in.
    pub multikey_parts: u64,
    /// Multi-key reads of which a part had to wait for a coordinator record.
    pub multikey_deferred: u64,
    /// High-water mark: parts of one connection's multi-key reads that were out at once.
    pub most_multikey_parts: u64,
}

impl SizedStruct for Stats {
    fn defaults() -> Self {
        Stats { size: size_of::<Self>(), ..Stats::default() }
    }
}

/// The layout is a part of the ABI; tests/c/layout.c asserts the same of the C header.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::offset_of;

    assert!(size_of::<OperationStats>() == 72);
    assert!(offset_of!(OperationStats, unknown) == 24);
    assert!(offset_of!(OperationStats, mean_ns) == 32);
    assert!(offset_of!(OperationStats, max_ns) == 64);
    assert!(size_of::<Stats>() == 856);
    assert!(offset_of!(Stats, operations) == 8);
    assert!(offset_of!(Stats, defined) == 584);
    assert!(offset_of!(Stats, commits) == 624);
    assert!(offset_of!(Stats, sends) == 648);
    assert!(offset_of!(Stats, writes) == 688);
    assert!(offset_of!(Stats, rounds) == 720);
    assert!(offset_of!(Stats, deadlines) == 760);
    assert!(offset_of!(Stats, connections) == 800);
    assert!(offset_of!(Stats, multikey_slotted) == 808);
    assert!(offset_of!(Stats, most_multikey_parts) == 848);
};

impl From<&Operations> for OperationStats {
    fn from(operations: &Operations) -> Self {
        let latencies = &operations.latencies;
        OperationStats {
            ok: operations.ok(),
            temporary: operations.temporary,
            permanent: operations.permanent,
            unknown: operations.unknown,
            mean_ns: latencies.mean(),
            p50_ns: latencies.percentile(50.0),
            p99_ns: latencies.percentile(99.0),
            p999_ns: latencies.percentile(99.9),
            max_ns: latencies.percentile(100.0),
        }
    }
}

impl From<&Totals> for Stats {
    fn from(totals: &Totals) -> Self {
        let s = &totals.statistics;
        let mut operations = [OperationStats::default(); IC_STATS_KINDS];
        const { assert!(KINDS <= IC_STATS_KINDS) };
        for (to, from) in operations.iter_mut().zip(&totals.operations) {
            *to = from.into();
        }
        Stats {
            size: size_of::<Stats>(),
            operations,
            defined: s.defined,
            completed: s.completed,
            failed: s.failed,
            in_flight: totals.in_flight(),
            refused: s.refused,
            commits: s.commits,
            rollbacks: s.rollbacks,
            unknown: s.unknown,
            sends: s.sends,
            held: s.held,
            held_joined: 0,
            held_forced: 0,
            held_deadline: 0,
            writes: s.writes,
            operations_per_1000_writes: per_1000(s.completed, s.writes),
            bytes_sent: s.bytes_sent,
            bytes_received: s.bytes_received,
            rounds: s.rounds,
            wakeups: s.wakeups,
            pages: s.pages,
            signals: s.signals,
            late_replies: s.late_replies,
            deadlines: s.deadlines,
            most_in_flight: s.most_in_flight,
            most_waiting: s.most_waiting,
            most_pages: s.most_pages,
            most_records: s.most_records,
            connections: 1,
            multikey_slotted: s.multikey_slotted,
            multikey_fanout: s.multikey_fanout,
            multikey_coordinator: s.multikey_coordinator,
            multikey_parts: s.multikey_parts,
            multikey_deferred: s.multikey_deferred,
            most_multikey_parts: s.most_multikey_parts,
        }
    }
}

impl Stats {
    /// As the links saw it.
    fn with_links(self, links: &LinkStatistics) -> Self {
        Stats {
            held_joined: links.held_joined,
            held_forced: links.held_forced,
            held_deadline: links.held_deadline,
            writes: links.writes,
            operations_per_1000_writes: per_1000(self.completed, links.writes),
            bytes_sent: links.bytes_sent,
            bytes_received: links.bytes_received,
            most_waiting: self.most_waiting.max(links.most_waiting),
            ..self
        }
    }
}

fn per_1000(count: u64, of: u64) -> u64 {
    count.saturating_mul(1000).checked_div(of).unwrap_or(0)
}

/// What the connection has done so far.
/// stats: its size field, set by the caller, says how much of it is filled.
/// Threads: the connection's; blocks never.
/// Returns 0.
/// See also ic_apid_global_stats.
///
/// # Safety
/// conn is a connection; stats is valid for the size it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_stats(conn: *mut ApidConnection, stats: *mut Stats) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let totals = unsafe { borrow(conn.cast_const()) }?.totals()?;
        // SAFETY: the caller's duty.
        unsafe { write_out(stats, Stats::from(&totals)) }
    })
}

/// What all connections of the handle have done so far, living and freed, and its links. Of a living
/// connection it knows what was so at that connection's last send, or last poll that took something; outcomes
/// and latencies are always up to date.
/// stats: its size field, set by the caller, says how much of it is filled.
/// Threads: any; blocks never, waits for no connection.
/// Returns 0; -14 if not connected.
/// See also ic_stats_print, ic_apid_conn_stats.
///
/// # Safety
/// glob is a cluster handle; stats is valid for the size it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_global_stats(glob: *mut ApidGlobal, stats: *mut Stats) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let all = unsafe { borrow(glob.cast_const()) }?.shared()?.cluster()?.statistics();
        let sum = Stats::from(&all.totals).with_links(&all.all_links());
        // SAFETY: the caller's duty.
        unsafe { write_out(stats, Stats { connections: all.connections as u64, ..sum }) }
    })
}

/// The statistics of a cluster handle as text, as ic_apid_global_stats has them, with a line per data node.
/// format: one of IC_STATS_FORMAT_*.
/// buffer: receives the text and a NUL, or is left alone if it is too small; NULL if size is 0.
/// size: bytes of the buffer.
/// needed: receives how many bytes the text takes, its NUL included, also when the buffer is too small; NULL
///   if nobody wants to know. The text grows a little as counters do: leave some room.
/// Threads: any; blocks never, waits for no connection.
/// Returns 0; -1 also if the buffer is too small; -14 if not connected.
/// See also ic_apid_global_stats.
///
/// # Safety
/// glob is a cluster handle; buffer is valid for writing size bytes; needed is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_stats_print(
    glob: *mut ApidGlobal,
    format: i32,
    buffer: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let cluster = unsafe { borrow(glob.cast_const()) }?.shared()?.cluster()?;
        let print = match format {
            IC_STATS_FORMAT_TEXT => report::for_a_person,
            IC_STATS_FORMAT_PROMETHEUS => report::prometheus,
            _ => return Err(own::INVALID_ARGUMENT),
        };
        let text = print(&cluster.statistics());
        if !needed.is_null() {
            // SAFETY: the caller's duty; not NULL.
            unsafe { put(needed, text.len() + 1) }?;
        }
        if buffer.is_null() || size <= text.len() {
            return Err(own::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's duty: `size` bytes, more than the text has, are writable; a fresh string is
        // not among them.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast::<u8>(), text.len());
            buffer.add(text.len()).write(0);
        }
        Ok(())
    })
}
