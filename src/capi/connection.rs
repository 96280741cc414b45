//! Connections, queries and transactions.
//!
//! A connection's mark says who is inside: nobody, a call, or a callback that a poll runs. Hot calls look at
//! it and set it with plain loads and stores, which catches most mistakes and costs nothing; send, poll and
//! free take it with one atomic exchange.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::args::{QueryCallback, ReadKeyArgs, WriteKeyArgs, init, read};
use super::global::{ApidGlobal, Shared};
use super::handle::{Handle, borrow, forks, give, take_back};
use super::multi_read::copy_rows;
use super::record::Record;
use super::table::TableDef;
use super::{guard, guard_with, put};
use crate::cluster::statistics::Totals;
use crate::conn::transaction::Phase;
use crate::conn::{Completed, Connection, Operation};
use crate::error::own;

/// A query's handle: 0 is none; stale once the query is freed.
pub type QueryId = u64;
/// A transaction's handle: 0 is none; stale once the transaction is closed.
pub type TransId = u64;

/// The transaction is open: more can be defined.
pub const IC_TRANS_STATE_OPEN: i32 = 1;
/// Operations, a commit or a rollback are under way.
pub const IC_TRANS_STATE_BUSY: i32 = 2;
/// The transaction was committed.
pub const IC_TRANS_STATE_COMMITTED: i32 = 3;
/// The transaction was rolled back, by its caller or by a failure, or its outcome is unknown: see its error.
pub const IC_TRANS_STATE_ENDED: i32 = 4;

/// How long ic_apid_conn_free waits for the final replies of what is in flight.
const FREE_LIMIT: Duration = Duration::from_secs(2);

/// What a definition gives and its completion gives back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) callback: QueryCallback,
    pub(super) user_ref: *mut c_void,
    /// Of a multi-key read: where its rows go, or NULL.
    pub(super) rows: *mut u8,
}

impl Token {
    fn new(callback: QueryCallback, user_ref: *mut c_void) -> Token {
        Token { callback, user_ref, rows: std::ptr::null_mut() }
    }
}

const NO_TOKEN: Token = Token { callback: None, user_ref: std::ptr::null_mut(), rows: std::ptr::null_mut() };

const NOBODY: u32 = 0;
const CALL: u32 = 1;
const CALLBACK: u32 = 2;

/// A user thread's connection: used by one thread at a time.
pub struct ApidConnection {
    inside: AtomicU32,
    /// The thread whose poll runs a callback.
    polling_thread: AtomicUsize,
    broken: AtomicBool,
    forks: u32,
    shared: Arc<Shared>,
    inner: UnsafeCell<Connection<Token>>,
}

impl Handle for ApidConnection {
    const KIND: u32 = 0x4943_434f;
}

impl Drop for ApidConnection {
    fn drop(&mut self) {
        self.shared.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A number that tells this thread from the others that live.
fn this_thread() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place) as usize)
}

/// Puts the mark back, also after a panic.
struct Restore<'a>(&'a AtomicU32, u32);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.0.store(self.1, Ordering::Release);
    }
}

