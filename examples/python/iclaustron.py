"""libiclaustron for Python, through ic_apid.h alone: ctypes, the executed list and the descriptor, no callbacks.

What is here is what pipeline.py needs, and the pattern for more: a prototype per call, a class per handle, and
AsyncConnection, which turns completions into asyncio's futures. doc/bindings.md has the reasons.

The library is found by its name, or where the environment variable IC_LIBRARY says.
"""

import asyncio
import ctypes
import ctypes.util
import os
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p, sizeof

TYPE_UNSIGNED, TYPE_BIGUNSIGNED = 8, 10
COLUMN_PRIMARY_KEY = 1
WRITE_KIND_WRITE = 3


class Column(Structure):
    """IC_COLUMN"""

    _fields_ = [("name", c_char_p), ("kind", c_int32), ("length", c_uint32), ("precision", c_uint32),
                ("scale", c_uint32), ("charset", c_uint32), ("flags", c_uint32), ("row_bytes", c_uint32)]


class KeyArgs(Structure):
    """IC_WRITE_KEY_ARGS and IC_READ_KEY_ARGS, which have the same layout. The callback stays NULL."""

    _fields_ = [("size", c_size_t), ("kind", c_int32), ("abort_option", c_int32), ("callback", c_void_p),
                ("user_ref", c_void_p)]


def _load():
    path = os.environ.get("IC_LIBRARY") or ctypes.util.find_library("iclaustron") or "libiclaustron.so.0"
    # CDLL gives the interpreter's lock up during a call, so a call that waits stops no other thread of Python. PyDLL keeps
    # it, which is cheaper for the calls that never wait.
    return ctypes.CDLL(path), ctypes.PyDLL(path)


_waits, _quick = _load()


def _declare(library, name, result, *arguments):
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    return function


_error_message = _declare(_quick, "ic_error_message", c_char_p, c_int32)
_error_is_temporary = _declare(_quick, "ic_error_is_temporary", c_bool, c_int32)
_embedded_start = _declare(_waits, "ic_embedded_start", c_int32, c_void_p, POINTER(c_void_p))
_embedded_connectstring = _declare(_quick, "ic_embedded_connectstring", c_char_p, c_void_p)
_embedded_stop = _declare(_waits, "ic_embedded_stop", c_int32, c_void_p)
_global_create = _declare(_quick, "ic_apid_global_create", c_int32, POINTER(c_void_p))
_global_connect = _declare(_waits, "ic_apid_global_connect", c_int32, c_void_p, c_char_p, c_void_p)
_global_error_text = _declare(_quick, "ic_apid_global_error_text", c_char_p, c_void_p)
_global_free = _declare(_waits, "ic_apid_global_free", c_int32, c_void_p)
_table_create = _declare(_waits, "ic_apid_table_create", c_int32, c_void_p, c_char_p, c_char_p, POINTER(Column), c_uint32,
                         c_size_t, c_void_p)
_table_drop = _declare(_waits, "ic_apid_table_drop", c_int32, c_void_p, c_char_p, c_char_p)
_table_open = _declare(_waits, "ic_apid_table_open", c_int32, c_void_p, c_char_p, c_char_p, POINTER(c_void_p))
_table_close = _declare(_quick, "ic_apid_table_close", c_int32, c_void_p)
_record_natural = _declare(_quick, "ic_record_create_natural", c_int32, c_void_p, POINTER(c_void_p))
_record_free = _declare(_quick, "ic_record_free", c_int32, c_void_p)
_record_row_size = _declare(_quick, "ic_record_row_size", c_uint32, c_void_p)
_conn_create = _declare(_quick, "ic_apid_conn_create", c_int32, c_void_p, POINTER(c_void_p))
_conn_free = _declare(_waits, "ic_apid_conn_free", c_int32, c_void_p)
_conn_fd = _declare(_quick, "ic_apid_conn_fd", c_int32, c_void_p)
_conn_send = _declare(_quick, "ic_apid_conn_send", c_int32, c_void_p, c_bool)
_conn_poll = _declare(_quick, "ic_apid_conn_poll", c_int32, c_void_p, c_uint32, POINTER(c_uint32))
_query_create = _declare(_quick, "ic_apid_query_create", c_int32, c_void_p, c_void_p, c_void_p, c_void_p,
                         POINTER(c_uint64))
