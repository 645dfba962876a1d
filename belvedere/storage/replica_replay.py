"""A replica's log, brought back from the commit log at a start.

What an entry says was committed of the records before it is applied at once, so that no more is in memory
than was under way. How far the tablet's files go is no such mark: it may be of a time after a cut that is
still to come, so it counts at the end.
"""

from collections import deque

from belvedere.model.positions import Position, Record
from belvedere.storage.errors import TabletCorrupt
from belvedere.storage.replica_entries import CutTo, Entry, Restored
from belvedere.storage.replica_log import REMEMBERED, OpenedReplica, ReplicaLog


class ReplicaReplay:
    """Feed all entries of the tablet in order, then `finish`."""

    def __init__(self, replica: ReplicaLog) -> None:
        self._replica = replica
        self._store = replica.store
        #: The newest records: those that are not applied, and some more.
        self._newest: deque[Record] = deque()

    def take(self, frame: int, entry: Entry) -> None:
        if frame <= self._store.log_floor:
            return
        replica = self._replica
        if isinstance(entry, CutTo):
            while self._newest and self._newest[-1].position > entry.position:
                self._newest.pop()
            replica.forget_cut(entry.position)
        elif isinstance(entry, Restored):
            if entry.log_floor == self._store.log_floor and entry.records:
                self._begin_after(entry.records[0].previous)
                self._add(frame, entry.records)
        else:
            self._add(frame, entry.records)
            replica.apply(entry.committed)
        self._forget_some()

    def _add(self, frame: int, records: tuple[Record, ...]) -> None:
        previous = records[0].previous
        if previous != self._replica.end:
            # The log was retired up to here; or its last records were lost, and are in files all the same.
            if previous.version > self._store.flushed_version:
                raise TabletCorrupt(
                    f"the commit log lacks records of tablet {self._store.id}: {records[0].position} follows"
                    f" {previous}, but before it is {self._replica.end}, and the files end at"
                    f" {self._store.flushed}"
                )
            self._begin_after(previous)
        self._replica.take_back(frame, records)
        self._newest += records

    def _begin_after(self, position: Position) -> None:
        self._replica.begin_after(position)
        self._newest.clear()

    def _forget_some(self) -> None:
        applied = len(self._newest) - self._replica.unapplied
        undelivered = self._replica.first_undelivered
        while applied > REMEMBERED:
            if undelivered is not None and self._newest[0].position.version >= undelivered:
                return
            self._newest.popleft()
            applied -= 1

    def finish(self) -> None:
        """Offer what was found."""
        replica, flushed = self._replica, self._store.flushed
        if replica.end < flushed:
            self._begin_after(flushed)
        replica.apply(flushed)
        self._forget_some()
        base = self._newest[0].previous if self._newest else replica.end
        replica.offer(OpenedReplica(base, tuple(self._newest), replica.committed))