impl ApidConnection {
    #[inline]
    fn check(&self) -> Result<(), i32> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(own::INTERNAL);
        }
        if self.forks != forks() {
            return Err(own::FORKED);
        }
        Ok(())
    }

    /// A hot call: best effort against a second thread.
    #[inline]
    pub(super) fn enter<R>(
        &self,
        body: impl FnOnce(&mut Connection<Token>) -> Result<R, i32>,
    ) -> Result<R, i32> {
        self.check()?;
        let before = self.inside.load(Ordering::Relaxed);
        if before == CALL {
            return Err(own::BUSY);
        }
        self.inside.store(CALL, Ordering::Relaxed);
        let _restore = Restore(&self.inside, before);
        self.with_inner(body)
    }

    /// What the connection has done so far.
    pub(super) fn totals(&self) -> Result<Totals, i32> {
        self.enter(|inner| Ok(inner.totals()))
    }

    /// A call that is strict against a second thread. `Ok(None)`: called in a callback of this thread's poll,
    /// for which `body` was not run.
    fn enter_alone<R>(&self, body: impl FnOnce() -> Result<R, i32>) -> Result<Option<R>, i32> {
        self.check()?;
        match self.inside.compare_exchange(NOBODY, CALL, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => {
                let _restore = Restore(&self.inside, NOBODY);
                body().map(Some)
            }
            Err(CALLBACK) if self.polling_thread.load(Ordering::Relaxed) == this_thread() => Ok(None),
            Err(_) => Err(own::BUSY),
        }
    }

    /// Runs `body` on the connection; a panic in it breaks the connection for good.
    #[inline]
    fn with_inner<R>(&self, body: impl FnOnce(&mut Connection<Token>) -> R) -> R {
        struct Breaks<'a>(&'a AtomicBool);
        impl Drop for Breaks<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let breaks = Breaks(&self.broken);
        // SAFETY: the only other references are made in this function too, and none lives while `body` runs:
        // `body` runs no code of the caller, and a second thread is kept out by the mark, which on hot calls
        // relies on the caller keeping the rule that a connection is used by one thread at a time.
        let result = body(unsafe { &mut *self.inner.get() });
        std::mem::forget(breaks);
        result
    }

    /// Runs the callbacks that are due. The mark must be CALL.
    fn run_callbacks(&self, conn: *mut ApidConnection) {
        while let Some(completion) = self.with_inner(|inner| inner.next_callback()) {
            if let Completed::MultiRead(handle) = completion.completed {
                // It fails for nothing that is complete.
                let _ = self.with_inner(|inner| copy_rows(inner, handle));
            }
            let (Completed::Query(handle) | Completed::MultiRead(handle)) = completion.completed;
            if let Some(callback) = completion.token.callback {
                self.polling_thread.store(this_thread(), Ordering::Relaxed);
                self.inside.store(CALLBACK, Ordering::Relaxed);
                // SAFETY: the caller gave this function with the definition, to be called like this while the
                // connection lives; it cannot free the connection meanwhile.
                unsafe { callback(conn, handle, completion.token.user_ref) };
                self.inside.store(CALL, Ordering::Relaxed);
            }
            self.with_inner(|inner| inner.callback_done(completion.completed));
        }
    }

    fn send_after_callbacks(&self, force: bool) -> Result<(), i32> {
        self.enter(|inner| {
            inner.send_after_callbacks(force);
            Ok(())
        })
    }

    fn poll(&self, conn: *mut ApidConnection, wait_ms: u32) -> Result<u32, i32> {
        let signals = self.with_inner(|inner| inner.poll(Duration::from_millis(wait_ms as u64)))?;
        self.run_callbacks(conn);
        self.with_inner(|inner| inner.end_poll());
        Ok(signals)
    }

    /// Defines one operation in a transaction of its own, commits, and waits for it.
    fn execute(
        &self,
        conn: *mut ApidConnection,
        query: QueryId,
        operation: Operation,
        wait_ms: u32,
    ) -> Result<(), i32> {
        let until = Instant::now() + Duration::from_millis(wait_ms as u64);
        let transaction = self.with_inner(|inner| {
            let hint = inner.hint_for_query(query)?;
            let transaction = inner.start_transaction_for(hint, query)?;
            let defined = inner.define(query, transaction, operation, false, NO_TOKEN);
            if let Err(code) = defined {
                inner.close(transaction)?;
                return Err(code);
            }
            inner.commit(transaction)?;
            inner.send(true);
            Ok(transaction)
        })?;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let polled = self.poll(conn, left.as_millis().min(u32::MAX as u128) as u32);
            let (done, error) = self.with_inner(|inner| {
                let done = inner.take_executed(query);
                let error = match inner.query_error(query)? {
                    0 => inner.transaction_error(transaction)?,
                    error => error,
                };
                Ok::<_, i32>((done, error))
            })?;
            if done || left.is_zero() || polled.is_err() {
                self.with_inner(|inner| inner.close(transaction))?;
                return match (done, error, polled) {
                    (true, 0, _) => Ok(()),
                    (true, error, _) => Err(error),
                    (false, _, Err(code)) => Err(code),
                    (false, ..) => Err(own::STILL_IN_FLIGHT),
                };
            }
        }
    }
}

/// Creates a connection of a connected cluster handle, for one user thread at a time. How many can be open at
/// once: 4096.
/// conn: receives the connection, to be freed with ic_apid_conn_free before the cluster handle.
/// Threads: any; blocks never.
/// Returns 0; -14 if not connected; -21 if too many are open.
/// See also ic_apid_conn_free, ic_apid_query_create.
///
/// # Safety
/// Pointers are valid as described.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_create(glob: *mut ApidGlobal, conn: *mut *mut ApidConnection) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty, as the header says.
        let shared = unsafe { borrow(glob.cast_const()) }?.shared()?;
        if conn.is_null() {
            return Err(own::INVALID_ARGUMENT);
        }
        let inner = Connection::new(shared.cluster()?)?;
        shared.connections.fetch_add(1, Ordering::AcqRel);
        let connection = give(ApidConnection {
            inside: AtomicU32::new(NOBODY),
            polling_thread: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            forks: forks(),
            shared,
            inner: UnsafeCell::new(inner),
        });
        // SAFETY: the caller's duty; not NULL.
        unsafe { put(conn, connection) }
    })
}

