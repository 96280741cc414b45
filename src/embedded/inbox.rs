//! How nodes pass messages to each other: a list under a lock, and the waker of the thread that owns it. A
//! round's messages for one node are given together; the thread is woken only if it sleeps.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mio::Waker;

use super::messages::Message;

/// A node's inbox. While the node is down, it takes nothing.
#[derive(Debug, Default)]
pub struct Inbox(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    messages: Vec<Message>,
    waker: Option<Waker>,
    asleep: bool,
}

impl Inbox {
    /// From now on messages are taken, and wake their thread with this.
    pub fn open(&self, waker: Waker) {
        let mut state = self.lock();
        state.messages.clear();
        state.waker = Some(waker);
        state.asleep = false;
    }

    /// The node is down: what it has not read is lost.
    pub fn close(&self) {
        let mut state = self.lock();
        state.messages.clear();
        state.waker = None;
    }

    /// Gives messages, and empties the list.
    pub fn give(&self, messages: &mut Vec<Message>) {
        let mut state = self.lock();
        if state.waker.is_none() {
            return messages.clear();
        }
        state.messages.append(messages);
        if std::mem::take(&mut state.asleep)
            && let Some(waker) = &state.waker
        {
            // It fails only when the counter behind it is full, and then the thread wakes anyway.
            let _ = waker.wake();
        }
    }

    /// Takes what there is; `into` must be empty.
    pub fn take(&self, into: &mut Vec<Message>) {
        let mut state = self.lock();
        state.asleep = false;
        std::mem::swap(&mut state.messages, into);
    }

    /// The thread is about to sleep: true if nothing is there. The next message then wakes it.
    pub fn fall_asleep(&self) -> bool {
        let mut state = self.lock();
        state.asleep = state.messages.is_empty();
        state.asleep
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
