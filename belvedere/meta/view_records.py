"""What the metadata store says of materialized views: how far each is, and what is left to do for it.

    views/<view id>                           ViewStatus: its state
    tasks/<view id>/<tablet id>               BuildTask: a range of the base that is not yet in the view
    staging/<base id>/<tablet id>/<load id>   BuildTask: loaded files that the base's views do not show yet

Status and tasks come with the view and go with it, in the transactions that make and drop it; staging comes
with the transaction that makes a load part of its table. A view is built when no task of it and no staging of
its base is left; the transaction that deletes the last one says so.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from belvedere.meta import records
from belvedere.meta.state import ClusterState, Tablet
from belvedere.meta.store import Absent, Assertion, Delete, Entry, Put, Unchanged, Update
from belvedere.model.schema import Table

BUILDING = "BUILDING"
BUILT = "BUILT"

VIEWS = "views/"
TASKS = "tasks/"
STAGING = "staging/"


class ViewStatus(msgspec.Struct, frozen=True):
    state: str
    #: Ranges that the build began with, and what was read of the base in those that are done.
    ranges: int
    rows: int = 0
    bytes: int = 0
    #: What the view holds is of no use: it must be emptied before its tasks are begun.
    empty_first: bool = False


class BuildTask(msgspec.Struct, frozen=True):
    """Tokens as text, as in TabletRecord."""

    kind: str
    base: str
    first_token: str
    last_token: str


def view_key(view: bytes) -> str:
    return f"{VIEWS}{view.hex()}"


def tasks_of(view: bytes) -> str:
    return f"{TASKS}{view.hex()}/"


def task_key(view: bytes, tablet: int) -> str:
    return f"{tasks_of(view)}{tablet:010d}"


def staging_of(base: bytes) -> str:
    return f"{STAGING}{base.hex()}/"


def staging_key(base: bytes, tablet: int, load: str) -> str:
    return f"{staging_of(base)}{tablet:010d}/{load}"


def beginning(
    state: ClusterState, view: Table, tablets: Sequence[Tablet], *, empty_first: bool
) -> tuple[list[Assertion], list[Update]]:
    """Begin to build a view, whatever was done before: the part of a transaction that says so."""
    assert view.view is not None
    updates: list[Update] = [
        Put(view_key(view.id), records.encode(ViewStatus(BUILDING, len(tablets), empty_first=empty_first)))
    ]
    for tablet in tablets:
        task = BuildTask(
            "build_range", view.view.base_id.hex(), str(tablet.first_token), str(tablet.last_token)
        )
        updates.append(Put(task_key(view.id, tablet.id), records.encode(task)))
    return [as_seen(state, update.key) for update in updates], updates


def forgetting(state: ClusterState, table: bytes) -> tuple[list[Assertion], list[Update]]:
    """The part of a transaction that drops a view, or a table."""
    keys = [view_key(table), *(key for key, _ in state.starting_with(tasks_of(table)))]
    keys += [key for key, _ in state.starting_with(staging_of(table))]
    known = [key for key in keys if key in state.entries]
    return [as_seen(state, key) for key in known], [Delete(key) for key in known]


def as_seen(state: ClusterState, key: str) -> Assertion:
    entry = state.entries.get(key)
    return Absent(key) if entry is None else Unchanged(key, entry.revision)


def status_of(state: ClusterState, view: bytes) -> ViewStatus | None:
    entry = state.entries.get(view_key(view))
    return None if entry is None else _status(entry.value)


@lru_cache(maxsize=1000)
def _status(value: bytes) -> ViewStatus:
    return msgspec.json.decode(value, type=ViewStatus)


def open_tasks(state: ClusterState, view: bytes) -> Iterator[tuple[int, Entry]]:
    """(tablet, entry) of what is left to do for a view."""
    prefix = tasks_of(view)
    return ((int(key[len(prefix) :]), entry) for key, entry in state.starting_with(prefix))


def open_staging(state: ClusterState, base: bytes) -> Iterator[tuple[int, str, Entry]]:
    """(tablet, load, entry) of loads that the base's views do not show yet."""
    prefix = staging_of(base)
    for key, entry in state.starting_with(prefix):
        tablet, _, load = key[len(prefix) :].partition("/")
        yield int(tablet), load, entry


def bases_with_staging(state: ClusterState) -> list[bytes]:
    """In a fixed order."""
    found = (key[len(STAGING) :].partition("/")[0] for key, _ in state.starting_with(STAGING))
    return [bytes.fromhex(base) for base in dict.fromkeys(found)]


def keys_of_work(state: ClusterState, base: bytes, view: bytes) -> Iterator[str]:
    """What must be done before a view is built."""
    yield from (key for key, _ in state.starting_with(tasks_of(view)))
    yield from (key for key, _ in state.starting_with(staging_of(base)))


def views_being_built(state: ClusterState, base: bytes) -> list[bytes]:
    found = state.tables_by_id.get(base)
    keyspace = None if found is None else state.keyspaces.get(found.keyspace)
    if found is None or keyspace is None:
        return []
    known = ((view.id, status_of(state, view.id)) for view in keyspace.views_of(found))
    return [view for view, status in known if status is not None and status.state == BUILDING]
