//! Errors in a line for a person: of a query, of a transaction, of a code alone; and what to do about a code.

use std::ffi::c_char;

use super::connection::{ApidConnection, QueryId, TransId};
use super::handle::borrow;
use super::{guard_with, put};
use crate::conn::{Connection, explain};
use crate::error::{self, own};

/// Writes a text as snprintf does: as much as fits, and a NUL. Gives the length of all of it.
///
/// # Safety
/// `buffer` is NULL or valid for writing `size` bytes.
unsafe fn print(text: &str, buffer: *mut c_char, size: usize) -> i32 {
    let bytes = text.as_bytes();
    if !buffer.is_null() && size > 0 {
        let mut length = bytes.len().min(size - 1);
        // Not half a character.
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        // SAFETY: `length` is below `size`, and within the text.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast::<u8>(), length);
            let _ = put(buffer.add(length), 0);
        }
    }
    i32::try_from(bytes.len()).unwrap_or(i32::MAX)
}

/// # Safety
/// conn is a connection; buffer is NULL or valid for size bytes.
unsafe fn print_of(
    conn: *mut ApidConnection,
    buffer: *mut c_char,
    size: usize,
    explain: impl FnOnce(&ConnectionOfC) -> Result<String, i32>,
) -> i32 {
    let find = || {
        // SAFETY: this function's own condition.
        let connection = unsafe { borrow(conn.cast_const()) }?;
        let text = connection.enter(|inner| explain(inner))?;
        // SAFETY: this function's own condition.
        Ok(unsafe { print(&text, buffer, size) })
    };
    guard_with(|code| code, || find().unwrap_or_else(|code| code))
}

type ConnectionOfC = Connection<super::connection::Token>;

/// What to do about an error code, in one sentence.
/// code: any.
/// Threads: any; blocks never.
/// Returns a constant, never NULL, also for codes that are unknown.
/// See also ic_error_message, ic_retry_next.
#[unsafe(no_mangle)]
pub extern "C" fn ic_error_advice(code: i32) -> *const c_char {
    guard_with(|_| c"".as_ptr(), || error::advice(code).as_ptr())
}

/// An error code in a line for a person: number, class and meaning.
/// code: any.
/// buffer: receives as much of the line as fits, with a NUL; NULL for its length alone.
/// size: bytes of the buffer.
/// Threads: any; blocks never.
/// Returns the line's length without the NUL, which can be size or more: then it was cut.
/// See also ic_apid_query_explain, ic_apid_transaction_explain.
///
/// # Safety
/// buffer is NULL or valid for size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_error_explain(code: i32, buffer: *mut c_char, size: usize) -> i32 {
    // SAFETY: the caller's duty.
    guard_with(|_| own::INTERNAL, || unsafe { print(&explain::explain(code), buffer, size) })
}

/// The last completion of a query in a line for a person: error, class, meaning; how far it had come (define,
/// send, execute, commit, rollback); the coordinator's node and host; the table; whether its transaction was,
/// was not, or may have been committed.
/// buffer: receives as much of the line as fits, with a NUL; NULL for its length alone.
/// size: bytes of the buffer.
/// Threads: the connection's; blocks never.
/// Returns the line's length without the NUL, which can be size or more: then it was cut; -5 for a stale or
///   foreign handle.
/// See also ic_apid_query_error, ic_apid_transaction_explain, ic_error_advice.
///
/// # Safety
/// conn is a connection; buffer is NULL or valid for size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_query_explain(
    conn: *mut ApidConnection,
    query: QueryId,
    buffer: *mut c_char,
    size: usize,
) -> i32 {
    // SAFETY: the caller's duty.
    unsafe { print_of(conn, buffer, size, |inner| inner.explain_query(query)) }
}

/// A transaction's error in a line for a person, as ic_apid_query_explain without the table.
/// buffer: receives as much of the line as fits, with a NUL; NULL for its length alone.
/// size: bytes of the buffer.
/// Threads: the connection's; blocks never.
/// Returns the line's length without the NUL, which can be size or more: then it was cut; -6 for a stale or
///   foreign handle.
/// See also ic_apid_transaction_error, ic_apid_query_explain, ic_error_advice.
///
/// # Safety
/// conn is a connection; buffer is NULL or valid for size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_transaction_explain(
    conn: *mut ApidConnection,
    trans: TransId,
    buffer: *mut c_char,
    size: usize,
) -> i32 {
    // SAFETY: the caller's duty.
    unsafe { print_of(conn, buffer, size, |inner| inner.explain_transaction(trans)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn prints_as_much_as_fits() {
        let mut buffer = [b'x' as c_char; 5];
        // SAFETY: the buffer is a local of the size that is given.
        unsafe {
            assert_eq!(print("abcdef", buffer.as_mut_ptr(), 5), 6);
            assert_eq!(CStr::from_ptr(buffer.as_ptr()), c"abcd");
            assert_eq!(print("aäöü", buffer.as_mut_ptr(), 5), 7);
            assert_eq!(CStr::from_ptr(buffer.as_ptr()).to_str(), Ok("aä"));
            assert_eq!(print("ab", buffer.as_mut_ptr(), 1), 2);
            assert_eq!(buffer[0], 0);
            assert_eq!(print("ab", std::ptr::null_mut(), 0), 2);
            buffer[0] = 7;
            assert_eq!(print("ab", buffer.as_mut_ptr(), 0), 2);
            assert_eq!(buffer[0], 7);
        }
    }
}
