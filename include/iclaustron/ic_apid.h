/*
 * libiclaustron: an asynchronous client for MySQL NDB Cluster and RonDB data nodes.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Here is what holds for all calls; their comments say the rest, in this order: effect, parameters, threads
 * and blocking, what is returned, see also. The user guide shows how the calls go together.
 *
 * The model. A program joins a cluster with one IC_APID_GLOBAL. Each of its user threads has an
 * IC_APID_CONNECTION. On it, key operations are defined: a query (an operation with rows of its
 * own, used again and again) in a transaction. Defining packs a request and sends nothing.
 * ic_apid_conn_send writes all that is defined, one write per data node; the thread goes on, and
 * ic_apid_conn_poll takes what replies have come and completes queries: their callbacks run in it,
 * or they wait on the executed list. Many transactions are in flight on one thread. Exactly one
 * completion follows each accepted definition; none follows one that was refused.
 *
 * Threads. "any": the call may be made on any thread, on several at once. Cluster handles, tables,
 * records, lists and embedded nodes are shared by all threads. "the connection's": a connection and
 * what is on it (queries, transactions, multi-key reads) are used by one thread at a time, which may
 * change; a second one inside is an error, -3 (on calls that only define, at best effort). No thread
 * of the library ever runs code of the program, but for a log callback that it asked for (ic_set_log).
 *
 * Callbacks. They run on the thread of the call that is said to call back, inside it; no other call
 * does. In a callback all calls on its connection are allowed, but: poll does nothing, flush only sends,
 * freeing the connection and the calls that end in _sync are refused with -4.
 *
 * Blocking. "blocks never": the call waits for no network, no data node and no other thread's work;
 * locks inside are held for microseconds. Else the comment says for what it waits and how long at most.
 *
 * Ownership. A pointer that is given to a call is used during the call only and stays the caller's;
 * names and arguments are copied. What a create, open, list or start call gives is freed by the
 * matching free, close or stop call, once. Outputs are written on success only: after an error nothing
 * was made and nothing has to be freed. Texts that are returned are the library's. Handles of queries,
 * transactions and multi-key reads (64 bits, 0 is none) are checked: a stale or foreign one is an
 * error, never undefined behaviour. A query's rows are the library's from a definition to its
 * completion, else the caller's. A user_ref is given back with the completion and never looked at.
 *
 * Errors. Functions return 0 for success, positive codes of the data nodes (626: no such row; 630:
 * the row exists; 266: lock time-out; 4012: outcome unknown), or negative codes of the library,
 * IC_ERROR_*, whose numbers never change. Errors of operations are on their query and transaction, not
 * on the calls that send and poll. What to do: ic_error_is_temporary (retry the whole transaction after
 * a pause), ic_error_is_unknown_result (find out first), ic_error_class, ic_error_advice;
 * ic_retry_next decides and paces; ic_apid_query_explain tells all that is known in a line.
 *
 * Common codes. Every call may return them, and its comment does not repeat them: -1 for a NULL, something
 * else than the handle that is asked for, or a value out of its range; -2 after a fault in the library; -3
 * for a connection that another thread is inside; -25 in a forked child.
 *
 * Parameters. A pointer must not be NULL unless the comment says what NULL does. Where no more is to be
 * said of them two things are not named: the first parameter, which is what the call is about, and query,
 * trans and multi_read, handles of the connection. Names and texts are UTF-8 and end in a NUL.
 *
 * Units. Times are in milliseconds (names that end in _us: microseconds, _ns: nanoseconds), sizes in bytes.
 *
 * Structs. Argument structs begin with their size and have an init function; those that a call fills
 * begin with their size too, which the caller sets. A program built against an older header goes on
 * working. Set what you do not use to 0.
 */


#ifndef IC_APID_H
#define IC_APID_H

/* Generated from src/capi by cbindgen; see tests/header.rs. Do not edit. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Makes a row that must not be there; 630 if it is.
 */
#define IC_WRITE_KIND_INSERT 1

/**
 * Changes a row that must be there; 626 if it is not.
 */
#define IC_WRITE_KIND_UPDATE 2

/**
 * Makes the row or changes it. The default.
 */
#define IC_WRITE_KIND_WRITE 3

/**
 * Removes a row that must be there; 626 if it is not.
 */
#define IC_WRITE_KIND_DELETE 4

/**
 * The last committed row; takes no lock and waits for none. The default.
 */
#define IC_READ_KIND_COMMITTED 1

/**
 * Waits for the row's lock and frees it at once.
 */
#define IC_READ_KIND_SIMPLE 2

/**
 * Others may read the row, not write it, until the transaction ends.
 */
#define IC_READ_KIND_SHARED 3

/**
 * Nobody else may lock the row until the transaction ends.
 */
#define IC_READ_KIND_EXCLUSIVE 4

/**
 * What suits the kind: writes abort on an error, reads ignore it.
 */
#define IC_ABORT_OPTION_DEFAULT 0

/**
 * When the operation fails, its transaction is rolled back.
 */
#define IC_ABORT_OPTION_ABORT_ON_ERROR 1

/**
 * When the operation fails, the transaction goes on, and a commit commits the others.
 */
#define IC_ABORT_OPTION_IGNORE_ERROR 2

/**
 * A part of the primary key; never NULL.
 */
#define IC_COLUMN_PRIMARY_KEY 1

/**
 * May be NULL.
 */
#define IC_COLUMN_NULLABLE 2

/**
 * A part of the distribution key. When no column has it, the whole primary key is the distribution key.
 */
#define IC_COLUMN_DISTRIBUTION_KEY 4

/**
 * Stored in the dynamic format.
 */
#define IC_COLUMN_DYNAMIC 8

/**
 * Version of the library this header belongs to.
 */
#define IC_VERSION_MAJOR 0

/**
 * Version of the library this header belongs to.
 */
#define IC_VERSION_MINOR 1

/**
 * Version of the library this header belongs to.
 */
#define IC_VERSION_PATCH 0

/**
 * A pointer that must not be NULL is, or a value is out of its range.
 */
#define IC_ERROR_INVALID_ARGUMENT -1

/**
 * Something inside the library broke; the connection refuses further work.
 */
#define IC_ERROR_INTERNAL -2

/**
 * Another thread is inside this connection.
 */
#define IC_ERROR_BUSY -3

/**
 * The call is not allowed inside a callback.
 */
#define IC_ERROR_IN_CALLBACK -4

/**
 * The query handle is of no query of this connection, or of one that was freed.
 */
#define IC_ERROR_STALE_QUERY -5

/**
 * The transaction handle is of no transaction of this connection, or of one that was closed.
 */
#define IC_ERROR_STALE_TRANSACTION -6

/**
 * The query is defined or sent: its rows are the library's until it completes.
 */
#define IC_ERROR_QUERY_NOT_IDLE -7

/**
 * The transaction is committing, rolling back or over.
 */
#define IC_ERROR_TRANSACTION_NOT_OPEN -8

/**
 * A record of another table.
 */
#define IC_ERROR_RECORD_MISMATCH -9

/**
 * A row whose length is not the record's.
 */
#define IC_ERROR_ROW_LENGTH -10

/**
 * The length bytes of a variable-length value exceed the column.
 */
#define IC_ERROR_VALUE_TOO_LONG -11

/**
 * A key column's NULL bit is set.
 */
#define IC_ERROR_NULL_KEY -12

/**
 * Something that depends on it is still alive; of connect: it is connected already.
 */
#define IC_ERROR_STILL_IN_USE -13

/**
 * The cluster handle is not connected, or was disconnected.
 */
#define IC_ERROR_NOT_CONNECTED -14

/**
 * The connect call failed; the cluster handle's error text says at which step.
 */
#define IC_ERROR_CONNECT_FAILED -15

/**
 * The management server gave no node id.
 */
#define IC_ERROR_NO_NODE_ID -16

/**
 * A data node's version cannot be used. For later: connect gives -15 then, and its text names the versions.
 */
#define IC_ERROR_INCOMPATIBLE -17

/**
 * The record names a column that the table has not.
 */
#define IC_ERROR_NO_SUCH_COLUMN -18

/**
 * Fields of a record overlap, or lie outside the row.
 */
#define IC_ERROR_FIELD_LAYOUT -19

/**
 * A column of a type that records cannot hold: BLOB and TEXT.
 */
#define IC_ERROR_UNSUPPORTED_TYPE -20

/**
 * As much as allowed is in flight: poll, then define again.
 */
#define IC_ERROR_TOO_MANY_IN_FLIGHT -21

/**
 * The send buffer is full: send and poll, then define again.
 */
#define IC_ERROR_SEND_BUFFER_FULL -22

/**
 * A reply that does not follow the protocol.
 */
#define IC_ERROR_MALFORMED_REPLY -23

/**
 * A name that is no UTF-8, of length zero, or too long; a connectstring or path that is no UTF-8.
 */
#define IC_ERROR_INVALID_NAME -24

/**
 * The process forked: handles of the parent cannot be used in the child.
 */
#define IC_ERROR_FORKED -25

/**
 * The table definition given to create is not consistent.
 */
#define IC_ERROR_INVALID_TABLE -26

/**
 * The wait ended before the operation did; it is still in flight.
 */
#define IC_ERROR_STILL_IN_FLIGHT -27

/**
 * No data node can take new work now; nothing was sent.
 */
#define IC_ERROR_NO_NODE -28

/**
 * A request larger than a data node takes.
 */
#define IC_ERROR_TOO_LARGE -29

/**
 * No reply by the deadline: the transaction is rolled back, retry it.
 */
#define IC_ERROR_DEADLINE -30

/**
 * Success.
 */
#define IC_ERROR_CLASS_NONE 0

/**
 * The caller broke a rule of this library.
 */
#define IC_ERROR_CLASS_USAGE 1

/**
 * Connecting failed.
 */
#define IC_ERROR_CLASS_CONNECT 2

/**
 * A fault of the library or a data node, damage on the way, or a code that is not known.
 */
#define IC_ERROR_CLASS_INTERNAL 3

/**
 * Something ran out for the moment.
 */
#define IC_ERROR_CLASS_TEMPORARY_RESOURCE 4

/**
 * A data node failed. Ask ic_error_is_temporary, not the class: 4115 is of this
 * class, and must not be retried.
 */
#define IC_ERROR_CLASS_NODE_RECOVERY 5

/**
 * Too much is going on.
 */
#define IC_ERROR_CLASS_OVERLOAD 6

/**
 * Something took too long, mostly a lock.
 */
#define IC_ERROR_CLASS_TIME_OUT 7

/**
 * A data node stops.
 */
#define IC_ERROR_CLASS_NODE_SHUTDOWN 8

/**
 * What was sent may have been done or not.
 */
#define IC_ERROR_CLASS_UNKNOWN_RESULT 9

/**
 * The request was wrong, or not possible now.
 */
#define IC_ERROR_CLASS_APPLICATION 10

/**
 * The row is not there.
 */
#define IC_ERROR_CLASS_NO_DATA 11

/**
 * A key, NULL or foreign key constraint.
 */
#define IC_ERROR_CLASS_CONSTRAINT 12

/**
 * The table or its definition.
 */
#define IC_ERROR_CLASS_SCHEMA 13

/**
 * The user's own code, from an interpreted program.
 */
#define IC_ERROR_CLASS_USER 14

