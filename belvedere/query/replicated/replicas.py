"""The replicas of a node as replication sees them (`cluster.ports.Stores`), and what they deliver."""

from collections.abc import Awaitable, Callable

from belvedere.cluster.configuration import Level
from belvedere.cluster.messages import Done, Failed, Kind
from belvedere.cluster.ports import Opened
from belvedere.meta.metadata import Metadata
from belvedere.meta.state import ClusterState
from belvedere.model.mutations import Mutation
from belvedere.query.access import ViewKeeper
from belvedere.query.replicated.access import Ask
from belvedere.query.replicated.finding import Find, Source, finder
from belvedere.query.replicated.operations import Change, encode
from belvedere.query.replicated.outbox import Outbox
from belvedere.query.replicated.tablet_rows import TabletRows
from belvedere.runtime.api import Runtime
from belvedere.storage.engine import StorageEngine

#: For one delivery, in seconds; then it is tried again.
_PATIENCE = 1.0


class Replicas:
    def __init__(
        self,
        runtime: Runtime,
        metadata: Metadata,
        engine: StorageEngine,
        align: Callable[[], Awaitable[None]],
        keeper: Callable[[], ViewKeeper],
    ) -> None:
        self._runtime = runtime
        self._metadata = metadata
        self._engine = engine
        self._align = align
        self._keeper = keeper
        #: Set once they are known: how operations are asked of tablets, and whether this node is primary.
        self.ask: Ask
        self.serves: Callable[[int], bool] = lambda tablet: False
        self.rows: dict[int, TabletRows] = {}
        self._stopping = False
        metadata.listen(self._on_state)

    async def open(self, tablet: int) -> Opened:
        await self._align()
        log, store = self._engine.replica(tablet), self._engine.store(tablet)
        found = log.opened()
        last = found.records[-1].position if found.records else found.base
        rows = TabletRows(self._runtime.clock, store, log, self._keeper, last)
        source = Source(store.table.id, tablet)
        rows.outbox = Outbox(
            self._runtime,
            lambda mutation, least, target: self._deliver(source, mutation, least, target),
            lambda: self.serves(tablet),
            log.keep_from,
            lambda: self._write_mark(source, store.first_token),
        )
        rows.learn(found)
        log.on_shown = rows.outbox.learn
        self.rows[tablet] = rows
        if store.table.view is not None:
            # An image of long ago may arrive at any time, of an outbox that was stuck, or a build.
            store.tombstones_needed += 1
        return Opened(rows, found.base, tuple(found.records), found.committed)

    async def stop(self) -> None:
        self._stopping = True
        for rows in list(self.rows.values()):
            await rows.outbox.close()

    def _on_state(self, before: ClusterState, after: ClusterState) -> None:
        if before.tablet_maps is after.tablet_maps or self._stopping:
            return
        there = {tablet.id for tablets in after.tablet_maps.values() for tablet in tablets.tablets}
        for tablet in [tablet for tablet in self.rows if tablet not in there]:
            self._runtime.spawn("outbox.close", self.rows.pop(tablet).outbox.close())

    # --- delivering ----------------------------------------------------------------------------------

    async def _deliver(self, source: Source, mutation: Mutation, least: int, target: int | None) -> bool:
        tablets = self._metadata.state.tablet_maps.get(mutation.table)
        if tablets is None or (target is not None and tablets.holding(mutation.token).id != target):
            return True  # The table, or the view, was dropped, or emptied.
        find = finder(mutation.table, mutation.token, source, target)
        return await self._write(find, Change(mutation, least=least, delivered=True))

    async def _write_mark(self, source: Source, token: int) -> None:
        await self._write(finder(source.table, token, source), Change(None, delivered=True))

    async def _write(self, find: Find, change: Change) -> bool:
        outcome = await self.ask(find, Kind.WRITE, Level.ONE, encode(change), _PATIENCE)
        if isinstance(outcome, Failed):
            # It never can be: what comes after it must not wait for that.
            self._runtime.log("error", "outbox.undeliverable", kind=outcome.kind, error=outcome.why)
        return isinstance(outcome, Done | Failed)
