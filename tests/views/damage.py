"""Damage done to a view on purpose: one row missing, one different, one that the base never had."""

from belvedere.model.rows import Row
from belvedere.model.schema import Table
from belvedere.query.database import Database
from belvedere.storage.reads import PartitionRows, RangeRead
from belvedere.views import build
from belvedere.views.images import Image, ImageMaker, removal
from belvedere.views.service import Views

#: A base with rows, and a view of it, that `damage` knows how to damage.
SCHEMA = (
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE ks.t (k int PRIMARY KEY, v int, w text)",
    "CREATE MATERIALIZED VIEW ks.mv AS SELECT * FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL "
    "PRIMARY KEY (v, k)",
)
INSERT = "INSERT INTO ks.t (k, v, w) VALUES ({}, {}, 'right')"
#: What stands in the view where the base has something else.
WRONG_V, WRONG_W = 99, "wrong"


async def damage(database: Database, views: Views) -> None:
    """Of three rows of `ks.t`. Written as the view's own writes are, but newer than all: nothing heals it."""
    tables = database.state.keyspaces["ks"].tables
    base, view = tables["t"], tables["mv"]
    maker = next(maker for maker in views.makers(base) if maker.view is view)
    stores = await database.access.stores(base)
    version = stores[0].last_version + 10_000_000
    first, second, third = (await database.access.scan(base, RangeRead(), 0)).partitions[:3]
    gone = _image(maker, first, version)
    other = _image(maker, second, version, w=WRONG_W.encode())
    stray = _image(maker, third, version, v=WRONG_V.to_bytes(4, "big"), w=WRONG_W.encode())
    writer = build.ViewWriter(database.runtime, database.engine, stores[0])
    updates = [
        removal(view, (gone.key, gone.clustering), version),
        maker.arrival(other),
        maker.arrival(stray),
    ]
    await writer.write(updates)
    await database.engine.durable(writer.position)


def _image(maker: ImageMaker, partition: PartitionRows, version: int, **cells: bytes) -> Image:
    clustering, row = partition.rows[0]
    image = maker.image(partition.token, partition.key, clustering, _changed(maker.base, row, cells), version)
    assert image is not None
    return image


def _changed(base: Table, row: Row, cells: dict[str, bytes]) -> Row:
    changed = list(row.cells)
    for name, value in cells.items():
        changed[base.by_name[name].position] = value
    return Row(row.timestamp, row.ttl, row.expiry, row.live, None, changed)
