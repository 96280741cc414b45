//! The connectstring: where the management servers are, and which node id is wanted. Source:
//! storage/ndb/src/mgmapi/LocalConfig.cpp.
//!
//! Unlike libndbclient, a string that holds only a node id keeps it when the hosts come from the next source.

use std::fmt;

use crate::error::{Error, own};
use crate::wire::NodeId;

/// The port of a management server that is given without one.
pub const DEFAULT_PORT: u16 = 1186;
/// The environment variable that is read when no hosts are given.
pub const ENVIRONMENT: &str = "NDB_CONNECTSTRING";

const MAX_NODE_ID: u64 = 255;

/// A local address for management connections; port 0: any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// Host name or address.
    pub name: String,
    /// Port, 0 for any.
    pub port: u16,
}

/// One management server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Host name or address, an IPv6 address without its brackets.
    pub name: String,
    /// Port.
    pub port: u16,
    /// Where to connect from, if that matters.
    pub bind: Option<Bind>,
}

/// What a connectstring says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Connectstring {
    /// The node id that is wanted; none: any.
    pub node_id: Option<NodeId>,
    /// Where to connect from to every host that does not say otherwise.
    pub bind_address: Option<Bind>,
    /// The management servers, in the order in which they are tried.
    pub hosts: Vec<Host>,
}

/// What is wrong with which part of a connectstring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectstringError {
    token: String,
    what: &'static str,
}

impl fmt::Display for ConnectstringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connectstring: {:?}: {}", self.token, self.what)
    }
}

impl std::error::Error for ConnectstringError {}

impl From<ConnectstringError> for Error {
    fn from(error: ConnectstringError) -> Error {
        Error::new(own::INVALID_ARGUMENT, error.to_string())
    }
}

impl Connectstring {
    /// The connectstring to use: `given`, with what it lacks from the environment, and then the default.
    pub fn resolve(given: Option<&str>) -> Result<Connectstring, ConnectstringError> {
        let environment = std::env::var_os(ENVIRONMENT).map(|value| value.to_string_lossy().into_owned());
        Connectstring::from_sources(given.unwrap_or(""), environment.as_deref().unwrap_or(""))
    }

    /// The same with the environment's value as an argument. It is looked at only when `given` names no host.
    pub fn from_sources(given: &str, environment: &str) -> Result<Connectstring, ConnectstringError> {
        let mut found = Connectstring::parse(given)?;
        for source in [environment, "localhost"] {
            if found.hosts.is_empty() {
                found = found.or(Connectstring::parse(source)?);
            }
        }
        Ok(found)
    }

    /// What the text says and no more: there may be no hosts in it.
    pub fn parse(text: &str) -> Result<Connectstring, ConnectstringError> {
        let mut found = Connectstring::default();
        for token in text.split([',', ';']).filter(|token| !token.is_empty()) {
            found.token(token).map_err(|what| ConnectstringError { token: token.to_owned(), what })?;
        }
        Ok(found)
    }

    fn token(&mut self, token: &str) -> Result<(), &'static str> {
        let after = |prefixes: &[&str]| prefixes.iter().find_map(|prefix| token.strip_prefix(prefix));
        if token.starts_with('#') || after(&["file://", "file="]).is_some() {
            return Ok(());
        }
        if let Some(id) = after(&["nodeid=", "OwnProcessId "]) {
            return self.wants(id);
        }
        if let Some(address) = after(&["bind-address="]) {
            let (name, port) = host_and_port(address)?;
            let bind = Some(Bind { name, port: port.unwrap_or(0) });
            match self.hosts.last_mut() {
                Some(host) => host.bind = bind,
                None => self.bind_address = bind,
            }
            return Ok(());
        }
        let (name, port) = host_and_port(after(&["host://", "host=", "mgmd="]).unwrap_or(token))?;
        self.hosts.push(Host { name, port: port.unwrap_or(DEFAULT_PORT), bind: self.bind_address.clone() });
        Ok(())
    }

    fn wants(&mut self, id: &str) -> Result<(), &'static str> {
        let id = number(id).filter(|id| *id <= MAX_NODE_ID).ok_or("a node id is a number from 1 to 255")?;
        match (id as NodeId, self.node_id) {
            (0, _) => {}
            (_, Some(_)) => return Err("the node id is given twice"),
            (id, None) => self.node_id = Some(id),
        }
        Ok(())
    }

    /// This connectstring, with the hosts of another source.
    fn or(self, next: Connectstring) -> Connectstring {
        let bind_address = self.bind_address;
        let hosts = next.hosts.into_iter().map(|host| {
            let bind = host.bind.or_else(|| bind_address.clone());
            Host { bind, ..host }
        });
        Connectstring {
            node_id: self.node_id.or(next.node_id),
            hosts: hosts.collect(),
            bind_address: bind_address.or(next.bind_address),
        }
    }
}

