//! NDB's protocol as words and bytes: pure functions that know no socket, no thread and no clock. Everything
//! decoded here may come from a hostile peer: lengths are checked, an error is returned, nothing panics.

pub mod attribute;
pub mod block;
pub mod column;
pub mod config;
pub mod dictionary;
pub mod fragment;
pub mod gsn;
pub mod hash;
pub mod packed;
pub mod properties;
pub mod registration;
pub mod requests;
pub mod signal;
pub mod trace;
pub mod transaction;
#[cfg(test)]
pub(crate) mod vectors;

/// A node's number in the cluster, 1 to 255.
pub type NodeId = u16;

/// The value NDB uses for "none" in references and ids.
pub const RNIL: u32 = 0xffff_ff00;
