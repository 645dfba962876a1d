"""A database that nobody keeps views for refuses to write their bases, rather than let them drift."""

import pytest

from belvedere.meta.memory import MemoryStore
from belvedere.meta.metadata import Metadata
from belvedere.query.database import Database, DatabaseOptions
from belvedere.query.errors import InvalidRequest, ServerError
from belvedere.query.options import QueryOptions
from belvedere.query.results import Result
from belvedere.sim.world import World
from belvedere.views.service import Views

SCHEMA = (
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE t (k int PRIMARY KEY, v int)",
    "CREATE TABLE u (k int PRIMARY KEY, v int)",
    "CREATE MATERIALIZED VIEW mv AS SELECT * FROM t WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)",
    "INSERT INTO t (k, v) VALUES (1, 1)",
)
WRITES = (
    "INSERT INTO t (k, v) VALUES (1, 2)",
    "UPDATE t SET v = 3 WHERE k = 1",
    "UPDATE t SET v = 3 WHERE k = 1 IF v = 1",
    "DELETE FROM t WHERE k = 1",
    "BEGIN BATCH INSERT INTO u (k, v) VALUES (7, 7); INSERT INTO t (k, v) VALUES (7, 7); APPLY BATCH",
    "TRUNCATE t",
)


async def _run(database: Database, text: str) -> Result:
    return await database.run(database.plan(text, "ks"), QueryOptions())


async def _with_views(database: Database) -> None:
    views = await Views.start(database.runtime, database)
    for text in SCHEMA:
        await _run(database, text)
    await views.stop()


async def _without(database: Database) -> None:
    for text in WRITES:
        with pytest.raises(ServerError, match=r"ks\.t cannot be written: it has materialized views"):
            await _run(database, text)
    with pytest.raises(InvalidRequest, match="nothing here keeps views"):
        await _run(database, "SELECT * FROM mv")
    # All else is as ever, and of what was refused nothing is left.
    await _run(database, "INSERT INTO u (k, v) VALUES (1, 1)")
    assert len((await _run(database, "SELECT * FROM u")).rows) == 1  # type: ignore[union-attr]
    (row,) = (await _run(database, "SELECT k, v FROM t")).rows  # type: ignore[union-attr]
    assert list(row) == [b"\0\0\0\1", b"\0\0\0\1"]


async def _again_with_views(database: Database) -> None:
    views = await Views.start(database.runtime, database)
    await _run(database, "UPDATE t SET v = 2 WHERE k = 1")
    assert len((await _run(database, "SELECT * FROM mv WHERE v = 2")).rows) == 1  # type: ignore[union-attr]
    await views.stop()


def test_writes_to_the_base_of_a_view_are_refused() -> None:
    async def main(world: World) -> None:
        store = MemoryStore()
        for use in (_with_views, _without, _again_with_views):
            runtime = world.boot("node")

            async def live(runtime: object = runtime, use: object = use) -> None:
                metadata = Metadata(runtime, store)  # type: ignore[arg-type]
                await metadata.start()
                database = await Database.open(runtime, "data", metadata, DatabaseOptions())  # type: ignore[arg-type]
                await use(database)  # type: ignore[operator]
                await database.close()
                await metadata.stop()

            await runtime.perform(live())
            world.crash("node")

    world = World(1, buggify=False)
    world.run(main)
    world.check_no_failures()
