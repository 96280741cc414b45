//! Counts the client's own instructions per read, and compares them with the committed figure.
//!
//!     cargo bench --bench instructions
//!
//! runs reads in lock step (`kit`) under callgrind, in two runs of different lengths whose difference leaves
//! start-up and end out, and fails when a read takes 3 % more than `benches/instructions.txt` says. The peer,
//! which answers from prepared words, is a process that is not counted, nor is the kernel. With
//! IC_UPDATE_INSTRUCTIONS=1 the file is written instead. `instructions reads CONNECTSTRING ROUNDS IN_FLIGHT`
//! is the counted program alone, for callgrind_annotate and perf; with `--model` the count is taken for
//! several numbers in flight, which shows what a read costs and what a round does. The figure is one of a
//! processor with AVX2: without it the hashes of the keys take more.

#![allow(missing_docs, reason = "a program")]

mod kit;

use std::process::{Command, ExitCode, Stdio};

use kit::{IN_FLIGHT, Peer, Reads};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");
const ROUNDS: [u32; 2] = [200, 2200];
/// Runs of each length; the least counts, for replies that arrive in more pieces only add.
const TIMES: u32 = 3;
/// What may be more, of 1.
const SLACK: f64 = 0.03;

fn main() -> ExitCode {
    kit::be_the_peer_if_asked();
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => compare(),
        ["--model"] => model(),
        ["reads", connectstring, rounds, in_flight] => {
            let number = |text: &str| text.parse().expect("a number");
            reads(connectstring, number(rounds), number(in_flight))
        }
        _ => {
            eprintln!("instructions [--model | reads CONNECTSTRING ROUNDS IN_FLIGHT]");
            ExitCode::from(2)
        }
    }
}

fn reads(connectstring: &str, rounds: u32, in_flight: u32) -> ExitCode {
    let mut reads = Reads::new(connectstring, in_flight).unwrap_or_else(|error| panic!("{error}"));
    (0..rounds).for_each(|_| reads.read().expect("a round of reads"));
    ExitCode::SUCCESS
}

fn compare() -> ExitCode {
    let peer = Peer::start();
    let per_read = per_read(&peer, IN_FLIGHT);
    println!("instructions per read: {per_read:.0}");
    if std::env::var_os("IC_UPDATE_INSTRUCTIONS").is_some() {
        std::fs::write(FILE, format!("{per_read:.0}\n")).expect("the file is written");
        return ExitCode::SUCCESS;
    }
    let text = std::fs::read_to_string(FILE).expect("benches/instructions.txt");
    let committed: f64 = text.trim().parse().expect("a number in benches/instructions.txt");
    let ratio = per_read / committed;
    println!("committed figure: {committed:.0}; now {:+.1} %", 100.0 * (ratio - 1.0));
    if ratio > 1.0 + SLACK {
        println!("a read costs the client more instructions than it did");
        return ExitCode::FAILURE;
    }
    if ratio < 1.0 - SLACK {
        println!("fewer: IC_UPDATE_INSTRUCTIONS=1 cargo bench --bench instructions keeps it so");
    }
    ExitCode::SUCCESS
}

/// Each number in flight, and from the least and the most: the cost of a read, and of a round of reads.
fn model() -> ExitCode {
    let peer = Peer::start();
    let counts = [1, 4, 16, 64].map(|in_flight| (in_flight as f64, per_read(&peer, in_flight)));
    counts.iter().for_each(|(in_flight, count)| println!("{in_flight:>3} in flight: {count:.0} a read"));
    let [(few, many), .., (most, least)] = counts;
    let round = (many - least) / (1.0 / few - 1.0 / most);
    println!("a read {:.0}, a round {round:.0}", many - round / few);
    ExitCode::SUCCESS
}

/// The difference of two runs, for each of the reads that one has more.
fn per_read(peer: &Peer, in_flight: u32) -> f64 {
    let [short, long] = ROUNDS.map(|rounds| {
        let counts = (0..TIMES).map(|_| instructions(peer, rounds, in_flight));
        counts.fold(f64::INFINITY, f64::min)
    });
    (long - short) / ((ROUNDS[1] - ROUNDS[0]) * in_flight) as f64
}

/// Instructions of a whole run, as callgrind counts them.
fn instructions(peer: &Peer, rounds: u32, in_flight: u32) -> f64 {
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    command.args(["reads", &peer.connectstring, &rounds.to_string(), &in_flight.to_string()]);
    command.stdout(Stdio::null());
    let output = command.output().expect("valgrind runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let collected = text.lines().find_map(|line| line.split_once("Collected :"));
    let (_, number) = collected.unwrap_or_else(|| panic!("no count in {text}"));
    number.trim().parse().expect("a count")
}
