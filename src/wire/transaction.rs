//! The coordinator's signals for transactions and key operations: what a client sends to DBTC and what comes
//! back. Source: storage/ndb/include/kernel/signaldata/{TcKeyReq,TcKeyConf,TcKeyRef,TcCommit,TcRollbackRep,
//! TcKeyFailConf,TcHbRep}.hpp, src/kernel/blocks/dbtc/DbtcMain.cpp.
//!
//! Decoders take the data words of a signal, plain or from a carrier; words that newer nodes append are
//! ignored. Every reply repeats the transaction id: a caller compares it before it believes the rest.

pub mod key_request;
mod request_info;

pub use request_info::{AbortOption, LockMode, RequestInfo, WriteKind};

use super::signal::{self, Fragment, Header, MAX_DATA, Signal};
use super::{NodeId, gsn};
use crate::error::own;

/// A transaction's id as it travels: low word first.
pub type TransId = [u32; 2];

/// The bit of client and operation ids that replies use as a flag: ids must be even.
pub const ID_FLAG: u32 = 1;

/// Appends a TCSEIZEREQ: gives the client a coordinator record. Goes to [`super::block::DBTC`]; `client` is
/// even and names the record in every reply, `own` is the client's block reference, `instance` 0 leaves the
/// choice to the node.
#[inline]
pub fn seize(out: &mut Vec<u32>, receiver: u16, sender: u16, client: u32, own: u32, instance: u32) {
    short(out, gsn::TCSEIZEREQ, receiver, sender, [client, own, instance]);
}

/// Appends a TCRELEASEREQ. Only for a record whose last transaction has had its final reply: of a busy record
/// the final reply and its acknowledgement would be lost.
#[inline]
pub fn release(out: &mut Vec<u32>, receiver: u16, sender: u16, connect: u32, own: u32, client: u32) {
    short(out, gsn::TCRELEASEREQ, receiver, sender, [connect, own, client]);
}

/// Appends a TC_COMMITREQ, for a transaction with no operation outstanding.
#[inline]
pub fn commit(out: &mut Vec<u32>, receiver: u16, sender: u16, connect: u32, transid: TransId) {
    short(out, gsn::TC_COMMITREQ, receiver, sender, [connect, transid[0], transid[1]]);
}

/// Appends a TCROLLBACKREQ. `unanswered` tells the node that the client gave up waiting for it.
#[inline]
pub fn rollback(
    out: &mut Vec<u32>,
    receiver: u16,
    sender: u16,
    connect: u32,
    transid: TransId,
    unanswered: bool,
) {
    match unanswered {
        false => short(out, gsn::TCROLLBACKREQ, receiver, sender, [connect, transid[0], transid[1]]),
        true => short(out, gsn::TCROLLBACKREQ, receiver, sender, [connect, transid[0], transid[1], 1]),
    }
}

/// Appends a TC_COMMIT_ACK: the nodes forget the transaction. Goes to the sender of the reply that asked for
/// it, also when that reply is otherwise too late to matter.
#[inline]
pub fn commit_ack(out: &mut Vec<u32>, receiver: u16, sender: u16, transid: TransId) {
    short(out, gsn::TC_COMMIT_ACK, receiver, sender, transid);
}

/// Appends a TC_HBREP: an idle transaction's inactivity timer starts again. There is no reply.
#[inline]
pub fn heartbeat(out: &mut Vec<u32>, receiver: u16, sender: u16, connect: u32, transid: TransId) {
    short(out, gsn::TC_HBREP, receiver, sender, [connect, transid[0], transid[1]]);
}

/// A signal of a few data words: the limits hold by its type, so it cannot fail.
#[inline]
fn short<const N: usize>(out: &mut Vec<u32>, gsn: u16, receiver: u16, sender: u16, data: [u32; N]) {
    const { assert!(N > 0 && N <= MAX_DATA) };
    let header = Header { gsn, receiver, sender };
    out.extend(signal::header_words(header, Fragment::Whole, N, 0, 3 + N));
    out.extend(data);
}

