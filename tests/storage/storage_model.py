"""A dumb twin of storage for tests: every cell ever written is kept; reading looks through all of them.

Shares nothing with the code under test but the vocabulary (rows, mutations, reads).
"""

import random
from dataclasses import dataclass, field
from typing import Any

from belvedere.model.mutations import Mutation, RangeDeletion
from belvedere.model.rows import Cell, Complex, Deletion, Row
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.token import token_of
from belvedere.model.types import parse_type
from belvedere.storage.reads import KeySlice, PartitionRows

OLDEST = -(2**63)
#: What a reader is told of a row: (exists by itself, value and stamp of each live cell, collections).
Seen = tuple[bool, dict[int, Any]]


def make_table(*, clustering: bool = True, statics: bool = True, sets: bool = True, seed: int = 0) -> Table:
    def column(name: str, type_name: str, kind: ColumnKind, position: int) -> Column:
        return Column(name, parse_type(type_name), kind, position)

    columns = [column("k", "int", ColumnKind.PARTITION_KEY, 0)]
    if clustering:
        columns.append(column("c", "int", ColumnKind.CLUSTERING, 0))
    if statics and clustering:
        columns.append(column("s", "int", ColumnKind.STATIC, 0))
    columns += [column(name, "text", ColumnKind.REGULAR, index) for index, name in enumerate("xyz")]
    if sets:
        columns.append(column("tags", "set<text>", ColumnKind.REGULAR, 3))
    return Table(
        id=bytes([seed % 256]) * 16,
        keyspace="ks",
        name="t",
        columns=tuple(columns),
        options={"gc_grace_seconds": 864_000},
        regular_ordinals=4 if sets else 3,
        static_ordinals=1 if statics and clustering else 0,
    )


