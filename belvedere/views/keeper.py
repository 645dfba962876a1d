"""Which views a table has now, ready to be asked what a change of one of its rows does to them."""

from collections.abc import Callable, Iterable

from belvedere.meta.state import ClusterState
from belvedere.model.mutations import ViewUpdate
from belvedere.model.schema import Keyspace, Table
from belvedere.query.schema_view import KeyspacesView
from belvedere.storage.tablet_changes import RowChange
from belvedere.views.fast_images import compile_updates
from belvedere.views.images import ImageMaker


class Makers(tuple[ImageMaker, ...]):
    """The image makers of one table's views."""

    def __init__(self, makers: Iterable[ImageMaker] = ()) -> None:
        self._fast = compile_updates(self)

    def updates(self, token: int, key: bytes, change: RowChange, version: int) -> list[ViewUpdate]:
        """What the change of one base row does to the views."""
        if self._fast is not None and not change.also:
            found = self._fast(token, key, change.clustering, change.before, change.after, version)
            if found is not None:
                return found
        return [update for maker in self for update in maker.updates(token, key, change, version)]


_NONE = Makers()


class MakerCache:
    """Image makers by base table, made anew when the keyspace changes."""

    def __init__(self, state: Callable[[], ClusterState]) -> None:
        self._state = state
        self._known: dict[bytes, tuple[Keyspace, Makers]] = {}
        #: What was found for the state seen last.
        self._seen: ClusterState | None = None
        self._current: dict[bytes, Makers] = {}

    def makers(self, table: Table) -> Makers:
        state = self._state()
        if state is not self._seen:
            self._seen, self._current = state, {}
        found = self._current.get(table.id)
        if found is None:
            found = self._current[table.id] = self._look(state, table)
        return found

    def _look(self, state: ClusterState, table: Table) -> Makers:
        keyspace = state.keyspaces.get(table.keyspace)
        known = self._known.get(table.id)
        if known is not None and known[0] is keyspace:
            return known[1]
        if keyspace is None:
            self._known.pop(table.id, None)
            return _NONE
        made = self._make(state, keyspace, table)
        if known is not None and _same(known[1], made):
            made = known[1]
        self._known[table.id] = (keyspace, made)
        return made

    def _make(self, state: ClusterState, keyspace: Keyspace, table: Table) -> Makers:
        # The table as it is now: who asks may have been planned before it changed.
        base = keyspace.tables.get(table.name)
        if base is None or base.id != table.id:
            base = state.tables_by_id.get(table.id)
        if base is None:
            return _NONE
        schema = KeyspacesView(state.keyspaces)
        return Makers([ImageMaker(base, view, schema) for view in keyspace.views_of(base)])


def _same(left: Makers, right: Makers) -> bool:
    """Whether nothing changed for these makers: the state shares definitions that did not change."""
    return len(left) == len(right) and all(
        one.base is other.base and one.view is other.view for one, other in zip(left, right, strict=True)
    )
