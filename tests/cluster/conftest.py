"""A harness that runs a test of messages on the real network and on simulated ones."""

import asyncio

import pytest

from belvedere.runtime.api import Runtime
from belvedere.runtime.real import run
from belvedere.sim.world import World
from tests.cluster.rpc_pair import Harness, Test, TestCluster

SIMULATED = [(policy, seed) for policy in ("fifo", "random", "pct") for seed in (1, 2)]


@pytest.fixture(params=["real", *(f"{policy}-{seed}" for policy, seed in SIMULATED)])
def on_network(request: pytest.FixtureRequest) -> Harness:
    async def whole(test: Test, runtime: Runtime) -> None:
        cluster = TestCluster(runtime)
        try:
            # A hang must end by itself: the event loop swallows what a test runner's signal raises.
            async with asyncio.timeout(100):
                await test(cluster)
        finally:
            await cluster.close()

    def run_real(test: Test) -> None:
        run(lambda runtime: whole(test, runtime), log_level="error")

    def run_simulated(test: Test) -> None:
        policy, seed = request.param.split("-")
        world = World(int(seed), policy=policy)

        async def main(world: World) -> None:
            runtime = world.boot("machine")
            await runtime.perform(whole(test, runtime))

        world.run(main)
        world.check_no_failures()

    return run_real if request.param == "real" else run_simulated
