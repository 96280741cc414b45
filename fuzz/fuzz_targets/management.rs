//! Text: any lines are a reply or are refused, whatever reply is expected; a connectstring that is written as
//! it was understood is understood as the same.
#![no_main]

use iclaustron::mgm::connectstring::{Bind, Connectstring, Host};
use iclaustron::mgm::text::ReplyParser;
use libfuzzer_sys::fuzz_target;

fn reply<'a>(expected: &str, lines: impl Iterator<Item = &'a [u8]>) {
    let mut parser = ReplyParser::new(expected);
    for line in lines {
        match parser.line(line) {
            Ok(None) => {}
            Ok(Some(reply)) => {
                let _ = (reply.result(), reply.number::<u16>("nodeid"), reply.get("id"));
                return;
            }
            Err(error) => {
                let _ = error.to_string();
                return;
            }
        }
    }
}

fn write(found: &Connectstring) -> String {
    let bound = |bind: &Bind| format!("bind-address=[{}]:{}", bind.name, bind.port);
    let host = |host: &Host| {
        let bind = host.bind.as_ref().map(|bind| format!(",{}", bound(bind))).unwrap_or_default();
        format!("host=[{}]:{}{bind}", host.name, host.port)
    };
    let id = found.node_id.map(|id| format!("nodeid={id}"));
    let parts = id.into_iter().chain(found.bind_address.as_ref().map(bound));
    parts.chain(found.hosts.iter().map(host)).collect::<Vec<_>>().join(",")
}

fuzz_target!(|bytes: &[u8]| {
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
    reply("get nodeid reply", lines.clone());
    if let Some(name) = lines.next() {
        reply(String::from_utf8_lossy(name).trim(), [name].into_iter().chain(lines));
    }
    let text = String::from_utf8_lossy(bytes);
    match Connectstring::parse(&text) {
        Ok(found) => assert_eq!(Connectstring::parse(&write(&found)), Ok(found)),
        Err(error) => drop(error.to_string()),
    }
});
