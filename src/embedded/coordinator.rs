//! The transaction coordinator of one node: coordinator records, the batches of a transaction, its commit and
//! abort, and the take-over of transactions whose coordinator failed. Source:
//! storage/ndb/src/kernel/blocks/dbtc/DbtcMain.cpp.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::messages::{LockMode, Message, Operation, Orphan, Report, Tag, Work};
use super::outgoing::COORDINATOR;
use super::storage::Storage;
use super::table::Table;
use super::wires::Wires;
use crate::wire::block::{block_of, node_of, reference};
use crate::wire::registration::NodeSet;
use crate::wire::requests::key::{KeyRequest, Kind};
use crate::wire::requests::{Fault, OfTransaction, Release, Seize};
use crate::wire::transaction::TransId;
use crate::wire::{NodeId, RNIL, gsn};

/// Records that one client can have: MaxNoOfConcurrentTransactions.
const MAX_RECORDS: u32 = 4096;
/// Operations that a transaction can have under way.
const MAX_OPERATIONS: usize = 32768;
/// Operations in one TCKEYCONF.
const CONFIRMED_AT_ONCE: usize = 3;
const READ_BY: u32 = 0x8000_0000;
const COMMITTED: u32 = 1 << 16;
const MARKER: u32 = 1 << 17;

/// Error codes.
mod code {
    pub const NO_RECORD: i32 = 219;
    pub const WRONG_RECORD: u32 = 229;
    pub const COMMIT_RUNS: i32 = 230;
    pub const TOO_LATE: i32 = 232;
    pub const TOO_MANY_OPERATIONS: i32 = 233;
    pub const OVER: i32 = 237;
    pub const WRONG_VERSION: i32 = 241;
    pub const OPERATIONS_RUN: i32 = 253;
    pub const LOCK_TIMEOUT: i32 = 266;
    pub const NO_TABLE: i32 = 284;
    pub const NODE_FAILED: i32 = 286;
    pub const NO_INSTANCE: i32 = 289;
    pub const BAD_KEY: i32 = 290;
    pub const NO_FRAGMENT: i32 = 311;
    pub const NO_PRIMARY: i32 = 1204;
    pub const NOT_IMPLEMENTED: i32 = 4003;
}

/// Where a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// There is none. The last one was committed, or not.
    Idle { committed: bool },
    /// It takes operations.
    Open,
    /// Nodes commit it.
    Committing,
    /// Nodes abort it.
    Aborting,
    /// It was aborted, which its client is told when it sends the end of a batch.
    Aborted,
}

/// What the client waits for at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// TCKEYCONF with the commit, or TCROLLBACKREP.
    Batch,
    /// TC_COMMITCONF or TC_COMMITREF.
    Commit,
    /// TCROLLBACKCONF.
    Rollback,
    /// Nothing: the client is gone, or has given the record back.
    Nothing,
}

/// An operation that is under way.
#[derive(Debug)]
struct Running {
    operation: u32,
    ignore_error: bool,
    write: bool,
    locks: bool,
    /// Words of its row, once the primary is done.
    words: Option<u32>,
    /// Backups that have not confirmed.
    missing: NodeSet,
    /// Backups that have confirmed before the primary did.
    early: NodeSet,
}

/// A coordinator record.
#[derive(Debug)]
struct Record {
    /// The client; 0 for a free record.
    client: NodeId,
    reference: u32,
    client_id: u32,
    phase: Phase,
    transid: TransId,
    ending: Ending,
    /// Why it was aborted.
    code: i32,
    /// The end of the batch is here.
    executed: bool,
    /// The commit rides on the batch.
    commit: bool,
    /// It has changed rows.
    writes: bool,
    /// It has rows locked.
    locks: bool,
    running: Vec<Running>,
    confirmed: Vec<[u32; 2]>,
    /// Nodes that were given operations.
    primaries: NodeSet,
    /// Nodes that were told rows.
    backups: NodeSet,
    /// Nodes whose commit or abort is still to come.
    waiting: NodeSet,
    touched: Instant,
}

/// The take-over of the transactions of nodes that failed.
#[derive(Debug, Default)]
struct TakeOver {
    failed: Vec<NodeId>,
    reported: NodeSet,
    orphans: HashMap<TransId, Orphan>,
}

