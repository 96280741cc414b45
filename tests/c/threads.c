/*
 * How many threads a cluster handle has: 4 and the receive threads, whatever the number of data nodes, and none
 * once it is freed.
 */
#define _DEFAULT_SOURCE

#include <dirent.h>

#include "test.h"

static int threads(void)
{
  DIR *tasks = opendir("/proc/self/task");
  struct dirent *task;
  int count = 0;

  CHECK(tasks != NULL);
  while ((task = readdir(tasks)) != NULL)
    count += task->d_name[0] != '.';
  closedir(tasks);
  return count;
}

static void joined_with(const char *nodes, uint32_t receive_threads)
{
  int before = threads();
  IC_APID_GLOBAL *glob;
  IC_APID_CONNECTION *conn;
  IC_CONNECT_ARGS args;

  ic_connect_args_init(&args, sizeof args);
  args.receive_threads = receive_threads;
  OK(ic_apid_global_create(&glob));
  OK(ic_apid_global_connect(glob, nodes, &args));
  CHECK_CODE(threads() - before, 4 + (int32_t)receive_threads);
  OK(ic_apid_conn_create(glob, &conn));
  CHECK(ic_apid_conn_fd(conn) >= 0);
  CHECK_CODE(threads() - before, 4 + (int32_t)receive_threads);
  OK(ic_apid_conn_free(conn));
  OK(ic_apid_global_free(glob));
  /* One that was joined may be listed for a moment after its end. */
  while (threads() > before)
    usleep(1000);
}

int main(int argc, char **argv)
{
  test_time_limit(60);
  CHECK(argc > 1);
  joined_with(argv[1], 1);
  joined_with(argv[1], 3);
  return 0;
}
