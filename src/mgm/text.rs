//! The management protocol as text: what a request looks like, and a reply taken apart line by line. Source:
//! storage/ndb/src/mgmsrv/Services.cpp, src/common/util/Parser.cpp and src/mgmapi/mgmapi.cpp.

use std::fmt;

/// A reply may have so many lines before it is taken for garbage.
const MAX_LINES: usize = 4096;
/// So much of what a peer said is quoted in an error.
const MAX_QUOTE: usize = 120;

/// The reply to `end session`; it is not followed by an empty line.
pub const END_SESSION_REPLY: &str = "end session reply";

/// Why what arrived is not the reply that was expected. The session cannot be used any further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextError {
    /// The server could not parse the request; its words.
    Refused(String),
    /// The server requires an encrypted session; its words.
    Unauthorized(String),
    /// The reply has another name, or is not one at all; how it starts.
    Unexpected(String),
    /// The reply does not end.
    TooLong,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextError::Refused(words) => write!(f, "the server refused the request: {words}"),
            TextError::Unauthorized(words) => {
                write!(f, "authorization failed: {words} (this library does not support TLS)")
            }
            TextError::Unexpected(start) => {
                write!(f, "the answer is not that of a management server: {start:?}")
            }
            TextError::TooLong => write!(f, "the answer has more than {MAX_LINES} lines"),
        }
    }
}

/// A request: the command, its arguments, an empty line.
pub fn request(command: &str, args: &[(&str, &str)]) -> String {
    debug_assert!(!args.iter().any(|(name, value)| name.contains('\n') || value.contains('\n')));
    let args = args.iter().map(|(name, value)| format!("{name}: {value}\n"));
    format!("{command}\n{}\n", args.collect::<String>())
}

/// A reply's arguments, in the order in which they came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    args: Vec<(String, String)>,
}

impl Reply {
    /// The value of an argument.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.args.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The value of an argument that is a number of this type.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }

    /// Nothing if the server says `Ok`, else its words.
    pub fn result(&self) -> Result<(), &str> {
        match self.get("result") {
            Some("Ok") => Ok(()),
            Some(words) => Err(words),
            None => Err("the answer has no result"),
        }
    }
}

/// Takes a reply's lines one by one.
#[derive(Debug)]
pub struct ReplyParser<'a> {
    expected: &'a str,
    state: State,
    lines: usize,
    reply: Reply,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Name,
    Args,
    Refused,
    Unauthorized,
}

impl<'a> ReplyParser<'a> {
    /// A parser of the reply with this name.
    pub fn new(expected: &'a str) -> Self {
        ReplyParser { expected, state: State::Name, lines: 0, reply: Reply::default() }
    }

    /// The next line, with or without its line end. Gives the reply when it is complete.
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Reply>, TextError> {
        self.lines += 1;
        if self.lines > MAX_LINES {
            return Err(TextError::TooLong);
        }
        let text = String::from_utf8_lossy(line);
        match (self.state, text.trim()) {
            (State::Name, "") => Ok(None),
            (State::Name, name) => self.name(name, line),
            (State::Args, "") => Ok(Some(std::mem::take(&mut self.reply))),
            (State::Refused, "") => Err(TextError::Refused(self.words("result"))),
            (State::Unauthorized, "") => Err(TextError::Unauthorized(self.words("Error"))),
            (State::Refused | State::Unauthorized, text) => {
                // A token that is a line end is quoted as it is, so that a refusal can go over two lines.
                self.reply.args.extend(argument(text));
                Ok(None)
            }
            (State::Args, text) => {
                self.reply.args.push(argument(text).ok_or_else(|| unexpected(line))?);
                Ok(None)
            }
        }
    }

    fn name(&mut self, name: &str, line: &[u8]) -> Result<Option<Reply>, TextError> {
        if name == self.expected {
            self.state = State::Args;
            return Ok((name == END_SESSION_REPLY).then(Reply::default));
        }
        match argument(name) {
            _ if name == "Authorization failed" => self.state = State::Unauthorized,
            Some(argument) if argument.0 == "result" => {
                self.state = State::Refused;
                self.reply.args.push(argument);
            }
            _ => return Err(unexpected(line)),
        }
        Ok(None)
    }

    fn words(&self, name: &str) -> String {
        self.reply.get(name).unwrap_or("no reason given").to_owned()
    }
}

fn unexpected(line: &[u8]) -> TextError {
    TextError::Unexpected(quote(line))
}

/// The start of what a peer sent, for an error's text.
pub fn quote(bytes: &[u8]) -> String {
    let start = bytes.get(..MAX_QUOTE).unwrap_or(bytes);
    String::from_utf8_lossy(start).trim_end().to_owned()
}

