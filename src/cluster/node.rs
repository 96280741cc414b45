//! What every thread may know of a data node: its link, and whether new work may go there.
//!
//! The manager owns a node's state. Others read [`Node::usable`] to choose nodes, and for nothing else: news
//! of a failure reaches them through their inboxes, in the order of the link that brings it.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::link::sender::Sender;
use crate::wire::NodeId;
use crate::wire::registration::Version;
use crate::wire::signal::FrameError;

/// A data node of the configuration.
#[derive(Debug)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// Its host name, for messages.
    pub host: String,
    /// The sending half of its link.
    pub sender: Sender,
    /// Twice the open generation of the link, plus one if new work may go there; 0 without a connection.
    state: AtomicU32,
    /// The last generation of the link that was opened; 0 before the first.
    latest: AtomicU32,
    /// The version that it registered with last; 0 before the first.
    version: AtomicU32,
    /// The node group that it registered with last, plus one; 0 for none.
    group: AtomicU32,
    /// What a link brought that cannot be read, for the manager to tell: the error's place in [`FAULTS`] plus
    /// one.
    fault: AtomicU8,
}

const FAULTS: [FrameError; 4] =
    [FrameError::ByteOrder, FrameError::Compressed, FrameError::Length, FrameError::Checksum];

impl Node {
    /// A node without a connection.
    pub fn new(id: NodeId, host: String) -> Self {
        let [state, latest, version, group] = [0; 4].map(AtomicU32::new);
        Node { id, host, sender: Sender::new(id), state, latest, version, group, fault: AtomicU8::new(0) }
    }

    /// The generation of the link to which new work may go, if there is one.
    #[inline]
    pub fn usable(&self) -> Option<u32> {
        let state = self.state.load(Ordering::Acquire);
        (state & 1 == 1).then_some(state >> 1)
    }

    /// The generation of the link that is open, usable or not; 0 for none.
    pub fn open_generation(&self) -> u32 {
        self.state.load(Ordering::Acquire) >> 1
    }

    /// The last generation of the link that was opened, whether it is still open or not; 0 before the first.
    pub fn latest_generation(&self) -> u32 {
        self.latest.load(Ordering::Acquire)
    }

    /// Whether a connection is open, usable or not.
    pub fn connected(&self) -> bool {
        self.state.load(Ordering::Acquire) != 0
    }

    /// Its version, as it said when it confirmed this client last; none before the first time.
    pub fn version(&self) -> Option<Version> {
        Some(Version(self.version.load(Ordering::Relaxed))).filter(|version| version.0 != 0)
    }

    /// Its node group, as it said then, if it is in one.
    pub fn group(&self) -> Option<u32> {
        self.group.load(Ordering::Relaxed).checked_sub(1)
    }

    /// By the manager: what it has confirmed with.
    pub(super) fn confirmed(&self, version: Version, group: Option<u32>) {
        self.version.store(version.0, Ordering::Relaxed);
        self.group.store(group.map_or(0, |group| group.saturating_add(1)), Ordering::Relaxed);
    }

    /// By the manager: `generation` is open, and not usable yet.
    pub(super) fn opened(&self, generation: u32) {
        self.latest.store(generation, Ordering::Release);
        self.state.store(generation << 1, Ordering::Release);
    }

    /// By the manager: whether `generation` takes new work. Without effect when it is lost already.
    pub(super) fn set_usable(&self, generation: u32, usable: bool) {
        let (from, to) = (generation << 1 | !usable as u32, generation << 1 | usable as u32);
        let _ = self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// By the receive thread: the link has brought something that cannot be read.
    pub(super) fn set_fault(&self, error: FrameError) {
        let place = FAULTS.iter().position(|&fault| fault == error).map_or(0, |place| place + 1);
        self.fault.store(place as u8, Ordering::Relaxed);
    }

    /// By the manager, when the link is lost: what it has brought that cannot be read.
    pub(super) fn take_fault(&self) -> Option<FrameError> {
        let place = self.fault.swap(0, Ordering::Relaxed) as usize;
        FAULTS.get(place.checked_sub(1)?).copied()
    }

    /// By the receive thread that met the end of `generation`, before it tells any port: so a port that opens
    /// too late to be told never sees the generation usable.
    pub(super) fn lost(&self, generation: u32) {
        let end = |state: u32| (state >> 1 == generation).then_some(0);
        // Another generation is left alone.
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, end);
    }
}
