//! Node ids up to the highest: they stand in references, transaction ids and bitmaps.

use iclaustron::cluster::Options;
use iclaustron::conn::Operation;
use iclaustron::wire::transaction::{LockMode, WriteKind};

use crate::cluster::{self, Nodes};
use crate::kit::{ABORT, TestTable, User, number};
use crate::real::HIGHEST_NODE_ID;

node_test!(a_client_with_the_highest_node_id);
fn a_client_with_the_highest_node_id() {
    let table = TestTable::numbers("node_id");
    let highest = cluster::joined().configuration.api_nodes().max().unwrap();
    // A cluster that was running before, and embedded nodes, which have 200 ids for clients, may not go so far.
    let own_cluster = std::env::var_os("IC_TEST_CONNECTSTRING").is_none();
    assert!(!own_cluster || cluster::nodes() == Nodes::Embedded || highest == HIGHEST_NODE_ID);
    let joined = cluster::join(&Options { node_id: Some(highest), ..Options::default() });
    assert_eq!(joined.own_node, highest);
    let (definition, standing) = table.opened_by(&joined);
    let mut user = User::of(joined.clone());
    for key in 0..100u32 {
        let mut one = |operation| {
            let record = table.record.clone();
            let query = user
                .connection
                .create_query(definition.clone(), standing.clone(), record.clone(), Some(record), ())
                .unwrap();
            user.key_row(query)[table.at("k")].copy_from_slice(&key.to_le_bytes());
            user.row(query)[table.at("v")].copy_from_slice(&(key + 7).to_le_bytes());
            let transaction = user.start();
            user.define(query, transaction, operation);
            assert_eq!(user.commit_and_end(transaction), (0, true));
            assert_eq!(user.error(query), 0);
            number(&user.row(query)[table.at("v")])
        };
        one(Operation::Write(WriteKind::Insert, ABORT));
        assert_eq!(one(Operation::Read(LockMode::Committed)), key + 7);
        assert_eq!(one(Operation::Read(LockMode::Exclusive(ABORT))), key + 7);
    }
    assert!((0..100).all(|key| User::new().look(&table, key) == Ok(key + 7)));
    assert_eq!(user.connection.statistics().late_replies, 0);
    joined.disconnect();
}
