"""Materialized views of a cluster: every node keeps them, whoever leads the topology builds them.

A build begins when every node knows the view (`Barrier`), so that from there on every write to the base
brings its images along. Its tasks are in the metadata store: a leader that takes over goes on with what is
left.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

import msgspec

from belvedere.meta import view_records
from belvedere.meta.election import Tenure
from belvedere.meta.state import ClusterState
from belvedere.meta.view_records import BUILDING
from belvedere.model.schema import Table
from belvedere.query.database import Database
from belvedere.query.errors import InvalidRequest
from belvedere.query.replicated.access import ClusterAccess
from belvedere.query.replicated.finding import Source
from belvedere.query.system.virtual import VirtualRow
from belvedere.runtime.api import Runtime
from belvedere.views import status
from belvedere.views.cluster_build import build_range
from belvedere.views.cluster_verify import ClusterVerification
from belvedere.views.coordinator import (
    FIRST_PAUSE,
    LAST_PAUSE,
    Amount,
    Coordinator,
    Lane,
    OpenView,
    Task,
    Trouble,
)
from belvedere.views.keeper import MakerCache, Makers
from belvedere.views.proposals import completing
from belvedere.views.verify import Report
from belvedere.views.workplace import Progress

#: How long CREATE waits for a view to be built, in seconds: drivers wait ten.
_CREATE_SECONDS = 5.0


class PassBarrier(Protocol):
    async def wait(self, revision: int, within: float | None = None) -> None: ...


class ClusterViews:
    """A `ViewKeeper`."""

    def __init__(
        self, runtime: Runtime, database: Database, cluster: ClusterAccess, barrier: PassBarrier
    ) -> None:
        self._runtime = runtime
        self._database = database
        self._metadata = database.metadata
        self._cluster = cluster
        self._barrier = barrier
        self._cache = MakerCache(lambda: database.state)
        #: What this node, as leader, has read for tasks that are not done, and what went wrong.
        self._read: dict[Task, int] = {}
        self._told = Coordinator()
        #: Of bases that made trouble: the pause before their next try, and when that is.
        self._tries: dict[bytes, tuple[float, float]] = {}
        database.keep_views(self, self._status_rows)

    # --- for writers and readers ---------------------------------------------------------------------

    def makers(self, table: Table) -> Makers:
        return self._cache.makers(table)

    def is_synchronous(self, table: Table) -> bool:
        return any(maker.view.options.get("synchronous_updates") for maker in self.makers(table))

    def warnings(self, view: Table) -> tuple[str, ...]:
        known = view_records.status_of(self._database.state, view.id)
        if known is not None and known.state == view_records.BUILT:
            return ()
        message = self._status(view).explanation()
        current = self._database.state.tables_by_id.get(view.id, view)
        if current.options.get("read_while_building"):
            return (message,)
        raise InvalidRequest(message)

    async def created(self, view: Table) -> None:
        options = status.build_options(view)
        if options.get("hold") == "true" or options.get("wait") == "false":
            return
        patience = None if options.get("wait") == "true" else _CREATE_SECONDS
        try:
            async with asyncio.timeout(patience):
                await self._metadata.until(lambda state: not _is_being_built(state, view))
        except TimeoutError:
            return  # It goes on.

    async def truncate(self, base: Table, truncate: Callable[[], Awaitable[None]]) -> None:
        raise AssertionError("a replicated table is truncated by a change of the metadata")

    def _status(self, view: Table) -> status.BuildStatus:
        return status.of_view(
            self._database.state, view, self._told, self._progress, lambda base: status.NOTHING
        )

    def _progress(self, view: bytes, tasks: Iterable[Task]) -> Progress:
        rows = sum(self._read.get(task, 0) for task in tasks)
        return Progress(Amount(rows), Lane.INLINE if rows else None, None)

    def _status_rows(self) -> Iterable[VirtualRow]:
        for view in self._database.state.tables_by_id.values():
            if view.view is not None:
                yield self._status(view).as_row()

    # --- proving -------------------------------------------------------------------------------------

    async def verify(self, view: Table, *, repair: bool = False) -> Report:
        """Compare a view with its base, while writes go on; `repair` puts right what is wrong."""
        assert view.view is not None
        base = self._database.state.tables_by_id.get(view.view.base_id)
        makers = () if base is None else self.makers(base)
        maker = next((maker for maker in makers if maker.view.id == view.id), None)
        if maker is None:
            raise InvalidRequest(f"materialized view {view.full_name} does not exist")

        def check() -> None:
            found = self._status(view)
            if not found.is_built:
                raise InvalidRequest(found.explanation())

        check()
        return await ClusterVerification(self._runtime, self._cluster, maker, check, repair).run()

    # --- building, as leader -------------------------------------------------------------------------

    async def lead(self, tenure: Tenure) -> None:
        """Build what is to be built, until cancelled: one range after the other. A base that makes trouble
        waits for its next try, and the others do not wait for it."""
        while True:
            base = self._next_base()
            if base is None:
                await self._until_there_is_work()
                continue
            try:
                await self._build(base, tenure)
                self._tries.pop(base, None)
            except Exception as error:
                pause = min(LAST_PAUSE, 2 * self._tries.get(base, (FIRST_PAUSE / 2, 0.0))[0])
                self._tries[base] = pause, self._runtime.clock.monotonic() + pause
                self._remember(base, error)

    def _next_base(self) -> bytes | None:
        now = self._runtime.clock.monotonic()
        ready = [one for one in self._waiting() if self._tries.get(one.base, (0.0, 0.0))[1] <= now]
        return max(ready, key=lambda one: one.priority).base if ready else None

    def _waiting(self) -> list[OpenView]:
        return [one for one in status.open_views(self._database.state) if not one.held]

    async def _until_there_is_work(self) -> None:
        now = self._runtime.clock.monotonic()
        soonest = min((until - now for _, until in self._tries.values() if until > now), default=None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(soonest):
                await self._metadata.until(lambda state: self._next_base() is not None)

    def _remember(self, base: bytes, error: Exception) -> None:
        self._runtime.log("warning", "views.build_failed", cause=str(error))
        for view in view_records.views_being_built(self._database.state, base):
            attempts = 1 if view not in self._told.troubles else self._told.troubles[view].attempts + 1
            self._told.troubles[view] = Trouble(attempts, str(error))

    async def _build(self, base: bytes, tenure: Tenure) -> None:
        """The first range of a base that is left, for all views that want it."""
        state = self._database.state
        table = state.tables_by_id.get(base)
        views = [one for one in status.open_views(state) if one.base == base and not one.held]
        tasks = [task for view in views for task in view.tasks]
        if table is None or not tasks:
            await self._metadata.commit(lambda state: completing(state, base, ()))
            return
        await self._barrier.wait(state.revision, within=30.0)
        tablet = tasks[0].tablet
        together = [task for task in tasks if task.tablet == tablet]
        makers = [maker for maker in self.makers(table) if any(t.view == maker.view.id for t in together)]
        tokens = _tokens(state, together[0])
        if tokens is None:
            return

        def progress(rows: int) -> None:
            for task in together:
                self._read[task] = self._read.get(task, 0) + rows

        rates = [int(status.build_options(maker.view).get("max_rate", "0")) for maker in makers]
        try:
            rows = await build_range(
                self._runtime, self._cluster, table, Source(base, tablet), tokens, makers, progress,
                min((rate for rate in rates if rate), default=0),
            )  # fmt: skip
            if tenure.holds:
                done = tuple((task, Amount(rows)) for task in together)
                await self._metadata.commit(lambda state: completing(state, base, done))
                for task in together:
                    self._told.troubles.pop(task.view, None)
        finally:
            for task in together:
                self._read.pop(task, None)


def _tokens(state: ClusterState, task: Task) -> tuple[int, int] | None:
    entry = state.entries.get(view_records.task_key(task.view, task.tablet))
    if entry is None:
        return None
    found = msgspec.json.decode(entry.value, type=view_records.BuildTask)
    return int(found.first_token), int(found.last_token)


def _is_being_built(state: ClusterState, view: Table) -> bool:
    known = view_records.status_of(state, view.id)
    return known is not None and known.state == BUILDING