/**
 * Memory or disk is full.
 */
#define IC_ERROR_CLASS_SPACE 15

/**
 * A limit in the cluster's configuration.
 */
#define IC_ERROR_CLASS_CONFIGURATION 16

/**
 * Not implemented.
 */
#define IC_ERROR_CLASS_NOT_IMPLEMENTED 17

/**
 * Give the transaction up: the error is permanent, or attempts or time are spent.
 */
#define IC_RETRY_STOP 0

/**
 * Run the whole transaction again after the pause.
 */
#define IC_RETRY_AGAIN 1

/**
 * Nobody knows whether it was committed: after the pause, find out; run it again only if it was not.
 */
#define IC_RETRY_FIND_OUT 2

/**
 * 8 bits, signed.
 */
#define IC_TYPE_TINYINT 1

/**
 * 8 bits.
 */
#define IC_TYPE_TINYUNSIGNED 2

/**
 * 16 bits, signed.
 */
#define IC_TYPE_SMALLINT 3

/**
 * 16 bits.
 */
#define IC_TYPE_SMALLUNSIGNED 4

/**
 * 24 bits, signed, little endian.
 */
#define IC_TYPE_MEDIUMINT 5

/**
 * 24 bits, little endian.
 */
#define IC_TYPE_MEDIUMUNSIGNED 6

/**
 * 32 bits, signed.
 */
#define IC_TYPE_INT 7

/**
 * 32 bits.
 */
#define IC_TYPE_UNSIGNED 8

/**
 * 64 bits, signed.
 */
#define IC_TYPE_BIGINT 9

/**
 * 64 bits.
 */
#define IC_TYPE_BIGUNSIGNED 10

/**
 * 32 bits IEEE.
 */
#define IC_TYPE_FLOAT 11

/**
 * 64 bits IEEE.
 */
#define IC_TYPE_DOUBLE 12

/**
 * Characters, always `length` bytes, padded with blanks by the caller.
 */
#define IC_TYPE_CHAR 14

/**
 * One length byte, then up to `length` (at most 255) bytes of characters.
 */
#define IC_TYPE_VARCHAR 15

/**
 * Always `length` bytes.
 */
#define IC_TYPE_BINARY 16

/**
 * One length byte, then up to `length` (at most 255) bytes.
 */
#define IC_TYPE_VARBINARY 17

/**
 * 8 bytes, the form before MySQL 5.6.
 */
#define IC_TYPE_DATETIME 18

/**
 * 3 bytes, little endian: day, month << 5, year << 9.
 */
#define IC_TYPE_DATE 19

/**
 * Bytes in parts; cannot be in a record.
 */
#define IC_TYPE_BLOB 20

/**
 * Characters in parts; cannot be in a record.
 */
#define IC_TYPE_TEXT 21

/**
 * `length` bits in whole 32-bit words, the low word first.
 */
#define IC_TYPE_BIT 22

/**
 * Two length bytes, little endian, then up to `length` bytes of characters.
 */
#define IC_TYPE_LONGVARCHAR 23

/**
 * Two length bytes, little endian, then up to `length` bytes.
 */
#define IC_TYPE_LONGVARBINARY 24

/**
 * 3 bytes, the form before MySQL 5.6.
 */
#define IC_TYPE_TIME 25

/**
 * One byte: year - 1900.
 */
#define IC_TYPE_YEAR 26

/**
 * 4 bytes, the form before MySQL 5.6.
 */
#define IC_TYPE_TIMESTAMP 27

/**
 * MySQL's binary decimal.
 */
#define IC_TYPE_DECIMAL 29

/**
 * MySQL's binary decimal, never negative.
 */
#define IC_TYPE_DECIMALUNSIGNED 30

/**
 * 3 bytes and fraction, big endian.
 */
#define IC_TYPE_TIME2 31

/**
 * 5 bytes and fraction, big endian.
 */
#define IC_TYPE_DATETIME2 32

/**
 * 4 bytes and fraction, big endian.
 */
#define IC_TYPE_TIMESTAMP2 33

/**
 * The transaction is open: more can be defined.
 */
#define IC_TRANS_STATE_OPEN 1

/**
 * Operations, a commit or a rollback are under way.
 */
#define IC_TRANS_STATE_BUSY 2

/**
 * The transaction was committed.
 */
#define IC_TRANS_STATE_COMMITTED 3

/**
 * The transaction was rolled back, by its caller or by a failure, or its outcome is unknown: see its error.
 */
#define IC_TRANS_STATE_ENDED 4

/**
 * Every key's row, or that it is missing. The default.
 */
#define IC_MULTI_READ_GATHER 1

/**
 * Which keys there are, and how many; no columns are read.
 */
#define IC_MULTI_READ_EXISTS 2

/**
 * Keys in one multi-key read at most.
 */
#define IC_MULTI_READ_MAX_KEYS 16384

/**
 * The key is not known yet.
 */
#define IC_KEY_STATE_PENDING 0

/**
 * There is such a row.
 */
#define IC_KEY_STATE_FOUND 1

/**
 * There is no such row.
 */
#define IC_KEY_STATE_MISSING 2

/**
 * The key could not be read: it may be there or not.
 */
#define IC_KEY_STATE_FAILED 3

/**
 * Reads, in operations of IC_STATS.
 */
#define IC_STATS_READ 0

/**
 * Inserts.
 */
#define IC_STATS_INSERT 1

/**
 * Updates.
 */
#define IC_STATS_UPDATE 2

/**
 * Writes that insert or update.
 */
#define IC_STATS_WRITE 3

/**
 * Deletes.
 */
#define IC_STATS_DELETE 4

/**
 * Places for kinds; those from 5 on are for later, and zero.
 */
#define IC_STATS_KINDS 8

/**
 * A table that a person reads.
 */
#define IC_STATS_FORMAT_TEXT 1

/**
 * Prometheus' text exposition format, version 0.0.4.
 */
#define IC_STATS_FORMAT_PROMETHEUS 2

/**
 * No log.
 */
#define IC_LOG_NONE 0

/**
 * Something broke: damage on the way, a node that cannot be used, a thread that has died.
 */
#define IC_LOG_ERROR 1

/**
 * Something was lost, or is tried again: links, failed nodes, node ids that were not given.
 */
#define IC_LOG_WARNING 2

/**
 * A state has changed: connects, registrations, node states.
 */
#define IC_LOG_INFO 3

/**
 * Each step.
 */
#define IC_LOG_DEBUG 4

/**
 * A user thread's connection: used by one thread at a time.
 */
typedef struct IC_APID_CONNECTION IC_APID_CONNECTION;

/**
 * A cluster handle: shared by all threads of the program.
 */
typedef struct IC_APID_GLOBAL IC_APID_GLOBAL;

/**
 * Embedded data nodes: a set of data nodes and their management server inside this process, in memory, on
 * loopback sockets. For first runs and for tests; what they hold is gone when they stop. Several sets can
 * run at once. All that begins with ic_embedded_ is missing from a library built without its feature
 * "embedded".
 */
typedef struct IC_EMBEDDED_CLUSTER IC_EMBEDDED_CLUSTER;

/**
 * A mapping of columns of one table to places in a C struct. Shared by all threads of the program.
 */
typedef struct IC_RECORD IC_RECORD;

/**
 * A table's definition as it was when the table was opened. Shared by all threads of the program.
 */
typedef struct IC_TABLE_DEF IC_TABLE_DEF;

/**
 * Names of tables, as they were when they were listed.
 */
typedef struct IC_TABLE_LIST IC_TABLE_LIST;

/**
 * A query's handle: 0 is none; stale once the query is freed.
 */
typedef uint64_t IC_QUERY_ID;

/**
 * A transaction's handle: 0 is none; stale once the transaction is closed.
 */
typedef uint64_t IC_TRANS_ID;

/**
 * The attempts of one transaction: limits, which the caller may change after ic_retry_init, and the state.
 */
typedef struct IC_RETRY {
  /**
   * Size of the struct in bytes, as the caller knows it.
   */
  size_t size;
  /**
   * Milliseconds: the first pause is half of this up to this, and each further one is twice as long;
   * default 10.
   */
  uint32_t first_ms;
  /**
   * Milliseconds: no pause is longer; default 1000.
   */
  uint32_t longest_ms;
  /**
   * Attempts at most, the first one among them; 0, the default: no limit.
   */
  uint32_t attempts;
  /**
   * Milliseconds at most from the first failure on, pauses included; 0: no limit; default 30000.
   */
  uint32_t limit_ms;
  /**
   * Attempts that have failed; the library's.
   */
  uint32_t failed;
  /**
   * Zero; for later.
   */
  uint32_t reserved;
  /**
   * State of the random numbers; the library's.
   */
  uint64_t random;
  /**
   * When the first attempt failed, in milliseconds of a clock of the library; 0: none has.
   */
  uint64_t began;
} IC_RETRY;

/**
 * How to connect.
 */
typedef struct IC_CONNECT_ARGS {
  /**
   * Size of the struct in bytes, as the caller knows it.
   */
  size_t size;
  /**
   * Node id to ask for, 1 to 255. 0, the default: what the connectstring names, else any.
   */
  uint32_t node_id;
  /**
   * Receive threads, 1 to 64; default 1, which is enough until it is a full core.
   */
  uint32_t receive_threads;
  /**
   * 1, the default: a thread that polls alone may read the sockets itself, which saves waking it through
   * the receive thread; only with one receive thread. 0: the receive threads always read.
   */
  uint32_t lend_receive;
  /**
   * Microseconds that a send without force may be held for company, 0 (not at all) to 1000000; default
   * 200.
   */
  uint32_t hold_us;
  /**
   * Milliseconds until a first data node must be usable; default 30000.
   */
  uint32_t connect_ms;
  /**
   * Milliseconds to wait for the other data nodes once one is usable, within connect_ms; default 3000.
   */
  uint32_t grace_ms;
  /**
   * Milliseconds that an operation may go without a reply, see ic_apid_conn_set_deadline. 0, the default:
   * long enough, by the cluster's configuration, for it to deal with a node that fails.
   */
  uint32_t deadline_ms;
  /**
   * Bytes that may wait for a data node, in a connection and on the node's link together, before the
   * connection's next definition for it is refused with -22: 65536 to 1073741824; default 2097152.
   */
  uint32_t max_waiting;
  /**
   * Operations of a connection that may be in flight before its next definition is refused with -21: 1 to
   * 1048576; default 65536. See ic_apid_conn_set_max_in_flight.
   */
  uint32_t max_in_flight;
} IC_CONNECT_ARGS;

/**
 * The state of a data node.
 */
typedef struct IC_NODE_STATE {
  /**
   * Size of the struct in bytes, as the caller knows it.
   */
  size_t size;
  /**
   * Its node id.
   */
  uint32_t node_id;
  /**
   * 1: a link to it is open; else 0.
   */
  uint32_t connected;
  /**
   * 1: it is started and takes new work; else 0.
   */
  uint32_t usable;
} IC_NODE_STATE;

/**
 * A column of a table: what ic_apid_table_create takes and ic_table_column gives.
 */
