"""Building on this node: the rows of one tablet of the base, image by image, into views.

The images are stamped with a commit version of their own, reserved when the range begins: newer than every
write that was there, older than every write that comes. So whatever the base takes meanwhile wins, in
whatever order things arrive. They travel in log records of the base's tablet that change nothing in the base.
"""

from collections.abc import Callable, Iterator, Sequence

from belvedere.model.mutations import Mutation, ViewUpdate
from belvedere.model.rows import Row
from belvedere.query.keeping import ALWAYS
from belvedere.query.local_access import LocalAccess
from belvedere.query.select.source import RangeSource
from belvedere.runtime.api import Runtime
from belvedere.storage.engine import StorageEngine, Write
from belvedere.storage.reads import EVERYTHING
from belvedere.storage.tablet import TabletStore
from belvedere.views.images import ImageMaker

#: Rows of the base read at a time.
PAGE_ROWS = 500
#: About how much of images goes into one log record.
RECORD_BYTES = 1 << 20


class RangeChanged(Exception):
    """The base's rows went while the range was being built: what was read is no longer so."""


class ViewWriter:
    """Writes into views what is not caused by a write to the base: builds and repairs."""

    def __init__(self, runtime: Runtime, engine: StorageEngine, store: TabletStore) -> None:
        self._runtime = runtime
        self._engine = engine
        self._store = store
        self._truncations = store.truncations
        #: The log position that must be durable for everything written so far to be.
        self.position = 0

    async def version(self, at_least: int = 0) -> int:
        """A commit version of its own. Durable before it is used: were a lower one given out after a crash,
        a later write would lose against the images."""
        wall = self._runtime.clock.wall_micros()
        version = self._store.reserve_version(max(wall, at_least))
        await self._store.save_version()
        return version

    async def write(self, updates: Sequence[ViewUpdate]) -> None:
        nothing = Mutation(self._store.table.id, self._store.first_token, b"", [])
        for part in _parts(updates):
            writes = [Write(self._store, nothing, lambda version, part=part: part)]  # type: ignore[misc]
            while True:
                if self._store.truncating or self._store.truncations != self._truncations:
                    raise RangeChanged(self._store.table.full_name)
                position = self._engine.write_together_now(writes)
                if position is not None:
                    self.position = position
                    break
                await self._engine.room(writes)


async def build_range(
    runtime: Runtime,
    engine: StorageEngine,
    access: LocalAccess,
    store: TabletStore,
    makers: Sequence[ImageMaker],
    progress: Callable[[int], None],
    max_rate: int = 0,
) -> int:
    """Bring the rows of the base that are in `store` into the makers' views; returns how many rows there
    were. Everything is durable on return."""
    targets = [target for maker in makers for target in await access.stores(maker.view)]
    for target in targets:
        target.tombstones_needed += 1
    try:
        return await _build(runtime, engine, access, store, makers, progress, max_rate)
    finally:
        for target in targets:
            target.tombstones_needed -= 1


async def _build(
    runtime: Runtime,
    engine: StorageEngine,
    access: LocalAccess,
    store: TabletStore,
    makers: Sequence[ImageMaker],
    progress: Callable[[int], None],
    max_rate: int,
) -> int:
    writer = ViewWriter(runtime, engine, store)
    version = await writer.version()
    source = RangeSource(
        access, makers[0].base, (store.first_token, store.last_token), EVERYTHING,
        reverse=False, now=ALWAYS, partition_limit=0, state=None,
    )  # fmt: skip
    total = 0
    while (page := await next_page(source)) is not None:
        updates = [
            maker.arrival(image)
            for token, key, clustering, row in page
            for maker in makers
            if (image := maker.image(token, key, clustering, row, version)) is not None
        ]
        if pause := runtime.buggify("views.build_page"):
            await pause
        await writer.write(updates)
        total += len(page)
        progress(len(page))
        # One page's worth of time for others, or as long as the rate asks for.
        await runtime.clock.sleep(len(page) / max_rate if max_rate else 0)
    await engine.durable(writer.position)
    return total


_Row = tuple[int, bytes, bytes, Row]


async def next_page(source: RangeSource) -> list[_Row] | None:
    """Some rows with their partitions' tokens and keys; None at the end."""
    whole = await source.whole_partitions(PAGE_ROWS, PAGE_ROWS)
    if whole:
        return [(found.token, found.key, *row) for found in whole for row in found.rows]
    batch = await source.next(PAGE_ROWS)
    if batch is None:
        return None
    return [(batch.token, batch.key, *row) for row in batch.rows]


def _parts(updates: Sequence[ViewUpdate]) -> Iterator[list[ViewUpdate]]:
    """Pieces that are small enough for one log record each."""
    part: list[ViewUpdate] = []
    size = 0
    for update in updates:
        part.append(update)
        size += 200 + len(update.mutation.key) + sum(_size(row) for _, row in update.mutation.rows)
        if size >= RECORD_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _size(row: Row) -> int:
    total = 0
    for cell in row.cells:
        if isinstance(cell, bytes):
            total += len(cell)
        elif isinstance(cell, tuple):
            total += 30 + len(cell[0] or b"")
        elif cell is not None:
            total += sum(60 + len(path) + len(item[0] or b"") for path, item in cell.items.items())
    return total
