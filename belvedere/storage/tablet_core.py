"""What all of a tablet's changes stand on: its versions, memtables and files, and the manifest of these.

Memtables and files are replaced as whole tuples, so a reader that took them sees one instant. What waits for
disks (flush, compaction, truncation, files from outside) changes files only while holding `_changing`, and
swaps the tuples in one step after the manifest is durable. Such a change is carried to its end even if its
caller goes away. Freezing needs no wait: the next write finds a new memtable.
"""

import asyncio
from collections.abc import Sequence

from belvedere.model.mutations import Mutation
from belvedere.model.positions import NOWHERE, Position
from belvedere.model.schema import Table
from belvedere.runtime.api import Runtime
from belvedere.storage.errors import Dropped
from belvedere.storage.files import SSTableCache
from belvedere.storage.manifest import MANIFEST_FORMAT, Manifest, ManifestFile
from belvedere.storage.memtable import MemoryUse, Memtable, Merge, Reach
from belvedere.storage.merge import LiveColumns
from belvedere.storage.sstable_write import build_sstable
from belvedere.storage.tablet_api import Durability, TabletInfo
from belvedere.storage.tablet_files import TabletFiles
from belvedere.storage.uninterrupted import to_the_end


class TabletCore:
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
        self.flushed = NOWHERE
        #: Of a replicated tablet: the record that was applied last.
        self.reach: Reach | None = None
        #: Of a replicated tablet: older entries of the commit log are not of this life of the tablet.
        self.log_floor = 0
        self.truncated_version = 0
        #: How often all rows went: who had read some before must read again, and wait while it happens.
        self.truncations = 0
        #: How often files from elsewhere became part of the tablet: what was read before is not all there is.
        self.arrivals = 0
        self.truncating = False
        #: While this is above 0, rows older than what is here may still arrive: tombstones must stay.
        self.tombstones_needed = 0
        self._runtime = runtime
        self._log = log
        self._memory = memory
        self._active = Memtable()
        self._memtables: tuple[Memtable, ...] = (self._active,)
        self._files = TabletFiles(runtime, directory, table, cache)
        self._attached: tuple[str, ...] = ()
        self._changing = asyncio.Lock()
        self._flushes = 0
        self._compactions = 0

    def set_table(self, table: Table) -> None:
        """A new definition of the same table: before anything is written that only it knows."""
        if table is not self.table and table != self.table:
            self.table = table
            self.columns = LiveColumns(table)
            self._files.use_table(table)

    # ------------------------------------------------------------------------------------------ writing

    def apply(
        self, mutation: Mutation, position: int, version: int, size: int, known: Merge | None = None
    ) -> None:
        """Merge a mutation that was appended to the log at `position`; `size` is that of its record."""
        if version > self.last_version:
            self.last_version = version
        if mutation.rows or not mutation.is_empty:
            self._memory.used += self._active.apply(mutation, position, version, size, known)

    def reserve_version(self, wall_micros: int) -> int:
        """A commit version of its own: everything written so far is older, everything else is newer."""
        self.last_version = max(self.last_version + 1, wall_micros)
        return self.last_version

    async def save_version(self) -> None:
        """Make `last_version` durable: no lower one is given out again, whatever becomes of log and clock."""
        await to_the_end(self._runtime, "tablet.save_version", self._save_version)

    async def _save_version(self) -> None:
        async with self._changing:
            self._check_open()
            flushed = self.flushed
            await self._files.commit([], [], lambda files: self._manifest(files, flushed))

    @property
    def flushed_version(self) -> int:
        return self.flushed.version

    @property
    def written(self) -> Position:
        """Everything up to here was applied."""
        return Position(0, self.last_version) if self.reach is None else self.reach.position

    @property
    def upheavals(self) -> int:
        """How often rows came or went otherwise than by a write."""
        return self.truncations + self.arrivals

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
        if self.dropped or not (self._active.partitions or self._has_moved_on()):
            return False
        self._active.reach = self.reach
        self._memory.frozen += self._active.bytes
        self._active = Memtable()
        self._memtables = (self._active, *self._memtables)
        return True

    def _has_moved_on(self) -> bool:
        """Whether records were applied that changed nothing, and are in the log alone."""
        if self.reach is None:
            return False
        frozen = self._memtables[1].reach if len(self._memtables) > 1 else None
        return self.reach.position.version > max(
            self.flushed.version, frozen.position.version if frozen else 0
        )

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
            reach = memtable.reach
            await self._log.wait_written(memtable.last_position if reach is None else reach.log)
            added = await self._write_out(memtable) if memtable.partitions else []
            flushed = Position(0, memtable.last_version) if reach is None else reach.position
            if flushed.version < self.flushed.version:
                flushed = self.flushed
            await self._files.commit([], added, lambda files: self._manifest(files, flushed))
            self.flushed = flushed
            self._forget([memtable])
            self._flushes += 1
            return True

    async def flush(self) -> None:
        """Everything written so far goes to files."""
        self.freeze()
        while await self.flush_oldest():
            pass

    async def _write_out(self, memtable: Memtable) -> list[ManifestFile]:
        table, first, last = self.table, self.flushed_version + 1, memtable.last_version
        built = await self._runtime.compute(
            lambda: build_sstable(table, memtable.stored_partitions(), first_version=first, last_version=last)
        )
        return [await self._files.write(built)] if built.facts.rows else []

    def _forget(self, memtables: Sequence[Memtable]) -> None:
        gone = list(memtables)
        self._memtables = tuple(m for m in self._memtables if not any(m is g for g in gone))
        for memtable in gone:
            self._memory.used -= memtable.bytes
            self._memory.frozen -= memtable.bytes

    def _drop_memtables(self) -> None:
        self._memory.frozen += self._active.bytes
        doomed, self._active = self._memtables, Memtable()
        self._memtables = (self._active, *doomed)
        self._forget(doomed)

    def _manifest(
        self,
        files: Sequence[ManifestFile],
        flushed: Position,
        attached: tuple[str, ...] | None = None,
    ) -> Manifest:
        return Manifest(
            MANIFEST_FORMAT,
            self.id,
            self.table.id.hex(),
            self.first_token,
            self.last_token,
            flushed.version,
            self.last_version,
            self._files.next_number,
            tuple(files),
            self.truncated_version,
            self._attached if attached is None else attached,
            flushed.epoch,
            self.log_floor,
        )

    async def removals(self) -> None:
        """Wait for the change under way, and for files that are being deleted."""
        async with self._changing:
            pass
        await self._files.settled()

    # ------------------------------------------------------------------------------------------- status

    def statistics(self) -> dict[str, int]:
        return {
            "files": len(self._files.live),
            "staged_files": sum(bool(file.staged) for file in self._files.live),
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
