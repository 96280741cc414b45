//! What is written is read: every type, every layout of a row, the largest rows and keys.

use std::sync::Arc;

use iclaustron::conn::Operation;
use iclaustron::dict::record::{ColumnRef, FieldSpec, Record};
use iclaustron::dict::table::{NewColumn, NewTable};
use iclaustron::error::own;
use iclaustron::wire::column::ColumnType;
use iclaustron::wire::transaction::{LockMode, WriteKind};

use crate::kit::{ABORT, DATABASE, Random, TestTable, User, column, key_column};
use crate::values::{column_of, fill_row, read_row, value};

const MODES: [LockMode; 2] = [LockMode::Committed, LockMode::Exclusive(ABORT)];

/// Writes a row by its natural record: the key's columns and the values.
fn write_row(user: &mut User, table: &TestTable, kind: WriteKind, row: &[u8]) -> i32 {
    let query = user.query(table);
    user.key_row(query).copy_from_slice(row);
    user.row(query).copy_from_slice(row);
    let transaction = user.start();
    user.define(query, transaction, Operation::Write(kind, ABORT));
    user.commit_and_end(transaction);
    user.error(query)
}

/// Reads a row into a row of `record` that holds `byte` everywhere before.
fn read_into(
    user: &mut User,
    table: &TestTable,
    key: &[u8],
    record: &Arc<Record>,
    mode: LockMode,
    byte: u8,
) -> Result<Vec<u8>, i32> {
    let query = user.query_with(table, &table.record, Some(record));
    user.key_row(query).copy_from_slice(key);
    user.row(query).fill(byte);
    let transaction = user.start();
    user.define(query, transaction, Operation::Read(mode));
    user.commit_and_end(transaction);
    match user.error(query) {
        0 => Ok(user.row(query).to_vec()),
        error => Err(error),
    }
}

/// A hundred and twenty-eight columns, every type among them, each nullable and not.
fn all_types(name: &str) -> NewTable {
    let kinds: Vec<_> = ColumnType::ALL.iter().copied().filter(|kind| !kind.is_blob()).collect();
    let mut columns = vec![key_column("id", ColumnType::Unsigned)];
    columns.extend((0..127).map(|at| NewColumn {
        nullable: at / kinds.len() % 2 == 0,
        ..column_of(&format!("c{at}"), kinds[at % kinds.len()], at / kinds.len())
    }));
    NewTable::new(DATABASE, name, columns)
}

node_test!(every_type_in_a_table_of_128_columns);
fn every_type_in_a_table_of_128_columns() {
    let table = TestTable::create(all_types("rows_all_types"));
    assert_eq!(table.table.columns.len(), 128);
    let mut user = User::new();
    let mut random = Random(2);
    for id in 0..30u32 {
        let mut row = vec![0; table.record.row_size()];
        for kind in [WriteKind::Insert, WriteKind::Update, WriteKind::Write] {
            fill_row(&table.table, &table.record, &mut row, &mut random);
            row[table.at("id")].copy_from_slice(&id.to_le_bytes());
            assert_eq!(write_row(&mut user, &table, kind, &row), 0);
            for (mode, byte) in MODES.into_iter().zip([0, 0xff]) {
                let found = read_into(&mut user, &table, &row, &table.record, mode, byte).unwrap();
                assert_eq!(read_row(&table.record, &found), read_row(&table.record, &row), "{kind:?}");
            }
        }
    }
}

/// A layout of some of a table's columns in random order, with gaps.
fn scattered(table: &TestTable, random: &mut Random) -> Arc<Record> {
    let mut columns: Vec<_> = table.table.columns.iter().filter(|_| random.below(3) > 0).collect();
    for at in (1..columns.len()).rev() {
        columns.swap(at, random.below(at + 1));
    }
    let mut end = 0;
    let mut specs = Vec::new();
    for column in columns {
        end += random.below(9) as u32;
        let null = (end, random.below(8) as u8);
        let offset = end + 1;
        end = offset + column.size;
        let column = match random.below(2) {
            0 => ColumnRef::Name(&column.name),
            _ => ColumnRef::Number(column.id),
        };
        specs.push(FieldSpec { column, offset, null: Some(null) });
    }
    Arc::new(Record::new(&table.table, end + 5, &specs).unwrap())
}

