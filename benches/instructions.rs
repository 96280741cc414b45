//! Counts the client's own instructions per read, and compares them with the committed figure.
//!
//!     cargo bench --bench instructions
//!
//! runs reads in lock step (`kit`) under callgrind, in two runs of different lengths whose difference leaves
//! start-up and end out, and fails when a read takes 3 % more than `benches/instructions.txt` says. The data nodes
//! are in a process that is not counted, nor is the kernel. With IC_UPDATE_INSTRUCTIONS=1 the file is written
//! instead. `instructions reads CONNECTSTRING ROUNDS` is the counted program alone, for callgrind_annotate and perf.

#![allow(missing_docs, reason = "a program")]

mod kit;

use std::process::{Command, ExitCode, Stdio};

use kit::{IN_FLIGHT, Peer, Reads};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");
const ROUNDS: [u32; 2] = [200, 2200];
/// What may be more, of 1.
const SLACK: f64 = 0.03;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => compare(),
        ["reads", connectstring, rounds] => reads(connectstring, rounds.parse().expect("a number of rounds")),
        _ => {
            eprintln!("instructions [reads CONNECTSTRING ROUNDS]");
            ExitCode::from(2)
        }
    }
}

fn reads(connectstring: &str, rounds: u32) -> ExitCode {
    let mut reads = Reads::new(connectstring).unwrap_or_else(|error| panic!("{error}"));
    (0..rounds).for_each(|_| reads.read().expect("a round of reads"));
    ExitCode::SUCCESS
}

fn compare() -> ExitCode {
    let peer = Peer::start();
    let [short, long] = ROUNDS.map(|rounds| instructions(&peer, rounds));
    let operations = (ROUNDS[1] - ROUNDS[0]) * IN_FLIGHT;
    let per_read = (long - short) / operations as f64;
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

/// Instructions of a whole run, as callgrind counts them.
fn instructions(peer: &Peer, rounds: u32) -> f64 {
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    command.args(["reads", &peer.connectstring, &rounds.to_string()]).stdout(Stdio::null());
    let output = command.output().expect("valgrind runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let collected = text.lines().find_map(|line| line.split_once("Collected :"));
    let (_, number) = collected.unwrap_or_else(|| panic!("no count in {text}"));
    number.trim().parse().expect("a count")
}
