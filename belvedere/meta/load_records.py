"""What the metadata store says of loads that were committed and are not yet part of their tables everywhere.

    loads/<table id>/<load id>    LoadRecord
    last_load/<table id>          which load was committed last

The record is the load's commit: from then on it becomes part of the table, whatever happens, unless the table
is truncated or dropped first. With it come staging entries (meta.view_records), so that no view is silent
about rows that it does not show; work on these begins when the load's own record is gone. The name of the
last load is there to be asserted: by that, whoever removes all loads of a table knows that no other one came
in between.
"""

from collections.abc import Iterator

import msgspec

from belvedere.meta import records, view_records
from belvedere.meta.metadata import Proposal
from belvedere.meta.state import ClusterState
from belvedere.meta.store import Absent, Assertion, Delete, Put, Update
from belvedere.meta.view_records import BuildTask, as_seen
from belvedere.model.schema import Table

LOADS = "loads/"


class LoadRecord(msgspec.Struct, frozen=True):
    """Which files there are is in the exchange, in a list that nobody changes any more."""

    path: str
    crc32c: int
    #: The tablets that get files.
    tablets: list[int]


def loads_of(table: bytes) -> str:
    return f"{LOADS}{table.hex()}/"


def load_key(table: bytes, load: str) -> str:
    return f"{loads_of(table)}{load}"


def last_load_key(table: bytes) -> str:
    return f"last_load/{table.hex()}"


def open_loads(state: ClusterState) -> Iterator[tuple[bytes, str, LoadRecord]]:
    """(table, load, record) of all that were committed and not finished."""
    for key, entry in state.starting_with(LOADS):
        table, _, load = key[len(LOADS) :].partition("/")
        yield bytes.fromhex(table), load, msgspec.json.decode(entry.value, type=LoadRecord)


def committing(state: ClusterState, table: Table, load: str, record: LoadRecord) -> Proposal | None:
    """Commit a load, unless it is. Schema changes of the keyspace come before it or after it."""
    key = load_key(table.id, load)
    if key in state.entries:
        return None
    tablets = {tablet.id: tablet for tablet in state.tablet_maps[table.id].tablets}
    last = last_load_key(table.id)
    asserts: list[Assertion] = [Absent(key), as_seen(state, last)]
    asserts.append(as_seen(state, records.keyspace_key(table.keyspace)))
    updates: list[Update] = [Put(key, records.encode(record)), Put(last, load.encode())]
    for number in record.tablets:
        tablet = tablets[number]
        bounds = str(tablet.first_token), str(tablet.last_token)
        task = BuildTask("process_staging", table.id.hex(), *bounds)
        asserts.append(as_seen(state, records.tablet_key(table.id, number)))
        staging = view_records.staging_key(table.id, number, load)
        asserts.append(Absent(staging))
        updates.append(Put(staging, records.encode(task)))
    return tuple(asserts), tuple(updates)


def finishing(state: ClusterState, table: bytes, load: str) -> Proposal | None:
    """The load is part of its table. Views that come later see it when they are built."""
    key = load_key(table, load)
    if key not in state.entries:
        return None
    gone = [key]
    found = state.tables_by_id.get(table)
    if found is None or not state.keyspaces[found.keyspace].views_of(found):
        gone += _staging_of(state, table, load)
    return tuple(as_seen(state, one) for one in gone), tuple(Delete(one) for one in gone)


def forgetting(state: ClusterState, table: bytes) -> Proposal | None:
    """All loads of the table went with its rows."""
    loads = [key[len(loads_of(table)) :] for key, _ in state.starting_with(loads_of(table))]
    keys = [key for load in loads for key in (load_key(table, load), *_staging_of(state, table, load))]
    if not keys:
        return None
    return tuple(as_seen(state, key) for key in keys), tuple(Delete(key) for key in keys)


def _staging_of(state: ClusterState, table: bytes, load: str) -> list[str]:
    staging = view_records.open_staging(state, table)
    return [view_records.staging_key(table, tablet, one) for tablet, one, _ in staging if one == load]
