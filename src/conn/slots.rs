//! Slots with 64-bit handles for what comes and goes: queries and transactions.
//!
//! A handle is, from its low bits up: 20 bits of slot number, 12 bits of the connection's tag, 31 bits of the
//! slot's generation, which is never 0. So a handle is never 0, one that was given up is told from its
//! successor, and one of another connection is told from an own one.

use super::free_set::FreeSet;

/// Slots that a connection can have of a kind.
pub const MAX_SLOTS: usize = 1 << 20;
const TAG_SHIFT: u32 = 20;
/// No handle has this bit.
const VACANT: u64 = 1 << 63;

/// No slot, in lists of slot numbers.
pub const NONE: u32 = u32::MAX;

/// A growing set of slots; the lowest that is free is the next to be used.
#[derive(Debug)]
pub struct Slots<T> {
    tag: u64,
    /// By slot: the handle of its value; while it has none, that of the next one with [`VACANT`]. Apart from
    /// the values, whose size may be of whole cache lines.
    handles: Vec<u64>,
    values: Vec<Option<T>>,
    free: FreeSet,
}

/// The next handle of a slot.
#[inline]
fn after(handle: u64) -> u64 {
    let generation = (((handle >> 32) + 1) & 0x7fff_ffff).max(1);
    generation << 32 | handle as u32 as u64
}

impl<T> Slots<T> {
    /// No slots yet; `tag`'s low 12 bits tell this connection's handles from others.
    pub fn new(tag: u16) -> Self {
        Slots {
            tag: (tag as u64 & 0xfff) << TAG_SHIFT,
            handles: Vec::new(),
            values: Vec::new(),
            free: FreeSet::default(),
        }
    }

    /// Puts a value in a free slot; `None` when all are in use.
    pub fn insert(&mut self, value: T) -> Option<u32> {
        if let Some(at) = self.free.take() {
            self.values[at as usize] = Some(value);
            self.handles[at as usize] &= !VACANT;
            return Some(at);
        }
        if self.values.len() == MAX_SLOTS {
            return None;
        }
        let at = self.values.len() as u32;
        self.handles.push(1 << 32 | self.tag | at as u64);
        self.values.push(Some(value));
        Some(at)
    }

    /// How many slots have a value.
    #[inline]
    pub fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    /// The handle of the value in slot `at`.
    #[inline]
    pub fn handle(&self, at: u32) -> u64 {
        self.handles[at as usize]
    }

    /// The slot's generation.
    #[inline]
    pub fn generation(&self, at: u32) -> u32 {
        (self.handles[at as usize] >> 32) as u32
    }

    /// The slot that a handle names, if the handle is this connection's and not given up.
    #[inline]
    pub fn find(&self, handle: u64) -> Option<u32> {
        let at = handle as u32 & (MAX_SLOTS as u32 - 1);
        (*self.handles.get(at as usize)? == handle && handle & VACANT == 0).then_some(at)
    }

    /// Makes the handle stale; the value stays until it is removed.
    pub fn retire(&mut self, at: u32) {
        let handle = &mut self.handles[at as usize];
        *handle = after(*handle);
    }

    /// Takes the value out; its handle is stale from now on.
    pub fn remove(&mut self, at: u32) -> Option<T> {
        let value = self.values.get_mut(at as usize)?.take()?;
        self.vacate(at);
        Some(value)
    }

    /// As [`Slots::remove`], of a value that is known to be there and not needed.
    #[inline]
    pub fn discard(&mut self, at: u32) {
        self.values[at as usize] = None;
        self.vacate(at);
    }

    #[inline]
    fn vacate(&mut self, at: u32) {
        let handle = &mut self.handles[at as usize];
        *handle = VACANT | after(*handle);
        self.free.insert(at);
    }

    /// The value in slot `at`, if there is one.
    #[inline]
    pub fn get(&self, at: u32) -> Option<&T> {
        self.values.get(at as usize)?.as_ref()
    }

    /// Whether so many more can be put in.
    pub fn has_room(&self, count: usize) -> bool {
        self.free.len() + MAX_SLOTS - self.values.len() >= count
    }

    /// All slots have smaller numbers.
    pub fn bound(&self) -> u32 {
        self.values.len() as u32
    }
}

/// For slots that are known to hold a value: a list or a state says so. A slot that does not is a fault of this
/// library, and ends at the panic guard.
impl<T> std::ops::Index<u32> for Slots<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: u32) -> &T {
        self.values[at as usize].as_ref().expect("an empty slot was used")
    }
}

impl<T> std::ops::IndexMut<u32> for Slots<T> {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut T {
        self.values[at as usize].as_mut().expect("an empty slot was used")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_go_stale() {
        let mut slots = Slots::new(0x8003);
        let a = slots.insert('a').unwrap();
        let handle = slots.handle(a);
        assert_ne!(handle, 0);
        assert_eq!(slots.find(handle), Some(a));
        assert_eq!(slots.remove(a), Some('a'));
        assert_eq!(slots.find(handle), None);
        let next = handle + (1 << 32);
        assert_eq!((slots.find(next), slots.find(next | VACANT)), (None, None), "of the next value");
        let b = slots.insert('b').unwrap();
        assert_eq!(a, b, "a free slot is used again");
        assert_eq!(slots.find(handle), None);
        assert_eq!(slots.handle(b), next);
        assert_eq!(slots[slots.find(slots.handle(b)).unwrap()], 'b');
    }

    #[test]
    fn handles_of_others_are_told_apart() {
        let (mut one, mut other) = (Slots::new(1), Slots::new(2));
        let (a, b) = (one.insert(()).unwrap(), other.insert(()).unwrap());
        assert_eq!(other.find(one.handle(a)), None);
        assert_eq!(one.find(other.handle(b)), None);
        assert_eq!(one.find(0), None);
        assert_eq!(one.find(u64::MAX), None);
    }

    #[test]
    fn retired_values_stay() {
        let mut slots = Slots::new(1);
        let a = slots.insert(7).unwrap();
        let handle = slots.handle(a);
        slots.retire(a);
        assert_eq!(slots.find(handle), None);
        assert_eq!(slots.get(a), Some(&7));
    }
}
