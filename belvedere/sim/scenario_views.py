"""Scenario: views are made, kept, truncated and dropped under load, crashes and restarts.

Several clients write random statements; views come and go at random moments; now and then one is damaged, and
repaired. While all that goes on, whoever compares a finished view with its base must find nothing wrong but
the damage. At rest every view is built, and shows what a SELECT of its base shows once its rows are re-keyed
and filtered here: now and after any TTL.
"""

import asyncio
from typing import Any

from belvedere.meta.memory import MemoryStore
from belvedere.meta.metadata import Metadata
from belvedere.model.schema import Table
from belvedere.pipeline.exchange import Exchange
from belvedere.pipeline.in_process import InProcessRunner
from belvedere.pipeline.view_work import ViewWork
from belvedere.query.database import Database, DatabaseOptions
from belvedere.query.errors import CQLError, InvalidRequest
from belvedere.query.options import QueryOptions
from belvedere.query.results import Rows
from belvedere.runtime.errors import DiskError
from belvedere.sim.incarnation import MachineCrashed
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.scenarios import register
from belvedere.sim.view_damage import damage
from belvedere.sim.world import World
from belvedere.storage.engine import EngineOptions
from belvedere.storage.errors import StorageError
from belvedere.views.service import Views

_LIVES = 3
_CLIENTS = 3
_MACHINE = "node"
_BASES = ("t", "u")
#: After how many seconds views are looked at again at the end.
_LATER = (0, 1, 2, 4, 9, 100)

_KEYS = "k IS NOT NULL AND c IS NOT NULL"
#: Name to base, key, filter and what the filter says of a row of the base.
VIEWS: dict[str, tuple[str, str, str, Any]] = {
    "by_v": ("t", "v, k, c", f"{_KEYS} AND v IS NOT NULL", lambda row: row["v"] is not None),
    "swapped": ("t", "c, k", _KEYS, lambda row: True),
    "some": (
        "t",
        "(k, v), c",
        f"{_KEYS} AND v IS NOT NULL AND x > 1",
        lambda row: row["v"] is not None and (row["x"] or 0) > 1,
    ),
    "of_u": ("u", "v, k, c", f"{_KEYS} AND v IS NOT NULL", lambda row: row["v"] is not None),
}
_SHOWN = "k, c, v, x, w, m"
_TIMES = ("x", "w")


