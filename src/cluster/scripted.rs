//! A cluster without threads, sockets and time of its own, for what is to be repeated exactly: the test of a
//! connection alone. What is sent stays in its link's queue, links open and close by order, the clock stands
//! until it is set. In no build that is for use.

use std::fs::File;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::*;

/// Where the clock stands at the beginning, nanoseconds.
const BEGIN: u64 = 1_000_000_000;

/// Who gives the orders.
#[derive(Debug)]
pub struct Scripted {
    /// The cluster.
    pub cluster: Arc<Cluster>,
}

impl Scripted {
    /// A client's view of these data nodes, none of which has a link yet.
    pub fn new(own_node: NodeId, nodes: &[NodeId], limits: Limits) -> Self {
        let nodes: Vec<_> = nodes.iter().map(|&id| Arc::new(Node::new(id, "scripted".into()))).collect();
        let holds = Holds::new(Duration::ZERO, nodes.len());
        holds.set(BEGIN);
        let cluster = Arc::new(Cluster {
            deadline: Duration::from_secs(10),
            own_node,
            configuration: Configuration::default(),
            links: Vec::new(),
            progress: Mutex::new(vec![Progress::default(); nodes.len()]),
            holds,
            nodes,
            ports: Arc::default(),
            incarnation: AtomicU32::new(1),
            schema_news: AtomicU32::new(0),
            next_transaction: AtomicU32::new(0),
            left: Mutex::default(),
            returns: Mutex::default(),
            limits,
            registry: Default::default(),
            stopping: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            progressed: Condvar::new(),
            threads: Mutex::default(),
            process: std::process::id(),
        });
        Scripted { cluster }
    }

    /// Opens the next generation of a node's link, if none is open.
    pub fn open(&self, node: usize) {
        let node = &self.cluster.nodes[node];
        if node.connected() {
            return;
        }
        let generation = node.latest_generation() + 1;
        // It is never written.
        let nowhere = OwnedFd::from(File::open("/dev/null").expect("a file that every system has"));
        node.sender.open_full(generation, TcpStream::from(nowhere));
        node.opened(generation);
        node.set_usable(generation, true);
    }

    /// Whether new work may go to a node whose link is open.
    pub fn set_usable(&self, node: usize, usable: bool) {
        let node = &self.cluster.nodes[node];
        node.set_usable(node.open_generation(), usable);
    }

    /// Ends a node's link: its generation, if one was open. The news is not posted.
    pub fn lose(&self, node: usize) -> Option<u32> {
        let node = &self.cluster.nodes[node];
        let generation = node.open_generation();
        node.lost(generation);
        node.sender.close(generation);
        (generation != 0).then_some(generation)
    }

    /// Takes what was sent to a node.
    pub fn sent(&self, node: usize) -> Vec<u32> {
        let bytes = self.cluster.nodes[node].sender.take_waiting();
        bytes.as_chunks().0.iter().map(|&word| u32::from_ne_bytes(word)).collect()
    }

    /// Moves the clock on.
    pub fn advance(&self, nanos: u64) {
        let holds = &self.cluster.holds;
        holds.set(holds.now().saturating_add(nanos));
    }
}
