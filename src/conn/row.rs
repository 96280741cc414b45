//! A row that a C program fills and reads in place: memory that stays where it is while its query lives.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// What any C type in a row may need.
const ALIGNMENT: usize = 16;

/// Zeroed memory of a fixed length, at an address that does not change when the value moves.
#[derive(Debug)]
pub struct Row {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory is owned by this value alone; pointers to it are used under the rule of the C header that
// a connection is used by one thread at a time.
unsafe impl Send for Row {}

impl Row {
    /// A row of `length` bytes, all zero.
    pub fn new(length: usize) -> Self {
        if length == 0 {
            return Row { start: NonNull::dangling(), length };
        }
        let layout = Self::layout(length);
        // SAFETY: the layout's size is not zero, as checked above.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => Row { start, length },
            None => handle_alloc_error(layout),
        }
    }

    fn layout(length: usize) -> Layout {
        Layout::from_size_align(length, ALIGNMENT).expect("a record bounds the length of its rows")
    }

    /// Where the row is, for a caller in C.
    pub fn pointer(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The length in bytes.
    pub fn size(&self) -> usize {
        self.length
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is valid for `length` initialised bytes (by `new`) for as long as `self` lives.
        // Nobody writes meanwhile: a caller in C may do so only between calls into the connection.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// The bytes, to be written.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `self` is borrowed mutably, so no other slice of it exists.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: allocated in `new` with this very layout, and freed here only.
            unsafe { dealloc(self.start.as_ptr(), Self::layout(self.length)) }
        }
    }
}
