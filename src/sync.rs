//! The primitives with which two threads meet, from the standard library, or from loom when its model tests run:
//! `RUSTFLAGS="--cfg loom" cargo test --lib loom`.

#[cfg(not(loom))]
pub use std::sync::{
    Arc, Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicUsize},
};

#[cfg(loom)]
pub use loom::sync::{
    Arc, Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicUsize},
};
