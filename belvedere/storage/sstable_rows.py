"""Stored partitions turned into Arrow tables in the shape of an sstable, column by column.

Rows come in Python objects here (from a memtable, or the few that compaction must merge one by one), so
every column is gathered by one comprehension and converted at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from belvedere.model.ordering import ClusteringOrder, split_partition_key
from belvedere.model.rows import AnyCell, Complex, Deletion, Row, cut
from belvedere.model.types import CQLType
from belvedere.storage import sstable_format as fmt
from belvedere.storage.columns import FixedColumn, to_arrow
from belvedere.storage.deletions import Coverage
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.sstable_derived import last_expiry, readable_value, until_of
from belvedere.storage.sstable_format import Layout, StoredColumn

#: Types of fixed width whose keys are their wire values, with and without the sign bit flipped.
_FLIPPED: Final = frozenset(("tinyint", "smallint", "int", "bigint", "timestamp"))
_RAW: Final = frozenset(("date", "time"))

_encode_elements = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class Bounds:
    """Widest stamps seen. Seconds are those of expiries and deletions."""

    min_timestamp: int = 2**63 - 1
    max_timestamp: int = -(2**63)
    min_second: int = 2**63 - 1
    max_second: int = 0

    def add_timestamps(self, low: int, high: int) -> None:
        self.min_timestamp = min(self.min_timestamp, low)
        self.max_timestamp = max(self.max_timestamp, high)

    def add_seconds(self, low: int, high: int) -> None:
        self.min_second = min(self.min_second, low)
        self.max_second = max(self.max_second, high)

    def add_deletion(self, deletion: Deletion) -> None:
        self.add_timestamps(deletion[0], deletion[0])
        self.add_seconds(deletion[1], deletion[1])

    def add(self, other: "Bounds") -> None:
        self.add_timestamps(other.min_timestamp, other.max_timestamp)
        self.add_seconds(other.min_second, other.max_second)

    def add_complex(self, cell: Complex) -> None:
        if cell.deletion is not None:
            self.add_deletion(cell.deletion)
        for _, timestamp, _, expiry in cell.items.values():
            self.add_timestamps(timestamp, timestamp)
            if expiry:
                self.add_seconds(expiry, expiry)


@dataclass(slots=True)
class _Entries:
    """One list item per entry of the file."""

    tokens: list[int] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    #: Entries of each partition; `tokens` and `keys` are per partition.
    counts: list[int] = field(default_factory=list)
    #: Only filled if there are heads; otherwise all are rows.
    kinds: list[int] = field(default_factory=list)
    cks: list[bytes] = field(default_factory=list)
    ends: dict[int, bytes] = field(default_factory=dict)
    rows: list[Row | None] = field(default_factory=list)
    #: Deletions of entries that are no rows.
    deletions: dict[int, Deletion] = field(default_factory=dict)
    heads: int = 0


def to_table(layout: Layout, partitions: Sequence[StoredPartition]) -> tuple[pa.Table, Bounds]:
    """The partitions as a table with the columns they need, and the stamps inside their collections."""
    entries = _flatten(partitions)
    builder = _TableBuilder(layout, entries)
    return builder.build(), builder.bounds


def _flatten(partitions: Sequence[StoredPartition]) -> _Entries:
    for partition in partitions:
        if partition.deletion is not None or partition.ranges or partition.static is not None:
            return _flatten_with_heads(partitions)
        if not partition.rows:
            return _flatten_with_heads(partitions)
    entries = _Entries()
    entries.tokens = [partition.token for partition in partitions]
    entries.keys = [partition.key for partition in partitions]
    entries.counts = [len(partition.rows) for partition in partitions]
    entries.cks = [pair[0] for partition in partitions for pair in partition.rows]
    entries.rows = [pair[1] for partition in partitions for pair in partition.rows]
    return entries


def _flatten_with_heads(partitions: Sequence[StoredPartition]) -> _Entries:
    entries = _Entries()
    rows = entries.rows
    for partition in partitions:
        before = len(rows)
        stored = _add_heads(entries, partition)
        entries.cks += [pair[0] for pair in stored]
        rows += [pair[1] for pair in stored]
        entries.kinds += [fmt.ROW] * len(stored)
        if len(rows) > before:
            entries.tokens.append(partition.token)
            entries.keys.append(partition.key)
            entries.counts.append(len(rows) - before)
    return entries


def _add_heads(entries: _Entries, partition: StoredPartition) -> Sequence[tuple[bytes, Row]]:
    """Append what stands before a partition's rows; the rows that its own deletions leave."""

    def add(kind: int, ck: bytes, row: Row | None) -> int:
        entries.kinds.append(kind)
        entries.cks.append(ck)
        entries.rows.append(row)
        entries.heads += 1
        return len(entries.rows) - 1

    deletion, static = partition.deletion, partition.static
    if deletion is not None:
        entries.deletions[add(fmt.PARTITION_DELETION, b"", None)] = deletion
    for found in sorted(partition.ranges, key=lambda r: (r.start, r.end)):
        index = add(fmt.RANGE_DELETION, found.start, None)
        entries.ends[index] = found.end
        entries.deletions[index] = found.deletion
    if static is not None:
        kept = static if deletion is None else cut(static, deletion)
        if kept is not None:
            add(fmt.STATIC_ROW, b"", kept)
    if deletion is None and not partition.ranges:
        return partition.rows
    # A file's own deletions are applied before it is written, so that it can be read by itself.
    coverage = Coverage(deletion, partition.ranges)
    kept_rows: list[tuple[bytes, Row]] = []
    for ck, row in partition.rows:
        covering = coverage.of(ck)
        left = row if covering is None else cut(row, covering)
        if left is not None:
            kept_rows.append((ck, left))
    return kept_rows


