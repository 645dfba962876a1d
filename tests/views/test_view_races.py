"""Races of views, each held at a named point of the code until the other side has come to where it hurts."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from belvedere.meta.memory import MemoryStore
from belvedere.pipeline.view_work import ViewWork
from belvedere.query.errors import InvalidRequest
from belvedere.sim.scenario_loads import LoadedRow
from belvedere.sim.world import World
from belvedere.views import local_verify, verify
from belvedere.views.verify import Report
from belvedere.views.work import Compared
from tests.views.crash_bugs import BUGS
from tests.views.crash_cases import Model, SmallNode
from tests.views.damage import WRONG_V, damage

Race = Callable[[World, SmallNode], Awaitable[None]]


def race(use: Race, *, by_jobs: bool = False) -> None:
    """A base with four rows and two views that show them, raced, and compared at rest."""
    world = World(1, policy="fifo", buggify=False)

    async def main(world: World) -> None:
        node = SmallNode(world, world.boot("node"), MemoryStore(), Model(), by_jobs)

        async def begin() -> None:
            await node.open()
            for k in range(4):
                await node.run(f"INSERT INTO t (k, c, v, w) VALUES ({k}, 1, 1, 'old') USING TIMESTAMP 1000")

        await node.runtime.perform(begin())
        await use(world, node)
        await node.runtime.perform(_compare(node))

    world.run(main)
    world.check_no_failures()


async def _compare(node: SmallNode) -> None:
    await node.let_views_go()
    for name in node.existing():
        report = await node.views.verify(node.table(name))
        assert report.wrong == 0, f"{name}: {report}"
    await node.close()


def perform(node: SmallNode, work: Any) -> "asyncio.Task[Any]":
    return asyncio.create_task(node.runtime.perform(work))


async def _views(node: SmallNode) -> None:
    await node.make_views(hold=False)
    await node.let_views_go()


# --- loads -------------------------------------------------------------------------------------------


async def _write_below_a_staged_load(world: World, node: SmallNode) -> None:
    await perform(node, _views(node))
    hold = world.arm("loads.attached")
    rows = [LoadedRow({"k": 1, "c": 1, "v": 2})]
    loading = perform(node, node.load(node.table("t"), rows, timestamp=3000))
    await hold.reached()
    # So that what is staged is known without a disk, and the write is done at once.
    await perform(node, node.run("SELECT * FROM t WHERE k = 1 AND c = 1"))
    # It loses against the load, so that readers see no change; but the view shows what was before.
    await perform(node, node.run("UPDATE t USING TIMESTAMP 2000 SET v = 5 WHERE k = 1 AND c = 1"))
    await perform(node, node.run("UPDATE t SET v = 3 WHERE k = 1 AND c = 1"))
    hold.release()
    await loading


def test_a_write_that_a_staged_load_hides_takes_away_what_views_show() -> None:
    race(_write_below_a_staged_load)
    race(_write_below_a_staged_load, by_jobs=True)


# --- writers that waited -----------------------------------------------------------------------------


async def _create_a_view_while_a_write_waits(world: World, node: SmallNode) -> None:
    hold = world.arm("writes.computed")
    # A condition holds its partition, and what it writes is computed before it is written.
    writing = perform(node, node.run("UPDATE t SET v = 7 WHERE k = 1 AND c = 1 IF v = 1"))
    await hold.reached()
    creating = perform(node, _views(node))
    await creating
    hold.release()
    await writing


def test_a_write_that_waited_keeps_a_view_that_came_meanwhile() -> None:
    race(_create_a_view_while_a_write_waits)
    race(_create_a_view_while_a_write_waits, by_jobs=True)


async def _truncate_while_a_write_waits(world: World, node: SmallNode) -> None:
    await perform(node, _views(node))
    hold = world.arm("writes.computed")
    writing = perform(node, node.run("UPDATE t SET w = 'new' WHERE k = 1 AND c = 1 IF v = 1"))
    await hold.reached()
    await perform(node, node.run("TRUNCATE t"))
    hold.release()
    await writing


def test_a_write_that_waited_does_not_bring_back_what_was_truncated() -> None:
    race(_truncate_while_a_write_waits)


# --- truncations -------------------------------------------------------------------------------------


async def _truncate_while_images_are_attached(world: World, node: SmallNode) -> None:
    hold = world.arm("tablet.attach")
    building = perform(node, _views(node))
    await hold.reached()
    truncating = perform(node, node.run("TRUNCATE t"))
    await world.sleep(1)
    hold.release()
    await asyncio.gather(building, truncating)


def test_images_of_rows_that_were_truncated_meanwhile_are_not_attached() -> None:
    race(_truncate_while_images_are_attached, by_jobs=True)


async def _truncate_while_a_repair_writes(world: World, node: SmallNode) -> None:
    async def damaged() -> None:
        await _views(node)
        await damage(node.database, node.views)

    await perform(node, damaged())
    hold = world.arm("views.repair_computed")
    repairing = perform(node, node.views.verify(node.table("mv"), repair=True))
    await hold.reached()
    await perform(node, node.run("TRUNCATE t"))
    hold.release()
    await asyncio.gather(repairing, return_exceptions=True)


def test_a_repair_does_not_bring_back_what_was_truncated() -> None:
    race(_truncate_while_a_repair_writes)
    race(_truncate_while_a_repair_writes, by_jobs=True)


# --- what comes between finding and repairing ----------------------------------------------------------


def _between(meanwhile: Callable[[SmallNode], Awaitable[None]]) -> Race:
    """Something happens once, after a row was found wrong and before the repair has its version."""

    async def use(world: World, node: SmallNode) -> None:
        version = local_verify.ViewWriter.version
        left = [meanwhile]

        async def later(writer: local_verify.ViewWriter, at_least: int = 0) -> int:
            if left:
                await left.pop()(node)
            return await version(writer, at_least)

        async def repair() -> None:
            await _views(node)
            await damage(node.database, node.views)
            # It may say that the view was begun again.
            with patch.object(local_verify.ViewWriter, "version", later), suppress(InvalidRequest):
                await node.views.verify(node.table("mv"), repair=True)

        await perform(node, repair())
        assert not left

    return use


async def _truncate(node: SmallNode) -> None:
    await node.run("TRUNCATE t")


async def _load_what_is_orphaned(node: SmallNode) -> None:
    """Each row stands where a stray one stood."""
    rows = [LoadedRow({"k": k, "c": 1, "v": WRONG_V}) for k in range(4)]
    await node.load(node.table("t"), rows)
    while any(store.staged_loads for store in node.database.engine.stores.values()):
        await node.runtime.clock.sleep(0.01)


def test_a_repair_of_what_a_truncation_removed() -> None:
    race(_between(_truncate))
    race(_between(_truncate), by_jobs=True)


def test_a_repair_of_what_a_load_put_right() -> None:
    race(_between(_load_what_is_orphaned))
    race(_between(_load_what_is_orphaned), by_jobs=True)


async def _write_while_it_is_compared(world: World, node: SmallNode) -> None:
    """Between a look at the base and one at the view, always."""
    stored = verify.Verification._stored
    writes = 0

    async def move_a_row() -> None:
        nonlocal writes
        writes += 1
        await node.run(f"UPDATE t SET v = {writes % 5 + 2} WHERE k = 1 AND c = 1")

    async def later(self: verify.Verification, place: Any) -> Any:
        node.runtime.spawn("write", move_a_row())
        await node.runtime.clock.sleep(0.02)
        return await stored(self, place)

    async def compare() -> Report:
        await _views(node)
        with patch.object(verify.Verification, "_stored", later):
            return await node.views.verify(node.table("mv"))

    report = await perform(node, compare())
    assert report.wrong == 0
    assert writes > 4


def test_a_comparison_takes_no_write_for_a_mistake() -> None:
    race(_write_while_it_is_compared)


async def _repair_more_than_is_named(world: World, node: SmallNode) -> None:
    """However often it is compared, some places are left that nobody names."""
    compare = ViewWork.compare

    async def never_all(*arguments: Any) -> Compared:
        return replace(await compare(*arguments), unnamed=5)

    async def repair() -> Report:
        await _views(node)
        await damage(node.database, node.views)
        with patch.object(ViewWork, "compare", never_all):
            async with asyncio.timeout(60):
                return await node.views.verify(node.table("mv"), repair=True)

    report = await perform(node, repair())
    assert report.repaired
    assert report.unexamined == 5


def test_a_repair_ends_when_it_comes_no_further() -> None:
    race(_repair_more_than_is_named, by_jobs=True)


# --- these tests can fail ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bug", "use", "by_jobs"),
    [
        ("loads_not_staged", _write_below_a_staged_load, False),
        ("staged_rows_not_told_of", _write_below_a_staged_load, False),
        ("new_views_not_noticed", _create_a_view_while_a_write_waits, False),
        ("truncation_not_noticed_by_writers", _truncate_while_a_write_waits, False),
        ("truncation_counter_ignored", _truncate_while_images_are_attached, True),
        ("truncation_counter_ignored", _truncate_while_a_repair_writes, False),
        ("repair_ignores_the_lock", _write_while_it_is_compared, False),
    ],
)
def test_finds_a_planted_bug(bug: str, use: Race, by_jobs: bool) -> None:
    with BUGS[bug](), pytest.raises(AssertionError):
        race(use, by_jobs=by_jobs)
