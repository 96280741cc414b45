//! Where rows are read: committed reads are answered by the node that has the row, whichever node
//! coordinates.

use iclaustron::conn::Operation;
use iclaustron::dict::client::Client;
use iclaustron::dict::table::NewTable;
use iclaustron::error::ndb::ROLLED_BACK;
use iclaustron::wire::transaction::LockMode;

use crate::cluster::{self, Nodes};
use crate::kit::{ABORT, IGNORE, Random, TestTable, User, numbers};

const KEYS: u32 = 200;
const NOT_FULLY_REPLICATED: i32 = 797;

node_test!(rows_come_from_every_node_to_every_coordinators_client);
fn rows_come_from_every_node_to_every_coordinators_client() {
    let table = TestTable::numbers("place_pairs");
    let mut user = User::new();
    user.fill(&table, 0..KEYS);
    let fragments = table.table.fragments.len() as u32;
    let mut pairs = std::collections::BTreeSet::new();
    for coordinator in 0..fragments {
        let reads: Vec<_> = (0..KEYS)
            .map(|key| {
                let transaction = user.start_at(&table, coordinator);
                let query = user.read(&table, transaction, key, LockMode::Committed);
                let owner = user.connection.hint_for_query(query).unwrap() - 1;
                pairs.insert((table.table.nodes_of(coordinator)[0], table.table.nodes_of(owner)[0]));
                user.commit(transaction);
                user.connection.close(transaction).unwrap();
                query
            })
            .collect();
        user.run();
        for (key, query) in reads.into_iter().enumerate() {
            assert_eq!(user.found(&table, query), Ok(10 * key as u32));
        }
    }
    let nodes = user.connection.cluster().nodes.len();
    assert_eq!(pairs.len(), nodes * nodes, "every pair of nodes: {pairs:?}");
}

node_test!(locking_reads_and_writes_through_any_coordinator);
fn locking_reads_and_writes_through_any_coordinator() {
    let table = TestTable::numbers("place_locks");
    let mut user = User::new();
    user.fill(&table, 0..40);
    for coordinator in 0..table.table.fragments.len() as u32 {
        for key in 0..40 {
            let transaction = user.start_at(&table, coordinator);
            let query = user.read(&table, transaction, key, LockMode::Exclusive(ABORT));
            user.run();
            assert_eq!(user.found(&table, query), Ok(10 * key + coordinator));
            user.update(&table, transaction, key, 10 * key + coordinator + 1);
            assert_eq!(user.commit_and_end(transaction), (0, true));
        }
    }
}

node_test!(missing_rows_among_many_committed_reads_in_flight);
fn missing_rows_among_many_committed_reads_in_flight() {
    let table = TestTable::numbers("place_missing");
    let mut user = User::new();
    user.fill(&table, (0..1000).step_by(2));
    let mut random = Random(1);
    for operations_each in [1, 3, 10] {
        let mut expected = Vec::new();
        for _ in 0..300 {
            // Hinted, unhinted, and hinted wrongly.
            let hint = random.below(table.table.fragments.len() + 1) as u32;
            let transaction = user.connection.start_transaction(hint, Some(&table.table)).unwrap();
            // Without a commit the reads are rolled back before they are sent.
            let commit = random.below(4) > 0;
            for _ in 0..operations_each {
                let key = random.below(1000) as u32;
                let query = user.read(&table, transaction, key, LockMode::Committed);
                let row = if key.is_multiple_of(2) { Ok(10 * key) } else { Err(626) };
                expected.push((query, if commit { row } else { Err(ROLLED_BACK) }));
            }
            if commit {
                user.commit(transaction);
            }
            user.connection.close(transaction).unwrap();
        }
        user.run();
        for (query, expected) in expected {
            assert_eq!(user.found(&table, query), expected);
        }
    }
    assert_eq!(user.connection.statistics().late_replies, 0);
}

node_test!(a_read_without_columns_tells_whether_the_row_is_there);
fn a_read_without_columns_tells_whether_the_row_is_there() {
    let table = TestTable::numbers("place_exists");
    let mut user = User::new();
    user.fill(&table, (0..100).step_by(3));
    let modes = [LockMode::Committed, LockMode::Simple, LockMode::Shared(IGNORE)];
    for mode in modes {
        let queries: Vec<_> = (0..100u32)
            .map(|key| {
                let query = user.query_with(&table, &table.record, None);
                user.key_row(query)[table.at("k")].copy_from_slice(&key.to_le_bytes());
                assert_eq!(user.row(query).len(), 0);
                let transaction = user.start();
                user.define(query, transaction, Operation::Read(mode));
                user.commit(transaction);
                query
            })
            .collect();
        user.run();
        let there: Vec<_> = (0..100).map(|key| if key % 3 == 0 { 0 } else { 626 }).collect();
        assert_eq!(user.errors(&queries), there, "{mode:?}");
    }
}

/// Writes and reads a table through every coordinator.
fn write_and_read(new: NewTable) {
    let table = TestTable::create(new);
    let mut user = User::new();
    user.fill(&table, 0..KEYS);
    for coordinator in 0..table.table.fragments.len() as u32 {
        for mode in [LockMode::Committed, LockMode::Shared(ABORT)] {
            let reads: Vec<_> = (0..KEYS + 10)
                .map(|key| {
                    let transaction = user.start_at(&table, coordinator);
                    let query = user.read(&table, transaction, key, mode);
                    user.commit(transaction);
                    query
                })
                .collect();
            user.run();
            for (key, query) in (0..).zip(reads) {
                let expected = if key < KEYS { Ok(10 * key) } else { Err(626) };
                assert_eq!(user.found(&table, query), expected, "{mode:?}");
            }
        }
        let transaction = user.start_at(&table, coordinator);
        user.update(&table, transaction, coordinator, 7);
        assert_eq!(user.commit_and_end(transaction), (0, true));
        assert_eq!(user.look(&table, coordinator), Ok(7), "at once, whichever replica answers");
        user.fill(&table, [coordinator]);
    }
}

node_test!(a_table_whose_backups_are_read);
fn a_table_whose_backups_are_read() {
    write_and_read(NewTable { read_backup: true, ..numbers("place_read_backup") });
}

node_test!(a_fully_replicated_table);
fn a_fully_replicated_table() {
    let new = NewTable { fully_replicated: true, ..numbers("place_fully_replicated") };
    let joined = cluster::joined();
    if cluster::nodes() == Nodes::Embedded && joined.nodes.len() > joined.configuration.replicas() as usize {
        // Differs: embedded nodes do not copy rows from one node group to the others.
        let refused = Client::new(joined).unwrap().create(&new).unwrap_err();
        assert_eq!(refused.code, NOT_FULLY_REPLICATED);
        return;
    }
    write_and_read(new);
}

node_test!(a_table_in_memory_only);
fn a_table_in_memory_only() {
    write_and_read(NewTable { logged: false, ..numbers("place_unlogged") });
}
