/*
 * A data node halts under load, as by SIGSTOP, and goes on: what is in flight ends by its deadline or before, once,
 * and the same connection goes on as before, with no help.
 *
 *   paused CONNECTSTRING PID SECONDS
 *
 * PID is the process of a data node. Rows are written with a deadline of two seconds, each in a transaction of its
 * own. The node is halted after two seconds, for SECONDS. A line for every half second says what completed.
 */
#define _GNU_SOURCE

#include <signal.h>
#include <stdbool.h>
#include <time.h>

#include "test.h"

#define IN_FLIGHT 200
#define ROWS 100000
#define DEADLINE 2000 /* milliseconds */
#define BEFORE 2.0    /* seconds */
#define AFTER 6.0
/* So much later than its deadline something may end: the machine may be busy. */
#define LATE 1.5

struct slot {
  IC_QUERY_ID query;
  IC_TRANS_ID trans;
  bool out;
  double since;
};

static struct slot slots[IN_FLIGHT];
static unsigned ok, temporary, unknown, twice, other, refused;
static double longest;

static double seconds(void)
{
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void on_complete(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref)
{
  struct slot *s = user_ref;
  int32_t error = ic_apid_query_error(conn, query);
  double took = seconds() - s->since;

  if (!s->out)
    twice++;
  s->out = false;
  if (took > longest)
    longest = took;
  if (error == 0)
    ok++;
  else if (ic_error_is_unknown_result(error))
    unknown++;
  else if (ic_error_is_temporary(error))
    temporary++;
  else
    other++;
  CHECK(ic_apid_conn_close_transaction(conn, s->trans) == 0);
}

static void start_one(struct fixture *f, struct slot *s, uint32_t id)
{
  IC_WRITE_KEY_ARGS args;
  const uint8_t *key;
  uint32_t key_len, hint;
  int32_t ret;

  fill(f->conn, s->query, id, id);
  key = ic_apid_query_key_row(f->conn, s->query, &key_len);
  hint = ic_apid_conn_hint_for_key(f->conn, f->table, f->rec, key, key_len);
  ret = ic_apid_conn_start_transaction(f->conn, hint, f->table, &s->trans);
  if (ret == 0) {
    ic_write_key_args_init(&args, sizeof args);
    args.callback = on_complete;
    args.user_ref = s;
    ret = ic_apid_conn_write_key(f->conn, s->query, s->trans, &args);
    if (ret != 0)
      OK(ic_apid_conn_close_transaction(f->conn, s->trans));
  }
  if (ret != 0) {
    CHECK(ic_error_is_temporary(ret));
    refused++;
    return;
  }
  OK(ic_apid_conn_commit_transaction(f->conn, s->trans));
  s->out = true;
  s->since = seconds();
}

static unsigned still_out(void)
{
  unsigned count = 0, i;

  for (i = 0; i < IN_FLIGHT; i++)
    count += slots[i].out;
  return count;
}

int main(int argc, char **argv)
{
  struct fixture f;
  double began, now, line, pause;
  bool halted = false, went_on = false;
  unsigned ok_after = 0, ok_shown = 0, i;
  uint32_t id = 0;
  pid_t node;

  CHECK(argc == 4);
  node = (pid_t)atoi(argv[2]);
  pause = atof(argv[3]);
  fixture_begin(&f, argc, argv, "c_paused");
  OK(ic_apid_conn_set_deadline(f.conn, DEADLINE));
  for (i = 0; i < IN_FLIGHT; i++)
    slots[i].query = new_query(&f);
  began = line = seconds();
  while ((now = seconds()) < began + BEFORE + pause + AFTER) {
    if (!halted && now > began + BEFORE) {
      halted = true;
      CHECK(kill(node, SIGSTOP) == 0);
    } else if (halted && !went_on && now > began + BEFORE + pause) {
      went_on = true;
      ok_after = ok;
      CHECK(kill(node, SIGCONT) == 0);
    }
    for (i = 0; i < IN_FLIGHT; i++)
      if (!slots[i].out)
        start_one(&f, &slots[i], id++ % ROWS);
    OK(ic_apid_conn_flush(f.conn, 5, true, NULL));
    if (now > line + 0.5) {
      fprintf(stderr, "%4.1f s: %6u in time, %u so far temporary, %u unknown, %u not taken; longest %.3f s\n",
              now - began, ok - ok_shown, temporary, unknown, refused, longest);
      ok_shown = ok;
      line = now;
    }
  }
  began = seconds();
  while (still_out() > 0 && seconds() < began + DEADLINE / 1000.0 + LATE)
    OK(ic_apid_conn_flush(f.conn, 10, true, NULL));
  fprintf(stderr, "%u in time, %u of them after the halt; %u temporary, %u unknown, %u others; longest %.3f s\n", ok,
          ok - ok_after, temporary, unknown, other, longest);
  CHECK(still_out() == 0);
  CHECK(twice == 0 && other == 0);
  CHECK(unknown > 0); /* some commits were out when their node halted */
  CHECK(longest < DEADLINE / 1000.0 + LATE);
  CHECK(ok - ok_after > IN_FLIGHT);
  for (i = 0; i < IN_FLIGHT; i++)
    OK(ic_apid_query_free(f.conn, slots[i].query));
  fixture_end(&f);
  return 0;
}
