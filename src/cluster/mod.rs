//! The cluster as the process sees it.
//!
//! Threads of a cluster handle, whatever the number of data nodes: 4 + receive threads (1 by default). The
//! four are the manager, the connector, and the two of the send pool. tests/c/threads.c counts them.
//!
//! - the `manager` owns every node's state: registration, heartbeats, when to dial;
//! - the `connector` does what blocks: the management session and dialling;
//! - a [`receive`] thread reads the links that are spread over it, and routes; [`role`] says who does its work;
//! - an [`inbox`] is where a port's owner finds its pages; [`wakeup`] is how it is woken, or an event loop by a
//!   `descriptor`;
//! - the `send_pool` finishes what a full socket would not take, and [`hold`] writes what is held at its deadline.
//!
//! Who owns what: a node's link is written by any thread under the sender's one mutex, read by its receive
//! thread only, opened by the manager only. Lock order: none of the mutexes here (a sender's, an inbox's, the
//! mailboxes', the progress) is held while another is taken, but for the list of ports, which may be held for
//! reading while an inbox is posted to.

pub mod alarm;
mod connector;
mod descriptor;
pub mod histogram;
pub mod hold;
pub mod inbox;
mod mailbox;
mod manager;
pub mod node;
pub mod port;
pub mod receive;
pub mod report;
pub mod role;
#[cfg(all(any(test, fuzzing), not(loom)))]
pub mod scripted;
mod send_pool;
pub mod statistics;
pub mod wakeup;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::{Error, own};
use crate::log::log;
use crate::mgm;
use crate::wire::NodeId;
use crate::wire::config::{Configuration, Link};
use crate::wire::transaction::TransId;
use hold::Holds;
use mailbox::Mailbox;
use node::Node;
use port::Ports;

/// What [`Cluster::deadline`] allows by default for taking over a failed node's transactions.
const TAKE_OVER: Duration = Duration::from_secs(10);

/// How to connect.
#[derive(Debug, Clone)]
pub struct Options {
    /// The node id to ask for; any when absent and the connectstring names none.
    pub node_id: Option<NodeId>,
    /// Receive threads, at least 1.
    pub receive_threads: usize,
    /// Whether a thread that polls alone may borrow the receive role; only with one receive thread.
    pub lend_receive: bool,
    /// How long a send may be held for company; zero for not at all.
    pub hold: Duration,
    /// How long an operation may go without a reply, from its send; by the configuration when absent, see
    /// [`Cluster::deadline`].
    pub deadline: Option<Duration>,
    /// Until when a first data node must be usable.
    pub connect_limit: Duration,
    /// How long to wait for the other data nodes once one is usable.
    pub grace: Duration,
    /// What may be in flight and wait.
    pub limits: Limits,
}

/// Bounds that are checked where an operation is defined.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes that may wait for a node, in a connection and on the link together, before the connection's next
    /// definition is refused. As every connection that sends may have so much, a link's queue holds at most
    /// this for each of them, and besides acknowledgements and heartbeats, which are never refused: they are
    /// as many as there are transactions, and one.
    pub waiting: usize,
    /// Operations of a connection that may be in flight; twice as many transactions may be started.
    pub in_flight: usize,
}

impl Default for Limits {
    /// A data node's default receive buffer is as large as what may wait.
    fn default() -> Self {
        Limits { waiting: 2 << 20, in_flight: 1 << 16 }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            node_id: None,
            receive_threads: 1,
            lend_receive: true,
            hold: Duration::from_micros(200),
            deadline: None,
            connect_limit: Duration::from_secs(30),
            grace: Duration::from_secs(3),
            limits: Limits::default(),
        }
    }
}

