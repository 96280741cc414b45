//! One session with a management server: a TCP connection on which requests are answered in order. Calls
//! block, each until its deadline at the latest; each error says the step, the server, and the reason in the
//! system's or the server's own words. Source: storage/ndb/src/mgmsrv/Services.cpp and src/mgmapi/mgmapi.cpp.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use socket2::{Domain, Protocol, Socket, Type};

use super::connectstring::{Bind, Host};
use super::text::{self, END_SESSION_REPLY, Reply, ReplyParser, TextError};
use crate::error::{Error, own};
use crate::wire::NodeId;
use crate::wire::config::{self, Configuration};

/// The NDB version that this client claims; its receive formats are the ones implemented.
pub const CLAIMED_VERSION: u32 = 9 << 16 | 7 << 8 | 4;
/// The oldest management server that knows the configuration's format.
const OLDEST_SERVER: u32 = 8 << 16 | 18;
/// What the server's log calls this client.
const CLIENT_NAME: &str = "libiclaustron";
const NODE_TYPE_API: &str = "1";
const PORT_NUMBER: &str = "406";

const MAX_LINE: usize = 4096;
const MAX_BODY: usize = 16 << 20;
/// Longest wait for one of several servers, and the shortest that is worth trying.
const OPEN_LIMIT: Duration = Duration::from_secs(10);
const OPEN_SHARE: Duration = Duration::from_secs(1);
const END_LIMIT: Duration = Duration::from_secs(1);

/// No id is free, or none can be given now.
const NO_FREE_ID: i32 = 1101;
/// The client's address is not that of a configured host; the server's name service may just be late.
const NO_HOST_MATCH: i32 = 1103;

/// What was being done when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Finding the addresses of a host name.
    Resolve,
    /// Connecting to the server.
    Connect,
    /// Finding out whether the peer is a management server that can be used.
    Session,
    /// Getting a node id.
    NodeId,
    /// Getting the configuration.
    Configuration,
    /// Asking for a data node's port.
    Port,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Resolve => "resolve",
            Step::Connect => "connect",
            Step::Session => "management session",
            Step::NodeId => "node id",
            Step::Configuration => "configuration",
            Step::Port => "port",
        })
    }
}

/// What failed, where, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MgmError {
    /// What was being done.
    pub step: Step,
    /// The server's host as the connectstring gives it.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// The server's error code, if it gave one.
    pub code: Option<i32>,
    /// The reason, in the system's or the server's words.
    pub text: String,
    /// Whether another attempt, here or at another server, may succeed.
    pub temporary: bool,
    /// What failed after it in the same call: at the next server, or at the last attempt.
    pub later: Vec<MgmError>,
}

impl fmt::Display for MgmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (left, right) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{}: {left}{}{right}:{}: {}", self.step, self.host, self.port, self.text)?;
        self.code.map_or(Ok(()), |code| write!(f, " (code {code})"))?;
        self.later.iter().try_for_each(|error| write!(f, "; then {error}"))
    }
}

impl std::error::Error for MgmError {}

impl From<MgmError> for Error {
    fn from(error: MgmError) -> Error {
        let code = if error.step == Step::NodeId { own::NO_NODE_ID } else { own::CONNECT_FAILED };
        Error::new(code, error.to_string())
    }
}

impl MgmError {
    /// Whether a server answered, and said no.
    pub fn is_refusal(&self) -> bool {
        self.code.is_some() || self.later.iter().any(MgmError::is_refusal)
    }

    /// This error, with what failed after it told as well.
    pub(super) fn then(mut self, next: MgmError) -> MgmError {
        self.temporary |= next.temporary;
        self.later.push(next);
        self
    }
}

/// A management server's version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// NDB's version word: major << 16 | minor << 8 | build.
    pub id: u32,
    /// The version as the server spells it.
    pub text: String,
}

/// An open session.
#[derive(Debug)]
pub struct Session {
    stream: TcpStream,
    host: String,
    port: u16,
    /// Bytes that arrived and were not used yet.
    buffer: Vec<u8>,
    /// Set while a request is out: what comes after an error may answer anything.
    unanswered: bool,
}

