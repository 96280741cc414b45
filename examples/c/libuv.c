/*
 * A connection in libuv's event loop: writes rows and reads them back, 1000 in flight.
 *
 *   libuv [CONNECTSTRING]
 *
 * Without a connectstring, and without NDB_CONNECTSTRING, it runs on data nodes inside itself.
 *
 * The connection's descriptor is a uv_poll_t of the loop; a uv_timer_t gives the ticks. Everything happens on
 * the loop's thread, and nothing of the library blocks it.
 */
#define _POSIX_C_SOURCE 200809L

#include <uv.h>

#include "work.h"

#define ROWS 20000

/* What the loop's handles know. */
struct example {
  struct work work;
  uv_poll_t replies;
  uv_timer_t timer;
  double began; /* when the phase did */
};

static void check_uv(const char *call, int result)
{
  if (result >= 0)
    return;
  fprintf(stderr, "%s: %s\n", call, uv_strerror(result));
  exit(EXIT_FAILURE);
}

static void start(struct example *e, bool reading)
{
  e->began = ex_seconds();
  work_start(&e->work, reading);
}

/* After each event: the phase may be over. Reading follows writing; after it the loop has nothing left. */
static void go_on(struct example *e)
{
  if (!work_is_over(&e->work))
    return;
  printf("%s: %d rows in %.2f s\n", e->work.reading ? "read" : "write", ROWS, ex_seconds() - e->began);
  if (!e->work.reading) {
    start(e, true);
    return;
  }
  uv_close((uv_handle_t *)&e->replies, NULL);
  uv_close((uv_handle_t *)&e->timer, NULL);
}

static void on_readable(uv_poll_t *replies, int status, int events)
{
  struct example *e = replies->data;

  (void)events;
  check_uv("uv_poll", status);
  work_take(&e->work);
  go_on(e);
}

static void on_tick(uv_timer_t *timer)
{
  struct example *e = timer->data;

  work_tick(&e->work);
  go_on(e);
}

int main(int argc, char **argv)
{
  static struct example e;
  IC_APID_GLOBAL *glob = ex_connect(argc > 1 ? argv[1] : NULL);
  uv_loop_t *loop = uv_default_loop();
  uint32_t failed;
  int fd;

  work_begin(&e.work, glob, ROWS);
  fd = ic_apid_conn_fd(e.work.conn);
  if (fd < 0)
    ex_fail("ic_apid_conn_fd", fd);
  e.replies.data = e.timer.data = &e;
  check_uv("uv_poll_init", uv_poll_init(loop, &e.replies, fd));
  check_uv("uv_poll_start", uv_poll_start(&e.replies, UV_READABLE, on_readable));
  check_uv("uv_timer_init", uv_timer_init(loop, &e.timer));
  check_uv("uv_timer_start", uv_timer_start(&e.timer, on_tick, WORK_TICK, WORK_TICK));

  start(&e, false);
  check_uv("uv_run", uv_run(loop, UV_RUN_DEFAULT));

  /* libuv has let go of the descriptor: now the connection may close it. */
  check_uv("uv_loop_close", uv_loop_close(loop));
  failed = work_end(&e.work);
  ex_disconnect();
  if (failed > 0)
    printf("%" PRIu32 " failed\n", failed);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
