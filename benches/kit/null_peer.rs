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
use iclaustron::link::reader::{Got, Reader};
use iclaustron::wire::gsn;
use iclaustron::wire::requests::key::{KeyRequest, Kind};
use iclaustron::wire::signal::{Signal, decode};

/// The column that reads ask for, as the header of its value: number 1, four bytes.
const VALUE: u32 = 1 << 16 | 4;
/// In the length of a confirmed read: the row comes from the node in the low half.
const READ_BY: u32 = 1 << 31;
const COMMITTED: u32 = 1 << 16;

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
        (Reader::new(0, 0, node.try_clone()?), to_client.clone(), records.clone());
    thread::spawn(move || pass_replies(from_node, &for_client, &known));
    answer(Reader::new(0, 0, client), &mut node, &to_client, &records)
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
    mut node: Reader,
    client: &Mutex<TcpStream>,
    records: &Mutex<HashMap<u32, u32>>,
) -> io::Result<()> {
    loop {
        let whole = read(&mut node, |message| {
            if let Ok(signal) = decode(message)
                && let (gsn::TCSEIZECONF, &[own, connect, ..]) = (signal.header.gsn, signal.data)
            {
                records.lock().expect("no panic").insert(connect, own);
            }
        })?;
        client.lock().expect("no panic").write_all(bytemuck::cast_slice(&node.words()[..whole]))?;
        node.consume(whole);
    }
}

/// Answers committed reads, and passes everything else on to the node.
fn answer(
    mut client: Reader,
    node: &mut TcpStream,
    to_client: &Mutex<TcpStream>,
    records: &Mutex<HashMap<u32, u32>>,
) -> io::Result<()> {
    let (mut replies, mut rest) = (Outgoing::default(), Vec::new());
    loop {
        let whole = read(&mut client, |message| {
            let known = records.lock().expect("no panic");
            if !decode(message).is_ok_and(|signal| answered(&signal, &known, &mut replies)) {
                rest.extend_from_slice(message);
            }
        })?;
        client.consume(whole);
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

/// Waits for what comes next, and shows `see` the whole messages. How many words they are.
fn read(from: &mut Reader, see: impl FnMut(&[u32])) -> io::Result<usize> {
    match from.read() {
        Got::End => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => from.whole_messages(see).map_err(|error| io::Error::other(format!("{error:?}"))),
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
