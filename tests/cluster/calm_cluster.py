"""Three simulated nodes without faults, for single cases."""

from belvedere.sim.cluster.asking import KEYSPACE, Asker
from belvedere.sim.cluster.nodes import Cluster
from belvedere.sim.cluster.plan import Plan
from belvedere.sim.randomness import stream
from belvedere.sim.world import World

MACHINES = ("n1", "n2", "n3")
_PLAN = Plan(
    machines=MACHINES,
    factor=3,
    tablets=1,
    works=(),
    clients=0,
    haste=0.0,
    faults=frozenset(),
    lasts=0.0,
    pace=0.0,
    memtable_bytes=60_000,
    dark_end=False,
)


async def calm_cluster(world: World) -> tuple[Cluster, Asker]:
    """With a keyspace of three replicas."""
    nodes = Cluster(world, _PLAN)
    asker = Asker(nodes, stream(world.seed, "asker"))
    for machine in MACHINES:
        nodes.boot(machine)
    while len(nodes.up) < len(MACHINES):
        await world.sleep(0.05)
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 3}"
    await asker.change_schema(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {replication}")
    return nodes, asker
