/*
 * A line that shows how far a phase is, if somebody watches: standard error is a terminal. Any thread may
 * report; whoever does so when a new line is due prints it.
 */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <inttypes.h>
#include <pthread.h>
#include <unistd.h>

#include "example.h"

struct progress {
  pthread_mutex_t lock;
  const char *phase;
  uint64_t total;
  uint64_t done;
  double printed; /* when the last line was */
};

static struct progress progress = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A new phase begins. No other thread reports now. */
static inline void progress_start(const char *phase, uint64_t total)
{
  progress.phase = phase;
  progress.total = total;
  progress.done = 0;
  progress.printed = 0;
}

/* So many more rows are done. */
static inline void progress_add(uint64_t rows)
{
  double now = ex_seconds();

  if (!isatty(STDERR_FILENO))
    return;
  pthread_mutex_lock(&progress.lock);
  progress.done += rows;
  if (now - progress.printed >= 0.1 || progress.done == progress.total) {
    fprintf(stderr, "\r%s: %" PRIu64 " of %" PRIu64 " rows, %d%%%s", progress.phase, progress.done,
            progress.total, (int)(100 * progress.done / progress.total),
            progress.done == progress.total ? "\n" : "");
    progress.printed = now;
  }
  pthread_mutex_unlock(&progress.lock);
}

#endif