/// Frees a connection. What is in flight ends first: transactions whose commit is not under way are rolled
/// back, final replies are waited for, what is left then ends with an error (4012 where a commit was sent),
/// and callbacks that are due run. Queries, transactions and multi-key reads go with it; their rows must not
/// be touched any more.
/// conn: NULL does nothing. After an error it is still there.
/// Threads: the connection's, not in its callback; blocks up to 2 s while something is in flight; calls back.
/// Returns 0; -4 in a callback.
/// See also ic_apid_conn_create, ic_apid_global_free.
///
/// # Safety
/// conn is NULL or a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_free(conn: *mut ApidConnection) -> i32 {
    guard(|| {
        if conn.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        if connection.broken.load(Ordering::Relaxed) {
            // What broke is not touched again; it is dropped as it is, unless a poll is still using it.
            match connection.inside.load(Ordering::Acquire) {
                NOBODY => {}
                CALLBACK => return Err(own::IN_CALLBACK),
                _ => return Err(own::BUSY),
            }
        } else if connection
            .enter_alone(|| {
                connection.with_inner(|inner| inner.finish(FREE_LIMIT));
                connection.run_callbacks(conn);
                Ok(())
            })?
            .is_none()
        {
            return Err(own::IN_CALLBACK);
        }
        // SAFETY: the caller's duty: no other thread uses the connection, and nobody does after this.
        unsafe { take_back(conn) }?;
        Ok(())
    })
}

/// Sends every query that is defined, every commit and rollback: one write per data node. In a callback the
/// send follows the poll's callbacks, so that what all of them define goes out in one write per node.
/// force: true: write now. false: the send may be held for company on its link if the recent past makes
///   company likely, at most hold_us of the connect arguments; a thread that sends alone is not held.
/// Threads: the connection's; blocks never: what a full socket does not take, the library sends later.
/// Returns 0. What a lost link takes with it comes back as errors of queries and transactions.
/// See also ic_apid_conn_flush, ic_apid_conn_poll.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_send(conn: *mut ApidConnection, force: bool) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        let sent = connection.enter_alone(|| {
            connection.with_inner(|inner| inner.send(force));
            Ok(())
        })?;
        match sent {
            Some(()) => Ok(()),
            None => connection.send_after_callbacks(force),
        }
    })
}

/// Takes the replies that have come, completes what they finish, and runs callbacks. It returns as soon as
/// something has completed (see ic_apid_conn_set_poll_min). In a callback it does nothing.
/// wait_ms: milliseconds to wait for a completion at most; 0 waits not at all.
/// signals: receives how many signals were taken; NULL if nobody wants to know.
/// Threads: the connection's; blocks up to wait_ms; calls back.
/// Returns 0, also if nothing has come; -14 after a disconnect, once all has completed. Errors of operations
///   are on their query and transaction.
/// See also ic_apid_conn_flush, ic_apid_conn_get_next_executed_query, ic_apid_conn_fd.
///
/// # Safety
/// conn is a connection; signals is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_poll(
    conn: *mut ApidConnection,
    wait_ms: u32,
    signals: *mut u32,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        let taken = connection.enter_alone(|| connection.poll(conn, wait_ms))?.unwrap_or(0);
        if !signals.is_null() {
            // SAFETY: the caller's duty; not NULL.
            unsafe { signals.write(taken) };
        }
        Ok(())
    })
}

/// ic_apid_conn_send, then ic_apid_conn_poll; the poll always runs. In a callback it only sends.
/// wait_ms: milliseconds to wait for a completion at most; 0 waits not at all.
/// force: as for ic_apid_conn_send.
/// signals: receives how many signals were taken; NULL if nobody wants to know.
/// Threads: the connection's; blocks up to wait_ms; calls back.
/// Returns as ic_apid_conn_poll.
/// See also ic_apid_conn_send, ic_apid_conn_poll.
///
/// # Safety
/// conn is a connection; signals is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_flush(
    conn: *mut ApidConnection,
    wait_ms: u32,
    force: bool,
    signals: *mut u32,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        let polled = connection.enter_alone(|| {
            connection.with_inner(|inner| inner.send(force));
            connection.poll(conn, wait_ms)
        })?;
        if polled.is_none() {
            connection.send_after_callbacks(force)?;
        }
        if !signals.is_null() {
            // SAFETY: the caller's duty; not NULL.
            unsafe { signals.write(polled.unwrap_or(0)) };
        }
        Ok(())
    })
}

/// From now on a poll of the connection returns once so many operations have completed, instead of one:
/// fewer, fuller sends and fewer wake-ups for a thread with much in flight. It does not wait for more than
/// are in flight, nor longer than its wait_ms. A thread that sleeps in a poll is not woken for fewer, but
/// where transactions have several operations each, or rows come after their confirmations, it may be woken
/// sooner and sleep again. An error, the outcome of a commit or rollback that was asked for by itself, and
/// the loss of a data node wake it at once.
/// completions: 0 is as 1, which is the default.
/// Threads: the connection's; blocks never.
/// Returns 0.
/// See also ic_apid_conn_poll.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_set_poll_min(conn: *mut ApidConnection, completions: u32) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| {
            inner.set_poll_min(completions);
            Ok(())
        })
    })
}

