"""Single-row INSERT and SELECT through the real server, from a raw-frame client in a process of its own.

    ./run bench points [--rows N] [--fsync group|periodic|none]

For every run: requests per second as the client sees them, the server's processor time per request and what
one core could so serve, and latency percentiles. The limit to compare with is the same machine's fdatasync:
`fsync` lines show what a bare append-and-sync loop does in the same directory, measured between the runs.
"""

import argparse
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uvloop
from _machine import cpu_seconds, describe, resident_mib
from _raw_client import RawConnection, connect, execute_body, run_pipelines

KEYSPACE = "CREATE KEYSPACE bench WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
TABLE = (
    "CREATE TABLE bench.points (k bigint, c int, a text, b text, n int, m bigint, x double, f boolean,"
    " PRIMARY KEY (k, c))"
)
INSERT = "INSERT INTO bench.points (k, c, a, b, n, m, x, f) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
SELECT = "SELECT k, c, a, b, n, m, x, f FROM bench.points WHERE k = ? AND c = ?"
RANGE = "SELECT k, c, a, b, n, m, x, f FROM bench.points WHERE k = ? LIMIT 20"
PER_PARTITION = 20


def row(number: int) -> list[bytes]:
    return [
        struct.pack(">q", number // PER_PARTITION * 7919),
        struct.pack(">i", number % PER_PARTITION),
        b"name-%09d" % number,
        b"some text of a usual length, forty-odd by",
        struct.pack(">i", number & 0xFFFF),
        struct.pack(">q", number * 31),
        struct.pack(">d", number * 0.5),
        b"\1" if number & 1 else b"\0",
    ]


def key(number: int) -> list[bytes]:
    return row(number)[:2]


class Server:
    def __init__(self, data: Path, fsync: str, *options: str) -> None:
        command = [sys.executable, "-m", "belvedere.cli.main", "start", "--port", "0"]
        command += ["--data", str(data), "--fsync", fsync, *options]
        began = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.seconds = time.perf_counter() - began
        if " on 127.0.0.1:" not in line:
            raise SystemExit("the server did not start")
        self.port = int(line.split(" on 127.0.0.1:")[1].split(",")[0])

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def report(title: str, count: int, seconds: float, cpu: float, latencies: list[float]) -> None:
    micros = cpu / count * 1e6
    p50, p99, p999 = (latencies[min(len(latencies) - 1, int(len(latencies) * q))] for q in (0.5, 0.99, 0.999))
    print(
        f"{title:<44} {count / seconds:>9,.0f}/s"
        f"   server {micros:>5.1f} µs each = {1e6 / micros:>7,.0f}/s a core"
        f"   p50 {p50 * 1e3:.2f}  p99 {p99 * 1e3:.2f}  p99.9 {p999 * 1e3:.2f} ms",
        flush=True,
    )


async def measure(
    title: str, server: Server, connections: list[RawConnection], bodies: list[bytes], in_flight: int
) -> None:
    before = cpu_seconds(server.pid)
    seconds, latencies = await run_pipelines(connections, bodies, in_flight)
    report(title, len(bodies), seconds, cpu_seconds(server.pid) - before, latencies)


def bare_fsync(folder: Path, size: int, count: int = 300) -> None:
    """What the disk itself allows: append so many bytes and fdatasync, one after the other."""
    path = folder / "fsync-probe"
    handle = os.open(path, os.O_CREAT | os.O_WRONLY)
    os.posix_fallocate(handle, 0, size * count)
    block = os.urandom(size)
    began = time.perf_counter()
    for index in range(count):
        os.pwrite(handle, block, index * size)
        os.fdatasync(handle)
    seconds = time.perf_counter() - began
    os.close(handle)
    path.unlink()
    print(f"{f'  fsync alone, {size:,} bytes each':<44} {count / seconds:>9,.0f}/s")


async def run(arguments: argparse.Namespace, folder: Path) -> None:
    server = Server(folder / "data", arguments.fsync)
    print(f"started in {server.seconds:.2f} s, {resident_mib(server.pid):.0f} MiB resident")
    try:
        connections = [await connect("127.0.0.1", server.port) for _ in range(arguments.connections)]
        first = connections[0]
        await first.query(KEYSPACE)
        await first.query(TABLE)
        insert, select, ranged = [await first.prepare(text) for text in (INSERT, SELECT, RANGE)]
        rows = arguments.rows
        writes = [execute_body(insert, row(number)) for number in range(rows)]
        # Spread over partitions, as independent clients do: neighbours are not written together.
        scattered = [writes[number * 7919 % rows] for number in range(rows)]
        reads = [execute_body(select, key(number * 104729 % rows)) for number in range(rows)]
        ranges = [execute_body(ranged, key(number * 104729 % rows)[:1]) for number in range(rows // 5)]
        for depth in (1, 64, 256):
            bare_fsync(folder, 16 + 150 * depth)
            some = scattered[: rows // 20 if depth == 1 else rows]
            each = max(1, depth // len(connections))
            users = connections[:1] if depth == 1 else connections
            title = f"INSERT, {depth} in flight, fsync {arguments.fsync}"
            await measure(title, server, users, some, each)
        await measure("INSERT, 1,024 in flight", server, connections, scattered, 1024 // len(connections))
        for depth in (1, 256):
            users = connections[:1] if depth == 1 else connections
            some = reads[: rows // 20] if depth == 1 else reads
            await measure(
                f"SELECT by key, {depth} in flight (memory)", server, users, some, max(1, depth // len(users))
            )
        await measure("SELECT 20 rows, 256 in flight (memory)", server, connections, ranges, 64)
    finally:
        server.stop()
    server = Server(folder / "data", arguments.fsync)
    print(f"restarted in {server.seconds:.2f} s: the rows are in Parquet files now")
    try:
        connections = [await connect("127.0.0.1", server.port) for _ in range(arguments.connections)]
        for connection in connections:
            await connection.prepare(SELECT)
            await connection.prepare(RANGE)
        few = reads[: max(1000, rows // 20)]
        await measure("SELECT by key, 1 in flight (cold files)", server, connections[:1], few, 1)
        await measure("SELECT by key, 256 in flight (warming)", server, connections, reads, 64)
        await measure("SELECT by key, 256 in flight (cached files)", server, connections, reads, 64)
        await measure("SELECT 20 rows, 256 in flight (cached files)", server, connections, ranges, 64)
        print(f"server: {resident_mib(server.pid):.0f} MiB resident")
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--fsync", choices=("group", "periodic", "none"), default="group")
    parser.add_argument("--folder", type=Path, help="where to put the data (default: a temporary folder)")
    arguments = parser.parse_args()
    print(describe())
    folder = Path(tempfile.mkdtemp(prefix="belvedere-bench-", dir=arguments.folder))
    try:
        uvloop.run(run(arguments, folder))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
