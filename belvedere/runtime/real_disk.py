"""Disks through the operating system, with every blocking call in a thread."""

import asyncio
import collections
import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator

from belvedere.runtime.errors import (
    AlreadyLocked,
    DiskBroken,
    DiskError,
    DiskFull,
    FileExists,
    FileMissing,
    ReadOnlyDisk,
)
from belvedere.runtime.worker_threads import WorkerThreads

_KINDS: dict[int, tuple[type[DiskError], str]] = {
    errno.ENOSPC: (DiskFull, "no space left on disk"),
    errno.EDQUOT: (DiskFull, "disk quota exceeded"),
    errno.EROFS: (ReadOnlyDisk, "the disk is read-only"),
    errno.EACCES: (ReadOnlyDisk, "no permission"),
    errno.EPERM: (ReadOnlyDisk, "no permission"),
    errno.EIO: (DiskBroken, "input/output error"),
    errno.ENOENT: (FileMissing, "no such file or directory"),
    errno.EEXIST: (FileExists, "file exists"),
}
_NO_FALLOCATE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
_ZEROS = bytes(1 << 20)


def disk_error(error: OSError, path: str) -> DiskError:
    """Name an OSError for what it is."""
    kind, message = _KINDS.get(error.errno or 0, (DiskError, error.strerror or str(error)))
    return kind(message, path)


@contextlib.contextmanager
def _named_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise disk_error(error, path) from error


def _write_fully(descriptor: int, data: bytes, offset: int) -> None:
    written = os.pwrite(descriptor, data, offset)
    if written == len(data):
        return
    rest = memoryview(data)[written:]
    while rest:
        offset += written
        written = os.pwrite(descriptor, rest, offset)
        rest = rest[written:]


def _read_fully(descriptor: int, length: int, offset: int) -> bytes:
    data = os.pread(descriptor, length, offset)
    if len(data) == length or not data:
        return data
    parts = [data]
    remaining = length - len(data)
    while remaining > 0:
        offset += len(data)
        data = os.pread(descriptor, remaining, offset)
        if not data:
            break
        parts.append(data)
        remaining -= len(data)
    return b"".join(parts)


def _reserve(descriptor: int, length: int) -> None:
    size = os.fstat(descriptor).st_size
    try:
        os.posix_fallocate(descriptor, 0, length)
    except OSError as error:
        if error.errno not in _NO_FALLOCATE:
            raise
        # A file system without reservations: zeros written are reserved all the same.
        for offset in range(size, length, len(_ZEROS)):
            _write_fully(descriptor, _ZEROS[: length - offset], offset)


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_named_directory(path: str) -> None:
    with _named_errors(path):
        _sync_directory(path)


def _exists(path: str) -> bool:
    with _named_errors(path):
        return os.path.exists(path)


