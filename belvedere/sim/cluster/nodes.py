"""The cluster's machines, and on each the life of a node: `server.node.Node` without its CQL socket.

A node that cannot start, since the metadata store is away or its name is still taken, ends, and is started
again, as whoever looks after servers would do.
"""

import asyncio

from belvedere.cluster.log import Limits
from belvedere.cluster.members import NodeIdTaken
from belvedere.cluster.rpc_settings import RpcSettings
from belvedere.meta import state as states
from belvedere.meta.memory import MemoryStore
from belvedere.meta.state import ClusterState, Tablet
from belvedere.meta.store import MetadataError
from belvedere.query.database import DatabaseOptions
from belvedere.runtime.errors import NetworkError
from belvedere.server.node import Node
from belvedere.server.replication import Replication
from belvedere.server.settings import ClusterSettings, GivenMetadata
from belvedere.sim.cluster.plan import Plan
from belvedere.sim.incarnation import MachineCrashed
from belvedere.sim.metastore import MetadataService, StoreFaults
from belvedere.sim.randomness import between
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World
from belvedere.storage.engine import EngineOptions

#: Everything is quicker than in earnest, so that much happens in a few seconds.
LEASE_SECONDS = 0.8
STATEMENT_SECONDS = 2.0
_LIMITS = Limits(
    pending=64,
    batch=8,
    window=64,
    remembered=16,
    resend=0.05,
    patience=0.25,
    notice=0.01,
    retry=0.12,
)
_RPC = RpcSettings(
    connect_seconds=0.4, first_pause=0.02, longest_pause=0.2, heartbeat_seconds=0.25, heartbeats_missed=2
)
_PORT = 7000


def calm_store() -> StoreFaults:
    return StoreFaults(delay=(50e-6, 3e-3), patience=0.2)


class Cluster:
    def __init__(self, world: World, plan: Plan) -> None:
        self.world = world
        self.plan = plan
        self.inner = MemoryStore(history=100_000)
        self.service = MetadataService(world, self.inner, calm_store())
        #: Nodes that have started, and did not crash since.
        self.nodes: dict[str, Node] = {}
        self.runtimes: dict[str, SimRuntime] = {}
        #: What went wrong, in words.
        self.findings: list[str] = []
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
            store = self.service.connect(runtime)
            starting = Node.start(runtime, "data", _options(), cluster=_settings(machine, GivenMetadata(store)))
            try:
                node = await runtime.perform(starting)
                self.nodes[machine], self.runtimes[machine] = node, runtime
                return
            except MachineCrashed:
                return  # Whoever crashed it boots it.
            except (MetadataError, NodeIdTaken, NetworkError) as error:
                self.world.mark(f"cluster.not_started.{type(error).__name__}")
            except Exception as error:
                self.findings.append(f"{machine} could not start: {type(error).__name__}: {error}")
                self.world.note_failure(f"start of {machine}", error)
                return
            if not runtime.incarnation.alive:
                return
            self.world.crash(machine, lose_unsynced=False)
            await self.world.sleep(0.1)

    def crash(self, machine: str) -> None:
        self.nodes.pop(machine, None)
        self.world.crash(machine, lose_unsynced=self.world.fault_random.random() < 0.7)

    def is_up(self, machine: str) -> bool:
        return self.world.is_running(machine) and machine in self.nodes

    def replication(self, machine: str) -> Replication:
        found = self.nodes[machine].replication
        assert found is not None
        return found

    @property
    def up(self) -> list[str]:
        return [machine for machine in self.plan.machines if self.is_up(machine)]


def _options() -> DatabaseOptions:
    storage = EngineOptions(
        segment_bytes=128 << 10, closed_segments=8, memtable_bytes=60_000, cache_bytes=200_000
    )
    return DatabaseOptions(storage=storage)


def _settings(machine: str, metadata: GivenMetadata) -> ClusterSettings:
    return ClusterSettings(
        machine,
        metadata,
        cluster="sim",
        rpc_host=machine,
        rpc_port=_PORT,
        lease_seconds=LEASE_SECONDS,
        experimental=True,
        statement_seconds=STATEMENT_SECONDS,
        limits=_LIMITS,
        rpc=_RPC,
    )
