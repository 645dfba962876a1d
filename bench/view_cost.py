"""What materialized views cost those who write: single-row writes to tables with 0, 1, 2 and 4 views.

    ./run bench view_cost [--rounds N] [--rows N] [--fsync group|periodic|none]
    ./run bench view_cost --deletion [--deleted N]

All tables are in one server and take turns within every round, so what else the machine does falls on all of
them alike. Three kinds of writes, prepared: `new` inserts rows that were not there, `again` inserts rows over
those (they stay where they are in the views), `move` updates the columns that the views are keyed by. For
each, requests per second as a raw client sees them, and the server's processor time per request; for both
the ratio to the table without views, and what each view costs: the part of the bare write that it adds.

`--deletion` deletes one partition of very many rows from a table with views while another client reads a row
again and again: how long the deletion takes, how long the reader waited, and what memory was needed.
"""

import argparse
import asyncio
import shutil
import statistics
import struct
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from _machine import cpu_seconds_fine, describe, resident_mib
from _raw_client import RawConnection, connect, execute_body, run_pipelines
from points import KEYSPACE, PER_PARTITION, Server

TABLE = (
    "CREATE TABLE bench.{name} (customer bigint, id int, city text, email text, amount int, created bigint,"
    " price double, paid boolean, PRIMARY KEY (customer, id))"
)
#: In the order in which a table gets them: the second is narrow and has but half of the rows.
VIEWS = (
    "CREATE MATERIALIZED VIEW bench.{name}_by_city AS SELECT * FROM bench.{name} WHERE city IS NOT NULL"
    " AND customer IS NOT NULL AND id IS NOT NULL PRIMARY KEY (city, customer, id)",
    "CREATE MATERIALIZED VIEW bench.{name}_large AS SELECT customer, amount, id, email FROM bench.{name}"
    " WHERE customer IS NOT NULL AND id IS NOT NULL AND amount >= 50000 PRIMARY KEY (customer, amount, id)",
    "CREATE MATERIALIZED VIEW bench.{name}_by_email AS SELECT * FROM bench.{name} WHERE email IS NOT NULL"
    " AND customer IS NOT NULL AND id IS NOT NULL PRIMARY KEY (email, customer, id)",
    "CREATE MATERIALIZED VIEW bench.{name}_by_time AS SELECT customer, id, created, price FROM bench.{name}"
    " WHERE created IS NOT NULL AND customer IS NOT NULL AND id IS NOT NULL"
    " PRIMARY KEY (created, customer, id) WITH CLUSTERING ORDER BY (customer DESC, id ASC)",
)
COUNTS = (0, 1, 2, 4)
INSERT = (
    "INSERT INTO bench.{name} (customer, id, city, email, amount, created, price, paid)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
MOVE = "UPDATE bench.{name} SET city = ?, email = ?, amount = ?, created = ? WHERE customer = ? AND id = ?"
KINDS = ("new", "again", "move")


def key(number: int) -> list[bytes]:
    return [struct.pack(">q", number // PER_PARTITION * 7919), struct.pack(">i", number % PER_PARTITION)]


def place(number: int, turn: int) -> list[bytes]:
    """The columns that views are keyed by."""
    return [
        b"city-%05d" % ((number * 31 + turn * 17) % 9973),
        b"somebody.%09d.%d@example.org" % (number, turn),
        struct.pack(">i", (number * 7919 + turn * 50021) % 100_000),
        struct.pack(">q", 1_700_000_000_000 + (number * 104729 + turn * 7) % 86_400_000),
    ]


def row(number: int, price: float) -> list[bytes]:
    return [*key(number), *place(number, 0), struct.pack(">d", price), b"\1" if number & 1 else b"\0"]


@dataclass
class Measured:
    """What the rounds told of one kind of write to one table."""

    rates: list[float] = field(default_factory=list)
    micros: list[float] = field(default_factory=list)


class Table:
    """One table with some views, and the requests to it."""

    def __init__(self, views: int) -> None:
        self.views = views
        self.name = f"orders{views}"
        self.kinds = {kind: Measured() for kind in KINDS}
        self._insert = self._move = b""

    async def create(self, connection: RawConnection) -> None:
        await connection.query(TABLE.format(name=self.name))
        for text in VIEWS[: self.views]:
            await connection.query(text.format(name=self.name))
        self._insert = await connection.prepare(INSERT.format(name=self.name))
        self._move = await connection.prepare(MOVE.format(name=self.name))

    def bodies(self, kind: str, numbers: Sequence[int]) -> list[bytes]:
        match kind:
            case "new":
                return [execute_body(self._insert, row(number, number * 0.5)) for number in numbers]
            case "again":
                return [execute_body(self._insert, row(number, number * 0.25)) for number in numbers]
        return [execute_body(self._move, [*place(number, 1), *key(number)]) for number in numbers]


async def run_rounds(arguments: argparse.Namespace, folder: Path) -> None:
    server = Server(folder / "data", arguments.fsync, "--memtable-mb", "4096")
    try:
        connections = [await connect("127.0.0.1", server.port) for _ in range(4)]
        await connections[0].query(KEYSPACE)
        tables = [Table(views) for views in COUNTS]
        for table in tables:
            await table.create(connections[0])
        rows = arguments.rows
        for turn in range(arguments.rounds + 1):
            # Spread over partitions, as independent clients do.
            numbers = [turn * rows + index * 7919 % rows for index in range(rows)]
            for kind in KINDS:
                for offset in range(len(tables)):
                    table = tables[(turn + offset) % len(tables)]
                    bodies = table.bodies(kind, numbers)
                    before = cpu_seconds_fine(server.pid)
                    seconds, _ = await run_pipelines(connections, bodies, arguments.in_flight // 4)
                    spent = cpu_seconds_fine(server.pid) - before
                    if turn:  # The first round only warms up.
                        table.kinds[kind].rates.append(rows / seconds)
                        table.kinds[kind].micros.append(spent / rows * 1e6)
        report(tables)
        print(f"server: {resident_mib(server.pid):.0f} MiB resident")
    finally:
        server.stop()


def report(tables: list[Table]) -> None:
    print(f"{'':<18} {'requests':>12} {'ratio':>7}   {'server':>9} {'ratio':>7}   a view adds")
    bare = tables[0]
    for kind in KINDS:
        for table in tables:
            mine, alone = table.kinds[kind], bare.kinds[kind]
            rate, micros = statistics.median(mine.rates), statistics.median(mine.micros)
            slower = statistics.median(a / b for a, b in zip(mine.rates, alone.rates, strict=True))
            dearer = statistics.median(a / b for a, b in zip(mine.micros, alone.micros, strict=True))
            each = f"{(dearer - 1) / table.views:>8.0%} of the bare write" if table.views else ""
            print(
                f"{kind:<6} {table.views} views   {rate:>10,.0f}/s {slower:>7.2f}"
                f"   {micros:>6.1f} µs {dearer:>7.2f}   {each}"
            )


# --- a partition of very many rows --------------------------------------------------------------------


async def _look_every_millisecond(connection: RawConnection, body: bytes, waits: list[float]) -> None:
    """Reads one row again and again; how long each read took goes into `waits`."""
    while True:
        began = time.perf_counter()
        await connection.request(0x0A, body)
        waits.append(time.perf_counter() - began)
        await asyncio.sleep(0.001)


async def _watch_memory(pid: int, seen: list[float]) -> None:
    while True:
        seen.append(resident_mib(pid))
        await asyncio.sleep(0.05)


async def run_deletion(arguments: argparse.Namespace, folder: Path) -> None:
    server = Server(folder / "data", arguments.fsync)
    try:
        connections = [await connect("127.0.0.1", server.port) for _ in range(4)]
        first, other = connections[0], await connect("127.0.0.1", server.port)
        await first.query(KEYSPACE)
        table = Table(2)
        await table.create(first)
        insert = await first.prepare(INSERT.format(name=table.name))
        select = await other.prepare(f"SELECT price FROM bench.{table.name} WHERE customer = ? AND id = ?")
        read = execute_body(select, key(0))
        await first.request(0x0A, execute_body(insert, row(0, 1.0)))
        customer = struct.pack(">q", -1)
        rows = arguments.deleted
        for start in range(0, rows, 100_000):
            numbers = range(start, min(rows, start + 100_000))
            bodies = [
                execute_body(insert, [customer, struct.pack(">i", number), *row(number, 1.0)[2:]])
                for number in numbers
            ]
            await run_pipelines(connections, bodies, 64)
        print(f"{rows:,} rows in one partition, {table.views} views: {resident_mib(server.pid):.0f} MiB")
        await asyncio.sleep(1)
        waits: list[float] = []
        memory = [resident_mib(server.pid)]
        quiet = asyncio.create_task(_look_every_millisecond(other, read, waits))
        await asyncio.sleep(2)
        before, waits[:] = max(waits), []
        watch = asyncio.create_task(_watch_memory(server.pid, memory))
        began, spent = time.perf_counter(), cpu_seconds_fine(server.pid)
        await first.query(f"DELETE FROM bench.{table.name} WHERE customer = -1")
        seconds, spent = time.perf_counter() - began, cpu_seconds_fine(server.pid) - spent
        quiet.cancel()
        watch.cancel()
        waits.sort()
        print(f"DELETE: {seconds:.1f} s, {rows / seconds:,.0f} rows/s, {spent / rows * 1e6:.1f} µs a row")
        print(
            f"meanwhile a reader waited p50 {waits[len(waits) // 2] * 1e3:.1f}"
            f"  p99 {waits[len(waits) * 99 // 100] * 1e3:.1f}  longest {waits[-1] * 1e3:.1f} ms"
            f" (before: longest {before * 1e3:.1f} ms)"
        )
        print(f"memory: {memory[0]:.0f} MiB before, at most {max(memory):.0f} MiB meanwhile")
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=8000, help="requests of one kind to one table in a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--fsync", choices=("group", "periodic", "none"), default="group")
    parser.add_argument("--deletion", action="store_true", help="delete a large partition instead")
    parser.add_argument("--deleted", type=int, default=1_000_000, help="how many rows that has")
    parser.add_argument("--folder", type=Path, help="where to put the data (default: a temporary folder)")
    arguments = parser.parse_args()
    print(describe())
    folder = Path(tempfile.mkdtemp(prefix="belvedere-bench-", dir=arguments.folder))
    try:
        uvloop.run((run_deletion if arguments.deletion else run_rounds)(arguments, folder))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
