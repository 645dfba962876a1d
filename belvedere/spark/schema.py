"""A table's columns as its system tables tell them: without a snapshot, which only reading needs."""

from collections.abc import Sequence
from typing import Any

from belvedere.cql.errors import CQLSyntaxError
from belvedere.cql.expressions import TableName
from belvedere.cql.parser import parse_table_name
from belvedere.model.types import CQLType, UserType, parse_type, quote_text
from belvedere.spark.calls import SparkFaceError
from belvedere.spark.columns import quoted, spark_type
from belvedere.spark.options import SourceOptions

_ORDER = {"partition_key": 0, "clustering": 1, "static": 2, "regular": 3}


def table_name(options: SourceOptions) -> TableName:
    try:
        name = parse_table_name(options.table)
    except CQLSyntaxError as error:
        raise SparkFaceError(f"option table: {error}") from None
    if name.keyspace is None:
        raise SparkFaceError(f"option table is keyspace.table, not {options.table}")
    return name


def schema_of(options: SourceOptions) -> str:
    """The columns to read, in Spark's words."""
    columns = chosen(columns_of(options), options)
    return ", ".join(f"{quoted(column)} {spark_type(kind)}" for column, kind in columns)


def chosen(columns: Sequence[tuple[str, CQLType]], options: SourceOptions) -> list[tuple[str, CQLType]]:
    """Those that the options ask for, in the order of asking; all if they ask for none."""
    if not options.columns:
        return list(columns)
    known = dict(columns)
    missing = [name for name in options.columns if name not in known]
    if missing:
        raise SparkFaceError(f"{options.table} has no column {missing[0]}; it has {', '.join(known)}")
    return [(name, known[name]) for name in options.columns]


def columns_of(options: SourceOptions) -> list[tuple[str, CQLType]]:
    """Names and types in the order of `SELECT *`."""
    name = table_name(options)
    assert name.keyspace is not None
    keyspace = quote_text(name.keyspace)
    columns, types = options.address.queries(
        "SELECT column_name, kind, position, type FROM system_schema.columns "
        f"WHERE keyspace_name = {keyspace} AND table_name = {quote_text(name.name)}",
        "SELECT type_name, field_names, field_types FROM system_schema.types "
        f"WHERE keyspace_name = {keyspace}",
    )
    if not columns:
        raise SparkFaceError(f"there is no table {options.table}")
    user_types = _user_types(name.keyspace, types)
    columns.sort(key=lambda row: (_ORDER[row["kind"]], row["position"], row["column_name"]))
    return [(row["column_name"], parse_type(row["type"], user_types)) for row in columns]


def _user_types(keyspace: str, rows: Sequence[dict[str, Any]]) -> dict[str, UserType]:
    """Types may hold other types, in any order."""
    waiting = {row["type_name"]: row for row in rows}
    made: dict[str, UserType] = {}

    def resolve(name: str) -> UserType:
        if name not in made:
            row = waiting[name]
            pairs = zip(row["field_names"], row["field_types"], strict=True)
            made[name] = UserType(
                keyspace, name, [(field, parse_type(text, resolve)) for field, text in pairs]
            )
        return made[name]

    for name in waiting:
        resolve(name)
    return made
