//! Embedded data nodes as a process: in memory, gone when it ends.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use iclaustron::embedded::{EmbeddedCluster, Options};
use iclaustron::error::own;
use iclaustron::tools::command_line;

/// Runs embedded NDB data nodes, in memory and not durable, until it is interrupted. Prints their
/// connectstring when clients can connect.
///
/// The exit status is 1 if they could not be started, 2 if the command line is at fault.
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version)]
struct Arguments {
    /// Data nodes
    #[arg(long, value_name = "N", default_value_t = 2)]
    nodes: u16,
    /// Copies of each row [default: 2, of a single node 1]
    #[arg(long, value_name = "N")]
    replicas: Option<u16>,
    /// Port of the management endpoint; any free one if none is given
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Node ids for clients
    #[arg(long, value_name = "N", default_value_t = 48)]
    api_slots: u16,
    /// Decides what nodes leave to chance
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How long an operation waits for a lock, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1200)]
    lock_timeout: u64,
}

fn main() -> ExitCode {
    let arguments: Arguments = command_line::parse();
    let options = Options {
        nodes: arguments.nodes,
        replicas: arguments.replicas.unwrap_or(arguments.nodes.clamp(1, 2)),
        port: arguments.port,
        api_slots: arguments.api_slots,
        seed: arguments.seed,
        lock_timeout: Duration::from_millis(arguments.lock_timeout),
        ..Options::default()
    };
    let cluster = match EmbeddedCluster::start(options) {
        Ok(cluster) => cluster,
        Err(error) if error.code == own::INVALID_ARGUMENT => {
            Arguments::command().error(ErrorKind::ValueValidation, error.text).exit()
        }
        Err(error) => {
            say(format_args!("ic_node: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let connectstring = cluster.connectstring();
    let _ = writeln!(std::io::stdout(), "{connectstring}");
    say(format_args!(
        "{} data nodes are ready; everything is in memory and ends with this process",
        arguments.nodes
    ));
    if std::io::stdout().is_terminal() {
        say(format_args!("for clients: export NDB_CONNECTSTRING={connectstring}; Ctrl-C ends the nodes"));
    }
    loop {
        std::thread::sleep(Duration::from_secs(1));
        cluster.log().iter().for_each(say);
    }
}

/// Tells a person. That nobody reads it is no reason to end.
fn say(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
