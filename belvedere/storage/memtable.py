"""What was written since the last flush, by partition, readable at once.

A partition is a dict of rows by clustering key plus a sorted list of those keys: writes that ascend append,
others insert. The order of partitions is only made when somebody scans or flushes.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec
import numpy as np

from belvedere.model.mutations import Mutation, RangeDeletion
from belvedere.model.positions import Position as RecordPosition
from belvedere.model.rows import (
    AnyCell,
    Complex,
    Deletion,
    Row,
    cut,
    merge_rows,
    newer_deletion,
)
from belvedere.storage.deletions import disjoint
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.reads import MAX_TOKEN, KeySlice, Position

# What CPython takes beyond the bytes themselves: measured averages, rounded up.
PARTITION_BYTES = 500
ROW_BYTES = 250
CELL_BYTES = 45

#: Range deletions of a partition are brought into order when their number doubles beyond this.
_FEW_RANGES = 16
#: Positions not yet merged into the order of partitions, at most this many or a part of those in order.
_FEW_POSITIONS = 512
#: How many rows are looked at before others may run.
_ROWS_PER_STEP = 1000

_NO_RANGES: list[RangeDeletion] = []

#: What is stored of a row, and what it becomes when a write is merged into it.
Merge = tuple[Row, Row]


class MemPartition(msgspec.Struct, gc=False, eq=False):
    """In no cycle, so the collector need not look at it."""

    token: int
    key: bytes
    rows: dict[bytes, Row]
    order: list[bytes]
    #: Replaced, never changed in place: readers may hold it, and most partitions share the empty one.
    ranges: list[RangeDeletion]
    #: The commit log position of the last write here.
    after: int
    static: Row | None = None
    deletion: Deletion | None = None
    ranges_limit: int = _FEW_RANGES

    @property
    def plain(self) -> bool:
        """Only rows: nothing that deletes others."""
        return self.deletion is None and not self.ranges

    def keys_in(self, part: KeySlice) -> tuple[int, int]:
        """The stretch of `order` that a slice covers."""
        order = self.order
        low = bisect_left(order, part.start) if part.start else 0
        return low, len(order) if part.end is None else bisect_left(order, part.end)

    def rows_in(self, slices: Sequence[KeySlice]) -> list[tuple[bytes, Row]]:
        rows, order = self.rows, self.order
        found: list[tuple[bytes, Row]] = []
        for part in slices:
            low, high = self.keys_in(part)
            found.extend((key, rows[key]) for key in order[low:high])
        return found

    def stored(self, slices: Sequence[KeySlice] | None = None) -> StoredPartition:
        """All that is stored, or its rows of some slices only."""
        rows = self.rows_in(slices) if slices is not None else [(key, self.rows[key]) for key in self.order]
        return StoredPartition(self.token, self.key, self.deletion, self.ranges, self.static, rows)

    def stored_row(self, key: bytes) -> StoredPartition:
        row = self.rows.get(key)
        rows = [] if row is None else [(key, row)]
        return StoredPartition(self.token, self.key, self.deletion, self.ranges, self.static, rows)

    # ------------------------------------------------------------------------------------------- writes

    def delete_all(self, deletion: Deletion) -> None:
        self.deletion = newer_deletion(self.deletion, deletion)
        if self.static is not None:
            self.static = cut(self.static, deletion)
        self._cut_rows(0, len(self.order), deletion)
        self.ranges = [r for r in self.ranges if r.deletion > deletion]

    def delete_range(self, new: RangeDeletion) -> None:
        ranges = [*self.ranges, new]
        if len(ranges) > self.ranges_limit:
            ranges = disjoint(ranges)
            self.ranges_limit = max(_FEW_RANGES, 2 * len(ranges))
        self.ranges = ranges
        low, high = self.keys_in(KeySlice(new.start, new.end))
        self._cut_rows(low, high, new.deletion)

    def _cut_rows(self, low: int, high: int, deletion: Deletion) -> None:
        """Free what is deleted already of a stretch of `order`; readers apply the deletion again, to other
        sources too."""
        rows = self.rows
        kept = []
        for key in self.order[low:high]:
            left = cut(rows[key], deletion)
            if left is None:
                del rows[key]
            else:
                rows[key] = left
                kept.append(key)
        if len(kept) < high - low:
            self.order[low:high] = kept

    def merge_static(self, row: Row) -> None:
        left = row if self.deletion is None else cut(row, self.deletion)
        if left is not None:
            self.static = left if self.static is None else merge_rows(self.static, left)

    def merge_row(self, key: bytes, row: Row) -> None:
        if self.deletion is not None:
            left = cut(row, self.deletion)
            if left is None:
                return
            row = left
        rows = self.rows
        old = rows.get(key)
        if old is None:
            order = self.order
            if order and key < order[-1]:
                insort(order, key)
            else:
                order.append(key)
            rows[key] = row
        else:
            rows[key] = merge_rows(old, row)


class Reach(NamedTuple):
    """How far a replicated tablet's records were applied, and where the commit log has the last of them."""

    position: RecordPosition
    log: int


