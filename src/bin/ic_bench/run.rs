//! A run: its threads, its measured window, its progress line.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use iclaustron::cluster::Cluster;
use iclaustron::error::{Error, message, own};
use indicatif::{ProgressBar, ProgressStyle};

use crate::load::{self, Mix, Outcome, Phase, Random, Shared, Worker};
use crate::options::{Keys, Load, Operation};
use crate::report::Report;
use crate::table::T9;
use crate::usage::Usage;

/// How often the progress line changes, and a thread that ended early is noticed.
const TICK: Duration = Duration::from_millis(200);

/// Puts the load on the cluster.
pub fn run(cluster: &Arc<Cluster>, t9: &T9, load: &Load, show_progress: bool) -> Result<Report, Error> {
    let workers = (0..load.threads).map(|number| worker(cluster, t9, load, number));
    let mut workers = workers.collect::<Result<Vec<_>, _>>()?;
    let shared = Shared::default();
    let (outcomes, wall, usage, writes) = std::thread::scope(|scope| {
        let shared = &shared;
        let threads: Vec<_> =
            workers.iter_mut().map(|worker| scope.spawn(move || worker.run(shared))).collect();
        let running = || threads.iter().all(|thread| !thread.is_finished());
        let progress = Progress::new(show_progress, load.warmup + load.seconds);
        wait(load.warmup, shared, &progress, &running);
        shared.set(Phase::Measured);
        let (began, before, writes) = (Instant::now(), Usage::now(), cluster.writes());
        wait(load.seconds, shared, &progress, &running);
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

fn worker(cluster: &Arc<Cluster>, t9: &T9, load: &Load, number: u16) -> Result<Worker, Error> {
    let rows = load.rows;
    let keys = match load.keys {
        Keys::Uniform => load::Keys::Uniform {
            rows,
            random: Random::new((number as u64) << 32 | std::process::id() as u64),
        },
        Keys::Sequential => {
            let next = rows as u64 * number as u64 / load.threads as u64;
            load::Keys::Sequential { rows, next: next as u32 }
        }
        Keys::One => load::Keys::One,
    };
    let mix = match load.operation {
        Operation::Read => Mix::Read,
        Operation::Update => Mix::Update,
        Operation::Write => Mix::Write,
        Operation::Mixed => Mix::ReadAndUpdate,
    };
    let mut worker = Worker::new(cluster, t9, keys, mix, load.in_flight(), load.transaction_size)?;
    worker.tune(load.poll_min, load.force);
    Ok(worker)
}

/// Waits, unless a thread ends before its time.
fn wait(time: Duration, shared: &Shared, progress: &Progress, running: &impl Fn() -> bool) {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || !running() {
            return;
        }
        std::thread::sleep(left.min(TICK));
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
