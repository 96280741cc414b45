//! The sending half of a link: one mutex, one writer at a time.
//!
//! A thread with words to send writes the socket itself, straight from its own buffer, unless another thread
//! is writing; then it appends its words, and the writer takes them along. Adaptive send may hold words for
//! company ([`super::adaptive`]): they wait for another connection's send, which writes all, for a send that
//! is forced, or for the send pool at their deadline. What a full socket does not take waits for the send
//! pool too, which the system tells when the socket takes bytes again.
//!
//! A write that fails shuts the socket down. The reading half then meets the end of the stream, and the loss
//! is made known in one way only: through the receive thread, behind everything the link still brought.

use std::io::{ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

use super::adaptive::Adaptive;
use super::statistics::LinkStatistics;
use super::trace;
use crate::sync::{Arc, AtomicUsize, Mutex, MutexGuard};
use crate::wire::NodeId;
use crate::wire::trace::Direction;

/// What a sender writes to: a socket that does not block, or a stand-in in tests.
pub trait Socket {
    /// Writes some of the bytes.
    fn write_some(&self, bytes: &[u8]) -> std::io::Result<usize>;
    /// Ends both directions.
    fn shut_down(&self);
}

impl Socket for TcpStream {
    #[inline]
    fn write_some(&self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut stream = self;
        stream.write(bytes)
    }

    fn shut_down(&self) {
        // An error says that the socket is down already.
        let _ = self.shutdown(Shutdown::Both);
    }
}

/// The words belong to a generation of the link that is gone: they were not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

/// What a send did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// How often the socket was written for it; 0 when the words joined those of a writer or of the send
    /// pool, or are held.
    pub writes: u32,
    /// The words are held: the send pool must write them at this time if nobody does before.
    pub held: Option<u64>,
}

/// Who sends, and how long its words may wait for company. Times are nanoseconds of the cluster handle's
/// clock.
#[derive(Debug, Clone, Copy)]
pub struct Company {
    /// The sending connection's block number.
    pub from: u16,
    /// The time.
    pub now: u64,
    /// The longest hold.
    pub limit: u64,
}

/// The sending half.
#[derive(Debug)]
pub struct Sender<S = TcpStream> {
    state: Mutex<State<S>>,
    /// Bytes that wait, for the bound that is checked where an operation is defined.
    waiting: AtomicUsize,
    /// The node at the other end, for traces.
    node: NodeId,
    counters: Counters,
}

/// What was done so far, by whomever, with all generations.
#[derive(Debug, Default)]
struct Counters {
    opened: AtomicU64,
    writes: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    most_waiting: AtomicU64,
    /// Held sends by how they ended, see [`Ended`].
    ended: [AtomicU64; 3],
}

/// How a held send ended.
#[derive(Debug, Clone, Copy)]
enum Ended {
    Joined = 0,
    Forced = 1,
    Deadline = 2,
}

#[derive(Debug)]
struct State<S> {
    stream: Option<Arc<S>>,
    generation: u32,
    writing: bool,
    /// The socket took bytes again while somebody was writing: what it refused before may go now.
    writable: bool,
    /// The queue waits for the socket to take bytes again, not for company.
    full: bool,
    /// Bytes that wait: behind those that a writer has in hand, for company, or for the socket.
    queue: Vec<u8>,
    adaptive: Adaptive,
    /// Held sends whose words are in the queue.
    held: u64,
    /// The connection that was held last.
    holder: u16,
}

impl<S> Default for Sender<S> {
    fn default() -> Self {
        Sender::new(0)
    }
}

impl<S> Sender<S> {
    /// The sending half of the links to `node`; none is open yet.
    pub fn new(node: NodeId) -> Self {
        Sender {
            state: Mutex::new(State::new(None, 0)),
            waiting: AtomicUsize::new(0),
            node,
            counters: Counters::default(),
        }
    }
}

impl<S: Socket> Sender<S> {
    /// Starts `generation` with its stream, which does not block.
    pub fn open(&self, generation: u32, stream: S) {
        let mut state = self.lock();
        *state = State::new(Some(Arc::new(stream)), generation);
        self.counters.opened.fetch_add(1, Ordering::Relaxed);
        self.waiting.store(0, Ordering::Relaxed);
    }

    /// Ends `generation`: what waits is dropped, later sends are refused. Another generation is left alone.
    pub fn close(&self, generation: u32) {
        let mut state = self.lock();
        if state.generation == generation {
            state.shut_down();
            state.stream = None;
            state.queue = Vec::new();
            self.waiting.store(0, Ordering::Relaxed);
        }
    }

