"""Building in a cluster: the rows of one range of the base, read at its primary, image by image into views.

The images are stamped with a version of the base's tablet that is taken before the first row is read, and
after everything has been applied that was ordered before the views were known everywhere. What is written
later than that brings its own images, of a newer version, so whatever happens meanwhile wins, in whatever
order it comes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from belvedere.model.mutations import Mutation
from belvedere.model.schema import Table
from belvedere.query.errors import Overloaded, ReadTimeout, Unavailable, WriteTimeout
from belvedere.query.keeping import ALWAYS
from belvedere.query.replicated.access import ClusterAccess
from belvedere.query.replicated.finding import Source
from belvedere.query.select.source import RangeSource
from belvedere.runtime.api import Runtime
from belvedere.storage.reads import EVERYTHING, RangeRead, ScanPage
from belvedere.views.build import next_page
from belvedere.views.images import ImageMaker

#: Images on their way at once.
_AT_ONCE = 64
_QUORUM = 4
#: How often one page, or image, is tried again, and how soon, in seconds.
_TRIES, _PAUSE = 20, 0.5

T = TypeVar("T")


class _VersionedScan:
    """The base's rows, and the version of its tablet when the first of them were read."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self.version = 0

    async def scan(self, table: Table, read: RangeRead, now: int) -> ScanPage:
        found = await _insist(self._cluster, lambda: self._cluster.at(_QUORUM).scan_stored(table, read, now))
        if not self.version:
            self.version = found.version
        return found.page

    async def pause(self) -> None:
        await self._cluster.runtime.clock.sleep(0)


async def build_range(
    runtime: Runtime,
    cluster: ClusterAccess,
    base: Table,
    source: Source,
    tokens: tuple[int, int],
    makers: Sequence[ImageMaker],
    progress: Callable[[int], None],
    max_rate: int = 0,
) -> int:
    """Returns how many rows there were; their images are at the views' tablets then."""
    await cluster.at(_QUORUM, source).write_mark(base, tokens[0])
    scan = _VersionedScan(cluster)
    rows = RangeSource(
        scan, base, tokens, EVERYTHING,  # type: ignore[arg-type]
        reverse=False, now=ALWAYS, partition_limit=0, state=None,
    )  # fmt: skip
    total = 0
    while (page := await next_page(rows)) is not None:
        updates = [
            (maker.view, maker.arrival(image).mutation)
            for token, key, clustering, row in page
            for maker in makers
            if (image := maker.image(token, key, clustering, row, scan.version)) is not None
        ]
        if pause := runtime.buggify("views.build_page"):
            await pause
        for first in range(0, len(updates), _AT_ONCE):
            some = updates[first : first + _AT_ONCE]
            await asyncio.gather(*(_write(cluster, source, view, mutation) for view, mutation in some))
        total += len(page)
        progress(len(page))
        await runtime.clock.sleep(len(page) / max_rate if max_rate else 0)
    # What was ordered before this build knew of it has its images on their way.
    await cluster.at(_QUORUM).delivered(base, tokens[0])
    return total


async def _write(cluster: ClusterAccess, source: Source, view: Table, mutation: Mutation) -> None:
    await _insist(cluster, lambda: cluster.at(_QUORUM, source).write_one(view, mutation))


async def _insist(cluster: ClusterAccess, work: Callable[[], Awaitable[T]]) -> T:
    """What a failover interrupts is done again: the range need not be begun anew."""
    for _ in range(_TRIES):
        try:
            return await work()
        except (Unavailable, WriteTimeout, ReadTimeout, Overloaded):
            await cluster.runtime.clock.sleep(_PAUSE)
    return await work()
