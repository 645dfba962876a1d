"""Row groups and the windows of a compaction are bounded in bytes, not only in rows."""

import asyncio
import struct

import pytest

from belvedere.model.rows import Row
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.token import token_of
from belvedere.model.types import BLOB, INT
from belvedere.storage import compaction, sstable_write
from belvedere.storage.cache import GroupCache
from belvedere.storage.compaction import compact
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.sstable_format import BuiltSSTable
from belvedere.storage.sstable_read import SSTable
from belvedere.storage.sstable_write import build_sstable
from tests.storage.merge_reference import merge_stored
from tests.storage.sstable_samples import MemoryRuntime, canonical, open_built, read_all

TABLE = Table(
    bytes(16),
    "ks",
    "pictures",
    (
        Column("k", INT, ColumnKind.PARTITION_KEY, 0),
        Column("c", INT, ColumnKind.CLUSTERING, 0),
        Column("v", BLOB, ColumnKind.REGULAR, 0),
    ),
    regular_ordinals=1,
)
BYTES = 10_000


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sstable_write, "GROUP_BYTES", BYTES)
    monkeypatch.setattr(compaction, "_WINDOW_BYTES", 4 * BYTES)


def partition(number: int, sizes: list[int], timestamp: int) -> StoredPartition:
    key = struct.pack(">i", number)
    encode = TABLE.clustering_order.encode
    rows = [
        # Compresses to almost nothing: what counts is what it takes decoded.
        (encode([struct.pack(">i", c)]), Row(timestamp, 0, 0, True, None, [bytes([c % 256]) * size]))
        for c, size in enumerate(sizes)
    ]
    return StoredPartition(token_of(key), key, rows=rows)


def partitions(first: int, sizes: list[list[int]], timestamp: int) -> list[StoredPartition]:
    made = [partition(first + number, some, timestamp) for number, some in enumerate(sizes)]
    return sorted(made, key=lambda p: (p.token, p.key))


async def reopened(built: BuiltSSTable, runtime: MemoryRuntime, name: str) -> SSTable:
    return await open_built(built, TABLE, GroupCache(0), runtime, name)


async def check_groups(sstable: SSTable) -> int:
    """Largest row group in decoded bytes, of those with several rows."""
    largest = 0
    for number, group in enumerate(sstable.facts.groups):
        decoded = sstable.decode_group(number, await sstable.read_group(number))
        if group.rows > 1:
            largest = max(largest, decoded.nbytes)
    return largest


SIZES = {
    "equal": [[1000] * 10 for _ in range(30)],
    "one large among small": [[10] * 30, [10] * 20 + [60_000] + [10] * 20, [10] * 100],
    "one wide partition": [[700] * 300],
    "every row too large": [[30_000] * 3 for _ in range(5)],
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_row_groups_of_large_values_are_small(sizes: list[list[int]]) -> None:
    async def run() -> None:
        runtime = MemoryRuntime()
        source = partitions(0, sizes, 1)
        sstable = await reopened(build_sstable(TABLE, source), runtime, "one.parquet")
        assert await check_groups(sstable) <= BYTES
        rows = sum(map(len, sizes))
        assert sum(group.rows for group in sstable.facts.groups) == rows
        # Not cut more than needed, either.
        assert len(sstable.facts.groups) <= 4 + 3 * sum(map(sum, sizes)) // BYTES
        found = await read_all(sstable)
        assert [canonical(p) for p in found] == [canonical(p) for p in source]
        for p in source:
            alone = await sstable.partition(p.token, p.key)
            assert alone is not None
            assert canonical(alone) == canonical(p)

    asyncio.run(run())


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_compaction_takes_large_values_in_small_windows(
    sizes: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    windows: list[int] = []
    merge = compaction.WindowMerger.merge

    def watched(self: object, tables: list[object]) -> object:
        windows.append(sum(table.nbytes for table in tables))  # type: ignore[attr-defined]
        return merge(self, tables)  # type: ignore[arg-type]

    monkeypatch.setattr(compaction.WindowMerger, "merge", watched)

    async def run() -> None:
        runtime = MemoryRuntime()
        sources = [partitions(number, sizes, number) for number in range(3)]
        inputs = [
            await reopened(build_sstable(TABLE, source), runtime, f"{number}.parquet")
            for number, source in enumerate(sources)
        ]
        (built,) = await compact(runtime, TABLE, inputs, 0, 0)  # type: ignore[arg-type]
        output = await reopened(built, runtime, "out.parquet")
        assert await check_groups(output) <= BYTES
        most = max(max(map(max, sizes)), BYTES)
        assert max(windows) <= 4 * BYTES + 2 * len(sources) * most
        by_key: dict[bytes, list[StoredPartition]] = {}
        for p in (p for source in sources for p in source):
            by_key.setdefault(p.key, []).append(p)
        expected = sorted(map(merge_stored, by_key.values()), key=lambda p: (p.token, p.key))
        assert [canonical(p) for p in await read_all(output)] == [canonical(p) for p in expected]

    asyncio.run(run())
