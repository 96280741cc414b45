//! A cluster handle's statistics as text: for a person, and in Prometheus' text exposition format.

use std::fmt::{Display, Write};

use super::statistics::{ClusterStatistics, Kind, Operations, Statistics};
use crate::link::statistics::LinkStatistics;

/// For a person: aligned, with units.
pub fn for_a_person(all: &ClusterStatistics) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_for_a_person(&mut out, all);
    out
}

fn write_for_a_person(out: &mut String, all: &ClusterStatistics) -> std::fmt::Result {
    let s = &all.totals.statistics;
    writeln!(
        out,
        "{:<10}{:>14}{:>12}{:>12}{:>12}{:>11}{:>11}{:>11}{:>11}",
        "operations", "ok", "temporary", "permanent", "unknown", "p50", "p99", "p99.9", "max"
    )?;
    for (kind, name) in Kind::NAMES {
        let o = &all.totals.operations[kind as usize];
        write!(out, "  {name:<8}{:>14}{:>12}{:>12}{:>12}", o.ok(), o.temporary, o.permanent, o.unknown)?;
        for percentile in [50.0, 99.0, 99.9, 100.0] {
            write!(out, "{:>11}", duration(o.latencies.percentile(percentile)))?;
        }
        writeln!(out)?;
    }
    let mut line = |name: &str, value: String| writeln!(out, "{name:<18}{value}");
    line(
        "connections",
        format!(
            "{}, {} operations in flight (most {} of one)",
            all.connections,
            all.totals.in_flight(),
            s.most_in_flight
        ),
    )?;
    line(
        "transactions",
        format!("{} committed, {} rolled back, {} unknown", s.commits, s.rollbacks, s.unknown),
    )?;
    line(
        "sends",
        format!(
            "{}, {} of them held; {} writes of {:.1} operations, {}",
            s.sends,
            s.held,
            s.writes,
            all.totals.operations_per_write(),
            bytes(s.bytes_sent)
        ),
    )?;
    line(
        "polls",
        format!(
            "{} rounds, {} pages, {} signals, {}, {} wake-ups",
            s.rounds,
            s.pages,
            s.signals,
            bytes(s.bytes_received),
            s.wakeups
        ),
    )?;
    line("late replies", s.late_replies.to_string())?;
    line("deadlines", format!("{} expired", s.deadlines))?;
    line(
        "multi-key reads",
        format!(
            "{} at one owner, {} split, {} at any node, {} parts, {} deferred",
            s.multikey_slotted,
            s.multikey_fanout,
            s.multikey_coordinator,
            s.multikey_parts,
            s.multikey_deferred
        ),
    )?;
    line("refused", format!("{} definitions, for lack of room", s.refused))?;
    line(
        "most",
        format!(
            "{} waiting for a node, {} pages, {} coordinator records",
            bytes(s.most_waiting),
            s.most_pages,
            s.most_records
        ),
    )?;
    for (usable, link) in &all.links {
        let state = if *usable { "usable" } else { "not usable" };
        line(
            &format!("node {}", link.node),
            format!(
                "{state}, opened {} times; sent {} in {} writes, received {}; held sends: {} joined, {} forced, {} at \
                 the deadline; waiting {} (most {})",
                link.opened,
                bytes(link.bytes_sent),
                link.writes,
                bytes(link.bytes_received),
                link.held_joined,
                link.held_forced,
                link.held_deadline,
                bytes(link.waiting),
                bytes(link.most_waiting)
            ),
        )?;
    }
    Ok(())
}

fn duration(ns: u64) -> String {
    scaled(ns, 1000.0, &["ns", "us", "ms", "s"])
}

