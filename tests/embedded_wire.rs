//! Embedded data nodes, driven signal by signal: what they say when a node fails, and what they refuse.
#![cfg(feature = "embedded")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use iclaustron::embedded::{EmbeddedCluster, Options};
use iclaustron::link::dial::{Target, dial};
use iclaustron::mgm::{self, Connectstring};
use iclaustron::wire::block::{API_PACKED, DBDICT, DBTC, MIN_API_BLOCK, block_of, reference};
use iclaustron::wire::packed::Packets;
use iclaustron::wire::signal::{Header, decode, encode, message_length};
use iclaustron::wire::{NodeId, gsn, registration};

const LIMIT: Duration = Duration::from_secs(10);
const BLOCK: u16 = MIN_API_BLOCK;
const CONNECT_ID: u32 = 0x10;
const START: u32 = 1 << 11;
const EXECUTE: u32 = 1 << 10;
const COMMIT: u32 = 1 << 4;
const INSERT: u32 = 2 << 5;
const COMMITTED_READ: u32 = 0x2101;
const COORDINATOR: u16 = DBTC | 1 << 9;

/// A signal that came: its number, its data, its first section.
type Came = (u16, Vec<u32>, Vec<u32>);

/// A client without any knowledge of what it sends.
struct Raw {
    own: NodeId,
    links: Vec<Link>,
}

struct Link {
    node: NodeId,
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Raw {
    fn join(nodes: &EmbeddedCluster) -> Raw {
        let connectstring = Connectstring::resolve(Some(&nodes.connectstring())).unwrap();
        let until = Instant::now() + LIMIT;
        let mut joined = mgm::join(&connectstring, until, &mut |_| true).unwrap();
        let own = joined.node_id;
        let links = nodes.started().into_iter().map(|node| {
            let port = joined.session.dynamic_port(node, own, until).unwrap().unwrap();
            let host = "127.0.0.1".to_owned();
            let target =
                Target { node, host, port, own_host: String::new(), own_node: own, socket_buffers: (0, 0) };
            let stream = dial(&target).unwrap();
            stream.set_nonblocking(false).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            Link { node, stream, buffer: Vec::new() }
        });
        let mut raw = Raw { links: links.collect(), own };
        for at in 0..raw.links.len() {
            let mut words = Vec::new();
            registration::register(&mut words, own, false, None);
            raw.links[at].write(&words);
            raw.links[at].until(gsn::API_REGCONF);
        }
        joined.session.end();
        raw
    }

    fn link(&mut self, node: NodeId) -> &mut Link {
        self.links.iter_mut().find(|link| link.node == node).unwrap()
    }

    fn reference(&self) -> u32 {
        reference(BLOCK, self.own)
    }

    /// Makes a table of an unsigned key and value at the master; its id and version.
    fn make_table(&mut self) -> (u32, u32) {
        use iclaustron::dict::table::{NewColumn, NewTable};
        use iclaustron::wire::column::ColumnType;
        use iclaustron::wire::dictionary::{Done, decode};
        let own = self.reference();
        let link = &mut self.links[0];
        link.send(gsn::SCHEMA_TRANS_BEGIN_REQ, DBDICT, &[own, 7, 0], &[]);
        let key = link.until(gsn::SCHEMA_TRANS_BEGIN_CONF).1[2];
        link.send(gsn::CREATE_HASH_MAP_REQ, DBDICT, &[own, 1, key, 7, 3, 0, 0xffff_fffe], &[]);
        let (number, data, _) = link.until(gsn::CREATE_HASH_MAP_CONF);
        let none: [Vec<u32>; 0] = [];
        let Done::Object { id, version } = decode(number, &data, &none).unwrap().outcome.unwrap() else {
            panic!("no hash map");
        };
        let k = NewColumn { primary_key: true, ..NewColumn::new("k", ColumnType::Unsigned) };
        let table = NewTable::new("test", "t", vec![k, NewColumn::new("v", ColumnType::Unsigned)]);
        let definition = table.definition((id, version)).unwrap();
        link.send(gsn::CREATE_TABLE_REQ, DBDICT, &[own, 2, 0, 7, key], &[&definition]);
        let made = link.until(gsn::CREATE_TABLE_CONF).1;
        link.send(gsn::SCHEMA_TRANS_END_REQ, DBDICT, &[own, 7, 0, key, 0], &[]);
        link.until(gsn::SCHEMA_TRANS_END_CONF);
        (made[3], made[4])
    }

    fn seize(&mut self, node: NodeId) -> u32 {
        let own = self.reference();
        let link = self.link(node);
        link.send(gsn::TCSEIZEREQ, DBTC, &[CONNECT_ID, own, 0], &[]);
        link.until(gsn::TCSEIZECONF).1[1]
    }
}

impl Link {
    fn write(&mut self, words: &[u32]) {
        // The peer may have closed already; what it said before is still to be read.
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let _ = self.stream.write_all(&bytes);
    }

