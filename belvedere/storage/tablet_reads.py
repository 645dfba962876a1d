"""Reading a tablet: which sources a read needs, and the least work to answer it from them.

A read takes the memtables and files of one instant. Memory answers at once; a file answers at once when its
row groups are cached, and otherwise says NEEDS_DISK, upon which the whole read is done again the slow way.
"""

from collections.abc import Iterator, Sequence

from belvedere.model.rows import Row, visible
from belvedere.storage.deletions import Coverage, touching
from belvedere.storage.files import LiveFile, Pinned
from belvedere.storage.memtable import MemPartition, Memtable
from belvedere.storage.merge import (
    LiveColumns,
    Rows,
    coverage_of,
    merged_rows,
    slices_after,
    visible_rows,
    visible_static,
)
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.reads import KeySlice, PartitionRead, PartitionRows
from belvedere.storage.sstable_read import NEEDS_DISK

#: Rows asked of each source at a time beyond the limit, so that a few tombstones cost no second round.
_EXTRA_ROWS = 16


def read_memory(
    partition: MemPartition, read: PartitionRead, now: int, columns: LiveColumns
) -> PartitionRows:
    """A partition of which only one memtable knows."""
    if read.row is not None and partition.deletion is None and not partition.ranges:
        row = partition.rows.get(read.row)
        rows: Rows = []
        if row is not None:
            seen = visible(columns.regular(row), now)
            if seen is not None:
                rows = [(read.row, seen)]
        static = partition.static
        if static is not None:
            static = visible(columns.static(static), now)
        return PartitionRows(read.token, read.key, static, rows)
    if read.row is not None:
        return _point(read, [partition.stored_row(read.row)], now, columns)
    coverage = Coverage(partition.deletion, touching(partition.ranges, read.slices))
    static = None
    if partition.static is not None:
        static = visible(columns.static(partition.static), now)
    stretches = [partition.keys_in(part) for part in read.slices]
    total = sum(high - low for low, high in stretches if high > low)
    walk = _walk(partition, stretches, read.reverse)
    rows, looked = visible_rows(walk, coverage, now, columns, read.limit)
    more = bool(read.limit) and len(rows) == read.limit and looked < total
    return PartitionRows(read.token, read.key, static, rows, 0, more)


def _walk(
    partition: MemPartition, stretches: Sequence[tuple[int, int]], reverse: bool
) -> Iterator[tuple[bytes, Row]]:
    order, rows = partition.order, partition.rows
    if reverse:
        for low, high in reversed(stretches):
            for index in range(high - 1, low - 1, -1):
                key = order[index]
                yield key, rows[key]
        return
    for low, high in stretches:
        for index in range(low, high):
            key = order[index]
            yield key, rows[key]


def candidates(files: Sequence[LiveFile], token: int) -> list[LiveFile]:
    """The files that may hold a partition with this token. Their bloom filters are asked later, when a row
    group is not in the cache: a look into a cached one costs less."""
    return [file for file in files if file.min_token <= token <= file.max_token]


def answers_alone(
    partition: MemPartition, clustering: bytes, files: Sequence[LiveFile], columns: LiveColumns
) -> bool:
    """True if the memtable's row is whole and newer than anything in the files."""
    row = partition.rows.get(clustering)
    if row is None or partition.deletion is not None or partition.ranges or not columns.complete(row):
        return False
    return all(row.timestamp > file.max_timestamp for file in files)


def _point(
    read: PartitionRead, sources: Sequence[StoredPartition], now: int, columns: LiveColumns
) -> PartitionRows:
    if len(sources) == 1:
        only = sources[0]
        if only.deletion is None and not only.ranges:
            return _point_alone(read, only, now, columns)
    coverage = coverage_of(sources)
    static = visible_static(sources, coverage.partition, now, columns)
    rows, _ = visible_rows(merged_rows(sources), coverage, now, columns, 0)
    return PartitionRows(read.token, read.key, static, rows)


def _point_alone(read: PartitionRead, only: StoredPartition, now: int, columns: LiveColumns) -> PartitionRows:
    static = only.static
    if static is not None:
        static = visible(columns.static(static), now)
    rows: Rows = []
    if only.rows:
        key, row = only.rows[0]
        seen = visible(columns.regular(row), now)
        if seen is not None:
            rows = [(key, seen)]
    return PartitionRows(read.token, read.key, static, rows)


