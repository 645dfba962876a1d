"""Reading many partitions in token order: cursors over memtables and files, merged position by position."""

from collections.abc import Sequence

from belvedere.model.rows import visible
from belvedere.runtime.api import Runtime
from belvedere.storage.files import LiveFile, Pinned
from belvedere.storage.memtable import MemPartition, Memtable
from belvedere.storage.merge import (
    LiveColumns,
    Rows,
    coverage_of,
    in_slices,
    merged_rows,
    visible_rows,
    visible_static,
)
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.reads import (
    EVERYTHING,
    KeySlice,
    PartitionRead,
    PartitionRows,
    Position,
    RangeRead,
    ScanPage,
)
from belvedere.storage.tablet_reads import SliceMerge, memory_piece

#: How far cursors look ahead, and how often a long scan lets others run.
_MEMORY_POSITIONS = 1024
_FILE_ROWS = 4096
_FEWEST_FILE_ROWS = 256
_PARTITIONS_PER_TURN = 2000
#: A partition that has to be merged costs as much as so many that need not be.
_MERGE_COST = 4
#: Partitions of a memtable with more rows than this are read in pieces when there is a limit.
_LARGE_PARTITION = 4096


def after_partition(position: Position) -> Position:
    """The smallest position behind a partition."""
    return (position[0], position[1] + b"\0")


class _MemoryCursor:
    def __init__(self, memtable: Memtable, start: Position, end_token: int) -> None:
        self._memtable = memtable
        self._end_token = end_token
        self._next = start
        self._ahead: list[Position] = []
        self._finished = False
        #: The log position of what was peeked at.
        self.after = 0

    @property
    def head(self) -> Position | None:
        return self._ahead[-1] if self._ahead else None

    def fill(self) -> None:
        if self._ahead or self._finished:
            return
        found = self._memtable.positions_from(self._next, self._end_token, _MEMORY_POSITIONS)
        self._finished = len(found) < _MEMORY_POSITIONS
        if found:
            self._next = after_partition(found[-1])
        found.reverse()
        self._ahead = found

    def take(self) -> MemPartition:
        return self._memtable.partitions[self._ahead.pop()[1]]

    def peek(self) -> StoredPartition | None:
        """The next partition if it deletes nothing and is not large."""
        partition = self._memtable.partitions[self._ahead[-1][1]]
        if partition.deletion is not None or partition.ranges or len(partition.order) > _LARGE_PARTITION:
            return None
        self.after = partition.after
        return partition.stored()


class _FileCursor:
    def __init__(self, file: LiveFile, start: Position, end_token: int, rows: int) -> None:
        self._file = file
        self._end_token = end_token
        self._next: Position | None = start
        self._rows = rows
        self._ahead: list[StoredPartition] = []
        #: A partition that is better read in pieces than whole, if it comes next.
        self._wide: Position | None = None
        self.after = 0
        if file.facts.max_token < start[0] or file.facts.min_token > end_token:
            self._next = None

    @property
    def head(self) -> Position | None:
        if self._ahead:
            return (self._ahead[-1].token, self._ahead[-1].key)
        return self._wide

    async def fill(self) -> None:
        while self.head is None and self._next is not None:
            if self._file.sstable.is_wide(self._next):
                self._wide = self._next
                self._next = after_partition(self._wide)
                return
            found, self._next = await self._file.sstable.batch(self._next, self._end_token, self._rows)
            found.reverse()
            self._ahead = found

    def peek(self) -> StoredPartition | None:
        """The next partition if it deletes nothing and is not read in pieces."""
        if not self._ahead:
            return None
        partition = self._ahead[-1]
        return partition if partition.deletion is None and not partition.ranges else None

    def take(self) -> StoredPartition | LiveFile:
        """The partition, or the file to read it from in pieces."""
        if self._ahead:
            return self._ahead.pop()
        self._wide = None
        return self._file


