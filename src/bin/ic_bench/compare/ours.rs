//! This program as a child, so that it starts as afresh as the other one does.

use std::io;
use std::process::{Command, Stdio};

use iclaustron::error::{Error, own};
use serde_json::Value;

use super::Measured;

/// An error of a run, in words.
pub fn failed(what: impl Into<String>) -> Error {
    Error::new(own::INTERNAL, what)
}

/// Runs ic_bench with these arguments.
pub fn run(connectstring: Option<&str>, arguments: &[String]) -> Result<Measured, Error> {
    let started = |error: io::Error| failed(format!("running ic_bench: {error}"));
    let mut command = Command::new(std::env::current_exe().map_err(started)?);
    command.arg("--json").args(arguments).stderr(Stdio::inherit());
    if let Some(connectstring) = connectstring {
        command.args(["--connectstring", connectstring]);
    }
    let output = command.output().map_err(started)?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout);
        return Err(failed(format!("ic_bench {}: {}: {}", arguments.join(" "), output.status, text.trim())));
    }
    measured(&output.stdout).ok_or_else(|| failed("ic_bench told no figures"))
}

/// What a line of JSON tells; ours and ndbsync's have the same names.
pub fn measured(line: &[u8]) -> Option<Measured> {
    let json: Value = serde_json::from_slice(line).ok()?;
    let number = |name: &str| json[name].as_f64();
    let (per_second, cpu, p50) =
        (number("ops_per_second")?, number("client_cpu_ns_per_op")?, number("p50_us"));
    Some(Measured { per_second, cpu, p50, json })
}
