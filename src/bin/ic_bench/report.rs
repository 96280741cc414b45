//! What a run has shown, for people and for programs.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use iclaustron::error::message;
use serde_json::{Value, json};

use crate::load::{Counts, Outcome, Totals};
use crate::options::{Load, name};
use crate::usage::Usage;

/// What a run has shown. Rates and costs are of the measured window; errors are of the whole run.
#[derive(Debug)]
pub struct Report {
    /// The load, as JSON and in words.
    load: Value,
    title: String,
    counts: Counts,
    measured: Totals,
    wall: Duration,
    usage: Usage,
    /// Writes to the data nodes' sockets, by any thread of the library.
    writes: u64,
    /// In nanoseconds.
    latencies: Option<Histogram<u64>>,
}

impl Report {
    /// Adds up what the threads tell.
    pub fn new(load: &Load, outcomes: Vec<Outcome>, wall: Duration, usage: Usage, writes: u64) -> Report {
        let common = &load.common;
        let (batch, depth) = load.shape().unwrap_or_default();
        let mut report = Report {
            load: json!({
                "operation": name(common.operation),
                "threads": load.threads,
                "batch": batch,
                "depth": depth,
                "in_flight": batch * depth,
                "transaction_size": common.transaction_size,
                "keys_per_read": common.keys_per_read,
                "keys": name(common.keys),
                "rows": common.rows(),
                "row_bytes": common.row_bytes,
                "receive_threads": common.receive_threads,
                "receive": name(common.receive()),
                "poll_min": common.poll_min,
                "rate": common.rate,
            }),
            title: title(load),
            counts: Counts::default(),
            measured: Totals::default(),
            wall,
            usage,
            writes,
            latencies: None,
        };
        for outcome in outcomes {
            report.counts.add(&outcome.counts);
            report.measured.operations += outcome.measured.operations;
            report.measured.wakeups += outcome.measured.wakeups;
            match &mut report.latencies {
                // All have the same bounds.
                Some(all) => all.add(&outcome.latencies).unwrap_or_default(),
                none => *none = Some(outcome.latencies),
            }
        }
        report
    }

    /// Whether the run has done its work, and all of it well.
    pub fn is_clean(&self) -> bool {
        let Counts { missing, wrong, errors, .. } = self.counts;
        (missing, wrong, errors) == (0, 0, 0) && self.measured.operations > 0
    }

    /// Why a run is not clean, in a few words.
    pub fn fault(&self) -> Option<String> {
        let Counts { missing, wrong, errors, first_error, .. } = self.counts;
        match self.is_clean() {
            true => None,
            false if (missing, wrong, errors) == (0, 0, 0) => Some("nothing was done".into()),
            false => Some(format!(
                "errors {errors} (first {first_error}), missing rows {missing}, wrong values {wrong}"
            )),
        }
    }

    /// One object. What is a ratio to nothing is null.
    pub fn json(&self) -> Value {
        let (counts, measured) = (&self.counts, &self.measured);
        let mut object = self.load.clone();
        let results = json!({
            "seconds": self.wall.as_secs_f64(),
            "operations": measured.operations,
            "errors": counts.errors,
            "missing": counts.missing,
            "wrong": counts.wrong,
            "temporary": counts.temporary,
            "ops_per_second": self.per_second(),
            "client_cpu_ns_per_op": self.nanos(self.usage.cpu()),
            "user_ns_per_op": self.nanos(self.usage.user),
            "system_ns_per_op": self.nanos(self.usage.system),
            "p50_us": self.micros(0.5),
            "p99_us": self.micros(0.99),
            "p999_us": self.micros(0.999),
            "max_us": self.micros(1.0),
            "writes": self.writes,
            "ops_per_write": ratio(measured.operations, self.writes),
            "wakeups": measured.wakeups,
            "wakeups_per_op": ratio(measured.wakeups, measured.operations),
            "voluntary_switches": self.usage.voluntary_switches,
            "allocations_per_op": ratio(self.usage.allocations, measured.operations),
        });
        if let (Value::Object(object), Value::Object(results)) = (&mut object, results) {
            object.extend(results);
        }
        object
    }

    /// Operations a second.
    pub fn per_second(&self) -> f64 {
        self.measured.operations as f64 / self.wall.as_secs_f64()
    }

    /// Client CPU per operation in microseconds.
    pub fn cpu_micros(&self) -> f64 {
        self.nanos(self.usage.cpu()) / 1000.0
    }

    /// Nanoseconds an operation; not a number if there was none.
    fn nanos(&self, time: Duration) -> f64 {
        match self.measured.operations {
            0 => f64::NAN,
            operations => time.as_nanos() as f64 / operations as f64,
        }
    }

