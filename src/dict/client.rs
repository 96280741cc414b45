//! The dictionary of a connected cluster: [`Dictionary`] over a port of its own.
//!
//! Cached definitions are dropped when the cluster says that some may be stale: a table was altered, an
//! operation met a schema error, or all links were lost. Dropping a table or creating one is not announced by
//! the data nodes, so the schema error of an operation is how that is noticed.
//!
//! When the cluster is back after the loss of all links, definitions in use are asked for again
//! ([`Standings`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::schema::{Dictionary, Exchange, Received, TableName};
use super::standing::{Standing, Standings};
use super::table::{NewTable, Table};
use crate::cluster::Cluster;
use crate::cluster::port::Port;
use crate::error::{Error, ndb, own};
use crate::link::page::{Content, Page, for_each_signal};
use crate::wire::NodeId;
use crate::wire::block::reference;
use std::collections::VecDeque;

/// The dictionary client of a cluster handle, used by one thread at a time.
pub struct Client {
    dictionary: Dictionary,
    exchange: PortExchange,
    /// What the cluster's counters were when the cache was filled.
    seen: (u32, u32),
    standings: Arc<Standings>,
}

impl Client {
    /// A client with an empty cache.
    pub fn new(cluster: Arc<Cluster>) -> Result<Self, Error> {
        let standings = Arc::<Standings>::default();
        let in_use = standings.clone();
        cluster.on_return(move |cluster| renew(cluster, &in_use));
        let exchange = PortExchange::new(cluster)?;
        Ok(Client { dictionary: Dictionary::new(), exchange, seen: (0, 0), standings })
    }

    /// A table's definition, and whether it still holds.
    pub fn open(&mut self, database: &str, name: &str) -> Result<(Arc<Table>, Arc<Standing>), Error> {
        let incarnation = self.refresh();
        let table = self.dictionary.get_table(&mut self.exchange, database, name)?;
        let standing = self.standings.add(&table, incarnation);
        Ok((table, standing))
    }

    /// Creates a table.
    pub fn create(&mut self, table: &NewTable) -> Result<(), Error> {
        self.refresh();
        self.dictionary.create_table(&mut self.exchange, table).map(drop)
    }

    /// Drops a table.
    pub fn drop(&mut self, database: &str, name: &str) -> Result<(), Error> {
        self.refresh();
        self.dictionary.drop_table(&mut self.exchange, database, name)
    }

    /// The tables of one database or of all.
    pub fn list(&mut self, database: Option<&str>) -> Result<Vec<TableName>, Error> {
        self.refresh();
        self.dictionary.list(&mut self.exchange, database)
    }

    /// Drops cached definitions if some may be stale; the cluster's incarnation.
    fn refresh(&mut self) -> u32 {
        self.exchange.drain();
        let cluster = &self.exchange.cluster;
        let incarnation = cluster.incarnation.load(Ordering::Acquire);
        let now = (incarnation, cluster.schema_news.load(Ordering::Acquire));
        if std::mem::replace(&mut self.seen, now) != now {
            self.dictionary.invalidate_all();
        }
        incarnation
    }
}

/// Asks for every definition in use again, on the thread that calls, over a port of its own.
fn renew(cluster: &Arc<Cluster>, standings: &Standings) -> bool {
    let incarnation = cluster.incarnation.load(Ordering::Acquire);
    let Ok(mut exchange) = PortExchange::new(cluster.clone()) else { return false };
    let dictionary = Dictionary::new();
    standings.renew(incarnation, |table| {
        dictionary.fetch(&mut exchange, &table.internal_name).map_err(|error| error.code)
    })
}

/// Signals to and from the dictionary blocks of the data nodes.
struct PortExchange {
    cluster: Arc<Cluster>,
    port: Port,
    pages: Vec<Page>,
    /// What came, and by which generation of its node's link.
    received: VecDeque<(u32, Received)>,
    /// The node that was asked last, and the generation of its link then. The loss of an earlier generation
    /// may still wait in the port: nobody took it while there was nothing to ask.
    asked: Option<(NodeId, u32)>,
    /// Where the order of nodes to try begins.
    next: usize,
}

impl PortExchange {
    fn new(cluster: Arc<Cluster>) -> Result<Self, Error> {
        let port = cluster.ports.open();
        let port = port.ok_or_else(|| Error::new(own::TOO_MANY_IN_FLIGHT, "too many ports are open"))?;
        let (pages, received, asked) = (Vec::new(), VecDeque::new(), None);
        Ok(PortExchange { cluster, port, pages, received, asked, next: 0 })
    }

    /// Forgets what came since the last request: late answers, and losses of links that were opened again.
    fn drain(&mut self) {
        let mut pages = std::mem::take(&mut self.pages);
        self.port.take(None, &mut pages);
        for page in pages.drain(..) {
            self.port.forget_fragments(page.node);
            self.port.recycle(page);
        }
        self.pages = pages;
        self.received.clear();
    }

    fn take(&mut self, until: Instant) {
        let mut pages = std::mem::take(&mut self.pages);
        self.port.take(Some(until), &mut pages);
        for page in pages.drain(..) {
            let node = page.node;
            match &page.content {
                Content::LinkLost => {
                    self.port.forget_fragments(node);
                    self.received.push_back((page.generation, Received::NodeLost(node)));
                }
                Content::Signals(words) => {
                    let block = self.port.block();
                    let (port, received) = (&mut self.port, &mut self.received);
                    let read = for_each_signal(
                        words,
                        |receiver, _| receiver == block,
                        |part| {
                            let whole = port.assemble(node, &part);
                            let signal = whole.map(|whole| (page.generation, Received::Signal(node, whole)));
                            received.extend(signal);
                        },
                    );
                    if let (Err(_), Some(lost)) = (read, self.cluster.node(node)) {
                        lost.sender.shut_down(page.generation);
                    }
                }
            }
            self.port.recycle(page);
        }
        self.pages = pages;
    }
}

impl Exchange for PortExchange {
    fn reference(&self) -> u32 {
        reference(self.port.block(), self.cluster.own_node)
    }

    fn nodes(&self) -> Vec<NodeId> {
        let mut usable: Vec<_> =
            self.cluster.nodes.iter().filter(|node| node.usable().is_some()).map(|node| node.id).collect();
        let count = usable.len().max(1);
        usable.rotate_left(self.next % count);
        usable
    }

    fn send(&mut self, node: NodeId, words: &[u32]) -> Result<(), i32> {
        self.next = self.next.wrapping_add(1);
        let node = self.cluster.node(node).ok_or(ndb::CLUSTER_FAILURE)?;
        let generation = node.usable().ok_or(ndb::WAIT_NODE_FAILURE)?;
        self.asked = Some((node.id, generation));
        node.sender.send(generation, words, None).map(drop).map_err(|_| ndb::WAIT_NODE_FAILURE)
    }

    fn receive(&mut self, deadline: Instant) -> Received {
        loop {
            if let Some((generation, received)) = self.received.pop_front() {
                match received {
                    Received::NodeLost(node)
                        if self.asked.is_some_and(|at| at.0 == node && at.1 != generation) =>
                    {
                        continue;
                    }
                    _ => return received,
                }
            }
            if self.cluster.stopping() {
                return Received::Stopped;
            }
            if Instant::now() >= deadline {
                return Received::TimedOut;
            }
            self.take(deadline);
        }
    }

    fn pause(&mut self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        while Instant::now() < until && !self.cluster.stopping() {
            self.take(until);
        }
        !self.cluster.stopping()
    }
}
