"""Clocks that disagree: each machine's runs a little fast or slow and shows another time of day."""

import asyncio
import random

from belvedere.sim.loop import SimLoop
from belvedere.sim.randomness import between

# Midnight of 2026-01-01, UTC. Any fixed moment would do.
EPOCH_MICROS = 1_767_225_600_000_000


class MachineClock:
    """The hardware: survives a reboot."""

    def __init__(self, generator: random.Random) -> None:
        # Crystals are good to some 10 ppm; a virtual machine's clock may be off by much more.
        worst = between(generator.random(), 1e-6, 1e-3)
        self.rate = 1.0 + generator.uniform(-worst, worst)
        spread = between(generator.random(), 100.0, 3e6)
        self.wall_offset_micros = round(generator.uniform(-spread, spread))


class SimClock:
    """One incarnation's view. `monotonic` starts anywhere, as after a boot."""

    def __init__(self, loop: SimLoop, hardware: MachineClock, generator: random.Random) -> None:
        self._loop = loop
        self._hardware = hardware
        self._origin = 1e6 + generator.randrange(4_000_000) / 4.0

    def wall_micros(self) -> int:
        elapsed = round(self._loop.now_ns * self._hardware.rate) // 1000
        return EPOCH_MICROS + self._hardware.wall_offset_micros + elapsed

    def monotonic(self) -> float:
        return self._origin + self._loop.time() * self._hardware.rate

    def world_seconds(self, seconds: float) -> float:
        """How long this machine's `seconds` really take."""
        return seconds / self._hardware.rate

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(self.world_seconds(seconds))
