"""Snapshots of several tablets at one cut."""

from collections.abc import Sequence

from belvedere.storage.snapshot import Snapshot
from belvedere.storage.tablet import TabletStore


async def take_snapshots(stores: Sequence[TabletStore]) -> list[Snapshot]:
    """Every write up to now is in the files; loads are in those of all tablets or of none.

    Writes that come while this waits are in a tablet's files only if somebody else has it flushed between
    the cut and the moment when it is pinned, which is right after its own flush.
    """
    while True:
        begun = [(store.arrivals, store.truncations) for store in stores]
        cuts = [store.cut() for store in stores]
        taken: list[Snapshot] = []
        try:
            for store, cut in zip(stores, cuts, strict=True):
                taken.append(await store.snapshot_of(cut))
        except BaseException:
            _release(taken)
            raise
        if begun == [(store.arrivals, store.truncations) for store in stores]:
            return taken
        _release(taken)  # A load, or a truncation, is in some of them.


def _release(snapshots: Sequence[Snapshot]) -> None:
    for snapshot in snapshots:
        snapshot.release()
