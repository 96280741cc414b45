//! Free numbers, of which the lowest is taken first.
//!
//! So what is used together lies together in memory and in the order of use, whatever the order in which it
//! became free: with a last-in first-out list, whose order replies shuffle, 200 operations in flight cost up
//! to a tenth more.

/// Numbers that are free.
#[derive(Debug, Default)]
pub struct FreeSet {
    words: Vec<u64>,
    /// No number is in a word before this one.
    lowest: usize,
    len: usize,
}

impl FreeSet {
    /// Numbers in the set.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a number in that is not there.
    #[inline]
    pub fn insert(&mut self, number: u32) {
        let at = number as usize / 64;
        match self.words.get_mut(at) {
            Some(word) => *word |= 1 << (number % 64),
            None => self.grow(at, number),
        }
        self.lowest = self.lowest.min(at);
        self.len += 1;
    }

    #[cold]
    fn grow(&mut self, at: usize, number: u32) {
        self.words.resize(at + 1, 0);
        self.words[at] = 1 << (number % 64);
    }

    /// The lowest number, which leaves the set.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        while let Some(word) = self.words.get_mut(self.lowest) {
            if *word != 0 {
                let number = self.lowest as u32 * 64 + word.trailing_zeros();
                *word &= *word - 1;
                self.len -= 1;
                return Some(number);
            }
            self.lowest += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_the_first() {
        let mut free = FreeSet::default();
        assert_eq!(free.take(), None);
        [700, 3, 64, 63].iter().for_each(|&number| free.insert(number));
        assert_eq!((free.len(), free.take(), free.take()), (4, Some(3), Some(63)));
        free.insert(0);
        let rest: Vec<_> = std::iter::from_fn(|| free.take()).collect();
        assert_eq!(rest, [0, 64, 700]);
        assert!(free.is_empty());
    }
}
