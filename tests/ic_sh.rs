//! ic_sh on embedded nodes, and on a real cluster: with IC_TEST_CONNECTSTRING set on that one, else on one
//! that is started here.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use iclaustron::cluster::{self, Cluster};
use iclaustron::conn::{Connection, Operation};
use iclaustron::dict::client::Client;
use iclaustron::dict::record::Record;
use iclaustron::dict::table::{NewColumn, NewTable, Table};
use iclaustron::embedded::{self, EmbeddedCluster};
use iclaustron::tools::ndb_cluster::{NdbCluster, Options};
use iclaustron::wire::column::ColumnType;
use iclaustron::wire::transaction::{AbortOption, WriteKind};

const DATABASE: &str = "ic_sh";
const TABLE: &str = "ic_sh.kinds";

fn ic_sh(connectstring: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ic_sh"));
    command.env_remove("NO_COLOR").env("NDB_CONNECTSTRING", connectstring).args(args);
    command
}

/// Runs one command. Exit status, output, errors.
fn run(connectstring: &str, args: &[&str]) -> (i32, String, String) {
    told(ic_sh(connectstring, args).stdin(Stdio::null()).output().expect("ic_sh runs"))
}

/// Runs lines of standard input.
fn lines(mut command: Command, input: &str) -> (i32, String, String) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("ic_sh runs");
    child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("all of it is read");
    told(child.wait_with_output().expect("its end"))
}

fn told(output: Output) -> (i32, String, String) {
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (output.status.code().unwrap_or(-1), out, err)
}

/// What a command says that succeeds.
fn good(connectstring: &str, args: &[&str]) -> String {
    let (code, out, err) = run(connectstring, args);
    assert_eq!((code, err.as_str()), (0, ""), "{args:?}: {out}");
    out
}

/// What a command says that fails.
fn bad(connectstring: &str, args: &[&str]) -> String {
    let (code, out, err) = run(connectstring, args);
    assert_eq!((code, out.as_str()), (1, ""), "{args:?}: {err}");
    assert!(err.starts_with("ic_sh: "), "{err}");
    err
}

fn column(name: &str, kind: ColumnType) -> NewColumn {
    NewColumn { nullable: true, ..NewColumn::new(name, kind) }
}

/// A column of every kind that people write in a way of its own, and its value as a row holds it; none for
/// NULL.
fn columns() -> Vec<(NewColumn, Option<&'static [u8]>)> {
    use ColumnType::*;
    let key = |column: NewColumn| NewColumn { primary_key: true, nullable: false, ..column };
    vec![
        (key(column("id", Int)), Some(&[0xfe, 0xff, 0xff, 0xff])),
        (key(NewColumn { length: 20, charset: 47, ..column("who", Varchar) }), Some(b"\x08Ada L.\\'")),
        (column("big", Bigunsigned), Some(&[0xff; 8])),
        (column("ratio", Double), Some(&[0, 0, 0, 0, 0, 0, 0xe0, 0x3f])),
        (NewColumn { precision: 6, scale: 2, ..column("price", Decimal) }, Some(&[0x7b, 0x2d, 0xcd])),
        (column("born", Date), Some(&[0x5d, 0xd0, 0x0f])),
        (NewColumn { precision: 2, ..column("lap", Time2) }, Some(&[0x80, 0xc8, 0xb8, 0x4e])),
        (column("seen", Timestamp2), Some(&[0x65, 0xe0, 0x1b, 0x0f])),
        (NewColumn { length: 4, ..column("data", Varbinary) }, Some(&[3, 0, 0xab, 0xff])),
        (NewColumn { length: 5, ..column("flags", Bit) }, Some(&[0b10010, 0, 0, 0])),
        (NewColumn { length: 6, charset: 47, ..column("code", Char) }, Some(b"x\x1b    ")),
        (NewColumn { default: Some(vec![7, 0, 0, 0]), ..column("nothing", Unsigned) }, None),
    ]
}

const ROW: &str = r"id = -2
who = 'Ada L.\\\''
big = 18446744073709551615
ratio = 0.5
price = -1234.50
born = 2024-02-29
lap = 12:34:56.78
seen = 2024-02-29 05:50:07
data = 0x00abff
flags = 0b10010
code = 'x\u{1b}'
nothing = NULL
";

/// The table with its row, as long as this value.
struct Fixture {
    cluster: Arc<Cluster>,
    dictionary: Client,
    table: Arc<Table>,
    row: Vec<u8>,
}

