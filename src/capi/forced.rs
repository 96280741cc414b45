//! Panics on request, behind the guard of every export: only in a library that is built for a test of that.

use std::cell::Cell;
use std::panic::resume_unwind;

thread_local! {
    static FORCED: Cell<bool> = const { Cell::new(false) };
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Whether every call on this thread panics behind its guard from now on. How many have, so far. Not in the
/// header.
#[unsafe(no_mangle)]
pub extern "C" fn ic_forced_panics(forced: bool) -> u32 {
    FORCED.set(forced);
    PANICS.get()
}

pub(super) fn panic_if_asked() {
    if FORCED.get() {
        PANICS.set(PANICS.get() + 1);
        // As panic! does, but without a message for each.
        resume_unwind(Box::new("forced"));
    }
}
