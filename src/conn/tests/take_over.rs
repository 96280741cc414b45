//! What becomes of a transaction whose coordinator's node is lost, in every order of the news.

use super::*;

/// A transaction with a write, and perhaps a locking read, whose commit was sent. The nodes' own replies are
/// not read.
struct Sent {
    session: Session,
    transaction: u64,
    coordinator: usize,
    other: usize,
}

impl Sent {
    fn new(operations: &[Operation]) -> Sent {
        let mut session = Session::new(false);
        let transaction = session.start(1);
        for (query, &operation) in operations.iter().enumerate() {
            session.define(query, query as u32 + 1, transaction, operation).unwrap();
        }
        session.connection.commit(transaction).unwrap();
        session.connection.send(true);
        let (coordinator, other) = session.nodes_of(transaction);
        Sent { session, transaction, coordinator, other }
    }

    fn lost(&mut self, node: usize) {
        let page = self.session.page(node, Content::LinkLost);
        self.session.take([page]);
    }

    fn told(&mut self, gsn: u16) {
        let connection = &self.session.connection;
        let at = connection.transactions.find(self.transaction).unwrap();
        let [low, high] = connection.transactions[at].transid;
        let failed = connection.work[self.coordinator].node.id as u32;
        let data = match gsn {
            gsn::TAKE_OVERTCCONF => vec![failed, 0, 0],
            _ => vec![0, low, high],
        };
        let receiver = match gsn {
            gsn::TAKE_OVERTCCONF => block::API_CLUSTERMGR,
            _ => connection.port.block(),
        };
        let mut words = Vec::new();
        encode(&mut words, Header { gsn, receiver, sender: block::DBTC }, &data, &[]).unwrap();
        let page = self.session.page(self.other, Content::Signals(Words::whole(words)));
        self.session.take([page]);
    }

    fn pending(&mut self) -> bool {
        self.session.tokens().is_empty() && self.session.connection.in_flight() > 0
    }

    /// The transaction's error, whether it was committed, and each query's error.
    fn outcome(mut self) -> (i32, bool, Vec<i32>) {
        let count = self.session.tokens().len();
        let connection = &self.session.connection;
        let errors =
            self.session.queries[..count].iter().map(|&query| connection.query_error(query).unwrap());
        let (phase, committed) = connection.transaction_state(self.transaction).unwrap();
        assert_eq!((phase, connection.in_flight()), (Phase::Ended, 0));
        (connection.transaction_error(self.transaction).unwrap(), committed, errors.collect())
    }
}

#[test]
fn committed_by_another_node() {
    let mut sent = Sent::new(&[WRITE]);
    sent.lost(sent.coordinator);
    assert!(sent.pending(), "nothing is certain yet");
    sent.told(gsn::TCKEY_FAILCONF);
    assert_eq!(sent.outcome(), (0, true, vec![0]));
}

#[test]
fn committed_but_rows_are_lost() {
    let mut sent = Sent::new(&[WRITE, SHARED]);
    sent.lost(sent.coordinator);
    sent.told(gsn::TCKEY_FAILCONF);
    assert_eq!(sent.outcome(), (0, true, vec![0, ndb::COMMITTED_ROWS_LOST]));
}

#[test]
fn aborted_by_another_node() {
    let mut sent = Sent::new(&[WRITE]);
    sent.lost(sent.coordinator);
    sent.told(gsn::TCKEY_FAILREF);
    let error = ndb::TAKE_OVER_ABORT;
    assert_eq!(sent.outcome(), (error, false, vec![error]));
}

#[test]
fn not_found_by_the_take_over() {
    let mut sent = Sent::new(&[WRITE]);
    sent.lost(sent.coordinator);
    sent.told(gsn::TAKE_OVERTCCONF);
    let error = ndb::NODE_FAILURE_ABORT;
    assert_eq!(sent.outcome(), (error, false, vec![error]));
}

#[test]
fn unknown_when_nobody_is_left_to_tell() {
    let mut sent = Sent::new(&[WRITE]);
    sent.lost(sent.coordinator);
    assert!(sent.pending());
    sent.lost(sent.other);
    let error = ndb::UNKNOWN_RESULT;
    assert_eq!(sent.outcome(), (error, false, vec![error]));
}

#[test]
fn unknown_when_the_others_went_first() {
    let mut sent = Sent::new(&[WRITE]);
    sent.lost(sent.other);
    assert!(sent.pending());
    sent.lost(sent.coordinator);
    let error = ndb::UNKNOWN_RESULT;
    assert_eq!(sent.outcome(), (error, false, vec![error]));
}

#[test]
fn the_report_is_read_before_the_loss() {
    let mut sent = Sent::new(&[WRITE]);
    sent.told(gsn::TAKE_OVERTCCONF);
    assert!(sent.pending());
    sent.lost(sent.coordinator);
    let error = ndb::NODE_FAILURE_ABORT;
    assert_eq!(sent.outcome(), (error, false, vec![error]));
}

#[test]
fn the_commit_is_read_before_the_loss() {
    let mut sent = Sent::new(&[WRITE]);
    sent.told(gsn::TCKEY_FAILCONF);
    sent.told(gsn::TAKE_OVERTCCONF);
    sent.lost(sent.coordinator);
    assert_eq!(sent.outcome(), (0, true, vec![0]));
}

#[test]
fn a_transaction_of_reads_need_not_wait() {
    let mut sent = Sent::new(&[READ]);
    sent.lost(sent.coordinator);
    let error = ndb::NODE_FAILURE_ABORT;
    assert_eq!(sent.outcome(), (error, false, vec![error]));
}

#[test]
fn a_report_on_another_failure_does_not_count() {
    let mut sent = Sent::new(&[WRITE]);
    sent.lost(sent.coordinator);
    // The other node's own id.
    std::mem::swap(&mut sent.coordinator, &mut sent.other);
    sent.other = sent.coordinator;
    sent.told(gsn::TAKE_OVERTCCONF);
    assert!(sent.pending());
}

#[test]
fn a_late_report_does_not_count_for_the_next_loss() {
    let mut sent = Sent::new(&[WRITE]);
    // A loss that is read only now, of a link before the one that the commit went to, and its report.
    let before = Page { generation: 0, ..sent.session.page(sent.coordinator, Content::LinkLost) };
    sent.session.take([before]);
    sent.told(gsn::TAKE_OVERTCCONF);
    sent.lost(sent.coordinator);
    assert!(sent.pending(), "the report on this loss is still to come");
    sent.told(gsn::TCKEY_FAILCONF);
    assert_eq!(sent.outcome(), (0, true, vec![0]));
}

#[test]
fn a_row_that_is_lost_beside_a_committed_write_is_not_temporary() {
    let mut sent = Sent::new(&[READ, WRITE]);
    let reader = sent.session.connection.work[sent.other].node.id as u32;
    let read = sent.session.key_conf(sent.transaction, 0, 0, 1 << 31 | reader);
    let committed = sent.session.key_conf(sent.transaction, 1, 1, 0);
    sent.session.take([read]);
    sent.lost(sent.other);
    assert!(sent.pending());
    sent.session.take([committed]);
    assert_eq!(sent.outcome(), (0, true, vec![ndb::COMMITTED_ROWS_LOST, 0]));
}