/// How long what the connection sends from now on may go without a reply. At its deadline a transaction
/// without a sent commit is rolled back and ends with -30; one with writes whose commit was sent ends with
/// 4012, for it may have been committed. Both happen in a poll or a flush, which ends its wait for it. Other
/// operations go on. Transactions that are started already keep their limits.
/// milliseconds: from the send; 0: the deadline_ms of the connect arguments, whose own default is long enough
///   for the cluster to deal with a node that fails.
/// Threads: the connection's; blocks never.
/// Returns 0.
/// See also ic_apid_transaction_set_deadline.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_set_deadline(conn: *mut ApidConnection, milliseconds: u32) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| {
            inner.set_deadline(super::milliseconds(milliseconds));
            Ok(())
        })
    })
}

/// As ic_apid_conn_set_deadline for one transaction, from its next send on.
/// milliseconds: from the send; 0: the connection's.
/// Threads: the connection's; blocks never.
/// Returns 0; -6 for a stale or foreign handle.
/// See also ic_apid_conn_set_deadline.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_transaction_set_deadline(
    conn: *mut ApidConnection,
    trans: TransId,
    milliseconds: u32,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| inner.set_transaction_deadline(trans, super::milliseconds(milliseconds)))
    })
}

/// A descriptor for event loops (poll, epoll, libuv): readable while there is something for ic_apid_conn_poll
/// to take. That is: replies, queries that have completed without one (those of a transaction that was rolled
/// back), deadlines, news of a lost data node, a disconnect. It stays readable until a poll, also one with
/// wait_ms 0, has taken all; then it is not readable. So the loop of a thread is: wait until it is readable,
/// ic_apid_conn_poll with a wait_ms of 0, then ic_apid_conn_send for what the callbacks have defined. What is
/// defined is not sent by itself. The number of ic_apid_conn_set_poll_min does not matter here, and a query
/// that waits on the executed list, which a poll has taken already, does not make it readable.
/// The connection owns the descriptor: wait for it to be readable, but never read, write or close it.
/// ic_apid_conn_free closes it; take it out of the event loop before. It is the same at every call; before
/// the first there is none, and nothing is spent on it. From then on, until the connection is freed, the
/// receive threads of the cluster handle read for all of its connections: no polling thread does it itself
/// (see lend_receive).
/// Threads: the connection's; blocks never.
/// Returns the descriptor, 0 or more; -21 if the process or the system has no descriptor left.
/// See also ic_apid_conn_poll, ic_apid_conn_send.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_fd(conn: *mut ApidConnection) -> i32 {
    let find = || {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| inner.descriptor().map_err(|_| own::TOO_MANY_IN_FLIGHT))
    };
    guard_with(|code| code, || find().unwrap_or_else(|code| code))
}

/// From now on a definition is refused with -21 while so many operations of the connection are in flight
/// (defined and not complete), and a start of a transaction while twice as many are open. What is in flight
/// already stays so.
/// operations: how many; 0 for max_in_flight of the connect arguments.
/// Threads: the connection's; blocks never.
/// Returns 0.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_set_max_in_flight(conn: *mut ApidConnection, operations: u32) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| {
            inner.set_max_in_flight(operations as usize);
            Ok(())
        })
    })
}

/// Creates a query: one operation on a table that is defined, sent and completed again and again, with rows
/// of its own, sized by its records. The rows begin as zeros.
/// table: of the same cluster handle as the connection. Table and records may be freed before the query.
/// key: a record of the table that holds all columns of the primary key.
/// attr: a record of the table: the columns that are read and written; NULL for none. May be the same as key.
/// query: receives the handle, to be freed with ic_apid_query_free or with the connection.
/// Threads: the connection's; blocks never.
/// Returns 0; -9 for a record of another table or a key that is not whole; -21 when 1048576 exist.
/// See also ic_apid_query_key_row, ic_apid_query_attr_row, ic_apid_conn_write_key, ic_apid_conn_read_key.
///
/// # Safety
/// Pointers are valid as described.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_query_create(
    conn: *mut ApidConnection,
    table: *mut TableDef,
    key: *mut Record,
    attr: *mut Record,
    query: *mut QueryId,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let (connection, table, key) =
            unsafe { (borrow(conn.cast_const())?, borrow(table.cast_const())?, borrow(key.cast_const())?) };
        let attr = match attr.is_null() {
            true => None,
            // SAFETY: the caller's duty.
            false => Some(unsafe { borrow(attr.cast_const()) }?.record.clone()),
        };
        if query.is_null() {
            return Err(own::INVALID_ARGUMENT);
        }
        let created = connection.enter(|inner| {
            inner.create_query(
                table.table.clone(),
                table.standing.clone(),
                key.record.clone(),
                attr,
                NO_TOKEN,
            )
        })?;
        // SAFETY: the caller's duty; not NULL.
        unsafe { put(query, created) }
    })
}

