"""An asyncio event loop with virtual time and seeded scheduling.

Time stands still between steps and moves by a fixed cost with each, so that code that spins sees time pass;
when nothing can run it jumps to the next timer. Each step belongs to the incarnation (one life of one
machine's process) in whose context it was scheduled: steps of the dead never run again.

Traps of asyncio handled here: tasks and futures hash by address, so sets of them (TaskGroup, `asyncio.wait`)
iterate in another order in every process: ours hash by creation number. A task collected while suspended runs
its `finally` blocks, which a crashed machine would not: all tasks stay alive until the run is over.
"""

import asyncio
import contextvars
import gc
import heapq
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, Protocol, TypeVar, TypeVarTuple

from belvedere.sim.scheduling import Schedule
from belvedere.sim.trace import Trace

T = TypeVar("T")
A = TypeVarTuple("A")

STEP_COST_NS = 2_000
_SECOND = 1_000_000_000
_PURGE_EVERY = 4_096


class Owner(Protocol):
    """Whose code a step is. `resume_at_ns` holds the steps of a paused process back."""

    label: str
    alive: bool
    resume_at_ns: int


OWNER: contextvars.ContextVar[Owner | None] = contextvars.ContextVar("belvedere_sim_owner", default=None)


class SimulationError(Exception):
    """The run itself cannot go on."""


class Deadlock(SimulationError):
    """The main coroutine waits and nothing is left that could ever wake it."""


class OutOfTime(SimulationError):
    """The run took more virtual time or more steps than allowed."""