impl Fixture {
    fn new(connectstring: &str) -> Fixture {
        let cluster = Cluster::connect(Some(connectstring), &cluster::Options::default()).expect("joining");
        let mut dictionary = Client::new(cluster.clone()).expect("a dictionary");
        let new = NewTable::new(DATABASE, "kinds", columns().into_iter().map(|(column, _)| column).collect());
        let _ = dictionary.drop(DATABASE, "kinds");
        dictionary.create(&new).expect("a table");
        let (table, standing) = dictionary.open(DATABASE, "kinds").expect("the table");
        let record = Arc::new(Record::natural(&table));
        let mut row = vec![0; record.row_size()];
        for (field, (_, value)) in record.fields().iter().zip(columns()) {
            match (value, field.null) {
                (Some(value), _) => row[field.offset as usize..][..value.len()].copy_from_slice(value),
                (None, Some((byte, bit))) => row[byte as usize] |= 1 << bit,
                (None, None) => panic!("a NULL that cannot be"),
            }
        }
        let mut connection = Connection::<()>::new(cluster.clone()).expect("a connection");
        let record = Some(record);
        let query = connection.create_query(table.clone(), standing, record.clone().unwrap(), record, ());
        let query = query.expect("a query");
        let rows = connection.rows(query).expect("its rows");
        rows.0.bytes_mut().copy_from_slice(&row);
        rows.1.bytes_mut().copy_from_slice(&row);
        let transaction = connection.start_transaction_for(0, query).expect("a transaction");
        let insert = Operation::Write(WriteKind::Insert, AbortOption::AbortOnError);
        connection.define(query, transaction, insert, false, ()).expect("an insert");
        connection.commit(transaction).expect("its commit");
        connection.send(true);
        while connection.next_executed().is_none() {
            connection.poll(Duration::from_millis(100)).expect("a poll");
        }
        assert_eq!(connection.query_error(query), Ok(0));
        connection.finish(Duration::from_secs(10));
        Fixture { cluster, dictionary, table, row }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.dictionary.drop(DATABASE, "kinds");
        self.cluster.disconnect();
    }
}

fn commands(at: &str) {
    let mut fixture = Fixture::new(at);
    tables(at, &mut fixture);
    describe(at, &fixture);
    rows(at, &fixture);
    state(at, &fixture);
    many_lines(at);
    on_a_terminal(at);
}

fn tables(at: &str, fixture: &mut Fixture) {
    assert_eq!(good(at, &["tables", DATABASE]), format!("{TABLE}\n"));
    assert!(good(at, &["tables"]).lines().any(|line| line == TABLE));
    assert_eq!(good(at, &["tables", "ic_sh_no_database"]), "");
    // The name alone is enough, unless two databases have it.
    assert_eq!(good(at, &["describe", "kinds"]), good(at, &["describe", TABLE]));
    let key = NewColumn { primary_key: true, ..NewColumn::new("id", ColumnType::Unsigned) };
    fixture.dictionary.create(&NewTable::new("ic_sh2", "kinds", vec![key])).expect("another table");
    let said = bad(at, &["describe", "kinds"]);
    fixture.dictionary.drop("ic_sh2", "kinds").expect("without the other table");
    assert!(said.contains("ic_sh and of ic_sh2"), "{said}");
    for missing in ["ic_sh.no", "no.kinds", "ic_sh_no_table"] {
        let said = bad(at, &["describe", missing]);
        assert!(said.contains(&format!("no table {missing}")), "{said}");
    }
}

fn describe(at: &str, fixture: &Fixture) {
    let said = good(at, &["describe", TABLE]);
    for line in [
        "table\tic_sh.kinds",
        "primary key\tid, who",
        "distribution key\tid, who",
        "column\tid\tInt\tNOT NULL\t-\tprimary key, distribution key",
        "column\twho\tVarchar(20)\tNOT NULL\t47\tprimary key, distribution key",
        "column\tprice\tDecimal(6,2)\tNULL\t-",
        "column\tlap\tTime2(2)\tNULL\t-",
        "column\tnothing\tUnsigned\tNULL\t-\tdefault 7",
        "replicas\t2",
    ] {
        assert!(said.lines().any(|other| other == line), "{line} in\n{said}");
    }
    for (number, nodes) in fixture.table.fragments.iter().enumerate() {
        let line = format!("fragment\t{number}\t{}\t{}", nodes[0], nodes[1]);
        assert!(said.lines().any(|other| other == line), "{line} in\n{said}");
    }
}

fn rows(at: &str, fixture: &Fixture) {
    let key = ["-2", r"Ada L.\'"];
    assert_eq!(good(at, &[&["get", TABLE], &key[..]].concat()), ROW);
    let said = bad(at, &["get", TABLE, "-2", "nobody"]);
    assert!(said.contains("(error 626)"), "{said}");
    let said = bad(at, &["get", TABLE, "two", "nobody"]);
    assert!(
        said.contains("key column id: \"two\" is no Int: expected a whole number from -2147483648"),
        "{said}"
    );
    let said = bad(at, &["get", TABLE, "2", "a name of more than twenty bytes"]);
    assert!(said.contains("key column who") && said.contains("too long"), "{said}");
    let said = bad(at, &["get", TABLE, "2"]);
    assert!(said.contains("the primary key is id Int, who Varchar(20); values given: 1"), "{said}");
    assert!(bad(at, &["get", "ic_sh.no", "1"]).contains("no table ic_sh.no"));

    let record = Record::natural(&fixture.table);
    let fragment = fixture.table.fragment_for_key(&record, &fixture.row).expect("a fragment");
    let nodes = fixture.table.nodes_of(fragment);
    assert_eq!(
        good(at, &[&["owner", TABLE], &key[..]].concat()),
        format!(
            "hint\t{}\nfragment\t{fragment}\nprimary\t{}\nbackups\t{}\n",
            fragment + 1,
            nodes[0],
            nodes[1]
        )
    );
    assert!(bad(at, &["owner", TABLE, "1.5", "x"]).contains("is no Int"));
}

