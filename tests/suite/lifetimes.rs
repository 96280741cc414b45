//! What is in flight when a connection is given up, or the cluster left.

use std::time::{Duration, Instant};

use iclaustron::cluster::Options;
use iclaustron::conn::{Connection, Operation};
use iclaustron::error::{ndb, own};
use iclaustron::wire::transaction::{LockMode, WriteKind};

use crate::cluster;
use crate::kit::{ABORT, TestTable, User};

node_test!(giving_up_a_connection_completes_each_operation_once);
fn giving_up_a_connection_completes_each_operation_once() {
    let table = TestTable::numbers("life_finish");
    for sent in [true, false] {
        let mut user = User::new();
        user.warm_up(100);
        let mut committing = Vec::new();
        let mut open = Vec::new();
        for key in 0..100 {
            let transaction = user.start();
            let query = user.write(&table, transaction, (WriteKind::Write, ABORT), key, sent as u32);
            if key % 2 == 0 {
                user.commit(transaction);
                committing.push(query);
            } else {
                open.push(query);
            }
        }
        if sent {
            user.send();
        }
        user.connection.finish(Duration::from_secs(30));
        user.take_callbacks();
        assert_eq!((user.done.len(), user.connection.in_flight()), (100, 0));
        assert!(
            user.errors(&open).iter().all(|&error| error == ndb::ROLLED_BACK),
            "{:?}",
            user.errors(&open)
        );
        let outcomes = user.errors(&committing);
        if sent {
            assert!(outcomes.iter().all(|&error| error == 0), "{outcomes:?}");
        }
        drop(user);
        let mut other = User::new();
        for (at, error) in outcomes.into_iter().enumerate() {
            let key = 2 * at as u32;
            match error {
                0 => assert_eq!(other.look(&table, key), Ok(sent as u32)),
                _ => assert!(error == ndb::NODE_FAILURE_ABORT || error == ndb::ROLLED_BACK, "{error}"),
            }
            assert_eq!(other.look(&table, key + 1), Err(626), "rolled back");
        }
        // The rows are free: nothing holds a lock any more.
        let transaction = other.start();
        let reads: Vec<_> = (0..100)
            .map(|key| other.read(&table, transaction, key, LockMode::Exclusive(crate::kit::IGNORE)))
            .collect();
        assert_eq!(other.commit_and_end(transaction), (0, true));
        assert!(other.errors(&reads).iter().all(|&error| error == 0 || error == 626));
    }
}

node_test!(leaving_the_cluster_completes_what_is_in_flight);
fn leaving_the_cluster_completes_what_is_in_flight() {
    let table = TestTable::numbers("life_disconnect");
    let joined = cluster::join(&Options::default());
    let (definition, standing) = table.opened_by(&joined);
    let mut user = User::of(joined.clone());
    user.warm_up(2);
    let mut holder = User::new();
    holder.fill(&table, [0]);
    let hold = holder.start();
    holder.read(&table, hold, 0, LockMode::Exclusive(ABORT));
    holder.run();
    let define = |user: &mut User, key: u32, commit: bool| {
        let record = table.record.clone();
        let query = user
            .connection
            .create_query(definition.clone(), standing.clone(), record.clone(), Some(record), ())
            .unwrap();
        user.key_row(query)[table.at("k")].copy_from_slice(&key.to_le_bytes());
        let transaction = user.start();
        user.define(query, transaction, Operation::Write(WriteKind::Write, ABORT));
        if commit {
            user.commit(transaction);
        }
        query
    };
    // Two that wait for a lock, so that no reply can come before the end; two that are not sent at all.
    let sent = [define(&mut user, 0, true), define(&mut user, 0, false)];
    user.send();
    let unsent = [define(&mut user, 1, true), define(&mut user, 2, false)];
    assert_eq!(user.connection.in_flight(), 4);
    let before = Instant::now();
    joined.disconnect();
    assert!(before.elapsed() < Duration::from_secs(20));
    user.connection.poll(Duration::from_secs(20)).unwrap();
    user.take_callbacks();
    assert_eq!((user.done.len(), user.connection.in_flight()), (4, 0));
    assert_eq!(user.error(sent[0]), ndb::UNKNOWN_RESULT, "its commit was sent");
    assert_eq!(user.error(sent[1]), ndb::NODE_FAILURE_ABORT);
    assert_eq!(user.errors(&unsent), [ndb::NODE_FAILURE_ABORT; 2], "nothing of them was sent");
    assert_eq!(user.connection.poll(Duration::from_secs(20)), Err(own::NOT_CONNECTED));
    assert!(Connection::<()>::new(joined.clone()).is_err());
    joined.disconnect();
    assert_eq!(holder.commit_and_end(hold), (0, true));
    assert_eq!(holder.look(&table, 2), Err(626));
}

