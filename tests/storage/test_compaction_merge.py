"""A compaction says the same as its inputs: compared with merging everything row by row, cell by cell."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.model.rows import Row, cut, merge_rows, visible
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.token import token_of
from belvedere.model.types import BIGINT, INT, TEXT, UserType, parse_type
from belvedere.storage import compaction, sstable_write
from belvedere.storage.cache import GroupCache
from belvedere.storage.compaction import compact
from belvedere.storage.compaction_purge import Purge
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.sstable_format import BuiltSSTable
from belvedere.storage.sstable_write import build_sstable
from tests.storage.merge_reference import merge_stored
from tests.storage.sstable_samples import (
    START,
    MemoryRuntime,
    Mix,
    canonical,
    open_built,
    random_partitions,
    random_table,
    read_all,
)

SEEDS = st.integers(0, 2**32)
SECOND = START // 10**6
NEVER = -(2**63)
ALWAYS = 2**63 - 1

#: Few distinct times and keys: many rows meet, and many of them at the same microsecond.
CROWDED = Mix(times=30, stamped=0.3, tombstone=0.2, ttl=0.2)

Seen = dict[tuple[int, bytes], object]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sstable_write, "GROUP_ROWS", 8)
    monkeypatch.setattr(sstable_write, "_BATCH", 20)
    monkeypatch.setattr(compaction, "_WINDOW_GROUPS", 3)


def compacted(
    table: Table,
    sources: Sequence[Sequence[StoredPartition]],
    now: int,
    purge_before: int = NEVER,
    max_output: int = 2**30,
    read_as: Table | None = None,
    emitted: list[BuiltSSTable] | None = None,
) -> list[BuiltSSTable]:
    async def emit(built: BuiltSSTable) -> None:
        assert emitted is not None
        emitted.append(built)

    async def run() -> list[BuiltSSTable]:
        runtime = MemoryRuntime()
        cache: GroupCache[object] = GroupCache(0)
        inputs = []
        for number, source in enumerate(sources):
            built = build_sstable(table, source, first_version=number + 1, last_version=number + 1)
            inputs.append(await open_built(built, table, cache, runtime, f"{number}.parquet"))
        return await compact(
            runtime,  # type: ignore[arg-type]
            read_as or table,
            inputs,
            now,
            purge_before,
            max_output=max_output,
            emit=None if emitted is None else emit,
        )

    return asyncio.run(run())


def content(table: Table, built: Sequence[BuiltSSTable]) -> list[StoredPartition]:
    async def read() -> list[StoredPartition]:
        found: list[StoredPartition] = []
        for one in built:
            more = await read_all(await open_built(one, table, GroupCache(10**7)))
            if found and more and found[-1].key == more[0].key:  # continued in the next file
                found[-1] = merge_stored([found[-1], more.pop(0)])
            found += more
        return found

    return asyncio.run(read())


def seen(sources: Sequence[Sequence[StoredPartition]], now: int) -> Seen:
    """What a reader sees of all sources together, the dumb way."""
    parts: dict[tuple[int, bytes], list[StoredPartition]] = {}
    for source in sources:
        for partition in source:
            parts.setdefault((partition.token, partition.key), []).append(partition)
    found: Seen = {}
    for position, versions in parts.items():
        static: Row | None = None
        rows: dict[bytes, Row] = {}
        for version in versions:
            if version.static is not None:
                static = version.static if static is None else merge_rows(static, version.static)
            for ck, row in version.rows:
                rows[ck] = merge_rows(rows[ck], row) if ck in rows else row
        whole = [v.deletion for v in versions if v.deletion is not None]
        ranges = [r for v in versions for r in v.ranges]
        shown: dict[bytes | None, object] = {None: live(static, whole, now)}
        for ck, row in rows.items():
            covering = whole + [r.deletion for r in ranges if r.start <= ck < r.end]
            shown[ck] = live(row, covering, now)
        shown = {ck: row for ck, row in shown.items() if row is not None}
        if shown:
            found[position] = shown
    return found


def live(row: Row | None, deletions: list[tuple[int, int]], now: int) -> object:
    for deletion in deletions:
        row = None if row is None else cut(row, deletion)
    row = None if row is None else visible(row, now)
    if row is None:
        return None
    cells = {}
    for index, cell in enumerate(row.cells):
        if type(cell) is bytes:
            cells[index] = (cell, row.timestamp, row.ttl, row.expiry)
        elif cell is not None:
            cells[index] = getattr(cell, "items", cell)
    return ((row.timestamp, row.ttl, row.expiry) if row.live else None, cells)


def random_sources(rnd: random.Random, table: Table, mix: Mix, count: int) -> list[list[StoredPartition]]:
    rows = rnd.choice([1, 4, 30])
    keys = rnd.choice([3, 12])
    return [random_partitions(rnd, table, rnd.randrange(10), rows, mix, keys) for _ in range(count)]


@given(SEEDS)
def test_nothing_purged_is_exactly_the_merge(seed: int) -> None:
    """Before anything expires: not only what readers see, but every tombstone."""
    rnd = random.Random(seed)
    table = random_table(rnd)
    sources = random_sources(rnd, table, CROWDED, rnd.choice([1, 2, 4]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "_WINDOW_GROUPS", 10**6)
        built = compacted(table, sources, now=0)
    by_position: dict[tuple[int, bytes], list[StoredPartition]] = {}
    for source in sources:
        for partition in source:
            by_position.setdefault((partition.token, partition.key), []).append(partition)
    merged = [merge_stored(by_position[position]) for position in sorted(by_position)]
    merged = [p for p in merged if p.rows or p.ranges or p.static or p.deletion]
    assert [canonical(p) for p in content(table, built)] == [canonical(p) for p in merged]


@given(SEEDS)
def test_readers_see_the_same(seed: int) -> None:
    rnd = random.Random(seed)
    table = random_table(rnd)
    mix = replace(CROWDED, times=rnd.choice([5, 30, 2000]))
    sources = random_sources(rnd, table, mix, rnd.choice([1, 2, 3, 5]))
    now = SECOND + rnd.choice([0, 300, 999, 5000]) + rnd.choice([0, 864_000])
    purge = rnd.choice([NEVER, START + mix.times // 2, ALWAYS])
    built = compacted(table, sources, now, purge, rnd.choice([1, 2**30]))
    found = content(table, built)
    for later in (now, now + 50, now + 2000):
        assert seen([found], later) == seen(sources, later)
    assert all(one.facts.first_version >= 1 for one in built)
    for one, other in pairwise(built):
        assert one.facts.max_token <= other.facts.min_token


@given(SEEDS)
def test_others_do_not_notice_that_some_files_were_merged(seed: int) -> None:
    """Whatever other files hold, write times that are the same included, and whatever expires when."""
    rnd = random.Random(seed)
    table = random_table(rnd)
    mix = replace(CROWDED, times=rnd.choice([1, 5]), ttl=0.9, row_deletion=0.02, ranges=0.0)
    mix = replace(mix, tombstone=0.02, partition_deletion=0.0)
    sources = random_sources(rnd, table, mix, rnd.choice([1, 2, 3]))
    (outside,) = random_sources(rnd, table, mix, 1)
    now = SECOND + rnd.choice([300, 500, 999, 5000])
    found = content(table, compacted(table, sources, now, NEVER))
    for later in (now, now + 50, now + 2000):
        assert seen([found, outside], later) == seen([*sources, outside], later)


@given(SEEDS)
def test_older_data_elsewhere_stays_deleted(seed: int) -> None:
    """Other files hold writes from `purge_before` on: what they must not show again is still deleted."""
    rnd = random.Random(seed)
    table = random_table(rnd)
    sources = random_sources(rnd, table, CROWDED, 3)
    outside = random_sources(rnd, table, CROWDED, 1)
    oldest = min((s.facts.min_timestamp for s in [build_sstable(table, outside[0])]), default=ALWAYS)
    now = SECOND + 864_000 + 5000
    found = content(table, compacted(table, sources, now, oldest if outside[0] else ALWAYS))
    assert seen([found, outside[0]], now) == seen([*sources, outside[0]], now)


@given(SEEDS)
def test_everything_dead_is_gone_in_the_end(seed: int) -> None:
    """Nothing outside, and everything long past its grace: only what readers see is left."""
    rnd = random.Random(seed)
    table = random_table(rnd)
    sources = random_sources(rnd, table, CROWDED, 3)
    now = SECOND + 864_000 + 10**6
    built = compacted(table, sources, now, ALWAYS)
    found = content(table, built)
    assert {(p.token, p.key) for p in found} == set(seen(sources, now))
    for partition in found:
        assert partition.deletion is None
        assert not partition.ranges
        rows = [*partition.rows, *([(b"", partition.static)] if partition.static else [])]
        for _, row in rows:
            assert visible(row, now) is not None
            assert row.deletion is None
    assert all(one.facts.tombstones == 0 for one in built)


def people() -> Table:
    columns = (
        Column("k", BIGINT, ColumnKind.PARTITION_KEY, 0),
        Column("c", INT, ColumnKind.CLUSTERING, 0),
        Column("a", INT, ColumnKind.REGULAR, 0),
        Column("b", TEXT, ColumnKind.REGULAR, 1),
    )
    return Table(b"\x01" * 16, "ks", "t", columns, {"gc_grace_seconds": 100}, 2, 0)


def partition(number: int, rows: dict[int, Row]) -> StoredPartition:
    key = BIGINT.encode(number)
    encode = people().clustering_order.encode
    made = [(encode([INT.encode(c)]), row) for c, row in sorted(rows.items())]
    return StoredPartition(token_of(key), key, rows=made)


def test_an_expired_row_stays_until_its_grace_is_over() -> None:
    row = Row(10, 60, 1060, True, None, [INT.encode(1), b"x"])
    source = [partition(1, {1: row})]
    # Expired, but its grace, which counts from when it was written, is not over.
    (found,) = content(people(), compacted(people(), [source], 1070, ALWAYS))
    ((_, left),) = found.rows
    assert left == row
    # The row's own marker goes later than its cells: it counts from the expiry.
    (found,) = content(people(), compacted(people(), [source], 1101, ALWAYS))
    ((_, left),) = found.rows
    assert left.cells == [None, None]
    assert content(people(), compacted(people(), [source], 1161, ALWAYS)) == []
    # Something as old elsewhere keeps all of it.
    (found,) = content(people(), compacted(people(), [source], 1161, 10))
    assert len(found.rows) == 1


def test_a_wide_partition_over_many_windows_keeps_its_deletions() -> None:
    rows = {c: Row(10, 0, 0, True, None, [INT.encode(c), b"x"]) for c in range(500)}
    newer = {c: Row(30, 0, 0, True, None, [INT.encode(-c), b"y"]) for c in range(0, 500, 7)}
    deleted = partition(1, {})
    deleted.deletion = (20, 50)
    sources = [[partition(1, rows)], [partition(1, newer)], [deleted]]
    found = content(people(), compacted(people(), sources, 0))
    assert len(found) == 1
    assert found[0].deletion == (20, 50)
    assert [row.timestamp for _, row in found[0].rows] == [30] * len(newer)


def test_outputs_are_split_by_size_and_in_order() -> None:
    many = sorted(
        (partition(n, {c: Row(n, 0, 0, True, None, [None, b"x"]) for c in range(3)}) for n in range(100)),
        key=lambda p: (p.token, p.key),
    )
    built = compacted(people(), [many[::2], many[1::2]], 0, max_output=1)
    assert len(built) > 3
    assert [canonical(p) for p in content(people(), built)] == [canonical(p) for p in many]
    assert {(one.facts.first_version, one.facts.last_version) for one in built} == {(1, 2)}
    emitted: list[BuiltSSTable] = []
    assert compacted(people(), [many[::2], many[1::2]], 0, max_output=1, emitted=emitted) == []
    assert [one.data for one in emitted] == [one.data for one in built]


def test_columns_dropped_renamed_and_grown_types() -> None:
    def user_type(fields: list[str]) -> UserType:
        return UserType("ks", "u", [(name, INT) for name in fields])

    def table(types: dict[str, UserType], columns: list[tuple[str, str, int]]) -> Table:
        made = [Column("k", BIGINT, ColumnKind.PARTITION_KEY, 0)]
        made += [Column(n, parse_type(t, types), ColumnKind.REGULAR, i) for n, t, i in columns]
        return Table(b"\x01" * 16, "ks", "t", tuple(made), {}, 4, 0)

    old = table({"u": user_type(["x"])}, [("a", "int", 0), ("b", "text", 1), ("u", "frozen<u>", 2)])
    new = table({"u": user_type(["x", "y"])}, [("b", "text", 1), ("u", "frozen<u>", 2), ("d", "int", 3)])
    key = BIGINT.encode(1)
    cells = [INT.encode(1), (b"text", 11, 0, 0), b"\x00\x00\x00\x04" + INT.encode(7)]
    source = [StoredPartition(token_of(key), key, rows=[(b"", Row(10, 0, 0, True, None, list(cells)))])]
    built = compacted(old, [source], 0, read_as=new)
    (found,) = content(new, built)
    ((_, row),) = found.rows
    assert row.cells[:3] == [None, (b"text", 11, 0, 0), b"\x00\x00\x00\x04" + INT.encode(7) + b"\xff" * 4]


def test_rows_that_hold_nothing_go() -> None:
    source = [partition(1, {1: Row(10, 0, 0, False, None, [None, None]), 2: Row(10, 0, 0, True, None, [])})]
    (found,) = content(people(), compacted(people(), [source], 0))
    assert [row.live for _, row in found.rows] == [True]


def test_purging_a_row_by_the_rules() -> None:
    purge = Purge(now=1000, gc_before=900, older_than=50)
    row = Row(40, 0, 0, True, (30, 100), [b"v", (None, 45, 0, 899), (None, 45, 0, 900), (None, 60, 0, 1)])
    assert purge.row(row) == Row(40, 0, 0, True, None, [b"v", None, (None, 45, 0, 900), (None, 60, 0, 1)])
    assert purge.row(Row(1, 0, 0, False, None, [(None, 45, 0, 1)])) is None
