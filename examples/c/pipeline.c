/*
 * Many transactions in flight on one thread: writes rows and reads them back.
 *
 *   pipeline [--connectstring S] [--rows N] [--in-flight N] [--threads N]
 *
 * Without a connectstring, and without NDB_CONNECTSTRING, it runs on data nodes inside itself.
 *
 * Each thread has a connection of its own and its part of the rows. A connection has slots: each is one
 * transaction with one query, and as many are in flight as there are slots. A query's callback closes its
 * transaction and starts the next one in the same slot; the thread itself only flushes: it sends what the
 * callbacks have defined and takes the replies, in which the callbacks run. So all of a connection happens
 * on its thread, and nothing here needs a lock.
 *
 * Rows whose write or read ended with a temporary error go again, after a pause that grows. So do writes of
 * which nobody knows whether they were committed: writing the same row twice does no harm.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>

#include "example.h"
#include "progress.h"
#include "rows.h"

#define MAX_IN_FLIGHT 4096
#define MAX_THREADS 64
#define LONGEST_PAUSE 0.5 /* seconds */

struct slot;

/* One phase's work on one thread: its rows have the ids from next to end. */
struct pipeline {
  IC_TABLE_DEF *table; /* shared by all threads, as is rec */
  IC_RECORD *rec;
  int32_t (*start)(IC_APID_CONNECTION *conn, struct slot *s, uint32_t id); /* start_write or start_read */
  uint32_t width;   /* how many slots */
  uint32_t next;    /* the next id to start */
  uint32_t end;     /* the id after the last */
  uint32_t done;    /* rows that are over, well or not */
  uint32_t waiting; /* slots that pause */
  uint32_t failed;
  uint32_t first_failed; /* the id of the first failure */
  int32_t first_error;   /* and its error: 0 for a row with wrong values */
};

/* One query in flight: the callback's user_ref. Slots and their queries live as long as their phase. */
struct slot {
  struct pipeline *p;
  IC_QUERY_ID query;
  IC_TRANS_ID trans;
  uint32_t id;  /* the row it is about */
  bool waiting; /* it pauses, and goes again then */
  double pause; /* how long its last pause was; 0 while all is well */
  double again; /* when this one ends */
};

/* A thread and its part of the phase. */
struct worker {
  pthread_t thread;
  IC_APID_GLOBAL *glob;
  struct pipeline p;
};

static bool is_worth_a_retry(int32_t error)
{
  return ic_error_is_temporary(error) || ic_error_is_unknown_result(error);
}

/* The slot's row goes again after a pause, twice as long as the one before. */
static void go_again_later(struct slot *s)
{
  s->pause = s->pause == 0 ? 0.001 : s->pause * 2;
  if (s->pause > LONGEST_PAUSE)
    s->pause = LONGEST_PAUSE;
  s->again = ex_seconds() + s->pause;
  s->waiting = true;
  s->p->waiting++;
}

/* The slot's row is over. */
static void count(struct slot *s, bool right, int32_t error)
{
  struct pipeline *p = s->p;

  s->pause = 0;
  p->done++;
  if (!right && p->failed++ == 0) {
    p->first_failed = s->id;
    p->first_error = error;
  }
}

/* Starts a row in a slot. False if it cannot be done, now or later: the slot is free then. */
static bool start_row(IC_APID_CONNECTION *conn, struct slot *s, uint32_t id)
{
  int32_t ret;

  s->id = id;
  ret = s->p->start(conn, s, id);
  if (ret == 0)
    return true;
  if (is_worth_a_retry(ret)) { /* IC_ERROR_NO_NODE, while no data node is up, is one of these */
    go_again_later(s);
    return true;
  }
  count(s, false, ret);
  return false;
}

/* Starts the next row that can be started, if there is one. */
static void start_next(IC_APID_CONNECTION *conn, struct slot *s)
{
  struct pipeline *p = s->p;

  while (p->next < p->end && !start_row(conn, s, p->next++))
    continue;
}

/* Starts the slots again whose pause is over. */
static void end_pauses(IC_APID_CONNECTION *conn, struct pipeline *p, struct slot *slots)
{
  double now = ex_seconds();
  uint32_t i;

  for (i = 0; i < p->width; i++) {
    struct slot *s = &slots[i];
    if (s->waiting && s->again <= now) {
      s->waiting = false;
      p->waiting--;
      if (!start_row(conn, s, s->id))
        start_next(conn, s);
    }
  }
}

