//! A real cluster for the test process.
//!
//! | environment | |
//! |---|---|
//! | `IC_NDB_HOME` | the directory whose `bin` holds NDB's programs; without it tests on real nodes are ignored |
//! | `IC_TEST_CONNECTSTRING` | use this running cluster, start none |
//! | `IC_TEST_NODES` | data nodes to start, two replicas of everything (2) |
//! | `IC_TEST_THREADS` | threads of each: 8 gives four storage instances, 12 two coordinators as well (2) |
//!
//! Statics are not dropped at the end of a process, and a process that is killed drops nothing at all. So the
//! cluster's end is left to a warden: a child that waits for the end of a pipe of which only this process has
//! the other end, then stops whatever runs in the cluster's directory, and removes it.

use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use iclaustron::tools::ndb_cluster::{self, NdbCluster};
use iclaustron::wire::NodeId;

use crate::cluster::number;

/// The highest node id there can be; a cluster started here has a place for it.
pub const HIGHEST_NODE_ID: NodeId = 255;

struct Started {
    cluster: NdbCluster,
    /// Ends when its standard input does.
    _warden: Child,
}

/// What finds the cluster.
pub fn connectstring() -> String {
    match std::env::var("IC_TEST_CONNECTSTRING") {
        Ok(given) if !given.is_empty() => given,
        _ => started().cluster.connectstring(),
    }
}

fn started() -> &'static Started {
    static STARTED: OnceLock<Result<Started, String>> = OnceLock::new();
    STARTED.get_or_init(start).as_ref().unwrap_or_else(|error| panic!("{error}"))
}

fn start() -> Result<Started, String> {
    let dir =
        tempfile::Builder::new().prefix("ic-suite-").tempdir().map_err(|error| error.to_string())?.keep();
    // The last lines of the data nodes' section: after them another section may begin.
    let highest = ["[api]".into(), format!("NodeId={HIGHEST_NODE_ID}"), "HostName=127.0.0.1".into()];
    let options = ndb_cluster::Options {
        nodes: number("IC_TEST_NODES").unwrap_or(2) as _,
        threads: number("IC_TEST_THREADS").unwrap_or(2) as _,
        extra: highest.to_vec(),
        ..ndb_cluster::Options::new(&dir)
    };
    // First the warden, so that nothing is started that nobody would end.
    let warden = Command::new("sh")
        .args(["-c", r#"read end; "$1" stop "$2"; rm -rf "$2""#, "warden"])
        .arg(env!("CARGO_BIN_EXE_ic_cluster"))
        .arg(&dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("the warden: {error}"))?;
    let cluster = NdbCluster::start(options).map_err(|error| error.to_string())?;
    Ok(Started { cluster, _warden: warden })
}
