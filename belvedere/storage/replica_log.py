"""One tablet's replicated log on this node, as a whole: given away as files, and replaced by such."""

import asyncio
from collections.abc import Sequence

from belvedere.model.positions import Position, Record
from belvedere.runtime.errors import DiskError
from belvedere.storage.errors import CommitUnknown, Dropped, StorageError
from belvedere.storage.logformat import RECORD_BYTES
from belvedere.storage.replica_backlog import Waiting
from belvedere.storage.replica_entries import Restored, in_entries
from belvedere.storage.replica_records import ENTRY_BYTES, OpenedReplica, ReplicaRecords
from belvedere.storage.replica_snapshot import (
    INCOMING_NAME,
    IncomingSnapshot,
    ReplicaSnapshot,
    SnapshotAbout,
    SnapshotFile,
)
from belvedere.storage.tablet_restore import Restoration
from belvedere.storage.uninterrupted import to_the_end

_READ_AT_ONCE = 1024

#: Where the commit log has these records.
_Saved = tuple[int, tuple[Record, ...]]


class ReplicaLog(ReplicaRecords):
    async def snapshot(self) -> ReplicaSnapshot:
        """What was applied, as files; to be released."""
        store = self.store
        pinned = await store.snapshot()
        # In the same step in which the files were pinned.
        position, truncated, attached = store.flushed, store.truncated_version, store.attached
        try:
            self._surroundings.released()
            records = await self._undelivered_up_to(position)
        except BaseException:
            pinned.release()
            raise
        about = SnapshotAbout(store.table.id, position, truncated, attached, pinned.entries, records)
        return ReplicaSnapshot(self._runtime, pinned, store.directory, about)

    async def _undelivered_up_to(self, position: Position) -> tuple[Record, ...]:
        found: list[Record] = []
        stuck: Record | None = None
        while True:
            first = self.first_undelivered
            if first is None or first.position > position:
                return ()
            if first is stuck:
                raise StorageError(f"the commit log has no record {first.position}, which it must keep")
            after = found[-1].position if found else first.previous
            read = await self.read_tail(after, _READ_AT_ONCE)
            if read is None or read[0] != after:
                found.clear()  # Delivered and retired meanwhile; or replaced by a restoration.
                stuck = first
                continue
            found += read[1]
            if not read[1] or found[-1].position >= position:
                return tuple(record for record in found if record.position <= position)

    async def receive(self, files: Sequence[SnapshotFile]) -> IncomingSnapshot:
        """Where the pieces of another replica's snapshot go. One at a time: what came before is gone."""
        if self.store.dropped:
            raise Dropped(f"table {self.store.table.full_name} was dropped")
        incoming = IncomingSnapshot(self._runtime, f"{self.store.directory}/{INCOMING_NAME}", files)
        await incoming.begin()
        return incoming

    async def restore(self, incoming: IncomingSnapshot) -> OpenedReplica:
        """Become what has arrived, instead of all that is here. Nothing is taken meanwhile.

        The commit log is as it is: the manifest says from where on it counts. Raises SnapshotDamaged, what an
        attachment of files does, LogUnavailable: then nothing has happened; or CommitUnknown: then nothing is
        taken until another restoration succeeds, or the next start.
        """
        about = await incoming.finish()
        opened: list[OpenedReplica] = []

        async def restore() -> None:
            opened.append(await self._restore(incoming.directory, about))

        await to_the_end(self._runtime, "replica.restore", restore)
        try:
            await incoming.abandon()
        except DiskError as error:
            # A next start finds nothing of it.
            self._runtime.log("warning", "replica.incoming_not_removed", cause=str(error))
        return opened[0]

    async def _restore(self, directory: str, about: SnapshotAbout) -> OpenedReplica:
        before = self._failure
        self._failure = StorageError("the tablet is being replaced by a snapshot")
        try:
            await self._backlog.drained()
            floor = self._log.newest
            await self._log.wait_written(floor)
            self._holding = floor
            saved = await self._save_records(floor, about.records)
            await self.store.restore(
                Restoration(
                    directory,
                    about.files,
                    about.position,
                    about.truncated_version,
                    about.attached,
                    floor,
                )
            )
            self._begin_anew(about, saved)
            self._failure = None
        except CommitUnknown as error:
            self._failure = error
            raise
        except Exception:
            self._failure = before
            raise
        finally:
            self._holding = None
        self._surroundings.released()
        return OpenedReplica(about.base, about.records, about.position)

    async def _save_records(self, floor: int, records: tuple[Record, ...]) -> list[_Saved]:
        """On disk, in frames beyond the floor; they count once the manifest has the same floor."""
        saved: list[_Saved] = []
        if not records:
            return saved
        most = self._log.largest - ENTRY_BYTES
        for data, part in in_entries(lambda part: Restored(self.store.id, floor, part), records, most):
            self._log.check_size(len(data) + RECORD_BYTES)
            frame = await self._save(data)
            saved.append((frame, part))
        await self._log.wait_written(saved[-1][0])
        return saved

    async def _save(self, data: bytes) -> int:
        frames: list[int] = []
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def told(error: Exception | None) -> None:
            if error is None:
                taken.set_result(None)
            else:
                taken.set_exception(error)

        self._backlog.add(Waiting(data, frames.append, told))
        await taken
        return frames[0]

    def _begin_anew(self, about: SnapshotAbout, saved: Sequence[_Saved]) -> None:
        self.begin_after(about.base)
        for frame, records in saved:
            self.take_back(frame, records)
        self._apply_to = about.position
        self._apply_some()
        self._forget_some()
