//! Single operations: every kind of write, every way to read, and what a failed one does to its transaction.

use iclaustron::conn::transaction::Phase;
use iclaustron::error::own;
use iclaustron::wire::transaction::{AbortOption, LockMode, WriteKind};

use crate::kit::{ABORT, IGNORE, TestTable, User};

const MODES: [LockMode; 6] = [
    LockMode::Committed,
    LockMode::Simple,
    LockMode::Shared(ABORT),
    LockMode::Shared(IGNORE),
    LockMode::Exclusive(ABORT),
    LockMode::Exclusive(IGNORE),
];

node_test!(every_kind_of_write_does_what_it_says);
fn every_kind_of_write_does_what_it_says() {
    let table = TestTable::numbers("op_writes");
    let mut user = User::new();
    let mut one = |kind, key, value| {
        let transaction = user.start();
        let query = user.write(&table, transaction, (kind, ABORT), key, value);
        let end = user.commit_and_end(transaction);
        (end, user.error(query), user.look(&table, key))
    };
    let committed = (0, true);
    assert_eq!(one(WriteKind::Insert, 1, 100), (committed, 0, Ok(100)));
    assert_eq!(one(WriteKind::Update, 1, 101), (committed, 0, Ok(101)));
    assert_eq!(one(WriteKind::Write, 1, 102), (committed, 0, Ok(102)));
    assert_eq!(one(WriteKind::Write, 2, 200), (committed, 0, Ok(200)));
    assert_eq!(one(WriteKind::Delete, 1, 0), (committed, 0, Err(626)));
    assert_eq!(one(WriteKind::Insert, 1, 103), (committed, 0, Ok(103)));
    assert_eq!(one(WriteKind::Insert, u32::MAX, u32::MAX), (committed, 0, Ok(u32::MAX)));
    assert_eq!(one(WriteKind::Insert, 0, 0), (committed, 0, Ok(0)));
    assert_eq!(one(WriteKind::Insert, 2, 201), ((630, false), 630, Ok(200)));
    assert_eq!(one(WriteKind::Update, 3, 300), ((626, false), 626, Err(626)));
    assert_eq!(one(WriteKind::Delete, 3, 300), ((626, false), 626, Err(626)));
}

node_test!(every_way_to_read_gives_the_row);
fn every_way_to_read_gives_the_row() {
    let table = TestTable::numbers("op_reads");
    let mut user = User::new();
    user.fill(&table, [7]);
    for mode in MODES {
        for commit_rides in [true, false] {
            let transaction = user.start();
            let query = user.read(&table, transaction, 7, mode);
            if !commit_rides {
                user.run();
                assert_eq!(user.found(&table, query), Ok(70), "{mode:?}");
            }
            assert_eq!(user.commit_and_end(transaction), (0, true), "{mode:?}");
            assert_eq!(user.found(&table, query), Ok(70), "{mode:?}");
        }
    }
}

node_test!(a_missing_row_is_626_to_every_way_to_read);
fn a_missing_row_is_626_to_every_way_to_read() {
    let table = TestTable::numbers("op_missing");
    let mut user = User::new();
    for mode in MODES {
        let aborts = matches!(mode, LockMode::Shared(o) | LockMode::Exclusive(o) if o == ABORT);
        for commit_rides in [true, false] {
            let transaction = user.start();
            let query = user.read(&table, transaction, 7, mode);
            if !commit_rides {
                user.run();
                assert_eq!(user.error(query), 626, "{mode:?}");
                let open = user.outcome(transaction);
                assert_eq!(open, aborts.then_some((626, false)), "{mode:?}");
                if aborts {
                    assert_eq!(user.connection.commit(transaction), Err(own::TRANSACTION_NOT_OPEN));
                    continue;
                }
            }
            let end = user.commit_and_end(transaction);
            assert_eq!(end, if aborts { (626, false) } else { (0, true) }, "{mode:?}");
            assert_eq!(user.error(query), 626, "{mode:?}");
        }
    }
}

