"""Files that were made elsewhere and become a tablet's: outputs of view builds, and loads.

A load belongs to several tablets, and is there in all of them or in none: the manifests of all become
durable before the files of any are shown, and all are shown in one step. What a crash in between leaves,
whoever began the load knows of (it is *committed* elsewhere) and attaches again: `attached` says which
tablets have it.

Files of a load into a table with views are *staged*: part of the tablet for readers and writers, but the
views do not show them yet. Until they do, the files are not compacted, so that it stays known what they are.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AsyncExitStack

import msgspec

from belvedere.runtime.api import Runtime
from belvedere.runtime.errors import DiskError
from belvedere.storage.errors import CommitRefused, CommitUnknown, ForeignFile
from belvedere.storage.manifest import Manifest, ManifestFile, commit_manifest
from belvedere.storage.sstable_format import CorruptSSTable, SSTableFacts
from belvedere.storage.tablet_compaction import CompactedTablet
from belvedere.storage.tablet_files import FileChange
from belvedere.storage.uninterrupted import to_the_end

Check = Callable[[], None]


class NewFile(msgspec.Struct, frozen=True):
    """A finished sstable that nobody changes any more, durable. It is linked, not moved."""

    path: str
    facts: SSTableFacts


class AttachingTablet(CompactedTablet):
    async def attach(
        self, files: Sequence[NewFile], *, load: str = "", staged: bool = False, check: Check | None = None
    ) -> None:
        """Make the files part of the tablet. Raises CommitRefused, CorruptSSTable, DiskError or what `check`
        raised (nothing happened), or CommitUnknown. `check` is asked when all but the commit is done."""
        await attach_together(self._runtime, [(self, files)], load=load, staged=staged, check=check)

    @property
    def staged_loads(self) -> tuple[str, ...]:
        """Loads whose files the views do not show yet, in the order in which they came."""
        return tuple(dict.fromkeys(file.staged for file in self._files.live if file.staged))

    @property
    def attached(self) -> tuple[str, ...]:
        """Loads that were attached and not settled: attaching them again changes nothing."""
        return self._attached

    async def unstage(self, loads: Collection[str]) -> None:
        """The views show these loads: their files become ordinary."""
        await to_the_end(self._runtime, "tablet.unstage", lambda: self._release(unstaged=loads))

    async def settle(self, loads: Collection[str]) -> None:
        """Nobody will attach these loads again."""
        await to_the_end(self._runtime, "tablet.settle", lambda: self._release(settled=loads))

    async def _release(self, unstaged: Collection[str] = (), settled: Collection[str] = ()) -> None:
        async with self._changing:
            files = [file for file in self._files.live if file.staged in unstaged]
            left = tuple(load for load in self._attached if load not in settled)
            if self.dropped or (not files and left == self._attached):
                return
            numbers = {file.number for file in files}

            def manifest(named: Sequence[ManifestFile]) -> Manifest:
                entries = [
                    msgspec.structs.replace(entry, staged="") if entry.number in numbers else entry
                    for entry in named
                ]
                return self._manifest(entries, self.flushed, left)

            await self._files.commit([], [], manifest)
            self._attached = left
            for file in files:
                file.staged = ""

    # --- the steps of an attachment, while `_changing` is held -------------------------------------------

    def _needs(self, load: str) -> bool:
        return not load or load not in self._attached

    async def _prepare(self, files: Iterable[NewFile], staged: str) -> FileChange:
        files = list(files)
        self._check_tokens(files)
        added = await self._files.take([(file.path, file.facts) for file in files], staged)
        change = await self._files.prepare([], added)
        try:
            self._check_table(change)
        except ForeignFile:
            await self._files.discard(change.added)
            raise
        return change

    def _check_tokens(self, files: Iterable[NewFile]) -> None:
        for file in files:
            facts = file.facts
            if not self.first_token <= facts.min_token <= facts.max_token <= self.last_token:
                raise ForeignFile(f"{file.path} holds tokens that are not of tablet {self.id}")

    def _check_table(self, change: FileChange) -> None:
        for opened in change.opened:
            if opened.sstable.description.table_id != self.table.id.hex():
                raise ForeignFile(f"{opened.path} is not of table {self.table.full_name}")

    async def _make_durable(self, change: FileChange, load: str) -> None:
        attached = (*self._attached, load) if load else self._attached
        await self._files.make_durable(change, lambda files: self._manifest(files, self.flushed, attached))

    def _show(self, change: FileChange, load: str) -> None:
        self._files.show(change)
        self.arrivals += 1
        if load:
            self._attached = (*self._attached, load)

    async def _take_back(self, change: FileChange) -> bool:
        """The manifest names the files, and they were not shown. False if it stays unknown what it names."""
        entries = [file.entry for file in self._files.live]
        try:
            manifest = self._manifest(entries, self.flushed)
            await commit_manifest(self._runtime, self.directory, manifest)
        except (CommitRefused, CommitUnknown):
            return False
        await self._files.discard(change.added)
        return True

    async def _discard(self, change: FileChange) -> None:
        await self._files.discard(change.added)


Part = tuple[AttachingTablet, Sequence[NewFile]]


async def attach_together(
    runtime: Runtime,
    parts: Sequence[Part],
    *,
    load: str = "",
    staged: bool = False,
    check: Check | None = None,
) -> None:
    """Attach files to several tablets, all at once for whoever reads or writes in this process. Tablets that
    have the load already are left out. Raises as `TabletStore.attach` does."""
    await to_the_end(runtime, "tablet.attach", lambda: _attach(runtime, parts, load, staged, check))


async def _attach(
    runtime: Runtime, parts: Sequence[Part], load: str, staged: bool, check: Check | None
) -> None:
    if pause := runtime.buggify("tablet.attach"):
        await pause
    async with AsyncExitStack() as held:
        # In one order for everybody, or two of them could wait for each other for ever.
        for store, _ in sorted(parts, key=lambda part: part[0].id):
            await held.enter_async_context(store._changing)
        for store, _ in parts:
            store._check_open()
        changes: list[tuple[AttachingTablet, FileChange]] = []
        try:
            for store, files in parts:
                if store._needs(load):
                    changes.append((store, await store._prepare(files, load if staged else "")))
            if changes and check is not None:
                check()
        except BaseException:
            for store, change in changes:
                await store._discard(change)
            raise
        await _make_all_durable(changes, load)
        for store, change in changes:
            store._show(change, load)


async def _make_all_durable(changes: Sequence[tuple[AttachingTablet, FileChange]], load: str) -> None:
    for index, (store, change) in enumerate(changes):
        try:
            await store._make_durable(change, load)
        except (CommitRefused, CommitUnknown, DiskError, CorruptSSTable) as error:
            undone = [await earlier._take_back(one) for earlier, one in changes[:index]]
            for later, one in changes[index + 1 :]:
                await later._discard(one)
            if not all(undone):
                raise CommitUnknown(
                    f"files may be part of some tablets and not of others: {error}"
                ) from error
            raise
