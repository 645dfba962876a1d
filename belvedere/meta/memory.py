"""The metadata store in memory: for tests and simulation. It outlives the nodes that use it."""

import asyncio

from belvedere.meta.store import (
    Change,
    Committed,
    Compacted,
    Entry,
    Loaded,
    Refused,
    Transaction,
    first_failure,
    fold,
)


class MemoryStore:
    """Keeps the last `history` changes for followers; older ones are compacted away."""

    def __init__(self, history: int = 1000) -> None:
        self._entries: dict[str, Entry] = {}
        self._revision = 0
        self._changes: list[Change] = []
        self._history = history
        self._landed: dict[bytes, int] = {}
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def revision(self) -> int:
        return self._revision

    async def load(self) -> Loaded:
        return Loaded(self._revision, dict(self._entries))

    async def commit(self, transaction: Transaction) -> Committed | Refused:
        landed = self._landed.get(transaction.id)
        if landed is not None:
            return Committed(landed)
        failed = first_failure(transaction.asserts, self._entries)
        if failed is not None:
            return Refused(failed, self._revision)
        self._revision += 1
        self._entries = fold(self._entries, self._revision, transaction.updates)
        self._changes.append(Change(self._revision, transaction.updates))
        del self._changes[: -self._history]
        self._landed[transaction.id] = self._revision
        self._ring()
        return Committed(self._revision)

    async def changes_since(self, revision: int) -> list[Change]:
        if revision >= self._revision:
            return []
        if not self._changes or self._changes[0].revision > revision + 1:
            raise Compacted(f"changes after revision {revision} are no longer kept")
        return [change for change in self._changes if change.revision > revision]

    async def wait_beyond(self, revision: int) -> None:
        while self._revision <= revision:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    async def close(self) -> None:
        self._ring()

    def _ring(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
