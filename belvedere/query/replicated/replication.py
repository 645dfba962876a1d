"""A node's share of a replicated cluster: its replicas, the way to those of others, and statements over
both."""

from typing import Self

from belvedere.cluster.configuration import Level
from belvedere.cluster.host import Host
from belvedere.cluster.log import Limits
from belvedere.cluster.mail import Mail
from belvedere.cluster.member import Member
from belvedere.cluster.router import Router
from belvedere.meta.state import Tablet
from belvedere.query.database import Database
from belvedere.query.replicated.access import ClusterAccess
from belvedere.query.replicated.replicas import Replicas
from belvedere.query.replicated.snapshots import Snapshots
from belvedere.runtime.api import Runtime
from belvedere.storage.tablet import TabletStore

#: How long a statement may take, in seconds: drivers wait ten.
STATEMENT_SECONDS = 8.0


class Replication:
    """`start` it on an open database of a node that has joined, `stop` it before the database closes."""

    def __init__(
        self,
        runtime: Runtime,
        member: Member,
        incarnation: int,
        database: Database,
        limits: Limits,
        statement_seconds: float,
    ) -> None:
        self._runtime, self._member = runtime, member
        metadata = database.metadata
        self.replicas = Replicas(
            runtime, metadata, database.engine, database.access.align, lambda: database.access.keeper
        )
        mail = Mail(runtime, member.rpc, metadata)
        self.host = Host(
            runtime,
            database.node_id,
            incarnation,
            metadata,
            mail,
            self.replicas,
            lambda: member.operations.allowed,
            limits,
        )
        mail.receive = self.host.receive
        # Whoever follows in its place must know that it is gone.
        self.host.on_broken = self._give_up
        router = Router(runtime, self.host, metadata, incarnation)
        self.snapshots = Snapshots(runtime, member.rpc, metadata, self.host, self.replicas.rows.get)
        self.replicas.ask = router.ask
        self.replicas.serves = self._serves
        self.access = ClusterAccess(runtime, metadata, router.ask, self._here, statement_seconds)

    @classmethod
    def start(
        cls,
        runtime: Runtime,
        member: Member,
        incarnation: int,
        database: Database,
        *,
        limits: Limits | None = None,
        statement_seconds: float = STATEMENT_SECONDS,
    ) -> Self:
        replication = cls(runtime, member, incarnation, database, limits or Limits(), statement_seconds)
        database.serve_cluster(replication.access)
        replication.host.start()
        return replication

    def _give_up(self) -> None:
        self._runtime.spawn("replication.give_up", self._member.leave())

    async def stop(self) -> None:
        await self.snapshots.stop()
        await self.replicas.stop()
        await self.host.stop()

    def _here(self, tablet: Tablet, level: Level) -> TabletStore | None:
        seat = self.host.seats.get(tablet.id)
        if seat is None or not seat.replica.serves(seat.moment()):
            return None
        configuration = seat.replica.configuration
        assert configuration is not None
        if len(configuration.in_sync) < level.needed(len(configuration.replicas)):
            return None
        return self.replicas.rows[tablet.id].store

    def _serves(self, tablet: int) -> bool:
        seat = self.host.seats.get(tablet)
        return seat is not None and seat.replica.serves(seat.moment())
