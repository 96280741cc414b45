//! A peer that does next to nothing: committed reads are answered from prepared words, in which only what
//! tells one read from another is put in place. All else (joining, the dictionary, writes, coordinator
//! records) goes on to embedded data nodes behind it, and their replies come back.
//!
//! It stands between: clients ask its management port, whose answers it passes on, but for the data nodes'
//! ports, instead of which they get ports of its own.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use iclaustron::embedded::outgoing::Outgoing;
use iclaustron::embedded::{EmbeddedCluster, Options};
use iclaustron::wire::gsn;
use iclaustron::wire::requests::key::{KeyRequest, Kind};
use iclaustron::wire::signal::{Signal, decode, message_length};

/// The column that reads ask for, as the header of its value: number 1, four bytes.
const VALUE: u32 = 1 << 16 | 4;
/// In the length of a confirmed read: the row comes from the node in the low half.
const READ_BY: u32 = 1 << 31;
const COMMITTED: u32 = 1 << 16;
const LARGEST: usize = 1 << 17;

/// Serves until the process ends. The connectstring is printed.
pub fn serve() -> io::Result<()> {
    let nodes = EmbeddedCluster::start(Options::default()).map_err(io::Error::other)?;
    let behind = nodes.connectstring();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    let ports = Arc::new(Mutex::new(HashMap::new()));
    for client in listener.incoming() {
        let (client, server) = (client?, TcpStream::connect(&behind)?);
        let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            to.shutdown(Shutdown::Write)
        });
        let ports = ports.clone();
        thread::spawn(move || management(server, client, &ports));
    }
    Ok(())
}

/// Passes the management server's answers on.
fn management(server: TcpStream, mut client: TcpStream, ports: &Mutex<HashMap<u16, u16>>) -> io::Result<()> {
    let (mut server, mut line) = (BufReader::new(server), Vec::new());
    while server.read_until(b'\n', &mut line)? > 0 {
        let port = std::str::from_utf8(&line)
            .ok()
            .and_then(|text| text.trim().strip_prefix("value: -")?.parse().ok());
        if let Some(port) = port {
            let own = own_port(port, &mut ports.lock().expect("no panic"))?;
            line = format!("value: -{own}\n").into_bytes();
        }
        client.write_all(&line)?;
        line.clear();
    }
    client.shutdown(Shutdown::Both)
}

