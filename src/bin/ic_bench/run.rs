//! A run: its threads, its measured window, its progress line.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use iclaustron::cluster::{self, Cluster};
use iclaustron::error::{Error, message, own};
use indicatif::{ProgressBar, ProgressStyle};

use crate::keys::{self, Random};
use crate::load::{Manner, Mix, Outcome, Pace, Phase, Shape, Shared, Worker};
use crate::options::{Common, Keys, Load, Operation, Receive};
use crate::report::Report;
use crate::table::{self, T9};
use crate::usage::Usage;

/// How often the progress line changes.
const TICK: Duration = Duration::from_millis(200);
/// Joins the cluster of `connectstring` as the options say.
pub fn connect(common: &Common, connectstring: Option<&str>) -> Result<Arc<Cluster>, Error> {
    let options = cluster::Options {
        receive_threads: common.receive_threads.into(),
        hold: Duration::from_micros(common.hold_us.into()),
        lend_receive: common.receive() == Receive::Lent,
        ..Default::default()
    };
    Cluster::connect(connectstring, &options)
}

/// The table that the options say, filled.
pub fn prepare(cluster: &Arc<Cluster>, common: &Common) -> Result<T9, Error> {
    table::prepare(cluster, common.rows(), common.row_bytes)
}

/// Puts the load on the cluster. All rows of the table must be there; afterwards they are, but for those that
/// were deleted.
pub fn run(cluster: &Arc<Cluster>, t9: &T9, load: &Load, show_progress: bool) -> Result<Report, Error> {
    let common = &load.common;
    if common.operation == Operation::Insert {
        table::empty(cluster, t9, common.rows())?;
    }
    let workers = (0..load.threads).map(|number| worker(cluster, t9, load, number));
    let mut workers = workers.collect::<Result<Vec<_>, _>>()?;
    let shared = Shared::default();
    if common.operation.is_once() {
        shared.set(Phase::Measured);
    }
    let (outcomes, wall, usage, writes) = thread::scope(|scope| {
        let shared = &shared;
        let waiting = thread::current();
        let threads: Vec<_> = workers
            .iter_mut()
            .map(|worker| {
                let ends = TellEnd(shared, waiting.clone());
                scope.spawn(move || {
                    let _ends = ends;
                    worker.run(shared)
                })
            })
            .collect();
        let running = || !shared.ended.load(Ordering::Acquire);
        let progress = Progress::new(show_progress, common.warmup + common.seconds);
        // What can be done once only is measured from its beginning.
        if !common.operation.is_once() {
            wait(common.warmup, shared, &progress, &running);
            shared.set(Phase::Measured);
        }
        let (began, before, writes) = (Instant::now(), Usage::now(), cluster.writes());
        wait(common.seconds, shared, &progress, &running);
        let (wall, usage) = (began.elapsed(), Usage::now().since(&before));
        let writes = cluster.writes() - writes;
        shared.set(Phase::Over);
        progress.line.finish_and_clear();
        let outcomes = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(own::INTERNAL)));
        (outcomes.collect::<Result<Vec<Outcome>, i32>>(), wall, usage, writes)
    });
    let outcomes = outcomes.map_err(|code| Error::new(code, message(code).to_string_lossy().into_owned()))?;
    Ok(Report::new(load, outcomes, wall, usage, writes))
}

/// Tells who waits for a run when a thread of it ends.
struct TellEnd<'a>(&'a Shared, Thread);

impl Drop for TellEnd<'_> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
        self.1.unpark();
    }
}

fn worker(cluster: &Arc<Cluster>, t9: &T9, load: &Load, number: u16) -> Result<Worker, Error> {
    let common = &load.common;
    let rows = common.rows();
    let start = |number: u16| (rows as u64 * number as u64 / load.threads as u64) as u32;
    let random = Random::new((number as u64) << 32 | std::process::id() as u64);
    let keys = match common.keys {
        _ if common.operation.is_once() => keys::Keys::Once(start(number)..start(number + 1)),
        Keys::Uniform => keys::Keys::Uniform { rows, random },
        Keys::Zipf => keys::Keys::zipf(rows, random),
        Keys::Sequential => keys::Keys::Sequential { rows, next: start(number) },
        Keys::One => keys::Keys::One,
    };
    let mix = match common.operation {
        Operation::Read => Mix::Read,
        Operation::Insert => Mix::Insert,
        Operation::Update => Mix::Update,
        Operation::Write => Mix::Write,
        Operation::Delete => Mix::Delete,
        Operation::Mixed => Mix::ReadAndUpdate,
        Operation::MultiRead => Mix::MultiRead,
        Operation::MultiReadAfterWrites => Mix::MultiReadAfterWrites,
    };
    let (batch, depth) = load.shape().map_err(|text| Error::new(own::INVALID_ARGUMENT, text))?;
    let shape = Shape { size: common.size(), batch, depth };
    let mut worker = Worker::new(cluster, t9, keys, mix, shape)?;
    worker.behave(Manner { poll_min: common.poll_min, force: common.force, pace: pace(load, number) });
    Ok(worker)
}

/// The threads share the rate, and start one after the other.
fn pace(load: &Load, number: u16) -> Option<Pace> {
    let (batch, _) = load.shape().ok()?;
    let together = batch as f64 / load.common.rate? * 1e9;
    Some(Pace { first: together * number as f64, between: together * load.threads as f64 })
}

/// Waits, unless a thread ends before its time.
fn wait(time: Duration, shared: &Shared, progress: &Progress, running: &impl Fn() -> bool) {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || !running() {
            return;
        }
        thread::park_timeout(left.min(TICK));
        progress.show(shared.completed.load(Ordering::Relaxed));
    }
}

struct Progress {
    line: ProgressBar,
    began: Instant,
}

impl Progress {
    fn new(shown: bool, time: Duration) -> Progress {
        let line = if shown { ProgressBar::new(time.as_millis() as u64) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {msg}") {
            line.set_style(style);
        }
        Progress { line, began: Instant::now() }
    }

    fn show(&self, completed: u64) {
        if self.line.is_hidden() {
            return;
        }
        let time = self.began.elapsed();
        self.line.set_position(time.as_millis() as u64);
        self.line.set_message(format!("{:.0} operations/s", completed as f64 / time.as_secs_f64()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use clap::Parser;

    #[test]
    fn threads_share_the_rate() {
        let load = |line: &str| Options::parse_from(line.split_whitespace()).load;
        let paced = load("ic_bench --rate 1000 --threads 4 --batch 10");
        let Some(Pace { first, between }) = pace(&paced, 3) else { panic!("a pace") };
        assert!((first - 30e6).abs() < 1.0 && (between - 40e6).abs() < 1.0, "{first} {between}");
        assert!(pace(&load("ic_bench"), 0).is_none());
    }
}
