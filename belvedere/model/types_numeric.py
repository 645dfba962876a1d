"""Numbers and booleans.

Keys: signed integers flip their sign bit; floating point numbers order -0 below 0 and NaN above all, as
Java does. Decimals are compared by numeric value, so their keys (and what comes back from them) carry no
trailing zeros: 1.0 and 1.00 are one key and read back as 1. Likewise every NaN is the canonical one.
"""

import math
import re
import struct
from decimal import Decimal
from typing import Any

from belvedere.model.types_base import InvalidValue, KeyAndOffset, ScalarType

#: All byte values with the topmost bit flipped, as one-byte strings: the first byte of a signed key.
FLIP_SIGN = tuple(bytes((first ^ 0x80,)) for first in range(256))
INVERT = bytes(range(255, -1, -1))

_INTEGER = re.compile(r"[+-]?[0-9]+\Z")


class _SignedInteger(ScalarType):
    """Two's complement of a fixed width."""

    fixed_width: int
    label: str
    size_message: str

    def encode(self, value: Any) -> bytes:
        try:
            return int(value.__index__()).to_bytes(self.fixed_width, "big", signed=True)
        except AttributeError:
            raise self._wrong_value(value) from None
        except OverflowError:
            raise InvalidValue(f"Value {value} is out of range for type {self.name}") from None

    def decode(self, wire: bytes) -> int:
        return int.from_bytes(wire, "big", signed=True)

    def validate(self, wire: bytes) -> None:
        if len(wire) != self.fixed_width:
            self._check_width(wire, self.size_message)

    def parse_text(self, text: str) -> bytes:
        # Longer digit strings are out of range anyhow, and int() would be slow on them.
        if not _INTEGER.match(text) or len(text) > 40:
            raise InvalidValue(f"Unable to make {self.label} from '{text}'")
        try:
            return int(text).to_bytes(self.fixed_width, "big", signed=True)
        except OverflowError:
            raise InvalidValue(f"Unable to make {self.label} from '{text}'") from None

    def to_string(self, wire: bytes) -> str:
        return str(int.from_bytes(wire, "big", signed=True))

    def from_json(self, value: Any) -> bytes:
        if isinstance(value, str):
            return self.parse_text(value)
        article = "an" if self.label == "int" else "a"
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong_json(f"{article} {self.label} value", value)
        try:
            return value.to_bytes(self.fixed_width, "big", signed=True)
        except OverflowError:
            raise self._wrong_json(f"{article} {self.label} value", value) from None

    def to_key(self, wire: bytes) -> bytes:
        return FLIP_SIGN[wire[0]] + wire[1:]

    def from_key(self, buffer: bytes, offset: int) -> KeyAndOffset:
        end = offset + self.fixed_width
        return FLIP_SIGN[buffer[offset]] + buffer[offset + 1 : end], end


class TinyintType(_SignedInteger):
    name, label = "tinyint", "byte"
    marshal_name = "org.apache.cassandra.db.marshal.ByteType"
    option_id, since_protocol = 0x14, 4
    fixed_width = 1
    size_message = "Expected 1 byte for a tinyint (%d)"


class SmallintType(_SignedInteger):
    name, label = "smallint", "short"
    marshal_name = "org.apache.cassandra.db.marshal.ShortType"
    option_id, since_protocol = 0x13, 4
    fixed_width = 2
    size_message = "Expected 2 bytes for a smallint (%d)"


class IntType(_SignedInteger):
    name, label = "int", "int"
    marshal_name = "org.apache.cassandra.db.marshal.Int32Type"
    option_id = 0x09
    fixed_width = vector_width = 4
    size_message = "Expected 4 or 0 byte int (%d)"


class BigintType(_SignedInteger):
    name, label = "bigint", "long"
    marshal_name = "org.apache.cassandra.db.marshal.LongType"
    option_id = 0x02
    fixed_width = vector_width = 8
    size_message = "Expected 8 or 0 byte long (%d)"


class CounterType(_SignedInteger):
    name, label = "counter", "long"
    marshal_name = "org.apache.cassandra.db.marshal.CounterColumnType"
    option_id = 0x05
    fixed_width = 8
    size_message = "Expected 8 or 0 byte long (%d)"


