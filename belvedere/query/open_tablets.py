"""The tablets that this node keeps, as open stores: they follow the metadata."""

import asyncio
from collections.abc import Callable, Mapping

from belvedere.meta.metadata import Metadata
from belvedere.meta.state import ClusterState, TabletMap
from belvedere.runtime.api import Runtime, TaskHandle
from belvedere.runtime.errors import DiskError
from belvedere.storage.engine import StorageEngine
from belvedere.storage.errors import StorageError

#: Between attempts to open or drop stores when the disk refuses.
_RETRY_SECONDS = 1.0

TabletMaps = Mapping[bytes, TabletMap]


class OpenTablets:
    def __init__(
        self,
        runtime: Runtime,
        metadata: Metadata,
        engine: StorageEngine,
        choose: Callable[[ClusterState], TabletMaps],
        aligned: Callable[[ClusterState, TabletMaps], None],
    ) -> None:
        """`choose` says which tablets are kept here; `aligned` is told when their stores are open."""
        self._runtime = runtime
        self._metadata = metadata
        self._engine = engine
        self._choose = choose
        self._on_aligned = aligned
        self._aligning = asyncio.Lock()
        #: The revision of metadata that the open stores are those of.
        self._aligned = 0
        self._follower: TaskHandle | None = None
        self._closing = False

    def follow(self) -> None:
        """The state has changed: definitions count at once, opening and dropping stores comes behind."""
        self._engine.use_tables(self._metadata.state.tables_by_id)
        if not self._closing and (self._follower is None or self._follower.done()):
            self._follower = self._runtime.spawn("access.follow", self._follow())

    async def _follow(self) -> None:
        while self._aligned < self._metadata.state.revision and not self._closing:
            try:
                await self.align()
            except (DiskError, StorageError) as error:
                self._runtime.log("warning", "access.align_failed", cause=str(error))
                await self._runtime.clock.sleep(_RETRY_SECONDS)

    async def close(self) -> None:
        """The engine may be closed after this."""
        self._closing = True
        if self._follower is not None:
            await self._follower.wait()

    async def align(self) -> None:
        """Open the stores of every tablet that the newest state names, drop those of tablets gone."""
        # A task of its own: who waits for it may be cancelled, and half of it must not be left undone.
        await self._runtime.spawn("access.align", self._align()).wait()

    async def _align(self) -> None:
        async with self._aligning:
            state = self._metadata.state
            if state.revision == self._aligned:
                return
            maps = self._choose(state)
            await self._engine.align(state.tables_by_id, maps)
            self._on_aligned(state, maps)
            self._aligned = state.revision
