//! NDB's variant of MD5, which turns a distribution key into the number that picks its fragment. Rounds,
//! constants and word order are MD5's (RFC 1321); the last block is NDB's own: the mark is a word, the length
//! counts bytes and stands in word 14. Source: storage/ndb/src/common/util/md5_hash.cpp.

use std::ops::{BitAnd, BitOr, BitXor, Not};

const START: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
/// Words in a block.
const BLOCK: usize = 16;
/// The last block's word for the length.
const LENGTH_WORD: usize = 14;
const MARK: u32 = 0x8000_0000;

/// What the rounds are done on: one word, or one word of each of several hashes.
trait Word:
    Copy + BitXor<Output = Self> + BitAnd<Output = Self> + BitOr<Output = Self> + Not<Output = Self>
{
    fn constant(value: u32) -> Self;
    fn plus(self, other: Self) -> Self;
    fn rotated(self, by: u32) -> Self;
}

impl Word for u32 {
    #[inline(always)]
    fn constant(value: u32) -> u32 {
        value
    }

    #[inline(always)]
    fn plus(self, other: u32) -> u32 {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn rotated(self, by: u32) -> u32 {
        self.rotate_left(by)
    }
}

/// Hashes that are done side by side at most.
pub const LANES: usize = 8;

/// One word of each of several hashes: the compiler makes one instruction of what is done to all, if a
/// register holds as many.
#[derive(Clone, Copy)]
struct Lanes<const L: usize>([u32; L]);

impl<const L: usize> Lanes<L> {
    #[inline(always)]
    fn with(self, other: Self, f: impl Fn(u32, u32) -> u32) -> Self {
        Lanes(std::array::from_fn(|at| f(self.0[at], other.0[at])))
    }
}

impl<const L: usize> BitXor for Lanes<L> {
    type Output = Self;

    #[inline(always)]
    fn bitxor(self, other: Self) -> Self {
        self.with(other, |a, b| a ^ b)
    }
}

impl<const L: usize> BitAnd for Lanes<L> {
    type Output = Self;

    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        self.with(other, |a, b| a & b)
    }
}

impl<const L: usize> BitOr for Lanes<L> {
    type Output = Self;

    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        self.with(other, |a, b| a | b)
    }
}

impl<const L: usize> Not for Lanes<L> {
    type Output = Self;

    #[inline(always)]
    fn not(self) -> Self {
        Lanes(self.0.map(|word| !word))
    }
}

impl<const L: usize> Word for Lanes<L> {
    #[inline(always)]
    fn constant(value: u32) -> Self {
        Lanes([value; L])
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.with(other, u32::wrapping_add)
    }

    #[inline(always)]
    fn rotated(self, by: u32) -> Self {
        Lanes(self.0.map(|word| word.rotate_left(by)))
    }
}

// The four mixing functions, written so that little waits for `b`, the newest value: in `g` the
// two terms share no bit, so they can be added one by one.
macro_rules! mix {
    (f, $sum:expr, $b:ident, $c:ident, $d:ident) => {
        $sum.plus($d ^ ($b & ($c ^ $d)))
    };
    (g, $sum:expr, $b:ident, $c:ident, $d:ident) => {
        $sum.plus($c & !$d).plus($b & $d)
    };
    (h, $sum:expr, $b:ident, $c:ident, $d:ident) => {
        $sum.plus($b ^ ($c ^ $d))
    };
    (i, $sum:expr, $b:ident, $c:ident, $d:ident) => {
        $sum.plus($c ^ ($b | !$d))
    };
}

macro_rules! step {
    ($mix:ident, $a:ident, $b:ident, $c:ident, $d:ident, $word:expr, $constant:literal, $shift:literal) => {
        let sum = $a.plus(W::constant($constant)).plus($word);
        $a = mix!($mix, sum, $b, $c, $d).rotated($shift).plus($b);
    };
}

macro_rules! rounds {
    ($mix:ident, ($a:ident, $b:ident, $c:ident, $d:ident), $x:ident, $s0:literal, $s1:literal, $s2:literal,
     $s3:literal, [$($w0:literal $k0:literal, $w1:literal $k1:literal, $w2:literal $k2:literal,
     $w3:literal $k3:literal,)*]) => {
        $(
            step!($mix, $a, $b, $c, $d, $x[$w0], $k0, $s0);
            step!($mix, $d, $a, $b, $c, $x[$w1], $k1, $s1);
            step!($mix, $c, $d, $a, $b, $x[$w2], $k2, $s2);
            step!($mix, $b, $c, $d, $a, $x[$w3], $k3, $s3);
        )*
    };
}

