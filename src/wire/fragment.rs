//! Assembly of fragmented signals: a signal whose sections do not fit in one message comes in several.
//! Source: storage/ndb/src/kernel/vm/SimulatedBlock.cpp (sendFirstFragment, assembleFragments).
//!
//! An [`Assembler`] serves one link: fragment ids are unique only together with the sending node and block.
//! What it holds is bounded, whatever arrives.

use super::signal::{Fragment, Header, MAX_SECTIONS, Signal};

/// Words that an assembler holds at most. A definition has up to 24576, a row 7500.
pub const MAX_WORDS: usize = 1 << 20;
/// Signals that can be under assembly at once.
pub const MAX_COLLECTIONS: usize = 64;

/// A complete signal, assembled or copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedSignal {
    /// Number, receiver, sender.
    pub header: Header,
    /// The data words, without those that only served the assembly.
    pub data: Vec<u32>,
    /// The sections; at most [`MAX_SECTIONS`].
    pub sections: Vec<Vec<u32>>,
}

impl From<&Signal<'_>> for OwnedSignal {
    fn from(signal: &Signal<'_>) -> Self {
        OwnedSignal {
            header: signal.header,
            data: signal.data.to_vec(),
            sections: signal.sections().iter().map(|section| section.to_vec()).collect(),
        }
    }
}

/// Why a part was refused. What was collected of its signal is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FragmentError {
    /// A part of a signal whose first part is not there.
    NoFirst,
    /// A second first part, or parts that do not belong together.
    Mismatch,
    /// Too few data words, or a section number that cannot be.
    Malformed,
    /// More than [`MAX_WORDS`] or [`MAX_COLLECTIONS`].
    TooMuch,
}

#[derive(Debug)]
struct Collection {
    header: Header,
    id: u32,
    sections: [Vec<u32>; MAX_SECTIONS],
}

impl Collection {
    fn words(&self) -> usize {
        self.sections.iter().map(Vec::len).sum()
    }
}

/// What one message adds to a signal.
struct Part<'a> {
    id: u32,
    numbers: &'a [u32],
    data: &'a [u32],
}

impl<'a> Part<'a> {
    /// The data words end with a number for each section and the fragment id.
    fn of(signal: &Signal<'a>) -> Option<Self> {
        let (&id, data) = signal.data.split_last()?;
        let (data, numbers) = data.split_at_checked(data.len().checked_sub(signal.sections().len())?)?;
        let possible = numbers.iter().all(|&number| (number as usize) < MAX_SECTIONS);
        possible.then_some(Part { id, numbers, data })
    }
}

/// Collects the parts of the fragmented signals of one link.
#[derive(Debug, Default)]
pub struct Assembler {
    collections: Vec<Collection>,
    words: usize,
}

impl Assembler {
    /// An assembler that holds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a message. Gives the signal when it is complete: at once when the message is all of it.
    pub fn add(&mut self, signal: &Signal<'_>) -> Result<Option<OwnedSignal>, FragmentError> {
        if signal.fragment == Fragment::Whole {
            return Ok(Some(signal.into()));
        }
        let part = Part::of(signal).ok_or(FragmentError::Malformed)?;
        let mut collection = self.collection_for(signal, &part)?;
        let more: usize = signal.sections().iter().map(|section| section.len()).sum();
        if self.words + collection.words() + more > MAX_WORDS {
            return Err(FragmentError::TooMuch);
        }
        for (&number, section) in part.numbers.iter().zip(signal.sections()) {
            if let Some(collected) = collection.sections.get_mut(number as usize) {
                collected.extend_from_slice(section);
            }
        }
        if signal.fragment != Fragment::Last {
            self.words += collection.words();
            self.collections.push(collection);
            return Ok(None);
        }
        let mut sections = Vec::from(collection.sections);
        while sections.pop_if(|section| section.is_empty()).is_some() {}
        Ok(Some(OwnedSignal { header: signal.header, data: part.data.to_vec(), sections }))
    }

