/*
 * What a caller does wrong gives an error that says so, and leaves the rest as it was.
 */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdatomic.h>

#include "test.h"

static void stale_handles(struct fixture *f)
{
  IC_QUERY_ID query = new_query(f), freed = new_query(f), executed;
  IC_TRANS_ID trans, closed;
  uint32_t len = 1;

  OK(ic_apid_query_free(f->conn, freed));
  fill(f->conn, query, 1, 1);
  trans = start(f, query);
  closed = start(f, query);
  OK(ic_apid_conn_close_transaction(f->conn, closed));

  CHECK_CODE(ic_apid_query_free(f->conn, freed), IC_ERROR_STALE_QUERY);
  CHECK_CODE(ic_apid_query_error(f->conn, freed), IC_ERROR_STALE_QUERY);
  CHECK_CODE(ic_apid_query_error(f->conn, 0), IC_ERROR_STALE_QUERY);
  CHECK_CODE(ic_apid_query_error(f->conn, UINT64_MAX), IC_ERROR_STALE_QUERY);
  CHECK(ic_apid_query_user_ref(f->conn, freed) == NULL);
  CHECK(ic_apid_query_key_row(f->conn, freed, &len) == NULL && len == 0);
  CHECK_CODE(ic_apid_conn_write_key(f->conn, freed, trans, NULL), IC_ERROR_STALE_QUERY);
  CHECK_CODE(ic_apid_conn_read_key(f->conn, 0, trans, NULL), IC_ERROR_STALE_QUERY);
  CHECK_CODE(ic_apid_conn_write_key_sync(f->conn, freed, NULL, 0), IC_ERROR_STALE_QUERY);

  CHECK_CODE(ic_apid_conn_write_key(f->conn, query, closed, NULL), IC_ERROR_STALE_TRANSACTION);
  CHECK_CODE(ic_apid_conn_write_key(f->conn, query, 0, NULL), IC_ERROR_STALE_TRANSACTION);
  CHECK_CODE(ic_apid_conn_commit_transaction(f->conn, closed), IC_ERROR_STALE_TRANSACTION);
  CHECK_CODE(ic_apid_conn_rollback_transaction(f->conn, closed), IC_ERROR_STALE_TRANSACTION);
  CHECK_CODE(ic_apid_conn_close_transaction(f->conn, closed), IC_ERROR_STALE_TRANSACTION);
  CHECK_CODE(ic_apid_transaction_error(f->conn, closed), IC_ERROR_STALE_TRANSACTION);
  CHECK_CODE(ic_apid_transaction_state(f->conn, 0), IC_ERROR_STALE_TRANSACTION);

  /* Nothing of that was defined. */
  CHECK(!ic_apid_conn_get_next_executed_query(f->conn, &executed));
  OK(ic_apid_conn_close_transaction(f->conn, trans));
  OK(ic_apid_query_free(f->conn, query));
}

static void foreign_handles(struct fixture *f)
{
  IC_APID_CONNECTION *other;
  IC_QUERY_ID mine = new_query(f), theirs;
  IC_TRANS_ID my_trans, their_trans;

  OK(ic_apid_conn_create(f->glob, &other));
  OK(ic_apid_query_create(other, f->table, f->rec, f->rec, &theirs));
  OK(ic_apid_conn_start_transaction(other, 0, NULL, &their_trans));
  OK(ic_apid_conn_start_transaction(f->conn, 0, NULL, &my_trans));
  CHECK(mine != theirs && my_trans != their_trans);

  CHECK_CODE(ic_apid_conn_write_key(f->conn, theirs, my_trans, NULL), IC_ERROR_STALE_QUERY);
  CHECK_CODE(ic_apid_conn_write_key(f->conn, mine, their_trans, NULL), IC_ERROR_STALE_TRANSACTION);
  CHECK_CODE(ic_apid_query_free(f->conn, theirs), IC_ERROR_STALE_QUERY);
  CHECK_CODE(ic_apid_conn_close_transaction(f->conn, their_trans), IC_ERROR_STALE_TRANSACTION);
  /* A query is no transaction, and the other way round. */
  CHECK_CODE(ic_apid_conn_commit_transaction(other, my_trans), IC_ERROR_STALE_TRANSACTION);

  OK(ic_apid_conn_close_transaction(f->conn, my_trans));
  OK(ic_apid_conn_free(other));
  OK(ic_apid_query_free(f->conn, mine));
}

