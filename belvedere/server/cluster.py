"""A server as one node of a cluster: which store, which data directory, and what others and clients learn of
it.

The data directory remembers which node of which cluster it is of. That keeps a node from opening another
one's directory, or its own with another metadata store: it would take all tablets for dropped, and remove
them.
"""

from typing import TYPE_CHECKING, Self
from uuid import UUID

import msgspec

from belvedere.cluster import members
from belvedere.cluster.duties import Duties
from belvedere.cluster.failover_leader import FailoverLeader
from belvedere.cluster.member import Member
from belvedere.cluster.members import NodeRefused, Registration
from belvedere.meta.metadata import Metadata
from belvedere.meta.sqlite import SqliteStore
from belvedere.meta.state import ClusterState
from belvedere.meta.store import MetadataStore
from belvedere.runtime.api import Runtime
from belvedere.runtime.version import VERSION
from belvedere.server.cql_server import CqlServer
from belvedere.server.settings import ClusterSettings, EtcdMetadata, SqliteMetadata

if TYPE_CHECKING:
    from belvedere.meta.etcd import EtcdStore


class DirectoryRecord(msgspec.Struct, frozen=True):
    """`node.json` in the data directory."""

    node: str
    cluster: str
    #: Empty until the node has joined for the first time.
    cluster_id: str = ""
    #: The last one that this directory's node took.
    lease: int | None = None


def _path(data: str) -> str:
    return f"{data}/node.json"


async def read_directory(runtime: Runtime, data: str) -> DirectoryRecord | None:
    if not await runtime.disk.exists(_path(data)):
        return None
    return msgspec.json.decode(await runtime.disk.read(_path(data)), type=DirectoryRecord)


async def write_directory(runtime: Runtime, data: str, record: DirectoryRecord) -> None:
    path = _path(data)
    await runtime.disk.write(f"{path}.new", msgspec.json.encode(record))
    await runtime.disk.rename(f"{path}.new", path)
    await runtime.disk.sync_directory(data)


async def _forget_directory(runtime: Runtime, data: str) -> None:
    if await runtime.disk.exists(_path(data)):
        await runtime.disk.remove(_path(data))


async def check_alone(runtime: Runtime, data: str) -> None:
    """A directory that is a cluster's node must not be opened on its own."""
    record = await read_directory(runtime, data)
    if record is not None:
        raise NodeRefused(
            f"the data directory {data} is that of node {record.node} of cluster {record.cluster}: start it "
            f"with --node {record.node} --cluster {record.cluster} and the cluster's --metadata"
        )


def check_alone_in(state: ClusterState, data: str) -> None:
    """The directory above those of a cluster's nodes may be mistaken for one."""
    known = members.cluster_of(state)
    if known is not None:
        raise NodeRefused(
            f"the metadata in {data} is that of cluster {known.name}, not of a server that is alone; what "
            "was started with --nodes is started so again"
        )


async def check_directory(runtime: Runtime, data: str, settings: ClusterSettings) -> DirectoryRecord:
    found = await read_directory(runtime, data)
    if found is None:
        if await runtime.disk.exists(f"{data}/metadata.sqlite") or await runtime.disk.exists(
            f"{data}/node/node_id"
        ):
            raise NodeRefused(
                f"the data directory {data} is that of a server that was alone; a node of a cluster begins "
                "with an empty one"
            )
        return DirectoryRecord(settings.node, settings.cluster)
    if (found.node, found.cluster) != (settings.node, settings.cluster):
        raise NodeRefused(
            f"the data directory {data} is that of node {found.node} of cluster {found.cluster}, not of node "
            f"{settings.node} of cluster {settings.cluster}"
        )
    return found


def check_metadata(state: ClusterState, directory: DirectoryRecord) -> None:
    members.check_cluster(state, directory.cluster)
    known = members.cluster_of(state)
    if directory.cluster_id and (known is None or known.id != directory.cluster_id):
        raise NodeRefused(
            f"the metadata store is not the one that node {directory.node} joined before: by it, all tables "
            "of its data directory would be gone"
        )
    if directory.lease is None and not directory.cluster_id:
        _check_nothing_is_missing(state, directory.node)


