"""What the metadata store says of materialized views: how far each is, and what is left to do for it.

    views/<view id>               ViewRecord: its state
    tasks/<view id>/<tablet id>   BuildTask: a range of the base that is not yet in the view

They come with the view and go with it, in the transactions that make and drop it. A view is built when no
task of it is left; the transaction that deletes the last task says so.
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


class ViewStatus(msgspec.Struct, frozen=True):
    state: str
    #: Ranges that the build began with, and rows of the base read in those that are done.
    ranges: int
    rows: int = 0
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


def beginning(
    state: ClusterState, view: Table, tablets: Sequence[Tablet], *, empty_first: bool
) -> tuple[list[Assertion], list[Update]]:
    """Begin to build a view, whatever was done before: the part of a transaction that says so."""
    assert view.view is not None
    updates: list[Update] = [
        Put(view_key(view.id), records.encode(ViewStatus(BUILDING, len(tablets), 0, empty_first)))
    ]
    for tablet in tablets:
        task = BuildTask(
            "build_range", view.view.base_id.hex(), str(tablet.first_token), str(tablet.last_token)
        )
        updates.append(Put(task_key(view.id, tablet.id), records.encode(task)))
    return [as_seen(state, update.key) for update in updates], updates


def forgetting(state: ClusterState, view: bytes) -> tuple[list[Assertion], list[Update]]:
    """The part of a transaction that drops a view."""
    keys = [view_key(view), *(key for key, _ in state.starting_with(tasks_of(view)))]
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
