"""Reading one sstable: footer and filters in memory, row groups fetched one by one and cached decoded.

Every byte is checked before it is believed: the tail of the file when it is opened, a row group's bytes
whenever they are read. What does not match, or cannot be decoded, raises CorruptSSTable.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from enum import Enum
from typing import Final, Literal

import crc32c
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from belvedere.model.schema import Table
from belvedere.runtime.api import Runtime
from belvedere.storage import sstable_format as fmt
from belvedere.storage.bloom import BloomFilter, probe_of
from belvedere.storage.cache import GroupCache
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.reads import EVERYTHING, KeySlice, Position
from belvedere.storage.sparse_file import SparseFile
from belvedere.storage.sstable_format import CorruptSSTable, FileDescription, SSTableFacts
from belvedere.storage.sstable_group import DecodedGroup
from belvedere.storage.sstable_pieces import Pieces, extend
from belvedere.storage.sstable_plan import ReadPlan

#: What the Parquet reader asks for first, at the end of the file, however small the footer is.
_FOOTER_READ: Final = 64 * 1024


class NeedsDisk(Enum):
    NEEDS_DISK = "needs disk"


#: The answer of a read that may not wait: a row group that it needs is not in the cache.
NEEDS_DISK: Final = NeedsDisk.NEEDS_DISK

Found = StoredPartition | None
FoundNow = StoredPartition | None | Literal[NeedsDisk.NEEDS_DISK]


class SSTable:
    """An open file. All methods are called on the event loop; decoding runs off it."""

    def __init__(
        self,
        runtime: Runtime,
        path: str,
        facts: SSTableFacts,
        cache: GroupCache[DecodedGroup],
        table: Table,
        metadata: pq.FileMetaData,
        blooms: list[BloomFilter],
    ) -> None:
        self._runtime = runtime
        self.path = path
        self.facts = facts
        self._cache = cache
        self.number = cache.new_file()
        self._metadata = metadata
        self._blooms = blooms
        self.description = msgspec.json.decode(metadata.metadata[fmt.METADATA_KEY], type=FileDescription)
        self._schema: pa.Schema = metadata.schema.to_arrow_schema()
        self._firsts = [group.token for group in facts.groups]
        self._lasts = [group.last_token for group in facts.groups]
        self._positions = [group.position for group in facts.groups]
        self._wide = _wide_partitions(facts)
        #: Parquet readers not in use: making one costs as much as decoding a small column.
        self._readers: list[tuple[SparseFile, pq.ParquetFile]] = []
        self.use_table(table)

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        path: str,
        facts: SSTableFacts,
        cache: GroupCache[DecodedGroup],
        table: Table,
    ) -> "SSTable":
        """Read and check footer and filters."""
        if facts.format != fmt.FORMAT_VERSION:
            raise CorruptSSTable(path, f"format {facts.format}; this version reads {fmt.FORMAT_VERSION}")
        size = await runtime.disk.size(path)
        if size != facts.size:
            raise CorruptSSTable(path, f"{size} bytes long instead of {facts.size}")
        start = max(0, min(facts.tail_offset, facts.size - _FOOTER_READ))
        end = await runtime.disk.read(path, start, facts.size - start)
        tail = end[facts.tail_offset - start :]
        if crc32c.crc32c(tail) != facts.tail_crc32c:
            raise CorruptSSTable(path, "checksum of filters and footer does not match")
        try:
            metadata = pq.read_metadata(SparseFile(facts.size, start, end))
            blooms = [_bloom(metadata, number, facts, tail) for number in range(len(facts.groups))]
        except (pa.ArrowException, ValueError, OSError) as error:
            raise CorruptSSTable(path, str(error)) from error
        return cls(runtime, path, facts, cache, table, metadata, blooms)

    def use_table(self, table: Table) -> None:
        """Read as rows of this definition from now on (columns may have come, gone or been renamed)."""
        self.table = table
        self._plan = ReadPlan.of(table, self.description, self._schema.names)
        self._leaves = _leaves_of(self._schema, self._plan.names)
        #: Row groups that are being read for this plan.
        self._loading: dict[int, asyncio.Future[DecodedGroup | None]] = {}
        self._cache.drop_file(self.number, len(self.facts.groups))

    def close(self) -> None:
        """Give the cache's memory back."""
        self._cache.drop_file(self.number, len(self.facts.groups))
        self._readers.clear()

    # -- one partition -----------------------------------------------------------------------------

    def partition_now(
        self,
        token: int,
        key: bytes,
        *,
        slices: Sequence[KeySlice] = EVERYTHING,
        row: bytes | None = None,
        max_rows: int = 0,
        reverse: bool = False,
    ) -> FoundNow:
        """`partition`, if everything needed is in the cache."""
        low, high = self._groups_of(token)
        if high - low > 1:
            return self._many_now(low, high, token, key, slices, row, max_rows, reverse)
        if low == high:
            return None
        group = self._cache.get((self.number, low))
        if group is None:
            return NEEDS_DISK if self._blooms[low].might_contain(probe_of(token)) else None
        return group.partition(token, key, slices, row, max_rows, reverse)

    async def partition(
        self,
        token: int,
        key: bytes,
        *,
        slices: Sequence[KeySlice] = EVERYTHING,
        row: bytes | None = None,
        max_rows: int = 0,
        reverse: bool = False,
    ) -> Found:
        """What the file stores of a partition: its deletions and static row, and its rows in the slices or
        the one asked for. None if there is nothing. With `max_rows` at least so many rows are given if there
        are so many, the first ones or, if reverse, the last; always ascending."""
        low, high = self._groups_of(token)
        if low == high:
            return None
        if high - low == 1:
            if self._cache.get((self.number, low)) is None:
                if not self._blooms[low].might_contain(probe_of(token)):
                    return None
            group = await self.group(low)
            return group.partition(token, key, slices, row, max_rows, reverse)
        result = Pieces(token, key, max_rows, reverse)
        for number in self._needed(low, high, token, key, slices, row, reverse):
            if result.is_full and not self._may_have_heads(number, token, key):
                continue
            group = await self.group(number)
            wanted, full = result.wanted, result.is_full
            result.add(group.partition(token, key, slices, row, wanted, reverse, heads_only=full))
        return result.found()

    def _many_now(
        self,
        low: int,
        high: int,
        token: int,
        key: bytes,
        slices: Sequence[KeySlice],
        row: bytes | None,
        max_rows: int,
        reverse: bool,
    ) -> FoundNow:
        result = Pieces(token, key, max_rows, reverse)
        for number in self._needed(low, high, token, key, slices, row, reverse):
            if result.is_full and not self._may_have_heads(number, token, key):
                continue
            group = self._cache.get((self.number, number))
            if group is None:
                return NEEDS_DISK
            wanted, full = result.wanted, result.is_full
            result.add(group.partition(token, key, slices, row, wanted, reverse, heads_only=full))
        return result.found()

    def _groups_of(self, token: int) -> tuple[int, int]:
        """The row groups that may hold this token."""
        return bisect_left(self._lasts, token), bisect_right(self._firsts, token)

    def _needed(
        self,
        low: int,
        high: int,
        token: int,
        key: bytes,
        slices: Sequence[KeySlice],
        row: bytes | None,
        reverse: bool,
    ) -> list[int]:
        """Row groups to look at, in the order of reading: where the partition begins, if the file has
        anything but rows, and where the slices are."""
        stretches = [(part.start, part.end) for part in slices] if row is None else [(row, row + b"\x00")]
        numbers: set[int] = set()
        if self.facts.heads:
            numbers.update(self._covering((token, key, 0, b""), (token, key, fmt.ROW, b"")))
        for start, end in stretches:
            behind = (token, key, fmt.ROW, end) if end is not None else (token, key, fmt.ROW + 1, b"")
            numbers.update(self._covering((token, key, fmt.ROW, start), behind))
        return sorted(number for number in numbers if low <= number < high)[:: -1 if reverse else 1]

    def _covering(self, start: fmt.EntryPosition, end: fmt.EntryPosition) -> range:
        """Groups that may hold entries from `start` up to but not including `end`."""
        first = max(0, bisect_right(self._positions, start) - 1)
        return range(first, max(first + 1, bisect_left(self._positions, end)))

    def _may_have_heads(self, number: int, token: int, key: bytes) -> bool:
        return bool(self.facts.heads) and self._positions[number] < (token, key, fmt.ROW, b"")

    # -- many partitions ---------------------------------------------------------------------------

    def is_wide(self, position: Position) -> bool:
        """Whether a partition fills several row groups, so that it is better read in pieces than whole."""
        return position in self._wide

    async def batch(
        self, start: Position, end_token: int, max_rows: int
    ) -> tuple[list[StoredPartition], Position | None]:
        """Whole partitions from `start` on (included) up to `end_token` (included), soon after `max_rows`
        rows no more; and where the next batch begins, None at the end. A batch ends (and may be empty) before
        a wide partition that does not begin at `start`, so that callers may read it by `partition`."""
        token, key = start
        number = max(0, bisect_right(self._positions, (token, key, 0, b"")) - 1)
        found: list[StoredPartition] = []
        rows = 0
        first = True
        while number < len(self._positions):
            group = await self.group(number)
            low = group.first_from(token, key) if first else 0
            high = group.first_behind(end_token)
            first = False
            for piece in group.partitions(low, high):
                position = (piece.token, piece.key)
                if found and (found[-1].token, found[-1].key) == position:
                    rows += len(piece.rows)
                    extend(found[-1], piece)
                    continue
                full = bool(found) and rows >= max_rows
                if full or (position in self._wide and position != start):
                    return found, position
                found.append(piece)
                rows += max(1, len(piece.rows))
            if high < group.size:
                return found, None
            number += 1
        return found, None

    # -- row groups --------------------------------------------------------------------------------

    async def group(self, number: int) -> DecodedGroup:
        """A row group, from the cache or from disk; those who want the same one share one read."""
        group = self._cache.get((self.number, number))
        while group is None:
            loading = self._loading.get(number)
            if loading is None:
                return await self._load(number)
            group = await asyncio.shield(loading)  # None if that read failed or was given up.
        return group

    async def _load(self, number: int) -> DecodedGroup:
        loading = self._loading
        shared = loading[number] = asyncio.get_running_loop().create_future()
        try:
            data = await self.read_group(number)
            plan, leaves = self._plan, self._leaves
            group = await self._runtime.compute(
                lambda: DecodedGroup(plan, self.decode_group(number, data, leaves))
            )
        except (Exception, asyncio.CancelledError):
            loading.pop(number).set_result(None)
            raise
        if plan is self._plan:
            self._cache.put((self.number, number), group)
        loading.pop(number)
        shared.set_result(group)
        return group

    async def read_group(self, number: int) -> bytes:
        """A row group's bytes, past the cache."""
        facts = self.facts.groups[number]
        return await self._runtime.disk.read(self.path, facts.offset, facts.length)

    def decode_group(self, number: int, data: bytes, leaves: list[int] | None = None) -> pa.Table:
        """Check and decode a row group's bytes, or only some of its columns; runs on any thread."""
        facts = self.facts.groups[number]
        if len(data) != facts.length or crc32c.crc32c(data) != facts.crc32c:
            raise CorruptSSTable(
                self.path, f"checksum of row group {number} (offset {facts.offset}) does not match"
            )
        try:
            source, reader = self._readers.pop()
        except IndexError:
            source = SparseFile(self.facts.size)
            reader = pq.ParquetFile(source, metadata=self._metadata, pre_buffer=False)
        try:
            source.show(facts.offset, data)
            decoded = reader.reader.read_row_group(number, column_indices=leaves, use_threads=False)
        except (pa.ArrowException, ValueError, OSError) as error:
            raise CorruptSSTable(self.path, f"row group {number}: {error}") from error
        source.show(0, b"")
        self._readers.append((source, reader))
        if decoded.num_rows != facts.rows:
            raise CorruptSSTable(self.path, f"row group {number} has {decoded.num_rows} rows")
        return decoded

    def decoded_bytes(self, number: int) -> int:
        """About so much a row group takes when decoded; less if its values repeat."""
        return int(self._metadata.row_group(number).total_byte_size)

    async def verify(self) -> None:
        """Check every byte against its checksum."""
        for number in range(len(self.facts.groups)):
            data = await self.read_group(number)
            await self._runtime.compute(lambda n=number, d=data: self.decode_group(n, d))  # type: ignore[misc]


