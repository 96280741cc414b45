//! The dictionary's signals: requests to DBDICT of a data node, and its answers. Sources:
//! storage/ndb/include/kernel/signaldata/{GetTabInfo,ListTables,SchemaTrans,CreateHashMap,CreateTable,
//! DropTable,CreateIndx,AlterTable}.hpp.
//!
//! Data nodes trust what an API node sends here, so some requests stop a node. Those cannot be built: an id
//! is an [`ObjectId`], which only decoding makes; the bit for long answers is always set; a request by name
//! always has its name; which hash map is a [`Partitioning`], not a number.

use super::NodeId;
use super::block::{self, DBDICT};
use super::gsn;
use super::signal::{self, EncodeError, Header};

/// The longest name that a request can carry, in bytes, the NUL that ends it included.
pub const MAX_NAME: usize = 4096;

const BY_ID: u32 = 0;
const BY_NAME: u32 = 1;
const LONG_ANSWER: u32 = 2;
const LIST_NAMES: u32 = 1 << 28;
const LIST_DEPENDENT: u32 = 1 << 30;
const CREATE_IF_MISSING: u32 = 1;
const CREATE_DEFAULT: u32 = 2;
const ONE_NODE_GROUP: u32 = 8;
const END_COMMIT: u32 = 0;
const END_ABORT: u32 = 1;

/// Object types in lists and definitions.
pub mod kind {
    /// A table of the system's own.
    pub const SYSTEM_TABLE: u32 = 1;
    /// A user's table.
    pub const USER_TABLE: u32 = 2;
    /// A unique index.
    pub const UNIQUE_HASH_INDEX: u32 = 3;
    /// An ordered index.
    pub const ORDERED_INDEX: u32 = 6;
    /// A hash map.
    pub const HASH_MAP: u32 = 24;
    /// A foreign key.
    pub const FOREIGN_KEY: u32 = 25;
}

/// The id of an object in the dictionary of this cluster. Only what a data node sent becomes one: a node
/// stops when it is asked for an id that it never gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(u32);

impl ObjectId {
    /// The id that stands in a data node's message.
    pub(crate) const fn received(number: u32) -> ObjectId {
        ObjectId(number)
    }

    /// The number itself.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// How many fragments a table gets: NDB's partition balance. These eight are all there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partitioning {
    /// So many fragments, at least one.
    Specific(std::num::NonZeroU32),
    /// One per node and local data manager: the default.
    ForRpByLdm,
    /// One per node group and local data manager.
    ForRaByLdm,
    /// One per node.
    ForRpByNode,
    /// One per node group.
    ForRaByNode,
    /// Two per node group and local data manager.
    ForRaByLdmX2,
    /// Three per node group and local data manager.
    ForRaByLdmX3,
    /// Four per node group and local data manager.
    ForRaByLdmX4,
}

impl Partitioning {
    /// The number that stands for it in a definition.
    pub const fn number(self) -> u32 {
        match self {
            Partitioning::Specific(_) => 0xffff_ffff,
            Partitioning::ForRpByLdm => 0xffff_fffe,
            Partitioning::ForRaByLdm => 0xffff_fffd,
            Partitioning::ForRpByNode => 0xffff_fffc,
            Partitioning::ForRaByNode => 0xffff_fffb,
            Partitioning::ForRaByLdmX2 => 0xffff_fffa,
            Partitioning::ForRaByLdmX3 => 0xffff_fff9,
            Partitioning::ForRaByLdmX4 => 0xffff_fff8,
        }
    }

    /// The number that asks for its hash map.
    const fn hash_map_number(self) -> u32 {
        match self {
            Partitioning::Specific(fragments) => fragments.get(),
            balance => balance.number(),
        }
    }
}

/// An open schema transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transaction {
    /// The client's number for it.
    pub id: u32,
    /// The coordinator's number for it.
    pub key: u32,
}

/// Builds the requests of one block of this client; answers come back to that block.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    reference: u32,
}

impl Client {
    /// Requests of the block with that reference.
    pub const fn new(reference: u32) -> Client {
        Client { reference }
    }

