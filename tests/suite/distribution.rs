//! The hint for a key is where the data nodes have put its row, for every shape of key; and where the
//! library cannot know, it gives no hint. The nodes are asked, with a request of the wire's own, for the
//! fragment that each row lies in.

use std::num::NonZeroU32;

use iclaustron::cluster::port::Port;
use iclaustron::conn::Operation;
use iclaustron::dict::table::{NewColumn, NewTable};
use iclaustron::link::page::{Content, for_each_signal};
use iclaustron::wire::attribute::{self, Attributes, pseudo};
use iclaustron::wire::block::{DBTC, block_of, reference};
use iclaustron::wire::column::ColumnType;
use iclaustron::wire::dictionary::Partitioning;
use iclaustron::wire::gsn;
use iclaustron::wire::transaction::{
    self as signals, KeyConf, LockMode, RequestInfo, SeizeConf, WriteKind, key_request,
};

use crate::cluster;
use crate::kit::{ABORT, DATABASE, Random, TestTable, User, key_column, until};
use crate::values::{column_of, fill_row, value};

/// Rows per shape of key.
const ROWS: usize = 60;
/// So many fragments that no hint is right by luck.
const FRAGMENTS: NonZeroU32 = NonZeroU32::new(16).unwrap();
/// The even numbers by which replies name our one record and operation.
const CLIENT: u32 = 2;
const OPERATION: u32 = 4;

/// Reads the pseudo column FRAGMENT of rows, which no record can hold: on a port of its own, with a
/// coordinator record of its own.
struct Fragments {
    port: Port,
    node: usize,
    connect: u32,
    coordinator: u16,
    transid: [u32; 2],
}

impl Fragments {
    fn new(node: usize) -> Fragments {
        let cluster = cluster::joined();
        let port = cluster.ports.open().unwrap();
        let block = port.block();
        let transid = [0, (block as u32 & 0xfff) << 20 | (cluster.own_node as u32) << 8];
        let mut fragments = Fragments { port, node, connect: 0, coordinator: 0, transid };
        let mut out = Vec::new();
        signals::seize(&mut out, DBTC, block, CLIENT, reference(block, cluster.own_node), 0);
        fragments.send(&out);
        let seized = fragments.wait(|number, _, data| match number {
            gsn::TCSEIZECONF => SeizeConf::decode(data),
            _ => None,
        });
        fragments.connect = seized.connect;
        fragments.coordinator = block_of(seized.reference);
        fragments
    }

    fn send(&self, words: &[u32]) {
        let node = &cluster::joined().nodes[self.node];
        node.sender.send(node.usable().unwrap(), words, None).unwrap();
    }

    /// Waits for the signal that `take` makes something of: its number, its attributes, and its data.
    fn wait<T>(&mut self, mut take: impl FnMut(u16, &[u32], &[u32]) -> Option<T>) -> T {
        let block = self.port.block();
        until("a reply on the port", || {
            let mut pages = Vec::new();
            let moment = std::time::Instant::now() + std::time::Duration::from_millis(5);
            self.port.take(Some(moment), &mut pages);
            let mut found = None;
            for page in &pages {
                let Content::Signals(words) = &page.content else { panic!("the link was lost") };
                for_each_signal(
                    words,
                    |receiver, _| receiver == block,
                    |signal| {
                        let attributes = signals::row_of(&signal).map_or(&[][..], |row| row.attributes);
                        let taken = take(signal.header.gsn, attributes, signal.data);
                        found = found.take().or(taken);
                    },
                )
                .unwrap();
            }
            found
        })
    }

    /// The fragment of the row with this key; none if there is no such row.
    fn of(&mut self, table: &TestTable, key: &[u32]) -> Option<u32> {
        let info = RequestInfo::read(LockMode::Committed).start().execute_and_commit();
        let (id, version) = (table.table.id.number(), table.table.version);
        let operation = key_request::Operation { id: OPERATION, table: id, version, info };
        self.transid[0] += 1;
        let mut out = Vec::new();
        key_request::begin(&mut out, self.port.block(), operation, true);
        out.extend_from_slice(key);
        attribute::push_read(&mut out, pseudo::FRAGMENT).unwrap();
        key_request::finish(&mut out, key.len()).unwrap();
        key_request::address(&mut out, self.coordinator, self.connect, self.transid, info);
        self.send(&out);
        let (mut fragment, mut committed) = (None, false);
        self.wait(|number, attributes, data| {
            match number {
                gsn::TRANSID_AI => {
                    let (id, bytes) = Attributes::new(attributes).next().unwrap().unwrap();
                    assert_eq!(id, pseudo::FRAGMENT);
                    fragment = Some(Some(u32::from_le_bytes(bytes.try_into().unwrap())));
                }
                gsn::TCKEYREF => {
                    assert_eq!(signals::KeyRef::decode(data).unwrap().error, 626);
                    fragment = Some(None);
                }
                gsn::TCKEYCONF => committed |= KeyConf::decode(data).unwrap().commit,
                other => panic!("signal {other}: {data:x?}"),
            }
            fragment.filter(|_| committed)
        })
    }
}

