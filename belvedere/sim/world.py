"""A simulated world under one seed: machines with disks and clocks, the network between them, one loop."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from belvedere.runtime.log_lines import format_fields
from belvedere.sim.clock import MachineClock
from belvedere.sim.disk import MachineDisk
from belvedere.sim.incarnation import Incarnation
from belvedere.sim.loop import SimLoop, SimulationError, step_label
from belvedere.sim.network import Fabric
from belvedere.sim.randomness import between, stream
from belvedere.sim.runtime import SimRuntime, hold_until
from belvedere.sim.scheduling import POLICIES, make_schedule
from belvedere.sim.trace import Trace

T = TypeVar("T")


class UnhandledFailure(SimulationError):
    """Callbacks or background tasks failed and nobody looked."""


class Hold:
    """An armed point: code that reaches it stops until released."""

    def __init__(self, world: "World", name: str) -> None:
        self._world = world
        self.name = name
        self._arrived: asyncio.Future[None] = world.loop.create_future()
        self._released: asyncio.Future[None] = world.loop.create_future()

    async def reached(self) -> None:
        await asyncio.shield(self._arrived)

    def arrive(self) -> Awaitable[None]:
        if not self._arrived.done():
            self._arrived.set_result(None)
        return hold_until(self._released)

    def release(self) -> None:
        self._world.disarm(self)
        if not self._released.done():
            self._released.set_result(None)


class World:
    """`policy` fixes the scheduling policy that the seed would draw; `buggify=False` switches named delays
    off. After the run `trace.digest`, `marks`, `failures` and `log_lines` say what happened."""

    def __init__(
        self,
        seed: int,
        *,
        policy: str | None = None,
        buggify: bool = True,
        keep_trace: bool = False,
        keep_log_lines: int = 1000,
    ) -> None:
        self.seed = seed
        scheduling = stream(seed, "scheduling")
        drawn = scheduling.choice(POLICIES)
        self.policy = policy or drawn
        self.trace = Trace(keep_all=keep_trace)
        schedule = make_schedule(self.policy, scheduling, step_label)
        # Sockets, subprocesses and signals stay abstract on purpose: they do not exist in here.
        self.loop = SimLoop(schedule, self.trace)  # type: ignore[abstract]
        self.network = Fabric(self.loop, seed, stream(seed, "network"))
        self.marks: dict[str, int] = {}
        self.log_lines: list[str] = []
        #: Those of level error.
        self.error_lines: list[str] = []
        self._keep_log_lines = keep_log_lines
        self._disks: dict[str, MachineDisk] = {}
        self._clocks: dict[str, MachineClock] = {}
        self._lives: dict[str, int] = {}
        self._running: dict[str, Incarnation] = {}
        # For scenarios: when and where to strike.
        self.fault_random = stream(seed, "fault plan")
        self._faults = stream(seed, "faults")
        self._buggify = buggify
        self._buggify_random = stream(seed, "buggify")
        self._buggify_chances: dict[str, float] = {}
        self._holds: dict[str, Hold] = {}

    # Running.

    def run(
        self,
        main: Callable[["World"], Coroutine[Any, Any, T]],
        *,
        limit_seconds: float | None = 3600.0,
        limit_steps: int | None = None,
    ) -> T:
        """Run `main` to its end. It is code outside all machines: it never crashes."""
        return self.loop.run(main(self), limit_seconds=limit_seconds, limit_steps=limit_steps)

    @property
    def failures(self) -> list[str]:
        """Failures of tasks and callbacks that nobody waited for. An innocent run has none."""
        return self.loop.failures

    def check_no_failures(self) -> None:
        if self.failures:
            raise UnhandledFailure("\n".join([f"seed {self.seed}:", *self.failures]))

    def note_failure(self, name: str, failure: BaseException) -> None:
        self.loop.failures.append(f"{name}: {type(failure).__name__}: {failure}")

    # Machines.

    def disk(self, machine: str) -> MachineDisk:
        found = self._disks.get(machine)
        if found is None:
            found = self._disks[machine] = MachineDisk(
                machine, stream(self.seed, "disk", machine), self.record
            )
        return found

    def machine_clock(self, machine: str) -> MachineClock:
        found = self._clocks.get(machine)
        if found is None:
            found = self._clocks[machine] = MachineClock(stream(self.seed, "machine clock", machine))
        return found

    def boot(self, machine: str) -> SimRuntime:
        """Start a process on this machine: a new incarnation with its own runtime."""
        if machine in self._running:
            raise SimulationError(f"{machine} is running already")
        number = self._lives[machine] = self._lives.get(machine, 0) + 1
        incarnation = self._running[machine] = Incarnation(self.loop, machine, number)
        self.network.booted(incarnation)
        self.record("boot", incarnation.label)
        return SimRuntime(self, incarnation)

    def is_running(self, machine: str) -> bool:
        return machine in self._running

    def crash(self, machine: str, lose_unsynced: bool = True) -> None:
        """The power fails (`lose_unsynced`), or only the process is killed and the kernel keeps what was
        written. Nothing of the incarnation ever runs again."""
        incarnation = self._running.pop(machine, None)
        if incarnation is None:
            raise SimulationError(f"{machine} is not running")
        self.record("crash" if lose_unsynced else "kill", incarnation.label)
        incarnation.die()
        self.disk(machine).crash(lose_unsynced=lose_unsynced)
        self.network.crash(incarnation, silent=lose_unsynced, generator=self._faults)

    def pause(self, machine: str, seconds: float) -> None:
        """Stop a process for a while, as a long garbage collection or a busy host would."""
        incarnation = self._running[machine]
        incarnation.resume_at_ns = max(incarnation.resume_at_ns, self.loop.now_ns + round(seconds * 1e9))
        self.record("pause", incarnation.label)

    def jump_wall_clock(self, machine: str, seconds: float) -> None:
        self.machine_clock(machine).wall_offset_micros += round(seconds * 1e6)

    async def sleep(self, seconds: float) -> None:
        """True time, for code outside the machines."""
        await asyncio.sleep(seconds)

    # Points in the product's code.

    def arm(self, name: str) -> Hold:
        """The next code that passes `buggify(name)` stops there until the hold is released."""
        if name in self._holds:
            raise SimulationError(f"{name} is armed already")
        hold = self._holds[name] = Hold(self, name)
        return hold

    def disarm(self, hold: Hold) -> None:
        if self._holds.get(hold.name) is hold:
            del self._holds[hold.name]

    def pause_at(self, name: str) -> Awaitable[None] | None:
        hold = self._holds.get(name)
        if hold is not None:
            self.record("hold", name)
            return hold.arrive()
        if not self._buggify:
            return None
        generator = self._buggify_random
        chance = self._buggify_chances.get(name)
        if chance is None:
            # Each seed delays at some of the points only: all at once would slow everything down alike.
            chance = generator.choice((0.0, 0.0, 0.05, 0.25))
            self._buggify_chances[name] = chance
        if generator.random() >= chance:
            return None
        self.record("buggify", name)
        return asyncio.sleep(between(generator.random(), 10e-6, 1.0))

    def mark(self, name: str) -> None:
        self.marks[name] = self.marks.get(name, 0) + 1

    # Records.

    def record(self, kind: str, name: str) -> None:
        self.trace.record(self.loop.now_ns, kind, name)

    def log(self, who: str, level: str, event: str, fields: dict[str, object]) -> None:
        # Fields may hold anything, so only the event's name belongs to the hash.
        self.record(f"log.{level}", f"{who} {event}")
        line = f"{self.loop.time():.6f} {who} {level} {event}{format_fields(fields)}"
        self.log_lines.append(line)
        if level == "error":
            self.error_lines.append(line)
        if len(self.log_lines) > 2 * self._keep_log_lines:
            del self.log_lines[: self._keep_log_lines]