    /// Shuts the socket of `generation` down, so that the reading half ends it. For a peer that breaks the
    /// protocol.
    pub fn shut_down(&self, generation: u32) {
        let mut state = self.lock();
        if state.generation == generation {
            state.shut_down();
        }
    }

    /// Shuts down whatever generation is open.
    pub fn shut_down_any(&self) {
        self.lock().shut_down();
    }

    /// Bytes that wait for the socket.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Writes to the socket so far, of all generations.
    pub fn writes(&self) -> u64 {
        self.counters.writes.load(Ordering::Relaxed)
    }

    /// By the reading half: so many bytes were read.
    pub fn received(&self, bytes: usize) {
        self.counters.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// What was done so far.
    pub fn statistics(&self) -> LinkStatistics {
        let counters = &self.counters;
        let [held_joined, held_forced, held_deadline] =
            counters.ended.each_ref().map(|count| count.load(Ordering::Relaxed));
        LinkStatistics {
            node: self.node,
            opened: counters.opened.load(Ordering::Relaxed),
            writes: counters.writes.load(Ordering::Relaxed),
            bytes_sent: counters.sent.load(Ordering::Relaxed),
            bytes_received: counters.received.load(Ordering::Relaxed),
            held_joined,
            held_forced,
            held_deadline,
            waiting: self.waiting() as u64,
            most_waiting: counters.most_waiting.load(Ordering::Relaxed),
        }
    }

    /// So many bytes wait now.
    fn set_waiting(&self, bytes: usize) {
        self.waiting.store(bytes, Ordering::Relaxed);
        self.counters.most_waiting.fetch_max(bytes as u64, Ordering::Relaxed);
    }

    /// What was held goes out now.
    fn held_ended(&self, state: &mut State<S>, how: Ended) {
        if state.held > 0 {
            self.counters.ended[how as usize].fetch_add(std::mem::take(&mut state.held), Ordering::Relaxed);
        }
    }

    /// Sends whole messages of `generation`: at once, or, with `company`, after a hold if company is likely.
    pub fn send(&self, generation: u32, words: &[u32], company: Option<Company>) -> Result<Sent, Lost> {
        if trace::is_on() {
            trace::messages(Direction::Send, self.node, words);
        }
        let bytes: &[u8] = bytemuck::cast_slice(words);
        let mut state = self.lock();
        let stream = match &state.stream {
            Some(stream) if state.generation == generation => stream.clone(),
            _ => return Err(Lost),
        };
        let hold = match company {
            Some(company) => state.adaptive.hold(company.from, company.now, company.limit),
            None => {
                state.adaptive.written();
                false
            }
        };
        if state.writing || state.full || hold {
            let goes_along = state.writing || state.full;
            if goes_along {
                state.adaptive.written();
            }
            state.queue.extend_from_slice(bytes);
            self.set_waiting(state.queue.len());
            let held = match company {
                Some(company) if !goes_along => {
                    state.held += 1;
                    state.holder = company.from;
                    Some(state.adaptive.deadline(company.limit))
                }
                _ => None,
            };
            return Ok(Sent { writes: 0, held });
        }
        state.writing = true;
        let joins = company.is_some_and(|company| state.held > 1 || company.from != state.holder);
        self.held_ended(&mut state, if joins { Ended::Joined } else { Ended::Forced });
        let alone = state.queue.is_empty();
        if !alone {
            state.queue.extend_from_slice(bytes);
        }
        drop(state);
        let writes = self.write(&stream, generation, if alone { bytes } else { &[] });
        Ok(Sent { writes, held: None })
    }

    /// For the send pool: the socket takes bytes again.
    pub fn writable(&self) {
        let mut state = self.lock();
        if state.writing {
            state.writable = true;
        } else if state.full {
            state.full = false;
            self.write_queue(state);
        }
    }

    /// For the send pool: writes what is held if its deadline has come. The deadline of what is held on.
    pub fn write_held(&self, now: u64, limit: u64) -> Option<u64> {
        let mut state = self.lock();
        if state.writing || state.full || state.queue.is_empty() {
            return None;
        }
        let deadline = state.adaptive.deadline(limit);
        if deadline > now {
            return Some(deadline);
        }
        state.adaptive.written();
        self.held_ended(&mut state, Ended::Deadline);
        self.write_queue(state);
        None
    }

    fn write_queue(&self, mut state: MutexGuard<'_, State<S>>) {
        let Some(stream) = state.stream.clone().filter(|_| !state.queue.is_empty()) else { return };
        state.writing = true;
        let generation = state.generation;
        drop(state);
        self.write(&stream, generation, &[]);
    }

    /// Writes `bytes`, then what waits, until nothing does or the socket is full. The caller has set
    /// `writing`.
    fn write(&self, stream: &S, generation: u32, bytes: &[u8]) -> u32 {
        let mut writes = 0;
        let mut rest = bytes;
        let mut queued = Vec::new();
        loop {
            let (writes_before, length) = (writes, rest.len());
            let outcome = write_all(stream, &mut rest, &mut writes);
            self.counters.writes.fetch_add((writes - writes_before) as u64, Ordering::Relaxed);
            self.counters.sent.fetch_add((length - rest.len()) as u64, Ordering::Relaxed);
            let mut state = self.lock();
            if state.generation != generation || state.stream.is_none() {
                // Closed meanwhile. `writing` is of no account without a stream, and the next `open` starts
                // afresh.
                return writes;
            }
            match outcome {
                Outcome::Done => {}
                Outcome::Full if state.writable => {
                    state.writable = false;
                    continue;
                }
                Outcome::Full => {
                    let mut left = rest.to_vec();
                    left.append(&mut state.queue);
                    state.queue = left;
                    state.writing = false;
                    state.full = true;
                    self.set_waiting(state.queue.len());
                    return writes;
                }
                Outcome::Failed => {
                    state.shut_down();
                    state.queue.clear();
                }
            }
            if state.queue.is_empty() {
                state.writing = false;
                self.waiting.store(0, Ordering::Relaxed);
                // The buffer that served the queue is kept for the next time.
                queued.clear();
                state.queue = queued;
                return writes;
            }
            queued.clear();
            std::mem::swap(&mut queued, &mut state.queue);
            drop(state);
            rest = &queued;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// For a scripted cluster.
#[cfg(any(test, fuzzing))]
impl<S: Socket> Sender<S> {
    /// As [`Sender::open`], with a socket that takes nothing: what is sent waits.
    pub fn open_full(&self, generation: u32, stream: S) {
        self.open(generation, stream);
        self.lock().full = true;
    }

    /// Takes what waits.
    pub fn take_waiting(&self) -> Vec<u8> {
        self.waiting.store(0, Ordering::Relaxed);
        std::mem::take(&mut self.lock().queue)
    }
}

impl<S> State<S> {
    fn new(stream: Option<Arc<S>>, generation: u32) -> Self {
        State {
            stream,
            generation,
            writing: false,
            writable: false,
            full: false,
            queue: Vec::new(),
            adaptive: Adaptive::default(),
            held: 0,
            holder: 0,
        }
    }
}

impl<S: Socket> State<S> {
    fn shut_down(&mut self) {
        if let Some(stream) = &self.stream {
            stream.shut_down();
        }
    }
}

enum Outcome {
    Done,
    Full,
    Failed,
}

fn write_all(stream: &impl Socket, rest: &mut &[u8], writes: &mut u32) -> Outcome {
    while !rest.is_empty() {
        *writes += 1;
        match stream.write_some(rest) {
            Ok(0) => return Outcome::Failed,
            Ok(n) => *rest = &rest[n..],
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Outcome::Full,
            Err(_) => return Outcome::Failed,
        }
    }
    Outcome::Done
}

#[cfg(test)]
mod stand_in {
    use super::*;
    use std::sync::Mutex;

    /// Takes what there is room for, and keeps it.
    pub struct Pipe {
        pub taken: Mutex<Vec<u8>>,
        pub room: Mutex<usize>,
    }

    impl Pipe {
        pub fn new(room: usize) -> Self {
            Pipe { taken: Mutex::default(), room: Mutex::new(room) }
        }
    }

    /// What a pipe has taken.
    pub fn words(pipe: &Pipe) -> Vec<u32> {
        let taken = pipe.taken.lock().unwrap();
        taken.as_chunks::<4>().0.iter().map(|&word| u32::from_ne_bytes(word)).collect()
    }

    impl Socket for std::sync::Arc<Pipe> {
        fn write_some(&self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut room = self.room.lock().unwrap();
            let count = bytes.len().min(*room);
            if count == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            *room -= count;
            self.taken.lock().unwrap().extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn shut_down(&self) {
            *self.room.lock().unwrap() = 0;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::stand_in::{Pipe, words as taken};
    use super::*;

    fn written(writes: u32) -> Sent {
        Sent { writes, held: None }
    }

    #[test]
    fn what_is_held_goes_with_company_or_at_its_deadline() {
        let pipe = std::sync::Arc::new(Pipe::new(1000));
        let sender = Sender::default();
        sender.open(1, pipe.clone());
        let company = |from, now| Some(Company { from, now, limit: 200 });
        // Two connections in turn teach the link.
        let taught = (0..20).map(|i| sender.send(1, &[i], company(i as u16 % 2, 10 * i as u64)).unwrap());
        assert!(taught.last().unwrap().writes == 1);
        let before = taken(&pipe);
        assert_eq!(before, (0..20).collect::<Vec<_>>(), "in order");
        let now = 1000;
        assert_eq!(sender.send(1, &[100], company(0, now)), Ok(Sent { writes: 0, held: Some(now + 200) }));
        assert_eq!(taken(&pipe), before);
        assert_eq!(sender.write_held(now + 199, 200), Some(now + 200));
        assert_eq!(sender.send(1, &[101], company(1, now + 20)), Ok(written(1)), "company writes both");
        assert_eq!(taken(&pipe)[20..], [100, 101]);
        assert_eq!(sender.write_held(now + 200, 200), None);
        assert!(sender.send(1, &[102], company(0, now + 300)).unwrap().held.is_some());
        assert_eq!(sender.write_held(now + 500, 200), None);
        assert_eq!(taken(&pipe)[22..], [102], "the send pool wrote it");
        assert!(sender.send(1, &[103], company(1, now + 600)).unwrap().held.is_some());
        assert_eq!(sender.send(1, &[104], None), Ok(written(1)), "a forced send takes along what is held");
        assert_eq!(taken(&pipe)[23..], [103, 104]);
    }

    #[test]
    fn a_full_socket_leaves_the_rest_for_later() {
        let pipe = std::sync::Arc::new(Pipe::new(6));
        let sender = Sender::default();
        sender.open(1, pipe.clone());
        assert_eq!(sender.send(1, &[1, 2, 3], None), Ok(written(2)));
        assert_eq!(sender.waiting(), 6);
        assert_eq!(sender.send(1, &[4], None), Ok(written(0)), "what came first goes first");
        *pipe.room.lock().unwrap() = 1000;
        sender.writable();
        assert_eq!(taken(&pipe), [1, 2, 3, 4]);
        assert_eq!(sender.waiting(), 0);
        assert_eq!(sender.send(1, &[5], None), Ok(written(1)));
        assert_eq!(taken(&pipe), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn words_of_another_generation_are_refused() {
        let (old, new) = (std::sync::Arc::new(Pipe::new(4)), std::sync::Arc::new(Pipe::new(1000)));
        let sender = Sender::default();
        assert_eq!(sender.send(1, &[1], None), Err(Lost));
        sender.open(1, old.clone());
        assert!(sender.send(1, &[1, 2], None).is_ok());
        sender.close(1);
        assert_eq!(sender.send(1, &[3], None), Err(Lost));
        sender.open(2, new.clone());
        assert_eq!(sender.waiting(), 0, "what waited for the old generation is gone");
        sender.close(1);
        assert_eq!(sender.send(1, &[4], None), Err(Lost));
        assert!(sender.send(2, &[5], None).is_ok());
        assert_eq!((taken(&old), taken(&new)), (vec![1], vec![5]));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::stand_in::{Pipe, words};
    use super::*;
    use loom::thread;

    /// Two threads send, and the system tells the send pool that a full socket has room: every word arrives
    /// once, those of a thread in their order, and nothing is left behind.
    #[test]
    fn loom_one_writer_at_a_time() {
        loom::model(|| {
            let pipe = std::sync::Arc::new(Pipe::new(8));
            let sender = Arc::new(Sender::default());
            sender.open(1, pipe.clone());
            let other = {
                let sender = sender.clone();
                thread::spawn(move || sender.send(1, &[10, 11], None).map(drop))
            };
            sender.send(1, &[20, 21], None).unwrap();
            // The pool's edge comes only once the socket has room again.
            *pipe.room.lock().unwrap() += 1000;
            sender.writable();
            other.join().unwrap().unwrap();
            // A writer that met the full socket before there was room, and lost the race with the edge, has
            // seen the note that the edge left.
            let words = words(&pipe);
            let of = |ten: u32| words.iter().copied().filter(|w| w / 10 == ten).collect::<Vec<_>>();
            assert_eq!((of(1), of(2), words.len()), (vec![10, 11], vec![20, 21], 4));
            assert_eq!(sender.waiting(), 0);
        });
    }
}
