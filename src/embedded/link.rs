//! One client's link, seen from a data node: hand-shake, what was read, what is to be written. Sources:
//! storage/ndb/src/common/transporter/TransporterRegistry.cpp (connect_server),
//! src/common/util/SocketAuthenticator.cpp.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::time::{Duration, Instant};

use mio::net::TcpStream;

use crate::wire::NodeId;
use crate::wire::fragment::Assembler;
use crate::wire::signal::{MAX_MESSAGE, message_length};

/// Words of the receive buffer: a few of the longest messages.
const BUFFER_WORDS: usize = 4 * MAX_MESSAGE;
/// A line of the hand-shake has no more bytes.
const MAX_LINE: usize = 128;
/// How long the hand-shake may take.
pub const HAND_SHAKE_TIME: Duration = Duration::from_secs(3);
/// A client that lets so many bytes wait is not read any more.
const MAX_WAITING: usize = 4 << 20;
/// One that lets so many wait is expelled.
const TOO_MUCH: usize = 64 << 20;

/// A link, or what may become one.
#[derive(Debug)]
pub struct Link {
    stream: TcpStream,
    phase: Phase,
    buffer: Vec<u32>,
    filled: usize,
    /// Bytes that the socket did not take.
    pending: Vec<u8>,
    /// Replies that are held back, and until when.
    delayed: VecDeque<(Instant, Vec<u32>)>,
    /// When the client was last heard of.
    pub heard: Instant,
    /// How often it must be heard of.
    pub heartbeat: Duration,
    /// Where failure news goes, once it has registered.
    pub registered: Option<u32>,
    /// Signals that come in parts.
    pub assembler: Assembler,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The first line is still to come.
    Authentication,
    /// The second line is.
    Password { answer: &'static str },
    /// The hello is.
    Hello,
    /// Signals come.
    Signals { client: NodeId },
}

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    /// Bytes, and there may be more.
    More,
    /// All there was.
    Drained,
    /// The end.
    End,
}

/// What a client says of itself in its hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Its node id.
    pub client: NodeId,
    /// The kind of link: 1 is TCP.
    pub transporter: u32,
    /// The node that it wants.
    pub node: NodeId,
    /// The instance of the link; only data nodes have several.
    pub instance: u32,
}

/// A step of the hand-shake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    Wait,
    /// The client has said who it is.
    Hello(Hello),
    /// It does not follow the protocol.
    Refuse(&'static str),
}

impl Link {
    /// A fresh connection.
    pub fn new(stream: TcpStream, now: Instant, heartbeat: Duration) -> Self {
        Link {
            stream,
            phase: Phase::Authentication,
            buffer: vec![0; BUFFER_WORDS],
            filled: 0,
            pending: Vec::new(),
            delayed: VecDeque::new(),
            heard: now,
            heartbeat,
            registered: None,
            assembler: Assembler::new(),
        }
    }

    /// The socket, for the system's readiness call.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// The client, once it has said who it is.
    pub fn client(&self) -> Option<NodeId> {
        match self.phase {
            Phase::Signals { client } => Some(client),
            _ => None,
        }
    }

    /// Whether so much waits that the client should read before it asks for more.
    pub fn clogged(&self) -> bool {
        let delayed: usize = self.delayed.iter().map(|(_, words)| 4 * words.len()).sum();
        self.pending.len() + delayed > MAX_WAITING
    }

