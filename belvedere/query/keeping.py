"""Writes to tables that have materialized views: what changes, row by row, goes along in the same record.

What a write changes is computed from what is stored, so the partition must not change between that and the
writing: either both happen in one step, or the partition is held. And neither must the views: a write that
waited for a disk or for room checks again that what it computed is still all there is to say (`is_current`).

The rows before and after are compared as if time stood still at second 0, nothing expired: images carry
their own expiry, so what they say follows from what is stored alone, whatever a clock does.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from belvedere.model.mutations import Mutation, RangeDeletion, ViewUpdate
from belvedere.model.ordering import ABOVE
from belvedere.model.schema import Keyspace, Table
from belvedere.query.access import ViewKeeper, ViewMakers
from belvedere.query.errors import InvalidRequest, ServerError
from belvedere.storage.deletions import disjoint
from belvedere.storage.engine import Derive, StorageEngine, Write
from belvedere.storage.memtable import Merge
from belvedere.storage.reads import KeySlice, PartitionRead
from belvedere.storage.tablet import TabletStore
from belvedere.storage.tablet_changes import RowChange, touched

#: The second at which nothing has expired.
ALWAYS = 0
#: Of a deletion of more rows than these, the rows go in pieces, each with its view updates.
DELETED_AT_ONCE = 500

WriteOne = Callable[["KeptWrite"], Awaitable[None]]


class _NoMakers:
    """Of a table without views."""

    def __len__(self) -> int:
        return 0

    def updates(self, token: int, key: bytes, change: RowChange, version: int) -> list[ViewUpdate]:
        return []


class NoViews:
    """Stands in until somebody looks after views: tables that have some cannot be written."""

    def __init__(self, keyspaces: Callable[[], Mapping[str, Keyspace]]) -> None:
        self._keyspaces = keyspaces
        self._none = _NoMakers()

    def makers(self, table: Table) -> ViewMakers:
        keyspace = self._keyspaces().get(table.keyspace)
        if keyspace is not None and keyspace.views_of(table):
            raise ServerError(
                f"{table.full_name} cannot be written: it has materialized views, and nothing here keeps them"
            )
        return self._none

    def is_synchronous(self, table: Table) -> bool:
        return False

    def warnings(self, view: Table) -> tuple[str, ...]:
        raise InvalidRequest(f"Materialized view {view.full_name} cannot be read: nothing here keeps views")

    async def created(self, view: Table) -> None:
        """Nobody builds it."""

    async def truncate(self, base: Table, truncate: Callable[[], Awaitable[None]]) -> None:
        await truncate()


@dataclass(slots=True)
class KeptWrite:
    """A mutation and what it changes for the views of its table."""

    table: Table
    store: TabletStore
    mutation: Mutation
    makers: ViewMakers
    changes: Sequence[RowChange] = ()
    #: `store.upheavals` when the changes were computed.
    upheavals: int = 0

    def is_current(self, keeper: ViewKeeper) -> bool:
        makers = keeper.makers(self.table)
        if not makers:
            return True
        if self.store.truncating or self.upheavals != self.store.upheavals:
            return False
        return makers is self.makers

    def as_write(self) -> Write:
        return Write(self.store, self.mutation, self._derive if self.changes else None)

    def _derive(self, version: int) -> list[ViewUpdate]:
        return updates_of(self.makers, self.mutation, self.changes, version)


def updates_of(
    makers: ViewMakers, mutation: Mutation, changes: Sequence[RowChange], version: int
) -> list[ViewUpdate]:
    token, key = mutation.token, mutation.key
    return [update for change in changes for update in makers.updates(token, key, change, version)]


def write_kept_now(
    engine: StorageEngine, table: Table, store: TabletStore, mutation: Mutation, makers: ViewMakers
) -> int | None:
    """Write a mutation of a table with views if all that it needs to know is in memory, and not too much.
    Nothing can come between the computing and the writing."""
    if store.truncating or deletes_many(table, mutation):
        return None
    changes = store.changes_now(mutation, ALWAYS)
    if changes is None:
        return None
    derive: Derive | None = None
    known: Merge | None = None
    if len(changes) == 1:
        change = changes[0]
        known = change.merge
        if change.before is None or change.before != change.after or change.also:
            derive = partial(makers.updates, mutation.token, mutation.key, change)
    elif real := real_changes(changes):
        derive = partial(updates_of, makers, mutation, real)
    return engine.write_now(store, mutation, derive, known)


def kept_now(table: Table, store: TabletStore, mutation: Mutation, makers: ViewMakers) -> KeptWrite | None:
    """The write if all that it needs to know is in memory, and not too much."""
    if not makers:
        return KeptWrite(table, store, mutation, makers)
    if store.truncating or deletes_many(table, mutation):
        return None
    changes = store.changes_now(mutation, ALWAYS)
    if changes is None:
        return None
    return KeptWrite(table, store, mutation, makers, real_changes(changes), store.upheavals)


async def kept(
    table: Table, store: TabletStore, mutation: Mutation, makers: ViewMakers, write: WriteOne
) -> KeptWrite:
    """The write, with whatever waiting that takes; the partition is held. `write` writes a piece of a
    deletion of very many rows, and returns when the next one may come."""
    if not makers:
        return KeptWrite(table, store, mutation, makers)
    await store.truncated()
    slices = None
    if deletes_many(table, mutation):
        slices = await _delete_most(table, store, mutation, makers, write)
    upheavals = store.upheavals
    changes = real_changes(await store.changes(mutation, ALWAYS, slices))
    return KeptWrite(table, store, mutation, makers, changes, upheavals)


def deletes_many(table: Table, mutation: Mutation) -> bool:
    return bool(mutation.ranges or (mutation.deletion is not None and table.clustering))


def real_changes(changes: Sequence[RowChange]) -> list[RowChange]:
    """Those that change something for views. Where files are staged, a view may still show a row as it was
    before those: it hears of the row as it is even if this write leaves that as it was."""
    return [
        change
        for change in changes
        if change.before != change.after or any(row != change.after for row in change.also)
    ]


async def _delete_most(
    table: Table, store: TabletStore, mutation: Mutation, makers: ViewMakers, write: WriteOne
) -> tuple[KeySlice, ...]:
    """Delete all but the last few rows that a mutation deletes, as it would. Returns where the mutation
    still changes something.

    Readers may see some rows gone before others; that is the price of memory that does not grow with rows.
    """
    ranges = disjoint(mutation.ranges)
    if mutation.deletion is not None:
        ranges = disjoint([*ranges, RangeDeletion(b"", ABOVE, mutation.deletion)])
    left: list[RangeDeletion] = []
    few = 0
    for whole in ranges:
        start: bytes | None = whole.start
        while start is not None:
            read = PartitionRead(
                mutation.token, mutation.key, (KeySlice(start, whole.end),), limit=DELETED_AT_ONCE
            )
            found = await store.read(read, ALWAYS)
            if not found.more and few + len(found.rows) <= DELETED_AT_ONCE:
                left.append(RangeDeletion(start, whole.end, whole.deletion))
                few += len(found.rows)
                break
            end = found.rows[-1][0] + b"\0" if found.more else whole.end
            piece = RangeDeletion(start, end, whole.deletion)
            part = Mutation(table.id, mutation.token, mutation.key, [], ranges=[piece])
            upheavals = store.upheavals
            changes = real_changes(await store.changes(part, ALWAYS))
            if changes:
                await write(KeptWrite(table, store, part, makers, changes, upheavals))
            start = end if found.more else None
    return touched(Mutation(table.id, mutation.token, mutation.key, mutation.rows, ranges=left))
