"""Sstables of an exchange, read side by side: checked, only the columns that are needed, in windows.

A window holds everything of all files up to one position, and nothing before it: so many rows and bytes at a
time as may be in memory, whatever the size of the files. The files' facts are not known here; where windows
end follows from what was read.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import crc32c
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from belvedere.pipeline.tasks import InputFile, TaskFiles
from belvedere.storage import sstable_format as fmt
from belvedere.storage.compaction_input import InputShape
from belvedere.storage.compaction_merge import WindowMerger
from belvedere.storage.compaction_purge import Purge
from belvedere.storage.sstable_format import (
    CorruptSSTable,
    EntryPosition,
    FileDescription,
    Layout,
    column_key,
)
from belvedere.storage.sstable_write import positions

Flags = NDArray[np.bool_]

#: Of all files together, decoded.
WINDOW_ROWS: Final = 1 << 20
WINDOW_BYTES: Final = 128 << 20
#: Read of one file at a time, at most.
_CHUNK_ROWS: Final = 1 << 16
_CHUNK_BYTES: Final = 16 << 20
_CHECKED_AT_A_TIME: Final = 4 << 20

_ALL: Final = 2**63 - 1
#: For whoever has all files of a tablet: nothing is expired, and no tombstone is needed any more.
KEEP_ALIVE: Final = Purge(0, _ALL, _ALL)


class OpenInput:
    """An sstable whose every byte was compared with what was published."""

    def __init__(self, files: TaskFiles, given: InputFile) -> None:
        self.given = given
        source = files.open(given.path)
        self._check(source)
        try:
            self._file = pq.ParquetFile(source, pre_buffer=False)
            self.metadata = self._file.metadata
            document = self.metadata.metadata[fmt.METADATA_KEY]
            self.description = msgspec.json.decode(document, type=FileDescription)
        except (pa.ArrowException, ValueError, OSError, KeyError, TypeError) as error:
            raise CorruptSSTable(given.path, str(error)) from error
        if self.description.format != fmt.FORMAT_VERSION:
            what = f"format {self.description.format}; this version reads {fmt.FORMAT_VERSION}"
            raise CorruptSSTable(given.path, what)
        self.schema: pa.Schema = self._file.schema_arrow

    def _check(self, source: pa.NativeFile) -> None:
        size = source.size()
        if size != self.given.size:
            raise CorruptSSTable(self.given.path, f"{size} bytes long instead of {self.given.size}")
        checksum = 0
        while data := source.read(_CHECKED_AT_A_TIME):
            checksum = crc32c.crc32c(data, checksum)
        if checksum != self.given.crc32c:
            raise CorruptSSTable(self.given.path, "checksum of the file does not match")
        source.seek(0)

    @property
    def group_count(self) -> int:
        return int(self.metadata.num_row_groups)

    def read(self, groups: Sequence[int], names: Sequence[str]) -> pa.Table:
        """Some columns of some row groups."""
        try:
            return self._file.read_row_groups(list(groups), columns=list(names), use_threads=False)
        except (pa.ArrowException, ValueError, OSError) as error:
            raise CorruptSSTable(self.given.path, str(error)) from error

    def names_for(self, layout: Layout) -> list[str]:
        """The file's columns that say something about a table of this layout."""
        wanted = {(s.column.kind, s.column.position) for s in (*layout.keys, *layout.values)}
        others = set()
        for facts in self.description.columns:
            if column_key(facts) not in wanted:
                others |= {facts.stored, *(f"{p}.{facts.stored}" for p in ("_ts", "_ttl", "_exp", "_el"))}
        return [name for name in self.schema.names if name not in others]

    def token_bounds(self) -> list[tuple[int, int]]:
        """Of every row group the least and the greatest token."""
        found = []
        for number in range(self.group_count):
            statistics = self.metadata.row_group(number).column(0).statistics
            found.append((statistics.min, statistics.max))
        return found

    def least_kind(self) -> int:
        kinds = (self.metadata.row_group(n).column(1).statistics.min for n in range(self.group_count))
        return min(kinds, default=fmt.ROW)

    def lasts_for_ever(self) -> bool:
        """Whether every entry is a row that exists by itself, without end and without deletions."""
        if {fmt.EXP, fmt.DEL_TS} & set(self.schema.names) or self.least_kind() < fmt.ROW:
            return False
        live = self.read(range(self.group_count), [fmt.LIVE]).column(fmt.LIVE)
        return all(chunk.false_count == 0 for chunk in live.chunks)


