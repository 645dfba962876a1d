"""Key bytes: clustering keys that sort as plain bytes, and partition keys as Cassandra lays them out.

A clustering key is the concatenation of its components. Each component is led by MARKER and then holds the
type's own key (see `CQLType.to_key`), inverted bit by bit for DESC. The keys of a type are prefix-free, so
the components need no separators, and all keys with a common prefix of components are neighbours: they lie
between the prefix itself and the prefix followed by 0xff, which sorts above every marker.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from belvedere.model.types_base import CQLType, InvalidValue
from belvedere.model.types_numeric import FLIP_SIGN, INVERT

MARKER: Final = b"\x40"
#: Sorts above the continuation of any prefix.
ABOVE: Final = b"\xff"

ComponentEncoder = Callable[[bytes], bytes]
ComponentDecoder = Callable[[bytes, int], tuple[bytes, int]]

_SIGNED: Final = frozenset(("tinyint", "smallint", "int", "bigint", "timestamp"))
_RAW: Final = frozenset(("date", "time"))
_BYTES: Final = frozenset(("text", "ascii", "blob", "inet"))
_SIGNED_ASC: Final = tuple(MARKER + first for first in FLIP_SIGN)
_SIGNED_DESC: Final = tuple(MARKER + first.translate(INVERT) for first in FLIP_SIGN)


class ClusteringOrder:
    """The order of the clustering keys of one table."""

    types: tuple[CQLType, ...]
    descending: tuple[bool, ...]
    encode: Callable[[Sequence[bytes]], bytes]
    """The key of one wire value per component."""

    def __init__(self, types: Sequence[CQLType], descending: Sequence[bool]) -> None:
        self.types = tuple(types)
        self.descending = tuple(descending)
        if len(self.types) != len(self.descending):
            raise ValueError("one direction is needed for every component")
        for component in self.types:
            if not component.is_orderable:
                raise InvalidValue(f"{component.name} is not comparable and cannot be a clustering column")
        pairs = list(zip(self.types, self.descending, strict=True))
        self._encoders = [_encoder(component, down) for component, down in pairs]
        self._decoders = [_decoder(component, down) for component, down in pairs]
        self.encode = self._make_encode()

    def __reduce__(self) -> tuple[type["ClusteringOrder"], tuple[Any, ...]]:
        return ClusteringOrder, (self.types, self.descending)

    def _make_encode(self) -> Callable[[Sequence[bytes]], bytes]:
        """Encoding happens on every write: one and two components need no loop."""
        encoders = self._encoders
        if len(encoders) == 1:
            only = encoders[0]

            def encode_one(values: Sequence[bytes]) -> bytes:
                (value,) = values
                return only(value)

            return encode_one
        if len(encoders) == 2:
            first, second = encoders

            def encode_two(values: Sequence[bytes]) -> bytes:
                one, two = values
                return first(one) + second(two)

            return encode_two

        def encode_all(values: Sequence[bytes]) -> bytes:
            if len(values) != len(encoders):
                raise ValueError(f"expected {len(encoders)} clustering values, got {len(values)}")
            return b"".join([encoder(value) for encoder, value in zip(encoders, values, strict=True)])

        return encode_all

    @property
    def encoders(self) -> tuple[ComponentEncoder, ...]:
        """What makes each component, marker included."""
        return tuple(self._encoders)

    def encode_prefix(self, values: Sequence[bytes]) -> bytes:
        """What all keys with these first components begin with."""
        if len(values) > len(self._encoders):
            raise ValueError(f"expected at most {len(self._encoders)} clustering values, got {len(values)}")
        return b"".join([encoder(value) for encoder, value in zip(self._encoders, values, strict=False)])

    def encode_component(self, index: int, value: bytes) -> bytes:
        """One component alone, marker included, to be appended to the prefix before it."""
        return self._encoders[index](value)

    def after_prefix(self, prefix: bytes) -> bytes:
        """A bound above every key that begins with the prefix, and below all that follow them."""
        return prefix + ABOVE

    def decode(self, key: bytes) -> list[bytes]:
        """The wire values of a key (or of a prefix of one)."""
        values = []
        offset, size = 0, len(key)
        for decoder in self._decoders:
            if offset == size:
                break
            value, offset = decoder(key, offset + 1)
            values.append(value)
        if offset != size:
            raise ValueError("a clustering key has bytes left over")
        return values


def _encoder(component: CQLType, descending: bool) -> ComponentEncoder:
    if component.name in _SIGNED:
        return _signed_encoder(descending)
    if component.name in _BYTES:
        return _bytes_encoder(descending)
    if component.name in _RAW and not descending:
        return lambda wire: MARKER + wire
    to_key = component.to_key
    if descending:
        return lambda wire: MARKER + to_key(wire).translate(INVERT)
    return lambda wire: MARKER + to_key(wire)


def _signed_encoder(descending: bool) -> ComponentEncoder:
    if descending:
        return lambda wire: _SIGNED_DESC[wire[0]] + wire[1:].translate(INVERT)
    return lambda wire: _SIGNED_ASC[wire[0]] + wire[1:]


def _bytes_encoder(descending: bool) -> ComponentEncoder:
    if descending:
        return lambda wire: MARKER + (wire.replace(b"\x00", b"\x00\xff") + b"\x00\x00").translate(INVERT)
    return lambda wire: MARKER + wire.replace(b"\x00", b"\x00\xff") + b"\x00\x00"


def reversed_component(component: bytes) -> bytes:
    """A whole component of an ascending column as it would be in a descending one, and back."""
    return MARKER + component[1:].translate(INVERT)


def _decoder(component: CQLType, descending: bool) -> ComponentDecoder:
    from_key = component.from_key
    if not descending:
        return from_key

    def decode_descending(buffer: bytes, offset: int) -> tuple[bytes, int]:
        value, used = from_key(buffer[offset:].translate(INVERT), 0)
        return value, offset + used

    return decode_descending


# -- partition keys --------------------------------------------------------------------------------


def join_partition_key(values: Sequence[bytes]) -> bytes:
    """A partition key's bytes: a single component raw, several as Cassandra's CompositeType."""
    if len(values) == 1:
        return values[0]
    return b"".join([len(value).to_bytes(2, "big") + value + b"\x00" for value in values])


def split_partition_key(key: bytes, count: int) -> list[bytes]:
    """The components of a partition key with `count` of them."""
    if count == 1:
        return [key]
    values = []
    offset = 0
    for _ in range(count):
        start = offset + 2
        end = start + int.from_bytes(key[offset:start], "big")
        if end >= len(key):
            raise ValueError("a partition key is too short for its components")
        values.append(key[start:end])
        offset = end + 1
    if offset != len(key):
        raise ValueError("a partition key has bytes left over")
    return values