typedef struct IC_COLUMN {
  /**
   * The column's name. What ic_table_column gives is valid as long as the table handle.
   */
  const char *name;
  /**
   * One of IC_TYPE_*.
   */
  int32_t kind;
  /**
   * Elements: bytes of CHAR and BINARY, bytes at most of VARCHAR, VARBINARY, LONGVARCHAR and
   * LONGVARBINARY, bits of BIT, 1 of the others. 0 means 1.
   */
  uint32_t length;
  /**
   * Decimal digits of DECIMAL; digits of fractional seconds of TIME2, DATETIME2 and TIMESTAMP2.
   */
  uint32_t precision;
  /**
   * Digits after the point of DECIMAL.
   */
  uint32_t scale;
  /**
   * Number of the collation of CHAR, VARCHAR and LONGVARCHAR; 0 there means binary (63).
   */
  uint32_t charset;
  /**
   * IC_COLUMN_*, or-ed.
   */
  uint32_t flags;
  /**
   * Bytes the column takes in a row, length bytes included; given by ic_table_column, ignored by create.
   */
  uint32_t row_bytes;
} IC_COLUMN;

/**
 * A new table's properties.
 */
typedef struct IC_TABLE_ARGS {
  /**
   * Size of the struct in bytes, as the caller knows it.
   */
  size_t size;
  /**
   * 1, the default: rows survive a restart of the whole cluster. 0: the table does, its rows do not.
   */
  uint32_t logged;
  /**
   * 1: committed reads may use any replica. 0, the default: the primary one.
   */
  uint32_t read_backup;
  /**
   * 1: every node group holds all rows. 0, the default: each holds its part.
   */
  uint32_t fully_replicated;
} IC_TABLE_ARGS;

/**
 * A column's place in a row.
 */
typedef struct IC_RECORD_FIELD {
  /**
   * The column's name.
   */
  const char *name;
  /**
   * Where its value is, in bytes from the start of the row.
   */
  uint32_t offset;
  /**
   * For a nullable column: the byte of the row with its NULL bit, from the start of the row; 1 in the bit
   * means NULL. Ignored for others.
   */
  uint32_t null_byte;
  /**
   * The bit in that byte, 0 (the lowest) to 7.
   */
  uint32_t null_bit;
} IC_RECORD_FIELD;

/**
 * Called when a query is complete: inside ic_apid_conn_poll or ic_apid_conn_flush or while the connection is
 * freed, on the calling thread, once per definition. It may read the query's error and rows, define queries
 * (this one too), start, commit, roll back and close transactions, and send. In it a poll does nothing, a
 * flush only sends, and freeing the connection is refused. On return the query is idle unless it was defined
 * anew. It must return: no longjmp, no C++ exception. Run by ic_apid_conn_free it cannot define anything new
 * (-14).
 */
typedef void (*IC_QUERY_CALLBACK)(struct IC_APID_CONNECTION *conn, uint64_t query, void *user_ref);

/**
 * What a write does and what becomes of its completion.
 */
typedef struct IC_WRITE_KEY_ARGS {
  /**
   * Size of the struct in bytes, as the caller knows it.
   */
  size_t size;
  /**
   * One of IC_WRITE_KIND_*.
   */
  int32_t kind;
  /**
   * One of IC_ABORT_OPTION_*.
   */
  int32_t abort_option;
  /**
   * Called at completion; NULL: the query goes to the executed list.
   */
  IC_QUERY_CALLBACK callback;
  /**
   * Given back with the completed query; never looked at.
   */
  void *user_ref;
} IC_WRITE_KEY_ARGS;

/**
 * How a read treats locks and what becomes of its completion.
 */
typedef struct IC_READ_KEY_ARGS {
  /**
   * Size of the struct in bytes, as the caller knows it.
   */
  size_t size;
  /**
   * One of IC_READ_KIND_*.
   */
  int32_t kind;
  /**
   * One of IC_ABORT_OPTION_*; committed and simple reads always ignore errors.
   */
  int32_t abort_option;
  /**
   * Called at completion; NULL: the query goes to the executed list.
   */
  IC_QUERY_CALLBACK callback;
  /**
   * Given back with the completed query; never looked at.
   */
  void *user_ref;
} IC_READ_KEY_ARGS;

/**
 * Called when a multi-key read is complete, by the rules of IC_QUERY_CALLBACK. Its queries are idle and may
 * be defined anew. When it returns the multi-key read is closed.
 */
typedef void (*IC_MULTI_READ_CALLBACK)(struct IC_APID_CONNECTION *conn,
                                       uint64_t multi_read,
                                       void *user_ref);

/**
 * What a multi-key read wants to know and what becomes of its completion.
 */
typedef struct IC_MULTI_READ_ARGS {
  /**
   * Size of the struct in bytes, as the caller knows it.
   */
  size_t size;
  /**
   * One of IC_MULTI_READ_*.
   */
  int32_t kind;
  /**
   * Milliseconds that it may go without a reply; 0: the connection's deadline.
   */
  uint32_t deadline_ms;
  /**
   * Called at completion; NULL: it goes to the list of executed multi-key reads.
   */
  IC_MULTI_READ_CALLBACK callback;
  /**
   * Given back with the completion; never looked at.
   */
  void *user_ref;
} IC_MULTI_READ_ARGS;

/**
 * A multi-key read's handle: 0 is none; stale once it is closed.
 */
typedef uint64_t IC_MULTI_READ_ID;

/**
 * How operations of one kind ended, and how long they took. Each that completed is counted once, under one
 * outcome. Latencies are in nanoseconds, of all outcomes together: from the packing of the request to the
 * poll that took what completed it. The clock is read once for all that is packed between two polls, and
 * once for each poll that takes something, so the resolution is the time in which the caller defines what it
 * sends at once. Percentiles and the maximum are up to an eighth too large (buckets), and 0 as long as
 * nothing has completed.
 */
typedef struct IC_OPERATION_STATS {
  /**
   * Operations without an error.
   */
  uint64_t ok;
  /**
   * Operations with an error for which ic_error_is_temporary is true.
   */
  uint64_t temporary;
  /**
   * Operations with another error; a row that is not there (626) is one.
   */
  uint64_t permanent;
  /**
   * Operations with an error for which ic_error_is_unknown_result is true.
   */
  uint64_t unknown;
  /**
   * Nanoseconds: the mean.
   */
  uint64_t mean_ns;
  /**
   * Nanoseconds: half of them took at most so long.
   */
  uint64_t p50_ns;
  /**
   * Nanoseconds: 99 of 100.
   */
  uint64_t p99_ns;
  /**
   * Nanoseconds: 999 of 1000.
   */
  uint64_t p999_ns;
  /**
   * Nanoseconds: all of them.
   */
  uint64_t max_ns;
} IC_OPERATION_STATS;

/**
 * What a connection has done since it was created, or all connections of a cluster handle, living and freed,
 * since it was connected.
 */
typedef struct IC_STATS {
  /**
   * Size of the struct in bytes, as the caller knows it.
   */
  size_t size;
  /**
   * By kind: IC_STATS_READ and so on.
   */
  struct IC_OPERATION_STATS operations[IC_STATS_KINDS];
  /**
   * Operations defined.
   */
  uint64_t defined;
  /**
   * Operations completed.
   */
  uint64_t completed;
  /**
   * Completed operations with an error.
   */
  uint64_t failed;
  /**
   * Operations defined and not complete now.
   */
  uint64_t in_flight;
  /**
   * Definitions, and starts of transactions, refused with -21 or -22 because of a limit.
   */
  uint64_t refused;
  /**
   * Transactions committed, empty ones too.
   */
  uint64_t commits;
  /**
   * Transactions rolled back, by the caller or by a failure.
   */
  uint64_t rollbacks;
  /**
   * Transactions whose outcome is unknown.
   */
  uint64_t unknown;
  /**
   * Sends that had something for a data node, counted per node.
   */
  uint64_t sends;
  /**
   * Those of them that were held for company.
   */
  uint64_t held;
  /**
   * Held sends that another connection's send took along. Of a cluster handle only.
   */
  uint64_t held_joined;
  /**
   * Held sends that a forced send, or the same connection's next one, took along. Of a cluster handle
   * only.
   */
  uint64_t held_forced;
  /**
   * Held sends that were written at their deadline. Of a cluster handle only.
   */
  uint64_t held_deadline;
  /**
   * Writes to sockets: of a connection, by its own thread; of a cluster handle, by all threads.
   */
  uint64_t writes;
  /**
   * Completed operations per thousand writes; 0 without a write.
   */
  uint64_t operations_per_1000_writes;
  /**
   * Bytes given to links; of a cluster handle, written to sockets.
   */
  uint64_t bytes_sent;
  /**
   * Bytes of the pages taken; of a cluster handle, read from sockets.
   */
  uint64_t bytes_received;
  /**
   * Times that a poll took something.
   */
  uint64_t rounds;
  /**
   * How often the thread was woken in a poll.
   */
  uint64_t wakeups;
  /**
   * Pages taken from receive threads.
   */
  uint64_t pages;
  /**
   * Signals taken.
   */
  uint64_t signals;
  /**
   * Replies that nothing waited for any more.
   */
  uint64_t late_replies;
  /**
   * Deadlines that expired.
   */
  uint64_t deadlines;
  /**
   * High-water mark: operations in flight in one connection, as its sends and polls found them.
   */
  uint64_t most_in_flight;
  /**
   * High-water mark: bytes that waited for one data node, in the connection and on the link.
   */
  uint64_t most_waiting;
  /**
   * High-water mark: pages that one poll found.
   */
  uint64_t most_pages;
  /**
   * High-water mark: coordinator records of one connection.
   */
  uint64_t most_records;
  /**
   * Connections that live; 1 of a connection.
   */
  uint64_t connections;
  /**
   * Multi-key reads whose keys had one owner: one transaction there.
   */
  uint64_t multikey_slotted;
  /**
   * Multi-key reads that were split: a transaction at each owner.
   */
  uint64_t multikey_fanout;
  /**
   * Multi-key reads with a key whose owner is not certain: one transaction at any data node.
   */
  uint64_t multikey_coordinator;
  /**
   * The parts that they were sent in.
   */
  uint64_t multikey_parts;
  /**
   * Multi-key reads of which a part had to wait for a coordinator record.
   */
  uint64_t multikey_deferred;
  /**
   * High-water mark: parts of one connection's multi-key reads that were out at once.
   */
  uint64_t most_multikey_parts;
} IC_STATS;

/**
 * Called with each line of the log: its level, one of IC_LOG_*, and the text, without a line end, which is
 * valid during the call only. It runs on whatever thread has something to say, threads of the library too,
 * several at once perhaps; the library holds no lock meanwhile. It should return soon, for links wait for
 * it, and must not call the library but for ic_set_log, nor leave by longjmp or an exception.
 */
typedef void (*IC_LOG_CALLBACK)(int32_t level, const char *text, void *user_ref);

/**
 * How embedded data nodes are started.
 */
typedef struct IC_EMBEDDED_ARGS {
  /**
   * Size of the struct in bytes, as the caller knows it.
   */
  size_t size;
  /**
   * Data nodes, 1 to 48. Their ids are 1 and up.
   */
  uint32_t nodes;
  /**
   * Copies of each row, 1 to 4; it must divide the number of nodes.
   */
  uint32_t replicas;
  /**
   * Decides what real nodes leave to chance, as the order in which rows come.
   */
  uint64_t seed;
  /**
   * The management server's port; 0: any that is free.
   */
  uint32_t port;
  /**
   * Milliseconds that an operation waits for a lock before it fails with 266; at least 1.
   */
  uint32_t lock_timeout_ms;
} IC_EMBEDDED_ARGS;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library that is linked, as major << 16 | minor << 8 | patch: compare it with
 * IC_VERSION_MAJOR and the others to see whether header and library belong together.
 * Threads: any; blocks never.
 * Returns the version.
 * See also ic_version_text.
 */
