/*
 * The calling pattern that the library promises to keep: its fragments stand here as they were given, with
 * declarations around them. They must compile without a warning and run.
 */
#define _POSIX_C_SOURCE 200809L

#include "test.h"

#define MAX_IN_FLIGHT 32

static void ex_check(int32_t code, const char *call)
{
  if (code != 0)
    test_failed(__FILE__, __LINE__, call);
}

#define EX_CHECK(call) ex_check((call), #call)

static void ex_fail(const char *what, int32_t code)
{
  fprintf(stderr, "%s: %d\n", what, (int)code);
  _exit(1);
}

struct pipeline {
  IC_TABLE_DEF *table;
  IC_RECORD *rec;
  uint32_t next;       /* the next id to write */
  uint32_t end, done, failed;
  int32_t first_error;
};
/* One query in flight: the callback's user_ref. */
struct slot {
  struct pipeline *p;
  IC_QUERY_ID query;
  IC_TRANS_ID trans;
};
static struct slot slots[MAX_IN_FLIGHT];

static void on_written(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref);

static int32_t start_write(IC_APID_CONNECTION *conn, struct slot *s, uint32_t id)
{
  struct pipeline *p = s->p;
  struct pair row = {id, id * UINT64_C(3)};
  IC_WRITE_KEY_ARGS args;
  uint8_t *key, *attr;
  uint32_t key_len, attr_len, hint;
  int32_t ret;

  key = ic_apid_query_key_row(conn, s->query, &key_len);
  attr = ic_apid_query_attr_row(conn, s->query, &attr_len);
  CHECK(key_len == sizeof row && attr_len == sizeof row);
  memcpy(key, &row, sizeof row);
  memcpy(attr, &row, sizeof row);
  hint = ic_apid_conn_hint_for_key(conn, p->table, p->rec, key, key_len);
  ret = ic_apid_conn_start_transaction(conn, hint, p->table, &s->trans);
  if (ret != 0)
    return ret;
  ic_write_key_args_init(&args, sizeof args);
  args.kind = IC_WRITE_KIND_WRITE;
  args.callback = on_written;
  args.user_ref = s;
  ret = ic_apid_conn_write_key(conn, s->query, s->trans, &args);
  if (ret != 0)
    return ret;
  return ic_apid_conn_commit_transaction(conn, s->trans);
}

static void on_written(IC_APID_CONNECTION *conn, IC_QUERY_ID query,
                       void *user_ref)
{
  struct slot *s = user_ref;
  struct pipeline *p = s->p;
  int32_t ret = ic_apid_query_error(conn, query);
  p->done++;
  if (ret != 0 && p->failed++ == 0)
    p->first_error = ret;
  ic_apid_conn_close_transaction(conn, s->trans);
  while (p->next < p->end) {
    ret = start_write(conn, s, p->next++);
    if (ret == 0)
      break;
    p->done++;
    if (p->failed++ == 0)
      p->first_error = ret;
  }
}

static void write_all(IC_APID_CONNECTION *conn, struct fixture *f, uint32_t rows)
{
  struct pipeline p = {f->table, f->rec, 0, rows, 0, 0, 0};
  uint32_t width = MAX_IN_FLIGHT, i;

  for (i = 0; i < width; i++) {
    slots[i].p = &p;
    EX_CHECK(ic_apid_query_create(conn, p.table, p.rec, p.rec,
                                  &slots[i].query));
    EX_CHECK(start_write(conn, &slots[i], p.next++));
  }
  while (p.done < rows)
    EX_CHECK(ic_apid_conn_flush(conn, 10, 0, NULL));
  CHECK(p.failed == 0 && p.first_error == 0 && p.done == rows);
}

/* The way of the executed list: a send, then polls; a query's user_ref comes back with it. */
static void read_all(IC_APID_CONNECTION *conn, uint32_t rows)
{
  bool seen[MAX_IN_FLIGHT] = {false};
  uint32_t taken = 0, signals = 0, i;
  IC_QUERY_ID query;
  IC_READ_KEY_ARGS args;

  for (i = 0; i < MAX_IN_FLIGHT; i++) {
    struct slot *s = &slots[i];
    fill(conn, s->query, i * (rows / MAX_IN_FLIGHT), 0);
    OK(ic_apid_conn_start_transaction(conn, 0, NULL, &s->trans));
    ic_read_key_args_init(&args, sizeof args);
    args.callback = NULL;
    args.user_ref = s;
    OK(ic_apid_conn_read_key(conn, s->query, s->trans, &args));
    OK(ic_apid_conn_commit_transaction(conn, s->trans));
  }
  OK(ic_apid_conn_send(conn, true));
  while (taken < MAX_IN_FLIGHT) {
    OK(ic_apid_conn_poll(conn, 1000, &signals));
    while (ic_apid_conn_get_next_executed_query(conn, &query)) {
      struct slot *s = ic_apid_query_user_ref(conn, query);
      IC_TRANS_ID trans = s->trans;
      int32_t ret;

      CHECK(s->query == query);
      ret = ic_apid_transaction_error(conn, trans);
      if (ret == 0)
        ret = ic_apid_query_error(conn, query);
      if (ret != 0) {
        if (!ic_error_is_temporary(ret))
          ex_fail("the update", ret);
        CHECK(!"a temporary error");
      }
      i = (uint32_t)(s - slots);
      CHECK(!seen[i]);
      seen[i] = true;
      CHECK(row_of(conn, query)->id == i * (rows / MAX_IN_FLIGHT));
      CHECK(row_of(conn, query)->value == row_of(conn, query)->id * UINT64_C(3));
      ic_apid_conn_close_transaction(conn, trans);
      taken++;
    }
  }
}

int main(int argc, char **argv)
{
  struct fixture f;

  fixture_begin(&f, argc, argv, "c_seed");
  write_all(f.conn, &f, 1000);
  read_all(f.conn, 1000);
  fixture_end(&f);
  return 0;
}
