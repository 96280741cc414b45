//! Deadlines, with a clock that the test sets.

use super::*;
use crate::conn::transaction::NEVER;

impl Session {
    /// Puts the clock to the first deadline, and ends what is due.
    fn expire(&mut self) {
        // It may be that of something that has ended since.
        self.connection.due = self.connection.due.min(self.connection.clock);
        self.connection.check_deadlines();
        assert_ne!(self.connection.due, NEVER);
        self.connection.clock = self.connection.due;
        self.connection.check_deadlines();
    }

    fn usages(&self) -> Vec<Usage> {
        let set_aside = |record: &&CoordinatorRecord| matches!(record.usage, Usage::Aside { .. });
        self.connection.records.iter().filter(set_aside).map(|record| record.usage).collect()
    }

    /// Takes replies until no record is set aside.
    fn settle(&mut self) {
        while !self.usages().is_empty() {
            self.connection.transmit(true, |_| true);
            self.connection.take_inbox(Some(Instant::now() + LONG), 1);
        }
    }

    fn error(&self, query: usize) -> i32 {
        self.connection.query_error(self.queries[query]).unwrap()
    }
}

#[test]
fn without_a_commit_it_is_rolled_back() {
    let mut session = Session::new(false);
    let transaction = session.start(1);
    session.define(0, 1, transaction, WRITE).unwrap();
    session.connection.send(true);
    session.expire();
    assert_eq!((session.tokens(), session.error(0)), (vec![1], own::DEADLINE));
    assert_eq!(session.connection.transaction_error(transaction), Ok(own::DEADLINE));
    assert_eq!(session.connection.transaction_state(transaction), Ok((Phase::Ended, false)));
    assert!(matches!(session.usages()[..], [Usage::Aside { rolling_back: true, .. }]));
    let idle = session.connection.records.iter().filter(|record| record.usage == Usage::Idle).count();
    session.settle();
    let idle_now = session.connection.records.iter().filter(|record| record.usage == Usage::Idle).count();
    assert_eq!(
        (idle_now, session.tokens()),
        (idle + 1, vec![]),
        "the record is used again, nothing completes twice"
    );
    assert_eq!(session.connection.statistics().deadlines, 1);
    // No lock has stayed.
    session.one(WRITE, 1);
    assert_eq!(session.error(0), 0);
}

#[test]
fn a_commit_that_was_sent_is_unknown_and_acknowledged_later() {
    let mut session = Session::new(false);
    let transaction = session.start(1);
    session.define(0, 1, transaction, WRITE).unwrap();
    session.connection.commit(transaction).unwrap();
    session.connection.send(true);
    session.expire();
    assert_eq!((session.tokens(), session.error(0)), (vec![1], ndb::UNKNOWN_RESULT));
    assert!(matches!(session.usages()[..], [Usage::Aside { rolling_back: false, .. }]));
    let sends = session.connection.statistics().sends;
    session.settle();
    session.connection.end_poll();
    assert_eq!(session.connection.statistics().sends, sends + 1, "TC_COMMIT_ACK");
    assert!(session.tokens().is_empty());
}

#[test]
fn a_commit_of_reads_leaves_nothing_unknown() {
    let mut session = Session::new(false);
    let transaction = session.start(1);
    session.define(0, 1, transaction, READ).unwrap();
    session.connection.commit(transaction).unwrap();
    session.connection.send(true);
    session.expire();
    assert_eq!((session.tokens(), session.error(0)), (vec![1], own::DEADLINE));
    session.settle();
}

#[test]
fn a_committed_read_whose_row_does_not_come_ends() {
    let mut session = Session::new(false);
    let transaction = session.start(1);
    session.define(0, 1, transaction, READ).unwrap();
    session.connection.commit(transaction).unwrap();
    session.connection.send(true);
    let (_, other) = session.nodes_of(transaction);
    let reader = session.connection.work[other].node.id;
    let page = session.key_conf(transaction, 0, 1, 1 << 31 | reader as u32);
    session.take([page]);
    assert_eq!((session.tokens(), session.connection.in_flight()), (vec![], 1));
    session.expire();
    assert_eq!((session.tokens(), session.error(0)), (vec![1], own::DEADLINE));
    assert_eq!(session.connection.transaction_error(transaction), Ok(0));
}

#[test]
fn what_waits_for_a_record_ends_too() {
    let mut session = Session::new(false);
    let mut fresh = Connection::<u32>::new(session.cluster.clone()).unwrap();
    std::mem::swap(&mut fresh, &mut session.connection);
    let (table, standing, key) = (session.table.clone(), session.standing.clone(), session.key.clone());
    session.queries = vec![session.connection.create_query(table, standing, key, None, 0).unwrap()];
    let transaction = session.start(1);
    session.define(0, 1, transaction, READ).unwrap();
    session.connection.commit(transaction).unwrap();
    assert_eq!(session.connection.due, NEVER, "its time begins with the send");
    session.connection.send(true);
    session.expire();
    assert_eq!((session.tokens(), session.error(0)), (vec![1], own::DEADLINE));
}

