"""How well a term suits a type, before it is prepared for one: function resolution and element checks ask."""

from collections.abc import Sequence
from dataclasses import dataclass

from belvedere.cql.syntax import (
    Arithmetic,
    Cast,
    Constant,
    Expression,
    FunctionCall,
    ListLiteral,
    MapLiteral,
    Negation,
    SetLiteral,
    TupleLiteral,
    TypeHint,
    UserTypeLiteral,
)
from belvedere.cql.text import to_text
from belvedere.model.types import CQLType, ListType, MapType, SetType, TupleType, UserType, VectorType
from belvedere.query.functions.registry import Fit, fit_types
from belvedere.query.terms.constants import constant_fit, preferred_type
from belvedere.query.terms.types import resolve_type
from belvedere.query.terms.values import BindCollector


@dataclass(frozen=True, slots=True)
class NodeArgument:
    """A term as function resolution sees it."""

    node: Expression
    collector: BindCollector

    @property
    def known_type(self) -> CQLType | None:
        return natural_type(self.node, self.collector)

    @property
    def text(self) -> str:
        return describe(self.node)

    def fit(self, expected: CQLType) -> Fit:
        return fit_of(self.node, expected, self.collector)


def describe(node: Expression) -> str:
    return to_text(node)


def fit_of(node: Expression, expected: CQLType, collector: BindCollector) -> Fit:
    match node, expected:
        case Constant(), _:
            return constant_fit(node, expected)
        case ListLiteral(), ListType() | VectorType():
            return _all_fit(node.elements, expected.element, collector)
        case SetLiteral(()), MapType() | UserType():
            return Fit.WEAK
        case SetLiteral(), SetType():
            return _all_fit(node.elements, expected.element, collector)
        case MapLiteral(), MapType():
            keys = _all_fit([key for key, _ in node.entries], expected.key, collector)
            return min(keys, _all_fit([value for _, value in node.entries], expected.value, collector))
        case TupleLiteral(), TupleType():
            return _fields_fit(node.elements, expected.types, collector)
        case UserTypeLiteral(), UserType():
            types = dict(zip(expected.field_names, expected.types, strict=True))
            fits = [
                fit_of(value, types[name], collector) if name in types else Fit.NONE
                for name, value in node.fields
            ]
            return min(fits, default=Fit.WEAK)
        case TupleLiteral((inner,)), _:
            return fit_of(inner, expected, collector)
        case ((ListLiteral() | SetLiteral() | MapLiteral() | TupleLiteral() | UserTypeLiteral()), _):
            return Fit.NONE
    known = natural_type(node, collector)
    return Fit.WEAK if known is None else fit_types(known, expected)


def _all_fit(nodes: Sequence[Expression], expected: CQLType, collector: BindCollector) -> Fit:
    """An empty collection says nothing about the type of its elements."""
    return min((fit_of(node, expected, collector) for node in nodes), default=Fit.WEAK)


def _fields_fit(nodes: Sequence[Expression], types: Sequence[CQLType], collector: BindCollector) -> Fit:
    if len(nodes) > len(types):
        return Fit.NONE
    return min(fit_of(node, type_, collector) for node, type_ in zip(nodes, types, strict=False))


def natural_type(node: Expression, collector: BindCollector) -> CQLType | None:
    """The type a term has by itself; None for null, bind variables and what follows its surroundings."""
    from belvedere.query.terms.calls import result_type

    match node:
        case Constant():
            return preferred_type(node)
        case TypeHint() | Cast():
            return resolve_type(node.type, collector.user_type)
        case FunctionCall() | Arithmetic() | Negation():
            return result_type(node, collector)
        case TupleLiteral((inner,)):
            return natural_type(inner, collector)
        case ListLiteral() | SetLiteral() if node.elements:
            element = _common_type(node.elements, collector)
            if element is None:
                return None
            return ListType(element) if isinstance(node, ListLiteral) else SetType(element)
        case MapLiteral():
            key = _common_type([key for key, _ in node.entries], collector)
            value = _common_type([value for _, value in node.entries], collector)
            return None if key is None or value is None else MapType(key, value)
        case TupleLiteral():
            types = [natural_type(element, collector) for element in node.elements]
            known = [type_ for type_ in types if type_ is not None]
            return TupleType(known) if len(known) == len(types) else None
    return None


def _common_type(nodes: Sequence[Expression], collector: BindCollector) -> CQLType | None:
    """The type of one of the elements that all the others fit."""
    for node in nodes:
        candidate = natural_type(node, collector)
        if candidate is not None and all(
            fit_of(other, candidate, collector) is not Fit.NONE for other in nodes
        ):
            return candidate
    return None
