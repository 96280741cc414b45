/*
 * A connect that fails says at which step, with which host and port, and why; and it ends by its deadline,
 * whatever the other side does. With a connectstring as argument: also what a management server refuses.
 */
#define _GNU_SOURCE

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>

#include "test.h"

#define DEADLINE_MS 1000
/* So much later a connect may end that has to end by its deadline, on a busy machine. */
#define SLACK_MS 10000

static double now_ms(void)
{
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Tries to connect, and finds the code and each of the words in the error text. */
static void refused(const char *connectstring, uint32_t node_id, int32_t code, const char *const *words)
{
  IC_APID_GLOBAL *glob;
  IC_CONNECT_ARGS args;
  const char *text;
  double began = now_ms();
  int32_t ret;

  OK(ic_apid_global_create(&glob));
  ic_connect_args_init(&args, sizeof args);
  args.node_id = node_id;
  args.connect_ms = DEADLINE_MS;
  ret = ic_apid_global_connect(glob, connectstring, &args);
  text = ic_apid_global_error_text(glob);
  fprintf(stderr, "%.40s: %d: %s\n", connectstring, (int)ret, text);
  CHECK(now_ms() - began < DEADLINE_MS + SLACK_MS);
  CHECK_CODE(ret, code);
  CHECK_CODE(ic_error_class(ret), code == IC_ERROR_INVALID_ARGUMENT ? IC_ERROR_CLASS_USAGE : IC_ERROR_CLASS_CONNECT);
  for (; *words != NULL; words++)
    if (strstr(text, *words) == NULL)
      test_failed(__FILE__, __LINE__, *words);
  OK(ic_apid_global_free(glob));
}

/* A peer on the loopback that takes connections and answers whatever it is asked with a text, or not at all. */
struct peer {
  int listener;
  const char *answer;
  char connectstring[64];
  char port[16];
  pthread_t thread;
};

static void *serve(void *user_ref)
{
  struct peer *peer = user_ref;
  char asked[256];
  int fd;

  while ((fd = accept(peer->listener, NULL, NULL)) >= 0) {
    while (recv(fd, asked, sizeof asked, 0) > 0)
      if (peer->answer != NULL)
        (void)!send(fd, peer->answer, strlen(peer->answer), MSG_NOSIGNAL);
    close(fd);
  }
  return NULL;
}

static void peer_begin(struct peer *peer, const char *answer)
{
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;

  peer->answer = answer;
  peer->listener = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(peer->listener >= 0);
  CHECK(bind(peer->listener, (struct sockaddr *)&address, sizeof address) == 0);
  CHECK(listen(peer->listener, 8) == 0);
  CHECK(getsockname(peer->listener, (struct sockaddr *)&address, &length) == 0);
  snprintf(peer->port, sizeof peer->port, "%u", ntohs(address.sin_port));
  snprintf(peer->connectstring, sizeof peer->connectstring, "127.0.0.1:%s", peer->port);
  CHECK(pthread_create(&peer->thread, NULL, serve, peer) == 0);
}

static void peer_end(struct peer *peer)
{
  CHECK(shutdown(peer->listener, SHUT_RDWR) == 0);
  CHECK(pthread_join(peer->thread, NULL) == 0);
  close(peer->listener);
}

static void bad_connectstrings(void)
{
  static const char *const bad[] = {"nodeid=many", "127.0.0.1:port", "127.0.0.1:99999"};
  const char *const words[] = {"connectstring", NULL};
  size_t i;

  for (i = 0; i < sizeof bad / sizeof *bad; i++)
    refused(bad[i], 0, IC_ERROR_INVALID_ARGUMENT, words);
}

static void nobody_there(void)
{
  struct peer peer;

  /* A port that was free a moment ago. */
  peer_begin(&peer, NULL);
  peer_end(&peer);
  refused(peer.connectstring, 0, IC_ERROR_CONNECT_FAILED,
          (const char *const[]){"connect", "127.0.0.1", peer.port, "refused", NULL});
  refused("no-such-host.invalid:4711", 0, IC_ERROR_CONNECT_FAILED,
          (const char *const[]){"resolve", "no-such-host.invalid", "4711", NULL});
}

static void strange_peers(void)
{
  struct peer peer;

  peer_begin(&peer, "HTTP/1.1 400 Bad Request\r\n\r\n<html>\n\n");
  refused(peer.connectstring, 0, IC_ERROR_CONNECT_FAILED,
          (const char *const[]){"management session", "127.0.0.1", peer.port, "HTTP/1.1", NULL});
  peer_end(&peer);

  peer_begin(&peer, NULL);
  refused(peer.connectstring, 0, IC_ERROR_CONNECT_FAILED,
          (const char *const[]){"management session", "127.0.0.1", peer.port, NULL});
  peer_end(&peer);
}

int main(int argc, char **argv)
{
  test_time_limit(120);
  if (argc > 1) {
    /* Only as many ids are configured as there are nodes. */
    refused(argv[1], 200, IC_ERROR_NO_NODE_ID, (const char *const[]){"node id", argv[1], "200", NULL});
    return 0;
  }
  bad_connectstrings();
  nobody_there();
  strange_peers();
  return 0;
}
