//! Embedded data nodes as a process: in memory, gone when it ends.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use iclaustron::embedded::{EmbeddedCluster, Options};
use iclaustron::tools::command_line;

/// Runs embedded NDB data nodes, in memory and not durable, until it is interrupted. Prints their
/// connectstring when clients can connect.
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version)]
struct Arguments {
    /// Data nodes
    #[arg(long, default_value_t = 2)]
    nodes: u16,
    /// Copies of each row
    #[arg(long, default_value_t = 2)]
    replicas: u16,
    /// Port of the management endpoint; any free one if none is given
    #[arg(long)]
    port: Option<u16>,
    /// Node ids for clients
    #[arg(long, default_value_t = 48)]
    api_slots: u16,
    /// Decides what nodes leave to chance
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How long an operation waits for a lock, in milliseconds
    #[arg(long, default_value_t = 1200)]
    lock_timeout: u64,
}

fn main() -> ExitCode {
    let arguments: Arguments = command_line::parse();
    let options = Options {
        nodes: arguments.nodes,
        replicas: arguments.replicas,
        port: arguments.port,
        api_slots: arguments.api_slots,
        seed: arguments.seed,
        lock_timeout: Duration::from_millis(arguments.lock_timeout),
        ..Options::default()
    };
    let cluster = match EmbeddedCluster::start(options) {
        Ok(cluster) => cluster,
        Err(error) => {
            eprintln!("ic_node: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{}", cluster.connectstring());
    eprintln!("{} data nodes are ready; everything is in memory and ends with this process", arguments.nodes);
    loop {
        std::thread::sleep(Duration::from_secs(1));
        cluster.log().iter().for_each(|line| eprintln!("{line}"));
    }
}
