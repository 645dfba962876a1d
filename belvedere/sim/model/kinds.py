"""The model's own idea of CQL types: values as plain Python, their wire bytes, literals and order.

Nothing here comes from the product's type code, so that a mistake there does not hide itself. Values:
numbers, str, bytes, bool; a list, set or map is a tuple (of elements, of sorted elements, of sorted pairs); a
tuple or user type is a tuple with None for what is null.
"""

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """One type. `multicell` is only ever true of the outermost type of a column."""

    cql: str

    multicell = False

    def draw(self, rng: random.Random) -> Any:
        raise AssertionError("every kind draws its own values")

    def wire(self, value: Any) -> bytes:
        raise AssertionError("every kind has its own wire form")

    def literal(self, value: Any) -> str:
        raise AssertionError("every kind has its own literals")

    def order(self, value: Any) -> Any:
        return value


@dataclass(frozen=True)
class Scalar(Kind):
    domain: tuple[Any, ...]
    to_wire: Callable[[Any], bytes]
    to_literal: Callable[[Any], str]
    to_order: Callable[[Any], Any] = lambda value: value
    numeric: bool = False

    def draw(self, rng: random.Random) -> Any:
        return rng.choice(self.domain)

    def wire(self, value: Any) -> bytes:
        return self.to_wire(value)

    def literal(self, value: Any) -> str:
        return self.to_literal(value)

    def order(self, value: Any) -> Any:
        return self.to_order(value)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _varint(value: int) -> bytes:
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)


def _whole(cql: str, size: int, domain: Sequence[int]) -> Scalar:
    return Scalar(cql, tuple(domain), lambda v: v.to_bytes(size, "big", signed=True), str, numeric=True)


INT = _whole("int", 4, (0, 1, -1, 2, 7, 2**31 - 1))
BIGINT = _whole("bigint", 8, (0, -5, 3, 2**40, -(2**63)))
SMALLINT = _whole("smallint", 2, (0, 9, -300, 1))
TINYINT = _whole("tinyint", 1, (0, 1, -128, 127))
TIMESTAMP = _whole("timestamp", 8, (0, 1_600_000_000_000, -1, 5))
VARINT = Scalar("varint", (0, 127, 128, -129, 10**20), _varint, str)
DOUBLE = Scalar("double", (0.0, 1.5, -2.25, 1e300), lambda v: struct.pack(">d", v), repr)
BOOLEAN = Scalar("boolean", (False, True), lambda v: b"\1" if v else b"\0", lambda v: str(v).lower())
TEXT = Scalar("text", ("a", "ab", "b", "é", "it's"), lambda v: v.encode(), _quoted, lambda v: v.encode())
BLOB = Scalar("blob", (b"\x00", b"\x00\x00", b"\xff", b"a\x00b"), bytes, lambda v: "0x" + v.hex())
UUID = Scalar(
    "uuid",
    tuple(bytes([first, *range(1, 6), 0x4A, 7, 0x8B, *range(9, 16)]) for first in (0x00, 0x7F, 0xFE)),
    bytes,
    lambda v: "-".join((v.hex()[:8], v.hex()[8:12], v.hex()[12:16], v.hex()[16:20], v.hex()[20:])),
)
COUNTER = _whole("counter", 8, (1, -1, 5, 100))

SCALARS = (INT, TEXT, BIGINT, BLOB, BOOLEAN, DOUBLE, VARINT, UUID, TIMESTAMP, SMALLINT, TINYINT)


def _sized(parts: Sequence[bytes | None]) -> bytes:
    return b"".join(
        b"\xff\xff\xff\xff" if part is None else len(part).to_bytes(4, "big") + part for part in parts
    )


@dataclass(frozen=True)
class ListKind(Kind):
    element: Kind
    multicell: bool = False

    def draw(self, rng: random.Random) -> Any:
        return tuple(self.element.draw(rng) for _ in range(rng.choice((0, 1, 1, 2, 3))))

    def wire(self, value: Any) -> bytes:
        return len(value).to_bytes(4, "big") + _sized([self.element.wire(one) for one in value])

    def literal(self, value: Any) -> str:
        return "[" + ", ".join(map(self.element.literal, value)) + "]"

    def order(self, value: Any) -> Any:
        return tuple(map(self.element.order, value))


