//! Scripts for the target `client`: recorded conversations as its steps. See the library's `conn::scripted`.

use iclaustron::wire::gsn;
use iclaustron::wire::requests::key::{KeyRequest, Kind};
use iclaustron::wire::signal::{MAX_MESSAGE, Signal, decode};

const START: u8 = 0;
const DEFINE: u8 = 1;
const COMMIT: u8 = 3;
const ROLLBACK: u8 = 4;
const CLOSE: u8 = 5;
const SEND: u8 = 6;
const POLL: u8 = 7;
const TAKE_EXECUTED: u8 = 9;
const MULTI_READ: u8 = 10;
const ANSWER: u8 = 16;
const RECORDED: u8 = 20;
const LOSE: u8 = 22;
const OPEN: u8 = 23;
/// Transactions that the user remembers; the oldest is forgotten.
const REMEMBERED: u8 = 12;
const QUERIES: u8 = 8;
/// A recorded message gets ids of the client's own.
const BOUND: u8 = 1;

/// Steps, one after the other.
#[derive(Default)]
pub struct Steps {
    bytes: Vec<u8>,
    transactions: u8,
    queries: u8,
}

impl Steps {
    /// The bytes.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn step(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn latest(&self) -> u8 {
        self.transactions.saturating_sub(1)
    }

    /// A transaction at the first node.
    pub fn start(&mut self) -> &mut Self {
        self.transactions = (self.transactions + 1).min(REMEMBERED);
        self.step(&[START, 1])
    }

    /// An operation of the latest transaction: what, as the script says it.
    pub fn define(&mut self, what: u8) -> &mut Self {
        let (query, transaction) = (self.queries % QUERIES, self.latest());
        self.queries += 1;
        self.step(&[DEFINE, query, transaction, what, query])
    }

    /// The latest transaction's commit.
    pub fn commit(&mut self) -> &mut Self {
        let latest = self.latest();
        self.step(&[COMMIT, latest])
    }

    /// A read of these queries' keys, with rows.
    pub fn multi_read(&mut self, queries: u8) -> &mut Self {
        self.step(&[MULTI_READ, queries, 3])
    }

    /// A send, and the answers to eight requests of each node.
    pub fn send(&mut self, way: u8) -> &mut Self {
        self.step(&[SEND, 1]);
        for node in 0..3 {
            self.step(&[ANSWER, node, way, 7]);
        }
        self
    }

    /// A poll whose callbacks do nothing, and the executed list.
    pub fn poll(&mut self) -> &mut Self {
        self.step(&[POLL]).step(&[TAKE_EXECUTED])
    }

    /// A link is lost, and another opened.
    pub fn lose(&mut self, node: u8) -> &mut Self {
        self.step(&[LOSE, node])
    }

    /// A link is opened.
    pub fn open(&mut self, node: u8) -> &mut Self {
        self.step(&[OPEN, node])
    }

    /// A message that a node has sent, about the latest transaction.
    pub fn recorded(&mut self, node: u8, message: &[u32]) -> &mut Self {
        let latest = self.latest();
        if let Ok(length @ 4..) = u8::try_from(message.len()) {
            const { assert!(MAX_MESSAGE > u8::MAX as usize) };
            self.step(&[RECORDED, node, latest, BOUND, length]);
            for word in message {
                self.step(&word.to_le_bytes());
            }
        }
        self
    }

    /// What a client once sent, as its user did it now.
    pub fn requested(&mut self, request: &Signal<'_>) -> &mut Self {
        let latest = self.latest();
        match request.header.gsn {
            gsn::TCKEYREQ => {
                let Ok(request) = KeyRequest::decode(request) else { return self };
                if request.info.start() {
                    self.start();
                }
                self.define(what(&request));
                if request.info.commit() {
                    self.commit();
                }
                if request.info.execute() {
                    self.step(&[SEND, 1]);
                }
            }
            gsn::TC_COMMITREQ => return self.step(&[COMMIT, latest, SEND, 1]),
            gsn::TCROLLBACKREQ => return self.step(&[ROLLBACK, latest, SEND, 1]),
            gsn::TCRELEASEREQ => return self.step(&[CLOSE, latest]),
            _ => {}
        }
        self
    }
}

fn what(request: &KeyRequest<'_>) -> u8 {
    match request.info.kind() {
        Kind::Read if request.info.committed_read() => 0,
        Kind::Read if request.info.simple() => 3,
        Kind::Insert => 5,
        Kind::Update => 6,
        Kind::Write => 7,
        Kind::Delete => 8,
        _ => 2,
    }
}

/// A conversation, message by message: what the client sent, and what nodes have said.
pub fn conversation<'a>(messages: impl Iterator<Item = (bool, &'a [u32])>) -> Vec<u8> {
    let mut steps = Steps::default();
    // Coordinator records first.
    steps.start().define(0).commit().send(0).poll().send(0).poll();
    for (from_client, message) in messages {
        match decode(message) {
            Ok(request) if from_client => steps.requested(&request),
            Ok(_) => steps.recorded(0, message).poll(),
            Err(_) => &mut steps,
        };
    }
    steps.finish()
}