/// Why a request got no usable reply.
enum Failure {
    Io(String),
    Text(TextError),
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Failure::Io(text)
    }
}

impl Session {
    /// A session with the first of the hosts that is a usable management server. They are tried in order; if
    /// none is, the error tells about all of them.
    pub fn open(hosts: &[Host], deadline: Instant) -> Result<Session, MgmError> {
        let mut failed: Option<MgmError> = None;
        for (tried, host) in hosts.iter().enumerate() {
            match open_one(host, share(deadline, hosts.len() - tried)) {
                Ok(session) => return Ok(session),
                Err(error) => {
                    failed = Some(match failed {
                        Some(first) => first.then(error),
                        None => error,
                    })
                }
            }
        }
        Err(failed.unwrap_or_else(|| error_at(Step::Connect, "", 0, "the connectstring names no host")))
    }

    /// The server's host as the connectstring gives it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The server's port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's version.
    pub fn get_version(&mut self, deadline: Instant) -> Result<Version, MgmError> {
        let reply = self.ask(Step::Session, "get version", &[], "version", deadline)?;
        match reply.number("id") {
            Some(id) => Ok(Version { id, text: reply.get("string").unwrap_or_default().to_owned() }),
            None => Err(self.error(Step::Session, "the server does not tell its version")),
        }
    }

    /// A node id for this client: the wanted one, or any that is free. The server may take seconds to answer.
    /// Refusals that another attempt may turn are marked as temporary. The id is reserved for 20 seconds,
    /// until a data node accepts the client.
    pub fn allocate_node_id(
        &mut self,
        wanted: Option<NodeId>,
        deadline: Instant,
    ) -> Result<NodeId, MgmError> {
        let (version, wanted) = (CLAIMED_VERSION.to_string(), wanted.unwrap_or(0).to_string());
        let args = [
            ("version", version.as_str()),
            ("nodetype", NODE_TYPE_API),
            ("nodeid", &wanted),
            ("user", "mysqld"),
            ("password", "mysqld"),
            ("public key", "a public key"),
            ("endian", "little"),
            ("name", CLIENT_NAME),
            ("log_event", "1"),
        ];
        let reply = self.ask(Step::NodeId, "get nodeid", &args, "get nodeid reply", deadline)?;
        if let Err(words) = reply.result() {
            let code = reply.number("error_code");
            let temporary = matches!(code, Some(NO_FREE_ID | NO_HOST_MATCH));
            return Err(MgmError { code, temporary, ..self.error(Step::NodeId, words) });
        }
        match reply.number("nodeid") {
            Some(id @ 1..=255) => Ok(id),
            _ => Err(self.error(Step::NodeId, "the server's answer holds no node id")),
        }
    }

    /// The configuration as the given API node sees it.
    pub fn configuration(&mut self, own: NodeId, deadline: Instant) -> Result<Configuration, MgmError> {
        let step = Step::Configuration;
        let (version, own) = (CLAIMED_VERSION.to_string(), own.to_string());
        let args = [("version", version.as_str()), ("nodetype", NODE_TYPE_API), ("node", &own)];
        let reply = self.ask(step, "get config_v2", &args, "get config reply", deadline)?;
        if let Err(words) = reply.result() {
            // For example: not all management servers have confirmed it yet.
            return Err(MgmError { temporary: true, ..self.error(step, words) });
        }
        // The body is still to come.
        self.unanswered = true;
        let Some(length @ 0..=MAX_BODY) = reply.number("Content-Length") else {
            return Err(self.error(step, "the server gives no usable length of the configuration"));
        };
        let body = self.take(length, deadline).and_then(|body| {
            self.take(1, deadline)?;
            Ok(body)
        });
        let body = body.map_err(|text| MgmError { temporary: true, ..self.error(step, text) })?;
        self.unanswered = false;
        let packed: Vec<u8> = body.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let bytes = STANDARD
            .decode(packed)
            .map_err(|error| self.error(step, format!("the configuration is not base64: {error}")))?;
        config::decode(&bytes).map_err(|error| self.error(step, error))
    }

