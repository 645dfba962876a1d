"""ALTER TABLE in all its forms."""

from dataclasses import replace

from belvedere.cql import syntax
from belvedere.meta.state import ClusterState
from belvedere.model.schema import Column, ColumnKind, Keyspace, Table
from belvedere.model.types import CQLType
from belvedere.query.errors import InvalidRequest
from belvedere.query.schema.column_types import check_cell_type, resolve_in, without_user_types
from belvedere.query.schema.edits import DdlContext, Decision, KeyspaceEdit
from belvedere.query.schema.names import check_modifiable, existing_keyspace, existing_table, keyspace_of
from belvedere.query.schema.table_options import altered_options, ignored_properties
from belvedere.query.schema.tables import (
    NO_MASKS,
    STATICS_NEED_CLUSTERING,
    check_column,
    check_counter_options,
)
from belvedere.query.schema.views_follow import views_after


def alter_table(statement: syntax.AlterTable, state: ClusterState, context: DdlContext) -> Decision | None:
    keyspace_name = keyspace_of(statement.keyspace, context.keyspace)
    check_modifiable(keyspace_name)
    name = statement.table.name
    if state.table(keyspace_name, name) is None and statement.if_exists:
        return None
    before = existing_table(state, keyspace_name, name)
    if before.view is not None:
        raise InvalidRequest(
            "Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead"
        )
    keyspace = existing_keyspace(state, keyspace_name)
    after = _altered(before, statement.action, keyspace, context)
    if after == before:
        return None
    edit = KeyspaceEdit(state, keyspace_name)
    edit.put_table(after)
    for view in views_after(keyspace, before, after, statement.action):
        edit.put_table(view)
    properties = statement.action.properties if isinstance(statement.action, syntax.SetOptions) else ()
    return edit.decide("UPDATED", "TABLE", name, ignored_properties(properties))


def _altered(table: Table, action: syntax.TableAction, keyspace: Keyspace, context: DdlContext) -> Table:
    match action:
        case syntax.AddColumns(columns, if_not_exists):
            for column in columns:
                table = _with_column(table, column, if_not_exists, keyspace)
            return table
        case syntax.DropColumns(names, timestamp, if_exists):
            dropped_at = context.now if timestamp is None else timestamp
            for name in names:
                table = _without_column(table, name, if_exists, dropped_at)
            return table
        case syntax.RenameColumns(renames, if_exists):
            for old, new in renames:
                table = _renamed(table, old, new, if_exists)
            return table
        case syntax.SetOptions(properties):
            options = altered_options(table.options, properties)
            if table.is_counter:
                check_counter_options(options)
            return replace(table, options=options)
        case syntax.AlterColumnType():
            raise InvalidRequest("Altering column types is no longer supported")
        case syntax.AlterColumnMask():
            raise InvalidRequest(NO_MASKS)
        case syntax.DropCompactStorage():
            raise InvalidRequest("Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE")


def _with_column(
    table: Table, definition: syntax.ColumnDefinition, if_not_exists: bool, keyspace: Keyspace
) -> Table:
    check_column(definition)
    name = definition.name
    column_type = resolve_in(keyspace, definition.type)
    if name in table.by_name:
        if if_not_exists:
            return table
        raise InvalidRequest(f"Column with name '{name}' already exists")
    check_cell_type(column_type)
    if definition.static and not table.clustering:
        raise InvalidRequest(STATICS_NEED_CLUSTERING)
    _check_counter(table, name, column_type)
    kind = ColumnKind.STATIC if definition.static else ColumnKind.REGULAR
    _check_earlier(table, name, column_type, kind)
    if kind is ColumnKind.STATIC:
        column = Column(name, column_type, kind, table.static_ordinals)
        return replace(table, columns=(*table.columns, column), static_ordinals=table.static_ordinals + 1)
    column = Column(name, column_type, kind, table.regular_ordinals)
    return replace(table, columns=(*table.columns, column), regular_ordinals=table.regular_ordinals + 1)


def _check_counter(table: Table, name: str, column_type: CQLType) -> None:
    """A table without any value column may still become either kind."""
    is_counter = column_type.name == "counter"
    if is_counter == table.is_counter or not (table.regulars or table.statics):
        return
    if is_counter:
        raise InvalidRequest(f'Cannot have a counter column ("{name}") in a non counter table')
    raise InvalidRequest(f'Cannot have a non counter column ("{name}") in a counter table')


def _check_earlier(table: Table, name: str, column_type: CQLType, kind: ColumnKind) -> None:
    """A column of this name may have been dropped before: same type and kind, or old files would confuse
    everyone who reads them by column name."""
    for dropped_name, type_text, kind_text, _ in table.dropped:
        if dropped_name != name:
            continue
        if type_text != without_user_types(column_type).name:
            raise InvalidRequest(
                f"Cannot re-add previously dropped column '{name}' of type {column_type.name}, "
                f"incompatible with previous type {type_text}"
            )
        if kind_text != kind.value:
            raise InvalidRequest(
                f"Cannot re-add previously dropped column '{name}' of kind {kind.name}, "
                f"incompatible with previous kind {kind_text.upper()}"
            )
        if column_type.name == "counter":
            raise InvalidRequest(f"Cannot re-add previously dropped counter column {name}")


def _without_column(table: Table, name: str, if_exists: bool, dropped_at: int) -> Table:
    column = table.by_name.get(name)
    if column is None:
        if if_exists:
            return table
        raise _not_found(table, name)
    if column.is_key:
        raise InvalidRequest(f"Cannot drop PRIMARY KEY column {name}")
    return replace(
        table,
        columns=tuple(other for other in table.columns if other is not column),
        dropped=(
            *(entry for entry in table.dropped if entry[0] != name),
            (name, without_user_types(column.type).name, column.kind.value, dropped_at),
        ),
    )


def _renamed(table: Table, old: str, new: str, if_exists: bool) -> Table:
    column = table.by_name.get(old)
    if column is None:
        if if_exists:
            return table
        raise _not_found(table, old)
    if not column.is_key:
        raise InvalidRequest(f"Cannot rename non PRIMARY KEY column {old}")
    if new in table.by_name:
        raise InvalidRequest(
            f"Cannot rename column {old} to {new} in table '{table.full_name}'; "
            "another column with that name already exists"
        )
    return replace(
        table,
        columns=tuple(replace(other, name=new) if other is column else other for other in table.columns),
    )


def _not_found(table: Table, name: str) -> InvalidRequest:
    return InvalidRequest(f"Column {name} was not found in table '{table.full_name}'")
