//! What is known of the links to a data node.

use crate::wire::NodeId;

/// What the links to a data node have done, whoever used them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStatistics {
    /// The node.
    pub node: NodeId,
    /// Times that a link to it was opened.
    pub opened: u64,
    /// Writes to the socket.
    pub writes: u64,
    /// Bytes written.
    pub bytes_sent: u64,
    /// Bytes read.
    pub bytes_received: u64,
    /// Held sends that another connection's send took along.
    pub held_joined: u64,
    /// Held sends that a forced send, or the same connection's next one, took along.
    pub held_forced: u64,
    /// Held sends that were written at their deadline.
    pub held_deadline: u64,
    /// Bytes that wait for the socket now.
    pub waiting: u64,
    /// The most bytes that have waited.
    pub most_waiting: u64,
}

impl std::ops::AddAssign<&LinkStatistics> for LinkStatistics {
    /// Counters are added; of high-water marks the highest counts. The sum is of no node.
    fn add_assign(&mut self, other: &LinkStatistics) {
        self.node = 0;
        self.opened += other.opened;
        self.writes += other.writes;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.held_joined += other.held_joined;
        self.held_forced += other.held_forced;
        self.held_deadline += other.held_deadline;
        self.waiting += other.waiting;
        self.most_waiting = self.most_waiting.max(other.most_waiting);
    }
}