node_test!(layouts_of_some_columns_in_another_order_with_gaps);
fn layouts_of_some_columns_in_another_order_with_gaps() {
    let table = TestTable::create(all_types("rows_layouts"));
    let mut user = User::new();
    let mut random = Random(3);
    for id in 0..20u32 {
        let mut whole = vec![0; table.record.row_size()];
        fill_row(&table.table, &table.record, &mut whole, &mut random);
        whole[table.at("id")].copy_from_slice(&id.to_le_bytes());
        assert_eq!(write_row(&mut user, &table, WriteKind::Insert, &whole), 0);
        // What is written through one layout is read through others, gaps untouched.
        let layout = scattered(&table, &mut random);
        let query = user.query_with(&table, &table.record, Some(&layout));
        user.key_row(query).copy_from_slice(&whole);
        fill_row(&table.table, &layout, user.row(query), &mut random);
        let written: Vec<_> = read_row(&layout, user.row(query)).into_iter().filter(|c| c.0 != 0).collect();
        let transaction = user.start();
        user.define(query, transaction, Operation::Write(WriteKind::Update, ABORT));
        assert_eq!(user.commit_and_end(transaction), (0, true));
        let mut expected = read_row(&table.record, &whole);
        for (column, value) in written {
            expected[column as usize].1 = value;
        }
        for mode in MODES {
            let found = read_into(&mut user, &table, &whole, &table.record, mode, 0xff).unwrap();
            assert_eq!(read_row(&table.record, &found), expected);
        }
        let other = scattered(&table, &mut random);
        let found = read_into(&mut user, &table, &whole, &other, LockMode::Committed, 0xa5).unwrap();
        for (column, value) in read_row(&other, &found) {
            assert_eq!(value, expected[column as usize].1, "column {column}");
        }
        let mut covered = vec![false; found.len()];
        for field in other.fields() {
            covered[field.offset as usize..][..field.size as usize].fill(true);
            if let Some((byte, _)) = field.null {
                covered[byte as usize] = true;
            }
        }
        assert!(found.iter().zip(covered).all(|(&byte, covered)| covered || byte == 0xa5), "gaps");
    }
}

node_test!(values_of_full_length_and_none);
fn values_of_full_length_and_none() {
    let mut columns = vec![key_column("id", ColumnType::Unsigned)];
    let sized = |name: &str, kind, length| NewColumn {
        length,
        charset: if kind == ColumnType::Varbinary || kind == ColumnType::Longvarbinary { 0 } else { 47 },
        ..column(name, kind)
    };
    columns.push(sized("vc255", ColumnType::Varchar, 255));
    columns.push(sized("vc256", ColumnType::Longvarchar, 256));
    columns.push(sized("vb255", ColumnType::Varbinary, 255));
    columns.push(sized("vb256", ColumnType::Longvarbinary, 256));
    columns.push(sized("ch", ColumnType::Char, 255));
    let table = TestTable::create(NewTable::new(DATABASE, "rows_full_length", columns));
    let sizes = ["vc255", "vc256", "vb255", "vb256", "ch"].map(|name| table.at(name).len());
    assert_eq!(sizes, [256, 258, 256, 258, 255], "one length byte to 255, two above");
    let mut user = User::new();
    for (id, length) in (0u32..).zip([0usize, 1, 254, 255, 256]) {
        let mut row = vec![0x55; table.record.row_size()];
        row[table.at("id")].copy_from_slice(&id.to_le_bytes());
        for (name, most) in [("vc255", 255), ("vb255", 255), ("vc256", 256), ("vb256", 256)] {
            let length = length.min(most);
            let range = table.at(name);
            let prefix = range.len() - most;
            row[range.start..][..prefix].copy_from_slice(&(length as u16).to_le_bytes()[..prefix]);
            row[range.start + prefix..][..length].fill(b'x');
        }
        row[table.at("ch")].fill(b' ');
        row[table.at("ch")][..length.min(255)].fill(b'y');
        assert_eq!(write_row(&mut user, &table, WriteKind::Insert, &row), 0);
        for mode in MODES {
            let found = read_into(&mut user, &table, &row, &table.record, mode, 0).unwrap();
            assert_eq!(read_row(&table.record, &found), read_row(&table.record, &row), "{length}");
            assert!(found[table.at("ch")][length.min(255)..].iter().all(|&byte| byte == b' '), "padding");
        }
    }
    // One byte more than the column takes is not sent at all.
    let mut row = vec![0; table.record.row_size()];
    row[table.at("vb256")][..2].copy_from_slice(&257u16.to_le_bytes());
    let query = user.query(&table);
    user.row(query).copy_from_slice(&row);
    let transaction = user.start();
    let write = Operation::Write(WriteKind::Insert, ABORT);
    assert_eq!(user.connection.define(query, transaction, write, true, ()), Err(own::VALUE_TOO_LONG));
}

