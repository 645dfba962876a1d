"""Views on a running node: carries out what the coordinator decides, and tells others how far views are.

Everything that must survive a crash is in the metadata store and in the views' tablets; a node that starts
reads there what is left to do.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Self

from belvedere.meta import view_records
from belvedere.meta.metadata import Proposal
from belvedere.meta.state import ClusterState
from belvedere.meta.store import MetadataError
from belvedere.meta.view_records import BUILDING
from belvedere.model.schema import Table
from belvedere.query.database import Database
from belvedere.query.errors import InvalidRequest, ServerError
from belvedere.query.system.virtual import VirtualRow
from belvedere.runtime.api import Runtime, TaskHandle
from belvedere.runtime.errors import DiskError
from belvedere.storage.errors import Dropped, StorageError
from belvedere.views import coordinator as decisions
from belvedere.views import status
from belvedere.views.build import RangeChanged, build_range
from belvedere.views.coordinator import Batch, Coordinator
from belvedere.views.images import ImageMaker
from belvedere.views.keeper import MakerCache, Makers
from belvedere.views.proposals import completing, emptied, restarting
from belvedere.views.verify import Report, Verification

#: CREATE returns when the build is done if the base has fewer rows than these, by estimate.
SMALL_BASE = 100_000
#: About what a row takes in a memtable.
_MEMORY_PER_ROW = 300


class Views:
    """A `ViewKeeper`. `start` it on an open database, `stop` it before the database closes."""

    def __init__(self, runtime: Runtime, database: Database) -> None:
        self._runtime = runtime
        self._database = database
        self._engine, self._access = database.engine, database.access
        self._metadata = database.metadata
        self._cache = MakerCache(lambda: database.state)
        self._coordinator = Coordinator()
        self._truncating = asyncio.Lock()
        self._tasks: list[TaskHandle] = []
        self._stopping = False
        self._waiting: list[asyncio.Future[None]] = []
        #: Rows read so far of the range that is being built.
        self._progress = 0

    @classmethod
    async def start(cls, runtime: Runtime, database: Database) -> Self:
        views = cls(runtime, database)
        database.keep_views(views, views.status_rows)
        database.metadata.listen(views._on_state)
        views._look(database.state)
        return views

    async def stop(self) -> None:
        self._stopping = True
        self._tell()
        tasks = [task for task in self._tasks if not task.done()]
        for task in tasks:
            task.cancel()
        for task in tasks:
            await task.wait()

    # --- for writers and readers ---------------------------------------------------------------------

    def makers(self, table: Table) -> Makers:
        return self._cache.makers(table)

    def warnings(self, view: Table) -> tuple[str, ...]:
        state = self._database.state
        found = status.of_view(state, view, self._coordinator, self._progress)
        if found.is_built:
            return ()
        message = found.explanation()
        current = state.tables_by_id.get(view.id, view)
        if current.options.get("read_while_building"):
            return (message,)
        raise InvalidRequest(message)

    def status_rows(self) -> Iterable[VirtualRow]:
        state = self._database.state
        for view in state.tables_by_id.values():
            if view.view is not None:
                yield status.of_view(state, view, self._coordinator, self._progress).as_row()

    # --- for schema changes --------------------------------------------------------------------------

    async def created(self, view: Table) -> None:
        assert view.view is not None
        options = status.build_options(view)
        base = self._database.state.tables_by_id.get(view.view.base_id)
        if base is None or options.get("hold") == "true" or options.get("wait") == "false":
            return
        if options.get("wait") == "true" or await self._estimated_rows(base) < SMALL_BASE:
            await self.until_built(view)

    async def truncate(self, base: Table, truncate: Callable[[], Awaitable[None]]) -> None:
        """The views are begun again from nothing, whatever happens in between: first that is written down,
        then the base is emptied, then they. Images of rows that are gone cannot come back after that."""
        # A task of its own: who waits for it may be cancelled, and half of it must not be left undone.
        await self._spawn("views.truncate", self._truncate(base, truncate)).wait()
        for maker in self.makers(base):
            if status.build_options(maker.view).get("hold") != "true":
                await self.until_built(maker.view, patient=True)

    async def _truncate(self, base: Table, truncate: Callable[[], Awaitable[None]]) -> None:
        async with self._truncating:
            self._post(decisions.TruncationBegan(base.id))
            try:
                await self._metadata.commit(lambda state: restarting(state, base))
                await truncate()
            except MetadataError as error:
                self._post(decisions.TruncationEnded(base.id))
                raise ServerError(f"It is not known whether the table was truncated: {error}") from error
            except Exception:
                self._post(decisions.TruncationEnded(base.id))
                raise
            self._post(decisions.TruncationEnded(base.id))

    async def _estimated_rows(self, base: Table) -> int:
        found = [store.statistics() for store in await self._access.stores(base)]
        return sum(one["file_rows"] + one["memtable_bytes"] // _MEMORY_PER_ROW for one in found)

    async def until_built(self, view: Table, *, patient: bool = False) -> None:
        """Return when the view is built, or dropped. Unless `patient`, a failure ends the waiting."""
        while True:
            known = view_records.status_of(self._database.state, view.id)
            if known is None or known.state != BUILDING:
                return
            trouble = self._coordinator.troubles.get(view.id)
            if trouble is not None and patient:
                return
            if trouble is not None:
                raise ServerError(
                    f"Materialized view {view.full_name} was created, but building it failed and is tried "
                    f"again: {trouble.cause}"
                )
            if self._stopping:
                raise ServerError(f"The node stops; it goes on building {view.full_name} when it is back")
            news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(news)
            await news

    # --- proving -------------------------------------------------------------------------------------

    async def verify(self, view: Table, *, repair: bool = False) -> Report:
        """Compare a view with its base, while writes go on; `repair` puts right what is wrong."""
        assert view.view is not None
        base = self._database.state.tables_by_id.get(view.view.base_id)
        makers = () if base is None else self.makers(base)
        maker = next((maker for maker in makers if maker.view.id == view.id), None)
        if maker is None:
            raise InvalidRequest(f"materialized view {view.full_name} does not exist")
        key = view_records.view_key(view.id)
        begun = self._database.state.entries.get(key)

        def check() -> None:
            # Half of a view is not a wrong view.
            state = self._database.state
            found = status.of_view(state, view, self._coordinator, self._progress)
            if not found.is_built:
                raise InvalidRequest(found.explanation())
            if state.entries.get(key) != begun:
                raise InvalidRequest(f"Materialized view {view.full_name} was begun again: verify it anew")

        check()
        return await Verification(self._runtime, self._engine, self._access, maker, check, repair).run()

    # --- the coordinator's hands ---------------------------------------------------------------------

    def _on_state(self, before: ClusterState, after: ClusterState) -> None:
        if not self._stopping:
            self._look(after)

    def _look(self, state: ClusterState) -> None:
        self._post(decisions.Seen(status.open_views(state)))

    def _post(self, event: decisions.Event) -> None:
        if self._stopping:
            return
        for effect in self._coordinator.handle(event):
            match effect:
                case decisions.Build(batch):
                    self._spawn("views.build", self._build(batch))
                case decisions.Complete(batch, rows):
                    self._spawn("views.complete", self._complete(batch, rows))
                case decisions.Empty(view):
                    self._spawn("views.empty", self._empty(view))
                case decisions.RetryAfter(seconds, what):
                    self._spawn("views.retry", self._retry(seconds, what))
        self._tell()

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        for news in waiting:
            if not news.done():
                news.set_result(None)

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> TaskHandle:
        self._tasks = [task for task in self._tasks if not task.done()]
        task = self._runtime.spawn(name, work)
        self._tasks.append(task)
        return task

    async def _build(self, batch: Batch) -> None:
        self._progress = 0
        try:
            await self._access.align()
            makers = self._makers_of(batch)
            store = self._engine.stores.get(batch.tablet)
            if not makers or store is None:
                raise RangeChanged(batch.base.hex())
            rows = await build_range(
                self._runtime, self._engine, self._access, store, makers, self._count, _rate(makers)
            )
        except (RangeChanged, Dropped):
            # Before the next look, so that a state that stays odd does not keep the loop busy.
            await self._runtime.clock.sleep(decisions.FIRST_PAUSE)
            self._progress = 0
            self._post(decisions.Interrupted(batch))
        except Exception as error:
            self._runtime.log("warning", "views.build_failed", tablet=batch.tablet, cause=str(error))
            self._progress = 0
            self._post(decisions.Failed(batch, _cause(error)))
        else:
            self._post(decisions.Finished(batch, rows))

    def _makers_of(self, batch: Batch) -> list[ImageMaker]:
        base = self._database.state.tables_by_id.get(batch.base)
        wanted = {task.view for task in batch.tasks}
        return [] if base is None else [maker for maker in self.makers(base) if maker.view.id in wanted]

    def _count(self, rows: int) -> None:
        self._progress += rows

    async def _complete(self, batch: Batch, rows: int) -> None:
        def propose(state: ClusterState) -> Proposal | None:
            return completing(state, batch, rows)

        try:
            await self._metadata.commit(propose)
        except MetadataError as error:
            self._runtime.log("warning", "views.task_not_deleted", cause=str(error))
            self._post(decisions.Failed(batch, _cause(error)))

    async def _empty(self, view: bytes) -> None:
        try:
            await self._access.align()
            table = self._database.state.tables_by_id.get(view)
            if table is not None:
                await self._access.truncate_alone(table)
            await self._metadata.commit(lambda state: emptied(state, view))
        except (MetadataError, StorageError, DiskError, InvalidRequest) as error:
            self._runtime.log("warning", "views.not_emptied", cause=str(error))
            self._post(decisions.Emptied(view, _cause(error)))
        else:
            self._post(decisions.Emptied(view))

    async def _retry(self, seconds: float, what: decisions.Retried) -> None:
        await self._runtime.clock.sleep(seconds)
        self._post(decisions.RetryDue(what))


def _rate(makers: Iterable[ImageMaker]) -> int:
    """Rows a second; 0 for any number. The strictest of views that are built together counts for all."""
    rates = [int(status.build_options(maker.view).get("max_rate", "0")) for maker in makers]
    return min((rate for rate in rates if rate), default=0)


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__
