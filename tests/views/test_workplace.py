"""The worker's hands: what is told to stop ends, whenever it is told, and whoever waits hears of it."""

import asyncio
from types import SimpleNamespace
from typing import Any

from belvedere.runtime.real import RealRuntime, run
from belvedere.views.coordinator import Batch, Lane, Task
from belvedere.views.worker import Outcome
from belvedere.views.workplace import Workplace

BATCH = Batch(b"base", Lane.INLINE, (Task(1, 1, b"view"),))


class SlowDatabase:
    """One whose tables are never ready."""

    def __init__(self) -> None:
        self.access = SimpleNamespace(align=self._align)
        self.state = SimpleNamespace(tables_by_id={})
        self.asked = asyncio.Event()

    async def _align(self) -> None:
        self.asked.set()
        await asyncio.Event().wait()


def workplace(runtime: RealRuntime, database: Any) -> Workplace:
    return Workplace(runtime, database, lambda base: [], None, lambda makers: 0)


def test_work_that_is_halted_is_interrupted() -> None:
    async def main(runtime: RealRuntime) -> None:
        database = SlowDatabase()
        place = workplace(runtime, database)
        calling = asyncio.ensure_future(place.call(1, BATCH))
        await database.asked.wait()
        place.halt(1, BATCH)
        async with asyncio.timeout(5):
            assert (await calling).outcome is Outcome.INTERRUPTED
        assert not place.underway

    run(main)


def test_work_that_is_halted_before_its_first_step_is_interrupted_too() -> None:
    async def main(runtime: RealRuntime) -> None:
        database = SlowDatabase()
        place = workplace(runtime, database)
        calling = asyncio.ensure_future(place.call(1, BATCH))
        # The call takes its first step, and begins the work, whose first step comes after this.
        await asyncio.sleep(0)
        place.halt(1, BATCH)
        async with asyncio.timeout(5):
            assert (await calling).outcome is Outcome.INTERRUPTED
        assert not database.asked.is_set()
        # The lane is free again.
        again = asyncio.ensure_future(place.call(1, BATCH))
        await database.asked.wait()
        place.halt(1, BATCH)
        async with asyncio.timeout(5):
            assert (await again).outcome is Outcome.INTERRUPTED

    run(main)


def test_a_halt_that_overtakes_its_call_counts() -> None:
    async def main(runtime: RealRuntime) -> None:
        database = SlowDatabase()
        place = workplace(runtime, database)
        calling = asyncio.ensure_future(place.call(1, BATCH))
        place.halt(1, BATCH)
        async with asyncio.timeout(5):
            assert (await calling).outcome is Outcome.INTERRUPTED
        assert not database.asked.is_set()

    run(main)
