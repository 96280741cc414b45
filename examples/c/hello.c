/*
 * The first program: joins a cluster, creates a table, writes a row, reads it back, drops the table.
 *
 *   hello [CONNECTSTRING]
 *
 * Without a connectstring, and without NDB_CONNECTSTRING, it runs on data nodes inside itself.
 *
 * It uses the synchronous calls, which wait for each row; pipeline.c shows the asynchronous ones.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>

#include "example.h"

/* A row as this program sees it; the record below says which column is where. */
struct greeting {
  uint32_t id;
  char text[1 + 60]; /* one byte with the length, then so many characters */
};

static const IC_COLUMN columns[] = {
  {.name = "id", .kind = IC_TYPE_UNSIGNED, .flags = IC_COLUMN_PRIMARY_KEY},
  {.name = "text", .kind = IC_TYPE_VARCHAR, .length = 60},
};

static const IC_RECORD_FIELD fields[] = {
  {.name = "id", .offset = offsetof(struct greeting, id)},
  {.name = "text", .offset = offsetof(struct greeting, text)},
};

int main(int argc, char **argv)
{
  const char *hello = "Hello, data nodes!";
  IC_APID_GLOBAL *glob = ex_connect(argc > 1 ? argv[1] : NULL);
  IC_APID_CONNECTION *conn;
  IC_TABLE_DEF *table;
  IC_RECORD *rec;
  IC_QUERY_ID query;
  struct greeting *key, *row;

  EX_CHECK(ic_apid_table_create(glob, "test", "ic_hello", columns, 2, sizeof *columns, NULL));
  EX_CHECK(ic_apid_table_open(glob, "test", "ic_hello", &table));
  EX_CHECK(ic_record_create(table, fields, 2, sizeof *fields, sizeof(struct greeting), &rec));
  EX_CHECK(ic_apid_conn_create(glob, &conn));

  /* A query has two rows of its own: one that finds the row, one with what is written or read. They are
   * the library's while the query is in flight, and ours again afterwards. */
  EX_CHECK(ic_apid_query_create(conn, table, rec, rec, &query));
  key = (struct greeting *)ic_apid_query_key_row(conn, query, NULL);
  row = (struct greeting *)ic_apid_query_attr_row(conn, query, NULL);
  if (key == NULL || row == NULL)
    ex_fail("the rows of the query", IC_ERROR_INTERNAL);

  key->id = row->id = 1;
  row->text[0] = (char)strlen(hello);
  memcpy(row->text + 1, hello, strlen(hello));
  EX_CHECK(ic_apid_conn_write_key_sync(conn, query, NULL, 10000));

  memset(row, 0, sizeof *row);
  EX_CHECK(ic_apid_conn_read_key_sync(conn, query, NULL, 10000));
  printf("row %" PRIu32 ": %.*s\n", row->id, row->text[0], row->text + 1);

  EX_CHECK(ic_apid_conn_free(conn)); /* and with it the query */
  EX_CHECK(ic_record_free(rec));
  EX_CHECK(ic_apid_table_close(table));
  EX_CHECK(ic_apid_table_drop(glob, "test", "ic_hello"));
  ex_disconnect();
  return EXIT_SUCCESS;
}
