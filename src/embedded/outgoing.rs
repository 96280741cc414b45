//! What a node has for one client: signals of its blocks, and rows. The two go out in one write, in either
//! order, as real nodes may send them: rows come from another block than confirmations do. Short
//! confirmations and rows travel in carriers. Sources: storage/ndb/src/kernel/blocks/dbtc/DbtcMain.cpp
//! (sendPackedTCKEYCONF), src/kernel/blocks/dbtup/DbtupBuffer.cpp.

use crate::wire::block::{API_PACKED, DBDICT, DBLQH, DBTC, DBTUP, QMGR};
use crate::wire::gsn;
use crate::wire::signal::{Fragment, Header, MAX_DATA, encode, header_words};
use crate::wire::transaction::TransId;

/// The instance of the blocks that do a node's work.
const INSTANCE: u16 = 1 << 9;
/// The coordinator, as clients address it.
pub const COORDINATOR: u16 = DBTC | INSTANCE;
/// Who sends refusals of committed reads.
const HANDLER: u16 = DBLQH | INSTANCE;
/// Who sends rows.
const READER: u16 = DBTUP | INSTANCE;
/// A row of at most so many words goes into a carrier.
const PACKED_ROW: usize = 16;
/// A row of at most so many words goes without a section.
const SHORT_ROW: usize = 22;
/// A signal with more words than this goes in fragments.
const WHOLE_SIGNAL: usize = 7400;
/// Section words of a fragment.
pub const FRAGMENT_WORDS: usize = 240;

/// Messages, and the carrier at their end that may take more.
#[derive(Debug, Default)]
pub struct Stream {
    words: Vec<u32>,
    /// Where the open carrier begins.
    carrier: Option<usize>,
}

impl Stream {
    /// Makes room in a carrier for a packet of `length` words, of at least three.
    #[inline]
    fn packet(&mut self, number: u16, sender: u16, receiver: u16, length: usize) {
        if let Some(start) = self.carrier
            && self.words.len() - start - 3 + 1 + length > MAX_DATA
        {
            self.close(number, sender);
        }
        if self.carrier.is_none() {
            self.carrier = Some(self.words.len());
            self.words.extend([0; 3]);
        }
        self.words.push((receiver as u32) << 16 | (length - 3) as u32);
    }

    #[inline]
    fn close(&mut self, number: u16, sender: u16) {
        let Some(start) = self.carrier.take() else { return };
        let data = self.words.len() - start - 3;
        let header = Header { gsn: number, receiver: API_PACKED, sender };
        let words = header_words(header, Fragment::Whole, data, 0, 3 + data);
        self.words[start..start + 3].copy_from_slice(&words);
    }
}

/// What a node has for one client.
#[derive(Debug, Default)]
pub struct Outgoing {
    signals: Stream,
    rows: Stream,
    fragments: u32,
}

impl Outgoing {
    /// Words that wait.
    pub fn waiting(&self) -> usize {
        self.signals.words.len() + self.rows.words.len()
    }

    /// Both parts, ready to be sent.
    pub fn close(&mut self) -> (&mut Vec<u32>, &mut Vec<u32>) {
        self.signals.close(gsn::TCKEYCONF, COORDINATOR);
        self.rows.close(gsn::TRANSID_AI, READER);
        (&mut self.signals.words, &mut self.rows.words)
    }

    /// A signal of the coordinator.
    pub fn coordinator(&mut self, number: u16, receiver: u16, data: &[u32]) {
        self.plain(Header { gsn: number, receiver, sender: COORDINATOR }, data, &[]);
    }

    /// A signal of the registration block.
    pub fn qmgr(&mut self, number: u16, receiver: u16, data: &[u32], sections: &[&[u32]]) {
        self.plain(Header { gsn: number, receiver, sender: QMGR }, data, sections);
    }

    /// A refusal by the node that should have read.
    pub fn refused_read(&mut self, receiver: u16, operation: u32, transid: TransId, code: i32) {
        let data = [operation, transid[0], transid[1], code as u32, 0];
        self.plain(Header { gsn: gsn::TCKEYREF, receiver, sender: HANDLER }, &data, &[]);
    }

    /// An answer of the dictionary; a large one goes in fragments that all repeat the data words.
    pub fn dictionary(&mut self, number: u16, receiver: u16, data: &[u32], sections: &[&[u32]]) {
        let header = Header { gsn: number, receiver, sender: DBDICT };
        match *sections {
            [section] if section.len() + data.len() > WHOLE_SIGNAL => self.fragments(header, data, section),
            _ => self.plain(header, data, sections),
        }
    }

    /// One part of an answer that comes in parts: the data words with what serves the assembly.
    pub fn part(
        &mut self,
        number: u16,
        receiver: u16,
        fragment: Fragment,
        data: &[u32],
        sections: &[&[u32]],
    ) {
        self.signals.close(gsn::TCKEYCONF, COORDINATOR);
        let length = 3 + data.len() + sections.iter().map(|section| section.len() + 1).sum::<usize>();
        let header = Header { gsn: number, receiver, sender: DBDICT };
        let words = &mut self.signals.words;
        words.extend(header_words(header, fragment, data.len(), sections.len(), length));
        words.extend_from_slice(data);
        words.extend(sections.iter().map(|section| section.len() as u32));
        sections.iter().for_each(|section| words.extend_from_slice(section));
    }

    /// A number for a fragmented signal.
    pub fn fragment_id(&mut self) -> u32 {
        self.fragments = self.fragments.wrapping_add(1);
        self.fragments
    }

