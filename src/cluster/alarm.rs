//! How the manager wakes who waits on a descriptor when a deadline falls due. A thread in a poll wakes by
//! itself.
//!
//! The owner of a port says when it is due next, and wakes the manager if that is before the time the manager
//! sleeps to. The manager says to what time it will sleep, and then looks at the ports once more. Each writes
//! first and reads then, with a full fence between, so one of them sees the other.

use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};

use crate::sync::{AtomicU64, fence};

/// No time.
pub const NEVER: u64 = u64::MAX;

/// When a port is due next: nanoseconds of the cluster's clock.
#[derive(Debug)]
pub struct Due(AtomicU64);

impl Default for Due {
    fn default() -> Self {
        Due(AtomicU64::new(NEVER))
    }
}

/// The time that the manager sleeps to.
#[derive(Debug)]
pub struct Alarm(AtomicU64);

impl Default for Alarm {
    fn default() -> Self {
        Alarm(AtomicU64::new(0))
    }
}

impl Due {
    /// By the port's owner. True if the manager must be woken, for it sleeps longer.
    pub fn set(&self, time: u64, alarm: &Alarm) -> bool {
        if self.0.load(Relaxed) == time {
            return false;
        }
        self.0.store(time, Relaxed);
        fence(SeqCst);
        time < alarm.0.load(Relaxed)
    }

    /// By the manager: true if it is due, which is then taken note of; else the time when it will be.
    fn ring(&self, now: u64) -> Result<(), u64> {
        let time = self.0.load(Relaxed);
        if time > now {
            return Err(time);
        }
        // The owner may just have said another time.
        self.0.compare_exchange(time, NEVER, AcqRel, Relaxed).map(drop)
    }
}

impl Alarm {
    /// By the manager, before it sleeps to `until` at most: `wake` is called for each port that is due. To
    /// when it may sleep.
    pub fn sleep<'a, P>(
        &self,
        now: u64,
        until: u64,
        ports: impl Iterator<Item = (&'a Due, P)> + Clone,
        mut wake: impl FnMut(P),
    ) -> u64 {
        self.0.store(until, Relaxed);
        fence(SeqCst);
        let mut time = until;
        for (due, port) in ports {
            match due.ring(now) {
                Ok(()) => wake(port),
                Err(later) => time = time.min(later),
            }
        }
        self.0.store(time, Relaxed);
        time
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_woken_once() {
        let (alarm, ports) = (Alarm::default(), [Due::default(), Due::default()]);
        let all = || ports.iter().zip(0..);
        let mut woken = Vec::new();
        assert_eq!(alarm.sleep(0, 100, all(), |port| woken.push(port)), 100);
        assert!(ports[1].set(50, &alarm), "it sleeps to 100");
        assert!(!ports[1].set(50, &alarm), "said before");
        assert!(!ports[0].set(200, &alarm));
        assert_eq!(alarm.sleep(10, 100, all(), |port| woken.push(port)), 50);
        assert_eq!(alarm.sleep(50, 300, all(), |port| woken.push(port)), 200);
        assert_eq!(alarm.sleep(60, 300, all(), |port| woken.push(port)), 200);
        assert_eq!(woken, [1]);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Whatever the order: the manager sleeps no longer than to the new time, or is woken.
    #[test]
    fn loom_no_deadline_is_slept_through() {
        loom::model(|| {
            let shared = Arc::new((Alarm::default(), Due::default()));
            let owner = {
                let shared = shared.clone();
                thread::spawn(move || shared.1.set(50, &shared.0))
            };
            let mut woken = 0;
            let sleeps_to = shared.0.sleep(0, 100, [(&shared.1, ())].into_iter(), |()| woken += 1);
            let wakes = owner.join().unwrap();
            assert!(wakes || sleeps_to == 50);
            assert_eq!(woken, 0);
        });
    }
}
