//! The C functions, as a C program calls them, behind names that Rust can use without care: handles are freed
//! when they are dropped, and only what the header allows can be said.

use std::ffi::{CStr, CString, c_void};
use std::ptr::{null, null_mut};

use iclaustron::capi::args::*;
use iclaustron::capi::connection::*;
use iclaustron::capi::errors::ic_error_message;
use iclaustron::capi::global::*;
use iclaustron::capi::record::*;
use iclaustron::capi::statistics::*;
use iclaustron::capi::table::*;

const DATABASE: &CStr = c"test";
/// Bytes of a row: id and value.
const ROW: u32 = 16;
const IC_TYPE_BIGUNSIGNED: i32 = 10;

/// A code, or success.
fn answer(code: i32) -> Result<(), i32> {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// What a code means.
pub fn message(code: i32) -> String {
    // SAFETY: the text is a constant of the library.
    unsafe { CStr::from_ptr(ic_error_message(code)) }.to_string_lossy().into_owned()
}

/// A cluster handle.
pub struct Global(*mut ApidGlobal);

// SAFETY: the header says so: any thread may use a cluster handle, also several at once.
unsafe impl Send for Global {}
// SAFETY: as above.
unsafe impl Sync for Global {}

impl Global {
    /// Joins a cluster.
    pub fn connect(connectstring: &str) -> Result<Global, String> {
        let connectstring = CString::new(connectstring).map_err(|error| error.to_string())?;
        let mut glob = null_mut();
        // SAFETY: pointers to locals that live through the calls.
        let code = unsafe { ic_apid_global_create(&raw mut glob) };
        answer(code).map_err(message)?;
        let glob = Global(glob);
        // SAFETY: as above; the handle was just made.
        let code = unsafe { ic_apid_global_connect(glob.0, connectstring.as_ptr(), null()) };
        answer(code).map_err(|_| glob.error_text())?;
        Ok(glob)
    }

    /// What went wrong last.
    pub fn error_text(&self) -> String {
        // SAFETY: the handle lives; the text stays until this thread's next call.
        unsafe { CStr::from_ptr(ic_apid_global_error_text(self.0)) }.to_string_lossy().into_owned()
    }

    /// This client's node id.
    pub fn node_id(&self) -> u32 {
        // SAFETY: the handle lives.
        unsafe { ic_apid_global_node_id(self.0) }
    }

    /// Waits until all data nodes take work.
    pub fn wait_usable(&self, ms: u32) -> Result<(), String> {
        // SAFETY: the handle lives.
        answer(unsafe { ic_apid_global_wait_usable(self.0, 0, ms) }).map_err(|_| self.error_text())
    }

    /// Makes the table of the test, dropping an old one.
    pub fn create_table(&self, name: &CStr) -> Result<(), String> {
        // SAFETY: all zero is a valid column, whose pointers are NULL.
        let mut columns: [ColumnSpec; 2] = unsafe { std::mem::zeroed() };
        for (column, name) in columns.iter_mut().zip([c"id", c"value"]) {
            (column.name, column.kind) = (name.as_ptr(), IC_TYPE_BIGUNSIGNED);
        }
        columns[0].flags = IC_COLUMN_PRIMARY_KEY;
        // SAFETY: the handle lives, and the rest are constants and locals.
        let code = unsafe {
            ic_apid_table_drop(self.0, DATABASE.as_ptr(), name.as_ptr());
            let (database, name) = (DATABASE.as_ptr(), name.as_ptr());
            ic_apid_table_create(self.0, database, name, &columns[0], 2, size_of::<ColumnSpec>(), null())
        };
        answer(code).map_err(|_| self.error_text())
    }
}

impl Drop for Global {
    fn drop(&mut self) {
        // SAFETY: the handle lives until here; what depends on it borrows it.
        unsafe { ic_apid_global_free(self.0) };
    }
}

/// An open table with a record of its rows.
pub struct Table<'a> {
    table: *mut TableDef,
    record: *mut Record,
    _of: &'a Global,
}

