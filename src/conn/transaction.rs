//! A transaction, and the coordinator record it runs on. Its states are those of the protocol notes' state
//! machine (doc/ndb-protocol.md).

use super::explain::Failure;
use super::slots::NONE;
use crate::error::ndb;
use crate::wire::transaction::TransId;

/// Where a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is out; more may be defined.
    Open,
    /// A batch is out. What is defined meanwhile waits for its end.
    Executing,
    /// A batch is out and the commit rides on it.
    ExecutingCommit,
    /// TC_COMMITREQ is out.
    Committing,
    /// TCROLLBACKREQ is out.
    RollingBack,
    /// The commit was sent and the coordinator's node is lost: another node tells the outcome.
    TakingOver,
    /// Committed or rolled back; the record is given back.
    Ended,
}

/// What the caller has asked for and cannot be done yet: the record or the end of a batch is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    None,
    Commit,
}

/// A transaction.
#[derive(Debug)]
pub(super) struct Transaction {
    /// Index of the coordinator's node.
    pub(super) node: usize,
    /// The coordinator record, or [`NONE`] while it is waited for.
    pub(super) record: u32,
    pub(super) transid: TransId,
    pub(super) phase: Phase,
    pub(super) wish: Wish,
    pub(super) error: i32,
    /// Where it ended without a commit.
    pub(super) failure: Failure,
    pub(super) committed: bool,
    /// An operation with the START flag was packed: the node knows the transaction.
    pub(super) started: bool,
    /// It has writes: without a reply their outcome is unknown.
    pub(super) writes: bool,
    /// The caller has given it up; the slot goes when its last query and the outcome are in.
    pub(super) closed: bool,
    /// It is a part of a multi-key read; the caller has no handle of it.
    pub(super) part: bool,
    /// Its queries in order of definition; those before `first_defined` are packed.
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) first_defined: u32,
    /// It is on the connection's list of transactions with queries that no commit has packed.
    pub(super) unsealed: bool,
    /// A send has passed over it because of what it waits for: it goes out as soon as that comes.
    pub(super) send_wanted: bool,
    /// The node's send epoch in which its last request was packed.
    pub(super) epoch: u32,
    /// Nodes that had no coordinator record for it.
    pub(super) refusals: u8,
    /// How long what is sent may go without a reply, nanoseconds.
    pub(super) limit: u64,
    /// When what is out ends without one, nanoseconds of the cluster's clock; [`NEVER`] while nothing is out.
    pub(super) deadline: u64,
}

/// No deadline.
pub(super) const NEVER: u64 = u64::MAX;

impl Transaction {
    /// An open transaction without a record.
    pub(super) fn new(node: usize, transid: TransId, limit: u64) -> Self {
        Transaction {
            node,
            record: NONE,
            transid,
            phase: Phase::Open,
            wish: Wish::None,
            error: 0,
            failure: Failure::default(),
            committed: false,
            started: false,
            writes: false,
            closed: false,
            part: false,
            first: NONE,
            last: NONE,
            first_defined: NONE,
            unsealed: false,
            send_wanted: false,
            epoch: 0,
            refusals: 0,
            limit,
            deadline: NEVER,
        }
    }

    /// How it ends when no reply can come any more: `epoch` is its node's present send epoch.
    pub(super) fn error_without_reply(&self, epoch: u32) -> i32 {
        let sent = self.epoch != epoch;
        match self.phase {
            Phase::RollingBack => 0,
            Phase::TakingOver => ndb::UNKNOWN_RESULT,
            Phase::Committing | Phase::ExecutingCommit if sent && self.writes => ndb::UNKNOWN_RESULT,
            _ => ndb::NODE_FAILURE_ABORT,
        }
    }

    /// Whether it can still be rolled back: no commit was asked for.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Executing) && self.wish == Wish::None
    }

    /// What is out has its time from `clock`. When that is over.
    #[inline]
    pub(super) fn start_deadline(&mut self, clock: u64) -> u64 {
        self.deadline = clock.saturating_add(self.limit);
        self.deadline
    }

    /// Whether queries may be defined in it.
    #[inline]
    pub(super) fn takes_work(&self) -> bool {
        self.is_open() && self.error == 0
    }
}

/// A coordinator record of some node: seized once, then used by one transaction after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    /// Index of its node.
    pub(super) node: usize,
    /// The node's name of it; meaningless until the seize is confirmed.
    pub(super) connect: u32,
    /// The block number of its coordinator instance.
    pub(super) block: u16,
    /// What it is used for.
    pub(super) usage: Usage,
}

/// What a record is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usage {
    /// The slot is free.
    Unused,
    /// TCSEIZEREQ is out.
    Seizing,
    /// No transaction is on it.
    Idle,
    /// The transaction in this slot is on it.
    Busy(u32),
    /// Its transaction has ended for the caller at its deadline. The record is not used, nor released, before
    /// its final reply: a release would lose that reply and the acknowledgement that it asks for.
    Aside {
        /// The transaction.
        transid: TransId,
        /// TCROLLBACKREQ is out: TCROLLBACKREP is not the final reply.
        rolling_back: bool,
    },
}
