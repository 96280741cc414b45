//! Where receive threads leave pages for the thread that owns a port, and the wake-up between the two.
//!
//! State of the wake-up: *awake* (the owner runs; posting costs no system call), *asleep* (the owner waits on the
//! condition), or *reading* (the owner has the receive role and waits for its sockets). The owner turns it to
//! asleep or reading under the lock, after seeing under that same lock that nothing is there; a poster turns it
//! to awake under the lock, together with its pages, and only then notifies. So a page is never missed, and a
//! thread that is awake is never woken. What a reading owner routes to itself wakes nobody: it is awake then.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::role::Role;
use crate::link::page::Page;
use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard};

/// The inbox of one port.
#[derive(Default)]
pub struct Inbox {
    state: Mutex<State>,
    wake: Condvar,
    /// Something is in the state: a look that costs no lock.
    ready: AtomicBool,
    /// The receive role that the owner may borrow.
    pub role: OnceLock<std::sync::Arc<Role>>,
}

#[derive(Debug, Default)]
struct State {
    pages: Vec<Page>,
    /// Buffers of pages that were read, on their way back to the receive threads.
    spent: Vec<Vec<u32>>,
    owner: Owner,
    poked: bool,
    wakeups: u64,
}

/// What the owner does.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Owner {
    #[default]
    Awake,
    Asleep,
    Reading,
}

impl Inbox {
    /// Leaves `pages` (and empties them), takes spent buffers along, and wakes the owner if it sleeps.
    pub fn post(&self, pages: &mut Vec<Page>, spent: &mut Vec<Vec<u32>>) {
        let mut state = self.lock();
        state.pages.append(pages);
        spent.append(&mut state.spent);
        self.wake(state);
    }

    /// Wakes the owner without a page: something else that it looks at has changed.
    pub fn poke(&self) {
        let mut state = self.lock();
        state.poked = true;
        self.wake(state);
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        self.ready.store(true, Ordering::Release);
        match std::mem::take(&mut state.owner) {
            Owner::Awake => {}
            Owner::Asleep => {
                state.wakeups += 1;
                drop(state);
                self.wake.notify_one();
            }
            Owner::Reading => {
                drop(state);
                if let Some(role) = self.role.get() {
                    role.mailbox.wake();
                }
            }
        }
    }

    /// The owner is about to read its sockets; false if something is there already.
    pub fn start_reading(&self) -> bool {
        let mut state = self.lock();
        if self.ready.load(Ordering::Relaxed) {
            return false;
        }
        state.owner = Owner::Reading;
        true
    }

    /// The owner has something to route.
    pub fn stop_reading(&self) {
        self.lock().owner = Owner::Awake;
    }

    /// Takes all pages, and gives buffers back. True if pages came or the inbox was poked. `pages` must be empty.
    pub fn take(&self, pages: &mut Vec<Page>, spent: &mut Vec<Vec<u32>>) -> bool {
        if !self.ready.load(Ordering::Acquire) {
            return false;
        }
        self.take_locked(&mut self.lock(), pages, spent)
    }

    fn take_locked(&self, state: &mut State, pages: &mut Vec<Page>, spent: &mut Vec<Vec<u32>>) -> bool {
        self.ready.store(false, Ordering::Relaxed);
        std::mem::swap(&mut state.pages, pages);
        state.spent.append(spent);
        std::mem::take(&mut state.poked) | !pages.is_empty()
    }

    /// As [`Inbox::take`], but sleeps until something is there or `until` has come; `None` has no end.
    pub fn wait(&self, until: Option<Instant>, pages: &mut Vec<Page>, spent: &mut Vec<Vec<u32>>) -> bool {
        let mut state = self.lock();
        loop {
            if self.take_locked(&mut state, pages, spent) {
                return true;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return false;
            }
            state.owner = Owner::Asleep;
            state = match left {
                Some(left) => self.wake.wait_timeout(state, left).unwrap_or_else(|p| p.into_inner()).0,
                None => self.wake.wait(state).unwrap_or_else(|p| p.into_inner()),
            };
            state.owner = Owner::Awake;
        }
    }

    /// How often the owner was woken.
    pub fn wakeups(&self) -> u64 {
        self.lock().wakeups
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inbox")
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::link::page::Content;
    use loom::sync::Arc;
    use loom::thread;

    fn page(generation: u32) -> Page {
        Page { node: 1, generation, content: Content::LinkLost }
    }

    /// Whatever the order: every page is taken once, in its order, and the owner does not sleep on one.
    #[test]
    fn loom_nothing_is_missed() {
        loom::model(|| {
            let inbox = Arc::new(Inbox::default());
            let poster = {
                let inbox = inbox.clone();
                thread::spawn(move || {
                    for generation in 1..=2 {
                        inbox.post(&mut vec![page(generation)], &mut Vec::new());
                    }
                })
            };
            let (mut taken, mut spent) = (Vec::new(), Vec::new());
            while taken.len() < 2 {
                let mut pages = Vec::new();
                if !inbox.take(&mut pages, &mut spent) {
                    assert!(inbox.wait(None, &mut pages, &mut spent));
                }
                taken.extend(pages.into_iter().map(|page| page.generation));
            }
            assert_eq!(taken, [1, 2]);
            poster.join().unwrap();
        });
    }

    /// A poke ends a sleep too, and two posters do not lose each other's pages.
    #[test]
    fn loom_poke_and_two_posters() {
        loom::model(|| {
            let inbox = Arc::new(Inbox::default());
            let threads: Vec<_> = (0..2)
                .map(|number| {
                    let inbox = inbox.clone();
                    thread::spawn(move || match number {
                        0 => inbox.post(&mut vec![page(7)], &mut Vec::new()),
                        _ => inbox.poke(),
                    })
                })
                .collect();
            let (mut pages, mut spent) = (Vec::new(), Vec::new());
            let mut rounds = 0;
            while pages.is_empty() {
                assert!(inbox.wait(None, &mut pages, &mut spent));
                rounds += 1;
            }
            assert!(rounds <= 2);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    /// A page that comes before the owner starts to read its sockets keeps it from reading.
    #[test]
    fn loom_reading_does_not_miss_a_page() {
        loom::model(|| {
            let inbox = Arc::new(Inbox::default());
            let poster = {
                let inbox = inbox.clone();
                thread::spawn(move || inbox.post(&mut vec![page(1)], &mut Vec::new()))
            };
            let started = inbox.start_reading();
            poster.join().unwrap();
            let (mut pages, mut spent) = (Vec::new(), Vec::new());
            // Had it started, the post has turned it awake and would have woken its wait for the sockets.
            assert!(!started || inbox.lock().owner == Owner::Awake);
            assert!(inbox.take(&mut pages, &mut spent));
        });
    }
}
