"""Tables made up from the node's state when they are read: `system`, `system_schema` and their like.

A `VirtualTable` is an ordinary table definition with a function that gives its rows; SELECT plans work on
it as on any other table. Rows are mappings from column name to a Python value, or to wire bytes; what is left
out is null.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from belvedere.model.mutations import Mutation
from belvedere.model.ordering import join_partition_key
from belvedere.model.rows import AnyCell, Cell, Complex, Row
from belvedere.model.schema import Column, Table
from belvedere.model.token import token_of
from belvedere.model.types import CQLType, ListType, MapType, SetType, UserType
from belvedere.query.access import LockedPartitions
from belvedere.query.errors import InvalidRequest
from belvedere.storage.reads import KeySlice, PartitionRead, PartitionRows, RangeRead, ScanPage

VirtualRow = Mapping[str, Any]
Source = Callable[[], Iterable[VirtualRow]]


def _no_rows() -> Iterable[VirtualRow]:
    return ()


@dataclass(frozen=True)
class VirtualTable(Table):
    """Give every column of one kind its own position, as for any table."""

    source: Source = field(default=_no_rows, compare=False)


@dataclass(slots=True)
class _Partition:
    token: int
    key: bytes
    static: Row | None
    rows: dict[bytes, Row]


class VirtualAccess:
    """The rows of one virtual table as they are now, in memory, in token order; read only."""

    def __init__(self, table: VirtualTable) -> None:
        self._table = table
        self._by_key: dict[bytes, _Partition] = {}
        for row in table.source():
            self._add(row)
        self._sorted = sorted(self._by_key.values(), key=lambda p: (p.token, p.key))

    def _add(self, values: VirtualRow) -> None:
        table = self._table
        key = join_partition_key([_required(values, column) for column in table.partition_key])
        partition = self._by_key.get(key)
        if partition is None:
            partition = self._by_key[key] = _Partition(token_of(key), key, None, {})
        if table.statics and any(values.get(column.name) is not None for column in table.statics):
            partition.static = _row(table.statics, values, live=False)
        # A row without clustering values stands for a partition of static cells alone.
        if all(values.get(column.name) is not None for column in table.clustering):
            clustering = table.clustering_order.encode_prefix(
                [_required(values, column) for column in table.clustering]
            )
            partition.rows[clustering] = _row(table.regulars, values, live=True)

    # -- reading -----------------------------------------------------------------------------------

    def read_now(self, table: Table, read: PartitionRead, now: int) -> PartitionRows | None:
        partition = self._by_key.get(read.key)
        if partition is None:
            return PartitionRows(read.token, read.key, None, [])
        slices = read.slices if read.row is None else (KeySlice(read.row, read.row + b"\x00"),)
        return _read(partition, slices, reverse=read.reverse, limit=read.limit)

    async def read(self, table: Table, read: PartitionRead, now: int) -> PartitionRows:
        found = self.read_now(table, read, now)
        assert found is not None
        return found

    async def scan(self, table: Table, read: RangeRead, now: int) -> ScanPage:
        """Everything at once: these tables are small."""
        page = ScanPage()
        for partition in self._sorted:
            position = (partition.token, partition.key)
            if position < read.start or partition.token > read.end_token:
                continue
            resumed = position == read.start and read.first_slices is not None
            slices = read.first_slices if resumed and read.first_slices is not None else read.slices
            found = _read(partition, slices, reverse=read.reverse, limit=read.partition_limit)
            if found.rows or found.static is not None:
                found.more = False
                page.partitions.append(found)
        return page

    async def pause(self) -> None:
        """Nothing here is long."""

    # -- writing -----------------------------------------------------------------------------------

    def write_now(self, table: Table, mutation: Mutation) -> int | None:
        self._refuse()

    async def write(self, mutations: Sequence[tuple[Table, Mutation]]) -> int:
        self._refuse()

    def lock(
        self, partitions: Sequence[tuple[Table, bytes]]
    ) -> AbstractAsyncContextManager[LockedPartitions]:
        self._refuse()

    def view_warnings(self, view: Table) -> tuple[str, ...]:
        return ()

    async def durable(self, position: int) -> None:
        """Nothing of these tables is logged."""

    async def truncate(self, table: Table) -> None:
        self._refuse()

    def next_timestamp(self) -> int:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InvalidRequest(f"Modification is not supported by table {self._table.full_name}")


def _read(partition: _Partition, slices: Sequence[KeySlice], *, reverse: bool, limit: int) -> PartitionRows:
    keys = sorted(partition.rows, reverse=reverse)
    rows = [(key, partition.rows[key]) for key in keys if any(piece.holds(key) for piece in slices)]
    more = bool(limit) and len(rows) > limit
    return PartitionRows(
        partition.token, partition.key, partition.static, rows[:limit] if limit else rows, 0, more
    )


def _row(columns: Sequence[Column], values: VirtualRow, *, live: bool) -> Row:
    width = max((column.position for column in columns), default=-1) + 1
    cells: list[AnyCell] = [None] * width
    for column in columns:
        wire = _wire(column.type, values.get(column.name))
        if wire is not None:
            cells[column.position] = explode(column.type, wire) if column.type.is_multicell else wire
    return Row(0, 0, 0, live, None, cells)


def _required(values: VirtualRow, column: Column) -> bytes:
    wire = _wire(column.type, values.get(column.name))
    if wire is None:
        raise ValueError(f"a row of a virtual table needs a value for {column.name}")
    return wire


def _wire(type_: CQLType, value: object) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else type_.encode(value)


def explode(type_: CQLType, wire: bytes) -> Complex:
    """A non-frozen value's cells, all with timestamp 0."""
    items: dict[bytes, Cell] = {}
    if isinstance(type_, ListType):
        # List positions are time UUIDs; these differ in the lowest bits of their time.
        for index, element in enumerate(type_.elements(wire)):
            items[index.to_bytes(4, "big") + bytes(12)] = (element, 0, 0, 0)
    elif isinstance(type_, SetType):
        for element in type_.elements(wire):
            items[element] = (b"", 0, 0, 0)
    elif isinstance(type_, MapType):
        for key, value in type_.elements(wire):
            items[key] = (value, 0, 0, 0)
    elif isinstance(type_, UserType):
        for index, part in enumerate(type_.elements(wire)):
            if part is not None:
                items[index.to_bytes(2, "big")] = (part, 0, 0, 0)
    return Complex(None, items)
