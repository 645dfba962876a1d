"""TRUNCATE where nodes keep tablets for each other: the table's tablets are replaced by new, empty ones, and
so are those of its views, in one transaction. Pure.

No write of an old tablet can reach a new one: it has another id. And there is no moment at which the table is
empty and a view is not: all of them are what they are by the same revision. An empty table has empty views,
so these are built, whatever was left to do for them.

The transaction rests on each tablet, view and load that it was made from, and on the keyspace's own entry,
which every schema change rewrites: whatever comes in between, it is decided anew. Nothing of the schema
changes, so drivers need not agree on it again.
"""

from collections.abc import Sequence

from belvedere.cluster.placement import renewed
from belvedere.meta import load_records, records, view_records
from belvedere.meta.metadata import Proposal
from belvedere.meta.state import ClusterState
from belvedere.meta.store import Delete, Put, Update
from belvedere.meta.view_records import BUILT, ViewStatus, as_seen
from belvedere.model.schema import Table
from belvedere.query.errors import InvalidRequest
from belvedere.query.schema.edits import next_tablet_id, tablet_record
from belvedere.query.schema_view import KeyspacesView


def to_truncate(keyspaces: KeyspacesView, keyspace: str, name: str) -> Table:
    """Raises unless there is such a table, and it is no view."""
    table = keyspaces.table(keyspace, name)
    if table.view is not None:
        raise InvalidRequest("Cannot TRUNCATE materialized view directly; must truncate base table instead")
    return table


def truncating(state: ClusterState, keyspace: str, name: str) -> Proposal:
    base = to_truncate(KeyspacesView(state.keyspaces), keyspace, name)
    views = state.keyspaces[keyspace].views_of(base)
    tables = (base, *views)
    updates = _renewing(state, tables)
    for view in views:
        updates.append(Put(view_records.view_key(view.id), records.encode(ViewStatus(BUILT, 0))))
        updates += _deleting(state, view_records.tasks_of(view.id))
    updates += _deleting(state, view_records.staging_of(base.id))
    updates += _deleting(state, load_records.loads_of(base.id))
    definitions = [records.keyspace_key(keyspace), *(records.table_key(keyspace, one.name) for one in tables)]
    last_load = load_records.last_load_key(base.id)
    keys = [*definitions, last_load, *(update.key for update in updates)]
    return tuple(as_seen(state, key) for key in keys), tuple(updates)


def _renewing(state: ClusterState, tables: Sequence[Table]) -> list[Update]:
    updates: list[Update] = []
    number = next_tablet_id(state)
    for table in tables:
        for tablet in state.tablet_maps[table.id].tablets:
            record = tablet_record(tablet.first_token, tablet.last_token, renewed(state, tablet))
            updates.append(Delete(records.tablet_key(table.id, tablet.id)))
            updates.append(Put(records.tablet_key(table.id, number), records.encode(record)))
            number += 1
    updates.append(Put(records.TABLET_SEQUENCE, str(number).encode()))
    return updates


def _deleting(state: ClusterState, prefix: str) -> list[Update]:
    return [Delete(key) for key, _ in state.starting_with(prefix)]
