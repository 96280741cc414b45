//! Opens a connection to a data node: TCP connect, authentication lines, hello. Blocking, with a limit on
//! each step; run by the connector thread. Source: storage/ndb/src/common/transporter/Transporter.cpp,
//! src/common/util/SocketAuthenticator.cpp.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::wire::NodeId;

/// The limit of a connect, and of each read and write of the hand-shake: what the nodes use too.
const STEP_LIMIT: Duration = Duration::from_secs(3);
/// Neither answer of a data node is longer.
const MAX_LINE: usize = 128;
/// The hand-shake's number for TCP.
const TRANSPORTER_TCP: u16 = 1;

/// Where to connect and as whom.
#[derive(Debug, Clone)]
pub struct Target {
    /// The data node.
    pub node: NodeId,
    /// Its host name.
    pub host: String,
    /// Its port for this client.
    pub port: u16,
    /// The host name of the client's own section; empty for any.
    pub own_host: String,
    /// The client's node id.
    pub own_node: NodeId,
    /// SO_RCVBUF and SO_SNDBUF of the configuration, in bytes; 0 leaves the system's.
    pub socket_buffers: (usize, usize),
}

/// The step of a dial that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The host name.
    Resolve,
    /// The TCP connection.
    Dial,
    /// Authentication or hello.
    HandShake,
}

/// Why a dial failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialError {
    /// The step.
    pub step: Step,
    /// The node refused with BYE: it does not accept this client yet, or another process uses the node id.
    pub refused: bool,
    text: String,
}

impl std::fmt::Display for DialError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let step = match self.step {
            Step::Resolve => "resolve",
            Step::Dial => "dial",
            Step::HandShake => "hand-shake",
        };
        write!(f, "{step}: {}", self.text)
    }
}

/// Connects to a data node; the stream that comes back carries signals from its next byte on, does not block,
/// and has its options set.
pub fn dial(target: &Target) -> Result<TcpStream, DialError> {
    let fail = |step, text: String| DialError {
        step,
        refused: false,
        text: format!("node {} at {}:{}: {text}", target.node, target.host, target.port),
    };
    let address = resolve(&target.host, target.port).map_err(|e| fail(Step::Resolve, e))?;
    let mut stream = connect(target, address).map_err(|e| fail(Step::Dial, e.to_string()))?;
    hand_shake(&mut stream, target)
        .map_err(|e| DialError { refused: e == BYE, ..fail(Step::HandShake, e) })?;
    set_options(&stream).map_err(|e| fail(Step::HandShake, e.to_string()))?;
    Ok(stream)
}

/// IPv4 first, as the nodes prefer by default.
fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let mut found: Vec<_> = (host, port).to_socket_addrs().map_err(|e| e.to_string())?.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    found.first().copied().ok_or_else(|| "the name has no address".into())
}

fn connect(target: &Target, address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    let (receive, send) = target.socket_buffers;
    if receive > 0 {
        socket.set_recv_buffer_size(receive)?;
    }
    if send > 0 {
        socket.set_send_buffer_size(send)?;
    }
    if let Some(own) = own_address(target, address) {
        socket.bind(&SocketAddr::new(own, 0).into())?;
    }
    socket.connect_timeout(&address.into(), STEP_LIMIT)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(STEP_LIMIT))?;
    stream.set_write_timeout(Some(STEP_LIMIT))?;
    Ok(stream)
}

/// The address of the own section's host, of the family that `peer` has.
fn own_address(target: &Target, peer: SocketAddr) -> Option<IpAddr> {
    if target.own_host.is_empty() {
        return None;
    }
    let found = (target.own_host.as_str(), 0).to_socket_addrs().ok()?;
    found.map(|a| a.ip()).find(|ip| ip.is_ipv4() == peer.is_ipv4())
}

const BYE: &str = "the node answered BYE: it does not accept this client yet, or its node id is in use";

