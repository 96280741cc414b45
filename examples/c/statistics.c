/*
 * What a program has done: writes and reads some rows, some of which are not there, and prints the statistics of the
 * cluster handle. --prometheus prints them as Prometheus wants them.
 *
 *   statistics [--prometheus] [CONNECTSTRING]
 *
 * Without a connectstring, and without NDB_CONNECTSTRING, it runs on data nodes inside itself.
 */
#define _POSIX_C_SOURCE 200809L

#include "example.h"
#include "rows.h"

#define TABLE "ic_statistics"

/* Writes and reads rows, one after the other. */
static void work(IC_APID_GLOBAL *glob)
{
  IC_APID_CONNECTION *conn;
  IC_TABLE_DEF *table;
  IC_RECORD *rec;
  IC_QUERY_ID query;
  IC_STATS stats;
  uint32_t id;
  int32_t dropped = ic_apid_table_drop(glob, "test", TABLE); /* what an earlier run may have left */

  if (dropped != 0 && dropped != 723) /* no such table */
    ex_fail("dropping the table", dropped);
  table = row_table_named(glob, TABLE);
  rec = row_record(table);
  EX_CHECK(ic_apid_conn_create(glob, &conn));
  EX_CHECK(ic_apid_query_create(conn, table, rec, rec, &query));
  for (id = 0; id < 200; id++) {
    struct row row;
    int32_t error;

    row_make(&row, id);
    memcpy(ic_apid_query_key_row(conn, query, NULL), &row, sizeof row);
    memcpy(ic_apid_query_attr_row(conn, query, NULL), &row, sizeof row);
    if (id < 100)
      EX_CHECK(ic_apid_conn_write_key_sync(conn, query, NULL, 10000));
    error = ic_apid_conn_read_key_sync(conn, query, NULL, 10000);
    if (error != 0 && error != 626) /* no such row */
      ex_fail("reading", error);
  }

  /* A connection's own, which cost nothing to ask for. */
  stats.size = sizeof stats;
  EX_CHECK(ic_apid_conn_stats(conn, &stats));
  printf("reads: %llu without an error, %llu with one; half of them took at most %llu us\n",
         (unsigned long long)stats.operations[IC_STATS_READ].ok,
         (unsigned long long)stats.operations[IC_STATS_READ].permanent,
         (unsigned long long)stats.operations[IC_STATS_READ].p50_ns / 1000);
  EX_CHECK(ic_apid_conn_free(conn));
  EX_CHECK(ic_record_free(rec));
  EX_CHECK(ic_apid_table_close(table));
  EX_CHECK(ic_apid_table_drop(glob, "test", TABLE));
}

/* Those of all connections, as a text. */
static void print(IC_APID_GLOBAL *glob, int32_t format)
{
  size_t size = 0;
  char *text;

  ic_stats_print(glob, format, NULL, 0, &size); /* fails, and says how long it is */
  size += 1000;                                 /* counters grow */
  text = malloc(size);
  if (text == NULL)
    ex_fail("malloc", IC_ERROR_INTERNAL);
  EX_CHECK(ic_stats_print(glob, format, text, size, NULL));
  fputs(text, stdout);
  free(text);
}

int main(int argc, char **argv)
{
  bool prometheus = argc > 1 && strcmp(argv[1], "--prometheus") == 0;
  IC_APID_GLOBAL *glob = ex_connect(argc > 1 + prometheus ? argv[1 + prometheus] : NULL);

  work(glob);
  print(glob, prometheus ? IC_STATS_FORMAT_PROMETHEUS : IC_STATS_FORMAT_TEXT);
  ex_disconnect();
  return EXIT_SUCCESS;
}
