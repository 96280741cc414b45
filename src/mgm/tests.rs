//! Sessions with a scripted server on the loopback: recorded replies, refusals, garbage, silence.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

use socket2::{Domain, Socket, Type};

use super::text::tests::vector;
use super::*;
use crate::error::{Error, own};

/// What the server does when a request has come.
#[derive(Clone)]
enum Act {
    Answer(Vec<u8>),
    /// Says nothing until the client goes away.
    Silence,
    /// Closes at once, without a request.
    Close,
    /// Sends without end, without a request.
    Flood(&'static [u8]),
}
use Act::*;

struct Server {
    host: Host,
    /// What was asked, one text a request.
    asked: JoinHandle<Vec<String>>,
}

/// A server that plays one script a connection, then stops listening.
fn serve(scripts: Vec<Vec<Act>>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = Host { name: "127.0.0.1".into(), port: listener.local_addr().unwrap().port(), bind: None };
    let asked = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for script in scripts {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            for act in script {
                match act {
                    Close => break,
                    Flood(bytes) => while stream.write_all(bytes).is_ok() {},
                    Answer(bytes) => {
                        asked.push(read_request(&mut reader));
                        if stream.write_all(&bytes).is_err() {
                            break;
                        }
                    }
                    Silence => {
                        while reader.read_until(b'\n', &mut Vec::new()).is_ok_and(|count| count > 0) {}
                    }
                }
            }
        }
        asked
    });
    Server { host, asked }
}

fn read_request(reader: &mut impl BufRead) -> String {
    let mut request = String::new();
    while !request.ends_with("\n\n") && reader.read_line(&mut request).is_ok_and(|count| count > 0) {}
    request
}

fn answer(name: &str) -> Act {
    Answer(vector(name))
}

fn says(text: &str) -> Act {
    Answer(text.into())
}

fn version() -> Act {
    answer("mgm_get_version_reply")
}

fn no_free_id() -> Act {
    says("get nodeid reply\nresult: No free node id found for mysqld(API).\nerror_code: 1101\n\n")
}

fn given(id: NodeId) -> Act {
    says(&format!("get nodeid reply\nnodeid: {id}\nresult: Ok\n\n"))
}

fn configuration_reply() -> Vec<u8> {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(vector("config_v2_node53"));
    let lines = text.as_bytes().chunks(76).map(|line| [line, b"\n"].concat());
    let body = lines.collect::<Vec<_>>().concat();
    let head = format!(
        "get config reply\nresult: Ok\nContent-Length: {}\nContent-Type: ndbconfig/octet-stream\n\
         Content-Transfer-Encoding: base64\n\n",
        body.len()
    );
    [head.as_bytes(), &body, b"\n"].concat()
}

fn configuration() -> Act {
    Answer(configuration_reply())
}

/// Long enough for anything that ends by itself.
fn later() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// Short, for what does not.
fn soon() -> Instant {
    Instant::now() + Duration::from_millis(500)
}

fn open(server: &Server) -> Session {
    Session::open(std::slice::from_ref(&server.host), later()).unwrap()
}

fn open_error(script: Vec<Act>, deadline: Instant) -> MgmError {
    let server = serve(vec![script]);
    Session::open(std::slice::from_ref(&server.host), deadline).unwrap_err()
}

fn connectstring(hosts: &[&Server], node_id: Option<NodeId>) -> Connectstring {
    let hosts = hosts.iter().map(|server| server.host.clone()).collect();
    Connectstring { node_id, bind_address: None, hosts }
}

/// A port at which nobody listens, and what keeps it so.
fn nobody() -> (Host, Socket) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let port = socket.local_addr().unwrap().as_socket().unwrap().port();
    (Host { name: "127.0.0.1".into(), port, bind: None }, socket)
}

fn never(_: Duration) -> bool {
    panic!("no pause was expected")
}