node_test!(columns_whose_names_begin_alike);
fn columns_whose_names_begin_alike() {
    let names = ["abc", "a", "ab", "b", "A"];
    let mut columns = vec![key_column("k", ColumnType::Unsigned)];
    columns.extend(names.map(|name| column(name, ColumnType::Unsigned)));
    let table = TestTable::create(NewTable::new(DATABASE, "rows_names", columns));
    let mut user = User::new();
    let mut row = vec![0; table.record.row_size()];
    for (value, name) in (1u32..).zip(names) {
        row[table.at(name)].copy_from_slice(&value.to_le_bytes());
    }
    assert_eq!(write_row(&mut user, &table, WriteKind::Insert, &row), 0);
    for (value, name) in (1u32..).zip(names) {
        let spec = FieldSpec { column: ColumnRef::Name(name.as_bytes()), offset: 0, null: None };
        let record = Arc::new(Record::new(&table.table, 4, &[spec]).unwrap());
        let found = read_into(&mut user, &table, &row, &record, LockMode::Committed, 0).unwrap();
        assert_eq!(found, value.to_le_bytes(), "{name}");
    }
}

node_test!(null_and_not_null);
fn null_and_not_null() {
    let nullable = |name: &str, kind| NewColumn { nullable: true, ..column_of(name, kind, 0) };
    let columns = vec![
        key_column("k", ColumnType::Unsigned),
        nullable("n", ColumnType::Unsigned),
        column("m", ColumnType::Unsigned),
        nullable("text", ColumnType::Varchar),
        nullable("bits", ColumnType::Bit),
    ];
    let table = TestTable::create(NewTable::new(DATABASE, "rows_null", columns));
    let mut user = User::new();
    let mut row = vec![0; table.record.row_size()];
    let bit = |name: &str| table.record.field(table.table.column(name.as_bytes()).unwrap().id).unwrap().null;
    let columns = ["n", "text", "bits"];
    for set in 0..8 {
        row[table.at("k")].copy_from_slice(&1u32.to_le_bytes());
        row[table.at("n")].copy_from_slice(&0u32.to_le_bytes());
        row[table.at("m")].copy_from_slice(&0u32.to_le_bytes());
        for (at, name) in columns.iter().enumerate() {
            let (byte, bit) = bit(name).unwrap();
            let byte = &mut row[byte as usize];
            *byte = *byte & !(1 << bit) | (set >> at & 1) << bit;
        }
        let kind = if set == 0 { WriteKind::Insert } else { WriteKind::Update };
        assert_eq!(write_row(&mut user, &table, kind, &row), 0, "from and to NULL");
        for byte in [0, 0xff] {
            let found = read_into(&mut user, &table, &row, &table.record, LockMode::Committed, byte).unwrap();
            assert_eq!(read_row(&table.record, &found), read_row(&table.record, &row), "set {set:b}");
        }
    }
    // The NULL bit given for a NOT NULL column is neither looked at nor touched.
    let m = FieldSpec { column: ColumnRef::Name(b"m"), offset: 0, null: Some((4, 0)) };
    let record = Arc::new(Record::new(&table.table, 5, &[m]).unwrap());
    let query = user.query_with(&table, &table.record, Some(&record));
    user.key_row(query).copy_from_slice(&row);
    user.row(query).copy_from_slice(&[9, 0, 0, 0, 0xff]);
    let transaction = user.start();
    user.define(query, transaction, Operation::Write(WriteKind::Update, ABORT));
    assert_eq!(user.commit_and_end(transaction), (0, true));
    let found = read_into(&mut user, &table, &row, &record, LockMode::Committed, 0xff).unwrap();
    assert_eq!(found, [9, 0, 0, 0, 0xff]);
}

