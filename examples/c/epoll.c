/*
 * A connection in an event loop of one's own: writes rows and reads them back, 1000 in flight.
 *
 *   epoll [CONNECTSTRING]
 *
 * Without a connectstring, and without NDB_CONNECTSTRING, it runs on data nodes inside itself.
 *
 * The loop waits in epoll_wait for two things: the connection's descriptor, which is readable while there is
 * something to take, and a timer. The library never blocks here: polls wait for nothing. A server would
 * have its clients' sockets in the same loop.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "work.h"

#define ROWS 20000

static void check_system(const char *call, int result)
{
  if (result >= 0)
    return;
  perror(call);
  exit(EXIT_FAILURE);
}

/* Has the loop wait for a descriptor to become readable. */
static void watch(int loop, int fd)
{
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

  check_system("epoll_ctl", epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event));
}

static int make_timer(void)
{
  const struct itimerspec every_tick = {{0, WORK_TICK * 1000000}, {0, WORK_TICK * 1000000}};
  int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

  check_system("timerfd_create", timer);
  check_system("timerfd_settime", timerfd_settime(timer, 0, &every_tick, NULL));
  return timer;
}

/* Runs a phase: the loop itself. */
static void run(struct work *w, bool reading, int loop, int replies, int timer)
{
  double began = ex_seconds();
  uint32_t takes = 0;

  work_start(w, reading);
  while (!work_is_over(w)) {
    struct epoll_event events[2];
    int count = epoll_wait(loop, events, 2, -1), i;

    if (count < 0 && errno == EINTR)
      continue;
    check_system("epoll_wait", count);
    for (i = 0; i < count; i++) {
      if (events[i].data.fd == replies) {
        work_take(w);
        takes++;
      } else {
        uint64_t ticks;
        if (read(timer, &ticks, sizeof ticks) == sizeof ticks)
          work_tick(w);
      }
    }
  }
  printf("%s: %d rows in %.2f s, %.1f each time the descriptor was readable\n", reading ? "read" : "write", ROWS,
         ex_seconds() - began, (double)ROWS / (takes > 0 ? takes : 1));
}

int main(int argc, char **argv)
{
  static struct work w;
  IC_APID_GLOBAL *glob = ex_connect(argc > 1 ? argv[1] : NULL);
  int loop = epoll_create1(EPOLL_CLOEXEC), timer = make_timer(), replies;
  uint32_t failed;

  check_system("epoll_create1", loop);
  work_begin(&w, glob, ROWS);
  replies = ic_apid_conn_fd(w.conn);
  if (replies < 0)
    ex_fail("ic_apid_conn_fd", replies);
  watch(loop, replies);
  watch(loop, timer);

  run(&w, false, loop, replies, timer);
  run(&w, true, loop, replies, timer);

  /* The descriptor leaves the loop before its connection closes it. */
  check_system("epoll_ctl", epoll_ctl(loop, EPOLL_CTL_DEL, replies, NULL));
  failed = work_end(&w);
  close(timer);
  close(loop);
  ex_disconnect();
  if (failed > 0)
    printf("%" PRIu32 " failed\n", failed);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
