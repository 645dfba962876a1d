"""Keys of columns equal the keys of values: tokens, partition keys, clustering keys, order, tablets."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.meta.state import Tablet, TabletMap
from belvedere.model.ordering import join_partition_key
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.token import MAX_TOKEN, MIN_TOKEN, token_of
from belvedere.model.types import parse_type
from belvedere.pipeline.keys import key_columns, partition_key_bytes
from belvedere.pipeline.runs import cut_by_tablet, sorted_run, write_run
from belvedere.storage import sstable_format as fmt
from belvedere.storage.columns import to_arrow
from belvedere.storage.sstable_format import Layout
from belvedere.storage.sstable_rows import to_table
from belvedere.storage.sstable_write import build_sstable
from tests.storage.sstable_samples import KEY_TYPES, USER_TYPES, random_partitions, random_table, random_wire

SEEDS = st.integers(0, 2**32)

Values = list[list[bytes]]


def key_table(partition: list[str], clustering: list[tuple[str, bool]]) -> Table:
    columns = [
        Column(f"p{i}", parse_type(name, USER_TYPES), ColumnKind.PARTITION_KEY, i)
        for i, name in enumerate(partition)
    ]
    columns += [
        Column(f"c{i}", parse_type(name, USER_TYPES), ColumnKind.CLUSTERING, i, down)
        for i, (name, down) in enumerate(clustering)
    ]
    return Table(b"\x07" * 16, "ks", "t", tuple(columns))


def readable(table: Table, values: Values) -> pa.Table:
    columns = (*table.partition_key, *table.clustering)
    return pa.table({c.name: to_arrow(c.type, v) for c, v in zip(columns, values, strict=True)})


def expected(table: Table, values: Values) -> list[tuple[int, bytes, bytes]]:
    count = len(table.partition_key)
    found = []
    for row in zip(*values, strict=True):
        key = join_partition_key(row[:count])
        ck = table.clustering_order.encode(row[count:]) if table.clustering else b""
        found.append((token_of(key), key, ck))
    return found


def check(table: Table, values: Values, offset: int = 0) -> None:
    layout = Layout(table)
    given_columns = readable(table, values).slice(offset)
    made = key_columns(layout, given_columns)
    wanted = expected(table, [column[offset:] for column in values])
    assert made.column(fmt.TOKEN).to_pylist() == [token for token, _, _ in wanted]
    keys = partition_key_bytes(layout, given_columns.combine_chunks()).array()
    assert keys.to_pylist() == [key for _, key, _ in wanted]
    assert (fmt.KEY in made.column_names) == layout.has_key_column
    if layout.has_key_column:
        assert made.column(fmt.KEY).to_pylist() == [key for _, key, _ in wanted]
    assert (fmt.CK in made.column_names) == bool(table.clustering)
    if table.clustering:
        assert made.column(fmt.CK).to_pylist() == [ck for _, _, ck in wanted]


@pytest.mark.parametrize("name", [*KEY_TYPES, "frozen<list<int>>", "frozen<point>", "vector<float, 3>"])
@pytest.mark.parametrize("descending", [False, True])
def test_every_type(name: str, descending: bool) -> None:
    rnd = random.Random(name)
    kind = parse_type(name, USER_TYPES)
    values = [random_wire(rnd, kind) for _ in range(60)]
    check(key_table([name], [(name, descending)]), [values, values])
    check(key_table([name], []), [values])


@given(SEEDS)
def test_composite_keys(seed: int) -> None:
    rnd = random.Random(seed)
    table = random_table(rnd, [])
    columns = (*table.partition_key, *table.clustering)
    size = rnd.randrange(40)
    values = [[random_wire(rnd, c.type) for _ in range(size)] for c in columns]
    check(table, values)
    check(table, values, rnd.randrange(size + 1))


def test_floating_point_oddities() -> None:
    for name, width in (("float", 4), ("double", 8)):
        rnd = random.Random(width)
        values = [rnd.randbytes(width) for _ in range(100)]
        values += [
            b"\x7f\xf8\x00\x01" + b"\1" * (width - 4),
            b"\xff\xf8" + bytes(width - 2),
            b"\x80" + bytes(width - 1),
        ]
        values += [
            bytes(width),
            b"\xff" * width,
            b"\x7f\x80" + bytes(width - 2),
            b"\x7f\xf0" + bytes(width - 2),
        ]
        for descending in (False, True):
            check(key_table(["int"], [(name, descending)]), [[b"\0\0\0\1"] * len(values), values])
        check(key_table([name], []), [values])


def test_uuids_of_every_version() -> None:
    rnd = random.Random(3)
    values = [rnd.randbytes(16) for _ in range(300)]
    for name in ("uuid", "timeuuid"):
        for descending in (False, True):
            check(key_table(["int"], [(name, descending)]), [[b"\0\0\0\1"] * len(values), values])


def test_a_null_in_a_key_is_refused() -> None:
    layout = Layout(key_table(["int"], [("text", False)]))
    with pytest.raises(ValueError, match="c0"):
        key_columns(layout, pa.table({"p0": pa.array([1], pa.int32()), "c0": pa.array([None], pa.string())}))


@given(SEEDS)
def test_sorting_brings_the_order_of_files_back(seed: int) -> None:
    """Also where few partitions have many rows, where tokens collide and where a partition has heads."""
    rnd = random.Random(seed)
    table = random_table(rnd, ["int", "text"])
    partitions = random_partitions(rnd, table, rnd.randrange(8), 12)
    if rnd.random() < 0.3:  # all keys collide
        for partition in partitions:
            partition.token = 7
        partitions.sort(key=lambda p: p.key)
    layout = Layout(table)
    whole, bounds = to_table(layout, partitions)
    mixed = list(range(whole.num_rows))
    rnd.shuffle(mixed)
    again = sorted_run(layout, whole.take(pa.array(mixed, pa.int64())))
    names = [n for n in (fmt.TOKEN, fmt.KEY, fmt.KIND, fmt.CK) if n in whole.column_names]
    names += [stored.name for stored in layout.partition_key]
    if fmt.END not in whole.column_names:  # several ranges may begin at one key
        names = whole.column_names
    for name in names:
        assert str(again.column(name).to_pylist()) == str(whole.column(name).to_pylist()), name
    if partitions:
        built = write_run(layout, whole, bounds=bounds, first_version=3, last_version=4)
        assert built == build_sstable(table, partitions, first_version=3, last_version=4)


@given(SEEDS)
def test_cutting_by_tablet(seed: int) -> None:
    rnd = random.Random(seed)
    cuts = sorted({rnd.randint(MIN_TOKEN, MAX_TOKEN - 1) for _ in range(rnd.randrange(5))})
    firsts, lasts = [MIN_TOKEN, *(c + 1 for c in cuts)], [*cuts, MAX_TOKEN]
    tablets = TabletMap(
        tuple(Tablet(i, b"", a, b, 1, "", ()) for i, (a, b) in enumerate(zip(firsts, lasts, strict=True)))
    )
    edges = [*cuts, *(c + 1 for c in cuts), MIN_TOKEN, MAX_TOKEN]
    tokens = sorted(rnd.choice([rnd.randint(MIN_TOKEN, MAX_TOKEN), *edges]) for _ in range(30))
    parts = cut_by_tablet(pa.table({fmt.TOKEN: np.array(tokens)}), tablets.tablets)
    assert [(t.id, token) for t, part in parts for token in part.column(fmt.TOKEN).to_pylist()] == [
        (tablets.holding(token).id, token) for token in tokens
    ]
    assert all(part.num_rows for _, part in parts)
