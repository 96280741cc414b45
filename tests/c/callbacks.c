/*
 * What a callback may do, in what order completions are taken, and that each accepted operation completes
 * exactly once, at the latest while its connection is freed.
 */
#include "test.h"

/* A chain of operations, each defined in the callback of the one before, on the same query. */
struct chain {
  struct fixture *f;
  IC_TRANS_ID trans;
  IC_QUERY_ID other; /* a second query, defined in callbacks as well */
  IC_TRANS_ID other_trans;
  int step;
  int other_done;
};

static void on_other(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref)
{
  struct chain *c = user_ref;

  CHECK(query == c->other);
  CHECK(ic_apid_query_user_ref(conn, query) == user_ref);
  OK(ic_apid_query_error(conn, query));
  OK(ic_apid_conn_close_transaction(conn, c->other_trans));
  c->other_done++;
}

static void on_step(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref)
{
  struct chain *c = user_ref;
  int32_t error = ic_apid_query_error(conn, query);

  CHECK(conn == c->f->conn && ic_apid_query_user_ref(conn, query) == user_ref);
  switch (c->step++) {
  case 0: /* written and committed: read it back, with this query in a new transaction */
    CHECK_CODE(error, 0);
    CHECK_CODE(ic_apid_transaction_state(conn, c->trans), IC_TRANS_STATE_COMMITTED);
    OK(ic_apid_conn_close_transaction(conn, c->trans));
    fill(conn, query, 1, 0);
    c->trans = start(c->f, query);
    read_row(c->f, query, c->trans, on_step, c);
    /* From the definition on the rows are the library's, in the callback too. */
    CHECK(ic_apid_query_attr_row(conn, query, NULL) == NULL);
    OK(ic_apid_conn_commit_transaction(conn, c->trans));
    break;
  case 1: /* read: write another value, without a commit yet, and another row by another query */
    CHECK_CODE(error, 0);
    CHECK(row_of(conn, query)->id == 1 && row_of(conn, query)->value == 10);
    OK(ic_apid_conn_close_transaction(conn, c->trans));
    fill(conn, query, 1, 11);
    c->trans = start(c->f, query);
    write_row(c->f, query, c->trans, on_step, c);
    fill(conn, c->other, 2, 20);
    c->other_trans = start(c->f, c->other);
    write_row(c->f, c->other, c->other_trans, on_other, c);
    OK(ic_apid_conn_commit_transaction(conn, c->other_trans));
    OK(ic_apid_conn_send(conn, true));
    break;
  case 2: /* executed, not committed: roll it back, and read what is there in another transaction */
    CHECK_CODE(error, 0);
    CHECK_CODE(ic_apid_transaction_state(conn, c->trans), IC_TRANS_STATE_OPEN);
    OK(ic_apid_conn_rollback_transaction(conn, c->trans));
    OK(ic_apid_conn_close_transaction(conn, c->trans));
    fill(conn, query, 1, 0);
    c->trans = start(c->f, query);
    read_row(c->f, query, c->trans, on_step, c);
    OK(ic_apid_conn_commit_transaction(conn, c->trans));
    break;
  case 3: /* the value from before; now a row that is not there */
    CHECK_CODE(error, 0);
    CHECK(row_of(conn, query)->value == 10);
    OK(ic_apid_conn_close_transaction(conn, c->trans));
    fill(conn, query, 999, 0);
    c->trans = start(c->f, query);
    read_row(c->f, query, c->trans, on_step, c);
    OK(ic_apid_conn_commit_transaction(conn, c->trans));
    break;
  case 4: /* and the end of the chain: its query is freed in its own callback */
    CHECK_CODE(error, 626);
    OK(ic_apid_conn_close_transaction(conn, c->trans));
    OK(ic_apid_query_free(conn, query));
    CHECK_CODE(ic_apid_query_error(conn, query), IC_ERROR_STALE_QUERY);
    break;
  default:
    CHECK(!"a callback too many");
  }
}

