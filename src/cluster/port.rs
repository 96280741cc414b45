//! A port: the one way to exchange signals. A block number, an inbox, and assembly of fragmented signals.
//! Connections, the dictionary and the manager are its users.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, RwLock, Weak};
use std::time::{Duration, Instant};

use super::alarm::Alarm;
use super::inbox::{Enough, Inbox, News};
use super::role::{Reads, Role};
use crate::link::page::{Content, Page};
use crate::wire::NodeId;
use crate::wire::block::MIN_API_BLOCK;
use crate::wire::fragment::{Assembler, OwnedSignal};
use crate::wire::signal::Signal;

/// Ports that can be open at once. Transaction ids hold 12 bits of the block number, so no more can be told
/// apart.
pub const MAX_PORTS: usize = 4096;

/// The block numbers in use and their inboxes. Looked up by receive threads once per round.
pub struct Ports {
    inboxes: RwLock<Vec<Option<Arc<Inbox>>>>,
    /// Counts port openings; a number is taken again as late as possible.
    opened: AtomicU64,
    /// The receive role that ports may borrow, if it is the only one. The role posts to the ports, so it is
    /// not theirs to keep.
    pub role: OnceLock<Weak<Role>>,
    /// Signals for ports that are closed, and the cluster manager's own.
    pub manager: Arc<Inbox>,
    /// The time that the manager sleeps to.
    alarm: Alarm,
}

impl Default for Ports {
    fn default() -> Self {
        Ports {
            inboxes: RwLock::new(vec![None; MAX_PORTS]),
            opened: AtomicU64::new(0),
            role: OnceLock::new(),
            manager: Arc::default(),
            alarm: Alarm::default(),
        }
    }
}

impl Ports {
    /// The inboxes of the open ports, by block number from the first.
    pub fn inboxes(&self) -> impl std::ops::Deref<Target = Vec<Option<Arc<Inbox>>>> + '_ {
        self.inboxes.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether the port of `block` is open.
    pub fn is_open(&self, block: u16) -> bool {
        let slot = block.wrapping_sub(MIN_API_BLOCK) as usize;
        self.inboxes().get(slot).is_some_and(Option::is_some)
    }

    /// Opens a port; `None` when [`MAX_PORTS`] are open.
    pub fn open(self: &Arc<Self>) -> Option<Port> {
        let mut inboxes = self.inboxes.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let start = self.opened.fetch_add(1, Ordering::Relaxed) as usize;
        let slot = (0..MAX_PORTS).map(|i| (start + i) % MAX_PORTS).find(|&i| inboxes[i].is_none())?;
        let inbox = Arc::<Inbox>::default();
        if let Some(role) = self.role.get().and_then(Weak::upgrade) {
            let _ = inbox.role.set(role);
        }
        inboxes[slot] = Some(inbox.clone());
        Some(Port::new(MIN_API_BLOCK + slot as u16, inbox, Some(self.clone())))
    }

    /// The port of the cluster manager, whose block number is fixed.
    pub fn manager_port(&self) -> Port {
        Port::new(crate::wire::block::API_CLUSTERMGR, self.manager.clone(), None)
    }

    /// By the manager, before it sleeps to `until` at most: wakes the owners that are due. To when it may
    /// sleep.
    pub fn alarm(&self, now: u64, until: u64) -> u64 {
        let inboxes = self.inboxes();
        let ports = inboxes.iter().flatten().map(|inbox| (&inbox.due, inbox));
        self.alarm.sleep(now, until, ports, |inbox| inbox.poke())
    }

    /// How often the owner of `block` was woken; `None` if the port is closed.
    pub fn wakeups(&self, block: u16) -> Option<u64> {
        let slot = block.wrapping_sub(MIN_API_BLOCK) as usize;
        let inbox = self.inboxes().get(slot)?.clone()?;
        Some(inbox.wakeups())
    }

    /// Wakes the owner of `block`.
    pub fn poke(&self, block: u16) {
        let slot = block.wrapping_sub(MIN_API_BLOCK) as usize;
        if let Some(Some(inbox)) = self.inboxes().get(slot) {
            inbox.poke();
        }
    }

    /// Wakes every owner.
    pub fn poke_all(&self) {
        self.inboxes().iter().flatten().for_each(|inbox| inbox.poke());
        self.manager.poke();
    }
}

