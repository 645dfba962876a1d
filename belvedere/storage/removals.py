"""Directories of tables and tablets that are gone: removed in the end, whatever interrupts it."""

from collections.abc import Collection

from belvedere.runtime.api import Runtime
from belvedere.runtime.errors import DiskError

_MARK = "dropped"


class Removals:
    def __init__(self, runtime: Runtime, root: str) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self._root = root

    async def mark(self, directory: str) -> None:
        """So that the next start finishes what a crash interrupts."""
        try:
            await self._disk.write(f"{directory}/{_MARK}", b"")
            await self._disk.sync_directory(directory)
        except DiskError as error:
            self._runtime.log("warning", "engine.drop_mark_failed", path=directory, cause=str(error))

    async def remove(self, directory: str) -> None:
        try:
            await self._disk.remove_tree(directory)
        except DiskError as error:
            self._runtime.log("warning", "engine.drop_failed", path=directory, cause=str(error))

    async def finish(self, directory: str) -> bool:
        """Whether it was to be removed."""
        marked = await self._disk.exists(f"{directory}/{_MARK}")
        if marked:
            await self.remove(directory)
        return marked

    async def finish_tables(self, known: Collection[str]) -> None:
        """Drops that a crash interrupted. Directories of tables that nobody knows are kept: it may be the
        metadata that is wrong."""
        for name in await self._disk.list(self._root):
            path = f"{self._root}/{name}"
            if not await self.finish(path) and path not in known:
                self._runtime.log("warning", "engine.unknown_table", path=path)

    async def finish_tablets(self, tables: Collection[str]) -> None:
        """The same for single tablets, which leave a node of a cluster."""
        for table in tables:
            for name in await self._disk.list(table):
                await self.finish(f"{table}/{name}")
