"""DataAccess on this node's own tablets: routing by token, partition locks, write timestamps.

A write is ordered and applied to the memtable at once and answered when its log record is durable. Rows
may therefore be read before they are durable; whoever is told of them waits for the same log position
(`after`), so no client ever learns of something that a crash could take back.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from belvedere.meta import load_records
from belvedere.meta.metadata import Metadata
from belvedere.meta.state import ClusterState, TabletMap
from belvedere.model.mutations import Mutation
from belvedere.model.schema import Table
from belvedere.query.access import Admission, ViewKeeper
from belvedere.query.errors import InvalidRequest
from belvedere.query.keeping import KeptWrite, NoViews, kept, kept_now, write_kept_now
from belvedere.query.open_tablets import OpenTablets, TabletMaps
from belvedere.query.partition_locks import PartitionLocks
from belvedere.query.view_rows import unwrap_partition
from belvedere.runtime.api import Runtime
from belvedere.storage.engine import StorageEngine
from belvedere.storage.reads import PartitionRead, PartitionRows, RangeRead, ScanPage
from belvedere.storage.tablet import TabletStore


class _Route:
    """One table's tablets as open stores, found by token."""

    __slots__ = ("first_tokens", "stores", "tablet_map")

    def __init__(self, tablet_map: TabletMap, stores: list[TabletStore]) -> None:
        self.tablet_map = tablet_map
        self.first_tokens = [tablet.first_token for tablet in tablet_map.tablets]
        self.stores = stores

    def holding(self, token: int) -> TabletStore:
        if len(self.stores) == 1:
            return self.stores[0]
        return self.stores[bisect_right(self.first_tokens, token) - 1]


