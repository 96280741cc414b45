//! NDB's protocol as words and bytes: pure functions that know no socket, no thread and no clock. Everything
//! decoded here may come from a hostile peer: lengths are checked, an error is returned, nothing panics.

pub mod block;
pub mod column;
pub mod dictionary;
pub mod fragment;
pub mod gsn;
pub mod hash;
pub mod properties;
pub mod signal;

/// A node's number in the cluster, 1 to 255.
pub type NodeId = u16;

/// The value NDB uses for "none" in references and ids.
pub const RNIL: u32 = 0xffff_ff00;
