"""One window of a compaction, merged in columns.

Most entries exist once and nothing deletes them: they are only taken in the right order. Entries that
several inputs have, or that a deletion or time may change, are *touched*; their cells are resolved column by
column with numpy (compaction_cells). What is left, touched collections and true ties, is merged row by row
by the same code as online reads (compaction_rows).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from belvedere.model.rows import NO_TIMESTAMP
from belvedere.storage import sstable_format as fmt
from belvedere.storage.byte_order import ranks_of
from belvedere.storage.compaction_cells import CellMerger, Flags, Ints, Touched, filled, valid
from belvedere.storage.compaction_deletions import DeletionMerger
from belvedere.storage.compaction_purge import Purge
from belvedere.storage.compaction_rows import merge_by_rows
from belvedere.storage.sstable_format import Layout
from belvedere.storage.sstable_write import partition_keys, with_schema


@dataclass(slots=True)
class Sorted:
    """A window in file order: `order` are indices into `table`; all other arrays are in that order."""

    table: pa.Table
    order: Ints
    kinds: NDArray[np.int8]
    new_partition: Flags
    new_entry: Flags

    @property
    def size(self) -> int:
        return len(self.order)


class WindowMerger:
    """Keeps from window to window the deletions of the partition that the last one ended in."""

    def __init__(self, layout: Layout, purge: Purge, *, look_into_collections: bool) -> None:
        self._layout = layout
        self._purge = purge
        self._look_into_collections = look_into_collections
        self._deletions = DeletionMerger(layout, purge)
        self._cells = CellMerger(layout, purge)

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table | None:
        """What is left of a window, in the order of files."""
        if not tables:
            return None
        window, alone, pieces = self._resolve(tables)
        if len(alone):
            pieces.append((alone, window.table.take(pa.array(window.order[alone]))))
        return _assemble(self._layout, pieces)

    def merge_unordered(self, tables: Sequence[pa.Table]) -> tuple[pa.Table, Ints]:
        """The same for who brings it into another order anyway: a table, and the places in it of what is
        left, in any order."""
        if not tables:
            return self._layout.schema(()).empty_table(), np.zeros(0, np.int64)
        window, alone, pieces = self._resolve(tables)
        places = window.order[alone]
        if not pieces:
            return window.table, places
        changed = [table for _, table in pieces]
        count = sum(table.num_rows for table in changed)
        added = np.arange(window.table.num_rows, window.table.num_rows + count)
        return _joined(self._layout, [window.table, *changed]), np.concatenate([places, added])

    def _resolve(self, tables: Sequence[pa.Table]) -> "tuple[Sorted, Ints, list[tuple[Ints, pa.Table]]]":
        """The window, the places of what stays as it is, and pieces of what does not, with their places."""
        whole = _joined(self._layout, tables)
        window = sort(self._layout, whole, len(tables) == 1)
        heads, floors = self._deletions.apply(window)
        rows = np.flatnonzero(window.kinds >= fmt.STATIC_ROW)
        pieces: list[tuple[Ints, pa.Table]] = [*heads]
        if not len(rows):
            return window, rows, pieces
        starts = np.flatnonzero(window.new_entry[rows])
        sizes = np.diff(np.append(starts, len(rows)))
        touched = sizes > 1
        touched |= np.logical_or.reduceat(self._may_change(window, rows, floors), starts)
        if touched.any():
            members = rows[np.repeat(touched, sizes)]
            places = rows[starts[touched]]
            part = Touched(
                window.table.take(pa.array(window.order[members])),
                np.concatenate(([0], np.cumsum(sizes[touched])[:-1])),
                sizes[touched],
                np.full(len(places), NO_TIMESTAMP) if floors is None else floors[places],
            )
            pieces += self._touched(part, places)
        return window, rows[starts[~touched]], pieces

    def _touched(self, part: Touched, places: Ints) -> list[tuple[Ints, pa.Table]]:
        by_rows = self._with_collections(part)
        merged, kept, ties = self._cells.merge(part)
        by_rows |= ties
        kept &= ~by_rows
        pieces = []
        if kept.any():
            pieces.append((places[kept], merged.filter(pa.array(kept))))
        if by_rows.any():
            numbers, table = merge_by_rows(self._layout, part, np.flatnonzero(by_rows), self._purge)
            if len(numbers):
                pieces.append((places[numbers], table))
        return pieces

    def _with_collections(self, part: Touched) -> Flags:
        found = np.zeros(part.table.num_rows, np.bool_)
        for stored in self._layout.values:
            if stored.is_multicell:
                found |= valid(part.table, stored.elements)
        return np.logical_or.reduceat(found, part.starts)

    def _may_change(self, window: Sorted, rows: Ints, floors: Ints | None) -> Flags:
        """Which rows a deletion or time may change."""
        table, purge = window.table, self._purge
        changes = np.zeros(table.num_rows, np.bool_)
        names = set(table.column_names)
        dead = filled(table, fmt.UNTIL, 0) == 0
        if dead.any():  # tombstones, or nothing at all: what a deletion in memory left of a row
            changes |= dead & ~valid(table, fmt.DEL_TS)
        if fmt.EXP in names:
            seconds = filled(table, fmt.EXP, fmt.FOREVER)
            changes |= (seconds <= purge.now) & (seconds - filled(table, fmt.TTL, 0) < purge.gc_before)
        if fmt.DEL_AT in names:
            changes |= filled(table, fmt.DEL_AT, fmt.FOREVER) < purge.gc_before
        for stored in self._layout.values:
            if stored.is_multicell:
                if self._look_into_collections:
                    changes |= valid(table, stored.elements)
            elif stored.exp in names:
                seconds = filled(table, stored.exp, fmt.FOREVER)
                over = ~valid(table, stored.name) | (seconds <= purge.now)
                changes |= over & (seconds - filled(table, stored.ttl, 0) < purge.gc_before)
        result = changes[window.order[rows]]
        if floors is not None:
            covered = floors[rows]
            result |= (covered > NO_TIMESTAMP) & (covered >= self._oldest_stamps(table)[window.order[rows]])
        return result

    def _oldest_stamps(self, table: pa.Table) -> Ints:
        """The smallest timestamp of each row; of collections nothing is known."""
        names = set(table.column_names)
        oldest = filled(table, fmt.TS, fmt.FOREVER)
        for name in (fmt.DEL_TS, *(s.ts for s in self._layout.values if not s.is_multicell)):
            if name in names:
                oldest = np.minimum(oldest, filled(table, name, fmt.FOREVER))
        for stored in self._layout.values:
            if stored.is_multicell:
                oldest[valid(table, stored.elements)] = NO_TIMESTAMP
        return oldest


def sort(layout: Layout, table: pa.Table, is_sorted: bool) -> Sorted:
    """Bring the entries of several sorted tables into one order."""
    tokens = filled(table, fmt.TOKEN, 0)
    kinds = np.asarray(table.column(fmt.KIND).combine_chunks())
    size = len(tokens)
    #: Kind and clustering key in one number.
    entries = kinds.astype(np.int64) << 48
    if layout.clustering:
        entries |= ranks_of(table.column(fmt.CK).combine_chunks())
    order = np.arange(size) if is_sorted else _order(tokens, entries)
    key_ranks: Ints | None = None
    if not _one_key_a_token(layout, table, order, tokens):
        key_ranks = ranks_of(pa.array(partition_keys(layout, table), pa.binary()))
        order = np.lexsort((entries, key_ranks, tokens))
    new_partition = _changes(tokens[order])
    if key_ranks is not None:
        new_partition |= _changes(key_ranks[order])
    new_entry = new_partition | _changes(entries[order])
    return Sorted(table, order, kinds[order], new_partition, new_entry)


def _order(tokens: Ints, entries: Ints) -> Ints:
    """By token, then entry. Sorted runs, one behind the other, are what a stable sort is best at."""
    order = np.argsort(tokens, kind="stable")
    if (entries == entries[0]).all():  # no clustering columns
        return order
    same = tokens[order[1:]] == tokens[order[:-1]]
    tied = np.append(same, False)
    tied[1:] |= same
    places = np.flatnonzero(tied)
    rows = order[places]
    partitions = np.cumsum(~np.append(False, same)[places])
    order[places] = rows[np.lexsort((entries[rows], partitions))]
    return order


def _changes(values: Ints) -> Flags:
    """Where a value differs from the one before; the first one does."""
    return np.concatenate(([True], values[1:] != values[:-1]))


def _one_key_a_token(layout: Layout, table: pa.Table, order: Ints, tokens: Ints) -> bool:
    """Whether neighbours of equal token have equal keys, as is all but certain."""
    if len(order) < 2:
        return True
    same = np.flatnonzero(tokens[order[1:]] == tokens[order[:-1]])
    first, second = pa.array(order[same]), pa.array(order[same + 1])
    names = [fmt.KEY] if layout.has_key_column else [stored.name for stored in layout.partition_key]
    for name in names:
        column = table.column(name)
        if not pc.all(pc.equal(column.take(first), column.take(second))).as_py() and len(same):
            return False
    return True


def _assemble(layout: Layout, pieces: list[tuple[Ints, pa.Table]]) -> pa.Table | None:
    if not pieces:
        return None
    if len(pieces) == 1:
        return pieces[0][1]
    places = np.concatenate([place for place, _ in pieces])
    whole = _joined(layout, [table for _, table in pieces])
    return whole.take(pa.array(np.argsort(places, kind="stable")))


def _joined(layout: Layout, tables: Sequence[pa.Table]) -> pa.Table:
    schema = layout.schema({name for table in tables for name in table.column_names})
    return pa.concat_tables([with_schema(table, schema) for table in tables]).combine_chunks()
