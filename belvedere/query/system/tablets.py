"""`system_views.tablets`: the token ranges of every table, and which nodes keep them."""

from collections.abc import Callable, Iterable

from belvedere.meta.state import ClusterState
from belvedere.query.system.define import define
from belvedere.query.system.virtual import VirtualRow, VirtualTable


def tablets(state: Callable[[], ClusterState]) -> VirtualTable:
    return define(
        "system_views.tablets",
        "keyspace_name text; table_name text",
        "first_token bigint",
        """epoch bigint; in_sync frozen<list<text>>; last_token bigint; primary_node text;
        replicas frozen<list<text>>; tablet_id bigint""",
        lambda: rows(state()),
        "token ranges of every table, and where they live",
    )


def rows(state: ClusterState) -> Iterable[VirtualRow]:
    for table_id, tablet_map in state.tablet_maps.items():
        table = state.tables_by_id.get(table_id)
        if table is None:
            continue
        for tablet in tablet_map.tablets:
            yield {
                "keyspace_name": table.keyspace,
                "table_name": table.name,
                "first_token": tablet.first_token,
                "last_token": tablet.last_token,
                "tablet_id": tablet.id,
                "epoch": tablet.epoch,
                "primary_node": tablet.primary,
                "in_sync": list(tablet.in_sync),
                "replicas": list(tablet.replicas),
            }
