"""One node: a data directory, its metadata store, the database over both, the CQL server in front.

What starts first ends last: connections finish before the database closes, the database before the
metadata, and the directory's lock goes at the very end.
"""

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
        lock: Lock,
        metadata: Metadata,
        database: Database,
        views: Views,
        pipeline: NodePipeline,
        settings: PipelineSettings,
    ) -> None:
        self._runtime = runtime
        self._lock = lock
        self._metadata = metadata
        self._server: CqlServer | None = None
        self.data = data
        self.database = database
        self.views = views
        self.settings = settings
        self._pipeline = pipeline

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
        try:
            lock = await runtime.disk.lock(f"{data}/lock")
        except AlreadyLocked as error:
            raise DataDirectoryInUse(
                f"the data directory {data} is in use: a server or another program has it open"
            ) from error
        store = SqliteStore(f"{data}/metadata.sqlite")
        metadata = Metadata(runtime, store)
        try:
            await store.open()
            await metadata.start()
            database = await Database.open(runtime, f"{data}/node", metadata, options or DatabaseOptions())
            pipeline = await NodePipeline.open(runtime, database, data, settings)
            views = await Views.start(runtime, database, pipeline.work, settings.inline_rows)
            for procedure in (*view_procedures(database, views), *load_procedures(database, pipeline)):
                database.offer(procedure)
        except BaseException:
            await metadata.stop()
            await lock.release()
            raise
        return cls(runtime, data, lock, metadata, database, views, pipeline, settings)

    async def listen(self, settings: ServerSettings) -> tuple[str, int]:
        """Answer CQL; returns the address."""
        server = CqlServer(self._runtime, self.database, settings)
        address = await server.start()
        await self.database.announce(*address)
        self.database.show_server(server.client_rows, server.setting_rows)
        self._server = server
        return address

    async def stop(self) -> None:
        try:
            # First, so that the server does not wait for them: they may be long.
            await self.database.procedures.stop()
            if self._server is not None:
                await self._server.stop()
            await self.views.stop()
            await self._pipeline.stop()
            await self.database.close()
        finally:
            try:
                await self._metadata.stop()
            finally:
                await self._lock.release()
