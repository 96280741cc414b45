//! Which rows the operations of a thread are on.

/// Keys drawn ahead by [`Keys::zipf`].
const DRAWN: usize = 1 << 16;
/// How uneven: the usual choice of benchmarks of stores.
const EXPONENT: f64 = 0.99;
/// Terms of a sum that are added one by one; the rest is an integral.
const EXACT_TERMS: u32 = 100_000;

/// Where keys come from.
#[derive(Debug)]
pub enum Keys {
    Uniform { rows: u32, random: Random },
    Drawn { keys: Vec<u32>, next: usize },
    Sequential { rows: u32, next: u32 },
    One,
    Once(std::ops::Range<u32>),
}

impl Keys {
    /// Keys of `rows` by Zipf's law, the likeliest spread over all of them. Drawn ahead, for to draw one
    /// costs as much as to read its row.
    pub fn zipf(rows: u32, random: Random) -> Keys {
        let mut zipf = Zipf::new(rows, random);
        let spread = |rank: u32| (rank as u64 * 0x9e37_79b1 % rows as u64) as u32;
        Keys::Drawn { keys: (0..DRAWN).map(|_| spread(zipf.rank())).collect(), next: 0 }
    }

    #[inline]
    pub fn next(&mut self) -> Option<u32> {
        match self {
            Keys::Uniform { rows, random } => Some(random.below(*rows)),
            Keys::Drawn { keys, next } => {
                *next = (*next + 1) % DRAWN;
                keys.get(*next).copied()
            }
            Keys::Sequential { rows, next } => {
                let key = *next;
                *next = if key + 1 < *rows { key + 1 } else { 0 };
                Some(key)
            }
            Keys::One => Some(0),
            Keys::Once(range) => range.next(),
        }
    }
}

/// Ranks by Zipf's law, from 0, after Gray et al., "Quickly generating billion-record synthetic databases":
/// exact for the first two, near for the others.
#[derive(Debug)]
struct Zipf {
    rows: u32,
    random: Random,
    sum: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    fn new(rows: u32, random: Random) -> Zipf {
        let sum = harmonic(rows);
        let eta = (1.0 - (2.0 / rows as f64).powf(1.0 - EXPONENT)) / (1.0 - harmonic(2) / sum);
        Zipf { rows, random, sum, alpha: 1.0 / (1.0 - EXPONENT), eta }
    }

    fn rank(&mut self) -> u32 {
        let uniform = self.random.next() as f64 / 2_f64.powi(32);
        let scaled = uniform * self.sum;
        match scaled {
            _ if scaled < 1.0 || self.rows == 1 => 0,
            _ if scaled < harmonic(2) || self.rows == 2 => 1,
            _ => {
                let rank = self.rows as f64 * (self.eta * uniform - self.eta + 1.0).powf(self.alpha);
                (rank as u32).min(self.rows - 1)
            }
        }
    }
}

/// The sum of 1 / n^EXPONENT over the first `terms` numbers.
fn harmonic(terms: u32) -> f64 {
    let exact = terms.min(EXACT_TERMS);
    let sum: f64 = (1..=exact).map(|n| (n as f64).powf(-EXPONENT)).sum();
    let power = |n: u32| (n as f64 + 0.5).powf(1.0 - EXPONENT) / (1.0 - EXPONENT);
    sum + power(terms) - power(exact)
}

/// A small generator of numbers that are random enough for a load (SplitMix64).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0xd134_2543_de82_ef95))
    }

    #[inline]
    pub fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 32) as u32
    }

    #[inline]
    fn below(&mut self, limit: u32) -> u32 {
        ((self.next() as u64 * limit as u64) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_within_the_rows() {
        let mut uniform = Keys::Uniform { rows: 3, random: Random::new(1) };
        let mut seen = [0; 3];
        (0..300).for_each(|_| seen[uniform.next().unwrap() as usize] += 1);
        assert!(seen.iter().all(|&count| count > 50), "{seen:?}");
        let mut sequential = Keys::Sequential { rows: 3, next: 1 };
        let keys: Vec<_> = (0..5).map(|_| sequential.next().unwrap()).collect();
        assert_eq!(keys, [1, 2, 0, 1, 2]);
        let mut once = Keys::Once(0..2);
        assert_eq!([once.next(), once.next(), once.next()], [Some(0), Some(1), None]);
        assert_eq!(Keys::One.next(), Some(0));
    }

    #[test]
    fn zipf_prefers_few() {
        for rows in [1, 2, 3, 1000, 1_000_000] {
            let mut zipf = Zipf::new(rows, Random::new(7));
            let mut counts = [0_u32; 3];
            for _ in 0..100_000 {
                let rank = zipf.rank();
                assert!(rank < rows);
                if let Some(count) = counts.get_mut(rank as usize) {
                    *count += 1;
                }
            }
            for (rank, count) in counts.into_iter().enumerate().take(rows as usize) {
                let expected = 100_000.0 * (rank as f64 + 1.0).powf(-EXPONENT) / harmonic(rows);
                assert!(
                    (count as f64 - expected).abs() < 0.25 * expected + 20.0,
                    "{rows} {rank} {count} {expected}"
                );
            }
            let mut keys = Keys::zipf(rows, Random::new(3));
            assert!((0..DRAWN + 5).all(|_| keys.next().unwrap() < rows));
        }
    }

    #[test]
    fn long_sums_are_near_enough() {
        let exact: f64 = (1..=3 * EXACT_TERMS).map(|n| (n as f64).powf(-EXPONENT)).sum();
        assert!((harmonic(3 * EXACT_TERMS) - exact).abs() < 1e-6);
    }
}
