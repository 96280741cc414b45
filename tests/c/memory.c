/*
 * What a client takes of memory: at most 8 MiB when it has joined the cluster and idles, and at most 1 KiB for each
 * operation that is defined, its rows aside; with all of them out, no more than that and the replies.
 */
#include "test.h"

#define QUERIES 10000
#define IDLE_LIMIT (8l << 20)
#define QUERY_LIMIT 1024l
/* A query has a key row and a row of values. */
#define ROWS (2l * (long)sizeof(struct pair))
/* For what the links and the nodes' replies take. */
#define BUFFERS (4l << 20)

static IC_QUERY_ID queries[QUERIES];
static IC_TRANS_ID transactions[QUERIES];
static uint32_t done;

/* Bytes of the process that are in memory, of which so many are its own, not a file's. */
static long resident(long *own)
{
  long all, pages, shared;
  FILE *file = fopen("/proc/self/statm", "r");

  CHECK(file != NULL);
  CHECK(fscanf(file, "%ld %ld %ld", &all, &pages, &shared) == 3);
  fclose(file);
  *own = (pages - shared) * sysconf(_SC_PAGESIZE);
  return pages * sysconf(_SC_PAGESIZE);
}

static void on_done(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref)
{
  (void)user_ref;
  CHECK_CODE(ic_apid_query_error(conn, query), 626);
  done++;
}

int main(int argc, char **argv)
{
  struct fixture f;
  long idle, before, defined, after;
  int i;

  fixture_begin(&f, argc, argv, "c_memory");
  idle = resident(&before);
  printf("idle %ld\n", idle);
  CHECK(idle <= IDLE_LIMIT);

  for (i = 0; i < QUERIES; i++) {
    queries[i] = new_query(&f);
    fill(f.conn, queries[i], (uint32_t)i, 0);
    transactions[i] = start(&f, queries[i]);
    read_row(&f, queries[i], transactions[i], on_done, NULL);
    OK(ic_apid_conn_commit_transaction(f.conn, transactions[i]));
  }
  resident(&defined);
  printf("defined %ld each\n", (defined - before) / QUERIES);
  CHECK((defined - before) / QUERIES <= QUERY_LIMIT + ROWS);

  while (done < QUERIES)
    OK(ic_apid_conn_flush(f.conn, 100, false, NULL));
  resident(&after);
  printf("completed %ld each\n", (after - before) / QUERIES);
  CHECK(after - before <= QUERIES * (QUERY_LIMIT + ROWS) + BUFFERS);
  for (i = 0; i < QUERIES; i++) {
    OK(ic_apid_conn_close_transaction(f.conn, transactions[i]));
    OK(ic_apid_query_free(f.conn, queries[i]));
  }
  fixture_end(&f);
  return 0;
}
