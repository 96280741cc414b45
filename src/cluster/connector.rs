//! The connector: the thread that does what blocks. It dials data nodes one after the other as the manager asks,
//! and asks the management server for the ports of those that have dynamic ones. Its session is the only one of
//! the cluster handle, and is closed once nothing is left to ask.

use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::Cluster;
use crate::link::dial::{Target, dial};
use crate::mgm::{Host, Session};
use crate::wire::NodeId;
use crate::wire::config::Port;

/// The limit of asking the management server for a port.
const PORT_LIMIT: Duration = Duration::from_secs(5);

/// A dial's outcome: the stream, or why there is none.
pub type Outcome = Result<TcpStream, String>;

/// The manager's end.
#[derive(Clone)]
pub struct Orders {
    dial: Sender<NodeId>,
    outcomes: Arc<Mutex<Vec<(NodeId, Outcome)>>>,
}

impl Orders {
    /// Asks for a dial.
    pub fn dial(&self, node: NodeId) {
        // The connector is gone only at the end.
        let _ = self.dial.send(node);
    }

    /// Takes the outcomes so far. The manager's inbox is poked for each.
    pub fn outcomes(&self) -> Vec<(NodeId, Outcome)> {
        std::mem::take(&mut self.outcomes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

/// The connector thread.
pub struct Connector {
    session: Option<Session>,
    orders: Orders,
    asked: Receiver<NodeId>,
}

impl Connector {
    /// A connector that goes on with the session by which the cluster was joined.
    pub fn new(session: Session) -> Self {
        let (dial, asked) = channel();
        Connector { session: Some(session), orders: Orders { dial, outcomes: Arc::default() }, asked }
    }

    /// The manager's end.
    pub fn orders(&self) -> Orders {
        self.orders.clone()
    }

    /// The thread's body. It ends when the manager has dropped its end.
    pub fn run(mut self, cluster: &Arc<Cluster>) {
        // Its own end of the channel would keep it open.
        let (gone, _) = channel();
        self.orders.dial = gone;
        while let Ok(node) = self.next() {
            if cluster.stopping() {
                return;
            }
            let outcome = self.connect(cluster, node);
            let mut outcomes = self.orders.outcomes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            outcomes.push((node, outcome));
            drop(outcomes);
            cluster.ports.manager.poke();
        }
    }

    /// The next node to dial; closes the session while there is none.
    fn next(&mut self) -> Result<NodeId, std::sync::mpsc::RecvError> {
        if let Ok(node) = self.asked.try_recv() {
            return Ok(node);
        }
        self.leave();
        self.asked.recv()
    }

    fn leave(&mut self) {
        if let Some(session) = self.session.take() {
            session.end();
        }
    }

    fn connect(&mut self, cluster: &Cluster, node: NodeId) -> Outcome {
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
            none => {
                let servers = cluster.configuration.management_servers().into_iter();
                let hosts: Vec<_> =
                    servers.map(|s| Host { name: s.host, port: s.port, bind: None }).collect();
                none.insert(Session::open(&hosts, deadline).map_err(|e| e.to_string())?)
            }
        };
        session.dynamic_port(node, cluster.own_node, deadline).map_err(|e| e.to_string())
    }
}
