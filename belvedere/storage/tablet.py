"""One tablet's rows on this node: memtables over sstables, and the changes between them.

Memtables and files are replaced as whole tuples, so a reader that took them sees one instant. What waits for
disks (flush, compaction, truncation) changes files only while holding `_changing`, and swaps the tuples in
one step after the manifest is durable. Freezing needs no wait: the next write finds a new memtable.
"""

import asyncio
from collections.abc import Callable, Sequence

from belvedere.model.mutations import Mutation
from belvedere.model.rows import NO_TIMESTAMP
from belvedere.model.schema import Table
from belvedere.runtime.api import Runtime, TaskHandle
from belvedere.runtime.errors import DiskError
from belvedere.storage import tablet_changes
from belvedere.storage.compaction import choose, compact
from belvedere.storage.errors import CommitRefused, Dropped
from belvedere.storage.files import LiveFile, Pinned, SSTableCache
from belvedere.storage.manifest import (
    MANIFEST_FORMAT,
    Manifest,
    commit_manifest,
    load_manifest,
    sidecar_name,
    sstable_name,
)
from belvedere.storage.memtable import MemPartition, Memtable
from belvedere.storage.merge import LiveColumns
from belvedere.storage.reads import KeySlice, PartitionRead, PartitionRows, RangeRead, ScanPage
from belvedere.storage.scan import scan
from belvedere.storage.snapshot import Snapshot
from belvedere.storage.sstable_format import BuiltSSTable, SSTableFacts, encode_facts
from belvedere.storage.sstable_read import SSTable
from belvedere.storage.sstable_write import build_sstable
from belvedere.storage.tablet_api import Durability, MemoryUse, TabletInfo
from belvedere.storage.tablet_changes import RowChange, touched
from belvedere.storage.tablet_reads import (
    answers_alone,
    candidates,
    partitions_in,
    read_memory,
    read_now,
    read_waiting,
)


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
        self._cache = cache
        self._memory = memory
        self._active = Memtable()
        self._memtables: tuple[Memtable, ...] = (self._active,)
        self._files: tuple[LiveFile, ...] = ()
        self._next_file = 1
        self._changing = asyncio.Lock()
        self._removals: list[TaskHandle] = []
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
        store._next_file = manifest.next_file
        # A killed process may have renamed this manifest and not synced the name. From here on it is trusted:
        # files that it does not name go, and the log records that it covers.
        await runtime.disk.sync_directory(directory)
        await store._remove_strays(manifest)
        store._files = tuple([await store._open_file(entry.number, entry.facts) for entry in manifest.files])
        return store

    async def _open_file(self, number: int, facts: SSTableFacts) -> LiveFile:
        path = f"{self.directory}/{sstable_name(number)}"
        sstable = await SSTable.open(self._runtime, path, facts, self._cache, self.table)
        return LiveFile(number, path, sstable, self._remove_soon)

    async def _remove_strays(self, manifest: Manifest) -> None:
        """Files of changes that never became real, or that did and were not cleaned up after."""
        wanted = manifest.file_names()
        for name in await self._runtime.disk.list(self.directory):
            if name.startswith("sst-") and name not in wanted:
                self._runtime.log("info", "tablet.stray_removed", path=f"{self.directory}/{name}")
                await self._runtime.disk.remove(f"{self.directory}/{name}")

    def set_table(self, table: Table) -> None:
        """A new definition of the same table."""
        if table is not self.table:
            self.table = table
            self.columns = LiveColumns(table)
            for file in self._files:
                file.sstable.use_table(table)

    # ------------------------------------------------------------------------------------------ writing

    def apply(self, mutation: Mutation, position: int, version: int, size: int) -> None:
        """Merge a mutation that was appended to the log at `position`; `size` is that of its record."""
        if version > self.last_version:
            self.last_version = version
        if not mutation.is_empty:
            self._memory.used += self._active.apply(mutation, position, version, size)

    def reserve_version(self, wall_micros: int) -> int:
        """A commit version of its own: everything written so far is older, everything else is newer."""
        self.last_version = max(self.last_version + 1, wall_micros)
        return self.last_version

    async def save_version(self) -> None:
        """Make `last_version` durable: no lower one is given out again, whatever becomes of log and clock."""
        async with self._changing:
            self._check_open()
            await self._commit([], [], self.flushed_version)

    # ------------------------------------------------------------------------------------------ reading

    def read_now(self, read: PartitionRead, now: int) -> PartitionRows | None:
        """From memory alone, or None."""
        memtables = self._memtables
        if len(memtables) == 1:
            partition = memtables[0].partitions.get(read.key)
            memory: Sequence[MemPartition] = () if partition is None else (partition,)
        else:
            memory = partitions_in(memtables, read.key)
        files: Sequence[LiveFile] = self._files
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
        files = candidates(self._files, read.token)
        result = await read_waiting(memtables, files, read, now, self.columns)
        return self._with_position(result, partitions_in(memtables, read.key))

    def changes_now(self, mutation: Mutation, now: int) -> list[RowChange] | None:
        """What the mutation would change for readers, row by row; None if a disk is needed to tell."""
        memory = partitions_in(self._memtables, mutation.key)
        files = candidates(self._files, mutation.token)
        return tablet_changes.changes_now(memory, files, mutation, now, self.columns)

    async def changes(
        self, mutation: Mutation, now: int, slices: tuple[KeySlice, ...] | None = None
    ) -> list[RowChange]:
        """The same with disk reads; the partition must be held. `slices` must hold all rows it writes."""
        self._check_open()
        files = candidates(self._files, mutation.token)
        looked_at = touched(mutation) if slices is None else slices
        return await tablet_changes.changes_waiting(
            self._memtables, files, mutation, now, self.columns, looked_at
        )

    async def newest_stamp(self, token: int, key: bytes, clustering: bytes) -> int:
        """The largest write time of anything stored of one row, deletions included."""
        files = candidates(self._files, token)
        return await tablet_changes.newest_stamp(self._memtables, files, token, key, clustering)

    async def scan(self, read: RangeRead, now: int) -> ScanPage:
        self._check_open()
        page = await scan(self._runtime, self._memtables, self._files, read, now, self.columns)
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
        async with self._changing:
            if len(self._memtables) == 1 or self.dropped:
                return False
            memtable = self._memtables[-1]
            # A batch over several tablets is in the log whole or not at all; so no part of it may reach a
            # file before its log record is durable.
            await self._log.wait_written(memtable.last_position)
            built = await self._build(memtable)
            added = [(await self._write_file(built), built)] if built.facts.rows else []
            flushed = max(self.flushed_version, memtable.last_version)
            opened = await self._commit([], added, flushed)
            self.flushed_version = flushed
            self._files = (*self._files, *opened)
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

    # -------------------------------------------------------------------------------------------- files

    def _manifest(self, files: Sequence[LiveFile], flushed_version: int) -> Manifest:
        return Manifest(
            MANIFEST_FORMAT,
            self.id,
            self.table.id.hex(),
            self.first_token,
            self.last_token,
            flushed_version,
            self.last_version,
            self._next_file,
            tuple(file.entry for file in files),
            self.truncated_version,
        )

    async def _write_file(self, built: BuiltSSTable) -> int:
        """Durable on return, though not yet part of the tablet."""
        number, self._next_file = self._next_file, self._next_file + 1
        disk = self._runtime.disk
        try:
            await disk.write(f"{self.directory}/{sstable_name(number)}", built.data)
            await disk.write(f"{self.directory}/{sidecar_name(number)}", encode_facts(built.facts))
            await disk.sync_directory(self.directory)
        except DiskError:
            await self._remove_file(number)
            raise
        return number

    async def _commit(
        self, removed: Sequence[LiveFile], added: Sequence[tuple[int, BuiltSSTable]], flushed_version: int
    ) -> list[LiveFile]:
        """Make a change of files durable; returns the added ones, open. `_changing` is held."""
        opened = []
        try:
            for number, built in added:
                opened.append(await self._open_file(number, built.facts))
            keep = [file for file in self._files if not any(file is gone for gone in removed)]
            await commit_manifest(
                self._runtime, self.directory, self._manifest([*keep, *opened], flushed_version)
            )
        except (CommitRefused, DiskError):
            # Nothing happened, for certain: the new files are nobody's.
            for number, _ in added:
                await self._remove_file(number)
            raise
        return opened

    def _remove_soon(self, file: LiveFile) -> None:
        file.sstable.close()
        self._removals = [task for task in self._removals if not task.done()]
        self._removals.append(self._runtime.spawn("tablet.remove", self._remove_file(file.number)))

    async def _remove_file(self, number: int) -> None:
        for name in (sstable_name(number), sidecar_name(number)):
            try:
                await self._runtime.disk.remove(f"{self.directory}/{name}")
            except DiskError as error:
                # It is removed when the tablet is opened again.
                self._runtime.log("debug", "tablet.remove_failed", path=error.path, cause=str(error))

    async def removals(self) -> None:
        """Wait for the files that are being deleted."""
        while self._removals:
            await self._removals.pop().wait()

    # --------------------------------------------------------------------------------------- compaction

    def wants_compaction(self, now: int | None = None) -> bool:
        """`now` given: files of mostly tombstones count, too."""
        return not self.dropped and self._choose(now) is not None

    def _choose(self, now: int | None) -> list[int] | None:
        facts = [file.facts for file in self._files]
        chosen = choose(facts)
        if chosen is None and now is not None and not self.tombstones_needed:
            gc_before = now - self.table.gc_grace_seconds
            if any(f.max_second < gc_before and 2 * f.tombstones > f.rows for f in facts):
                chosen = choose(facts, gc_before=gc_before, oldest_in_memory=self._oldest_in_memory())
        return chosen

    def _oldest_in_memory(self) -> int:
        found = [oldest for m in self._memtables if (oldest := m.min_timestamp()) is not None]
        return min(found, default=2**63 - 1)

    async def compact(self, now: int, everything: bool = False) -> bool:
        """Merge some files (`everything`: all of them); False if there is nothing to do."""
        files = self._files
        chosen = list(range(len(files))) if everything else self._choose(now)
        if not chosen or self.dropped:
            return False
        inputs = [files[index] for index in chosen]
        with Pinned(inputs):
            purge_before = self._purge_before(inputs, now)
            tables = [file.sstable for file in inputs]
            built = await compact(self._runtime, self.table, tables, now, purge_before)
            await self._replace(inputs, built)
        return True

    async def _replace(self, inputs: Sequence[LiveFile], outputs: Sequence[BuiltSSTable]) -> None:
        async with self._changing:
            if self.dropped or not all(any(file is f for f in self._files) for file in inputs):
                return  # Truncated meanwhile.
            added = [(await self._write_file(built), built) for built in outputs if built.facts.rows]
            opened = await self._commit(inputs, added, self.flushed_version)
            kept = [file for file in self._files if not any(file is gone for gone in inputs)]
            self._files = (*kept, *opened)
            for file in inputs:
                file.retire()
            self._compactions += 1

    def _purge_before(self, inputs: Sequence[LiveFile], now: int) -> int:
        """Tombstones older than this time may go, once their grace is over: nothing outside the inputs is as
        old. Looking through the memtables is only worth it if there are such tombstones."""
        grace = now - self.table.gc_grace_seconds
        if self.tombstones_needed:
            return NO_TIMESTAMP
        if not any(file.facts.max_second and file.facts.min_second <= grace for file in inputs):
            return NO_TIMESTAMP
        others = [file for file in self._files if not any(file is chosen for chosen in inputs)]
        return min([self._oldest_in_memory(), *(file.facts.min_timestamp for file in others)])

    # ---------------------------------------------------------------------- snapshots, truncation, drop

    async def snapshot(self) -> Snapshot:
        """Flush, and pin the files."""
        self._check_open()
        version = self.last_version
        await self.flush()
        return Snapshot(self.id, self.table, max(version, self.flushed_version), self._files)

    async def truncate(self) -> None:
        """Remove what was written up to now. What is written while this waits stays."""
        async with self._changing:
            self._check_open()
            self.truncating = True
            self.freeze()
            doomed, files, version = self._memtables[1:], self._files, self.last_version
            before, self.truncated_version = self.truncated_version, version
            try:
                await self._commit(files, [], version)
            except CommitRefused:
                self.truncated_version = before
                raise
            finally:
                self.truncating = False
            self.flushed_version = version
            self._files = ()
            self._forget(doomed)
            self.truncations += 1
            for file in files:
                file.retire()

    async def truncated(self) -> None:
        """Wait until a truncation that is under way is over."""
        while self.truncating:
            await self._changing.acquire()
            self._changing.release()

    async def drop(self, when_gone: Callable[[], None]) -> None:
        """Forget everything; call back when the last reader let go of the last file."""
        self.dropped = True
        async with self._changing:
            self.freeze_away()
            files, self._files = self._files, ()
            for file in files:
                file.retire()
        self._runtime.spawn("tablet.drop", self._remove_directory(files, when_gone))

    def freeze_away(self) -> None:
        """Drop all memtables."""
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
            "files": len(self._files),
            "file_bytes": sum(file.facts.size for file in self._files),
            "file_rows": sum(file.facts.rows for file in self._files),
            "memtable_bytes": sum(memtable.bytes for memtable in self._memtables),
            "memtable_partitions": sum(len(memtable.partitions) for memtable in self._memtables),
            "frozen_memtables": self.frozen_count,
            "flushes": self._flushes,
            "compactions": self._compactions,
            "flushed_version": self.flushed_version,
            "last_version": self.last_version,
        }
