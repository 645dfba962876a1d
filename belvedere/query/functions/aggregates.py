"""The aggregate functions: count, min, max, sum and avg, with Cassandra's result types.

Sums of integers wrap around like Java's; averages are exact inside and truncated at the end. Floating point
sums are compensated (Kahan), so that their order matters little.
"""

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from math import isfinite, isinf, isnan

from belvedere.model.types import BIGINT, CQLType, native
from belvedere.query.errors import InvalidRequest
from belvedere.query.functions.registry import Aggregate, AnyFunction, Request, register, register_factory

Wire = bytes | None


class CountRows:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def add(self, values: Sequence[Wire]) -> None:
        self.count += 1

    def result(self) -> Wire:
        return self.count.to_bytes(8, "big")


class CountValues(CountRows):
    """Nulls do not count."""

    __slots__ = ()

    def add(self, values: Sequence[Wire]) -> None:
        self.count += values[0] is not None


class Extreme:
    """The largest or smallest value in the order of its type."""

    __slots__ = ("best", "key", "largest", "to_key")

    def __init__(self, type_: CQLType, *, largest: bool) -> None:
        self.to_key, self.largest = type_.to_key, largest
        self.best: Wire = None
        self.key = b""

    def add(self, values: Sequence[Wire]) -> None:
        value = values[0]
        if value is None:
            return
        key = self.to_key(value)
        if self.best is None or (key > self.key if self.largest else key < self.key):
            self.best, self.key = value, key

    def result(self) -> Wire:
        return self.best


class IntegerTotal:
    """The sum, wrapped to the width of the type, or the average, truncated towards zero."""

    __slots__ = ("average", "count", "total", "type")

    def __init__(self, type_: CQLType, *, average: bool) -> None:
        self.type, self.average = type_, average
        self.total = self.count = 0

    def add(self, values: Sequence[Wire]) -> None:
        value = values[0]
        if value is not None:
            self.total += int.from_bytes(value, "big", signed=True)
            self.count += 1

    def result(self) -> Wire:
        value = self.total
        if self.average:
            value = abs(value) // max(self.count, 1) * (-1 if value < 0 else 1)
        width = self.type.fixed_width
        if width is None:
            return self.type.encode(value)
        half = 1 << (8 * width - 1)
        return ((value + half) % (2 * half) - half).to_bytes(width, "big", signed=True)


class FloatTotal:
    """Compensated summation; the plain sum is kept for infinities and NaN, which compensation would spoil."""

    __slots__ = ("average", "compensation", "count", "exact", "plain", "total", "type")

    def __init__(self, type_: CQLType, *, average: bool) -> None:
        self.type, self.average = type_, average
        self.total = self.compensation = self.plain = 0.0
        self.count = 0
        #: The sum once it has left the range of a double: its average may well be inside.
        self.exact: Fraction | None = None

    def add(self, values: Sequence[Wire]) -> None:
        value = values[0]
        if value is None:
            return
        number: float = self.type.decode(value)
        self.count += 1
        self.plain += number
        corrected = number - self.compensation
        total = self.total + corrected
        if self.average and isfinite(number):
            if self.exact is not None:
                self.exact += Fraction(number)
            elif isinf(total) and isfinite(self.total):
                self.exact = Fraction(self.total) + Fraction(number)
        self.compensation = (total - self.total) - corrected
        self.total = total

    def result(self) -> Wire:
        total = self.total if self.total == self.total else self.plain
        if self.exact is not None and not isnan(self.plain):
            total = float(self.exact / self.count)
        elif self.average:
            total = total / self.count if self.count else 0.0
        return encode_float(self.type, total)


def encode_float(type_: CQLType, value: float) -> bytes:
    """A double narrowed to its type as Java does: beyond the range of float lies infinity."""
    try:
        return type_.encode(value)
    except (OverflowError, ValueError):
        return type_.encode(float("inf") if value > 0 else float("-inf"))


class DecimalTotal:
    """Sums are exact. The average is refined with each value, at the larger of the scales met so far."""

    __slots__ = ("average", "count", "total", "type")

    def __init__(self, type_: CQLType, *, average: bool) -> None:
        self.type, self.average = type_, average
        self.total = Decimal(0)
        self.count = 0

    def add(self, values: Sequence[Wire]) -> None:
        value = values[0]
        if value is None:
            return
        number: Decimal = self.type.decode(value)
        self.count += 1
        with localcontext() as context:
            context.prec, context.Emax, context.Emin = 20_000, 999_999_999, -999_999_999
            if not self.average:
                self.total += number
                return
            difference = number - self.total
            quantum = Decimal((0, (1,), int(difference.as_tuple().exponent)))
            step = (difference / self.count).quantize(quantum, rounding=ROUND_HALF_EVEN)
            self.total += step

    def result(self) -> Wire:
        return self.type.encode(self.total)


INTEGERS = ("tinyint", "smallint", "int", "bigint", "varint")
FLOATS = ("float", "double")


def total_of(name: str, type_: CQLType) -> Callable[[], IntegerTotal | FloatTotal | DecimalTotal]:
    """What makes the state of sum or avg for a numeric type."""
    average = name == "avg"
    if type_.name in FLOATS:
        return lambda: FloatTotal(type_, average=average)
    if type_.name == "decimal":
        return lambda: DecimalTotal(type_, average=average)
    return lambda: IntegerTotal(type_, average=average)


def _register_totals(name: str) -> None:
    for type_name in (*INTEGERS, *FLOATS, "decimal"):
        type_ = native(type_name)
        register(Aggregate(name, (type_,), type_, total_of(name, type_)))
    register(Aggregate(name, (native("counter"),), BIGINT, total_of(name, BIGINT)))


def _extremes(request: Request) -> Sequence[AnyFunction]:
    if len(request.arguments) != 1:
        raise InvalidRequest(
            f"Invalid number of arguments in call to function system.{request.name}: "
            f"1 required but {len(request.arguments)} provided"
        )
    type_ = request.arguments[0].known_type
    if type_ is None or not type_.is_orderable:
        raise InvalidRequest(
            f"Invalid call to function {request.name}, none of its type signatures match "
            f"({request.arguments[0].text} is not comparable)"
        )
    largest = request.name == "max"
    return (Aggregate(request.name, (type_,), type_, lambda: Extreme(type_, largest=largest)),)


def _count(request: Request) -> Sequence[AnyFunction]:
    if not request.arguments:
        return (Aggregate("count", (), BIGINT, CountRows, "count"),)
    if len(request.arguments) != 1:
        raise InvalidRequest(
            "Invalid number of arguments in call to function system.count: "
            f"1 required but {len(request.arguments)} provided"
        )
    type_ = request.arguments[0].known_type
    if type_ is None:
        raise InvalidRequest("Cannot infer type of argument in call to function system.count")
    return (Aggregate("count", (type_,), BIGINT, CountValues),)


_register_totals("sum")
_register_totals("avg")
register_factory(_extremes, "min", "max")
register_factory(_count, "count")
