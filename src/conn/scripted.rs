//! A connection that plays a script of bytes: what its user does and what the data nodes say, in any order.
//! Whatever the script, nothing panics, every operation that was accepted completes once, at the end at the
//! latest, and nothing is left over; and while coordinators alone speak, no transaction is said to be what it
//! is not. For a fuzzer, and for the tests that keep what it has found; in no build that is for use.
//!
//! A step is a byte, and the bytes that it takes; a script that ends in the middle of a step ends there. Data
//! nodes are played in three ways: by a coordinator that answers the oldest request as it should, or not
//! quite ([`Way`]); by recorded messages, whose ids are put to those of a transaction of this connection if
//! the script says so; by links that open and are lost. What they say waits until the user polls.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::multi_read::{Args, Kind, Source};
use super::query::{Confirmed, State};
use super::slots::NONE;
use super::transaction::{Phase, Transaction, Usage};
use super::{Completed, Completion, Connection, Operation};
use crate::cluster::Limits;
use crate::cluster::inbox::News;
use crate::cluster::scripted::Scripted;
use crate::dict::record::{ColumnRef, FieldSpec, Record};
use crate::dict::standing::Standing;
use crate::dict::table::Table;
use crate::error::{is_unknown_result, own};
use crate::link::page::{Content, Page, Words};
use crate::wire::column::ColumnType;
use crate::wire::properties::Writer;
use crate::wire::requests::{OfTransaction, Seize, key::KeyRequest};
use crate::wire::signal::{self, Fragment, Header, MAX_DATA, MAX_MESSAGE, Signal};
use crate::wire::transaction::{AbortOption, LockMode, TransId, WriteKind};
use crate::wire::{NodeId, block, gsn, packed};

/// The data nodes.
const NODES: [NodeId; 3] = [1, 2, 3];
/// The client.
const OWN: NodeId = 50;
/// What may be in flight and wait: little, so that scripts meet the bounds.
const LIMITS: Limits = Limits { waiting: 2048, in_flight: 24 };
/// Queries that the user has.
const QUERIES: usize = 8;
/// Transactions and multi-key reads that the user remembers.
const REMEMBERED: usize = 12;
/// A data node without coordinator records.
const NO_RECORD: u32 = 219;
/// A row that is not there.
const NO_ROW: u32 = 626;
/// A lock that was waited for too long.
const LOCK_TIME: u32 = 266;

/// Plays a script.
///
/// # Panics
///
/// When something does not hold that should, whatever the script.
pub fn play(script: &[u8]) {
    let mut player = Player::new(script);
    while let Some(step) = player.script.byte() {
        if player.step(step).is_none() {
            break;
        }
    }
    player.end();
}

/// What is left of the bytes.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    fn below(&mut self, bound: usize) -> Option<usize> {
        Some(self.byte()? as usize % bound.max(1))
    }

    fn bytes(&mut self, count: usize) -> Option<&[u8]> {
        self.0.split_off(..count)
    }

    fn words(&mut self, count: usize) -> Option<Vec<u32>> {
        let bytes = self.bytes(4 * count)?;
        Some(bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect())
    }
}

/// The table that scripts are about, and its records: a key, a number and bytes.
struct Subject {
    table: Arc<Table>,
    key: Arc<Record>,
    attr: Arc<Record>,
}