impl<'a> Table<'a> {
    /// Opens the table of the test.
    pub fn open(global: &'a Global, name: &CStr) -> Result<Table<'a>, i32> {
        let mut table = Table { table: null_mut(), record: null_mut(), _of: global };
        // SAFETY: the handle lives; outputs are fields of a local.
        let code =
            unsafe { ic_apid_table_open(global.0, DATABASE.as_ptr(), name.as_ptr(), &raw mut table.table) };
        answer(code)?;
        let field =
            |name: &CStr, offset| RecordField { name: name.as_ptr(), offset, null_byte: 0, null_bit: 0 };
        let fields = [field(c"id", 0), field(c"value", 8)];
        let size = size_of::<RecordField>();
        // SAFETY: the table is open, the fields are a local.
        let code = unsafe { ic_record_create(table.table, &fields[0], 2, size, ROW, &raw mut table.record) };
        answer(code).map(|()| table)
    }
}

impl Drop for Table<'_> {
    fn drop(&mut self) {
        // SAFETY: both are NULL or live.
        unsafe {
            ic_record_free(self.record);
            ic_apid_table_close(self.table);
        }
    }
}

/// What a transaction's state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Open,
    Busy,
    Committed,
    Ended,
}

/// How a completion comes.
#[derive(Clone, Copy)]
pub enum Way {
    /// On the executed list.
    List,
    /// By this function, with this pointer.
    Callback(QueryCallback, *mut c_void),
}

impl Way {
    fn parts(self) -> (QueryCallback, *mut c_void) {
        match self {
            Way::List => (None, null_mut()),
            Way::Callback(function, user_ref) => (function, user_ref),
        }
    }
}

/// A connection. Copies name the same one; who frees it sees to it that none is used any more.
#[derive(Clone, Copy)]
pub struct Connection(*mut ApidConnection);

impl Connection {
    /// A new one.
    pub fn new(global: &Global) -> Result<Connection, i32> {
        let mut conn = null_mut();
        // SAFETY: the handle lives.
        answer(unsafe { ic_apid_conn_create(global.0, &raw mut conn) })?;
        Ok(Connection(conn))
    }

    /// Frees it; callbacks that are due run.
    pub fn free(self) -> Result<(), i32> {
        // SAFETY: it lives until here, and is used by one thread.
        answer(unsafe { ic_apid_conn_free(self.0) })
    }

    /// How long what is sent may go without a reply.
    pub fn set_deadline(self, ms: u32) -> Result<(), i32> {
        // SAFETY: it lives, and is used by one thread.
        answer(unsafe { ic_apid_conn_set_deadline(self.0, ms) })
    }

    /// Sends what is defined.
    pub fn send(self, force: bool) -> Result<(), i32> {
        // SAFETY: it lives, and is used by one thread.
        answer(unsafe { ic_apid_conn_send(self.0, force) })
    }

    /// Waits for replies.
    pub fn poll(self, ms: u32) -> Result<(), i32> {
        // SAFETY: as above.
        answer(unsafe { ic_apid_conn_poll(self.0, ms, null_mut()) })
    }

    /// Operations that are not complete.
    pub fn in_flight(self) -> u64 {
        // SAFETY: all zero is a valid struct of numbers.
        let mut statistics: Stats = unsafe { std::mem::zeroed() };
        statistics.size = size_of::<Stats>();
        // SAFETY: as above, and the struct is a local whose size is said.
        unsafe { ic_apid_conn_stats(self.0, &raw mut statistics) };
        statistics.in_flight
    }

    /// The oldest query on the executed list.
    pub fn next_executed(self) -> Option<QueryId> {
        let mut query = 0;
        // SAFETY: as above.
        unsafe { ic_apid_conn_get_next_executed_query(self.0, &raw mut query) }.then_some(query)
    }

    /// A new query.
    pub fn create_query(self, table: &Table<'_>) -> Result<QueryId, i32> {
        let mut query = 0;
        // SAFETY: as above; the table and its record live.
        let code =
            unsafe { ic_apid_query_create(self.0, table.table, table.record, table.record, &raw mut query) };
        answer(code).map(|()| query)
    }

    /// Frees a query.
    pub fn free_query(self, query: QueryId) -> Result<(), i32> {
        // SAFETY: as above.
        answer(unsafe { ic_apid_query_free(self.0, query) })
    }