class _FloatingPoint(ScalarType):
    """IEEE 754, big-endian."""

    fixed_width: int
    _struct: struct.Struct
    _nan: bytes

    def encode(self, value: Any) -> bytes:
        try:
            return self._struct.pack(value)
        except (struct.error, TypeError):
            raise self._wrong_value(value) from None
        except OverflowError:
            # struct refuses what rounds beyond the largest float; Java's narrowing gives infinity.
            return self._struct.pack(math.copysign(math.inf, value))

    def decode(self, wire: bytes) -> float:
        value: float = self._struct.unpack(wire)[0]
        return value

    def validate(self, wire: bytes) -> None:
        if len(wire) != self.fixed_width:
            self._check_width(wire, f"Expected {self.fixed_width} or 0 byte value for a {self.name} (%d)")

    def parse_text(self, text: str) -> bytes:
        # float() also knows underscores and "inf", which Java does not.
        if "_" in text or text.lstrip("+-").lower() == "inf":
            raise InvalidValue(f"Unable to make {self.name} from '{text}'")
        try:
            return self.encode(float(text))
        except ValueError:
            raise InvalidValue(f"Unable to make {self.name} from '{text}'") from None

    def _shortest(self, value: float) -> str:
        return repr(value)

    def to_string(self, wire: bytes) -> str:
        value = self.decode(wire)
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return _java_float_text(self._shortest(value))

    def to_json_text(self, wire: bytes) -> str:
        # JSON has no word for them, and Cassandra prints null.
        return self.to_string(wire) if math.isfinite(self.decode(wire)) else "null"

    def from_json(self, value: Any) -> bytes:
        if isinstance(value, str):
            return self.parse_text(value)
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            raise self._wrong_json(f"a {self.name} value", value)
        try:
            return self.encode(float(value))
        except OverflowError:
            return self.encode(math.copysign(math.inf, value))

    def to_key(self, wire: bytes) -> bytes:
        if self.decode(wire) != self.decode(wire):
            wire = self._nan
        if wire[0] & 0x80:
            return wire.translate(INVERT)
        return FLIP_SIGN[wire[0]] + wire[1:]

    def from_key(self, buffer: bytes, offset: int) -> KeyAndOffset:
        end = offset + self.fixed_width
        first = buffer[offset]
        if first & 0x80:
            return FLIP_SIGN[first] + buffer[offset + 1 : end], end
        return buffer[offset:end].translate(INVERT), end


class FloatType(_FloatingPoint):
    name = "float"
    marshal_name = "org.apache.cassandra.db.marshal.FloatType"
    option_id = 0x08
    fixed_width = vector_width = 4
    _struct = struct.Struct(">f")
    _nan = b"\x7f\xc0\x00\x00"

    def _shortest(self, value: float) -> str:
        """The shortest decimal text that reads back as this float."""
        wire = self._struct.pack(value)
        # Every text of up to six digits survives, except among the subnormal numbers.
        for digits in range(6 if abs(value) > 1e-37 else 2, 9):
            text = f"{value:.{digits}g}"
            try:
                if self._struct.pack(float(text)) == wire:
                    return text
            except OverflowError:  # rounded up beyond the largest float
                continue
        return f"{value:.9g}"


class DoubleType(_FloatingPoint):
    name = "double"
    marshal_name = "org.apache.cassandra.db.marshal.DoubleType"
    option_id = 0x07
    fixed_width = vector_width = 8
    _struct = struct.Struct(">d")
    _nan = b"\x7f\xf8\x00\x00\x00\x00\x00\x00"


class BooleanType(ScalarType):
    name = "boolean"
    marshal_name = "org.apache.cassandra.db.marshal.BooleanType"
    option_id = 0x04
    fixed_width = vector_width = 1
    needs_normalising = True

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, bool):
            raise self._wrong_value(value)
        return b"\x01" if value else b"\x00"

    def decode(self, wire: bytes) -> bool:
        return wire != b"\x00"

    def validate(self, wire: bytes) -> None:
        if len(wire) != 1:
            self._check_width(wire, "Expected 1 or 0 byte value (%d)")

    def normalise(self, wire: bytes) -> bytes:
        return b"\x01" if wire != b"\x00" else wire

    def parse_text(self, text: str) -> bytes:
        match text.lower():
            case "true":
                return b"\x01"
            case "false":
                return b"\x00"
        raise InvalidValue(f"Unable to make boolean from '{text}'")

    def to_string(self, wire: bytes) -> str:
        return "true" if self.decode(wire) else "false"

    def from_json(self, value: Any) -> bytes:
        if isinstance(value, str):
            return self.parse_text(value)
        if not isinstance(value, bool):
            raise self._wrong_json("a boolean value", value)
        return self.encode(value)

    def to_key(self, wire: bytes) -> bytes:
        return self.normalise(wire)

    def from_key(self, buffer: bytes, offset: int) -> KeyAndOffset:
        return buffer[offset : offset + 1], offset + 1


