//! The recorded messages of tests/vectors for tests, and the tests of the wire layer on them.

use serde_json::Value;

const FILES: [&str; 4] = [
    include_str!("../../tests/vectors/01-management-and-transport.jsonl"),
    include_str!("../../tests/vectors/key-operations.jsonl"),
    include_str!("../../tests/vectors/dictionary.jsonl"),
    include_str!("../../tests/vectors/scans.jsonl"),
];

/// A recorded message and what another decoder made of it.
pub(crate) struct Vector {
    pub name: String,
    /// The message, its signal id and checksum included.
    pub words: Vec<u32>,
    pub decoded: Value,
}

/// Every recorded signal.
pub(crate) fn signals() -> Vec<Vector> {
    let lines = FILES.iter().flat_map(|file| file.lines()).filter(|line| !line.trim().is_empty());
    lines.map(|line| serde_json::from_str(line).unwrap()).filter_map(vector).collect()
}

/// The recorded signals whose names begin with `prefix`; there must be some.
pub(crate) fn named(prefix: &str) -> Vec<Vector> {
    let found: Vec<_> = signals().into_iter().filter(|vector| vector.name.starts_with(prefix)).collect();
    assert!(!found.is_empty(), "no vector {prefix}");
    found
}

fn vector(line: Value) -> Option<Vector> {
    let words = line["words"].as_array()?.iter().map(hex).collect();
    Some(Vector { name: line["name"].as_str()?.into(), words, decoded: line["decoded"].clone() })
}

/// A word written in hexadecimal.
pub(crate) fn hex(value: &Value) -> u32 {
    u32::from_str_radix(value.as_str().unwrap(), 16).unwrap()
}

/// A list of words written in hexadecimal.
pub(crate) fn hex_words(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(hex).collect()
}

/// A list of decimal numbers.
pub(crate) fn numbers(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(number).collect()
}

