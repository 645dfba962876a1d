"""Tuples and user-defined types: a fixed row of fields, any of which may be null.

On the wire each field is led by its 4-byte length, -1 for null. Trailing fields may be missing (a user
type's value written before ALTER TYPE … ADD) and count as null; `normalise` spells them out. Keys leave
trailing nulls out, so that a key stays the same when a field is added.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from belvedere.model.types_base import CQLType, InvalidValue, KeyAndOffset, json_string, short_string
from belvedere.model.types_collections import KEY_END, KEY_NULL, KEY_VALUE, CompositeType
from belvedere.model.types_names import quote_name

_MARSHAL = "org.apache.cassandra.db.marshal."
_NULL_LENGTH = b"\xff\xff\xff\xff"


class FieldsType(CompositeType):
    """What tuples and user types share."""

    needs_normalising = True
    noun: str

    types: tuple[CQLType, ...]

    def children(self) -> tuple[CQLType, ...]:
        return self.types

    def _field_label(self, index: int) -> str:
        return f"{index}th component"

    def elements(self, wire: bytes) -> list[bytes | None]:
        """The fields that are there: possibly fewer than the type has."""
        elements: list[bytes | None] = []
        offset, size = 0, len(wire)
        for index in range(len(self.types)):
            if offset == size:
                return elements
            start = offset + 4
            if start > size:
                raise InvalidValue(f"Not enough bytes to read size of {self._field_label(index)}")
            length = int.from_bytes(wire[offset:start], "big", signed=True)
            if length < 0:
                offset = start
                elements.append(None)
                continue
            offset = start + length
            if offset > size:
                raise InvalidValue(f"Not enough bytes to read {self._field_label(index)}")
            elements.append(wire[start:offset])
        if offset != size:
            raise InvalidValue(f"Invalid remaining data after end of {self.noun} value")
        return elements

    def all_elements(self, wire: bytes) -> list[bytes | None]:
        """One entry for every field of the type."""
        elements = self.elements(wire)
        elements.extend([None] * (len(self.types) - len(elements)))
        return elements

    def build(self, elements: Iterable[bytes | None]) -> bytes:
        return b"".join(
            [_NULL_LENGTH if part is None else len(part).to_bytes(4, "big") + part for part in elements]
        )

    def _build_all(self, elements: list[bytes | None]) -> bytes:
        return self.build(elements + [None] * (len(self.types) - len(elements)))

    def validate(self, wire: bytes) -> None:
        for field_type, element in zip(self.types, self.elements(wire), strict=False):
            if element is not None:
                field_type.validate(element)

    def normalise(self, wire: bytes) -> bytes:
        pairs = zip(self.types, self.all_elements(wire), strict=True)
        return self.build(None if part is None else field_type.normalise(part) for field_type, part in pairs)

    def _encode_sequence(self, values: Iterable[Any]) -> bytes:
        fields = list(values)
        if len(fields) > len(self.types):
            raise InvalidValue(
                f"Invalid {self.noun} value: too many elements. Type {self.name} expects "
                f"{len(self.types)} but got {len(fields)}"
            )
        pairs = zip(self.types, fields, strict=False)
        return self._build_all([None if field is None else kind.encode(field) for kind, field in pairs])

    def _decode_all(self, wire: bytes) -> list[Any]:
        pairs = zip(self.types, self.all_elements(wire), strict=True)
        return [None if part is None else field_type.decode(part) for field_type, part in pairs]

    def _texts(self, wire: bytes) -> list[str]:
        pairs = zip(self.types, self.all_elements(wire), strict=True)
        return ["null" if part is None else field_type.to_text(part) for field_type, part in pairs]

    def _json_texts(self, wire: bytes) -> list[str]:
        pairs = zip(self.types, self.all_elements(wire), strict=True)
        return ["null" if part is None else field_type.to_json_text(part) for field_type, part in pairs]

    def to_key(self, wire: bytes) -> bytes:
        elements = self.elements(wire)
        while elements and elements[-1] is None:
            elements.pop()
        pairs = zip(self.types, elements, strict=False)
        parts = [KEY_NULL if part is None else KEY_VALUE + kind.to_key(part) for kind, part in pairs]
        return b"".join(parts) + KEY_END

    def from_key(self, buffer: bytes, offset: int) -> KeyAndOffset:
        elements: list[bytes | None] = []
        for field_type in self.types:
            marker = buffer[offset]
            if marker == KEY_END[0]:
                break
            offset += 1
            if marker == KEY_NULL[0]:
                elements.append(None)
                continue
            element, offset = field_type.from_key(buffer, offset)
            elements.append(element)
        return self._build_all(elements), offset + 1


class TupleType(FieldsType):
    """Always frozen."""

    noun = "tuple"

    def __init__(self, types: Iterable[CQLType]) -> None:
        types = tuple(field_type.frozen() for field_type in types)
        names = ", ".join(field_type.name for field_type in types)
        self._fix(
            types=types,
            name=f"frozen<tuple<{names}>>",
            marshal_name=f"{_MARSHAL}TupleType({','.join(t.marshal_name for t in types)})",
            option_id=0x31,
            _identity=types,
            _hash=hash(("tuple", types)),
        )

    def __reduce__(self) -> tuple[type["TupleType"], tuple[tuple[CQLType, ...]]]:
        return TupleType, (self.types,)

    def encode(self, value: Any) -> bytes:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise self._wrong_value(value)
        return self._encode_sequence(value)

    def decode(self, wire: bytes) -> tuple[Any, ...]:
        return tuple(self._decode_all(wire))

    def to_text(self, wire: bytes) -> str:
        return "(" + ", ".join(self._texts(wire)) + ")"

    def to_json_text(self, wire: bytes) -> str:
        return "[" + ", ".join(self._json_texts(wire)) + "]"

    def from_json(self, value: Any) -> bytes:
        value = self._parse_json(value)
        if not isinstance(value, list):
            raise self._wrong_json("a list representation of a tuple", value)
        for problem, wrong in (
            ("contains extra", len(value) > len(self.types)),
            ("is missing", len(value) < len(self.types)),
        ):
            if wrong:
                raise InvalidValue(f"Tuple {problem} items (expected {len(self.types)}): {value}")
        pairs = zip(self.types, value, strict=True)
        return self.build(None if field is None else kind.from_json(field) for kind, field in pairs)

    def _option_body(self, protocol_version: int) -> bytes:
        fields = b"".join(field_type.encode_option(protocol_version) for field_type in self.types)
        return len(self.types).to_bytes(2, "big") + fields


class UserType(FieldsType):
    """A user-defined type: `fields` are names and types in their order. Not frozen unless asked for."""

    noun = "UDT"

    keyspace: str
    type_name: str
    """The name without quotes; `name` is the type as CQL text."""
    field_names: tuple[str, ...]

    def __init__(
        self, keyspace: str, type_name: str, fields: Iterable[tuple[str, CQLType]], frozen: bool = False
    ) -> None:
        pairs = tuple((name, t.frozen() if frozen else t) for name, t in fields)
        types = tuple(field_type for _, field_type in pairs)
        marshal_fields = "".join(f",{name.encode().hex()}:{t.marshal_name}" for name, t in pairs)
        marshal = f"{_MARSHAL}UserType({keyspace},{type_name.encode().hex()}{marshal_fields})"
        quoted = quote_name(type_name)
        identity = (keyspace, type_name, frozen, pairs)
        self._fix(
            keyspace=keyspace,
            type_name=type_name,
            types=types,
            field_names=tuple(name for name, _ in pairs),
            name=f"frozen<{quoted}>" if frozen else quoted,
            marshal_name=f"{_MARSHAL}FrozenType({marshal})" if frozen else marshal,
            option_id=0x30,
            is_multicell=not frozen,
            _identity=identity,
            _hash=hash(identity),
        )

    @property
    def fields(self) -> tuple[tuple[str, CQLType], ...]:
        return tuple(zip(self.field_names, self.types, strict=True))

    def frozen(self) -> "UserType":
        return self if not self.is_multicell else UserType(self.keyspace, self.type_name, self.fields, True)

    def __reduce__(self) -> tuple[type["UserType"], tuple[Any, ...]]:
        return UserType, (self.keyspace, self.type_name, self.fields, not self.is_multicell)

    def _field_label(self, index: int) -> str:
        return f"{index}th field {self.field_names[index]}"

    def encode(self, value: Any) -> bytes:
        if isinstance(value, Mapping):
            unknown = [name for name in value if name not in self.field_names]
            if unknown:
                raise InvalidValue(
                    f"Unknown field '{unknown[0]}' in value of user defined type {self.type_name}"
                )
            return self._encode_sequence([value.get(name) for name in self.field_names])
        if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
            return self._encode_sequence(value)
        if not any(hasattr(value, name) for name in self.field_names):
            raise self._wrong_value(value)
        return self._encode_sequence([getattr(value, name, None) for name in self.field_names])

    def decode(self, wire: bytes) -> dict[str, Any]:
        return dict(zip(self.field_names, self._decode_all(wire), strict=True))

    def to_text(self, wire: bytes) -> str:
        pairs = zip(self.field_names, self._texts(wire), strict=True)
        return "{" + ", ".join(f"{quote_name(name)}: {text}" for name, text in pairs) + "}"

    def to_json_text(self, wire: bytes) -> str:
        pairs = zip(self.field_names, self._json_texts(wire), strict=True)
        return "{" + ", ".join(f"{json_name(name)}: {text}" for name, text in pairs) + "}"

    def from_json(self, value: Any) -> bytes:
        value = self._parse_json(value)
        if not isinstance(value, dict):
            raise self._wrong_json("a map", value)
        named = {fold_json_name(name): field for name, field in value.items()}
        unknown = [name for name in named if name not in self.field_names]
        if unknown:
            raise InvalidValue(
                f"Unknown fields [{', '.join(unknown)}] in value of user defined type {self.type_name}"
            )
        fields = ((kind, named.get(name)) for name, kind in self.fields)
        return self.build(None if field is None else kind.from_json(field) for kind, field in fields)

    def _option_body(self, protocol_version: int) -> bytes:
        fields = b"".join(short_string(name) + t.encode_option(protocol_version) for name, t in self.fields)
        return b"".join(
            (
                short_string(self.keyspace),
                short_string(self.type_name),
                len(self.types).to_bytes(2, "big"),
                fields,
            )
        )


def json_name(name: str) -> str:
    """A column or field name as a key of a JSON object: names with capitals keep their double quotes."""
    return json_string(name if name == name.lower() else f'"{name}"')


def fold_json_name(name: str) -> str:
    """The inverse: names in double quotes are kept, all others are folded to lower case."""
    if len(name) > 1 and name.startswith('"') and name.endswith('"'):
        return name[1:-1]
    return name.lower()
