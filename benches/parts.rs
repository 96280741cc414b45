//! What the parts of a read cost the client, in nanoseconds: the hash of its key, defining it, routing its
//! replies, completing it.
//!
//!     cargo bench --bench parts
//!
//! Each part is repeated and the least time is printed: what disturbs the machine only adds. Defining and
//! completing are against a peer in a process of its own that answers from prepared words
//! (`kit/null_peer.rs`), in lock step; completing holds no waiting, for all replies have arrived when it
//! begins. The whole client is rounds of define, send, wait and complete, one after the other, the peer's
//! part included.

#![allow(missing_docs, reason = "a program")]

mod kit;

use std::hint::black_box;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use iclaustron::cluster::node::Node;
use iclaustron::cluster::port::Ports;
use iclaustron::cluster::receive::{Order, Receiver};
use iclaustron::cluster::role::Reads as _;
use iclaustron::link::reader::Reader;
use iclaustron::wire::gsn;
use iclaustron::wire::hash::{LANES, hash, hash_short, hash_short_lanes};
use iclaustron::wire::signal::{Header, encode};
use kit::{IN_FLIGHT, Peer, Reads};

/// Repetitions of a part.
const TIMES: u32 = 2000;
/// Time for all replies of a round to arrive.
const ARRIVAL: Duration = Duration::from_millis(1);

fn main() {
    kit::be_the_peer_if_asked();
    hashes();
    route();
    let peer = Peer::start();
    define_and_complete(&peer);
    [32, 200, 400].into_iter().for_each(|in_flight| whole_client(&peer, in_flight));
}

/// The least time that `work` takes, for each of its operations.
fn least(name: &str, operations: u32, times: u32, mut work: impl FnMut() -> Duration) {
    let least = (0..times).map(|_| work()).min().unwrap_or_default();
    println!("{name:<44} {:>8.1} ns", least.as_nanos() as f64 / operations as f64);
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let began = Instant::now();
    black_box(work());
    began.elapsed()
}

fn hashes() {
    const COUNT: u32 = 1000;
    let each =
        |hash: fn(u32) -> u32| timed(|| (0..COUNT).fold(0, |sum: u32, key| sum ^ hash(black_box(key))));
    least("hash of a key of one word", COUNT, TIMES, || each(|key| hash_short([key])[1]));
    least("hash of a key of two words", COUNT, TIMES, || each(|key| hash_short([key, 7])[1]));
    least("hash of keys of one word, eight at a time", COUNT, TIMES, || {
        let keys = |first| std::array::from_fn(|at| [first + at as u32]);
        let all = (0..COUNT).step_by(LANES);
        timed(|| all.fold(0, |sum, key| sum ^ hash_short_lanes(black_box(keys(key)))[0]))
    });
    least("hash of a key of one word, general", COUNT, TIMES, || each(|key| hash(black_box(&[key]))[1]));
    least("hash of a key of twenty words", COUNT, TIMES, || each(|key| hash(black_box(&[key; 20]))[1]));
}

/// A confirmation and a row each, as many as fit a read, from a socket to a port's inbox.
fn route() {
    const COUNT: u32 = 200;
    let ports = Arc::new(Ports::default());
    let mut port = ports.open().expect("a port");
    let (mut receiver, mailbox) = Receiver::new(ports).expect("a receiver");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listening socket");
    let own = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
    own.set_nonblocking(true).expect("a socket that does not block");
    mailbox.give(Order::Add(Reader::new(1, 1, own), Arc::new(Node::new(1, String::new()))));
    let (mut peer, _) = listener.accept().expect("the peer's end");
    assert!(receiver.round(), "takes the order");
    let mut words = Vec::new();
    for _ in 0..COUNT {
        let confirmation = Header { gsn: gsn::TCKEYCONF, receiver: port.block(), sender: 245 };
        encode(&mut words, confirmation, &[0; 8], &[]).expect("a confirmation");
        let row = Header { gsn: gsn::TRANSID_AI, receiver: port.block(), sender: 249 };
        encode(&mut words, row, &[0; 5], &[]).expect("a row");
    }
    let total = words.len();
    let mut pages = Vec::new();
    least("route, reading the socket included", COUNT, TIMES, || {
        peer.write_all(bytemuck::cast_slice(&words)).expect("room in the socket");
        let mut came = 0;
        let began = Instant::now();
        while came < total {
            assert!(receiver.round());
            port.take(None, &mut pages);
            for page in pages.drain(..) {
                if let iclaustron::link::page::Content::Signals(words) = &page.content {
                    came += words.len();
                }
                port.recycle(page);
            }
        }
        began.elapsed()
    });
}

fn whole_client(peer: &Peer, in_flight: u32) {
    let mut reads = Reads::new(&peer.connectstring, in_flight).unwrap_or_else(|error| panic!("{error}"));
    least(&format!("the whole client, {in_flight} in flight"), in_flight, TIMES, || {
        timed(|| reads.read().expect("a round of reads"))
    });
}

fn define_and_complete(peer: &Peer) {
    let mut reads = Reads::new(&peer.connectstring, IN_FLIGHT).unwrap_or_else(|error| panic!("{error}"));
    let (mut define, mut send, mut complete) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TIMES / 4 {
        define.push(timed(|| reads.define_reads().expect("definitions")));
        send.push(timed(|| reads.connection.send(true)));
        std::thread::sleep(ARRIVAL);
        complete.push(timed(|| reads.complete_reads().expect("completions")));
    }
    for (name, mut all) in [
        ("define: hints, start, define, commit", define),
        ("send, of 32 to two nodes", send),
        ("complete: read two sockets, route, complete", complete),
    ] {
        let times = all.len() as u32;
        least(name, IN_FLIGHT, times, || all.pop().unwrap_or_default());
    }
}
