//! Every code a call can return: 0 is success, positive codes are NDB's own, negative ones are this library's
//! and permanent once given. Where more than a number is known, an [`Error`] carries it as text.

mod advice;
pub mod retry;
mod table;

use std::ffi::CStr;

pub use advice::advice;

/// Codes of this library. A retired number is never given again.
pub mod own {
    use std::ffi::CStr;

    macro_rules! own {
        ($($(#[doc = $doc:literal])* $name:ident = $code:literal, $class:ident, $text:literal;)*) => {
            $($(#[doc = $doc])* pub const $name: i32 = $code;)*
            /// Code, class and text of each of the library's own codes.
            pub(crate) const TABLE: &[(i32, super::Class, &CStr)] =
                &[$(($code, super::Class::$class, $text),)*];
        };
    }
    own! {
        /// A pointer that must not be NULL is, or a value is out of its range.
        INVALID_ARGUMENT = -1, Usage, c"invalid argument: a NULL pointer or a value out of range";
        /// Something inside the library broke; the connection refuses further work.
        INTERNAL = -2, Internal, c"internal error of the library";
        /// Another thread is inside this connection.
        BUSY = -3, Usage, c"another thread is inside this connection";
        /// The call is not allowed inside a callback.
        IN_CALLBACK = -4, Usage, c"not allowed inside a callback";
        /// The query handle is of no query of this connection, or of one that was freed.
        STALE_QUERY = -5, Usage, c"stale or foreign query handle";
        /// The transaction handle is of no transaction of this connection, or of one that was closed.
        STALE_TRANSACTION = -6, Usage, c"stale or foreign transaction handle";
        /// The query is defined or sent: its rows are the library's until it completes.
        QUERY_NOT_IDLE = -7, Usage, c"the query is in use until it completes";
        /// The transaction is committing, rolling back or over.
        TRANSACTION_NOT_OPEN = -8, Usage, c"the transaction takes no more work";
        /// A record of another table.
        RECORD_MISMATCH = -9, Usage, c"the record belongs to another table or lacks columns of the key";
        /// A row whose length is not the record's.
        ROW_LENGTH = -10, Usage, c"the row has not the record's length";
        /// The length bytes of a variable-length value exceed the column.
        VALUE_TOO_LONG = -11, Usage, c"a value is longer than its column";
        /// A key column's NULL bit is set.
        NULL_KEY = -12, Usage, c"a key column is NULL";
        /// Something that depends on it is still alive.
        STILL_IN_USE = -13, Usage, c"still in use: free what depends on it first";
        /// The cluster handle is not connected, or was disconnected.
        NOT_CONNECTED = -14, Usage, c"not connected";
        /// The connect call failed; the cluster handle's error text says at which step.
        CONNECT_FAILED = -15, Connect, c"could not connect: see the cluster handle's error text";
        /// The management server gave no node id until the deadline.
        NO_NODE_ID = -16, Connect, c"no free node id";
        /// A data node's version cannot be used.
        INCOMPATIBLE = -17, Connect, c"a data node has an unusable version";
        /// The record names a column that the table has not.
        NO_SUCH_COLUMN = -18, Usage, c"no such column";
        /// Fields of a record overlap, or lie outside the row.
        FIELD_LAYOUT = -19, Usage, c"fields of a record overlap or lie outside the row";
        /// A column of a type that records cannot hold.
        UNSUPPORTED_TYPE = -20, Usage, c"a column of this type cannot be in a record";
        /// As much as allowed is in flight: poll, then define again.
        TOO_MANY_IN_FLIGHT = -21, TemporaryResource, c"too much in flight: poll, then try again";
        /// The send buffer is full: send and poll, then define again.
        SEND_BUFFER_FULL = -22, TemporaryResource, c"the send buffer is full: send and poll, then try again";
        /// A reply that does not follow the protocol.
        MALFORMED_REPLY = -23, Internal, c"a data node's reply could not be read";
        /// A name with a NUL, of length zero, or too long.
        INVALID_NAME = -24, Usage, c"a name is empty, too long, or holds a NUL";
        /// The process forked: handles of the parent cannot be used in the child.
        FORKED = -25, Usage, c"the handle belongs to the parent process";
        /// The table definition given to create is not consistent.
        INVALID_TABLE = -26, Usage, c"the table definition is not consistent";
        /// The wait ended before the operation did; it is still in flight.
        STILL_IN_FLIGHT = -27, TimeOut, c"the wait is over, the operation is still in flight";
        /// No data node can take new work now; nothing was sent.
        NO_NODE = -28, TemporaryResource, c"no data node can take work now: pause, then try again";
        /// A request larger than a data node takes.
        TOO_LARGE = -29, Usage, c"key and row together are larger than a data node takes";
        /// No reply by the operation's deadline; nothing of its transaction was, or will be, committed.
        DEADLINE = -30, TimeOut, c"no reply by the deadline: the transaction is rolled back, retry it";
    }
}

/// Codes of NDB that the library itself gives, as libndbclient does in the same cases.
pub mod ndb {
    /// The row is not there.
    pub const NO_SUCH_ROW: i32 = 626;
    /// The table's definition is not of this cluster any more: open it again.
    pub const SCHEMA_VERSION: i32 = 241;
    /// The node could not give a coordinator record.
    pub const NO_COORDINATOR_RECORD: i32 = 219;
    /// Nothing of the kind is in the dictionary.
    pub const NO_SUCH_TABLE: i32 = 723;
    /// No answer in time.
    pub const NO_ANSWER: i32 = 4008;
    /// No data node can be used.
    pub const CLUSTER_FAILURE: i32 = 4009;
    /// The coordinator's node failed and the transaction was not committed.
    pub const NODE_FAILURE_ABORT: i32 = 4010;
    /// No reply: the outcome is unknown.
    pub const UNKNOWN_RESULT: i32 = 4012;
    /// The node failed while the library waited for its answer.
    pub const WAIT_NODE_FAILURE: i32 = 4013;
    /// The coordinator's node failed, and another has aborted the transaction.
    pub const TAKE_OVER_ABORT: i32 = 4031;
    /// The transaction was rolled back by its caller.
    pub const ROLLED_BACK: i32 = 4350;
    /// Committed, but rows that were read are lost. Not temporary.
    pub const COMMITTED_ROWS_LOST: i32 = 4115;
    /// The node that read the row failed before the row came.
    pub const READ_LOST: i32 = 4119;
}

/// What kind of error a code is. The numbers are permanent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Class {
    /// Success.
    None = 0,
    /// The caller broke a rule of this library.
    Usage = 1,
    /// Connecting failed.
    Connect = 2,
    /// A fault of the library or a data node, damage on the way, or a code that is not known.
    Internal = 3,
    /// Something ran out for the moment.
    TemporaryResource = 4,
    /// A data node failed. Ask [`is_temporary`], not the class: 4115 is of this class, and must not be
    /// retried.
    NodeRecovery = 5,
    /// Too much is going on.
    Overload = 6,
    /// Something took too long, mostly a lock.
    TimeOut = 7,
    /// A data node stops.
    NodeShutdown = 8,
    /// What was sent may have been done or not.
    UnknownResult = 9,
    /// The request was wrong, or not possible now.
    Application = 10,
    /// The row is not there.
    NoData = 11,
    /// A key, NULL or foreign key constraint.
    Constraint = 12,
    /// The table or its definition.
    Schema = 13,
    /// The user's own code, from an interpreted program.
    User = 14,
    /// Memory or disk is full.
    Space = 15,
    /// A limit in the cluster's configuration.
    Configuration = 16,
    /// Not implemented.
    NotImplemented = 17,
}

/// Codes that interpreted programs give.
const USER_CODES: std::ops::RangeInclusive<i32> = 6000..=6999;

const SUCCESS: (i32, Class, &CStr) = (0, Class::None, c"no error");
const USER: (i32, Class, &CStr) =
    (*USER_CODES.start(), Class::User, c"refused by the operation's own program");
const UNKNOWN: (i32, Class, &CStr) = (0, Class::Internal, c"unknown error code");

const fn entry(code: i32) -> &'static (i32, Class, &'static CStr) {
    if code == 0 {
        return &SUCCESS;
    }
    if code >= *USER_CODES.start() && code <= *USER_CODES.end() {
        return &USER;
    }
    // Both tables go away from 0.
    let table = if code < 0 { own::TABLE } else { table::TABLE };
    let (mut low, mut high) = (0, table.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if table[middle].0 == code {
            return &table[middle];
        }
        if table[middle].0.unsigned_abs() < code.unsigned_abs() {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    &UNKNOWN
}

/// What a code means, for a person.
pub const fn message(code: i32) -> &'static CStr {
    entry(code).2
}

/// What kind of error a code is.
pub const fn class(code: i32) -> Class {
    entry(code).1
}

/// Whether the transaction is not done and worth a retry as a whole, after a pause.
pub const fn is_temporary(code: i32) -> bool {
    use Class::*;
    let temporary =
        matches!(class(code), TemporaryResource | NodeRecovery | Overload | TimeOut | NodeShutdown);
    temporary && code != ndb::COMMITTED_ROWS_LOST
}

/// Whether what was sent may have been done or not.
pub const fn is_unknown_result(code: i32) -> bool {
    matches!(class(code), Class::UnknownResult)
}

impl Class {
    /// Its name, for a person.
    pub const fn name(self) -> &'static str {
        use Class::*;
        match self {
            None => "no error",
            Usage => "usage",
            Connect => "connect",
            Internal => "internal",
            TemporaryResource => "temporary resource",
            NodeRecovery => "node recovery",
            Overload => "overload",
            TimeOut => "time-out",
            NodeShutdown => "node shutdown",
            UnknownResult => "unknown result",
            Application => "application",
            NoData => "no data",
            Constraint => "constraint",
            Schema => "schema",
            User => "user",
            Space => "space",
            Configuration => "configuration",
            NotImplemented => "not implemented",
        }
    }
}

/// A code with what is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The code that a C caller gets.
    pub code: i32,
    /// Step, place and cause, for a person.
    pub text: String,
}

impl Error {
    /// An error with its text.
    pub fn new(code: i32, text: impl Into<String>) -> Self {
        Error { code, text: text.into() }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (error {})", self.text, self.code)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_go_away_from_zero_without_duplicates() {
        for table in [own::TABLE, table::TABLE] {
            for pair in table.windows(2) {
                assert!(pair[0].0.unsigned_abs() < pair[1].0.unsigned_abs(), "{} {}", pair[0].0, pair[1].0);
            }
        }
        assert!(own::TABLE.iter().all(|entry| entry.0 < 0));
        assert!(table::TABLE.iter().all(|entry| entry.0 > 0 && !USER_CODES.contains(&entry.0)));
    }

