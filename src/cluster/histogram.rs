//! A histogram of latencies, of fixed size: eight buckets for every power of two of nanoseconds, so a bucket
//! is at most an eighth as wide as what is in it. One thread counts, any thread reads.

use std::sync::atomic::{AtomicU64, Ordering};

/// The first buckets are as wide as this, in bits of nanoseconds: 128 ns, less than any clock here can
/// promise.
const FIRST: u32 = 7;
/// Buckets for each power of two, in bits.
const SUB: u32 = 3;
/// Powers of two from the first of 1024 ns on; what takes 137 s or longer is in the last bucket.
const POWERS: usize = 27;
/// Buckets of a histogram.
pub const BUCKETS: usize = (POWERS + 1) << SUB;

/// A counter that one thread counts with, without a locked instruction, and any thread may read.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Counts. Only the owner may: another thread's counting could be lost.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Sets the counter. Only the owner may.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// What was counted.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The histogram that an owner counts in.
#[derive(Debug)]
pub struct Histogram {
    buckets: [Count; BUCKETS],
    sum: Count,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: std::array::from_fn(|_| Count::default()), sum: Count::default() }
    }
}

impl Histogram {
    /// Counts one latency.
    #[inline]
    pub fn record(&self, ns: u64) {
        self.buckets[bucket_of(ns)].add(1);
        self.sum.add(ns);
    }

    /// Adds what was counted so far to `latencies`.
    pub fn add_to(&self, latencies: &mut Latencies) {
        for (to, from) in latencies.buckets.iter_mut().zip(&self.buckets) {
            *to += from.get();
        }
        latencies.sum = latencies.sum.wrapping_add(self.sum.get());
    }
}

/// Which bucket a latency is in.
#[inline]
fn bucket_of(ns: u64) -> usize {
    let power = (ns >> (FIRST + SUB) | 1).ilog2() + (ns >> (FIRST + SUB) != 0) as u32;
    let shift = FIRST + power.saturating_sub(1);
    // The upper bits of what is not among the first: its highest bit, which stands for the power, goes.
    let sub = (ns >> shift) as usize & ((1 << SUB) - 1);
    (((power as usize) << SUB) + sub).min(BUCKETS - 1)
}

/// Where a bucket ends: the first latency that is not in it any more. The last one has no end.
pub fn end_of(bucket: usize) -> u64 {
    let (power, sub) = (bucket >> SUB, (bucket & ((1 << SUB) - 1)) as u64);
    match power {
        0 => (sub + 1) << FIRST,
        _ => (sub + 1 + (1 << SUB)) << (FIRST + power as u32 - 1),
    }
}

/// What histograms have counted, together.
#[derive(Debug, Clone)]
pub struct Latencies {
    buckets: [u64; BUCKETS],
    sum: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies { buckets: [0; BUCKETS], sum: 0 }
    }
}

impl Latencies {
    /// How many.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Their sum, nanoseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Their mean, nanoseconds; 0 of none.
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count()).unwrap_or(0)
    }

    /// What `percentile` of a hundred are below, nanoseconds: the end of the bucket of the latency that
    /// stands there, so at most an eighth too much. 0 of none. Out of range means the nearest that is in it.
    pub fn percentile(&self, percentile: f64) -> u64 {
        let share = (percentile / 100.0).clamp(0.0, 1.0);
        let place = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut passed = 0;
        let found = self.buckets.iter().position(|count| {
            passed += count;
            passed >= place
        });
        found.map_or(0, end_of)
    }

    /// For each power of two of nanoseconds from 1024 on, without the last: the power's value, and how many
    /// are below it.
    pub fn below_powers(&self) -> impl Iterator<Item = (u64, u64)> + use<'_> {
        let powers = self.buckets.chunks_exact(1 << SUB).take(POWERS).enumerate();
        powers.scan(0, |passed, (power, counts)| {
            *passed += counts.iter().sum::<u64>();
            Some((1 << (FIRST + SUB + power as u32), *passed))
        })
    }
}

impl std::ops::AddAssign<&Latencies> for Latencies {
    fn add_assign(&mut self, other: &Latencies) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(to, from)| *to += from);
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(all: impl IntoIterator<Item = u64>) -> Latencies {
        let histogram = Histogram::default();
        all.into_iter().for_each(|ns| histogram.record(ns));
        let mut latencies = Latencies::default();
        histogram.add_to(&mut latencies);
        latencies
    }

    #[test]
    fn buckets_follow_each_other() {
        for bucket in 0..BUCKETS - 1 {
            let end = end_of(bucket);
            assert_eq!((bucket_of(end - 1), bucket_of(end)), (bucket, bucket + 1), "{end}");
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn nothing_has_no_latency() {
        let none = of([]);
        assert_eq!((none.count(), none.mean(), none.percentile(50.0), none.percentile(100.0)), (0, 0, 0, 0));
    }

    #[test]
    fn percentiles_stand_where_they_must() {
        let latencies = of((1..=1000).map(|us| us * 1000));
        assert_eq!((latencies.count(), latencies.mean()), (1000, 500_500));
        for (percentile, exact) in [(0.0, 1e3), (50.0, 5e5), (99.0, 9.9e5), (99.9, 9.99e5), (100.0, 1e6)] {
            let found = latencies.percentile(percentile) as f64;
            assert!((exact..=exact * 1.125 + 1.0).contains(&found), "{percentile}: {found}, not {exact}");
        }
        assert_eq!(latencies.percentile(-5.0), latencies.percentile(0.0));
        assert_eq!(latencies.percentile(1e9), latencies.percentile(100.0));
    }

    proptest! {
        #[test]
        fn a_bucket_is_at_most_an_eighth_wide(ns in 1024u64..1 << 37) {
            let end = end_of(bucket_of(ns));
            prop_assert!(ns < end && end - ns <= ns / 8 + 1);
        }

        #[test]
        fn what_is_below_a_power_is_counted_there(all in prop::collection::vec(any::<u64>(), 0..50)) {
            let latencies = of(all.iter().copied());
            for (power, below) in latencies.below_powers() {
                prop_assert_eq!(below, all.iter().filter(|&&ns| ns < power).count() as u64);
            }
            let mut twice = latencies.clone();
            twice += &latencies;
            prop_assert_eq!(twice.count(), 2 * all.len() as u64);
        }
    }
}
