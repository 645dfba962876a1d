"""Values written in statements: constants, bind variables, literals of collections, function calls.

`prepare_term` checks a term against the column it is meant for and returns a `TermValue`, which gives the
wire bytes when the statement runs. Everything that does not depend on bound values is computed while
planning. Values are validated and normalised exactly once, when a term is evaluated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from belvedere.cql.syntax import (
    Arithmetic,
    Cast,
    Constant,
    Expression,
    FunctionCall,
    ListLiteral,
    MapLiteral,
    Marker,
    Negation,
    Null,
    SetLiteral,
    TupleLiteral,
    TypeHint,
    UserTypeLiteral,
)
from belvedere.model.types import CQLType, InvalidValue, UserType
from belvedere.query.access import UNSET, BoundValue, Execution, Unset
from belvedere.query.errors import InvalidRequest
from belvedere.query.results import ResultColumn
from belvedere.query.schema_view import NO_KEYSPACE, SchemaView
from belvedere.query.terms.constants import constant_value


class TermValue(Protocol):
    """A term ready to be evaluated; `type` is what its bytes are."""

    @property
    def type(self) -> CQLType: ...

    @property
    def is_constant(self) -> bool: ...

    @property
    def has_marker(self) -> bool:
        """Whether the value depends on what the client binds."""

    def evaluate(self, execution: Execution) -> BoundValue:
        """Valid, normalised wire bytes; None for null; UNSET for a variable that was left unset."""


class BindCollector:
    """Gathers what each bind variable of a statement is, in the order of the markers."""

    def __init__(self, schema: SchemaView, keyspace: str | None) -> None:
        self.schema = schema
        self.keyspace = keyspace
        self._columns: dict[int, ResultColumn] = {}

    def add(self, marker: Marker, receiver: ResultColumn) -> None:
        name = receiver.name if marker.name is None else marker.name
        self._columns[marker.index] = ResultColumn(receiver.keyspace, receiver.table, name, receiver.type)

    @property
    def bindings(self) -> tuple[ResultColumn, ...]:
        return tuple(self._columns[index] for index in sorted(self._columns))

    def user_type(self, keyspace: str | None, name: str) -> UserType:
        """For casts and type hints."""
        found = keyspace if keyspace is not None else self.keyspace
        if found is None:
            raise InvalidRequest(NO_KEYSPACE)
        return self.schema.user_type(found, name)


@dataclass(frozen=True, slots=True)
class ConstantTerm:
    type: CQLType
    value: bytes | None
    is_constant = True
    has_marker = False

    def evaluate(self, execution: Execution) -> BoundValue:
        return self.value


@dataclass(frozen=True, slots=True)
class MarkerTerm:
    type: CQLType
    index: int
    is_constant = False
    has_marker = True

    def evaluate(self, execution: Execution) -> BoundValue:
        value = bound_value(execution.values, self.index)
        return checked(self.type, value) if type(value) is bytes else value


def bound_value(values: Sequence[BoundValue], index: int) -> BoundValue:
    try:
        return values[index]
    except IndexError:
        raise InvalidRequest("Invalid amount of bind variables") from None


def checked(type_: CQLType, value: bytes) -> bytes:
    """The value in the form that is stored; InvalidRequest if it does not belong to its type."""
    try:
        type_.validate(value)
        return type_.normalise(value) if type_.needs_normalising else value
    except InvalidValue as error:
        raise InvalidRequest(str(error)) from None


@dataclass(frozen=True, slots=True)
class CompositeTerm:
    """A collection, tuple or user type literal with at least one part that is known only later."""

    type: CQLType
    parts: tuple[TermValue, ...]
    build: Callable[[Sequence[BoundValue]], bytes]
    has_marker: bool
    is_constant = False

    def evaluate(self, execution: Execution) -> BoundValue:
        return self.build([part.evaluate(execution) for part in self.parts])


def composite(
    type_: CQLType, parts: Sequence[TermValue], build: Callable[[Sequence[BoundValue]], bytes]
) -> TermValue:
    """A constant if all parts are."""
    constants = [part.value for part in parts if isinstance(part, ConstantTerm)]
    if len(constants) == len(parts):
        return ConstantTerm(type_, build(constants))
    return CompositeTerm(type_, tuple(parts), build, any(part.has_marker for part in parts))


def prepare_term(node: Expression, receiver: ResultColumn, collector: BindCollector) -> TermValue:
    """Check a term against the column that is to receive it."""
    # Those modules need prepare_term for the parts of what they prepare.
    from belvedere.query.terms import calls as terms_calls
    from belvedere.query.terms import literals as terms_literals

    match node:
        case Constant():
            return ConstantTerm(receiver.type, constant_value(node, receiver))
        case Null():
            return ConstantTerm(receiver.type, None)
        case Marker():
            collector.add(node, receiver)
            return MarkerTerm(receiver.type, node.index)
        case ListLiteral() | SetLiteral() | MapLiteral() | TupleLiteral() | UserTypeLiteral():
            return terms_literals.prepare_literal(node, receiver, collector)
        case TypeHint():
            return terms_calls.prepare_hint(node, receiver, collector)
        case FunctionCall() | Cast() | Arithmetic() | Negation():
            return terms_calls.prepare_call(node, receiver, collector)
    raise InvalidRequest(f"Invalid term for {receiver.name}: columns cannot be used here")


def not_null(value: BoundValue, null_message: str, unset_message: str) -> bytes:
    """A value that must be there."""
    if value is None:
        raise InvalidRequest(null_message)
    if isinstance(value, Unset):
        raise InvalidRequest(unset_message)
    return value


__all__ = [
    "UNSET",
    "BindCollector",
    "CompositeTerm",
    "ConstantTerm",
    "MarkerTerm",
    "TermValue",
    "bound_value",
    "checked",
    "composite",
    "not_null",
    "prepare_term",
]
