//! Control of a real NDB cluster on the loopback, for tests and tools: one management server, any number of
//! data nodes, everything in one directory. The programs are those of MySQL NDB Cluster, found in `bin` of
//! the directory that the environment variable `IC_NDB_HOME` names.
//!
//! A data node takes about 1.5 GB of memory; a start takes about ten seconds. Whatever a value of
//! [`NdbCluster`] has started ends with it, unless it is told to leave it running.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::wire::NodeId;

const MGM: NodeId = 145;
const START_LIMIT: Duration = Duration::from_secs(120);
const MGM_START_LIMIT: Duration = Duration::from_secs(20);
const END_LIMIT: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// So much of a log goes into an error.
const TAIL: usize = 2000;

/// What went wrong, with the end of the log that tells why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// What cluster to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// Everything is written below this directory.
    pub dir: PathBuf,
    /// Data nodes; their ids are 1, 2, …
    pub nodes: u16,
    /// NoOfReplicas.
    pub replicas: u16,
    /// MaxNoOfExecutionThreads of each data node: 8 gives four storage instances, 12 two coordinators as
    /// well.
    pub threads: u16,
    /// Node ids for clients.
    pub slots: u16,
    /// More lines for the data nodes' section of config.ini, for example `HeartbeatIntervalDbApi=500`. What
    /// is given here replaces what is set by default.
    pub extra: Vec<String>,
}

impl Options {
    /// Two data nodes that are replicas of each other.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Options { dir: dir.into(), nodes: 2, replicas: 2, threads: 2, slots: 32, extra: Vec::new() }
    }

    fn config_ini(&self, port: u16) -> String {
        let ids: Vec<_> = (1..=self.nodes).map(|id| id.to_string()).collect();
        let dir = self.dir.display();
        let mut text = format!("# data nodes: {}\n[ndbd default]\n", ids.join(" "));
        text += &self.data_node_defaults();
        text +=
            &format!("[ndb_mgmd]\nNodeId={MGM}\nHostName=127.0.0.1\nPortNumber={port}\nDataDir={dir}/mgm\n");
        for id in ids {
            text += &format!("[ndbd]\nNodeId={id}\nHostName=127.0.0.1\nDataDir={dir}/{id}\n");
        }
        text + &"[api]\nHostName=127.0.0.1\n".repeat(self.slots.into())
    }

    fn data_node_defaults(&self) -> String {
        // Long heartbeats, because data nodes on a busy machine get no processor for seconds.
        let defaults = [
            ("NoOfReplicas", self.replicas.to_string()),
            ("DataMemory", "300M".into()),
            ("NoOfFragmentLogFiles", "16".into()),
            ("FragmentLogFileSize", "16M".into()),
            ("RedoBuffer", "32M".into()),
            ("MaxNoOfConcurrentOperations", "200000".into()),
            ("MaxNoOfConcurrentTransactions", "16384".into()),
            ("MaxNoOfExecutionThreads", self.threads.to_string()),
            ("HeartbeatIntervalDbDb", "5000".into()),
            ("HeartbeatIntervalDbApi", "5000".into()),
            ("TimeBetweenWatchDogCheck", "60000".into()),
            ("TransactionDeadlockDetectionTimeout", "1200".into()),
            ("StopOnError", "1".into()),
        ];
        let name = |line: &str| line.split('=').next().unwrap_or_default().trim().to_ascii_lowercase();
        let given: Vec<_> = self.extra.iter().map(|line| name(line)).collect();
        let kept = defaults.into_iter().filter(|(key, _)| !given.contains(&name(key)));
        let lines = kept.map(|(key, value)| format!("{key}={value}")).chain(self.extra.iter().cloned());
        lines.map(|line| line + "\n").collect()
    }
}

/// A cluster that runs, or ran, in a directory.
#[derive(Debug)]
pub struct NdbCluster {
    bin: PathBuf,
    dir: PathBuf,
    port: u16,
    nodes: Vec<NodeId>,
    /// What this value has started and not yet seen end.
    children: BTreeMap<NodeId, Child>,
    leave_running: bool,
}

