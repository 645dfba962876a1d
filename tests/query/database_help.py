"""A whole database on a simulated machine, for tests of what only happens between awaits."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from belvedere.meta.memory import MemoryStore
from belvedere.meta.metadata import Metadata
from belvedere.query.database import Database, DatabaseOptions
from belvedere.query.options import QueryOptions
from belvedere.query.results import Result
from belvedere.sim.world import World
from belvedere.storage.engine import EngineOptions
from belvedere.views.service import Views
from tests.query.fake_access import decoded

T = TypeVar("T")


class Client:
    """Statements in, Python values out, on one database."""

    def __init__(self, database: Database, store: MemoryStore, views: Views) -> None:
        self.database = database
        self.views = views
        self.store = store
        self.runtime = database.runtime

    async def run(self, text: str, **options: Any) -> Result:
        return await self.database.run(self.database.plan(text, "ks"), QueryOptions(**options))

    async def rows(self, text: str, **options: Any) -> list[tuple[Any, ...]]:
        return decoded(await self.run(text, **options))  # type: ignore[arg-type]

    def start(self, text: str, **options: Any) -> "asyncio.Task[Result]":
        return asyncio.ensure_future(self.run(text, **options))


def with_database(
    use: Callable[[Client], Awaitable[T]], seed: int = 1, storage: EngineOptions | None = None
) -> T:
    """Run `use` on a fresh database with a keyspace `ks`."""

    async def main(world: World) -> T:
        runtime = world.boot("n1")

        async def inside() -> T:
            store = MemoryStore()
            metadata = Metadata(runtime, store)
            await metadata.start()
            options = DatabaseOptions(storage=storage or EngineOptions())
            database = await Database.open(runtime, "data/node", metadata, options)
            views = await Views.start(runtime, database)
            client = Client(database, store, views)
            await client.run(
                "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
            )
            found = await use(client)
            await views.stop()
            await database.close()
            await metadata.stop()
            return found

        found = await runtime.perform(inside())
        world.check_no_failures()
        return found

    return World(seed).run(main)
