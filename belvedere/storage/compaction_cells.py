"""Cells of touched rows, resolved column by column.

Every column's versions get their effective stamps (the cell's own or its row's), the winner of each row is
found by comparing versions pairwise over all rows at once, and the result is written back as cells that
share their row's stamp or carry their own. The rules are those of model.rows and compaction_purge.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from belvedere.model.rows import NO_TIMESTAMP
from belvedere.storage import sstable_format as fmt
from belvedere.storage.compaction_purge import Purge
from belvedere.storage.sstable_derived import until_of
from belvedere.storage.sstable_format import Layout, StoredColumn

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def filled(table: pa.Table, name: str, absent: int) -> Ints:
    """A column of numbers; also for columns that the table does not have."""
    if name not in table.column_names:
        return np.full(table.num_rows, absent, np.int64)
    column = table.column(name).combine_chunks()
    if not pa.types.is_int64(column.type):
        column = column.cast(pa.int64())
    return np.asarray(pc.fill_null(column, absent)).copy()


def valid(table: pa.Table, name: str) -> Flags:
    """Where a column has a value; also for columns that the table does not have."""
    if name not in table.column_names:
        return np.zeros(table.num_rows, np.bool_)
    column = table.column(name)
    if column.null_count == 0:
        return np.ones(table.num_rows, np.bool_)
    return np.asarray(column.is_valid().combine_chunks().to_numpy(zero_copy_only=False), np.bool_)


@dataclass(slots=True)
class Touched:
    """Entries that must be looked at: the versions of entry i are rows starts[i] to starts[i] + sizes[i]."""

    table: pa.Table
    starts: Ints
    sizes: Ints
    #: Everything up to this timestamp is deleted from outside of the row.
    floors: Ints


@dataclass(slots=True)
class _Stamps:
    """Of every version, or of every merged row."""

    timestamp: Ints
    ttl: Ints
    expiry: Ints

    def at(self, indices: Ints) -> "_Stamps":
        return _Stamps(self.timestamp[indices], self.ttl[indices], self.expiry[indices])


class CellMerger:
    def __init__(self, layout: Layout, purge: Purge) -> None:
        self._layout = layout
        self._purge = purge

    def merge(self, part: Touched) -> tuple[pa.Table, Flags, Flags]:
        """The merged entries; which of them have anything left; and which have true ties, to be merged
        row by row instead. Columns of collections are left empty."""
        table, purge = part.table, self._purge
        rows = _Stamps(
            filled(table, fmt.TS, NO_TIMESTAMP), filled(table, fmt.TTL, 0), filled(table, fmt.EXP, 0)
        )
        live = np.asarray(table.column(fmt.LIVE).combine_chunks().to_numpy(zero_copy_only=False), np.bool_)
        base, _ = _winners(part, [live, rows.timestamp, rows.ttl > 0, rows.expiry])
        stamps = rows.at(base)
        deleted_at, deleted, floors = self._row_deletions(part)
        is_live = live[base] & (stamps.timestamp > floors)
        expired = (stamps.ttl > 0) & (stamps.expiry <= purge.now)
        is_live &= ~(expired & self._may_go(stamps.timestamp, stamps.expiry))
        has_deletion = (deleted > part.floors) & ~self._may_go(deleted, deleted_at)
        kept = is_live | has_deletion
        ties = np.zeros(len(base), np.bool_)
        columns = self._keys(table.take(pa.array(part.starts)))
        columns[fmt.TS] = pa.array(stamps.timestamp)
        columns[fmt.TTL] = pa.array(stamps.ttl.astype(np.int32), mask=stamps.ttl == 0)
        columns[fmt.EXP] = pa.array(stamps.expiry, mask=stamps.expiry == 0)
        columns[fmt.LIVE] = pa.array(is_live)
        columns[fmt.DEL_TS] = pa.array(deleted, mask=~has_deletion)
        columns[fmt.DEL_AT] = pa.array(deleted_at, mask=~has_deletion)
        for stored in self._layout.values:
            if stored.is_multicell:
                columns[stored.name] = pa.nulls(len(base), table.schema.field(stored.name).type)
                columns[stored.elements] = pa.nulls(len(base), pa.binary())
            else:
                kept |= self._column(part, stored, rows, stamps, floors, ties, columns)
        present = [name for name, array in columns.items() if array.null_count < len(base)]
        columns[fmt.UNTIL] = until_of(self._layout, columns, len(base))
        schema = self._layout.schema(present)
        return pa.table([columns[name] for name in schema.names], schema=schema), kept, ties

    def _keys(self, firsts: pa.Table) -> dict[str, pa.Array]:
        names = [fmt.TOKEN, fmt.KIND, *(stored.name for stored in self._layout.keys)]
        if self._layout.has_key_column:
            names.append(fmt.KEY)
        if self._layout.clustering:
            names.append(fmt.CK)
        return {name: firsts.column(name).combine_chunks() for name in names}

    def _row_deletions(self, part: Touched) -> tuple[Ints, Ints, Ints]:
        """(second, timestamp) of each merged row's own deletion, and the floors with it."""
        if fmt.DEL_TS not in part.table.column_names:
            nothing = np.full(len(part.starts), NO_TIMESTAMP, np.int64)
            return np.zeros(len(part.starts), np.int64), nothing, part.floors
        timestamps = filled(part.table, fmt.DEL_TS, NO_TIMESTAMP)
        seconds = filled(part.table, fmt.DEL_AT, 0)
        newest, _ = _winners(part, [timestamps, seconds])
        deleted = timestamps[newest]
        return seconds[newest], deleted, np.maximum(part.floors, deleted)

    def _may_go(self, timestamps: Ints, seconds: Ints) -> Flags:
        return (seconds < self._purge.gc_before) & (timestamps < self._purge.older_than)

    def _column(
        self,
        part: Touched,
        stored: StoredColumn,
        rows: _Stamps,
        stamps: _Stamps,
        floors: Ints,
        ties: Flags,
        columns: dict[str, pa.Array],
    ) -> Flags:
        """Merge one column into `columns`, note true ties, and tell which rows have a cell in it."""
        table = part.table
        values = table.column(stored.name).combine_chunks()
        has_value = valid(table, stored.name)
        cells, present = _effective(table, stored, rows, has_value)
        tombstone = present & ~has_value
        rank = np.where(tombstone, 2, (cells.ttl > 0).astype(np.int64))
        keys = [np.where(present, cells.timestamp, NO_TIMESTAMP), np.where(present, rank, -1), cells.expiry]
        winner, equals = _winners(part, keys)
        _note_ties(values, equals, has_value, ties)
        won = cells.at(winner)
        alive = present[winner] & (won.timestamp > floors)
        dead = alive & tombstone[winner]
        expired = alive & ~dead & (won.ttl > 0) & (won.expiry <= self._purge.now)
        alive &= ~((dead | expired) & self._may_go(won.timestamp, won.expiry - won.ttl))
        dead &= alive
        shown = alive & ~dead
        shares = (won.timestamp == stamps.timestamp) & (won.ttl == stamps.ttl) & (won.expiry == stamps.expiry)
        own = alive & ~(shown & shares)
        columns[stored.name] = values.take(pa.array(winner, mask=~shown))
        columns[stored.ts] = pa.array(won.timestamp, mask=~own)
        columns[stored.ttl] = pa.array(won.ttl.astype(np.int32), mask=~own | (won.ttl == 0))
        columns[stored.exp] = pa.array(won.expiry, mask=~own | (won.expiry == 0))
        return alive


