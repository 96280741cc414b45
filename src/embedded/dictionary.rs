//! The dictionary block: definitions, lists, schema transactions. One dictionary serves all nodes of a set;
//! the node with the lowest id among those that work is its master, as the oldest is among real ones.
//! Sources: storage/ndb/src/kernel/blocks/dbdict/Dbdict.cpp,
//! storage/ndb/include/kernel/signaldata/{GetTabInfo,
//! ListTables,SchemaTrans,CreateHashMap,CreateTable,DropTable}.hpp.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Options;
use super::outgoing::{FRAGMENT_WORDS, Outgoing};
use super::shared::{Shared, Status};
use super::table::{Refused, Table};
use crate::wire::block::{DBDICT, block_of, node_of, reference};
use crate::wire::properties::Writer;
use crate::wire::requests::Fault;
use crate::wire::requests::dictionary::{InTransaction, Request, What};
use crate::wire::signal::Fragment;
use crate::wire::{NodeId, RNIL, gsn};

/// Ids that a node has room for: a real one stops when it is asked for one beyond.
pub const MAX_OBJECTS: u32 = 889;
/// The first id that is given out.
const FIRST_ID: u32 = 1;
const MAX_NAME: u32 = 4096;
const USER_TABLE: u32 = 2;
const HASH_MAP: u32 = 24;
const STATE_BUILDING: u32 = 2;
const STATE_ONLINE: u32 = 4;
const LOGGED: u32 = 2;

/// Keys of a hash map's items.
mod map_key {
    pub const NAME: u16 = 1;
    pub const BYTES: u16 = 2;
    pub const VALUES: u16 = 3;
    pub const ID: u16 = 153;
    pub const VERSION: u16 = 154;
}

/// Error codes of the dictionary.
mod code {
    pub const WRONG_VERSION: u32 = 241;
    pub const BUSY: u32 = 701;
    pub const NOT_MASTER: u32 = 702;
    pub const NAME_TOO_LONG: u32 = 702;
    pub const OUT_OF_OBJECTS: u32 = 707;
    pub const NO_SUCH_ID: u32 = 709;
    pub const NODE_STARTING: u32 = 711;
    pub const EXISTS: u32 = 721;
    pub const NOT_DEFINED: u32 = 723;
    pub const WRONG_FRAGMENTS: u32 = 772;
    pub const NO_SUCH_KEY: u32 = 781;
    pub const NO_SUCH_TRANSACTION: u32 = 782;
    pub const BUSY_OBJECT: u32 = 785;
    pub const MASTER_FAILED: u32 = 787;
    pub const WRONG_HASH_MAP: u32 = 790;
    pub const NOT_FULLY_REPLICATED: u32 = 797;
    pub const NOT_IMPLEMENTED: u32 = 4003;
}

/// The dictionary.
#[derive(Debug)]
pub struct Schema {
    state: Mutex<State>,
    /// Grows with each committed change.
    version: AtomicU64,
    nodes: NodeId,
    replicas: NodeId,
    partitions: u32,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<u32, Object>,
    /// The version that an id had last.
    versions: BTreeMap<u32, u32>,
    open: Option<Open>,
    last_key: u32,
}

#[derive(Debug, Clone)]
struct Object {
    name: Vec<u8>,
    version: u32,
    state: ObjectState,
    what: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ObjectState {
    Building,
    Online,
    Dropping,
}

#[derive(Debug, Clone)]
enum Kind {
    Table(Arc<Table>),
    HashMap(Arc<[u16]>),
}

impl Object {
    fn kind(&self) -> u32 {
        match self.what {
            Kind::Table(_) => USER_TABLE,
            Kind::HashMap(_) => HASH_MAP,
        }
    }
}

/// The schema transaction that is open; there is one at a time.
#[derive(Debug, Clone, Copy)]
struct Open {
    id: u32,
    key: u32,
    reference: u32,
}

/// What an operation inside a schema transaction came to: an object's id and version.
type Done = Result<(u32, u32), Refused>;

const fn refused<T>(code: u32) -> Result<T, Refused> {
    Err(Refused { code, key: 0 })
}

impl Schema {
    /// An empty dictionary.
    pub fn new(options: &Options) -> Self {
        Schema {
            state: Mutex::default(),
            version: AtomicU64::new(1),
            nodes: options.nodes,
            replicas: options.replicas,
            partitions: options.partitions as u32,
        }
    }