/// The coordinator of a node.
#[derive(Debug)]
pub struct Coordinator {
    own: NodeId,
    records: Vec<Record>,
    free: Vec<u32>,
    counts: HashMap<NodeId, u32>,
    tables: Vec<Option<Arc<Table>>>,
    started: NodeSet,
    acknowledged: Vec<TransId>,
    take_over: TakeOver,
    lock_timeout: Duration,
    normal: Vec<u32>,
    /// The time of this round.
    pub now: Instant,
}

impl Coordinator {
    /// A coordinator without records.
    pub fn new(own: NodeId, started: NodeSet, lock_timeout: Duration) -> Self {
        Coordinator {
            own,
            records: Vec::new(),
            free: Vec::new(),
            counts: HashMap::new(),
            tables: Vec::new(),
            started,
            acknowledged: Vec::new(),
            take_over: TakeOver::default(),
            lock_timeout,
            normal: Vec::new(),
            now: Instant::now(),
        }
    }

    /// The tables that operations can name.
    pub fn set_tables(&mut self, tables: Vec<Option<Arc<Table>>>) {
        self.tables = tables;
    }

    /// The nodes that work, as this node knows.
    pub fn started(&self) -> &NodeSet {
        &self.started
    }

    /// A node works again.
    pub fn node_started(&mut self, node: NodeId) {
        self.started.insert(node);
    }

    /// TCSEIZEREQ.
    pub fn seize(&mut self, request: &Seize, wires: &mut Wires) {
        let client = node_of(request.reference);
        let count = self.counts.entry(client).or_default();
        let refusal = match () {
            () if request.instance > 1 => Some(code::NO_INSTANCE),
            () if *count >= MAX_RECORDS => Some(code::NO_RECORD),
            () => None,
        };
        if let Some(code) = refusal {
            return wires.coordinator(request.reference, gsn::TCSEIZEREF, &[request.client, code as u32]);
        }
        *count += 1;
        let record = Record {
            client,
            reference: request.reference,
            client_id: request.client,
            phase: Phase::Idle { committed: false },
            transid: [0; 2],
            ending: Ending::Batch,
            code: 0,
            executed: false,
            commit: false,
            writes: false,
            locks: false,
            running: Vec::new(),
            confirmed: Vec::new(),
            primaries: NodeSet::default(),
            backups: NodeSet::default(),
            waiting: NodeSet::default(),
            touched: self.now,
        };
        let connect = match self.free.pop() {
            Some(connect) => {
                self.records[connect as usize] = record;
                connect
            }
            None => {
                self.records.push(record);
                self.records.len() as u32 - 1
            }
        };
        let data = [request.client, connect, reference(COORDINATOR, self.own)];
        wires.coordinator(request.reference, gsn::TCSEIZECONF, &data);
    }

    fn record(&mut self, connect: u32, client: NodeId) -> Result<&mut Record, Fault> {
        match self.records.get_mut(connect as usize) {
            Some(record) if record.client == client => Ok(record),
            _ => Err(Fault("a request for a coordinator record that is not the client's")),
        }
    }

    /// TCRELEASEREQ. The reply to a busy record's transaction will be lost.
    pub fn release(&mut self, request: &Release, wires: &mut Wires) {
        let client = node_of(request.reference);
        if self.record(request.connect, client).is_err() {
            let data = [request.client, code::WRONG_RECORD, 0];
            return wires.coordinator(request.reference, gsn::TCRELEASEREF, &data);
        }
        self.give_up(request.connect, wires);
        wires.coordinator(request.reference, gsn::TCRELEASECONF, &[request.client]);
    }

    /// Takes a record back; what is open on it is aborted, what is being committed is committed.
    fn give_up(&mut self, connect: u32, wires: &mut Wires) {
        let record = &mut self.records[connect as usize];
        if let Some(count) = self.counts.get_mut(&record.client) {
            *count = count.saturating_sub(1);
        }
        record.ending = Ending::Nothing;
        match record.phase {
            Phase::Open => self.abort(connect, 0, wires),
            Phase::Idle { .. } | Phase::Aborted => self.free_record(connect),
            Phase::Committing | Phase::Aborting => {}
        }
    }

