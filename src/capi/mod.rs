//! The C ABI: checks arguments, calls, translates errors. No logic of its own.
//!
//! One rule for every export: it runs inside `guard`, so that no panic crosses the boundary; pointers are
//! checked for NULL and, where they are handles, for their kind; outputs are written only on success.
//!
//! - [`args`]: argument structs that begin with their size, and their constants;
//! - [`handle`]: how handles reach C and come back;
//! - [`global`], [`connection`], [`multi_read`], [`table`], [`record`], [`errors`], [`explain`], [`retry`],
//!   [`statistics`], [`log`]: the functions, by the object they are about;
//! - `embedded`: data nodes in this process, if the feature of this name is there.

pub mod args;
pub mod connection;
#[cfg(feature = "embedded")]
pub mod embedded;
pub mod errors;
pub mod explain;
#[cfg(feature = "forced-panics")]
mod forced;
pub mod global;
pub mod handle;
pub mod log;
pub mod multi_read;
pub mod record;
pub mod retry;
pub mod statistics;
pub mod table;

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::error::own;

/// Runs the body of an export; a panic becomes `-2` ([`own::INTERNAL`]).
pub(crate) fn guard(body: impl FnOnce() -> Result<(), i32>) -> i32 {
    guard_with(|code| code, || body().err().unwrap_or(0))
}

/// Runs the body of an export that does not return a code; `failed` makes its answer of one.
pub(crate) fn guard_with<R>(failed: impl FnOnce(i32) -> R, body: impl FnOnce() -> R) -> R {
    let body = || {
        #[cfg(feature = "forced-panics")]
        forced::panic_if_asked();
        body()
    };
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| failed(own::INTERNAL))
}

/// The text behind a C string.
///
/// # Safety
/// `text` is NULL or points to a NUL-terminated string that stays as it is while the result is used.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<Option<&'a str>, i32> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL; the rest is this function's own condition.
    unsafe { CStr::from_ptr(text) }.to_str().map(Some).map_err(|_| own::INVALID_NAME)
}

/// A time limit in milliseconds; 0 stands for the default.
pub(crate) fn milliseconds(limit: u32) -> Option<Duration> {
    (limit != 0).then(|| Duration::from_millis(limit as u64))
}

/// Writes to an output of the caller.
///
/// # Safety
/// `to` is NULL or valid for writing a `T`.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Result<(), i32> {
    if to.is_null() {
        return Err(own::INVALID_ARGUMENT);
    }
    // SAFETY: not NULL; the rest is this function's own condition.
    unsafe { to.write(value) };
    Ok(())
}

#[cfg(test)]
mod tests;
