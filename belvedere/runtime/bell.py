"""A bell that processes of one machine ring for each other: a small file, touched, and inotify."""

import asyncio
import contextlib
import ctypes
import os

_CLOSE_ON_EXEC_NONBLOCKING = os.O_CLOEXEC | os.O_NONBLOCK
_ATTRIBUTES_CHANGED = 0x4

#: Without inotify, how often whoever waits looks for himself, in seconds.
_LOOK_EVERY = 0.1


class Bell:
    """Whoever waits registers first and looks then, so that no ring falls in between:

        rung = bell.rung
        if nothing_new(): await bell.wait(rung, patience)

    A ring can be missed in one way: its process dies between its work and the ring. Hence the patience.
    Where there is no inotify (no such system, or too many watches) waiting is looking ten times a second.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inotify: int | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self.rung = 0

    @property
    def hears_others(self) -> bool:
        return self._inotify is not None

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        self._inotify = _watch(self._path)
        if self._inotify is not None:
            self._loop.add_reader(self._inotify, self._drain)

    def ring(self) -> None:
        # When it fails, others find out when their patience ends.
        with contextlib.suppress(OSError):
            os.utime(self._path)
        self._sound()

    async def wait(self, rung: int, patience: float) -> None:
        """Return when the bell was rung since `rung` was read, or after `patience` seconds."""
        if self.rung != rung or self._loop is None:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(patience if self.hears_others else min(patience, _LOOK_EVERY)):
                await waiter
        except TimeoutError:
            pass
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def close(self) -> None:
        if self._inotify is not None and self._loop is not None:
            self._loop.remove_reader(self._inotify)
            os.close(self._inotify)
            self._inotify = None
        self._sound()

    def _drain(self) -> None:
        assert self._inotify is not None
        try:
            while os.read(self._inotify, 4096):
                pass
        except BlockingIOError:
            pass
        self._sound()

    def _sound(self) -> None:
        self.rung += 1
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _watch(path: str) -> int | None:
    """An inotify descriptor that becomes readable when the file is touched; None where there is none."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = libc.inotify_init1(_CLOSE_ON_EXEC_NONBLOCKING)
        if descriptor < 0:
            return None
        if libc.inotify_add_watch(descriptor, os.fsencode(path), _ATTRIBUTES_CHANGED) < 0:
            os.close(descriptor)
            return None
    except (OSError, AttributeError):
        return None
    return int(descriptor)