#[test]
fn a_whole_session() {
    let script = vec![
        version(),
        version(),
        answer("mgm_get_nodeid_reply"),
        configuration(),
        answer("mgm_get_connection_parameter_reply"),
        says("get connection parameter reply\nvalue: 0\nresult: Ok\n\n"),
        answer("mgm_get_connection_parameter_error_reply"),
        answer("mgm_end_session_reply"),
    ];
    let server = serve(vec![script]);
    let mut session = open(&server);
    let version = session.get_version(later()).unwrap();
    assert_eq!((version.id, version.text.as_str()), (0x90704, "mysql-9.7.4 ndb-9.7.4"));
    assert_eq!(session.allocate_node_id(None, later()), Ok(50));
    let configuration = session.configuration(53, later()).unwrap();
    assert_eq!(configuration.links(53).unwrap().len(), 2);
    assert_eq!(session.dynamic_port(1, 53, later()), Ok(Some(40281)));
    assert_eq!(session.dynamic_port(1, 53, later()), Ok(None));
    let error = session.dynamic_port(1, 200, later()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("port: 127.0.0.1:{}: Unable to find connection between nodes 1 -> 200", server.host.port)
    );
    session.end();
    let asked = server.asked.join().unwrap();
    assert_eq!(asked[0].as_bytes(), vector("mgm_get_version_request"));
    for line in ["version: 591620", "nodetype: 1", "nodeid: 0", "name: libiclaustron", "log_event: 1"] {
        assert!(asked[2].lines().any(|found| found == line), "{line} in {}", asked[2]);
    }
    assert_eq!(asked[3], "get config_v2\nversion: 591620\nnodetype: 1\nnode: 53\n\n");
    assert_eq!(asked[4].as_bytes(), vector("mgm_get_connection_parameter_request"));
    assert_eq!(asked[7].as_bytes(), vector("mgm_end_session_request"));
}

#[test]
fn replies_in_small_pieces() {
    // The client must put lines and body together whatever the pieces are: here one byte a write.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        for reply in [vector("mgm_get_version_reply"), configuration_reply()] {
            read_request(&mut reader);
            reply.iter().for_each(|byte| stream.write_all(&[*byte]).unwrap());
        }
    });
    let host = Host { name: "127.0.0.1".into(), port, bind: None };
    let mut session = Session::open(&[host], later()).unwrap();
    assert_eq!(session.configuration(53, later()).unwrap().name(), "MC_20261130122716");
    server.join().unwrap();
}

#[test]
fn refusals_of_a_node_id() {
    let script = vec![
        version(),
        answer("mgm_get_nodeid_mismatch_reply"),
        no_free_id(),
        says("get nodeid reply\nresult: Address\nerror_code: 1103\n\n"),
        answer("mgm_get_nodeid_endian_reply"),
        says("get nodeid reply\nnodeid: 256\nresult: Ok\n\n"),
    ];
    let server = serve(vec![script]);
    let mut session = open(&server);
    let mut ask = || session.allocate_node_id(Some(1), later()).unwrap_err();
    let place = format!("node id: 127.0.0.1:{}: ", server.host.port);
    let error = ask();
    assert_eq!(
        error.to_string(),
        place.clone() + "Id 1 configured as ndbd(NDB), connect attempted as mysqld(API). (code 1102)"
    );
    assert_eq!((error.code, error.temporary), (Some(1102), false));
    let error = ask();
    assert_eq!(error.to_string(), place + "No free node id found for mysqld(API). (code 1101)");
    assert!(error.temporary);
    assert_eq!(Error::from(error).code, own::NO_NODE_ID);
    let error = ask();
    assert_eq!((error.code, error.temporary), (Some(1103), true));
    let error = ask();
    assert_eq!((error.code, error.temporary), (None, false));
    assert!(error.text.contains("endianness"), "{error}");
    assert!(ask().text.contains("no node id"));
}

#[test]
fn nobody_listens() {
    let ((first, _first), (second, _second)) = (nobody(), nobody());
    let hosts = [first, second];
    let error = Session::open(&hosts, later()).unwrap_err();
    assert_eq!((error.step, error.port, error.temporary), (Step::Connect, hosts[0].port, true));
    let refused =
        |host: &Host| format!("connect: 127.0.0.1:{}: Connection refused (os error 111)", host.port);
    assert_eq!(error.to_string(), format!("{}; then {}", refused(&hosts[0]), refused(&hosts[1])));
    assert_eq!(Error::from(error).code, own::CONNECT_FAILED);
}

