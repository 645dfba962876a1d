"""Sstables on their own: flush, compaction, scan, cold and cached point reads, without server or query layer.

    ./run bench storage [--rows N] [--rounds N]

Each figure stands beside the bare pyarrow call that does the same I/O on the same rows, measured in turns
with it; "ratio" is our time divided by its time (1.0 is the limit). Figures are medians over the rounds. Rows
made for the benchmark itself are hidden from the garbage collector (gc.freeze), as a server does.

    flush       rows of a memtable (Python objects) to a durable file   | write the same Arrow table
    compaction  four files that share a quarter of their rows           | read them and write them, unsorted
    scan        every row as a row object                               | read all row groups to Arrow
    cold point  one row, its row group not cached (in the page cache)   | read that row group to Arrow
    cached      one row, its row group decoded in the cache             | one row of a decoded Arrow table
"""

import argparse
import asyncio
import gc
import random
import shutil
import statistics
import struct
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from _machine import describe

from belvedere.model.rows import Row
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.token import token_of
from belvedere.model.types import BIGINT, BOOLEAN, DOUBLE, INT, TEXT
from belvedere.runtime.real import RealRuntime
from belvedere.storage.cache import GroupCache
from belvedere.storage.compaction import compact
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.sstable_format import GROUP_ROWS
from belvedere.storage.sstable_read import SSTable
from belvedere.storage.sstable_write import build_sstable

PER_PARTITION = 20
POINTS = 300
CACHED_POINTS = 20_000
TABLE = Table(
    bytes(16),
    "bench",
    "points",
    (
        Column("k", BIGINT, ColumnKind.PARTITION_KEY, 0),
        Column("c", INT, ColumnKind.CLUSTERING, 0),
        Column("a", TEXT, ColumnKind.REGULAR, 0),
        Column("b", TEXT, ColumnKind.REGULAR, 1),
        Column("n", INT, ColumnKind.REGULAR, 2),
        Column("m", BIGINT, ColumnKind.REGULAR, 3),
        Column("x", DOUBLE, ColumnKind.REGULAR, 4),
        Column("f", BOOLEAN, ColumnKind.REGULAR, 5),
    ),
    regular_ordinals=6,
)
# The bare side writes with the settings that the sstable writer uses.
PARQUET: dict[str, Any] = {"row_group_size": GROUP_ROWS, "compression": "zstd", "compression_level": 1}


def make_partitions(first: int, rows: int, timestamp: int) -> list[StoredPartition]:
    rnd = random.Random(first)
    encode = TABLE.clustering_order.encode
    partitions = []
    for number in range(first, first + rows // PER_PARTITION):
        key = struct.pack(">q", number)
        made = []
        for c in range(PER_PARTITION):
            cells: list[Any] = [
                b"name-%09d" % rnd.randrange(10**9),
                b"some text of a usual length, %08x" % rnd.getrandbits(32),
                struct.pack(">i", rnd.randrange(10**6)),
                struct.pack(">q", rnd.getrandbits(60)),
                struct.pack(">d", rnd.random()),
                b"\x01" if rnd.random() < 0.5 else b"\x00",
            ]
            made.append((encode([struct.pack(">i", c)]), Row(timestamp + c, 0, 0, True, None, cells)))
        partitions.append(StoredPartition(token_of(key), key, rows=made))
    partitions.sort(key=lambda partition: (partition.token, partition.key))
    return partitions


@dataclass
class Pair:
    ours: list[float]
    bare: list[float]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ours) / statistics.median(self.bare)


async def in_turns(rounds: int, ours: Callable[[], Any], bare: Callable[[], Any]) -> Pair:
    pair = Pair([], [])
    for number in range(rounds + 1):
        for work, times in ((ours, pair.ours), (bare, pair.bare)):
            start = time.perf_counter()
            result = work()
            if isinstance(result, Awaitable):
                await result
            if number:  # the first round warms up
                times.append(time.perf_counter() - start)
    return pair


def show(name: str, unit: str, pair: Pair, amount: Callable[[float], float]) -> None:
    ours, bare = (amount(statistics.median(times)) for times in (pair.ours, pair.bare))
    print(f"{name:<12}{ours:>12,.1f}{bare:>12,.1f} {unit:<8}{pair.ratio:>8.2f}")