/* Starts a slot's transaction: its key is in the query's key row. The hint makes a data node that has the row
 * the coordinator; without one any node would do. */
static int32_t start_transaction(IC_APID_CONNECTION *conn, struct slot *s, const uint8_t *key, uint32_t key_len)
{
  struct pipeline *p = s->p;
  uint32_t hint = ic_apid_conn_hint_for_key(conn, p->table, p->rec, key, key_len);

  return ic_apid_conn_start_transaction(conn, hint, p->table, &s->trans);
}

/* Asks for the commit, which goes out with the query, if that could be defined; else nothing is left of the
 * transaction. */
static int32_t commit_if_defined(IC_APID_CONNECTION *conn, struct slot *s, int32_t defined)
{
  if (defined == 0)
    EX_CHECK(ic_apid_conn_commit_transaction(conn, s->trans));
  else
    EX_CHECK(ic_apid_conn_close_transaction(conn, s->trans));
  return defined;
}

static void on_written(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref)
{
  struct slot *s = user_ref;
  int32_t ret = ic_apid_query_error(conn, query);

  /* The commit went with the query: the transaction is over, whatever became of it. */
  EX_CHECK(ic_apid_conn_close_transaction(conn, s->trans));
  if (is_worth_a_retry(ret)) {
    go_again_later(s);
    return;
  }
  count(s, ret == 0, ret);
  start_next(conn, s);
}

static int32_t start_write(IC_APID_CONNECTION *conn, struct slot *s, uint32_t id)
{
  IC_WRITE_KEY_ARGS args;
  struct row row;
  uint32_t key_len, attr_len;
  uint8_t *key = ic_apid_query_key_row(conn, s->query, &key_len);
  uint8_t *attr = ic_apid_query_attr_row(conn, s->query, &attr_len);
  int32_t ret;

  if (key == NULL || attr == NULL || key_len != sizeof row || attr_len != sizeof row)
    return IC_ERROR_ROW_LENGTH;
  row_make(&row, id);
  memcpy(key, &row, sizeof row);
  memcpy(attr, &row, sizeof row);
  ret = start_transaction(conn, s, key, key_len);
  if (ret != 0)
    return ret;
  ic_write_key_args_init(&args, sizeof args);
  args.kind = IC_WRITE_KIND_WRITE;
  args.callback = on_written;
  args.user_ref = s;
  return commit_if_defined(conn, s, ic_apid_conn_write_key(conn, s->query, s->trans, &args));
}

static void on_read(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref)
{
  struct slot *s = user_ref;
  int32_t ret = ic_apid_query_error(conn, query);
  const uint8_t *attr = ic_apid_query_attr_row(conn, query, NULL);

  EX_CHECK(ic_apid_conn_close_transaction(conn, s->trans));
  if (is_worth_a_retry(ret)) {
    go_again_later(s);
    return;
  }
  count(s, ret == 0 && attr != NULL && row_is_right((const struct row *)attr, s->id), ret);
  start_next(conn, s);
}

static int32_t start_read(IC_APID_CONNECTION *conn, struct slot *s, uint32_t id)
{
  IC_READ_KEY_ARGS args;
  struct row row;
  uint32_t key_len;
  uint8_t *key = ic_apid_query_key_row(conn, s->query, &key_len);
  int32_t ret;

  if (key == NULL || key_len != sizeof row)
    return IC_ERROR_ROW_LENGTH;
  row_make(&row, id);
  memcpy(key, &row, sizeof row);
  ret = start_transaction(conn, s, key, key_len);
  if (ret != 0)
    return ret;
  ic_read_key_args_init(&args, sizeof args);
  args.callback = on_read;
  args.user_ref = s;
  return commit_if_defined(conn, s, ic_apid_conn_read_key(conn, s->query, s->trans, &args));
}

/* A thread of a phase: fills its slots, then only flushes. */
static void *run(void *user_ref)
{
  struct worker *w = user_ref;
  struct pipeline *p = &w->p;
  uint32_t rows = p->end - p->next, shown = 0, i;
  struct slot *slots = calloc(p->width, sizeof *slots);
  IC_APID_CONNECTION *conn;

  if (slots == NULL)
    ex_fail("calloc", IC_ERROR_INTERNAL);
  EX_CHECK(ic_apid_conn_create(w->glob, &conn));
  for (i = 0; i < p->width; i++) {
    slots[i].p = p;
    EX_CHECK(ic_apid_query_create(conn, p->table, p->rec, p->rec, &slots[i].query));
    start_next(conn, &slots[i]);
  }
  /* Send what is defined and take the replies. Without force the library may let requests wait a moment for
   * others on their way to the same node. While all slots pause, this waits in their stead. */
  while (p->done < rows) {
    EX_CHECK(ic_apid_conn_flush(conn, 10, 0, NULL));
    if (p->waiting > 0)
      end_pauses(conn, p, slots);
    if (p->done - shown >= 1000 || p->done == rows) {
      progress_add(p->done - shown);
      shown = p->done;
    }
  }
  /* Nothing is in flight any more: no callback comes, and the slots can go. */
  EX_CHECK(ic_apid_conn_free(conn));
  free(slots);
  return NULL;
}