    /// Reads once.
    pub fn read(&mut self) -> Got {
        let free = &mut bytemuck::cast_slice_mut::<u32, u8>(&mut self.buffer)[self.filled..];
        let room = free.len();
        loop {
            match self.stream.read(free) {
                Ok(0) => return Got::End,
                Ok(n) => {
                    self.filled += n;
                    return if n < room { Got::Drained } else { Got::More };
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Got::Drained,
                Err(_) => return Got::End,
            }
        }
    }

    /// The next step of the hand-shake.
    pub fn step(&mut self) -> Step {
        loop {
            let Some(line) = self.line() else {
                return match self.filled > MAX_LINE {
                    true => Step::Refuse("a hand-shake without lines"),
                    false => Step::Wait,
                };
            };
            let answer = match (self.phase, line.as_str()) {
                (Phase::Authentication, "ndbd") => "ok\n",
                (Phase::Authentication, "ndbd TLS disabled" | "ndbd TLS enabled") => "Cleartext ok\n",
                (Phase::Authentication, "ndbd TLS required") => {
                    let _ = self.stream.write(b"Cleartext required\n");
                    return Step::Refuse("a client that requires TLS");
                }
                (Phase::Password { answer }, _) => {
                    // Nothing was sent before: the socket takes a line.
                    if self.stream.write(answer.as_bytes()).is_err() {
                        return Step::Refuse("it closed in the hand-shake");
                    }
                    self.phase = Phase::Hello;
                    continue;
                }
                (Phase::Hello, line) => return hello(line).map_or(Step::Refuse("no hello"), Step::Hello),
                _ => {
                    let _ = self.stream.write(b"Error\n");
                    return Step::Refuse("an unknown authentication");
                }
            };
            self.phase = Phase::Password { answer };
        }
    }

    /// Takes a line off what was read.
    fn line(&mut self) -> Option<String> {
        let bytes = bytemuck::cast_slice_mut::<u32, u8>(&mut self.buffer);
        let end = bytes[..self.filled.min(MAX_LINE)].iter().position(|&byte| byte == b'\n')?;
        let line = String::from_utf8_lossy(&bytes[..end]).into_owned();
        bytes.copy_within(end + 1..self.filled, 0);
        self.filled -= end + 1;
        Some(line)
    }

    /// Answers the hello: signals follow.
    pub fn accept(&mut self, hello: Hello) -> io::Result<()> {
        self.phase = Phase::Signals { client: hello.client };
        self.stream.set_nodelay(true)?;
        self.stream.write(format!("{} 1\n", hello.node).as_bytes()).map(drop)
    }

    /// Answers the hello: not now.
    pub fn send_off(&mut self) {
        let _ = self.stream.write(b"BYE\n");
    }

    /// Takes the buffer out, so that its messages can be read while the link is used, and the number of
    /// words in it; [`Link::give_back`] must follow.
    pub fn take_buffer(&mut self) -> (Vec<u32>, usize) {
        (std::mem::take(&mut self.buffer), self.filled / 4)
    }

    /// Gives the buffer back, of which so many words have been read.
    pub fn give_back(&mut self, mut buffer: Vec<u32>, read: usize) {
        let end = self.filled.div_ceil(4);
        buffer.copy_within(read.min(end)..end, 0);
        self.filled -= (4 * read).min(self.filled);
        self.buffer = buffer;
    }

    /// Queues words until a time.
    pub fn delay(&mut self, until: Instant, words: Vec<u32>) {
        self.delayed.push_back((until, words));
    }

    /// When the first of the delayed words are due.
    pub fn due(&self) -> Option<Instant> {
        self.delayed.front().map(|(until, _)| *until)
    }

    /// Makes delayed words ready whose time has come.
    pub fn release(&mut self, now: Instant) {
        while let Some((_, words)) = self.delayed.pop_front_if(|(until, _)| *until <= now) {
            self.pending.extend_from_slice(bytemuck::cast_slice(&words));
        }
    }

    /// All delayed words are due now.
    pub fn hasten(&mut self, now: Instant) {
        self.delayed.iter_mut().for_each(|(until, _)| *until = now.min(*until));
    }

    /// Writes two lists of words, and empties them. What the socket does not take is kept; an error says that
    /// the link is to be closed.
    pub fn write(&mut self, first: &mut Vec<u32>, second: &mut Vec<u32>) -> Result<(), &'static str> {
        const LOST: &str = "it closed";
        if self.pending.is_empty() && !(first.is_empty() && second.is_empty()) {
            let parts: [&[u8]; 2] = [bytemuck::cast_slice(first), bytemuck::cast_slice(second)];
            let written = match self.stream.write_vectored(&parts.map(IoSlice::new)) {
                Ok(written) => written,
                Err(error) if is_wait(&error) => 0,
                Err(_) => return Err(LOST),
            };
            let [first, second] = parts;
            let skipped = written.min(first.len());
            self.pending.extend_from_slice(&first[skipped..]);
            self.pending.extend_from_slice(&second[(written - skipped).min(second.len())..]);
        } else {
            self.pending.extend_from_slice(bytemuck::cast_slice(first));
            self.pending.extend_from_slice(bytemuck::cast_slice(second));
        }
        first.clear();
        second.clear();
        self.write_pending().map_err(|_| LOST)?;
        match self.pending.len() > TOO_MUCH {
            true => Err("it does not read what it asked for"),
            false => Ok(()),
        }
    }

    fn write_pending(&mut self) -> io::Result<()> {
        while !self.pending.is_empty() {
            match self.stream.write(&self.pending) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => drop(self.pending.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether bytes wait for the socket.
    pub fn waits(&self) -> bool {
        !self.pending.is_empty()
    }
}

fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Own id, kind of link, the node that is wanted, instance; old clients leave the last ones out.
fn hello(line: &str) -> Option<Hello> {
    let mut numbers = line.split_whitespace().map(|number| number.parse::<u32>().ok());
    let client = numbers.next()??.try_into().ok()?;
    let transporter = numbers.next()??;
    let node = numbers.next().unwrap_or(Some(0))?.try_into().ok()?;
    let instance = numbers.next().unwrap_or(Some(0))?;
    Some(Hello { client, transporter, node, instance })
}

/// How many words from the start are whole messages; false with it when what follows is none.
pub fn whole_messages(words: &[u32]) -> (usize, bool) {
    let mut at = 0;
    while let Some(&first) = words.get(at) {
        match message_length(first) {
            Ok(length) if at + length <= words.len() => at += length,
            Ok(_) => break,
            Err(_) => return (at, false),
        }
    }
    (at, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hellos() {
        let full = Hello { client: 50, transporter: 1, node: 2, instance: 0 };
        assert_eq!(hello("50 1 2 0"), Some(full));
        assert_eq!(hello("50 1 2"), Some(full));
        assert_eq!(hello("50 1"), Some(Hello { node: 0, ..full }));
        for bad in ["", "50", "x 1", "50 1 y", "99999 1 2 0", "-1 1 2 0"] {
            assert_eq!(hello(bad), None, "{bad}");
        }
    }

    #[test]
    fn messages_end_where_they_say() {
        let message = [4 << 8, 0, 0, 7];
        let two = [message, message].concat();
        assert_eq!(whole_messages(&two), (8, true));
        assert_eq!(whole_messages(&two[..7]), (4, true));
        assert_eq!(whole_messages(&[&message[..], &[1]].concat()), (4, false));
    }
}
