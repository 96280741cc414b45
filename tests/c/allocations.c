/*
 * Once warm, reads and writes allocate nothing: neither the thread that uses the connection nor any thread of
 * the library. The C library's allocator is replaced by one that counts, for the whole process.
 */
#define _GNU_SOURCE

#include <stdatomic.h>

#include "test.h"

#ifndef __GLIBC__
#error "this test knows how to count the calls of glibc's allocator only"
#endif

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

static atomic_ulong calls;

static void counted(void)
{
  atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
}

void *malloc(size_t size)
{
  counted();
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
  counted();
  return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
  counted();
  return __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
  counted();
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
  counted();
  *block = __libc_memalign(alignment, size);
  return *block == NULL ? 12 : 0;
}

void free(void *block)
{
  if (block != NULL)
    counted();
  __libc_free(block);
}

#define IN_FLIGHT 32
#define ROWS 1000
#define OPERATIONS 10000
#define MAX_ROUNDS 20

struct slot {
  struct fixture *f;
  IC_QUERY_ID query;
  IC_TRANS_ID trans;
};

static struct slot slots[IN_FLIGHT];
static bool writing;
static uint32_t started, done, wanted;

static void start_next(struct slot *s);

static void on_done(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref)
{
  struct slot *s = user_ref;

  OK(ic_apid_query_error(conn, query));
  OK(ic_apid_conn_close_transaction(conn, s->trans));
  done++;
  start_next(s);
}

static void start_next(struct slot *s)
{
  if (started == wanted)
    return;
  fill(s->f->conn, s->query, started % ROWS, started);
  started++;
  s->trans = start(s->f, s->query);
  if (writing)
    write_row(s->f, s->query, s->trans, on_done, s);
  else
    read_row(s->f, s->query, s->trans, on_done, s);
  OK(ic_apid_conn_commit_transaction(s->f->conn, s->trans));
}

static void run(struct fixture *f, bool writes, uint32_t operations)
{
  int i;

  writing = writes;
  started = done = 0;
  wanted = operations;
  for (i = 0; i < IN_FLIGHT; i++)
    start_next(&slots[i]);
  while (done < wanted)
    OK(ic_apid_conn_flush(f->conn, 10, false, NULL));
}

/* That the counter counts what the library does, or its silence would mean nothing. */
static void counter_works(struct fixture *f)
{
  unsigned long before = atomic_load(&calls);

  OK(ic_apid_query_free(f->conn, new_query(f)));
  CHECK(atomic_load(&calls) > before);
}

/* How often the allocator is called in so many writes and reads. */
static unsigned long count_round(struct fixture *f)
{
  unsigned long before = atomic_load(&calls);

  run(f, true, OPERATIONS);
  run(f, false, OPERATIONS);
  return atomic_load(&calls) - before;
}

int main(int argc, char **argv)
{
  struct fixture f;
  unsigned long counted_calls;
  int i, rounds = 0;

  fixture_begin(&f, argc, argv, "c_allocations");
  counter_works(&f);
  for (i = 0; i < IN_FLIGHT; i++) {
    slots[i].f = &f;
    slots[i].query = new_query(&f);
  }
  /* Buffers are as many and as large as the worst moment so far has needed: when that comes is up to the
   * scheduler, so there is no telling when all is warm. But then a whole round is without a call, and one call
   * in 20000 operations is enough to spoil a round. */
  do {
    counted_calls = count_round(&f);
    fprintf(stderr, "round %d: the allocator was called %lu times in %d writes and %d reads\n", ++rounds,
            counted_calls, OPERATIONS, OPERATIONS);
  } while (counted_calls > 0 && rounds < MAX_ROUNDS);
  CHECK(counted_calls == 0);
  fixture_end(&f);
  return 0;
}