@dataclass(frozen=True)
class SetKind(ListKind):
    def draw(self, rng: random.Random) -> Any:
        return tuple(sorted(set(super().draw(rng)), key=self.element.order))

    def literal(self, value: Any) -> str:
        return "{" + ", ".join(map(self.element.literal, value)) + "}"


@dataclass(frozen=True)
class MapKind(Kind):
    key: Kind
    value: Kind
    multicell: bool = False

    def draw(self, rng: random.Random) -> Any:
        keys = sorted({self.key.draw(rng) for _ in range(rng.choice((0, 1, 2, 3)))}, key=self.key.order)
        return tuple((key, self.value.draw(rng)) for key in keys)

    def wire(self, value: Any) -> bytes:
        flat = [part for k, v in value for part in (self.key.wire(k), self.value.wire(v))]
        return len(value).to_bytes(4, "big") + _sized(flat)

    def literal(self, value: Any) -> str:
        return "{" + ", ".join(f"{self.key.literal(k)}: {self.value.literal(v)}" for k, v in value) + "}"

    def order(self, value: Any) -> Any:
        return tuple((self.key.order(k), self.value.order(v)) for k, v in value)


@dataclass(frozen=True)
class TupleKind(Kind):
    parts: tuple[Kind, ...]

    def draw(self, rng: random.Random) -> Any:
        return tuple(None if rng.random() < 0.15 else part.draw(rng) for part in self.parts)

    def wire(self, value: Any) -> bytes:
        return _sized([None if v is None else k.wire(v) for k, v in zip(self.parts, value, strict=True)])

    def literals(self, value: Any) -> list[str]:
        return ["null" if v is None else k.literal(v) for k, v in zip(self.parts, value, strict=True)]

    def literal(self, value: Any) -> str:
        return "(" + ", ".join(self.literals(value)) + ")"

    def order(self, value: Any) -> Any:
        return tuple((0,) if v is None else (1, k.order(v)) for k, v in zip(self.parts, value, strict=True))


@dataclass(frozen=True)
class UserKind(TupleKind):
    fields: tuple[str, ...] = ()
    multicell: bool = False

    def literal(self, value: Any) -> str:
        pairs = zip(self.fields, self.literals(value), strict=True)
        return "{" + ", ".join(f"{name}: {text}" for name, text in pairs) + "}"


POINT_FIELDS = ("a", "b")
CREATE_POINT = "CREATE TYPE ks.point (a int, b text)"


def point(*, multicell: bool) -> UserKind:
    return UserKind("point" if multicell else "frozen<point>", (INT, TEXT), POINT_FIELDS, multicell)


def draw_key_kind(rng: random.Random) -> Kind:
    """A type for a partition or clustering key column."""
    if rng.random() < 0.8:
        return rng.choice(SCALARS)
    return rng.choice(
        (
            ListKind("frozen<list<int>>", INT),
            SetKind("frozen<set<text>>", TEXT),
            TupleKind("frozen<tuple<int, text>>", (INT, TEXT)),
            point(multicell=False),
        )
    )


def draw_value_kind(rng: random.Random) -> Kind:
    share = rng.random()
    if share < 0.5:
        return rng.choice(SCALARS)
    return rng.choice(
        (
            ListKind("list<int>", INT, True),
            ListKind("list<text>", TEXT, True),
            SetKind("set<text>", TEXT, True),
            SetKind("set<int>", INT, True),
            MapKind("map<text, int>", TEXT, INT, True),
            MapKind("map<int, text>", INT, TEXT, True),
            point(multicell=True),
            point(multicell=False),
            ListKind("frozen<list<text>>", TEXT),
            MapKind("frozen<map<int, text>>", INT, TEXT),
            TupleKind("tuple<int, text>", (INT, TEXT)),
        )
    )
