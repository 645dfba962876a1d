"""DESCRIBE in all its forms, answered as Cassandra 4 and later do: rows with the CQL text of each element."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from belvedere.cql import syntax
from belvedere.cql.text import quote_identifier
from belvedere.meta.state import ClusterState
from belvedere.model.schema import Keyspace, Table
from belvedere.model.token import token_of
from belvedere.model.types import TEXT, CQLType, ListType, MapType, UserType
from belvedere.query.errors import InvalidRequest
from belvedere.query.results import ResultColumn, Rows
from belvedere.query.schema.describe_text import (
    keyspace_text,
    table_text,
    type_text,
    types_in_order,
    view_text,
)
from belvedere.query.schema.names import is_system

T = TypeVar("T")

PARTITIONER, SNITCH = "Murmur3Partitioner", "SimpleSnitch"

_LISTS = ("keyspaces", "tables", "types", "functions", "aggregates", "materialized views")
_RANGES = MapType(TEXT, ListType(TEXT))


@dataclass(frozen=True, slots=True)
class DescribeContext:
    """`keyspaces` has the system keyspaces too; `current` is the session's keyspace."""

    keyspaces: Mapping[str, Keyspace]
    state: ClusterState
    cluster_name: str
    current: str | None


@dataclass(frozen=True, slots=True)
class _Element:
    """Anything that has a CREATE statement."""

    keyspace: str
    kind: str
    name: str
    text: Callable[[], str]


def describe_columns(statement: syntax.Describe, current: str | None) -> tuple[ResultColumn, ...]:
    if statement.kind == "cluster":
        names: dict[str, CQLType] = dict.fromkeys(("cluster", "partitioner", "snitch"), TEXT)
        if _shows_ranges(current):
            names["range_ownership"] = _RANGES
    else:
        names = dict.fromkeys(("keyspace_name", "type", "name"), TEXT)
        if statement.kind not in _LISTS:
            names["create_statement"] = TEXT
    return tuple(ResultColumn("system", "describe", name, kind) for name, kind in names.items())


def describe(statement: syntax.Describe, context: DescribeContext) -> Rows:
    columns = describe_columns(statement, context.current)
    if statement.kind == "cluster":
        return Rows(columns=columns, rows=[_cluster_row(context)])
    listing = statement.kind in _LISTS
    rows: list[list[bytes | None]] = []
    for element in _elements(statement, context):
        texts = [quote_identifier(element.keyspace), element.kind, quote_identifier(element.name)]
        if not listing:
            texts.append(element.text())
        rows.append([text.encode() for text in texts])
    return Rows(columns=columns, rows=rows)


# --- DESCRIBE CLUSTER --------------------------------------------------------------------------------


def _shows_ranges(current: str | None) -> bool:
    return current is not None and not is_system(current)


def _cluster_row(context: DescribeContext) -> list[bytes | None]:
    row: list[bytes | None] = [context.cluster_name.encode(), PARTITIONER.encode(), SNITCH.encode()]
    if _shows_ranges(context.current):
        owners = {
            str(token_of(_id_bytes(node.id))): [f"{node.host}:{node.port}"]
            for node in context.state.nodes.values()
        }
        row.append(_RANGES.encode(owners))
    return row


def _id_bytes(node_id: str) -> bytes:
    """Tokens as system.local and system.peers show them: of the host id."""
    try:
        return UUID(node_id).bytes
    except ValueError:
        return node_id.encode()


# --- which elements ----------------------------------------------------------------------------------


def _elements(statement: syntax.Describe, context: DescribeContext) -> Iterable[_Element]:
    internals = statement.internals
    match statement.kind:
        case "keyspaces":
            return [_keyspace_element(keyspace) for keyspace in _all(context)]
        case "tables":
            return [_table_element(table, False) for k in _listed(context) for table in _tables(k)]
        case "materialized views":
            return [_view_element(k, view, False) for k in _listed(context) for view in _views(k)]
        case "types":
            return [_type_element(found) for k in _listed(context) for found in _by_name(k.types)]
        case "functions" | "aggregates":
            return []
        case "schema":
            shown = [k for k in _all(context) if statement.full or not is_system(k.name)]
            return [element for keyspace in shown for element in _whole(keyspace, internals)]
        case "keyspace":
            keyspace = _keyspace(context, statement.keyspace)
            return [_keyspace_element(keyspace)] if statement.only else _whole(keyspace, internals)
        case "generic":
            return _anything(statement, context)
    return _named(statement, context)


