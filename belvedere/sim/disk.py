"""Disks of simulated machines: they take time, lose what was not synced, and fail when told to."""

import asyncio
import collections
import dataclasses
import random
import zlib
from collections.abc import Callable
from typing import Any

from belvedere.runtime.errors import AlreadyLocked, DiskBroken, DiskError, DiskFull, ReadOnlyDisk
from belvedere.sim.filesystem import Change, Directory, File, FileSystem, Resize, Write, split_path
from belvedere.sim.incarnation import Incarnation, Stage
from belvedere.sim.loop import SimFuture
from belvedere.sim.randomness import between

_BYTES_PER_SECOND = 500e6
_CAPACITY = 1 << 40


@dataclasses.dataclass
class DiskFaults:
    """Switches for a scenario. The shares are probabilities for each operation to fail with DiskBroken."""

    full: bool = False
    read_only: bool = False
    capacity: int | None = None
    broken_reads: float = 0.0
    broken_writes: float = 0.0
    broken_syncs: float = 0.0
    slowness: float = 1.0


class MachineDisk:
    """The hardware of one machine: outlives its incarnations."""

    def __init__(self, machine: str, generator: random.Random, record: Callable[[str, str], None]) -> None:
        self.machine = machine
        self._record = record
        self.files = FileSystem()
        self.faults = DiskFaults()
        self.generator = generator
        self.torn_writes = 0
        self._content_changes = 0
        self._locks: dict[str, SimLock] = {}

    def crash(self, *, lose_unsynced: bool) -> None:
        if lose_unsynced:
            torn = self.files.crash(self.generator)
            self.torn_writes += torn
            self._record("disk.crash", f"{self.machine} torn {torn}")
        self._locks.clear()

    # For tests and checkers, outside of time.

    @property
    def changes(self) -> int:
        """While this stays the same, so does what a crash would leave."""
        return self._content_changes + self.files.changes

    def peek(self, path: str) -> bytes:
        return bytes(self.files.file(path).content)

    def corrupt(self, path: str, offset: int, data: bytes) -> None:
        """Overwrite bytes behind the owner's back, durably: bit rot."""
        file = self.files.file(path)
        for content in (file.content, file.durable):
            Write(offset, data).apply(content)

    # What operations ask.

    def delay(self, low: float, high: float, size: int = 0) -> float:
        drawn = between(self.generator.random(), low, high)
        if self.generator.random() < 0.005:
            # A device now and then takes its time: garbage collection in a flash drive, a busy neighbour.
            drawn += between(self.generator.random(), 0.01, 0.3)
        return self.faults.slowness * (drawn + size / _BYTES_PER_SECOND)

    def lock(self, path: str) -> "SimLock":
        name = "/".join(split_path(path))
        if name in self._locks:
            raise AlreadyLocked("held by another process", path)
        lock = self._locks[name] = SimLock(self, name)
        return lock

    def unlock(self, lock: "SimLock") -> None:
        if self._locks.get(lock.name) is lock:
            del self._locks[lock.name]

    def check_read(self, path: str) -> None:
        if self.faults.broken_reads and self.generator.random() < self.faults.broken_reads:
            raise DiskBroken("input/output error", path)

    def check_write(self, path: str, growth: int = 0) -> None:
        faults = self.faults
        if faults.read_only:
            raise ReadOnlyDisk("the disk is read-only", path)
        if growth > 0 and (faults.full or growth > self.free_bytes()):
            raise DiskFull("no space left on disk", path)
        if faults.broken_writes and self.generator.random() < faults.broken_writes:
            raise DiskBroken("input/output error", path)

    def free_bytes(self) -> int:
        if self.faults.full:
            return 0
        if self.faults.capacity is None:
            return _CAPACITY
        return max(0, self.faults.capacity - self.files.used_bytes())

    def change(self, file: File, path: str, change: Change) -> None:
        length = change.length if isinstance(change, Resize) else change.offset + len(change.data)
        self.check_write(path, length - len(file.content))
        file.change(change)
        self._content_changes += 1
        content = zlib.crc32(change.data) if isinstance(change, Write) else 0
        self._record("disk.change", f"{self.machine}:{path} {length} {content:08x}")

    def sync(self, file: File, path: str, changes: int) -> None:
        self._content_changes += 1
        if self.faults.broken_syncs and self.generator.random() < self.faults.broken_syncs:
            file.forget(changes)
            raise DiskBroken("input/output error", path)
        file.make_durable(changes)
        self._record("disk.sync", f"{self.machine}:{path} {changes}")


_Job = tuple[bytes, bool, bool, SimFuture[Any]]


