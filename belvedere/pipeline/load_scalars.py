"""Arrow values as values of CQL's simple types, whole columns at a time.

Every function here answers for what is ordinary in a column and leaves null where it cannot tell: these
values are looked at one by one by the CQL type itself, which knows all forms and what is wrong with a value.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from belvedere.model.types import CQLType
from belvedere.storage.columns import arrow_type

_DAY_MS: Final = 86_400_000
_DAY_NS: Final = 86_400 * 10**9

_PLAIN_INTEGER: Final = r"^[+-]?[0-9]{1,18}$"
_PLAIN_FLOAT: Final = r"^[+-]?[0-9]{1,300}(\.[0-9]{0,300})?([eE][+-]?[0-9]{1,2})?$"
#: Numbers whose text is what a varint or a decimal of them prints as.
_OWN_TEXT: Final = {
    "varint": r"^(0|-?[1-9][0-9]{0,17})$",
    "decimal": r"^(0|-?[1-9][0-9]{0,17}|(0|-?[1-9][0-9]{0,17})\.[0-9]{1,6})$",
}
_UUID: Final = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
_TIMESTAMP: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,3})?Z?$"
_DATE: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"

#: Which kinds of Arrow values a type takes; see `family`.
FAMILIES: Final[dict[str, frozenset[str]]] = {
    name: frozenset(kinds.split())
    for names, kinds in (
        ("tinyint smallint int bigint", "text integer float decimal"),
        ("float double decimal", "text integer float decimal"),
        ("varint", "text integer decimal"),
        ("boolean", "text boolean"),
        ("text ascii", "text"),
        ("blob uuid timeuuid inet", "text binary"),
        ("timestamp", "text timestamp date integer"),
        ("date", "text date"),
        ("time", "text time integer"),
        ("duration", "text struct interval"),
    )
    for name in names.split()
}


def family(kind: pa.DataType) -> str:
    """Arrow types that hold the same sort of values."""
    types = pa.types
    for name, tests in (
        ("text", (types.is_string, types.is_large_string, types.is_string_view)),
        ("boolean", (types.is_boolean,)),
        ("integer", (types.is_integer,)),
        ("float", (types.is_floating,)),
        ("decimal", (types.is_decimal,)),
        ("timestamp", (types.is_timestamp,)),
        ("date", (types.is_date,)),
        ("time", (types.is_time,)),
        ("interval", (types.is_interval,)),
        ("struct", (types.is_struct,)),
        ("map", (types.is_map,)),
        ("list", (types.is_list, types.is_large_list, types.is_fixed_size_list)),
        ("null", (types.is_null,)),
        (
            "binary",
            (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view),
        ),
    ):
        if any(test(kind) for test in tests):
            return name
    return str(kind)


def quickly(cql_type: CQLType, array: pa.Array) -> pa.Array:
    """The column in `arrow_type(cql_type)`, null for values that must be looked at one by one."""
    try:
        return _QUICK[cql_type.name](cql_type, family(array.type), array)
    except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(array), arrow_type(cql_type))


def _only(array: pa.Array, wanted: pa.Array) -> pa.Array:
    """What is not wanted becomes null."""
    return pc.if_else(pc.fill_null(wanted, False), array, pa.scalar(None, array.type))


def _matching(array: pa.Array, pattern: str) -> pa.Array:
    text = array.cast(pa.string())
    return _only(text, pc.match_substring_regex(text, pattern))


def _integers(cql_type: CQLType, kind: str, array: pa.Array) -> pa.Array:
    width = cql_type.fixed_width
    assert width is not None
    bound = 2 ** (8 * width - 1)
    return _between(_as_int64(kind, array), -bound, bound - 1).cast(arrow_type(cql_type))


def _as_int64(kind: str, array: pa.Array) -> pa.Array:
    if kind == "text":
        plain = _matching(array, _PLAIN_INTEGER)
        return pc.replace_substring_regex(plain, r"^\+", "").cast(pa.int64())
    if kind == "float":
        array = array.cast(pa.float64())
        whole = pc.and_(pc.equal(pc.floor(array), array), pc.less(array, 2.0**63))
        array = _only(array, pc.and_(whole, pc.greater_equal(array, -(2.0**63))))
        return array.cast(pa.int64(), safe=False)
    if array.type == pa.uint64():
        array = _only(array, pc.less(array, pa.scalar(2**63, pa.uint64())))
    return array.cast(pa.int64())


def _between(array: pa.Array, low: int, high: int) -> pa.Array:
    return _only(array, pc.and_(pc.greater_equal(array, low), pc.less_equal(array, high)))


def _floats(cql_type: CQLType, kind: str, array: pa.Array) -> pa.Array:
    if kind == "decimal":  # by their text, which rounds once
        array, kind = array.cast(pa.string()), "text"
    if kind == "text":
        plain = _matching(array, _PLAIN_FLOAT)
        array = pc.replace_substring_regex(plain, r"^\+", "")
    elif array.type == arrow_type(cql_type):
        return array
    return array.cast(pa.float64(), safe=False).cast(arrow_type(cql_type), safe=False)


def _booleans(cql_type: CQLType, kind: str, array: pa.Array) -> pa.Array:
    if kind == "boolean":
        return array
    text = pc.utf8_lower(array.cast(pa.string()))
    return _only(pc.equal(text, "true"), pc.is_in(text, pa.array(["true", "false"])))


def _texts(cql_type: CQLType, kind: str, array: pa.Array) -> pa.Array:
    # Through bytes, which checks that they are UTF-8.
    text = array.cast(pa.large_binary()).cast(pa.binary()).cast(pa.string())
    return text if cql_type.name == "text" else _only(text, pc.string_is_ascii(text))


def _blobs(cql_type: CQLType, kind: str, array: pa.Array) -> pa.Array:
    if kind == "text":
        return pa.nulls(len(array), pa.binary())
    return array.cast(pa.binary())


def _uuids(cql_type: CQLType, kind: str, array: pa.Array) -> pa.Array:
    if kind == "text":
        plain = _matching(array, _UUID)
        valid = _flags(plain.is_valid())
        joined = "".join(pc.replace_substring(plain, "-", "").drop_null().to_pylist())
        data = bytes.fromhex(joined)
    else:
        array = array.cast(pa.binary())
        array = _only(array, pc.equal(pc.binary_length(array), 16))
        valid = _flags(array.is_valid())
        data = b"".join(array.drop_null().to_pylist())
    rows = np.zeros((len(valid), 16), np.uint8)
    rows[valid] = np.frombuffer(data, np.uint8).reshape(-1, 16)
    if cql_type.name == "timeuuid":
        valid &= rows[:, 6] >> 4 == 1
    return _from_numpy(pa.binary(16), rows, valid)


def _from_numpy(kind: pa.DataType, values: NDArray[Any], valid: NDArray[np.bool_]) -> pa.Array:
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    missing = len(valid) - int(np.count_nonzero(valid))
    return pa.Array.from_buffers(kind, len(valid), [bitmap, pa.py_buffer(values)], missing)


def _flags(array: pa.Array) -> NDArray[np.bool_]:
    return np.array(array.to_numpy(zero_copy_only=False), np.bool_)


def _timestamps(cql_type: CQLType, kind: str, array: pa.Array) -> pa.Array:
    """Milliseconds; what is finer is cut off, as drivers do it."""
    target = arrow_type(cql_type)
    if kind == "text":
        plain = pc.replace_substring_regex(_matching(array, _TIMESTAMP), "Z$", "")
        return plain.cast(pa.timestamp("ms")).view(pa.int64()).view(target)
    if kind == "integer":
        return _as_int64(kind, array).view(target)
    if kind == "date":
        return pc.multiply_checked(array.cast(pa.date32()).view(pa.int32()).cast(pa.int64()), _DAY_MS).view(
            target
        )
    numbers = array.view(pa.int64())
    match array.type.unit:
        case "s":
            numbers = pc.multiply_checked(numbers, 1000)
        case "us" | "ns" as unit:
            divisor = 1000 if unit == "us" else 1_000_000
            raw = np.asarray(pc.fill_null(numbers, 0)) // divisor
            numbers = _from_numpy(pa.int64(), raw, _flags(numbers.is_valid()))
    return numbers.view(target)


def _dates(cql_type: CQLType, kind: str, array: pa.Array) -> pa.Array:
    return (_matching(array, _DATE) if kind == "text" else array).cast(pa.date32())


def _times(cql_type: CQLType, kind: str, array: pa.Array) -> pa.Array:
    target = arrow_type(cql_type)
    if kind == "text":
        return pa.nulls(len(array), target)
    numbers = _as_int64(kind, array) if kind == "integer" else array.cast(target).view(pa.int64())
    return _between(numbers, 0, _DAY_NS - 1).view(target)


def _own_text(cql_type: CQLType, kind: str, array: pa.Array) -> pa.Array:
    """Varints and decimals are kept as their text."""
    if kind == "float":
        return pa.nulls(len(array), pa.string())
    return _matching(array.cast(pa.string()), _OWN_TEXT[cql_type.name])


_Quick = Callable[[CQLType, str, pa.Array], pa.Array]

_QUICK: Final[dict[str, _Quick]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _integers),
    **dict.fromkeys(("float", "double"), _floats),
    **dict.fromkeys(("text", "ascii"), _texts),
    **dict.fromkeys(("uuid", "timeuuid"), _uuids),
    **dict.fromkeys(("varint", "decimal"), _own_text),
    "boolean": _booleans,
    "blob": _blobs,
    "timestamp": _timestamps,
    "date": _dates,
    "time": _times,
}
