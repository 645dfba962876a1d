"""A metadata store that takes its time, so that a simulated schedule can put others in between."""

from belvedere.meta.memory import MemoryStore
from belvedere.meta.store import Change, Committed, Loaded, Refused, Transaction
from belvedere.runtime.api import Runtime


class SlowStore:
    def __init__(self, runtime: Runtime, inner: MemoryStore) -> None:
        self._runtime = runtime
        self._inner = inner

    async def load(self) -> Loaded:
        await self._pause()
        return await self._inner.load()

    async def commit(self, transaction: Transaction) -> Committed | Refused:
        await self._pause()
        outcome = await self._inner.commit(transaction)
        await self._pause()
        return outcome

    async def changes_since(self, revision: int) -> list[Change]:
        await self._pause()
        changes = await self._inner.changes_since(revision)
        await self._pause()
        return changes

    async def wait_beyond(self, revision: int) -> None:
        await self._inner.wait_beyond(revision)

    async def close(self) -> None:
        await self._inner.close()

    async def _pause(self) -> None:
        await self._runtime.clock.sleep(self._runtime.random.random() / 100)
