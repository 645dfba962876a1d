"""Background tasks with names: one implementation for every runtime whose loop speaks asyncio."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any

Report = Callable[[str, BaseException], None]


class BackgroundTask:
    """A spawned task. Someone may wait for it; a failure that nobody waits for goes to `report`."""

    __slots__ = ("_task", "_name", "_waiters", "_report")

    def __init__(self, task: "asyncio.Task[None]", name: str, report: Report) -> None:
        self._task = task
        self._name = name
        self._waiters = 0
        self._report = report

    @property
    def name(self) -> str:
        return self._name

    def cancel(self) -> None:
        self._task.cancel()

    def done(self) -> bool:
        return self._task.done()

    async def wait(self) -> None:
        self._waiters += 1
        try:
            # Not `await task`: cancelling who waits must not cancel the work.
            await asyncio.wait([self._task])
        except asyncio.CancelledError:
            self._waiters -= 1
            raise
        if self._task.cancelled():
            return
        failure = self._task.exception()
        if failure is not None:
            raise failure

    def finished(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled():
            return
        failure = task.exception()
        if failure is not None and self._waiters == 0:
            self._report(self._name, failure)


def spawn_task(
    loop: asyncio.AbstractEventLoop,
    name: str,
    work: Coroutine[Any, Any, None],
    report: Report,
    context: contextvars.Context | None = None,
) -> tuple[BackgroundTask, "asyncio.Task[None]"]:
    """Start `work` on the loop. The caller keeps the asyncio task alive until it is done."""
    task = loop.create_task(work, name=name, context=context)
    handle = BackgroundTask(task, name, report)
    task.add_done_callback(handle.finished, context=context)
    return handle, task
