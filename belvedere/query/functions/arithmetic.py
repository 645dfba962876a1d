"""The operators + - * / % and unary minus, as functions `_add`, `_substract` … `_negate`."""

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal, DecimalException

from belvedere.model.types import DATE, DURATION, TEXT, TIMESTAMP, CQLType, Duration, native
from belvedere.query.errors import FunctionFailure, InvalidRequest
from belvedere.query.functions.numbers import (
    NUMBERS,
    Number,
    common_type,
    encode_number,
    to_decimal,
    to_float,
)
from belvedere.query.functions.registry import (
    AnyFunction,
    Argument,
    Fit,
    Function,
    Request,
    no_nulls,
    register,
    register_factory,
)
from belvedere.query.functions.time import date_wire, millis_of_date, timestamp_wire
from belvedere.query.functions.time_floor import add_duration

SYMBOLS = {"_add": "+", "_substract": "-", "_multiply": "*", "_divide": "/", "_modulo": "%"}

_EXACT = Context(prec=10_000, rounding=ROUND_HALF_EVEN, Emin=-999_999_999, Emax=999_999_999)
#: Digits that a quotient of decimals shows at least, and decimal places it shows at most.
MIN_DIGITS, MAX_SCALE = 32, 1000


def _integers(symbol: str, left: int, right: int) -> int:
    match symbol:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    # Java divides towards zero, and the remainder has the sign of the dividend.
    quotient = abs(left) // abs(right)
    quotient = quotient if (left < 0) == (right < 0) else -quotient
    return quotient if symbol == "/" else left - quotient * right


def _floats(symbol: str, left: float, right: float) -> float:
    match symbol:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            if right == 0:
                if left == 0 or math.isnan(left):
                    return math.nan
                return math.copysign(math.inf, left) * math.copysign(1.0, right)
            return left / right
    if right == 0 or math.isinf(left):
        return math.nan
    return math.fmod(left, right)


def _decimals(symbol: str, left: Decimal, right: Decimal) -> Decimal:
    match symbol:
        case "+":
            return _EXACT.add(left, right)
        case "-":
            return _EXACT.subtract(left, right)
        case "*":
            return _EXACT.multiply(left, right)
        case "/":
            return _divide_decimals(left, right)
    return _EXACT.remainder(left, right)


def _divide_decimals(left: Decimal, right: Decimal) -> Decimal:
    scale = MIN_DIGITS - (left.adjusted() - right.adjusted())
    scale = max(scale, _scale(left), _scale(right), MIN_DIGITS)
    scale = min(scale, MAX_SCALE)
    wide = Context(prec=12_000, rounding=ROUND_HALF_UP, Emin=-999_999_999, Emax=999_999_999)
    quotient = wide.divide(left, right).quantize(Decimal((0, (1,), -scale)), context=wide)
    return quotient.normalize(_EXACT)


def _scale(value: Decimal) -> int:
    return -int(value.as_tuple().exponent)


def _numeric(name: str, left: CQLType, right: CQLType) -> Function:
    result, symbol = common_type(left, right), SYMBOLS[name]

    def call(one: bytes, two: bytes) -> bytes:
        a: Number = left.decode(one)
        b: Number = right.decode(two)
        try:
            return encode_number(result, _compute(result, symbol, a, b))
        except (ZeroDivisionError, DecimalException):
            zero = b == 0 and symbol in "/%"
            reason = "/ by zero" if zero else "the result is out of range"
            raise FunctionFailure(
                f"the operation '{left.name} {symbol} {right.name}' failed: {reason}",
                "system",
                name,
                (left.name, right.name),
            ) from None

    return Function(name, (left, right), result, no_nulls(call), column_format=f"{{}} {symbol} {{}}")