static SUBJECT: LazyLock<Subject> = LazyLock::new(|| {
    // Two replicas of four fragments, the last at a node that the client has no link to.
    let replicas = [2u16, 4, 0, 1, 2, 0, 2, 1, 0, 3, 1, 0, 9, 9].map(u16::to_be_bytes);
    let mut writer = Writer::new();
    writer
        .string(1, b"db/def/t")
        .u32(2, 7)
        .u32(3, 1)
        .u32(6, 3)
        .u32(13, 4)
        .binary(138, replicas.as_flattened());
    let columns =
        [("k", ColumnType::Unsigned, 1), ("v", ColumnType::Unsigned, 1), ("w", ColumnType::Varbinary, 9)];
    for (name, kind, length) in columns {
        writer.string(1000, name.as_bytes()).u32(1006, (name == "k") as u32).u32(1013, kind.number());
        writer.u32(1016, length).u32(1019, kind.array_type() as u32).u32(1999, 1);
    }
    let table = Arc::new(Table::parse(&writer.finish()).expect("a definition"));
    let record = |size, fields: &[(&'static [u8], u32)]| {
        let field = |&(name, offset)| FieldSpec { column: ColumnRef::Name(name), offset, null: None };
        let fields: Vec<_> = fields.iter().map(field).collect();
        Arc::new(Record::new(&table, size, &fields).expect("a record"))
    };
    let (key, attr) = (record(4, &[(b"k", 0)]), record(16, &[(b"v", 0), (b"w", 4)]));
    Subject { table, key, attr }
});

/// How a request is answered.
#[derive(Clone, Copy)]
struct Way(u8);

impl Way {
    const REFUSED: u8 = 1;
    const READ_ELSEWHERE: u8 = 2;
    const ROW_FIRST: u8 = 4;
    const NO_ROW: u8 = 8;
    const MARKED: u8 = 16;
    const ABORTED: u8 = 32;
    const LAST_HELD_BACK: u8 = 64;
    const CARRIED: u8 = 128;

    fn is(self, bit: u8) -> bool {
        self.0 & bit != 0
    }
}

/// An operation that a coordinator has taken.
#[derive(Clone, Copy)]
struct Taken {
    connect: u32,
    transid: TransId,
    operation: u32,
    is_read: bool,
}

/// A data node's coordinator, as far as it goes.
#[derive(Default)]
struct Coordinator {
    /// Messages that are not answered.
    requests: VecDeque<Vec<u32>>,
    /// The client's name of each record.
    records: Vec<u32>,
    taken: Vec<Taken>,
}

struct Player<'a> {
    script: Script<'a>,
    scripted: Scripted,
    connection: Connection<u32>,
    standing: Arc<Standing>,
    queries: Vec<u64>,
    transactions: Vec<u64>,
    reads: Vec<(u64, u32)>,
    coordinators: [Coordinator; NODES.len()],
    /// Said and not polled yet.
    pages: Vec<Page>,
    /// By token: whether what was accepted has still to complete.
    open: Vec<bool>,
    /// What coordinators have committed, whether they said so or not.
    committed: HashSet<TransId>,
    /// Nothing but what coordinators answer was said.
    honest: bool,
}

impl<'a> Player<'a> {
    fn new(script: &'a [u8]) -> Self {
        let scripted = Scripted::new(OWN, &NODES, LIMITS);
        (0..NODES.len()).for_each(|node| scripted.open(node));
        let connection = Connection::new(scripted.cluster.clone()).expect("a port");
        let mut player = Player {
            script: Script(script),
            scripted,
            connection,
            standing: Standing::new(1),
            queries: Vec::new(),
            transactions: Vec::new(),
            reads: Vec::new(),
            coordinators: Default::default(),
            pages: Vec::new(),
            open: Vec::new(),
            committed: HashSet::new(),
            honest: true,
        };
        for number in 0..QUERIES {
            let query = player.create_query(number);
            player.queries.push(query);
        }
        player
    }

    fn create_query(&mut self, number: usize) -> u64 {
        let Subject { table, key, attr } = &*SUBJECT;
        // Every fourth reads and writes no columns.
        let attr = (number % 4 != 3).then(|| attr.clone());
        let query = self.connection.create_query(table.clone(), self.standing.clone(), key.clone(), attr, 0);
        query.expect("room for a query")
    }

    /// One step; `None` at the end of the script.
    fn step(&mut self, step: u8) -> Option<()> {
        match step % 24 {
            0 => self.start(),
            1 | 2 => self.define(),
            3 => self.with_transaction(|connection, transaction| connection.commit(transaction)),
            4 => self.with_transaction(|connection, transaction| connection.rollback(transaction)),
            5 => self.with_transaction(|connection, transaction| connection.close(transaction)),
            6 => {
                let force = self.script.byte()? & 1 != 0;
                self.connection.send(force);
                Some(())
            }
            7 | 8 => self.poll(),
            9 => self.take_executed(),
            10 => self.multi_read(),
            11 => self.multi_read_rows(),
            12 => self.close_multi_read(),
            13 => self.wait(),
            14 => self.renew_query(),
            15 => self.settings(),
            16..=19 => self.answer(),
            20 | 21 => self.recorded(),
            22 => self.lose(),
            _ => self.open(),
        }
    }

    // The user.

    fn start(&mut self) -> Option<()> {
        let hint = self.script.byte()? as u32 % 6;
        let started = self.connection.start_transaction(hint, Some(&SUBJECT.table));
        if let Ok(transaction) = started {
            self.transactions.push(transaction);
            if self.transactions.len() > REMEMBERED {
                let _ = self.connection.close(self.transactions.remove(0));
            }
        }
        Some(())
    }

