"""What a tablet's writes have to deliver elsewhere: images to views, and other parts of batches.

Deliveries are part of the log record that causes them, so they are as durable as it is. Whoever is primary
brings them to where they belong, again and again until that is acknowledged; doing it twice changes nothing,
since images are stamped by the record's version and parts of a batch have their write times. How far it got,
later records say (`delivered`), so a new primary begins where the old one was, or a little before. Every
replica keeps in mind what is open. The number of records is bounded: beyond that, writes are refused.
"""

import asyncio
from collections.abc import Awaitable, Callable

from belvedere.model.mutations import Mutation, ReplicatedWrite
from belvedere.query.view_rows import stamp
from belvedere.runtime.api import Runtime, TaskHandle

#: Records with something to deliver, beyond which writes are refused.
MOST_OPEN = 900
#: Records whose deliveries are under way at once.
_AT_ONCE = 32
#: Between looks whether this replica is primary by now, in seconds.
_LOOK = 0.3
#: After a delivery that failed.
_PAUSE = 0.1
#: How long nothing must be open before a record of its own says so.
_IDLE = 1.0

#: Bring a mutation to the tablet that it belongs to, and the latest write time that it may have; False if
#: nobody knows whether it arrived.
Deliver = Callable[[Mutation, int], Awaitable[bool]]


class Outbox:
    def __init__(
        self,
        runtime: Runtime,
        deliver: Deliver,
        may_deliver: Callable[[], bool],
        keep_from: Callable[[int], None],
        write_mark: Callable[[], Awaitable[None]],
    ) -> None:
        self._runtime = runtime
        self._deliver = deliver
        #: Whether this replica is the primary.
        self._may_deliver = may_deliver
        self._keep_from = keep_from
        self._write_mark = write_mark
        self._open: dict[int, ReplicatedWrite] = {}
        self._newest = 0
        #: What a record has said of how far deliveries are.
        self._said = 0
        self._worker: TaskHandle | None = None
        self._marker: TaskHandle | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._closed = False

    @property
    def is_full(self) -> bool:
        return len(self._open) >= MOST_OPEN

    @property
    def count(self) -> int:
        return len(self._open)

    @property
    def delivered(self) -> int:
        """Everything up to this version has arrived."""
        return min(self._open) - 1 if self._open else self._newest

    def learn(self, version: int, write: ReplicatedWrite) -> None:
        """A record is committed: in the order of versions."""
        self._newest = max(self._newest, version)
        if write.delivered > self._said:
            self._said = write.delivered
            self._forget([open_ for open_ in self._open if open_ <= write.delivered])
            self._keep_from(write.delivered)
        if write.views or write.others:
            self._open[version] = write
            if not self._closed and (self._worker is None or self._worker.done()):
                self._worker = self._runtime.spawn("outbox.deliver", self._work())

    def begin_anew(self) -> None:
        """All that was learnt came from a log that is gone."""
        self._forget(list(self._open))
        self._newest = self._said = 0

    async def all_delivered(self) -> None:
        """Return when everything that is open now has arrived, by whomever."""
        if not self._open:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((max(self._open), waiter))
        await waiter

    async def close(self) -> None:
        self._closed = True
        for task in (self._worker, self._marker):
            if task is not None:
                task.cancel()
                await task.wait()
        for _, waiter in self._waiting:
            waiter.cancel()

    def _forget(self, versions: list[int]) -> None:
        for version in versions:
            del self._open[version]
        reached = self.delivered
        for version, waiter in self._waiting:
            if version <= reached and not waiter.done():
                waiter.set_result(None)
        self._waiting = [one for one in self._waiting if not one[1].done()]

    async def _work(self) -> None:
        while self._open and not self._closed:
            if not self._may_deliver():
                await self._runtime.clock.sleep(_LOOK)
                continue
            if pause := self._runtime.buggify("outbox.deliver"):
                await pause
            versions = list(self._open)[:_AT_ONCE]
            arrived = await asyncio.gather(
                *(self._deliver_all(version, self._open[version]) for version in versions)
            )
            done = [version for version, well in zip(versions, arrived, strict=True) if well]
            self._forget([version for version in done if version in self._open])
            if len(done) < len(versions):
                await self._runtime.clock.sleep(_PAUSE)
        if not self._closed and (self._marker is None or self._marker.done()):
            self._marker = self._runtime.spawn("outbox.mark", self._mark_when_idle())

    async def _deliver_all(self, version: int, write: ReplicatedWrite) -> bool:
        """Write times of other parts of a batch lie up to the version of its record."""
        images = [self._deliver(stamp(update.mutation, version), 0) for update in write.views]
        return all(await asyncio.gather(*images, *(self._deliver(other, version) for other in write.others)))

    async def _mark_when_idle(self) -> None:
        """So that the log need not be kept for what arrived long ago."""
        while not self._closed and not self._open and self._said < self.delivered:
            newest = self._newest
            await self._runtime.clock.sleep(_IDLE)
            if newest == self._newest and not self._open and self._may_deliver():
                await self._write_mark()
                return
