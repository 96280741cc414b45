//! Faults against promises: transactions on many threads while data nodes fail, then a look at whether
//! anything was lost, done twice, or left waiting.
//!
//! - `schedule`: what goes wrong when, from the seed alone; `nodes`: how it is done to the data nodes;
//! - `work`: the transactions, through the C functions that `abi` wraps; `check`: the comparison afterwards;
//! - `interrupt`: nothing that was started outlives the program.

mod abi;
mod check;
mod interrupt;
mod nodes;
mod schedule;
mod work;

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;

use abi::Global;
use interrupt::{end_cluster, on_interrupt};
use nodes::Nodes;
use schedule::{Action, Due, Plan, schedule};
use work::{Orders, Outcome, Told, work};

const TABLE: &CStr = c"ic_torture";
/// How long the data nodes may take to be usable again after the last fault.
const RECOVERY_MS: u32 = 60_000;
/// Leaving the cluster takes no longer.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);
/// Beyond run and recovery the program ends itself: something hangs.
const HANG: Duration = Duration::from_secs(240);
/// Violations that are printed.
const SHOWN: usize = 40;

/// Torments the library with failing data nodes and checks that it keeps its promises: nothing that was
/// acknowledged is lost, nothing that was refused is done, nothing completes twice or never.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// How long things go wrong
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Decides what goes wrong and when, and what the transactions are
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Start and torment a real cluster; IC_NDB_HOME names the directory whose bin holds NDB's programs
    #[arg(long)]
    real: bool,
    /// Data nodes, two replicas of everything [default: 4 embedded or 2 real ones]
    #[arg(long)]
    nodes: Option<u16>,
    /// Cluster handles
    #[arg(long, default_value_t = 2)]
    clients: usize,
    /// Threads of each, with a connection each
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Transactions a second that each thread starts
    #[arg(long, default_value_t = 1000)]
    rate: u64,
    /// Milliseconds that an operation may take [default: 2000 on embedded data nodes, 3000 on real ones]
    #[arg(long)]
    deadline_ms: Option<u32>,
    /// Print what would go wrong when, and end
    #[arg(long)]
    print_schedule: bool,
    /// Say each fault when it happens
    #[arg(long)]
    verbose: bool,
}

