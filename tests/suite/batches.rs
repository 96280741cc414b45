//! Several operations of a transaction, several transactions in a send, and when their completions may come.

use iclaustron::conn::transaction::Phase;
use iclaustron::wire::transaction::{LockMode, WriteKind};

use crate::kit::{ABORT, TestTable, User, until};

node_test!(a_batch_of_ten_is_confirmed_in_pieces_and_committed_later);
fn a_batch_of_ten_is_confirmed_in_pieces_and_committed_later() {
    let table = TestTable::numbers("batch_ten");
    let (mut user, mut other) = (User::new(), User::new());
    // All at one node, with coordinator records seized before.
    let at = |user: &mut User| user.start_at(&table, 0);
    let first = at(&mut user);
    assert_eq!(user.commit_and_end(first), (0, true));
    until("the records seized ahead", || {
        user.poll();
        (user.connection.statistics().signals >= 4).then_some(())
    });
    let before = user.connection.statistics().signals;
    let transaction = at(&mut user);
    let queries: Vec<_> = (0..10).map(|key| user.insert(&table, transaction, key, key + 500)).collect();
    user.run();
    assert_eq!(user.connection.statistics().signals - before, 4, "3 + 3 + 3 + 1 confirmations");
    assert_eq!(user.errors(&queries), [0; 10]);
    assert_eq!(user.connection.transaction_state(transaction), Ok((Phase::Open, false)));
    assert!((0..10).all(|key| other.look(&table, key) == Err(626)), "not before the commit");
    assert_eq!(user.commit_and_end(transaction), (0, true));
    assert!((0..10).all(|key| other.look(&table, key) == Ok(key + 500)));
    assert_eq!(user.done.len(), 10);
}

node_test!(many_transactions_in_one_send);
fn many_transactions_in_one_send() {
    let table = TestTable::numbers("batch_sends");
    let mut user = User::new();
    for count in [10u32, 100] {
        let keys = 1000 * count..1000 * count + count;
        let sends = user.connection.statistics().sends;
        let transactions: Vec<_> = keys
            .clone()
            .map(|key| {
                let transaction = user.start();
                let query = user.insert(&table, transaction, key, key ^ 0xffff);
                user.commit(transaction);
                (transaction, query)
            })
            .collect();
        assert_eq!(user.connection.statistics().sends, sends, "nothing goes out before the send");
        user.run();
        for (transaction, query) in transactions {
            assert_eq!((user.error(query), user.outcome(transaction)), (0, Some((0, true))));
        }
        assert!(keys.clone().all(|key| user.look(&table, key) == Ok(key ^ 0xffff)));
    }
}

node_test!(no_query_completes_before_the_outcome_of_a_riding_commit);
fn no_query_completes_before_the_outcome_of_a_riding_commit() {
    let table = TestTable::numbers("batch_riding");
    let (mut user, mut holder) = (User::new(), User::new());
    user.fill(&table, 0..10);
    let hold = holder.start();
    let held = holder.read(&table, hold, 9, LockMode::Exclusive(ABORT));
    holder.run();
    assert_eq!(holder.found(&table, held), Ok(90));
    user.done.clear();
    let before = user.connection.statistics().signals;
    let transaction = user.start();
    let queries: Vec<_> = (0..10).map(|key| user.update(&table, transaction, key, key + 1)).collect();
    user.commit(transaction);
    user.send();
    // Nine of them are confirmed in three pieces while the tenth waits for its lock.
    until("three confirmations", || {
        user.poll();
        (user.connection.statistics().signals - before >= 3).then_some(())
    });
    assert_eq!((user.done.len(), user.connection.in_flight()), (0, 10));
    assert_eq!(user.connection.transaction_state(transaction), Ok((Phase::ExecutingCommit, false)));
    holder.connection.rollback(hold).unwrap();
    assert_eq!(holder.end(hold), (0, false));
    user.run();
    assert_eq!(user.done, queries, "in order of definition");
    assert_eq!((user.errors(&queries), user.outcome(transaction)), (vec![0; 10], Some((0, true))));
    assert!((0..10).all(|key| user.look(&table, key) == Ok(key + 1)));
}

node_test!(a_rollback_undoes_good_pieces);
fn a_rollback_undoes_good_pieces() {
    let table = TestTable::numbers("batch_undone");
    let mut user = User::new();
    user.fill(&table, [6]);
    let transaction = user.start();
    let queries: Vec<_> = (1..8).map(|key| user.insert(&table, transaction, key, 0)).collect();
    user.commit(transaction);
    user.run();
    assert_eq!(user.errors(&queries), [630; 7]);
    assert_eq!(user.outcome(transaction), Some((630, false)));
    let found: Vec<_> = (1..8).map(|key| user.look(&table, key)).collect();
    assert_eq!(found, [Err(626), Err(626), Err(626), Err(626), Err(626), Ok(60), Err(626)]);
}