    fn with_transaction(
        &mut self,
        act: impl FnOnce(&mut Connection<u32>, u64) -> Result<(), i32>,
    ) -> Option<()> {
        let at = self.script.below(self.transactions.len())?;
        if let Some(&transaction) = self.transactions.get(at) {
            let _ = act(&mut self.connection, transaction);
        }
        Some(())
    }

    fn token(&self) -> u32 {
        self.open.len() as u32
    }

    /// Fills a query's rows, if they are the user's.
    fn fill(&mut self, query: u64, key: u8) {
        if let Ok((row, attr)) = self.connection.rows(query) {
            row.bytes_mut().copy_from_slice(&(key as u32).to_le_bytes());
            // The value's length has room for at most nine.
            attr.bytes_mut().iter_mut().for_each(|byte| *byte = key % 9);
        }
    }

    fn define(&mut self) -> Option<()> {
        let query = self.queries[self.script.below(QUERIES)?];
        let at = self.script.below(self.transactions.len())?;
        let (what, key) = (self.script.byte()?, self.script.byte()?);
        let option = if what & 64 != 0 { AbortOption::IgnoreError } else { AbortOption::AbortOnError };
        let operation = match what % 9 {
            0 | 1 => Operation::Read(LockMode::Committed),
            2 => Operation::Read(LockMode::Shared(option)),
            3 => Operation::Read(LockMode::Simple),
            4 => Operation::Exists,
            5 => Operation::Write(WriteKind::Insert, option),
            6 => Operation::Write(WriteKind::Update, option),
            7 => Operation::Write(WriteKind::Write, option),
            _ => Operation::Write(WriteKind::Delete, option),
        };
        let Some(&transaction) = self.transactions.get(at) else { return Some(()) };
        self.fill(query, key);
        let defined = self.connection.define(query, transaction, operation, what & 128 != 0, self.token());
        if defined.is_ok() {
            self.open.push(true);
        }
        Some(())
    }

    fn multi_read(&mut self) -> Option<()> {
        let (chosen, what) = (self.script.byte()?, self.script.byte()?);
        let queries: Vec<_> =
            (0..QUERIES).filter(|place| chosen >> place & 1 != 0).map(|place| self.queries[place]).collect();
        for (&query, key) in queries.iter().zip(what..=u8::MAX) {
            self.fill(query, key);
        }
        let read = self.connection.multi_read(&queries, self.multi_read_args(what));
        self.remember_read(read);
        Some(())
    }

    fn multi_read_rows(&mut self) -> Option<()> {
        let (what, count) = (self.script.byte()?, self.script.below(7)?);
        let keys: Vec<u8> = self.script.bytes(count)?.iter().flat_map(|&key| [key, 0, 0, 0]).collect();
        let Subject { table, key, attr } = &*SUBJECT;
        let attr = (what & 4 != 0).then_some(attr);
        let source = Source { table, standing: &self.standing, key, attr };
        let read = self.connection.multi_read_rows(source, &keys, self.multi_read_args(what));
        self.remember_read(read);
        Some(())
    }

    fn multi_read_args(&self, what: u8) -> Args<u32> {
        Args {
            kind: if what & 1 != 0 { Kind::Gather } else { Kind::Exists },
            limit: (what & 8 != 0).then_some(Duration::from_millis(50)),
            callback: what & 2 != 0,
            token: self.token(),
        }
    }

    fn remember_read(&mut self, read: Result<u64, i32>) {
        if let Ok(read) = read {
            self.reads.push((read, self.token()));
            self.open.push(true);
        }
    }

    fn close_multi_read(&mut self) -> Option<()> {
        let at = self.script.below(self.reads.len())?;
        let Some(&(read, token)) = self.reads.get(at) else { return Some(()) };
        if self.connection.close_multi_read(read).is_ok() {
            self.reads.remove(at);
            // Its user does not want to know.
            self.open[token as usize] = false;
        }
        Some(())
    }

    fn wait(&mut self) -> Option<()> {
        let byte = self.script.byte()?;
        self.scripted.advance(1 << (20 + byte % 16));
        Some(())
    }

    fn renew_query(&mut self) -> Option<()> {
        let at = self.script.below(QUERIES)?;
        let query = self.queries[at];
        let (state, token) = (self.connection.query_state(query), self.connection.token(query));
        if self.connection.free_query(query).is_ok() {
            if state == Ok(State::Complete)
                && let Ok(token) = token
            {
                // Its user does not want to know.
                self.open[token as usize] = false;
            }
            self.queries[at] = self.create_query(at);
        }
        Some(())
    }

