//! The rows of one node: fragments, row locks, the writes of transactions that have not ended. What the
//! primary node of a row does, and what its backups do. Sources:
//! storage/ndb/src/kernel/blocks/dblqh/DblqhMain.cpp, src/kernel/blocks/dbacc/DbaccMain.cpp,
//! src/kernel/blocks/dbtup/DbtupExecQuery.cpp.
//!
//! A write makes a new row beside the committed one; backups are told the row, not the write. Replicas lock
//! as the primary does, so that two nodes that both take themselves for the primary for a moment cannot
//! disagree: one of their transactions waits until it is timed out.
//!
//! A transaction's abort goes to the nodes that were given operations; each passes it on to the backups that
//! it has told rows, behind what it told them. A commit goes to all.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hashbrown::HashTable;

use super::messages::{
    FragmentCopy, LockMode, Message, Operation, Orphan, PendingCopy, Report, RowCopy, Tag, Work,
};
use super::row::{self, Surroundings};
use super::table::{Place, Table};
use super::wires::Wires;
use crate::wire::block::node_of;
use crate::wire::registration::NodeSet;
use crate::wire::requests::key::Kind;
use crate::wire::transaction::TransId;
use crate::wire::{NodeId, RNIL};

const NOT_FOUND: i32 = 626;
const EXISTS: i32 = 630;
const ROW_LOCKED: i32 = 635;
const TABLE_DROPPED: i32 = 1226;

/// The words of a key and of the row behind it.
type Image = Arc<[u32]>;

/// A committed row.
#[derive(Debug)]
struct Row {
    hash: u32,
    key_words: u32,
    words: Image,
}

impl Row {
    #[inline]
    fn key(&self) -> &[u32] {
        &self.words[..self.key_words as usize]
    }

    #[inline]
    fn columns(&self) -> &[u32] {
        &self.words[self.key_words as usize..]
    }
}

