//! Multi-key reads: many keys, one completion.

use std::collections::HashMap;
use std::time::Duration;

use iclaustron::conn::multi_read::{Args, KeyState, Kind, Source};
use iclaustron::conn::{Completed, Operation};
use iclaustron::error::own;
use iclaustron::wire::transaction::{LockMode, WriteKind};

use crate::cluster;
use crate::kit::{ABORT, Random, TestTable, User, number, until};

const KEYS: u32 = 300;
const READ: Operation = Operation::Read(LockMode::Committed);

fn args(kind: Kind) -> Args<()> {
    Args { kind, limit: None, callback: false, token: () }
}

impl User {
    /// A query for a key, its row filled with what no row has.
    fn key_query(&mut self, table: &TestTable, key: u32) -> u64 {
        let query = self.query(table);
        self.set_key(table, query, key);
        query
    }

    fn set_key(&mut self, table: &TestTable, query: u64, key: u32) {
        let (k, v) = (table.at("k"), table.at("v"));
        self.key_row(query)[k].copy_from_slice(&key.to_le_bytes());
        self.row(query)[v].copy_from_slice(&u32::MAX.to_le_bytes());
    }

    fn executed(&mut self) -> u64 {
        until("a multi-key read", || {
            self.connection.send(true);
            self.poll();
            self.take_callbacks();
            self.connection.next_executed_multi_read()
        })
    }
}

node_test!(answers_are_right_in_order_and_come_once);
fn answers_are_right_in_order_and_come_once() {
    let table = TestTable::numbers("multi_trials");
    let mut user = User::new();
    // Every third key is missing.
    let there = |key: u32| !key.is_multiple_of(3);
    user.fill(&table, (0..KEYS).filter(|&key| there(key)));
    let seed = cluster::number("IC_TEST_SEED").unwrap_or_else(|| std::process::id() as u64);
    println!("IC_TEST_SEED={seed}");
    let mut random = Random(seed);
    // Of keys that are written meanwhile: the last value known to be committed, and the last one asked for.
    let mut committed: HashMap<u32, u32> = (0..KEYS).map(|key| (key, 10 * key)).collect();
    let mut asked = committed.clone();
    let queries: Vec<_> = (0..200).map(|_| user.key_query(&table, 0)).collect();
    for trial in 0..1000 {
        let keys: Vec<u32> = (0..1 + random.below(200)).map(|_| random.below(KEYS as usize) as u32).collect();
        let kind = if trial % 3 == 2 { Kind::Exists } else { Kind::Gather };
        let mut writes = Vec::new();
        let mut write = |user: &mut User, random: &mut Random| {
            let key = random.below(KEYS as usize) as u32;
            if !there(key) || writes.iter().any(|(written, _)| *written == key) {
                return;
            }
            let value = asked[&key] + 1;
            asked.insert(key, value);
            let transaction = user.start();
            let query = user.write(&table, transaction, (WriteKind::Update, ABORT), key, value);
            user.commit(transaction);
            user.connection.close(transaction).unwrap();
            writes.push((key, query));
        };
        (0..random.below(5)).for_each(|_| write(&mut user, &mut random));
        let before: Vec<u32> = keys.iter().map(|key| committed[key]).collect();
        let by_rows = trial % 2 == 1;
        let read = if by_rows {
            let rows = keys.iter().flat_map(|key| {
                let mut row = vec![0; table.record.row_size()];
                row[table.at("k")].copy_from_slice(&key.to_le_bytes());
                row
            });
            let rows: Vec<u8> = rows.collect();
            let record = &table.record;
            let source =
                Source { table: &table.table, standing: &table.standing, key: record, attr: Some(record) };
            user.connection.multi_read_rows(source, &rows, args(kind)).unwrap()
        } else {
            let queries = &queries[..keys.len()];
            keys.iter().zip(queries).for_each(|(&key, &query)| user.set_key(&table, query, key));
            user.connection.multi_read(queries, args(kind)).unwrap()
        };
        (0..random.below(5)).for_each(|_| write(&mut user, &mut random));
        assert_eq!(user.executed(), read);
        assert_eq!(user.connection.multi_read_error(read), Ok(0));
        assert!(user.connection.multi_read_is_complete(read).unwrap());
        assert_eq!(user.connection.next_executed_multi_read(), None, "it came once");
        let found = keys.iter().filter(|key| there(**key)).count() as u32;
        assert_eq!(user.connection.multi_read_found(read), Ok(found));
        for (at, key) in keys.iter().enumerate() {
            let state = user.connection.multi_read_key(read, at).unwrap();
            assert_eq!(state, if there(*key) { KeyState::Found } else { KeyState::Missing });
            if kind == Kind::Exists || !there(*key) {
                continue;
            }
            let value = table.at("v");
            let value = match by_rows {
                true => number(&user.connection.multi_read_row(read, at).unwrap().unwrap()[value]),
                false => number(&user.row(queries[at])[value]),
            };
            assert!((before[at]..=asked[key]).contains(&value), "key {key}: {value}, {}..", before[at]);
        }
        user.connection.close_multi_read(read).unwrap();
        assert_eq!(user.connection.multi_read_error(read), Err(own::STALE_QUERY));
        user.run();
        for (key, query) in writes {
            assert_eq!(user.error(query), 0);
            committed.insert(key, asked[&key]);
            user.free(query);
        }
    }
    assert_eq!(user.connection.statistics().late_replies, 0);
}