static void nulls(struct fixture *f)
{
  IC_QUERY_ID query = new_query(f), none = 77;
  IC_TRANS_ID trans = 77;
  IC_RECORD *rec = NULL;
  struct pair row = {1, 1};
  uint32_t hint = 77;

  CHECK_CODE(ic_apid_query_create(f->conn, NULL, f->rec, f->rec, &none), IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_apid_query_create(f->conn, f->table, NULL, f->rec, &none), IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_apid_query_create(f->conn, f->table, f->rec, f->rec, NULL), IC_ERROR_INVALID_ARGUMENT);
  CHECK(none == 77);
  CHECK_CODE(ic_apid_conn_start_transaction(f->conn, 0, NULL, NULL), IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_apid_conn_start_transaction(f->conn, 1, NULL, &trans), IC_ERROR_INVALID_ARGUMENT);
  CHECK(trans == 77);
  CHECK_CODE(ic_apid_conn_stats(f->conn, NULL), IC_ERROR_INVALID_ARGUMENT);
  CHECK(!ic_apid_conn_get_next_executed_query(f->conn, NULL));
  CHECK(ic_apid_conn_hint_for_key(f->conn, NULL, f->rec, (uint8_t *)&row, sizeof row) == 0);
  CHECK(ic_apid_conn_hint_for_key(f->conn, f->table, NULL, (uint8_t *)&row, sizeof row) == 0);
  CHECK(ic_apid_conn_hint_for_key(f->conn, f->table, f->rec, NULL, sizeof row) == 0);
  CHECK_CODE(ic_apid_conn_hints_for_keys(f->conn, NULL, f->rec, (uint8_t *)&row, sizeof row, 1, &hint),
             IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_apid_conn_hints_for_keys(f->conn, f->table, NULL, (uint8_t *)&row, sizeof row, 1, &hint),
             IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_apid_conn_hints_for_keys(f->conn, f->table, f->rec, NULL, sizeof row, 1, &hint),
             IC_ERROR_INVALID_ARGUMENT);
  CHECK(hint == 0);
  CHECK_CODE(ic_apid_conn_hints_for_keys(f->conn, f->table, f->rec, (uint8_t *)&row, sizeof row, 1, NULL),
             IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_record_create(f->table, NULL, 1, sizeof *pair_fields, 16, &rec), IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_record_create(f->table, pair_fields, 2, 8, 16, &rec), IC_ERROR_INVALID_ARGUMENT);
  CHECK(rec == NULL);
  OK(ic_apid_query_free(f->conn, query));
}

static void values_out_of_range(struct fixture *f)
{
  IC_QUERY_ID query = new_query(f);
  IC_TRANS_ID trans;
  IC_WRITE_KEY_ARGS write_args;
  IC_READ_KEY_ARGS read_args;

  fill(f->conn, query, 1, 1);
  trans = start(f, query);
  ic_write_key_args_init(&write_args, sizeof write_args);
  ic_read_key_args_init(&read_args, sizeof read_args);
  write_args.kind = 0;
  read_args.kind = 5;
  CHECK_CODE(ic_apid_conn_write_key(f->conn, query, trans, &write_args), IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_apid_conn_read_key(f->conn, query, trans, &read_args), IC_ERROR_INVALID_ARGUMENT);
  write_args.kind = IC_WRITE_KIND_WRITE;
  read_args.kind = IC_READ_KIND_SHARED;
  write_args.abort_option = read_args.abort_option = 3;
  CHECK_CODE(ic_apid_conn_write_key(f->conn, query, trans, &write_args), IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_apid_conn_read_key(f->conn, query, trans, &read_args), IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_apid_transaction_state(f->conn, trans), IC_TRANS_STATE_OPEN);
  OK(ic_apid_conn_close_transaction(f->conn, trans));
  OK(ic_apid_query_free(f->conn, query));
}

