//! Transactions that get in each other's way: rows updated in opposite order, and a ledger whose sum must stay.
//!
//! `IC_TEST_LEDGER_SECONDS` says for how long money is moved (2).

use std::thread;
use std::time::{Duration, Instant};

use iclaustron::error::{is_temporary, ndb::ROLLED_BACK};
use iclaustron::wire::transaction::LockMode;

use crate::cluster;
use crate::kit::{ABORT, Random, TestTable, User, until};

const ACCOUNTS: u32 = 1000;
const THREADS: u64 = 4;
const LOCK_TIME_OUT: i32 = 266;

node_test!(two_clients_that_update_the_same_rows_in_opposite_order);
fn two_clients_that_update_the_same_rows_in_opposite_order() {
    let table = TestTable::numbers("ledger_deadlock");
    let mut users = [User::new(), User::new()];
    users[0].fill(&table, [1, 2]);
    // Nodes look for locks that took too long now and then; a busy machine may have them find both at once.
    let winner = (0..5).find_map(|_| deadlock(&table, &mut users)).expect("one wins, if not always");
    for key in [1, 2] {
        assert_eq!(users[0].look(&table, key), Ok(7 + winner), "all of one, nothing of the other");
    }
}

/// Has two transactions wait for each other. Which one was committed, if the other alone was given up.
fn deadlock(table: &TestTable, users: &mut [User; 2]) -> Option<u32> {
    let transactions = [0, 1].map(|at| users[at].start());
    for (at, user) in users.iter_mut().enumerate() {
        let query = user.update(table, transactions[at], 1 + at as u32, 7 + at as u32);
        user.send();
        assert_eq!(user.wait(query), 0);
    }
    let began = Instant::now();
    for (at, user) in users.iter_mut().enumerate() {
        // What began at the same time could end so too.
        thread::sleep(Duration::from_millis(400) * at as u32);
        user.update(table, transactions[at], 2 - at as u32, 7 + at as u32);
        user.commit(transactions[at]);
        user.send();
    }
    let outcomes = until("both ends", || {
        users.iter_mut().for_each(User::poll);
        let [one, two] = &mut *users;
        Some([one.outcome(transactions[0])?, two.outcome(transactions[1])?])
    });
    // The configured time is 1.2 s; the machine may be busy.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    match outcomes {
        [(0, true), (LOCK_TIME_OUT, false)] => Some(0),
        [(LOCK_TIME_OUT, false), (0, true)] => Some(1),
        [(LOCK_TIME_OUT, false), (LOCK_TIME_OUT, false)] => None,
        _ => panic!("{outcomes:?}"),
    }
}

/// Reads two accounts with locks, then moves money. Whether it was committed.
fn transfer(user: &mut User, table: &TestTable, accounts: [u32; 2], amount: u32) -> bool {
    let transaction = user.start();
    let mut queries =
        accounts.map(|key| user.read(table, transaction, key, LockMode::Exclusive(ABORT))).to_vec();
    user.run();
    let balances: Vec<_> = queries.iter().map(|&query| user.found(table, query)).collect();
    let outcome = match balances[..] {
        [Ok(from), Ok(to)] => {
            let amount = amount.min(from);
            queries.push(user.update(table, transaction, accounts[0], from - amount));
            queries.push(user.update(table, transaction, accounts[1], to + amount));
            user.commit_and_end(transaction)
        }
        _ => {
            user.connection.rollback(transaction).unwrap();
            user.end(transaction)
        }
    };
    user.connection.close(transaction).unwrap();
    for query in queries {
        let error = user.error(query);
        assert!(error == 0 || error == ROLLED_BACK || is_temporary(error), "{error}");
        user.free(query);
    }
    outcome.1
}

node_test!(a_ledger_keeps_its_sum);
fn a_ledger_keeps_its_sum() {
    let table = &TestTable::numbers("ledger_sum");
    User::new().fill(table, 0..ACCOUNTS);
    let total: u32 = (0..ACCOUNTS).map(|key| 10 * key).sum();
    let deadline =
        Instant::now() + Duration::from_secs(cluster::number("IC_TEST_LEDGER_SECONDS").unwrap_or(2));
    let nodes = cluster::nodes();
    let work = |seed| {
        let (mut user, mut random) = (User::new(), Random(seed));
        let mut moved = 0;
        while Instant::now() < deadline {
            let from = random.below(ACCOUNTS as usize) as u32;
            // Another account.
            let to = (from + 1 + random.below(ACCOUNTS as usize - 1) as u32) % ACCOUNTS;
            moved += transfer(&mut user, table, [from, to], random.below(100) as u32) as u32;
        }
        moved
    };
    let moved: Vec<u32> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|seed| scope.spawn(move || cluster::on(nodes, || work(seed)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(moved.iter().all(|&moved| moved > 0), "{moved:?}");
    let mut user = User::new();
    let sum: u32 = (0..ACCOUNTS).map(|key| user.look(table, key).unwrap()).sum();
    assert_eq!(sum, total);
}
