//! Slots with 64-bit handles for what comes and goes: queries and transactions.
//!
//! A handle is, from its low bits up: 20 bits of slot number, 12 bits of the connection's tag, 32 bits of the
//! slot's generation, which is never 0. So a handle is never 0, one that was given up is told from its
//! successor, and one of another connection is told from an own one.

/// Slots that a connection can have of a kind.
pub const MAX_SLOTS: usize = 1 << 20;
const TAG_SHIFT: u32 = 20;

/// No slot, in lists of slot numbers.
pub const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Slot<T> {
    /// The handle of the value, or of the next one.
    handle: u64,
    value: Option<T>,
}

/// A growing set of slots; a slot that becomes free is the next to be used.
#[derive(Debug)]
pub struct Slots<T> {
    tag: u64,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    /// No slots yet; `tag`'s low 12 bits tell this connection's handles from others.
    pub fn new(tag: u16) -> Self {
        Slots { tag: (tag as u64 & 0xfff) << TAG_SHIFT, slots: Vec::new(), free: Vec::new() }
    }

    /// Puts a value in a free slot; `None` when all are in use.
    pub fn insert(&mut self, value: T) -> Option<u32> {
        if let Some(at) = self.free.pop() {
            self.slots[at as usize].value = Some(value);
            return Some(at);
        }
        if self.slots.len() == MAX_SLOTS {
            return None;
        }
        let at = self.slots.len() as u32;
        self.slots.push(Slot { handle: 1 << 32 | self.tag | at as u64, value: Some(value) });
        Some(at)
    }

    /// How many slots have a value.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The handle of the value in slot `at`.
    #[inline]
    pub fn handle(&self, at: u32) -> u64 {
        self.slots[at as usize].handle
    }

    /// The slot's generation.
    #[inline]
    pub fn generation(&self, at: u32) -> u32 {
        (self.slots[at as usize].handle >> 32) as u32
    }

    /// The slot that a handle names, if the handle is this connection's and not given up.
    #[inline]
    pub fn find(&self, handle: u64) -> Option<u32> {
        let at = handle as u32 & (MAX_SLOTS as u32 - 1);
        let slot = self.slots.get(at as usize)?;
        (slot.handle == handle && slot.value.is_some()).then_some(at)
    }

    /// Makes the handle stale; the value stays until it is removed.
    pub fn retire(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        let generation = ((slot.handle >> 32) as u32).wrapping_add(1).max(1);
        slot.handle = (generation as u64) << 32 | slot.handle as u32 as u64;
    }

    /// Takes the value out; its handle is stale from now on.
    pub fn remove(&mut self, at: u32) -> Option<T> {
        let value = self.slots.get_mut(at as usize)?.value.take()?;
        self.retire(at);
        self.free.push(at);
        Some(value)
    }

    /// The value in slot `at`, if there is one.
    #[inline]
    pub fn get(&self, at: u32) -> Option<&T> {
        self.slots.get(at as usize)?.value.as_ref()
    }

    /// Whether so many more can be put in.
    pub fn has_room(&self, count: usize) -> bool {
        self.free.len() + MAX_SLOTS - self.slots.len() >= count
    }

    /// All slots have smaller numbers.
    pub fn bound(&self) -> u32 {
        self.slots.len() as u32
    }
}

/// For slots that are known to hold a value: a list or a state says so. A slot that does not is a fault of this
/// library, and ends at the panic guard.
impl<T> std::ops::Index<u32> for Slots<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: u32) -> &T {
        self.slots[at as usize].value.as_ref().expect("an empty slot was used")
    }
}

impl<T> std::ops::IndexMut<u32> for Slots<T> {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut T {
        self.slots[at as usize].value.as_mut().expect("an empty slot was used")
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
        let b = slots.insert('b').unwrap();
        assert_eq!(a, b, "a free slot is used again");
        assert_eq!(slots.find(handle), None);
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
