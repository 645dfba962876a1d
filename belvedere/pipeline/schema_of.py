"""What a task knows of the schema: some entries of the metadata store, and what they say."""

from collections.abc import Iterable, Mapping

from belvedere.meta import records
from belvedere.meta.state import ClusterState, TabletMap, from_loaded
from belvedere.meta.store import Entry, Loaded
from belvedere.model.schema import Table
from belvedere.storage.errors import Dropped


def schema_entries(state: ClusterState, tables: Iterable[Table]) -> dict[str, str]:
    """The entries that a task needs to know these tables: their keyspaces, types and tablets with them.
    Raises Dropped if one of them is gone."""
    found: dict[str, str] = {}

    def add(key: str) -> None:
        entry = state.entries.get(key)
        if entry is not None:
            found[key] = entry.value.decode()

    for table in tables:
        if table.id not in state.tables_by_id:
            raise Dropped(f"table {table.full_name} was dropped")
        add(records.keyspace_key(table.keyspace))
        add(records.table_key(table.keyspace, table.name))
        for key, _ in state.starting_with(records.type_key(table.keyspace, "")):
            add(key)
        for tablet in state.tablet_maps[table.id].tablets:
            add(records.tablet_key(table.id, tablet.id))
    return found


def state_of(schema: Mapping[str, str]) -> ClusterState:
    """The part of the cluster's state that these entries tell of."""
    return from_loaded(Loaded(1, {key: Entry(value.encode(), 1) for key, value in schema.items()}))


def table_of(schema: Mapping[str, str], table_id: str) -> Table:
    """The table with this id (hex)."""
    return state_of(schema).tables_by_id[bytes.fromhex(table_id)]


def tablets_of(schema: Mapping[str, str], table_id: str) -> TabletMap:
    """The tablets of the table with this id (hex)."""
    return state_of(schema).tablet_maps[bytes.fromhex(table_id)]