impl NdbCluster {
    /// Where the cluster's programs are, if the environment says so.
    pub fn home() -> Option<PathBuf> {
        std::env::var_os("IC_NDB_HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
    }

    /// Starts a new cluster and waits until all its data nodes are started.
    pub fn start(mut options: Options) -> Result<NdbCluster, Error> {
        let dir = &options.dir;
        fs::create_dir_all(dir).map_err(|error| failed("create", dir, error))?;
        options.dir = fs::canonicalize(dir).map_err(|error| failed("find", dir, error))?;
        let before = options.dir.join("config.ini").exists().then(|| Self::attach(&options.dir)).transpose();
        if let Some(node) = before.ok().flatten().and_then(|before| before.any_running()) {
            return Err(Error(format!("a cluster runs in {}: node {node} does", options.dir.display())));
        }
        let port = free_port()?;
        let config = options.dir.join("config.ini");
        fs::write(&config, options.config_ini(port)).map_err(|error| failed("write", &config, error))?;
        let mut cluster = Self::attach(&options.dir)?;
        cluster.start_management_server()?;
        for node in cluster.nodes.clone() {
            cluster.start_data_node(node, true)?;
        }
        cluster.wait_started()?;
        Ok(cluster)
    }

    /// The cluster that was started in a directory, by whomever.
    pub fn attach(dir: impl AsRef<Path>) -> Result<NdbCluster, Error> {
        let home = Self::home().ok_or_else(|| Error("IC_NDB_HOME is not set".into()))?;
        let dir = fs::canonicalize(&dir).map_err(|error| failed("find", dir.as_ref(), error))?;
        let config = dir.join("config.ini");
        let text = fs::read_to_string(&config).map_err(|error| failed("read", &config, error))?;
        let (port, nodes) = port_and_nodes(&text)
            .ok_or_else(|| Error(format!("{} is not of a cluster started here", config.display())))?;
        let (bin, children) = (home.join("bin"), BTreeMap::new());
        Ok(NdbCluster { bin, dir, port, nodes, children, leave_running: false })
    }

    /// What a client needs to find the cluster.
    pub fn connectstring(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The data nodes' ids.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Where everything is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Lets what was started outlive this value.
    pub fn leave_running(&mut self) {
        self.leave_running = true;
    }

    /// Ends a data node as a crash does, and waits until it is gone.
    pub fn kill(&mut self, node: NodeId) -> Result<(), Error> {
        self.signal(node, "KILL")?;
        self.wait_gone(node)
    }

    /// Halts a data node: its sockets stay open, it says nothing.
    pub fn pause(&self, node: NodeId) -> Result<(), Error> {
        self.signal(node, "STOP")
    }

    /// Lets a halted data node go on.
    pub fn resume(&self, node: NodeId) -> Result<(), Error> {
        self.signal(node, "CONT")
    }

    /// Starts data nodes that do not run, and waits until all of the cluster's are started.
    pub fn restart(&mut self, nodes: &[NodeId]) -> Result<(), Error> {
        self.wait_missed(nodes)?;
        for node in nodes {
            self.start_data_node(*node, false)?;
        }
        self.wait_started()
    }

    /// Waits until the management server knows that nodes are gone: it would take them for started otherwise.
    fn wait_missed(&self, nodes: &[NodeId]) -> Result<(), Error> {
        if let Some(node) = nodes.iter().find(|node| self.pid(**node).is_some()) {
            return Err(Error(format!("data node {node} runs already")));
        }
        let ids: Vec<_> = nodes.iter().map(NodeId::to_string).collect();
        let wanted = format!("--wait-nodes={}", ids.join(","));
        let limit = format!("--timeout={}", START_LIMIT.as_secs());
        let output = self.run("ndb_waiter", ["--no-contact", &wanted, &limit])?;
        match output.status.success() {
            true => Ok(()),
            false => {
                Err(Error(format!("data nodes {} seem to run\n{}", ids.join(", "), tail(&said(&output)))))
            }
        }
    }

    /// Waits until all data nodes are started.
    pub fn wait_started(&mut self) -> Result<(), Error> {
        let limit = format!("--timeout={}", START_LIMIT.as_secs());
        let output = self.run("ndb_waiter", [limit.as_str()])?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error(format!("not all data nodes started\n{}{}", self.why(), tail(&said(&output)))))
    }

    /// How many rows a table has, read by a scan.
    pub fn rows(&self, db: &str, table: &str) -> Result<u64, Error> {
        let text = self.ask("ndb_select_all", ["-d", db, table])?;
        row_count(&text).ok_or_else(|| Error(format!("ndb_select_all counts no rows:\n{}", tail(&text))))
    }

    /// What NDB knows about a table, its partitions included.
    pub fn describe(&self, db: &str, table: &str) -> Result<String, Error> {
        self.ask("ndb_desc", ["-d", db, table, "-p"])
    }

    /// All nodes and their states.
    pub fn status(&self) -> Result<String, Error> {
        self.ask("ndb_mgm", ["-e", "show"])
    }

    /// Ends all of the cluster, whoever started it.
    pub fn stop(&mut self) -> Result<(), Error> {
        let running: Vec<_> = self.all().filter(|node| self.pid(*node).is_some()).collect();
        running.iter().try_for_each(|node| self.signal(*node, "KILL"))?;
        running.iter().try_for_each(|node| self.wait_gone(*node))
    }

    fn all(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().copied().chain([MGM])
    }

    fn any_running(&self) -> Option<NodeId> {
        self.all().find(|node| self.pid(*node).is_some())
    }

    fn folder(&self, node: NodeId) -> PathBuf {
        self.dir.join(if node == MGM { "mgm".into() } else { node.to_string() })
    }

    fn start_management_server(&mut self) -> Result<(), Error> {
        let args = [
            self.config_file(),
            format!("--configdir={}", self.folder(MGM).display()),
            "--nodaemon".into(),
            "--initial".into(),
        ];
        self.spawn(MGM, "ndb_mgmd", &args)?;
        let deadline = Instant::now() + MGM_START_LIMIT;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            if self.ended(MGM) || Instant::now() > deadline {
                return Err(Error(format!("the management server does not start\n{}", self.log(MGM))));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    fn start_data_node(&mut self, node: NodeId, initial: bool) -> Result<(), Error> {
        if !self.nodes.contains(&node) {
            return Err(Error(format!("the cluster has no data node {node}")));
        }
        if self.pid(node).is_some() {
            return Err(Error(format!("data node {node} runs already")));
        }
        let mut args = vec![self.server(), format!("--ndb-nodeid={node}"), "--foreground".into()];
        if initial {
            args.push("--initial".into());
        }
        self.spawn(node, "ndbmtd", &args)
    }

    fn spawn(&mut self, node: NodeId, program: &str, args: &[String]) -> Result<(), Error> {
        let folder = self.folder(node);
        fs::create_dir_all(&folder).map_err(|error| failed("create", &folder, error))?;
        let path = folder.join("out.log");
        let log = File::options().create(true).append(true).open(&path);
        let log = log.and_then(|log| Ok((log.try_clone()?, log)));
        let (out, err) = log.map_err(|error| failed("write", &path, error))?;
        let program = self.bin.join(program);
        let child = Command::new(&program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .spawn()
            .map_err(|error| failed("run", &program, error))?;
        let pid = child.id().to_string();
        self.children.insert(node, child);
        let path = folder.join("pid");
        fs::write(&path, pid).map_err(|error| failed("write", &path, error))
    }

    fn server(&self) -> String {
        format!("--ndb-connectstring={}", self.connectstring())
    }

    fn config_file(&self) -> String {
        format!("--config-file={}/config.ini", self.dir.display())
    }

    /// The process of a node, if it runs. Process ids are used again: the command line must be the node's as
    /// well.
    fn pid(&self, node: NodeId) -> Option<u32> {
        let pid = fs::read_to_string(self.folder(node).join("pid")).ok()?.trim().parse().ok()?;
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let has = |wanted: String| command.split(|byte| *byte == 0).any(|arg| arg == wanted.as_bytes());
        let is_it = match node {
            MGM => has(self.config_file()),
            _ => has(self.server()) && has(format!("--ndb-nodeid={node}")),
        };
        is_it.then_some(pid)
    }

    fn signal(&self, node: NodeId, signal: &str) -> Result<(), Error> {
        let pid = self.pid(node).ok_or_else(|| Error(format!("node {node} does not run")))?;
        // The shell's own kill: not every system has the program.
        let status = Command::new("sh").arg("-c").arg(format!("kill -{signal} {pid}")).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Error(format!("signal {signal} to node {node}: kill: {status}"))),
            Err(error) => Err(Error(format!("signal {signal} to node {node}: sh: {error}"))),
        }
    }

    fn wait_gone(&mut self, node: NodeId) -> Result<(), Error> {
        if let Some(mut child) = self.children.remove(&node) {
            return child.wait().map(drop).map_err(|error| Error(format!("wait for node {node}: {error}")));
        }
        let deadline = Instant::now() + END_LIMIT;
        while self.pid(node).is_some() {
            if Instant::now() > deadline {
                return Err(Error(format!("node {node} does not end")));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    fn ended(&mut self, node: NodeId) -> bool {
        self.children.get_mut(&node).is_some_and(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// The logs of nodes that ended by themselves.
    fn why(&mut self) -> String {
        let ended: Vec<_> = self.all().filter(|node| self.pid(*node).is_none()).collect();
        ended.into_iter().map(|node| format!("node {node} does not run:\n{}\n", self.log(node))).collect()
    }

    fn log(&self, node: NodeId) -> String {
        let path = self.folder(node).join("out.log");
        fs::read(&path)
            .map(|log| format!("{}: …{}", path.display(), tail(&String::from_utf8_lossy(&log))))
            .unwrap_or_else(|error| format!("{}: {error}", path.display()))
    }

    fn run<'a>(&self, program: &str, args: impl IntoIterator<Item = &'a str>) -> Result<Output, Error> {
        let path = self.bin.join(program);
        Command::new(&path)
            .arg(self.server())
            .args(["--connect-retries=3", "--connect-retry-delay=1"])
            .args(args.into_iter().map(OsStr::new))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| failed("run", &path, error))
    }

    fn ask<'a>(&self, program: &str, args: impl IntoIterator<Item = &'a str>) -> Result<String, Error> {
        let output = self.run(program, args)?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(Error(format!("{program}: {}\n{}", output.status, tail(&said(&output))))),
        }
    }
}

impl Drop for NdbCluster {
    fn drop(&mut self) {
        if self.leave_running {
            return;
        }
        for child in self.children.values_mut() {
            let _ = child.kill();
        }
        for child in self.children.values_mut() {
            let _ = child.wait();
        }
    }
}

fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    Error(format!("cannot {what} {}: {error}", path.display()))
}

fn free_port() -> Result<u16, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| Error(format!("no free port: {error}")))
}

