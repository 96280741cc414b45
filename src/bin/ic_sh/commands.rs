//! The commands, each from the dictionary, the nodes, or one read.

use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;
use iclaustron::cluster::{Cluster, Options};
use iclaustron::conn::{Connection, Operation};
use iclaustron::dict::client::Client;
use iclaustron::dict::record::Record;
use iclaustron::dict::schema::is_stale_definition;
use iclaustron::dict::standing::Standing;
use iclaustron::dict::table::{Column, FragmentType, Table};
use iclaustron::error::{Error, message, ndb, own};
use iclaustron::wire::NodeId;
use iclaustron::wire::transaction::LockMode;

use crate::page::Page;
use crate::value;

/// How long data nodes may take to let this client in.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long one wait for a row is; the library's own deadline ends it all.
const POLL: Duration = Duration::from_millis(100);

/// What there is to ask.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the tables of a database, or of all
    Tables {
        /// The database
        database: Option<String>,
    },
    /// Show a table's columns, how its rows are spread, and where its fragments are
    Describe {
        /// The table, as DATABASE.TABLE; the database may be left out if only one has such a table
        table: String,
    },
    /// Show the row of a primary key, as it was committed last
    Get(Key),
    /// Show the fragment that a primary key belongs to, and its nodes
    Owner(Key),
    /// Show the data nodes and this client
    State,
}

/// A table and a primary key.
#[derive(Debug, clap::Args)]
pub struct Key {
    /// The table, as DATABASE.TABLE; the database may be left out if only one has such a table
    pub table: String,
    /// A value for each column of the primary key, in column order: numbers, text, dates as YYYY-MM-DD,
    /// binary as 0x and hexadecimal digits. Behind -- what begins with a minus and is no number
    #[arg(required = true, allow_negative_numbers = true)]
    pub key: Vec<String>,
}

/// A client of a cluster.
pub struct Session {
    cluster: Arc<Cluster>,
    dictionary: Client,
}

/// An open table.
struct Open {
    table: Arc<Table>,
    standing: Arc<Standing>,
    /// All columns but blobs.
    record: Arc<Record>,
}

impl Session {
    /// Joins a cluster; without a connectstring that of the environment.
    pub fn connect(connectstring: Option<&str>) -> Result<Session, Error> {
        let options = Options { connect_limit: CONNECT_LIMIT, ..Options::default() };
        let cluster = Cluster::connect(connectstring, &options)?;
        let dictionary = Client::new(cluster.clone())?;
        Ok(Session { cluster, dictionary })
    }

    /// The node id of this client.
    pub fn own_node(&self) -> NodeId {
        self.cluster.own_node
    }

    /// Runs a command. What it says.
    pub fn run(&mut self, command: &Command) -> Result<String, Error> {
        let mut page = Page::new();
        match command {
            Command::Tables { database } => self.tables(&mut page, database.as_deref())?,
            Command::Describe { table } => describe(&mut page, &self.open(table)?.table),
            Command::Get(key) => self.get(&mut page, key)?,
            Command::Owner(key) => self.owner(&mut page, key)?,
            Command::State => self.state(&mut page),
        }
        Ok(page.finish())
    }

    fn tables(&mut self, page: &mut Page, database: Option<&str>) -> Result<(), Error> {
        for table in self.dictionary.list(database)? {
            page.line(&format!("{}.{}", text(&table.database), text(&table.name)));
        }
        Ok(())
    }

    fn get(&mut self, page: &mut Page, key: &Key) -> Result<(), Error> {
        let open = self.open(&key.table)?;
        let (open, row) = match self.read(&open, &key.key) {
            // The definition was of a table that is gone: there may be another now.
            Err(error) if is_stale_definition(error.code) => {
                let open = self.open(&key.table)?;
                let row = self.read(&open, &key.key)?;
                (open, row)
            }
            read => (open, read?),
        };
        let shown = open.table.columns.iter().map(|column| {
            let value = match open.record.field(column.id) {
                None => "(a blob: not read)".to_owned(),
                Some(field) if field.is_null(&row) => "NULL".to_owned(),
                Some(field) => match field.value(&row) {
                    Ok(value) => value::show(column, value),
                    Err(code) => format!("({})", said(code)),
                },
            };
            (text(&column.name), value)
        });
        page.assignments(&shown.collect::<Vec<_>>());
        Ok(())
    }

