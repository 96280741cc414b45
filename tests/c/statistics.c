/*
 * Statistics add up, limits hold, and the log and the signal trace tell what happens.
 */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>

#include "test.h"

static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned lines[5]; /* by level */
static bool has_joined;

static void on_line(int32_t level, const char *text, void *user_ref)
{
  CHECK(user_ref == lines);
  CHECK(level >= IC_LOG_ERROR && level <= IC_LOG_INFO && text[0] != '\0');
  pthread_mutex_lock(&lines_lock);
  lines[level]++;
  has_joined = has_joined || strstr(text, "joined as node") != NULL;
  pthread_mutex_unlock(&lines_lock);
}

static IC_STATS conn_stats(IC_APID_CONNECTION *conn)
{
  IC_STATS stats;

  stats.size = sizeof stats;
  OK(ic_apid_conn_stats(conn, &stats));
  return stats;
}

static IC_STATS global_stats(IC_APID_GLOBAL *glob)
{
  IC_STATS stats;

  stats.size = sizeof stats;
  OK(ic_apid_global_stats(glob, &stats));
  return stats;
}

static int32_t write_kind(struct fixture *f, IC_QUERY_ID query, int32_t kind)
{
  IC_WRITE_KEY_ARGS args;

  ic_write_key_args_init(&args, sizeof args);
  args.kind = kind;
  return ic_apid_conn_write_key_sync(f->conn, query, &args, 60000);
}

/* Three operations of each outcome that can be had without a failure, and what is counted of them. */
static void outcomes_are_counted(struct fixture *f)
{
  IC_QUERY_ID query = new_query(f);
  IC_STATS before = conn_stats(f->conn), stats, all;
  uint32_t id;

  CHECK(before.defined == 0 && before.completed == 0);
  for (id = 0; id < 3; id++) {
    fill(f->conn, query, id, id);
    CHECK_CODE(write_kind(f, query, IC_WRITE_KIND_INSERT), 0);
    CHECK_CODE(write_kind(f, query, IC_WRITE_KIND_INSERT), 630);
    CHECK_CODE(write_kind(f, query, IC_WRITE_KIND_UPDATE), 0);
    CHECK_CODE(ic_apid_conn_read_key_sync(f->conn, query, NULL, 60000), 0);
    CHECK_CODE(write_kind(f, query, IC_WRITE_KIND_DELETE), 0);
    CHECK_CODE(ic_apid_conn_read_key_sync(f->conn, query, NULL, 60000), 626);
  }
  stats = conn_stats(f->conn);
  CHECK(stats.operations[IC_STATS_INSERT].ok == 3 && stats.operations[IC_STATS_INSERT].permanent == 3);
  CHECK(stats.operations[IC_STATS_UPDATE].ok == 3 && stats.operations[IC_STATS_UPDATE].permanent == 0);
  CHECK(stats.operations[IC_STATS_READ].ok == 3 && stats.operations[IC_STATS_READ].permanent == 3);
  CHECK(stats.operations[IC_STATS_DELETE].ok == 3);
  CHECK(stats.operations[IC_STATS_WRITE].ok == 0 && stats.operations[IC_STATS_WRITE].max_ns == 0);
  CHECK(stats.defined == 18 && stats.completed == 18 && stats.failed == 6 && stats.in_flight == 0);
  CHECK(stats.commits + stats.rollbacks == 18 && stats.rollbacks == 3);
  CHECK(stats.writes > 0 && stats.bytes_sent > 0 && stats.bytes_received > 0 && stats.rounds > 0);
  CHECK(stats.most_in_flight == 1 && stats.most_records > 0 && stats.most_pages > 0);
  CHECK(stats.operations[IC_STATS_READ].p50_ns > 0);
  CHECK(stats.operations[IC_STATS_READ].p50_ns <= stats.operations[IC_STATS_READ].max_ns);
  all = global_stats(f->glob);
  CHECK(all.connections == 1 && all.completed == 18 && all.operations[IC_STATS_READ].permanent == 3);
  CHECK(all.writes >= stats.writes && all.bytes_sent >= stats.bytes_sent);
}

