//! The receive role: reads the sockets of its links and routes what arrives, and does nothing else with it.
//!
//! It looks at a message's length and at the receiver's block number. Of each link and round a port gets one
//! page: the receive buffer itself when the port gets most of what the link brings (the others get copies,
//! and the port skips what is theirs), else a copy of its messages. A port is posted to at most once a round.
//!
//! News of node failures is for the cluster manager, and every port gets a copy in its place in the link's
//! order, as it gets the news that the link is lost behind everything that the link brought.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mio::{Events, Interest, Poll, Token};

use super::inbox::News;
use super::mailbox::{Mailbox, WAKE};
use super::node::Node;
use super::port::{MAX_PORTS, Ports};
use super::role::Reads;
use crate::link::page::{Content, PAGE_WORDS, Page, Words, is_failure_news};
use crate::link::reader::{Got, Reader};
use crate::link::trace;
use crate::wire::block::{API_CLUSTERMGR, API_PACKED, MIN_API_BLOCK};
use crate::wire::signal::{FrameError, decode, receiver_of};
use crate::wire::{NodeId, packed};

/// Where the manager's pages are gathered, behind those of the ports.
const MANAGER: usize = MAX_PORTS;
/// A page of fewer words is copied, so that a slow reader does not hold a whole receive buffer for it.
const WORTH_THE_BUFFER: usize = PAGE_WORDS / 8;
/// Reads of one link in a round, so that a busy one does not keep the others waiting.
const READS_A_ROUND: usize = 4;
/// Buffers kept for reuse.
const MAX_POOL: usize = 64;

/// Orders for a receive thread.
pub enum Order {
    /// A link to read from now on.
    Add(Reader, Arc<Node>),
    /// End.
    Stop,
}

/// The receive role of some links.
pub struct Receiver {
    poll: Poll,
    events: Events,
    mailbox: Arc<Mailbox<Order>>,
    links: Vec<Option<Link>>,
    /// Links that may have more to read.
    unread: Vec<usize>,
    stopped: bool,
    router: Router,
}

struct Link {
    reader: Reader,
    node: Arc<Node>,
    /// The port that got most of what came last.
    main: Option<usize>,
    /// The peer has ended the stream: it is read to its end.
    closed: bool,
}

impl Receiver {
    /// A receiver without links, and the mailbox for its orders.
    pub fn new(ports: Arc<Ports>) -> io::Result<(Self, Arc<Mailbox<Order>>)> {
        let poll = Poll::new()?;
        let mailbox = Mailbox::new(&poll)?;
        let receiver = Receiver {
            poll,
            events: Events::with_capacity(64),
            mailbox: mailbox.clone(),
            links: Vec::new(),
            unread: Vec::new(),
            stopped: false,
            router: Router::new(ports),
        };
        Ok((receiver, mailbox))
    }

    fn wait(&mut self, wait: Option<Duration>) -> bool {
        if self.stopped {
            // Whoever had the role before has taken the order to end, and nothing else would end this wait.
            return false;
        }
        let wait = if self.unread.is_empty() { wait } else { Some(Duration::ZERO) };
        match self.poll.poll(&mut self.events, wait) {
            Err(e) if e.kind() != io::ErrorKind::Interrupted => false,
            _ => !self.stopped,
        }
    }

    fn read_and_post(&mut self) -> bool {
        let mut ready = std::mem::take(&mut self.unread);
        let mut orders = false;
        for event in &self.events {
            match event.token() {
                WAKE => orders = true,
                Token(slot) => {
                    if event.is_read_closed()
                        && let Some(Some(link)) = self.links.get_mut(slot)
                    {
                        link.closed = true;
                    }
                    if !ready.contains(&slot) {
                        ready.push(slot);
                    }
                }
            }
        }
        for slot in ready.drain(..) {
            if self.read(slot) {
                self.unread.push(slot);
            }
        }
        if self.unread.is_empty() {
            self.unread = ready;
        }
        self.router.post();
        !orders || self.obey()
    }

    fn obey(&mut self) -> bool {
        for order in self.mailbox.take() {
            match order {
                Order::Stop => {
                    self.stopped = true;
                    return false;
                }
                Order::Add(mut reader, node) => {
                    let slot = match self.links.iter().position(Option::is_none) {
                        Some(slot) => slot,
                        None => {
                            self.links.push(None);
                            self.links.len() - 1
                        }
                    };
                    let registered =
                        self.poll.registry().register(&mut reader.stream, Token(slot), Interest::READABLE);
                    self.links[slot] = Some(Link { reader, node, main: None, closed: false });
                    if registered.is_err() {
                        self.end(slot);
                        self.router.post();
                    }
                }
            }
        }
        true
    }

