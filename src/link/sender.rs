//! The sending half of a link: one mutex, one writer at a time.
//!
//! A thread with words to send writes the socket itself, straight from its own buffer, unless another thread is
//! writing or words wait already; then it appends its words to those that wait, and whoever writes takes them
//! along. What a full socket does not take stays waiting for the send pool, which the system tells when the
//! socket takes bytes again.
//!
//! A write that fails shuts the socket down. The reading half then meets the end of the stream, and the loss is
//! made known in one way only: through the receive thread, behind everything the link still brought.

use std::io::{ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The words belong to a generation of the link that is gone: they were not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

/// What a send did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// How often the socket was written for it; 0 when the words joined those of a writer or of the send pool.
    pub writes: u32,
}

/// The sending half.
#[derive(Debug, Default)]
pub struct Sender {
    state: Mutex<State>,
    /// Bytes that wait, for the bound that is checked where an operation is defined.
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    stream: Option<Arc<TcpStream>>,
    generation: u32,
    writing: bool,
    /// The socket took bytes again while somebody was writing: what it refused before may go now.
    writable: bool,
    /// Bytes behind those that the present writer has in hand.
    queue: Vec<u8>,
}

impl Sender {
    /// Starts `generation` with its stream, which does not block.
    pub fn open(&self, generation: u32, stream: TcpStream) {
        let mut state = self.lock();
        *state = State { stream: Some(Arc::new(stream)), generation, ..State::default() };
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

    /// Sends whole messages of `generation`.
    pub fn send(&self, generation: u32, words: &[u32]) -> Result<Sent, Lost> {
        let bytes: &[u8] = bytemuck::cast_slice(words);
        let mut state = self.lock();
        let stream = match &state.stream {
            Some(stream) if state.generation == generation => stream.clone(),
            _ => return Err(Lost),
        };
        if state.writing || !state.queue.is_empty() {
            state.queue.extend_from_slice(bytes);
            self.waiting.store(state.queue.len(), Ordering::Relaxed);
            return Ok(Sent { writes: 0 });
        }
        state.writing = true;
        drop(state);
        Ok(Sent { writes: self.write(&stream, generation, bytes) })
    }

    /// For the send pool: the socket takes bytes again.
    pub fn writable(&self) {
        let mut state = self.lock();
        if state.writing {
            state.writable = true;
            return;
        }
        let Some(stream) = state.stream.clone().filter(|_| !state.queue.is_empty()) else { return };
        state.writing = true;
        let generation = state.generation;
        drop(state);
        self.write(&stream, generation, &[]);
    }

    /// Writes `bytes`, then what waits, until nothing does or the socket is full. The caller has set `writing`.
    fn write(&self, stream: &TcpStream, generation: u32, bytes: &[u8]) -> u32 {
        let mut writes = 0;
        let mut rest = bytes;
        let mut queued = Vec::new();
        loop {
            let outcome = write_all(stream, &mut rest, &mut writes);
            let mut state = self.lock();
            if state.generation != generation || state.stream.is_none() {
                // Closed meanwhile; `open` and `close` have reset the state, `writing` included.
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
                    self.waiting.store(state.queue.len(), Ordering::Relaxed);
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl State {
    fn shut_down(&mut self) {
        if let Some(stream) = &self.stream {
            // An error says that the socket is down already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

enum Outcome {
    Done,
    Full,
    Failed,
}

fn write_all(mut stream: &TcpStream, rest: &mut &[u8], writes: &mut u32) -> Outcome {
    while !rest.is_empty() {
        *writes += 1;
        match stream.write(rest) {
            Ok(0) => return Outcome::Failed,
            Ok(n) => *rest = &rest[n..],
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Outcome::Full,
            Err(_) => return Outcome::Failed,
        }
    }
    Outcome::Done
}