static void chain(struct fixture *f)
{
  struct chain c = {.f = f, .other = new_query(f)};
  IC_QUERY_ID query = new_query(f), executed;

  fill(f->conn, query, 1, 10);
  c.trans = start(f, query);
  write_row(f, query, c.trans, on_step, &c);
  OK(ic_apid_conn_commit_transaction(f->conn, c.trans));
  drain(f->conn);
  CHECK(c.step == 5 && c.other_done == 1);
  CHECK(!ic_apid_conn_get_next_executed_query(f->conn, &executed));
  OK(ic_apid_query_free(f->conn, c.other));
}

/* A failed write: its query tells why, its transaction is rolled back. */
static void on_refused(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref)
{
  IC_TRANS_ID *trans = user_ref;

  CHECK_CODE(ic_apid_query_error(conn, query), 630);
  CHECK_CODE(ic_apid_transaction_error(conn, *trans), 630);
  CHECK_CODE(ic_apid_transaction_state(conn, *trans), IC_TRANS_STATE_ENDED);
  OK(ic_apid_conn_close_transaction(conn, *trans));
  *trans = 0;
}

static void refused(struct fixture *f)
{
  IC_QUERY_ID query = new_query(f);
  IC_WRITE_KEY_ARGS args;
  IC_TRANS_ID trans;

  fill(f->conn, query, 1, 10);
  OK(ic_apid_conn_write_key_sync(f->conn, query, NULL, 10000));
  trans = start(f, query);
  ic_write_key_args_init(&args, sizeof args);
  args.kind = IC_WRITE_KIND_INSERT;
  args.callback = on_refused;
  args.user_ref = &trans;
  OK(ic_apid_conn_write_key(f->conn, query, trans, &args));
  OK(ic_apid_conn_commit_transaction(f->conn, trans));
  drain(f->conn);
  CHECK(trans == 0);
  OK(ic_apid_query_free(f->conn, query));
}

#define COUNT 8

/* The executed list gives the oldest completion first, each once. In one transaction at one node operations
 * complete in the order of their definition. */
static void executed_list(struct fixture *f)
{
  IC_QUERY_ID queries[COUNT], executed;
  IC_TRANS_ID trans;
  int i;

  OK(ic_apid_conn_start_transaction(f->conn, 0, NULL, &trans));
  for (i = 0; i < COUNT; i++) {
    queries[i] = new_query(f);
    fill(f->conn, queries[i], 100 + (uint32_t)i, (uint64_t)i);
    /* One that is alone in its batch is complete before the next is sent. */
    write_row(f, queries[i], trans, NULL, &queries[i]);
    drain(f->conn);
  }
  for (i = 0; i < COUNT; i++) {
    /* Complete: the rows are the caller's again, before the query is taken too. */
    CHECK(row_of(f->conn, queries[i])->id == 100 + (uint32_t)i);
    CHECK(ic_apid_conn_get_next_executed_query(f->conn, &executed));
    CHECK(executed == queries[i]);
    CHECK(ic_apid_query_user_ref(f->conn, executed) == &queries[i]);
    OK(ic_apid_query_error(f->conn, executed));
  }
  CHECK(!ic_apid_conn_get_next_executed_query(f->conn, &executed));
  OK(ic_apid_conn_commit_transaction(f->conn, trans));
  drain(f->conn);
  OK(ic_apid_conn_close_transaction(f->conn, trans));
  for (i = 0; i < COUNT; i++)
    OK(ic_apid_query_free(f->conn, queries[i]));
}

static void on_counted(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref)
{
  OK(ic_apid_query_error(conn, query));
  ++*(int *)user_ref;
}

/* Both ways on one connection, and in one transaction: each query comes the way it was defined. */
static void both_ways(struct fixture *f)
{
  IC_QUERY_ID queries[COUNT], executed;
  IC_TRANS_ID trans;
  int called[COUNT] = {0}, i;

  OK(ic_apid_conn_start_transaction(f->conn, 0, NULL, &trans));
  for (i = 0; i < COUNT; i++) {
    queries[i] = new_query(f);
    fill(f->conn, queries[i], 200 + (uint32_t)i, (uint64_t)i);
    write_row(f, queries[i], trans, i % 2 == 0 ? on_counted : NULL, &called[i]);
  }
  OK(ic_apid_conn_commit_transaction(f->conn, trans));
  drain(f->conn);
  while (ic_apid_conn_get_next_executed_query(f->conn, &executed)) {
    int *mine = ic_apid_query_user_ref(f->conn, executed);
    CHECK((mine - called) % 2 == 1);
    ++*mine;
  }
  for (i = 0; i < COUNT; i++) {
    CHECK(called[i] == 1);
    OK(ic_apid_query_free(f->conn, queries[i]));
  }
  OK(ic_apid_conn_close_transaction(f->conn, trans));
}

