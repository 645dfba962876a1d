"""Work that is carried through although who asked for it went away.

A disk operation cannot be called back: when its waiter is cancelled it still happens, some time. A next
change must not begin in the middle of that, so whatever changes files runs as a task of its own, and only
the waiting can be cancelled.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from belvedere.runtime.api import Runtime

T = TypeVar("T")


async def to_the_end(runtime: Runtime, name: str, work: Callable[[], Awaitable[T]]) -> T:
    """What `work` returns or raises. If the waiting is cancelled, a failure of the work is logged."""
    results: list[T] = []

    async def run() -> None:
        results.append(await work())

    await runtime.spawn(name, run()).wait()
    if not results:
        raise asyncio.CancelledError  # The runtime is being closed.
    return results[0]
