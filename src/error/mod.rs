//! Every code a call can return: 0 is success, positive codes are NDB's own, negative ones are this library's
//! and permanent once given. Where more than a number is known, an [`Error`] carries it as text.

/// Codes of this library. A retired number is never given again.
pub mod own {
    macro_rules! own {
        ($($(#[doc = $doc:literal])* $name:ident = $code:literal, $class:ident, $text:literal;)*) => {
            $($(#[doc = $doc])* pub const $name: i32 = $code;)*
            /// Code, class and text of each of the library's own codes.
            pub(crate) const TABLE: &[(i32, super::Class, &str)] =
                &[$(($code, super::Class::$class, $text),)*];
        };
    }
    own! {
        /// A pointer that must not be NULL is, or a value is out of its range.
        INVALID_ARGUMENT = -1, Usage, "invalid argument: a NULL pointer or a value out of range";
        /// Something inside the library broke; the connection refuses further work.
        INTERNAL = -2, Internal, "internal error of the library";
        /// Another thread is inside this connection.
        BUSY = -3, Usage, "another thread is inside this connection";
        /// The call is not allowed inside a callback.
        IN_CALLBACK = -4, Usage, "not allowed inside a callback";
        /// The query handle is of no query of this connection, or of one that was freed.
        STALE_QUERY = -5, Usage, "stale or foreign query handle";
        /// The transaction handle is of no transaction of this connection, or of one that was closed.
        STALE_TRANSACTION = -6, Usage, "stale or foreign transaction handle";
        /// The query is defined or sent: its rows are the library's until it completes.
        QUERY_NOT_IDLE = -7, Usage, "the query is in use until it completes";
        /// The transaction is committing, rolling back or over.
        TRANSACTION_NOT_OPEN = -8, Usage, "the transaction takes no more work";
        /// A record of another table.
        RECORD_MISMATCH = -9, Usage, "the record belongs to another table or lacks columns of the key";
        /// A row whose length is not the record's.
        ROW_LENGTH = -10, Usage, "the row has not the record's length";
        /// The length bytes of a variable-length value exceed the column.
        VALUE_TOO_LONG = -11, Usage, "a value is longer than its column";
        /// A key column's NULL bit is set.
        NULL_KEY = -12, Usage, "a key column is NULL";
        /// Something that depends on it is still alive.
        STILL_IN_USE = -13, Usage, "still in use: free what depends on it first";
        /// The cluster handle is not connected, or was disconnected.
        NOT_CONNECTED = -14, Usage, "not connected";
        /// The connect call failed; the cluster handle's error text says at which step.
        CONNECT_FAILED = -15, Connect, "could not connect: see the cluster handle's error text";
        /// The management server gave no node id until the deadline.
        NO_NODE_ID = -16, Connect, "no free node id";
        /// A data node's version cannot be used.
        INCOMPATIBLE = -17, Connect, "a data node has an unusable version";
        /// The record names a column that the table has not.
        NO_SUCH_COLUMN = -18, Usage, "no such column";
        /// Fields of a record overlap, or lie outside the row.
        FIELD_LAYOUT = -19, Usage, "fields of a record overlap or lie outside the row";
        /// A column of a type that records cannot hold.
        UNSUPPORTED_TYPE = -20, Usage, "a column of this type cannot be in a record";
        /// As much as allowed is in flight: poll, then define again.
        TOO_MANY_IN_FLIGHT = -21, Temporary, "too much in flight: poll, then try again";
        /// The send buffer is full: send and poll, then define again.
        SEND_BUFFER_FULL = -22, Temporary, "the send buffer is full: send and poll, then try again";
        /// A reply that does not follow the protocol.
        MALFORMED_REPLY = -23, Internal, "a data node's reply could not be read";
        /// A name with a NUL, of length zero, or too long.
        INVALID_NAME = -24, Usage, "a name is empty, too long, or holds a NUL";
        /// The process forked: handles of the parent cannot be used in the child.
        FORKED = -25, Usage, "the handle belongs to the parent process";
        /// The table definition given to create is not consistent.
        INVALID_TABLE = -26, Usage, "the table definition is not consistent";
        /// The wait ended before the operation did; it is still in flight.
        STILL_IN_FLIGHT = -27, Temporary, "the wait is over, the operation is still in flight";
        /// No data node can take new work now; nothing was sent.
        NO_NODE = -28, Temporary, "no data node can take work now: pause, then try again";
        /// A request larger than a data node takes.
        TOO_LARGE = -29, Usage, "key and row together are larger than a data node takes";
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
    /// The transaction was rolled back by its caller.
    pub const ROLLED_BACK: i32 = 4350;
    /// The node that read the row failed before the row came.
    pub const READ_LOST: i32 = 4119;
}

/// What kind of error a code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Success.
    None,
    /// The caller broke a rule of this library.
    Usage,
    /// Connecting failed.
    Connect,
    /// A fault of the library or damage on the way.
    Internal,
    /// Worth a retry of the whole transaction after a pause.
    Temporary,
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
