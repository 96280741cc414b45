//! Statistics: every operation is counted once, under its kind and outcome, and bounds hold.

use std::time::Duration;

use iclaustron::cluster::statistics::{Kind, Totals};
use iclaustron::cluster::{Limits, Options};
use iclaustron::conn::Operation;
use iclaustron::error::{is_temporary, is_unknown_result, own};
use iclaustron::wire::transaction::{LockMode, WriteKind};

use crate::cluster::join;
use crate::kit::{ABORT, IGNORE, Random, TestTable, User, until};

/// Of each kind: without an error, temporary, permanent, unknown.
type Tally = [[u64; 4]; Kind::NAMES.len()];

fn tally_of(totals: &Totals) -> Tally {
    totals.operations.each_ref().map(|o| [o.ok(), o.temporary, o.permanent, o.unknown])
}

fn place(error: i32) -> usize {
    match error {
        0 => 0,
        code if is_unknown_result(code) => 3,
        code if is_temporary(code) => 1,
        _ => 2,
    }
}

const OPERATIONS: [Operation; 7] = [
    Operation::Read(LockMode::Committed),
    Operation::Read(LockMode::Exclusive(IGNORE)),
    Operation::Write(WriteKind::Insert, ABORT),
    Operation::Write(WriteKind::Insert, IGNORE),
    Operation::Write(WriteKind::Update, IGNORE),
    Operation::Write(WriteKind::Write, ABORT),
    Operation::Write(WriteKind::Delete, ABORT),
];

node_test!(every_operation_is_counted_under_its_outcome);
fn every_operation_is_counted_under_its_outcome() {
    let table = TestTable::numbers("st_outcomes");
    let cluster = join(&Options::default());
    let mut user = User::of(cluster.clone());
    let mut random = Random(7);
    let (mut expected, mut ended) = (Tally::default(), [0; 2]);
    for _ in 0..200 {
        let transaction = user.start();
        let defined: Vec<_> = (0..1 + random.below(4))
            .map(|_| {
                let operation = OPERATIONS[random.below(OPERATIONS.len())];
                let query = user.query(&table);
                let key = random.below(30) as u32;
                user.key_row(query)[table.at("k")].copy_from_slice(&key.to_le_bytes());
                user.row(query).fill(1);
                user.define(query, transaction, operation);
                (query, operation)
            })
            .collect();
        // Sometimes before anything was sent, sometimes after.
        if random.below(3) == 0 {
            user.run();
        }
        match random.below(4) {
            0 if user.outcome(transaction).is_none() => {
                user.connection.rollback(transaction).unwrap();
            }
            _ if user.outcome(transaction).is_none() => user.commit(transaction),
            _ => {}
        }
        let (_, committed) = user.end(transaction);
        ended[committed as usize] += 1;
        user.connection.close(transaction).unwrap();
        for (query, operation) in defined {
            expected[operation.kind() as usize][place(user.error(query))] += 1;
            user.free(query);
        }
    }
    let totals = user.connection.totals();
    let statistics = totals.statistics;
    assert_eq!(tally_of(&totals), expected);
    let all: u64 = expected.as_flattened().iter().sum();
    let failed: u64 = expected.iter().map(|outcomes| outcomes[1..].iter().sum::<u64>()).sum();
    assert_eq!((statistics.defined, statistics.completed, statistics.failed), (all, all, failed));
    assert_eq!((statistics.commits, statistics.rollbacks, statistics.unknown), (ended[1], ended[0], 0));
    assert_eq!(totals.in_flight(), 0);
    assert!(statistics.most_in_flight <= 4 && statistics.most_in_flight > 0);

    // The same from outside, while the connection lives and after it.
    user.send();
    let seen = cluster.statistics();
    assert_eq!((seen.connections, tally_of(&seen.totals)), (1, expected));
    assert_eq!(seen.totals.statistics.completed, all);
    drop(user);
    let seen = cluster.statistics();
    assert_eq!((seen.connections, tally_of(&seen.totals)), (0, expected));
    let links = seen.all_links();
    assert!(links.bytes_sent >= seen.totals.statistics.bytes_sent, "heartbeats come on top");
    assert!(links.writes > 0 && links.bytes_received > 0);
    assert_eq!(links.held_joined + links.held_forced + links.held_deadline, seen.totals.statistics.held);
    cluster.disconnect();
}

node_test!(what_is_in_flight_is_bounded);
fn what_is_in_flight_is_bounded() {
    let table = TestTable::numbers("st_bounds");
    let limits = Limits { in_flight: 10, ..Limits::default() };
    let cluster = join(&Options { limits, ..Options::default() });
    let mut user = User::of(cluster.clone());
    let define = |user: &mut User| {
        let transaction = user.connection.start_transaction(0, None)?;
        let query = user.query(&table);
        let read = Operation::Read(LockMode::Committed);
        let defined = user.connection.define(query, transaction, read, true, ());
        if defined.is_ok() {
            user.commit(transaction);
        }
        user.connection.close(transaction).unwrap();
        defined
    };
    for _ in 0..3 {
        let accepted = (0..).take_while(|_| define(&mut user).is_ok()).count();
        assert_eq!((accepted, user.connection.in_flight()), (10, 10));
        assert_eq!(define(&mut user), Err(own::TOO_MANY_IN_FLIGHT));
        user.run();
    }
    // Transactions without operations are bounded too.
    let mut started = Vec::new();
    let refused = loop {
        match user.connection.start_transaction(0, None) {
            Ok(transaction) => started.push(transaction),
            Err(code) => break code,
        }
        assert!(started.len() <= 20);
    };
    assert_eq!(refused, own::TOO_MANY_IN_FLIGHT);
    for transaction in started {
        user.connection.close(transaction).unwrap();
    }
    user.connection.set_max_in_flight(1);
    define(&mut user).unwrap();
    assert_eq!(define(&mut user), Err(own::TOO_MANY_IN_FLIGHT));
    user.run();
    drop(user);
    cluster.disconnect();
}

node_test!(a_latency_does_not_hold_the_time_before_it);
fn a_latency_does_not_hold_the_time_before_it() {
    let table = TestTable::numbers("st_latency");
    let mut user = User::new();
    user.fill(&table, [1]);
    let before = user.connection.totals().operations[Kind::Read as usize].latencies.sum();
    let began = std::time::Instant::now();
    // The clock was read by the fill, long ago.
    until("a pause", || (began.elapsed() > Duration::from_millis(300)).then_some(()));
    let began = std::time::Instant::now();
    assert_eq!(user.look(&table, 1), Ok(10));
    let (took, reads) = (began.elapsed(), &user.connection.totals().operations[Kind::Read as usize]);
    assert_eq!(reads.latencies.count(), 1);
    let counted = Duration::from_nanos(reads.latencies.sum() - before);
    assert!(counted > Duration::ZERO && counted <= took, "{counted:?} of {took:?}");
}
