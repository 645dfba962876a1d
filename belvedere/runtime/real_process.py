"""Child processes through asyncio, talked to in lines."""

import asyncio
import collections
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from belvedere.runtime.errors import ProcessGone

#: A longer line is taken for the end of what can be understood.
LONGEST_LINE = 16 << 20
#: Lines of standard error that are kept, and bytes of each.
LAST_WORDS = 100
LONGEST_WORD = 2000
#: Seconds that standard error is listened to after the end.
_LISTENING = 0.2


Hearer = Callable[[str], None]


class RealProcess:
    def __init__(self, name: str, process: Process, hear: Hearer | None) -> None:
        self._name = name
        self._hear = hear
        self._process = process
        self._input = cast(asyncio.StreamWriter, process.stdin)
        self._output = cast(asyncio.StreamReader, process.stdout)
        self._last_words: collections.deque[str] = collections.deque(maxlen=LAST_WORDS)
        self._listening = asyncio.get_running_loop().create_task(
            self._keep_last_words(cast(asyncio.StreamReader, process.stderr)), name=f"stderr of {name}"
        )

    @property
    def id(self) -> int:
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process.returncode is None

    @property
    def last_words(self) -> list[str]:
        return list(self._last_words)

    async def _keep_last_words(self, errors: asyncio.StreamReader) -> None:
        unfinished = b""
        while data := await errors.read(1 << 16):
            *lines, unfinished = (unfinished + data).split(b"\n")
            for line in lines:
                self._take_word(line)
            unfinished = unfinished[:LONGEST_WORD]
        if unfinished:
            self._take_word(unfinished)

    def _take_word(self, line: bytes) -> None:
        word = line[:LONGEST_WORD].decode(errors="replace").rstrip()
        self._last_words.append(word)
        if self._hear is not None:
            self._hear(word)

    async def write_line(self, line: bytes) -> None:
        try:
            self._input.write(line + b"\n")
            await self._input.drain()
        except (OSError, RuntimeError) as error:
            raise self._gone() from error

    async def read_line(self) -> bytes:
        try:
            line = await self._output.readuntil(b"\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
            raise self._gone() from error
        return line[:-1]

    def _gone(self) -> ProcessGone:
        return ProcessGone(f"{self._name} ended")

    def close_input(self) -> None:
        self._input.close()

    def kill(self) -> None:
        # The group outlives its leader as long as somebody is in it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def wait(self) -> int:
        status = await self._process.wait()
        # Let its last words arrive; whom it started may still hold the pipe.
        await asyncio.wait([self._listening], timeout=_LISTENING)
        return status

    async def destroy(self) -> None:
        """Nothing of it runs on return."""
        self.kill()
        await self._process.wait()
        self._listening.cancel()
        self.close_input()
        # Its output would stay open as long as somebody has the other end. There is no public way to say so.
        cast(Any, self._process)._transport.close()


async def start(
    arguments: Sequence[str], environment: Mapping[str, str], hear: Hearer | None = None
) -> RealProcess:
    """`hear` is told each line of its standard error."""
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=LONGEST_LINE,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    except OSError as error:
        raise ProcessGone(f"{arguments[0]} could not be started: {error.strerror or error}") from error
    return RealProcess(arguments[0], process, hear)