uint32_t ic_version(void);

/**
 * The version of the library that is linked, as text: "0.1.0".
 * Threads: any; blocks never.
 * Returns a constant, never NULL.
 * See also ic_version.
 */
const char *ic_version_text(void);

/**
 * What an error code means, in a few words, for a log or a person.
 * code: any; 0 is success.
 * Threads: any; blocks never.
 * Returns a constant, never NULL, also for codes that are unknown.
 * See also ic_error_advice, ic_error_explain, ic_apid_query_explain.
 */
const char *ic_error_message(int32_t code);

/**
 * Whether a code is worth a retry of the whole transaction after a pause.
 * code: the error of a query, a transaction, or a call.
 * Threads: any; blocks never.
 * Returns true if so; false for 0, and for codes whose outcome is unknown.
 * See also ic_retry_next, ic_error_is_unknown_result.
 */
bool ic_error_is_temporary(int32_t code);

/**
 * Whether a code says that nobody knows if the transaction was committed: find out before a retry.
 * code: the error of a query, a transaction, or a call.
 * Threads: any; blocks never.
 * Returns true if so.
 * See also ic_retry_next, ic_error_is_temporary.
 */
bool ic_error_is_unknown_result(int32_t code);

/**
 * What kind of error a code is, for counting and for a switch.
 * code: any.
 * Threads: any; blocks never.
 * Returns one of IC_ERROR_CLASS_*; IC_ERROR_CLASS_INTERNAL for a code that is unknown.
 * See also ic_error_is_temporary, ic_error_is_unknown_result.
 */
int32_t ic_error_class(int32_t code);

/**
 * What to do about an error code, in one sentence.
 * code: any.
 * Threads: any; blocks never.
 * Returns a constant, never NULL, also for codes that are unknown.
 * See also ic_error_message, ic_retry_next.
 */
const char *ic_error_advice(int32_t code);

/**
 * An error code in a line for a person: number, class and meaning.
 * code: any.
 * buffer: receives as much of the line as fits, with a NUL; NULL for its length alone.
 * size: bytes of the buffer.
 * Threads: any; blocks never.
 * Returns the line's length without the NUL, which can be size or more: then it was cut.
 * See also ic_apid_query_explain, ic_apid_transaction_explain.
 */
int32_t ic_error_explain(int32_t code, char *buffer, size_t size);

/**
 * The last completion of a query in a line for a person: error, class, meaning; how far it had come (define,
 * send, execute, commit, rollback); the coordinator's node and host; the table; whether its transaction was,
 * was not, or may have been committed.
 * buffer: receives as much of the line as fits, with a NUL; NULL for its length alone.
 * size: bytes of the buffer.
 * Threads: the connection's; blocks never.
 * Returns the line's length without the NUL, which can be size or more: then it was cut; -5 for a stale or
 *   foreign handle.
 * See also ic_apid_query_error, ic_apid_transaction_explain, ic_error_advice.
 */
int32_t ic_apid_query_explain(struct IC_APID_CONNECTION *conn,
                              IC_QUERY_ID query,
                              char *buffer,
                              size_t size);

/**
 * A transaction's error in a line for a person, as ic_apid_query_explain without the table.
 * buffer: receives as much of the line as fits, with a NUL; NULL for its length alone.
 * size: bytes of the buffer.
 * Threads: the connection's; blocks never.
 * Returns the line's length without the NUL, which can be size or more: then it was cut; -6 for a stale or
 *   foreign handle.
 * See also ic_apid_transaction_error, ic_apid_query_explain, ic_error_advice.
 */
int32_t ic_apid_transaction_explain(struct IC_APID_CONNECTION *conn,
                                    IC_TRANS_ID trans,
                                    char *buffer,
                                    size_t size);

/**
 * Begins the attempts of a transaction: no failure yet, a first pause of 10 ms, none longer than 1000 ms, no
 * limit of attempts, 30 s in all. The limits may be changed afterwards.
 * retry: NULL does nothing. It holds no resources: nothing has to be freed.
 * size: sizeof *retry.
 * Threads: any; blocks never.
 * See also ic_retry_next.
 */
void ic_retry_init(struct IC_RETRY *retry,
                   size_t size);

/**
 * What to do after an attempt has failed. It only decides: the pause is the caller's to make, by a timer of
 * its loop for example. A code that says that an operation is still in flight (-27) is no failure yet: poll
 * on.
 * retry: from ic_retry_init, one for each transaction that is to be run until it is done.
 * code: the error of the transaction, or of the query or call that made it fail.
 * pause_ms: receives how many milliseconds to wait first; 0 with IC_RETRY_STOP.
 * Threads: any, one at a time with the same struct; blocks never.
 * Returns IC_RETRY_AGAIN, IC_RETRY_FIND_OUT or IC_RETRY_STOP; -1 for a NULL.
 * See also ic_retry_init, ic_error_is_temporary, ic_error_is_unknown_result.
 */
int32_t ic_retry_next(struct IC_RETRY *retry,
                      int32_t code,
                      uint32_t *pause_ms);

/**
 * Creates a cluster handle, which is not connected yet.
 * glob: receives the handle, to be freed with ic_apid_global_free.
 * Threads: any; blocks never.
 * Returns 0.
 * See also ic_apid_global_connect, ic_apid_global_free.
 */
int32_t ic_apid_global_create(struct IC_APID_GLOBAL **glob);

/**
 * Frees a cluster handle, and disconnects it first if need be. Free its connections and tables before.
 * glob: NULL does nothing. After an error it is still there and usable.
 * Threads: any, but no other may use the handle; blocks as ic_apid_global_disconnect.
 * Returns 0; -13 while connections or tables of it are open (the error text counts them); -3 while another
 *   thread connects.
 * See also ic_apid_conn_free, ic_apid_table_close, ic_apid_global_disconnect.
 */
int32_t ic_apid_global_free(struct IC_APID_GLOBAL *glob);

/**
 * Sets connect arguments to their defaults, which the comments of the fields name.
 * args: NULL does nothing.
 * size: sizeof *args.
 * Threads: any; blocks never.
 * See also ic_apid_global_connect.
 */
void ic_connect_args_init(struct IC_CONNECT_ARGS *args, size_t size);

/**
 * Joins a cluster: management server, node id, configuration, connections to the data nodes. Starts 4
 * threads and the receive threads: 4 + receive_threads of args, 5 by default, however many data nodes there
 * are. A failed connect leaves no thread and no socket, and may be tried again.
 * connectstring: as the NDB manual has it, "host:port,host:port" for example; NULL or empty means the
 *   environment variable NDB_CONNECTSTRING, then localhost:1186. Copied.
 * args: NULL for all defaults.
 * Threads: any; blocks up to connect_ms, and grace_ms where a first data node is usable and others are not.
 *   What can come of itself (a management server, a node id, a data node) is waited for until then; a
 *   connectstring that makes no sense fails at once.
 * Returns 0 when at least one data node takes work; -15 when it could not connect, -16 when it got no node
 *   id (ic_apid_global_error_text says step, host and cause); -13 if connected already; -3 while another
 *   thread connects; -24 for a connectstring that is no UTF-8.
 * See also ic_connect_args_init, ic_apid_global_wait_usable, ic_apid_global_error_text, ic_embedded_start.
 */
int32_t ic_apid_global_connect(struct IC_APID_GLOBAL *glob,
                               const char *connectstring,
                               const struct IC_CONNECT_ARGS *args);

/**
 * Leaves the cluster: ends every thread of the handle and closes its sockets. What is in flight completes
 * with an error at its connection's next poll, or when that is freed. Tables and connections stay to be
 * freed; after another connect, make new ones.
 * Threads: any, not in a callback; blocks until the threads have ended, up to a few seconds whatever the
 *   network does.
 * Returns 0, also if not connected; -3 while another thread connects.
 * See also ic_apid_global_free.
 */
int32_t ic_apid_global_disconnect(struct IC_APID_GLOBAL *glob);

/**
 * What went wrong last in a connect, wait, dictionary or record call on the handle, for a person: step,
 * host, port, cause.
 * Threads: any; blocks never. With several threads it is the last error of any of them.
 * Returns the text, empty if there is none; valid until this thread's next call of this function. NULL for
 *   something else than a cluster handle.
 * See also ic_error_message.
 */
const char *ic_apid_global_error_text(const struct IC_APID_GLOBAL *glob);

/**
 * Waits until data nodes take work.
 * nodes: how many; 0 for all that are configured.
 * wait_ms: milliseconds to wait at most.
 * Threads: any; blocks up to wait_ms.
 * Returns 0; -15 if there are too few in time (the error text says how far each of the others is); -14 if
 *   not connected.
 * See also ic_apid_global_node_state.
 */
int32_t ic_apid_global_wait_usable(struct IC_APID_GLOBAL *glob,
                                   uint32_t nodes,
                                   uint32_t wait_ms);

/**
 * How many data nodes are configured.
 * Threads: any; blocks never.
 * Returns the number; 0 if not connected or for something else than a cluster handle.
 * See also ic_apid_global_node_state.
 */
uint32_t ic_apid_global_node_count(struct IC_APID_GLOBAL *glob);

/**
 * The state of a data node, as the library knows it now.
 * index: from 0, below ic_apid_global_node_count; it is not the node id.
 * state: its size field, set by the caller, says how much of it is filled.
 * Threads: any; blocks never.
 * Returns 0; -1 for an index out of range; -14 if not connected.
 * See also ic_apid_global_node_count, ic_apid_global_wait_usable.
 */
int32_t ic_apid_global_node_state(struct IC_APID_GLOBAL *glob,
                                  uint32_t index,
                                  struct IC_NODE_STATE *state);

/**
 * The node id of this client in the cluster.
 * Threads: any; blocks never.
 * Returns the id; 0 if not connected or for something else than a cluster handle.
 */
uint32_t ic_apid_global_node_id(struct IC_APID_GLOBAL *glob);

/**
 * Opens a table by its names. The first open of a table asks a data node for its definition, which is kept;
 * later ones cost nothing until the library learns that it has changed.
 * database, name: exact, as bytes of UTF-8. Copied.
 * table: receives the handle, to be freed with ic_apid_table_close before the cluster handle.
 * Threads: any; blocks until a data node answers, up to 120 s, and while another thread's dictionary call
 *   (open, create, drop, list) is under way.
 * Returns 0; 723 if there is no such table; 4008, 4009 or 4013 if no data node answered; -24 for an
 *   impossible name; -14 if not connected. The error text names the table.
 * See also ic_apid_table_close, ic_record_create, ic_apid_query_create, ic_apid_table_list.
 */
int32_t ic_apid_table_open(struct IC_APID_GLOBAL *glob,
                           const char *database,
                           const char *name,
                           struct IC_TABLE_DEF **table);

/**
 * Frees a table handle. Queries and records made with it go on.
 * table: NULL does nothing.
 * Threads: any, but no other may use the handle; blocks never.
 * Returns 0.
 * See also ic_apid_table_open.
 */
