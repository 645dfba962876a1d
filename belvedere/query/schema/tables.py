"""CREATE TABLE and DROP TABLE."""

from belvedere.cql import syntax
from belvedere.meta.state import ClusterState
from belvedere.model.schema import Column, ColumnKind, Keyspace, Table
from belvedere.model.types import CQLType
from belvedere.query.errors import AlreadyExists, InvalidRequest
from belvedere.query.schema.column_types import check_cell_type, check_key_type, resolve_in
from belvedere.query.schema.edits import DdlContext, Decision, KeyspaceEdit
from belvedere.query.schema.keyspaces import factor_warnings
from belvedere.query.schema.names import (
    check_modifiable,
    check_name,
    existing_keyspace,
    existing_table,
    keyspace_of,
)
from belvedere.query.schema.table_options import ignored_properties, new_options
from belvedere.query.schema.views_follow import check_droppable

STATICS_NEED_CLUSTERING = (
    "Static columns are only useful (and thus allowed) if the table has at least one clustering column"
)
NO_MASKS = "Dynamic data masking is not supported"


def create_table(statement: syntax.CreateTable, state: ClusterState, context: DdlContext) -> Decision | None:
    keyspace_name = keyspace_of(statement.keyspace, context.keyspace)
    check_modifiable(keyspace_name)
    name = statement.table.name
    keyspace = existing_keyspace(state, keyspace_name)
    if name in keyspace.tables:
        if keyspace.tables[name].view is not None:
            raise InvalidRequest(
                f"Cannot create table '{name}' - a materialized view with the same name already exists"
            )
        if statement.if_not_exists:
            return None
        raise AlreadyExists(keyspace_name, name)
    check_name("Table", name)
    table = _new_table(statement, keyspace, context.table_id)
    edit = KeyspaceEdit(state, keyspace_name)
    edit.put_table(table)
    edit.create_tablets(table, context)
    warnings = ignored_properties(statement.properties)
    if context.replicated:
        warnings += factor_warnings(keyspace_name, keyspace.replication, state)
    return edit.decide("CREATED", "TABLE", name, warnings)


def drop_table(statement: syntax.DropTable, state: ClusterState, context: DdlContext) -> Decision | None:
    keyspace = keyspace_of(statement.keyspace, context.keyspace)
    check_modifiable(keyspace)
    name = statement.table.name
    if state.table(keyspace, name) is None and statement.if_exists:
        return None
    table = existing_table(state, keyspace, name)
    check_droppable(existing_keyspace(state, keyspace), table)
    edit = KeyspaceEdit(state, keyspace)
    edit.drop_table(table)
    return edit.decide("DROPPED", "TABLE", name)


# --- the table that a statement describes ------------------------------------------------------------


def _new_table(statement: syntax.CreateTable, keyspace: Keyspace, table_id: bytes) -> Table:
    name = statement.table.name
    if statement.compact_storage:
        raise InvalidRequest("COMPACT STORAGE tables are not supported")
    definitions = _definitions(statement)
    key = _primary_key(statement)
    options = new_options(statement.properties)
    types = {column: resolve_in(keyspace, found.type) for column, found in definitions.items()}
    for column_type in types.values():
        check_cell_type(column_type)
    _check_key(key, definitions, types, name)
    descending = _clustering_order(statement.clustering_order, key.clustering, name)
    if not key.clustering and any(found.static for found in definitions.values()):
        raise InvalidRequest(STATICS_NEED_CLUSTERING)
    columns = _columns(definitions, types, key, descending)
    _check_counters(columns, options)
    kinds = [column.kind for column in columns]
    return Table(
        table_id,
        keyspace.name,
        name,
        columns,
        options,
        kinds.count(ColumnKind.REGULAR),
        kinds.count(ColumnKind.STATIC),
    )


