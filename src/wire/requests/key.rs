//! TCKEYREQ as a coordinator reads it. Sources: storage/ndb/include/kernel/signaldata/TcKeyReq.hpp,
//! src/kernel/blocks/dbtc/DbtcMain.cpp (execTCKEYREQ), src/kernel/blocks/dblqh/DblqhMain.cpp.

use super::Fault;
use crate::wire::signal::Signal;
use crate::wire::transaction::{ID_FLAG, TransId, key_request::MAX_KEY_WORDS};

const DIRTY: u32 = 1 << 0;
const DISTRIBUTION: u32 = 1 << 2;
const VIA_SPJ: u32 = 1 << 3;
const COMMIT: u32 = 1 << 4;
const SIMPLE: u32 = 1 << 8;
const EXECUTE: u32 = 1 << 10;
const START: u32 = 1 << 11;
const SCAN: u32 = 1 << 14;
const INTERPRETED: u32 = 1 << 15;
const NO_WAIT: u32 = 1 << 21;

/// The longest ATTRINFO: what a node's row buffer holds.
const MAX_ATTRINFO: usize = 16384;

/// What an operation does. The numbers are NDB's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reads a row.
    Read,
    /// Changes a row that must be there.
    Update,
    /// Makes a row that must not be there.
    Insert,
    /// Removes a row that must be there.
    Delete,
    /// Makes the row or changes it.
    Write,
    /// Reads a row and locks it for itself.
    ReadExclusive,
    /// Reports a row as changed.
    Refresh,
    /// Frees one lock.
    Unlock,
}

/// Word 4 of TCKEYREQ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info(u32);

impl Info {
    /// What to do.
    #[inline]
    pub fn kind(self) -> Kind {
        match self.0 >> 5 & 7 {
            0 => Kind::Read,
            1 => Kind::Update,
            2 => Kind::Insert,
            3 => Kind::Delete,
            4 => Kind::Write,
            5 => Kind::ReadExclusive,
            6 => Kind::Refresh,
            _ => Kind::Unlock,
        }
    }

    /// A committed read: no lock.
    #[inline]
    pub fn committed_read(self) -> bool {
        self.0 & DIRTY != 0
    }

    /// The lock is freed at once.
    #[inline]
    pub fn simple(self) -> bool {
        self.0 & SIMPLE != 0
    }

    /// The first operation of its transaction.
    #[inline]
    pub fn start(self) -> bool {
        self.0 & START != 0
    }

    /// The last operation of its batch.
    #[inline]
    pub fn execute(self) -> bool {
        self.0 & EXECUTE != 0
    }

    /// The commit rides on it.
    #[inline]
    pub fn commit(self) -> bool {
        self.0 & COMMIT != 0
    }

    /// The operation's failure leaves the transaction alone.
    #[inline]
    pub fn ignore_error(self) -> bool {
        self.0 >> 12 & 3 == 2
    }

    /// It fails rather than wait for a lock.
    #[inline]
    pub fn no_wait(self) -> bool {
        self.0 & NO_WAIT != 0
    }

    /// It carries a program.
    #[inline]
    pub fn interpreted(self) -> bool {
        self.0 & INTERPRETED != 0
    }

    /// It is part of a pushed join or takes a lock over from a scan.
    pub fn of_scan(self) -> bool {
        self.0 & (SCAN | VIA_SPJ) != 0
    }

    fn check(self) -> Result<(), Fault> {
        let read = matches!(self.kind(), Kind::Read | Kind::ReadExclusive);
        let faults = [
            (self.0 & DIRTY != 0 && self.0 & SIMPLE == 0, "TCKEYREQ: dirty without simple"),
            (
                self.0 & SIMPLE != 0 && self.kind() != Kind::Read,
                "TCKEYREQ: a simple operation that is no read",
            ),
            (self.commit() && !self.execute(), "TCKEYREQ: commit without execute"),
            (self.no_wait() && !read, "TCKEYREQ: no wait on a write"),
            (self.0 & SIMPLE != 0 && !self.ignore_error(), "TCKEYREQ: a simple read that aborts on error"),
        ];
        match faults.into_iter().find(|(found, _)| *found) {
            Some((_, fault)) => Err(Fault(fault)),
            None => Ok(()),
        }
    }
}

/// One TCKEYREQ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRequest<'a> {
    /// The coordinator record.
    pub connect: u32,
    /// The operation's id.
    pub operation: u32,
    /// The table.
    pub table: u32,
    /// Its version.
    pub version: u32,
    /// What to do and how.
    pub info: Info,
    /// The transaction.
    pub transid: TransId,
    /// A fragment chosen by the client.
    pub distribution: Option<u32>,
    /// The key's columns.
    pub key: &'a [u32],
    /// What to read or write.
    pub attributes: &'a [u32],
}

impl<'a> KeyRequest<'a> {
    /// Reads a whole signal.
    #[inline]
    pub fn decode(signal: &Signal<'a>) -> Result<Self, Fault> {
        let (key, attributes): (&[u32], &[u32]) = match *signal.sections() {
            [key] => (key, &[]),
            [key, attributes] => (key, attributes),
            _ => return Err(Fault("TCKEYREQ without KEYINFO, or with more than two sections")),
        };
        KeyRequest::of_parts(signal.data, key, attributes)
    }

