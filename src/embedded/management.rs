//! The management endpoint: NDB's management protocol as clients and NDB's own tools use it, one thread a
//! session. Source: storage/ndb/src/mgmsrv/Services.cpp, src/mgmsrv/MgmtSrvr.cpp.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::configuration;
use super::shared::{Shared, Status};
use crate::wire::config;
use crate::wire::registration::CLIENT_VERSION;

/// The longest line of a request.
const MAX_LINE: u64 = 511;
/// Lines a request can have.
const MAX_LINES: usize = 32;
/// Sessions at once.
const MAX_SESSIONS: usize = 256;
/// Characters of base64 in a line.
const BASE64_LINE: usize = 76;
/// How long a request for a node id waits for one that will be free soon.
const NODE_ID_WAIT: Duration = Duration::from_secs(20);
/// How long the rest of a request may take once it has begun.
const COMMAND_TIME: Duration = Duration::from_secs(30);
const API: &str = "1";
const PORT_NUMBER: &str = "406";

type Sessions = Arc<Mutex<HashMap<u64, TcpStream>>>;

/// The endpoint; it ends when it is dropped.
#[derive(Debug)]
pub struct Management {
    address: SocketAddr,
    shared: Arc<Shared>,
    sessions: Sessions,
    thread: Option<JoinHandle<()>>,
}

impl Management {
    /// Listens on a port, any free one for 0.
    pub fn start(shared: Arc<Shared>, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let sessions = Sessions::default();
        let (state, streams) = (shared.clone(), sessions.clone());
        let body = move || accept(&listener, &state, &streams, address.port());
        let thread = std::thread::Builder::new().name("ic-mgm".into()).spawn(body)?;
        Ok(Management { address, shared, sessions, thread: Some(thread) })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Management {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for stream in self.sessions.lock().unwrap_or_else(PoisonError::into_inner).values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, sessions: &Sessions, port: u16) {
    for (number, stream) in (0..).zip(listener.incoming()) {
        if shared.stopping.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(kept) = stream.try_clone() else { continue };
        let mut open = sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= MAX_SESSIONS {
            shared.log("management: too many sessions, one more was closed".into());
            continue;
        }
        open.insert(number, kept);
        drop(open);
        let (shared, sessions) = (shared.clone(), sessions.clone());
        let body = move || {
            let mut session =
                Session { reader: BufReader::new(&stream), writer: &stream, shared: &shared, port };
            // Whatever ended the session, the peer sees it closed.
            let _ = session.run();
            let _ = stream.shutdown(Shutdown::Both);
            sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        };
        let _ = std::thread::Builder::new().name("ic-mgm-session".into()).spawn(body);
    }
}

struct Session<'a> {
    reader: BufReader<&'a TcpStream>,
    writer: &'a TcpStream,
    shared: &'a Shared,
    port: u16,
}

/// A request: its name, its arguments.
struct Request {
    name: String,
    args: HashMap<String, String>,
}

impl Request {
    fn get(&self, name: &str) -> &str {
        self.args.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> Option<u16> {
        self.get(name).parse().ok()
    }
}

impl Session<'_> {
    /// Answers until the peer leaves.
    fn run(&mut self) -> io::Result<()> {
        while let Some(request) = self.request()? {
            let answer = match request.name.as_str() {
                "end session" => {
                    // The only reply that no empty line ends.
                    self.writer.write_all(b"end session reply\n")?;
                    continue;
                }
                "bye" => return Ok(()),
                _ => self.answer(&request),
            };
            match answer {
                Some(answer) => self.writer.write_all(format!("{answer}\n").as_bytes())?,
                None => {
                    self.shared.log(format!("management: unknown command {:?}", request.name));
                    let text = format!("result: Unknown command, '{}'\n\n", request.name);
                    return self.writer.write_all(text.as_bytes());
                }
            }
        }
        Ok(())
    }

    fn request(&mut self) -> io::Result<Option<Request>> {
        self.writer.set_read_timeout(None)?;
        let name = loop {
            match self.line()? {
                None => return Ok(None),
                Some(line) if line.is_empty() => {}
                Some(line) => break line,
            }
        };
        self.writer.set_read_timeout(Some(COMMAND_TIME))?;
        let mut args = HashMap::new();
        for _ in 0..MAX_LINES {
            let Some(line) = self.line()? else { return Ok(None) };
            if line.is_empty() {
                return Ok(Some(Request { name, args }));
            }
            let (key, value) = line.split_once([':', '=']).unwrap_or((&line, ""));
            args.insert(key.trim().into(), value.trim().trim_matches('"').into());
        }
        self.shared.log("management: a request that does not end".into());
        Ok(None)
    }

    /// The next line without its end; none at the end of the session, or where no line can be.
    fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        (&mut self.reader).take(MAX_LINE + 1).read_until(b'\n', &mut line)?;
        match (line.pop(), String::from_utf8(line)) {
            (Some(b'\n'), Ok(line)) => Ok(Some(line.trim().into())),
            (None, _) => Ok(None),
            _ => {
                self.shared.log("management: a line that is too long, cut off, or no text".into());
                Ok(None)
            }
        }
    }

    fn answer(&self, request: &Request) -> Option<String> {
        Some(match request.name.as_str() {
            "get version" => version(),
            "set clientversion" => "set clientversion reply\nresult: Ok\n".into(),
            "check connection" => "check connection reply\nresult: Ok\n".into(),
            "start tls" => "start tls reply\nresult: Failed\n".into(),
            "get session id" => "get session id reply\nid: 1\n".into(),
            "get mgmd nodeid" => format!("get mgmd nodeid reply\nnodeid:{}\n", self.shared.management_id()),
            "get nodeid" => self.node_id(request),
            "get config_v2" => self.configuration(request),
            "get connection parameter" => self.connection_parameter(request),
            "get status" => self.status(request),
            _ => return None,
        })
    }

