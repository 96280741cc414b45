//! Faults on request: what a test asks the nodes to do wrong. Each is told once, and says whether it was
//! consumed.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A fault that was asked for.
#[derive(Debug, Clone, Default)]
pub struct Fault(Arc<AtomicBool>);

impl Fault {
    /// Whether it has happened.
    pub fn consumed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// It has happened.
    pub(super) fn consume(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Faults of the set as a whole.
#[derive(Debug, Default)]
pub struct Faults {
    node_ids: Mutex<(u32, Fault)>,
}

impl Faults {
    /// The next `count` requests for a node id are refused.
    pub fn refuse_node_ids(&self, count: u32) -> Fault {
        let fault = Fault::default();
        *self.node_ids.lock().unwrap_or_else(PoisonError::into_inner) = (count, fault.clone());
        fault
    }

    /// Whether this request for a node id is refused.
    pub fn take_node_id_refusal(&self) -> bool {
        let mut refusals = self.node_ids.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.0 == 0 {
            return false;
        }
        refusals.0 -= 1;
        refusals.1.consume();
        true
    }
}

/// Faults of one node.
#[derive(Debug, Default)]
pub struct NodeFaults {
    /// Operations until the one that fails; 0 when none shall.
    countdown: AtomicU32,
    failing: Mutex<(i32, Fault)>,
    hold: Mutex<Option<Hold>>,
    holding: AtomicBool,
    /// How long each round's replies are held back, in microseconds.
    delay: AtomicU64,
    delayed: Mutex<Fault>,
}

#[derive(Debug)]
struct Hold {
    until: Instant,
    fault: Fault,
}

impl NodeFaults {
    /// The `nth` operation from now on, at least the first, fails with `code`.
    pub fn fail_operation(&self, nth: u32, code: i32) -> Fault {
        let fault = Fault::default();
        *self.failing.lock().unwrap_or_else(PoisonError::into_inner) = (code, fault.clone());
        self.countdown.store(nth.max(1), Ordering::Release);
        fault
    }

    /// Counts an operation; the code with which it fails, if it shall.
    #[inline]
    pub fn take_failure(&self) -> Option<i32> {
        let left = self.countdown.load(Ordering::Relaxed);
        if left == 0 {
            return None;
        }
        self.countdown.store(left - 1, Ordering::Relaxed);
        if left > 1 {
            return None;
        }
        let failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.1.consume();
        Some(failing.0)
    }

    /// The node sends nothing for so long.
    pub fn stall(&self, time: Duration) -> Fault {
        let fault = Fault::default();
        let hold = Hold { until: Instant::now() + time, fault: fault.clone() };
        *self.hold.lock().unwrap_or_else(PoisonError::into_inner) = Some(hold);
        self.holding.store(true, Ordering::Release);
        fault
    }

    /// Every round's replies are held back for so long; zero ends it.
    pub fn delay(&self, time: Duration) -> Fault {
        let fault = Fault::default();
        *self.delayed.lock().unwrap_or_else(PoisonError::into_inner) = fault.clone();
        self.delay.store(time.as_micros() as u64, Ordering::Release);
        fault
    }

    /// The node has replies: until when it must hold them back, if it must.
    #[inline]
    pub fn held(&self) -> Option<Instant> {
        if !self.holding.load(Ordering::Relaxed) {
            return None;
        }
        let mut hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        let found = hold.as_ref().filter(|hold| hold.until > Instant::now());
        let until = found.map(|hold| {
            hold.fault.consume();
            hold.until
        });
        if until.is_none() {
            *hold = None;
            self.holding.store(false, Ordering::Release);
        }
        until
    }

    /// How long fresh replies are held back.
    #[inline]
    pub fn delay_of_replies(&self) -> Option<Duration> {
        match self.delay.load(Ordering::Relaxed) {
            0 => None,
            micros => {
                self.delayed.lock().unwrap_or_else(PoisonError::into_inner).consume();
                Some(Duration::from_micros(micros))
            }
        }
    }
}
