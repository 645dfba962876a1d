"""Random tables and partitions for the tests of sstables, and a runtime of nothing but memory."""

import random
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from belvedere.model.mutations import RangeDeletion
from belvedere.model.ordering import join_partition_key
from belvedere.model.rows import AnyCell, Complex, Row, stamped
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.token import token_of
from belvedere.model.types import (
    NATIVE_TYPES,
    CQLType,
    Duration,
    ListType,
    MapType,
    SetType,
    TupleType,
    UserType,
    VectorType,
    parse_type,
)
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.sstable_format import BuiltSSTable
from belvedere.storage.sstable_read import SSTable

START = 1_700_000_000_000_000
POINT = UserType("ks", "point", [("x", NATIVE_TYPES["int"]), ("label", NATIVE_TYPES["text"])])
USER_TYPES = {"point": POINT}

KEY_TYPES = [
    "int",
    "text",
    "bigint",
    "uuid",
    "timestamp",
    "timeuuid",
    "blob",
    "decimal",
    "varint",
    "frozen<tuple<int, text>>",
    "frozen<set<text>>",
    "boolean",
    "double",
    "inet",
    "date",
    "time",
    "smallint",
    "tinyint",
    "ascii",
    "float",
]
VALUE_TYPES = [
    *KEY_TYPES,
    "duration",
    "vector<float, 3>",
    "vector<text, 2>",
    "frozen<list<int>>",
    "frozen<map<text, int>>",
    "frozen<point>",
    "list<text>",
    "set<int>",
    "map<text, frozen<list<int>>>",
    "point",
]


def random_wire(rnd: random.Random, kind: CQLType) -> bytes:
    return kind.normalise(kind.encode(_random_python(rnd, kind)))


def _random_python(rnd: random.Random, kind: CQLType) -> Any:
    match kind:
        case ListType() | SetType():
            return [_random_python(rnd, kind.element) for _ in range(rnd.randrange(4))]
        case VectorType():
            return [_random_python(rnd, kind.element) for _ in range(kind.dimension)]
        case MapType():
            pairs = range(rnd.randrange(4))
            return [(_random_python(rnd, kind.key), _random_python(rnd, kind.value)) for _ in pairs]
        case TupleType() | UserType():
            return [_random_python(rnd, t) if rnd.random() < 0.8 else None for t in kind.types]
    return _SCALARS[kind.name](rnd)


def _time_uuid(rnd: random.Random) -> uuid.UUID:
    return uuid.UUID(int=rnd.getrandbits(128), version=1)


_SCALARS: dict[str, Callable[[random.Random], Any]] = {
    "tinyint": lambda r: r.randint(-128, 127),
    "smallint": lambda r: r.randint(-(2**15), 2**15 - 1),
    "int": lambda r: r.choice([r.randint(-(2**31), 2**31 - 1), r.randrange(4)]),
    "bigint": lambda r: r.choice([r.randint(-(2**63), 2**63 - 1), r.randrange(4)]),
    "counter": lambda r: r.randint(-100, 100),
    "varint": lambda r: r.randint(-(2**100), 2**100),
    "decimal": lambda r: Decimal(r.randint(-(10**20), 10**20)).scaleb(-r.randrange(12)),
    "float": lambda r: r.choice([0.0, 1.5, -2.25, float("inf")]),
    "double": lambda r: r.choice([r.random() * 10 ** r.randrange(30), -0.5, float("nan")]),
    "boolean": lambda r: r.random() < 0.5,
    "text": lambda r: "".join(r.choice("abcäß∀🦉\x00 '") for _ in range(r.randrange(9))),
    "ascii": lambda r: "".join(r.choice("abc\x7f") for _ in range(r.randrange(5))),
    "blob": lambda r: r.randbytes(r.randrange(6)),
    "uuid": lambda r: uuid.UUID(int=r.getrandbits(128), version=4),
    "timeuuid": _time_uuid,
    "inet": lambda r: r.choice(["127.0.0.1", "::1", "2001:db8::8:800:200c:417a", "255.1.2.3"]),
    "date": lambda r: r.randint(-1000, 30_000),
    "time": lambda r: r.randrange(86_400 * 10**9),
    "timestamp": lambda r: r.randint(-(10**12), 2 * 10**12),
    "duration": lambda r: Duration(r.randrange(99), r.randrange(99), r.randrange(10**12)),
}


