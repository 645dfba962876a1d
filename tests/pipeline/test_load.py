"""Rows loaded in columns are the rows that INSERTs with the same write time leave."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.model.ordering import join_partition_key
from belvedere.model.rows import AnyCell, Complex, Row, merge_rows
from belvedere.model.schema import Column, ColumnKind, Table, ViewDefinition
from belvedere.model.token import MAX_TOKEN, MIN_TOKEN, token_of
from belvedere.model.types import ListType, MapType, SetType, UserType, parse_type
from belvedere.pipeline.load import LoadDescription, LoadRefused, RunWriter
from belvedere.pipeline.load_rows import RowFitter
from belvedere.query.modify.assignments import field_path
from belvedere.query.select.collections_out import cell_path
from belvedere.storage.cache import GroupCache
from belvedere.storage.sstable_format import BuiltSSTable
from tests.pipeline.load_samples import disguise
from tests.storage.sstable_samples import (
    START,
    USER_TYPES,
    canonical_row,
    open_built,
    random_table,
    random_wire,
    read_all,
)

NOW = START // 10**6 + 7

Wires = list[bytes | None]
#: (token, partition key, clustering key) to the row.
Rows = dict[tuple[int, bytes, bytes], Row]


def load(table: Table, batches: Sequence[pa.RecordBatch], ttl: int | None, cuts: Sequence[int]) -> Rows:
    """Through files, read back through the store's own reader; files must keep to their tablets."""
    bounds = [MIN_TOKEN, *cuts, MAX_TOKEN + 1]
    tablets = [(i, str(bounds[i]), str(bounds[i + 1] - 1)) for i in range(len(cuts) + 1)]
    description = LoadDescription({}, table.id.hex(), tablets, START, ttl, NOW)
    saved: dict[str, bytes] = {}

    def save(name: str, data: bytes) -> str:
        assert name not in saved
        saved[name] = data
        return name

    writer = RunWriter(description, table, save, run_rows=7)
    for batch in batches:
        rows, bad = writer.fitter(batch.schema).fit(batch)
        assert bad == []
        writer.add(rows)
    found: Rows = {}
    for output in writer.finish():
        low, high = bounds[output.tablet], bounds[output.tablet + 1] - 1
        assert low <= output.facts.min_token <= output.facts.max_token <= high
        read = asyncio.run(_read(BuiltSSTable(saved[output.path], output.facts), table))
        for place, row in read.items():
            found[place] = row if place not in found else merge_rows(found[place], row)
    return found


async def _read(built: BuiltSSTable, table: Table) -> Rows:
    sstable = await open_built(built, table, GroupCache(1 << 20))
    await sstable.verify()
    partitions = await read_all(sstable)
    assert all(p.deletion is None and not p.ranges and p.static is None for p in partitions)
    seen = [((p.token, p.key, ck), row) for p in partitions for ck, row in p.rows]
    assert len(dict(seen)) == len(seen) == built.facts.rows
    return dict(seen)


def insert(table: Table, values: dict[str, bytes | None], ttl: int) -> tuple[tuple[int, bytes, bytes], Row]:
    """What `INSERT … USING TIMESTAMP` writes; null values are left out."""
    key = join_partition_key([values[c.name] or b"" for c in table.partition_key])
    ck = table.clustering_order.encode([values[c.name] or b"" for c in table.clustering])
    cells: list[AnyCell] = [None] * table.regular_ordinals
    for column in table.regulars:
        value = values.get(column.name)
        if value is None:
            continue
        if column.type.is_multicell:
            cells[column.position] = _elements(column, value, ttl)
        else:
            cells[column.position] = value
    expiry = NOW + ttl if ttl else 0
    return (token_of(key), key, ck), Row(START, ttl, expiry, True, None, cells)


def _elements(column: Column, value: bytes, ttl: int) -> Complex:
    kind: Any = column.type
    match kind:
        case ListType():
            # In place of positions, which are the loader's choice.
            pairs = [(b"%04d" % i, e) for i, e in enumerate(kind.elements(value))]
        case SetType():
            pairs = [(cell_path(kind.element, e), b"") for e in kind.elements(value)]
        case MapType():
            pairs = [(cell_path(kind.key, k), v) for k, v in kind.elements(value)]
        case UserType():
            pairs = [(field_path(i), v) for i, v in enumerate(kind.elements(value)) if v is not None]
    stamp = (START, ttl, NOW + ttl if ttl else 0)
    return Complex((START - 1, NOW), {path: (element, *stamp) for path, element in pairs})


def comparable(table: Table, rows: Rows) -> dict[Any, object]:
    """List elements by their order instead of their positions."""
    lists = {c.position for c in table.regulars if isinstance(c.type, ListType) and c.type.is_multicell}
    made = {}
    for place, row in rows.items():
        cells: list[AnyCell] = []
        for ordinal, cell in enumerate(row.cells):
            if ordinal in lists and isinstance(cell, Complex):
                in_order = [item for _, item in sorted(cell.items.items())]
                cell = Complex(cell.deletion, {b"%04d" % i: item for i, item in enumerate(in_order)})
            cells.append(cell)
        made[place] = canonical_row(Row(row.timestamp, row.ttl, row.expiry, row.live, row.deletion, cells))
    return made


