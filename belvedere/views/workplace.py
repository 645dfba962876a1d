"""The worker on a running node: carries out what the pure `Worker` decides, and answers calls.

Small work is done here, row by row, through the code of online writes; large work is a job of the pipeline.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from belvedere.model.schema import Table
from belvedere.query.database import Database
from belvedere.runtime.api import Runtime, TaskHandle
from belvedere.storage.errors import Dropped
from belvedere.views import worker as decisions
from belvedere.views.build import RangeChanged, build_range
from belvedere.views.coordinator import Amount, Batch, Lane, Task
from belvedere.views.images import ImageMaker
from belvedere.views.work import Pipeline, Range
from belvedere.views.worker import Answer, Outcome, Worker


@dataclass(slots=True)
class Underway:
    """How far the work in a lane is; what was done and told before is not in it."""

    batch: Batch
    begun: bool = False
    #: When something of it had been read first, by the monotonic clock, and how many rows.
    reading: tuple[float, int] | None = None
    read: Amount = field(default_factory=Amount)
    #: Of `read`, what belongs to tasks that are done.
    told: Amount = field(default_factory=Amount)


@dataclass(frozen=True, slots=True)
class Progress:
    read: Amount
    #: None: nothing runs for it now.
    lane: Lane | None
    rows_per_second: float | None


class Workplace:
    """`call` it with a batch; `stop` it before the database closes."""

    def __init__(
        self,
        runtime: Runtime,
        database: Database,
        makers: Callable[[Table], Sequence[ImageMaker]],
        pipeline: Pipeline | None,
        max_rate: Callable[[Sequence[ImageMaker]], int],
    ) -> None:
        self._runtime = runtime
        self._database = database
        self._makers = makers
        self._pipeline = pipeline
        self._max_rate = max_rate
        self._worker = Worker()
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._calls = 0
        self._running: dict[Lane, TaskHandle] = {}
        self._halted: set[Lane] = set()
        self._stopping = False
        #: For those who ask how far it is.
        self.underway: dict[Lane, Underway] = {}

    async def stop(self) -> None:
        self._stopping = True
        running = list(self._running.values())
        for task in running:
            task.cancel()
        for task in running:
            await task.wait()

    async def call(self, term: int, batch: Batch) -> Answer:
        """Do a batch, or as much of it as there is to tell of so far."""
        self._calls += 1
        call = self._calls
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[call] = answer
        self._post(decisions.Called(call, term, batch))
        try:
            return await answer
        finally:
            del self._answers[call]

    def progress_of(self, view: bytes, tasks: Iterable[Task]) -> Progress:
        """What was read for a view besides what the metadata store knows of; `tasks` are its open ones."""
        read = Amount()
        for task in tasks:
            read = read.plus(self._worker.finished.get(task, Amount()))
        for underway in self.underway.values():
            if any(task.view == view for task in underway.batch.tasks):
                more, told = underway.read, underway.told
                read = read.plus(Amount(max(0, more.rows - told.rows), max(0, more.bytes - told.bytes)))
                return Progress(read, underway.batch.lane, self._rate(underway))
        return Progress(read, None, None)

    def _rate(self, underway: Underway) -> float | None:
        """Rows a second since the first were read: what a job needs to start says nothing of the rest."""
        if underway.reading is None:
            return None
        since, rows = underway.reading
        seconds = self._runtime.clock.monotonic() - since
        return (underway.read.rows - rows) / seconds if underway.read.rows > rows and seconds > 0 else None

    def halt(self, term: int, batch: Batch) -> None:
        self._post(decisions.HaltCalled(term, batch))

    def remember_only(self, tasks: frozenset[Task]) -> None:
        self._post(decisions.TasksAlive(tasks))

    def _post(self, event: decisions.Event) -> None:
        if self._stopping:
            return
        for effect in self._worker.handle(event):
            match effect:
                case decisions.Begin(batch):
                    self._halted.discard(batch.lane)
                    self.underway[batch.lane] = Underway(batch)
                    name = f"views.work.{batch.lane.value}"
                    self._running[batch.lane] = self._runtime.spawn(name, self._run(batch))
                case decisions.Stop(lane):
                    self._halted.add(lane)
                    # Cancelled before its first step it would take none, and nobody would hear of its end.
                    if self.underway[lane].begun:
                        self._running[lane].cancel()
                case decisions.Gather(lane, seconds):
                    self._runtime.call_later(seconds, lambda lane=lane: self._gathered(lane))  # type: ignore[misc]
                case Answer(call):
                    waiting = self._answers.get(call)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(effect)

    def _gathered(self, lane: Lane) -> None:
        self._post(decisions.GatheringOver(lane))

    # --- doing it ------------------------------------------------------------------------------------

    async def _run(self, batch: Batch) -> None:
        outcome, cause = Outcome.FINISHED, ""
        self.underway[batch.lane].begun = True
        try:
            if batch.lane in self._halted:
                raise RangeChanged(batch.base.hex())
            await self._database.access.align()
            await self._perform(batch)
        except (RangeChanged, Dropped):
            outcome = Outcome.INTERRUPTED
        except asyncio.CancelledError:
            if batch.lane not in self._halted:
                raise
            outcome = Outcome.INTERRUPTED
        except Exception as error:
            outcome, cause = Outcome.FAILED, str(error) or type(error).__name__
            table = self._database.state.tables_by_id.get(batch.base)
            name = batch.base.hex() if table is None else table.full_name
            self._runtime.log("warning", "views.work_failed", base=name, cause=cause)
        self.underway.pop(batch.lane, None)
        self._post(decisions.Ended(batch.lane, outcome, cause))

    async def _perform(self, batch: Batch) -> None:
        ranges, tasks = self._ranges(batch)

        def done(number: int, read: Amount) -> None:
            underway = self.underway[batch.lane]
            underway.told = underway.told.plus(read)
            self._post(decisions.Done(batch.lane, tasks[number], read))

        def progress(read: Amount) -> None:
            underway = self.underway[batch.lane]
            underway.read = read
            if underway.reading is None and read.rows:
                underway.reading = self._runtime.clock.monotonic(), read.rows

        if batch.stages and self._pipeline is not None:
            await self._pipeline.stage(ranges, batch.lane, done, progress)
        elif batch.stages:
            raise RuntimeError("loads are brought into views by the pipeline, which was not started")
        elif batch.lane is Lane.JOB and self._pipeline is not None:
            rate = self._max_rate([maker for one in ranges for maker in one.makers])
            await self._pipeline.build(ranges, rate, done, progress)
        else:
            await self._inline(ranges, done, progress)

    def _ranges(self, batch: Batch) -> tuple[list[Range], list[tuple[Task, ...]]]:
        """What the batch says, as tablets and makers; the tasks that each stands for."""
        state, engine = self._database.state, self._database.engine
        base = state.tables_by_id.get(batch.base)
        if base is None:
            raise RangeChanged(batch.base.hex())
        makers = {maker.view.id: maker for maker in self._makers(base)}
        by_tablet: dict[int, list[Task]] = {}
        for task in batch.tasks:
            by_tablet.setdefault(task.tablet, []).append(task)
        ranges, tasks = [], []
        for tablet, own in by_tablet.items():
            store = engine.stores.get(tablet)
            if store is None or any(task.view and task.view not in makers for task in own):
                raise RangeChanged(base.full_name)
            wanted = makers.values() if batch.stages else [makers[task.view] for task in own]
            ranges.append(Range(store, tuple(wanted)))
            tasks.append(tuple(own))
        return ranges, tasks

    async def _inline(
        self,
        ranges: Sequence[Range],
        done: Callable[[int, Amount], None],
        progress: Callable[[Amount], None],
    ) -> None:
        database, total = self._database, Amount()
        for number, one in enumerate(ranges):

            def count(rows: int) -> None:
                nonlocal total
                total = total.plus(Amount(rows))
                progress(total)

            rows = await build_range(
                self._runtime,
                database.engine,
                database.access,
                one.store,
                one.makers,
                count,
                self._max_rate(one.makers),
            )
            size = Amount(0, one.store.statistics()["file_bytes"])
            total = total.plus(size)
            done(number, Amount(rows, size.bytes))
