//! Embedded data nodes: a management endpoint and some data nodes in this process, the other side of
//! [`crate::wire`], on loopback sockets. In memory and not durable.
//!
//! What real data nodes do decides what these do; where a real one would stop on a malformed request, these
//! close the link and [log](EmbeddedCluster::log) the reason. One thread a node:
//!
//! - `node`: the thread: sockets, registration, failures; `link` and `outgoing`: one client;
//! - `coordinator`: transactions; `storage`: rows and locks; `row`, `table`: what they are made of;
//! - `dictionary`: definitions and schema transactions;
//! - `management`: the management endpoint, with the `configuration` that it hands out;
//! - `shared`, `messages`, `inbox`, `wires`: what nodes share and how they talk to each other;
//! - [`faults`]: what a test can ask them to do wrong.
//!
//! Not there: scans, indexes, interpreted programs, alterations, keys of text whose collation needs weight
//! tables.

mod configuration;
mod coordinator;
mod dictionary;
pub mod faults;
mod inbox;
mod link;
mod management;
mod messages;
mod node;
#[doc(hidden)]
pub mod outgoing;
mod row;
mod shared;
mod storage;
mod table;
mod wires;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Error, own};
use crate::wire::NodeId;
use faults::Fault;
use management::Management;
use messages::Message;
use node::Node;
use shared::{Shared, Status};

/// How a set of nodes is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// Data nodes, 1 to 48.
    pub nodes: u16,
    /// Copies of each row, 1 to 4; it must divide the number of nodes.
    pub replicas: u16,
    /// Decides what real nodes leave to chance, as the order of rows and confirmations.
    pub seed: u64,
    /// The management endpoint's port; any free one if none is given.
    pub port: Option<u16>,
    /// How long an operation waits for a lock: TransactionDeadlockDetectionTimeout.
    pub lock_timeout: Duration,
    /// Node ids for clients.
    pub api_slots: u16,
    /// Partitions that each node has of a table.
    pub partitions: u16,
    /// The heartbeat interval between clients and nodes.
    pub heartbeat: Duration,
    /// How long a node id is not given out after its client has left.
    pub quarantine: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            nodes: 2,
            replicas: 2,
            seed: 0,
            port: None,
            lock_timeout: Duration::from_millis(1200),
            api_slots: 48,
            partitions: 1,
            heartbeat: Duration::from_millis(1500),
            quarantine: Duration::from_secs(3),
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), Error> {
        let fault = match () {
            () if !(1..=48).contains(&self.nodes) => "1 to 48 nodes",
            () if !(1..=4).contains(&self.replicas) || !self.nodes.is_multiple_of(self.replicas) => {
                "1 to 4 replicas, which must divide the number of nodes"
            }
            () if self.api_slots == 0 || self.nodes + 1 + self.api_slots > 255 => {
                "at least one node id for clients, and no id above 255"
            }
            () if !(1..=64).contains(&self.partitions) => "1 to 64 partitions a node",
            () => return Ok(()),
        };
        Err(Error::new(own::INVALID_ARGUMENT, format!("embedded nodes: {fault}")))
    }
}

/// A running set of data nodes and their management endpoint. They stop when it is dropped.
#[derive(Debug)]
pub struct EmbeddedCluster {
    shared: Arc<Shared>,
    management: Option<Management>,
    threads: Mutex<Vec<Option<JoinHandle<()>>>>,
}

fn failed(what: &str, error: &io::Error) -> Error {
    Error::new(own::INTERNAL, format!("embedded nodes: {what}: {error}"))
}

impl EmbeddedCluster {
    /// Starts a set; when this returns, clients can connect.
    pub fn start(options: Options) -> Result<Self, Error> {
        options.check()?;
        let port = options.port.unwrap_or(0);
        let shared = Arc::new(Shared::new(options));
        shared.nodes.iter().for_each(|node| node.set_status(Status::Started));
        let mut cluster = EmbeddedCluster {
            threads: Mutex::new(shared.nodes.iter().map(|_| None).collect()),
            shared: shared.clone(),
            management: None,
        };
        let nodes = shared.nodes.iter().map(|node| Node::new(node.id, shared.clone()));
        let nodes = nodes.collect::<io::Result<Vec<_>>>().map_err(|e| failed("a data node", &e))?;
        for (node, id) in nodes.into_iter().zip(1..) {
            cluster.spawn(id, node)?;
        }
        let management = Management::start(shared, port).map_err(|e| failed("the management port", &e))?;
        cluster.management = Some(management);
        Ok(cluster)
    }

    fn spawn(&self, id: NodeId, node: Node) -> Result<(), Error> {
        let named = std::thread::Builder::new().name(format!("ic-node-{id}"));
        let thread = named.spawn(move || node.run()).map_err(|e| failed("a thread", &e))?;
        if let Some(slot) = self.threads().get_mut(id as usize - 1) {
            *slot = Some(thread);
        }
        Ok(())
    }

