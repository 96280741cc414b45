//! Who has the receive role: the receive thread, or, lent, the one thread that polls.
//!
//! Waking a polling thread through another thread is a good part of an operation's cost. When one thread alone
//! polls, the role is lent to its port: a poll that would sleep reads the sockets and routes by itself, and
//! gives the receiver back before it returns. Only one receive thread's role can be lent, so none is when there
//! are several.
//!
//! The word `Role::state` is one of
//!
//! - *dedicated*: the receive thread holds the receiver and reads;
//! - *wanted by P*: as dedicated, and the port P, whose owner has polled alone for a while, asks for the role.
//!   The receive thread is woken, lets go of the receiver, and makes the word *lent to P*;
//! - *lent to P*: the receiver is free for the owner of P. The receive thread rests and looks every few
//!   milliseconds whether P's owner still reads; if not, it takes the receiver and makes the word *dedicated*,
//!   for a client must not leave its sockets unread.
//!
//! Any other port that waits makes the word *dedicated* and ends the receive thread's rest. The receiver is
//! behind a mutex, so a socket has one reader at a time, and its order is kept over a hand-over. Whoever sees the
//! word *lent* to itself and finds the receiver taken waits at its inbox, for then the receive thread has it. The
//! owner of P may have gone to sleep there when the word becomes *lent to P*: it is woken, for nobody else reads.
//!
//! The word also counts the descriptors that event loops watch. While there is one, it stays *dedicated*: a thread
//! that sleeps in an event loop does not read, and whose turn it is would change at each poll.

use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::receive::Receiver;
use crate::sync::{AtomicU32, Condvar, Mutex, MutexGuard};

const DEDICATED: u32 = 0;
const WANTED: u32 = 1 << 16;
const LENT: u32 = 2 << 16;
const MODE: u32 = 3 << 16;
/// One descriptor that is watched. There are at most as many as ports.
const WATCHED: u32 = 1 << 18;
const PORT: u32 = 0xffff;

/// Waits that one port must have had alone before it asks for the role.
const ALONE: u32 = 32;
/// How long the receive thread rests before it looks whether the borrower still reads.
const REST: Duration = Duration::from_millis(4);

/// What can be done by whoever has the role.
pub trait Reads {
    /// What ends the wait of a round.
    type Waker: Wake;

    /// Waits until something can be read, reads it and routes it. False at the end.
    fn round(&mut self) -> bool;

    /// As `round`, by a borrower: waits at most `wait`, and calls `awake` between the wait and the rest.
    fn borrowed_round(&mut self, wait: Duration, awake: impl FnOnce()) -> bool;

    /// Wakes the owner of a port.
    fn poke(&self, block: u16);
}

/// Wakes whoever has the role from its wait.
pub trait Wake {
    /// Ends the wait that is, or the next one.
    fn wake(&self);
}

/// The receive role of the links of one receive thread.
pub struct Role<R: Reads = Receiver> {
    receiver: Mutex<R>,
    /// Wakes whoever has the role.
    pub waker: std::sync::Arc<R::Waker>,
    /// One of the modes above, a port's block number in the low half, and how many descriptors are watched.
    state: AtomicU32,
    /// Times the receiver was borrowed.
    borrowed: AtomicU32,
    /// Which port waited last (high half), and how often in a row (low half).
    waiters: AtomicU32,
    rest: Mutex<()>,
    rest_over: Condvar,
    lends: bool,
}

impl<R: Reads> Role<R> {
    /// A dedicated role; it never changes unless it `lends`.
    pub fn new(receiver: R, waker: std::sync::Arc<R::Waker>, lends: bool) -> std::sync::Arc<Self> {
        std::sync::Arc::new(Role {
            receiver: Mutex::new(receiver),
            waker,
            state: AtomicU32::new(DEDICATED),
            borrowed: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            rest: Mutex::new(()),
            rest_over: Condvar::new(),
            lends,
        })
    }

