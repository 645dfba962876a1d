"""One seed of the cluster scenario."""

from belvedere.sim.scenario_cluster import cluster
from belvedere.sim.world import World


def failure_of(seed: int, *, keep_trace: bool = False) -> tuple[BaseException | None, World]:
    """What broke, if anything."""
    world = World(seed, keep_trace=keep_trace)
    try:
        world.run(cluster)
        world.check_no_failures()
    except Exception as failure:
        return failure, world
    return None, world