def draw_rows(rnd: random.Random, table: Table, count: int) -> list[dict[str, bytes | None]]:
    regulars = [c for c in table.regulars if rnd.random() < 0.9]
    rows: list[dict[str, bytes | None]] = []
    for _ in range(count):
        local = random.Random(rnd.randrange(max(1, count)))  # some keys come twice
        row: dict[str, bytes | None] = {c.name: random_wire(local, c.type) for c in table.partition_key}
        row |= {c.name: random_wire(local, c.type) for c in table.clustering}
        if len(table.partition_key) == 1 and row[table.partition_key[0].name] == b"":
            continue
        # Equal rows have equal lists: those of different rows of one key would both stay.
        same = random.Random(f"{row}") if any(isinstance(c.type, ListType) for c in regulars) else rnd
        row |= {c.name: random_wire(same, c.type) if same.random() < 0.8 else None for c in regulars}
        rows.append(row)
    return rows


def batches_of(rnd: random.Random, table: Table, rows: list[dict[str, bytes | None]]) -> list[pa.RecordBatch]:
    names = rnd.sample(list(rows[0]), len(rows[0])) if rows else []
    shown = [name.upper() if rnd.random() < 0.3 else name for name in names]
    made = []
    for start in range(0, len(rows), 5):
        part = rows[start : start + 5]
        arrays = [disguise(rnd, table.by_name[name].type, [row[name] for row in part]) for name in names]
        made.append(pa.RecordBatch.from_arrays(arrays, names=shown))
    return made


@settings(max_examples=100)
@given(st.integers(0, 2**32), st.integers(0, 24))
def test_a_load_leaves_what_inserts_leave(seed: int, count: int) -> None:
    rnd = random.Random(seed)
    table = random_table(rnd)
    rows = draw_rows(rnd, table, count)
    ttl = rnd.choice([None, 0, 60])
    cuts = sorted({rnd.randrange(MIN_TOKEN + 1, MAX_TOKEN) for _ in range(rnd.randrange(4))})
    wanted: Rows = {}
    for values in rows:
        place, row = insert(table, values, ttl or 0)
        wanted[place] = row if place not in wanted else merge_rows(wanted[place], row)
    got = load(table, batches_of(rnd, table, rows), ttl, cuts)
    assert comparable(table, got) == comparable(table, wanted)


# -- what is refused -------------------------------------------------------------------------------


def table_of(columns: dict[str, str], keys: int = 1, **changes: Any) -> Table:
    made = []
    for place, (name, kind) in enumerate(columns.items()):
        is_static = kind.startswith("static ")
        which = ColumnKind.STATIC if is_static else ColumnKind.REGULAR
        which = ColumnKind.PARTITION_KEY if place == 0 else ColumnKind.CLUSTERING if place < keys else which
        position = 0 if place < 1 else place - 1 if place < keys else place - keys
        made.append(Column(name, parse_type(kind.removeprefix("static "), USER_TYPES), which, position))
    return Table(b"\x01" * 16, "ks", "t", tuple(made), {}, len(columns), len(columns), **changes)


ORDERS = table_of({"id": "text", "n": "int", "total": "double", "tags": "set<blob>"}, 2)


@pytest.mark.parametrize(
    ("table", "names", "message"),
    [
        (ORDERS, ["id", "n", "totl"], "ks.t has no column totl; it has id, n, tags, total"),
        (ORDERS, ["id", "total"], "the rows lack n of the primary key of ks.t"),
        (ORDERS, ["id", "n", "ID"], "two columns of the rows are id of ks.t"),
        (table_of({"k": "int", "s": "static int"}), ["k", "s"], "s of ks.t is static"),
        (table_of({"k": "int", "c": "counter"}), ["k", "c"], "ks.t has counters"),
        (
            table_of({"k": "int"}, view=ViewDefinition("b", b"", "")),
            ["k"],
            "is a materialized view: load into ks.b",
        ),
    ],
)
def test_rows_that_cannot_be_of_the_table_are_refused(table: Table, names: list[str], message: str) -> None:
    with pytest.raises(LoadRefused, match=message):
        RowFitter(table, pa.schema([(name, pa.string()) for name in names]))


def test_a_type_that_never_fits_is_refused() -> None:
    with pytest.raises(LoadRefused, match="column total: bool cannot become double"):
        RowFitter(ORDERS, pa.schema([("id", pa.string()), ("n", pa.int32()), ("total", pa.bool_())]))


def test_bad_rows_are_set_aside_with_every_reason() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "id": ["a", None, "c", "", "e" * 65536, "f", "g"],
            "n": ["1", "x", None, "4", "5", "6", "7"],
            "total": ["1.5", "abc", "2", "3", "4", "5", None],
            "tags": [None, [b""], [b"t"], None, None, [b"x" * 65536], []],
        }
    )
    rows, bad = RowFitter(ORDERS, batch.schema).fit(batch)
    assert rows.column("id").to_pylist() == ["a", "g"]
    assert {one.row: one.reason for one in bad} == {
        1: "column id: null, but part of the primary key; column n: 'x' is not an int; "
        "column total: 'abc' is not a double",
        2: "column n: null, but part of the primary key",
        3: "column id: an empty partition key",
        4: "a partition key of 65536 bytes is longer than 65535",
        5: "column tags: a set element of 65536 bytes is longer than 65535",
    }


def test_names_with_capitals_are_told_from_others() -> None:
    table = table_of({"k": "int", "Total": "int", "total": "int"})
    found = RowFitter(table, pa.schema([("K", pa.int32()), ("total", pa.int32()), ("Total", pa.int32())]))
    assert [stored.column.name for stored in found.stored] == ["k", "total", "Total"]
