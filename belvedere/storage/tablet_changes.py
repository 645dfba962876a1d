"""What a mutation changes for readers: each row it touches, before and after.

The row after is what a reader would see with the mutation as one more source beside memtables and files, so
client timestamps that lose, deletions and expiries come out as they will when the row is read.
"""

from collections.abc import Sequence
from enum import Enum

import msgspec

from belvedere.model.mutations import Mutation
from belvedere.model.rows import NO_TIMESTAMP, Row, merge_rows, newest_timestamp, visible
from belvedere.storage.deletions import disjoint
from belvedere.storage.files import LiveFile, Pinned
from belvedere.storage.memtable import MemPartition, Memtable, Merge
from belvedere.storage.merge import LiveColumns, coverage_of, merged_rows, visible_rows
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.reads import EVERYTHING, KeySlice
from belvedere.storage.sstable_read import NEEDS_DISK
from belvedere.storage.tablet_reads import partitions_in

#: What a staged file has of a partition, with the load that brought it.
Staged = tuple[str, StoredPartition]


class NotPlain(Enum):
    """The answer of a shortcut that does not apply."""

    NOT_PLAIN = "not plain"


class RowChange(msgspec.Struct, frozen=True, gc=False):
    clustering: bytes
    before: Row | None
    after: Row | None
    #: While files are staged: what else views may show of the row, as of before some of these files came.
    #: Whichever comes first, a write or the views' hearing of the files, must remove what is in its place.
    also: tuple[Row, ...] = ()
    #: What was stored of the row, and that with the mutation's row merged in, if that is known.
    merge: Merge | None = None


def touched(mutation: Mutation) -> tuple[KeySlice, ...]:
    """The stretches of clustering keys whose rows the mutation may change, ascending and disjoint."""
    if mutation.deletion is not None:
        return EVERYTHING
    spans = [(found.start, found.end) for found in disjoint(mutation.ranges)]
    spans += [(clustering, clustering + b"\0") for clustering, _ in mutation.rows]
    joined: list[KeySlice] = []
    for start, end in sorted(spans):
        if joined and joined[-1].end is not None and start <= joined[-1].end:
            joined[-1] = KeySlice(joined[-1].start, max(joined[-1].end, end))
        else:
            joined.append(KeySlice(start, end))
    return tuple(joined)


def changes_now(
    memory: Sequence[MemPartition],
    files: Sequence[LiveFile],
    mutation: Mutation,
    now: int,
    columns: LiveColumns,
) -> list[RowChange] | None:
    if len(mutation.rows) == 1 and mutation.deletion is None and not mutation.ranges:
        found = _row_change_now(memory, files, mutation, now, columns)
        if not isinstance(found, NotPlain):
            return found
    slices = touched(mutation)
    if not slices:
        return []
    sources = [partition.stored(slices) for partition in memory]
    staged: list[Staged] = []
    for file in files:
        stored = file.sstable.partition_now(mutation.token, mutation.key, slices=slices)
        if stored is NEEDS_DISK:
            return None
        if stored is not None:
            sources.append(stored)
            if file.staged:
                staged.append((file.staged, stored))
    return _compare(sources, staged, mutation, now, columns)


def _row_change_now(
    memory: Sequence[MemPartition],
    files: Sequence[LiveFile],
    mutation: Mutation,
    now: int,
    columns: LiveColumns,
) -> list[RowChange] | NotPlain | None:
    """The common case, a mutation of one row in a partition where nothing deletes rows from outside them:
    only this row is looked up and merged."""
    ((clustering, row),) = mutation.rows
    stored: Row | None = None
    for partition in memory:
        if partition.deletion is not None or partition.ranges:
            return NotPlain.NOT_PLAIN
        part = partition.rows.get(clustering)
        if part is not None:
            stored = part if stored is None else merge_rows(stored, part)
    for file in files:
        found = file.sstable.partition_now(mutation.token, mutation.key, row=clustering)
        if found is NEEDS_DISK:
            return None
        if found is None:
            continue
        if file.staged or found.deletion is not None or found.ranges:
            return NotPlain.NOT_PLAIN
        for _, part in found.rows:
            stored = part if stored is None else merge_rows(stored, part)
    if stored is None:
        after = visible(columns.regular(row), now)
        return [] if after is None else [RowChange(clustering, None, after)]
    merged = merge_rows(stored, row)
    before = visible(columns.regular(stored), now)
    after = visible(columns.regular(merged), now)
    return [RowChange(clustering, before, after, (), (stored, merged))]


