"""One tablet's rows on this node: opening and reading them, snapshots, truncation, drop.

The changes of its files are those of `TabletCore` (flush), `CompactedTablet`, `AttachingTablet` and
`RestoringTablet`.
"""

from collections.abc import Callable, Sequence

from belvedere.model.mutations import Mutation
from belvedere.model.positions import NOWHERE
from belvedere.model.schema import Table
from belvedere.runtime.api import Runtime, TaskHandle
from belvedere.runtime.errors import DiskError
from belvedere.storage import tablet_changes
from belvedere.storage.errors import CommitRefused
from belvedere.storage.files import LiveFile, SSTableCache
from belvedere.storage.manifest import commit_manifest, load_manifest
from belvedere.storage.memtable import MemoryUse, MemPartition
from belvedere.storage.reads import KeySlice, PartitionRead, PartitionRows, RangeRead, ScanPage
from belvedere.storage.scan import scan
from belvedere.storage.snapshot import Cut, Snapshot
from belvedere.storage.tablet_api import Durability, TabletInfo
from belvedere.storage.tablet_changes import RowChange, touched
from belvedere.storage.tablet_reads import (
    answers_alone,
    candidates,
    partitions_in,
    read_memory,
    read_now,
    read_waiting,
)
from belvedere.storage.tablet_restore import RestoringTablet
from belvedere.storage.uninterrupted import to_the_end