    /// A latency in microseconds.
    pub fn micros(&self, quantile: f64) -> f64 {
        let nanos = self.latencies.as_ref().map_or(0, |all| all.value_at_quantile(quantile));
        nanos as f64 / 1000.0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (counts, measured) = (&self.counts, &self.measured);
        let micros = |time| self.nanos(time) / 1000.0;
        let (user, system) = (self.usage.user, self.usage.system);
        writeln!(f, "{}", self.title)?;
        writeln!(f, "  operations a second        {:.0}", self.per_second())?;
        writeln!(
            f,
            "  client CPU an operation    {:.3} µs: user {:.3}, system {:.3}",
            self.cpu_micros(),
            micros(user),
            micros(system)
        )?;
        writeln!(
            f,
            "  latency, µs                p50 {:.0}, p99 {:.0}, p99.9 {:.0}, max {:.0}",
            self.micros(0.5),
            self.micros(0.99),
            self.micros(0.999),
            self.micros(1.0)
        )?;
        let (writes, wakeups) = (self.writes, measured.wakeups);
        writeln!(f, "  operations a write         {:.1}", ratio(measured.operations, writes))?;
        match wakeups {
            0 => writeln!(
                f,
                "  operations a wake-up       no wake-ups: the threads read their sockets themselves"
            )?,
            _ => writeln!(f, "  operations a wake-up       {:.1}", ratio(measured.operations, wakeups))?,
        }
        let allocations = ratio(self.usage.allocations, measured.operations);
        writeln!(f, "  allocations an operation   {allocations:.3}")?;
        write!(
            f,
            "  errors                     {}, missing rows {}, wrong values {}, temporary and retried {}",
            counts.errors, counts.missing, counts.wrong, counts.temporary
        )?;
        for (what, code) in [("error", counts.first_error), ("temporary error", counts.first_temporary)] {
            if code != 0 {
                write!(f, "\n  first {what:<20} {code}: {}", message(code).to_string_lossy())?;
            }
        }
        Ok(())
    }
}

fn title(load: &Load) -> String {
    let common = &load.common;
    let threads = if load.threads == 1 { "1 thread".into() } else { format!("{} threads", load.threads) };
    let (batch, depth) = load.shape().unwrap_or_default();
    let in_flight = match (batch, depth) {
        _ if batch == common.size() => format!("{} in flight", batch * depth),
        (_, 1) => format!("a batch of {batch} in flight"),
        _ => format!("{depth} batches of {batch} in flight"),
    };
    let size = match common.transaction_size {
        1 => String::new(),
        size => format!(", {size} a transaction"),
    };
    let bytes = match common.row_bytes {
        4 => String::new(),
        bytes => format!(" of {bytes} bytes"),
    };
    let keys = match common.operation.is_once() {
        true => "each once".into(),
        false => format!("{} keys", name(common.keys)),
    };
    let rate = common.rate.map_or(String::new(), |rate| format!(", {rate} a second asked for"));
    format!(
        "{}: {threads} with {in_flight}{size}, {} rows{bytes}, {keys}, {} s{rate}",
        name(common.operation),
        common.rows(),
        common.seconds.as_secs_f64()
    )
}

/// `a` for each of `b`; not a number if there is no `b`.
fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { f64::NAN } else { a as f64 / b as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use clap::Parser;

    fn outcome(operations: u64, latency: u64) -> Outcome {
        let mut latencies = Histogram::new_with_bounds(1, 1_000_000_000, 3).unwrap();
        latencies.record_n(latency, operations).unwrap();
        let counts = Counts { completed: operations + 7, ..Counts::default() };
        Outcome { counts, measured: Totals { operations, wakeups: 5 }, latencies }
    }

    fn report(outcomes: Vec<Outcome>) -> Report {
        let load = Options::parse_from(["ic_bench", "--threads", "2"]).load;
        let usage = Usage {
            user: Duration::from_micros(3000),
            system: Duration::from_micros(1000),
            voluntary_switches: 9,
            allocations: 2000,
        };
        let writes = outcomes.iter().map(|outcome| outcome.measured.operations).sum::<u64>() / 10;
        Report::new(&load, outcomes, Duration::from_millis(500), usage, writes)
    }

    #[test]
    fn costs_are_of_the_measured_window() {
        let json = report(vec![outcome(1000, 50_000), outcome(3000, 200_000)]).json();
        let number = |field: &str| json[field].as_f64().unwrap_or(-1.0);
        assert_eq!(number("operations"), 4000.0);
        assert_eq!(number("ops_per_second"), 8000.0);
        assert_eq!(number("user_ns_per_op"), 750.0);
        assert_eq!(number("system_ns_per_op"), 250.0);
        assert_eq!(number("client_cpu_ns_per_op"), 1000.0);
        assert_eq!(number("ops_per_write"), 10.0);
        assert_eq!(number("wakeups_per_op"), 0.0025);
        assert_eq!(number("allocations_per_op"), 0.5);
        assert_eq!((number("threads"), number("batch"), number("depth")), (2.0, 200.0, 1.0));
        assert!((number("p50_us") - 200.0).abs() < 1.0, "{json}");
        assert_eq!(json["voluntary_switches"], 9);
    }

    #[test]
    fn a_run_is_clean_or_not() {
        assert!(report(vec![outcome(1, 1)]).is_clean());
        assert!(!report(vec![outcome(0, 1)]).is_clean());
        let with = |counts| report(vec![Outcome { counts, ..outcome(1, 1) }]);
        assert!(with(Counts { temporary: 3, ..Counts::default() }).is_clean());
        assert!(!with(Counts { missing: 1, ..Counts::default() }).is_clean());
        assert!(!with(Counts { wrong: 1, ..Counts::default() }).is_clean());
        let failed = with(Counts { errors: 1, first_error: 4012, ..Counts::default() });
        assert!(!failed.is_clean() && failed.to_string().contains("4012"));
        assert_eq!(failed.fault().as_deref(), Some("errors 1 (first 4012), missing rows 0, wrong values 0"));
        assert_eq!(report(vec![outcome(0, 1)]).fault().as_deref(), Some("nothing was done"));
        assert_eq!(report(vec![outcome(1, 1)]).fault(), None);
    }

    #[test]
    fn nothing_done_is_no_number() {
        let json = report(vec![outcome(0, 1)]).json();
        assert!(json["client_cpu_ns_per_op"].is_null() && json["ops_per_write"].is_null());
        assert_eq!(json["operations"], 0);
    }
}
