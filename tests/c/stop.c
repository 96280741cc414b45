/*
 * Leaving while data nodes are stopped: they keep their sockets open, and neither read nor answer. Whatever is in
 * flight completes with an error, once, and every call ends in bounded time.
 *
 *   stop CONNECTSTRING PID...
 *
 * The PIDs are the processes of the data nodes: they are stopped and continued by signals.
 */
#define _GNU_SOURCE

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include "test.h"

/* What calls that are bounded may take. The machine may be busy; without a bound they would take for ever. */
#define BOUND 15.0
#define WRITES 100
#define WIDE 4000
/* Wide rows of a transaction: fewer than a connection may have waiting. */
#define BATCH 200
/* Of so many wide rows, sockets on the loopback do not take all. */
#define MANY 100000

static char **nodes; /* the processes, behind the last of which is NULL */

static double seconds(void)
{
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void bounded(const char *what, double began)
{
  double took = seconds() - began;

  fprintf(stderr, "%s: %.3f s\n", what, took);
  if (took > BOUND) {
    fprintf(stderr, "%s takes too long\n", what);
    _exit(1);
  }
}

static void signal_nodes(int number)
{
  char **node;

  for (node = nodes; *node != NULL; node++)
    CHECK(kill((pid_t)atoi(*node), number) == 0);
}

/* Whether all threads of a process have stopped: a signal takes its time on a busy machine. */
static bool has_stopped(const char *process)
{
  char path[100];
  struct dirent *entry;
  bool stopped = true;
  DIR *threads;

  snprintf(path, sizeof path, "/proc/%s/task", process);
  CHECK((threads = opendir(path)) != NULL);
  while (stopped && (entry = readdir(threads)) != NULL) {
    char state;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%.20s/task/%.20s/stat", process, entry->d_name);
    if (entry->d_name[0] == '.' || (file = fopen(path, "r")) == NULL)
      continue;
    stopped = fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && state == 'T';
    fclose(file);
  }
  closedir(threads);
  return stopped;
}

static void halt(void)
{
  char **node;

  signal_nodes(SIGSTOP);
  for (node = nodes; *node != NULL; node++)
    while (!has_stopped(*node))
      sched_yield();
}

static void go_on(void)
{
  signal_nodes(SIGCONT);
}

/* Defines writes, each in a transaction of its own, with the commit. */
static void write_many(struct fixture *f, IC_QUERY_ID *queries)
{
  int i;

  for (i = 0; i < WRITES; i++) {
    IC_TRANS_ID trans;

    queries[i] = new_query(f);
    fill(f->conn, queries[i], (uint32_t)i, 1);
    trans = start(f, queries[i]);
    write_row(f, queries[i], trans, NULL, NULL);
    OK(ic_apid_conn_commit_transaction(f->conn, trans));
    OK(ic_apid_conn_close_transaction(f->conn, trans));
  }
}

/* All of them have completed once, with an error. */
static void all_failed(struct fixture *f)
{
  IC_QUERY_ID query;
  int count = 0;

  while (ic_apid_conn_get_next_executed_query(f->conn, &query)) {
    int32_t error = ic_apid_query_error(f->conn, query);
    char line[300];

    count++;
    CHECK(error != 0);
    CHECK(ic_error_is_temporary(error) || ic_error_is_unknown_result(error));
    CHECK(ic_apid_query_explain(f->conn, query, line, sizeof line) > 0);
    CHECK(strstr(line, f->name) != NULL && strstr(line, "step ") != NULL && strstr(line, "node ") != NULL);
    CHECK((strstr(line, "may have been committed") != NULL) == ic_error_is_unknown_result(error));
    OK(ic_apid_query_free(f->conn, query));
  }
  CHECK(count == WRITES);
}

static uint64_t in_flight(IC_APID_CONNECTION *conn)
{
  IC_STATS statistics = {.size = sizeof statistics};

  OK(ic_apid_conn_stats(conn, &statistics));
  return statistics.in_flight;
}

static void *wait_for_replies(void *arg)
{
  struct fixture *f = arg;

  /* Until the disconnect by the other thread. */
  while (in_flight(f->conn) > 0)
    OK(ic_apid_conn_poll(f->conn, 60000, NULL));
  CHECK_CODE(ic_apid_conn_poll(f->conn, 60000, NULL), IC_ERROR_NOT_CONNECTED);
  return NULL;
}

/* Gives up what the fixture has but for its cluster handle, and that. */
static void give_up(struct fixture *f)
{
  double began = seconds();

  OK(ic_apid_conn_free(f->conn));
  bounded("freeing the connection", began);
  OK(ic_record_free(f->rec));
  OK(ic_apid_table_close(f->table));
  began = seconds();
  OK(ic_apid_global_free(f->glob));
  bounded("freeing the cluster handle", began);
}

/* A disconnect while replies are waited for: by nobody, or by another thread in a poll. */
static void disconnect_in_flight(int argc, char **argv, bool polling)
{
  struct fixture f;
  IC_QUERY_ID queries[WRITES];
  pthread_t thread;
  double began;

  fixture_begin(&f, argc, argv, "c_stop");
  write_many(&f, queries);
  halt();
  OK(ic_apid_conn_send(f.conn, true));
  if (polling)
    CHECK(pthread_create(&thread, NULL, wait_for_replies, &f) == 0);
  began = seconds();
  OK(ic_apid_global_disconnect(f.glob));
  bounded("disconnect", began);
  if (polling) {
    CHECK(pthread_join(thread, NULL) == 0);
  } else {
    OK(ic_apid_conn_poll(f.conn, 60000, NULL));
    CHECK_CODE(ic_apid_conn_poll(f.conn, 60000, NULL), IC_ERROR_NOT_CONNECTED);
  }
  bounded("disconnect and poll", began);
  CHECK(in_flight(f.conn) == 0);
  all_failed(&f);
  give_up(&f);
  go_on();
}

/* A connection that is freed with all in flight, and no disconnect before. */
static void free_in_flight(int argc, char **argv)
{
  struct fixture f;
  IC_QUERY_ID queries[WRITES];

  fixture_begin(&f, argc, argv, "c_stop");
  write_many(&f, queries);
  halt();
  OK(ic_apid_conn_send(f.conn, true));
  give_up(&f);
  go_on();
}

/* A socket that takes no more: sends return, definitions are refused with a temporary error, and the disconnect does
 * not wait for the socket. */
static void socket_full(int argc, char **argv)
{
  static const IC_COLUMN columns[] = {
    {.name = "id", .kind = IC_TYPE_UNSIGNED, .flags = IC_COLUMN_PRIMARY_KEY},
    {.name = "wide", .kind = IC_TYPE_BINARY, .length = WIDE},
  };
  struct fixture f;
  IC_TABLE_DEF *table;
  IC_RECORD *rec;
  IC_TRANS_ID trans;
  int32_t code;
  uint32_t id, hint, len, writes = 0, completed = 0;
  const uint8_t *key;
  IC_QUERY_ID query;
  double began;

  fixture_begin(&f, argc, argv, "c_stop");
  (void)ic_apid_table_drop(f.glob, "test", "c_stop_wide");
  fixture_must(&f, "create", ic_apid_table_create(f.glob, "test", "c_stop_wide", columns, 2, sizeof *columns, NULL));
  fixture_must(&f, "open", ic_apid_table_open(f.glob, "test", "c_stop_wide", &table));
  OK(ic_record_create_natural(table, &rec));
  /* Once all is well, so that a coordinator record is there. */
  OK(ic_apid_query_create(f.conn, table, rec, rec, &query));
  key = ic_apid_query_key_row(f.conn, query, &len);
  hint = ic_apid_conn_hint_for_key(f.conn, table, rec, key, len);
  CHECK(hint != 0);
  OK(ic_apid_conn_write_key_sync(f.conn, query, NULL, 10000));
  halt();
  began = seconds();
  do {
    code = ic_apid_conn_start_transaction(f.conn, hint, table, &trans);
    for (id = 0; id < BATCH && code == 0; id++) {
      OK(ic_apid_query_create(f.conn, table, rec, rec, &query));
      memcpy(ic_apid_query_key_row(f.conn, query, NULL), &writes, sizeof writes);
      memcpy(ic_apid_query_attr_row(f.conn, query, NULL), &writes, sizeof writes);
      code = ic_apid_conn_write_key(f.conn, query, trans, NULL);
      writes += code == 0;
    }
    if (id > 0)
      OK(ic_apid_conn_commit_transaction(f.conn, trans));
    OK(ic_apid_conn_send(f.conn, true));
  } while (code == 0 && writes < MANY);
  bounded("filling the socket", began);
  fprintf(stderr, "%u writes, then %d\n", (unsigned)writes, (int)code);
  CHECK_CODE(code, IC_ERROR_SEND_BUFFER_FULL);
  CHECK(ic_error_is_temporary(code));
  began = seconds();
  OK(ic_apid_conn_send(f.conn, true));
  bounded("a send", began);
  OK(ic_apid_global_disconnect(f.glob));
  bounded("a send and the disconnect", began);
  while (ic_apid_conn_poll(f.conn, 60000, NULL) == 0)
    ;
  while (ic_apid_conn_get_next_executed_query(f.conn, &query)) {
    CHECK(ic_apid_query_error(f.conn, query) != 0);
    completed++;
  }
  CHECK(in_flight(f.conn) == 0 && completed == writes);
  OK(ic_record_free(rec));
  OK(ic_apid_table_close(table));
  give_up(&f);
  go_on();
}

int main(int argc, char **argv)
{
  struct fixture f;

  CHECK(argc > 2);
  for (nodes = &argv[2]; *nodes != NULL; nodes++)
    CHECK(atoi(*nodes) > 1);
  nodes = &argv[2];
  disconnect_in_flight(argc, argv, false);
  disconnect_in_flight(argc, argv, true);
  free_in_flight(argc, argv);
  socket_full(argc, argv);
  /* The nodes are as good as before. */
  fixture_begin(&f, argc, argv, "c_stop");
  fixture_end(&f);
  return 0;
}
