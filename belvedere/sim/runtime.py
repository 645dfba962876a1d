"""The runtime that simulated product code gets: one for each incarnation."""

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from belvedere.runtime.errors import ProcessGone
from belvedere.runtime.tasks import BackgroundTask, spawn_task
from belvedere.sim.clock import SimClock
from belvedere.sim.disk import SimDisk
from belvedere.sim.incarnation import Incarnation, MachineCrashed
from belvedere.sim.loop import OWNER
from belvedere.sim.network import SimNetwork
from belvedere.sim.randomness import SimRandom, between, stream

if TYPE_CHECKING:
    from belvedere.sim.world import World

T = TypeVar("T")


class NeverStarted(BackgroundTask):
    """What cleaning up after a crash or the run gets: when tasks are closed or collected, their `finally`
    blocks may want to start others."""

    def __init__(self) -> None:
        pass

    def cancel(self) -> None:
        pass

    def done(self) -> bool:
        return True

    async def wait(self) -> None:
        pass


class SimRuntime:
    """The runtime's `Runtime`, and what scenarios do with one incarnation: `perform` on it."""

    def __init__(self, world: "World", incarnation: Incarnation) -> None:
        self._world = world
        self._incarnation = incarnation
        self._loop = world.loop
        machine, number = incarnation.machine, incarnation.number
        self._clock = SimClock(
            world.loop, world.machine_clock(machine), stream(world.seed, "clock", machine, number)
        )
        self._random = SimRandom(stream(world.seed, "product", machine, number))
        self._disk = SimDisk(world.disk(machine), incarnation)
        self._network = SimNetwork(world.network, incarnation)
        self._compute_random = stream(world.seed, "compute", machine, number)
        self._soon: list[Callable[[], None]] = []

    @property
    def machine(self) -> str:
        return self._incarnation.machine

    @property
    def incarnation(self) -> Incarnation:
        return self._incarnation

    @property
    def clock(self) -> SimClock:
        return self._clock

    @property
    def random(self) -> SimRandom:
        return self._random

    @property
    def disk(self) -> SimDisk:
        return self._disk

    @property
    def network(self) -> SimNetwork:
        return self._network

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> BackgroundTask:
        if not self._incarnation.alive or self._loop.is_closed():
            work.close()
            return NeverStarted()
        label = f"{self._incarnation.label}:{name}"
        # Product code's own context variables go along, as in the real runtime; the world's do not.
        own = OWNER.get() is self._incarnation
        context = contextvars.copy_context() if own else self._incarnation.context.copy()
        handle, _ = spawn_task(self._loop, label, work, self._report, context)
        return handle

    async def perform(self, work: Coroutine[Any, Any, T]) -> T:
        """For code outside the machine: run `work` as the incarnation's own and wait for what it returns.
        Raises MachineCrashed when the machine crashes first."""
        try:
            outcome = self._incarnation.promise()

            async def run() -> None:
                try:
                    result = await work
                except Exception as failure:
                    if not outcome.done():
                        outcome.set_exception(failure)
                else:
                    if not outcome.done():
                        outcome.set_result(result)

            self.spawn("perform", run())
            returned: T = await outcome
        except MachineCrashed:
            if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
                work.close()  # It never began, and nobody else will say that it never will.
            raise
        return returned

    def _report(self, name: str, failure: BaseException) -> None:
        self._world.note_failure(name, failure)
        self.log("error", "task.failed", task=name, error=failure)

    def call_soon(self, callback: Callable[[], None]) -> None:
        # A queue of its own: the scheduler may run steps in any order, but these have one.
        self._soon.append(callback)
        self._loop.call_soon(self._run_next, context=self._incarnation.context)

    def _run_next(self) -> None:
        self._soon.pop(0)()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], None]:
        return self._incarnation.call_later(self._clock.world_seconds(seconds), callback)

    async def compute(self, work: Callable[[], T]) -> T:
        """Inline, since threads have no order to replay; before or after its virtual cost, since a thread
        may read what it was given at any moment of it."""
        cost = between(self._compute_random.random(), 20e-6, 5e-3)
        before = self._compute_random.random() < 0.5
        idle = (cost, lambda: None)
        if before:
            results: list[T] = []
            failures: list[Exception] = []

            def work_now() -> None:
                try:
                    results.append(work())
                except Exception as failure:
                    failures.append(failure)

            def hand_over() -> T:
                if failures:
                    raise failures[0]
                return results[0]

            early: T = await self._incarnation.operation((0.0, work_now), (cost, hand_over))
            return early
        late: T = await self._incarnation.operation(idle, (0.0, work))
        return late

    async def start_process(self, arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
        raise ProcessGone(f"there are no processes in simulation: {arguments[0]} cannot be started")

    def log(self, level: str, event: str, **fields: object) -> None:
        self._world.log(self._incarnation.label, level, event, fields)

    def buggify(self, name: str) -> Awaitable[None] | None:
        return self._world.pause_at(name)

    def sometimes(self, name: str, condition: bool = True) -> None:
        if condition:
            self._world.mark(name)


async def hold_until(released: "asyncio.Future[None]") -> None:
    """What code waits for at an armed point."""
    await asyncio.shield(released)