int32_t ic_apid_table_close(struct IC_TABLE_DEF *table);

/**
 * How many columns a table has.
 * Threads: any; blocks never.
 * Returns the number; 0 for something else than a table.
 * See also ic_table_column.
 */
uint32_t ic_table_column_count(const struct IC_TABLE_DEF *table);

/**
 * Describes a column.
 * index: from 0, below ic_table_column_count.
 * column: receives the description; its name is valid as long as the table handle.
 * column_size: sizeof *column.
 * Threads: any; blocks never.
 * Returns 0; -1 for an index out of range.
 * See also ic_table_column_count, ic_record_field.
 */
int32_t ic_table_column(const struct IC_TABLE_DEF *table,
                        uint32_t index,
                        struct IC_COLUMN *column,
                        size_t column_size);

/**
 * Sets table arguments to their defaults: logged, no read backup, not fully replicated.
 * args: NULL does nothing.
 * size: sizeof *args.
 * Threads: any; blocks never.
 * See also ic_apid_table_create.
 */
void ic_table_args_init(struct IC_TABLE_ARGS *args, size_t size);

/**
 * Creates a table. MySQL servers do not see it.
 * database, name: not empty, UTF-8, without a slash. Copied; a database need not exist before.
 * columns: count of them, in order, at least one of them IC_COLUMN_PRIMARY_KEY. Set what you do not use to
 *   0.
 * count: how many columns.
 * column_size: sizeof *columns.
 * args: NULL for all defaults.
 * Threads: any; blocks until the data nodes have made it or refused, mostly well below a second, for a step
 *   up to 120 s, for the last one up to an hour, and while another thread's dictionary call is under way.
 * Returns 0; 721 if a table of that name exists; -26 for an inconsistent definition; -24 for an impossible
 *   name; other codes of the data nodes; 4008, 4009 or 4013 if no data node answered; 4012 if it may have
 *   been made or not; -14 if not connected. The error text says more.
 * See also ic_table_args_init, ic_apid_table_open, ic_apid_table_drop.
 */
int32_t ic_apid_table_create(struct IC_APID_GLOBAL *glob,
                             const char *database,
                             const char *name,
                             const struct IC_COLUMN *columns,
                             uint32_t count,
                             size_t column_size,
                             const struct IC_TABLE_ARGS *args);

/**
 * Drops a table, its indexes and blob tables first. Open handles of it stay to be closed; operations on it
 * fail.
 * database, name: as for ic_apid_table_open.
 * Threads: any; blocks as ic_apid_table_create.
 * Returns 0; 723 if there is no such table; -13 if a foreign key depends on it; other codes of the data
 *   nodes; 4008, 4009 or 4013 if no data node answered; 4012 if it may have been dropped or not; -24 for an
 *   impossible name; -14 if not connected. The error text says more.
 * See also ic_apid_table_create.
 */
int32_t ic_apid_table_drop(struct IC_APID_GLOBAL *glob,
                           const char *database,
                           const char *name);

/**
 * Lists the tables of users, those of MySQL servers too, sorted by database and name.
 * database: NULL for all databases.
 * list: receives the list, to be freed with ic_table_list_free. It needs the cluster handle no more.
 * Threads: any; blocks as ic_apid_table_open.
 * Returns 0; 4008, 4009 or 4013 if no data node answered; -24 for a name that is no UTF-8; -14 if not
 *   connected.
 * See also ic_table_list_count, ic_table_list_database, ic_table_list_name, ic_table_list_free.
 */
int32_t ic_apid_table_list(struct IC_APID_GLOBAL *glob,
                           const char *database,
                           struct IC_TABLE_LIST **list);

/**
 * How many tables a list has.
 * Threads: any; blocks never.
 * Returns the number; 0 for something else than a list.
 * See also ic_table_list_name.
 */
uint32_t ic_table_list_count(const struct IC_TABLE_LIST *list);

/**
 * The database of a table in a list.
 * index: from 0, below ic_table_list_count.
 * Threads: any; blocks never.
 * Returns the name, valid as long as the list; NULL for an index beyond it.
 * See also ic_table_list_name.
 */
const char *ic_table_list_database(const struct IC_TABLE_LIST *list, uint32_t index);

/**
 * The name of a table in a list.
 * index: from 0, below ic_table_list_count.
 * Threads: any; blocks never.
 * Returns the name, valid as long as the list; NULL for an index beyond it.
 * See also ic_table_list_database.
 */
const char *ic_table_list_name(const struct IC_TABLE_LIST *list, uint32_t index);

/**
 * Frees a list, and the names in it.
 * list: NULL does nothing.
 * Threads: any, but no other may use the list; blocks never.
 * Returns 0.
 * See also ic_apid_table_list.
 */
int32_t ic_table_list_free(struct IC_TABLE_LIST *list);

/**
 * Creates a record from the places of columns in a struct of the caller's. Columns that are not named are
 * not read and not written. A record that holds the whole primary key can be the key record of a query.
 * fields: count of them, in any order; offsetof gives the offsets. Copied, the names too.
 * count: how many fields.
 * field_size: sizeof *fields.
 * row_size: bytes of the caller's struct, padding included: its sizeof.
 * rec: receives the record, to be freed with ic_record_free.
 * Threads: any; blocks never.
 * Returns 0; -18 for a column the table has not; -19 for fields or NULL bits that overlap or lie outside the
 *   row; -20 for a BLOB or TEXT column. The error text of the table's cluster handle names the column.
 * See also ic_record_create_natural, ic_apid_query_create.
 */
int32_t ic_record_create(const struct IC_TABLE_DEF *table,
                         const struct IC_RECORD_FIELD *fields,
                         uint32_t count,
                         size_t field_size,
                         uint32_t row_size,
                         struct IC_RECORD **rec);

/**
 * Creates a record of all columns but BLOB and TEXT, laid out as a C compiler lays out a struct with them in
 * order: numbers at their natural alignment, variable-length values as byte arrays, then bytes for NULL
 * bits.
 * rec: receives the record, to be freed with ic_record_free.
 * Threads: any; blocks never.
 * Returns 0.
 * See also ic_record_field, ic_record_row_size, ic_record_create.
 */
int32_t ic_record_create_natural(const struct IC_TABLE_DEF *table,
                                 struct IC_RECORD **rec);

/**
 * Frees a record. Queries made with it go on.
 * rec: NULL does nothing.
 * Threads: any, but no other may use the record; blocks never.
 * Returns 0.
 * See also ic_record_create.
 */
int32_t ic_record_free(struct IC_RECORD *rec);

/**
 * How long a row of the record is.
 * Threads: any; blocks never.
 * Returns the number of bytes; 0 for something else than a record.
 * See also ic_record_field.
 */
uint32_t ic_record_row_size(const struct IC_RECORD *rec);

/**
 * Where a column stands in a row.
 * column: the column's name.
 * field: receives the place, its name NULL; of a column that is never NULL the NULL byte and bit are 0 and
 *   mean nothing.
 * Threads: any; blocks never.
 * Returns 0; -18 if the column is not in the record.
 * See also ic_record_row_size, ic_table_column.
 */
int32_t ic_record_field(const struct IC_RECORD *rec,
                        const char *column,
                        struct IC_RECORD_FIELD *field);

/**
 * Creates a connection of a connected cluster handle, for one user thread at a time. How many can be open at
 * once: 4096.
 * conn: receives the connection, to be freed with ic_apid_conn_free before the cluster handle.
 * Threads: any; blocks never.
 * Returns 0; -14 if not connected; -21 if too many are open.
 * See also ic_apid_conn_free, ic_apid_query_create.
 */
int32_t ic_apid_conn_create(struct IC_APID_GLOBAL *glob,
                            struct IC_APID_CONNECTION **conn);

/**
 * Frees a connection. What is in flight ends first: transactions whose commit is not under way are rolled
 * back, final replies are waited for, what is left then ends with an error (4012 where a commit was sent),
 * and callbacks that are due run. Queries, transactions and multi-key reads go with it; their rows must not
 * be touched any more.
 * conn: NULL does nothing. After an error it is still there.
 * Threads: the connection's, not in its callback; blocks up to 2 s while something is in flight; calls back.
 * Returns 0; -4 in a callback.
 * See also ic_apid_conn_create, ic_apid_global_free.
 */
int32_t ic_apid_conn_free(struct IC_APID_CONNECTION *conn);

/**
 * Sends every query that is defined, every commit and rollback: one write per data node. In a callback the
 * send follows the poll's callbacks, so that what all of them define goes out in one write per node.
 * force: true: write now. false: the send may be held for company on its link if the recent past makes
 *   company likely, at most hold_us of the connect arguments; a thread that sends alone is not held.
 * Threads: the connection's; blocks never: what a full socket does not take, the library sends later.
 * Returns 0. What a lost link takes with it comes back as errors of queries and transactions.
 * See also ic_apid_conn_flush, ic_apid_conn_poll.
 */
int32_t ic_apid_conn_send(struct IC_APID_CONNECTION *conn,
                          bool force);

/**
 * Takes the replies that have come, completes what they finish, and runs callbacks. It returns as soon as
 * something has completed (see ic_apid_conn_set_poll_min). In a callback it does nothing.
 * wait_ms: milliseconds to wait for a completion at most; 0 waits not at all.
 * signals: receives how many signals were taken; NULL if nobody wants to know.
 * Threads: the connection's; blocks up to wait_ms; calls back.
 * Returns 0, also if nothing has come; -14 after a disconnect, once all has completed. Errors of operations
 *   are on their query and transaction.
 * See also ic_apid_conn_flush, ic_apid_conn_get_next_executed_query, ic_apid_conn_fd.
 */
int32_t ic_apid_conn_poll(struct IC_APID_CONNECTION *conn,
                          uint32_t wait_ms,
                          uint32_t *signals);

/**
 * ic_apid_conn_send, then ic_apid_conn_poll; the poll always runs. In a callback it only sends.
 * wait_ms: milliseconds to wait for a completion at most; 0 waits not at all.
 * force: as for ic_apid_conn_send.
 * signals: receives how many signals were taken; NULL if nobody wants to know.
 * Threads: the connection's; blocks up to wait_ms; calls back.
 * Returns as ic_apid_conn_poll.
 * See also ic_apid_conn_send, ic_apid_conn_poll.
 */
int32_t ic_apid_conn_flush(struct IC_APID_CONNECTION *conn,
                           uint32_t wait_ms,
                           bool force,
                           uint32_t *signals);

/**
 * From now on a poll of the connection returns once so many operations have completed, instead of one:
 * fewer, fuller sends and fewer wake-ups for a thread with much in flight. It does not wait for more than
 * are in flight, nor longer than its wait_ms. A thread that sleeps in a poll is not woken for fewer, but
 * where transactions have several operations each, or rows come after their confirmations, it may be woken
 * sooner and sleep again. An error, the outcome of a commit or rollback that was asked for by itself, and
 * the loss of a data node wake it at once.
 * completions: 0 is as 1, which is the default.
 * Threads: the connection's; blocks never.
 * Returns 0.
 * See also ic_apid_conn_poll.
 */
int32_t ic_apid_conn_set_poll_min(struct IC_APID_CONNECTION *conn,
                                  uint32_t completions);