/// The port that stands for a data node's.
fn own_port(port: u16, ports: &mut HashMap<u16, u16>) -> io::Result<u16> {
    if let Some(&own) = ports.get(&port) {
        return Ok(own);
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let own = listener.local_addr()?.port();
    ports.insert(port, own);
    thread::spawn(move || -> io::Result<()> {
        for client in listener.incoming() {
            let client = client?;
            thread::spawn(move || link(client, port));
        }
        Ok(())
    });
    Ok(own)
}

/// The clients' names of coordinator records, by the node's.
type Records = Arc<Mutex<HashMap<u32, u32>>>;

/// One client's link to a data node.
fn link(mut client: TcpStream, port: u16) -> io::Result<()> {
    let mut node = TcpStream::connect(("127.0.0.1", port))?;
    client.set_nodelay(true)?;
    node.set_nodelay(true)?;
    // The client authenticates in two lines, and says who it is in the third.
    for (from_client, lines) in [(true, 2), (false, 1), (true, 1), (false, 1)] {
        let (from, to) = if from_client { (&mut client, &mut node) } else { (&mut node, &mut client) };
        (0..lines).try_for_each(|_| pass_line(from, to))?;
    }
    let records = Records::default();
    // Replies of the node and own ones must not be mixed within a message.
    let to_client = Arc::new(Mutex::new(client.try_clone()?));
    let (from_node, for_client, known) =
        (Messages::new(node.try_clone()?), to_client.clone(), records.clone());
    thread::spawn(move || pass_replies(from_node, &for_client, &known));
    answer(Messages::new(client), &mut node, &to_client, &records)
}

fn pass_line(from: &mut TcpStream, to: &mut TcpStream) -> io::Result<()> {
    let mut byte = [0];
    while byte != *b"\n" {
        from.read_exact(&mut byte)?;
        to.write_all(&byte)?;
    }
    Ok(())
}

fn pass_replies(
    mut node: Messages,
    client: &Mutex<TcpStream>,
    records: &Mutex<HashMap<u32, u32>>,
) -> io::Result<()> {
    loop {
        let words = node.read()?;
        for signal in signals(words) {
            if let (gsn::TCSEIZECONF, &[own, connect, ..]) = (signal.header.gsn, signal.data) {
                records.lock().expect("no panic").insert(connect, own);
            }
        }
        client.lock().expect("no panic").write_all(bytemuck::cast_slice(words))?;
    }
}

/// Answers committed reads, and passes everything else on to the node.
fn answer(
    mut client: Messages,
    node: &mut TcpStream,
    to_client: &Mutex<TcpStream>,
    records: &Mutex<HashMap<u32, u32>>,
) -> io::Result<()> {
    let (mut replies, mut rest) = (Outgoing::default(), Vec::new());
    loop {
        let words = client.read()?;
        let known = records.lock().expect("no panic");
        let mut left = words;
        for signal in signals(words) {
            let (message, after) =
                left.split_at(message_length(left[0]).expect("a length that was looked at"));
            left = after;
            if !answered(&signal, &known, &mut replies) {
                rest.extend_from_slice(message);
            }
        }
        drop(known);
        if !rest.is_empty() {
            node.write_all(bytemuck::cast_slice(&rest))?;
            rest.clear();
        }
        if replies.waiting() > 0 {
            let mut client = to_client.lock().expect("no panic");
            let (signals, rows) = replies.close();
            for words in [rows, signals] {
                client.write_all(bytemuck::cast_slice(words))?;
                words.clear();
            }
        }
    }
}

/// The reply to a read that commits, of one row of one key word.
fn answered(signal: &Signal<'_>, records: &HashMap<u32, u32>, replies: &mut Outgoing) -> bool {
    if signal.header.gsn != gsn::TCKEYREQ {
        return false;
    }
    let Ok(request) = KeyRequest::decode(signal) else { return false };
    if !(request.info.committed_read() && request.info.commit()) {
        return false;
    }
    let (Kind::Read, &[key], Some(&client)) =
        (request.info.kind(), request.key, records.get(&request.connect))
    else {
        return false;
    };
    let (receiver, transid) = (signal.header.sender, request.transid);
    replies.row(receiver, request.operation, transid, &[VALUE, !key]);
    let head = [client, 1, COMMITTED | 1, transid[0], transid[1]];
    replies.confirm(receiver, head, &[[request.operation, READ_BY | 1]], 1);
    true
}

/// The whole messages of some words.
fn signals(words: &[u32]) -> impl Iterator<Item = Signal<'_>> {
    let mut rest = words;
    std::iter::from_fn(move || {
        let (message, after) = rest.split_at(message_length(*rest.first()?).ok()?);
        rest = after;
        decode(message).ok()
    })
}

/// Reads whole messages.
struct Messages {
    stream: TcpStream,
    words: Vec<u32>,
    /// Bytes read, of which those before `taken` were given.
    filled: usize,
    taken: usize,
}

impl Messages {
    fn new(stream: TcpStream) -> Self {
        Messages { stream, words: vec![0; LARGEST], filled: 0, taken: 0 }
    }

    /// The whole messages that come next, one at least.
    fn read(&mut self) -> io::Result<&[u32]> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        bytes.copy_within(self.taken..self.filled, 0);
        self.filled -= std::mem::take(&mut self.taken);
        loop {
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
            match self.stream.read(&mut bytes[self.filled..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.filled += read,
            }
            let (all, mut whole) = (self.filled / 4, 0);
            while whole < all {
                let length = message_length(self.words[whole])
                    .map_err(|error| io::Error::other(format!("{error:?}")))?;
                if whole + length > all {
                    break;
                }
                whole += length;
            }
            if whole > 0 {
                self.taken = 4 * whole;
                return Ok(&self.words[..whole]);
            }
        }
    }
}
