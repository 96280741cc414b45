/*
 * Transactions that are run again: money is moved between two accounts by a transaction of two updates, whole or
 * not at all, whatever the data nodes do.
 *
 *   retry [CONNECTSTRING]
 *
 * A temporary error ends the transaction: all of it is run again, after a pause that grows, with jitter. A permanent
 * error stops it. After 4012 nobody knows whether it was committed: each transfer inserts a row of its own, a
 * marker, in the same transaction; if the marker is there, so is the transfer.
 *
 * Without a connectstring, and without NDB_CONNECTSTRING, it runs on data nodes inside itself, and has these fail in
 * each of the ways above. At the end it checks that each was met, and that no money came or went.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdbool.h>

#include "example.h"

#define DATABASE "test"
#define TABLE "ic_retry"
#define ACCOUNTS 2
#define BALANCE 1000
#define FIRST_MARKER 1000
#define WAIT_MS 20000

/* A row: an account and its balance, or a marker. */
struct row {
  uint32_t id;
  uint64_t balance;
};

static const IC_COLUMN columns[] = {
  {.name = "id", .kind = IC_TYPE_UNSIGNED, .flags = IC_COLUMN_PRIMARY_KEY},
  {.name = "balance", .kind = IC_TYPE_BIGUNSIGNED},
};

static const IC_RECORD_FIELD fields[] = {
  {.name = "id", .offset = offsetof(struct row, id)},
  {.name = "balance", .offset = offsetof(struct row, balance)},
};

static IC_TABLE_DEF *table;
static IC_RECORD *rec;
static IC_APID_CONNECTION *conn;

/* The two accounts of a transfer, and its marker. */
enum { FROM, TO, MARKER, QUERIES };
static IC_QUERY_ID queries[QUERIES];

/* What has been met on the way. */
static struct {
  int temporary, permanent, found_committed, found_missing;
} met;

/* Another transaction that has an account locked, on a connection of its own; 0 when there is none. */
static IC_APID_CONNECTION *other;
static IC_TRANS_ID blocker;

/* The reply to the next commit shall be lost. */
static bool lose_reply;

static void pause_for(uint32_t ms)
{
  struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

  nanosleep(&time, NULL);
}

static void open_table(void)
{
  int i;

  EX_CHECK(ic_apid_table_open(ex_global, DATABASE, TABLE, &table));
  EX_CHECK(ic_record_create(table, fields, 2, sizeof *fields, sizeof(struct row), &rec));
  for (i = 0; i < QUERIES; i++)
    EX_CHECK(ic_apid_query_create(conn, table, rec, rec, &queries[i]));
}

static void close_table(void)
{
  int i;

  for (i = 0; i < QUERIES; i++)
    EX_CHECK(ic_apid_query_free(conn, queries[i]));
  EX_CHECK(ic_record_free(rec));
  EX_CHECK(ic_apid_table_close(table));
}

/* Fills the rows of an idle query. */
static void fill(IC_APID_CONNECTION *c, IC_QUERY_ID query, uint32_t id, uint64_t balance)
{
  struct row *key = (struct row *)ic_apid_query_key_row(c, query, NULL);
  struct row *row = (struct row *)ic_apid_query_attr_row(c, query, NULL);

  if (key == NULL || row == NULL)
    ex_fail("the rows of a query", IC_ERROR_INTERNAL);
  key->id = row->id = id;
  row->balance = balance;
}

static uint64_t balance_of(IC_QUERY_ID query)
{
  return ((const struct row *)ic_apid_query_attr_row(conn, query, NULL))->balance;
}

/* Sends, and polls until the transaction's queries are complete. Their first error. */
static int32_t finish_queries(IC_QUERY_ID *wanted, int count)
{
  int left = count, i;
  int32_t error = 0;
  IC_QUERY_ID query;

  EX_CHECK(ic_apid_conn_send(conn, true));
  while (left > 0) {
    EX_CHECK(ic_apid_conn_poll(conn, WAIT_MS, NULL));
    while (ic_apid_conn_get_next_executed_query(conn, &query))
      left--;
  }
  for (i = 0; i < count && error == 0; i++)
    error = ic_apid_query_error(conn, wanted[i]);
  return error;
}

/* The error of a transaction that is over, 0 if it was committed; waits for its end. It is closed. */
static int32_t finish(IC_TRANS_ID trans, int32_t error)
{
  int32_t state, ended;

  while ((state = ic_apid_transaction_state(conn, trans)) == IC_TRANS_STATE_BUSY)
    EX_CHECK(ic_apid_conn_flush(conn, 100, true, NULL));
  ended = ic_apid_transaction_error(conn, trans);
  if (error == 0 || ended != 0)
    error = ended;
  if (error != 0 && state != IC_TRANS_STATE_COMMITTED) {
    char line[400];

    ic_apid_transaction_explain(conn, trans, line, sizeof line);
    printf("    %s\n", ended != 0 ? line : ic_error_message(error));
  }
  EX_CHECK(ic_apid_conn_close_transaction(conn, trans));
  return error;
}

