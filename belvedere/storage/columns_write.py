"""Wire values to Arrow arrays. Scalars go in bulk: one join, one byte swap. Nested types are taken apart
into the columns of their elements, so that only their frames are read in Python."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from belvedere.model.types import (
    CQLType,
    Duration,
    InvalidValue,
    ListType,
    MapType,
    SetType,
    TupleType,
    UserType,
    VectorType,
)
from belvedere.storage.columns_types import arrow_type, is_flat

Values = Sequence[bytes | None]

_MAX_BYTES = 2**31 - 1


def to_arrow(cql_type: CQLType, values: Values) -> pa.Array:
    """An Arrow array of `arrow_type(cql_type)` of valid, normalised wire values (None for null)."""
    match cql_type:
        case ListType() | SetType():
            return _lists(cql_type, cql_type.element, cql_type.elements, values)
        case VectorType():
            if is_flat(cql_type):
                return _flat_vectors(cql_type, values)
            return _lists(cql_type, cql_type.element, cql_type.elements, values)
        case MapType():
            return _maps(cql_type, values)
        case TupleType() | UserType():
            return _structs(cql_type, values)
    match cql_type.name:
        case "text" | "ascii" | "blob":
            return _variable(cql_type, values)
        case "varint" | "decimal" | "inet":
            to_string = cql_type.to_string
            return pa.array([None if wire is None else to_string(wire) for wire in values], pa.string())
        case "duration":
            return _durations(cql_type, values)
    return _fixed(cql_type, values)


# -- scalars ---------------------------------------------------------------------------------------


def _fixed(cql_type: CQLType, values: Values) -> pa.Array:
    data, bitmap, nulls = _joined(cql_type, values)
    return _numbers(cql_type, data, len(values), bitmap, nulls)


def _joined(cql_type: CQLType, values: Values) -> tuple[bytes, pa.Buffer | None, int]:
    """Fixed-width values in one piece (zeros for null), which of them are there, and how many are not."""
    width = cql_type.fixed_width
    assert width is not None
    bitmap, nulls = None, 0
    try:
        data = b"".join(values)  # type: ignore[arg-type]
    except TypeError:  # there are nulls
        filler = bytes(width)
        data = b"".join([filler if wire is None else wire for wire in values])
        bitmap, nulls = _bitmap(values)
    if len(data) != width * len(values):
        raise InvalidValue(f"a column of type {cql_type.name} has values that are not {width} bytes long")
    return data, bitmap, nulls


def _numbers(cql_type: CQLType, data: bytes, count: int, bitmap: pa.Buffer | None, nulls: int) -> pa.Array:
    """The array of big-endian fixed-width values."""
    target = arrow_type(cql_type)
    width = len(data) // count if count else 1
    native: Any
    if cql_type.name == "boolean":
        native = np.packbits(np.frombuffer(data, np.uint8) != 0, bitorder="little")
    elif width == 16 or width == 1:
        native = data
    else:
        # Floating point numbers move as integers too, which keeps every NaN as it is.
        native = np.frombuffer(data, f">u{width}").astype(f"=u{width}")
        if cql_type.name == "date":  # unsigned with the epoch in the middle
            native ^= np.uint32(2**31)
    return pa.Array.from_buffers(target, count, [bitmap, pa.py_buffer(native)], nulls)


def _variable(cql_type: CQLType, values: Values) -> pa.Array:
    bitmap, nulls = None, 0
    try:
        data = b"".join(values)  # type: ignore[arg-type]
        lengths = list(map(len, values))  # type: ignore[arg-type]
    except TypeError:
        data = b"".join([wire for wire in values if wire is not None])
        lengths = [0 if wire is None else len(wire) for wire in values]
        bitmap, nulls = _bitmap(values)
    if len(data) > _MAX_BYTES:
        raise InvalidValue(f"{len(data)} bytes of {cql_type.name} are too many for one column chunk")
    buffers = [bitmap, pa.py_buffer(_offsets(lengths)), pa.py_buffer(data)]
    return pa.Array.from_buffers(arrow_type(cql_type), len(values), buffers, nulls)


def _durations(cql_type: CQLType, values: Values) -> pa.Array:
    parts = [Duration(0, 0, 0) if wire is None else cql_type.decode(wire) for wire in values]
    columns = zip(*parts, strict=True) if parts else ((), (), ())
    target = arrow_type(cql_type)
    children = [pa.array(column, field.type) for column, field in zip(columns, target, strict=True)]
    return pa.StructArray.from_arrays(children, fields=list(target), mask=_mask(values))


# -- nested ----------------------------------------------------------------------------------------


def _flat_vectors(cql_type: VectorType, values: Values) -> pa.Array:
    data, _, _ = _joined(cql_type, values)
    numbers = _numbers(cql_type.element, data, len(values) * cql_type.dimension, None, 0)
    return pa.FixedSizeListArray.from_arrays(numbers, type=arrow_type(cql_type), mask=_mask(values))


def _lists(
    cql_type: CQLType, element: CQLType, elements: Callable[[bytes], list[bytes]], values: Values
) -> pa.Array:
    groups = [[] if wire is None else elements(wire) for wire in values]
    flat = to_arrow(element, [part for group in groups for part in group])
    offsets = pa.array(_offsets(list(map(len, groups))))
    return pa.ListArray.from_arrays(offsets, flat, type=arrow_type(cql_type), mask=_mask(values))


def _maps(cql_type: MapType, values: Values) -> pa.Array:
    groups = [[] if wire is None else cql_type.elements(wire) for wire in values]
    keys = to_arrow(cql_type.key, [key for group in groups for key, _ in group])
    items = to_arrow(cql_type.value, [item for group in groups for _, item in group])
    offsets = pa.array(_offsets(list(map(len, groups))))
    return pa.MapArray.from_arrays(offsets, keys, items, type=arrow_type(cql_type), mask=_mask(values))


def _structs(cql_type: TupleType | UserType, values: Values) -> pa.Array:
    none: list[bytes | None] = [None] * len(cql_type.types)
    rows = [none if wire is None else cql_type.all_elements(wire) for wire in values]
    children = [
        to_arrow(field_type, [row[index] for row in rows]) for index, field_type in enumerate(cql_type.types)
    ]
    return pa.StructArray.from_arrays(children, fields=list(arrow_type(cql_type)), mask=_mask(values))


# -- helpers ---------------------------------------------------------------------------------------


def _offsets(lengths: list[int]) -> NDArray[np.int32]:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _bitmap(values: Values) -> tuple[pa.Buffer, int]:
    present = np.fromiter((wire is not None for wire in values), dtype=bool, count=len(values))
    bitmap = pa.py_buffer(np.packbits(present, bitorder="little"))
    return bitmap, len(values) - int(np.count_nonzero(present))


def _mask(values: Values) -> pa.Array | None:
    """True where a value is null; None when none is, which saves the validity bitmap."""
    missing = [wire is None for wire in values]
    return pa.array(missing, pa.bool_()) if True in missing else None