node_test!(a_spanning_read_in_the_middle_of_a_pipeline_waits_for_nothing);
fn a_spanning_read_in_the_middle_of_a_pipeline_waits_for_nothing() {
    let table = TestTable::numbers("multi_pairs");
    let mut user = User::new();
    user.fill(&table, 0..KEYS);
    let owner = |user: &User, key: u32| {
        let mut row = vec![0; table.record.row_size()];
        row[table.at("k")].copy_from_slice(&key.to_le_bytes());
        let hint = user.connection.hint_for_key(&table.table, &table.record, &row).unwrap();
        table.table.nodes_of(hint - 1)[0]
    };
    let mut keys: HashMap<u16, u32> = HashMap::new();
    keys.extend((0..KEYS).map(|key| (owner(&user, key), key)));
    assert_eq!(keys.len(), user.connection.cluster().nodes.len(), "every node owns some");
    user.warm_up(100);
    for (&a, &key_a) in &keys {
        for (&b, &key_b) in &keys {
            let before = user.connection.statistics();
            let single = |user: &mut User, key: u32| {
                let transaction = user.start();
                user.read(&table, transaction, key, LockMode::Committed);
                user.commit(transaction);
                user.connection.close(transaction).unwrap();
            };
            (0..20).for_each(|key| single(&mut user, key));
            let queries = [key_a, key_b].map(|key| user.key_query(&table, key));
            let read = user.connection.multi_read(&queries, args(Kind::Gather)).unwrap();
            (20..40).for_each(|key| single(&mut user, key));
            user.run();
            assert_eq!(user.executed(), read);
            let values = queries.map(|query| number(&user.row(query)[table.at("v")]));
            assert_eq!(values, [10 * key_a, 10 * key_b]);
            user.connection.close_multi_read(read).unwrap();
            let after = user.connection.statistics();
            let (fan_out, parts) = if a == b { (0, 1) } else { (1, 2) };
            assert_eq!(after.multikey_deferred - before.multikey_deferred, 0);
            assert_eq!(after.multikey_fanout - before.multikey_fanout, fan_out);
            assert_eq!(after.multikey_slotted - before.multikey_slotted, 1 - fan_out);
            assert_eq!(after.multikey_coordinator - before.multikey_coordinator, 0);
            assert_eq!(after.multikey_parts - before.multikey_parts, parts);
        }
    }
}

