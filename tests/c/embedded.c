/*
 * Embedded data nodes from C: rows in them, a node that dies and comes back, faults on request, several sets, and
 * many starts. Needs no cluster.
 */
#define _POSIX_C_SOURCE 200809L

#include <sys/wait.h>
#include <time.h>

#include "test.h"

#define ROWS 100

static IC_EMBEDDED_CLUSTER *start_nodes(uint32_t nodes, uint64_t seed)
{
  IC_EMBEDDED_CLUSTER *cluster;
  IC_EMBEDDED_ARGS args;

  ic_embedded_args_init(&args, sizeof args);
  CHECK(args.size == sizeof args && args.nodes == 2 && args.replicas == 2 && args.port == 0);
  args.nodes = nodes;
  args.seed = seed;
  OK(ic_embedded_start(&args, &cluster));
  CHECK(strncmp(ic_embedded_connectstring(cluster), "127.0.0.1:", 10) == 0);
  return cluster;
}

/* Joins a set of nodes, with an empty table. */
static void join(struct fixture *f, IC_EMBEDDED_CLUSTER *cluster, const char *name)
{
  char *argv[2] = {NULL, (char *)ic_embedded_connectstring(cluster)};

  fixture_begin(f, 2, argv, name);
}

/* Whether a code is worth another try, as is all that a node's end can bring while writing the same row twice. */
static bool is_passing(int32_t code)
{
  return ic_error_is_temporary(code) || ic_error_is_unknown_result(code);
}

static void pause_ms(long ms)
{
  const struct timespec time = {0, ms * 1000000};

  nanosleep(&time, NULL);
}

static void write_rows(struct fixture *f, uint64_t times)
{
  IC_QUERY_ID query = new_query(f);
  uint32_t id;
  int32_t ret;

  for (id = 0; id < ROWS; id++) {
    fill(f->conn, query, id, id * times);
    while (is_passing(ret = ic_apid_conn_write_key_sync(f->conn, query, NULL, 10000)))
      pause_ms(10);
    CHECK_CODE(ret, 0);
  }
  OK(ic_apid_query_free(f->conn, query));
}

static void rows_are(struct fixture *f, uint64_t times)
{
  IC_QUERY_ID query = new_query(f);
  uint32_t id;
  int32_t ret;

  for (id = 0; id < ROWS; id++) {
    fill(f->conn, query, id, 0);
    while (is_passing(ret = ic_apid_conn_read_key_sync(f->conn, query, NULL, 10000)))
      pause_ms(10);
    CHECK_CODE(ret, 0);
    CHECK(row_of(f->conn, query)->value == id * times);
  }
  OK(ic_apid_query_free(f->conn, query));
}

static void a_node_dies_and_comes_back(void)
{
  IC_EMBEDDED_CLUSTER *cluster = start_nodes(2, 1);
  struct fixture f;

  join(&f, cluster, "c_embedded");
  CHECK(ic_apid_global_node_count(f.glob) == 2);
  write_rows(&f, 3);
  rows_are(&f, 3);
  OK(ic_embedded_kill_node(cluster, 1));
  OK(ic_embedded_kill_node(cluster, 1)); /* it is down */
  rows_are(&f, 3);
  write_rows(&f, 5);
  rows_are(&f, 5);
  OK(ic_embedded_restart_node(cluster, 1));
  fixture_must(&f, "wait_usable", ic_apid_global_wait_usable(f.glob, 2, 20000));
  OK(ic_embedded_kill_node(cluster, 2)); /* its rows are now in the other only */
  rows_are(&f, 5);
  OK(ic_embedded_restart_node(cluster, 2));
  fixture_must(&f, "wait_usable", ic_apid_global_wait_usable(f.glob, 2, 20000));
  rows_are(&f, 5);
  fixture_end(&f);
  OK(ic_embedded_stop(cluster));
}

static void two_sets_at_once(void)
{
  IC_EMBEDDED_CLUSTER *clusters[2] = {start_nodes(2, 1), start_nodes(4, 2)};
  struct fixture f[2];
  int i;

  CHECK(strcmp(ic_embedded_connectstring(clusters[0]), ic_embedded_connectstring(clusters[1])) != 0);
  for (i = 0; i < 2; i++) {
    join(&f[i], clusters[i], "c_embedded");
    CHECK(ic_apid_global_node_count(f[i].glob) == (i == 0 ? 2 : 4));
    write_rows(&f[i], (uint64_t)i + 7);
  }
  rows_are(&f[0], 7);
  rows_are(&f[1], 8);
  fixture_end(&f[0]);
  OK(ic_embedded_stop(clusters[0]));
  rows_are(&f[1], 8);
  fixture_end(&f[1]);
  OK(ic_embedded_stop(clusters[1]));
}

