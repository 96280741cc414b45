/*
 * A cluster handle is created, connected and destroyed a thousand times in one process: no thread, no open file and no
 * memory to speak of is left each time, and the last one works as the first.
 *
 *   again CONNECTSTRING
 */
#define _GNU_SOURCE

#include <dirent.h>
#include <malloc.h>

#include "test.h"

#define TIMES 1000

static int count(const char *path)
{
  DIR *dir = opendir(path);
  int entries = 0;

  CHECK(dir != NULL);
  while (readdir(dir) != NULL)
    entries++;
  closedir(dir);
  return entries;
}

static void once(int argc, char **argv, bool table)
{
  struct fixture f;
  IC_APID_CONNECTION *conn;

  if (table) {
    IC_QUERY_ID query;

    fixture_begin(&f, argc, argv, "c_again");
    query = new_query(&f);
    fill(f.conn, query, 1, 7);
    OK(ic_apid_conn_write_key_sync(f.conn, query, NULL, 10000));
    OK(ic_apid_conn_read_key_sync(f.conn, query, NULL, 10000));
    CHECK(row_of(f.conn, query)->value == 7);
    fixture_end(&f);
    return;
  }
  OK(ic_apid_global_create(&f.glob));
  fixture_must(&f, "connect", ic_apid_global_connect(f.glob, argv[1], NULL));
  OK(ic_apid_conn_create(f.glob, &conn));
  OK(ic_apid_conn_free(conn));
  fixture_must(&f, "free", ic_apid_global_free(f.glob));
}

int main(int argc, char **argv)
{
  int i, files, threads;
  size_t used;

  CHECK(argc > 1);
  for (i = 0; i < 10; i++)
    once(argc, argv, true);
  test_time_limit(280);
  files = count("/proc/self/fd");
  threads = count("/proc/self/task");
  used = mallinfo2().uordblks;
  for (i = 0; i < TIMES; i++)
    once(argc, argv, false);
  CHECK(count("/proc/self/fd") == files);
  CHECK(count("/proc/self/task") == threads);
  /* Less than 100 bytes each time: nothing grows with every handle. */
  fprintf(stderr, "%zu bytes before, %zu after\n", used, (size_t)mallinfo2().uordblks);
  CHECK(mallinfo2().uordblks < used + 100 * TIMES);
  once(argc, argv, true);
  return 0;
}