    fn threads(&self) -> MutexGuard<'_, Vec<Option<JoinHandle<()>>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connectstring.
    pub fn connectstring(&self) -> String {
        let port = self.management.as_ref().map_or(0, Management::port);
        format!("127.0.0.1:{port}")
    }

    /// Ends all of it.
    pub fn stop(self) {
        drop(self);
    }

    /// What was noteworthy since the last time: why links were closed, mostly.
    pub fn log(&self) -> Vec<String> {
        self.shared.take_log()
    }

    /// The ids of the nodes that work.
    pub fn started(&self) -> Vec<NodeId> {
        self.shared.started().iter().collect()
    }

    // Faults.

    fn node(&self, id: NodeId) -> Result<&shared::NodeState, Error> {
        let text = || Error::new(own::INVALID_ARGUMENT, format!("embedded nodes: there is no node {id}"));
        self.shared.node(id).ok_or_else(text)
    }

    /// Ends a node as a crash does: its links close, its rows are gone. When a node group has lost its last
    /// node, all others end too.
    pub fn kill(&self, id: NodeId) -> Result<(), Error> {
        self.node(id)?;
        self.end(id);
        let replicas = self.shared.options.replicas;
        let groups: Vec<_> = self.shared.nodes.chunks(replicas as usize).collect();
        let lost = groups.iter().any(|group| group.iter().all(|node| node.status() != Status::Started));
        if lost {
            (1..=self.shared.options.nodes).for_each(|id| self.end(id));
        }
        Ok(())
    }

    fn end(&self, id: NodeId) {
        let Some(node) = self.shared.node(id) else { return };
        let thread = self.threads().get_mut(id as usize - 1).and_then(Option::take);
        let Some(thread) = thread else { return };
        node.set_status(Status::Down);
        node.inbox.give(&mut vec![Message::Stop]);
        let _ = thread.join();
        node.inbox.close();
        self.shared.node_down(id);
        self.shared.broadcast(|| Message::NodeFailed(id));
    }

    /// Starts a node that was killed. It copies its rows from the others; if none is left, it begins anew,
    /// with all the others, and without tables.
    pub fn restart(&self, id: NodeId) -> Result<(), Error> {
        if self.node(id)?.status() != Status::Down {
            return Ok(());
        }
        let anew = self.started().is_empty();
        if anew {
            self.shared.schema.clear();
        }
        let ids = if anew { 1..=self.shared.options.nodes } else { id..=id };
        let status = if anew { Status::Started } else { Status::Starting };
        let mut nodes = Vec::new();
        for id in ids.clone() {
            self.node(id)?.set_status(status);
        }
        for id in ids {
            let node = Node::new(id, self.shared.clone()).map_err(|e| failed("a data node", &e))?;
            nodes.push((id, node));
        }
        nodes.into_iter().try_for_each(|(id, node)| self.spawn(id, node))
    }

    /// Drops a node's link to a client, or all its links: all nodes expel whom it concerns.
    pub fn drop_link(&self, id: NodeId, client: Option<NodeId>) -> Result<Fault, Error> {
        let fault = Fault::default();
        self.node(id)?.inbox.give(&mut vec![Message::DropLinks(client, fault.clone())]);
        Ok(fault)
    }

    /// A node sends garbage to its clients, then closes their links.
    pub fn send_garbage(&self, id: NodeId) -> Result<Fault, Error> {
        let fault = Fault::default();
        self.node(id)?.inbox.give(&mut vec![Message::Garbage(fault.clone())]);
        Ok(fault)
    }

    /// A node sends nothing for so long; zero ends it.
    pub fn stall(&self, id: NodeId, time: Duration) -> Result<Fault, Error> {
        let node = self.node(id)?;
        let fault = node.faults.stall(time);
        if time.is_zero() {
            node.inbox.give(&mut vec![Message::Hasten]);
        }
        Ok(fault)
    }

    /// A node holds back all its replies for so long; zero ends it.
    pub fn delay(&self, id: NodeId, time: Duration) -> Result<Fault, Error> {
        Ok(self.node(id)?.faults.delay(time))
    }

    /// The `nth` operation from now on that a node coordinates fails with `code`.
    pub fn fail_operation(&self, id: NodeId, nth: u32, code: i32) -> Result<Fault, Error> {
        Ok(self.node(id)?.faults.fail_operation(nth, code))
    }

    /// The next `count` requests for a node id are refused.
    pub fn refuse_node_ids(&self, count: u32) -> Fault {
        self.shared.faults.refuse_node_ids(count)
    }
}

impl Drop for EmbeddedCluster {
    fn drop(&mut self) {
        self.management = None;
        let running: Vec<_> = self.threads().iter_mut().filter_map(Option::take).collect();
        for node in &self.shared.nodes {
            node.set_status(Status::Down);
            node.inbox.give(&mut vec![Message::Stop]);
        }
        for thread in running {
            let _ = thread.join();
        }
    }
}