    fn send(&mut self, number: u16, receiver: u16, data: &[u32], sections: &[&[u32]]) {
        let mut words = Vec::new();
        encode(&mut words, Header { gsn: number, receiver, sender: BLOCK }, data, sections).unwrap();
        self.write(&words);
    }

    /// The signals that came since the last time, carriers unpacked; none at the end.
    fn some(&mut self) -> Option<Vec<Came>> {
        let mut piece = [0; 4096];
        let count = self.stream.read(&mut piece).unwrap_or(0);
        self.buffer.extend_from_slice(&piece[..count]);
        let words: Vec<u32> =
            self.buffer.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let (mut came, mut at) = (Vec::new(), 0);
        while let Some(&first) = words.get(at) {
            let length = message_length(first).unwrap();
            let Some(message) = words.get(at..at + length) else { break };
            at += length;
            let signal = decode(message).unwrap();
            let number = signal.header.gsn;
            if signal.header.receiver == API_PACKED {
                came.extend(Packets::new(signal.data).map(|p| (number, p.unwrap().1.to_vec(), Vec::new())));
            } else {
                let section = signal.sections().first().map_or(Vec::new(), |section| section.to_vec());
                came.push((number, signal.data.to_vec(), section));
            }
        }
        self.buffer.drain(..4 * at);
        (count > 0).then_some(came)
    }

    /// Reads until a signal of that number comes.
    fn until(&mut self, number: u16) -> Came {
        self.all_until(number).pop().unwrap()
    }

    fn all_until(&mut self, number: u16) -> Vec<Came> {
        let mut all: Vec<Came> = Vec::new();
        while all.iter().all(|came| came.0 != number) {
            all.extend(self.some().unwrap_or_else(|| panic!("no {}, but {all:?}", gsn::name(number))));
        }
        all.retain(|came| came.0 != gsn::API_REGCONF || number == gsn::API_REGCONF);
        all
    }