class VarintType(ScalarType):
    name = "varint"
    marshal_name = "org.apache.cassandra.db.marshal.IntegerType"
    option_id = 0x0E
    needs_normalising = True

    def encode(self, value: Any) -> bytes:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise self._wrong_value(value)
        return varint_wire(int(value))

    def decode(self, wire: bytes) -> int:
        return int.from_bytes(wire, "big", signed=True)

    def normalise(self, wire: bytes) -> bytes:
        return _minimal(wire)

    def parse_text(self, text: str) -> bytes:
        if not _INTEGER.match(text):
            raise InvalidValue(f"unable to make int from '{text}'")
        return varint_wire(int_of_text(text))

    def to_string(self, wire: bytes) -> str:
        return text_of_int(self.decode(wire))

    def from_json(self, value: Any) -> bytes:
        if isinstance(value, str):
            return self.parse_text(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidValue(f"Value '{value}' is not a valid representation of a varint value")
        return varint_wire(value)

    def to_key(self, wire: bytes) -> bytes:
        return integer_key(self.decode(wire))

    def from_key(self, buffer: bytes, offset: int) -> KeyAndOffset:
        value, end = read_integer_key(buffer, offset)
        return varint_wire(value), end


class DecimalType(ScalarType):
    """A 4-byte scale, then the unscaled value as a varint."""

    name = "decimal"
    marshal_name = "org.apache.cassandra.db.marshal.DecimalType"
    option_id = 0x06
    needs_normalising = True

    def encode(self, value: Any) -> bytes:
        if isinstance(value, int) and not isinstance(value, bool):
            return b"\x00\x00\x00\x00" + varint_wire(value)
        if isinstance(value, float):
            value = Decimal(repr(value))
        if not isinstance(value, Decimal):
            raise self._wrong_value(value)
        exponent = value.as_tuple().exponent
        if not isinstance(exponent, int):
            raise InvalidValue(f"Value {value} is not a number that a decimal can hold")
        if not -(2**31) <= -exponent < 2**31:
            raise InvalidValue(f"The scale of {value!s:.50} is out of range for type decimal")
        sign, digits, _ = value.as_tuple()
        unscaled = int(Decimal((sign, digits, 0)))
        return (-exponent).to_bytes(4, "big", signed=True) + varint_wire(unscaled)

    def decode(self, wire: bytes) -> Decimal:
        scale, unscaled = self._parts(wire)
        sign, digits, _ = Decimal(unscaled).as_tuple()
        return Decimal((sign, digits, -scale))

    def _parts(self, wire: bytes) -> tuple[int, int]:
        return int.from_bytes(wire[:4], "big", signed=True), int.from_bytes(wire[4:], "big", signed=True)

    def validate(self, wire: bytes) -> None:
        if not wire:
            raise self._refuse_empty()
        if len(wire) < 5:
            raise InvalidValue(f"Expected 0 or at least 5 bytes ({len(wire)})")

    def normalise(self, wire: bytes) -> bytes:
        """The scale stays: 1.00 is stored as 1.00."""
        return wire[:4] + _minimal(wire[4:])

    def parse_text(self, text: str) -> bytes:
        try:
            if "_" in text or text != text.strip():
                raise ArithmeticError
            return self.encode(Decimal(text))
        except (ArithmeticError, InvalidValue):
            raise InvalidValue(f"unable to make BigDecimal from '{text}'") from None

    def to_string(self, wire: bytes) -> str:
        return str(self.decode(wire))

    def from_json(self, value: Any) -> bytes:
        if isinstance(value, str):
            return self.parse_text(value)
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            raise InvalidValue(f"Value '{value}' is not a valid representation of a decimal value")
        return self.encode(value)

    def to_key(self, wire: bytes) -> bytes:
        """Sign, magnitude (the exponent of 0.ddd × 10^e), then two digits a byte, ended by a zero."""
        scale, unscaled = self._parts(wire)
        if unscaled == 0:
            return b"\x02"
        digits = text_of_int(abs(unscaled))
        body = integer_key(len(digits) - scale)
        digits = digits.rstrip("0")
        pairs = digits + "0" * (len(digits) % 2)
        body += bytes(int(pairs[i : i + 2]) + 1 for i in range(0, len(pairs), 2)) + b"\x00"
        return b"\x03" + body if unscaled > 0 else b"\x01" + body.translate(INVERT)

    def from_key(self, buffer: bytes, offset: int) -> KeyAndOffset:
        sign = buffer[offset]
        if sign == 2:
            return b"\x00\x00\x00\x00\x00", offset + 1
        body = buffer[offset + 1 :]
        if sign == 1:
            body = body.translate(INVERT)
        magnitude, start = read_integer_key(body, 0)
        end = body.index(0, start)
        digits = "".join(f"{pair - 1:02d}" for pair in body[start:end])
        if digits.endswith("0"):  # the padding of the last pair: real trailing zeros are not in the key
            digits = digits[:-1]
        # Without its trailing zeros the smallest scale may have moved out of range: give some back.
        digits = digits.ljust(magnitude - 2**31, "0")
        unscaled = int_of_text(digits)
        scale = len(digits) - magnitude
        wire = scale.to_bytes(4, "big", signed=True) + varint_wire(unscaled if sign == 3 else -unscaled)
        return wire, offset + 1 + end + 1


# -- helpers ---------------------------------------------------------------------------------------


def varint_wire(value: int) -> bytes:
    """Minimal two's complement, as Java's BigInteger.toByteArray gives it."""
    bits = value.bit_length() if value >= 0 else (~value).bit_length()
    return value.to_bytes(bits // 8 + 1, "big", signed=True)


def _minimal(wire: bytes) -> bytes:
    if len(wire) > 1 and (
        (wire[0] == 0 and not wire[1] & 0x80) or (wire[0] == 0xFF and bool(wire[1] & 0x80))
    ):
        return varint_wire(int.from_bytes(wire, "big", signed=True))
    return wire


def text_of_int(value: int) -> str:
    """Decimal digits of any number; str() refuses more than 4,300 of them."""
    return str(value) if -(2**63) <= value < 2**63 else format(Decimal(value), "f")


def int_of_text(text: str) -> int:
    return int(text) if len(text) < 4000 else int(Decimal(text))


def integer_key(value: int) -> bytes:
    """An order-preserving, self-delimiting key of any integer: length first, negative ones inverted."""
    if value < 0:
        return integer_key(~value).translate(INVERT)
    length = (value.bit_length() + 7) // 8
    head = bytes((0x80 + length,)) if length < 0x7F else b"\xff" + length.to_bytes(4, "big")
    return head + value.to_bytes(length, "big")


def read_integer_key(buffer: bytes, offset: int) -> tuple[int, int]:
    first = buffer[offset]
    if first < 0x80:
        first ^= 0xFF
        if first < 0xFF:
            end = offset + 1 + first - 0x80
            return ~int.from_bytes(buffer[offset + 1 : end].translate(INVERT), "big"), end
        value, used = read_integer_key(buffer[offset:].translate(INVERT), 0)
        return ~value, offset + used
    start = offset + 1
    length = first - 0x80
    if first == 0xFF:
        start = offset + 5
        length = int.from_bytes(buffer[offset + 1 : start], "big")
    return int.from_bytes(buffer[start : start + length], "big"), start + length


def _java_float_text(shortest: str) -> str:
    """Java's layout of a shortest float text: plain from 10^-3 to below 10^7, otherwise like 1.5E10."""
    sign, digit_tuple, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, digit_tuple))
    point = len(digits) + exponent  # digits before the decimal point
    digits = digits.rstrip("0") or "0"
    prefix = "-" if sign else ""
    if digits == "0":
        return prefix + "0.0"
    if -3 < point <= 7:
        if point <= 0:
            return f"{prefix}0.{'0' * -point}{digits}"
        return f"{prefix}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    return f"{prefix}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