class Memtable:
    """Frozen memtables are no longer written: any thread may read them."""

    def __init__(self) -> None:
        self.partitions: dict[bytes, MemPartition] = {}
        self.bytes = 0
        #: Log positions and commit versions of the writes in here; 0 while empty.
        self.first_position = 0
        self.last_position = 0
        self.last_version = 0
        #: Of a replicated tablet, once frozen: all records up to there are in here, or in what is older.
        self.reach: Reach | None = None
        self._order: list[Position] = []
        self._recent: list[Position] = []

    def apply(
        self, mutation: Mutation, position: int, version: int, size: int, known: Merge | None = None
    ) -> int:
        """Merge one mutation; `size` is that of its log record. Returns by how much memory grew. If it is of
        one row, somebody may have merged that before."""
        key = mutation.key
        partition = self.partitions.get(key)
        if partition is None:
            partition = MemPartition(mutation.token, key, {}, [], _NO_RANGES, position)
            self.partitions[key] = partition
            self._recent.append((mutation.token, key))
            size += PARTITION_BYTES
            if not self.first_position:
                self.first_position = position
        partition.after = self.last_position = position
        if version > self.last_version:
            self.last_version = version
        if mutation.deletion is not None or mutation.ranges or mutation.static is not None:
            size += self._apply_rest(partition, mutation)
        if partition.deletion is None:
            rows = partition.rows
            for clustering, row in mutation.rows:
                old = rows.get(clustering)
                if old is None:
                    order = partition.order
                    if order and clustering < order[-1]:
                        insort(order, clustering)
                    else:
                        order.append(clustering)
                    rows[clustering] = row
                elif known is not None and known[0] is old:
                    rows[clustering] = known[1]
                else:
                    rows[clustering] = merge_rows(old, row)
                size += ROW_BYTES + CELL_BYTES * len(row.cells)
        else:
            for clustering, row in mutation.rows:
                partition.merge_row(clustering, row)
                size += ROW_BYTES + CELL_BYTES * len(row.cells)
        self.bytes += size
        return size

    def _apply_rest(self, partition: MemPartition, mutation: Mutation) -> int:
        if mutation.deletion is not None:
            partition.delete_all(mutation.deletion)
        for new in mutation.ranges:
            partition.delete_range(new)
        if mutation.static is None:
            return 0
        partition.merge_static(mutation.static)
        return ROW_BYTES + CELL_BYTES * len(mutation.static.cells)

    # -------------------------------------------------------------------------------------------- reads

    def positions_from(self, start: Position, end_token: int, limit: int) -> list[Position]:
        """The next partitions in order, at most `limit`."""
        recent = self._recent
        if len(recent) > max(_FEW_POSITIONS, len(self._order) >> 3):
            self._settle()
        elif recent:
            recent.sort()
        found = _stretch(self._order, start, end_token, limit)
        if not self._recent:
            return found
        found.extend(_stretch(self._recent, start, end_token, limit))
        found.sort()
        return found[:limit]

    def _settle(self) -> None:
        # Two ascending runs: the sort only merges them.
        self._recent.sort()
        self._order.extend(self._recent)
        self._order.sort()
        self._recent = []

    def stored_partitions(self) -> Iterator[StoredPartition]:
        """Everything in order, for a flush; range deletions ascend and do not overlap. Changes nothing, so a
        thread may run it over a frozen memtable while the event loop reads there."""
        partitions = list(self.partitions.values())
        # Sorted by numpy because that lets other threads run meanwhile.
        tokens = np.fromiter((p.token for p in partitions), dtype=np.int64, count=len(partitions))
        ordered = [partitions[index] for index in np.argsort(tokens, kind="stable").tolist()]
        for _, equals in groupby(ordered, key=lambda p: p.token):
            for partition in sorted(equals, key=lambda p: p.key):
                stored = partition.stored()
                stored.ranges = disjoint(stored.ranges)
                yield stored

    def oldest_stamps(self) -> Iterator[int]:
        """Write times of which the smallest is the oldest in here. Looks at every cell, so it comes in steps
        of bounded work; writes may go on between them."""
        oldest, looked = MAX_TOKEN, 0
        for partition in list(self.partitions.values()):
            oldest = min(oldest, oldest_of_heads(partition))
            for row in list(partition.rows.values()):
                oldest = min(oldest, oldest_in(row))
                looked += 1
                if looked % _ROWS_PER_STEP == 0:
                    yield oldest
        yield oldest


class MemoryUse:
    """Bytes in the memtables of all tablets; `frozen` of them wait for a flush."""

    __slots__ = ("frozen", "used")

    def __init__(self) -> None:
        self.used = 0
        self.frozen = 0


def _stretch(order: list[Position], start: Position, end_token: int, limit: int) -> list[Position]:
    low = bisect_left(order, start)
    found = order[low : low + limit]
    if found and found[-1][0] > end_token:
        found = [position for position in found if position[0] <= end_token]
    return found


def oldest_of_heads(partition: MemPartition) -> int:
    """The oldest write time of what is not in rows; what holds nothing counts as newest."""
    stamps = [found.deletion[0] for found in partition.ranges]
    if partition.deletion is not None:
        stamps.append(partition.deletion[0])
    if partition.static is not None:
        stamps.append(oldest_in(partition.static))
    return min(stamps, default=MAX_TOKEN)


def oldest_in(row: Row) -> int:
    oldest = row.timestamp if row.live else MAX_TOKEN
    if row.deletion is not None:
        oldest = min(oldest, row.deletion[0])
    for cell in row.cells:
        if cell is not None:
            oldest = min(oldest, _oldest_in_cell(row, cell))
    return oldest


def _oldest_in_cell(row: Row, cell: AnyCell) -> int:
    if type(cell) is bytes:
        return row.timestamp
    if isinstance(cell, Complex):
        oldest = min((item[1] for item in cell.items.values()), default=MAX_TOKEN)
        return oldest if cell.deletion is None else min(oldest, cell.deletion[0])
    return cell[1]  # type: ignore[index]