    /// Reads until the peer closes.
    fn end(&mut self) {
        while self.some().is_some() {}
    }
}

fn quick() -> Options {
    Options { quarantine: Duration::from_millis(50), ..Options::default() }
}

fn start() -> (EmbeddedCluster, Raw, (u32, u32)) {
    let nodes = EmbeddedCluster::start(quick()).unwrap();
    let mut raw = Raw::join(&nodes);
    let table = raw.make_table();
    (nodes, raw, table)
}

fn insert(info: u32, connect: u32, operation: u32, table: (u32, u32), transid: u32) -> [u32; 8] {
    [connect, operation, 0, table.0, info, table.1, transid, 1]
}

#[test]
fn an_open_transaction_ends_with_its_coordinator() {
    let (nodes, mut raw, table) = start();
    let connect = raw.seize(1);
    for key in 0..8 {
        let info = if key == 0 { INSERT | START } else { INSERT };
        let info = if key == 7 { info | EXECUTE } else { info };
        let data = insert(info, connect, 2 * key, table, 5);
        raw.link(1).send(gsn::TCKEYREQ, COORDINATOR, &data, &[&[key], &[4, key, 1 << 16 | 4, key]]);
    }
    raw.link(1).until(gsn::TCKEYCONF);
    nodes.kill(1).unwrap();
    raw.link(1).end();
    let news = raw.link(2).all_until(gsn::NF_COMPLETEREP);
    let numbers: Vec<u16> = news.iter().map(|came| came.0).collect();
    assert_eq!(numbers, [gsn::NODE_FAILREP, gsn::TCKEY_FAILREF, gsn::TAKE_OVERTCCONF, gsn::NF_COMPLETEREP]);
    assert_eq!(news[0].2, [1 << 1], "the failed node");
    assert_eq!(news[1].1[1..], [5, 1], "the transaction");
    assert_eq!((news[2].1[0], news[3].1[2]), (1, 1));
    // Its rows are free, and not there.
    let connect = raw.seize(2);
    let data = insert(INSERT | START | EXECUTE | COMMIT, connect, 2, table, 6);
    raw.link(2).send(gsn::TCKEYREQ, COORDINATOR, &data, &[&[3], &[4, 3, 1 << 16 | 4, 3]]);
    let conf = raw.link(2).until(gsn::TCKEYCONF).1;
    assert_eq!(conf[2] >> 16, 3, "committed, to be acknowledged");
}

#[test]
fn a_commit_that_was_not_acknowledged_is_told_again() {
    let (nodes, mut raw, table) = start();
    let connect = raw.seize(2);
    let data = insert(INSERT | START | EXECUTE | COMMIT, connect, 2, table, 5);
    raw.link(2).send(gsn::TCKEYREQ, COORDINATOR, &data, &[&[3], &[4, 3, 1 << 16 | 4, 3]]);
    raw.link(2).until(gsn::TCKEYCONF);
    nodes.kill(2).unwrap();
    let news = raw.link(1).all_until(gsn::NF_COMPLETEREP);
    let told: Vec<_> = news.iter().filter(|came| came.0 == gsn::TCKEY_FAILCONF).collect();
    assert_eq!(told.len(), 1, "{news:?}");
    assert_eq!(told[0].1, [3, 5, 1], "the operation, its flag set: to be acknowledged");
    raw.link(1).send(gsn::TC_COMMIT_ACK, COORDINATOR, &[5, 1], &[]);
}

#[test]
fn a_reading_node_is_not_the_coordinator() {
    let (_nodes, mut raw, table) = start();
    let connect = raw.seize(1);
    let read = |key| insert(COMMITTED_READ | START | EXECUTE | COMMIT, connect, 2 * key + 100, table, key);
    for key in 0..16 {
        let data = insert(INSERT | START | EXECUTE | COMMIT, connect, 2, table, 100 + key);
        raw.link(1).send(gsn::TCKEYREQ, COORDINATOR, &data, &[&[key], &[4, key, 1 << 16 | 4, 7]]);
        raw.link(1).until(gsn::TCKEYCONF);
    }
    let mut readers = Vec::new();
    for key in 0..16 {
        raw.link(1).send(gsn::TCKEYREQ, COORDINATOR, &read(key), &[&[key], &[1 << 16]]);
        let came = raw.link(1).all_until(gsn::TCKEYCONF);
        let conf = came.iter().find(|came| came.0 == gsn::TCKEYCONF).unwrap();
        let reader = (conf.1[6] & 0xffff) as NodeId;
        if reader == 2 {
            assert_eq!(raw.link(2).until(gsn::TRANSID_AI).1[3..], [1 << 16 | 4, 7]);
        }
        readers.push(reader);
    }
    assert!(readers.contains(&1) && readers.contains(&2), "{readers:?}");
}

#[test]
fn what_stops_a_real_node_closes_the_link() {
    type Request = (u16, u16, Vec<u32>, Vec<Vec<u32>>);
    let key = |info: u32, table: u32| -> Request {
        (gsn::TCKEYREQ, COORDINATOR, vec![0, 2, 0, table, info, 1, 5, 1], vec![vec![1]])
    };
    let cases: Vec<(&str, Request)> = vec![
        ("dirty without simple", key(START | 0x2001, 2)),
        ("commit without execute", key(START | COMMIT | 0x2000, 2)),
        ("no wait on a write", key(START | INSERT | 1 << 21, 2)),
        ("table past", key(START | EXECUTE, 30_000)),
        ("another transaction", key(EXECUTE, 2)),
        ("without KEYINFO", (gsn::TCKEYREQ, COORDINATOR, vec![0, 2, 0, 2, START, 1, 5, 1], vec![])),
        ("not the client's", (gsn::TC_COMMITREQ, COORDINATOR, vec![99, 1, 2], vec![])),
        ("another node's", (gsn::TCSEIZEREQ, DBTC, vec![2, reference(BLOCK, 1), 0], vec![])),
        ("long answers", (gsn::GET_TABINFOREQ, DBDICT, vec![1, 0, 0, 2, 0], vec![])),
        ("schema file", (gsn::GET_TABINFOREQ, DBDICT, vec![1, 0, 2, 5000, 0], vec![])),
        ("does not know", (gsn::TCKEYCONF, COORDINATOR, vec![1], vec![])),
        ("does not expect", (gsn::TCKEYREQ, 247, vec![1], vec![])),
    ];
    let nodes = EmbeddedCluster::start(quick()).unwrap();
    Raw::join(&nodes).make_table();
    for (why, (number, receiver, mut data, sections)) in cases {
        let mut raw = Raw::join(&nodes);
        let connect = raw.seize(1);
        let own = raw.reference();
        match number {
            gsn::TCKEYREQ if data.len() > 1 => data[0] = connect,
            gsn::GET_TABINFOREQ => data[1] = own,
            _ => {}
        }
        let sections: Vec<&[u32]> = sections.iter().map(|section| &section[..]).collect();
        raw.link(1).send(number, receiver, &data, &sections);
        // All nodes expel the client.
        raw.link(1).end();
        raw.link(2).end();
        let log = nodes.log();
        assert!(log.iter().any(|line| line.contains(why)), "{why}: {log:?}");
    }
    assert_eq!(nodes.started(), [1, 2]);
}

#[test]
fn bytes_that_are_no_signals_close_the_link() {
    let nodes = EmbeddedCluster::start(quick()).unwrap();
    for words in
        [[0xffff_ffff; 8], [0; 8], [4 << 8 | 1; 8], [0x00ff_ff20; 8], [0x0400_0420, 10, 0, 0, 0, 0, 0, 0]]
    {
        let mut raw = Raw::join(&nodes);
        raw.link(2).write(&words);
        raw.link(2).end();
        raw.link(1).end();
        assert!(nodes.log().iter().any(|line| line.contains("expelled")), "{words:x?}");
    }
    assert_eq!(block_of(reference(BLOCK, 7)), BLOCK);
}
