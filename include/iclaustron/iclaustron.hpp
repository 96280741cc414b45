/*
 * libiclaustron for C++17: ic_apid.h with owners that free what they own, and lambdas as callbacks. Header only.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Owners can be moved, not copied, and be destroyed in any order: what depends on a cluster or a connection keeps
 * it alive. The exception is a transaction, which must be gone before its connection (it costs nothing but its two words).
 *
 * Errors, by what a caller can do about them:
 * - What has no sensible next line throws iclaustron::error: connecting, opening, creating, and a connection that
 *   cannot be used any more. Constructors that have returned have made a usable object.
 * - What is a part of every asynchronous program is a value, iclaustron::result, which must be looked at: the outcome of an
 *   operation, and a definition that is refused because too much is in flight. On the way of an operation nothing
 *   throws and nothing is allocated.
 *
 * A callback may throw: the exception waits, the other callbacks run, and then poll or flush throws it. (It must not
 * pass through the library.) What is thrown while a connection is destroyed is lost.
 *
 * The raw handles are at hand, get() and id(), for the calls of ic_apid.h that have no form here.
 */
#ifndef ICLAUSTRON_HPP
#define ICLAUSTRON_HPP

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <iclaustron/ic_apid.h>

namespace iclaustron {

using std::chrono::milliseconds;

/** A failure that was thrown: its code, and a text for a person. */
class error : public std::runtime_error {
public:
  error(const std::string &text, int32_t code) : std::runtime_error(text), code_(code) {}

  int32_t code() const noexcept { return code_; }
  bool is_temporary() const noexcept { return ic_error_is_temporary(code_); }
  bool is_unknown_result() const noexcept { return ic_error_is_unknown_result(code_); }

private:
  int32_t code_;
};

/** The outcome of a call or an operation: 0, a code of the data nodes, or one of the library. */
class [[nodiscard]] result {
public:
  constexpr result() noexcept = default;
  constexpr explicit result(int32_t code) noexcept : code_(code) {}

  constexpr explicit operator bool() const noexcept { return code_ == 0; }
  constexpr int32_t code() const noexcept { return code_; }
  bool is_temporary() const noexcept { return ic_error_is_temporary(code_); }
  bool is_unknown_result() const noexcept { return ic_error_is_unknown_result(code_); }
  const char *message() const noexcept { return ic_error_message(code_); }
  const char *advice() const noexcept { return ic_error_advice(code_); }

  /** Throws unless it is 0. */
  void or_throw(const char *what = "iclaustron") const
  {
    if (code_ != 0)
      throw error(std::string(what) + ": error " + std::to_string(code_) + ": " + message(), code_);
  }

private:
  int32_t code_ = 0;
};

namespace detail {

/* Milliseconds as the library takes them. */
inline uint32_t count(milliseconds time) noexcept
{
  constexpr milliseconds::rep most = UINT32_MAX;
  return static_cast<uint32_t>(std::clamp<milliseconds::rep>(time.count(), 0, most));
}

/* A cluster handle, shared by all that need it alive. */
struct global {
  IC_APID_GLOBAL *raw = nullptr;

  global() { result(ic_apid_global_create(&raw)).or_throw("creating a cluster handle"); }
  global(const global &) = delete;
  global &operator=(const global &) = delete;
  ~global() { ic_apid_global_free(raw); }

