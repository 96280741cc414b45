//! ic_bench on embedded nodes of its own, and on a real cluster: with IC_TEST_CONNECTSTRING set, on that one,
//! else on one that is started here.
#![cfg(all(feature = "tools", feature = "embedded"))]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use iclaustron::tools::ndb_cluster::{NdbCluster, Options};
use serde_json::Value;

/// A cluster to use, and what ends it with the test if the test has started it.
struct Cluster {
    connectstring: String,
    _own: Option<(NdbCluster, tempfile::TempDir)>,
}

fn cluster() -> Cluster {
    if let Ok(connectstring) = std::env::var("IC_TEST_CONNECTSTRING") {
        return Cluster { connectstring, _own: None };
    }
    let dir = tempfile::tempdir().expect("a directory for the cluster");
    let cluster = NdbCluster::start(Options::new(dir.path())).unwrap_or_else(|error| panic!("{error}"));
    Cluster { connectstring: cluster.connectstring(), _own: Some((cluster, dir)) }
}

/// Runs ic_bench as it is told.
fn plain(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ic_bench"));
    command.env_remove("NDB_CONNECTSTRING").args(arguments).output().expect("ic_bench runs")
}

/// Runs a short load; without a connectstring on nodes of its own.
fn bench(connectstring: Option<&str>, line: &str) -> Output {
    let mut arguments: Vec<&str> = line.split_whitespace().collect();
    if !line.contains("--rows") {
        arguments.extend(["--rows", "2000"]);
    }
    arguments.extend(["--seconds", "0.5", "--warmup", "0.2"]);
    arguments.extend(connectstring.iter().flat_map(|text| ["--connectstring", text]));
    plain(&arguments)
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(&text).expect("one JSON object")
}

fn text(output: &Output) -> (String, String) {
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (out, err)
}

#[test]
#[cfg_attr(not(real_cluster), ignore = "needs a real cluster: set IC_NDB_HOME")]
fn operations_on_a_real_cluster() {
    let cluster = cluster();
    operations(Some(&cluster.connectstring));
    let people = bench(Some(&cluster.connectstring), "");
    let (out, err) = text(&people);
    assert!(people.status.success() && out.contains("operations a second"), "{out}");
    assert!(err.is_empty() && !out.contains('\x1b'), "plain in a pipe");
    against_programs_on_the_ndb_api(&cluster.connectstring);
}

#[test]
fn operations_on_embedded_nodes() {
    operations(None);
    let people = bench(None, "");
    let (out, err) = text(&people);
    assert!(people.status.success() && out.contains("operations a second"), "{out} {err}");
    assert!(err.contains("embedded data nodes") && err.lines().count() == 1, "no progress in a pipe: {err}");
    assert!(!out.contains('\x1b') && out.contains("a batch of 200 in flight"), "{out}");
}

fn operations(connectstring: Option<&str>) {
    for load in [
        "--operation read --force",
        "--operation update",
        "--operation write --keys sequential",
        "--operation mixed --threads 2 --receive-threads 2",
        "--operation insert --rows 20000",
        "--operation delete --rows 20000 --threads 2",
        "--operation read --sync",
        "--operation read --keys one --receive dedicated",
        "--operation read --keys zipf --batch 20 --depth 3 --poll-min 5 --hold-us 50",
        "--operation read --transaction-size 10 --in-flight 100",
        "--operation read --in-flight 5",
        "--operation mixed --row-bytes 200 --batch 10",
        "--operation multi-read --keys-per-read 16 --in-flight 64",
        "--operation multi-read-after-writes --keys-per-read 4 --batch 12 --depth 2",
        "--operation insert --row-bytes 200 --rows 5000 --batch 100",
    ] {
        let result = json(&bench(connectstring, &format!("--json {load}")));
        let number =
            |field: &str| result[field].as_f64().unwrap_or_else(|| panic!("{load}: {field} in {result}"));
        for field in ["errors", "missing", "wrong"] {
            assert_eq!(number(field), 0.0, "{load}: {result}");
        }
        for field in [
            "operations",
            "ops_per_second",
            "client_cpu_ns_per_op",
            "p50_us",
            "p99_us",
            "p999_us",
            "ops_per_write",
            "writes",
        ] {
            assert!(number(field) > 0.0, "{load}: {field} in {result}");
        }
        let parts = number("user_ns_per_op") + number("system_ns_per_op");
        assert!((parts - number("client_cpu_ns_per_op")).abs() < 1.0, "{load}: {result}");
        assert!(number("wakeups_per_op") >= 0.0 && number("voluntary_switches") >= 0.0);
        assert!(number("allocations_per_op") < 1.0, "{load}: {result}");
        assert_eq!(number("batch") * number("depth"), number("in_flight"), "{load}: {result}");
    }
}

