"""One life of one machine's process: whose code a step is, and what becomes of its open operations."""

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any, TypeVar

from belvedere.sim.loop import OWNER, SimFuture, SimLoop, SimulationError

T = TypeVar("T")
Stage = tuple[float, Callable[[], Any]]
Finished = Callable[[Exception | None], None]


class MachineCrashed(SimulationError):
    """Code outside a machine waited for something on it, and the machine crashed."""


class Incarnation:
    """From boot to crash. Everything its code schedules carries `context`, and dies with it."""

    def __init__(self, loop: SimLoop, machine: str, number: int) -> None:
        self.machine = machine
        self.number = number
        self.label = f"{machine}#{number}"
        self.alive = True
        self.resume_at_ns = 0
        self.loop = loop
        self.context = contextvars.Context()
        self.context.run(OWNER.set, self)
        self._open: dict[int, asyncio.Future[Any]] = {}

    def check_alive(self) -> None:
        if not self.alive:
            raise MachineCrashed(f"{self.label} has crashed")

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Callable[[], None]:
        return self.loop.call_later(seconds, callback, context=self.context).cancel

    def operation(self, *stages: Stage) -> "asyncio.Future[Any]":
        """Carry out each stage after its delay; the last one's result is the future's. Cancelling the
        future does not stop the operation, just as a system call goes on when nobody waits for it."""
        future = self.open_future()
        self.start(stages, future)
        return future

    def open_future(self) -> SimFuture[Any]:
        """The result of an operation to be started later."""
        self.check_alive()
        future = self.loop.create_future()
        self._open[future.number] = future
        return future

    def start(
        self, stages: tuple[Stage, ...], future: SimFuture[Any], finished: Finished | None = None
    ) -> None:
        """`finished` is called when the operation really is over, whoever waits."""
        self._start_stage(stages, 0, future, finished)

    def _start_stage(
        self, stages: tuple[Stage, ...], index: int, future: SimFuture[Any], finished: Finished | None
    ) -> None:
        delay, action = stages[index]

        def run_stage() -> None:
            result: object = None
            failure: Exception | None = None
            try:
                result = action()
            except Exception as caught:
                failure = caught
            if failure is None and index + 1 < len(stages):
                self._start_stage(stages, index + 1, future, finished)
                return
            if finished is not None:
                finished(failure)
            self.settle(future, result, failure)

        self.loop.call_later(delay, run_stage, context=self.context)

    def settle(self, future: SimFuture[Any], result: object, failure: Exception | None) -> None:
        self._open.pop(future.number, None)
        if future.done():
            return
        if failure is not None:
            future.set_exception(failure)
        else:
            future.set_result(result)

    def promise(self) -> "asyncio.Future[Any]":
        """A future that fails with MachineCrashed when this incarnation dies first."""
        self.check_alive()
        future = self.loop.create_future()
        self._open[future.number] = future
        future.add_done_callback(lambda _: self._open.pop(future.number, None))
        return future

    def die(self) -> None:
        """Its own waiters never hear of it (their steps are dropped); waiters outside do."""
        self.alive = False
        waiting = list(self._open.values())
        self._open.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(MachineCrashed(f"{self.label} has crashed"))
                # Fetched, so that nobody complains when nobody outside was waiting.
                future.exception()
