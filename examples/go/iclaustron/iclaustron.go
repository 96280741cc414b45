// Package iclaustron is libiclaustron for Go, through ic_apid.h alone: cgo, the executed list and the descriptor, no
// callbacks. What is here is what the example needs, and the pattern for more; doc/bindings.md has the reasons.
//
// A Conn is used by any number of goroutines: one goroutine of its own owns the library's connection, gathers what the
// others ask for, sends it in one write per data node, and hands out the outcomes.
package iclaustron

/*
#cgo pkg-config: iclaustron
#include <poll.h>
#include <stdlib.h>
#include <iclaustron/ic_apid.h>

static int is_readable(int fd)
{
  struct pollfd one = {.fd = fd, .events = POLLIN};
  return poll(&one, 1, 0) > 0;
}

// One call from Go instead of five: each costs some 50 ns.
static int32_t define(IC_APID_CONNECTION *conn, IC_TABLE_DEF *table, IC_RECORD *rec, IC_QUERY_ID query, bool write,
                      uintptr_t user_ref, IC_TRANS_ID *trans)
{
  uint32_t length;
  const uint8_t *key = ic_apid_query_key_row(conn, query, &length);
  int32_t code = ic_apid_conn_start_transaction(conn, ic_apid_conn_hint_for_key(conn, table, rec, key, length), table,
                                                trans);
  if (code != 0)
    return code;
  if (write) {
    IC_WRITE_KEY_ARGS args;
    ic_write_key_args_init(&args, sizeof args);
    args.user_ref = (void *)user_ref; // a number; the library never looks at it
    code = ic_apid_conn_write_key(conn, query, *trans, &args);
  } else {
    IC_READ_KEY_ARGS args;
    ic_read_key_args_init(&args, sizeof args);
    args.user_ref = (void *)user_ref;
    code = ic_apid_conn_read_key(conn, query, *trans, &args);
  }
  if (code == 0)
    code = ic_apid_conn_commit_transaction(conn, *trans);
  if (code != 0)
    ic_apid_conn_close_transaction(conn, *trans);
  return code;
}

// The next completed query: its number and its error.
static bool next(IC_APID_CONNECTION *conn, uintptr_t *user_ref, int32_t *error)
{
  IC_QUERY_ID query;
  if (!ic_apid_conn_get_next_executed_query(conn, &query))
    return false;
  *user_ref = (uintptr_t)ic_apid_query_user_ref(conn, query);
  *error = ic_apid_query_error(conn, query);
  return true;
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// Error is a code that is not 0.
type Error struct {
	Code int32
	Text string // what the library says of a connect or dictionary call
}

func (e *Error) Error() string {
	text := fmt.Sprintf("error %d: %s", e.Code, C.GoString(C.ic_error_message(C.int32_t(e.Code))))
	if e.Text != "" {
		text += " (" + e.Text + ")"
	}
	return text
}

// IsTemporary says whether the whole transaction is worth a retry after a pause.
func (e *Error) IsTemporary() bool {
	return bool(C.ic_error_is_temporary(C.int32_t(e.Code)))
}

func check(code C.int32_t) error {
	if code == 0 {
		return nil
	}
	return &Error{Code: int32(code)}
}

// EmbeddedNodes are data nodes in this process, in memory.
type EmbeddedNodes struct {
	handle *C.IC_EMBEDDED_CLUSTER
}

func StartEmbeddedNodes() (*EmbeddedNodes, error) {
	n := &EmbeddedNodes{}
	return n, check(C.ic_embedded_start(nil, &n.handle))
}

func (n *EmbeddedNodes) Connectstring() string {
	return C.GoString(C.ic_embedded_connectstring(n.handle))
}

func (n *EmbeddedNodes) Stop() error {
	return check(C.ic_embedded_stop(n.handle))
}

// Cluster is a cluster that the program has joined. Any goroutine may use it.
type Cluster struct {
	handle *C.IC_APID_GLOBAL
}

func Connect(connectstring string) (*Cluster, error) {
	c := &Cluster{}
	if err := check(C.ic_apid_global_create(&c.handle)); err != nil {
		return nil, err
	}
	text := C.CString(connectstring)
	defer C.free(unsafe.Pointer(text))
	if err := c.check(func() C.int32_t { return C.ic_apid_global_connect(c.handle, text, nil) }); err != nil {
		C.ic_apid_global_free(c.handle)
		return nil, err
	}
	return c, nil
}

// check runs a call whose failure the error text explains. The text is the calling thread's, so the goroutine stays on it.
func (c *Cluster) check(call func() C.int32_t) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if code := call(); code != 0 {
		return &Error{Code: int32(code), Text: C.GoString(C.ic_apid_global_error_text(c.handle))}
	}
	return nil
}

func (c *Cluster) Free() error {
	return check(C.ic_apid_global_free(c.handle))
}

// A Row of the example's tables: the columns in order, as C lays them out.
type Row struct {
	ID    uint32
	_     uint32
	Value uint64
}

// CreateTable creates a table of Rows.
func (c *Cluster) CreateTable(database, name string) error {
	db, table := C.CString(database), C.CString(name)
	id, value := C.CString("id"), C.CString("value")
	defer func() {
		for _, text := range []*C.char{db, table, id, value} {
			C.free(unsafe.Pointer(text))
		}
	}()
	// Memory of C, for it holds pointers of C's.
	columns := (*[2]C.IC_COLUMN)(C.calloc(2, C.sizeof_IC_COLUMN))
	defer C.free(unsafe.Pointer(columns))
	columns[0].name, columns[0].kind, columns[0].flags = id, C.IC_TYPE_UNSIGNED, C.IC_COLUMN_PRIMARY_KEY
	columns[1].name, columns[1].kind = value, C.IC_TYPE_BIGUNSIGNED
	return c.check(func() C.int32_t {
		return C.ic_apid_table_create(c.handle, db, table, &columns[0], 2, C.sizeof_IC_COLUMN, nil)
	})
}

func (c *Cluster) DropTable(database, name string) error {
	db, table := C.CString(database), C.CString(name)
	defer C.free(unsafe.Pointer(db))
	defer C.free(unsafe.Pointer(table))
	return c.check(func() C.int32_t { return C.ic_apid_table_drop(c.handle, db, table) })
}

// Table is a table of Rows. Any goroutine may use it.
type Table struct {
	handle *C.IC_TABLE_DEF
	record *C.IC_RECORD
}

func (c *Cluster) OpenTable(database, name string) (*Table, error) {
	db, table := C.CString(database), C.CString(name)
	defer C.free(unsafe.Pointer(db))
	defer C.free(unsafe.Pointer(table))
	t := &Table{}
	if err := c.check(func() C.int32_t { return C.ic_apid_table_open(c.handle, db, table, &t.handle) }); err != nil {
		return nil, err
	}
	if err := c.check(func() C.int32_t { return C.ic_record_create_natural(t.handle, &t.record) }); err != nil {
		return nil, err
	}
	if size := C.ic_record_row_size(t.record); uintptr(size) != unsafe.Sizeof(Row{}) {
		return nil, fmt.Errorf("a row of %s.%s has %d bytes", database, name, size)
	}
	return t, nil
}

func (t *Table) Close() {
	C.ic_record_free(t.record)
	C.ic_apid_table_close(t.handle)
}

// What a goroutine asks the owner of the connection to do.
type request struct {
	write bool
	row   *Row
	done  chan error
}

// A query with its rows, which are at the same addresses for its life, and who waits for it.
type slot struct {
	query    C.IC_QUERY_ID
	trans    C.IC_TRANS_ID
	key, row *Row
	request  request
}

// Conn runs operations of any number of goroutines on one connection of the library.
type Conn struct {
	handle   *C.IC_APID_CONNECTION
	table    *Table
	slots    []slot
	free     []int
	requests chan request
	readable chan struct{}
	taken    chan struct{}
	replies  *os.File // a descriptor of our own for the connection's
	closed   chan error
}

// NewConn makes a connection with so many operations in flight at most.
func (c *Cluster) NewConn(table *Table, inFlight int) (*Conn, error) {
	n := &Conn{table: table, slots: make([]slot, inFlight), requests: make(chan request, inFlight),
		readable: make(chan struct{}), taken: make(chan struct{}), closed: make(chan error)}
	if err := check(C.ic_apid_conn_create(c.handle, &n.handle)); err != nil {
		return nil, err
	}
	for i := range n.slots {
		s := &n.slots[i]
		if err := check(C.ic_apid_query_create(n.handle, table.handle, table.record, table.record, &s.query)); err != nil {
			return nil, err
		}
		s.key = (*Row)(unsafe.Pointer(C.ic_apid_query_key_row(n.handle, s.query, nil)))
		s.row = (*Row)(unsafe.Pointer(C.ic_apid_query_attr_row(n.handle, s.query, nil)))
		n.free = append(n.free, i)
	}
	fd := C.ic_apid_conn_fd(n.handle)
	if fd < 0 {
		return nil, check(fd)
	}
	// Go's poller closes what it is given, and the connection's descriptor is the library's: give it another one for it.
	ours, err := syscall.Dup(int(fd))
	if err != nil {
		return nil, err
	}
	if err := syscall.SetNonblock(ours, true); err != nil {
		return nil, err
	}
	n.replies = os.NewFile(uintptr(ours), "replies")
	go n.wait(int(fd))
	go n.run()
	return n, nil
}

// Write writes a row.
func (n *Conn) Write(row Row) error {
	return n.do(request{write: true, row: &row, done: make(chan error, 1)})
}

// Read reads the row whose key is in row.
func (n *Conn) Read(row *Row) error {
	return n.do(request{row: row, done: make(chan error, 1)})
}

func (n *Conn) do(r request) error {
	n.requests <- r
	return <-r.done
}

// Close ends the connection when all that was asked for is done. Nobody may use it any more.
func (n *Conn) Close() error {
	close(n.requests)
	return <-n.closed
}

// wait tells the owner when there is something to take, in a goroutine of its own that costs no thread meanwhile.
func (n *Conn) wait(fd int) {
	defer close(n.readable)
	raw, err := n.replies.SyscallConn()
	if err != nil {
		return
	}
	for raw.Read(func(uintptr) bool { return C.is_readable(C.int(fd)) != 0 }) == nil {
		n.readable <- struct{}{}
		<-n.taken
	}
}

// run is the owner of the connection: the only goroutine that calls the library with it.
func (n *Conn) run() {
	requests, out := n.requests, 0
	for requests != nil || out > 0 {
		ready := requests
		if len(n.free) == 0 {
			ready = nil // not more than there are slots
		}
		select {
		case r, open := <-ready:
			if !open {
				requests = nil
				continue
			}
			out += n.define(r)
			// What else is there goes out in the same write.
			for len(n.free) > 0 && len(requests) > 0 {
				out += n.define(<-requests)
			}
			C.ic_apid_conn_send(n.handle, true)
		case <-n.readable:
			out -= n.take()
			n.taken <- struct{}{}
		}
	}
	// Our descriptor goes first, then the library closes its own.
	n.replies.Close()
	for range n.readable {
		n.taken <- struct{}{}
	}
	n.closed <- check(C.ic_apid_conn_free(n.handle))
}

// define packs a request. How many operations are out by it.
func (n *Conn) define(r request) int {
	number := n.free[len(n.free)-1]
	s := &n.slots[number]
	*s.key, *s.row = *r.row, *r.row
	code := C.define(n.handle, n.table.handle, n.table.record, s.query, C.bool(r.write), C.uintptr_t(number), &s.trans)
	if code != 0 {
		r.done <- check(code)
		return 0
	}
	s.request = r
	n.free = n.free[:len(n.free)-1]
	return 1
}

// take takes what has come. How many operations have completed.
func (n *Conn) take() int {
	var number C.uintptr_t
	var code C.int32_t
	count := 0
	C.ic_apid_conn_poll(n.handle, 0, nil)
	for ; C.next(n.handle, &number, &code); count++ {
		s := &n.slots[number]
		C.ic_apid_conn_close_transaction(n.handle, s.trans)
		if code == 0 && !s.request.write {
			*s.request.row = *s.row
		}
		n.free = append(n.free, int(number))
		s.request.done <- check(code)
		s.request = request{}
	}
	return count
}