class TabletStore(RestoringTablet):
    _removal: TaskHandle | None = None

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        directory: str,
        table: Table,
        info: TabletInfo,
        log: Durability,
        cache: SSTableCache,
        memory: MemoryUse,
        log_floor: int = 0,
    ) -> "TabletStore":
        """Open from the manifest, or create an empty tablet; its directory is durable on return. With
        `log_floor`, what the commit log has of it up to there does not count from now on."""
        store = cls(runtime, directory, table, info, log, cache, memory)
        await runtime.disk.make_directory(directory)
        manifest = await load_manifest(runtime, directory)
        if manifest is None:
            store.log_floor = log_floor
            await commit_manifest(runtime, directory, store._manifest((), NOWHERE))
            return store
        store.last_version = manifest.last_version
        store.flushed = manifest.flushed
        store.log_floor = manifest.log_floor
        store.truncated_version = manifest.truncated_version
        store._attached = manifest.attached
        await store._files.load(manifest)
        if log_floor > store.log_floor:
            store.log_floor = log_floor
            await store.save_version()
        return store

    # ------------------------------------------------------------------------------------------ reading

    def read_now(self, read: PartitionRead, now: int) -> PartitionRows | None:
        """From memory alone, or None."""
        memtables = self._memtables
        if len(memtables) == 1:
            partition = memtables[0].partitions.get(read.key)
            memory: Sequence[MemPartition] = () if partition is None else (partition,)
        else:
            memory = partitions_in(memtables, read.key)
        files: Sequence[LiveFile] = self._files.live
        if files:
            files = candidates(files, read.token)
        if not files:
            if not memory:
                # A dropped tablet is not an empty one: `read` tells.
                return None if self.dropped else PartitionRows(read.token, read.key, None, [])
            if len(memory) == 1:
                found = read_memory(memory[0], read, now, self.columns)
                return self._with_position(found, memory)
        elif len(memory) == 1 and read.row is not None:
            if answers_alone(memory[0], read.row, files, self.columns):
                found = read_memory(memory[0], read, now, self.columns)
                return self._with_position(found, memory)
        result = read_now(memory, files, read, now, self.columns)
        return None if result is None else self._with_position(result, memory)

    def _with_position(self, found: PartitionRows, memory: Sequence[MemPartition]) -> PartitionRows:
        durable = self._log.durable
        for partition in memory:
            if partition.after > durable and partition.after > found.after:
                found.after = partition.after
        return found

    async def read(self, read: PartitionRead, now: int) -> PartitionRows:
        found = self.read_now(read, now)
        if found is not None:
            return found
        self._check_open()
        memtables = self._memtables
        files = candidates(self._files.live, read.token)
        result = await read_waiting(memtables, files, read, now, self.columns)
        return self._with_position(result, partitions_in(memtables, read.key))

    def changes_now(self, mutation: Mutation, now: int) -> list[RowChange] | None:
        """What the mutation would change for readers, row by row; None if a disk is needed to tell."""
        memtables = self._memtables
        if len(memtables) == 1:
            partition = memtables[0].partitions.get(mutation.key)
            memory: Sequence[MemPartition] = () if partition is None else (partition,)
        else:
            memory = partitions_in(memtables, mutation.key)
        files: Sequence[LiveFile] = self._files.live
        if files:
            files = candidates(files, mutation.token)
        return tablet_changes.changes_now(memory, files, mutation, now, self.columns)

    async def changes(
        self, mutation: Mutation, now: int, slices: tuple[KeySlice, ...] | None = None
    ) -> list[RowChange]:
        """The same with disk reads; the partition must be held. `slices` must hold all rows it writes."""
        self._check_open()
        files = candidates(self._files.live, mutation.token)
        looked_at = touched(mutation) if slices is None else slices
        return await tablet_changes.changes_waiting(
            self._memtables, files, mutation, now, self.columns, looked_at
        )

    async def newest_stamp(self, token: int, key: bytes, clustering: bytes) -> int:
        """The largest write time of anything stored of one row, deletions included."""
        files = candidates(self._files.live, token)
        return await tablet_changes.newest_stamp(self._memtables, files, token, key, clustering)

    async def scan(self, read: RangeRead, now: int) -> ScanPage:
        self._check_open()
        page = await scan(self._runtime, self._memtables, self._files.live, read, now, self.columns)
        if page.after <= self._log.durable:
            page.after = 0
        return page

    # ---------------------------------------------------------------------- snapshots, truncation, drop

    async def snapshot(self) -> Snapshot:
        """Flush, and pin the files."""
        self._check_open()
        return await self.snapshot_of(self.cut())

    def cut(self) -> Cut:
        """What is written from here on need not be in a snapshot of what was written up to here."""
        self.freeze()
        return Cut(self.last_version, self._memtables[1:2])

    async def snapshot_of(self, cut: Cut) -> Snapshot:
        """Flush what the cut divides from what came later, and pin the files. Something later may be in
        them, too: what a flush that nobody here asked for wrote after the cut and before the pinning."""
        while any(memtable is frozen for memtable in self._memtables for frozen in cut.memtables):
            await self.flush_oldest()
        self._check_open()
        return Snapshot(self.id, self.table, max(cut.version, self.flushed_version), self._files.live)

    async def truncate(self) -> None:
        """Remove what was written up to now. What is written while this waits stays."""
        await to_the_end(self._runtime, "tablet.truncate", self._truncate)

    async def _truncate(self) -> None:
        async with self._changing:
            self._check_open()
            self.truncating = True
            self.freeze()
            doomed, written = self._memtables[1:], self.written
            before, self.truncated_version = self.truncated_version, written.version
            # A load that was attached and then truncated, and is attached again by whoever did not hear of
            # that, comes after the truncation, in all tablets alike.
            attached, self._attached = self._attached, ()
            try:
                await self._files.commit(self._files.live, [], lambda files: self._manifest(files, written))
            except CommitRefused:
                self.truncated_version = before
                self._attached = attached
                raise
            finally:
                self.truncating = False
            self.flushed = written
            self._forget(doomed)
            self.truncations += 1

    async def truncated(self) -> None:
        """Wait until a truncation that is under way is over."""
        while self.truncating:
            await self._changing.acquire()
            self._changing.release()

    async def drop(self, when_gone: Callable[[], None]) -> None:
        """Forget everything; call back when the last reader let go of the last file."""
        self.dropped = True
        async with self._changing:
            self._drop_memtables()
            files = self._files.forget()
        self._removal = self._runtime.spawn("tablet.drop", self._remove_directory(files, when_gone))

    async def removed(self) -> None:
        """Of a dropped tablet: wait until its directory is gone, or could not be removed."""
        if self._removal is not None:
            await self._removal.wait()

    async def _remove_directory(self, files: Sequence[LiveFile], when_gone: Callable[[], None]) -> None:
        while any(file.pins for file in files):
            await self._runtime.clock.sleep(0.05)
        await self.removals()
        try:
            await self._runtime.disk.remove_tree(self.directory)
        except DiskError as error:
            self._runtime.log("warning", "tablet.drop_failed", path=self.directory, cause=str(error))
            return
        when_gone()
