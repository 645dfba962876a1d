"""Brings operations to the replica that is to carry them out, from whichever node a client asked.

What was certainly not begun is tried again: with newer metadata after StaleEpoch, in a moment after
NotServing. A write that may have been begun is never repeated: no answer in time means unknown.
"""

import asyncio
from collections.abc import Callable

from belvedere.cluster.configuration import Level
from belvedere.cluster.host import Host
from belvedere.cluster.messages import (
    Kind,
    NotServing,
    Outcome,
    Overloaded,
    Reply,
    Request,
    StaleEpoch,
    Unknown,
)
from belvedere.meta.metadata import Metadata
from belvedere.meta.state import ClusterState, Tablet
from belvedere.meta.store import StoreUnavailable
from belvedere.runtime.api import Runtime

#: Between tries while a tablet has nobody who serves, in seconds.
_PAUSE = 0.05
#: How long one try of a read may take: a read is tried again whatever became of it.
_READ_TRY = 2.0
#: Operations under way from one node.
_MOST = 65_536


class Router:
    def __init__(self, runtime: Runtime, host: Host, metadata: Metadata, incarnation: int) -> None:
        self._runtime = runtime
        self._host = host
        self._metadata = metadata
        self._incarnation = incarnation
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Outcome]] = {}
        host.on_reply = self._on_reply

    async def ask(
        self,
        find: Callable[[ClusterState], Tablet | None],
        kind: str,
        level: Level,
        body: bytes,
        patience: float,
    ) -> Outcome:
        """`find` names the tablet in a snapshot of the metadata: each try looks at the newest. What comes
        back is Done, Unavailable, Overloaded or Unknown; or NotServing, if no try found anybody serving. Of a
        read, Unknown means only that nobody answered."""
        clock = self._runtime.clock
        until = clock.monotonic() + patience
        is_read = kind in (Kind.READ, Kind.FRESH)
        refused: Outcome = NotServing("the tablet does not exist")
        while True:
            left = until - clock.monotonic()
            if left <= 0:
                return refused
            state = self._metadata.state
            tablet = find(state)
            if tablet is None:
                # Who asks has known it: it is gone.
                return refused
            target = self._target(tablet, kind, level)
            if is_read:
                left = min(left, _READ_TRY)
            outcome = await self._try(target, tablet, kind, level, body, left)
            if isinstance(outcome, StaleEpoch):
                refused = NotServing("the tablet's configuration changes")
                await self._catch_up(outcome.revision, until)
                continue
            again = isinstance(outcome, NotServing)
            if not again and not (is_read and isinstance(outcome, Unknown)):
                return outcome
            refused = outcome
            await clock.sleep(_PAUSE * (1.0 + self._runtime.random.random()))

    def _target(self, tablet: Tablet, kind: str, level: Level) -> str:
        if kind != Kind.READ or level is not Level.ONE:
            return tablet.primary
        if self._host.node in tablet.in_sync:
            return self._host.node
        return tablet.in_sync[self._runtime.random.randint(0, len(tablet.in_sync) - 1)]

    async def _try(
        self, target: str, tablet: Tablet, kind: str, level: Level, body: bytes, patience: float
    ) -> Outcome:
        if len(self._waiting) >= _MOST:
            return Overloaded()
        self._number += 1
        number = self._number
        request = Request(
            tablet.id, tablet.epoch, tablet.revision, self._incarnation, number, kind, level, body
        )
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        cancel = self._runtime.call_later(
            patience, lambda: self._settle(number, Unknown("no answer in time"))
        )
        try:
            self._host.send(target, request)
            return await answer
        finally:
            cancel()
            self._waiting.pop(number, None)

    def _on_reply(self, reply: Reply) -> None:
        if reply.incarnation == self._incarnation:
            self._settle(reply.number, reply.outcome)

    def _settle(self, number: int, outcome: Outcome) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(outcome)

    async def _catch_up(self, revision: int, until: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, until - self._runtime.clock.monotonic())):
                if self._metadata.state.revision < revision:
                    await self._metadata.catch_up(revision)
                else:
                    # This node is ahead of the one that answered.
                    await self._runtime.clock.sleep(_PAUSE)
        except (StoreUnavailable, TimeoutError):
            await self._runtime.clock.sleep(_PAUSE)
