"""Columns of cells in a decoded row group: what the cell of one entry is, stamp included."""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from belvedere.model.rows import AnyCell, Complex
from belvedere.storage.columns import WireColumn

_decode_elements = msgspec.msgpack.Decoder(Complex).decode
#: Stands for null in stamp columns; no cell has it, since a write needs a later timestamp than that.
NO_STAMP: Final = -(2**63)


class CellColumn(Protocol):
    def get(self, index: int) -> AnyCell: ...
    def slice(self, low: int, high: int) -> Sequence[AnyCell]: ...


class AbsentCells:
    """A column that the file does not have."""

    def get(self, index: int) -> AnyCell:
        return None

    def slice(self, low: int, high: int) -> Sequence[AnyCell]:
        return [None] * (high - low)


class ElementCells:
    """A column of several cells a row."""

    def __init__(self, encoded: WireColumn) -> None:
        self._encoded = encoded

    def get(self, index: int) -> AnyCell:
        encoded = self._encoded.get(index)
        return None if encoded is None else _decode_elements(encoded)

    def slice(self, low: int, high: int) -> Sequence[AnyCell]:
        return [None if one is None else _decode_elements(one) for one in self._encoded.slice(low, high)]


class StampedCells:
    """A column some of whose cells have stamps of their own."""

    def __init__(
        self, wire: WireColumn, timestamps: memoryview, ttls: memoryview, expiries: memoryview
    ) -> None:
        self._wire = wire
        self._timestamps = timestamps
        self._ttls = ttls
        self._expiries = expiries

    def get(self, index: int) -> AnyCell:
        timestamp = self._timestamps[index]
        value = self._wire.get(index)
        if timestamp == NO_STAMP:
            return value
        return (value, timestamp, self._ttls[index], self._expiries[index])

    def slice(self, low: int, high: int) -> Sequence[AnyCell]:
        values = self._wire.slice(low, high)
        stamps = (m[low:high].tolist() for m in (self._timestamps, self._ttls, self._expiries))
        return [
            value if timestamp == NO_STAMP else (value, timestamp, ttl, expiry)
            for value, timestamp, ttl, expiry in zip(values, *stamps, strict=True)
        ]
