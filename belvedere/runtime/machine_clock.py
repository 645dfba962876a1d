"""Time that belongs to no node: the machine's clock, and the event loop's for stores in memory."""

import asyncio
import time


def machine_seconds() -> float:
    """Seconds since the machine was booted, the same for every process on it.

    It never jumps, whatever is done to the time of day, and goes on while the machine sleeps: a lease must
    run out for a holder who slept just as it does for everybody else (CLOCK_MONOTONIC would stand still).
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Other after each boot: then machine_seconds() has begun anew, and no process from before is left."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def loop_seconds() -> float:
    """The running event loop's time: in simulation the world's own, from which each node's clock drifts."""
    return asyncio.get_running_loop().time()
