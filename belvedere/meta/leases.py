"""A lease as its holder sees it: by its own clock, and always shorter than the store does."""

import asyncio
import math
from typing import Self

from belvedere.meta.store import Granted, LeaseGone, MetadataStore, OutcomeUnknown, StoreUnavailable
from belvedere.runtime.api import Runtime, TaskHandle

#: The share of a lease that its holder does without. It covers clocks that run at different speeds and the
#: time between a look at `valid` and what is done upon it.
_MARGIN = 0.1


class Lease:
    """Renewed in the background until it is lost or ended.

    `valid_until` counts from the moment a request was *sent*; the store counts from some moment after that.
    So the holder stops first, whether the answer was slow, the store is away, or the whole process was
    stopped and never noticed. What is done on the strength of a lease asks `valid` anew each time.
    """

    def __init__(self, runtime: Runtime, store: MetadataStore, granted: Granted, sent: float) -> None:
        self._runtime = runtime
        self._store = store
        self._seconds = granted.seconds
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper: TaskHandle | None = None
        self.id = granted.lease
        self.valid_until = sent + granted.seconds * (1 - _MARGIN)

    @classmethod
    async def take(cls, runtime: Runtime, store: MetadataStore, seconds: float) -> Self:
        sent = runtime.clock.monotonic()
        lease = cls(runtime, store, await store.grant(seconds), sent)
        lease._keeper = runtime.spawn("lease", lease._keep())
        return lease

    @property
    def valid(self) -> bool:
        return self._runtime.clock.monotonic() < self.valid_until

    async def lost(self) -> None:
        """Return when the lease is gone for good. It may stop being valid long before that, and may become
        valid again: then nobody else had anything of it meanwhile."""
        await asyncio.shield(self._lost)

    async def end(self) -> None:
        """Give it back: what was put under it goes at once, if the store can be reached."""
        self.abandon()
        try:
            async with asyncio.timeout(self._seconds):
                await self._store.revoke(self.id)
        except (StoreUnavailable, OutcomeUnknown, TimeoutError):
            # It runs out by itself.
            return

    def abandon(self) -> None:
        """Stop renewing it: it runs out by itself, and what was put under it stays until then."""
        self._lose()
        if self._keeper is not None:
            self._keeper.cancel()

    async def renew(self) -> None:
        """Once, now. Raises LeaseGone, or what the store said when it did not answer."""
        sent = self._runtime.clock.monotonic()
        try:
            seconds = await self._store.keep_alive(self.id)
        except LeaseGone:
            self._lose()
            raise
        if not self._lost.done():
            self.valid_until = max(self.valid_until, sent + seconds * (1 - _MARGIN))

    async def _keep(self) -> None:
        pause = self._seconds / 3
        while not self._lost.done():
            await self._runtime.clock.sleep(pause)
            try:
                async with asyncio.timeout(self._seconds / 3):
                    await self.renew()
                pause = self._seconds / 3
            except LeaseGone:
                self._runtime.log("warning", "lease.lost", lease=self.id)
            except (StoreUnavailable, OutcomeUnknown, TimeoutError) as error:
                self._runtime.log("warning", "lease.not_renewed", lease=self.id, error=str(error))
                pause = self._seconds / 20

    def _lose(self) -> None:
        self.valid_until = -math.inf
        if not self._lost.done():
            self._lost.set_result(None)