fn port_and_nodes(config: &str) -> Option<(u16, Vec<NodeId>)> {
    let value = |prefix| config.lines().find_map(|line| line.strip_prefix(prefix));
    let nodes = value("# data nodes: ")?.split_whitespace().map(|id| id.parse().ok());
    Some((value("PortNumber=")?.trim().parse().ok()?, nodes.collect::<Option<_>>()?))
}

fn row_count(text: &str) -> Option<u64> {
    text.lines().rev().find_map(|line| line.split_once(" rows returned")?.0.trim().parse().ok())
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat()
}

fn tail(text: &str) -> &str {
    let start = (text.len().saturating_sub(TAIL)..text.len()).find(|at| text.is_char_boundary(*at));
    text.get(start.unwrap_or(0)..).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_ini_holds_what_attach_needs() {
        let options = Options { nodes: 3, slots: 2, ..Options::new("/d") };
        let text = options.config_ini(4711);
        assert_eq!(port_and_nodes(&text), Some((4711, vec![1, 2, 3])));
        assert_eq!(text.matches("[api]\n").count(), 2);
        assert!(text.contains("[ndbd]\nNodeId=3\nHostName=127.0.0.1\nDataDir=/d/3\n"), "{text}");
        assert_eq!(port_and_nodes("[ndbd default]\n"), None);
        assert_eq!(port_and_nodes("# data nodes: 1 x\nPortNumber=1\n"), None);
    }

    #[test]
    fn given_lines_replace_defaults() {
        let extra = vec!["heartbeatintervaldbapi = 500".into(), "StopOnError=0".into(), "Diskless=1".into()];
        let text = Options { extra, ..Options::new("/d") }.data_node_defaults();
        let lines: Vec<_> = text.lines().map(str::to_ascii_lowercase).collect();
        let count = |name: &str| lines.iter().filter(|line| line.starts_with(name)).count();
        assert_eq!((count("heartbeatintervaldbapi"), count("stoponerror"), count("diskless")), (1, 1, 1));
        assert!(lines.contains(&"stoponerror=0".into()) && lines.contains(&"noofreplicas=2".into()));
    }

    #[test]
    fn counting_rows() {
        assert_eq!(row_count("1\t2\n3 rows returned\n\nNDBT_ProgramExit: 0 - OK\n"), Some(3));
        assert_eq!(row_count("nothing\n"), None);
    }

    #[test]
    fn tails() {
        assert_eq!(tail("short"), "short");
        assert_eq!(tail(""), "");
        let long = "ä".repeat(TAIL) + "x";
        assert!(tail(&long).ends_with("äx") && tail(&long).len() <= TAIL);
    }

    #[test]
    fn nothing_to_attach_to() {
        let dir = tempfile::tempdir().unwrap();
        assert!(NdbCluster::attach(dir.path()).is_err());
    }
}