/* Runs a phase on all threads. How many rows failed. */
static uint32_t run_phase(const char *name, struct worker *workers, uint32_t threads, uint32_t rows)
{
  uint32_t failed = 0, i;
  double began = ex_seconds(), seconds;

  progress_start(name, rows);
  for (i = 0; i < threads; i++)
    if (pthread_create(&workers[i].thread, NULL, run, &workers[i]) != 0)
      ex_fail("pthread_create", IC_ERROR_INTERNAL);
  for (i = 0; i < threads; i++)
    pthread_join(workers[i].thread, NULL);
  seconds = ex_seconds() - began;

  for (i = 0; i < threads; i++) {
    const struct pipeline *p = &workers[i].p;
    failed += p->failed;
    if (p->failed > 0)
      fprintf(stderr, "%s: row %" PRIu32 ": error %d: %s\n", name, p->first_failed, (int)p->first_error,
              p->first_error == 0 ? "its values are wrong" : ic_error_message(p->first_error));
  }
  printf("%s: %" PRIu32 " rows in %.2f s, %.0f rows a second", name, rows, seconds, rows / seconds);
  printf(failed == 0 ? "\n" : "; %" PRIu32 " failed\n", failed);
  return failed;
}

struct options {
  const char *connectstring;
  uint32_t rows;
  uint32_t in_flight;
  uint32_t threads;
};

static void usage(void)
{
  fprintf(stderr, "usage: pipeline [--connectstring S] [--rows N] [--in-flight N] [--threads N]\n");
  exit(2);
}

/* A number from 1 to a limit. */
static uint32_t number(const char *text, uint32_t limit)
{
  char *rest;
  unsigned long value = strtoul(text, &rest, 10);

  if (*text < '0' || *text > '9' || *rest != '\0' || value < 1 || value > limit)
    usage();
  return (uint32_t)value;
}

static struct options parse(int argc, char **argv)
{
  struct options o = {NULL, 1000000, 32, 1};
  int i;

  for (i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--connectstring") == 0)
      o.connectstring = argv[i + 1];
    else if (strcmp(argv[i], "--rows") == 0)
      o.rows = number(argv[i + 1], UINT32_MAX);
    else if (strcmp(argv[i], "--in-flight") == 0)
      o.in_flight = number(argv[i + 1], MAX_IN_FLIGHT);
    else if (strcmp(argv[i], "--threads") == 0)
      o.threads = number(argv[i + 1], MAX_THREADS);
    else
      usage();
  }
  if (i != argc)
    usage();
  return o;
}

/* Gives each thread its part of the rows, for one phase. */
static void share_out(struct worker *workers, const struct options *o, struct pipeline phase)
{
  uint32_t i;

  for (i = 0; i < o->threads; i++) {
    workers[i].p = phase;
    workers[i].p.next = (uint32_t)((uint64_t)o->rows * i / o->threads);
    workers[i].p.end = (uint32_t)((uint64_t)o->rows * (i + 1) / o->threads);
  }
}

int main(int argc, char **argv)
{
  static struct worker workers[MAX_THREADS];
  struct options o = parse(argc, argv);
  IC_APID_GLOBAL *glob = ex_connect(o.connectstring);
  struct pipeline phase = {.width = o.in_flight};
  uint32_t failed, i;

  phase.table = row_table(glob);
  phase.rec = row_record(phase.table);
  for (i = 0; i < o.threads; i++)
    workers[i].glob = glob;

  phase.start = start_write;
  share_out(workers, &o, phase);
  failed = run_phase("write", workers, o.threads, o.rows);

  phase.start = start_read;
  share_out(workers, &o, phase);
  failed += run_phase("read", workers, o.threads, o.rows);

  EX_CHECK(ic_record_free(phase.rec));
  EX_CHECK(ic_apid_table_close(phase.table));
  ex_disconnect();
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
