"""A replica's log, brought back from the commit log at a start.

What an entry says was committed of the records before it is applied at once, so that no more is in memory
than was under way. How far the tablet's files go is no such mark: it may be of a time after a cut that is
still to come, so it counts at the end.
"""

from collections import deque

from belvedere.model.positions import NOWHERE, Position, Record
from belvedere.storage.errors import TabletCorrupt
from belvedere.storage.replica_entries import Appended, CutTo, Entry
from belvedere.storage.replica_records import REMEMBERED, OpenedReplica, ReplicaRecords


class ReplicaReplay:
    """Feed all entries of the tablet in order, then `finish`."""

    def __init__(self, replica: ReplicaRecords) -> None:
        self._replica = replica
        self._store = replica.store
        #: The newest records: those that are not applied, and some more.
        self._newest: deque[Record] = deque()
        #: The position before the first record that counts.
        self._begin = NOWHERE

    def take(self, frame: int, entry: Entry) -> None:
        if frame <= self._store.log_floor:
            return
        replica = self._replica
        if isinstance(entry, CutTo):
            while self._newest and self._newest[-1].position > entry.position:
                self._newest.pop()
            replica.forget_cut(entry.position)
            if entry.position < self._begin:
                self._begin = entry.position
        elif isinstance(entry, Appended):
            self._add(frame, entry.records)
            self._apply(entry.committed)
        elif entry.log_floor == self._store.log_floor:
            self._add(frame, entry.records)
        self._forget_some()

    def _add(self, frame: int, records: tuple[Record, ...]) -> None:
        previous = records[0].previous
        if previous != self._replica.end:
            # The log was retired up to here; or its last records were lost, and are in files all the same.
            self._begin_after(previous)
        self._replica.take_back(frame, records)
        self._newest += records

    def _begin_after(self, position: Position) -> None:
        self._replica.begin_after(position)
        self._newest.clear()
        self._begin = position

    def _apply(self, committed: Position) -> None:
        if self._replica.would_apply(committed):
            self._check()
        self._replica.apply(committed)

    def _check(self) -> None:
        """What comes before the log must be in files. Not so of what a later cut takes: that is known when
        something is applied, or at the end."""
        if self._begin.version > self._store.flushed_version:
            raise TabletCorrupt(
                f"the commit log lacks records of tablet {self._store.id}: it begins after {self._begin},"
                f" and the files end at {self._store.flushed}"
            )

    def _forget_some(self) -> None:
        applied = len(self._newest) - self._replica.unapplied
        undelivered = self._replica.first_undelivered
        while applied > REMEMBERED:
            if undelivered is not None and self._newest[0].position >= undelivered.position:
                return
            self._newest.popleft()
            applied -= 1

    def finish(self) -> None:
        """Offer what was found."""
        replica, flushed = self._replica, self._store.flushed
        if replica.end < flushed:
            self._begin_after(flushed)
        self._check()
        replica.apply(flushed)
        self._forget_some()
        base = self._newest[0].previous if self._newest else replica.end
        replica.offer(OpenedReplica(base, tuple(self._newest), replica.committed))
