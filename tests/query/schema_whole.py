"""What holds for a schema after any mixture of changes."""

from belvedere.meta.state import ClusterState
from belvedere.model.schema import Keyspace
from belvedere.model.token import MAX_TOKEN, MIN_TOKEN
from belvedere.model.types import UserType


def check_whole(state: ClusterState) -> None:
    """Nothing torn: every table has its tablets, every tablet its table, every type used exists."""
    assert state.tablet_maps.keys() == state.tables_by_id.keys()
    ids = [tablet.id for tablet_map in state.tablet_maps.values() for tablet in tablet_map.tablets]
    assert len(ids) == len(set(ids))
    for tablet_map in state.tablet_maps.values():
        assert tablet_map.tablets[0].first_token == MIN_TOKEN
        assert tablet_map.tablets[-1].last_token == MAX_TOKEN
    for keyspace in state.keyspaces.values():
        for table in keyspace.tables.values():
            for column in table.columns:
                for part in column.type.walk():
                    if isinstance(part, UserType):
                        _check_type(keyspace, part)


def _check_type(keyspace: Keyspace, used: UserType) -> None:
    assert used.frozen() == keyspace.types[used.type_name].frozen()
