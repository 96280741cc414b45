//! Tables: opening, describing, listing, creating, dropping.

use std::ffi::{CStr, CString, c_char};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::args::{
    ColumnSpec, IC_COLUMN_DISTRIBUTION_KEY, IC_COLUMN_DYNAMIC, IC_COLUMN_NULLABLE, IC_COLUMN_PRIMARY_KEY,
    TableArgs, init, read,
};
use super::global::{ApidGlobal, Shared};
use super::handle::{Handle, borrow, give, take_back};
use super::{guard, guard_with, put, text};
use crate::dict::standing::Standing;
use crate::dict::table::{NewColumn, NewTable, Table};
use crate::error::{Error, own};
use crate::wire::column::ColumnType;

/// 8 bits, signed.
pub const IC_TYPE_TINYINT: i32 = 1;
/// 8 bits.
pub const IC_TYPE_TINYUNSIGNED: i32 = 2;
/// 16 bits, signed.
pub const IC_TYPE_SMALLINT: i32 = 3;
/// 16 bits.
pub const IC_TYPE_SMALLUNSIGNED: i32 = 4;
/// 24 bits, signed, little endian.
pub const IC_TYPE_MEDIUMINT: i32 = 5;
/// 24 bits, little endian.
pub const IC_TYPE_MEDIUMUNSIGNED: i32 = 6;
/// 32 bits, signed.
pub const IC_TYPE_INT: i32 = 7;
/// 32 bits.
pub const IC_TYPE_UNSIGNED: i32 = 8;
/// 64 bits, signed.
pub const IC_TYPE_BIGINT: i32 = 9;
/// 64 bits.
pub const IC_TYPE_BIGUNSIGNED: i32 = 10;
/// 32 bits IEEE.
pub const IC_TYPE_FLOAT: i32 = 11;
/// 64 bits IEEE.
pub const IC_TYPE_DOUBLE: i32 = 12;
/// Characters, always `length` bytes, padded with blanks by the caller.
pub const IC_TYPE_CHAR: i32 = 14;
/// One length byte, then up to `length` (at most 255) bytes of characters.
pub const IC_TYPE_VARCHAR: i32 = 15;
/// Always `length` bytes.
pub const IC_TYPE_BINARY: i32 = 16;
/// One length byte, then up to `length` (at most 255) bytes.
pub const IC_TYPE_VARBINARY: i32 = 17;
/// 8 bytes, the form before MySQL 5.6.
pub const IC_TYPE_DATETIME: i32 = 18;
/// 3 bytes, little endian: day, month << 5, year << 9.
pub const IC_TYPE_DATE: i32 = 19;
/// Bytes in parts; cannot be in a record.
pub const IC_TYPE_BLOB: i32 = 20;
/// Characters in parts; cannot be in a record.
pub const IC_TYPE_TEXT: i32 = 21;
/// `length` bits in whole 32-bit words, the low word first.
pub const IC_TYPE_BIT: i32 = 22;
/// Two length bytes, little endian, then up to `length` bytes of characters.
pub const IC_TYPE_LONGVARCHAR: i32 = 23;
/// Two length bytes, little endian, then up to `length` bytes.
pub const IC_TYPE_LONGVARBINARY: i32 = 24;
/// 3 bytes, the form before MySQL 5.6.
pub const IC_TYPE_TIME: i32 = 25;
/// One byte: year - 1900.
pub const IC_TYPE_YEAR: i32 = 26;
/// 4 bytes, the form before MySQL 5.6.
pub const IC_TYPE_TIMESTAMP: i32 = 27;
/// MySQL's binary decimal.
pub const IC_TYPE_DECIMAL: i32 = 29;
/// MySQL's binary decimal, never negative.
pub const IC_TYPE_DECIMALUNSIGNED: i32 = 30;
/// 3 bytes and fraction, big endian.
pub const IC_TYPE_TIME2: i32 = 31;
/// 5 bytes and fraction, big endian.
pub const IC_TYPE_DATETIME2: i32 = 32;
/// 4 bytes and fraction, big endian.
pub const IC_TYPE_TIMESTAMP2: i32 = 33;

/// The collation of character columns that name none: bytes.
const BINARY: u32 = 63;

/// A table's definition as it was when the table was opened. Shared by all threads of the program.
pub struct TableDef {
    pub(crate) table: Arc<Table>,
    /// Whether the definition still holds.
    pub(crate) standing: Arc<Standing>,
    names: Vec<CString>,
    shared: Arc<Shared>,
}

impl Handle for TableDef {
    const KIND: u32 = 0x4943_5442;
}

