"""Changes of views' states as transactions on the metadata store. Each says what it was decided on."""

import msgspec

from belvedere.meta import records, view_records
from belvedere.meta.metadata import Proposal
from belvedere.meta.state import ClusterState
from belvedere.meta.store import Assertion, Delete, Put, Unchanged, Update
from belvedere.model.schema import Table
from belvedere.views.coordinator import Batch


def completing(state: ClusterState, batch: Batch, rows: int) -> Proposal | None:
    """The tasks are done, as far as they are still those worked on. A view without tasks is built."""
    asserts: list[Assertion] = []
    updates: list[Update] = []
    for task in batch.tasks:
        key = view_records.task_key(task.view, task.tablet)
        entry = state.entries.get(key)
        known = view_records.status_of(state, task.view)
        if entry is None or entry.revision != task.revision or known is None:
            continue
        left = sum(1 for _ in view_records.open_tasks(state, task.view)) - 1
        after = msgspec.structs.replace(
            known, rows=known.rows + rows, state=view_records.BUILDING if left else view_records.BUILT
        )
        status_key = view_records.view_key(task.view)
        asserts += [Unchanged(key, entry.revision), view_records.as_seen(state, status_key)]
        updates += [Delete(key), Put(status_key, records.encode(after))]
    return (tuple(asserts), tuple(updates)) if updates else None


def emptied(state: ClusterState, view: bytes) -> Proposal | None:
    """A view holds nothing: its tasks may begin."""
    known = view_records.status_of(state, view)
    if known is None or not known.empty_first:
        return None
    key = view_records.view_key(view)
    after = msgspec.structs.replace(known, empty_first=False)
    return (view_records.as_seen(state, key),), (Put(key, records.encode(after)),)


def restarting(state: ClusterState, base: Table) -> Proposal | None:
    """All views of a table are to be emptied and built again."""
    keyspace = state.keyspaces.get(base.keyspace)
    tablet_map = state.tablet_maps.get(base.id)
    if keyspace is None or tablet_map is None:
        return None
    asserts: list[Assertion] = []
    updates: list[Update] = []
    for view in keyspace.views_of(base):
        more = view_records.beginning(state, view, tablet_map.tablets, empty_first=True)
        asserts += more[0]
        updates += more[1]
    return (tuple(asserts), tuple(updates)) if updates else None
