"""Committed loads on their way into their tables' tablets. Each step may be done again.

1. The files are attached to all tablets in one step, staged: writers know that views may not show them.
2. The load's record goes. If the table has views, the staging entries stay, and views take it from there.
3. Tablets forget that they have the load; without views its files become ordinary. The exchange is cleared.

A tablet that has a load which was not settled keeps its id, so a step that is done again finds out; without
a record nobody does it again. The record goes before the ids do: had the ids gone first, a crash in between
would bring back rows that were deleted since.
"""

from collections.abc import Sequence

import crc32c
import msgspec

from belvedere.meta import load_records, view_records
from belvedere.meta.load_records import LoadRecord
from belvedere.pipeline.exchange import Exchange
from belvedere.pipeline.tasks import OutputFile
from belvedere.query.database import Database
from belvedere.runtime.api import Runtime
from belvedere.runtime.errors import DiskError, FileMissing
from belvedere.storage.errors import Corrupt
from belvedere.storage.tablet import TabletStore
from belvedere.storage.tablet_attach import NewFile

#: The list that was committed, in the load's directory.
COMMITTED_NAME = "committed.json"


class LoadList(msgspec.Struct, frozen=True):
    outputs: list[OutputFile]


async def save_list(runtime: Runtime, directory: str, outputs: Sequence[OutputFile]) -> LoadRecord:
    """A list that nobody else writes, durable."""
    data = msgspec.json.encode(LoadList(list(outputs)))
    path = f"{directory}/{COMMITTED_NAME}"
    await runtime.disk.write(path, data)
    await runtime.disk.sync_directory(directory)
    return LoadRecord(path, crc32c.crc32c(data), sorted({output.tablet for output in outputs}))


class LoadFiles:
    def __init__(self, runtime: Runtime, database: Database, exchange: Exchange) -> None:
        self._runtime = runtime
        self._database = database
        self._engine, self._metadata = database.engine, database.metadata
        self._exchange = exchange

    async def finish(self, table: bytes, load: str) -> None:
        """Make a committed load part of its table; fine if it is, or if the table's rows went meanwhile."""
        await self._database.access.align()
        async with self._database.access.changing_tables:
            record = self._record(table, load)
            if record is not None and table in self._database.state.tables_by_id:
                await self._attach(table, load, record)
            if pause := self._runtime.buggify("loads.attached"):
                await pause
            await self._metadata.commit(lambda state: load_records.finishing(state, table, load))
        await self._settle(self._engine.stores_of(table))
        await self._discard(load)

    async def recover(self) -> None:
        for table, load, _ in list(load_records.open_loads(self._database.state)):
            try:
                await self.finish(table, load)
            except FileMissing as error:
                raise Corrupt(
                    f"load {load} was committed and is to become part of its table, but a file of it is "
                    f"missing: {error}"
                ) from error
        await self._settle(list(self._engine.stores.values()))

    def _record(self, table: bytes, load: str) -> LoadRecord | None:
        found = load_records.open_loads(self._database.state)
        return next((record for one, name, record in found if (one, name) == (table, load)), None)

    async def _attach(self, table: bytes, load: str, record: LoadRecord) -> None:
        stores = {store.id: store for store in self._engine.stores_of(table)}
        if all(load in stores[tablet].attached for tablet in record.tablets):
            return
        data = await self._runtime.disk.read(record.path)
        if crc32c.crc32c(data) != record.crc32c:
            raise Corrupt(f"{record.path} is damaged: it is not the list of files that was committed")
        parts: dict[int, list[NewFile]] = {}
        for output in msgspec.json.decode(data, type=LoadList).outputs:
            parts.setdefault(output.tablet, []).append(NewFile(output.path, output.facts))
        found = [(stores[tablet], files) for tablet, files in parts.items()]
        for store, _ in found:
            # Like a write, a load leaves a version that is not below the write times given to it.
            store.reserve_version(self._database.access.next_timestamp())
        await self._engine.attach(found, load=load, staged=True)

    async def _settle(self, stores: Sequence[TabletStore]) -> None:
        """Whatever of loads tablets remember and nobody needs any more."""
        for store in stores:
            # What a tablet has and what the state says, at one instant: another load may come any time.
            state, table = self._database.state, store.table.id
            unfinished = {load for _, load, _ in load_records.open_loads(state)}
            open_staging = view_records.open_staging(state, table)
            wanted = unfinished | {load for tablet, load, _ in open_staging if tablet == store.id}
            over, unstaged = set(store.attached) - unfinished, set(store.staged_loads) - wanted
            await store.settle(over)
            await store.unstage(unstaged)
        self._engine.consider_compaction(stores)

    async def _discard(self, load: str) -> None:
        try:
            await self._exchange.discard(load)
        except DiskError as error:
            self._runtime.log("debug", "loads.not_discarded", load=load, cause=str(error))