_key_row = _declare(_quick, "ic_apid_query_key_row", c_void_p, c_void_p, c_uint64, POINTER(c_uint32))
_attr_row = _declare(_quick, "ic_apid_query_attr_row", c_void_p, c_void_p, c_uint64, POINTER(c_uint32))
_query_error = _declare(_quick, "ic_apid_query_error", c_int32, c_void_p, c_uint64)
_user_ref = _declare(_quick, "ic_apid_query_user_ref", c_void_p, c_void_p, c_uint64)
_next_executed = _declare(_quick, "ic_apid_conn_get_next_executed_query", c_bool, c_void_p, POINTER(c_uint64))
_hint_for_key = _declare(_quick, "ic_apid_conn_hint_for_key", c_uint32, c_void_p, c_void_p, c_void_p, c_void_p, c_uint32)
_start = _declare(_quick, "ic_apid_conn_start_transaction", c_int32, c_void_p, c_uint32, c_void_p, POINTER(c_uint64))
_write_key = _declare(_quick, "ic_apid_conn_write_key", c_int32, c_void_p, c_uint64, c_uint64, POINTER(KeyArgs))
_read_key = _declare(_quick, "ic_apid_conn_read_key", c_int32, c_void_p, c_uint64, c_uint64, POINTER(KeyArgs))
_commit = _declare(_quick, "ic_apid_conn_commit_transaction", c_int32, c_void_p, c_uint64)
_close = _declare(_quick, "ic_apid_conn_close_transaction", c_int32, c_void_p, c_uint64)
_write_args_init = _declare(_quick, "ic_write_key_args_init", None, POINTER(KeyArgs), c_size_t)
_read_args_init = _declare(_quick, "ic_read_key_args_init", None, POINTER(KeyArgs), c_size_t)


class Error(Exception):
    """A code that is not 0, with its meaning."""

    def __init__(self, code, text=""):
        super().__init__(f"error {code}: {_error_message(code).decode()}" + (f" ({text})" if text else ""))
        self.code = code

    @property
    def is_temporary(self):
        return _error_is_temporary(self.code)


class EmbeddedNodes:
    """Data nodes in this process, in memory."""

    def __init__(self):
        self._handle = c_void_p()
        code = _embedded_start(None, byref(self._handle))
        if code != 0:
            raise Error(code)
        self.connectstring = _embedded_connectstring(self._handle).decode()

    def stop(self):
        _embedded_stop(self._handle)


class Cluster:
    """A cluster that the program has joined."""

    def __init__(self, connectstring=None):
        self.handle = c_void_p()
        _global_create(byref(self.handle))
        self.check(_global_connect(self.handle, connectstring and connectstring.encode(), None))

    def check(self, code):
        if code != 0:
            raise Error(code, (_global_error_text(self.handle) or b"").decode())

    def create_table(self, database, name, columns):
        array = (Column * len(columns))(*columns)
        self.check(_table_create(self.handle, database.encode(), name.encode(), array, len(columns), sizeof(Column), None))

    def drop_table(self, database, name):
        self.check(_table_drop(self.handle, database.encode(), name.encode()))

    def free(self):
        self.check(_global_free(self.handle))


class Table:
    """A table with a record of all its columns, laid out as C, and so ctypes, lays out a struct of them."""

    def __init__(self, cluster, database, name, row):
        self.handle, self.record, self.row = c_void_p(), c_void_p(), row
        cluster.check(_table_open(cluster.handle, database.encode(), name.encode(), byref(self.handle)))
        cluster.check(_record_natural(self.handle, byref(self.record)))
        if _record_row_size(self.record) != sizeof(row):
            raise TypeError(f"a row of {name} has {_record_row_size(self.record)} bytes, not {sizeof(row)}")

    def close(self):
        _record_free(self.record)
        _table_close(self.handle)


