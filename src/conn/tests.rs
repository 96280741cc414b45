//! What a connection does when things come in an unlucky order: replies and losses are put into it by hand, on
//! embedded nodes that give it real coordinator records.

use super::*;
use crate::cluster;
use crate::dict::client::Client;
use crate::dict::record::{ColumnRef, FieldSpec};
use crate::dict::table::{NewColumn, NewTable};
use crate::embedded::{self, EmbeddedCluster};
use crate::error::ndb;
use crate::link::page::{Content, Words};
use crate::wire::column::ColumnType;
use crate::wire::signal::{Header, encode};
use crate::wire::{block, gsn};

mod deadlines;
mod take_over;

const READ: Operation = Operation::Read(LockMode::Committed);
const SHARED: Operation = Operation::Read(LockMode::Shared(AbortOption::IgnoreError));
const WRITE: Operation = Operation::Write(WriteKind::Write, AbortOption::AbortOnError);
const LONG: Duration = Duration::from_secs(5);

/// A connection with some queries on a table of its own, and the nodes under it.
struct Session {
    connection: Connection<u32>,
    table: Arc<Table>,
    standing: Arc<Standing>,
    key: Arc<Record>,
    queries: Vec<u64>,
    cluster: Arc<Cluster>,
    nodes: EmbeddedCluster,
}

impl Session {
    fn new(lend_receive: bool) -> Session {
        let nodes = EmbeddedCluster::start(embedded::Options::default()).unwrap();
        let options = cluster::Options { lend_receive, ..Default::default() };
        let cluster = Cluster::connect(Some(&nodes.connectstring()), &options).unwrap();
        let mut dictionary = Client::new(cluster.clone()).unwrap();
        let key = NewColumn { primary_key: true, ..NewColumn::new("k", ColumnType::Unsigned) };
        let value = NewColumn::new("v", ColumnType::Unsigned);
        dictionary.create(&NewTable::new("test", "t", vec![key, value])).unwrap();
        let (table, standing) = dictionary.open("test", "t").unwrap();
        let record = |name: &'static [u8]| {
            let field = FieldSpec { column: ColumnRef::Name(name), offset: 0, null: None };
            Arc::new(Record::new(&table, 4, &[field]).unwrap())
        };
        let (key, value) = (record(b"k"), record(b"v"));
        let mut connection = Connection::new(cluster.clone()).unwrap();
        let mut query =
            || connection.create_query(table.clone(), standing.clone(), key.clone(), Some(value.clone()), 0);
        let queries = (0..4).map(|_| query().unwrap()).collect();
        let mut session = Session { connection, table, standing, key, queries, cluster, nodes };
        session.one(WRITE, 1);
        session.one(WRITE, 2);
        session
    }

    fn start(&mut self, key: u32) -> u64 {
        let hint = self.connection.hint_for_key(&self.table, &self.key, &key.to_le_bytes()).unwrap();
        self.connection.start_transaction(hint, Some(&self.table)).unwrap()
    }

    fn define(&mut self, query: usize, key: u32, transaction: u64, operation: Operation) -> Result<(), i32> {
        let query = self.queries[query];
        if let Ok((row, _)) = self.connection.rows(query) {
            row.bytes_mut().copy_from_slice(&key.to_le_bytes());
        }
        self.connection.define(query, transaction, operation, true, key)
    }

    /// One operation from beginning to end.
    fn one(&mut self, operation: Operation, key: u32) {
        let transaction = self.start(key);
        self.define(0, key, transaction, operation).unwrap();
        self.connection.commit(transaction).unwrap();
        self.connection.send(true);
        while self.tokens().is_empty() {
            self.connection.poll(LONG).unwrap();
        }
        self.connection.close(transaction).unwrap();
    }

    /// One that has something of a link of each node.
    fn with_all_nodes(lend_receive: bool) -> Session {
        let mut session = Session::new(lend_receive);
        let mut key = 1;
        while session.connection.work.iter().any(|work| work.generation == 0) {
            session.one(WRITE, key);
            key += 1;
        }
        session
    }

    /// Loses the links to all nodes, and has them again.
    fn lose_links(&self) {
        let losses = self.cluster.incarnation.load(Ordering::Acquire);
        self.nodes.drop_link(1, None).unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while self.cluster.incarnation.load(Ordering::Acquire) == losses {
            assert!(Instant::now() < until, "all links are lost with one");
            std::thread::yield_now();
        }
        self.cluster.wait_usable(2, until).unwrap();
    }

    /// Takes the callbacks that are due.
    fn tokens(&mut self) -> Vec<u32> {
        let mut tokens = Vec::new();
        while let Some(completion) = self.connection.next_callback() {
            tokens.push(completion.token);
            self.connection.callback_done(completion.completed);
        }
        tokens
    }

    /// Indices of the coordinator's node and of the other.
    fn nodes_of(&self, transaction: u64) -> (usize, usize) {
        let node = self.connection.transactions[self.connection.transactions.find(transaction).unwrap()].node;
        (node, 1 - node)
    }

    fn page(&self, node: usize, content: Content) -> Page {
        Page { node: self.connection.work[node].node.id, generation: 1, content }
    }

    fn signal(&self, node: usize, gsn: u16, data: &[u32]) -> Page {
        let header = Header { gsn, receiver: self.connection.port.block(), sender: block::DBTC };
        let mut words = Vec::new();
        encode(&mut words, header, data, &[]).unwrap();
        self.page(node, Content::Signals(Words::whole(words)))
    }

    /// A TCKEYCONF of one operation with this ATTRINFO word.
    fn key_conf(&self, transaction: u64, query: usize, commit: u32, attrinfo: u32) -> Page {
        let connection = &self.connection;
        let state = &connection.transactions[connection.transactions.find(transaction).unwrap()];
        let operation = connection.queries[connection.queries.find(self.queries[query]).unwrap()].operation;
        let [low, high] = state.transid;
        let data = [state.record << 1, 0, commit << 16 | 1, low, high, operation, attrinfo, 0];
        self.signal(state.node, gsn::TCKEYCONF, &data)
    }

    fn take(&mut self, pages: impl IntoIterator<Item = Page>) {
        self.connection.take_pages(&mut pages.into_iter().collect());
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.cluster.disconnect();
    }
}

