"""CREATE, ALTER and DROP MATERIALIZED VIEW."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from belvedere.cql import syntax
from belvedere.cql.text import to_text, where_text
from belvedere.meta.state import ClusterState
from belvedere.model.schema import (
    WRITE_TIMES,
    Column,
    ColumnKind,
    Keyspace,
    Table,
    ViewDefinition,
)
from belvedere.model.types import BLOB
from belvedere.query.errors import AlreadyExists, InvalidRequest
from belvedere.query.schema.column_types import check_key_type
from belvedere.query.schema.edits import DdlContext, Decision, KeyspaceEdit
from belvedere.query.schema.keyspaces import factor_warnings
from belvedere.query.schema.names import check_modifiable, check_name, existing_keyspace, keyspace_of
from belvedere.query.schema.table_options import altered_options, ignored_properties, new_options
from belvedere.query.schema.views_where import NO_MARKERS, check_filter
from belvedere.query.schema_view import KeyspacesView, existing_column


def create_view(
    statement: syntax.CreateMaterializedView, state: ClusterState, context: DdlContext
) -> Decision | None:
    check_view_statement(statement)
    keyspace_name = keyspace_of(statement.keyspace, context.keyspace)
    check_modifiable(keyspace_name)
    name = statement.view.name
    if keyspace_of(statement.base.keyspace, keyspace_name) != keyspace_name:
        raise InvalidRequest("Cannot create a materialized view on a table in a different keyspace")
    keyspace = existing_keyspace(state, keyspace_name)
    base = keyspace.tables.get(statement.base.name)
    if base is None:
        raise InvalidRequest(f"Base table '{statement.base.name}' doesn't exist")
    if _is_taken(keyspace, name, statement.if_not_exists):
        return None
    check_name("Table", name)
    view = _new_view(statement, base, state, context.table_id)
    edit = KeyspaceEdit(state, keyspace_name)
    edit.put_table(view)
    edit.create_tablets(view, context)
    edit.begin_build(view, base)
    warnings = ignored_properties(statement.properties)
    if context.replicated:
        warnings += factor_warnings(keyspace_name, keyspace.replication, state)
    return edit.decide("CREATED", "TABLE", name, warnings)


def alter_view(
    statement: syntax.AlterMaterializedView, state: ClusterState, context: DdlContext
) -> Decision | None:
    keyspace = keyspace_of(statement.keyspace, context.keyspace)
    check_modifiable(keyspace)
    name = statement.view.name
    before = _existing_view(state, keyspace, name, statement.if_exists)
    if before is None:
        return None
    options = altered_options(before.options, statement.properties, view=True)
    if options["gc_grace_seconds"] == 0:
        raise InvalidRequest(f"Cannot alter gc_grace_seconds of a materialized view to 0{_GRACE}")
    if options["default_time_to_live"]:
        raise InvalidRequest(
            "Forbidden default_time_to_live detected for a materialized view. Data in a materialized view "
            "always expire at the same time than the corresponding data in the parent table. "
            "default_time_to_live must be set to zero"
        )
    if options == before.options:
        return None
    edit = KeyspaceEdit(state, keyspace)
    edit.put_table(replace(before, options=options))
    return edit.decide("UPDATED", "TABLE", name, ignored_properties(statement.properties))


def drop_view(
    statement: syntax.DropMaterializedView, state: ClusterState, context: DdlContext
) -> Decision | None:
    keyspace = keyspace_of(statement.keyspace, context.keyspace)
    check_modifiable(keyspace)
    view = _existing_view(state, keyspace, statement.view.name, statement.if_exists)
    if view is None:
        return None
    edit = KeyspaceEdit(state, keyspace)
    edit.drop_table(view)
    return edit.decide("DROPPED", "TABLE", view.name)


def check_view_statement(statement: syntax.CreateMaterializedView) -> None:
    """What is wrong whatever the schema is."""
    if statement.markers:
        raise InvalidRequest(NO_MARKERS)
    if statement.compact_storage:
        raise InvalidRequest("Cannot use 'COMPACT STORAGE' when defining a materialized view")


_GRACE = (
    ", since a deletion must be remembered until every older image of the row that is still under way has "
    "arrived"
)


def _is_taken(keyspace: Keyspace, name: str, if_not_exists: bool) -> bool:
    """Raises unless the name is free, or that of a view which may already exist."""
    known = keyspace.tables.get(name)
    if known is None:
        return False
    if known.view is None:
        raise InvalidRequest(
            f"Cannot create materialized view '{name}' - a table with the same name already exists"
        )
    if not if_not_exists:
        raise AlreadyExists(keyspace.name, name)
    return True


def _existing_view(state: ClusterState, keyspace: str, name: str, if_exists: bool) -> Table | None:
    found = state.table(keyspace, name)
    if found is not None and found.view is not None:
        return found
    if if_exists:
        return None
    raise InvalidRequest(f"Materialized view '{keyspace}.{name}' doesn't exist")


# --- the view that a statement describes -------------------------------------------------------------


def _new_view(
    statement: syntax.CreateMaterializedView, base: Table, state: ClusterState, view_id: bytes
) -> Table:
    name, key = statement.view.name, statement.primary_key
    if base.is_counter:
        raise InvalidRequest("Materialized views are not supported on counter tables")
    if base.view is not None:
        raise InvalidRequest("Materialized views cannot be created against other materialized views")
    selected = _selected(statement.items, base, name)
    key_columns = _key_columns(key, base, selected, name)
    descending = _clustering_order(statement.clustering_order, key.clustering, base, name)
    check_filter(name, base, key_columns, statement.where, KeyspacesView(state.keyspaces))
    options = new_options(statement.properties, view=True)
    if options["default_time_to_live"]:
        raise InvalidRequest(
            "Cannot set default_time_to_live for a materialized view. Data in a materialized view always "
            "expire at the same time than the corresponding data in the parent table."
        )
    if options["gc_grace_seconds"] == 0:
        raise InvalidRequest(f"Cannot create materialized view '{name}' with gc_grace_seconds of 0{_GRACE}")
    columns = _view_columns(selected, key, descending)
    definition = ViewDefinition(base.name, base.id, where_text(statement.where), not statement.items)
    ordinals = sum(column.kind is ColumnKind.REGULAR for column in columns)
    return Table(view_id, base.keyspace, name, columns, options, ordinals, view=definition)


def _selected(items: Sequence[syntax.SelectItem], base: Table, view: str) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for item in items:
        if item.alias is not None:
            raise InvalidRequest(
                f"Cannot use aliases when defining a materialized view (got {to_text(item)})"
            )
        if not isinstance(item.expression, syntax.ColumnRef):
            raise InvalidRequest(
                "Can only select columns by name when defining a materialized view "
                f"(got {to_text(item.expression)})"
            )
        column = existing_column(base, item.expression.name)
        if column.name in found:
            raise InvalidRequest(
                f"Duplicate column '{column.name}' in SELECT clause for materialized view '{view}'"
            )
        found[column.name] = column
    if not items:
        found = {column.name: column for column in base.columns}
    for column in found.values():
        if column.kind is ColumnKind.STATIC:
            raise InvalidRequest(
                f"Cannot include static column '{column.name}' in materialized view '{view}'"
            )
        check_view_column(column.name)
    return found


def check_view_column(name: str) -> None:
    if name == WRITE_TIMES:
        raise InvalidRequest(f"Column name '{name}' is reserved in materialized views")


def _key_columns(
    key: syntax.PrimaryKey, base: Table, selected: Mapping[str, Column], view: str
) -> list[Column]:
    names = (*key.partition, *key.clustering)
    for index, name in enumerate(names):
        if name not in selected:
            raise InvalidRequest(
                f"Unknown column '{name}' referenced in PRIMARY KEY for materialized view '{view}'"
            )
        if name in names[:index]:
            raise InvalidRequest(
                f"Duplicate column '{name}' in PRIMARY KEY clause for materialized view '{view}'"
            )
        check_key_type(selected[name].type, name)
    missing = [c.name for c in (*base.partition_key, *base.clustering) if c.name not in names]
    if missing:
        raise InvalidRequest(
            f"Cannot create materialized view '{view}' without primary key columns {', '.join(missing)} "
            f"from base table '{base.name}'"
        )
    added = [name for name in names if not selected[name].is_key]
    if len(added) > 1:
        raise InvalidRequest(
            "Cannot include more than one non-primary key column in materialized view primary key "
            f"(got {', '.join(added)})"
        )
    return [selected[name] for name in names]


def _clustering_order(
    order: Sequence[syntax.ClusteringOrder], clustering: Sequence[str], base: Table, view: str
) -> dict[str, bool]:
    """Which clustering columns descend: as given for all of them, else as in the base."""
    given: dict[str, bool] = {}
    for part in order:
        if part.column in given:
            raise InvalidRequest(
                f"Duplicate column '{part.column}' in CLUSTERING ORDER BY clause for view '{view}'"
            )
        given[part.column] = part.descending
    if given and list(given) != list(clustering):
        raise InvalidRequest(
            "Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive"
        )
    return given or {name: base.by_name[name].descending for name in clustering}


def _view_columns(
    selected: Mapping[str, Column], key: syntax.PrimaryKey, descending: Mapping[str, bool]
) -> tuple[Column, ...]:
    columns = [
        Column(name, selected[name].type, ColumnKind.PARTITION_KEY, position)
        for position, name in enumerate(key.partition)
    ]
    columns += [
        Column(name, selected[name].type, ColumnKind.CLUSTERING, position, descending[name])
        for position, name in enumerate(key.clustering)
    ]
    others = [name for name in selected if name not in (*key.partition, *key.clustering)]
    columns += [
        Column(name, selected[name].type, ColumnKind.REGULAR, ordinal) for ordinal, name in enumerate(others)
    ]
    return (*columns, Column(WRITE_TIMES, BLOB, ColumnKind.REGULAR, len(others), hidden=True))