/// What the threads of a cluster handle and its connections share.
pub struct Cluster {
    /// The client's own node id.
    pub own_node: NodeId,
    /// The configuration that the management server gave.
    pub configuration: Configuration,
    /// How each data node is reached.
    links: Vec<Link>,
    /// The data nodes, by ascending id.
    pub nodes: Vec<Arc<Node>>,
    /// The ports.
    pub ports: Arc<Ports>,
    /// What adaptive send holds.
    pub holds: Holds,
    /// How long an operation of a new connection may go without a reply.
    pub deadline: Duration,
    /// The dictionary's cached definitions are of this incarnation of the cluster: it changes when the last
    /// link is lost.
    pub incarnation: AtomicU32,
    /// Counts what may make cached table definitions stale: tables altered, operations that met a schema
    /// error.
    pub schema_news: AtomicU32,
    /// Each connection starts its transaction ids here, and moves it on.
    pub next_transaction: AtomicU32,
    /// Coordinator records of closed ports that are still busy.
    left: Mutex<Vec<Left>>,
    /// Who wants to know that the cluster is back after the loss of all links.
    returns: Mutex<Vec<OnReturn>>,
    /// The bounds that connections begin with.
    pub limits: Limits,
    /// What connections have done.
    pub registry: statistics::Registry,
    stopping: AtomicBool,
    /// A thread of the handle has died: nothing can be promised any more, and every poll says so.
    broken: AtomicBool,
    progress: Mutex<Vec<Progress>>,
    progressed: Condvar,
    threads: Mutex<Threads>,
    /// The process that made the threads; a fork has none of them.
    process: u32,
}

/// What runs when the cluster is back.
type OnReturn = Box<dyn Fn(&Arc<Cluster>) -> bool + Send>;

/// A coordinator record whose transaction has ended for its user, but not for the node yet.
#[derive(Debug, Clone, Copy)]
pub struct Left {
    /// Its node.
    pub node: NodeId,
    /// The generation of the node's link.
    pub generation: u32,
    /// The block number of the port that it was seized for, and the id that the port gave it.
    pub port: (u16, u32),
    /// The block number of its coordinator instance, and the node's name of it.
    pub coordinator: (u16, u32),
    /// The transaction.
    pub transid: TransId,
    /// TCROLLBACKREQ is out: TCROLLBACKREP is not the final reply.
    pub rolling_back: bool,
}

/// How far a data node is, for who waits and for messages.
#[derive(Debug, Clone, Default)]
struct Progress {
    usable: bool,
    /// What happened last, for a person.
    text: String,
}

#[derive(Debug, Default)]
struct Threads {
    handles: Vec<JoinHandle<()>>,
    receivers: Vec<Arc<Mailbox<receive::Order>>>,
    send_pool: Option<Arc<Mailbox<send_pool::Order>>>,
}

impl Cluster {
    /// Joins the cluster: management session, node id, configuration, links, registration. Returns when data
    /// nodes are usable as `options` ask.
    pub fn connect(connectstring: Option<&str>, options: &Options) -> Result<Arc<Self>, Error> {
        crate::link::trace::from_environment();
        let deadline = Instant::now() + options.connect_limit;
        let mut connectstring = mgm::Connectstring::resolve(connectstring)?;
        connectstring.node_id = options.node_id.or(connectstring.node_id);
        log!(Info, "joining the cluster of {connectstring:?}");
        let joined = mgm::join(&connectstring, deadline, &mut |pause| {
            log!(Warning, "no node id yet, asking again in {} ms", pause.as_millis());
            // Nothing else can happen before this process is a node of the cluster.
            std::thread::sleep(pause);
            true
        })?;
        let cluster = Self::start(joined, connectstring.hosts, options)?;
        match cluster.wait_usable(1, deadline) {
            Ok(()) => {}
            Err(e) => {
                cluster.disconnect();
                return Err(e);
            }
        }
        // The others are waited for, not insisted on.
        let _ = cluster.wait_usable(cluster.nodes.len(), deadline.min(Instant::now() + options.grace));
        Ok(cluster)
    }

