"""Read, decide, write: partitions held while a statement or a batch looks at them and changes them."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from belvedere.model.mutations import Mutation
from belvedere.model.rows import Row, merge_rows
from belvedere.model.schema import Table
from belvedere.query.access import DataAccess, LockedPartition
from belvedere.storage.reads import PartitionRead, PartitionRows

if TYPE_CHECKING:
    from belvedere.query.modifications import Run

RowKey = tuple[bytes, bytes, bytes | None]


class LockedRows:
    """All partitions that a set of runs touches, locked; the rows that they look at, read."""

    def __init__(self, access: DataAccess, runs: "Sequence[Run]", now: int) -> None:
        self._access = access
        self._now = now
        self._keys: dict[bytes, tuple[Table, dict[bytes, None]]] = {}
        for run in runs:
            table = run.plan.table
            _, keys = self._keys.setdefault(table.id, (table, {}))
            keys.update((target.key, None) for target in run.targets)
        self._stack = AsyncExitStack()
        self._held: dict[bytes, LockedPartition] = {}
        #: The log position that everything read so far depends on.
        self.after = 0

    async def __aenter__(self) -> Self:
        try:
            # In the order of table ids, so that two batches never wait for each other.
            for table_id, (table, keys) in sorted(self._keys.items(), key=lambda item: item[0]):
                self._held[table_id] = await self._stack.enter_async_context(
                    self._access.lock(table, list(keys))
                )
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def read(self, table: Table, read: PartitionRead) -> PartitionRows:
        found = await self._held[table.id].read(read, self._now)
        self.after = max(self.after, found.after)
        return found

    async def write(self, mutations: Sequence[tuple[Table, Mutation]]) -> int:
        if not mutations:
            return self.after
        position = await next(iter(self._held.values())).write(mutations)
        return max(position, self.after)

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
