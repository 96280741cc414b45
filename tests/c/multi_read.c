/*
 * Multi-key reads from C: by queries and by rows, with a callback and on the executed list, duplicates, missing keys,
 * what is refused, handles that are stale.
 */
#include <stdbool.h>

#include "test.h"

#define COUNT 40

static uint32_t calls;
static IC_MULTI_READ_ID called;

static bool is_there(uint32_t id)
{
  return id % 4 != 0;
}

static IC_MULTI_READ_ID executed(IC_APID_CONNECTION *conn)
{
  IC_MULTI_READ_ID done;

  while (!ic_apid_conn_get_next_executed_multi_read(conn, &done))
    OK(ic_apid_conn_flush(conn, 100, false, NULL));
  return done;
}

static void write_rows(struct fixture *f, IC_QUERY_ID query)
{
  uint32_t id;

  for (id = 0; id < COUNT; id++) {
    if (!is_there(id))
      continue;
    fill(f->conn, query, id, 1000 + id);
    OK(ic_apid_conn_write_key_sync(f->conn, query, NULL, 10000));
  }
}

static void on_read(IC_APID_CONNECTION *conn, IC_MULTI_READ_ID read, void *user_ref)
{
  CHECK(user_ref == &calls);
  CHECK(ic_apid_multi_read_user_ref(conn, read) == &calls);
  CHECK(ic_apid_multi_read_found(conn, read) == 2);
  CHECK_CODE(ic_apid_conn_free(conn), IC_ERROR_IN_CALLBACK);
  called = read;
  calls++;
}

static void by_queries(struct fixture *f)
{
  const uint32_t ids[] = {1, 1, 4, 2, 100};
  const int32_t states[] = {IC_KEY_STATE_FOUND, IC_KEY_STATE_FOUND, IC_KEY_STATE_MISSING, IC_KEY_STATE_FOUND,
                            IC_KEY_STATE_MISSING};
  IC_QUERY_ID queries[5], twice[2];
  IC_MULTI_READ_ARGS args;
  IC_MULTI_READ_ID read, other;
  uint32_t i;

  for (i = 0; i < 5; i++) {
    queries[i] = new_query(f);
    fill(f->conn, queries[i], ids[i], 7);
  }
  twice[0] = twice[1] = queries[0];
  CHECK_CODE(ic_apid_conn_multi_read(f->conn, twice, 2, NULL, &read), IC_ERROR_QUERY_NOT_IDLE);
  CHECK_CODE(ic_apid_conn_multi_read(f->conn, queries, 0, NULL, &read), IC_ERROR_INVALID_ARGUMENT);
  ic_multi_read_args_init(&args, sizeof args);
  args.kind = 3;
  CHECK_CODE(ic_apid_conn_multi_read(f->conn, queries, 5, &args, &read), IC_ERROR_INVALID_ARGUMENT);

  OK(ic_apid_conn_multi_read(f->conn, queries, 5, NULL, &read));
  CHECK_CODE(ic_apid_conn_multi_read(f->conn, queries, 1, NULL, &other), IC_ERROR_QUERY_NOT_IDLE);
  CHECK_CODE(ic_apid_multi_read_error(f->conn, read), IC_ERROR_STILL_IN_FLIGHT);
  CHECK_CODE(ic_apid_multi_read_close(f->conn, read), IC_ERROR_QUERY_NOT_IDLE);
  CHECK_CODE(ic_apid_query_free(f->conn, queries[0]), IC_ERROR_QUERY_NOT_IDLE);
  CHECK(ic_apid_query_attr_row(f->conn, queries[0], NULL) == NULL);
  CHECK(executed(f->conn) == read);
  OK(ic_apid_multi_read_error(f->conn, read));
  for (i = 0; i < 5; i++) {
    CHECK(ic_apid_multi_read_key_state(f->conn, read, i) == states[i]);
    CHECK_CODE(ic_apid_multi_read_key_error(f->conn, read, i), states[i] == IC_KEY_STATE_FOUND ? 0 : 626);
    if (states[i] == IC_KEY_STATE_FOUND)
      CHECK(row_of(f->conn, queries[i])->value == 1000 + ids[i]);
  }
  CHECK(ic_apid_multi_read_key_state(f->conn, read, 5) == IC_ERROR_INVALID_ARGUMENT);
  OK(ic_apid_multi_read_close(f->conn, read));
  CHECK_CODE(ic_apid_multi_read_close(f->conn, read), IC_ERROR_STALE_QUERY);
  CHECK(ic_apid_multi_read_key_state(f->conn, read, 0) == IC_ERROR_STALE_QUERY);

  ic_multi_read_args_init(&args, sizeof args);
  args.kind = IC_MULTI_READ_EXISTS;
  args.callback = on_read;
  args.user_ref = &calls;
  OK(ic_apid_conn_multi_read(f->conn, queries, 3, &args, &read));
  while (calls == 0)
    OK(ic_apid_conn_flush(f->conn, 100, false, NULL));
  CHECK(called == read);
  CHECK_CODE(ic_apid_multi_read_error(f->conn, read), IC_ERROR_STALE_QUERY);
  CHECK(row_of(f->conn, queries[0])->value == 1001); /* nothing was read into it */
  for (i = 0; i < 5; i++)
    OK(ic_apid_query_free(f->conn, queries[i]));
}

static void by_rows(struct fixture *f)
{
  struct pair keys[COUNT], rows[COUNT];
  IC_MULTI_READ_ID read;
  uint32_t round, i;

  for (round = 0; round < 3; round++) {
    memset(rows, 0, sizeof rows);
    for (i = 0; i < COUNT; i++)
      keys[i].id = (i + round) % COUNT;
    OK(ic_apid_conn_multi_read_rows(f->conn, f->table, f->rec, f->rec, (const uint8_t *)keys, (uint8_t *)rows, COUNT,
                                    NULL, &read));
    memset(keys, 0xff, sizeof keys); /* they were copied */
    CHECK(executed(f->conn) == read);
    CHECK(ic_apid_multi_read_found(f->conn, read) == 3 * COUNT / 4);
    for (i = 0; i < COUNT; i++) {
      uint32_t id = (i + round) % COUNT;
      CHECK(rows[i].value == (is_there(id) ? 1000u + id : 0u));
    }
    OK(ic_apid_multi_read_close(f->conn, read));
  }
  OK(ic_apid_conn_multi_read_rows(f->conn, f->table, f->rec, NULL, (const uint8_t *)keys, NULL, 1, NULL, &read));
  CHECK(executed(f->conn) == read);
  CHECK(ic_apid_multi_read_key_state(f->conn, read, 0) == IC_KEY_STATE_MISSING);
  OK(ic_apid_multi_read_close(f->conn, read));
}

int main(int argc, char **argv)
{
  struct fixture f;
  IC_QUERY_ID query;

  fixture_begin(&f, argc, argv, "ic_test_multi_read");
  query = new_query(&f);
  write_rows(&f, query);
  by_queries(&f);
  by_rows(&f);
  fixture_end(&f);
  return 0;
}