impl Drop for TableDef {
    fn drop(&mut self) {
        self.shared.tables.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Names of tables, as they were when they were listed.
pub struct TableList {
    tables: Vec<(CString, CString)>,
}

impl Handle for TableList {
    const KIND: u32 = 0x4943_544c;
}

fn c_string(bytes: &[u8]) -> CString {
    let bytes: Vec<u8> = bytes.iter().copied().filter(|&byte| byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

/// # Safety
/// Both are NULL or NUL-terminated strings.
unsafe fn names<'a>(database: *const c_char, name: *const c_char) -> Result<(&'a str, &'a str), i32> {
    // SAFETY: this function's own condition.
    let (database, name) = unsafe { (text(database)?, text(name)?) };
    Ok((database.ok_or(own::INVALID_ARGUMENT)?, name.ok_or(own::INVALID_ARGUMENT)?))
}

/// Opens a table by its names. The first open of a table asks a data node for its definition, which is kept;
/// later ones cost nothing until the library learns that it has changed.
/// database, name: exact, as bytes of UTF-8. Copied.
/// table: receives the handle, to be freed with ic_apid_table_close before the cluster handle.
/// Threads: any; blocks until a data node answers, up to 120 s, and while another thread's dictionary call
///   (open, create, drop, list) is under way.
/// Returns 0; 723 if there is no such table; 4008, 4009 or 4013 if no data node answered; -24 for an
///   impossible name; -14 if not connected. The error text names the table.
/// See also ic_apid_table_close, ic_record_create, ic_apid_query_create, ic_apid_table_list.
///
/// # Safety
/// Pointers are valid as described.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_table_open(
    glob: *mut ApidGlobal,
    database: *const c_char,
    name: *const c_char,
    table: *mut *mut TableDef,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let shared = unsafe { borrow(glob.cast_const()) }?.shared()?;
        // SAFETY: the caller's duty.
        let (database, name) = unsafe { names(database, name) }?;
        if table.is_null() {
            return Err(own::INVALID_ARGUMENT);
        }
        let (definition, standing) = shared.with_dictionary(|client| client.open(database, name))?;
        shared.tables.fetch_add(1, Ordering::AcqRel);
        let handle = give(TableDef {
            names: definition.columns.iter().map(|column| c_string(&column.name)).collect(),
            table: definition,
            standing,
            shared,
        });
        // SAFETY: the caller's duty; not NULL.
        unsafe { put(table, handle) }
    })
}

/// Frees a table handle. Queries and records made with it go on.
/// table: NULL does nothing.
/// Threads: any, but no other may use the handle; blocks never.
/// Returns 0.
/// See also ic_apid_table_open.
///
/// # Safety
/// table is NULL or a table handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_table_close(table: *mut TableDef) -> i32 {
    guard(|| {
        if !table.is_null() {
            // SAFETY: the caller's duty.
            unsafe { take_back(table) }?;
        }
        Ok(())
    })
}

/// How many columns a table has.
/// Threads: any; blocks never.
/// Returns the number; 0 for something else than a table.
/// See also ic_table_column.
///
/// # Safety
/// table is a table handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_table_column_count(table: *const TableDef) -> u32 {
    // SAFETY: the caller's duty.
    guard_with(|_| 0, || unsafe { borrow(table) }.map_or(0, |table| table.table.columns.len() as u32))
}

/// Describes a column.
/// index: from 0, below ic_table_column_count.
/// column: receives the description; its name is valid as long as the table handle.
/// column_size: sizeof *column.
/// Threads: any; blocks never.
/// Returns 0; -1 for an index out of range.
/// See also ic_table_column_count, ic_record_field.
///
/// # Safety
/// table is a table handle; column is valid for column_size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_table_column(
    table: *const TableDef,
    index: u32,
    column: *mut ColumnSpec,
    column_size: usize,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let table = unsafe { borrow(table) }?;
        let index = index as usize;
        let (described, name) = match (table.table.columns.get(index), table.names.get(index)) {
            (Some(described), Some(name)) => (described, name),
            _ => return Err(own::INVALID_ARGUMENT),
        };
        if column.is_null() || column_size < size_of::<*const c_char>() {
            return Err(own::INVALID_ARGUMENT);
        }
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let spec = ColumnSpec {
            name: name.as_ptr(),
            kind: described.kind as i32,
            length: described.length,
            precision: described.precision,
            scale: described.scale,
            charset: described.charset,
            flags: flag(described.primary_key, IC_COLUMN_PRIMARY_KEY)
                | flag(described.nullable, IC_COLUMN_NULLABLE)
                | flag(described.distribution_key, IC_COLUMN_DISTRIBUTION_KEY)
                | flag(described.dynamic, IC_COLUMN_DYNAMIC),
            row_bytes: described.size,
        };
        let known = column_size.min(size_of::<ColumnSpec>());
        // SAFETY: the caller's duty: column_size bytes are writable.
        unsafe { std::ptr::copy_nonoverlapping((&raw const spec).cast::<u8>(), column.cast::<u8>(), known) };
        Ok(())
    })
}

