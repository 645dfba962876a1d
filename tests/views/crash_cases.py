"""A small world of a base and two views, operations on it, and what must be so whatever interrupts them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from belvedere.meta import view_records
from belvedere.meta.memory import MemoryStore
from belvedere.query.errors import InvalidRequest
from belvedere.sim.every_await import Steps, Strike, Watch
from belvedere.sim.incarnation import MachineCrashed
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.scenario_loads import Known, LoadedRow, LoadingNode
from belvedere.sim.world import World
from tests.views.damage import damage

Key = tuple[int, int]
#: (v, w) of a row; None: there is none.
Value = tuple[int | None, str | None] | None

_MACHINE = "node"
_NOT_NULL = "k IS NOT NULL AND c IS NOT NULL"
VIEWS = {
    "mv": f"SELECT * FROM t WHERE v IS NOT NULL AND {_NOT_NULL} PRIMARY KEY (v, k, c)",
    "swapped": f"SELECT k, c, w FROM t WHERE {_NOT_NULL} AND v > 1 PRIMARY KEY (c, k)",
}
_OLD = [(k, c) for k in range(4) for c in range(2)]
_LOADED = [(k, c) for k in range(2, 6) for c in range(1, 3)]
#: What a client writes meanwhile: rows that move in a view, leave it, come, or that a load brings, too.
_MEANWHILE: list[tuple[Key, Value]] = [
    ((0, 0), (7, "moved")),
    ((3, 1), (0, "both")),
    ((1, 1), None),
    ((9, 0), (4, "new")),
    ((4, 1), None),
]


@dataclass
class Model:
    """What clients were told: the values that each row may have."""

    possible: dict[Key, list[Value]] = field(default_factory=dict)
    #: Rows of the load that nobody else wrote.
    of_load: list[Key] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    #: Rows of a view that may be wrong until they are repaired.
    damaged: int = 0

    def begin(self, key: Key, value: Value) -> None:
        self.possible.setdefault(key, [None]).append(value)

    def tell(self, key: Key, value: Value) -> None:
        self.possible[key] = [value]

    def done(self, what: str) -> None:
        self.told.append(what)


class SmallNode(LoadingNode):
    def __init__(
        self, world: World, runtime: SimRuntime, store: MemoryStore, model: Model, by_jobs: bool
    ) -> None:
        super().__init__(world, runtime, store, Known())
        self.model = model
        self.by_jobs = by_jobs

    def inline_rows(self) -> int:
        return 0 if self.by_jobs else 1_000_000

    async def _make_tables(self) -> None:
        await self.run(
            "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        await self.run(
            "CREATE TABLE IF NOT EXISTS t (k int, c int, v int, w text, PRIMARY KEY (k, c)) "
            "WITH tablets = {'initial': 2}"
        )

    async def write(self, key: Key, value: Value) -> None:
        self.model.begin(key, value)
        if value is None:
            await self.run("DELETE FROM t WHERE k = {} AND c = {}".format(*key))
        else:
            v, w = value
            await self.run(f"INSERT INTO t (k, c, v, w) VALUES ({key[0]}, {key[1]}, {v}, '{w}')")
        self.model.tell(key, value)

    async def write_meanwhile(self) -> None:
        for key, value in _MEANWHILE:
            await self.write(key, value)

    async def make_views(self, *, hold: bool) -> None:
        for name, definition in VIEWS.items():
            build = f"{{'hold': '{str(hold).lower()}'}}"
            await self.run(
                f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} AS {definition} "
                f"WITH tablets = {{'initial': 2}} AND build = {build}"
            )

    async def let_views_go(self) -> None:
        for name in self.existing():
            await self.run(f"ALTER MATERIALIZED VIEW {name} WITH build = {{'hold': 'false'}}")
        for name in self.existing():
            await self.views.until_built(self.table(name))

    def existing(self) -> list[str]:
        return [name for name in VIEWS if name in self.database.state.keyspaces["ks"].tables]

    # --- what must be so -----------------------------------------------------------------------------

    async def check_at_once(self) -> None:
        """Right after a start: what says that it is whole is whole."""
        rows = await self._base()
        loaded = [key for key in self.model.of_load if key in rows]
        if loaded and loaded != self.model.of_load:
            raise AssertionError(f"half of a load is there: {loaded}")
        if "load" in self.model.told and not loaded:
            raise AssertionError("a load that was told is gone")
        for name in self.existing():
            status = view_records.status_of(self.database.state, self.table(name).id)
            if status is None or status.state != view_records.BUILT:
                continue
            try:
                report = await self.views.verify(self.table(name))
            except InvalidRequest:  # Loads are being brought in, or it is built again.
                continue
            if report.wrong > self.model.damaged:
                raise AssertionError(f"{name} says that it is built, and is not whole: {report}")

    async def check(self) -> None:
        """At rest."""
        self._check_base(await self._base())
        for name in VIEWS if "views" in self.model.told else self.existing():
            report = await self.views.verify(self.table(name))
            if report.wrong:
                raise AssertionError(f"{name} at rest: {report}")
            await self._check_view(name)
        for store in self.database.engine.stores.values():
            if store.staged_loads or store.attached:
                raise AssertionError(f"tablet {store.id}: {store.staged_loads}, {store.attached}")
        if left := await self.runtime.disk.list("data/exchange"):
            raise AssertionError(f"the exchange is not empty at rest: {left}")

    async def _base(self) -> dict[Key, Value]:
        rows = await self.run("SELECT k, c, v, w FROM t")
        return {(row["k"], row["c"]): (row["v"], row["w"]) for row in rows}

    def _check_base(self, rows: dict[Key, Value]) -> None:
        for key in {**self.model.possible, **rows}:
            allowed = self.model.possible.get(key, [None])
            if rows.get(key) not in allowed:
                raise AssertionError(f"row {key} is {rows.get(key)}, which is none of {allowed}")

    async def _check_view(self, name: str) -> None:
        """Against a SELECT of the base, filtered and shown by hand."""
        shown = "v, k, c, w, WRITETIME(w)" if name == "mv" else "k, c, w, WRITETIME(w)"
        rows = await self.run(f"SELECT {shown}, v FROM t")
        passing = [
            row for row in rows if row["v"] is not None and (name == "mv" or (row["v"] > 1 and row["c"] >= 0))
        ]
        names = [column.strip().lower() for column in shown.split(",")]
        expected = sorted(repr([row[column] for column in names]) for row in passing)
        found = sorted(
            repr([row[column] for column in names]) for row in await self.run(f"SELECT {shown} FROM {name}")
        )
        if found != expected:
            raise AssertionError(f"{name}: expected {expected}, found {found}")


Act = Callable[[SmallNode], Awaitable[None]]


@dataclass(frozen=True)
class Case:
    name: str
    #: What is there before.
    prepare: Act
    #: The operation that is interrupted.
    act: Act
    #: What somebody does who comes back after the crash.
    finish: Act
    by_jobs: bool = False


# --- the operations ----------------------------------------------------------------------------------


async def _rows(node: SmallNode) -> None:
    for number, key in enumerate(_OLD):
        await node.write(key, (number % 3, f"old {number}"))
        if number == len(_OLD) // 2:
            await node.database.engine.flush(list(node.database.engine.stores.values()))


async def _rows_and_views(node: SmallNode) -> None:
    await _rows(node)
    await node.make_views(hold=False)
    await node.let_views_go()
    node.model.done("views")


async def _rows_and_held_views(node: SmallNode) -> None:
    await _rows(node)
    await node.make_views(hold=True)
    node.model.done("views")


async def _damaged_view(node: SmallNode) -> None:
    await _rows_and_views(node)
    await damage(node.database, node.views)
    node.model.damaged = 3


async def _build(node: SmallNode) -> None:
    async def build() -> None:
        await node.make_views(hold=True)
        await node.let_views_go()
        node.model.done("views")

    await _together(node, build(), node.write_meanwhile())


async def _load(node: SmallNode) -> None:
    model = node.model
    written = {key for key, _ in _MEANWHILE}

    async def load() -> None:
        rows = [LoadedRow({"k": k, "c": c, "v": k % 3 + 2, "w": "loaded"}) for k, c in _LOADED]
        model.of_load = [key for key in _LOADED if key not in written and key not in _OLD]
        for key in _LOADED:
            model.begin(key, (key[0] % 3 + 2, "loaded"))
        await node.load(node.table("t"), rows)
        model.done("load")
        for key in _LOADED:
            if key not in written:
                model.tell(key, (key[0] % 3 + 2, "loaded"))

    await _together(node, load(), _after_load_began(node))
    await _loads_are_in(node)


async def _after_load_began(node: SmallNode) -> None:
    """Timestamps say whether a load or a write wins, and a load's is given when it begins."""
    while not await node.runtime.disk.list("data/exchange"):
        await node.runtime.clock.sleep(0.001)
    await node.write_meanwhile()


