"""Views on one node: kept, built, read, truncated, verified and repaired, through CQL."""

from typing import Any

import pytest

from belvedere.model.mutations import ViewUpdate
from belvedere.query.errors import InvalidRequest
from belvedere.storage.engine import EngineOptions
from belvedere.storage.reads import RangeRead
from belvedere.views import build, service
from belvedere.views.images import removal
from tests.query.database_help import Client, with_database

BASE = "CREATE TABLE t (k int, c int, v int, w text, s set<int>, PRIMARY KEY (k, c))"
VIEW = (
    "CREATE MATERIALIZED VIEW mv AS SELECT * FROM t WHERE v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL "
    "PRIMARY KEY (v, k, c)"
)
EVERYTHING = "SELECT v, k, c, w, s, WRITETIME(w), TTL(w) FROM {}"


async def same(client: Client) -> list[tuple[object, ...]]:
    """The view's rows, after a look whether they are the base's."""
    found = sorted(await client.rows(EVERYTHING.format("mv")), key=repr)
    base = [row for row in await client.rows(EVERYTHING.format("t")) if row[0] is not None]
    assert found == sorted(base, key=repr)
    report = await client.views.verify(client.database.state.keyspaces["ks"].tables["mv"])
    assert report.wrong == 0
    assert report.view_rows == len(found)
    return found


def test_a_view_follows_its_base() -> None:
    async def use(client: Client) -> None:
        await client.run(BASE)
        await client.run(VIEW)
        await client.run("INSERT INTO t (k, c, v, w, s) VALUES (1, 1, 10, 'a', {1, 2})")
        await client.run("INSERT INTO t (k, c, v, w) VALUES (1, 2, 10, 'b') USING TTL 1000")
        assert len(await same(client)) == 2
        await client.run("UPDATE t SET v = 20 WHERE k = 1 AND c = 1")
        assert [row[:3] for row in await same(client)] == [(10, 1, 2), (20, 1, 1)]
        await client.run("UPDATE t USING TIMESTAMP 5 SET v = 30 WHERE k = 1 AND c = 1")
        await client.run("UPDATE t SET s = s + {7}, w = 'z' WHERE k = 1 AND c = 1 IF v = 20")
        assert [row[:5] for row in await same(client)] == [(10, 1, 2, "b", None), (20, 1, 1, "z", {1, 2, 7})]
        await client.run("DELETE v FROM t WHERE k = 1 AND c = 2")
        assert len(await same(client)) == 1
        await client.run(
            "BEGIN BATCH INSERT INTO t (k, c, v) VALUES (2, 1, 5); DELETE FROM t WHERE k = 1; APPLY BATCH"
        )
        assert [row[:3] for row in await same(client)] == [(5, 2, 1)]

    with_database(use)


def test_a_large_deletion_goes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("belvedere.query.keeping.DELETED_AT_ONCE", 5)

    async def use(client: Client) -> None:
        await client.run(BASE)
        await client.run(VIEW)
        for c in range(40):
            await client.run(f"INSERT INTO t (k, c, v) VALUES (1, {c}, {c % 3}) USING TIMESTAMP {100 + c}")
        await client.run("DELETE FROM t USING TIMESTAMP 110 WHERE k = 1")
        assert len(await same(client)) == 29
        before = client.database.durable_position
        await client.run(
            "BEGIN BATCH USING TIMESTAMP 120 DELETE FROM t WHERE k = 1 AND c > 15 AND c < 100; "
            "INSERT INTO t (k, c, v) VALUES (1, 16, 7); INSERT INTO t (k, c, v) VALUES (1, 99, 7); "
            "INSERT INTO t (k, c, v) VALUES (1, 100, 7); APPLY BATCH"
        )
        assert len(await same(client)) == 25
        assert client.database.durable_position > before
        await client.run("DELETE FROM t WHERE k = 1")
        assert await same(client) == []

    with_database(use)


def test_a_view_of_a_table_with_rows_is_built_before_create_returns() -> None:
    async def use(client: Client) -> None:
        await client.run(BASE)
        for k in range(30):
            await client.run(f"INSERT INTO t (k, c, v, w) VALUES ({k}, 1, {k % 4}, 'x')")
        await client.run(VIEW)
        assert len(await same(client)) == 30
        ((_, state, rows),) = await client.rows(
            "SELECT view_name, state, rows_read FROM system_views.view_builds"
        )
        assert (state, rows) == ("BUILT", 30)
        assert await client.rows("SELECT view_name FROM system.built_views") == [("mv",)]
        await client.run("TRUNCATE t")
        assert await same(client) == []
        await client.run("INSERT INTO t (k, c, v, w) VALUES (1, 1, 1, 'x')")
        assert len(await same(client)) == 1
        await client.run("DROP MATERIALIZED VIEW mv")
        assert not [key for key in client.database.state.entries if key.startswith(("views/", "tasks/"))]

    with_database(use)


