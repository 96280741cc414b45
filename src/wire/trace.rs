//! Signals in words, for a person: NDB's names of signals, blocks and fields. Pure text from words, whatever
//! they are: what cannot be read is said to be so. Field names are those of
//! storage/ndb/include/kernel/signaldata/.

use std::fmt::{self, Write};

use super::signal::{self, Fragment, Signal};
use super::{NodeId, block, gsn, packed};

/// Which way a signal went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From this client to a data node.
    Send,
    /// From a data node to this client.
    Receive,
}

/// Words of a section, or of data without names, that are shown; the rest is counted.
const SHOWN: usize = 24;

/// Appends a line for each signal in `words`, which hold messages to or from `node`. Carriers are unpacked.
/// Whatever the words are, this ends, and says what it could not read.
pub fn describe(out: &mut String, direction: Direction, node: NodeId, words: &[u32]) {
    // Writing to a string cannot fail.
    let _ = messages(out, direction, node, words);
}

fn messages(out: &mut String, direction: Direction, node: NodeId, words: &[u32]) -> fmt::Result {
    let mut rest = words;
    while let Some(&first) = rest.first() {
        let message = signal::message_length(first)
            .and_then(|length| rest.split_at_checked(length).ok_or(signal::FrameError::Length))
            .and_then(|(message, after)| Ok((signal::decode(message)?, after)));
        match message {
            Ok((signal, after)) => {
                one(out, direction, node, &signal)?;
                rest = after;
            }
            Err(error) => {
                start(out, direction, node)?;
                write!(out, "{error}:")?;
                numbers(out, rest)?;
                return writeln!(out);
            }
        }
    }
    Ok(())
}

/// A message: one signal, or a carrier of several.
fn one(out: &mut String, direction: Direction, node: NodeId, signal: &Signal<'_>) -> fmt::Result {
    if signal.header.receiver != block::API_PACKED {
        return line(out, direction, node, signal);
    }
    for packet in packed::Packets::new(signal.data) {
        match packet {
            Ok((receiver, data)) => {
                let header = signal::Header { receiver, ..signal.header };
                line(out, direction, node, &Signal::short(header, data))?;
            }
            Err(packed::PackedError) => {
                start(out, direction, node)?;
                writeln!(out, "{}: a packet longer than its carrier", gsn::name(signal.header.gsn))?;
            }
        }
    }
    Ok(())
}

fn start(out: &mut String, direction: Direction, node: NodeId) -> fmt::Result {
    match direction {
        Direction::Send => write!(out, "SEND to node {node} "),
        Direction::Receive => write!(out, "RECV from node {node} "),
    }
}

fn line(out: &mut String, direction: Direction, node: NodeId, signal: &Signal<'_>) -> fmt::Result {
    start(out, direction, node)?;
    let number = signal.header.gsn;
    match gsn::name(number) {
        "unknown signal" => write!(out, "signal {number}")?,
        name => out.write_str(name)?,
    }
    out.write_char(' ')?;
    block_name(out, signal.header.sender)?;
    out.write_str(" -> ")?;
    block_name(out, signal.header.receiver)?;
    out.write_char(':')?;
    if signal.fragment != Fragment::Whole {
        write!(out, " ({:?} fragment)", signal.fragment)?;
    }
    fields(out, number, signal.data)?;
    for (at, section) in signal.sections().iter().enumerate() {
        write!(out, " {}[{}]=", section_name(number, at), section.len())?;
        numbers(out, section)?;
    }
    writeln!(out)
}

/// A block by its name, with its instance; a client's own by its number.
fn block_name(out: &mut String, number: u16) -> fmt::Result {
    let name = match number & 0x1ff {
        _ if number >= block::MIN_API_BLOCK => return write!(out, "API block {number:#x}"),
        _ if number == block::API_CLUSTERMGR => return out.write_str("API_CLUSTERMGR"),
        _ if number == block::API_PACKED => return out.write_str("API_PACKED"),
        block::DBTC => "DBTC",
        block::DBLQH => "DBLQH",
        block::DBTUP => "DBTUP",
        block::DBDICT => "DBDICT",
        block::QMGR => "QMGR",
        _ => return write!(out, "block {number:#x}"),
    };
    match number >> 9 {
        0 => out.write_str(name),
        instance => write!(out, "{name}/{instance}"),
    }
}

