//! Block numbers and block references: who sends and who receives a signal inside a node.
//!
//! A block number on the wire is 16 bits, its instance included. A client treats it as opaque and answers to
//! exactly the number it was given. Source: storage/ndb/include/kernel/BlockNumbers.h, RefConvert.hpp.

use super::NodeId;

/// Transaction coordinator.
pub const DBTC: u16 = 245;
/// Local query handler: the fragment's storage, sender of refusals of committed reads.
pub const DBLQH: u16 = 247;
/// Tuple storage, sender of rows.
pub const DBTUP: u16 = 249;
/// Dictionary.
pub const DBDICT: u16 = 250;
/// Registration and node states.
pub const QMGR: u16 = 252;
/// The client's cluster manager: node states, failure news.
pub const API_CLUSTERMGR: u16 = 0x0fa2;
/// Receiver number of carriers that hold several short signals.
pub const API_PACKED: u16 = 0x07ff;
/// First of the numbers a client gives to its own blocks.
pub const MIN_API_BLOCK: u16 = 0x8000;

/// The reference of `block` at `node`.
pub const fn reference(block: u16, node: NodeId) -> u32 {
    (block as u32) << 16 | node as u32
}

/// The block number in a reference, instance included.
pub const fn block_of(reference: u32) -> u16 {
    (reference >> 16) as u16
}

/// The node in a reference.
pub const fn node_of(reference: u32) -> NodeId {
    reference as u16
}
