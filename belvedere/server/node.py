"""One node: a data directory, its metadata store, the database over both, and in which order they start and stop."""

from dataclasses import dataclass
from typing import Self

from belvedere.meta.metadata import Metadata
from belvedere.meta.sqlite import SqliteStore
from belvedere.query.database import Database, DatabaseOptions
from belvedere.runtime.api import Lock, Runtime
from belvedere.runtime.errors import AlreadyLocked


class DataDirectoryInUse(Exception):
    """Two processes must never write one data directory."""


@dataclass(slots=True)
class Node:
    """A started node without any socket; the protocol server is put in front of `database`."""

    database: Database
    data: str
    _lock: Lock
    _metadata: Metadata

    @classmethod
    async def start(cls, runtime: Runtime, data: str, options: DatabaseOptions) -> Self:
        await runtime.disk.make_directory(data)
        try:
            lock = await runtime.disk.lock(f"{data}/lock")
        except AlreadyLocked as error:
            raise DataDirectoryInUse(f"another process is using the data directory {data}") from error
        store = SqliteStore(f"{data}/metadata.sqlite")
        try:
            await store.open()
            metadata = Metadata(runtime, store)
            await metadata.start()
            database = await Database.open(runtime, f"{data}/node", metadata, options)
        except BaseException:
            await store.close()
            await lock.release()
            raise
        return cls(database, data, lock, metadata)

    async def stop(self) -> None:
        """Users first, then what they stand on: database (log, memtables), metadata, the directory's lock."""
        await self.database.close()
        await self._metadata.stop()
        await self._lock.release()
