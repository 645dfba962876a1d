"""One node: a data directory, its metadata store, the database over both, the CQL server in front.

What starts first ends last: connections finish before the node leaves its cluster, if it is in one, then the
database closes, then the metadata, and the directory's lock goes at the very end.
"""

from dataclasses import replace
from typing import Self

from belvedere.meta.metadata import Metadata
from belvedere.query.database import Database, DatabaseOptions
from belvedere.runtime.api import Lock, Runtime
from belvedere.runtime.errors import AlreadyLocked, FileExists
from belvedere.server.cluster import ClusterSide, check_alone, check_directory, open_store
from belvedere.server.connection_api import ServerSettings
from belvedere.server.cql_server import CqlServer
from belvedere.server.load_procedures import load_procedures
from belvedere.server.pipeline import NodePipeline
from belvedere.server.procedures import view_procedures
from belvedere.server.settings import ClusterSettings, EtcdMetadata, PipelineSettings, SqliteMetadata
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
        cluster: ClusterSide | None = None,
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
        self._cluster = cluster

    @classmethod
    async def start(
        cls,
        runtime: Runtime,
        data: str,
        options: DatabaseOptions | None = None,
        settings: PipelineSettings | None = None,
        cluster: ClusterSettings | None = None,
    ) -> Self:
        """Alone, with its metadata in the data directory, or as a node of a cluster."""
        settings, options = settings or PipelineSettings(), options or DatabaseOptions()
        if cluster is not None:
            options = _as_member(options, cluster)
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
        try:
            return await cls._start(runtime, data, lock, options, settings, cluster)
        except BaseException:
            await lock.release()
            raise

    @classmethod
    async def _start(
        cls,
        runtime: Runtime,
        data: str,
        lock: Lock,
        options: DatabaseOptions,
        settings: PipelineSettings,
        cluster: ClusterSettings | None,
    ) -> Self:
        where: SqliteMetadata | EtcdMetadata
        if cluster is None:
            await check_alone(runtime, data)
            where, name = SqliteMetadata(f"{data}/metadata.sqlite"), ""
        else:
            directory = await check_directory(runtime, data, cluster)
            where, name = cluster.metadata, cluster.cluster
        store = await open_store(runtime, where, name)
        metadata = Metadata(runtime, store)
        side: ClusterSide | None = None
        try:
            await metadata.start()
            if cluster is not None:
                side = await ClusterSide.join(runtime, data, cluster, store, metadata, directory)
                if settings.exchange is not None:
                    # Each removes what it does not know there.
                    settings = replace(settings, exchange=f"{settings.exchange}/{cluster.node}")
            database = await Database.open(runtime, f"{data}/node", metadata, options)
            if side is not None:
                database.admit_by(side.member.operations)
            pipeline = await NodePipeline.open(runtime, database, data, settings)
            views = await Views.start(runtime, database, pipeline.work, settings.inline_rows)
            for procedure in (*view_procedures(database, views), *load_procedures(database, pipeline)):
                database.offer(procedure)
        except BaseException:
            if side is not None:
                await side.leave()
            await metadata.stop()
            raise
        return cls(runtime, data, lock, metadata, database, views, pipeline, settings, side)

    async def listen(self, settings: ServerSettings) -> tuple[str, int]:
        """Answer CQL; returns the address."""
        server = CqlServer(self._runtime, self.database, settings)
        address = await server.start()
        if self._cluster is None:
            await self.database.announce(*address)
        else:
            self.database.answers_at(*address)
            await self._cluster.answer(server, *address)
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
            if self._cluster is not None:
                await self._cluster.leave()
            await self.database.close()
        finally:
            try:
                await self._metadata.stop()
            finally:
                await self._lock.release()


def _as_member(options: DatabaseOptions, cluster: ClusterSettings) -> DatabaseOptions:
    return replace(
        options,
        cluster_name=cluster.cluster,
        node=cluster.node,
        datacenter=cluster.datacenter,
        rack=cluster.rack,
    )
