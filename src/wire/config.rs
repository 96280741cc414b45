//! The cluster's configuration as a management server sends it (`get config_v2`, base64 already removed):
//! which nodes there are, and how two of them connect. Decoded into sections as they are; the accessors apply
//! default sections and NDB's own defaults. The encoder is for embedded nodes, which hand out such a
//! configuration themselves. Source:
//! storage/ndb/src/common/mgmcommon/ConfigObject.cpp, ConfigSection.cpp and
//! storage/ndb/include/mgmapi/mgmapi_config_parameters.h.

use std::collections::BTreeMap;
use std::time::Duration;

use super::NodeId;

/// Parameter numbers, with NDB's names.
pub mod key {
    macro_rules! keys {
        ($($name:ident = $number:literal),* $(,)?) => {
            $(#[doc = concat!("Parameter ", stringify!($number), ".")] pub const $name: u32 = $number;)*
        };
    }
    keys! {
        SYSTEM_PRIMARY_MGM_NODE = 1, SYSTEM_GENERATION = 2, SYSTEM_NAME = 3, NODE_ID = 3, HOST_NAME = 5,
        DATA_DIR = 7, TOTAL_SEND_BUFFER_MEMORY = 9, LOCATION_DOMAIN_ID = 10, DEDICATED = 11,
        REQUIRE_CERTIFICATE = 12, NO_OF_REPLICAS = 101, HEARTBEAT_INTERVAL_DB_DB = 118,
        HEARTBEAT_INTERVAL_DB_API = 119, TRANSACTION_INACTIVE_TIMEOUT = 130,
        TRANSACTION_DEADLOCK_DETECTION_TIMEOUT = 131, NODE_GROUP = 185, ARBITRATION_RANK = 200,
        ARBITRATION_DELAY = 201, EXTRA_SEND_BUFFER_MEMORY = 203, MGM_PORT_NUMBER = 300,
        MGM_REQUIRE_TLS = 301, NODE_ID_1 = 400, NODE_ID_2 = 401, SEND_SIGNAL_ID = 402, CHECKSUM = 403,
        PORT_NUMBER = 406, HOST_NAME_1 = 407, HOST_NAME_2 = 408, GROUP = 409, NODE_ID_SERVER = 410,
        OVERLOAD_LIMIT = 411, PRE_SEND_CHECKSUM = 412, ALLOW_UNRESOLVED_HOSTNAMES = 413,
        PREFER_IP_VERSION = 414, SEND_BUFFER_MEMORY = 454,
        RECEIVE_BUFFER_MEMORY = 455, TCP_RCV_BUF_SIZE = 457, TCP_SND_BUF_SIZE = 458,
        TCP_MAXSEG_SIZE = 459, TCP_BIND_INADDR_ANY = 460, TCP_SPIN_TIME = 461, REQUIRE_LINK_TLS = 462, MAX_SCAN_BATCH_SIZE = 800, BATCH_BYTE_SIZE = 801,
        BATCH_SIZE = 802, AUTO_RECONNECT = 803, DEFAULT_OPERATION_REDO_PROBLEM_ACTION = 805,
        DEFAULT_HASHMAP_SIZE = 806, CONNECT_BACKOFF_MAX_TIME = 807, START_CONNECT_BACKOFF_MAX_TIME = 808,
    }
}

const MAGIC: &[u8; 8] = b"NDBCONF2";
const VERSION: u32 = 2;
/// The sections whose entries apply to all sections of the same kind, in their order on the wire.
const DEFAULTS: [Kind; 5] = [Kind::Data, Kind::Api, Kind::Mgm, Kind::Tcp, Kind::Shm];
const MAX_NODE_ID: u32 = 255;
const INT: u32 = 1;
const TEXT: u32 = 2;
const LONG: u32 = 4;
const KEY_BITS: u32 = 28;

/// Why bytes are not a configuration, or why a client cannot work with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigError {
    /// The length is not the one that the header gives, or is no number of words.
    Length,
    /// Not a configuration of this format.
    Magic,
    /// A format version that is not known.
    Version(u32),
    /// The checksum does not match.
    Checksum,
    /// What does not add up, and the word at which it was seen.
    Malformed(&'static str, usize),
    /// The configuration has no API node of this id.
    NotAnApiNode(NodeId),
    /// The configuration has no TCP connection between the two nodes (own id first).
    NoConnection(NodeId, NodeId),
    /// The port between the two nodes (own id first) is out of range.
    Port(NodeId, NodeId),
    /// The node should act as arbitrator, with this rank.
    ArbitrationRank(NodeId, u32),
    /// The node must have a certificate.
    RequireCertificate(NodeId),
    /// Links between the two nodes (own id first) must be encrypted.
    RequireLinkTls(NodeId, NodeId),
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use ConfigError::*;
        match self {
            Length => write!(f, "the configuration's length is not the one that its header gives"),
            Magic => write!(f, "the configuration does not start with NDBCONF2"),
            Version(version) => write!(f, "the configuration has format version {version}, not {VERSION}"),
            Checksum => write!(f, "the configuration's checksum does not match"),
            Malformed(what, word) => write!(f, "the configuration is damaged at word {word}: {what}"),
            NotAnApiNode(node) => write!(f, "the configuration has no API node {node}"),
            NoConnection(own, node) => {
                write!(f, "the configuration has no TCP connection between nodes {own} and {node}")
            }
            Port(own, node) => write!(f, "the port between nodes {own} and {node} is out of range"),
            ArbitrationRank(node, rank) => write!(
                f,
                "ArbitrationRank of node {node} is {rank}: this library cannot arbitrate, set it to 0 or use \
                 another node id"
            ),
            RequireCertificate(node) => {
                write!(f, "RequireCertificate is set for node {node}: this library does not support TLS")
            }
            RequireLinkTls(own, node) => {
                write!(
                    f,
                    "links between nodes {own} and {node} require TLS: this library does not support TLS"
                )
            }
        }
    }
}