/// Sets table arguments to their defaults: logged, no read backup, not fully replicated.
/// args: NULL does nothing.
/// size: sizeof *args.
/// Threads: any; blocks never.
/// See also ic_apid_table_create.
///
/// # Safety
/// args is NULL or valid for size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_table_args_init(args: *mut TableArgs, size: usize) {
    // SAFETY: the caller's duty.
    guard_with(|_| (), || unsafe { init(args, size) })
}

/// Creates a table. MySQL servers do not see it.
/// database, name: not empty, UTF-8, without a slash. Copied; a database need not exist before.
/// columns: count of them, in order, at least one of them IC_COLUMN_PRIMARY_KEY. Set what you do not use to
///   0.
/// count: how many columns.
/// column_size: sizeof *columns.
/// args: NULL for all defaults.
/// Threads: any; blocks until the data nodes have made it or refused, mostly well below a second, for a step
///   up to 120 s, for the last one up to an hour, and while another thread's dictionary call is under way.
/// Returns 0; 721 if a table of that name exists; -26 for an inconsistent definition; -24 for an impossible
///   name; other codes of the data nodes; 4008, 4009 or 4013 if no data node answered; 4012 if it may have
///   been made or not; -14 if not connected. The error text says more.
/// See also ic_table_args_init, ic_apid_table_open, ic_apid_table_drop.
///
/// # Safety
/// Pointers are valid as described.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_table_create(
    glob: *mut ApidGlobal,
    database: *const c_char,
    name: *const c_char,
    columns: *const ColumnSpec,
    count: u32,
    column_size: usize,
    args: *const TableArgs,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let shared = unsafe { borrow(glob.cast_const()) }?.shared()?;
        // SAFETY: the caller's duty.
        let ((database, name), args) = unsafe { (names(database, name)?, read(args)?) };
        if columns.is_null() || count == 0 || column_size < size_of::<ColumnSpec>() {
            return Err(own::INVALID_ARGUMENT);
        }
        let mut new_columns = Vec::new();
        for index in 0..count as usize {
            // SAFETY: the caller's duty: there are `count` of them, `column_size` bytes apart.
            let spec = unsafe { columns.byte_add(index * column_size).read_unaligned() };
            // SAFETY: the caller's duty.
            new_columns.push(unsafe { new_column(&spec) }.map_err(|error| shared.failed(error))?);
        }
        let table = NewTable {
            logged: args.logged != 0,
            read_backup: args.read_backup != 0,
            fully_replicated: args.fully_replicated != 0,
            ..NewTable::new(database, name, new_columns)
        };
        shared.with_dictionary(|client| client.create(&table))
    })
}

/// # Safety
/// The name is NULL or a NUL-terminated string.
unsafe fn new_column(spec: &ColumnSpec) -> Result<NewColumn, Error> {
    // SAFETY: this function's own condition.
    let name = unsafe { text(spec.name) }
        .ok()
        .flatten()
        .ok_or_else(|| Error::new(own::INVALID_NAME, "a column's name is NULL or no UTF-8"))?;
    let kind = u32::try_from(spec.kind).ok().and_then(ColumnType::from_number);
    let kind = kind
        .ok_or_else(|| Error::new(own::INVALID_TABLE, format!("column {name}: {} is no type", spec.kind)))?;
    let flag = |flag: u32| spec.flags & flag != 0;
    Ok(NewColumn {
        length: spec.length.max(1),
        precision: spec.precision,
        scale: spec.scale,
        charset: if kind.is_character() && spec.charset == 0 { BINARY } else { spec.charset },
        nullable: flag(IC_COLUMN_NULLABLE),
        primary_key: flag(IC_COLUMN_PRIMARY_KEY),
        distribution_key: flag(IC_COLUMN_DISTRIBUTION_KEY),
        dynamic: flag(IC_COLUMN_DYNAMIC),
        ..NewColumn::new(name, kind)
    })
}