  /* Throws what the handle says about its last call. */
  void check(int32_t code, const std::string &what) const
  {
    if (code == 0)
      return;
    const char *text = ic_apid_global_error_text(raw);
    std::string said = what + ": error " + std::to_string(code) + ": " + ic_error_message(code);
    throw error(text != nullptr && *text != '\0' ? said + " (" + text + ")" : said, code);
  }
};

struct close_table {
  void operator()(IC_TABLE_DEF *table) const noexcept { ic_apid_table_close(table); }
};
struct free_record {
  void operator()(IC_RECORD *record) const noexcept { ic_record_free(record); }
};

/* A lambda of any type, also one that can only be moved. */
template <class Argument> struct callable {
  virtual ~callable() = default;
  virtual void run(Argument argument) = 0;
};
template <class Argument, class Function> struct callable_of final : callable<Argument> {
  Function function;

  explicit callable_of(Function &&f) : function(std::move(f)) {}
  explicit callable_of(const Function &f) : function(f) {}
  void run(Argument argument) override { std::invoke(function, argument); }
};
template <class Argument, class Function> std::unique_ptr<callable<Argument>> make_callable(Function &&function)
{
  using plain = std::decay_t<Function>;
  return std::make_unique<callable_of<Argument, plain>>(std::forward<Function>(function));
}

struct query_state;
struct multi_read_state;

/* A connection with what must live as long as its callbacks can run. */
struct conn_state {
  std::shared_ptr<global> cluster; /* freed after the connection */
  IC_APID_CONNECTION *raw = nullptr;
  std::vector<std::unique_ptr<query_state>> queries;
  std::vector<std::unique_ptr<multi_read_state>> multi_reads; /* those that are out */
  std::exception_ptr thrown;                                  /* by a callback */

  explicit conn_state(std::shared_ptr<global> of) : cluster(std::move(of))
  {
    cluster->check(ic_apid_conn_create(cluster->raw, &raw), "creating a connection");
  }
  conn_state(const conn_state &) = delete;
  conn_state &operator=(const conn_state &) = delete;
  ~conn_state(); /* runs callbacks that are due */

  void keep_exception() noexcept
  {
    if (!thrown)
      thrown = std::current_exception();
  }
  /* After a poll: what a callback threw, then what the poll itself says. */
  void settle(int32_t code)
  {
    if (thrown)
      std::rethrow_exception(std::exchange(thrown, nullptr));
    result(code).or_throw("using a connection");
  }
};

/* Takes an element that knows its place out of a vector. */
template <class State> void erase(std::vector<std::unique_ptr<State>> &all, State *state) noexcept
{
  std::size_t place = state->place;
  std::swap(all[place], all.back());
  all[place]->place = place;
  all.pop_back();
}

} // namespace detail

/** A query that somebody else owns: what callbacks get, and the executed list gives. */
class query_ref {
public:
  /** The error of its last completion. */
  result outcome() const noexcept;
  /** Its rows; NULL while it is in flight. Row must have the size of the record's row. */
  template <class Row> Row *key() const { return row_as<Row>(&ic_apid_query_key_row); }
  template <class Row> Row *attr() const { return row_as<Row>(&ic_apid_query_attr_row); }
  /** The last completion in a line for a person. */
  std::string explain() const;
  IC_QUERY_ID id() const noexcept;

  friend bool operator==(query_ref a, query_ref b) noexcept { return a.state_ == b.state_; }
  friend bool operator!=(query_ref a, query_ref b) noexcept { return !(a == b); }

protected:
  friend class connection;
  friend struct detail::query_state;
  explicit query_ref(detail::query_state *state) noexcept : state_(state) {}

  template <class Row> Row *row_as(uint8_t *(*row)(IC_APID_CONNECTION *, IC_QUERY_ID, uint32_t *)) const
  {
    static_assert(std::is_trivially_copyable_v<Row>, "rows are bytes");
    uint32_t length = 0;
    uint8_t *bytes = row(connection_handle(), id(), &length);
    if (bytes != nullptr && length != sizeof(Row))
      throw error("a row of " + std::to_string(length) + " bytes is no such struct", IC_ERROR_ROW_LENGTH);
    return reinterpret_cast<Row *>(bytes);
  }
  IC_APID_CONNECTION *connection_handle() const noexcept;

  detail::query_state *state_;
};

namespace detail {

struct query_state {
  conn_state *conn;
  IC_QUERY_ID id = 0;
  std::size_t place = 0;
  std::unique_ptr<callable<query_ref>> callback; /* none: the executed list */
  bool running = false;                          /* its callback is */
  bool abandoned = false;                        /* its owner went while it was in flight */

  explicit query_state(conn_state *of) : conn(of) {}

