"""CQL's types: the registry of native types and the text form of all types.

`parse_type(t.name) == t` for every type; user types are looked up by name. This module is the one to import
from: it re-exports what the others define.
"""

from collections.abc import Callable, Mapping
from typing import Final

from belvedere.model.types_base import CQLType, InvalidValue, ScalarType
from belvedere.model.types_collections import ListType, MapType, SetType, VectorType
from belvedere.model.types_names import quote_name, quote_text
from belvedere.model.types_numeric import (
    BigintType,
    BooleanType,
    CounterType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    SmallintType,
    TinyintType,
    VarintType,
)
from belvedere.model.types_text import AsciiType, BlobType, InetType, TextType, TimeuuidType, UuidType
from belvedere.model.types_time import DateType, Duration, DurationType, TimestampType, TimeType
from belvedere.model.types_tuples import TupleType, UserType, fold_json_name, json_name

ASCII: Final = AsciiType()
BIGINT: Final = BigintType()
BLOB: Final = BlobType()
BOOLEAN: Final = BooleanType()
COUNTER: Final = CounterType()
DATE: Final = DateType()
DECIMAL: Final = DecimalType()
DOUBLE: Final = DoubleType()
DURATION: Final = DurationType()
FLOAT: Final = FloatType()
INET: Final = InetType()
INT: Final = IntType()
SMALLINT: Final = SmallintType()
TEXT: Final = TextType()
TIME: Final = TimeType()
TIMESTAMP: Final = TimestampType()
TIMEUUID: Final = TimeuuidType()
TINYINT: Final = TinyintType()
UUID: Final = UuidType()
VARINT: Final = VarintType()

NATIVE_TYPES: Final[Mapping[str, ScalarType]] = {
    scalar.name: scalar
    for scalar in (
        *(ASCII, BIGINT, BLOB, BOOLEAN, COUNTER, DATE, DECIMAL, DOUBLE, DURATION, FLOAT),
        *(INET, INT, SMALLINT, TEXT, TIME, TIMESTAMP, TIMEUUID, TINYINT, UUID, VARINT),
    )
}

UserTypes = Mapping[str, UserType] | Callable[[str], UserType]


def native(name: str) -> ScalarType:
    """The native type of a CQL name (in lower case; varchar is text)."""
    found = NATIVE_TYPES.get("text" if name == "varchar" else name)
    if found is None:
        raise InvalidValue(f"Unknown type {name}")
    return found


def parse_type(text: str, user_types: UserTypes | None = None) -> CQLType:
    """The type of its CQL text, such as `map<int, frozen<list<text>>>`."""
    parser = _TypeParser(text, user_types)
    parsed = parser.parse()
    parser.finish()
    return parsed


class _TypeParser:
    """Recursive descent over one line of text."""

    def __init__(self, text: str, user_types: UserTypes | None) -> None:
        self._text = text
        self._at = 0
        self._user_types = user_types

    def parse(self) -> CQLType:
        name, quoted = self._name()
        if not quoted and self._peek() == "<":
            return self._parametrised(name)
        if not quoted and (name == "varchar" or name in NATIVE_TYPES):
            return native(name)
        return self._user_type(name)

    def finish(self) -> None:
        if self._peek():
            raise self._error(f"unexpected '{self._peek()}'")

    def _parametrised(self, name: str) -> CQLType:
        self._expect("<")
        parts = [self.parse()]
        while self._peek() == ",":
            self._expect(",")
            if name == "vector":
                vector = VectorType(parts[0], self._number())
                self._expect(">")
                return vector
            parts.append(self.parse())
        self._expect(">")
        match name, parts:
            case "frozen", [inner]:
                return inner.frozen()
            case "list", [element]:
                return ListType(element)
            case "set", [element]:
                return SetType(element)
            case "map", [key, value]:
                return MapType(key, value)
            case "tuple", _:
                return TupleType(parts)
        raise self._error(f"{name} does not take {len(parts)} type parameters")

    def _user_type(self, name: str) -> UserType:
        lookup = self._user_types
        if isinstance(lookup, Mapping):
            lookup = lookup.get  # type: ignore[assignment]
        found = lookup(name) if callable(lookup) else None
        if found is None:
            raise InvalidValue(f"Unknown type {name}")
        return found

    def _peek(self) -> str:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _expect(self, character: str) -> None:
        if self._peek() != character:
            raise self._error(f"expected '{character}'")
        self._at += 1

    def _name(self) -> tuple[str, bool]:
        """A bare name in lower case or a quoted one, and whether it was quoted."""
        start = self._at
        if self._peek() == '"':
            return self._quoted_name(), True
        start = self._at
        while self._text[self._at : self._at + 1].isalnum() or self._text[self._at : self._at + 1] == "_":
            self._at += 1
        if start == self._at:
            raise self._error("expected the name of a type")
        return self._text[start : self._at].lower(), False

    def _quoted_name(self) -> str:
        self._at += 1
        name = ""
        while True:
            end = self._text.find('"', self._at)
            if end < 0:
                raise self._error("a quoted name does not end")
            name += self._text[self._at : end]
            self._at = end + 1
            if self._text[self._at : self._at + 1] != '"':
                return name
            name += '"'
            self._at += 1

    def _number(self) -> int:
        self._peek()
        start = self._at
        while self._text[self._at : self._at + 1].isdigit():
            self._at += 1
        if start == self._at:
            raise self._error("expected a number")
        return int(self._text[start : self._at])

    def _error(self, problem: str) -> InvalidValue:
        return InvalidValue(f"Invalid type '{self._text}': {problem} at character {self._at}")


__all__ = [
    "ASCII",
    "BIGINT",
    "BLOB",
    "BOOLEAN",
    "COUNTER",
    "DATE",
    "DECIMAL",
    "DOUBLE",
    "DURATION",
    "FLOAT",
    "INET",
    "INT",
    "NATIVE_TYPES",
    "SMALLINT",
    "TEXT",
    "TIME",
    "TIMESTAMP",
    "TIMEUUID",
    "TINYINT",
    "UUID",
    "VARINT",
    "CQLType",
    "Duration",
    "InvalidValue",
    "ListType",
    "MapType",
    "ScalarType",
    "SetType",
    "TupleType",
    "UserType",
    "UserTypes",
    "VectorType",
    "fold_json_name",
    "json_name",
    "native",
    "parse_type",
    "quote_name",
    "quote_text",
]