class LocalAccess:
    def __init__(
        self, runtime: Runtime, metadata: Metadata, engine: StorageEngine, kept_by: str | None = None
    ) -> None:
        """`kept_by` is the node of a cluster whose tablets are opened; None: all are this node's."""
        self._runtime = runtime
        self._metadata = metadata
        self._engine = engine
        self._routes: dict[bytes, _Route] = {}
        self._tablets = OpenTablets(
            runtime, metadata, engine, lambda state: tablets_of(state, kept_by), self._use
        )
        self._locks = PartitionLocks()
        #: Held while a table's rows are being removed, or loaded ones become part of it.
        self.changing_tables = asyncio.Lock()
        #: Looks after materialized views.
        self.keeper: ViewKeeper = NoViews(lambda: metadata.state.keyspaces)
        self._last_timestamp = 0
        #: Asked before anything is read or written.
        self.admission: Admission | None = None

    # --- the schema's tables as open stores ----------------------------------------------------------

    def follow(self) -> None:
        """The state has changed."""
        self._tablets.follow()

    async def close(self) -> None:
        """The engine may be closed after this."""
        await self._tablets.close()

    async def align(self) -> None:
        """Open the stores of every tablet that the newest state names, drop those of tablets gone."""
        await self._tablets.align()

    def _use(self, state: ClusterState, tablet_maps: TabletMaps) -> None:
        self._routes = {
            table_id: _Route(tablet_map, [self._engine.store(tablet.id) for tablet in tablet_map.tablets])
            for table_id, tablet_map in tablet_maps.items()
            if table_id in state.tables_by_id
        }
        # Commit versions follow the wall clock: whatever it does, timestamps go on from where they were.
        newest = max((store.last_version for store in self._engine.stores.values()), default=0)
        self._last_timestamp = max(self._last_timestamp, newest)

    async def _route(self, table: Table) -> _Route:
        """The table's stores, also if it was created this instant."""
        if self.admission is not None:
            self.admission.check()
        route = self._routes.get(table.id)
        if route is None:
            await self.align()
            route = self._routes.get(table.id)
            if route is None:
                raise InvalidRequest(f"table {table.name} does not exist")
        return route

    # --- reading ---------------------------------------------------------------------------------------

    def read_now(self, table: Table, read: PartitionRead, now: int) -> PartitionRows | None:
        if self.admission is not None:
            self.admission.check()
        route = self._routes.get(table.id)
        found = None if route is None else route.holding(read.token).read_now(read, now)
        return found if found is None or table.view is None else unwrap_partition(table, found)

    async def read(self, table: Table, read: PartitionRead, now: int) -> PartitionRows:
        route = await self._route(table)
        found = await route.holding(read.token).read(read, now)
        return found if table.view is None else unwrap_partition(table, found)

    async def scan(self, table: Table, read: RangeRead, now: int) -> ScanPage:
        """One tablet's stretch of the scan; `next` leads on into the following tablet."""
        route = await self._route(table)
        store = route.holding(read.start[0])
        page = await store.scan(read, now)
        if page.next is None and store.last_token < read.end_token:
            page.next = (store.last_token + 1, b"")
        if table.view is not None:
            for found in page.partitions:
                unwrap_partition(table, found)
        return page

    def view_warnings(self, view: Table) -> tuple[str, ...]:
        return self.keeper.warnings(view)

    async def stores(self, table: Table) -> Sequence[TabletStore]:
        """The table's tablets, in token order."""
        return (await self._route(table)).stores

    async def pause(self) -> None:
        await self._runtime.clock.sleep(0)

    # --- writing ---------------------------------------------------------------------------------------

    def write_now(self, table: Table, mutation: Mutation) -> int | None:
        if self.admission is not None:
            self.admission.check()
        route = self._routes.get(table.id)
        if route is None or (self._locks.held and self._locks.is_held((table.id, mutation.key))):
            return None
        store, makers = route.holding(mutation.token), self.keeper.makers(table)
        if not makers:
            return self._engine.write_now(store, mutation)
        return write_kept_now(self._engine, table, store, mutation, makers)

    async def write(self, mutations: Sequence[tuple[Table, Mutation]]) -> int:
        for table, _ in mutations:
            await self._route(table)
        # Nothing is awaited between this look at the locks and the writing.
        if not self._any_locked(mutations):
            writes = [self._kept_now(table, mutation) for table, mutation in mutations]
            if None not in writes:
                position = self._engine.write_together_now([one.as_write() for one in writes if one])
                if position is not None:
                    return position
        # With a place in the queue: under a stream of holders, one who looks again may look forever.
        async with self._locks.hold((table.id, mutation.key) for table, mutation in mutations):
            return await self._write_held(mutations)

    def _kept_now(self, table: Table, mutation: Mutation) -> KeptWrite | None:
        route = self._routes.get(table.id)
        if route is None:
            return None
        return kept_now(table, route.holding(mutation.token), mutation, self.keeper.makers(table))

    async def _kept(self, table: Table, mutation: Mutation) -> KeptWrite:
        store = (await self._route(table)).holding(mutation.token)
        return await kept(table, store, mutation, self.keeper.makers(table), self._write_piece)

    async def _write_held(self, mutations: Sequence[tuple[Table, Mutation]]) -> int:
        """Past the locks, since we hold them."""
        found = [await self._kept(table, mutation) for table, mutation in mutations]
        if pause := self._runtime.buggify("writes.computed"):
            await pause
        while True:
            # While this waited, views may have come or gone, or all rows.
            stale = [index for index, one in enumerate(found) if not one.is_current(self.keeper)]
            if stale:
                for index in stale:
                    found[index] = await self._kept(*mutations[index])
                continue
            if self.admission is not None:
                self.admission.check()
            writes = [one.as_write() for one in found]
            position = self._engine.write_together_now(writes)
            if position is not None:
                return position
            await self._engine.room(writes)

    async def _write_piece(self, piece: KeptWrite) -> None:
        """A piece of a large deletion. If it was computed from what is no longer so, it is left to the rest,
        which is computed anew."""
        while piece.is_current(self.keeper):
            if self._engine.write_together_now([piece.as_write()]) is not None:
                break
            await self._engine.room([piece.as_write()])
        await self._runtime.clock.sleep(0)

    def _any_locked(self, mutations: Sequence[tuple[Table, Mutation]]) -> bool:
        locks = self._locks
        return bool(locks.held) and any(
            locks.is_held((table.id, mutation.key)) for table, mutation in mutations
        )

    @asynccontextmanager
    async def lock(self, partitions: Sequence[tuple[Table, bytes]]) -> AsyncIterator["_Locked"]:
        async with self._locks.hold((table.id, key) for table, key in partitions):
            yield _Locked(self)

    async def durable(self, position: int) -> None:
        await self._engine.durable(position)

    async def truncate(self, table: Table) -> None:
        if not self.keeper.makers(table):
            async with self.changing_tables:
                if not self.keeper.makers(table):  # Still.
                    await self._truncate_loaded(table)
                    return
        await self.keeper.truncate(table, lambda: self._truncate_loaded(table))

    async def _truncate_loaded(self, table: Table) -> None:
        """With what loads are about to make part of the table. If the second half fails, they come after the
        truncation, and whole: emptied tablets do not remember to have had them."""
        await self.truncate_alone(table)
        if load_records.forgetting(self._metadata.state, table.id) is not None:
            await self._metadata.commit(lambda state: load_records.forgetting(state, table.id))

    async def truncate_alone(self, table: Table) -> None:
        """Without a look at views."""
        route = await self._route(table)
        for store in route.stores:
            await self._engine.truncate(store)

    def next_timestamp(self) -> int:
        wall = self._runtime.clock.wall_micros()
        if wall > self._last_timestamp:
            self._last_timestamp = wall
        else:
            # The clock is behind, or slow. The versions of writes tell this node's next life where to go on.
            self._last_timestamp += 1
            self._engine.least_version = self._last_timestamp
        return self._last_timestamp


def tablets_of(state: ClusterState, node: str | None) -> Mapping[bytes, TabletMap]:
    """Those that a node keeps; None: all."""
    if node is None:
        return state.tablet_maps
    kept = {
        table: TabletMap(tuple(tablet for tablet in found.tablets if node in tablet.replicas))
        for table, found in state.tablet_maps.items()
    }
    return {table: found for table, found in kept.items() if found.tablets}


class _Locked:
    def __init__(self, access: LocalAccess) -> None:
        self._access = access

    async def read(self, table: Table, read: PartitionRead, now: int) -> PartitionRows:
        return await self._access.read(table, read, now)

    async def write(self, mutations: Sequence[tuple[Table, Mutation]]) -> int:
        return await self._access._write_held(mutations)