def _named(statement: syntax.Describe, context: DescribeContext) -> Iterable[_Element]:
    keyspace = _keyspace(context, statement.keyspace)
    name = statement.name or ""
    match statement.kind:
        case "table":
            table = keyspace.tables.get(name)
            if table is None:
                raise InvalidRequest(f"Table '{name}' not found in keyspace '{keyspace.name}'")
            return _with_views(keyspace, table, statement.internals)
        case "type":
            user_type = keyspace.types.get(name)
            if user_type is None:
                raise InvalidRequest(f"User defined type '{name}' not found in '{keyspace.name}'")
            return [_type_element(user_type)]
        case "index":
            raise InvalidRequest(f"Table for existing index '{name}' not found in '{keyspace.name}'")
        case "materialized view":
            view = keyspace.tables.get(name)
            if view is None or view.view is None:
                raise InvalidRequest(f"Materialized view '{name}' not found in keyspace '{keyspace.name}'")
            return [_view_element(keyspace, view, statement.internals)]
    raise InvalidRequest(f"User defined {statement.kind} '{name}' not found in '{keyspace.name}'")


def _anything(statement: syntax.Describe, context: DescribeContext) -> Iterable[_Element]:
    """A name without a kind is a keyspace, else a table or view of the named or the session's keyspace."""
    name = statement.name or ""
    if statement.keyspace is None:
        if name in context.keyspaces:
            return _whole(context.keyspaces[name], statement.internals)
        if context.current is None:
            raise InvalidRequest(f"'{name}' not found in keyspaces")
    keyspace = _keyspace(context, statement.keyspace)
    table = keyspace.tables.get(name)
    if table is None:
        raise InvalidRequest(f"'{name}' not found in keyspace '{keyspace.name}'")
    return _with_views(keyspace, table, statement.internals)


def _whole(keyspace: Keyspace, internals: bool) -> list[_Element]:
    return [
        _keyspace_element(keyspace),
        *(_type_element(user_type) for user_type in types_in_order(keyspace.types.values())),
        *(_table_element(table, internals) for table in _tables(keyspace)),
        *(_view_element(keyspace, view, internals) for view in _views(keyspace)),
    ]


def _with_views(keyspace: Keyspace, table: Table, internals: bool) -> list[_Element]:
    """A table and the views of it, or a view alone."""
    if table.view is not None:
        return [_view_element(keyspace, table, internals)]
    views = sorted(keyspace.views_of(table), key=lambda view: view.name)
    return [_table_element(table, internals), *(_view_element(keyspace, view, internals) for view in views)]


def _tables(keyspace: Keyspace) -> list[Table]:
    return [table for table in _by_name(keyspace.tables) if table.view is None]


def _views(keyspace: Keyspace) -> list[Table]:
    return [table for table in _by_name(keyspace.tables) if table.view is not None]


def _keyspace(context: DescribeContext, name: str | None) -> Keyspace:
    wanted = name if name is not None else context.current
    if wanted is None:
        raise InvalidRequest("No keyspace specified and no current keyspace")
    found = context.keyspaces.get(wanted)
    if found is None:
        raise InvalidRequest(f"'{wanted}' not found in keyspaces")
    return found


def _all(context: DescribeContext) -> list[Keyspace]:
    return list(_by_name(context.keyspaces))


def _listed(context: DescribeContext) -> list[Keyspace]:
    return _all(context) if context.current is None else [_keyspace(context, None)]


def _by_name(things: Mapping[str, T]) -> list[T]:
    return [thing for _, thing in sorted(things.items())]


def _keyspace_element(keyspace: Keyspace) -> _Element:
    return _Element(keyspace.name, "keyspace", keyspace.name, lambda: keyspace_text(keyspace))


def _type_element(user_type: UserType) -> _Element:
    return _Element(user_type.keyspace, "type", user_type.type_name, lambda: type_text(user_type))


def _table_element(table: Table, internals: bool) -> _Element:
    return _Element(table.keyspace, "table", table.name, lambda: table_text(table, internals))


def _view_element(keyspace: Keyspace, view: Table, internals: bool) -> _Element:
    base = None if view.view is None else keyspace.tables.get(view.view.base)
    return _Element(view.keyspace, "materialized_view", view.name, lambda: view_text(view, base, internals))