fn state(at: &str, fixture: &Fixture) {
    let said = good(at, &["state"]);
    let all = fixture.cluster.nodes.len();
    assert!(said.starts_with("client node\t") && said.contains(&format!("{all} of {all} usable")), "{said}");
    for node in &fixture.cluster.nodes {
        let version = node.version().expect("a version");
        let line = format!("node\t{}\t{}\tusable\t{version}\t", node.id, node.host);
        let line = said.lines().find_map(|other| other.strip_prefix(&line)).expect("a line of each node");
        let (group, news) = line.split_once('\t').expect("its node group");
        // With two replicas, as ids go from 1: nodes 1 and 2 are the first group.
        assert_eq!(group, ((node.id - 1) / 2).to_string(), "{said}");
        assert!(news.starts_with("registered"), "{said}");
    }
}

fn many_lines(at: &str) {
    let script = format!("# a comment\n\ntables {DATABASE}\nget kinds -2 \"Ada L.\\\\'\"\n");
    let (code, out, err) = lines(ic_sh(at, &[]), &script);
    assert_eq!((code, out, err), (0, format!("{TABLE}\n{ROW}"), String::new()));
    let (code, out, err) =
        lines(ic_sh(at, &[]), &format!("frob\nget {TABLE} 'x\nget {TABLE}\ntables {DATABASE}\n"));
    assert_eq!((code, out), (1, format!("{TABLE}\n")), "{err}");
    for said in ["ic_sh: line 1: unrecognized", "ic_sh: line 2: no end", "ic_sh: line 3: the following"] {
        assert!(err.contains(said), "{said} in\n{err}");
    }
    let (code, out, err) = lines(ic_sh(at, &[]), "help\nquit\nfrob\n");
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("describe") && out.contains("quit"), "{out}");
}

/// With standard input and output on a terminal.
fn on_a_terminal(at: &str) {
    let typed = |no_color: &str| {
        let mut command = Command::new("script");
        let program = format!("exec '{}'", env!("CARGO_BIN_EXE_ic_sh"));
        command.args(["-qec", &program, "/dev/null"]);
        command.env("NDB_CONNECTSTRING", at).env("NO_COLOR", no_color).env("TERM", "xterm");
        lines(command, &format!("describe {TABLE}\nfrob\nquit\n"))
    };
    let (code, out, _) = typed("");
    assert_eq!(code, 0, "what goes wrong at a prompt is no failure: {out}");
    assert!(out.contains("ic_sh> ") && out.contains("help shows the commands"), "{out}");
    assert!(
        out.contains("\x1b[1mtable           ") && out.contains("id       Int           NOT NULL"),
        "{out}"
    );
    assert!(!out.contains('\t'), "{out}");
    let (_, out, _) = typed("1");
    assert!(!out.contains('\x1b') && out.contains("id       Int           NOT NULL"), "{out}");
}

#[test]
fn commands_on_embedded_nodes() {
    for nodes in [2, 4] {
        let options = embedded::Options { nodes, ..embedded::Options::default() };
        let nodes = EmbeddedCluster::start(options).expect("embedded nodes");
        commands(&nodes.connectstring());
    }
}

#[test]
#[cfg_attr(not(real_cluster), ignore = "needs a real cluster: set IC_NDB_HOME")]
fn commands_on_a_real_cluster() {
    if let Ok(connectstring) = std::env::var("IC_TEST_CONNECTSTRING") {
        return commands(&connectstring);
    }
    let dir = tempfile::tempdir().expect("a directory for the cluster");
    let cluster = NdbCluster::start(Options::new(dir.path())).unwrap_or_else(|error| panic!("{error}"));
    commands(&cluster.connectstring());
}

/// A node that does not run is said to.
#[test]
fn a_node_is_down() {
    let nodes = EmbeddedCluster::start(embedded::Options::default()).expect("embedded nodes");
    nodes.kill(2).expect("an end of node 2");
    let said = good(&nodes.connectstring(), &["state"]);
    assert!(said.contains("1 of 2 usable") && said.contains("\tnot connected\t-\t"), "{said}");
}

#[test]
fn command_lines_at_fault() {
    for args in [&["frob"][..], &["get", "t"], &["describe"], &["--frob"]] {
        let (code, out, err) = run("127.0.0.1:1", args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains("Usage: ic_sh"), "{err}");
    }
    let (code, _, err) = run("", &["state"]);
    assert!(code == 2 && err.contains("ic_node"), "{code} {err}");
    let said = bad("nonsense:x", &["state"]);
    assert!(said.contains("nonsense"), "{said}");
}