impl std::error::Error for ConfigError {}

/// What a section describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A data node.
    Data = 1,
    /// An API node: a client.
    Api = 2,
    /// A management server.
    Mgm = 3,
    /// A TCP connection.
    Tcp = 4,
    /// A shared-memory connection.
    Shm = 5,
    /// The cluster as a whole.
    System = 6,
}

impl Kind {
    fn from_word(word: u32) -> Option<Kind> {
        [Kind::Data, Kind::Api, Kind::Mgm, Kind::Tcp, Kind::Shm, Kind::System]
            .into_iter()
            .find(|kind| *kind as u32 == word)
    }

    fn is_node(self) -> bool {
        matches!(self, Kind::Data | Kind::Api | Kind::Mgm)
    }
}

/// The value of one parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// 32 bits; signed parameters are in two's complement.
    Int(u32),
    /// 64 bits.
    Long(u64),
    /// Text without its terminating NUL; bytes that are not UTF-8 are replaced.
    Text(String),
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Value::Int(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::Text(value.to_owned())
    }
}

/// Parameters of one node or connection, or the defaults of all of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// What it describes.
    pub kind: Kind,
    /// Its own parameters, defaults not applied.
    pub entries: BTreeMap<u32, Value>,
}

impl Section {
    /// A section without entries.
    pub fn new(kind: Kind) -> Self {
        Section { kind, entries: BTreeMap::new() }
    }

    /// The section with one more parameter. Keys have 28 bits.
    pub fn with(mut self, key: u32, value: impl Into<Value>) -> Self {
        debug_assert!(key < 1 << KEY_BITS);
        self.entries.insert(key, value.into());
        self
    }

    fn own_int(&self, key: u32) -> Option<u32> {
        match self.entries.get(&key) {
            Some(Value::Int(value)) => Some(*value),
            _ => None,
        }
    }

    fn connects(&self, a: NodeId, b: NodeId) -> bool {
        let ends = (self.own_int(key::NODE_ID_1), self.own_int(key::NODE_ID_2));
        let (a, b) = (Some(a as u32), Some(b as u32));
        ends == (a, b) || ends == (b, a)
    }
}

/// Where a data node listens for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// Configured.
    Fixed(u16),
    /// Chosen by the data node when it starts; the management server knows it. Sometimes it is told right
    /// away.
    Dynamic(Option<u16>),
}

