"""Lists, sets, maps and vectors.

On the wire a collection is a 4-byte count, then every element led by its 4-byte length. Sets and maps are
kept sorted by their element or key type, without duplicates; clients may send them in any order, and
`normalise` brings them into that form. Freezing a collection freezes what is inside it.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from belvedere.model.types_base import (
    CQLType,
    InvalidValue,
    KeyAndOffset,
    json_string,
    read_unsigned_vint,
    write_unsigned_vint,
)

_MARSHAL = "org.apache.cassandra.db.marshal."
# Parts of a composite key: the end sorts before null, null before any value.
KEY_END, KEY_NULL, KEY_VALUE = b"\x00", b"\x01", b"\x02"


class CompositeType(CQLType):
    """A type made of other types."""

    def parse_text(self, text: str) -> bytes:
        return self.from_json(text)

    def _parse_json(self, value: Any) -> Any:
        """JSON inside a string (a map's key, a string constant) is parsed on demand."""
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value, parse_float=Decimal)
        except (ValueError, RecursionError) as error:
            raise InvalidValue(f"Could not decode JSON string '{value}': {error}") from None


def write_sized(elements: Iterable[bytes]) -> bytes:
    """Elements, each led by its length."""
    return b"".join([len(element).to_bytes(4, "big") + element for element in elements])


def _read_elements(wire: bytes, per_entry: int, kind: str) -> list[bytes]:
    """The element bytes of a list, set (one an entry) or map (two an entry)."""
    if len(wire) < 4:
        raise InvalidValue(f"Not enough bytes to read a {kind}")
    count = int.from_bytes(wire[:4], "big", signed=True) * per_entry
    if count < 0 or count * 4 > len(wire) - 4:
        raise InvalidValue(f"Not enough bytes to read a {kind}")
    elements = []
    offset, size = 4, len(wire)
    for _ in range(count):
        start = offset + 4
        length = int.from_bytes(wire[offset:start], "big", signed=True)
        if length < 0:
            raise InvalidValue("null is not supported inside collections")
        offset = start + length
        if start > size or offset > size:
            raise InvalidValue(f"Not enough bytes to read a {kind}")
        elements.append(wire[start:offset])
    if offset != size:
        raise InvalidValue(f"Unexpected extraneous bytes after {kind} value")
    return elements


class _Collection(CompositeType):
    kind: str
    _frozen: bool

    def _name_it(self, kind: str, frozen: bool, children: tuple[CQLType, ...], option_id: int) -> None:
        inner = f"{kind}<{', '.join(child.name for child in children)}>"
        marshal = f"{_MARSHAL}{kind.capitalize()}Type({','.join(child.marshal_name for child in children)})"
        identity = (frozen, children)
        self._fix(
            kind=kind,
            name=f"frozen<{inner}>" if frozen else inner,
            marshal_name=f"{_MARSHAL}FrozenType({marshal})" if frozen else marshal,
            option_id=option_id,
            is_multicell=not frozen,
            _children=children,
            _identity=identity,
            _hash=hash((kind, identity)),
        )

    _children: tuple[CQLType, ...]

    def children(self) -> tuple[CQLType, ...]:
        return self._children

    def _option_body(self, protocol_version: int) -> bytes:
        return b"".join(child.encode_option(protocol_version) for child in self._children)


class _Sequence(_Collection):
    """What lists and sets share."""

    element: CQLType
    json_label: str

    def elements(self, wire: bytes) -> list[bytes]:
        return _read_elements(wire, 1, self.kind)

    def build(self, elements: Iterable[bytes]) -> bytes:
        """Wire bytes of elements that are already in order."""
        parts = list(elements)
        return len(parts).to_bytes(4, "big") + write_sized(parts)

    def validate(self, wire: bytes) -> None:
        check = self.element.validate
        for element in self.elements(wire):
            check(element)

    def to_text(self, wire: bytes) -> str:
        opening, closing = "[]" if self.kind == "list" else "{}"
        return opening + ", ".join(map(self.element.to_text, self.elements(wire))) + closing

    def to_json_text(self, wire: bytes) -> str:
        return "[" + ", ".join(map(self.element.to_json_text, self.elements(wire))) + "]"

    def from_json(self, value: Any) -> bytes:
        value = self._parse_json(value)
        if not isinstance(value, list):
            raise self._wrong_json(self.json_label, value)
        if None in value:
            raise InvalidValue(f"Invalid null element in {self.kind}")
        return self.normalise(self.build(map(self.element.from_json, value)))

    def to_key(self, wire: bytes) -> bytes:
        key = self.element.to_key
        return b"".join([KEY_VALUE + key(element) for element in self.elements(wire)]) + KEY_END

    def from_key(self, buffer: bytes, offset: int) -> KeyAndOffset:
        elements = []
        while buffer[offset] != KEY_END[0]:
            element, offset = self.element.from_key(buffer, offset + 1)
            elements.append(element)
        return self.build(elements), offset + 1