    /// The row of a key.
    fn read(&self, open: &Open, key: &[String]) -> Result<Vec<u8>, Error> {
        let key = key_row(open, key)?;
        let failed = |code: i32| Error::new(code, said(code));
        let mut connection = Connection::new(self.cluster.clone()).map_err(failed)?;
        let row = read(&mut connection, open, &key);
        connection.finish(CONNECT_LIMIT);
        row.map_err(failed)
    }

    fn owner(&mut self, page: &mut Page, key: &Key) -> Result<(), Error> {
        let open = self.open(&key.table)?;
        let row = key_row(&open, &key.key)?;
        let Open { table, record, .. } = open;
        let Some(fragment) = table.fragment_for_key(&record, &row) else {
            page.facts(&[("hint", "0".into()), ("fragment", format!("not known: {}", why_unknown(&table)))]);
            return Ok(());
        };
        let nodes = table.nodes_of(fragment);
        page.facts(&[
            ("hint", (fragment + 1).to_string()),
            ("fragment", fragment.to_string()),
            ("primary", numbers(&nodes[..nodes.len().min(1)])),
            ("backups", numbers(nodes.get(1..).unwrap_or_default())),
        ]);
        Ok(())
    }

    fn state(&self, page: &mut Page) {
        let (usable, _, all) = self.cluster.counts();
        page.facts(&[
            ("client node", self.own_node().to_string()),
            ("data nodes", format!("{usable} of {all} usable")),
        ]);
        let rows: Vec<_> = (self.cluster.nodes.iter().enumerate())
            .map(|(at, node)| {
                let state = match (node.usable().is_some(), node.connected()) {
                    (true, _) => "usable",
                    (false, true) => "connected",
                    (false, false) => "not connected",
                };
                vec![
                    node.id.to_string(),
                    node.host.clone(),
                    state.to_owned(),
                    node.version().map_or("-".into(), |version| version.to_string()),
                    node.group().map_or("-".into(), |group| group.to_string()),
                    self.cluster.news(at),
                ]
            })
            .collect();
        page.sheet("node", &["node", "host", "state", "version", "node group", "news"], &rows);
    }

    fn open(&mut self, name: &str) -> Result<Open, Error> {
        let (database, table) = match name.split_once('.') {
            Some((database, table)) => (database.to_owned(), table.to_owned()),
            None => (self.database_of(name)?, name.to_owned()),
        };
        let opened = self.dictionary.open(&database, &table).map_err(|error| match error.code {
            ndb::NO_SUCH_TABLE => Error::new(error.code, format!("no table {database}.{table}")),
            _ => error,
        });
        let (table, standing) = opened?;
        let record = Arc::new(Record::natural(&table));
        Ok(Open { table, standing, record })
    }