/// A field of a reply, taken from the front of its words.
trait Take: Sized {
    fn take(words: &mut &[u32]) -> Option<Self>;
}

impl Take for u32 {
    #[inline]
    fn take(words: &mut &[u32]) -> Option<Self> {
        words.split_off_first().copied()
    }
}

impl Take for TransId {
    #[inline]
    fn take(words: &mut &[u32]) -> Option<Self> {
        Some([u32::take(words)?, u32::take(words)?])
    }
}

/// An error code. One that no node gives (0, or one of the library's) must not pass for what it is not.
impl Take for i32 {
    #[inline]
    fn take(words: &mut &[u32]) -> Option<Self> {
        let code = i32::try_from(u32::take(words)?).unwrap_or(0);
        Some(if code > 0 { code } else { own::MALFORMED_REPLY })
    }
}

/// An id and the flag in its lowest bit.
impl Take for (u32, bool) {
    #[inline]
    fn take(words: &mut &[u32]) -> Option<Self> {
        let word = u32::take(words)?;
        Some((word & !ID_FLAG, word & ID_FLAG != 0))
    }
}

macro_rules! replies {
    ($($(#[$about:meta])* $name:ident { $($(#[$field_about:meta])* $field:ident: $kind:ty,)* })*) => { $(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name { $($(#[$field_about])* pub $field: $kind,)* }

        impl $name {
            /// Reads the data words; `None` if there are too few.
            #[inline]
            pub fn decode(mut data: &[u32]) -> Option<Self> {
                Some($name { $($field: Take::take(&mut data)?,)* })
            }
        }
    )* };
}

replies! {
    /// TCSEIZECONF: a coordinator record is the client's.
    SeizeConf {
        /// The id the client gave.
        client: u32,
        /// The node's name of the record: first word of every request for it.
        connect: u32,
        /// The coordinator instance all requests for the record go to.
        reference: u32,
    }
    /// TCSEIZEREF: no record.
    SeizeRef {
        /// The id the client gave.
        client: u32,
        /// Why.
        error: i32,
    }
    /// TCRELEASECONF: the record is the node's again.
    ReleaseConf {
        /// The id the client gave.
        client: u32,
    }
    /// TCRELEASEREF: the record was not released.
    ReleaseRef {
        /// The id the client gave.
        client: u32,
        /// Why.
        error: i32,
    }
    /// TCKEYREF: one operation failed; the transaction goes on. Also the answer of the reading node to a
    /// committed read of a missing row.
    KeyRef {
        /// The operation.
        operation: u32,
        /// Its transaction.
        transid: TransId,
        /// Why.
        error: i32,
        /// The index or foreign key, for errors 255, 256 and 893 only; stale otherwise.
        data: u32,
    }
    /// TCROLLBACKREP: the node has aborted the transaction.
    RollbackRep {
        /// The id of the record, as the client gave it.
        client: u32,
        /// The transaction.
        transid: TransId,
        /// Why.
        error: i32,
        /// As in [`KeyRef`].
        data: u32,
    }
    /// TC_COMMITCONF: committed.
    CommitConf {
        /// The id of the record, as the client gave it, and whether a TC_COMMIT_ACK is due.
        client: (u32, bool),
        /// The transaction.
        transid: TransId,
        /// Global checkpoint, high word.
        gci_hi: u32,
        /// Global checkpoint, low word.
        gci_lo: u32,
    }
    /// TC_COMMITREF: not committed, the transaction is over.
    CommitRef {
        /// The id of the record, as the client gave it.
        client: u32,
        /// The transaction.
        transid: TransId,
        /// Why.
        error: i32,
    }
    /// TCROLLBACKCONF: rolled back.
    RollbackConf {
        /// The id of the record, as the client gave it.
        client: u32,
        /// The transaction.
        transid: TransId,
    }
    /// TCROLLBACKREF: too late, a commit is under way: its reply is still to come.
    RollbackRef {
        /// The id of the record, as the client gave it.
        client: u32,
        /// The transaction.
        transid: TransId,
        /// Why.
        error: i32,
    }
    /// TCKEY_FAILCONF: the coordinator's node failed, and another has committed the transaction.
    FailConf {
        /// One of the transaction's operations, and whether a TC_COMMIT_ACK is due.
        operation: (u32, bool),
        /// The transaction.
        transid: TransId,
    }
    /// TCKEY_FAILREF: the coordinator's node failed, and another has aborted the transaction.
    FailRef {
        /// One of the transaction's operations.
        operation: u32,
        /// The transaction.
        transid: TransId,
    }
}

/// TCKEYCONF: some operations are done, perhaps the commit too. At most three operations come in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyConf<'a> {
    /// The id of the record, as the client gave it.
    pub client: u32,
    /// The transaction.
    pub transid: TransId,
    /// The transaction is committed.
    pub commit: bool,
    /// A TC_COMMIT_ACK is due.
    pub acknowledge: bool,
    /// Global checkpoint, high word; 0 before the commit.
    pub gci_hi: u32,
    /// Global checkpoint, low word.
    pub gci_lo: u32,
    operations: &'a [u32],
}

