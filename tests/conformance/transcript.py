"""Transcripts: CQL statements, each followed by the answer it must give.

A transcript is a text file. A statement starts at the left margin and ends with a line that ends in `;`.
What it answers follows, indented: a header and rows of CQL literals, or the error with its name and code.
`--` starts a comment. Lines with `@` steer the statements that follow:

    @later 10           ten seconds pass
    @values [1, 'a']    values of the next statement's bind variables, UNSET among them
    @timestamp 500      the next statement's default write time, as clients send it
    @page 2             the next statement's page size; pages are told apart by a line
    @types              the next statement's columns are shown with their types
    @bindings           the next statement is prepared only: its bind variables are shown
    @flush              everything in memory goes to files
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from belvedere.meta.memory import MemoryStore
from belvedere.meta.metadata import Metadata
from belvedere.query.access import UNSET
from belvedere.query.database import Database, DatabaseOptions
from belvedere.query.errors import CQLError
from belvedere.query.options import QueryOptions
from belvedere.query.results import ResultColumn, Rows, SetKeyspace
from belvedere.sim.world import World

MACHINE = "node"
_UNSET = "\0unset"
INDENT = "    "
#: Every transcript starts in a keyspace of its own.
KEYSPACE = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"


@dataclass
class Step:
    """A statement or directive, or lines that are kept as they are."""

    lines: list[str]
    expected: list[str] = field(default_factory=list)

    @property
    def statement(self) -> str | None:
        first = self.lines[0]
        return None if not first or first.startswith(("--", "@")) else "\n".join(self.lines)

    @property
    def directive(self) -> str | None:
        return self.lines[0] if self.lines[0].startswith("@") else None


def parse(text: str) -> list[Step]:
    steps: list[Step] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(INDENT):
            assert steps, f"an answer without a statement: {line}"
            steps[-1].expected.append(line[len(INDENT) :])
        elif not line or line.startswith(("--", "@")):
            steps.append(Step([line]))
        else:
            steps.append(Step(_statement(line, lines)))
    return steps


def _statement(line: str, lines: Iterator[str]) -> list[str]:
    found = [line]
    batch = line.startswith("BEGIN")
    while not line.endswith(";") or (batch and not line.startswith("APPLY")):
        line = next(lines)
        found.append(line)
    return found


def written(steps: list[Step]) -> str:
    lines: list[str] = []
    for step in steps:
        lines += step.lines
        lines += [f"{INDENT}{line}".rstrip() or INDENT for line in step.expected]
    return "\n".join(lines) + "\n"


class Session:
    """A fresh node in a simulated world, and one client."""

    def __init__(self, world: World, *, flush_always: bool) -> None:
        self._world = world
        self._flush_always = flush_always
        self._keyspace: str | None = None
        self._next: dict[str, str] = {}

    async def start(self) -> None:
        clock = self._world.machine_clock(MACHINE)
        clock.rate, clock.wall_offset_micros = 1.0, 0
        self._runtime = self._world.boot(MACHINE)
        await self._runtime.perform(self._open())
        for statement in (KEYSPACE, "USE ks"):
            await self._runtime.perform(self._answer(statement))

    async def _open(self) -> None:
        metadata = Metadata(self._runtime, MemoryStore())
        await metadata.start()
        self._database = await Database.open(self._runtime, "data/node", metadata, DatabaseOptions())

    async def run(self, step: Step) -> list[str]:
        """What the step answers."""
        if step.directive is not None:
            await self._direct(step.directive)
            return []
        statement = step.statement
        if statement is None:
            return []
        try:
            return await self._runtime.perform(self._answer(statement.removesuffix(";")))
        except CQLError as error:
            name = f"{type(error).__name__} {error.code:04x}"
            return f"{name}: {error.message}".splitlines()
        finally:
            self._next.clear()

    async def _direct(self, line: str) -> None:
        name, _, argument = line[1:].partition(" ")
        if name == "later":
            self._world.jump_wall_clock(MACHINE, float(argument))
        elif name == "flush":
            await self._runtime.perform(self._database.engine.flush())
        else:
            assert name in ("values", "timestamp", "page", "types", "bindings"), line
            self._next[name] = argument

    async def _answer(self, statement: str) -> list[str]:
        steer = self._next
        plan = self._database.plan(statement, self._keyspace)
        if "bindings" in steer:
            return [f"{column.name} {column.type.name}" for column in plan.bindings]
        timestamp = int(steer["timestamp"]) if "timestamp" in steer else None
        values = [
            value if value in (None, UNSET) else column.type.encode(value)
            for column, value in zip(plan.bindings, _values(steer.get("values", "[]")), strict=True)
        ]
        answer: list[str] = []
        paging_state = None
        while True:
            options = QueryOptions(
                values=values,
                page_size=int(steer.get("page", "0")),
                timestamp=timestamp,
                paging_state=paging_state,
            )
            result = await self._database.run(plan, options)
            answer += [f"warning: {warning}" for warning in result.warnings]
            if isinstance(result, SetKeyspace):
                self._keyspace = result.keyspace
            if not isinstance(result, Rows):
                if self._flush_always:
                    await self._database.engine.flush()
                return answer
            answer += _shown(result, types="types" in steer, header=paging_state is None)
            paging_state = result.paging_state
            if paging_state is None:
                return answer
            answer.append("-- next page")


def _values(text: str) -> list[object]:
    found = ast.literal_eval(text.replace("UNSET", repr(_UNSET)))
    return [UNSET if value == _UNSET else value for value in found]


def _shown(rows: Rows, *, types: bool, header: bool) -> list[str]:
    lines = []
    if header:
        lines.append(" | ".join(f"{c.name} {c.type.name}" if types else c.name for c in rows.columns))
        lines.append("-" * len(lines[0]))
    for row in rows.rows:
        shown = [_cell(column, value) for column, value in zip(rows.columns, row, strict=True)]
        lines += " | ".join(shown).splitlines()
    return lines


def _cell(column: ResultColumn, value: bytes | None) -> str:
    return "null" if value is None else column.type.to_text(value)


def play(text: str, *, flush_always: bool = False) -> list[tuple[Step, list[str]]]:
    """Every step of a transcript with what it answered."""

    async def main(world: World) -> list[tuple[Step, list[str]]]:
        session = Session(world, flush_always=flush_always)
        await session.start()
        return [(step, await session.run(step)) for step in parse(text)]

    world = World(1, policy="fifo", buggify=False)
    played = world.run(main, limit_seconds=None)
    world.check_no_failures()
    return played