fn section_name(number: u16, at: usize) -> &'static str {
    match (number, at) {
        (gsn::TCKEYREQ, 0) => "KEYINFO",
        (gsn::TCKEYREQ, 1) => "ATTRINFO",
        (gsn::TRANSID_AI, 0) => "attributes",
        (gsn::NODE_FAILREP, 0) => "failedNodes",
        (gsn::GET_TABINFO_CONF | gsn::CREATE_TABLE_REQ, 0) => "dictTabInfo",
        (gsn::GET_TABINFOREQ, 0) => "name",
        _ => "section",
    }
}

/// How a field is shown.
#[derive(Clone, Copy)]
enum Show {
    /// As a decimal number.
    Number,
    /// As a hexadecimal number.
    Hex,
    /// This word and the next, as one transaction id.
    TransId,
    /// As a block reference.
    Reference,
    /// As a version.
    Version,
    /// As request information of TCKEYREQ.
    KeyInfo,
}

use Show::*;

/// The fields of a signal's data words, in their order; what is behind them is shown without names.
fn fields_of(number: u16) -> &'static [(&'static str, Show)] {
    match number {
        gsn::API_REGREQ => &[("ref", Reference), ("version", Version), ("mysqlVersion", Version)],
        gsn::API_REGCONF => &[
            ("qmgrRef", Reference),
            ("version", Version),
            ("apiHeartbeatFrequency", Number),
            ("mysqlVersion", Version),
            ("minDbVersion", Version),
            ("startLevel", Number),
            ("nodeGroup", Hex),
            ("dynamicId", Hex),
        ],
        gsn::API_REGREF => {
            &[("ref", Reference), ("version", Version), ("errorCode", Number), ("mysqlVersion", Version)]
        }
        gsn::TCSEIZEREQ => &[("apiConnectPtr", Hex), ("apiRef", Reference), ("instance", Number)],
        gsn::TCSEIZECONF => &[("apiConnectPtr", Hex), ("tcConnectPtr", Hex), ("tcRef", Reference)],
        gsn::TCSEIZEREF => &[("apiConnectPtr", Hex), ("errorCode", Number)],
        gsn::TCRELEASEREQ => &[("tcConnectPtr", Hex), ("apiRef", Reference), ("apiConnectPtr", Hex)],
        gsn::TCRELEASECONF => &[("apiConnectPtr", Hex)],
        gsn::TCRELEASEREF => &[("apiConnectPtr", Hex), ("errorCode", Number)],
        gsn::TCKEYREQ => &[
            ("apiConnectPtr", Hex),
            ("apiOperationPtr", Hex),
            ("attrLen", Number),
            ("tableId", Number),
            ("requestInfo", KeyInfo),
            ("tableSchemaVersion", Hex),
            ("transId", TransId),
        ],
        gsn::TCKEYREF => {
            &[("apiOperationPtr", Hex), ("transId", TransId), ("errorCode", Number), ("errorData", Hex)]
        }
        gsn::TRANSID_AI => &[("apiOperationPtr", Hex), ("transId", TransId)],
        gsn::TC_COMMITREQ | gsn::TC_HBREP => &[("apiConnectPtr", Hex), ("transId", TransId)],
        gsn::TCROLLBACKREQ => &[("apiConnectPtr", Hex), ("transId", TransId), ("flags", Hex)],
        gsn::TC_COMMITCONF => {
            &[("apiConnectPtr", Hex), ("transId", TransId), ("gci_hi", Number), ("gci_lo", Number)]
        }
        gsn::TC_COMMITREF | gsn::TCROLLBACKREF => {
            &[("apiConnectPtr", Hex), ("transId", TransId), ("errorCode", Number)]
        }
        gsn::TCROLLBACKCONF => &[("apiConnectPtr", Hex), ("transId", TransId)],
        gsn::TCROLLBACKREP => {
            &[("apiConnectPtr", Hex), ("transId", TransId), ("returnCode", Number), ("errorData", Hex)]
        }
        gsn::TC_COMMIT_ACK => &[("transId", TransId)],
        gsn::TCKEY_FAILCONF | gsn::TCKEY_FAILREF => &[("apiOperationPtr", Hex), ("transId", TransId)],
        gsn::NODE_FAILREP => &[("failNo", Number), ("masterNodeId", Number), ("noOfNodes", Number)],
        gsn::TAKE_OVERTCCONF => &[("failedNode", Number), ("senderRef", Reference)],
        gsn::NF_COMPLETEREP => &[("blockNo", Number), ("nodeId", Number), ("failedNodeId", Number)],
        gsn::ALTER_TABLE_REP => &[("tableId", Number), ("tableVersion", Hex), ("changeType", Number)],
        gsn::GET_TABINFOREQ => &[
            ("senderData", Number),
            ("senderRef", Reference),
            ("requestType", Hex),
            ("tableId/nameLen", Number),
            ("schemaTransId", Number),
        ],
        gsn::GET_TABINFO_CONF => &[
            ("senderData", Number),
            ("tableId", Number),
            ("gci", Number),
            ("totalLen", Number),
            ("tableType", Number),
        ],
        gsn::GET_TABINFOREF => &[
            ("senderData", Number),
            ("senderRef", Reference),
            ("requestType", Hex),
            ("tableId/nameLen", Number),
            ("schemaTransId", Number),
            ("errorCode", Number),
            ("errorLine", Number),
        ],
        gsn::LIST_TABLES_REQ => &[
            ("senderData", Number),
            ("senderRef", Reference),
            ("requestFlags", Hex),
            ("tableId", Number),
            ("tableType", Number),
        ],
        gsn::LIST_TABLES_CONF => &[("senderData", Number), ("noOfTables", Number)],
        gsn::SCHEMA_TRANS_BEGIN_REQ => &[("clientRef", Reference), ("transId", Number), ("requestInfo", Hex)],
        gsn::SCHEMA_TRANS_BEGIN_CONF => {
            &[("senderRef", Reference), ("transId", Number), ("transKey", Number)]
        }
        gsn::SCHEMA_TRANS_END_REQ => &[
            ("clientRef", Reference),
            ("transId", Number),
            ("requestInfo", Hex),
            ("transKey", Number),
            ("flags", Hex),
        ],
        gsn::SCHEMA_TRANS_END_CONF => &[("senderRef", Reference), ("transId", Number)],
        gsn::SCHEMA_TRANS_BEGIN_REF | gsn::SCHEMA_TRANS_END_REF | gsn::SCHEMA_TRANS_END_REP => {
            &[("senderRef", Reference), ("transId", Number), ("errorCode", Number), ("errorLine", Number)]
        }
        gsn::CREATE_HASH_MAP_REQ => &[
            ("clientRef", Reference),
            ("clientData", Number),
            ("transKey", Number),
            ("transId", Number),
            ("requestInfo", Hex),
        ],
        gsn::CREATE_HASH_MAP_CONF => {
            &[("senderRef", Reference), ("clientData", Number), ("objectId", Number), ("objectVersion", Hex)]
        }
        gsn::CREATE_TABLE_REQ => &[
            ("clientRef", Reference),
            ("clientData", Number),
            ("requestInfo", Hex),
            ("transId", Number),
            ("transKey", Number),
        ],
        gsn::DROP_TABLE_REQ => &[
            ("clientRef", Reference),
            ("clientData", Number),
            ("requestInfo", Hex),
            ("transId", Number),
            ("transKey", Number),
            ("tableId", Number),
            ("tableVersion", Hex),
        ],
        gsn::CREATE_TABLE_CONF | gsn::DROP_TABLE_CONF => &[
            ("senderRef", Reference),
            ("clientData", Number),
            ("transId", Number),
            ("tableId", Number),
            ("tableVersion", Hex),
        ],
        _ => &[],
    }
}

