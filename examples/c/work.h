/*
 * What the examples of event loops do: they write rows and read them back, with many in flight. How the loop
 * learns that there is something to take is theirs; this is the rest.
 *
 * Each slot is one transaction with one query. Its callback starts the next row in the same slot. A row whose
 * write or read ended with a temporary error goes again at the loop's next tick.
 */
#ifndef WORK_H
#define WORK_H

#include <inttypes.h>
#include <stdbool.h>

#include "example.h"
#include "rows.h"

#define WORK_IN_FLIGHT 1000
#define WORK_TICK 10 /* milliseconds */

struct work;

struct work_slot {
  struct work *w;
  IC_QUERY_ID query;
  IC_TRANS_ID trans;
  uint32_t id;  /* the row it is about */
  bool waiting; /* it goes again at the next tick */
};

struct work {
  IC_APID_CONNECTION *conn;
  IC_TABLE_DEF *table;
  IC_RECORD *rec;
  bool reading; /* the second phase */
  uint32_t rows;
  uint32_t next; /* the next id to start */
  uint32_t done; /* rows of the phase that are over, well or not */
  uint32_t failed;
  struct work_slot slots[WORK_IN_FLIGHT];
};

static inline void work_on_complete(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref);

/* The slot's row is over. */
static inline void work_count(struct work_slot *s, bool right, int32_t error)
{
  struct work *w = s->w;

  w->done++;
  if (!right && w->failed++ == 0)
    fprintf(stderr, "%s row %" PRIu32 ": error %d: %s\n", w->reading ? "reading" : "writing", s->id, (int)error,
            error == 0 ? "its values are wrong" : ic_error_message(error));
}

/* Defines the write or read of the slot's row, in a transaction of its own that commits with it. */
static inline int32_t work_define(struct work_slot *s)
{
  struct work *w = s->w;
  uint32_t length, hint;
  uint8_t *key = ic_apid_query_key_row(w->conn, s->query, &length);
  uint8_t *attr = ic_apid_query_attr_row(w->conn, s->query, NULL);
  struct row row;
  int32_t ret;

  if (key == NULL || attr == NULL)
    return IC_ERROR_ROW_LENGTH;
  row_make(&row, s->id);
  memcpy(key, &row, sizeof row);
  hint = ic_apid_conn_hint_for_key(w->conn, w->table, w->rec, key, length);
  ret = ic_apid_conn_start_transaction(w->conn, hint, w->table, &s->trans);
  if (ret != 0)
    return ret;
  if (w->reading) {
    IC_READ_KEY_ARGS args;
    ic_read_key_args_init(&args, sizeof args);
    args.callback = work_on_complete;
    args.user_ref = s;
    memset(attr, 0, sizeof row);
    ret = ic_apid_conn_read_key(w->conn, s->query, s->trans, &args);
  } else {
    IC_WRITE_KEY_ARGS args;
    ic_write_key_args_init(&args, sizeof args);
    args.kind = IC_WRITE_KIND_WRITE;
    args.callback = work_on_complete;
    args.user_ref = s;
    memcpy(attr, &row, sizeof row);
    ret = ic_apid_conn_write_key(w->conn, s->query, s->trans, &args);
  }
  if (ret == 0)
    EX_CHECK(ic_apid_conn_commit_transaction(w->conn, s->trans));
  else
    EX_CHECK(ic_apid_conn_close_transaction(w->conn, s->trans));
  return ret;
}

/* Whether a row that ended like this is to go again: writing it twice does no harm. */
static inline bool work_is_worth_a_retry(int32_t error)
{
  return ic_error_is_temporary(error) || ic_error_is_unknown_result(error);
}

/* Starts the slot's row. False if it is over already. */
static inline bool work_start_row(struct work_slot *s)
{
  int32_t ret = work_define(s);

  s->waiting = ret != 0 && work_is_worth_a_retry(ret);
  if (ret != 0 && !s->waiting)
    work_count(s, false, ret);
  return ret == 0 || s->waiting;
}

/* Starts the next row that can be started, if there is one. */
static inline void work_start_next(struct work_slot *s)
{
  do {
    if (s->w->next == s->w->rows)
      return;
    s->id = s->w->next++;
  } while (!work_start_row(s));
}

static inline void work_on_complete(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref)
{
  struct work_slot *s = user_ref;
  int32_t error = ic_apid_query_error(conn, query);
  const struct row *row = (const struct row *)ic_apid_query_attr_row(conn, query, NULL);

  EX_CHECK(ic_apid_conn_close_transaction(conn, s->trans));
  if (work_is_worth_a_retry(error)) {
    s->waiting = true;
    return;
  }
  work_count(s, error == 0 && row != NULL && row_is_right(row, s->id), error);
  work_start_next(s);
}

static inline void work_begin(struct work *w, IC_APID_GLOBAL *glob, uint32_t rows)
{
  uint32_t i;

  memset(w, 0, sizeof *w);
  w->rows = rows;
  w->table = row_table(glob);
  w->rec = row_record(w->table);
  EX_CHECK(ic_apid_conn_create(glob, &w->conn));
  for (i = 0; i < WORK_IN_FLIGHT; i++) {
    w->slots[i].w = w;
    EX_CHECK(ic_apid_query_create(w->conn, w->table, w->rec, w->rec, &w->slots[i].query));
  }
}

/* Starts a phase and sends its first rows. */
static inline void work_start(struct work *w, bool reading)
{
  uint32_t i;

  w->reading = reading;
  w->next = w->done = 0;
  for (i = 0; i < WORK_IN_FLIGHT; i++)
    work_start_next(&w->slots[i]);
  EX_CHECK(ic_apid_conn_send(w->conn, false));
}

static inline bool work_is_over(const struct work *w)
{
  return w->done == w->rows;
}

/* The descriptor is readable: takes what is there, without waiting for more, and sends what the callbacks have
 * defined. */
static inline void work_take(struct work *w)
{
  EX_CHECK(ic_apid_conn_poll(w->conn, 0, NULL));
  EX_CHECK(ic_apid_conn_send(w->conn, false));
}

/* A tick: rows that wait go again. */
static inline void work_tick(struct work *w)
{
  uint32_t i;

  for (i = 0; i < WORK_IN_FLIGHT; i++)
    if (w->slots[i].waiting && !work_start_row(&w->slots[i]))
      work_start_next(&w->slots[i]);
  EX_CHECK(ic_apid_conn_send(w->conn, false));
}

/* Frees it all. How many rows have failed. */
static inline uint32_t work_end(struct work *w)
{
  EX_CHECK(ic_apid_conn_free(w->conn)); /* and with it the queries and the descriptor */
  EX_CHECK(ic_record_free(w->rec));
  EX_CHECK(ic_apid_table_close(w->table));
  return w->failed;
}

#endif