/// What a TCKEYCONF says about the row of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttrInfo {
    /// This many words come in TRANSID_AI; none for most writes.
    Words(u32),
    /// A committed read, done by this node: it sends either TRANSID_AI or TCKEYREF.
    ReadBy(NodeId),
}

impl<'a> KeyConf<'a> {
    /// Reads the data words; `None` if their number does not match the number of operations.
    #[inline]
    pub fn decode(data: &'a [u32]) -> Option<Self> {
        let [client, gci_hi, info, transid1, transid2, ref operations @ .., gci_lo] = *data else {
            return None;
        };
        if operations.len() != 2 * (info & 0xffff) as usize {
            return None;
        }
        let commit = info & 1 << 16 != 0;
        // The marker bit means nothing in a confirmation without commit.
        let acknowledge = commit && info & 1 << 17 != 0;
        Some(KeyConf {
            client,
            transid: [transid1, transid2],
            commit,
            acknowledge,
            gci_hi,
            gci_lo,
            operations,
        })
    }

    /// The operations that are done: their ids, and what is known of their rows.
    #[inline]
    pub fn operations(&self) -> impl ExactSizeIterator<Item = (u32, AttrInfo)> + use<'a> {
        self.operations.as_chunks::<2>().0.iter().map(|&[operation, info]| match info >> 31 {
            0 => (operation, AttrInfo::Words(info)),
            _ => (operation, AttrInfo::ReadBy(info as NodeId)),
        })
    }
}

/// TRANSID_AI: a row, or a part of one, from the node that read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// The operation that asked for it.
    pub operation: u32,
    /// Its transaction.
    pub transid: TransId,
    /// The attributes: see [`super::attribute`].
    pub attributes: &'a [u32],
}

impl<'a> Row<'a> {
    /// Reads the data words of a short TRANSID_AI, plain or from a carrier.
    #[inline]
    pub fn decode(data: &'a [u32]) -> Option<Self> {
        let [operation, transid1, transid2, ref attributes @ ..] = *data else { return None };
        Some(Row { operation, transid: [transid1, transid2], attributes })
    }
}

/// Reads a TRANSID_AI that is no carrier: short, or long with the attributes in section 0.
#[inline]
pub fn row_of<'a>(signal: &Signal<'a>) -> Option<Row<'a>> {
    let row = Row::decode(signal.data)?;
    match *signal.sections() {
        [] => Some(row),
        [attributes] if row.attributes.is_empty() => Some(Row { attributes, ..row }),
        _ => None,
    }
}

/// The transaction that a reply wants to be acknowledged with TC_COMMIT_ACK, if it does.
pub fn acknowledgement_due(signal: &Signal<'_>) -> Option<TransId> {
    match signal.header.gsn {
        gsn::TCKEYCONF => KeyConf::decode(signal.data).filter(|c| c.acknowledge).map(|c| c.transid),
        gsn::TC_COMMITCONF => CommitConf::decode(signal.data).filter(|c| c.client.1).map(|c| c.transid),
        gsn::TCKEY_FAILCONF => FailConf::decode(signal.data).filter(|c| c.operation.1).map(|c| c.transid),
        _ => None,
    }
}

