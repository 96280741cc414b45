//! Registration at a data node, its heartbeats, and the news about nodes and tables that come to the cluster
//! manager's block. Source:
//! storage/ndb/include/kernel/signaldata/{ApiRegSignalData,NodeFailRep,NFCompleteRep,ProcessInfoRep,
//! AlterTable}.hpp, storage/ndb/include/kernel/NodeState.hpp, src/kernel/blocks/qmgr/QmgrMain.cpp.

use super::block::{API_CLUSTERMGR, QMGR, node_of, reference};
use super::signal::{self, EncodeError, Header, Signal};
use super::{NodeId, RNIL, gsn};

/// A version of NDB or MySQL: major, minor, build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version(pub u32);

/// The version this library claims. Nodes choose by it the formats they send, so all formats of this version
/// are read here.
pub const CLIENT_VERSION: Version = Version::new(9, 7, 4);

impl Version {
    /// The oldest data node whose failure reports and fragmented signals are those that this library knows.
    pub const OLDEST_USABLE: Version = Version::new(8, 0, 18);

    /// A version by its parts.
    pub const fn new(major: u8, minor: u8, build: u8) -> Self {
        Version((major as u32) << 16 | (minor as u32) << 8 | build as u32)
    }

    /// Whether a data node of this version can be worked with: 8.0.18 or later. A node refuses clients that
    /// are too old for it, but leaves it to the client to judge the node.
    pub fn usable(self) -> bool {
        self >= Self::OLDEST_USABLE
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0 >> 16, self.0 >> 8 & 0xff, self.0 & 0xff)
    }
}

/// A set of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeSet([u32; 8]);

impl NodeSet {
    /// The set in a bitmask; words that are cut off are 0, words past the last node are ignored.
    pub fn from_words(words: &[u32]) -> Self {
        let mut set = Self::default();
        set.0.iter_mut().zip(words).for_each(|(word, &from)| *word = from);
        set
    }

    /// Whether `node` is in the set.
    pub fn contains(&self, node: NodeId) -> bool {
        self.0.get(node as usize / 32).is_some_and(|word| word >> (node % 32) & 1 != 0)
    }

    /// Puts `node` into the set; numbers that no node can have are ignored.
    pub fn insert(&mut self, node: NodeId) {
        if let Some(word) = self.0.get_mut(node as usize / 32) {
            *word |= 1 << (node % 32);
        }
    }

    /// Takes `node` out of the set.
    pub fn remove(&mut self, node: NodeId) {
        if let Some(word) = self.0.get_mut(node as usize / 32) {
            *word &= !(1 << (node % 32));
        }
    }

    /// Whether nobody is in the set.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 8]
    }

    /// The bitmask.
    pub fn words(&self) -> [u32; 8] {
        self.0
    }

    /// The nodes, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..).zip(self.0).filter(|(_, word)| *word != 0).flat_map(|(at, word)| {
            (0..32).filter(move |bit| word >> bit & 1 != 0).map(move |bit| 32 * at + bit)
        })
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut set = Self::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

/// How far a data node is up, or down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartLevel {
    /// Nothing runs yet.
    Nothing,
    /// The node can be asked for its state.
    Cmvmi,
    /// It starts.
    Starting,
    /// It works.
    Started,
    /// It works for one client only.
    SingleUser,
    /// It stops, in stage 1 to 4: no new transactions at this node from stage 1, none at all from 2.
    Stopping(u8),
}

impl StartLevel {
    fn of(word: u32) -> Option<Self> {
        Some(match word {
            0 => StartLevel::Nothing,
            1 => StartLevel::Cmvmi,
            2 => StartLevel::Starting,
            3 => StartLevel::Started,
            4 => StartLevel::SingleUser,
            5..=8 => StartLevel::Stopping(word as u8 - 4),
            _ => return None,
        })
    }
}

