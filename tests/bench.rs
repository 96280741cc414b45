//! ic_bench on embedded nodes of its own, and on a real cluster: with IC_TEST_CONNECTSTRING set, on that one, else on one
//! that is started here.
#![cfg(all(feature = "tools", feature = "embedded"))]

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

/// Runs ic_bench; without a connectstring on nodes of its own.
fn bench(connectstring: Option<&str>, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ic_bench"));
    command.env_remove("NDB_CONNECTSTRING").args(["--rows", "2000"]);
    connectstring.iter().for_each(|text| _ = command.args(["--connectstring", text]));
    command.args(["--seconds", "0.5", "--warmup", "0.2"]).args(arguments.split_whitespace());
    command.output().expect("ic_bench runs")
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(&text).expect("one JSON object")
}

#[test]
#[cfg_attr(not(real_cluster), ignore = "needs a real cluster: set IC_NDB_HOME")]
fn operations_on_a_real_cluster() {
    let cluster = cluster();
    operations(Some(&cluster.connectstring));
    let people = bench(Some(&cluster.connectstring), "");
    let text = String::from_utf8_lossy(&people.stdout);
    assert!(people.status.success() && text.contains("operations a second"), "{text}");
    assert!(people.stderr.is_empty() && !text.contains('\x1b'), "plain in a pipe");
}

#[test]
fn operations_on_embedded_nodes() {
    operations(None);
    let people = bench(None, "");
    let said = [people.stdout, people.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(people.status.success() && said[0].contains("operations a second"), "{said:?}");
    assert!(said[1].contains("embedded data nodes"), "{said:?}");
}

fn operations(connectstring: Option<&str>) {
    for load in [
        "--operation read --force",
        "--operation update",
        "--operation write --keys sequential",
        "--operation mixed --threads 2 --receive-threads 2",
        "--operation read --sync",
        "--operation read --keys one",
        "--operation read --transaction-size 10 --in-flight 100",
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
    }
}

#[test]
fn options_that_do_not_fit() {
    let output = bench(Some("127.0.0.1:1"), "--in-flight 10 --transaction-size 3");
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty() && String::from_utf8_lossy(&output.stderr).contains("multiple"));
}
