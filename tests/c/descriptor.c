/*
 * The descriptor of a connection: readable exactly while there is something for a poll to take.
 */
#define _DEFAULT_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "test.h"

#define OPERATIONS 1000

static bool is_readable(int fd, int wait_ms)
{
  struct pollfd asked = {.fd = fd, .events = POLLIN};
  int ready = poll(&asked, 1, wait_ms);

  CHECK(ready == 0 || (ready == 1 && asked.revents == POLLIN));
  return ready == 1;
}

struct load {
  IC_TRANS_ID trans[OPERATIONS];
  IC_QUERY_ID query[OPERATIONS];
  int done;
};

static void on_done(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref)
{
  OK(ic_apid_query_error(conn, query));
  ++*(int *)user_ref;
}

/* Writes and then reads many rows at once, waiting on the descriptor alone. */
static void pipeline(struct fixture *f, int fd, bool reading)
{
  static struct load load;
  int i;

  load.done = 0;
  for (i = 0; i < OPERATIONS; i++) {
    if (!reading)
      load.query[i] = new_query(f);
    fill(f->conn, load.query[i], (uint32_t)i, reading ? 0 : 7 * (uint64_t)i);
    load.trans[i] = start(f, load.query[i]);
    if (reading)
      read_row(f, load.query[i], load.trans[i], on_done, &load.done);
    else
      write_row(f, load.query[i], load.trans[i], on_done, &load.done);
    OK(ic_apid_conn_commit_transaction(f->conn, load.trans[i]));
  }
  CHECK(!is_readable(fd, 0)); /* nothing was sent */
  OK(ic_apid_conn_send(f->conn, true));
  while (load.done < OPERATIONS) {
    uint32_t signals;
    CHECK(is_readable(fd, 60000));
    CHECK(is_readable(fd, 0)); /* still: nothing was taken */
    OK(ic_apid_conn_poll(f->conn, 0, &signals));
  }
  OK(ic_apid_conn_poll(f->conn, 0, NULL));
  CHECK(!is_readable(fd, 0));
  for (i = 0; i < OPERATIONS; i++) {
    CHECK(row_of(f->conn, load.query[i])->value == 7 * (uint64_t)i);
    OK(ic_apid_conn_close_transaction(f->conn, load.trans[i]));
    if (reading)
      OK(ic_apid_query_free(f->conn, load.query[i]));
  }
}

/* What completes without the network is to be taken as well. */
static void rolled_back(struct fixture *f, int fd, bool close)
{
  IC_QUERY_ID query = new_query(f), executed;
  IC_TRANS_ID trans;

  fill(f->conn, query, 1, 1);
  trans = start(f, query);
  write_row(f, query, trans, NULL, NULL);
  CHECK(!is_readable(fd, 0));
  if (close)
    OK(ic_apid_conn_close_transaction(f->conn, trans));
  else
    OK(ic_apid_conn_rollback_transaction(f->conn, trans));
  CHECK(is_readable(fd, 0));
  OK(ic_apid_conn_poll(f->conn, 0, NULL));
  CHECK(!is_readable(fd, 0)); /* though it is on the executed list still */
  CHECK(ic_apid_conn_get_next_executed_query(f->conn, &executed) && executed == query);
  CHECK_CODE(ic_apid_query_error(f->conn, query), 4350);
  if (!close)
    OK(ic_apid_conn_close_transaction(f->conn, trans));
  OK(ic_apid_query_free(f->conn, query));
}

/* A rollback in a callback completes a query that no reply will complete: it is for the next poll. */
struct nested {
  struct fixture *f;
  IC_QUERY_ID other;
  bool called;
};

static void on_written(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref)
{
  struct nested *n = user_ref;
  IC_TRANS_ID trans;

  OK(ic_apid_query_error(conn, query));
  CHECK(ic_apid_conn_fd(conn) >= 0);
  fill(conn, n->other, 2, 2);
  trans = start(n->f, n->other);
  write_row(n->f, n->other, trans, NULL, NULL);
  OK(ic_apid_conn_close_transaction(conn, trans));
  n->called = true;
}

static void rolled_back_in_a_callback(struct fixture *f, int fd)
{
  IC_QUERY_ID query = new_query(f), executed;
  struct nested n = {f, new_query(f), false};
  IC_TRANS_ID trans;

  fill(f->conn, query, 1, 1);
  trans = start(f, query);
  write_row(f, query, trans, on_written, &n);
  OK(ic_apid_conn_commit_transaction(f->conn, trans));
  OK(ic_apid_conn_send(f->conn, true));
  while (!n.called) {
    CHECK(is_readable(fd, 60000));
    OK(ic_apid_conn_poll(f->conn, 0, NULL));
  }
  CHECK(is_readable(fd, 0));
  OK(ic_apid_conn_poll(f->conn, 0, NULL));
  CHECK(ic_apid_conn_get_next_executed_query(f->conn, &executed) && executed == n.other);
  CHECK(!is_readable(fd, 0));
  OK(ic_apid_conn_close_transaction(f->conn, trans));
  OK(ic_apid_query_free(f->conn, query));
  OK(ic_apid_query_free(f->conn, n.other));
}

/* A disconnect is news, and freeing the connection closes the descriptor. */
static void disconnected(const char *nodes)
{
  IC_APID_GLOBAL *glob;
  IC_APID_CONNECTION *conn;
  int fd;

  OK(ic_apid_global_create(&glob));
  OK(ic_apid_global_connect(glob, nodes, NULL));
  OK(ic_apid_conn_create(glob, &conn));
  fd = ic_apid_conn_fd(conn);
  CHECK(fd >= 0);
  OK(ic_apid_global_disconnect(glob));
  CHECK(is_readable(fd, 0));
  CHECK_CODE(ic_apid_conn_poll(conn, 0, NULL), IC_ERROR_NOT_CONNECTED);
  CHECK(!is_readable(fd, 0));
  OK(ic_apid_conn_free(conn));
  CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
  OK(ic_apid_global_free(glob));
}

int main(int argc, char **argv)
{
  struct fixture f;
  int fd;

  fixture_begin(&f, argc, argv, "c_descriptor");
  disconnected(argv[1]);
  fd = ic_apid_conn_fd(f.conn);
  CHECK(fd >= 0 && ic_apid_conn_fd(f.conn) == fd);
  CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
  CHECK(!is_readable(fd, 0));
  pipeline(&f, fd, false);
  pipeline(&f, fd, true);
  rolled_back(&f, fd, false);
  rolled_back(&f, fd, true);
  rolled_back_in_a_callback(&f, fd);
  OK(ic_apid_conn_free(f.conn));
  CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
  f.conn = NULL;
  fixture_end(&f);
  return 0;
}
