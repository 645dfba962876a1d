"""Locks over partitions for read-modify-write. Whoever only writes waits until a lock is gone, no longer."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

_Partition = tuple[bytes, bytes]
_Waiter = asyncio.Future[None]


class PartitionLocks:
    """Fair: waiters, holders-to-be and writers alike, go in the order in which they came."""

    def __init__(self) -> None:
        #: Partitions held, each with those who wait for it.
        self._waiting: dict[_Partition, deque[_Waiter]] = {}

    @property
    def held(self) -> int:
        return len(self._waiting)

    def is_held(self, table: bytes, key: bytes) -> bool:
        return (table, key) in self._waiting

    @asynccontextmanager
    async def hold(self, table: bytes, keys: Sequence[bytes]) -> AsyncIterator[None]:
        """Partitions are taken in key order, so that two holders never wait for each other."""
        taken: list[_Partition] = []
        try:
            for key in sorted(set(keys)):
                await self._acquire((table, key))
                taken.append((table, key))
            yield
        finally:
            for partition in taken:
                self._release(partition)

    async def wait_free(self, table: bytes, key: bytes) -> None:
        partition = (table, key)
        if partition in self._waiting:
            await self._acquire(partition)
            self._release(partition)

    async def _acquire(self, partition: _Partition) -> None:
        queue = self._waiting.get(partition)
        if queue is None:
            self._waiting[partition] = deque()
            return
        waiter: _Waiter = asyncio.get_running_loop().create_future()
        queue.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._release(partition)  # The lock had just been handed to us.
            else:
                queue.remove(waiter)
            raise

    def _release(self, partition: _Partition) -> None:
        """Hand the lock to the first who still waits, or free it."""
        queue = self._waiting[partition]
        while queue:
            waiter = queue.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        del self._waiting[partition]