class SimAppendFile:
    """One operation at a time; later ones wait here for their turn."""

    def __init__(self, disk: MachineDisk, owner: Incarnation, file: File, path: str, position: int) -> None:
        self._disk = disk
        self._owner = owner
        self._file = file
        self._path = path
        self._position = position
        self._waiting: collections.deque[_Job] = collections.deque()
        self._busy = False
        self._closed = False
        self._broken = False

    @property
    def path(self) -> str:
        return self._path

    @property
    def position(self) -> int:
        return self._position + sum(len(job[0]) for job in self._waiting)

    async def write(self, data: bytes) -> None:
        await self._start(data, write=True, sync=False)

    async def write_and_sync(self, data: bytes) -> None:
        await self._start(data, write=True, sync=True)

    async def sync(self) -> None:
        await self._start(b"", write=False, sync=True)

    async def close(self) -> None:
        self._closed = True

    def _start(self, data: bytes, *, write: bool, sync: bool) -> SimFuture[Any]:
        if self._closed:
            raise DiskError("the file is closed", self._path)
        if self._broken:
            raise self._distrust()
        future = self._owner.open_future()
        job = (data, write, sync, future)
        if self._busy:
            self._waiting.append(job)
        else:
            self._begin(job)
        return future

    def _distrust(self) -> DiskBroken:
        return DiskBroken("an earlier sync failed", self._path)

    def _begin(self, job: _Job) -> None:
        data, write, sync, future = job
        begin = self._position
        self._position = begin + len(data)
        self._busy = True
        stages: list[Stage] = []
        if write:
            stages.append((self._disk.delay(5e-6, 200e-6, len(data)), lambda: self._write(data, begin)))
        if sync:
            stages.append((self._disk.delay(100e-6, 5e-3), self._sync))

        def finished(failure: Exception | None) -> None:
            self._busy = False
            if failure is not None:
                self._position = begin
            self._next()

        self._owner.start(tuple(stages), future, finished)

    def _next(self) -> None:
        while self._broken and self._waiting:
            self._owner.settle(self._waiting.popleft()[3], None, self._distrust())
        if self._waiting:
            self._begin(self._waiting.popleft())

    def _write(self, data: bytes, offset: int) -> None:
        self._disk.change(self._file, self._path, Write(offset, data))

    def _sync(self) -> None:
        try:
            self._disk.sync(self._file, self._path, self._file.changes)
        except DiskBroken:
            self._broken = True
            raise


class SimLock:
    def __init__(self, disk: MachineDisk, name: str) -> None:
        self._disk = disk
        self.name = name

    async def release(self) -> None:
        self._disk.unlock(self)


class SimDisk:
    """One incarnation's way to its machine's disk: the runtime's Disk."""

    def __init__(self, disk: MachineDisk, owner: Incarnation) -> None:
        self._disk = disk
        self._owner = owner

    def _soon(self, size: int = 0) -> float:
        return self._disk.delay(10e-6, 300e-6, size)

    def _operation(self, action: Any) -> "asyncio.Future[Any]":
        return self._owner.operation((self._soon(), action))

    async def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        def read() -> bytes:
            self._disk.check_read(path)
            content = self._disk.files.file(path).content
            end = len(content) if length is None else offset + length
            return bytes(content[offset:end])

        data: bytes = await self._owner.operation((self._soon(length or 0), read))
        return data

    async def write(self, path: str, data: bytes) -> None:
        opened: list[tuple[File, int]] = []

        def begin() -> None:
            self._disk.check_write(path)
            file = self._disk.files.create(path)
            self._disk.change(file, path, Resize(0))
            self._disk.change(file, path, Write(0, data))
            opened.append((file, file.changes))

        def finish() -> None:
            file, changes = opened[0]
            self._disk.sync(file, path, changes)

        delay = self._disk.delay(100e-6, 5e-3, len(data))
        await self._owner.operation((self._soon(), begin), (delay, finish))

    async def append(self, path: str, *, preallocate: int = 0, position: int | None = None) -> SimAppendFile:
        def open_file() -> SimAppendFile:
            self._disk.check_write(path)
            file = self._disk.files.create(path)
            size = len(file.content)
            if preallocate > size:
                self._disk.change(file, path, Resize(preallocate))
            start = size if position is None else position
            return SimAppendFile(self._disk, self._owner, file, path, start)

        opened: SimAppendFile = await self._operation(open_file)
        return opened

    async def _change_names(self, path: str, change: Any, *arguments: str) -> None:
        def act() -> None:
            self._disk.check_write(path)
            change(*arguments)

        await self._operation(act)

    async def rename(self, source: str, target: str) -> None:
        await self._change_names(source, self._disk.files.rename, source, target)

    async def link(self, source: str, target: str) -> None:
        await self._change_names(source, self._disk.files.link, source, target)

    async def remove(self, path: str) -> None:
        await self._change_names(path, self._disk.files.remove, path)

    async def remove_tree(self, path: str) -> None:
        await self._change_names(path, self._disk.files.remove_tree, path)

    async def make_directory(self, path: str) -> None:
        def make() -> None:
            if isinstance(self._disk.files.find(path), Directory):
                return
            self._disk.check_write(path)
            if self._disk.faults.full:
                raise DiskFull("no space left on disk", path)
            self._disk.files.make_directory(path)

        await self._operation(make)

    async def sync_directory(self, path: str) -> None:
        def sync() -> None:
            faults = self._disk.faults
            self._disk.files.directory(path)
            if faults.broken_syncs and self._disk.generator.random() < faults.broken_syncs:
                raise DiskBroken("input/output error", path)
            self._disk.files.sync_directory(path)

        await self._owner.operation((self._disk.delay(100e-6, 5e-3), sync))

    async def list(self, path: str) -> list[str]:
        names: list[str] = await self._operation(lambda: self._disk.files.names(path))
        return names

    async def size(self, path: str) -> int:
        size: int = await self._operation(lambda: len(self._disk.files.file(path).content))
        return size

    async def exists(self, path: str) -> bool:
        found: bool = await self._operation(lambda: self._disk.files.find(path) is not None)
        return found

    async def free_bytes(self, path: str) -> int:
        free: int = await self._operation(self._disk.free_bytes)
        return free

    async def lock(self, path: str) -> SimLock:
        def acquire() -> SimLock:
            if self._disk.files.find(path) is None:
                self._disk.check_write(path)
                self._disk.files.create(path)
            return self._disk.lock(path)

        lock: SimLock = await self._operation(acquire)
        return lock
