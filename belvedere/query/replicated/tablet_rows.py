"""What replication stands on: a tablet's log and rows on this node (`cluster.ports.TabletStore`).

Rows are those of committed records, so what is read here is never taken back. A write that needs no look at
what is stored is ordered at once. One whose table has views, or that was decided by what somebody read, is
ordered while its partition is held, and by then every record that was ordered before has been applied.
"""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from belvedere.cluster.ports import Found, WhenWritten, Written
from belvedere.model.mutations import (
    Mutation,
    ReplicatedWrite,
    ViewUpdate,
    decode_replicated,
    encode_replicated,
)
from belvedere.model.positions import NOWHERE, Position, Record
from belvedere.query.access import ViewKeeper, ViewMakers
from belvedere.query.keeping import ALWAYS, real_changes, updates_of
from belvedere.query.replicated.dates import moved
from belvedere.query.replicated.operations import (
    CHANGED,
    NOT_AS_SEEN,
    NOT_YET,
    AwaitDelivery,
    Change,
    Operation,
    RangePage,
    ReadDate,
    ReadPartition,
    ReadRange,
    decode_operation,
    digest,
    encode,
    encode_page,
    encode_rows,
)
from belvedere.query.replicated.outbox import Outbox
from belvedere.runtime.api import Clock
from belvedere.storage.errors import LogBroken, MutationTooLarge
from belvedere.storage.replica_log import ReplicaLog
from belvedere.storage.replica_records import OpenedReplica
from belvedere.storage.replica_snapshot import IncomingSnapshot
from belvedere.storage.tablet import TabletStore
from belvedere.storage.tablet_changes import RowChange

#: How long one question for deliveries waits, in seconds: then it is asked again, or not.
_DELIVERY_SECONDS = 1.5
#: A record of a client is not larger, with all that it does to views: it must fit into a frame between nodes.
MOST_BYTES = 8 << 20
#: Stands for the version of a record that has none yet.
_NO_VERSION = 0


