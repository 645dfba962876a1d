"""The metadata store in memory: for tests and simulation. It outlives the nodes that use it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from belvedere.meta.store import (
    Change,
    Committed,
    Compacted,
    Delete,
    Entry,
    Granted,
    LeaseGone,
    Loaded,
    Put,
    Refused,
    Transaction,
    Update,
    first_failure,
    fold,
)
from belvedere.runtime.machine_clock import loop_seconds


@dataclass(slots=True)
class _Lease:
    seconds: float
    runs_out: float
    #: A dict for its order: a set of strings has another one in each process.
    keys: dict[str, None] = field(default_factory=dict)


class MemoryStore:
    """Keeps the last `history` changes for followers; older ones are compacted away.

    No task of its own ends leases: each call, and whoever waits, first ends those that have run out.
    """

    def __init__(self, history: int = 1000, now: Callable[[], float] = loop_seconds) -> None:
        self._now = now
        self._entries: dict[str, Entry] = {}
        self._revision = 0
        self._changes: list[Change] = []
        self._history = history
        self._landed: dict[bytes, int] = {}
        self._leases: dict[int, _Lease] = {}
        self._granted = 0
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def revision(self) -> int:
        return self._revision

    async def load(self) -> Loaded:
        self._end_leases()
        return Loaded(self._revision, dict(self._entries))

    async def commit(self, transaction: Transaction) -> Committed | Refused:
        return self.apply(transaction)

    def apply(self, transaction: Transaction) -> Committed | Refused:
        """`commit`, at once."""
        self._end_leases()
        landed = self._landed.get(transaction.id)
        if landed is not None:
            return Committed(landed)
        failed = first_failure(transaction.asserts, self._entries)
        if failed is not None:
            return Refused(failed, self._revision)
        for update in transaction.updates:
            if isinstance(update, Put) and update.lease is not None:
                self._lease(update.lease)
        self._advance(transaction.updates)
        self._landed[transaction.id] = self._revision
        return Committed(self._revision)

    async def changes_since(self, revision: int) -> list[Change]:
        self._end_leases()
        return self.history(revision)

    def history(self, revision: int) -> list[Change]:
        """`changes_since`, at once."""
        if revision >= self._revision:
            return []
        if not self._changes or self._changes[0].revision > revision + 1:
            raise Compacted(f"changes after revision {revision} are no longer kept")
        return [change for change in self._changes if change.revision > revision]

    async def wait_beyond(self, revision: int) -> None:
        self._end_leases()
        while self._revision <= revision:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            ends = min((lease.runs_out for lease in self._leases.values()), default=None)
            try:
                async with asyncio.timeout(None if ends is None else max(0.0, ends - self._now())):
                    await waiter
            except TimeoutError:
                self._end_leases()

    async def grant(self, seconds: float) -> Granted:
        self._end_leases()
        self._granted += 1
        self._leases[self._granted] = _Lease(seconds, self._now() + seconds)
        # Those who wait must look when it ends.
        self._ring()
        return Granted(self._granted, seconds)

    async def keep_alive(self, lease: int) -> float:
        self._end_leases()
        kept = self._lease(lease)
        kept.runs_out = self._now() + kept.seconds
        return kept.seconds

    async def revoke(self, lease: int) -> None:
        self._end_leases()
        if lease in self._leases:
            self._end(lease)

    async def close(self) -> None:
        self._ring()

    def _lease(self, lease: int) -> _Lease:
        found = self._leases.get(lease)
        if found is None:
            raise LeaseGone(f"lease {lease} has ended")
        return found

    def _end_leases(self) -> None:
        now = self._now() if self._leases else 0.0
        for lease in [number for number, lease in self._leases.items() if lease.runs_out <= now]:
            self._end(lease)

    def _end(self, lease: int) -> None:
        keys = self._leases.pop(lease).keys
        if keys:
            self._advance(tuple(Delete(key) for key in keys))

    def _advance(self, updates: tuple[Update, ...]) -> None:
        self._revision += 1
        self._entries = fold(self._entries, self._revision, updates)
        for update in updates:
            for lease in self._leases.values():
                lease.keys.pop(update.key, None)
            if isinstance(update, Put) and update.lease is not None:
                self._leases[update.lease].keys[update.key] = None
        self._changes.append(Change(self._revision, updates))
        del self._changes[: -self._history]
        self._ring()

    def _ring(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
