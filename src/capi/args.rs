//! Argument structs that begin with their size, and the constants their fields take. An older caller's
//! smaller struct leaves the fields it does not know at their defaults; in a newer caller's larger one, what
//! this library does not know must be zero.

use std::ffi::{c_char, c_void};

use super::connection::ApidConnection;
use crate::conn::Operation;
use crate::error::own;
use crate::wire::transaction::{AbortOption, LockMode, WriteKind};

/// Makes a row that must not be there; 630 if it is.
pub const IC_WRITE_KIND_INSERT: i32 = 1;
/// Changes a row that must be there; 626 if it is not.
pub const IC_WRITE_KIND_UPDATE: i32 = 2;
/// Makes the row or changes it. The default.
pub const IC_WRITE_KIND_WRITE: i32 = 3;
/// Removes a row that must be there; 626 if it is not.
pub const IC_WRITE_KIND_DELETE: i32 = 4;

/// The last committed row; takes no lock and waits for none. The default.
pub const IC_READ_KIND_COMMITTED: i32 = 1;
/// Waits for the row's lock and frees it at once.
pub const IC_READ_KIND_SIMPLE: i32 = 2;
/// Others may read the row, not write it, until the transaction ends.
pub const IC_READ_KIND_SHARED: i32 = 3;
/// Nobody else may lock the row until the transaction ends.
pub const IC_READ_KIND_EXCLUSIVE: i32 = 4;

/// What suits the kind: writes abort on an error, reads ignore it.
pub const IC_ABORT_OPTION_DEFAULT: i32 = 0;
/// When the operation fails, its transaction is rolled back.
pub const IC_ABORT_OPTION_ABORT_ON_ERROR: i32 = 1;
/// When the operation fails, the transaction goes on, and a commit commits the others.
pub const IC_ABORT_OPTION_IGNORE_ERROR: i32 = 2;

/// Called when a query is complete: inside ic_apid_conn_poll or ic_apid_conn_flush or while the connection is
/// freed, on the calling thread, once per definition. It may read the query's error and rows, define queries
/// (this one too), start, commit, roll back and close transactions, and send. In it a poll does nothing, a
/// flush only sends, and freeing the connection is refused. On return the query is idle unless it was defined
/// anew. It must return: no longjmp, no C++ exception. Run by ic_apid_conn_free it cannot define anything new
/// (-14).
pub type QueryCallback =
    Option<unsafe extern "C" fn(conn: *mut ApidConnection, query: u64, user_ref: *mut c_void)>;

/// A struct that C fills: begins with its size.
pub(crate) trait SizedStruct: Copy {
    /// The defaults, with the size of this library's form.
    fn defaults() -> Self;
}

/// Sets a caller's struct of `size` bytes to the defaults.
///
/// # Safety
/// `args` is NULL or valid for writing `size` bytes.
pub(crate) unsafe fn init<A: SizedStruct>(args: *mut A, size: usize) {
    if args.is_null() || size < size_of::<usize>() {
        return;
    }
    let defaults = A::defaults();
    let known = size.min(size_of::<A>());
    // SAFETY: `known` bytes of `defaults` are readable, and by this function's condition `size` bytes are
    // writable at `args`; a fresh local cannot overlap them.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const defaults).cast::<u8>(), args.cast::<u8>(), known);
        args.cast::<u8>().add(known).write_bytes(0, size - known);
        args.cast::<usize>().write_unaligned(size);
    }
}

/// The caller's struct, missing fields at their defaults. NULL means all defaults.
///
/// # Safety
/// `args` is NULL, or points to a struct whose first field is its size in bytes, and is readable for that
/// size.
#[inline]
pub(crate) unsafe fn read<A: SizedStruct>(args: *const A) -> Result<A, i32> {
    let mut all = A::defaults();
    if args.is_null() {
        return Ok(all);
    }
    // SAFETY: by this function's condition the first field is there.
    let size = unsafe { args.cast::<usize>().read_unaligned() };
    if size == size_of::<A>() {
        // SAFETY: by this function's condition `size` bytes are readable; any bytes are a valid `A`, whose
        // fields are numbers, pointers and nullable function pointers.
        return Ok(unsafe { args.read_unaligned() });
    }
    if !(size_of::<usize>()..=4096).contains(&size) {
        return Err(own::INVALID_ARGUMENT);
    }
    let known = size.min(size_of::<A>());
    // SAFETY: as above, for `size` bytes; `all` is a local of at least `known` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(args.cast::<u8>(), (&raw mut all).cast::<u8>(), known);
        let rest = std::slice::from_raw_parts(args.cast::<u8>().add(known), size - known);
        if rest.iter().any(|&byte| byte != 0) {
            return Err(own::INVALID_ARGUMENT);
        }
    }
    Ok(all)
}