/// How a client connects to one data node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The data node.
    pub node: NodeId,
    /// The data node's host.
    pub host: String,
    /// The address to bind to before connecting; empty: any.
    pub own_host: String,
    /// Where the data node listens.
    pub port: Port,
    /// Whether signals to the node carry a signal id.
    pub send_signal_id: bool,
    /// Whether signals to the node carry a checksum.
    pub checksum: bool,
    /// Distance: lower is closer.
    pub group: u32,
    /// SendBufferMemory in bytes.
    pub send_buffer_memory: u32,
    /// ReceiveBufferMemory in bytes.
    pub receive_buffer_memory: u32,
    /// SO_RCVBUF; 0: leave.
    pub tcp_rcv_buf_size: u32,
    /// SO_SNDBUF; 0: leave.
    pub tcp_snd_buf_size: u32,
    /// TCP_MAXSEG, to be set before connecting; 0: leave.
    pub tcp_maxseg_size: u32,
    /// Whether the data node refuses clear text.
    pub require_tls: bool,
    /// Whether IPv6 addresses go first when the host has both.
    pub prefer_ipv6: bool,
}

/// A management server of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagementServer {
    /// Its node id.
    pub node: NodeId,
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// A cluster's configuration: defaults, nodes by id, connections in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    defaults: [Section; 5],
    system: Section,
    nodes: BTreeMap<NodeId, Section>,
    connections: Vec<Section>,
}

impl Default for Configuration {
    fn default() -> Self {
        Configuration {
            defaults: DEFAULTS.map(Section::new),
            system: Section::new(Kind::System),
            nodes: BTreeMap::new(),
            connections: Vec::new(),
        }
    }
}

/// Building one, for whoever hands it out.
impl Configuration {
    /// Puts the section where its kind and, for nodes, its NodeId say; a node or system section of the same
    /// name is replaced. Gives back a node section whose id is missing or out of range.
    pub fn add(&mut self, section: Section) -> Result<(), Section> {
        match section.kind {
            Kind::System => self.system = section,
            Kind::Tcp | Kind::Shm => self.connections.push(section),
            _ => match node_id(&section) {
                Some(id) => drop(self.nodes.insert(id, section)),
                None => return Err(section),
            },
        }
        Ok(())
    }

    /// The default section of a kind; none for the system.
    pub fn defaults_mut(&mut self, kind: Kind) -> Option<&mut Section> {
        self.defaults.iter_mut().find(|section| section.kind == kind)
    }
}

/// Asking it.
impl Configuration {
    /// The section of a node.
    pub fn node(&self, id: NodeId) -> Option<&Section> {
        self.nodes.get(&id)
    }

    /// The cluster's name.
    pub fn name(&self) -> &str {
        self.text(&self.system, key::SYSTEM_NAME)
    }

    /// The configuration's generation: it grows with each change.
    pub fn generation(&self) -> u32 {
        self.int(&self.system, key::SYSTEM_GENERATION, 0)
    }

