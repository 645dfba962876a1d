"""Conditions that rows are tested with after reading: what ALLOW FILTERING allows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from belvedere.model.schema import Column
from belvedere.model.types import CQLType, ListType, MapType, SetType
from belvedere.query.access import Execution, Unset
from belvedere.query.errors import InvalidRequest
from belvedere.query.select.row_views import RowView, column_reader
from belvedere.query.terms.values import TermValue
from belvedere.query.where.sources import Source, Values

Predicate = Callable[[RowView], bool]


class Filter(Protocol):
    @property
    def columns(self) -> tuple[Column, ...]: ...

    def bind(self, execution: Execution) -> Predicate: ...


def comparable(type_: CQLType) -> Callable[[bytes], bytes]:
    """Maps values to bytes that compare like the values."""
    return type_.to_key if type_.is_orderable else type_.normalise


@dataclass(frozen=True, slots=True)
class ComparisonFilter:
    """`(a, b) op values` for one or more columns, compared from left to right."""

    columns: tuple[Column, ...]
    operator: str
    source: Source

    def bind(self, execution: Execution) -> Predicate:
        readers = [column_reader(column) for column in self.columns]
        keys = [comparable(column.type) for column in self.columns]
        wanted = [self._keys(keys, values) for values in _filter_tuples(self, execution)]
        test = _TESTS[self.operator]

        def matches(view: RowView) -> bool:
            found = []
            for read, key in zip(readers, keys, strict=True):
                value = read(view)
                if value is None:
                    return False
                found.append(key(value))
            return test(found, wanted)

        return matches

    def _keys(self, keys: Sequence[Callable[[bytes], bytes]], values: Values) -> list[bytes]:
        return [key(value) for key, value in zip(keys, values, strict=True)]


def _filter_tuples(comparison: ComparisonFilter, execution: Execution) -> list[Values]:
    try:
        return comparison.source.tuples(execution)
    except InvalidRequest as error:
        column = comparison.columns[0]
        if column.is_key or "null value" not in error.message:
            raise
        raise InvalidRequest(f"Unsupported null value for column {column.name}") from None


_TESTS: dict[str, Callable[[list[bytes], list[list[bytes]]], bool]] = {
    "=": lambda found, wanted: found == wanted[0],
    "<": lambda found, wanted: found < wanted[0],
    "<=": lambda found, wanted: found <= wanted[0],
    ">": lambda found, wanted: found > wanted[0],
    ">=": lambda found, wanted: found >= wanted[0],
    "IN": lambda found, wanted: found in wanted,
}


def filter_value(term: TermValue, column: Column, execution: Execution) -> bytes:
    value = term.evaluate(execution)
    if isinstance(value, bytes):
        return value
    kind = "unset" if isinstance(value, Unset) else "null"
    raise InvalidRequest(f"Unsupported {kind} value for column {column.name}")


@dataclass(frozen=True, slots=True)
class ContainsFilter:
    """`c CONTAINS value` and `c CONTAINS KEY value`."""

    columns: tuple[Column, ...]
    of_key: bool
    term: TermValue

    def bind(self, execution: Execution) -> Predicate:
        column = self.columns[0]
        read, type_ = column_reader(column), column.type
        key = comparable(contained_type(type_, of_key=self.of_key))
        wanted = key(filter_value(self.term, column, execution))
        part = 0 if self.of_key else 1

        def matches(view: RowView) -> bool:
            value = read(view)
            if value is None:
                return False
            if isinstance(type_, MapType):
                return any(key(entry[part]) == wanted for entry in type_.elements(value))
            assert isinstance(type_, (ListType, SetType))
            return any(key(element) == wanted for element in type_.elements(value))

        return matches


def contained_type(type_: CQLType, *, of_key: bool) -> CQLType:
    """What CONTAINS (KEY) looks for in a collection."""
    if isinstance(type_, MapType):
        return type_.key if of_key else type_.value
    assert isinstance(type_, (ListType, SetType))
    return type_.element


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """`m[key] = value`."""

    columns: tuple[Column, ...]
    key: TermValue
    value: TermValue

    def bind(self, execution: Execution) -> Predicate:
        column = self.columns[0]
        read, type_ = column_reader(column), column.type
        assert isinstance(type_, MapType)
        as_key, as_value = comparable(type_.key), comparable(type_.value)
        wanted_key = as_key(_entry_part(self.key, "map key", column, execution))
        wanted = as_value(_entry_part(self.value, "map value", column, execution))

        def matches(view: RowView) -> bool:
            found = read(view)
            if found is None:
                return False
            return any(as_key(k) == wanted_key and as_value(v) == wanted for k, v in type_.elements(found))

        return matches


def _entry_part(term: TermValue, what: str, column: Column, execution: Execution) -> bytes:
    value = term.evaluate(execution)
    if isinstance(value, bytes):
        return value
    kind = "unset" if isinstance(value, Unset) else "null"
    raise InvalidRequest(f"Unsupported {kind} {what} for column {column.name}")
