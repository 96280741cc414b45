//! Load for an NDB Cluster: key operations kept in flight through the library, and what they cost the client.

mod load;
mod nodes;
mod options;
mod report;
mod run;
mod table;
mod usage;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use iclaustron::cluster::{self, Cluster};
use iclaustron::error::Error;
use options::{Load, Options};
use report::Report;

fn main() -> ExitCode {
    let load = Options::parse().load;
    if let Err(text) = load.check() {
        Options::command().error(clap::error::ErrorKind::ValueValidation, text).exit();
    }
    match measure(&load) {
        Ok(report) => {
            let text = if load.json { report.json().to_string() } else { report.to_string() };
            // A reader that has read enough is no failure.
            let _ = writeln!(std::io::stdout(), "{text}");
            if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("ic_bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(load: &Load) -> Result<Report, Error> {
    let nodes = nodes::choose(load.connectstring.as_deref())?;
    let cluster = connect(load, nodes.connectstring())?;
    let show_progress = !load.json && std::io::stderr().is_terminal();
    let report =
        table::prepare(&cluster, load.rows).and_then(|t| run::run(&cluster, &t, load, show_progress));
    cluster.disconnect();
    report
}

fn connect(load: &Load, connectstring: Option<&str>) -> Result<Arc<Cluster>, Error> {
    let options = cluster::Options {
        receive_threads: load.receive_threads.into(),
        hold: Duration::from_micros(load.hold_us.into()),
        lend_receive: load.receive == options::Receive::Lent,
        ..Default::default()
    };
    Cluster::connect(connectstring, &options)
}
