"""One tablet's rows on this node: memtables over sstables, and the changes between them.

Memtables and files are replaced as whole tuples, so a reader that took them sees one instant. What waits for
disks (flush, compaction, truncation) changes files only while holding `_changing`, and swaps the tuples in
one step after the manifest is durable. Such a change is carried to its end even if its caller goes away.
Freezing needs no wait: the next write finds a new memtable.
"""

import asyncio
from collections.abc import Callable, Sequence

from belvedere.model.mutations import Mutation
from belvedere.model.rows import NO_TIMESTAMP
from belvedere.model.schema import Table
from belvedere.runtime.api import Runtime
from belvedere.runtime.errors import DiskError
from belvedere.storage import tablet_changes
from belvedere.storage.compaction import choose, compact
from belvedere.storage.errors import CommitRefused, Dropped
from belvedere.storage.files import LiveFile, Pinned, SSTableCache
from belvedere.storage.manifest import (
    MANIFEST_FORMAT,
    Manifest,
    ManifestFile,
    commit_manifest,
    load_manifest,
)
from belvedere.storage.memtable import MemoryUse, MemPartition, Memtable
from belvedere.storage.merge import LiveColumns
from belvedere.storage.reads import MAX_TOKEN, KeySlice, PartitionRead, PartitionRows, RangeRead, ScanPage
from belvedere.storage.scan import scan
from belvedere.storage.snapshot import Snapshot
from belvedere.storage.sstable_format import BuiltSSTable
from belvedere.storage.sstable_write import build_sstable
from belvedere.storage.tablet_api import Durability, TabletInfo
from belvedere.storage.tablet_changes import RowChange, touched
from belvedere.storage.tablet_files import Outputs, TabletFiles
from belvedere.storage.tablet_reads import (
    answers_alone,
    candidates,
    partitions_in,
    read_memory,
    read_now,
    read_waiting,
)
from belvedere.storage.uninterrupted import to_the_end