    /// Takes out the collection that the part belongs to, or a new one for a first part.
    fn collection_for(&mut self, signal: &Signal<'_>, part: &Part<'_>) -> Result<Collection, FragmentError> {
        let header = signal.header;
        let same = |c: &Collection| c.id == part.id && c.header.sender == header.sender;
        let found = self.collections.iter().position(same).map(|place| self.collections.swap_remove(place));
        if let Some(found) = &found {
            self.words -= found.words();
        }
        match (signal.fragment, found) {
            (Fragment::First, None) if self.collections.len() < MAX_COLLECTIONS => {
                Ok(Collection { header, id: part.id, sections: Default::default() })
            }
            (Fragment::First, None) => Err(FragmentError::TooMuch),
            (Fragment::First, Some(_)) => Err(FragmentError::Mismatch),
            (_, None) => Err(FragmentError::NoFirst),
            (_, Some(found)) if found.header == header => Ok(found),
            _ => Err(FragmentError::Mismatch),
        }
    }

    /// Drops all collections: the link is gone.
    pub fn drop_all(&mut self) {
        *self = Self::default();
    }

    /// Signals that are under assembly.
    pub fn pending(&self) -> usize {
        self.collections.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::signal::{decode, encode, encode_any, message_length};
    use proptest::prelude::*;

    const HEADER: Header = Header { gsn: 190, receiver: 0x8000, sender: 250 };

    fn messages(words: &[u32]) -> Vec<&[u32]> {
        let mut rest = words;
        let mut messages = Vec::new();
        while let Some(&first) = rest.first() {
            let (message, after) = rest.split_at(message_length(first).unwrap());
            messages.push(message);
            rest = after;
        }
        messages
    }

    /// A message of a fragmented signal, made by hand.
    fn part(fragment: Fragment, header: Header, data: &[u32], sections: &[&[u32]]) -> Vec<u32> {
        let mut out = Vec::new();
        encode(&mut out, header, data, sections).unwrap();
        out[0] |= match fragment {
            Fragment::Whole => 0,
            Fragment::First => 1 << 25,
            Fragment::Middle => 1 << 1,
            Fragment::Last => 1 << 25 | 1 << 1,
        };
        out
    }

    fn add(assembler: &mut Assembler, message: &[u32]) -> Result<Option<OwnedSignal>, FragmentError> {
        assembler.add(&decode(message).unwrap())
    }

    #[test]
    fn parts_of_several_signals_interleave() {
        let mut assembler = Assembler::new();
        let other = Header { sender: 251, ..HEADER };
        // Nodes send the highest section first, and repeat the data in every part.
        for message in [
            part(Fragment::First, HEADER, &[7, 1, 0, 5], &[&[30], &[10, 11]]),
            part(Fragment::First, other, &[8, 0, 5], &[&[99]]),
            part(Fragment::Middle, HEADER, &[7, 0, 5], &[&[12]]),
        ] {
            assert_eq!(add(&mut assembler, &message), Ok(None));
        }
        let whole = add(&mut assembler, &part(Fragment::Whole, HEADER, &[1], &[])).unwrap().unwrap();
        assert_eq!((whole.data, whole.sections.len()), (vec![1], 0));
        let last = add(&mut assembler, &part(Fragment::Last, HEADER, &[7, 0, 5], &[&[13]])).unwrap().unwrap();
        assert_eq!(last.data, [7]);
        assert_eq!(last.sections, [vec![10, 11, 12, 13], vec![30]]);
        let last = add(&mut assembler, &part(Fragment::Last, other, &[8, 5], &[])).unwrap().unwrap();
        assert_eq!((last.header, last.sections), (other, vec![vec![99]]));
        assert_eq!((assembler.pending(), assembler.words), (0, 0));
    }

    #[test]
    fn what_does_not_belong_together_is_dropped() {
        use FragmentError::*;
        let mut assembler = Assembler::new();
        let first = part(Fragment::First, HEADER, &[0, 5], &[&[1]]);
        let last = part(Fragment::Last, HEADER, &[7, 0, 5], &[&[1]]);
        assert_eq!(add(&mut assembler, &last), Err(NoFirst));
        assert_eq!(add(&mut assembler, &part(Fragment::First, HEADER, &[3, 5], &[&[1]])), Err(Malformed));
        assert_eq!(add(&mut assembler, &part(Fragment::First, HEADER, &[5], &[&[1]])), Err(Malformed));
        let other = Header { gsn: 194, ..HEADER };
        for (message, error) in
            [(first.clone(), Mismatch), (part(Fragment::Last, other, &[7, 0, 5], &[&[1]]), Mismatch)]
        {
            assert_eq!(add(&mut assembler, &first), Ok(None));
            assert_eq!(add(&mut assembler, &message), Err(error));
            assert_eq!(add(&mut assembler, &last), Err(NoFirst));
            assert_eq!((assembler.pending(), assembler.words), (0, 0));
        }
        assert_eq!(add(&mut assembler, &first), Ok(None));
        assembler.drop_all();
        assert_eq!(add(&mut assembler, &last), Err(NoFirst));
    }

    #[test]
    fn memory_is_bounded() {
        let mut assembler = Assembler::new();
        for id in 0..MAX_COLLECTIONS as u32 {
            assert_eq!(add(&mut assembler, &part(Fragment::First, HEADER, &[id], &[])), Ok(None));
        }
        let one_more = part(Fragment::First, HEADER, &[1000], &[]);
        assert_eq!(add(&mut assembler, &one_more), Err(FragmentError::TooMuch));
        let piece = vec![0; 8000];
        let middle = part(Fragment::Middle, HEADER, &[0, 3], &[&piece]);
        let accepted = (0..).take_while(|_| add(&mut assembler, &middle) == Ok(None)).count();
        assert_eq!(accepted, MAX_WORDS / piece.len());
        assert_eq!((assembler.pending(), assembler.words), (MAX_COLLECTIONS - 1, 0));
    }

    fn any_sections() -> impl Strategy<Value = Vec<Vec<u32>>> {
        prop::collection::vec(1..20_000usize, 1..4).prop_map(|lengths| {
            lengths.iter().map(|&n| (0..n as u32).map(|i| i ^ n as u32).collect()).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn signals_of_any_size_come_back(
            data in prop::collection::vec(any::<u32>(), 1..19),
            sections in any_sections(),
        ) {
            let borrowed: Vec<&[u32]> = sections.iter().map(|s| &s[..]).collect();
            let mut words = Vec::new();
            encode_any(&mut words, HEADER, &data, &borrowed, 77).unwrap();
            let mut assembler = Assembler::new();
            let mut found = Vec::new();
            for message in messages(&words) {
                found.extend(add(&mut assembler, message).unwrap());
            }
            prop_assert_eq!(found, vec![OwnedSignal { header: HEADER, data, sections }]);
            prop_assert_eq!(assembler.pending(), 0);
        }

        #[test]
        fn any_parts_keep_the_count(
            parts in prop::collection::vec((0..4u8, 0..4u32, 0..4u32, 0..3usize, 1..9usize), 0..60),
        ) {
            let mut assembler = Assembler::new();
            for (fragment, number, id, sections, length) in parts {
                let fragment =
                    [Fragment::Whole, Fragment::First, Fragment::Middle, Fragment::Last][fragment as usize];
                let data = [&vec![number; sections][..], &[id]].concat();
                let section = vec![1; length];
                let _ = add(&mut assembler, &part(fragment, HEADER, &data, &vec![&section[..]; sections]));
                let held: usize = assembler.collections.iter().map(Collection::words).sum();
                prop_assert_eq!(assembler.words, held);
            }
        }
    }
}
