"""Damage done to a view on purpose, so that there is something to repair.

It is written as the view's own writes are, at a version of its own: a later write of the same row heals it,
and otherwise only a repair does.
"""

from belvedere.model.mutations import ViewUpdate
from belvedere.model.ordering import join_partition_key
from belvedere.model.rows import Row
from belvedere.model.schema import Table
from belvedere.model.token import token_of
from belvedere.query.database import Database
from belvedere.sim.randomness import SimRandom
from belvedere.storage.reads import RangeRead
from belvedere.views.build import RangeChanged, ViewWriter
from belvedere.views.images import ImageMaker, removal
from belvedere.views.service import Views


async def damage(database: Database, views: Views, view: Table, random: SimRandom) -> bool:
    """Make a random row of the view missing, different, or one that the base never had. False if there
    was no row to do it to."""
    assert view.view is not None
    base = database.state.tables_by_id.get(view.view.base_id)
    makers = () if base is None else views.makers(base)
    maker = next((maker for maker in makers if maker.view.id == view.id), None)
    if base is None or maker is None:
        return False
    stores = await database.access.stores(base)
    store = stores[random.randint(0, len(stores) - 1)]
    page = await database.access.scan(base, RangeRead(start=(store.first_token, b"")), 0)
    rows = [(found.token, found.key, *row) for found in page.partitions for row in found.rows]
    if not rows:
        return False
    writer = ViewWriter(database.runtime, database.engine, store)
    update = _wrong(maker, rows[random.randint(0, len(rows) - 1)], await writer.version(), random)
    if update is None:
        return False
    try:
        await writer.write([update])
    except RangeChanged:
        return False
    return True


def _wrong(
    maker: ImageMaker, row: tuple[int, bytes, bytes, Row], version: int, random: SimRandom
) -> ViewUpdate | None:
    token, key, clustering, stored = row
    image = maker.image(token, key, clustering, stored, version)
    if image is None:
        return None
    kind = random.randint(0, 2)
    if kind == 0:
        return removal(maker.view, image.place, version)
    if kind == 1:
        cells = [None if number == maker.cells[-1][0] else cell for number, cell in enumerate(stored.cells)]
        other = Row(stored.timestamp, stored.ttl, stored.expiry, True, None, cells)
        image = maker.image(token, key, clustering, other, version)
    else:
        stranger = join_partition_key([b"\x7f\xff\xff\xff"])
        image = maker.image(token_of(stranger), stranger, clustering, stored, version)
    return None if image is None else maker.arrival(image)
