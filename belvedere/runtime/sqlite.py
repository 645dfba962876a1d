"""SQLite behind the seam: one connection in one thread, whole transactions as plain functions."""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class SqliteFile:
    """Runs functions against one database file.

    Writers of several processes line up at a lock file rather than in SQLite's busy handler, which is
    unfair: some writer would wait for hundreds of milliseconds.
    """

    def __init__(self, path: str, setup: str) -> None:
        self._path = path
        self._setup = setup
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite")
        self._connection: sqlite3.Connection | None = None
        self._lock_file: int | None = None

    async def open(self) -> None:
        await self._submit(self._open)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._submit(lambda: self._reading(work))

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run in one IMMEDIATE transaction; rolled back if `work` raises."""
        return await self._submit(lambda: self._writing(work))

    async def close(self) -> None:
        await self._submit(self._close)
        self._thread.shutdown(wait=False)

    async def _submit(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _open(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._lock_file = os.open(self._path + ".lock", os.O_CREAT | os.O_RDWR, 0o644)
        fcntl.flock(self._lock_file, fcntl.LOCK_EX)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.executescript(self._setup)
        finally:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)
        self._connection = connection

    def _reading(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._live()
        connection.execute("BEGIN")
        try:
            return work(connection)
        finally:
            connection.execute("ROLLBACK")

    def _writing(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._live()
        assert self._lock_file is not None
        fcntl.flock(self._lock_file, fcntl.LOCK_EX)
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                # A COMMIT that fails may leave the transaction open, or SQLite may have ended it.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result
        finally:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    def _live(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.ProgrammingError("the database is closed")
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None


SqliteError = sqlite3.Error
SqliteConnection = sqlite3.Connection