/// Appends an API_REGREQ: registration, and afterwards the heartbeat. `interval` asks for another heartbeat
/// interval, in milliseconds; it is said until the node has confirmed once.
pub fn register(out: &mut Vec<u32>, own: NodeId, registered: bool, interval: Option<u32>) {
    let version = CLIENT_VERSION.0;
    let data = [reference(API_CLUSTERMGR, own), version, version, interval.unwrap_or(RNIL)];
    let data = if registered { &data[..3] } else { &data };
    // Three or four words cannot be refused.
    let sent = signal::encode(out, to_qmgr(gsn::API_REGREQ), data, &[]);
    debug_assert!(sent.is_ok());
}

fn to_qmgr(gsn: u16) -> Header {
    Header { gsn, receiver: QMGR, sender: API_CLUSTERMGR }
}

/// API_REGCONF: the node's state, in answer to every registration and heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegConf {
    /// The node that answers.
    pub node: NodeId,
    /// Its version.
    pub version: Version,
    /// Its heartbeat interval for clients, in milliseconds.
    pub heartbeat_ms: u64,
    /// Its MySQL version.
    pub mysql_version: Version,
    /// The lowest version among the data nodes.
    pub min_db_version: Version,
    /// How far it is up.
    pub start_level: StartLevel,
    /// Its node group, if it has one.
    pub node_group: Option<u32>,
    /// Its place in the order of joining; negative for the president.
    pub dynamic_id: i32,
    /// While it starts, the phase; while it stops, 1 if the whole cluster does.
    pub phase: u32,
    /// While it starts: initial start 0, system restart 1, node restart 2, initial node restart 3.
    pub start_type: u32,
    /// Whether the cluster works for one client only, or is about to.
    pub single_user: bool,
    /// That client.
    pub single_user_api: Option<NodeId>,
    /// The nodes that it is connected to, itself included.
    pub connected: NodeSet,
    /// The lowest version among its clients.
    pub min_api_version: Option<Version>,
}

impl RegConf {
    /// Reads the data words; `None` if they are too few or the start level is unknown.
    pub fn decode(data: &[u32]) -> Option<Self> {
        let &[
            qmgr,
            version,
            interval,
            mysql,
            min_db,
            level,
            group,
            dynamic_id,
            phase,
            start_type,
            _,
            single,
            single_api,
            ref connected @ ..,
        ] = data.first_chunk::<21>()?;
        Some(RegConf {
            node: node_of(qmgr),
            version: Version(version),
            heartbeat_ms: interval as u64 * 10,
            mysql_version: Version(mysql),
            min_db_version: Version(min_db),
            start_level: StartLevel::of(level)?,
            node_group: (group < 0x1_0000).then_some(group),
            dynamic_id: dynamic_id as i32,
            phase,
            start_type,
            single_user: single != 0,
            single_user_api: NodeId::try_from(single_api).ok(),
            connected: NodeSet::from_words(connected),
            min_api_version: data.get(21).map(|&word| Version(word)),
        })
    }

    /// Whether the node takes new work of the client `own`.
    pub fn usable_for(&self, own: NodeId) -> bool {
        let alone = self.single_user && self.single_user_api == Some(own);
        self.version.usable() && (self.start_level == StartLevel::Started || alone)
    }
}

/// API_REGREF: the node does not accept this client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegRef {
    /// The node that answers.
    pub node: NodeId,
    /// Its version.
    pub version: Version,
    /// Why.
    pub reason: Refusal,
    /// Its MySQL version, if it says it.
    pub mysql_version: Option<Version>,
}

/// Why a data node does not accept a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The client's node id is a data node's.
    WrongType,
    /// The client's version is too old for the node.
    UnsupportedVersion,
    /// A reason that this library does not know.
    Other(u32),
}

impl RegRef {
    /// Reads the data words; `None` if they are too few.
    pub fn decode(data: &[u32]) -> Option<Self> {
        let [qmgr, version, reason, ref mysql @ ..] = *data else { return None };
        let reason = match reason {
            1 => Refusal::WrongType,
            2 => Refusal::UnsupportedVersion,
            other => Refusal::Other(other),
        };
        let mysql_version = mysql.first().map(|&word| Version(word));
        Some(RegRef { node: node_of(qmgr), version: Version(version), reason, mysql_version })
    }
}

/// NODE_FAILREP: data nodes have failed. Nothing is known yet about the transactions they coordinated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeFailRep {
    /// Number of the failure, the same from every survivor.
    pub number: u32,
    /// The failed nodes.
    pub failed: NodeSet,
}