/// Frees a query that is not in flight; also in its own callback. Its rows must not be touched any more.
/// Threads: the connection's; blocks never.
/// Returns 0; -5 for a stale or foreign handle; -7 while it is in flight.
/// See also ic_apid_query_create.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_query_free(conn: *mut ApidConnection, query: QueryId) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| inner.free_query(query))
    })
}

/// The key row of a query, to be filled in place. The caller's while the query is idle or complete, in its
/// callback too.
/// len: receives the row's length in bytes, 0 without a row; NULL if nobody wants to know.
/// Threads: the connection's; blocks never.
/// Returns the row, aligned to 16 bytes and at the same address for the query's life; NULL while the query is
///   in flight (the row is the library's then), for a stale or foreign handle, or if the connection cannot be
///   used.
/// See also ic_apid_query_attr_row.
///
/// # Safety
/// conn is a connection; len is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_query_key_row(
    conn: *mut ApidConnection,
    query: QueryId,
    len: *mut u32,
) -> *mut u8 {
    // SAFETY: the caller's duty.
    unsafe { row(conn, query, len, true) }
}

/// The attribute row of a query: what a write takes and a read fills. After a read that failed its contents
/// mean nothing. The caller's while the query is idle or complete, in its callback too.
/// len: receives the row's length in bytes, 0 without a row; NULL if nobody wants to know.
/// Threads: the connection's; blocks never.
/// Returns the row, as ic_apid_query_key_row; NULL also when the query has no attribute record.
/// See also ic_apid_query_key_row.
///
/// # Safety
/// conn is a connection; len is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_query_attr_row(
    conn: *mut ApidConnection,
    query: QueryId,
    len: *mut u32,
) -> *mut u8 {
    // SAFETY: the caller's duty.
    unsafe { row(conn, query, len, false) }
}

/// # Safety
/// conn is a connection; len is NULL or valid.
unsafe fn row(conn: *mut ApidConnection, query: QueryId, len: *mut u32, key: bool) -> *mut u8 {
    let find = || {
        // SAFETY: this function's own condition.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| {
            let (key_row, attr_row) = inner.rows(query)?;
            let row = if key { key_row } else { attr_row };
            match row.size() {
                0 => Err(own::INVALID_ARGUMENT),
                length => Ok((row.pointer(), length)),
            }
        })
    };
    let (pointer, length) =
        guard_with(|_| (std::ptr::null_mut(), 0), || find().unwrap_or((std::ptr::null_mut(), 0)));
    if !len.is_null() {
        // SAFETY: this function's own condition; not NULL.
        unsafe { len.write(length as u32) };
    }
    pointer
}

/// The error of a query's last completion. Where a commit rode with it, it is 0 only if that has succeeded,
/// too.
/// Threads: the connection's; blocks never.
/// Returns that error: 0, a code of the data nodes (626: no such row), or one of this library; -5 for a stale
///   or foreign handle.
/// See also ic_apid_query_explain, ic_apid_transaction_error.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_query_error(conn: *mut ApidConnection, query: QueryId) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        match connection.enter(|inner| inner.query_error(query))? {
            0 => Ok(()),
            error => Err(error),
        }
    })
}

/// What the query's last definition gave as user_ref.
/// Threads: the connection's; blocks never.
/// Returns it; NULL for a stale or foreign handle, or if the connection cannot be used.
/// See also ic_apid_conn_get_next_executed_query.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_query_user_ref(conn: *mut ApidConnection, query: QueryId) -> *mut c_void {
    let find = || {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| inner.token(query))
    };
    guard_with(|_| std::ptr::null_mut(), || find().map_or(std::ptr::null_mut(), |token| token.user_ref))
}