    /// GET_TABINFOREQ by name. `transaction` is an open schema transaction whose objects shall be seen, or 0.
    pub fn get_by_name(
        self,
        out: &mut Vec<u32>,
        request: u32,
        name: &[u8],
        transaction: u32,
    ) -> Result<(), EncodeError> {
        if name.is_empty() || name.len() >= MAX_NAME || name.contains(&0) {
            return Err(EncodeError::Sections);
        }
        let length = name.len() + 1;
        let mut section = vec![0; length.div_ceil(4)];
        bytemuck::cast_slice_mut::<u32, u8>(&mut section)[..name.len()].copy_from_slice(name);
        let data = [request, self.reference, BY_NAME | LONG_ANSWER, length as u32, transaction];
        self.encode(out, gsn::GET_TABINFOREQ, &data, &[&section])
    }

    /// GET_TABINFOREQ by id.
    pub fn get_by_id(
        self,
        out: &mut Vec<u32>,
        request: u32,
        id: ObjectId,
        transaction: u32,
    ) -> Result<(), EncodeError> {
        let data = [request, self.reference, BY_ID | LONG_ANSWER, id.0, transaction];
        self.encode(out, gsn::GET_TABINFOREQ, &data, &[])
    }

    /// LIST_TABLES_REQ: every object of that type, or of all types when it is 0.
    pub fn list(self, out: &mut Vec<u32>, request: u32, kind: u32) -> Result<(), EncodeError> {
        self.encode(out, gsn::LIST_TABLES_REQ, &[request, self.reference, LIST_NAMES, 0, kind], &[])
    }

    /// LIST_TABLES_REQ: every object that depends on a table.
    pub fn list_dependent(
        self,
        out: &mut Vec<u32>,
        request: u32,
        table: ObjectId,
    ) -> Result<(), EncodeError> {
        let data = [request, self.reference, LIST_NAMES | LIST_DEPENDENT, table.0, 0];
        self.encode(out, gsn::LIST_TABLES_REQ, &data, &[])
    }

    /// SCHEMA_TRANS_BEGIN_REQ. `transaction` is the client's choice, not 0.
    pub fn begin(self, out: &mut Vec<u32>, transaction: u32) -> Result<(), EncodeError> {
        self.encode(out, gsn::SCHEMA_TRANS_BEGIN_REQ, &[self.reference, transaction, 0], &[])
    }

    /// SCHEMA_TRANS_END_REQ: commit, or undo everything.
    pub fn end(self, out: &mut Vec<u32>, transaction: Transaction, commit: bool) -> Result<(), EncodeError> {
        let flags = if commit { END_COMMIT } else { END_ABORT };
        let data = [self.reference, transaction.id, 0, transaction.key, flags];
        self.encode(out, gsn::SCHEMA_TRANS_END_REQ, &data, &[])
    }

    /// CREATE_HASH_MAP_REQ: the default map of a partitioning, made unless it exists.
    pub(crate) fn create_hash_map(
        self,
        out: &mut Vec<u32>,
        request: u32,
        transaction: Transaction,
        partitioning: Partitioning,
        fully_replicated: bool,
    ) -> Result<(), EncodeError> {
        let one_group = if fully_replicated { ONE_NODE_GROUP } else { 0 };
        let info = CREATE_IF_MISSING | CREATE_DEFAULT | one_group;
        let fragments = partitioning.hash_map_number();
        let data = [self.reference, request, transaction.key, transaction.id, info, 0, fragments];
        self.encode(out, gsn::CREATE_HASH_MAP_REQ, &data, &[])
    }

    /// CREATE_TABLE_REQ with a definition that was checked where it was made.
    pub(crate) fn create_table(
        self,
        out: &mut Vec<u32>,
        request: u32,
        transaction: Transaction,
        definition: &[u32],
    ) -> Result<(), EncodeError> {
        let data = [self.reference, request, 0, transaction.id, transaction.key];
        signal::encode_any(out, self.header(gsn::CREATE_TABLE_REQ), &data, &[definition], request)
    }

    /// DROP_TABLE_REQ. The table's indexes must be gone already: nodes do not check, and stop later.
    pub(crate) fn drop_table(
        self,
        out: &mut Vec<u32>,
        request: u32,
        transaction: Transaction,
        table: ObjectId,
        version: u32,
    ) -> Result<(), EncodeError> {
        let data = [self.reference, request, 0, transaction.id, transaction.key, table.0, version];
        self.encode(out, gsn::DROP_TABLE_REQ, &data, &[])
    }

