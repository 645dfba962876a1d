"""A whole run's script, decided by the seed: tables, statements, what happens to the node meanwhile."""

import random
from dataclasses import dataclass, field

from belvedere.sim.model.generate_selects import draw_select
from belvedere.sim.model.generate_writes import draw_batch, draw_modification
from belvedere.sim.model.pools import Pool, draw_timestamp
from belvedere.sim.model.schema import Column, Table, draw_new_column, draw_table
from belvedere.sim.model.selects import Select
from belvedere.sim.model.writes import Batch, Modification

Statement = Modification | Batch | Select


@dataclass
class Run:
    """Execute a statement and compare its answer."""

    statement: Statement
    #: The default timestamp that the client sends along.
    timestamp: int | None = None
    prepared: bool = False


@dataclass
class Alter:
    """A schema change; `column` goes with add, its name is enough for drop, `table` with recreate."""

    what: str
    table: Table
    column: Column | None = None


@dataclass
class Sleep:
    seconds: float


@dataclass
class Check:
    """Read everything."""


@dataclass
class Upkeep:
    """flush, compact (all of a table's files), some (those whose bit is set in `files`) or tidy (those that
    the background would choose)."""

    what: str
    table: str
    files: int = 0


@dataclass
class Stop:
    """restart (in order), crash (power loss) or kill (the kernel keeps what was written)."""

    how: str


@dataclass
class Interrupted:
    """Statements and upkeep under way together, and the node stops in the middle of them."""

    how: str
    steps: list[Run]
    upkeep: Upkeep | None
    #: Virtual seconds until it stops.
    delay: float


@dataclass
class Together:
    """Clients at work at the same time, each on partitions of its own, and upkeep between them."""

    clients: list[list[Run]]
    upkeep: list[Upkeep]
    #: How the node stops in the midst of it, and when; None if it does not.
    how: str | None
    delay: float


Step = Together | Run | Alter | Sleep | Check | Upkeep | Stop | Interrupted


@dataclass
class Plan:
    seed: int
    tables: list[Table]
    steps: list[Step] = field(default_factory=list)
    memtable_bytes: int = 1 << 20
    segment_bytes: int = 1 << 18


