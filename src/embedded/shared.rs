//! What the threads of one set of nodes share: which nodes are up, which clients have which node ids, the
//! dictionary, and the faults that were asked for. Node ids are given out as the notes on the protocol say:
//! reserved for a while, taken when a link is accepted, free again a few seconds after the last one closed.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Options;
use super::dictionary::Schema;
use super::faults::{Faults, NodeFaults};
use super::inbox::Inbox;
use super::messages::Message;
use crate::wire::NodeId;
use crate::wire::registration::NodeSet;

/// How long a node id is kept for a client that has not connected.
const RESERVED: Duration = Duration::from_secs(20);
/// Between two aborts of transactions that have waited too long: the next one may no longer wait.
const TURN: u64 = 60;
/// Lines of the log that are kept.
const MAX_LOG: usize = 1000;

/// What all threads know.
#[derive(Debug)]
pub struct Shared {
    /// How the set was started.
    pub options: Options,
    /// The data nodes, by id from 1 on.
    pub nodes: Vec<NodeState>,
    /// The dictionary.
    pub schema: Schema,
    /// Faults that were asked for.
    pub faults: Faults,
    /// The end is near.
    pub stopping: AtomicBool,
    /// Where global checkpoints begin.
    pub started: Instant,
    clients: Mutex<Vec<Client>>,
    /// When a node last aborted a transaction that had waited too long, in milliseconds.
    turn: AtomicU64,
    log: Mutex<Vec<String>>,
}

/// One data node as the others see it.
#[derive(Debug)]
pub struct NodeState {
    /// Its id.
    pub id: NodeId,
    /// Messages of other nodes.
    pub inbox: Inbox,
    /// Faults that were asked for.
    pub faults: NodeFaults,
    /// The port it listens on.
    pub port: AtomicU16,
    status: AtomicU8,
}

/// Whether a data node works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// It is not there.
    Down,
    /// It copies data from the others.
    Starting,
    /// It works.
    Started,
}

impl NodeState {
    /// Whether it works.
    pub fn status(&self) -> Status {
        match self.status.load(Ordering::Acquire) {
            0 => Status::Down,
            1 => Status::Starting,
            _ => Status::Started,
        }
    }

    /// Changes it.
    pub fn set_status(&self, status: Status) {
        self.status.store(status as u8, Ordering::Release);
    }
}

/// A client's node id.
#[derive(Debug, Clone, Copy)]
struct Client {
    reserved_until: Option<Instant>,
    /// Nodes that have a link to it.
    connected: NodeSet,
    links: u16,
    free_at: Option<Instant>,
}

/// Why a client got no node id: the server's words and, if it tells, its code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoNodeId {
    /// The words.
    pub text: String,
    /// 1101 try again, 1102 never.
    pub code: u32,
    /// The id will be free when its last owner's failure has been handled.
    pub soon: bool,
}

impl Shared {
    /// The state of a set whose nodes are all down.
    pub fn new(options: Options) -> Self {
        let node = |id| NodeState {
            id,
            inbox: Inbox::default(),
            faults: NodeFaults::default(),
            port: AtomicU16::new(0),
            status: AtomicU8::new(Status::Down as u8),
        };
        let free = Client { reserved_until: None, connected: NodeSet::default(), links: 0, free_at: None };
        Shared {
            nodes: (1..=options.nodes).map(node).collect(),
            clients: Mutex::new(vec![free; options.api_slots as usize]),
            schema: Schema::new(&options),
            faults: Faults::default(),
            stopping: AtomicBool::new(false),
            started: Instant::now(),
            turn: AtomicU64::new(0),
            log: Mutex::new(Vec::new()),
            options,
        }
    }

    /// The state of a data node.
    pub fn node(&self, id: NodeId) -> Option<&NodeState> {
        self.nodes.get((id as usize).checked_sub(1)?)
    }

    /// The first of the clients' node ids.
    pub fn first_api(&self) -> NodeId {
        self.management_id() + 1
    }

    /// The management server's node id.
    pub fn management_id(&self) -> NodeId {
        self.options.nodes + 1
    }

    /// All node ids that clients can have.
    pub fn api_ids(&self) -> std::ops::Range<NodeId> {
        self.first_api()..self.first_api() + self.options.api_slots
    }

    /// The nodes that work.
    pub fn started(&self) -> NodeSet {
        self.nodes.iter().filter(|node| node.status() == Status::Started).map(|node| node.id).collect()
    }

    /// The node that runs schema transactions, and is called president.
    pub fn master(&self) -> NodeId {
        self.started().iter().next().unwrap_or(1)
    }