    /// The only database with a table of that name.
    fn database_of(&mut self, name: &str) -> Result<String, Error> {
        let tables = self.dictionary.list(None)?;
        let mut of_name = tables.iter().filter(|table| table.name == name.as_bytes());
        match (of_name.next(), of_name.next()) {
            (Some(only), None) => Ok(text(&only.database)),
            (None, _) => Err(Error::new(ndb::NO_SUCH_TABLE, format!("no table {name} in any database"))),
            (Some(one), Some(other)) => {
                let [one, other] = [one, other].map(|table| text(&table.database));
                let text = format!("{name} is a table of {one} and of {other}: say which, as {one}.{name}");
                Err(Error::new(own::INVALID_NAME, text))
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.cluster.disconnect();
    }
}

fn read(connection: &mut Connection<()>, open: &Open, key: &[u8]) -> Result<Vec<u8>, i32> {
    let Open { table, standing, record } = open;
    let query =
        connection.create_query(table.clone(), standing.clone(), record.clone(), Some(record.clone()), ())?;
    connection.rows(query)?.0.bytes_mut().copy_from_slice(key);
    let transaction = connection.start_transaction_for(connection.hint_for_query(query)?, query)?;
    connection.define(query, transaction, Operation::Read(LockMode::Committed), false, ())?;
    connection.commit(transaction)?;
    connection.send(true);
    while connection.next_executed().is_none() {
        connection.poll(POLL)?;
    }
    match connection.query_error(query)? {
        0 => Ok(connection.rows(query)?.1.bytes().to_vec()),
        code => Err(code),
    }
}

/// A row with a key in it.
fn key_row(open: &Open, key: &[String]) -> Result<Vec<u8>, Error> {
    let columns: Vec<&Column> = open.table.primary_key.iter().map(|&at| &open.table.columns[at]).collect();
    let wrong = |text: String| Error::new(own::INVALID_ARGUMENT, text);
    if columns.len() != key.len() {
        let named: Vec<_> = columns.iter().map(|column| typed_name(column)).collect();
        return Err(wrong(format!("the primary key is {}; values given: {}", named.join(", "), key.len())));
    }
    let mut row = vec![0; open.record.row_size()];
    for (column, given) in columns.into_iter().zip(key) {
        let name = text(&column.name);
        let value = value::parse(column, given)
            .map_err(|expected| wrong(format!("key column {name}: {expected}")))?;
        let place = open.record.field(column.id).map(|field| field.offset as usize);
        let room = place.and_then(|at| row.get_mut(at..at + value.len()));
        room.ok_or_else(|| wrong(format!("key column {name} cannot be given")))?.copy_from_slice(&value);
    }
    Ok(row)
}

fn describe(page: &mut Page, table: &Table) {
    let (database, _, name) = table.names();
    let replicas = table.fragments.iter().map(Vec::len).max().unwrap_or(0);
    let spread = match table.fragment_type {
        FragmentType::HashMap => {
            let buckets = table.hash_map.as_ref().map_or(0, |map| map.buckets.len());
            format!("by a hash map of {buckets} buckets")
        }
        FragmentType::Modulo => "by a hash, modulo".into(),
        FragmentType::Linear => "by linear hashing".into(),
        FragmentType::Other(number) => format!("by no hash: fragment type {number}"),
    };
    let has = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    page.facts(&[
        ("table", format!("{}.{}", text(database), text(name))),
        ("id", table.id.number().to_string()),
        ("version", format!("{}.{}", table.version & 0xff_ffff, table.version >> 24)),
        ("primary key", key_names(table, &table.primary_key)),
        ("distribution key", key_names(table, &table.distribution_key)),
        ("rows are spread", spread),
        ("partitions", table.partition_count.max(1).to_string()),
        ("fragments", table.fragments.len().to_string()),
        ("replicas", replicas.to_string()),
        ("read backup", has(table.read_backup)),
        ("fully replicated", has(table.fully_replicated)),
        ("logged", has(table.logged)),
    ]);
    let columns: Vec<_> = (table.columns.iter().enumerate())
        .map(|(at, column)| {
            let marks = [
                (table.primary_key.contains(&at), "primary key"),
                (table.distribution_key.contains(&at), "distribution key"),
                (column.auto_increment, "auto-increment"),
                (column.on_disk, "on disk"),
                (column.dynamic, "dynamic"),
            ];
            let marks = marks.iter().filter(|(holds, _)| *holds).map(|(_, mark)| (*mark).to_owned());
            let default =
                column.default.as_ref().map(|bytes| format!("default {}", value::show(column, bytes)));
            let null = if column.nullable { "NULL" } else { "NOT NULL" };
            let charset = if column.charset == 0 { "-".into() } else { column.charset.to_string() };
            let marks = marks.chain(default).collect::<Vec<_>>().join(", ");
            vec![text(&column.name), value::type_name(column), null.into(), charset, marks]
        })
        .collect();
    page.sheet("column", &["column", "type", "", "collation", ""], &columns);
    let fragments: Vec<_> = (table.fragments.iter().enumerate())
        .map(|(at, nodes)| {
            let (primary, backups) = nodes.split_at(nodes.len().min(1));
            vec![at.to_string(), numbers(primary), numbers(backups)]
        })
        .collect();
    page.sheet("fragment", &["fragment", "primary", "backups"], &fragments);
}

fn why_unknown(table: &Table) -> &'static str {
    match table.fragment_type {
        FragmentType::Other(_) => "rows of this table follow no hash",
        _ if !table.hash_is_known => "the table has a hash that is not NDB's",
        _ => "a key column's collation has weights that are not known here",
    }
}

fn key_names(table: &Table, key: &[usize]) -> String {
    let names: Vec<_> = key.iter().filter_map(|&at| table.columns.get(at)).map(|c| text(&c.name)).collect();
    names.join(", ")
}

fn typed_name(column: &Column) -> String {
    format!("{} {}", text(&column.name), value::type_name(column))
}

fn numbers(nodes: &[NodeId]) -> String {
    let nodes: Vec<_> = nodes.iter().map(ToString::to_string).collect();
    if nodes.is_empty() { "-".into() } else { nodes.join(" ") }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn said(code: i32) -> String {
    message(code).to_string_lossy().into_owned()
}
