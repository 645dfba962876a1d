"""The keyspaces `system_schema` and `system_virtual_schema`: the schema as tables, as drivers read it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from belvedere.model.schema import Column, ColumnKind, Keyspace, Table
from belvedere.query.schema.table_options import DEFAULTS
from belvedere.query.system.define import define, system_keyspace
from belvedere.query.system.virtual import VirtualRow, VirtualTable

#: The keyspaces to describe, as they are now.
Keyspaces = Callable[[], Iterable[Keyspace]]

#: What tables have unless their options say otherwise, and what drivers of older days look for.
DEFAULT_OPTIONS: Mapping[str, object] = MappingProxyType(
    {**DEFAULTS, "dclocal_read_repair_chance": 0.0, "read_repair_chance": 0.0}
)
_OPTION_COLUMNS = """
    additional_write_policy text; allow_auto_snapshot boolean; bloom_filter_fp_chance double;
    caching frozen<map<text, text>>; cdc boolean; comment text; compaction frozen<map<text, text>>;
    compression frozen<map<text, text>>; crc_check_chance double; dclocal_read_repair_chance double;
    default_time_to_live int; extensions frozen<map<text, blob>>; gc_grace_seconds int;
    incremental_backups boolean; max_index_interval int; memtable text; memtable_flush_period_in_ms int;
    min_index_interval int; read_repair text; read_repair_chance double; speculative_retry text"""
_COLUMN_COLUMNS = "clustering_order text; column_name_bytes blob; kind text; position int; type text"


def system_schema(keyspaces: Keyspaces) -> Keyspace:
    return system_keyspace(
        "system_schema",
        [
            _keyspaces_table(keyspaces),
            _tables_table(keyspaces),
            _columns_table("system_schema.columns", keyspaces),
            _dropped_columns_table(keyspaces),
            _types_table(keyspaces),
            _views_table(keyspaces),
            *_always_empty(),
        ],
    )


def system_virtual_schema(keyspaces: Keyspaces) -> Keyspace:
    def keyspace_rows() -> Iterable[VirtualRow]:
        return ({"keyspace_name": keyspace.name} for keyspace in keyspaces())

    def table_rows() -> Iterable[VirtualRow]:
        for table in _tables(keyspaces):
            yield {
                "keyspace_name": table.keyspace,
                "table_name": table.name,
                "comment": table.options.get("comment", ""),
            }

    return system_keyspace(
        "system_virtual_schema",
        [
            define("system_virtual_schema.keyspaces", "keyspace_name text", "", "", keyspace_rows),
            define(
                "system_virtual_schema.tables",
                "keyspace_name text",
                "table_name text",
                "comment text",
                table_rows,
            ),
            _columns_table("system_virtual_schema.columns", keyspaces),
        ],
    )


def table_options(table: Table) -> dict[str, Any]:
    """Every option that system_schema shows, with the table's own values where it has any."""
    options: dict[str, Any] = {}
    for name, default in DEFAULT_OPTIONS.items():
        value: Any = table.options.get(name, default)
        match default:
            case bool():
                options[name] = value if isinstance(value, bool) else str(value).lower() == "true"
            case int():
                options[name] = int(value)
            case float():
                options[name] = float(value)
            case dict():
                # Extensions are bytes of other makers' tools; ours have none.
                texts = {key: str(item) for key, item in value.items()}
                options[name] = {} if name == "extensions" else texts
            case _:
                options[name] = str(value)
    return options


def replication_text(replication: Mapping[str, str]) -> dict[str, str]:
    """A keyspace's replication with the full name of its strategy's class."""
    options = {key: str(value) for key, value in replication.items()}
    strategy = options.get("class", "SimpleStrategy")
    options["class"] = strategy if "." in strategy else f"org.apache.cassandra.locator.{strategy}"
    return options


def _tables(keyspaces: Keyspaces) -> Iterator[Table]:
    for keyspace in keyspaces():
        yield from keyspace.tables.values()


def _keyspaces_table(keyspaces: Keyspaces) -> VirtualTable:
    def rows() -> Iterable[VirtualRow]:
        for keyspace in keyspaces():
            yield {
                "keyspace_name": keyspace.name,
                "durable_writes": keyspace.durable_writes,
                "replication": replication_text(keyspace.replication),
            }

    return define(
        "system_schema.keyspaces",
        "keyspace_name text",
        "",
        "durable_writes boolean; replication frozen<map<text, text>>",
        rows,
        "keyspace definitions",
    )


