//! The dictionary's requests as DBDICT reads them. Sources:
//! storage/ndb/include/kernel/signaldata/{GetTabInfo,ListTables,SchemaTrans,CreateHashMap,CreateTable,
//! DropTable,CreateIndx}.hpp, src/kernel/blocks/dbdict/Dbdict.cpp.

use super::Fault;
use crate::wire::{NodeId, block, gsn};

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Where the answer goes.
    pub reference: u32,
    /// The client's number for it: a request's, or for the begin and the end of a schema transaction, its id.
    pub number: u32,
    /// What it wants.
    pub what: What<'a>,
}

/// An open schema transaction, as a request names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InTransaction {
    /// The client's number.
    pub id: u32,
    /// The coordinator's number.
    pub key: u32,
}

/// What a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What<'a> {
    /// GET_TABINFOREQ by id.
    GetById {
        /// The object.
        id: u32,
        /// The schema transaction whose objects shall be seen, or 0.
        transaction: u32,
    },
    /// GET_TABINFOREQ by name.
    GetByName {
        /// The name, without its NUL. A name that its length does not end at a NUL is none's.
        name: Option<&'a [u8]>,
        /// The length that the request gives.
        length: u32,
        /// The schema transaction whose objects shall be seen, or 0.
        transaction: u32,
    },
    /// LIST_TABLES_REQ.
    List {
        /// Names are wanted.
        names: bool,
        /// Only what depends on this object.
        dependent_on: Option<u32>,
        /// Only this type; 0 for all.
        kind: u32,
    },
    /// SCHEMA_TRANS_BEGIN_REQ.
    Begin,
    /// SCHEMA_TRANS_END_REQ.
    End {
        /// The coordinator's number.
        key: u32,
        /// Undo everything.
        abort: bool,
    },
    /// CREATE_HASH_MAP_REQ.
    CreateHashMap {
        /// Where.
        transaction: InTransaction,
        /// Flags: 1 if it does not exist, 2 the default one, 8 for one node group.
        info: u32,
        /// Fragments, or a partition balance.
        fragments: u32,
    },
    /// CREATE_TABLE_REQ.
    CreateTable {
        /// Where.
        transaction: InTransaction,
        /// The definition's items.
        definition: &'a [u32],
    },
    /// DROP_TABLE_REQ.
    DropTable {
        /// Where.
        transaction: InTransaction,
        /// The table.
        id: u32,
        /// Its version.
        version: u32,
    },
    /// Another operation inside a schema transaction, known only by its number.
    Other {
        /// Where.
        transaction: InTransaction,
    },
}

const BY_NAME: u32 = 1;
const LONG_ANSWER: u32 = 2;
const LIST_NAMES: u32 = 1 << 28;
const LIST_INDEXES: u32 = 1 << 29;
const LIST_DEPENDENT: u32 = 1 << 30;

/// Reads a request from the client `from` by its parts.
pub fn decode<'a>(
    number: u16,
    data: &'a [u32],
    sections: &[&'a [u32]],
    from: NodeId,
) -> Result<Request<'a>, Fault> {
    let short = Fault("a dictionary request of another length");
    let request = match (number, data) {
        (gsn::GET_TABINFOREQ, &[number, reference, kind, value, transaction]) => {
            if kind & LONG_ANSWER == 0 {
                return Err(Fault("GET_TABINFOREQ without the bit for long answers"));
            }
            let what = match (kind & BY_NAME, sections) {
                (0, _) => What::GetById { id: value, transaction },
                (_, [name, ..]) => What::GetByName { name: name_in(name, value), length: value, transaction },
                _ => return Err(Fault("GET_TABINFOREQ by name without the name")),
            };
            Request { reference, number, what }
        }
        (gsn::LIST_TABLES_REQ, &[number, reference, info, id, kind]) => {
            let dependent_on = (info & (LIST_INDEXES | LIST_DEPENDENT) != 0).then_some(id);
            let what = What::List { names: info & LIST_NAMES != 0, dependent_on, kind };
            Request { reference, number, what }
        }
        (gsn::SCHEMA_TRANS_BEGIN_REQ, &[reference, number, _]) => {
            Request { reference, number, what: What::Begin }
        }
        (gsn::SCHEMA_TRANS_END_REQ, &[reference, number, _, key, flags]) => {
            Request { reference, number, what: What::End { key, abort: flags & 1 != 0 } }
        }
        (gsn::CREATE_HASH_MAP_REQ, &[reference, number, key, id, info, _, fragments]) => {
            let transaction = InTransaction { id, key };
            Request { reference, number, what: What::CreateHashMap { transaction, info, fragments } }
        }
        (gsn::CREATE_TABLE_REQ, &[reference, number, _, id, key]) => {
            let [definition, ..] = *sections else {
                return Err(Fault("CREATE_TABLE_REQ without a definition"));
            };
            let transaction = InTransaction { id, key };
            Request { reference, number, what: What::CreateTable { transaction, definition } }
        }
        (gsn::DROP_TABLE_REQ, &[reference, number, _, id, key, table, version]) => {
            let what = What::DropTable { transaction: InTransaction { id, key }, id: table, version };
            Request { reference, number, what }
        }
        (gsn::CREATE_INDX_REQ, &[reference, number, id, key, _, _, _, _, _]) => {
            if sections.len() != 2 {
                return Err(Fault("CREATE_INDX_REQ without both sections"));
            }
            Request { reference, number, what: What::Other { transaction: InTransaction { id, key } } }
        }
        (gsn::DROP_INDX_REQ, &[reference, number, id, key, _, _, _])
        | (gsn::ALTER_TABLE_REQ, &[reference, number, id, key, _, _, _, _]) => {
            Request { reference, number, what: What::Other { transaction: InTransaction { id, key } } }
        }
        _ => return Err(short),
    };
    match block::node_of(request.reference) == from {
        true => Ok(request),
        false => Err(Fault("a dictionary request with another node's reference")),
    }
}