class Bench:
    def __init__(self, runtime: RealRuntime, directory: str, rows: int, rounds: int) -> None:
        self._runtime = runtime
        self._directory = directory
        self._rows = rows
        self._rounds = rounds

    async def write(self, name: str, partitions: list[StoredPartition], version: int = 1) -> SSTable:
        built = build_sstable(TABLE, partitions, first_version=version, last_version=version)
        path = f"{self._directory}/{name}.parquet"
        await self._runtime.disk.write(path, built.data)
        return await SSTable.open(self._runtime, path, built.facts, GroupCache(0), TABLE)

    async def flush(self, partitions: list[StoredPartition]) -> SSTable:
        sstable = await self.write("flush", partitions)
        table = pq.read_table(sstable.path)
        bare_path = f"{self._directory}/bare.parquet"
        tokens = {"bloom_filter_options": {"_token": {"ndv": GROUP_ROWS, "fpp": 0.05}}}

        async def ours() -> None:
            await self.write("flush", partitions)

        async def bare() -> None:
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, use_dictionary=False, **PARQUET, **tokens)
            await self._runtime.disk.write(bare_path, sink.getvalue().to_pybytes())

        pair = await in_turns(self._rounds, ours, bare)
        size = sstable.facts.size
        show("flush", "MB/s", pair, lambda t: size / t / 1e6)
        show("", "krows/s", pair, lambda t: self._rows / t / 1e3)
        return sstable

    async def compaction(self) -> None:
        quarter = self._rows // 4
        inputs = []
        for number in range(4):
            first = number * quarter * 3 // 4 // PER_PARTITION
            inputs.append(
                await self.write(f"in{number}", make_partitions(first, quarter, number), number + 1)
            )

        async def ours() -> None:
            built = await compact(self._runtime, TABLE, inputs, 0, 0)
            for number, one in enumerate(built):
                await self._runtime.disk.write(f"{self._directory}/out{number}.parquet", one.data)

        def bare() -> None:
            table = pa.concat_tables([pq.read_table(one.path) for one in inputs])
            pq.write_table(table, f"{self._directory}/bare.parquet", use_dictionary=False, **PARQUET)

        pair = await in_turns(self._rounds, ours, bare)
        size = sum(one.facts.size for one in inputs)
        rows = sum(one.facts.rows for one in inputs)
        show("compaction", "MB/s", pair, lambda t: size / t / 1e6)
        show("", "krows/s", pair, lambda t: rows / t / 1e3)

    async def scan(self, sstable: SSTable) -> None:
        # Room for the group that two batches share, not for all.
        cache: GroupCache[Any] = GroupCache(4 << 20)
        sstable = await SSTable.open(self._runtime, sstable.path, sstable.facts, cache, TABLE)

        async def ours() -> None:
            position: Any = (-(2**63), b"")
            count = 0
            while position is not None:
                partitions, position = await sstable.batch(position, 2**63 - 1, GROUP_ROWS)
                count += sum(len(partition.rows) for partition in partitions)
            assert count == sstable.facts.rows

        def bare() -> None:
            file = pq.ParquetFile(sstable.path)
            for number in range(file.num_row_groups):
                file.read_row_group(number, use_threads=False)

        pair = await in_turns(self._rounds, ours, bare)
        show("scan", "krows/s", pair, lambda t: sstable.facts.rows / t / 1e3)

    async def points(self, sstable: SSTable, partitions: list[StoredPartition]) -> None:
        rnd = random.Random(1)
        wanted = [(p.token, p.key, rnd.choice(p.rows)[0]) for p in rnd.choices(partitions, k=POINTS)]
        file = pq.ParquetFile(sstable.path)
        groups = [rnd.randrange(file.num_row_groups) for _ in range(POINTS)]

        async def cold() -> None:
            for token, key, ck in wanted:
                found = await sstable.partition(token, key, row=ck)
                assert found is not None
                assert len(found.rows) == 1

        def bare_cold() -> None:
            for number in groups:
                file.read_row_group(number, use_threads=False)

        pair = await in_turns(self._rounds, cold, bare_cold)
        show("cold point", "µs", pair, lambda t: t / POINTS * 1e6)
        cached = await SSTable.open(self._runtime, sstable.path, sstable.facts, GroupCache(2**32), TABLE)
        for number in range(len(sstable.facts.groups)):
            await cached.group(number)
        wanted = [(p.token, p.key, rnd.choice(p.rows)[0]) for p in rnd.choices(partitions, k=CACHED_POINTS)]
        table = file.read_row_group(0)

        async def warm() -> None:
            for token, key, ck in wanted:
                cached.partition_now(token, key, row=ck)

        def bare_warm() -> None:
            for number in range(CACHED_POINTS):
                table.slice(number % table.num_rows, 1).to_pylist()

        pair = await in_turns(self._rounds, warm, bare_warm)
        show("cached", "µs", pair, lambda t: t / CACHED_POINTS * 1e6)

    async def run(self) -> None:
        partitions = make_partitions(0, self._rows, 1_700_000_000_000_000)
        gc.collect()
        gc.freeze()
        sstable = await self.flush(partitions)
        await self.compaction()
        await self.scan(sstable)
        await self.points(sstable, partitions)


async def main(rows: int, rounds: int) -> None:
    directory = tempfile.mkdtemp(prefix="belvedere-bench-")
    runtime = RealRuntime()
    try:
        print(describe())
        print(f"{rows:,} rows of 8 columns, {PER_PARTITION} a partition, {rounds} rounds")
        print(f"{'':<12}{'ours':>12}{'bare':>12} {'':<8}{'ratio':>8}")
        await Bench(runtime, directory, rows, rounds).run()
    finally:
        await runtime.close()
        shutil.rmtree(directory)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    asyncio.run(main(options.rows, options.rounds))