/// Takes the oldest completed query without a callback off the executed list, which makes it idle. Until then
/// it cannot be defined again.
/// query: receives the handle.
/// Threads: the connection's; blocks never, takes no replies: that is for a poll or flush before.
/// Returns true; false when the list is empty or the connection cannot be used.
/// See also ic_apid_query_error, ic_apid_query_user_ref, ic_apid_conn_flush.
///
/// # Safety
/// conn is a connection; query is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_get_next_executed_query(
    conn: *mut ApidConnection,
    query: *mut QueryId,
) -> bool {
    let next = || {
        if query.is_null() {
            return Err(own::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| inner.next_executed().ok_or(0))
    };
    match guard_with(Err, next) {
        // SAFETY: the caller's duty; not NULL.
        Ok(executed) => unsafe { put(query, executed) }.is_ok(),
        Err(_) => false,
    }
}

/// Which part of the table a key is in, as a hint for ic_apid_conn_start_transaction: the data node that has
/// the row then coordinates, one hop less. A hint never changes what a transaction does.
/// table: the one that the transaction is about.
/// record: a record of it that has the columns of the distribution key, mostly the key record.
/// key: a row of that record, filled; only read.
/// key_len: its length in bytes, which is ic_record_row_size.
/// Threads: the connection's; blocks never.
/// Returns the hint; 0 when there is none: the distribution cannot be computed (for example a collation other
///   than a binary one), a pointer is NULL, or key_len is not the record's row length.
/// See also ic_apid_conn_hints_for_keys, ic_apid_conn_start_transaction.
///
/// # Safety
/// Pointers are valid; key for key_len bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_hint_for_key(
    conn: *mut ApidConnection,
    table: *mut TableDef,
    record: *mut Record,
    key: *const u8,
    key_len: u32,
) -> u32 {
    let hint = || {
        // SAFETY: the caller's duty.
        let (connection, table, record) = unsafe {
            (borrow(conn.cast_const())?, borrow(table.cast_const())?, borrow(record.cast_const())?)
        };
        if key.is_null() {
            return Err(own::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's duty; not NULL. Nobody writes the row while the call runs.
        let key = unsafe { std::slice::from_raw_parts(key, key_len as usize) };
        connection.enter(|inner| inner.hint_for_key(&table.table, &record.record, key))
    };
    guard_with(|_| 0, || hint().unwrap_or(0))
}

/// As ic_apid_conn_hint_for_key for many keys at once, at a fraction of its cost for each if the distribution
/// key is one number of 4 or 8 bytes: eight such keys are hashed side by side. For whoever starts several
/// transactions in a row.
/// table: the one that the transactions are about.
/// record: a record of it that has the columns of the distribution key, mostly the key record.
/// keys: count rows of that record, filled, one behind the other; only read.
/// key_len: the length of each in bytes, which is ic_record_row_size.
/// count: how many keys; 0 is allowed.
/// hints: room for count hints, apart from keys; receives each key's, 0 for a key that has none. After an
///   error all are 0.
/// Threads: the connection's; blocks never.
/// Returns 0; -4 for a NULL pointer, -9 for a record of another table, -10 when key_len is not the record's
///   row length.
/// See also ic_apid_conn_hint_for_key, ic_apid_conn_start_transaction.
///
/// # Safety
/// Pointers are valid; keys for count times key_len bytes, hints for count numbers, which are not among keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_hints_for_keys(
    conn: *mut ApidConnection,
    table: *mut TableDef,
    record: *mut Record,
    keys: *const u8,
    key_len: u32,
    count: u32,
    hints: *mut u32,
) -> i32 {
    guard(|| {
        if hints.is_null() {
            return Err(own::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's duty; not NULL. Any bytes are numbers, and nobody else uses them while the call
        // runs.
        let hints = unsafe { std::slice::from_raw_parts_mut(hints, count as usize) };
        hints.fill(0);
        // SAFETY: the caller's duty.
        let (connection, table, record) = unsafe {
            (borrow(conn.cast_const())?, borrow(table.cast_const())?, borrow(record.cast_const())?)
        };
        if keys.is_null() {
            return Err(own::INVALID_ARGUMENT);
        }
        if key_len as usize != record.record.row_size() {
            return Err(own::ROW_LENGTH);
        }
        let size = (count as usize).checked_mul(key_len as usize).ok_or(own::INVALID_ARGUMENT)?;
        // SAFETY: the caller's duty; not NULL. Nobody writes the rows while the call runs.
        let keys = unsafe { std::slice::from_raw_parts(keys, size) };
        connection.enter(|inner| inner.hints_for_keys(&table.table, &record.record, keys, hints))
    })
}

/// Starts a transaction, on this side only: nothing of it is sent before it has an operation. If the node has
/// no coordinator record free, the transaction's requests are held back until it has.
/// hint: from ic_apid_conn_hint_for_key or ic_apid_conn_hints_for_keys with the same table; 0 for any node.
/// table: NULL only without a hint.
/// trans: receives the handle, to be closed with ic_apid_conn_close_transaction.
/// Threads: the connection's; blocks never.
/// Returns 0; temporary: -28 when no data node can take work now, -21 when too many transactions are open,
///   -22 when too much waits for the node; -14 after a disconnect.
/// See also ic_apid_conn_write_key, ic_apid_conn_read_key, ic_apid_conn_commit_transaction,
///   ic_apid_conn_close_transaction.
///
/// # Safety
/// Pointers are valid as described.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_start_transaction(
    conn: *mut ApidConnection,
    hint: u32,
    table: *mut TableDef,
    trans: *mut TransId,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        let table = match table.is_null() {
            true if hint != 0 => return Err(own::INVALID_ARGUMENT),
            true => None,
            // SAFETY: the caller's duty.
            false => Some(unsafe { borrow(table.cast_const()) }?),
        };
        if trans.is_null() {
            return Err(own::INVALID_ARGUMENT);
        }
        let table = table.map(|table| &*table.table);
        let started = connection.enter(|inner| inner.start_transaction(hint, table))?;
        // SAFETY: the caller's duty; not NULL.
        unsafe { put(trans, started) }
    })
}