#[test]
fn a_completed_query_is_not_defined_before_it_is_taken() {
    let mut session = Session::new(true);
    let transaction = session.start(1);
    session.define(0, 1, transaction, READ).unwrap();
    session.connection.commit(transaction).unwrap();
    session.connection.send(true);
    session.connection.poll(LONG).unwrap();
    let other = session.start(1);
    assert_eq!(session.define(0, 1, other, READ), Err(own::QUERY_NOT_IDLE), "its callback is due");
    assert_eq!(session.tokens(), [1]);
    session.define(0, 1, other, READ).unwrap();
}

#[test]
fn a_read_confirmed_after_the_loss_of_its_node_completes_once() {
    let mut session = Session::new(false);
    let transaction = session.start(1);
    session.define(0, 1, transaction, READ).unwrap();
    session.define(1, 2, transaction, READ).unwrap();
    session.connection.seal_all();
    let (_, other) = session.nodes_of(transaction);
    let reader = session.connection.work[other].node.id;
    let pages = [
        session.page(other, Content::LinkLost),
        session.key_conf(transaction, 0, 0, 1 << 31 | reader as u32),
    ];
    session.take(pages);
    assert_eq!(session.tokens(), [1]);
    assert_eq!(session.connection.query_error(session.queries[0]), Ok(ndb::READ_LOST));
    assert_eq!(session.connection.in_flight(), 1);
}

#[test]
fn a_read_packed_after_the_loss_of_its_node_ends_with_the_news_of_its_failure() {
    let mut session = Session::new(false);
    let transaction = session.start(1);
    let (coordinator, other) = session.nodes_of(transaction);
    let reader = session.connection.work[other].node.id as u32;
    let lost = session.page(other, Content::LinkLost);
    session.take([lost]);
    session.define(0, 1, transaction, READ).unwrap();
    session.define(1, 2, transaction, READ).unwrap();
    session.connection.seal_all();
    let confirmed = [0, 1].map(|query| session.key_conf(transaction, query, 0, 1 << 31 | reader));
    let news = |gsn, data: &[u32], sections: &[&[u32]]| {
        let header = Header { gsn, receiver: block::API_CLUSTERMGR, sender: block::QMGR };
        let mut words = Vec::new();
        encode(&mut words, header, data, sections).unwrap();
        session.page(coordinator, Content::Signals(Words::whole(words)))
    };
    let failed = news(gsn::NODE_FAILREP, &[1, 0, 1], &[&[1 << reader]]);
    let taken_over = news(gsn::TAKE_OVERTCCONF, &[reader, 0, 0], &[]);
    let [before, after] = confirmed;
    session.take([before]);
    assert!(session.tokens().is_empty(), "the row may come through the coordinator");
    session.take([failed]);
    assert_eq!(session.tokens(), [1]);
    session.take([after]);
    assert!(session.tokens().is_empty(), "the coordinator knew it already, or not yet");
    session.take([taken_over]);
    assert_eq!(session.tokens(), [2]);
    for query in &session.queries[..2] {
        assert_eq!(session.connection.query_error(*query), Ok(ndb::READ_LOST));
    }
    assert_eq!(session.connection.in_flight(), 0);
}