class Stream:
    """One file: what was read of it and not taken yet."""

    def __init__(self, layout: Layout, opened: OpenInput) -> None:
        self.opened = opened
        self._layout = layout
        self._shape = InputShape(layout, opened.description)
        self._names = opened.names_for(layout)
        self._next = 0
        self._tables: list[pa.Table] = []
        self.rows = 0
        self.bytes = 0
        #: The position of the last entry that was read.
        self.frontier: EntryPosition | None = None

    @property
    def is_read(self) -> bool:
        return self._next >= self.opened.group_count

    def read(self, most: int) -> tuple[int, int]:
        """Some more row groups; returns their rows and their bytes in the file."""
        groups, rows, stored = self._some(range(self._next, self.opened.group_count), most)
        self._next = groups[-1] + 1
        table = self._fitting(groups)
        if table.num_rows:
            self._tables.append(table)
            self.frontier = _position(self._layout, table, table.num_rows - 1)
        self.rows += table.num_rows
        self.bytes += table.nbytes
        return rows, stored

    def pieces(self, groups: Sequence[int], on_read: Callable[[int, int], None]) -> Iterator[pa.Table]:
        """These row groups, some at a time, past the order of reading."""
        done = 0
        while done < len(groups):
            chosen, rows, stored = self._some(groups[done:], _CHUNK_ROWS)
            done += len(chosen)
            yield self._fitting(chosen)
            on_read(rows, stored)

    def _some(self, groups: Sequence[int], most: int) -> tuple[list[int], int, int]:
        """As many of the groups as are read at a time, their rows, and their bytes in the file."""
        chosen: list[int] = []
        rows = decoded = stored = 0
        for number in groups:
            if chosen and (rows >= most or decoded >= _CHUNK_BYTES):
                break
            facts = self.opened.metadata.row_group(number)
            chosen.append(number)
            rows += facts.num_rows
            decoded += facts.total_byte_size
            stored += sum(facts.column(i).total_compressed_size for i in range(facts.num_columns))
        return chosen, rows, stored

    def _fitting(self, groups: Sequence[int]) -> pa.Table:
        return self._shape.fit(self.opened.read(groups, self._names))

    def take(self, end: EntryPosition | None) -> pa.Table | None:
        """Everything up to and including a position; None stands for all."""
        if not self._tables:
            return None
        whole = self._tables[0] if len(self._tables) == 1 else pa.concat_tables(self._tables)
        place = whole.num_rows if end is None else _behind(self._layout, whole, end)
        left = whole.slice(place)
        self._tables = [left] if left.num_rows else []
        self.rows, self.bytes = left.num_rows, left.nbytes
        return whole.slice(0, place) if place else None


def _position(layout: Layout, table: pa.Table, index: int) -> EntryPosition:
    return positions(layout, table.slice(index, 1))[0]


def _behind(layout: Layout, table: pa.Table, position: EntryPosition) -> int:
    """How many entries of a sorted table stand before or at a position."""
    tokens = table.column(fmt.TOKEN).to_numpy()
    low = int(np.searchsorted(tokens, position[0], "left"))
    high = int(np.searchsorted(tokens, position[0], "right"))
    return bisect_right(range(high), position, low, key=lambda i: _position(layout, table, i))


def windows(
    streams: Sequence[Stream],
    on_read: Callable[[int, int], None],
    most: int = 0,
) -> Iterator[list[pa.Table | None]]:
    """What the streams hold, stretch by stretch: of each stream its part, if it has any. `on_read` is told
    the rows and bytes of each piece that was read; a piece has at most `most` rows, if that is given, or is
    one row group."""
    most = min(most or _CHUNK_ROWS, _CHUNK_ROWS, WINDOW_ROWS // (4 * max(1, len(streams))))
    while True:
        reading = [stream for stream in streams if not stream.is_read]
        while reading and not _is_full(streams, reading):
            # Whoever is behind is read next, so that all advance together and little is read ahead.
            behind = min(reading, key=_first_unread)
            on_read(*behind.read(most))
            reading = [stream for stream in streams if not stream.is_read]
        ends = [stream.frontier for stream in reading if stream.frontier is not None]
        end = min(ends) if ends else None
        parts = [stream.take(end) for stream in streams]
        if any(part is not None for part in parts):
            yield parts
        if end is None:
            return


def _first_unread(stream: Stream) -> tuple[bool, EntryPosition]:
    return (False, (0, b"", 0, b"")) if stream.frontier is None else (True, stream.frontier)


def _is_full(streams: Sequence[Stream], reading: Sequence[Stream]) -> bool:
    if any(stream.frontier is None for stream in reading):
        return False
    return sum(s.rows for s in streams) >= WINDOW_ROWS or sum(s.bytes for s in streams) >= WINDOW_BYTES


@dataclass(frozen=True, slots=True)
class Rows:
    """Some of the entries of a table: rows that are there after merging, in any order."""

    table: pa.Table
    chosen: Flags

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self.chosen))


def merged_rows(merger: WindowMerger, parts: Sequence[pa.Table | None]) -> Rows:
    """The table's rows of a window; deletions are done with."""
    table, places = merger.merge_unordered([part for part in parts if part is not None])
    chosen = np.zeros(table.num_rows, np.bool_)
    chosen[places] = True
    return Rows(table, chosen & (table.column(fmt.KIND).to_numpy() == fmt.ROW))