/// Sets write arguments to their defaults: IC_WRITE_KIND_WRITE, default abort option, no callback.
/// args: NULL does nothing.
/// size: sizeof *args.
/// Threads: any; blocks never.
/// See also ic_apid_conn_write_key.
///
/// # Safety
/// args is NULL or valid for size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_write_key_args_init(args: *mut WriteKeyArgs, size: usize) {
    // SAFETY: the caller's duty.
    guard_with(|_| (), || unsafe { init(args, size) })
}

/// Sets read arguments to their defaults: IC_READ_KIND_COMMITTED, default abort option, no callback.
/// args: NULL does nothing.
/// size: sizeof *args.
/// Threads: any; blocks never.
/// See also ic_apid_conn_read_key.
///
/// # Safety
/// args is NULL or valid for size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_read_key_args_init(args: *mut ReadKeyArgs, size: usize) {
    // SAFETY: the caller's duty.
    guard_with(|_| (), || unsafe { init(args, size) })
}

/// Defines a write in a transaction, from the query's rows: packs its request. Nothing is sent. From a
/// success on the rows are the library's until the query completes, once; after an error nothing is defined.
/// Insert and write store the key row's columns and the attribute row's; update stores the attribute row's
/// columns outside the key; delete looks at the key row alone.
/// query: idle, its rows filled.
/// trans: open. Operations of several tables may be in one.
/// args: NULL for all defaults. Copied.
/// Threads: the connection's; blocks never.
/// Returns 0; temporary: -21 if too much is in flight, -22 if too much waits to be sent, -28 if the cluster
///   is coming back after the loss of all nodes; else: -5 for a stale or foreign handle of the query, -6 for
///   one of the transaction; -7 if the query is in flight or waits on the executed list; -8 if the
///   transaction takes no more work; -11 for a value longer than its column; -12 for a NULL key; -29 if key
///   and row are too large; 241 if the table must be opened again; -14 after a disconnect.
/// See also ic_apid_conn_commit_transaction, ic_apid_conn_send, ic_write_key_args_init, ic_apid_query_error.
///
/// # Safety
/// conn is a connection; args is NULL or valid for the size it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_write_key(
    conn: *mut ApidConnection,
    query: QueryId,
    trans: TransId,
    args: *const WriteKeyArgs,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let (connection, args) = unsafe { (borrow(conn.cast_const())?, read(args)?) };
        let operation = args.operation()?;
        let token = Token::new(args.callback, args.user_ref);
        connection.enter(|inner| inner.define(query, trans, operation, token.callback.is_some(), token))
    })
}

/// Defines a read in a transaction: packs its request from the query's key row. Nothing is sent. The columns
/// of the attribute record will be in the attribute row when the query is complete without an error; 626 if
/// there is no such row. From a success on the rows are the library's until the query completes, once; after
/// an error nothing is defined.
/// query: idle, its key row filled.
/// trans: open.
/// args: NULL for all defaults. Copied.
/// Threads: the connection's; blocks never.
/// Returns as ic_apid_conn_write_key.
/// See also ic_apid_conn_commit_transaction, ic_apid_conn_send, ic_read_key_args_init,
///   ic_apid_conn_multi_read.
///
/// # Safety
/// conn is a connection; args is NULL or valid for the size it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_read_key(
    conn: *mut ApidConnection,
    query: QueryId,
    trans: TransId,
    args: *const ReadKeyArgs,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let (connection, args) = unsafe { (borrow(conn.cast_const())?, read(args)?) };
        let operation = args.operation()?;
        let token = Token::new(args.callback, args.user_ref);
        connection.enter(|inner| inner.define(query, trans, operation, token.callback.is_some(), token))
    })
}

