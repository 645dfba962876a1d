"""Flushes and compactions of a node: one of each at a time, tried again when the disk refuses."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from belvedere.runtime.api import Runtime, TaskHandle
from belvedere.storage.errors import LogUnavailable
from belvedere.storage.tablet import TabletStore

_FIRST_RETRY_SECONDS = 0.25
_LAST_RETRY_SECONDS = 10.0


class _Queue:
    """Tablets that wait for one kind of work, each at most once, and the task that does it."""

    def __init__(self, runtime: Runtime, name: str, work: Callable[[TabletStore], Awaitable[None]]) -> None:
        self._runtime = runtime
        self._name = name
        self._work = work
        self._waiting: deque[TabletStore] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._task: TaskHandle | None = None
        self.stopping = False

    def start(self) -> None:
        self._task = self._runtime.spawn(self._name, self._run())

    def add(self, store: TabletStore) -> None:
        if not any(store is waiting for waiting in self._waiting):
            self._waiting.append(store)
        self._ring()

    def _ring(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _run(self) -> None:
        while not self.stopping:
            if self._waiting:
                await self._work(self._waiting.popleft())
                continue
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake

    async def stop(self, cancel: bool = False) -> None:
        """After the piece of work at hand, or in the middle of it."""
        self.stopping = True
        self._ring()
        if self._task is not None:
            if cancel:
                self._task.cancel()
            await self._task.wait()


class Background:
    def __init__(
        self, runtime: Runtime, after_flush: Callable[[Exception | None], None], compaction: bool
    ) -> None:
        self._runtime = runtime
        self._after_flush = after_flush
        self._compaction = compaction
        self._flushes = _Queue(runtime, "storage.flush", self._flush)
        self._compactions = _Queue(runtime, "storage.compact", self._compact)
        self._compacting = asyncio.Lock()
        #: Why the last flush failed, until one succeeds.
        self.flush_failure: Exception | None = None

    def start(self) -> None:
        self._flushes.start()
        self._compactions.start()

    async def stop(self) -> None:
        await self._flushes.stop()
        # A large one would take minutes, and nothing is lost by leaving it.
        await self._compactions.stop(cancel=True)

    # ---------------------------------------------------------------------------------------- flushing

    def flush_soon(self, store: TabletStore) -> None:
        self._flushes.add(store)

    async def _flush(self, store: TabletStore) -> None:
        """Until it succeeds: the frozen memtables are kept meanwhile, and readable."""
        pause = _FIRST_RETRY_SECONDS
        while store.frozen_count and not self._flushes.stopping:
            try:
                await store.flush_oldest()
            except LogUnavailable:
                return  # What is not durable in a broken log must not get into a file.
            except Exception as error:
                # Whatever it is: giving up would let memory grow without anybody hearing of it.
                if self.flush_failure is None:
                    self._runtime.log("error", "storage.flush_failed", tablet=store.id, cause=str(error))
                self.flush_failure = error
                self._after_flush(error)
                await self._runtime.clock.sleep(pause)
                pause = min(2 * pause, _LAST_RETRY_SECONDS)
                continue
            pause = _FIRST_RETRY_SECONDS
            self.flush_failure = None
            self._after_flush(None)
        self.consider_compaction(store)

    # -------------------------------------------------------------------------------------- compacting

    def consider_compaction(self, store: TabletStore) -> None:
        if self._compaction and store.wants_compaction(self._now()):
            self._compactions.add(store)

    def _now(self) -> int:
        return self._runtime.clock.wall_micros() // 1_000_000

    async def _compact(self, store: TabletStore) -> None:
        try:
            # Once more only for files of similar size: tombstones that could not go now will not at once.
            if await self.compact(store, everything=False) and store.wants_compaction():
                self._compactions.add(store)
        except Exception as error:
            # Nothing is lost by not compacting: the next flush asks again.
            self._runtime.log("error", "storage.compaction_failed", tablet=store.id, cause=str(error))

    async def compact(self, store: TabletStore, everything: bool) -> bool:
        async with self._compacting:
            return await store.compact(self._now(), everything)
