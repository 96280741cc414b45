//! flexAsynch, the asynchronous benchmark on the NDB API that comes with NDB
//! (storage/ndb/test/ndbapi/flexAsynch.cpp).
//!
//! What its figures cover. With a warm-up and a cool-down of no time, its threads work for -execution_time and it
//! prints the transactions of all that time, so the operations of a run are known in full. Its processor time is
//! that of its whole process, and holds beside those operations the start and the end of the process (the connection to the
//! cluster, the table, about 20 ms). That part is measured by a run of no execution time, once for each kind of
//! work, and subtracted. Subtracting a shorter run instead would double the noise for the same end: the work of a
//! run is proportional to its length, but not exactly repeatable.

use std::ffi::OsStr;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use clap::{CommandFactory, error::ErrorKind};
use iclaustron::error::Error;
use serde_json::{Value, json};

use super::ours::{self, failed};
use super::{Contest, Measured};
use crate::options::{Compare, Operation, Options, name};
use crate::usage::Usage;

/// In flight on one thread, and on each of several.
const ONE_THREAD: [u32; 3] = [50, 200, 400];
const SEVERAL_THREADS: [u32; 1] = [100];

/// One kind of work.
pub struct Work {
    program: PathBuf,
    connectstring: Option<String>,
    operation: Operation,
    threads: u32,
    in_flight: u32,
    /// Operations that each transaction in flight is for.
    loops: u32,
    seconds: u32,
    ours: Vec<String>,
    /// flexAsynch's table has rows for this `in_flight` from the work before.
    is_filled: bool,
    start_up: Duration,
}

/// All kinds of work that the options ask for. Ends the program if flexAsynch cannot do one.
pub fn contests(compare: &Compare, connectstring: Option<&str>) -> Result<Vec<Work>, Error> {
    let usage = |text: String| Options::command().error(ErrorKind::ValueValidation, text).exit();
    let usual: &[u32] = if compare.threads == 1 { &ONE_THREAD } else { &SEVERAL_THREADS };
    let in_flight = if compare.in_flight.is_empty() { usual } else { &compare.in_flight };
    let threads = compare.threads as u32;
    let mut all = Vec::new();
    for &in_flight in in_flight {
        if !compare.rows.is_multiple_of(threads * in_flight) {
            usage(format!(
                "--rows {} is no multiple of {threads} threads with {in_flight} in flight",
                compare.rows
            ));
        }
        for (at, &operation) in compare.operation.iter().enumerate() {
            if !matches!(operation, Operation::Read | Operation::Update) {
                usage(format!("flexAsynch is compared in read and update, not in {}", name(operation)));
            }
            all.push(Work {
                program: compare.flex.clone(),
                connectstring: connectstring.map(str::to_owned),
                operation,
                threads,
                in_flight,
                loops: compare.rows / (threads * in_flight),
                seconds: compare.pairs.seconds,
                ours: compare.ours.split_whitespace().map(str::to_owned).collect(),
                is_filled: at > 0,
                start_up: Duration::ZERO,
            });
        }
    }
    Ok(all)
}

/// What flexAsynch has printed and used.
struct Ran {
    status: ExitStatus,
    text: String,
    usage: Usage,
}

