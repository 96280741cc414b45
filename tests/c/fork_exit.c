/*
 * A forked child may not use the handles of its parent, and does the parent no harm. A program may exit with
 * handles alive, from main and from a callback, while operations are in flight and threads of the library run. A
 * program that it becomes inherits none of its open files.
 */
#define _GNU_SOURCE

#include <dirent.h>
#include <sys/wait.h>

#include "test.h"

/* A child's calls: each is refused. It leaves by _exit: what it has inherited is not its to clean up. */
static void child(struct fixture *f, IC_QUERY_ID query, IC_TRANS_ID trans)
{
  IC_APID_CONNECTION *conn = NULL;
  IC_TABLE_DEF *table = NULL;
  IC_STATS stats = {.size = sizeof stats};
  IC_QUERY_ID executed;
  IC_TRANS_ID other;

  alarm(20);
  CHECK_CODE(ic_apid_conn_send(f->conn, true), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_conn_poll(f->conn, 1000, NULL), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_conn_flush(f->conn, 1000, true, NULL), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_conn_write_key(f->conn, query, trans, NULL), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_conn_read_key(f->conn, query, trans, NULL), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_conn_write_key_sync(f->conn, query, NULL, 1000), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_conn_commit_transaction(f->conn, trans), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_conn_rollback_transaction(f->conn, trans), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_conn_close_transaction(f->conn, trans), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_conn_start_transaction(f->conn, 0, NULL, &other), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_query_error(f->conn, query), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_conn_stats(f->conn, &stats), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_global_stats(f->glob, &stats), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_conn_set_max_in_flight(f->conn, 1), IC_ERROR_FORKED);
  CHECK(ic_apid_query_key_row(f->conn, query, NULL) == NULL);
  CHECK(!ic_apid_conn_get_next_executed_query(f->conn, &executed));
  CHECK_CODE(ic_apid_conn_free(f->conn), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_conn_create(f->glob, &conn), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_table_open(f->glob, "test", f->name, &table), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_table_drop(f->glob, "test", f->name), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_global_wait_usable(f->glob, 0, 1000), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_global_connect(f->glob, NULL, NULL), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_global_disconnect(f->glob), IC_ERROR_FORKED);
  CHECK_CODE(ic_apid_global_free(f->glob), IC_ERROR_FORKED);
  _exit(0);
}

/* How a child process ended: its exit status, or 1000 and the signal. */
static int ended(pid_t pid)
{
  int status;

  CHECK(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void fork_in_flight(struct fixture *f)
{
  IC_QUERY_ID query = new_query(f), executed;
  IC_TRANS_ID trans;
  pid_t pid;

  fill(f->conn, query, 1, 1);
  trans = start(f, query);
  write_row(f, query, trans, NULL, NULL);
  OK(ic_apid_conn_send(f->conn, true));
  fflush(NULL);
  pid = fork();
  CHECK(pid >= 0);
  if (pid == 0)
    child(f, query, trans);
  CHECK(ended(pid) == 0);

  /* The parent goes on with what was in flight. */
  OK(ic_apid_conn_commit_transaction(f->conn, trans));
  drain(f->conn);
  CHECK(ic_apid_conn_get_next_executed_query(f->conn, &executed) && executed == query);
  OK(ic_apid_query_error(f->conn, query));
  CHECK_CODE(ic_apid_transaction_state(f->conn, trans), IC_TRANS_STATE_COMMITTED);
  OK(ic_apid_conn_close_transaction(f->conn, trans));
  OK(ic_apid_query_free(f->conn, query));
}

static void on_exit_wanted(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref)
{
  (void)conn;
  (void)query;
  exit(*(int *)user_ref);
}

/* A program that exits with all its handles alive and 100 writes in flight, from main or from a callback. */
static void exits(int argc, char **argv, const char *name, bool in_callback)
{
  static struct fixture f;
  static int status = 42;
  int i;

  fixture_begin(&f, argc, argv, name);
  test_time_limit(30);
  for (i = 0; i < 100; i++) {
    IC_QUERY_ID query = new_query(&f);
    IC_TRANS_ID trans;

    fill(f.conn, query, (uint32_t)i, 1);
    trans = start(&f, query);
    write_row(&f, query, trans, in_callback ? on_exit_wanted : NULL, &status);
    OK(ic_apid_conn_commit_transaction(f.conn, trans));
  }
  OK(ic_apid_conn_send(f.conn, true));
  while (in_callback)
    OK(ic_apid_conn_flush(f.conn, 10, false, NULL));
  exit(status);
}

/* Runs this program again, to see it exit. */
static void see_exit(char **argv, const char *how)
{
  pid_t pid = fork();

  CHECK(pid >= 0);
  if (pid == 0) {
    execl(argv[0], argv[0], argv[1], how, (char *)NULL);
    _exit(127);
  }
  CHECK(ended(pid) == 42);
}

static int open_files(void)
{
  DIR *dir = opendir("/proc/self/fd");
  int files = 0;

  CHECK(dir != NULL);
  while (readdir(dir) != NULL)
    files++;
  closedir(dir);
  return files;
}

/* What this process becomes by exec has the files open that it had before it used the library. */
static void see_files(char **argv, int before)
{
  pid_t pid = fork();

  CHECK(pid >= 0);
  if (pid == 0) {
    char text[20];

    snprintf(text, sizeof text, "%d", before);
    execl(argv[0], argv[0], "files", text, (char *)NULL);
    _exit(127);
  }
  CHECK(ended(pid) == 0);
}

int main(int argc, char **argv)
{
  int files = open_files();
  struct fixture f;

  if (argc > 2 && strcmp(argv[1], "files") == 0)
    return files == atoi(argv[2]) ? 0 : 1;
  if (argc > 2)
    exits(argc, argv, argv[2], strcmp(argv[2], "c_exit_callback") == 0);
  fixture_begin(&f, argc, argv, "c_fork");
  CHECK(open_files() > files);
  see_files(argv, files);
  fork_in_flight(&f);
  see_exit(argv, "c_exit_main");
  see_exit(argv, "c_exit_callback");
  OK(ic_apid_table_drop(f.glob, "test", "c_exit_main"));
  OK(ic_apid_table_drop(f.glob, "test", "c_exit_callback"));
  fixture_end(&f);
  return 0;
}
