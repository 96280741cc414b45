/*
 * The header needs no other before it, may come twice, and is both C and C++. Compiled, not run.
 */
#include <iclaustron/ic_apid.h>
#include <iclaustron/ic_apid.h>

/* The callbacks are plain function pointers, and may be null. */
static void callback(IC_APID_CONNECTION *conn, IC_QUERY_ID query, void *user_ref)
{
  (void)conn;
  (void)query;
  (void)user_ref;
}

int main(void)
{
  IC_QUERY_CALLBACK plain = callback;
  IC_WRITE_KEY_ARGS write_args;
  IC_READ_KEY_ARGS read_args;

  ic_write_key_args_init(&write_args, sizeof write_args);
  ic_read_key_args_init(&read_args, sizeof read_args);
  write_args.callback = plain;
  read_args.callback = 0;
  return ic_version() == (IC_VERSION_MAJOR << 16 | IC_VERSION_MINOR << 8 | IC_VERSION_PATCH)
           && write_args.callback != 0 && read_args.callback == 0
         ? 0 : 1;
}
