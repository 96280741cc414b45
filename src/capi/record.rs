//! Records: which column stands where in a row.

use std::ffi::c_char;
use std::sync::Arc;

use super::args::RecordField;
use super::handle::{Handle, borrow, give, take_back};
use super::table::TableDef;
use super::{guard, guard_with, put, text};
use crate::dict::record::{self, ColumnRef, FieldSpec};
use crate::dict::table::Table;
use crate::error::own;

/// A mapping of columns of one table to places in a C struct. Shared by all threads of the program.
pub struct Record {
    pub(crate) record: Arc<record::Record>,
    table: Arc<Table>,
}

impl Handle for Record {
    const KIND: u32 = 0x4943_5243;
}

fn handle(table: &Arc<Table>, record: record::Record) -> *mut Record {
    give(Record { record: Arc::new(record), table: table.clone() })
}

/// Creates a record from the places of columns in a struct of the caller's. Columns that are not named are
/// not read and not written. A record that holds the whole primary key can be the key record of a query.
/// fields: count of them, in any order; offsetof gives the offsets. Copied, the names too.
/// count: how many fields.
/// field_size: sizeof *fields.
/// row_size: bytes of the caller's struct, padding included: its sizeof.
/// rec: receives the record, to be freed with ic_record_free.
/// Threads: any; blocks never.
/// Returns 0; -18 for a column the table has not; -19 for fields or NULL bits that overlap or lie outside the
///   row; -20 for a BLOB or TEXT column. The error text of the table's cluster handle names the column.
/// See also ic_record_create_natural, ic_apid_query_create.
///
/// # Safety
/// Pointers are valid as described.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_record_create(
    table: *const TableDef,
    fields: *const RecordField,
    count: u32,
    field_size: usize,
    row_size: u32,
    rec: *mut *mut Record,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let table = unsafe { borrow(table) }?;
        if rec.is_null() || fields.is_null() || field_size < size_of::<RecordField>() {
            return Err(own::INVALID_ARGUMENT);
        }
        let mut specs = Vec::new();
        for index in 0..count as usize {
            // SAFETY: the caller's duty: there are `count` of them, `field_size` bytes apart.
            let field = unsafe { fields.byte_add(index * field_size).read_unaligned() };
            // SAFETY: the caller's duty.
            let name = unsafe { text(field.name) }?.ok_or(own::INVALID_ARGUMENT)?;
            let nullable = table.table.column(name.as_bytes()).is_some_and(|column| column.nullable);
            let bit = u8::try_from(field.null_bit).unwrap_or(u8::MAX);
            specs.push(FieldSpec {
                column: ColumnRef::Name(name.as_bytes()),
                offset: field.offset,
                null: nullable.then_some((field.null_byte, bit)),
            });
        }
        let record = record::Record::new(&table.table, row_size, &specs);
        let record = record.map_err(|error| table.failed(error))?;
        // SAFETY: the caller's duty; not NULL.
        unsafe { put(rec, handle(&table.table, record)) }
    })
}

/// Creates a record of all columns but BLOB and TEXT, laid out as a C compiler lays out a struct with them in
/// order: numbers at their natural alignment, variable-length values as byte arrays, then bytes for NULL
/// bits.
/// rec: receives the record, to be freed with ic_record_free.
/// Threads: any; blocks never.
/// Returns 0.
/// See also ic_record_field, ic_record_row_size, ic_record_create.
///
/// # Safety
/// Pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_record_create_natural(table: *const TableDef, rec: *mut *mut Record) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let table = unsafe { borrow(table) }?;
        if rec.is_null() {
            return Err(own::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's duty; not NULL.
        unsafe { put(rec, handle(&table.table, record::Record::natural(&table.table))) }
    })
}

/// Frees a record. Queries made with it go on.
/// rec: NULL does nothing.
/// Threads: any, but no other may use the record; blocks never.
/// Returns 0.
/// See also ic_record_create.
///
/// # Safety
/// rec is NULL or a record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_record_free(rec: *mut Record) -> i32 {
    guard(|| {
        if !rec.is_null() {
            // SAFETY: the caller's duty.
            unsafe { take_back(rec) }?;
        }
        Ok(())
    })
}

/// How long a row of the record is.
/// Threads: any; blocks never.
/// Returns the number of bytes; 0 for something else than a record.
/// See also ic_record_field.
///
/// # Safety
/// rec is a record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_record_row_size(rec: *const Record) -> u32 {
    // SAFETY: the caller's duty.
    guard_with(|_| 0, || unsafe { borrow(rec) }.map_or(0, |rec| rec.record.row_size() as u32))
}

/// Where a column stands in a row.
/// column: the column's name.
/// field: receives the place, its name NULL; of a column that is never NULL the NULL byte and bit are 0 and
///   mean nothing.
/// Threads: any; blocks never.
/// Returns 0; -18 if the column is not in the record.
/// See also ic_record_row_size, ic_table_column.
///
/// # Safety
/// Pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_record_field(
    rec: *const Record,
    column: *const c_char,
    field: *mut RecordField,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let rec = unsafe { borrow(rec) }?;
        // SAFETY: the caller's duty.
        let name = unsafe { text(column) }?.ok_or(own::INVALID_ARGUMENT)?;
        let column = rec.table.column(name.as_bytes()).ok_or(own::NO_SUCH_COLUMN)?;
        let found = rec.record.field(column.id).ok_or(own::NO_SUCH_COLUMN)?;
        let (null_byte, null_bit) = found.null.unwrap_or((0, 0));
        let place = RecordField {
            name: std::ptr::null(),
            offset: found.offset,
            null_byte,
            null_bit: null_bit as u32,
        };
        // SAFETY: the caller's duty.
        unsafe { put(field, place) }
    })
}
