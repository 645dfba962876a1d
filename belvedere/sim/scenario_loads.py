"""Scenario: files are loaded into tables with views under load, truncation, crashes and restarts.

What the scenario of views does goes on meanwhile, and must hold: whoever compares a finished view with its
base finds nothing wrong, and at rest views show what their bases hold. Beside that, loads into a table of
their own write one number under a key of each tablet: it must be found everywhere or nowhere, and never less
than what was told.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from belvedere.meta.memory import MemoryStore
from belvedere.model.ordering import join_partition_key
from belvedere.model.rows import Row
from belvedere.model.schema import Table
from belvedere.model.token import token_of
from belvedere.pipeline.exchange import Exchange
from belvedere.pipeline.in_process import InProcessRunner
from belvedere.pipeline.loads import LIST_NAME, Load, Loads
from belvedere.pipeline.reads import Reads
from belvedere.pipeline.tasks import OutputFile
from belvedere.pipeline.view_work import ViewWork
from belvedere.sim.incarnation import MachineCrashed
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.scenario_views import Node
from belvedere.sim.scenarios import register
from belvedere.sim.world import World
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.sstable_write import build_sstable
from belvedere.views.service import Views

_LIVES = 3
_MACHINE = "node"
#: Keys of the numbered table: some are in each of its tablets.
_NUMBERED = range(12)


@dataclass
class Known:
    """What the outside knows: it survives every crash."""

    tried: int = 0
    told: int = 0
    #: Truncations of the numbered table that were begun.
    emptied: int = 0
    #: One of these may have emptied some tablets only, and no load was told since.
    half_empty: bool = False
    #: Views that were damaged and not repaired since.
    damaged: set[bytes] = field(default_factory=set)


@dataclass
class LoadedRow:
    """Values of columns by name; what is not named is not written."""

    values: dict[str, Any] = field(default_factory=dict)


class LoadingNode(Node):
    def __init__(self, world: World, runtime: SimRuntime, store: MemoryStore, known: Known) -> None:
        super().__init__(world, runtime, store, known.damaged)
        self.known = known
        self.exchange = Exchange(runtime, "data/exchange")
        self.loads: Loads
        self.reads: Reads

    async def start_views(self) -> None:
        self.loads = Loads(self.runtime, self.database, self.exchange)
        self.reads = Reads(self.runtime, self.database, self.exchange)
        await self.exchange.open(keep=self.loads.kept())
        await self.loads.recover()
        self.jobs = InProcessRunner(self.runtime, self.exchange)
        work = ViewWork(self.runtime, self.database, self.exchange, inline=self.jobs, large=self.jobs)
        self.views = await Views.start(self.runtime, self.database, work, self.inline_rows())

    async def _make_tables(self) -> None:
        await super()._make_tables()
        await self.run(
            "CREATE TABLE IF NOT EXISTS numbered (k int PRIMARY KEY, n int) WITH tablets = {'initial': 3}"
        )

    async def close(self) -> None:
        await self.loads.stop()
        await self.reads.stop()
        await super().close()

    def spawn_all(self) -> None:
        super().spawn_all()
        self.runtime.spawn("loads", self._forever(self._load_rows))
        self.runtime.spawn("numbers", self._forever(self._load_number))
        self.runtime.spawn("numbers read", self._forever(self._look_at_numbers))

    # --- loads ---------------------------------------------------------------------------------------

    async def load(self, table: Table, rows: Sequence[LoadedRow], **options: int) -> None:
        begun = await self.loads.begin(table, options)
        try:
            await write_load(self.runtime, begun, table, rows)
        except Exception:
            await self.loads.abort(begun.id)
            raise
        if pause := self.runtime.buggify("loads.written"):
            await pause
        await self.loads.commit(begun.id)

    def table(self, name: str) -> Table:
        return self.database.state.keyspaces["ks"].tables[name]

    async def _load_rows(self) -> None:
        """Into tables that clients write and views show."""
        random = self.runtime.random
        await self.runtime.clock.sleep(random.random() * 0.15)
        rows = []
        for _ in range(random.randint(1, 20)):
            row = LoadedRow({"k": random.randint(0, 3), "c": random.randint(0, 7)})
            for name, value in (
                ("v", random.randint(0, 2)),
                ("x", random.randint(0, 3)),
                ("w", random.randint(0, 9) * "long "),
            ):
                if random.random() < 0.6:
                    row.values[name] = value
            rows.append(row)
        options = {}
        if random.random() < 0.4:
            options["timestamp"] = self._past()
        if random.random() < 0.2:
            options["ttl"] = random.randint(1, 4)
        await self.load(self.table("t" if random.random() < 0.7 else "u"), rows, **options)
        self.runtime.sometimes("loads.loaded")

    async def _load_number(self) -> None:
        random, known = self.runtime.random, self.known
        await self.runtime.clock.sleep(random.random() * 0.2)
        if random.random() < 0.1:
            # Whatever was told may go; loads that follow say more.
            known.emptied, known.told, known.half_empty = known.emptied + 1, 0, True
            await self.run("TRUNCATE numbered")
            return
        known.tried += 1
        number = known.tried
        await self.load(self.table("numbered"), [LoadedRow({"k": k, "n": number}) for k in _NUMBERED])
        known.told, known.half_empty = number, False

    async def _look_at_numbers(self) -> None:
        await self.runtime.clock.sleep(self.runtime.random.random() * 0.05)
        await self.check_numbers()

    async def check_numbers(self) -> None:
        """Tablets are looked at one after the other, so those that come last may show a newer load, but none
        an older one than was told. Where a truncation may have come to its half, nothing is known."""
        known = self.known
        told, emptied = known.told, known.emptied
        rows = await self.run("SELECT k, n FROM numbered")
        if known.half_empty or emptied != known.emptied:
            return
        numbers = [row["n"] for row in rows]
        whole = len(numbers) in (0, len(_NUMBERED)) and (not self._resting or len({*numbers}) <= 1)
        if not whole or any(number < told for number in numbers) or (told and not numbers):
            raise AssertionError(f"numbers: told {told}, found {numbers}")
        self.runtime.sometimes("loads.numbers_checked", bool(numbers))

    _resting = False

    async def check(self) -> None:
        self._resting = True
        await self.check_numbers()
        await super().check()
        for store in self.database.engine.stores.values():
            while store.staged_loads:
                await self.runtime.clock.sleep(0.1)
            if store.attached:
                raise AssertionError(f"tablet {store.id} still waits for {store.attached}")
        left = await self.runtime.disk.list("data/exchange")
        if left:
            raise AssertionError(f"the exchange is not empty at rest: {left}")


async def write_load(runtime: SimRuntime, load: Load, table: Table, rows: Sequence[LoadedRow]) -> None:
    """What a loader does."""
    told = msgspec.json.decode(load.description)
    outputs = []
    directory = f"{load.directory}/attempt-1"
    await runtime.disk.make_directory(directory)
    partitions = _partitions(table, rows, told["timestamp"], told["ttl"], told["now"])
    for tablet, first, last in told["tablets"]:
        own = [one for one in partitions if int(first) <= one.token <= int(last)]
        if not own:
            continue
        built = build_sstable(table, own)
        path = f"{directory}/{tablet}.parquet"
        await runtime.disk.write(path, built.data)
        outputs.append(OutputFile(path, told["table"], tablet, built.facts))
    await runtime.disk.sync_directory(directory)
    aside = f"{load.directory}/{LIST_NAME}.new"
    await runtime.disk.write(aside, msgspec.json.encode({"outputs": outputs}))
    await runtime.disk.rename(aside, f"{load.directory}/{LIST_NAME}")
    await runtime.disk.sync_directory(load.directory)


def _partitions(
    table: Table, rows: Sequence[LoadedRow], timestamp: int, ttl: int, now: int
) -> list[StoredPartition]:
    found: dict[bytes, dict[bytes, Row]] = {}
    for row in rows:
        wires = {name: table.by_name[name].type.encode(value) for name, value in row.values.items()}
        key = join_partition_key([wires[column.name] for column in table.partition_key])
        clustering = table.clustering_order.encode([wires[column.name] for column in table.clustering])
        cells: list[Any] = [None] * table.regular_ordinals
        for column in table.regulars:
            cells[column.position] = wires.get(column.name)
        made = Row(timestamp, ttl, now + ttl if ttl else 0, True, None, cells)
        found.setdefault(key, {})[clustering] = made
    partitions = [
        StoredPartition(token_of(key), key, rows=sorted(own.items(), key=lambda item: item[0]))
        for key, own in found.items()
    ]
    return sorted(partitions, key=lambda one: (one.token, one.key))


async def loads(world: World) -> None:
    store, known, plan = MemoryStore(), Known(), world.fault_random
    for life in range(_LIVES):
        node = LoadingNode(world, world.boot(_MACHINE), store, known)
        living = asyncio.create_task(node.runtime.perform(_live(node)))
        await world.sleep(0.3 + plan.random())
        world.crash(_MACHINE, lose_unsynced=plan.random() < 0.7)
        try:
            await living
        except MachineCrashed:
            world.mark("loads.crashed_while_opening")
        world.record("scenario", f"life {life}: tried {known.tried}, told {known.told}")
        if world.failures:
            return
        await world.sleep(plan.random())
    for _ in range(2):  # The second time from files alone.
        node = LoadingNode(world, world.boot(_MACHINE), store, known)
        await node.runtime.perform(_rest(node))
        world.crash(_MACHINE)


async def _live(node: LoadingNode) -> None:
    await node.open()
    node.spawn_all()


async def _rest(node: LoadingNode) -> None:
    await node.open()
    await node.check()
    await node.close()


register("loads", loads)
