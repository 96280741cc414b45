//! A data node: one thread that owns a listening socket and its clients' links. What a read brings is
//! executed as a batch; what the round has for a client goes out in one write, what it has for another node
//! in one delivery. Sources: storage/ndb/src/kernel/blocks/qmgr/QmgrMain.cpp (registration, failures),
//! src/common/transporter/TransporterRegistry.cpp.

use std::io::{self, ErrorKind};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};

use super::coordinator::Coordinator;
use super::link::{Got, HAND_SHAKE_TIME, Hello, Link, Step, whole_messages};
use super::messages::Message;
use super::shared::{Shared, Status};
use super::storage::Storage;
use super::wires::Wires;
use crate::wire::block::{DBDICT, DBTC, QMGR, block_of, reference};
use crate::wire::fragment::OwnedSignal;
use crate::wire::registration::{CLIENT_VERSION, NodeSet, Version};
use crate::wire::requests::key::KeyRequest;
use crate::wire::requests::{Fault, OfTransaction, Register, Release, Seize, acknowledged, dictionary};
use crate::wire::signal::{Fragment, Signal, decode};
use crate::wire::{NodeId, gsn};

const LISTENER: Token = Token(usize::MAX);
const WAKE: Token = Token(usize::MAX - 1);
/// Between two looks at what may have timed out.
const TICK: Duration = Duration::from_millis(20);
/// Reads of one link in a round.
const READS_A_ROUND: usize = 4;
/// Connections that have not said who they are.
const MAX_LINKS: usize = 512;
/// Heartbeat intervals without a word after which a client is given up.
const MISSED_HEARTBEATS: u32 = 5;
const OLDEST_CLIENT: Version = Version::new(7, 4, 6);
const STARTED: u32 = 3;
/// Why most links end.
const CLOSED: &str = "it closed";
const MAIN_BLOCK: u16 = 0x1ff;
const CMVMI: u16 = 254;

/// A data node.
pub struct Node {
    own: NodeId,
    shared: Arc<Shared>,
    poll: Poll,
    listener: TcpListener,
    links: Vec<Option<Link>>,
    /// Links that may have more to read.
    unread: Vec<usize>,
    wires: Wires,
    coordinator: Coordinator,
    storage: Storage,
    schema_version: u64,
    /// While it starts: the nodes whose rows are still to come.
    joining: Option<NodeSet>,
    failures: u32,
    random: u64,
}