#[test]
fn inserts_and_deletes_take_each_row_once() {
    // The run ends with the last row, long before its time, and none was missing or there already.
    for operation in ["insert", "delete"] {
        let line = format!("--json --operation {operation} --rows 3000 --seconds 60");
        let line: Vec<_> = line.split(' ').collect();
        let result = json(&plain(&line));
        assert_eq!(result["operations"], 3000, "{result}");
    }
}

#[test]
fn an_open_loop_keeps_its_rate() {
    // 40 batches of 10 in the window, give or take the ends; the nodes could do far more.
    let result = json(&bench(None, "--json --rate 800 --batch 10 --depth 20 --threads 2"));
    let done = result["operations"].as_u64().expect("a number");
    assert!(done > 100 && done <= 800, "{result}");
    assert_eq!(result["receive"], "dedicated");
}

#[test]
fn latency_of_an_open_loop_is_from_the_time_that_was_meant() {
    // Far more is asked for than can be done: what is started late has waited, and the longer the later.
    let result = json(&bench(None, "--json --rate 1e8 --in-flight 10"));
    let (p50, rate) = (result["p50_us"].as_f64(), result["ops_per_second"].as_f64());
    assert!(rate.is_some_and(|rate| rate < 1e8), "{result}");
    assert!(p50.is_some_and(|p50| p50 > 100_000.0), "half of the window, and not one round: {result}");
}

#[test]
fn options_that_do_not_fit() {
    for (line, says) in [
        ("--in-flight 10 --transaction-size 3", "multiple"),
        ("--batch 3 --in-flight 10", "multiple"),
        ("--batch 5 --depth 5 --in-flight 10", "not --batch times --depth"),
        ("--row-bytes 7", "multiple of 4"),
        ("--rate 0", "operations a second"),
        ("--operation read --no-such-option", "unexpected"),
        ("sweep --batch 3 --transaction-size 2", "multiple"),
        ("compare --flex /bin/true --rows 100 --in-flight 33", "multiple"),
        ("compare --flex /bin/true --operation delete", "read and update"),
        ("compare", "--flex"),
        ("sync-compare", "--ndbsync"),
    ] {
        // Nothing is started before the line is understood: nobody listens there.
        let mut arguments: Vec<_> = line.split(' ').collect();
        arguments.extend(["--connectstring", "127.0.0.1:1"]);
        let output = plain(&arguments);
        let (out, err) = text(&output);
        assert_eq!(output.status.code(), Some(2), "{line}: {err}");
        assert!(out.is_empty() && err.contains(says), "{line}: {err}");
    }
}

#[test]
fn a_run_that_fails_says_so() {
    // The management port of nothing: it is refused at once, and again until the limit.
    let output = plain(&["--connectstring", "no such thing"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output).1.starts_with("ic_bench: "), "{output:?}");
}

#[test]
fn a_sweep_is_a_page() {
    let dir = tempfile::tempdir().expect("a directory");
    let page = dir.path().join("page.html");
    let path = page.to_str().expect("a path in UTF-8");
    let line = format!(
        "sweep --depth 1,2 --batch 10,50 --threads 1,2 --rows 1000 --seconds 0.3 --warmup 0 --output {path} --json"
    );
    let result = json(&plain(&line.split(' ').collect::<Vec<_>>()));
    let runs = result["runs"].as_array().expect("the runs");
    assert_eq!(runs.len(), 8);
    assert!(runs.iter().all(|run| run["operations"].as_u64() > Some(0)), "{result}");
    let html = std::fs::read_to_string(&page).expect("the page");
    assert_eq!(html.matches("<svg").count(), 6);
    assert!(!html.contains("http"), "nothing from outside");
}

