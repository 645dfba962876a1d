"""Arrow arrays to wire values: the inverse of columns_write."""

from array import array as packed_array
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.model.types import (
    CQLType,
    Duration,
    ListType,
    MapType,
    SetType,
    TupleType,
    UserType,
    VectorType,
)
from belvedere.storage.columns_types import arrow_type, is_flat
from belvedere.storage.columns_wire import FixedColumn, ListColumn, VariableColumn, WireColumn


def from_arrow(cql_type: CQLType, array: pa.Array | pa.ChunkedArray) -> WireColumn:
    """The wire values of a column that `to_arrow` made, also after a detour through a Parquet file.

    Dictionary-encoded and large variants are accepted. User types and tuples are matched by position: a
    column written before a field was added has fewer fields, and the new ones are null.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    match cql_type:
        case ListType() | SetType():
            return _lists(cql_type.element, cql_type.build, array)
        case VectorType():
            return _vectors(cql_type, array)
        case MapType():
            return _maps(cql_type, array)
        case TupleType() | UserType():
            return _structs(cql_type, array)
    if cql_type.name == "duration":
        return _durations(cql_type, array)
    target = arrow_type(cql_type)
    if array.type != target:
        array = array.cast(target)
    match cql_type.name:
        case "text" | "ascii" | "blob":
            return _variable(array)
        case "varint" | "decimal" | "inet":
            parse = cql_type.parse_text
            return ListColumn([None if text is None else parse(text) for text in array.to_pylist()])
    return _fixed(cql_type, array)


# -- scalars ---------------------------------------------------------------------------------------


def _fixed(cql_type: CQLType, array: pa.Array) -> FixedColumn:
    width = cql_type.fixed_width
    assert width is not None
    count = len(array)
    valid = _validity(array)
    if cql_type.name == "boolean":
        array = pc.cast(array, pa.uint8())
    buffer = array.buffers()[1]
    if buffer is None:
        return FixedColumn(bytes(width * count), width, count, valid)
    if width == 16 or width == 1:
        data = buffer.slice(array.offset * width, count * width).to_pybytes()
        return FixedColumn(data, width, count, valid)
    native = np.frombuffer(buffer, f"=u{width}", count, array.offset * width)
    if cql_type.name == "date":
        native = native ^ np.uint32(2**31)
    return FixedColumn(native.astype(f">u{width}").tobytes(), width, count, valid)


def _variable(array: pa.Array) -> VariableColumn:
    _, offset_buffer, data_buffer = array.buffers()
    if offset_buffer is None or len(array) == 0:
        return VariableColumn(b"", packed_array("i", bytes(4 * len(array) + 4)), _validity(array))
    offsets = np.frombuffer(offset_buffer, np.int32, len(array) + 1, array.offset * 4)
    start, end = int(offsets[0]), int(offsets[-1])
    data = b"" if data_buffer is None else data_buffer.slice(start, end - start).to_pybytes()
    return VariableColumn(data, packed_array("i", (offsets - np.int32(start)).tobytes()), _validity(array))


def _durations(cql_type: CQLType, array: pa.Array) -> ListColumn:
    columns = [array.field(index).to_pylist() for index in range(3)]
    valid = _valid_list(array)
    encode = cql_type.encode
    rows = zip(valid, *columns, strict=True)
    return ListColumn([encode(Duration(*parts)) if ok else None for ok, *parts in rows])


# -- nested ----------------------------------------------------------------------------------------


def _lists(element: CQLType, build: Callable[[list[Any]], bytes], array: pa.Array) -> ListColumn:
    bounds, first, last = _bounds(array)
    parts = from_arrow(element, array.values.slice(first, last - first)).to_list()
    valid = _valid_list(array)
    rows = zip(valid, pairwise(bounds), strict=True)
    return ListColumn([build(parts[start:end]) if ok else None for ok, (start, end) in rows])


def _vectors(cql_type: VectorType, array: pa.Array) -> WireColumn:
    if not isinstance(array, pa.FixedSizeListArray):
        return _lists(cql_type.element, cql_type.build, array)
    size = cql_type.dimension
    numbers = from_arrow(cql_type.element, array.values.slice(array.offset * size, len(array) * size))
    if is_flat(cql_type) and isinstance(numbers, FixedColumn):
        width = cql_type.fixed_width
        assert width is not None
        return FixedColumn(numbers.data, width, len(array), _validity(array))
    parts: list[Any] = numbers.to_list()
    rows = enumerate(_valid_list(array))
    return ListColumn([cql_type.build(parts[i * size : i * size + size]) if ok else None for i, ok in rows])


def _maps(cql_type: MapType, array: pa.Array) -> ListColumn:
    bounds, first, last = _bounds(array)
    keys: list[Any] = from_arrow(cql_type.key, array.keys.slice(first, last - first)).to_list()
    items: list[Any] = from_arrow(cql_type.value, array.items.slice(first, last - first)).to_list()
    pairs = list(zip(keys, items, strict=True))
    rows = zip(_valid_list(array), pairwise(bounds), strict=True)
    return ListColumn([cql_type.build(pairs[start:end]) if ok else None for ok, (start, end) in rows])


def _structs(cql_type: TupleType | UserType, array: pa.Array) -> ListColumn:
    count = len(array)
    children: list[list[bytes | None]] = []
    for index, field_type in enumerate(cql_type.types):
        known = index < array.type.num_fields
        children.append(from_arrow(field_type, array.field(index)).to_list() if known else [None] * count)
    rows = zip(_valid_list(array), zip(*children, strict=True), strict=True)
    return ListColumn([cql_type.build(fields) if ok else None for ok, fields in rows])


# -- helpers ---------------------------------------------------------------------------------------


def _bounds(array: pa.Array) -> tuple[list[int], int, int]:
    """Where each list of the (possibly sliced) array begins, counted from the first one's begin."""
    if len(array) == 0:
        return [0], 0, 0
    offsets = array.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    return (offsets - first).tolist(), first, last


def _validity(array: pa.Array) -> bytes | None:
    if array.null_count == 0:
        return None
    present: bytes = array.is_valid().to_numpy(zero_copy_only=False).tobytes()
    return present


def _valid_list(array: pa.Array) -> list[bool]:
    present: list[bool] = array.is_valid().to_pylist()
    return present
