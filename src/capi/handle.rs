//! How handles reach C and come back: a box whose first word names its kind. A pointer to something else, or to
//! what was freed, is mostly caught by that word; it cannot be caught always.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::own;

/// What is behind an opaque pointer. The kind is cleared when the handle is freed.
pub trait Handle: Sized {
    /// The kind's number.
    const KIND: u32;

    /// The place of the kind in the handle.
    fn kind(&self) -> &AtomicU32;
}

/// Gives a handle to C.
pub fn give<H: Handle>(handle: H) -> *mut H {
    Box::into_raw(Box::new(handle))
}

/// The handle behind a pointer from C.
///
/// # Safety
/// `pointer` is NULL or points to readable memory; if the memory holds the kind's number, it is a handle of that
/// kind that is not freed while the result is used.
#[inline]
pub unsafe fn borrow<'a, H: Handle>(pointer: *const H) -> Result<&'a H, i32> {
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(own::INVALID_ARGUMENT);
    }
    // SAFETY: not NULL and aligned; the rest is this function's own condition.
    let handle = unsafe { &*pointer };
    match handle.kind().load(Ordering::Relaxed) == H::KIND {
        true => Ok(handle),
        false => Err(own::INVALID_ARGUMENT),
    }
}

/// Takes a handle back from C, to be dropped. The pointer must not be used any more.
///
/// # Safety
/// As [`borrow`], and no other thread uses the handle.
pub unsafe fn take_back<H: Handle>(pointer: *mut H) -> Result<Box<H>, i32> {
    // SAFETY: this function's own condition.
    unsafe { borrow(pointer.cast_const()) }?.kind().store(0, Ordering::Relaxed);
    // SAFETY: the kind says that `give` made it of a box, and was cleared just now, so this happens once.
    Ok(unsafe { Box::from_raw(pointer) })
}

/// How often this process is a child of one that used the library: handles remember theirs.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The present count of forks.
#[inline]
pub fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// From now on counts forks, in the child.
pub fn watch_forks() {
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function only changes an atomic, which is allowed in the child of a fork. It cannot be
        // taken back, but the C library drops it when this library is unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}
