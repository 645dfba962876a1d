"""Loads: files that were made elsewhere become part of a table, all at once.

`begin` gives a loader a directory of the exchange and what it must know. It puts sorted sstables there and
their list, `load.json`. `commit` checks these and commits the load in one metadata transaction; from then on
it becomes part of all tablets, whatever happens (`LoadFiles`). Until then nothing of it counts: a load that
is not committed is forgotten by a restart, and after a day.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from belvedere.meta import load_records
from belvedere.meta.load_records import LoadRecord
from belvedere.meta.state import ClusterState
from belvedere.meta.store import MetadataError
from belvedere.model.schema import Table
from belvedere.pipeline.exchange import Exchange
from belvedere.pipeline.load_files import LoadFiles, LoadList, save_list
from belvedere.pipeline.schema_of import schema_entries
from belvedere.pipeline.tasks import OutputFile
from belvedere.query.database import Database
from belvedere.query.errors import InvalidRequest, ServerError
from belvedere.query.modify.attributes import MAX_TTL, check_timestamp
from belvedere.query.modify.checks import check_writable
from belvedere.runtime.api import Runtime, TaskHandle
from belvedere.runtime.errors import DiskError, FileMissing
from belvedere.storage.tablet import TabletStore

#: A load that was begun and not committed is given up after so long.
KEPT_SECONDS: Final = 86_400.0
_PREFIX: Final = "load-"
#: What the loader leaves in its directory.
LIST_NAME: Final = "load.json"
_FIRST_PAUSE, _LAST_PAUSE = 0.1, 10.0
#: Loads that came to their end are remembered, up to so many.
_REMEMBERED: Final = 1000


@dataclass(frozen=True, slots=True)
class Load:
    id: str
    directory: str
    #: JSON: schema, table, tablets, timestamp, ttl, now.
    description: str


@dataclass(slots=True)
class _Begun:
    table: Table
    #: Deletions that were newer than the load when it began must not be forgotten before it is there.
    stores: Sequence[TabletStore]
    give_up: Callable[[], None]


class Loads:
    """`recover` before anything is served, and before views start; `stop` before the database closes."""

    def __init__(
        self,
        runtime: Runtime,
        database: Database,
        exchange: Exchange,
        *,
        kept_seconds: float = KEPT_SECONDS,
    ) -> None:
        self._runtime = runtime
        self._database = database
        self._exchange = exchange
        self._files = LoadFiles(runtime, database, exchange)
        self._kept_seconds = kept_seconds
        self._begun: dict[str, _Begun] = {}
        #: Commits under way, and those that came to their end: asked again, they give the same answer.
        self._commits: dict[str, TaskHandle] = {}
        self._stopping = False

    def kept(self) -> set[str]:
        """The jobs in the exchange whose files are still needed."""
        return {load for _, load, _ in load_records.open_loads(self._database.state)}

    async def recover(self) -> None:
        """What was committed becomes part of its table. Raises if that cannot be: half of a load must not be
        served."""
        await self._files.recover()

    async def stop(self) -> None:
        """Commits that are under way are taken up again by the next start."""
        self._stopping = True
        for begun in self._begun.values():
            begun.give_up()
        running = [task for task in self._commits.values() if not task.done()]
        for task in running:
            task.cancel()
        for task in running:
            await task.wait()

    # --- beginning and giving up -----------------------------------------------------------------------

    async def begin(self, table: Table, options: Mapping[str, Any]) -> Load:
        """Options: `timestamp`, the write time of all rows in µs, and `ttl` in seconds."""
        check_loadable(table)
        timestamp, ttl = _options(table, options)
        access = self._database.access
        stores = await access.stores(table)
        description = {
            "schema": schema_entries(self._database.state, [table]),
            "table": table.id.hex(),
            "tablets": [[store.id, str(store.first_token), str(store.last_token)] for store in stores],
            "timestamp": access.next_timestamp() if timestamp is None else timestamp,
            "ttl": ttl,
            "now": self._runtime.clock.wall_micros() // 1_000_000,
        }
        load = f"{_PREFIX}{self._runtime.random.uuid_bytes().hex()}"
        self._begun[load] = _Begun(table, stores, self._give_up_later(load))
        for store in stores:
            store.tombstones_needed += 1
        directory = self._exchange.job_directory(load)
        try:
            await self._runtime.disk.make_directory(directory)
        except BaseException:
            self._end(load)
            raise
        return Load(load, directory, msgspec.json.encode(description).decode())

    async def abort(self, load: str) -> None:
        """Nothing of it will ever be part of the table. Fine if it is gone already."""
        if load in self._commits:
            raise InvalidRequest(f"Load {load} was committed")
        if not load.startswith(_PREFIX) or "/" in load:
            raise InvalidRequest(f"There is no load {load}")
        self._end(load)
        if load not in self.kept():
            await self._exchange.discard(load)

    def _give_up_later(self, load: str) -> Callable[[], None]:
        return self._runtime.call_later(self._kept_seconds, lambda: self._give_up(load))

    def _give_up(self, load: str) -> None:
        begun = self._begun.get(load)
        if begun is None or self._stopping:
            return
        if load in self._commits:
            # Its files are needed, however long that takes; if it is not committed after all, only till then.
            begun.give_up = self._give_up_later(load)
            return
        self._runtime.log("info", "loads.given_up", load=load)
        self._end(load)
        self._runtime.spawn("loads.discard", self._exchange.discard(load))

    def _end(self, load: str) -> None:
        begun = self._begun.pop(load, None)
        if begun is not None:
            begun.give_up()
            for store in begun.stores:
                store.tombstones_needed -= 1

    # --- committing ------------------------------------------------------------------------------------

    async def commit(self, load: str) -> None:
        """Make it part of the table. Whoever asks again, while this waits or later, gets the same answer."""
        running = self._commits.get(load)
        if running is None:
            begun = self._begun.get(load)
            if begun is None or self._stopping:
                raise InvalidRequest(f"There is no load {load} to commit: it was committed, or given up")
            running = self._commits[load] = self._runtime.spawn("loads.commit", self._commit(load, begun))
        await running.wait()
        if self._stopping and load in self._begun:
            raise ServerError(f"The node stops; whether load {load} is committed, its next start will show")

    async def _commit(self, load: str, begun: _Begun) -> None:
        try:
            record = await self._check(load, begun.table)
            # Truncations come before all of this, or after it.
            async with self._database.access.changing_tables:
                await self._write_down(load, begun.table, record)
        except Exception:
            # Certainly not committed: the loader may mend it and ask again, or give up.
            del self._commits[load]
            raise
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._files.finish(begun.table.id, load)
                break
            except Exception as error:
                # It is committed: there is no way back.
                self._runtime.log("warning", "loads.not_finished", load=load, cause=str(error))
                await self._runtime.clock.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
        self._end(load)
        over = [one for one, task in self._commits.items() if task.done()]
        for one in over[: max(0, len(over) - _REMEMBERED)]:
            del self._commits[one]

    async def _check(self, load: str, table: Table) -> LoadRecord:
        """That all files are there and belong to the table's tablets. Returns what is to be committed."""
        directory = self._exchange.job_directory(load)
        try:
            data = await self._runtime.disk.read(f"{directory}/{LIST_NAME}")
            outputs = msgspec.json.decode(data, type=LoadList).outputs
        except (FileMissing, msgspec.DecodeError) as error:
            raise InvalidRequest(f"Load {load} cannot be committed: {LIST_NAME}: {error}") from None
        state = self._database.state
        for output in outputs:
            wrong = _objection(state, table, directory, output)
            if wrong is None:
                wrong = await self._objection_to_file(output)
            if wrong is not None:
                raise InvalidRequest(f"Load {load} cannot be committed: {output.path}: {wrong}")
        return await save_list(self._runtime, directory, outputs)

    async def _objection_to_file(self, output: OutputFile) -> str | None:
        try:
            size = await self._runtime.disk.size(output.path)
        except FileMissing:
            return "there is no such file"
        except DiskError as error:
            return str(error)
        return None if size == output.facts.size else f"{size} bytes long instead of {output.facts.size}"

    async def _write_down(self, load: str, table: Table, record: LoadRecord) -> None:
        """The commit. Whether it was made must be known: this asks until it is."""

        def propose(state: ClusterState) -> Any:
            current = state.tables_by_id.get(table.id)
            tablets = {tablet.id for tablet in state.tablet_maps[table.id].tablets} if current else set()
            if current is None or not tablets.issuperset(record.tablets):
                raise InvalidRequest(f"table {table.full_name} was dropped or cut anew while it was loaded")
            return load_records.committing(state, current, load, record)

        pause = _FIRST_PAUSE
        while True:
            try:
                await self._database.metadata.commit(propose)
                return
            except MetadataError as error:
                self._runtime.log("warning", "loads.not_committed", load=load, cause=str(error))
                await self._runtime.clock.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)


