"""What key columns are compared with: the right sides of relations, prepared once and bound at each run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from belvedere.cql.syntax import Expression, InList, Marker, TupleLiteral
from belvedere.cql.text import to_text
from belvedere.model.schema import Column, Table
from belvedere.model.types import ListType, TupleType
from belvedere.query.access import Execution, Unset
from belvedere.query.errors import InvalidRequest
from belvedere.query.results import ResultColumn, bound_to
from belvedere.query.terms.values import BindCollector, TermValue, prepare_term

Values = tuple[bytes, ...]

#: Keys that IN restrictions on several columns may combine to.
MAX_COMBINATIONS = 65_536


class Source(Protocol):
    """Gives the tuples of values that a relation compares with: one, except for IN."""

    def tuples(self, execution: Execution) -> list[Values]: ...


def check_combinations(what: str, *choices: Sequence[object]) -> None:
    """Several short lists may combine to more keys than any memory holds."""
    count = math.prod(map(len, choices))
    if sum(len(choice) > 1 for choice in choices) > 1 and count > MAX_COMBINATIONS:
        raise InvalidRequest(
            f"Aborting query because the cartesian product of the IN restrictions on {what} produces "
            f"{count} values, this exceeds fail threshold of {MAX_COMBINATIONS}."
        )


def require(value: object, name: str) -> bytes:
    if type(value) is bytes:
        return value
    kind = "unset" if isinstance(value, Unset) else "null"
    suffix = f"for column {name}" if kind == "unset" else f"in condition for column {name}"
    raise InvalidRequest(f"Invalid {kind} value {suffix}")


@dataclass(frozen=True, slots=True)
class TermsSource:
    """One term per column."""

    columns: tuple[Column, ...]
    terms: tuple[TermValue, ...]

    def tuples(self, execution: Execution) -> list[Values]:
        pairs = zip(self.columns, self.terms, strict=True)
        return [tuple([require(term.evaluate(execution), column.name) for column, term in pairs])]


@dataclass(frozen=True, slots=True)
class TupleMarkerSource:
    """`(a, b) = ?`."""

    columns: tuple[Column, ...]
    type: TupleType
    term: TermValue

    def tuples(self, execution: Execution) -> list[Values]:
        names = ", ".join(column.name for column in self.columns)
        return [split_tuple(self.columns, self.type, require(self.term.evaluate(execution), names))]


def split_tuple(columns: Sequence[Column], type_: TupleType, value: bytes) -> Values:
    elements = type_.all_elements(value)
    return tuple([require(element, column.name) for column, element in zip(columns, elements, strict=True)])


@dataclass(frozen=True, slots=True)
class ListedSource:
    """`IN (x, y)`: the values of several sources."""

    sources: tuple[Source, ...]

    def tuples(self, execution: Execution) -> list[Values]:
        return [values for source in self.sources for values in source.tuples(execution)]


@dataclass(frozen=True, slots=True)
class ListMarkerSource:
    """`c IN ?` and `(a, b) IN ?`."""

    columns: tuple[Column, ...]
    type: ListType
    term: TermValue

    def tuples(self, execution: Execution) -> list[Values]:
        value = self.term.evaluate(execution)
        names = ", ".join(column.name for column in self.columns)
        if value is None:
            raise InvalidRequest("Invalid null value for IN restriction")
        elements = self.type.elements(require(value, names))
        if len(self.columns) == 1:
            return [(element,) for element in elements]
        tuple_type = self.type.element
        assert isinstance(tuple_type, TupleType)
        return [split_tuple(self.columns, tuple_type, element) for element in elements]


def column_source(table: Table, column: Column, value: Expression, collector: BindCollector) -> Source:
    return TermsSource((column,), (prepare_term(value, bound_to(table, column), collector),))


def column_list_source(
    table: Table, column: Column, value: Expression | InList, collector: BindCollector
) -> Source:
    """The right side of `c IN …`."""
    if isinstance(value, InList):
        return ListedSource(tuple(column_source(table, column, item, collector) for item in value.values))
    list_type = ListType(column.type, True)
    receiver = ResultColumn(table.keyspace, table.name, f"in({column.name})", list_type)
    return ListMarkerSource((column,), list_type, prepare_term(value, receiver, collector))


def tuple_source(
    table: Table, columns: tuple[Column, ...], value: Expression, collector: BindCollector
) -> Source:
    """The right side of `(a, b) = …`."""
    if isinstance(value, TupleLiteral):
        if len(value.elements) != len(columns):
            raise InvalidRequest(
                f"Expected {len(columns)} elements in value tuple, "
                f"but got {len(value.elements)}: {to_text(value)}"
            )
        terms = [
            prepare_term(element, bound_to(table, column), collector)
            for column, element in zip(columns, value.elements, strict=True)
        ]
        return TermsSource(columns, tuple(terms))
    tuple_type = TupleType(column.type for column in columns)
    name = f"({','.join(column.name for column in columns)})"
    receiver = ResultColumn(table.keyspace, table.name, name, tuple_type)
    if not isinstance(value, Marker):
        raise InvalidRequest(f"Invalid tuple value {to_text(value)} for {name}")
    return TupleMarkerSource(columns, tuple_type, prepare_term(value, receiver, collector))


def tuple_list_source(
    table: Table, columns: tuple[Column, ...], value: Expression | InList, collector: BindCollector
) -> Source:
    """The right side of `(a, b) IN …`."""
    if isinstance(value, InList):
        return ListedSource(tuple(tuple_source(table, columns, item, collector) for item in value.values))
    list_type = ListType(TupleType(column.type for column in columns), True)
    name = f"in({','.join(column.name for column in columns)})"
    receiver = ResultColumn(table.keyspace, table.name, name, list_type)
    return ListMarkerSource(columns, list_type, prepare_term(value, receiver, collector))
