/*
 *   load CONNECTSTRING [SECONDS]
 *
 * Eight connections on eight threads, 64 operations in flight on each, callbacks and the executed list mixed: every
 * accepted operation completes exactly once, as counted here and by the library; values are right; when the cluster
 * handle is freed no thread of it is left. Temporary errors are counted and the operation goes again.
 */
#define _DEFAULT_SOURCE

#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "test.h"

#define THREADS 8
#define IN_FLIGHT 64

struct worker;

struct slot {
  struct worker *w;
  IC_QUERY_ID query;
  IC_TRANS_ID trans;
  uint32_t id;
  uint64_t value;   /* what is committed */
  uint64_t writing; /* what is being written; 0 while it is read */
  bool by_callback, out;
};

struct worker {
  pthread_t thread;
  struct fixture *f;
  IC_APID_CONNECTION *conn;
  struct slot slots[IN_FLIGHT];
  double end;
  uint64_t accepted, completed, failed, busy;
};

static double seconds(void)
{
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static unsigned threads_now(void)
{
  DIR *dir = opendir("/proc/self/task");
  unsigned count = 0;

  CHECK(dir != NULL);
  while (readdir(dir) != NULL)
    count++;
  closedir(dir);
  return count - 2;
}

static void complete(struct slot *s);

static void on_done(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref)
{
  struct slot *s = user_ref;

  CHECK(conn == s->w->conn && query == s->query && s->by_callback);
  complete(s);
}

static void go(struct slot *s)
{
  struct worker *w = s->w;
  IC_QUERY_CALLBACK callback = s->by_callback ? on_done : NULL;
  uint32_t key_len;
  const uint8_t *key;
  uint32_t hint;

  fill(w->conn, s->query, s->id, s->writing);
  key = ic_apid_query_key_row(w->conn, s->query, &key_len);
  hint = ic_apid_conn_hint_for_key(w->conn, w->f->table, w->f->rec, key, key_len);
  OK(ic_apid_conn_start_transaction(w->conn, hint, w->f->table, &s->trans));
  if (s->writing != 0) {
    IC_WRITE_KEY_ARGS args;
    ic_write_key_args_init(&args, sizeof args);
    args.callback = callback;
    args.user_ref = s;
    OK(ic_apid_conn_write_key(w->conn, s->query, s->trans, &args));
  } else {
    IC_READ_KEY_ARGS args;
    ic_read_key_args_init(&args, sizeof args);
    args.callback = callback;
    args.user_ref = s;
    OK(ic_apid_conn_read_key(w->conn, s->query, s->trans, &args));
  }
  OK(ic_apid_conn_commit_transaction(w->conn, s->trans));
  s->out = true;
  w->accepted++;
}

static void complete(struct slot *s)
{
  struct worker *w = s->w;
  int32_t error = ic_apid_query_error(w->conn, s->query);

  CHECK(s->out); /* once */
  s->out = false;
  w->completed++;
  OK(ic_apid_conn_close_transaction(w->conn, s->trans));
  if (error != 0) {
    w->failed++;
    CHECK(ic_error_is_temporary(error)); /* nothing fails on these nodes but for lack of something */
    w->busy++;
  } else if (s->writing != 0) {
    s->value = s->writing;
    s->writing = 0;
  } else {
    CHECK(row_of(w->conn, s->query)->value == s->value);
    s->writing = s->value + 1;
  }
  if (seconds() < w->end)
    go(s);
}

static void *run(void *argument)
{
  struct worker *w = argument;
  IC_STATS stats = {.size = sizeof stats};
  IC_QUERY_ID query;
  unsigned i;

  for (i = 0; i < IN_FLIGHT; i++)
    go(&w->slots[i]);
  while (w->completed < w->accepted) {
    OK(ic_apid_conn_flush(w->conn, 100, false, NULL));
    while (ic_apid_conn_get_next_executed_query(w->conn, &query)) {
      struct slot *s = ic_apid_query_user_ref(w->conn, query);
      CHECK(s != NULL && s->query == query && !s->by_callback);
      complete(s);
    }
  }
  OK(ic_apid_conn_stats(w->conn, &stats));
  CHECK(stats.defined == w->accepted && stats.completed == w->completed && stats.in_flight == 0);
  CHECK(stats.failed == w->failed && stats.late_replies == 0);
  return NULL;
}

int main(int argc, char **argv)
{
  static struct worker workers[THREADS];
  double time = argc > 2 ? atof(argv[2]) : 3;
  unsigned before = threads_now(), i, j;
  uint64_t operations = 0, busy = 0;
  IC_STATS stats = {.size = sizeof stats};
  struct fixture f;

  fixture_begin(&f, argc, argv, "ic_test_load");
  test_time_limit((unsigned)time + 120);
  for (i = 0; i < THREADS; i++) {
    struct worker *w = &workers[i];
    w->f = &f;
    w->end = seconds() + time;
    OK(ic_apid_conn_create(f.glob, &w->conn));
    for (j = 0; j < IN_FLIGHT; j++) {
      struct slot *s = &w->slots[j];
      s->w = w;
      s->id = i * IN_FLIGHT + j;
      s->writing = 1;
      s->by_callback = j % 2 == 0;
      OK(ic_apid_query_create(w->conn, f.table, f.rec, f.rec, &s->query));
    }
    CHECK(pthread_create(&w->thread, NULL, run, w) == 0);
  }
  for (i = 0; i < THREADS; i++) {
    CHECK(pthread_join(workers[i].thread, NULL) == 0);
    operations += workers[i].completed;
    busy += workers[i].busy;
    OK(ic_apid_conn_free(workers[i].conn));
  }
  OK(ic_apid_global_stats(f.glob, &stats));
  CHECK(stats.completed == operations && stats.defined == operations);
  printf("%llu operations, %llu of them met a temporary error; %.1f operations a write\n",
         (unsigned long long)operations, (unsigned long long)busy, (double)stats.operations_per_1000_writes / 1000);
  fixture_end(&f);
  CHECK(threads_now() == before);
  return 0;
}