    fn free_record(&mut self, connect: u32) {
        let record = &mut self.records[connect as usize];
        if record.client != 0 {
            record.client = 0;
            record.phase = Phase::Idle { committed: false };
            self.free.push(connect);
        }
    }

    /// TCKEYREQ.
    #[inline]
    pub fn key_request(
        &mut self,
        request: &KeyRequest<'_>,
        client: NodeId,
        failure: Option<i32>,
        storage: &mut Storage,
        wires: &mut Wires,
    ) -> Result<(), Fault> {
        let now = self.now;
        let record = self.record(request.connect, client)?;
        if request.info.start() {
            match record.phase {
                Phase::Idle { .. } => record.begin(request.transid),
                _ => {
                    return Err(Fault(
                        "TCKEYREQ starts a transaction on a record whose last one is not over",
                    ));
                }
            }
        } else if record.transid != request.transid {
            return Err(Fault("TCKEYREQ of another transaction than the record's"));
        }
        record.touched = now;
        match record.phase {
            Phase::Open => {}
            Phase::Aborting | Phase::Aborted => {
                record.executed |= request.info.execute();
                if record.phase == Phase::Aborted {
                    self.aborted(request.connect, wires);
                }
                return Ok(());
            }
            Phase::Idle { committed: false } => {
                // Sent before the client knew that the transaction was aborted.
                if request.info.execute() {
                    record.reject(code::OVER, wires);
                }
                return Ok(());
            }
            Phase::Idle { committed: true } | Phase::Committing => {
                return Err(Fault("TCKEYREQ for a transaction that is committed"));
            }
        }
        if record.commit {
            return Err(Fault("TCKEYREQ behind the one that the commit rides on"));
        }
        if request.info.execute() {
            record.executed = true;
            record.commit = request.info.commit();
        }
        match self.start(request, failure, storage, wires) {
            Ok(()) => self.advance(request.connect, wires),
            Err(code) => self.abort(request.connect, code, wires),
        }
        Ok(())
    }

    /// Sends an operation on its way. An error here always aborts the transaction.
    #[inline]
    fn start(
        &mut self,
        request: &KeyRequest<'_>,
        failure: Option<i32>,
        storage: &mut Storage,
        wires: &mut Wires,
    ) -> Result<(), i32> {
        let info = request.info;
        let table = match self.tables.get(request.table as usize) {
            Some(Some(table)) if (table.version ^ request.version) & 0x00ff_ffff == 0 => table,
            Some(Some(_)) => return Err(code::WRONG_VERSION),
            _ => return Err(code::NO_TABLE),
        };
        let lock = match info.kind() {
            Kind::Refresh | Kind::Unlock => return Err(code::NOT_IMPLEMENTED),
            _ if info.interpreted() || info.of_scan() => return Err(code::NOT_IMPLEMENTED),
            Kind::Read if info.committed_read() => LockMode::Committed,
            Kind::Read if info.simple() => LockMode::Simple,
            Kind::Read => LockMode::Shared,
            _ => LockMode::Exclusive,
        };
        let mut normal = std::mem::take(&mut self.normal);
        let located = table.locate(request.key, &mut normal).map(|(place, key)| match request.distribution {
            Some(fragment) => (super::table::Place { fragment, ..place }, key),
            None => (place, key),
        });
        let result = match located {
            None => Err(code::BAD_KEY),
            Some((place, key)) => {
                let record = &mut self.records[request.connect as usize];
                let tag = Tag {
                    coordinator: self.own,
                    connect: request.connect,
                    transid: request.transid,
                    operation: request.operation,
                    reference: record.reference,
                };
                let nodes = table.fragments.get(place.fragment as usize).ok_or(code::NO_FRAGMENT);
                let started = &self.started;
                let reader = nodes.and_then(|nodes| {
                    let own = lock == LockMode::Committed && table.read_backup && nodes.contains(&self.own);
                    let first = nodes.iter().copied().find(|&node| started.contains(node));
                    if own { Ok(self.own) } else { first.ok_or(code::NO_PRIMARY) }
                });
                match reader {
                    Err(code) => Err(code),
                    Ok(node) if lock == LockMode::Committed => {
                        record.confirm(request.operation, READ_BY | node as u32, wires);
                        if let Some(code) = failure {
                            wires.refused_read(&tag, code);
                        } else if node == self.own {
                            storage.read_committed(&tag, table, place, key, request.attributes, wires);
                        } else {
                            let operation = Operation {
                                tag,
                                table: table.clone(),
                                place,
                                kind: Kind::Read,
                                lock,
                                key: key.into(),
                                attributes: request.attributes.into(),
                                no_wait: false,
                            };
                            wires.send(node, Message::Storage(Work::Operate(operation)));
                        }
                        Ok(())
                    }
                    Ok(_) if failure.is_some() => {
                        let code = failure.unwrap_or_default();
                        if info.ignore_error() {
                            record.refuse(request.operation, code, wires);
                            Ok(())
                        } else {
                            Err(code)
                        }
                    }
                    Ok(_) if record.running.len() >= MAX_OPERATIONS => Err(code::TOO_MANY_OPERATIONS),
                    Ok(node) => {
                        record.primaries.insert(node);
                        record.running.push(Running {
                            operation: request.operation,
                            ignore_error: info.ignore_error(),
                            write: !matches!(info.kind(), Kind::Read | Kind::ReadExclusive),
                            locks: lock != LockMode::Simple,
                            words: None,
                            missing: NodeSet::default(),
                            early: NodeSet::default(),
                        });
                        let operation = Operation {
                            tag,
                            table: table.clone(),
                            place,
                            kind: info.kind(),
                            lock,
                            key: key.into(),
                            attributes: request.attributes.into(),
                            no_wait: info.no_wait(),
                        };
                        wires.send(node, Message::Storage(Work::Operate(operation)));
                        Ok(())
                    }
                }
            }
        };
        self.normal = normal;
        result
    }