    /// Changes whenever [`Schema::tables`] does.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The tables that can be used, by id.
    pub fn tables(&self) -> Vec<Option<Arc<Table>>> {
        let state = self.lock();
        let mut tables = Vec::new();
        for (&id, object) in &state.objects {
            if let (Kind::Table(table), ObjectState::Online | ObjectState::Dropping) =
                (&object.what, object.state)
            {
                tables.resize(id as usize, None);
                tables.push(Some(table.clone()));
            }
        }
        tables
    }

    /// All nodes were down: nothing is left.
    pub fn clear(&self) {
        *self.lock() = State::default();
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client is gone: its schema transaction is undone.
    pub fn client_failed(&self, client: NodeId) {
        let mut state = self.lock();
        if state.open.is_some_and(|open| node_of(open.reference) == client) {
            state.end(false);
        }
    }

    /// The master is gone: the open schema transaction is undone. Its client is to be told by the new master.
    pub fn master_failed(&self, shared: &Shared, own: NodeId) -> Option<(NodeId, u16, [u32; 6])> {
        let mut state = self.lock();
        let open = state.open?;
        state.end(false);
        let own_reference = reference(DBDICT, own);
        let data = [own_reference, open.id, code::MASTER_FAILED, 0, own as u32, shared.master() as u32];
        Some((node_of(open.reference), block_of(open.reference), data))
    }

    /// The fragments of a partition balance, and whether it is one of those there are.
    fn fragments(&self, balance: u32) -> Option<u32> {
        let (groups, replicas) = ((self.nodes / self.replicas) as u32, self.replicas as u32);
        Some(match balance {
            0xffff_fffe => groups * replicas * self.partitions,
            0xffff_fffd => groups * self.partitions,
            0xffff_fffc => groups * replicas,
            0xffff_fffb => groups,
            0xffff_fffa => groups * self.partitions * 2,
            0xffff_fff9 => groups * self.partitions * 3,
            0xffff_fff8 => groups * self.partitions * 4,
            count @ 1..=8160 => count,
            _ => return None,
        })
    }

    /// Answers one request of a client.
    pub fn answer(
        &self,
        shared: &Shared,
        own: NodeId,
        number: u16,
        request: &Request<'_>,
        out: &mut Outgoing,
    ) -> Result<(), Fault> {
        let answer = Answer { own, master: shared.master(), request, out };
        let own_is_master = answer.master == own;
        match request.what {
            What::GetById { id, .. } if id >= MAX_OBJECTS => {
                Err(Fault("GET_TABINFOREQ for an id past the schema file"))
            }
            What::GetById { id, transaction } => {
                self.get(answer, [2, id], transaction, |_, found| found == id);
                Ok(())
            }
            What::GetByName { name, length, transaction } => {
                if length > MAX_NAME {
                    answer.no_definition([3, length], transaction, code::NAME_TOO_LONG);
                } else {
                    self.get(answer, [3, length], transaction, |object, _| Some(&object.name[..]) == name);
                }
                Ok(())
            }
            What::List { names, dependent_on, kind } => {
                self.list(answer, names, dependent_on.is_some(), kind);
                Ok(())
            }
            What::Begin => {
                let starting = shared.nodes.iter().any(|node| node.status() == Status::Starting);
                answer.begun(match () {
                    () if !own_is_master => Err(code::NOT_MASTER),
                    () if starting => Err(code::NODE_STARTING),
                    () => self.lock().begin(request),
                });
                Ok(())
            }
            What::End { key, abort } => {
                let ended =
                    if own_is_master { self.end(request.number, key, abort) } else { Err(code::NOT_MASTER) };
                answer.ended(ended);
                Ok(())
            }
            What::CreateHashMap { transaction, info, fragments } => {
                let made = self
                    .inside(own_is_master, transaction, |state| self.create_hash_map(state, info, fragments));
                answer.hash_map(transaction.id, made);
                Ok(())
            }
            What::CreateTable { transaction, definition } => {
                let known = |balance| self.fragments(balance).is_some();
                let made = self.inside(own_is_master, transaction, |state| {
                    let table = Table::parse(definition)?;
                    if table.balance != u32::MAX && !known(table.balance) {
                        return Ok(None);
                    }
                    self.create_table(state, table).map(Some)
                });
                let made = match made {
                    Ok(None) => return Err(Fault("CREATE_TABLE_REQ with an unknown partition balance")),
                    Ok(Some(made)) => Ok(made),
                    Err(refused) => Err(refused),
                };
                answer.table(gsn::CREATE_TABLE_CONF, gsn::CREATE_TABLE_REF, transaction.id, made);
                Ok(())
            }
            What::DropTable { transaction, id, version } => {
                let dropped = self.inside(own_is_master, transaction, |state| state.drop_table(id, version));
                answer.dropped(gsn::DROP_TABLE_REF, transaction.id, id, version, dropped);
                Ok(())
            }
            What::Other { transaction } => {
                // Indexes and alterations are not there; the client is told so.
                let no =
                    self.inside(own_is_master, transaction, |_| refused::<(u32, u32)>(code::NOT_IMPLEMENTED));
                let refusal = no.err().unwrap_or(Refused { code: code::NOT_IMPLEMENTED, key: 0 });
                match number {
                    gsn::DROP_INDX_REQ => {
                        answer.dropped(gsn::DROP_INDX_REF, transaction.id, 0, 0, Err(refusal))
                    }
                    gsn::ALTER_TABLE_REQ => {
                        answer.table(0, gsn::ALTER_TABLE_REF, transaction.id, Err(refusal))
                    }
                    _ => answer.index_refused(transaction.id, refusal),
                }
                Ok(())
            }
        }
    }

    fn get(
        &self,
        answer: Answer<'_, '_>,
        echo: [u32; 2],
        transaction: u32,
        wanted: impl Fn(&Object, u32) -> bool,
    ) {
        let state = self.lock();
        let own = state.open.is_some_and(|open| open.id == transaction && transaction != 0);
        let found = state.objects.iter().find(|&(&id, object)| wanted(object, id));
        match found {
            Some((_, object)) if object.state == ObjectState::Dropping && !own => {
                answer.no_definition(echo, transaction, code::BUSY_OBJECT);
            }
            Some((&id, object)) if object.state != ObjectState::Building || own => {
                let words = match &object.what {
                    Kind::Table(table) => table.definition(),
                    Kind::HashMap(buckets) => hash_map_definition(id, object, buckets),
                };
                let kind = object.kind();
                drop(state);
                answer.definition(id, kind, &words);
            }
            _ => answer.no_definition(echo, transaction, code::NOT_DEFINED),
        }
    }

    fn list(&self, answer: Answer<'_, '_>, names: bool, dependent: bool, kind: u32) {
        let state = self.lock();
        let wanted = |object: &Object| !dependent && (kind == 0 || object.kind() == kind);
        let entries: Vec<_> = state
            .objects
            .iter()
            .filter(|(_, object)| wanted(object))
            .map(|(&id, object)| {
                let shown = if object.state == ObjectState::Building { STATE_BUILDING } else { STATE_ONLINE };
                let entry = [LOGGED << 20 | shown << 24, id, object.kind()];
                (entry, if names { name_words(&object.name) } else { Vec::new() })
            })
            .collect();
        drop(state);
        answer.list(&entries);
    }

    fn end(&self, id: u32, key: u32, abort: bool) -> Result<(), u32> {
        let mut state = self.lock();
        state.in_transaction(InTransaction { id, key }).map_err(|refused| refused.code)?;
        state.end(!abort);
        drop(state);
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Does an operation inside the open schema transaction.
    fn inside<T>(
        &self,
        own_is_master: bool,
        transaction: InTransaction,
        operation: impl FnOnce(&mut State) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        if !own_is_master {
            return refused(code::NOT_MASTER);
        }
        let mut state = self.lock();
        state.in_transaction(transaction)?;
        operation(&mut state)
    }

    fn create_hash_map(&self, state: &mut State, info: u32, fragments: u32) -> Done {
        const DEFAULT: u32 = 2;
        const ONE_NODE_GROUP: u32 = 8;
        if info & DEFAULT == 0 {
            return refused(code::NOT_IMPLEMENTED);
        }
        let Some(mut count) = self.fragments(fragments) else { return refused(code::WRONG_FRAGMENTS) };
        if info & ONE_NODE_GROUP != 0 {
            count /= (self.nodes / self.replicas) as u32;
        }
        state.default_hash_map(count)
    }

    fn create_table(&self, state: &mut State, mut table: Table) -> Done {
        if state.objects.values().any(|object| object.name == table.name) {
            return refused(code::EXISTS);
        }
        let groups = self.nodes / self.replicas;
        if table.fully_replicated && groups > 1 {
            return refused(code::NOT_FULLY_REPLICATED);
        }
        let wanted = if table.balance == u32::MAX { table.wanted_fragments } else { table.balance };
        let Some(fragments) = self.fragments(wanted) else { return refused(code::WRONG_FRAGMENTS) };
        let map = match table.hash_map {
            (RNIL | u32::MAX, _) => state.find_default_hash_map(fragments),
            (id, version) => Some((id, version)),
        };
        let Some((map, version)) = map else { return refused(code::WRONG_HASH_MAP) };
        let buckets = match state.objects.get(&map) {
            Some(Object { version: found, what: Kind::HashMap(buckets), .. }) if *found == version => {
                buckets.clone()
            }
            _ => return refused(code::WRONG_HASH_MAP),
        };
        if buckets.iter().max().is_none_or(|&most| most as u32 >= fragments) {
            return refused(code::WRONG_FRAGMENTS);
        }
        table.hash_map = (map, version);
        table.buckets = buckets;
        table.place(fragments, self.replicas, groups);
        let (id, version) = state.new_id()?;
        (table.id, table.version) = (id, version);
        state.insert(id, version, table.name.clone(), Kind::Table(Arc::new(table)));
        Ok((id, version))
    }
}

impl State {
    fn begin(&mut self, request: &Request<'_>) -> Result<u32, u32> {
        if self.open.is_some() {
            return Err(code::BUSY);
        }
        self.last_key += 1;
        let open = Open { id: request.number, key: self.last_key, reference: request.reference };
        self.open = Some(open);
        Ok(open.key)
    }

    fn in_transaction(&self, wanted: InTransaction) -> Result<(), Refused> {
        match self.open {
            Some(open) if open.key != wanted.key => refused(code::NO_SUCH_KEY),
            Some(open) if open.id != wanted.id => refused(code::NO_SUCH_TRANSACTION),
            Some(_) => Ok(()),
            None => refused(code::NO_SUCH_KEY),
        }
    }

    fn end(&mut self, commit: bool) {
        let gone = if commit { ObjectState::Dropping } else { ObjectState::Building };
        self.objects.retain(|_, object| object.state != gone);
        self.objects.values_mut().for_each(|object| object.state = ObjectState::Online);
        self.open = None;
    }

    /// The lowest free id, and the version of what it is given to.
    fn new_id(&mut self) -> Result<(u32, u32), Refused> {
        let Some(id) = (FIRST_ID..MAX_OBJECTS).find(|id| !self.objects.contains_key(id)) else {
            return refused(code::OUT_OF_OBJECTS);
        };
        let version = (self.versions.get(&id).unwrap_or(&0) & 0x00ff_ffff) + 1;
        self.versions.insert(id, version);
        Ok((id, version))
    }

    fn insert(&mut self, id: u32, version: u32, name: Vec<u8>, what: Kind) {
        self.objects.insert(id, Object { name, version, state: ObjectState::Building, what });
    }

    fn find_default_hash_map(&self, partitions: u32) -> Option<(u32, u32)> {
        let name = default_hash_map_name(partitions);
        self.objects.iter().find(|(_, object)| object.name == name).map(|(&id, object)| (id, object.version))
    }

    fn default_hash_map(&mut self, partitions: u32) -> Done {
        if let Some(found) = self.find_default_hash_map(partitions) {
            return Ok(found);
        }
        let buckets = (0..bucket_count(partitions)).map(|bucket| (bucket % partitions) as u16).collect();
        let (id, version) = self.new_id()?;
        self.insert(id, version, default_hash_map_name(partitions), Kind::HashMap(buckets));
        Ok((id, version))
    }

    fn drop_table(&mut self, id: u32, version: u32) -> Done {
        if id >= MAX_OBJECTS {
            return refused(code::NO_SUCH_ID);
        }
        match self.objects.get_mut(&id) {
            Some(object) if object.kind() != USER_TABLE || object.state != ObjectState::Online => {
                refused(code::NOT_DEFINED)
            }
            Some(object) if object.version != version => refused(code::WRONG_VERSION),
            Some(object) => {
                object.state = ObjectState::Dropping;
                Ok((id, version))
            }
            None => refused(code::NOT_DEFINED),
        }
    }
}

const fn bucket_count(partitions: u32) -> u32 {
    if partitions > 1536 { 23040 } else { 3840 }
}

fn default_hash_map_name(partitions: u32) -> Vec<u8> {
    format!("DEFAULT-HASHMAP-{}-{partitions}", bucket_count(partitions)).into_bytes()
}

fn hash_map_definition(id: u32, object: &Object, buckets: &[u16]) -> Vec<u32> {
    let values: Vec<u8> = buckets.iter().flat_map(|fragment| fragment.to_le_bytes()).collect();
    let mut out = Writer::new();
    out.string(map_key::NAME, &object.name)
        .u32(map_key::BYTES, values.len() as u32)
        .u32(map_key::ID, id)
        .u32(map_key::VERSION, object.version)
        .binary(map_key::VALUES, &values);
    out.finish()
}

/// A name in a list: its length with its NUL, its bytes up to a whole word.
fn name_words(name: &[u8]) -> Vec<u32> {
    let length = name.len() + 1;
    let mut words = vec![0; 1 + length.div_ceil(4)];
    words[0] = length as u32;
    bytemuck::cast_slice_mut::<u32, u8>(&mut words[1..])[..name.len()].copy_from_slice(name);
    words
}

/// Writes the answer to one request.
struct Answer<'a, 'b> {
    own: NodeId,
    master: NodeId,
    request: &'a Request<'b>,
    out: &'a mut Outgoing,
}

impl Answer<'_, '_> {
    fn send(self, number: u16, data: &[u32], sections: &[&[u32]]) {
        self.out.dictionary(number, block_of(self.request.reference), data, sections);
    }

    fn reference(&self) -> u32 {
        reference(DBDICT, self.own)
    }

    fn nodes(&self) -> [u32; 2] {
        [self.own as u32, self.master as u32]
    }

    fn definition(self, id: u32, kind: u32, words: &[u32]) {
        let data = [self.request.number, id, 0, words.len() as u32, kind, self.reference()];
        self.send(gsn::GET_TABINFO_CONF, &data, &[words]);
    }

    fn no_definition(self, echo: [u32; 2], transaction: u32, code: u32) {
        let data = [self.request.number, self.reference(), echo[0], echo[1], transaction, code, 0];
        self.send(gsn::GET_TABINFOREF, &data, &[]);
    }

    fn list(self, entries: &[([u32; 3], Vec<u32>)]) {
        let id = self.out.fragment_id();
        let receiver = block_of(self.request.reference);
        // Every part holds whole objects, as many as fit.
        let mut parts: Vec<(Vec<u32>, Vec<u32>)> = vec![Default::default()];
        for (entry, name) in entries {
            let full = parts.last().is_some_and(|(data, names)| {
                !data.is_empty() && data.len() + 3 + names.len() + name.len() > FRAGMENT_WORDS
            });
            if full {
                parts.push(Default::default());
            }
            if let Some((data, names)) = parts.last_mut() {
                data.extend(entry);
                names.extend(name);
            }
        }
        let last = parts.len() - 1;
        for (at, (data, names)) in parts.iter().enumerate() {
            let fragment = match at {
                _ if last == 0 => Fragment::Whole,
                0 => Fragment::First,
                _ if at == last => Fragment::Last,
                _ => Fragment::Middle,
            };
            let sections: Vec<&[u32]> =
                [&data[..], &names[..]].into_iter().filter(|section| !section.is_empty()).collect();
            let mut words = vec![self.request.number, data.len() as u32 / 3];
            words.extend(0..sections.len() as u32);
            words.push(id);
            self.out.part(gsn::LIST_TABLES_CONF, receiver, fragment, &words, &sections);
        }
    }

    fn begun(self, result: Result<u32, u32>) {
        match result {
            Ok(key) => {
                let data = [self.reference(), self.request.number, key];
                self.send(gsn::SCHEMA_TRANS_BEGIN_CONF, &data, &[]);
            }
            Err(code) => self.transaction_refused(gsn::SCHEMA_TRANS_BEGIN_REF, code),
        }
    }

    fn ended(self, result: Result<(), u32>) {
        match result {
            Ok(()) => {
                let data = [self.reference(), self.request.number];
                self.send(gsn::SCHEMA_TRANS_END_CONF, &data, &[]);
            }
            Err(code) => self.transaction_refused(gsn::SCHEMA_TRANS_END_REF, code),
        }
    }

    fn transaction_refused(self, number: u16, code: u32) {
        let [own, master] = self.nodes();
        let data = [self.reference(), self.request.number, code, 0, own, master];
        self.send(number, &data, &[]);
    }

    fn hash_map(self, transaction: u32, result: Done) {
        let [own, master] = self.nodes();
        let (reference, number) = (self.reference(), self.request.number);
        match result {
            Ok((id, version)) => {
                self.send(gsn::CREATE_HASH_MAP_CONF, &[reference, number, id, version, transaction], &[]);
            }
            Err(Refused { code, key }) => {
                let data = [reference, number, transaction, master, own, code, 0, key as u32, 0];
                self.send(gsn::CREATE_HASH_MAP_REF, &data, &[]);
            }
        }
    }

    fn table(self, conf: u16, no: u16, transaction: u32, result: Done) {
        let [own, master] = self.nodes();
        let (reference, number) = (self.reference(), self.request.number);
        match result {
            Ok((id, version)) => self.send(conf, &[reference, number, transaction, id, version], &[]),
            Err(Refused { code, key }) => {
                let data = [reference, number, transaction, code, 0, own, master, 0, key as u32];
                self.send(no, &data, &[]);
            }
        }
    }

    fn dropped(self, no: u16, transaction: u32, id: u32, version: u32, result: Done) {
        let [own, master] = self.nodes();
        let (reference, number) = (self.reference(), self.request.number);
        match result {
            Ok((id, version)) => {
                self.send(gsn::DROP_TABLE_CONF, &[reference, number, transaction, id, version], &[]);
            }
            Err(Refused { code, .. }) => {
                let data = [reference, number, transaction, id, version, code, 0, own, master];
                self.send(no, &data, &[]);
            }
        }
    }

    fn index_refused(self, transaction: u32, refusal: Refused) {
        let [own, master] = self.nodes();
        let data = [self.reference(), self.request.number, transaction, refusal.code, 0, own, master];
        self.send(gsn::CREATE_INDX_REF, &data, &[]);
    }
}