async def changes_waiting(
    memtables: Sequence[Memtable],
    files: Sequence[LiveFile],
    mutation: Mutation,
    now: int,
    columns: LiveColumns,
    slices: tuple[KeySlice, ...],
) -> list[RowChange]:
    """The same from disks, for the rows in some of the stretches that the mutation touches."""
    if not slices:
        return []
    staged: list[Staged] = []
    sources = await _sources(memtables, files, mutation.token, mutation.key, slices, staged)
    return _compare(sources, staged, mutation, now, columns)


async def _sources(
    memtables: Sequence[Memtable],
    files: Sequence[LiveFile],
    token: int,
    key: bytes,
    slices: tuple[KeySlice, ...],
    staged: list[Staged] | None = None,
) -> list[StoredPartition]:
    """What memory and files have; what staged files have is also put into `staged`."""
    found = []
    with Pinned(files):
        for file in files:
            stored = await file.sstable.partition(token, key, slices=slices)
            if stored is not None:
                found.append(stored)
                if staged is not None and file.staged:
                    staged.append((file.staged, stored))
    return found + [partition.stored(slices) for partition in partitions_in(memtables, key)]


async def newest_stamp(
    memtables: Sequence[Memtable], files: Sequence[LiveFile], token: int, key: bytes, clustering: bytes
) -> int:
    """The largest write time of anything stored of one row, deletions included; NO_TIMESTAMP if nothing."""
    slices = (KeySlice(clustering, clustering + b"\0"),)
    sources = await _sources(memtables, files, token, key, slices)
    deletion = coverage_of(sources).of(clustering)
    stamps = [newest_timestamp(row) for source in sources for _, row in source.rows]
    return max([NO_TIMESTAMP if deletion is None else deletion[0], *stamps])


def _compare(
    sources: Sequence[StoredPartition],
    staged: Sequence[Staged],
    mutation: Mutation,
    now: int,
    columns: LiveColumns,
) -> list[RowChange]:
    before = _visible(sources, now, columns)
    written = StoredPartition(
        mutation.token,
        mutation.key,
        mutation.deletion,
        mutation.ranges,
        None,
        sorted(mutation.rows, key=lambda item: item[0]),
    )
    after = _visible([*sources, written], now, columns)
    also = _before_staged(sources, staged, now, columns) if staged else {}
    return [
        RowChange(clustering, before.get(clustering), after.get(clustering), also.get(clustering, ()))
        for clustering in sorted({**before, **after, **also})
    ]


def _before_staged(
    sources: Sequence[StoredPartition], staged: Sequence[Staged], now: int, columns: LiveColumns
) -> dict[bytes, tuple[Row, ...]]:
    """The rows without what is staged, and with what the first loads brought, load by load: views hear of
    loads in the order in which they came, perhaps of several at once."""
    found: dict[bytes, tuple[Row, ...]] = {}
    loads = list(dict.fromkeys(load for load, _ in staged))
    for count in range(len(loads)):
        unknown = [stored for load, stored in staged if load in loads[count:]]
        known = [source for source in sources if not any(source is one for one in unknown)]
        for clustering, row in _visible(known, now, columns).items():
            found[clustering] = (*found.get(clustering, ()), row)
    return found


def _visible(sources: Sequence[StoredPartition], now: int, columns: LiveColumns) -> dict[bytes, Row]:
    if not sources:
        return {}
    rows, _ = visible_rows(merged_rows(sources), coverage_of(sources), now, columns, 0)
    return dict(rows)
