//! The dictionary: tables come and go, large definitions, and names of every kind.

use iclaustron::conn::Operation;
use iclaustron::dict::client::Client;
use iclaustron::dict::schema::TableName;
use iclaustron::dict::table::{MAX_COLUMN_NAME, MAX_INTERNAL_NAME, NewColumn, NewTable};
use iclaustron::error::{Class, class, own};
use iclaustron::wire::column::ColumnType;
use iclaustron::wire::transaction::{LockMode, WriteKind};

use crate::cluster;
use crate::kit::{ABORT, DATABASE, TestTable, User, column, drop_table, key_column, number, numbers};

fn client() -> Client {
    Client::new(cluster::joined()).unwrap()
}

/// Whether a list of a database's tables has this one.
fn lists(dictionary: &mut Client, name: &str) -> bool {
    let listed = dictionary.list(Some(DATABASE)).unwrap();
    listed.iter().any(|table| table.database == DATABASE.as_bytes() && table.name == name.as_bytes())
}

node_test!(a_table_comes_and_goes);
fn a_table_comes_and_goes() {
    let mut dictionary = client();
    let new = numbers("dict_life");
    drop_table(&mut dictionary, &new);
    assert!(!lists(&mut dictionary, "dict_life"));
    let missing = dictionary.open(DATABASE, "dict_life").unwrap_err();
    assert_eq!(missing.code, 723);
    assert!(missing.text.contains("suite/def/dict_life"), "{}", missing.text);
    dictionary.create(&new).unwrap();
    assert!(lists(&mut dictionary, "dict_life"));
    assert!(lists(&mut client(), "dict_life"));
    let existing = dictionary.create(&new).unwrap_err();
    assert_eq!(existing.code, 721);
    assert!(existing.text.contains("suite/def/dict_life"), "{}", existing.text);
    let (table, _) = dictionary.open(DATABASE, "dict_life").unwrap();
    assert_eq!(table.names(), (&b"suite"[..], &b"def"[..], &b"dict_life"[..]));
    assert_eq!(dictionary.open("suite2", "dict_life").unwrap_err().code, 723);
    dictionary.drop(DATABASE, "dict_life").unwrap();
    assert!(!lists(&mut dictionary, "dict_life"));
    assert_eq!(dictionary.open(DATABASE, "dict_life").unwrap_err().code, 723);
    let twice = dictionary.drop(DATABASE, "dict_life").unwrap_err();
    assert_eq!(twice.code, 723);
    assert!(twice.text.contains("suite/def/dict_life"), "{}", twice.text);
}

node_test!(a_definition_says_what_was_asked_for);
fn a_definition_says_what_was_asked_for() {
    let columns = vec![
        key_column("a", ColumnType::Unsigned),
        NewColumn { primary_key: true, distribution_key: true, ..column("b", ColumnType::Bigint) },
        NewColumn { nullable: true, length: 40, charset: 46, ..column("c", ColumnType::Varchar) },
        NewColumn { precision: 10, scale: 3, ..column("d", ColumnType::Decimal) },
        NewColumn { precision: 6, nullable: true, ..column("e", ColumnType::Datetime2) },
        NewColumn { dynamic: true, nullable: true, ..column("f", ColumnType::Int) },
        NewColumn { default: Some(b"\x02hi".to_vec()), length: 9, ..column("g", ColumnType::Varbinary) },
        NewColumn { length: 21, ..column("h", ColumnType::Bit) },
    ];
    let new = NewTable { read_backup: true, ..NewTable::new(DATABASE, "dict_says", columns) };
    let table = TestTable::create(new.clone()).table.clone();
    assert_eq!((&table.primary_key[..], &table.distribution_key[..]), (&[0, 1][..], &[1][..]));
    assert!(table.read_backup && table.logged && !table.fully_replicated && table.hash_is_known);
    for (column, new) in table.columns.iter().zip(&new.columns) {
        assert_eq!((&column.name[..], column.kind), (new.name.as_bytes(), new.kind));
        assert_eq!(
            (column.length, column.precision, column.scale, column.charset),
            (new.length, new.precision, new.scale, new.charset),
            "{}",
            new.name
        );
        assert_eq!((column.nullable, column.primary_key), (new.nullable, new.primary_key));
        assert_eq!((column.dynamic, &column.default), (new.dynamic, &new.default), "{}", new.name);
    }
    let nodes = cluster::joined().nodes.len();
    assert!(table.fragments.len() >= nodes, "one per node and local data manager");
    assert!(table.fragments.iter().all(|replicas| replicas.len() == 2));
    assert_eq!(table.hash_map.as_ref().unwrap().buckets.len(), 3840);
}

