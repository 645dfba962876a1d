"""Verifying and repairing in a cluster: the same comparison, row by row, at the primaries.

Nothing is held. Images may be on their way when a row is looked at; so what seems wrong is looked at again
when they have arrived, and is wrong only if it still is so then.
"""

from collections.abc import Callable

from belvedere.model.rows import Row
from belvedere.model.schema import Table
from belvedere.query.keeping import ALWAYS
from belvedere.query.replicated.access import ClusterAccess
from belvedere.query.replicated.finding import source_of
from belvedere.query.select.source import RangeSource
from belvedere.runtime.api import Runtime
from belvedere.storage.reads import EVERYTHING, MAX_TOKEN, MIN_TOKEN, PartitionRead, RangeRead
from belvedere.views.images import ImageMaker, Place, removal
from belvedere.views.verify import BaseRow, Verification

_QUORUM = 4
#: How often a row that seems wrong is looked at again.
_LOOKS = 3


class ClusterVerification(Verification):
    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterAccess,
        maker: ImageMaker,
        check: Callable[[], None],
        repair: bool,
    ) -> None:
        super().__init__(runtime, maker, check, repair)
        self._cluster = cluster

    async def _read(self, table: Table, read: PartitionRead) -> Row | None:
        found = await self._cluster.at(_QUORUM).read(table, read, ALWAYS)
        return found.rows[0][1] if found.rows else None

    def _source(self, *, raw_view: bool, now: int) -> RangeSource:
        table = self._raw if raw_view else self._base
        return RangeSource(
            _Fresh(self._cluster), table, (MIN_TOKEN, MAX_TOKEN), EVERYTHING,  # type: ignore[arg-type]
            reverse=False, now=now, partition_limit=0, state=None,
        )  # fmt: skip

    async def _look_again(self, home: BaseRow, place: Place | None) -> None:
        for look in range(_LOOKS):
            await self._cluster.at(_QUORUM).delivered(self._base, home.token)
            image = await self._image_of(home)
            there = place if place is not None and (image is None or place != image.place) else None
            wanted = None if there is not None or image is None else image
            at = there if there is not None else None if image is None else image.place
            if at is None:
                return
            found = await self._stored(at)
            expected = None if wanted is None else wanted.row
            if self._judge(expected, found, self._now()) is None:
                return
            if look == _LOOKS - 1:
                await self._compare(home, at, wanted)

    async def _put_right(self, home: BaseRow, place: Place) -> bool:
        source = source_of(self._cluster.metadata.state, self._base.id, home.token)
        access = self._cluster.at(_QUORUM, source)
        # A version newer than all that is there; what is written later has newer ones.
        await access.write_mark(self._base, home.token)
        read = RangeRead((home.token, home.key), home.token, limit=1)
        version = (await access.scan_stored(self._base, read, ALWAYS)).version
        image = await self._image_at(home, place, version)
        update = removal(self._view, place, version) if image is None else self._maker.arrival(image)
        await access.write_one(self._view, update.mutation)
        image = await self._image_at(home, place)
        wanted = None if image is None else image.row
        return self._judge(wanted, await self._stored(place), self._now()) is None


class _Fresh:
    """A deadline of its own for each page."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster

    async def scan(self, table: Table, read: RangeRead, now: int) -> object:
        return await self._cluster.at(_QUORUM).scan(table, read, now)

    async def pause(self) -> None:
        await self._cluster.runtime.clock.sleep(0)