#[test]
fn what_was_not_sent_is_not_due() {
    let mut session = Session::new(false);
    session.connection.set_deadline(Some(Duration::from_secs(1)));
    let transaction = session.start(1);
    session.define(0, 1, transaction, READ).unwrap();
    session.connection.commit(transaction).unwrap();
    let first = session.connection.due;
    session.expire();
    assert_eq!((session.tokens(), session.connection.in_flight()), (vec![], 1));
    assert!(session.connection.due > first, "it moves on with the clock");
    // It was packed long before it is sent.
    session.connection.work.iter_mut().for_each(|work| work.packed_at = 0);
    session.connection.send(true);
    let at = session.connection.transactions.find(transaction).unwrap();
    assert!(session.connection.transactions[at].deadline >= session.connection.clock + 1_000_000_000);
}

#[test]
fn a_transaction_may_have_its_own() {
    let mut session = Session::new(false);
    let (short, long) = (session.start(1), session.start(2));
    session.connection.set_transaction_deadline(short, Some(Duration::from_millis(5))).unwrap();
    for (query, transaction) in [(0, short), (1, long)] {
        session.define(query, query as u32, transaction, READ).unwrap();
        session.connection.commit(transaction).unwrap();
    }
    session.connection.send(true);
    session.expire();
    assert_eq!(session.tokens(), [0]);
    assert_eq!(session.connection.in_flight(), 1);
    let stale = session.connection.set_transaction_deadline(7, None);
    assert_eq!(stale, Err(own::STALE_TRANSACTION));
}

#[test]
fn a_poll_does_not_sleep_past_one() {
    let mut session = Session::new(false);
    session.nodes.stall(1, Duration::from_secs(3)).unwrap();
    session.nodes.stall(2, Duration::from_secs(3)).unwrap();
    session.connection.set_deadline(Some(Duration::from_millis(20)));
    let transaction = session.start(1);
    session.define(0, 1, transaction, READ).unwrap();
    session.connection.commit(transaction).unwrap();
    session.connection.send(true);
    // Were it not for the deadline, this would wait for the nodes.
    session.connection.poll(Duration::from_secs(3600)).unwrap();
    assert_eq!((session.tokens(), session.error(0)), (vec![1], own::DEADLINE));
}

#[test]
fn a_descriptor_tells_of_one() {
    let mut session = Session::new(false);
    let descriptor = session.connection.descriptor().unwrap();
    session.connection.set_deadline(Some(Duration::from_millis(20)));
    session.nodes.stall(1, Duration::from_secs(3)).unwrap();
    session.nodes.stall(2, Duration::from_secs(3)).unwrap();
    let transaction = session.start(1);
    session.define(0, 1, transaction, READ).unwrap();
    session.connection.commit(transaction).unwrap();
    session.connection.send(true);
    // What came of the last send, and of the time before.
    while session.connection.in_flight() > 0 {
        let mut wait = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, which is in the array of one.
        let ready = unsafe { libc::poll(&mut wait, 1, 60_000) };
        assert_eq!(ready, 1, "nobody polls, and yet it is due");
        session.connection.poll(Duration::ZERO).unwrap();
    }
    assert_eq!((session.tokens(), session.error(0)), (vec![1], own::DEADLINE));
}

#[test]
fn a_rollback_does_not_put_it_off() {
    let mut session = Session::new(false);
    let transaction = session.start(1);
    session.define(0, 1, transaction, WRITE).unwrap();
    session.connection.send(true);
    let at = session.connection.transactions.find(transaction).unwrap();
    let deadline = session.connection.transactions[at].deadline;
    session.connection.clock += 1_000_000;
    session.connection.rollback(transaction).unwrap();
    assert_eq!(session.connection.transactions[at].deadline, deadline);
    session.connection.transmit(true, |_| true);
    session.expire();
    assert_eq!((session.tokens(), session.error(0)), (vec![1], ndb::ROLLED_BACK));
    session.settle();
}

#[test]
fn finishing_does_not_put_it_off() {
    let mut session = Session::new(false);
    session.connection.set_deadline(Some(Duration::from_millis(1)));
    let transaction = session.start(1);
    session.define(0, 1, transaction, WRITE).unwrap();
    session.connection.commit(transaction).unwrap();
    session.connection.send(true);
    let (coordinator, _) = session.nodes_of(transaction);
    let lost = session.page(coordinator, Content::LinkLost);
    session.take([lost]);
    assert_eq!(session.connection.in_flight(), 1, "others are to tell the outcome");
    // None does.
    session.connection.finish(Duration::from_secs(3600));
    assert_eq!((session.tokens(), session.error(0)), (vec![1], ndb::UNKNOWN_RESULT));
}
