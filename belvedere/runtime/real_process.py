"""Child processes, talked to in lines.

They are started by `subprocess`, not by the event loop: uvloop runs Python's hooks of a fork in the child,
and those let go of what belongs to the parent's other threads. A connection that is shut down there is shut
down here, too; so Spark, in the process of whoever embeds a node, would lose its session with every child.
"""

import asyncio
import collections
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from subprocess import PIPE
from typing import IO, Self, cast

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
    def __init__(
        self,
        name: str,
        process: "subprocess.Popen[bytes]",
        writer: asyncio.StreamWriter,
        output: "_Output",
        errors: "_Output",
        hear: Hearer | None,
    ) -> None:
        self.id = process.pid
        self._name = name
        self._hear = hear
        self._input = writer
        self._output, self._errors = output, errors
        self._last_words: collections.deque[str] = collections.deque(maxlen=LAST_WORDS)
        loop = asyncio.get_running_loop()
        self._listening = loop.create_task(self._keep_last_words(), name=f"stderr of {name}")
        self._ended: asyncio.Future[int] = loop.create_future()

        def wait() -> None:
            status = process.wait()
            with contextlib.suppress(RuntimeError):  # The loop ended before it.
                loop.call_soon_threadsafe(self._bury, status)

        threading.Thread(target=wait, name=f"end of {name}", daemon=True).start()

    def _bury(self, status: int) -> None:
        self._ended.set_result(status)
        self.close_input()

    @property
    def runs(self) -> bool:
        return not self._ended.done()

    @property
    def is_over(self) -> bool:
        """It ended, and there is nothing left to be heard of it."""
        return self._ended.done() and self._output.is_over and self._errors.is_over

    @property
    def last_words(self) -> list[str]:
        return list(self._last_words)

    async def _keep_last_words(self) -> None:
        unfinished = b""
        while data := await self._errors.reader.read(1 << 16):
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
            line = await self._output.reader.readuntil(b"\n")
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
            os.killpg(self.id, signal.SIGKILL)

    async def wait(self) -> int:
        status = await asyncio.shield(self._ended)
        # Let its last words arrive; whom it started may still hold the pipe.
        await asyncio.wait([self._listening], timeout=_LISTENING)
        return status

    async def destroy(self) -> None:
        """Nothing of it runs on return."""
        if self.is_over:
            return
        self.kill()
        await asyncio.shield(self._ended)
        self._listening.cancel()
        self.close_input()
        # They would stay open as long as somebody has the other end.
        self._output.transport.close()
        self._errors.transport.close()


async def start(
    arguments: Sequence[str], environment: Mapping[str, str], hear: Hearer | None = None
) -> RealProcess:
    """`hear` is told each line of its standard error."""
    try:
        process = _start(arguments, {**os.environ, **environment})
    except OSError as error:
        raise ProcessGone(f"{arguments[0]} could not be started: {error.strerror or error}") from error
    connecting = asyncio.get_running_loop().create_task(_connected(arguments[0], process, hear))
    try:
        return await asyncio.shield(connecting)
    except asyncio.CancelledError:
        # Half connected, it would run on without anybody who ends it.
        connecting.add_done_callback(lambda done: done.result().kill())
        raise


async def _connected(name: str, process: "subprocess.Popen[bytes]", hear: Hearer | None) -> RealProcess:
    writer = await _writer(cast(IO[bytes], process.stdin))
    output = await _Output.of(cast(IO[bytes], process.stdout))
    errors = await _Output.of(cast(IO[bytes], process.stderr))
    return RealProcess(name, process, writer, output, errors, hear)


def _start(arguments: Sequence[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """In a millisecond, as an event loop would, too."""
    return subprocess.Popen(
        arguments, bufsize=0, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, start_new_session=True
    )


class _Output:
    """What it writes."""

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.ReadTransport) -> None:
        self.reader = reader
        self.transport = transport

    @classmethod
    async def of(cls, pipe: IO[bytes]) -> Self:
        reader = asyncio.StreamReader(limit=LONGEST_LINE)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: _ClosedAtItsEnd(reader), pipe)
        return cls(reader, transport)

    @property
    def is_over(self) -> bool:
        return self.transport.is_closing()


class _ClosedAtItsEnd(asyncio.StreamReaderProtocol):
    def eof_received(self) -> bool:
        super().eof_received()
        return False


async def _writer(pipe: IO[bytes]) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    # Nothing is read there; it is this protocol that knows when to wait.
    unread = asyncio.StreamReader()
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(unread), pipe)
    return asyncio.StreamWriter(transport, protocol, None, loop)
