"""A replica that was away for longer than the log goes back gets a snapshot, and all that came after it."""

import pytest

from belvedere.sim.cluster.asking import Asker, NoAnswer, Refused
from belvedere.sim.cluster.checks import check_replicas
from belvedere.sim.cluster.rest import at_rest
from belvedere.sim.world import World
from tests.cluster.calm_cluster import MACHINES, calm_cluster

#: Far more than the simulated nodes' logs keep.
ROWS, VALUE = 300, "x" * 3000


async def _writes(asker: Asker, first: int) -> None:
    for number in range(first, first + ROWS):
        text = f"INSERT INTO t (k, c, v) VALUES ({number % 50}, {number}, '{VALUE}')"
        while not await _done(asker, text):
            await asker.cluster.world.sleep(0.1)


async def _done(asker: Asker, text: str) -> bool:
    """A backup whose memory is full for a moment is taken out, and comes back: then a quorum is missing."""
    try:
        await asker.ask(text, machine="n1")
    except (Refused, NoAnswer):
        return False
    return True


async def _away_for_long(world: World) -> None:
    nodes, asker = await calm_cluster(world)
    table = "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c)) WITH tablets = {'initial': 2}"
    await asker.change_schema(table)
    columns = "k IS NOT NULL AND c IS NOT NULL AND v IS NOT NULL"
    await asker.change_schema(
        f"CREATE MATERIALIZED VIEW by_c AS SELECT * FROM t WHERE {columns} PRIMARY KEY (c, k)"
    )
    await _writes(asker, 0)
    nodes.crash("n3")
    await world.sleep(2.0)
    await _writes(asker, ROWS)
    while not await _done(asker, "DELETE FROM t WHERE k = 7"):
        await world.sleep(0.1)
    nodes.boot("n3")
    await at_rest(nodes, "n3 is back")
    await check_replicas(nodes)
    for machine in MACHINES:
        for name in ("t", "by_c"):
            (count,) = await asker.ask(f"SELECT count(*) FROM {name}", machine=machine)
            assert count["count"] == 2 * ROWS * 49 // 50, (machine, name)


@pytest.mark.parametrize("seed", range(1))
def test_a_replica_that_was_away_for_long_gets_a_snapshot(seed: int) -> None:
    world = World(seed)
    world.run(_away_for_long)
    world.check_no_failures()
    assert "replication.snapshot" in world.marks
