/*
 * Reads 1000 keys in one call: some are missing, some are asked for twice. It completes once.
 *
 *   multi_read [CONNECTSTRING]
 *
 * Without a connectstring, and without NDB_CONNECTSTRING, it runs on data nodes inside itself.
 *
 * The library splits the keys by the data nodes that own them, each part goes into its node's next write, and the parts
 * come back as one completion. Each row is a committed row; rows of several keys need not be of one moment. The counters
 * at the end tell which way the call went.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdbool.h>

#include "example.h"
#include "rows.h"

#define TABLE "ic_multi_read"
#define KEYS 1000

/* Rows with these ids are there: two of three. */
static bool is_there(uint32_t id)
{
  return id % 3 != 0;
}

/* The id at an index of the call: every tenth is the one before once more. */
static uint32_t id_of(uint32_t index)
{
  return index % 10 == 9 ? index - 1 : index;
}

/* Writes a row: synchronously, for this example is about reads. */
static void write_row(IC_APID_CONNECTION *conn, IC_QUERY_ID query, uint32_t id)
{
  struct row row;

  row_make(&row, id);
  memcpy(ic_apid_query_key_row(conn, query, NULL), &row, sizeof row);
  memcpy(ic_apid_query_attr_row(conn, query, NULL), &row, sizeof row);
  EX_CHECK(ic_apid_conn_write_key_sync(conn, query, NULL, 10000));
}

/* What was found is right, and nothing else is said of what was not. */
static void check(IC_APID_CONNECTION *conn, IC_MULTI_READ_ID read, const struct row *rows)
{
  uint32_t found = 0, missing = 0, i;

  for (i = 0; i < KEYS; i++) {
    switch (ic_apid_multi_read_key_state(conn, read, i)) {
    case IC_KEY_STATE_FOUND:
      found++;
      if (!is_there(id_of(i)) || !row_is_right(&rows[i], id_of(i)))
        ex_fail("a row that was read", 0);
      break;
    case IC_KEY_STATE_MISSING:
      missing++;
      if (is_there(id_of(i)))
        ex_fail("a row that is missing", 0);
      break;
    default:
      ex_fail("a key", ic_apid_multi_read_key_error(conn, read, i));
    }
  }
  if (found != ic_apid_multi_read_found(conn, read))
    ex_fail("the number of rows", 0);
  printf("found %" PRIu32 "\nmissing %" PRIu32 "\n", found, missing);
}

static void print_counters(IC_APID_CONNECTION *conn)
{
  IC_STATS stats = {.size = sizeof stats};

  EX_CHECK(ic_apid_conn_stats(conn, &stats));
  printf("multikey_slotted %" PRIu64 "\n", stats.multikey_slotted);
  printf("multikey_fanout %" PRIu64 "\n", stats.multikey_fanout);
  printf("multikey_coordinator %" PRIu64 "\n", stats.multikey_coordinator);
  printf("multikey_parts %" PRIu64 "\n", stats.multikey_parts);
  printf("multikey_deferred %" PRIu64 "\n", stats.multikey_deferred);
  printf("most_multikey_parts %" PRIu64 "\n", stats.most_multikey_parts);
}

int main(int argc, char **argv)
{
  static struct row keys[KEYS], rows[KEYS];
  IC_APID_GLOBAL *glob = ex_connect(argc > 1 ? argv[1] : NULL);
  IC_APID_CONNECTION *conn;
  IC_TABLE_DEF *table;
  IC_RECORD *rec;
  IC_QUERY_ID query;
  IC_MULTI_READ_ARGS args;
  IC_MULTI_READ_ID read, done;
  int32_t ret;
  uint32_t i;

  ret = ic_apid_table_drop(glob, "test", TABLE); /* so that what is missing is missing */
  if (ret != 0 && ret != 723)
    ex_fail("dropping the table", ret);
  table = row_table_named(glob, TABLE);
  rec = row_record(table);
  EX_CHECK(ic_apid_conn_create(glob, &conn));
  EX_CHECK(ic_apid_query_create(conn, table, rec, rec, &query));
  for (i = 0; i < KEYS; i++) {
    if (is_there(i))
      write_row(conn, query, i);
    keys[i].id = id_of(i);
  }

  /* The keys are copied; the rows are written when the read is taken below. */
  ic_multi_read_args_init(&args, sizeof args);
  args.kind = IC_MULTI_READ_GATHER;
  EX_CHECK(ic_apid_conn_multi_read_rows(conn, table, rec, rec, (const uint8_t *)keys, (uint8_t *)rows, KEYS, &args,
                                        &read));
  while (!ic_apid_conn_get_next_executed_multi_read(conn, &done))
    EX_CHECK(ic_apid_conn_flush(conn, 1000, false, NULL));
  if (done != read)
    ex_fail("the multi-key read that has completed", 0);
  EX_CHECK(ic_apid_multi_read_error(conn, read));
  check(conn, read, rows);
  EX_CHECK(ic_apid_multi_read_close(conn, read));
  print_counters(conn);

  EX_CHECK(ic_apid_conn_free(conn));
  EX_CHECK(ic_record_free(rec));
  EX_CHECK(ic_apid_table_close(table));
  ex_disconnect();
  return EXIT_SUCCESS;
}
