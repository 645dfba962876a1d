"""A tablet's sstables as long as somebody reads them.

A file is deleted when it is out of the manifest for certain and nobody holds it: readers, compaction and
snapshots pin the files they look at.
"""

from collections.abc import Callable, Iterable

from belvedere.storage.cache import GroupCache
from belvedere.storage.manifest import ManifestFile
from belvedere.storage.sstable_format import SSTableFacts
from belvedere.storage.sstable_group import DecodedGroup
from belvedere.storage.sstable_read import SSTable

#: The node's decoded row groups.
SSTableCache = GroupCache[DecodedGroup]


class LiveFile:
    __slots__ = (
        "_on_unused",
        "facts",
        "max_timestamp",
        "max_token",
        "min_token",
        "number",
        "obsolete",
        "path",
        "pins",
        "run",
        "sstable",
        "staged",
    )

    def __init__(
        self, entry: ManifestFile, path: str, sstable: SSTable, on_unused: Callable[["LiveFile"], None]
    ) -> None:
        self.number = entry.number
        self.run = entry.run
        #: The load that brought it, as long as the views do not show it.
        self.staged = entry.staged
        self.path = path
        self.sstable = sstable
        self.facts: SSTableFacts = sstable.facts
        # Asked by every read.
        self.min_token = sstable.facts.min_token
        self.max_token = sstable.facts.max_token
        self.max_timestamp = sstable.facts.max_timestamp
        self.pins = 0
        self.obsolete = False
        self._on_unused = on_unused

    @property
    def entry(self) -> ManifestFile:
        return ManifestFile(self.number, self.facts, self.staged, self.run)

    def pin(self) -> None:
        self.pins += 1

    def unpin(self) -> None:
        self.pins -= 1
        if self.obsolete and not self.pins:
            self._on_unused(self)

    def retire(self) -> None:
        """The manifest does not name the file any more, for certain."""
        self.obsolete = True
        if not self.pins:
            self._on_unused(self)


class Pinned:
    """`with Pinned(files):` keeps them on disk."""

    __slots__ = ("_files",)

    def __init__(self, files: Iterable[LiveFile]) -> None:
        self._files = tuple(files)

    def __enter__(self) -> None:
        for file in self._files:
            file.pin()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is GeneratorExit:
            return  # Not ended but thrown away, with its event loop: nothing can be removed any more.
        for file in self._files:
            file.unpin()