    #[test]
    fn every_code_is_found() {
        for &(code, expected, text) in own::TABLE.iter().chain(table::TABLE) {
            assert_eq!((class(code), message(code)), (expected, text));
            let text = text.to_str().unwrap();
            assert!(!text.is_empty() && !text.ends_with('.'));
        }
        for code in -27..=-1 {
            assert!(own::TABLE.iter().any(|entry| entry.0 == code), "{code}");
        }
        assert_eq!(own::STILL_IN_FLIGHT, -27);
    }

    #[test]
    fn codes_that_the_library_gives_have_their_class() {
        for (code, expected) in [
            (ndb::NO_SUCH_ROW, Class::NoData),
            (ndb::NO_COORDINATOR_RECORD, Class::TemporaryResource),
            (ndb::NO_SUCH_TABLE, Class::Schema),
            (ndb::NO_ANSWER, Class::UnknownResult),
            (ndb::CLUSTER_FAILURE, Class::UnknownResult),
            (ndb::NODE_FAILURE_ABORT, Class::NodeRecovery),
            (ndb::UNKNOWN_RESULT, Class::UnknownResult),
            (ndb::WAIT_NODE_FAILURE, Class::NodeRecovery),
            (ndb::ROLLED_BACK, Class::Application),
            (ndb::READ_LOST, Class::NodeRecovery),
            (0, Class::None),
            (6000, Class::User),
            (6999, Class::User),
            (7000, Class::Internal),
            (i32::MAX, Class::Internal),
            (i32::MIN, Class::Internal),
        ] {
            assert_eq!(class(code), expected, "{code}");
        }
        assert_eq!(message(7000), message(i32::MIN));
    }

    #[test]
    fn what_is_worth_a_retry() {
        for code in [266, 219, 233, 410, 286, 280, 1218, 4010, 4031, 4119, 785, own::STILL_IN_FLIGHT] {
            assert!(is_temporary(code) && !is_unknown_result(code), "{code}");
        }
        for code in [own::TOO_MANY_IN_FLIGHT, own::SEND_BUFFER_FULL] {
            assert!(is_temporary(code), "{code}");
        }
        for code in [0, ndb::COMMITTED_ROWS_LOST, 626, 630, 241, 6001, 12345, own::BUSY, own::INTERNAL] {
            assert!(!is_temporary(code) && !is_unknown_result(code), "{code}");
        }
        for code in [ndb::UNKNOWN_RESULT, ndb::NO_ANSWER, ndb::CLUSTER_FAILURE] {
            assert!(is_unknown_result(code) && !is_temporary(code), "{code}");
        }
    }
}