/* Hints of many keys are those of each, whatever their number; none of them is written behind. */
static void hints(struct fixture *f)
{
  struct pair rows[20];
  uint32_t all[20 + 1], count, i;
  const uint8_t *keys = (const uint8_t *)rows;

  for (i = 0; i < 20; i++)
    rows[i].id = rows[i].value = 1000 * i;
  for (count = 0; count <= 20; count++) {
    memset(all, 0xff, sizeof all);
    OK(ic_apid_conn_hints_for_keys(f->conn, f->table, f->rec, keys, sizeof *rows, count, all));
    for (i = 0; i < count; i++) {
      CHECK(all[i] == ic_apid_conn_hint_for_key(f->conn, f->table, f->rec, keys + i * sizeof *rows, sizeof *rows));
      CHECK(all[i] != 0);
    }
    CHECK(all[count] == UINT32_MAX);
  }
}

/* The hint of a row that has not the record's length is none. */
static void row_length(struct fixture *f)
{
  struct pair row = {1, 1};
  const uint8_t *key = (const uint8_t *)&row;
  uint32_t some[2] = {7, 7};

  CHECK(ic_apid_conn_hint_for_key(f->conn, f->table, f->rec, key, sizeof row) != 0);
  CHECK(ic_apid_conn_hint_for_key(f->conn, f->table, f->rec, key, sizeof row - 1) == 0);
  CHECK(ic_apid_conn_hint_for_key(f->conn, f->table, f->rec, key, 0) == 0);
  CHECK_CODE(ic_apid_conn_hints_for_keys(f->conn, f->table, f->rec, key, sizeof row - 1, 2, some),
             IC_ERROR_ROW_LENGTH);
  CHECK_CODE(ic_apid_conn_hints_for_keys(f->conn, f->table, f->rec, key, 0, 2, some), IC_ERROR_ROW_LENGTH);
  CHECK(some[0] == 0 && some[1] == 0);
}

static int32_t record(struct fixture *f, const IC_RECORD_FIELD *fields, uint32_t count, uint32_t row_size)
{
  IC_RECORD *rec = NULL;
  int32_t ret = ic_record_create(f->table, fields, count, sizeof *fields, row_size, &rec);

  CHECK((ret == 0) == (rec != NULL));
  OK(ic_record_free(rec));
  return ret;
}

static void records(struct fixture *f)
{
  const IC_RECORD_FIELD unknown[] = {{"id", 0, 0, 0}, {"valu", 8, 0, 0}};
  const IC_RECORD_FIELD overlap[] = {{"id", 6, 0, 0}, {"value", 8, 0, 0}};
  const IC_RECORD_FIELD twice[] = {{"id", 0, 0, 0}, {"id", 8, 0, 0}};
  const IC_RECORD_FIELD outside[] = {{"id", 0, 0, 0}, {"value", 9, 0, 0}};
  const IC_RECORD_FIELD far_outside[] = {{"id", UINT32_MAX, 0, 0}};

  CHECK_CODE(record(f, unknown, 2, 16), IC_ERROR_NO_SUCH_COLUMN);
  CHECK(strstr(ic_apid_global_error_text(f->glob), "valu") != NULL);
  CHECK_CODE(record(f, overlap, 2, 16), IC_ERROR_FIELD_LAYOUT);
  CHECK_CODE(record(f, twice, 2, 16), IC_ERROR_FIELD_LAYOUT);
  CHECK_CODE(record(f, outside, 2, 16), IC_ERROR_FIELD_LAYOUT);
  CHECK_CODE(record(f, far_outside, 1, 16), IC_ERROR_FIELD_LAYOUT);
  CHECK_CODE(record(f, pair_fields, 2, 16), 0);
}

