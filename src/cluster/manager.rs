//! The manager: the thread that owns every data node's state.
//!
//! A node is *down* (dialled again after a pause that grows), *dialling*, *open* (registered by API_REGREQ
//! every 100 ms until it confirms, then at half its heartbeat interval; usable when it says that it is
//! started), or *missing*: its link was lost and nobody has said yet that it failed. Everything comes through
//! the manager's inbox: signals to the cluster manager's block, the loss of links, and a poke when the
//! connector has an outcome.
//!
//! A link that is lost means one of two things. If NODE_FAILREP names its node, the node failed: it is down.
//! If the others are lost too, this client was expelled (or the whole cluster is gone, which looks the same):
//! it is *apart*, and dials nobody before it has waited for the nodes to forget it and has asked for its node
//! id again. No new work goes to a node from the moment its link is lost. Source: doc/ndb-protocol.md;
//! storage/ndb/src/kernel/blocks/qmgr/QmgrMain.cpp.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Cluster;
use super::connector::{Order, Orders, Outcome};
use super::mailbox::Mailbox;
use super::node::Node;
use super::port::Port;
use super::{Left, receive, send_pool};
use crate::link::page::{Content, Page, for_each_signal};
use crate::link::reader::Reader;
use crate::log::log;
use crate::wire::block::{API_CLUSTERMGR, block_of, reference};
use crate::wire::registration::{self, CLIENT_VERSION, NodeFailRep, RegConf, RegRef};
use crate::wire::signal::Signal;
use crate::wire::transaction::SeizeConf;
use crate::wire::{NodeId, gsn, transaction};

/// Between two API_REGREQ until the node confirms.
const REGISTER_EVERY: Duration = Duration::from_millis(100);
/// The pause before the first new dial, and the longest one.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(1500));
/// How long the data nodes take to forget a client that they have expelled; so long, too, a lost link may go
/// unexplained before its node is dialled all the same.
const FORGOTTEN: Duration = Duration::from_secs(4);
/// The longest pause between two requests for the node id.
const LONGEST_REJOIN: Duration = Duration::from_secs(10);
/// While so many bytes wait for a node, no further heartbeats are added to them.
const HEARTBEATS_WAIT: usize = 4 << 20;

/// The manager thread.
pub struct Manager {
    port: Port,
    states: Vec<State>,
    connector: Orders,
    receivers: Vec<Arc<Mailbox<receive::Order>>>,
    pool: Arc<Mailbox<send_pool::Order>>,
    membership: Membership,
    /// Requests for the node id that failed since it was last given.
    refusals: u32,
    /// All links were lost, and nobody was told yet that the cluster is back.
    returning: bool,
    /// When those who could not be told must be told again.
    tell_again: Option<Instant>,
    left: Vec<Left>,
    jitter: u32,
}

/// Whether this process is a node of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Membership {
    Member,
    /// It was expelled, and asks for its node id again at this time.
    Apart(Instant),
    /// It has asked.
    Asking,
}

struct State {
    node: Arc<Node>,
    generation: u32,
    phase: Phase,
    /// Dials that failed since the node was last usable.
    failures: u32,
    /// NODE_FAILREP has named it since its link was opened.
    failed: bool,
}

enum Phase {
    Down { until: Instant },
    Missing { until: Instant },
    Dialling,
    Open { next_heartbeat: Instant, interval: Duration, confirmed: bool },
}

impl Manager {
    /// A manager that dials every node at once.
    pub fn new(
        cluster: &Cluster,
        connector: Orders,
        receivers: Vec<Arc<Mailbox<receive::Order>>>,
        pool: Arc<Mailbox<send_pool::Order>>,
    ) -> Self {
        let now = Instant::now();
        let states = cluster.nodes.iter().map(|node| State {
            node: node.clone(),
            generation: 0,
            phase: Phase::Down { until: now },
            failures: 0,
            failed: false,
        });
        Manager {
            port: cluster.ports.manager_port(),
            states: states.collect(),
            connector,
            receivers,
            pool,
            membership: Membership::Member,
            refusals: 0,
            returning: false,
            tell_again: None,
            left: Vec::new(),
            jitter: std::process::id() | 1,
        }
    }

