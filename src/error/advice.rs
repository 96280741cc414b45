//! What to do about a code, in one sentence: that of the code, else that of its class.

use std::ffi::CStr;

use super::{Class, class, ndb, own};

/// What to do about a code.
pub const fn advice(code: i32) -> &'static CStr {
    match of_code(code) {
        Some(advice) => advice,
        None => of_class(class(code)),
    }
}

const fn of_code(code: i32) -> Option<&'static CStr> {
    Some(match code {
        own::INTERNAL | own::MALFORMED_REPLY => {
            c"Free the connection and make another; report it, with the error's explanation."
        }
        own::BUSY => c"Give each thread a connection of its own.",
        own::IN_CALLBACK => c"Do it after the poll that runs the callback.",
        own::QUERY_NOT_IDLE => c"Poll until the query is complete, or use another one.",
        own::TRANSACTION_NOT_OPEN => c"Look at the transaction's error, close it, and start another.",
        own::STILL_IN_USE => c"Free connections and tables first; the handle's error text counts them.",
        own::NOT_CONNECTED => c"Connect the cluster handle, then make new connections.",
        own::CONNECT_FAILED => {
            c"Read the handle's error text, check connectstring, network and management server, then connect again."
        }
        own::NO_NODE_ID | 1101 => {
            c"End a client that is not needed, or add [api] sections to the configuration, then connect again."
        }
        own::INCOMPATIBLE => c"Use a library that knows the data nodes' version.",
        own::TOO_MANY_IN_FLIGHT => c"Poll, close what is over, then try again.",
        own::SEND_BUFFER_FULL | 4021 | 4022 | 4032 => c"Send and poll, then try again.",
        own::FORKED => c"Make handles of the child's own.",
        own::STILL_IN_FLIGHT => c"Poll on: the query comes on the executed list when it completes.",
        own::NO_NODE | 4033 | 4035 => c"Pause, then start the transaction again; the handles stay good.",
        own::TOO_LARGE | 4257 => c"Split the row over several columns and operations, or make it smaller.",
        ndb::SCHEMA_VERSION | 284 | 285 | 910 | 1225 | 1227 => {
            c"Open the table again, make records and queries of it anew, then run the transaction again."
        }
        ndb::NO_SUCH_TABLE => c"Check database and name, or create the table.",
        283 | 1226 => c"Stop using the table: it is being dropped.",
        266 | 274 | 296 | 297 => {
            c"Run the whole transaction again after a pause; if it is frequent, lock rows in one order, and shorter."
        }
        635 => c"Read the row again later, or wait for its lock.",
        ndb::NO_COORDINATOR_RECORD => {
            c"Run the whole transaction again after a pause; close transactions, or raise MaxNoOfConcurrentTransactions."
        }
        233 | 234 | 1217 => {
            c"Run the whole transaction again after a pause; have fewer operations in flight, or raise \
              MaxNoOfConcurrentOperations."
        }
        410 | 1220 | 1221 | 1234 => {
            c"Run the whole transaction again after a longer pause and with less load: the redo log cannot follow."
        }
        261 => c"Split the transaction.",
        630 | 893 => c"Update the row that is there, or use another key.",
        255 => c"Write the parent row first.",
        256 => c"Delete the child rows first.",
        839 | 840 => c"Give every column that must not be NULL a value.",
        1102 | 1103 => c"Give the client an [api] section in the configuration that allows its host and node id.",
        ndb::NODE_FAILURE_ABORT => c"Run the whole transaction again: nothing of it was done.",
        ndb::ROLLED_BACK => c"Nothing: the program asked for it.",
        ndb::COMMITTED_ROWS_LOST => c"Read the rows again; do not repeat the writes.",
        ndb::READ_LOST => c"Read the row again.",
        4544 => c"Start the transaction without a hint.",
        _ => return None,
    })
}

const fn of_class(class: Class) -> &'static CStr {
    match class {
        Class::None => c"Nothing.",
        Class::Usage => c"Correct the call: the program breaks a rule that the header states.",
        Class::Connect => c"Read the cluster handle's error text, then connect again after a pause.",
        Class::Internal => c"Do not repeat it blindly; report it, with the error's explanation.",
        Class::TemporaryResource | Class::NodeRecovery | Class::NodeShutdown => {
            c"Run the whole transaction again after a pause that grows."
        }
        Class::Overload => c"Run the whole transaction again after a longer pause, and with less load.",
        Class::TimeOut => c"Run the whole transaction again after a pause that grows.",
        Class::UnknownResult => {
            c"Find out whether it was committed, as by a row that the transaction writes, before it is run again."
        }
        Class::Application => c"Correct the request: the same one fails again.",
        Class::NoData => c"Treat the row as missing.",
        Class::Constraint => c"Change the values: the same ones fail again.",
        Class::Schema => c"Look at the table's definition, open the table again, and correct the request.",
        Class::User => c"Do what the operation's own program means by it.",
        Class::Space => c"Delete rows, or give the data nodes more memory or disk.",
        Class::Configuration => c"Raise the limit in the cluster's configuration.",
        Class::NotImplemented => c"Do it in another way.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{is_temporary, is_unknown_result, table};

    #[test]
    fn every_code_has_one_sentence() {
        let codes = own::TABLE.iter().chain(table::TABLE).map(|entry| entry.0);
        for code in codes.chain([0, 6000, 7000]) {
            let text = advice(code).to_str().unwrap();
            assert!(text.ends_with('.') && text.matches(". ").count() == 0, "{code}: {text}");
            assert!(!text.contains("  "), "{code}: {text}");
        }
    }

    #[test]
    fn temporary_ones_are_to_be_tried_again_and_unknown_ones_not() {
        for &(code, ..) in own::TABLE.iter().chain(table::TABLE) {
            let text = advice(code).to_str().unwrap();
            let again =
                text.contains("again") || text.contains("Poll on") || text.contains("wait for its lock");
            if is_temporary(code) {
                assert!(again, "{code}: {text}");
            }
            if is_unknown_result(code) {
                assert!(text.contains("Find out"), "{code}: {text}");
            }
        }
    }

    #[test]
    fn a_code_with_advice_of_its_own_is_known() {
        for code in -100..7000 {
            let known = own::TABLE.iter().chain(table::TABLE).any(|entry| entry.0 == code);
            assert!(known || of_code(code).is_none(), "{code}");
        }
    }
}
