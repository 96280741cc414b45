/*
 * Transactions of several operations: money goes from one account to another, or not at all.
 *
 *   transactions [CONNECTSTRING]
 *
 * Without a connectstring, and without NDB_CONNECTSTRING, it runs on data nodes inside itself.
 *
 * A transfer locks and reads both accounts, which goes out in one send, then writes both and commits, which goes
 * out in another. retry.c shows what is missing here: running a transaction again after a temporary error.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>

#include "example.h"

struct account {
  uint32_t id;
  int64_t balance;
};

static const IC_COLUMN columns[] = {
  {.name = "id", .kind = IC_TYPE_UNSIGNED, .flags = IC_COLUMN_PRIMARY_KEY},
  {.name = "balance", .kind = IC_TYPE_BIGINT},
};

static const IC_RECORD_FIELD fields[] = {
  {.name = "id", .offset = offsetof(struct account, id)},
  {.name = "balance", .offset = offsetof(struct account, balance)},
};

static IC_APID_CONNECTION *conn;
static IC_TABLE_DEF *table;
static IC_RECORD *rec;

/* Sends, and waits until so many queries have completed: they come on the executed list. */
static void complete(uint32_t queries)
{
  IC_QUERY_ID query;

  while (queries > 0) {
    EX_CHECK(ic_apid_conn_flush(conn, 1000, true, NULL));
    while (ic_apid_conn_get_next_executed_query(conn, &query))
      queries--;
  }
}

static struct account *row(IC_QUERY_ID query)
{
  struct account *account = (struct account *)ic_apid_query_attr_row(conn, query, NULL);

  if (account == NULL)
    ex_fail("the row of a query", IC_ERROR_QUERY_NOT_IDLE);
  return account;
}

static IC_QUERY_ID query_of(uint32_t id)
{
  IC_QUERY_ID query;
  struct account *key;

  EX_CHECK(ic_apid_query_create(conn, table, rec, rec, &query));
  key = (struct account *)ic_apid_query_key_row(conn, query, NULL);
  if (key == NULL)
    ex_fail("the key of a query", IC_ERROR_QUERY_NOT_IDLE);
  key->id = id;
  return query;
}

/* Moves an amount. False if there is not enough, and then nothing has changed. */
static bool transfer(IC_QUERY_ID from, IC_QUERY_ID to, int64_t amount)
{
  IC_READ_KEY_ARGS lock;
  IC_WRITE_KEY_ARGS update;
  IC_TRANS_ID trans;
  uint32_t length;
  const uint8_t *key = ic_apid_query_key_row(conn, from, &length);
  bool enough;

  /* The node that has the first account coordinates. */
  EX_CHECK(ic_apid_conn_start_transaction(conn, ic_apid_conn_hint_for_key(conn, table, rec, key, length), table,
                                          &trans));
  ic_read_key_args_init(&lock, sizeof lock);
  lock.kind = IC_READ_KIND_EXCLUSIVE; /* nobody else changes them until the end */
  EX_CHECK(ic_apid_conn_read_key(conn, from, trans, &lock));
  EX_CHECK(ic_apid_conn_read_key(conn, to, trans, &lock));
  complete(2);
  EX_CHECK(ic_apid_query_error(conn, from));
  EX_CHECK(ic_apid_query_error(conn, to));

  enough = row(from)->balance >= amount;
  if (enough) {
    row(from)->balance -= amount;
    row(to)->balance += amount;
    ic_write_key_args_init(&update, sizeof update);
    update.kind = IC_WRITE_KIND_UPDATE;
    EX_CHECK(ic_apid_conn_write_key(conn, from, trans, &update));
    EX_CHECK(ic_apid_conn_write_key(conn, to, trans, &update));
    EX_CHECK(ic_apid_conn_commit_transaction(conn, trans));
    complete(2);
    EX_CHECK(ic_apid_transaction_error(conn, trans));
  }
  /* Without a commit this rolls back, which frees the locks. It goes out with the next send. */
  EX_CHECK(ic_apid_conn_close_transaction(conn, trans));
  EX_CHECK(ic_apid_conn_send(conn, true));
  return enough;
}

static void show(const char *what, IC_QUERY_ID alice, IC_QUERY_ID bob)
{
  EX_CHECK(ic_apid_conn_read_key_sync(conn, alice, NULL, 10000));
  EX_CHECK(ic_apid_conn_read_key_sync(conn, bob, NULL, 10000));
  printf("%-24s %" PRId64 " and %" PRId64 "\n", what, row(alice)->balance, row(bob)->balance);
}

int main(int argc, char **argv)
{
  IC_APID_GLOBAL *glob = ex_connect(argc > 1 ? argv[1] : NULL);
  IC_QUERY_ID alice, bob;

  EX_CHECK(ic_apid_table_create(glob, "test", "ic_transactions", columns, 2, sizeof *columns, NULL));
  EX_CHECK(ic_apid_table_open(glob, "test", "ic_transactions", &table));
  EX_CHECK(ic_record_create(table, fields, 2, sizeof *fields, sizeof(struct account), &rec));
  EX_CHECK(ic_apid_conn_create(glob, &conn));
  alice = query_of(1);
  bob = query_of(2);

  row(alice)->id = 1, row(alice)->balance = 100;
  row(bob)->id = 2, row(bob)->balance = 0;
  EX_CHECK(ic_apid_conn_write_key_sync(conn, alice, NULL, 10000));
  EX_CHECK(ic_apid_conn_write_key_sync(conn, bob, NULL, 10000));
  show("before:", alice, bob);
  printf("30 from 1 to 2:          %s\n", transfer(alice, bob, 30) ? "done" : "not enough");
  show("after:", alice, bob);
  printf("80 from 1 to 2:          %s\n", transfer(alice, bob, 80) ? "done" : "not enough");
  show("after:", alice, bob);

  EX_CHECK(ic_apid_conn_free(conn));
  EX_CHECK(ic_record_free(rec));
  EX_CHECK(ic_apid_table_close(table));
  EX_CHECK(ic_apid_table_drop(glob, "test", "ic_transactions"));
  ex_disconnect();
  return EXIT_SUCCESS;
}
