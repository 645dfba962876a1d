"""What the model remembers: every write ever made. Reading looks through all of them, each time anew."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from belvedere.model.token import token_of
from belvedere.sim.model.kinds import Kind, ListKind, MapKind, SetKind, UserKind
from belvedere.sim.model.restrictions import Restriction
from belvedere.sim.model.schema import Column, Table

#: (timestamp, value or None for a deletion, ttl, second at which it expires). Values are the model's own.
Write = tuple[int, Any, int, int]
Key = tuple[Any, ...]
OLDEST = -(2**63)


@dataclass
class RowLog:
    lives: list[tuple[int, int, int]] = field(default_factory=list)
    deletions: list[int] = field(default_factory=list)
    cells: dict[str, list[Write]] = field(default_factory=dict)
    items: dict[str, dict[Any, list[Write]]] = field(default_factory=dict)
    item_deletions: dict[str, list[int]] = field(default_factory=dict)

    def forget(self, column: str) -> None:
        self.cells.pop(column, None)
        self.items.pop(column, None)
        self.item_deletions.pop(column, None)


@dataclass
class Partition:
    deletions: list[int] = field(default_factory=list)
    ranges: list[tuple[Sequence[Restriction], int]] = field(default_factory=list)
    rows: dict[Key, RowLog] = field(default_factory=dict)
    static: RowLog = field(default_factory=RowLog)


@dataclass
class SeenCell:
    value: Any
    timestamp: int = 0
    ttl: int = 0
    expiry: int = 0


@dataclass
class SeenRow:
    """A row as a reader sees it; `clustering` is None where only static cells are."""

    partition: Key
    clustering: Key | None
    cells: dict[str, SeenCell]
    exists: bool = True


@dataclass
class State:
    tables: dict[str, Table] = field(default_factory=dict)
    data: dict[str, dict[Key, Partition]] = field(default_factory=dict)
    #: Orders the elements of lists.
    sequence: int = 0

    def fork(self) -> "State":
        return State(dict(self.tables), copy.deepcopy(self.data), self.sequence)

    def partition(self, table: Table, key: Key) -> Partition:
        return self.data[table.name].setdefault(key, Partition())

    def row(self, table: Table, key: Key, clustering: Key) -> RowLog:
        return self.partition(table, key).rows.setdefault(clustering, RowLog())

    def next_sequence(self) -> int:
        self.sequence += 1
        return self.sequence


def token(table: Table, key: Key) -> int:
    parts = [column.kind.wire(value) for column, value in zip(table.partition, key, strict=True)]
    if len(parts) == 1:
        return token_of(parts[0])
    return token_of(b"".join(len(part).to_bytes(2, "big") + part + b"\0" for part in parts))


def clustering_order(table: Table, clustering: Key) -> "list[_Directed]":
    return [
        _Directed(column.kind.order(value), down)
        for column, value, down in zip(table.clustering, clustering, table.descending, strict=True)
    ]


@dataclass
class _Directed:
    value: Any
    descending: bool

    def __lt__(self, other: "_Directed") -> bool:
        return bool(other.value < self.value if self.descending else self.value < other.value)


# ------------------------------------------------------------------------------------------------ reading


def live_write(writes: Sequence[Write], floor: int, now: int, kind: Kind | None) -> Write | None:
    """The newest of the writes after `floor`, if it is a value and not expired."""

    def rank(write: Write) -> tuple[int, int, int, bytes]:
        timestamp, value, ttl, expiry = write
        if value is None:
            return (timestamp, 2, 0, b"")
        return (timestamp, 1 if ttl else 0, expiry, b"" if kind is None else kind.wire(value))

    left = [write for write in writes if write[0] > floor]
    if not left:
        return None
    best = max(left, key=rank)
    if best[1] is None or (best[2] and best[3] <= now):
        return None
    return best


def live_items(row: RowLog, column: Column, floor: int, now: int) -> list[tuple[Any, Write]]:
    """The live elements of a collection, in order."""
    kind = column.kind
    floor = max([floor, *row.item_deletions.get(column.name, [])])
    found = []
    for path, writes in row.items.get(column.name, {}).items():
        best = live_write(writes, floor, now, element_kind(kind, path))
        if best is not None:
            found.append((path, best))
    return sorted(found, key=lambda item: path_order(kind, item[0]))


def path_order(kind: Kind, path: Any) -> Any:
    if isinstance(kind, SetKind):
        return kind.element.order(path)
    if isinstance(kind, MapKind):
        return kind.key.order(path)
    return path


def element_kind(kind: Kind, path: Any) -> Kind | None:
    if isinstance(kind, SetKind):
        return None
    if isinstance(kind, ListKind):
        return kind.element
    if isinstance(kind, MapKind):
        return kind.value
    assert isinstance(kind, UserKind)
    part: Kind = kind.parts[path]
    return part


def assembled(kind: Kind, items: Sequence[tuple[Any, Write]]) -> Any:
    """A collection's value from its elements; None if there are none."""
    if not items:
        return None
    if isinstance(kind, SetKind):
        return tuple(path for path, _ in items)
    if isinstance(kind, ListKind):
        return tuple(write[1] for _, write in items)
    if isinstance(kind, MapKind):
        return tuple((path, write[1]) for path, write in items)
    assert isinstance(kind, UserKind)
    fields = {path: write[1] for path, write in items}
    return tuple(fields.get(index) for index in range(len(kind.parts)))


def see_cells(row: RowLog, columns: Sequence[Column], floor: int, now: int) -> dict[str, SeenCell]:
    seen = {}
    for column in columns:
        if column.kind.multicell:
            value = assembled(column.kind, live_items(row, column, floor, now))
            if value is not None:
                seen[column.name] = SeenCell(value)
            continue
        best = live_write(row.cells.get(column.name, []), floor, now, column.kind)
        if best is not None:
            timestamp, value, ttl, expiry = best
            seen[column.name] = SeenCell(value, timestamp, ttl, expiry)
    return seen


def floor_of(table: Table, partition: Partition, clustering: Key | None) -> int:
    """Everything written up to this time is deleted. Static cells (None) know partition deletions only."""
    floors = [OLDEST, *partition.deletions]
    if clustering is not None:
        floors += [ts for ranges, ts in partition.ranges if all(r.holds(table, clustering) for r in ranges)]
        if clustering in partition.rows:
            floors += partition.rows[clustering].deletions
    return max(floors)


def see_static(table: Table, partition: Partition, now: int) -> dict[str, SeenCell]:
    return see_cells(partition.static, table.statics, floor_of(table, partition, None), now)


def see_row(table: Table, key: Key, partition: Partition, clustering: Key, now: int) -> SeenRow | None:
    """The row without static cells, or None if it does not exist."""
    row = partition.rows.get(clustering)
    if row is None:
        return None
    floor = floor_of(table, partition, clustering)
    lives = [(ts, True, ttl, expiry) for ts, ttl, expiry in row.lives]
    alive = live_write(lives, floor, now, None) is not None
    cells = see_cells(row, table.regulars, floor, now)
    return SeenRow(key, clustering, cells) if alive or cells else None


def see_partition(table: Table, key: Key, partition: Partition, now: int) -> list[SeenRow]:
    """All rows in clustering order, static cells included; one with clustering None if only those are."""
    static = see_static(table, partition, now)
    rows = []
    for clustering in sorted(partition.rows, key=lambda c: clustering_order(table, c)):
        row = see_row(table, key, partition, clustering, now)
        if row is not None:
            rows.append(SeenRow(key, clustering, {**static, **row.cells}))
    if not rows and static:
        return [SeenRow(key, None, static)]
    return rows
