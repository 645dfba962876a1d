"""Bugs planted on purpose, to show that the model test finds such bugs. Each is a patch to be undone."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from belvedere.model import rows
from belvedere.model.ordering import ClusteringOrder
from belvedere.model.positions import Position
from belvedere.model.schema import Table
from belvedere.query.modify.attributes import Attributes
from belvedere.query.partition_locks import PartitionLocks
from belvedere.query.select import source as select_source
from belvedere.sim.disk import SimDisk
from belvedere.storage.commitlog import CommitLog
from belvedere.storage.deletions import Coverage
from belvedere.storage.engine import StorageEngine
from belvedere.storage.memtable import MemPartition, Memtable
from belvedere.storage.merge import LiveColumns
from belvedere.storage.tablet import TabletStore


def acknowledged_before_sync() -> Any:
    async def durable(self: StorageEngine, position: int) -> None:
        return None

    return patch.object(StorageEngine, "durable", durable)


def partition_deletion_skipped_in_merge() -> Any:
    original = Coverage.__init__

    def without(self: Coverage, partition: Any, ranges: Any) -> None:
        original(self, None, ranges)

    return patch.object(Coverage, "__init__", without)


def ttl_one_second_long() -> Any:
    original = Attributes.ttl_of

    def longer(self: Attributes, execution: Any) -> int:
        ttl = original(self, execution)
        return ttl + 1 if ttl else 0

    return patch.object(Attributes, "ttl_of", longer)


def _flushed_without(**lost: Any) -> Any:
    original = Memtable.stored_partitions

    def stored(self: Memtable) -> Iterator[Any]:
        for partition in original(self):
            for name, value in lost.items():
                setattr(partition, name, value)
            yield partition

    return patch.object(Memtable, "stored_partitions", stored)


def flushed_without_partition_deletions() -> Any:
    return _flushed_without(deletion=None)


def flushed_without_range_deletions() -> Any:
    return _flushed_without(ranges=[])


def flushed_without_static_cells() -> Any:
    return _flushed_without(static=None)


def last_frame_not_replayed() -> Any:
    original = CommitLog.replay

    async def all_but_last(self: CommitLog) -> AsyncIterator[Any]:
        held = None
        async for frame in original(self):
            if held is not None:
                yield held
            held = frame

    return patch.object(CommitLog, "replay", all_but_last)


def purged_without_looking_elsewhere() -> Any:
    async def purge_before(self: TabletStore, inputs: Any, now: int) -> int:
        return 2**63 - 1

    return patch.object(TabletStore, "_purge_before", purge_before)


def purged_before_grace_is_over() -> Any:
    return patch.object(Table, "gc_grace_seconds", property(lambda self: -1))


def descending_ignored() -> Any:
    original = ClusteringOrder.__init__

    def ascending(self: ClusteringOrder, types: Any, descending: Any) -> None:
        original(self, types, tuple(False for _ in descending))

    return patch.object(ClusteringOrder, "__init__", ascending)


def ranges_delete_only_what_is_there() -> Any:
    def delete_range(self: MemPartition, new: Any) -> None:
        low, high = self.keys_in(new)
        self._cut_rows(low, high, new.deletion)

    return patch.object(MemPartition, "delete_range", delete_range)


def manifest_claims_too_much() -> Any:
    original = TabletStore._manifest

    def manifest(self: TabletStore, files: Any, flushed: Position) -> Any:
        return original(self, files, Position(0, self.last_version))

    return patch.object(TabletStore, "_manifest", manifest)


def ties_go_to_the_smaller_value() -> Any:
    original = rows._rank

    def rank(cell: Any) -> Any:
        kind, expiry, value = original(cell)
        return (kind, expiry, bytes(255 - byte for byte in value) + b"\xff" * 8)

    return patch.object(rows, "_rank", rank)


def dropped_columns_come_back() -> Any:
    return patch.multiple(
        LiveColumns, regular=lambda self, row: row, static=lambda self, row: row, masking=False
    )


def directories_not_synced() -> Any:
    async def nothing(self: SimDisk, path: str) -> None:
        return None

    return patch.object(SimDisk, "sync_directory", nothing)


def pages_lose_a_row() -> Any:
    original = select_source.beyond_key

    def beyond(slices: Any, key: bytes, *, reverse: bool) -> Any:
        if reverse or not key or key[-1] == 255:
            return original(slices, key, reverse=reverse)
        return original(slices, key[:-1] + bytes([key[-1] + 1]), reverse=reverse)

    return patch.object(select_source, "beyond_key", beyond)


def conditions_lie() -> Any:
    return patch("belvedere.query.modify.conditions_execute._holds", lambda table, found, demand: True)


@dataclass(frozen=True)
class Bug:
    plant: Callable[[], AbstractContextManager[Any]]
    #: Found within this many seeds, from seed 0.
    seeds: int

    @property
    def name(self) -> str:
        return self.plant.__name__


QUICK = [
    Bug(flushed_without_static_cells, 40),
    Bug(last_frame_not_replayed, 40),
    Bug(descending_ignored, 20),
]
BUGS = [
    *QUICK,
    Bug(acknowledged_before_sync, 100),
    Bug(partition_deletion_skipped_in_merge, 100),
    Bug(ttl_one_second_long, 60),
    Bug(flushed_without_partition_deletions, 200),
    Bug(flushed_without_range_deletions, 200),
    Bug(purged_without_looking_elsewhere, 400),
    Bug(purged_before_grace_is_over, 400),
    Bug(ranges_delete_only_what_is_there, 100),
    Bug(manifest_claims_too_much, 400),
    Bug(ties_go_to_the_smaller_value, 100),
    Bug(dropped_columns_come_back, 200),
    Bug(directories_not_synced, 100),
    Bug(pages_lose_a_row, 100),
    Bug(conditions_lie, 40),
]


def partitions_not_locked() -> Any:
    @asynccontextmanager
    async def hold(self: PartitionLocks, *partitions: Any) -> AsyncIterator[None]:
        yield

    return patch.object(PartitionLocks, "hold", hold)


CONTENDED = [
    Bug(partitions_not_locked, 40),
    Bug(acknowledged_before_sync, 100),
]