static void many_starts(void)
{
  int i;

  for (i = 0; i < 20; i++) {
    IC_EMBEDDED_CLUSTER *cluster = start_nodes(i % 2 == 0 ? 2 : 4, (uint64_t)i);
    IC_APID_GLOBAL *glob;

    OK(ic_apid_global_create(&glob));
    OK(ic_apid_global_connect(glob, ic_embedded_connectstring(cluster), NULL));
    if (i % 3 == 0) { /* the nodes go first */
      OK(ic_embedded_stop(cluster));
      OK(ic_apid_global_free(glob));
    } else {
      OK(ic_apid_global_free(glob));
      OK(ic_embedded_stop(cluster));
    }
  }
}

/* Waits until a fault has happened that concerns replies. */
static void wait_for_replies(struct fixture *f, IC_EMBEDDED_CLUSTER *cluster, uint32_t fault)
{
  CHECK(fault != 0);
  while (!ic_embedded_fault_consumed(cluster, fault))
    write_rows(f, 2);
}

/* A transaction that is open at its coordinator, and ends when the link to it is lost. */
static IC_TRANS_ID open_transaction(struct fixture *f, IC_QUERY_ID query)
{
  IC_TRANS_ID trans;
  IC_QUERY_ID executed;

  fill(f->conn, query, 2, 0);
  trans = start(f, query);
  OK(ic_apid_conn_read_key(f->conn, query, trans, NULL));
  drain(f->conn);
  CHECK(ic_apid_conn_get_next_executed_query(f->conn, &executed) && executed == query);
  CHECK_CODE(ic_apid_query_error(f->conn, query), 0);
  CHECK_CODE(ic_apid_transaction_state(f->conn, trans), IC_TRANS_STATE_OPEN);
  return trans;
}

/* Waits until a fault has happened that costs the client all its links, and until it has them again. The handles stay
 * good. */
static void wait_for_links(struct fixture *f, IC_EMBEDDED_CLUSTER *cluster, uint32_t fault, IC_TRANS_ID trans)
{
  IC_QUERY_ID query = new_query(f);
  int32_t ret;

  CHECK(fault != 0);
  while (ic_apid_transaction_state(f->conn, trans) == IC_TRANS_STATE_OPEN)
    OK(ic_apid_conn_poll(f->conn, 10, NULL));
  CHECK(ic_embedded_fault_consumed(cluster, fault));
  CHECK(is_passing(ic_apid_transaction_error(f->conn, trans)));
  OK(ic_apid_conn_close_transaction(f->conn, trans));
  fixture_must(f, "wait_usable", ic_apid_global_wait_usable(f->glob, 2, 20000));
  fill(f->conn, query, 1, 2);
  while ((ret = ic_apid_conn_write_key_sync(f->conn, query, NULL, 10000)) != 0) {
    CHECK(is_passing(ret));
    pause_ms(1);
  }
  OK(ic_apid_query_free(f->conn, query));
  rows_are(f, 2);
}