#[test]
fn the_models() {
    let line = "models --batch 50 --rows 1000 --seconds 0.5 --warmup 0";
    let output = plain(&line.split(' ').collect::<Vec<_>>());
    let (out, err) = text(&output);
    assert!(output.status.success(), "{out}{err}");
    let names: Vec<_> = out.lines().skip(1).map(|line| line.split("  ").next().unwrap_or_default()).collect();
    assert_eq!(
        names,
        [
            "synchronous, 1 thread",
            "synchronous, 64 threads",
            "batched synchronous",
            "asynchronous, depth 2",
            "asynchronous, depth 4"
        ]
    );
    let result = json(&plain(&format!("{line} --json").split(' ').collect::<Vec<_>>()));
    assert_eq!(result.as_array().map(Vec::len), Some(5), "{result}");
}

/// A program that prints what another one would, and keeps its arguments in a file beside it.
fn fake(dir: &Path, name: &str, script: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, format!("#!/bin/sh\nprintf '%s\\n' \"$*\" >> \"$0.log\"\n{script}"))
        .expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a program");
    path
}

/// Works as long as it is told, in its way, and prints as flexAsynch does.
const FLEX: &str = r#"
time=0
while [ $# -gt 0 ]; do [ "$1" = -execution_time ] && time=$2; shift; done
echo "  Execution time is $time"
i=0
while [ $i -lt $((time * 20000)) ]; do i=$((i + 1)); done
echo "Executing reads"
echo "Total number of transactions is $((time * 1000))"
echo "Execution time is $((time * 1000)) milliseconds"
echo "NDBT_ProgramExit: 0 - OK"
"#;

#[test]
fn pairs_with_flex_asynch() {
    let dir = tempfile::tempdir().expect("a directory");
    let flex = fake(dir.path(), "flex", FLEX);
    let flex = flex.to_str().expect("a path in UTF-8");
    let line = format!(
        "compare --flex {flex} --pairs 2 --seconds 1 --in-flight 10 --operation read,update --rows 1000 --json \
         --ours=--batch=5"
    );
    let result = json(&plain(&line.split_whitespace().collect::<Vec<_>>()));
    let comparisons = result["comparisons"].as_array().expect("comparisons");
    assert_eq!(comparisons.len(), 2);
    for (comparison, operation) in comparisons.iter().zip(["read", "update"]) {
        assert_eq!((&comparison["operation"], &comparison["in_flight"]), (&operation.into(), &10.into()));
        let pairs = comparison["pairs"].as_array().expect("pairs");
        assert_eq!(pairs.len(), 2);
        for pair in pairs {
            let number = |who: &str, what: &str| pair[who][what].as_f64().expect("a number");
            assert_eq!(number("flexAsynch", "ops_per_second"), 1000.0);
            assert!(number("flexAsynch", "client_cpu_ns_per_op") > 0.0, "{pair}");
            assert_eq!((number("ic_bench", "rows"), number("ic_bench", "batch")), (1000.0, 5.0));
            let ratio =
                number("ic_bench", "client_cpu_ns_per_op") / number("flexAsynch", "client_cpu_ns_per_op");
            assert!((pair["cpu_ratio"].as_f64().expect("a ratio") - ratio).abs() < 1e-9 * ratio);
        }
        for ratio in ["cpu_ratio", "throughput_ratio"] {
            let [least, median, most] =
                ["least", "median", "most"].map(|name| comparison[ratio][name].as_f64().expect("a number"));
            assert!(0.0 < least && least <= median && median <= most, "{comparison}");
        }
    }
    let log = std::fs::read_to_string(format!("{flex}.log")).expect("what it was asked for");
    let count = |what: &str| log.lines().filter(|line| line.contains(what)).count();
    assert_eq!((count("-drop_table"), count("-create_table"), count("-insert")), (2, 1, 1), "{log}");
    // Once to see what start-up costs, then the pairs.
    assert_eq!((count("-dirty -read"), count("-update"), count("-execution_time 0")), (3, 3, 2), "{log}");
    assert!(log.lines().all(|line| line.contains("-t 1 -p 10 -o 100 ")), "{log}");
}

#[test]
fn several_threads_against_flex_asynch() {
    let dir = tempfile::tempdir().expect("a directory");
    let flex = fake(dir.path(), "flex", FLEX);
    let flex = flex.to_str().expect("a path in UTF-8");
    let line =
        format!("compare --flex {flex} --pairs 1 --seconds 1 --threads 4 --rows 4000 --operation read");
    let output = plain(&line.split(' ').collect::<Vec<_>>());
    let (out, err) = text(&output);
    assert!(output.status.success(), "{err}");
    assert!(out.contains("read, 4 threads with 100 in flight") && out.contains("median and range"), "{out}");
    let log = std::fs::read_to_string(format!("{flex}.log")).expect("what it was asked for");
    assert!(log.contains("-t 4 -p 100 -o 10 "), "{log}");
}

#[test]
fn a_flex_asynch_that_fails() {
    let dir = tempfile::tempdir().expect("a directory");
    for script in ["exit 3", "echo nothing useful"] {
        let flex = fake(dir.path(), "flex", script);
        let flex = flex.to_str().expect("a path in UTF-8");
        let output = plain(&["compare", "--flex", flex, "--rows", "20000", "--seconds", "1"]);
        assert_eq!(output.status.code(), Some(1), "{script}");
        assert!(text(&output).1.contains(flex), "{script}");
    }
    let output = plain(&["compare", "--flex", "/no/such/program"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn pairs_with_ndbsync() {
    let dir = tempfile::tempdir().expect("a directory");
    let line = r#"{"threads":1,"operations":10,"ops_per_second":10,"client_cpu_ns_per_op":5000,"p50_us":99.5,"p99_us":120}"#;
    let ndbsync = fake(dir.path(), "ndbsync", &format!("echo '{line}'"));
    let ndbsync = ndbsync.to_str().expect("a path in UTF-8");
    let arguments = ["sync-compare", "--ndbsync", ndbsync, "--pairs", "2", "--seconds", "1"];
    let output = plain(&arguments);
    let (out, err) = text(&output);
    assert!(output.status.success() && out.contains("p50"), "{out} {err}");
    let log = std::fs::read_to_string(format!("{ndbsync}.log")).expect("what it was asked for");
    assert!(log.lines().all(|line| line.starts_with("127.0.0.1:") && line.ends_with(" 1 1 100000")), "{log}");
    let result = json(&plain(&[&arguments[..], &["--json"]].concat()));
    let comparison = &result["comparisons"][0];
    assert_eq!(comparison["against"], "ndbsync");
    for ratio in ["cpu_ratio", "throughput_ratio", "p50_ratio"] {
        assert!(comparison[ratio]["median"].as_f64() > Some(0.0), "{result}");
    }
}

/// Both yardsticks, if IC_NDB_HOME has them.
fn against_programs_on_the_ndb_api(connectstring: &str) {
    let Some(home) = std::env::var_os("IC_NDB_HOME") else { return };
    for (command, name) in
        [("compare --in-flight 50 --rows 1000 --flex", "flexAsynch"), ("sync-compare --ndbsync", "ndbsync")]
    {
        let program = Path::new(&home).join("bin").join(name);
        if !program.exists() {
            continue;
        }
        let mut arguments: Vec<_> = command.split(' ').collect();
        arguments.push(program.to_str().expect("a path in UTF-8"));
        arguments.extend(["--pairs", "1", "--seconds", "1", "--json", "--connectstring", connectstring]);
        let result = json(&plain(&arguments));
        assert!(result["comparisons"][0]["cpu_ratio"]["median"].as_f64() > Some(0.0), "{result}");
    }
}
