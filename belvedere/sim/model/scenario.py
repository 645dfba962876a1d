"""The model's runs as scenarios: they reach all of a node's floors, so they show where a run is no function
of its seed."""

from belvedere.sim.model.plans import make_plan
from belvedere.sim.model.run import Runner
from belvedere.sim.scenarios import register
from belvedere.sim.world import World


async def model(world: World) -> None:
    await Runner(world, make_plan(world.seed)).run()


register("model", model)
