"""DataAccess over a cluster: every operation goes to the replica of its tablet that is to carry it out.

Nothing is locked across nodes. What reads, decides and writes sends along what it saw; the primary writes
only if that is still so, and otherwise the statement is run anew (`NotAsSeen`). Nodes take turns among their
own statements for a partition, so at most one of each node contends.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from belvedere.cluster.configuration import Level
from belvedere.cluster.messages import Done, Kind, NotServing, Outcome, Overloaded, Unknown
from belvedere.meta.metadata import Metadata
from belvedere.meta.state import Tablet
from belvedere.model.mutations import Mutation
from belvedere.model.schema import Table
from belvedere.query.access import Admission, ViewKeeper
from belvedere.query.errors import CQLError, InvalidRequest, WriteTimeout
from belvedere.query.keeping import deletes_many
from belvedere.query.partition_locks import PartitionLocks
from belvedere.query.replicated.dates import Chosen, chosen_times
from belvedere.query.replicated.failures import Attempt, failure_of
from belvedere.query.replicated.finding import Find, Source, finder
from belvedere.query.replicated.large_deletions import delete_most
from belvedere.query.replicated.operations import (
    NOT_AS_SEEN,
    NOT_YET,
    AwaitDelivery,
    Change,
    RangePage,
    ReadDate,
    ReadPartition,
    ReadRange,
    Seen,
    decode_date,
    decode_page,
    decode_rows,
    digest,
    encode,
)
from belvedere.query.results import Result
from belvedere.query.view_rows import unwrap_partition
from belvedere.runtime.api import Runtime
from belvedere.storage.reads import PartitionRead, PartitionRows, RangeRead, ScanPage
from belvedere.storage.tablet import TabletStore

_LEVELS = {
    0: Level.ONE, 1: Level.ONE, 2: Level.TWO, 3: Level.THREE, 4: Level.QUORUM, 5: Level.ALL,
    6: Level.QUORUM, 7: Level.QUORUM, 8: Level.QUORUM, 9: Level.QUORUM, 10: Level.ONE,
}  # fmt: skip
#: Between tries where too much is under way, in seconds.
_FIRST_WAIT, _LONGEST_WAIT = 0.01, 0.25
#: Before a statement is run anew, at most, in seconds.
_PAUSE = 0.02

Write = tuple[Table, Mutation]
#: The rows of a tablet, if this node serves it now, with as many in sync as the level needs.
Here = Callable[[Tablet, Level], TabletStore | None]
#: `cluster.router.Router.ask`.
Ask = Callable[[Find, str, Level, bytes, float], Awaitable[Outcome]]


class NotAsSeen(Exception):
    """Nothing was written: what the statement was decided by has changed. Run it anew."""


class ClusterAccess:
    def __init__(self, runtime: Runtime, metadata: Metadata, ask: Ask, here: Here, patience: float) -> None:
        """`here` gives tablets that this node serves now; `patience`: how long a statement may take, in
        seconds."""
        self.runtime = runtime
        self.metadata = metadata
        self.patience = patience
        self.locks = PartitionLocks()
        #: Who looks after views.
        self.keeper: Callable[[], ViewKeeper]
        #: Asked before anything is read or written.
        self.admission: Admission | None = None
        self.here = here
        self._ask = ask
        self._last_timestamp = 0

    def at(self, consistency: int, source: Source | None = None) -> "LeveledAccess":
        """`source`: only as long as that is there."""
        return LeveledAccess(self, consistency, self.runtime.clock.monotonic() + self.patience, source)

    async def ask(
        self, find: Find, kind: str, level: Level, body: bytes, until: float
    ) -> tuple[Outcome, Tablet | None]:
        """The tablet as this node knows it now goes along, for what a failure has to say. Where too much is
        under way it waits its turn: clients that are told at once ask again at once."""
        clock, pause = self.runtime.clock, _FIRST_WAIT
        while True:
            outcome = await self._ask(find, kind, level, body, max(0.0, until - clock.monotonic()))
            if not isinstance(outcome, Overloaded) or clock.monotonic() + pause > until:
                return outcome, find(self.metadata.state)
            await clock.sleep(pause * (0.5 + self.runtime.random.random()))
            pause = min(2 * pause, _LONGEST_WAIT)

    async def insisting(
        self, work: Awaitable[Result], again: Callable[[], Result | Awaitable[Result]], consistency: int
    ) -> Result:
        """Run a statement until nobody comes in between."""
        until = self.runtime.clock.monotonic() + self.patience
        while True:
            try:
                return await work
            except NotAsSeen:
                if self.runtime.clock.monotonic() > until:
                    why = "others changed the same rows again and again"
                    raise WriteTimeout(f"CAS operation timed out: {why}", consistency, 0, 1, "CAS") from None
            await self.runtime.clock.sleep(_PAUSE * self.runtime.random.random())
            result = again()
            if isinstance(result, Result):
                return result
            work = result

    def next_timestamp(self) -> int:
        self._last_timestamp = max(self.runtime.clock.wall_micros(), self._last_timestamp + 1)
        return self._last_timestamp


class LeveledAccess:
    """For one statement: its consistency level and its deadline."""

    def __init__(self, cluster: ClusterAccess, consistency: int, until: float, source: Source | None) -> None:
        self._cluster = cluster
        self._source = source
        self._consistency = consistency
        self._level = _LEVELS.get(consistency, Level.QUORUM)
        self._until = until
        #: The first and the last write time that was chosen for this statement.
        self._chosen: tuple[int, int] | None = None

    # --- reading -------------------------------------------------------------------------------------

    def read_now(self, table: Table, read: PartitionRead, now: int) -> PartitionRows | None:
        """Where this node is the primary: by its lease, what it shows is what was acknowledged."""
        found = self._read_here(table, read, now, self._level)
        return found if found is None or table.view is None else unwrap_partition(table, found)

    def _read_here(self, table: Table, read: PartitionRead, now: int, level: Level) -> PartitionRows | None:
        cluster = self._cluster
        tablets = cluster.metadata.state.tablet_maps.get(table.id)
        store = None if tablets is None else cluster.here(tablets.holding(read.token), level)
        if store is None:
            return None
        self._check()
        found = store.read_now(read, now)
        if found is not None:
            found.after = 0
        return found

    async def read(self, table: Table, read: PartitionRead, now: int) -> PartitionRows:
        found = await self.read_stored(table, read, now)
        return found if table.view is None else unwrap_partition(table, found)

    async def read_stored(
        self, table: Table, read: PartitionRead, now: int, level: Level | None = None
    ) -> PartitionRows:
        """As it is stored: of a view, images."""
        here = self._read_here(table, read, now, level or self._level)
        if here is not None:
            return here
        body = encode(ReadPartition(read, now))
        found: PartitionRows = decode_rows(
            await self._get(table, read.token, Kind.READ, body, level or self._level)
        )
        found.after = 0
        return found

    async def scan(self, table: Table, read: RangeRead, now: int) -> ScanPage:
        """One tablet's stretch of the scan; `next` leads on into the following tablet."""
        page = (await self.scan_stored(table, read, now)).page
        if table.view is not None:
            for found in page.partitions:
                unwrap_partition(table, found)
        return page

    async def scan_stored(self, table: Table, read: RangeRead, now: int) -> RangePage:
        token = read.start[0]
        tablets = self._cluster.metadata.state.tablet_maps.get(table.id)
        if tablets is None:
            raise InvalidRequest(f"table {table.name} does not exist")
        last = tablets.holding(token).last_token
        body = encode(ReadRange(read, now))
        found = decode_page(await self._get(table, token, Kind.READ, body, self._level))
        found.page.after = 0
        if found.page.next is None and last < read.end_token:
            found.page.next = (last + 1, b"")
        return found

    async def _get(
        self, table: Table, token: int, kind: str, body: bytes, level: Level, write_type: str = ""
    ) -> bytes:
        self._check()
        outcome, tablet = await self._ask(table, token, kind, level, body)
        if isinstance(outcome, Done):
            return outcome.result
        raise failure_of(outcome, self._attempt(table, tablet, level, write_type))

    def _attempt(self, table: Table, tablet: Tablet | None, level: Level, write_type: str) -> Attempt:
        state = self._cluster.metadata.state
        return Attempt(state, table, tablet, self._consistency, level, write_type)

    def view_warnings(self, view: Table) -> tuple[str, ...]:
        return self._cluster.keeper().warnings(view)

    async def pause(self) -> None:
        await self._cluster.runtime.clock.sleep(0)

    async def _ask(
        self, table: Table, token: int, kind: str, level: Level, body: bytes, only: int | None = None
    ) -> tuple[Outcome, Tablet | None]:
        find = finder(table.id, token, self._source, only)
        return await self._cluster.ask(find, kind, level, body, self._until)

    def _check(self) -> None:
        if self._cluster.admission is not None:
            self._cluster.admission.check()

    # --- writing -------------------------------------------------------------------------------------

    def write_now(self, table: Table, mutation: Mutation) -> int | None:
        return None

    async def write(self, mutations: Sequence[Write]) -> int:
        """Several: the first one's record takes the others along, so that it is all or none."""
        for table, mutation in mutations:
            if deletes_many(table, mutation) and self._cluster.keeper().makers(table):
                await delete_most(self, table, mutation)
        (table, first), others = mutations[0], [mutation for _, mutation in mutations[1:]]
        await self.write_one(table, first, others)
        return 0

    async def write_one(
        self, table: Table, mutation: Mutation, others: Sequence[Mutation] = (), seen: Sequence[Seen] = ()
    ) -> None:
        self._check()
        chosen = self._chosen_of(mutation, others, decided=bool(seen))
        least = await self._latest_date(others) if others and chosen is not None else 0
        body = encode(
            Change(mutation, list(others), list(seen), chosen, least, targets=self._tablets_of(others))
        )
        kind, level = (Kind.UPDATE, _at_least_quorum(self._level)) if seen else (Kind.WRITE, self._level)
        # The tablets of a batch are those of one moment: of a table that is emptied, all or none.
        only = self._tablets_of([mutation])[0] if others else None
        outcome, tablet = await self._ask(table, mutation.token, kind, level, body, only)
        if only and isinstance(outcome, NotServing) and self._tablets_of([mutation])[0] not in (0, only):
            raise NotAsSeen
        if not isinstance(outcome, Done):
            write_type = "COUNTER" if table.is_counter else "CAS" if seen else "BATCH" if others else "SIMPLE"
            raise failure_of(outcome, self._attempt(table, tablet, level, write_type))
        if outcome.result == NOT_AS_SEEN:
            raise NotAsSeen
        if others or self._cluster.keeper().is_synchronous(table):
            await self._parts_delivered(table, mutation.token)

    def _tablets_of(self, others: Sequence[Mutation]) -> list[int]:
        maps = self._cluster.metadata.state.tablet_maps
        return [maps[other.table].holding(other.token).id if other.table in maps else 0 for other in others]

    async def write_mark(self, table: Table, token: int) -> None:
        """A record that changes nothing: when this returns, all that was ordered before has been applied."""
        self._check()
        body = encode(Change(None))
        outcome, tablet = await self._ask(table, token, Kind.WRITE, self._level, body)
        if not isinstance(outcome, Done):
            raise failure_of(outcome, self._attempt(table, tablet, self._level, "SIMPLE"))

    async def _latest_date(self, others: Sequence[Mutation]) -> int:
        """Of what was written before where the other parts of a batch belong: they are to be later."""
        tables = self._cluster.metadata.state.tables_by_id
        maps = self._cluster.metadata.state.tablet_maps
        asked: dict[int, Awaitable[bytes]] = {}
        for other in others:
            if other.table in tables:
                tablet = maps[other.table].holding(other.token).id
                if tablet not in asked:
                    asked[tablet] = self._get(
                        tables[other.table], other.token, Kind.READ, encode(ReadDate()), Level.QUORUM, "BATCH"
                    )
        return max([decode_date(found) for found in await asyncio.gather(*asked.values())], default=0)

    async def _parts_delivered(self, table: Table, token: int) -> None:
        """The batch is written, whatever comes of this: it must not look as if it had been refused."""
        outcome, tablet = await self._wait_for_delivery(table, token)
        if not isinstance(outcome, Done):
            why = Unknown("it is written, and parts of it may be on their way still")
            raise failure_of(why, self._attempt(table, tablet, self._level, "BATCH"))

    async def delivered(self, table: Table, token: int) -> None:
        """Return when what was written to this tablet has reached views and other partitions."""
        self._check()
        outcome, tablet = await self._wait_for_delivery(table, token)
        if not isinstance(outcome, Done):
            raise failure_of(outcome, self._attempt(table, tablet, Level.ONE, "BATCH"))

    async def _wait_for_delivery(self, table: Table, token: int) -> tuple[Outcome, Tablet | None]:
        body, clock = encode(AwaitDelivery()), self._cluster.runtime.clock
        while True:
            outcome, tablet = await self._ask(table, token, Kind.FRESH, Level.ONE, body)
            if not isinstance(outcome, Done) or outcome.result != NOT_YET:
                return outcome, tablet
            if clock.monotonic() > self._until:
                return Unknown("what was written is on its way still"), tablet

    def partly_written(self) -> WriteTimeout:
        why = "other writes came in between, when a part had been written already"
        return WriteTimeout(f"Operation timed out - {why}", self._consistency, 0, 1, "UNLOGGED_BATCH")

    @asynccontextmanager
    async def lock(self, partitions: Sequence[tuple[Table, bytes]]) -> AsyncIterator["_Turn"]:
        async with self._cluster.locks.hold((table.id, key) for table, key in partitions):
            yield _Turn(self)

    async def durable(self, position: int) -> None:
        """What is answered is on the disks of all replicas in sync."""

    async def truncate(self, table: Table) -> None:
        raise AssertionError("a replicated table is truncated by a change of the metadata")

    def next_timestamp(self) -> int:
        found = self._cluster.next_timestamp()
        self._chosen = (found if self._chosen is None else self._chosen[0], found)
        return found

    def _chosen_of(self, mutation: Mutation, others: Sequence[Mutation], *, decided: bool) -> Chosen | None:
        """For a batch of several partitions: those of all of them."""
        if self._chosen is None:
            return None
        found = (chosen_times(one, *self._chosen, decided=decided) for one in (mutation, *others))
        return next((one for one in found if one is not None), None)


class _Turn:
    """This node's turn at some partitions: what is read is remembered, and written on."""

    def __init__(self, access: LeveledAccess) -> None:
        self._access = access
        self._seen: dict[tuple[bytes, bytes], list[Seen]] = {}

    async def read(self, table: Table, read: PartitionRead, now: int) -> PartitionRows:
        found = await self._access.read_stored(table, read, now, Level.QUORUM)
        self._seen.setdefault((table.id, read.key), []).append(Seen(read, now, digest(found)))
        return found

    async def write(self, mutations: Sequence[Write]) -> int:
        """Each partition by itself: only conditions could ask for more, and these have one partition."""
        written = False
        for table, mutation in mutations:
            try:
                await self._access.write_one(
                    table, mutation, (), self._seen.get((table.id, mutation.key), ())
                )
            except (NotAsSeen, CQLError) as error:
                if written:
                    raise self._access.partly_written() from error
                raise
            written = True
        return 0


def _at_least_quorum(level: Level) -> Level:
    return Level.QUORUM if level in (Level.ONE, Level.TWO) else level