impl Node {
    /// A node that listens, on a port of its own choice.
    pub fn new(own: NodeId, shared: Arc<Shared>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into())?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let state = shared.node(own).ok_or(ErrorKind::NotFound)?;
        state.port.store(listener.local_addr()?.port(), Ordering::Release);
        state.inbox.open(Waker::new(poll.registry(), WAKE)?);
        let started = shared.started();
        let joining = (state.status() == Status::Starting).then_some(started);
        let mut up = started;
        up.insert(own);
        Ok(Node {
            own,
            poll,
            listener,
            links: Vec::new(),
            unread: Vec::new(),
            wires: Wires::new(own, shared.clone()),
            coordinator: Coordinator::new(own, started, shared.options.lock_timeout),
            storage: Storage::new(own, up),
            schema_version: 0,
            joining,
            failures: 0,
            random: shared.options.seed.wrapping_mul(2).wrapping_add(own as u64).wrapping_mul(0x9e37_79b9)
                | 1,
            shared,
        })
    }

    /// The thread's body.
    pub fn run(mut self) {
        let mut events = Events::with_capacity(256);
        let mut messages = Vec::new();
        let mut ready = Vec::new();
        let mut tick = Instant::now() + TICK;
        self.ask_for_rows();
        loop {
            let wait = self.wait(tick);
            if let Err(error) = self.poll.poll(&mut events, wait)
                && error.kind() != ErrorKind::Interrupted
            {
                return;
            }
            self.coordinator.now = Instant::now();
            self.refresh_tables();
            messages.clear();
            if let Some(state) = self.shared.node(self.own) {
                state.inbox.take(&mut messages);
            }
            for message in messages.drain(..) {
                if matches!(message, Message::Stop) {
                    return;
                }
                self.message(message);
                self.local();
            }
            ready.clear();
            ready.append(&mut self.unread);
            let mut arrived = false;
            for event in &events {
                match event.token() {
                    LISTENER => arrived = true,
                    WAKE => {}
                    Token(slot) => {
                        if !ready.contains(&slot) {
                            ready.push(slot);
                        }
                    }
                }
            }
            if arrived {
                self.accept();
            }
            for &slot in &ready {
                if self.read(slot) {
                    self.unread.push(slot);
                }
            }
            if self.coordinator.now >= tick {
                self.tick();
                tick = self.coordinator.now + TICK;
            }
            self.coordinator.end_round(&mut self.wires);
            self.local();
            self.wires.deliver();
            self.flush();
        }
    }

    /// How long the node may sleep.
    fn wait(&self, tick: Instant) -> Option<Duration> {
        let asleep = self.shared.node(self.own).is_some_and(|state| state.inbox.fall_asleep());
        if !asleep || !self.unread.is_empty() {
            return Some(Duration::ZERO);
        }
        let due = self.links.iter().flatten().filter_map(Link::due).min();
        let until = due.map_or(tick, |due| due.min(tick));
        Some(until.saturating_duration_since(Instant::now()))
    }

    fn refresh_tables(&mut self) {
        let version = self.shared.schema.version();
        if version != self.schema_version {
            self.schema_version = version;
            let tables = self.shared.schema.tables();
            self.storage.set_tables(&tables);
            self.coordinator.set_tables(tables);
        }
    }

    /// Handles what the node has to say to itself.
    #[inline]
    fn local(&mut self) {
        while let Some(message) = self.wires.next_local() {
            self.message(message);
        }
    }

    fn message(&mut self, message: Message) {
        let wires = &mut self.wires;
        match message {
            Message::Storage(work) => self.storage.work(work, wires),
            Message::Coordinator(report) => self.coordinator.report(report, wires),
            Message::Row(row) => wires.routed(row),
            Message::ClientFailed(client) => self.client_failed(client),
            Message::Hasten => {
                let now = Instant::now();
                self.links.iter_mut().flatten().for_each(|link| link.hasten(now));
            }
            Message::DropLinks(client, fault) => {
                for slot in 0..self.links.len() {
                    let found = self.links[slot].as_ref().and_then(Link::client);
                    if found.is_some() && (client.is_none() || client == found) {
                        fault.consume();
                        self.lose(slot, "a fault that was asked for");
                    }
                }
            }
            Message::Garbage(fault) => self.garbage(&fault),
            Message::NodeFailed(node) => self.node_failed(node),
            Message::NodeStarted(node) => {
                self.coordinator.node_started(node);
                self.storage.node_started(node);
            }
            Message::Join(node) => {
                let copies = self.storage.snapshot(node, self.coordinator.started());
                self.wires.send(node, Message::Snapshot(self.own, copies));
            }
            Message::Snapshot(from, copies) => {
                self.storage.load(copies);
                if let Some(missing) = &mut self.joining {
                    missing.remove(from);
                }
                self.started_perhaps();
            }
            Message::Orphans(from, failed, orphans) => self.coordinator.orphans(from, failed, orphans, wires),
            Message::TakenOver(node) => self.taken_over(node),
            Message::Stop => {}
        }
    }

    // Starting.

    fn ask_for_rows(&mut self) {
        self.refresh_tables();
        let Some(missing) = self.joining else { return };
        for node in missing.iter() {
            self.wires.send(node, Message::Join(self.own));
        }
        self.wires.deliver();
        self.started_perhaps();
    }

    /// When all rows are here, the node works.
    fn started_perhaps(&mut self) {
        if self.joining.as_ref().is_none_or(|missing| !missing.is_empty()) {
            return;
        }
        self.joining = None;
        self.coordinator.node_started(self.own);
        for node in &self.shared.nodes {
            if node.id != self.own {
                self.wires.send(node.id, Message::NodeStarted(self.own));
            } else {
                node.set_status(Status::Started);
            }
        }
    }

    // Failures.

    fn node_failed(&mut self, node: NodeId) {
        self.coordinator.node_failed(node, &mut self.wires);
        let orphans = self.storage.node_failed(node);
        if self.joining.is_some() {
            // Its rows will come from another node.
            self.joining = Some(*self.coordinator.started());
            return self.ask_for_rows();
        }
        self.failures += 1;
        let failures = self.failures;
        let failed: NodeSet = [node].into_iter().collect();
        let mask = failed.words();
        let words = (node as usize / 32) + 1;
        self.tell(gsn::NODE_FAILREP, &[failures, failures, 1], &[&mask[..words]]);
        if let Some(first) = self.coordinator.started().iter().next() {
            self.wires.send(first, Message::Orphans(self.own, node, orphans));
            if first == self.own
                && let Some((client, block, data)) = self.shared.schema.master_failed(&self.shared, node)
                && let Some(out) = self.wires.client(reference(block, client))
            {
                out.dictionary(gsn::SCHEMA_TRANS_END_REP, block, &data, &[]);
            }
        }
    }

    fn taken_over(&mut self, node: NodeId) {
        let (own, qmgr) = (self.own as u32, reference(QMGR, self.own));
        self.tell(gsn::TAKE_OVERTCCONF, &[node as u32, qmgr, 0], &[]);
        self.tell(gsn::NF_COMPLETEREP, &[reference(QMGR, 0), own, node as u32, 0, 0], &[]);
    }

    /// Tells all registered clients.
    fn tell(&mut self, number: u16, data: &[u32], sections: &[&[u32]]) {
        for link in self.links.iter().flatten() {
            if let Some(reference) = link.registered
                && let Some(out) = self.wires.client(reference)
            {
                out.qmgr(number, block_of(reference), data, sections);
            }
        }
    }

    /// This node has lost a client: all nodes expel it.
    fn lose(&mut self, slot: usize, why: &str) {
        let Some(Some(link)) = self.links.get(slot) else { return };
        let Some(client) = link.client() else { return self.close(slot) };
        self.shared.log(match why {
            CLOSED => format!("node {}: client {client} has left", self.own),
            _ => format!("node {}: client {client} expelled: {why}", self.own),
        });
        self.close(slot);
        for node in &self.shared.nodes {
            self.wires.send(node.id, Message::ClientFailed(client));
        }
    }

    fn client_failed(&mut self, client: NodeId) {
        let slot = self.links.iter().position(|link| link.as_ref().and_then(Link::client) == Some(client));
        if let Some(slot) = slot {
            self.close(slot);
        }
        self.coordinator.client_failed(client, &mut self.wires);
        self.storage.client_failed(client);
        self.shared.schema.client_failed(client);
    }

    fn close(&mut self, slot: usize) {
        let Some(mut link) = self.links.get_mut(slot).and_then(Option::take) else { return };
        let _ = self.poll.registry().deregister(link.stream());
        if let Some(client) = link.client() {
            self.wires.close(client);
            self.shared.disconnect(client, self.own);
        }
    }

    fn garbage(&mut self, fault: &super::faults::Fault) {
        for slot in 0..self.links.len() {
            let Some(Some(link)) = self.links.get_mut(slot) else { continue };
            if link.client().is_none() {
                continue;
            }
            fault.consume();
            let _ = link.write(&mut vec![u32::MAX; 64], &mut Vec::new());
            self.lose(slot, "a fault that was asked for");
        }
    }

    // Links.

    fn accept(&mut self) {
        loop {
            let Ok((mut stream, _)) = self.listener.accept() else { return };
            let slot = match self.links.iter().position(Option::is_none) {
                Some(slot) => slot,
                None if self.links.len() < MAX_LINKS => {
                    self.links.push(None);
                    self.links.len() - 1
                }
                None => continue,
            };
            let interest = Interest::READABLE | Interest::WRITABLE;
            if self.poll.registry().register(&mut stream, Token(slot), interest).is_ok() {
                let heartbeat = self.shared.options.heartbeat;
                self.links[slot] = Some(Link::new(stream, self.coordinator.now, heartbeat));
                self.unread.push(slot);
            }
        }
    }

    /// Reads a link and does what it asks. True if there may be more.
    fn read(&mut self, slot: usize) -> bool {
        for _ in 0..READS_A_ROUND {
            let Some(Some(link)) = self.links.get_mut(slot) else { return false };
            if link.clogged() {
                return false;
            }
            let got = link.read();
            link.heard = self.coordinator.now;
            if link.client().is_none() {
                let step = link.step();
                if let Err(why) = self.hand_shake(slot, &step) {
                    self.shared.log(format!("node {}: a connection refused: {why}", self.own));
                    self.close(slot);
                    return false;
                }
            }
            if let Err(fault) = self.execute(slot) {
                self.lose(slot, fault.0);
                return false;
            }
            match got {
                Got::End => {
                    self.lose(slot, CLOSED);
                    return false;
                }
                Got::Drained => return false,
                Got::More => {}
            }
        }
        true
    }

    fn hand_shake(&mut self, slot: usize, step: &Step) -> Result<(), &'static str> {
        let Some(Some(link)) = self.links.get_mut(slot) else { return Ok(()) };
        let hello: Hello = match step {
            Step::Wait => return Ok(()),
            Step::Refuse(why) => return Err(why),
            Step::Hello(hello) => *hello,
        };
        if (hello.node != 0 && hello.node != self.own) || hello.transporter != 1 {
            return Err("a hello for another node or kind of link");
        }
        if !self.shared.api_ids().contains(&hello.client) {
            return Err("a hello of a node that is no client");
        }
        let working = self.joining.is_none();
        if !working || hello.instance != 0 || !self.shared.connect(hello.client, self.own) {
            link.send_off();
            return Err("not now");
        }
        self.wires.open(hello.client);
        link.accept(Hello { node: self.own, ..hello }).map_err(|_| "it closed in the hand-shake")
    }

    /// Executes the whole messages that a link has read.
    fn execute(&mut self, slot: usize) -> Result<(), Fault> {
        let Some(Some(link)) = self.links.get_mut(slot) else { return Ok(()) };
        let Some(client) = link.client() else { return Ok(()) };
        let mut registered = link.registered.is_some();
        let (buffer, words) = link.take_buffer();
        let (whole, sound) = whole_messages(&buffer[..words]);
        let mut rest = &buffer[..whole];
        let mut result = Ok(());
        while let [first, ..] = *rest {
            let length = (first >> 8 & 0xffff) as usize;
            let (message, after) = rest.split_at(length.clamp(1, rest.len()));
            rest = after;
            result = match decode(message) {
                Ok(signal) => self.signal(slot, client, registered, &signal),
                Err(_) => Err(Fault("a signal that cannot be read")),
            };
            if result.is_err() {
                break;
            }
            if !registered {
                registered = matches!(self.links.get(slot), Some(Some(link)) if link.registered.is_some());
            }
            self.local();
        }
        if let Some(Some(link)) = self.links.get_mut(slot) {
            link.give_back(buffer, whole);
        }
        if sound { result } else { result.and(Err(Fault("bytes that are no signal"))) }
    }

    #[inline]
    fn signal(
        &mut self,
        slot: usize,
        client: NodeId,
        registered: bool,
        signal: &Signal<'_>,
    ) -> Result<(), Fault> {
        let main = signal.header.receiver & MAIN_BLOCK;
        if !registered && main != QMGR {
            // Blocks are open to a client only after its registration.
            return Ok(());
        }
        if signal.fragment != Fragment::Whole {
            let Some(Some(link)) = self.links.get_mut(slot) else { return Ok(()) };
            return match link.assembler.add(signal) {
                Ok(None) => Ok(()),
                Ok(Some(whole)) => self.assembled(client, &whole),
                Err(_) => Err(Fault("a fragment that belongs to no signal")),
            };
        }
        if signal.header.gsn == gsn::TCKEYREQ && main == DBTC {
            let request = KeyRequest::decode(signal)?;
            return self.key_request(client, &request);
        }
        match main {
            QMGR => self.registration(slot, client, signal),
            DBTC => self.transaction(client, signal),
            DBDICT => self.dictionary(client, signal.header.gsn, signal.data, signal.sections()),
            // Log events and dump orders: nobody looks at them.
            CMVMI => Ok(()),
            _ => Err(Fault("a signal for a block that does not expect it")),
        }
    }

    #[inline]
    fn key_request(&mut self, client: NodeId, request: &KeyRequest<'_>) -> Result<(), Fault> {
        if request.table >= super::dictionary::MAX_OBJECTS {
            return Err(Fault("TCKEYREQ for a table past the node's table array"));
        }
        let failure = self.shared.node(self.own).and_then(|state| state.faults.take_failure());
        self.coordinator.key_request(request, client, failure, &mut self.storage, &mut self.wires)
    }

    fn assembled(&mut self, client: NodeId, signal: &OwnedSignal) -> Result<(), Fault> {
        let sections: Vec<&[u32]> = signal.sections.iter().map(|section| &section[..]).collect();
        match (signal.header.gsn, signal.header.receiver & MAIN_BLOCK, &sections[..]) {
            (gsn::TCKEYREQ, DBTC, [key]) => {
                self.key_request(client, &KeyRequest::of_parts(&signal.data, key, &[])?)
            }
            (gsn::TCKEYREQ, DBTC, [key, attributes]) => {
                self.key_request(client, &KeyRequest::of_parts(&signal.data, key, attributes)?)
            }
            (number, DBDICT, sections) => self.dictionary(client, number, &signal.data, sections),
            _ => Err(Fault("a fragmented signal that is none's")),
        }
    }

    fn transaction(&mut self, client: NodeId, signal: &Signal<'_>) -> Result<(), Fault> {
        let (data, wires) = (signal.data, &mut self.wires);
        match signal.header.gsn {
            gsn::TCSEIZEREQ => self.coordinator.seize(&Seize::decode(data, client)?, wires),
            gsn::TCRELEASEREQ => self.coordinator.release(&Release::decode(data, client)?, wires),
            gsn::TC_COMMITREQ => self.coordinator.commit(OfTransaction::decode(data)?, client, wires)?,
            gsn::TCROLLBACKREQ => self.coordinator.rollback(OfTransaction::decode(data)?, client, wires)?,
            gsn::TC_HBREP => self.coordinator.heartbeat(OfTransaction::decode(data)?, client)?,
            gsn::TC_COMMIT_ACK => self.coordinator.acknowledge(acknowledged(data)?),
            _ => return Err(Fault("a signal that the coordinator does not know")),
        }
        Ok(())
    }

    fn dictionary(
        &mut self,
        client: NodeId,
        number: u16,
        data: &[u32],
        sections: &[&[u32]],
    ) -> Result<(), Fault> {
        let request = dictionary::decode(number, data, sections, client)?;
        let Some(out) = self.wires.client(request.reference) else { return Ok(()) };
        self.shared.schema.answer(&self.shared, self.own, number, &request, out)?;
        self.refresh_tables();
        Ok(())
    }

    fn registration(&mut self, slot: usize, client: NodeId, signal: &Signal<'_>) -> Result<(), Fault> {
        if signal.header.gsn == gsn::PROCESSINFO_REP {
            return Ok(());
        }
        if signal.header.gsn != gsn::API_REGREQ {
            return Err(Fault("a signal that the registration block does not know"));
        }
        let request = Register::decode(signal.data, client)?;
        let Some(Some(link)) = self.links.get_mut(slot) else { return Ok(()) };
        let own = reference(QMGR, self.own);
        let version = CLIENT_VERSION.0;
        let receiver = block_of(request.reference);
        let Some(out) = self.wires.client(request.reference) else { return Ok(()) };
        if Version(request.version) < OLDEST_CLIENT {
            const UNSUPPORTED_VERSION: u32 = 2;
            out.qmgr(gsn::API_REGREF, receiver, &[own, version, UNSUPPORTED_VERSION, version], &[]);
            return Ok(());
        }
        link.registered = Some(request.reference);
        if let Some(interval) = request.interval {
            link.heartbeat = Duration::from_millis(interval.max(100) as u64);
        }
        let mut connected = self.shared.clients_of(self.own);
        self.coordinator.started().iter().for_each(|node| connected.insert(node));
        connected.insert(self.shared.management_id());
        let group = (self.own - 1) / self.shared.options.replicas;
        let president = self.coordinator.started().iter().next() == Some(self.own);
        let dynamic = if president { (-1i32) as u32 } else { self.own as u32 };
        let mut data = [0; 22];
        data[..8].copy_from_slice(&[
            own,
            version,
            (link.heartbeat.as_millis() / 10) as u32,
            version,
            version,
            STARTED,
            group as u32,
            dynamic,
        ]);
        data[12] = u32::MAX;
        data[13..21].copy_from_slice(&connected.words());
        data[21] = version;
        out.qmgr(gsn::API_REGCONF, receiver, &data, &[]);
        Ok(())
    }

    // The end of a round.

    fn tick(&mut self) {
        let shared = &self.shared;
        self.coordinator.time_out(|| shared.take_turn(), &mut self.wires);
        let now = self.coordinator.now;
        for slot in 0..self.links.len() {
            let Some(Some(link)) = self.links.get(slot) else { continue };
            let silent = now.saturating_duration_since(link.heard);
            match link.client() {
                Some(_) if silent > link.heartbeat * MISSED_HEARTBEATS => self.lose(slot, "no heartbeats"),
                None if silent > HAND_SHAKE_TIME => self.close(slot),
                _ => {}
            }
        }
    }

    /// Writes what the round has for clients.
    fn flush(&mut self) {
        let Some(state) = self.shared.node(self.own) else { return };
        let now = self.coordinator.now;
        let mut lost = Vec::new();
        for (slot, link) in self.links.iter_mut().enumerate() {
            let Some(link) = link else { continue };
            let Some(client) = link.client() else { continue };
            let Some(out) = self.wires.client(client as u32) else { continue };
            if out.waiting() == 0 && !link.waits() && link.due().is_none() {
                continue;
            }
            let was_clogged = link.clogged();
            let (signals, rows) = out.close();
            let delay = state.faults.delay_of_replies().map(|delay| now + delay);
            let hold = state.faults.held().max(delay).or(link.due().filter(|due| *due > now));
            if let Some(until) = hold
                && !(signals.is_empty() && rows.is_empty())
            {
                // Nothing may overtake what waits already.
                link.delay(until, [std::mem::take(signals), std::mem::take(rows)].concat());
            }
            link.release(now);
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (first, second) = if self.random >> 63 == 0 { (signals, rows) } else { (rows, signals) };
            if let Err(why) = link.write(first, second) {
                lost.push((slot, why));
            } else if was_clogged && !link.clogged() {
                self.unread.push(slot);
            }
        }
        for (slot, why) in lost {
            self.lose(slot, why);
        }
        self.local();
        self.wires.deliver();
    }
}
