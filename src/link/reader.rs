//! The reading half of a link: one large read at a time, cut into whole messages.

use std::io::{ErrorKind, Read};

use mio::net::TcpStream;

use super::page::{PAGE_WORDS, Words};
use crate::wire::NodeId;
use crate::wire::signal::{FrameError, message_length};
use crate::wire::trace::Direction;

/// The reading half, owned by whoever has the receive role.
#[derive(Debug)]
pub struct Reader {
    /// The node at the other end.
    pub node: NodeId,
    /// The generation of the link.
    pub generation: u32,
    /// The socket, for registering with the system.
    pub stream: TcpStream,
    /// Always [`PAGE_WORDS`] long; the first `filled` bytes were read.
    buffer: Vec<u32>,
    filled: usize,
    /// Bytes that the last read brought.
    pub last: usize,
}

/// What a read brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Got {
    /// Bytes, and the socket may have more.
    More,
    /// All that the socket had.
    Drained,
    /// The end of the stream, or an error that ends it.
    End,
}

impl Reader {
    /// A reader over a fresh stream that does not block.
    pub fn new(node: NodeId, generation: u32, stream: std::net::TcpStream) -> Self {
        Reader {
            node,
            generation,
            stream: TcpStream::from_std(stream),
            buffer: vec![0; PAGE_WORDS],
            filled: 0,
            last: 0,
        }
    }

    /// Reads once into the free part of the buffer.
    pub fn read(&mut self) -> Got {
        let free = &mut bytemuck::cast_slice_mut::<u32, u8>(&mut self.buffer)[self.filled..];
        let room = free.len();
        self.last = 0;
        loop {
            match self.stream.read(free) {
                Ok(0) => return Got::End,
                Ok(n) => {
                    self.filled += n;
                    self.last = n;
                    return if n < room { Got::Drained } else { Got::More };
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Got::Drained,
                Err(_) => return Got::End,
            }
        }
    }

    /// The words read so far; a message at the end may be incomplete.
    pub fn words(&self) -> &[u32] {
        &self.buffer[..self.filled / 4]
    }

    /// How many words from the start are whole messages; `see` is shown each of them.
    pub fn whole_messages(&self, mut see: impl FnMut(&[u32])) -> Result<usize, FrameError> {
        let words = self.words();
        let mut at = 0;
        while let Some(&first) = words.get(at) {
            let length = message_length(first)?;
            let Some(message) = words.get(at..at + length) else { break };
            see(message);
            at += length;
        }
        Ok(at)
    }

    /// Traces the whole messages, and what cannot be cut into messages.
    #[cold]
    pub fn trace(&self) {
        let whole = self.whole_messages(|_| {}).unwrap_or(self.words().len());
        super::trace::messages(Direction::Receive, self.node, &self.words()[..whole]);
    }

    /// Gives the first `words` words away as the buffer itself, and goes on with `fresh`, which is
    /// [`PAGE_WORDS`] long.
    pub fn hand_over(&mut self, words: usize, mut fresh: Vec<u32>) -> Words {
        let end = self.filled.div_ceil(4);
        fresh[..end - words].copy_from_slice(&self.buffer[words..end]);
        self.filled -= 4 * words;
        Words::new(std::mem::replace(&mut self.buffer, fresh), words)
    }

    /// Forgets the first `words` words: they have been copied.
    pub fn consume(&mut self, words: usize) {
        let end = self.filled.div_ceil(4);
        self.buffer.copy_within(words..end, 0);
        self.filled -= 4 * words;
    }
}