    /// Goes on when nothing is under way any more: confirms what is done, and commits if that is asked for.
    #[inline]
    fn advance(&mut self, connect: u32, wires: &mut Wires) {
        let record = &mut self.records[connect as usize];
        if record.phase != Phase::Open || !record.running.is_empty() {
            return;
        }
        if record.commit {
            record.ending = Ending::Batch;
            self.commit_now(connect, wires);
        } else if std::mem::take(&mut record.executed) || !record.confirmed.is_empty() {
            record.send_confirmations(0, [0; 2], wires);
        }
    }

    fn commit_now(&mut self, connect: u32, wires: &mut Wires) {
        let own = self.own;
        let record = &mut self.records[connect as usize];
        if record.primaries.is_empty() {
            return self.committed(connect, wires);
        }
        record.phase = Phase::Committing;
        record.waiting = record.primaries;
        record.backups.iter().for_each(|node| record.waiting.insert(node));
        for node in record.waiting.iter() {
            let work = Work::Commit(own, connect, record.transid);
            wires.send(node, Message::Storage(work));
        }
    }

    /// All nodes have committed.
    fn committed(&mut self, connect: u32, wires: &mut Wires) {
        let record = &mut self.records[connect as usize];
        record.phase = Phase::Idle { committed: true };
        let checkpoint = if record.locks { wires.checkpoint() } else { [0; 2] };
        match record.ending {
            Ending::Nothing => self.free_record(connect),
            Ending::Commit => {
                let client = record.client_id | record.writes as u32;
                let [a, b] = record.transid;
                let data = [client, a, b, checkpoint[0], checkpoint[1]];
                wires.coordinator(record.reference, gsn::TC_COMMITCONF, &data);
            }
            Ending::Batch | Ending::Rollback => record.send_confirmations(COMMITTED, checkpoint, wires),
        }
    }

    /// Aborts a transaction; its client is told when all nodes have done so.
    fn abort(&mut self, connect: u32, code: i32, wires: &mut Wires) {
        let record = &mut self.records[connect as usize];
        record.phase = Phase::Aborting;
        record.code = code;
        record.running.clear();
        record.confirmed.clear();
        record.waiting = match code {
            // The failed node cannot pass the abort on to its backups.
            code::NODE_FAILED => self.started,
            _ => record.primaries,
        };
        for node in record.waiting.iter() {
            wires.send(node, Message::Storage(Work::Abort(self.own, connect, record.transid)));
        }
        if record.waiting.is_empty() {
            self.aborted(connect, wires);
        }
    }

