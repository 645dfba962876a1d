"""Rows for a SELECT, a batch at a time, from named partitions or a token range; resumable after any row."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from belvedere.model.rows import Row
from belvedere.model.schema import Table
from belvedere.model.token import token_of
from belvedere.query.access import DataAccess
from belvedere.query.errors import ProtocolError
from belvedere.query.select.paging import PagingState
from belvedere.storage.reads import KeySlice, PartitionRead, PartitionRows, Position, RangeRead

Slices = tuple[KeySlice, ...]

#: Rows read at once where the query does not bound them; then others get their turn.
ROWS_PER_TURN = 2000
#: As many rows as one read costs that finds none.
_ROWS_PER_READ = 10


@dataclass(slots=True)
class Batch:
    """Some rows of one partition, in reading order."""

    token: int
    key: bytes
    static: Row | None
    rows: Sequence[tuple[bytes, Row]]
    #: Whether these are the partition's first rows in this query.
    fresh: bool
    #: Whether the partition may have further rows.
    partial: bool


class Turns:
    """Lets others run every few thousand rows: what is in memory is read without waiting for anything."""

    def __init__(self, access: DataAccess) -> None:
        self._access = access
        self._rows = 0

    async def before_read(self) -> None:
        if self._rows >= ROWS_PER_TURN:
            self._rows = 0
            await self._access.pause()

    def count(self, rows: int) -> None:
        self._rows += rows + _ROWS_PER_READ


class Source(Protocol):
    #: The log position that the rows seen so far depend on.
    after: int

    async def next(self, wanted: int) -> Batch | None:
        """The next batch, of about `wanted` rows (0: any number); None at the end."""

    def skip_partition(self) -> None:
        """Go on behind the partition of the last batch."""

    @property
    def exhausted(self) -> bool:
        """True if it is certain that `next` has nothing more."""


def beyond_key(slices: Slices, key: bytes, *, reverse: bool) -> Slices:
    """What is left of the slices after the row with this key."""
    left = []
    for piece in slices:
        if reverse:
            end = key if piece.end is None else min(piece.end, key)
            if piece.start < end:
                left.append(KeySlice(piece.start, end))
        else:
            start = max(piece.start, key + b"\x00")
            if piece.end is None or start < piece.end:
                left.append(KeySlice(start, piece.end))
    return tuple(left)


class KeysSource:
    """Partitions named by their keys, one after the other."""

    def __init__(
        self,
        access: DataAccess,
        table: Table,
        keys: Sequence[bytes],
        slices: Slices,
        *,
        reverse: bool,
        now: int,
        state: PagingState | None,
    ) -> None:
        self.after = 0
        self._access, self._table, self._now = access, table, now
        self._turns = Turns(access)
        self._keys = list(keys) if slices else []
        self._slices, self._reverse = slices, reverse
        self._index = 0
        #: What is left of the current partition; None before its first batch.
        self._left: Slices | None = None
        if state is not None:
            self._resume(state)

    def _resume(self, state: PagingState) -> None:
        if state.key not in self._keys:
            raise ProtocolError("Invalid value for the paging state")
        self._index = self._keys.index(state.key)
        if state.clustering_key is None:
            self._index += 1
        else:
            self._left = beyond_key(self._slices, state.clustering_key, reverse=self._reverse)
            if not self._left:
                self._advance()

    def _advance(self) -> None:
        self._index += 1
        self._left = None

    @property
    def exhausted(self) -> bool:
        return self._index >= len(self._keys)

    async def next(self, wanted: int) -> Batch | None:
        if self.exhausted:
            return None
        key = self._keys[self._index]
        fresh = self._left is None
        slices = self._slices if self._left is None else self._left
        read = PartitionRead(token_of(key), key, slices, self._reverse, wanted)
        await self._turns.before_read()
        found = self._access.read_now(self._table, read, self._now)
        if found is None:
            found = await self._access.read(self._table, read, self._now)
        self.after = max(self.after, found.after)
        self._turns.count(len(found.rows))
        left = beyond_key(slices, found.rows[-1][0], reverse=self._reverse) if _cut_short(found) else ()
        if left:
            self._left = left
        else:
            self._advance()
        return Batch(read.token, key, found.static, found.rows, fresh, bool(left))

    def skip_partition(self) -> None:
        if self._left is not None:
            self._advance()


def _cut_short(found: PartitionRows) -> bool:
    return found.more and bool(found.rows)


class RangeSource:
    """All partitions in a range of tokens."""

    def __init__(
        self,
        access: DataAccess,
        table: Table,
        tokens: tuple[int, int],
        slices: Slices,
        *,
        reverse: bool,
        now: int,
        partition_limit: int,
        state: PagingState | None,
    ) -> None:
        self.after = 0
        self._access, self._table, self._now = access, table, now
        self._turns = Turns(access)
        self._slices, self._reverse, self._partition_limit = slices, reverse, partition_limit
        self._end = tokens[1]
        self._next: Position | None = (tokens[0], b"") if tokens[0] <= tokens[1] and slices else None
        #: What is left to read of the partition exactly at `_next`, when it was begun already.
        self._left: Slices | None = None
        #: The partition that was begun before the present page of partitions.
        self._begun: Position | None = None
        self._waiting: deque[PartitionRows] = deque()
        if state is not None:
            self._resume(state)

    def _resume(self, state: PagingState) -> None:
        position = (state.token, state.key)
        if self._next is None or not self._next[0] <= state.token <= self._end:
            raise ProtocolError("Invalid value for the paging state")
        self._next = position
        if state.clustering_key is not None:
            self._left = beyond_key(self._slices, state.clustering_key, reverse=self._reverse) or None
        if self._left is None:
            self._next = _behind(position)

    @property
    def exhausted(self) -> bool:
        return not self._waiting and self._next is None

    async def whole_partitions(self, wanted: int, most: int) -> list[PartitionRows]:
        """The next partitions as they were read, as far as they are complete and have at most `most` rows
        together; [] when the next one, if any, must be taken by `next`."""
        if not self._waiting and self._next is not None:
            await self._fetch(wanted)
        taken: list[PartitionRows] = []
        count = 0
        waiting = self._waiting
        while waiting:
            found = waiting[0]
            count += len(found.rows) or 1
            position = (found.token, found.key)
            if count > most or self._begun == position or self._next == position:
                break
            taken.append(waiting.popleft())
        return taken

    async def next(self, wanted: int) -> Batch | None:
        while not self._waiting:
            if self._next is None:
                return None
            await self._fetch(wanted)
        found = self._waiting.popleft()
        position = (found.token, found.key)
        fresh = self._begun != position
        partial = not self._waiting and self._next == position
        return Batch(found.token, found.key, found.static, found.rows, fresh, partial)

    async def _fetch(self, wanted: int) -> None:
        assert self._next is not None
        read = RangeRead(
            self._next,
            self._end,
            self._slices,
            self._reverse,
            self._left,
            wanted or 1000,
            self._partition_limit,
        )
        self._begun = None if self._left is None else self._next
        await self._turns.before_read()
        page = await self._access.scan(self._table, read, self._now)
        self._turns.count(sum(len(partition.rows) for partition in page.partitions))
        self.after = max(self.after, page.after)
        self._waiting.extend(page.partitions)
        self._next, self._left = page.next, None
        last = page.partitions[-1] if page.partitions else None
        if last is not None and page.next == (last.token, last.key):
            # The same partition goes on. If it could not, behind it.
            before = (
                self._slices if self._begun != page.next or read.first_slices is None else read.first_slices
            )
            left = beyond_key(before, last.rows[-1][0], reverse=self._reverse) if last.rows else ()
            self._left = left or None
            if not left:
                self._next = _behind(page.next)

    def skip_partition(self) -> None:
        if not self._waiting and self._left is not None and self._next is not None:
            self._next, self._left = _behind(self._next), None


def _behind(position: Position) -> Position:
    """The first position after a partition's own."""
    return position[0], position[1] + b"\x00"
