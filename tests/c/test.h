/*
 * What the C tests share: checks that end the program, and a small table to work on.
 *
 * A test is a program: its exit status says whether it passed. One that hangs is ended by an alarm.
 */
#ifndef TEST_H
#define TEST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iclaustron/ic_apid.h>

#define CHECK(condition)                                                                                    \
  do {                                                                                                      \
    if (!(condition))                                                                                       \
      test_failed(__FILE__, __LINE__, #condition);                                                          \
  } while (0)

/* That a call returns a code. */
#define CHECK_CODE(call, code) test_code(__FILE__, __LINE__, #call, (call), (code))
#define OK(call) CHECK_CODE(call, 0)

static inline void test_failed(const char *file, int line, const char *what)
{
  fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
  /* Not exit(): the test may be inside the library. */
  _exit(1);
}

static inline void test_code(const char *file, int line, const char *call, int32_t got, int32_t wanted)
{
  if (got == wanted)
    return;
  fprintf(stderr, "%s:%d: %s gave %d (%s), not %d\n", file, line, call, (int)got, ic_error_message(got),
          (int)wanted);
  _exit(1);
}

/* Ends the program if it runs for so many seconds. */
static inline void test_time_limit(unsigned seconds)
{
  alarm(seconds);
}

#ifndef TEST_NO_FIXTURE /* for a program that is not linked with the library */

/* A row of the test's table. */
struct pair {
  uint32_t id;
  uint64_t value;
};

static const IC_COLUMN pair_columns[] = {
  {.name = "id", .kind = IC_TYPE_UNSIGNED, .flags = IC_COLUMN_PRIMARY_KEY},
  {.name = "value", .kind = IC_TYPE_BIGUNSIGNED},
};

static const IC_RECORD_FIELD pair_fields[] = {
  {.name = "id", .offset = offsetof(struct pair, id)},
  {.name = "value", .offset = offsetof(struct pair, value)},
};

/* A cluster handle, an empty table of the test's own, a record of it and a connection. */
struct fixture {
  const char *name;
  IC_APID_GLOBAL *glob;
  IC_TABLE_DEF *table;
  IC_RECORD *rec;
  IC_APID_CONNECTION *conn;
};

static inline void fixture_must(struct fixture *f, const char *what, int32_t code)
{
  if (code == 0)
    return;
  fprintf(stderr, "%s: %d (%s): %s\n", what, (int)code, ic_error_message(code),
          ic_apid_global_error_text(f->glob));
  _exit(1);
}

/* Joins the cluster that the first argument names, and makes the table test.<name>. */
static inline void fixture_begin(struct fixture *f, int argc, char **argv, const char *name)
{
  int32_t dropped;

  test_time_limit(120);
  CHECK(argc > 1);
  f->name = name;
  OK(ic_apid_global_create(&f->glob));
  fixture_must(f, "connect", ic_apid_global_connect(f->glob, argv[1], NULL));
  dropped = ic_apid_table_drop(f->glob, "test", name);
  CHECK(dropped == 0 || dropped == 723);
  fixture_must(f, "create",
               ic_apid_table_create(f->glob, "test", name, pair_columns, 2, sizeof *pair_columns, NULL));
  fixture_must(f, "open", ic_apid_table_open(f->glob, "test", name, &f->table));
  fixture_must(f, "record",
               ic_record_create(f->table, pair_fields, 2, sizeof *pair_fields, sizeof(struct pair), &f->rec));
  OK(ic_apid_conn_create(f->glob, &f->conn));
}

/* Frees it all. A connection that the test has freed must be NULL. */
static inline void fixture_end(struct fixture *f)
{
  OK(ic_apid_conn_free(f->conn));
  OK(ic_record_free(f->rec));
  OK(ic_apid_table_close(f->table));
  fixture_must(f, "drop", ic_apid_table_drop(f->glob, "test", f->name));
  fixture_must(f, "free", ic_apid_global_free(f->glob));
}

static inline IC_QUERY_ID new_query(struct fixture *f)
{
  IC_QUERY_ID query;

  OK(ic_apid_query_create(f->conn, f->table, f->rec, f->rec, &query));
  return query;
}

/* Fills the rows of an idle query. */
static inline void fill(IC_APID_CONNECTION *conn, IC_QUERY_ID query, uint32_t id, uint64_t value)
{
  uint32_t key_len, attr_len;
  struct pair *key = (struct pair *)ic_apid_query_key_row(conn, query, &key_len);
  struct pair *attr = (struct pair *)ic_apid_query_attr_row(conn, query, &attr_len);

  CHECK(key != NULL && key_len == sizeof *key);
  CHECK(attr != NULL && attr_len == sizeof *attr);
  key->id = attr->id = id;
  attr->value = value;
}

/* The row that a query has read. */
static inline const struct pair *row_of(IC_APID_CONNECTION *conn, IC_QUERY_ID query)
{
  const struct pair *row = (const struct pair *)ic_apid_query_attr_row(conn, query, NULL);

  CHECK(row != NULL);
  return row;
}

/* Starts a transaction at a node that has the row of the query's key. */
static inline IC_TRANS_ID start(struct fixture *f, IC_QUERY_ID query)
{
  uint32_t key_len;
  const uint8_t *key = ic_apid_query_key_row(f->conn, query, &key_len);
  uint32_t hint = ic_apid_conn_hint_for_key(f->conn, f->table, f->rec, key, key_len);
  IC_TRANS_ID trans;

  CHECK(hint != 0);
  OK(ic_apid_conn_start_transaction(f->conn, hint, f->table, &trans));
  return trans;
}

static inline void write_row(struct fixture *f, IC_QUERY_ID query, IC_TRANS_ID trans, IC_QUERY_CALLBACK callback,
                             void *user_ref)
{
  IC_WRITE_KEY_ARGS args;

  ic_write_key_args_init(&args, sizeof args);
  args.callback = callback;
  args.user_ref = user_ref;
  OK(ic_apid_conn_write_key(f->conn, query, trans, &args));
}

static inline void read_row(struct fixture *f, IC_QUERY_ID query, IC_TRANS_ID trans, IC_QUERY_CALLBACK callback,
                            void *user_ref)
{
  IC_READ_KEY_ARGS args;

  ic_read_key_args_init(&args, sizeof args);
  args.callback = callback;
  args.user_ref = user_ref;
  OK(ic_apid_conn_read_key(f->conn, query, trans, &args));
}

/* Flushes until the connection has nothing in flight. */
static inline void drain(IC_APID_CONNECTION *conn)
{
  IC_STATS stats;

  do {
    OK(ic_apid_conn_flush(conn, 100, false, NULL));
    stats.size = sizeof stats;
    OK(ic_apid_conn_stats(conn, &stats));
  } while (stats.in_flight > 0);
}

#endif

#endif
