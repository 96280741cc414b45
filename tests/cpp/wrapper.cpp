/*
 * The C++ classes: what they throw and what they return, callbacks that are lambdas, and owners that go in any order,
 * in flight and in callbacks too. Runs on embedded nodes of its own.
 */
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unistd.h>

#include <iclaustron/iclaustron.hpp>

namespace ic = iclaustron;
using namespace std::chrono_literals;

#define CHECK(condition)                                                                                    \
  do {                                                                                                      \
    if (!(condition)) {                                                                                     \
      std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                          \
      std::_Exit(1);                                                                                        \
    }                                                                                                       \
  } while (0)

template <class T>
constexpr bool moves_only = std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
                            !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(moves_only<ic::query> && moves_only<ic::transaction> && moves_only<ic::table>);
static_assert(moves_only<ic::record> && moves_only<ic::embedded_nodes>);
static_assert(std::is_nothrow_move_constructible_v<ic::cluster> && std::is_nothrow_move_constructible_v<ic::connection>);

struct pair {
  uint32_t id;
  uint64_t value;
};

static const std::vector<IC_RECORD_FIELD> fields = {
  ic::field("id", offsetof(pair, id)),
  ic::field("value", offsetof(pair, value)),
};

/* What most of the tests need. */
struct fixture {
  ic::cluster cluster;
  ic::table table;
  ic::record rec;
  ic::connection conn;

  explicit fixture(const std::string &nodes)
    : cluster(nodes), table(cluster.open_table("test", "cpp")), rec(table, fields, sizeof(pair)),
      conn(cluster.connect())
  {
  }
  ic::query query(uint32_t id, uint64_t value)
  {
    ic::query q = conn.make_query(table, rec, rec);
    *q.key<pair>() = pair{id, 0};
    *q.attr<pair>() = pair{id, value};
    return q;
  }
  ic::transaction start(ic::query_ref q)
  {
    ic::transaction t;
    conn.start(t, table, rec, q).or_throw("start");
    return t;
  }
  /* A write that commits with its query. */
  ic::transaction write(ic::query_ref q, int32_t kind = IC_WRITE_KIND_WRITE)
  {
    ic::transaction t = start(q);
    conn.write(q, t, kind).or_throw("write");
    t.commit().or_throw("commit");
    return t;
  }
  void drain()
  {
    do
      conn.flush(100ms);
    while (conn.stats().in_flight > 0);
  }
};

template <class Function> static ic::error thrown_by(Function &&function)
{
  try {
    function();
  } catch (const ic::error &e) {
    return e;
  }
  CHECK(!"nothing was thrown");
}

static void failures_are_thrown_with_what_is_known(const std::string &nodes)
{
  ic::cluster cluster(nodes);
  CHECK(cluster.node_count() == 2);
  ic::error missing = thrown_by([&] { cluster.open_table("test", "no_such"); });
  CHECK(missing.code() == 723 && std::strstr(missing.what(), "no_such") != nullptr);
  CHECK(!missing.is_temporary() && !missing.is_unknown_result());

  IC_CONNECT_ARGS args;
  ic_connect_args_init(&args, sizeof args);
  args.connect_ms = 200;
  ic::error nobody = thrown_by([&] { ic::cluster("127.0.0.1:1", &args); });
  CHECK(nobody.code() == IC_ERROR_CONNECT_FAILED && std::strstr(nobody.what(), "127.0.0.1") != nullptr);

  ic::table table = cluster.open_table("test", "cpp");
  CHECK(table.column_count() == 2 && std::strcmp(table.column(1).name, "value") == 0);
  ic::error column = thrown_by([&] { ic::record(table, {ic::field("nothing", 0)}, 4); });
  CHECK(column.code() == IC_ERROR_NO_SUCH_COLUMN && std::strstr(column.what(), "nothing") != nullptr);
}

static void rows_go_and_come_back(fixture &f)
{
  ic::query q = f.query(1, 42);
  CHECK(f.conn.write_sync(q, 10s));
  q.attr<pair>()->value = 0;
  CHECK(f.conn.read_sync(q, 10s) && q.attr<pair>()->value == 42);
  ic::result exists = f.conn.write_sync(q, 10s, IC_WRITE_KIND_INSERT);
  CHECK(!exists && exists.code() == 630 && !exists.is_temporary() && exists.message() != nullptr);
  CHECK(q.outcome().code() == 630 && q.explain().find("630") != std::string::npos);
  CHECK(thrown_by([&] { exists.or_throw("insert"); }).code() == 630);
  CHECK(thrown_by([&] { q.key<uint32_t>(); }).code() == IC_ERROR_ROW_LENGTH);

  ic::query remove = f.conn.make_query(f.table, f.rec);
  remove.key<pair>()->id = 1;
  CHECK(remove.attr<pair>() == nullptr);
  CHECK(f.conn.write_sync(remove, 10s, IC_WRITE_KIND_DELETE));
  CHECK(f.conn.read_sync(q, 10s).code() == 626);
  CHECK(ic::record::natural(f.table).row_size() == sizeof(pair));
}