/* Sends, and has the data nodes inside do what is asked of them, but lose their links to this program before the reply
 * is out. */
static void send_and_lose_reply(void)
{
  EX_CHECK(ic_embedded_stall(ex_nodes, 1, 700, NULL));
  EX_CHECK(ic_embedded_stall(ex_nodes, 2, 700, NULL));
  EX_CHECK(ic_apid_conn_send(conn, true));
  pause_for(300);
  EX_CHECK(ic_embedded_drop_link(ex_nodes, 1, ic_apid_global_node_id(ex_global), NULL));
  lose_reply = false;
}

/* One attempt at a transfer: 0 once it is committed, else the error that has ended its transaction. */
static int32_t attempt(uint32_t from, uint32_t to, uint64_t amount, uint32_t marker)
{
  struct row key = {.id = from};
  uint32_t hint = ic_apid_conn_hint_for_key(conn, table, rec, (const uint8_t *)&key, sizeof key);
  IC_READ_KEY_ARGS read;
  IC_WRITE_KEY_ARGS update, insert;
  IC_TRANS_ID trans;
  int32_t error = ic_apid_conn_start_transaction(conn, hint, table, &trans);

  if (error != 0)
    return error;
  ic_read_key_args_init(&read, sizeof read);
  read.kind = IC_READ_KIND_EXCLUSIVE;
  ic_write_key_args_init(&update, sizeof update);
  update.kind = IC_WRITE_KIND_UPDATE;
  insert = update;
  insert.kind = IC_WRITE_KIND_INSERT;

  /* Both balances, locked until the end. */
  fill(conn, queries[FROM], from, 0);
  fill(conn, queries[TO], to, 0);
  error = ic_apid_conn_read_key(conn, queries[FROM], trans, &read);
  if (error == 0) {
    error = ic_apid_conn_read_key(conn, queries[TO], trans, &read);
    if (error != 0)
      ex_fail("a second read", error);
    error = finish_queries(queries, 2);
  }
  if (error != 0)
    return finish(trans, error);

  /* Both updates and the marker, in one send with the commit. */
  fill(conn, queries[FROM], from, balance_of(queries[FROM]) - amount);
  fill(conn, queries[TO], to, balance_of(queries[TO]) + amount);
  fill(conn, queries[MARKER], marker, amount);
  EX_CHECK(ic_apid_conn_write_key(conn, queries[FROM], trans, &update));
  EX_CHECK(ic_apid_conn_write_key(conn, queries[TO], trans, &update));
  EX_CHECK(ic_apid_conn_write_key(conn, queries[MARKER], trans, &insert));
  EX_CHECK(ic_apid_conn_commit_transaction(conn, trans));
  if (lose_reply)
    send_and_lose_reply();
  error = finish_queries(queries, QUERIES);
  return finish(trans, error);
}

/* Whether the marker's transaction was committed: a read that waits for the row's lock sees the outcome. */
static bool find_out(uint32_t marker)
{
  IC_READ_KEY_ARGS args;
  IC_RETRY retry;
  uint32_t pause;
  int32_t code;

  ic_read_key_args_init(&args, sizeof args);
  args.kind = IC_READ_KIND_SHARED;
  ic_retry_init(&retry, sizeof retry);
  for (;;) {
    fill(conn, queries[MARKER], marker, 0);
    code = ic_apid_conn_read_key_sync(conn, queries[MARKER], &args, WAIT_MS);
    if (code == 0 || code == 626)
      return code == 0;
    /* A read is done again in any case: nothing of it can be done twice. */
    if (ic_retry_next(&retry, code, &pause) == IC_RETRY_STOP)
      ex_fail("looking for the marker", code);
    pause_for(pause);
  }
}

/* A transfer: 0 once it is done, else the error that stopped it. */
static int32_t transfer(uint32_t from, uint32_t to, uint64_t amount, uint32_t marker)
{
  IC_RETRY retry;
  uint32_t pause;
  int32_t code;

  ic_retry_init(&retry, sizeof retry);
  while ((code = attempt(from, to, amount, marker)) != 0) {
    int32_t decision = ic_retry_next(&retry, code, &pause);

    if (decision == IC_RETRY_STOP) {
      printf("  stopped: %s\n", ic_error_advice(code));
      met.permanent++;
      return code;
    }
    if (decision == IC_RETRY_AGAIN) {
      printf("  again after %" PRIu32 " ms\n", pause);
      met.temporary++;
      if (blocker != 0) {
        EX_CHECK(ic_apid_conn_close_transaction(other, blocker)); /* which rolls it back */
        EX_CHECK(ic_apid_conn_flush(other, 100, true, NULL));
        blocker = 0;
      }
    }
    pause_for(pause);
    if (decision == IC_RETRY_FIND_OUT) {
      bool committed = find_out(marker);

      printf("  found out: it was %scommitted\n", committed ? "" : "not ");
      if (committed) {
        met.found_committed++;
        return 0;
      }
      met.found_missing++;
    }
  }
  return 0;
}