class ListType(_Sequence):
    json_label = "a list"

    def __init__(self, element: CQLType, frozen: bool = False) -> None:
        element = element.frozen() if frozen else element
        self._name_it("list", frozen, (element,), 0x20)
        self._fix(element=element, needs_normalising=element.needs_normalising)

    def frozen(self) -> "ListType":
        return self if not self.is_multicell else ListType(self.element, True)

    def __reduce__(self) -> tuple[type["ListType"], tuple[CQLType, bool]]:
        return ListType, (self.element, not self.is_multicell)

    def encode(self, value: Any) -> bytes:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise self._wrong_value(value)
        return self.build(map(self.element.encode, value))

    def decode(self, wire: bytes) -> list[Any]:
        return list(map(self.element.decode, self.elements(wire)))

    def normalise(self, wire: bytes) -> bytes:
        if not self.needs_normalising:
            return wire
        return self.build(map(self.element.normalise, self.elements(wire)))


class SetType(_Sequence):
    json_label = "a list (representing a set)"
    needs_normalising = True

    def __init__(self, element: CQLType, frozen: bool = False) -> None:
        element = element.frozen() if frozen else element
        self._name_it("set", frozen, (element,), 0x22)
        self._fix(element=element)

    def frozen(self) -> "SetType":
        return self if not self.is_multicell else SetType(self.element, True)

    def __reduce__(self) -> tuple[type["SetType"], tuple[CQLType, bool]]:
        return SetType, (self.element, not self.is_multicell)

    def encode(self, value: Any) -> bytes:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise self._wrong_value(value)
        return self.normalise(self.build(map(self.element.encode, value)))

    def decode(self, wire: bytes) -> set[Any] | list[Any]:
        """A set; elements that Python cannot hash come as a list in order."""
        values = list(map(self.element.decode, self.elements(wire)))
        try:
            return set(values)
        except TypeError:
            return values

    def normalise(self, wire: bytes) -> bytes:
        normal = self.element.normalise
        by_key = {self.element.to_key(element): normal(element) for element in self.elements(wire)}
        return self.build(by_key[key] for key in sorted(by_key))