/// In one transaction an insert, the given write, an insert: the three errors, how the transaction ended, and
/// which of the two inserted rows are there.
fn between_inserts(
    user: &mut User,
    table: &TestTable,
    kind: WriteKind,
    option: AbortOption,
    commit_rides: bool,
) -> (Vec<i32>, (i32, bool), [bool; 2]) {
    let transaction = user.start();
    let queries = [
        user.write(table, transaction, (WriteKind::Insert, option), 10, 1),
        user.write(table, transaction, (kind, option), if kind == WriteKind::Insert { 1 } else { 2 }, 1),
        user.write(table, transaction, (WriteKind::Insert, option), 11, 1),
    ];
    if !commit_rides {
        user.run();
    }
    let end = match user.outcome(transaction) {
        Some(end) => end,
        None => user.commit_and_end(transaction),
    };
    let there = [10, 11].map(|key| user.look(table, key).is_ok());
    let clean_up = user.start();
    for key in [10, 11] {
        user.write(table, clean_up, (WriteKind::Delete, IGNORE), key, 0);
    }
    user.commit_and_end(clean_up);
    (user.errors(&queries), end, there)
}

node_test!(abort_on_error_fails_all_and_ignore_error_only_the_one);
fn abort_on_error_fails_all_and_ignore_error_only_the_one() {
    let table = TestTable::numbers("op_abort_options");
    let mut user = User::new();
    user.fill(&table, [1]);
    for (kind, code) in [(WriteKind::Insert, 630), (WriteKind::Update, 626), (WriteKind::Delete, 626)] {
        let ignored = between_inserts(&mut user, &table, kind, IGNORE, true);
        assert_eq!(ignored, (vec![0, code, 0], (0, true), [true, true]), "{kind:?}");
        let ignored = between_inserts(&mut user, &table, kind, IGNORE, false);
        assert_eq!(ignored, (vec![0, code, 0], (0, true), [true, true]), "{kind:?}");
        let aborted = between_inserts(&mut user, &table, kind, ABORT, true);
        assert_eq!(aborted, (vec![code; 3], (code, false), [false, false]), "{kind:?}");
        // Without a riding commit the first insert may have been confirmed before.
        let (errors, end, there) = between_inserts(&mut user, &table, kind, ABORT, false);
        assert_eq!((errors[1], end, there), (code, (code, false), [false, false]), "{kind:?}");
        assert!(errors.iter().all(|&error| error == 0 || error == code), "{kind:?}: {errors:?}");
    }
    assert_eq!(user.look(&table, 1), Ok(10), "the row that was there");
}

node_test!(nothing_can_be_defined_in_a_transaction_that_failed);
fn nothing_can_be_defined_in_a_transaction_that_failed() {
    let table = TestTable::numbers("op_failed");
    let mut user = User::new();
    user.fill(&table, [1]);
    let transaction = user.start();
    let query = user.insert(&table, transaction, 1, 2);
    user.run();
    assert_eq!(user.error(query), 630);
    assert_eq!(user.outcome(transaction), Some((630, false)));
    let more = user.query(&table);
    let write = iclaustron::conn::Operation::Write(WriteKind::Write, ABORT);
    assert_eq!(user.connection.define(more, transaction, write, true, ()), Err(own::TRANSACTION_NOT_OPEN));
    assert_eq!(user.connection.rollback(transaction), Err(own::TRANSACTION_NOT_OPEN));
    assert_eq!(user.connection.close(transaction), Ok(()));
    assert_eq!(user.connection.transaction_error(transaction), Err(own::STALE_TRANSACTION));
    let again = user.start();
    user.define(more, again, write);
    assert_eq!(user.commit_and_end(again), (0, true), "the query serves on");
}

node_test!(a_transaction_sees_its_own_uncommitted_rows);
fn a_transaction_sees_its_own_uncommitted_rows() {
    let table = TestTable::numbers("op_own_writes");
    let (mut user, mut other) = (User::new(), User::new());
    user.fill(&table, [1, 2]);
    let transaction = user.start();
    user.insert(&table, transaction, 3, 33);
    user.update(&table, transaction, 1, 11);
    user.write(&table, transaction, (WriteKind::Delete, ABORT), 2, 0);
    user.run();
    for mode in [LockMode::Simple, LockMode::Shared(IGNORE), LockMode::Exclusive(IGNORE)] {
        let reads = [1, 2, 3].map(|key| user.read(&table, transaction, key, mode));
        user.run();
        let seen = reads.map(|query| user.found(&table, query));
        assert_eq!(seen, [Ok(11), Err(626), Ok(33)], "{mode:?}");
        let of_other = [1, 2, 3].map(|key| other.look(&table, key));
        assert_eq!(of_other, [Ok(10), Ok(20), Err(626)], "others see what is committed");
    }
    assert_eq!(user.connection.transaction_state(transaction), Ok((Phase::Open, false)));
    assert_eq!(user.commit_and_end(transaction), (0, true));
    assert_eq!([1, 2, 3].map(|key| other.look(&table, key)), [Ok(11), Err(626), Ok(33)]);
}