#[test]
fn a_locking_read_whose_row_is_lost_ends() {
    let mut session = Session::new(false);
    let transaction = session.start(1);
    session.define(0, 1, transaction, SHARED).unwrap();
    session.connection.commit(transaction).unwrap();
    let (_, other) = session.nodes_of(transaction);
    let pages = [session.key_conf(transaction, 0, 1, 2), session.page(other, Content::LinkLost)];
    session.take(pages);
    assert_eq!(session.tokens(), [1]);
    assert_eq!(session.connection.query_error(session.queries[0]), Ok(ndb::COMMITTED_ROWS_LOST));
    assert_eq!(session.connection.transaction_error(transaction), Ok(0));
    assert_eq!(session.connection.in_flight(), 0);
}

#[test]
fn an_acknowledgement_goes_to_a_node_that_nothing_was_sent_to() {
    let mut session = Session::new(false);
    let mut fresh = Connection::<u32>::new(session.cluster.clone()).unwrap();
    std::mem::swap(&mut fresh, &mut session.connection);
    let page = session.signal(0, gsn::TCKEY_FAILCONF, &[9, 1, 2]);
    session.take([page]);
    session.connection.transmit(true, |_| true);
    assert_eq!(session.connection.statistics().sends, 1);
}

#[test]
fn transactions_that_are_given_up_do_not_seize_records() {
    let mut session = Session::new(false);
    let mut fresh = Connection::<u32>::new(session.cluster.clone()).unwrap();
    std::mem::swap(&mut fresh, &mut session.connection);
    for _ in 0..10_000 {
        let transaction = session.start(1);
        session.connection.commit(transaction).unwrap();
        session.connection.close(transaction).unwrap();
        let transaction = session.start(1);
        session.connection.close(transaction).unwrap();
    }
    assert!(session.connection.records.len() <= 8, "{}", session.connection.records.len());
    assert!(session.connection.work.iter().all(|work| work.waiting.is_empty()));
    session.connection.finish(LONG);
    assert!(session.connection.records.iter().all(|record| record.usage != Usage::Seizing));
}

#[test]
fn a_finished_connection_takes_no_work() {
    let mut session = Session::new(false);
    session.connection.finish(LONG);
    assert_eq!(session.connection.start_transaction(0, None), Err(own::NOT_CONNECTED));
}

#[test]
fn a_completion_between_polls_ends_the_next() {
    let mut session = Session::new(false);
    let transaction = session.start(1);
    let query = session.queries[0];
    session.connection.define(query, transaction, READ, false, 0).unwrap();
    session.connection.rollback(transaction).unwrap();
    // Were it not news, this would wait for an hour.
    session.connection.poll(Duration::from_secs(3600)).unwrap();
    assert_eq!(session.connection.next_executed(), Some(query));
    assert_eq!(session.connection.query_error(query), Ok(ndb::ROLLED_BACK));
}

#[test]
fn disconnecting_does_not_wait_for_who_polls() {
    for _ in 0..5 {
        let mut session = Session::new(true);
        for _ in 0..100 {
            session.one(READ, 1);
        }
        let cluster = session.cluster.clone();
        let poller = std::thread::spawn(move || {
            let polled = session.connection.poll(Duration::from_secs(3600));
            (polled, session)
        });
        cluster.disconnect();
        assert_eq!(poller.join().unwrap().0, Err(own::NOT_CONNECTED));
    }
}

/// Who has nothing in flight need not poll, so the news of the losses is not read by a poll.
#[test]
fn work_starts_on_new_links_without_a_poll() {
    for lend_receive in [false, true] {
        let mut session = Session::with_all_nodes(lend_receive);
        session.lose_links();
        session.connection.start_transaction(0, None).unwrap();
        let mut session = Session::with_all_nodes(lend_receive);
        session.lose_links();
        let queries = session.queries.clone();
        let args = multi_read::Args { kind: multi_read::Kind::Gather, limit: None, callback: true, token: 0 };
        // The handles are good once somebody has looked whether it is the same cluster.
        let until = Instant::now() + Duration::from_secs(30);
        while let Err(code) = session.connection.multi_read(&queries, args) {
            assert!(code == own::NO_NODE && Instant::now() < until, "{code}");
            std::thread::yield_now();
        }
    }
}

#[test]
fn the_dictionary_works_after_links_were_lost() {
    let session = Session::new(false);
    let mut dictionary = Client::new(session.cluster.clone()).unwrap();
    let table = |name: &str| {
        let key = NewColumn { primary_key: true, ..NewColumn::new("k", ColumnType::Unsigned) };
        NewTable::new("test", name, vec![key])
    };
    dictionary.create(&table("before")).unwrap();
    session.lose_links();
    dictionary.create(&table("after")).unwrap();
}
