"""Which filters a materialized view may have, and what happens to them when names change.

A view's filter must say the same of a base row at any time and on any node, since builds, writes and
verification all ask it: so it holds literals only, and only of columns of the row itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace

from belvedere.cql import syntax
from belvedere.cql.parser import parse_where
from belvedere.cql.text import to_text, where_text
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.query.access import Execution
from belvedere.query.errors import InvalidRequest
from belvedere.query.schema_view import SchemaView, existing_column
from belvedere.query.terms.values import BindCollector
from belvedere.query.where.filters import ComparisonFilter
from belvedere.query.where.relations import read_relations
from belvedere.query.where.restrictions import analyse

NO_MARKERS = "Cannot use query parameters in CREATE MATERIALIZED VIEW statements"


def check_filter(
    view: str, base: Table, key: Sequence[Column], where: Sequence[syntax.Relation], schema: SchemaView
) -> None:
    for relation in where:
        _check_relation(view, base, relation)
    collector = BindCollector(schema, base.keyspace)
    found = analyse(base, where, collector, for_view=True)
    restricted = found.columns | {column.name for column in found.not_null}
    for column in key:
        if column.name not in restricted:
            raise InvalidRequest(
                f"Primary key column '{column.name}' is required to be filtered by 'IS NOT NULL'"
            )
    _check_values(base, where, collector)


def _check_relation(view: str, base: Table, relation: syntax.Relation) -> None:
    match relation:
        case syntax.IndexExpression():
            raise InvalidRequest(
                f"WHERE clause for materialized view '{view}' cannot contain custom index expressions"
            )
        case syntax.TokenRelation():
            raise InvalidRequest(
                f"WHERE clause for materialized view '{view}' cannot contain the token function"
            )
    for name in _columns_of(relation):
        column = existing_column(base, name)
        if column.kind is ColumnKind.STATIC:
            raise InvalidRequest(
                f"WHERE clause for materialized view '{view}' cannot restrict static column '{name}'"
            )
        if column.type.is_multicell and not isinstance(relation, syntax.NotNullRelation):
            # Elements come and go, and expire, one by one: the row would have to be watched for each.
            raise InvalidRequest(
                f"WHERE clause for materialized view '{view}' can restrict non-frozen column '{name}' "
                "only with 'IS NOT NULL'"
            )
    for node in _walk(relation):
        if isinstance(node, syntax.Marker):
            raise InvalidRequest(NO_MARKERS)
        if isinstance(node, syntax.FunctionCall | syntax.Cast):
            raise InvalidRequest(
                f"WHERE clause for materialized view '{view}' can only contain literals (got {to_text(node)})"
            )


def _check_values(base: Table, where: Sequence[syntax.Relation], collector: BindCollector) -> None:
    """Nulls and the like are found when values are read: now, not at the first write."""
    found = read_relations(base, where, collector, for_view=True)
    execution = Execution(None)  # type: ignore[arg-type]  # Literals need nothing of it.
    for one in found.comparisons:
        ComparisonFilter(one.columns, one.operator, one.source).bind(execution)
    for other in found.filters:
        other.bind(execution)


# --- names that change -------------------------------------------------------------------------------


def renamed_where(where: str, names: Mapping[str, str]) -> str:
    """The same filter after columns of the base got other names, all at once."""
    return where_text(_renamed(relation, names) for relation in parse_where(where))


def _renamed(relation: syntax.Relation, names: Mapping[str, str]) -> syntax.Relation:
    match relation:
        case syntax.TupleRelation():
            return replace(relation, columns=tuple(names.get(name, name) for name in relation.columns))
        case syntax.ColumnRelation() | syntax.NotNullRelation() | syntax.ElementRelation():
            return replace(relation, column=names.get(relation.column, relation.column))
    return relation


def fields_named(where: str) -> frozenset[str]:
    """The fields of user types that literals in a filter name."""
    return frozenset(
        name
        for relation in parse_where(where)
        for node in _walk(relation)
        if isinstance(node, syntax.UserTypeLiteral)
        for name, _ in node.fields
    )


def _columns_of(relation: syntax.Relation) -> tuple[str, ...]:
    match relation:
        case syntax.TupleRelation():
            return relation.columns
        case syntax.ColumnRelation() | syntax.NotNullRelation() | syntax.ElementRelation():
            return (relation.column,)
    return ()


def _walk(node: object) -> Iterator[object]:
    """A node of the syntax tree and everything inside it."""
    if isinstance(node, tuple):
        for part in node:
            yield from _walk(part)
    elif is_dataclass(node) and not isinstance(node, type):
        yield node
        for field in fields(node):
            yield from _walk(getattr(node, field.name))