    /// All nodes have aborted, or the client is there to hear of it.
    fn aborted(&mut self, connect: u32, wires: &mut Wires) {
        let record = &mut self.records[connect as usize];
        let [a, b] = record.transid;
        let idle = Phase::Idle { committed: false };
        match record.ending {
            Ending::Nothing => self.free_record(connect),
            Ending::Rollback => {
                record.phase = idle;
                wires.coordinator(record.reference, gsn::TCROLLBACKCONF, &[record.client_id, a, b]);
            }
            Ending::Commit => {
                record.phase = idle;
                let data = [record.client_id, a, b, record.code as u32];
                wires.coordinator(record.reference, gsn::TC_COMMITREF, &data);
            }
            Ending::Batch if record.executed => {
                record.phase = idle;
                record.reject(record.code, wires);
            }
            Ending::Batch => record.phase = Phase::Aborted,
        }
    }

    /// TC_COMMITREQ.
    pub fn commit(&mut self, request: OfTransaction, client: NodeId, wires: &mut Wires) -> Result<(), Fault> {
        let record = self.record(request.connect, client)?;
        if record.transid != request.transid {
            return Ok(());
        }
        let [a, b] = record.transid;
        let refuse = |record: &Record, code: i32, wires: &mut Wires| {
            let data = [record.client_id, a, b, code as u32];
            wires.coordinator(record.reference, gsn::TC_COMMITREF, &data);
        };
        match record.phase {
            Phase::Open => {
                record.ending = Ending::Commit;
                match record.running.is_empty() && !record.executed {
                    true => self.commit_now(request.connect, wires),
                    false => self.abort(request.connect, code::OPERATIONS_RUN, wires),
                }
            }
            Phase::Aborted => {
                record.phase = Phase::Idle { committed: false };
                refuse(record, record.code, wires);
            }
            Phase::Idle { committed: false } => refuse(record, code::OVER, wires),
            Phase::Committing => refuse(record, code::COMMIT_RUNS, wires),
            Phase::Aborting => record.ending = Ending::Commit,
            Phase::Idle { committed: true } => {}
        }
        Ok(())
    }

    /// TCROLLBACKREQ.
    pub fn rollback(
        &mut self,
        request: OfTransaction,
        client: NodeId,
        wires: &mut Wires,
    ) -> Result<(), Fault> {
        let record = self.record(request.connect, client)?;
        if record.transid != request.transid {
            return Ok(());
        }
        let [a, b] = record.transid;
        match record.phase {
            Phase::Open => {
                record.ending = Ending::Rollback;
                self.abort(request.connect, 0, wires);
            }
            Phase::Aborting => record.ending = Ending::Rollback,
            Phase::Aborted | Phase::Idle { .. } => {
                record.phase = Phase::Idle { committed: false };
                wires.coordinator(record.reference, gsn::TCROLLBACKCONF, &[record.client_id, a, b]);
            }
            Phase::Committing => {
                let data = [record.client_id, a, b, code::TOO_LATE as u32, 0];
                wires.coordinator(record.reference, gsn::TCROLLBACKREF, &data);
            }
        }
        Ok(())
    }

    /// TC_HBREP.
    pub fn heartbeat(&mut self, request: OfTransaction, client: NodeId) -> Result<(), Fault> {
        let now = self.now;
        self.record(request.connect, client)?.touched = now;
        Ok(())
    }

    /// TC_COMMIT_ACK: nodes forget the transaction, at the end of the round.
    pub fn acknowledge(&mut self, transid: TransId) {
        self.acknowledged.push(transid);
    }

    /// The round is over: tells what clients have acknowledged.
    pub fn end_round(&mut self, wires: &mut Wires) {
        if self.acknowledged.is_empty() {
            return;
        }
        let acknowledged = std::mem::take(&mut self.acknowledged);
        for node in self.started.iter() {
            wires.send(node, Message::Storage(Work::Forget(acknowledged.clone())));
        }
    }