def _tables_table(keyspaces: Keyspaces) -> VirtualTable:
    def rows() -> Iterable[VirtualRow]:
        for table in _tables(keyspaces):
            if table.view is not None:
                continue
            yield {
                "keyspace_name": table.keyspace,
                "table_name": table.name,
                "id": table.id,
                "flags": {"compound", "counter"} if table.is_counter else {"compound"},
                **table_options(table),
            }

    return define(
        "system_schema.tables",
        "keyspace_name text",
        "table_name text",
        f"id uuid; flags frozen<set<text>>; {_OPTION_COLUMNS}",
        rows,
        "table definitions",
    )


def _columns_table(full_name: str, keyspaces: Keyspaces) -> VirtualTable:
    def rows() -> Iterable[VirtualRow]:
        for table in _tables(keyspaces):
            for column in table.columns:
                if not column.hidden:
                    yield _column_row(table, column)

    return define(
        full_name,
        "keyspace_name text",
        "table_name text; column_name text",
        _COLUMN_COLUMNS,
        rows,
        "column definitions",
    )


def _column_row(table: Table, column: Column) -> VirtualRow:
    order = "none"
    if column.kind is ColumnKind.CLUSTERING:
        order = "desc" if column.descending else "asc"
    return {
        "keyspace_name": table.keyspace,
        "table_name": table.name,
        "column_name": column.name,
        "clustering_order": order,
        "column_name_bytes": column.name.encode(),
        "kind": column.kind.value,
        "position": column.position if column.is_key else -1,
        "type": column.type.name,
    }


def _dropped_columns_table(keyspaces: Keyspaces) -> VirtualTable:
    def rows() -> Iterable[VirtualRow]:
        for table in _tables(keyspaces):
            for name, type_text, kind, dropped_micros in table.dropped:
                yield {
                    "keyspace_name": table.keyspace,
                    "table_name": table.name,
                    "column_name": name,
                    "dropped_time": (dropped_micros // 1000).to_bytes(8, "big", signed=True),
                    "kind": kind,
                    "type": type_text,
                }

    return define(
        "system_schema.dropped_columns",
        "keyspace_name text",
        "table_name text; column_name text",
        "dropped_time timestamp; kind text; type text",
        rows,
        "dropped column registry",
    )


def _types_table(keyspaces: Keyspaces) -> VirtualTable:
    def rows() -> Iterable[VirtualRow]:
        for keyspace in keyspaces():
            for name, user_type in keyspace.types.items():
                yield {
                    "keyspace_name": keyspace.name,
                    "type_name": name,
                    "field_names": [field for field, _ in user_type.fields],
                    "field_types": [type_.name for _, type_ in user_type.fields],
                }

    return define(
        "system_schema.types",
        "keyspace_name text",
        "type_name text",
        "field_names frozen<list<text>>; field_types frozen<list<text>>",
        rows,
        "user defined type definitions",
    )


def _views_table(keyspaces: Keyspaces) -> VirtualTable:
    def rows() -> Iterable[VirtualRow]:
        for table in _tables(keyspaces):
            if table.view is not None:
                yield {
                    "keyspace_name": table.keyspace,
                    "view_name": table.name,
                    "base_table_id": table.view.base_id,
                    "base_table_name": table.view.base,
                    "id": table.id,
                    "include_all_columns": table.view.selects_all,
                    "where_clause": table.view.where,
                    **table_options(table),
                }

    return define(
        "system_schema.views",
        "keyspace_name text",
        "view_name text",
        f"""base_table_id uuid; base_table_name text; id uuid; include_all_columns boolean;
        where_clause text; {_OPTION_COLUMNS}""",
        rows,
        "view definitions",
    )


def _no_rows() -> Iterable[VirtualRow]:
    return ()


def _always_empty() -> list[VirtualTable]:
    """What the schema cannot hold; drivers ask for it all the same."""
    return [
        define(
            "system_schema.functions",
            "keyspace_name text",
            "function_name text; argument_types frozen<list<text>>",
            """argument_names frozen<list<text>>; body text; called_on_null_input boolean; language text;
            return_type text""",
            _no_rows,
        ),
        define(
            "system_schema.aggregates",
            "keyspace_name text",
            "aggregate_name text; argument_types frozen<list<text>>",
            "final_func text; initcond text; return_type text; state_func text; state_type text",
            _no_rows,
        ),
        define(
            "system_schema.indexes",
            "keyspace_name text",
            "table_name text; index_name text",
            "kind text; options frozen<map<text, text>>",
            _no_rows,
        ),
        define(
            "system_schema.triggers",
            "keyspace_name text",
            "table_name text; trigger_name text",
            "options frozen<map<text, text>>",
            _no_rows,
        ),
    ]
