//! Multi-key reads: many keys, one completion.

use std::ffi::c_void;
use std::mem::offset_of;

use super::args::{SizedStruct, init, read};
use super::connection::{ApidConnection, QueryId, Token};
use super::handle::borrow;
use super::record::Record;
use super::table::TableDef;
use super::{guard, guard_with, milliseconds, put};
use crate::conn::Connection;
use crate::conn::multi_read::{Args, KeyState, Kind, MAX_KEYS, Source};
use crate::error::{ndb, own};

/// A multi-key read's handle: 0 is none; stale once it is closed.
pub type MultiReadId = u64;

/// Every key's row, or that it is missing. The default.
pub const IC_MULTI_READ_GATHER: i32 = 1;
/// Which keys there are, and how many; no columns are read.
pub const IC_MULTI_READ_EXISTS: i32 = 2;

/// Keys in one multi-key read at most.
pub const IC_MULTI_READ_MAX_KEYS: u32 = 16384;

/// The key is not known yet.
pub const IC_KEY_STATE_PENDING: i32 = 0;
/// There is such a row.
pub const IC_KEY_STATE_FOUND: i32 = 1;
/// There is no such row.
pub const IC_KEY_STATE_MISSING: i32 = 2;
/// The key could not be read: it may be there or not.
pub const IC_KEY_STATE_FAILED: i32 = 3;

const _: () = {
    assert!(IC_MULTI_READ_MAX_KEYS as usize == MAX_KEYS);
    assert!(size_of::<MultiReadArgs>() == 32);
    assert!(offset_of!(MultiReadArgs, size) == 0);
    assert!(offset_of!(MultiReadArgs, kind) == 8);
    assert!(offset_of!(MultiReadArgs, deadline_ms) == 12);
    assert!(offset_of!(MultiReadArgs, callback) == 16);
    assert!(offset_of!(MultiReadArgs, user_ref) == 24);
};

/// Called when a multi-key read is complete, by the rules of IC_QUERY_CALLBACK. Its queries are idle and may
/// be defined anew. When it returns the multi-key read is closed.
pub type MultiReadCallback =
    Option<unsafe extern "C" fn(conn: *mut ApidConnection, multi_read: u64, user_ref: *mut c_void)>;

/// What a multi-key read wants to know and what becomes of its completion.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MultiReadArgs {
    /// Size of the struct in bytes, as the caller knows it.
    pub size: usize,
    /// One of IC_MULTI_READ_*.
    pub kind: i32,
    /// Milliseconds that it may go without a reply; 0: the connection's deadline.
    pub deadline_ms: u32,
    /// Called at completion; NULL: it goes to the list of executed multi-key reads.
    pub callback: MultiReadCallback,
    /// Given back with the completion; never looked at.
    pub user_ref: *mut c_void,
}

impl SizedStruct for MultiReadArgs {
    fn defaults() -> Self {
        MultiReadArgs {
            size: size_of::<Self>(),
            kind: IC_MULTI_READ_GATHER,
            deadline_ms: 0,
            callback: None,
            user_ref: std::ptr::null_mut(),
        }
    }
}

impl MultiReadArgs {
    fn checked(&self, rows: *mut u8) -> Result<Args<Token>, i32> {
        let kind = match self.kind {
            IC_MULTI_READ_GATHER => Kind::Gather,
            IC_MULTI_READ_EXISTS => Kind::Exists,
            _ => return Err(own::INVALID_ARGUMENT),
        };
        let token = Token { callback: self.callback, user_ref: self.user_ref, rows };
        Ok(Args { kind, limit: milliseconds(self.deadline_ms), callback: self.callback.is_some(), token })
    }
}

/// Writes the rows that were found to where the call that started the read was told to.
pub(super) fn copy_rows(inner: &Connection<Token>, multi_read: MultiReadId) -> Result<(), i32> {
    let rows = inner.multi_read_token(multi_read)?.rows;
    if rows.is_null() {
        return Ok(());
    }
    for index in 0..inner.multi_read_keys(multi_read)? {
        if let Some(row) = inner.multi_read_row(multi_read, index)? {
            // SAFETY: the caller has said that `rows` is valid for a row of the record per key until the read
            // is complete, which this is a part of; it is on the caller's thread, and the library's own row
            // cannot overlap the caller's.
            unsafe { std::ptr::copy_nonoverlapping(row.as_ptr(), rows.add(index * row.len()), row.len()) };
        }
    }
    Ok(())
}

/// Sets arguments of a multi-key read to their defaults: gather, the connection's deadline, no callback.
/// args: NULL does nothing.
/// size: sizeof *args.
/// Threads: any; blocks never.
/// See also ic_apid_conn_multi_read.
///
/// # Safety
/// args is NULL or valid for size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_multi_read_args_init(args: *mut MultiReadArgs, size: usize) {
    // SAFETY: the caller's duty.
    guard_with(|_| (), || unsafe { init(args, size) })
}