    /// Reads a link and routes what came. True if it may have more.
    fn read(&mut self, slot: usize) -> bool {
        for _ in 0..READS_A_ROUND {
            let Some(link) = self.links.get_mut(slot).and_then(Option::as_mut) else { return false };
            let got = link.reader.read();
            link.node.sender.received(link.reader.last);
            let link_closed = link.closed;
            if trace::is_on() {
                link.reader.trace();
            }
            let routed = self.router.route(link);
            if let Err(error) = routed {
                link.node.set_fault(error);
            }
            if routed.is_err() || got == Got::End {
                self.end(slot);
                return false;
            }
            // The system tells of the end of a stream once, perhaps together with its last bytes.
            if got == Got::Drained && !link_closed {
                return false;
            }
        }
        true
    }

    /// Nothing more comes from a link: tells every port.
    fn end(&mut self, slot: usize) {
        let Some(Some(mut link)) = self.links.get_mut(slot).map(Option::take) else { return };
        let _ = self.poll.registry().deregister(&mut link.reader.stream);
        let (node, generation) = (link.reader.node, link.reader.generation);
        link.node.lost(generation);
        link.node.sender.shut_down(generation);
        self.router.link_lost(node, generation);
    }
}

impl Reads for Receiver {
    type Waker = Mailbox<Order>;

    fn round(&mut self) -> bool {
        self.wait(None) && self.read_and_post()
    }

    fn borrowed_round(&mut self, wait: Duration, awake: impl FnOnce()) -> bool {
        let waited = self.wait(Some(wait));
        awake();
        waited && self.read_and_post()
    }

    fn poker(&self) -> Box<dyn Fn(u16)> {
        let ports = self.router.ports.clone();
        Box::new(move |block| ports.poke(block))
    }
}

/// Gathers the pages of a round.
struct Router {
    ports: Arc<Ports>,
    /// By port, the manager last.
    outgoing: Vec<Outgoing>,
    /// Those of `outgoing` that got something this round.
    touched: Vec<usize>,
    buffers: Vec<Vec<u32>>,
    small: Vec<Vec<u32>>,
    spent: Vec<Vec<u32>>,
}

#[derive(Default)]
struct Outgoing {
    touched: bool,
    pages: Vec<Page>,
    /// Copies from the link that is being routed.
    copy: Vec<u32>,
    /// Words the link brought for this port.
    words: usize,
    /// What all links brought for it.
    news: News,
}

impl Outgoing {
    /// Copies words, into a buffer of `pool` if there is none yet. A new one has room for all that is copied
    /// as a rule: one that grows bit by bit would be allocated again and again long after the start.
    #[inline]
    fn copy_from(&mut self, words: &[u32], pool: &mut Vec<Vec<u32>>) {
        if self.copy.capacity() == 0 {
            self.copy = pool.pop().unwrap_or_else(|| Vec::with_capacity(WORTH_THE_BUFFER));
        }
        self.copy.extend_from_slice(words);
    }
}

impl Router {
    fn new(ports: Arc<Ports>) -> Self {
        let outgoing = (0..=MANAGER).map(|_| Outgoing::default()).collect();
        Router {
            ports,
            outgoing,
            touched: Vec::new(),
            buffers: Vec::new(),
            small: Vec::new(),
            spent: Vec::new(),
        }
    }

    /// Routes the whole messages that a link has read. After an error nothing of them is.
    fn route(&mut self, link: &mut Link) -> Result<(), FrameError> {
        let main = link.main;
        let mut broken = None;
        let whole = link.reader.whole_messages(|message| {
            if broken.is_none()
                && let Err(e) = self.message(message, main)
            {
                broken = Some(e);
            }
        });
        let whole = match (whole, broken) {
            (Ok(whole), None) => whole,
            (Err(e), _) | (_, Some(e)) => {
                // Or it would pass for the next link's.
                for &port in &self.touched {
                    self.outgoing[port].copy.clear();
                    self.outgoing[port].words = 0;
                }
                return Err(e);
            }
        };
        let (node, generation) = (link.reader.node, link.reader.generation);
        // The page that is the buffer itself.
        match main.filter(|&main| self.outgoing[main].words > 0) {
            Some(main) if whole >= WORTH_THE_BUFFER => {
                let fresh = self.buffers.pop().unwrap_or_else(|| vec![0; PAGE_WORDS]);
                let words = link.reader.hand_over(whole, fresh);
                self.outgoing[main].pages.push(Page { node, generation, content: Content::Signals(words) });
            }
            Some(main) => {
                let words = &link.reader.words()[..whole];
                self.outgoing[main].copy_from(words, &mut self.small);
                link.reader.consume(whole);
            }
            None => link.reader.consume(whole),
        }
        link.main = None;
        for &port in &self.touched {
            let outgoing = &mut self.outgoing[port];
            if !outgoing.copy.is_empty() {
                let content = Content::Signals(Words::whole(std::mem::take(&mut outgoing.copy)));
                outgoing.pages.push(Page { node, generation, content });
            }
            if 2 * outgoing.words > whole {
                link.main = Some(port);
            }
            outgoing.words = 0;
        }
        Ok(())
    }

