"""How values look in a DataFrame: CQL types as Spark types, stored columns as Spark's Arrow columns.

What Spark has a type for is of that type. UUIDs, addresses, times of day, varints and decimals are text: no
Spark type holds all their values, and text goes back in as it came out.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.model.types import (
    CQLType,
    ListType,
    MapType,
    SetType,
    TupleType,
    UserType,
    VectorType,
)
from belvedere.storage.columns import arrow_type

_SPARK: Final = {
    "ascii": "string",
    "bigint": "bigint",
    "blob": "binary",
    "boolean": "boolean",
    "counter": "bigint",
    "date": "date",
    "decimal": "string",
    "double": "double",
    "duration": "struct<months:int,days:int,nanoseconds:bigint>",
    "float": "float",
    "inet": "string",
    "int": "int",
    "smallint": "smallint",
    "text": "string",
    "time": "string",
    "timestamp": "timestamp",
    "timeuuid": "string",
    "tinyint": "tinyint",
    "uuid": "string",
    "varint": "string",
}

#: Where each of a UUID's 36 characters comes from: a place among its 32 digits, or none for a dash.
_DIGITS: Final = [*range(8), -1, *range(8, 12), -1, *range(12, 16), -1, *range(16, 20), -1, *range(20, 32)]


def spark_type(cql_type: CQLType) -> str:
    """In Spark's words, as a schema has them."""
    match cql_type:
        case ListType() | SetType() | VectorType():
            return f"array<{spark_type(cql_type.element)}>"
        case MapType():
            return f"map<{spark_type(cql_type.key)},{spark_type(cql_type.value)}>"
        case TupleType():
            return _struct([(f"field_{i + 1}", t) for i, t in enumerate(cql_type.types)])
        case UserType():
            return _struct(list(cql_type.fields))
    return _SPARK[cql_type.name]


def _struct(fields: list[tuple[str, CQLType]]) -> str:
    return f"struct<{','.join(f'{quoted(name)}:{spark_type(t)}' for name, t in fields)}>"


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def as_spark(cql_type: CQLType, array: pa.Array, target: pa.DataType) -> pa.Array:
    """A stored column of a CQL type as Spark wants it; `target` is Spark's Arrow type of `spark_type`."""
    return _shown(cql_type, array).cast(target)


def _shown(cql_type: CQLType, array: pa.Array) -> pa.Array:
    match cql_type:
        case ListType() | SetType() | VectorType():
            lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0))
            inner = _shown(cql_type.element, array.flatten())
            return pa.ListArray.from_arrays(_offsets(lengths), inner, mask=_missing(array))
        case MapType():
            return _maps(cql_type, array)
        case TupleType() | UserType():
            children = array.flatten()
            parts = [
                _shown(kind, children[i]) if i < len(children) else pa.nulls(len(array), arrow_type(kind))
                for i, kind in enumerate(cql_type.types)
            ]
            names = [field.name for field in arrow_type(cql_type)]
            return pa.StructArray.from_arrays(parts, names=names, mask=_missing(array))
    match cql_type.name:
        case "uuid" | "timeuuid":
            return _uuid_text(array)
        case "time":
            return array.cast(pa.string())
    return array


def _maps(cql_type: MapType, array: pa.MapArray) -> pa.Array:
    entries = pa.ListArray.from_arrays(
        array.offsets, pa.StructArray.from_arrays([array.keys, array.items], ["k", "v"])
    )
    # Null ones may hold something.
    entries = pc.if_else(array.is_valid(), entries, pa.scalar(None, entries.type))
    lengths = np.asarray(pc.fill_null(pc.list_value_length(entries), 0))
    keys, items = entries.flatten().flatten()
    return pa.MapArray.from_arrays(
        _offsets(lengths), _shown(cql_type.key, keys), _shown(cql_type.value, items), mask=_missing(array)
    )


def _uuid_text(array: pa.Array) -> pa.Array:
    valid = np.array(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    raw = np.frombuffer(b"".join(array.drop_null().to_pylist()), np.uint8).reshape(-1, 16)
    digits = np.empty((len(raw), 33), np.uint8)
    characters = np.frombuffer(b"0123456789abcdef", np.uint8)
    digits[:, 0:32:2] = characters[raw >> 4]
    digits[:, 1:32:2] = characters[raw & 15]
    digits[:, 32] = ord("-")
    text = digits[:, _DIGITS]
    offsets = np.zeros(len(valid) + 1, np.int32)
    np.cumsum(valid * 36, out=offsets[1:])
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text))]
    return pa.Array.from_buffers(pa.string(), len(valid), buffers, int(np.count_nonzero(~valid)))


def _offsets(lengths: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.array(offsets)


def _missing(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