#[test]
fn a_name_that_cannot_be() {
    // No name server has to be asked to refuse this one.
    let host = Host { name: "a".repeat(300), port: 1186, bind: None };
    let error = Session::open(&[host], later()).unwrap_err();
    assert_eq!(error.step, Step::Resolve);
    assert!(!error.text.is_empty());
}

#[test]
fn no_hosts() {
    let error = Session::open(&[], later()).unwrap_err();
    assert!(error.text.contains("no host"));
}

#[test]
fn bind_addresses() {
    let bound = |server: &Server, name: &str| {
        let bind = Some(connectstring::Bind { name: name.into(), port: 0 });
        Session::open(&[Host { bind, ..server.host.clone() }], later())
    };
    let server = serve(vec![vec![version()]]);
    bound(&server, "127.0.0.1").unwrap();
    let server = serve(vec![]);
    assert!(bound(&server, "192.0.2.1").unwrap_err().text.contains("bind to 192.0.2.1:0: "));
    assert!(bound(&server, "::1").unwrap_err().text.contains("address family"));
}

#[test]
fn peers_that_are_no_management_server() {
    let error = |script| open_error(script, later());
    let closed = error(vec![Close]);
    assert_eq!((closed.step, closed.temporary), (Step::Session, true));
    let http = error(vec![says("HTTP/1.1 400 Bad Request\r\n\r\n")]);
    assert!(http.text.contains("not that of a management server: \"HTTP/1.1 400 Bad Request\""), "{http}");
    let endless = error(vec![Flood(b"abc")]);
    assert!(endless.text.contains("not that of a management server: \"abcabc"), "{endless}");
    let empty_lines = error(vec![Flood(b"\n\n\n\n")]);
    assert!(empty_lines.text.contains("lines"), "{empty_lines}");
    let nameless = error(vec![says("version\nstring: x\n\n")]);
    assert!(nameless.text.contains("version"), "{nameless}");
    let refused = error(vec![answer("mgm_unknown_command_reply")]);
    assert!(refused.text.contains("Unknown command, 'frobnicate'"), "{refused}");
    let old = error(vec![says("version\nid: 459265\nstring: mysql-5.7.30 ndb-7.6.14\n\n")]);
    assert!(old.text.contains("ndb-7.6.14") && old.text.contains("8.0.18"), "{old}");
    assert!(!old.temporary);
}

#[test]
fn silence_ends_by_the_deadline() {
    let error = open_error(vec![Silence], soon());
    assert_eq!((error.step, error.text.as_str()), (Step::Session, "no answer in time"));
    let error = open_error(vec![says("version\nid: 5"), Silence], soon());
    assert_eq!(error.text, "no answer in time, after \"id: 5\"");
    let server = serve(vec![vec![version(), Silence]]);
    let mut session = open(&server);
    let error = session.allocate_node_id(None, soon()).unwrap_err();
    assert_eq!((error.step, error.text.as_str()), (Step::NodeId, "no answer in time"));
    let error = session.get_version(later()).unwrap_err();
    assert!(error.text.contains("over"), "{error}");
}

#[test]
fn a_silent_server_leaves_time_for_the_next() {
    let silent = serve(vec![vec![Silence]]);
    let good = serve(vec![vec![version()]]);
    let hosts = [silent.host, good.host.clone()];
    let session = Session::open(&hosts, Instant::now() + Duration::from_secs(4)).unwrap();
    assert_eq!(session.port(), good.host.port);
}

#[test]
fn configurations_that_are_none() {
    let error = |reply: &str, deadline| {
        let server = serve(vec![vec![version(), says(reply), Silence]]);
        let mut session = open(&server);
        let error = session.configuration(53, deadline).unwrap_err();
        assert_eq!(error.step, Step::Configuration);
        error.text
    };
    let head = "get config reply\nresult: Ok\nContent-Length: ";
    assert!(error("get config reply\nresult: Not confirmed\n\n", later()).contains("Not confirmed"));
    assert!(error("get config reply\n\n", later()).contains("no result"));
    assert!(error(&format!("{head}-1\n\n"), later()).contains("length"));
    assert!(error(&format!("{head}16777217\n\n"), later()).contains("length"));
    assert_eq!(error(&format!("{head}16777216\n\nAAAA"), soon()), "no answer in time");
    assert!(error(&format!("{head}5\n\n!!!!\n\n"), later()).contains("base64"));
    assert!(error(&format!("{head}5\n\nAAAA\n\n"), later()).contains("length"));
    let tls = error("Authorization failed\nError: Requires TLS\n\n", later());
    assert!(tls.contains("Requires TLS"), "{tls}");
}