/// A hash of 32 bits spread over 64.
#[inline]
fn spread(hash: u32) -> u64 {
    (hash as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[derive(Debug, Default)]
struct Fragment {
    rows: HashTable<Row>,
    locks: HashMap<Box<[u32]>, Lock>,
    commits: u64,
}

/// Who has a row locked, who waits for it, and what becomes of it at the commit.
#[derive(Debug, Default)]
struct Lock {
    owners: Vec<(TransId, bool)>,
    waiting: VecDeque<Waiting>,
    pending: Option<Pending>,
}

/// The row as the transaction that has it locked has made it; none when it has removed it.
#[derive(Debug)]
struct Pending {
    tag: Tag,
    place: Place,
    image: Option<Image>,
}

#[derive(Debug)]
struct Waiting {
    transid: TransId,
    exclusive: bool,
    work: Locked,
}

/// What needs a lock.
#[derive(Debug)]
enum Locked {
    Operation(Operation),
    Replica { tag: Tag, place: Place, image: Option<Image> },
}

impl Lock {
    fn grants(&self, transid: TransId, exclusive: bool) -> bool {
        self.owners.iter().all(|&(owner, alone)| owner == transid || !(exclusive || alone))
    }

    fn owns(&self, transid: TransId) -> bool {
        self.owners.iter().any(|&(owner, _)| owner == transid)
    }

    fn own(&mut self, transid: TransId, exclusive: bool) {
        match self.owners.iter_mut().find(|(owner, _)| *owner == transid) {
            Some((_, alone)) => *alone |= exclusive,
            None => self.owners.push((transid, exclusive)),
        }
    }

    fn idle(&self) -> bool {
        self.owners.is_empty() && self.waiting.is_empty()
    }
}

impl Fragment {
    #[inline]
    fn find(&self, hash: u32, key: &[u32]) -> Option<&Row> {
        match *key {
            // The usual key, compared without a call.
            [word] => self.rows.find(spread(hash), |row| row.hash == hash && row.key() == [word]),
            _ => self.rows.find(spread(hash), |row| row.hash == hash && row.key() == key),
        }
    }

    fn surroundings(&self, fragment: u32) -> Surroundings {
        Surroundings { fragment, rows: self.rows.len() as u64, commits: self.commits }
    }

    fn apply(&mut self, place: Place, key: &[u32], image: Option<Image>) {
        let hash = place.hash;
        self.commits += 1;
        let found = self.rows.find_entry(spread(hash), |row| row.hash == hash && row.key() == key);
        match (found, image) {
            (Ok(mut entry), Some(words)) => entry.get_mut().words = words,
            (Ok(entry), None) => drop(entry.remove()),
            (Err(_), Some(words)) => {
                let row = Row { hash, key_words: key.len() as u32, words };
                self.rows.insert_unique(spread(hash), row, |row| spread(row.hash));
            }
            (Err(_), None) => {}
        }
    }
}

/// A table as this node has it.
#[derive(Debug)]
struct Local {
    table: Arc<Table>,
    fragments: Vec<Fragment>,
}

/// A transaction as this node knows it.
#[derive(Debug)]
struct Participant {
    tag: Tag,
    /// The rows it has locked or waits for.
    rows: Vec<(u32, u32, Box<[u32]>)>,
    writes: bool,
    /// Backups that this node has told rows of it.
    backups: NodeSet,
    /// Nodes that have copied this one's rows meanwhile: the coordinator knows nothing of them.
    followers: NodeSet,
}

/// The rows of a node.
#[derive(Debug)]
pub struct Storage {
    own: NodeId,
    tables: Vec<Option<Local>>,
    transactions: HashMap<TransId, Participant>,
    /// Committed transactions whose clients have not said yet that they know.
    markers: HashMap<TransId, Tag>,
    /// Nodes that are told rows.
    up: NodeSet,
    row: Vec<u32>,
}

impl Storage {
    /// A storage without rows.
    pub fn new(own: NodeId, up: NodeSet) -> Self {
        Storage {
            own,
            tables: Vec::new(),
            transactions: HashMap::new(),
            markers: HashMap::new(),
            up,
            row: Vec::new(),
        }
    }

    /// Makes room for new tables, and forgets those that are gone.
    pub fn set_tables(&mut self, tables: &[Option<Arc<Table>>]) {
        self.tables.resize_with(tables.len(), || None);
        for (local, table) in self.tables.iter_mut().zip(tables) {
            match (&local, table) {
                (Some(old), Some(new)) if old.table.version == new.version => {}
                (_, Some(table)) => {
                    let fragments = table.fragments.iter().map(|_| Fragment::default()).collect();
                    *local = Some(Local { table: table.clone(), fragments });
                }
                (_, None) => *local = None,
            }
        }
    }

    #[inline]
    fn fragment(&mut self, table: &Table, fragment: u32) -> Option<&mut Fragment> {
        let local = self.tables.get_mut(table.id as usize)?.as_mut()?;
        if local.table.version != table.version {
            return None;
        }
        local.fragments.get_mut(fragment as usize)
    }

    /// A committed read: the row, if there is one, goes to the client.
    #[inline]
    pub fn read_committed(
        &mut self,
        tag: &Tag,
        table: &Table,
        place: Place,
        key: &[u32],
        attributes: &[u32],
        wires: &mut Wires,
    ) {
        let mut out = std::mem::take(&mut self.row);
        out.clear();
        let read = match self.fragment(table, place.fragment) {
            None => Err(TABLE_DROPPED),
            Some(fragment) => match fragment.visible(tag.transid, place.hash, key) {
                None => Err(NOT_FOUND),
                Some(row) => {
                    row::read(table, row, attributes, &fragment.surroundings(place.fragment), &mut out)
                }
            },
        };
        match read {
            Ok(()) => wires.row(tag, &out),
            Err(code) => wires.refused_read(tag, code),
        }
        self.row = out;
    }

    /// Does what a message asks.
    pub fn work(&mut self, work: Work, wires: &mut Wires) {
        match work {
            Work::Operate(operation) if operation.lock == LockMode::Committed => {
                let Operation { tag, table, place, key, attributes, .. } = &operation;
                self.read_committed(tag, table, *place, key, attributes, wires);
            }
            Work::Operate(operation) => {
                let (table, place, key) = (operation.table.clone(), operation.place, operation.key.clone());
                self.lock(&table, place, &key, operation.tag, Locked::Operation(operation), wires);
            }
            Work::Replicate { tag, table, place, key, image } => {
                self.lock(&table, place, &key, tag, Locked::Replica { tag, place, image }, wires);
            }
            Work::Commit(coordinator, connect, transid) => {
                self.end(coordinator, connect, transid, true, wires);
                wires.report(coordinator, Report::Committed(self.own, connect, transid));
            }
            Work::Abort(coordinator, connect, transid) => {
                self.end(coordinator, connect, transid, false, wires);
                wires.report(coordinator, Report::Aborted(self.own, connect, transid));
            }
            Work::Forget(transactions) => {
                for transid in transactions {
                    self.markers.remove(&transid);
                }
            }
        }
    }

    fn lock(
        &mut self,
        table: &Arc<Table>,
        place: Place,
        key: &[u32],
        tag: Tag,
        work: Locked,
        wires: &mut Wires,
    ) {
        let transid = tag.transid;
        let (exclusive, no_wait) = match &work {
            Locked::Operation(operation) => (operation.lock == LockMode::Exclusive, operation.no_wait),
            Locked::Replica { .. } => (true, false),
        };
        let Some(fragment) = self.fragment(table, place.fragment) else {
            return wires.report(tag.coordinator, Report::Failed(tag, TABLE_DROPPED));
        };
        let lock = fragment.locks.entry(key.into()).or_default();
        let owned = lock.owns(transid);
        let granted = lock.grants(transid, exclusive) && (owned || lock.waiting.is_empty());
        if !granted && no_wait {
            return wires.report(tag.coordinator, Report::Failed(tag, ROW_LOCKED));
        }
        let participant = self.transactions.entry(transid).or_insert_with(|| Participant {
            tag,
            rows: Vec::new(),
            writes: false,
            backups: NodeSet::default(),
            followers: NodeSet::default(),
        });
        if !owned {
            participant.rows.push((table.id, place.fragment, key.into()));
        }
        if granted {
            self.granted(table, place.fragment, key, work, wires);
            self.pump(table, place.fragment, key, wires);
        } else if let Some(lock) =
            self.fragment(table, place.fragment).and_then(|fragment| fragment.locks.get_mut(key))
        {
            let waiting = Waiting { transid, exclusive, work };
            // Who has the row already goes first: those before it cannot be served anyway.
            if owned { lock.waiting.push_front(waiting) } else { lock.waiting.push_back(waiting) }
        }
    }

    /// Does what has got its lock.
    fn granted(&mut self, table: &Arc<Table>, number: u32, key: &[u32], work: Locked, wires: &mut Wires) {
        match work {
            Locked::Operation(operation) => self.operate(table, number, key, operation, wires),
            Locked::Replica { tag, place, image } => {
                let own = self.own;
                if let Some(participant) = self.transactions.get_mut(&tag.transid) {
                    participant.writes = true;
                }
                let Some(fragment) = self.fragment(table, number) else { return };
                let lock = fragment.locks.entry(key.into()).or_default();
                lock.own(tag.transid, true);
                lock.pending = Some(Pending { tag, place, image });
                wires.report(tag.coordinator, Report::Replicated(own, tag));
            }
        }
    }

    fn operate(
        &mut self,
        table: &Arc<Table>,
        number: u32,
        key: &[u32],
        operation: Operation,
        wires: &mut Wires,
    ) {
        let (tag, transid) = (operation.tag, operation.tag.transid);
        let mut out = std::mem::take(&mut self.row);
        out.clear();
        let Some(fragment) = self.fragment(table, number) else { return };
        let around = fragment.surroundings(number);
        let result = change(table, fragment.newest(operation.place.hash, key), &operation, &around, &mut out);
        let lock = fragment.locks.entry(key.into()).or_default();
        let image = match result {
            Ok(_) if operation.lock == LockMode::Simple => Ok(None),
            Ok(image) => {
                lock.own(transid, operation.lock == LockMode::Exclusive);
                Ok(image)
            }
            Err(code) => Err(code),
        };
        match image {
            Err(code) => wires.report(tag.coordinator, Report::Failed(tag, code)),
            Ok(change) => {
                let words = out.len() as u32;
                if words > 0 {
                    wires.row(&tag, &out);
                }
                let mut backups = NodeSet::default();
                if let Some(image) = change {
                    lock.pending = Some(Pending { tag, place: operation.place, image: image.clone() });
                    backups = self.replicate(table, &operation, key, image, wires);
                }
                wires.report(tag.coordinator, Report::Done { tag, words, backups });
            }
        }
        self.row = out;
    }

    /// Tells the backups a row; gives who they are.
    fn replicate(
        &mut self,
        table: &Arc<Table>,
        operation: &Operation,
        key: &[u32],
        image: Option<Image>,
        wires: &mut Wires,
    ) -> NodeSet {
        let nodes = table.fragments.get(operation.place.fragment as usize);
        let own = self.own;
        let backups: NodeSet = nodes
            .into_iter()
            .flatten()
            .copied()
            .filter(|&node| node != own && self.up.contains(node))
            .collect();
        if let Some(participant) = self.transactions.get_mut(&operation.tag.transid) {
            participant.writes = true;
            backups.iter().for_each(|node| participant.backups.insert(node));
        }
        for node in backups.iter() {
            let (tag, place) = (operation.tag, operation.place);
            let work =
                Work::Replicate { tag, table: table.clone(), place, key: key.into(), image: image.clone() };
            wires.send(node, Message::Storage(work));
        }
        backups
    }

    /// Serves who waits for a row, as far as that is possible; forgets a lock that nobody wants.
    fn pump(&mut self, table: &Arc<Table>, number: u32, key: &[u32], wires: &mut Wires) {
        while let Some(fragment) = self.fragment(table, number) {
            let Some(lock) = fragment.locks.get_mut(key) else { return };
            let next = match lock.waiting.front() {
                Some(waiting) if lock.grants(waiting.transid, waiting.exclusive) => lock.waiting.pop_front(),
                _ => None,
            };
            match next {
                Some(waiting) => self.granted(table, number, key, waiting.work, wires),
                None => {
                    if lock.idle() {
                        fragment.locks.remove(key);
                    }
                    return;
                }
            }
        }
    }

    /// Ends a transaction here.
    fn end(&mut self, coordinator: NodeId, connect: u32, transid: TransId, commit: bool, wires: &mut Wires) {
        let Some(participant) = self.transactions.remove(&transid) else { return };
        if commit && participant.writes {
            self.markers.insert(transid, Tag { coordinator, connect, ..participant.tag });
        }
        for node in participant.followers.iter() {
            let work = if commit { Work::Commit } else { Work::Abort };
            wires.send(node, Message::Storage(work(coordinator, RNIL, transid)));
        }
        for node in participant.backups.iter().filter(|_| !commit) {
            wires.send(node, Message::Storage(Work::Abort(coordinator, RNIL, transid)));
        }
        for (table, number, key) in participant.rows {
            let Some(Some(local)) = self.tables.get_mut(table as usize) else { continue };
            let table = local.table.clone();
            let Some(fragment) = local.fragments.get_mut(number as usize) else { continue };
            let Some(lock) = fragment.locks.get_mut(&key) else { continue };
            lock.waiting.retain(|waiting| waiting.transid != transid);
            if lock.owns(transid) {
                lock.owners.retain(|&(owner, _)| owner != transid);
                let pending = lock.pending.take_if(|pending| pending.tag.transid == transid);
                if let Some(pending) = pending.filter(|_| commit) {
                    fragment.apply(pending.place, &key, pending.image);
                }
            }
            self.pump(&table, number, &key, wires);
        }
    }

    /// A node works again, and is told rows.
    pub fn node_started(&mut self, node: NodeId) {
        self.up.insert(node);
    }

    /// A client is gone: nobody will say that it knows its commits.
    pub fn client_failed(&mut self, client: NodeId) {
        self.markers.retain(|_, tag| node_of(tag.reference) != client);
    }

    /// A node is gone: the transactions here whose coordinators do not work, for who takes them over.
    pub fn node_failed(&mut self, node: NodeId) -> Vec<Orphan> {
        self.up.remove(node);
        let up = &self.up;
        let open = self.transactions.values().map(|participant| (participant.tag, false));
        let over = self.markers.values().map(|tag| (*tag, true));
        open.chain(over)
            .filter(|(tag, _)| !up.contains(tag.coordinator))
            .map(|(tag, committed)| Orphan { tag, committed })
            .collect()
    }

    /// The rows that a starting node has replicas of, where this node is their primary. From now on it is
    /// told every change of them.
    pub fn snapshot(&mut self, node: NodeId, started: &NodeSet) -> Vec<FragmentCopy> {
        self.up.insert(node);
        let mut copies = Vec::new();
        for local in self.tables.iter().flatten() {
            for (number, (nodes, fragment)) in local.table.fragments.iter().zip(&local.fragments).enumerate()
            {
                let primary = nodes.iter().find(|&&other| other != node && started.contains(other));
                if !nodes.contains(&node) || primary != Some(&self.own) {
                    continue;
                }
                let rows = fragment.rows.iter().map(|row| RowCopy {
                    hash: row.hash,
                    key_words: row.key_words as usize,
                    words: row.words.clone(),
                });
                let rows = rows.collect();
                let mut pending = Vec::new();
                for (key, lock) in &fragment.locks {
                    let Some(found) = &lock.pending else { continue };
                    let (key, image) = (key.clone(), found.image.clone());
                    pending.push(PendingCopy { tag: found.tag, place: found.place, key, image });
                    if let Some(participant) = self.transactions.get_mut(&found.tag.transid) {
                        participant.followers.insert(node);
                    }
                }
                let fragment = number as u32;
                copies.push(FragmentCopy { table: local.table.clone(), fragment, rows, pending });
            }
        }
        copies
    }

    /// Takes over the rows that another node has copied for this one.
    pub fn load(&mut self, copies: Vec<FragmentCopy>) {
        for FragmentCopy { table, fragment: number, rows, pending } in copies {
            let Some(fragment) = self.fragment(&table, number) else { continue };
            for RowCopy { hash, key_words, words } in rows {
                let key = words.clone();
                fragment.apply(Place { hash, fragment: number }, &key[..key_words], Some(words));
            }
            for PendingCopy { tag, place, key, image } in pending {
                let Some(fragment) = self.fragment(&table, number) else { continue };
                let lock = fragment.locks.entry(key.clone()).or_default();
                lock.own(tag.transid, true);
                lock.pending = Some(Pending { tag, place, image });
                let participant = self.transactions.entry(tag.transid).or_insert_with(|| Participant {
                    tag,
                    rows: Vec::new(),
                    writes: true,
                    backups: NodeSet::default(),
                    followers: NodeSet::default(),
                });
                participant.rows.push((table.id, number, key));
            }
        }
    }
}

impl Fragment {
    /// The row that a committed read of this transaction sees: the committed one, or its own.
    #[inline]
    fn visible(&self, transid: TransId, hash: u32, key: &[u32]) -> Option<&[u32]> {
        if !self.locks.is_empty()
            && let Some(Lock { pending: Some(pending), .. }) = self.locks.get(key)
            && pending.tag.transid == transid
        {
            return pending.image.as_ref().map(|image| &image[key.len()..]);
        }
        self.find(hash, key).map(Row::columns)
    }

    /// The row that whoever has it locked sees.
    fn newest(&self, hash: u32, key: &[u32]) -> Option<&[u32]> {
        match self.locks.get(key) {
            Some(Lock { pending: Some(pending), .. }) => {
                pending.image.as_ref().map(|image| &image[key.len()..])
            }
            _ => self.find(hash, key).map(Row::columns),
        }
    }
}

/// What an operation makes of a row: nothing for a read, else the new row or its absence. What it reads goes
/// to `out`.
fn change(
    table: &Table,
    current: Option<&[u32]>,
    operation: &Operation,
    around: &Surroundings,
    out: &mut Vec<u32>,
) -> Result<Option<Option<Image>>, i32> {
    let attributes = &operation.attributes;
    let image =
        |row: Vec<u32>| -> Option<Image> { Some(operation.key.iter().chain(&row).copied().collect()) };
    match (operation.kind, current) {
        (Kind::Insert, Some(_)) => Err(EXISTS),
        (Kind::Insert | Kind::Write, None) => Ok(Some(image(row::write(table, None, attributes)?))),
        (_, None) => Err(NOT_FOUND),
        (Kind::Update | Kind::Write, Some(row)) => Ok(Some(image(row::write(table, Some(row), attributes)?))),
        (Kind::Delete, Some(row)) => {
            row::read(table, row, attributes, around, out)?;
            Ok(Some(None))
        }
        (_, Some(row)) => {
            row::read(table, row, attributes, around, out)?;
            Ok(None)
        }
    }
}
