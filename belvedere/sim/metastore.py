"""A metadata store that many simulated nodes reach over a bad line: slow, away, or silent after a commit.

The store itself is one `MemoryStore` that outlives the nodes; a request, once sent, arrives whatever becomes
of its sender. All draws come from the world's seed.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from belvedere.meta.memory import MemoryStore
from belvedere.meta.store import (
    Change,
    Committed,
    Granted,
    LeaseGone,
    Loaded,
    MetadataError,
    OutcomeUnknown,
    Refused,
    StoreUnavailable,
    Transaction,
)
from belvedere.sim.randomness import between, stream
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World

T = TypeVar("T")


@dataclass
class StoreFaults:
    """How likely each is, per request. A scenario may change them at any moment."""

    #: Turned away before anything happened.
    unavailable: float = 0.0
    #: Lost on the way there.
    lost: float = 0.0
    #: Carried out, and the answer lost.
    landed: float = 0.0
    #: Carried out long after the sender has given up.
    late: float = 0.0
    #: One way, in seconds; spread evenly in orders of magnitude, times a factor that each node has.
    delay: tuple[float, float] = (50e-6, 10e-3)
    #: When a sender gives up.
    patience: float = 2.0
    #: How late is late, after the sender gave up.
    latest: float = 10.0


class MetadataService:
    """The far end. `away` cuts everybody off, `cut_off` single machines; both may change at any moment."""

    def __init__(
        self, world: World, inner: MemoryStore | None = None, faults: StoreFaults | None = None
    ) -> None:
        self.world = world
        self.inner = inner or MemoryStore()
        self.faults = faults or StoreFaults()
        self.away = False
        self.cut_off: set[str] = set()
        self._lines = 0
        self._settled: dict[bytes, Refused | LeaseGone] = {}

    def connect(self, runtime: SimRuntime) -> "ServiceClient":
        self._lines += 1
        return ServiceClient(self, runtime, self._lines)

    def commit(self, transaction: Transaction) -> Committed | Refused:
        """A refusal is final: a copy of the same transaction that arrives later finds it settled."""
        settled = self._settled.get(transaction.id)
        try:
            if isinstance(settled, LeaseGone):
                raise settled
            outcome = settled or self.inner.apply(transaction)
        except LeaseGone as error:
            self._settled[transaction.id] = error
            raise
        if isinstance(outcome, Refused):
            self._settled[transaction.id] = outcome
        return outcome


class ServiceClient:
    """One incarnation's `MetadataStore`."""

    def __init__(self, service: MetadataService, runtime: SimRuntime, line: int) -> None:
        world, incarnation = service.world, runtime.incarnation
        self._service = service
        self._world = world
        self._machine = incarnation.machine
        self._random = stream(world.seed, "metadata store", incarnation.label, line)
        self._slowness = between(
            stream(world.seed, "metadata store slowness", incarnation.machine).random(), 0.2, 5.0
        )

    async def load(self) -> Loaded:
        return await self._ask(lambda: _at_once(self._service.inner.load()))

    async def commit(self, transaction: Transaction) -> Committed | Refused:
        return await self._ask(lambda: self._service.commit(transaction), OutcomeUnknown)

    async def changes_since(self, revision: int) -> list[Change]:
        return await self._ask(lambda: _at_once(self._service.inner.changes_since(revision)))

    async def wait_beyond(self, revision: int) -> None:
        await self._travel()
        while not self._unreachable():
            try:
                # Again and again, since nobody tells a waiter that the line is cut.
                async with asyncio.timeout(self._service.faults.patience):
                    await self._service.inner.wait_beyond(revision)
            except TimeoutError:
                continue
            await self._travel()
            return
        raise StoreUnavailable("the metadata store is away")

    async def grant(self, seconds: float) -> Granted:
        return await self._ask(lambda: _at_once(self._service.inner.grant(seconds)))

    async def keep_alive(self, lease: int) -> float:
        return await self._ask(lambda: _at_once(self._service.inner.keep_alive(lease)))

    async def revoke(self, lease: int) -> None:
        await self._ask(lambda: _at_once(self._service.inner.revoke(lease)), OutcomeUnknown)

    async def close(self) -> None:
        return None

    async def _ask(self, work: Callable[[], T], silence: type[MetadataError] = StoreUnavailable) -> T:
        """`silence` says what the sender makes of no answer."""
        faults = self._service.faults
        fate = self._fate(faults)
        if fate == "unavailable" or self._unreachable():
            await self._travel()
            raise StoreUnavailable("the metadata store is away")
        answer: asyncio.Future[T] = self._world.loop.create_future()
        if fate != "lost":
            way = self._delay()
            if fate == "late":
                way += faults.patience + faults.latest * self._random.random()
            back = None if fate in ("landed", "late") else self._delay()
            self._in_the_world(way, lambda: self._arrive(work, answer, back))
        if fate is not None:
            self._world.mark(f"metadata store: {fate}")
        try:
            async with asyncio.timeout(faults.patience):
                return await answer
        except TimeoutError:
            raise silence("no answer from the metadata store") from None

    def _arrive(self, work: Callable[[], T], answer: "asyncio.Future[T]", back: float | None) -> None:
        if self._unreachable():
            return
        try:
            result = work()
        except MetadataError as error:
            failure = error
            self._answer(back, answer, lambda: answer.set_exception(failure))
        else:
            self._answer(back, answer, lambda: answer.set_result(result))

    def _answer(self, back: float | None, answer: "asyncio.Future[T]", give: Callable[[], None]) -> None:
        def arrive() -> None:
            if not answer.done() and not self._unreachable():
                give()

        if back is not None:
            self._in_the_world(back, arrive)

    def _in_the_world(self, seconds: float, callback: Callable[[], None]) -> None:
        """On its way it is nobody's: pauses and crashes of the sender do not stop it."""
        self._world.loop.call_later(seconds, callback, context=contextvars.Context())

    def _fate(self, faults: StoreFaults) -> str | None:
        drawn = self._random.random()
        for fate in ("unavailable", "lost", "landed", "late"):
            drawn -= getattr(faults, fate)
            if drawn < 0:
                return fate
        return None

    def _unreachable(self) -> bool:
        return self._service.away or self._machine in self._service.cut_off

    def _delay(self) -> float:
        return between(self._random.random(), *self._service.faults.delay) * self._slowness

    async def _travel(self) -> None:
        await asyncio.sleep(self._delay())


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of one of the memory store's calls that never wait."""
    try:
        work.send(None)
    except StopIteration as finished:
        result: T = finished.value
        return result
    work.close()
    raise AssertionError("a call of the memory store waited")