node_test!(a_definition_in_several_fragments);
fn a_definition_in_several_fragments() {
    let name = |at| format!("column_of_the_large_table_{at}");
    let mut columns = vec![key_column("id", ColumnType::Unsigned)];
    columns.extend((1..512).map(|at| column(&name(at), ColumnType::Unsigned)));
    let new = NewTable::new(DATABASE, "dict_large", columns);
    let table = TestTable::create(new);
    assert_eq!(table.table.columns.len(), 512);
    for (at, column) in table.table.columns.iter().enumerate().skip(1) {
        assert_eq!((column.id as usize, &column.name[..]), (at, name(at).as_bytes()));
    }
    // A row of all of them, and one column found by its name.
    let mut user = User::new();
    let query = user.query(&table);
    for at in 0..512u32 {
        user.row(query)[4 * at as usize..][..4].copy_from_slice(&at.to_le_bytes());
    }
    let transaction = user.start();
    user.define(query, transaction, Operation::Write(WriteKind::Insert, ABORT));
    assert_eq!(user.commit_and_end(transaction), (0, true));
    let read = user.query(&table);
    let transaction = user.start();
    user.define(read, transaction, Operation::Read(LockMode::Committed));
    assert_eq!(user.commit_and_end(transaction), (0, true));
    assert_eq!(number(&user.row(read)[table.at(&name(511))]), 511);
    assert!((1..512u32).all(|at| number(&user.row(read)[4 * at as usize..][..4]) == at));
}

node_test!(a_list_in_several_fragments);
fn a_list_in_several_fragments() {
    let long = "list".repeat(27);
    let names: Vec<_> = (0..40).map(|at| format!("{long}_{at:02}")).collect();
    let tables: Vec<_> = names.iter().map(|name| TestTable::numbers(name)).collect();
    let listed = client().list(None).unwrap();
    for name in &names {
        let wanted = TableName { database: DATABASE.into(), name: name.clone().into() };
        assert_eq!(listed.iter().filter(|table| **table == wanted).count(), 1, "{name}");
    }
    assert!(listed.is_sorted());
    drop(tables);
    let listed = client().list(None).unwrap();
    assert!(!listed.iter().any(|table| table.name.starts_with(long.as_bytes())));
}

node_test!(a_table_dropped_under_our_feet);
fn a_table_dropped_under_our_feet() {
    let table = TestTable::numbers("dict_dropped");
    let mut user = User::new();
    user.fill(&table, [1]);
    // Another client's cache has the old definition too.
    let mut other = client();
    other.open(DATABASE, "dict_dropped").unwrap();
    client().drop(DATABASE, "dict_dropped").unwrap();
    for mode in [LockMode::Committed, LockMode::Exclusive(ABORT)] {
        let transaction = user.start();
        let query = user.read(&table, transaction, 1, mode);
        user.commit_and_end(transaction);
        let error = user.error(query);
        assert_eq!(class(error), Class::Schema, "{error}");
    }
    assert_eq!(other.open(DATABASE, "dict_dropped").unwrap_err().code, 723, "the cache was dropped");
}

