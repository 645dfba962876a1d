"""What every CQL type can do, and the small wire helpers that the types share.

A value inside Belvedere is the byte string of the CQL native protocol. A type is the expert for those
bytes: it checks them, turns them into Python values, text and JSON, and maps them to sortable keys.
Types are immutable, hashable and comparable; equal types have equal names (user types: equal fields too).
"""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NoReturn, Self, final

from belvedere.model.types_names import quote_text

KeyAndOffset = tuple[bytes, int]


class InvalidValue(ValueError):
    """A value does not belong to its type. The message is meant for the client."""


class CQLType:
    """The base of all CQL types.

    `fixed_width` is the only wire length the type allows (None: it varies). `vector_width` says whether
    vectors of the type leave element lengths out; it differs from `fixed_width` where Cassandra's does.
    Cassandra also accepts a zero-length "empty" value for types such as int; Belvedere refuses it, because
    it is neither null nor a value and nothing but old Thrift clients ever wrote it.
    """

    name: str
    marshal_name: str
    option_id: int
    since_protocol: int = 3
    fixed_width: int | None = None
    vector_width: int | None = None
    is_multicell: bool = False
    needs_normalising: bool = False
    """Whether two different byte strings can mean the same value, so that `normalise` has work to do."""

    _identity: tuple[Any, ...]
    _hash: int

    def _fix(self, **attributes: Any) -> None:
        """Set attributes once, while the type is being made."""
        self.__dict__.update(attributes)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    @final
    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(self) is type(other) and self._identity == other._identity

    @final
    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"<{self.name}>"

    # -- structure ---------------------------------------------------------------------------------

    def children(self) -> tuple["CQLType", ...]:
        """The types this one is directly made of."""
        return ()

    @final
    def walk(self) -> Iterator["CQLType"]:
        """This type and every type inside it."""
        yield self
        for child in self.children():
            yield from child.walk()

    def frozen(self) -> "CQLType":
        """The type whose values are stored as one cell."""
        return self

    @property
    def is_orderable(self) -> bool:
        """Whether values have an order, so that the type may be part of a key, a set or a map's key."""
        return all(child.is_orderable for child in self.children())

    # -- Python values -----------------------------------------------------------------------------

    def encode(self, value: Any) -> bytes:
        """Wire bytes of a Python value; InvalidValue when the value is not of this type."""
        raise self._wrong_value(value)

    def decode(self, wire: bytes) -> Any:
        """The Python value of valid wire bytes."""
        raise self._wrong_value(wire)

    def validate(self, wire: bytes) -> None:
        """Raise InvalidValue unless the bytes are a value of this type."""
        raise self._wrong_value(wire)

    def normalise(self, wire: bytes) -> bytes:
        """The one representation that Belvedere stores for a valid value."""
        return wire

    # -- text and JSON -----------------------------------------------------------------------------

    def parse_text(self, text: str) -> bytes:
        """Wire bytes of a value written as a string constant."""
        raise InvalidValue(f"Unable to make {self.name} from '{text}'")

    def to_string(self, wire: bytes) -> str:
        """The value as bare text, as CAST(… AS text) gives it."""
        return self.to_text(wire)

    def to_text(self, wire: bytes) -> str:
        """The value as a CQL literal."""
        return self.to_string(wire)

    def to_json_text(self, wire: bytes) -> str:
        """The value as JSON text, exact for numbers of any size, as SELECT JSON prints it."""
        return self.to_string(wire)

    @final
    def to_json(self, wire: bytes) -> Any:
        """The value as an object for json.dumps; decimals become floats (use to_json_text for exactness)."""
        return json.loads(self.to_json_text(wire))

    def from_json(self, value: Any) -> bytes:
        """Wire bytes of a parsed JSON value (parsed with parse_float=Decimal to keep decimals exact)."""
        raise self._wrong_value(value)

    # -- order -------------------------------------------------------------------------------------

    def to_key(self, wire: bytes) -> bytes:
        """Bytes whose unsigned order is the type's order; self-delimiting and prefix-free."""
        raise InvalidValue(f"{self.name} is not comparable")

    def from_key(self, buffer: bytes, offset: int) -> KeyAndOffset:
        """Undo `to_key` at an offset: the (normalised) wire bytes and the offset behind the key."""
        raise InvalidValue(f"{self.name} is not comparable")

    @final
    def compare(self, left: bytes, right: bytes) -> int:
        """-1, 0 or 1 in the order of the type."""
        left_key, right_key = self.to_key(left), self.to_key(right)
        return (left_key > right_key) - (left_key < right_key)

    # -- native protocol ---------------------------------------------------------------------------

    @final
    def encode_option(self, protocol_version: int = 5) -> bytes:
        """The type as an [option] of the native protocol, for result metadata."""
        if self.option_id == 0 or protocol_version < self.since_protocol:
            return b"\x00\x00" + short_string(self.marshal_name)
        return self.option_id.to_bytes(2, "big") + self._option_body(protocol_version)

    def _option_body(self, protocol_version: int) -> bytes:
        return b""

    # -- errors ------------------------------------------------------------------------------------

    def _wrong_value(self, value: object) -> InvalidValue:
        return InvalidValue(
            f"Expected a value of type {self.name}, but got a {type(value).__name__}: {value!r:.200}"
        )

    def _wrong_json(self, expected: str, value: object) -> InvalidValue:
        return InvalidValue(f"Expected {expected}, but got a {java_class_name(value)}: {value}")

    def _refuse_empty(self) -> InvalidValue:
        return InvalidValue(f"Empty (zero-length) values are not supported for type {self.name}")


