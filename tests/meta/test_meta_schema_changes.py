"""Schema changes from many nodes at once, on every store: they never collide, never tear, and whoever walks
through the schema meanwhile walks through one whole revision."""

import asyncio
from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from belvedere.cql.parser import parse_statement
from belvedere.meta.metadata import Metadata
from belvedere.meta.state import ClusterState, from_loaded
from belvedere.query.errors import AlreadyExists, InvalidRequest
from belvedere.query.results import SchemaChange
from belvedere.query.schema.change import execute_ddl, new_context
from belvedere.runtime.api import Runtime
from tests.meta.stores import Harness, Stores
from tests.query.schema_book import SIMPLE
from tests.query.schema_whole import check_whole

NODES = 4
STATEMENTS = 60
KEYSPACES = ("a", "b")


def statement(random: Random) -> str:
    keyspace, table = random.choice(KEYSPACES), random.choice(("s", "t", "u"))
    column = random.choice(("v", "w"))
    return random.choice(
        [
            f"CREATE KEYSPACE {keyspace} {SIMPLE}",
            *[f"CREATE KEYSPACE IF NOT EXISTS {keyspace} {SIMPLE}"] * 3,
            f"DROP KEYSPACE {keyspace}",
            f"CREATE TYPE {keyspace}.kind (x int)",
            f"DROP TYPE {keyspace}.kind",
            f"ALTER TYPE {keyspace}.kind ADD y{random.randrange(1000)} int",
            *[f"CREATE TABLE {keyspace}.{table} (k int PRIMARY KEY, v int, i int)"] * 3,
            f"CREATE TABLE {keyspace}.{table} (k int PRIMARY KEY, v frozen<kind>, i int)",
            f"ALTER TABLE {keyspace}.{table} ADD w{random.randrange(1000)} text",
            f"ALTER TABLE {keyspace}.{table} DROP {column}",
            f"DROP TABLE {keyspace}.{table}",
            f"CREATE MATERIALIZED VIEW {keyspace}.{table}_by_i AS SELECT * FROM {keyspace}.{table} "
            "WHERE i IS NOT NULL AND k IS NOT NULL PRIMARY KEY (i, k)",
            f"DROP MATERIALIZED VIEW {keyspace}.{table}_by_i",
        ]
    )


class Node:
    def __init__(self, runtime: Runtime, number: int, metadata: Metadata, random: Random) -> None:
        self._runtime = runtime
        self._name = f"node-{number}"
        self._random = random
        self.metadata = metadata
        self.outcomes: Counter[str] = Counter()
        self.walks = 0
        self.heard: list[tuple[ClusterState, ClusterState]] = []
        metadata.listen(lambda before, after: self.heard.append((before, after)))

    async def change(self) -> None:
        for _ in range(STATEMENTS):
            text = statement(self._random)
            try:
                context = new_context(None, self._runtime, self._name)
                result, _ = await execute_ddl(parse_statement(text), self.metadata, context)
                self.outcomes[type(result).__name__] += 1
            except (InvalidRequest, AlreadyExists) as error:
                self.outcomes[type(error).__name__] += 1

    async def walk(self, changing: "asyncio.Future[object]") -> None:
        """Slowly, while others change what is being walked through."""
        while not changing.done():
            state = self.metadata.state
            check_whole(state)
            for name, keyspace in state.keyspaces.items():
                await self._runtime.clock.sleep(0.001)
                assert keyspace is state.keyspaces[name]
                for table in keyspace.tables.values():
                    await self._runtime.clock.sleep(0.0005)
                    assert state.tables_by_id[table.id] is table
                    assert state.tablet_maps[table.id].tablets
            self.walks += 1
            await self._runtime.clock.sleep(0.001)


@pytest.mark.parametrize("seed", range(3))
def test_changes_from_many_nodes_at_once(on_stores: Harness, seed: int) -> None:
    async def test(on: Stores) -> None:
        handles = [on.one, on.other, *[await on.another() for _ in range(NODES - 2)]]
        nodes = [
            Node(on.runtime, number, Metadata(on.runtime, handle), Random(f"{seed}/{number}"))
            for number, handle in enumerate(handles)
        ]
        for node in nodes:
            await node.metadata.start()
        changing = asyncio.gather(*(node.change() for node in nodes))
        walking = asyncio.gather(*(node.walk(changing) for node in nodes))
        await changing
        await walking
        loaded = from_loaded(await on.one.load())
        newest = max(node.metadata.state.revision for node in nodes)
        for node in nodes:
            await node.metadata.catch_up(newest)
            assert node.metadata.state.keyspaces == loaded.keyspaces
            assert node.metadata.state.tablet_maps == loaded.tablet_maps
            assert dict(node.metadata.state.entries) == dict(loaded.entries)
            assert node.metadata.state.schema_digest == loaded.schema_digest
            assert node.walks > 0
            assert all(first[1] is then[0] for first, then in pairwise(node.heard))
            for _, state in node.heard:
                check_whole(state)
            await node.metadata.stop()
        check_whole(loaded)
        outcomes = sum((node.outcomes for node in nodes), Counter())
        assert outcomes.total() == NODES * STATEMENTS
        assert outcomes[SchemaChange.__name__] >= 10
        # Each one that was told "changed" is one revision, and nothing else is.
        (changes,) = {len(node.heard) for node in nodes}
        assert changes == outcomes[SchemaChange.__name__]

    on_stores(test)
