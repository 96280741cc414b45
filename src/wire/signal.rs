//! A signal's frame: three header words, data words, section lengths, sections. Source:
//! storage/ndb/include/transporter/TransporterDefinitions.hpp and
//! src/common/transporter/TransporterInternalDefinitions.hpp (Protocol6).
//!
//! Encoding refuses what a data node would stop for (more than 25 words of data and section lengths, a signal
//! without data, an over-long message). Decoding checks every length against the words that are there.

use super::gsn;

/// The longest message, in words, headers and sections included.
pub const MAX_MESSAGE: usize = 8192;
/// Data words and section count together, at most.
pub const MAX_DATA: usize = 25;
/// Sections a signal can have.
pub const MAX_SECTIONS: usize = 3;
/// Section words that one fragment of a large signal carries.
const FRAGMENT_SECTION_WORDS: usize = 8040;
/// Every piece of a section except its last is a multiple of this.
const FRAGMENT_UNIT: usize = 60;

const BYTE_ORDER_BITS: u32 = 0x8100_0081;
const SIGNAL_ID: u32 = 1 << 2;
const COMPRESSED: u32 = 1 << 3;
const CHECKSUM: u32 = 1 << 4;
const PRIORITY_B: u32 = 1 << 5;
/// In the first word: the message is a part of a signal.
const FRAGMENT_BITS: u32 = 1 << 1 | 1 << 25;
/// In the second word: how many sections there are.
const SECTION_BITS: u32 = 3 << 26;

/// Why bytes that arrived are not a signal. The link they came by cannot be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The byte order bits of the first word are set: a big endian peer, or no signal at all.
    ByteOrder,
    /// The compressed bit is set; no version sends it.
    Compressed,
    /// A length that is too small, too large, or does not match its parts.
    Length,
    /// The checksum word does not match.
    Checksum,
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FrameError::ByteOrder => "a signal of the other byte order",
            FrameError::Compressed => "a compressed signal",
            FrameError::Length => "a signal whose lengths do not add up",
            FrameError::Checksum => "a signal with a wrong checksum",
        })
    }
}

/// Why a signal cannot be sent: a data node would stop for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncodeError {
    /// No data word, or more than [`MAX_DATA`] with the section lengths.
    Data,
    /// More than [`MAX_SECTIONS`] sections, or an empty one.
    Sections,
    /// More than [`MAX_MESSAGE`] words in one message.
    Length,
}

/// A signal's place among the messages that carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fragment {
    /// The whole signal is in this message.
    #[default]
    Whole,
    /// The first message of several.
    First,
    /// Neither first nor last.
    Middle,
    /// The last message: the signal is complete.
    Last,
}

/// Who a signal is for, whom it is from, and which one it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Signal number, see [`gsn`].
    pub gsn: u16,
    /// Block number of the receiver, instance included.
    pub receiver: u16,
    /// Block number of the sender, instance included.
    pub sender: u16,
}

/// One received message, borrowed from the words that arrived.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signal<'a> {
    /// Number, receiver, sender. The sending node is the one at the other end of the link.
    pub header: Header,
    /// Whether this is a whole signal or a part of one.
    pub fragment: Fragment,
    /// The data words.
    pub data: &'a [u32],
    sections: [&'a [u32]; MAX_SECTIONS],
    section_count: u8,
}

impl<'a> Signal<'a> {
    /// A whole signal without sections, as packed ones are.
    #[inline]
    pub fn short(header: Header, data: &'a [u32]) -> Self {
        Signal { header, fragment: Fragment::Whole, data, sections: [&[]; MAX_SECTIONS], section_count: 0 }
    }

    /// The sections that are present, at most [`MAX_SECTIONS`].
    pub fn sections(&self) -> &[&'a [u32]] {
        &self.sections[..self.section_count as usize]
    }
}

impl std::fmt::Debug for Signal<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:x}->{:x} ", gsn::name(self.header.gsn), self.header.sender, self.header.receiver)?;
        if self.fragment != Fragment::Whole {
            write!(f, "{:?} ", self.fragment)?;
        }
        write!(f, "{:x?}", self.data)?;
        self.sections().iter().try_for_each(|section| write!(f, " {section:x?}"))
    }
}

/// The length in words of the message that starts with `first`, without looking at the rest.
#[inline]
pub fn message_length(first: u32) -> Result<usize, FrameError> {
    if first & (BYTE_ORDER_BITS | COMPRESSED) != 0 {
        return Err(if first & COMPRESSED != 0 { FrameError::Compressed } else { FrameError::ByteOrder });
    }
    let length = (first >> 8 & 0xffff) as usize;
    if (4..=MAX_MESSAGE).contains(&length) { Ok(length) } else { Err(FrameError::Length) }
}

