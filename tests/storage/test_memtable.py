"""Memtables against the dumb model: reads of one partition, the order of all, what a flush takes."""

import random

from hypothesis import given
from hypothesis import strategies as st

from belvedere.model.mutations import Mutation, RangeDeletion
from belvedere.model.rows import Complex, Row
from belvedere.model.token import token_of
from belvedere.storage.memtable import Memtable
from belvedere.storage.merge import LiveColumns
from belvedere.storage.reads import MAX_TOKEN, MIN_TOKEN, KeySlice, PartitionRead
from belvedere.storage.tablet_reads import read_memory
from tests.storage.storage_model import Model, Writes, make_table, told, wire_int

NOW = 1_000_000


def filled(seed: int, count: int = 60) -> tuple[Memtable, Model, Writes]:
    generator = random.Random(seed)
    writes = Writes(make_table(), generator, now=NOW)
    memtable, model = Memtable(), Model()
    for number in range(generator.randint(1, count)):
        mutation = writes.mutation()
        memtable.apply(mutation, number + 1, 100 + number, 50)
        model.apply(mutation)
    return memtable, model, writes


@given(st.integers(0, 10**9))
def test_reads_show_what_was_written(seed: int) -> None:
    memtable, model, writes = filled(seed)
    columns = LiveColumns(writes.table)
    for key, partition in memtable.partitions.items():
        slices = writes.slices()
        reverse = writes.random.random() < 0.5
        limit = writes.random.choice([0, 0, 1, 2, 5])
        read = PartitionRead(partition.token, key, slices, reverse, limit)
        static, rows = model.read(key, NOW, slices, reverse)
        found = read_memory(partition, read, NOW, columns)
        assert told(found) == (static, rows[:limit] if limit else rows)
        if limit and len(rows) > limit:
            assert found.more
        if found.more:
            assert limit
            assert len(found.rows) == limit
        for clustering in {*partition.rows, b"nothing"}:
            point = PartitionRead(partition.token, key, row=clustering)
            expected = [item for item in model.read(key, NOW)[1] if item[0] == clustering]
            assert told(read_memory(partition, point, NOW, columns)) == (static, expected)


@given(st.integers(0, 10**9))
def test_what_a_flush_takes_shows_the_same(seed: int) -> None:
    memtable, model, writes = filled(seed)
    stored = list(memtable.stored_partitions())
    assert [(s.token, s.key) for s in stored] == model.positions()
    again = Memtable()
    for one in stored:
        keys = [key for key, _ in one.rows]
        assert keys == sorted(keys)
        mutation = Mutation(b"", one.token, one.key, one.rows, one.static, one.deletion, one.ranges)
        again.apply(mutation, 1, 1, 1)
    columns = LiveColumns(writes.table)
    for key, partition in again.partitions.items():
        read = PartitionRead(partition.token, key)
        assert told(read_memory(partition, read, NOW, columns)) == model.read(key, NOW)


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.binary(max_size=1)), max_size=30), st.integers(1, 5), st.data()
)
def test_positions_come_in_order_page_by_page(
    positions: list[tuple[int, bytes]], limit: int, data: st.DataObject
) -> None:
    memtable = Memtable()
    known: set[tuple[int, bytes]] = set()
    for token, key in positions:
        # A key has one token.
        if key in memtable.partitions:
            continue
        memtable.apply(Mutation(b"", token, key, []), 1, 1, 1)
        known.add((token, key))
        if data.draw(st.booleans()):
            start = (data.draw(st.integers(-3, 3)), data.draw(st.binary(max_size=1)))
            end = data.draw(st.integers(-3, 3))
            expected = sorted(p for p in known if p >= start and p[0] <= end)[:limit]
            assert memtable.positions_from(start, end, limit) == expected
    assert memtable.positions_from((MIN_TOKEN, b""), MAX_TOKEN, 100) == sorted(known)


def test_many_partitions_stay_in_order_between_scans() -> None:
    generator = random.Random(5)
    memtable = Memtable()
    keys = [wire_int(number) for number in range(5000)]
    generator.shuffle(keys)
    known: list[tuple[int, bytes]] = []
    for number, key in enumerate(keys):
        memtable.apply(Mutation(b"", token_of(key), key, []), 1, 1, 1)
        known.append((token_of(key), key))
        if number % 97 == 0:
            start = generator.choice(known)
            expected = sorted(p for p in known if p >= start)[:10]
            assert memtable.positions_from(start, MAX_TOKEN, 10) == expected
    assert [(s.token, s.key) for s in memtable.stored_partitions()] == sorted(known)


