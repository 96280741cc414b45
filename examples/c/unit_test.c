/*
 * Embedded data nodes in the tests of a program of one's own: each test has a cluster to itself, in a few milliseconds,
 * and asks for the faults that its code must live with.
 *
 *   unit_test
 *
 * What is tested here is store_value, which an application could have: it stores a value and goes on trying through
 * temporary errors.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <iclaustron/ic_apid.h>

/* --- the code under test ----------------------------------------------------------------------------------- */

struct entry {
  uint32_t id, value;
};

/* Stores a value. 0, or the error that it could not get past. attempts: receives how often it tried. */
static int32_t store_value(IC_APID_CONNECTION *conn, IC_QUERY_ID query, uint32_t id, uint32_t value, uint32_t *attempts)
{
  IC_RETRY retry;
  uint32_t pause;
  int32_t error;

  ic_retry_init(&retry, sizeof retry);
  for (*attempts = 1;; ++*attempts) {
    struct entry *key = (struct entry *)ic_apid_query_key_row(conn, query, NULL);
    struct entry *row = (struct entry *)ic_apid_query_attr_row(conn, query, NULL);
    struct timespec wait;

    key->id = row->id = id;
    row->value = value;
    error = ic_apid_conn_write_key_sync(conn, query, NULL, 10000);
    /* Storing the same value twice does no harm, so a commit of unknown outcome is simply run again. */
    if (error == 0 || ic_retry_next(&retry, error, &pause) == IC_RETRY_STOP)
      return error;
    wait.tv_sec = pause / 1000;
    wait.tv_nsec = pause % 1000 * 1000000;
    nanosleep(&wait, NULL);
  }
}

/* --- what its tests share ---------------------------------------------------------------------------------- */

struct cluster {
  IC_EMBEDDED_CLUSTER *nodes;
  IC_APID_GLOBAL *glob;
  IC_APID_CONNECTION *conn;
  IC_TABLE_DEF *table;
  IC_RECORD *rec;
  IC_QUERY_ID query;
};

static void check(bool good, const char *what)
{
  if (good)
    return;
  fprintf(stderr, "failed: %s\n", what);
  exit(EXIT_FAILURE);
}
#define CHECK(condition) check(condition, #condition)

static struct cluster begin(void)
{
  static const IC_COLUMN columns[] = {
    {.name = "id", .kind = IC_TYPE_UNSIGNED, .flags = IC_COLUMN_PRIMARY_KEY},
    {.name = "value", .kind = IC_TYPE_UNSIGNED},
  };
  struct cluster c;

  CHECK(ic_embedded_start(NULL, &c.nodes) == 0);
  CHECK(ic_apid_global_create(&c.glob) == 0);
  CHECK(ic_apid_global_connect(c.glob, ic_embedded_connectstring(c.nodes), NULL) == 0);
  CHECK(ic_apid_global_wait_usable(c.glob, 0, 10000) == 0);
  CHECK(ic_apid_table_create(c.glob, "test", "entries", columns, 2, sizeof *columns, NULL) == 0);
  CHECK(ic_apid_table_open(c.glob, "test", "entries", &c.table) == 0);
  CHECK(ic_record_create_natural(c.table, &c.rec) == 0);
  CHECK(ic_apid_conn_create(c.glob, &c.conn) == 0);
  CHECK(ic_apid_query_create(c.conn, c.table, c.rec, c.rec, &c.query) == 0);
  return c;
}

static void end(struct cluster *c)
{
  CHECK(ic_apid_conn_free(c->conn) == 0);
  CHECK(ic_record_free(c->rec) == 0);
  CHECK(ic_apid_table_close(c->table) == 0);
  CHECK(ic_apid_global_free(c->glob) == 0);
  CHECK(ic_embedded_stop(c->nodes) == 0);
}

static uint32_t stored(struct cluster *c)
{
  CHECK(ic_apid_conn_read_key_sync(c->conn, c->query, NULL, 10000) == 0);
  return ((struct entry *)ic_apid_query_attr_row(c->conn, c->query, NULL))->value;
}

/* --- the tests --------------------------------------------------------------------------------------------- */

static void test_stores(void)
{
  struct cluster c = begin();
  uint32_t attempts;

  CHECK(store_value(c.conn, c.query, 1, 42, &attempts) == 0 && attempts == 1);
  CHECK(stored(&c) == 42);
  end(&c);
}

/* A lock that was waited for too long, once, at whichever node coordinates. */
static void test_tries_again_after_a_lock_time_out(void)
{
  struct cluster c = begin();
  uint32_t faults[2], attempts;

  CHECK(ic_embedded_fail_operation(c.nodes, 1, 1, 266, &faults[0]) == 0);
  CHECK(ic_embedded_fail_operation(c.nodes, 2, 1, 266, &faults[1]) == 0);
  CHECK(store_value(c.conn, c.query, 1, 42, &attempts) == 0 && attempts >= 2);
  /* That the fault has happened is a part of the test. */
  CHECK(ic_embedded_fault_consumed(c.nodes, faults[0]) || ic_embedded_fault_consumed(c.nodes, faults[1]));
  CHECK(stored(&c) == 42);
  end(&c);
}

static void test_survives_the_end_of_a_node(void)
{
  struct cluster c = begin();
  uint32_t attempts;

  CHECK(store_value(c.conn, c.query, 1, 42, &attempts) == 0);
  CHECK(ic_embedded_kill_node(c.nodes, 1) == 0);
  CHECK(store_value(c.conn, c.query, 1, 43, &attempts) == 0);
  CHECK(stored(&c) == 43);
  end(&c);
}

int main(void)
{
  test_stores();
  test_tries_again_after_a_lock_time_out();
  test_survives_the_end_of_a_node();
  puts("3 tests passed");
  return EXIT_SUCCESS;
}
