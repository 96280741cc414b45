//! What goes wrong, and when: a pure function of the seed.

use std::fmt;
use std::time::Duration;

use iclaustron::wire::NodeId;

/// Codes that data nodes give under load, while a node restarts, or out of resources.
const CODES: [i32; 8] = [266, 410, 1220, 233, 219, 286, 280, 1218];

/// Random numbers: SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Scatters a number.
pub fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Something that goes wrong, or well again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A data node ends as in a crash.
    Kill(NodeId),
    /// It starts, and has joined the others when this is done.
    Restart(NodeId),
    /// A data node sends nothing for so many milliseconds; a real one does nothing at all.
    Pause(NodeId, u64),
    /// A data node holds all its replies back for so many milliseconds; 0 ends it.
    Delay(NodeId, u64),
    /// A data node's link to one of the clients is lost; all data nodes then expel that client.
    DropLink(NodeId, usize),
    /// A data node sends garbage to all clients.
    Garbage(NodeId),
    /// The nth operation that a data node coordinates fails with a code.
    Fail(NodeId, u32, i32),
}

impl Action {
    /// Its kind, for the count.
    pub fn kind(&self) -> &'static str {
        match self {
            Action::Kill(_) => "kill",
            Action::Restart(_) => "restart",
            Action::Pause(..) => "pause",
            Action::Delay(_, 0) => "delay ends",
            Action::Delay(..) => "delay",
            Action::DropLink(..) => "link drop",
            Action::Garbage(_) => "garbage",
            Action::Fail(..) => "injected error",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        match self {
            Action::Kill(node) | Action::Restart(node) | Action::Garbage(node) | Action::Delay(node, 0) => {
                write!(f, "{kind}: node {node}")
            }
            Action::Pause(node, ms) | Action::Delay(node, ms) => write!(f, "{kind}: node {node}, {ms} ms"),
            Action::DropLink(node, client) => write!(f, "{kind}: node {node}, client {client}"),
            Action::Fail(node, nth, code) => write!(f, "{kind}: node {node}, operation {nth}, code {code}"),
        }
    }
}

/// Where and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    pub seconds: u64,
    /// Data nodes; at most one is down at a time.
    pub nodes: NodeId,
    pub clients: usize,
    /// Real data nodes: only what signals to processes do, and at their pace.
    pub real: bool,
}

/// When something is due, from the start.
pub type Due = (Duration, Action);

/// What goes wrong when. Everything is well again at the end.
pub fn schedule(plan: &Plan) -> Vec<Due> {
    let mut random = Random(plan.seed ^ 0x7073_6368_6564);
    let mut due = Vec::new();
    let mut down: Option<(NodeId, u64)> = None;
    let mut killable = 0;
    let end = plan.seconds * 1000;
    let mut now = 300;
    while now < end {
        if let Some((node, until)) = down
            && now >= until
        {
            due.push((now, Action::Restart(node)));
            down = None;
            killable = now + if plan.real { 6000 } else { 1500 };
        }
        let up: Vec<NodeId> =
            (1..=plan.nodes).filter(|&id| down.is_none_or(|(node, _)| node != id)).collect();
        let node = random.pick(&up);
        let action = if plan.real { real(&mut random, node) } else { embedded(&mut random, node, plan) };
        match action {
            Action::Kill(_) if down.is_some() || now < killable => {}
            // The last one of a group that says nothing is taken for dead, and ends itself.
            Action::Pause(..) if plan.real && (down.is_some() || now < killable) => {}
            Action::Kill(_) => {
                let time = if plan.real { 500 + random.below(4000) } else { 50 + random.below(1500) };
                down = Some((node, now + time));
                due.push((now, action));
            }
            _ => due.push((now, action)),
        }
        now += if plan.real { 300 + random.below(3000) } else { 20 + random.below(400) };
    }
    due.extend(down.map(|(node, _)| (end, Action::Restart(node))));
    if !plan.real {
        due.extend((1..=plan.nodes).map(|node| (end, Action::Delay(node, 0))));
    }
    due.into_iter().map(|(at, action)| (Duration::from_millis(at), action)).collect()
}

fn embedded(random: &mut Random, node: NodeId, plan: &Plan) -> Action {
    match random.below(40) {
        0..4 => Action::Kill(node),
        4..10 => Action::Pause(node, 20 + random.below(1500)),
        10..13 => Action::Delay(node, 1 + random.below(20)),
        13..17 => Action::Delay(node, 0),
        17..19 => Action::DropLink(node, random.below(plan.clients as u64) as usize),
        19 => Action::Garbage(node),
        _ => Action::Fail(node, 1 + random.below(50) as u32, random.pick(&CODES)),
    }
}

fn real(random: &mut Random, node: NodeId) -> Action {
    match random.below(4) {
        0 => Action::Kill(node),
        // Some are over before any deadline, some long after.
        1 => Action::Pause(node, 4000 + random.below(4000)),
        _ => Action::Pause(node, 100 + random.below(4000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { seed: 7, seconds: 60, nodes: 4, clients: 2, real: false };

    #[test]
    fn the_seed_decides_all() {
        assert_eq!(schedule(&PLAN), schedule(&PLAN));
        assert_ne!(schedule(&PLAN), schedule(&Plan { seed: 8, ..PLAN }));
        let longer = schedule(&Plan { seconds: 70, ..PLAN });
        let begins = schedule(&PLAN).into_iter().filter(|due| due.0 < Duration::from_secs(59));
        assert!(begins.zip(longer).all(|(a, b)| a == b), "a longer run begins as a shorter one");
    }

    #[test]
    fn at_most_one_node_is_down_and_none_at_the_end() {
        for seed in 0..200 {
            for real in [false, true] {
                let mut down = None;
                let mut before = Duration::ZERO;
                for (at, action) in schedule(&Plan { seed, real, ..PLAN }) {
                    assert!(at >= before);
                    before = at;
                    match action {
                        Action::Kill(node) => assert_eq!(down.replace(node), None),
                        Action::Restart(node) => assert_eq!(down.take(), Some(node)),
                        Action::Delay(_, 0) => {}
                        Action::Pause(node, _)
                        | Action::Delay(node, _)
                        | Action::DropLink(node, _)
                        | Action::Garbage(node)
                        | Action::Fail(node, ..) => assert_ne!(down, Some(node)),
                    }
                }
                assert_eq!(down, None);
            }
        }
    }

    #[test]
    fn everything_happens() {
        let mut kinds: Vec<_> = schedule(&PLAN).iter().map(|due| due.1.kind()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), 8, "{kinds:?}");
    }
}
