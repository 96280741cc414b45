/*
 * The public structs have the sizes and offsets that the ABI says, on 64-bit systems; src/capi/args.rs asserts
 * the same of the library's side. A caller with an older, smaller struct goes on working; one with a newer,
 * larger struct does so as long as it does not use what this library does not know.
 */
#include "test.h"

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)

SIZE(IC_QUERY_ID, 8);
SIZE(IC_TRANS_ID, 8);
SIZE(bool, 1);

SIZE(IC_WRITE_KEY_ARGS, 32);
AT(IC_WRITE_KEY_ARGS, size, 0);
AT(IC_WRITE_KEY_ARGS, kind, 8);
AT(IC_WRITE_KEY_ARGS, abort_option, 12);
AT(IC_WRITE_KEY_ARGS, callback, 16);
AT(IC_WRITE_KEY_ARGS, user_ref, 24);

SIZE(IC_READ_KEY_ARGS, 32);
AT(IC_READ_KEY_ARGS, size, 0);
AT(IC_READ_KEY_ARGS, kind, 8);
AT(IC_READ_KEY_ARGS, abort_option, 12);
AT(IC_READ_KEY_ARGS, callback, 16);
AT(IC_READ_KEY_ARGS, user_ref, 24);

SIZE(IC_MULTI_READ_ID, 8);

SIZE(IC_MULTI_READ_ARGS, 32);
AT(IC_MULTI_READ_ARGS, size, 0);
AT(IC_MULTI_READ_ARGS, kind, 8);
AT(IC_MULTI_READ_ARGS, deadline_ms, 12);
AT(IC_MULTI_READ_ARGS, callback, 16);
AT(IC_MULTI_READ_ARGS, user_ref, 24);

SIZE(IC_CONNECT_ARGS, 48);
AT(IC_CONNECT_ARGS, size, 0);
AT(IC_CONNECT_ARGS, node_id, 8);
AT(IC_CONNECT_ARGS, receive_threads, 12);
AT(IC_CONNECT_ARGS, lend_receive, 16);
AT(IC_CONNECT_ARGS, hold_us, 20);
AT(IC_CONNECT_ARGS, connect_ms, 24);
AT(IC_CONNECT_ARGS, grace_ms, 28);
AT(IC_CONNECT_ARGS, deadline_ms, 32);
AT(IC_CONNECT_ARGS, max_waiting, 36);
AT(IC_CONNECT_ARGS, max_in_flight, 40);

SIZE(IC_NODE_STATE, 24);
AT(IC_NODE_STATE, size, 0);
AT(IC_NODE_STATE, node_id, 8);
AT(IC_NODE_STATE, connected, 12);
AT(IC_NODE_STATE, usable, 16);

SIZE(IC_TABLE_ARGS, 24);
AT(IC_TABLE_ARGS, size, 0);
AT(IC_TABLE_ARGS, logged, 8);
AT(IC_TABLE_ARGS, read_backup, 12);
AT(IC_TABLE_ARGS, fully_replicated, 16);

SIZE(IC_COLUMN, 40);
AT(IC_COLUMN, name, 0);
AT(IC_COLUMN, kind, 8);
AT(IC_COLUMN, length, 12);
AT(IC_COLUMN, precision, 16);
AT(IC_COLUMN, scale, 20);
AT(IC_COLUMN, charset, 24);
AT(IC_COLUMN, flags, 28);
AT(IC_COLUMN, row_bytes, 32);

SIZE(IC_RECORD_FIELD, 24);
AT(IC_RECORD_FIELD, name, 0);
AT(IC_RECORD_FIELD, offset, 8);
AT(IC_RECORD_FIELD, null_byte, 12);
AT(IC_RECORD_FIELD, null_bit, 16);

SIZE(IC_OPERATION_STATS, 72);
AT(IC_OPERATION_STATS, ok, 0);
AT(IC_OPERATION_STATS, temporary, 8);
AT(IC_OPERATION_STATS, permanent, 16);
AT(IC_OPERATION_STATS, unknown, 24);
AT(IC_OPERATION_STATS, mean_ns, 32);
AT(IC_OPERATION_STATS, p50_ns, 40);
AT(IC_OPERATION_STATS, p99_ns, 48);
AT(IC_OPERATION_STATS, p999_ns, 56);
AT(IC_OPERATION_STATS, max_ns, 64);

