"""Literals of lists, sets, maps, vectors, tuples and user types."""

from collections.abc import Callable, Sequence

from belvedere.cql.syntax import (
    Expression,
    ListLiteral,
    MapLiteral,
    SetLiteral,
    TupleLiteral,
    UserTypeLiteral,
)
from belvedere.model.types import (
    CQLType,
    InvalidValue,
    ListType,
    MapType,
    SetType,
    TupleType,
    UserType,
    VectorType,
)
from belvedere.query.access import BoundValue, Unset
from belvedere.query.errors import InvalidRequest
from belvedere.query.functions.registry import Fit
from belvedere.query.results import ResultColumn
from belvedere.query.terms.fit import describe, fit_of
from belvedere.query.terms.values import BindCollector, TermValue, composite, prepare_term

CollectionLiteral = ListLiteral | SetLiteral | MapLiteral | TupleLiteral | UserTypeLiteral

_KINDS = {
    ListLiteral: "list",
    SetLiteral: "set",
    MapLiteral: "map",
    TupleLiteral: "tuple type",
    UserTypeLiteral: "user type",
}


def prepare_literal(node: CollectionLiteral, receiver: ResultColumn, collector: BindCollector) -> TermValue:
    type_ = receiver.type
    match node, type_:
        case ListLiteral(), ListType():
            return _elements(node.elements, "list", type_.element, receiver, collector, type_.build)
        case ListLiteral(), VectorType():
            return _vector(node, type_, receiver, collector)
        case SetLiteral(), SetType():
            build = lambda parts: type_.normalise(type_.build(parts))  # noqa: E731
            return _elements(node.elements, "set", type_.element, receiver, collector, build)
        case SetLiteral(()), MapType():
            return _map((), type_, receiver, collector)
        case SetLiteral(()), UserType():
            return _user_type({}, type_, receiver, collector)
        case MapLiteral(), MapType():
            return _map(node.entries, type_, receiver, collector)
        case UserTypeLiteral(), UserType():
            return _user_type(dict(node.fields), type_, receiver, collector)
        case TupleLiteral(), TupleType():
            return _tuple(node, type_, receiver, collector)
        case TupleLiteral((inner,)), _:
            return prepare_term(inner, receiver, collector)
    kind = "vector" if isinstance(type_, VectorType) and isinstance(node, ListLiteral) else _KINDS[type(node)]
    raise InvalidRequest(f"Invalid {kind} literal for {receiver.name} of type {type_.name}")


def _part(receiver: ResultColumn, name: str, type_: CQLType) -> ResultColumn:
    return ResultColumn(receiver.keyspace, receiver.table, name, type_)


def _element(
    node: Expression,
    kind: str,
    what: str,
    part: ResultColumn,
    receiver: ResultColumn,
    collector: BindCollector,
) -> TermValue:
    """One element of a collection literal, where bind variables and null cannot stand."""
    if fit_of(node, part.type, collector) is Fit.NONE:
        raise InvalidRequest(
            f"Invalid {kind} literal for {receiver.name}: "
            f"{what} {describe(node)} is not of type {part.type.name}"
        )
    term = prepare_term(node, part, collector)
    if term.has_marker:
        raise InvalidRequest(
            f"Invalid {kind} literal for {receiver.name}: "
            "bind variables are not supported inside collection literals"
        )
    return term


def _elements(
    nodes: Sequence[Expression],
    kind: str,
    element: CQLType,
    receiver: ResultColumn,
    collector: BindCollector,
    build: Callable[[list[bytes]], bytes],
) -> TermValue:
    part = _part(receiver, f"value({receiver.name})", element)
    parts = [_element(node, kind, "value", part, receiver, collector) for node in nodes]
    return composite(receiver.type, parts, lambda values: build(all_present(values)))


