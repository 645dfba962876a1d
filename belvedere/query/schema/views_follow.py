"""What becomes of materialized views when their base table changes: they follow, or the change is refused."""

from dataclasses import replace

from belvedere.cql import syntax
from belvedere.model.schema import Column, ColumnKind, Keyspace, Table, column_names
from belvedere.model.types import UserType
from belvedere.query.errors import InvalidRequest
from belvedere.query.schema.column_types import uses_type
from belvedere.query.schema.views import check_view_column
from belvedere.query.schema.views_where import fields_named, renamed_where


def views_after(keyspace: Keyspace, before: Table, after: Table, action: syntax.TableAction) -> list[Table]:
    """The views that a change of their base changes, as they are after it."""
    views = keyspace.views_of(before)
    if not views:
        return []
    match action:
        case syntax.AddColumns():
            followed = [_with_new_columns(view, before, after) for view in views]
        case syntax.DropColumns():
            _check_drops(before, after)
            return []
        case syntax.RenameColumns():
            followed = [_with_new_names(view, before, after) for view in views]
        case _:
            return []
    return [now for was, now in zip(views, followed, strict=True) if now != was]


def _with_new_columns(view: Table, before: Table, after: Table) -> Table:
    added = [c for c in after.regulars if c.name not in before.by_name]
    if after.is_counter:
        raise InvalidRequest("Materialized views are not supported on counter tables")
    if view.view is None or not view.view.selects_all:
        return view
    for column in added:
        check_view_column(column.name)
    ordinal = view.regular_ordinals
    columns = [
        Column(column.name, column.type, ColumnKind.REGULAR, ordinal + index)
        for index, column in enumerate(added)
    ]
    return replace(view, columns=(*view.columns, *columns), regular_ordinals=ordinal + len(columns))


def _check_drops(before: Table, after: Table) -> None:
    """Any regular column may be all that keeps a row alive, also one that no view shows: dropping it would
    take rows from the base that the views still have."""
    for column in before.regulars:
        if column.name not in after.by_name:
            raise InvalidRequest(f"Cannot drop column {column.name} on base table with materialized views")


def _with_new_names(view: Table, before: Table, after: Table) -> Table:
    assert view.view is not None
    old, new = (column_names((*table.partition_key, *table.clustering)) for table in (before, after))
    names = {was: now for was, now in zip(old, new, strict=True) if was != now}
    for name in names.values():
        check_view_column(name)
    return replace(
        view,
        columns=tuple(
            column if column.hidden else replace(column, name=names.get(column.name, column.name))
            for column in view.columns
        ),
        view=replace(view.view, where=renamed_where(view.view.where, names)),
    )


# --- other changes -----------------------------------------------------------------------------------


def check_droppable(keyspace: Keyspace, table: Table) -> None:
    if table.view is not None:
        raise InvalidRequest(
            "Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW instead."
        )
    views = keyspace.views_of(table)
    if views:
        names = ",".join(sorted(view.name for view in views))
        raise InvalidRequest(f"Cannot drop a table when materialized views still depend on it ({names})")


def check_field_names(keyspace: Keyspace, user_type: UserType, renamed: frozenset[str]) -> None:
    """Filters name fields in literals."""
    for view in keyspace.tables.values():
        if view.view is None:
            continue
        base = keyspace.tables[view.view.base]
        if any(uses_type(column.type, user_type) for column in base.columns):
            named = sorted(fields_named(view.view.where) & renamed)
            if named:
                raise InvalidRequest(
                    f"Cannot rename field {named[0]} of type {user_type.type_name}: "
                    f"it is used in the WHERE clause of materialized view {view.name}"
                )