    /// The thread's body.
    pub fn run(mut self, cluster: &Arc<Cluster>) {
        let mut pages = Vec::new();
        while !cluster.stopping() {
            let next = cluster.holds.nanos(self.timers(cluster));
            let next = cluster.ports.alarm(cluster.holds.now(), next);
            self.port.take(Some(cluster.holds.instant(next)), &mut pages);
            for page in pages.drain(..) {
                self.page(cluster, page);
            }
            for outcome in self.connector.outcomes() {
                self.outcome(cluster, outcome);
            }
        }
    }

    /// Does what is due; returns when the next thing is.
    fn timers(&mut self, cluster: &Cluster) -> Instant {
        let now = Instant::now();
        let mut next = now + Duration::from_secs(3600);
        match self.membership {
            Membership::Apart(until) if until <= now => {
                self.membership = Membership::Asking;
                self.connector.give(Order::Rejoin);
            }
            Membership::Apart(until) => next = next.min(until),
            Membership::Asking | Membership::Member => {}
        }
        match self.tell_again {
            Some(time) if time <= now => {
                self.tell_again = None;
                self.connector.give(Order::Return);
            }
            Some(time) => next = next.min(time),
            None => {}
        }
        let member = self.membership == Membership::Member;
        for state in &mut self.states {
            match &mut state.phase {
                Phase::Dialling => {}
                Phase::Down { .. } | Phase::Missing { .. } if !member => {}
                Phase::Down { until } | Phase::Missing { until } if *until <= now => {
                    state.phase = Phase::Dialling;
                    self.connector.give(Order::Dial(state.node.id));
                }
                Phase::Down { until } | Phase::Missing { until } => next = next.min(*until),
                Phase::Open { next_heartbeat, interval, confirmed } => {
                    if *next_heartbeat <= now {
                        register(&state.node, state.generation, cluster.own_node, *confirmed);
                        *next_heartbeat = now + *interval;
                    }
                    next = next.min(*next_heartbeat);
                }
            }
        }
        next
    }

    fn outcome(&mut self, cluster: &Arc<Cluster>, outcome: Outcome) {
        match outcome {
            Outcome::Dialled(node, stream) => self.dialled(cluster, node, stream),
            Outcome::Rejoined => self.rejoined(cluster, "dialling again".into()),
            // The data nodes decide whether they take this client.
            Outcome::NoServer(text) => self.rejoined(cluster, format!("no management server: {text}")),
            Outcome::Refused(text) => {
                let pause = self.growing(FORGOTTEN / 4, LONGEST_REJOIN, self.refusals);
                self.refusals += 1;
                log!(Warning, "no node id yet, asking again in {} ms", pause.as_millis());
                self.membership = Membership::Apart(Instant::now() + pause);
                self.report_all(cluster, &text);
            }
            Outcome::Told(true) => {}
            Outcome::Told(false) => self.tell_again = Some(Instant::now() + Duration::from_secs(1)),
        }
    }

    fn rejoined(&mut self, cluster: &Cluster, text: String) {
        log!(Warning, "back in the cluster: {text}");
        self.membership = Membership::Member;
        self.refusals = 0;
        let now = Instant::now();
        for state in &mut self.states {
            if !matches!(state.phase, Phase::Dialling) {
                state.phase = Phase::Down { until: now };
            }
        }
        self.report_all(cluster, &text);
    }

    fn report_all(&self, cluster: &Cluster, text: &str) {
        (0..self.states.len()).for_each(|at| cluster.report(at, false, text.into()));
    }

    fn dialled(&mut self, cluster: &Arc<Cluster>, node: NodeId, stream: Result<TcpStream, String>) {
        let Some(at) = self.states.iter().position(|s| s.node.id == node) else { return };
        if self.membership != Membership::Member {
            // It was asked for before the last link was lost.
            self.states[at].phase = Phase::Down { until: Instant::now() };
            return;
        }
        let opened = stream.and_then(|stream| self.open(at, stream).map_err(|e| e.to_string()));
        match opened {
            Ok(()) => cluster.report(at, false, "registering".into()),
            Err(text) => {
                cluster.report(at, false, text);
                self.pause(at);
            }
        }
    }

