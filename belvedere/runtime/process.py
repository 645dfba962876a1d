"""What the server and the command line must know of their own process."""

import asyncio
import os
import resource
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager


class StopSignal:
    """Set by SIGTERM or SIGINT; `await wait()` returns which one it was. A second signal changes nothing:
    whoever is impatient has SIGKILL, and the data survives that too. Who was started by another process for
    as long as that one lives also stops when its standard input ends."""

    def __init__(self, *, with_input: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self._received: asyncio.Future[str] = self._loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._receive, signal.Signals(number).name)
        self._with_input = with_input
        if with_input:
            self._loop.add_reader(0, self._read)

    def _read(self) -> None:
        if not os.read(0, 1 << 16):
            self._loop.remove_reader(0)
            self._with_input = False
            self._receive("end of input")

    def _receive(self, name: str) -> None:
        if not self._received.done():
            self._received.set_result(name)

    @property
    def received(self) -> bool:
        return self._received.done()

    async def wait(self) -> str:
        return await asyncio.shield(self._received)

    def close(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.remove_signal_handler(number)
        if self._with_input:
            self._loop.remove_reader(0)


def stop_signals(*, with_input: bool = False) -> StopSignal:
    """Called on the main thread, inside the event loop."""
    return StopSignal(with_input=with_input)


def process_id() -> int:
    return os.getpid()


def process_is_alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def resident_bytes(number: int | None = None) -> int:
    """Resident memory of this process, or of another one; 0 when it cannot be known."""
    try:
        with open(f"/proc/{number or 'self'}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        pass
    if number is not None:
        return 0
    # Without /proc the peak is the best there is (kilobytes on Linux, bytes elsewhere).
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if os.uname().sysname == "Darwin" else peak * 1024


def cpu_seconds() -> float:
    """Processor time that this process has used."""
    return time.process_time()


def age_seconds() -> float:
    """How long ago the process was started, interpreter start-up included; 0.0 when it cannot be known."""
    try:
        with open("/proc/self/stat", "rb") as file:
            # The command's name may hold spaces and parentheses: fields are counted behind it.
            fields = file.read().rpartition(b")")[2].split()
        with open("/proc/uptime", "rb") as file:
            uptime = float(file.read().split()[0])
        return max(0.0, uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK"))
    except (OSError, IndexError, ValueError):
        return 0.0


@contextmanager
def temporary_directory(prefix: str) -> Iterator[str]:
    """Gone with all that is in it at the end."""
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as path:
        yield path