class _Scan:
    def __init__(
        self,
        memtables: Sequence[Memtable],
        files: Sequence[LiveFile],
        read: RangeRead,
        now: int,
        columns: LiveColumns,
    ) -> None:
        self._read = read
        self._now = now
        self._columns = columns
        rows = _FILE_ROWS
        if read.limit:
            rows = min(_FILE_ROWS, max(_FEWEST_FILE_ROWS, read.limit + 1))
        self._memory = [_MemoryCursor(memtable, read.start, read.end_token) for memtable in memtables]
        self._files = [_FileCursor(file, read.start, read.end_token, rows) for file in files]
        self._cursors: list[_MemoryCursor | _FileCursor] = [*self._memory, *self._files]
        self._count = 0
        #: Partitions looked at since others had their turn.
        self.looked = 0
        self.page = ScanPage()

    async def step(self) -> bool:
        """Add some partitions to the page; False when it is full or there are no more."""
        for file in self._files:
            if file.head is None:
                await file.fill()
        for memory in self._memory:
            memory.fill()
        leaders = [(head, cursor) for cursor in self._cursors if (head := cursor.head) is not None]
        if not leaders:
            return False
        head, cursor = min(leaders, key=_first)
        others = [other for other, _ in leaders if other is not head]
        bound = min(others, default=None)
        if bound is None or head < bound:
            if self._add_alone(cursor, bound):
                return True
            head = cursor.head or head
        return await self.add_partition(head)

    def _add_alone(self, cursor: "_MemoryCursor | _FileCursor", bound: Position | None) -> bool:
        """Partitions that only one source has, in a tight loop, as long as they are plain: the most of most
        scans. False if none was added."""
        if self._read.slices is not EVERYTHING or self._read.partition_limit or self._columns.masking:
            return False
        page, now, limit = self.page, self._now, self._read.limit
        count = before = self._count
        looked = 0
        while looked < _PARTITIONS_PER_TURN and (head := cursor.head) is not None:
            if bound is not None and head >= bound:
                break
            plain = cursor.peek()
            if plain is None or (limit and count + max(1, len(plain.rows)) >= limit):
                break
            if self._read.first_slices is not None and head == self._read.start:
                break
            cursor.take()
            looked += 1
            rows = [(key, live) for key, row in plain.rows if (live := visible(row, now)) is not None]
            if self._read.reverse:
                rows.reverse()
            static = plain.static
            if static is not None:
                static = visible(static, now)
            if cursor.after > page.after:
                page.after = cursor.after
            if rows or static is not None:
                page.partitions.append(PartitionRows(head[0], head[1], static, rows))
                count += len(rows) or 1
        self._count += count - before
        self.looked += looked
        return looked > 0

    async def add_partition(self, position: Position) -> bool:
        """Merge the partition at `position` into the page; False when the page is full."""
        self.looked += _MERGE_COST
        taken = [cursor.take() for cursor in self._files if cursor.head == position]
        wide = [one for one in taken if isinstance(one, LiveFile)]
        stored = [one for one in taken if isinstance(one, StoredPartition)]
        memory = [cursor.take() for cursor in self._memory if cursor.head == position]
        read = self._read
        slices = read.slices
        if read.first_slices is not None and position == read.start:
            slices = read.first_slices
        left = read.limit - self._count if read.limit else 0
        limit = (
            min(left, read.partition_limit) if left and read.partition_limit else left or read.partition_limit
        )
        if wide or (limit and any(len(partition.order) > _LARGE_PARTITION for partition in memory)):
            part = PartitionRead(position[0], position[1], slices, read.reverse, limit)
            found = await self._merge_in_pieces(part, stored, wide, memory)
        else:
            found = self._merge(position, stored, memory, slices, limit)
        if found.more and len(found.rows) == read.partition_limit and (not left or len(found.rows) < left):
            found.more = False
        for partition in memory:
            # Also where nothing is left to see: a deletion that is not yet durable tells something, too.
            self.page.after = max(self.page.after, partition.after)
        if found.rows or found.static is not None:
            self.page.partitions.append(found)
            self._count += max(1, len(found.rows))
        if read.limit and self._count >= read.limit:
            self.page.next = position if found.more else after_partition(position)
            return False
        return True

    def _merge(
        self,
        position: Position,
        stored: list[StoredPartition],
        memory: list[MemPartition],
        slices: tuple[KeySlice, ...],
        limit: int,
    ) -> PartitionRows:
        if slices is EVERYTHING:
            sources = list(stored)
        else:
            sources = [_narrowed(partition, in_slices(partition.rows, slices)) for partition in stored]
        sources += [partition.stored(slices) for partition in memory]
        coverage = coverage_of(sources)
        rows: Rows = merged_rows(sources)
        if self._read.reverse:
            rows = rows[::-1]
        seen, looked = visible_rows(rows, coverage, self._now, self._columns, limit)
        static = visible_static(sources, coverage.partition, self._now, self._columns)
        more = bool(limit) and len(seen) == limit and looked < len(rows)
        return PartitionRows(position[0], position[1], static, seen, 0, more)

    async def _merge_in_pieces(
        self,
        read: PartitionRead,
        stored: list[StoredPartition],
        wide: list[LiveFile],
        memory: list[MemPartition],
    ) -> PartitionRows:
        merge = SliceMerge(read, self._now, self._columns)
        while not merge.done:
            sources = []
            for file in wide:
                piece = await file.sstable.partition(
                    read.token, read.key, slices=merge.slices, max_rows=merge.piece, reverse=read.reverse
                )
                if piece is not None:
                    sources.append(piece)
            for partition in stored:
                rows = in_slices(partition.rows, merge.slices)
                if merge.piece:
                    rows = rows[-merge.piece :] if read.reverse else rows[: merge.piece]
                sources.append(_narrowed(partition, rows))
            sources += [memory_piece(p, merge.slices, merge.piece, read.reverse) for p in memory]
            merge.feed(sources)
        return merge.result


def _narrowed(whole: StoredPartition, rows: Rows) -> StoredPartition:
    return StoredPartition(whole.token, whole.key, whole.deletion, whole.ranges, whole.static, rows)


async def scan(
    runtime: Runtime,
    memtables: Sequence[Memtable],
    files: Sequence[LiveFile],
    read: RangeRead,
    now: int,
    columns: LiveColumns,
) -> ScanPage:
    run = _Scan(memtables, files, read, now, columns)
    with Pinned(files):
        while await run.step():
            if run.looked >= _PARTITIONS_PER_TURN:
                run.looked = 0
                await runtime.clock.sleep(0)
    return run.page


def _first(leader: tuple[Position, object]) -> Position:
    return leader[0]
