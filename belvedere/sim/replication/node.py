"""One life of a simulated node: metadata, lease, replicas, router, and whoever stands for leader."""

from collections.abc import Callable

from belvedere.cluster.configuration import Level
from belvedere.cluster.failover_leader import FailoverLeader
from belvedere.cluster.host import Host
from belvedere.cluster.log import Limits
from belvedere.cluster.messages import Outcome
from belvedere.cluster.router import Router
from belvedere.cluster.seat import Seat
from belvedere.cluster.topology import OFFICE
from belvedere.meta import records
from belvedere.meta.election import campaign
from belvedere.meta.leases import Lease
from belvedere.meta.metadata import Metadata, Proposal
from belvedere.meta.state import ClusterState, Tablet
from belvedere.meta.store import (
    Absent,
    LeaseGone,
    MetadataError,
    OutcomeUnknown,
    Put,
    StoreUnavailable,
    Unchanged,
)
from belvedere.sim.metastore import MetadataService
from belvedere.sim.replication.keyvalue import KeyValueStores, Platter
from belvedere.sim.replication.mail import Mail
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World

#: Everything is quicker than in earnest, so that much happens in a few seconds.
LEASE_SECONDS = 0.6
LIMITS = Limits(
    pending=24,
    batch=4,
    window=32,
    remembered=6,
    resend=0.04,
    patience=0.2,
    notice=0.01,
    linger=0.03,
    retry=0.12,
)
PATIENCE = 1.0


class SimNode:
    def __init__(
        self,
        world: World,
        runtime: SimRuntime,
        service: MetadataService,
        mail: Mail,
        platter: Platter,
        watch: Callable[["SimNode", Seat], None],
    ) -> None:
        self.runtime = runtime
        self.name = runtime.machine
        self.incarnation = runtime.incarnation.number
        self._store = service.connect(runtime)
        self.metadata = Metadata(runtime, self._store)
        self.stores = KeyValueStores(world, runtime, platter, LIMITS.remembered)
        port = mail.open(runtime.incarnation, self._receive)
        self.host = Host(
            runtime, self.name, self.incarnation, self.metadata, port, self.stores, self._leased, LIMITS
        )
        self.host.watch = lambda seat: watch(self, seat)
        self.router = Router(runtime, self.host, self.metadata, self.incarnation)
        self._failover = FailoverLeader(runtime, self.metadata, LEASE_SECONDS)
        self._lease: Lease | None = None
        self._started = False

    async def live(self) -> None:
        while not self._started:
            try:
                await self.metadata.start()
                self._started = True
            except StoreUnavailable:
                await self.runtime.clock.sleep(0.1)
        self.host.start()
        self._failover.start()
        self.runtime.spawn("membership", self._belong())

    def _receive(self, sender: str, message: object) -> None:
        if self._started:
            self.host.receive(sender, message)  # type: ignore[arg-type]

    # --- belonging -----------------------------------------------------------------------------------

    def _leased(self) -> bool:
        """Nobody may have taken anything from this node while it had another lease, or none: so it holds
        one only from when it has seen its own entry under it."""
        return self._lease is not None and self._lease.valid

    async def _belong(self) -> None:
        while True:
            try:
                lease = await Lease.take(self.runtime, self._store, LEASE_SECONDS)
                await self._register(lease)
            except (MetadataError, TimeoutError):
                await self.runtime.clock.sleep(0.1)
                continue
            self._lease = lease
            topology = self.runtime.spawn("topology", self._lead(lease))
            await lease.lost()
            self._lease = None
            topology.cancel()

    async def _lead(self, lease: Lease) -> None:
        try:
            tenure = await campaign(self.runtime, self.metadata, OFFICE, self.name, lease)
        except LeaseGone:
            return
        await self._failover.lead(tenure)

    async def _register(self, lease: Lease) -> None:
        key = records.alive_key(self.name)
        value = records.encode(records.AliveRecord(self.incarnation, lease.id))

        def enter(state: ClusterState) -> Proposal | None:
            entry = state.entries.get(key)
            if entry is None:
                return (Absent(key),), (Put(key, value, lease.id),)
            if entry.value == value:
                return None
            return (Unchanged(key, entry.revision),), (Put(key, value, lease.id),)

        while lease.valid:
            try:
                await self.metadata.commit(enter)
                return
            except (OutcomeUnknown, StoreUnavailable):
                await self.runtime.clock.sleep(0.05)
        raise LeaseGone("the lease ran out before it was used")

    # --- asking --------------------------------------------------------------------------------------

    async def ask(self, tablet: int, kind: str, level: Level, body: bytes) -> Outcome:
        def find(state: ClusterState) -> Tablet | None:
            for tablets in state.tablet_maps.values():
                for one in tablets.tablets:
                    if one.id == tablet:
                        return one
            return None

        return await self.router.ask(find, kind, level, body, PATIENCE)
