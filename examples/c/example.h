/*
 * What the examples share: checking return values, joining a cluster or nodes of the program's own, the time.
 *
 * A failed check says what was called, the code and its meaning, and ends the program. That is enough
 * for an example; a server would clean up and go on.
 */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <iclaustron/ic_apid.h>

/* Ends the program unless a call returns 0. */
#define EX_CHECK(call) ex_check(#call, (call))

/* The cluster handle of the program: set by ex_connect before any other thread starts, never changed
 * until ex_disconnect, and so readable by all of them. */
static IC_APID_GLOBAL *ex_global;

/* Data nodes inside this program, if it has no others. */
static IC_EMBEDDED_CLUSTER *ex_nodes;

/* Says what failed, and ends the program. The error text is of the last connect or dictionary call. */
static inline void ex_fail(const char *what, int32_t code)
{
  const char *text = ex_global == NULL ? "" : ic_apid_global_error_text(ex_global);

  fprintf(stderr, "%s: error %d: %s\n", what, (int)code, ic_error_message(code));
  if (text != NULL && *text != '\0')
    fprintf(stderr, "  (%s)\n", text);
  exit(EXIT_FAILURE);
}

static inline void ex_check(const char *call, int32_t code)
{
  char name[64];

  if (code == 0)
    return;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(call, "("), call);
  ex_fail(name, code);
}

/* Starts data nodes inside this program, for a first run without a cluster. Their connectstring. */
static inline const char *ex_start_nodes(void)
{
  int32_t ret = ic_embedded_start(NULL, &ex_nodes);

  if (ret != 0) {
    fprintf(stderr, "%s\n", ic_embedded_error_text());
    ex_fail("ic_embedded_start", ret);
  }
  fprintf(stderr, "no connectstring and no NDB_CONNECTSTRING: running on 2 embedded data nodes, in memory\n");
  return ic_embedded_connectstring(ex_nodes);
}

/* Joins the cluster that a connectstring names; if that is NULL, the one of the environment variable
 * NDB_CONNECTSTRING; without either, embedded nodes. (To the library itself NULL means NDB_CONNECTSTRING, then
 * localhost:1186.) */
static inline IC_APID_GLOBAL *ex_connect(const char *connectstring)
{
  const char *variable = getenv("NDB_CONNECTSTRING");

  if (connectstring == NULL && (variable == NULL || *variable == '\0'))
    connectstring = ex_start_nodes();
  EX_CHECK(ic_apid_global_create(&ex_global));
  EX_CHECK(ic_apid_global_connect(ex_global, connectstring, NULL));
  return ex_global;
}

/* Leaves the cluster, and ends it if it is of embedded nodes. Its connections and tables must be freed before. */
static inline void ex_disconnect(void)
{
  EX_CHECK(ic_apid_global_free(ex_global));
  ex_global = NULL;
  EX_CHECK(ic_embedded_stop(ex_nodes)); /* NULL does nothing */
  ex_nodes = NULL;
}

/* Seconds since some moment in the past. */
static inline double ex_seconds(void)
{
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#endif