node_test!(an_insert_without_a_not_null_column_is_839);
fn an_insert_without_a_not_null_column_is_839() {
    let columns = ["k", "m", "d"].map(|name| match name {
        "k" => key_column(name, ColumnType::Unsigned),
        "m" => column(name, ColumnType::Unsigned),
        _ => NewColumn { default: Some(77u32.to_le_bytes().to_vec()), ..column(name, ColumnType::Unsigned) },
    });
    let table = TestTable::create(NewTable::new(DATABASE, "rows_lacking", columns.to_vec()));
    let mut user = User::new();
    let only = |name: &str| {
        let spec = FieldSpec { column: ColumnRef::Name(name.as_bytes()), offset: 0, null: None };
        Arc::new(Record::new(&table.table, 4, &[spec]).unwrap())
    };
    for (name, expected) in [("d", 839), ("m", 0)] {
        let query = user.query_with(&table, &table.record, Some(&only(name)));
        user.row(query).copy_from_slice(&5u32.to_le_bytes());
        let transaction = user.start();
        user.define(query, transaction, Operation::Write(WriteKind::Insert, ABORT));
        assert_eq!(user.commit_and_end(transaction), (expected, expected == 0), "with {name} only");
        assert_eq!(user.error(query), expected);
    }
    let mut key = vec![0; table.record.row_size()];
    key[table.at("k")].fill(0);
    let found = read_into(&mut user, &table, &key, &table.record, LockMode::Committed, 0).unwrap();
    assert_eq!(found[table.at("d")], 77u32.to_le_bytes(), "the default value");
    assert_eq!(found[table.at("m")], 5u32.to_le_bytes());
}

