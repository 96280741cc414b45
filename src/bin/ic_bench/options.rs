//! The command line.

use std::time::Duration;

use clap::{Args, Parser, ValueEnum};

/// Runs key operations on table test.t9 of an NDB Cluster, many in flight on each thread, and tells what they
/// cost the client.
///
/// The table (unsigned key, one unsigned column) is created if it is missing, and filled. Each thread has a
/// connection of its own and starts a new transaction as soon as one completes. Every value read is checked.
///
/// The exit status is 1 if a row was missing, a value was wrong, or an operation failed for good; temporary
/// errors are counted and retried.
#[derive(Debug, Parser)]
#[command(version, about)]
pub struct Options {
    #[command(flatten)]
    pub load: Load,
}

/// One load.
#[derive(Debug, Args)]
pub struct Load {
    /// Where the management server is, as host:port [default: $NDB_CONNECTSTRING, else embedded data nodes]
    #[arg(long, value_name = "STRING")]
    pub connectstring: Option<String>,
    /// What to do with the rows
    #[arg(long, value_enum, default_value_t = Operation::Read)]
    pub operation: Operation,
    /// User threads, each with a connection of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Operations in flight per thread
    #[arg(long, value_name = "N", default_value_t = 200,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub in_flight: u32,
    /// One transaction at a time per thread
    #[arg(long, conflicts_with = "in_flight")]
    pub sync: bool,
    /// Operations per transaction
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub transaction_size: u32,
    /// Which rows
    #[arg(long, value_enum, default_value_t = Keys::Uniform)]
    pub keys: Keys,
    /// Rows in the table; their keys are 0 up to this number, exclusive
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub rows: u32,
    /// Length of the measured window, in seconds
    #[arg(long, value_name = "S", default_value = "5", value_parser = positive_seconds)]
    pub seconds: Duration,
    /// Load before the measured window, in seconds
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    pub warmup: Duration,
    /// Receive threads of the library
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub receive_threads: u16,
    /// Who reads the sockets: `lent` to a thread that polls alone, or the receive threads, `dedicated`
    #[arg(long, value_enum, default_value_t = Receive::Lent)]
    pub receive: Receive,
    /// Completions that a poll waits for, at most what is in flight
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub poll_min: u32,
    /// How long a send without --force may be held for company, in microseconds
    #[arg(long, value_name = "US", default_value_t = 200)]
    pub hold_us: u32,
    /// Send at once, never held for company
    #[arg(long)]
    pub force: bool,
    /// Print one JSON object on one line instead of a table, and no progress
    #[arg(long)]
    pub json: bool,
}

/// What to do with the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Operation {
    /// Committed reads
    Read,
    /// Updates of rows that are there
    Update,
    /// Writes: updates of rows that are there, inserts of others
    Write,
    /// Reads and updates, half of each
    Mixed,
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
    /// One after the other, each thread from a place of its own
    Sequential,
    /// Always the same
    One,
}

impl Load {
    /// What the options say together, beyond what each says alone.
    pub fn check(&self) -> Result<(), String> {
        let (in_flight, size) = (self.in_flight(), self.transaction_size);
        if !in_flight.is_multiple_of(size) {
            return Err(format!(
                "--in-flight counts operations: {in_flight} is no multiple of --transaction-size {size}"
            ));
        }
        Ok(())
    }

    /// Operations in flight per thread.
    pub fn in_flight(&self) -> u32 {
        if self.sync { self.transaction_size } else { self.in_flight }
    }
}

/// The name of a choice as it is given on the command line.
pub fn name(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
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
        assert_eq!((load.operation, load.keys), (Operation::Read, Keys::Uniform));
        assert_eq!((load.threads, load.in_flight(), load.rows), (1, 200, 100_000));
        assert_eq!((load.warmup, load.seconds), (Duration::from_secs(1), Duration::from_secs(5)));
        assert!(load.check().is_ok());
    }

    #[test]
    fn one_transaction_at_a_time() {
        let load = parse("--sync --transaction-size 7").unwrap();
        assert_eq!(load.in_flight(), 7);
        assert!(load.check().is_ok());
        assert!(parse("--sync --in-flight 2").is_err());
    }

    #[test]
    fn whole_transactions_only() {
        assert!(parse("--in-flight 10 --transaction-size 5").unwrap().check().is_ok());
        assert!(parse("--in-flight 10 --transaction-size 4").unwrap().check().is_err());
        assert!(parse("--in-flight 10 --transaction-size 20").unwrap().check().is_err());
    }

    #[test]
    fn values_out_of_range() {
        for line in ["--threads 0", "--in-flight 0", "--rows 0", "--seconds 0", "--seconds -1", "--warmup x"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
        assert_eq!(parse("--warmup 0 --seconds 0.25").unwrap().seconds, Duration::from_millis(250));
    }
}