    /// What a storage reports.
    pub fn report(&mut self, report: Report, wires: &mut Wires) {
        match report {
            Report::Done { tag, words, mut backups } => {
                let up = self.started;
                let Some((record, at)) = self.running(&tag) else { return };
                let running = &mut record.running[at];
                running.words = Some(words);
                record.writes |= running.write;
                record.locks |= running.locks;
                backups.iter().for_each(|node| record.backups.insert(node));
                running.early.iter().for_each(|node| backups.remove(node));
                // A starting node is told rows, but what it says does not count yet.
                running.missing = backups.iter().filter(|&node| up.contains(node)).collect();
                self.complete(&tag, wires);
            }
            Report::Replicated(node, tag) => {
                let Some((record, at)) = self.running(&tag) else { return };
                record.running[at].early.insert(node);
                record.running[at].missing.remove(node);
                self.complete(&tag, wires);
            }
            Report::Failed(tag, code) => {
                let Some((record, at)) = self.running(&tag) else { return };
                if record.running.swap_remove(at).ignore_error {
                    record.refuse(tag.operation, code, wires);
                    self.advance(tag.connect, wires);
                } else {
                    self.abort(tag.connect, code, wires);
                }
            }
            Report::Committed(node, connect, transid) => {
                if self.ended(node, connect, transid, Phase::Committing) {
                    self.committed(connect, wires);
                }
            }
            Report::Aborted(node, connect, transid) => {
                if self.ended(node, connect, transid, Phase::Aborting) {
                    self.aborted(connect, wires);
                }
            }
        }
    }

    fn running(&mut self, tag: &Tag) -> Option<(&mut Record, usize)> {
        let now = self.now;
        let record = self.records.get_mut(tag.connect as usize)?;
        if record.client == 0 || record.transid != tag.transid || record.phase != Phase::Open {
            return None;
        }
        record.touched = now;
        let at = record.running.iter().position(|running| running.operation == tag.operation)?;
        Some((record, at))
    }

    /// Confirms an operation if its primary and all its backups are done.
    fn complete(&mut self, tag: &Tag, wires: &mut Wires) {
        let Some((record, at)) = self.running(tag) else { return };
        let running = &record.running[at];
        let (Some(words), true) = (running.words, running.missing.is_empty()) else { return };
        record.running.swap_remove(at);
        record.confirm(tag.operation, words, wires);
        self.advance(tag.connect, wires);
    }

    /// Counts a node's end of a transaction; whether it was the last.
    fn ended(&mut self, node: NodeId, connect: u32, transid: TransId, phase: Phase) -> bool {
        let Some(record) = self.records.get_mut(connect as usize) else { return false };
        if record.client == 0 || record.transid != transid || record.phase != phase {
            return false;
        }
        record.waiting.remove(node);
        record.waiting.is_empty()
    }

    /// Aborts transactions that have waited too long. Nodes take turns, the one that has waited longest
    /// first, so that of those that wait for each other only one is aborted; what waits twice as long needs
    /// no turn.
    pub fn time_out(&mut self, mut turn: impl FnMut() -> bool, wires: &mut Wires) {
        let waits =
            |record: &Record| record.client != 0 && record.phase == Phase::Open && !record.running.is_empty();
        let records = (0u32..).zip(&self.records).filter(|(_, record)| waits(record));
        let mut late: Vec<_> = records
            .map(|(connect, record)| (self.now.saturating_duration_since(record.touched), connect))
            .filter(|(waited, _)| *waited > self.lock_timeout)
            .collect();
        late.sort_unstable_by_key(|&(waited, _)| std::cmp::Reverse(waited));
        for (waited, connect) in late {
            if waited > 2 * self.lock_timeout || turn() {
                self.abort(connect, code::LOCK_TIMEOUT, wires);
            }
        }
    }

    /// A client is gone: its transactions are aborted, its records taken back.
    pub fn client_failed(&mut self, client: NodeId, wires: &mut Wires) {
        for connect in 0..self.records.len() as u32 {
            if self.records[connect as usize].client == client {
                self.give_up(connect, wires);
            }
        }
        self.counts.remove(&client);
    }