/* Has another transaction lock an account: the next transfer waits for the lock in vain. */
static void lock_account(uint32_t id)
{
  IC_QUERY_ID query, executed;
  IC_READ_KEY_ARGS args;

  ic_read_key_args_init(&args, sizeof args);
  args.kind = IC_READ_KIND_EXCLUSIVE;
  EX_CHECK(ic_apid_conn_create(ex_global, &other));
  EX_CHECK(ic_apid_query_create(other, table, rec, rec, &query));
  EX_CHECK(ic_apid_conn_start_transaction(other, 0, NULL, &blocker));
  fill(other, query, id, 0);
  EX_CHECK(ic_apid_conn_read_key(other, query, blocker, &args));
  EX_CHECK(ic_apid_conn_send(other, true));
  while (!ic_apid_conn_get_next_executed_query(other, &executed))
    EX_CHECK(ic_apid_conn_poll(other, WAIT_MS, NULL));
  EX_CHECK(ic_apid_query_error(other, query));
}

/* Has the nth operation from now on fail at whichever node gets it, in the data nodes inside. */
static void fail_operation(uint32_t nth, int32_t code)
{
  EX_CHECK(ic_embedded_fail_operation(ex_nodes, 1, nth, code, NULL));
  EX_CHECK(ic_embedded_fail_operation(ex_nodes, 2, nth, code, NULL));
}

static void must_be(const char *what, bool good)
{
  if (good)
    return;
  fprintf(stderr, "not as it must be: %s\n", what);
  exit(EXIT_FAILURE);
}

/* Faults of the data nodes inside. Accounts 1 and 2; each transfer must be done once, whatever it met. */
static void with_faults(void)
{
  const uint32_t never = 1000000000;
  int before;

  printf("a full redo log, twice\n");
  before = met.temporary;
  fail_operation(1, 410);
  EX_CHECK(transfer(1, 2, 10, FIRST_MARKER + 10));
  fail_operation(3, 1220);
  EX_CHECK(transfer(1, 2, 10, FIRST_MARKER + 11));
  must_be("a full redo log is met", met.temporary >= before + 2);

  printf("an unknown outcome, and it was not committed\n");
  fail_operation(5, 4012);
  EX_CHECK(transfer(1, 2, 10, FIRST_MARKER + 12));
  fail_operation(never, 4012);
  must_be("an unknown outcome is met", met.found_missing == 1);

  printf("an unknown outcome, and it was committed\n");
  lose_reply = true;
  EX_CHECK(transfer(2, 1, 30, FIRST_MARKER + 13));
  must_be("a lost reply is met", met.found_committed == 1);
}

int main(int argc, char **argv)
{
  IC_STATS statistics = {.size = sizeof statistics};
  uint64_t sum = 0;
  uint32_t id;
  int32_t code;

  ex_connect(argc > 1 ? argv[1] : NULL);
  (void)ic_apid_table_drop(ex_global, DATABASE, TABLE); /* what an earlier run may have left */
  EX_CHECK(ic_apid_table_create(ex_global, DATABASE, TABLE, columns, 2, sizeof *columns, NULL));
  EX_CHECK(ic_apid_conn_create(ex_global, &conn));
  open_table();
  for (id = 1; id <= ACCOUNTS; id++) {
    fill(conn, queries[FROM], id, BALANCE);
    EX_CHECK(ic_apid_conn_write_key_sync(conn, queries[FROM], NULL, WAIT_MS));
  }

  printf("a transfer\n");
  EX_CHECK(transfer(1, 2, 100, FIRST_MARKER));
  printf("an account that another transaction has locked\n");
  lock_account(1);
  EX_CHECK(transfer(1, 2, 100, FIRST_MARKER + 1));
  must_be("a lock that is not free is met", met.temporary >= 1);
  printf("an account that is not there\n");
  code = transfer(1, 99, 100, FIRST_MARKER + 2);
  must_be("a missing account stops a transfer", code == 626 && met.permanent == 1);
  if (ex_nodes != NULL)
    with_faults();

  for (id = 1; id <= ACCOUNTS; id++) {
    fill(conn, queries[FROM], id, 0);
    EX_CHECK(ic_apid_conn_read_key_sync(conn, queries[FROM], NULL, WAIT_MS));
    printf("account %" PRIu32 ": %" PRIu64 "\n", id, balance_of(queries[FROM]));
    sum += balance_of(queries[FROM]);
  }
  must_be("the sum of all accounts", sum == ACCOUNTS * BALANCE);
  must_be("the second account", balance_of(queries[FROM]) == BALANCE + 200 + (ex_nodes != NULL ? 3 * 10 - 30 : 0));
  EX_CHECK(ic_apid_conn_stats(conn, &statistics));
  printf("%" PRIu64 " operations, %" PRIu64 " of them failed; no money came or went\n", statistics.completed,
         statistics.failed);

  close_table();
  EX_CHECK(ic_apid_conn_free(other));
  EX_CHECK(ic_apid_conn_free(conn));
  EX_CHECK(ic_apid_table_drop(ex_global, DATABASE, TABLE));
  ex_disconnect();
  return EXIT_SUCCESS;
}
