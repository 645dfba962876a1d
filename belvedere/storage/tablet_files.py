"""The sstables of one tablet: which count, how a change of them becomes durable, and their removal.

Whoever changes them holds the tablet's lock: changes come one after the other.
"""

import contextlib
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from belvedere.model.schema import Table
from belvedere.runtime.api import Runtime, TaskHandle
from belvedere.runtime.errors import DiskError
from belvedere.storage.errors import CommitUnknown
from belvedere.storage.files import LiveFile, SSTableCache
from belvedere.storage.linking import link_or_copy
from belvedere.storage.manifest import Manifest, ManifestFile, commit_manifest, sidecar_name, sstable_name
from belvedere.storage.sstable_format import BuiltSSTable, SSTableFacts, encode_facts
from belvedere.storage.sstable_read import SSTable

#: Makes the manifest that names these files.
MakeManifest = Callable[[Sequence[ManifestFile]], Manifest]


@dataclass(frozen=True, slots=True)
class FileChange:
    """What becomes of a tablet's files, in steps: prepared, durable, shown."""

    kept: Sequence[LiveFile]
    removed: Sequence[LiveFile]
    added: Sequence[ManifestFile]
    opened: Sequence[LiveFile]


class TabletFiles:
    def __init__(self, runtime: Runtime, directory: str, table: Table, cache: SSTableCache) -> None:
        self.directory = directory
        #: Replaced as a whole, never changed: readers take it and see one instant.
        self.live: tuple[LiveFile, ...] = ()
        #: The number of the next file.
        self.next_number = 1
        self._runtime = runtime
        self._table = table
        self._cache = cache
        self._tasks: list[TaskHandle] = []

    # ------------------------------------------------------------------------------------------ opening

    async def load(self, manifest: Manifest) -> None:
        """Open what the manifest names and remove the rest."""
        self.next_number = manifest.next_file
        # A killed process may have renamed this manifest and not synced the name. From here on it is trusted:
        # files that it does not name go, and the log records that it covers.
        await self._runtime.disk.sync_directory(self.directory)
        await self._remove_strays(manifest)
        self.live = tuple([await self._open(entry) for entry in manifest.files])

    async def _open(self, entry: ManifestFile) -> LiveFile:
        path = f"{self.directory}/{sstable_name(entry.number)}"
        sstable = await SSTable.open(self._runtime, path, entry.facts, self._cache, self._table)
        return LiveFile(entry, path, sstable, self._remove_soon)

    async def _remove_strays(self, manifest: Manifest) -> None:
        """Files of changes that never became real, or that did and were not cleaned up after."""
        wanted = {sstable_name(entry.number) for entry in manifest.files}
        wanted |= {sidecar_name(entry.number) for entry in manifest.files}
        for name in await self._runtime.disk.list(self.directory):
            if name not in wanted and name.startswith("sst-"):
                self._runtime.log("info", "tablet.stray_removed", path=f"{self.directory}/{name}")
                await self._runtime.disk.remove(f"{self.directory}/{name}")

    def use_table(self, table: Table) -> None:
        """A new definition of the same table."""
        self._table = table
        for file in self.live:
            file.sstable.use_table(table)

    # ----------------------------------------------------------------------------------------- changing

    async def write(self, built: BuiltSSTable) -> ManifestFile:
        """Durable on return, though not yet part of the tablet."""
        number, self.next_number = self.next_number, self.next_number + 1
        disk = self._runtime.disk
        try:
            await disk.write(f"{self.directory}/{sstable_name(number)}", built.data)
            await disk.write(f"{self.directory}/{sidecar_name(number)}", encode_facts(built.facts))
            await disk.sync_directory(self.directory)
        except DiskError:
            await self._remove(number)
            raise
        return ManifestFile(number, built.facts)

    async def take(self, files: Iterable[tuple[str, SSTableFacts]], staged: str) -> list[ManifestFile]:
        """The same for files made elsewhere, which stay where they are, too."""
        entries: list[ManifestFile] = []
        disk = self._runtime.disk
        try:
            for path, facts in files:
                number, self.next_number = self.next_number, self.next_number + 1
                entries.append(ManifestFile(number, facts, staged))
                await link_or_copy(disk, path, f"{self.directory}/{sstable_name(number)}")
                await disk.write(f"{self.directory}/{sidecar_name(number)}", encode_facts(facts))
            await disk.sync_directory(self.directory)
        except DiskError:
            await self.discard(entries)
            raise
        return entries

    async def commit(
        self, removed: Sequence[LiveFile], added: Sequence[ManifestFile], manifest: MakeManifest
    ) -> None:
        """Make a change of files durable, then real. Raises CommitUnknown, or what says that nothing
        happened; then the added files are gone."""
        change = await self.prepare(removed, added)
        await self.make_durable(change, manifest)
        self.show(change)

    async def prepare(self, removed: Sequence[LiveFile], added: Sequence[ManifestFile]) -> FileChange:
        kept = [file for file in self.live if not any(file is gone for gone in removed)]
        try:
            opened = [await self._open(entry) for entry in added]
        except Exception:
            await self.discard(added)
            raise
        return FileChange(kept, removed, added, opened)

    async def make_durable(self, change: FileChange, manifest: MakeManifest) -> None:
        """Nobody sees it yet; what changes files next must know whether it is shown."""
        named = [*(file.entry for file in change.kept), *change.added]
        try:
            await commit_manifest(self._runtime, self.directory, manifest(named))
        except CommitUnknown:
            raise
        except Exception:
            await self.discard(change.added)
            raise

    def show(self, change: FileChange) -> None:
        for file in change.opened:
            if file.sstable.table is not self._table:  # It changed meanwhile.
                file.sstable.use_table(self._table)
        self.live = (*change.kept, *change.opened)
        for file in change.removed:
            file.retire()

    def forget(self) -> Sequence[LiveFile]:
        """Let go of all files, without a trace in the manifest: the whole directory will go."""
        files, self.live = self.live, ()
        for file in files:
            file.retire()
        return files

    # ----------------------------------------------------------------------------------------- removing

    async def discard(self, written: Iterable[ManifestFile]) -> None:
        """Remove files that never became part of the tablet."""
        for entry in written:
            await self._remove(entry.number)

    def _remove_soon(self, file: LiveFile) -> None:
        file.sstable.close()
        self.in_background("tablet.remove", self._remove(file.number))

    async def _remove(self, number: int) -> None:
        for name in (sstable_name(number), sidecar_name(number)):
            try:
                await self._runtime.disk.remove(f"{self.directory}/{name}")
            except DiskError as error:
                # It is removed when the tablet is opened again.
                self._runtime.log("debug", "tablet.remove_failed", path=error.path, cause=str(error))

    def in_background(self, name: str, work: Coroutine[Any, Any, None]) -> TaskHandle:
        self._tasks = [task for task in self._tasks if not task.done()]
        task = self._runtime.spawn(name, work)
        self._tasks.append(task)
        return task

    async def settled(self) -> None:
        """Wait for the files that are being written or deleted."""
        while self._tasks:
            with contextlib.suppress(DiskError):  # Whoever wrote was told, or the log was.
                await self._tasks.pop().wait()


class Outputs:
    """Files written by one compaction, until it is decided whether they become the tablet's."""

    def __init__(self, files: TabletFiles) -> None:
        self.entries: list[ManifestFile] = []
        self._files = files
        self._abandoned = False

    async def add(self, built: BuiltSSTable) -> None:
        """Also if the waiting is cancelled: then the file is removed as soon as it is written."""
        if built.facts.rows:
            await self._files.in_background("tablet.write", self._write(built)).wait()

    async def _write(self, built: BuiltSSTable) -> None:
        entry = await self._files.write(built)
        run = self.entries[0].number if self.entries else entry.number
        entry = msgspec.structs.replace(entry, run=run)
        if self._abandoned:
            await self._files.discard([entry])
        else:
            self.entries.append(entry)

    def abandon(self) -> None:
        self._abandoned = True
        self._files.in_background("tablet.discard", self._files.discard(self.entries))
