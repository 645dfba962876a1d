"""Changes of views' states as transactions on the metadata store. Each says what it was decided on."""

import msgspec

from belvedere.meta import records, view_records
from belvedere.meta.metadata import Proposal
from belvedere.meta.state import ClusterState
from belvedere.meta.store import Assertion, Delete, Put, Unchanged, Update
from belvedere.model.schema import Table
from belvedere.views.coordinator import Amount, DoneTasks, Task


def completing(state: ClusterState, base: bytes, done: DoneTasks) -> Proposal | None:
    """The tasks are done, as far as they are still those worked on. A view for which nothing is left to do is
    built."""
    gone: list[str] = []
    read: dict[bytes, Amount] = {}
    for task, amount in done:
        key = _key_of(base, task)
        entry = state.entries.get(key)
        if entry is not None and entry.revision == task.revision:
            gone.append(key)
            read[task.view] = read.get(task.view, Amount()).plus(amount)
    asserts: list[Assertion] = [Unchanged(key, state.entries[key].revision) for key in gone]
    updates: list[Update] = [Delete(key) for key in gone]
    for view in view_records.views_being_built(state, base):
        known = view_records.status_of(state, view)
        assert known is not None
        left = [key for key in view_records.keys_of_work(state, base, view) if key not in gone]
        more = read.get(view, Amount())
        after = msgspec.structs.replace(
            known,
            rows=known.rows + more.rows,
            bytes=known.bytes + more.bytes,
            state=view_records.BUILDING if left else view_records.BUILT,
        )
        # Written even if nothing in it changes: of two that each delete other tasks, the later must see the
        # earlier, or neither would take itself for the last.
        if gone:
            status_key = view_records.view_key(view)
            asserts.append(view_records.as_seen(state, status_key))
            updates.append(Put(status_key, records.encode(after)))
    return (tuple(asserts), tuple(updates)) if updates else None


def _key_of(base: bytes, task: Task) -> str:
    if task.load:
        return view_records.staging_key(base, task.tablet, task.load)
    return view_records.task_key(task.view, task.tablet)


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
    for key, _ in state.starting_with(view_records.staging_of(base.id)):
        asserts.append(view_records.as_seen(state, key))  # What was loaded goes, too.
        updates.append(Delete(key))
    for view in keyspace.views_of(base):
        more = view_records.beginning(state, view, tablet_map.tablets, empty_first=True)
        asserts += more[0]
        updates += more[1]
    return (tuple(asserts), tuple(updates)) if updates else None