    fn fragments(&mut self, header: Header, data: &[u32], section: &[u32]) {
        let id = self.fragment_id();
        let data: Vec<u32> = data.iter().copied().chain([0, id]).collect();
        let pieces = section.chunks(FRAGMENT_WORDS);
        let last = pieces.len() - 1;
        for (at, piece) in pieces.enumerate() {
            let fragment = match at {
                0 => Fragment::First,
                _ if at == last => Fragment::Last,
                _ => Fragment::Middle,
            };
            self.signals.close(gsn::TCKEYCONF, COORDINATOR);
            append(&mut self.signals.words, header, fragment, &data, piece);
        }
    }

    fn plain(&mut self, header: Header, data: &[u32], sections: &[&[u32]]) {
        self.signals.close(gsn::TCKEYCONF, COORDINATOR);
        let encoded = encode(&mut self.signals.words, header, data, sections);
        debug_assert!(encoded.is_ok(), "{encoded:?}");
    }

    /// A TCKEYCONF: what comes before the operations, up to nine pairs of operation and length, the
    /// checkpoint's low word.
    #[inline]
    pub fn confirm(&mut self, receiver: u16, head: [u32; 5], operations: &[[u32; 2]], last: u32) {
        let length = 6 + 2 * operations.len();
        self.signals.packet(gsn::TCKEYCONF, COORDINATOR, receiver, length);
        self.signals.words.extend_from_slice(&head);
        self.signals.words.extend_from_slice(operations.as_flattened());
        self.signals.words.push(last);
    }

    /// A row.
    #[inline]
    pub fn row(&mut self, receiver: u16, operation: u32, transid: TransId, attributes: &[u32]) {
        let head = [operation, transid[0], transid[1]];
        if attributes.len() <= PACKED_ROW {
            self.rows.packet(gsn::TRANSID_AI, READER, receiver, 3 + attributes.len());
            self.rows.words.extend_from_slice(&head);
            self.rows.words.extend_from_slice(attributes);
        } else {
            self.long_row(receiver, head, attributes);
        }
    }

    fn long_row(&mut self, receiver: u16, head: [u32; 3], attributes: &[u32]) {
        self.rows.close(gsn::TRANSID_AI, READER);
        let header = Header { gsn: gsn::TRANSID_AI, receiver, sender: READER };
        let words = &mut self.rows.words;
        if attributes.len() <= SHORT_ROW {
            let data = 3 + attributes.len();
            words.extend(header_words(header, Fragment::Whole, data, 0, 3 + data));
            words.extend_from_slice(&head);
            words.extend_from_slice(attributes);
        } else if attributes.len() <= WHOLE_SIGNAL {
            append(words, header, Fragment::Whole, &head, attributes);
        } else {
            self.fragments = self.fragments.wrapping_add(1);
            let data = [head[0], head[1], head[2], 0, self.fragments];
            let pieces = attributes.chunks(FRAGMENT_WORDS);
            let last = pieces.len() - 1;
            for (at, piece) in pieces.enumerate() {
                let fragment = if at == 0 { Fragment::First } else { Fragment::Middle };
                let fragment = if at == last { Fragment::Last } else { fragment };
                append(&mut self.rows.words, header, fragment, &data, piece);
            }
        }
    }
}

/// Appends a message with one section.
fn append(words: &mut Vec<u32>, header: Header, fragment: Fragment, data: &[u32], section: &[u32]) {
    words.extend(header_words(header, fragment, data.len(), 1, 4 + data.len() + section.len()));
    words.extend_from_slice(data);
    words.push(section.len() as u32);
    words.extend_from_slice(section);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fragment::Assembler;
    use crate::wire::packed::Packets;
    use crate::wire::signal::{decode, message_length};
    use proptest::prelude::*;

    fn messages(words: &[u32]) -> Vec<&[u32]> {
        let mut rest = words;
        let mut found = Vec::new();
        while let Some(&first) = rest.first() {
            let (message, after) = rest.split_at(message_length(first).unwrap());
            found.push(message);
            rest = after;
        }
        found
    }

    proptest! {
        #[test]
        fn every_row_arrives(lengths in prop::collection::vec(
            prop_oneof![0usize..26, 7390usize..7410], 1..8,
        )) {
            let mut out = Outgoing::default();
            for (at, &length) in lengths.iter().enumerate() {
                out.row(0x8000, at as u32 * 2, [1, 2], &vec![at as u32; length]);
            }
            let (signals, rows) = out.close();
            prop_assert!(signals.is_empty());
            let mut found = Vec::new();
            let mut assembler = Assembler::new();
            for message in messages(rows) {
                let signal = decode(message).unwrap();
                prop_assert!(signal.data.len() + signal.sections().len() <= MAX_DATA);
                if signal.header.receiver == API_PACKED {
                    found.extend(Packets::new(signal.data).map(|packet| packet.unwrap().1[3..].to_vec()));
                } else if let Some(whole) = assembler.add(&signal).unwrap() {
                    let section = whole.sections.into_iter().next();
                    found.push(section.unwrap_or_else(|| whole.data[3..].to_vec()));
                }
            }
            let expected: Vec<_> = lengths.iter().enumerate().map(|(at, &l)| vec![at as u32; l]).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn signals_keep_their_order() {
        let mut out = Outgoing::default();
        out.confirm(0x8000, [8, 0, 1 << 16 | 1, 1, 2], &[[16, 0]], 0);
        out.coordinator(gsn::TCROLLBACKREP, 0x8000, &[8, 1, 2, 266, 0]);
        out.confirm(0x8000, [10, 0, 1 << 16 | 1, 1, 2], &[[18, 0]], 0);
        let (signals, _) = out.close();
        let numbers: Vec<_> = messages(signals).iter().map(|m| decode(m).unwrap().header.gsn).collect();
        assert_eq!(numbers, [gsn::TCKEYCONF, gsn::TCROLLBACKREP, gsn::TCKEYCONF]);
    }
}
