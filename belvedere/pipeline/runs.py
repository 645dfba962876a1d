"""Sorted runs: rows with their keys in the order of files, cut by tablet, written as sstables."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from belvedere.meta.state import Tablet
from belvedere.storage import sstable_format as fmt
from belvedere.storage.sstable_format import BuiltSSTable, Layout
from belvedere.storage.sstable_rows import Bounds
from belvedere.storage.sstable_write import SSTableWriter, partition_keys, with_schema

Indices = NDArray[np.int64]


def sorted_run(layout: Layout, table: pa.Table) -> pa.Table:
    """The rows in the order of files: by token, partition key, kind and clustering key."""
    table = table.combine_chunks()
    order = order_of(layout, table)
    return table if order is None else table.take(pa.array(order))


def order_of(layout: Layout, table: pa.Table) -> Indices | None:
    """The places of the rows in the order of files; None if they are in it. Tokens are all but certainly
    enough where a partition has one row; the rest is looked at where they are equal only."""
    tokens = np.asarray(table.column(fmt.TOKEN))
    if len(tokens) < 2:
        return None
    order: Indices | None = None
    if not (tokens[1:] > tokens[:-1]).all():
        order = np.argsort(tokens, kind="stable")
        tokens = tokens[order]
        _settle_ties(layout, table, order, tokens)
    return order


def _settle_ties(layout: Layout, table: pa.Table, order: Indices, tokens: Indices) -> None:
    """Put rows of equal token in order, in place."""
    same = np.flatnonzero(tokens[1:] == tokens[:-1])
    if not len(same):
        return
    tied = np.zeros(len(tokens), np.bool_)
    tied[same] = tied[same + 1] = True
    places = np.flatnonzero(tied)
    rows = order[places]
    part = table.take(pa.array(rows))
    sorting: list[NDArray[Any]] = []  # the least important first
    if layout.clustering:
        sorting += _words(part.column(fmt.CK).combine_chunks())[::-1]
    if fmt.KIND in part.column_names:
        sorting.append(np.asarray(part.column(fmt.KIND)))
    if not _one_key_a_token(layout, part, tokens[places]):
        keys = pa.array(partition_keys(layout, part), pa.binary())
        sorting.append(np.asarray(pc.rank(keys, tiebreaker="dense")))
    if sorting:
        order[places] = rows[np.lexsort([*sorting, tokens[places]])]


def _one_key_a_token(layout: Layout, part: pa.Table, tokens: Indices) -> bool:
    same = pa.array(tokens[1:] == tokens[:-1])
    names = [fmt.KEY] if layout.has_key_column else [stored.name for stored in layout.partition_key]
    for name in names:
        column = part.column(name).combine_chunks()
        if pa.types.is_floating(column.type):  # of bits, not of numbers
            column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
        equal = pc.equal(column.slice(1), column.slice(0, len(column) - 1))
        if not pc.all(pc.or_(equal, pc.invert(same))).as_py():
            return False
    return True


def _words(column: pa.Array) -> list[NDArray[Any]]:
    """Numbers that order like byte strings, the most important first: of strings of one length the bytes that
    differ anywhere, in words."""
    _, offset_buffer, data = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(column) + 1, 4 * column.offset)
    width = int(offsets[1] - offsets[0])
    if column.null_count or data is None or (np.diff(offsets) != width).any():
        return [np.asarray(pc.rank(column, tiebreaker="dense"))]
    raw = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].reshape(len(column), width)
    varying = np.flatnonzero(raw.min(axis=0) != raw.max(axis=0)) if width else np.zeros(0, np.int64)
    words = []
    for start in range(0, len(varying), 8):
        chosen = varying[start : start + 8]
        padded = np.zeros((len(column), 8), np.uint8)
        padded[:, 8 - len(chosen) :] = raw[:, chosen]
        words.append(padded.view(">u8").reshape(-1).astype(np.uint64))
    return words


def cut_by_tablet(table: pa.Table, tablets: Iterable[Tablet]) -> list[tuple[Tablet, pa.Table]]:
    """The parts of a sorted run that belong to each tablet; of those that get any rows."""
    tokens = np.asarray(table.column(fmt.TOKEN))
    found = []
    for tablet in tablets:
        start = int(np.searchsorted(tokens, tablet.first_token, "left"))
        end = int(np.searchsorted(tokens, tablet.last_token, "right"))
        if start < end:
            found.append((tablet, table.slice(start, end - start)))
    return found


def write_run(
    layout: Layout,
    table: pa.Table,
    *,
    first_version: int = 0,
    last_version: int = 0,
    bounds: Bounds | None = None,
) -> BuiltSSTable:
    """One file of a sorted run. Columns that it lacks are null; `_token`, `_kind`, `_live`, `_until` may not
    be. `bounds` holds the stamps inside collections, which columns do not show."""
    present = {name for name in table.column_names if table.column(name).null_count < table.num_rows}
    schema = layout.schema(present)
    inside = Bounds()
    if bounds is not None:
        inside.add(bounds)
    writer = SSTableWriter(layout, schema, inside, first_version=first_version, last_version=last_version)
    writer.write(with_schema(table.select([n for n in table.column_names if n in schema.names]), schema))
    return writer.finish()