/// Inserts rows of random keys, and compares each hint with the row's fragment.
fn hints_are_right(name: &str, keys: Vec<NewColumn>) {
    let table = TestTable::create(NewTable {
        partitioning: Partitioning::Specific(FRAGMENTS),
        ..NewTable::new(DATABASE, name, keys)
    });
    let mut user = User::new();
    let mut random = Random(6);
    let inserted: Vec<_> = (0..ROWS)
        .map(|_| {
            let query = user.query_with(&table, &table.record, None);
            fill_row(&table.table, &table.record, user.key_row(query), &mut random);
            let hint = user.connection.hint_for_query(query).unwrap();
            // Not a hint that the test follows: a wrong one must not have a say in where the row goes.
            let transaction = user.start();
            user.define(query, transaction, Operation::Write(WriteKind::Write, ABORT));
            user.commit(transaction);
            (query, hint)
        })
        .collect();
    user.run();
    let mut fragments = Fragments::new(name.len() % user.connection.cluster().nodes.len());
    let mut seen = std::collections::BTreeSet::new();
    for (query, hint) in inserted {
        assert_eq!(user.error(query), 0);
        let row = user.key_row(query).to_vec();
        let mut key = Vec::new();
        table.record.encode_key(&row, &mut key).unwrap();
        let fragment = fragments.of(&table, &key).expect("the row");
        assert_eq!(hint, fragment + 1, "{name}: {row:x?}");
        seen.insert(fragment);
    }
    assert!(seen.len() > 1 || name.contains("tiny"), "{name}: all rows in one fragment");
}

/// Key columns of types, named by their place.
fn keys(kinds: &[ColumnType]) -> Vec<NewColumn> {
    let key = |(at, &kind): (usize, &ColumnType)| NewColumn {
        primary_key: true,
        ..column_of(&format!("k{at}"), kind, at)
    };
    kinds.iter().enumerate().map(key).collect()
}

node_test!(of_whole_numbers);
fn of_whole_numbers() {
    use ColumnType::*;
    hints_are_right("dist_unsigned", keys(&[Unsigned]));
    hints_are_right("dist_bigint", keys(&[Bigint]));
    hints_are_right("dist_tiny", keys(&[Tinyint]));
    hints_are_right("dist_medium", keys(&[Mediumunsigned, Mediumint]));
    hints_are_right(
        "dist_whole_numbers",
        keys(&[Tinyint, Tinyunsigned, Smallint, Smallunsigned, Mediumint, Mediumunsigned, Int, Bigunsigned]),
    );
}

node_test!(of_other_numbers_and_times);
fn of_other_numbers_and_times() {
    use ColumnType::*;
    hints_are_right(
        "dist_numbers",
        keys(&[Float, Double, Olddecimal, Olddecimalunsigned, Decimal, Decimalunsigned]),
    );
    hints_are_right(
        "dist_times",
        keys(&[Datetime, Date, Time, Year, Timestamp, Time2, Datetime2, Timestamp2]),
    );
}

node_test!(of_bytes);
fn of_bytes() {
    use ColumnType::*;
    hints_are_right("dist_binary", keys(&[Binary]));
    hints_are_right("dist_varbinary", keys(&[Varbinary]));
    hints_are_right("dist_longvarbinary", keys(&[Longvarbinary]));
    let long = NewColumn { length: 4090, ..key_column("k", Longvarbinary) };
    hints_are_right("dist_long_key", vec![long]);
}

/// A key of one character column, and one of a number and three.
fn of_collation(charset: u32) {
    use ColumnType::*;
    let key = |name: &str, kind, length| NewColumn { charset, length, ..key_column(name, kind) };
    hints_are_right(&format!("dist_char_{charset}"), vec![key("k", Char, 24)]);
    hints_are_right(&format!("dist_varchar_{charset}"), vec![key("k", Varchar, 252)]);
    hints_are_right(
        &format!("dist_text_{charset}"),
        vec![
            key("a", Varchar, 12),
            key_column("b", Unsigned),
            key("c", Longvarchar, 360),
            key("d", Char, 60),
        ],
    );
}

node_test!(of_text_in_latin1_bin);
fn of_text_in_latin1_bin() {
    of_collation(47);
}

node_test!(of_text_in_binary);
fn of_text_in_binary() {
    of_collation(63);
}

node_test!(of_text_in_utf8mb4_bin);
fn of_text_in_utf8mb4_bin() {
    of_collation(46);
}

