//! The dictionary client against a peer that follows a script.

use super::*;
use crate::dict::table::tests::{key_column, section};
use crate::wire::column::ColumnType;
use crate::wire::properties::Writer;
use crate::wire::signal::{self, Header};
use std::collections::VecDeque;

/// A request as the peer sees it.
struct Request {
    node: NodeId,
    gsn: u16,
    data: Vec<u32>,
    sections: Vec<Vec<u32>>,
}

type Step = Box<dyn FnOnce(&Request) -> Vec<Received>>;

/// Answers the nth request with the nth step; nothing left to receive means the deadline is over.
struct Script {
    nodes: Vec<NodeId>,
    steps: VecDeque<Step>,
    inbox: VecDeque<Received>,
    sent: Vec<(NodeId, u16)>,
    pauses: Vec<Duration>,
    unreachable: Vec<NodeId>,
    stopping: bool,
}

impl Script {
    fn new(steps: Vec<Step>) -> Script {
        Script {
            nodes: vec![1, 2],
            steps: steps.into(),
            inbox: VecDeque::new(),
            sent: Vec::new(),
            pauses: Vec::new(),
            unreachable: Vec::new(),
            stopping: false,
        }
    }

    fn sent_numbers(&self) -> Vec<u16> {
        self.sent.iter().map(|&(_, gsn)| gsn).collect()
    }

    fn done(&self) {
        assert!(self.steps.is_empty(), "{} steps were not asked for", self.steps.len());
    }
}

impl Exchange for Script {
    fn reference(&self) -> u32 {
        0x8005_0032
    }

    fn nodes(&self) -> Vec<NodeId> {
        self.nodes.clone()
    }

    fn send(&mut self, node: NodeId, words: &[u32]) -> Result<(), i32> {
        if self.unreachable.contains(&node) {
            return Err(-1);
        }
        let signal = signal::decode(words).unwrap();
        assert_eq!((signal.header.sender, signal.header.receiver), (0x8005, 250));
        let request = Request {
            node,
            gsn: signal.header.gsn,
            data: signal.data.to_vec(),
            sections: signal.sections().iter().map(|s| s.to_vec()).collect(),
        };
        self.sent.push((node, request.gsn));
        let step = self.steps.pop_front().unwrap_or_else(|| panic!("no step for {}", gsn::name(request.gsn)));
        self.inbox.extend(step(&request));
        Ok(())
    }

    fn receive(&mut self, _: Instant) -> Received {
        let received = self.inbox.pop_front().unwrap_or(Received::TimedOut);
        if let Received::NodeLost(node) = received {
            self.nodes.retain(|&n| n != node);
        }
        received
    }

    fn pause(&mut self, duration: Duration) -> bool {
        self.pauses.push(duration);
        !self.stopping
    }
}

fn signal(node: NodeId, gsn: u16, data: &[u32], sections: &[Vec<u32>]) -> Received {
    let header = Header { gsn, receiver: 0x8005, sender: 250 };
    Received::Signal(node, OwnedSignal { header, data: data.to_vec(), sections: sections.to_vec() })
}

fn step(answer: impl FnOnce(&Request) -> Vec<Received> + 'static) -> Step {
    Box::new(answer)
}

/// GET_TABINFO_CONF with that definition.
fn definition(id: u32, kind: u32, words: Vec<u32>) -> Step {
    step(move |r| {
        assert_eq!(r.gsn, gsn::GET_TABINFOREQ);
        let data = [r.data[0], id, 0, words.len() as u32, kind, 77];
        vec![signal(r.node, gsn::GET_TABINFO_CONF, &data, &[words])]
    })
}

fn types_table() -> Step {
    definition(25, kind::USER_TABLE, section("types-get_tabinfo_conf-57"))
}

fn map() -> Step {
    definition(1, kind::HASH_MAP, section("types-get_tabinfo_conf-58"))
}

fn get_refused(code: u32) -> Step {
    step(move |r| {
        let data = [r.data[0], 0x00fa_0001, r.data[2], r.data[3], 0, code, 1];
        vec![signal(r.node, gsn::GET_TABINFOREF, &data, &[])]
    })
}

fn begin_refused(code: u32, master: u32) -> Step {
    step(move |r| {
        assert_eq!(r.gsn, gsn::SCHEMA_TRANS_BEGIN_REQ);
        vec![signal(r.node, gsn::SCHEMA_TRANS_BEGIN_REF, &[0, r.data[1], code, 1, 1, master], &[])]
    })
}

