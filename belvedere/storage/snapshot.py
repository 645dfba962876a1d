"""A snapshot: the files that held a tablet at one commit version, pinned until released."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from belvedere.model.schema import Table
from belvedere.storage.files import LiveFile
from belvedere.storage.manifest import ManifestFile
from belvedere.storage.memtable import Memtable
from belvedere.storage.sstable_format import SSTableFacts


@dataclass(frozen=True, slots=True)
class Cut:
    """An instant of a tablet that is to become a snapshot."""

    #: The last commit version before it.
    version: int
    #: What was frozen then, or last before; older ones are flushed before it.
    memtables: Sequence[Memtable]


class Snapshot:
    """Use as a context manager, or `release` it; until then none of its files is deleted."""

    def __init__(self, tablet: int, table: Table, version: int, files: Sequence[LiveFile]) -> None:
        self.tablet = tablet
        self.table = table
        #: Every write up to this commit version is in the files; later ones may be.
        self.version = version
        self._files = tuple(files)
        #: The load of each file that views do not show yet, "" for ordinary ones: as it was at the time.
        self._staged = [file.staged for file in self._files]
        self._released = False
        for file in self._files:
            file.pin()

    @property
    def files(self) -> list[tuple[str, SSTableFacts]]:
        return [(file.path, file.facts) for file in self._files]

    @property
    def entries(self) -> tuple[ManifestFile, ...]:
        """The files as a manifest names them."""
        return tuple(
            ManifestFile(file.number, file.facts, staged, file.run)
            for file, staged in zip(self._files, self._staged, strict=True)
        )

    @property
    def ordinary(self) -> list[tuple[str, SSTableFacts]]:
        """The files whose rows views show, or will by what writers do."""
        return [file for file, staged in zip(self.files, self._staged, strict=True) if not staged]

    @property
    def staged(self) -> list[tuple[str, str, SSTableFacts]]:
        """(load, path, facts) of the others, in the order in which they came."""
        return [(staged, *file) for file, staged in zip(self.files, self._staged, strict=True) if staged]

    def release(self) -> None:
        if not self._released:
            self._released = True
            for file in self._files:
                file.unpin()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