node_test!(a_time_out_after_good_pieces_fails_all_of_a_riding_commit);
fn a_time_out_after_good_pieces_fails_all_of_a_riding_commit() {
    let table = TestTable::numbers("batch_late_failure");
    let (mut user, mut holder) = (User::new(), User::new());
    user.fill(&table, 0..7);
    let hold = holder.start();
    holder.read(&table, hold, 6, LockMode::Exclusive(ABORT));
    holder.run();
    let before = user.connection.statistics().signals;
    let transaction = user.start();
    let queries: Vec<_> = (0..7).map(|key| user.update(&table, transaction, key, 1)).collect();
    user.commit(transaction);
    user.run();
    assert!(user.connection.statistics().signals - before >= 3, "two good pieces, then the rollback");
    assert_eq!((user.errors(&queries), user.outcome(transaction)), (vec![266; 7], Some((266, false))));
    holder.connection.rollback(hold).unwrap();
    assert_eq!(holder.end(hold), (0, false));
    assert!((0..7).all(|key| user.look(&table, key) == Ok(10 * key)));
}

node_test!(batches_of_one_transaction_follow_each_other);
fn batches_of_one_transaction_follow_each_other() {
    let table = TestTable::numbers("batch_several");
    let mut user = User::new();
    let transaction = user.start();
    let mut queries = Vec::new();
    for batch in 0..5 {
        queries.extend((0..4).map(|key| {
            let kind = if batch == 0 { WriteKind::Insert } else { WriteKind::Update };
            user.write(&table, transaction, (kind, ABORT), key, 100 * batch + key)
        }));
        user.run();
        assert_eq!(user.done.len(), queries.len());
    }
    assert_eq!(user.errors(&queries), [0; 20]);
    assert_eq!(user.commit_and_end(transaction), (0, true));
    assert!((0..4).all(|key| user.look(&table, key) == Ok(400 + key)));
}

node_test!(a_batch_defined_while_another_is_out_is_held_back_and_done_in_order);
fn a_batch_defined_while_another_is_out_is_held_back_and_done_in_order() {
    let table = TestTable::numbers("batch_held_back");
    let (mut user, mut holder) = (User::new(), User::new());
    user.fill(&table, [1]);
    let hold = holder.start();
    holder.read(&table, hold, 1, LockMode::Exclusive(ABORT));
    holder.run();
    user.warm_up(1);
    user.done.clear();
    let transaction = user.start();
    let mut queries = vec![user.update(&table, transaction, 1, 111)];
    user.send();
    assert_eq!(user.connection.transaction_state(transaction), Ok((Phase::Executing, false)));
    // The first batch waits for the lock, so these wait here.
    queries.push(user.insert(&table, transaction, 2, 222));
    queries.push(user.update(&table, transaction, 1, 112));
    user.send();
    queries.push(user.read(&table, transaction, 1, LockMode::Shared(ABORT)));
    user.send();
    for _ in 0..20 {
        user.poll();
    }
    assert_eq!((user.done.len(), user.connection.in_flight()), (0, 4));
    holder.connection.rollback(hold).unwrap();
    holder.send();
    user.run();
    assert_eq!(user.done.first(), queries.first(), "the batch that was out completes first");
    assert_eq!((user.done.len(), user.errors(&queries)), (4, vec![0; 4]));
    assert_eq!(user.commit_and_end(transaction), (0, true));
    assert_eq!((user.look(&table, 1), user.look(&table, 2)), (Ok(112), Ok(222)));
}

node_test!(a_commit_asked_for_while_a_batch_is_out_follows_it);
fn a_commit_asked_for_while_a_batch_is_out_follows_it() {
    let table = TestTable::numbers("batch_commit_waits");
    let mut user = User::new();
    user.warm_up(2);
    for more in [false, true] {
        let transaction = user.start();
        let key = more as u32;
        let mut queries = vec![user.insert(&table, transaction, key, 5)];
        user.send();
        if more {
            queries.push(user.insert(&table, transaction, key + 10, 6));
        }
        user.commit(transaction);
        assert_eq!(user.end(transaction), (0, true));
        assert_eq!(user.connection.in_flight(), 0);
        assert!(user.errors(&queries).iter().all(|&error| error == 0));
        assert_eq!(user.look(&table, key), Ok(5));
        assert_eq!(user.look(&table, key + 10), if more { Ok(6) } else { Err(626) });
    }
}

node_test!(start_transaction_never_waits);
fn start_transaction_never_waits() {
    let table = TestTable::numbers("batch_starts");
    let mut user = User::new();
    // A fresh connection has no coordinator record; five hundred are more than it seizes ahead.
    let transactions: Vec<_> = (0..500)
        .map(|key| {
            let transaction = user.start();
            let query = user.insert(&table, transaction, key, key + 1);
            user.commit(transaction);
            (transaction, query)
        })
        .collect();
    assert_eq!(user.connection.statistics().pages, 0, "nothing was waited for");
    user.run();
    assert_eq!(user.done.len(), 500);
    for (transaction, query) in transactions {
        assert_eq!((user.error(query), user.outcome(transaction)), (0, Some((0, true))));
    }
    assert!((0..500).step_by(7).all(|key| user.look(&table, key) == Ok(key + 1)));
}
