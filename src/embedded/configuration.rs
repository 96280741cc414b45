//! The configuration that the management endpoint hands out: the parameters that clients look at, with NDB's
//! defaults. Source: storage/ndb/src/mgmsrv/ConfigInfo.cpp.

use super::shared::Shared;
use crate::wire::NodeId;
use crate::wire::config::{Configuration, Kind, Section, Value, key};

const HOST: &str = "127.0.0.1";
const SEND_BUFFER: u32 = 2 << 20;

/// The whole configuration, or what a node needs to know of it: the connections that it is an end of.
pub fn of(shared: &Shared, management_port: u16, node: Option<NodeId>) -> Configuration {
    let mut configuration = Configuration::default();
    defaults(shared, &mut configuration);
    let data = shared.nodes.iter().map(|node| Section::new(Kind::Data).with(key::NODE_ID, node.id as u32));
    let group = |node: NodeId| (node - 1) / shared.options.replicas;
    let data =
        data.zip(&shared.nodes).map(|(section, node)| section.with(key::NODE_GROUP, group(node.id) as u32));
    let api = shared.api_ids().map(|id| Section::new(Kind::Api).with(key::NODE_ID, id as u32));
    let management = Section::new(Kind::Mgm)
        .with(key::NODE_ID, shared.management_id() as u32)
        .with(key::MGM_PORT_NUMBER, management_port as u32);
    let system = Section::new(Kind::System)
        .with(key::SYSTEM_PRIMARY_MGM_NODE, shared.management_id() as u32)
        .with(key::SYSTEM_GENERATION, 1)
        .with(key::SYSTEM_NAME, "MC_EMBEDDED");
    let connections = shared.api_ids().flat_map(|api| shared.nodes.iter().map(move |node| (api, node)));
    let connections = connections
        .filter(|(api, data)| node.is_none_or(|node| node == *api || node == data.id))
        .map(|(api, data)| {
            let port = data.port.load(std::sync::atomic::Ordering::Acquire);
            Section::new(Kind::Tcp)
                .with(key::NODE_ID_1, api as u32)
                .with(key::NODE_ID_2, data.id as u32)
                .with(key::NODE_ID_SERVER, data.id as u32)
                // Only who asks for everything learns the ports that the nodes have chosen.
                .with(key::PORT_NUMBER, if node.is_some() { 0 } else { (port as u32).wrapping_neg() })
        });
    for section in data.chain(api).chain([management, system]).chain(connections) {
        let placed = configuration.add(section);
        debug_assert!(placed.is_ok());
    }
    configuration
}

fn defaults(shared: &Shared, configuration: &mut Configuration) {
    let options = &shared.options;
    let millis = |time: std::time::Duration| Value::Int(time.as_millis() as u32);
    let node = [(key::HOST_NAME, HOST.into()), (key::TOTAL_SEND_BUFFER_MEMORY, 0.into())];
    let data = [
        (key::NO_OF_REPLICAS, (options.replicas as u32).into()),
        (key::HEARTBEAT_INTERVAL_DB_DB, 5000.into()),
        (key::HEARTBEAT_INTERVAL_DB_API, millis(options.heartbeat)),
        (key::TRANSACTION_INACTIVE_TIMEOUT, 0xffff_feff.into()),
        (key::TRANSACTION_DEADLOCK_DETECTION_TIMEOUT, millis(options.lock_timeout)),
        (key::DATA_DIR, ".".into()),
        (key::DEFAULT_HASHMAP_SIZE, 0.into()),
    ];
    let client = [
        (key::DEDICATED, 0.into()),
        (key::ARBITRATION_RANK, 0.into()),
        (key::ARBITRATION_DELAY, 0.into()),
        (key::EXTRA_SEND_BUFFER_MEMORY, Value::Long(0)),
        (key::MAX_SCAN_BATCH_SIZE, 262_144.into()),
        (key::BATCH_BYTE_SIZE, 16_384.into()),
        (key::BATCH_SIZE, 256.into()),
        (key::AUTO_RECONNECT, 1.into()),
        (key::DEFAULT_OPERATION_REDO_PROBLEM_ACTION, 1.into()),
        (key::DEFAULT_HASHMAP_SIZE, 0.into()),
        (key::CONNECT_BACKOFF_MAX_TIME, 1500.into()),
        (key::START_CONNECT_BACKOFF_MAX_TIME, 0.into()),
    ];
    let management = [(key::ARBITRATION_RANK, 1.into()), (key::ARBITRATION_DELAY, 0.into())];
    let link = [
        (key::SEND_SIGNAL_ID, 0.into()),
        (key::CHECKSUM, 0.into()),
        (key::PORT_NUMBER, 0.into()),
        (key::HOST_NAME_1, HOST.into()),
        (key::HOST_NAME_2, HOST.into()),
        (key::GROUP, 55.into()),
        (key::OVERLOAD_LIMIT, 0.into()),
        (key::PRE_SEND_CHECKSUM, 0.into()),
        (key::ALLOW_UNRESOLVED_HOSTNAMES, 0.into()),
        (key::PREFER_IP_VERSION, 4.into()),
        (key::SEND_BUFFER_MEMORY, SEND_BUFFER.into()),
        (key::RECEIVE_BUFFER_MEMORY, SEND_BUFFER.into()),
        (key::TCP_RCV_BUF_SIZE, 0.into()),
        (key::TCP_SND_BUF_SIZE, 0.into()),
        (key::TCP_MAXSEG_SIZE, 0.into()),
        (key::TCP_BIND_INADDR_ANY, 0.into()),
        (key::TCP_SPIN_TIME, 0.into()),
        (key::REQUIRE_LINK_TLS, 0.into()),
    ];
    let mut put = |kind, entries: &[(u32, Value)]| {
        if let Some(section) = configuration.defaults_mut(kind) {
            section.entries.extend(entries.iter().cloned());
        }
    };
    put(Kind::Data, &node);
    put(Kind::Data, &data);
    put(Kind::Api, &node);
    put(Kind::Api, &client);
    put(Kind::Mgm, &node);
    put(Kind::Mgm, &management);
    put(Kind::Tcp, &link);
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;

    #[test]
    fn a_client_finds_its_links() {
        let shared = Shared::new(Options { nodes: 4, replicas: 2, ..Options::default() });
        let own = shared.first_api();
        let configuration = of(&shared, 1186, Some(own));
        let links = configuration.links(own).unwrap();
        assert_eq!(links.iter().map(|link| link.node).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(configuration.links(own + 1).is_err(), "another client's connections");
        assert_eq!(configuration.replicas(), 2);
        assert_eq!(configuration.management_servers().len(), 1);
    }
}