    fn settings(&mut self) -> Option<()> {
        let (what, value) = (self.script.byte()?, self.script.byte()?);
        let limit = (value > 0).then(|| Duration::from_millis(value as u64));
        let connection = &mut self.connection;
        match what % 6 {
            0 => connection.set_deadline(limit),
            1 => connection.set_max_in_flight(value as usize % 24),
            2 => connection.set_poll_min(value as u32),
            3 => {
                return self
                    .with_transaction(|c, transaction| c.set_transaction_deadline(transaction, limit));
            }
            4 => self.scripted.set_usable(value as usize % NODES.len(), value & 128 != 0),
            _ => {
                for &query in &self.queries {
                    let _ = connection.explain_query(query);
                }
                for &transaction in &self.transactions {
                    let _ = connection.explain_transaction(transaction);
                }
                let _ = connection.totals();
            }
        }
        Some(())
    }

    fn poll(&mut self) -> Option<()> {
        let news = News { other: true, ..News::default() };
        self.connection.port.inbox().post(&mut self.pages, &mut Vec::new(), news);
        let _ = self.connection.poll(Duration::ZERO);
        self.callbacks();
        self.connection.end_poll();
        self.check();
        Some(())
    }

    /// Runs the callbacks that are due. What a callback does is in the script too; at its end they do nothing.
    fn callbacks(&mut self) {
        while let Some(Completion { completed, token }) = self.connection.next_callback() {
            self.complete(token);
            let does = self.script.byte().unwrap_or(0);
            if does & 1 != 0 {
                let _ = self.define();
            }
            if does & 2 != 0 {
                let _ = self.start();
            }
            if does & 4 != 0 {
                let _ = self.with_transaction(|connection, transaction| connection.commit(transaction));
            }
            if does & 8 != 0 {
                let _ = self.with_transaction(|connection, transaction| connection.close(transaction));
            }
            if does & 16 != 0 {
                self.connection.send_after_callbacks(does & 32 != 0);
            }
            if does & 64 != 0 {
                let _ = self.multi_read();
            }
            if does & 128 != 0 {
                let _ = self.renew_query();
            }
            if let Completed::MultiRead(read) = completed {
                self.reads.retain(|&(known, _)| known != read);
            }
            self.connection.callback_done(completed);
        }
    }

    fn take_executed(&mut self) -> Option<()> {
        while let Some(query) = self.connection.next_executed() {
            let token = self.connection.token(query).expect("a query");
            self.complete(token);
        }
        while let Some(read) = self.connection.next_executed_multi_read() {
            let token = self.connection.multi_read_token(read).expect("a multi-key read");
            self.complete(token);
            for index in 0..self.connection.multi_read_keys(read).expect("the same") {
                let _ = self.connection.multi_read_key(read, index);
                let _ = self.connection.multi_read_row(read, index);
            }
        }
        Some(())
    }

    fn complete(&mut self, token: u32) {
        let open = std::mem::take(&mut self.open[token as usize]);
        assert!(open, "what has the token {token} completes twice");
    }

    // The data nodes.

    fn lose(&mut self) -> Option<()> {
        let node = self.script.below(NODES.len())?;
        if let Some(generation) = self.scripted.lose(node) {
            self.coordinators[node] = Coordinator::default();
            self.pages.push(Page { node: NODES[node], generation, content: Content::LinkLost });
        }
        Some(())
    }

    fn open(&mut self) -> Option<()> {
        let node = self.script.below(NODES.len())?;
        self.scripted.open(node);
        Some(())
    }

    fn say(&mut self, node: usize, words: Vec<u32>) {
        let generation = self.scripted.cluster.nodes[node].open_generation();
        if generation > 0 {
            let content = Content::Signals(Words::whole(words));
            self.pages.push(Page { node: NODES[node], generation, content });
        }
    }

    fn signal(&mut self, node: usize, header: Header, data: &[u32], carried: bool) {
        let mut words = Vec::new();
        if carried && (3..25).contains(&data.len()) {
            let packet = [&[(header.receiver as u32) << 16 | (data.len() as u32 - 3)], data].concat();
            let header = Header { receiver: block::API_PACKED, ..header };
            signal::encode(&mut words, header, &packet, &[]).expect("a carrier");
        } else {
            signal::encode(&mut words, header, data, &[]).expect("a signal");
        }
        self.say(node, words);
    }

    /// A reply of a node's coordinator.
    fn reply(&mut self, node: usize, gsn: u16, data: &[u32], way: Way) {
        let header = Header { gsn, receiver: self.connection.port.block(), sender: block::DBTC };
        self.signal(node, header, data, way.is(Way::CARRIED));
    }

