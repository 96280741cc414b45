//! TCKEYREQ, held as a complete message that is packed once and then patched: a client knows the operation
//! when it is defined, but its coordinator record and its place in the transaction only when it is sent.
//! Source: storage/ndb/include/kernel/signaldata/TcKeyReq.hpp.
//!
//! [`begin`], append KEYINFO and ATTRINFO, [`finish`], then [`address`] as often as needed.

use super::{ID_FLAG, RequestInfo, TransId};
use crate::wire::gsn;
use crate::wire::signal::{EncodeError, Fragment, Header, MAX_MESSAGE, header_words};

/// Message word with the receiver (high half) and the sender (low half).
pub const BLOCKS: usize = 2;
/// Message word with the coordinator record.
pub const CONNECT: usize = 3;
/// Message word with the operation id.
pub const OPERATION: usize = 4;
/// Message word with the table id.
pub const TABLE: usize = 6;
/// Message word with the request information.
pub const INFO: usize = 7;
/// Message word with the table version.
pub const VERSION: usize = 8;
/// First of the two message words with the transaction id.
pub const TRANSID: usize = 9;
/// First of the section lengths; the sections follow them.
pub const SECTION_LENGTHS: usize = 11;
/// A longer key is no node's.
pub const MAX_KEY_WORDS: usize = 1023;

const DATA_WORDS: usize = SECTION_LENGTHS - CONNECT;

/// What a request says whatever transaction it joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Returned in every reply; even.
    pub id: u32,
    /// The table's id: only one that the dictionary of these very nodes gave, or the coordinator's node may
    /// stop.
    pub table: u32,
    /// The table's version, from the same definition.
    pub version: u32,
    /// What to do.
    pub info: RequestInfo,
}

/// Makes `out` the beginning of a request from the block `sender`. The caller appends KEYINFO and, as
/// announced, ATTRINFO.
#[inline]
pub fn begin(out: &mut Vec<u32>, sender: u16, operation: Operation, has_attrinfo: bool) {
    let sections = 1 + has_attrinfo as usize;
    let header = Header { gsn: gsn::TCKEYREQ, receiver: 0, sender };
    let Operation { id, table, version, info } = operation;
    out.clear();
    out.extend(header_words(header, Fragment::Whole, DATA_WORDS, sections, 0));
    out.extend([0, id, 0, table, info.bits(), version, 0, 0]);
    out.extend(&[0, 0][..sections]);
}

/// Completes what [`begin`] began: the first `key_words` of what was appended are KEYINFO, the rest is
/// ATTRINFO.
#[inline]
pub fn finish(out: &mut [u32], key_words: usize) -> Result<(), EncodeError> {
    let length = out.len();
    let Some(fixed) = out.first_chunk_mut::<{ SECTION_LENGTHS + 1 }>() else { return Err(EncodeError::Data) };
    let has_attrinfo = fixed[1] >> 26 & 3 == 2;
    let before = key_words.saturating_add(SECTION_LENGTHS + 1 + has_attrinfo as usize);
    let attr_words = length.checked_sub(before).ok_or(EncodeError::Sections)?;
    if fixed[OPERATION] & ID_FLAG != 0 {
        return Err(EncodeError::Data);
    }
    if key_words == 0 || has_attrinfo != (attr_words > 0) {
        return Err(EncodeError::Sections);
    }
    if key_words > MAX_KEY_WORDS || length > MAX_MESSAGE {
        return Err(EncodeError::Length);
    }
    fixed[0] = fixed[0] & !(0xffff << 8) | (length as u32) << 8;
    fixed[SECTION_LENGTHS] = key_words as u32;
    if has_attrinfo && let Some(word) = out.get_mut(SECTION_LENGTHS + 1) {
        *word = attr_words as u32;
    }
    Ok(())
}

/// Directs a finished request at a coordinator record, as part of the transaction `transid`.
#[inline]
pub fn address(message: &mut [u32], receiver: u16, connect: u32, transid: TransId, info: RequestInfo) {
    let Some(fixed) = message.first_chunk_mut::<SECTION_LENGTHS>() else { return };
    fixed[BLOCKS] = fixed[BLOCKS] & 0xffff | (receiver as u32) << 16;
    fixed[CONNECT] = connect;
    fixed[INFO] = info.bits();
    [fixed[TRANSID], fixed[TRANSID + 1]] = transid;
}

