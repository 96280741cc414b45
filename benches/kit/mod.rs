//! What the benches share: a peer in a process of its own, and a connection that reads rows of it in lock step.

mod null_peer;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use iclaustron::cluster::{Cluster, Options};
use iclaustron::conn::{Connection, Operation};
use iclaustron::dict::client::Client;
use iclaustron::dict::record::{ColumnRef, FieldSpec, Record};
use iclaustron::dict::table::{NewColumn, NewTable, Table};
use iclaustron::error::Error;
use iclaustron::wire::column::ColumnType;
use iclaustron::wire::hash::LANES;
use iclaustron::wire::transaction::{AbortOption, LockMode, WriteKind};

/// Operations in flight, usually. Few, so that a round under valgrind takes less time than a client may leave
/// its sockets unread before the library's receive thread takes over.
pub const IN_FLIGHT: u32 = 32;
/// Rows of the table.
const ROWS: u32 = 1 << 10;
const READ: Operation = Operation::Read(LockMode::Committed);
const WRITE: Operation = Operation::Write(WriteKind::Write, AbortOption::AbortOnError);

/// The argument with which a bench's program is the peer.
const PEER: &str = "null-peer";

/// Has this process be the peer, if it was started for that.
pub fn be_the_peer_if_asked() {
    if std::env::args().nth(1).as_deref() == Some(PEER) {
        let end = null_peer::serve();
        eprintln!("the peer ended: {end:?}");
        std::process::exit(1);
    }
}

/// The peer, in a process of its own, so that what it does is not counted.
pub struct Peer {
    process: Child,
    pub connectstring: String,
}

impl Peer {
    /// Starts it.
    pub fn start() -> Peer {
        let program = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new(program);
        let mut process = command.arg(PEER).stdout(Stdio::piped()).spawn().expect("the peer starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("its output"))
            .read_line(&mut line)
            .expect("a connectstring");
        Peer { process, connectstring: line.trim().to_owned() }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A connection with its queries. One thread, and the receive role is lent to it.
pub struct Reads {
    pub connection: Connection<u32>,
    cluster: Arc<Cluster>,
    table: Arc<Table>,
    /// Of the key.
    record: Arc<Record>,
    hints: [u32; LANES],
    queries: Vec<u64>,
    transactions: Vec<u64>,
    key: u32,
}

impl Reads {
    /// Joins the cluster and fills a table of an unsigned key and one unsigned column.
    pub fn new(connectstring: &str, in_flight: u32) -> Result<Reads, Error> {
        // No two threads ever send, so nothing is held; a limit of zero leaves the clock out of it.
        let options = Options { hold: Duration::ZERO, ..Options::default() };
        let cluster = Cluster::connect(Some(connectstring), &options)?;
        let mut client = Client::new(cluster.clone())?;
        let columns = vec![
            NewColumn { primary_key: true, ..NewColumn::new("id", ColumnType::Unsigned) },
            NewColumn::new("value", ColumnType::Unsigned),
        ];
        // From the run before.
        let _ = client.create(&NewTable::new("test", "bench", columns));
        let (table, standing) = client.open("test", "bench")?;
        let record = |name: &str| {
            let column = ColumnRef::Name(name.as_bytes());
            Record::new(&table, 4, &[FieldSpec { column, offset: 0, null: None }]).map(Arc::new)
        };
        let (key, value) = (record("id")?, record("value")?);
        let failed = |code| Error::new(code, "a connection and its queries");
        let mut connection = Connection::new(cluster.clone()).map_err(failed)?;
        let query = |at| {
            connection.create_query(table.clone(), standing.clone(), key.clone(), Some(value.clone()), at)
        };
        let queries = (0..in_flight).map(query).collect::<Result<Vec<_>, i32>>().map_err(failed)?;
        let transactions = vec![0; queries.len()];
        let (record, hints) = (key.clone(), [0; LANES]);
        let mut reads = Reads { connection, cluster, table, record, hints, queries, transactions, key: 0 };
        for _ in 0..ROWS.div_ceil(in_flight) {
            reads.write().map_err(failed)?;
        }
        // The first polls of a connection do not have the receive role yet.
        for _ in 0..100 {
            reads.read().map_err(failed)?;
        }
        Ok(reads)
    }

    /// Reads as many rows as are in flight.
    pub fn read(&mut self) -> Result<(), i32> {
        self.define_reads()?;
        self.connection.send(false);
        self.complete_reads()
    }

    fn write(&mut self) -> Result<(), i32> {
        self.define(WRITE)?;
        self.connection.send(false);
        self.complete(WRITE)
    }

    /// Defines reads; nothing is sent.
    #[inline(never)]
    pub fn define_reads(&mut self) -> Result<(), i32> {
        self.define(READ)
    }

    /// Waits for the reads, and checks what they bring.
    #[inline(never)]
    pub fn complete_reads(&mut self) -> Result<(), i32> {
        self.complete(READ)
    }

    #[inline]
    fn define(&mut self, operation: Operation) -> Result<(), i32> {
        for (at, &query) in self.queries.iter().enumerate() {
            if at % LANES == 0 {
                let keys: [_; LANES] = std::array::from_fn(|i| ((self.key + i as u32) % ROWS).to_ne_bytes());
                let keys = keys.as_flattened();
                self.connection.hints_for_keys(&self.table, &self.record, keys, &mut self.hints)?;
            }
            let (key, value) = self.connection.rows(query)?;
            key.bytes_mut().copy_from_slice(&self.key.to_ne_bytes());
            // A read that brings nothing must be noticed.
            let new = if operation == WRITE { !self.key } else { self.key };
            value.bytes_mut().copy_from_slice(&new.to_ne_bytes());
            self.key = (self.key + 1) % ROWS;
            let hint = self.hints[at % LANES];
            let transaction = self.connection.start_transaction(hint, Some(&self.table))?;
            self.transactions[at] = transaction;
            self.connection.define(query, transaction, operation, true, at as u32)?;
            self.connection.commit(transaction)?;
        }
        Ok(())
    }

    #[inline]
    fn complete(&mut self, operation: Operation) -> Result<(), i32> {
        let mut left = self.queries.len() as u32;
        self.connection.set_poll_min(left);
        while left > 0 {
            self.connection.poll(Duration::from_secs(10))?;
            while let Some(completion) = self.connection.next_callback() {
                let at = completion.token as usize;
                let error = self.connection.query_error(self.queries[at])?;
                let (key, value) = self.connection.rows(self.queries[at])?;
                let is_right = key.bytes().iter().zip(value.bytes()).all(|(key, value)| *key == !*value);
                assert!(error == 0 && (operation == WRITE || is_right), "error {error}");
                self.connection.close(self.transactions[at])?;
                self.connection.callback_done(completion.completed);
                left -= 1;
            }
            self.connection.end_poll();
        }
        Ok(())
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        self.connection.finish(Duration::from_secs(1));
        self.cluster.disconnect();
    }
}
