"""`system_views.status` and `system_views.table_status`: what `belvedere status` shows."""

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
