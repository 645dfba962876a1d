"""A base and its views in bare memtables, and a dumb model that answers what each view must show."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from belvedere.model.mutations import Mutation, RangeDeletion, ViewUpdate
from belvedere.model.ordering import ABOVE, join_partition_key
from belvedere.model.rows import AnyCell, Complex, Row
from belvedere.model.schema import WRITE_TIMES, Column, ColumnKind, Keyspace, Table, ViewDefinition
from belvedere.model.token import token_of
from belvedere.model.types import parse_type
from belvedere.query.schema_view import KeyspacesView
from belvedere.query.select.row_views import RowView, column_reader
from belvedere.query.view_rows import unwrap
from belvedere.storage.memtable import Memtable
from belvedere.storage.merge import LiveColumns, coverage_of, merged_rows, visible_rows
from belvedere.storage.tablet_changes import changes_now
from belvedere.views.images import ImageMaker
from belvedere.views.keeper import Makers

INT = parse_type("int", {})
MAP = parse_type("map<int, int>", {})

#: Columns of the base beside its key (k, c), by ordinal.
COLUMNS = ("v", "w", "x", "m")
V, W, X, M = range(4)


def _regulars(names: Sequence[str]) -> list[Column]:
    return [
        Column(name, MAP if name == "m" else INT, ColumnKind.REGULAR, ordinal)
        for ordinal, name in enumerate(names)
    ]


BASE = Table(
    b"base".ljust(16, b"\0"),
    "ks",
    "t",
    (
        Column("k", INT, ColumnKind.PARTITION_KEY, 0),
        Column("c", INT, ColumnKind.CLUSTERING, 0),
        *_regulars(COLUMNS),
    ),
    regular_ordinals=4,
)


def view_table(name: str, key: Sequence[str], where: str, others: Sequence[str], descending: bool) -> Table:
    columns = [Column(key[0], INT, ColumnKind.PARTITION_KEY, 0)]
    columns += [
        Column(part, INT, ColumnKind.CLUSTERING, position, descending)
        for position, part in enumerate(key[1:])
    ]
    columns += _regulars(others)
    columns.append(Column(WRITE_TIMES, parse_type("blob", {}), ColumnKind.REGULAR, len(others), hidden=True))
    definition = ViewDefinition("t", BASE.id, where)
    return Table(
        name.encode().ljust(16, b"\0"),
        "ks",
        name,
        tuple(columns),
        regular_ordinals=len(others) + 1,
        view=definition,
    )


KEYS = "k IS NOT NULL AND c IS NOT NULL"
VIEWS = (
    # Re-keyed by a value that comes and goes.
    view_table("by_v", ("v", "k", "c"), f"{KEYS} AND v IS NOT NULL", ("w", "x", "m"), False),
    # Same key, other order, columns left out: a row is there as long as any cell of the base is.
    view_table("by_c", ("c", "k"), KEYS, ("w",), True),
    # Filtered by a value that is not in it.
    view_table("some", ("k", "v", "c"), f"{KEYS} AND v IS NOT NULL AND x > 1", ("w", "m"), False),
    view_table("present", ("c", "k"), f"{KEYS} AND m IS NOT NULL AND w = 2", ("m", "v"), False),
)
SCHEMA = KeyspacesView({"ks": Keyspace("ks", {}, tables={t.name: t for t in (BASE, *VIEWS)})})


def wire(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def clustering(c: int) -> bytes:
    return BASE.clustering_order.encode([wire(c)])


# --- operations --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Op:
    """One write. `stamp` is (timestamp, ttl, expiry)."""

    kind: str  # insert, update, delete_row, delete_range, delete_partition, build
    k: int = 0
    c: int = 0
    stamp: tuple[int, int, int] = (1, 0, 0)
    #: Column ordinal to an int, None (deleted), or for the map: ("replace" | "put", {key: value or None}).
    values: tuple[tuple[int, Any], ...] = ()
    until: int = 0


#: The local second of every deletion.
SECOND = 1


def mutation(op: Op) -> Mutation:
    key = join_partition_key([wire(op.k)])
    made = Mutation(BASE.id, token_of(key), key, [])
    deletion = (op.stamp[0], SECOND)
    if op.kind == "delete_partition":
        made.deletion = deletion
    elif op.kind == "delete_range":
        end = clustering(op.until) if op.until < 9 else ABOVE
        made.ranges = [RangeDeletion(clustering(op.c), end, deletion)]
    elif op.kind == "delete_row":
        made.rows = [(clustering(op.c), Row(op.stamp[0], 0, 0, False, deletion, []))]
    else:
        cells: list[AnyCell] = [None] * 4
        for ordinal, value in op.values:
            cells[ordinal] = _cell(op, value)
        made.rows = [(clustering(op.c), Row(*op.stamp, op.kind == "insert", None, cells))]
    return made


def _cell(op: Op, value: Any) -> AnyCell:
    timestamp = op.stamp[0]
    if value is None:
        return (None, timestamp, 0, SECOND)
    if isinstance(value, int):
        return wire(value)
    how, items = value
    return Complex(
        (timestamp - 1, SECOND) if how == "replace" else None,
        {
            wire(key): (None, timestamp, 0, SECOND) if item is None else (wire(item), *op.stamp)
            for key, item in items.items()
        },
    )


# --- the product's side ------------------------------------------------------------------------------


@dataclass
class Product:
    """What views get is kept back, to be delivered in any order."""

    makers: Makers = field(default_factory=lambda: Makers([ImageMaker(BASE, v, SCHEMA) for v in VIEWS]))
    base: Memtable = field(default_factory=Memtable)
    columns: LiveColumns = field(default_factory=lambda: LiveColumns(BASE))
    pending: list[ViewUpdate] = field(default_factory=list)
    version: int = 100_000_000

    def apply(self, op: Op) -> None:
        self.version += 1
        if op.kind == "build":
            self._build()
            return
        made = mutation(op)
        known = self.base.partitions.get(made.key)
        changes = changes_now([] if known is None else [known], [], made, 0, self.columns)
        assert changes is not None
        for change in changes:
            if change.before != change.after:
                self.pending += self.makers.updates(made.token, made.key, change, self.version)
        self.base.apply(made, self.version, self.version, 0)

    def _build(self) -> None:
        for partition in self.base.partitions.values():
            stored = [partition.stored()]
            rows, _ = visible_rows(merged_rows(stored), coverage_of(stored), 0, self.columns, 0)
            for key, row in rows:
                for maker in self.makers:
                    image = maker.image(partition.token, partition.key, key, row, self.version)
                    if image is not None:
                        self.pending.append(maker.arrival(image))

    def delivered(self, seed: int, twice: float = 0.2) -> dict[bytes, Memtable]:
        """All updates in some order, some of them more than once."""
        generator = random.Random(seed)
        order = self.pending + [one for one in self.pending if generator.random() < twice]
        generator.shuffle(order)
        tables = {view.id: Memtable() for view in VIEWS}
        for position, update in enumerate(order, 1):
            tables[update.view].apply(update.mutation, position, position, 0)
        return tables

    def shown(self, view: Table, memtable: Memtable, now: int) -> dict[tuple[int, ...], Any]:
        """Key values to the other columns' values, write times and expiries."""
        columns, hidden = LiveColumns(view), view.by_name[WRITE_TIMES].position
        keys = [column_reader(column) for column in (*view.partition_key, *view.clustering)]
        found = {}
        for partition in memtable.partitions.values():
            stored = [partition.stored()]
            rows, _ = visible_rows(merged_rows(stored), coverage_of(stored), now, columns, 0)
            for key, row in rows:
                seen = RowView(view, partition.token, partition.key, None, key, row)
                place = tuple(int.from_bytes(read(seen), "big", signed=True) for read in keys)  # type: ignore
                found[place] = told(view, unwrap(row, hidden))
        return found