/// Fills a caller's struct as far as its size goes.
///
/// # Safety
/// `to` is NULL, or points to a struct whose first field is its size in bytes, and is writable for that size.
pub(crate) unsafe fn write_out<A: SizedStruct>(to: *mut A, value: A) -> Result<(), i32> {
    if to.is_null() {
        return Err(own::INVALID_ARGUMENT);
    }
    // SAFETY: by this function's condition the first field is there.
    let size = unsafe { to.cast::<usize>().read_unaligned() };
    if !(size_of::<usize>()..=4096).contains(&size) {
        return Err(own::INVALID_ARGUMENT);
    }
    // SAFETY: the known part of `size` bytes is writable by this function's condition; the size field itself
    // is put back as it was.
    unsafe {
        let known = size.min(size_of::<A>());
        std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), to.cast::<u8>(), known);
        to.cast::<u8>().add(known).write_bytes(0, size - known);
        to.cast::<usize>().write_unaligned(size);
    }
    Ok(())
}

/// What a write does and what becomes of its completion.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct WriteKeyArgs {
    /// Size of the struct in bytes, as the caller knows it.
    pub size: usize,
    /// One of IC_WRITE_KIND_*.
    pub kind: i32,
    /// One of IC_ABORT_OPTION_*.
    pub abort_option: i32,
    /// Called at completion; NULL: the query goes to the executed list.
    pub callback: QueryCallback,
    /// Given back with the completed query; never looked at.
    pub user_ref: *mut c_void,
}

impl SizedStruct for WriteKeyArgs {
    fn defaults() -> Self {
        WriteKeyArgs {
            size: size_of::<Self>(),
            kind: IC_WRITE_KIND_WRITE,
            abort_option: IC_ABORT_OPTION_DEFAULT,
            callback: None,
            user_ref: std::ptr::null_mut(),
        }
    }
}

/// How a read treats locks and what becomes of its completion.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ReadKeyArgs {
    /// Size of the struct in bytes, as the caller knows it.
    pub size: usize,
    /// One of IC_READ_KIND_*.
    pub kind: i32,
    /// One of IC_ABORT_OPTION_*; committed and simple reads always ignore errors.
    pub abort_option: i32,
    /// Called at completion; NULL: the query goes to the executed list.
    pub callback: QueryCallback,
    /// Given back with the completed query; never looked at.
    pub user_ref: *mut c_void,
}

impl SizedStruct for ReadKeyArgs {
    fn defaults() -> Self {
        ReadKeyArgs {
            size: size_of::<Self>(),
            kind: IC_READ_KIND_COMMITTED,
            abort_option: IC_ABORT_OPTION_DEFAULT,
            callback: None,
            user_ref: std::ptr::null_mut(),
        }
    }
}

/// How to connect.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ConnectArgs {
    /// Size of the struct in bytes, as the caller knows it.
    pub size: usize,
    /// Node id to ask for, 1 to 255. 0, the default: what the connectstring names, else any.
    pub node_id: u32,
    /// Receive threads, 1 to 64; default 1, which is enough until it is a full core.
    pub receive_threads: u32,
    /// 1, the default: a thread that polls alone may read the sockets itself, which saves waking it through
    /// the receive thread; only with one receive thread. 0: the receive threads always read.
    pub lend_receive: u32,
    /// Microseconds that a send without force may be held for company, 0 (not at all) to 1000000; default
    /// 200.
    pub hold_us: u32,
    /// Milliseconds until a first data node must be usable; default 30000.
    pub connect_ms: u32,
    /// Milliseconds to wait for the other data nodes once one is usable, within connect_ms; default 3000.
    pub grace_ms: u32,
    /// Milliseconds that an operation may go without a reply, see ic_apid_conn_set_deadline. 0, the default:
    /// long enough, by the cluster's configuration, for it to deal with a node that fails.
    pub deadline_ms: u32,
    /// Bytes that may wait for a data node, in a connection and on the node's link together, before the
    /// connection's next definition for it is refused with -22: 65536 to 1073741824; default 2097152.
    pub max_waiting: u32,
    /// Operations of a connection that may be in flight before its next definition is refused with -21: 1 to
    /// 1048576; default 65536. See ic_apid_conn_set_max_in_flight.
    pub max_in_flight: u32,
}