def _effective(
    table: pa.Table, stored: StoredColumn, rows: _Stamps, has_value: Flags
) -> tuple[_Stamps, Flags]:
    """The stamps of a column's cells, and where there is a cell."""
    if stored.ts not in table.column_names:
        return rows, has_value
    own = valid(table, stored.ts)
    cells = _Stamps(
        np.where(own, filled(table, stored.ts, 0), rows.timestamp),
        np.where(own, filled(table, stored.ttl, 0), rows.ttl),
        np.where(own, filled(table, stored.exp, 0), rows.expiry),
    )
    return cells, has_value | own


def _winners(
    part: Touched, keys: "list[NDArray[np.int64] | Flags]"
) -> tuple[Ints, list[tuple[Ints, Ints, Ints]]]:
    """For each entry its greatest version by these keys, most important first; and the pairs that were
    equal in all of them, as (entry, one version, other version)."""
    winner = part.starts.copy()
    equals: list[tuple[Ints, Ints, Ints]] = []
    for turn in range(1, int(part.sizes.max())):
        entries = np.flatnonzero(part.sizes > turn)
        challenger = part.starts[entries] + turn
        holder = winner[entries]
        better = np.zeros(len(entries), np.bool_)
        even = np.ones(len(entries), np.bool_)
        for key in keys:
            one, other = key[challenger], key[holder]
            better |= even & (one > other)
            even &= one == other
        winner[entries[better]] = challenger[better]
        if even.any():
            equals.append((entries[even], challenger[even], holder[even]))
    return winner, equals


def _note_ties(
    values: pa.Array, equals: list[tuple[Ints, Ints, Ints]], has_value: Flags, ties: Flags
) -> None:
    """Versions of equal stamps but different values: the larger value wins, which is left to model.rows."""
    for entries, one, other in equals:
        both = has_value[one] & has_value[other]
        if not both.any():
            continue
        entries, one, other = entries[both], one[both], other[both]
        if pa.types.is_nested(values.type) or pa.types.is_floating(values.type):  # -0.0 equals 0.0
            ties[entries] = True
            continue
        same = pc.equal(values.take(pa.array(one)), values.take(pa.array(other)))
        ties[entries[~np.asarray(same.to_numpy(zero_copy_only=False), np.bool_)]] = True