    /// Reads a signal by its parts, as a signal is that came in fragments.
    #[inline]
    pub fn of_parts(data: &[u32], key: &'a [u32], attributes: &'a [u32]) -> Result<Self, Fault> {
        let [connect, operation, length, table, info, version, a, b, ref rest @ ..] = *data else {
            return Err(Fault("a short TCKEYREQ"));
        };
        let optional = (info & SCAN != 0) as usize + (info & DISTRIBUTION != 0) as usize;
        if rest.len() != optional {
            return Err(Fault("TCKEYREQ whose length is not the one that its flags give"));
        }
        if length != 0 {
            return Err(Fault("TCKEYREQ in the short form, or with an attribute length"));
        }
        if operation & ID_FLAG != 0 {
            return Err(Fault("TCKEYREQ with an odd operation id"));
        }
        if key.is_empty() || key.len() > MAX_KEY_WORDS || attributes.len() > MAX_ATTRINFO {
            return Err(Fault("TCKEYREQ with a section that is empty or too long"));
        }
        let info = Info(info);
        info.check()?;
        let distribution = if info.0 & DISTRIBUTION != 0 { rest.last().copied() } else { None };
        let transid = [a, b];
        Ok(KeyRequest { connect, operation, table, version, info, transid, distribution, key, attributes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::block::DBTC;
    use crate::wire::gsn;
    use crate::wire::signal::{Header, decode, encode};
    use crate::wire::transaction::{
        AbortOption, LockMode, RequestInfo, WriteKind, key_request as encoder, key_request::Operation,
    };
    use proptest::prelude::*;

    fn encoded(info: RequestInfo, key: &[u32], attributes: &[u32]) -> Vec<u32> {
        let mut out = Vec::new();
        let operation = Operation { id: 8, table: 4, version: 1, info };
        encoder::begin(&mut out, 0x8000, operation, !attributes.is_empty());
        out.extend(key);
        out.extend(attributes);
        encoder::finish(&mut out, key.len()).unwrap();
        encoder::address(&mut out, DBTC, 3, [5, 6], info);
        out
    }

    #[test]
    fn what_the_client_encodes_is_read() {
        let info = RequestInfo::write(WriteKind::Insert, AbortOption::AbortOnError).start();
        let words = encoded(info.execute_and_commit(), &[10], &[4, 10]);
        let request = KeyRequest::decode(&decode(&words).unwrap()).unwrap();
        assert_eq!((request.connect, request.operation, request.table, request.version), (3, 8, 4, 1));
        assert_eq!((request.transid, request.key, request.attributes), ([5, 6], &[10][..], &[4, 10][..]));
        let info = request.info;
        assert_eq!(info.kind(), Kind::Insert);
        assert!(info.start() && info.execute() && info.commit() && !info.ignore_error());
        let words = encoded(RequestInfo::read(LockMode::Committed), &[10], &[0]);
        let info = KeyRequest::decode(&decode(&words).unwrap()).unwrap().info;
        assert!(info.committed_read() && info.simple() && info.ignore_error() && !info.start());
    }

    #[test]
    fn what_stops_a_node_is_refused() {
        let good = [3, 8, 0, 4, 0x2d13, 1, 5, 6];
        let read = |data: &[u32], key: &[u32]| KeyRequest::of_parts(data, key, &[]).is_ok();
        assert!(read(&good, &[1]));
        assert!(!read(&good, &[]) && !read(&good, &[0; MAX_KEY_WORDS + 1]) && !read(&good[..7], &[1]));
        for (word, value) in
            [(1, 9), (2, 1), (4, 0x2c11), (4, 0x2910), (4, 0x20_2020), (4, 0x2123), (4, 0x101)]
        {
            let mut wrong = good;
            wrong[word] = value;
            assert!(!read(&wrong, &[1]), "{value:x} in word {word}");
        }
        let mut with_fragment = good.to_vec();
        with_fragment[4] |= DISTRIBUTION;
        assert!(!read(&with_fragment, &[1]));
        with_fragment.push(7);
        assert_eq!(KeyRequest::of_parts(&with_fragment, &[1], &[]).unwrap().distribution, Some(7));
    }

    proptest! {
        #[test]
        fn any_signal_is_read_or_refused(
            data in prop::collection::vec(any::<u32>(), 1..14),
            sections in prop::collection::vec(prop::collection::vec(any::<u32>(), 1..4), 0..3),
        ) {
            let mut out = Vec::new();
            let sections: Vec<_> = sections.iter().map(|s| &s[..]).collect();
            let header = Header { gsn: gsn::TCKEYREQ, receiver: DBTC, sender: 0x8000 };
            encode(&mut out, header, &data, &sections).unwrap();
            let _ = KeyRequest::decode(&decode(&out).unwrap());
        }

        #[test]
        fn any_client_request_is_read(bits in 0u32..8, key in prop::collection::vec(any::<u32>(), 1..9)) {
            let modes = [LockMode::Committed, LockMode::Simple, LockMode::Shared(AbortOption::IgnoreError)];
            let mut info = RequestInfo::read(modes[bits as usize % 3]).no_disk();
            if bits & 4 != 0 {
                info = info.start().execute();
            }
            let words = encoded(info, &key, &[0]);
            prop_assert_eq!(KeyRequest::decode(&decode(&words).unwrap()).unwrap().key, &key[..]);
        }
    }
}
