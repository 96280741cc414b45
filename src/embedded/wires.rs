//! Where a node's blocks leave what they have for clients and for other nodes, until the end of the round.

use std::collections::VecDeque;
use std::sync::Arc;

use super::messages::{Message, Report, Row, Tag};
use super::outgoing::Outgoing;
use super::shared::Shared;
use crate::wire::NodeId;
use crate::wire::block::{block_of, node_of};

const CLIENTS: usize = 256;

/// The ways out of a node.
#[derive(Debug)]
pub struct Wires {
    own: NodeId,
    shared: Arc<Shared>,
    /// By node id; none for clients without a link.
    clients: Vec<Option<Outgoing>>,
    local: VecDeque<Message>,
    /// By node.
    remote: Vec<Vec<Message>>,
    /// Reports for the coordinators of other nodes, by node.
    reports: Vec<Vec<Message>>,
}

impl Wires {
    /// Wires that lead to no client.
    pub fn new(own: NodeId, shared: Arc<Shared>) -> Self {
        let none = || shared.nodes.iter().map(|_| Vec::new()).collect();
        let (remote, reports) = (none(), none());
        let clients = (0..CLIENTS).map(|_| None).collect();
        Wires { own, shared, clients, local: VecDeque::new(), remote, reports }
    }

    /// A client has a link now.
    pub fn open(&mut self, client: NodeId) {
        if let Some(slot) = self.clients.get_mut(client as usize) {
            *slot = Some(Outgoing::default());
        }
    }

    /// A client has no link any more.
    pub fn close(&mut self, client: NodeId) {
        if let Some(slot) = self.clients.get_mut(client as usize) {
            *slot = None;
        }
    }

    /// What goes to the client of a reference, if it has a link.
    #[inline]
    pub fn client(&mut self, reference: u32) -> Option<&mut Outgoing> {
        self.clients.get_mut(node_of(reference) as usize)?.as_mut()
    }

    /// A signal of the coordinator; lost with the client's link.
    pub fn coordinator(&mut self, reference: u32, number: u16, data: &[u32]) {
        if let Some(out) = self.client(reference) {
            out.coordinator(number, block_of(reference), data);
        }
    }

    /// A row, through the coordinator's node when this one has no link to the client.
    #[inline]
    pub fn row(&mut self, tag: &Tag, words: &[u32]) {
        match self.client(tag.reference) {
            Some(out) => out.row(block_of(tag.reference), tag.operation, tag.transid, words),
            None => self.route(tag, Ok(words.to_vec())),
        }
    }

    /// The refusal of a committed read.
    pub fn refused_read(&mut self, tag: &Tag, code: i32) {
        match self.client(tag.reference) {
            Some(out) => out.refused_read(block_of(tag.reference), tag.operation, tag.transid, code),
            None => self.route(tag, Err(code)),
        }
    }

    fn route(&mut self, tag: &Tag, words: Result<Vec<u32>, i32>) {
        if tag.coordinator != self.own {
            let Tag { reference, operation, transid, coordinator, .. } = *tag;
            self.send(coordinator, Message::Row(Row { reference, operation, transid, words }));
        }
    }

    /// A row that another node has read.
    pub fn routed(&mut self, row: Row) {
        let Row { reference, operation, transid, words } = row;
        let Some(out) = self.client(reference) else { return };
        match words {
            Ok(words) => out.row(block_of(reference), operation, transid, &words),
            Err(code) => out.refused_read(block_of(reference), operation, transid, code),
        }
    }

    /// A message for a node, this one among them.
    #[inline]
    pub fn send(&mut self, node: NodeId, message: Message) {
        if node == self.own {
            self.local.push_back(message);
        } else if let Some(messages) = (node as usize).checked_sub(1).and_then(|at| self.remote.get_mut(at)) {
            messages.push(message);
        }
    }

    /// A report for a coordinator.
    pub fn report(&mut self, coordinator: NodeId, report: Report) {
        let message = Message::Coordinator(report);
        if coordinator == self.own {
            self.local.push_back(message);
        } else if let Some(reports) =
            (coordinator as usize).checked_sub(1).and_then(|at| self.reports.get_mut(at))
        {
            reports.push(message);
        }
    }

    /// The next message of this node for itself.
    #[inline]
    pub fn next_local(&mut self) -> Option<Message> {
        self.local.pop_front()
    }

    /// Gives the other nodes their messages, reports last: what a coordinator tells a backup because of a
    /// report must not overtake what this node has told that backup.
    pub fn deliver(&mut self) {
        let nodes = || self.shared.nodes.iter();
        for (node, messages) in nodes().zip(&mut self.remote).chain(nodes().zip(&mut self.reports)) {
            if !messages.is_empty() {
                node.inbox.give(messages);
            }
        }
    }

    /// The global checkpoint of now.
    pub fn checkpoint(&self) -> [u32; 2] {
        self.shared.checkpoint()
    }
}
