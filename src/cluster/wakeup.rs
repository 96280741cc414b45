//! The wake-up between the threads that leave things for one thread, its owner, and the owner's wait for
//! them.
//!
//! What is left is the `content`; `ready` says that something was left since the owner took the content last.
//! The owner is in one of three states:
//!
//! - *awake*: it runs. Leaving costs no system call but, if there is a descriptor, the one that raises it;
//! - *asleep*: it waits on the condition;
//! - *reading*: it has the receive role and waits for its sockets.
//!
//! ```text
//!              wait: the content is not enough, and time is left
//!     awake ------------------------------------------------------> asleep
//!       ^  <-------------------------------------------------------
//!       |      leave: the content is enough now; then notify      (or the wait is over)
//!       |
//!       |      start_reading: nothing is ready
//!       +---------------------------------------------------------> reading
//!          <-------------------------------------------------------
//!              leave: anything at all; then the caller ends the wait for sockets      (or stop_reading)
//! ```
//!
//! Every transition is made under the lock, after a look at the content under that same lock: so nothing is
//! missed, the one who makes the owner awake wakes it, nobody else does, and a thread that is awake is never
//! woken. A leave that is not enough leaves the owner asleep.
//!
//! An event loop waits on the descriptor in the owner's stead. It is readable exactly while something is
//! ready, enough or not, and is raised and lowered under the lock; there is none until the owner asks for it.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::descriptor::Descriptor;
use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard};

/// What is left for an owner.
pub trait Content {
    /// Whether it is worth the end of the owner's sleep.
    fn is_enough(&self) -> bool;
}

/// A content and the wake-up of its owner.
#[derive(Debug, Default)]
pub struct Wakeup<T> {
    state: Mutex<State<T>>,
    woken: Condvar,
    /// Something was left: a look that costs no lock. Written under the lock only.
    ready: AtomicBool,
}

#[derive(Debug, Default)]
struct State<T> {
    content: T,
    owner: Owner,
    descriptor: Option<Descriptor>,
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

impl<T: Content> Wakeup<T> {
    /// Leaves something by `change`. True if the owner was reading: the caller must end its wait for sockets.
    #[must_use]
    pub fn leave(&self, change: impl FnOnce(&mut T)) -> bool {
        let mut state = self.lock();
        change(&mut state.content);
        if let Some(descriptor) = &state.descriptor
            && !self.ready.load(Ordering::Relaxed)
        {
            descriptor.raise();
        }
        self.ready.store(true, Ordering::Release);
        match state.owner {
            Owner::Awake => false,
            Owner::Asleep if !state.content.is_enough() => false,
            Owner::Asleep => {
                state.owner = Owner::Awake;
                state.wakeups += 1;
                drop(state);
                self.woken.notify_one();
                false
            }
            Owner::Reading => {
                state.owner = Owner::Awake;
                true
            }
        }
    }

    /// By the owner: takes what was left, by `take`, if anything was. Never waits for more.
    #[inline]
    pub fn take<R>(&self, take: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.ready.load(Ordering::Acquire) {
            return None;
        }
        let mut state = self.lock();
        self.taken(&state);
        Some(take(&mut state.content))
    }

    /// By the owner: sleeps until enough is left or `until` has come; `None` has no end. Then takes what is
    /// there, if anything is, enough or not. `begin` may change what is enough.
    pub fn wait<R>(
        &self,
        until: Option<Instant>,
        begin: impl FnOnce(&mut T),
        take: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let mut state = self.lock();
        begin(&mut state.content);
        while !state.content.is_enough() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            state.owner = Owner::Asleep;
            state = match left {
                Some(left) => self.woken.wait_timeout(state, left).unwrap_or_else(|p| p.into_inner()).0,
                None => self.woken.wait(state).unwrap_or_else(|p| p.into_inner()),
            };
            state.owner = Owner::Awake;
        }
        if !self.ready.load(Ordering::Relaxed) {
            return None;
        }
        self.taken(&state);
        Some(take(&mut state.content))
    }

