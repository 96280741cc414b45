//! The management server: where it is, the session with it, a node id, the configuration. [`join`] does all
//! of it, again and again until its deadline, with pauses that grow.

pub mod connectstring;
pub mod session;
pub mod text;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use crate::wire::NodeId;
use crate::wire::config::Configuration;
pub use connectstring::{Connectstring, Host};
pub use session::{MgmError, Session, Step};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// A last attempt is made this long before the deadline.
const LAST_ATTEMPT: Duration = Duration::from_millis(250);
/// How long a server may take to find a node id: it waits while a former owner's failure is handled.
const NODE_ID_LIMIT: Duration = Duration::from_secs(30);
const CONFIGURATION_LIMIT: Duration = Duration::from_secs(30);
/// A node id is reserved for 20 seconds; one that is older than this is asked for anew.
const RESERVED: Duration = Duration::from_secs(15);

/// What a client needs to be a node of the cluster.
#[derive(Debug)]
pub struct Joined {
    /// The client's node id, reserved for about 20 seconds unless a data node accepts the client before.
    pub node_id: NodeId,
    /// The configuration as this node sees it; [`Configuration::links`] has been checked.
    pub configuration: Configuration,
    /// The session that gave both.
    pub session: Session,
}

/// Gets a node id and the configuration from the first server that gives them. What another attempt may turn
/// is tried until the deadline, at the next server first; `pause` waits that long and says whether to go on.
pub fn join(
    connectstring: &Connectstring,
    deadline: Instant,
    pause: &mut dyn FnMut(Duration) -> bool,
) -> Result<Joined, MgmError> {
    let mut attempts = Attempts {
        hosts: connectstring.hosts.clone(),
        wanted: connectstring.node_id,
        reserved: None,
        deadline,
    };
    let mut pauses = Pauses { next: FIRST_PAUSE };
    let mut refusal = None;
    loop {
        let error = match attempts.next() {
            Ok(joined) => return Ok(joined),
            Err(error) => error,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let go_on = error.temporary
            && left > LAST_ATTEMPT
            && pause(pauses.next_pause().min(left.saturating_sub(LAST_ATTEMPT)));
        if !go_on {
            return Err(with_refusal(refusal, error));
        }
        if error.code.is_some() {
            refusal = Some(error);
        }
    }
}

/// What a server refused before says more than how the last attempt was cut off.
fn with_refusal(refusal: Option<MgmError>, last: MgmError) -> MgmError {
    match refusal {
        Some(refusal) if last.code.is_none() && last.temporary => refusal.then(last),
        _ => last,
    }
}

struct Attempts {
    hosts: Vec<Host>,
    wanted: Option<NodeId>,
    /// An id that was given while the configuration was not, and when.
    reserved: Option<(NodeId, Instant)>,
    deadline: Instant,
}

impl Attempts {
    fn next(&mut self) -> Result<Joined, MgmError> {
        let mut session = Session::open(&self.hosts, self.deadline)?;
        let used =
            self.hosts.iter().position(|host| host.name == session.host() && host.port == session.port());
        // The next attempt, if there is one, goes to another server first.
        self.hosts.rotate_left(used.map_or(0, |used| used + 1));
        let node_id = self.node_id(&mut session)?;
        let configuration = session.configuration(node_id, self.within(CONFIGURATION_LIMIT))?;
        if let Err(error) = configuration.links(node_id) {
            return Err(session.error(Step::Configuration, error));
        }
        Ok(Joined { node_id, configuration, session })
    }

    fn node_id(&mut self, session: &mut Session) -> Result<NodeId, MgmError> {
        if let Some((id, since)) = self.reserved
            && since.elapsed() < RESERVED
        {
            return Ok(id);
        }
        let asked = Instant::now();
        let id = session.allocate_node_id(self.wanted, self.within(NODE_ID_LIMIT))?;
        self.reserved = Some((id, asked));
        Ok(id)
    }

    fn within(&self, limit: Duration) -> Instant {
        self.deadline.min(Instant::now() + limit)
    }
}

/// Pauses that double up to a limit, each shortened at random so that clients do not come in step.
struct Pauses {
    next: Duration,
}

impl Pauses {
    fn next_pause(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(LONGEST_PAUSE);
        let random = RandomState::new().build_hasher().finish() as u32;
        whole / 2 + (whole / 2).mul_f64(random as f64 / u32::MAX as f64)
    }
}

#[cfg(test)]
mod tests;
