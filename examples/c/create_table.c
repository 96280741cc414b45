/*
 * Tables: creates one, finds it in the list, describes it, drops it.
 *
 *   create_table [CONNECTSTRING]
 *
 * Without a connectstring, and without NDB_CONNECTSTRING, it runs on data nodes inside itself.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>

#include "example.h"

/* Rows of one customer are on one node group, for the distribution key is a part of the primary key. */
static const IC_COLUMN columns[] = {
  {.name = "customer", .kind = IC_TYPE_UNSIGNED, .flags = IC_COLUMN_PRIMARY_KEY | IC_COLUMN_DISTRIBUTION_KEY},
  {.name = "number", .kind = IC_TYPE_UNSIGNED, .flags = IC_COLUMN_PRIMARY_KEY},
  {.name = "total", .kind = IC_TYPE_DECIMAL, .precision = 12, .scale = 2},
  {.name = "note", .kind = IC_TYPE_LONGVARBINARY, .length = 500, .flags = IC_COLUMN_NULLABLE},
};

static void list(IC_APID_GLOBAL *glob)
{
  IC_TABLE_LIST *tables;
  uint32_t i;

  EX_CHECK(ic_apid_table_list(glob, "test", &tables));
  for (i = 0; i < ic_table_list_count(tables); i++)
    if (strncmp(ic_table_list_name(tables, i), "ic_create", 9) == 0)
      printf("%s.%s\n", ic_table_list_database(tables, i), ic_table_list_name(tables, i));
  EX_CHECK(ic_table_list_free(tables));
}

static void describe(IC_APID_GLOBAL *glob)
{
  IC_TABLE_DEF *table;
  uint32_t i;

  EX_CHECK(ic_apid_table_open(glob, "test", "ic_create_table", &table));
  for (i = 0; i < ic_table_column_count(table); i++) {
    IC_COLUMN column;
    EX_CHECK(ic_table_column(table, i, &column, sizeof column));
    printf("  %-8s type %" PRId32 ", length %" PRIu32 ", up to %" PRIu32 " bytes in a row%s%s%s\n", column.name,
           column.kind, column.length, column.row_bytes,
           column.flags & IC_COLUMN_PRIMARY_KEY ? ", primary key" : "",
           column.flags & IC_COLUMN_DISTRIBUTION_KEY ? ", distribution key" : "",
           column.flags & IC_COLUMN_NULLABLE ? ", may be NULL" : "");
  }
  EX_CHECK(ic_apid_table_close(table));
}

int main(int argc, char **argv)
{
  IC_APID_GLOBAL *glob = ex_connect(argc > 1 ? argv[1] : NULL);
  IC_TABLE_ARGS args;
  int32_t again;

  ic_table_args_init(&args, sizeof args);
  args.read_backup = 1; /* committed reads may use any replica */
  EX_CHECK(ic_apid_table_create(glob, "test", "ic_create_table", columns, 4, sizeof *columns, &args));
  list(glob);
  describe(glob);

  again = ic_apid_table_create(glob, "test", "ic_create_table", columns, 4, sizeof *columns, &args);
  printf("again: error %" PRId32 ": %s\n", again, ic_error_message(again));

  EX_CHECK(ic_apid_table_drop(glob, "test", "ic_create_table"));
  list(glob);
  ex_disconnect();
  return EXIT_SUCCESS;
}
