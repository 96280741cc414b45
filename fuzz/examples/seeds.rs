//! Writes the seeds of the fuzz targets, `corpus/<target>/<name>.seed`, from the messages recorded in
//! `tests/vectors`. Run in the folder `fuzz`: `cargo run --example seeds`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use iclaustron::dict::record::{Columns, Record};
use iclaustron::wire::signal;
use iclaustron_fuzz::script::{Steps, conversation};
use iclaustron_fuzz::{table_of_all_types, words};
use serde_json::Value;

const MOST: usize = 20;

/// One recorded message.
struct Vector {
    name: String,
    bytes: Vec<u8>,
    /// In which recording it is.
    what: String,
    from_client: bool,
}

fn hex_word(word: &Value) -> [u8; 4] {
    u32::from_str_radix(word.as_str().unwrap(), 16).unwrap().to_le_bytes()
}

fn vector(line: &str) -> Option<Vector> {
    let line: Value = serde_json::from_str(line).unwrap();
    let bytes = match (&line["words"], &line["bytes"]) {
        (Value::Array(words), _) => words.iter().flat_map(hex_word).collect(),
        (_, Value::String(hex)) => {
            (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
        }
        _ => return None,
    };
    let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let from_client = line["direction"] == "api->node";
    Some(Vector { name: text("name"), bytes, what: text("what"), from_client })
}

fn vectors() -> Vec<Vector> {
    let mut files: Vec<_> =
        fs::read_dir("../tests/vectors").unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    texts.flat_map(|text| text.lines().filter_map(vector).collect::<Vec<_>>()).collect()
}

/// The name without what tells apart recordings of one kind.
fn kind(name: &str) -> &str {
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
    name.split_once('-').map_or(name, |(session, kind)| if kind.is_empty() { session } else { kind })
}

fn write(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new("corpus").join(target);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name).with_extension("seed"), bytes).unwrap();
}

