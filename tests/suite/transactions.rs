//! How transactions end, and what that does to the rows of others.

use iclaustron::error::{self, ndb, own};
use iclaustron::wire::transaction::{LockMode, WriteKind};

use crate::kit::{ABORT, TestTable, User, until};

node_test!(transactions_that_never_sent_anything_end);
fn transactions_that_never_sent_anything_end() {
    let mut user = User::new();
    for _ in 0..3 {
        let transaction = user.start();
        assert_eq!(user.commit_and_end(transaction), (0, true), "a commit");
        let transaction = user.start();
        user.connection.rollback(transaction).unwrap();
        assert_eq!(user.end(transaction), (0, false), "a rollback");
        let transaction = user.start();
        user.connection.close(transaction).unwrap();
        assert_eq!(user.connection.transaction_state(transaction), Err(own::STALE_TRANSACTION));
    }
}

node_test!(a_rollback_of_what_was_defined_and_not_sent);
fn a_rollback_of_what_was_defined_and_not_sent() {
    let table = TestTable::numbers("tx_unsent");
    let mut user = User::new();
    let transaction = user.start();
    let query = user.insert(&table, transaction, 1, 1);
    user.connection.rollback(transaction).unwrap();
    assert_eq!(user.end(transaction), (0, false));
    assert_eq!((user.wait(query), user.done.len()), (ndb::ROLLED_BACK, 1));
    assert_eq!(user.look(&table, 1), Err(626));
}

node_test!(an_explicit_commit_with_nothing_left_to_send);
fn an_explicit_commit_with_nothing_left_to_send() {
    let table = TestTable::numbers("tx_explicit");
    let mut user = User::new();
    user.fill(&table, [1]);
    // After writes, after reads that lock, after reads that do not.
    let transaction = user.start();
    user.insert(&table, transaction, 2, 20);
    user.run();
    assert_eq!(user.commit_and_end(transaction), (0, true));
    assert_eq!(user.look(&table, 2), Ok(20));
    for mode in [LockMode::Committed, LockMode::Simple, LockMode::Shared(ABORT), LockMode::Exclusive(ABORT)] {
        let transaction = user.start();
        let reads = [1, 2].map(|key| user.read(&table, transaction, key, mode));
        user.run();
        assert_eq!(reads.map(|query| user.found(&table, query)), [Ok(10), Ok(20)]);
        assert_eq!(user.commit_and_end(transaction), (0, true), "{mode:?}");
        assert_eq!(user.connection.commit(transaction), Err(own::TRANSACTION_NOT_OPEN), "a second commit");
    }
}

node_test!(an_explicit_rollback_undoes_every_kind_of_write);
fn an_explicit_rollback_undoes_every_kind_of_write() {
    let table = TestTable::numbers("tx_rollback");
    let mut user = User::new();
    user.fill(&table, [1, 2, 3]);
    let transaction = user.start();
    user.update(&table, transaction, 1, 7);
    user.write(&table, transaction, (WriteKind::Delete, ABORT), 2, 0);
    user.write(&table, transaction, (WriteKind::Write, ABORT), 3, 7);
    user.insert(&table, transaction, 4, 7);
    user.run();
    user.connection.rollback(transaction).unwrap();
    assert_eq!(user.end(transaction), (0, false));
    assert_eq!([1, 2, 3, 4].map(|key| user.look(&table, key)), [Ok(10), Ok(20), Ok(30), Err(626)]);
}

node_test!(a_rollback_with_operations_out_completes_each_once);
fn a_rollback_with_operations_out_completes_each_once() {
    let table = TestTable::numbers("tx_rollback_out");
    let mut user = User::new();
    for round in 0..20 {
        user.done.clear();
        let transaction = user.start();
        let mut queries: Vec<_> = (0..8).map(|key| user.insert(&table, transaction, key, round)).collect();
        user.send();
        // Held back behind the batch that is out.
        queries.extend((8..10).map(|key| user.insert(&table, transaction, key, round)));
        user.connection.rollback(transaction).unwrap();
        assert_eq!(user.end(transaction), (0, false));
        user.run();
        let mut done = user.done.clone();
        done.sort_unstable();
        let mut defined = queries.clone();
        defined.sort_unstable();
        assert_eq!(done, defined);
        assert_eq!(user.errors(&queries), [ndb::ROLLED_BACK; 10]);
    }
    assert!((0..10).all(|key| user.look(&table, key) == Err(626)));
    assert_eq!(user.connection.in_flight(), 0);
}

node_test!(closing_an_open_transaction_frees_its_locks);
fn closing_an_open_transaction_frees_its_locks() {
    let table = TestTable::numbers("tx_close");
    let (mut user, mut other) = (User::new(), User::new());
    user.fill(&table, [1]);
    let transaction = user.start();
    user.update(&table, transaction, 1, 99);
    user.run();
    user.connection.close(transaction).unwrap();
    assert_eq!(user.connection.commit(transaction), Err(own::STALE_TRANSACTION), "stale at once");
    user.send();
    let wanting = other.start();
    let read = other.read(&table, wanting, 1, LockMode::Exclusive(ABORT));
    other.send();
    assert_eq!(other.wait(read), 0);
    assert_eq!(other.found(&table, read), Ok(10), "rolled back");
    assert_eq!(other.commit_and_end(wanting), (0, true));
}