impl NodeFailRep {
    /// Reads the signal: the nodes are in section 0, or in the words of the older forms.
    pub fn decode(signal: &Signal<'_>) -> Option<Self> {
        let [number, _, _, ref words @ ..] = *signal.data else { return None };
        let mask = match *signal.sections() {
            [] if !words.is_empty() => words,
            [mask] => mask,
            _ => return None,
        };
        Some(NodeFailRep { number, failed: NodeSet::from_words(mask) })
    }
}

/// TAKE_OVERTCCONF: the sender knows that the failed node's transactions have been taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakeOverTcConf {
    /// The failed node.
    pub failed: NodeId,
    /// The node that reports.
    pub reporter: NodeId,
}

impl TakeOverTcConf {
    /// Reads the data words; `None` if they are too few or name no node.
    pub fn decode(data: &[u32]) -> Option<Self> {
        let [failed, reporter, ..] = *data else { return None };
        Some(TakeOverTcConf { failed: failed.try_into().ok()?, reporter: node_of(reporter) })
    }
}

/// NF_COMPLETEREP: the sender has finished handling a node's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NfCompleteRep {
    /// The node that reports.
    pub reporter: NodeId,
    /// The failed node.
    pub failed: NodeId,
}

impl NfCompleteRep {
    /// Reads the data words; `None` if they are too few or name no node.
    pub fn decode(data: &[u32]) -> Option<Self> {
        let [_, reporter, failed, ..] = *data else { return None };
        Some(NfCompleteRep { reporter: reporter.try_into().ok()?, failed: failed.try_into().ok()? })
    }
}

/// ALTER_TABLE_REP: a table was altered; every data node says so once. Dropping a table says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlterTableRep<'a> {
    /// The table's id.
    pub table: u32,
    /// Its version before the change.
    pub version: u32,
    /// 1 altered, 2 dropped.
    pub change: u32,
    /// Its internal name: database/schema/table.
    pub name: &'a [u8],
}

impl<'a> AlterTableRep<'a> {
    /// Reads the signal; `None` without its words or its name.
    pub fn decode(signal: &Signal<'a>) -> Option<Self> {
        let [table, version, change, ..] = *signal.data else { return None };
        let name: &[u8] = bytemuck::cast_slice(signal.sections().first()?);
        let name = name.split(|&byte| byte == 0).next()?;
        Some(AlterTableRep { table, version, change, name })
    }
}

/// What a client tells a data node about its process, for people who look at ndbinfo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessInfo<'a> {
    /// The program's name; only its first 47 bytes are told.
    pub name: &'a str,
    /// The client's node id.
    pub node: NodeId,
    /// Its process id.
    pub process: u32,
    /// The port of a service it offers, or 0.
    pub port: u32,
    /// Path of the service's URI, at most 127 bytes, and its host, at most 47.
    pub service: Option<(&'a str, &'a str)>,
}

/// Appends a PROCESSINFO_REP.
pub fn process_info(out: &mut Vec<u32>, info: ProcessInfo<'_>) -> Result<(), EncodeError> {
    let name: [u32; 12] = text(info.name);
    let scheme: [u32; 4] = text("ndb");
    let mut data = [0; 20];
    data[..12].copy_from_slice(&name);
    data[12..16].copy_from_slice(&scheme);
    data[16..].copy_from_slice(&[info.node as u32, info.process, 0, info.port]);
    let header = to_qmgr(gsn::PROCESSINFO_REP);
    match info.service {
        None => signal::encode(out, header, &data, &[]),
        Some((path, host)) => signal::encode(out, header, &data, &[&text::<32>(path), &text::<12>(host)]),
    }
}

