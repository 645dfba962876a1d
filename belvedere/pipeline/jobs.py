"""A job: tasks that can be done in any order, anywhere that reaches the exchange."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from belvedere.pipeline.tasks import Task, TaskResult


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