/// Mixes one block into the state.
#[rustfmt::skip]
#[inline(always)]
fn transform<W: Word>(state: [W; 4], x: &[W; BLOCK]) -> [W; 4] {
    let [mut a, mut b, mut c, mut d] = state;
    rounds!(f, (a, b, c, d), x, 7, 12, 17, 22, [
        0 0xd76a_a478, 1 0xe8c7_b756, 2 0x2420_70db, 3 0xc1bd_ceee,
        4 0xf57c_0faf, 5 0x4787_c62a, 6 0xa830_4613, 7 0xfd46_9501,
        8 0x6980_98d8, 9 0x8b44_f7af, 10 0xffff_5bb1, 11 0x895c_d7be,
        12 0x6b90_1122, 13 0xfd98_7193, 14 0xa679_438e, 15 0x49b4_0821,
    ]);
    rounds!(g, (a, b, c, d), x, 5, 9, 14, 20, [
        1 0xf61e_2562, 6 0xc040_b340, 11 0x265e_5a51, 0 0xe9b6_c7aa,
        5 0xd62f_105d, 10 0x0244_1453, 15 0xd8a1_e681, 4 0xe7d3_fbc8,
        9 0x21e1_cde6, 14 0xc337_07d6, 3 0xf4d5_0d87, 8 0x455a_14ed,
        13 0xa9e3_e905, 2 0xfcef_a3f8, 7 0x676f_02d9, 12 0x8d2a_4c8a,
    ]);
    rounds!(h, (a, b, c, d), x, 4, 11, 16, 23, [
        5 0xfffa_3942, 8 0x8771_f681, 11 0x6d9d_6122, 14 0xfde5_380c,
        1 0xa4be_ea44, 4 0x4bde_cfa9, 7 0xf6bb_4b60, 10 0xbebf_bc70,
        13 0x289b_7ec6, 0 0xeaa1_27fa, 3 0xd4ef_3085, 6 0x0488_1d05,
        9 0xd9d4_d039, 12 0xe6db_99e5, 15 0x1fa2_7cf8, 2 0xc4ac_5665,
    ]);
    rounds!(i, (a, b, c, d), x, 6, 10, 15, 21, [
        0 0xf429_2244, 7 0x432a_ff97, 14 0xab94_23a7, 5 0xfc93_a039,
        12 0x655b_59c3, 3 0x8f0c_cc92, 10 0xffef_f47d, 1 0x8584_5dd1,
        8 0x6fa8_7e4f, 15 0xfe2c_e6e0, 6 0xa301_4314, 13 0x4e08_11a1,
        4 0xf753_7e82, 11 0xbd3a_f235, 2 0x2ad7_d2bb, 9 0xeb86_d391,
    ]);
    [
        state[0].plus(a), state[1].plus(b),
        state[2].plus(c), state[3].plus(d),
    ]
}

/// As [`hash`], of a number of words that is known when this is compiled: what is constant in the block then
/// costs nothing. The plain twin of the shortest keys.
#[inline(never)]
pub fn hash_short<const N: usize>(words: [u32; N]) -> [u32; 4] {
    const { assert!(N < LENGTH_WORD) };
    let mut block = [0; BLOCK];
    block[..N].copy_from_slice(&words);
    block[N] = MARK;
    block[LENGTH_WORD] = 4 * N as u32;
    transform(START, &block)
}

/// As [`hash_short`] of several keys side by side: the second word of each hash, which picks the fragment.
#[inline]
pub fn hash_short_lanes<const N: usize>(keys: [[u32; N]; LANES]) -> [u32; LANES] {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2; it was just asked.
        return unsafe { lanes_of_avx2(keys) };
    }
    lanes_of_any_processor(keys)
}

/// With registers of eight words.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline(never)]
fn lanes_of_avx2<const N: usize>(keys: [[u32; N]; LANES]) -> [u32; LANES] {
    lanes(keys)
}

/// With registers of four words, which every processor of a common kind has: one half after the other, for
/// both at once need more registers than there are.
#[inline(never)]
fn lanes_of_any_processor<const N: usize>(keys: [[u32; N]; LANES]) -> [u32; LANES] {
    let mut all = [0; LANES];
    for (hashes, keys) in all.as_chunks_mut::<4>().0.iter_mut().zip(keys.as_chunks::<4>().0) {
        *hashes = lanes(*keys);
    }
    all
}