    /// The ids of all data nodes, ascending.
    pub fn data_nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.of_kind(Kind::Data).map(|(id, _)| id)
    }

    /// The ids of all API nodes, ascending.
    pub fn api_nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.of_kind(Kind::Api).map(|(id, _)| id)
    }

    /// All management servers, by node id. A port that cannot be one is left out with its server.
    pub fn management_servers(&self) -> Vec<ManagementServer> {
        self.of_kind(Kind::Mgm)
            .filter_map(|(node, section)| {
                let port = self.int(section, key::MGM_PORT_NUMBER, 1186).try_into().ok()?;
                Some(ManagementServer { node, host: self.text(section, key::HOST_NAME).to_owned(), port })
            })
            .collect()
    }

    /// A parameter of a section: its own value, else that of the default section of its kind.
    pub fn parameter<'a>(&'a self, section: &'a Section, key: u32) -> Option<&'a Value> {
        let default = self.defaults.iter().find(|default| default.kind == section.kind);
        section.entries.get(&key).or_else(|| default?.entries.get(&key))
    }

    /// A 32-bit parameter of a section, or `default` where it is absent or of another type.
    pub fn int(&self, section: &Section, key: u32, default: u32) -> u32 {
        match self.parameter(section, key) {
            Some(Value::Int(value)) => *value,
            _ => default,
        }
    }

    /// A text parameter of a section; empty where it is absent or of another type.
    pub fn text<'a>(&'a self, section: &'a Section, key: u32) -> &'a str {
        match self.parameter(section, key) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// A 32-bit parameter of a node, or `default`.
    pub fn node_int(&self, node: NodeId, key: u32, default: u32) -> u32 {
        self.node(node).map_or(default, |section| self.int(section, key, default))
    }

    /// HeartbeatIntervalDbApi of a data node. What a node really uses is in its API_REGCONF.
    pub fn heartbeat_interval(&self, data_node: NodeId) -> Duration {
        millis(self.node_int(data_node, key::HEARTBEAT_INTERVAL_DB_API, 1500).max(100))
    }

    /// The longest HeartbeatIntervalDbDb of the data nodes.
    pub fn heartbeat_interval_db_db(&self) -> Duration {
        millis(self.longest(key::HEARTBEAT_INTERVAL_DB_DB, 5000))
    }

    /// The longest TransactionDeadlockDetectionTimeout of the data nodes.
    pub fn transaction_deadlock_detection_timeout(&self) -> Duration {
        millis(self.longest(key::TRANSACTION_DEADLOCK_DETECTION_TIMEOUT, 1200))
    }

    /// NoOfReplicas.
    pub fn replicas(&self) -> u32 {
        self.longest(key::NO_OF_REPLICAS, 2)
    }

    /// LocationDomainId of a node; 0: none.
    pub fn location_domain_id(&self, node: NodeId) -> u32 {
        self.node_int(node, key::LOCATION_DOMAIN_ID, 0)
    }

    /// ArbitrationRank of an API node.
    pub fn arbitration_rank(&self, node: NodeId) -> u32 {
        self.node_int(node, key::ARBITRATION_RANK, 0)
    }

    /// Whether a node must have a certificate.
    pub fn require_certificate(&self, node: NodeId) -> bool {
        self.node_int(node, key::REQUIRE_CERTIFICATE, 0) != 0
    }

    /// The longest pause between two attempts to connect to a data node, while another one is connected.
    pub fn connect_backoff_max(&self, own: NodeId) -> Duration {
        millis(self.node_int(own, key::CONNECT_BACKOFF_MAX_TIME, 1500))
    }

    /// The same while no data node is connected; zero: no growing pauses.
    pub fn start_connect_backoff_max(&self, own: NodeId) -> Duration {
        millis(self.node_int(own, key::START_CONNECT_BACKOFF_MAX_TIME, 0))
    }

    /// How node `own` connects to data node `node`.
    pub fn link(&self, own: NodeId, node: NodeId) -> Result<Link, ConfigError> {
        let section = self
            .connections
            .iter()
            .find(|section| section.kind == Kind::Tcp && section.connects(own, node))
            .ok_or(ConfigError::NoConnection(own, node))?;
        let int = |key, default| self.int(section, key, default);
        let own_is_first = section.own_int(key::NODE_ID_1) == Some(own as u32);
        let (own_host, host) = match own_is_first {
            true => (key::HOST_NAME_1, key::HOST_NAME_2),
            false => (key::HOST_NAME_2, key::HOST_NAME_1),
        };
        Ok(Link {
            node,
            host: self.text(section, host).to_owned(),
            own_host: self.text(section, own_host).to_owned(),
            port: port(int(key::PORT_NUMBER, 0)).ok_or(ConfigError::Port(own, node))?,
            send_signal_id: int(key::SEND_SIGNAL_ID, 1) != 0,
            checksum: int(key::CHECKSUM, 0) != 0,
            group: int(key::GROUP, 55),
            send_buffer_memory: int(key::SEND_BUFFER_MEMORY, 2 << 20),
            receive_buffer_memory: int(key::RECEIVE_BUFFER_MEMORY, 2 << 20),
            tcp_rcv_buf_size: int(key::TCP_RCV_BUF_SIZE, 0),
            tcp_snd_buf_size: int(key::TCP_SND_BUF_SIZE, 0),
            tcp_maxseg_size: int(key::TCP_MAXSEG_SIZE, 0),
            require_tls: int(key::REQUIRE_LINK_TLS, 0) != 0,
            prefer_ipv6: int(key::PREFER_IP_VERSION, 4) == 6,
        })
    }

    /// How node `own` connects to each data node, or why this library cannot be that node.
    pub fn links(&self, own: NodeId) -> Result<Vec<Link>, ConfigError> {
        if self.node(own).is_none_or(|section| section.kind != Kind::Api) {
            return Err(ConfigError::NotAnApiNode(own));
        }
        match self.arbitration_rank(own) {
            0 => {}
            rank => return Err(ConfigError::ArbitrationRank(own, rank)),
        }
        if self.require_certificate(own) {
            return Err(ConfigError::RequireCertificate(own));
        }
        let links = self.data_nodes().map(|node| self.link(own, node)).collect::<Result<Vec<_>, _>>()?;
        match links.iter().find(|link| link.require_tls) {
            Some(link) => Err(ConfigError::RequireLinkTls(own, link.node)),
            None => Ok(links),
        }
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (NodeId, &Section)> {
        self.nodes.iter().filter(move |(_, section)| section.kind == kind).map(|(id, section)| (*id, section))
    }

    fn longest(&self, key: u32, default: u32) -> u32 {
        self.data_nodes().map(|node| self.node_int(node, key, default)).max().unwrap_or(default)
    }
}

fn millis(value: u32) -> Duration {
    Duration::from_millis(value as u64)
}

fn node_id(section: &Section) -> Option<NodeId> {
    match section.own_int(key::NODE_ID) {
        Some(id @ 1..=MAX_NODE_ID) => Some(id as NodeId),
        _ => None,
    }
}

fn port(word: u32) -> Option<Port> {
    match word as i32 {
        0 => Some(Port::Dynamic(None)),
        known @ ..0 => Some(Port::Dynamic(Some(known.unsigned_abs().try_into().ok()?))),
        fixed => Some(Port::Fixed(fixed.try_into().ok()?)),
    }
}

/// Decodes a whole configuration.
pub fn decode(bytes: &[u8]) -> Result<Configuration, ConfigError> {
    let (words, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(ConfigError::Length);
    }
    let Some((magic, _)) = bytes.split_first_chunk::<8>() else { return Err(ConfigError::Length) };
    if magic != MAGIC {
        return Err(ConfigError::Magic);
    }
    if words.get(2).is_none_or(|word| u32::from_be_bytes(*word) as usize != words.len()) {
        return Err(ConfigError::Length);
    }
    if words.iter().fold(0, |sum, word| sum ^ u32::from_be_bytes(*word)) != 0 {
        return Err(ConfigError::Checksum);
    }
    Reader { words: words.get(..words.len() - 1).unwrap_or_default(), at: 3 }.configuration()
}

/// Reads the words before the checksum.
struct Reader<'a> {
    words: &'a [[u8; 4]],
    at: usize,
}