static void lambdas_are_called_once_per_definition(fixture &f)
{
  constexpr uint32_t count = 500;
  std::vector<ic::query> queries;
  std::vector<ic::transaction> open(count);
  uint32_t done = 0;
  for (uint32_t i = 0; i < count; i++) {
    queries.push_back(f.query(i, i * 3));
    auto only_moves = std::make_unique<uint32_t>(i);
    queries.back().on_complete([&, i = std::move(only_moves)](ic::query_ref q) {
      CHECK(q.outcome() && q.key<pair>()->id == *i);
      open[*i].close();
      done++;
    });
    open[i] = f.write(queries.back());
    CHECK(queries.back().attr<pair>() == nullptr);
  }
  queries.reserve(2 * count); /* they move, their callbacks stay */
  f.drain();
  CHECK(done == count);
  CHECK(!f.conn.next_executed());

  /* Without a callback: the executed list. */
  ic::query listed = f.query(7, 0);
  ic::transaction t = f.start(listed);
  CHECK(f.conn.read(listed, t) && t.commit());
  f.drain();
  std::optional<ic::query_ref> taken = f.conn.next_executed();
  CHECK(taken && *taken == listed && taken->outcome() && taken->attr<pair>()->value == 21);
  CHECK(!f.conn.next_executed() && t.state() == IC_TRANS_STATE_COMMITTED && t.outcome());
}

static void what_callbacks_throw_comes_out_of_the_poll(fixture &f)
{
  ic::query bad = f.query(1000, 1), good = f.query(1001, 1);
  uint32_t called = 0;
  bad.on_complete([&](ic::query_ref) { called++, throw std::runtime_error("from a callback"); });
  good.on_complete([&](ic::query_ref) { called++; });
  ic::transaction a = f.write(bad), b = f.write(good);
  uint32_t caught = 0;
  while (called < 2 || caught < 1) {
    try {
      f.conn.flush(100ms);
    } catch (const std::runtime_error &e) {
      CHECK(std::string(e.what()) == "from a callback");
      caught++;
    }
  }
  f.drain(); /* and it is thrown once */
  CHECK(caught == 1);
}

static void queries_may_go_in_flight_and_in_their_callback(fixture &f)
{
  bool called = false;
  auto witness = std::make_shared<int>(0);
  {
    ic::query q = f.query(2000, 5);
    q.on_complete([&, witness](ic::query_ref) { called = true; });
    ic::transaction t = f.write(q);
    f.conn.send();
    CHECK(witness.use_count() == 2);
  }
  f.drain();
  CHECK(!called && witness.use_count() == 1);

  auto q = std::make_unique<ic::query>(f.query(2000, 0));
  q->on_complete([&, witness](ic::query_ref) {
    called = true;
    q.reset();
    CHECK(witness.use_count() == 2); /* still running */
  });
  ic::transaction t = f.write(*q);
  f.drain();
  CHECK(called && !q && witness.use_count() == 1);

  /* On the executed list, whose owner is gone. */
  {
    ic::query gone = f.query(2001, 0);
    ic::transaction of_gone = f.write(gone);
  }
  f.drain();
  CHECK(!f.conn.next_executed());

  ic::query moved = f.query(2002, 1);
  moved = f.query(2003, 2);
  CHECK(f.conn.write_sync(moved, 10s) && moved.key<pair>()->id == 2003);
}

static void owners_go_in_any_order(const std::string &nodes)
{
  auto f = std::make_unique<fixture>(nodes);
  ic::query q = f->query(3000, 9);
  bool called = false;
  q.on_complete([&](ic::query_ref) { called = true; });
  {
    ic::transaction t = f->write(q);
    f->conn.send();
  }
  f.reset(); /* the query keeps its connection, which keeps its cluster */
  CHECK(!called);
  ic::query other = std::move(q);
  CHECK(!called);
}

