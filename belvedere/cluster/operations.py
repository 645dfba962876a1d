"""Operations in flight on this node, by the metadata snapshot that they began under, and whether any may
begin.

Only what waits in between needs to be counted: an operation that begins and ends within one step of the event
loop is never in flight when somebody looks. Whether this node may serve at all is asked before each
operation, or once for many that run within one step.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from belvedere.meta.leases import Lease
from belvedere.meta.state import ClusterState
from belvedere.runtime.api import Runtime


class Fenced(Exception):
    """This node may not serve: it is starting or stopping, or its lease has run out."""


class Operations:
    def __init__(self, runtime: Runtime) -> None:
        self._now = runtime.clock.monotonic
        self._counts: dict[int, int] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._lease: Lease | None = None

    # --- whether operations may begin ----------------------------------------------------------------

    def open(self, lease: Lease) -> None:
        """Serve while this lease is valid."""
        self._lease = lease

    def close(self) -> None:
        self._lease = None

    @property
    def allowed(self) -> bool:
        return self._lease is not None and self._lease.valid

    def check(self) -> None:
        """Asked for every read and write: what `allowed` says, with as few calls as can be."""
        lease = self._lease
        if lease is None:
            raise Fenced("this node is not a member of the cluster at the moment")
        if self._now() >= lease.valid_until:
            raise Fenced("this node has no valid lease: the metadata store cannot be reached")

    # --- counting ------------------------------------------------------------------------------------

    def begin(self, revision: int) -> None:
        """Whoever begins ends, with the same revision."""
        counts = self._counts
        counts[revision] = counts.get(revision, 0) + 1

    def end(self, revision: int) -> None:
        counts = self._counts
        left = counts[revision] - 1
        if left:
            counts[revision] = left
        else:
            del counts[revision]
            if self._waiting:
                self._tell()

    @contextmanager
    def under(self, state: ClusterState) -> Iterator[None]:
        """An operation that takes this snapshot and uses it to its end. Raises Fenced."""
        self.check()
        revision = state.revision
        self.begin(revision)
        try:
            yield
        finally:
            self.end(revision)

    @property
    def count(self) -> int:
        return sum(self._counts.values())

    @property
    def oldest(self) -> int | None:
        """The oldest snapshot that an operation in flight began under."""
        return min(self._counts, default=None)

    async def none_before(self, revision: int) -> None:
        """Return once no operation is in flight that began under an older snapshot. Only of use when none
        can begin under one any more."""
        while (oldest := self.oldest) is not None and oldest < revision:
            await self._some_ended()

    async def none(self) -> None:
        while self._counts:
            await self._some_ended()

    async def _some_ended(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
