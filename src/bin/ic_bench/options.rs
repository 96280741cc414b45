//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Operations in flight per thread unless something else is said.
const IN_FLIGHT: u32 = 200;
/// Rows of the table, and of a run that inserts or deletes each once.
const ROWS: u32 = 100_000;
const ROWS_ONCE: u32 = 1_000_000;

/// Runs key operations on table test.t9 of an NDB Cluster, many in flight on each thread, and tells what they
/// cost the client.
///
/// The table (unsigned key, one unsigned column) is created if it is missing, and filled. Each thread has a
/// connection of its own and keeps --depth batches of --batch operations in flight: a batch is sent at once,
/// and the next one as soon as so many are complete. Every value read is checked.
///
/// Without --connectstring and NDB_CONNECTSTRING the load is put on embedded data nodes, in a process of their
/// own, so that their processor time is not counted as the client's.
///
/// The exit status is 1 if a row was missing, a value was wrong, or an operation failed for good; temporary
/// errors are counted and retried. It is 2 if the command line is at fault.
#[derive(Debug, Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version, args_conflicts_with_subcommands = true)]
pub struct Options {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub load: Load,
}

/// What else there is to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measures every combination of depth, batch and threads, and writes a page with plots
    Sweep(Sweep),
    /// Compares with flexAsynch, the benchmark that comes with NDB, on the same cluster: run in turn, pair by
    /// pair
    Compare(Compare),
    /// Compares synchronous reads on one thread with ndbsync, a reader on the NDB API: run in turn, pair by
    /// pair
    SyncCompare(SyncCompare),
    /// Compares synchronous, batched synchronous and asynchronous reads
    Models(Models),
    /// Embedded data nodes: prints their connectstring, ends with its standard input
    #[cfg(feature = "embedded")]
    #[command(hide = true)]
    Nodes,
}

/// What every measurement needs to know.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Where the management server is, as host:port [default: $NDB_CONNECTSTRING, else embedded data nodes]
    #[arg(long, value_name = "STRING")]
    pub connectstring: Option<String>,
    /// What to do with the rows
    #[arg(long, value_enum, default_value_t = Operation::Read)]
    pub operation: Operation,
    /// Operations per transaction
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub transaction_size: u32,
    /// Keys of a multi-key read
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub keys_per_read: u32,
    /// Which rows; inserts and deletes take each once
    #[arg(long, value_enum, default_value_t = Keys::Uniform)]
    pub keys: Keys,
    /// Rows in the table; their keys are 0 up to this number, exclusive [default: 100000; inserts and deletes:
    /// 1000000, and the run ends when all are done]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rows: Option<u32>,
    /// Bytes of a row beside its key; with more than 4 the table is test.t9_BYTES, with a binary column
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = row_bytes)]
    pub row_bytes: u32,
    /// Length of the measured window, in seconds
    #[arg(long, value_name = "S", default_value = "5", value_parser = positive_seconds)]
    pub seconds: Duration,
    /// Load before the measured window, in seconds; inserts and deletes are measured from the first
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    pub warmup: Duration,
    /// Receive threads of the library
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub receive_threads: u16,
    /// Who reads the sockets: `lent` to a thread that polls alone, or the receive threads, `dedicated`
    /// [default: lent; with --rate dedicated, for a lent poll ends on whole milliseconds]
    #[arg(long, value_enum)]
    pub receive: Option<Receive>,
    /// Completions that a poll waits for, at most what is in flight [default: what makes room for a batch; with
    /// --rate 1]
    #[arg(long, value_name = "N")]
    pub poll_min: Option<u32>,
    /// How long a send without --force may be held for company, in microseconds
    #[arg(long, value_name = "US", default_value_t = 200)]
    pub hold_us: u32,
    /// Send at once, never held for company
    #[arg(long)]
    pub force: bool,
    /// Operations a second of all threads together, started at fixed times whether others are complete or not;
    /// latency then counts from the time an operation was to start
    #[arg(long, value_name = "N", value_parser = rate)]
    pub rate: Option<f64>,
    /// Print one JSON object on one line instead of a table, and no progress
    #[arg(long)]
    pub json: bool,
}

