//! The dictionary client: definitions are fetched, kept, and forgotten when they may be old; tables are
//! listed, created and dropped. Written against [`Exchange`], so that a scripted peer can stand in for a
//! cluster. Sources: storage/ndb/src/ndbapi/{NdbDictionaryImpl,DictCache}.cpp,
//! storage/ndb/src/kernel/blocks/dbdict.

use std::collections::HashMap as Map;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::table::{FragmentType, HashMap, NewTable, Table, internal_name};
use crate::error::{Error, ndb, own};
use crate::wire::NodeId;
use crate::wire::dictionary::{
    self, Altered, Client, Done, Object, ObjectId, Refusal, To, Transaction, kind,
};
use crate::wire::fragment::OwnedSignal;
use crate::wire::gsn;
use crate::wire::signal::EncodeError;

/// How long a data node may take for an answer.
const ANSWER_TIME: Duration = Duration::from_secs(120);
/// How long the end of a schema transaction may take: it builds indexes and writes schema files.
const END_TIME: Duration = Duration::from_secs(3600);
/// How often a request is sent before its last refusal counts.
const ATTEMPTS: u32 = 100;

/// DBDICT's queue is full, or another schema transaction is open.
const BUSY: i32 = 701;
/// The node asked does not run schema transactions; it names the one that does.
const NOT_MASTER: i32 = 702;
/// A data node is starting.
const NODE_STARTING: i32 = 711;
/// The version is not the object's.
const WRONG_VERSION: i32 = 241;
/// The table is still being opened or closed.
const NOT_YET_DROPPABLE: i32 = 1229;

/// Whether an operation's error says that the definition it used is old: the next user must fetch it anew.
pub const fn is_stale_definition(code: i32) -> bool {
    matches!(code, 241 | 283 | 284 | 709 | 723 | 910 | 1225 | 1226 | 1227)
}

/// What came while waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A whole signal from that node.
    Signal(NodeId, OwnedSignal),
    /// The node failed, or the link to it is gone.
    NodeLost(NodeId),
    /// The deadline is over.
    TimedOut,
    /// The cluster handle is being disconnected.
    Stopped,
}

/// The way to exchange signals with data nodes: a port.
pub trait Exchange {
    /// The reference of the own block.
    fn reference(&self) -> u32;
    /// The data nodes that can be used now, in the order to try.
    fn nodes(&self) -> Vec<NodeId>;
    /// Sends encoded messages to a node.
    fn send(&mut self, node: NodeId, words: &[u32]) -> Result<(), i32>;
    /// Waits for the next signal or piece of news.
    fn receive(&mut self, deadline: Instant) -> Received;
    /// Waits; false when the cluster handle is being disconnected.
    fn pause(&mut self, duration: Duration) -> bool;
}

/// A table's name as a list has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableName {
    /// Database.
    pub database: Vec<u8>,
    /// Table.
    pub name: Vec<u8>,
}

/// The definitions of one cluster. Definitions are immutable: who has one keeps it, whatever happens to it
/// here.
#[derive(Debug, Default)]
pub struct Dictionary {
    cache: Mutex<Cache>,
    last_request: AtomicU32,
    /// The node that ran the last schema transaction; 0 when it is not known.
    master: AtomicU32,
}

#[derive(Debug, Default)]
struct Cache {
    tables: Map<Vec<u8>, Arc<Table>>,
    maps: Map<(ObjectId, u32), Arc<HashMap>>,
    /// Counts what was forgotten: a definition asked for before something was forgotten is not kept.
    epoch: u64,
}

impl Cache {
    fn forget(&mut self, is_old: impl Fn(&Table) -> bool) {
        self.epoch += 1;
        self.tables.retain(|_, table| !is_old(table));
    }
}

/// How one attempt ended without an answer that counts.
enum Failure {
    /// The node asked could not be reached, or failed meanwhile.
    NodeLost,
    /// A data node said no.
    Refused(Refusal),
    /// The schema transaction was undone under our feet.
    TransactionOver(Refusal),
    /// Anything that no further attempt would mend.
    Final(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Final(error)
    }
}