  /* Frees the query and this, or does so as soon as it is complete. */
  void give_up() noexcept
  {
    abandoned = true;
    if (!running && ic_apid_query_free(conn->raw, id) == 0)
      erase(conn->queries, this);
  }

  static void on_complete(IC_APID_CONNECTION *, uint64_t, void *user_ref) noexcept
  {
    auto *self = static_cast<query_state *>(user_ref);
    if (!self->abandoned && self->callback) {
      self->running = true;
      try {
        self->callback->run(query_ref(self));
      } catch (...) {
        self->conn->keep_exception();
      }
      self->running = false;
    }
    if (self->abandoned)
      self->give_up();
  }
};

} // namespace detail

inline IC_APID_CONNECTION *query_ref::connection_handle() const noexcept
{
  return state_->conn->raw;
}
inline IC_QUERY_ID query_ref::id() const noexcept
{
  return state_->id;
}
inline result query_ref::outcome() const noexcept
{
  return result(ic_apid_query_error(connection_handle(), id()));
}
inline std::string query_ref::explain() const
{
  char line[512];
  return ic_apid_query_explain(connection_handle(), id(), line, sizeof line) < 0 ? std::string() : std::string(line);
}

/** A query: one operation that is defined, sent and completed again and again, with rows of its own. One that is destroyed
 *  in flight completes without its callback. */
class query : public query_ref {
public:
  query(query &&other) noexcept
    : query_ref(std::exchange(other.state_, nullptr)), conn_(std::move(other.conn_))
  {
  }
  query &operator=(query &&other) noexcept
  {
    std::swap(state_, other.state_);
    std::swap(conn_, other.conn_);
    return *this;
  }
  ~query()
  {
    if (state_ != nullptr)
      state_->give_up();
  }

  /** Called with a query_ref at each completion from now on, inside poll or flush. Not to be changed in flight or in
   *  itself. Without one, completed queries wait on the executed list. */
  template <class Function> void on_complete(Function &&function)
  {
    state_->callback = detail::make_callable<query_ref>(std::forward<Function>(function));
  }

private:
  friend class connection;
  query(std::shared_ptr<detail::conn_state> conn, detail::query_state *state) noexcept
    : query_ref(state), conn_(std::move(conn))
  {
  }

  std::shared_ptr<detail::conn_state> conn_;
};

/** A multi-key read that is complete: what its callback gets. Keys are numbered as in the call. */
class multi_read_ref {
public:
  result outcome() const noexcept { return result(ic_apid_multi_read_error(conn_, id_)); }
  uint32_t found() const noexcept { return ic_apid_multi_read_found(conn_, id_); }
  /** One of IC_KEY_STATE_*. */
  int32_t state(uint32_t key) const noexcept { return ic_apid_multi_read_key_state(conn_, id_, key); }
  result outcome(uint32_t key) const noexcept { return result(ic_apid_multi_read_key_error(conn_, id_, key)); }
  IC_MULTI_READ_ID id() const noexcept { return id_; }

private:
  friend struct detail::multi_read_state;
  multi_read_ref(IC_APID_CONNECTION *conn, IC_MULTI_READ_ID id) noexcept : conn_(conn), id_(id) {}

  IC_APID_CONNECTION *conn_;
  IC_MULTI_READ_ID id_;
};

namespace detail {

struct multi_read_state {
  conn_state *conn;
  std::size_t place = 0;
  std::unique_ptr<callable<multi_read_ref>> callback;

  static void on_complete(IC_APID_CONNECTION *raw, uint64_t id, void *user_ref) noexcept
  {
    auto *self = static_cast<multi_read_state *>(user_ref);
    try {
      self->callback->run(multi_read_ref(raw, id));
    } catch (...) {
      self->conn->keep_exception();
    }
    erase(self->conn->multi_reads, self);
  }
};

inline conn_state::~conn_state()
{
  ic_apid_conn_free(raw);
}

} // namespace detail

/** A table's definition as it was when the table was opened. */
class table {
public:
  IC_TABLE_DEF *get() const noexcept { return raw_.get(); }
  uint32_t column_count() const noexcept { return ic_table_column_count(get()); }
  IC_COLUMN column(uint32_t index) const
  {
    IC_COLUMN column{};
    result(ic_table_column(get(), index, &column, sizeof column)).or_throw("describing a column");
    return column;
  }

private:
  friend class cluster;
  friend class record;
  table(std::shared_ptr<detail::global> cluster, IC_TABLE_DEF *raw) : cluster_(std::move(cluster)), raw_(raw) {}