    /// A word for whoever looks after the clients.
    pub fn log(&self, text: String) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() < MAX_LOG {
            log.push(text);
        }
    }

    /// The log so far; it is empty afterwards.
    pub fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends a message to every data node.
    pub fn broadcast(&self, message: impl Fn() -> Message) {
        for node in &self.nodes {
            node.inbox.give(&mut vec![message()]);
        }
    }

    fn clients(&self) -> MutexGuard<'_, Vec<Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, client: NodeId) -> Option<usize> {
        client
            .checked_sub(self.first_api())
            .map(usize::from)
            .filter(|&at| at < self.options.api_slots as usize)
    }

    /// Reserves a node id: the one that is wanted, else any.
    pub fn allocate(&self, wanted: NodeId) -> Result<NodeId, NoNodeId> {
        let fail = |text: String, code, soon| Err(NoNodeId { text, code, soon });
        if self.faults.take_node_id_refusal() {
            return fail("No free node id found for mysqld(API).".into(), 1101, false);
        }
        if self.started().iter().next().is_none() {
            return fail("Cluster not ready for nodeid allocation.".into(), 1101, false);
        }
        let now = Instant::now();
        let mut clients = self.clients();
        let free = |client: &Client| {
            client.links == 0
                && client.reserved_until.is_none_or(|until| until <= now)
                && client.free_at.is_none_or(|at| at <= now)
        };
        let found = match (wanted, self.slot(wanted)) {
            (0, _) => clients.iter().position(free),
            (_, None) if self.node(wanted).is_some() => {
                let text = format!("Id {wanted} configured as ndbd(NDB), connect attempted as mysqld(API).");
                return fail(text, 1102, false);
            }
            (_, None) if wanted == self.management_id() => {
                let text =
                    format!("Id {wanted} configured as ndb_mgmd(MGM), connect attempted as mysqld(API).");
                return fail(text, 1102, false);
            }
            (_, None) => {
                return fail(format!("No node defined with id={wanted} in config file."), 1102, false);
            }
            (_, Some(at)) if free(&clients[at]) => Some(at),
            (_, Some(at)) => {
                let soon = clients[at].links == 0 && clients[at].free_at.is_some_and(|at| at > now);
                return fail(format!("Id {wanted} already allocated by another node."), 1101, soon);
            }
        };
        let soon = clients.iter().any(|client| client.free_at.is_some_and(|at| at > now));
        match found {
            Some(at) => {
                clients[at].reserved_until = Some(now + RESERVED);
                Ok(self.first_api() + at as NodeId)
            }
            None => fail("No free node id found for mysqld(API).".into(), 1101, soon),
        }
    }

    /// Whether `node` may accept a link of the client now; if so, it has it.
    pub fn connect(&self, client: NodeId, node: NodeId) -> bool {
        let Some(at) = self.slot(client) else { return false };
        let client = &mut self.clients()[at];
        let blocked = client.free_at.is_some_and(|free| free > Instant::now());
        if blocked || client.connected.contains(node) {
            return false;
        }
        client.reserved_until = None;
        client.connected.insert(node);
        client.links += 1;
        true
    }

    /// `node` has no link to the client any more.
    pub fn disconnect(&self, client: NodeId, node: NodeId) {
        let Some(at) = self.slot(client) else { return };
        let client = &mut self.clients()[at];
        if client.connected.contains(node) {
            client.connected.remove(node);
            client.links -= 1;
        }
        client.free_at = Some(Instant::now() + self.options.quarantine);
    }

    /// A node is down: it has no links.
    pub fn node_down(&self, node: NodeId) {
        for client in self.clients().iter_mut().filter(|client| client.connected.contains(node)) {
            client.connected.remove(node);
            client.links -= 1;
        }
    }

    /// How many data nodes have a link to a client.
    pub fn links_of(&self, client: NodeId) -> u16 {
        self.slot(client).map_or(0, |at| self.clients()[at].links)
    }

    /// The clients that `node` has a link to.
    pub fn clients_of(&self, node: NodeId) -> NodeSet {
        let clients = self.clients();
        let linked = clients.iter().zip(self.api_ids()).filter(|(client, _)| client.connected.contains(node));
        linked.map(|(_, id)| id).collect()
    }

    /// Whether a transaction that has waited too long may be aborted now.
    pub fn take_turn(&self) -> bool {
        let now = self.started.elapsed().as_millis() as u64;
        let last = self.turn.load(Ordering::Relaxed);
        now >= last + TURN
            && self.turn.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The global checkpoint of now: its number, and its part.
    pub fn checkpoint(&self) -> [u32; 2] {
        let millis = self.started.elapsed().as_millis() as u32;
        [1 + millis / 2000, millis / 100 % 20]
    }
}