class Node:
    """One life of the machine."""

    def __init__(
        self, world: World, runtime: SimRuntime, store: MemoryStore, damaged: set[bytes] | None = None
    ) -> None:
        self.world = world
        self.runtime = runtime
        self._store = store
        #: Views that nobody repaired since they were damaged, by this or an earlier life.
        self._damaged = set() if damaged is None else damaged
        self.database: Database
        self.views: Views
        self.jobs: InProcessRunner

    async def open(self) -> None:
        metadata = Metadata(self.runtime, self._store)
        await metadata.start()
        options = EngineOptions(
            segment_bytes=32 << 10, closed_segments=3, memtable_bytes=120_000, cache_bytes=200_000
        )
        self.database = await Database.open(self.runtime, "data", metadata, DatabaseOptions(storage=options))
        await self.start_views()
        await self._make_tables()

    async def start_views(self) -> None:
        """In some lives everything is built and compared by jobs."""
        exchange = Exchange(self.runtime, "data/exchange")
        await exchange.open()
        self.jobs = InProcessRunner(self.runtime, exchange)
        work = ViewWork(self.runtime, self.database, exchange, inline=self.jobs, large=self.jobs)
        self.views = await Views.start(self.runtime, self.database, work, self.inline_rows())

    def inline_rows(self) -> int:
        """Up to how many rows views are built without jobs: any number, or none."""
        return 0 if self.runtime.random.random() < 0.6 else 1_000_000

    async def close(self) -> None:
        await self.views.stop()
        await self.jobs.stop()
        await self.database.close()
        await self.database.metadata.stop()

    async def _make_tables(self) -> None:
        await self.run(
            "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        for base in _BASES:
            await self.run(
                f"CREATE TABLE IF NOT EXISTS {base} (k int, c int, v int, x int, w text, m map<int, int>, "
                "st int static, PRIMARY KEY (k, c)) WITH tablets = {'initial': 3}"
            )

    async def run(self, text: str, now: int | None = None) -> list[dict[str, Any]]:
        plan = self.database.plan(text, "ks")
        result = await self.database.run(plan, QueryOptions(now_seconds=now))
        if not isinstance(result, Rows):
            return []
        return [
            {
                column.name: None if value is None else column.type.decode(value)
                for column, value in zip(result.columns, row, strict=True)
            }
            for row in result.rows
        ]

    def spawn_all(self) -> None:
        for number in range(_CLIENTS):
            self.runtime.spawn(f"client {number}", self._forever(self._write))
        self.runtime.spawn("schema", self._forever(self._change_schema))
        self.runtime.spawn("upkeep", self._forever(self._upkeep))
        self.runtime.spawn("verify", self._forever(self._verify))

    async def _forever(self, step: Any) -> None:
        while True:
            try:
                await step()
            except (CQLError, StorageError, DiskError) as error:
                self.runtime.sometimes(f"views.refused.{type(error).__name__}")
                await self.runtime.clock.sleep(0.05)

    # --- what goes on --------------------------------------------------------------------------------

    async def _write(self) -> None:
        random = self.runtime.random
        roll = random.random()
        if roll < 0.12:
            parts = "; ".join(self._statement(batch=True) for _ in range(random.randint(2, 4)))
            await self.run(f"BEGIN BATCH {parts}; APPLY BATCH")
        elif roll < 0.2:
            where = f"k = {random.randint(0, 3)} AND c = {random.randint(0, 7)}"
            await self.run(f"UPDATE t SET {self._assignments()} WHERE {where} IF v = {random.randint(0, 2)}")
        else:
            await self.run(self._statement())
        if random.random() < 0.2:
            await self.runtime.clock.sleep(random.random() * 0.02)

    def _statement(self, *, batch: bool = False) -> str:
        random = self.runtime.random
        base = "u" if random.random() < 0.3 else "t"
        k, c = random.randint(0, 3), random.randint(0, 7)
        old = random.random() < 0.3
        stamp = f"TIMESTAMP {self._past()}" if old else ""
        ttl = f"TTL {random.randint(1, 4)}" if random.random() < 0.2 else ""
        using = " AND ".join(part for part in (stamp, ttl) if part)
        using = f"USING {using}" if using else ""
        deleting = f"USING {stamp}" if stamp else ""
        roll = random.random()
        if roll < 0.45:
            names, values = (", ".join(part) for part in zip(*self._values(), strict=True))
            return f"INSERT INTO {base} (k, c, {names}) VALUES ({k}, {c}, {values}) {using}"
        if roll < 0.75:
            return f"UPDATE {base} {using} SET {self._assignments()} WHERE k = {k} AND c = {c}"
        if roll < 0.78:
            return f"UPDATE {base} {using} SET st = 1 WHERE k = {k}"
        if roll < 0.86:
            column = ("v", "x", "w", "m")[random.randint(0, 3)]
            return f"DELETE {column} FROM {base} {deleting} WHERE k = {k} AND c = {c}"
        if roll < 0.93:
            return f"DELETE FROM {base} {deleting} WHERE k = {k} AND c = {c}"
        if roll < 0.98:
            return f"DELETE FROM {base} {deleting} WHERE k = {k} AND c >= {c} AND c < {c + 3}"
        return f"DELETE FROM {base} {deleting} WHERE k = {k}"

    def _past(self) -> int:
        """Timestamps that often lose, and now and then tie."""
        wall = self.runtime.clock.wall_micros()
        return (wall // 100_000 - self.runtime.random.randint(0, 20)) * 100_000

    def _values(self) -> list[tuple[str, str]]:
        random = self.runtime.random
        chosen = [
            ("v", str(random.randint(0, 2)) if random.random() < 0.9 else "null"),
            ("x", str(random.randint(0, 3))),
            ("w", f"'{random.randint(0, 9) * 'long '}'"),
            ("m", f"{{{random.randint(0, 2)}: {random.randint(0, 9)}}}"),
        ]
        kept = [one for one in chosen if random.random() < 0.6]
        return kept or chosen[:1]

    def _assignments(self) -> str:
        random = self.runtime.random
        parts = [f"{name} = {value}" for name, value in self._values() if name != "m"]
        roll = random.random()
        if roll < 0.2:
            parts.append(f"m[{random.randint(0, 2)}] = {random.randint(0, 9)}")
        elif roll < 0.3 or not parts:
            parts.append(f"m = m - {{{random.randint(0, 2)}}}")
        return ", ".join(parts)

    async def _change_schema(self) -> None:
        random = self.runtime.random
        await self.runtime.clock.sleep(random.random() * 0.4)
        name = sorted(VIEWS)[random.randint(0, len(VIEWS) - 1)]
        roll = random.random()
        if roll < 0.12:
            await self.run(f"DROP MATERIALIZED VIEW IF EXISTS {name}")
        elif roll < 0.3:
            await self.run(f"TRUNCATE {VIEWS[name][0]}")
            self.runtime.sometimes("views.truncated")
        else:
            await self.run(creation(name))

    async def _upkeep(self) -> None:
        random = self.runtime.random
        await self.runtime.clock.sleep(random.random() * 0.2)
        stores = list(self.database.engine.stores.values())
        store = stores[random.randint(0, len(stores) - 1)]
        if random.random() < 0.7:
            await self.database.engine.flush([store])
        else:
            await self.database.engine.compact(store)

    async def _verify(self) -> None:
        random = self.runtime.random
        await self.runtime.clock.sleep(random.random() * 0.3)
        for view in list(self.database.state.keyspaces["ks"].tables.values()):
            if view.view is None:
                continue
            if random.random() < 0.3:
                await self._damage(view)
            try:
                await self._repair(view)
                report = await self.views.verify(view)
            except InvalidRequest:
                continue
            self.runtime.sometimes("views.compared_underway", report.view_rows > 0)
            if report.wrong and view.id not in self._damaged:
                raise AssertionError(f"{view.name} while writes go on: {report}")

    async def _damage(self, view: Table) -> None:
        self._damaged.add(view.id)
        await damage(self.database, self.views, view, self.runtime.random)

    async def _repair(self, view: Table) -> None:
        """If it was damaged. What could not be repaired, since the base's rows went, is tried again later."""
        if view.id not in self._damaged:
            return
        report = await self.views.verify(view, repair=True)
        self.runtime.sometimes("views.repaired", report.repaired > 0)
        if not report.unrepaired:
            self._damaged.discard(view.id)

    # --- at rest -------------------------------------------------------------------------------------

    async def check(self) -> None:
        existing = [t for t in self.database.state.keyspaces["ks"].tables.values() if t.view is not None]
        for view in existing:
            await self.views.until_built(view)
            await self._repair(view)
            report = await self.views.verify(view)
            if report.wrong:
                raise AssertionError(f"{view.name} at rest: {report}")
            self.runtime.sometimes("views.rows_at_rest", report.view_rows > 0)
            now = self.runtime.clock.wall_micros() // 1_000_000
            for later in _LATER:
                await self._compare(view.name, now + later)

    async def _compare(self, name: str, now: int) -> None:
        base, _, _, passes = VIEWS[name]
        times = ", ".join(f"WRITETIME({column}), TTL({column})" for column in _TIMES)
        asked = f"SELECT {_SHOWN}, {times} FROM"
        rows = await self.run(f"{asked} {base}", now)
        expected = sorted(repr(row) for row in rows if row["c"] is not None and passes(row))
        found = sorted(map(repr, await self.run(f"{asked} {name}", now)))
        if found != expected:
            missing, orphaned = set(expected) - set(found), set(found) - set(expected)
            raise AssertionError(f"{name} at {now}: missing {missing}, orphaned {orphaned}")


def creation(name: str) -> str:
    base, key, where, _ = VIEWS[name]
    return (
        f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} AS SELECT {_SHOWN} FROM {base} WHERE {where} "
        f"PRIMARY KEY ({key}) WITH tablets = {{'initial': 2}}"
    )


async def views(world: World) -> None:
    store, damaged, plan = MemoryStore(), set[bytes](), world.fault_random
    for life in range(_LIVES):
        node = Node(world, world.boot(_MACHINE), store, damaged)
        living = asyncio.create_task(node.runtime.perform(_live(node)))
        await world.sleep(0.2 + plan.random())
        world.crash(_MACHINE, lose_unsynced=plan.random() < 0.7)
        try:
            await living
        except MachineCrashed:
            world.mark("views.crashed_while_opening")
        world.record("scenario", f"life {life}")
        if world.failures:
            return
        await world.sleep(plan.random())
    node = Node(world, world.boot(_MACHINE), store, damaged)
    await node.runtime.perform(_rest(node))
    # Once more, from files alone.
    world.crash(_MACHINE)
    node = Node(world, world.boot(_MACHINE), store, damaged)
    await node.runtime.perform(_rest(node))


async def _live(node: Node) -> None:
    await node.open()
    node.spawn_all()


async def _rest(node: Node) -> None:
    await node.open()
    await node.check()
    await node.close()


register("views", views)
