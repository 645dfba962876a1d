"""The driver with a session that is played: what Spark does at the wrong moment, or does not do at all."""

import asyncio
import signal
import sys
import threading
from typing import Any

import pytest

from belvedere.pipeline import spark_messages as messages
from belvedere.pipeline.spark_driver import Jobs
from belvedere.runtime.real import RealRuntime, run

#: A driver whose session does not end.
STUCK = """
import time
from types import SimpleNamespace
from belvedere.pipeline import spark_driver
spark_driver.STOP = 0.3
spark_driver.make_session = lambda settings, name: SimpleNamespace(version="4", stop=lambda: time.sleep(600))
spark_driver.main()
"""


class LateSession:
    """One that begins a job only when that was interrupted already, in vain."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._interrupted = threading.Semaphore(0)
        self.sparkContext = self
        self.tags: list[str] = []

    def setJobGroup(self, group: str, description: str, interruptOnCancel: bool) -> None:
        self.tags.append(group)

    def addTag(self, tag: str) -> None:
        self.tags.append(tag)

    def cancelJobGroup(self, group: str) -> None:
        assert self.tags == [group]
        self._interrupted.release()

    interruptTag = cancelJobGroup

    def range(self, *numbers: int) -> "LateSession":
        self.asked.set()
        assert self._interrupted.acquire(timeout=20)
        return self

    def mapInArrow(self, work: Any, schema: str) -> "LateSession":
        return self

    def collect(self) -> None:
        if self._interrupted.acquire(timeout=20):
            raise RuntimeError("interrupted")


class Told:
    def __init__(self) -> None:
        self.ended = threading.Event()
        self.last: messages.FromDriver | None = None

    def say(self, line: bytes) -> None:
        self.last = messages.from_driver(line)
        self.ended.set()


@pytest.mark.parametrize("settings", [{"spark.master": "local"}, {"spark.remote": "sc://far"}])
def test_a_job_that_begins_just_as_it_is_cancelled_is_interrupted(settings: dict[str, str]) -> None:
    session, told = LateSession(), Told()
    jobs = Jobs(session, told, settings)  # type: ignore[arg-type]
    jobs.begin(messages.RunJob("job", "nowhere", 1))
    assert session.asked.wait(20)
    jobs.cancel("job")
    assert told.ended.wait(30)
    assert isinstance(told.last, messages.JobEnded)
    assert "interrupted" in str(told.last.failure)


def test_a_session_that_does_not_end_is_killed() -> None:
    async def main(runtime: RealRuntime) -> None:
        process = await runtime.start_process([sys.executable, "-c", STUCK], {})
        await process.write_line(messages.encode(messages.Start({}, "stuck")))
        assert messages.from_driver(await process.read_line()) == messages.Ready("4")
        process.close_input()
        async with asyncio.timeout(20):
            assert await process.wait() == -signal.SIGKILL

    run(main)
