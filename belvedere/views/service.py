"""Views on a running node: carries out what the coordinator decides, and tells others how far views are.

Everything that must survive a crash is in the metadata store and in the views' tablets; a node that starts
reads there what is left to do.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Self

from belvedere.meta import view_records
from belvedere.meta.state import ClusterState
from belvedere.meta.store import MetadataError
from belvedere.meta.view_records import BUILDING
from belvedere.model.schema import Table
from belvedere.query.database import Database
from belvedere.query.errors import InvalidRequest, ServerError
from belvedere.query.system.virtual import VirtualRow
from belvedere.runtime.api import Runtime, TaskHandle
from belvedere.views import coordinator as decisions
from belvedere.views import status
from belvedere.views.coordinator import Amount, Batch, Coordinator, DoneTasks
from belvedere.views.images import ImageMaker
from belvedere.views.keeper import MakerCache, Makers
from belvedere.views.local_verify import LocalVerification
from belvedere.views.proposals import completing, emptied, restarting
from belvedere.views.verify import Report, Verification
from belvedere.views.work import Pipeline
from belvedere.views.worker import Outcome
from belvedere.views.workplace import Workplace

#: Bases with fewer rows, by estimate, are small: their views are built in this process, row by row, and
#: CREATE returns when that is done.
INLINE_ROWS = 100_000
#: About what a row takes in a memtable.
_MEMORY_PER_ROW = 300


class Views:
    """A `ViewKeeper`. `start` it on an open database, `stop` it before the database closes."""

    def __init__(
        self, runtime: Runtime, database: Database, pipeline: Pipeline | None, inline_rows: int
    ) -> None:
        self._runtime = runtime
        self._database = database
        self._engine, self._access = database.engine, database.access
        self._metadata = database.metadata
        self._pipeline = pipeline
        self._inline_rows = inline_rows
        self._cache = MakerCache(lambda: database.state)
        self._coordinator = Coordinator()
        self._workplace = Workplace(runtime, database, self.makers, pipeline, _rate)
        #: Whoever is coordinator later has a larger one.
        self._term = database.state.revision
        #: Held while a table's rows are being removed, or loaded ones become part of it.
        self.changing_tables = database.access.changing_tables
        self._tasks: list[TaskHandle] = []
        self._stopping = False
        self._waiting: list[asyncio.Future[None]] = []

    @classmethod
    async def start(
        cls,
        runtime: Runtime,
        database: Database,
        pipeline: Pipeline | None = None,
        inline_rows: int = INLINE_ROWS,
    ) -> Self:
        """Without a pipeline everything is built inline, and nothing can be loaded."""
        views = cls(runtime, database, pipeline, inline_rows)
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
        await self._workplace.stop()

    # --- for writers and readers ---------------------------------------------------------------------

    def makers(self, table: Table) -> Makers:
        return self._cache.makers(table)

    def is_synchronous(self, table: Table) -> bool:
        """They are written with their base."""
        return False

    def warnings(self, view: Table) -> tuple[str, ...]:
        found = self.status(view)
        if found.is_built:
            return () if not found.loads else (_behind(found),)
        message = found.explanation()
        current = self._database.state.tables_by_id.get(view.id, view)
        if current.options.get("read_while_building"):
            return (message,)
        raise InvalidRequest(message)

    def status(self, view: Table) -> status.BuildStatus:
        return status.of_view(
            self._database.state, view, self._coordinator, self._workplace.progress_of, self._estimate
        )

    def status_rows(self) -> Iterable[VirtualRow]:
        for view in self._database.state.tables_by_id.values():
            if view.view is not None:
                yield self.status(view).as_row()

    # --- for schema changes --------------------------------------------------------------------------

    async def created(self, view: Table) -> None:
        assert view.view is not None
        options = status.build_options(view)
        base = self._database.state.tables_by_id.get(view.view.base_id)
        if base is None or options.get("hold") == "true" or options.get("wait") == "false":
            return
        if options.get("wait") == "true" or not self._is_large(base.id):
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
        async with self.changing_tables:
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

    def _estimate(self, base: bytes) -> Amount:
        """About how many rows and bytes a table has."""
        found = [store.statistics() for store in self._engine.stores_of(base)]
        rows = sum(one["file_rows"] + one["memtable_bytes"] // _MEMORY_PER_ROW for one in found)
        return Amount(rows, sum(one["file_bytes"] + one["memtable_bytes"] for one in found))

    def _is_large(self, base: bytes) -> bool:
        return self._estimate(base).rows >= self._inline_rows

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
            await self._news()

    async def _news(self) -> None:
        """Until something may have changed."""
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
        await self._until_loads_are_in(view.view.base_id)
        key = view_records.view_key(view.id)
        begun = self._database.state.entries.get(key)

        def check() -> None:
            # Half of a view is not a wrong view.
            found = self.status(view)
            if not found.is_built:
                raise InvalidRequest(found.explanation())
            if self._database.state.entries.get(key) != begun:
                raise InvalidRequest(f"Materialized view {view.full_name} was begun again: verify it anew")
            if found.loads:
                raise InvalidRequest(f"{_behind(found)}: verify it when it does")

        check()
        proof = LocalVerification(self._runtime, self._engine, self._access, maker, check, repair)
        if self._pipeline is None or not self._is_large(maker.base.id):
            return await proof.run()
        return await self._verify_in_columns(proof, maker, self._pipeline)

    async def _verify_in_columns(self, proof: Verification, maker: ImageMaker, pipeline: Pipeline) -> Report:
        """The pipeline says where something may be wrong; these places are looked at again."""
        repaired = 0
        while True:
            now = self._runtime.clock.wall_micros() // 1_000_000
            base = await self._access.stores(maker.base)
            compared = await pipeline.compare(base, maker, now)
            report = await proof.look_at(compared)
            # Once more for places beyond those named, as long as that leads anywhere.
            if not compared.unnamed or not proof.repairs or report.repaired == repaired:
                return report
            repaired = report.repaired

    async def _until_loads_are_in(self, base: bytes) -> None:
        while any(True for _ in view_records.open_staging(self._database.state, base)):
            if base in self._coordinator.troubles or self._stopping:
                return
            await self._news()

    # --- the coordinator's hands ---------------------------------------------------------------------

    def _on_state(self, before: ClusterState, after: ClusterState) -> None:
        if not self._stopping:
            self._look(after)

    def _look(self, state: ClusterState) -> None:
        views, loads = status.open_views(state), status.open_loads(state)
        bases = {view.base for view in views} | {one.base for one in loads}
        large = frozenset(base for base in bases if self._is_large(base))
        tasks = [task for view in views for task in view.tasks] + [
            task for one in loads for task in one.tasks
        ]
        self._workplace.remember_only(frozenset(tasks))
        self._post(decisions.Seen(views, loads, large))

    def _post(self, event: decisions.Event) -> None:
        if self._stopping:
            return
        for effect in self._coordinator.handle(event):
            match effect:
                case decisions.Call(batch):
                    self._spawn("views.call", self._call(batch))
                case decisions.Halt(batch):
                    self._workplace.halt(self._term, batch)
                case decisions.Complete(base, done):
                    self._spawn("views.complete", self._complete(base, done))
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

    async def _call(self, batch: Batch) -> None:
        answer = await self._workplace.call(self._term, batch)
        match answer.outcome:
            case Outcome.FINISHED:
                self._post(decisions.Finished(batch, answer.done))
            case Outcome.FAILED:
                self._post(decisions.Failed(batch, answer.cause))
            case Outcome.INTERRUPTED | Outcome.STALE:
                # Before the next look, so that a state that stays odd does not keep the loop busy.
                await self._runtime.clock.sleep(decisions.FIRST_PAUSE)
                self._post(decisions.Interrupted(batch))

    async def _complete(self, base: bytes, done: DoneTasks) -> None:
        try:
            await self._metadata.commit(lambda state: completing(state, base, done))
        except Exception as error:
            # Whatever it was: unless the coordinator hears of it, the view stays as it is for ever.
            self._runtime.log("warning", "views.task_not_deleted", cause=_cause(error))
            self._post(decisions.NotWrittenDown(base, tuple(task for task, _ in done), _cause(error)))

    async def _empty(self, view: bytes) -> None:
        try:
            await self._access.align()
            table = self._database.state.tables_by_id.get(view)
            if table is not None:
                await self._access.truncate_alone(table)
            await self._metadata.commit(lambda state: emptied(state, view))
        except Exception as error:
            self._runtime.log("warning", "views.not_emptied", cause=_cause(error))
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


def _behind(found: status.BuildStatus) -> str:
    return (
        f"Materialized view {found.view.full_name} does not show all rows yet: "
        f"{found.loads} loads into {found.view.view.base if found.view.view else ''} are being brought in"
    )


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__
