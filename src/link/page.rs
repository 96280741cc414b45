//! A page: received words on their way from a receive thread to one port, in the order of their link.

use crate::wire::signal::{self, FrameError, Header, Signal};
use crate::wire::{NodeId, block, gsn, packed};

/// Words of a receive buffer, which becomes a page itself when most of it is for one port. Two of the longest
/// messages fit, so a whole message always does, whatever was read before it.
pub const PAGE_WORDS: usize = 2 * signal::MAX_MESSAGE;

/// What a port is given.
#[derive(Debug)]
pub struct Page {
    /// The node whose link brought it.
    pub node: NodeId,
    /// The generation of that link.
    pub generation: u32,
    /// What it is.
    pub content: Content,
}

/// What a page holds.
#[derive(Debug)]
pub enum Content {
    /// Whole messages. They may be for several ports: who reads takes its own.
    Signals(Words),
    /// Nothing more comes from this generation of the link.
    LinkLost,
}

/// The words of a page. The buffer under it keeps its length when it is used again, so that it need not be
/// cleared.
#[derive(Debug, Default)]
pub struct Words {
    buffer: Vec<u32>,
    length: usize,
}

impl Words {
    /// The first `length` words of `buffer`.
    pub fn new(buffer: Vec<u32>, length: usize) -> Self {
        let length = length.min(buffer.len());
        Words { buffer, length }
    }

    /// All words of `buffer`.
    pub fn whole(buffer: Vec<u32>) -> Self {
        let length = buffer.len();
        Words { buffer, length }
    }

    /// The buffer, to be used again.
    pub fn into_buffer(self) -> Vec<u32> {
        self.buffer
    }
}

impl std::ops::Deref for Words {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.buffer[..self.length]
    }
}

/// Shows `take` every signal whose receiver and number `mine` accepts: packed ones unpacked, foreign ones
/// left out.
#[inline]
pub fn for_each_signal<'a>(
    words: &'a [u32],
    mine: impl Fn(u16, u16) -> bool,
    mut take: impl FnMut(Signal<'a>),
) -> Result<(), FrameError> {
    let mut rest = words;
    while let Some(&first) = rest.first() {
        let length = signal::message_length(first)?;
        let (message, after) = rest.split_at_checked(length).ok_or(FrameError::Length)?;
        rest = after;
        let receiver = signal::receiver_of(message[2]);
        let number = message[1] as u16;
        if receiver == block::API_PACKED {
            let carrier = signal::decode(message)?;
            for packet in packed::Packets::new(carrier.data) {
                let (receiver, data) = packet.map_err(|_| FrameError::Length)?;
                if mine(receiver, number) {
                    take(Signal::short(Header { receiver, ..carrier.header }, data));
                }
            }
        } else if mine(receiver, number) {
            take(signal::decode(message)?);
        }
    }
    Ok(())
}

/// News of a node failure, which every port gets although it is addressed to the cluster manager.
#[inline]
pub fn is_failure_news(receiver: u16, number: u16) -> bool {
    receiver == block::API_CLUSTERMGR
        && matches!(number, gsn::NODE_FAILREP | gsn::TAKE_OVERTCCONF | gsn::NF_COMPLETEREP)
}