def test_a_view_that_is_not_built_is_not_read_silently() -> None:
    async def use(client: Client) -> None:
        await client.run(BASE)
        for k in range(30):
            await client.run(f"INSERT INTO t (k, c, v) VALUES ({k}, 1, {k % 4})")
        await client.run(VIEW + " WITH build = {'hold': 'true'}")
        with pytest.raises(InvalidRequest, match=r"not built yet: 0 of .* ranges .* held"):
            await client.run("SELECT * FROM mv")
        await client.run("ALTER MATERIALIZED VIEW mv WITH read_while_building = true")
        for query in (
            "SELECT * FROM mv",
            "SELECT k FROM mv WHERE v = 1",
            "SELECT k FROM mv WHERE v=1 AND k=1 AND c=1",
        ):
            result = await client.run(query)
            assert "not built yet" in result.warnings[0]
        await client.run("INSERT INTO t (k, c, v) VALUES (77, 1, 77)")
        assert await client.rows("SELECT k FROM mv WHERE v = 77") == [(77,)]
        await client.run("ALTER MATERIALIZED VIEW mv WITH build = {'hold': 'false'}")
        await client.runtime.clock.sleep(5)
        assert len(await same(client)) == 31

    with_database(use)


def test_a_failing_build_says_why_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = True
    original = build.ViewWriter.write

    async def write(self: build.ViewWriter, updates: list[ViewUpdate]) -> None:
        if failing:
            raise RuntimeError("no luck")
        await original(self, updates)

    monkeypatch.setattr(build.ViewWriter, "write", write)

    async def use(client: Client) -> None:
        nonlocal failing
        await client.run(BASE)
        await client.run("INSERT INTO t (k, c, v) VALUES (1, 1, 1)")
        with pytest.raises(Exception, match="no luck"):
            await client.run(VIEW)
        with pytest.raises(InvalidRequest, match="no luck"):
            await client.run("SELECT * FROM mv")
        await client.runtime.clock.sleep(3)
        ((state, attempts),) = await client.rows(
            "SELECT state, failed_attempts FROM system_views.view_builds"
        )
        assert state == "FAILING"
        assert attempts > 1
        failing = False
        await client.runtime.clock.sleep(60)
        assert len(await same(client)) == 1

    with_database(use)


@pytest.mark.parametrize("step", ["completing", "emptied"])
def test_whatever_keeps_the_end_of_a_build_from_being_written_down_is_told_and_tried_again(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = True
    original = getattr(service, step)

    def propose(*arguments: Any) -> Any:
        if failing:
            raise RuntimeError("no luck")
        return original(*arguments)

    async def use(client: Client) -> None:
        nonlocal failing
        await client.run(BASE)
        await client.run(VIEW)
        await client.run("INSERT INTO t (k, c, v) VALUES (1, 1, 1)")
        monkeypatch.setattr(service, step, propose)
        await client.run("TRUNCATE t")
        await client.run("INSERT INTO t (k, c, v) VALUES (1, 2, 2)")
        with pytest.raises(InvalidRequest, match="no luck"):
            await client.run("SELECT * FROM mv")
        failing = False
        await client.runtime.clock.sleep(60)
        assert [row[:3] for row in await same(client)] == [(2, 1, 2)]

    with_database(use)


def test_damage_is_found_and_repaired() -> None:
    async def use(client: Client) -> None:
        await client.run(BASE)
        await client.run(VIEW)
        for k in range(20):
            await client.run(f"INSERT INTO t (k, c, v, w) VALUES ({k}, 1, {k % 4}, 'x')")
        database, view = client.database, client.database.state.keyspaces["ks"].tables["mv"]
        base = database.state.keyspaces["ks"].tables["t"]
        (maker,) = client.views.makers(base)
        wrong = []
        stores = await database.access.stores(base)
        page = await database.access.scan(base, RangeRead(), 0)
        first, second, third = page.partitions[:3]
        version = stores[0].last_version + 10_000_000
        clustering, row = first.rows[0]
        image = maker.image(first.token, first.key, clustering, row, version)
        assert image is not None
        wrong.append(removal(view, (image.key, image.clustering), version))
        clustering, row = second.rows[0]
        cells = list(row.cells)
        cells[base.by_name["w"].position] = b"other"
        changed = type(row)(row.timestamp, row.ttl, row.expiry, row.live, None, cells)
        image = maker.image(second.token, second.key, clustering, changed, version)
        assert image is not None
        wrong.append(maker.arrival(image))
        cells[base.by_name["v"].position] = (99).to_bytes(4, "big")
        changed = type(row)(row.timestamp, row.ttl, row.expiry, row.live, None, cells)
        image = maker.image(third.token, third.key, clustering, changed, version)
        assert image is not None
        wrong.append(maker.arrival(image))
        writer = build.ViewWriter(client.runtime, database.engine, stores[0])
        await writer.write(wrong)
        report = await client.views.verify(view)
        assert (report.missing, report.orphaned, report.different) == (1, 1, 1)
        kinds = {finding.kind: finding for finding in report.examples}
        assert ("w", "other") in kinds["different"].found
        assert ("w", "x") in kinds["different"].expected
        assert ("v", "99") in kinds["orphaned"].key
        report = await client.views.verify(view, repair=True)
        assert (report.wrong, report.repaired, report.unrepaired) == (3, 3, 0)
        await client.run("UPDATE t SET w = 'later' WHERE k = 1 AND c = 1")
        await same(client)

    with_database(use, storage=EngineOptions())
