//! Synchronous committed reads on one thread, against ndbsync: CONNECTSTRING, threads, seconds and rows are its
//! arguments, and it prints one JSON object.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use iclaustron::error::Error;
use serde_json::{Value, json};

use super::ours::{self, failed};
use super::{Contest, Measured};
use crate::options::SyncCompare;

/// Rows of each table.
const ROWS: &str = "100000";

/// The reads.
pub struct Reads {
    program: PathBuf,
    connectstring: Option<String>,
    seconds: String,
}

impl Reads {
    /// Reads as the options say.
    pub fn new(compare: &SyncCompare, connectstring: Option<&str>) -> Reads {
        Reads {
            program: compare.ndbsync.clone(),
            connectstring: connectstring.map(str::to_owned),
            seconds: compare.pairs.seconds.to_string(),
        }
    }
}

impl Contest for Reads {
    fn title(&self) -> String {
        "synchronous read, 1 thread".into()
    }

    fn fields(&self) -> Value {
        json!({ "operation": "read", "threads": 1, "in_flight": 1 })
    }

    fn prepare(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn theirs(&self) -> Result<Measured, Error> {
        // It wants to be told, also where the environment tells.
        let named = self.connectstring.clone().or_else(|| std::env::var("NDB_CONNECTSTRING").ok());
        let arguments = [&named.unwrap_or_default(), "1", &self.seconds, ROWS];
        let output = Command::new(&self.program).args(arguments).stderr(Stdio::inherit()).output();
        let output =
            output.map_err(|error| failed(format!("running {}: {error}", self.program.display())))?;
        match ours::measured(&output.stdout) {
            Some(measured) if output.status.success() => Ok(measured),
            _ => Err(failed(format!("{}: {}", self.program.display(), output.status))),
        }
    }

    fn ours(&self) -> Result<Measured, Error> {
        let arguments = ["--sync", "--rows", ROWS, "--seconds", &self.seconds].map(str::to_owned);
        ours::run(self.connectstring.as_deref(), &arguments)
    }
}
