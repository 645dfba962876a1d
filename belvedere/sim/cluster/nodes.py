"""The cluster's machines, and on each the life of a node: all of a server but what belongs to one process.

A node that cannot start, since the metadata store is away or its name is still taken, ends, and is started
again, as whoever looks after servers would do.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from belvedere.cluster.duties import Duties
from belvedere.cluster.failover_leader import FailoverLeader
from belvedere.cluster.log import Limits
from belvedere.cluster.member import Member
from belvedere.cluster.members import NodeIdTaken, Registration
from belvedere.cluster.rpc_settings import RpcSettings
from belvedere.cluster.seat import Seat
from belvedere.meta import state as states
from belvedere.meta.memory import MemoryStore
from belvedere.meta.metadata import Metadata
from belvedere.meta.state import ClusterState, Tablet
from belvedere.meta.store import MetadataError, MetadataStore
from belvedere.query.database import Database, DatabaseOptions
from belvedere.query.replicated.replication import Replication
from belvedere.sim.cluster.plan import Plan
from belvedere.sim.incarnation import MachineCrashed
from belvedere.sim.metastore import MetadataService, StoreFaults
from belvedere.sim.randomness import between
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World
from belvedere.storage.engine import EngineOptions
from belvedere.views.cluster_views import ClusterViews

#: Everything is quicker than in earnest, so that much happens in a few seconds.
LEASE_SECONDS = 0.8
STATEMENT_SECONDS = 2.0
_LIMITS = Limits(
    pending=64,
    batch=8,
    window=64,
    remembered=16,
    resend=0.05,
    # More than a disk may take when nothing is wrong.
    patience=0.45,
    notice=0.01,
    retry=0.12,
)
_RPC = RpcSettings(
    connect_seconds=0.4, first_pause=0.02, longest_pause=0.2, heartbeat_seconds=0.25, heartbeats_missed=2
)
_PORT = 7000
_SEGMENT_BYTES = 32 << 10
_DATA = "data"
_LEASE = f"{_DATA}/lease"


def calm_store() -> StoreFaults:
    return StoreFaults(delay=(50e-6, 3e-3), patience=0.2)


class Node:
    """One life of a node, in the order in which a server puts it together."""

    def __init__(self, runtime: SimRuntime, store: MetadataStore, memtable_bytes: int) -> None:
        self.runtime = runtime
        self._memtable_bytes = memtable_bytes
        self.metadata = Metadata(runtime, store)
        self._duties = Duties(runtime, FailoverLeader(runtime, self.metadata, LEASE_SECONDS))
        self.member = Member(
            runtime,
            "sim",
            runtime.machine,
            store,
            self.metadata,
            lease_seconds=LEASE_SECONDS,
            lead=self._duties.lead,
            on_lease=self._remember,
            settings=_RPC,
        )
        self.database: Database
        self.replication: Replication
        self.views: ClusterViews

    async def start(self) -> None:
        runtime, member = self.runtime, self.member
        await runtime.disk.make_directory(_DATA)
        await self.metadata.start()
        host, port = await member.listen(runtime.machine, _PORT)
        self._duties.failover.start()
        registration = Registration(runtime.machine, "sim", "id", host, port)
        incarnation = await member.join(registration, await self._former_lease())
        storage = EngineOptions(
            segment_bytes=_SEGMENT_BYTES,
            closed_segments=2,
            memtable_bytes=self._memtable_bytes,
            cache_bytes=4 * self._memtable_bytes,
        )
        options = DatabaseOptions(storage=storage, cluster_name="sim", node=runtime.machine)
        self.database = database = await Database.open(runtime, f"{_DATA}/node", self.metadata, options)
        database.admit_by(member.operations)
        database.barrier = member.known_to_all
        self.replication = Replication.start(
            runtime, member, incarnation, database, limits=_LIMITS, statement_seconds=STATEMENT_SECONDS
        )
        self.views = ClusterViews(runtime, database, self.replication.access, member.barrier)
        self._duties.add(self.views.lead)

    async def stop(self) -> None:
        """What started first ends last."""
        await self.member.leave()
        await self.replication.stop()
        await self.database.close()
        await self.metadata.stop()

    async def _former_lease(self) -> int | None:
        """The disk is this machine's alone, so whoever wrote there is dead."""
        disk = self.runtime.disk
        text = await disk.read(_LEASE) if await disk.exists(_LEASE) else b""
        return int(text) if text else None

    async def _remember(self, lease: int) -> None:
        await self.runtime.disk.write(f"{_LEASE}.new", str(lease).encode())
        await self.runtime.disk.rename(f"{_LEASE}.new", _LEASE)
        await self.runtime.disk.sync_directory(_DATA)

    @property
    def is_member(self) -> bool:
        return self.member.operations.allowed


