//! A shell for an NDB Cluster: its tables, its nodes, single rows.

mod commands;
mod page;
mod prompt;
mod value;

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use commands::{Command, Session};
use iclaustron::tools::command_line;

/// Looks into an NDB Cluster: its tables, where their rows are, its data nodes, single rows.
///
/// Without a command it reads commands line by line: at a prompt on a terminal, else from standard input.
///
/// On a terminal answers are aligned; in a pipe they are lines with tabs between their parts. Timestamps are
/// in UTC.
///
/// The exit status is 1 if a command failed, 2 if the command line is at fault.
#[derive(Debug, Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version)]
struct Options {
    /// Where the management server is, as host:port [default: $NDB_CONNECTSTRING]
    #[arg(long, value_name = "STRING")]
    connectstring: Option<String>,
    #[command(subcommand)]
    command: Option<Command>,
}

fn main() -> ExitCode {
    let options: Options = command_line::parse();
    let named = std::env::var_os("NDB_CONNECTSTRING").is_some_and(|text| !text.is_empty());
    if options.connectstring.is_none() && !named {
        let text = "no --connectstring and no NDB_CONNECTSTRING: give host:port of a cluster's management server; \
                    for a try-out, ic_node runs embedded data nodes and prints theirs";
        Options::command().error(ErrorKind::MissingRequiredArgument, text).exit();
    }
    let mut session = match Session::connect(options.connectstring.as_deref()) {
        Ok(session) => session,
        Err(error) => {
            say(&error.to_string());
            return ExitCode::FAILURE;
        }
    };
    let good = match options.command {
        None => prompt::run(&mut session),
        Some(command) => match session.run(&command) {
            Ok(text) => {
                print(&text);
                true
            }
            Err(error) => {
                say(&error.to_string());
                false
            }
        },
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints what a command says. A reader that has read enough is no failure.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Says what went wrong.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "ic_sh: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }
}