    /// A node's coordinator answers the oldest requests.
    fn answer(&mut self) -> Option<()> {
        let node = self.script.below(NODES.len())?;
        let (way, count) = (Way(self.script.byte()?), 1 + self.script.below(8)?);
        let sent = self.scripted.sent(node);
        let mut rest = &sent[..];
        while let Some(&first) = rest.first() {
            let length = signal::message_length(first).expect("a client's message");
            let (message, after) = rest.split_at(length);
            self.coordinators[node].requests.push_back(message.to_vec());
            rest = after;
        }
        for _ in 0..count {
            let Some(message) = self.coordinators[node].requests.pop_front() else { break };
            let request = signal::decode(&message).expect("a client's message");
            self.answer_request(node, &request, way);
        }
        Some(())
    }

    fn answer_request(&mut self, node: usize, request: &Signal<'_>, way: Way) {
        let coordinator = &mut self.coordinators[node];
        let of_transaction = |client: u32, transid: TransId| [client, transid[0], transid[1]];
        match request.header.gsn {
            gsn::TCSEIZEREQ => {
                let seize = Seize::decode(request.data, OWN).expect("a client's request");
                if way.is(Way::REFUSED) {
                    return self.reply(node, gsn::TCSEIZEREF, &[seize.client, NO_RECORD], Way(0));
                }
                coordinator.records.push(seize.client);
                let connect = coordinator.records.len() as u32 - 1;
                let data = [seize.client, connect, block::reference(block::DBTC, NODES[node])];
                self.reply(node, gsn::TCSEIZECONF, &data, way);
            }
            gsn::TCKEYREQ => {
                let request = KeyRequest::decode(request).expect("a client's request");
                let KeyRequest { connect, operation, transid, info, .. } = request;
                let is_read = info.kind() == crate::wire::requests::key::Kind::Read;
                coordinator.taken.push(Taken { connect, transid, operation, is_read });
                if info.execute() {
                    self.execute(node, connect, transid, info.commit(), way);
                }
            }
            gsn::TC_COMMITREQ | gsn::TCROLLBACKREQ => {
                let asked = OfTransaction::decode(request.data).expect("a client's request");
                let Some(&client) = coordinator.records.get(asked.connect as usize) else { return };
                let [a, b, c] = of_transaction(client, asked.transid);
                match (request.header.gsn, way.is(Way::REFUSED)) {
                    (gsn::TC_COMMITREQ, false) => {
                        self.committed.insert(asked.transid);
                        self.reply(
                            node,
                            gsn::TC_COMMITCONF,
                            &[a | way.is(Way::MARKED) as u32, b, c, 1, 2],
                            way,
                        );
                    }
                    (gsn::TC_COMMITREQ, true) => {
                        self.reply(node, gsn::TC_COMMITREF, &[a, b, c, LOCK_TIME], way);
                    }
                    (_, false) => {
                        if way.is(Way::ABORTED) {
                            self.reply(node, gsn::TCROLLBACKREP, &[a, b, c, LOCK_TIME, 0], way);
                        }
                        self.reply(node, gsn::TCROLLBACKCONF, &[a, b, c], way);
                    }
                    (_, true) => self.reply(node, gsn::TCROLLBACKREF, &[a, b, c, LOCK_TIME], way),
                }
            }
            gsn::TC_COMMIT_ACK | gsn::TCRELEASEREQ => {}
            other => panic!("a client sends signal {other}"),
        }
    }