static void text_in_both_formats(struct fixture *f)
{
  size_t needed = 0;
  char *buffer;

  CHECK_CODE(ic_stats_print(f->glob, 99, NULL, 0, &needed), IC_ERROR_INVALID_ARGUMENT);
  CHECK(needed == 0);
  CHECK_CODE(ic_stats_print(f->glob, IC_STATS_FORMAT_TEXT, NULL, 0, &needed), IC_ERROR_INVALID_ARGUMENT);
  CHECK(needed > 100);
  needed += 1000;
  buffer = malloc(needed);
  CHECK(buffer != NULL);
  OK(ic_stats_print(f->glob, IC_STATS_FORMAT_TEXT, buffer, needed, NULL));
  CHECK(strstr(buffer, "insert") != NULL && strlen(buffer) < needed);
  buffer[0] = 'x';
  CHECK_CODE(ic_stats_print(f->glob, IC_STATS_FORMAT_PROMETHEUS, buffer, 1, &needed), IC_ERROR_INVALID_ARGUMENT);
  CHECK(buffer[0] == 'x');
  free(buffer);
  needed += 1000;
  buffer = malloc(needed);
  CHECK(buffer != NULL);
  OK(ic_stats_print(f->glob, IC_STATS_FORMAT_PROMETHEUS, buffer, needed, NULL));
  CHECK(strstr(buffer, "\niclaustron_operations_total{kind=\"insert\",outcome=\"ok\"} 3\n") != NULL);
  free(buffer);
}

static void operations_in_flight_are_limited(struct fixture *f)
{
  IC_QUERY_ID query[3];
  IC_TRANS_ID trans;
  uint64_t refused = conn_stats(f->conn).refused;
  uint32_t id;

  OK(ic_apid_conn_set_max_in_flight(f->conn, 2));
  for (id = 0; id < 3; id++) {
    query[id] = new_query(f);
    fill(f->conn, query[id], id, id);
  }
  trans = start(f, query[0]);
  write_row(f, query[0], trans, NULL, NULL);
  write_row(f, query[1], trans, NULL, NULL);
  CHECK_CODE(ic_apid_conn_write_key(f->conn, query[2], trans, NULL), IC_ERROR_TOO_MANY_IN_FLIGHT);
  CHECK(ic_error_is_temporary(IC_ERROR_TOO_MANY_IN_FLIGHT));
  CHECK(strstr(ic_error_message(IC_ERROR_TOO_MANY_IN_FLIGHT), "poll") != NULL);
  CHECK(conn_stats(f->conn).refused == refused + 1);
  drain(f->conn); /* as it says */
  OK(ic_apid_conn_write_key(f->conn, query[2], trans, NULL));
  OK(ic_apid_conn_commit_transaction(f->conn, trans));
  drain(f->conn);
  CHECK_CODE(ic_apid_transaction_state(f->conn, trans), IC_TRANS_STATE_COMMITTED);
  OK(ic_apid_conn_close_transaction(f->conn, trans));
  CHECK(conn_stats(f->conn).most_in_flight == 2);
  OK(ic_apid_conn_set_max_in_flight(f->conn, 0));
}