    fn taken(&self, state: &State<T>) {
        self.ready.store(false, Ordering::Relaxed);
        if let Some(descriptor) = &state.descriptor {
            descriptor.lower();
        }
    }

    /// The owner is about to wait for its sockets; false if something is ready.
    pub fn start_reading(&self) -> bool {
        let mut state = self.lock();
        if self.ready.load(Ordering::Relaxed) {
            return false;
        }
        state.owner = Owner::Reading;
        true
    }

    /// The owner waits no more: what it leaves for itself wakes nobody.
    pub fn stop_reading(&self) {
        self.lock().owner = Owner::Awake;
    }

    /// The descriptor, made now if this is the first time, and whether it was.
    pub fn descriptor(&self) -> io::Result<(RawFd, bool)> {
        let mut state = self.lock();
        if let Some(descriptor) = &state.descriptor {
            return Ok((descriptor.number(), false));
        }
        let descriptor = Descriptor::new()?;
        if self.ready.load(Ordering::Relaxed) {
            descriptor.raise();
        }
        let number = descriptor.number();
        state.descriptor = Some(descriptor);
        Ok((number, true))
    }

    /// Closes the descriptor; false if there is none.
    pub fn close_descriptor(&self) -> bool {
        self.lock().descriptor.take().is_some()
    }