async def _loads_are_in(node: SmallNode) -> None:
    while any(store.staged_loads or store.attached for store in node.database.engine.stores.values()):
        await node.runtime.clock.sleep(0.01)


async def _repair(node: SmallNode) -> None:
    async def repair() -> None:
        report = await node.views.verify(node.table("mv"), repair=True)
        if report.repaired != report.wrong or report.wrong > node.model.damaged:
            raise AssertionError(f"repaired {report}")
        node.model.damaged = 0

    await _together(node, repair(), node.write_meanwhile())


async def _truncate(node: SmallNode) -> None:
    async def truncate() -> None:
        # Into the middle of the build.
        await node.runtime.clock.sleep(0.02)
        for key in _OLD:
            node.model.begin(key, None)
        await node.run("TRUNCATE t")
        for key in _OLD:
            node.model.tell(key, None)
        await node.write_meanwhile()

    await _together(node, node.let_views_go(), truncate())


async def _together(node: SmallNode, *works: Awaitable[None]) -> None:
    await asyncio.gather(*works)


async def _let_views_go(node: SmallNode) -> None:
    await node.let_views_go()


async def _bring_loads_in(node: SmallNode) -> None:
    await _loads_are_in(node)
    await node.let_views_go()


async def _repair_if_damaged(node: SmallNode) -> None:
    if node.model.damaged:
        await _repair_alone(node)