    /// The port on which a data node listens for this client, if it is known by now.
    pub fn dynamic_port(
        &mut self,
        data_node: NodeId,
        own: NodeId,
        deadline: Instant,
    ) -> Result<Option<u16>, MgmError> {
        let (node, own) = (data_node.to_string(), own.to_string());
        let args = [("node1", node.as_str()), ("node2", &own), ("param", PORT_NUMBER)];
        let expected = "get connection parameter reply";
        let reply = self.ask(Step::Port, "get connection parameter", &args, expected, deadline)?;
        reply.result().map_err(|words| self.error(Step::Port, words))?;
        // A port that was chosen by the data node is told as a negative number.
        match reply.number::<i32>("value").map(|value| u16::try_from(value.unsigned_abs())) {
            Some(Ok(0)) => Ok(None),
            Some(Ok(port)) => Ok(Some(port)),
            _ => Err(self.error(Step::Port, "the server's answer holds no port")),
        }
    }

    /// Takes leave of the server. Whatever comes of it, the session is over.
    pub fn end(mut self) {
        let deadline = Instant::now() + END_LIMIT;
        let _ = self.exchange("end session", &[], END_SESSION_REPLY, deadline);
    }

    fn ask(
        &mut self,
        step: Step,
        command: &str,
        args: &[(&str, &str)],
        expected: &str,
        deadline: Instant,
    ) -> Result<Reply, MgmError> {
        self.exchange(command, args, expected, deadline).map_err(|failure| match failure {
            Failure::Io(text) => MgmError { temporary: true, ..self.error(step, text) },
            Failure::Text(error) => self.error(step, error),
        })
    }

    fn exchange(
        &mut self,
        command: &str,
        args: &[(&str, &str)],
        expected: &str,
        deadline: Instant,
    ) -> Result<Reply, Failure> {
        if self.unanswered {
            return Err(Failure::Io("the session is over since an earlier error".into()));
        }
        self.unanswered = true;
        self.write(text::request(command, args).as_bytes(), deadline)?;
        let mut parser = ReplyParser::new(expected);
        loop {
            let line = self.line(deadline)?;
            if let Some(reply) = parser.line(&line).map_err(Failure::Text)? {
                self.unanswered = false;
                return Ok(reply);
            }
        }
    }

    pub(super) fn error(&self, step: Step, text: impl fmt::Display) -> MgmError {
        error_at(step, &self.host, self.port, text)
    }