def wire_int(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def clustering_key(table: Table, value: int) -> bytes:
    return table.clustering_order.encode([wire_int(value)]) if table.clustering else b""


@dataclass
class _ModelRow:
    lives: list[tuple[int, int, int]] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    cells: list[tuple[int, Cell]] = field(default_factory=list)
    items: list[tuple[int, bytes, Cell]] = field(default_factory=list)
    item_deletions: list[tuple[int, int]] = field(default_factory=list)

    def add(self, row: Row) -> None:
        if row.live:
            self.lives.append((row.timestamp, row.ttl, row.expiry))
        if row.deletion is not None:
            self.deletions.append(row.deletion)
        for ordinal, cell in enumerate(row.cells):
            if isinstance(cell, Complex):
                self.items += [(ordinal, path, item) for path, item in cell.items.items()]
                if cell.deletion is not None:
                    self.item_deletions.append((ordinal, cell.deletion[0]))
            elif type(cell) is bytes:
                self.cells.append((ordinal, (cell, row.timestamp, row.ttl, row.expiry)))
            elif cell is not None:
                self.cells.append((ordinal, cell))  # type: ignore[arg-type]

    def seen(self, floor: int, now: int) -> Seen | None:
        floor = max([floor, *(deletion[0] for deletion in self.deletions)])
        lives = [live for live in self.lives if live[0] > floor]
        exists = False
        if lives:
            _, ttl, expiry = max(lives, key=lambda live: (live[0], bool(live[1]), live[2]))
            exists = not ttl or expiry > now
        found: dict[int, Any] = {}
        for ordinal in {ordinal for ordinal, _ in self.cells}:
            cells = [cell for o, cell in self.cells if o == ordinal and cell[1] > floor]
            if cells and (best := max(cells, key=_strength)) and _is_there(best, now):
                found[ordinal] = best
        for ordinal in {ordinal for ordinal, _, _ in self.items}:
            above = max([floor, *(stamp for o, stamp in self.item_deletions if o == ordinal)])
            members: dict[bytes, Cell] = {}
            for o, path, cell in self.items:
                if o == ordinal and cell[1] > above:
                    if path not in members or _strength(cell) > _strength(members[path]):
                        members[path] = cell
            left = {path: cell for path, cell in members.items() if _is_there(cell, now)}
            if left:
                found[ordinal] = left
        return (exists, found) if exists or found else None


def _strength(cell: Cell) -> tuple[int, int, int, bytes]:
    value, timestamp, ttl, expiry = cell
    if value is None:
        return (timestamp, 2, expiry, b"")
    return (timestamp, 1 if ttl else 0, expiry, value)


def _is_there(cell: Cell, now: int) -> bool:
    return cell[0] is not None and (not cell[2] or cell[3] > now)


@dataclass
class _ModelPartition:
    token: int
    rows: dict[bytes, _ModelRow] = field(default_factory=dict)
    static: _ModelRow = field(default_factory=_ModelRow)
    deleted: int = OLDEST
    ranges: list[RangeDeletion] = field(default_factory=list)


class Model:
    def __init__(self) -> None:
        self.partitions: dict[bytes, _ModelPartition] = {}

    def apply(self, mutation: Mutation) -> None:
        partition = self.partitions.setdefault(mutation.key, _ModelPartition(mutation.token))
        for key, row in mutation.rows:
            partition.rows.setdefault(key, _ModelRow()).add(row)
        if mutation.static is not None:
            partition.static.add(mutation.static)
        if mutation.deletion is not None:
            partition.deleted = max(partition.deleted, mutation.deletion[0])
        partition.ranges += mutation.ranges

    def positions(self) -> list[tuple[int, bytes]]:
        return sorted((partition.token, key) for key, partition in self.partitions.items())

    def read(
        self, key: bytes, now: int, slices: tuple[KeySlice, ...] = (KeySlice(),), reverse: bool = False
    ) -> tuple[dict[int, Any], list[tuple[bytes, Seen]]]:
        """Live static cells and live rows of one partition."""
        partition = self.partitions.get(key)
        if partition is None:
            return {}, []
        static = partition.static.seen(partition.deleted, now)
        rows = []
        for clustering in sorted(partition.rows, reverse=reverse):
            if any(part.holds(clustering) for part in slices):
                floor = max(
                    [
                        partition.deleted,
                        *(r.deletion[0] for r in partition.ranges if r.start <= clustering < r.end),
                    ]
                )
                seen = partition.rows[clustering].seen(floor, now)
                if seen is not None:
                    rows.append((clustering, seen))
        return {} if static is None else static[1], rows


def seen_of(row: Row) -> Seen:
    """A row that storage gave to a reader, in the model's words."""
    found: dict[int, Any] = {}
    for ordinal, cell in enumerate(row.cells):
        if isinstance(cell, Complex):
            assert cell.deletion is None
            found[ordinal] = dict(cell.items)
        elif type(cell) is bytes:
            found[ordinal] = (cell, row.timestamp, row.ttl, row.expiry)
        elif cell is not None:
            found[ordinal] = cell
    return row.live, found


def told(found: PartitionRows) -> tuple[dict[int, Any], list[tuple[bytes, Seen]]]:
    static = {} if found.static is None else seen_of(found.static)[1]
    return static, [(key, seen_of(row)) for key, row in found.rows]


class Writes:
    """Random mutations over few keys and few timestamps, so that they meet and tie."""

    def __init__(self, table: Table, generator: random.Random, *, now: int = 1_000_000) -> None:
        self.table = table
        self.random = generator
        self.now = now
        self.keys = [wire_int(number) for number in range(6)]

    def timestamp(self) -> int:
        return self.random.randint(1, 12) * 1000

    def mutation(self) -> Mutation:
        key = self.random.choice(self.keys)
        mutation = Mutation(self.table.id, token_of(key), key, [])
        kind = self.random.random()
        if kind < 0.75:
            count = self.random.randint(1, 3)
            mutation.rows = [(self._clustering(), self._row()) for _ in range(count)]
        elif kind < 0.80:
            mutation.deletion = (self.timestamp(), self.now - 5)
        elif kind < 0.90 and self.table.clustering:
            mutation.ranges = [self._range()]
        elif self.table.statics:
            stamp = self.timestamp()
            mutation.static = Row(stamp, 0, 0, False, None, [self._cell(stamp)])
        else:
            mutation.rows = [(self._clustering(), self._row())]
        return mutation

    def _clustering(self) -> bytes:
        return clustering_key(self.table, self.random.randint(-8, 8))

    def _range(self) -> RangeDeletion:
        low, high = sorted(self.random.randint(-9, 10) for _ in range(2))
        return RangeDeletion(
            clustering_key(self.table, low),
            clustering_key(self.table, high),
            (self.timestamp(), self.now - 5),
        )

    def _row(self) -> Row:
        stamp = self.timestamp()
        roll = self.random.random()
        if roll < 0.12:
            return Row(stamp, 0, 0, False, (stamp, self.now - 5), [])
        ttl, expiry = 0, 0
        if roll < 0.3:
            ttl = self.random.randint(1, 20)
            expiry = self.now + self.random.randint(-5, 5)
        width = self.random.randint(1, 3)
        if roll < 0.6:
            # An INSERT: live, with a bare value in every column it names.
            cells = [self.random.choice([None, b"v%d" % self.random.randint(0, 5)]) for _ in range(width)]
            return Row(stamp, ttl, expiry, True, None, [*cells])
        cells2: list[Any] = [self._cell(self.timestamp()) for _ in range(width)]
        if self.table.regular_ordinals > 3 and self.random.random() < 0.5:
            cells2 = [*cells2, *[None] * (3 - width), self._complex()]
        return Row(stamp, ttl, expiry, False, None, cells2)

    def _cell(self, stamp: int) -> Cell | None:
        roll = self.random.random()
        if roll < 0.2:
            return None
        if roll < 0.4:
            return (None, stamp, 0, self.now - 5)
        value = wire_int(self.random.randint(0, 5))
        if roll < 0.6:
            return (value, stamp, self.random.randint(1, 20), self.now + self.random.randint(-5, 5))
        return (value, stamp, 0, 0)

    def _complex(self) -> Complex:
        deletion = (self.timestamp(), self.now - 5) if self.random.random() < 0.3 else None
        floor = OLDEST if deletion is None else deletion[0]
        items: dict[bytes, Cell] = {}
        for _ in range(self.random.randint(0 if deletion else 1, 3)):
            stamp = self.timestamp()
            if stamp > floor:
                dead = self.random.random() < 0.3
                items[b"p%d" % self.random.randint(0, 3)] = (
                    (None, stamp, 0, self.now - 5) if dead else (b"", stamp, 0, 0)
                )
        return Complex(deletion, items)

    def slices(self) -> tuple[KeySlice, ...]:
        if self.random.random() < 0.4 or not self.table.clustering:
            return (KeySlice(),)
        bounds = sorted({self.random.randint(-9, 10) for _ in range(4)})
        pairs = zip(bounds[::2], bounds[1::2], strict=False)
        found = [KeySlice(clustering_key(self.table, a), clustering_key(self.table, b)) for a, b in pairs]
        if self.random.random() < 0.3:
            found.append(KeySlice(clustering_key(self.table, bounds[-1] + 1), None))
        return tuple(found) or (KeySlice(),)
