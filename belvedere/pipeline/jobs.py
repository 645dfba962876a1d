"""A job: tasks that can be done in any order, anywhere that reaches the exchange."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from belvedere.pipeline.tasks import Task, TaskResult
from belvedere.runtime.api import Runtime, TaskHandle


class JobFailed(Exception):
    """A job could not be done; the message is for people: what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Job:
    #: The name of its directory in the exchange.
    id: str
    #: What the job is for, for people: "building shop.by_city".
    title: str
    tasks: Sequence[Task]


#: The number of a task in its job, and what it gave back. Awaited before the next one is told.
OnResult = Callable[[int, TaskResult], Awaitable[None]]
#: Of the whole job so far: rows and bytes read.
OnProgress = Callable[[int, int], None]


class JobRunner(Protocol):
    async def run(self, job: Job, on_result: OnResult, on_progress: OnProgress) -> None:
        """Do every task; each result is told once, as soon as it is known. Raises JobFailed. When cancelled,
        or when `on_result` raises, what runs is stopped."""

    async def stop(self) -> None:
        """Nothing runs any more on return."""


class RunningJobs:
    """What a runner does: each job is a task of its own, which ends when who asked for it is cancelled, or
    when the runner stops."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._running: dict[TaskHandle, None] = {}
        self.stopping = False

    def __bool__(self) -> bool:
        return bool(self._running)

    async def carry_out(self, job: Job, work: Callable[[], Awaitable[None]]) -> None:
        """Nothing of it runs any more on return. Raises what `work` raises, JobFailed if it was stopped."""
        finished = False
        failures: list[Exception] = []

        async def run() -> None:
            nonlocal finished
            try:
                await work()
                finished = True
            except Exception as error:
                failures.append(error)

        if not self.stopping:
            handle = self._runtime.spawn(f"job {job.id}", run())
            self._running[handle] = None
            try:
                await handle.wait()
            except asyncio.CancelledError:
                handle.cancel()
                await ended(handle)
                raise
            finally:
                del self._running[handle]
        if failures:
            raise failures[0]
        if not finished:
            raise JobFailed(f"{job.title}: the node is shutting down")

    async def stop(self) -> None:
        self.stopping = True
        running = list(self._running)
        for handle in running:
            handle.cancel()
        for handle in running:
            await ended(handle)


async def ended(handle: TaskHandle) -> None:
    """Wait for its end, whatever happens to who waits. How it ended is of no interest."""
    while not handle.done():
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await handle.wait()