    /// Fills the rows of an idle query.
    pub fn fill(self, query: QueryId, id: u64, value: u64) {
        // SAFETY: as above. A row that is not NULL has 16 bytes, which are ours while the query is idle.
        unsafe {
            let key = ic_apid_query_key_row(self.0, query, null_mut()).cast::<u64>();
            let row = ic_apid_query_attr_row(self.0, query, null_mut()).cast::<u64>();
            assert!(!key.is_null() && !row.is_null(), "the rows of an idle query");
            key.write_unaligned(id);
            row.write_unaligned(id);
            row.add(1).write_unaligned(value);
        }
    }

    /// Id and value that a read has brought.
    pub fn row(self, query: QueryId) -> (u64, u64) {
        // SAFETY: as in `fill`.
        unsafe {
            let row = ic_apid_query_attr_row(self.0, query, null_mut()).cast::<u64>();
            assert!(!row.is_null(), "the row of an idle query");
            (row.read_unaligned(), row.add(1).read_unaligned())
        }
    }

    /// The error of a query's last completion.
    pub fn query_error(self, query: QueryId) -> i32 {
        // SAFETY: the connection lives, and is used by one thread.
        unsafe { ic_apid_query_error(self.0, query) }
    }

    /// Starts a transaction where the row of an id is.
    pub fn start(self, table: &Table<'_>, id: u64) -> Result<TransId, i32> {
        let key = [id, 0];
        let mut trans = 0;
        // SAFETY: as above; table and record live, the key is a local of the row's length.
        let code = unsafe {
            let hint = ic_apid_conn_hint_for_key(self.0, table.table, table.record, key.as_ptr().cast(), ROW);
            ic_apid_conn_start_transaction(self.0, hint, table.table, &raw mut trans)
        };
        answer(code).map(|()| trans)
    }

    /// Defines a write.
    pub fn write(self, query: QueryId, trans: TransId, kind: i32, way: Way) -> Result<(), i32> {
        let (callback, user_ref) = way.parts();
        let size = size_of::<WriteKeyArgs>();
        let args = WriteKeyArgs { size, kind, abort_option: IC_ABORT_OPTION_DEFAULT, callback, user_ref };
        // SAFETY: as above; the arguments are a local, and what a callback is given outlives the connection.
        answer(unsafe { ic_apid_conn_write_key(self.0, query, trans, &args) })
    }

    /// Defines a read.
    pub fn read(self, query: QueryId, trans: TransId, kind: i32, way: Way) -> Result<(), i32> {
        let (callback, user_ref) = way.parts();
        let size = size_of::<ReadKeyArgs>();
        let args = ReadKeyArgs { size, kind, abort_option: IC_ABORT_OPTION_DEFAULT, callback, user_ref };
        // SAFETY: as in `write`.
        answer(unsafe { ic_apid_conn_read_key(self.0, query, trans, &args) })
    }

    /// Asks for a commit.
    pub fn commit(self, trans: TransId) -> Result<(), i32> {
        // SAFETY: the connection lives, and is used by one thread.
        answer(unsafe { ic_apid_conn_commit_transaction(self.0, trans) })
    }

    /// Rolls back.
    pub fn rollback(self, trans: TransId) -> Result<(), i32> {
        // SAFETY: as above.
        answer(unsafe { ic_apid_conn_rollback_transaction(self.0, trans) })
    }

    /// Gives a transaction up.
    pub fn close(self, trans: TransId) -> Result<(), i32> {
        // SAFETY: as above.
        answer(unsafe { ic_apid_conn_close_transaction(self.0, trans) })
    }

    /// Where a transaction is, and its error.
    pub fn outcome(self, trans: TransId) -> Result<(State, i32), i32> {
        // SAFETY: as above.
        let (state, error) =
            unsafe { (ic_apid_transaction_state(self.0, trans), ic_apid_transaction_error(self.0, trans)) };
        match state {
            IC_TRANS_STATE_OPEN => Ok((State::Open, error)),
            IC_TRANS_STATE_BUSY => Ok((State::Busy, error)),
            IC_TRANS_STATE_COMMITTED => Ok((State::Committed, error)),
            IC_TRANS_STATE_ENDED => Ok((State::Ended, error)),
            code => Err(code),
        }
    }
}
