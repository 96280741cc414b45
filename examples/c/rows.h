/*
 * The table of the pipeline example, test.ic_pipeline, and what its rows hold: all of it follows from the
 * row's id, so that a reader can check what a writer wrote.
 */
#ifndef ROWS_H
#define ROWS_H

#include <inttypes.h>
#include <stdbool.h>

#include "example.h"

#define NOTE_LENGTH 40
#define LATIN1_BIN 47 /* a binary collation: NDB knows where a key is without tables of characters */

/* A row in memory; the fields below tell the library where each column is. */
struct row {
  uint32_t id;
  uint64_t value;
  char note[1 + NOTE_LENGTH]; /* one byte with the length, then so many characters */
  uint8_t nulls;              /* bit 0: note is NULL */
};

static const IC_COLUMN row_columns[] = {
  {.name = "id", .kind = IC_TYPE_UNSIGNED, .flags = IC_COLUMN_PRIMARY_KEY},
  {.name = "value", .kind = IC_TYPE_BIGUNSIGNED},
  {.name = "note", .kind = IC_TYPE_VARCHAR, .length = NOTE_LENGTH, .charset = LATIN1_BIN,
   .flags = IC_COLUMN_NULLABLE},
};

static const IC_RECORD_FIELD row_fields[] = {
  {.name = "id", .offset = offsetof(struct row, id)},
  {.name = "value", .offset = offsetof(struct row, value)},
  {.name = "note", .offset = offsetof(struct row, note), .null_byte = offsetof(struct row, nulls),
   .null_bit = 0},
};

/* The row of an id. Every fifth has no note. */
static inline void row_make(struct row *row, uint32_t id)
{
  memset(row, 0, sizeof *row);
  row->id = id;
  row->value = (id + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
  if (id % 5 == 4)
    row->nulls = 1;
  else
    row->note[0] = (char)snprintf(row->note + 1, NOTE_LENGTH, "this is row %" PRIu32, id);
}

/* Whether a row that was read is the row of an id. */
static inline bool row_is_right(const struct row *row, uint32_t id)
{
  struct row right;

  row_make(&right, id);
  if (row->id != id || row->value != right.value || (row->nulls & 1) != right.nulls)
    return false;
  /* What the bytes of a NULL are is nobody's business. */
  return right.nulls || (row->note[0] == right.note[0]
                         && memcmp(row->note + 1, right.note + 1, (size_t)right.note[0]) == 0);
}

/* Opens the table; creates it if it is not there. Another program may do so at the same time: its table is
 * as good, but can be opened only when the data nodes are done with it. */
static inline IC_TABLE_DEF *row_table_named(IC_APID_GLOBAL *glob, const char *name)
{
  const struct timespec pause = {0, 50 * 1000 * 1000};
  IC_TABLE_DEF *table;
  int32_t ret;

  while ((ret = ic_apid_table_open(glob, "test", name, &table)) != 0) {
    if (ret == 723) /* no such table */
      ret = ic_apid_table_create(glob, "test", name, row_columns, 3, sizeof *row_columns, NULL);
    if (ret != 0) {
      if (ret != 721 && !ic_error_is_temporary(ret)) /* 721: somebody else has created it */
        ex_fail(name, ret);
      nanosleep(&pause, NULL);
    }
  }
  return table;
}

static inline IC_TABLE_DEF *row_table(IC_APID_GLOBAL *glob)
{
  return row_table_named(glob, "ic_pipeline");
}

static inline IC_RECORD *row_record(IC_TABLE_DEF *table)
{
  IC_RECORD *rec;

  EX_CHECK(ic_record_create(table, row_fields, 3, sizeof *row_fields, sizeof(struct row), &rec));
  return rec;
}

#endif