def _compute(result: CQLType, symbol: str, left: Number, right: Number) -> Number:
    if result.name == "decimal":
        return _decimals(symbol, to_decimal(left), to_decimal(right))
    if result.name in ("float", "double"):
        return _floats(symbol, to_float(left), to_float(right))
    assert isinstance(left, int)
    assert isinstance(right, int)
    return _integers(symbol, left, right)


# -- which operation ---------------------------------------------------------------------------------


def _operation(request: Request) -> Sequence[AnyFunction]:
    left, right = request.arguments
    symbol = SYMBOLS[request.name]
    types = _operand_types(request, left, right)
    if types is None:
        raise InvalidRequest(
            f"Ambiguous '{symbol}' operation with args {left.text} and {right.text}: "
            "use type hint to disambiguate, example '(int) ?'"
        )
    one, two = types
    found: Function | None = None
    if one.name in NUMBERS and two.name in NUMBERS:
        found = _numeric(request.name, one, two)
    elif symbol == "+" and one.name in ("text", "ascii") and two.name in ("text", "ascii"):
        found = _concatenation(one, two)
    elif symbol in "+-" and one in (TIMESTAMP, DATE) and two == DURATION:
        found = _moved(request.name, one)
    if found is None:
        raise InvalidRequest(
            f"the '{symbol}' operation is not supported between {left.text} and {right.text}"
        )
    return (found,)


def _operand_types(request: Request, left: Argument, right: Argument) -> tuple[CQLType, CQLType] | None:
    """An operand without a type of its own takes the other's, or that of the receiver."""
    one, two, receiver = left.known_type, right.known_type, request.receiver
    if one is not None and two is not None:
        return _adjusted(one, left, receiver), _adjusted(two, right, receiver)
    if one is None and two is None:
        return None if receiver is None else (receiver, receiver)
    if receiver in (TIMESTAMP, DATE) and one is None and two == DURATION:
        return receiver, DURATION
    return None


def _adjusted(type_: CQLType, argument: Argument, receiver: CQLType | None) -> CQLType:
    """A literal may stand for the number, date or timestamp that is wanted."""
    if receiver is None or argument.fit(receiver) is Fit.NONE:
        return type_
    if type_.name in NUMBERS and receiver.name in NUMBERS:
        return receiver
    if type_.name == "ascii" and receiver in (TIMESTAMP, DATE):
        return receiver
    return type_


def _concatenation(left: CQLType, right: CQLType) -> Function:
    result = left if left == right else TEXT
    return Function("_add", (left, right), result, no_nulls(_joined), column_format="{} + {}")


def _joined(left: bytes, right: bytes) -> bytes:
    return left + right


def _moved(name: str, type_: CQLType) -> Function:
    """A point in time plus or minus a duration."""
    sign = 1 if name == "_add" else -1

    def move_timestamp(value: bytes, duration: bytes) -> bytes:
        millis = int.from_bytes(value, "big", signed=True)
        return timestamp_wire(add_duration(millis, DURATION.decode(duration), sign))

    def move_date(value: bytes, duration: bytes) -> bytes:
        step: Duration = DURATION.decode(duration)
        if step.nanoseconds:
            raise InvalidRequest(
                f"The duration must have a day precision. Was: {DURATION.to_string(duration)}"
            )
        return date_wire(add_duration(millis_of_date(value), step, sign))

    body: Callable[[bytes, bytes], bytes] = move_timestamp if type_ == TIMESTAMP else move_date
    label = f"{{}} {SYMBOLS[name]} {{}}"
    return Function(name, (type_, DURATION), type_, no_nulls(body), column_format=label)


def _negate(type_: CQLType) -> Function:
    def call(value: bytes) -> bytes:
        number: Number = type_.decode(value)
        return encode_number(type_, number.copy_negate() if isinstance(number, Decimal) else -number)

    return Function("_negate", (type_,), type_, no_nulls(call), column_format="-{}")


register_factory(_operation, *SYMBOLS)
register(*(_negate(native(_name)) for _name in NUMBERS))