impl Work {
    fn run(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Ran, Error> {
        let failed = |error| failed(format!("running {}: {error}", self.program.display()));
        let mut command = Command::new(&self.program);
        let shape = format!("-t {} -p {} -o {}", self.threads, self.in_flight, self.loops);
        // Two columns of a word, one operation a transaction, one cluster connection.
        command.args(["-n"]).args(shape.split(' '));
        command.args("-l 1 -a 2 -s 1 -c 1 -con 1 -ndbrecord".split(' ')).args(arguments);
        if let Some(connectstring) = &self.connectstring {
            command.env("NDB_CONNECTSTRING", connectstring);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        let mut bytes = Vec::new();
        if let Some(mut out) = child.stdout.take() {
            out.read_to_end(&mut bytes).map_err(failed)?;
        }
        let (status, usage) = Usage::of_child(child).map_err(failed)?;
        Ok(Ran { status, text: String::from_utf8_lossy(&bytes).into_owned(), usage })
    }

    /// Does the operation for so long.
    fn measure(&self, seconds: u32) -> Result<Ran, Error> {
        let operation = match self.operation {
            Operation::Update => "-update",
            // What NDB calls a committed read, flexAsynch calls dirty.
            _ => "-dirty -read",
        };
        let times = format!("-warmup_time 0 -execution_time {seconds} -cooldown_time 0");
        self.must(self.run(operation.split(' ').chain(times.split(' ')))?)
    }

    fn must(&self, ran: Ran) -> Result<Ran, Error> {
        if ran.status.success() {
            return Ok(ran);
        }
        let last: Vec<_> = ran.text.lines().rev().filter(|line| !line.is_empty()).take(3).collect();
        Err(failed(format!("{}: {}: {}", self.program.display(), ran.status, last.join("; "))))
    }

    /// Drops flexAsynch's table; there may be none.
    pub fn clean_up(&self) {
        let _ = self.run(["-drop_table"]);
    }
}

impl Contest for Work {
    fn title(&self) -> String {
        let threads = if self.threads == 1 { "1 thread".into() } else { format!("{} threads", self.threads) };
        format!("{}, {threads} with {} in flight", name(self.operation), self.in_flight)
    }

    fn fields(&self) -> Value {
        json!({
            "operation": name(self.operation),
            "threads": self.threads,
            "in_flight": self.in_flight,
            "rows": self.threads * self.in_flight * self.loops,
            "start_up_cpu_ns": self.start_up.as_nanos() as u64,
        })
    }

    fn prepare(&mut self) -> Result<(), Error> {
        if !self.is_filled {
            // Which keys it uses depends on what is in flight.
            self.clean_up();
            self.must(self.run(["-create_table"])?)?;
            self.must(self.run(["-insert"])?)?;
        }
        self.start_up = self.measure(0)?.usage.cpu();
        Ok(())
    }

    fn theirs(&self) -> Result<Measured, Error> {
        let ran = self.measure(self.seconds)?;
        let Some((operations, milliseconds)) = printed(&ran.text) else {
            return Err(failed(format!("{} has not printed what it has done", self.program.display())));
        };
        let per_second = operations * 1000.0 / milliseconds;
        let cpu = ran.usage.cpu().saturating_sub(self.start_up).as_nanos() as f64 / operations;
        let json = json!({
            "operations": operations,
            "ops_per_second": per_second,
            "client_cpu_ns_per_op": cpu,
            "process_cpu_ns": ran.usage.cpu().as_nanos() as u64,
        });
        Ok(Measured { per_second, cpu, p50: None, json })
    }

    fn ours(&self) -> Result<Measured, Error> {
        let rows = self.threads * self.in_flight * self.loops;
        let line = format!(
            "--operation {} --threads {} --in-flight {} --rows {rows} --seconds {}",
            name(self.operation),
            self.threads,
            self.in_flight,
            self.seconds
        );
        let mut arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        if self.threads > 1 && !self.ours.iter().any(|option| option.starts_with("--receive")) {
            arguments.extend(["--receive".into(), "dedicated".into()]);
        }
        arguments.extend_from_slice(&self.ours);
        ours::run(self.connectstring.as_deref(), &arguments)
    }
}

/// The transactions and the milliseconds of all threads that flexAsynch prints.
fn printed(text: &str) -> Option<(f64, f64)> {
    let number = |before: &str, after: &str| {
        let between =
            |line: &str| line.trim().strip_prefix(before)?.strip_suffix(after)?.trim().parse::<f64>().ok();
        text.lines().find_map(between)
    };
    let transactions = number("Total number of transactions is", "")?;
    // The time that was asked for is printed before, in seconds and without their name.
    let time = number("Execution time is", "milliseconds")?;
    (transactions > 0.0 && time > 0.0).then_some((transactions, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_prints() {
        let text = "\n  Warmup time is 0\n  Execution time is 2\nExecuting reads\n----\n\
                    Total number of transactions is 707321\nExecution time is 2000 milliseconds\n";
        assert_eq!(printed(text), Some((707_321.0, 2000.0)));
        assert_eq!(printed("Total number of transactions is 5\n"), None);
        assert_eq!(printed("Total number of transactions is 0\nExecution time is 0 milliseconds"), None);
    }
}