def _read(path: str, offset: int, length: int | None) -> bytes:
    with _named_errors(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if length is None:
                length = max(0, os.fstat(descriptor).st_size - offset)
            return _read_fully(descriptor, length, offset)
        finally:
            os.close(descriptor)


def _write(path: str, data: bytes) -> None:
    with _named_errors(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            _write_fully(descriptor, data, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _open_append(path: str, preallocate: int, position: int | None) -> tuple[int, int]:
    with _named_errors(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            if preallocate > size:
                _reserve(descriptor, preallocate)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor, size if position is None else position


def _remove_tree(path: str) -> None:
    with _named_errors(path), contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


def _make_directory(path: str) -> None:
    with _named_errors(path):
        missing: list[str] = []
        current = path
        while not os.path.isdir(current):
            missing.append(current)
            current = os.path.dirname(current) or "."
        for directory in reversed(missing):
            try:
                os.mkdir(directory)
            except FileExistsError:
                if not os.path.isdir(directory):
                    raise
            _sync_directory(os.path.dirname(directory) or ".")


def _list(path: str) -> list[str]:
    with _named_errors(path):
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []


def _named(path: str, action: str, *arguments: str) -> None:
    with _named_errors(path):
        getattr(os, action)(*arguments)


def _size(path: str) -> int:
    with _named_errors(path):
        return os.stat(path).st_size


def _free_bytes(path: str) -> int:
    with _named_errors(path):
        info = os.statvfs(path)
        return info.f_bavail * info.f_frsize


def _lock(path: str) -> int:
    with _named_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise AlreadyLocked("held by another process", path) from None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def _close_unclaimed(opened: "asyncio.Future[tuple[int, int]]") -> None:
    if not opened.cancelled() and opened.exception() is None:
        os.close(opened.result()[0])


class RealLock:
    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self.path = path

    async def release(self) -> None:
        # Closing drops the lock. The file stays: removing it would let two processes hold "the" lock.
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


_Job = tuple[WorkerThreads, Callable[[bytes, int], None], bytes, "asyncio.Future[None]"]


class RealAppendFile:
    """One operation at a time is in a thread; later ones wait here for their turn."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        path: str,
        descriptor: int,
        position: int,
        threads: WorkerThreads,
        sync_thread: WorkerThreads,
    ) -> None:
        self._loop = loop
        self._path = path
        self._descriptor = descriptor
        self._position = position
        self._threads = threads
        self._sync_thread = sync_thread
        self._waiting: collections.deque[_Job] = collections.deque()
        self._busy = False
        self._broken = False
        self._closing = False

    @property
    def path(self) -> str:
        return self._path

    @property
    def position(self) -> int:
        return self._position + sum(len(job[2]) for job in self._waiting)

    async def write(self, data: bytes) -> None:
        await self._start(self._threads, self._write, data)

    async def write_and_sync(self, data: bytes) -> None:
        await self._start(self._sync_thread, self._write_and_sync, data)

    async def sync(self) -> None:
        await self._start(self._sync_thread, self._sync, b"")

    async def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._close_when_idle()

    def _start(
        self, threads: WorkerThreads, work: Callable[[bytes, int], None], data: bytes
    ) -> "asyncio.Future[None]":
        if self._closing:
            raise DiskError("the file is closed", self._path)
        if self._broken:
            raise self._distrust()
        future: asyncio.Future[None] = self._loop.create_future()
        job = (threads, work, data, future)
        if self._busy:
            self._waiting.append(job)
        else:
            self._begin(job)
        return future

    def _distrust(self) -> DiskBroken:
        return DiskBroken("an earlier sync failed", self._path)

    def _begin(self, job: _Job) -> None:
        threads, work, data, future = job
        begin = self._position
        self._position = begin + len(data)
        self._busy = True

        def finished(failure: BaseException | None) -> None:
            self._busy = False
            if failure is not None:
                self._position = begin
            self._next()

        threads.submit(work, data, begin, finished=finished, future=future)

    def _next(self) -> None:
        while self._broken and self._waiting:
            future = self._waiting.popleft()[3]
            if not future.done():
                future.set_exception(self._distrust())
        if self._waiting:
            self._begin(self._waiting.popleft())
        else:
            self._close_when_idle()

    def _close_when_idle(self) -> None:
        # A cancelled waiter leaves its write running: the descriptor must outlive it.
        if self._closing and not self._busy and self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _write(self, data: bytes, offset: int) -> None:
        with _named_errors(self._path):
            _write_fully(self._descriptor, data, offset)

    def _sync(self, data: bytes, offset: int) -> None:
        with _named_errors(self._path):
            try:
                os.fdatasync(self._descriptor)
            except OSError:
                self._broken = True
                raise

    def _write_and_sync(self, data: bytes, offset: int) -> None:
        self._write(data, offset)
        self._sync(b"", offset)


class RealDisk:
    """`threads` serve reads and bulk writes; one more thread is kept for syncs, so that the commit log's
    fdatasync never waits behind a compaction's reads."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = 4) -> None:
        self._loop = loop
        self._threads = WorkerThreads(loop, "disk", threads)
        self._sync_thread = WorkerThreads(loop, "disk-sync", 1)

    def close(self) -> None:
        self._threads.close()
        self._sync_thread.close()

    async def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return await self._threads.submit(_read, path, offset, length)

    async def write(self, path: str, data: bytes) -> None:
        await self._threads.submit(_write, path, data)

    async def append(self, path: str, *, preallocate: int = 0, position: int | None = None) -> RealAppendFile:
        work = self._threads.submit(_open_append, path, preallocate, position)
        try:
            descriptor, start = await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(_close_unclaimed)
            raise
        return RealAppendFile(self._loop, path, descriptor, start, self._threads, self._sync_thread)

    async def rename(self, source: str, target: str) -> None:
        await self._threads.submit(_named, source, "rename", source, target)

    async def link(self, source: str, target: str) -> None:
        await self._threads.submit(_named, source, "link", source, target)

    async def remove(self, path: str) -> None:
        await self._threads.submit(_named, path, "unlink", path)

    async def remove_tree(self, path: str) -> None:
        await self._threads.submit(_remove_tree, path)

    async def make_directory(self, path: str) -> None:
        await self._threads.submit(_make_directory, path)

    async def sync_directory(self, path: str) -> None:
        await self._threads.submit(_sync_named_directory, path)

    async def list(self, path: str) -> list[str]:
        return await self._threads.submit(_list, path)

    async def size(self, path: str) -> int:
        return await self._threads.submit(_size, path)

    async def exists(self, path: str) -> bool:
        return await self._threads.submit(_exists, path)

    async def free_bytes(self, path: str) -> int:
        return await self._threads.submit(_free_bytes, path)

    async def lock(self, path: str) -> RealLock:
        # Never blocks (LOCK_NB), and a lock taken by a cancelled waiter would have no owner: do it here.
        return RealLock(_lock(path), path)
