/*
 * Columns of types that C has no type for, and NULL: their bytes, by the helpers of ic_types.h.
 *
 *   types [CONNECTSTRING]
 *
 * Without a connectstring, and without NDB_CONNECTSTRING, it runs on data nodes inside itself.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>

#include <iclaustron/ic_types.h>

#include "example.h"

enum { NAME = 40, PRICE_PRECISION = 10, PRICE_SCALE = 2 };

/* A row. Arrays of bytes need no alignment; the NULL bits are the program's to place. */
struct article {
  uint32_t id;
  uint8_t name[1 + NAME]; /* VARCHAR: one length byte */
  uint8_t price[5];       /* DECIMAL(10, 2): ic_decimal_bytes(10, 2) */
  uint8_t day[3];         /* DATE */
  uint8_t changed[5 + 3]; /* DATETIME2 with microseconds */
  uint32_t weight;
  uint8_t nulls;
};
enum { WEIGHT_IS_NULL = 0 }; /* the bit in nulls */

static const IC_COLUMN columns[] = {
  {.name = "id", .kind = IC_TYPE_UNSIGNED, .flags = IC_COLUMN_PRIMARY_KEY},
  {.name = "name", .kind = IC_TYPE_VARCHAR, .length = NAME},
  {.name = "price", .kind = IC_TYPE_DECIMAL, .precision = PRICE_PRECISION, .scale = PRICE_SCALE},
  {.name = "day", .kind = IC_TYPE_DATE},
  {.name = "changed", .kind = IC_TYPE_DATETIME2, .precision = 6},
  {.name = "weight", .kind = IC_TYPE_UNSIGNED, .flags = IC_COLUMN_NULLABLE},
};

static const IC_RECORD_FIELD fields[] = {
  {.name = "id", .offset = offsetof(struct article, id)},
  {.name = "name", .offset = offsetof(struct article, name)},
  {.name = "price", .offset = offsetof(struct article, price)},
  {.name = "day", .offset = offsetof(struct article, day)},
  {.name = "changed", .offset = offsetof(struct article, changed)},
  {.name = "weight", .offset = offsetof(struct article, weight), .null_byte = offsetof(struct article, nulls),
   .null_bit = WEIGHT_IS_NULL},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void fill(struct article *row)
{
  const IC_TIME when = {2026, 2, 28, 23, 59, 59, 250000, 0};
  const char *name = "Fiddlehead fern";

  row->id = 7;
  EX_CHECK(ic_put_varchar(row->name, NAME, name, strlen(name)));
  EX_CHECK(ic_put_decimal(row->price, PRICE_PRECISION, PRICE_SCALE, "19.90"));
  EX_CHECK(ic_put_date(row->day, &when));
  EX_CHECK(ic_put_datetime(row->changed, 6, &when));
  row->nulls = 1 << WEIGHT_IS_NULL;
}

static void show(const struct article *row)
{
  IC_TIME day, changed;
  size_t size;
  const char *name = ic_get_varchar(row->name, NAME, &size);
  char price[IC_DECIMAL_TEXT_SIZE];

  ic_get_decimal(row->price, PRICE_PRECISION, PRICE_SCALE, price);
  ic_get_date(row->day, &day);
  ic_get_datetime(row->changed, 6, &changed);
  printf("name:    %.*s\n", (int)size, name);
  printf("price:   %s\n", price);
  printf("day:     %04u-%02u-%02u\n", day.year, day.month, day.day);
  printf("changed: %02u:%02u:%02u.%06u\n", changed.hour, changed.minute, changed.second, changed.microsecond);
  printf("weight:  %s\n", row->nulls >> WEIGHT_IS_NULL & 1 ? "NULL" : "something");
}

int main(int argc, char **argv)
{
  IC_APID_GLOBAL *glob = ex_connect(argc > 1 ? argv[1] : NULL);
  IC_APID_CONNECTION *conn;
  IC_TABLE_DEF *table;
  IC_RECORD *rec;
  IC_QUERY_ID query;
  struct article *key, *row;

  EX_CHECK(ic_apid_table_create(glob, "test", "ic_types", columns, COLUMNS, sizeof *columns, NULL));
  EX_CHECK(ic_apid_table_open(glob, "test", "ic_types", &table));
  EX_CHECK(ic_record_create(table, fields, COLUMNS, sizeof *fields, sizeof(struct article), &rec));
  EX_CHECK(ic_apid_conn_create(glob, &conn));
  EX_CHECK(ic_apid_query_create(conn, table, rec, rec, &query));
  key = (struct article *)ic_apid_query_key_row(conn, query, NULL);
  row = (struct article *)ic_apid_query_attr_row(conn, query, NULL);
  if (key == NULL || row == NULL)
    ex_fail("the rows of the query", IC_ERROR_INTERNAL);

  key->id = 7;
  fill(row);
  EX_CHECK(ic_apid_conn_write_key_sync(conn, query, NULL, 10000));
  memset(row, 0, sizeof *row);
  EX_CHECK(ic_apid_conn_read_key_sync(conn, query, NULL, 10000));
  show(row);

  EX_CHECK(ic_apid_conn_free(conn));
  EX_CHECK(ic_record_free(rec));
  EX_CHECK(ic_apid_table_close(table));
  EX_CHECK(ic_apid_table_drop(glob, "test", "ic_types"));
  ex_disconnect();
  return EXIT_SUCCESS;
}
