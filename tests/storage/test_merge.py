"""Merging sources and applying range deletions, against looking at every one of them."""

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from belvedere.model.mutations import RangeDeletion
from belvedere.model.rows import Row
from belvedere.storage.deletions import Coverage, disjoint, touching
from belvedere.storage.memtable import Memtable
from belvedere.storage.merge import LiveColumns
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.reads import KeySlice, PartitionRead
from belvedere.storage.tablet_reads import SliceMerge
from tests.storage.merge_reference import merge_stored
from tests.storage.storage_model import Model, Writes, make_table, told

NOW = 1_000_000

bounds = st.integers(0, 12).map(lambda n: bytes([n]))
ranges_strategy = st.lists(
    st.builds(
        lambda a, b, stamp, second: RangeDeletion(min(a, b), max(a, b), (stamp, second)),
        bounds,
        bounds,
        st.integers(-2, 3),
        st.integers(0, 1),
    ),
    max_size=12,
)


@given(ranges_strategy)
def test_disjoint_ranges_delete_the_same(ranges: list[RangeDeletion]) -> None:
    found = disjoint(ranges)
    assert all(one.start < one.end for one in found)
    assert all(one.end <= two.start for one, two in pairwise(found))
    coverage = Coverage(None, ranges)
    for number in range(14):
        key = bytes([number])
        expected = max((r.deletion for r in ranges if r.start <= key < r.end), default=None)
        assert max((r.deletion for r in found if r.start <= key < r.end), default=None) == expected
        assert coverage.of(key) == expected


@given(ranges_strategy, bounds, bounds)
def test_touching_ranges_are_those_that_matter(ranges: list[RangeDeletion], a: bytes, b: bytes) -> None:
    part = KeySlice(min(a, b), max(a, b))
    near = touching(ranges, (part,))
    for number in range(13):
        key = bytes([number])
        if part.holds(key):
            assert Coverage(None, near).of(key) == Coverage(None, ranges).of(key)


def sources_of(seed: int, count: int) -> tuple[Model, list[StoredPartition], bytes]:
    """The same partition in several sources, and in the model."""
    generator = random.Random(seed)
    writes = Writes(make_table(), generator, now=NOW)
    writes.keys = writes.keys[:1]
    model = Model()
    memtables = [Memtable() for _ in range(count)]
    for number in range(generator.randint(1, 40)):
        mutation = writes.mutation()
        model.apply(mutation)
        generator.choice(memtables).apply(mutation, number + 1, number + 1, 10)
    key = writes.keys[0]
    sources = [m.partitions[key].stored() for m in memtables if key in m.partitions]
    return model, sources, key


@given(st.integers(0, 10**9), st.integers(1, 4))
def test_merged_sources_show_what_was_written(seed: int, count: int) -> None:
    model, sources, key = sources_of(seed, count)
    columns = LiveColumns(make_table())
    read = PartitionRead(sources[0].token, key)
    for variant in (sources, sources[::-1], [merge_stored(sources)], [merge_stored(sources), *sources]):
        merge = SliceMerge(read, NOW, columns)
        merge.feed(variant)
        assert merge.done
        assert told(merge.result) == model.read(key, NOW)


@given(st.integers(0, 10**9), st.integers(1, 3), st.integers(1, 5), st.booleans())
def test_merging_in_pieces_gives_the_same_rows(seed: int, count: int, limit: int, reverse: bool) -> None:
    model, sources, key = sources_of(seed, count)
    generator = random.Random(seed)
    slices = Writes(make_table(), generator).slices()
    read = PartitionRead(sources[0].token, key, slices, reverse, limit)
    merge = SliceMerge(read, NOW, LiveColumns(make_table()))
    merge.piece = generator.randint(1, 4)
    while not merge.done:
        pieces = []
        for source in sources:
            rows = [item for item in source.rows if any(part.holds(item[0]) for part in merge.slices)]
            rows = rows[-merge.piece :] if reverse else rows[: merge.piece]
            pieces.append(
                StoredPartition(source.token, source.key, source.deletion, source.ranges, source.static, rows)
            )
        merge.feed(pieces)
    static, rows_expected = model.read(key, NOW, slices, reverse)
    assert told(merge.result) == (static, rows_expected[:limit])
    if len(rows_expected) > limit:
        assert merge.result.more


def test_columns_that_were_dropped_are_not_seen() -> None:
    table = make_table(statics=False, sets=False)
    kept = tuple(column for column in table.columns if column.name != "y")
    columns = LiveColumns(type(table)(table.id, "ks", "t", kept, regular_ordinals=3, static_ordinals=0))
    row = Row(5, 0, 0, True, None, [b"a", b"b", b"c"])
    assert columns.regular(row).cells == [b"a", None, b"c"]
    assert columns.complete(Row(5, 0, 0, True, None, [b"a", None, b"c"]))
    assert not columns.complete(Row(5, 0, 0, True, None, [b"a", b"b", None]))
    assert not LiveColumns(make_table()).complete(row)
