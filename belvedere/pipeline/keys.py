"""Tokens and key bytes of many rows at once, from readable key columns.

What `model.token` and `model.ordering` say of one key is said here of columns, bit for bit: types of fixed
width and text become matrices of bytes; the few others go value by value through their own types.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from belvedere.model.ordering import MARKER, join_partition_key
from belvedere.model.token import Tokens, tokens_of_fixed, tokens_of_offsets
from belvedere.model.types import CQLType
from belvedere.storage import sstable_format as fmt
from belvedere.storage.columns import FixedColumn, from_arrow
from belvedere.storage.sstable_format import Layout, StoredColumn

Matrix = NDArray[np.uint8]

_SIGNED: Final = frozenset(("tinyint", "smallint", "int", "bigint", "timestamp"))
_RAW: Final = frozenset(("date", "time", "boolean"))
_TEXT: Final = frozenset(("text", "ascii", "blob"))
#: Where the bytes of a UUID of version 1 go, to be in the order of time.
_BY_TIME: Final = (6, 7, 4, 5, 0, 1, 2, 3)


@dataclass(frozen=True, slots=True)
class Bytes:
    """One byte string a row: of one width as a matrix, or of any as an Arrow column."""

    fixed: Matrix | None
    any: pa.Array | None

    def array(self) -> pa.Array:
        if self.any is not None:
            return self.any
        assert self.fixed is not None
        return binary_of(self.fixed)


def key_columns(layout: Layout, table: pa.Table) -> pa.Table:
    """The table with `_token` and, where the layout has them, `_key` and `_ck`, from its readable key
    columns, which may not be null anywhere."""
    table = table.combine_chunks()
    key = partition_key_bytes(layout, table)
    made = {fmt.TOKEN: pa.array(tokens(key, table.num_rows))}
    if layout.has_key_column:
        made[fmt.KEY] = key.array()
    if layout.clustering:
        made[fmt.CK] = clustering_bytes(layout, table).array()
    for name, array in made.items():
        index = table.schema.get_field_index(name)
        if index < 0:
            table = table.append_column(name, array)
        else:
            table = table.set_column(index, name, array)
    return table


def tokens(keys: Bytes, count: int) -> Tokens:
    if count == 0:
        return np.zeros(0, np.int64)
    if keys.fixed is not None:
        return tokens_of_fixed(np.ascontiguousarray(keys.fixed).reshape(-1), keys.fixed.shape[1])
    assert keys.any is not None
    _, offsets, data = keys.any.buffers()
    places = np.frombuffer(offsets, np.int32, count + 1, 4 * keys.any.offset)
    return tokens_of_offsets(places, data if data is not None else b"")


# -- partition keys --------------------------------------------------------------------------------


def partition_key_bytes(layout: Layout, table: pa.Table) -> Bytes:
    """The partition key of every row, as `join_partition_key` makes it."""
    columns = [_column(table, stored) for stored in layout.partition_key]
    types = [stored.column.type for stored in layout.partition_key]
    if layout.has_key_column:
        parts = [from_arrow(kind, column).to_list() for kind, column in zip(types, columns, strict=True)]
        keys = [join_partition_key(values) for values in zip(*parts, strict=True)]
        return Bytes(None, pa.array(keys, pa.binary()))
    wires = [_wire(kind, column) for kind, column in zip(types, columns, strict=True)]
    if len(wires) == 1:
        return wires[0]
    return _joined([part for wire in wires for part in (_length(wire), wire, _constant(b"\0", wire))])


def _length(wire: Bytes) -> Bytes:
    """The two bytes that lead a component."""
    if wire.fixed is not None:
        return _constant(wire.fixed.shape[1].to_bytes(2, "big"), wire)
    lengths = np.asarray(pc.binary_length(wire.any)).astype(">u2")
    return Bytes(lengths.view(np.uint8).reshape(-1, 2), None)


def _constant(value: bytes, like: Bytes) -> Bytes:
    rows = len(like.any if like.fixed is None else like.fixed)  # type: ignore[arg-type]
    return Bytes(np.broadcast_to(np.frombuffer(value, np.uint8), (rows, len(value))), None)


# -- clustering keys -------------------------------------------------------------------------------


def clustering_bytes(layout: Layout, table: pa.Table) -> Bytes:
    """The order-preserving clustering key of every row, as `ClusteringOrder.encode` makes it."""
    parts: list[Bytes] = []
    order = layout.table.clustering_order
    for index, stored in enumerate(layout.clustering):
        column = _column(table, stored)
        body = _order_of(stored.column.type, column)
        if body is None:
            values = from_arrow(stored.column.type, column).to_list()
            encoded = [order.encode_component(index, value) for value in values]  # type: ignore[arg-type]
            parts.append(Bytes(None, pa.array(encoded, pa.binary())))
            continue
        if stored.column.descending:
            body = _inverted(body)
        parts += [_constant(MARKER, body), body]
    return _joined(parts)


def order_keys(kind: CQLType, column: pa.Array) -> pa.Array | None:
    """`CQLType.to_key` of values that are not null; None for types that are left to themselves."""
    found = _order_of(kind, column)
    return None if found is None else found.array()


def _order_of(kind: CQLType, column: pa.Array) -> Bytes | None:
    """The keys of the values of one type; None for types that are left to themselves."""
    name = kind.name
    if name in _TEXT:
        wire = _wire(kind, column)
        assert wire.any is not None
        escaped = wire.any
        if _has_zero(escaped):
            escaped = pc.replace_substring(escaped, pattern=b"\0", replacement=b"\0\xff")
        return Bytes(None, pc.binary_join_element_wise(escaped, pa.scalar(b"\0\0", pa.binary()), b""))
    make = _MATRICES.get(name)
    if make is None:
        return None
    wire = _wire(kind, column)
    assert wire.fixed is not None
    return Bytes(make(wire.fixed), None)


def _signed(wire: Matrix) -> Matrix:
    keys = wire.copy()
    keys[:, 0] ^= 0x80
    return keys


def _floating(wire: Matrix) -> Matrix:
    width = wire.shape[1]
    values = wire.view(f">f{width}").reshape(-1)
    keys = wire.copy()
    keys[np.isnan(values)] = np.frombuffer(_NANS[width], np.uint8)
    negative = keys[:, 0] >= 0x80
    keys[negative] ^= 0xFF
    keys[~negative, 0] ^= 0x80
    return keys


#: Every NaN has the key of this one.
_NANS: Final = {4: bytes.fromhex("7fc00000"), 8: bytes.fromhex("7ff8000000000000")}


def _uuid(wire: Matrix) -> Matrix:
    keys = np.empty((len(wire), 17), np.uint8)
    keys[:, 0] = wire[:, 6] >> 4
    keys[:, 1:] = wire
    timed = np.flatnonzero(keys[:, 0] == 1)
    keys[timed, 1:9] = wire[timed][:, _BY_TIME]
    return keys


def _timeuuid(wire: Matrix) -> Matrix:
    keys = wire.copy()
    keys[:, :8] = wire[:, _BY_TIME]
    keys[:, 8:] ^= 0x80
    return keys


_MATRICES: Final[dict[str, Callable[[Matrix], Matrix]]] = {
    **dict.fromkeys(_SIGNED, _signed),
    **dict.fromkeys(_RAW, lambda wire: wire),
    "float": _floating,
    "double": _floating,
    "uuid": _uuid,
    "timeuuid": _timeuuid,
}


def _inverted(body: Bytes) -> Bytes:
    if body.fixed is not None:
        return Bytes(body.fixed ^ np.uint8(0xFF), None)
    assert body.any is not None
    _, offsets, data = body.any.buffers()
    if data is None:
        return body
    inverted = pa.py_buffer(np.frombuffer(data, np.uint8) ^ np.uint8(0xFF))
    buffers = [None, offsets, inverted]
    return Bytes(None, pa.Array.from_buffers(pa.binary(), len(body.any), buffers, 0, body.any.offset))


# -- bytes in columns ------------------------------------------------------------------------------


def _column(table: pa.Table, stored: StoredColumn) -> pa.Array:
    column = table.column(stored.name).combine_chunks()
    if column.null_count:
        raise ValueError(f"key column {stored.column.name} has null values")
    return column


def _wire(kind: CQLType, column: pa.Array) -> Bytes:
    """The values as they are on the wire; for types whose values are no objects of their own."""
    if kind.name in _TEXT:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return Bytes(None, column.cast(pa.binary()))
    wire = from_arrow(kind, column)
    assert isinstance(wire, FixedColumn)
    assert kind.fixed_width is not None
    return Bytes(np.frombuffer(wire.data, np.uint8).reshape(-1, kind.fixed_width), None)


def _has_zero(column: pa.Array) -> bool:
    data = column.buffers()[2]
    return data is not None and bool((np.frombuffer(data, np.uint8) == 0).any())


def _joined(parts: Sequence[Bytes]) -> Bytes:
    """The parts of every row one behind the other."""
    merged: list[Bytes] = []
    for part in parts:  # neighbours of fixed width are cheaper together
        last = merged[-1].fixed if merged else None
        if last is not None and part.fixed is not None:
            merged[-1] = Bytes(np.hstack([last, part.fixed]), None)
        else:
            merged.append(part)
    if len(merged) == 1:
        return merged[0]
    return Bytes(None, pc.binary_join_element_wise(*[part.array() for part in merged], b""))


def binary_of(matrix: Matrix) -> pa.Array:
    """A binary column of values of one width."""
    rows, width = matrix.shape
    offsets = (
        np.arange(0, (rows + 1) * width, width, dtype=np.int32) if width else np.zeros(rows + 1, np.int32)
    )
    data = pa.py_buffer(np.ascontiguousarray(matrix).reshape(-1))
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), data], 0)
