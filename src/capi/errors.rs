//! What error codes mean, and versions.

use std::ffi::{CStr, c_char};

use super::guard_with;
use crate::error;

/// Version of the library this header belongs to.
pub const IC_VERSION_MAJOR: u32 = 0;
/// Version of the library this header belongs to.
pub const IC_VERSION_MINOR: u32 = 1;
/// Version of the library this header belongs to.
pub const IC_VERSION_PATCH: u32 = 0;

/// A pointer that must not be NULL is, or a value is out of its range.
pub const IC_ERROR_INVALID_ARGUMENT: i32 = -1;
/// Something inside the library broke; the connection refuses further work.
pub const IC_ERROR_INTERNAL: i32 = -2;
/// Another thread is inside this connection.
pub const IC_ERROR_BUSY: i32 = -3;
/// The call is not allowed inside a callback.
pub const IC_ERROR_IN_CALLBACK: i32 = -4;
/// The query handle is of no query of this connection, or of one that was freed.
pub const IC_ERROR_STALE_QUERY: i32 = -5;
/// The transaction handle is of no transaction of this connection, or of one that was closed.
pub const IC_ERROR_STALE_TRANSACTION: i32 = -6;
/// The query is defined or sent: its rows are the library's until it completes.
pub const IC_ERROR_QUERY_NOT_IDLE: i32 = -7;
/// The transaction is committing, rolling back or over.
pub const IC_ERROR_TRANSACTION_NOT_OPEN: i32 = -8;
/// A record of another table.
pub const IC_ERROR_RECORD_MISMATCH: i32 = -9;
/// A row whose length is not the record's.
pub const IC_ERROR_ROW_LENGTH: i32 = -10;
/// The length bytes of a variable-length value exceed the column.
pub const IC_ERROR_VALUE_TOO_LONG: i32 = -11;
/// A key column's NULL bit is set.
pub const IC_ERROR_NULL_KEY: i32 = -12;
/// Something that depends on it is still alive; of connect: it is connected already.
pub const IC_ERROR_STILL_IN_USE: i32 = -13;
/// The cluster handle is not connected, or was disconnected.
pub const IC_ERROR_NOT_CONNECTED: i32 = -14;
/// The connect call failed; the cluster handle's error text says at which step.
pub const IC_ERROR_CONNECT_FAILED: i32 = -15;
/// The management server gave no node id.
pub const IC_ERROR_NO_NODE_ID: i32 = -16;
/// A data node's version cannot be used. For later: connect gives -15 then, and its text names the versions.
pub const IC_ERROR_INCOMPATIBLE: i32 = -17;
/// The record names a column that the table has not.
pub const IC_ERROR_NO_SUCH_COLUMN: i32 = -18;
/// Fields of a record overlap, or lie outside the row.
pub const IC_ERROR_FIELD_LAYOUT: i32 = -19;
/// A column of a type that records cannot hold: BLOB and TEXT.
pub const IC_ERROR_UNSUPPORTED_TYPE: i32 = -20;
/// As much as allowed is in flight: poll, then define again.
pub const IC_ERROR_TOO_MANY_IN_FLIGHT: i32 = -21;
/// The send buffer is full: send and poll, then define again.
pub const IC_ERROR_SEND_BUFFER_FULL: i32 = -22;
/// A reply that does not follow the protocol.
pub const IC_ERROR_MALFORMED_REPLY: i32 = -23;
/// A name that is no UTF-8, of length zero, or too long; a connectstring or path that is no UTF-8.
pub const IC_ERROR_INVALID_NAME: i32 = -24;
/// The process forked: handles of the parent cannot be used in the child.
pub const IC_ERROR_FORKED: i32 = -25;
/// The table definition given to create is not consistent.
pub const IC_ERROR_INVALID_TABLE: i32 = -26;
/// The wait ended before the operation did; it is still in flight.
pub const IC_ERROR_STILL_IN_FLIGHT: i32 = -27;
/// No data node can take new work now; nothing was sent.
pub const IC_ERROR_NO_NODE: i32 = -28;
/// A request larger than a data node takes.
pub const IC_ERROR_TOO_LARGE: i32 = -29;
/// No reply by the deadline: the transaction is rolled back, retry it.
pub const IC_ERROR_DEADLINE: i32 = -30;

