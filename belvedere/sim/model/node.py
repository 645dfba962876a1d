"""One node in the simulated world, over a metadata store that outlives it."""

from collections.abc import Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from belvedere.meta.memory import MemoryStore
from belvedere.meta.metadata import Metadata
from belvedere.model.mutations import Mutation
from belvedere.query.access import UNSET as PRODUCT_UNSET
from belvedere.query.access import BoundValue
from belvedere.query.database import Database, DatabaseOptions
from belvedere.query.options import QueryOptions
from belvedere.query.results import Result, Rows
from belvedere.sim.model.restrictions import Unset
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World
from belvedere.storage.engine import Derive, EngineOptions, StorageEngine, Write
from belvedere.storage.memtable import Merge
from belvedere.storage.tablet import TabletStore
from belvedere.views.service import Views

T = TypeVar("T")

MACHINE = "node"

#: The request that code on the node runs for.
_request: ContextVar["Request | None"] = ContextVar("request", default=None)


@dataclass
class Request:
    """A statement as a client sends it."""

    text: str
    values: list[bytes | Unset | None] = field(default_factory=list)
    timestamp: int | None = None
    prepared: bool = False
    page_size: int = 0
    #: Statements of a batch message, each with its values.
    children: list[tuple[str, list[bytes | Unset | None]]] | None = None
    kind: str = "LOGGED"
    #: Filled while it runs: the write times that the node gave out to it, and those of what it wrote.
    stamps: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    now: int = 0

    def stamp(self, *, conditional: bool) -> int | None:
        """The write time of the statement, None if it did not get so far. A condition may move it up."""
        return next(iter(self.written if conditional else self.stamps), None)


class Node:
    """Boots, stops and crashes; between that it answers requests."""

    def __init__(self, world: World, options: EngineOptions) -> None:
        self.world = world
        self.options = options
        self.store = MemoryStore()
        self.runtime: SimRuntime
        self.metadata: Metadata
        self.database: Database
        self.views: Views

    async def boot(self) -> None:
        self.runtime = self.world.boot(MACHINE)
        await self._perform(self._start())

    async def _start(self) -> None:
        self.metadata = Metadata(self.runtime, self.store)
        await self.metadata.start()
        options = DatabaseOptions(storage=self.options)
        self.database = await Database.open(self.runtime, "data/node", self.metadata, options)
        self.views = await Views.start(self.runtime, self.database)
        _watch_stamps(self.database)

    def crash(self, *, lose_unsynced: bool) -> None:
        self.world.crash(MACHINE, lose_unsynced=lose_unsynced)

    async def stop(self) -> None:
        """In order; then the process ends, and the machine may even lose its power."""
        await self._perform(self._close())
        self.crash(lose_unsynced=True)

    async def _perform(self, work: Coroutine[Any, Any, T]) -> T:
        return await self.runtime.perform(work)

    async def _close(self) -> None:
        await self.views.stop()
        await self.database.close()
        await self.metadata.stop()

    async def execute(self, request: Request) -> Result:
        return await self._perform(self._execute(request))

    async def _execute(self, request: Request) -> Result:
        request.now = self.runtime.clock.wall_micros() // 1_000_000
        _request.set(request)
        if request.children is None:
            result = await self._page(request, None)
        else:
            result = await self._batch(request)
        if isinstance(result, Rows):
            page = result
            while page.paging_state is not None:
                following = await self._page(request, page.paging_state)
                assert isinstance(following, Rows)
                if request.page_size and len(following.rows) > request.page_size:
                    raise AssertionError(f"a page of {len(following.rows)} rows")
                result.rows.extend(following.rows)
                page = following
        return result

    async def _page(self, request: Request, paging_state: bytes | None) -> Result:
        options = self._options(request)
        options.values = [_bound(value) for value in request.values]
        options.page_size, options.paging_state = request.page_size, paging_state
        database = self.database
        if request.prepared:
            prepared = database.prepare(request.text, None)
            answer = database.execute(prepared, options)
            result = answer if isinstance(answer, Result) else await answer
        else:
            result = await database.query(request.text, None, options)
        await database.access.durable(result.after)
        return result

    async def _batch(self, request: Request) -> Result:
        children: list[tuple[str | bytes, list[BoundValue]]] = []
        for number, (text, values) in enumerate(request.children or []):
            statement = self.database.prepare(text, None).id if number % 2 else text
            children.append((statement, [_bound(value) for value in values]))
        kind: Any = request.kind
        result = await self.database.batch(kind, children, None, self._options(request))
        await self.database.access.durable(result.after)
        return result

    def _options(self, request: Request) -> QueryOptions:
        return QueryOptions(timestamp=request.timestamp, now_seconds=request.now)

    # -------------------------------------------------------------------------------------------- upkeep

    async def upkeep(self, what: str, table: str, files: int) -> None:
        await self._perform(self._upkeep(what, table, files))

    async def _upkeep(self, what: str, table: str, files: int) -> None:
        engine = self.database.engine
        stores = [store for store in engine.stores.values() if store.table.name == table]
        if what == "flush":
            await engine.flush(stores)
            return
        for store in stores:
            if what == "some":
                await _compact_some(engine, store, files)
            else:
                await engine.compact(store, everything=what == "compact")


async def _compact_some(engine: StorageEngine, store: TabletStore, files: int) -> None:
    """Any set of files must do, not only those that the store finds worth it."""

    def choose(*_: object) -> list[int]:
        return [index for index in range(store.statistics()["files"]) if files >> index & 1]

    store._choose = choose  # type: ignore[method-assign, assignment]
    try:
        await engine.compact(store, everything=False)
    finally:
        del store._choose


def _bound(value: bytes | Unset | None) -> BoundValue:
    return PRODUCT_UNSET if isinstance(value, Unset) else value


def _watch_stamps(database: Database) -> None:
    """Note which write times the node gives out, and to whom: the model cannot know them otherwise."""
    access, engine = database.access, database.engine
    give, write, write_now = access.next_timestamp, engine.write_together_now, engine.write_now

    def next_timestamp() -> int:
        given = give()
        request = _request.get()
        if request is not None:
            request.stamps.append(given)
        return given

    def writing(writes: Sequence[Write]) -> int | None:
        request = _request.get()
        if request is not None:
            request.written += [_time_of(one.mutation) for one in writes]
        return write(writes)

    def writing_now(
        store: TabletStore, mutation: Mutation, derive: Derive | None = None, known: Merge | None = None
    ) -> int | None:
        request = _request.get()
        if request is not None:
            request.written.append(_time_of(mutation))
        return write_now(store, mutation, derive, known)

    access.next_timestamp = next_timestamp  # type: ignore[method-assign]
    engine.write_together_now = writing  # type: ignore[method-assign]
    engine.write_now = writing_now  # type: ignore[method-assign]


def _time_of(mutation: Mutation) -> int:
    if mutation.deletion is not None:
        return mutation.deletion[0]
    if mutation.rows:
        return mutation.rows[0][1].timestamp
    if mutation.static is not None:
        return mutation.static.timestamp
    return mutation.ranges[0].deletion[0]
