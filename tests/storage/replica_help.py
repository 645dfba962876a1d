"""Replicas in simulation for tests: records whose rows tell which of them was applied last."""

from collections.abc import Sequence

from belvedere.model.mutations import (
    Mutation,
    ReplicatedWrite,
    ViewUpdate,
    decode_replicated,
    encode_replicated,
)
from belvedere.model.positions import Position, Record
from belvedere.model.rows import Row
from belvedere.model.schema import Table
from belvedere.model.token import token_of
from belvedere.sim.runtime import SimRuntime
from belvedere.storage.engine import EngineOptions, StorageEngine
from belvedere.storage.reads import PartitionRead
from belvedere.storage.replica_log import ReplicaLog
from tests.storage.engine_help import small_options, tablets_of
from tests.storage.storage_model import make_table, wire_int

TABLE = make_table(clustering=False, sets=False)
NOW = 4_000_000_000
KEYS = [wire_int(number) for number in range(5)]


async def open_replicas(
    runtime: SimRuntime, tablets: int = 1, options: EngineOptions | None = None, table: Table = TABLE
) -> StorageEngine:
    maps = {table.id: tablets_of(table, tablets)}
    options = options or small_options(compaction=False)
    return await StorageEngine.open(runtime, "data", {table.id: table}, maps, options, replicated=True)


def record(
    position: tuple[int, int],
    previous: tuple[int, int],
    *,
    size: int = 10,
    empty: bool = False,
    to_deliver: bool = False,
    delivered: int = 0,
) -> Record:
    """Sets the key that its version says to its version."""
    epoch, version = position
    mutation = None
    if not empty:
        key = KEYS[version % len(KEYS)]
        row = Row(version, 0, 0, True, None, [b"%d.%d" % (epoch, version), b"." * size])
        mutation = Mutation(TABLE.id, token_of(key), key, [(b"", row)])
    views = []
    if to_deliver:
        views = [ViewUpdate(b"v" * 16, Mutation(b"v" * 16, 0, b"", [(b"", Row(1, 0, 0, True, None, []))]))]
    data = encode_replicated(ReplicatedWrite(mutation, views, [], delivered))
    return Record(Position(*position), Position(*previous), data)


def chain(after: tuple[int, int], positions: Sequence[tuple[int, int]]) -> tuple[Record, ...]:
    before = [after, *positions][: len(positions)]
    return tuple(record(one, previous) for one, previous in zip(positions, before, strict=True))


class Told:
    """What `append` called back, in order."""

    def __init__(self) -> None:
        self.heard: list[tuple[Position, Exception | None]] = []

    def append(self, replica: ReplicaLog, records: tuple[Record, ...], committed: Position) -> None:
        last = records[-1].position
        replica.append(records, committed, lambda error: self.heard.append((last, error)))

    @property
    def written(self) -> list[Position]:
        return [position for position, error in self.heard if error is None]


async def shown(engine: StorageEngine, tablet: int = 1) -> dict[bytes, bytes]:
    """What readers see, by key."""
    store = engine.store(tablet)
    found = {}
    for key in KEYS:
        rows = (await store.read(PartitionRead(token_of(key), key, row=b""), NOW)).rows
        if rows:
            value = rows[0][1].cells[0]
            assert isinstance(value, bytes)
            found[key] = value
    return found


def expected(records: Sequence[Record]) -> dict[bytes, bytes]:
    """What readers see when these are applied."""
    found = {}
    for one in records:
        mutation = decode_replicated(one.data).mutation
        if mutation is not None:
            value = mutation.rows[0][1].cells[0]
            assert isinstance(value, bytes)
            found[mutation.key] = value
    return found