static void record_of_another_table(struct fixture *f)
{
  const char *name = "c_misuse_other";
  const IC_RECORD_FIELD value_only[] = {{"value", 0, 0, 0}};
  IC_TABLE_DEF *other;
  IC_RECORD *rec, *no_key;
  IC_QUERY_ID query = 77;
  struct pair row = {1, 1};
  uint32_t hint = 77;
  int32_t dropped = ic_apid_table_drop(f->glob, "test", name);

  CHECK(dropped == 0 || dropped == 723);
  OK(ic_apid_table_create(f->glob, "test", name, pair_columns, 2, sizeof *pair_columns, NULL));
  CHECK_CODE(ic_apid_table_create(f->glob, "test", name, pair_columns, 2, sizeof *pair_columns, NULL), 721);
  OK(ic_apid_table_open(f->glob, "test", name, &other));
  OK(ic_record_create(other, pair_fields, 2, sizeof *pair_fields, sizeof row, &rec));
  OK(ic_record_create(f->table, value_only, 1, sizeof *value_only, 8, &no_key));
  CHECK_CODE(ic_apid_query_create(f->conn, f->table, rec, f->rec, &query), IC_ERROR_RECORD_MISMATCH);
  CHECK_CODE(ic_apid_query_create(f->conn, f->table, f->rec, rec, &query), IC_ERROR_RECORD_MISMATCH);
  CHECK_CODE(ic_apid_query_create(f->conn, f->table, no_key, f->rec, &query), IC_ERROR_RECORD_MISMATCH);
  CHECK(query == 77);
  CHECK(ic_apid_conn_hint_for_key(f->conn, f->table, rec, (uint8_t *)&row, sizeof row) == 0);
  CHECK_CODE(ic_apid_conn_hints_for_keys(f->conn, f->table, rec, (uint8_t *)&row, sizeof row, 1, &hint),
             IC_ERROR_RECORD_MISMATCH);
  OK(ic_record_free(no_key));
  OK(ic_record_free(rec));
  OK(ic_apid_table_close(other));
  OK(ic_apid_table_drop(f->glob, "test", name));
  CHECK_CODE(ic_apid_table_open(f->glob, "test", name, &other), 723);
  CHECK(strstr(ic_apid_global_error_text(f->glob), name) != NULL);
}

/* Tables with blobs are neither made nor read. */
static void blobs(struct fixture *f)
{
  const IC_COLUMN columns[] = {
    {.name = "id", .kind = IC_TYPE_UNSIGNED, .flags = IC_COLUMN_PRIMARY_KEY},
    {.name = "picture", .kind = IC_TYPE_BLOB, .flags = IC_COLUMN_NULLABLE},
  };

  CHECK_CODE(ic_apid_table_create(f->glob, "test", "c_misuse_blob", columns, 2, sizeof *columns, NULL),
             IC_ERROR_INVALID_TABLE);
  CHECK(strstr(ic_apid_global_error_text(f->glob), "picture") != NULL);
}

static void query_in_flight(struct fixture *f)
{
  IC_QUERY_ID query = new_query(f), executed;
  IC_TRANS_ID trans;
  uint32_t len = 1;

  fill(f->conn, query, 1, 1);
  trans = start(f, query);
  write_row(f, query, trans, NULL, NULL);
  CHECK_CODE(ic_apid_query_free(f->conn, query), IC_ERROR_QUERY_NOT_IDLE);
  CHECK_CODE(ic_apid_conn_write_key(f->conn, query, trans, NULL), IC_ERROR_QUERY_NOT_IDLE);
  CHECK(ic_apid_query_key_row(f->conn, query, &len) == NULL && len == 0);
  CHECK(ic_apid_query_attr_row(f->conn, query, NULL) == NULL);
  OK(ic_apid_conn_commit_transaction(f->conn, trans));
  CHECK_CODE(ic_apid_conn_commit_transaction(f->conn, trans), IC_ERROR_TRANSACTION_NOT_OPEN);
  CHECK_CODE(ic_apid_query_free(f->conn, query), IC_ERROR_QUERY_NOT_IDLE);
  drain(f->conn);
  CHECK(ic_apid_conn_get_next_executed_query(f->conn, &executed) && executed == query);
  OK(ic_apid_query_error(f->conn, query));
  CHECK_CODE(ic_apid_transaction_state(f->conn, trans), IC_TRANS_STATE_COMMITTED);
  CHECK_CODE(ic_apid_conn_rollback_transaction(f->conn, trans), IC_ERROR_TRANSACTION_NOT_OPEN);
  CHECK_CODE(ic_apid_conn_write_key(f->conn, query, trans, NULL), IC_ERROR_TRANSACTION_NOT_OPEN);
  OK(ic_apid_conn_close_transaction(f->conn, trans));
  OK(ic_apid_query_free(f->conn, query));
}