    fn node_id(&self, request: &Request) -> String {
        let mandatory = ["version", "nodetype", "user", "password", "public key"];
        if mandatory.iter().any(|name| !request.args.contains_key(*name)) {
            return "result: Missing arg., '\n'\n".into();
        }
        if !matches!(request.get("endian"), "" | "little") {
            let text = "Node does not have the same endianness as the management server.";
            return format!("get nodeid reply\nresult: {text}\n");
        }
        if request.get("nodetype") != API {
            return "get nodeid reply\nresult: only API nodes can join embedded nodes\n".into();
        }
        let wanted = match request.get("nodeid") {
            "" => 0,
            text => match text.parse() {
                Ok(wanted @ 0..=255) => wanted,
                _ => return format!("get nodeid reply\nresult: illegal nodeid {text}\n"),
            },
        };
        let deadline = Instant::now() + NODE_ID_WAIT;
        loop {
            let refused = match self.shared.allocate(wanted) {
                Ok(id) => return format!("get nodeid reply\nnodeid: {id}\nresult: Ok\n"),
                Err(refused) => refused,
            };
            let stopping = self.shared.stopping.load(Ordering::Acquire);
            if !refused.soon || stopping || Instant::now() >= deadline {
                let mut text = format!("get nodeid reply\nresult: {}\n", refused.text);
                if request.args.contains_key("log_event") {
                    let _ = writeln!(text, "error_code: {}", refused.code);
                }
                return text;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn configuration(&self, request: &Request) -> String {
        let knows_all = |node: u16| node == 0 || node == self.shared.management_id();
        let node = request.number("node").filter(|&node| !knows_all(node));
        let bytes = config::encode(&configuration::of(self.shared, self.port, node));
        let text = STANDARD.encode(bytes);
        let mut body = String::with_capacity(text.len() + text.len() / BASE64_LINE + 2);
        let mut rest = text.as_str();
        while !rest.is_empty() {
            // Base64 is ASCII: every byte is a character.
            let (line, after) = rest.split_at(rest.len().min(BASE64_LINE));
            body.push_str(line);
            body.push('\n');
            rest = after;
        }
        let length = body.len();
        format!(
            "get config reply\nresult: Ok\nContent-Length: {length}\nContent-Type: ndbconfig/octet-stream\n\
             Content-Transfer-Encoding: base64\n\n{body}"
        )
    }

    fn connection_parameter(&self, request: &Request) -> String {
        let reply = |value: i32, result: &str| {
            format!("get connection parameter reply\nvalue: {value}\nresult: {result}\n")
        };
        let (one, two) = (request.number("node1").unwrap_or(0), request.number("node2").unwrap_or(0));
        let is_api = |id| self.shared.api_ids().contains(&id);
        let node = match (self.shared.node(one), self.shared.node(two)) {
            (Some(node), None) if is_api(two) => node,
            (None, Some(node)) if is_api(one) => node,
            _ => return reply(0, &format!("Unable to find connection between nodes {one} -> {two}")),
        };
        if request.get("param") != PORT_NUMBER {
            return reply(0, "Unable to find parameter");
        }
        reply(-(node.port.load(Ordering::Acquire) as i32), "Ok")
    }

    fn status(&self, request: &Request) -> String {
        let types = request.get("types");
        let wanted = |kind: &str| types.is_empty() || types.split_whitespace().any(|found| found == kind);
        let version = CLIENT_VERSION.0;
        let mut text = String::new();
        let mut count = 0;
        let mut node = |id: u16, kind: &str, status: &str, connected: bool, dynamic: i32, group: u16| {
            count += 1;
            let version = if connected { version } else { 0 };
            let address = if connected { "127.0.0.1" } else { "0.0.0.0" };
            let phase = 0;
            let _ = write!(
                text,
                "node.{id}.type: {kind}\nnode.{id}.status: {status}\nnode.{id}.version: {version}\n\
                 node.{id}.mysql_version: {version}\nnode.{id}.startphase: {phase}\n\
                 node.{id}.dynamic_id: {dynamic}\nnode.{id}.node_group: {group}\n\
                 node.{id}.connect_count: 0\nnode.{id}.address: {address}\nnode.{id}.is_single_user: 0\n"
            );
        };
        if wanted("NDB") {
            let master = self.shared.master();
            for state in &self.shared.nodes {
                let (status, up) = match state.status() {
                    Status::Down => ("NOT_STARTED", false),
                    Status::Starting => ("STARTING", true),
                    Status::Started => ("STARTED", true),
                };
                let dynamic = if state.id == master { -1 } else { state.id as i32 };
                let group = (state.id - 1) / self.shared.options.replicas;
                node(state.id, "NDB", status, up, dynamic, group);
            }
        }
        if wanted("MGM") {
            node(self.shared.management_id(), "MGM", "CONNECTED", true, 0, 0);
        }
        if wanted("API") {
            for id in self.shared.api_ids() {
                let connected = self.shared.links_of(id) > 0;
                node(id, "API", if connected { "CONNECTED" } else { "NO_CONTACT" }, connected, 0, 0);
            }
        }
        format!("node status\nnodes: {count}\n{text}")
    }
}

fn version() -> String {
    let id = CLIENT_VERSION;
    let [_, major, minor, build] = id.0.to_be_bytes();
    format!(
        "version\nid: {}\nmajor: {major}\nminor: {minor}\nbuild: {build}\nstring: mysql-{id} ndb-{id}\n\
         mysql_major: {major}\nmysql_minor: {minor}\nmysql_build: {build}\n",
        id.0
    )
}