fn host_and_port(text: &str) -> Result<(String, Option<u16>), &'static str> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, rest) = rest.split_once(']').ok_or("a bracket is not closed")?;
            let port = match rest {
                "" => None,
                _ => Some(rest.strip_prefix(':').ok_or("only a port may follow the brackets")?),
            };
            (name, port)
        }
        None => match text.split_once(':') {
            // More than one colon: an IPv6 address without port.
            Some((_, rest)) if rest.contains(':') => (text, None),
            Some((name, port)) => (name, Some(port)),
            None => match text.split_once(' ') {
                Some((name, port)) => (name, Some(port.trim_start_matches(' '))),
                None => (text, None),
            },
        },
    };
    if name.is_empty() {
        return Err("the host name is missing");
    }
    if name.contains(|c: char| c.is_whitespace() || c.is_control() || "[]=".contains(c)) {
        return Err("this cannot be a host name");
    }
    let port = port.map(|port| {
        number(port).and_then(|port| port.try_into().ok()).ok_or("a port is a number from 0 to 65535")
    });
    Ok((name.to_owned(), port.transpose()?))
}

/// A number as C writes it: decimal, octal with 0 in front, hexadecimal with 0x.
fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    if digits.starts_with('+') { None } else { u64::from_str_radix(digits, radix).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn hosts(text: &str) -> Vec<(String, u16)> {
        let found = Connectstring::parse(text).unwrap();
        found.hosts.into_iter().map(|host| (host.name, host.port)).collect()
    }

    fn host(name: &str, port: u16) -> (String, u16) {
        (name.to_owned(), port)
    }

    fn bind(name: &str, port: u16) -> Option<Bind> {
        Some(Bind { name: name.to_owned(), port })
    }

    #[test]
    fn spellings_of_a_host() {
        for (text, name, port) in [
            ("db.example.org", "db.example.org", 1186),
            ("localhost:1187", "localhost", 1187),
            ("localhost 1187", "localhost", 1187),
            ("localhost   1187", "localhost", 1187),
            ("localhost:0x4a2", "localhost", 1186),
            ("localhost:02242", "localhost", 1186),
            ("localhost:0", "localhost", 0),
            ("[::1]:65535", "::1", 65535),
            ("[::1]", "::1", 1186),
            ("fe80::1%eth0", "fe80::1%eth0", 1186),
            ("host=a", "a", 1186),
            ("host://a:7", "a", 7),
            ("mgmd=a:7", "a", 7),
            ("mgmd=[::1]:7", "::1", 7),
            (",;#comment:x y;file=Ndb.cfg;file://x;a;", "a", 1186),
        ] {
            assert_eq!(hosts(text), [host(name, port)], "{text}");
        }
    }

    #[test]
    fn several_hosts_keep_their_order() {
        assert_eq!(hosts("b,a:7;c"), [host("b", 1186), host("a", 7), host("c", 1186)]);
        let many: Vec<String> = (0..1000).map(|i| format!("h{i}:{i}")).collect();
        let found = hosts(&many.join(","));
        assert_eq!(found.len(), 1000);
        assert_eq!(found[999], host("h999", 999));
    }

    #[test]
    fn node_ids() {
        let id = |text| Connectstring::parse(text).map(|found| found.node_id);
        assert_eq!(id("nodeid=5,a"), Ok(Some(5)));
        assert_eq!(id("a;OwnProcessId 255"), Ok(Some(255)));
        assert_eq!(id("nodeid=0,a"), Ok(None));
        assert_eq!(id("nodeid=0,nodeid=7"), Ok(Some(7)));
        assert_eq!(id("a"), Ok(None));
    }

    #[test]
    fn bind_addresses() {
        let found = Connectstring::parse("bind-address=x,a,b,bind-address=y:9,c").unwrap();
        assert_eq!(found.bind_address, bind("x", 0));
        let binds: Vec<_> = found.hosts.into_iter().map(|host| host.bind).collect();
        assert_eq!(binds, [bind("x", 0), bind("y", 9), bind("x", 0)]);
        let found = Connectstring::parse("a,bind-address=[::1],b").unwrap();
        assert_eq!(found.bind_address, None);
        assert_eq!(found.hosts[0].bind, bind("::1", 0));
        assert_eq!(found.hosts[1].bind, None);
    }

    #[test]
    fn errors_quote_their_token() {
        for (text, token) in [
            ("a, b", " b"),
            (" a", " a"),
            ("a,b:c", "b:c"),
            ("a:65536", "a:65536"),
            ("a:-1", "a:-1"),
            ("a:+1", "a:+1"),
            ("a:", "a:"),
            (":1186", ":1186"),
            ("[::1", "[::1"),
            ("[::1]7", "[::1]7"),
            ("a;nodeid=", "nodeid="),
            ("nodeid=256", "nodeid=256"),
            ("nodeid=x", "nodeid=x"),
            ("nodeid=1,nodeid=2", "nodeid=2"),
            ("nodeid=1,nodeid=1", "nodeid=1"),
            ("nodid=1", "nodid=1"),
            ("mgmd=", "mgmd="),
            ("bind-address=:7", "bind-address=:7"),
            ("a:99999999999999999999", "a:99999999999999999999"),
        ] {
            let error = Connectstring::parse(text).unwrap_err();
            assert_eq!(error.token, token);
            assert!(error.to_string().contains(&format!("{token:?}")), "{error}");
        }
    }

    #[test]
    fn sources_in_their_order() {
        let from = |given, environment| {
            let found = Connectstring::from_sources(given, environment).unwrap();
            let hosts: Vec<_> = found.hosts.iter().map(|host| (host.name.clone(), host.port)).collect();
            (found.node_id, hosts)
        };
        assert_eq!(from("", ""), (None, vec![host("localhost", 1186)]));
        assert_eq!(from("a", "b"), (None, vec![host("a", 1186)]));
        assert_eq!(from("a", "nodeid=4,b"), (None, vec![host("a", 1186)]));
        assert_eq!(from("", "nodeid=4,b"), (Some(4), vec![host("b", 1186)]));
        assert_eq!(from("nodeid=3", "nodeid=4,b"), (Some(3), vec![host("b", 1186)]));
        assert_eq!(from("nodeid=3", "nodeid=4"), (Some(3), vec![host("localhost", 1186)]));
        assert_eq!(from("", "nodeid=4"), (Some(4), vec![host("localhost", 1186)]));
        assert!(Connectstring::from_sources("", "a:b").is_err());
        assert!(Connectstring::from_sources("a", "a:b").is_ok());
        let bound = Connectstring::from_sources("bind-address=x", "a,b,bind-address=y").unwrap();
        let binds: Vec<_> = bound.hosts.into_iter().map(|host| host.bind).collect();
        assert_eq!(binds, [bind("x", 0), bind("y", 0)]);
    }

    proptest! {
        #[test]
        fn any_text(text in any::<String>()) {
            if let Err(error) = Connectstring::parse(&text) {
                prop_assert!(text.contains(&error.token));
            }
        }

        #[test]
        fn token_soup(
            tokens in vec("(nodeid=|host=|bind-address=|a|[:,\\[\\] ]|[0-9]{1,6})", 1..8),
        ) {
            let _ = Connectstring::parse(&tokens.concat());
        }

        #[test]
        fn written_then_parsed(
            id in proptest::option::of(1u16..=255),
            given in vec(("[a-z][a-z0-9.-]{0,20}", any::<u16>()), 0..20),
        ) {
            let mut tokens: Vec<String> = id.iter().map(|id| format!("nodeid={id}")).collect();
            tokens.extend(given.iter().map(|(name, port)| format!("{name}:{port}")));
            let found = Connectstring::parse(&tokens.join(",")).unwrap();
            prop_assert_eq!(found.node_id, id);
            let found: Vec<_> = found.hosts.into_iter().map(|host| (host.name, host.port)).collect();
            prop_assert_eq!(found, given);
        }
    }
}
