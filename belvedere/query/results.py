"""What a statement answers, free of any wire format: the server and the embedded API encode from here."""

from dataclasses import dataclass, field

from belvedere.model.schema import Column, Table
from belvedere.model.types import CQLType


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """Also describes a bind variable."""

    keyspace: str
    table: str
    name: str
    type: CQLType


def bound_to(table: Table, column: Column) -> ResultColumn:
    """The column as a bind variable's description."""
    return ResultColumn(table.keyspace, table.name, column.name, column.type)


def part_of(table: Table, name: str, type_: CQLType) -> ResultColumn:
    return ResultColumn(table.keyspace, table.name, name, type_)


@dataclass(slots=True)
class Result:
    """Base. `after` is the commit log position that must be durable before the client may hear of this."""

    after: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class Void(Result):
    pass


@dataclass(slots=True)
class Rows(Result):
    columns: tuple[ResultColumn, ...] = ()
    #: Wire values, one sequence per row, in the order of `columns`.
    rows: list[list[bytes | None]] = field(default_factory=list)
    #: Opaque; None when there is no further page.
    paging_state: bytes | None = None


@dataclass(slots=True)
class SetKeyspace(Result):
    keyspace: str = ""


@dataclass(slots=True)
class SchemaChange(Result):
    #: CREATED, UPDATED, DROPPED
    change: str = ""
    #: KEYSPACE, TABLE, TYPE, FUNCTION, AGGREGATE
    target: str = ""
    keyspace: str = ""
    name: str = ""