  std::shared_ptr<detail::global> cluster_; /* freed after the table */
  std::unique_ptr<IC_TABLE_DEF, detail::close_table> raw_;
};

/** A column of a new table; length is in bytes, or bits of BIT. Precision, scale and charset are fields of the result. */
inline IC_COLUMN column(const char *name, int32_t kind, uint32_t flags = 0, uint32_t length = 1) noexcept
{
  return IC_COLUMN{name, kind, length, 0, 0, 0, flags, 0};
}

/** A column's place in a struct: field("id", offsetof(row, id)). A nullable one's NULL bit is in a byte of the struct. */
inline IC_RECORD_FIELD field(const char *name, std::size_t offset, std::size_t null_byte = 0, uint32_t null_bit = 0) noexcept
{
  return IC_RECORD_FIELD{name, static_cast<uint32_t>(offset), static_cast<uint32_t>(null_byte), null_bit};
}

/** Where columns are in a struct. */
class record {
public:
  /** Each column that is read or written, with its place; see field. */
  record(const table &of, const std::vector<IC_RECORD_FIELD> &fields, std::size_t row_size)
  {
    IC_RECORD *raw = nullptr;
    of.cluster_->check(ic_record_create(of.get(), fields.data(), static_cast<uint32_t>(fields.size()),
                                        sizeof(IC_RECORD_FIELD), static_cast<uint32_t>(row_size), &raw),
                       "creating a record");
    raw_.reset(raw);
  }
  /** All columns in order, as a compiler lays a struct out. */
  static record natural(const table &of)
  {
    IC_RECORD *raw = nullptr;
    of.cluster_->check(ic_record_create_natural(of.get(), &raw), "creating a record");
    return record(raw);
  }

  IC_RECORD *get() const noexcept { return raw_.get(); }
  uint32_t row_size() const noexcept { return ic_record_row_size(get()); }

private:
  explicit record(IC_RECORD *raw) : raw_(raw) {}