class _TableBuilder:
    def __init__(self, layout: Layout, entries: _Entries) -> None:
        self.layout = layout
        self.entries = entries
        self.bounds = Bounds()
        self.size = len(entries.rows)
        self.columns: dict[str, pa.Array] = {}

    def build(self) -> pa.Table:
        entries, layout = self.entries, self.layout
        self._keys()
        rows: list[Row] = [row for row in entries.rows if row is not None] if entries.heads else entries.rows  # type: ignore[assignment]
        kinds = np.full(self.size, fmt.ROW, np.int8)
        if entries.heads:
            kinds = np.fromiter(entries.kinds, np.int8, self.size)
        self.columns[fmt.KIND] = pa.array(kinds)
        self._stamps(rows, kinds)
        cells = [row.cells for row in rows]
        if not entries.heads:
            self._cells(layout.regulars, cells, None)
            self._cells(layout.statics, [], _scatter(self.size, []))
        else:
            of_rows = kinds[kinds >= fmt.STATIC_ROW] == fmt.ROW
            split: list[list[list[AnyCell]]] = [[], []]
            for is_row, row_cells in zip(of_rows.tolist(), cells, strict=True):
                split[is_row].append(row_cells)
            self._cells(
                layout.statics, split[0], _scatter(self.size, np.flatnonzero(kinds == fmt.STATIC_ROW))
            )
            self._cells(layout.regulars, split[1], _scatter(self.size, np.flatnonzero(kinds == fmt.ROW)))
        schema = layout.schema(self.columns)
        partial = {name: self.columns[name] for name in schema.names if name in self.columns}
        self.columns[fmt.UNTIL] = until_of(layout, partial, self.size)
        return pa.table([self.columns[name] for name in schema.names], schema=schema)

    def _keys(self) -> None:
        entries, columns = self.entries, self.columns
        counts = np.fromiter(entries.counts, np.int64, len(entries.counts))
        repeat: Callable[[pa.Array], pa.Array] = lambda array: array  # noqa: E731
        if self.size != len(entries.counts):
            indices = pa.array(np.repeat(np.arange(len(counts)), counts))
            repeat = lambda array: array.take(indices)  # noqa: E731
        columns[fmt.TOKEN] = repeat(pa.array(entries.tokens, pa.int64()))
        stored = self.layout.partition_key
        if len(stored) == 1:
            parts: list[Sequence[bytes]] = [entries.keys]
        else:
            parts = list(zip(*(split_partition_key(key, len(stored)) for key in entries.keys), strict=True))
            parts = parts or [[] for _ in stored]
        for one, values in zip(stored, parts, strict=True):
            columns[one.name] = repeat(to_arrow(one.column.type, list(values)))
        if self.layout.has_key_column:
            columns[fmt.KEY] = repeat(pa.array(entries.keys, pa.binary()))
        if self.layout.clustering:
            self._clustering()

    def _clustering(self) -> None:
        entries, columns = self.entries, self.columns
        stored = self.layout.clustering
        columns[fmt.CK] = pa.array(entries.cks, pa.binary())
        if entries.ends:
            columns[fmt.END] = pa.array([entries.ends.get(i) for i in range(self.size)], pa.binary())
        if not entries.heads:
            decoded = clustering_values(self.layout, entries.cks)
            places = None
        else:
            rows = [ck for kind, ck in zip(entries.kinds, entries.cks, strict=True) if kind == fmt.ROW]
            decoded = clustering_values(self.layout, rows)
            places = _scatter(self.size, [i for i, kind in enumerate(entries.kinds) if kind == fmt.ROW])
        for one, values in zip(stored, decoded, strict=True):
            array = to_arrow(one.column.type, values)
            columns[one.name] = array if places is None else array.take(places)

    def _stamps(self, rows: list[Row], kinds: NDArray[np.int8]) -> None:
        """The row's own stamp and deletions."""
        columns = self.columns
        place: Callable[[pa.Array], pa.Array] = lambda array: array  # noqa: E731
        if len(rows) != self.size:
            scatter = _scatter(self.size, np.flatnonzero(kinds >= fmt.STATIC_ROW))
            place = lambda array: array.take(scatter)  # noqa: E731
        columns[fmt.TS] = place(pa.array([row.timestamp for row in rows], pa.int64()))
        columns[fmt.LIVE] = pc.fill_null(place(pa.array([row.live for row in rows], pa.bool_())), False)
        ttls = [row.ttl for row in rows]
        expiries = [row.expiry for row in rows]
        if any(ttls) or any(expiries):
            columns[fmt.TTL] = place(pa.array([ttl or None for ttl in ttls], pa.int32()))
            columns[fmt.EXP] = place(pa.array([expiry or None for expiry in expiries], pa.int64()))
        own = self.entries.deletions
        deletions = [row.deletion for row in rows]
        if not own and deletions.count(None) == len(deletions):
            return
        by_entry = [
            own.get(index) if row is None else row.deletion for index, row in enumerate(self.entries.rows)
        ]
        columns[fmt.DEL_TS] = pa.array([None if d is None else d[0] for d in by_entry], pa.int64())
        columns[fmt.DEL_AT] = pa.array([None if d is None else d[1] for d in by_entry], pa.int64())

    def _cells(
        self, stored: Sequence[StoredColumn], cells: Sequence[list[AnyCell]], places: pa.Array | None
    ) -> None:
        """Value columns; `places` says for each entry which of the rows it is, if not all are."""
        wanted = max((one.column.position + 1 for one in stored), default=0)
        if cells and min(map(len, cells)) < wanted:
            # Rows written before a column was added are shorter than the table.
            cells = [row + [None] * (wanted - len(row)) for row in cells]
        for one in stored:
            position = one.column.position
            values = [row[position] for row in cells]
            made = self._complex(one, values) if one.is_multicell else _plain(one, values)
            for name, array in made.items():
                self.columns[name] = array if places is None else array.take(places)

    def _complex(self, one: StoredColumn, values: Sequence[AnyCell]) -> dict[str, pa.Array]:
        frozen = one.column.type.frozen()
        readable: list[bytes | None] = []
        exact: list[bytes | None] = []
        expiries: list[int | None] = []
        for value in values:
            if value is None:
                readable.append(None)
                exact.append(None)
                expiries.append(None)
                continue
            assert isinstance(value, Complex)
            self.bounds.add_complex(value)
            exact.append(_encode_elements(value))
            readable.append(readable_value(frozen, value))
            expiries.append(last_expiry(value))
        made = {one.name: to_arrow(frozen, readable), one.elements: pa.array(exact, pa.binary())}
        if any(expiry is not None for expiry in expiries):
            made[one.exp] = pa.array(expiries, pa.int64())
        return made