class SimFuture(asyncio.Future[T]):
    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self.number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class SimTask(asyncio.Task[T]):
    def __init__(
        self,
        number: int,
        work: Coroutine[Any, Any, T] | Generator[Any, None, T],
        loop: asyncio.AbstractEventLoop,
        name: str,
        context: contextvars.Context | None,
    ) -> None:
        # Before anything else: asyncio registers the task in a set while it is being made.
        self.number = number
        self.label = name
        super().__init__(work, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.number


class Step(asyncio.TimerHandle):
    """A callback to run, at once or at a time; knows its owner."""

    __slots__ = ("owner", "callback")

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        if context is None:
            context = contextvars.copy_context()
        self.owner = context.get(OWNER)
        self.callback = callback
        super().__init__(when, callback, arguments, loop, context)

    @property
    def label(self) -> str:
        """The task's name, or the callback's: the same in every process."""
        subject = getattr(self.callback, "__self__", None)
        if isinstance(subject, SimTask):
            return subject.label
        name: str = getattr(self.callback, "__qualname__", None) or type(self.callback).__qualname__
        return name if self.owner is None else f"{self.owner.label}:{name}"


def step_label(step: Step) -> str:
    return step.label


class SimLoop(asyncio.AbstractEventLoop):
    def __init__(self, schedule: Schedule[Step], trace: Trace) -> None:
        self.now_ns = 0
        self.steps = 0
        self.trace = trace
        self.failures: list[str] = []
        #: Called before each step of an incarnation; it may crash whose step it is.
        self.before_step: Callable[[Owner], None] | None = None
        self._schedule = schedule
        self._timers: list[tuple[int, int, Step]] = []
        self._cancelled_timers = 0
        self._numbers = 0
        self._tasks: dict[int, SimTask[Any]] = {}
        self._kept: list[object] = []
        self._generators: list[AsyncGenerator[Any, Any]] = []
        self._running = False
        self._finished = False

    # Scheduling, as asyncio asks for it.

    def time(self) -> float:
        return self.now_ns / _SECOND

    def call_soon(
        self, callback: Callable[[*A], object], *args: *A, context: contextvars.Context | None = None
    ) -> Step:
        step = Step(0.0, callback, args, self, context)
        if not self._finished:
            self._schedule.push(step)
        return step

    def call_soon_threadsafe(
        self, callback: Callable[[*A], object], *args: *A, context: contextvars.Context | None = None
    ) -> Step:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*A], object],
        *args: *A,
        context: contextvars.Context | None = None,
    ) -> Step:
        return self._call_at_ns(self.now_ns + max(0, round(delay * _SECOND)), callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*A], object],
        *args: *A,
        context: contextvars.Context | None = None,
    ) -> Step:
        return self._call_at_ns(round(when * _SECOND), callback, args, context)

    def _call_at_ns(
        self,
        when_ns: int,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> Step:
        step = Step(when_ns / _SECOND, callback, arguments, self, context)
        # asyncio asks timers that sit in its heap to report being cancelled.
        step._scheduled = True  # type: ignore[attr-defined]
        self._push_timer(when_ns, step)
        return step

    def _push_timer(self, when_ns: int, step: Step) -> None:
        if not self._finished:
            heapq.heappush(self._timers, (when_ns, self._next_number(), step))

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._cancelled_timers += 1
        if self._cancelled_timers > 256 and self._cancelled_timers * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def create_future(self) -> SimFuture[Any]:
        return SimFuture(self._next_number(), self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> SimTask[T]:
        number = self._next_number()
        if name is None:
            # asyncio would use a counter that all loops of the process share.
            owner = (context or contextvars.copy_context()).get(OWNER)
            work = getattr(coro, "__qualname__", "task")
            name = f"{owner.label if owner is not None else 'world'}:{work}-{number}"
        task = SimTask(number, coro, self, name, context)
        self._tasks[number] = task
        if len(self._tasks) % _PURGE_EVERY == 0:
            self._forget_finished_tasks()
        return task

    def _forget_finished_tasks(self) -> None:
        self._tasks = {
            number: task
            for number, task in self._tasks.items()
            if not task.done() or getattr(task, "_log_traceback", False)
        }

    def run_in_executor(self, executor: Any, func: Callable[[*A], T], *args: *A) -> "asyncio.Future[T]":
        raise SimulationError("threads cannot be simulated: use runtime.compute")

    # State, as asyncio asks for it.

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        return None

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._finished

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._finished:
            return
        failure = context.get("exception")
        text = f"{context.get('message', 'failure')}: {type(failure).__name__}: {failure}"
        self.trace.record(self.now_ns, "failure", type(failure).__name__)
        self.failures.append(text)

    async def shutdown_asyncgens(self) -> None:
        return None

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        return None

    # Running.

    def run(
        self,
        main: Coroutine[Any, Any, T],
        *,
        limit_seconds: float | None = None,
        limit_steps: int | None = None,
    ) -> T:
        """Run until `main` is done; background work that is still going on then simply ends."""
        if self._running or self._finished:
            raise SimulationError("a simulated loop runs once")
        end_ns = None if limit_seconds is None else round(limit_seconds * _SECOND)
        collecting = gc.isenabled()
        hooks = sys.get_asyncgen_hooks()
        outer = asyncio._get_running_loop()
        self._running = True
        gc.disable()
        sys.set_asyncgen_hooks(firstiter=self._generators.append, finalizer=self._close_generator)
        asyncio._set_running_loop(self)
        try:
            task = self.create_task(main, name="world:main")
            while not task.done():
                self._run_one(end_ns, limit_steps)
            return task.result()
        finally:
            self._finish()
            asyncio._set_running_loop(outer)
            sys.set_asyncgen_hooks(*hooks)
            self._running = False
            if collecting:
                gc.enable()

    def _run_one(self, end_ns: int | None, limit_steps: int | None) -> None:
        self._wake_timers()
        step = self._schedule.pop()
        if step.cancelled():
            return
        owner = step.owner
        if owner is not None:
            if owner.alive and owner.resume_at_ns > self.now_ns:
                self._push_timer(owner.resume_at_ns, step)
                return
            if owner.alive and self.before_step is not None:
                self.before_step(owner)
            if not owner.alive:
                self._kept.append(step)
                return
        self.steps += 1
        self.now_ns += STEP_COST_NS
        self.trace.record(self.now_ns, "step", step.label)
        step._run()
        if end_ns is not None and self.now_ns > end_ns:
            raise OutOfTime(f"not finished after {self.time():.3f} s of virtual time\n{self.describe()}")
        if limit_steps is not None and self.steps > limit_steps:
            raise OutOfTime(f"not finished after {self.steps} steps\n{self.describe()}")

    def _wake_timers(self) -> None:
        timers = self._timers
        if not len(self._schedule):
            while timers and timers[0][2].cancelled():
                heapq.heappop(timers)
            if not timers:
                raise Deadlock(f"nothing left to run at {self.time():.6f} s\n{self.describe()}")
            self.now_ns = max(self.now_ns, timers[0][0])
        while timers and timers[0][0] <= self.now_ns:
            step = heapq.heappop(timers)[2]
            step._scheduled = False  # type: ignore[attr-defined]
            if not step.cancelled():
                self._schedule.push(step)

    def describe(self) -> str:
        """The unfinished tasks and the last events, for a failure's message."""
        waiting = [
            f"  {task.label} waits at {_where(task)}" for task in self._tasks.values() if not task.done()
        ]
        return "\n".join(["unfinished tasks:", *waiting[:50], "last events:", *self.trace.tail(30)])

    def _close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        owner = OWNER.get()
        if self._finished or (owner is not None and not owner.alive):
            self._kept.append(generator)
            return
        self.create_task(generator.aclose(), name="world:close-generator")

    def _finish(self) -> None:
        """End the run: what still waits is closed without being able to do anything any more."""
        for task in self._tasks.values():
            if task.done() and getattr(task, "_log_traceback", False):
                failure = task.exception()
                self.failures.append(f"{task.label}: {type(failure).__name__}: {failure}")
        self._finished = True
        self.trace.freeze()
        for task in list(self._tasks.values()):
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _close_quietly(task.get_coro())


def _where(task: "asyncio.Task[Any]") -> str:
    frames = task.get_stack(limit=None)
    if not frames:
        return "?"
    code = frames[-1].f_code
    return f"{code.co_qualname}:{frames[-1].f_lineno}"


def _close_quietly(work: Any) -> None:
    try:
        work.close()
    except BaseException:
        # A `finally` block that awaits, or trips over a world that is gone: the run is over, nobody listens.
        return
