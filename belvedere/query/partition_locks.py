"""Locks over partitions for read-modify-write. Whoever only writes waits until a lock is gone, no longer."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

#: Table id and partition key.
Partition = tuple[bytes, bytes]
_Waiter = asyncio.Future[None]


class PartitionLocks:
    """Fair: those who wait for a partition get it in the order in which they came."""

    def __init__(self) -> None:
        #: Partitions held, each with those who wait for it.
        self._waiting: dict[Partition, deque[_Waiter]] = {}

    @property
    def held(self) -> int:
        return len(self._waiting)

    def is_held(self, partition: Partition) -> bool:
        return partition in self._waiting

    @asynccontextmanager
    async def hold(self, partitions: Iterable[Partition]) -> AsyncIterator[None]:
        """Partitions are taken in one order of all, so that two holders never wait for each other."""
        taken: list[Partition] = []
        try:
            for partition in sorted(set(partitions)):
                await self._acquire(partition)
                taken.append(partition)
            yield
        finally:
            for partition in taken:
                self._release(partition)

    async def _acquire(self, partition: Partition) -> None:
        queue = self._waiting.get(partition)
        if queue is None:
            self._waiting[partition] = deque()
            return
        waiter: _Waiter = asyncio.get_running_loop().create_future()
        queue.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            # Either the lock had just been handed to us, or the next release passes over our place.
            if not waiter.cancel() and not waiter.cancelled():
                self._release(partition)
            raise

    def _release(self, partition: Partition) -> None:
        """Hand the lock to the first who still waits, or free it."""
        queue = self._waiting[partition]
        while queue:
            waiter = queue.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        del self._waiting[partition]
