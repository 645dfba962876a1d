"""Which tablet an operation is for, in the newest metadata at each try."""

from collections.abc import Callable
from typing import NamedTuple

from belvedere.meta.state import ClusterState, Tablet

Find = Callable[[ClusterState], Tablet | None]


class Source(NamedTuple):
    """The tablet of a base that something for a view was computed from. When a table is emptied it gets new
    tablets, and so do its views: what comes of the old ones must not reach them."""

    table: bytes
    tablet: int


def finder(table: bytes, token: int, source: Source | None = None, only: int | None = None) -> Find:
    """`only`: none but this tablet."""

    def find(state: ClusterState) -> Tablet | None:
        tablets = state.tablet_maps.get(table)
        if tablets is None or (source is not None and not _is_there(state, source)):
            return None
        found = tablets.holding(token)
        return found if only is None or found.id == only else None

    return find


def source_of(state: ClusterState, table: bytes, token: int) -> Source:
    return Source(table, state.tablet_maps[table].holding(token).id)


def _is_there(state: ClusterState, source: Source) -> bool:
    tablets = state.tablet_maps.get(source.table)
    return tablets is not None and any(tablet.id == source.tablet for tablet in tablets.tablets)
