//! Counts the program's heap allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counted.
pub struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Allocations of all threads so far; one that grows counts too.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

// SAFETY: every call is passed on as it came, and what it returns comes from the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s rules.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc_zeroed`'s rules.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps `realloc`'s rules, and `at` came from the system's allocator.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s rules, and `at` came from the system's allocator.
        unsafe { System.dealloc(at, layout) }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_box_is_counted() {
        let before = super::count();
        let boxed = std::hint::black_box(Box::new([0_u8; 100]));
        assert!(super::count() > before, "{}", boxed.len());
    }
}