def told(view: Table, row: Row) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for column in view.regulars:
        cell = row.cells[column.position] if column.position < len(row.cells) else None
        if cell is None:
            continue
        if isinstance(cell, Complex):
            values[column.name] = dict(cell.items)
        else:
            values[column.name] = (
                cell if isinstance(cell, tuple) else (cell, row.timestamp, row.ttl, row.expiry)
            )
    return values


# --- the dumb model ----------------------------------------------------------------------------------


class Model:
    """Keeps every write and works out each row anew from all of them."""

    def __init__(self) -> None:
        self.ops: list[Op] = []

    def apply(self, op: Op) -> None:
        self.ops.append(op)

    def row(self, k: int, c: int, now: int) -> dict[str, Any] | None:
        floor = max((op.stamp[0] for op in self.ops if self._deletes(op, k, c)), default=-1)
        writes = [op for op in self.ops if op.kind in ("insert", "update") and (op.k, op.c) == (k, c)]
        values: dict[str, Any] = {}
        for ordinal, name in enumerate(COLUMNS):
            given = [(op, value) for op in writes for o, value in op.values if o == ordinal]
            found = self._map(given, floor, now) if ordinal == M else self._cell(given, floor, now)
            if found:
                values[name] = found
        marks = [op.stamp for op in writes if op.kind == "insert" and op.stamp[0] > floor]
        mark = max(marks, key=lambda stamp: (stamp[0], bool(stamp[1]), stamp[2]), default=None)
        exists = mark is not None and (not mark[1] or mark[2] > now)
        return values if exists or values else None

    def _deletes(self, op: Op, k: int, c: int) -> bool:
        if op.k != k:
            return False
        in_range = op.kind == "delete_range" and op.c <= c and (c < op.until or op.until >= 9)
        return op.kind == "delete_partition" or in_range or (op.kind == "delete_row" and op.c == c)

    def _cell(self, given: list[tuple[Op, Any]], floor: int, now: int) -> Any:
        cells = [
            (None, op.stamp[0], 0, SECOND) if value is None else (wire(value), *op.stamp)
            for op, value in given
        ]
        return self._winner(cells, floor, now)

    def _winner(self, cells: list[Any], floor: int, now: int) -> Any:
        def rank(cell: Any) -> Any:
            value, timestamp, ttl, expiry = cell
            return (timestamp, 2 if value is None else 1 if ttl else 0, expiry, value or b"")

        best = max(cells, key=rank, default=None)
        if best is None or best[1] <= floor or best[0] is None or (best[2] and best[3] <= now):
            return None
        return best

    def _map(self, given: list[tuple[Op, Any]], floor: int, now: int) -> dict[bytes, Any]:
        for op, (how, _) in given:
            if how == "replace":
                floor = max(floor, op.stamp[0] - 1)
        cells: dict[int, list[Any]] = {}
        for op, (_, items) in given:
            for key, item in items.items():
                cell = (None, op.stamp[0], 0, SECOND) if item is None else (wire(item), *op.stamp)
                cells.setdefault(key, []).append(cell)
        found = {wire(key): self._winner(several, floor, now) for key, several in cells.items()}
        return {key: cell for key, cell in found.items() if cell is not None}

    def view(self, view: Table, now: int) -> dict[tuple[int, ...], Any]:
        names = [column.name for column in (*view.partition_key, *view.clustering)]
        shown = {}
        for k, c in sorted({(op.k, op.c) for op in self.ops if op.kind in ("insert", "update")}):
            row = self.row(k, c, now)
            if row is None or not self._passes(view.name, row):
                continue
            number = {
                name: int.from_bytes(cell[0], "big", signed=True) for name, cell in row.items() if name != "m"
            }
            place = tuple({**number, "k": k, "c": c}[name] for name in names)
            kept = {column.name for column in view.regulars}
            shown[place] = {name: cell for name, cell in row.items() if name in kept}
        return shown

    def _passes(self, view: str, row: dict[str, Any]) -> bool:
        match view:
            case "by_v":
                return "v" in row
            case "some":
                return "v" in row and "x" in row and row["x"][0] > wire(1)
            case "present":
                return "m" in row and "w" in row and row["w"][0] == wire(2)
        return True