class ScalarType(CQLType):
    """A type without type parameters; each is a singleton, pickled by name."""

    quoted_literal = False
    """Whether the CQL literal and the JSON form are the bare text in quotes."""

    def __new__(cls) -> Self:
        existing: Self | None = cls.__dict__.get("_singleton")
        if existing is None:
            existing = super().__new__(cls)
            existing._fix(_identity=(cls.name,), _hash=hash((cls.name,)))
            cls._singleton = existing
        return existing

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()

    def _check_width(self, wire: bytes, message: str) -> None:
        """Raise `message`, formatted with the length, unless the wire bytes have the fixed width."""
        if len(wire) != self.fixed_width:
            raise InvalidValue(message % len(wire)) if wire else self._refuse_empty()

    def validate(self, wire: bytes) -> None:
        if not wire:
            raise self._refuse_empty()

    def to_text(self, wire: bytes) -> str:
        text = self.to_string(wire)
        return quote_text(text) if self.quoted_literal else text

    def to_json_text(self, wire: bytes) -> str:
        text = self.to_string(wire)
        return json_string(text) if self.quoted_literal else text


# -- helpers ---------------------------------------------------------------------------------------


def json_string(text: str) -> str:
    """A JSON string literal that leaves readable characters alone."""
    return json.dumps(text, ensure_ascii=False)


def java_class_name(value: object) -> str:
    """The name Cassandra's messages use for the class of a parsed JSON value."""
    match value:
        case None:
            return "null"
        case bool():
            return "Boolean"
        case int():
            if -(2**31) <= value < 2**31:
                return "Integer"
            return "Long" if -(2**63) <= value < 2**63 else "BigInteger"
        case float() | Decimal():
            return "Double"
        case str():
            return "String"
        case list():
            return "ArrayList"
        case dict():
            return "LinkedHashMap"
    return type(value).__name__


def short_string(text: str) -> bytes:
    """A [string] of the native protocol."""
    raw = text.encode()
    return len(raw).to_bytes(2, "big") + raw


def read_unsigned_vint(wire: bytes, offset: int) -> tuple[int, int]:
    """An unsigned vint: the count of leading one bits of the first byte says how many bytes follow."""
    if offset >= len(wire):
        raise InvalidValue("Not enough bytes to read a vint")
    first = wire[offset]
    extra = 8 - (first ^ 0xFF).bit_length()
    end = offset + 1 + extra
    if end > len(wire):
        raise InvalidValue("Not enough bytes to read a vint")
    if extra == 0:
        return first, end
    head = first & (0xFF >> (extra + 1)) if extra < 8 else 0
    return (head << (8 * extra)) | int.from_bytes(wire[offset + 1 : end], "big"), end


def write_unsigned_vint(value: int) -> bytes:
    """The shortest unsigned vint of a value below 2**64."""
    extra = min(8, max(0, (value.bit_length() - 1) // 7))
    if extra == 8:
        return b"\xff" + value.to_bytes(8, "big")
    marker = (0xFF << (8 - extra)) & 0xFF
    raw = value.to_bytes(extra + 1, "big")
    return bytes((raw[0] | marker,)) + raw[1:]


def read_signed_vint(wire: bytes, offset: int) -> tuple[int, int]:
    """A zig-zag encoded signed vint."""
    raw, end = read_unsigned_vint(wire, offset)
    return (raw >> 1) ^ -(raw & 1), end


def write_signed_vint(value: int) -> bytes:
    """The shortest vint of a signed 64-bit value."""
    return write_unsigned_vint((value << 1) ^ (value >> 63))