def random_table(rnd: random.Random, values: Sequence[str] | None = None) -> Table:
    columns = [
        Column(f"p{i}", parse_type(rnd.choice(KEY_TYPES), USER_TYPES), ColumnKind.PARTITION_KEY, i)
        for i in range(rnd.choice([1, 1, 2, 3]))
    ]
    for i in range(rnd.choice([0, 1, 1, 2])):
        kind = parse_type(rnd.choice(KEY_TYPES), USER_TYPES)
        columns.append(Column(f"c{i}", kind, ColumnKind.CLUSTERING, i, rnd.random() < 0.4))
    clustered = any(c.kind is ColumnKind.CLUSTERING for c in columns)
    chosen = list(values) if values is not None else rnd.sample(VALUE_TYPES, rnd.randrange(7))
    for i, name in enumerate(chosen):
        columns.append(Column(f"v{i}", parse_type(name, USER_TYPES), ColumnKind.REGULAR, i))
    statics = rnd.sample(VALUE_TYPES, rnd.randrange(3)) if clustered else []
    for i, name in enumerate(statics):
        columns.append(Column(f"s{i}", parse_type(name, USER_TYPES), ColumnKind.STATIC, i))
    return Table(b"\x07" * 16, "ks", "t", tuple(columns), {}, len(chosen), len(statics))


@dataclass
class Mix:
    """How often what happens."""

    complete: float = 0.5
    stamped: float = 0.1
    tombstone: float = 0.1
    ttl: float = 0.1
    row_deletion: float = 0.1
    partition_deletion: float = 0.1
    ranges: float = 0.2
    #: Write times are drawn from so many, so that ties happen.
    times: int = 1000
    #: Seconds of expiries and deletions are drawn around START.
    seconds: int = 1000


