//! The clusters under test, one of each kind per test process, and the process's connections to them.
//!
//! | environment | |
//! |---|---|
//! | `IC_TEST_NODES` | data nodes to start, two replicas of everything (2) |
//! | `IC_TEST_SEED` | decides what embedded nodes leave to chance (random; printed when they start) |
//!
//! See [`crate::real`] for what else real ones heed. Each test runs once on each kind: a thread knows on which.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};

use iclaustron::cluster::{Cluster, Options};
use iclaustron::embedded::{self, EmbeddedCluster};

use crate::real;

/// What kind of data nodes there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    Embedded,
    Real,
}

thread_local!(static NODES: Cell<Option<Nodes>> = const { Cell::new(None) });

/// Makes a test of a function: one on embedded nodes, one on real ones. Stands before the function.
macro_rules! node_test {
    ($name:ident) => {
        mod $name {
            #[test]
            fn on_embedded_nodes() {
                crate::cluster::on(crate::cluster::Nodes::Embedded, super::$name);
            }

            #[test]
            #[cfg_attr(not(real_cluster), ignore = "needs a real cluster: set IC_NDB_HOME")]
            fn on_real_nodes() {
                crate::cluster::on(crate::cluster::Nodes::Real, super::$name);
            }
        }
    };
}

/// Runs something on nodes of a kind.
pub fn on<R>(nodes: Nodes, body: impl FnOnce() -> R) -> R {
    NODES.set(Some(nodes));
    body()
}

/// On which nodes this thread's test runs.
pub fn nodes() -> Nodes {
    NODES.get().expect("a thread of a test tells its own threads on which nodes they run")
}

/// What finds the cluster.
pub fn connectstring() -> String {
    match nodes() {
        Nodes::Embedded => embedded().connectstring(),
        Nodes::Real => real::connectstring(),
    }
}

/// The process's own place in the cluster, shared by all tests that do not leave it.
pub fn joined() -> Arc<Cluster> {
    static JOINED: [OnceLock<Arc<Cluster>>; 2] = [const { OnceLock::new() }; 2];
    JOINED[nodes() as usize].get_or_init(|| join(&Options::default())).clone()
}

/// One more place in the cluster.
pub fn join(options: &Options) -> Arc<Cluster> {
    let cluster = Cluster::connect(Some(&connectstring()), options).expect("joining the cluster");
    let (usable, _, all) = cluster.counts();
    assert_eq!(usable, all, "data nodes that can be used");
    cluster
}

/// A number that the environment can give.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

fn embedded() -> &'static EmbeddedCluster {
    static STARTED: OnceLock<EmbeddedCluster> = OnceLock::new();
    STARTED.get_or_init(|| {
        let seed = number("IC_TEST_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
        // Not through the test harness, which keeps what passing tests print.
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "embedded nodes: IC_TEST_SEED={seed}");
        let options = embedded::Options {
            nodes: number("IC_TEST_NODES").unwrap_or(2) as u16,
            seed,
            api_slots: 200,
            ..embedded::Options::default()
        };
        EmbeddedCluster::start(options).expect("embedded nodes")
    })
}
