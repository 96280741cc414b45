//! The log and the signal trace, of the whole process.

use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;

use super::{guard, text};
use crate::error::own;
use crate::link::trace;
use crate::log::{self, Level};

/// No log.
pub const IC_LOG_NONE: i32 = 0;
/// Something broke: damage on the way, a node that cannot be used, a thread that has died.
pub const IC_LOG_ERROR: i32 = 1;
/// Something was lost, or is tried again: links, failed nodes, node ids that were not given.
pub const IC_LOG_WARNING: i32 = 2;
/// A state has changed: connects, registrations, node states.
pub const IC_LOG_INFO: i32 = 3;
/// Each step.
pub const IC_LOG_DEBUG: i32 = 4;

/// Called with each line of the log: its level, one of IC_LOG_*, and the text, without a line end, which is
/// valid during the call only. It runs on whatever thread has something to say, threads of the library too,
/// several at once perhaps; the library holds no lock meanwhile. It should return soon, for links wait for
/// it, and must not call the library but for ic_set_log, nor leave by longjmp or an exception.
pub type LogCallback = Option<unsafe extern "C" fn(level: i32, text: *const c_char, user_ref: *mut c_void)>;

/// What the program gave.
struct Given {
    callback: unsafe extern "C" fn(i32, *const c_char, *mut c_void),
    user_ref: *mut c_void,
}

// SAFETY: the pointer is only given back to the program's callback, which by ic_set_log's rules may be called
// on any thread.
unsafe impl Send for Given {}
// SAFETY: as above, and on several at once.
unsafe impl Sync for Given {}

impl Given {
    fn tell(&self, level: Level, line: &str) {
        let bytes: Vec<u8> = line.bytes().filter(|&byte| byte != 0).collect();
        let line = CString::new(bytes).unwrap_or_default();
        // SAFETY: the program gave this function to be called like this, until it sets another.
        unsafe { (self.callback)(level as i32, line.as_ptr(), self.user_ref) };
    }
}

/// Sets what is told about connects, lost links, node states, registrations and retries, in all cluster
/// handles of the process. Text is composed only for levels that are asked for. On return the callback that
/// was set before runs no more, so its user_ref may go; only when called in a log callback, others may still
/// be in it.
/// callback: NULL for no log.
/// level: the highest that is wanted, IC_LOG_NONE to IC_LOG_DEBUG.
/// user_ref: given to the callback; never looked at. It must live until another callback is set.
/// Threads: any; blocks until log callbacks that run now have returned.
/// Returns 0; -1 for another level.
/// See also IC_LOG_CALLBACK, ic_set_signal_trace.
///
/// # Safety
/// callback may be called as described until another is set; so may user_ref be used on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_set_log(callback: LogCallback, level: i32, user_ref: *mut c_void) -> i32 {
    guard(|| {
        let level = match level {
            IC_LOG_NONE => None,
            IC_LOG_ERROR => Some(Level::Error),
            IC_LOG_WARNING => Some(Level::Warning),
            IC_LOG_INFO => Some(Level::Info),
            IC_LOG_DEBUG => Some(Level::Debug),
            _ => return Err(own::INVALID_ARGUMENT),
        };
        log::set(level.zip(callback).map(|(level, callback)| {
            let given = Given { callback, user_ref };
            let tell: Arc<log::Callback> = Arc::new(move |level, line: &str| given.tell(level, line));
            (level, tell)
        }));
        Ok(())
    })
}

/// Has every signal that is sent and received written in words: a line each, with NDB's names of signals,
/// blocks and fields. It shows keys and values, and makes the library slow. The environment variable
/// IC_SIGNAL_TRACE does the same from the first connect on.
/// path: `stderr`, or a file that is appended to; NULL or empty ends the trace. Copied.
/// Threads: any; blocks while the file is opened.
/// Returns 0; -1 if the file cannot be opened; -24 for a path that is no UTF-8.
/// See also ic_set_log.
///
/// # Safety
/// path is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_set_signal_trace(path: *const c_char) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let path = unsafe { text(path) }?;
        trace::set(path).map_err(|_| own::INVALID_ARGUMENT)
    })
}
