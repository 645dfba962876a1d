"""What a tablet's writes have to deliver elsewhere: images to views, and other parts of batches.

Deliveries are part of the log record that causes them, so they are as durable as it is. Whoever is primary
brings them to where they belong, again and again until that is acknowledged; doing it twice changes nothing,
since images are stamped by the record's version and parts of a batch have their write times. How far it got,
later records say (`delivered`), so a new primary begins where the old one was, or a little before. Every
replica keeps in mind what is open. The number of records is bounded: beyond that, writes are refused.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from belvedere.model.mutations import Mutation, ReplicatedWrite
from belvedere.query.view_rows import stamp
from belvedere.runtime.api import Runtime, TaskHandle

#: Records with something to deliver, beyond which writes are refused.
MOST_OPEN = 900
#: Records whose deliveries are under way at once.
_AT_ONCE = 128
#: Before what was not delivered is tried again, in seconds, and between looks whether this replica is
#: primary.
_PAUSE, _LOOK = 0.1, 0.3
#: How long nothing must be open before a record of its own says so.
_IDLE = 1.0

#: Bring a mutation to the tablet that it belongs to, with the latest write time that it may have, and the
#: tablet that it was for when it was written, if that counts; False if nobody knows whether it arrived.
Deliver = Callable[[Mutation, int, int | None], Awaitable[bool]]


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
        #: By version, in their order.
        self._open: dict[int, ReplicatedWrite] = {}
        self._newest = 0
        #: The newest that had something to deliver, and what a record has said of how far deliveries are.
        self._newest_open = self._said = 0
        self._running: dict[int, TaskHandle] = {}
        #: These wait to be tried again.
        self._failed: set[int] = set()
        self._cancel_retry: Callable[[], None] | None = None
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
        return next(iter(self._open)) - 1 if self._open else self._newest

    def learn(self, version: int, write: ReplicatedWrite) -> None:
        """A record is committed: in the order of versions."""
        self._newest = max(self._newest, version)
        if write.delivered > self._said:
            self._said = write.delivered
            self._forget([open_ for open_ in self._open if open_ <= write.delivered])
            self._keep_from(write.delivered)
        if write.views or write.others:
            self._open[version] = write
            self._newest_open = version
            self._deliver_some()

    def begin_anew(self) -> None:
        """All that was learnt came from a log that is gone."""
        self._forget(list(self._open))
        self._newest = self._newest_open = self._said = 0

    async def all_delivered(self) -> None:
        """Return when everything that is open now has arrived, by whomever."""
        if not self._open:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((max(self._open), waiter))
        await waiter

    async def close(self) -> None:
        self._closed = True
        if self._cancel_retry is not None:
            self._cancel_retry()
        tasks = list(self._running.values())
        if self._marker is not None:
            tasks.append(self._marker)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(Exception):  # It is in the log.
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

    def _deliver_some(self) -> None:
        if self._closed or not self._open:
            return
        if not self._may_deliver():
            self._retry_in(_LOOK)
            return
        for version in self._open:
            if len(self._running) >= _AT_ONCE:
                break
            if version not in self._running and version not in self._failed:
                work = self._deliver_record(version, self._open[version])
                self._running[version] = self._runtime.spawn("outbox.deliver", work)

    def _retry_in(self, seconds: float) -> None:
        if self._cancel_retry is None:
            self._cancel_retry = self._runtime.call_later(seconds, self._retry)

    def _retry(self) -> None:
        self._cancel_retry = None
        self._failed.clear()
        self._deliver_some()

    async def _deliver_record(self, version: int, write: ReplicatedWrite) -> None:
        well = False
        try:
            if pause := self._runtime.buggify("outbox.deliver"):
                await pause
            well = await self._deliver_all(version, write)
        except Exception as error:
            self._runtime.log("error", "outbox.delivery_failed", version=version, error=repr(error))
        finally:
            self._running.pop(version, None)
        if not well:
            self._failed.add(version)
            self._retry_in(_PAUSE)
        elif version in self._open:
            self._forget([version])
        self._deliver_some()
        if not self._open and not self._closed and (self._marker is None or self._marker.done()):
            self._marker = self._runtime.spawn("outbox.mark", self._mark_when_idle())

    async def _deliver_all(self, version: int, write: ReplicatedWrite) -> bool:
        """Write times of other parts of a batch lie up to the version of its record."""
        images = [self._deliver(stamp(update.mutation, version), 0, None) for update in write.views]
        parts = [
            self._deliver(other, version, target)
            for other, target in zip(write.others, write.targets, strict=True)
        ]
        return all(await asyncio.gather(*images, *parts))

    async def _mark_when_idle(self) -> None:
        """So that the log need not be kept for what arrived long ago."""
        while not self._closed and not self._open and self._said < self._newest_open:
            newest = self._newest
            await self._runtime.clock.sleep(_IDLE)
            if newest == self._newest and not self._open and self._may_deliver():
                await self._write_mark()
