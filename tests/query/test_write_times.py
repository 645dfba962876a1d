"""Write times go on from where they were, whatever the clock does and however often the node starts."""

from collections.abc import Awaitable, Callable

import pytest

from belvedere.meta.memory import MemoryStore
from belvedere.sim.scenario_loads import Known, LoadedRow, LoadingNode
from belvedere.sim.world import World

Step = Callable[[LoadingNode], Awaitable[None]]

#: Keys in two tablets of the numbered table.
HERE, THERE = 0, 3


async def _keys_are_apart(node: LoadingNode) -> None:
    rows = await node.run(f"SELECT token(k) FROM numbered WHERE k IN ({HERE}, {THERE})")
    stores = await node.database.access.stores(node.table("numbered"))
    homes = {
        store.id
        for row in rows
        for store in stores
        if store.first_token <= next(iter(row.values())) <= store.last_token
    }
    assert len(homes) == 2


async def _begin(node: LoadingNode) -> None:
    for k in (THERE, HERE):
        await node.run(f"INSERT INTO numbered (k, n) VALUES ({k}, 0)")
    await _keys_are_apart(node)


async def _many_writes(node: LoadingNode) -> None:
    for n in range(1, 200):
        await node.run(f"INSERT INTO numbered (k, n) VALUES ({THERE}, {n})")


async def _loads(node: LoadingNode) -> None:
    for n in range(1, 5):
        await node.load(node.table("numbered"), [LoadedRow({"k": THERE, "n": n})])


async def _one_more(node: LoadingNode) -> None:
    await node.run(f"INSERT INTO numbered (k, n) VALUES ({THERE}, 1000)")
    assert await node.run(f"SELECT n FROM numbered WHERE k = {THERE}") == [{"n": 1000}]


@pytest.mark.parametrize("more", [_many_writes, _loads])
def test_after_a_clock_that_was_set_back(more: Step) -> None:
    async def main(world: World) -> None:
        store = MemoryStore()
        for step in (_begin, more, _one_more):
            node = LoadingNode(world, world.boot("node"), store, Known())

            async def live(node: LoadingNode = node, step: Step = step) -> None:
                await node.open()
                await step(node)

            await node.runtime.perform(live())
            world.crash("node")
            world.jump_wall_clock("node", -3600)

    world = World(1, policy="fifo", buggify=False)
    world.run(main)
    world.check_no_failures()
