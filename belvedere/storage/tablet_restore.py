"""A replicated tablet becomes what a snapshot says, all of it and at once."""

from collections.abc import Sequence

import msgspec

from belvedere.model.positions import Position
from belvedere.storage.errors import ForeignFile
from belvedere.storage.manifest import Manifest, ManifestFile, sstable_name
from belvedere.storage.memtable import Reach
from belvedere.storage.tablet_attach import AttachingTablet, NewFile


class Restoration(msgspec.Struct, frozen=True):
    """What the tablet is to be. The files lie in `directory`, by the names that they had elsewhere."""

    directory: str
    files: tuple[ManifestFile, ...]
    position: Position
    truncated_version: int
    attached: tuple[str, ...]
    #: What the commit log has up to here does not count any more; all of it is durable.
    log_floor: int


class RestoringTablet(AttachingTablet):
    async def restore(self, new: Restoration) -> None:
        """Replace everything. The manifest decides: until it is durable nothing has happened. Raises what an
        attachment does; after CommitUnknown nothing may be appended for this tablet: a next start could find
        either. To be carried to its end by whoever calls it."""
        async with self._changing:
            self._check_open()
            self._check_tokens([NewFile("", file.facts) for file in new.files])
            added = await self._take(new)
            change = await self._files.prepare(self._files.live, added)
            try:
                self._check_table(change)
            except ForeignFile:
                await self._files.discard(added)
                raise
            last_version = max(self.last_version, new.position.version)

            def manifest(files: Sequence[ManifestFile]) -> Manifest:
                return msgspec.structs.replace(
                    self._manifest(files, new.position, new.attached),
                    last_version=last_version,
                    truncated_version=new.truncated_version,
                    log_floor=new.log_floor,
                )

            await self._files.make_durable(change, manifest)
            self._drop_memtables()
            self._files.show(change)
            self.last_version = last_version
            self.flushed, self.reach = new.position, Reach(new.position, 0)
            self.truncated_version, self._attached = new.truncated_version, new.attached
            self.log_floor = new.log_floor
            # What was read before is of another life.
            self.truncations += 1

    async def _take(self, new: Restoration) -> list[ManifestFile]:
        taken: list[ManifestFile] = []
        #: The outputs of one compaction are known by the number of the first, here as there.
        runs: dict[int, int] = {}
        try:
            for file in new.files:
                path = f"{new.directory}/{sstable_name(file.number)}"
                (entry,) = await self._files.take([(path, file.facts)], file.staged)
                run = runs.setdefault(file.run, entry.number) if file.run else 0
                taken.append(msgspec.structs.replace(entry, run=run))
        except Exception:
            await self._files.discard(taken)
            raise
        return taken
