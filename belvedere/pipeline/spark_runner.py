"""Jobs on Spark, as the node sees them: a child process that holds the session, and files in the exchange.

The child is started for the first job, kept warm while jobs come, and let go after a while without. Results
are looked for in the exchange, so each task counts as soon as it is done.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from belvedere.pipeline.exchange import Exchange
from belvedere.pipeline.jobs import Job, JobFailed, OnProgress, OnResult, RunningJobs, ended
from belvedere.pipeline.spark_process import SparkProcess
from belvedere.pipeline.spark_tasks import PROGRESS, RESULTS, TASKS, result_name, task_path
from belvedere.pipeline.tasks import TaskResult
from belvedere.runtime.api import Runtime
from belvedere.runtime.errors import FileMissing, ProcessGone

#: Seconds between looks into the exchange.
LOOKED_EVERY: Final = 0.1
#: Seconds without a job after which Spark is let go; its memory is worth more than its warmth.
KEPT_WARM: Final = 600.0

_decode_result = msgspec.json.Decoder(TaskResult).decode


class SparkRunner:
    """A JobRunner."""

    def __init__(
        self,
        runtime: Runtime,
        exchange: Exchange,
        settings: Mapping[str, str],
        *,
        kept_warm: float = KEPT_WARM,
    ) -> None:
        self._runtime = runtime
        self._exchange = exchange
        self._settings = dict(settings)
        self._kept_warm = kept_warm
        self._starting = asyncio.Lock()
        self._process: SparkProcess | None = None
        self._jobs = RunningJobs(runtime)
        #: How often somebody began to use the process; who finds it unchanged later knows it was not used.
        self._uses = 0

    async def run(self, job: Job, on_result: OnResult, on_progress: OnProgress) -> None:
        if not job.tasks:
            return
        watch = _Watch(self._runtime, self._exchange, job, on_result, on_progress)
        self._uses += 1
        try:
            await self._jobs.carry_out(job, lambda: self._carry_out(job, watch))
        finally:
            self._consider_letting_go()

    async def stop(self) -> None:
        await self._jobs.stop()
        async with self._starting:
            if self._process is not None:
                await self._process.end()

    # --- one job ---------------------------------------------------------------------------------------

    async def _carry_out(self, job: Job, watch: "_Watch") -> None:
        await self._write_tasks(job)
        process = await self._started(job)
        try:
            end = await process.begin(job.id, watch.directory, len(job.tasks))
            while not end.done():
                await asyncio.wait([end], timeout=LOOKED_EVERY)
                await watch.look()
        except BaseException as error:
            # Nothing of the job may run any more when its files are removed.
            await ended(self._runtime.spawn(f"cancel {job.id}", process.cancel(job.id)))
            if isinstance(error, ProcessGone):
                raise JobFailed(f"{job.title}: {error}") from error
            raise
        failure = end.result()
        if failure is not None:
            raise JobFailed(f"{job.title}: {failure}")
        await watch.look()
        if watch.missing:
            raise JobFailed(f"{job.title}: no result of task {watch.missing[0]} in {watch.directory}")

    async def _write_tasks(self, job: Job) -> None:
        disk, directory = self._runtime.disk, self._exchange.job_directory(job.id)
        for name in (TASKS, RESULTS, PROGRESS):
            await disk.make_directory(f"{directory}/{name}")
        for number, task in enumerate(job.tasks):
            await disk.write(task_path(directory, number), msgspec.json.encode(task))

    # --- the child process -----------------------------------------------------------------------------

    async def _started(self, job: Job) -> SparkProcess:
        async with self._starting:
            if self._process is not None and not self._process.runs:
                self._process = None
            if self._process is None:
                try:
                    self._process = await SparkProcess.start(self._runtime, self._settings)
                except ProcessGone as error:
                    raise JobFailed(f"{job.title}: {error}") from error
            return self._process

    def _consider_letting_go(self) -> None:
        if self._jobs or self._jobs.stopping or self._process is None:
            return
        uses = self._uses

        def look() -> None:
            if uses == self._uses and not self._jobs.stopping:
                self._runtime.spawn("spark.let_go", self._let_go(uses))

        self._runtime.call_later(self._kept_warm, look)

    async def _let_go(self, uses: int) -> None:
        async with self._starting:
            if uses == self._uses and self._process is not None:
                process, self._process = self._process, None
                await process.end()


class _Watch:
    """What became of a job's tasks, by the files that they leave."""

    def __init__(
        self, runtime: Runtime, exchange: Exchange, job: Job, on_result: OnResult, on_progress: OnProgress
    ) -> None:
        self._disk = runtime.disk
        self.directory = exchange.job_directory(job.id)
        self._on_result = on_result
        self._on_progress = on_progress
        self._unfinished = dict.fromkeys(range(len(job.tasks)))
        self._read: dict[int, tuple[int, int]] = {}

    @property
    def missing(self) -> list[int]:
        return list(self._unfinished)

    async def look(self) -> None:
        """Tell what is new."""
        there = set(await self._disk.list(f"{self.directory}/{RESULTS}"))
        finished = [number for number in self._unfinished if result_name(number) in there]
        for number in [*self._unfinished]:
            await self._look_at_progress(number)
        self._on_progress(
            sum(rows for rows, _ in self._read.values()), sum(size for _, size in self._read.values())
        )
        for number in finished:
            result = _decode_result(
                await self._disk.read(f"{self.directory}/{RESULTS}/{result_name(number)}")
            )
            del self._unfinished[number]
            await self._on_result(number, result)

    async def _look_at_progress(self, number: int) -> None:
        try:
            words = (await self._disk.read(f"{self.directory}/{PROGRESS}/{number}")).split()
        except FileMissing:
            return
        if len(words) == 2:
            self._read[number] = int(words[0]), int(words[1])