    #[inline]
    fn message(&mut self, message: &[u32], main: Option<usize>) -> Result<(), FrameError> {
        match receiver_of(message[2]) {
            API_PACKED => self.carrier(message, main),
            API_CLUSTERMGR => {
                if is_failure_news(API_CLUSTERMGR, message[1] as u16) {
                    self.for_every_port(|router, port| {
                        router.outgoing[port].news.other = true;
                        router.give(port, message, main);
                    });
                }
                self.give(MANAGER, message, main);
                Ok(())
            }
            block => {
                let port = port_of(block);
                self.outgoing[port].news.count(message[1] as u16);
                self.give(port, message, main);
                Ok(())
            }
        }
    }

    /// A carrier goes to each port that has a packet in it; mostly there is but one.
    fn carrier(&mut self, message: &[u32], main: Option<usize>) -> Result<(), FrameError> {
        let data = decode(message)?.data;
        let mut given = [None; 8];
        for packet in packed::Packets::new(data) {
            let (block, _) = packet.map_err(|_| FrameError::Length)?;
            let port = port_of(block);
            self.outgoing[port].news.count(message[1] as u16);
            // Packets are at least four words, so no more ports than this can be in one.
            for place in &mut given {
                match place {
                    Some(p) if *p == port => break,
                    Some(_) => {}
                    None => {
                        *place = Some(port);
                        self.give(port, message, main);
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn give(&mut self, port: usize, message: &[u32], main: Option<usize>) {
        let outgoing = &mut self.outgoing[port];
        outgoing.words += message.len();
        if !outgoing.touched {
            outgoing.touched = true;
            self.touched.push(port);
        }
        if Some(port) != main {
            outgoing.copy_from(message, &mut self.small);
        }
    }

    fn for_every_port(&mut self, mut f: impl FnMut(&mut Self, usize)) {
        let ports = self.ports.clone();
        let inboxes = ports.inboxes();
        (0..inboxes.len()).filter(|&port| inboxes[port].is_some()).for_each(|port| f(self, port));
    }

    fn link_lost(&mut self, node: NodeId, generation: u32) {
        let lost = |router: &mut Self, port: usize| {
            router.give(port, &[], None);
            router.outgoing[port].news.other = true;
            router.outgoing[port].pages.push(Page { node, generation, content: Content::LinkLost });
        };
        self.for_every_port(lost);
        lost(self, MANAGER);
    }

    /// Posts to every port that got something.
    fn post(&mut self) {
        if self.touched.is_empty() {
            return;
        }
        let ports = self.ports.clone();
        let inboxes = ports.inboxes();
        let mut orphans = Vec::new();
        for port in self.touched.drain(..) {
            let outgoing = &mut self.outgoing[port];
            outgoing.touched = false;
            let news = std::mem::take(&mut outgoing.news);
            match inboxes.get(port).and_then(Option::as_ref) {
                Some(inbox) => inbox.post(&mut outgoing.pages, &mut self.spent, news),
                None if port == MANAGER => {}
                // The port is closed. Its confirmations may still ask for an acknowledgement.
                None => orphans.append(&mut outgoing.pages),
            }
        }
        let manager = &mut self.outgoing[MANAGER].pages;
        manager.append(&mut orphans);
        if !manager.is_empty() {
            ports.manager.post(manager, &mut self.spent, News { other: true, ..News::default() });
        }
        self.reuse_buffers();
    }

    fn reuse_buffers(&mut self) {
        for mut buffer in self.spent.drain(..) {
            let pool = if buffer.len() == PAGE_WORDS {
                &mut self.buffers
            } else {
                buffer.clear();
                &mut self.small
            };
            if pool.len() < MAX_POOL {
                pool.push(buffer);
            }
        }
    }
}

fn port_of(block: u16) -> usize {
    match block.checked_sub(MIN_API_BLOCK) {
        Some(port) if (port as usize) < MAX_PORTS => port as usize,
        // No port of ours: the manager counts it.
        _ => MANAGER,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::port::Port;
    use super::*;
    use crate::link::page::for_each_signal;
    use crate::wire::signal::{Header, encode};
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};

    /// A receiver with one link per node, and the peers' ends.
    fn receiver<const N: usize>() -> (Receiver, Port, [TcpStream; N]) {
        let ports = Arc::new(Ports::default());
        let port = ports.open().unwrap();
        let (mut receiver, mailbox) = Receiver::new(ports).unwrap();
        let peers = std::array::from_fn(|at| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let own = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            own.set_nonblocking(true).unwrap();
            let id = at as NodeId + 1;
            mailbox.give(Order::Add(Reader::new(id, 1, own), Arc::new(Node::new(id, String::new()))));
            listener.accept().unwrap().0
        });
        assert!(receiver.round(), "takes the orders");
        (receiver, port, peers)
    }

    fn message(receiver: u16, first: u32) -> Vec<u8> {
        let mut words = Vec::new();
        encode(&mut words, Header { gsn: 10, receiver, sender: 245 }, &[first, 2, 3, 4], &[]).unwrap();
        bytemuck::cast_slice(&words).to_vec()
    }

    /// Rounds until `enough` pages have come: the node and, of signals, the first words.
    fn pages(receiver: &mut Receiver, port: &mut Port, enough: usize) -> Vec<(NodeId, Vec<u32>)> {
        let mut all = Vec::new();
        while all.len() < enough {
            assert!(receiver.round());
            let mut taken = Vec::new();
            port.take(None, &mut taken);
            for page in taken {
                let mut firsts = Vec::new();
                if let Content::Signals(words) = &page.content {
                    for_each_signal(words, |_, _| true, |signal| firsts.push(signal.data[0])).unwrap();
                }
                all.push((page.node, firsts));
            }
        }
        all
    }

    #[test]
    fn an_end_that_comes_with_the_last_bytes_is_seen() {
        let (mut receiver, mut port, [mut peer]) = receiver::<1>();
        peer.write_all(&message(port.block(), 7)).unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        assert_eq!(pages(&mut receiver, &mut port, 2), [(1, vec![7]), (1, vec![])]);
    }

    #[test]
    fn what_a_broken_link_brought_is_not_anothers() {
        let (mut receiver, mut port, [mut first, mut second]) = receiver::<2>();
        let mut bytes = message(port.block(), 7);
        bytes.extend([0xff; 16]);
        first.write_all(&bytes).unwrap();
        assert_eq!(pages(&mut receiver, &mut port, 1), [(1, vec![])], "lost");
        second.write_all(&message(port.block(), 8)).unwrap();
        assert_eq!(pages(&mut receiver, &mut port, 1), [(2, vec![8])]);
    }

    /// What was posted to a port, as the receive thread leaves it.
    fn taken(port: &mut Port) -> Vec<Page> {
        let mut pages = Vec::new();
        port.take(None, &mut pages);
        pages
    }

    fn words(page: &Page) -> &[u32] {
        match &page.content {
            Content::Signals(words) => words,
            Content::LinkLost => panic!("lost"),
        }
    }

    /// A message of many words.
    fn large(receiver: u16, first: u32) -> Vec<u8> {
        let (mut words, data, section) = (Vec::new(), [first, 2, 3, 4], [9; 4000]);
        encode(&mut words, Header { gsn: 10, receiver, sender: 245 }, &data, &[&section]).unwrap();
        bytemuck::cast_slice(&words).to_vec()
    }

    #[test]
    fn a_port_is_posted_to_once_a_round() {
        let (mut receiver, mut port, [mut first, mut second]) = receiver::<2>();
        let messages: Vec<u8> = (0..9).flat_map(|at| message(port.block(), at)).collect();
        first.write_all(&messages).unwrap();
        second.write_all(&messages).unwrap();
        // Both may not have come when the first round begins, so what counts is posts for each round.
        let (mut rounds, mut signals) = (0, 0);
        while signals < 18 {
            assert!(receiver.round());
            rounds += 1;
            for page in taken(&mut port) {
                for_each_signal(words(&page), |_, _| true, |_| signals += 1).unwrap();
            }
            assert!(port.inbox().posts() <= rounds, "one post for a round");
        }
    }

    #[test]
    fn a_buffer_mostly_for_one_port_becomes_its_page_and_little_is_copied() {
        let (mut receiver, mut port, [mut peer]) = receiver::<1>();
        // Which port gets most is known from what came before.
        peer.write_all(&large(port.block(), 1)).unwrap();
        assert!(receiver.round());
        assert!(taken(&mut port).iter().all(|page| matches!(page.content, Content::Signals(_))));
        for (bytes, by_reference) in [(large(port.block(), 2), true), (message(port.block(), 3), false)] {
            peer.write_all(&bytes).unwrap();
            let mut pages = Vec::new();
            while pages.iter().map(|page| 4 * words(page).len()).sum::<usize>() < bytes.len() {
                assert!(receiver.round());
                pages.extend(taken(&mut port));
            }
            let [page] = &mut pages[..] else { panic!("{} pages", pages.len()) };
            assert_eq!(bytemuck::cast_slice::<_, u8>(words(page)), bytes);
            let Content::Signals(content) = std::mem::replace(&mut page.content, Content::LinkLost) else {
                unreachable!()
            };
            // A receive buffer keeps its length, a copy has what was copied.
            assert_eq!(content.into_buffer().len() == PAGE_WORDS, by_reference);
        }
    }

    #[test]
    fn a_port_gets_copies_of_what_is_in_anothers_buffer() {
        let (mut receiver, mut port, [mut peer]) = receiver::<1>();
        let mut other = receiver.router.ports.open().unwrap();
        let bytes = [large(port.block(), 1), message(other.block(), 2), large(port.block(), 3)].concat();
        for _ in 0..3 {
            peer.write_all(&bytes).unwrap();
            let (mut mine, mut others) = (Vec::new(), Vec::new());
            while mine.len() < 2 || others.is_empty() {
                assert!(receiver.round());
                for (port, all) in [(&mut port, &mut mine), (&mut other, &mut others)] {
                    let block = port.block();
                    for page in taken(port) {
                        for_each_signal(words(&page), |to, _| to == block, |s| all.push(s.data[0])).unwrap();
                    }
                }
            }
            assert_eq!((&mine[..], &others[..]), (&[1, 3][..], &[2][..]));
        }
    }

    /// Pages posted to a port that wants a number of replies.
    #[test]
    fn posts_say_how_many_replies_they_bring() {
        use crate::wire::gsn::{TCKEYCONF, TRANSID_AI};
        let (mut receiver, mut port, [mut peer]) = receiver::<1>();
        let signal = |gsn, receiver| {
            let mut words = Vec::new();
            encode(&mut words, Header { gsn, receiver, sender: 245 }, &[1, 2, 3, 4], &[]).unwrap();
            bytemuck::cast_slice::<_, u8>(&words).to_vec()
        };
        // A carrier of two packets, the second for another port.
        let packet = |block: u16| [(block as u32) << 16, 1, 2, 3];
        let other = receiver.router.ports.open().unwrap();
        let mut carrier = Vec::new();
        let packets = [packet(port.block()), packet(other.block()), packet(port.block())].concat();
        encode(&mut carrier, Header { gsn: TCKEYCONF, receiver: API_PACKED, sender: 245 }, &packets, &[])
            .unwrap();
        let block = port.block();
        let bytes =
            [signal(TCKEYCONF, block), signal(TRANSID_AI, block), bytemuck::cast_slice(&carrier).to_vec()];
        let mut news = News::default();
        peer.write_all(&bytes.concat()).unwrap();
        while news.confirmations < 3 {
            assert!(receiver.round());
            news.add(port.inbox().news());
            taken(&mut port);
        }
        assert_eq!(news, News { confirmations: 3, rows: 1, other: false });
        peer.shutdown(Shutdown::Write).unwrap();
        while !news.other {
            assert!(receiver.round());
            news = port.inbox().news();
        }
        assert_eq!(taken(&mut port).len(), 1, "the loss");
    }

    #[test]
    fn the_descriptor_tells_of_signals_pokes_and_losses() {
        use crate::cluster::descriptor::is_readable;
        let (mut receiver, mut port, [mut peer]) = receiver::<1>();
        let fd = port.inbox().descriptor().unwrap();
        assert!(!is_readable(fd));
        let mut comes = |receiver: &mut Receiver, what: &mut dyn FnMut(&Port)| {
            what(&port);
            while !is_readable(fd) {
                assert!(receiver.round());
            }
            assert!(is_readable(fd), "until it is taken");
            let pages = taken(&mut port);
            assert!(!is_readable(fd));
            pages.len()
        };
        let block = MIN_API_BLOCK;
        assert_eq!(comes(&mut receiver, &mut |_| peer.write_all(&message(block, 1)).unwrap()), 1);
        assert_eq!(comes(&mut receiver, &mut |port| port.inbox().poke()), 0);
        assert_eq!(comes(&mut receiver, &mut |_| peer.shutdown(Shutdown::Write).unwrap()), 1);
        // Ports that are closed close theirs.
        drop(port);
    }
}
