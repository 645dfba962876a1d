"""Statements that read and write rows: SELECT, INSERT, UPDATE, DELETE, BATCH; and CALL.

`markers` names the statement's bind markers in order (None for `?`). Statements inside a batch have an
empty `markers`: theirs are numbered through the whole batch, which carries them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from belvedere.cql.expressions import Condition, Expression, Relation, SelectItem, TableName, Term

Markers = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Ordering:
    """One column of ORDER BY; `ann_of` holds the vector of `ORDER BY c ANN OF [...]`."""

    column: str
    descending: bool = False
    ann_of: Term | None = None


@dataclass(frozen=True, slots=True)
class Select:
    table: TableName
    items: tuple[SelectItem, ...]
    """Empty for `*`."""
    where: tuple[Relation, ...] = ()
    distinct: bool = False
    json: bool = False
    group_by: tuple[Expression, ...] = ()
    order_by: tuple[Ordering, ...] = ()
    per_partition_limit: Term | None = None
    limit: Term | None = None
    allow_filtering: bool = False
    markers: Markers = ()

    @property
    def keyspace(self) -> str | None:
        return self.table.keyspace


@dataclass(frozen=True, slots=True)
class Insert:
    """`INSERT INTO t (columns) VALUES (values)`. That both have the same length is not checked here."""

    table: TableName
    columns: tuple[str, ...]
    values: tuple[Term, ...]
    if_not_exists: bool = False
    timestamp: Term | None = None
    ttl: Term | None = None
    markers: Markers = ()

    @property
    def keyspace(self) -> str | None:
        return self.table.keyspace


@dataclass(frozen=True, slots=True)
class InsertJson:
    """`INSERT INTO t JSON '...'`; `json` is a string constant or a marker."""

    table: TableName
    json: Term
    default_unset: bool = False
    if_not_exists: bool = False
    timestamp: Term | None = None
    ttl: Term | None = None
    markers: Markers = ()

    @property
    def keyspace(self) -> str | None:
        return self.table.keyspace


# --- the left and right sides of UPDATE ... SET ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetColumn:
    """`c = value`."""

    column: str
    value: Term


@dataclass(frozen=True, slots=True)
class AddToColumn:
    """`c = c + value` and `c += value`: counter increment, append, union."""

    column: str
    value: Term


@dataclass(frozen=True, slots=True)
class PrependToColumn:
    """`c = value + c`."""

    column: str
    value: Term


@dataclass(frozen=True, slots=True)
class SubtractFromColumn:
    """`c = c - value` and `c -= value`: counter decrement, removal of elements or keys."""

    column: str
    value: Term


@dataclass(frozen=True, slots=True)
class SetElement:
    """`c[key] = value`."""

    column: str
    key: Term
    value: Term


@dataclass(frozen=True, slots=True)
class SetField:
    """`c.field = value`."""

    column: str
    field: str
    value: Term


Assignment = SetColumn | AddToColumn | PrependToColumn | SubtractFromColumn | SetElement | SetField


@dataclass(frozen=True, slots=True)
class Update:
    table: TableName
    assignments: tuple[Assignment, ...]
    where: tuple[Relation, ...]
    conditions: tuple[Condition, ...] = ()
    if_exists: bool = False
    timestamp: Term | None = None
    ttl: Term | None = None
    markers: Markers = ()

    @property
    def keyspace(self) -> str | None:
        return self.table.keyspace


@dataclass(frozen=True, slots=True)
class DeleteColumn:
    column: str


@dataclass(frozen=True, slots=True)
class DeleteElement:
    column: str
    key: Term


@dataclass(frozen=True, slots=True)
class DeleteField:
    column: str
    field: str


DeleteTarget = DeleteColumn | DeleteElement | DeleteField


@dataclass(frozen=True, slots=True)
class Delete:
    table: TableName
    targets: tuple[DeleteTarget, ...]
    """Empty: whole rows, ranges or partitions."""
    where: tuple[Relation, ...]
    conditions: tuple[Condition, ...] = ()
    if_exists: bool = False
    timestamp: Term | None = None
    markers: Markers = ()

    @property
    def keyspace(self) -> str | None:
        return self.table.keyspace


Modification = Insert | InsertJson | Update | Delete
BatchKind = Literal["LOGGED", "UNLOGGED", "COUNTER"]


@dataclass(frozen=True, slots=True)
class Batch:
    kind: BatchKind
    statements: tuple[Modification, ...]
    timestamp: Term | None = None
    ttl: Term | None = None
    """Accepted by the grammar, meaningless on a batch: for the error message."""
    markers: Markers = ()

    @property
    def keyspace(self) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class Call:
    """`CALL name(arguments)`, Belvedere's own: carry out a procedure."""

    keyspace: str | None
    name: str
    arguments: tuple[Term, ...] = ()
    markers: Markers = ()


DataStatement = Select | Insert | InsertJson | Update | Delete | Batch
