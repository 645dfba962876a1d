"""Loads that nobody commits are given up in time; one that is being committed is not."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import pytest

from belvedere.meta import load_records
from belvedere.meta.memory import MemoryStore
from belvedere.pipeline.loads import KEPT_SECONDS, Load
from belvedere.query.errors import InvalidRequest
from belvedere.sim.scenario_loads import Known, LoadedRow, LoadingNode, write_load
from belvedere.sim.world import World

ROWS = [LoadedRow({"k": k, "n": 7}) for k in range(20)]

Use = Callable[[World, LoadingNode, Load], Awaitable[None]]


def with_a_load(use: Use) -> None:
    """A load into a table of three tablets, begun and written."""
    world = World(1, policy="fifo", buggify=False)

    async def main(world: World) -> None:
        node = LoadingNode(world, world.boot("node"), MemoryStore(), Known())

        async def begin() -> Load:
            await node.open()
            load = await node.loads.begin(node.table("numbered"), {})
            await write_load(node.runtime, load, node.table("numbered"), ROWS)
            return load

        await use(world, node, await node.runtime.perform(begin()))
        stores = node.database.engine.stores_of(node.table("numbered").id)
        assert [store.tombstones_needed for store in stores] == [0, 0, 0]
        await node.runtime.perform(_nothing_left(node))

    world.run(main, limit_seconds=None)
    world.check_no_failures()


async def _nothing_left(node: LoadingNode) -> None:
    assert await node.runtime.disk.list(node.exchange.directory) == []
    await node.close()


async def _numbers(node: LoadingNode) -> list[Any]:
    return sorted(row["k"] for row in await node.run("SELECT k FROM numbered"))


def test_a_load_that_nobody_commits_is_given_up() -> None:
    async def use(world: World, node: LoadingNode, load: Load) -> None:
        await world.sleep(KEPT_SECONDS + 10)
        with pytest.raises(InvalidRequest, match="given up"):
            await node.runtime.perform(node.loads.commit(load.id))
        assert await node.runtime.perform(_numbers(node)) == []

    with_a_load(use)


def test_a_load_that_is_long_in_committing_keeps_its_files() -> None:
    async def use(world: World, node: LoadingNode, load: Load) -> None:
        hold = world.arm("tablet.attach")
        committing = asyncio.create_task(node.runtime.perform(node.loads.commit(load.id)))
        await hold.reached()
        await world.sleep(2 * KEPT_SECONDS + 10)
        hold.release()
        await committing
        assert await node.runtime.perform(_numbers(node)) == list(range(20))

    with_a_load(use)


def test_a_load_that_was_not_committed_after_all_is_given_up_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise InvalidRequest("not now")

    monkeypatch.setattr(load_records, "committing", refuse)

    async def use(world: World, node: LoadingNode, load: Load) -> None:
        async with node.database.access.changing_tables:
            committing = asyncio.create_task(node.runtime.perform(node.loads.commit(load.id)))
            await world.sleep(KEPT_SECONDS + 10)
        with pytest.raises(InvalidRequest, match="not now"):
            await committing
        assert await node.runtime.perform(node.runtime.disk.exists(load.directory))
        await world.sleep(KEPT_SECONDS)

    with_a_load(use)