def _check_nothing_is_missing(state: ClusterState, node: str) -> None:
    """A directory that never was this node's has nothing, while others count on what the node has."""
    tablets = [tablet for found in state.tablet_maps.values() for tablet in found.tablets]
    relied_on = sum(node in tablet.in_sync for tablet in tablets)
    if relied_on:
        raise NodeRefused(
            f"node {node} is relied on to have {relied_on} tablets, and this data directory has nothing of "
            "them. Start it with the directory that it had. If that is lost: the others do without it once "
            "they have noticed, and can then give it what they have"
        )


async def open_store(
    runtime: Runtime, where: SqliteMetadata | EtcdMetadata, cluster: str
) -> "SqliteStore | EtcdStore":
    store = _store(runtime, where, cluster)
    try:
        await store.open()
    except BaseException:
        await store.close()
        raise
    return store


def _store(runtime: Runtime, where: SqliteMetadata | EtcdMetadata, cluster: str) -> "SqliteStore | EtcdStore":
    if isinstance(where, SqliteMetadata):
        return SqliteStore(where.path)
    # Their packages are not for everybody.
    from belvedere.meta.etcd import EtcdStore
    from belvedere.runtime.etcd_client import EtcdClient

    return EtcdStore(runtime, EtcdClient(where.endpoints), cluster)


class ClusterSide:
    """`join` before the database opens, `answer` when clients are answered, `leave` before it closes."""

    def __init__(
        self,
        runtime: Runtime,
        data: str,
        settings: ClusterSettings,
        member: Member,
        duties: Duties,
        directory: DirectoryRecord,
    ) -> None:
        self._runtime = runtime
        self._data = data
        self._settings = settings
        self._directory = directory
        self.member = member
        self.duties = duties
        self.incarnation = 0

    @classmethod
    async def join(
        cls,
        runtime: Runtime,
        data: str,
        settings: ClusterSettings,
        store: MetadataStore,
        metadata: Metadata,
        directory: DirectoryRecord,
    ) -> Self:
        check_metadata(metadata.state, directory)
        sides: list[Self] = []

        async def on_lease(lease: int) -> None:
            await sides[0]._note(lease=lease)

        duties = Duties(runtime, FailoverLeader(runtime, metadata, settings.lease_seconds))
        member = Member(
            runtime,
            settings.cluster,
            settings.node,
            store,
            metadata,
            lease_seconds=settings.lease_seconds,
            lead=duties.lead,
            on_lease=on_lease,
        )
        sides.append(side := cls(runtime, data, settings, member, duties, directory))
        try:
            await side._join(metadata)
        except BaseException:
            await member.leave()
            if not side._directory.cluster_id:
                # It never was a member: the directory is nobody's.
                await _forget_directory(runtime, data)
            raise
        return side

    async def _join(self, metadata: Metadata) -> None:
        settings = self._settings
        host, port = await self.member.listen(settings.rpc_host, settings.rpc_port)
        registration = Registration(
            settings.node,
            settings.cluster,
            str(UUID(bytes=self._runtime.random.uuid_bytes())),
            host,
            port,
            settings.datacenter,
            settings.rack,
            VERSION,
        )
        self.duties.failover.start()
        # Whoever wrote the directory is dead: we hold its lock.
        self.incarnation = await self.member.join(registration, self._directory.lease)
        cluster = members.cluster_of(metadata.state)
        assert cluster is not None
        await self._note(cluster_id=cluster.id)

    async def _note(self, **changed: object) -> None:
        self._directory = msgspec.structs.replace(self._directory, **changed)
        await write_directory(self._runtime, self._data, self._directory)

    async def answer(self, server: CqlServer, host: str, port: int) -> None:
        """Others may send clients to this address, and clients of this server hear of the others."""
        membership = self.member.membership
        membership.listen(server.node_changed)
        await membership.announce(host, port)

    async def leave(self) -> None:
        # A task of its own: half of leaving would leave a lease that nobody renews and everybody waits for.
        await self._runtime.spawn("cluster.leave", self.member.leave()).wait()
