"""View updates out of log records, brought to the tablets of views on this node."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from belvedere.model.mutations import ViewUpdate
from belvedere.storage.tablet import TabletStore

# What an update takes of memory beside its row, by which memtables measure their size.
_UPDATE_BYTES = 256
_CELL_BYTES = 64


class ViewDelivery:
    """Finds the tablet of each update by view and token."""

    def __init__(self) -> None:
        self._tablets: dict[bytes, tuple[list[int], list[TabletStore]]] = {}

    def index(self, stores: Iterable[TabletStore]) -> None:
        """These are the open tablets from now on."""
        by_view: dict[bytes, list[TabletStore]] = {}
        for store in stores:
            if store.table.view is not None:
                by_view.setdefault(store.table.id, []).append(store)
        self._tablets = {}
        for view, found in by_view.items():
            found.sort(key=lambda store: store.first_token)
            self._tablets[view] = [store.first_token for store in found], found

    def apply(self, position: int, updates: Sequence[ViewUpdate], replaying: bool = False) -> None:
        """Deliver the updates of one log record. Doing it twice changes nothing, so a frame that a flush may
        have covered only in part is simply done again."""
        for update in updates:
            tablets = self._tablets.get(update.view)
            if tablets is None:
                continue  # The view was dropped.
            mutation = update.mutation
            token = mutation.token
            store = tablets[1][bisect_right(tablets[0], token) - 1]
            if store.dropped or not store.first_token <= token <= store.last_token:
                continue
            if replaying and position < store.flushed_version:
                continue
            ((_, row),) = mutation.rows  # An update changes one row.
            size = _UPDATE_BYTES + _CELL_BYTES * len(row.cells)
            store.apply(mutation, position, position, size)
