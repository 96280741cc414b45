//! What the command lines of all programs have in common.

use std::io::Write;

use clap::error::Error;
use clap::{Arg, CommandFactory, Parser, value_parser};
use clap_complete::{Shell, generate};

const COMPLETIONS: &str = "completions";

/// Reads the command line. Ends the program if it is at fault, or if it asks for help, for the version, or for what a
/// shell needs to complete it: every program has `--completions SHELL`.
pub fn parse<T: Parser + CommandFactory>() -> T {
    let option = Arg::new(COMPLETIONS)
        .long(COMPLETIONS)
        .value_name("SHELL")
        .value_parser(value_parser!(Shell))
        .hide_possible_values(true)
        .exclusive(true)
        .help("Print what bash, zsh, fish, elvish or powershell needs to complete this command line");
    let mut command = T::command().arg(option);
    let first = std::env::args_os().nth(1).unwrap_or_default();
    if first.to_string_lossy().starts_with(&format!("--{COMPLETIONS}")) {
        command = command.subcommand_required(false);
    }
    let mut matches = command.clone().get_matches();
    if let Some(shell) = matches.remove_one::<Shell>(COMPLETIONS) {
        let name = command.get_name().to_owned();
        let mut script = Vec::new();
        generate(shell, &mut command, name, &mut script);
        // A reader that has read enough is no failure.
        let _ = std::io::stdout().write_all(&script);
        std::process::exit(0);
    }
    T::from_arg_matches_mut(&mut matches).unwrap_or_else(|error: Error| error.format(&mut command).exit())
}
