"""Deletions of partitions and ranges in a window: merged, purged, and as floors over the rows they cover."""

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from belvedere.model.mutations import RangeDeletion
from belvedere.model.rows import NO_TIMESTAMP, Deletion, newer_deletion
from belvedere.storage import sstable_format as fmt
from belvedere.storage.compaction_cells import Ints
from belvedere.storage.compaction_purge import Purge
from belvedere.storage.deletions import disjoint
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.sstable_format import Layout
from belvedere.storage.sstable_rows import to_table
from belvedere.storage.sstable_write import partition_keys

if TYPE_CHECKING:
    from belvedere.storage.compaction_merge import Sorted


class DeletionMerger:
    """A partition may reach over several windows: its deletions are remembered until another one begins."""

    def __init__(self, layout: Layout, purge: Purge) -> None:
        self._layout = layout
        self._purge = purge
        self._open: StoredPartition | None = None

    def apply(self, window: "Sorted") -> tuple[list[tuple[Ints, pa.Table]], Ints | None]:
        """The deletions that stay, with their places in the window; and for every entry of the window the
        timestamp up to which it is deleted (None if nothing is)."""
        heads = np.flatnonzero(window.kinds < fmt.STATIC_ROW)
        carried = self._carried(window)
        if not len(heads) and carried is None:
            self._open = None
            return [], None
        floors = np.full(window.size, NO_TIMESTAMP, np.int64)
        numbers = np.cumsum(window.new_partition) - 1
        first_of = np.append(np.flatnonzero(window.new_partition), window.size)
        places: list[int] = []
        kept: list[StoredPartition] = []
        found = self._gather(window, heads, numbers)
        if carried is not None and 0 not in found:
            found[0] = []
        last = int(numbers[-1])
        remembered: StoredPartition | None = None
        for number, entries in found.items():
            low, high = int(first_of[number]), int(first_of[number + 1])
            whole = self._merged(window, low, entries)
            if number == 0 and carried is not None:
                covering = StoredPartition(
                    whole.token,
                    whole.key,
                    newer_deletion(whole.deletion, carried.deletion),
                    carried.ranges + whole.ranges,
                )
            else:
                covering = whole
            self._cover(window, floors, low, high, covering)
            if number == last:
                remembered = covering
            staying = self._purged(whole)
            if staying.deletion is not None or staying.ranges:
                kept.append(staying)
                places += [low] * (len(staying.ranges) + (staying.deletion is not None))
        self._open = remembered
        if not kept:
            return [], floors
        table, _ = to_table(self._layout, kept)
        return [(np.array(places), table)], floors

    def _carried(self, window: "Sorted") -> StoredPartition | None:
        """The deletions of an earlier window, if its last partition goes on in this one."""
        if self._open is None:
            return None
        first = window.table.slice(int(window.order[0]), 1)
        if partition_keys(self._layout, first)[0] != self._open.key:
            return None
        return self._open

    def _gather(
        self, window: "Sorted", heads: Ints, numbers: Ints
    ) -> dict[int, list[tuple[Deletion, bytes | None, bytes]]]:
        """(deletion, start, end) by number of the partition; start None for the partition's own."""
        if not len(heads):
            return {}
        part = window.table.take(pa.array(window.order[heads]))
        timestamps = part.column(fmt.DEL_TS).to_pylist()
        seconds = part.column(fmt.DEL_AT).to_pylist()
        ranges = (window.kinds[heads] == fmt.RANGE_DELETION).tolist()
        starts: list[bytes | None] = [None] * len(heads)
        ends: list[bytes] = [b""] * len(heads)
        if fmt.END in part.column_names:
            starts, ends = part.column(fmt.CK).to_pylist(), part.column(fmt.END).to_pylist()
        found: dict[int, list[tuple[Deletion, bytes | None, bytes]]] = {}
        rows = zip(numbers[heads].tolist(), timestamps, seconds, ranges, starts, ends, strict=True)
        for number, timestamp, second, is_range, start, end in rows:
            entry = ((timestamp, second), start if is_range else None, end)
            found.setdefault(number, []).append(entry)
        return found

    def _merged(
        self, window: "Sorted", low: int, entries: list[tuple[Deletion, bytes | None, bytes]]
    ) -> StoredPartition:
        """One partition's deletions, without those that another one makes needless."""
        first = window.table.slice(int(window.order[low]), 1)
        whole = StoredPartition(first.column(fmt.TOKEN)[0].as_py(), partition_keys(self._layout, first)[0])
        ranges = []
        for deletion, start, end in entries:
            if start is None:
                whole.deletion = newer_deletion(whole.deletion, deletion)
            else:
                ranges.append(RangeDeletion(start, end, deletion))
        own = whole.deletion
        whole.ranges = [r for r in disjoint(ranges) if own is None or r.deletion > own]
        return whole

    def _cover(self, window: "Sorted", floors: Ints, low: int, high: int, covering: StoredPartition) -> None:
        kinds = window.kinds[low:high]
        rows = low + int(np.searchsorted(kinds, fmt.STATIC_ROW))
        if covering.deletion is not None:
            floors[rows:high] = covering.deletion[0]
        if not covering.ranges:
            return
        rows = low + int(np.searchsorted(kinds, fmt.ROW))
        column, order = window.table.column(fmt.CK).combine_chunks(), window.order
        ck = lambda place: column[int(order[place])].as_py()  # noqa: E731
        for found in covering.ranges:
            start = bisect_left(range(high), found.start, rows, key=ck)
            end = bisect_left(range(high), found.end, start, key=ck)
            np.maximum(floors[start:end], found.deletion[0], out=floors[start:end])

    def _purged(self, whole: StoredPartition) -> StoredPartition:
        ranges = [r for r in whole.ranges if self._purge.deletion(r.deletion) is not None]
        return StoredPartition(whole.token, whole.key, self._purge.deletion(whole.deletion), ranges)