/// A decimal number.
pub(crate) fn number(value: &Value) -> u32 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number")) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::attribute::Attributes;
    use crate::wire::attribute::packed::{Column, Form, PackedRow, Value as Packed};
    use crate::wire::block::{API_PACKED, DBTC, QMGR};
    use crate::wire::fragment::Assembler;
    use crate::wire::packed::Packets;
    use crate::wire::registration::*;
    use crate::wire::signal::{EncodeError, Fragment, Signal, decode, encode};
    use crate::wire::transaction::*;
    use crate::wire::{gsn, transaction::key_request};

    const SIGNAL_ID: u32 = 1 << 2;
    const CHECKSUM: u32 = 1 << 4;
    const PRIORITY_B: u32 = 1 << 5;
    const FRAGMENT: u32 = 1 << 25 | 1 << 1;
    const TRACE: u32 = 0x3f << 20;

    /// The message as this library would send it: no signal id, no checksum, no trace, priority B, one piece.
    fn bare(words: &[u32]) -> Vec<u32> {
        let mut bare = words.to_vec();
        if bare[0] & CHECKSUM != 0 {
            bare.pop();
        }
        if bare[0] & SIGNAL_ID != 0 {
            bare.remove(3);
        }
        let flags = SIGNAL_ID | CHECKSUM | PRIORITY_B | FRAGMENT | 0xffff << 8;
        bare[0] = bare[0] & !flags | PRIORITY_B | (bare.len() as u32) << 8;
        bare[1] &= !TRACE;
        bare
    }

    /// The data words of each signal: of the packets of a carrier, or of the signal itself.
    fn contained<'a>(signal: &Signal<'a>) -> Vec<(u16, &'a [u32])> {
        match signal.header.receiver {
            API_PACKED => Packets::new(signal.data).collect::<Result<_, _>>().unwrap(),
            receiver => vec![(receiver, signal.data)],
        }
    }

    fn transid(value: &Value) -> TransId {
        numbers(&value["transid"]).try_into().unwrap()
    }

    #[test]
    fn every_header_is_read_and_written() {
        let vectors = signals();
        assert!(vectors.len() > 250, "{}", vectors.len());
        for Vector { name, words, decoded } in &vectors {
            let signal = decode(words).unwrap_or_else(|error| panic!("{name}: {error}"));
            let header = decoded.get("header").unwrap_or(decoded);
            match &header["gsn"] {
                Value::String(text) => assert!(
                    gsn::name(signal.header.gsn) == "unknown signal" || gsn::name(signal.header.gsn) == text,
                    "{name}"
                ),
                gsn => assert_eq!(signal.header.gsn as u32, number(gsn), "{name}"),
            }
            if let Some(block) = header.get("sender_block") {
                assert_eq!(signal.header.sender as u32, number(block), "{name}");
                assert_eq!(signal.header.receiver as u32, number(&header["receiver_block"]), "{name}");
            }
            if let Some(sections) = header.get("sections") {
                let count = sections.as_array().map_or_else(|| number(sections) as usize, Vec::len);
                assert_eq!(signal.sections().len(), count, "{name}");
            }
            if let Some(info) = decoded.get("fragment_info").or(decoded.get("fragInfo")) {
                let expected = [Fragment::Whole, Fragment::First, Fragment::Middle, Fragment::Last];
                assert_eq!(signal.fragment, expected[number(info) as usize], "{name}");
            }
            if decoded.get("message_length_words").is_some() {
                assert_eq!(signal.data, hex_words(&decoded["data"]), "{name}");
                for (section, expected) in
                    signal.sections().iter().zip(decoded["sections"].as_array().unwrap())
                {
                    assert_eq!(*section, hex_words(expected), "{name}");
                }
            }
            let mut again = Vec::new();
            match encode(&mut again, signal.header, signal.data, signal.sections()) {
                Ok(()) => assert_eq!(again, bare(words), "{name}"),
                // A node may send an empty section; a client never does.
                Err(error) => assert_eq!(error, EncodeError::Sections, "{name}"),
            }
        }
    }

    #[test]
    fn no_damage_to_a_message_is_fatal() {
        for Vector { words, .. } in signals() {
            (0..words.len()).for_each(|cut| assert!(decode(&words[..cut]).is_err()));
            for place in 0..words.len().min(40) {
                for bit in 0..32 {
                    let mut damaged = words.clone();
                    damaged[place] ^= 1 << bit;
                    let Ok(signal) = decode(&damaged) else { continue };
                    read_everything(&signal);
                }
            }
        }
    }

    /// Runs every decoder over a signal, whatever its number.
    fn read_everything(signal: &Signal<'_>) {
        let _ = Assembler::new().add(signal);
        let _ = (row_of(signal), NodeFailRep::decode(signal), AlterTableRep::decode(signal));
        for data in Packets::new(signal.data).flatten().map(|(_, data)| data).chain([signal.data]) {
            let _ = KeyConf::decode(data).map(|conf| conf.operations().count());
            let _ = (KeyRef::decode(data), RollbackRep::decode(data), CommitConf::decode(data));
            let _ = (RegConf::decode(data), RegRef::decode(data), NfCompleteRep::decode(data));
            for words in [data, data.get(3..).unwrap_or_default()] {
                let _ = Attributes::new(words).count();
                let _ = PackedRow::new(words, &COLUMNS).map(Iterator::count);
            }
        }
    }

    #[test]
    fn key_confirmations() {
        let mut seen = 0;
        for Vector { name, words, decoded } in named("tckeyconf-") {
            let signal = decode(&words).unwrap();
            let expected = decoded["packed"].as_array().unwrap();
            let packets = contained(&signal);
            assert_eq!(packets.len(), expected.len(), "{name}");
            for ((receiver, data), expected) in packets.into_iter().zip(expected) {
                let conf = KeyConf::decode(data).unwrap();
                let flag = |field: &str| number(&expected[field]) != 0;
                assert_eq!(receiver as u32, number(&expected["block"]), "{name}");
                assert_eq!(conf.client, number(&expected["api_connect"]), "{name}");
                assert_eq!(conf.transid, transid(expected), "{name}");
                assert_eq!(
                    [conf.gci_hi, conf.gci_lo],
                    ["gci_hi", "gci_lo"].map(|f| number(&expected[f])),
                    "{name}"
                );
                assert_eq!(conf.commit, flag("commit"), "{name}");
                assert_eq!(conf.acknowledge, flag("commit") && flag("marker_bit"), "{name}");
                let operations = expected["ops"].as_array().unwrap();
                assert_eq!(conf.operations().len(), operations.len(), "{name}");
                for ((id, info), expected) in conf.operations().zip(operations) {
                    assert_eq!(id, number(&expected["op"]), "{name}");
                    let word = match info {
                        AttrInfo::Words(words) => words,
                        AttrInfo::ReadBy(node) => 1 << 31 | node as u32,
                    };
                    assert_eq!(word, number(&expected["attr_info_len"]), "{name}");
                    seen += 1;
                }
            }
        }
        assert!(seen > 10, "{seen}");
    }

    #[test]
    fn rows() {
        for Vector { name, words, decoded } in named("transid_ai-") {
            let signal = decode(&words).unwrap();
            let carrier = decoded.get("packed").and_then(|packed| packed.as_array());
            let rows: Vec<_> = match carrier {
                Some(_) => {
                    contained(&signal).into_iter().map(|(_, data)| Row::decode(data).unwrap()).collect()
                }
                None => vec![row_of(&signal).unwrap()],
            };
            for (row, expected) in rows.iter().zip(carrier.unwrap_or(&vec![decoded.clone()])) {
                assert_eq!(row.operation, number(&expected["op"]), "{name}");
                assert_eq!(row.transid, transid(expected), "{name}");
                assert_eq!(row.attributes.len() as u32, number(&expected["attr_words"]), "{name}");
            }
        }
    }

    /// The columns of the table that scans.jsonl reads: PK, A, B, C, D.
    const COLUMNS: [Column; 5] = [
        Column { form: Form::Words(4), nullable: false },
        Column { form: Form::Words(4), nullable: true },
        Column { form: Form::Short(21), nullable: true },
        Column { form: Form::Bytes(8), nullable: false },
        Column { form: Form::Words(8), nullable: false },
    ];

    #[test]
    fn packed_rows() {
        let all = ["transid_ai_read_all", "transid_ai_null_A", "transid_ai_long"].map(named);
        let mut seen = 0;
        for Vector { name, words, decoded } in all.iter().flatten() {
            let signal = decode(words).unwrap();
            let (row, expected) = match decoded.get("packed") {
                Some(packed) => (Row::decode(contained(&signal)[0].1), &packed[0]["columns"]),
                None => (row_of(&signal), &decoded["columns"]),
            };
            let row = PackedRow::new(row.unwrap().attributes, &COLUMNS).unwrap();
            for item in row {
                let (number, value) = item.unwrap();
                let expected = &expected[["PK", "A", "B", "C", "D"][number]];
                let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                match value {
                    Packed::Null => assert!(expected.is_null(), "{name} {number}"),
                    Packed::Bytes(bytes) if expected.is_i64() => {
                        let negative = bytes.last().unwrap() >> 7 != 0 && number == 1;
                        let mut wide = [if negative { 0xff } else { 0 }; 8];
                        wide[..bytes.len()].copy_from_slice(bytes);
                        assert_eq!(i64::from_le_bytes(wide), expected.as_i64().unwrap(), "{name} {number}");
                    }
                    Packed::Bytes([length, text @ ..]) if number == 2 => {
                        assert_eq!(
                            (*length as usize, hex(text).as_str()),
                            (text.len(), expected.as_str().unwrap())
                        );
                    }
                    Packed::Bytes(bytes) => {
                        assert_eq!(hex(bytes), expected.as_str().unwrap(), "{name} {number}")
                    }
                    Packed::Bits(_) => panic!("{name} {number}"),
                }
                seen += 1;
            }
        }
        assert!(seen >= 25, "{seen}");
    }

    /// A row of 24 columns was written with a header for each value, and read back packed.
    #[test]
    fn a_packed_row_of_many_types() {
        use Form::*;
        let forms = [
            Words(4),
            Bytes(1),
            Bytes(2),
            Bytes(3),
            Words(4),
            Words(8),
            Words(4),
            Words(8),
            Bytes(5),
            Short(21),
            Bytes(3),
            Short(21),
            Long(302),
            Long(302),
            Bits(1),
            Bits(9),
            Bits(33),
            Bytes(3),
            Bytes(8),
            Bytes(5),
            Bytes(4),
            Bytes(1),
            Bytes(5),
            Bytes(1),
        ];
        let nullable = [1, 3, 5, 6, 8, 11, 12, 14, 16, 18, 21];
        let columns: Vec<_> = forms
            .iter()
            .enumerate()
            .map(|(number, &form)| Column { form, nullable: nullable.contains(&number) })
            .collect();
        let written = named("tckeyreq-044").remove(0).words;
        let written = decode(&written).unwrap();
        let read = named("transid_ai-009").remove(0).words;
        let mut row = PackedRow::new(row_of(&decode(&read).unwrap()).unwrap().attributes, &columns).unwrap();
        for expected in Attributes::new(written.sections()[1]) {
            let (id, expected) = expected.unwrap();
            let (number, value) = row.next().unwrap().unwrap();
            assert_eq!(number, id as usize);
            match value {
                Packed::Bytes(bytes) => assert_eq!(bytes, expected, "{id}"),
                Packed::Bits(bits) => {
                    assert_eq!(
                        bits.words().collect::<Vec<_>>(),
                        bytemuck::cast_slice::<_, u32>(expected),
                        "{id}"
                    );
                }
                Packed::Null => panic!("{id}"),
            }
        }
        assert_eq!((row.next(), row.rest().len()), (None, 0));
    }

    /// Compares the fields of each vector with what `read` makes of its data words.
    fn compare<const N: usize>(prefix: &str, read: fn(&[u32]) -> Option<[u32; N]>, fields: [&str; N]) {
        for Vector { name, words, decoded } in named(prefix) {
            let signal = decode(&words).unwrap();
            let found = read(signal.data).unwrap_or_else(|| panic!("{name}"));
            let expected = fields.map(|field| match field.split_once('.') {
                Some((list, place)) => number(&decoded[list][place.parse::<usize>().unwrap()]),
                None => number(&decoded[field]),
            });
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn other_replies_of_the_coordinator() {
        compare(
            "tcseizeconf-",
            |data| SeizeConf::decode(data).map(|r| [r.client, r.connect, r.reference]),
            ["api_connect", "tc_connect", "tc_ref"],
        );
        compare(
            "tcseizeref-",
            |data| SeizeRef::decode(data).map(|r| [r.client, r.error as u32]),
            ["api_connect", "error"],
        );
        compare("tcreleaseconf-", |data| ReleaseConf::decode(data).map(|r| [r.client]), ["data.0"]);
        compare(
            "tckeyref-",
            |data| {
                KeyRef::decode(data)
                    .map(|r| [r.operation, r.transid[0], r.transid[1], r.error as u32, r.data])
            },
            ["op", "transid.0", "transid.1", "error", "error_data"],
        );
        compare(
            "tcrollbackrep-",
            |data| {
                RollbackRep::decode(data)
                    .map(|r| [r.client, r.transid[0], r.transid[1], r.error as u32, r.data])
            },
            ["api_connect", "transid.0", "transid.1", "error", "error_data"],
        );
        compare(
            "tc_commitconf-",
            |data| {
                let CommitConf { client: (client, ack), transid: [t1, t2], gci_hi, gci_lo } =
                    CommitConf::decode(data)?;
                Some([client, ack as u32, t1, t2, gci_hi, gci_lo])
            },
            ["api_connect", "ack_wanted", "transid.0", "transid.1", "gci_hi", "gci_lo"],
        );
        compare(
            "tc_commitref-",
            |data| CommitRef::decode(data).map(|r| [r.client, r.transid[0], r.transid[1], r.error as u32]),
            ["data.0", "data.1", "data.2", "data.3"],
        );
        compare(
            "tcrollbackconf-",
            |data| RollbackConf::decode(data).map(|r| [r.client, r.transid[0], r.transid[1]]),
            ["data.0", "data.1", "data.2"],
        );
        compare(
            "tckey_failref-",
            |data| FailRef::decode(data).map(|r| [r.operation, r.transid[0], r.transid[1]]),
            ["data.0", "data.1", "data.2"],
        );
    }

    #[test]
    fn short_requests_are_those_of_real_clients() {
        let all = [
            "tcseizereq-001",
            "tcreleasereq-",
            "tc_commitreq-",
            "tcrollbackreq-",
            "tc_hbrep-",
            "tc_commit_ack-",
        ]
        .map(named);
        for Vector { name, words, decoded } in all.iter().flatten() {
            let header = decode(words).unwrap().header;
            let (to, from) = (header.receiver, header.sender);
            let data = numbers(&decoded["data"]);
            let mut out = Vec::new();
            match data[..] {
                [client, own, instance] if header.gsn == gsn::TCSEIZEREQ => {
                    assert_eq!(to, DBTC);
                    seize(&mut out, to, from, client, own, instance);
                }
                [connect, own, client] if header.gsn == gsn::TCRELEASEREQ => {
                    release(&mut out, to, from, connect, own, client);
                }
                [connect, t1, t2] if header.gsn == gsn::TC_COMMITREQ => {
                    commit(&mut out, to, from, connect, [t1, t2])
                }
                [connect, t1, t2] if header.gsn == gsn::TCROLLBACKREQ => {
                    rollback(&mut out, to, from, connect, [t1, t2], false);
                }
                [connect, t1, t2] if header.gsn == gsn::TC_HBREP => {
                    heartbeat(&mut out, to, from, connect, [t1, t2])
                }
                [t1, t2] if header.gsn == gsn::TC_COMMIT_ACK => commit_ack(&mut out, to, from, [t1, t2]),
                _ => panic!("{name}"),
            }
            assert_eq!(out, bare(words), "{name}");
        }
    }

    /// The request information of a recorded request, if this library can express it.
    fn request_info(decoded: &Value) -> Option<RequestInfo> {
        let info = &decoded["request_info"];
        let flags: Vec<_> =
            info["flags"].as_array().unwrap().iter().map(|flag| flag.as_str().unwrap()).collect();
        let has = |flag| flags.contains(&flag);
        let option = match number(&info["abort_option"]) {
            0 => AbortOption::AbortOnError,
            _ => AbortOption::IgnoreError,
        };
        if has("nowait") || has("distr_key") || has("interpreted") {
            return None;
        }
        let info = match info["op"].as_str().unwrap() {
            "read" if has("dirty") => RequestInfo::read(LockMode::Committed),
            "read" if has("simple") => RequestInfo::read(LockMode::Simple),
            "read" => RequestInfo::read(LockMode::Shared(option)),
            "read_ex" => RequestInfo::read(LockMode::Exclusive(option)),
            "insert" => RequestInfo::write(WriteKind::Insert, option),
            "update" => RequestInfo::write(WriteKind::Update, option),
            "delete" => RequestInfo::write(WriteKind::Delete, option),
            "write" => RequestInfo::write(WriteKind::Write, option),
            _ => return None,
        };
        type Setter = fn(RequestInfo) -> RequestInfo;
        let setters: [(bool, Setter); 5] = [
            (has("no_disk"), RequestInfo::no_disk),
            (has("queue_on_redo"), RequestInfo::queue_on_redo),
            (has("start"), RequestInfo::start),
            (has("execute"), RequestInfo::execute),
            (has("commit"), RequestInfo::execute_and_commit),
        ];
        Some(setters.iter().filter(|(wanted, _)| *wanted).fold(info, |info, (_, set)| set(info)))
    }

    #[test]
    fn key_requests_are_those_of_real_clients() {
        let mut compared = 0;
        for Vector { name, words, decoded } in named("tckeyreq-") {
            let Some(info) = request_info(&decoded) else { continue };
            let signal = decode(&words).unwrap();
            let [id, table, version] = ["op", "table", "schema_version"].map(|field| number(&decoded[field]));
            let sections = signal.sections();
            let mut out = Vec::new();
            let operation = key_request::Operation { id, table, version, info };
            key_request::begin(&mut out, signal.header.sender, operation, sections.len() == 2);
            sections.iter().for_each(|section| out.extend_from_slice(section));
            key_request::finish(&mut out, sections[0].len()).unwrap();
            let connect = number(&decoded["api_connect"]);
            key_request::address(&mut out, signal.header.receiver, connect, transid(&decoded), info);
            assert_eq!(out, bare(&words), "{name}");
            compared += 1;
        }
        assert!(compared > 60, "{compared}");
    }

    #[test]
    fn registration() {
        for Vector { name, words, decoded } in named("api_regconf_node") {
            let conf = RegConf::decode(decode(&words).unwrap().data).unwrap();
            let fields = &decoded["fields"];
            assert_eq!(conf.node as u32, hex(&fields["qmgrRef"]) & 0xffff, "{name}");
            assert_eq!(conf.version.to_string(), fields["version"].as_str().unwrap());
            assert_eq!(conf.mysql_version.to_string(), fields["mysql_version"].as_str().unwrap());
            assert_eq!(conf.min_db_version.to_string(), fields["minDbVersion"].as_str().unwrap());
            assert_eq!(conf.min_api_version.unwrap().to_string(), fields["minApiVersion"].as_str().unwrap());
            assert_eq!(Some(conf.heartbeat_ms), fields["heartbeat_ms"].as_u64());
            assert_eq!((conf.start_level, number(&fields["startLevel"])), (StartLevel::Started, 3));
            assert_eq!(conf.node_group, Some(number(&fields["nodeGroup"])));
            assert_eq!(Some(conf.dynamic_id as i64), fields["dynamicId"].as_i64());
            assert_eq!((conf.single_user, conf.single_user_api), (false, None));
            let connected: Vec<_> = conf.connected.iter().map(u32::from).collect();
            assert_eq!(connected, numbers(&fields["connected_nodes"]));
            assert!(conf.usable_for(50));
        }
        let [refused] = &named("api_regref")[..] else { panic!() };
        let refused = RegRef::decode(decode(&refused.words).unwrap().data).unwrap();
        assert_eq!(refused.reason, Refusal::UnsupportedVersion);
        assert_eq!((refused.version, refused.mysql_version), (CLIENT_VERSION, Some(CLIENT_VERSION)));

        let mut out = Vec::new();
        register(&mut out, 50, false, None);
        assert_eq!(out, bare(&named("api_regreq_first")[0].words));
        out.clear();
        register(&mut out, 50, true, None);
        let short = decode(&out).unwrap();
        assert_eq!((short.header.receiver, short.data.len()), (QMGR, 3));
    }

    #[test]
    fn process_information() {
        let words = &named("processinfo_rep")[0].words;
        let data = decode(words).unwrap().data;
        let name: &[u8] = bytemuck::cast_slice(&data[..12]);
        let name = std::str::from_utf8(name).unwrap().trim_end_matches('\0');
        let (node, process, port) = (data[16] as u16, data[17], data[19]);
        let mut out = Vec::new();
        process_info(&mut out, ProcessInfo { name, node, process, port, service: None }).unwrap();
        let expected = bare(words);
        // This library says nothing of its parent process.
        out[3 + 18] = expected[3 + 18];
        assert_eq!(out, expected);
    }

    #[test]
    fn node_and_table_news() {
        let one = |prefix| named(prefix).remove(0);
        let failed = one("node_failrep");
        let rep = NodeFailRep::decode(&decode(&failed.words).unwrap()).unwrap();
        assert_eq!((rep.number, rep.failed.iter().collect::<Vec<_>>()), (2, vec![2]));
        let taken = one("take_overtcconf");
        let conf = TakeOverTcConf::decode(decode(&taken.words).unwrap().data).unwrap();
        assert_eq!(conf, TakeOverTcConf { failed: 2, reporter: 1 });
        let complete = one("nf_completerep");
        let rep = NfCompleteRep::decode(decode(&complete.words).unwrap().data).unwrap();
        assert_eq!(rep, NfCompleteRep { reporter: 1, failed: 2 });
        let altered = one("alter-alter_table_rep");
        let rep = AlterTableRep::decode(&decode(&altered.words).unwrap()).unwrap();
        assert_eq!([rep.table, rep.version, rep.change], [37, 2, 1]);
        assert_eq!(rep.name, b"cdb/def/alt1");
    }

    #[test]
    fn fragments_of_real_nodes() {
        let mut assembler = Assembler::new();
        let mut complete = Vec::new();
        for Vector { words, .. } in named("fragment_send_").into_iter().chain(named("list-list_tables_conf"))
        {
            complete.extend(assembler.add(&decode(&words).unwrap()).unwrap());
        }
        assert_eq!(complete[0].data.len(), 8);
        assert_eq!(complete[0].sections, [(0..130).collect::<Vec<u32>>()]);
        assert_eq!(complete[1].sections[0].len(), 3 * 36, "30 and 6 objects");
        assert_eq!(assembler.pending(), 0);

        // A message of the node in the middle was not recorded: what is there still fits together.
        let parts =
            ["fragment_recv_first", "fragment_recv_middle", "fragment_recv_last"].map(|n| named(n).remove(0));
        let whole =
            parts.iter().find_map(|part| assembler.add(&decode(&part.words).unwrap()).unwrap()).unwrap();
        assert_eq!(whole.data.len(), 8);
        assert_eq!([whole.sections[1].len(), whole.sections[2].len()], [50, 20]);
        assert_eq!(whole.sections[2], (7450..7470).collect::<Vec<u32>>());
    }

    #[test]
    fn carriers_hold_what_was_recorded() {
        let mut seen = 0;
        for Vector { name, words, decoded } in signals() {
            let Some(expected) = decoded["packed"].as_array() else { continue };
            let signal = decode(&words).unwrap();
            assert_eq!(signal.header.receiver, API_PACKED, "{name}");
            assert_eq!(contained(&signal).len(), expected.len(), "{name}");
            seen += 1;
        }
        assert!(seen > 20, "{seen}");
    }
}