#define MANY 300

static struct completions {
  int calls[MANY];
  int32_t errors[MANY];
} completions;

static void on_any(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref)
{
  int *calls = user_ref;

  ++*calls;
  completions.errors[calls - completions.calls] = ic_apid_query_error(conn, query);
  /* Also while the connection is being freed: */
  CHECK_CODE(ic_apid_conn_free(conn), IC_ERROR_IN_CALLBACK);
}

/* Runs as many transactions at once as will be needed: their coordinator records stay, so that the next ones do
 * not wait for any. */
static void have_records(struct fixture *f)
{
  IC_TRANS_ID trans[MANY];
  IC_QUERY_ID executed;
  int i;

  for (i = 0; i < MANY; i++) {
    IC_QUERY_ID query = new_query(f);

    fill(f->conn, query, 2000 + (uint32_t)i, 0);
    trans[i] = start(f, query);
    write_row(f, query, trans[i], NULL, NULL);
    OK(ic_apid_conn_commit_transaction(f->conn, trans[i]));
  }
  drain(f->conn);
  for (i = 0; i < MANY; i++) {
    CHECK(ic_apid_conn_get_next_executed_query(f->conn, &executed));
    OK(ic_apid_query_error(f->conn, executed));
    OK(ic_apid_conn_close_transaction(f->conn, trans[i]));
  }
}

/* Frees a connection with operations that are defined, sent, and sent with their commit: each completes once
 * while the free runs, and never after. */
static void free_in_flight(struct fixture *f)
{
  struct fixture mine = *f;
  int i, committed = 0;

  memset(&completions, 0, sizeof completions);
  OK(ic_apid_conn_create(f->glob, &mine.conn));
  have_records(&mine);
  for (i = 0; i < MANY; i++) {
    IC_QUERY_ID query = new_query(&mine);
    IC_TRANS_ID trans;

    fill(mine.conn, query, 1000 + (uint32_t)i, (uint64_t)i);
    trans = start(&mine, query);
    write_row(&mine, query, trans, on_any, &completions.calls[i]);
    if (i % 3 == 0)
      OK(ic_apid_conn_commit_transaction(mine.conn, trans));
    if (i == MANY * 2 / 3)
      OK(ic_apid_conn_send(mine.conn, true));
  }
  OK(ic_apid_conn_free(mine.conn));
  for (i = 0; i < MANY; i++) {
    CHECK(completions.calls[i] == 1);
    committed += completions.errors[i] == 0;
    /* Only what was committed is a success: the rest was rolled back. */
    CHECK(completions.errors[i] != 0 || i % 3 == 0);
  }
  CHECK(committed > 0);
  /* Nothing comes later, on whatever connection. */
  OK(ic_apid_conn_flush(f->conn, 50, true, NULL));
  for (i = 0; i < MANY; i++)
    CHECK(completions.calls[i] == 1);
}

/* What the table holds is what the completions said. */
static void rows_are_as_completed(struct fixture *f)
{
  IC_QUERY_ID query = new_query(f);
  int i;

  for (i = 0; i < MANY; i++) {
    int32_t ret;

    fill(f->conn, query, 1000 + (uint32_t)i, 0);
    ret = ic_apid_conn_read_key_sync(f->conn, query, NULL, 10000);
    if (completions.errors[i] == 0)
      CHECK_CODE(ret, 0);
    else if (!ic_error_is_unknown_result(completions.errors[i]))
      CHECK_CODE(ret, 626);
  }
  OK(ic_apid_query_free(f->conn, query));
}

int main(int argc, char **argv)
{
  struct fixture f;

  fixture_begin(&f, argc, argv, "c_callbacks");
  chain(&f);
  refused(&f);
  executed_list(&f);
  both_ways(&f);
  free_in_flight(&f);
  rows_are_as_completed(&f);
  fixture_end(&f);
  return 0;
}