/* A connection with the smallest buffers: at most 64 KiB wait, whatever is defined. */
static void waiting_bytes_are_limited(struct fixture *f, const char *connectstring)
{
  struct fixture small = *f;
  IC_CONNECT_ARGS args;
  IC_QUERY_ID query;
  IC_TRANS_ID trans;
  uint32_t id;
  int32_t ret;

  OK(ic_apid_global_create(&small.glob));
  ic_connect_args_init(&args, sizeof args);
  args.max_waiting = 1;
  CHECK_CODE(ic_apid_global_connect(small.glob, connectstring, &args), IC_ERROR_INVALID_ARGUMENT);
  args.max_waiting = 65536;
  args.max_in_flight = 0;
  CHECK_CODE(ic_apid_global_connect(small.glob, connectstring, &args), IC_ERROR_INVALID_ARGUMENT);
  args.max_in_flight = 100000;
  fixture_must(&small, "connect", ic_apid_global_connect(small.glob, connectstring, &args));
  OK(ic_apid_table_open(small.glob, "test", f->name, &small.table));
  OK(ic_apid_conn_create(small.glob, &small.conn));
  query = new_query(&small);
  fill(small.conn, query, 0, 0);
  trans = start(&small, query);
  for (id = 0;; id++) {
    CHECK(id < 10000);
    query = new_query(&small);
    fill(small.conn, query, 1000 + id, id);
    ret = ic_apid_conn_read_key(small.conn, query, trans, NULL);
    if (ret != 0)
      break;
  }
  CHECK_CODE(ret, IC_ERROR_SEND_BUFFER_FULL);
  CHECK(id > 100 && ic_error_is_temporary(ret));
  drain(small.conn);
  OK(ic_apid_conn_read_key(small.conn, query, trans, NULL));
  drain(small.conn);
  CHECK(conn_stats(small.conn).most_waiting <= 65536 + 1000);
  CHECK(conn_stats(small.conn).refused == 1);
  OK(ic_apid_conn_close_transaction(small.conn, trans));
  OK(ic_apid_conn_free(small.conn));
  CHECK(global_stats(small.glob).connections == 0 && global_stats(small.glob).completed == id + 1);
  OK(ic_apid_table_close(small.table));
  OK(ic_apid_global_free(small.glob));
}

static void signals_are_traced(struct fixture *f)
{
  char path[] = "/tmp/ic_trace_XXXXXX";
  int file = mkstemp(path);
  IC_QUERY_ID query = new_query(f);
  static char text[1 << 16];
  ssize_t length, ended;

  CHECK(file >= 0);
  CHECK_CODE(ic_set_signal_trace("/nowhere/to/be/found"), IC_ERROR_INVALID_ARGUMENT);
  OK(ic_set_signal_trace(path));
  fill(f->conn, query, 7, 7);
  CHECK_CODE(write_kind(f, query, IC_WRITE_KIND_WRITE), 0);
  OK(ic_set_signal_trace(NULL));
  length = pread(file, text, sizeof text - 1, 0);
  CHECK(length > 0);
  CHECK(strstr(text, " TCKEYREQ ") != NULL && strstr(text, "|write|") != NULL);
  CHECK(strstr(text, " TCKEYCONF ") != NULL && strstr(text, "RECV from node ") != NULL);
  CHECK_CODE(write_kind(f, query, IC_WRITE_KIND_WRITE), 0);
  ended = pread(file, text, sizeof text - 1, 0);
  CHECK(ended < (ssize_t)sizeof text - 1);
  /* What another thread had begun to write when the trace ended may follow, but nothing of the second write. */
  CHECK(strstr(text + length - 1, "TCKEYREQ") == NULL);
  unlink(path);
  close(file);
}

int main(int argc, char **argv)
{
  struct fixture f;
  unsigned told;

  CHECK_CODE(ic_set_log(on_line, 5, lines), IC_ERROR_INVALID_ARGUMENT);
  OK(ic_set_log(on_line, IC_LOG_INFO, lines));
  fixture_begin(&f, argc, argv, "c_statistics");
  CHECK(has_joined && lines[IC_LOG_INFO] > 1);
  OK(ic_set_log(NULL, IC_LOG_NONE, NULL));
  told = lines[IC_LOG_INFO];
  outcomes_are_counted(&f);
  text_in_both_formats(&f);
  operations_in_flight_are_limited(&f);
  waiting_bytes_are_limited(&f, argv[1]);
  signals_are_traced(&f);
  CHECK(lines[IC_LOG_INFO] == told);
  fixture_end(&f);
  return 0;
}
