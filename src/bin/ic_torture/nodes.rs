//! The data nodes, and how they are done harm: embedded ones by their faults on request, real ones by signals
//! to their processes.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use iclaustron::embedded::faults::Fault;
use iclaustron::embedded::{self, EmbeddedCluster};
use iclaustron::error::Error;
use iclaustron::tools::ndb_cluster::{self, NdbCluster};
use iclaustron::wire::NodeId;

use crate::schedule::Action;

/// How long a fault may take until it has happened, and a node until it is started.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Data nodes of a kind.
pub enum Nodes {
    Embedded(EmbeddedCluster),
    Real { cluster: NdbCluster, dir: PathBuf },
}

impl Nodes {
    /// Starts embedded nodes.
    pub fn embedded(nodes: NodeId, seed: u64) -> Result<Nodes, String> {
        let lock_timeout = Duration::from_millis(300);
        let options = embedded::Options { nodes, seed, lock_timeout, ..embedded::Options::default() };
        EmbeddedCluster::start(options).map(Nodes::Embedded).map_err(|error| error.to_string())
    }

    /// Where the real cluster of this process is.
    pub fn dir() -> PathBuf {
        std::env::temp_dir().join(format!("ic_torture-{}", std::process::id()))
    }

    /// Starts a real cluster in a directory, which goes with it.
    pub fn real(nodes: NodeId) -> Result<Nodes, String> {
        let dir = Nodes::dir();
        // Heartbeats are long ones there: who is halted for seconds loses neither the others nor its
        // arbitrator.
        let options = ndb_cluster::Options { nodes, ..ndb_cluster::Options::new(&dir) };
        NdbCluster::start(options)
            .map(|cluster| Nodes::Real { cluster, dir })
            .map_err(|error| error.to_string())
    }

    /// What a client needs to find them.
    pub fn connectstring(&self) -> String {
        match self {
            Nodes::Embedded(cluster) => cluster.connectstring(),
            Nodes::Real { cluster, .. } => cluster.connectstring(),
        }
    }

    /// Does one harm; an error says what did not happen though it was asked for. `clients` are node ids.
    pub fn perform(&mut self, action: Action, clients: &[u32]) -> Result<(), String> {
        match self {
            Nodes::Embedded(cluster) => perform_embedded(cluster, action, clients),
            Nodes::Real { cluster, .. } => perform_real(cluster, action),
        }
    }

    /// Complaints of embedded nodes that no fault explains.
    pub fn complaints(&self) -> Vec<String> {
        match self {
            Nodes::Embedded(cluster) => {
                // A client that is expelled is refused until that has been handled.
                let known = ["has left", "asked for", "refused: not now"];
                let explained = |line: &String| known.iter().any(|known| line.contains(known));
                cluster.log().into_iter().filter(|line| !explained(line)).collect()
            }
            Nodes::Real { .. } => Vec::new(),
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        if let Nodes::Real { cluster, dir } = self {
            let _ = cluster.stop();
            let _ = std::fs::remove_dir_all(dir);
        }
    }
}

fn wait(what: impl Fn() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    while !what() {
        if Instant::now() > until {
            return false;
        }
        sleep(LOOK_AGAIN);
    }
    true
}

fn perform_embedded(cluster: &EmbeddedCluster, action: Action, clients: &[u32]) -> Result<(), String> {
    let millis = Duration::from_millis;
    let asked: Result<Fault, _> = match action {
        Action::Kill(node) => return cluster.kill(node).map_err(|error| error.to_string()),
        Action::Restart(node) => {
            cluster.restart(node).map_err(|error| error.to_string())?;
            let started = wait(|| cluster.started().contains(&node));
            return if started { Ok(()) } else { Err(format!("node {node} does not start")) };
        }
        Action::Delay(node, 0) => {
            return cluster.delay(node, Duration::ZERO).map(drop).map_err(|error| error.to_string());
        }
        Action::Pause(node, ms) => cluster.stall(node, millis(ms)),
        Action::Delay(node, ms) => cluster.delay(node, millis(ms)),
        Action::DropLink(node, client) => {
            let client = clients.get(client).and_then(|&id| NodeId::try_from(id).ok());
            return until_consumed(action, || cluster.drop_link(node, client));
        }
        Action::Garbage(node) => return until_consumed(action, || cluster.send_garbage(node)),
        Action::Fail(node, nth, code) => cluster.fail_operation(node, nth, code),
    };
    let fault = asked.map_err(|error| error.to_string())?;
    // A pause in which nothing was to be sent is none: only then may it go by unseen.
    let may_pass = matches!(action, Action::Pause(..));
    if may_pass {
        return Ok(());
    }
    if wait(|| fault.consumed()) { Ok(()) } else { Err(format!("{action}: was not consumed")) }
}

/// Asks again until there is a link to which it can happen.
fn until_consumed(action: Action, ask: impl Fn() -> Result<Fault, Error>) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let fault = ask().map_err(|error| error.to_string())?;
        sleep(10 * LOOK_AGAIN);
        if fault.consumed() {
            return Ok(());
        }
    }
    Err(format!("{action}: was not consumed"))
}

fn perform_real(cluster: &mut NdbCluster, action: Action) -> Result<(), String> {
    match action {
        Action::Kill(node) => cluster.kill(node),
        Action::Restart(node) => cluster.restart(&[node]),
        Action::Pause(node, ms) => cluster.pause(node).and_then(|()| {
            sleep(Duration::from_millis(ms));
            cluster.resume(node)
        }),
        Action::Delay(..) | Action::DropLink(..) | Action::Garbage(_) | Action::Fail(..) => Ok(()),
    }
    .map_err(|error| error.to_string())
}