fn fields(out: &mut String, number: u16, data: &[u32]) -> fmt::Result {
    if number == gsn::TCKEYCONF {
        return key_conf(out, data);
    }
    let mut rest = data;
    for &(name, show) in fields_of(number) {
        let Some((&word, after)) = rest.split_first() else { break };
        rest = after;
        write!(out, " {name}=")?;
        match show {
            Number => write!(out, "{word}")?,
            Hex => write!(out, "{word:#x}")?,
            Version => write!(out, "{}", super::registration::Version(word))?,
            Reference => {
                block_name(out, block::block_of(word))?;
                write!(out, "@{}", block::node_of(word))?;
            }
            KeyInfo => key_info(out, word)?,
            TransId => {
                let high = rest.split_off_first();
                trans_id(out, word, high.copied())?;
            }
        }
    }
    if !rest.is_empty() {
        out.write_char(' ')?;
        numbers(out, rest)?;
    }
    Ok(())
}

fn trans_id(out: &mut String, low: u32, high: Option<u32>) -> fmt::Result {
    match high {
        Some(high) => write!(out, "({low:#x},{high:#x})"),
        None => write!(out, "({low:#x},cut off)"),
    }
}

/// TCKEYCONF: a head, a pair of words for each operation, and the low half of the checkpoint.
fn key_conf(out: &mut String, data: &[u32]) -> fmt::Result {
    let [client, gci_hi, info, low, high, ref rest @ ..] = *data else {
        out.write_char(' ')?;
        return numbers(out, data);
    };
    write!(out, " apiConnectPtr={client:#x} gci_hi={gci_hi} confInfo={info:#x}")?;
    for (bit, name) in [(16, "commit"), (17, "marker")] {
        if info >> bit & 1 != 0 {
            write!(out, "|{name}")?;
        }
    }
    out.write_str(" transId=")?;
    trans_id(out, low, Some(high))?;
    let count = (info & 0xffff) as usize;
    let (pairs, after) = rest.as_chunks::<2>();
    let listed = count.min(pairs.len());
    for [operation, info] in &pairs[..listed] {
        match info >> 31 {
            0 => write!(out, " {operation:#x}: {info} words")?,
            _ => write!(out, " {operation:#x}: read by node {}", info & 0xffff)?,
        }
    }
    match (&pairs[listed..], after) {
        ([], [gci_lo]) => write!(out, " gci_lo={gci_lo}"),
        ([], []) => Ok(()),
        (pairs, after) => {
            out.write_char(' ')?;
            numbers(out, pairs.as_flattened())?;
            numbers(out, after)
        }
    }
}