fn argument(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once([':', '='])?;
    let value = value.trim();
    let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    Some((name.trim().to_owned(), value.to_owned()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The bytes of a recorded exchange's vector.
    pub(in crate::mgm) fn vector(name: &str) -> Vec<u8> {
        let vectors = include_str!("../../tests/vectors/01-management-and-transport.jsonl");
        let vector = vectors
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .find(|vector| vector["name"] == name)
            .unwrap();
        let hex = vector["bytes"].as_str().unwrap();
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    }

    fn parse(expected: &str, bytes: &[u8]) -> Result<Option<Reply>, TextError> {
        let mut parser = ReplyParser::new(expected);
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let found = lines.find_map(|line| parser.line(line).transpose()).transpose();
        assert!(!matches!(found, Ok(Some(_))) || lines.next().is_none(), "lines after the reply");
        found
    }

    fn args(name: &str, expected: &str) -> Vec<(String, String)> {
        parse(expected, &vector(name)).unwrap().unwrap().args
    }

    fn owned(args: &[(&str, &str)]) -> Vec<(String, String)> {
        args.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn recorded_requests() {
        let nodeid = |id, endian| {
            let args = [
                ("version", "591620"),
                ("nodetype", "1"),
                ("nodeid", id),
                ("user", "mysqld"),
                ("password", "mysqld"),
                ("public key", "a public key"),
                ("endian", endian),
                ("log_event", "0"),
            ];
            request("get nodeid", &args).into_bytes()
        };
        assert_eq!(nodeid("0", "little"), vector("mgm_get_nodeid_request"));
        assert_eq!(nodeid("1", "little"), vector("mgm_get_nodeid_mismatch_request"));
        assert_eq!(nodeid("0", "big"), vector("mgm_get_nodeid_endian_request"));
        assert_eq!(request("get version", &[]).into_bytes(), vector("mgm_get_version_request"));
        assert_eq!(request("end session", &[]).into_bytes(), vector("mgm_end_session_request"));
        let args = [("node1", "1"), ("node2", "53"), ("param", "406")];
        let port = request("get connection parameter", &args);
        assert_eq!(port.into_bytes(), vector("mgm_get_connection_parameter_request"));
    }

    #[test]
    fn recorded_replies() {
        assert_eq!(
            args("mgm_get_nodeid_reply", "get nodeid reply"),
            owned(&[("nodeid", "50"), ("result", "Ok")])
        );
        assert_eq!(
            args("mgm_get_nodeid_mismatch_reply", "get nodeid reply"),
            owned(&[
                ("result", "Id 1 configured as ndbd(NDB), connect attempted as mysqld(API)."),
                ("error_code", "1102")
            ])
        );
        assert_eq!(args("mgm_get_version_reply", "version").len(), 8);
        assert_eq!(
            args("mgm_set_clientversion_reply", "set clientversion reply"),
            owned(&[("result", "Ok")])
        );
        assert_eq!(args("mgm_get_mgmd_nodeid_reply", "get mgmd nodeid reply"), owned(&[("nodeid", "49")]));
        assert_eq!(args("mgm_start_tls_no_cert_reply", "start tls reply"), owned(&[("result", "Failed")]));
        assert_eq!(args("mgm_end_session_reply", END_SESSION_REPLY), owned(&[]));
        let expected = "get connection parameter reply";
        let port = parse(expected, &vector("mgm_get_connection_parameter_reply")).unwrap().unwrap();
        assert_eq!(port.number("value"), Some(-40281));
        assert_eq!(port.result(), Ok(()));
        let refused = parse(expected, &vector("mgm_get_connection_parameter_error_reply")).unwrap().unwrap();
        assert_eq!(refused.result(), Err("Unable to find connection between nodes 1 -> 200"));
    }

    #[test]
    fn recorded_refusals() {
        let refused = |name| parse("get nodeid reply", &vector(name)).unwrap_err();
        assert_eq!(
            refused("mgm_unknown_command_reply"),
            TextError::Refused("Unknown command, 'frobnicate'".into())
        );
        assert_eq!(refused("mgm_missing_argument_reply"), TextError::Refused("Missing arg., '".into()));
    }

    #[test]
    fn leniency() {
        let text = b"\n  \nversion\r\n a = 1:2 \nb:\"quoted: text\"\nc:\"\nd:\n\n";
        let expected = owned(&[("a", "1:2"), ("b", "quoted: text"), ("c", "\""), ("d", "")]);
        assert_eq!(parse("version", text).unwrap().unwrap().args, expected);
        assert_eq!(parse("version", b"version\na: 1\n"), Ok(None));
    }

    #[test]
    fn authorization_failure() {
        let error = parse("get nodeid reply", b"Authorization failed\nError: Requires TLS\n\n").unwrap_err();
        assert_eq!(error, TextError::Unauthorized("Requires TLS".into()));
    }

    #[test]
    fn garbage() {
        let error = |text: &[u8]| parse("version", text).unwrap_err();
        assert_eq!(error(b"HTTP/1.1 400 Bad\n"), TextError::Unexpected("HTTP/1.1 400 Bad".into()));
        assert_eq!(error(b"set clientversion reply\n"), {
            TextError::Unexpected("set clientversion reply".into())
        });
        assert_eq!(error(b"version\nnothing\n"), TextError::Unexpected("nothing".into()));
        assert_eq!(error(&b"\n".repeat(5000)), TextError::TooLong);
        assert_eq!(error(&[b"version\n".as_slice(), &b"a:1\n".repeat(5000)].concat()), TextError::TooLong);
        let TextError::Unexpected(start) = error(&[0xff; 4000]) else { panic!() };
        assert!(start.len() <= 3 * MAX_QUOTE);
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut parser = ReplyParser::new("version");
            for line in bytes.split(|byte| *byte == b'\n') {
                if parser.line(line).is_err() { break; }
            }
        }

        #[test]
        fn arguments_come_back(
            args in proptest::collection::vec(("[a-z_]{1,8}", "[a-z0-9 .:=]{0,12}"), 0..8),
        ) {
            let trimmed = |(name, value): (String, String)| (name, value.trim().to_owned());
            let args: Vec<_> = args.into_iter().map(trimmed).collect();
            let borrowed: Vec<_> =
                args.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let text = request("version", &borrowed);
            prop_assert_eq!(parse("version", text.as_bytes()).unwrap().unwrap().args, args);
        }
    }
}