    /// Confirms a batch.
    fn execute(&mut self, node: usize, connect: u32, transid: TransId, commit: bool, way: Way) {
        let coordinator = &mut self.coordinators[node];
        // A client that was told of records that are not there asks for them.
        let Some(&client) = coordinator.records.get(connect as usize) else { return };
        let of_it = |taken: &mut Taken| (taken.connect, taken.transid) == (connect, transid);
        let of_batch: Vec<_> = coordinator.taken.extract_if(.., of_it).collect();
        if way.is(Way::ABORTED) {
            let data = [client, transid[0], transid[1], LOCK_TIME, 0];
            return self.reply(node, gsn::TCROLLBACKREP, &data, way);
        }
        if commit {
            self.committed.insert(transid);
        }
        let reader = match way.is(Way::READ_ELSEWHERE) {
            true => (node + 1) % NODES.len(),
            false => node,
        };
        let chunks: Vec<_> = of_batch.chunks(3).collect();
        for (number, chunk) in chunks.iter().enumerate() {
            let last = number + 1 == chunks.len();
            if way.is(Way::ROW_FIRST) {
                chunk.iter().for_each(|taken| self.row(reader, taken, way));
            }
            let mut data = vec![client, 1, 0, transid[0], transid[1]];
            for taken in *chunk {
                if way.is(Way::REFUSED) && !taken.is_read {
                    let data = [taken.operation, transid[0], transid[1], NO_ROW, 0];
                    self.reply(node, gsn::TCKEYREF, &data, way);
                    continue;
                }
                let info = match (taken.is_read, way.is(Way::READ_ELSEWHERE)) {
                    (false, _) => 0,
                    (true, false) => ROW_WORDS as u32,
                    (true, true) => 1 << 31 | NODES[reader] as u32,
                };
                data.extend([taken.operation, info]);
            }
            let flags = match commit && last {
                true => 1 << 16 | (way.is(Way::MARKED) as u32) << 17,
                false => 0,
            };
            let operations = (data.len() as u32 - 5) / 2;
            data[2] = flags | operations;
            data.push(2);
            if !(last && way.is(Way::LAST_HELD_BACK)) {
                self.reply(node, gsn::TCKEYCONF, &data, way);
            }
            if !way.is(Way::ROW_FIRST) {
                chunk.iter().for_each(|taken| self.row(reader, taken, way));
            }
        }
    }

    /// The row that an operation reads, or what is said instead.
    fn row(&mut self, reader: usize, taken: &Taken, way: Way) {
        let Taken { operation, transid, is_read, .. } = *taken;
        if !is_read {
            return;
        }
        if way.is(Way::NO_ROW) {
            let header =
                Header { gsn: gsn::TCKEYREF, receiver: self.connection.port.block(), sender: block::DBLQH };
            return self.signal(reader, header, &[operation, transid[0], transid[1], NO_ROW, 0], false);
        }
        let header =
            Header { gsn: gsn::TRANSID_AI, receiver: self.connection.port.block(), sender: block::DBTUP };
        let data = [&[operation, transid[0], transid[1]], &ROW[..]].concat();
        self.signal(reader, header, &data, way.is(Way::CARRIED));
    }

    /// A message as it was recorded, with ids of this connection or without.
    fn recorded(&mut self) -> Option<()> {
        let (node, place, how) =
            (self.script.below(NODES.len())?, self.script.byte()? as usize, self.script.byte()?);
        let count = self.script.byte()? as usize;
        let mut message = self.script.words(count)?;
        self.honest = false;
        seal(&mut message);
        let message = match signal::decode(&message) {
            Ok(signal) if how & 1 != 0 => self.bound(node, place, how, &signal),
            // What no receive thread would let pass.
            Err(_) if signal::message_length(*message.first()?) != Ok(message.len()) => return Some(()),
            _ => message,
        };
        if how & 2 != 0 {
            self.say(node, message.clone());
        }
        self.say(node, message);
        Some(())
    }

    /// The same with ids that this connection waits for.
    fn bound(&self, node: usize, place: usize, how: u8, signal: &Signal<'_>) -> Vec<u32> {
        let own = self.connection.port.block();
        let number = signal.header.gsn;
        let mut data = signal.data.to_vec();
        let receiver = match signal.header.receiver {
            block::API_PACKED => {
                let mut at = 0;
                for (_, packet) in packed::Packets::new(signal.data).map_while(Result::ok) {
                    data[at] = (own as u32) << 16 | data[at] & 0xffff;
                    self.bind(node, place, number, &mut data[at + 1..at + 1 + packet.len()]);
                    at += 1 + packet.len();
                }
                block::API_PACKED
            }
            _ => {
                self.bind(node, place, number, &mut data);
                match number {
                    gsn::NODE_FAILREP | gsn::TAKE_OVERTCCONF | gsn::NF_COMPLETEREP => block::API_CLUSTERMGR,
                    _ => own,
                }
            }
        };
        let header = Header { receiver, ..signal.header };
        let mut out = Vec::new();
        if how & 4 != 0 && signal.sections().len() < 2 && data.len() + 2 <= MAX_DATA {
            // In two parts.
            let section = signal.sections().first().copied().unwrap_or(&ROW);
            let parts = section.split_at(section.len() / 2);
            for (fragment, part) in [(Fragment::First, parts.0), (Fragment::Last, parts.1)] {
                let numbers = if part.is_empty() { &[][..] } else { &[0] };
                let data = [&data[..data.len().min(3)], numbers, &[place as u32]].concat();
                let length = 3 + data.len() + numbers.len() + part.len();
                out.extend(signal::header_words(header, fragment, data.len(), numbers.len(), length));
                out.extend(data);
                out.extend(numbers.iter().map(|_| part.len() as u32));
                out.extend(part);
            }
        } else if signal::encode(&mut out, header, &data, signal.sections()).is_err() {
            // Neither can be sent.
            out.clear();
        }
        out
    }