/// The attributes of a row of a table of all types: zeros and empty values, NULL where that can be.
fn all_types() -> Vec<u8> {
    let record = Record::natural(&table_of_all_types());
    let mut row = vec![0; record.row_size()];
    for (byte, bit) in record.fields().iter().filter_map(|field| field.null).step_by(2) {
        row[byte as usize] |= 1 << bit;
    }
    let mut attributes = Vec::new();
    record.encode_key_values(&row, &mut attributes).unwrap();
    record.encode_values(&row, &mut attributes, Columns::All).unwrap();
    attributes.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Conversations of a whole client: those recorded, one for each kind of reply, and what nodes make of healthy ones.
fn clients(vectors: &[Vector]) {
    let messages: Vec<_> = vectors.iter().map(|vector| words(&vector.bytes)).collect();
    let all = || vectors.iter().zip(&messages);
    let of_transactions = |vector: &Vector| vector.name.starts_with("tc") || vector.name.starts_with("trans");
    let recordings: BTreeSet<_> =
        vectors.iter().filter(|v| of_transactions(v) && v.name.contains("key")).map(|v| &v.what).collect();
    for (number, recording) in recordings.into_iter().enumerate().take(MOST / 2) {
        let part = all().filter(|(vector, _)| vector.what == *recording && of_transactions(vector)).take(40);
        let script = conversation(part.map(|(vector, words)| (vector.from_client, &words[..])));
        write("client", &format!("recording_{number}"), &script);
    }
    let news = ["node_failrep", "take_overtcconf", "nf_completerep", "tckey_fail", "packed_"];
    let is_reply = |vector: &Vector| {
        !vector.from_client
            && (of_transactions(vector) || news.iter().any(|news| vector.name.starts_with(news)))
    };
    let mut kinds = BTreeSet::new();
    for (vector, words) in all().filter(|(vector, _)| is_reply(vector)) {
        if kinds.insert(kind(&vector.name)) {
            let mut steps = Steps::default();
            steps.start().define(7).define(0).define(2).commit().send(64).poll();
            steps.send(64).recorded(0, words).poll().lose(0).recorded(1, words).poll();
            write("client", &vector.name, &steps.finish());
        }
    }
    for way in [0, 1, 2, 4, 8, 10, 16, 32, 64, 128, 194] {
        let mut steps = Steps::default();
        for what in [0, 2, 7] {
            steps.start().define(what).define(7).commit();
        }
        steps.multi_read(0xc0).send(0).poll().send(way).poll().lose(0).poll().open(0);
        steps.start().define(5).send(way).poll().define(128).commit().send(way).poll();
        write("client", &format!("way_{way}"), &steps.finish());
    }
}

fn main() {
    let vectors = vectors();
    clients(&vectors);
    // One recording of each kind whose name has one of these words in it.
    let each = |target: &str, wanted: &[&str], change: &dyn Fn(&[u8]) -> Vec<u8>| {
        let mut kinds = BTreeSet::new();
        let wanted = vectors.iter().filter(|vector| wanted.iter().any(|word| vector.name.contains(word)));
        for vector in wanted.filter(|vector| kinds.insert(kind(&vector.name))).take(MOST) {
            write(target, &vector.name, &change(&vector.bytes));
        }
    };
    // Several recordings as one stream.
    let stream = |target: &str, wanted: &str| {
        let parts = vectors.iter().filter(|vector| vector.name.starts_with(wanted));
        write(target, wanted, &parts.flat_map(|vector| vector.bytes.clone()).collect::<Vec<_>>());
    };
    let as_it_is = |bytes: &[u8]| bytes.to_vec();

    each(
        "signal",
        &["checksum", "three_sections", "packed_", "tckeyreq_2", "api_reg", "transid_ai_long"],
        &as_it_is,
    );
    stream("signal", "tcseize");
    each(
        "trace",
        &["tckey", "api_reg", "get_tabinfo", "node_fail", "create_table", "packed_", "trans"],
        &as_it_is,
    );
    for parts in ["fragment_send", "fragment_recv", "bigdef", "three_sections"] {
        stream("fragments", parts);
    }
    let replies = ["conf-", "ref-", "rep-", "packed_", "transid_ai_long"];
    let of_transactions: Vec<_> = ["tcseize", "tcrelease", "tckey", "tc_commit", "tcrollback", "tckey_fail"]
        .iter()
        .flat_map(|request| replies.iter().take(3).map(move |reply| format!("{request}{reply}")))
        .chain(["packed_".into(), "transid_ai-001".into(), "transid_ai_long".into(), "tckey_fail".into()])
        .collect();
    each("replies", &of_transactions.iter().map(|name| &name[..]).collect::<Vec<_>>(), &as_it_is);
    let news =
        ["api_regconf", "api_regref", "node_failrep", "take_overtcconf", "nf_completerep", "alter_table_rep"];
    each("registration", &news, &as_it_is);
    let answers = [
        "get_tabinfo_conf-9",
        "get_tabinfo_conf-22",
        "get_tabinfo_conf-32",
        "list_tables_conf-30",
        "schema_trans_begin_conf-1",
        "schema_trans_end_conf",
        "schema-trans-end-rep",
        "create_hash_map_conf",
        "create_table_conf-5",
        "drop_indx_conf",
        "drop_table_conf",
        "_ref-",
        "get_tabinforef",
    ];
    each("dictionary", &answers, &as_it_is);
    let definition = vectors.iter().find(|vector| vector.name == "types-get_tabinfo_conf-57").unwrap();
    let definition = words(&definition.bytes);
    let definition = signal::decode(&definition).unwrap().sections()[0];
    let definition: Vec<u8> = definition.iter().flat_map(|word| word.to_le_bytes()).collect();
    write("dictionary", "definition", &definition);
    // The attributes alone: a row's message without its header and first three data words.
    each("row", &["transid_ai"], &|bytes| {
        let words = words(bytes);
        let signal = signal::decode(&words).unwrap();
        let attributes =
            signal.sections().first().copied().unwrap_or(signal.data.get(3..).unwrap_or_default());
        attributes.iter().flat_map(|word| word.to_le_bytes()).collect()
    });
    write("row", "all_types", &all_types());
    each("configuration", &["config_v2"], &as_it_is);
    each("management", &["_reply"], &as_it_is);
    for (name, text) in [
        ("connectstring", "nodeid=5,bind-address=10.0.0.1:7,host=a:1186,[::1]:0x4a2;mgmd=b 1186"),
        ("connectstring_bound", "OwnProcessId 5;host://a:1,bind-address=b,c,bind-address=[::1]:4,#d,file=e"),
    ] {
        write("management", name, text.as_bytes());
    }
    let requests = [
        "api_regreq",
        "tcseizereq-0",
        "tcreleasereq",
        "tckeyreq-0",
        "tckeyreq_",
        "tc_commitreq",
        "tcrollbackreq",
        "tc_hbrep",
        "tc_commit_ack-",
        "schema_trans_begin_req",
        "create_hash_map_req",
        "create_table_req-4",
        "get_tabinforeq-6",
        "schema_trans_end_req",
        "list_tables_req",
        "drop_indx_req",
        "drop_table_req",
        "create_indx_req",
        "alter_table_req",
    ];
    each("requests", &requests, &as_it_is);
}