/// The name of `length` bytes, its NUL included.
fn name_in(words: &[u32], length: u32) -> Option<&[u8]> {
    match bytemuck::cast_slice::<u32, u8>(words).get(..length as usize)? {
        [name @ .., 0] => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::dictionary::{Client, Transaction};
    use crate::wire::signal;
    use proptest::prelude::*;

    fn read(words: &[u32]) -> Request<'_> {
        let signal = signal::decode(words).unwrap();
        // The sections live as long as the words, the array that lists them does not.
        let sections: Vec<&[u32]> = signal.sections().to_vec();
        decode(signal.header.gsn, signal.data, &sections, 50).unwrap()
    }

    #[test]
    fn what_the_client_encodes_is_read() {
        let client = Client::new(0x8003_0032);
        let mut out = Vec::new();
        client.get_by_name(&mut out, 5, b"test/def/t", 0).unwrap();
        let what = What::GetByName { name: Some(b"test/def/t"), length: 11, transaction: 0 };
        assert_eq!(read(&out), Request { reference: 0x8003_0032, number: 5, what });
        out.clear();
        client.list(&mut out, 6, 2).unwrap();
        assert_eq!(read(&out).what, What::List { names: true, dependent_on: None, kind: 2 });
        out.clear();
        client.end(&mut out, Transaction { id: 3, key: 4 }, false).unwrap();
        assert_eq!((read(&out).number, read(&out).what), (3, What::End { key: 4, abort: true }));
        out.clear();
        client.create_table(&mut out, 7, Transaction { id: 3, key: 4 }, &[1, 2]).unwrap();
        let transaction = InTransaction { id: 3, key: 4 };
        assert_eq!(read(&out).what, What::CreateTable { transaction, definition: &[1, 2] });
    }

    #[test]
    fn what_stops_a_node_is_refused() {
        let of = |number, data: &[u32]| decode(number, data, &[], 50).is_ok();
        assert!(of(gsn::GET_TABINFOREQ, &[1, 50, 2, 4, 0]));
        assert!(!of(gsn::GET_TABINFOREQ, &[1, 50, 0, 4, 0]), "no bit for long answers");
        assert!(!of(gsn::GET_TABINFOREQ, &[1, 50, 3, 4, 0]), "no name");
        assert!(!of(gsn::GET_TABINFOREQ, &[1, 51, 2, 4, 0]), "another node's reference");
        assert!(!of(gsn::CREATE_TABLE_REQ, &[50, 1, 0, 1, 1]), "no definition");
        assert!(!of(gsn::CREATE_INDX_REQ, &[50, 1, 1, 1, 0, 1, 1, 6, 1]), "no sections");
    }

    proptest! {
        #[test]
        fn any_words_are_read_or_refused(
            number in prop::sample::select(vec![
                gsn::GET_TABINFOREQ, gsn::LIST_TABLES_REQ, gsn::SCHEMA_TRANS_BEGIN_REQ,
                gsn::SCHEMA_TRANS_END_REQ, gsn::CREATE_HASH_MAP_REQ, gsn::CREATE_TABLE_REQ,
                gsn::DROP_TABLE_REQ, gsn::CREATE_INDX_REQ, gsn::DROP_INDX_REQ, 1,
            ]),
            data in prop::collection::vec(prop_oneof![any::<u32>(), 0u32..60], 0..10),
            section in prop::collection::vec(any::<u32>(), 0..5),
        ) {
            let _ = decode(number, &data, &[], 50);
            let _ = decode(number, &data, &[&section], 50);
            let _ = decode(number, &data, &[&section, &section], 50);
        }
    }
}
