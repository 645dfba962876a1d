"""Outboxes of tablets whose batches have parts for each other, and for themselves."""

import asyncio
from unittest.mock import patch

from belvedere.query.replicated import outbox
from belvedere.sim.cluster.asking import NoAnswer, Refused
from belvedere.sim.cluster.checks import check_replicas
from belvedere.sim.cluster.rest import at_rest
from belvedere.sim.world import World
from tests.cluster.calm_cluster import calm_cluster

BATCHES = 40


async def _batches(world: World) -> None:
    nodes, asker = await calm_cluster(world)
    await asker.change_schema("CREATE TABLE t (k int PRIMARY KEY, v int) WITH tablets = {'initial': 3}")

    async def write(number: int) -> None:
        inserts = [f"INSERT INTO t (k, v) VALUES ({number * 5 + part}, {number});" for part in range(5)]
        while True:
            try:
                await asker.ask(f"BEGIN BATCH {' '.join(inserts)} APPLY BATCH")
                return
            except (Refused, NoAnswer):
                await world.sleep(0.2)

    writing = [asyncio.create_task(write(number)) for number in range(BATCHES)]
    await world.sleep(0.02)
    world.network.partition(["n1"], ["n2", "n3"])
    await world.sleep(1.0)
    world.network.heal()
    await asyncio.gather(*writing)
    await at_rest(nodes, "all batches are written")
    await check_replicas(nodes)
    (found,) = await asker.ask("SELECT count(*) FROM t")
    assert found["count"] == 5 * BATCHES


def test_full_outboxes_do_not_wait_for_each_other() -> None:
    with patch.object(outbox, "MOST_OPEN", 3):
        world = World(7)
        world.run(_batches)
        world.check_no_failures()