/// Changes only the request information of a finished request.
#[inline]
pub fn set_info(message: &mut [u32], info: RequestInfo) {
    if let Some(word) = message.get_mut(INFO) {
        *word = info.bits();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AbortOption, LockMode, WriteKind};
    use super::*;
    use crate::wire::signal::decode;
    use proptest::prelude::*;

    fn insert() -> Operation {
        let info = RequestInfo::write(WriteKind::Insert, AbortOption::AbortOnError);
        Operation { id: 0x10008, table: 4, version: 1, info }
    }

    fn request(key: &[u32], attributes: Option<&[u32]>) -> Result<Vec<u32>, EncodeError> {
        let mut out = vec![7; 3];
        begin(&mut out, 0x8003, insert(), attributes.is_some());
        out.extend(key);
        out.extend(attributes.unwrap_or_default());
        finish(&mut out, key.len()).map(|()| out)
    }

    #[test]
    fn is_what_a_real_client_sends() {
        let attributes = [0x10004, 0xb, 0x20006, 0x6c65_6805, 0x6f6c, 0x30008, 0xffff_fffb, 0xffff_ffff];
        let mut message = request(&[10], Some(&[&[4, 1][..], &attributes].concat())).unwrap();
        let info = insert().info.start().execute_and_commit();
        address(&mut message, 0x2f5, 0x70, [0xd6b30, 0x30_3300], info);
        let signal = decode(&message).unwrap();
        assert_eq!(signal.header, Header { gsn: gsn::TCKEYREQ, receiver: 0x2f5, sender: 0x8003 });
        assert_eq!(signal.data, [0x70, 0x10008, 0, 4, 0xc50, 1, 0xd6b30, 0x30_3300]);
        assert_eq!(signal.sections()[0], [10]);
        assert_eq!(signal.sections()[1][2..], attributes);
        set_info(&mut message, RequestInfo::read(LockMode::Committed));
        assert_eq!(decode(&message).unwrap().data[4], 0x2101);
    }

    #[test]
    fn refuses_what_a_node_stops_for() {
        assert_eq!(request(&[], None), Err(EncodeError::Sections), "no key");
        assert_eq!(request(&[], Some(&[1])), Err(EncodeError::Sections), "no key");
        assert_eq!(request(&[1], Some(&[])), Err(EncodeError::Sections), "empty ATTRINFO");
        assert_eq!(request(&[1; MAX_KEY_WORDS + 1], None), Err(EncodeError::Length));
        assert_eq!(request(&[1], Some(&[1; MAX_MESSAGE - 13])), Err(EncodeError::Length));
        assert!(request(&[1], Some(&[1; MAX_MESSAGE - 14])).is_ok());
        let mut out = Vec::new();
        begin(&mut out, 0x8003, insert(), false);
        out.extend([1, 2]);
        assert_eq!(finish(&mut out, 1), Err(EncodeError::Sections), "ATTRINFO that was not announced");
        assert_eq!(finish(&mut out, 3), Err(EncodeError::Sections), "a key that was not appended");
        assert_eq!(finish(&mut out, usize::MAX), Err(EncodeError::Sections));
        begin(&mut out, 0x8003, Operation { id: 1, ..insert() }, false);
        out.push(1);
        assert_eq!(finish(&mut out, 1), Err(EncodeError::Data), "odd operation id");
        assert_eq!(finish(&mut [0; 4], 1), Err(EncodeError::Data));
        address(&mut [0; 4], 1, 2, [3, 4], insert().info);
    }

    proptest! {
        #[test]
        fn sections_come_back(
            key in prop::collection::vec(any::<u32>(), 1..40),
            attributes in prop::option::of(prop::collection::vec(any::<u32>(), 1..200)),
        ) {
            let message = request(&key, attributes.as_deref()).unwrap();
            let signal = decode(&message).unwrap();
            prop_assert_eq!(signal.sections()[0], &key[..]);
            prop_assert_eq!(signal.sections().get(1).map(|s| s.to_vec()), attributes);
        }
    }
}
