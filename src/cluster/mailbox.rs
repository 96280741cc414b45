//! Orders for a thread that sleeps in the system's readiness call: a short list and a waker.

use std::io;
use std::sync::{Arc, Mutex};

use mio::{Poll, Token, Waker};

use super::role::Wake;

/// The token of the waker; links use smaller ones.
pub const WAKE: Token = Token(usize::MAX);

/// Where others leave orders for the thread that owns a [`Poll`].
pub struct Mailbox<T> {
    orders: Mutex<Vec<T>>,
    waker: Waker,
}

impl<T> Mailbox<T> {
    /// A mailbox whose orders wake `poll`.
    pub fn new(poll: &Poll) -> io::Result<Arc<Self>> {
        let waker = Waker::new(poll.registry(), WAKE)?;
        Ok(Arc::new(Mailbox { orders: Mutex::new(Vec::new()), waker }))
    }

    /// Leaves an order.
    pub fn give(&self, order: T) {
        self.orders.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(order);
        self.wake();
    }

    /// Takes all orders.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.orders.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

impl<T> Wake for Mailbox<T> {
    fn wake(&self) {
        // It fails only when the counter behind it is full, and then the thread wakes anyway.
        let _ = self.waker.wake();
    }
}

impl<T> std::fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mailbox")
    }
}
