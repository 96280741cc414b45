//! Starts and steers a real NDB cluster on the loopback. Its programs are found by IC_NDB_HOME.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use iclaustron::tools::command_line;
use iclaustron::tools::ndb_cluster::{Error, NdbCluster, Options};

/// Starts and steers a real NDB cluster on the loopback; IC_NDB_HOME names the directory whose bin holds its
/// programs.
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version)]
struct Arguments {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Start a new cluster in a directory, print its connectstring, and leave it running
    Start(Start),
    /// Print the connectstring
    Connectstring { dir: PathBuf },
    /// Show all nodes and their states
    Status { dir: PathBuf },
    /// End all of the cluster
    Stop { dir: PathBuf },
    /// End data nodes as a crash does
    Kill(Nodes),
    /// Halt data nodes: their sockets stay open
    Pause(Nodes),
    /// Let halted data nodes go on
    Continue(Nodes),
    /// Start data nodes that do not run, and wait until all are started
    Restart(Nodes),
    /// Count a table's rows
    Rows(Table),
    /// Show what NDB knows about a table
    Describe(Table),
}

#[derive(Args)]
struct Start {
    dir: PathBuf,
    /// Data nodes
    #[arg(long, default_value_t = 2)]
    nodes: u16,
    /// NoOfReplicas
    #[arg(long, default_value_t = 2)]
    replicas: u16,
    /// MaxNoOfExecutionThreads
    #[arg(long, default_value_t = 2)]
    threads: u16,
    /// Node ids for clients
    #[arg(long, default_value_t = 32)]
    slots: u16,
    /// A line for the data nodes' section of config.ini, for example HeartbeatIntervalDbApi=500; repeatable
    #[arg(long)]
    set: Vec<String>,
}

#[derive(Args)]
struct Nodes {
    dir: PathBuf,
    #[arg(required = true)]
    nodes: Vec<u16>,
}

#[derive(Args)]
struct Table {
    dir: PathBuf,
    db: String,
    table: String,
}

fn main() -> ExitCode {
    let arguments: Arguments = command_line::parse();
    match run(arguments.command) {
        Ok(text) if text.is_empty() => ExitCode::SUCCESS,
        // A reader that has read enough is no failure.
        Ok(text) => {
            let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("ic_cluster: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<String, Error> {
    match verb {
        Verb::Start(start) => {
            let mut cluster = NdbCluster::start(Options {
                dir: start.dir,
                nodes: start.nodes,
                replicas: start.replicas,
                threads: start.threads,
                slots: start.slots,
                extra: start.set,
            })?;
            cluster.leave_running();
            Ok(cluster.connectstring())
        }
        Verb::Connectstring { dir } => Ok(NdbCluster::attach(dir)?.connectstring()),
        Verb::Status { dir } => NdbCluster::attach(dir)?.status(),
        Verb::Stop { dir } => NdbCluster::attach(dir)?.stop().map(done),
        Verb::Kill(at) => each(at, |cluster, node| cluster.kill(node)),
        Verb::Pause(at) => each(at, |cluster, node| cluster.pause(node)),
        Verb::Continue(at) => each(at, |cluster, node| cluster.resume(node)),
        Verb::Restart(at) => {
            let mut cluster = NdbCluster::attach(at.dir)?;
            // Before waiting, so that a node that is slow to start is not ended for it.
            cluster.leave_running();
            cluster.restart(&at.nodes).map(done)
        }
        Verb::Rows(at) => Ok(NdbCluster::attach(at.dir)?.rows(&at.db, &at.table)?.to_string()),
        Verb::Describe(at) => NdbCluster::attach(at.dir)?.describe(&at.db, &at.table),
    }
}

fn each(at: Nodes, act: impl Fn(&mut NdbCluster, u16) -> Result<(), Error>) -> Result<String, Error> {
    let mut cluster = NdbCluster::attach(at.dir)?;
    at.nodes.into_iter().try_for_each(|node| act(&mut cluster, node)).map(done)
}

fn done(_: ()) -> String {
    String::new()
}