impl Arguments {
    fn plan(&self) -> Plan {
        let nodes = self.nodes.unwrap_or(if self.real { 2 } else { 4 });
        Plan { seed: self.seed, seconds: self.seconds, nodes, clients: self.clients, real: self.real }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let due = schedule(&arguments.plan());
    if arguments.print_schedule {
        due.iter().for_each(|(at, action)| println!("{:8.3} s  {action}", at.as_secs_f64()));
        return ExitCode::SUCCESS;
    }
    let end_cluster = || end_cluster(&Nodes::dir());
    on_interrupt(end_cluster);
    let limit = HANG + 3 * Duration::from_secs(arguments.seconds);
    thread::spawn(move || {
        thread::sleep(limit);
        eprintln!("ic_torture: violation: something hangs, {limit:?} after the start");
        end_cluster();
        std::process::abort();
    });
    match torment(&arguments, &due) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ic_torture: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The number of violations.
fn torment(arguments: &Arguments, due: &[Due]) -> Result<usize, String> {
    let plan = arguments.plan();
    let mut nodes = if plan.real { Nodes::real(plan.nodes) } else { Nodes::embedded(plan.nodes, plan.seed) }?;
    let clients =
        (0..plan.clients).map(|_| Global::connect(&nodes.connectstring())).collect::<Result<Vec<_>, _>>()?;
    clients[0].create_table(TABLE)?;
    check::fill(&clients[0], TABLE)?;
    let ids: Vec<u32> = clients.iter().map(Global::node_id).collect();

    let stop = AtomicBool::new(false);
    let orders = Orders {
        table: TABLE,
        seed: plan.seed,
        rate: arguments.rate,
        began: Instant::now(),
        stop: &stop,
        deadline_ms: arguments.deadline_ms.unwrap_or(if plan.real { 3000 } else { 2000 }),
    };
    let mut violations = Vec::new();
    let mut faults = BTreeMap::new();
    let told: Vec<Told> = thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.clients as u64 * arguments.threads)
            .map(|number| {
                let (global, orders) = (&clients[number as usize % plan.clients], &orders);
                scope.spawn(move || work(global, number, orders))
            })
            .collect();
        // A real data node takes its time to start: the rest is as much later, and what is too late is left
        // out.
        let (mut late, end) = (Duration::ZERO, Duration::from_secs(plan.seconds));
        for (at, action) in due {
            let at = *at + late;
            thread::sleep(at.saturating_sub(orders.began.elapsed()));
            let began = orders.began.elapsed();
            if plan.real && began > end && !matches!(action, Action::Restart(_)) {
                break;
            }
            if let Err(error) = nodes.perform(*action, &ids) {
                violations.push(format!("at {:.3} s: {error}", began.as_secs_f64()));
            }
            *faults.entry(action.kind()).or_insert(0u64) += 1;
            if plan.real {
                late += orders.began.elapsed().saturating_sub(at);
            }
            if arguments.verbose {
                let now = orders.began.elapsed().as_secs_f64();
                eprintln!("{:8.3} s to {now:8.3} s  {action}", began.as_secs_f64());
            }
        }
        for client in &clients {
            if let Err(error) = client.wait_usable(RECOVERY_MS) {
                violations.push(format!("the data nodes do not become usable again: {error}"));
            }
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("a thread of the test")).collect()
    });
    let elapsed = orders.began.elapsed();
    let done: Vec<_> = told.iter().flat_map(|told| told.done.iter().copied()).collect();
    violations.extend(told.iter().flat_map(|told| told.violations.iter().cloned()));
    violations.extend(check::check(&clients[0], TABLE, &done)?);
    for client in clients {
        let began = Instant::now();
        drop(client);
        if began.elapsed() > LEAVE_LIMIT {
            violations.push(format!("leaving the cluster took {:?}", began.elapsed()));
        }
    }
    violations.extend(nodes.complaints().into_iter().map(|line| format!("a data node complains: {line}")));
    report(&plan, &told, &faults, elapsed);
    for violation in violations.iter().take(SHOWN) {
        println!("violation: {violation}");
    }
    println!("violations            {}", violations.len());
    Ok(violations.len())
}

fn report(plan: &Plan, told: &[Told], faults: &BTreeMap<&str, u64>, elapsed: Duration) {
    let outcomes = || told.iter().flat_map(|told| &told.done).map(|done| done.outcome);
    let count = |what: fn(Outcome) -> bool| outcomes().filter(|&outcome| what(outcome)).count();
    let sum = |what: fn(&Told) -> u64| told.iter().map(what).sum::<u64>();
    let kind = if plan.real { "real" } else { "embedded" };
    println!(
        "seed                  {} ({} {kind} data nodes, {} threads)",
        plan.seed,
        plan.nodes,
        told.len()
    );
    println!("time                  {:.1} s", elapsed.as_secs_f64());
    println!("operations            {}", sum(|told| told.operations));
    println!("committed             {}", count(|outcome| outcome == Outcome::Committed));
    println!("refused               {}", count(|outcome| matches!(outcome, Outcome::Refused(_))));
    println!("unknown               {}", count(|outcome| matches!(outcome, Outcome::Unknown(_))));
    println!("  of them 4012        {}", count(|outcome| outcome == Outcome::Unknown(4012)));
    println!("acknowledged and read {}", sum(|told| told.reads));
    println!("freed in flight       {}", sum(|told| told.freed_in_flight));
    println!("table opened          {}", sum(|told| told.reopened));
    for (kind, count) in faults {
        println!("fault                 {kind}: {count}");
    }
    let mut errors = BTreeMap::<i32, u64>::new();
    for (code, count) in told.iter().flat_map(|told| &told.errors) {
        *errors.entry(*code).or_default() += count;
    }
    for (code, count) in errors {
        println!("error                 {code}: {count} ({})", abi::message(code));
    }
    if let Some((longest, what)) = told.iter().map(|told| &told.longest).max_by_key(|longest| longest.0) {
        println!("longest               {:.3} s: {what}", longest.as_secs_f64());
    }
}
