"""The schema as CQL text, in Cassandra's layout: executing the text makes an equal schema."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from belvedere.cql.text import quote_identifier, quote_string
from belvedere.model.schema import Column, Keyspace, Table
from belvedere.model.types import UserType
from belvedere.query.schema.column_types import uses_type
from belvedere.query.schema.names import is_system
from belvedere.query.schema.table_options import DEFAULTS
from belvedere.query.schema.table_options_views import VIEW_READERS

_LOCATOR = "org.apache.cassandra.locator."


def keyspace_text(keyspace: Keyspace) -> str:
    name = quote_identifier(keyspace.name)
    if is_system(keyspace.name):
        return _not_to_recreate("Keyspace", name, f"VIRTUAL KEYSPACE {name};")
    replication = dict(keyspace.replication)
    replication["class"] = replication["class"].removeprefix(_LOCATOR)
    return (
        f"CREATE KEYSPACE {name} WITH replication = {_map(replication)}  "
        f"AND durable_writes = {_value(keyspace.durable_writes)};"
    )


def type_text(user_type: UserType) -> str:
    fields = ",\n".join(f"    {quote_identifier(name)} {field.name}" for name, field in user_type.fields)
    return f"CREATE TYPE {_qualified(user_type.keyspace, user_type.type_name)} (\n{fields}\n);"


def types_in_order(types: Iterable[UserType]) -> list[UserType]:
    """By name, but a type after those that it is made of."""
    waiting = sorted(types, key=lambda user_type: user_type.type_name)
    ordered: list[UserType] = []
    while waiting:
        ready = next(
            one
            for one in waiting
            if not any(
                uses_type(field, other) for other in waiting if other is not one for field in one.types
            )
        )
        waiting.remove(ready)
        ordered.append(ready)
    return ordered


def table_text(table: Table, internals: bool = False) -> str:
    """With `internals`, the text also leads through the drops of columns that the table has seen."""
    name = _qualified(table.keyspace, table.name)
    if is_system(table.keyspace):
        comment = quote_string(str(table.options.get("comment", "")))
        body = f"VIRTUAL TABLE {name} {_columns(table, ())} WITH comment = {comment};"
        return _not_to_recreate("Table", name, body)
    dropped = table.dropped if internals else ()
    text = f"CREATE TABLE {name} {_columns(table, dropped)} WITH {_properties(table, internals)};"
    return "\n".join([text, *_drops(table, name, dropped)])


def view_text(view: Table, base: Table | None, internals: bool = False) -> str:
    assert view.view is not None
    # A base may have got static columns since: `SELECT *` would not be accepted again.
    everything = view.view.selects_all and (base is None or not base.statics)
    selected = "*" if everything else ", ".join(quote_identifier(c.name) for c in view.select_order)
    return (
        f"CREATE MATERIALIZED VIEW {_qualified(view.keyspace, view.name)} AS\n"
        f"    SELECT {selected}\n"
        f"    FROM {_qualified(view.keyspace, view.view.base)}\n"
        f"    WHERE {view.view.where}\n"
        f"    {_primary_key(view)}\n"
        f" WITH {_properties(view, internals)};"
    )


# --- parts -------------------------------------------------------------------------------------------

Dropped = tuple[tuple[str, str, str, int], ...]


def _columns(table: Table, dropped: Dropped) -> str:
    single_key = len(table.partition_key) == 1 and not table.clustering
    gone = {name for name, _, _, _ in dropped}
    lines = []
    for column in table.select_order:
        if column.name not in gone:
            suffix = " PRIMARY KEY" if single_key and column.is_key else ""
            lines.append(_column(column) + suffix)
    lines.extend(
        f"{quote_identifier(name)} {type_name}{_static(kind)}" for name, type_name, kind, _ in dropped
    )
    if not single_key:
        lines.append(_primary_key(table))
    return "(\n" + ",\n".join(f"    {line}" for line in lines) + "\n)"


def _column(column: Column) -> str:
    return f"{quote_identifier(column.name)} {column.type.name}{_static(column.kind.value)}"


def _static(kind: str) -> str:
    return " static" if kind == "static" else ""


def _primary_key(table: Table) -> str:
    partition = ", ".join(quote_identifier(column.name) for column in table.partition_key)
    if len(table.partition_key) > 1:
        partition = f"({partition})"
    return f"PRIMARY KEY ({', '.join([partition, *(quote_identifier(c.name) for c in table.clustering)])})"


def _properties(table: Table, internals: bool) -> str:
    options = [f"{option} = {_value(value)}" for option, value in _options(table)]
    if table.clustering:
        order = ", ".join(
            f"{quote_identifier(c.name)} {'DESC' if c.descending else 'ASC'}" for c in table.clustering
        )
        options.insert(0, f"CLUSTERING ORDER BY ({order})")
    if internals:
        options.insert(0, f"ID = {UUID(bytes=table.id)}")
    return "\n    AND ".join(options)


def _drops(table: Table, name: str, dropped: Dropped) -> Iterable[str]:
    for column_name, _, _, dropped_at in dropped:
        quoted = quote_identifier(column_name)
        yield f"ALTER TABLE {name} DROP {quoted} USING TIMESTAMP {dropped_at};"
        again = table.by_name.get(column_name)
        if again is not None:
            yield f"ALTER TABLE {name} ADD {_column(again)};"


def _options(table: Table) -> Iterable[tuple[str, object]]:
    for name, default in DEFAULTS.items():
        # A view's rows expire with the base's.
        if table.view is None or name != "default_time_to_live":
            yield name, table.options.get(name, default)
    for name in ("tablets", *VIEW_READERS):
        if name in table.options:
            yield name, table.options[name]


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case Mapping():
            return _map(value)
    return quote_string(str(value))


def _map(entries: Mapping[str, object]) -> str:
    pairs = (f"{quote_string(key)}: {quote_string(str(value))}" for key, value in entries.items())
    return "{" + ", ".join(pairs) + "}"


def _qualified(keyspace: str, name: str) -> str:
    return f"{quote_identifier(keyspace)}.{quote_identifier(name)}"


def _not_to_recreate(what: str, name: str, structure: str) -> str:
    return (
        f"/*\nWarning: {what} {name} is a virtual {what.lower()} and cannot be recreated with CQL.\n"
        f"Structure, for reference:\n{structure}\n*/"
    )