class Planner:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"model {seed}")
        rng = self.rng
        self.plan = Plan(seed, [draw_table(rng, f"t{i}") for i in range(rng.choice((1, 1, 2)))])
        self.plan.memtable_bytes = rng.choice((1 << 20, 1 << 20, 6000, 2000))
        self.plan.segment_bytes = rng.choice((1 << 18, 1 << 16))
        self.pools = [Pool(rng, table) for table in self.plan.tables]
        self.lives = 0
        #: Columns dropped from each table: they come back with the type that they had.
        self.dropped: dict[str, list[Column]] = {}
        self.added = 0
        #: Each seed has faults and sizes of its own: a run with everything in it reaches little of each.
        self.upkeep_share = rng.choice((0.0, 0.05, 0.15, 0.3))
        self.stop_share = rng.choice((0.0, 0.03, 0.1))
        self.alter_share = rng.choice((0.0, 0.0, 0.05))
        self.together_share = rng.choice((0.0, 0.0, 0.06))
        self.read_share = rng.choice((0.2, 0.4, 0.6))

    def make(self) -> Plan:
        for _ in range(self.rng.choice((30, 60, 90))):
            self.plan.steps.append(self._step())
        self.plan.steps += [Check(), Stop("crash"), Check()]
        return self.plan

    def _step(self) -> Step:
        rng = self.rng
        share = rng.random()
        if share < self.upkeep_share:
            return self._upkeep()
        share -= self.upkeep_share
        if share < self.stop_share:
            return self._stop()
        share -= self.stop_share
        if share < self.alter_share:
            return self._alter()
        share -= self.alter_share
        if share < self.together_share:
            return self._together()
        if rng.random() < 0.08:
            return Sleep(rng.choice((0.001, 0.3, 1.0, 2.5, 6.0)))
        if rng.random() < self.read_share:
            return Run(draw_select(rng, rng.choice(self.pools)), prepared=rng.random() < 0.5)
        return self._write()

    def _together(self) -> Together:
        """Clients of one table, or fewer than wanted where it has not so many partitions."""
        rng = self.rng
        pools = rng.choice(self.pools).split(rng.randint(2, 4))
        clients = [[self._of_client(pool) for _ in range(rng.randint(2, 8))] for pool in pools]
        upkeep = [self._upkeep() for _ in range(rng.choice((0, 1, 3)))]
        how = rng.choice((None, None, "crash", "kill")) if self.stop_share else None
        return Together(clients, upkeep, how, 10 ** rng.uniform(-4, -1.5))

    def _of_client(self, pool: Pool) -> Run:
        rng = self.rng
        if rng.random() >= self.read_share / 2:
            return self._write([pool])
        while True:
            select = draw_select(rng, pool)
            if select.keys is not None:
                return Run(select, prepared=rng.random() < 0.5)

    def _write(self, pools: list[Pool] | None = None) -> Run:
        rng = self.rng
        pools = pools or self.pools
        pool = rng.choice(pools)
        if rng.random() < 0.15:
            statement: Modification | Batch = draw_batch(rng, pools)
        else:
            statement = draw_modification(rng, pool)
        purging = any(p.table.prompt_purge for p in self.pools if p.table.name in statement.tables)
        timestamp = draw_timestamp(rng) if rng.random() < 0.3 and not purging else None
        if any(p.table.is_counter for p in self.pools if p.table.name in statement.tables):
            timestamp = None
        return Run(statement, timestamp, rng.random() < 0.5)

    def _upkeep(self) -> Upkeep:
        what = self.rng.choice(("flush", "flush", "flush", "compact", "some", "some", "tidy"))
        return Upkeep(what, self.rng.choice(self.pools).table.name, self.rng.randint(1, 255))

    def _stop(self) -> Step:
        rng = self.rng
        how = rng.choice(("crash", "crash", "crash", "kill", "restart"))
        if how == "restart" or rng.random() < 0.3:
            return Stop(how)
        upkeep = self._upkeep() if rng.random() < 0.5 else None
        delay = 10 ** rng.uniform(-5, -1.5)
        return Interrupted(how, self._in_flight(), upkeep, delay)

    def _in_flight(self) -> list[Run]:
        """One statement of any kind, or some whose order does not matter."""
        first = self._write()
        if not first.statement.commutes:  # type: ignore[union-attr]
            return [first]
        more = [self._write() for _ in range(self.rng.choice((0, 0, 1, 2)))]
        return [first, *(run for run in more if run.statement.commutes)]  # type: ignore[union-attr]

    def _alter(self) -> Step:
        rng = self.rng
        index = rng.randrange(len(self.pools))
        pool = self.pools[index]
        table = pool.table
        what = rng.choice(("add", "add", "drop", "drop", "truncate", "recreate"))
        if what == "drop" and len(table.values) > 1:
            column = rng.choice(table.values)
            pool.table = table.without_column(column.name)
            self.dropped.setdefault(table.name, []).append(column)
            return Alter("drop", table, column)
        if what == "add":
            column = self._added(table)
            pool.table = table.with_column(column)
            return Alter("add", table, column)
        if what == "recreate":
            self.lives += 1
            self.dropped.pop(table.name, None)
            new = draw_table(rng, table.name, self.lives)
            self.pools[index] = Pool(rng, new)
            return Alter("recreate", new)
        return Alter("truncate", table)

    def _added(self, table: Table) -> Column:
        """Often one that was dropped before, which must begin empty."""
        known = self.dropped.get(table.name, [])
        if known and not table.is_counter and self.rng.random() < 0.6:
            return known.pop()
        self.added += 1
        return draw_new_column(self.rng, table, self.added)


def make_plan(seed: int) -> Plan:
    return Planner(seed).make()