node_test!(handles_of_other_connections_and_of_the_past_are_refused);
fn handles_of_other_connections_and_of_the_past_are_refused() {
    let table = TestTable::numbers("life_handles");
    let (mut user, mut other) = (User::new(), User::new());
    let (query, foreign) = (user.query(&table), other.query(&table));
    let (transaction, strange) = (user.start(), other.start());
    let read = Operation::Read(LockMode::Committed);
    let mut define = |query, transaction| user.connection.define(query, transaction, read, true, ());
    assert_eq!(define(foreign, transaction), Err(own::STALE_QUERY));
    assert_eq!(define(query, strange), Err(own::STALE_TRANSACTION));
    assert_eq!(define(0, transaction), Err(own::STALE_QUERY));
    assert_eq!(define(query, transaction), Ok(()));
    assert_eq!(define(query, transaction), Err(own::QUERY_NOT_IDLE));
    assert_eq!(user.connection.free_query(query), Err(own::QUERY_NOT_IDLE));
    assert!(matches!(user.connection.rows(query), Err(own::QUERY_NOT_IDLE)));
    assert_eq!(user.commit_and_end(transaction), (0, true));
    assert_eq!(user.error(query), 626);
    user.connection.free_query(query).unwrap();
    user.connection.close(transaction).unwrap();
    assert_eq!(user.connection.query_error(query), Err(own::STALE_QUERY));
    assert_eq!(user.connection.commit(transaction), Err(own::STALE_TRANSACTION));
    assert_eq!(user.connection.statistics().defined, 1);
}

node_test!(completions_without_a_callback_wait_on_the_executed_list);
fn completions_without_a_callback_wait_on_the_executed_list() {
    let table = TestTable::numbers("life_executed");
    let mut user = User::new();
    user.fill(&table, 0..5);
    user.done.clear();
    let transaction = user.start();
    let queries: Vec<_> = (0..6u32)
        .map(|key| {
            let query = user.query(&table);
            user.key_row(query)[table.at("k")].copy_from_slice(&key.to_le_bytes());
            let read = Operation::Read(LockMode::Shared(crate::kit::IGNORE));
            user.connection.define(query, transaction, read, key % 2 == 0, ()).unwrap();
            query
        })
        .collect();
    assert_eq!(user.commit_and_end(transaction), (0, true));
    // The rows come from several nodes: which is first is theirs to say.
    user.done.sort_unstable();
    assert_eq!(user.done, [queries[0], queries[2], queries[4]]);
    let mut executed: Vec<_> = std::iter::from_fn(|| user.connection.next_executed()).collect();
    executed.sort_unstable();
    assert_eq!(executed, [queries[1], queries[3], queries[5]]);
    assert_eq!(user.errors(&queries), [0, 0, 0, 0, 0, 626]);
    // One after the other: the oldest is taken first.
    for &query in queries.iter().rev() {
        let transaction = user.start();
        let read = Operation::Read(LockMode::Committed);
        user.connection.define(query, transaction, read, false, ()).unwrap();
        user.commit_and_end(transaction);
    }
    let executed: Vec<_> = std::iter::from_fn(|| user.connection.next_executed()).collect();
    assert!(executed.iter().eq(queries.iter().rev()), "oldest first");
}
