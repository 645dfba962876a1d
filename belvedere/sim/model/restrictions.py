"""Restrictions of clustering columns in SELECT and DELETE: their text, and whether a row meets them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from belvedere.sim.model.kinds import Kind

if TYPE_CHECKING:
    from belvedere.sim.model.schema import Table


class Unset:
    """Bound in place of a value: leave the column alone."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()


class Text:
    """Collects a statement's values while its text is put together: as bind markers or as literals."""

    def __init__(self, bound: bool) -> None:
        self.bound = bound
        self.values: list[bytes | Unset | None] = []

    def value(self, kind: Kind, value: Any) -> str:
        if not self.bound:
            return "null" if value is None else kind.literal(value)
        if isinstance(value, Unset):
            self.values.append(value)
        else:
            self.values.append(None if value is None else kind.wire(value))
        return "?"

    def number(self, value: int, size: int) -> str:
        """For USING and LIMIT."""
        if not self.bound:
            return str(value)
        self.values.append(value.to_bytes(size, "big", signed=True))
        return "?"


@dataclass(frozen=True)
class Restriction:
    """`(c_first, …) op (values)`, or IN a list of such values. One column is written without parentheses."""

    first: int
    op: str
    #: One tuple of values; for IN several.
    values: tuple[tuple[Any, ...], ...]
    #: Written as tuples even for one column.
    tuples: bool = False

    @property
    def width(self) -> int:
        return len(self.values[0])

    def text(self, table: "Table", out: Text) -> str:
        columns = table.clustering[self.first : self.first + self.width]
        tuples = self.tuples or self.width > 1

        def one(values: Sequence[Any]) -> str:
            parts = [out.value(c.kind, v) for c, v in zip(columns, values, strict=True)]
            return f"({', '.join(parts)})" if tuples else parts[0]

        names = ", ".join(column.name for column in columns)
        left = f"({names})" if tuples else names
        if self.op == "IN":
            return f"{left} IN ({', '.join(map(one, self.values))})"
        return f"{left} {self.op} {one(self.values[0])}"

    def holds(self, table: "Table", clustering: Sequence[Any]) -> bool:
        columns = table.clustering[self.first : self.first + self.width]
        mine = clustering[self.first : self.first + self.width]

        def order(values: Sequence[Any]) -> list[Any]:
            return [column.kind.order(value) for column, value in zip(columns, values, strict=True)]

        if self.op == "IN":
            return any(order(mine) == order(values) for values in self.values)
        return compare(order(mine), self.op, order(self.values[0]))


def compare(left: Any, op: str, right: Any) -> bool:
    if op == "=":
        return bool(left == right)
    if op == "!=":
        return bool(left != right)
    if op == "<":
        return bool(left < right)
    if op == "<=":
        return bool(left <= right)
    if op == ">":
        return bool(left > right)
    assert op == ">=", op
    return bool(left >= right)
