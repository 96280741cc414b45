"""Writes rows and reads them back, 256 in flight, in asyncio's event loop.

    pipeline.py [CONNECTSTRING]

Without a connectstring it runs on data nodes inside itself.
"""

import asyncio
import ctypes
import sys
import time

import iclaustron as ic

ROWS = 50000
IN_FLIGHT = 256


class Row(ctypes.Structure):
    """A row of test.ic_python, the columns in order."""

    _fields_ = [("id", ctypes.c_uint32), ("value", ctypes.c_uint64)]


COLUMNS = [
    ic.Column(name=b"id", kind=ic.TYPE_UNSIGNED, flags=ic.COLUMN_PRIMARY_KEY),
    ic.Column(name=b"value", kind=ic.TYPE_BIGUNSIGNED),
]


async def again(operation):
    """Runs an operation until it ends, through errors that are worth another try. Writing a row twice does no harm."""
    while True:
        try:
            return await operation()
        except ic.Error as error:
            if not error.is_temporary:
                raise
            await asyncio.sleep(0.01)


async def phase(name, work):
    """Runs work(id) for every id, as many at once as there are workers."""
    ids, began = iter(range(ROWS)), time.monotonic()

    async def worker():
        for number in ids:
            await again(lambda: work(number))

    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    seconds = time.monotonic() - began
    print(f"{name}: {ROWS} rows in {seconds:.2f} s, {ROWS / seconds:.0f} rows a second")


async def run(cluster):
    table = ic.Table(cluster, "test", "ic_python", Row)
    conn = ic.AsyncConnection(cluster, table, IN_FLIGHT)

    async def check(number):
        row = await conn.read(id=number)
        assert row.id == number and row.value == number * 3, (number, row.value)

    await phase("write", lambda number: conn.write(id=number, value=number * 3))
    await phase("read", check)
    try:
        await conn.read(id=ROWS)
    except ic.Error as error:
        print(error)
    conn.close()
    table.close()


def main():
    nodes = None if len(sys.argv) > 1 else ic.EmbeddedNodes()
    cluster = ic.Cluster(nodes.connectstring if nodes else sys.argv[1])
    try:
        cluster.drop_table("test", "ic_python")
    except ic.Error as error:
        if error.code != 723:  # there is none
            raise
    cluster.create_table("test", "ic_python", COLUMNS)
    asyncio.run(run(cluster))
    cluster.drop_table("test", "ic_python")
    cluster.free()
    if nodes:
        nodes.stop()


if __name__ == "__main__":
    main()