    fn write(&mut self, mut bytes: &[u8], deadline: Instant) -> Result<(), String> {
        while !bytes.is_empty() {
            let left = remaining(deadline)?;
            let written = self.stream.set_write_timeout(Some(left)).and_then(|()| self.stream.write(bytes));
            match written {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if is_wait(&error) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// The next line, its end included.
    fn line(&mut self, deadline: Instant) -> Result<Vec<u8>, String> {
        let mut searched = 0;
        loop {
            let rest = self.buffer.get(searched..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                return Ok(self.buffer.drain(..searched + end + 1).collect());
            }
            searched = self.buffer.len();
            if searched > MAX_LINE {
                let start = text::quote(&self.buffer);
                return Err(format!("the answer is not that of a management server: {start:?}"));
            }
            self.fill(deadline).map_err(|error| match self.buffer.is_empty() {
                true => error,
                false => format!("{error}, after {:?}", text::quote(&self.buffer)),
            })?;
        }
    }

    fn take(&mut self, length: usize, deadline: Instant) -> Result<Vec<u8>, String> {
        while self.buffer.len() < length {
            self.fill(deadline)?;
        }
        Ok(self.buffer.drain(..length).collect())
    }

    /// Waits for more bytes.
    fn fill(&mut self, deadline: Instant) -> Result<(), String> {
        let mut piece = [0; 16 << 10];
        loop {
            let left = remaining(deadline)?;
            match self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(&mut piece)) {
                Ok(0) => return Err("the server closed the connection".into()),
                Ok(count) => {
                    self.buffer.extend_from_slice(piece.get(..count).unwrap_or_default());
                    return Ok(());
                }
                Err(error) if is_wait(&error) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

fn error_at(step: Step, host: &str, port: u16, text: impl fmt::Display) -> MgmError {
    MgmError {
        step,
        host: host.into(),
        port,
        code: None,
        text: text.to_string(),
        temporary: false,
        later: Vec::new(),
    }
}

fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn remaining(deadline: Instant) -> Result<Duration, String> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err("no answer in time".into()),
        // The kernel counts microseconds, and zero of them is for ever.
        left => Ok(left.max(Duration::from_millis(1))),
    }
}

/// Until when one of `left` candidates may take, so that a silent one leaves time for the others.
fn share(deadline: Instant, left: usize) -> Instant {
    let now = Instant::now();
    let part = deadline.saturating_duration_since(now) / left.try_into().unwrap_or(u32::MAX).max(1);
    deadline.min(now + part.clamp(OPEN_SHARE, OPEN_LIMIT))
}

fn open_one(host: &Host, deadline: Instant) -> Result<Session, MgmError> {
    let failed =
        |step, text: String| MgmError { temporary: true, ..error_at(step, &host.name, host.port, text) };
    let addresses = resolve(&host.name, host.port, deadline).map_err(|text| failed(Step::Resolve, text))?;
    let stream =
        connect_any(&addresses, host.bind.as_ref(), deadline).map_err(|text| failed(Step::Connect, text))?;
    let (name, port) = (host.name.clone(), host.port);
    let mut session = Session { stream, host: name, port, buffer: Vec::new(), unanswered: false };
    let version = session.get_version(deadline)?;
    if version.id < OLDEST_SERVER {
        let text = format!("the management server has version {}, at least 8.0.18 is needed", version.text);
        return Err(session.error(Step::Session, text));
    }
    Ok(session)
}

fn connect_any(
    addresses: &[SocketAddr],
    bind: Option<&Bind>,
    deadline: Instant,
) -> Result<TcpStream, String> {
    let mut failed = Vec::new();
    for (tried, address) in addresses.iter().enumerate() {
        match connect(*address, bind, share(deadline, addresses.len() - tried)) {
            Ok(stream) => return Ok(stream),
            Err(text) if addresses.len() == 1 => failed.push(text),
            Err(text) => failed.push(format!("{}: {text}", address.ip())),
        }
    }
    Err(failed.join(", "))
}

fn connect(address: SocketAddr, bind: Option<&Bind>, deadline: Instant) -> Result<TcpStream, String> {
    let words = |error: io::Error| error.to_string();
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).map_err(words)?;
    if let Some(bind) = bind {
        let own = resolve(&bind.name, bind.port, deadline)
            .map_err(|text| format!("bind address {}: {text}", bind.name))?
            .into_iter()
            .find(|own| own.is_ipv4() == address.is_ipv4())
            .ok_or_else(|| format!("bind address {}: not of the server's address family", bind.name))?;
        socket.bind(&own.into()).map_err(|error| format!("bind to {own}: {error}"))?;
    }
    socket.connect_timeout(&address.into(), remaining(deadline)?).map_err(words)?;
    socket.set_tcp_nodelay(true).map_err(words)?;
    Ok(socket.into())
}

/// The addresses of a host, never empty. The system's resolver knows no time limit: it runs in a thread of
/// its own, which ends when the resolver gives up, and nobody waits for it longer than until the deadline.
fn resolve(name: &str, port: u16, deadline: Instant) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let (sender, receiver) = mpsc::channel();
    let wanted = (name.to_owned(), port);
    let resolver = move || {
        let found = wanted.to_socket_addrs().map(Vec::from_iter);
        let _ = sender.send(found);
    };
    let named = std::thread::Builder::new().name("ic-resolve".into());
    named.spawn(resolver).map_err(|error| error.to_string())?;
    match receiver.recv_timeout(remaining(deadline)?) {
        Ok(Ok(addresses)) if addresses.is_empty() => Err("the host name has no address".into()),
        Ok(found) => found.map_err(|error| error.to_string()),
        Err(_) => Err("no answer of the name service in time".into()),
    }
}
