"""The simplest store that replication can stand on: numbers by key, a log per machine, a state per tablet.

A body is `key` for a read, `key=value` for a write, `key=value?expected` for a compare-and-set; a value of
nothing is `-`. The log is on disk up to where the last finished sync began; a power failure keeps any number
of the entries after that, from the front, and a kill keeps all.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from belvedere.cluster.ports import Found, Opened, WhenWritten, Written
from belvedere.model.positions import NOWHERE, Position, Record
from belvedere.sim.randomness import between, stream
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World

NOTHING = b"-"
APPLIED, REFUSED = b"+", b"!"
#: Entries that a log takes before they are on disk.
FULL = 5


class _Appended(NamedTuple):
    tablet: int
    records: tuple[Record, ...]
    committed: Position


class _Cut(NamedTuple):
    tablet: int
    position: Position


@dataclass
class Platter:
    """A machine's disk: outlives its processes."""

    entries: list[_Appended | _Cut] = field(default_factory=list)
    #: How many of them survive anything.
    synced: int = 0

    @property
    def unsynced(self) -> int:
        return len(self.entries) - self.synced

    def crash(self, share: float) -> None:
        """`share` of what was not synced is kept."""
        kept = self.synced + round(self.unsynced * share)
        del self.entries[kept:]
        self.synced = len(self.entries)


class NodeLog:
    """One life's hold on the platter."""

    def __init__(self, world: World, runtime: SimRuntime, platter: Platter) -> None:
        self._runtime = runtime
        self._platter = platter
        self._random = stream(world.seed, "platter", runtime.machine, runtime.incarnation.number)
        self._waiting: list[tuple[int, WhenWritten]] = []
        self._syncing = False
        #: Multiplies the time that a sync takes.
        self.slowness = 1.0

    @property
    def waiting(self) -> int:
        return self._platter.unsynced

    def append(self, entry: _Appended | _Cut, written: WhenWritten | None = None) -> None:
        self._platter.entries.append(entry)
        if written is not None:
            self._waiting.append((len(self._platter.entries), written))
            if not self._syncing:
                self._sync()

    def _sync(self) -> None:
        self._syncing = True
        covered = len(self._platter.entries)
        took = between(self._random.random(), 50e-6, 0.02) * self.slowness
        self._runtime.call_later(took, lambda: self._synced(covered))

    def _synced(self, covered: int) -> None:
        self._syncing = False
        self._platter.synced = max(self._platter.synced, covered)
        ready = [written for count, written in self._waiting if count <= covered]
        self._waiting = [one for one in self._waiting if one[0] > covered]
        if self._waiting:
            self._sync()
        for written in ready:
            written(None)


class KeyValueStore:
    def __init__(
        self, runtime: SimRuntime, log: NodeLog, tablet: int, records: list[Record], committed: Position
    ) -> None:
        self._runtime = runtime
        self._log = log
        self._tablet = tablet
        self._positions = [record.position for record in records]
        #: How many records readers see.
        self._applied = 0
        self.records = records
        #: What readers see: value, and the record that wrote it.
        self.shown: dict[bytes, tuple[bytes, Position]] = {}
        self.apply(committed)

    def has_room(self) -> bool:
        full = self._log.waiting >= FULL
        self._runtime.sometimes("replication.log_full", full)
        return not full

    def append(self, records: tuple[Record, ...], committed: Position, written: WhenWritten) -> None:
        self.records += records
        self._positions += [record.position for record in records]
        self._log.append(_Appended(self._tablet, records, committed), written)

    def apply(self, position: Position) -> None:
        upto = bisect_right(self._positions, position)
        for record in self.records[self._applied : upto]:
            key, _, value = record.data.partition(b"=")
            self.shown[key] = (value, record.position)
        self._applied = max(self._applied, upto)

    def cut(self, position: Position) -> None:
        self._log.append(_Cut(self._tablet, position))
        upto = bisect_right(self._positions, position)
        del self.records[upto:]
        del self._positions[upto:]
        assert self._applied <= upto, "what readers saw is never taken back"

    async def read_tail(self, after: Position, limit: int) -> tuple[Position, tuple[Record, ...]] | None:
        await self._runtime.clock.sleep(between(self._runtime.random.random(), 1e-4, 0.05))
        index = bisect_right(self._positions, after)
        floor = self._positions[index - 1] if index else NOWHERE
        return floor, tuple(self.records[index : index + limit])

    def takes_write(self, body: bytes) -> bool:
        return True

    def at_once(self, body: bytes) -> Written | None:
        return Written(body)

    def key_of(self, body: bytes) -> bytes:
        return body.partition(b"=")[0]

    def look_now(self, body: bytes, update: bool) -> Found | None:
        """Half of the reads have to go to disk."""
        if self._runtime.random.random() < 0.5:
            return None
        return self._look(body, update)

    async def look(self, body: bytes, update: bool) -> Found:
        cost = between(self._runtime.random.random(), 1e-4, 0.02)
        await self._runtime.clock.sleep(cost * self._runtime.random.random())
        found = self._look(body, update)
        await self._runtime.clock.sleep(cost)
        return found

    def _look(self, body: bytes, update: bool) -> Found:
        key, _, rest = body.partition(b"=")
        value, seen = self.shown.get(key, (NOTHING, NOWHERE))
        if not update:
            return Found(value, seen)
        wanted, _, expected = rest.partition(b"?")
        if value != expected:
            return Found(REFUSED + value, seen)
        return Found(APPLIED, seen, Written(key + b"=" + wanted))


class KeyValueStores:
    """The `Stores` of one life of a machine."""

    def __init__(self, world: World, runtime: SimRuntime, platter: Platter, remembered: int) -> None:
        self._runtime = runtime
        self._platter = platter
        self._remembered = remembered
        self.log = NodeLog(world, runtime, platter)
        self.stores: dict[int, KeyValueStore] = {}

    async def open(self, tablet: int) -> Opened:
        await self._runtime.clock.sleep(between(self._runtime.random.random(), 1e-4, 0.05))
        records, committed = self._replay(tablet)
        store = self.stores[tablet] = KeyValueStore(self._runtime, self.log, tablet, list(records), committed)
        positions = [record.position for record in records]
        first = max(0, bisect_right(positions, committed) - self._remembered)
        base = records[first].previous if first < len(records) else (positions[-1] if positions else NOWHERE)
        return Opened(store, base, tuple(records[first:]), committed)

    def _replay(self, tablet: int) -> tuple[list[Record], Position]:
        # What is found is made durable before anybody sees it.
        self._platter.synced = len(self._platter.entries)
        records: list[Record] = []
        committed = NOWHERE
        for entry in self._platter.entries:
            if entry.tablet != tablet:
                continue
            if isinstance(entry, _Cut):
                while records and records[-1].position > entry.position:
                    records.pop()
            else:
                records += entry.records
                committed = max(committed, entry.committed)
        return records, committed