/// How much a reply ends of its transaction at the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Nothing: more comes.
    Part,
    /// The node has aborted it. Nothing more comes unless TCROLLBACKREQ is out, which is answered too.
    Aborted,
    /// All: the record is free.
    Whole,
}

impl Ending {
    /// Whether nothing more comes; `rolling_back` says whether TCROLLBACKREQ is out.
    pub fn is_last(self, rolling_back: bool) -> bool {
        match self {
            Ending::Part => false,
            Ending::Aborted => !rolling_back,
            Ending::Whole => true,
        }
    }
}

/// Of a reply about a record: the id that the client gave the record, the transaction, and how much it ends.
pub fn ending_of(signal: &Signal<'_>) -> Option<(u32, TransId, Ending)> {
    let data = signal.data;
    Some(match signal.header.gsn {
        gsn::TCKEYCONF => {
            let conf = KeyConf::decode(data)?;
            (conf.client, conf.transid, if conf.commit { Ending::Whole } else { Ending::Part })
        }
        gsn::TC_COMMITCONF => CommitConf::decode(data).map(|c| (c.client.0, c.transid, Ending::Whole))?,
        gsn::TC_COMMITREF => CommitRef::decode(data).map(|c| (c.client, c.transid, Ending::Whole))?,
        gsn::TCROLLBACKCONF => RollbackConf::decode(data).map(|c| (c.client, c.transid, Ending::Whole))?,
        gsn::TCROLLBACKREP => RollbackRep::decode(data).map(|c| (c.client, c.transid, Ending::Aborted))?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::signal::decode;
    use proptest::prelude::*;

    #[test]
    fn short_requests_are_whole_signals() {
        let mut out = Vec::new();
        type Encoder = fn(&mut Vec<u32>);
        let cases: [(Encoder, u16, &[u32]); 7] = [
            (|o| seize(o, 245, 0x8003, 0x1000, 0x8003_0033, 0), gsn::TCSEIZEREQ, &[0x1000, 0x8003_0033, 0]),
            (|o| release(o, 245, 0x8003, 112, 7, 0x1000), gsn::TCRELEASEREQ, &[112, 7, 0x1000]),
            (|o| commit(o, 245, 0x8003, 112, [1, 2]), gsn::TC_COMMITREQ, &[112, 1, 2]),
            (|o| rollback(o, 245, 0x8003, 112, [1, 2], false), gsn::TCROLLBACKREQ, &[112, 1, 2]),
            (|o| rollback(o, 245, 0x8003, 112, [1, 2], true), gsn::TCROLLBACKREQ, &[112, 1, 2, 1]),
            (|o| commit_ack(o, 245, 0x8003, [1, 2]), gsn::TC_COMMIT_ACK, &[1, 2]),
            (|o| heartbeat(o, 245, 0x8003, 112, [1, 2]), gsn::TC_HBREP, &[112, 1, 2]),
        ];
        for (encode, gsn, data) in cases {
            out.clear();
            encode(&mut out);
            let signal = decode(&out).unwrap();
            assert_eq!(signal.header, Header { gsn, receiver: 245, sender: 0x8003 });
            assert_eq!((signal.data, signal.sections()), (data, &[][..]));
        }
    }

    #[test]
    fn confirmation_must_match_its_count() {
        let words = [8, 11, 0x1_0002, 1, 2, 0x10008, 5, 0x1000c, 0x8000_0002, 9];
        let conf = KeyConf::decode(&words).unwrap();
        assert!(conf.commit && !conf.acknowledge);
        assert_eq!((conf.gci_hi, conf.gci_lo), (11, 9));
        let operations: Vec<_> = conf.operations().collect();
        assert_eq!(operations, [(0x10008, AttrInfo::Words(5)), (0x1000c, AttrInfo::ReadBy(2))]);
        for length in 0..words.len() {
            assert_eq!(KeyConf::decode(&words[..length]), None);
        }
        for count in [0, 1, 3, 0xffff] {
            let mut wrong = words;
            wrong[2] = count;
            assert_eq!(KeyConf::decode(&wrong), None);
        }
    }

    #[test]
    fn marker_counts_only_with_the_commit() {
        let partial = KeyConf::decode(&[8, 0, 0x2_0000, 1, 2, 0]).unwrap();
        assert!(!partial.commit && !partial.acknowledge);
        let last = KeyConf::decode(&[8, 0, 0x3_0000, 1, 2, 0]).unwrap();
        assert!(last.commit && last.acknowledge);
    }

    #[test]
    fn flags_are_taken_out_of_ids() {
        assert_eq!(CommitConf::decode(&[0x1001, 1, 2, 3, 4]).unwrap().client, (0x1000, true));
        assert_eq!(FailConf::decode(&[0x1000, 1, 2]).unwrap().operation, (0x1000, false));
    }

    #[test]
    fn an_error_of_no_node_is_malformed() {
        for word in [0, 0x8000_0000, 0xffff_ffff] {
            assert_eq!(KeyRef::decode(&[8, 1, 2, word, 0]).unwrap().error, own::MALFORMED_REPLY);
        }
        assert_eq!(KeyRef::decode(&[8, 1, 2, 626, 0]).unwrap().error, 626);
    }

    #[test]
    fn a_long_row_has_its_attributes_in_one_section() {
        let header = Header { gsn: gsn::TRANSID_AI, receiver: 0x8000, sender: 249 };
        let row = |data: &[u32], sections: &[&[u32]]| {
            let mut out = Vec::new();
            signal::encode(&mut out, header, data, sections).unwrap();
            row_of(&decode(&out).unwrap()).map(|row| (row.operation, row.transid, row.attributes.to_vec()))
        };
        assert_eq!(row(&[8, 1, 2, 3, 4], &[]), Some((8, [1, 2], vec![3, 4])));
        assert_eq!(row(&[8, 1, 2], &[&[5, 6]]), Some((8, [1, 2], vec![5, 6])));
        assert_eq!(row(&[8, 1, 2, 3], &[&[5, 6]]), None);
        assert_eq!(row(&[8, 1, 2], &[&[5], &[6]]), None);
        assert_eq!(row(&[8, 1], &[&[5]]), None);
    }

    proptest! {
        #[test]
        fn any_words_decode_or_are_refused(words in prop::collection::vec(any::<u32>(), 0..30)) {
            if let Some(conf) = KeyConf::decode(&words) {
                prop_assert_eq!(6 + 2 * conf.operations().len(), words.len());
            }
            prop_assert_eq!(Row::decode(&words).is_some(), words.len() >= 3);
            prop_assert_eq!(SeizeConf::decode(&words).is_some(), words.len() >= 3);
            prop_assert_eq!(SeizeRef::decode(&words).is_some(), words.len() >= 2);
            prop_assert_eq!(ReleaseConf::decode(&words).is_some(), !words.is_empty());
            prop_assert_eq!(ReleaseRef::decode(&words).is_some(), words.len() >= 2);
            prop_assert_eq!(KeyRef::decode(&words).is_some(), words.len() >= 5);
            prop_assert_eq!(RollbackRep::decode(&words).is_some(), words.len() >= 5);
            prop_assert_eq!(CommitConf::decode(&words).is_some(), words.len() >= 5);
            prop_assert_eq!(CommitRef::decode(&words).is_some(), words.len() >= 4);
            prop_assert_eq!(RollbackConf::decode(&words).is_some(), words.len() >= 3);
            prop_assert_eq!(RollbackRef::decode(&words).is_some(), words.len() >= 4);
            prop_assert_eq!(FailConf::decode(&words).is_some(), words.len() >= 3);
            prop_assert_eq!(FailRef::decode(&words).is_some(), words.len() >= 3);
        }
    }
}
