//! A whole received signal that owns its words.

use super::signal::Header;

/// A signal put together from its fragments, or copied from one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedSignal {
    /// Number, receiver, sender.
    pub header: Header,
    /// The data words, without section numbers and fragment id.
    pub data: Vec<u32>,
    /// The sections, each in one piece.
    pub sections: Vec<Vec<u32>>,
}
