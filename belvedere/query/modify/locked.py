"""Read, decide, write: partitions held while a statement or a batch looks at them and changes them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from belvedere.model.mutations import Mutation
from belvedere.model.rows import Row, merge_rows
from belvedere.model.schema import Table
from belvedere.query.access import DataAccess, LockedPartitions
from belvedere.storage.reads import PartitionRead, PartitionRows

if TYPE_CHECKING:
    from belvedere.query.modify.plan import Run

RowKey = tuple[bytes, bytes, bytes | None]


@asynccontextmanager
async def locked_rows(access: DataAccess, runs: "Sequence[Run]", now: int) -> AsyncIterator["LockedRows"]:
    """Hold all partitions that a set of runs touches."""
    partitions = [(run.plan.table, target.key) for run in runs for target in run.targets]
    async with access.lock(partitions) as held:
        yield LockedRows(held, now)


class LockedRows:
    """Partitions that are held, and the rows read from them."""

    def __init__(self, held: LockedPartitions, now: int) -> None:
        self._held = held
        self._now = now
        #: The log position that everything read so far depends on.
        self.after = 0

    async def read(self, table: Table, read: PartitionRead) -> PartitionRows:
        found = await self._held.read(table, read, self._now)
        self.after = max(self.after, found.after)
        return found

    async def write(self, mutations: Sequence[tuple[Table, Mutation]]) -> int:
        if not mutations:
            return self.after
        return max(await self._held.write(mutations), self.after)

    async def settle(self, runs: "Sequence[Run]") -> list[tuple[Table, Mutation]]:
        """The mutations of all runs. Each counter update sees the ones before it in the same batch."""
        existing: dict[RowKey, Row] = {}
        seen: set[RowKey] = set()
        made: list[tuple[Table, Mutation]] = []
        for run in runs:
            if run.plan.needs_read:
                await self._read_rows(run, existing, seen)
            mutations = run.mutations(existing)
            if run.plan.is_counter:
                _remember(mutations, existing)
            made.extend(mutations)
        return made

    async def _read_rows(self, run: "Run", existing: dict[RowKey, Row], seen: set[RowKey]) -> None:
        table = run.plan.table
        for target in run.targets:
            for key in target.rows or (None,):
                row_key = (table.id, target.key, key)
                if row_key in seen:
                    continue
                seen.update((row_key, (table.id, target.key, None)))
                found = await self.read(table, _row_read(target.token, target.key, key))
                if found.static is not None:
                    existing.setdefault((table.id, target.key, None), found.static)
                if key is not None and found.rows:
                    existing[row_key] = found.rows[0][1]


def _row_read(token: int, key: bytes, row: bytes | None) -> PartitionRead:
    """One row with the static cells, or the static cells alone."""
    if row is None:
        return PartitionRead(token, key, limit=1)
    return PartitionRead(token, key, row=row)


def _remember(mutations: Sequence[tuple[Table, Mutation]], existing: dict[RowKey, Row]) -> None:
    for table, mutation in mutations:
        changed: list[tuple[bytes | None, Row | None]] = [*mutation.rows, (None, mutation.static)]
        for key, row in changed:
            if row is None:
                continue
            row_key = (table.id, mutation.key, key)
            known = existing.get(row_key)
            existing[row_key] = row if known is None else merge_rows(known, row)
