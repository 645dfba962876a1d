"""Reads from outside: a table's files as of one cut, put into the exchange for whoever reads them there."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from belvedere.model.schema import Table
from belvedere.pipeline.exchange import Exchange
from belvedere.pipeline.schema_of import schema_entries
from belvedere.pipeline.tasks import InputFile
from belvedere.query.database import Database
from belvedere.query.errors import InvalidRequest
from belvedere.runtime.api import Runtime
from belvedere.storage.snapshot import Snapshot
from belvedere.storage.tablet import TabletStore

#: A read that nobody ended is given up after so long.
KEPT_SECONDS: Final = 3600.0
_PREFIX: Final = "read-"


@dataclass(frozen=True, slots=True)
class Read:
    id: str
    directory: str
    #: JSON: schema, table, now, tablets.
    description: str
    #: What a reader of a view should know: that it does not show everything yet.
    warnings: tuple[str, ...]


class Reads:
    """`stop` it before the database closes. A restart forgets all reads."""

    def __init__(
        self, runtime: Runtime, database: Database, exchange: Exchange, *, kept_seconds: float = KEPT_SECONDS
    ) -> None:
        self._runtime = runtime
        self._database = database
        self._exchange = exchange
        self._kept_seconds = kept_seconds
        #: What stops the clock of each.
        self._begun: dict[str, Callable[[], None]] = {}

    async def stop(self) -> None:
        for give_up in self._begun.values():
            give_up()
        self._begun.clear()

    async def begin(self, table: Table) -> Read:
        """Every write up to now is in it, loads whole or not at all. Raises InvalidRequest for a view that
        may not be read yet."""
        access, state = self._database.access, self._database.state
        warnings = () if table.view is None else access.view_warnings(table)
        stores = await access.stores(table)
        now = self._runtime.clock.wall_micros() // 1_000_000
        snapshots = await self._database.engine.snapshots(stores)
        read = f"{_PREFIX}{self._runtime.random.uuid_bytes().hex()}"
        try:
            tablets = [
                await self._tablet(read, store, snapshot)
                for store, snapshot in zip(stores, snapshots, strict=True)
            ]
        except BaseException:
            await self._exchange.discard(read)
            raise
        finally:
            for snapshot in snapshots:
                snapshot.release()
        self._begun[read] = self._runtime.call_later(self._kept_seconds, lambda: self._give_up(read))
        description = {
            "schema": schema_entries(state, [table]),
            "table": table.id.hex(),
            "now": now,
            "tablets": tablets,
        }
        directory = self._exchange.job_directory(read)
        return Read(read, directory, msgspec.json.encode(description).decode(), warnings)

    async def _tablet(self, read: str, store: TabletStore, snapshot: Snapshot) -> dict[str, object]:
        inputs: list[InputFile] = []
        if snapshot.files:
            inputs = await self._exchange.publish(read, snapshot.files)
        return {
            "tablet": store.id,
            "first_token": str(store.first_token),
            "last_token": str(store.last_token),
            "inputs": inputs,
        }

    async def end(self, read: str) -> None:
        """Nobody reads it any more. Fine if it is over already."""
        if not read.startswith(_PREFIX) or "/" in read:
            raise InvalidRequest(f"There is no read {read}")
        give_up = self._begun.pop(read, None)
        if give_up is not None:
            give_up()
            await self._exchange.discard(read)

    def _give_up(self, read: str) -> None:
        if self._begun.pop(read, None) is not None:
            self._runtime.log("info", "reads.given_up", read=read)
            self._runtime.spawn("reads.discard", self._exchange.discard(read))
