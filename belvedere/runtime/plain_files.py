"""Files for programs that are no node: Spark's workers and drivers, which wait for their disk where they are.

A node reaches its files through `Runtime.disk` instead.
"""

import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress

import pyarrow as pa

#: Seconds between reports of one attempt.
REPORTED_EVERY = 0.3


def attempt_name() -> str:
    """Like no other."""
    return os.urandom(6).hex()


class PlainFiles:
    """What one attempt at a task reads and writes. Its directory is made with the first file."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def open(self, path: str) -> pa.NativeFile:
        return pa.OSFile(path, "rb")

    def save(self, name: str, data: bytes) -> str:
        """A durable file of the attempt; returns its path."""
        path = self._place(name)
        write_durably(path, data)
        return path

    def _place(self, name: str) -> str:
        # Only this directory: where that of the whole job is gone, nobody wants the file.
        make_directory(self.directory)
        return os.path.join(self.directory, name)

    def progress(self, rows: int, size: int) -> None:
        """Nobody looks."""

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


class TaskAttemptFiles(PlainFiles):
    """Progress is written to a file, now and then; what was saved is durable once `settle` returns."""

    def __init__(self, directory: str, report: str) -> None:
        super().__init__(directory)
        self._report = report
        self._next = 0.0
        self._rows = self._bytes = 0
        self._saved: list[str] = []

    def save(self, name: str, data: bytes) -> str:
        # Nobody looks at it before the task's result is there, and disks sync many files better at once.
        path = self._place(name)
        with open(path, "wb") as file:
            file.write(data)
        self._saved.append(path)
        return path

    def settle(self) -> None:
        for path in self._saved:
            _sync(path)
        if self._saved:
            sync_directory(self.directory)
        self.report()

    def progress(self, rows: int, size: int) -> None:
        self._rows += rows
        self._bytes += size
        now = time.monotonic()
        if now >= self._next:
            self._next = now + REPORTED_EVERY
            self.report()

    def report(self) -> None:
        aside = f"{self._report}.{os.getpid()}.part"
        with open(aside, "w", encoding="ascii") as file:
            file.write(f"{self._rows} {self._bytes}")
        os.replace(aside, self._report)


def read_whole(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def make_directory(path: str) -> None:
    """In one that is there; fine if it is there itself."""
    with suppress(FileExistsError):
        os.mkdir(path)


def write_durably(path: str, data: bytes) -> None:
    """All of it under this name, or nothing, also after a crash."""
    aside = f"{path}.part"
    with open(aside, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
    sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    _sync(path or ".")


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_lines(path: str, lines: Iterable[bytes]) -> None:
    make_directory(os.path.dirname(path))
    with open(path, "ab") as file:
        file.writelines(line + b"\n" for line in lines)


def join_files(sources: Iterable[str], target: str) -> None:
    """One file of all of them, written aside and renamed. Directories on the way to it are made."""
    os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
    aside = f"{target}.part"
    with open(aside, "wb") as file:
        for source in sources:
            with open(source, "rb") as part:
                shutil.copyfileobj(part, file)
    os.replace(aside, target)


def absolute(path: str) -> str:
    """Good in any working directory."""
    return os.path.abspath(path)


def exists(path: str) -> bool:
    return os.path.exists(path)


def bytes_below(directory: str) -> int:
    """What its files take together; those that go meanwhile count for nothing."""
    total = 0
    for where, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                total += os.path.getsize(os.path.join(where, name))
    return total
