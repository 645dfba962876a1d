"""What is written to an sstable comes back from it, by every way of reading."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.model.mutations import RangeDeletion
from belvedere.model.rows import Row, cut
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.token import token_of
from belvedere.model.types import BIGINT, INT, TEXT
from belvedere.storage import sstable_write
from belvedere.storage.cache import GroupCache
from belvedere.storage.deletions import Coverage
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.reads import KeySlice
from belvedere.storage.sstable_format import decode_facts, encode_facts
from belvedere.storage.sstable_read import NEEDS_DISK
from belvedere.storage.sstable_write import build_sstable
from tests.storage.sstable_samples import (
    MemoryRuntime,
    canonical,
    canonical_row,
    open_built,
    random_partitions,
    random_table,
    read_all,
)

SEEDS = st.integers(0, 2**32)


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sstable_write, "GROUP_ROWS", 8)
    monkeypatch.setattr(sstable_write, "_BATCH", 20)


def as_written(partition: StoredPartition) -> StoredPartition:
    """A partition after its own deletions."""
    coverage = Coverage(partition.deletion, partition.ranges)
    rows = []
    for ck, row in partition.rows:
        deletion = coverage.of(ck)
        left = row if deletion is None else cut(row, deletion)
        if left is not None:
            rows.append((ck, left))
    static = partition.static
    if static is not None and partition.deletion is not None:
        static = cut(static, partition.deletion)
    return StoredPartition(partition.token, partition.key, partition.deletion, partition.ranges, static, rows)


def holds_something(p: StoredPartition) -> bool:
    return bool(p.rows or p.ranges) or p.static is not None or p.deletion is not None


@given(SEEDS)
def test_everything_comes_back(seed: int) -> None:
    rnd = random.Random(seed)
    table = random_table(rnd)
    partitions = random_partitions(rnd, table, rnd.randrange(40), rnd.choice([1, 3, 40]))
    built = build_sstable(table, partitions, first_version=3, last_version=9)
    expected = [canonical(as_written(p)) for p in partitions if holds_something(as_written(p))]

    async def check() -> None:
        sstable = await open_built(built, table, GroupCache(10**6))
        assert [canonical(p) for p in await read_all(sstable, rnd.choice([1, 5, 1000]))] == expected
        await sstable.verify()

    asyncio.run(check())
    facts = built.facts
    assert decode_facts(encode_facts(facts)) == facts
    assert facts.partitions == len(expected)
    assert (facts.first_version, facts.last_version) == (3, 9)


@given(SEEDS)
def test_reads_of_one_partition(seed: int) -> None:
    """Slices, single rows, limits and both directions, against a filter over a list."""
    rnd = random.Random(seed)
    table = random_table(rnd, ["int", "text"])
    partitions = random_partitions(rnd, table, 12, rnd.choice([1, 3, 60]))
    built = build_sstable(table, partitions)
    expected = {(p.token, p.key): as_written(p) for p in partitions}

    async def check() -> None:
        sstable = await open_built(built, table, GroupCache(10**7))
        for position in [*expected, (0, b"nobody"), (2**63 - 1, b"nobody")]:
            stored = expected.get(position, StoredPartition(*position))
            for _ in range(4):
                await check_read(sstable, stored)

    async def check_read(sstable: object, stored: StoredPartition) -> None:
        cks = [ck for ck, _ in stored.rows]
        args: dict[str, object] = {}
        if cks and rnd.random() < 0.4:
            args["row"] = rnd.choice([rnd.choice(cks), rnd.choice(cks) + b"\x01", b""])
            rows = [pair for pair in stored.rows if pair[0] == args["row"]]
        else:
            slices = random_slices(rnd, cks)
            args["slices"] = slices
            rows = [pair for pair in stored.rows if any(part.holds(pair[0]) for part in slices)]
        most = rnd.choice([0, 0, 1, 3, 20])
        reverse = rnd.random() < 0.5
        if "slices" in args:
            args |= {"max_rows": most, "reverse": reverse}
        found = await sstable.partition(stored.token, stored.key, **args)  # type: ignore[attr-defined]
        again = sstable.partition_now(stored.token, stored.key, **args)  # type: ignore[attr-defined]
        assert again is not NEEDS_DISK
        assert (found is None) == (again is None)
        if found is None:
            assert not rows
            assert stored.static is None
            assert stored.deletion is None
            return
        assert canonical(found) == canonical(again)
        assert found.deletion == stored.deletion
        assert canonical_row(found.static) == canonical_row(stored.static)
        if "slices" in args and most and len(rows) > most:
            rows = rows[-most:] if reverse else rows[:most]
        got = found.rows
        assert [(ck, canonical_row(r)) for ck, r in got] == [(ck, canonical_row(r)) for ck, r in rows]
        touched = [r for r in stored.ranges if any(r.start <= ck < r.end for ck, _ in rows)]
        assert all(r in found.ranges for r in touched)

    asyncio.run(check())


def random_slices(rnd: random.Random, cks: list[bytes]) -> tuple[KeySlice, ...]:
    if not cks or rnd.random() < 0.3:
        return (KeySlice(),)
    bounds = sorted(rnd.choice(cks) + rnd.choice([b"", b"\x01"]) for _ in range(rnd.choice([2, 4])))
    pairs = list(zip(bounds[::2], bounds[1::2], strict=True))
    slices = [KeySlice(low, high) for low, high in pairs]
    if rnd.random() < 0.3:
        slices[-1] = KeySlice(slices[-1].start, None)
    return tuple(slices)


def plain_table() -> Table:
    columns = (
        Column("k", BIGINT, ColumnKind.PARTITION_KEY, 0),
        Column("c", INT, ColumnKind.CLUSTERING, 0),
        Column("s", TEXT, ColumnKind.STATIC, 0),
        Column("a", INT, ColumnKind.REGULAR, 0),
        Column("b", TEXT, ColumnKind.REGULAR, 1),
    )
    return Table(b"\x01" * 16, "ks", "t", columns, {}, 2, 1)


def plain_partition(number: int, rows: int) -> StoredPartition:
    key = BIGINT.encode(number)
    encode = plain_table().clustering_order.encode
    made = [
        (encode([INT.encode(c)]), Row(1000 + c, 0, 0, True, None, [INT.encode(c), b"text"]))
        for c in range(rows)
    ]
    return StoredPartition(token_of(key), key, None, [], None, made)


def in_order(partitions: list[StoredPartition]) -> list[StoredPartition]:
    return sorted(partitions, key=lambda p: (p.token, p.key))


def test_a_point_read_of_a_wide_partition_reads_one_group() -> None:
    built = build_sstable(plain_table(), in_order([plain_partition(n, 400) for n in range(3)]))

    async def check() -> None:
        runtime = MemoryRuntime()
        sstable = await open_built(built, plain_table(), GroupCache(10**7), runtime)
        wanted = plain_partition(1, 400)
        reads = runtime.disk.reads
        ck = wanted.rows[333][0]
        assert sstable.partition_now(wanted.token, wanted.key, row=ck) is NEEDS_DISK
        found = await sstable.partition(wanted.token, wanted.key, row=ck)
        assert found is not None
        assert found.rows == [wanted.rows[333]]
        assert runtime.disk.reads == reads + 1
        last = await sstable.partition(wanted.token, wanted.key, max_rows=5, reverse=True)
        assert last is not None
        assert last.rows == wanted.rows[-5:]
        assert runtime.disk.reads <= reads + 3

    asyncio.run(check())


def test_batches_end_before_wide_partitions() -> None:
    parts = in_order([plain_partition(n, 100 if n % 5 == 0 else 2) for n in range(20)])
    built = build_sstable(plain_table(), parts)

    async def check() -> None:
        sstable = await open_built(built, plain_table(), GroupCache(10**7))
        wide = {(p.token, p.key) for p in parts if len(p.rows) == 100}
        assert {(p.token, p.key) for p in parts if sstable.is_wide((p.token, p.key))} == wide
        position: tuple[int, bytes] | None = (parts[0].token, parts[0].key)
        while position is not None:
            batch, position = await sstable.batch(position, 2**63 - 1, 10**6)
            assert not any((p.token, p.key) in wide for p in batch[1:])

    asyncio.run(check())


def test_batch_bounds_are_inclusive() -> None:
    parts = in_order([plain_partition(n, 3) for n in range(30)])
    built = build_sstable(plain_table(), parts)

    async def check() -> None:
        sstable = await open_built(built, plain_table(), GroupCache(10**7))
        start, end = parts[7], parts[19]
        batch, position = await sstable.batch((start.token, start.key), end.token, 1000)
        assert position is None
        assert [p.key for p in batch] == [p.key for p in parts[7:20]]
        batch, _ = await sstable.batch((start.token, start.key + b"\x00"), end.token, 1000)
        assert [p.key for p in batch] == [p.key for p in parts[8:20]]

    asyncio.run(check())


def test_two_keys_of_one_token_stay_apart() -> None:
    """No such keys are known for Murmur3, so the tokens are made up."""
    parts = [plain_partition(n, 11) for n in range(4)]
    parts = [StoredPartition(5 if n in (1, 2) else n * 7, p.key, rows=p.rows) for n, p in enumerate(parts)]
    parts = in_order(parts)
    built = build_sstable(plain_table(), parts)

    async def check() -> None:
        sstable = await open_built(built, plain_table(), GroupCache(10**7))
        assert [canonical(p) for p in await read_all(sstable)] == [canonical(p) for p in parts]
        for part in parts:
            found = await sstable.partition(part.token, part.key)
            assert found is not None
            assert canonical(found) == canonical(part)
        assert await sstable.partition(5, b"\x00" * 8) in (None, *parts)
        assert await sstable.partition(5, b"other...") is None

    asyncio.run(check())


def test_columns_come_and_go() -> None:
    """A file is read as rows of the table as it is now."""
    old = plain_table()
    built = build_sstable(old, [plain_partition(1, 3)])
    columns = [c for c in old.columns if c.name != "a"]
    columns.append(Column("new", INT, ColumnKind.REGULAR, 2))
    renamed = [Column("key", c.type, c.kind, c.position) if c.name == "k" else c for c in columns]
    new = Table(old.id, "ks", "t", tuple(renamed), {}, 3, 1)

    async def check() -> None:
        sstable = await open_built(built, old, GroupCache(10**7))
        part = plain_partition(1, 3)
        before = await sstable.partition(part.token, part.key)
        assert before is not None
        assert before.rows == part.rows
        sstable.use_table(new)
        after = await sstable.partition(part.token, part.key)
        assert after is not None
        assert [row.cells for _, row in after.rows] == [[None, b"text"]] * 3

    asyncio.run(check())


def test_rows_covered_by_deletions_of_their_own_file_are_left_out() -> None:
    part = plain_partition(1, 10)  # write times 1000 to 1009
    part.deletion = (1003, 50)
    part.ranges = [RangeDeletion(part.rows[6][0], part.rows[8][0], (5000, 60))]
    built = build_sstable(plain_table(), [part])

    async def check() -> None:
        sstable = await open_built(built, plain_table(), GroupCache(10**7))
        found = await sstable.partition(part.token, part.key)
        assert found is not None
        assert [row.timestamp for _, row in found.rows] == [1004, 1005, 1008, 1009]
        assert found.deletion == (1003, 50)
        assert found.ranges == part.ranges

    asyncio.run(check())
    assert built.facts.heads == 2
    assert built.facts.tombstones == 2
    assert (built.facts.min_timestamp, built.facts.max_timestamp) == (1003, 5000)
    assert (built.facts.min_second, built.facts.max_second) == (50, 60)


def test_an_empty_file() -> None:
    built = build_sstable(plain_table(), [])

    async def check() -> None:
        sstable = await open_built(built, plain_table(), GroupCache(10**7))
        assert await read_all(sstable) == []
        assert sstable.partition_now(1, b"x") is None
        assert await sstable.partition(1, b"") is None

    asyncio.run(check())