def _leaves_of(schema: pa.Schema, names: frozenset[str]) -> list[int]:
    """Parquet numbers the leaves of nested columns, in order."""
    leaves: list[int] = []
    at = 0
    for f in schema:
        count = _leaf_count(f.type)
        if f.name in names:
            leaves += range(at, at + count)
        at += count
    return leaves


def _leaf_count(kind: pa.DataType) -> int:
    if pa.types.is_map(kind):
        return _leaf_count(kind.key_type) + _leaf_count(kind.item_type)
    return sum(_leaf_count(kind.field(i).type) for i in range(kind.num_fields)) or 1


def _wide_partitions(facts: SSTableFacts) -> frozenset[Position]:
    """Partitions that fill at least two whole row groups."""
    starts = [(group.token, group.key) for group in facts.groups]
    triples = zip(starts, starts[1:], starts[2:], strict=False)
    return frozenset(one for one, two, three in triples if one == two == three)


def _bloom(metadata: pq.FileMetaData, number: int, facts: SSTableFacts, tail: bytes) -> BloomFilter:
    column = metadata.row_group(number).column(0)
    if column.path_in_schema != fmt.TOKEN or column.bloom_filter_offset is None:
        raise ValueError(f"row group {number} has no bloom filter of {fmt.TOKEN}")
    start = column.bloom_filter_offset - facts.tail_offset
    return BloomFilter.from_parquet(tail[start : start + column.bloom_filter_length])
