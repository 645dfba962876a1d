"""Views built, brought up to date and compared by jobs: the `Pipeline` that views ask for large work.

A job knows only the exchange: pinned sstables in, sstables for the views' tablets out. Each task's output
becomes part of the views as soon as it is known. Its images carry a version reserved before the snapshot was
taken: newer than all that was there, older than every write to come.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec

from belvedere.model.schema import Table
from belvedere.pipeline.exchange import Exchange
from belvedere.pipeline.jobs import Job, JobRunner, ended
from belvedere.pipeline.schema_of import schema_entries
from belvedere.pipeline.tasks import (
    BuildTask,
    CompareReport,
    CompareTask,
    InputFile,
    OutputFile,
    StageTask,
    Task,
    TaskResult,
)
from belvedere.query.database import Database
from belvedere.runtime.api import Runtime
from belvedere.storage.snapshot import Snapshot
from belvedere.storage.tablet import TabletStore
from belvedere.storage.tablet_attach import NewFile
from belvedere.views.build import RangeChanged, ViewWriter
from belvedere.views.coordinator import Amount, Lane
from belvedere.views.images import ImageMaker
from belvedere.views.work import Compared, OnDone, OnProgress, Range


@dataclass(frozen=True, slots=True)
class _Pinned:
    """A range as it is read: at a snapshot, for images of one version."""

    range: Range
    #: Staged loads that were there when the version was given. A later one, even if it is in the snapshot,
    #: is not for this version: writes that do not know of it may have newer ones.
    loads: tuple[str, ...]
    version: int
    snapshot: Snapshot


class ViewWork:
    """`inline` runs jobs in this process, `large` on Spark."""

    def __init__(
        self,
        runtime: Runtime,
        database: Database,
        exchange: Exchange,
        *,
        inline: JobRunner,
        large: JobRunner,
    ) -> None:
        self._runtime = runtime
        self._database = database
        self._engine, self._access = database.engine, database.access
        self._exchange = exchange
        self._runners = {Lane.INLINE: inline, Lane.JOB: large}

    # --- what views ask for ----------------------------------------------------------------------------

    async def build(self, ranges: Sequence[Range], max_rate: int, done: OnDone, progress: OnProgress) -> None:
        # Any number of tasks may run at a time: together they must keep to the rate.
        rate = max(1, max_rate // len(ranges)) if max_rate else 0

        async def make(pinned: _Pinned, job: str) -> Task:
            inputs = await self._exchange.publish(job, pinned.snapshot.files)
            base, views = pinned.range.store.table, [maker.view for maker in pinned.range.makers]
            ids = [view.id.hex() for view in views]
            return BuildTask(self._schema(base, views), base.id.hex(), ids, pinned.version, inputs, rate)

        async def settle(pinned: _Pinned) -> None:
            """The images are all there is to it."""

        title = f"building views of {_names(ranges)}"
        await self._bring_in(_Work(title, "build", Lane.JOB, make, settle), ranges, done, progress)

    async def stage(self, ranges: Sequence[Range], lane: Lane, done: OnDone, progress: OnProgress) -> None:
        async def make(pinned: _Pinned, job: str) -> Task:
            snapshot = pinned.snapshot
            before = await self._exchange.publish(job, snapshot.ordinary)
            staged = [(path, facts) for load, path, facts in snapshot.staged if load in pinned.loads]
            added = await self._exchange.publish(job, staged)
            base, views = pinned.range.store.table, [maker.view for maker in pinned.range.makers]
            ids = [view.id.hex() for view in views]
            return StageTask(self._schema(base, views), base.id.hex(), ids, pinned.version, before, added)

        async def settle(pinned: _Pinned) -> None:
            await pinned.range.store.unstage(pinned.loads)
            self._engine.consider_compaction([pinned.range.store])

        title = f"bringing rows loaded into {_names(ranges)} into its views"
        await self._bring_in(_Work(title, "stage", lane, make, settle), ranges, done, progress)

    async def compare(self, base: Sequence[TabletStore], maker: ImageMaker, now: int) -> Compared:
        view = await self._access.stores(maker.view)
        job = self._job_id("compare")
        snapshots = await self._engine.snapshots([*base, *view])
        try:
            of_base, of_view = snapshots[: len(base)], snapshots[len(base) :]
            rows, images = await self._images(job, maker, of_base)
            return await self._differences(job, maker, of_view, rows, images, now)
        finally:
            for snapshot in snapshots:
                snapshot.release()
            for name in (job, _first(job), _second(job)):
                await self._exchange.discard(name)

    # --- building and staging --------------------------------------------------------------------------

    async def _bring_in(
        self, work: "_Work", ranges: Sequence[Range], done: OnDone, progress: OnProgress
    ) -> None:
        async with self._pinned(ranges) as (pinned, unchanged):
            job = self._job_id(work.kind)

            async def on_result(number: int, result: TaskResult) -> None:
                one = pinned[number]
                await self._attach(one.range.makers, result.outputs, lambda: unchanged(one.range.store))
                await work.settle(one)
                done(number, Amount(result.rows, result.bytes))

            try:
                tasks = [await work.make(one, job) for one in pinned]
                await self._runners[work.lane].run(
                    Job(job, work.title, tasks), on_result, lambda rows, size: progress(Amount(rows, size))
                )
            finally:
                await self._exchange.discard(job)

    @asynccontextmanager
    async def _pinned(
        self, ranges: Sequence[Range]
    ) -> AsyncIterator[tuple[list[_Pinned], Callable[[TabletStore], None]]]:
        """Snapshots of the ranges, and what raises RangeChanged when one of them was truncated since."""
        begun = {one.store.id: one.store.truncations for one in ranges}

        def unchanged(store: TabletStore) -> None:
            if store.truncating or store.truncations != begun[store.id]:
                raise RangeChanged(store.table.full_name)

        targets = await self._targets(maker.view for one in ranges for maker in one.makers)
        # From before the versions are given until the images are in: writes may delete what is newer.
        for target in targets:
            target.tombstones_needed += 1
        snapshots: list[Snapshot] = []
        try:
            loads = [one.store.staged_loads for one in ranges]
            versions = [await ViewWriter(self._runtime, self._engine, one.store).version() for one in ranges]
            snapshots = await self._engine.snapshots([one.store for one in ranges])
            yield [_Pinned(*one) for one in zip(ranges, loads, versions, snapshots, strict=True)], unchanged
        finally:
            for snapshot in snapshots:
                snapshot.release()
            for target in targets:
                target.tombstones_needed -= 1
            # Not before: what is being built is not read yet, and its build needs the processors.
            self._engine.consider_compaction(targets)

    async def _targets(self, views: Iterable[Table]) -> list[TabletStore]:
        found = {view.id: view for view in views}
        return [store for view in found.values() for store in await self._access.stores(view)]

    async def _attach(
        self, makers: Iterable[ImageMaker], outputs: Iterable[OutputFile], check: Callable[[], None]
    ) -> None:
        """Make a task's output part of the views' tablets."""
        stores = {store.id: store for store in await self._targets(maker.view for maker in makers)}
        parts: dict[int, list[NewFile]] = {}
        for output in outputs:
            if output.tablet not in stores:
                raise RangeChanged(output.table)
            parts.setdefault(output.tablet, []).append(NewFile(output.path, output.facts))
        if not parts:
            return
        attaching = self._runtime.spawn(
            "views.attach",
            self._engine.attach([(stores[tablet], files) for tablet, files in parts.items()], check=check),
        )
        try:
            await attaching.wait()
        finally:
            # Nobody stops it in the middle, and until its end the job's files must stay.
            await ended(attaching)

    # --- comparing -------------------------------------------------------------------------------------

    async def _images(
        self, job: str, maker: ImageMaker, snapshots: Sequence[Snapshot]
    ) -> tuple[int, list[OutputFile]]:
        """All rows of the base as images, made anew, and how many rows there are."""
        schema = self._schema(maker.base, [maker.view])
        base, view = maker.base.id.hex(), maker.view.id.hex()
        tasks = [
            BuildTask(schema, base, [view], 0, await self._exchange.publish(job, snapshot.files))
            for snapshot in snapshots
        ]
        results = await self._results(_first(job), f"making images of {maker.base.full_name}", tasks)
        outputs = [output for result in results for output in result.outputs]
        return sum(result.rows for result in results), outputs

    async def _differences(
        self,
        job: str,
        maker: ImageMaker,
        snapshots: Sequence[Snapshot],
        base_rows: int,
        images: Sequence[OutputFile],
        now: int,
    ) -> Compared:
        schema, view = self._schema(maker.base, [maker.view]), maker.view.id.hex()
        tasks = []
        for snapshot in snapshots:
            expected = [
                InputFile(image.path, image.facts.size, image.facts.crc32c)
                for image in images
                if image.tablet == snapshot.tablet
            ]
            actual = await self._exchange.publish(job, snapshot.files)
            tasks.append(CompareTask(schema, view, snapshot.tablet, now, expected, actual))
        results = await self._results(_second(job), f"comparing {maker.view.full_name}", tasks)
        reports = [msgspec.json.decode(result.report, type=CompareReport) for result in results]
        places = [(one.token, (one.key, one.clustering)) for report in reports for one in report.suspects]
        view_rows = sum(report.actual_rows for report in reports)
        return Compared(base_rows, view_rows, places, sum(report.untold for report in reports))

    async def _results(self, job: str, title: str, tasks: Sequence[Task]) -> list[TaskResult]:
        found: dict[int, TaskResult] = {}

        async def on_result(number: int, result: TaskResult) -> None:
            found[number] = result

        await self._runners[Lane.JOB].run(Job(job, title, tasks), on_result, lambda rows, size: None)
        return [found[number] for number in range(len(tasks))]

    # --- details ---------------------------------------------------------------------------------------

    def _schema(self, base: Table, views: Sequence[Table]) -> dict[str, str]:
        return schema_entries(self._database.state, [base, *views])

    def _job_id(self, kind: str) -> str:
        return f"{kind}-{self._runtime.random.bytes(6).hex()}"


@dataclass(frozen=True, slots=True)
class _Work:
    """What building and staging differ in."""

    title: str
    kind: str
    lane: Lane
    make: "Callable[[_Pinned, str], Awaitable[Task]]"
    settle: "Callable[[_Pinned], Awaitable[None]]"


def _first(job: str) -> str:
    return f"{job}-images"


def _second(job: str) -> str:
    return f"{job}-places"


def _names(ranges: Sequence[Range]) -> str:
    return ranges[0].store.table.full_name
