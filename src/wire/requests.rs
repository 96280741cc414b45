//! Requests as a data node sees them: the decoders of what clients send. Source:
//! storage/ndb/include/kernel/signaldata/{ApiRegSignalData,TcKeyReq,TcCommit,TcRollbackRep}.hpp.
//!
//! A real data node trusts its clients and stops when a request cannot be; these decoders say so instead.
//! What they refuse is an encoder's fault, not an operation's: the link it came by is to be closed, and the
//! [`Fault`] told to whoever looks after the client.

pub mod dictionary;
pub mod key;

use super::transaction::TransId;
use super::{NodeId, block};

/// Why a request cannot be: what a real data node would stop or expel the client for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault(pub &'static str);

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Fault {}

/// API_REGREQ: registration and heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register {
    /// Where failure news goes.
    pub reference: u32,
    /// The client's version.
    pub version: u32,
    /// The heartbeat interval that it wants, in milliseconds.
    pub interval: Option<u32>,
}

impl Register {
    /// Reads the data words of a request from the client `from`.
    pub fn decode(data: &[u32], from: NodeId) -> Result<Self, Fault> {
        let [reference, version, _, ref rest @ ..] = *data else { return Err(Fault("a short API_REGREQ")) };
        if block::node_of(reference) != from {
            return Err(Fault("API_REGREQ with another node's reference"));
        }
        let interval = rest.first().copied().filter(|&word| word != super::RNIL);
        Ok(Register { reference, version, interval })
    }
}

/// TCSEIZEREQ: a coordinator record, please.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seize {
    /// The client's name for it.
    pub client: u32,
    /// Where replies go.
    pub reference: u32,
    /// The coordinator instance, 0 for any.
    pub instance: u32,
}

impl Seize {
    /// Reads the data words of a request from the client `from`.
    pub fn decode(data: &[u32], from: NodeId) -> Result<Self, Fault> {
        let (client, reference, instance) = match *data {
            [client, reference] => (client, reference, 0),
            [client, reference, instance] => (client, reference, instance),
            _ => return Err(Fault("a TCSEIZEREQ of another length")),
        };
        if block::node_of(reference) != from {
            return Err(Fault("TCSEIZEREQ with another node's reference"));
        }
        if client & super::transaction::ID_FLAG != 0 {
            return Err(Fault("TCSEIZEREQ with an odd client id"));
        }
        Ok(Seize { client, reference, instance })
    }
}

/// TCRELEASEREQ: the record is the node's again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// The record.
    pub connect: u32,
    /// Where the reply goes.
    pub reference: u32,
    /// The client's name for the record.
    pub client: u32,
}

impl Release {
    /// Reads the data words of a request from the client `from`.
    pub fn decode(data: &[u32], from: NodeId) -> Result<Self, Fault> {
        let [connect, reference, client] = *data else {
            return Err(Fault("a TCRELEASEREQ of another length"));
        };
        match block::node_of(reference) == from {
            true => Ok(Release { connect, reference, client }),
            false => Err(Fault("TCRELEASEREQ with another node's reference")),
        }
    }
}

/// TC_COMMITREQ, TCROLLBACKREQ, TC_HBREP: a record and the transaction on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfTransaction {
    /// The record.
    pub connect: u32,
    /// The transaction.
    pub transid: TransId,
}

impl OfTransaction {
    /// Reads the data words; TCROLLBACKREQ may have a fourth one.
    pub fn decode(data: &[u32]) -> Result<Self, Fault> {
        match *data {
            [connect, a, b] | [connect, a, b, _] => Ok(OfTransaction { connect, transid: [a, b] }),
            _ => Err(Fault("a transaction's request of another length")),
        }
    }
}

/// TC_COMMIT_ACK: the transaction whose commit was seen.
pub fn acknowledged(data: &[u32]) -> Result<TransId, Fault> {
    match *data {
        [a, b] => Ok([a, b]),
        _ => Err(Fault("a TC_COMMIT_ACK of another length")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::signal::decode;
    use crate::wire::{registration, transaction};
    use proptest::prelude::*;

    fn data_of(encode: impl Fn(&mut Vec<u32>)) -> Vec<u32> {
        let mut out = Vec::new();
        encode(&mut out);
        decode(&out).unwrap().data.to_vec()
    }

    #[test]
    fn what_the_client_encodes_is_read() {
        let own = 0x8003_0033;
        let seize = data_of(|out| transaction::seize(out, 245, 0x8003, 16, own, 0));
        assert_eq!(Seize::decode(&seize, 0x33), Ok(Seize { client: 16, reference: own, instance: 0 }));
        assert!(Seize::decode(&seize, 0x34).is_err(), "another node's reference");
        let release = data_of(|out| transaction::release(out, 245, 0x8003, 7, own, 16));
        assert_eq!(Release::decode(&release, 0x33), Ok(Release { connect: 7, reference: own, client: 16 }));
        let rollback = data_of(|out| transaction::rollback(out, 245, 0x8003, 7, [1, 2], true));
        assert_eq!(OfTransaction::decode(&rollback), Ok(OfTransaction { connect: 7, transid: [1, 2] }));
        let ack = data_of(|out| transaction::commit_ack(out, 245, 0x8003, [1, 2]));
        assert_eq!(acknowledged(&ack), Ok([1, 2]));
        let register = data_of(|out| registration::register(out, 0x33, false, Some(700)));
        let register = Register::decode(&register, 0x33).unwrap();
        assert_eq!((register.interval, block::node_of(register.reference)), (Some(700), 0x33));
    }

    proptest! {
        #[test]
        fn any_words_are_read_or_refused(words in prop::collection::vec(any::<u32>(), 0..26), from: u16) {
            let _ = (Register::decode(&words, from), Seize::decode(&words, from));
            let _ = (Release::decode(&words, from), OfTransaction::decode(&words), acknowledged(&words));
        }
    }
}