/// Drops a table, its indexes and blob tables first. Open handles of it stay to be closed; operations on it
/// fail.
/// database, name: as for ic_apid_table_open.
/// Threads: any; blocks as ic_apid_table_create.
/// Returns 0; 723 if there is no such table; -13 if a foreign key depends on it; other codes of the data
///   nodes; 4008, 4009 or 4013 if no data node answered; 4012 if it may have been dropped or not; -24 for an
///   impossible name; -14 if not connected. The error text says more.
/// See also ic_apid_table_create.
///
/// # Safety
/// Pointers are valid as described.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_table_drop(
    glob: *mut ApidGlobal,
    database: *const c_char,
    name: *const c_char,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let shared = unsafe { borrow(glob.cast_const()) }?.shared()?;
        // SAFETY: the caller's duty.
        let (database, name) = unsafe { names(database, name) }?;
        shared.with_dictionary(|client| client.drop(database, name))
    })
}

/// Lists the tables of users, those of MySQL servers too, sorted by database and name.
/// database: NULL for all databases.
/// list: receives the list, to be freed with ic_table_list_free. It needs the cluster handle no more.
/// Threads: any; blocks as ic_apid_table_open.
/// Returns 0; 4008, 4009 or 4013 if no data node answered; -24 for a name that is no UTF-8; -14 if not
///   connected.
/// See also ic_table_list_count, ic_table_list_database, ic_table_list_name, ic_table_list_free.
///
/// # Safety
/// Pointers are valid as described.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_table_list(
    glob: *mut ApidGlobal,
    database: *const c_char,
    list: *mut *mut TableList,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let shared = unsafe { borrow(glob.cast_const()) }?.shared()?;
        // SAFETY: the caller's duty.
        let database = unsafe { text(database) }?;
        if list.is_null() {
            return Err(own::INVALID_ARGUMENT);
        }
        let found = shared.with_dictionary(|client| client.list(database))?;
        let tables = found.iter().map(|table| (c_string(&table.database), c_string(&table.name))).collect();
        let handle = give(TableList { tables });
        // SAFETY: the caller's duty; not NULL.
        unsafe { put(list, handle) }
    })
}

/// How many tables a list has.
/// Threads: any; blocks never.
/// Returns the number; 0 for something else than a list.
/// See also ic_table_list_name.
///
/// # Safety
/// list is a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_table_list_count(list: *const TableList) -> u32 {
    // SAFETY: the caller's duty.
    guard_with(|_| 0, || unsafe { borrow(list) }.map_or(0, |list| list.tables.len() as u32))
}

/// The database of a table in a list.
/// index: from 0, below ic_table_list_count.
/// Threads: any; blocks never.
/// Returns the name, valid as long as the list; NULL for an index beyond it.
/// See also ic_table_list_name.
///
/// # Safety
/// list is a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_table_list_database(list: *const TableList, index: u32) -> *const c_char {
    // SAFETY: the caller's duty.
    unsafe { listed(list, index, |(database, _)| database) }
}

/// The name of a table in a list.
/// index: from 0, below ic_table_list_count.
/// Threads: any; blocks never.
/// Returns the name, valid as long as the list; NULL for an index beyond it.
/// See also ic_table_list_database.
///
/// # Safety
/// list is a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_table_list_name(list: *const TableList, index: u32) -> *const c_char {
    // SAFETY: the caller's duty.
    unsafe { listed(list, index, |(_, name)| name) }
}

/// # Safety
/// list is a list.
unsafe fn listed(
    list: *const TableList,
    index: u32,
    part: fn(&(CString, CString)) -> &CString,
) -> *const c_char {
    guard_with(
        |_| std::ptr::null(),
        || {
            // SAFETY: this function's own condition.
            let list = unsafe { borrow(list) }.ok();
            let name: Option<&CStr> =
                list.and_then(|list| list.tables.get(index as usize)).map(|t| part(t).as_ref());
            name.map_or(std::ptr::null(), CStr::as_ptr)
        },
    )
}

/// Frees a list, and the names in it.
/// list: NULL does nothing.
/// Threads: any, but no other may use the list; blocks never.
/// Returns 0.
/// See also ic_apid_table_list.
///
/// # Safety
/// list is NULL or a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_table_list_free(list: *mut TableList) -> i32 {
    guard(|| {
        if !list.is_null() {
            // SAFETY: the caller's duty.
            unsafe { take_back(list) }?;
        }
        Ok(())
    })
}

impl TableDef {
    /// Keeps an error's text for the cluster handle; gives its code.
    pub(crate) fn failed(&self, error: Error) -> i32 {
        self.shared.failed(error)
    }
}
