"""One decoded row group: finds entries by key and turns columns back into rows.

A group is decoded from Parquet to Arrow once, off the event loop; a column becomes wire values only when
something looks at it. A group whose cells all share their row's stamp, the ordinary case, builds its rows
without looking at any stamp column but the row's.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise, repeat
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.model.mutations import RangeDeletion
from belvedere.model.ordering import join_partition_key
from belvedere.model.rows import AnyCell, Deletion, Row
from belvedere.model.types import BLOB
from belvedere.storage import sstable_format as fmt
from belvedere.storage.columns import WireColumn, from_arrow
from belvedere.storage.deletions import touching
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.reads import EVERYTHING, KeySlice
from belvedere.storage.sstable_cells import NO_STAMP, AbsentCells, CellColumn, ElementCells, StampedCells
from belvedere.storage.sstable_format import StoredColumn
from belvedere.storage.sstable_plan import ReadPlan

#: So few rows are cheaper one by one than column by column.
_FEW: Final = 16
#: Rows that are made at a time when partitions are read one after the other.
_ROWS_AT_A_TIME: Final = 256


class DecodedGroup:
    """Entries of one row group, addressed by their index."""

    def __init__(self, plan: ReadPlan, table: pa.Table) -> None:
        self._plan = plan
        self._columns = _arrays(table)
        self.size: int = table.num_rows
        #: Arrow's bytes, and once more for the wire values made of them.
        self.cost: int = 2 * table.get_total_buffer_size() + 4096
        self._tokens = np.asarray(self._columns.pop(fmt.TOKEN)).data
        kinds = np.asarray(self._columns.pop(fmt.KIND))
        #: Kind of each entry, or None if all are rows.
        self._kinds: bytes | None = None if (kinds == fmt.ROW).all() else kinds.tobytes()
        self._timestamps = self._numbers(fmt.TS)
        self._live = np.asarray(self._columns.pop(fmt.LIVE)).tobytes()
        for name in (fmt.TTL, fmt.EXP, fmt.DEL_TS, fmt.DEL_AT):
            if name in self._columns and self._columns[name].null_count == self.size:
                del self._columns[name]
        #: (ttls, expiries) and (timestamps, seconds) of deletions, where the group has any.
        self._stamps: tuple[memoryview, memoryview] | None = None
        self._deletions: tuple[memoryview, memoryview] | None = None
        if any(name in self._columns for name in (fmt.TTL, fmt.EXP, fmt.DEL_TS)):
            self._stamps = (self._numbers(fmt.TTL, 0), self._numbers(fmt.EXP, 0))
            if fmt.DEL_TS in self._columns:
                self._deletions = (self._numbers(fmt.DEL_TS), self._numbers(fmt.DEL_AT, 0))
        self._cells: dict[bool, Sequence[CellColumn]] = {}
        self._row_getters: list[Callable[[int], AnyCell]] | None = None

    @cached_property
    def _key_columns(self) -> list[WireColumn]:
        if self._plan.has_key_column:
            return [from_arrow(BLOB, self._columns[fmt.KEY])]
        return [from_arrow(one.column.type, self._columns[one.name]) for one in self._plan.partition_key]

    @cached_property
    def _ck_column(self) -> WireColumn:
        return from_arrow(BLOB, self._columns[fmt.CK])

    @cached_property
    def ck(self) -> Callable[[int], bytes]:
        """The clustering key of an entry."""
        if not self._plan.has_clustering:
            return lambda _: b""
        return self._ck_column.get  # type: ignore[return-value]

    @cached_property
    def key(self) -> Callable[[int], bytes]:
        """The partition key of an entry."""
        columns = self._key_columns
        if len(columns) == 1:
            return columns[0].get  # type: ignore[return-value]
        return lambda index: join_partition_key([column.get(index) for column in columns])  # type: ignore[misc]

    # -- finding -----------------------------------------------------------------------------------

    def find(self, token: int, key: bytes) -> tuple[int, int]:
        """The entries of a partition; an empty range if there are none here."""
        tokens, starts, collide = self._runs
        run = bisect_left(tokens, token)
        if run == len(tokens) or tokens[run] != token:
            return 0, 0
        low, high = starts[run], starts[run + 1]
        if collide:
            return self._among_equal_tokens(low, high, key)
        return (low, high) if self.key(low) == key else (0, 0)

    @cached_property
    def _runs(self) -> tuple[list[int], list[int], bool]:
        """Distinct tokens; where the run of each begins (and one more for the end); and whether any run has
        several keys, as is all but never the case."""
        tokens = np.asarray(self._tokens)
        starts = np.flatnonzero(np.concatenate(([True], tokens[1:] != tokens[:-1])))
        ends = np.append(starts[1:], self.size)
        long = ends > starts + 1
        firsts, lasts = starts[long].tolist(), (ends[long] - 1).tolist()
        columns = self._key_columns
        collide = any(column.take(firsts) != column.take(lasts) for column in columns)
        return tokens[starts].tolist(), [*starts.tolist(), self.size], collide

    def _among_equal_tokens(self, low: int, high: int, key: bytes) -> tuple[int, int]:
        """Two keys of one token are rare: look at each entry's key."""
        keys = [self.key(index) for index in range(low, high)]
        return low + bisect_left(keys, key), low + bisect_right(keys, key)  # bytes, as in the file's order

    def token(self, index: int) -> int:
        return self._tokens[index]

    def position(self, index: int) -> fmt.EntryPosition:
        kind = fmt.ROW if self._kinds is None else self._kinds[index]
        return self._tokens[index], self.key(index), kind, self.ck(index)

    def first_from(self, token: int, key: bytes) -> int:
        """The first entry at or behind the start of a partition."""
        index = bisect_left(self._tokens, token)
        while index < self.size and self._tokens[index] == token and self.key(index) < key:
            index += 1
        return index

    def first_behind(self, token: int) -> int:
        """The first entry with a larger token."""
        return bisect_right(self._tokens, token)

    # -- partitions --------------------------------------------------------------------------------

    def partition(
        self,
        token: int,
        key: bytes,
        slices: Sequence[KeySlice] = EVERYTHING,
        row: bytes | None = None,
        max_rows: int = 0,
        reverse: bool = False,
        heads_only: bool = False,
    ) -> StoredPartition | None:
        """What this group holds of a partition; None if nothing that the read could need."""
        low, high = self.find(token, key)
        if low == high:
            return None
        found = StoredPartition(token, key)
        if self._kinds is not None:
            rows_low = bisect_left(self._kinds, fmt.ROW, low, high)
            if rows_low > low:
                self._heads(found, low, rows_low)
                low = rows_low
        if heads_only:
            pass
        elif row is not None:
            if self._plan.has_clustering:
                low = bisect_left(range(high), row, low, key=self.ck)
                if low < high and self.ck(low) == row:
                    found.rows = [(row, self.row(low))]
            elif low < high and row == b"":
                found.rows = [(b"", self.row(low))]
        elif low < high:
            found.rows = self._slices(low, high, slices, max_rows, reverse)
        if not found.rows and found.deletion is None and not found.ranges and found.static is None:
            return None
        if found.ranges:
            wanted = slices if row is None else (KeySlice(row, row + b"\x00"),)
            found.ranges = touching(found.ranges, wanted)
        return found

    def _heads(self, found: StoredPartition, low: int, high: int) -> None:
        """What stands before a partition's rows."""
        kinds = self._kinds
        assert kinds is not None
        found.ranges = []
        for index in range(low, high):
            if kinds[index] == fmt.STATIC_ROW:
                found.static = self.static_row(index)
                continue
            deletion = self._deletion(index)
            assert deletion is not None
            if kinds[index] == fmt.PARTITION_DELETION:
                found.deletion = deletion
            else:
                end = self._columns[fmt.END][index].as_py()
                found.ranges.append(RangeDeletion(self.ck(index), end, deletion))

    def _slices(
        self, low: int, high: int, slices: Sequence[KeySlice], max_rows: int, reverse: bool
    ) -> list[tuple[bytes, Row]]:
        """Rows in the slices, ascending; the last ones if reverse and there are more than wanted."""
        spans = []
        for part in slices:
            start = bisect_left(range(high), part.start, low, key=self.ck) if part.start else low
            stop = high if part.end is None else bisect_left(range(high), part.end, low, key=self.ck)
            if start < stop:
                spans.append((start, stop))
        if max_rows:
            spans = _limited(spans, max_rows, reverse)
        return [pair for start, stop in spans for pair in self.keyed_rows(start, stop)]

    def partitions(self, low: int, high: int) -> Iterator[StoredPartition]:
        """Whole partitions (as far as they are in this group) among entries of this range. Rows are made some
        partitions at a time: who reads a page wants few of them."""
        if low >= high:
            return
        tokens = np.asarray(self._tokens[low:high])
        starts = [0, *(np.flatnonzero(tokens[1:] != tokens[:-1]) + 1).tolist(), high - low]
        rows: list[tuple[bytes, Row]] = []
        at = made = 0  # the entries that `rows` are those of
        for first, last in pairwise(starts):
            start, stop = low + first, low + last
            if self._kinds is not None or (stop > start + 1 and self.key(start) != self.key(stop - 1)):
                yield from self._partitions_of_token(start, stop)
                continue
            if last > made:
                at, made = first, max(last, min(first + _ROWS_AT_A_TIME, high - low))
                made = starts[bisect_right(starts, made) - 1]
                rows = self.keyed_rows(low + at, low + made)
            yield StoredPartition(
                self._tokens[start], self.key(start), None, [], None, rows[first - at : last - at]
            )

    def _partitions_of_token(self, low: int, high: int) -> Iterator[StoredPartition]:
        while low < high:
            key = self.key(low)
            token = self._tokens[low]
            _, stop = self.find(token, key)
            found = self.partition(token, key)
            if found is not None:
                yield found
            low = stop

    # -- rows --------------------------------------------------------------------------------------

    def row(self, index: int) -> Row:
        getters = self._row_getters
        if getters is None:
            getters = self._row_getters = [column.get for column in self._cell_columns(static=False)]
        cells: list[AnyCell] = [get(index) for get in getters]
        if self._stamps is None:
            return Row(self._timestamps[index], 0, 0, self._live[index] == 1, None, cells)
        return self._with_stamps(index, cells)

    def keyed_rows(self, low: int, high: int) -> list[tuple[bytes, Row]]:
        """Rows of a range of entries of kind 3, with their clustering keys."""
        if high - low < _FEW:
            return [(self.ck(index), self.row(index)) for index in range(low, high)]
        columns = self._cell_columns(static=False)
        lists = [column.slice(low, high) for column in columns]
        cells: Iterable[list[AnyCell]]
        cells = map(list, zip(*lists, strict=True)) if lists else ([] for _ in range(low, high))
        keys: Iterable[bytes] = repeat(b"", high - low)
        if self._plan.has_clustering:
            keys = self._ck_column.slice(low, high)  # type: ignore[assignment]
        if self._stamps is not None:
            rows: Iterable[Row] = map(self._with_stamps, range(low, high), cells)
        else:
            live = [flag == 1 for flag in self._live[low:high]]
            stamps = self._timestamps[low:high].tolist()
            rows = map(Row, stamps, repeat(0), repeat(0), live, repeat(None), cells)
        return list(zip(keys, rows, strict=True))

    def static_row(self, index: int) -> Row:
        return self._with_stamps(index, [column.get(index) for column in self._cell_columns(static=True)])

    def _with_stamps(self, index: int, cells: list[AnyCell]) -> Row:
        timestamp, live = self._timestamps[index], self._live[index] == 1
        if self._stamps is None:
            return Row(timestamp, 0, 0, live, None, cells)
        ttls, expiries = self._stamps
        return Row(timestamp, ttls[index], expiries[index], live, self._deletion(index), cells)

    def _deletion(self, index: int) -> Deletion | None:
        if self._deletions is None:
            return None
        timestamps, seconds = self._deletions
        timestamp = timestamps[index]
        return None if timestamp == NO_STAMP else (timestamp, seconds[index])

    def _cell_columns(self, static: bool) -> Sequence[CellColumn]:
        columns = self._cells.get(static)
        if columns is None:
            stored = self._plan.statics if static else self._plan.regulars
            columns = self._cells[static] = [self._cell_column(one) for one in stored]
        return columns

    def _cell_column(self, one: StoredColumn | None) -> CellColumn:
        if one is None:
            return AbsentCells()
        if one.is_multicell:
            return ElementCells(from_arrow(BLOB, self._columns.pop(one.elements)))
        wire = from_arrow(one.column.type, self._columns.pop(one.name))
        stamps = self._columns.pop(one.ts, None)
        if stamps is None or stamps.null_count == self.size:
            return wire
        return StampedCells(
            wire, _as_numbers(stamps, NO_STAMP), self._numbers(one.ttl, 0), self._numbers(one.exp, 0)
        )

    def _numbers(self, name: str, absent: int = NO_STAMP) -> memoryview:
        found = self._columns.pop(name, None)
        return _as_numbers(found, absent) if found is not None else np.full(self.size, absent, np.int64).data


def _arrays(table: pa.Table) -> dict[str, pa.Array]:
    batches = table.to_batches()
    columns = (batches[0] if len(batches) == 1 else table.combine_chunks().to_batches()[0]).columns
    return dict(zip(table.column_names, columns, strict=True))


def _as_numbers(array: pa.Array, absent: int) -> memoryview:
    if pa.types.is_int32(array.type):
        array = array.cast(pa.int64())
    return np.asarray(pc.fill_null(array, absent)).data


def _limited(spans: list[tuple[int, int]], most: int, reverse: bool) -> list[tuple[int, int]]:
    """As much of the spans as holds `most` entries, from the end if reverse."""
    kept: list[tuple[int, int]] = []
    for start, stop in reversed(spans) if reverse else spans:
        if most <= 0:
            break
        size = min(stop - start, most)
        kept.append((stop - size, stop) if reverse else (start, start + size))
        most -= size
    return kept[::-1] if reverse else kept