/// The bits of a TCKEYREQ's request information that have names.
fn key_info(out: &mut String, word: u32) -> fmt::Result {
    const KINDS: [&str; 8] =
        ["read", "update", "insert", "delete", "write", "readExclusive", "refresh", "unlock"];
    write!(out, "{word:#x}|{}", KINDS[(word >> 5 & 7) as usize])?;
    let bits = [(0, "dirty"), (4, "commit"), (8, "simple"), (10, "execute"), (11, "start")];
    let set = bits.iter().filter(|(bit, _)| word >> bit & 1 != 0);
    set.into_iter().try_for_each(|(_, name)| write!(out, "|{name}"))
}

fn numbers(out: &mut String, words: &[u32]) -> fmt::Result {
    out.write_char('[')?;
    for (at, word) in words.iter().take(SHOWN).enumerate() {
        write!(out, "{}{word:x}", if at == 0 { "" } else { " " })?;
    }
    match words.len().saturating_sub(SHOWN) {
        0 => out.write_char(']'),
        more => write!(out, " and {more} more]"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::signal::{Header, encode};
    use super::super::{transaction, vectors};
    use super::*;
    use proptest::prelude::*;

    fn text(direction: Direction, words: &[u32]) -> String {
        let mut out = String::new();
        describe(&mut out, direction, 1, words);
        out
    }

    #[test]
    fn requests_have_names() {
        let mut words = Vec::new();
        transaction::seize(&mut words, block::DBTC, 0x8001, 4, block::reference(0x8001, 50), 0);
        transaction::commit(&mut words, 0x2f5, 0x8001, 7, [0x10, 0x800]);
        assert_eq!(
            text(Direction::Send, &words),
            "SEND to node 1 TCSEIZEREQ API block 0x8001 -> DBTC: apiConnectPtr=0x4 apiRef=API block 0x8001@50 \
             instance=0\n\
             SEND to node 1 TC_COMMITREQ API block 0x8001 -> DBTC/1: apiConnectPtr=0x7 transId=(0x10,0x800)\n"
        );
    }

    #[test]
    fn a_carrier_is_unpacked() {
        let conf = [0x8001_0003, 4, 9, 0x0003_0001, 0x10, 0x800, 0x20, 5, 77];
        // The packet's length counts from three words on: client to the low half of the checkpoint are eight.
        let conf = [&[0x8001_0005][..], &conf[1..]].concat();
        let row = [0x8002_0001, 0x20, 0x10, 0x800, 0xabc];
        let mut words = Vec::new();
        let header = |gsn, sender| Header { gsn, receiver: block::API_PACKED, sender };
        encode(&mut words, header(gsn::TCKEYCONF, block::DBTC), &conf, &[]).unwrap();
        encode(&mut words, header(gsn::TRANSID_AI, block::DBTUP), &row, &[]).unwrap();
        assert_eq!(
            text(Direction::Receive, &words),
            "RECV from node 1 TCKEYCONF DBTC -> API block 0x8001: apiConnectPtr=0x4 gci_hi=9 \
             confInfo=0x30001|commit|marker transId=(0x10,0x800) 0x20: 5 words gci_lo=77\n\
             RECV from node 1 TRANSID_AI DBTUP -> API block 0x8002: apiOperationPtr=0x20 transId=(0x10,0x800) \
             [abc]\n"
        );
    }

    #[test]
    fn long_sections_are_cut() {
        let mut words = Vec::new();
        let header = Header { gsn: gsn::TRANSID_AI, receiver: 0x8000, sender: block::DBTUP };
        encode(&mut words, header, &[2, 3, 4], &[&[1; 100]]).unwrap();
        assert!(text(Direction::Receive, &words).contains("attributes[100]=[1 1"));
        assert!(text(Direction::Receive, &words).ends_with(" and 76 more]\n"));
    }

    #[test]
    fn every_recorded_signal_has_its_name() {
        for vector in vectors::signals() {
            let text = text(Direction::Receive, &vector.words);
            assert!(text.lines().count() >= 1 && !text.contains("lengths do not add up"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_words_are_described(words in prop::collection::vec(any::<u32>(), 0..60)) {
            let text = text(Direction::Receive, &words);
            prop_assert_eq!(text.is_empty(), words.is_empty());
        }

        #[test]
        fn any_data_of_any_signal_is_described(
            known in prop::sample::select((0..800u16).filter(|&n| gsn::name(n) != "unknown signal").collect::<Vec<_>>()),
            blocks in any::<(u16, u16)>(),
            data in prop::collection::vec(any::<u32>(), 1..22),
            section in prop::option::of(prop::collection::vec(any::<u32>(), 1..40)),
        ) {
            let mut words = Vec::new();
            let header = Header { gsn: known, receiver: blocks.0, sender: blocks.1 };
            let sections: Vec<&[u32]> = section.iter().map(|s| &s[..]).collect();
            encode(&mut words, header, &data, &sections).unwrap();
            let text = text(Direction::Send, &words);
            prop_assert!(text.contains(gsn::name(known)), "{}", text);
        }

        #[test]
        fn recorded_signals_with_a_word_changed_are_described(at in any::<prop::sample::Index>(), word in any::<u32>()) {
            for vector in vectors::signals() {
                let mut words = vector.words.clone();
                let at = at.index(words.len());
                words[at] = word;
                text(Direction::Receive, &words);
                text(Direction::Receive, &words[..at]);
            }
        }
    }
}
