//! Whether to run a transaction again, and after which pause: one that grows, with jitter, so that many
//! clients that failed together do not come back together.

use std::time::Duration;

use super::{is_temporary, is_unknown_result, own};

/// What to do after an attempt has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Run all of it again after this pause.
    Again(Duration),
    /// Find out whether it was committed; if not, run it again. This is the pause before the look.
    FindOut(Duration),
    /// Give up.
    Stop,
}

/// The attempts of one transaction.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// The pause after the first failure is half of this up to this.
    pub first: Duration,
    /// No pause is longer.
    pub longest: Duration,
    /// Attempts at most, the first one among them; 0: no limit.
    pub attempts: u32,
    /// Time at most, pauses included, from the first failure on; zero: no limit.
    pub limit: Duration,
    /// Attempts that have failed.
    pub failed: u32,
    /// The state of its random numbers.
    pub random: u64,
}

impl Retry {
    /// What to do after an attempt has failed with `code`, so long after the first failure.
    pub fn next(&mut self, code: i32, elapsed: Duration) -> Decision {
        let again = is_temporary(code) && code != own::STILL_IN_FLIGHT;
        self.failed = self.failed.saturating_add(1);
        if !again && !is_unknown_result(code) {
            return Decision::Stop;
        }
        let pause = self.pause();
        let over = !self.limit.is_zero() && elapsed + pause > self.limit;
        let spent = self.attempts != 0 && self.failed >= self.attempts;
        match () {
            // Also with the last attempt: whoever gives up wants to know.
            () if !again => Decision::FindOut(pause),
            () if over || spent => Decision::Stop,
            () => Decision::Again(pause),
        }
    }

    /// The pause after so many failures: twice the last one's, half of it by chance.
    fn pause(&mut self) -> Duration {
        let doublings = self.failed.saturating_sub(1).min(31);
        let most = self.first.saturating_mul(1 << doublings).min(self.longest).as_micros() as u64;
        let half = most / 2;
        Duration::from_micros(half + self.random() % (most - half + 1))
    }

    /// The next random number: xorshift64*.
    fn random(&mut self) -> u64 {
        let mut x = self.random.max(1);
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random = x;
        x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ndb;
    use proptest::prelude::*;

    const RETRY: Retry = Retry {
        first: Duration::from_millis(10),
        longest: Duration::from_millis(500),
        attempts: 0,
        limit: Duration::ZERO,
        failed: 0,
        random: 42,
    };

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let mut retry = RETRY;
        for most in [10, 20, 40, 80, 160, 320, 500, 500, 500] {
            let Decision::Again(pause) = retry.next(266, Duration::ZERO) else { panic!("266 is temporary") };
            let most = Duration::from_millis(most);
            assert!(pause >= most / 2 && pause <= most, "{pause:?} {most:?}");
        }
        retry.failed = u32::MAX;
        assert!(matches!(retry.next(266, Duration::MAX), Decision::Again(_)));
    }

    #[test]
    fn other_seeds_pause_otherwise() {
        let pauses: std::collections::HashSet<_> = (1..50)
            .map(|random| match (Retry { random, ..RETRY }).next(266, Duration::ZERO) {
                Decision::Again(pause) => pause,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(pauses.len() > 25, "{pauses:?}");
    }

    #[test]
    fn codes_decide() {
        for code in [0, 626, 630, 241, own::BUSY, own::STILL_IN_FLIGHT, ndb::COMMITTED_ROWS_LOST, 12345] {
            assert_eq!(RETRY.clone().next(code, Duration::ZERO), Decision::Stop, "{code}");
        }
        for code in [ndb::UNKNOWN_RESULT, ndb::NO_ANSWER, ndb::CLUSTER_FAILURE] {
            assert!(matches!(RETRY.clone().next(code, Duration::ZERO), Decision::FindOut(_)), "{code}");
        }
    }

    #[test]
    fn limits_end_it() {
        let mut retry = Retry { attempts: 3, ..RETRY };
        let mut decide = |code| retry.next(code, Duration::ZERO);
        assert!(matches!(decide(266), Decision::Again(_)));
        assert!(matches!(decide(266), Decision::Again(_)));
        assert_eq!(decide(266), Decision::Stop);
        assert!(matches!(decide(ndb::UNKNOWN_RESULT), Decision::FindOut(_)), "also at the end");
        let mut retry = Retry { limit: Duration::from_secs(1), ..RETRY };
        assert!(matches!(retry.next(266, Duration::from_millis(900)), Decision::Again(_)));
        assert_eq!(retry.next(266, Duration::from_millis(999)), Decision::Stop);
    }

    proptest! {
        #[test]
        fn anything_goes(first: u32, longest: u32, failed: u32, random: u64, code: i32, elapsed: u32) {
            let (first, longest) = (Duration::from_millis(first.into()), Duration::from_millis(longest.into()));
            let mut retry = Retry { first, longest, failed, random, ..RETRY };
            match retry.next(code, Duration::from_millis(elapsed.into())) {
                Decision::Again(pause) | Decision::FindOut(pause) => prop_assert!(pause <= longest),
                Decision::Stop => {}
            }
        }
    }
}
