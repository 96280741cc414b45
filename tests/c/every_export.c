/*
 * Every exported function, from C and from C++: with nothing but NULL and 0 it gives what the header says, and with a
 * panic forced behind its guard it gives what the header says for that. EXPORTS has a line for each; the runner
 * sees to it that none is missing.
 *
 * With FORCED_PANICS defined it is to be linked with a library that has the feature of this name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iclaustron/ic_apid.h>

#define INVALID IC_ERROR_INVALID_ARGUMENT
#define PANICKED IC_ERROR_INTERNAL
#define VERSION ((uint32_t)(IC_VERSION_MAJOR << 16 | IC_VERSION_MINOR << 8 | IC_VERSION_PATCH))

/* A function, its arguments, and what holds for its result: as it is, and when it panics. */
#define EXPORTS(GIVES, DOES_NOTHING)                                                                        \
  GIVES(ic_version, (), == VERSION, == 0)                                                                   \
  GIVES(ic_version_text, (), [0] != '\0', == NULL)                                                          \
  GIVES(ic_error_message, (0), [0] != '\0', [0] == '\0')                                                    \
  GIVES(ic_error_is_temporary, (0), == false, == false)                                                     \
  GIVES(ic_error_is_unknown_result, (0), == false, == false)                                                \
  GIVES(ic_error_class, (0), == IC_ERROR_CLASS_NONE, == IC_ERROR_CLASS_INTERNAL)                            \
  GIVES(ic_error_advice, (0), [0] != '\0', [0] == '\0')                                                     \
  GIVES(ic_error_explain, (0, NULL, 0), > 0, == PANICKED)                                                   \
  GIVES(ic_apid_query_explain, (NULL, 0, NULL, 0), == INVALID, == PANICKED)                                 \
  GIVES(ic_apid_transaction_explain, (NULL, 0, NULL, 0), == INVALID, == PANICKED)                           \
  DOES_NOTHING(ic_retry_init, (NULL, 0))                                                                    \
  GIVES(ic_retry_next, (NULL, 0, NULL), == INVALID, == PANICKED)                                            \
  GIVES(ic_apid_global_create, (NULL), == INVALID, == PANICKED)                                             \
  GIVES(ic_apid_global_free, (NULL), == 0, == PANICKED)                                                     \
  DOES_NOTHING(ic_connect_args_init, (NULL, 0))                                                             \
  GIVES(ic_apid_global_connect, (NULL, NULL, NULL), == INVALID, == PANICKED)                                \
  GIVES(ic_apid_global_disconnect, (NULL), == INVALID, == PANICKED)                                         \
  GIVES(ic_apid_global_error_text, (NULL), == NULL, == NULL)                                                \
  GIVES(ic_apid_global_wait_usable, (NULL, 0, 0), == INVALID, == PANICKED)                                  \
  GIVES(ic_apid_global_node_count, (NULL), == 0u, == 0u)                                                    \
  GIVES(ic_apid_global_node_state, (NULL, 0, NULL), == INVALID, == PANICKED)                                \
  GIVES(ic_apid_global_node_id, (NULL), == 0u, == 0u)                                                       \
  GIVES(ic_apid_global_stats, (NULL, NULL), == INVALID, == PANICKED)                                        \
  GIVES(ic_stats_print, (NULL, IC_STATS_FORMAT_TEXT, NULL, 0, NULL), == INVALID, == PANICKED)               \
  GIVES(ic_set_log, (NULL, 99, NULL), == INVALID, == PANICKED)                                              \
  GIVES(ic_set_signal_trace, (NULL), == 0, == PANICKED)                                                     \
  GIVES(ic_apid_table_open, (NULL, NULL, NULL, NULL), == INVALID, == PANICKED)                              \
  GIVES(ic_apid_table_close, (NULL), == 0, == PANICKED)                                                     \
  GIVES(ic_table_column_count, (NULL), == 0u, == 0u)                                                        \
  GIVES(ic_table_column, (NULL, 0, NULL, 0), == INVALID, == PANICKED)                                       \
  DOES_NOTHING(ic_table_args_init, (NULL, 0))                                                               \
  GIVES(ic_apid_table_create, (NULL, NULL, NULL, NULL, 0, 0, NULL), == INVALID, == PANICKED)                \
  GIVES(ic_apid_table_drop, (NULL, NULL, NULL), == INVALID, == PANICKED)                                    \
  GIVES(ic_apid_table_list, (NULL, NULL, NULL), == INVALID, == PANICKED)                                    \
  GIVES(ic_table_list_count, (NULL), == 0u, == 0u)                                                          \
  GIVES(ic_table_list_database, (NULL, 0), == NULL, == NULL)                                                \
  GIVES(ic_table_list_name, (NULL, 0), == NULL, == NULL)                                                    \
  GIVES(ic_table_list_free, (NULL), == 0, == PANICKED)                                                      \
  GIVES(ic_record_create, (NULL, NULL, 0, 0, 0, NULL), == INVALID, == PANICKED)                             \
  GIVES(ic_record_create_natural, (NULL, NULL), == INVALID, == PANICKED)                                    \
  GIVES(ic_record_free, (NULL), == 0, == PANICKED)                                                          \
  GIVES(ic_record_row_size, (NULL), == 0u, == 0u)                                                           \
  GIVES(ic_record_field, (NULL, NULL, NULL), == INVALID, == PANICKED)                                       \
  GIVES(ic_apid_conn_create, (NULL, NULL), == INVALID, == PANICKED)                                         \
  GIVES(ic_apid_conn_free, (NULL), == 0, == PANICKED)                                                       \
  GIVES(ic_apid_conn_send, (NULL, false), == INVALID, == PANICKED)                                          \
  GIVES(ic_apid_conn_poll, (NULL, 0, NULL), == INVALID, == PANICKED)                                        \
  GIVES(ic_apid_conn_flush, (NULL, 0, false, NULL), == INVALID, == PANICKED)                                \
  GIVES(ic_apid_conn_stats, (NULL, NULL), == INVALID, == PANICKED)                                          \
  GIVES(ic_apid_conn_set_max_in_flight, (NULL, 1), == INVALID, == PANICKED)                                 \
  GIVES(ic_apid_conn_set_poll_min, (NULL, 1), == INVALID, == PANICKED)                                      \
  GIVES(ic_apid_conn_set_deadline, (NULL, 1), == INVALID, == PANICKED)                                      \
  GIVES(ic_apid_conn_multi_read, (NULL, NULL, 0, NULL, NULL), == INVALID, == PANICKED)                      \
  GIVES(ic_apid_conn_multi_read_rows, (NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL), == INVALID, == PANICKED)\
  GIVES(ic_apid_conn_get_next_executed_multi_read, (NULL, NULL), == false, == false)                        \
  GIVES(ic_apid_multi_read_error, (NULL, 0), == INVALID, == PANICKED)                                       \
  GIVES(ic_apid_multi_read_found, (NULL, 0), == 0u, == 0u)                                                  \
  GIVES(ic_apid_multi_read_key_state, (NULL, 0, 0), == INVALID, == PANICKED)                                \
  GIVES(ic_apid_multi_read_key_error, (NULL, 0, 0), == INVALID, == PANICKED)                                \
  GIVES(ic_apid_multi_read_user_ref, (NULL, 0), == NULL, == NULL)                                           \
  GIVES(ic_apid_multi_read_close, (NULL, 0), == INVALID, == PANICKED)                                       \
  GIVES(ic_apid_transaction_set_deadline, (NULL, 0, 1), == INVALID, == PANICKED)                            \
  GIVES(ic_apid_conn_fd, (NULL), == INVALID, == PANICKED)                                                   \
  GIVES(ic_apid_conn_get_next_executed_query, (NULL, NULL), == false, == false)                             \
  GIVES(ic_apid_conn_hint_for_key, (NULL, NULL, NULL, NULL, 0), == 0u, == 0u)                               \
  GIVES(ic_apid_conn_hints_for_keys, (NULL, NULL, NULL, NULL, 0, 0, NULL), == INVALID, == PANICKED)          \
  GIVES(ic_apid_query_create, (NULL, NULL, NULL, NULL, NULL), == INVALID, == PANICKED)                      \
  GIVES(ic_apid_query_free, (NULL, 0), == INVALID, == PANICKED)                                             \
  GIVES(ic_apid_query_key_row, (NULL, 0, NULL), == NULL, == NULL)                                           \
  GIVES(ic_apid_query_attr_row, (NULL, 0, NULL), == NULL, == NULL)                                          \
  GIVES(ic_apid_query_error, (NULL, 0), == INVALID, == PANICKED)                                            \
  GIVES(ic_apid_query_user_ref, (NULL, 0), == NULL, == NULL)                                                \
  GIVES(ic_apid_conn_start_transaction, (NULL, 0, NULL, NULL), == INVALID, == PANICKED)                     \
  DOES_NOTHING(ic_write_key_args_init, (NULL, 0))                                                           \
  DOES_NOTHING(ic_read_key_args_init, (NULL, 0))                                                            \
  DOES_NOTHING(ic_multi_read_args_init, (NULL, 0))                                                          \
  GIVES(ic_apid_conn_write_key, (NULL, 0, 0, NULL), == INVALID, == PANICKED)                                \
  GIVES(ic_apid_conn_read_key, (NULL, 0, 0, NULL), == INVALID, == PANICKED)                                 \
  GIVES(ic_apid_conn_commit_transaction, (NULL, 0), == INVALID, == PANICKED)                                \
  GIVES(ic_apid_conn_rollback_transaction, (NULL, 0), == INVALID, == PANICKED)                              \
  GIVES(ic_apid_conn_close_transaction, (NULL, 0), == INVALID, == PANICKED)                                 \
  GIVES(ic_apid_transaction_error, (NULL, 0), == INVALID, == PANICKED)                                      \
  GIVES(ic_apid_transaction_state, (NULL, 0), == INVALID, == PANICKED)                                      \
  GIVES(ic_apid_conn_write_key_sync, (NULL, 0, NULL, 0), == INVALID, == PANICKED)                           \
  GIVES(ic_apid_conn_read_key_sync, (NULL, 0, NULL, 0), == INVALID, == PANICKED)                            \
  DOES_NOTHING(ic_embedded_args_init, (NULL, 0))                                                            \
  GIVES(ic_embedded_start, (NULL, NULL), == INVALID, == PANICKED)                                           \
  GIVES(ic_embedded_error_text, (), [0] == '\0', == NULL)                                                   \
  GIVES(ic_embedded_connectstring, (NULL), == NULL, == NULL)                                                \
  GIVES(ic_embedded_stop, (NULL), == 0, == PANICKED)                                                        \
  GIVES(ic_embedded_kill_node, (NULL, 0), == INVALID, == PANICKED)                                          \
  GIVES(ic_embedded_restart_node, (NULL, 0), == INVALID, == PANICKED)                                       \
  GIVES(ic_embedded_drop_link, (NULL, 0, 0, NULL), == INVALID, == PANICKED)                                 \
  GIVES(ic_embedded_send_garbage, (NULL, 0, NULL), == INVALID, == PANICKED)                                 \
  GIVES(ic_embedded_stall, (NULL, 0, 0, NULL), == INVALID, == PANICKED)                                     \
  GIVES(ic_embedded_delay, (NULL, 0, 0, NULL), == INVALID, == PANICKED)                                     \
  GIVES(ic_embedded_fail_operation, (NULL, 0, 0, 0, NULL), == INVALID, == PANICKED)                         \
  GIVES(ic_embedded_refuse_node_ids, (NULL, 0, NULL), == INVALID, == PANICKED)                              \
  GIVES(ic_embedded_fault_consumed, (NULL, 0), == false, == false)