/// Reads many keys; completes once. Each query's key row names a key; the queries may be of several tables.
/// The keys are split by the data nodes that own them, each part goes out with the next send in its place
/// among all else that the connection has defined, and the parts are folded into one completion. Each row is
/// a committed row, as of a read of IC_READ_KIND_COMMITTED; nothing is promised across rows, and a write of
/// this connection that has not completed may or may not be seen. Until it completes and is taken, the
/// queries are in use.
/// queries: handles of idle queries, each once; the keys in them may be equal. Copied.
/// count: how many, 1 to IC_MULTI_READ_MAX_KEYS.
/// args: NULL for all defaults. Copied.
/// multi_read: receives the handle, to be closed with ic_apid_multi_read_close once it is complete; the end
///   of its callback closes it too.
/// Threads: the connection's; blocks never.
/// Returns 0; temporary: -21 or -22 if too much is in flight or waits to be sent, -28 if no data node can
///   take work; else: -7 if a query is in use or is named twice; -5 for a stale or foreign handle; 241 if a
///   table is not what it was when it was opened; -12 for a NULL in a key; -11 for a value longer than its
///   column; -14 after a disconnect. After an error nothing was done.
/// See also ic_apid_conn_multi_read_rows, ic_apid_multi_read_key_state,
///   ic_apid_conn_get_next_executed_multi_read, ic_apid_conn_send.
///
/// # Safety
/// Pointers are valid as described.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_multi_read(
    conn: *mut ApidConnection,
    queries: *const QueryId,
    count: u32,
    args: *const MultiReadArgs,
    multi_read: *mut MultiReadId,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let (connection, args) = unsafe { (borrow(conn.cast_const())?, read(args)?) };
        if queries.is_null() || multi_read.is_null() || !(1..=IC_MULTI_READ_MAX_KEYS).contains(&count) {
            return Err(own::INVALID_ARGUMENT);
        }
        let args = args.checked(std::ptr::null_mut())?;
        // SAFETY: the caller's duty: `count` handles are readable and not written while this call runs.
        let queries = unsafe { std::slice::from_raw_parts(queries, count as usize) };
        let started = connection.enter(|inner| inner.multi_read(queries, args))?;
        // SAFETY: the caller's duty; not NULL.
        unsafe { put(multi_read, started) }
    })
}

/// As ic_apid_conn_multi_read without queries of the caller's: a row of the key record per key, one after the
/// other, and a row of the attribute record per result.
/// table: the one that is read.
/// key: a record of it that holds all columns of the primary key.
/// attr: a record of it, the columns that are read; NULL for none.
/// keys: count rows of key, ic_record_row_size bytes each. Copied.
/// rows: room for count rows of attr, which must stay valid until the read is complete and taken; NULL for
///   none. Rows of keys that were found are written when the callback is about to run, or when the read is
///   taken off the executed list; the others are left alone.
/// count: how many keys, 1 to IC_MULTI_READ_MAX_KEYS.
/// args: NULL for all defaults. Copied.
/// multi_read: receives the handle, as there.
/// Threads: the connection's; blocks never.
/// Returns as ic_apid_conn_multi_read; -9 for a record of another table or a key that is not whole.
/// See also ic_apid_conn_multi_read, ic_apid_multi_read_key_state.
///
/// # Safety
/// Pointers are valid as described.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_multi_read_rows(
    conn: *mut ApidConnection,
    table: *mut TableDef,
    key: *mut Record,
    attr: *mut Record,
    keys: *const u8,
    rows: *mut u8,
    count: u32,
    args: *const MultiReadArgs,
    multi_read: *mut MultiReadId,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let (connection, table, key) =
            unsafe { (borrow(conn.cast_const())?, borrow(table.cast_const())?, borrow(key.cast_const())?) };
        let attr = match attr.is_null() {
            true => None,
            // SAFETY: the caller's duty.
            false => Some(unsafe { borrow(attr.cast_const()) }?),
        };
        // SAFETY: the caller's duty.
        let args = unsafe { read(args) }?.checked(rows)?;
        if keys.is_null() || multi_read.is_null() || !(1..=IC_MULTI_READ_MAX_KEYS).contains(&count) {
            return Err(own::INVALID_ARGUMENT);
        }
        let size = count as usize * key.record.row_size();
        // SAFETY: the caller's duty: `count` rows of the record are readable and not written while this call
        // runs.
        let keys = unsafe { std::slice::from_raw_parts(keys, size) };
        let source = Source {
            table: &table.table,
            standing: &table.standing,
            key: &key.record,
            attr: attr.map(|attr| &attr.record),
        };
        let started = connection.enter(|inner| inner.multi_read_rows(source, keys, args))?;
        // SAFETY: the caller's duty; not NULL.
        unsafe { put(multi_read, started) }
    })
}

