"""Sorted runs: rows with their keys in the order of files, cut by tablet, written as sstables."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from belvedere.meta.state import Tablet
from belvedere.storage import sstable_format as fmt
from belvedere.storage.byte_order import words_of
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
    if len(tokens) < 2 or (tokens[1:] > tokens[:-1]).all():
        return None
    order = np.argsort(tokens)
    tokens = tokens[order]
    same = tokens[1:] == tokens[:-1]
    if same.any():
        _settle_ties(layout, table, order, same)
    return order


def _settle_ties(layout: Layout, table: pa.Table, order: Indices, same: NDArray[np.bool_]) -> None:
    """Put rows of equal token in order, in place; `same`: which have the token of the one before."""
    tied = np.append(same, False)
    tied[1:] |= same
    places = np.flatnonzero(tied)
    rows = order[places]
    runs = np.cumsum(~np.append(False, same)[places])
    # Most important first: tokens by number, keys, kinds, clustering keys.
    sorting: list[NDArray[Any]] = [runs]
    if not _one_key_a_token(layout, table, order, same):
        keys = pa.array(partition_keys(layout, table.take(pa.array(rows))), pa.binary())
        sorting.append(np.asarray(pc.rank(keys, tiebreaker="dense")))
    if fmt.KIND in table.column_names:
        sorting.append(np.asarray(table.column(fmt.KIND))[rows])
    if layout.clustering:
        sorting += [word[rows] for word in words_of(table.column(fmt.CK).combine_chunks())]
    packed = _packed(sorting)
    order[places] = rows[np.argsort(packed) if packed is not None else np.lexsort(sorting[::-1])]


def _packed(numbers: Sequence[NDArray[Any]]) -> NDArray[np.uint64] | None:
    """Several numbers in one that orders like them, if there is room."""
    packed = np.zeros(len(numbers[0]), np.uint64)
    bits = 0
    for column in numbers:
        low = column.min()
        width = int(int(column.max()) - int(low)).bit_length()
        bits += width
        if bits > 64:
            return None
        packed = (packed << np.uint64(width)) if width < 64 else packed
        packed |= (column - low).astype(np.uint64)
    return packed


def _one_key_a_token(layout: Layout, table: pa.Table, order: Indices, same: NDArray[np.bool_]) -> bool:
    """Whether neighbours of equal token have equal keys, as is all but certain."""
    ones = np.flatnonzero(same)
    first, second = order[ones], order[ones + 1]
    names = [fmt.KEY] if layout.has_key_column else [stored.name for stored in layout.partition_key]
    for name in names:
        column = table.column(name).combine_chunks()
        if pa.types.is_floating(column.type):  # of bits, not of numbers
            column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
        if pa.types.is_integer(column.type):
            numbers = np.asarray(column)
            alike = bool((numbers[first] == numbers[second]).all())
        else:
            pair = column.take(pa.array(first)), column.take(pa.array(second))
            alike = bool(pc.all(pc.equal(*pair)).as_py())
        if not alike:
            return False
    return True


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
