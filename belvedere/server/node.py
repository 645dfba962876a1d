"""One node: a data directory, its metadata store, the database over both, the CQL server in front.

What starts first ends last: connections finish before the database closes, the database before the
metadata, and the directory's lock goes at the very end. So it is when a start fails half-way, and each thing
ends though the end of another failed.
"""

from contextlib import AsyncExitStack
from typing import Self

from belvedere.meta.metadata import Metadata
from belvedere.meta.sqlite import SqliteStore
from belvedere.query.database import Database, DatabaseOptions
from belvedere.runtime.api import Lock, Runtime
from belvedere.runtime.errors import AlreadyLocked, FileExists
from belvedere.server.connection_api import ServerSettings
from belvedere.server.cql_server import CqlServer
from belvedere.server.load_procedures import load_procedures
from belvedere.server.pipeline import NodePipeline
from belvedere.server.procedures import view_procedures
from belvedere.server.settings import PipelineSettings
from belvedere.views.service import Views


class DataDirectoryInUse(Exception):
    """A server, another process or this very one has the data directory open."""


class Node:
    """`start`, perhaps `listen`, then `stop`."""

    def __init__(
        self,
        runtime: Runtime,
        data: str,
        database: Database,
        views: Views,
        settings: PipelineSettings,
        started: AsyncExitStack,
    ) -> None:
        self._runtime = runtime
        #: What must be stopped.
        self._started = started
        self.data = data
        self.database = database
        self.views = views
        self.settings = settings

    @classmethod
    async def start(
        cls,
        runtime: Runtime,
        data: str,
        options: DatabaseOptions | None = None,
        settings: PipelineSettings | None = None,
    ) -> Self:
        settings = settings or PipelineSettings()
        try:
            await runtime.disk.make_directory(data)
        except FileExists as error:
            raise FileExists("the data directory is, or lies in, a file", data) from error
        async with AsyncExitStack() as started:
            lock = await _locked(runtime, data)
            started.push_async_callback(lock.release)
            store = SqliteStore(f"{data}/metadata.sqlite")
            metadata = Metadata(runtime, store)
            started.push_async_callback(metadata.stop)
            await store.open()
            await metadata.start()
            database = await Database.open(runtime, f"{data}/node", metadata, options or DatabaseOptions())
            started.push_async_callback(database.close)
            pipeline = await NodePipeline.open(runtime, database, data, settings)
            started.push_async_callback(pipeline.stop)
            views = await Views.start(runtime, database, pipeline.work, settings.inline_rows)
            started.push_async_callback(views.stop)
            for procedure in (*view_procedures(database, views), *load_procedures(database, pipeline)):
                database.offer(procedure)
            return cls(runtime, data, database, views, settings, started.pop_all())

    async def listen(self, settings: ServerSettings) -> tuple[str, int]:
        """Answer CQL; returns the address."""
        server = CqlServer(self._runtime, self.database, settings)
        address = await server.start()
        self._started.push_async_callback(server.stop)
        await self.database.announce(*address)
        self.database.show_server(server.client_rows, server.setting_rows)
        return address

    async def stop(self) -> None:
        # First, so that the server does not wait for them: they may be long.
        self._started.push_async_callback(self.database.procedures.stop)
        await self._started.aclose()


async def _locked(runtime: Runtime, data: str) -> Lock:
    try:
        return await runtime.disk.lock(f"{data}/lock")
    except AlreadyLocked as error:
        raise DataDirectoryInUse(
            f"the data directory {data} is in use: a server or another program has it open"
        ) from error
