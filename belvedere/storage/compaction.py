"""Merging sstables: rows that several files have become one, and what is deleted for good goes.

The inputs are streamed side by side in windows of a bounded number of row groups, cut at the same place in
all of them; each window is merged in columns (compaction_merge) and appended to the output. Reading waits
on the disk, everything else runs off the event loop.
"""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import pyarrow as pa

from belvedere.model.schema import Table
from belvedere.runtime.api import Runtime
from belvedere.storage.compaction_choice import choose
from belvedere.storage.compaction_input import InputShape, split_at
from belvedere.storage.compaction_merge import WindowMerger
from belvedere.storage.compaction_purge import Purge
from belvedere.storage.sstable_format import BuiltSSTable, EntryPosition, Layout
from belvedere.storage.sstable_read import SSTable
from belvedere.storage.sstable_rows import Bounds
from belvedere.storage.sstable_write import SSTableWriter, with_schema

__all__ = ["choose", "compact"]

#: Row groups of all inputs together that are merged at a time, and their bytes if they are several.
_WINDOW_GROUPS: Final = 32
_WINDOW_BYTES: Final = 32 << 20
#: An output larger than this is continued in another file.
MAX_OUTPUT: Final = 256 << 20


async def compact(
    runtime: Runtime,
    table: Table,
    inputs: Sequence[SSTable],
    now: int,
    purge_before: int,
    *,
    max_output: int = MAX_OUTPUT,
    emit: Callable[[BuiltSSTable], Awaitable[None]] | None = None,
) -> list[BuiltSSTable]:
    """One sorted run, in one or more files, that says the same as all inputs together.

    `now` is in seconds. Tombstones past the table's gc_grace are left out if their timestamp (µs) is less
    than `purge_before`, the smallest timestamp of anything in the same token range outside of the inputs:
    there may be nothing left that they delete. Nothing at all may be left: then there is no output.

    Outputs are held in memory until the end, unless `emit` takes each as soon as it is complete; then the
    list is empty.
    """
    job = _Compaction(table, inputs, Purge(now, now - table.gc_grace_seconds, purge_before), max_output)
    for end in _cuts(inputs):
        for stream in job.streams:
            for number in stream.missing(end):
                data = await stream.sstable.read_group(number)
                await runtime.compute(lambda s=stream, n=number, d=data: s.add(n, d))  # type: ignore[misc]
        await runtime.compute(lambda e=end: job.merge_up_to(e))  # type: ignore[misc]
        if end is None:
            await runtime.compute(job.finish)
        while emit is not None and job.built:
            await emit(job.built.pop(0))
    return job.built


def _cuts(inputs: Sequence[SSTable]) -> list[EntryPosition | None]:
    """Where windows end: before these positions; None is the end of everything."""
    groups = sorted(
        (group.position, sstable.decoded_bytes(number))
        for sstable in inputs
        for number, group in enumerate(sstable.facts.groups)
    )
    cuts: list[EntryPosition | None] = []
    count = size = 0
    for position, decoded in groups:
        if count == _WINDOW_GROUPS or (count and size + decoded > _WINDOW_BYTES):
            cuts.append(position)
            count = size = 0
        count += 1
        size += decoded
    return [*cuts, None]


class _Stream:
    """One input: what was read of it and not merged yet."""

    def __init__(self, layout: Layout, sstable: SSTable) -> None:
        self.sstable = sstable
        self._layout = layout
        self._shape = InputShape(layout, sstable.description)
        self._positions = [group.position for group in sstable.facts.groups]
        self._next = 0
        self._tables: list[pa.Table] = []

    def missing(self, end: EntryPosition | None) -> range:
        """Row groups not read yet that hold something before `end`."""
        behind = len(self._positions) if end is None else bisect_left(self._positions, end)
        start, self._next = self._next, max(self._next, behind)
        return range(start, self._next)

    def add(self, number: int, data: bytes) -> None:
        self._tables.append(self._shape.fit(self.sstable.decode_group(number, data)))

    def take(self, end: EntryPosition | None) -> pa.Table | None:
        """Everything before `end`."""
        if not self._tables:
            return None
        last = self._tables.pop()
        taken, self._tables = self._tables, []
        place = last.num_rows if end is None else split_at(self._layout, last, end)
        if place < last.num_rows:
            self._tables.append(last.slice(place))
        return pa.concat_tables([*taken, last.slice(0, place)], promote_options="default")


class _Compaction:
    def __init__(self, table: Table, inputs: Sequence[SSTable], purge: Purge, max_output: int) -> None:
        self._layout = Layout(table)
        self._max_output = max_output
        self.streams = [_Stream(self._layout, sstable) for sstable in inputs]
        facts = [sstable.facts for sstable in inputs]
        self._versions = (min(f.first_version for f in facts), max(f.last_version for f in facts))
        # Stamps inside collections cannot be seen in columns: what time could change in them is only known
        # of the inputs as a whole.
        times = any(f.max_second and f.min_second <= purge.now for f in facts)
        self._merger = WindowMerger(self._layout, purge, look_into_collections=times)
        self._bounds = Bounds()
        if any(stored.is_multicell for stored in self._layout.values):
            for f in facts:
                self._bounds.add_timestamps(f.min_timestamp, f.max_timestamp)
                if f.max_second:
                    self._bounds.add_seconds(f.min_second, f.max_second)
        self._writer: SSTableWriter | None = None
        self._schema: pa.Schema | None = None
        self.built: list[BuiltSSTable] = []

    def merge_up_to(self, end: EntryPosition | None) -> None:
        tables = [taken for stream in self.streams if (taken := stream.take(end)) is not None]
        merged = self._merger.merge([table for table in tables if table.num_rows])
        if merged is None or not merged.num_rows:
            return
        present = {name for name in merged.column_names if merged.column(name).null_count < merged.num_rows}
        if self._schema is not None and not present & self._layout.optional <= set(self._schema.names):
            self.finish()  # A column that the file lacks: it goes on in a next one.
        elif self._writer is not None and self._writer.size >= self._max_output:
            self.finish()
        if self._writer is None:
            known = set() if self._schema is None else set(self._schema.names)
            self._schema = self._layout.schema(present | known)
            first, last = self._versions
            bounds = Bounds()
            bounds.add(self._bounds)
            self._writer = SSTableWriter(
                self._layout, self._schema, bounds, first_version=first, last_version=last
            )
        assert self._schema is not None
        self._writer.write(with_schema(merged, self._schema))

    def finish(self) -> None:
        """Complete the present output, if there is one."""
        if self._writer is not None:
            self.built.append(self._writer.finish())
            self._writer = None