static void hints_of_many_keys(fixture &f)
{
  std::vector<pair> rows;
  for (uint32_t id = 0; id < 20; id++)
    rows.push_back(pair{id, 0});
  auto bytes = [&](size_t at) { return reinterpret_cast<const uint8_t *>(&rows[at]); };
  std::vector<uint32_t> hints(rows.size());
  CHECK(f.conn.hints(f.table, f.rec, bytes(0), sizeof(pair), hints.data(), hints.size()));
  for (size_t at = 0; at < rows.size(); at++)
    CHECK(hints[at] == ic_apid_conn_hint_for_key(f.conn.get(), f.table.get(), f.rec.get(), bytes(at), sizeof(pair)));
  CHECK(f.conn.hints(f.table, f.rec, bytes(0), 1, hints.data(), 1).code() == IC_ERROR_ROW_LENGTH);
}

static void many_keys_in_one_read(fixture &f)
{
  std::vector<ic::query> queries;
  for (uint32_t id : {10u, 11u, 99999u, 10u})
    queries.push_back(f.query(id, 0));
  std::vector<ic::query_ref> keys(queries.begin(), queries.end());
  bool called = false;
  ic::result started = f.conn.multi_read(keys, [&](ic::multi_read_ref read) {
    CHECK(read.outcome() && read.found() == 3);
    CHECK(read.state(0) == IC_KEY_STATE_FOUND && read.state(2) == IC_KEY_STATE_MISSING);
    CHECK(read.outcome(2).code() == 626);
    called = true;
  });
  CHECK(started);
  CHECK(f.conn.multi_read(keys, [](ic::multi_read_ref) {}).code() == IC_ERROR_QUERY_NOT_IDLE);
  while (!called)
    f.conn.flush(100ms);
  CHECK(queries[1].attr<pair>()->value == 33 && queries[3].attr<pair>()->value == 30);
}

static void transactions_end_as_they_should(fixture &f)
{
  ic::query q = f.query(4000, 1);
  {
    ic::transaction t = f.start(q);
    CHECK(t && f.conn.write(q, t) && t.set_deadline(5s));
  } /* given up */
  f.drain();
  while (f.conn.next_executed()) {
  }
  CHECK(f.conn.read_sync(q, 10s).code() == 626);
  ic::transaction none;
  CHECK(!none && none.commit().code() != 0);

  ic::retry retry;
  CHECK(retry.next(ic::result(266)).first == IC_RETRY_AGAIN);
  CHECK(retry.next(ic::result(4012)).first == IC_RETRY_FIND_OUT);
  CHECK(retry.next(ic::result(626)).first == IC_RETRY_STOP);
}

static void settings_and_figures(fixture &f)
{
  CHECK(f.conn.fd() >= 0 && f.conn.fd() == f.conn.fd());
  f.conn.set_poll_min(2);
  f.conn.set_poll_min(1);
  f.conn.set_deadline(10s);
  f.conn.set_max_in_flight(1);
  ic::query a = f.query(1, 1), b = f.query(2, 1);
  ic::transaction first = f.start(a), second = f.start(b);
  CHECK(f.conn.write(a, first));
  ic::result refused = f.conn.write(b, second);
  CHECK(refused.code() == IC_ERROR_TOO_MANY_IN_FLIGHT && refused.is_temporary());
  first.close();
  f.drain();
  f.conn.set_max_in_flight(0);
  CHECK(f.cluster.stats().defined >= f.conn.stats().defined && f.conn.stats().refused == 1);
}

int main()
{
  alarm(120);
  ic::embedded_nodes nodes;
  std::string address = nodes.connectstring();
  {
    ic::cluster cluster(address);
    cluster.wait_usable(0, 10s);
    cluster.create_table("test", "cpp", {ic::column("id", IC_TYPE_UNSIGNED, IC_COLUMN_PRIMARY_KEY),
                                         ic::column("value", IC_TYPE_BIGUNSIGNED)});
  }
  failures_are_thrown_with_what_is_known(address);
  {
    fixture f(address);
    rows_go_and_come_back(f);
    lambdas_are_called_once_per_definition(f);
    what_callbacks_throw_comes_out_of_the_poll(f);
    queries_may_go_in_flight_and_in_their_callback(f);
    hints_of_many_keys(f);
    many_keys_in_one_read(f);
    transactions_end_as_they_should(f);
    settings_and_figures(f);
  }
  owners_go_in_any_order(address);
  {
    ic::cluster cluster(address);
    cluster.drop_table("test", "cpp");
    cluster.disconnect();
    ic::error off = thrown_by([&] { cluster.open_table("test", "cpp"); });
    CHECK(off.code() == IC_ERROR_NOT_CONNECTED);
  }
  return 0;
}
