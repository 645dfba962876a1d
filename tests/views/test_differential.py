"""Random tables, statements and views: whoever makes a view, it shows the same, and what its base shows.

Tables and statements are those of the model of CQL, which holds the base to plain dictionaries. Here each
view exists three times: kept by every write, built row by row at the end, and built by jobs at the end. All
are read through SELECT, with write times and TTLs, at several moments.
"""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from belvedere.meta.memory import MemoryStore
from belvedere.query.access import UNSET
from belvedere.query.errors import CQLError
from belvedere.query.options import QueryOptions
from belvedere.sim.model.generate_writes import draw_batch, draw_modification
from belvedere.sim.model.kinds import BIGINT, CREATE_POINT, DOUBLE, INT, SMALLINT, TEXT, TINYINT, VARINT
from belvedere.sim.model.pools import Pool
from belvedere.sim.model.restrictions import Text, Unset
from belvedere.sim.model.schema import Column, Table, draw_table
from belvedere.sim.model.state import State
from belvedere.sim.scenario_views import Node
from belvedere.sim.world import World
from tests.views.crash_bugs import BUGS
from tests.views.view_bugs import expiry_not_capped, no_deletion_of_the_old_place

LONG = os.environ.get("BELVEDERE_LONG") == "1"
BLOCKS, BLOCK = (50, 40) if LONG else (4, 8)

_ORDERED = (INT, BIGINT, SMALLINT, TINYINT, VARINT, DOUBLE, TEXT)
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: left == right,
    "<": lambda left, right: left < right,
    ">=": lambda left, right: left >= right,
}
_LATER = (0, 1, 3, 100)
_ANY_NUMBER = 10**9

Row = dict[str, Any]


@dataclass
class View:
    """What to select, and what must be so of a row of the base for the view to show it."""

    keys: list[Column]
    partition: int
    shown: list[Column]
    where: list[str]
    tests: list[Callable[[Row], bool]]

    def creation(self, name: str) -> str:
        columns = ", ".join(column.name for column in (*self.keys, *self.shown))
        inner = [f"({', '.join(column.name for column in self.keys[: self.partition])})"]
        inner += [column.name for column in self.keys[self.partition :]]
        return (
            f"CREATE MATERIALIZED VIEW ks.{name} AS SELECT {columns} FROM ks.t "
            f"WHERE {' AND '.join(self.where)} PRIMARY KEY ({', '.join(inner)})"
        )

    @property
    def asked(self) -> str:
        names = [column.name for column in (*self.keys, *self.shown)]
        for column in self.shown:
            if not column.kind.multicell:
                names += [f"WRITETIME({column.name})", f"TTL({column.name})"]
        return ", ".join(names)

    def shows(self, row: Row) -> bool:
        return all(row[column.name] is not None for column in self.keys) and all(
            test(row) for test in self.tests
        )


def draw_view(rng: random.Random, table: Table) -> View:
    keys = [*table.partition, *table.clustering]
    movable = [column for column in table.regulars if not column.kind.multicell]
    if movable and rng.random() < 0.7:
        keys.append(rng.choice(movable))
    rng.shuffle(keys)
    rest = [column for column in table.regulars if column not in keys]
    shown = rest if rng.random() < 0.5 else rng.sample(rest, rng.randint(0, len(rest)))
    view = View(keys, rng.randint(1, len(keys)), shown, [f"{one.name} IS NOT NULL" for one in keys], [])
    for column in table.regulars:
        if rng.random() < 0.7:
            continue
        if column.kind not in _ORDERED:
            view.where.append(f"{column.name} IS NOT NULL")
            view.tests.append(lambda row, name=column.name: row[name] is not None)  # type: ignore[misc]
            continue
        operator, wanted = rng.choice(sorted(_OPERATORS)), column.kind.draw(rng)
        view.where.append(f"{column.name} {operator} {column.kind.literal(wanted)}")
        view.tests.append(_comparison(column.name, _OPERATORS[operator], wanted))
    return view


def _comparison(name: str, holds: Callable[[Any, Any], bool], wanted: Any) -> Callable[[Row], bool]:
    return lambda row: row[name] is not None and holds(row[name], wanted)