static void faults(void)
{
  IC_EMBEDDED_CLUSTER *cluster = start_nodes(2, 3);
  IC_APID_GLOBAL *other;
  IC_CONNECT_ARGS args;
  IC_QUERY_ID query;
  IC_TRANS_ID trans;
  struct fixture f;
  uint32_t fault, both[2], node;
  int32_t ret;

  join(&f, cluster, "c_embedded_faults");
  write_rows(&f, 1);
  query = new_query(&f);

  /* An operation fails, wherever it is coordinated, with a code that comes through as it is. */
  for (node = 1; node <= 2; node++)
    OK(ic_embedded_fail_operation(cluster, node, 1, 1217, &both[node - 1]));
  CHECK(!ic_embedded_fault_consumed(cluster, both[0]) && !ic_embedded_fault_consumed(cluster, both[1]));
  fill(f.conn, query, 1, 2);
  CHECK_CODE(ic_apid_conn_write_key_sync(f.conn, query, NULL, 10000), 1217);
  CHECK(ic_embedded_fault_consumed(cluster, both[0]) != ic_embedded_fault_consumed(cluster, both[1]));
  for (node = 1; node <= 2; node++)
    OK(ic_embedded_fail_operation(cluster, node, 1000000, 1217, NULL));

  OK(ic_embedded_delay(cluster, 1, 5, &fault));
  wait_for_replies(&f, cluster, fault);
  OK(ic_embedded_delay(cluster, 1, 0, NULL));
  OK(ic_embedded_stall(cluster, 2, 100, &fault));
  wait_for_replies(&f, cluster, fault);
  write_rows(&f, 2);

  trans = open_transaction(&f, query);
  OK(ic_embedded_drop_link(cluster, 1, ic_apid_global_node_id(f.glob), &fault));
  wait_for_links(&f, cluster, fault, trans);
  trans = open_transaction(&f, query);
  OK(ic_embedded_send_garbage(cluster, 2, &fault));
  wait_for_links(&f, cluster, fault, trans);
  OK(ic_apid_query_free(f.conn, query));

  /* A client that asks for a node id is refused, and asks again. */
  OK(ic_embedded_refuse_node_ids(cluster, 1, &fault));
  OK(ic_apid_global_create(&other));
  ic_connect_args_init(&args, sizeof args);
  ret = ic_apid_global_connect(other, ic_embedded_connectstring(cluster), &args);
  CHECK(ret == 0 || ret == IC_ERROR_NO_NODE_ID);
  CHECK(ic_embedded_fault_consumed(cluster, fault));
  OK(ic_apid_global_free(other));

  CHECK_CODE(ic_embedded_kill_node(cluster, 3), IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_embedded_restart_node(cluster, 70000), IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_embedded_stall(cluster, 0, 1, NULL), IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_embedded_fail_operation(cluster, 1, 0, 626, NULL), IC_ERROR_INVALID_ARGUMENT);
  CHECK(!ic_embedded_fault_consumed(cluster, 0) && !ic_embedded_fault_consumed(cluster, UINT32_MAX));
  fixture_end(&f);
  OK(ic_embedded_stop(cluster));
}

static void refused(uint32_t nodes, uint32_t replicas, uint32_t port, const char *word)
{
  IC_EMBEDDED_CLUSTER *cluster = NULL;
  IC_EMBEDDED_ARGS args;

  ic_embedded_args_init(&args, sizeof args);
  args.nodes = nodes;
  args.replicas = replicas;
  args.port = port;
  CHECK(ic_embedded_start(&args, &cluster) < 0);
  CHECK(cluster == NULL);
  CHECK(strstr(ic_embedded_error_text(), word) != NULL);
}

static void arguments_that_do_not_fit(void)
{
  IC_EMBEDDED_CLUSTER *cluster = start_nodes(2, 1);
  uint32_t port = (uint32_t)strtoul(strchr(ic_embedded_connectstring(cluster), ':') + 1, NULL, 10);
  IC_APID_GLOBAL *glob;

  refused(0, 1, 0, "nodes");
  refused(1000000, 1, 0, "nodes");
  refused(3, 2, 0, "replicas");
  refused(2, 2, 70000, "port");
  refused(2, 2, port, "port"); /* it is taken */
  CHECK_CODE(ic_embedded_start(NULL, NULL), IC_ERROR_INVALID_ARGUMENT);
  OK(ic_apid_global_create(&glob));
  CHECK_CODE(ic_embedded_stop((IC_EMBEDDED_CLUSTER *)glob), IC_ERROR_INVALID_ARGUMENT);
  OK(ic_apid_global_free(glob));
  OK(ic_embedded_stop(cluster));
  OK(ic_embedded_start(NULL, &cluster));
  CHECK(*ic_embedded_error_text() == '\0');
  OK(ic_embedded_stop(cluster));
}

/* A forked child has none of the nodes' threads, and may not use the handle. */
static void fork_with_nodes(void)
{
  IC_EMBEDDED_CLUSTER *cluster = start_nodes(2, 1);
  int status;
  pid_t pid = fork();

  CHECK(pid >= 0);
  if (pid == 0) {
    alarm(20);
    CHECK_CODE(ic_embedded_kill_node(cluster, 1), IC_ERROR_FORKED);
    CHECK(ic_embedded_connectstring(cluster) == NULL);
    CHECK_CODE(ic_embedded_stop(cluster), IC_ERROR_FORKED);
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(ic_embedded_stop(cluster));
}

int main(void)
{
  test_time_limit(120);
  arguments_that_do_not_fit();
  a_node_dies_and_comes_back();
  two_sets_at_once();
  many_starts();
  faults();
  fork_with_nodes();
  return 0;
}
