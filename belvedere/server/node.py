"""One node: a data directory, its metadata store, the database over both, the CQL server in front.

What starts first ends last: connections finish before the node leaves its cluster, if it is in one, then the
database closes, then the metadata, and the directory's lock goes at the very end. So it is when a start fails
half-way, and each thing ends though the end of another failed.
"""

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Self

from belvedere.meta.metadata import Metadata
from belvedere.query.database import Database, DatabaseOptions
from belvedere.query.replicated.replication import Replication
from belvedere.runtime.api import Lock, Runtime
from belvedere.runtime.errors import AlreadyLocked, FileExists
from belvedere.server.cluster import ClusterSide, check_alone, check_alone_in, check_directory, open_store
from belvedere.server.connection_api import ServerSettings
from belvedere.server.cql_server import CqlServer
from belvedere.server.load_procedures import absent_load_procedures, load_procedures
from belvedere.server.pipeline import NodePipeline
from belvedere.server.procedures import view_procedures
from belvedere.server.settings import ClusterSettings, EtcdMetadata, PipelineSettings, SqliteMetadata
from belvedere.views.cluster_views import ClusterViews
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
        views: Views | ClusterViews,
        settings: PipelineSettings,
        started: AsyncExitStack,
        cluster: ClusterSide | None = None,
    ) -> None:
        self._runtime = runtime
        #: What must be stopped.
        self._started = started
        self._cluster = cluster
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
        cluster: ClusterSettings | None = None,
    ) -> Self:
        """Alone, with its metadata in the data directory, or as a node of a cluster."""
        settings, options = settings or PipelineSettings(), options or DatabaseOptions()
        if cluster is not None:
            options = _as_member(options, cluster)
            if settings.exchange is not None:
                # Each removes what it does not know there.
                settings = replace(settings, exchange=f"{settings.exchange}/{cluster.node}")
        try:
            await runtime.disk.make_directory(data)
        except FileExists as error:
            raise FileExists("the data directory is, or lies in, a file", data) from error
        async with AsyncExitStack() as started:
            lock = await _locked(runtime, data)
            started.push_async_callback(lock.release)
            metadata, side = await _metadata(runtime, data, cluster, started)
            database = await _database(runtime, data, metadata, options, side, started)
            views: Views | ClusterViews
            if side is not None:
                views = _replicated(runtime, database, side, started)
                procedures = absent_load_procedures()
            else:
                pipeline = await NodePipeline.open(runtime, database, data, settings)
                started.push_async_callback(pipeline.stop)
                views = await Views.start(runtime, database, pipeline.work, settings.inline_rows)
                started.push_async_callback(views.stop)
                procedures = load_procedures(database, pipeline)
            for procedure in (*view_procedures(database, views), *procedures):
                database.offer(procedure)
            return cls(runtime, data, database, views, settings, started.pop_all(), side)

    async def listen(self, settings: ServerSettings) -> tuple[str, int]:
        """Answer CQL; returns the address."""
        server = CqlServer(self._runtime, self.database, settings)
        address = await server.start()
        self._started.push_async_callback(server.stop)
        if self._cluster is None:
            await self.database.announce(*address)
        else:
            self.database.answers_at(*address)
            await self._cluster.answer(server, *address)
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


async def _metadata(
    runtime: Runtime, data: str, cluster: ClusterSettings | None, started: AsyncExitStack
) -> tuple[Metadata, ClusterSide | None]:
    """The node's own, or its cluster's, which it has joined then."""
    where: SqliteMetadata | EtcdMetadata
    if cluster is None:
        await check_alone(runtime, data)
        where, name, directory = SqliteMetadata(f"{data}/metadata.sqlite"), "", None
    else:
        directory = await check_directory(runtime, data, cluster)
        where, name = cluster.metadata, cluster.cluster
    store = await open_store(runtime, where, name)
    metadata = Metadata(runtime, store)
    started.push_async_callback(metadata.stop)
    await metadata.start()
    if cluster is None or directory is None:
        check_alone_in(metadata.state, data)
        return metadata, None
    return metadata, await ClusterSide.join(runtime, data, cluster, store, metadata, directory)


async def _database(
    runtime: Runtime,
    data: str,
    metadata: Metadata,
    options: DatabaseOptions,
    side: ClusterSide | None,
    started: AsyncExitStack,
) -> Database:
    """Open. A node leaves its cluster before its database closes."""
    try:
        database = await Database.open(runtime, f"{data}/node", metadata, options)
    except BaseException:
        if side is not None:
            await side.leave()
        raise
    started.push_async_callback(database.close)
    return database


def _replicated(
    runtime: Runtime, database: Database, side: ClusterSide, started: AsyncExitStack
) -> ClusterViews:
    """The node takes part from now on. It leaves its cluster before its replicas close."""
    member = side.member
    database.admit_by(member.operations)
    database.barrier = member.known_to_all
    replication = Replication.start(runtime, member, side.incarnation, database)
    started.push_async_callback(replication.stop)
    started.push_async_callback(side.leave)
    views = ClusterViews(runtime, database, replication.access, member.barrier)
    side.duties.add(views.lead)
    return views


def _as_member(options: DatabaseOptions, cluster: ClusterSettings) -> DatabaseOptions:
    return replace(
        options,
        cluster_name=cluster.cluster,
        node=cluster.node,
        datacenter=cluster.datacenter,
        rack=cluster.rack,
    )