impl SizedStruct for ConnectArgs {
    fn defaults() -> Self {
        ConnectArgs {
            size: size_of::<Self>(),
            node_id: 0,
            receive_threads: 1,
            lend_receive: 1,
            hold_us: 200,
            connect_ms: 30_000,
            grace_ms: 3_000,
            deadline_ms: 0,
            max_waiting: 2 << 20,
            max_in_flight: 1 << 16,
        }
    }
}

/// The state of a data node.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct NodeState {
    /// Size of the struct in bytes, as the caller knows it.
    pub size: usize,
    /// Its node id.
    pub node_id: u32,
    /// 1: a link to it is open; else 0.
    pub connected: u32,
    /// 1: it is started and takes new work; else 0.
    pub usable: u32,
}

impl SizedStruct for NodeState {
    fn defaults() -> Self {
        NodeState { size: size_of::<Self>(), node_id: 0, connected: 0, usable: 0 }
    }
}

/// A new table's properties.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct TableArgs {
    /// Size of the struct in bytes, as the caller knows it.
    pub size: usize,
    /// 1, the default: rows survive a restart of the whole cluster. 0: the table does, its rows do not.
    pub logged: u32,
    /// 1: committed reads may use any replica. 0, the default: the primary one.
    pub read_backup: u32,
    /// 1: every node group holds all rows. 0, the default: each holds its part.
    pub fully_replicated: u32,
}

impl SizedStruct for TableArgs {
    fn defaults() -> Self {
        TableArgs { size: size_of::<Self>(), logged: 1, read_backup: 0, fully_replicated: 0 }
    }
}

/// A column of a table: what ic_apid_table_create takes and ic_table_column gives.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ColumnSpec {
    /// The column's name. What ic_table_column gives is valid as long as the table handle.
    pub name: *const c_char,
    /// One of IC_TYPE_*.
    pub kind: i32,
    /// Elements: bytes of CHAR and BINARY, bytes at most of VARCHAR, VARBINARY, LONGVARCHAR and
    /// LONGVARBINARY, bits of BIT, 1 of the others. 0 means 1.
    pub length: u32,
    /// Decimal digits of DECIMAL; digits of fractional seconds of TIME2, DATETIME2 and TIMESTAMP2.
    pub precision: u32,
    /// Digits after the point of DECIMAL.
    pub scale: u32,
    /// Number of the collation of CHAR, VARCHAR and LONGVARCHAR; 0 there means binary (63).
    pub charset: u32,
    /// IC_COLUMN_*, or-ed.
    pub flags: u32,
    /// Bytes the column takes in a row, length bytes included; given by ic_table_column, ignored by create.
    pub row_bytes: u32,
}

/// A part of the primary key; never NULL.
pub const IC_COLUMN_PRIMARY_KEY: u32 = 1;
/// May be NULL.
pub const IC_COLUMN_NULLABLE: u32 = 2;
/// A part of the distribution key. When no column has it, the whole primary key is the distribution key.
pub const IC_COLUMN_DISTRIBUTION_KEY: u32 = 4;
/// Stored in the dynamic format.
pub const IC_COLUMN_DYNAMIC: u32 = 8;

/// A column's place in a row.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct RecordField {
    /// The column's name.
    pub name: *const c_char,
    /// Where its value is, in bytes from the start of the row.
    pub offset: u32,
    /// For a nullable column: the byte of the row with its NULL bit, from the start of the row; 1 in the bit
    /// means NULL. Ignored for others.
    pub null_byte: u32,
    /// The bit in that byte, 0 (the lowest) to 7.
    pub null_bit: u32,
}