SIZE(IC_STATS, 856);
AT(IC_STATS, size, 0);
AT(IC_STATS, operations, 8);
AT(IC_STATS, defined, 584);
AT(IC_STATS, completed, 592);
AT(IC_STATS, failed, 600);
AT(IC_STATS, in_flight, 608);
AT(IC_STATS, refused, 616);
AT(IC_STATS, commits, 624);
AT(IC_STATS, rollbacks, 632);
AT(IC_STATS, unknown, 640);
AT(IC_STATS, sends, 648);
AT(IC_STATS, held, 656);
AT(IC_STATS, held_joined, 664);
AT(IC_STATS, held_forced, 672);
AT(IC_STATS, held_deadline, 680);
AT(IC_STATS, writes, 688);
AT(IC_STATS, operations_per_1000_writes, 696);
AT(IC_STATS, bytes_sent, 704);
AT(IC_STATS, bytes_received, 712);
AT(IC_STATS, rounds, 720);
AT(IC_STATS, wakeups, 728);
AT(IC_STATS, pages, 736);
AT(IC_STATS, signals, 744);
AT(IC_STATS, late_replies, 752);
AT(IC_STATS, deadlines, 760);
AT(IC_STATS, most_in_flight, 768);
AT(IC_STATS, most_waiting, 776);
AT(IC_STATS, most_pages, 784);
AT(IC_STATS, most_records, 792);
AT(IC_STATS, connections, 800);
AT(IC_STATS, multikey_slotted, 808);
AT(IC_STATS, most_multikey_parts, 848);

SIZE(IC_RETRY, 48);
AT(IC_RETRY, size, 0);
AT(IC_RETRY, first_ms, 8);
AT(IC_RETRY, longest_ms, 12);
AT(IC_RETRY, attempts, 16);
AT(IC_RETRY, limit_ms, 20);
AT(IC_RETRY, failed, 24);
AT(IC_RETRY, random, 32);
AT(IC_RETRY, began, 40);

SIZE(IC_EMBEDDED_ARGS, 32);
AT(IC_EMBEDDED_ARGS, size, 0);
AT(IC_EMBEDDED_ARGS, nodes, 8);
AT(IC_EMBEDDED_ARGS, replicas, 12);
AT(IC_EMBEDDED_ARGS, seed, 16);
AT(IC_EMBEDDED_ARGS, port, 24);
AT(IC_EMBEDDED_ARGS, lock_timeout_ms, 28);

/* The write arguments of a later version. */
struct newer {
  IC_WRITE_KEY_ARGS known;
  uint64_t unknown;
};

/* The write arguments of an earlier version: what came first. */
struct older {
  size_t size;
  int32_t kind;
};

static const unsigned char untouched = 0xa5;

static void init_writes_as_much_as_the_caller_has(void)
{
  union {
    unsigned char bytes[64];
    struct older older;
    struct newer newer;
    IC_WRITE_KEY_ARGS args;
  } u;
  size_t i;

  memset(&u, untouched, sizeof u);
  ic_write_key_args_init(&u.args, 12);
  CHECK(u.older.size == 12);
  CHECK(u.older.kind == IC_WRITE_KIND_WRITE);
  for (i = 12; i < sizeof u; i++)
    CHECK(u.bytes[i] == untouched);

  memset(&u, untouched, sizeof u);
  ic_write_key_args_init(&u.args, sizeof u.newer);
  CHECK(u.newer.known.size == sizeof u.newer);
  CHECK(u.newer.known.kind == IC_WRITE_KIND_WRITE);
  CHECK(u.newer.known.callback == NULL);
  CHECK(u.newer.unknown == 0);
  for (i = sizeof u.newer; i < sizeof u; i++)
    CHECK(u.bytes[i] == untouched);

  /* Less than a size field: there is nothing to be set. */
  memset(&u, untouched, sizeof u);
  ic_write_key_args_init(&u.args, sizeof(size_t) - 1);
  for (i = 0; i < sizeof u; i++)
    CHECK(u.bytes[i] == untouched);
}

/* An init function sets exactly the bytes that its caller has, whatever version that is of: fewer than this header's
 * struct, as many, or more, which are zero. */
