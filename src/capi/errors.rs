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

/// The version of the library that is linked, as major << 16 | minor << 8 | patch.
/// Any thread; never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn ic_version() -> u32 {
    guard_with(|_| 0, || IC_VERSION_MAJOR << 16 | IC_VERSION_MINOR << 8 | IC_VERSION_PATCH)
}

/// The version of the library that is linked, as text. A constant.
/// Any thread; never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn ic_version_text() -> *const c_char {
    const TEXT: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => panic!("the version holds a NUL"),
        };
    guard_with(|_| std::ptr::null(), || TEXT.as_ptr())
}

/// What an error code means, in a few words. A constant: never freed, never NULL, also for codes that are
/// unknown.
/// Any thread; never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn ic_error_message(code: i32) -> *const c_char {
    guard_with(|_| c"".as_ptr(), || error::message(code).as_ptr())
}

/// Whether a code is worth a retry of the whole transaction after a pause.
/// Any thread; never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn ic_error_is_temporary(code: i32) -> bool {
    guard_with(|_| false, || error::is_temporary(code))
}

/// Whether a code says that nobody knows if the transaction was committed: find out before a retry.
/// Any thread; never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn ic_error_is_unknown_result(code: i32) -> bool {
    guard_with(|_| false, || error::is_unknown_result(code))
}

/// What kind of error a code is: one of IC_ERROR_CLASS_*.
/// Any thread; never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn ic_error_class(code: i32) -> i32 {
    guard_with(|_| error::Class::Internal as i32, || error::class(code) as i32)
}