async def _repair_alone(node: SmallNode) -> None:
    report = await node.views.verify(node.table("mv"), repair=True)
    if report.repaired != report.wrong:
        raise AssertionError(f"repaired {report}")


CASES: Sequence[Case] = [
    Case("build", _rows, _build, _let_views_go),
    Case("build by jobs", _rows, _build, _let_views_go, by_jobs=True),
    Case("load", _rows_and_views, _load, _bring_loads_in),
    Case("load by jobs", _rows_and_views, _load, _bring_loads_in, by_jobs=True),
    Case("repair", _damaged_view, _repair, _repair_if_damaged),
    Case("repair by jobs", _damaged_view, _repair, _repair_if_damaged, by_jobs=True),
    Case("truncate while building", _rows_and_held_views, _truncate, _let_views_go),
    Case("truncate while building by jobs", _rows_and_held_views, _truncate, _let_views_go, by_jobs=True),
]


# --- one run -----------------------------------------------------------------------------------------


def carry_out(case: Case, strike: Strike | None = None, seed: int = 1, policy: str = "fifo") -> Steps:
    """Do it, crash at a point or right after it, come back, and check. Returns what points there are."""
    world = World(seed, policy=policy, buggify=False)
    steps = world.run(lambda world: _lives(world, case, strike))
    world.check_no_failures()
    return steps


async def _lives(world: World, case: Case, strike: Strike | None) -> Steps:
    store, model = MemoryStore(), Model()

    def outside() -> tuple[object, ...]:
        return store.revision, tuple(model.told), repr(model.possible), model.damaged

    watch = Watch(world, outside, strike)
    node = SmallNode(world, world.boot(_MACHINE), store, model, case.by_jobs)
    await node.runtime.perform(_begin(node, case))
    watch.begin(node.runtime)
    try:
        await node.runtime.perform(_do(node, case))
    except MachineCrashed:
        world.mark("interrupted")
    steps = watch.end()
    if world.is_running(_MACHINE):
        world.crash(_MACHINE)
    node = SmallNode(world, world.boot(_MACHINE), store, model, case.by_jobs)
    await node.runtime.perform(_rest(node, case))
    return steps


async def _begin(node: SmallNode, case: Case) -> None:
    await node.open()
    await case.prepare(node)


async def _do(node: SmallNode, case: Case) -> None:
    await case.act(node)


async def _rest(node: SmallNode, case: Case) -> None:
    await node.open()
    await node.check_at_once()
    await case.finish(node)
    await node.check()
    await node.close()
