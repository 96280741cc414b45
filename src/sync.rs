//! The primitives with which two threads meet, from the standard library, or from loom when its model tests
//! run: `RUSTFLAGS="--cfg loom" cargo test --lib loom`.

#[cfg(not(loom))]
pub use std::sync::{
    Arc, Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence},
};

/// A mutex that is tried as well as waited for.
#[cfg(not(loom))]
pub use std::sync::{Mutex as TryMutex, MutexGuard as TryMutexGuard};

#[cfg(loom)]
pub use tried::{TryMutex, TryMutexGuard};

#[cfg(loom)]
pub use loom::sync::{
    Arc, Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence},
};

/// The models' mutex makes who tries wait for its end if it is taken. This one says so.
#[cfg(loom)]
mod tried {
    use std::ops::{Deref, DerefMut};
    use std::sync::{LockResult, TryLockError, TryLockResult};

    use super::{Condvar, Mutex, MutexGuard};

    /// See [`std::sync::Mutex`].
    pub struct TryMutex<T> {
        taken: Mutex<bool>,
        free: Condvar,
        /// Taken by who has set `taken`.
        content: Mutex<T>,
    }

    /// See [`std::sync::MutexGuard`].
    pub struct TryMutexGuard<'a, T> {
        mutex: &'a TryMutex<T>,
        content: Option<MutexGuard<'a, T>>,
    }

    impl<T> TryMutex<T> {
        /// One that is free.
        pub fn new(content: T) -> Self {
            TryMutex { taken: Mutex::new(false), free: Condvar::new(), content: Mutex::new(content) }
        }

        /// Takes it when it is free.
        pub fn lock(&self) -> LockResult<TryMutexGuard<'_, T>> {
            let mut taken = self.taken.lock().unwrap();
            while *taken {
                taken = self.free.wait(taken).unwrap();
            }
            *taken = true;
            Ok(TryMutexGuard { mutex: self, content: Some(self.content.lock().unwrap()) })
        }

        /// Takes it if it is free.
        pub fn try_lock(&self) -> TryLockResult<TryMutexGuard<'_, T>> {
            let mut taken = self.taken.lock().unwrap();
            if std::mem::replace(&mut *taken, true) {
                return Err(TryLockError::WouldBlock);
            }
            Ok(TryMutexGuard { mutex: self, content: Some(self.content.lock().unwrap()) })
        }
    }

    impl<T> Deref for TryMutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.content.as_ref().unwrap()
        }
    }

    impl<T> DerefMut for TryMutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.content.as_mut().unwrap()
        }
    }

    impl<T> Drop for TryMutexGuard<'_, T> {
        fn drop(&mut self) {
            self.content = None;
            *self.mutex.taken.lock().unwrap() = false;
            self.mutex.free.notify_one();
        }
    }
}
