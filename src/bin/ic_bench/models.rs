//! The three models of using a connection, side by side: one call at a time, a batch at a time, batches that
//! follow each other.

use iclaustron::error::Error;
use serde_json::{Value, json};

use crate::figures::grouped;
use crate::options::{Load, Models};
use crate::report::Report;
use crate::{check, nodes, print, run};

/// Threads that call one at a time, of the second line.
const MANY_THREADS: u16 = 64;

/// Runs all of them; whether each was clean.
pub fn run(models: &Models) -> Result<bool, Error> {
    let common = &models.common;
    let (size, batch) = (common.size(), models.batch);
    let lines = [
        ("synchronous, 1 thread", 1, size, 1),
        ("synchronous, 64 threads", MANY_THREADS, size, 1),
        ("batched synchronous", 1, batch, 1),
        ("asynchronous, depth 2", 1, batch, 2),
        ("asynchronous, depth 4", 1, batch, 4),
    ]
    .map(|(name, threads, batch, depth)| (name, Load::of(common, threads, batch, depth)));
    lines.iter().for_each(|(_, load)| check(load));
    let nodes = nodes::choose(common.connectstring.as_deref())?;
    let cluster = run::connect(common, nodes.connectstring())?;
    let reports = run::prepare(&cluster, common).and_then(|t9| {
        let run = |(_, load): &(&str, Load)| run::run(&cluster, &t9, load, false);
        lines.iter().map(run).collect::<Result<Vec<Report>, Error>>()
    });
    cluster.disconnect();
    let reports = reports?;
    let named: Vec<_> = lines.iter().map(|(name, _)| *name).zip(&reports).collect();
    match common.json {
        true => print(json(&named)),
        false => print(table(&named)),
    }
    Ok(reports.iter().all(Report::is_clean))
}

fn json(reports: &[(&str, &Report)]) -> Value {
    let one = |(name, report): &(&str, &Report)| {
        let mut object = report.json();
        object["model"] = json!(name);
        object
    };
    reports.iter().map(one).collect()
}

fn table(reports: &[(&str, &Report)]) -> String {
    let mut text =
        format!("{:<26}{:>14}{:>22}{:>10}", "model", "ops a second", "client CPU per op, µs", "p50, µs");
    for (name, report) in reports {
        text += &format!(
            "\n{name:<26}{:>14}{:>22.3}{:>10.0}",
            grouped(report.per_second()),
            report.cpu_micros(),
            report.micros(0.5)
        );
        if let Some(fault) = report.fault() {
            text += &format!("  {fault}");
        }
    }
    text
}
