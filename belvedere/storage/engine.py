"""All of a node's tablets over one commit log: the write path, replay at start, memory and log bounds.

A write is encoded, appended to the log's buffer and merged into the memtable in one step; whoever answers for
it waits until `durable` has reached its position. Background work, one flush and one compaction at a time,
keeps memtables and log within their bounds; when it cannot keep up, or the disk refuses, writes wait or are
refused before anything of them was applied, and reads go on.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from belvedere.model.mutations import LogRecord, Mutation, ViewUpdate, encode_record
from belvedere.storage.commitlog import DurableCallback
from belvedere.storage.engine_core import EngineCore, EngineOptions, TabletMapLike
from belvedere.storage.errors import Dropped
from belvedere.storage.memtable import Merge
from belvedere.storage.snapshot import Snapshot
from belvedere.storage.snapshots import take_snapshots
from belvedere.storage.tablet import TabletStore
from belvedere.storage.tablet_attach import NewFile, attach_together

__all__ = ["Derive", "EngineOptions", "StorageEngine", "TabletMapLike", "Write"]

#: Makes the view updates that travel in a write's record, for the commit version that it gets.
Derive = Callable[[int], list[ViewUpdate]]


class Write(NamedTuple):
    """A mutation for a tablet, and what it does to views."""

    store: TabletStore
    mutation: Mutation
    derive: Derive | None = None


class StorageEngine(EngineCore):
    # ------------------------------------------------------------------------------------------ writing

    def write_now(
        self,
        store: TabletStore,
        mutation: Mutation,
        derive: Derive | None = None,
        known: Merge | None = None,
    ) -> int | None:
        """Order, log and apply one mutation. Returns the log position to wait for, or None if it must wait
        for room (`write`). Raises LogUnavailable, MutationTooLarge, Dropped."""
        if self._memory.used > self._limit and not self._room.make():
            return None
        if store.dropped:
            raise Dropped(f"table {store.table.full_name} was dropped")
        version = store.last_version + 1
        wall = self._runtime.clock.wall_micros()
        if wall > version:
            version = wall
        if self.least_version > version:
            version = self.least_version
        views = [] if derive is None else derive(version)
        record = encode_record(LogRecord(store.id, store.epoch, version, mutation, views))
        position = self.log.append(record)
        if position is not None:
            store.apply(mutation, position, version, len(record), known)
            if views:
                self._delivery.apply(position, views)
        return position

    async def write(self, writes: Sequence[Write]) -> int:
        """The same for several mutations that survive a crash all or none, waiting for room."""
        while True:
            position = self.write_together_now(writes)
            if position is not None:
                return position
            await self.room(writes)

    def write_together_now(self, writes: Sequence[Write]) -> int | None:
        """The same at once, or None if it must wait for `room` first."""
        if not writes:
            return self.log.durable
        if self._memory.used > self._limit and not self._room.make():
            return None
        records = self._encode(writes)
        position = self.log.append_many([data for _, data in records])
        if position is not None:
            for write, (record, data) in zip(writes, records, strict=True):
                write.store.apply(write.mutation, position, record.version, len(data))
                if record.views:
                    self._delivery.apply(position, record.views)
        return position

    async def room(self, writes: Sequence[Write]) -> None:
        """Wait until there is memory and log space for these writes; raises what makes that hopeless."""
        await self._room.wait()
        # A version may take some bytes more by the time it is given.
        size = sum(len(data) for _, data in self._encode(writes)) + 16 * len(writes)
        await self.log.space(size)

    def _encode(self, writes: Sequence[Write]) -> list[tuple[LogRecord, bytes]]:
        """The records, with the commit versions that they get if they are appended now."""
        wall = max(self._runtime.clock.wall_micros(), self.least_version)
        versions: dict[int, int] = {}
        records = []
        for store, mutation, derive in writes:
            if store.dropped:
                raise Dropped(f"table {store.table.full_name} was dropped")
            version = max(versions.get(store.id, store.last_version) + 1, wall)
            versions[store.id] = version
            views = [] if derive is None else derive(version)
            record = LogRecord(store.id, store.epoch, version, mutation, views)
            records.append((record, encode_record(record)))
        return records

    # ------------------------------------------------------------------------------- durability, upkeep

    async def truncate(self, store: TabletStore) -> None:
        await store.truncate()
        self._room.wake()
        self._retire_log()

    @property
    def durable_position(self) -> int:
        return self.log.durable

    def on_durable(self, position: int, callback: DurableCallback) -> None:
        self.log.on_durable(position, callback)

    async def durable(self, position: int) -> None:
        await self.log.wait(position)

    async def flush(self, stores: Iterable[TabletStore] | None = None) -> None:
        for store in list(self._stores.values() if stores is None else stores):
            await store.flush()
        self._room.wake()
        self._retire_log()

    async def attach(
        self,
        parts: Sequence[tuple[TabletStore, Sequence[NewFile]]],
        *,
        load: str = "",
        staged: bool = False,
        check: Callable[[], None] | None = None,
    ) -> None:
        """Make files part of tablets: in one step for readers and writers. See `TabletStore.attach`. When
        all have come that are to come, tell `consider_compaction`."""
        await attach_together(self._runtime, parts, load=load, staged=staged, check=check)

    def consider_compaction(self, stores: Iterable[TabletStore]) -> None:
        """Files have come, or became such that may be compacted."""
        for store in stores:
            self._background.consider_compaction(store)

    async def snapshots(self, stores: Sequence[TabletStore]) -> list[Snapshot]:
        """All tablets at one cut: see `take_snapshots`."""
        return await take_snapshots(stores)

    async def compact(self, store: TabletStore, everything: bool = True) -> bool:
        return await self._background.compact(store, everything)

    def statistics(self) -> dict[str, object]:
        return {
            "log": self.log.statistics(),
            "log_failure": str(self.log.broken or self.log.full or ""),
            "flush_failure": str(self._background.flush_failure or ""),
            "memtable_bytes": self._memory.used,
            "cache_bytes": self._cache.used,
            "replayed_records": self._replayed,
            "tablets": {tablet: store.statistics() for tablet, store in self._stores.items()},
        }
