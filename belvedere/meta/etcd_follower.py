"""Follows a cluster's part of etcd with one watch, through reconnections and compaction."""

import asyncio
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

from belvedere.meta.etcd_layout import Layout
from belvedere.meta.store import Change, Compacted, StoreUnavailable, Update
from belvedere.runtime.api import Runtime, TaskHandle
from belvedere.runtime.etcd_client import EtcdClient, EtcdError

#: How long a watch may lag behind what is known to be committed, in seconds.
_LAG = 1.0

#: Between a broken watch and the next, in seconds.
_PAUSE = 0.2


class _Run:
    """What one watch has brought: everything after `floor`, up to `seen`."""

    def __init__(self, after: int) -> None:
        self.floor = after
        self.seen = after
        self.changes: list[Change] = []
        self.compacted = False
        self.endpoint = ""
        self.task: TaskHandle | None = None


class EtcdFollower:
    def __init__(self, runtime: Runtime, client: EtcdClient, layout: Layout, history: int) -> None:
        self._runtime = runtime
        self._client = client
        self._layout = layout
        self._history = history
        self._run: _Run | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._closed = False

    async def changes(self, after: int, head: int) -> list[Change]:
        """Everything after a revision, at least up to `head`."""
        try:
            async with asyncio.timeout(self._client.patience):
                while (run := self._covering(after)).seen < head:
                    await self._news_in_time(run)
                    if run.compacted:
                        raise Compacted(f"etcd no longer keeps the changes after revision {after}")
        except TimeoutError:
            raise StoreUnavailable(f"etcd's watch does not come to revision {head}") from None
        return run.changes[bisect_right(run.changes, after, key=lambda change: change.revision) :]

    async def _news_in_time(self, run: _Run) -> None:
        """What is waited for has happened: a watch that does not tell is begun again, elsewhere."""
        try:
            async with asyncio.timeout(_LAG):
                await self._news()
        except TimeoutError:
            self._client.distrust(run.endpoint)
            if self._run is run and run.task is not None:
                run.task.cancel()
                run.task = self._runtime.spawn("metadata watch", self._watch(run))

    async def wait_beyond(self, revision: int) -> None:
        run = self._covering(revision)
        if run.seen <= revision:
            await self._news()

    def close(self) -> None:
        self._closed = True
        self._stop()
        self._wake()

    def _covering(self, after: int) -> _Run:
        if self._closed:
            raise StoreUnavailable("the metadata store is closed")
        run = self._run
        if run is None or run.floor > after:
            run = self._begin(after)
        return run

    def _begin(self, after: int) -> _Run:
        self._stop()
        run = self._run = _Run(after)
        run.task = self._runtime.spawn("metadata watch", self._watch(run))
        return run

    def _stop(self) -> None:
        if self._run is not None and self._run.task is not None:
            self._run.task.cancel()
        self._run = None

    async def _watch(self, run: _Run) -> None:
        while True:
            try:
                await self._watch_once(run)
                return
            except EtcdError as error:
                self._wake(error)
                await self._runtime.clock.sleep(_PAUSE)

    async def _watch_once(self, run: _Run) -> None:
        """Returns when what comes next is no longer kept."""
        layout = self._layout
        async with aclosing(self._client.watch(layout.state, layout.state_end, run.seen + 1)) as responses:
            async for response in responses:
                run.endpoint = self._client.endpoint if response.created else run.endpoint
                # etcd says that what is asked for is compacted, and leaves the stream open.
                if response.compact_revision:
                    run.compacted = True
                    if self._run is run:
                        self._run = None
                    self._wake()
                    return
                if response.canceled:
                    raise EtcdError(f"the watch was cancelled: {response.cancel_reason}")
                if response.events:
                    self._take(run, response.events)

    def _take(self, run: _Run, events: Iterable[Any]) -> None:
        """A response holds whole revisions. One without an entry is an empty transaction."""
        revisions: dict[int, list[Update]] = {}
        # A watch that was given up as silent may say something after all.
        for event in (one for one in events if one.kv.mod_revision > run.seen):
            updates = revisions.setdefault(event.kv.mod_revision, [])
            update = self._layout.update_of(event)
            if update is not None:
                updates.append(update)
        if not revisions:
            return
        run.changes += [Change(revision, tuple(updates)) for revision, updates in revisions.items()]
        run.seen = run.changes[-1].revision
        excess = len(run.changes) - self._history
        if excess > 0:
            run.floor = run.changes[excess - 1].revision
            del run.changes[:excess]
        self._wake()

    async def _news(self) -> None:
        """Until something happens; raises when the watch broke, though it goes on trying."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except EtcdError as error:
            raise StoreUnavailable(str(error)) from error

    def _wake(self, error: EtcdError | None = None) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
