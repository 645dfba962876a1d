"""An operation interrupted at every point, one run of the world for each.

A machine's code is interrupted between steps of the loop: every `await` that really waits ends one. A first
run counts the steps that the machine takes while the operation lasts, whichever of its tasks they belong to.
Each further run is the same up to one of them, and crashes the machine before it.

What a crash leaves behind is the disk, and what the world outside knows. Where neither changed between two
steps, crashing before one or the other comes to the same, so `Steps.distinct` has one of each such group.
"""

import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from belvedere.sim.loop import Owner
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World


@dataclass(frozen=True, slots=True)
class Steps:
    count: int
    #: Those before which something that survives a crash was another than before the one before.
    distinct: Sequence[int]

    def sample(self, most: int, seed: int) -> list[int]:
        """The first, the last, and others drawn from the distinct ones."""
        if len(self.distinct) <= most:
            return list(self.distinct)
        drawn = random.Random(seed).sample(self.distinct[1:-1], most - 2)
        return sorted([self.distinct[0], *drawn, self.distinct[-1]])


@dataclass(frozen=True, slots=True)
class Strike:
    """Before which step the machine crashes: the power fails, or the process is killed."""

    step: int
    lose_unsynced: bool


class Watch:
    """Counts a machine's steps between `begin` and `end`, and crashes it if it is to. `outside` says what
    the world beyond the machine knows: a metadata store's revision, what was told to clients."""

    def __init__(self, world: World, outside: Callable[[], Hashable], strike: Strike | None = None) -> None:
        self._world = world
        self._outside = outside
        self._strike = strike
        self._count = 0
        self._seen: Hashable = None
        self._distinct: list[int] = []

    def begin(self, runtime: SimRuntime) -> None:
        disk = self._world.disk(runtime.machine)

        def before_step(owner: Owner) -> None:
            if owner is not runtime.incarnation:
                return
            known = (disk.changes, self._outside())
            if known != self._seen:
                self._seen = known
                self._distinct.append(self._count)
            if self._strike is not None and self._strike.step == self._count:
                self._world.crash(runtime.machine, lose_unsynced=self._strike.lose_unsynced)
            self._count += 1

        self._world.loop.before_step = before_step

    def end(self) -> Steps:
        self._world.loop.before_step = None
        return Steps(self._count, tuple(self._distinct))