class TabletStore:
    def __init__(
        self,
        runtime: Runtime,
        directory: str,
        table: Table,
        info: TabletInfo,
        log: Durability,
        cache: SSTableCache,
        memory: MemoryUse,
    ) -> None:
        self.id = info.id
        self.first_token = info.first_token
        self.last_token = info.last_token
        self.epoch = info.epoch
        self.directory = directory
        self.table = table
        self.columns = LiveColumns(table)
        self.dropped = False
        #: The highest commit version given or seen here.
        self.last_version = 0
        #: For a view's tablet, whose writes come from many bases, log positions stand for versions.
        self.flushed_version = 0
        self.truncated_version = 0
        #: How often all rows went: who had read some before must read again, and wait while it happens.
        self.truncations = 0
        self.truncating = False
        #: While this is above 0, rows older than what is here may still arrive: tombstones must stay.
        self.tombstones_needed = 0
        self._runtime = runtime
        self._log = log
        self._memory = memory
        self._active = Memtable()
        self._memtables: tuple[Memtable, ...] = (self._active,)
        self._files = TabletFiles(runtime, directory, table, cache)
        self._changing = asyncio.Lock()
        self._flushes = 0
        self._compactions = 0

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
    ) -> "TabletStore":
        """Open from the manifest, or create an empty tablet; its directory is durable on return."""
        store = cls(runtime, directory, table, info, log, cache, memory)
        await runtime.disk.make_directory(directory)
        manifest = await load_manifest(runtime, directory)
        if manifest is None:
            await commit_manifest(runtime, directory, store._manifest((), 0))
            return store
        store.last_version = manifest.last_version
        store.flushed_version = manifest.flushed_version
        store.truncated_version = manifest.truncated_version
        await store._files.load(manifest)
        return store

    def set_table(self, table: Table) -> None:
        """A new definition of the same table: before anything is written that only it knows."""
        if table is not self.table and table != self.table:
            self.table = table
            self.columns = LiveColumns(table)
            self._files.use_table(table)

    # ------------------------------------------------------------------------------------------ writing

    def apply(self, mutation: Mutation, position: int, version: int, size: int) -> None:
        """Merge a mutation that was appended to the log at `position`; `size` is that of its record."""
        if version > self.last_version:
            self.last_version = version
        if mutation.rows or not mutation.is_empty:
            self._memory.used += self._active.apply(mutation, position, version, size)

    def reserve_version(self, wall_micros: int) -> int:
        """A commit version of its own: everything written so far is older, everything else is newer."""
        self.last_version = max(self.last_version + 1, wall_micros)
        return self.last_version

    async def save_version(self) -> None:
        """Make `last_version` durable: no lower one is given out again, whatever becomes of log and clock."""
        async with self._changing:
            self._check_open()
            flushed = self.flushed_version
            await self._files.commit([], [], lambda files: self._manifest(files, flushed))

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

    def _check_open(self) -> None:
        if self.dropped:
            raise Dropped(f"table {self.table.full_name} was dropped")

    # ----------------------------------------------------------------------------------------- flushing

    @property
    def active_bytes(self) -> int:
        return self._active.bytes

    @property
    def frozen_count(self) -> int:
        return len(self._memtables) - 1

    @property
    def first_position(self) -> int | None:
        """The oldest log position that is needed to bring back what is not in files."""
        return min((m.first_position for m in self._memtables if m.partitions), default=None)

    def freeze(self) -> bool:
        """Set the active memtable aside for a flush; False if it is empty."""
        if not self._active.partitions or self.dropped:
            return False
        self._memory.frozen += self._active.bytes
        self._active = Memtable()
        self._memtables = (self._active, *self._memtables)
        return True

    async def flush_oldest(self) -> bool:
        """Write the oldest frozen memtable to a file. It stays readable, and stays, if that fails."""
        return await to_the_end(self._runtime, "tablet.flush", self._flush_oldest)

    async def _flush_oldest(self) -> bool:
        async with self._changing:
            if len(self._memtables) == 1 or self.dropped:
                return False
            memtable = self._memtables[-1]
            # A batch over several tablets is in the log whole or not at all; so no part of it may reach a
            # file before its log record is durable.
            await self._log.wait_written(memtable.last_position)
            built = await self._build(memtable)
            added = [await self._files.write(built)] if built.facts.rows else []
            flushed = max(self.flushed_version, memtable.last_version)
            await self._files.commit([], added, lambda files: self._manifest(files, flushed))
            self.flushed_version = flushed
            self._forget([memtable])
            self._flushes += 1
            return True

    async def flush(self) -> None:
        """Everything written so far goes to files."""
        self.freeze()
        while await self.flush_oldest():
            pass

    async def _build(self, memtable: Memtable) -> BuiltSSTable:
        table, first, last = self.table, self.flushed_version + 1, memtable.last_version
        return await self._runtime.compute(
            lambda: build_sstable(table, memtable.stored_partitions(), first_version=first, last_version=last)
        )

    def _forget(self, memtables: Sequence[Memtable]) -> None:
        gone = list(memtables)
        self._memtables = tuple(m for m in self._memtables if not any(m is g for g in gone))
        for memtable in gone:
            self._memory.used -= memtable.bytes
            self._memory.frozen -= memtable.bytes

    def _manifest(self, files: Sequence[ManifestFile], flushed_version: int) -> Manifest:
        return Manifest(
            MANIFEST_FORMAT,
            self.id,
            self.table.id.hex(),
            self.first_token,
            self.last_token,
            flushed_version,
            self.last_version,
            self._files.next_number,
            tuple(files),
            self.truncated_version,
        )

    async def removals(self) -> None:
        """Wait for the change under way, and for files that are being deleted."""
        async with self._changing:
            pass
        await self._files.settled()

    # --------------------------------------------------------------------------------------- compaction

    def wants_compaction(self, now: int | None = None) -> bool:
        """`now` given: files of mostly tombstones count, too, though memory may yet forbid to purge them."""
        return not self.dropped and self._choose(now, MAX_TOKEN) is not None

    def _choose(self, now: int | None, oldest_in_memory: int) -> list[int] | None:
        facts = [file.facts for file in self._files.live]
        purging = now is not None and not self.tombstones_needed
        gc_before = now - self.table.gc_grace_seconds if now is not None and purging else 0
        return choose(facts, gc_before=gc_before, oldest_in_memory=oldest_in_memory)

    async def compact(self, now: int, everything: bool = False) -> bool:
        """Merge some files (`everything`: all of them); False if there is nothing to do. When cancelled, the
        files are left as they were."""
        oldest = MAX_TOKEN
        if not everything and self._choose(None, oldest) is None and self._choose(now, oldest) is not None:
            oldest = await self._oldest_in_memory()
        files = self._files.live
        chosen = list(range(len(files))) if everything else self._choose(now, oldest)
        if not chosen or self.dropped:
            return False
        inputs = [files[index] for index in chosen]
        with Pinned(inputs):
            outputs = Outputs(self._files)
            try:
                purge_before = await self._purge_before(inputs, now)
                tables = [file.sstable for file in inputs]
                await compact(self._runtime, self.table, tables, now, purge_before, emit=outputs.add)
            except (Exception, asyncio.CancelledError):
                outputs.abandon()
                raise
            await to_the_end(self._runtime, "tablet.replace", lambda: self._replace(inputs, outputs))
        return True

    async def _replace(self, inputs: Sequence[LiveFile], outputs: Outputs) -> None:
        async with self._changing:
            if self.dropped or any(file.obsolete for file in inputs):
                outputs.abandon()  # Truncated meanwhile.
                return
            version = self.flushed_version
            await self._files.commit(inputs, outputs.entries, lambda files: self._manifest(files, version))
            self._compactions += 1

    async def _purge_before(self, inputs: Sequence[LiveFile], now: int) -> int:
        """Tombstones older than this time may go, once their grace is over: nothing outside the inputs is as
        old. Looking through the memtables is only worth it if there are such tombstones."""
        grace = now - self.table.gc_grace_seconds
        if self.tombstones_needed:
            return NO_TIMESTAMP
        if not any(file.facts.max_second and file.facts.min_second <= grace for file in inputs):
            return NO_TIMESTAMP
        # Taken before anything is waited for: a memtable that is flushed meanwhile counts as such.
        others = [file.facts for file in self._files.live if not any(file is chosen for chosen in inputs)]
        return min([await self._oldest_in_memory(), *(facts.min_timestamp for facts in others)])

    async def _oldest_in_memory(self) -> int:
        """The oldest write time in the memtables. Others run meanwhile: what they write older than that is
        as if it had come after the compaction."""
        oldest = MAX_TOKEN
        for memtable in self._memtables:
            for stamp in memtable.oldest_stamps():
                oldest = min(oldest, stamp)
                await self._runtime.clock.sleep(0)
        return oldest

    # ---------------------------------------------------------------------- snapshots, truncation, drop

    async def snapshot(self) -> Snapshot:
        """Flush, and pin the files."""
        self._check_open()
        version = self.last_version
        await self.flush()
        self._check_open()
        return Snapshot(self.id, self.table, max(version, self.flushed_version), self._files.live)

    async def truncate(self) -> None:
        """Remove what was written up to now. What is written while this waits stays."""
        await to_the_end(self._runtime, "tablet.truncate", self._truncate)

    async def _truncate(self) -> None:
        async with self._changing:
            self._check_open()
            self.truncating = True
            self.freeze()
            doomed, version = self._memtables[1:], self.last_version
            before, self.truncated_version = self.truncated_version, version
            try:
                await self._files.commit(self._files.live, [], lambda files: self._manifest(files, version))
            except CommitRefused:
                self.truncated_version = before
                raise
            finally:
                self.truncating = False
            self.flushed_version = version
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
        self._runtime.spawn("tablet.drop", self._remove_directory(files, when_gone))

    def _drop_memtables(self) -> None:
        self._memory.frozen += self._active.bytes
        doomed, self._active = self._memtables, Memtable()
        self._memtables = (self._active, *doomed)
        self._forget(doomed)

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

    # ------------------------------------------------------------------------------------------- status

    def statistics(self) -> dict[str, int]:
        return {
            "files": len(self._files.live),
            "file_bytes": sum(file.facts.size for file in self._files.live),
            "file_rows": sum(file.facts.rows for file in self._files.live),
            "memtable_bytes": sum(memtable.bytes for memtable in self._memtables),
            "memtable_partitions": sum(len(memtable.partitions) for memtable in self._memtables),
            "frozen_memtables": self.frozen_count,
            "flushes": self._flushes,
            "compactions": self._compactions,
            "flushed_version": self.flushed_version,
            "last_version": self.last_version,
        }
