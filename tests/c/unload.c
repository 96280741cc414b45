/*
 * The library is loaded at run time, used, and unloaded again, several times; the program lives on, forks and exits.
 * Nothing of it is left: no thread, no open file.
 *
 *   unload LIBRARY CONNECTSTRING
 */
#define _GNU_SOURCE

#include <dirent.h>
#include <dlfcn.h>
#include <sys/wait.h>

#include <iclaustron/ic_apid.h>

/* The checks name codes: without the library, by its number. */
static const char *no_message(int code)
{
  (void)code;
  return "";
}
#define ic_error_message no_message
#define TEST_NO_FIXTURE
#include "test.h"
#undef ic_error_message

/* A function of the library, with the type that the header gives it. */
#define FUNCTION(name) __typeof__(&name) name##_ = (__typeof__(&name))find(library, #name)

static void *find(void *library, const char *name)
{
  void *found = dlsym(library, name);

  CHECK(found != NULL);
  return found;
}

/* Entries of a directory of /proc/self, its own one among them. */
static int count(const char *path)
{
  DIR *dir = opendir(path);
  struct dirent *entry;
  int entries = 0;

  CHECK(dir != NULL);
  while ((entry = readdir(dir)) != NULL)
    entries += entry->d_name[0] != '.';
  closedir(dir);
  return entries;
}

static void use(void *library, const char *connectstring)
{
  FUNCTION(ic_apid_global_create);
  FUNCTION(ic_apid_global_connect);
  FUNCTION(ic_apid_global_free);
  FUNCTION(ic_apid_global_error_text);
  FUNCTION(ic_apid_conn_create);
  FUNCTION(ic_apid_conn_poll);
  FUNCTION(ic_apid_conn_free);
  IC_APID_GLOBAL *glob;
  IC_APID_CONNECTION *conn;
  int32_t code;

  OK(ic_apid_global_create_(&glob));
  code = ic_apid_global_connect_(glob, connectstring, NULL);
  if (code != 0)
    fprintf(stderr, "%s\n", ic_apid_global_error_text_(glob));
  CHECK(code == 0);
  OK(ic_apid_conn_create_(glob, &conn));
  OK(ic_apid_conn_poll_(conn, 1, NULL));
  OK(ic_apid_conn_free_(conn));
  OK(ic_apid_global_free_(glob));
}

int main(int argc, char **argv)
{
  int files, threads, i, status;
  pid_t pid;

  test_time_limit(120);
  CHECK(argc > 2);
  files = count("/proc/self/fd");
  threads = count("/proc/self/task");
  for (i = 0; i < 5; i++) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);

    if (library == NULL)
      fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    use(library, argv[2]);
    CHECK(count("/proc/self/task") == threads);
    CHECK(dlclose(library) == 0);
    CHECK(count("/proc/self/fd") == files);
    /* What the library has asked to be called in children is not called any more, or still there. */
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
      _exit(42);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 42);
  }
  return 0;
}