impl<'a> Reader<'a> {
    fn malformed<T>(&self, what: &'static str) -> Result<T, ConfigError> {
        Err(ConfigError::Malformed(what, self.at))
    }

    fn take(&mut self, count: usize) -> Result<&'a [[u8; 4]], ConfigError> {
        let rest = self.words.get(self.at..).unwrap_or_default();
        let Some(taken) = rest.get(..count) else { return self.malformed("it ends too early") };
        self.at += count;
        Ok(taken)
    }

    fn word(&mut self) -> Result<u32, ConfigError> {
        match self.take(1)? {
            [word, ..] => Ok(u32::from_be_bytes(*word)),
            [] => self.malformed("it ends too early"),
        }
    }

    fn configuration(mut self) -> Result<Configuration, ConfigError> {
        match self.word()? {
            VERSION => {}
            version => return Err(ConfigError::Version(version)),
        }
        if self.word()? as usize != DEFAULTS.len() {
            return self.malformed("an unknown number of default sections");
        }
        let node_counts = [(Kind::Data, self.word()?), (Kind::Api, self.word()?), (Kind::Mgm, self.word()?)];
        let connections = self.word()?;
        let mut configuration = Configuration::default();
        for default in &mut configuration.defaults {
            *default = self.section_of(default.kind)?;
        }
        configuration.system = self.section_of(Kind::System)?;
        for _ in 0..node_counts.iter().map(|(_, count)| *count as u64).sum() {
            let section = self.section()?;
            let Some(id) = node_id(&section).filter(|_| section.kind.is_node()) else {
                return self.malformed("a node section without a node id");
            };
            if configuration.nodes.insert(id, section).is_some() {
                return self.malformed("two nodes with one id");
            }
        }
        for (kind, count) in node_counts {
            if configuration.of_kind(kind).count() != count as usize {
                return self.malformed("the number of nodes of a kind is not the one announced");
            }
        }
        for _ in 0..connections {
            let section = self.section()?;
            if !matches!(section.kind, Kind::Tcp | Kind::Shm) {
                return self.malformed("a connection section of an unknown kind");
            }
            configuration.connections.push(section);
        }
        match self.at == self.words.len() {
            true => Ok(configuration),
            false => self.malformed("words after the last section"),
        }
    }

    fn section_of(&mut self, kind: Kind) -> Result<Section, ConfigError> {
        let section = self.section()?;
        if section.kind == kind { Ok(section) } else { self.malformed("a section of an unexpected kind") }
    }

    fn section(&mut self) -> Result<Section, ConfigError> {
        let start = self.at;
        let (length, count, kind) = (self.word()?, self.word()?, self.word()?);
        let Some(kind) = Kind::from_word(kind) else { return self.malformed("an unknown kind of section") };
        let mut section = Section::new(kind);
        for _ in 0..count {
            let (key, value) = self.entry()?;
            if section.entries.insert(key, value).is_some() {
                return self.malformed("a parameter is given twice in one section");
            }
        }
        match self.at - start == length as usize {
            true => Ok(section),
            false => self.malformed("a section's length is not that of its entries"),
        }
    }

    fn entry(&mut self) -> Result<(u32, Value), ConfigError> {
        let word = self.word()?;
        let value = match word >> KEY_BITS {
            INT => Value::Int(self.word()?),
            LONG => Value::Long((self.word()? as u64) << 32 | self.word()? as u64),
            TEXT => Value::Text(self.text()?),
            _ => return self.malformed("a parameter of an unknown type"),
        };
        Ok((word & ((1 << KEY_BITS) - 1), value))
    }

    fn text(&mut self) -> Result<String, ConfigError> {
        let length = self.word()? as usize;
        let bytes = self.take(length.div_ceil(4))?.as_flattened();
        match bytes.get(..length).and_then(|text| text.split_last()) {
            Some((0, text)) => Ok(String::from_utf8_lossy(text).into_owned()),
            _ => self.malformed("a text without its NUL"),
        }
    }
}

