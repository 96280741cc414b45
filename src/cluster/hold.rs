//! The clock of adaptive send: one thread that writes what is still held at its deadline. Holds are
//! registered under one short lock; the thread is woken only for a deadline before the one it sleeps to.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::node::Node;

/// Deadlines of what is held, by node.
#[derive(Debug)]
pub struct Holds {
    /// The longest hold; zero for none.
    pub limit: Duration,
    began: Instant,
    /// Where the clock stands, if it was set; else 0.
    #[cfg(any(test, fuzzing))]
    set: std::sync::atomic::AtomicU64,
    state: Mutex<State>,
    earlier: Condvar,
}

#[derive(Debug)]
struct State {
    /// Nanoseconds since `began`, by index of the node.
    deadlines: Vec<Option<u64>>,
    /// What the thread sleeps to, or slept to last; `None` without end. While it is awake it may be out of
    /// date: the thread looks at the deadlines before it sleeps again.
    sleeps_to: Option<u64>,
    stopping: bool,
}

impl Holds {
    /// Nothing is held yet on any of `nodes` links.
    pub fn new(limit: Duration, nodes: usize) -> Self {
        let state = State { deadlines: vec![None; nodes], sleeps_to: None, stopping: false };
        Holds {
            limit,
            began: Instant::now(),
            #[cfg(any(test, fuzzing))]
            set: Default::default(),
            state: Mutex::new(state),
            earlier: Condvar::new(),
        }
    }

    /// The time, in nanoseconds of this clock.
    #[inline]
    pub fn now(&self) -> u64 {
        #[cfg(any(test, fuzzing))]
        if let set @ 1.. = self.set.load(std::sync::atomic::Ordering::Relaxed) {
            return set;
        }
        self.began.elapsed().as_nanos() as u64
    }

    /// From now on the clock stands at this time.
    #[cfg(any(test, fuzzing))]
    pub fn set(&self, nanos: u64) {
        self.set.store(nanos, std::sync::atomic::Ordering::Relaxed);
    }

    /// The time that this clock shows as `nanos`.
    pub fn instant(&self, nanos: u64) -> Instant {
        self.began + Duration::from_nanos(nanos)
    }

    /// What this clock shows at `time`.
    pub fn nanos(&self, time: Instant) -> u64 {
        time.saturating_duration_since(self.began).as_nanos() as u64
    }

    /// Registers that words are held for the node with this index until `deadline`.
    pub fn hold(&self, node: usize, deadline: u64) {
        let mut state = self.lock();
        let known = &mut state.deadlines[node];
        if known.is_none_or(|known| deadline < known) {
            *known = Some(deadline);
            if state.sleeps_to.is_none_or(|time| deadline < time) {
                drop(state);
                self.earlier.notify_one();
            }
        }
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.lock().stopping = true;
        self.earlier.notify_one();
    }

    /// The thread's body.
    pub fn run(&self, nodes: &[Arc<Node>]) {
        let limit = self.limit.as_nanos() as u64;
        let mut state = self.lock();
        while !state.stopping {
            let now = self.now();
            let due = state.deadlines.iter().position(|time| time.is_some_and(|time| time <= now));
            if let Some(node) = due {
                state.deadlines[node] = None;
                drop(state);
                let next = nodes[node].sender.write_held(now, limit);
                state = self.lock();
                if let Some(next) = next {
                    let known = &mut state.deadlines[node];
                    *known = Some(known.map_or(next, |known| known.min(next)));
                }
                continue;
            }
            state.sleeps_to = state.deadlines.iter().flatten().min().copied();
            state = match state.sleeps_to {
                Some(time) => {
                    let sleep = Duration::from_nanos(time - now);
                    self.earlier.wait_timeout(state, sleep).unwrap_or_else(|p| p.into_inner()).0
                }
                None => self.earlier.wait(state).unwrap_or_else(|p| p.into_inner()),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