  std::unique_ptr<IC_RECORD, detail::free_record> raw_;
};

/** A transaction. Destroying it gives it up: one without a commit is rolled back. It must be gone before its connection. */
class transaction {
public:
  transaction() noexcept = default;
  transaction(transaction &&other) noexcept
    : conn_(std::exchange(other.conn_, nullptr)), id_(std::exchange(other.id_, 0))
  {
  }
  transaction &operator=(transaction &&other) noexcept
  {
    std::swap(conn_, other.conn_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~transaction() { close(); }

  /** Whether there is one, open or ended. */
  explicit operator bool() const noexcept { return id_ != 0; }
  result commit() noexcept { return result(ic_apid_conn_commit_transaction(conn_, id_)); }
  result rollback() noexcept { return result(ic_apid_conn_rollback_transaction(conn_, id_)); }
  /** Its error: 0 while there is none and after a success. */
  result outcome() const noexcept { return result(ic_apid_transaction_error(conn_, id_)); }
  /** One of IC_TRANS_STATE_*. */
  int32_t state() const noexcept { return ic_apid_transaction_state(conn_, id_); }
  result set_deadline(milliseconds limit) noexcept
  {
    return result(ic_apid_transaction_set_deadline(conn_, id_, detail::count(limit)));
  }
  void close() noexcept
  {
    if (id_ != 0)
      ic_apid_conn_close_transaction(conn_, std::exchange(id_, 0));
  }
  IC_TRANS_ID id() const noexcept { return id_; }

private:
  friend class connection;
  IC_APID_CONNECTION *conn_ = nullptr;
  IC_TRANS_ID id_ = 0;
};

/** A thread's way to the data nodes: used by one thread at a time. */
class connection {
public:
  IC_APID_CONNECTION *get() const noexcept { return state_->raw; }

  /** A query with rows of these records. */
  query make_query(const table &of, const record &key, const record &attr) { return new_query(of, key, attr.get()); }
  /** A query without an attribute row: for deletes, and to see whether a row is there. */
  query make_query(const table &of, const record &key) { return new_query(of, key, nullptr); }

  /** Starts a transaction where the row of the query's key is. */
  result start(transaction &started, const table &of, const record &key, query_ref at) noexcept
  {
    uint32_t length = 0;
    const uint8_t *row = ic_apid_query_key_row(get(), at.id(), &length);
    return start(started, of, ic_apid_conn_hint_for_key(get(), of.get(), key.get(), row, length));
  }
  /** The hints of rows of the key record, one behind the other, each `length` bytes: as many as `out` has room
      for. Cheaper than one by one. */
  result hints(const table &of, const record &key, const uint8_t *rows, uint32_t length, uint32_t *out,
               uint32_t count) noexcept
  {
    return result(ic_apid_conn_hints_for_keys(get(), of.get(), key.get(), rows, length, count, out));
  }
  /** Starts a transaction at the node of a hint of the table; 0 for any. */
  result start(transaction &started, const table &of, uint32_t hint = 0) noexcept
  {
    IC_TRANS_ID id = 0;
    result made(ic_apid_conn_start_transaction(get(), hint, of.get(), &id));
    if (made) {
      started.close();
      started.conn_ = get();
      started.id_ = id;
    }
    return made;
  }

  /** Defines a write from the query's rows. Nothing is sent yet. */
  result write(query_ref q, const transaction &in, int32_t kind = IC_WRITE_KIND_WRITE,
               int32_t abort_option = IC_ABORT_OPTION_DEFAULT) noexcept
  {
    IC_WRITE_KEY_ARGS args = arguments<IC_WRITE_KEY_ARGS>(q, kind, abort_option);
    return result(ic_apid_conn_write_key(get(), q.id(), in.id(), &args));
  }
  /** Defines a read of the row that the query's key row names. */
  result read(query_ref q, const transaction &in, int32_t kind = IC_READ_KIND_COMMITTED,
              int32_t abort_option = IC_ABORT_OPTION_DEFAULT) noexcept
  {
    IC_READ_KEY_ARGS args = arguments<IC_READ_KEY_ARGS>(q, kind, abort_option);
    return result(ic_apid_conn_read_key(get(), q.id(), in.id(), &args));
  }
  /** Writes one row and waits for the outcome: for tools and tests. */
  result write_sync(query_ref q, milliseconds wait, int32_t kind = IC_WRITE_KIND_WRITE)
  {
    auto hold = state_;
    IC_WRITE_KEY_ARGS args = arguments<IC_WRITE_KEY_ARGS>(q, kind, IC_ABORT_OPTION_DEFAULT);
    result ended(ic_apid_conn_write_key_sync(get(), q.id(), &args, detail::count(wait)));
    hold->settle(0);
    return ended;
  }
  /** Reads one row and waits for it. */
  result read_sync(query_ref q, milliseconds wait, int32_t kind = IC_READ_KIND_COMMITTED)
  {
    auto hold = state_;
    IC_READ_KEY_ARGS args = arguments<IC_READ_KEY_ARGS>(q, kind, IC_ABORT_OPTION_DEFAULT);
    result ended(ic_apid_conn_read_key_sync(get(), q.id(), &args, detail::count(wait)));
    hold->settle(0);
    return ended;
  }
  /** Reads the keys in the queries' key rows; calls back once, with a multi_read_ref. The queries' own callbacks do not run. */
  template <class Function>
  result multi_read(const std::vector<query_ref> &queries, Function &&on_complete, int32_t kind = IC_MULTI_READ_GATHER)
  {
    auto state = std::make_unique<detail::multi_read_state>();
    std::vector<IC_QUERY_ID> ids;
    for (query_ref q : queries)
      ids.push_back(q.id());
    state->conn = state_.get();
    state->callback = detail::make_callable<multi_read_ref>(std::forward<Function>(on_complete));
    state->place = state_->multi_reads.size();
    state_->multi_reads.push_back(std::move(state));
    IC_MULTI_READ_ARGS args;
    ic_multi_read_args_init(&args, sizeof args);
    args.kind = kind;
    args.callback = &detail::multi_read_state::on_complete;
    args.user_ref = state_->multi_reads.back().get();
    IC_MULTI_READ_ID id = 0;
    result started(ic_apid_conn_multi_read(get(), ids.data(), static_cast<uint32_t>(ids.size()), &args, &id));
    if (!started)
      state_->multi_reads.pop_back();
    return started;
  }

  /** Sends what is defined. */
  void send(bool force = false) { result(ic_apid_conn_send(get(), force)).or_throw("sending"); }
  /** Takes replies and runs callbacks; throws what they have thrown. How many signals came. */
  uint32_t poll(milliseconds wait = milliseconds(0))
  {
    auto hold = state_; /* a callback may destroy this */
    uint32_t signals = 0;
    hold->settle(ic_apid_conn_poll(hold->raw, detail::count(wait), &signals));
    return signals;
  }
  /** send, then poll. */
  uint32_t flush(milliseconds wait, bool force = false)
  {
    auto hold = state_;
    uint32_t signals = 0;
    hold->settle(ic_apid_conn_flush(hold->raw, detail::count(wait), force, &signals));
    return signals;
  }
  /** The oldest completed query without a callback, if there is one. */
  std::optional<query_ref> next_executed() noexcept
  {
    IC_QUERY_ID id;
    while (ic_apid_conn_get_next_executed_query(get(), &id)) {
      auto *state = static_cast<detail::query_state *>(ic_apid_query_user_ref(get(), id));
      if (state == nullptr)
        continue; /* defined without this class */
      if (!state->abandoned)
        return query_ref(state);
      state->give_up();
    }
    return std::nullopt;
  }

  /** The descriptor for event loops; see ic_apid_conn_fd. */
  int fd()
  {
    int32_t fd = ic_apid_conn_fd(get());
    result(std::min(fd, 0)).or_throw("a descriptor");
    return fd;
  }
  void set_poll_min(uint32_t completions)
  {
    result(ic_apid_conn_set_poll_min(get(), completions)).or_throw("set_poll_min");
  }
  void set_deadline(milliseconds limit)
  {
    result(ic_apid_conn_set_deadline(get(), detail::count(limit))).or_throw("set_deadline");
  }
  void set_max_in_flight(uint32_t operations)
  {
    result(ic_apid_conn_set_max_in_flight(get(), operations)).or_throw("set_max_in_flight");
  }
  IC_STATS stats() const
  {
    IC_STATS stats{};
    stats.size = sizeof stats;
    result(ic_apid_conn_stats(get(), &stats)).or_throw("statistics");
    return stats;
  }

private:
  friend class cluster;
  explicit connection(std::shared_ptr<detail::global> cluster)
    : state_(std::make_shared<detail::conn_state>(std::move(cluster)))
  {
  }

  query new_query(const table &of, const record &key, IC_RECORD *attr)
  {
    auto made = std::make_unique<detail::query_state>(state_.get());
    auto *state = made.get();
    state->place = state_->queries.size();
    state_->queries.push_back(std::move(made));
    result created(ic_apid_query_create(get(), of.get(), key.get(), attr, &state->id));
    if (!created)
      detail::erase(state_->queries, state);
    created.or_throw("creating a query");
    return query(state_, state);
  }
  template <class Args> static Args arguments(query_ref q, int32_t kind, int32_t abort_option) noexcept
  {
    Args args{};
    args.size = sizeof args;
    args.kind = kind;
    args.abort_option = abort_option;
    args.callback = q.state_->callback ? &detail::query_state::on_complete : nullptr;
    args.user_ref = q.state_;
    return args;
  }

  std::shared_ptr<detail::conn_state> state_;
};

/** A cluster that the program has joined; shared by all its threads. */
class cluster {
public:
  /** Joins. Empty: the environment variable NDB_CONNECTSTRING, then localhost:1186. */
  explicit cluster(const std::string &connectstring = {}, const IC_CONNECT_ARGS *args = nullptr)
    : state_(std::make_shared<detail::global>())
  {
    state_->check(ic_apid_global_connect(state_->raw, connectstring.c_str(), args), "joining the cluster");
  }

  IC_APID_GLOBAL *get() const noexcept { return state_->raw; }
  connection connect() const { return connection(state_); }
  table open_table(const std::string &database, const std::string &name) const
  {
    IC_TABLE_DEF *raw = nullptr;
    state_->check(ic_apid_table_open(get(), database.c_str(), name.c_str(), &raw), "opening a table");
    return table(state_, raw);
  }
  void create_table(const std::string &database, const std::string &name, const std::vector<IC_COLUMN> &columns,
                    const IC_TABLE_ARGS *args = nullptr) const
  {
    state_->check(ic_apid_table_create(get(), database.c_str(), name.c_str(), columns.data(),
                                       static_cast<uint32_t>(columns.size()), sizeof(IC_COLUMN), args),
                  "creating a table");
  }
  void drop_table(const std::string &database, const std::string &name) const
  {
    state_->check(ic_apid_table_drop(get(), database.c_str(), name.c_str()), "dropping a table");
  }
  /** Waits until so many data nodes take work; 0 for all. */
  void wait_usable(uint32_t nodes, milliseconds wait) const
  {
    state_->check(ic_apid_global_wait_usable(get(), nodes, detail::count(wait)), "waiting for data nodes");
  }
  uint32_t node_count() const noexcept { return ic_apid_global_node_count(get()); }
  IC_STATS stats() const
  {
    IC_STATS stats{};
    stats.size = sizeof stats;
    result(ic_apid_global_stats(get(), &stats)).or_throw("statistics");
    return stats;
  }
  /** Leaves the cluster; what is in flight ends with an error at its connection's next poll. */
  void disconnect() const { state_->check(ic_apid_global_disconnect(get()), "leaving the cluster"); }

private:
  std::shared_ptr<detail::global> state_;
};

/** Whether to run a transaction again, and after which pause. The limits of raw() may be changed before the first failure. */
class retry {
public:
  retry() noexcept { ic_retry_init(&raw_, sizeof raw_); }
  /** One of IC_RETRY_*, and how long to wait first. */
  std::pair<int32_t, milliseconds> next(result failure) noexcept
  {
    uint32_t pause = 0;
    int32_t what = ic_retry_next(&raw_, failure.code(), &pause);
    return {what, milliseconds(pause)};
  }
  IC_RETRY &raw() noexcept { return raw_; }

private:
  IC_RETRY raw_;
};

/** Data nodes in this process, in memory: for first runs and for tests. */
class embedded_nodes {
public:
  explicit embedded_nodes(const IC_EMBEDDED_ARGS *args = nullptr)
  {
    IC_EMBEDDED_CLUSTER *raw = nullptr;
    int32_t code = ic_embedded_start(args, &raw);
    if (code != 0)
      throw error(std::string("embedded nodes: ") + ic_embedded_error_text(), code);
    raw_.reset(raw);
  }

  std::string connectstring() const { return ic_embedded_connectstring(get()); }
  /** For faults on request: ic_embedded_kill_node and the others. */
  IC_EMBEDDED_CLUSTER *get() const noexcept { return raw_.get(); }

private:
  struct stop {
    void operator()(IC_EMBEDDED_CLUSTER *nodes) const noexcept { ic_embedded_stop(nodes); }
  };
  std::unique_ptr<IC_EMBEDDED_CLUSTER, stop> raw_;
};

} // namespace iclaustron

#endif