node_test!(a_commit_that_was_asked_for_is_not_taken_back);
fn a_commit_that_was_asked_for_is_not_taken_back() {
    let table = TestTable::numbers("tx_close_asked");
    let mut user = User::new();
    // First without a coordinator record, then with one, then behind a batch that is out.
    for (key, out) in [(0, false), (1, false), (2, true)] {
        let transaction = user.start();
        let mut queries = vec![user.insert(&table, transaction, key, 5)];
        if out {
            user.send();
            queries.push(user.insert(&table, transaction, key + 10, 5));
        }
        user.commit(transaction);
        assert_eq!(user.connection.rollback(transaction), Err(own::TRANSACTION_NOT_OPEN));
        user.connection.close(transaction).unwrap();
        assert_eq!(user.connection.transaction_error(transaction), Err(own::STALE_TRANSACTION));
        user.run();
        assert!(user.errors(&queries).iter().all(|&error| error == 0), "{:?}", user.errors(&queries));
        until("the commit", || {
            user.poll();
            (user.look(&table, key) == Ok(5)).then_some(())
        });
    }
    assert_eq!(user.look(&table, 12), Ok(5));
}

node_test!(closing_while_the_commit_is_under_way_leaves_it_be);
fn closing_while_the_commit_is_under_way_leaves_it_be() {
    let table = TestTable::numbers("tx_close_commit");
    let mut user = User::new();
    let transaction = user.start();
    let query = user.insert(&table, transaction, 1, 5);
    user.commit(transaction);
    user.send();
    user.connection.close(transaction).unwrap();
    assert_eq!(user.wait(query), 0);
    assert_eq!(user.look(&table, 1), Ok(5));
}

node_test!(of_two_writers_the_second_times_out_and_the_first_commits);
fn of_two_writers_the_second_times_out_and_the_first_commits() {
    let table = TestTable::numbers("tx_conflict");
    let (mut first, mut second) = (User::new(), User::new());
    first.fill(&table, [1]);
    let holding = first.start();
    let written = first.update(&table, holding, 1, 1);
    first.run();
    assert_eq!(first.error(written), 0);
    let waiting = second.start();
    let refused = second.update(&table, waiting, 1, 2);
    second.send();
    assert_eq!(second.wait(refused), 266);
    assert_eq!(second.outcome(waiting), Some((266, false)));
    assert!(error::is_temporary(266));
    assert_eq!(first.commit_and_end(holding), (0, true));
    assert_eq!(second.look(&table, 1), Ok(1));
}

node_test!(a_writer_that_waits_gets_the_lock_when_it_is_free);
fn a_writer_that_waits_gets_the_lock_when_it_is_free() {
    let table = TestTable::numbers("tx_queue");
    let (mut first, mut second) = (User::new(), User::new());
    first.fill(&table, [1]);
    let holding = first.start();
    first.update(&table, holding, 1, 1);
    first.run();
    let waiting = second.start();
    let query = second.read(&table, waiting, 1, LockMode::Exclusive(ABORT));
    second.send();
    second.poll();
    assert_eq!(second.done.len(), 0);
    assert_eq!(first.commit_and_end(holding), (0, true));
    assert_eq!(second.wait(query), 0);
    assert_eq!(second.found(&table, query), Ok(1), "what the first has committed");
    let query = second.update(&table, waiting, 1, 2);
    assert_eq!(second.commit_and_end(waiting), (0, true));
    assert_eq!((second.error(query), first.look(&table, 1)), (0, Ok(2)));
}

node_test!(readers_that_share_do_not_wait_for_each_other);
fn readers_that_share_do_not_wait_for_each_other() {
    let table = TestTable::numbers("tx_share");
    let (mut first, mut second) = (User::new(), User::new());
    first.fill(&table, [1]);
    let (a, b) = (first.start(), second.start());
    let read = first.read(&table, a, 1, LockMode::Shared(ABORT));
    first.run();
    let also = second.read(&table, b, 1, LockMode::Shared(ABORT));
    second.run();
    assert_eq!((first.found(&table, read), second.found(&table, also)), (Ok(10), Ok(10)));
    let committed = first.look(&table, 1);
    assert_eq!(committed, Ok(10));
    assert_eq!((first.commit_and_end(a), second.commit_and_end(b)), ((0, true), (0, true)));
}

node_test!(a_failed_transaction_leaves_the_others_of_its_connection_alone);
fn a_failed_transaction_leaves_the_others_of_its_connection_alone() {
    let table = TestTable::numbers("tx_neighbours");
    let mut user = User::new();
    user.fill(&table, [50]);
    let all: Vec<_> = (0..100)
        .map(|key| {
            let transaction = user.start();
            let query = user.insert(&table, transaction, key, 1);
            user.commit(transaction);
            (transaction, query)
        })
        .collect();
    user.send();
    until("all outcomes", || {
        user.poll();
        all.iter().all(|&(transaction, _)| user.outcome(transaction).is_some()).then_some(())
    });
    for (key, &(transaction, query)) in all.iter().enumerate() {
        let (error, committed) = if key == 50 { (630, false) } else { (0, true) };
        assert_eq!((user.error(query), user.outcome(transaction)), (error, Some((error, committed))));
    }
}
