"""Views of replicated tables: single cases in calm simulated clusters."""

import pytest

from belvedere.query.errors import InvalidRequest
from belvedere.sim.cluster.asking import KEYSPACE, ONE, Asker
from belvedere.sim.cluster.nodes import Cluster
from belvedere.sim.cluster.rest import at_rest
from belvedere.sim.world import World
from belvedere.storage.reads import RangeRead
from belvedere.views.images import removal
from belvedere.views.verify import Report
from tests.cluster.calm_cluster import MACHINES, calm_cluster

VIEW = (
    "CREATE MATERIALIZED VIEW by_v AS SELECT * FROM t WHERE k IS NOT NULL AND v IS NOT NULL "
    "PRIMARY KEY (v, k)"
)


async def _table(asker: Asker) -> None:
    await asker.change_schema(
        "CREATE TABLE t (k int PRIMARY KEY, v int, w int) WITH tablets = {'initial': 3}"
    )


def test_synchronous_views_show_what_was_answered() -> None:
    async def case(world: World) -> None:
        _, asker = await calm_cluster(world)
        await _table(asker)
        await asker.change_schema(f"{VIEW} WITH synchronous_updates = true")
        for number in range(30):
            await asker.ask(f"UPDATE t SET v = {number} WHERE k = 1")
            for machine in MACHINES:
                found = await asker.ask("SELECT v FROM by_v", ONE, machine=machine)
                assert found == [{"v": number}], (number, machine)

    World(1).run(case)


def test_a_view_of_a_table_with_rows_is_built_while_writes_go_on() -> None:
    async def case(world: World) -> None:
        nodes, asker = await calm_cluster(world)
        await _table(asker)
        for number in range(120):
            await asker.ask(f"INSERT INTO t (k, v) VALUES ({number}, {number % 7})")
        await asker.change_schema(VIEW)
        for number in range(0, 120, 3):
            await asker.ask(f"UPDATE t SET v = {number % 5 + 100} WHERE k = {number}")
        await at_rest(nodes, "built")
        await _equal(asker)
        report = await _proved(nodes)
        assert (report.base_rows, report.view_rows, report.wrong) == (120, 120, 0)

    World(2).run(case)


def test_repair_puts_right_what_is_wrong() -> None:
    async def case(world: World) -> None:
        nodes, asker = await calm_cluster(world)
        await _table(asker)
        await asker.change_schema(VIEW)
        for number in range(20):
            await asker.ask(f"INSERT INTO t (k, v) VALUES ({number}, {number})")
        await at_rest(nodes, "written")
        await _damage(nodes)
        report = await _proved(nodes)
        assert (report.missing, report.orphaned, report.different) == (1, 1, 0)
        report = await _proved(nodes, repair=True)
        assert (report.repaired, report.unrepaired) == (2, 0)
        await _equal(asker)

    World(3).run(case)


def test_what_is_not_built_is_not_shown() -> None:
    async def case(world: World) -> None:
        nodes, asker = await calm_cluster(world)
        await _table(asker)
        await asker.ask("INSERT INTO t (k, v) VALUES (1, 1)")
        await asker.change_schema(f"{VIEW} WITH build = {{'hold': 'true'}}")
        database = nodes.nodes["n2"].database
        with pytest.raises(InvalidRequest, match="is not built yet"):
            database.access.keeper.warnings(database.state.keyspaces[KEYSPACE].tables["by_v"])
        await asker.change_schema("ALTER MATERIALIZED VIEW by_v WITH build = {}")
        await at_rest(nodes, "built")
        await _equal(asker)

    World(4).run(case)


async def _equal(asker: Asker) -> None:
    base = await asker.ask("SELECT k, v, w FROM t")
    view = await asker.ask("SELECT k, v, w FROM by_v")
    assert sorted(map(repr, base)) == sorted(map(repr, view))


async def _proved(nodes: Cluster, *, repair: bool = False) -> Report:
    node = nodes.nodes["n2"]
    view = node.database.state.keyspaces[KEYSPACE].tables["by_v"]
    return await node.runtime.perform(node.views.verify(view, repair=repair))


async def _damage(nodes: Cluster) -> None:
    """One image is taken away, and one invented, past the base."""
    node = nodes.nodes["n1"]
    view = node.database.state.keyspaces[KEYSPACE].tables["by_v"]
    maker = node.views.makers(node.database.state.keyspaces[KEYSPACE].tables["t"])[0]
    access = node.replication.access.at(4)

    async def damage() -> None:
        page = (await access.scan_stored(maker.base, RangeRead(), 0)).page
        found = page.partitions[0]
        clustering, row = found.rows[0]
        image = maker.image(found.token, found.key, clustering, row, 0)
        assert image is not None
        version = node.runtime.clock.wall_micros()
        await access.write_one(view, removal(view, image.place, version).mutation)
        row.cells[0] = (4711).to_bytes(4, "big")
        wrong = maker.image(found.token, found.key, clustering, row, version)
        assert wrong is not None
        await access.write_one(view, maker.arrival(wrong).mutation)

    await node.runtime.perform(damage())