/// The receiver's block number in a message's third word.
#[inline]
pub fn receiver_of(third: u32) -> u16 {
    (third >> 16) as u16
}

/// Decodes the message that `message` holds exactly.
#[inline]
pub fn decode(message: &[u32]) -> Result<Signal<'_>, FrameError> {
    let [w1, w2, w3, ..] = *message else { return Err(FrameError::Length) };
    if message_length(w1)? != message.len() {
        return Err(FrameError::Length);
    }
    if w1 & (CHECKSUM | SIGNAL_ID | FRAGMENT_BITS) == 0 && w2 & SECTION_BITS == 0 {
        // Nearly all: a whole signal of nothing but data. What follows would give the same.
        let header = Header { gsn: w2 as u16, receiver: receiver_of(w3), sender: w3 as u16 };
        let data = &message[3..];
        return match data.len() == (w1 >> 26 & 31) as usize {
            true => Ok(Signal::short(header, data)),
            false => Err(FrameError::Length),
        };
    }
    let mut rest = &message[3..];
    if w1 & CHECKSUM != 0 {
        let (&sum, before) = rest.split_last().ok_or(FrameError::Length)?;
        if message[..message.len() - 1].iter().fold(0, |x, w| x ^ w) != sum {
            return Err(FrameError::Checksum);
        }
        rest = before;
    }
    if w1 & SIGNAL_ID != 0 {
        rest = rest.get(1..).ok_or(FrameError::Length)?;
    }
    let data_length = (w1 >> 26 & 31) as usize;
    let section_count = (w2 >> 26 & 3) as usize;
    let (data, rest) = rest.split_at_checked(data_length).ok_or(FrameError::Length)?;
    let (lengths, mut rest) = rest.split_at_checked(section_count).ok_or(FrameError::Length)?;
    let mut sections: [&[u32]; MAX_SECTIONS] = [&[]; MAX_SECTIONS];
    for (section, &length) in sections.iter_mut().zip(lengths) {
        (*section, rest) = rest.split_at_checked(length as usize).ok_or(FrameError::Length)?;
    }
    if !rest.is_empty() {
        return Err(FrameError::Length);
    }
    let fragment = match (w1 >> 1 & 1, w1 >> 25 & 1) {
        (0, 0) => Fragment::Whole,
        (0, _) => Fragment::First,
        (_, 0) => Fragment::Middle,
        _ => Fragment::Last,
    };
    let header = Header { gsn: w2 as u16, receiver: receiver_of(w3), sender: w3 as u16 };
    Ok(Signal { header, fragment, data, sections, section_count: section_count as u8 })
}

/// The three header words of a message.
pub fn header_words(
    header: Header,
    fragment: Fragment,
    data: usize,
    sections: usize,
    length: usize,
) -> [u32; 3] {
    let fragment = match fragment {
        Fragment::Whole => 0,
        Fragment::First => 1 << 25,
        Fragment::Middle => 1 << 1,
        Fragment::Last => 1 << 25 | 1 << 1,
    };
    [
        PRIORITY_B | fragment | (length as u32) << 8 | (data as u32) << 26,
        header.gsn as u32 | (sections as u32) << 26,
        (header.receiver as u32) << 16 | header.sender as u32,
    ]
}

/// Appends one whole message to `out`.
pub fn encode(
    out: &mut Vec<u32>,
    header: Header,
    data: &[u32],
    sections: &[&[u32]],
) -> Result<(), EncodeError> {
    encode_message(out, header, Fragment::Whole, data, sections)
}

fn encode_message(
    out: &mut Vec<u32>,
    header: Header,
    fragment: Fragment,
    data: &[u32],
    sections: &[&[u32]],
) -> Result<(), EncodeError> {
    if data.is_empty() || data.len() + sections.len() > MAX_DATA {
        return Err(EncodeError::Data);
    }
    if sections.len() > MAX_SECTIONS || sections.iter().any(|s| s.is_empty()) {
        return Err(EncodeError::Sections);
    }
    let section_words: usize = sections.iter().map(|s| s.len()).sum();
    let length = 3 + data.len() + sections.len() + section_words;
    if length > MAX_MESSAGE {
        return Err(EncodeError::Length);
    }
    out.extend(header_words(header, fragment, data.len(), sections.len(), length));
    out.extend_from_slice(data);
    out.extend(sections.iter().map(|s| s.len() as u32));
    sections.iter().for_each(|s| out.extend_from_slice(s));
    Ok(())
}