    /// Puts ids of a transaction of this connection, and of its queries, into a reply.
    fn bind(&self, node: usize, place: usize, number: u16, data: &mut [u32]) {
        let connection = &self.connection;
        let all: Vec<_> =
            (0..connection.transactions.bound()).filter_map(|at| connection.transactions.get(at)).collect();
        let transaction = all.get(place % all.len().max(1));
        let transid = transaction.map_or([0; 2], |t| t.transid);
        let client = transaction.map_or(NONE, |t| t.record) << 1;
        let mut operations = Vec::new();
        let mut next = transaction.map_or(NONE, |t| t.first);
        while next != NONE {
            operations.push(connection.queries[next].operation);
            next = connection.queries[next].next;
        }
        let operation = operations.get(place / 16 % operations.len().max(1)).copied().unwrap_or(0);
        let set = |data: &mut [u32], at: usize, value: u32| {
            if let Some(word) = data.get_mut(at) {
                *word = value;
            }
        };
        match number {
            gsn::TCSEIZECONF | gsn::TCSEIZEREF => {
                let seizing =
                    |record: &super::CoordinatorRecord| record.usage == Usage::Seizing && record.node == node;
                if let Some(slot) = connection.records.iter().position(seizing) {
                    set(data, 0, (slot as u32) << 1);
                }
            }
            gsn::TCKEYCONF => {
                set(data, 0, client);
                set(data, 3, transid[0]);
                set(data, 4, transid[1]);
                for (number, operation) in operations.into_iter().enumerate() {
                    if 5 + 2 * number + 1 < data.len() {
                        set(data, 5 + 2 * number, operation);
                    }
                }
            }
            gsn::TRANSID_AI | gsn::TCKEYREF | gsn::TCKEY_FAILCONF | gsn::TCKEY_FAILREF => {
                let flag = data.first().map_or(0, |word| word & 1);
                set(data, 0, operation | if number == gsn::TCKEY_FAILCONF { flag } else { 0 });
                set(data, 1, transid[0]);
                set(data, 2, transid[1]);
            }
            gsn::TC_COMMITCONF
            | gsn::TC_COMMITREF
            | gsn::TCROLLBACKCONF
            | gsn::TCROLLBACKREF
            | gsn::TCROLLBACKREP => {
                let flag = data.first().map_or(0, |word| word & 1);
                set(data, 0, client | if number == gsn::TC_COMMITCONF { flag } else { 0 });
                set(data, 1, transid[0]);
                set(data, 2, transid[1]);
            }
            gsn::TAKE_OVERTCCONF => set(data, 0, NODES[place % NODES.len()] as u32),
            _ => {}
        }
    }

    // What must hold.