/* What a second thread, and the callback itself, were told. */
struct seen {
  IC_APID_CONNECTION *conn;
  int calls;
  int32_t thread_send, thread_poll, thread_flush, thread_free, thread_sync;
};

static void *second_thread(void *user_ref)
{
  struct seen *seen = user_ref;

  seen->thread_send = ic_apid_conn_send(seen->conn, true);
  seen->thread_poll = ic_apid_conn_poll(seen->conn, 0, NULL);
  seen->thread_flush = ic_apid_conn_flush(seen->conn, 0, true, NULL);
  seen->thread_free = ic_apid_conn_free(seen->conn);
  seen->thread_sync = ic_apid_conn_read_key_sync(seen->conn, 0, NULL, 0);
  return NULL;
}

static void misbehaves(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref)
{
  struct seen *seen = user_ref;
  uint32_t signals = 99;
  pthread_t thread;

  seen->calls++;
  seen->conn = conn;
  OK(ic_apid_query_error(conn, query));
  CHECK_CODE(ic_apid_conn_free(conn), IC_ERROR_IN_CALLBACK);
  OK(ic_apid_conn_poll(conn, 10000, &signals));
  CHECK(signals == 0);
  signals = 99;
  OK(ic_apid_conn_flush(conn, 10000, true, &signals));
  CHECK(signals == 0);
  CHECK_CODE(ic_apid_conn_write_key_sync(conn, query, NULL, 10), IC_ERROR_IN_CALLBACK);
  CHECK(pthread_create(&thread, NULL, second_thread, seen) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

static void in_callbacks(struct fixture *f)
{
  struct seen seen = {0};
  IC_QUERY_ID query = new_query(f);
  IC_TRANS_ID trans;

  fill(f->conn, query, 2, 2);
  trans = start(f, query);
  write_row(f, query, trans, misbehaves, &seen);
  OK(ic_apid_conn_commit_transaction(f->conn, trans));
  drain(f->conn);
  CHECK(seen.calls == 1);
  CHECK_CODE(seen.thread_send, IC_ERROR_BUSY);
  CHECK_CODE(seen.thread_poll, IC_ERROR_BUSY);
  CHECK_CODE(seen.thread_flush, IC_ERROR_BUSY);
  CHECK_CODE(seen.thread_free, IC_ERROR_BUSY);
  CHECK_CODE(seen.thread_sync, IC_ERROR_BUSY);
  OK(ic_apid_conn_close_transaction(f->conn, trans));
  OK(ic_apid_query_free(f->conn, query));
}

/* Polls until it is told to stop; it too may be refused. */
static atomic_bool stop;

static void *polls(void *conn)
{
  while (!atomic_load(&stop)) {
    int32_t ret = ic_apid_conn_poll(conn, 50, NULL);
    CHECK(ret == 0 || ret == IC_ERROR_BUSY);
  }
  return NULL;
}

/* Of two threads that poll at once, one is refused. */
static void two_polls(struct fixture *f)
{
  IC_QUERY_ID query = new_query(f), executed;
  pthread_t thread;
  IC_TRANS_ID trans;
  int32_t ret;

  CHECK(pthread_create(&thread, NULL, polls, f->conn) == 0);
  while ((ret = ic_apid_conn_poll(f->conn, 0, NULL)) == 0)
    continue;
  CHECK_CODE(ret, IC_ERROR_BUSY);
  atomic_store(&stop, true);
  CHECK(pthread_join(thread, NULL) == 0);

  /* The connection is as good as before. */
  fill(f->conn, query, 3, 3);
  trans = start(f, query);
  write_row(f, query, trans, NULL, NULL);
  OK(ic_apid_conn_commit_transaction(f->conn, trans));
  drain(f->conn);
  CHECK(ic_apid_conn_get_next_executed_query(f->conn, &executed) && executed == query);
  OK(ic_apid_query_error(f->conn, query));
  OK(ic_apid_conn_close_transaction(f->conn, trans));
  OK(ic_apid_query_free(f->conn, query));
}

/* The cluster handle goes last; table and record may go before the query that was made with them. */
static void order_of_frees(struct fixture *f, const char *connectstring)
{
  IC_APID_GLOBAL *glob;
  IC_APID_CONNECTION *conn;
  IC_TABLE_DEF *table;
  IC_RECORD *rec;
  IC_QUERY_ID query;

  OK(ic_apid_global_create(&glob));
  OK(ic_apid_global_connect(glob, connectstring, NULL));
  CHECK_CODE(ic_apid_global_connect(glob, connectstring, NULL), IC_ERROR_STILL_IN_USE);
  OK(ic_apid_table_open(glob, "test", f->name, &table));
  OK(ic_record_create(table, pair_fields, 2, sizeof *pair_fields, sizeof(struct pair), &rec));
  OK(ic_apid_conn_create(glob, &conn));
  CHECK_CODE(ic_apid_global_free(glob), IC_ERROR_STILL_IN_USE);
  CHECK(strstr(ic_apid_global_error_text(glob), "1 connection") != NULL);
  CHECK(strstr(ic_apid_global_error_text(glob), "1 table") != NULL);

  OK(ic_apid_query_create(conn, table, rec, rec, &query));
  OK(ic_record_free(rec));
  OK(ic_apid_table_close(table));
  fill(conn, query, 4, 4);
  OK(ic_apid_conn_write_key_sync(conn, query, NULL, 10000));
  CHECK_CODE(ic_apid_global_free(glob), IC_ERROR_STILL_IN_USE);
  CHECK(strstr(ic_apid_global_error_text(glob), "0 tables") != NULL);

  /* After a disconnect the connection says so, and is freed all the same. */
  OK(ic_apid_global_disconnect(glob));
  CHECK_CODE(ic_apid_conn_poll(conn, 0, NULL), IC_ERROR_NOT_CONNECTED);
  OK(ic_apid_conn_free(conn));
  OK(ic_apid_global_free(glob));
}

static void names(struct fixture *f)
{
  IC_TABLE_DEF *table = NULL;
  char longer[1000];

  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  CHECK_CODE(ic_apid_table_open(f->glob, "test", "", &table), IC_ERROR_INVALID_NAME);
  CHECK_CODE(ic_apid_table_open(f->glob, "", "t", &table), IC_ERROR_INVALID_NAME);
  CHECK_CODE(ic_apid_table_open(f->glob, "test", longer, &table), IC_ERROR_INVALID_NAME);
  CHECK_CODE(ic_apid_table_open(f->glob, "test", "\xff", &table), IC_ERROR_INVALID_NAME);
  CHECK_CODE(ic_apid_table_open(f->glob, "test", "no_such_table", &table), 723);
  CHECK(strstr(ic_apid_global_error_text(f->glob), "test") != NULL);
  CHECK(strstr(ic_apid_global_error_text(f->glob), "no_such_table") != NULL);
  CHECK(table == NULL);
}

int main(int argc, char **argv)
{
  struct fixture f;

  fixture_begin(&f, argc, argv, "c_misuse");
  stale_handles(&f);
  foreign_handles(&f);
  nulls(&f);
  values_out_of_range(&f);
  hints(&f);
  row_length(&f);
  records(&f);
  record_of_another_table(&f);
  blobs(&f);
  names(&f);
  query_in_flight(&f);
  in_callbacks(&f);
  two_polls(&f);
  order_of_frees(&f, argv[1]);
  fixture_end(&f);
  return 0;
}