    fn open(&mut self, at: usize, stream: TcpStream) -> std::io::Result<()> {
        let read = stream.try_clone()?;
        let watch = mio::net::TcpStream::from_std(stream.try_clone()?);
        let receiver = &self.receivers[at % self.receivers.len()];
        let state = &mut self.states[at];
        state.generation += 1;
        state.failed = false;
        state.node.sender.open(state.generation, stream);
        state.node.opened(state.generation);
        self.pool.give(send_pool::Order::Watch(state.node.clone(), watch));
        let reader = Reader::new(state.node.id, state.generation, read);
        receiver.give(receive::Order::Add(reader, state.node.clone()));
        state.phase =
            Phase::Open { next_heartbeat: Instant::now(), interval: REGISTER_EVERY, confirmed: false };
        Ok(())
    }

    /// Down until a pause is over.
    fn pause(&mut self, at: usize) {
        let pause = self.growing(PAUSE.0, PAUSE.1, self.states[at].failures);
        let state = &mut self.states[at];
        state.failures += 1;
        state.phase = Phase::Down { until: Instant::now() + pause };
        log!(Debug, "node {}: dialled again in {} ms", state.node.id, pause.as_millis());
    }

    /// A pause that doubles with each failure, up to a limit, plus up to a quarter.
    fn growing(&mut self, first: Duration, longest: Duration, failures: u32) -> Duration {
        let pause = (first * (1 << failures.min(8))).min(longest);
        // A small linear congruential step is random enough to keep clients apart.
        self.jitter = self.jitter.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        pause + pause.mul_f64((self.jitter >> 16) as f64 / 65536.0 / 4.0)
    }

    fn page(&mut self, cluster: &Arc<Cluster>, page: Page) {
        let Some(at) = self.states.iter().position(|s| s.node.id == page.node) else { return };
        match &page.content {
            Content::LinkLost => self.link_lost(cluster, at, page.generation),
            Content::Signals(words) if page.generation == self.states[at].generation => {
                let mine = |block, _| block == API_CLUSTERMGR || !cluster.ports.is_open(block);
                let read = for_each_signal(words, mine, |signal| self.signal(cluster, at, &signal));
                if read.is_err() {
                    self.states[at].node.sender.shut_down(page.generation);
                }
            }
            Content::Signals(_) => {}
        }
        self.port.recycle(page);
    }

    fn link_lost(&mut self, cluster: &Arc<Cluster>, at: usize, generation: u32) {
        let now = Instant::now();
        let state = &mut self.states[at];
        self.left.retain(|left| left.node != state.node.id || left.generation > generation);
        if state.generation != generation || !matches!(state.phase, Phase::Open { .. }) {
            return;
        }
        state.node.sender.close(generation);
        match state.node.take_fault() {
            None => log!(Warning, "node {}: the connection was lost", state.node.id),
            Some(fault) => {
                log!(Error, "node {}: the connection brought {fault}, and was closed", state.node.id)
            }
        }
        if state.failed {
            cluster.report(at, false, "the node failed".into());
            self.pause(at);
        } else {
            cluster.report(at, false, "the connection was lost".into());
            state.phase = Phase::Missing { until: now + FORGOTTEN };
        }
        if self.states.iter().all(|s| !matches!(s.phase, Phase::Open { .. })) {
            // Table ids may belong to another cluster when it comes back.
            cluster.incarnation.fetch_add(1, Ordering::AcqRel);
            self.returning = true;
            log!(Warning, "all links are lost: this client was expelled, or the cluster is gone");
            self.membership = Membership::Apart(now + FORGOTTEN);
        }
    }

    fn signal(&mut self, cluster: &Arc<Cluster>, at: usize, signal: &Signal<'_>) {
        match signal.header.gsn {
            gsn::API_REGCONF => {
                if let Some(conf) = RegConf::decode(signal.data) {
                    self.confirmed(cluster, at, &conf);
                }
            }
            gsn::API_REGREF => {
                let text = match RegRef::decode(signal.data) {
                    Some(RegRef { version, reason, .. }) => format!(
                        "registration: the node, version {version}, refused this client, version {CLIENT_VERSION}: \
                         {reason:?}"
                    ),
                    None => "registration: refused".into(),
                };
                self.states[at].node.set_usable(self.states[at].generation, false);
                cluster.report(at, false, text);
            }
            gsn::NODE_FAILREP => {
                if let Some(news) = NodeFailRep::decode(signal) {
                    log!(Warning, "the cluster gives up nodes {:?}", news.failed.iter().collect::<Vec<_>>());
                    self.failed(&news);
                }
            }
            gsn::ALTER_TABLE_REP => {
                cluster.schema_news.fetch_add(1, Ordering::AcqRel);
            }
            _ => self.orphan(cluster, at, signal),
        }
    }