impl From<EncodeError> for Failure {
    fn from(_: EncodeError) -> Failure {
        Failure::Final(Error::new(own::INVALID_ARGUMENT, "a dictionary request that cannot be sent"))
    }
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The pause before the next attempt: it grows, and no two clients keep step.
fn pause_before(attempt: u32) -> Duration {
    let (base, spread) = match attempt {
        0..50 => (50, 5),
        50..75 => (50, 10),
        _ => (100, 10),
    };
    Duration::from_millis(base + 10 * (random() % spread))
}

fn stopped() -> Error {
    Error::new(own::NOT_CONNECTED, "the cluster handle was disconnected")
}

fn no_nodes(what: &str) -> Error {
    Error::new(ndb::CLUSTER_FAILURE, format!("{what}: no data node can be used"))
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn refused(what: &str, refusal: &Refusal) -> Error {
    let node = if refusal.node == 0 { String::new() } else { format!(" (node {})", refusal.node) };
    let key = if refusal.key == 0 { String::new() } else { format!(", at key {}", refusal.key) };
    let text = format!("{what}: a data node{node} refused with error {}{key}", refusal.code);
    Error::new(refusal.code, text)
}

fn unexpected<T>() -> Result<T, Error> {
    Err(Error::new(own::MALFORMED_REPLY, "an answer of DBDICT of the wrong kind"))
}

/// Takes the id and version that an answer brings.
fn take_object(done: Done<'_>) -> Result<(ObjectId, u32), Error> {
    match done {
        Done::Object { id, version } => Ok((id, version)),
        _ => unexpected(),
    }
}

fn take_table(done: Done<'_>) -> Result<Table, Error> {
    match done {
        Done::Definition { id, words, .. } => match Table::parse(words)? {
            table if table.id == id => Ok(table),
            _ => unexpected(),
        },
        _ => unexpected(),
    }
}

fn take_map(done: Done<'_>) -> Result<HashMap, Error> {
    match done {
        Done::Definition { kind: kind::HASH_MAP, words, .. } => HashMap::parse(words),
        _ => unexpected(),
    }
}

fn take_objects(done: Done<'_>) -> Result<Vec<Object>, Error> {
    match done {
        Done::Objects(objects) => Ok(objects),
        _ => unexpected(),
    }
}

/// An open schema transaction and the node that runs it.
#[derive(Debug, Clone, Copy)]
struct Open {
    transaction: Transaction,
    master: NodeId,
}

type Encode<'a> = &'a dyn Fn(Client, &mut Vec<u32>, u32) -> Result<(), EncodeError>;

impl Dictionary {
    /// A dictionary that knows nothing yet.
    pub fn new() -> Dictionary {
        Dictionary::default()
    }

    /// The definition of a table: the one kept, or fetched from a data node.
    pub fn get_table(&self, exchange: &mut dyn Exchange, db: &str, name: &str) -> Result<Arc<Table>, Error> {
        let internal = internal_name(db, name)?;
        let epoch = {
            let cache = self.cache();
            if let Some(table) = cache.tables.get(&internal) {
                return Ok(table.clone());
            }
            cache.epoch
        };
        let table = Arc::new(self.fetch(exchange, &internal)?);
        let mut cache = self.cache();
        if cache.epoch == epoch {
            cache.tables.insert(internal, table.clone());
        }
        Ok(table)
    }

    /// The user tables of a database, or of all of them, sorted by name.
    pub fn list(&self, exchange: &mut dyn Exchange, db: Option<&str>) -> Result<Vec<TableName>, Error> {
        let encode: Encode<'_> = &|client, out, request| client.list(out, request, kind::USER_TABLE);
        let objects = self.ask_any(exchange, "listing tables", gsn::LIST_TABLES_REQ, encode, take_objects)?;
        let mut names: Vec<_> = objects
            .iter()
            .filter(|object| object.kind == kind::USER_TABLE)
            .filter_map(|object| {
                let mut parts = object.name.splitn(3, |&byte| byte == b'/');
                let (database, _, name) = (parts.next()?, parts.next()?, parts.next()?);
                let wanted = db.is_none_or(|db| db.as_bytes() == database) && !name.starts_with(b"NDB$BLOB_");
                wanted.then(|| TableName { database: database.to_vec(), name: name.to_vec() })
            })
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Creates a table and fetches its definition.
    pub fn create_table(&self, exchange: &mut dyn Exchange, new: &NewTable) -> Result<Arc<Table>, Error> {
        new.check()?;
        let internal = internal_name(&new.database, &new.name)?;
        let what = format!("creating table {}", shown(&internal));
        let open = self.begin(exchange, &what)?;
        let steps = self.create_steps(exchange, open, &what, new);
        self.end(exchange, open, &what, steps)?;
        self.cache().forget(|table| table.internal_name == internal);
        self.get_table(exchange, &new.database, &new.name)
    }

    fn create_steps(
        &self,
        exchange: &mut dyn Exchange,
        open: Open,
        what: &str,
        new: &NewTable,
    ) -> Result<(), Failed> {
        let (partitioning, replicated) = (new.partitioning, new.fully_replicated);
        let map: Encode<'_> = &|client, out, request| {
            client.create_hash_map(out, request, open.transaction, partitioning, replicated)
        };
        let map = self.operate(exchange, open, what, gsn::CREATE_HASH_MAP_REQ, map, take_object)?;
        let definition = new.definition(map)?;
        let table: Encode<'_> =
            &|client, out, request| client.create_table(out, request, open.transaction, &definition);
        self.operate(exchange, open, what, gsn::CREATE_TABLE_REQ, table, take_object)?;
        Ok(())
    }

    /// Drops a table with its indexes and the tables of its blobs' parts.
    pub fn drop_table(&self, exchange: &mut dyn Exchange, db: &str, name: &str) -> Result<(), Error> {
        let internal = internal_name(db, name)?;
        let what = format!("dropping table {}", shown(&internal));
        let mut attempts = 0;
        loop {
            attempts += 1;
            // Inside the transaction no other client can change what is read here.
            let open = self.begin(exchange, &what)?;
            let steps = self.drop_steps(exchange, open, &what, &internal);
            let outcome = self.end(exchange, open, &what, steps);
            self.cache().forget(|table| table.internal_name == internal);
            match outcome {
                Err(error) if error.code == WRONG_VERSION && attempts < 2 => {}
                outcome => return outcome,
            }
        }
    }

    fn drop_steps(
        &self,
        exchange: &mut dyn Exchange,
        open: Open,
        what: &str,
        internal: &[u8],
    ) -> Result<(), Failed> {
        let transaction = open.transaction;
        let table = self.get_in(exchange, open, what, internal)?;
        let list: Encode<'_> = &|client, out, request| client.list_dependent(out, request, table.id);
        let dependents = self.operate(exchange, open, what, gsn::LIST_TABLES_REQ, list, take_objects)?;
        if let Some(foreign_key) = dependents.iter().find(|object| object.kind == kind::FOREIGN_KEY) {
            let text = format!("{what}: the foreign key {} depends on it", shown(&foreign_key.name));
            return Err(Error::new(own::STILL_IN_USE, text).into());
        }
        let is_index =
            |object: &&Object| [kind::UNIQUE_HASH_INDEX, kind::ORDERED_INDEX].contains(&object.kind);
        for object in dependents.iter().filter(is_index) {
            let get: Encode<'_> =
                &|client, out, request| client.get_by_id(out, request, object.id, transaction.id);
            let index = self.operate(exchange, open, what, gsn::GET_TABINFOREQ, get, take_table)?;
            let drop: Encode<'_> =
                &|client, out, request| client.drop_index(out, request, transaction, index.id, index.version);
            self.operate(exchange, open, what, gsn::DROP_INDX_REQ, drop, take_object)?;
        }
        for name in blob_parts(&table) {
            let parts = self.get_in(exchange, open, what, &name)?;
            self.drop_one(exchange, open, what, &parts)?;
        }
        self.drop_one(exchange, open, what, &table)
    }

    fn drop_one(
        &self,
        exchange: &mut dyn Exchange,
        open: Open,
        what: &str,
        table: &Table,
    ) -> Result<(), Failed> {
        let drop: Encode<'_> = &|client, out, request| {
            client.drop_table(out, request, open.transaction, table.id, table.version)
        };
        self.operate(exchange, open, what, gsn::DROP_TABLE_REQ, drop, take_object).map(|_| ())
    }

    /// Reads a definition by name inside a schema transaction, at the node that runs it.
    fn get_in(
        &self,
        exchange: &mut dyn Exchange,
        open: Open,
        what: &str,
        name: &[u8],
    ) -> Result<Table, Failed> {
        let get: Encode<'_> =
            &|client, out, request| client.get_by_name(out, request, name, open.transaction.id);
        self.operate(exchange, open, what, gsn::GET_TABINFOREQ, get, take_table)
            .map_err(|failed| Failed { error: name_missing(failed.error, name), ..failed })
    }

    /// Forgets a table's definition: an operation found it to be old, or the caller knows it is.
    pub fn invalidate(&self, db: &str, name: &str) {
        if let Ok(internal) = internal_name(db, name) {
            self.cache().forget(|table| table.internal_name == internal);
        }
    }

    /// Forgets the definition of that id and version.
    pub fn invalidate_id(&self, id: ObjectId, version: u32) {
        self.cache().forget(|table| table.is_same_table(id, version));
    }

    /// Takes the news that a table was altered. It comes once from every data node.
    pub fn altered(&self, news: &Altered) {
        self.cache().forget(|table| {
            table.internal_name == news.name && (table.id, table.version) == (news.id, news.version)
        });
    }

    /// Forgets everything: the last link is lost, and what comes back may be another cluster, where an id of
    /// this one can stop a data node.
    pub fn invalidate_all(&self) {
        let mut cache = self.cache();
        cache.forget(|_| true);
        cache.maps.clear();
        self.master.store(0, Ordering::Relaxed);
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The definition of the table with this internal name, as a data node has it now.
    pub fn fetch(&self, exchange: &mut dyn Exchange, internal: &[u8]) -> Result<Table, Error> {
        let what = format!("opening table {}", shown(internal));
        let by_name: Encode<'_> = &|client, out, request| client.get_by_name(out, request, internal, 0);
        let table = self
            .ask_any(exchange, &what, gsn::GET_TABINFOREQ, by_name, take_table)
            .map_err(|error| name_missing(error, internal))?;
        if table.internal_name != internal {
            return unexpected();
        }
        match table.hash_map_id {
            Some((id, version)) if table.fragment_type == FragmentType::HashMap => {
                let map = self.fetch_map(exchange, &what, id, version)?;
                // Another version than the table's: without a map there is no hint, which is never wrong.
                Ok(if map.version == version { table.with_hash_map(map) } else { table })
            }
            _ => Ok(table),
        }
    }

    fn fetch_map(
        &self,
        exchange: &mut dyn Exchange,
        what: &str,
        id: ObjectId,
        version: u32,
    ) -> Result<Arc<HashMap>, Error> {
        let epoch = {
            let cache = self.cache();
            if let Some(map) = cache.maps.get(&(id, version)) {
                return Ok(map.clone());
            }
            cache.epoch
        };
        let by_id: Encode<'_> = &|client, out, request| client.get_by_id(out, request, id, 0);
        let map = self.ask_any(exchange, what, gsn::GET_TABINFOREQ, by_id, take_map)?;
        if map.id != id {
            return unexpected();
        }
        let map = Arc::new(map);
        let mut cache = self.cache();
        if cache.epoch == epoch {
            cache.maps.insert((id, map.version), map.clone());
        }
        Ok(map)
    }

    /// Asks any data node, and the next one when it fails or is busy, until there is an answer.
    fn ask_any<T>(
        &self,
        exchange: &mut dyn Exchange,
        what: &str,
        request: u16,
        encode: Encode<'_>,
        take: impl Fn(Done<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut last = None;
        let mut lost = 0;
        for attempt in 0..ATTEMPTS {
            let nodes = exchange.nodes();
            let Some(&node) = nodes.get(lost % nodes.len().max(1)) else {
                return Err(last.unwrap_or_else(|| no_nodes(what)));
            };
            match self.ask(exchange, node, None, what, request, encode, &take) {
                Ok(value) => return Ok(value),
                Err(Failure::Refused(refusal)) if refusal.code == BUSY => {
                    last = Some(refused(what, &refusal))
                }
                Err(Failure::Refused(refusal) | Failure::TransactionOver(refusal)) => {
                    return Err(refused(what, &refusal));
                }
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::NodeLost) => {
                    last = Some(node_lost(what, node));
                    lost += 1;
                    // Nodes that were not asked yet are asked at once.
                    if lost < nodes.len() {
                        continue;
                    }
                }
            }
            if !exchange.pause(pause_before(attempt)) {
                return Err(stopped());
            }
        }
        Err(last.unwrap_or_else(|| no_nodes(what)))
    }

    /// Sends one request to one node and waits for its answer. Answers to anything else are late, and
    /// dropped.
    #[expect(clippy::too_many_arguments, reason = "the one call that every request goes through")]
    fn ask<T>(
        &self,
        exchange: &mut dyn Exchange,
        node: NodeId,
        open: Option<Open>,
        what: &str,
        request: u16,
        encode: Encode<'_>,
        take: impl Fn(Done<'_>) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let number = self.last_request.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut words = Vec::new();
        encode(Client::new(exchange.reference()), &mut words, number)?;
        if exchange.send(node, &words).is_err() {
            return Err(Failure::NodeLost);
        }
        let deadline = Instant::now() + ANSWER_TIME;
        loop {
            let signal = match exchange.receive(deadline) {
                Received::Signal(_, signal) => signal,
                Received::NodeLost(lost) if lost == node => return Err(Failure::NodeLost),
                Received::NodeLost(_) => continue,
                Received::TimedOut => {
                    let text = format!("{what}: node {node} did not answer in {ANSWER_TIME:?}");
                    return Err(Error::new(ndb::NO_ANSWER, text).into());
                }
                Received::Stopped => return Err(stopped().into()),
            };
            let Some(answered) = dictionary::request_of(signal.header.gsn) else { continue };
            let Ok(answer) = dictionary::decode(signal.header.gsn, &signal.data, &signal.sections) else {
                if answered == request {
                    return Err(malformed(what).into());
                }
                continue;
            };
            if answered == request && answer.to == To::Request(number) {
                return Ok(take(answer.outcome.map_err(Failure::Refused)?)?);
            }
            let over = open.is_some_and(|open| answer.to == To::Transaction(open.transaction.id));
            if let (true, gsn::SCHEMA_TRANS_END_REQ, Err(refusal)) = (over, answered, answer.outcome) {
                return Err(Failure::TransactionOver(refusal));
            }
        }
    }

    /// Opens a schema transaction at the master, which any node can name.
    fn begin(&self, exchange: &mut dyn Exchange, what: &str) -> Result<Open, Error> {
        let mut last = None;
        let mut lost = 0;
        for attempt in 0..ATTEMPTS {
            let nodes = exchange.nodes();
            let known = self.master.load(Ordering::Relaxed) as NodeId;
            let Some(&node) = nodes.iter().find(|&&n| n == known).or(nodes.get(lost % nodes.len().max(1)))
            else {
                return Err(last.unwrap_or_else(|| no_nodes(what)));
            };
            match self.begin_at(exchange, node, what) {
                Ok(transaction) => {
                    self.master.store(node as u32, Ordering::Relaxed);
                    return Ok(Open { transaction, master: node });
                }
                Err(Failure::NodeLost) => {
                    self.master.store(0, Ordering::Relaxed);
                    last = Some(node_lost(what, node));
                    lost += 1;
                }
                Err(Failure::Refused(refusal) | Failure::TransactionOver(refusal)) => {
                    let error = refused(what, &refusal);
                    if ![BUSY, NOT_MASTER, NODE_STARTING].contains(&error.code) {
                        return Err(error);
                    }
                    last = Some(error);
                    if self.learn_master(&refusal, known) && refusal.code == NOT_MASTER {
                        continue;
                    }
                }
                Err(Failure::Final(error)) => return Err(error),
            }
            if !exchange.pause(pause_before(attempt)) {
                return Err(stopped());
            }
        }
        Err(last.unwrap_or_else(|| no_nodes(what)))
    }

    /// Remembers the master that a refusal names; whether that is news.
    fn learn_master(&self, refusal: &Refusal, known: NodeId) -> bool {
        let Some(master) = refusal.master else { return false };
        self.master.store(master as u32, Ordering::Relaxed);
        master != known
    }

    fn begin_at(
        &self,
        exchange: &mut dyn Exchange,
        node: NodeId,
        what: &str,
    ) -> Result<Transaction, Failure> {
        // A number of its own for each attempt: the answer to an earlier one is not taken for this one's.
        let number = (random() as u32).max(1);
        let mut words = Vec::new();
        Client::new(exchange.reference()).begin(&mut words, number)?;
        if exchange.send(node, &words).is_err() {
            return Err(Failure::NodeLost);
        }
        let wait = Wait { what, number, request: gsn::SCHEMA_TRANS_BEGIN_REQ, time: ANSWER_TIME };
        match wait.run(exchange, Some(node))? {
            Some(transaction) => Ok(transaction),
            None => Ok(unexpected()?),
        }
    }

    /// One operation inside a schema transaction.
    fn operate<T>(
        &self,
        exchange: &mut dyn Exchange,
        open: Open,
        what: &str,
        request: u16,
        encode: Encode<'_>,
        take: impl Fn(Done<'_>) -> Result<T, Error>,
    ) -> Result<T, Failed> {
        let mut last = None;
        let mut node = open.master;
        for attempt in 0..ATTEMPTS {
            match self.ask(exchange, node, Some(open), what, request, encode, &take) {
                Ok(value) => return Ok(value),
                Err(Failure::Refused(refusal)) => {
                    let error = refused(what, &refusal);
                    let again = matches!(error.code, BUSY | NOT_MASTER)
                        || (error.code == NOT_YET_DROPPABLE && request == gsn::DROP_TABLE_REQ);
                    if !again {
                        return Err(error.into());
                    }
                    last = Some(error);
                    if refusal.code == NOT_MASTER {
                        self.learn_master(&refusal, node);
                        node = refusal.master.unwrap_or(node);
                    }
                }
                Err(Failure::TransactionOver(refusal)) => {
                    self.learn_master(&refusal, node);
                    return Err(Failed { error: refused(what, &refusal), over: true });
                }
                Err(Failure::NodeLost) => return Err(self.master_lost(what, node)),
                Err(Failure::Final(error)) => return Err(error.into()),
            }
            if !exchange.pause(pause_before(attempt)) {
                return Err(stopped().into());
            }
        }
        Err(last.unwrap_or_else(|| no_nodes(what)).into())
    }

    /// The node that runs the transaction failed: its successor undoes it.
    fn master_lost(&self, what: &str, node: NodeId) -> Failed {
        self.master.store(0, Ordering::Relaxed);
        Failed { error: node_lost(what, node), over: true }
    }

    /// Ends a schema transaction: commits when its steps went well, else undoes them and gives their error.
    fn end(
        &self,
        exchange: &mut dyn Exchange,
        open: Open,
        what: &str,
        steps: Result<(), Failed>,
    ) -> Result<(), Error> {
        match steps {
            Ok(()) => self.send_end(exchange, open, what, true),
            Err(failed) => {
                if !failed.over {
                    // What went wrong first is what the caller must know; nodes undo by themselves what is
                    // left.
                    let _ = self.send_end(exchange, open, what, false);
                }
                Err(failed.error)
            }
        }
    }

    fn send_end(
        &self,
        exchange: &mut dyn Exchange,
        open: Open,
        what: &str,
        commit: bool,
    ) -> Result<(), Error> {
        let mut node = open.master;
        for attempt in 0..ATTEMPTS {
            let mut words = Vec::new();
            let encoded = Client::new(exchange.reference()).end(&mut words, open.transaction, commit);
            if encoded.is_err() || exchange.send(node, &words).is_err() {
                return Err(self.master_lost(what, node).error);
            }
            let time = if commit { END_TIME } else { ANSWER_TIME };
            let number = open.transaction.id;
            let wait = Wait { what, number, request: gsn::SCHEMA_TRANS_END_REQ, time };
            // The failure of the node asked ends nothing: its successor reports how the transaction ended.
            match wait.run(exchange, None) {
                Ok(_) => return Ok(()),
                Err(Failure::Refused(refusal) | Failure::TransactionOver(refusal)) => {
                    self.learn_master(&refusal, node);
                    match refusal.master {
                        Some(master) if refusal.code == NOT_MASTER => node = master,
                        _ => return Err(refused(what, &refusal)),
                    }
                }
                Err(Failure::Final(error)) if error.code == ndb::NO_ANSWER => {
                    let text = format!("{what}: whether it was done is not known");
                    return Err(Error::new(ndb::UNKNOWN_RESULT, text));
                }
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::NodeLost) => return Err(self.master_lost(what, node).error),
            }
            if !exchange.pause(pause_before(attempt)) {
                return Err(stopped());
            }
        }
        Err(Error::new(NOT_MASTER, format!("{what}: no data node is the master")))
    }
}

/// Waiting for the answer that begins or ends a schema transaction.
struct Wait<'a> {
    what: &'a str,
    number: u32,
    request: u16,
    time: Duration,
}

impl Wait<'_> {
    /// The transaction, when it has begun. The loss of `node` ends the wait.
    fn run(&self, exchange: &mut dyn Exchange, node: Option<NodeId>) -> Result<Option<Transaction>, Failure> {
        let deadline = Instant::now() + self.time;
        loop {
            let signal = match exchange.receive(deadline) {
                Received::Signal(_, signal) => signal,
                Received::NodeLost(lost) if node == Some(lost) => return Err(Failure::NodeLost),
                Received::NodeLost(_) => continue,
                Received::TimedOut => {
                    let text = format!("{}: no answer in {:?}", self.what, self.time);
                    return Err(Error::new(ndb::NO_ANSWER, text).into());
                }
                Received::Stopped => return Err(stopped().into()),
            };
            if dictionary::request_of(signal.header.gsn) != Some(self.request) {
                continue;
            }
            let answer = dictionary::decode(signal.header.gsn, &signal.data, &signal.sections)
                .map_err(|_| malformed(self.what))?;
            if answer.to != To::Transaction(self.number) {
                continue;
            }
            return match answer.outcome.map_err(Failure::Refused)? {
                Done::Begun(transaction) => Ok(Some(transaction)),
                _ => Ok(None),
            };
        }
    }
}

/// Why the steps of a schema transaction ended early.
struct Failed {
    error: Error,
    /// Whether the transaction is gone already, so that nothing must end it.
    over: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed { error, over: false }
    }
}

fn malformed(what: &str) -> Error {
    Error::new(own::MALFORMED_REPLY, format!("{what}: an answer that does not follow the protocol"))
}

fn node_lost(what: &str, node: NodeId) -> Error {
    Error::new(ndb::WAIT_NODE_FAILURE, format!("{what}: node {node} failed before it answered"))
}

/// A clear word for the error that nearly everybody meets.
fn name_missing(error: Error, internal: &[u8]) -> Error {
    if error.code != ndb::NO_SUCH_TABLE {
        return error;
    }
    Error::new(error.code, format!("no such table: {}", shown(internal)))
}

/// The names of the tables that hold a table's blob parts.
fn blob_parts(table: &Table) -> Vec<Vec<u8>> {
    let (database, schema, _) = table.names();
    let blobs = table.columns.iter().filter(|column| column.kind.is_blob() && column.scale != 0);
    blobs
        .map(|column| {
            let parts = format!("NDB$BLOB_{}_{}", table.id.number(), column.id);
            [database, schema, parts.as_bytes()].join(&b'/')
        })
        .collect()
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