node_test!(duplicates_and_missing_keys);
fn duplicates_and_missing_keys() {
    let table = TestTable::numbers("multi_duplicates");
    let mut user = User::new();
    user.fill(&table, [1, 2]);
    let queries = [1, 1, 9, 2].map(|key| user.key_query(&table, key));
    let read = user.connection.multi_read(&queries, args(Kind::Gather)).unwrap();
    assert_eq!(user.executed(), read);
    let states = [0, 1, 2, 3].map(|at| user.connection.multi_read_key(read, at).unwrap());
    assert_eq!(states, [KeyState::Found, KeyState::Found, KeyState::Missing, KeyState::Found]);
    assert_eq!([0, 1, 3].map(|at| number(&user.row(queries[at])[table.at("v")])), [10, 10, 20]);
    assert_eq!(user.connection.multi_read_key(read, 4), Err(own::INVALID_ARGUMENT));
    user.connection.close_multi_read(read).unwrap();
    let exists = user.connection.multi_read(&queries[..2], args(Kind::Exists)).unwrap();
    assert_eq!(user.executed(), exists);
    assert_eq!(user.connection.multi_read_found(exists), Ok(2));
    assert_eq!(
        user.connection.multi_read_row(exists, 0),
        Err(own::QUERY_NOT_IDLE),
        "rows are in the queries"
    );
}

node_test!(a_multi_read_that_is_refused_leaves_everything_as_it_was);
fn a_multi_read_that_is_refused_leaves_everything_as_it_was() {
    let table = TestTable::numbers("multi_refused");
    let mut user = User::new();
    user.fill(&table, 0..4);
    let queries = [0, 1, 2].map(|key| user.key_query(&table, key));
    let twice = [queries[0], queries[1], queries[0]];
    assert_eq!(user.connection.multi_read(&twice, args(Kind::Gather)), Err(own::QUERY_NOT_IDLE));
    assert_eq!(user.connection.multi_read(&[], args(Kind::Gather)), Err(own::INVALID_ARGUMENT));
    assert_eq!(user.connection.multi_read(&[queries[0], 7], args(Kind::Gather)), Err(own::STALE_QUERY));
    let read = user.connection.multi_read(&queries, args(Kind::Gather)).unwrap();
    assert_eq!(user.connection.multi_read(&queries[1..2], args(Kind::Gather)), Err(own::QUERY_NOT_IDLE));
    assert_eq!(user.connection.free_query(queries[0]), Err(own::QUERY_NOT_IDLE));
    assert_eq!(user.connection.close_multi_read(read), Err(own::QUERY_NOT_IDLE), "it is out");
    let transaction = user.start();
    let defined = user.connection.define(queries[2], transaction, READ, true, ());
    assert_eq!(defined, Err(own::QUERY_NOT_IDLE));
    user.connection.close(transaction).unwrap();
    assert_eq!(user.executed(), read);
    // The queries are free, and the results stay.
    user.connection.free_query(queries[0]).unwrap();
    assert_eq!(user.connection.multi_read_key(read, 0), Ok(KeyState::Found));
    user.connection.close_multi_read(read).unwrap();
    assert_eq!(user.connection.close_multi_read(read), Err(own::STALE_QUERY));
    assert_eq!(user.connection.in_flight(), 0);
}

node_test!(a_callback_reads_on_with_the_same_queries);
fn a_callback_reads_on_with_the_same_queries() {
    let table = TestTable::numbers("multi_callbacks");
    let mut user = User::new();
    user.fill(&table, 0..50);
    let queries: Vec<_> = (0..50).map(|key| user.key_query(&table, key)).collect();
    let with_callback = Args { callback: true, ..args(Kind::Gather) };
    let first = user.connection.multi_read(&queries, with_callback).unwrap();
    let mut seen = Vec::new();
    until("the callbacks", || {
        user.connection.send(true);
        user.connection.poll(Duration::from_millis(2)).unwrap();
        while let Some(completion) = user.connection.next_callback() {
            if let Completed::MultiRead(read) = completion.completed {
                assert_eq!(user.connection.multi_read_found(read), Ok(50));
                seen.push(read);
                if seen.len() < 20 {
                    user.connection.multi_read(&queries, with_callback).unwrap();
                }
            }
            user.connection.callback_done(completion.completed);
        }
        (seen.len() == 20).then_some(())
    });
    assert_eq!(seen[0], first);
    assert_eq!(user.connection.multi_read_error(first), Err(own::STALE_QUERY), "given up after its callback");
    assert_eq!(user.connection.in_flight(), 0);
}