    fn confirmed(&mut self, cluster: &Arc<Cluster>, at: usize, conf: &RegConf) {
        let own = cluster.own_node;
        let state = &mut self.states[at];
        let Phase::Open { interval, confirmed, .. } = &mut state.phase else { return };
        *interval = Duration::from_millis((conf.heartbeat_ms / 2).clamp(50, 30_000));
        let first = !std::mem::replace(confirmed, true);
        let usable = conf.usable_for(own);
        state.node.confirmed(conf.version, conf.node_group);
        let known = state.node.usable().is_some();
        if first || usable != known {
            state.node.set_usable(state.generation, usable);
            let text = if !conf.version.usable() {
                format!(
                    "registration: the node's version {} cannot be used by this client, version {CLIENT_VERSION}",
                    conf.version
                )
            } else {
                format!("registered, start level {:?}", conf.start_level)
            };
            if usable {
                state.failures = 0;
            }
            cluster.report(at, usable, text);
            if usable && std::mem::take(&mut self.returning) {
                self.connector.give(Order::Return);
            }
        }
    }

    /// The cluster has given nodes up: so do we, also where the link is still open.
    fn failed(&mut self, news: &NodeFailRep) {
        for at in 0..self.states.len() {
            let state = &mut self.states[at];
            if !news.failed.contains(state.node.id) {
                continue;
            }
            state.failed = true;
            state.node.set_usable(state.generation, false);
            state.node.sender.shut_down(state.generation);
            if matches!(state.phase, Phase::Missing { .. }) {
                self.pause(at);
            }
        }
    }

    /// A signal for a port that is closed: an acknowledgement that it asks for is still due, and a
    /// coordinator record that comes too late goes back.
    fn orphan(&mut self, cluster: &Cluster, at: usize, signal: &Signal<'_>) {
        if signal.header.gsn == gsn::TCSEIZECONF
            && let Some(conf) = SeizeConf::decode(signal.data)
        {
            let (state, sender) = (&self.states[at], signal.header.receiver);
            let (tc, own) = (block_of(conf.reference), reference(sender, cluster.own_node));
            let mut words = Vec::new();
            transaction::release(&mut words, tc, sender, conf.connect, own, conf.client);
            let _ = state.node.sender.send(state.generation, &words, None);
            return;
        }
        let state = &self.states[at];
        let receiver = signal.header.receiver;
        let mut words = Vec::new();
        if let Some(transid) = transaction::acknowledgement_due(signal) {
            transaction::commit_ack(&mut words, signal.header.sender, receiver, transid);
        }
        if let Some((client, transid, ending)) = transaction::ending_of(signal) {
            cluster.take_left(&mut self.left);
            let found = self.left.iter().position(|left| {
                let named = left.node == state.node.id && left.port == (receiver, client);
                named && left.transid == transid && ending.is_last(left.rolling_back)
            });
            if let Some(Left { coordinator: (tc, connect), .. }) = found.map(|at| self.left.swap_remove(at)) {
                let own = reference(receiver, cluster.own_node);
                transaction::release(&mut words, tc, receiver, connect, own, client);
            }
        }
        if !words.is_empty() {
            let _ = state.node.sender.send(state.generation, &words, None);
        }
    }
}

fn register(node: &Node, generation: u32, own: NodeId, confirmed: bool) {
    if confirmed && node.sender.waiting() > HEARTBEATS_WAIT {
        // It would wait behind all that, and the node shows itself by taking bytes.
        return;
    }
    let mut words = Vec::new();
    registration::register(&mut words, own, confirmed, None);
    // A link that is lost meanwhile makes itself known through the inbox.
    let _ = node.sender.send(generation, &words, None);
}