/// Takes the oldest complete multi-key read without a callback off the list of executed ones. Its queries are
/// idle.
/// multi_read: receives the handle, which is to be closed.
/// Threads: the connection's; blocks never, takes no replies: that is for a poll or flush before.
/// Returns true; false when the list is empty or the connection cannot be used.
/// See also ic_apid_multi_read_error, ic_apid_multi_read_close.
///
/// # Safety
/// conn is a connection; multi_read is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_conn_get_next_executed_multi_read(
    conn: *mut ApidConnection,
    multi_read: *mut MultiReadId,
) -> bool {
    let next = || {
        if multi_read.is_null() {
            return Err(own::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| {
            let taken = inner.next_executed_multi_read().ok_or(0)?;
            copy_rows(inner, taken)?;
            Ok(taken)
        })
    };
    match guard_with(Err, next) {
        // SAFETY: the caller's duty; not NULL.
        Ok(taken) => unsafe { put(multi_read, taken) }.is_ok(),
        Err(_) => false,
    }
}

/// The error of a multi-key read as a whole: that of the first key that could not be read. A missing row is
/// no error.
/// Threads: the connection's; blocks never.
/// Returns that error, 0 for none; -27 while it is out; -5 for a stale or foreign handle.
/// See also ic_apid_multi_read_key_error.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_multi_read_error(conn: *mut ApidConnection, multi_read: MultiReadId) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| match inner.multi_read_error(multi_read)? {
            _ if !inner.multi_read_is_complete(multi_read)? => Err(own::STILL_IN_FLIGHT),
            0 => Ok(()),
            error => Err(error),
        })
    })
}

/// How many of its keys were found so far; a key that was asked for twice counts twice.
/// Threads: the connection's; blocks never.
/// Returns the number; 0 for a stale or foreign handle, or if the connection cannot be used.
/// See also ic_apid_multi_read_key_state.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_multi_read_found(conn: *mut ApidConnection, multi_read: MultiReadId) -> u32 {
    let found = || {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| inner.multi_read_found(multi_read))
    };
    guard_with(|_| 0, || found().unwrap_or(0))
}

/// What became of one of its keys. A key of a node that failed is never said to be missing.
/// index: the key's place in the call, from 0.
/// Threads: the connection's; blocks never.
/// Returns one of IC_KEY_STATE_*; -1 for an index out of range; -5 for a stale or foreign handle.
/// See also ic_apid_multi_read_key_error.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_multi_read_key_state(
    conn: *mut ApidConnection,
    multi_read: MultiReadId,
    index: u32,
) -> i32 {
    let state = || key(conn, multi_read, index);
    guard_with(
        |code| code,
        || match state() {
            Ok(KeyState::Pending) => IC_KEY_STATE_PENDING,
            Ok(KeyState::Found) => IC_KEY_STATE_FOUND,
            Ok(KeyState::Missing) => IC_KEY_STATE_MISSING,
            Ok(KeyState::Failed(_)) => IC_KEY_STATE_FAILED,
            Err(code) => code,
        },
    )
}

/// The error of one of its keys.
/// index: the key's place in the call, from 0.
/// Threads: the connection's; blocks never.
/// Returns 0 for a key that was found, 626 for one that is missing, else why it could not be read; -27 while
///   that is not known; -1 for an index out of range; -5 for a stale or foreign handle.
/// See also ic_apid_multi_read_key_state.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_multi_read_key_error(
    conn: *mut ApidConnection,
    multi_read: MultiReadId,
    index: u32,
) -> i32 {
    guard(|| match key(conn, multi_read, index)? {
        KeyState::Pending => Err(own::STILL_IN_FLIGHT),
        KeyState::Found => Ok(()),
        KeyState::Missing => Err(ndb::NO_SUCH_ROW),
        KeyState::Failed(error) => Err(error),
    })
}

fn key(conn: *mut ApidConnection, multi_read: MultiReadId, index: u32) -> Result<KeyState, i32> {
    // SAFETY: the duty of the caller of either function above.
    let connection = unsafe { borrow(conn.cast_const()) }?;
    connection.enter(|inner| inner.multi_read_key(multi_read, index as usize))
}

/// What the call that started it gave as user_ref.
/// Threads: the connection's; blocks never.
/// Returns it; NULL for a stale or foreign handle, or if the connection cannot be used.
/// See also ic_apid_conn_get_next_executed_multi_read.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_multi_read_user_ref(
    conn: *mut ApidConnection,
    multi_read: MultiReadId,
) -> *mut c_void {
    let find = || {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| inner.multi_read_token(multi_read))
    };
    guard_with(|_| std::ptr::null_mut(), || find().map_or(std::ptr::null_mut(), |token| token.user_ref))
}

/// Gives up a complete multi-key read and what is known of its keys. Rows and queries of the caller's are
/// left alone.
/// Threads: the connection's; blocks never.
/// Returns 0; -7 while it is out; -5 for a stale or foreign handle.
/// See also ic_apid_conn_multi_read.
///
/// # Safety
/// conn is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_multi_read_close(conn: *mut ApidConnection, multi_read: MultiReadId) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        connection.enter(|inner| inner.close_multi_read(multi_read))
    })
}
