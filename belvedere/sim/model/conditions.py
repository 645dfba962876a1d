"""IF …: when conditions of the model hold, and what is answered when they do not."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from belvedere.sim.model.restrictions import Text, compare
from belvedere.sim.model.schema import Table
from belvedere.sim.model.state import Key, Partition, SeenCell, State, see_row, see_static


class Existence(Enum):
    EXISTS = "EXISTS"
    NOT_EXISTS = "NOT EXISTS"


@dataclass(frozen=True)
class Condition:
    column: str
    op: str
    #: For IN a tuple of values.
    value: Any

    def text(self, table: Table, out: Text) -> str:
        kind = table.column(self.column).kind
        if self.op == "IN":
            return f"{self.column} IN ({', '.join(out.value(kind, one) for one in self.value)})"
        return f"{self.column} {self.op} {out.value(kind, self.value)}"

    def holds(self, table: Table, cells: dict[str, SeenCell]) -> bool:
        kind = table.column(self.column).kind
        cell = cells.get(self.column)
        value = None if cell is None else cell.value
        if self.op == "IN":
            return value is not None and any(kind.order(value) == kind.order(one) for one in self.value)
        if value is None or self.value is None:
            same = value is None and self.value is None
            return same if self.op == "=" else (not same if self.op == "!=" else False)
        return compare(kind.order(value), self.op, kind.order(self.value))


@dataclass(frozen=True)
class Found:
    """What a condition looks at: the row's cells (static ones included), and whether the row exists."""

    exists: bool
    cells: dict[str, SeenCell]
    partition: Key
    clustering: Key | None


@dataclass(frozen=True)
class Conditions:
    existence: Existence | None = None
    columns: tuple[Condition, ...] = field(default=())

    def text(self, table: Table, out: Text) -> str:
        if self.existence is not None:
            return self.existence.value
        return " AND ".join(one.text(table, out) for one in self.columns)

    def refusal(self, table: Table, found: Found) -> dict[str, bytes | None] | None:
        if self.existence is not None:
            if found.exists is (self.existence is Existence.EXISTS):
                return None
            if not found.exists:
                return {"[applied]": b"\0"}
            return {"[applied]": b"\0", **_whole_row(table, found)}
        if all(one.holds(table, found.cells) for one in self.columns):
            return None
        shown = {one.column: _wire(table, found, one.column) for one in self.columns}
        return {"[applied]": b"\0", **shown}


def _wire(table: Table, found: Found, name: str) -> bytes | None:
    cell = found.cells.get(name)
    return None if cell is None else table.column(name).kind.wire(cell.value)


def _whole_row(table: Table, found: Found) -> dict[str, bytes | None]:
    row: dict[str, bytes | None] = {}
    static_only = found.clustering is None
    for column, value in zip(table.partition, found.partition, strict=True):
        row[column.name] = column.kind.wire(value)
    for column, value in zip(table.clustering, found.clustering or (), strict=False):
        row[column.name] = column.kind.wire(value)
    row.update(
        {
            column.name: _wire(table, found, column.name)
            for column in (table.statics if static_only else table.values)
        }
    )
    return row


def row_in_question(state: State, table: Table, key: Key, clustering: Key | None, now: int) -> Found:
    partition = state.data[table.name].get(key, Partition())
    static = see_static(table, partition, now)
    if clustering is None:
        return Found(bool(static), static, key, None)
    row = see_row(table, key, partition, clustering, now)
    if row is None:
        return Found(False, static, key, clustering)
    return Found(True, {**static, **row.cells}, key, clustering)