class TabletRows:
    def __init__(
        self,
        clock: Clock,
        store: TabletStore,
        log: ReplicaLog,
        keeper: Callable[[], ViewKeeper],
        last: Position,
    ) -> None:
        self._clock = clock
        self.store = store
        self.log = log
        self._keeper = keeper
        #: Set once it is known how to deliver.
        self.outbox: Outbox
        #: Where the log ends.
        self._last = last
        self._restoring = False
        #: The latest write time that was chosen by nodes, for what was ordered here.
        self._date = 0
        #: The request that was decoded last: it is looked at several times in a row.
        self._decoded: tuple[bytes, Operation] = (b"", AwaitDelivery())

    # --- the log -------------------------------------------------------------------------------------

    def has_room(self) -> bool:
        return not self._restoring and self.log.has_room()

    def takes_write(self, body: bytes) -> bool:
        """What an outbox delivers is never refused for a full outbox: two could wait for each other."""
        if not self.outbox.is_full:
            return True
        change = self._operation(body)
        return isinstance(change, Change) and (change.delivered or not (change.others or self._makers))

    def append(self, records: tuple[Record, ...], committed: Position, written: WhenWritten) -> None:
        def told(error: Exception | None) -> None:
            # Of a tablet that was dropped, or a node that stops, nothing more is said: no disk is broken.
            if error is None or isinstance(error, LogBroken):
                written(error)

        self._last = records[-1].position
        self.log.append(records, committed, told)

    def apply(self, position: Position) -> None:
        self.log.apply(position)

    def cut(self, position: Position) -> None:
        self._last = position
        self.log.cut(position)

    async def read_tail(self, after: Position, limit: int) -> tuple[Position, tuple[Record, ...]] | None:
        return await self.log.read_tail(after, limit)

    async def restore(self, incoming: IncomingSnapshot) -> Position:
        """Become what has arrived. Whatever else arrives meanwhile is as good as lost."""
        self._restoring = True
        try:
            opened = await self.log.restore(incoming)
            self._last = opened.committed
            self.outbox.begin_anew()
            self.learn(opened)
            return opened.committed
        finally:
            self._restoring = False

    def learn(self, opened: OpenedReplica) -> None:
        """What was applied before, and may have something to deliver still."""
        for record in opened.records:
            if record.position <= opened.committed:
                self.outbox.learn(record.position.version, decode_replicated(record.data))

    # --- requests ------------------------------------------------------------------------------------

    def _operation(self, body: bytes) -> Operation:
        if self._decoded[0] is not body:
            self._decoded = body, decode_operation(body)
        return self._decoded[1]

    def key_of(self, body: bytes) -> bytes:
        operation = self._operation(body)
        assert isinstance(operation, Change)
        return b"" if operation.mutation is None else operation.mutation.key

    def at_once(self, body: bytes) -> Written | None:
        change = self._operation(body)
        assert isinstance(change, Change)
        if change.seen or (change.mutation is not None and self._makers):
            return None
        return self._written(self._dated(change), [])

    def look_now(self, body: bytes, update: bool) -> Found | None:
        operation = self._operation(body)
        if isinstance(operation, ReadPartition):
            found = self.store.read_now(operation.read, operation.now)
            return None if found is None else Found(encode_rows(found), NOWHERE)
        if isinstance(operation, AwaitDelivery) and not self.outbox.count:
            return Found(b"", NOWHERE)
        if isinstance(operation, ReadDate):
            return Found(encode(max(self._date, self._last.version)), NOWHERE)
        if isinstance(operation, Change):
            return self._update_now(operation)
        return None

    async def look(self, body: bytes, update: bool) -> Found:
        operation = decode_operation(body)
        match operation:
            case ReadPartition(read, now):
                return Found(encode_rows(await self.store.read(read, now)), NOWHERE)
            case ReadRange(read, now):
                version = self.store.last_version
                page = await self.store.scan(read, now)
                return Found(encode_page(RangePage(page, version)), NOWHERE)
            case AwaitDelivery():
                return await self._all_delivered()
            case ReadDate():
                raise AssertionError("answered at once")
            case Change():
                return await self._update(operation)

    async def _all_delivered(self) -> Found:
        try:
            async with asyncio.timeout(_DELIVERY_SECONDS):
                await self.outbox.all_delivered()
        except TimeoutError:
            return Found(NOT_YET, NOWHERE)
        return Found(b"", NOWHERE)

    # --- updates -------------------------------------------------------------------------------------

    @property
    def _makers(self) -> ViewMakers:
        return self._keeper().makers(self.store.table)

    def _update_now(self, change: Change) -> Found | None:
        for seen in change.seen:
            found = self.store.read_now(seen.read, seen.now)
            if found is None:
                return None
            if digest(found) != seen.digest:
                return Found(NOT_AS_SEEN, NOWHERE)
        change, makers = self._dated(change), self._makers
        changes = None if change.mutation is None else self._changes_now(change.mutation, makers)
        if changes is None:
            return None
        return Found(CHANGED, NOWHERE, self._written(change, self._updates(change, makers, changes)))

    def _changes_now(self, mutation: Mutation, makers: ViewMakers) -> list[RowChange] | None:
        return self.store.changes_now(mutation, ALWAYS) if makers else []

    async def _update(self, change: Change) -> Found:
        for seen in change.seen:
            if digest(await self.store.read(seen.read, seen.now)) != seen.digest:
                return Found(NOT_AS_SEEN, NOWHERE)
        change = self._dated(change)
        while True:
            makers = self._makers
            changes: list[RowChange] = []
            if change.mutation is not None and makers:
                changes = await self.store.changes(change.mutation, ALWAYS)
            # A view that came while this waited wants its share, too.
            if makers is self._makers:
                break
        return Found(CHANGED, NOWHERE, self._written(change, self._updates(change, makers, changes)))

    def _updates(self, change: Change, makers: ViewMakers, changes: list[RowChange]) -> list[ViewUpdate]:
        if change.mutation is None:
            return []
        return updates_of(makers, change.mutation, real_changes(changes), _NO_VERSION)

    def _dated(self, change: Change) -> Change:
        """With write times later than those of all writes ordered before, if they are ours to choose."""
        mutation, chosen = change.mutation, change.chosen
        self._date = max(self._date, change.least)
        if chosen is None or mutation is None:
            return change
        least = max(self._clock.wall_micros(), self._last.version + 1, self._date + 1)
        by = max(0, least - chosen.first)
        self._date = max(least, chosen.clock + by)
        others = [moved(other, chosen, by) for other in change.others]
        return replace(change, mutation=moved(mutation, chosen, by), others=others, seen=[], least=self._date)

    def _written(self, change: Change, views: list[ViewUpdate]) -> Written:
        write = ReplicatedWrite(change.mutation, views, change.others, self.outbox.delivered, change.targets)
        data = encode_replicated(write)
        self.log.check_size(data)
        if len(data) > MOST_BYTES and not change.delivered:
            raise MutationTooLarge(
                f"Mutation of {len(data)} bytes is too large for the maximum size of {MOST_BYTES}"
            )
        # Writes that are ordered later, here or by another primary, choose times beyond this version.
        return Written(data, change.least)