    /// After a poll: counts and lists agree.
    fn check(&self) {
        let connection = &self.connection;
        let (mut in_flight, mut unpacked, mut rows_due) = (0, 0, 0);
        for query in (0..connection.queries.bound()).filter_map(|q| connection.queries.get(q)) {
            in_flight += matches!(query.state, State::Defined | State::Sent) as usize;
            unpacked += if query.state == State::Defined { query.request.len() } else { 0 };
            let row_due =
                query.state == State::Sent && query.confirmed != Confirmed::No && !query.is_answered();
            rows_due += row_due as usize;
        }
        assert_eq!(connection.in_flight, in_flight, "operations in flight");
        assert_eq!(connection.unpacked, unpacked, "words that are not packed");
        assert!(rows_due == 0 || connection.rows_due > 0, "a row is due, and nobody would wake for it");
        let mut busy = 0;
        for at in (0..connection.transactions.bound()).filter(|&at| connection.transactions.get(at).is_some())
        {
            let transaction = &connection.transactions[at];
            busy += (transaction.first != NONE) as usize;
            let (mut previous, mut next) = (NONE, transaction.first);
            while next != NONE {
                let query = &connection.queries[next];
                assert_eq!((query.transaction, query.previous), (at, previous), "a list of queries");
                assert!(
                    matches!(query.state, State::Defined | State::Sent),
                    "only what is in flight is listed"
                );
                (previous, next) = (next, query.next);
                in_flight -= 1;
            }
            assert_eq!(transaction.last, previous, "the end of a list of queries");
            if transaction.record != NONE {
                assert_eq!(connection.records[transaction.record as usize].usage, Usage::Busy(at));
            }
            if self.honest && transaction.phase == Phase::Ended && transaction.started {
                let Transaction { error, committed, writes, transid, .. } = *transaction;
                let truth = self.committed.contains(&transid);
                let aborted = !committed && !is_unknown_result(error);
                assert!(truth || !committed, "nobody has committed it");
                assert!(!truth || !writes || !aborted, "it was committed");
            }
            if transaction.unsealed {
                assert!(connection.unsealed.contains(&at), "what was not sealed is remembered");
            }
        }
        assert_eq!(in_flight, 0, "what is in flight is in a transaction");
        assert_eq!(connection.busy, busy, "transactions with operations");
        let statistics = connection.statistics();
        assert_eq!(
            statistics.defined - statistics.completed,
            connection.in_flight as u64,
            "what was counted"
        );
        for (node, work) in connection.work.iter().enumerate() {
            let waits = |&(at, transid): &(u32, TransId)| connection.still_waits(at, transid, node);
            assert!(work.waiting.iter().all(waits), "what waits for a record is there");
            let of_node = || connection.records.iter().filter(|r| r.node == node && r.usage != Usage::Unused);
            assert_eq!(work.records, of_node().count(), "records of a node");
            assert_eq!(work.seizing, of_node().filter(|r| r.usage == Usage::Seizing).count(), "seizes");
            // At its end the connection gives them back.
            let idle = of_node().filter(|r| r.usage == Usage::Idle).count();
            assert_eq!(work.idle.len(), if connection.finished { 0 } else { idle }, "idle records");
            assert!(work.idle.iter().all(|&slot| connection.records[slot as usize].usage == Usage::Idle));
        }
    }

    /// Leaves the connection: what was accepted has completed, and nothing stays.
    fn end(mut self) {
        self.connection.finish(Duration::ZERO);
        self.check();
        let used = |record: &super::CoordinatorRecord| matches!(record.usage, Usage::Busy(_));
        assert!(!self.connection.records.iter().any(used), "a record is still in use");
        self.callbacks();
        self.take_executed();
        let open = self.open.iter().position(|&open| open);
        assert_eq!(open, None, "what has this token does not complete");
        assert_eq!(self.connection.in_flight(), 0);
        assert_eq!(self.connection.start_transaction(0, None), Err(own::NOT_CONNECTED));
        for &transaction in &self.transactions {
            let _ = self.connection.close(transaction);
        }
        assert_eq!(self.connection.transactions.len(), 0, "transactions are left");
        for &(read, _) in &self.reads {
            let _ = self.connection.close_multi_read(read);
        }
        assert_eq!(self.connection.multi_reads.len(), 0, "multi-key reads are left");
        for &query in &self.queries {
            assert_eq!(self.connection.free_query(query), Ok(()));
        }
        assert_eq!(self.connection.queries.len(), self.connection.own_idle_queries(), "queries are left");
    }
}

/// A row of the table, as it travels.
const ROW: [u32; ROW_WORDS] = [1 << 16 | 4, 9, 2 << 16 | 4, 0x0302_0103];
const ROW_WORDS: usize = 4;

/// Gives a message the length that it has, and no checksum.
fn seal(message: &mut [u32]) {
    let length = message.len();
    if (4..=MAX_MESSAGE).contains(&length) {
        message[0] = message[0] & !(0x8100_0089 | 0xffff << 8 | 1 << 4) | (length as u32) << 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Scripts that something did not hold for, and what they do.
    const FOUND: [(&str, &str); 3] = [
        ("a multi-key read that waits for coordinator records", "3b00790000"),
        (
            "TCKEY_FAILCONF while a batch is out and the next is defined",
            "0000000000000600100000000701050000006600010000000014000003060000000c08\
             0000000000000000000000000000000000000007",
        ),
        (
            "rows twice, and another row due",
            "000000010b000600000005000006001001000007030016001400000004000000000000\
             000000000000000000000b00010510010004140000000c000000000000000000000000\
             0000000000000000000000000000000000000000000000000000000000000000000000\
             0006001002000707a0ec03001001000307",
        ),
    ];

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
        digits.as_chunks().0.iter().map(|[high, low]| high << 4 | low).collect()
    }

    #[test]
    fn what_was_found_holds() {
        for (what, script) in FOUND {
            println!("{what}");
            play(&bytes(script));
        }
    }

    proptest! {
        #[test]
        fn any_script(script in prop::collection::vec(any::<u8>(), 0..600)) {
            play(&script);
        }
    }
}
