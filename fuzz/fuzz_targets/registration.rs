//! Registration and news of failed nodes and altered tables: every decoder takes any signal; sets of nodes
//! come back; both readings of ALTER_TABLE_REP agree.
#![no_main]

use iclaustron::wire::dictionary::decode_altered;
use iclaustron::wire::registration::*;
use iclaustron::wire::signal::Signal;
use iclaustron_fuzz::for_each_reading;
use libfuzzer_sys::fuzz_target;

fn same_nodes(set: NodeSet) {
    assert_eq!(set.iter().collect::<NodeSet>(), set);
    assert_eq!(NodeSet::from_words(&set.words()), set);
    assert!(set.iter().all(|node| set.contains(node)));
}

fn all_of(signal: Signal<'_>) {
    let data = signal.data;
    if let Some(conf) = RegConf::decode(data) {
        same_nodes(conf.connected);
        let _ = (conf.usable_for(50), conf.version.to_string());
    }
    if let Some(news) = NodeFailRep::decode(&signal) {
        same_nodes(news.failed);
    }
    let _ = (RegRef::decode(data), TakeOverTcConf::decode(data), NfCompleteRep::decode(data));
    let altered = decode_altered(data, signal.sections());
    if let Some(news) = AlterTableRep::decode(&signal) {
        let altered = altered.unwrap();
        assert_eq!((altered.id.number(), altered.version), (news.table, news.version));
        assert_eq!(altered.name, news.name);
    }
}

fuzz_target!(|bytes: &[u8]| for_each_reading(bytes, all_of));