    /// DROP_INDX_REQ.
    pub fn drop_index(
        self,
        out: &mut Vec<u32>,
        request: u32,
        transaction: Transaction,
        index: ObjectId,
        version: u32,
    ) -> Result<(), EncodeError> {
        let data = [self.reference, request, transaction.id, transaction.key, 0, index.0, version];
        self.encode(out, gsn::DROP_INDX_REQ, &data, &[])
    }

    fn header(self, gsn: u16) -> Header {
        Header { gsn, receiver: DBDICT, sender: block::block_of(self.reference) }
    }

    fn encode(
        self,
        out: &mut Vec<u32>,
        gsn: u16,
        data: &[u32],
        sections: &[&[u32]],
    ) -> Result<(), EncodeError> {
        signal::encode(out, self.header(gsn), data, sections)
    }
}

/// What an answer answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// The request with that number.
    Request(u32),
    /// The schema transaction with that number.
    Transaction(u32),
}

/// Why a data node refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// NDB's error code, never 0.
    pub code: i32,
    /// The line in the node's sources, for a person who reads them.
    pub line: u32,
    /// The node that found the error; 0 when it is not told.
    pub node: u32,
    /// The node that runs schema transactions, when it is told.
    pub master: Option<NodeId>,
    /// The key of the definition that is at fault; 0 when it is not told.
    pub key: u32,
}

/// One object in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its id.
    pub id: ObjectId,
    /// Its type, see [`kind`].
    pub kind: u32,
    /// 2 building, 3 dropping, 4 online, 9 broken.
    pub state: u8,
    /// Whether it survives a system restart.
    pub permanent: bool,
    /// Its internal name; empty when names were not asked for.
    pub name: Vec<u8>,
}

/// What a request brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done<'a> {
    /// A definition in SimpleProperties form.
    Definition {
        /// The object's id.
        id: ObjectId,
        /// The object's type, see [`kind`].
        kind: u32,
        /// The items.
        words: &'a [u32],
    },
    /// A list.
    Objects(Vec<Object>),
    /// The schema transaction is open.
    Begun(Transaction),
    /// The schema transaction is over.
    Ended,
    /// The object is made, found, or dropped, once the schema transaction commits.
    Object {
        /// Its id.
        id: ObjectId,
        /// Its version.
        version: u32,
    },
}

/// One answer of DBDICT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The signal number of the request.
    pub request: u16,
    /// Which of them.
    pub to: To,
    /// What it brought.
    pub outcome: Result<Done<'a>, Refusal>,
}

/// An answer that does not follow the protocol, or no answer at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Where the parts of a refusal stand in a REF's data.
struct RefusalLayout {
    code: usize,
    node: Option<usize>,
    master: Option<usize>,
    key: Option<usize>,
}

const TAB_INFO_REF: RefusalLayout = RefusalLayout { code: 5, node: None, master: None, key: None };
const TRANS_REF: RefusalLayout = RefusalLayout { code: 2, node: Some(4), master: Some(5), key: None };
const HASH_MAP_REF: RefusalLayout = RefusalLayout { code: 5, node: Some(4), master: Some(3), key: Some(7) };
const CREATE_REF: RefusalLayout = RefusalLayout { code: 3, node: Some(5), master: Some(6), key: Some(8) };
const DROP_REF: RefusalLayout = RefusalLayout { code: 5, node: Some(7), master: Some(8), key: None };

fn word(data: &[u32], index: usize) -> Result<u32, Malformed> {
    data.get(index).copied().ok_or(Malformed)
}

impl RefusalLayout {
    fn read(&self, data: &[u32]) -> Result<Refusal, Malformed> {
        let part = |index: Option<usize>| index.map_or(Ok(0), |index| word(data, index));
        let master = part(self.master)?;
        let refusal = Refusal {
            code: word(data, self.code)? as i32,
            line: word(data, self.code + 1)?,
            node: part(self.node)?,
            master: NodeId::try_from(master).ok().filter(|&node| node != 0),
            key: part(self.key)?,
        };
        if refusal.code == 0 { Err(Malformed) } else { Ok(refusal) }
    }
}