/**
 * How long what the connection sends from now on may go without a reply. At its deadline a transaction
 * without a sent commit is rolled back and ends with -30; one with writes whose commit was sent ends with
 * 4012, for it may have been committed. Both happen in a poll or a flush, which ends its wait for it. Other
 * operations go on. Transactions that are started already keep their limits.
 * milliseconds: from the send; 0: the deadline_ms of the connect arguments, whose own default is long enough
 *   for the cluster to deal with a node that fails.
 * Threads: the connection's; blocks never.
 * Returns 0.
 * See also ic_apid_transaction_set_deadline.
 */
int32_t ic_apid_conn_set_deadline(struct IC_APID_CONNECTION *conn,
                                  uint32_t milliseconds);

/**
 * As ic_apid_conn_set_deadline for one transaction, from its next send on.
 * milliseconds: from the send; 0: the connection's.
 * Threads: the connection's; blocks never.
 * Returns 0; -6 for a stale or foreign handle.
 * See also ic_apid_conn_set_deadline.
 */
int32_t ic_apid_transaction_set_deadline(struct IC_APID_CONNECTION *conn,
                                         IC_TRANS_ID trans,
                                         uint32_t milliseconds);

/**
 * A descriptor for event loops (poll, epoll, libuv): readable while there is something for ic_apid_conn_poll
 * to take. That is: replies, queries that have completed without one (those of a transaction that was rolled
 * back), deadlines, news of a lost data node, a disconnect. It stays readable until a poll, also one with
 * wait_ms 0, has taken all; then it is not readable. So the loop of a thread is: wait until it is readable,
 * ic_apid_conn_poll with a wait_ms of 0, then ic_apid_conn_send for what the callbacks have defined. What is
 * defined is not sent by itself. The number of ic_apid_conn_set_poll_min does not matter here, and a query
 * that waits on the executed list, which a poll has taken already, does not make it readable.
 * The connection owns the descriptor: wait for it to be readable, but never read, write or close it.
 * ic_apid_conn_free closes it; take it out of the event loop before. It is the same at every call; before
 * the first there is none, and nothing is spent on it. From then on, until the connection is freed, the
 * receive threads of the cluster handle read for all of its connections: no polling thread does it itself
 * (see lend_receive).
 * Threads: the connection's; blocks never.
 * Returns the descriptor, 0 or more; -21 if the process or the system has no descriptor left.
 * See also ic_apid_conn_poll, ic_apid_conn_send.
 */
int32_t ic_apid_conn_fd(struct IC_APID_CONNECTION *conn);

/**
 * From now on a definition is refused with -21 while so many operations of the connection are in flight
 * (defined and not complete), and a start of a transaction while twice as many are open. What is in flight
 * already stays so.
 * operations: how many; 0 for max_in_flight of the connect arguments.
 * Threads: the connection's; blocks never.
 * Returns 0.
 */
int32_t ic_apid_conn_set_max_in_flight(struct IC_APID_CONNECTION *conn,
                                       uint32_t operations);

/**
 * Creates a query: one operation on a table that is defined, sent and completed again and again, with rows
 * of its own, sized by its records. The rows begin as zeros.
 * table: of the same cluster handle as the connection. Table and records may be freed before the query.
 * key: a record of the table that holds all columns of the primary key.
 * attr: a record of the table: the columns that are read and written; NULL for none. May be the same as key.
 * query: receives the handle, to be freed with ic_apid_query_free or with the connection.
 * Threads: the connection's; blocks never.
 * Returns 0; -9 for a record of another table or a key that is not whole; -21 when 1048576 exist.
 * See also ic_apid_query_key_row, ic_apid_query_attr_row, ic_apid_conn_write_key, ic_apid_conn_read_key.
 */
int32_t ic_apid_query_create(struct IC_APID_CONNECTION *conn,
                             struct IC_TABLE_DEF *table,
                             struct IC_RECORD *key,
                             struct IC_RECORD *attr,
                             IC_QUERY_ID *query);

/**
 * Frees a query that is not in flight; also in its own callback. Its rows must not be touched any more.
 * Threads: the connection's; blocks never.
 * Returns 0; -5 for a stale or foreign handle; -7 while it is in flight.
 * See also ic_apid_query_create.
 */
int32_t ic_apid_query_free(struct IC_APID_CONNECTION *conn,
                           IC_QUERY_ID query);

/**
 * The key row of a query, to be filled in place. The caller's while the query is idle or complete, in its
 * callback too.
 * len: receives the row's length in bytes, 0 without a row; NULL if nobody wants to know.
 * Threads: the connection's; blocks never.
 * Returns the row, aligned to 16 bytes and at the same address for the query's life; NULL while the query is
 *   in flight (the row is the library's then), for a stale or foreign handle, or if the connection cannot be
 *   used.
 * See also ic_apid_query_attr_row.
 */
uint8_t *ic_apid_query_key_row(struct IC_APID_CONNECTION *conn,
                               IC_QUERY_ID query,
                               uint32_t *len);

/**
 * The attribute row of a query: what a write takes and a read fills. After a read that failed its contents
 * mean nothing. The caller's while the query is idle or complete, in its callback too.
 * len: receives the row's length in bytes, 0 without a row; NULL if nobody wants to know.
 * Threads: the connection's; blocks never.
 * Returns the row, as ic_apid_query_key_row; NULL also when the query has no attribute record.
 * See also ic_apid_query_key_row.
 */
uint8_t *ic_apid_query_attr_row(struct IC_APID_CONNECTION *conn,
                                IC_QUERY_ID query,
                                uint32_t *len);

/**
 * The error of a query's last completion. Where a commit rode with it, it is 0 only if that has succeeded,
 * too.
 * Threads: the connection's; blocks never.
 * Returns that error: 0, a code of the data nodes (626: no such row), or one of this library; -5 for a stale
 *   or foreign handle.
 * See also ic_apid_query_explain, ic_apid_transaction_error.
 */
int32_t ic_apid_query_error(struct IC_APID_CONNECTION *conn,
                            IC_QUERY_ID query);

/**
 * What the query's last definition gave as user_ref.
 * Threads: the connection's; blocks never.
 * Returns it; NULL for a stale or foreign handle, or if the connection cannot be used.
 * See also ic_apid_conn_get_next_executed_query.
 */
void *ic_apid_query_user_ref(struct IC_APID_CONNECTION *conn, IC_QUERY_ID query);

/**
 * Takes the oldest completed query without a callback off the executed list, which makes it idle. Until then
 * it cannot be defined again.
 * query: receives the handle.
 * Threads: the connection's; blocks never, takes no replies: that is for a poll or flush before.
 * Returns true; false when the list is empty or the connection cannot be used.
 * See also ic_apid_query_error, ic_apid_query_user_ref, ic_apid_conn_flush.
 */
bool ic_apid_conn_get_next_executed_query(struct IC_APID_CONNECTION *conn,
                                          IC_QUERY_ID *query);

/**
 * Which part of the table a key is in, as a hint for ic_apid_conn_start_transaction: the data node that has
 * the row then coordinates, one hop less. A hint never changes what a transaction does.
 * table: the one that the transaction is about.
 * record: a record of it that has the columns of the distribution key, mostly the key record.
 * key: a row of that record, filled; only read.
 * key_len: its length in bytes, which is ic_record_row_size.
 * Threads: the connection's; blocks never.
 * Returns the hint; 0 when there is none: the distribution cannot be computed (for example a collation other
 *   than a binary one), a pointer is NULL, or key_len is not the record's row length.
 * See also ic_apid_conn_hints_for_keys, ic_apid_conn_start_transaction.
 */
uint32_t ic_apid_conn_hint_for_key(struct IC_APID_CONNECTION *conn,
                                   struct IC_TABLE_DEF *table,
                                   struct IC_RECORD *record,
                                   const uint8_t *key,
                                   uint32_t key_len);

/**
 * As ic_apid_conn_hint_for_key for many keys at once, at a fraction of its cost for each if the distribution
 * key is one number of 4 or 8 bytes: eight such keys are hashed side by side. For whoever starts several
 * transactions in a row.
 * table: the one that the transactions are about.
 * record: a record of it that has the columns of the distribution key, mostly the key record.
 * keys: count rows of that record, filled, one behind the other; only read.
 * key_len: the length of each in bytes, which is ic_record_row_size.
 * count: how many keys; 0 is allowed.
 * hints: room for count hints, apart from keys; receives each key's, 0 for a key that has none. After an
 *   error all are 0.
 * Threads: the connection's; blocks never.
 * Returns 0; -4 for a NULL pointer, -9 for a record of another table, -10 when key_len is not the record's
 *   row length.
 * See also ic_apid_conn_hint_for_key, ic_apid_conn_start_transaction.
 */
int32_t ic_apid_conn_hints_for_keys(struct IC_APID_CONNECTION *conn,
                                    struct IC_TABLE_DEF *table,
                                    struct IC_RECORD *record,
                                    const uint8_t *keys,
                                    uint32_t key_len,
                                    uint32_t count,
                                    uint32_t *hints);

/**
 * Starts a transaction, on this side only: nothing of it is sent before it has an operation. If the node has
 * no coordinator record free, the transaction's requests are held back until it has.
 * hint: from ic_apid_conn_hint_for_key or ic_apid_conn_hints_for_keys with the same table; 0 for any node.
 * table: NULL only without a hint.
 * trans: receives the handle, to be closed with ic_apid_conn_close_transaction.
 * Threads: the connection's; blocks never.
 * Returns 0; temporary: -28 when no data node can take work now, -21 when too many transactions are open,
 *   -22 when too much waits for the node; -14 after a disconnect.
 * See also ic_apid_conn_write_key, ic_apid_conn_read_key, ic_apid_conn_commit_transaction,
 *   ic_apid_conn_close_transaction.
 */
int32_t ic_apid_conn_start_transaction(struct IC_APID_CONNECTION *conn,
                                       uint32_t hint,
                                       struct IC_TABLE_DEF *table,
                                       IC_TRANS_ID *trans);

/**
 * Sets write arguments to their defaults: IC_WRITE_KIND_WRITE, default abort option, no callback.
 * args: NULL does nothing.
 * size: sizeof *args.
 * Threads: any; blocks never.
 * See also ic_apid_conn_write_key.
 */
void ic_write_key_args_init(struct IC_WRITE_KEY_ARGS *args, size_t size);

/**
 * Sets read arguments to their defaults: IC_READ_KIND_COMMITTED, default abort option, no callback.
 * args: NULL does nothing.
 * size: sizeof *args.
 * Threads: any; blocks never.
 * See also ic_apid_conn_read_key.
 */
void ic_read_key_args_init(struct IC_READ_KEY_ARGS *args, size_t size);

/**
 * Defines a write in a transaction, from the query's rows: packs its request. Nothing is sent. From a
 * success on the rows are the library's until the query completes, once; after an error nothing is defined.
 * Insert and write store the key row's columns and the attribute row's; update stores the attribute row's
 * columns outside the key; delete looks at the key row alone.
 * query: idle, its rows filled.
 * trans: open. Operations of several tables may be in one.
 * args: NULL for all defaults. Copied.
 * Threads: the connection's; blocks never.
 * Returns 0; temporary: -21 if too much is in flight, -22 if too much waits to be sent, -28 if the cluster
 *   is coming back after the loss of all nodes; else: -5 for a stale or foreign handle of the query, -6 for
 *   one of the transaction; -7 if the query is in flight or waits on the executed list; -8 if the
 *   transaction takes no more work; -11 for a value longer than its column; -12 for a NULL key; -29 if key
 *   and row are too large; 241 if the table must be opened again; -14 after a disconnect.
 * See also ic_apid_conn_commit_transaction, ic_apid_conn_send, ic_write_key_args_init, ic_apid_query_error.
 */
