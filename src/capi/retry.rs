//! Whether to run a failed transaction again.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::args::{SizedStruct, init, read, write_out};
use super::{guard_with, put};
use crate::error::own;
use crate::error::retry::{self, Decision};

/// Give the transaction up: the error is permanent, or attempts or time are spent.
pub const IC_RETRY_STOP: i32 = 0;
/// Run the whole transaction again after the pause.
pub const IC_RETRY_AGAIN: i32 = 1;
/// Nobody knows whether it was committed: after the pause, find out; run it again only if it was not.
pub const IC_RETRY_FIND_OUT: i32 = 2;

/// The attempts of one transaction: limits, which the caller may change after ic_retry_init, and the state.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct RetryState {
    /// Size of the struct in bytes, as the caller knows it.
    pub size: usize,
    /// Milliseconds: the first pause is half of this up to this, and each further one is twice as long;
    /// default 10.
    pub first_ms: u32,
    /// Milliseconds: no pause is longer; default 1000.
    pub longest_ms: u32,
    /// Attempts at most, the first one among them; 0, the default: no limit.
    pub attempts: u32,
    /// Milliseconds at most from the first failure on, pauses included; 0: no limit; default 30000.
    pub limit_ms: u32,
    /// Attempts that have failed; the library's.
    pub failed: u32,
    /// Zero; for later.
    pub reserved: u32,
    /// State of the random numbers; the library's.
    pub random: u64,
    /// When the first attempt failed, in milliseconds of a clock of the library; 0: none has.
    pub began: u64,
}

impl SizedStruct for RetryState {
    fn defaults() -> Self {
        RetryState {
            size: size_of::<Self>(),
            first_ms: 10,
            longest_ms: 1000,
            attempts: 0,
            limit_ms: 30_000,
            failed: 0,
            reserved: 0,
            random: RandomState::new().hash_one(0) | 1,
            began: 0,
        }
    }
}

/// Milliseconds of a clock that never goes back; not 0.
fn now() -> u64 {
    static BASE: OnceLock<Instant> = OnceLock::new();
    BASE.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}

/// Begins the attempts of a transaction: no failure yet, a first pause of 10 ms, none longer than 1000 ms, no
/// limit of attempts, 30 s in all. The limits may be changed afterwards.
/// retry: NULL does nothing. It holds no resources: nothing has to be freed.
/// size: sizeof *retry.
/// Threads: any; blocks never.
/// See also ic_retry_next.
///
/// # Safety
/// retry is NULL or valid for size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_retry_init(retry: *mut RetryState, size: usize) {
    // SAFETY: the caller's duty.
    guard_with(|_| (), || unsafe { init(retry, size) })
}

/// What to do after an attempt has failed. It only decides: the pause is the caller's to make, by a timer of
/// its loop for example. A code that says that an operation is still in flight (-27) is no failure yet: poll
/// on.
/// retry: from ic_retry_init, one for each transaction that is to be run until it is done.
/// code: the error of the transaction, or of the query or call that made it fail.
/// pause_ms: receives how many milliseconds to wait first; 0 with IC_RETRY_STOP.
/// Threads: any, one at a time with the same struct; blocks never.
/// Returns IC_RETRY_AGAIN, IC_RETRY_FIND_OUT or IC_RETRY_STOP; -1 for a NULL.
/// See also ic_retry_init, ic_error_is_temporary, ic_error_is_unknown_result.
///
/// # Safety
/// retry is valid for the size it says; pause_ms is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_retry_next(retry: *mut RetryState, code: i32, pause_ms: *mut u32) -> i32 {
    let decide = || {
        if retry.is_null() || pause_ms.is_null() {
            return Err(own::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's duty; not NULL.
        let mut state = unsafe { read(retry.cast_const()) }?;
        let now = now();
        if state.began == 0 {
            state.began = now;
        }
        let millis = |ms: u32| Duration::from_millis(ms.into());
        let mut attempts = retry::Retry {
            first: millis(state.first_ms),
            longest: millis(state.longest_ms),
            attempts: state.attempts,
            limit: millis(state.limit_ms),
            failed: state.failed,
            random: state.random,
        };
        let elapsed = Duration::from_millis(now.saturating_sub(state.began));
        let (decision, pause) = match attempts.next(code, elapsed) {
            Decision::Again(pause) => (IC_RETRY_AGAIN, pause),
            Decision::FindOut(pause) => (IC_RETRY_FIND_OUT, pause),
            Decision::Stop => (IC_RETRY_STOP, Duration::ZERO),
        };
        (state.failed, state.random) = (attempts.failed, attempts.random);
        // SAFETY: the caller's duty; not NULL.
        unsafe {
            write_out(retry, state)?;
            put(pause_ms, pause.as_micros().div_ceil(1000) as u32)?;
        }
        Ok(decision)
    };
    guard_with(|code| code, || decide().unwrap_or_else(|code| code))
}

/// tests/c/layout.c asserts the same of the header.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::offset_of;

    assert!(size_of::<RetryState>() == 48);
    assert!(offset_of!(RetryState, size) == 0);
    assert!(offset_of!(RetryState, first_ms) == 8);
    assert!(offset_of!(RetryState, longest_ms) == 12);
    assert!(offset_of!(RetryState, attempts) == 16);
    assert!(offset_of!(RetryState, limit_ms) == 20);
    assert!(offset_of!(RetryState, failed) == 24);
    assert!(offset_of!(RetryState, random) == 32);
    assert!(offset_of!(RetryState, began) == 40);
};
