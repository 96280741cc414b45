//! What data nodes say to each other: a coordinator to the nodes that hold rows, they to it, and all of them
//! about nodes and clients that fail. The numbers in comments are those of NDB's signals of the same purpose.

use std::sync::Arc;

use super::faults::Fault;
use super::table::{Place, Table};
use crate::wire::NodeId;
use crate::wire::registration::NodeSet;
use crate::wire::requests::key::Kind;
use crate::wire::transaction::TransId;

/// A message.
#[derive(Debug)]
pub enum Message {
    /// The node ends, as a crash does.
    Stop,
    /// A client is expelled: some node lost it.
    ClientFailed(NodeId),
    /// Links are to be dropped: one client's, or all.
    DropLinks(Option<NodeId>, Fault),
    /// Replies that are held back go out.
    Hasten,
    /// Garbage is to be sent to all clients, then their links are to be closed.
    Garbage(Fault),
    /// A node failed.
    NodeFailed(NodeId),
    /// A node works again.
    NodeStarted(NodeId),
    /// A starting node wants the rows that it has replicas of.
    Join(NodeId),
    /// The rows that a node has for a starting one.
    Snapshot(NodeId, Vec<FragmentCopy>),
    /// The transactions of failed coordinators that the sender knows: sender, failed node.
    Orphans(NodeId, NodeId, Vec<Orphan>),
    /// All transactions of a failed coordinator have been ended.
    TakenOver(NodeId),
    /// For the storage of the node.
    Storage(Work),
    /// For the coordinator of the node.
    Coordinator(Report),
    /// A row for a client that the reading node has no link to (TRANSID_AI_R).
    Row(Row),
}

/// A row on its way to a client through another node.
#[derive(Debug)]
pub struct Row {
    /// Where it goes.
    pub reference: u32,
    /// The operation.
    pub operation: u32,
    /// Its transaction.
    pub transid: TransId,
    /// The attributes, or why there are none.
    pub words: Result<Vec<u32>, i32>,
}

/// Who coordinates an operation, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// The coordinator's node.
    pub coordinator: NodeId,
    /// Its record.
    pub connect: u32,
    /// The transaction.
    pub transid: TransId,
    /// The operation's id.
    pub operation: u32,
    /// The client's block.
    pub reference: u32,
}

/// An operation for the node that holds its row (LQHKEYREQ).
#[derive(Debug)]
pub struct Operation {
    /// Whose it is.
    pub tag: Tag,
    /// The table.
    pub table: Arc<Table>,
    /// Where the row belongs.
    pub place: Place,
    /// What to do.
    pub kind: Kind,
    /// How to lock.
    pub lock: LockMode,
    /// The key, in the form in which rows are found.
    pub key: Box<[u32]>,
    /// What to read or write.
    pub attributes: Box<[u32]>,
    /// It fails rather than wait.
    pub no_wait: bool,
}

/// How an operation locks its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Not at all: the last committed row.
    Committed,
    /// Shared, and not for longer than the read.
    Simple,
    /// Shared until the end.
    Shared,
    /// Exclusive until the end.
    Exclusive,
}

/// For the storage of a node.
#[derive(Debug)]
pub enum Work {
    /// An operation at the row's primary node.
    Operate(Operation),
    /// The row that a write at the primary made, for a backup.
    Replicate {
        /// Whose write it was.
        tag: Tag,
        /// The table.
        table: Arc<Table>,
        /// Where the row belongs.
        place: Place,
        /// The key.
        key: Box<[u32]>,
        /// The row, none when it was removed.
        image: Option<Arc<[u32]>>,
    },
    /// The transaction is committed (COMMIT).
    Commit(NodeId, u32, TransId),
    /// The transaction is aborted (ABORT).
    Abort(NodeId, u32, TransId),
    /// Clients have seen these commits (REMOVE_MARKER_ORD).
    Forget(Vec<TransId>),
}

/// For the coordinator of a node.
#[derive(Debug)]
pub enum Report {
    /// An operation is done; it is complete when these replicas have said so too (LQHKEYCONF).
    Done {
        /// Whose.
        tag: Tag,
        /// Words of its row.
        words: u32,
        /// Backups that have been told.
        backups: NodeSet,
    },
    /// A backup has what the primary told it.
    Replicated(NodeId, Tag),
    /// An operation failed (LQHKEYREF).
    Failed(Tag, i32),
    /// A node has committed (COMMITTED).
    Committed(NodeId, u32, TransId),
    /// A node has aborted (ABORTED).
    Aborted(NodeId, u32, TransId),
}

/// A transaction whose coordinator failed.
#[derive(Debug, Clone, Copy)]
pub struct Orphan {
    /// Whose.
    pub tag: Tag,
    /// This node has committed it.
    pub committed: bool,
}

/// A fragment's rows and the writes that are under way in it.
#[derive(Debug)]
pub struct FragmentCopy {
    /// The table.
    pub table: Arc<Table>,
    /// The fragment.
    pub fragment: u32,
    /// The committed rows.
    pub rows: Vec<RowCopy>,
    /// Writes of transactions that have not ended.
    pub pending: Vec<PendingCopy>,
}

/// A committed row.
#[derive(Debug)]
pub struct RowCopy {
    /// Its hash inside the fragment.
    pub hash: u32,
    /// The words of the key at the front of `words`.
    pub key_words: usize,
    /// Key and row.
    pub words: Arc<[u32]>,
}

/// A write of a transaction that has not ended.
#[derive(Debug)]
pub struct PendingCopy {
    /// Whose it is.
    pub tag: Tag,
    /// Where the row belongs.
    pub place: Place,
    /// The key.
    pub key: Box<[u32]>,
    /// Key and row, none when it was removed.
    pub image: Option<Arc<[u32]>>,
}
