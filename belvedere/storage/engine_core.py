"""What an engine stands on: its tablets over one commit log, opened, replayed, taken over and dropped."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from belvedere.model.mutations import LogRecord, decode_record
from belvedere.model.schema import Table
from belvedere.runtime.api import Lock, Runtime
from belvedere.storage.background import Background
from belvedere.storage.cache import GroupCache
from belvedere.storage.commitlog import SEGMENT_BYTES, CommitLog, SyncPolicy
from belvedere.storage.errors import StorageError
from belvedere.storage.files import SSTableCache
from belvedere.storage.manifest import MANIFEST_NAME
from belvedere.storage.memtable import MemoryUse
from belvedere.storage.removals import Removals
from belvedere.storage.replica_log import ReplicaLog
from belvedere.storage.replica_logs import ReplicaLogs
from belvedere.storage.replica_records import Surroundings
from belvedere.storage.replica_snapshot import INCOMING_NAME
from belvedere.storage.tablet import TabletStore
from belvedere.storage.tablet_api import TabletInfo
from belvedere.storage.uninterrupted import to_the_end
from belvedere.storage.view_delivery import ViewDelivery
from belvedere.storage.write_room import WriteRoom


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


class EngineCore:
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
        self._aligning = asyncio.Lock()
        self._background = Background(runtime, self._after_flush, options.compaction)
        self._room = WriteRoom(self._stores, self._memory, self._limit, self._background)
        self._removals = Removals(runtime, f"{directory}/tables")
        #: Of a node of a cluster only.
        self._replicas: ReplicaLogs | None = None
        self._leaving: dict[int, TabletStore] = {}
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
        *,
        replicated: bool = False,
    ) -> Self:
        """Open every tablet, replay the log, begin to take writes. Raises Corrupt or DiskError. With
        `replicated` tablets are written through their `replica` only."""
        options = options or EngineOptions()
        await runtime.disk.make_directory(directory)
        lock = await runtime.disk.lock(f"{directory}/storage.lock")
        try:
            log = await CommitLog.open(
                runtime, f"{directory}/commitlog", options.sync_policy, options.segment_bytes, replicated
            )
            engine = cls(runtime, directory, options, log)
            engine._lock = lock
            await engine._removals.finish_tables(
                {engine._table_directory(table) for table in tables.values()}
            )
            if replicated:
                await engine._open_replicas(_wanted(tables, tablet_maps))
            else:
                await engine._open_tablets(_wanted(tables, tablet_maps))
            log.on_segment_closed = engine._shrink_log
            await log.start()
        except BaseException:
            await lock.release()
            raise
        engine._background.start()
        for store in engine._stores.values():
            engine._background.consider_compaction(store)
        return engine

    async def _open_tablets(self, wanted: Sequence[tuple[Table, TabletInfo]]) -> None:
        for table, info in wanted:
            self._stores[info.id] = await self._open_store(table, info)
        self._delivery.index(self._stores.values())
        await self._replay(self._replay_records)
        # Tablets of views remember positions: those must go on, whatever of the log is left.
        views = (store.flushed_version for store in self._stores.values() if store.table.view)
        self.log.continue_after(max(views, default=0))

    async def _open_replicas(self, wanted: Sequence[tuple[Table, TabletInfo]]) -> None:
        await self._removals.finish_tablets({self._table_directory(table) for table, _ in wanted})
        self._replicas = ReplicaLogs(
            self._runtime, self.log, Surroundings(self._room.is_there, self._released)
        )
        new = []
        for table, info in wanted:
            if await self._runtime.disk.exists(f"{self._directory_of(table, info)}/{MANIFEST_NAME}"):
                self._stores[info.id] = await self._open_store(table, info)
            else:
                new.append((table, info))
        self._replicas.add(self._stores.values())
        await self._replay(self._replicas.replay)
        # Tablets remember positions up to which the log is not theirs: new ones must be beyond.
        self.log.continue_after(max((store.log_floor for store in self._stores.values()), default=0))
        for table, info in new:
            await self._open_replica(table, info)
        self._replicas.offer()

    async def _open_replica(self, table: Table, info: TabletInfo) -> TabletStore:
        """One that was not here at the start, or was dropped: what the log may have of it does not count."""
        assert self._replicas is not None
        floor = self.log.newest
        await self.log.wait_written(floor)
        store = self._stores[info.id] = await self._open_store(table, info, floor)
        self._replicas.add([store])
        return store

    async def _open_store(self, table: Table, info: TabletInfo, log_floor: int = 0) -> TabletStore:
        directory = self._directory_of(table, info)
        if self._replicas is not None:
            # A snapshot that did not arrive as a whole, or was restored and not cleaned up after.
            await self._runtime.disk.remove_tree(f"{directory}/{INCOMING_NAME}")
        return await TabletStore.open(
            self._runtime,
            directory,
            table,
            info,
            self.log,
            self._cache,
            self._memory,
            log_floor,
        )

    def _directory_of(self, table: Table, info: TabletInfo) -> str:
        return f"{self._table_directory(table)}/{info.id}"

    def _table_directory(self, table: Table) -> str:
        return f"{self._directory}/tables/{table.keyspace}.{table.name}-{table.id.hex()}"

    async def _replay(self, take: Callable[[int, list[bytes]], int]) -> None:
        """Bring back what is in the log and not in files. Records of tablets that are gone are skipped."""
        async for position, records in self.log.replay():
            self._replayed += take(position, records)
            if self._memory.used > self._limit:
                await max(self._stores.values(), key=lambda store: store.active_bytes).flush()
        if self._replayed:
            self._runtime.log("info", "engine.replayed", records=self._replayed)

    def _replay_records(self, position: int, records: Sequence[bytes]) -> int:
        return sum(self._replay_record(position, decode_record(data), len(data)) for data in records)

    def _replay_record(self, position: int, record: LogRecord, size: int) -> bool:
        store = self._stores.get(record.tablet)
        if store is None:
            return False
        missing = record.version > store.flushed_version
        if missing:
            # The manifest may know of later versions whose records a crash took: `apply` keeps those.
            store.apply(record.mutation, position, record.version, size)
        if record.views and record.version > store.truncated_version:
            self._delivery.apply(position, record.views, replaying=True)
        return missing

    async def close(self) -> None:
        """Everything appended becomes durable; memtables stay in the log."""
        await self._background.stop()
        async with self._aligning:  # What was begun comes to its end.
            pass
        if self._replicas is not None:
            self._replicas.close()
        await self.log.close()
        self._room.fail(StorageError("the storage engine is closed"))
        for store in self._stores.values():
            await store.removals()
        if self._lock is not None:
            await self._lock.release()
            self._lock = None

    # ----------------------------------------------------------------------------------- tables, tablets

    def store(self, tablet: int) -> TabletStore:
        return self._stores[tablet]

    def replica(self, tablet: int) -> ReplicaLog:
        """Of a node of a cluster: through it alone its tablets are written."""
        assert self._replicas is not None
        return self._replicas[tablet]

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
                    self._define_store(await self._open_another(table, info))
                else:
                    store.epoch = info.epoch
            gone = [store for tablet, store in self._stores.items() if tablet not in wanted]
            await self._drop(gone)
            if self._replicas is None:
                self._delivery.index(self._stores.values())

    async def _open_another(self, table: Table, info: TabletInfo) -> TabletStore:
        if self._replicas is None:
            store = self._stores[info.id] = await self._open_store(table, info)
            return store
        leaving = self._leaving.pop(info.id, None)
        if leaving is not None:
            await leaving.removed()
        await self._removals.finish(self._directory_of(table, info))
        store = await self._open_replica(table, info)
        self._replicas.offer()
        return store

    async def _drop(self, stores: Sequence[TabletStore]) -> None:
        by_directory: dict[str, list[TabletStore]] = {}
        for store in stores:
            del self._stores[store.id]
            by_directory.setdefault(self._table_directory(store.table), []).append(store)
        for directory, gone in by_directory.items():
            await self._drop_together(directory, gone)
        self._room.wake()
        self._retire_log()

    async def _drop_together(self, directory: str, stores: Sequence[TabletStore]) -> None:
        """Tablets of one table, and what was in common to them if no other is left."""
        left = any(self._table_directory(store.table) == directory for store in self._stores.values())
        whole = not left and (self._replicas is None or stores[0].table.id not in self._tables)
        if whole:
            await self._removals.mark(directory)
        remaining = len(stores)

        def one_gone() -> None:
            nonlocal remaining
            remaining -= 1
            if whole and not remaining:
                self._runtime.spawn("engine.drop", self._removals.remove(directory))

        for store in stores:
            if self._replicas is not None:
                self._replicas.drop(store)
                # It may come back while the table stays.
                self._leaving[store.id] = store
                await self._removals.mark(store.directory)
            await store.drop(one_gone)

    # -------------------------------------------------------------------------------------- log, memory

    def _after_flush(self, failure: Exception | None) -> None:
        """Room was made, or was not."""
        if failure is not None:
            self._room.flush_failed(failure)
            return
        self._room.wake()
        self._retire_log()

    def _released(self) -> None:
        self._room.wake()
        self._retire_log()

    def _retire_log(self) -> None:
        if self._replicas is not None:
            needed = self._replicas.first_needed()
        else:
            needed = [p for store in self._stores.values() if (p := store.first_position) is not None]
        self.log.retire(min(needed, default=self.log.position))

    def _shrink_log(self) -> None:
        """Too many segments are kept: flush the tablets that need the oldest. Of a replicated tablet that is
        what was applied; the rest of its records holds the log back."""
        self._retire_log()
        surplus = self.log.oldest_surplus(self.options.closed_segments)
        if surplus is None:
            return
        for store in self._stores.values():
            first = store.first_position if self._replicas is None else self._replicas[store.id].first_needed
            if first is not None and first <= surplus and (store.frozen_count or store.freeze()):
                self._background.flush_soon(store)


def _wanted(
    tables: Mapping[bytes, Table], tablet_maps: Mapping[bytes, TabletMapLike]
) -> list[tuple[Table, TabletInfo]]:
    return [
        (tables[table_id], info)
        for table_id, tablet_map in tablet_maps.items()
        if table_id in tables
        for info in tablet_map.tablets
    ]
