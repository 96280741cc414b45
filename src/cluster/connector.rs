//! The connector: the thread that does what blocks. It dials data nodes one after the other as the manager
//! asks, asks the management server for the ports of those that have dynamic ones and, after this client was
//! expelled, for its node id again, and tells who wants to know that the cluster is back. Its session is the
//! only one of the cluster handle, and is closed once nothing is left to ask.

use std::net::TcpStream;
use std::sync::mpsc::{Receiver, RecvError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::Cluster;
use crate::link::dial::{Target, dial};
use crate::mgm::{self, Connectstring, Host, Session};
use crate::wire::NodeId;
use crate::wire::config::Port;

/// The limit of asking the management server for a port.
const PORT_LIMIT: Duration = Duration::from_secs(5);
/// The limit of asking for the node id again, with all attempts.
const REJOIN_LIMIT: Duration = Duration::from_secs(5);

/// What the manager asks for.
#[derive(Debug, Clone, Copy)]
pub enum Order {
    /// A connection to this node.
    Dial(NodeId),
    /// This client's node id again.
    Rejoin,
    /// Word to those who want to know that the cluster is back.
    Return,
}

/// What came of it.
pub enum Outcome {
    /// Of a dial: the stream, or why there is none.
    Dialled(NodeId, Result<TcpStream, String>),
    /// The node id is this client's again.
    Rejoined,
    /// No management server could be asked, for this reason.
    NoServer(String),
    /// The management server does not give the node id yet.
    Refused(String),
    /// Everybody knows that the cluster is back; or some must be told again, for they could not do what they
    /// do then.
    Told(bool),
}

/// The manager's end.
#[derive(Clone)]
pub struct Orders {
    orders: Sender<Order>,
    outcomes: Arc<Mutex<Vec<Outcome>>>,
}

impl Orders {
    /// Gives an order.
    pub fn give(&self, order: Order) {
        // The connector is gone only at the end.
        let _ = self.orders.send(order);
    }

    /// Takes the outcomes so far. The manager's inbox is poked for each.
    pub fn outcomes(&self) -> Vec<Outcome> {
        std::mem::take(&mut self.outcomes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

/// The connector thread.
pub struct Connector {
    session: Option<Session>,
    /// The management servers by which the cluster was joined.
    servers: Vec<Host>,
    orders: Orders,
    asked: Receiver<Order>,
}

impl Connector {
    /// A connector that goes on with the session by which the cluster was joined, at one of `servers`.
    pub fn new(session: Session, servers: Vec<Host>) -> Self {
        let (orders, asked) = channel();
        Connector {
            session: Some(session),
            servers,
            orders: Orders { orders, outcomes: Arc::default() },
            asked,
        }
    }

    /// The manager's end.
    pub fn orders(&self) -> Orders {
        self.orders.clone()
    }

    /// The thread's body. It ends when the manager has dropped its end.
    pub fn run(mut self, cluster: &Arc<Cluster>) {
        // Its own end of the channel would keep it open.
        let (gone, _) = channel();
        self.orders.orders = gone;
        while let Ok(order) = self.next() {
            if cluster.stopping() {
                return;
            }
            let outcome = match order {
                Order::Dial(node) => Outcome::Dialled(node, self.connect(cluster, node)),
                Order::Rejoin => self.rejoin(cluster),
                Order::Return => Outcome::Told(cluster.tell_return()),
            };
            self.orders.outcomes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(outcome);
            cluster.ports.manager.poke();
        }
    }

    /// The next order; closes the session while there is none.
    fn next(&mut self) -> Result<Order, RecvError> {
        if let Ok(order) = self.asked.try_recv() {
            return Ok(order);
        }
        self.leave();
        self.asked.recv()
    }

    fn leave(&mut self) {
        if let Some(session) = self.session.take() {
            session.end();
        }
    }

    fn rejoin(&mut self, cluster: &Cluster) -> Outcome {
        self.leave();
        let hosts = self.servers.clone();
        let wanted = Connectstring { node_id: Some(cluster.own_node), hosts, ..Connectstring::default() };
        let deadline = Instant::now() + REJOIN_LIMIT;
        match mgm::join(&wanted, deadline, &mut |pause| cluster.rest(pause)) {
            Ok(joined) => {
                self.session = Some(joined.session);
                Outcome::Rejoined
            }
            Err(error) if error.is_refusal() => Outcome::Refused(error.to_string()),
            Err(error) => Outcome::NoServer(error.to_string()),
        }
    }

    fn connect(&mut self, cluster: &Cluster, node: NodeId) -> Result<TcpStream, String> {
        let link = cluster.links.iter().find(|l| l.node == node);
        let link = link.ok_or_else(|| format!("node {node} is not in the configuration"))?;
        let port = match link.port {
            Port::Fixed(port) => port,
            Port::Dynamic(_) => self.dynamic_port(cluster, node)?,
        };
        let target = Target {
            node,
            host: link.host.clone(),
            port,
            own_host: link.own_host.clone(),
            own_node: cluster.own_node,
            socket_buffers: (link.tcp_rcv_buf_size as usize, link.tcp_snd_buf_size as usize),
        };
        dial(&target).map_err(|e| e.to_string())
    }

    fn dynamic_port(&mut self, cluster: &Cluster, node: NodeId) -> Result<u16, String> {
        let deadline = Instant::now() + PORT_LIMIT;
        let fresh = self.session.is_none();
        let asked = self.ask_port(cluster, node, deadline);
        let asked = match asked {
            // The old session may just have gone stale.
            Err(_) if !fresh => {
                self.session = None;
                self.ask_port(cluster, node, deadline)
            }
            asked => asked,
        };
        if asked.is_err() {
            self.session = None;
        }
        asked?.ok_or_else(|| format!("port: the management server does not know the port of node {node} yet"))
    }

    fn ask_port(
        &mut self,
        cluster: &Cluster,
        node: NodeId,
        deadline: Instant,
    ) -> Result<Option<u16>, String> {
        let session = match &mut self.session {
            Some(session) => session,
            none => none.insert(Session::open(&self.servers, deadline).map_err(|e| e.to_string())?),
        };
        session.dynamic_port(node, cluster.own_node, deadline).map_err(|e| e.to_string())
    }
}
