//! Load for an NDB Cluster: key operations kept in flight through the library, and what they cost the client.

mod allocations;
mod compare;
mod figures;
mod keys;
mod load;
mod models;
mod nodes;
mod options;
mod page;
mod report;
mod run;
mod sweep;
mod table;
mod usage;

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::CommandFactory;
use iclaustron::error::Error;
use iclaustron::tools::command_line;
use options::{Command, Load, Options};
use report::Report;

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

fn main() -> ExitCode {
    let options: Options = command_line::parse();
    let done = match &options.command {
        None => single(&options.load),
        Some(Command::Sweep(sweep)) => sweep::run(sweep),
        Some(Command::Compare(compare)) => compare::with_flex(compare),
        Some(Command::SyncCompare(compare)) => compare::with_ndbsync(compare),
        Some(Command::Models(models)) => models::run(models),
        #[cfg(feature = "embedded")]
        Some(Command::Nodes) => nodes::embedded::serve().map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ic_bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One run of one load; whether it was clean.
fn single(load: &Load) -> Result<bool, Error> {
    check(load);
    let report = measure(load)?;
    match load.common.json {
        true => print(report.json()),
        false => print(&report),
    }
    Ok(report.is_clean())
}

fn measure(load: &Load) -> Result<Report, Error> {
    let nodes = nodes::choose(load.common.connectstring.as_deref())?;
    let cluster = run::connect(&load.common, nodes.connectstring())?;
    let show_progress = !load.common.json && std::io::stderr().is_terminal();
    let report =
        run::prepare(&cluster, &load.common).and_then(|t| run::run(&cluster, &t, load, show_progress));
    cluster.disconnect();
    report
}

/// Ends the program if the options do not fit together.
fn check(load: &Load) {
    if let Err(text) = load.check() {
        Options::command().error(clap::error::ErrorKind::ValueValidation, text).exit();
    }
}

/// Prints a line or a table. A reader that has read enough is no failure.
fn print(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
