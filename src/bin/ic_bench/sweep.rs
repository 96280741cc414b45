//! Every combination of depth, batch and threads, and the page that shows them.

use std::io::IsTerminal;

use iclaustron::error::{Error, own};
use serde_json::{Value, json};

use crate::figures::grouped;
use crate::options::{Load, Sweep, name};
use crate::page::{self, Point};
use crate::report::Report;
use crate::{check, nodes, print, run};

/// Measures, and writes the page; whether every run was clean.
pub fn run(sweep: &Sweep) -> Result<bool, Error> {
    let common = &sweep.common;
    let loads = combinations(sweep);
    loads.iter().for_each(check);
    let nodes = nodes::choose(common.connectstring.as_deref())?;
    let cluster = run::connect(common, nodes.connectstring())?;
    let reports = run::prepare(&cluster, common).and_then(|t9| {
        let all = loads.iter().enumerate().map(|(number, load)| {
            tell(number, loads.len(), load);
            run::run(&cluster, &t9, load, false)
        });
        all.collect::<Result<Vec<Report>, Error>>()
    });
    cluster.disconnect();
    let reports = reports?;
    for (load, fault) in loads.iter().zip(&reports).filter_map(|(load, report)| Some((load, report.fault()?)))
    {
        let (batch, depth) = load.shape().unwrap_or_default();
        eprintln!("{} threads, depth {depth}, batch {batch}: {fault}", load.threads);
    }
    let points: Vec<_> = loads.iter().zip(&reports).map(|(load, report)| point(load, report)).collect();
    let title = format!(
        "{} operations, {} keys, {} rows",
        name(common.operation),
        name(common.keys),
        grouped(common.rows() as f64)
    );
    std::fs::write(&sweep.output, page::page(&title, &points)).map_err(|error| {
        Error::new(own::INVALID_ARGUMENT, format!("writing {}: {error}", sweep.output.display()))
    })?;
    match common.json {
        true => print(json!({
            "page": sweep.output.display().to_string(),
            "runs": reports.iter().map(Report::json).collect::<Vec<Value>>(),
        })),
        false => print(format!("{} runs, shown in {}", reports.len(), sweep.output.display())),
    }
    Ok(reports.iter().all(Report::is_clean))
}

fn combinations(sweep: &Sweep) -> Vec<Load> {
    let mut loads = Vec::new();
    for &threads in &sweep.threads {
        for &depth in &sweep.depth {
            loads.extend(sweep.batch.iter().map(|&batch| Load::of(&sweep.common, threads, batch, depth)));
        }
    }
    loads
}

fn tell(number: usize, of: usize, load: &Load) {
    if std::io::stderr().is_terminal() && !load.common.json {
        let (batch, depth) = load.shape().unwrap_or_default();
        eprintln!("{}/{of}: {} threads, depth {depth}, batch {batch}", number + 1, load.threads);
    }
}

fn point(load: &Load, report: &Report) -> Point {
    let (batch, depth) = load.shape().unwrap_or_default();
    Point {
        threads: load.threads,
        depth,
        batch,
        per_second: report.per_second(),
        cpu: report.cpu_micros(),
        p50: report.micros(0.5),
        p99: report.micros(0.99),
        clean: report.is_clean(),
    }
}
