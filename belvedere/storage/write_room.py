"""Memory for writes: flushes begin before it is used up, and beyond twice the limit writers wait."""

import asyncio
from collections import deque
from collections.abc import Mapping

from belvedere.storage.background import Background
from belvedere.storage.errors import StorageError, WritesRefused
from belvedere.storage.memtable import MemoryUse
from belvedere.storage.tablet import TabletStore


class WriteRoom:
    def __init__(
        self, stores: Mapping[int, TabletStore], memory: MemoryUse, limit: int, background: Background
    ) -> None:
        self._stores = stores
        self._memory = memory
        self._limit = limit
        self._background = background
        self._waiting: deque[asyncio.Future[None]] = deque()

    def is_there(self) -> bool:
        return self._memory.used <= self._limit or self.make()

    def make(self) -> bool:
        """Begin to flush the largest memtable if need be. False if writes have to wait for a flush."""
        memory = self._memory
        if memory.used - memory.frozen > self._limit:
            largest = max(self._stores.values(), key=lambda store: store.active_bytes)
            if largest.freeze():
                self._background.flush_soon(largest)
        if memory.used <= 2 * self._limit:
            return True
        self._flush_frozen()
        return False

    def _flush_frozen(self) -> None:
        """Also what a failed flush or truncation set aside."""
        for store in self._stores.values():
            if store.frozen_count:
                self._background.flush_soon(store)

    async def wait(self) -> None:
        while not self.is_there():
            failure = self._background.flush_failure
            if failure is not None:
                raise _refused(failure)
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def flush_failed(self, failure: Exception) -> None:
        self.fail(_refused(failure))

    def wake(self) -> None:
        """There is more room than before."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def fail(self, error: StorageError) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(error)


def _refused(failure: Exception) -> WritesRefused:
    return WritesRefused(f"memory for writes is used up and flushing fails: {failure}")
