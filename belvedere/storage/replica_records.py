"""The records of a tablet's replicated log on this node, and what of them readers see.

Records are appended as they come and applied when they are known to be committed: what is in a memtable or in
a file is never taken back, and a cut concerns log records only. The commit log keeps a record until it is
applied and flushed, and what it did to other tablets was delivered.

In memory are the records that are not applied or not written yet; others are read from the commit log.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

import msgspec

from belvedere.model.mutations import ReplicatedWrite, decode_replicated
from belvedere.model.positions import NOWHERE, Position, Record
from belvedere.runtime.api import Runtime
from belvedere.storage.commitlog import CommitLog
from belvedere.storage.errors import Dropped, LogUnavailable, StorageError
from belvedere.storage.logformat import RECORD_BYTES
from belvedere.storage.memtable import Reach
from belvedere.storage.replica_backlog import Backlog, Waiting, Written
from belvedere.storage.replica_chunks import Chunk, Chunks
from belvedere.storage.replica_entries import Appended, CutTo, encode_entry, in_entries, records_left
from belvedere.storage.tablet import TabletStore

#: Committed records that are offered at a start: others may be a little behind.
REMEMBERED = 1024
#: With less room in the log than this, nothing more is asked for.
_ROOM_BYTES = 64 << 10
#: What an entry takes beside its records.
ENTRY_BYTES = 96


class OpenedReplica(msgspec.Struct, frozen=True):
    """The newest records, the position before them, and how far they are known to be committed."""

    base: Position
    records: tuple[Record, ...]
    committed: Position


class Surroundings(NamedTuple):
    """What a replica's log needs of the engine."""

    #: Whether there is memory for writes; begins flushes if need be.
    has_memory: Callable[[], bool]
    #: Less of the commit log may be needed now.
    released: Callable[[], None]


class _Held(msgspec.Struct, gc=False):
    record: Record
    #: Where the commit log has it; 0: it waits for room there.
    frame: int = 0