/// Success.
pub const IC_ERROR_CLASS_NONE: i32 = 0;
/// The caller broke a rule of this library.
pub const IC_ERROR_CLASS_USAGE: i32 = 1;
/// Connecting failed.
pub const IC_ERROR_CLASS_CONNECT: i32 = 2;
/// A fault of the library or a data node, damage on the way, or a code that is not known.
pub const IC_ERROR_CLASS_INTERNAL: i32 = 3;
/// Something ran out for the moment.
pub const IC_ERROR_CLASS_TEMPORARY_RESOURCE: i32 = 4;
/// A data node failed. Ask ic_error_is_temporary, not the class: 4115 is of this
/// class, and must not be retried.
pub const IC_ERROR_CLASS_NODE_RECOVERY: i32 = 5;
/// Too much is going on.
pub const IC_ERROR_CLASS_OVERLOAD: i32 = 6;
/// Something took too long, mostly a lock.
pub const IC_ERROR_CLASS_TIME_OUT: i32 = 7;
/// A data node stops.
pub const IC_ERROR_CLASS_NODE_SHUTDOWN: i32 = 8;
/// What was sent may have been done or not.
pub const IC_ERROR_CLASS_UNKNOWN_RESULT: i32 = 9;
/// The request was wrong, or not possible now.
pub const IC_ERROR_CLASS_APPLICATION: i32 = 10;
/// The row is not there.
pub const IC_ERROR_CLASS_NO_DATA: i32 = 11;
/// A key, NULL or foreign key constraint.
pub const IC_ERROR_CLASS_CONSTRAINT: i32 = 12;
/// The table or its definition.
pub const IC_ERROR_CLASS_SCHEMA: i32 = 13;
/// The user's own code, from an interpreted program.
pub const IC_ERROR_CLASS_USER: i32 = 14;
/// Memory or disk is full.
pub const IC_ERROR_CLASS_SPACE: i32 = 15;
/// A limit in the cluster's configuration.
pub const IC_ERROR_CLASS_CONFIGURATION: i32 = 16;
/// Not implemented.
pub const IC_ERROR_CLASS_NOT_IMPLEMENTED: i32 = 17;

/// The version of the library that is linked, as major << 16 | minor << 8 | patch: compare it with
/// IC_VERSION_MAJOR and the others to see whether header and library belong together.
/// Threads: any; blocks never.
/// Returns the version.
/// See also ic_version_text.
#[unsafe(no_mangle)]
pub extern "C" fn ic_version() -> u32 {
    guard_with(|_| 0, || IC_VERSION_MAJOR << 16 | IC_VERSION_MINOR << 8 | IC_VERSION_PATCH)
}

/// The version of the library that is linked, as text: "0.1.0".
/// Threads: any; blocks never.
/// Returns a constant, never NULL.
/// See also ic_version.
#[unsafe(no_mangle)]
pub extern "C" fn ic_version_text() -> *const c_char {
    const TEXT: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("the version holds a NUL"),
    };
    guard_with(|_| std::ptr::null(), || TEXT.as_ptr())
}

/// What an error code means, in a few words, for a log or a person.
/// code: any; 0 is success.
/// Threads: any; blocks never.
/// Returns a constant, never NULL, also for codes that are unknown.
/// See also ic_error_advice, ic_error_explain, ic_apid_query_explain.
#[unsafe(no_mangle)]
pub extern "C" fn ic_error_message(code: i32) -> *const c_char {
    guard_with(|_| c"".as_ptr(), || error::message(code).as_ptr())
}

/// Whether a code is worth a retry of the whole transaction after a pause.
/// code: the error of a query, a transaction, or a call.
/// Threads: any; blocks never.
/// Returns true if so; false for 0, and for codes whose outcome is unknown.
/// See also ic_retry_next, ic_error_is_unknown_result.
#[unsafe(no_mangle)]
pub extern "C" fn ic_error_is_temporary(code: i32) -> bool {
    guard_with(|_| false, || error::is_temporary(code))
}

/// Whether a code says that nobody knows if the transaction was committed: find out before a retry.
/// code: the error of a query, a transaction, or a call.
/// Threads: any; blocks never.
/// Returns true if so.
/// See also ic_retry_next, ic_error_is_temporary.
#[unsafe(no_mangle)]
pub extern "C" fn ic_error_is_unknown_result(code: i32) -> bool {
    guard_with(|_| false, || error::is_unknown_result(code))
}

/// What kind of error a code is, for counting and for a switch.
/// code: any.
/// Threads: any; blocks never.
/// Returns one of IC_ERROR_CLASS_*; IC_ERROR_CLASS_INTERNAL for a code that is unknown.
/// See also ic_error_is_temporary, ic_error_is_unknown_result.
#[unsafe(no_mangle)]
pub extern "C" fn ic_error_class(code: i32) -> i32 {
    guard_with(|_| error::Class::Internal as i32, || error::class(code) as i32)
}
