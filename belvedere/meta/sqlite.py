"""The metadata store in a SQLite file: the embedded default, shared by processes of one machine."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import msgspec

from belvedere.meta.store import (
    Change,
    Committed,
    Compacted,
    Delete,
    Entry,
    Loaded,
    OutcomeUnknown,
    Put,
    Refused,
    StoreUnavailable,
    Transaction,
    Update,
    first_failure,
)
from belvedere.runtime.sqlite import SqliteConnection, SqliteError, SqliteFile

T = TypeVar("T")

_SETUP = """
CREATE TABLE IF NOT EXISTS entries (
    key TEXT PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (
    revision INTEGER PRIMARY KEY, id BLOB NOT NULL, updates BLOB NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS change_ids ON changes (id);
CREATE TABLE IF NOT EXISTS head (only INTEGER PRIMARY KEY CHECK (only = 0), revision INTEGER NOT NULL);
INSERT OR IGNORE INTO head VALUES (0, 0);
"""

#: How often a follower looks for commits of other processes, in seconds.
_POLL = 0.1


class SqliteStore:
    def __init__(self, path: str, history: int = 10_000) -> None:
        self._file = SqliteFile(path, _SETUP)
        self._history = history
        self._bell = asyncio.Event()
        self._closed = False

    async def open(self) -> None:
        try:
            await self._file.open()
        except SqliteError as error:
            raise StoreUnavailable(f"cannot open the metadata store: {error}") from error

    async def load(self) -> Loaded:
        def work(connection: SqliteConnection) -> Loaded:
            rows = connection.execute("SELECT key, value, revision FROM entries").fetchall()
            return Loaded(_revision(connection), {key: Entry(value, at) for key, value, at in rows})

        return await self._reading(work)

    async def commit(self, transaction: Transaction) -> Committed | Refused:
        try:
            outcome = await self._file.write(lambda connection: self._apply(connection, transaction))
        except SqliteError as error:
            # COMMIT itself may have failed after the pages were written: nobody can tell.
            raise OutcomeUnknown(f"metadata transaction: {error}") from error
        if isinstance(outcome, Committed):
            self._bell.set()
        return outcome

    async def changes_since(self, revision: int) -> list[Change]:
        def work(connection: SqliteConnection) -> list[Change]:
            head = _revision(connection)
            rows = connection.execute(
                "SELECT revision, updates FROM changes WHERE revision > ? ORDER BY revision", (revision,)
            ).fetchall()
            if head > revision and (not rows or rows[0][0] != revision + 1):
                raise Compacted(f"changes after revision {revision} are no longer kept")
            return [Change(at, _decode(updates)) for at, updates in rows]

        return await self._reading(work)

    async def wait_beyond(self, revision: int) -> None:
        while not self._closed:
            self._bell.clear()
            if await self._reading(_revision) > revision:
                return
            try:
                async with asyncio.timeout(_POLL):
                    await self._bell.wait()
            except TimeoutError:
                continue

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._bell.set()
            await self._file.close()

    def _apply(self, connection: SqliteConnection, transaction: Transaction) -> Committed | Refused:
        landed = connection.execute("SELECT revision FROM changes WHERE id = ?", (transaction.id,)).fetchone()
        if landed is not None:
            return Committed(landed[0])
        head = _revision(connection)
        failed = first_failure(transaction.asserts, _touched_entries(connection, transaction))
        if failed is not None:
            return Refused(failed, head)
        revision = head + 1
        for update in transaction.updates:
            if isinstance(update, Put):
                connection.execute(
                    "INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", (update.key, update.value, revision)
                )
            else:
                connection.execute("DELETE FROM entries WHERE key = ?", (update.key,))
        connection.execute(
            "INSERT INTO changes VALUES (?, ?, ?)", (revision, transaction.id, _encode(transaction.updates))
        )
        connection.execute("DELETE FROM changes WHERE revision <= ?", (revision - self._history,))
        connection.execute("UPDATE head SET revision = ?", (revision,))
        return Committed(revision)

    async def _reading(self, work: Callable[[SqliteConnection], T]) -> T:
        try:
            return await self._file.read(work)
        except SqliteError as error:
            raise StoreUnavailable(f"cannot read the metadata store: {error}") from error


def _revision(connection: SqliteConnection) -> int:
    revision: int = connection.execute("SELECT revision FROM head").fetchone()[0]
    return revision


def _touched_entries(connection: SqliteConnection, transaction: Transaction) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for assertion in transaction.asserts:
        row = connection.execute(
            "SELECT value, revision FROM entries WHERE key = ?", (assertion.key,)
        ).fetchone()
        if row is not None:
            found[assertion.key] = Entry(row[0], row[1])
    return found


def _encode(updates: tuple[Update, ...]) -> bytes:
    return msgspec.msgpack.encode(
        [(update.key, update.value if isinstance(update, Put) else None) for update in updates]
    )


def _decode(data: bytes) -> tuple[Update, ...]:
    pairs = msgspec.msgpack.decode(data, type=list[tuple[str, bytes | None]])
    return tuple(Delete(key) if value is None else Put(key, value) for key, value in pairs)