class RandomNode(Node):
    def __init__(self, world: World, rng: random.Random) -> None:
        super().__init__(world, world.boot("node"), MemoryStore())
        self.rng = rng
        self.table = next(table for table in iter(lambda: draw_table(rng, "t"), None) if not table.is_counter)
        self.pool = Pool(rng, self.table)
        self.definitions = [draw_view(rng, self.table) for _ in range(2)]
        self.compared = 0

    def inline_rows(self) -> int:
        return _ANY_NUMBER

    async def _make_tables(self) -> None:
        await self.run(
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        await self.run(CREATE_POINT)
        await self.run(self.table.create())

    async def live(self) -> None:
        await self.open()
        for number, view in enumerate(self.definitions):
            await self.run(view.creation(f"online{number}"))
        for _ in range(60):
            await self._step()
        for number, view in enumerate(self.definitions):
            await self.run(view.creation(f"inline{number}"))
        self.views._inline_rows = 0
        for number, view in enumerate(self.definitions):
            await self.run(view.creation(f"jobs{number}") + " WITH build = {'wait': 'true'}")
        for _ in range(5):  # On top of what was built.
            await self._step()
        now = self.runtime.clock.wall_micros() // 1_000_000
        for later in _LATER:
            for number, view in enumerate(self.definitions):
                await self._compare(number, view, now + later)
        await self.close()

    async def _step(self) -> None:
        rng = self.rng
        share = rng.random()
        stores = list(self.database.engine.stores.values())
        if share < 0.06:
            await self.database.engine.flush(stores)
        elif share < 0.09:
            await self.database.engine.compact(rng.choice(stores))
        elif share < 0.13:
            await self.runtime.clock.sleep(rng.choice((0.3, 1.2, 2.5)))
        else:
            batch = rng.random() < 0.15
            drawn = draw_batch(rng, [self.pool]) if batch else draw_modification(rng, self.pool)
            out = Text(batch or drawn.bound)
            text = drawn.text(State(tables={"t": self.table}), out)
            options = QueryOptions()
            options.values = [UNSET if isinstance(value, Unset) else value for value in out.values]
            try:
                result = await self.database.query(text, None, options)
            except CQLError:  # What CQL refuses is the model's business.
                self.runtime.sometimes("refused")
            else:
                await self.database.access.durable(result.after)

    async def _compare(self, number: int, view: View, now: int) -> None:
        tested = ", ".join(column.name for column in self.table.regulars)
        names = [one.strip().lower() for one in view.asked.split(",")]
        base = await self.run(f"SELECT {view.asked}{', ' * bool(tested)}{tested} FROM ks.t", now)
        expected = sorted(repr([row[name] for name in names]) for row in base if view.shows(row))
        self.compared += len(expected)
        for made in ("online", "inline", "jobs"):
            rows = await self.run(f"SELECT {view.asked} FROM ks.{made}{number}", now)
            found = sorted(repr([row[name] for name in names]) for row in rows)
            if found != expected:
                raise AssertionError(
                    f"{made}: {view.creation('v')}\n{self.table.create()}\nat {now}: "
                    f"missing {set(expected) - set(found)}, orphaned {set(found) - set(expected)}"
                )


def run(seed: int) -> int:
    """How many rows were compared."""
    world = World(seed, policy="fifo", buggify=False)
    node = RandomNode(world, random.Random(f"views {seed}"))
    world.run(lambda _: node.runtime.perform(node.live()))
    world.check_no_failures()
    return node.compared


@pytest.mark.timeout(3600 if LONG else 120)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_whoever_makes_a_view_it_shows_what_its_base_shows(block: int) -> None:
    assert sum(run(seed) for seed in range(block * BLOCK, (block + 1) * BLOCK)) > 20


@pytest.mark.parametrize(
    "plant", [no_deletion_of_the_old_place, expiry_not_capped, BUGS["images_of_jobs_too_new"]]
)
def test_finds_a_planted_bug(plant: Any) -> None:
    with plant(), pytest.raises(AssertionError):
        _run_all(20)


def _run_all(seeds: int) -> None:
    for seed in range(seeds):
        run(seed)