/// The signal number of the request that a signal of this number answers; none if it is no answer of DBDICT.
pub const fn request_of(answer: u16) -> Option<u16> {
    Some(match answer {
        gsn::GET_TABINFO_CONF | gsn::GET_TABINFOREF => gsn::GET_TABINFOREQ,
        gsn::LIST_TABLES_CONF => gsn::LIST_TABLES_REQ,
        gsn::SCHEMA_TRANS_BEGIN_CONF | gsn::SCHEMA_TRANS_BEGIN_REF => gsn::SCHEMA_TRANS_BEGIN_REQ,
        gsn::SCHEMA_TRANS_END_CONF | gsn::SCHEMA_TRANS_END_REF | gsn::SCHEMA_TRANS_END_REP => {
            gsn::SCHEMA_TRANS_END_REQ
        }
        gsn::CREATE_HASH_MAP_CONF | gsn::CREATE_HASH_MAP_REF => gsn::CREATE_HASH_MAP_REQ,
        gsn::CREATE_TABLE_CONF | gsn::CREATE_TABLE_REF => gsn::CREATE_TABLE_REQ,
        gsn::DROP_TABLE_CONF | gsn::DROP_TABLE_REF => gsn::DROP_TABLE_REQ,
        gsn::DROP_INDX_CONF | gsn::DROP_INDX_REF => gsn::DROP_INDX_REQ,
        _ => return None,
    })
}

/// Decodes an answer of DBDICT from its number, data and whole sections.
pub fn decode<'a, S: AsRef<[u32]>>(
    gsn: u16,
    data: &'a [u32],
    sections: &'a [S],
) -> Result<Answer<'a>, Malformed> {
    let request = request_of(gsn).ok_or(Malformed)?;
    let to = match request {
        gsn::GET_TABINFOREQ | gsn::LIST_TABLES_REQ => To::Request(word(data, 0)?),
        gsn::SCHEMA_TRANS_BEGIN_REQ | gsn::SCHEMA_TRANS_END_REQ => To::Transaction(word(data, 1)?),
        _ => To::Request(word(data, 1)?),
    };
    let object = |at: usize| Ok(Done::Object { id: ObjectId(word(data, at)?), version: word(data, at + 1)? });
    let done = match gsn {
        gsn::GET_TABINFO_CONF => definition(data, sections),
        gsn::LIST_TABLES_CONF => objects(data, sections).map(Done::Objects),
        gsn::SCHEMA_TRANS_BEGIN_CONF => {
            Ok(Done::Begun(Transaction { id: word(data, 1)?, key: word(data, 2)? }))
        }
        gsn::SCHEMA_TRANS_END_CONF => Ok(Done::Ended),
        // A report of code 0 says that the transaction was committed by a new master.
        gsn::SCHEMA_TRANS_END_REP if word(data, 2)? == 0 => Ok(Done::Ended),
        gsn::CREATE_HASH_MAP_CONF => object(2),
        gsn::CREATE_TABLE_CONF | gsn::DROP_TABLE_CONF | gsn::DROP_INDX_CONF => object(3),
        _ => {
            let layout = match request {
                gsn::GET_TABINFOREQ => TAB_INFO_REF,
                gsn::SCHEMA_TRANS_BEGIN_REQ | gsn::SCHEMA_TRANS_END_REQ => TRANS_REF,
                gsn::CREATE_HASH_MAP_REQ => HASH_MAP_REF,
                gsn::CREATE_TABLE_REQ => CREATE_REF,
                _ => DROP_REF,
            };
            return Ok(Answer { request, to, outcome: Err(layout.read(data)?) });
        }
    };
    Ok(Answer { request, to, outcome: Ok(done?) })
}

fn definition<'a, S: AsRef<[u32]>>(data: &[u32], sections: &'a [S]) -> Result<Done<'a>, Malformed> {
    let [_, id, _, total, kind, ..] = *data else { return Err(Malformed) };
    let words = sections.first().ok_or(Malformed)?.as_ref();
    if words.len() != total as usize {
        return Err(Malformed);
    }
    Ok(Done::Definition { id: ObjectId(id), kind, words })
}

