//! A panic in any export is caught: each is called once with a panic forced behind its guard.

use std::cell::Cell;

thread_local!(static PANIC: Cell<bool> = const { Cell::new(false) });

pub(super) fn panic_if_asked() {
    if PANIC.with(Cell::get) {
        panic!("forced by a test");
    }
}

/// Every code and class of the error table has its constant in the header, with the same number.
#[test]
fn codes_have_constants() {
    let source = include_str!("errors.rs");
    let constants = |prefix: &str| -> Vec<i32> {
        let lines = source.lines().filter_map(|line| line.strip_prefix("pub const "));
        let mut numbers: Vec<i32> = lines
            .filter(|line| line.starts_with(prefix) && line.contains("_CLASS_") == prefix.contains("_CLASS_"))
            .filter_map(|line| line.split_once("= ")?.1.trim_end_matches(';').parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers
    };
    let mut own: Vec<i32> = crate::error::own::TABLE.iter().map(|entry| entry.0).collect();
    own.sort_unstable();
    assert_eq!(constants("IC_ERROR_"), own);
    assert_eq!(
        constants("IC_ERROR_CLASS_"),
        (0..=crate::error::Class::NotImplemented as i32).collect::<Vec<_>>()
    );
}

/// Every export of the header, each with arguments that do nothing if its guard fails to catch.
mod exports {
    use super::super::{
        connection::*, errors::*, explain::*, global::*, log::*, multi_read::*, record::*, retry::*,
        statistics::*, table::*,
    };
    use crate::error::own;
    use std::ffi::c_void;
    use std::ptr::{null, null_mut};

    const INTERNAL: i32 = own::INTERNAL;

    /// Name, and whether the call answered as it must when it panics.
    type Export = (&'static str, fn() -> bool);

    macro_rules! exports {
        ($list:ident: $($name:ident($($arg:expr),*) => $test:expr;)*) => {
            pub(super) const $list: &[Export] = &[$(
                (stringify!($name), || {
                    // SAFETY: NULL and 0 are allowed everywhere: each export checks them.
                    #[allow(unused_unsafe, reason = "some exports are safe")]
                    let answer = unsafe { $name($($arg),*) };
                    #[allow(clippy::redundant_closure_call, reason = "the closure is the table's notation")]
                    ($test)(answer)
                }),
            )*];
        };
    }

    exports! { ALWAYS:
        ic_version() => |v| v == 0;
        ic_version_text() => |t: *const i8| t.is_null();
        ic_error_message(626) => |t: *const i8| !t.is_null();
        ic_error_is_temporary(266) => |b: bool| !b;
        ic_error_is_unknown_result(4012) => |b: bool| !b;
        ic_error_class(626) => |c| c == crate::error::Class::Internal as i32;
        ic_error_advice(626) => |t: *const i8| !t.is_null();
        ic_error_explain(626, null_mut(), 0) => |c| c == INTERNAL;
        ic_apid_query_explain(null_mut(), 0, null_mut(), 0) => |c| c == INTERNAL;
        ic_apid_transaction_explain(null_mut(), 0, null_mut(), 0) => |c| c == INTERNAL;
        ic_retry_init(null_mut(), 0) => |()| true;
        ic_retry_next(null_mut(), 0, null_mut()) => |c| c == INTERNAL;
        ic_apid_global_create(null_mut()) => |c| c == INTERNAL;
        ic_apid_global_free(null_mut()) => |c| c == INTERNAL;
        ic_connect_args_init(null_mut(), 0) => |()| true;
        ic_apid_global_connect(null_mut(), null(), null()) => |c| c == INTERNAL;
        ic_apid_global_disconnect(null_mut()) => |c| c == INTERNAL;
        ic_apid_global_error_text(null()) => |t: *const i8| t.is_null();
        ic_apid_global_wait_usable(null_mut(), 0, 0) => |c| c == INTERNAL;
        ic_apid_global_node_count(null_mut()) => |n| n == 0;
        ic_apid_global_node_state(null_mut(), 0, null_mut()) => |c| c == INTERNAL;
        ic_apid_global_node_id(null_mut()) => |n| n == 0;
        ic_apid_table_open(null_mut(), null(), null(), null_mut()) => |c| c == INTERNAL;
        ic_apid_table_close(null_mut()) => |c| c == INTERNAL;
        ic_table_column_count(null()) => |n| n == 0;
        ic_table_column(null(), 0, null_mut(), 0) => |c| c == INTERNAL;
        ic_table_args_init(null_mut(), 0) => |()| true;
        ic_apid_table_create(null_mut(), null(), null(), null(), 0, 0, null()) => |c| c == INTERNAL;
        ic_apid_table_drop(null_mut(), null(), null()) => |c| c == INTERNAL;
        ic_apid_table_list(null_mut(), null(), null_mut()) => |c| c == INTERNAL;
        ic_table_list_count(null()) => |n| n == 0;
        ic_table_list_database(null(), 0) => |t: *const i8| t.is_null();
        ic_table_list_name(null(), 0) => |t: *const i8| t.is_null();
        ic_table_list_free(null_mut()) => |c| c == INTERNAL;
        ic_record_create(null(), null(), 0, 0, 0, null_mut()) => |c| c == INTERNAL;
        ic_record_create_natural(null(), null_mut()) => |c| c == INTERNAL;
        ic_record_free(null_mut()) => |c| c == INTERNAL;
        ic_record_row_size(null()) => |n| n == 0;
        ic_record_field(null(), null(), null_mut()) => |c| c == INTERNAL;
        ic_apid_conn_create(null_mut(), null_mut()) => |c| c == INTERNAL;
        ic_apid_conn_free(null_mut()) => |c| c == INTERNAL;
        ic_apid_conn_send(null_mut(), false) => |c| c == INTERNAL;
        ic_apid_conn_poll(null_mut(), 0, null_mut()) => |c| c == INTERNAL;
        ic_apid_conn_flush(null_mut(), 0, false, null_mut()) => |c| c == INTERNAL;
        ic_apid_conn_set_poll_min(null_mut(), 1) => |c| c == INTERNAL;
        ic_multi_read_args_init(null_mut(), 0) => |()| true;
        ic_apid_conn_multi_read(null_mut(), null(), 0, null(), null_mut()) => |c| c == INTERNAL;
        ic_apid_conn_multi_read_rows(
            null_mut(), null_mut(), null_mut(), null_mut(), null(), null_mut(), 0, null(), null_mut()
        ) => |c| c == INTERNAL;
        ic_apid_conn_get_next_executed_multi_read(null_mut(), null_mut()) => |c: bool| !c;
        ic_apid_multi_read_error(null_mut(), 0) => |c| c == INTERNAL;
        ic_apid_multi_read_found(null_mut(), 0) => |c| c == 0;
        ic_apid_multi_read_key_state(null_mut(), 0, 0) => |c| c == INTERNAL;
        ic_apid_multi_read_key_error(null_mut(), 0, 0) => |c| c == INTERNAL;
        ic_apid_multi_read_user_ref(null_mut(), 0) => |c: *mut c_void| c.is_null();
        ic_apid_multi_read_close(null_mut(), 0) => |c| c == INTERNAL;
        ic_apid_conn_set_deadline(null_mut(), 1) => |c| c == INTERNAL;
        ic_apid_transaction_set_deadline(null_mut(), 0, 1) => |c| c == INTERNAL;
        ic_apid_conn_fd(null_mut()) => |c| c == INTERNAL;
        ic_apid_conn_set_max_in_flight(null_mut(), 1) => |c| c == INTERNAL;
        ic_apid_conn_stats(null_mut(), null_mut()) => |c| c == INTERNAL;
        ic_apid_global_stats(null_mut(), null_mut()) => |c| c == INTERNAL;
        ic_stats_print(null_mut(), 0, null_mut(), 0, null_mut()) => |c| c == INTERNAL;
        ic_set_log(None, 0, null_mut()) => |c| c == INTERNAL;
        ic_set_signal_trace(null()) => |c| c == INTERNAL;
        ic_apid_query_create(null_mut(), null_mut(), null_mut(), null_mut(), null_mut()) => |c| c == INTERNAL;
        ic_apid_query_free(null_mut(), 0) => |c| c == INTERNAL;
        ic_apid_query_key_row(null_mut(), 0, null_mut()) => |r: *mut u8| r.is_null();
        ic_apid_query_attr_row(null_mut(), 0, null_mut()) => |r: *mut u8| r.is_null();
        ic_apid_query_error(null_mut(), 0) => |c| c == INTERNAL;
        ic_apid_query_user_ref(null_mut(), 0) => |r: *mut std::ffi::c_void| r.is_null();
        ic_apid_conn_get_next_executed_query(null_mut(), null_mut()) => |b: bool| !b;
        ic_apid_conn_hint_for_key(null_mut(), null_mut(), null_mut(), null(), 0) => |h| h == 0;
        ic_apid_conn_start_transaction(null_mut(), 0, null_mut(), null_mut()) => |c| c == INTERNAL;
        ic_write_key_args_init(null_mut(), 0) => |()| true;
        ic_read_key_args_init(null_mut(), 0) => |()| true;
        ic_apid_conn_write_key(null_mut(), 0, 0, null()) => |c| c == INTERNAL;
        ic_apid_conn_read_key(null_mut(), 0, 0, null()) => |c| c == INTERNAL;
        ic_apid_conn_commit_transaction(null_mut(), 0) => |c| c == INTERNAL;
        ic_apid_conn_rollback_transaction(null_mut(), 0) => |c| c == INTERNAL;
        ic_apid_conn_close_transaction(null_mut(), 0) => |c| c == INTERNAL;
        ic_apid_transaction_error(null_mut(), 0) => |c| c == INTERNAL;
        ic_apid_transaction_state(null_mut(), 0) => |c| c == INTERNAL;
        ic_apid_conn_write_key_sync(null_mut(), 0, null(), 0) => |c| c == INTERNAL;
        ic_apid_conn_read_key_sync(null_mut(), 0, null(), 0) => |c| c == INTERNAL;
    }

    #[cfg(not(feature = "embedded"))]
    pub(super) const EMBEDDED: &[Export] = &[];

    #[cfg(feature = "embedded")]
    use super::super::embedded::*;

    #[cfg(feature = "embedded")]
    exports! { EMBEDDED:
        ic_embedded_args_init(null_mut(), 0) => |()| true;
        ic_embedded_start(null(), null_mut()) => |c| c == INTERNAL;
        ic_embedded_error_text() => |t: *const i8| t.is_null();
        ic_embedded_connectstring(null()) => |t: *const i8| t.is_null();
        ic_embedded_stop(null_mut()) => |c| c == INTERNAL;
        ic_embedded_kill_node(null_mut(), 0) => |c| c == INTERNAL;
        ic_embedded_restart_node(null_mut(), 0) => |c| c == INTERNAL;
        ic_embedded_drop_link(null_mut(), 0, 0, null_mut()) => |c| c == INTERNAL;
        ic_embedded_send_garbage(null_mut(), 0, null_mut()) => |c| c == INTERNAL;
        ic_embedded_stall(null_mut(), 0, 0, null_mut()) => |c| c == INTERNAL;
        ic_embedded_delay(null_mut(), 0, 0, null_mut()) => |c| c == INTERNAL;
        ic_embedded_fail_operation(null_mut(), 0, 0, 0, null_mut()) => |c| c == INTERNAL;
        ic_embedded_refuse_node_ids(null_mut(), 0, null_mut()) => |c| c == INTERNAL;
        ic_embedded_fault_consumed(null(), 0) => |b: bool| !b;
    }
}

#[test]
fn every_export_catches_a_panic() {
    let header = include_str!("../../include/iclaustron/ic_apid.h");
    let mut declared: Vec<&str> = header
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("ic_") && header.contains(&format!("{word}(")))
        .collect();
    // The header declares these always.
    declared.retain(|name| cfg!(feature = "embedded") || !name.starts_with("ic_embedded_"));
    declared.sort_unstable();
    declared.dedup();
    let all = || exports::ALWAYS.iter().chain(exports::EMBEDDED);
    let mut called: Vec<&str> = all().map(|export| export.0).collect();
    called.sort_unstable();
    assert_eq!(called, declared);
    std::panic::set_hook(Box::new(|_| ()));
    PANIC.with(|panic| panic.set(true));
    let failed: Vec<&str> = all().filter(|export| !(export.1)()).map(|export| export.0).collect();
    PANIC.with(|panic| panic.set(false));
    let _ = std::panic::take_hook();
    assert!(failed.is_empty(), "{failed:?}");
}