class _Slot:
    """A query, the rows of it, and who waits for it."""

    def __init__(self, connection, table):
        self.query = c_uint64()
        connection._check(_query_create(connection._handle, table.handle, table.record, table.record, byref(self.query)))
        # The rows are at the same addresses for the query's life; they are the library's while it is in flight.
        self.key_address = _key_row(connection._handle, self.query, None)
        self.key = table.row.from_address(self.key_address)
        self.row = table.row.from_address(_attr_row(connection._handle, self.query, None))
        self.trans = c_uint64()
        self.future = None


class AsyncConnection:
    """A connection in asyncio's loop: operations are awaited, many at once. To be used by the loop's thread alone.

    What is defined in one turn of the loop goes out at the turn's end, in one write per data node.
    """

    def __init__(self, cluster, table, in_flight=256):
        self._handle, self._table = c_void_p(), table
        cluster.check(_conn_create(cluster.handle, byref(self._handle)))
        self._slots = [_Slot(self, table) for _ in range(in_flight)]
        # A query's user_ref is its slot's number, from 1: an integer in a pointer, which the library never looks at.
        self._free = list(range(1, in_flight + 1))
        self._waiting = asyncio.Semaphore(in_flight)
        self._loop = asyncio.get_running_loop()
        self._send_is_due = False
        self._write_args, self._read_args, self._done = KeyArgs(), KeyArgs(), c_uint64()
        _write_args_init(byref(self._write_args), sizeof(KeyArgs))
        _read_args_init(byref(self._read_args), sizeof(KeyArgs))
        self._fd = _conn_fd(self._handle)
        if self._fd < 0:
            raise Error(self._fd)
        self._loop.add_reader(self._fd, self._on_readable)

    @staticmethod
    def _check(code):
        if code != 0:
            raise Error(code)

    async def write(self, **columns):
        """Writes a row."""
        await self._run(_write_key, self._write_args, columns)

    async def read(self, **key):
        """Reads a row; an Error with code 626 if there is none. What comes back is a copy."""
        return await self._run(_read_key, self._read_args, key)

    async def _run(self, define, args, columns):
        async with self._waiting:
            number = self._free.pop()
            slot = self._slots[number - 1]
            try:
                for name, value in columns.items():
                    setattr(slot.key, name, value)
                    setattr(slot.row, name, value)
                self._define(slot, number, define, args)
                slot.future = self._loop.create_future()
                await self._completion(slot)
                self._check(_query_error(self._handle, slot.query))
                return self._table.row.from_buffer_copy(slot.row)
            finally:
                self._free.append(number)

    @staticmethod
    async def _completion(slot):
        """Whoever waits may be cancelled; the operation is out until it completes, and its slot is in use."""
        cancelled = None
        while not slot.future.done():
            try:
                await asyncio.shield(slot.future)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled:
            raise cancelled

    def _define(self, slot, number, define, args):
        handle, table = self._handle, self._table
        hint = _hint_for_key(handle, table.handle, table.record, slot.key_address, sizeof(table.row))
        self._check(_start(handle, hint, table.handle, byref(slot.trans)))
        args.user_ref = number
        try:
            self._check(define(handle, slot.query, slot.trans, byref(args)))
            self._check(_commit(handle, slot.trans))
        except Error:
            _close(handle, slot.trans)
            raise
        if not self._send_is_due:
            self._send_is_due = True
            self._loop.call_soon(self._send)

    def _send(self):
        self._send_is_due = False
        self._check(_conn_send(self._handle, True))

    def _on_readable(self):
        """Takes what has come: each completed query is on the executed list once."""
        handle, done = self._handle, self._done
        self._check(_conn_poll(handle, 0, None))
        while _next_executed(handle, byref(done)):
            slot = self._slots[_user_ref(handle, done) - 1]
            _close(handle, slot.trans)
            slot.future.set_result(None)

    def close(self):
        # The loop lets go of the descriptor before the connection closes it.
        self._loop.remove_reader(self._fd)
        self._check(_conn_free(self._handle))
