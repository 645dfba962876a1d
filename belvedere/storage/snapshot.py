"""A snapshot: the files that held a tablet at one commit version, pinned until released."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from belvedere.model.schema import Table
from belvedere.storage.files import LiveFile
from belvedere.storage.sstable_format import SSTableFacts


class Snapshot:
    """Use as a context manager, or `release` it; until then none of its files is deleted."""

    def __init__(self, tablet: int, table: Table, version: int, files: Sequence[LiveFile]) -> None:
        self.tablet = tablet
        self.table = table
        #: Every write up to this commit version is in the files; later ones may be.
        self.version = version
        self._files = tuple(files)
        self._released = False
        for file in self._files:
            file.pin()

    @property
    def files(self) -> list[tuple[str, SSTableFacts]]:
        return [(file.path, file.facts) for file in self._files]

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