class SliceMerge:
    """A read of slices over several sources, which may give their rows in pieces: feed it until `done`."""

    __slots__ = ("_columns", "_now", "_read", "done", "piece", "result", "slices")

    def __init__(self, read: PartitionRead, now: int, columns: LiveColumns) -> None:
        self._read = read
        self._now = now
        self._columns = columns
        self.slices: tuple[KeySlice, ...] = read.slices
        #: Rows that each source should give at most this time; 0 for all.
        self.piece = read.limit + _EXTRA_ROWS if read.limit else 0
        self.result = PartitionRows(read.token, read.key, None, [])
        self.done = False

    def feed(self, sources: Sequence[StoredPartition]) -> None:
        """One piece of each source, for `slices` and `piece`. A source that gave `piece` rows or more may
        have others behind its last one: only up to there is the merge complete."""
        read, result = self._read, self.result
        coverage = coverage_of(sources)
        if self.slices is read.slices:
            result.static = visible_static(sources, coverage.partition, self._now, self._columns)
        rows = merged_rows(sources)
        horizon = self._horizon(sources)
        if horizon is not None:
            rows = [item for item in rows if (item[0] >= horizon if read.reverse else item[0] <= horizon)]
        if read.reverse:
            rows = rows[::-1]
        limit = read.limit - len(result.rows) if read.limit else 0
        found, looked = visible_rows(rows, coverage, self._now, self._columns, limit)
        result.rows.extend(found)
        if limit and len(found) == limit:
            result.more = looked < len(rows) or horizon is not None
            self.done = True
        elif horizon is None:
            self.done = True
        else:
            self.slices = slices_after(self.slices, horizon, read.reverse)
            self.piece *= 2
            self.done = not self.slices

    def _horizon(self, sources: Sequence[StoredPartition]) -> bytes | None:
        if not self.piece:
            return None
        if self._read.reverse:
            return max((s.rows[0][0] for s in sources if len(s.rows) >= self.piece), default=None)
        return min((s.rows[-1][0] for s in sources if len(s.rows) >= self.piece), default=None)


def memory_piece(
    partition: MemPartition, slices: Sequence[KeySlice], piece: int, reverse: bool
) -> StoredPartition:
    """What a memtable gives to a SliceMerge."""
    if not piece:
        return partition.stored(slices)
    stretches = [partition.keys_in(part) for part in slices]
    rows: Rows = []
    for item in _walk(partition, stretches, reverse):
        rows.append(item)
        if len(rows) >= piece:
            break
    if reverse:
        rows.reverse()
    ranges = touching(partition.ranges, slices)
    return StoredPartition(partition.token, partition.key, partition.deletion, ranges, partition.static, rows)


def partitions_in(memtables: Sequence[Memtable], key: bytes) -> list[MemPartition]:
    return [found for memtable in memtables if (found := memtable.partitions.get(key)) is not None]


def read_now(
    memory: Sequence[MemPartition],
    files: Sequence[LiveFile],
    read: PartitionRead,
    now: int,
    columns: LiveColumns,
) -> PartitionRows | None:
    """From memory and cached row groups; None if a disk is needed."""
    token, key = read.token, read.key
    if read.row is not None:
        sources = [partition.stored_row(read.row) for partition in memory]
        for file in files:
            stored = file.sstable.partition_now(token, key, row=read.row)
            if stored is NEEDS_DISK:
                return None
            if stored is not None:
                sources.append(stored)
        return _point(read, sources, now, columns)
    merge = SliceMerge(read, now, columns)
    while not merge.done:
        sources = [memory_piece(p, merge.slices, merge.piece, read.reverse) for p in memory]
        for file in files:
            stored = file.sstable.partition_now(
                token, key, slices=merge.slices, max_rows=merge.piece, reverse=read.reverse
            )
            if stored is NEEDS_DISK:
                return None
            if stored is not None:
                sources.append(stored)
        merge.feed(sources)
    return merge.result


async def read_waiting(
    memtables: Sequence[Memtable],
    files: Sequence[LiveFile],
    read: PartitionRead,
    now: int,
    columns: LiveColumns,
) -> PartitionRows:
    """The same with disk reads. Memory is looked at after the files, in one step with the merge."""
    token, key = read.token, read.key
    with Pinned(files):
        if read.row is not None:
            sources = []
            for file in files:
                stored = await file.sstable.partition(token, key, row=read.row)
                if stored is not None:
                    sources.append(stored)
            sources += [partition.stored_row(read.row) for partition in partitions_in(memtables, key)]
            return _point(read, sources, now, columns)
        merge = SliceMerge(read, now, columns)
        while not merge.done:
            sources = []
            for file in files:
                stored = await file.sstable.partition(
                    token, key, slices=merge.slices, max_rows=merge.piece, reverse=read.reverse
                )
                if stored is not None:
                    sources.append(stored)
            memory = partitions_in(memtables, key)
            sources += [memory_piece(p, merge.slices, merge.piece, read.reverse) for p in memory]
            merge.feed(sources)
        return merge.result
