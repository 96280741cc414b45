//! The send pool: one thread that finishes what a full socket would not take. The system tells it, once, when
//! a socket that was full takes bytes again.

use std::io;
use std::sync::Arc;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use super::mailbox::{Mailbox, WAKE};
use super::node::Node;

/// Orders for the send pool.
pub enum Order {
    /// The open stream of a node, in the place of its last one.
    Watch(Arc<Node>, TcpStream),
    /// End.
    Stop,
}

/// The send pool's thread.
pub struct SendPool {
    poll: Poll,
    mailbox: Arc<Mailbox<Order>>,
    links: Vec<(Arc<Node>, TcpStream)>,
}

impl SendPool {
    /// A pool without links, and the mailbox for its orders.
    pub fn new() -> io::Result<(Self, Arc<Mailbox<Order>>)> {
        let poll = Poll::new()?;
        let mailbox = Mailbox::new(&poll)?;
        Ok((SendPool { poll, mailbox: mailbox.clone(), links: Vec::new() }, mailbox))
    }

    /// The thread's body.
    pub fn run(mut self) {
        let mut events = Events::with_capacity(64);
        loop {
            if let Err(e) = self.poll.poll(&mut events, None)
                && e.kind() != io::ErrorKind::Interrupted
            {
                return;
            }
            for event in &events {
                match event.token() {
                    WAKE => {
                        if !self.obey() {
                            return;
                        }
                    }
                    Token(at) => self.links[at].0.sender.writable(),
                }
            }
        }
    }

    fn obey(&mut self) -> bool {
        for order in self.mailbox.take() {
            match order {
                Order::Stop => return false,
                Order::Watch(node, mut stream) => {
                    let at = match self.links.iter().position(|(n, _)| n.id == node.id) {
                        Some(at) => at,
                        None => self.links.len(),
                    };
                    // A stream that cannot be watched is of no use: the receive thread will meet its end.
                    if self.poll.registry().register(&mut stream, Token(at), Interest::WRITABLE).is_err() {
                        node.sender.shut_down_any();
                    }
                    if at == self.links.len() {
                        self.links.push((node, stream));
                    } else {
                        let _ = self.poll.registry().deregister(&mut self.links[at].1);
                        self.links[at].1 = stream;
                    }
                }
            }
        }
        true
    }
}
