"""Which Arrow type stands for which CQL type."""

from typing import Final

import pyarrow as pa

from belvedere.model.types import (
    CQLType,
    ListType,
    MapType,
    ScalarType,
    SetType,
    TupleType,
    UserType,
    VectorType,
)

_SCALARS: Final[dict[str, pa.DataType]] = {
    "ascii": pa.string(),
    "bigint": pa.int64(),
    "blob": pa.binary(),
    "boolean": pa.bool_(),
    "counter": pa.int64(),
    "date": pa.date32(),
    "decimal": pa.string(),
    "double": pa.float64(),
    "duration": pa.struct([("months", pa.int32()), ("days", pa.int32()), ("nanoseconds", pa.int64())]),
    "float": pa.float32(),
    "inet": pa.string(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "text": pa.string(),
    "time": pa.time64("ns"),
    "timestamp": pa.timestamp("ms", tz="UTC"),
    "timeuuid": pa.binary(16),
    "tinyint": pa.int8(),
    "uuid": pa.binary(16),
    "varint": pa.string(),
}


def arrow_type(cql_type: CQLType) -> pa.DataType:
    """The Arrow type of a column of a CQL type."""
    match cql_type:
        case ListType() | SetType():
            return pa.list_(_element(cql_type.element))
        case MapType():
            return pa.map_(arrow_type(cql_type.key), arrow_type(cql_type.value))
        case VectorType():
            element = _element(cql_type.element)
            return pa.list_(element, cql_type.dimension) if is_flat(cql_type) else pa.list_(element)
        case TupleType():
            return pa.struct([(f"field_{i + 1}", arrow_type(t)) for i, t in enumerate(cql_type.types)])
        case UserType():
            return pa.struct([(name, arrow_type(t)) for name, t in cql_type.fields])
    return _SCALARS[cql_type.name]


def is_flat(cql_type: VectorType) -> bool:
    """Whether a vector's wire bytes are nothing but its elements' fixed-width numbers in a row."""
    return isinstance(cql_type.element, ScalarType) and cql_type.element.vector_width is not None


def _element(cql_type: CQLType) -> pa.Field:
    # The name that Parquet itself gives to the elements of lists.
    return pa.field("element", arrow_type(cql_type))