static void check(int good, const char *what)
{
  if (!good) {
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
  }
}

typedef void (*address)(void);

#define ADDRESS(function, ...) (address)function,
static const address all[] = {EXPORTS(ADDRESS, ADDRESS)};
static const size_t count = sizeof all / sizeof *all;

/* Each is a function of its own. */
static void addresses(void)
{
  size_t i, j;

  for (i = 0; i < count; i++)
    for (j = 0; j < i; j++)
      check(all[i] != all[j], "two exports at one address");
}

#define VOID(function, arguments) function arguments;

static void nothing_but_null(void)
{
#define WITH_NULL(function, arguments, wanted, panicked)                                                     \
  check(function arguments wanted, #function #arguments " " #wanted);
  EXPORTS(WITH_NULL, VOID)
}

#ifdef FORCED_PANICS
#ifdef __cplusplus
extern "C"
#endif
uint32_t ic_forced_panics(bool forced);

static void panics(void)
{
#define PANICKING(function, arguments, wanted, panicked)                                                     \
  check(function arguments panicked, "when it panics: " #function #arguments " " #panicked);
  ic_forced_panics(true);
  EXPORTS(PANICKING, VOID)
  check(ic_forced_panics(false) == count, "each call has panicked");
}
#endif

/* Codes that are none of NDB's or the library's have texts too. */
static void unknown_code(void)
{
  check(*ic_error_message(INT32_MIN) != '\0', "a message for an unknown code");
  check(*ic_error_advice(INT32_MIN) != '\0', "advice for an unknown code");
  check(ic_error_explain(0, NULL, 0) == (int32_t)strlen(ic_error_message(0)), "explain gives a length");
  check(strlen(ic_version_text()) >= 5, "a version");
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
  addresses();
  nothing_but_null();
#ifdef FORCED_PANICS
  panics();
  nothing_but_null();
#endif
  unknown_code();
  not_connected();
  return 0;
}
