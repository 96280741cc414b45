//! How handles reach C and come back: a box whose first word names its kind. A pointer to something else, or
//! to what was freed, is mostly caught by that word; it cannot be caught always.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::own;

/// What is behind an opaque pointer.
pub trait Handle: Sized {
    /// The kind's number.
    const KIND: u32;
}

/// What an opaque pointer really points to. The kind is cleared when the handle is freed.
#[repr(C)]
struct Tagged<H> {
    kind: AtomicU32,
    handle: H,
}

const _: () = assert!(std::mem::offset_of!(Tagged<u64>, kind) == 0);

/// Gives a handle to C. What C holds is a pointer to the handle's tag.
pub fn give<H: Handle>(handle: H) -> *mut H {
    Box::into_raw(Box::new(Tagged { kind: AtomicU32::new(H::KIND), handle })).cast()
}

/// The tagged handle behind a pointer from C, if its first word names the kind.
///
/// # Safety
/// `pointer` is NULL or points to at least four readable bytes; if they hold the kind's number, it came from
/// `give` and is not freed while the result is used.
#[inline]
unsafe fn tagged<'a, H: Handle>(pointer: *const H) -> Result<&'a Tagged<H>, i32> {
    let tagged = pointer.cast::<Tagged<H>>();
    if tagged.is_null() || !tagged.is_aligned() {
        return Err(own::INVALID_ARGUMENT);
    }
    // SAFETY: not NULL, aligned, and readable by this function's condition. Only the word is looked at.
    let kind = unsafe { &*tagged.cast::<AtomicU32>() };
    if kind.load(Ordering::Relaxed) != H::KIND {
        return Err(own::INVALID_ARGUMENT);
    }
    // SAFETY: by this function's condition the word says that `give` made it.
    Ok(unsafe { &*tagged })
}

/// The handle behind a pointer from C.
///
/// # Safety
/// `pointer` is NULL or points to at least four readable bytes; if they hold the kind's number, it is a
/// handle of that kind that is not freed while the result is used.
#[inline]
pub unsafe fn borrow<'a, H: Handle>(pointer: *const H) -> Result<&'a H, i32> {
    // SAFETY: this function's own condition.
    unsafe { tagged(pointer) }.map(|tagged| &tagged.handle)
}

/// Takes a handle back from C and drops it. The pointer must not be used any more.
///
/// # Safety
/// As [`borrow`], and no other thread uses the handle.
pub unsafe fn take_back<H: Handle>(pointer: *mut H) -> Result<(), i32> {
    // SAFETY: this function's own condition.
    unsafe { tagged(pointer.cast_const()) }?.kind.store(0, Ordering::Relaxed);
    // SAFETY: the kind said that `give` made it of a box, and was cleared just now, so this happens once.
    drop(unsafe { Box::from_raw(pointer.cast::<Tagged<H>>()) });
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    struct One(u32);
    struct Other;

    impl Handle for One {
        const KIND: u32 = 1;
    }

    impl Handle for Other {
        const KIND: u32 = 2;
    }

    #[test]
    fn a_handle_is_found_as_what_it_is_and_as_nothing_else() {
        let one = give(One(7));
        // SAFETY: `one` came from `give` and is freed once, by the call that finds its kind.
        unsafe {
            assert_eq!(borrow(one.cast_const()).map(|one| one.0), Ok(7));
            assert!(borrow(one.cast_const().cast::<Other>()).is_err());
            assert_eq!(take_back(one.cast::<Other>()), Err(own::INVALID_ARGUMENT));
            assert_eq!(take_back(one), Ok(()));
            assert!(borrow(std::ptr::null::<One>()).is_err());
            assert!(borrow((one as usize | 1) as *const One).is_err());
        }
    }
}