    /// What a look at the content gives.
    #[cfg(test)]
    pub fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.lock().content)
    }

    /// How often the owner was woken from its sleep.
    pub fn wakeups(&self) -> u64 {
        self.lock().wakeups
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A content that is enough when it has grown to a number.
#[cfg(test)]
#[derive(Debug, Default)]
struct Heap {
    left: Vec<u32>,
    least: usize,
}

#[cfg(test)]
impl Content for Heap {
    fn is_enough(&self) -> bool {
        self.left.len() >= self.least.max(1)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::cluster::descriptor::is_readable;

    fn all(heap: &mut Heap) -> Vec<u32> {
        std::mem::take(&mut heap.left)
    }

    #[test]
    fn an_owner_that_is_awake_is_not_woken() {
        let wakeup = Wakeup::<Heap>::default();
        assert_eq!(wakeup.take(all), None);
        assert!(!wakeup.leave(|heap| heap.left.push(1)));
        assert!(!wakeup.leave(|heap| heap.left.push(2)));
        assert_eq!(wakeup.take(all), Some(vec![1, 2]));
        assert_eq!(wakeup.take(all), None);
        assert_eq!(wakeup.wakeups(), 0);
    }

    #[test]
    fn what_is_not_enough_is_taken_when_the_wait_is_over() {
        let wakeup = Wakeup::<Heap>::default();
        assert!(!wakeup.leave(|heap| heap.left.push(1)));
        let begin = |heap: &mut Heap| heap.least = 2;
        assert_eq!(wakeup.wait(Some(Instant::now()), begin, all), Some(vec![1]));
        assert_eq!(wakeup.wait(Some(Instant::now()), begin, all), None);
        assert!(!wakeup.leave(|heap| heap.left.extend([2, 3])));
        assert_eq!(wakeup.wait(None, begin, all), Some(vec![2, 3]));
        assert_eq!(wakeup.wakeups(), 0);
    }

    #[test]
    fn one_that_reads_is_woken_once_and_not_by_its_own() {
        let wakeup = Wakeup::<Heap>::default();
        assert!(wakeup.start_reading());
        assert!(wakeup.leave(|heap| heap.left.push(1)));
        assert!(!wakeup.leave(|heap| heap.left.push(2)));
        assert!(!wakeup.start_reading(), "something is ready");
        assert_eq!(wakeup.take(all), Some(vec![1, 2]));
        assert!(wakeup.start_reading());
        wakeup.stop_reading();
        assert!(!wakeup.leave(|heap| heap.left.push(3)));
    }

    #[test]
    fn the_descriptor_is_readable_while_something_is_ready() {
        let wakeup = Wakeup::<Heap>::default();
        assert!(!wakeup.close_descriptor());
        assert!(!wakeup.leave(|heap| heap.left.push(1)));
        let (fd, new) = wakeup.descriptor().unwrap();
        assert!(new && is_readable(fd), "left before it was made");
        assert_eq!(wakeup.descriptor().unwrap(), (fd, false));
        assert!(!wakeup.leave(|heap| heap.left.push(2)));
        assert!(is_readable(fd));
        assert_eq!(wakeup.take(all), Some(vec![1, 2]));
        assert!(!is_readable(fd));
        // Not enough for a sleeper, but there.
        assert_eq!(wakeup.wait(Some(Instant::now()), |heap| heap.least = 9, all), None);
        assert!(!wakeup.leave(|heap| heap.left.push(3)));
        assert!(is_readable(fd));
        assert_eq!(wakeup.wait(Some(Instant::now()), |_| (), all), Some(vec![3]));
        assert!(!is_readable(fd));
        assert!(wakeup.close_descriptor());
        assert!(!wakeup.leave(|heap| heap.left.push(4)));
        assert_eq!(wakeup.take(all), Some(vec![4]));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    fn all(heap: &mut Heap) -> Vec<u32> {
        std::mem::take(&mut heap.left)
    }

    /// Leaves each of `what` by itself, on another thread.
    fn poster(wakeup: &Arc<Wakeup<Heap>>, what: &'static [u32]) -> thread::JoinHandle<()> {
        let wakeup = wakeup.clone();
        thread::spawn(move || {
            for &one in what {
                assert!(!wakeup.leave(|heap| heap.left.push(one)));
            }
        })
    }

    /// Whatever the order: all is taken once, in its order, the owner does not sleep on what is enough, and
    /// is woken at most as often as enough has come.
    #[test]
    fn loom_wakeup_misses_nothing_and_wakes_for_enough_only() {
        loom::model(|| {
            let wakeup = Arc::new(Wakeup::<Heap>::default());
            let poster = poster(&wakeup, &[1, 2, 3]);
            let mut taken = wakeup.wait(None, |heap| heap.least = 2, all).unwrap();
            assert!(taken.len() >= 2);
            if taken.len() < 3 {
                taken.extend(wakeup.wait(None, |heap| heap.least = 1, all).unwrap());
            }
            assert_eq!(taken, [1, 2, 3]);
            poster.join().unwrap();
            assert!(wakeup.wakeups() <= 2);
        });
    }

    /// One of several posters wakes an owner that waits for its sockets, and none if it stopped in time.
    #[test]
    fn loom_wakeup_of_one_that_reads_happens_once() {
        loom::model(|| {
            let wakeup = Arc::new(Wakeup::<Heap>::default());
            let posters: Vec<_> = (1..=2)
                .map(|one| {
                    let wakeup = wakeup.clone();
                    thread::spawn(move || wakeup.leave(|heap| heap.left.push(one)))
                })
                .collect();
            let started = wakeup.start_reading();
            let woke = posters.into_iter().map(|p| p.join().unwrap()).filter(|&woke| woke).count();
            assert_eq!(woke, started as usize);
            wakeup.stop_reading();
            assert_eq!(wakeup.take(all).unwrap().len(), 2);
        });
    }

    /// An event loop that takes whenever the descriptor is readable gets everything, and it is not readable
    /// then.
    #[test]
    fn loom_wakeup_descriptor_tells_what_is_ready() {
        loom::model(|| {
            let wakeup = Arc::new(Wakeup::<Heap>::default());
            let poster = poster(&wakeup, &[1, 2]);
            let readable = || wakeup.descriptor().unwrap().0 == 1;
            let mut taken = Vec::new();
            for _ in 0..2 {
                if readable() {
                    taken.extend(wakeup.take(all).expect("readable, so something is there"));
                }
            }
            poster.join().unwrap();
            assert_eq!(readable(), taken.len() < 2);
            taken.extend(wakeup.take(all).unwrap_or_default());
            assert!(taken == [1, 2] && !readable());
        });
    }
}
