"""Verifying and repairing on a node that is alone: what seems wrong is looked at again under the lock of its
base row's partition, and put right through the base's log."""

from collections.abc import Callable

from belvedere.model.rows import Row
from belvedere.model.schema import Table
from belvedere.model.token import token_of
from belvedere.query.keeping import ALWAYS
from belvedere.query.local_access import LocalAccess
from belvedere.query.select.source import RangeSource
from belvedere.runtime.api import Runtime
from belvedere.storage.engine import StorageEngine
from belvedere.storage.reads import EVERYTHING, MAX_TOKEN, MIN_TOKEN, PartitionRead
from belvedere.storage.tablet import TabletStore
from belvedere.views.build import RangeChanged, ViewWriter
from belvedere.views.images import ImageMaker, Place, removal
from belvedere.views.verify import BaseRow, Verification


class LocalVerification(Verification):
    def __init__(
        self,
        runtime: Runtime,
        engine: StorageEngine,
        access: LocalAccess,
        maker: ImageMaker,
        check: Callable[[], None],
        repair: bool = False,
    ) -> None:
        super().__init__(runtime, maker, check, repair)
        self._engine, self._access = engine, access

    async def _read(self, table: Table, read: PartitionRead) -> Row | None:
        found = await self._access.read(table, read, ALWAYS)
        return found.rows[0][1] if found.rows else None

    def _source(self, *, raw_view: bool, now: int) -> RangeSource:
        table = self._raw if raw_view else self._base
        return RangeSource(
            self._access, table, (MIN_TOKEN, MAX_TOKEN), EVERYTHING,
            reverse=False, now=now, partition_limit=0, state=None,
        )  # fmt: skip

    async def _look_again(self, home: BaseRow, place: Place | None) -> None:
        """Once more with the base row's partition held; `place` is where the view has the row."""
        async with self._access.lock([(self._base, home.key)]):
            image = await self._image_of(home)
            if image is not None:
                if place is None or place == image.place:
                    await self._compare(home, image.place, image)
                    return
            if place is not None:
                await self._compare(home, place, None)

    async def _put_right(self, home: BaseRow, place: Place) -> bool:
        store = await self._store(self._base, home.token)
        writer = ViewWriter(self._runtime, self._engine, store)
        # Newer than what is there, even if that came from nowhere with a stamp out of the future.
        token = token_of(place[0])
        newest = await (await self._store(self._view, token)).newest_stamp(token, *place)
        version = await writer.version(at_least=newest // 2 + 1)
        # Once more: a load may have brought the row meanwhile, or a truncation removed it. What a load brings
        # from here on, images of a newer version will show.
        image = await self._image_at(home, place, version)
        update = removal(self._view, place, version) if image is None else self._maker.arrival(image)
        if pause := self._runtime.buggify("views.repair_computed"):
            await pause
        try:
            await writer.write([update])
        except RangeChanged:
            return False
        await self._engine.durable(writer.position)
        image = await self._image_at(home, place)
        wanted = None if image is None else image.row
        return self._judge(wanted, await self._stored(place), self._now()) is None

    async def _store(self, table: Table, token: int) -> TabletStore:
        stores = await self._access.stores(table)
        return next(store for store in stores if store.first_token <= token <= store.last_token)