    /// A node is gone: transactions that it had a part in are aborted, or go on without it.
    pub fn node_failed(&mut self, node: NodeId, wires: &mut Wires) {
        self.started.remove(node);
        for connect in 0..self.records.len() as u32 {
            let record = &mut self.records[connect as usize];
            if record.client == 0 {
                continue;
            }
            let part = record.primaries.contains(node) || record.backups.contains(node);
            record.waiting.remove(node);
            match record.phase {
                Phase::Open if part => self.abort(connect, code::NODE_FAILED, wires),
                Phase::Committing if record.waiting.is_empty() => self.committed(connect, wires),
                Phase::Aborting if record.waiting.is_empty() => self.aborted(connect, wires),
                _ => {}
            }
        }
    }

    /// The transactions of failed coordinators that a node knows. When all nodes have told theirs, they are
    /// ended, and their clients told: committed if any node had committed, else aborted.
    pub fn orphans(&mut self, from: NodeId, failed: NodeId, orphans: Vec<Orphan>, wires: &mut Wires) {
        let take_over = &mut self.take_over;
        if !take_over.failed.contains(&failed) {
            take_over.failed.push(failed);
            take_over.reported = NodeSet::default();
        }
        take_over.reported.insert(from);
        for orphan in orphans {
            let known = take_over.orphans.entry(orphan.tag.transid).or_insert(orphan);
            known.committed |= orphan.committed;
        }
        if self.started.iter().any(|node| !take_over.reported.contains(node)) {
            return;
        }
        let TakeOver { failed, orphans, .. } = std::mem::take(take_over);
        for (transid, orphan) in orphans {
            for node in self.started.iter() {
                let work = match orphan.committed {
                    true => Work::Commit(self.own, RNIL, transid),
                    false => Work::Abort(self.own, RNIL, transid),
                };
                wires.send(node, Message::Storage(work));
            }
            let [a, b] = transid;
            let (number, flag) = match orphan.committed {
                true => (gsn::TCKEY_FAILCONF, 1),
                false => (gsn::TCKEY_FAILREF, 0),
            };
            wires.coordinator(orphan.tag.reference, number, &[orphan.tag.operation | flag, a, b]);
        }
        for node in self.started.iter() {
            for &failed in &failed {
                wires.send(node, Message::TakenOver(failed));
            }
        }
    }
}

impl Record {
    #[inline]
    fn begin(&mut self, transid: TransId) {
        self.phase = Phase::Open;
        self.transid = transid;
        self.ending = Ending::Batch;
        self.executed = false;
        self.commit = false;
        self.writes = false;
        self.locks = false;
        self.primaries = NodeSet::default();
        self.backups = NodeSet::default();
        self.running.clear();
        self.confirmed.clear();
    }

    /// Notes that an operation is done. Three go in one confirmation; the last ones wait for what follows
    /// them.
    #[inline]
    fn confirm(&mut self, operation: u32, words: u32, wires: &mut Wires) {
        self.confirmed.push([operation, words]);
        if self.confirmed.len() == CONFIRMED_AT_ONCE && !self.running.is_empty() {
            self.send_confirmations(0, [0; 2], wires);
        }
    }

    #[inline]
    fn send_confirmations(&mut self, flags: u32, checkpoint: [u32; 2], wires: &mut Wires) {
        let marker = if self.writes { MARKER } else { 0 };
        let info = flags | marker | self.confirmed.len() as u32;
        let [a, b] = self.transid;
        let head = [self.client_id, checkpoint[0], info, a, b];
        if let Some(out) = wires.client(self.reference) {
            out.confirm(block_of(self.reference), head, &self.confirmed, checkpoint[1]);
        }
        self.confirmed.clear();
    }

    /// TCKEYREF: one operation failed.
    fn refuse(&self, operation: u32, code: i32, wires: &mut Wires) {
        let [a, b] = self.transid;
        wires.coordinator(self.reference, gsn::TCKEYREF, &[operation, a, b, code as u32, 0]);
    }

    /// TCROLLBACKREP: the transaction failed.
    fn reject(&self, code: i32, wires: &mut Wires) {
        let [a, b] = self.transid;
        wires.coordinator(self.reference, gsn::TCROLLBACKREP, &[self.client_id, a, b, code as u32, 0]);
    }
}