fn begun() -> Step {
    step(|r| {
        assert_eq!(r.gsn, gsn::SCHEMA_TRANS_BEGIN_REQ);
        vec![signal(r.node, gsn::SCHEMA_TRANS_BEGIN_CONF, &[0, r.data[1], 5], &[])]
    })
}

fn hash_map_made() -> Step {
    step(|r| {
        assert_eq!((r.gsn, r.data[2]), (gsn::CREATE_HASH_MAP_REQ, 5));
        vec![signal(r.node, gsn::CREATE_HASH_MAP_CONF, &[0, r.data[1], 1, 1, r.data[3]], &[])]
    })
}

fn table_made() -> Step {
    step(|r| {
        assert_eq!((r.gsn, r.data[4]), (gsn::CREATE_TABLE_REQ, 5));
        assert!(!r.sections[0].is_empty());
        vec![signal(r.node, gsn::CREATE_TABLE_CONF, &[0, r.data[1], r.data[3], 25, 9], &[])]
    })
}

fn create_refused(code: u32) -> Step {
    step(move |r| {
        assert_eq!(r.gsn, gsn::CREATE_TABLE_REQ);
        vec![signal(r.node, gsn::CREATE_TABLE_REF, &[0, r.data[1], r.data[3], code, 1, 1, 1, 0, 1000], &[])]
    })
}

/// SCHEMA_TRANS_END_CONF; `flags` is what the request must say.
fn ended(flags: u32) -> Step {
    step(move |r| {
        assert_eq!((r.gsn, r.data[3], r.data[4]), (gsn::SCHEMA_TRANS_END_REQ, 5, flags));
        vec![signal(r.node, gsn::SCHEMA_TRANS_END_CONF, &[0, r.data[1]], &[])]
    })
}

