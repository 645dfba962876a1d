"""The real world: asyncio on uvloop, the operating system's clock, disks and sockets."""

import asyncio
import builtins
import os
import random
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import uvloop

from belvedere.runtime.log_lines import LineLog
from belvedere.runtime.machine_clock import machine_seconds
from belvedere.runtime.real_disk import RealDisk
from belvedere.runtime.real_network import RealNetwork
from belvedere.runtime.real_process import Hearer, RealProcess, start
from belvedere.runtime.tasks import BackgroundTask, spawn_task
from belvedere.runtime.worker_threads import WorkerThreads

T = TypeVar("T")
Log = Callable[..., None]

#: A flush and a compaction may run for seconds; what a reader waits for must not stand behind them.
_FEWEST_COMPUTE_THREADS = 3


class RealClock:
    def __init__(self) -> None:
        # Far from any wall clock and other for each process: code that mixes clocks fails at once.
        self._origin = 1e6 + int.from_bytes(os.urandom(3), "big") / 4.0 - machine_seconds()

    def wall_micros(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return self._origin + machine_seconds()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RealRandom:
    def __init__(self) -> None:
        self._generator = random.Random(os.urandom(32))

    def random(self) -> float:
        return self._generator.random()

    def randint(self, low: int, high: int) -> int:
        return self._generator.randint(low, high)

    def bytes(self, count: int) -> builtins.bytes:
        return os.urandom(count)

    def uuid_bytes(self) -> builtins.bytes:
        return version_4(os.urandom(16))


def version_4(raw: bytes) -> bytes:
    """Set the version and variant bits of a random UUID."""
    number = bytearray(raw)
    number[6] = (number[6] & 0x0F) | 0x40
    number[8] = (number[8] & 0x3F) | 0x80
    return bytes(number)


class RealRuntime:
    """One per node; made inside a running event loop, closed at its end."""

    def __init__(
        self, *, log_level: str = "info", log: Log | None = None, compute_threads: int | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._log: Log = log if log is not None else LineLog(log_level)
        threads = compute_threads or max(_FEWEST_COMPUTE_THREADS, os.cpu_count() or 1)
        self._compute = WorkerThreads(self._loop, "compute", threads)
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._processes: list[RealProcess] = []
        self._clock = RealClock()
        self._random = RealRandom()
        self._disk = RealDisk(self._loop)
        self._network = RealNetwork(self._loop)

    @property
    def clock(self) -> RealClock:
        return self._clock

    @property
    def random(self) -> RealRandom:
        return self._random

    @property
    def disk(self) -> RealDisk:
        return self._disk

    @property
    def network(self) -> RealNetwork:
        return self._network

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> BackgroundTask:
        handle, task = spawn_task(self._loop, name, work, self._report)
        # The loop holds tasks weakly: one that nobody awaits could vanish in the middle.
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return handle

    def _forget(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)

    def _report(self, name: str, failure: BaseException) -> None:
        self.log("error", "task.failed", task=name, error=failure)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], None]:
        return self._loop.call_later(seconds, callback).cancel

    async def compute(self, work: Callable[[], T]) -> T:
        return await self._compute.submit(work)

    async def start_process(
        self, arguments: Sequence[str], environment: Mapping[str, str], hear: Hearer | None = None
    ) -> RealProcess:
        process = await start(arguments, environment, hear)
        self._processes = [other for other in self._processes if not other.is_over]
        self._processes.append(process)
        return process

    def log(self, level: str, event: str, **fields: object) -> None:
        self._log(level, event, **fields)

    def buggify(self, name: str) -> None:
        return None

    def sometimes(self, name: str, condition: bool = True) -> None:
        return None

    async def close(self) -> None:
        """Cancel what still runs in the background, kill child processes, then end the threads."""
        leftovers = list(self._tasks)
        for task in leftovers:
            task.cancel()
        if leftovers:
            await asyncio.wait(leftovers)
        for process in self._processes:
            await process.destroy()
        self._disk.close()
        self._compute.close()


async def with_runtime(main: Callable[[RealRuntime], Coroutine[Any, Any, T]], **options: Any) -> T:
    """Run `main` with a runtime in the present event loop; options are RealRuntime's."""
    runtime = RealRuntime(**options)
    try:
        return await main(runtime)
    finally:
        await runtime.close()


def run(main: Callable[[RealRuntime], Coroutine[Any, Any, T]], **options: Any) -> T:
    """The entry point of a process: uvloop, a runtime, `main`, and an orderly end."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(with_runtime(main, **options))
