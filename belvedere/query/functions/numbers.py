"""Numbers of one CQL type turned into another, by Java's rules (those of casts, arithmetic and functions)."""

import math
from decimal import ROUND_DOWN, Decimal, localcontext
from typing import Final

from belvedere.model.types import CQLType, native
from belvedere.query.errors import InvalidRequest
from belvedere.query.functions.aggregates import encode_float

Number = int | float | Decimal

INTEGER_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64, "counter": 64, "varint": 0}
FLOAT_BITS: Final = {"float": 32, "double": 64, "decimal": 0}
NUMBERS: Final = (*INTEGER_BITS, *FLOAT_BITS)


def wrap(value: int, bits: int) -> int:
    """Two's complement of a fixed width."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def encode_number(type_: CQLType, value: Number) -> bytes:
    """The wire value, narrowed as Java narrows."""
    name = type_.name
    if name in INTEGER_BITS:
        return _encode_integer(type_, value)
    if name == "decimal":
        return type_.encode(to_decimal(value))
    return encode_float(type_, to_float(value))


def _encode_integer(type_: CQLType, value: Number) -> bytes:
    bits = INTEGER_BITS[type_.name]
    if isinstance(value, float):
        # Floating point numbers saturate; through int first for the narrow types, as in Java.
        saturated = _saturate(value, 64 if bits in (0, 64) else 32)
        return type_.encode(saturated if bits in (0, 64, 32) else wrap(saturated, bits))
    number = value if isinstance(value, int) else _whole(value)
    return type_.encode(wrap(number, bits) if bits else number)


def _saturate(value: float, bits: int) -> int:
    if math.isnan(value):
        return 0
    half = 1 << (bits - 1)
    low, high = -half, half - 1
    if value <= low:
        return low
    return high if value >= high else int(value)


def _whole(value: Decimal) -> int:
    with localcontext() as context:
        context.prec = 20_000
        return int(value.to_integral_value(rounding=ROUND_DOWN))


def to_decimal(value: Number) -> Decimal:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidRequest(
                f"{'NaN' if math.isnan(value) else 'Infinity'} cannot be converted to decimal"
            )
        return Decimal(repr(value))
    return Decimal(value)


def to_float(value: Number) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def common_type(left: CQLType, right: CQLType) -> CQLType:
    """The type of an operation's result: as wide as the wider, with a fraction if either has one."""
    size = max(_size(left), _size(right))
    if left.name in FLOAT_BITS or right.name in FLOAT_BITS:
        return native("float" if size <= 32 else "double" if size == 64 else "decimal")
    return native({8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}.get(size, "varint"))


def _size(type_: CQLType) -> int:
    bits = INTEGER_BITS.get(type_.name, FLOAT_BITS.get(type_.name, 0))
    return bits or 1_000_000