node_test!(a_table_dropped_and_made_anew_under_our_feet);
fn a_table_dropped_and_made_anew_under_our_feet() {
    let old = TestTable::numbers("dict_anew");
    let mut user = User::new();
    user.fill(&old, [1]);
    let mut other = client();
    let (before, _) = other.open(DATABASE, "dict_anew").unwrap();
    let mut maker = client();
    maker.drop(DATABASE, "dict_anew").unwrap();
    let mut new = numbers("dict_anew");
    new.columns.push(column("w", ColumnType::Unsigned));
    maker.create(&new).unwrap();
    for kind in [WriteKind::Insert, WriteKind::Update, WriteKind::Write, WriteKind::Delete] {
        let transaction = user.start();
        let query = user.write(&old, transaction, (kind, ABORT), 1, 1);
        user.commit_and_end(transaction);
        let error = user.error(query);
        assert!(matches!(error, 241 | 284 | 1225 | 1226), "{kind:?}: {error}");
        assert_eq!(class(error), Class::Schema);
    }
    let (after, _) = other.open(DATABASE, "dict_anew").unwrap();
    assert!(!after.is_same_table(before.id, before.version));
    assert_eq!((before.columns.len(), after.columns.len()), (2, 3));
    assert!(!old.record.is_of(&after));
    let record = old.record.clone();
    let mixed = user.connection.create_query(after, old.standing.clone(), record, None, ());
    assert_eq!(mixed, Err(own::RECORD_MISMATCH), "a record of the old table");
}

node_test!(names_that_can_be_none);
fn names_that_can_be_none() {
    let mut dictionary = client();
    // Too long as the table's name, and as the database's.
    let long = "n".repeat(MAX_INTERNAL_NAME + 1 - "/def/t".len());
    for name in ["", "a\0b", "\0", &long] {
        assert_eq!(dictionary.open(DATABASE, name).unwrap_err().code, own::INVALID_NAME, "{name:?}");
        assert_eq!(dictionary.drop(DATABASE, name).unwrap_err().code, own::INVALID_NAME, "{name:?}");
        assert_eq!(dictionary.create(&numbers(name)).unwrap_err().code, own::INVALID_NAME, "{name:?}");
        assert_eq!(dictionary.open(name, "t").unwrap_err().code, own::INVALID_NAME, "{name:?}");
    }
    let columns = ["", "a\0b", &"c".repeat(MAX_COLUMN_NAME + 1)].map(|name| column(name, ColumnType::Int));
    for odd in columns {
        let new = NewTable::new(DATABASE, "dict_names", vec![key_column("k", ColumnType::Int), odd]);
        assert_eq!(dictionary.create(&new).unwrap_err().code, own::INVALID_NAME);
    }
    assert_eq!(dictionary.open(DATABASE, "dict_names").unwrap_err().code, 723, "nothing was made");
}

node_test!(names_of_exact_bytes);
fn names_of_exact_bytes() {
    let longest = "n".repeat(MAX_INTERNAL_NAME - "suite/def/".len());
    for name in ["Über Tabelle 中", "with/slash", "a", "#sql$", "NDB$x", &longest] {
        let mut new = numbers(name);
        new.columns.push(NewColumn { nullable: true, ..column("größe 😀 x", ColumnType::Unsigned) });
        new.columns
            .push(NewColumn { nullable: true, ..column(&"c".repeat(MAX_COLUMN_NAME), ColumnType::Unsigned) });
        let table = TestTable::create(new);
        assert_eq!(table.table.names().2, name.as_bytes());
        assert!(table.table.column("größe 😀 x".as_bytes()).is_some());
        assert!(lists(&mut client(), name), "{name}");
        let mut user = User::new();
        user.fill(&table, [3]);
        assert_eq!(user.look(&table, 3), Ok(30));
    }
}

node_test!(several_clients_change_the_dictionary_at_once);
fn several_clients_change_the_dictionary_at_once() {
    let nodes = cluster::nodes();
    let work = |thread| {
        for round in 0..3 {
            let table = TestTable::numbers(&format!("dict_crowd_{thread}_{round}"));
            let mut user = User::new();
            user.fill(&table, [1]);
            assert_eq!(user.look(&table, 1), Ok(10));
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || cluster::on(nodes, || work(thread)));
        }
    });
}