class Cluster:
    def __init__(self, world: World, plan: Plan) -> None:
        self.world = world
        self.plan = plan
        self.inner = MemoryStore(history=100_000)
        self.service = MetadataService(world, self.inner, calm_store())
        #: Nodes that have started, and did not crash since.
        self.nodes: dict[str, Node] = {}
        #: What went wrong, in words.
        self.findings: list[str] = []
        #: Called after each step of a replica.
        self.watch: Callable[[Node, Seat], None] = lambda node, seat: None
        self._lives: list[asyncio.Task[None]] = []
        self._truth = states.EMPTY

    @property
    def truth(self) -> ClusterState:
        """What the metadata store says, whatever nodes know of it."""
        for change in self.inner.history(self._truth.revision):
            self._truth = states.advance(self._truth, change.revision, change.updates)
        return self._truth

    @property
    def tablets(self) -> list[Tablet]:
        return [tablet for tablets in self.truth.tablet_maps.values() for tablet in tablets.tablets]

    # --- machines ------------------------------------------------------------------------------------

    def boot(self, machine: str) -> None:
        disk = self.world.disk(machine)
        if "slow disk" in self.plan.faults and self.world.fault_random.random() < 0.5:
            disk.faults.slowness = between(self.world.fault_random.random(), 1.0, 20.0)
        self._lives = [life for life in self._lives if not life.done()]
        self._lives.append(asyncio.create_task(self._live(machine)))

    async def _live(self, machine: str) -> None:
        while True:
            runtime = self.world.boot(machine)
            node = Node(runtime, self.service.connect(runtime), self.plan.memtable_bytes)
            try:
                await runtime.perform(node.start())
                self.nodes[machine] = node
                node.replication.host.watch = partial(self.watch, node)
                return
            except MachineCrashed:
                return  # Whoever crashed it boots it.
            except (MetadataError, NodeIdTaken) as error:
                self.world.mark(f"cluster.not_started.{type(error).__name__}")
            except Exception as error:
                self.findings.append(f"{machine} could not start: {type(error).__name__}: {error}")
                self.world.note_failure(f"start of {machine}", error)
                return
            if not runtime.incarnation.alive:
                return
            self.world.crash(machine, lose_unsynced=False)
            await self.world.sleep(0.1)

    def crash(self, machine: str, lose_unsynced: bool | None = None) -> None:
        """The power fails, or the process is killed: drawn if not said."""
        self.nodes.pop(machine, None)
        if lose_unsynced is None:
            lose_unsynced = self.world.fault_random.random() < 0.7
        self.world.crash(machine, lose_unsynced=lose_unsynced)

    async def stop(self, machine: str) -> None:
        """In order, as on SIGTERM; then its process ends."""
        node = self.nodes.pop(machine)
        try:
            await node.runtime.perform(node.stop())
        except MachineCrashed:
            return
        self.world.crash(machine, lose_unsynced=False)

    def is_up(self, machine: str) -> bool:
        return self.world.is_running(machine) and machine in self.nodes

    @property
    def up(self) -> list[str]:
        return [machine for machine in self.plan.machines if self.is_up(machine)]