class MapType(_Collection):
    needs_normalising = True

    key: CQLType
    value: CQLType

    def __init__(self, key: CQLType, value: CQLType, frozen: bool = False) -> None:
        key, value = (key.frozen(), value.frozen()) if frozen else (key, value)
        self._name_it("map", frozen, (key, value), 0x21)
        self._fix(key=key, value=value)

    def frozen(self) -> "MapType":
        return self if not self.is_multicell else MapType(self.key, self.value, True)

    def __reduce__(self) -> tuple[type["MapType"], tuple[CQLType, CQLType, bool]]:
        return MapType, (self.key, self.value, not self.is_multicell)

    def elements(self, wire: bytes) -> list[tuple[bytes, bytes]]:
        flat = _read_elements(wire, 2, "map")
        return list(zip(flat[::2], flat[1::2], strict=True))

    def build(self, pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Wire bytes of pairs whose keys are already in order."""
        flat = [part for pair in pairs for part in pair]
        return (len(flat) // 2).to_bytes(4, "big") + write_sized(flat)

    def encode(self, value: Any) -> bytes:
        pairs = value.items() if hasattr(value, "items") else value
        try:
            encoded = [(self.key.encode(k), self.value.encode(v)) for k, v in pairs]
        except (TypeError, ValueError) as error:
            raise error if isinstance(error, InvalidValue) else self._wrong_value(value) from None
        return self.normalise(self.build(encoded))

    def decode(self, wire: bytes) -> dict[Any, Any] | list[tuple[Any, Any]]:
        """A dict; with keys that Python cannot hash a list of pairs in order."""
        pairs = [(self.key.decode(k), self.value.decode(v)) for k, v in self.elements(wire)]
        try:
            return dict(pairs)
        except TypeError:
            return pairs

    def validate(self, wire: bytes) -> None:
        for key, value in self.elements(wire):
            self.key.validate(key)
            self.value.validate(value)

    def normalise(self, wire: bytes) -> bytes:
        """Of several entries with one key the last one stays."""
        by_key = {
            self.key.to_key(key): (self.key.normalise(key), self.value.normalise(value))
            for key, value in self.elements(wire)
        }
        return self.build(by_key[key] for key in sorted(by_key))

    def to_text(self, wire: bytes) -> str:
        pairs = (f"{self.key.to_text(k)}: {self.value.to_text(v)}" for k, v in self.elements(wire))
        return "{" + ", ".join(pairs) + "}"

    def to_json_text(self, wire: bytes) -> str:
        pairs = (
            f"{json_key(self.key.to_json_text(k))}: {self.value.to_json_text(v)}"
            for k, v in self.elements(wire)
        )
        return "{" + ", ".join(pairs) + "}"

    def from_json(self, value: Any) -> bytes:
        value = self._parse_json(value)
        if not isinstance(value, dict):
            raise self._wrong_json("a map", value)
        if None in value.values():
            raise InvalidValue("Invalid null value in map")
        pairs = [(self.key.from_json(k), self.value.from_json(v)) for k, v in value.items()]
        return self.normalise(self.build(pairs))

    def to_key(self, wire: bytes) -> bytes:
        key, value = self.key.to_key, self.value.to_key
        return b"".join([KEY_VALUE + key(k) + value(v) for k, v in self.elements(wire)]) + KEY_END

    def from_key(self, buffer: bytes, offset: int) -> KeyAndOffset:
        pairs = []
        while buffer[offset] != KEY_END[0]:
            key, offset = self.key.from_key(buffer, offset + 1)
            value, offset = self.value.from_key(buffer, offset)
            pairs.append((key, value))
        return self.build(pairs), offset + 1


def json_key(text: str) -> str:
    """JSON objects have string keys only: other JSON is put into a string."""
    return text if text.startswith('"') else json_string(text)


class VectorType(CompositeType):
    """A fixed number of elements, never null; element lengths (vints) only where they can differ."""

    option_id = 0

    element: CQLType
    dimension: int

    def __init__(self, element: CQLType, dimension: int) -> None:
        if dimension < 1:
            raise InvalidValue(f"vectors may only have positive dimensions; given {dimension}")
        element = element.frozen()
        width = None if element.vector_width is None else element.vector_width * dimension
        identity = (element, dimension)
        self._fix(
            element=element,
            dimension=dimension,
            name=f"vector<{element.name}, {dimension}>",
            marshal_name=f"{_MARSHAL}VectorType({element.marshal_name}, {dimension})",
            fixed_width=width,
            vector_width=width,
            needs_normalising=element.needs_normalising,
            _identity=identity,
            _hash=hash(identity),
        )

    def __reduce__(self) -> tuple[type["VectorType"], tuple[CQLType, int]]:
        return VectorType, (self.element, self.dimension)

    def children(self) -> tuple[CQLType, ...]:
        return (self.element,)

    def elements(self, wire: bytes) -> list[bytes]:
        width = self.element.vector_width
        if width is not None:
            expected = width * self.dimension
            if len(wire) < expected:
                raise InvalidValue(f"Not enough bytes to read a {self.name}")
            if len(wire) > expected:
                raise InvalidValue(
                    f"Unexpected {len(wire) - expected} extraneous bytes after {self.name} value"
                )
            return [wire[start : start + width] for start in range(0, expected, width)]
        elements = []
        offset = 0
        for _ in range(self.dimension):
            length, start = read_unsigned_vint(wire, offset)
            offset = start + length
            if offset > len(wire):
                raise InvalidValue(f"Not enough bytes to read a {self.name}")
            elements.append(wire[start:offset])
        if offset != len(wire):
            raise InvalidValue(f"Unexpected {len(wire) - offset} extraneous bytes after {self.name} value")
        return elements

    def build(self, elements: Iterable[bytes]) -> bytes:
        parts = list(elements)
        if len(parts) != self.dimension:
            raise InvalidValue(
                f"Invalid vector literal for value of type {self.name}; expected {self.dimension} elements, "
                f"but given {len(parts)}"
            )
        if self.element.vector_width is not None:
            return b"".join(parts)
        return b"".join([write_unsigned_vint(len(part)) + part for part in parts])

    def encode(self, value: Any) -> bytes:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise self._wrong_value(value)
        return self.build(map(self.element.encode, value))

    def decode(self, wire: bytes) -> list[Any]:
        return list(map(self.element.decode, self.elements(wire)))

    def validate(self, wire: bytes) -> None:
        if not wire:
            raise self._refuse_empty()
        for element in self.elements(wire):
            self.element.validate(element)

    def normalise(self, wire: bytes) -> bytes:
        return self._map(self.element.normalise, wire) if self.needs_normalising else wire

    def _map(self, change: Callable[[bytes], bytes], wire: bytes) -> bytes:
        return self.build(map(change, self.elements(wire)))

    def to_text(self, wire: bytes) -> str:
        return "[" + ", ".join(map(self.element.to_text, self.elements(wire))) + "]"

    def to_json_text(self, wire: bytes) -> str:
        return "[" + ", ".join(map(self.element.to_json_text, self.elements(wire))) + "]"

    def from_json(self, value: Any) -> bytes:
        value = self._parse_json(value)
        if not isinstance(value, list):
            raise self._wrong_json("a list", value)
        if len(value) != self.dimension:
            raise InvalidValue(f"List had incorrect size: expected {self.dimension} but given {len(value)}.")
        if None in value:
            raise InvalidValue("Invalid null element in list")
        return self.build(map(self.element.from_json, value))

    def to_key(self, wire: bytes) -> bytes:
        return b"".join(map(self.element.to_key, self.elements(wire)))

    def from_key(self, buffer: bytes, offset: int) -> KeyAndOffset:
        elements = []
        for _ in range(self.dimension):
            element, offset = self.element.from_key(buffer, offset)
            elements.append(element)
        return self.build(elements), offset