def random_row(rnd: random.Random, columns: Sequence[Column], mix: Mix, static: bool) -> Row:
    timestamp = START + rnd.randrange(mix.times)
    ttl, expiry = _expiry(rnd, mix)
    complete = rnd.random() < mix.complete
    cells: list[AnyCell] = [None] * (max((c.position + 1 for c in columns), default=0))
    deletion = None
    floor = -(2**63)
    if not static and rnd.random() < mix.row_deletion:
        deletion = (timestamp - rnd.randint(1, 5), START // 10**6 + rnd.randrange(mix.seconds))
        floor = deletion[0]
    for column in columns:
        if column.type.is_multicell:
            if rnd.random() < 0.6:
                cells[column.position] = _random_complex(rnd, column.type, mix, floor)
        elif complete or rnd.random() < 0.4:
            cells[column.position] = _random_cell(rnd, column.type, mix, timestamp, floor)
    live = not static and (complete or rnd.random() < 0.5)
    if not live and deletion is None and not any(cell is not None for cell in cells):
        deletion = (timestamp - 1, START // 10**6)  # a row says something, or nobody wrote it
    return Row(timestamp, ttl, expiry, live, deletion, cells)


def _expiry(rnd: random.Random, mix: Mix) -> tuple[int, int]:
    if rnd.random() >= mix.ttl:
        return 0, 0
    return rnd.choice([10, 100]), START // 10**6 + rnd.randrange(mix.seconds)


def _random_cell(rnd: random.Random, kind: CQLType, mix: Mix, timestamp: int, floor: int) -> AnyCell:
    own = max(floor + 1, timestamp + rnd.randint(-5, 5))
    if rnd.random() < mix.tombstone:
        return (None, own, 0, START // 10**6 + rnd.randrange(mix.seconds))
    if rnd.random() < mix.stamped:
        return (random_wire(rnd, kind), own, *_expiry(rnd, mix))
    return random_wire(rnd, kind)


def _random_complex(rnd: random.Random, kind: CQLType, mix: Mix, floor: int) -> Complex | None:
    deletion = None
    if rnd.random() < 0.3:
        floor = max(floor, START - rnd.randrange(9))
        deletion = (floor, START // 10**6 + rnd.randrange(mix.seconds))
    items = {}
    for _ in range(rnd.randrange(4)):
        path, value = _element(rnd, kind)
        stamp = max(floor + 1, START + rnd.randrange(mix.times))
        if rnd.random() < mix.tombstone:
            items[path] = (None, stamp, 0, START // 10**6 + rnd.randrange(mix.seconds))
        else:
            items[path] = (value, stamp, *_expiry(rnd, mix))
    return Complex(deletion, items) if items or deletion is not None else None


def _element(rnd: random.Random, kind: CQLType) -> tuple[bytes, bytes]:
    match kind:
        case ListType():
            return _time_uuid(rnd).bytes, random_wire(rnd, kind.element)
        case SetType():
            return random_wire(rnd, kind.element), b""
        case MapType():
            return random_wire(rnd, kind.key), random_wire(rnd, kind.value)
    index = rnd.randrange(len(kind.children()))
    return index.to_bytes(2, "big"), random_wire(rnd, kind.children()[index])


def random_partitions(
    rnd: random.Random, table: Table, count: int, rows: int, mix: Mix | None = None, keys: int = 10**6
) -> list[StoredPartition]:
    """In file order. Keys are drawn from `keys` many, for partitions that several sources share."""
    mix = mix or Mix()
    made: dict[bytes, StoredPartition] = {}
    for _ in range(count):
        local = random.Random(f"{table.name}{rnd.randrange(keys)}")
        key = join_partition_key([random_wire(local, c.type) or b"\x01" for c in table.partition_key])
        if key and key not in made:
            made[key] = _random_partition(rnd, table, key, rows, mix, keys)
    return sorted(made.values(), key=lambda p: (p.token, p.key))


def _random_partition(
    rnd: random.Random, table: Table, key: bytes, rows: int, mix: Mix, keys: int
) -> StoredPartition:
    partition = StoredPartition(token_of(key), key)
    if not table.clustering:
        cks = [b""]
    else:
        drawn = set()
        for _ in range(rnd.randrange(rows + 1)):
            local = random.Random(f"{key!r}{rnd.randrange(min(keys, 3 * rows))}")
            values = [random_wire(local, c.type) for c in table.clustering]
            drawn.add(table.clustering_order.encode(values))
        cks = sorted(drawn)
    partition.rows = [(ck, random_row(rnd, table.regulars, mix, static=False)) for ck in cks]
    if table.statics and rnd.random() < 0.5:
        partition.static = random_row(rnd, table.statics, mix, static=True)
    second = START // 10**6 + rnd.randrange(mix.seconds)
    if rnd.random() < mix.partition_deletion:
        partition.deletion = (START + rnd.randrange(mix.times), second)
    if len(cks) > 1 and rnd.random() < mix.ranges:
        bounds = sorted(rnd.sample(cks, 2))
        end = bounds[1] + b"\xff" if rnd.random() < 0.5 else bounds[1]
        deletion = (START + rnd.randrange(mix.times), second)
        partition.ranges = [RangeDeletion(bounds[0], end, deletion)]
    return partition


# -- comparing -------------------------------------------------------------------------------------


def canonical_row(row: Row | None) -> object:
    """Equal for rows that say the same in other words."""
    if row is None:
        return None
    cells: dict[int, object] = {}
    for ordinal, cell in enumerate(row.cells):
        if isinstance(cell, Complex):
            cells[ordinal] = (cell.deletion, cell.items)
        elif cell is not None:
            cells[ordinal] = stamped(row, cell)
    stamp = (row.timestamp, row.ttl, row.expiry) if row.live else None
    return (stamp, row.deletion, cells)


def canonical(partition: StoredPartition) -> object:
    rows = [(ck, canonical_row(row)) for ck, row in partition.rows]
    ranges = [(r.start, r.end, r.deletion) for r in partition.ranges]
    head = (partition.token, partition.key, partition.deletion, ranges)
    return (*head, canonical_row(partition.static), rows)


# -- a runtime of memory ---------------------------------------------------------------------------


class MemoryDisk:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.reads = 0

    async def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self.reads += 1
        data = self.files[path]
        return data[offset:] if length is None else data[offset : offset + length]

    async def size(self, path: str) -> int:
        return len(self.files[path])


class MemoryRuntime:
    def __init__(self) -> None:
        self.disk = MemoryDisk()

    async def compute(self, work: Callable[[], Any]) -> Any:
        return work()


async def open_built(
    built: BuiltSSTable,
    table: Table,
    cache: Any,
    runtime: MemoryRuntime | None = None,
    path: str = "a.parquet",
) -> SSTable:
    runtime = runtime or MemoryRuntime()
    runtime.disk.files[path] = built.data
    return await SSTable.open(runtime, path, built.facts, cache, table)  # type: ignore[arg-type]


async def read_all(sstable: SSTable, max_rows: int = 1000) -> list[StoredPartition]:
    found: list[StoredPartition] = []
    position: tuple[int, bytes] | None = (-(2**63), b"")
    while position is not None:
        batch, position = await sstable.batch(position, 2**63 - 1, max_rows)
        found += batch
    return found


def all_rows(partitions: Iterable[StoredPartition]) -> int:
    return sum(len(p.rows) for p in partitions)
