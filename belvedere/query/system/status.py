"""`system_views.status`, `table_status`, `view_builds` and `procedures`: what a node says of itself."""

from collections.abc import Callable, Iterable

from belvedere.query.system.define import define
from belvedere.query.system.virtual import VirtualRow, VirtualTable


def status(facts: Callable[[], Iterable[tuple[str, str]]]) -> VirtualTable:
    """One row per fact about this node; `position` keeps them in the order in which they are to be read."""
    return define(
        "system_views.status",
        "node text",
        "position int",
        "name text; value text",
        lambda: (
            {"node": "local", "position": position, "name": name, "value": value}
            for position, (name, value) in enumerate(facts())
        ),
        "what this node says of itself",
    )


def table_status(rows: Callable[[], Iterable[VirtualRow]]) -> VirtualTable:
    return define(
        "system_views.table_status",
        "keyspace_name text",
        "table_name text",
        """file_bytes bigint; file_rows bigint; files int; memtable_bytes bigint; tablets int""",
        rows,
        "tablets, files and memory of every table",
    )


def view_builds(rows: Callable[[], Iterable[VirtualRow]]) -> VirtualTable:
    return define(
        "system_views.view_builds",
        "keyspace_name text",
        "view_name text",
        """base_table_name text; bytes_read bigint; bytes_total bigint; failed_attempts int;
        last_failure text; loads_pending int; ranges int; ranges_done int; rows_per_second double;
        rows_read bigint; rows_total bigint; runs_on text; seconds_left double; state text""",
        rows,
        "how far every materialized view is built",
    )


def built_views(rows: Callable[[], Iterable[VirtualRow]]) -> VirtualTable:
    """As Cassandra has it: only the views that are built."""
    return define(
        "system.built_views",
        "keyspace_name text",
        "view_name text",
        "status_replicated boolean",
        lambda: (
            {
                "keyspace_name": row["keyspace_name"],
                "view_name": row["view_name"],
                "status_replicated": True,
            }
            for row in rows()
            if row["state"] == "BUILT"
        ),
        "built views",
    )


def procedures(rows: Callable[[], Iterable[VirtualRow]]) -> VirtualTable:
    return define(
        "system_views.procedures",
        "name text",
        "",
        "comment text; parameters frozen<list<text>>; returns frozen<list<text>>",
        rows,
        "what can be called with CALL",
    )