static void check_init(void (*init)(void *, size_t), size_t known)
{
  unsigned char bytes[2048], whole[2048];
  size_t size, said, i;

  CHECK(known + 32 < sizeof bytes);
  memset(whole, untouched, sizeof whole);
  init(whole, known);
  for (size = sizeof(size_t); size <= known + 24; size++) {
    memset(bytes, untouched, sizeof bytes);
    init(bytes, size);
    memcpy(&said, bytes, sizeof said);
    CHECK(said == size);
    for (i = sizeof said; i < sizeof bytes; i++)
      CHECK(bytes[i] == (i >= size ? untouched : i >= known ? 0 : whole[i]));
  }
}

#define INITIALISES(type, function)                                                                         \
  static void init_##type(void *args, size_t size)                                                         \
  {                                                                                                         \
    function((type *)args, size);                                                                           \
  }
INITIALISES(IC_WRITE_KEY_ARGS, ic_write_key_args_init)
INITIALISES(IC_READ_KEY_ARGS, ic_read_key_args_init)
INITIALISES(IC_MULTI_READ_ARGS, ic_multi_read_args_init)
INITIALISES(IC_CONNECT_ARGS, ic_connect_args_init)
INITIALISES(IC_TABLE_ARGS, ic_table_args_init)
INITIALISES(IC_EMBEDDED_ARGS, ic_embedded_args_init)

static void every_init(void)
{
#define CHECK_INIT(type) check_init(init_##type, sizeof(type))
  CHECK_INIT(IC_WRITE_KEY_ARGS);
  CHECK_INIT(IC_READ_KEY_ARGS);
  CHECK_INIT(IC_MULTI_READ_ARGS);
  CHECK_INIT(IC_CONNECT_ARGS);
  CHECK_INIT(IC_TABLE_ARGS);
  CHECK_INIT(IC_EMBEDDED_ARGS);
}

/* A struct of an earlier version: the first bytes of this header's, and its size says so. */
#define EARLIER(type, last)                                                                                 \
  (offsetof(type, last) + sizeof(((type *)0)->last))

/* Calls with the structs of an earlier version: what is missing has its default, and is not looked at. */
static void structs_of_an_earlier_version(struct fixture *f, const char *nodes)
{
  IC_QUERY_ID query = new_query(f), executed;
  IC_TRANS_ID trans;
  IC_MULTI_READ_ID read;
  IC_READ_KEY_ARGS read_args;
  IC_MULTI_READ_ARGS multi_args;
  IC_CONNECT_ARGS connect_args;
  IC_TABLE_ARGS table_args;
  IC_STATS stats;
  IC_APID_GLOBAL *other;
  IC_COLUMN column;
  int32_t dropped;
  size_t i;

  fill(f->conn, query, 1, 1);
  memset(&read_args, untouched, sizeof read_args);
  read_args.size = EARLIER(IC_READ_KEY_ARGS, kind);
  read_args.kind = IC_READ_KIND_EXCLUSIVE;
  trans = start(f, query);
  OK(ic_apid_conn_read_key(f->conn, query, trans, &read_args));
  OK(ic_apid_conn_commit_transaction(f->conn, trans));
  drain(f->conn);
  CHECK(ic_apid_conn_get_next_executed_query(f->conn, &executed) && executed == query);
  CHECK(ic_apid_query_user_ref(f->conn, query) == NULL);
  OK(ic_apid_conn_close_transaction(f->conn, trans));

  memset(&multi_args, untouched, sizeof multi_args);
  multi_args.size = EARLIER(IC_MULTI_READ_ARGS, kind);
  multi_args.kind = IC_MULTI_READ_EXISTS;
  OK(ic_apid_conn_multi_read(f->conn, &query, 1, &multi_args, &read));
  drain(f->conn);
  OK(ic_apid_multi_read_error(f->conn, read));
  CHECK(ic_apid_conn_get_next_executed_multi_read(f->conn, &read));
  CHECK(ic_apid_multi_read_found(f->conn, read) == 1);
  OK(ic_apid_multi_read_close(f->conn, read));

  memset(&connect_args, untouched, sizeof connect_args);
  connect_args.size = EARLIER(IC_CONNECT_ARGS, receive_threads);
  connect_args.node_id = 0;
  connect_args.receive_threads = 1;
  OK(ic_apid_global_create(&other));
  OK(ic_apid_global_connect(other, nodes, &connect_args));

  memset(&table_args, untouched, sizeof table_args);
  table_args.size = EARLIER(IC_TABLE_ARGS, logged);
  table_args.logged = 1;
  dropped = ic_apid_table_drop(other, "test", "c_layout_2");
  CHECK(dropped == 0 || dropped == 723);
  OK(ic_apid_table_create(other, "test", "c_layout_2", pair_columns, 2, sizeof *pair_columns, &table_args));
  OK(ic_apid_table_drop(other, "test", "c_layout_2"));
  OK(ic_apid_global_free(other));

  memset(&stats, untouched, sizeof stats);
  stats.size = EARLIER(IC_STATS, defined);
  OK(ic_apid_conn_stats(f->conn, &stats));
  CHECK(stats.size == EARLIER(IC_STATS, defined) && stats.defined > 0);
  for (i = stats.size; i < sizeof stats; i++)
    CHECK(((unsigned char *)&stats)[i] == untouched);
  stats.size = EARLIER(IC_STATS, defined);
  OK(ic_apid_global_stats(f->glob, &stats));
  for (i = stats.size; i < sizeof stats; i++)
    CHECK(((unsigned char *)&stats)[i] == untouched);

  memset(&column, untouched, sizeof column);
  OK(ic_table_column(f->table, 0, &column, EARLIER(IC_COLUMN, kind)));
  CHECK(strcmp(column.name, "id") == 0 && column.kind == IC_TYPE_UNSIGNED);
  for (i = EARLIER(IC_COLUMN, kind); i < sizeof column; i++)
    CHECK(((unsigned char *)&column)[i] == untouched);
  OK(ic_apid_query_free(f->conn, query));
}

