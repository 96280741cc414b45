//! A panic in any export is caught: each is called once with a panic forced behind its guard.

use std::cell::Cell;

thread_local!(static PANIC: Cell<bool> = const { Cell::new(false) });

pub(super) fn panic_if_asked() {
    if PANIC.with(Cell::get) {
        panic!("forced by a test");
    }
}