def _map(
    entries: Sequence[tuple[Expression, Expression]],
    type_: MapType,
    receiver: ResultColumn,
    collector: BindCollector,
) -> TermValue:
    key_part = _part(receiver, f"key({receiver.name})", type_.key)
    value_part = _part(receiver, f"value({receiver.name})", type_.value)
    parts: list[TermValue] = []
    for key, value in entries:
        parts.append(_element(key, "map", "key", key_part, receiver, collector))
        parts.append(_element(value, "map", "value", value_part, receiver, collector))

    def build(values: Sequence[BoundValue]) -> bytes:
        flat = all_present(values)
        return type_.normalise(type_.build(zip(flat[::2], flat[1::2], strict=True)))

    return composite(type_, parts, build)


def _vector(
    node: ListLiteral, type_: VectorType, receiver: ResultColumn, collector: BindCollector
) -> TermValue:
    if len(node.elements) != type_.dimension:
        raise InvalidRequest(
            f"Invalid vector literal for {receiver.name} of type {type_.name}; "
            f"expected {type_.dimension} elements, but given {len(node.elements)}"
        )
    part = _part(receiver, receiver.name, type_.element)
    parts = []
    for element in node.elements:
        if fit_of(element, type_.element, collector) is Fit.NONE:
            raise InvalidRequest(
                f"Invalid vector literal for {receiver.name}: "
                f"value {describe(element)} is not of type {type_.element.name}"
            )
        parts.append(prepare_term(element, part, collector))
    return composite(type_, parts, lambda values: type_.build(all_present(values)))


def _tuple(
    node: TupleLiteral, type_: TupleType, receiver: ResultColumn, collector: BindCollector
) -> TermValue:
    types = type_.children()
    if len(node.elements) > len(types):
        raise InvalidRequest(
            f"Invalid tuple literal for {receiver.name}: too many elements. "
            f"Type {type_.name} expects {len(types)} but got {len(node.elements)}"
        )
    parts = []
    for index, (element, component) in enumerate(zip(node.elements, types, strict=False)):
        if fit_of(element, component, collector) is Fit.NONE:
            raise InvalidRequest(
                f"Invalid tuple literal for {receiver.name}: "
                f"component {index} is not of type {component.name}"
            )
        parts.append(
            prepare_term(element, _part(receiver, f"{receiver.name}[{index}]", component), collector)
        )

    def build(values: Sequence[BoundValue]) -> bytes:
        for index, value in enumerate(values):
            if isinstance(value, Unset):
                raise InvalidRequest(f"Invalid unset value for tuple field number {index}")
        return type_.build(values)  # type: ignore[arg-type]

    return composite(type_, parts, build)


def _user_type(
    fields: dict[str, Expression], type_: UserType, receiver: ResultColumn, collector: BindCollector
) -> TermValue:
    names = type_.field_names
    for name in fields:
        if name not in names:
            raise InvalidRequest(f"Unknown field '{name}' in value of user defined type {type_.name}")
    parts: list[TermValue] = []
    written: list[int] = []
    for index, (name, field_type) in enumerate(zip(names, type_.children(), strict=True)):
        if name not in fields:
            continue
        node = fields[name]
        if fit_of(node, field_type, collector) is Fit.NONE:
            raise InvalidRequest(
                f"Invalid user type literal for {receiver.name}: "
                f"field {name} is not of type {field_type.name}"
            )
        parts.append(prepare_term(node, _part(receiver, f"{receiver.name}.{name}", field_type), collector))
        written.append(index)

    def build(values: Sequence[BoundValue]) -> bytes:
        row: list[bytes | None] = [None] * len(names)
        for index, value in zip(written, values, strict=True):
            if isinstance(value, Unset):
                raise InvalidRequest(
                    f"Invalid unset value for field '{names[index]}' of user defined type {type_.name}"
                )
            row[index] = value
        return type_.build(row)

    return composite(type_, parts, build)


def all_present(values: Sequence[BoundValue]) -> list[bytes]:
    present: list[bytes] = []
    for value in values:
        if value is None:
            raise InvalidRequest("null is not supported inside collections")
        if isinstance(value, Unset):
            raise InvalidRequest("unset value is not supported inside collections")
        present.append(value)
    return present


__all__ = ["InvalidValue", "all_present", "prepare_literal"]