def test_partitions_of_equal_token_are_ordered_by_key() -> None:
    memtable = Memtable()
    for key in (b"b", b"c", b"a"):
        memtable.apply(Mutation(b"", 7, key, []), 1, 1, 1)
    memtable.apply(Mutation(b"", 3, b"z", []), 1, 1, 1)
    assert [s.key for s in memtable.stored_partitions()] == [b"z", b"a", b"b", b"c"]


def test_deletions_free_rows_and_are_kept() -> None:
    memtable = Memtable()
    row = Row(10, 0, 0, True, None, [b"v"])
    memtable.apply(Mutation(b"", 1, b"k", [(b"a", row), (b"b", row), (b"c", row)]), 1, 1, 1)
    memtable.apply(Mutation(b"", 1, b"k", [], ranges=[RangeDeletion(b"b", b"c", (10, 1))]), 2, 2, 1)
    partition = memtable.partitions[b"k"]
    assert partition.order == [b"a", b"c"]
    memtable.apply(Mutation(b"", 1, b"k", [], deletion=(20, 1)), 3, 3, 1)
    assert partition.order == []
    assert partition.rows == {}
    assert partition.deletion == (20, 1)
    memtable.apply(Mutation(b"", 1, b"k", [(b"a", row)]), 4, 4, 1)
    assert partition.rows == {}
    assert partition.after == 4
    assert (memtable.first_position, memtable.last_position, memtable.last_version) == (1, 4, 4)


def test_many_range_deletions_stay_few() -> None:
    memtable = Memtable()
    for number in range(2000):
        end = number.to_bytes(4, "big")
        new = RangeDeletion(b"", end, (number, 1))
        memtable.apply(Mutation(b"", 1, b"k", [], ranges=[new]), 1, 1, 1)
    assert len(memtable.partitions[b"k"].ranges) < 20
    assert next(iter(memtable.stored_partitions())).ranges == [
        RangeDeletion(b"", (1999).to_bytes(4, "big"), (1999, 1))
    ]


def test_oldest_timestamp_looks_at_everything() -> None:
    def oldest(mutation: Mutation) -> int | None:
        memtable = Memtable()
        memtable.apply(mutation, 1, 1, 1)
        return min(memtable.oldest_stamps())

    assert list(Memtable().oldest_stamps()) == [MAX_TOKEN]
    old = (b"v", 3, 0, 0)
    cells = Complex(None, {b"p": (b"", 2, 0, 0)})
    bare = Row(10, 0, 0, True, None, [b"v"])
    assert oldest(Mutation(b"", 1, b"k", [(b"", bare)])) == 10
    assert oldest(Mutation(b"", 1, b"k", [(b"", Row(10, 0, 0, True, None, [b"v", old]))])) == 3
    assert oldest(Mutation(b"", 1, b"k", [(b"", Row(10, 0, 0, False, None, [cells]))])) == 2
    assert oldest(Mutation(b"", 1, b"k", [(b"", Row(10, 0, 0, False, (1, 9), []))])) == 1
    assert oldest(Mutation(b"", 1, b"k", [(b"", bare)], static=Row(5, 0, 0, False, None, [old]))) == 3
    assert oldest(Mutation(b"", 1, b"k", [], deletion=(4, 1))) == 4
    assert oldest(Mutation(b"", 1, b"k", [], ranges=[RangeDeletion(b"", b"a", (6, 1))])) == 6


def test_a_slice_of_a_large_partition_reads_only_that() -> None:
    memtable = Memtable()
    rows = [(wire_int(number), Row(1, 0, 0, True, None, [b"v"])) for number in range(1000)]
    memtable.apply(Mutation(b"", 1, b"k", rows), 1, 1, 1)
    part = KeySlice(wire_int(100), wire_int(110))
    read = PartitionRead(1, b"k", (part,), True, 3)
    found = read_memory(memtable.partitions[b"k"], read, NOW, LiveColumns(make_table(statics=False)))
    assert [key for key, _ in found.rows] == [wire_int(109), wire_int(108), wire_int(107)]
    assert found.more
