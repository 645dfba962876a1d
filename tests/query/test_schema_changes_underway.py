"""Schema changes under running statements: nothing is read or written under half a definition."""

import asyncio

import pytest

from belvedere.cql.parser import parse_statement
from belvedere.query.errors import InvalidRequest
from belvedere.query.options import QueryOptions
from belvedere.query.schema.change import execute_ddl, new_context
from belvedere.storage.errors import Dropped
from tests.query.database_help import Client, with_database


async def change_elsewhere(client: Client, text: str) -> None:
    """As another node's change arrives, or that of a client that went away."""
    database = client.database
    context = new_context("ks", client.runtime, database.node_id)
    await execute_ddl(parse_statement(text), database.metadata, context)


def test_a_write_to_a_new_column_survives_a_flush_in_the_step_after_the_change() -> None:
    async def use(client: Client) -> None:
        await client.run("CREATE TABLE t (k int PRIMARY KEY, v int)")
        await client.run("INSERT INTO t (k, v) VALUES (1, 1)")
        await change_elsewhere(client, "ALTER TABLE t ADD w int")
        await client.run("INSERT INTO t (k, v, w) VALUES (2, 2, 2)")
        await client.database.engine.flush()
        assert await client.rows("SELECT w FROM t WHERE k = 2") == [(2,)]

    with_database(use)


def test_a_new_column_is_read_as_soon_as_it_is_known() -> None:
    """Also in a table that lost a column before, whose rows are masked."""

    async def use(client: Client) -> None:
        await client.run("CREATE TABLE t (k int PRIMARY KEY, v int, old int)")
        await client.run("ALTER TABLE t DROP old")
        await change_elsewhere(client, "ALTER TABLE t ADD w int")
        await client.run("INSERT INTO t (k, v, w) VALUES (2, 2, 2)")
        assert await client.rows("SELECT w FROM t WHERE k = 2") == [(2,)]

    with_database(use)


def test_tables_that_another_node_drops_go_here_too() -> None:
    async def use(client: Client) -> None:
        await client.run("CREATE TABLE t (k int PRIMARY KEY, v int)")
        await change_elsewhere(client, "DROP TABLE t")
        await client.runtime.clock.sleep(60)
        assert not client.database.engine.stores
        assert not await client.runtime.disk.list("data/node/tables")

    with_database(use)


@pytest.mark.parametrize("seed", range(10))
def test_a_drop_whose_client_went_away_is_carried_out(seed: int) -> None:
    async def use(client: Client) -> None:
        database = client.database
        await client.run("CREATE TABLE t (k int PRIMARY KEY, v int)")
        await client.run("INSERT INTO t (k, v) VALUES (1, 1)")
        await database.engine.flush()
        change = client.start("DROP TABLE t")
        while database.state.table("ks", "t") is not None:
            await client.runtime.clock.sleep(0)
        change.cancel()
        await asyncio.wait([change])
        await client.runtime.clock.sleep(60)
        assert not database.engine.stores
        assert not await client.runtime.disk.list("data/node/tables")

    with_database(use, seed)


def test_a_read_of_a_dropped_table_says_so() -> None:
    """An empty answer would say that the table is there, and empty."""

    async def use(client: Client) -> None:
        database = client.database
        await client.run("CREATE TABLE t (k int PRIMARY KEY, v int)")
        await client.run("INSERT INTO t (k, v) VALUES (1, 1)")
        plan = database.plan("SELECT v FROM t WHERE k = 1", "ks")
        several = database.plan("SELECT v FROM t WHERE k IN (1, 2)", "ks")
        routes = database.access._routes
        await client.run("DROP TABLE t")
        database.access._routes = routes
        for one in (plan, several):
            with pytest.raises((InvalidRequest, Dropped)):
                await database.run(one, QueryOptions())

    with_database(use)