#[test]
fn joining() {
    let server = serve(vec![vec![version(), given(53), configuration(), version()]]);
    let mut joined = join(&connectstring(&[&server], Some(53)), later(), &mut never).unwrap();
    assert_eq!(joined.node_id, 53);
    assert_eq!(joined.configuration.data_nodes().count(), 2);
    joined.session.get_version(later()).unwrap();
    assert!(server.asked.join().unwrap()[1].contains("\nnodeid: 53\n"));
}

#[test]
fn joining_again_until_an_id_is_free() {
    let first = serve(vec![vec![version(), no_free_id()], vec![version(), no_free_id()]]);
    let second = serve(vec![vec![version(), no_free_id()], vec![version(), given(53), configuration()]]);
    let mut pauses = Vec::new();
    let joined = join(&connectstring(&[&first, &second], None), later(), &mut |pause| {
        pauses.push(pause);
        true
    });
    assert_eq!(joined.unwrap().session.port(), second.host.port);
    assert_eq!(first.asked.join().unwrap().len(), 4);
    assert_eq!(pauses.len(), 3);
    for (pause, longest) in pauses.iter().zip([100, 200, 400].map(Duration::from_millis)) {
        assert!((longest / 2..=longest).contains(pause), "{pauses:?}");
    }
}

#[test]
fn pauses_have_a_limit() {
    let mut pauses = Pauses { next: FIRST_PAUSE };
    let longest = (0..100).map(|_| pauses.next_pause()).max().unwrap();
    assert!((LONGEST_PAUSE / 2..=LONGEST_PAUSE).contains(&longest));
}

#[test]
fn a_given_id_is_kept_while_the_configuration_is_not() {
    let not_yet = says("get config reply\nresult: The cluster configuration is not yet confirmed\n\n");
    let server = serve(vec![vec![version(), given(53), not_yet], vec![version(), configuration()]]);
    assert_eq!(join(&connectstring(&[&server], None), later(), &mut |_| true).unwrap().node_id, 53);
}

#[test]
fn joining_stops_at_what_no_retry_helps() {
    let server = serve(vec![vec![version(), answer("mgm_get_nodeid_mismatch_reply")]]);
    let error = join(&connectstring(&[&server], Some(1)), later(), &mut never).unwrap_err();
    assert_eq!(error.code, Some(1102));
    let server = serve(vec![vec![version(), given(52), configuration()]]);
    let error = join(&connectstring(&[&server], None), later(), &mut never).unwrap_err();
    assert_eq!(error.step, Step::Configuration);
    assert!(error.text.contains("ArbitrationRank of node 52 is 1"), "{error}");
}

#[test]
fn joining_stops_when_told() {
    let server = serve(vec![vec![version(), no_free_id()]]);
    let asked = Cell::new(0);
    let error = join(&connectstring(&[&server], None), later(), &mut |_| {
        asked.set(asked.get() + 1);
        false
    });
    assert_eq!(error.unwrap_err().code, Some(1101));
    assert_eq!(asked.get(), 1);
}

#[test]
fn joining_ends_by_the_deadline_with_the_refusal() {
    let server = serve(vec![vec![version(), no_free_id()], vec![version(), Silence]]);
    let deadline = Instant::now() + Duration::from_secs(2);
    let error = join(&connectstring(&[&server], None), deadline, &mut |_| true).unwrap_err();
    assert_eq!(error.code, Some(1101));
    let text = error.to_string();
    assert!(text.contains("No free node id found for mysqld(API). (code 1101); then node id: "), "{text}");
    assert!(text.ends_with("no answer in time"), "{text}");
    assert_eq!(Error::from(error).code, own::NO_NODE_ID);
}