    fn start(joined: mgm::Joined, servers: Vec<mgm::Host>, options: &Options) -> Result<Arc<Self>, Error> {
        let mgm::Joined { node_id, configuration, session } = joined;
        log!(Info, "joined as node {node_id}");
        let links =
            configuration.links(node_id).map_err(|e| Error::new(own::CONNECT_FAILED, e.to_string()))?;
        let nodes: Vec<_> = links.iter().map(|l| Arc::new(Node::new(l.node, l.host.clone()))).collect();
        let deadline = options.deadline.unwrap_or_else(|| default_deadline(&configuration));
        let cluster = Arc::new(Cluster {
            deadline,
            own_node: node_id,
            configuration,
            links,
            progress: Mutex::new(vec![Progress::default(); nodes.len()]),
            holds: Holds::new(options.hold, nodes.len()),
            nodes,
            ports: Arc::default(),
            incarnation: AtomicU32::new(1),
            schema_news: AtomicU32::new(0),
            next_transaction: AtomicU32::new(0),
            left: Mutex::default(),
            returns: Mutex::default(),
            limits: options.limits,
            registry: Default::default(),
            stopping: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            progressed: Condvar::new(),
            threads: Mutex::default(),
            process: std::process::id(),
        });
        match cluster.spawn(connector::Connector::new(session, servers), options) {
            Ok(()) => Ok(cluster),
            Err(e) => {
                cluster.disconnect();
                Err(Error::new(own::CONNECT_FAILED, format!("starting the library's threads: {e}")))
            }
        }
    }

    fn spawn(self: &Arc<Self>, connector: connector::Connector, options: &Options) -> std::io::Result<()> {
        let mut threads = self.threads();
        let mut receivers = Vec::new();
        let receive_threads = options.receive_threads.max(1);
        let lends = options.lend_receive && receive_threads == 1;
        for number in 0..receive_threads {
            let (receiver, mailbox) = receive::Receiver::new(self.ports.clone())?;
            receivers.push(mailbox.clone());
            threads.receivers.push(mailbox.clone());
            let role = role::Role::new(receiver, mailbox, lends);
            if lends {
                let _ = self.ports.role.set(Arc::downgrade(&role));
            }
            threads.handles.push(thread(format!("ic-receive-{number}"), self.clone(), move |_| role.run())?);
        }
        let (pool, pool_mailbox) = send_pool::SendPool::new()?;
        threads.send_pool = Some(pool_mailbox.clone());
        threads.handles.push(thread("ic-send".into(), self.clone(), move |_| pool.run())?);
        threads.handles.push(thread("ic-hold".into(), self.clone(), move |c| c.holds.run(&c.nodes))?);
        let orders = connector.orders();
        threads.handles.push(thread("ic-connect".into(), self.clone(), move |c| connector.run(c))?);
        let manager = manager::Manager::new(self, orders, receivers, pool_mailbox);
        threads.handles.push(thread("ic-manager".into(), self.clone(), move |c| manager.run(c))?);
        Ok(())
    }

    /// Waits until `count` data nodes are usable, at most until `deadline`. The error tells how far each is.
    pub fn wait_usable(&self, count: usize, deadline: Instant) -> Result<(), Error> {
        let mut progress = self.progress();
        loop {
            if self.stopping() {
                return Err(Error::new(own::NOT_CONNECTED, "disconnected"));
            }
            if progress.iter().filter(|p| p.usable).count() >= count {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let each = self.nodes.iter().zip(progress.iter());
                let text: Vec<_> = each
                    .filter(|(_, p)| !p.usable)
                    .map(|(n, p)| format!("node {} ({}): {}", n.id, n.host, p.text_or("not dialled yet")))
                    .collect();
                let text = format!("no usable data node in time: {}", text.join("; "));
                return Err(Error::new(own::CONNECT_FAILED, text));
            }
            progress = self.progressed.wait_timeout(progress, left).unwrap_or_else(|p| p.into_inner()).0;
        }
    }

    /// How many data nodes are usable, connected, configured.
    pub fn counts(&self) -> (usize, usize, usize) {
        let usable = self.nodes.iter().filter(|n| n.usable().is_some()).count();
        let connected = self.nodes.iter().filter(|n| n.connected()).count();
        (usable, connected, self.nodes.len())
    }

    /// Writes to the data nodes' sockets so far, by any thread.
    pub fn writes(&self) -> u64 {
        self.nodes.iter().map(|node| node.sender.writes()).sum()
    }

    /// What happened last to a data node, given by its place among [`Cluster::nodes`], for a person.
    pub fn news(&self, node: usize) -> String {
        self.progress().get(node).map_or("", |progress| progress.text_or("not dialled yet")).to_owned()
    }

    /// The data node `id`.
    #[inline]
    pub fn node(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.nodes.iter().find(|n| n.id == id)
    }

    /// Leaves a busy coordinator record of a port that closes to the manager, which takes its final reply.
    pub fn leave(&self, record: Left) {
        self.left.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(record);
    }