/// One load.
#[derive(Debug, Clone, Args)]
pub struct Load {
    #[command(flatten)]
    pub common: Common,
    /// User threads, each with a connection of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Operations of a batch: they are sent at once, as soon as there is room for them
    #[arg(long, value_name = "N", value_parser = in_flight)]
    pub batch: Option<u32>,
    /// Batches in flight per thread
    #[arg(long, value_name = "N", value_parser = in_flight)]
    pub depth: Option<u32>,
    /// Operations in flight per thread: batch times depth [default: 200, in one batch; with --rate, and of
    /// reads after writes, each transaction is a batch]
    #[arg(long, value_name = "N", value_parser = in_flight)]
    pub in_flight: Option<u32>,
    /// One transaction at a time per thread
    #[arg(long, conflicts_with_all = ["in_flight", "batch", "depth"])]
    pub sync: bool,
}

/// Every combination of depth, batch and threads.
#[derive(Debug, Args)]
pub struct Sweep {
    #[command(flatten)]
    pub common: Common,
    /// Batches in flight per thread
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,4", value_parser = in_flight)]
    pub depth: Vec<u32>,
    /// Operations of a batch
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,10,50,100,200,400",
        value_parser = in_flight)]
    pub batch: Vec<u32>,
    /// User threads
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2",
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Vec<u16>,
    /// Where to write the page
    #[arg(long, value_name = "FILE", default_value = "ic_bench.html")]
    pub output: PathBuf,
}

/// Against flexAsynch.
#[derive(Debug, Args)]
pub struct Compare {
    /// flexAsynch's program
    #[arg(long, value_name = "PATH")]
    pub flex: PathBuf,
    /// Transactions in flight per thread [default: 50,200,400; with several threads 100]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = in_flight)]
    pub in_flight: Vec<u32>,
    /// User threads; with several the library's receive thread reads the sockets
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: u16,
    /// What to do with the rows
    #[arg(
        long,
        value_name = "OPERATION,...",
        value_enum,
        value_delimiter = ',',
        default_value = "read,update"
    )]
    pub operation: Vec<Operation>,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = ROWS, value_parser = clap::value_parser!(u32).range(1..))]
    pub rows: u32,
    #[command(flatten)]
    pub pairs: Pairs,
    /// What ic_bench is given beside it, as --ours="--poll-min 100"
    #[arg(long, value_name = "OPTIONS", default_value = "", allow_hyphen_values = true)]
    pub ours: String,
}

/// Against ndbsync.
#[derive(Debug, Args)]
pub struct SyncCompare {
    /// ndbsync's program
    #[arg(long, value_name = "PATH")]
    pub ndbsync: PathBuf,
    #[command(flatten)]
    pub pairs: Pairs,
}

/// Runs in turn.
#[derive(Debug, Args)]
pub struct Pairs {
    /// Where the management server is, as host:port [default: $NDB_CONNECTSTRING, else embedded data nodes]
    #[arg(long, value_name = "STRING")]
    pub connectstring: Option<String>,
    /// Pairs of runs; who goes first changes from one to the next
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
    /// Length of each run, in whole seconds
    #[arg(long, value_name = "S", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub seconds: u32,
    /// Print one JSON object on one line instead of tables
    #[arg(long)]
    pub json: bool,
}

/// The three models.
#[derive(Debug, Args)]
pub struct Models {
    #[command(flatten)]
    pub common: Common,
    /// Operations of a batch
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = in_flight)]
    pub batch: u32,
}

/// What to do with the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Operation {
    /// Committed reads
    Read,
    /// Inserts of rows that are not there, each once
    Insert,
    /// Updates of rows that are there
    Update,
    /// Writes: updates of rows that are there, inserts of others
    Write,
    /// Deletes of rows that are there, each once
    Delete,
    /// Reads and updates, half of each
    Mixed,
    /// Committed reads of --keys-per-read keys in one call
    MultiRead,
    /// The same, after every two updates of one row each
    MultiReadAfterWrites,
}