fn bytes(bytes: u64) -> String {
    scaled(bytes, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// A number in the largest unit that leaves at least 1 of it.
fn scaled(number: u64, step: f64, units: &[&str]) -> String {
    let (mut value, mut at) = (number as f64, 0);
    while value >= step && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    let unit = units.get(at).unwrap_or(&"");
    if at == 0 { format!("{number} {unit}") } else { format!("{value:.1} {unit}") }
}

/// In Prometheus' text exposition format, version 0.0.4.
pub fn prometheus(all: &ClusterStatistics) -> String {
    let mut out = Exposition::default();
    let s = &all.totals.statistics;
    out.family("operations_total", "counter", "Operations that have completed.");
    for (kind, name) in Kind::NAMES {
        let o = &all.totals.operations[kind as usize];
        let outcomes =
            [("ok", o.ok()), ("temporary", o.temporary), ("permanent", o.permanent), ("unknown", o.unknown)];
        for (outcome, count) in outcomes {
            out.sample("", &[("kind", &name), ("outcome", &outcome)], count);
        }
    }
    out.family("operation_latency_seconds", "histogram", "From packing to the poll that took the reply.");
    for (kind, name) in Kind::NAMES {
        out.histogram(name, &all.totals.operations[kind as usize]);
    }
    out.family("transactions_total", "counter", "Transactions that have ended.");
    for (outcome, count) in [("commit", s.commits), ("rollback", s.rollbacks), ("unknown", s.unknown)] {
        out.sample("", &[("outcome", &outcome)], count);
    }
    for (name, help, value) in counters(s) {
        out.single(name, "counter", help, value);
    }
    for (name, help, value) in [
        ("connections", "Connections that are open.", all.connections as u64),
        ("operations_in_flight", "Operations defined and not complete.", all.totals.in_flight()),
        ("most_operations_in_flight", "The most in flight in one connection.", s.most_in_flight),
        ("most_waiting_bytes", "The most bytes that one connection saw wait for a node.", s.most_waiting),
        ("most_pages", "The most pages that a poll found.", s.most_pages),
        ("most_records", "The most coordinator records of one connection.", s.most_records),
    ] {
        out.single(name, "gauge", help, value);
    }
    links(&mut out, all);
    out.text
}

fn counters(s: &Statistics) -> [(&'static str, &'static str, u64); 17] {
    [
        ("operations_defined_total", "Operations defined.", s.defined),
        ("sends_total", "Sends with something for a node.", s.sends),
        ("held_sends_total", "Sends that were held for company.", s.held),
        ("writes_total", "Writes to sockets by connections.", s.writes),
        ("rounds_total", "Times that a poll took pages.", s.rounds),
        ("wakeups_total", "Times that a polling thread was woken.", s.wakeups),
        ("pages_total", "Pages taken by polls.", s.pages),
        ("signals_total", "Signals taken by polls.", s.signals),
        ("late_replies_total", "Replies that nothing waited for any more.", s.late_replies),
        ("deadlines_total", "Deadlines that expired.", s.deadlines),
        ("multikey_slotted_total", "Multi-key reads whose keys had one owner.", s.multikey_slotted),
        ("multikey_fanout_total", "Multi-key reads that were split by owner.", s.multikey_fanout),
        ("multikey_coordinator_total", "Multi-key reads with an uncertain owner.", s.multikey_coordinator),
        ("multikey_parts_total", "Parts of multi-key reads.", s.multikey_parts),
        ("multikey_deferred_total", "Multi-key reads that waited for a record.", s.multikey_deferred),
        ("refused_total", "Definitions refused for lack of room.", s.refused),
        ("connection_sent_bytes_total", "Bytes that connections gave to links.", s.bytes_sent),
    ]
}

fn links(out: &mut Exposition, all: &ClusterStatistics) {
    type Get = fn(&LinkStatistics) -> u64;
    let counters: [(&str, &str, Get); 4] = [
        ("link_opened_total", "Times that a link to the node was opened.", |link| link.opened),
        ("link_writes_total", "Writes to the node's socket.", |link| link.writes),
        ("link_sent_bytes_total", "Bytes written to the node's socket.", |link| link.bytes_sent),
        ("link_received_bytes_total", "Bytes read from the node's socket.", |link| link.bytes_received),
    ];
    let gauges: [(&str, &str, Get); 2] = [
        ("link_waiting_bytes", "Bytes that wait for the node's socket.", |link| link.waiting),
        ("link_most_waiting_bytes", "The most bytes that have waited.", |link| link.most_waiting),
    ];
    let families =
        counters.iter().map(|f| (f, "counter")).chain(gauges.iter().map(|family| (family, "gauge")));
    for ((name, help, get), kind) in families {
        out.family(name, kind, help);
        for (_, link) in &all.links {
            out.sample("", &[("node", &link.node)], get(link));
        }
    }
    out.family("link_usable", "gauge", "1 if new work may go to the node.");
    for (usable, link) in &all.links {
        out.sample("", &[("node", &link.node)], *usable as u64);
    }
    out.family("link_held_sends_total", "counter", "Held sends, by how they ended.");
    for (_, link) in &all.links {
        let ends =
            [("joined", link.held_joined), ("forced", link.held_forced), ("deadline", link.held_deadline)];
        for (end, count) in ends {
            out.sample("", &[("node", &link.node), ("end", &end)], count);
        }
    }
}

/// What is being written.
#[derive(Default)]
struct Exposition {
    text: String,
    /// The present family's name.
    name: String,
}

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.name = format!("iclaustron_{name}");
        let name = &self.name;
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A line of the present family. No label's value needs escaping.
    fn sample(&mut self, suffix: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        let _ = write!(self.text, "{}{suffix}", self.name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{label}=\"{text}\"", if at == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.family(name, kind, help);
        self.sample("", &[], value);
    }

    fn histogram(&mut self, kind: &str, operations: &Operations) {
        let latencies = &operations.latencies;
        for (power, below) in latencies.below_powers() {
            self.sample("_bucket", &[("kind", &kind), ("le", &(power as f64 / 1e9))], below);
        }
        self.sample("_bucket", &[("kind", &kind), ("le", &"+Inf")], latencies.count());
        self.sample("_sum", &[("kind", &kind)], latencies.sum() as f64 / 1e9);
        self.sample("_count", &[("kind", &kind)], latencies.count());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::statistics::{Live, Totals};
    use std::collections::{HashMap, HashSet};

    fn some() -> ClusterStatistics {
        let live = Live::default();
        for ns in [0, 1000, 5_000, 300_000, 300_000, 20_000_000, u64::MAX >> 20] {
            live.completed(Kind::Read, ns);
        }
        live.failed(Kind::Read, 266);
        live.failed(Kind::Read, 626);
        live.failed(Kind::Delete, 4012);
        live.completed(Kind::Delete, 7);
        live.publish(&Statistics {
            defined: 9,
            completed: 8,
            failed: 3,
            writes: 4,
            bytes_sent: 3 << 20,
            ..Default::default()
        });
        let link = |node| LinkStatistics { node, writes: 4, held_deadline: 2, ..Default::default() };
        let totals: Totals = live.totals();
        ClusterStatistics { connections: 1, totals, links: vec![(true, link(1)), (false, link(2))] }
    }

    /// One sample: name, labels, value.
    type Sample = (String, Vec<(String, String)>, f64);

    fn is_name(text: &str) -> bool {
        let first = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        first && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    fn sample(line: &str) -> Sample {
        let (head, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = match head.split_once('{') {
            None => (head, Vec::new()),
            Some((name, rest)) => {
                let inner = rest.strip_suffix('}').expect("the end of the labels");
                let label = |pair: &str| {
                    let (label, text) = pair.split_once('=').expect("a label's value");
                    let text =
                        text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).expect("quotes");
                    assert!(is_name(label) && !text.contains(['"', '\\', '\n', ',']), "{pair}");
                    (label.to_owned(), text.to_owned())
                };
                (name, inner.split(',').map(label).collect())
            }
        };
        assert!(is_name(name), "{name}");
        (name.to_owned(), labels, value.parse().expect("a number"))
    }

    /// Reads an exposition strictly: every family begins with HELP and TYPE and occurs once, counters are
    /// named so, no series comes twice.
    fn parse(text: &str) -> Vec<(String, String, Vec<Sample>)> {
        assert!(text.ends_with('\n'));
        let mut families: Vec<(String, String, Vec<Sample>)> = Vec::new();
        let mut seen = HashSet::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').expect("a help text");
                assert!(is_name(name) && !help.is_empty() && seen.insert(name.to_owned()), "{name}");
                let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE ")).expect("a TYPE");
                let (same, kind) = kind.split_once(' ').expect("a type");
                assert_eq!(same, name);
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
                assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
                families.push((name.to_owned(), kind.to_owned(), Vec::new()));
                continue;
            }
            let (name, labels, value) = sample(line);
            let (family, kind, samples) = families.last_mut().expect("a family before its samples");
            let suffix = name.strip_prefix(family.as_str()).expect("the family's name");
            let suffixes: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(suffixes.contains(&suffix), "{name}");
            assert!(seen.insert(format!("{name}{labels:?}")), "{line} comes twice");
            samples.push((name, labels, value));
        }
        assert!(families.iter().all(|family| !family.2.is_empty()), "a family without samples");
        families
    }

    #[test]
    fn the_exposition_is_one() {
        let families = parse(&prometheus(&some()));
        let value = |name: &str, labels: &[(&str, &str)]| {
            let all = families.iter().flat_map(|family| &family.2);
            let found = all.filter(|sample| {
                let pairs: Vec<_> = sample.1.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
                sample.0 == format!("iclaustron_{name}") && pairs == labels
            });
            found.map(|sample| sample.2).next()
        };
        assert_eq!(value("operations_total", &[("kind", "read"), ("outcome", "ok")]), Some(5.0));
        assert_eq!(value("operations_total", &[("kind", "read"), ("outcome", "temporary")]), Some(1.0));
        assert_eq!(value("operations_total", &[("kind", "delete"), ("outcome", "unknown")]), Some(1.0));
        assert_eq!(value("operations_in_flight", &[]), Some(1.0));
        assert_eq!(value("link_usable", &[("node", "2")]), Some(0.0));
        assert_eq!(value("link_held_sends_total", &[("node", "1"), ("end", "deadline")]), Some(2.0));
        assert_eq!(value("operation_latency_seconds_count", &[("kind", "read")]), Some(7.0));
    }

    #[test]
    fn buckets_rise_to_the_count() {
        let families = parse(&prometheus(&some()));
        let histogram = families.iter().find(|family| family.1 == "histogram").expect("a histogram");
        let mut last: HashMap<String, (f64, f64)> = HashMap::new();
        for (name, labels, value) in &histogram.2 {
            let kind = &labels[0].1;
            if name.ends_with("_bucket") {
                assert_eq!(labels[1].0, "le");
                let end: f64 = labels[1].1.parse().expect("an end");
                let before = last.insert(kind.clone(), (end, *value)).unwrap_or((0.0, 0.0));
                assert!(end > before.0 && *value >= before.1, "{kind} {end}");
            } else if name.ends_with("_count") {
                assert_eq!(last[kind], (f64::INFINITY, *value));
            }
        }
        assert_eq!(last.len(), Kind::NAMES.len());
    }

    #[test]
    fn a_person_finds_what_was_counted() {
        let text = for_a_person(&some());
        let read = text.lines().find(|line| line.contains("read ")).expect("reads");
        let words: Vec<_> = read.split_whitespace().collect();
        assert_eq!(words[..5], ["read", "5", "1", "1", "0"]);
        assert!(text.contains("4 writes of 2.0 operations, 3.0 MiB"), "{text}");
        assert!(text.contains("node 1") && text.contains("not usable"), "{text}");
        let starts = text.lines().skip(6).map(|line| line.get(..18).expect("a name").trim_end().len());
        assert!(starts.clone().all(|length| length < 18), "every value begins in one column");
    }
}