int32_t ic_apid_conn_write_key(struct IC_APID_CONNECTION *conn,
                               IC_QUERY_ID query,
                               IC_TRANS_ID trans,
                               const struct IC_WRITE_KEY_ARGS *args);

/**
 * Defines a read in a transaction: packs its request from the query's key row. Nothing is sent. The columns
 * of the attribute record will be in the attribute row when the query is complete without an error; 626 if
 * there is no such row. From a success on the rows are the library's until the query completes, once; after
 * an error nothing is defined.
 * query: idle, its key row filled.
 * trans: open.
 * args: NULL for all defaults. Copied.
 * Threads: the connection's; blocks never.
 * Returns as ic_apid_conn_write_key.
 * See also ic_apid_conn_commit_transaction, ic_apid_conn_send, ic_read_key_args_init,
 *   ic_apid_conn_multi_read.
 */
int32_t ic_apid_conn_read_key(struct IC_APID_CONNECTION *conn,
                              IC_QUERY_ID query,
                              IC_TRANS_ID trans,
                              const struct IC_READ_KEY_ARGS *args);

/**
 * Asks for a transaction's commit. It rides on the last query that is defined; without one it follows what
 * is out. It goes out with the next send. No callback of the transaction's queries that are defined now runs
 * before the outcome is known. The transaction takes no more work.
 * Threads: the connection's; blocks never.
 * Returns 0: asked for, not done; the outcome is in ic_apid_query_error of its queries and
 *   ic_apid_transaction_error. -6 for a stale or foreign handle; -8 if it was committed, rolled back or has
 *   failed before.
 * See also ic_apid_conn_send, ic_apid_conn_rollback_transaction, ic_apid_conn_close_transaction,
 *   ic_apid_transaction_state.
 */
int32_t ic_apid_conn_commit_transaction(struct IC_APID_CONNECTION *conn,
                                        IC_TRANS_ID trans);

/**
 * Rolls a transaction back. Its queries that are not complete end with 4350. It goes out with the next send.
 * Threads: the connection's; blocks never.
 * Returns 0; -6 for a stale or foreign handle; -8 if its commit is under way or it is over.
 * See also ic_apid_conn_close_transaction.
 */
int32_t ic_apid_conn_rollback_transaction(struct IC_APID_CONNECTION *conn,
                                          IC_TRANS_ID trans);

/**
 * Gives a transaction up; each one that was started must be closed. One without a commit is rolled back,
 * with the next send; one whose commit is under way goes on. Its handle is stale at once; queries of it that
 * are in flight complete as they would.
 * Threads: the connection's; blocks never.
 * Returns 0; -6 for a stale or foreign handle.
 * See also ic_apid_conn_start_transaction, ic_apid_conn_commit_transaction.
 */
int32_t ic_apid_conn_close_transaction(struct IC_APID_CONNECTION *conn,
                                       IC_TRANS_ID trans);

/**
 * A transaction's error.
 * Threads: the connection's; blocks never.
 * Returns that error, 0 while there is none and after a success; -6 for a stale or foreign handle.
 * See also ic_apid_transaction_state, ic_apid_transaction_explain, ic_apid_query_error.
 */
int32_t ic_apid_transaction_error(struct IC_APID_CONNECTION *conn, IC_TRANS_ID trans);

/**
 * Where a transaction is.
 * Threads: the connection's; blocks never.
 * Returns one of IC_TRANS_STATE_*; -6 for a stale or foreign handle.
 * See also ic_apid_transaction_error.
 */
int32_t ic_apid_transaction_state(struct IC_APID_CONNECTION *conn, IC_TRANS_ID trans);

/**
 * Writes one row in a transaction of its own and waits for the outcome: for tools and tests. Other queries
 * of the connection that complete meanwhile are completed as in a poll.
 * query: idle, its rows filled.
 * args: NULL for all defaults. Its callback and user_ref are not used.
 * wait_ms: milliseconds to wait at most.
 * Threads: the connection's, not in a callback; blocks up to wait_ms; calls back for other queries.
 * Returns the outcome, 0 or the error of query or transaction; -27 if it is still in flight after wait_ms:
 *   then the query comes on the executed list later; -4 in a callback; else as
 *   ic_apid_conn_start_transaction and ic_apid_conn_write_key.
 * See also ic_apid_conn_read_key_sync, ic_apid_conn_write_key.
 */
int32_t ic_apid_conn_write_key_sync(struct IC_APID_CONNECTION *conn,
                                    IC_QUERY_ID query,
                                    const struct IC_WRITE_KEY_ARGS *args,
                                    uint32_t wait_ms);

/**
 * Reads one row in a transaction of its own and waits for it. Other queries of the connection that complete
 * meanwhile are completed as in a poll.
 * query: idle, its key row filled.
 * args: NULL for all defaults. Its callback and user_ref are not used.
 * wait_ms: milliseconds to wait at most.
 * Threads: the connection's, not in a callback; blocks up to wait_ms; calls back for other queries.
 * Returns as ic_apid_conn_write_key_sync; 626 if there is no such row.
 * See also ic_apid_conn_write_key_sync, ic_apid_conn_read_key.
 */
int32_t ic_apid_conn_read_key_sync(struct IC_APID_CONNECTION *conn,
                                   IC_QUERY_ID query,
                                   const struct IC_READ_KEY_ARGS *args,
                                   uint32_t wait_ms);

/**
 * Sets arguments of a multi-key read to their defaults: gather, the connection's deadline, no callback.
 * args: NULL does nothing.
 * size: sizeof *args.
 * Threads: any; blocks never.
 * See also ic_apid_conn_multi_read.
 */
void ic_multi_read_args_init(struct IC_MULTI_READ_ARGS *args,
                             size_t size);

/**
 * Reads many keys; completes once. Each query's key row names a key; the queries may be of several tables.
 * The keys are split by the data nodes that own them, each part goes out with the next send in its place
 * among all else that the connection has defined, and the parts are folded into one completion. Each row is
 * a committed row, as of a read of IC_READ_KIND_COMMITTED; nothing is promised across rows, and a write of
 * this connection that has not completed may or may not be seen. Until it completes and is taken, the
 * queries are in use.
 * queries: handles of idle queries, each once; the keys in them may be equal. Copied.
 * count: how many, 1 to IC_MULTI_READ_MAX_KEYS.
 * args: NULL for all defaults. Copied.
 * multi_read: receives the handle, to be closed with ic_apid_multi_read_close once it is complete; the end
 *   of its callback closes it too.
 * Threads: the connection's; blocks never.
 * Returns 0; temporary: -21 or -22 if too much is in flight or waits to be sent, -28 if no data node can
 *   take work; else: -7 if a query is in use or is named twice; -5 for a stale or foreign handle; 241 if a
 *   table is not what it was when it was opened; -12 for a NULL in a key; -11 for a value longer than its
 *   column; -14 after a disconnect. After an error nothing was done.
 * See also ic_apid_conn_multi_read_rows, ic_apid_multi_read_key_state,
 *   ic_apid_conn_get_next_executed_multi_read, ic_apid_conn_send.
 */
int32_t ic_apid_conn_multi_read(struct IC_APID_CONNECTION *conn,
                                const IC_QUERY_ID *queries,
                                uint32_t count,
                                const struct IC_MULTI_READ_ARGS *args,
                                IC_MULTI_READ_ID *multi_read);

/**
 * As ic_apid_conn_multi_read without queries of the caller's: a row of the key record per key, one after the
 * other, and a row of the attribute record per result.
 * table: the one that is read.
 * key: a record of it that holds all columns of the primary key.
 * attr: a record of it, the columns that are read; NULL for none.
 * keys: count rows of key, ic_record_row_size bytes each. Copied.
 * rows: room for count rows of attr, which must stay valid until the read is complete and taken; NULL for
 *   none. Rows of keys that were found are written when the callback is about to run, or when the read is
 *   taken off the executed list; the others are left alone.
 * count: how many keys, 1 to IC_MULTI_READ_MAX_KEYS.
 * args: NULL for all defaults. Copied.
 * multi_read: receives the handle, as there.
 * Threads: the connection's; blocks never.
 * Returns as ic_apid_conn_multi_read; -9 for a record of another table or a key that is not whole.
 * See also ic_apid_conn_multi_read, ic_apid_multi_read_key_state.
 */
int32_t ic_apid_conn_multi_read_rows(struct IC_APID_CONNECTION *conn,
                                     struct IC_TABLE_DEF *table,
                                     struct IC_RECORD *key,
                                     struct IC_RECORD *attr,
                                     const uint8_t *keys,
                                     uint8_t *rows,
                                     uint32_t count,
                                     const struct IC_MULTI_READ_ARGS *args,
                                     IC_MULTI_READ_ID *multi_read);

/**
 * Takes the oldest complete multi-key read without a callback off the list of executed ones. Its queries are
 * idle.
 * multi_read: receives the handle, which is to be closed.
 * Threads: the connection's; blocks never, takes no replies: that is for a poll or flush before.
 * Returns true; false when the list is empty or the connection cannot be used.
 * See also ic_apid_multi_read_error, ic_apid_multi_read_close.
 */
bool ic_apid_conn_get_next_executed_multi_read(struct IC_APID_CONNECTION *conn,
                                               IC_MULTI_READ_ID *multi_read);

/**
 * The error of a multi-key read as a whole: that of the first key that could not be read. A missing row is
 * no error.
 * Threads: the connection's; blocks never.
 * Returns that error, 0 for none; -27 while it is out; -5 for a stale or foreign handle.
 * See also ic_apid_multi_read_key_error.
 */
int32_t ic_apid_multi_read_error(struct IC_APID_CONNECTION *conn,
                                 IC_MULTI_READ_ID multi_read);

/**
 * How many of its keys were found so far; a key that was asked for twice counts twice.
 * Threads: the connection's; blocks never.
 * Returns the number; 0 for a stale or foreign handle, or if the connection cannot be used.
 * See also ic_apid_multi_read_key_state.
 */
uint32_t ic_apid_multi_read_found(struct IC_APID_CONNECTION *conn, IC_MULTI_READ_ID multi_read);

/**
 * What became of one of its keys. A key of a node that failed is never said to be missing.
 * index: the key's place in the call, from 0.
 * Threads: the connection's; blocks never.
 * Returns one of IC_KEY_STATE_*; -1 for an index out of range; -5 for a stale or foreign handle.
 * See also ic_apid_multi_read_key_error.
 */
int32_t ic_apid_multi_read_key_state(struct IC_APID_CONNECTION *conn,
                                     IC_MULTI_READ_ID multi_read,
                                     uint32_t index);

/**
 * The error of one of its keys.
 * index: the key's place in the call, from 0.
 * Threads: the connection's; blocks never.
 * Returns 0 for a key that was found, 626 for one that is missing, else why it could not be read; -27 while
 *   that is not known; -1 for an index out of range; -5 for a stale or foreign handle.
 * See also ic_apid_multi_read_key_state.
 */