fn hand_shake(stream: &mut TcpStream, target: &Target) -> Result<(), String> {
    send(stream, b"ndbd TLS disabled\n\n")?;
    match read_line(stream)?.as_str() {
        "ok" | "Cleartext ok" => {}
        "TLS required" => return Err("the node requires TLS, which this library does not speak".into()),
        other => return Err(format!("unexpected answer to the authentication: {other:?}")),
    }
    send(stream, format!("{} {TRANSPORTER_TCP} {} 0\n", target.own_node, target.node).as_bytes())?;
    let hello = read_line(stream)?;
    if hello == "BYE" {
        return Err(BYE.into());
    }
    if hello == format!("{} {TRANSPORTER_TCP}", target.node) {
        return Ok(());
    }
    Err(format!("unexpected answer to the hello: {hello:?}"))
}

fn send(stream: &mut TcpStream, text: &[u8]) -> Result<(), String> {
    stream.write_all(text).map_err(|e| e.to_string())
}

/// Reads byte by byte: what follows the line is signals, and belongs to the reader.
fn read_line(stream: &mut TcpStream) -> Result<String, String> {
    let silent = || format!("no answer within {} s", STEP_LIMIT.as_secs());
    let deadline = Instant::now() + STEP_LIMIT;
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < MAX_LINE {
        // The limit is the line's, not each byte's.
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(silent());
        }
        stream.set_read_timeout(Some(left)).map_err(|e| e.to_string())?;
        match stream.read(&mut byte) {
            Ok(0) => return Err("the node closed the connection".into()),
            Ok(_) if byte[0] == b'\n' => return Ok(String::from_utf8_lossy(&line).into_owned()),
            Ok(_) => line.push(byte[0]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(silent());
            }
            Err(e) => return Err(e.to_string()),
        }
    }
    Err(format!("the peer does not speak NDB's protocol: {:?}", String::from_utf8_lossy(&line)))
}

fn set_options(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_keepalive(true)?;
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    stream.set_nonblocking(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Dials a peer that answers each of its lines with the next of `answers`, then closes.
    fn dial_scripted(answers: &'static [&'static str]) -> Result<(), DialError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers {
                let mut request = [0; 64];
                if stream.read(&mut request).unwrap_or(0) == 0 || stream.write_all(answer.as_bytes()).is_err()
                {
                    return;
                }
            }
            // Closed with bytes unread, the connection would be reset.
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let target = Target {
            node: 1,
            host: "127.0.0.1".into(),
            port,
            own_host: "127.0.0.1".into(),
            own_node: 53,
            socket_buffers: (0, 0),
        };
        let result = dial(&target).map(drop);
        peer.join().unwrap();
        result
    }

    #[test]
    fn hand_shake_succeeds() {
        assert!(dial_scripted(&["Cleartext ok\n", "1 1\n"]).is_ok());
        assert!(dial_scripted(&["ok\n", "1 1\n"]).is_ok());
    }

    #[test]
    fn refusals_say_why() {
        let error = dial_scripted(&["ok\n", "BYE\n"]).unwrap_err();
        assert!(error.refused);
        for (answers, text) in [
            (&["TLS required\n"][..], "requires TLS"),
            (&["Error\n"], "authentication"),
            (&["ok\n", "2 1\n"], "hello"),
            (&["ok\n"], "closed"),
        ] {
            let error = dial_scripted(answers).unwrap_err();
            assert_eq!(error.step, Step::HandShake);
            assert!(error.to_string().contains(text), "{error}");
            assert!(error.to_string().contains("127.0.0.1"), "{error}");
        }
    }

    #[test]
    fn garbage_is_named() {
        let garbage: &'static str = Box::leak("x".repeat(400).into_boxed_str());
        let answers: &'static [&'static str] = Box::leak(vec![garbage].into_boxed_slice());
        let error = dial_scripted(answers).unwrap_err();
        assert!(error.to_string().contains("does not speak"), "{error}");
    }

    #[test]
    fn nobody_there() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let target = Target {
            node: 1,
            host: "127.0.0.1".into(),
            port,
            own_host: String::new(),
            own_node: 53,
            socket_buffers: (0, 0),
        };
        let error = dial(&target).unwrap_err();
        assert_eq!(error.step, Step::Dial);
        assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
    }
}