fn listed(objects: Vec<(u32, u32, &'static str)>) -> Step {
    step(move |r| {
        assert_eq!(r.gsn, gsn::LIST_TABLES_REQ);
        let mut sections = vec![Vec::new(), Vec::new()];
        for (id, kind, name) in &objects {
            sections[0].extend([0x0420_0000, *id, *kind]);
            let bytes = [name.as_bytes(), &[0]].concat();
            sections[1].push(bytes.len() as u32);
            sections[1].extend(crate::dict::vectors::words_of(&bytes));
        }
        if objects.is_empty() {
            sections.clear();
        }
        vec![signal(r.node, gsn::LIST_TABLES_CONF, &[r.data[0], objects.len() as u32], &sections)]
    })
}

fn table_dropped(id: u32, version: u32) -> Step {
    step(move |r| {
        assert_eq!((r.gsn, r.data[5], r.data[6]), (gsn::DROP_TABLE_REQ, id, version));
        vec![signal(r.node, gsn::DROP_TABLE_CONF, &[0, r.data[1], r.data[3], id, version], &[])]
    })
}

fn drop_refused(code: u32) -> Step {
    step(move |r| {
        let data = [0, r.data[1], r.data[3], r.data[5], r.data[6], code, 1, 1, 1];
        vec![signal(r.node, gsn::DROP_TABLE_REF, &data, &[])]
    })
}

fn get(dictionary: &Dictionary, script: &mut Script) -> Result<Arc<Table>, Error> {
    dictionary.get_table(script, "cdb", "vec_types")
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> i32 {
    result.unwrap_err().code
}

#[test]
fn a_table_is_fetched_once() {
    let dictionary = Dictionary::new();
    let by_name = step(|r| {
        let name: &[u8] = bytemuck::cast_slice(&r.sections[0]);
        assert_eq!((r.data[2], r.data[3], &name[..18]), (3, 18, &b"cdb/def/vec_types\0"[..]));
        types_table()(r)
    });
    let by_id = step(|r| {
        assert_eq!((r.data[2], r.data[3]), (2, 1));
        map()(r)
    });
    let mut script = Script::new(vec![by_name, by_id]);
    let table = get(&dictionary, &mut script).unwrap();
    assert_eq!(table.hash_map.as_ref().unwrap().buckets.len(), 3840);
    assert!(Arc::ptr_eq(&table, &get(&dictionary, &mut script).unwrap()));
    script.done();
}

#[test]
fn forgotten_tables_are_fetched_again_and_maps_are_not() {
    let dictionary = Dictionary::new();
    let mut script =
        Script::new(vec![types_table(), map(), types_table(), types_table(), types_table(), map()]);
    let table = get(&dictionary, &mut script).unwrap();
    dictionary.invalidate("cdb", "vec_types");
    let second = get(&dictionary, &mut script).unwrap();
    assert_eq!(table, second);
    assert!(!Arc::ptr_eq(&table, &second));
    dictionary.invalidate_id(table.id, table.version);
    get(&dictionary, &mut script).unwrap();
    dictionary.invalidate("cdb", "another");
    dictionary.invalidate_id(table.id, table.version + 1);
    get(&dictionary, &mut script).unwrap();
    dictionary.invalidate_all();
    get(&dictionary, &mut script).unwrap();
    script.done();
}

#[test]
fn news_of_an_alteration() {
    let dictionary = Dictionary::new();
    let mut script = Script::new(vec![types_table(), map(), types_table()]);
    let table = get(&dictionary, &mut script).unwrap();
    let news = |version| Altered { id: table.id, version, name: b"cdb/def/vec_types".to_vec() };
    dictionary.altered(&news(table.version + 1));
    assert!(Arc::ptr_eq(&table, &get(&dictionary, &mut script).unwrap()));
    dictionary.altered(&news(table.version));
    assert!(!Arc::ptr_eq(&table, &get(&dictionary, &mut script).unwrap()));
    script.done();
}

#[test]
fn a_table_altered_while_it_is_fetched_is_not_kept() {
    let dictionary = Arc::new(Dictionary::new());
    let meanwhile = dictionary.clone();
    let racing = step(move |r| {
        meanwhile.invalidate("cdb", "vec_types");
        types_table()(r)
    });
    let mut script = Script::new(vec![racing, map(), types_table()]);
    get(&dictionary, &mut script).unwrap();
    get(&dictionary, &mut script).unwrap();
    get(&dictionary, &mut script).unwrap();
    script.done();
}

#[test]
fn a_missing_table_is_named_in_full() {
    let mut script = Script::new(vec![get_refused(723)]);
    let error = get(&Dictionary::new(), &mut script).unwrap_err();
    assert_eq!(error, Error::new(723, "no such table: cdb/def/vec_types"));
    assert!(script.pauses.is_empty());
}

#[test]
fn names_are_checked_before_anything_is_sent() {
    let mut script = Script::new(vec![]);
    let dictionary = Dictionary::new();
    let long = "a".repeat(120);
    for (db, name) in [("", "t"), ("d", ""), ("d\0", "t"), ("d", "t\0"), ("dddd", &long[..])] {
        assert_eq!(code(dictionary.get_table(&mut script, db, name)), own::INVALID_NAME);
        assert_eq!(code(dictionary.drop_table(&mut script, db, name)), own::INVALID_NAME);
    }
    assert!(script.sent.is_empty());
}

#[test]
fn a_busy_dictionary_is_asked_again_after_pauses_that_grow() {
    let mut script = Script::new(vec![get_refused(701), get_refused(701), types_table(), map()]);
    get(&Dictionary::new(), &mut script).unwrap();
    assert_eq!(script.pauses.len(), 2);
    let mut script = Script::new((0..100).map(|_| get_refused(701)).collect());
    assert_eq!(code(get(&Dictionary::new(), &mut script)), 701);
    script.done();
    let ms: Vec<u128> = script.pauses.iter().map(Duration::as_millis).collect();
    assert!(ms[..50].iter().all(|p| (50..=90).contains(p)) && ms[75..].iter().all(|p| *p >= 100));
    assert!(ms.iter().any(|p| *p != ms[0]), "pauses differ");
}

#[test]
fn the_next_node_is_asked_when_one_fails() {
    let mut script = Script::new(vec![
        step(|r| vec![Received::NodeLost(9), Received::NodeLost(r.node)]),
        types_table(),
        map(),
    ]);
    get(&Dictionary::new(), &mut script).unwrap();
    assert_eq!(script.sent.iter().map(|s| s.0).collect::<Vec<_>>(), [1, 2, 2]);
    let mut script = Script::new(vec![types_table(), map()]);
    script.unreachable = vec![1];
    get(&Dictionary::new(), &mut script).unwrap();
    assert_eq!(script.sent.iter().map(|s| s.0).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn no_node_no_answer_no_connection() {
    let mut script = Script::new(vec![]);
    script.nodes.clear();
    assert_eq!(code(get(&Dictionary::new(), &mut script)), ndb::CLUSTER_FAILURE);
    assert_eq!(code(Dictionary::new().list(&mut script, None)), ndb::CLUSTER_FAILURE);
    assert_eq!(code(Dictionary::new().drop_table(&mut script, "d", "t")), ndb::CLUSTER_FAILURE);
    let mut script = Script::new(vec![step(|_| vec![])]);
    assert_eq!(code(get(&Dictionary::new(), &mut script)), ndb::NO_ANSWER);
    let mut script = Script::new(vec![step(|_| vec![Received::Stopped])]);
    assert_eq!(code(get(&Dictionary::new(), &mut script)), own::NOT_CONNECTED);
    let mut script = Script::new(vec![get_refused(701)]);
    script.stopping = true;
    assert_eq!(code(get(&Dictionary::new(), &mut script)), own::NOT_CONNECTED);
}

#[test]
fn late_and_foreign_answers_are_dropped() {
    let late = step(|r| {
        let mut old = Request { data: r.data.clone(), sections: Vec::new(), ..*r };
        old.data[0] = r.data[0].wrapping_sub(1);
        let foreign = signal(r.node, gsn::TCKEYCONF, &[1, 2, 3], &[]);
        [get_refused(709)(&old), vec![foreign], begin_refused_for(r.data[0]), types_table()(r)].concat()
    });
    let mut script = Script::new(vec![late, map()]);
    get(&Dictionary::new(), &mut script).unwrap();
    script.done();
}

fn begin_refused_for(number: u32) -> Vec<Received> {
    vec![signal(1, gsn::SCHEMA_TRANS_BEGIN_REF, &[0, number, 702, 1, 1, 2], &[])]
}

#[test]
fn answers_that_do_not_follow_the_protocol() {
    let short = step(|r| vec![signal(r.node, gsn::GET_TABINFO_CONF, &[r.data[0], 25], &[])]);
    let another_id = definition(26, kind::USER_TABLE, section("types-get_tabinfo_conf-57"));
    let another_name = definition(38, kind::USER_TABLE, section("fullyrep-get_tabinfo_conf-69"));
    let a_list =
        step(|r| vec![signal(r.node, gsn::GET_TABINFO_CONF, &[r.data[0], 25, 0, 1, 2, 0], &[vec![1]])]);
    for step in [short, another_id, another_name, a_list] {
        let mut script = Script::new(vec![step]);
        assert_eq!(code(get(&Dictionary::new(), &mut script)), own::MALFORMED_REPLY);
    }
    let mut script = Script::new(vec![types_table(), types_table()]);
    assert_eq!(code(get(&Dictionary::new(), &mut script)), own::MALFORMED_REPLY, "a table is no hash map");
}

#[test]
fn lists_are_filtered_and_sorted() {
    let all = || {
        listed(vec![
            (7, 2, "b/def/t2"),
            (8, 2, "a/def/t1"),
            (9, 2, "b/def/NDB$BLOB_7_1"),
            (10, 2, "b/def/t1"),
            (11, 2, "nonsense"),
            (12, 6, "sys/def/7/x"),
        ])
    };
    let dictionary = Dictionary::new();
    let mut script = Script::new(vec![all(), all(), listed(vec![])]);
    let name = |database: &str, name: &str| TableName { database: database.into(), name: name.into() };
    let expected = [name("a", "t1"), name("b", "t1"), name("b", "t2")];
    assert_eq!(dictionary.list(&mut script, None).unwrap(), expected);
    assert_eq!(dictionary.list(&mut script, Some("b")).unwrap(), expected[1..]);
    assert_eq!(dictionary.list(&mut script, None).unwrap(), []);
    script.done();
}

fn new_table() -> NewTable {
    NewTable::new("cdb", "vec_types", vec![key_column("k", ColumnType::Unsigned)])
}

const CREATE: [u16; 4] =
    [gsn::SCHEMA_TRANS_BEGIN_REQ, gsn::CREATE_HASH_MAP_REQ, gsn::CREATE_TABLE_REQ, gsn::SCHEMA_TRANS_END_REQ];

#[test]
fn creating_follows_the_master() {
    let dictionary = Dictionary::new();
    let steps = vec![
        begin_refused(702, 2),
        begin_refused(701, 2),
        begin_refused(711, 2),
        begun(),
        hash_map_made(),
        table_made(),
        ended(0),
        types_table(),
        map(),
    ];
    let mut script = Script::new(steps);
    let table = dictionary.create_table(&mut script, &new_table()).unwrap();
    assert_eq!(table.id.number(), 25);
    assert_eq!(script.pauses.len(), 2, "a redirect is followed at once");
    assert_eq!(script.sent_numbers()[3..7], CREATE);
    assert!(script.sent[1..7].iter().all(|&(node, _)| node == 2));
    script.done();
    // The master is remembered, and the cache holds what was created.
    assert!(Arc::ptr_eq(&table, &get(&dictionary, &mut script).unwrap()));
    script.steps.push_back(begin_refused(763, 2));
    assert_eq!(code(dictionary.create_table(&mut script, &new_table())), 763);
    assert_eq!(script.sent.last().unwrap().0, 2);
}

#[test]
fn a_refused_create_is_undone() {
    let mut script = Script::new(vec![begun(), hash_map_made(), create_refused(738), ended(1)]);
    let error = Dictionary::new().create_table(&mut script, &new_table()).unwrap_err();
    assert_eq!(error.code, 738);
    assert!(error.text.contains("cdb/def/vec_types") && error.text.contains("1000"), "{}", error.text);
    script.done();
}

#[test]
fn a_busy_operation_is_sent_again() {
    let steps =
        vec![begun(), hash_map_made(), create_refused(701), table_made(), ended(0), types_table(), map()];
    let mut script = Script::new(steps);
    Dictionary::new().create_table(&mut script, &new_table()).unwrap();
    assert_eq!(script.pauses.len(), 1);
    script.done();
}

#[test]
fn an_inconsistent_table_is_not_sent() {
    let mut script = Script::new(vec![]);
    let new = NewTable::new("cdb", "t", vec![]);
    assert_eq!(code(Dictionary::new().create_table(&mut script, &new)), own::INVALID_TABLE);
}

/// SCHEMA_TRANS_END_REP for the transaction of a request.
fn report(r: &Request, code: u32) -> Received {
    let transaction = match r.gsn {
        gsn::CREATE_TABLE_REQ => r.data[3],
        _ => r.data[1],
    };
    signal(2, gsn::SCHEMA_TRANS_END_REP, &[0, transaction, code, 1, 2, 2], &[])
}

#[test]
fn a_master_that_fails_inside_a_transaction() {
    let reported = step(|r| vec![report(r, 787)]);
    let mut script = Script::new(vec![begun(), hash_map_made(), reported]);
    assert_eq!(code(Dictionary::new().create_table(&mut script, &new_table())), 787);
    assert_eq!(script.sent_numbers(), CREATE[..3], "nothing is left to end");
    let lost = step(|r| vec![Received::NodeLost(r.node)]);
    let mut script = Script::new(vec![begun(), hash_map_made(), lost]);
    assert_eq!(code(Dictionary::new().create_table(&mut script, &new_table())), ndb::WAIT_NODE_FAILURE);
    assert_eq!(script.sent_numbers(), CREATE[..3]);
}

#[test]
fn a_master_that_fails_before_a_transaction() {
    let lost = step(|r| vec![Received::NodeLost(r.node)]);
    let steps = vec![lost, begun(), hash_map_made(), table_made(), ended(0), types_table(), map()];
    let mut script = Script::new(steps);
    Dictionary::new().create_table(&mut script, &new_table()).unwrap();
    assert_eq!((script.sent[0].0, script.sent[1].0), (1, 2));
    script.done();
}

#[test]
fn a_master_that_fails_at_the_end() {
    let create = |end: Step, rest: Vec<Step>| {
        let mut steps = vec![begun(), hash_map_made(), table_made(), end];
        steps.extend(rest);
        let mut script = Script::new(steps);
        let outcome = Dictionary::new().create_table(&mut script, &new_table());
        script.done();
        outcome
    };
    let committed = step(|r| vec![Received::NodeLost(r.node), report(r, 0)]);
    assert!(create(committed, vec![types_table(), map()]).is_ok());
    let undone = step(|r| vec![Received::NodeLost(r.node), report(r, 787)]);
    assert_eq!(code(create(undone, vec![])), 787);
    let silent = step(|r| vec![Received::NodeLost(r.node)]);
    assert_eq!(code(create(silent, vec![])), ndb::UNKNOWN_RESULT);
    let refused =
        step(|r| vec![signal(r.node, gsn::SCHEMA_TRANS_END_REF, &[0, r.data[1], 850, 1, 1, 1], &[])]);
    assert_eq!(code(create(refused, vec![])), 850);
}

fn drop_types(script: &mut Script) -> Result<(), Error> {
    Dictionary::new().drop_table(script, "cdb", "vec_types")
}

#[test]
fn dropping_takes_indexes_first() {
    let index_dropped = step(|r| {
        assert_eq!((r.gsn, r.data[3], r.data[5], r.data[6]), (gsn::DROP_INDX_REQ, 5, 26, 5));
        vec![signal(r.node, gsn::DROP_INDX_CONF, &[0, r.data[1], r.data[2], 26, 5], &[])]
    });
    let dependents = listed(vec![(3, 18, "NDB$INDEX_26_CUSTOM"), (26, 3, "sys/def/25/ux")]);
    let index = definition(26, 3, section("idx-get_tabinfo_conf-62"));
    let steps =
        vec![begun(), types_table(), dependents, index, index_dropped, table_dropped(25, 9), ended(0)];
    let mut script = Script::new(steps);
    drop_types(&mut script).unwrap();
    script.done();
}

#[test]
fn dropping_takes_blob_parts() {
    let with_blob = || {
        let mut writer = Writer::new();
        writer.string(1, b"cdb/def/vec_types").u32(2, 25).u32(3, 9).u32(6, 2).u32(18, 2);
        writer.string(1000, b"k").u32(1001, 0).u32(1006, 1).u32(1016, 1).u32(1999, 1);
        writer
            .string(1000, b"b")
            .u32(1001, 1)
            .u32(1013, 20)
            .u32(1014, 256)
            .u32(1015, 8000)
            .u32(1019, 2)
            .u32(1999, 1);
        definition(25, 2, writer.finish())
    };
    let parts = step(|r| {
        let name: &[u8] = bytemuck::cast_slice(&r.sections[0]);
        assert!(name.starts_with(b"cdb/def/NDB$BLOB_25_1\0"));
        definition(38, 2, section("fullyrep-get_tabinfo_conf-69"))(r)
    });
    let steps = vec![
        begun(),
        with_blob(),
        listed(vec![]),
        parts,
        table_dropped(38, 1),
        table_dropped(25, 9),
        ended(0),
    ];
    let mut script = Script::new(steps);
    drop_types(&mut script).unwrap();
    script.done();
}

#[test]
fn a_foreign_key_stops_a_drop() {
    let dependents = listed(vec![(30, 25, "12/25/fk1")]);
    let mut script = Script::new(vec![begun(), types_table(), dependents, ended(1)]);
    let error = drop_types(&mut script).unwrap_err();
    assert_eq!(error.code, own::STILL_IN_USE);
    assert!(error.text.contains("fk1"), "{}", error.text);
    script.done();
}

#[test]
fn a_drop_of_a_changed_table_is_tried_once_more() {
    let attempt = |last: Step, end: Step| vec![begun(), types_table(), listed(vec![]), last, end];
    let mut steps = attempt(drop_refused(241), ended(1));
    steps.extend(attempt(table_dropped(25, 9), ended(0)));
    let mut script = Script::new(steps);
    drop_types(&mut script).unwrap();
    script.done();
    let mut steps = attempt(drop_refused(241), ended(1));
    steps.extend(attempt(drop_refused(241), ended(1)));
    let mut script = Script::new(steps);
    assert_eq!(code(drop_types(&mut script)), 241);
    script.done();
}

#[test]
fn a_drop_waits_for_a_table_that_is_in_use() {
    let steps =
        vec![begun(), types_table(), listed(vec![]), drop_refused(1229), table_dropped(25, 9), ended(0)];
    let mut script = Script::new(steps);
    drop_types(&mut script).unwrap();
    assert_eq!(script.pauses.len(), 1);
    script.done();
}

#[test]
fn dropping_forgets() {
    let dictionary = Dictionary::new();
    let steps = vec![
        types_table(),
        map(),
        begun(),
        types_table(),
        listed(vec![]),
        table_dropped(25, 9),
        ended(0),
        get_refused(723),
    ];
    let mut script = Script::new(steps);
    get(&dictionary, &mut script).unwrap();
    dictionary.drop_table(&mut script, "cdb", "vec_types").unwrap();
    assert_eq!(code(get(&dictionary, &mut script)), 723);
    let mut script = Script::new(vec![begun(), get_refused(723), ended(1)]);
    let error = drop_types(&mut script).unwrap_err();
    assert_eq!(error.text, "no such table: cdb/def/vec_types");
}
