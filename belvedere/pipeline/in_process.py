"""Jobs performed by the node itself: for little data, and for simulation. No JVM, no files of its own.

What a task reads is held in memory, and so is what it writes until it is done; every disk operation goes
through the runtime, so that a simulated disk can fail at each of them.
"""

import asyncio
from collections.abc import Iterator

import pyarrow as pa

from belvedere.pipeline.exchange import Exchange
from belvedere.pipeline.jobs import Job, JobFailed, OnProgress, OnResult, RunningJobs, ended
from belvedere.pipeline.tasks import Perform, Task, TaskResult, input_files, perform
from belvedere.runtime.api import Runtime


class TaskStopped(Exception):
    """Raised inside a task whose job is not wanted any more."""


class MemoryFiles:
    """A task's files as bytes. The task runs in a thread, everything else here on the event loop."""

    def __init__(self, directory: str, contents: dict[str, bytes]) -> None:
        self._directory = directory
        self._contents = contents
        self.outputs: dict[str, bytes] = {}
        self.rows = 0
        self.bytes = 0
        #: Seconds that the task should have taken, for its rate to be held.
        self.pace = 0.0
        self.stopped = False

    def open(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self._contents[path])

    def save(self, name: str, data: bytes) -> str:
        path = f"{self._directory}/{name}"
        self.outputs[path] = data
        return path

    def progress(self, rows: int, size: int) -> None:
        self._check()
        self.rows += rows
        self.bytes += size

    def pause(self, seconds: float) -> None:
        # There is no sleeping in here that a simulator could shorten: the whole task is held back at its end.
        self._check()
        self.pace += seconds

    def _check(self) -> None:
        if self.stopped:
            raise TaskStopped


class InProcessRunner:
    """Performs a few tasks at a time off the event loop."""

    def __init__(
        self, runtime: Runtime, exchange: Exchange, *, workers: int = 2, work: Perform = perform
    ) -> None:
        self._runtime = runtime
        self._exchange = exchange
        self._workers = workers
        self._work = work
        self._jobs = RunningJobs(runtime)

    async def run(self, job: Job, on_result: OnResult, on_progress: OnProgress) -> None:
        run = _Run(self._runtime, self._exchange, self._work, job, on_result, on_progress)
        await self._jobs.carry_out(job, lambda: run.perform(self._workers))

    async def stop(self) -> None:
        await self._jobs.stop()


class _Run:
    """One job, once."""

    def __init__(
        self,
        runtime: Runtime,
        exchange: Exchange,
        work: Perform,
        job: Job,
        on_result: OnResult,
        on_progress: OnProgress,
    ) -> None:
        self._runtime = runtime
        self._directory = exchange.job_directory(job.id)
        self._work = work
        self._job = job
        self._on_result = on_result
        self._on_progress = on_progress
        self._telling = asyncio.Lock()
        self._rows = 0
        self._bytes = 0

    async def perform(self, workers: int) -> None:
        tasks = iter(enumerate(self._job.tasks))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(workers, len(self._job.tasks))):
                    group.create_task(self._serve(tasks))
        except BaseExceptionGroup as failures:
            # Who asked for the job hears the first one as it was raised.
            raise failures.exceptions[0] from failures.exceptions[0].__cause__

    async def _serve(self, tasks: Iterator[tuple[int, Task]]) -> None:
        for number, task in tasks:
            try:
                result = await self._attempt(number, task)
            except Exception as error:
                raise JobFailed(f"{self._job.title}: {str(error) or type(error).__name__}") from error
            async with self._telling:
                self._on_progress(self._rows, self._bytes)
                await self._on_result(number, result)

    async def _attempt(self, number: int, task: Task) -> TaskResult:
        disk, clock = self._runtime.disk, self._runtime.clock
        began = clock.monotonic()
        contents = {file.path: await disk.read(file.path) for file in input_files(task)}
        # A name that no attempt of this or an earlier life has had: its files may be parts of tables by now.
        attempt = f"{self._directory}/attempt-{number}-{self._runtime.random.bytes(6).hex()}"
        files = MemoryFiles(attempt, contents)
        result = await self._compute(task, files)
        await disk.make_directory(attempt)
        for path, data in files.outputs.items():
            await disk.write(path, data)
        await disk.sync_directory(attempt)
        if (early := began + files.pace - clock.monotonic()) > 0:
            await clock.sleep(early)
        self._rows += files.rows
        self._bytes += files.bytes
        return result

    async def _compute(self, task: Task, files: MemoryFiles) -> TaskResult:
        """Returns or raises only when the thread is out of it, also when cancelled."""
        results: list[TaskResult] = []

        async def run() -> None:
            results.append(await self._runtime.compute(lambda: self._work(task, files)))

        computing = self._runtime.spawn(f"task of {self._job.id}", run())
        try:
            await computing.wait()
        except asyncio.CancelledError:
            files.stopped = True
            await ended(computing)
            raise
        if not results:
            raise asyncio.CancelledError  # The runtime is being closed.
        return results[0]