impl Operation {
    /// Whether many keys are read in one call.
    pub fn is_multi_read(self) -> bool {
        matches!(self, Operation::MultiRead | Operation::MultiReadAfterWrites)
    }

    /// Whether each row can be had once only, so that the run ends when all are done.
    pub fn is_once(self) -> bool {
        matches!(self, Operation::Insert | Operation::Delete)
    }
}

/// Who reads the sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Receive {
    /// A thread that polls alone, else the receive thread
    Lent,
    /// The receive threads
    Dedicated,
}

/// Which rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Keys {
    /// Each as likely as the other
    Uniform,
    /// The nth likeliest in proportion to 1 / n^0.99
    Zipf,
    /// One after the other, each thread from a place of its own
    Sequential,
    /// Always the same
    One,
}

impl Common {
    /// Operations that complete together: those of a transaction, or the keys of a multi-key read.
    pub fn size(&self) -> u32 {
        if self.operation.is_multi_read() { self.keys_per_read } else { self.transaction_size }
    }

    /// The option that says so.
    fn size_option(&self) -> &'static str {
        if self.operation.is_multi_read() { "--keys-per-read" } else { "--transaction-size" }
    }

    /// Rows in the table.
    pub fn rows(&self) -> u32 {
        self.rows.unwrap_or(if self.operation.is_once() { ROWS_ONCE } else { ROWS })
    }

    /// Who reads the sockets.
    pub fn receive(&self) -> Receive {
        let usual = if self.rate.is_some() { Receive::Dedicated } else { Receive::Lent };
        self.receive.unwrap_or(usual)
    }
}

impl Load {
    /// A load with so many batches in flight.
    pub fn of(common: &Common, threads: u16, batch: u32, depth: u32) -> Load {
        let common = common.clone();
        Load { common, threads, batch: Some(batch), depth: Some(depth), in_flight: None, sync: false }
    }

    /// What the options say together, beyond what each says alone.
    pub fn check(&self) -> Result<(), String> {
        let size = self.common.size();
        let (batch, depth) = self.shape()?;
        if !batch.is_multiple_of(size) {
            return Err(format!(
                "--batch and --in-flight count operations: a batch of {batch} is no multiple of {} {size}",
                self.common.size_option()
            ));
        }
        if batch as u64 * depth as u64 > MAX_IN_FLIGHT as u64 {
            return Err(format!("--batch times --depth is more than {MAX_IN_FLIGHT}"));
        }
        Ok(())
    }

    /// Operations of a batch, and batches in flight.
    pub fn shape(&self) -> Result<(u32, u32), String> {
        let size = self.common.size();
        let whole = |all: u32, part: u32, name: &str| match all.is_multiple_of(part) {
            true => Ok(all / part),
            false => Err(format!("--in-flight {all} is no multiple of {name} {part}")),
        };
        Ok(match (self.batch, self.depth, self.in_flight) {
            _ if self.sync => (size, 1),
            (Some(batch), Some(depth), None) => (batch, depth),
            (Some(batch), Some(depth), Some(all)) if batch as u64 * depth as u64 == all as u64 => {
                (batch, depth)
            }
            (Some(_), Some(_), Some(_)) => return Err("--in-flight is not --batch times --depth".into()),
            (Some(batch), None, None) => (batch, 1),
            (Some(batch), None, Some(all)) => (batch, whole(all, batch, "--batch")?),
            (None, Some(depth), None) => ((IN_FLIGHT / 2).next_multiple_of(size), depth),
            (None, Some(depth), Some(all)) => (whole(all, depth, "--depth")?, depth),
            (None, None, all) => {
                let all = all.unwrap_or(IN_FLIGHT.next_multiple_of(size));
                // One batch has the fewest rounds for its operations. Who has few in flight, or starts by the
                // clock, starts each as soon as it can; so does who mixes: the quick ones would wait for the
                // slow ones.
                let few = all / size < 8;
                let mixes = self.common.operation == Operation::MultiReadAfterWrites;
                match few || mixes || self.common.rate.is_some() {
                    true => (size, whole(all, size, self.common.size_option())?),
                    false => (all, 1),
                }
            }
        })
    }
}