class ReplicaRecords:
    def __init__(
        self, runtime: Runtime, store: TabletStore, log: CommitLog, surroundings: Surroundings
    ) -> None:
        self.store = store
        #: Where the log ends.
        self.end = NOWHERE
        self._log = log
        self._surroundings = surroundings
        self._backlog = Backlog(runtime, log)
        self._runtime = runtime
        self._chunks = Chunks()
        #: How often the log began anew.
        self._lives = 0
        #: The newest records, those after `_base`.
        self._held: deque[_Held] = deque()
        self._base = NOWHERE
        self._unapplied: deque[_Held] = deque()
        #: Applied up to here, but for what waits for room in the commit log.
        self._apply_to = NOWHERE
        #: Applied records that have something to deliver, without their data; up to where that was done.
        self._undelivered: deque[Record] = deque()
        self._delivered = 0
        #: Why nothing is taken any more.
        self._failure: StorageError | None = None
        #: The commit log is kept from here on, whatever the records say.
        self._holding: int | None = None
        self._opened: OpenedReplica | None = None
        #: Told of each record when readers see it.
        self.on_shown: Callable[[int, ReplicatedWrite], None] = lambda version, write: None
        store.reach = Reach(store.flushed, 0)

    # ------------------------------------------------------------------------------------------ opening

    def opened(self) -> OpenedReplica:
        """As it was found at the start; asked once."""
        opened, self._opened = self._opened, None
        if opened is None:
            raise AssertionError(f"the log of tablet {self.store.id} was opened before")
        return opened

    def offer(self, opened: OpenedReplica) -> None:
        self._opened = opened

    def begin_after(self, position: Position) -> None:
        """The log holds nothing, and goes on from here."""
        self._lives += 1
        self._held.clear()
        self._unapplied.clear()
        self._undelivered.clear()
        self._chunks.clear()
        self._base = self.end = position

    def take_back(self, frame: int, records: tuple[Record, ...]) -> None:
        """Records that the commit log had at the start."""
        previous = self.end
        held = [_Held(record) for record in records]
        self._hold(held)
        self._placed(previous, held)(frame)
        self.end = records[-1].position

    def forget_cut(self, position: Position) -> None:
        """The same for a cut. Of what it took the commit log may have retired the beginning."""
        if position < self._base:
            self.begin_after(position)
        self._drop_beyond(position)
        self._chunks.cut(position)

    @property
    def unapplied(self) -> int:
        return len(self._unapplied)

    @property
    def committed(self) -> Position:
        """How far the log is known to be committed, by what this replica was told to apply."""
        return self._apply_to

    @property
    def applied(self) -> Position:
        """Readers see the records up to here."""
        return self.store.written

    # ---------------------------------------------------------------------------------------- appending

    def has_room(self) -> bool:
        """Whether `append` would be taken now, and not have to wait for room itself."""
        if self._refusal() is not None or self._backlog or not self._surroundings.has_memory():
            return False
        try:
            return self._log.has_room(min(_ROOM_BYTES, self._log.largest))
        except LogUnavailable:
            return False

    def check_size(self, data: bytes) -> None:
        """Raises MutationTooLarge if a record of this can never be appended."""
        self._log.check_size(len(data) + ENTRY_BYTES)

    def append(self, records: tuple[Record, ...], committed: Position, written: Written) -> None:
        """Take these to the log; `written` is called once they are on disk, or when it is certain that nobody
        can tell. Raises MutationTooLarge: then nothing was taken."""
        refusal = self._refusal()
        if refusal is not None:
            self._runtime.call_soon(lambda: written(refusal))
            return
        end = self.end
        for record in records:
            if record.previous != end or record.position <= end or record.position.version <= end.version:
                raise AssertionError(f"{record.position} after {record.previous} does not follow {end}")
            end = record.position
        entries = in_entries(
            lambda part: Appended(self.store.id, committed, part), records, self._log.largest - ENTRY_BYTES
        )
        for data, part in entries:
            if len(part) == 1:
                self._log.check_size(len(data) + RECORD_BYTES)
        previous, last = self.end, entries[-1][1]
        for data, part in entries:
            held = [_Held(record) for record in part]
            self._hold(held)
            told = self._told(written) if part is last else None
            self._backlog.add(Waiting(data, self._placed(previous, held), told))
            previous = part[-1].position
        self.end = previous

    def _hold(self, held: list[_Held]) -> None:
        self._held += held
        self._unapplied += held

    def _refusal(self) -> StorageError | None:
        if self.store.dropped:
            return Dropped(f"table {self.store.table.full_name} was dropped")
        return self._failure or self._log.broken

    def _placed(self, previous: Position, held: list[_Held]) -> Callable[[int], None]:
        def placed(frame: int) -> None:
            for one in held:
                one.frame = frame
            self._chunks.add(frame, self._log.place, previous, held[-1].record.position)
            if self._unapplied and self._unapplied[0].record.position <= self._apply_to:
                self._apply_some()

        return placed

    def _told(self, written: Written) -> Written:
        def told(error: Exception | None) -> None:
            self._forget_some()
            written(error)

        return told

    def cut(self, position: Position) -> None:
        """Drop everything beyond from the log; nothing of it was applied."""
        if position < self._apply_to:
            raise AssertionError(f"cut to {position}, though {self._apply_to} was applied")
        if position >= self.end or self._refusal() is not None:
            return
        self._drop_beyond(position)

        cut = encode_entry(CutTo(self.store.id, position))
        self._backlog.add(Waiting(cut, lambda _: self._chunks.cut(position)))

    def _drop_beyond(self, position: Position) -> None:
        for records in (self._held, self._unapplied):
            while records and records[-1].record.position > position:
                records.pop()
        self.end = self._held[-1].record.position if self._held else self._base

    # ----------------------------------------------------------------------------------------- applying

    def apply(self, position: Position) -> None:
        """Show readers the records up to here. What still waits for room in the commit log follows when it
        has got it: nobody has a right to it before."""
        self._apply_to = max(self._apply_to, min(position, self.end))
        self._apply_some()
        self._forget_some()

    def would_apply(self, position: Position) -> bool:
        return bool(self._unapplied) and self._unapplied[0].record.position <= position

    def _apply_some(self) -> None:
        while self._unapplied:
            held = self._unapplied[0]
            if held.record.position > self._apply_to or not held.frame or self.store.dropped:
                return
            self._unapplied.popleft()
            self._show(held.record, held.frame)

    def _show(self, record: Record, frame: int) -> None:
        store, position = self.store, record.position
        write = decode_replicated(record.data)
        if position.version > store.flushed_version:  # Else it was replayed, and is in a file.
            if write.mutation is not None:
                store.apply(write.mutation, frame, position.version, len(record.data))
            store.last_version = max(store.last_version, position.version)
            store.reach = Reach(position, frame)
        if write.views or write.others:
            self._undelivered.append(Record(position, record.previous, b""))
        self._has_delivered(write.delivered)
        self.on_shown(position.version, write)

    def _forget_some(self) -> None:
        """From memory: what is written and applied."""
        written, applied = self._log.written, self._unapplied[0] if self._unapplied else None
        while self._held:
            held = self._held[0]
            if held is applied or not 0 < held.frame <= written:
                return
            self._base = held.record.position
            self._held.popleft()

    # ------------------------------------------------------------------------------------- what is kept

    def keep_from(self, version: int) -> None:
        """Records beyond this version still have something to deliver: the log keeps them. Without being
        told, it goes by what applied records say was delivered."""
        before = self.first_needed
        self._has_delivered(version)
        if self.first_needed != before:
            self._surroundings.released()

    def _has_delivered(self, version: int) -> None:
        self._delivered = max(self._delivered, version)
        while self._undelivered and self._undelivered[0].position.version <= self._delivered:
            self._undelivered.popleft()

    @property
    def first_undelivered(self) -> Record | None:
        """The oldest record that has something to deliver, without its data."""
        return self._undelivered[0] if self._undelivered else None

    @property
    def first_needed(self) -> int | None:
        """The oldest position of the commit log that this replica needs."""
        needed = self.store.flushed_version + 1
        if self._undelivered:
            needed = min(needed, self._undelivered[0].position.version)
        frame = self._chunks.frame_of(needed)
        return frame if self._holding is None else min(self._holding, frame or self._holding)

    # ------------------------------------------------------------------------------------------ reading

    async def read_tail(self, after: Position, limit: int) -> tuple[Position, tuple[Record, ...]] | None:
        """The newest position in the log that is not beyond `after`, and records that follow it; None if the
        log does not go back so far. What is not in memory was applied, so nobody cuts it meanwhile; what was
        cut before lies in the same frames, and the end of the chunk is known before they are read."""
        found: list[Record] = []
        floor: Position | None = None
        at = after
        while at < self._base:
            chunk = self._chunks.holding(at, self._log.oldest)
            if chunk is None:
                return None
            lives, upto = self._lives, min(chunk.last, self._base)
            records = await self._read(chunk)
            if lives != self._lives:
                return await self.read_tail(after, limit)
            if records is None or upto <= at:
                return None
            if floor is None:
                older = (record.position for record in records if record.position <= after)
                floor = max(older, default=chunk.previous)
            found += [record for record in records if at < record.position <= upto]
            if len(found) >= limit:
                return floor, tuple(found[:limit])
            at = upto
        newer = [held.record for held in self._held if held.record.position > at]
        if floor is None:
            count = len(self._held) - len(newer)
            floor = self._held[count - 1].record.position if count else self._base
        return floor, tuple(islice([*found, *newer], limit))

    async def _read(self, chunk: Chunk) -> list[Record] | None:
        """The chunk's records, as far as they are written; None if they are gone."""
        frames = await self._log.read(chunk.first_frame, min(chunk.last_frame, self._log.written))
        if frames is None:
            return None
        entries = (entry for frame in frames for entry in frame)
        return records_left(entries, self.store.id, self.store.log_floor)

    # ------------------------------------------------------------------------------------------- ending

    def close(self, error: StorageError) -> None:
        """Nothing is taken any more; who waits to hear that something is written hears this."""
        self._failure = error
        self._backlog.close(error)