/// Appends a signal of any size to `out`: as one message when it fits, else as fragments numbered
/// `fragment_id`, which must not be in use for another signal of the same sender.
pub fn encode_any(
    out: &mut Vec<u32>,
    header: Header,
    data: &[u32],
    sections: &[&[u32]],
    fragment_id: u32,
) -> Result<(), EncodeError> {
    if sections.iter().map(|s| s.len()).sum::<usize>() <= FRAGMENT_SECTION_WORDS {
        return encode(out, header, data, sections);
    }
    // The last fragment carries the original data, the numbers of its sections and the fragment id.
    if data.is_empty() || data.len() + 2 * sections.len() + 1 > MAX_DATA {
        return Err(EncodeError::Data);
    }
    if sections.len() > MAX_SECTIONS || sections.iter().any(|s| s.is_empty()) {
        return Err(EncodeError::Sections);
    }
    let mut rest: [&[u32]; MAX_SECTIONS] = [&[]; MAX_SECTIONS];
    rest[..sections.len()].copy_from_slice(sections);
    let mut first = true;
    loop {
        let mut room = FRAGMENT_SECTION_WORDS;
        let mut pieces: [&[u32]; MAX_SECTIONS] = [&[]; MAX_SECTIONS];
        let mut numbers = [0; MAX_SECTIONS];
        let mut count = 0;
        for (number, left) in rest.iter_mut().enumerate().filter(|(_, left)| !left.is_empty()) {
            let take = if left.len() <= room { left.len() } else { room / FRAGMENT_UNIT * FRAGMENT_UNIT };
            if take == 0 {
                break;
            }
            (pieces[count], *left) = left.split_at(take);
            numbers[count] = number as u32;
            count += 1;
            room -= take;
            if !left.is_empty() {
                break;
            }
        }
        let last = rest.iter().all(|left| left.is_empty());
        let mut words = [0; MAX_DATA];
        let data = if last { data } else { &[] };
        words[..data.len()].copy_from_slice(data);
        words[data.len()..data.len() + count].copy_from_slice(&numbers[..count]);
        words[data.len() + count] = fragment_id;
        let fragment = match (first, last) {
            (true, _) => Fragment::First,
            (_, true) => Fragment::Last,
            _ => Fragment::Middle,
        };
        encode_message(out, header, fragment, &words[..data.len() + count + 1], &pieces[..count])?;
        if last {
            return Ok(());
        }
        first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: Header = Header { gsn: 10, receiver: 0x8000, sender: 0x2f5 };

    fn words(lengths: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(any::<u32>(), lengths)
    }

    #[test]
    fn refuses_what_a_node_stops_for() {
        let mut out = Vec::new();
        let mut refused = |data: &[u32], sections: &[&[u32]]| encode(&mut out, HEADER, data, sections).err();
        assert_eq!(refused(&[], &[]), Some(EncodeError::Data));
        assert_eq!(refused(&[0; MAX_DATA + 1], &[]), Some(EncodeError::Data));
        assert_eq!(refused(&[0; MAX_DATA], &[&[1]]), Some(EncodeError::Data));
        assert_eq!(refused(&[0; MAX_DATA - 1], &[&[1]]), None);
        assert_eq!(refused(&[0], &[&[1], &[]]), Some(EncodeError::Sections));
        assert_eq!(refused(&[0], &[&[1][..]; 4]), Some(EncodeError::Sections));
        assert_eq!(refused(&[0], &[&[1; MAX_MESSAGE - 4]]), Some(EncodeError::Length));
        assert_eq!(refused(&[0], &[&[1; MAX_MESSAGE - 5]]), None);
        let big = vec![1; 9000];
        let mut refused =
            |data: &[u32], sections: &[&[u32]]| encode_any(&mut out, HEADER, data, sections, 1).err();
        assert_eq!(refused(&[0; 23], &[&big]), Some(EncodeError::Data));
        assert_eq!(refused(&[], &[&big]), Some(EncodeError::Data));
        assert_eq!(refused(&[0], &[&big, &[]]), Some(EncodeError::Sections));
        assert_eq!(refused(&[0; 22], &[&big]), None);
    }

    #[test]
    fn lengths_and_byte_order_are_judged_by_the_first_word() {
        assert_eq!(message_length(4 << 8), Ok(4));
        assert_eq!(message_length((MAX_MESSAGE as u32) << 8), Ok(MAX_MESSAGE));
        for length in [0, 3, MAX_MESSAGE as u32 + 1, 0xffff] {
            assert_eq!(message_length(length << 8), Err(FrameError::Length));
        }
        for bit in [0, 7, 24, 31] {
            assert_eq!(message_length(4 << 8 | 1 << bit), Err(FrameError::ByteOrder));
        }
        assert_eq!(message_length(4 << 8 | COMPRESSED), Err(FrameError::Compressed));
    }

    /// Adds the signal id and the checksum that a peer may send.
    fn with_options(message: &[u32], id: Option<u32>, checksum: bool) -> Vec<u32> {
        let mut words = message.to_vec();
        if let Some(id) = id {
            words.insert(3, id);
            words[0] = (words[0] | SIGNAL_ID) + (1 << 8);
        }
        if checksum {
            words[0] = (words[0] | CHECKSUM) + (1 << 8);
            words.push(words.iter().fold(0, |sum, word| sum ^ word));
        }
        words
    }

    proptest! {
        #[test]
        fn signals_come_back(
            (gsn, receiver, sender) in any::<(u16, u16, u16)>(),
            data in words(1..23),
            sections in prop::collection::vec(words(1..50), 0..4),
            id in any::<Option<u32>>(),
            checksum in any::<bool>(),
            (place, bit) in (any::<prop::sample::Index>(), 0..32u32),
        ) {
            let header = Header { gsn, receiver, sender };
            let borrowed: Vec<&[u32]> = sections.iter().map(|section| &section[..]).collect();
            let mut message = Vec::new();
            encode(&mut message, header, &data, &borrowed).unwrap();
            let mut message = with_options(&message, id, checksum);
            let signal = decode(&message).unwrap();
            prop_assert_eq!((signal.header, signal.fragment), (header, Fragment::Whole));
            prop_assert_eq!((signal.data, signal.sections()), (&data[..], &borrowed[..]));
            for cut in 0..message.len() {
                prop_assert!(decode(&message[..cut]).is_err());
            }
            let place = place.index(message.len());
            message[place] ^= 1u32 << bit;
            // Damage anywhere but in the bits that switch the checksum off is found by it.
            prop_assert!(!checksum || place == 0 || decode(&message).is_err());
            let _ = decode(&message);
        }

        #[test]
        fn every_message_of_a_large_signal_keeps_the_rules(
            data in words(1..19),
            lengths in prop::collection::vec(1..30_000usize, 1..4),
        ) {
            let sections: Vec<_> = lengths.iter().map(|&length| vec![length as u32; length]).collect();
            let borrowed: Vec<&[u32]> = sections.iter().map(|section| &section[..]).collect();
            let mut out = Vec::new();
            encode_any(&mut out, HEADER, &data, &borrowed, 9).unwrap();
            let mut left = lengths;
            let mut rest = &out[..];
            while let Some(&first) = rest.first() {
                let message;
                (message, rest) = rest.split_at(message_length(first).unwrap());
                let signal = decode(message).unwrap();
                prop_assert!(signal.data.len() + signal.sections().len() <= MAX_DATA);
                prop_assert_eq!(rest.is_empty(), matches!(signal.fragment, Fragment::Whole | Fragment::Last));
                let count = signal.sections().len() as u32;
                let numbers = match (signal.fragment, signal.data) {
                    (Fragment::Whole, _) => (0..count).collect(),
                    (_, [numbers @ .., _]) => numbers[numbers.len() - count as usize..].to_vec(),
                    _ => panic!("no fragment id"),
                };
                for (number, section) in numbers.into_iter().zip(signal.sections()) {
                    let left = &mut left[number as usize];
                    *left -= section.len();
                    prop_assert!(*left == 0 || section.len().is_multiple_of(FRAGMENT_UNIT));
                }
            }
            prop_assert!(left.iter().all(|&left| left == 0));
        }

        #[test]
        fn any_words_decode_or_are_refused(mut message in words(0..60), honest in any::<bool>()) {
            let length = (message.len() as u32) << 8;
            if honest && let [first, ..] = &mut message[..] {
                *first = *first & !(BYTE_ORDER_BITS | COMPRESSED | CHECKSUM | 0xffff << 8) | length;
            }
            if let Ok(signal) = decode(&message) {
                let parts: usize = signal.sections().iter().map(|section| section.len() + 1).sum();
                prop_assert!(3 + signal.data.len() + parts <= message.len());
            }
        }
    }
}