/// The name of a choice as it is given on the command line.
pub fn name(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

const MAX_IN_FLIGHT: u32 = 100_000;

fn in_flight(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number) if (1..=MAX_IN_FLIGHT).contains(&number) => Ok(number),
        _ => Err(format!("must be 1 to {MAX_IN_FLIGHT}")),
    }
}

fn row_bytes(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(number) if number % 4 == 0 && (4..=8_000).contains(&number) => Ok(number),
        _ => Err("must be 4 to 8000 and a multiple of 4".into()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.1..=1e9).contains(&rate) => Ok(rate),
        _ => Err("must be 0.1 to 1e9 operations a second".into()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn positive_seconds(text: &str) -> Result<Duration, String> {
    let duration = seconds(text)?;
    if duration.is_zero() { Err("must be more than 0".into()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Load, clap::Error> {
        Options::try_parse_from(["ic_bench"].into_iter().chain(line.split_whitespace())).map(|o| o.load)
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Options::command().debug_assert();
    }

    #[test]
    fn defaults() {
        let load = parse("").unwrap();
        assert_eq!((load.common.operation, load.common.keys), (Operation::Read, Keys::Uniform));
        assert_eq!((load.threads, load.shape(), load.common.rows()), (1, Ok((200, 1)), 100_000));
        assert_eq!(
            (load.common.warmup, load.common.seconds),
            (Duration::from_secs(1), Duration::from_secs(5))
        );
        assert_eq!(load.common.receive(), Receive::Lent);
        assert!(load.check().is_ok());
        assert_eq!(parse("--rate 1e4").unwrap().common.receive(), Receive::Dedicated);
        assert_eq!(parse("--operation delete").unwrap().common.rows(), 1_000_000);
    }

    #[test]
    fn the_shape_of_what_is_in_flight() {
        let shape = |line: &str| parse(line).unwrap().shape();
        for (line, batch, depth) in [
            ("", 200, 1),
            ("--in-flight 400", 400, 1),
            ("--in-flight 4", 1, 4),
            ("--in-flight 201", 201, 1),
            ("--batch 300", 300, 1),
            ("--depth 4", 100, 4),
            ("--batch 50 --depth 3", 50, 3),
            ("--batch 50 --in-flight 200", 50, 4),
            ("--depth 1 --in-flight 200", 200, 1),
            ("--batch 5 --depth 4 --in-flight 20", 5, 4),
            ("--transaction-size 30", 30, 7),
            ("--transaction-size 20", 200, 1),
            ("--transaction-size 30 --in-flight 60", 30, 2),
            ("--operation multi-read --in-flight 192", 192, 1),
            ("--operation multi-read-after-writes --in-flight 192", 16, 12),
            ("--sync", 1, 1),
            ("--sync --transaction-size 7", 7, 1),
            ("--rate 1000", 1, 200),
        ] {
            assert_eq!(shape(line), Ok((batch, depth)), "{line}");
            assert!(parse(line).unwrap().check().is_ok(), "{line}");
        }
        for line in [
            "--batch 3 --in-flight 10",
            "--depth 3 --in-flight 10",
            "--batch 5 --depth 4 --in-flight 21",
            "--in-flight 10 --transaction-size 4",
            "--in-flight 10 --transaction-size 20",
            "--batch 10 --transaction-size 4",
            "--batch 100000 --depth 2",
        ] {
            assert!(parse(line).unwrap().check().is_err(), "{line}");
        }
        for line in ["--sync --in-flight 2", "--sync --batch 2"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn values_out_of_range() {
        for line in [
            "--threads 0",
            "--in-flight 0",
            "--batch 0",
            "--depth x",
            "--rows 0",
            "--row-bytes 6",
            "--row-bytes 0",
            "--rate 0",
            "--rate nan",
            "--seconds 0",
            "--seconds -1",
            "--warmup x",
            "sweep --depth 0",
            "compare",
            "read",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        let half = parse("--warmup 0 --seconds 0.25").unwrap();
        assert_eq!(half.common.seconds, Duration::from_millis(250));
    }
}
