"""A tablet read in columns shows what SELECT shows: every column and choice of columns, at any second."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from belvedere.model.ordering import split_partition_key
from belvedere.model.rows import AnyCell, Complex, visible
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.types import native
from belvedere.pipeline import inputs
from belvedere.pipeline.in_process import MemoryFiles
from belvedere.pipeline.read import ReadTablet, TabletScan, visible_columns
from belvedere.pipeline.tasks import InputFile
from belvedere.query.select.collections_out import assemble
from belvedere.storage import sstable_write
from belvedere.storage.columns import from_arrow
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.sstable_write import build_sstable
from tests.storage.merge_reference import merge_stored
from tests.storage.sstable_samples import START, Mix, random_partitions, random_table

MIX = Mix(times=20, ttl=0.3, tombstone=0.2, stamped=0.3, row_deletion=0.2, partition_deletion=0.1, ranges=0.3)

Values = dict[str, bytes | None]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups and windows of a few rows."""
    monkeypatch.setattr(sstable_write, "GROUP_ROWS", 3)
    monkeypatch.setattr(inputs, "WINDOW_ROWS", 7)


def published(table: Table, sources: Sequence[list[StoredPartition]]) -> tuple[MemoryFiles, list[InputFile]]:
    contents: dict[str, bytes] = {}
    given_files = []
    for number, partitions in enumerate(sources):
        built = build_sstable(table, partitions)
        contents[f"f{number}"] = built.data
        given_files.append(InputFile(f"f{number}", built.facts.size, built.facts.crc32c))
    return MemoryFiles("out", contents), given_files


def shown(sources: Sequence[list[StoredPartition]], table: Table, now: int) -> list[tuple[int, Values]]:
    """The dumb model: partition by partition, row by row."""
    by_key: dict[tuple[int, bytes], list[StoredPartition]] = {}
    for source in sources:
        for partition in source:
            by_key.setdefault((partition.token, partition.key), []).append(partition)
    rows = []
    for (token, key), parts in sorted(by_key.items(), key=lambda item: item[0]):
        whole = merge_stored(parts)
        static = None if whole.static is None else visible(whole.static, now)
        names = [c.name for c in table.partition_key]
        head: Values = dict(zip(names, split_partition_key(key, len(names)), strict=True))
        head |= _cells(table.statics, None if static is None else static.cells)
        found = [(ck, row) for ck, stored in whole.rows if (row := visible(stored, now)) is not None]
        for ck, row in found:
            values = table.clustering_order.decode(ck) if table.clustering else ()
            clustering = dict(zip([c.name for c in table.clustering], values, strict=True))
            rows.append((token, {**head, **clustering, **_cells(table.regulars, row.cells)}))
        if static is not None and not found:
            nothing = {c.name: None for c in (*table.clustering, *table.regulars)}
            rows.append((token, {**head, **nothing}))
    return rows


def _cells(columns: Sequence[Column], cells: list[AnyCell] | None) -> Values:
    return {column.name: _value(column, cells) for column in columns}


def _value(column: Column, cells: list[AnyCell] | None) -> bytes | None:
    cell = cells[column.position] if cells is not None and column.position < len(cells) else None
    if isinstance(cell, Complex):
        return assemble(column.type, cell)
    return cell[0] if isinstance(cell, tuple) else cell


def scanned(tables: Iterator[pa.Table], columns: Sequence[Column]) -> list[Values]:
    rows: list[Values] = []
    for table in tables:
        parts = [
            from_arrow(column.type.frozen(), array).to_list()
            for column, array in zip(columns, table.columns, strict=True)
        ]
        rows += [
            dict(zip([c.name for c in columns], values, strict=True)) for values in zip(*parts, strict=True)
        ] or [{} for _ in range(table.num_rows)]
    return rows


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
def test_a_scan_shows_what_select_shows(small_pieces: None, seed: int) -> None:
    rnd = random.Random(seed)
    table = random_table(rnd)
    mix = MIX if rnd.random() < 0.7 else Mix(complete=1.0, times=5)
    sources = [
        random_partitions(rnd, table, rnd.randrange(7), rnd.choice([1, 4, 12]), mix, keys=6)
        for _ in range(rnd.randrange(4))
    ]
    now = START // 10**6 + rnd.randrange(-10, 1100)
    wanted = shown(sources, table, now)
    everything = visible_columns(table)
    columns = everything if rnd.random() < 0.5 else rnd.sample(everything, rnd.randint(1, len(everything)))
    tokens: Any = None
    if rnd.random() < 0.4:
        chosen = [token for token, _ in wanted if rnd.random() < 0.4] + [7]
        tokens = np.array(sorted(set(chosen)), np.int64)
        wanted = [(token, row) for token, row in wanted if token in chosen]
    files, given_files = published(table, sources)
    tablet = ReadTablet(1, -(2**63), 2**63 - 1, given_files)
    got = scanned(TabletScan(table, columns, now, tokens).rows(tablet, files), columns)
    assert got == [{c.name: row[c.name] for c in columns} for _, row in wanted]


def test_what_is_not_asked_for_is_not_read() -> None:
    """Of rows that were inserted and never deleted."""
    columns = tuple(
        Column(name, kind, which, 0 if which is not ColumnKind.REGULAR else place)
        for place, (name, kind, which) in enumerate(
            [("v", native("int"), ColumnKind.REGULAR), ("w", native("text"), ColumnKind.REGULAR)]
        )
    )
    table = Table(
        b"\x01" * 16, "ks", "t", (Column("k", native("int"), ColumnKind.PARTITION_KEY, 0), *columns)
    )
    rnd = random.Random(1)
    plain = Mix(1.0, stamped=0, tombstone=0, ttl=0, row_deletion=0, partition_deletion=0, times=1)
    whole = random_partitions(rnd, table, 5, 1, plain)
    scan = TabletScan(table, [table.by_name["v"]], 0)
    for sources, names in (([whole], {"k", "v"}), ([whole, []], {"k", "v"})):
        files, given_files = published(table, sources)
        opened = [inputs.OpenInput(files, one) for one in given_files]
        assert {c.name for c in scan._needed(opened).columns} == names
    updated = random_partitions(rnd, table, 5, 1, Mix(complete=0.0, times=1))
    files, given_files = published(table, [whole, updated])
    opened = [inputs.OpenInput(files, one) for one in given_files]
    assert scan._needed(opened) is table