impl std::fmt::Debug for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ports")
    }
}

/// An open port. Dropping it closes it; what comes for it later goes to the manager.
#[derive(Debug)]
pub struct Port {
    block: u16,
    inbox: Arc<Inbox>,
    ports: Option<Arc<Ports>>,
    spent: Vec<Vec<u32>>,
    /// By node: fragments of signals that are not complete yet.
    fragments: Vec<(NodeId, Assembler)>,
}

impl Port {
    fn new(block: u16, inbox: Arc<Inbox>, ports: Option<Arc<Ports>>) -> Self {
        Port { block, inbox, ports, spent: Vec::new(), fragments: Vec::new() }
    }

    /// The port's block number.
    #[inline]
    pub fn block(&self) -> u16 {
        self.block
    }

    /// The inbox, for statistics.
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// Takes what is there, waiting until `until` if given, else not at all. `pages` must be empty. A port
    /// that the receive role is lent to reads the sockets itself.
    pub fn take(&mut self, until: Option<Instant>, pages: &mut Vec<Page>) -> bool {
        self.take_enough(until, Enough::default(), pages)
    }

    /// As [`Port::take`]; a sleep ends before `until` only for `enough`.
    pub fn take_enough(&mut self, until: Option<Instant>, enough: Enough, pages: &mut Vec<Page>) -> bool {
        take(&self.inbox, self.block, until, enough, pages, &mut self.spent)
    }

    /// The owner, who may not be in a poll then, is to be woken at this time of the cluster's clock.
    pub fn wake_at(&self, time: u64) {
        if let Some(ports) = &self.ports
            && self.inbox.due.set(time, &ports.alarm)
        {
            ports.manager.poke();
        }
    }

    /// Gives a page's buffer back, to be used again.
    pub fn recycle(&mut self, page: Page) {
        if let Content::Signals(words) = page.content {
            self.spent.push(words.into_buffer());
        }
    }

    /// Takes a part of a fragmented signal; the whole one when it was the last part.
    pub fn assemble(&mut self, node: NodeId, part: &Signal<'_>) -> Option<OwnedSignal> {
        let at = match self.fragments.iter().position(|(n, _)| *n == node) {
            Some(at) => at,
            None => {
                self.fragments.push((node, Assembler::default()));
                self.fragments.len() - 1
            }
        };
        // What cannot be assembled is dropped: the request it answers ends by its time limit.
        self.fragments[at].1.add(part).unwrap_or(None)
    }

    /// Drops unfinished fragments of a node whose link is gone.
    pub fn forget_fragments(&mut self, node: NodeId) {
        self.fragments.retain(|(n, _)| *n != node);
    }
}

/// The owner of an inbox takes what is there, as [`Port::take_enough`].
pub(super) fn take<R: Reads>(
    inbox: &Inbox<R>,
    block: u16,
    until: Option<Instant>,
    enough: Enough,
    pages: &mut Vec<Page>,
    spent: &mut Vec<Vec<u32>>,
) -> bool {
    loop {
        if inbox.take(pages, spent) {
            return true;
        }
        let borrowed = inbox.role.get().and_then(|role| Some((role, role.borrow(block)?)));
        let Some((role, mut receiver)) = borrowed else {
            return until.is_some() && inbox.wait(until, enough, pages, spent);
        };
        let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        if inbox.start_reading() {
            let goes_on = receiver.borrowed_round(left, || inbox.stop_reading());
            drop(receiver);
            if !goes_on {
                role.recall();
            }
        }
        if left.is_zero() {
            return inbox.take(pages, spent);
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.inbox.close_descriptor();
        if let Some(ports) = &self.ports {
            let mut inboxes = ports.inboxes.write().unwrap_or_else(|poisoned| poisoned.into_inner());
            inboxes[(self.block - MIN_API_BLOCK) as usize] = None;
            drop(inboxes);
            // What came last may ask for an acknowledgement.
            let mut pages = Vec::new();
            if self.inbox.take(&mut pages, &mut self.spent) && !pages.is_empty() {
                ports.manager.post(&mut pages, &mut self.spent, News { other: true, ..News::default() });
            }
        }
    }
}
