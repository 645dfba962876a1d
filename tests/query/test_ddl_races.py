"""Schema changes from two nodes at once: each is decided on the outcome of those before it."""

import asyncio
from collections import Counter
from random import Random

import pytest

from belvedere.cql.parser import parse_statement
from belvedere.meta.memory import MemoryStore
from belvedere.meta.metadata import Metadata
from belvedere.meta.state import ClusterState, from_loaded
from belvedere.query.errors import AlreadyExists, InvalidRequest
from belvedere.query.results import Result, SchemaChange, Void
from belvedere.query.schema.change import execute_ddl, new_context
from belvedere.runtime.api import Runtime
from belvedere.sim.world import World
from tests.meta.slow_store import SlowStore
from tests.query.schema_book import SIMPLE
from tests.query.schema_whole import check_whole


class Nodes:
    """Two nodes over one store; statements go to them in turn."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.store = MemoryStore()
        self.nodes = [Metadata(runtime, SlowStore(runtime, self.store)) for _ in range(2)]
        self._turn = 0

    async def run(self, text: str) -> Result | Exception:
        self._turn += 1
        number = self._turn % 2
        await self._runtime.clock.sleep(self._runtime.random.random() / 100)
        try:
            context = new_context("ks", self._runtime, f"node{number}")
            result, revision = await execute_ddl(parse_statement(text), self.nodes[number], context)
            assert self.nodes[number].state.revision >= revision > 0
            return result
        except (InvalidRequest, AlreadyExists) as error:
            return error


async def in_world(
    runtime: Runtime, rounds: list[list[str]]
) -> tuple[list[list[Result | Exception]], ClusterState]:
    nodes = Nodes(runtime)
    for node in nodes.nodes:
        await node.start()
    await nodes.run(f"CREATE KEYSPACE ks {SIMPLE}")
    answers = [list(await asyncio.gather(*map(nodes.run, texts))) for texts in rounds]
    loaded = from_loaded(await nodes.store.load())
    for node in nodes.nodes:
        await node.catch_up(loaded.revision)
        assert node.state.keyspaces == loaded.keyspaces
        assert node.state.tablet_maps == loaded.tablet_maps
        await node.stop()
    check_whole(loaded)
    return answers, loaded


def simulate(seed: int, *rounds: list[str]) -> tuple[list[list[Result | Exception]], ClusterState]:
    found = []

    async def main(world: World) -> None:
        runtime = world.boot("machine")
        found.append(await runtime.perform(in_world(runtime, list(rounds))))

    World(seed).run(main)
    return found[0]


@pytest.mark.parametrize("seed", range(5))
def test_one_of_many_creators_wins(seed: int) -> None:
    texts = [f"CREATE TABLE t (k int PRIMARY KEY, v{number} int)" for number in range(8)]
    (answers,), state = simulate(seed, texts)
    assert Counter(type(answer) for answer in answers) == {SchemaChange: 1, AlreadyExists: 7}
    winner = next(n for n, answer in enumerate(answers) if isinstance(answer, SchemaChange))
    assert f"v{winner}" in state.keyspaces["ks"].tables["t"].by_name


@pytest.mark.parametrize("seed", range(5))
def test_different_tables_all_succeed(seed: int) -> None:
    (answers,), state = simulate(
        seed, [f"CREATE TABLE t{number} (k int PRIMARY KEY)" for number in range(100)]
    )
    assert all(isinstance(answer, SchemaChange) for answer in answers)
    assert len(state.keyspaces["ks"].tables) == 100


@pytest.mark.parametrize("seed", range(5))
def test_columns_added_at_once_get_their_own_ordinals(seed: int) -> None:
    create = ["CREATE TABLE t (k int PRIMARY KEY)"]
    _, state = simulate(seed, create, [f"ALTER TABLE t ADD v{number} int" for number in range(20)])
    table = state.keyspaces["ks"].tables["t"]
    assert sorted(column.position for column in table.regulars) == list(range(20))
    assert table.regular_ordinals == 20


@pytest.mark.parametrize("seed", range(10))
def test_a_type_is_dropped_or_used_but_not_both(seed: int) -> None:
    create = ["CREATE TYPE u (a int)"]
    (_, (made, dropped)), _ = simulate(
        seed, create, ["CREATE TABLE t (k int PRIMARY KEY, v frozen<u>)", "DROP TYPE u"]
    )
    assert isinstance(made, SchemaChange) != isinstance(dropped, SchemaChange)


@pytest.mark.parametrize("seed", range(10))
def test_a_table_is_never_made_in_a_keyspace_that_goes(seed: int) -> None:
    creates = [f"CREATE TABLE t{number} (k int PRIMARY KEY)" for number in range(6)]
    _, state = simulate(seed, [*creates[:3], "DROP KEYSPACE ks", *creates[3:]])
    assert not any(key.startswith(("tables/", "tablets/")) for key in state.entries)


@pytest.mark.parametrize("seed", range(20))
def test_any_mixture_leaves_a_whole_schema(seed: int) -> None:
    random = Random(seed)
    statements = [
        "CREATE TYPE IF NOT EXISTS u (a int)",
        "DROP TYPE IF EXISTS u",
        "ALTER TYPE u ADD b int",
        "CREATE TABLE IF NOT EXISTS t (k int PRIMARY KEY, v frozen<u>)",
        "CREATE TABLE IF NOT EXISTS s (k int PRIMARY KEY)",
        "ALTER TABLE s ADD w u",
        "ALTER TABLE s DROP w",
        "DROP TABLE IF EXISTS t",
        "DROP KEYSPACE IF EXISTS ks",
        f"CREATE KEYSPACE IF NOT EXISTS ks {SIMPLE}",
        f"CREATE KEYSPACE IF NOT EXISTS ks {SIMPLE}",
    ]
    answers, _ = simulate(seed, *[random.choices(statements, k=6) for _ in range(6)])
    assert all(isinstance(a, SchemaChange | Void | InvalidRequest) for found in answers for a in found)