def check_loadable(table: Table) -> None:
    check_writable(table)
    if table.is_counter:
        raise InvalidRequest(f"{table.full_name} has counters: these cannot be loaded, only counted")


def _options(table: Table, options: Mapping[str, Any]) -> tuple[int | None, int]:
    unknown = sorted(set(options) - {"timestamp", "ttl"})
    if unknown:
        raise InvalidRequest(f"Unknown option of a load: {unknown[0]}; there are: timestamp, ttl")
    timestamp, ttl = options.get("timestamp"), options.get("ttl")
    for name, value in (("timestamp", timestamp), ("ttl", ttl)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise InvalidRequest(f"Option {name} of a load is a whole number, not {value!r}")
    if timestamp is not None:
        if not -(2**63) <= timestamp < 2**63:
            raise InvalidRequest(f"Option timestamp of a load is out of range: {timestamp}")
        check_timestamp(timestamp)
    if ttl is None:
        ttl = table.default_ttl
    if not 0 <= ttl <= MAX_TTL:
        raise InvalidRequest(f"Option ttl of a load must be from 0 to {MAX_TTL}, not {ttl}")
    return timestamp, ttl


def _objection(state: ClusterState, table: Table, directory: str, output: OutputFile) -> str | None:
    facts = output.facts
    tablet_map = state.tablet_maps.get(table.id)
    tablets = {} if tablet_map is None else {tablet.id: tablet for tablet in tablet_map.tablets}
    tablet = tablets.get(output.tablet)
    if not output.path.startswith(f"{directory}/") or ".." in output.path.split("/"):
        return f"it is not in {directory}"
    if output.table != table.id.hex() or tablet is None:
        return f"it is for tablet {output.tablet} of table {output.table}, which {table.full_name} has not"
    if not tablet.first_token <= facts.min_token <= facts.max_token <= tablet.last_token:
        return f"it holds tokens that are not of tablet {tablet.id}"
    if facts.first_version or facts.last_version:
        return "it claims to hold commits of this node"
    return None