def _definitions(statement: syntax.CreateTable) -> dict[str, syntax.ColumnDefinition]:
    found: dict[str, syntax.ColumnDefinition] = {}
    for column in statement.columns:
        if column.name in found:
            raise InvalidRequest(
                f"Duplicate column '{column.name}' declaration for table '{statement.table.name}'"
            )
        check_column(column)
        found[column.name] = column
    return found


def check_column(column: syntax.ColumnDefinition) -> None:
    if not column.name:
        raise InvalidRequest("Column name must not be empty")
    if column.mask is not None:
        raise InvalidRequest(NO_MASKS)


def _primary_key(statement: syntax.CreateTable) -> syntax.PrimaryKey:
    count = len(statement.primary_keys)
    if count != 1:
        problem = "No" if count == 0 else "Multiple"
        raise InvalidRequest(
            f"{problem} PRIMARY KEY specified for table '{statement.table.name}' (exactly one required)"
        )
    return statement.primary_keys[0]


def _check_key(
    key: syntax.PrimaryKey,
    definitions: dict[str, syntax.ColumnDefinition],
    types: dict[str, CQLType],
    table: str,
) -> None:
    seen: set[str] = set()
    for column in (*key.partition, *key.clustering):
        if column not in types:
            raise InvalidRequest(f"Unknown column '{column}' referenced in PRIMARY KEY for table '{table}'")
        if column in seen:
            raise InvalidRequest(f"Duplicate column '{column}' in PRIMARY KEY clause for table '{table}'")
        seen.add(column)
        check_key_type(types[column], column)
        if definitions[column].static:
            raise InvalidRequest(f"Static column '{column}' cannot be part of the PRIMARY KEY")


def _clustering_order(
    order: tuple[syntax.ClusteringOrder, ...], clustering: tuple[str, ...], table: str
) -> dict[str, bool]:
    """Which clustering columns descend. The clause must name columns in the key's order; it may end early."""
    given: dict[str, bool] = {}
    for part in order:
        if part.column in given:
            raise InvalidRequest(
                f"Duplicate column '{part.column}' in CLUSTERING ORDER BY clause for table '{table}'"
            )
        given[part.column] = part.descending
    strangers = [column for column in given if column not in clustering]
    if strangers:
        raise InvalidRequest(
            "Only clustering key columns can be defined in CLUSTERING ORDER directive: "
            f"[{', '.join(strangers)}] are not clustering columns"
        )
    for column, expected in zip(given, clustering, strict=False):
        if column != expected:
            raise InvalidRequest(
                "The order of columns in the CLUSTERING ORDER directive must match that of the clustering "
                f"columns ({expected} must appear before {column})"
                if expected in given
                else f"Missing CLUSTERING ORDER for column {expected}"
            )
    return given


def _columns(
    definitions: dict[str, syntax.ColumnDefinition],
    types: dict[str, CQLType],
    key: syntax.PrimaryKey,
    descending: dict[str, bool],
) -> tuple[Column, ...]:
    columns = []
    ordinals = {ColumnKind.STATIC: 0, ColumnKind.REGULAR: 0}
    for name, definition in definitions.items():
        if name in key.partition:
            kind, position = ColumnKind.PARTITION_KEY, key.partition.index(name)
        elif name in key.clustering:
            kind, position = ColumnKind.CLUSTERING, key.clustering.index(name)
        else:
            kind = ColumnKind.STATIC if definition.static else ColumnKind.REGULAR
            position = ordinals[kind]
            ordinals[kind] += 1
        columns.append(Column(name, types[name], kind, position, descending.get(name, False)))
    return tuple(columns)


def _check_counters(columns: tuple[Column, ...], options: dict[str, object]) -> None:
    values = [column.type.name == "counter" for column in columns if not column.is_key]
    if not any(values):
        return
    if not all(values):
        raise InvalidRequest("Cannot mix counter and non counter columns in the same table")
    check_counter_options(options)


def check_counter_options(options: dict[str, object]) -> None:
    if options["default_time_to_live"]:
        raise InvalidRequest("Cannot set default_time_to_live on a table with counters")
