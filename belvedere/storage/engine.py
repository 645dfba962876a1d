"""All of a node's tablets over one commit log: the write path, replay at start, memory and log bounds.

A write is encoded, appended to the log's buffer and merged into the memtable in one step; whoever answers for
it waits until `durable` has reached its position. Background work, one flush and one compaction at a time,
keeps memtables and log within their bounds; when it cannot keep up, or the disk refuses, writes wait or are
refused before anything of them was applied, and reads go on.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from belvedere.model.mutations import LogRecord, Mutation, ViewUpdate, decode_record, encode_record
from belvedere.model.schema import Table
from belvedere.runtime.api import Lock, Runtime
from belvedere.runtime.errors import DiskError
from belvedere.storage.background import Background
from belvedere.storage.cache import GroupCache
from belvedere.storage.commitlog import SEGMENT_BYTES, CommitLog, DurableCallback, SyncPolicy
from belvedere.storage.errors import Dropped, StorageError, WritesRefused
from belvedere.storage.files import SSTableCache
from belvedere.storage.memtable import MemoryUse, Merge
from belvedere.storage.snapshot import Snapshot
from belvedere.storage.snapshots import take_snapshots
from belvedere.storage.tablet import TabletStore
from belvedere.storage.tablet_api import TabletInfo
from belvedere.storage.tablet_attach import NewFile, attach_together
from belvedere.storage.uninterrupted import to_the_end
from belvedere.storage.view_delivery import ViewDelivery

_DROPPED_MARK = "dropped"


class TabletMapLike(Protocol):
    @property
    def tablets(self) -> Sequence[TabletInfo]: ...


@dataclass(slots=True)
class EngineOptions:
    sync_policy: SyncPolicy = SyncPolicy.GROUP
    segment_bytes: int = SEGMENT_BYTES
    #: Log segments kept before tablets that hold them back are flushed.
    closed_segments: int = 8
    #: Memtables of all tablets together: beyond this the largest is flushed, beyond twice this writes wait.
    memtable_bytes: int = 128 << 20
    cache_bytes: int = 128 << 20
    compaction: bool = True


#: Makes the view updates that travel in a write's record, for the commit version that it gets.
Derive = Callable[[int], list[ViewUpdate]]


class Write(NamedTuple):
    """A mutation for a tablet, and what it does to views."""

    store: TabletStore
    mutation: Mutation
    derive: Derive | None = None


class StorageEngine:
    def __init__(self, runtime: Runtime, directory: str, options: EngineOptions, log: CommitLog) -> None:
        self.options = options
        self.log = log
        self._runtime = runtime
        self._directory = directory
        self._cache: SSTableCache = GroupCache(options.cache_bytes)
        self._memory = MemoryUse()
        self._limit = options.memtable_bytes
        self._stores: dict[int, TabletStore] = {}
        self._delivery = ViewDelivery()
        self._tables: Mapping[bytes, Table] = {}
        self._lock: Lock | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._aligning = asyncio.Lock()
        self._background = Background(runtime, self._after_flush, options.compaction)
        self._replayed = 0
        #: Commit versions are not below this: those of writes never below the write times given to them.
        self.least_version = 0

    # ------------------------------------------------------------------------------------------ opening

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        directory: str,
        tables: Mapping[bytes, Table],
        tablet_maps: Mapping[bytes, TabletMapLike],
        options: EngineOptions | None = None,
    ) -> "StorageEngine":
        """Open every tablet, replay the log, begin to take writes. Raises Corrupt or DiskError."""
        options = options or EngineOptions()
        await runtime.disk.make_directory(directory)
        lock = await runtime.disk.lock(f"{directory}/storage.lock")
        try:
            log = await CommitLog.open(
                runtime, f"{directory}/commitlog", options.sync_policy, options.segment_bytes
            )
            engine = cls(runtime, directory, options, log)
            engine._lock = lock
            await engine._look_around(tables)
            for table, info in _wanted(tables, tablet_maps):
                engine._stores[info.id] = await engine._open_store(table, info)
            engine._delivery.index(engine._stores.values())
            await engine._replay()
            # Tablets of views remember positions: those must go on, whatever of the log is left.
            views = (store.flushed_version for store in engine._stores.values() if store.table.view)
            log.continue_after(max(views, default=0))
            log.on_segment_closed = engine._shrink_log
            await log.start()
        except BaseException:
            await lock.release()
            raise
        engine._background.start()
        for store in engine._stores.values():
            engine._background.consider_compaction(store)
        return engine

    async def _open_store(self, table: Table, info: TabletInfo) -> TabletStore:
        directory = f"{self._table_directory(table)}/{info.id}"
        return await TabletStore.open(
            self._runtime, directory, table, info, self.log, self._cache, self._memory
        )

    def _table_directory(self, table: Table) -> str:
        return f"{self._directory}/tables/{table.keyspace}.{table.name}-{table.id.hex()}"

    async def _replay(self) -> None:
        """Bring back what is in the log and not in files. Records of tablets that are gone are skipped."""
        async for position, records in self.log.replay():
            for data in records:
                self._replay_record(position, decode_record(data), len(data))
            if self._memory.used > self._limit:
                await max(self._stores.values(), key=lambda store: store.active_bytes).flush()
        if self._replayed:
            self._runtime.log("info", "engine.replayed", records=self._replayed)

    def _replay_record(self, position: int, record: LogRecord, size: int) -> None:
        store = self._stores.get(record.tablet)
        if store is None:
            return
        if record.version > store.flushed_version:
            # The manifest may know of later versions whose records a crash took: `apply` keeps those.
            store.apply(record.mutation, position, record.version, size)
            self._replayed += 1
        if record.views and record.version > store.truncated_version:
            self._delivery.apply(position, record.views, replaying=True)

    async def close(self) -> None:
        """Everything appended becomes durable; memtables stay in the log."""
        await self._background.stop()
        async with self._aligning:  # What was begun comes to its end.
            pass
        await self.log.close()
        self._fail_waiting(StorageError("the storage engine is closed"))
        for store in self._stores.values():
            await store.removals()
        if self._lock is not None:
            await self._lock.release()
            self._lock = None

    # ----------------------------------------------------------------------------------- tables, tablets

    def store(self, tablet: int) -> TabletStore:
        return self._stores[tablet]

    @property
    def stores(self) -> Mapping[int, TabletStore]:
        return self._stores

    def stores_of(self, table: bytes) -> Sequence[TabletStore]:
        """Those that are open now."""
        return [store for store in self._stores.values() if store.table.id == table]

    def use_tables(self, tables: Mapping[bytes, Table]) -> None:
        """Take over new definitions of tables that are open, before anything is written by them."""
        self._tables = tables
        for store in self._stores.values():
            self._define_store(store)

    def _define_store(self, store: TabletStore) -> None:
        table = self._tables.get(store.table.id)
        if table is not None:
            store.set_table(table)

    async def align(self, tables: Mapping[bytes, Table], tablet_maps: Mapping[bytes, TabletMapLike]) -> None:
        """Open the stores of new tablets, take over new definitions, drop the stores of tablets gone."""
        # Now and not after a wait: by then newer definitions may be known.
        self.use_tables(tables)
        await to_the_end(self._runtime, "engine.align", lambda: self._align(tables, tablet_maps))

    async def _align(self, tables: Mapping[bytes, Table], tablet_maps: Mapping[bytes, TabletMapLike]) -> None:
        async with self._aligning:
            wanted = {info.id: (table, info) for table, info in _wanted(tables, tablet_maps)}
            for tablet, (table, info) in wanted.items():
                store = self._stores.get(tablet)
                if store is None:
                    opened = self._stores[tablet] = await self._open_store(table, info)
                    self._define_store(opened)
                else:
                    store.epoch = info.epoch
            gone = [store for tablet, store in self._stores.items() if tablet not in wanted]
            await self._drop(gone)
            self._delivery.index(self._stores.values())

    async def _drop(self, stores: Sequence[TabletStore]) -> None:
        by_directory: dict[str, list[TabletStore]] = {}
        for store in stores:
            del self._stores[store.id]
            by_directory.setdefault(self._table_directory(store.table), []).append(store)
        for directory, gone in by_directory.items():
            left = [s for s in self._stores.values() if self._table_directory(s.table) == directory]
            if not left:
                await self._mark_dropped(directory)
            remaining = len(gone)

            def one_gone(directory: str = directory, whole: bool = not left) -> None:
                nonlocal remaining
                remaining -= 1
                if whole and not remaining:
                    self._runtime.spawn("engine.drop", self._remove_tree(directory))

            for store in gone:
                await store.drop(one_gone)
        self._wake_waiting()
        self._retire_log()

    async def _mark_dropped(self, directory: str) -> None:
        """So that the next start finishes what a crash interrupts."""
        try:
            await self._runtime.disk.write(f"{directory}/{_DROPPED_MARK}", b"")
            await self._runtime.disk.sync_directory(directory)
        except DiskError as error:
            self._runtime.log("warning", "engine.drop_mark_failed", path=directory, cause=str(error))

    async def _remove_tree(self, directory: str) -> None:
        try:
            await self._runtime.disk.remove_tree(directory)
        except DiskError as error:
            self._runtime.log("warning", "engine.drop_failed", path=directory, cause=str(error))

    async def _look_around(self, tables: Mapping[bytes, Table]) -> None:
        """Finish drops that a crash interrupted. Directories of tables that nobody knows are kept: it may be
        the metadata that is wrong."""
        root = f"{self._directory}/tables"
        known = {self._table_directory(table) for table in tables.values()}
        for name in await self._runtime.disk.list(root):
            path = f"{root}/{name}"
            if await self._runtime.disk.exists(f"{path}/{_DROPPED_MARK}"):
                await self._remove_tree(path)
            elif path not in known:
                self._runtime.log("warning", "engine.unknown_table", path=path)

    async def truncate(self, store: TabletStore) -> None:
        await store.truncate()
        self._wake_waiting()
        self._retire_log()

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
        if self._memory.used > self._limit and not self._make_room():
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
        if self._memory.used > self._limit and not self._make_room():
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
        await self._wait_for_memory()
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

    # ------------------------------------------------------------------------------------------- memory

    def _make_room(self) -> bool:
        """Begin to flush the largest memtable if need be. False if writes have to wait for a flush."""
        memory = self._memory
        if memory.used - memory.frozen > self._limit:
            largest = max(self._stores.values(), key=lambda store: store.active_bytes)
            if largest.freeze():
                self._background.flush_soon(largest)
        if memory.used <= 2 * self._limit:
            return True
        self._flush_frozen()
        return False

    def _flush_frozen(self) -> None:
        """Also what a failed flush or truncation set aside."""
        for store in self._stores.values():
            if store.frozen_count:
                self._background.flush_soon(store)

    async def _wait_for_memory(self) -> None:
        while self._memory.used > self._limit and not self._make_room():
            failure = self._background.flush_failure
            if failure is not None:
                raise WritesRefused(f"memory for writes is used up and flushing fails: {failure}")
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def _after_flush(self, failure: Exception | None) -> None:
        """Room was made, or was not."""
        if failure is not None:
            self._fail_waiting(WritesRefused(f"memory for writes is used up and flushing fails: {failure}"))
            return
        self._wake_waiting()
        self._retire_log()

    def _wake_waiting(self) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def _fail_waiting(self, error: StorageError) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(error)

    def _retire_log(self) -> None:
        needed = [p for store in self._stores.values() if (p := store.first_position) is not None]
        self.log.retire(min(needed, default=self.log.position))

    def _shrink_log(self) -> None:
        """Too many segments are kept: flush the tablets that need the oldest."""
        self._retire_log()
        surplus = self.log.oldest_surplus(self.options.closed_segments)
        if surplus is None:
            return
        for store in self._stores.values():
            first = store.first_position
            if first is not None and first <= surplus and (store.frozen_count or store.freeze()):
                self._background.flush_soon(store)

    # ------------------------------------------------------------------------------- durability, upkeep

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
        self._wake_waiting()
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


def _wanted(
    tables: Mapping[bytes, Table], tablet_maps: Mapping[bytes, TabletMapLike]
) -> list[tuple[Table, TabletInfo]]:
    return [
        (tables[table_id], info)
        for table_id, tablet_map in tablet_maps.items()
        if table_id in tables
        for info in tablet_map.tablets
    ]
