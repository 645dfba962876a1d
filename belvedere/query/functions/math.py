"""abs, exp, log, log10 and round: the result has the type of the argument."""

import math
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal, DecimalException

from belvedere.model.types import CQLType, native
from belvedere.query.errors import InvalidRequest
from belvedere.query.functions.numbers import FLOAT_BITS, NUMBERS, Number, encode_number
from belvedere.query.functions.registry import Function, no_nulls, register

#: Java's MathContext.DECIMAL128.
_DECIMAL128 = Context(prec=34, rounding=ROUND_HALF_EVEN, Emin=-999_999, Emax=999_999)

FloatBody = Callable[[float], float]
DecimalBody = Callable[[Decimal], Decimal]


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _log_with(body: FloatBody) -> FloatBody:
    def log(value: float) -> float:
        if value == 0:
            return -math.inf
        return math.nan if value < 0 else body(value)

    return log


_FLOAT_BODIES: dict[str, FloatBody] = {
    "exp": _exp,
    "log": _log_with(math.log),
    "log10": _log_with(math.log10),
}
_DECIMAL_BODIES: dict[str, DecimalBody] = {
    "exp": lambda value: value.exp(_DECIMAL128),
    "log": lambda value: value.ln(_DECIMAL128),
    "log10": lambda value: value.log10(_DECIMAL128),
}


def _transcendental(name: str, type_: CQLType) -> Callable[[bytes], bytes]:
    body, exact = _FLOAT_BODIES[name], _DECIMAL_BODIES[name]

    def call(value: bytes) -> bytes:
        number: Number = type_.decode(value)
        if type_.name not in ("decimal", "varint"):
            return encode_number(type_, body(float(number)))
        if name != "exp" and number <= 0:
            raise InvalidRequest(f"Logarithm of number zero or less: {number}")
        try:
            return encode_number(type_, exact(Decimal(number)))
        except (DecimalException, OverflowError):
            raise InvalidRequest(f"The result of {name} is out of range") from None

    return call


def _absolute(type_: CQLType) -> Callable[[bytes], bytes]:
    def call(value: bytes) -> bytes:
        number: Number = type_.decode(value)
        return encode_number(type_, number.copy_abs() if isinstance(number, Decimal) else abs(number))

    return call


def _round(type_: CQLType) -> Callable[[bytes], bytes]:
    def call(value: bytes) -> bytes:
        number: Number = type_.decode(value)
        if isinstance(number, Decimal):
            number = number.quantize(Decimal(1), rounding=ROUND_HALF_UP, context=Context(prec=20_000))
        elif isinstance(number, float) and math.isfinite(number):
            # Java's Math.round: ties go up, and the result is an int or a long.
            bits = FLOAT_BITS[type_.name]
            rounded = math.floor(number + 0.5) if abs(number) < 2**52 else int(number)
            number = float(max(-(2 ** (bits - 1)), min(rounded, 2 ** (bits - 1) - 1)))
        return encode_number(type_, number)

    return call


for _type_name in NUMBERS:
    _type = native(_type_name)
    register(
        Function("abs", (_type,), _type, no_nulls(_absolute(_type))),
        Function("round", (_type,), _type, no_nulls(_round(_type))),
        *(
            Function(_name, (_type,), _type, no_nulls(_transcendental(_name, _type)))
            for _name in _FLOAT_BODIES
        ),
    )
