"""The child process that holds a Spark session, from its start to its end."""

import asyncio
import os.path
import sys
from collections.abc import Mapping
from typing import Final, Self

import msgspec

from belvedere.pipeline import spark_messages as messages
from belvedere.runtime.api import Process, Runtime, TaskHandle
from belvedere.runtime.errors import ProcessGone
from belvedere.runtime.java import python_path_with

#: Seconds: a JVM on a busy machine, or a cluster that is far away.
_START: Final = 120
#: Seconds until what was cancelled has ended, and until the whole process has, before it is killed.
_CANCEL: Final = 20
_END: Final = 20
#: Lines of what it wrote last that are told when it died.
_WORDS: Final = 3
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


class SparkProcess:
    """Every failure of it is a ProcessGone whose message says why, as far as can be known."""

    def __init__(self, runtime: Runtime, process: Process) -> None:
        self._runtime = runtime
        self._process = process
        self._ended: dict[str, asyncio.Future[str | None]] = {}
        self._listening: TaskHandle
        self.runs = True

    @classmethod
    async def start(cls, runtime: Runtime, settings: Mapping[str, str]) -> Self:
        command = [sys.executable, "-m", "belvedere.pipeline.spark_driver"]
        child = await runtime.start_process(command, {"PYTHONPATH": python_path_with(_PACKAGE)})
        try:
            async with asyncio.timeout(_START):
                start = messages.Start(dict(settings), "belvedere")
                await child.write_line(messages.encode(start))
                answer = messages.from_driver(await child.read_line())
        except TimeoutError:
            child.kill()
            raise ProcessGone(f"Spark did not start within {_START} s") from None
        except ProcessGone:
            raise ProcessGone(f"Spark could not be started: {await _last_words(child)}") from None
        except msgspec.DecodeError as error:
            child.kill()
            raise ProcessGone(f"Spark could not be started: {_not_understood(error)}") from error
        except BaseException:
            child.kill()
            raise
        if not isinstance(answer, messages.Ready):
            child.close_input()
            raise ProcessGone(answer.message if isinstance(answer, messages.Unavailable) else str(answer))
        runtime.log("info", "spark.started", version=answer.spark_version, process=child.id)
        found = cls(runtime, child)
        found._listening = runtime.spawn("spark.listen", found._listen())
        return found

    async def begin(self, job: str, directory: str, tasks: int) -> "asyncio.Future[str | None]":
        """What is returned ends when nothing of the job runs any more, with why it was not done."""
        if not self.runs:
            raise ProcessGone("Spark ended")
        ended: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._ended[job] = ended
        await self._process.write_line(messages.encode(messages.RunJob(job, directory, tasks)))
        return ended

    async def cancel(self, job: str) -> None:
        """Nothing of the job runs on return, whatever that takes."""
        ended = self._ended.get(job)
        if ended is None or ended.done():
            return
        try:
            await self._process.write_line(messages.encode(messages.CancelJob(job)))
            await asyncio.wait([ended], timeout=_CANCEL)
        except ProcessGone:
            pass
        if not ended.done():
            self._runtime.log("warning", "spark.killed", cause=f"{job} did not stop within {_CANCEL} s")
            self._process.kill()
            await asyncio.wait([ended])

    async def end(self) -> None:
        self.runs = False
        self._process.close_input()
        try:
            async with asyncio.timeout(_END):
                await self._process.wait()
        except TimeoutError:
            self._runtime.log("warning", "spark.killed", cause=f"it did not end within {_END} s")
            self._process.kill()
        await self._listening.wait()

    async def _listen(self) -> None:
        try:
            while True:
                match messages.from_driver(await self._process.read_line()):
                    case messages.JobEnded(job, failure):
                        self._end_of(job, failure)
        except ProcessGone:
            if self.runs:
                self._runtime.log("warning", "spark.ended", words=self._process.last_words[-_WORDS:])
            why = await _last_words(self._process)
        except msgspec.DecodeError as error:
            # It may have been the end of a job: nobody can tell any more which of them run.
            why = _not_understood(error)
            self._runtime.log("warning", "spark.killed", cause=why)
            self._process.kill()
            await self._process.wait()
        finally:
            self.runs = False
        for job in list(self._ended):
            self._end_of(job, f"Spark ended in the middle of it: {why}")

    def _end_of(self, job: str, failure: str | None) -> None:
        ended = self._ended.pop(job, None)
        if ended is not None and not ended.done():
            ended.set_result(failure)


def _not_understood(error: msgspec.DecodeError) -> str:
    return f"its driver said what is not understood: {error}"


async def _last_words(child: Process) -> str:
    """Of a process that is gone: why, as far as it said."""
    child.kill()
    status = await child.wait()
    words = " / ".join(line.strip() for line in child.last_words[-_WORDS:] if line.strip())
    how = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
    return f"{how}{': ' + words if words else ''}"
