/*
 * Every exported function: its address can be taken, and called with nothing but NULL and 0 it gives the error
 * that the header says. C and C++. The runner sees to it that none is missing here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iclaustron/ic_apid.h>

typedef void (*address)(void);

static address addresses[128];
static size_t count;

static void check(int good, const char *what)
{
  if (!good) {
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
  }
}

static void take(address function, const char *name)
{
  size_t i;

  check(function != NULL, name);
  for (i = 0; i < count; i++)
    check(addresses[i] != function, name);
  addresses[count++] = function;
}

/* A function with a result, and one without. */
#define GIVES(wanted, function, arguments)                                                                  \
  do {                                                                                                      \
    take((address)function, #function);                                                                     \
    check(function arguments == (wanted), #function #arguments " == " #wanted);                             \
  } while (0)
#define DOES_NOTHING(function, arguments)                                                                   \
  do {                                                                                                      \
    take((address)function, #function);                                                                     \
    function arguments;                                                                                     \
  } while (0)

#define INVALID IC_ERROR_INVALID_ARGUMENT

static void versions_and_errors(void)
{
  GIVES((uint32_t)(IC_VERSION_MAJOR << 16 | IC_VERSION_MINOR << 8 | IC_VERSION_PATCH), ic_version, ());
  take((address)ic_version_text, "ic_version_text");
  check(strlen(ic_version_text()) >= 5, "ic_version_text");
  take((address)ic_error_message, "ic_error_message");
  check(*ic_error_message(0) != '\0', "a message for 0");
  check(*ic_error_message(INT32_MIN) != '\0', "a message for an unknown code");
  GIVES(false, ic_error_is_temporary, (0));
  GIVES(false, ic_error_is_unknown_result, (0));
  GIVES(IC_ERROR_CLASS_NONE, ic_error_class, (0));
  take((address)ic_error_advice, "ic_error_advice");
  check(*ic_error_advice(0) != '\0', "advice for 0");
  check(*ic_error_advice(INT32_MIN) != '\0', "advice for an unknown code");
  GIVES((int32_t)strlen(ic_error_message(0)), ic_error_explain, (0, NULL, 0));
  GIVES(INVALID, ic_apid_query_explain, (NULL, 0, NULL, 0));
  GIVES(INVALID, ic_apid_transaction_explain, (NULL, 0, NULL, 0));
  DOES_NOTHING(ic_retry_init, (NULL, 0));
  GIVES(INVALID, ic_retry_next, (NULL, 0, NULL));
}

static void clusters(void)
{
  GIVES(INVALID, ic_apid_global_create, (NULL));
  GIVES(0, ic_apid_global_free, (NULL));
  DOES_NOTHING(ic_connect_args_init, (NULL, 0));
  GIVES(INVALID, ic_apid_global_connect, (NULL, NULL, NULL));
  GIVES(INVALID, ic_apid_global_disconnect, (NULL));
  GIVES((const char *)NULL, ic_apid_global_error_text, (NULL));
  GIVES(INVALID, ic_apid_global_wait_usable, (NULL, 0, 0));
  GIVES(0u, ic_apid_global_node_count, (NULL));
  GIVES(INVALID, ic_apid_global_node_state, (NULL, 0, NULL));
  GIVES(0u, ic_apid_global_node_id, (NULL));
  GIVES(INVALID, ic_apid_global_stats, (NULL, NULL));
  GIVES(INVALID, ic_stats_print, (NULL, IC_STATS_FORMAT_TEXT, NULL, 0, NULL));
  GIVES(INVALID, ic_set_log, (NULL, 99, NULL));
  GIVES(0, ic_set_signal_trace, (NULL));
}

static void tables_and_records(void)
{
  GIVES(INVALID, ic_apid_table_open, (NULL, NULL, NULL, NULL));
  GIVES(0, ic_apid_table_close, (NULL));
  GIVES(0u, ic_table_column_count, (NULL));
  GIVES(INVALID, ic_table_column, (NULL, 0, NULL, 0));
  DOES_NOTHING(ic_table_args_init, (NULL, 0));
  GIVES(INVALID, ic_apid_table_create, (NULL, NULL, NULL, NULL, 0, 0, NULL));
  GIVES(INVALID, ic_apid_table_drop, (NULL, NULL, NULL));
  GIVES(INVALID, ic_apid_table_list, (NULL, NULL, NULL));
  GIVES(0u, ic_table_list_count, (NULL));
  GIVES((const char *)NULL, ic_table_list_database, (NULL, 0));
  GIVES((const char *)NULL, ic_table_list_name, (NULL, 0));
  GIVES(0, ic_table_list_free, (NULL));
  GIVES(INVALID, ic_record_create, (NULL, NULL, 0, 0, 0, NULL));
  GIVES(INVALID, ic_record_create_natural, (NULL, NULL));
  GIVES(0, ic_record_free, (NULL));
  GIVES(0u, ic_record_row_size, (NULL));
  GIVES(INVALID, ic_record_field, (NULL, NULL, NULL));
}

static void connections(void)
{
  GIVES(INVALID, ic_apid_conn_create, (NULL, NULL));
  GIVES(0, ic_apid_conn_free, (NULL));
  GIVES(INVALID, ic_apid_conn_send, (NULL, false));
  GIVES(INVALID, ic_apid_conn_poll, (NULL, 0, NULL));
  GIVES(INVALID, ic_apid_conn_flush, (NULL, 0, false, NULL));
  GIVES(INVALID, ic_apid_conn_stats, (NULL, NULL));
  GIVES(INVALID, ic_apid_conn_set_max_in_flight, (NULL, 1));
  GIVES(INVALID, ic_apid_conn_set_poll_min, (NULL, 1));
  GIVES(INVALID, ic_apid_conn_set_deadline, (NULL, 1));
  GIVES(INVALID, ic_apid_conn_multi_read, (NULL, NULL, 0, NULL, NULL));
  GIVES(INVALID, ic_apid_conn_multi_read_rows, (NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL));
  GIVES(false, ic_apid_conn_get_next_executed_multi_read, (NULL, NULL));
  GIVES(INVALID, ic_apid_multi_read_error, (NULL, 0));
  GIVES(0, ic_apid_multi_read_found, (NULL, 0));
  GIVES(INVALID, ic_apid_multi_read_key_state, (NULL, 0, 0));
  GIVES(INVALID, ic_apid_multi_read_key_error, (NULL, 0, 0));
  GIVES((void *)NULL, ic_apid_multi_read_user_ref, (NULL, 0));
  GIVES(INVALID, ic_apid_multi_read_close, (NULL, 0));
  GIVES(INVALID, ic_apid_transaction_set_deadline, (NULL, 0, 1));
  GIVES(INVALID, ic_apid_conn_fd, (NULL));
  GIVES(false, ic_apid_conn_get_next_executed_query, (NULL, NULL));
  GIVES(0u, ic_apid_conn_hint_for_key, (NULL, NULL, NULL, NULL, 0));
}

static void queries_and_transactions(void)
{
  GIVES(INVALID, ic_apid_query_create, (NULL, NULL, NULL, NULL, NULL));
  GIVES(INVALID, ic_apid_query_free, (NULL, 0));
  GIVES((uint8_t *)NULL, ic_apid_query_key_row, (NULL, 0, NULL));
  GIVES((uint8_t *)NULL, ic_apid_query_attr_row, (NULL, 0, NULL));
  GIVES(INVALID, ic_apid_query_error, (NULL, 0));
  GIVES((void *)NULL, ic_apid_query_user_ref, (NULL, 0));
  GIVES(INVALID, ic_apid_conn_start_transaction, (NULL, 0, NULL, NULL));
  DOES_NOTHING(ic_write_key_args_init, (NULL, 0));
  DOES_NOTHING(ic_read_key_args_init, (NULL, 0));
  DOES_NOTHING(ic_multi_read_args_init, (NULL, 0));
  GIVES(INVALID, ic_apid_conn_write_key, (NULL, 0, 0, NULL));
  GIVES(INVALID, ic_apid_conn_read_key, (NULL, 0, 0, NULL));
  GIVES(INVALID, ic_apid_conn_commit_transaction, (NULL, 0));
  GIVES(INVALID, ic_apid_conn_rollback_transaction, (NULL, 0));
  GIVES(INVALID, ic_apid_conn_close_transaction, (NULL, 0));
  GIVES(INVALID, ic_apid_transaction_error, (NULL, 0));
  GIVES(INVALID, ic_apid_transaction_state, (NULL, 0));
  GIVES(INVALID, ic_apid_conn_write_key_sync, (NULL, 0, NULL, 0));
  GIVES(INVALID, ic_apid_conn_read_key_sync, (NULL, 0, NULL, 0));
}

static void embedded_nodes(void)
{
  DOES_NOTHING(ic_embedded_args_init, (NULL, 0));
  GIVES(INVALID, ic_embedded_start, (NULL, NULL));
  take((address)ic_embedded_error_text, "ic_embedded_error_text");
  check(*ic_embedded_error_text() == '\0', "no error text of embedded nodes");
  GIVES((const char *)NULL, ic_embedded_connectstring, (NULL));
  GIVES(0, ic_embedded_stop, (NULL));
  GIVES(INVALID, ic_embedded_kill_node, (NULL, 0));
  GIVES(INVALID, ic_embedded_restart_node, (NULL, 0));
  GIVES(INVALID, ic_embedded_drop_link, (NULL, 0, 0, NULL));
  GIVES(INVALID, ic_embedded_send_garbage, (NULL, 0, NULL));
  GIVES(INVALID, ic_embedded_stall, (NULL, 0, 0, NULL));
  GIVES(INVALID, ic_embedded_delay, (NULL, 0, 0, NULL));
  GIVES(INVALID, ic_embedded_fail_operation, (NULL, 0, 0, 0, NULL));
  GIVES(INVALID, ic_embedded_refuse_node_ids, (NULL, 0, NULL));
  GIVES(false, ic_embedded_fault_consumed, (NULL, 0));
}

/* What a handle that is not connected answers. */
static void not_connected(void)
{
  IC_APID_GLOBAL *glob;
  IC_APID_CONNECTION *conn = NULL;
  IC_TABLE_DEF *table = NULL;

  check(ic_apid_global_create(&glob) == 0, "create");
  check(*ic_apid_global_error_text(glob) == '\0', "no error text");
  check(ic_apid_global_node_count(glob) == 0, "node_count");
  check(ic_apid_global_node_id(glob) == 0, "node_id");
  check(ic_apid_global_wait_usable(glob, 0, 0) == IC_ERROR_NOT_CONNECTED, "wait_usable");
  check(ic_apid_table_open(glob, "test", "t", &table) == IC_ERROR_NOT_CONNECTED, "table_open");
  check(ic_apid_conn_create(glob, &conn) == IC_ERROR_NOT_CONNECTED, "conn_create");
  check(conn == NULL && table == NULL, "outputs are written on success only");
  check(ic_apid_global_disconnect(glob) == 0, "disconnect");
  check(ic_apid_table_close((IC_TABLE_DEF *)glob) == INVALID, "a handle of another kind");
  check(ic_apid_global_free(glob) == 0, "free");
}

int main(void)
{
  versions_and_errors();
  clusters();
  tables_and_records();
  connections();
  queries_and_transactions();
  embedded_nodes();
  not_connected();
  return 0;
}