    fn take_left(&self, all: &mut Vec<Left>) {
        all.append(&mut self.left.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    }

    /// Has `told` run on the connector's thread when data nodes are usable again after the loss of all links.
    /// It says whether it could do what it does then, and is run again if not.
    pub fn on_return(&self, told: impl Fn(&Arc<Cluster>) -> bool + Send + 'static) {
        self.returns().push(Box::new(told));
    }

    fn tell_return(self: &Arc<Self>) -> bool {
        let mut told = std::mem::take(&mut *self.returns());
        let done = told.iter().filter(|tell| !tell(self)).count() == 0;
        let mut all = self.returns();
        // Those who came meanwhile know the cluster as it is now.
        told.append(&mut all);
        *all = told;
        done
    }

    fn returns(&self) -> MutexGuard<'_, Vec<OnReturn>> {
        self.returns.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits; false when the cluster handle is being disconnected.
    fn rest(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut progress = self.progress();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stopping() {
                return !self.stopping();
            }
            progress = self.progressed.wait_timeout(progress, left).unwrap_or_else(|p| p.into_inner()).0;
        }
    }

    /// Ends every thread and link. What is in flight completes at each connection's next poll.
    pub fn disconnect(&self) {
        if self.stopping.swap(true, Ordering::AcqRel) || self.forked() {
            return;
        }
        log!(Info, "node {} leaves the cluster", self.own_node);
        // Also wakes who waits for progress: they look at `stopping` under this lock.
        drop(self.progress());
        self.progressed.notify_all();
        let threads = std::mem::take(&mut *self.threads());
        for node in &self.nodes {
            node.sender.shut_down_any();
        }
        threads.receivers.iter().for_each(|mailbox| mailbox.give(receive::Order::Stop));
        self.holds.stop();
        if let Some(pool) = &threads.send_pool {
            pool.give(send_pool::Order::Stop);
        }
        self.ports.poke_all();
        for handle in threads.handles {
            // A thread that panicked has nothing left to end.
            let _ = handle.join();
        }
        self.ports.poke_all();
    }

    /// Whether [`Cluster::disconnect`] was called, or a thread of the handle has died, which ends it too.
    #[inline]
    pub fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire) || self.broken.load(Ordering::Acquire)
    }

    /// Whether this process is a child of the one that connected.
    pub fn forked(&self) -> bool {
        self.process != std::process::id()
    }

    fn report(&self, node: usize, usable: bool, text: String) {
        if let Some(known) = self.nodes.get(node) {
            log!(Info, "node {} ({}): {}{text}", known.id, known.host, if usable { "usable, " } else { "" });
        }
        self.progress()[node] = Progress { usable, text };
        self.progressed.notify_all();
    }

    fn progress(&self) -> MutexGuard<'_, Vec<Progress>> {
        self.progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cluster({})", self.own_node)
    }
}

impl Progress {
    fn text_or<'a>(&'a self, nothing: &'a str) -> &'a str {
        if self.text.is_empty() { nothing } else { &self.text }
    }
}

/// Long enough for what ends by itself: a node that hangs is given up by the others after five of their
/// heartbeat intervals at most, another takes its transactions over, and those wait for locks no longer than
/// the nodes' own limit.
fn default_deadline(configuration: &Configuration) -> Duration {
    5 * configuration.heartbeat_interval_db_db()
        + configuration.transaction_deadlock_detection_timeout()
        + TAKE_OVER
}

/// Starts a thread. Its death ends the cluster's links and all that is in flight.
fn thread(
    name: String,
    cluster: Arc<Cluster>,
    body: impl FnOnce(&Arc<Cluster>) + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name).spawn(move || {
        let guarded = std::panic::AssertUnwindSafe(|| body(&cluster));
        // A thread ends by itself only when the handle is left.
        if std::panic::catch_unwind(guarded).is_err() || !cluster.stopping() {
            log!(Error, "a thread of the library has died: the cluster handle is of no further use");
            cluster.broken.store(true, Ordering::Release);
            cluster.nodes.iter().for_each(|node| node.sender.shut_down_any());
            cluster.progressed.notify_all();
            cluster.ports.poke_all();
        }
    })
}