node_test!(the_largest_rows);
fn the_largest_rows() {
    // 1 + 7500 words less one for the key.
    let long = |name: &str, length| NewColumn { length, ..column(name, ColumnType::Longvarbinary) };
    let columns = vec![key_column("k", ColumnType::Unsigned), long("a", 14990), long("b", 14998)];
    let table = TestTable::create(NewTable::new(DATABASE, "rows_large", columns));
    let mut user = User::new();
    let mut random = Random(4);
    for (key, lengths) in (0u32..).zip([
        (14990, 14998),
        (0, 0),
        (1, 14998),
        // Around the sizes at which a node sends a row packed, plain, long, and in fragments.
        (50, 0),
        (54, 4),
        (60, 0),
        (80, 0),
        (84, 4),
        (88, 0),
        (100, 0),
        (900, 60),
        (960, 0),
        (14990, 14000),
    ]) {
        let mut row = vec![0; table.record.row_size()];
        row[table.at("k")].copy_from_slice(&key.to_le_bytes());
        for (name, length) in [("a", lengths.0), ("b", lengths.1)] {
            let start = table.at(name).start;
            row[start..][..2].copy_from_slice(&(length as u16).to_le_bytes());
            row[start + 2..][..length].copy_from_slice(&random.bytes(length));
        }
        let kind = [WriteKind::Insert, WriteKind::Write][key as usize % 2];
        assert_eq!(write_row(&mut user, &table, kind, &row), 0, "{lengths:?}");
        for mode in MODES {
            let found = read_into(&mut user, &table, &row, &table.record, mode, 0).unwrap();
            assert!(read_row(&table.record, &found) == read_row(&table.record, &row), "{lengths:?} {mode:?}");
        }
    }
    // Many of them at once, from all nodes.
    let queries: Vec<_> = (0..40)
        .map(|at| {
            let query = user.query(&table);
            user.key_row(query)[table.at("k")].copy_from_slice(&(12 * (at % 2) as u32).to_le_bytes());
            let transaction = user.start();
            user.define(query, transaction, Operation::Read(LockMode::Committed));
            user.commit(transaction);
            query
        })
        .collect();
    user.run();
    assert_eq!(user.errors(&queries), [0; 40]);
    for (at, query) in queries.into_iter().enumerate() {
        let start = table.at("b").start;
        let length = u16::from_le_bytes(user.row(query)[start..][..2].try_into().unwrap());
        assert_eq!(length, [14998, 14000][at % 2]);
    }
}

/// Writes and reads rows of random keys and one value.
fn keys_come_back(name: &str, keys: Vec<NewColumn>, count: usize) {
    let columns = keys.into_iter().chain([column("v", ColumnType::Bigunsigned)]).collect();
    let table = TestTable::create(NewTable::new(DATABASE, name, columns));
    let mut user = User::new();
    let mut random = Random(5);
    for at in 0..count {
        let mut row = vec![0; table.record.row_size()];
        fill_row(&table.table, &table.record, &mut row, &mut random);
        if at == 0 {
            // The longest key there is: all of each column.
            for field in table.record.key_fields().unwrap() {
                let column = &table.table.columns[field.column_id as usize];
                while field.value(&row).unwrap().len() < column.size as usize {
                    let value = value(column, &mut random);
                    row[field.offset as usize..][..value.len()].copy_from_slice(&value);
                }
            }
        }
        assert_eq!(write_row(&mut user, &table, WriteKind::Write, &row), 0);
        for mode in MODES {
            let found = read_into(&mut user, &table, &row, &table.record, mode, 0).unwrap();
            assert!(read_row(&table.record, &found) == read_row(&table.record, &row), "row {at}");
        }
        assert_eq!(write_row(&mut user, &table, WriteKind::Delete, &row), 0);
        let gone = read_into(&mut user, &table, &row, &table.record, LockMode::Committed, 0);
        assert_eq!(gone, Err(626));
    }
}

node_test!(a_key_of_1023_words);
fn a_key_of_1023_words() {
    let long = NewColumn { length: 4090, ..key_column("k", ColumnType::Longvarbinary) };
    keys_come_back("rows_long_key", vec![long], 20);
    let fixed = |name: &str, length| NewColumn { length, ..key_column(name, ColumnType::Binary) };
    keys_come_back("rows_long_fixed_key", vec![fixed("a", 4000), fixed("b", 92)], 20);
}

node_test!(keys_of_sixteen_and_thirty_two_columns);
fn keys_of_sixteen_and_thirty_two_columns() {
    let kinds = [
        ColumnType::Tinyint,
        ColumnType::Varchar,
        ColumnType::Bigunsigned,
        ColumnType::Mediumint,
        ColumnType::Longvarbinary,
        ColumnType::Datetime2,
        ColumnType::Char,
        ColumnType::Decimal,
    ];
    for count in [16, 32] {
        let key = |at: usize| NewColumn {
            primary_key: true,
            ..column_of(&format!("k{at}"), kinds[at % kinds.len()], at / kinds.len())
        };
        keys_come_back(&format!("rows_key_{count}"), (0..count).map(key).collect(), 30);
    }
}