/// The objects of a list. The count in the data is of one fragment only, so the section itself counts.
fn objects<S: AsRef<[u32]>>(data: &[u32], sections: &[S]) -> Result<Vec<Object>, Malformed> {
    let count = word(data, 1)? as usize;
    let (entries, rest) = sections.first().map_or(&[][..], |s| s.as_ref()).as_chunks::<3>();
    if !rest.is_empty() || count > entries.len() {
        return Err(Malformed);
    }
    let mut names = sections.get(1).map(|s| s.as_ref());
    let mut objects = Vec::with_capacity(entries.len());
    for &[info, id, kind] in entries {
        let name = names.as_mut().map_or(Ok(Vec::new()), take_name)?;
        let (state, permanent) = ((info >> 24 & 15) as u8, info >> 20 & 7 == 2);
        objects.push(Object { id: ObjectId(id), kind, state, permanent, name });
    }
    match names {
        Some([_, ..]) => Err(Malformed),
        _ => Ok(objects),
    }
}

/// The next name of a list: its length with the NUL, then its bytes up to a whole word.
fn take_name(names: &mut &[u32]) -> Result<Vec<u8>, Malformed> {
    let (&length, after) = names.split_first().ok_or(Malformed)?;
    let length = length as usize;
    let (words, rest) = after.split_at_checked(length.div_ceil(4)).ok_or(Malformed)?;
    *names = rest;
    match bytemuck::cast_slice::<u32, u8>(words).get(..length) {
        Some([name @ .., 0]) => Ok(name.to_vec()),
        _ => Err(Malformed),
    }
}

/// News that a table was altered: ALTER_TABLE_REP, which every data node sends to every cluster manager
/// block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Altered {
    /// The table.
    pub id: ObjectId,
    /// Its version before the change.
    pub version: u32,
    /// Its internal name.
    pub name: Vec<u8>,
}

