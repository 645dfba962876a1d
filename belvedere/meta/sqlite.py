"""The metadata store in a SQLite file: the embedded default, shared by processes of one machine."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from belvedere.meta.store import (
    Change,
    Committed,
    Compacted,
    Delete,
    Entry,
    Granted,
    LeaseGone,
    Loaded,
    MetadataError,
    OutcomeUnknown,
    Put,
    Refused,
    StoreUnavailable,
    Transaction,
    Update,
    first_failure,
)
from belvedere.runtime.bell import Bell
from belvedere.runtime.machine_clock import boot_id, machine_seconds
from belvedere.runtime.sqlite import SqliteConnection, SqliteError, SqliteFile

T = TypeVar("T")

#: A lease's clock is the machine's: all processes read the same one, and none of them outlives a boot.
_SETUP = """
CREATE TABLE IF NOT EXISTS entries (
    key TEXT PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (
    revision INTEGER PRIMARY KEY, id BLOB NOT NULL, updates BLOB NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS change_ids ON changes (id);
CREATE TABLE IF NOT EXISTS head (only INTEGER PRIMARY KEY CHECK (only = 0), revision INTEGER NOT NULL);
INSERT OR IGNORE INTO head VALUES (0, 0);
CREATE TABLE IF NOT EXISTS leases (
    id INTEGER PRIMARY KEY AUTOINCREMENT, seconds REAL NOT NULL, runs_out REAL NOT NULL, boot TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS leased (key TEXT PRIMARY KEY, lease INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS leased_keys ON leased (lease);
"""

#: How long a follower trusts the bell alone: a process may die between its commit and the ring.
_PATIENCE = 1.0


class SqliteStore:
    """There is no server that could end leases: every write first ends those that have run out, and so does
    whoever waits for changes. A holder that was stopped for too long is told so when it comes back."""

    def __init__(self, path: str, history: int = 10_000) -> None:
        self._file = SqliteFile(path, _SETUP)
        self._bell = Bell(f"{path}.bell")
        self._history = history
        self._boot = ""
        self._closed = False

    async def open(self) -> None:
        try:
            await self._file.open()
            self._bell.open()
            self._boot = boot_id()
        except (SqliteError, OSError) as error:
            raise StoreUnavailable(f"cannot open the metadata store: {error}") from error

    async def load(self) -> Loaded:
        def work(connection: SqliteConnection) -> Loaded:
            rows = connection.execute("SELECT key, value, revision FROM entries").fetchall()
            return Loaded(_revision(connection), {key: Entry(value, at) for key, value, at in rows})

        return await self._reading(work)

    async def commit(self, transaction: Transaction) -> Committed | Refused:
        return await self._writing(lambda connection: self._apply(connection, transaction))

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
            rung = self._bell.rung
            head, next_end = await self._reading(self._head_and_next_end)
            if head > revision:
                return
            patience = _PATIENCE if next_end is None else min(_PATIENCE, next_end - machine_seconds())
            if patience > 0:
                await self._bell.wait(rung, patience)
            else:
                await self._writing(self._end_leases, StoreUnavailable)

    async def grant(self, seconds: float) -> Granted:
        def work(connection: SqliteConnection) -> int | None:
            return connection.execute(
                "INSERT INTO leases (seconds, runs_out, boot) VALUES (?, ?, ?)",
                (seconds, machine_seconds() + seconds, self._boot),
            ).lastrowid

        lease = await self._writing(work, StoreUnavailable)
        # Those who wait must look when it ends.
        self._bell.ring()
        assert lease is not None
        return Granted(lease, seconds)

    async def keep_alive(self, lease: int) -> float:
        def work(connection: SqliteConnection) -> float:
            self._end_leases(connection)
            row = connection.execute("SELECT seconds FROM leases WHERE id = ?", (lease,)).fetchone()
            if row is None:
                raise LeaseGone(f"lease {lease} has ended")
            seconds: float = row[0]
            connection.execute(
                "UPDATE leases SET runs_out = ? WHERE id = ?", (machine_seconds() + seconds, lease)
            )
            return seconds

        return await self._writing(work, StoreUnavailable)

    async def revoke(self, lease: int) -> None:
        await self._writing(lambda connection: self._end_lease(connection, lease))

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._bell.close()
            await self._file.close()

    def _apply(self, connection: SqliteConnection, transaction: Transaction) -> Committed | Refused:
        self._end_leases(connection)
        landed = connection.execute("SELECT revision FROM changes WHERE id = ?", (transaction.id,)).fetchone()
        if landed is not None:
            return Committed(landed[0])
        failed = first_failure(transaction.asserts, _touched_entries(connection, transaction))
        if failed is not None:
            return Refused(failed, _revision(connection))
        return Committed(self._advance(connection, transaction.id, transaction.updates))

    def _advance(self, connection: SqliteConnection, change_id: bytes, updates: tuple[Update, ...]) -> int:
        revision = _revision(connection) + 1
        for update in updates:
            connection.execute("DELETE FROM leased WHERE key = ?", (update.key,))
            if isinstance(update, Put):
                connection.execute(
                    "INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", (update.key, update.value, revision)
                )
                if update.lease is not None:
                    _put_under_lease(connection, update.key, update.lease)
            else:
                connection.execute("DELETE FROM entries WHERE key = ?", (update.key,))
        connection.execute("INSERT INTO changes VALUES (?, ?, ?)", (revision, change_id, _encode(updates)))
        connection.execute("DELETE FROM changes WHERE revision <= ?", (revision - self._history,))
        connection.execute("UPDATE head SET revision = ?", (revision,))
        return revision

    def _end_leases(self, connection: SqliteConnection) -> None:
        over = connection.execute(
            "SELECT id FROM leases WHERE runs_out <= ? OR boot <> ? ORDER BY runs_out, id",
            (machine_seconds(), self._boot),
        ).fetchall()
        for (lease,) in over:
            self._end_lease(connection, lease)

    def _end_lease(self, connection: SqliteConnection, lease: int) -> None:
        connection.execute("DELETE FROM leases WHERE id = ?", (lease,))
        rows = connection.execute("SELECT key FROM leased WHERE lease = ? ORDER BY key", (lease,)).fetchall()
        if rows:
            self._advance(connection, b"end of lease %d" % lease, tuple(Delete(key) for (key,) in rows))

    def _head_and_next_end(self, connection: SqliteConnection) -> tuple[int, float | None]:
        """Leases from before the machine was booted have ended long ago: minus infinity."""
        row = connection.execute(
            "SELECT min(CASE WHEN boot = ? THEN runs_out ELSE -9e999 END) FROM leases", (self._boot,)
        ).fetchone()
        return _revision(connection), row[0]

    async def _reading(self, work: Callable[[SqliteConnection], T]) -> T:
        try:
            return await self._file.read(work)
        except SqliteError as error:
            raise StoreUnavailable(f"cannot read the metadata store: {error}") from error

    async def _writing(
        self, work: Callable[[SqliteConnection], T], unclear: type[MetadataError] = OutcomeUnknown
    ) -> T:
        """`unclear` is what a failure is to the caller: COMMIT itself may have failed after the pages were
        written, so that nobody can tell whether it happened."""

        def moved(connection: SqliteConnection) -> tuple[T, bool]:
            before = _revision(connection)
            return work(connection), _revision(connection) > before

        try:
            outcome, news = await self._file.write(moved)
        except SqliteError as error:
            raise unclear(f"metadata transaction: {error}") from error
        if news:
            self._bell.ring()
        return outcome


def _revision(connection: SqliteConnection) -> int:
    revision: int = connection.execute("SELECT revision FROM head").fetchone()[0]
    return revision


def _put_under_lease(connection: SqliteConnection, key: str, lease: int) -> None:
    if connection.execute("SELECT 1 FROM leases WHERE id = ?", (lease,)).fetchone() is None:
        raise LeaseGone(f"lease {lease} has ended")
    connection.execute("INSERT INTO leased VALUES (?, ?)", (key, lease))


def _touched_entries(connection: SqliteConnection, transaction: Transaction) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for assertion in transaction.asserts:
        row = connection.execute(
            "SELECT value, revision FROM entries WHERE key = ?", (assertion.key,)
        ).fetchone()
        if row is not None:
            found[assertion.key] = Entry(row[0], row[1])
    return found


class _Written(msgspec.Struct, array_like=True, omit_defaults=True):
    """An update as it is kept; a deletion has no value."""

    key: str
    value: bytes | None
    lease: int | None = None


def _encode(updates: tuple[Update, ...]) -> bytes:
    return msgspec.msgpack.encode(
        [
            _Written(update.key, update.value, update.lease)
            if isinstance(update, Put)
            else _Written(update.key, None)
            for update in updates
        ]
    )


def _decode(data: bytes) -> tuple[Update, ...]:
    return tuple(
        Delete(written.key) if written.value is None else Put(written.key, written.value, written.lease)
        for written in msgspec.msgpack.decode(data, type=list[_Written])
    )