    /// The body of the receive thread. Ends when the receiver does.
    pub fn run(&self) {
        loop {
            let mut receiver = self.receiver.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            loop {
                if !receiver.round() {
                    return;
                }
                let state = self.state.load(Ordering::Acquire);
                let lent = LENT | state & PORT;
                if state & MODE == WANTED && self.change(state, lent) {
                    receiver.poke(state as u16);
                    break;
                }
            }
            drop(receiver);
            self.rest_while_lent();
        }
    }

    fn rest_while_lent(&self) {
        let mut seen = self.borrowed.load(Ordering::Relaxed);
        let mut rest = self.rest.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        loop {
            let state = self.state.load(Ordering::Acquire);
            if state & MODE != LENT {
                return;
            }
            rest = self.rest_a_moment(rest);
            let now = self.borrowed.load(Ordering::Relaxed);
            // The receiver being taken means that the borrower is reading, however long.
            let free = !matches!(self.receiver.try_lock(), Err(TryLockError::WouldBlock));
            if now == seen && free && self.change(state, DEDICATED) {
                // The borrower has paused: it must wait alone for a while again.
                self.waiters.store(0, Ordering::Relaxed);
            }
            seen = now;
        }
    }

    #[cfg(not(loom))]
    fn rest_a_moment<'a>(&'a self, rest: MutexGuard<'a, ()>) -> MutexGuard<'a, ()> {
        self.rest_over.wait_timeout(rest, REST).unwrap_or_else(|p| p.into_inner()).0
    }

    /// A model has no clock: any moment may be the end of a rest.
    #[cfg(loom)]
    fn rest_a_moment<'a>(&'a self, rest: MutexGuard<'a, ()>) -> MutexGuard<'a, ()> {
        drop(rest);
        loom::thread::yield_now();
        self.rest.lock().unwrap()
    }

    /// The receiver, if the role is lent to the port `block`. Otherwise the owner waits at its inbox, and this
    /// call counts as its wait: it may get the role for it later, or end the loan to another.
    #[inline]
    pub fn borrow(&self, block: u16) -> Option<MutexGuard<'_, R>> {
        if !self.lends {
            return None;
        }
        let state = self.state.load(Ordering::Acquire);
        if state != LENT | block as u32 {
            self.wait_without(state, block);
            return None;
        }
        let receiver = match self.receiver.try_lock() {
            Ok(receiver) => receiver,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        // Looked at again, now that nobody else can have it: the loan may just have ended.
        if self.state.load(Ordering::Acquire) != state {
            return None;
        }
        self.borrowed.fetch_add(1, Ordering::Relaxed);
        Some(receiver)
    }

    #[cold]
    fn wait_without(&self, state: u32, block: u16) {
        let me = (block as u32) << 16;
        let waiters = self.waiters.load(Ordering::Relaxed);
        let alone = if waiters & 0xffff_0000 == me { (waiters & 0xffff).min(ALONE) + 1 } else { 1 };
        self.waiters.store(me | alone, Ordering::Relaxed);
        match state & MODE {
            // None is watched.
            DEDICATED if alone > ALONE && state == DEDICATED => {
                if self.change(state, WANTED | block as u32) {
                    self.waker.wake();
                }
            }
            WANTED if state & PORT != block as u32 => {
                self.change(state, DEDICATED);
            }
            LENT => self.recall(),
            _ => {}
        }
    }

    /// Ends a loan: the receive thread reads from now on.
    pub fn recall(&self) {
        let state = self.state.load(Ordering::Acquire);
        if state & MODE == LENT && self.change(state, DEDICATED) {
            self.end_rest();
        }
    }

    fn end_rest(&self) {
        drop(self.rest.lock());
        self.rest_over.notify_one();
    }

    /// An event loop watches a descriptor: ends a loan, and there is none until [`Role::unwatch`].
    pub fn watch(&self) {
        let mut state = self.state.load(Ordering::Acquire);
        // Only a word without a port counts descriptors.
        let watched = |state: u32| WATCHED + if state & MODE == DEDICATED { state } else { DEDICATED };
        while !self.change(state, watched(state)) {
            state = self.state.load(Ordering::Acquire);
        }
        if state & MODE == LENT {
            self.end_rest();
        }
    }

    /// A descriptor is watched no more.
    pub fn unwatch(&self) {
        self.state.fetch_sub(WATCHED, Ordering::AcqRel);
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