/// Text as words, cut so that at least one NUL follows it.
fn text<const WORDS: usize>(text: &str) -> [u32; WORDS] {
    let mut words = [0; WORDS];
    let bytes = &mut bytemuck::cast_slice_mut(&mut words)[..4 * WORDS - 1];
    bytes.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::signal::decode;
    use proptest::prelude::*;

    #[test]
    fn versions_order_and_show() {
        assert_eq!(CLIENT_VERSION.to_string(), "9.7.4");
        assert_eq!(CLIENT_VERSION.0, 0x90704);
        assert!(Version::new(8, 0, 18).usable() && CLIENT_VERSION.usable());
        assert!(!Version::new(8, 0, 17).usable() && !Version::new(7, 6, 99).usable());
    }

    #[test]
    fn sets_hold_256_nodes() {
        let set: NodeSet = [1, 255, 49, 300].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 49, 255]);
        assert!(!set.contains(300) && !set.contains(2));
        assert_eq!(NodeSet::from_words(&[6]).iter().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(NodeSet::from_words(&[u32::MAX; 20]).iter().count(), 256);
    }

    #[test]
    fn usable_follows_level_and_single_user() {
        let mut words = [0; 22];
        (words[0], words[1], words[5], words[12]) = (0xfc_0001, CLIENT_VERSION.0, 3, u32::MAX);
        let conf = |words: &[u32]| RegConf::decode(words).unwrap();
        assert!(conf(&words).usable_for(50));
        for level in [0, 1, 2, 4, 5, 6, 7, 8] {
            words[5] = level;
            assert!(!conf(&words).usable_for(50));
        }
        assert_eq!(conf(&words).start_level, StartLevel::Stopping(4));
        (words[11], words[12], words[5]) = (1, 50, 4);
        assert!(conf(&words).usable_for(50) && !conf(&words).usable_for(51));
        words[1] = Version::new(8, 0, 17).0;
        assert!(!conf(&words).usable_for(50));
        words[5] = 9;
        assert_eq!(RegConf::decode(&words), None);
        assert_eq!(conf(&[0; 21]).min_api_version, None);
        assert_eq!(RegConf::decode(&[0; 20]), None);
    }

    #[test]
    fn failures_come_in_a_section_or_in_words() {
        let mut out = Vec::new();
        let header = Header { gsn: gsn::NODE_FAILREP, receiver: API_CLUSTERMGR, sender: QMGR };
        let mut failed = |data: &[u32], sections: &[&[u32]]| {
            out.clear();
            signal::encode(&mut out, header, data, sections).unwrap();
            NodeFailRep::decode(&decode(&out).unwrap()).map(|rep| rep.failed.iter().collect::<Vec<_>>())
        };
        assert_eq!(failed(&[2, 2, 1], &[&[4]]), Some(vec![2]));
        assert_eq!(failed(&[2, 2, 1, 4, 1], &[]), Some(vec![2, 32]));
        assert_eq!(failed(&[2, 2, 1], &[]), None);
        assert_eq!(failed(&[2, 2], &[&[4]]), None);
    }

    #[test]
    fn process_names_are_cut() {
        let mut out = Vec::new();
        let name = "n".repeat(60);
        let info = ProcessInfo { name: &name, node: 50, process: 7, port: 0, service: Some(("/p", "h")) };
        process_info(&mut out, info).unwrap();
        let signal = decode(&out).unwrap();
        let bytes: &[u8] = bytemuck::cast_slice(&signal.data[..12]);
        assert_eq!(bytes, [&[b'n'; 47][..], &[0]].concat());
        assert_eq!(signal.sections().iter().map(|s| s.len()).collect::<Vec<_>>(), [32, 12]);
    }

    proptest! {
        #[test]
        fn any_words_decode_or_are_refused(
            words in prop::collection::vec(any::<u32>(), 1..23),
            section in prop::option::of(prop::collection::vec(any::<u32>(), 1..40)),
        ) {
            let _ = (RegConf::decode(&words), RegRef::decode(&words));
            let _ = (TakeOverTcConf::decode(&words), NfCompleteRep::decode(&words));
            let mut out = Vec::new();
            let sections: Vec<&[u32]> = section.iter().map(|s| &s[..]).collect();
            signal::encode(&mut out, to_qmgr(1), &words, &sections).unwrap();
            let signal = decode(&out).unwrap();
            let _ = NodeFailRep::decode(&signal);
            prop_assert_eq!(AlterTableRep::decode(&signal).is_some(), words.len() >= 3 && section.is_some());
        }
    }
}