int32_t ic_apid_multi_read_key_error(struct IC_APID_CONNECTION *conn,
                                     IC_MULTI_READ_ID multi_read,
                                     uint32_t index);

/**
 * What the call that started it gave as user_ref.
 * Threads: the connection's; blocks never.
 * Returns it; NULL for a stale or foreign handle, or if the connection cannot be used.
 * See also ic_apid_conn_get_next_executed_multi_read.
 */
void *ic_apid_multi_read_user_ref(struct IC_APID_CONNECTION *conn, IC_MULTI_READ_ID multi_read);

/**
 * Gives up a complete multi-key read and what is known of its keys. Rows and queries of the caller's are
 * left alone.
 * Threads: the connection's; blocks never.
 * Returns 0; -7 while it is out; -5 for a stale or foreign handle.
 * See also ic_apid_conn_multi_read.
 */
int32_t ic_apid_multi_read_close(struct IC_APID_CONNECTION *conn,
                                 IC_MULTI_READ_ID multi_read);

/**
 * What the connection has done so far.
 * stats: its size field, set by the caller, says how much of it is filled.
 * Threads: the connection's; blocks never.
 * Returns 0.
 * See also ic_apid_global_stats.
 */
int32_t ic_apid_conn_stats(struct IC_APID_CONNECTION *conn, struct IC_STATS *stats);

/**
 * What all connections of the handle have done so far, living and freed, and its links. Of a living
 * connection it knows what was so at that connection's last send, or last poll that took something; outcomes
 * and latencies are always up to date.
 * stats: its size field, set by the caller, says how much of it is filled.
 * Threads: any; blocks never, waits for no connection.
 * Returns 0; -14 if not connected.
 * See also ic_stats_print, ic_apid_conn_stats.
 */
int32_t ic_apid_global_stats(struct IC_APID_GLOBAL *glob,
                             struct IC_STATS *stats);

/**
 * The statistics of a cluster handle as text, as ic_apid_global_stats has them, with a line per data node.
 * format: one of IC_STATS_FORMAT_*.
 * buffer: receives the text and a NUL, or is left alone if it is too small; NULL if size is 0.
 * size: bytes of the buffer.
 * needed: receives how many bytes the text takes, its NUL included, also when the buffer is too small; NULL
 *   if nobody wants to know. The text grows a little as counters do: leave some room.
 * Threads: any; blocks never, waits for no connection.
 * Returns 0; -1 also if the buffer is too small; -14 if not connected.
 * See also ic_apid_global_stats.
 */
int32_t ic_stats_print(struct IC_APID_GLOBAL *glob,
                       int32_t format,
                       char *buffer,
                       size_t size,
                       size_t *needed);

/**
 * Sets what is told about connects, lost links, node states, registrations and retries, in all cluster
 * handles of the process. Text is composed only for levels that are asked for. On return the callback that
 * was set before runs no more, so its user_ref may go; only when called in a log callback, others may still
 * be in it.
 * callback: NULL for no log.
 * level: the highest that is wanted, IC_LOG_NONE to IC_LOG_DEBUG.
 * user_ref: given to the callback; never looked at. It must live until another callback is set.
 * Threads: any; blocks until log callbacks that run now have returned.
 * Returns 0; -1 for another level.
 * See also IC_LOG_CALLBACK, ic_set_signal_trace.
 */
int32_t ic_set_log(IC_LOG_CALLBACK callback,
                   int32_t level,
                   void *user_ref);

/**
 * Has every signal that is sent and received written in words: a line each, with NDB's names of signals,
 * blocks and fields. It shows keys and values, and makes the library slow. The environment variable
 * IC_SIGNAL_TRACE does the same from the first connect on.
 * path: `stderr`, or a file that is appended to; NULL or empty ends the trace. Copied.
 * Threads: any; blocks while the file is opened.
 * Returns 0; -1 if the file cannot be opened; -24 for a path that is no UTF-8.
 * See also ic_set_log.
 */
int32_t ic_set_signal_trace(const char *path);

/**
 * Sets start arguments to their defaults: 2 data nodes, 2 replicas, seed 0, any port, 1200 ms for a lock.
 * args: NULL does nothing.
 * size: sizeof *args.
 * Threads: any; blocks never.
 * See also ic_embedded_start.
 */
void ic_embedded_args_init(struct IC_EMBEDDED_ARGS *args,
                           size_t size);

/**
 * Starts a set of embedded data nodes; when it returns, clients can connect. Each node is a thread, and so
 * is the management server, with one more for each of its sessions.
 * args: NULL for all defaults.
 * cluster: receives the handle, to be freed with ic_embedded_stop.
 * Threads: any; blocks for some milliseconds.
 * Returns 0; -1 for arguments that do not fit; -2 if a socket or a thread could not be had.
 *   ic_embedded_error_text says more.
 * See also ic_embedded_connectstring, ic_embedded_stop, ic_apid_global_connect.
 */
int32_t ic_embedded_start(const struct IC_EMBEDDED_ARGS *args,
                          struct IC_EMBEDDED_CLUSTER **cluster);

/**
 * Why this thread's last ic_embedded_start failed, for a person.
 * Threads: any; blocks never.
 * Returns the text, empty if there is none; valid until this thread's next ic_embedded_start.
 * See also ic_embedded_start.
 */
const char *ic_embedded_error_text(void);

/**
 * What ic_apid_global_connect needs to find the nodes.
 * Threads: any; blocks never.
 * Returns the connectstring, valid as long as the handle; NULL for something else than a handle of embedded
 *   nodes, and in a forked child.
 * See also ic_apid_global_connect.
 */
const char *ic_embedded_connectstring(const struct IC_EMBEDDED_CLUSTER *cluster);

/**
 * Stops all nodes and frees the handle. Clients that are connected lose their links, as when real nodes end;
 * they may be disconnected before or after.
 * cluster: NULL does nothing.
 * Threads: any, but no other may use the handle; blocks until the nodes' threads have ended, some
 *   milliseconds.
 * Returns 0.
 * See also ic_embedded_start.
 */
int32_t ic_embedded_stop(struct IC_EMBEDDED_CLUSTER *cluster);

/**
 * Ends a node as a crash does: its links close, its rows are gone. When a node group has lost its last node,
 * all others end too. Nothing happens if it is down already.
 * node_id: of the node, from 1.
 * Threads: any; blocks until the node has ended, some milliseconds.
 * Returns 0; -1 if there is no such node.
 * See also ic_embedded_restart_node.
 */
int32_t ic_embedded_kill_node(struct IC_EMBEDDED_CLUSTER *cluster,
                              uint32_t node_id);

/**
 * Starts a node that was killed: it copies its rows from the others and joins them. If none is left, all
 * begin anew, without tables. Nothing happens if it runs.
 * node_id: of the node, from 1.
 * Threads: any; does not wait until the node takes work: ic_apid_global_wait_usable does.
 * Returns 0; -1 if there is no such node; -2 if a socket or a thread could not be had.
 * See also ic_embedded_kill_node, ic_apid_global_wait_usable.
 */
int32_t ic_embedded_restart_node(struct IC_EMBEDDED_CLUSTER *cluster,
                                 uint32_t node_id);

/**
 * Drops a node's link to a client, or its links to all: all nodes then expel whom it concerns, as real ones
 * do.
 * node_id: of the node, from 1.
 * client_id: a client's node id; 0: all clients.
 * fault: receives a number for ic_embedded_fault_consumed; NULL if nobody wants to know.
 * Threads: any; blocks never, the node does it soon.
 * Returns 0; -1 if there is no such node.
 * See also ic_embedded_fault_consumed, ic_apid_global_node_id.
 */
int32_t ic_embedded_drop_link(struct IC_EMBEDDED_CLUSTER *cluster,
                              uint32_t node_id,
                              uint32_t client_id,
                              uint32_t *fault);

/**
 * Has a node send garbage to its clients, then close their links.
 * node_id: of the node, from 1.
 * fault: receives a number for ic_embedded_fault_consumed; NULL if nobody wants to know.
 * Threads: any; blocks never, the node does it soon.
 * Returns 0; -1 if there is no such node.
 * See also ic_embedded_fault_consumed.
 */
int32_t ic_embedded_send_garbage(struct IC_EMBEDDED_CLUSTER *cluster,
                                 uint32_t node_id,
                                 uint32_t *fault);

/**
 * Has a node send nothing for some time.
 * node_id: of the node, from 1.
 * ms: milliseconds from now.
 * fault: receives a number for ic_embedded_fault_consumed, which is true once a reply has waited; NULL if
 *   nobody wants to know.
 * Threads: any; blocks never.
 * Returns 0; -1 if there is no such node.
 * See also ic_embedded_fault_consumed, ic_embedded_delay.
 */
int32_t ic_embedded_stall(struct IC_EMBEDDED_CLUSTER *cluster,
                          uint32_t node_id,
                          uint32_t ms,
                          uint32_t *fault);

/**
 * Has a node hold back each of its replies for some time, until it is told otherwise.
 * node_id: of the node, from 1.
 * ms: milliseconds that each reply is held back; 0 ends it.
 * fault: receives a number for ic_embedded_fault_consumed, which is true once a reply was held back; NULL if
 *   nobody wants to know.
 * Threads: any; blocks never.
 * Returns 0; -1 if there is no such node.
 * See also ic_embedded_fault_consumed, ic_embedded_stall.
 */
int32_t ic_embedded_delay(struct IC_EMBEDDED_CLUSTER *cluster,
                          uint32_t node_id,
                          uint32_t ms,
                          uint32_t *fault);

/**
 * Has one operation fail. Replaces what was asked of the node before and has not happened yet.
 * node_id: of the node that coordinates the operation, from 1.
 * nth: which one, counted from now; 1 is the next.
 * code: with which error of data nodes, above 0.
 * fault: receives a number for ic_embedded_fault_consumed; NULL if nobody wants to know.
 * Threads: any; blocks never.
 * Returns 0; -1 if there is no such node, or for an nth or code below 1.
 * See also ic_embedded_fault_consumed.
 */
int32_t ic_embedded_fail_operation(struct IC_EMBEDDED_CLUSTER *cluster,
                                   uint32_t node_id,
                                   uint32_t nth,
                                   int32_t code,
                                   uint32_t *fault);

/**
 * Has the management server refuse the next requests for a node id.
 * count: how many; 0 ends it.
 * fault: receives a number for ic_embedded_fault_consumed, which is true once one was refused; NULL if
 *   nobody wants to know.
 * Threads: any; blocks never.
 * Returns 0.
 * See also ic_embedded_fault_consumed.
 */
int32_t ic_embedded_refuse_node_ids(struct IC_EMBEDDED_CLUSTER *cluster,
                                    uint32_t count,
                                    uint32_t *fault);

/**
 * Whether a fault that was asked for has happened. A test that does not ask may have tested nothing.
 * fault: its number.
 * Threads: any; blocks never.
 * Returns true if so; false also for a number that no fault has, for something else than a handle of
 *   embedded nodes, and in a forked child.
 */
bool ic_embedded_fault_consumed(const struct IC_EMBEDDED_CLUSTER *cluster,
                                uint32_t fault);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* IC_APID_H */