/// The layout of the public structs on 64-bit systems, which is a part of the ABI; tests/c/layout.c asserts
/// the same of the header.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::offset_of;

    assert!(size_of::<WriteKeyArgs>() == 32);
    assert!(offset_of!(WriteKeyArgs, size) == 0);
    assert!(offset_of!(WriteKeyArgs, kind) == 8);
    assert!(offset_of!(WriteKeyArgs, abort_option) == 12);
    assert!(offset_of!(WriteKeyArgs, callback) == 16);
    assert!(offset_of!(WriteKeyArgs, user_ref) == 24);

    assert!(size_of::<ReadKeyArgs>() == 32);
    assert!(offset_of!(ReadKeyArgs, size) == 0);
    assert!(offset_of!(ReadKeyArgs, kind) == 8);
    assert!(offset_of!(ReadKeyArgs, abort_option) == 12);
    assert!(offset_of!(ReadKeyArgs, callback) == 16);
    assert!(offset_of!(ReadKeyArgs, user_ref) == 24);

    assert!(size_of::<ConnectArgs>() == 48);
    assert!(offset_of!(ConnectArgs, size) == 0);
    assert!(offset_of!(ConnectArgs, node_id) == 8);
    assert!(offset_of!(ConnectArgs, receive_threads) == 12);
    assert!(offset_of!(ConnectArgs, lend_receive) == 16);
    assert!(offset_of!(ConnectArgs, hold_us) == 20);
    assert!(offset_of!(ConnectArgs, connect_ms) == 24);
    assert!(offset_of!(ConnectArgs, grace_ms) == 28);
    assert!(offset_of!(ConnectArgs, deadline_ms) == 32);
    assert!(offset_of!(ConnectArgs, max_waiting) == 36);
    assert!(offset_of!(ConnectArgs, max_in_flight) == 40);

    assert!(size_of::<NodeState>() == 24);
    assert!(offset_of!(NodeState, size) == 0);
    assert!(offset_of!(NodeState, node_id) == 8);
    assert!(offset_of!(NodeState, connected) == 12);
    assert!(offset_of!(NodeState, usable) == 16);

    assert!(size_of::<TableArgs>() == 24);
    assert!(offset_of!(TableArgs, size) == 0);
    assert!(offset_of!(TableArgs, logged) == 8);
    assert!(offset_of!(TableArgs, read_backup) == 12);
    assert!(offset_of!(TableArgs, fully_replicated) == 16);

    assert!(size_of::<ColumnSpec>() == 40);
    assert!(offset_of!(ColumnSpec, name) == 0);
    assert!(offset_of!(ColumnSpec, kind) == 8);
    assert!(offset_of!(ColumnSpec, length) == 12);
    assert!(offset_of!(ColumnSpec, precision) == 16);
    assert!(offset_of!(ColumnSpec, scale) == 20);
    assert!(offset_of!(ColumnSpec, charset) == 24);
    assert!(offset_of!(ColumnSpec, flags) == 28);
    assert!(offset_of!(ColumnSpec, row_bytes) == 32);

    assert!(size_of::<RecordField>() == 24);
    assert!(offset_of!(RecordField, name) == 0);
    assert!(offset_of!(RecordField, offset) == 8);
    assert!(offset_of!(RecordField, null_byte) == 12);
    assert!(offset_of!(RecordField, null_bit) == 16);
};

fn abort_option(number: i32, default: AbortOption) -> Result<AbortOption, i32> {
    match number {
        IC_ABORT_OPTION_DEFAULT => Ok(default),
        IC_ABORT_OPTION_ABORT_ON_ERROR => Ok(AbortOption::AbortOnError),
        IC_ABORT_OPTION_IGNORE_ERROR => Ok(AbortOption::IgnoreError),
        _ => Err(own::INVALID_ARGUMENT),
    }
}

impl WriteKeyArgs {
    /// The operation that the numbers mean.
    pub(crate) fn operation(&self) -> Result<Operation, i32> {
        let kind = match self.kind {
            IC_WRITE_KIND_INSERT => WriteKind::Insert,
            IC_WRITE_KIND_UPDATE => WriteKind::Update,
            IC_WRITE_KIND_WRITE => WriteKind::Write,
            IC_WRITE_KIND_DELETE => WriteKind::Delete,
            _ => return Err(own::INVALID_ARGUMENT),
        };
        Ok(Operation::Write(kind, abort_option(self.abort_option, AbortOption::AbortOnError)?))
    }
}

impl ReadKeyArgs {
    /// The operation that the numbers mean.
    pub(crate) fn operation(&self) -> Result<Operation, i32> {
        let option = abort_option(self.abort_option, AbortOption::IgnoreError)?;
        Ok(Operation::Read(match self.kind {
            IC_READ_KIND_COMMITTED => LockMode::Committed,
            IC_READ_KIND_SIMPLE => LockMode::Simple,
            IC_READ_KIND_SHARED => LockMode::Shared(option),
            IC_READ_KIND_EXCLUSIVE => LockMode::Exclusive(option),
            _ => return Err(own::INVALID_ARGUMENT),
        }))
    }
}