#[inline(always)]
fn lanes<const N: usize, const L: usize>(keys: [[u32; N]; L]) -> [u32; L] {
    const { assert!(N < LENGTH_WORD) };
    let mut block = [Lanes::constant(0); BLOCK];
    for (at, word) in block[..N].iter_mut().enumerate() {
        *word = Lanes(keys.map(|key| key[at]));
    }
    block[N] = Lanes::constant(MARK);
    block[LENGTH_WORD] = Lanes::constant(4 * N as u32);
    transform(START.map(Lanes::constant), &block)[1].0
}

/// The hash of whole words. One block up to 13 words, which is nearly every key.
pub fn hash(words: &[u32]) -> [u32; 4] {
    let mut state = START;
    let (blocks, rest) = words.as_chunks::<BLOCK>();
    for block in blocks {
        state = transform(state, block);
    }
    let mut last = [0; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    finish(state, last, rest.len(), 4 * words.len() as u32)
}

/// Ends a hash: `block` holds `filled` (less than 16) words and zeros, `bytes` is the length of all input.
fn finish(state: [u32; 4], mut block: [u32; BLOCK], filled: usize, bytes: u32) -> [u32; 4] {
    let filled = filled % BLOCK;
    if filled < LENGTH_WORD {
        block[filled] = MARK;
        block[LENGTH_WORD] = bytes;
        return transform(state, &block);
    }
    // No room for mark and length both: what came last wins, and the length follows in a block of its own.
    block[filled] = MARK;
    let state = transform(state, &block);
    let mut end = [0; BLOCK];
    end[LENGTH_WORD] = bytes;
    transform(state, &end)
}

/// A hash over parts: bytes are gathered into words and blocks, so a key of any length needs no buffer.
#[derive(Debug, Clone)]
pub struct Hasher {
    state: [u32; 4],
    block: [u32; BLOCK],
    /// Bytes in the block, less than 64.
    filled: usize,
    bytes: u32,
}

impl Default for Hasher {
    fn default() -> Self {
        Hasher::new()
    }
}

impl Hasher {
    /// A hash of nothing yet.
    #[inline]
    pub const fn new() -> Self {
        Hasher { state: START, block: [0; BLOCK], filled: 0, bytes: 0 }
    }

    /// Adds bytes right behind those before.
    #[inline]
    pub fn write(&mut self, mut bytes: &[u8]) {
        self.bytes = self.bytes.wrapping_add(bytes.len() as u32);
        loop {
            let room = &mut bytemuck::cast_slice_mut::<u32, u8>(&mut self.block)[self.filled..];
            if bytes.len() < room.len() {
                room[..bytes.len()].copy_from_slice(bytes);
                self.filled += bytes.len();
                return;
            }
            let (now, later) = bytes.split_at(room.len());
            room.copy_from_slice(now);
            self.next_block();
            bytes = later;
        }
    }

    /// Adds one word. All parts before must have been whole words or aligned.
    #[inline]
    pub fn write_word(&mut self, word: u32) {
        self.block[self.filled / 4 % BLOCK] = word;
        self.filled += 4;
        self.bytes = self.bytes.wrapping_add(4);
        if self.filled >= 4 * BLOCK {
            self.next_block();
        }
    }

    /// Adds `count` times the same byte.
    pub fn fill(&mut self, byte: u8, mut count: usize) {
        let piece = [byte; 4 * BLOCK];
        while count > 0 {
            let now = count.min(piece.len());
            self.write(&piece[..now]);
            count -= now;
        }
    }

    /// Adds zeros up to the next whole word.
    #[inline]
    pub fn align(&mut self) {
        // The block is zero behind what is filled: to count the zeros is to add them.
        let zeros = self.filled.wrapping_neg() % 4;
        self.filled += zeros;
        self.bytes = self.bytes.wrapping_add(zeros as u32);
        if self.filled == 4 * BLOCK {
            self.next_block();
        }
    }

    /// The hash of all parts.
    #[inline]
    pub fn finish(mut self) -> [u32; 4] {
        self.align();
        finish(self.state, self.block, self.filled / 4, self.bytes)
    }

    fn next_block(&mut self) {
        self.state = transform(self.state, &self.block);
        self.block = [0; BLOCK];
        self.filled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dict::vectors;
    use proptest::prelude::*;

    /// MD5's rounds as a loop over formulas: the plain twin of the unrolled transform.
    fn plain_transform(state: [u32; 4], x: &[u32]) -> [u32; 4] {
        const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
        let [mut a, mut b, mut c, mut d] = state;
        for i in 0..64 {
            let (mixed, word) = match i / 16 {
                0 => (b & c | !b & d, i),
                1 => (d & b | !d & c, (5 * i + 1) % 16),
                2 => (b ^ c ^ d, (3 * i + 5) % 16),
                _ => (c ^ (b | !d), 7 * i % 16),
            };
            let constant = (((i + 1) as f64).sin().abs() * 4294967296.0) as u32;
            let sum = a.wrapping_add(mixed).wrapping_add(constant).wrapping_add(x[word]);
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(SHIFTS[i / 16][i % 4]));
        }
        [a, b, c, d]
            .into_iter()
            .zip(state)
            .map(|(x, y)| x.wrapping_add(y))
            .collect::<Vec<_>>()
            .try_into()
            .unwrap()
    }

    fn plain_hash(words: &[u32]) -> [u32; 4] {
        let bytes = 4 * words.len() as u32;
        let mut state = START;
        let mut rest = words;
        while rest.len() >= 16 {
            state = plain_transform(state, &rest[..16]);
            rest = &rest[16..];
        }
        let mut block = [0; 16];
        block[14] = bytes;
        block[rest.len()] = MARK;
        block[..rest.len()].copy_from_slice(rest);
        state = plain_transform(state, &block);
        if rest.len() >= 14 {
            block = [0; 16];
            block[14] = bytes;
            state = plain_transform(state, &block);
        }
        state
    }

    #[test]
    fn recorded_hashes() {
        let mut seen = 0;
        for vector in vectors::dictionary().filter(|v| v.name.starts_with("hash-")) {
            let bytes = vector.bytes();
            let expected: Vec<u32> = vectors::hex_words(&vector.decoded["hash"]);
            let mut padded = bytes.clone();
            padded.resize(bytes.len().next_multiple_of(4), 0);
            let words: Vec<u32> = vectors::words_of(&padded);
            assert_eq!(hash(&words)[..], expected[..], "{}", vector.name);
            let mut hasher = Hasher::new();
            hasher.write(&bytes);
            assert_eq!(hasher.finish()[..], expected[..], "{}", vector.name);
            seen += 1;
        }
        assert!(seen > 100, "{seen} vectors");
    }

    #[test]
    fn every_length_of_the_last_block() {
        let words: Vec<u32> = (0..70).map(|i| 0x0101_0101 * i).collect();
        for length in 0..words.len() {
            assert_eq!(hash(&words[..length]), plain_hash(&words[..length]), "{length} words");
        }
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..90)
    }

    #[test]
    fn short_hashes_agree() {
        for i in 0..1000_u32 {
            let (a, b) = (i.wrapping_mul(0x9e37_79b9), !i);
            assert_eq!(hash_short([a]), plain_hash(&[a]));
            assert_eq!(hash_short([a, b]), plain_hash(&[a, b]));
            side_by_side([[a, b], [b, a], [a, a], [i, 0], [0, i], [b, b], [!a, b], [a, !b]]);
            side_by_side([[a], [b], [i], [0], [!a], [!i], [a ^ i], [b ^ i]]);
        }
    }

    fn side_by_side<const N: usize>(keys: [[u32; N]; LANES]) {
        let each = keys.map(|key| plain_hash(&key)[1]);
        assert_eq!((hash_short_lanes(keys), lanes_of_any_processor(keys)), (each, each));
    }

    proptest! {
        #[test]
        fn fast_and_plain_agree(words in proptest::collection::vec(any::<u32>(), 0..70)) {
            prop_assert_eq!(hash(&words), plain_hash(&words));
        }

        #[test]
        fn parts_and_whole_agree(
            parts in proptest::collection::vec((bytes(), 0..70usize), 0..6)
        ) {
            let mut hasher = Hasher::new();
            let mut whole = Vec::new();
            for (part, spaces) in &parts {
                hasher.write(part);
                hasher.fill(0x20, *spaces);
                hasher.align();
                hasher.write_word(7);
                whole.extend_from_slice(part);
                whole.resize(whole.len() + spaces, 0x20);
                whole.resize(whole.len().next_multiple_of(4), 0);
                whole.extend([7, 0, 0, 0]);
            }
            let words: Vec<u32> = vectors::words_of(&whole);
            prop_assert_eq!(hasher.finish(), hash(&words));
        }
    }
}