node_test!(of_text_in_utf8mb3_bin);
fn of_text_in_utf8mb3_bin() {
    of_collation(83);
}

node_test!(of_text_in_utf8mb4_0900_bin);
fn of_text_in_utf8mb4_0900_bin() {
    of_collation(309);
}

node_test!(of_many_columns);
fn of_many_columns() {
    use ColumnType::*;
    let some = [Unsigned, Varchar, Smallint, Char, Bigint, Varbinary, Tinyint, Datetime2];
    for count in [2, 3, 16, 32] {
        let kinds: Vec<_> = some.iter().copied().cycle().take(count).collect();
        hints_are_right(&format!("dist_columns_{count}"), keys(&kinds));
    }
}

node_test!(of_a_distribution_key_that_is_a_part_of_the_primary_key);
fn of_a_distribution_key_that_is_a_part_of_the_primary_key() {
    use ColumnType::*;
    let kinds = [Unsigned, Varchar, Bigint, Char, Smallint];
    for (number, marked) in [&[0][..], &[1], &[2, 4], &[1, 3], &[0, 1, 2, 3, 4]].into_iter().enumerate() {
        let mut columns = keys(&kinds);
        marked.iter().for_each(|&at| columns[at].distribution_key = true);
        // Between the key's columns stands one that is in no key.
        columns.insert(2, column_of("v", Unsigned, 0));
        columns[2].nullable = true;
        hints_are_right(&format!("dist_part_{number}"), columns);
    }
}

node_test!(of_every_number_of_fragments);
fn of_every_number_of_fragments() {
    use Partitioning::*;
    let ways = [ForRpByLdm, ForRaByLdm, ForRpByNode, ForRaByNode, ForRaByLdmX2, ForRaByLdmX3, ForRaByLdmX4];
    let mut user = User::new();
    let mut fragments = Fragments::new(0);
    for (number, partitioning) in ways.into_iter().enumerate() {
        let name = format!("dist_balance_{number}");
        let new = NewTable { partitioning, ..crate::kit::numbers(&name) };
        let table = TestTable::create(new);
        user.fill(&table, 0..ROWS as u32);
        for key in 0..ROWS as u32 {
            let query = user.query(&table);
            user.key_row(query)[table.at("k")].copy_from_slice(&key.to_le_bytes());
            let hint = user.connection.hint_for_query(query).unwrap();
            assert_eq!(Some(hint), fragments.of(&table, &[key]).map(|f| f + 1), "{partitioning:?} {key}");
            user.connection.free_query(query).unwrap();
        }
        assert_eq!(fragments.of(&table, &[4711]), None);
    }
}

node_test!(collations_that_cannot_be_computed_give_no_hint_and_the_right_row);
fn collations_that_cannot_be_computed_give_no_hint_and_the_right_row() {
    for (charset, kind) in [(8, ColumnType::Varchar), (255, ColumnType::Varchar), (8, ColumnType::Char)] {
        let key = NewColumn { charset, length: 24, ..key_column("k", kind) };
        let v = column_of("v", ColumnType::Unsigned, 0);
        let name = format!("dist_none_{charset}_{}", kind.name().to_lowercase());
        let table = TestTable::create(NewTable::new(DATABASE, name, vec![key, v]));
        let mut user = User::new();
        let mut random = Random(7);
        let mut rows = std::collections::BTreeMap::new();
        for number in 0..ROWS as u32 {
            let mut row = vec![0; table.record.row_size()];
            // Told apart by a number, so that no two are equal to the collation.
            let mut text = value(&table.table.columns[0], &mut random);
            let digits = format!("{number:04}");
            match kind {
                ColumnType::Char => text[..4].copy_from_slice(digits.as_bytes()),
                _ => text = [&[8][..], digits.as_bytes(), b"aBcD"].concat(),
            }
            row[table.at("k")][..text.len()].copy_from_slice(&text);
            row[table.at("v")].copy_from_slice(&number.to_le_bytes());
            let query = user.query(&table);
            user.key_row(query).copy_from_slice(&row);
            user.row(query).copy_from_slice(&row);
            assert_eq!(user.connection.hint_for_query(query), Ok(0), "no hint");
            let transaction = user.start();
            user.define(query, transaction, Operation::Write(WriteKind::Insert, ABORT));
            assert_eq!(user.commit_and_end(transaction), (0, true));
            rows.insert(number, row);
        }
        for (number, mut row) in rows {
            // To these collations the case of letters makes no difference.
            row[table.at("k")].make_ascii_uppercase();
            let query = user.query(&table);
            user.key_row(query).copy_from_slice(&row);
            let transaction = user.start();
            user.define(query, transaction, Operation::Read(LockMode::Committed));
            assert_eq!(user.commit_and_end(transaction), (0, true));
            assert_eq!(user.found(&table, query), Ok(number));
        }
    }
}