/// Asks for a transaction's commit. It rides on the last query that is defined; without one it follows what
/// is out. It goes out with the next send. No callback of the transaction's queries that are defined now runs
/// before the outcome is known. The transaction takes no more work.
/// Threads: the connection's; blocks never.
/// Returns 0: asked for, not done; the outcome is in ic_apid_query_error of its queries and
///   ic_apid_transaction_error. -6 for a stale or foreign handle; -8 if it was committed, rolled back or has
///   failed before.
/// See also ic_apid_conn_send, ic_apid_conn_rollback_transaction, ic_apid_conn_close_transaction,
///   ic_apid_transaction_state.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_commit_transaction(conn: *mut ApidConnection, trans: TransId) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| inner.commit(trans))
    })
}

/// Rolls a transaction back. Its queries that are not complete end with 4350. It goes out with the next send.
/// Threads: the connection's; blocks never.
/// Returns 0; -6 for a stale or foreign handle; -8 if its commit is under way or it is over.
/// See also ic_apid_conn_close_transaction.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_rollback_transaction(conn: *mut ApidConnection, trans: TransId) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| inner.rollback(trans))
    })
}

/// Gives a transaction up; each one that was started must be closed. One without a commit is rolled back,
/// with the next send; one whose commit is under way goes on. Its handle is stale at once; queries of it that
/// are in flight complete as they would.
/// Threads: the connection's; blocks never.
/// Returns 0; -6 for a stale or foreign handle.
/// See also ic_apid_conn_start_transaction, ic_apid_conn_commit_transaction.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_close_transaction(conn: *mut ApidConnection, trans: TransId) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| inner.close(trans))
    })
}

/// A transaction's error.
/// Threads: the connection's; blocks never.
/// Returns that error, 0 while there is none and after a success; -6 for a stale or foreign handle.
/// See also ic_apid_transaction_state, ic_apid_transaction_explain, ic_apid_query_error.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_transaction_error(conn: *mut ApidConnection, trans: TransId) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        match connection.enter(|inner| inner.transaction_error(trans))? {
            0 => Ok(()),
            error => Err(error),
        }
    })
}

/// Where a transaction is.
/// Threads: the connection's; blocks never.
/// Returns one of IC_TRANS_STATE_*; -6 for a stale or foreign handle.
/// See also ic_apid_transaction_error.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_transaction_state(conn: *mut ApidConnection, trans: TransId) -> i32 {
    let find = || {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| inner.transaction_state(trans))
    };
    match guard_with(Err, find) {
        Ok((Phase::Open, _)) => IC_TRANS_STATE_OPEN,
        Ok((Phase::Ended, true)) => IC_TRANS_STATE_COMMITTED,
        Ok((Phase::Ended, false)) => IC_TRANS_STATE_ENDED,
        Ok(_) => IC_TRANS_STATE_BUSY,
        Err(code) => code,
    }
}

/// Writes one row in a transaction of its own and waits for the outcome: for tools and tests. Other queries
/// of the connection that complete meanwhile are completed as in a poll.
/// query: idle, its rows filled.
/// args: NULL for all defaults. Its callback and user_ref are not used.
/// wait_ms: milliseconds to wait at most.
/// Threads: the connection's, not in a callback; blocks up to wait_ms; calls back for other queries.
/// Returns the outcome, 0 or the error of query or transaction; -27 if it is still in flight after wait_ms:
///   then the query comes on the executed list later; -4 in a callback; else as
///   ic_apid_conn_start_transaction and ic_apid_conn_write_key.
/// See also ic_apid_conn_read_key_sync, ic_apid_conn_write_key.
///
/// # Safety
/// conn is a connection; args is NULL or valid for the size it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_write_key_sync(
    conn: *mut ApidConnection,
    query: QueryId,
    args: *const WriteKeyArgs,
    wait_ms: u32,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let (connection, args) = unsafe { (borrow(conn.cast_const())?, read(args)?) };
        let operation = args.operation()?;
        connection
            .enter_alone(|| connection.execute(conn, query, operation, wait_ms))?
            .ok_or(own::IN_CALLBACK)
    })
}

/// Reads one row in a transaction of its own and waits for it. Other queries of the connection that complete
/// meanwhile are completed as in a poll.
/// query: idle, its key row filled.
/// args: NULL for all defaults. Its callback and user_ref are not used.
/// wait_ms: milliseconds to wait at most.
/// Threads: the connection's, not in a callback; blocks up to wait_ms; calls back for other queries.
/// Returns as ic_apid_conn_write_key_sync; 626 if there is no such row.
/// See also ic_apid_conn_write_key_sync, ic_apid_conn_read_key.
///
/// # Safety
/// conn is a connection; args is NULL or valid for the size it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_read_key_sync(
    conn: *mut ApidConnection,
    query: QueryId,
    args: *const ReadKeyArgs,
    wait_ms: u32,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let (connection, args) = unsafe { (borrow(conn.cast_const())?, read(args)?) };
        let operation = args.operation()?;
        connection
            .enter_alone(|| connection.execute(conn, query, operation, wait_ms))?
            .ok_or(own::IN_CALLBACK)
    })
}