/// The bytes of a configuration, as [`decode`] takes them.
pub fn encode(configuration: &Configuration) -> Vec<u8> {
    let count = |kind| configuration.of_kind(kind).count() as u32;
    let mut words = vec![0, 0, 0, VERSION, DEFAULTS.len() as u32];
    words.extend([count(Kind::Data), count(Kind::Api), count(Kind::Mgm)]);
    words.push(configuration.connections.len() as u32);
    let sections = configuration
        .defaults
        .iter()
        .chain([&configuration.system])
        .chain(configuration.nodes.values())
        .chain(&configuration.connections);
    sections.for_each(|section| encode_section(&mut words, section));
    let [a, b, c, d, e, f, g, h] = *MAGIC;
    words[0] = u32::from_be_bytes([a, b, c, d]);
    words[1] = u32::from_be_bytes([e, f, g, h]);
    words[2] = words.len() as u32 + 1;
    words.push(words.iter().fold(0, |sum, word| sum ^ word));
    words.into_iter().flat_map(u32::to_be_bytes).collect()
}

fn encode_section(words: &mut Vec<u32>, section: &Section) {
    let start = words.len();
    words.extend([0, section.entries.len() as u32, section.kind as u32]);
    for (key, value) in &section.entries {
        match value {
            Value::Int(value) => words.extend([INT << KEY_BITS | key, *value]),
            Value::Long(value) => words.extend([LONG << KEY_BITS | key, (value >> 32) as u32, *value as u32]),
            Value::Text(text) => {
                words.extend([TEXT << KEY_BITS | key, text.len() as u32 + 1]);
                let mut bytes = text.clone().into_bytes();
                bytes.resize((text.len() + 1).next_multiple_of(4), 0);
                let (padded, _) = bytes.as_chunks();
                words.extend(padded.iter().map(|word| u32::from_be_bytes(*word)));
            }
        }
    }
    words[start] = (words.len() - start) as u32;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The recorded configuration of node 53: two data nodes, server 49, clients 50 to 53.
    fn recorded() -> Vec<u8> {
        let vectors = include_str!("../../tests/vectors/01-management-and-transport.jsonl");
        let vector = vectors
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .find(|vector| vector["name"] == "config_v2_node53")
            .unwrap();
        let hex = vector["bytes"].as_str().unwrap();
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    }

    fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
        let at = bytes.len() - 4;
        let sum = bytes[..at].as_chunks().0.iter().fold(0, |sum, word| sum ^ u32::from_be_bytes(*word));
        bytes[at..].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    #[test]
    fn recorded_configuration() {
        let configuration = decode(&recorded()).unwrap();
        assert_eq!(configuration.name(), "MC_20261130122716");
        assert_eq!(configuration.generation(), 1);
        assert_eq!(configuration.data_nodes().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(configuration.api_nodes().collect::<Vec<_>>(), [50, 51, 52, 53]);
        assert_eq!(
            configuration.management_servers(),
            [ManagementServer { node: 49, host: "127.0.0.1".into(), port: 11860 }]
        );
        assert_eq!(configuration.replicas(), 2);
        assert_eq!(configuration.heartbeat_interval(1), millis(1500));
        assert_eq!(configuration.heartbeat_interval_db_db(), millis(5000));
        assert_eq!(configuration.transaction_deadlock_detection_timeout(), millis(1200));
        assert_eq!(configuration.connect_backoff_max(53), millis(1500));
        assert_eq!(configuration.start_connect_backoff_max(53), Duration::ZERO);
        assert_eq!(configuration.location_domain_id(53), 0);
        assert!(!configuration.require_certificate(53));
        let first = configuration.node(1).unwrap();
        assert_eq!(configuration.parameter(first, 163), Some(&Value::Int(4194304)));
        assert_eq!(configuration.parameter(first, 112), Some(&Value::Long(83886080)));
        assert_eq!(configuration.text(first, key::DATA_DIR), "/var/lib/ndb");
        assert_eq!(configuration.parameter(first, key::LOCATION_DOMAIN_ID), None);
    }

    #[test]
    fn recorded_links() {
        let configuration = decode(&recorded()).unwrap();
        let links = configuration.links(53).unwrap();
        assert_eq!(links.iter().map(|link| link.node).collect::<Vec<_>>(), [1, 2]);
        for link in links {
            let expected = Link {
                node: link.node,
                host: "127.0.0.1".into(),
                own_host: "127.0.0.1".into(),
                port: Port::Dynamic(None),
                send_signal_id: true,
                checksum: false,
                group: 55,
                send_buffer_memory: 2097152,
                receive_buffer_memory: 2097152,
                tcp_rcv_buf_size: 0,
                tcp_snd_buf_size: 0,
                tcp_maxseg_size: 0,
                require_tls: false,
                prefer_ipv6: false,
            };
            assert_eq!(link, expected);
        }
    }

    #[test]
    fn nodes_that_a_client_cannot_be() {
        let configuration = decode(&recorded()).unwrap();
        assert_eq!(configuration.links(52), Err(ConfigError::ArbitrationRank(52, 1)));
        assert_eq!(configuration.links(51), Err(ConfigError::NoConnection(51, 1)));
        assert_eq!(configuration.links(1), Err(ConfigError::NotAnApiNode(1)));
        assert_eq!(configuration.links(200), Err(ConfigError::NotAnApiNode(200)));
        let text = ConfigError::ArbitrationRank(52, 1).to_string();
        assert!(text.contains("node 52 is 1"), "{text}");
        let mut tls = configuration.clone();
        tls.add(Section::new(Kind::Api).with(key::NODE_ID, 53).with(key::REQUIRE_CERTIFICATE, 1)).unwrap();
        assert_eq!(tls.links(53), Err(ConfigError::RequireCertificate(53)));
        let mut tls = configuration.clone();
        tls.defaults_mut(Kind::Tcp).unwrap().entries.insert(key::REQUIRE_LINK_TLS, Value::Int(1));
        assert_eq!(tls.links(53), Err(ConfigError::RequireLinkTls(53, 1)));
    }

    #[test]
    fn connections_are_found_both_ways_round() {
        let connection = |first: u32, second: u32, port: i32| {
            Section::new(Kind::Tcp)
                .with(key::NODE_ID_1, first)
                .with(key::NODE_ID_2, second)
                .with(key::HOST_NAME_1, format!("host{first}").as_str())
                .with(key::HOST_NAME_2, format!("host{second}").as_str())
                .with(key::PORT_NUMBER, port as u32)
        };
        let mut configuration = Configuration::default();
        for id in 1..=4 {
            configuration.add(Section::new(Kind::Data).with(key::NODE_ID, id)).unwrap();
        }
        configuration.add(Section::new(Kind::Api).with(key::NODE_ID, 255)).unwrap();
        configuration.add(connection(255, 1, 0)).unwrap();
        configuration.add(connection(2, 255, -65535)).unwrap();
        configuration.add(connection(1, 2, 7)).unwrap();
        configuration.add(connection(3, 255, 65535)).unwrap();
        configuration.add(connection(4, 255, 65536)).unwrap();
        let place =
            |node| configuration.link(255, node).map(|link| (link.node, link.host, link.own_host, link.port));
        let own = "host255".to_owned();
        assert_eq!(place(1), Ok((1, "host1".into(), own.clone(), Port::Dynamic(None))));
        assert_eq!(place(2), Ok((2, "host2".into(), own.clone(), Port::Dynamic(Some(65535)))));
        assert_eq!(place(3), Ok((3, "host3".into(), own, Port::Fixed(65535))));
        assert_eq!(place(4), Err(ConfigError::Port(255, 4)));
    }

    #[test]
    fn encoding_what_was_recorded() {
        let configuration = decode(&recorded()).unwrap();
        let encoded = encode(&configuration);
        assert_eq!(encoded.len(), recorded().len());
        assert_eq!(decode(&encoded), Ok(configuration));
    }

    #[test]
    fn sections_that_have_no_place() {
        let mut configuration = Configuration::default();
        for id in [0, 256, u32::MAX] {
            assert!(configuration.add(Section::new(Kind::Data).with(key::NODE_ID, id)).is_err());
        }
        assert!(configuration.add(Section::new(Kind::Api)).is_err());
        assert!(configuration.defaults_mut(Kind::System).is_none());
    }

    #[test]
    fn damage_is_an_error() {
        let whole = recorded();
        for length in 0..whole.len() {
            assert!(decode(&whole[..length]).is_err(), "cut to {length}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                assert!(decode(&bytes).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn damage_under_a_right_checksum_never_panics() {
        let whole = recorded();
        for at in 0..whole.len() - 4 {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = byte;
                if let Ok(configuration) = decode(&with_checksum(bytes)) {
                    let _ = (configuration.links(53), configuration.management_servers());
                    assert_eq!(decode(&encode(&configuration)), Ok(configuration));
                }
            }
        }
        for length in (12..whole.len()).step_by(4) {
            let mut bytes = whole[..length].to_vec();
            bytes[8..12].copy_from_slice(&(length as u32 / 4).to_be_bytes());
            assert!(decode(&with_checksum(bytes)).is_err(), "cut to {length}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<u32>().prop_map(Value::Int),
            any::<u64>().prop_map(Value::Long),
            any::<String>().prop_map(Value::Text),
        ]
    }

    fn section(kind: Kind) -> impl Strategy<Value = Section> {
        let entries = proptest::collection::btree_map(0u32..1 << KEY_BITS, value(), 0..6);
        entries.prop_map(move |entries| Section { kind, entries })
    }

    fn configuration() -> impl Strategy<Value = Configuration> {
        let node = (1u32..=MAX_NODE_ID, prop_oneof![Just(Kind::Data), Just(Kind::Api), Just(Kind::Mgm)])
            .prop_flat_map(|(id, kind)| {
                section(kind).prop_map(move |section| section.with(key::NODE_ID, id))
            });
        let connection = prop_oneof![section(Kind::Tcp), section(Kind::Shm)];
        let sections = (
            DEFAULTS.map(section),
            section(Kind::System),
            proptest::collection::vec(prop_oneof![node, connection], 0..12),
        );
        sections.prop_map(|(defaults, system, others)| {
            let mut configuration = Configuration { defaults, system, ..Configuration::default() };
            others.into_iter().for_each(|section| configuration.add(section).unwrap());
            configuration
        })
    }

    proptest! {
        #[test]
        fn encode_then_decode(configuration in configuration()) {
            prop_assert_eq!(decode(&encode(&configuration)), Ok(configuration));
        }

        #[test]
        fn arbitrary_words(words in proptest::collection::vec(any::<u32>(), 0..64)) {
            let mut bytes = MAGIC.to_vec();
            bytes.extend((words.len() as u32 + 4).to_be_bytes());
            bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
            bytes.extend([0; 4]);
            prop_assert!(decode(&with_checksum(bytes)).is_err());
        }
    }
}