/* Writes a row with arguments of any size; the query comes on the executed list. */
static int32_t write_with(struct fixture *f, IC_QUERY_ID query, const void *args)
{
  IC_TRANS_ID trans = start(f, query);
  IC_QUERY_ID executed;
  int32_t ret = ic_apid_conn_write_key(f->conn, query, trans, args);

  if (ret == 0) {
    OK(ic_apid_conn_commit_transaction(f->conn, trans));
    drain(f->conn);
    CHECK(ic_apid_conn_get_next_executed_query(f->conn, &executed) && executed == query);
    ret = ic_apid_query_error(f->conn, query);
  }
  OK(ic_apid_conn_close_transaction(f->conn, trans));
  return ret;
}

static void sizes_of_other_versions(struct fixture *f)
{
  IC_QUERY_ID query = new_query(f);
  struct older older = {12, IC_WRITE_KIND_INSERT};
  struct newer newer;
  IC_NODE_STATE state;
  size_t size;

  fill(f->conn, query, 1, 1);
  CHECK_CODE(write_with(f, query, &older), 0);
  CHECK_CODE(write_with(f, query, &older), 630); /* its kind was heeded */

  ic_write_key_args_init(&newer.known, sizeof newer);
  CHECK_CODE(write_with(f, query, &newer), 0);
  newer.unknown = 1;
  CHECK_CODE(write_with(f, query, &newer), IC_ERROR_INVALID_ARGUMENT);

  size = 0;
  CHECK_CODE(write_with(f, query, &size), IC_ERROR_INVALID_ARGUMENT);
  size = SIZE_MAX;
  CHECK_CODE(write_with(f, query, &size), IC_ERROR_INVALID_ARGUMENT);

  memset(&state, untouched, sizeof state);
  state.size = offsetof(IC_NODE_STATE, connected);
  OK(ic_apid_global_node_state(f->glob, 0, &state));
  CHECK(state.size == offsetof(IC_NODE_STATE, connected) && state.node_id == 1);
  CHECK(state.connected == UINT32_C(0xa5a5a5a5));
}

int main(int argc, char **argv)
{
  struct fixture f;

  test_time_limit(120);
  init_writes_as_much_as_the_caller_has();
  every_init();
  if (argc > 1) {
    fixture_begin(&f, argc, argv, "c_layout");
    sizes_of_other_versions(&f);
    structs_of_an_earlier_version(&f, argv[1]);
    fixture_end(&f);
  }
  return 0;
}