/// Decodes ALTER_TABLE_REP.
pub fn decode_altered<S: AsRef<[u32]>>(data: &[u32], sections: &[S]) -> Result<Altered, Malformed> {
    let [id, version, ..] = *data else { return Err(Malformed) };
    let name = bytemuck::cast_slice::<u32, u8>(sections.first().ok_or(Malformed)?.as_ref());
    let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    Ok(Altered { id: ObjectId(id), version, name: name[..length].to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dict::vectors::{self, Vector};
    use proptest::prelude::*;

    fn number(vector: &Vector, field: &str) -> u32 {
        vector.decoded[field].as_u64().unwrap_or_else(|| panic!("{field} in {}", vector.name)) as u32
    }

    /// The request of a vector, built anew from its fields.
    fn rebuild(vector: &Vector) -> Option<Vec<u32>> {
        let field = |name| number(vector, name);
        let words = vector.words();
        let signal = signal::decode(&words).unwrap();
        let reference = match signal.header.gsn {
            gsn::GET_TABINFOREQ | gsn::LIST_TABLES_REQ => field("senderRef"),
            _ => field("clientRef"),
        };
        let client = Client::new(reference);
        let transaction = || Transaction { id: field("transId"), key: field("transKey") };
        let mut out = Vec::new();
        match signal.header.gsn {
            gsn::GET_TABINFOREQ => match vector.decoded["section0_name"].as_str() {
                Some(name) => {
                    client.get_by_name(&mut out, field("senderData"), name.as_bytes(), field("schemaTransId"))
                }
                None => {
                    let id = ObjectId(field("tableId_or_nameLen"));
                    client.get_by_id(&mut out, field("senderData"), id, field("schemaTransId"))
                }
            },
            gsn::LIST_TABLES_REQ if field("requestData") & LIST_DEPENDENT != 0 => {
                client.list_dependent(&mut out, field("senderData"), ObjectId(field("tableId")))
            }
            gsn::LIST_TABLES_REQ => client.list(&mut out, field("senderData"), field("tableType")),
            gsn::SCHEMA_TRANS_BEGIN_REQ => client.begin(&mut out, field("transId")),
            gsn::SCHEMA_TRANS_END_REQ => client.end(&mut out, transaction(), field("flags") == 0),
            gsn::CREATE_HASH_MAP_REQ => {
                assert_eq!(field("fragments"), Partitioning::ForRpByLdm.number());
                let partitioning = Partitioning::ForRpByLdm;
                client.create_hash_map(&mut out, field("clientData"), transaction(), partitioning, false)
            }
            gsn::CREATE_TABLE_REQ => {
                client.create_table(&mut out, field("clientData"), transaction(), signal.sections()[0])
            }
            gsn::DROP_TABLE_REQ => {
                let id = ObjectId(field("tableId"));
                client.drop_table(&mut out, field("clientData"), transaction(), id, field("tableVersion"))
            }
            gsn::DROP_INDX_REQ => {
                let id = ObjectId(field("indexId"));
                client.drop_index(&mut out, field("clientData"), transaction(), id, field("indexVersion"))
            }
            _ => return None,
        }
        .unwrap();
        Some(out)
    }

    #[test]
    fn recorded_requests() {
        let mut seen = std::collections::BTreeSet::new();
        for vector in
            vectors::dictionary().filter(|v| v.decoded["gsn"].as_str().is_some_and(|g| g.ends_with("REQ")))
        {
            let Some(built) = rebuild(&vector) else { continue };
            let mut words = vector.words();
            let (built, theirs) = (signal::decode(&built).unwrap(), signal::decode(&words).unwrap());
            assert_eq!(
                (built.header, built.sections()),
                (theirs.header, theirs.sections()),
                "{}",
                vector.name
            );
            let mut expected = theirs.data.to_vec();
            if built.header.gsn == gsn::LIST_TABLES_REQ {
                expected[2] &= 0xf000_0000; // the table id that only very old nodes read
            }
            assert_eq!(built.data, expected, "{}", vector.name);
            seen.insert(built.header.gsn);
            words.clear();
        }
        assert_eq!(seen.len(), 8, "kinds of requests: {seen:?}");
    }

    #[test]
    fn recorded_answers() {
        let mut seen = std::collections::BTreeSet::new();
        for vector in vectors::dictionary().filter(|v| !v.decoded["gsn"].is_null()) {
            let words = vector.words();
            let signal = signal::decode(&words).unwrap();
            if signal.fragment != signal::Fragment::Whole || signal.header.sender != DBDICT {
                continue;
            }
            let Ok(answer) = decode(signal.header.gsn, signal.data, signal.sections()) else {
                assert!(matches!(
                    signal.header.gsn,
                    gsn::CREATE_INDX_CONF | gsn::ALTER_TABLE_CONF | gsn::ALTER_TABLE_REP
                ));
                continue;
            };
            let field = |name| number(&vector, name);
            match answer.to {
                To::Transaction(id) => assert_eq!(id, field("transId")),
                To::Request(id) => {
                    let own =
                        ["senderData", "clientData"].iter().find(|n| !vector.decoded[**n].is_null()).unwrap();
                    assert_eq!(id, field(own));
                }
            }
            match answer.outcome {
                Err(refusal) => {
                    assert_eq!(refusal.code as u32, field("errorCode"), "{}", vector.name);
                    assert_eq!(refusal.line, field("errorLine"));
                    if !vector.decoded["masterNodeId"].is_null() {
                        assert_eq!(refusal.master, Some(field("masterNodeId") as NodeId));
                        assert_eq!(refusal.node, field("errorNodeId"));
                    }
                }
                Ok(Done::Definition { id, kind, words }) => {
                    assert_eq!((id.0, kind), (field("tableId"), field("tableType")));
                    assert_eq!(words.len() as u32, field("totalLen"));
                }
                Ok(Done::Objects(objects)) => check_objects(&objects, &vector),
                Ok(Done::Begun(transaction)) => assert_eq!(transaction.key, field("transKey")),
                Ok(Done::Ended) => {}
                Ok(Done::Object { id, version }) => {
                    let names = [
                        ("objectId", "objectVersion"),
                        ("tableId", "tableVersion"),
                        ("indexId", "indexVersion"),
                    ];
                    let (id_name, version_name) =
                        names.iter().find(|n| !vector.decoded[n.0].is_null()).unwrap();
                    assert_eq!((id.0, version), (field(id_name), field(version_name)));
                }
            }
            seen.insert(signal.header.gsn);
        }
        assert!(seen.len() >= 14, "kinds of answers: {seen:?}");
    }

    fn check_objects(objects: &[Object], vector: &Vector) {
        let expected = vector.decoded["objects"].as_array().unwrap();
        assert_eq!(objects.len(), expected.len());
        for (object, expected) in objects.iter().zip(expected) {
            assert_eq!(object.id.0 as u64, expected["id"].as_u64().unwrap());
            assert_eq!(object.kind as u64, expected["type"].as_u64().unwrap());
            assert_eq!(object.state as u64, expected["state"].as_u64().unwrap());
            assert_eq!(object.name, expected["name"].as_str().unwrap().as_bytes());
        }
    }

    #[test]
    fn a_list_in_fragments() {
        let vectors = ["list-list_tables_conf-67", "list-list_tables_conf-68"].map(vectors::named);
        let mut sections = vec![Vec::new(), Vec::new()];
        let mut expected = Vec::new();
        for vector in &vectors {
            let words = vector.words();
            let signal = signal::decode(&words).unwrap();
            for (index, section) in signal.sections().iter().enumerate() {
                let number = signal.data[2 + index] as usize;
                sections[number].extend_from_slice(section);
            }
            let objects = vector.decoded["objects"].as_array();
            expected.extend(objects.into_iter().flatten().cloned());
        }
        let answer = decode(gsn::LIST_TABLES_CONF, &[800711, 6], &sections).unwrap();
        let Ok(Done::Objects(objects)) = answer.outcome else { panic!() };
        assert_eq!(objects.len(), 36);
        for (object, expected) in objects.iter().zip(&expected) {
            assert_eq!(object.name, expected["name"].as_str().unwrap().as_bytes());
        }
    }

    #[test]
    fn altered_table() {
        let vector = vectors::named("alter-alter_table_rep-65");
        let words = vector.words();
        let signal = signal::decode(&words).unwrap();
        let altered = decode_altered(signal.data, signal.sections()).unwrap();
        assert_eq!(altered, Altered { id: ObjectId(37), version: 2, name: b"cdb/def/alt1".to_vec() });
        assert_eq!(decode_altered::<&[u32]>(signal.data, &[]), Err(Malformed));
    }

    #[test]
    fn names_that_cannot_be_sent() {
        let client = Client::new(0x8000_0032);
        let long = vec![b'a'; MAX_NAME];
        for name in [&b""[..], b"a\0b", &long] {
            let mut out = Vec::new();
            assert_eq!(client.get_by_name(&mut out, 1, name, 0), Err(EncodeError::Sections));
            assert!(out.is_empty());
        }
        assert!(client.get_by_name(&mut Vec::new(), 1, &long[1..], 0).is_ok());
    }

    #[test]
    fn a_refusal_without_code_is_no_answer() {
        assert_eq!(decode::<&[u32]>(gsn::SCHEMA_TRANS_END_REF, &[1, 2, 0, 0, 0, 0], &[]), Err(Malformed));
        let committed = decode::<&[u32]>(gsn::SCHEMA_TRANS_END_REP, &[1, 2, 0, 0, 0, 0], &[]).unwrap();
        assert_eq!(committed.outcome, Ok(Done::Ended));
    }

    #[test]
    fn truncated_and_changed_answers_never_panic() {
        for vector in vectors::dictionary().filter(|v| !v.decoded["gsn"].is_null()) {
            let words = vector.words();
            let signal = signal::decode(&words).unwrap();
            let sections: Vec<Vec<u32>> = signal.sections().iter().map(|s| s.to_vec()).collect();
            for length in 0..signal.data.len() {
                let _ = decode(signal.header.gsn, &signal.data[..length], &sections);
                let _ = decode_altered(&signal.data[..length], &sections);
            }
            for (index, section) in sections.iter().enumerate() {
                for at in 0..section.len().min(300) {
                    let mut changed = sections.clone();
                    changed[index][at] = changed[index][at].wrapping_mul(0x9e37_79b9) ^ 0xffff;
                    let _ = decode(signal.header.gsn, signal.data, &changed);
                    changed[index].truncate(at);
                    let _ = decode(signal.header.gsn, signal.data, &changed);
                }
            }
        }
    }

    fn words(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u32>> {
        proptest::collection::vec(prop_oneof![any::<u32>(), 0u32..10], length)
    }

    proptest! {
        #[test]
        fn any_words_decode_or_not(
            gsn in 0u16..1000,
            data in words(0..12),
            sections in proptest::collection::vec(words(0..30), 0..4),
        ) {
            let _ = decode(gsn, &data, &sections);
            let _ = decode_altered(&data, &sections);
        }
    }
}
