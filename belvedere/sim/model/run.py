"""A plan carried out in a world, each answer compared with the model's."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from belvedere.model.types import CQLType
from belvedere.query.errors import CQLError
from belvedere.query.results import Result, Rows
from belvedere.sim.incarnation import MachineCrashed
from belvedere.sim.model.effects import Moment
from belvedere.sim.model.kinds import CREATE_POINT
from belvedere.sim.model.node import Node, Request
from belvedere.sim.model.plans import (
    Alter,
    Check,
    Interrupted,
    Plan,
    Run,
    Sleep,
    Statement,
    Step,
    Stop,
    Together,
    Upkeep,
)
from belvedere.sim.model.restrictions import Text
from belvedere.sim.model.schema import Table
from belvedere.sim.model.selects import Item, Select, WireRow
from belvedere.sim.model.state import State
from belvedere.sim.model.writes import Batch, Outcome
from belvedere.sim.world import World
from belvedere.storage.engine import EngineOptions

CREATE_KEYSPACE = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
#: More than these states the node may be in after crashes: then it is not crashed in mid-flight again.
_MAX_CANDIDATES = 16


class Mismatch(AssertionError):
    """The node answered what the model says it must not."""


@dataclass
class Answer:
    """What the node said, as the model compares it."""

    error: int | None = None
    message: str = ""
    rows: list[WireRow] | None = None
    names: tuple[str, ...] = ()
    types: tuple[CQLType, ...] = ()

    @property
    def row(self) -> dict[str, bytes | None] | None:
        if not self.rows:
            return None
        return dict(zip(self.names, self.rows[0], strict=True))

    def described(self) -> str:
        if self.error is not None:
            return f"error {self.error:#06x}: {self.message}"
        if self.rows is None:
            return "done"
        return "\n    ".join([f"{len(self.rows)} row(s) of {', '.join(self.names)}", *self._rows(self.rows)])

    def _rows(self, rows: list[WireRow]) -> list[str]:
        return [_show_row(row, self.types) for row in rows]


def _show_row(row: WireRow, types: tuple[CQLType, ...]) -> str:
    if len(types) != len(row):
        return repr(row)
    shown = [None if v is None else t.decode(v) for v, t in zip(row, types, strict=True)]
    return repr(shown)


@dataclass
class Runner:
    world: World
    plan: Plan
    node: Node = field(init=False)
    #: The states that the node may be in; several after statements that a crash met in flight.
    candidates: list[State] = field(default_factory=lambda: [State()])
    transcript: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        options = EngineOptions(
            memtable_bytes=self.plan.memtable_bytes,
            segment_bytes=self.plan.segment_bytes,
            closed_segments=2,
            cache_bytes=1 << 20,
        )
        self.node = Node(self.world, options)

    async def run(self) -> None:
        await self.node.boot()
        await self._ddl(CREATE_KEYSPACE)
        await self._ddl(CREATE_POINT)
        for table in self.plan.tables:
            await self._create(table)
        for step in self.plan.steps:
            await self._step(step)
        await self.node.stop()
        self.world.check_no_failures()

    async def _step(self, step: Step) -> None:
        match step:
            case Run():
                await self._run(step)
            case Alter():
                await self._alter(step)
            case Sleep():
                self.transcript.append(f"-- sleep {step.seconds} s")
                await self.world.sleep(step.seconds)
            case Check():
                await self._check()
            case Upkeep():
                if step.table in self.candidates[0].tables:
                    self.transcript.append(f"-- {step.what} {step.table}")
                    await self.node.upkeep(step.what, step.table, step.files)
            case Together():
                await self._together(step)
            case Stop():
                await self._stop(step.how)
            case Interrupted():
                await self._interrupted(step)

    # -------------------------------------------------------------------------------------------- schema

    async def _ddl(self, text: str) -> None:
        self.transcript.append(text)
        await self.node.execute(Request(text))

    async def _create(self, table: Table) -> None:
        await self._ddl(table.create())
        for state in self.candidates:
            state.tables[table.name] = table
            state.data[table.name] = {}

    async def _alter(self, step: Alter) -> None:
        name = step.table.name
        known = self.candidates[0].tables.get(name)
        if known is None or (step.what != "recreate" and known.life != step.table.life):
            return
        column = step.column
        if step.what == "recreate":
            await self._ddl(f"DROP TABLE ks.{name}")
            await self._create(step.table)
        elif step.what == "truncate":
            await self._ddl(f"TRUNCATE ks.{name}")
            for state in self.candidates:
                state.data[name] = {}
        elif step.what == "add":
            assert column is not None
            if known.has(column.name):
                return
            static = " static" if column.static else ""
            await self._ddl(f"ALTER TABLE ks.{name} ADD {column.name} {column.kind.cql}{static}")
            for state in self.candidates:
                state.tables[name] = known.with_column(column)
        elif column is not None and known.has(column.name):
            await self._ddl(f"ALTER TABLE ks.{name} DROP {column.name}")
            for state in self.candidates:
                state.tables[name] = known.without_column(column.name)
                for partition in state.data[name].values():
                    for row in (partition.static, *partition.rows.values()):
                        row.forget(column.name)

    # ---------------------------------------------------------------------------------------- statements

    def _request(self, run: Run) -> Request:
        statement, state = run.statement, self.candidates[0]
        if isinstance(statement, Batch) and statement.message:
            children = []
            for child in statement.children:
                out = Text(child.bound)
                children.append((child.text(state, out), out.values))
            text = f"-- {statement.kind} batch: " + "; ".join(_filled(*child) for child in children)
            return Request(text, [], run.timestamp, False, 0, children, statement.kind)
        out = Text(statement.bound)
        text = statement.text(state, out)
        request = Request(text, out.values, run.timestamp, run.prepared)
        if isinstance(statement, Select):
            request.page_size = statement.page_size
        return request

    async def _run(self, run: Run) -> None:
        if not run.statement.fits(self.candidates[0]):
            return
        request = self._request(run)
        self._note(request)
        answer = await self._ask(request)
        self._judge(run.statement, request, answer)

    def _note(self, request: Request, prefix: str = "") -> None:
        page = f" -- pages of {request.page_size}" if request.page_size else ""
        stamp = f" -- client time {request.timestamp}" if request.timestamp is not None else ""
        how = " -- prepared" if request.prepared else ""
        self.transcript.append(f"{prefix}{_filled(request.text, request.values)}{page}{stamp}{how}")

    async def _ask(self, request: Request) -> Answer:
        try:
            result = await self.node.execute(request)
        except CQLError as error:
            return Answer(error.code, error.message)
        return _answer(result)

    def _judge(self, statement: Statement, request: Request, answer: Answer) -> None:
        """Keep the states that explain the answer; there must be one."""
        left, wanted = [], ""
        for state in self.candidates:
            fits, wanted = self._explains(state, statement, request, answer)
            if fits:
                left.append(state)
        if not left:
            moment = f"at second {request.now}, write times {request.stamps}"
            raise Mismatch(f"{moment}\n  the node said:\n    {answer.described()}\n  but:\n    {wanted}")
        self.candidates = left

    def _explains(
        self, state: State, statement: Statement, request: Request, answer: Answer
    ) -> tuple[bool, str]:
        if isinstance(statement, Select):
            expected = statement.expected(state, request.now)
            shown = "\n    ".join([f"{len(expected)} row(s)", *answer._rows(expected)])
            return answer.rows == expected, shown
        outcome = statement.execute(state, self._moment(statement, request))
        return _same(outcome, answer), f"{outcome}"

    def _moment(self, statement: Any, request: Request) -> Moment:
        stamp = request.timestamp
        if statement.server_time or stamp is None:
            stamp = request.stamp(conditional=bool(statement.conditions))
        return Moment(0 if stamp is None else stamp, request.now)

    async def _check(self) -> None:
        """Everything, by a scan of each table and by reading each partition that the model knows."""
        self.transcript.append("-- check")
        for name, table in self.candidates[0].tables.items():
            await self._run(Run(_everything(table)))
            keys = {key: None for state in self.candidates for key in state.data[name]}
            for key in keys:
                await self._run(Run(Select(name, table.life, keys=(key,), bound=True), prepared=True))
            self.transcript = [line for line in self.transcript if not line.startswith("SELECT * FROM")] + []

    # --------------------------------------------------------------------------------------------- stops

    async def _stop(self, how: str) -> None:
        self.transcript.append(f"-- {how}")
        if how == "restart":
            await self.node.stop()
        else:
            self.node.crash(lose_unsynced=how == "crash")
        await self.world.sleep(0.5)
        await self.node.boot()
        await self._check()

    async def _interrupted(self, step: Interrupted) -> None:
        runs = [run for run in step.steps if run.statement.fits(self.candidates[0])]
        if len(self.candidates) * 2 ** len(runs) > _MAX_CANDIDATES:
            runs = []
        requests = [self._request(run) for run in runs]
        tasks: list[asyncio.Task[Any]] = []
        if step.upkeep is not None:
            self.transcript.append(f"-- during {step.upkeep.what} {step.upkeep.table}:")
            upkeep = self.node.upkeep(step.upkeep.what, step.upkeep.table, step.upkeep.files)
            tasks.append(asyncio.create_task(upkeep))
        asks = []
        for request in requests:
            self._note(request, "-- in flight: ")
            asks.append(asyncio.create_task(self._ask(request)))
        await self.world.sleep(step.delay)
        self.node.crash(lose_unsynced=step.how == "crash")
        await asyncio.gather(*tasks, *asks, return_exceptions=True)
        self.transcript.append(f"-- {step.how} after {step.delay:.6f} s")
        for run, request, ask in zip(runs, requests, asks, strict=True):
            self._after_crash(run, request, ask)
        await self.world.sleep(0.5)
        await self.node.boot()
        await self._check()

    async def _together(self, step: Together) -> None:
        """Their partitions are apart, so the order between clients does not matter to the model."""
        how = step.how if len(self.candidates) * 2 ** len(step.clients) <= _MAX_CANDIDATES else None
        self.transcript.append(f"-- {len(step.clients)} clients together:")
        lost: list[tuple[Run, Request, asyncio.Task[Answer]]] = []
        tasks = [
            asyncio.create_task(self._client(number, runs, lost)) for number, runs in enumerate(step.clients)
        ]
        tasks.append(asyncio.create_task(self._upkeep_between(step.upkeep)))
        if how is not None:
            await self.world.sleep(step.delay)
            self.node.crash(lose_unsynced=how == "crash")
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, MachineCrashed):
                raise outcome
        if how is not None:
            self.transcript.append(f"-- {how} after {step.delay:.6f} s")
            for run, request, ask in lost:
                self._after_crash(run, request, ask)
            await self.world.sleep(0.5)
            await self.node.boot()
        await self._check()

    async def _client(
        self, number: int, runs: list[Run], lost: "list[tuple[Run, Request, asyncio.Task[Answer]]]"
    ) -> None:
        for run in runs:
            if not run.statement.fits(self.candidates[0]):
                continue
            request = self._request(run)
            self._note(request, f"-- client {number}: ")
            ask = asyncio.create_task(self._ask(request))
            try:
                answer = await ask
            except MachineCrashed:
                if not isinstance(run.statement, Select):
                    lost.append((run, request, ask))
                return
            self._judge(run.statement, request, answer)

    async def _upkeep_between(self, steps: list[Upkeep]) -> None:
        for step in steps:
            await self.world.sleep(0.001)
            await self._step(step)

    def _after_crash(self, run: Run, request: Request, ask: "asyncio.Task[Answer]") -> None:
        failure = ask.exception()
        if failure is None:
            self.transcript.append(f"--   answered: {_filled(request.text, request.values)}")
            self._judge(run.statement, request, ask.result())
            return
        if not isinstance(failure, MachineCrashed):
            raise failure
        statement = run.statement
        assert not isinstance(statement, Select)
        moment = self._moment(statement, request)
        if not request.written:
            return
        happened = [state.fork() for state in self.candidates]
        for state in happened:
            statement.execute(state, moment)
        self.candidates = [*self.candidates, *happened]


def _answer(result: Result) -> Answer:
    if not isinstance(result, Rows):
        return Answer()
    rows = [list(row) for row in result.rows]
    return Answer(
        None, "", rows, tuple(c.name for c in result.columns), tuple(c.type for c in result.columns)
    )


def _same(outcome: Outcome, answer: Answer) -> bool:
    if outcome.error is not None or answer.error is not None:
        return outcome.error == answer.error
    said, wanted = answer.row or {}, outcome.row or {}
    if outcome.partial:
        return all(said.get(name) == value for name, value in wanted.items())
    return all(said.get(name) == wanted.get(name) for name in {*said, *wanted})


def _everything(table: Table) -> Select:
    """All columns and what can be known of their times."""
    items = [Item("column", column.name) for column in table.select_order]
    if not table.is_counter:
        for column in table.values:
            if not column.kind.multicell:
                items += [Item("writetime", column.name), Item("ttl", column.name)]
    return Select(table.name, table.life, tuple(items))


def _filled(text: str, values: list[Any]) -> str:
    """For reading: markers with what is bound to them."""
    if not values:
        return text
    shown = ", ".join(
        "null" if v is None else "0x" + v.hex() if isinstance(v, bytes) else repr(v) for v in values
    )
    return f"{text}  -- [{shown}]"


@dataclass
class Failure:
    plan: Plan
    reason: str
    transcript: list[str]
    log: list[str]


def carry_out(plan: Plan, *, prepare: Callable[[World], None] | None = None) -> Failure | None:
    """One plan in a world of its own; None if all went as the model says."""
    world = World(plan.seed)
    if prepare is not None:
        prepare(world)
    runner = Runner(world, plan)

    async def main(_: World) -> None:
        await runner.run()

    try:
        world.run(main, limit_steps=5_000_000)
    except Exception as failure:
        reason = f"{type(failure).__name__}: {failure}"
        return Failure(plan, reason, runner.transcript, world.log_lines[-20:])
    return None