def clustering_values(layout: Layout, cks: Sequence[bytes]) -> list[list[bytes | None]]:
    """The wire values of clustering keys, column by column."""
    order = layout.table.clustering_order
    if cks and all(kind.name in _FLIPPED or kind.name in _RAW for kind in order.types):
        return _fixed_clustering_values(order, b"".join(cks), len(cks))
    decode = order.decode
    rows: list[list[bytes | None]] = [decode(ck) for ck in cks]  # type: ignore[misc]
    return [[row[index] for row in rows] for index in range(len(order.types))]


def _fixed_clustering_values(order: ClusteringOrder, joined: bytes, count: int) -> list[list[bytes | None]]:
    """Keys all of one width: each component is a marker byte, then the wire value with its sign bit flipped
    where the type has a sign, all of it inverted for DESC."""
    table = np.frombuffer(joined, np.uint8).reshape(count, -1)
    values = []
    offset = 0
    for kind, descending in zip(order.types, order.descending, strict=True):
        width = kind.fixed_width
        assert width is not None
        part = table[:, offset + 1 : offset + 1 + width].copy()
        if descending:
            np.invert(part, out=part)
        if kind.name in _FLIPPED:
            part[:, 0] ^= 0x80
        values.append(FixedColumn(part.tobytes(), width, count, None).to_list())
        offset += 1 + width
    return values


def _plain(one: StoredColumn, values: Sequence[AnyCell]) -> dict[str, pa.Array]:
    """An ordinary column, with stamps of its own where cells do not share the row's."""
    kind: CQLType = one.column.type
    if set(map(type, values)) <= {bytes, type(None)}:
        return {one.name: to_arrow(kind, list(values))}  # type: ignore[arg-type]
    wire: list[bytes | None] = []
    timestamps: list[int | None] = []
    ttls: list[int | None] = []
    expiries: list[int | None] = []
    for value in values:
        if type(value) is tuple:
            wire.append(value[0])
            timestamps.append(value[1])
            ttls.append(value[2] or None)
            expiries.append(value[3] or None)
        else:
            wire.append(value)  # type: ignore[arg-type]
            timestamps.append(None)
            ttls.append(None)
            expiries.append(None)
    made = {one.name: to_arrow(kind, wire), one.ts: pa.array(timestamps, pa.int64())}
    if any(ttls):
        made[one.ttl] = pa.array(ttls, pa.int32())
    if any(expiries):
        made[one.exp] = pa.array(expiries, pa.int64())
    return made


def _scatter(size: int, places: Any) -> pa.Array:
    """Indices that spread an array of len(places) items over `size` entries, null elsewhere."""
    indices = np.zeros(size, np.int64)
    missing = np.ones(size, np.bool_)
    indices[places] = np.arange(len(places))
    missing[places] = False
    return pa.array(indices, mask=missing)
