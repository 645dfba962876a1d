"""The hidden column `_write_times` of many images at once: MessagePack, byte by byte as msgspec writes it.

Every part of a value gets as many columns of a matrix as it may need; the bytes that it does not need are
left out when the matrix is written down row by row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Matrix = NDArray[np.uint8]

_NIL: Final = 0xC0
_TRIPLE: Final = 0x93
_INT_BYTES: Final = 9
#: Rows at a time: matrices stay in the processor's cache.
_CHUNK: Final = 1 << 14

#: (first byte, bytes that follow, least and greatest value), first match wins.
_FORMS: Final = (
    (0xCC, 1, 0, 2**8 - 1),
    (0xCD, 2, 0, 2**16 - 1),
    (0xCE, 4, 0, 2**32 - 1),
    (0xCF, 8, 0, 2**63 - 1),
    (0xD0, 1, -(2**7), -1),
    (0xD1, 2, -(2**15), -1),
    (0xD2, 4, -(2**31), -1),
    (0xD3, 8, -(2**63), -1),
)


@dataclass(frozen=True, slots=True)
class CellTimes:
    """Of one column's cells: which there are, and their stamps (0 for no ttl)."""

    present: Flags
    timestamp: Ints
    ttl: Ints
    expiry: Ints

    def at(self, rows: "slice | NDArray[np.int64]") -> "CellTimes":
        return CellTimes(self.present[rows], self.timestamp[rows], self.ttl[rows], self.expiry[rows])


def encode_numbers(values: Ints) -> pa.Array:
    """One number a row."""
    if len(values) and values.min() >= 2**32:  # microseconds of our times, all of one length
        matrix = np.empty((len(values), _INT_BYTES), np.uint8)
        matrix[:, 0] = 0xCF
        matrix[:, 1:] = values.astype(">i8").view(np.uint8).reshape(-1, 8)
        offsets = np.arange(0, _INT_BYTES * (len(values) + 1), _INT_BYTES, dtype=np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(matrix.reshape(-1))]
        return pa.Array.from_buffers(pa.binary(), len(values), buffers, 0)
    return _written([_number(values)])


def encode_times(by_ordinal: Mapping[int, CellTimes], width: int, size: int) -> pa.Array:
    """What `ImageMaker` writes of each row: one number if it says it all, else a list of `width` items."""
    first = _first_of(list(by_ordinal.values()), size)
    alike = first.ttl == 0
    for own in by_ordinal.values():
        differs = (own.timestamp != first.timestamp) | (own.ttl != first.ttl) | (own.expiry != first.expiry)
        alike &= ~(own.present & differs)
    several = np.flatnonzero(~alike)
    numbers = encode_numbers(first.timestamp[alike])
    if not len(several):
        return numbers
    items = [by_ordinal[o].at(several) if o in by_ordinal else None for o in range(width)]
    lists = encode_lists(items, len(several))
    back = np.empty(size, np.int64)
    back[np.concatenate([np.flatnonzero(alike), several])] = np.arange(size)
    return pa.concat_arrays([numbers, lists]).take(pa.array(back))


def _first_of(cells: Sequence[CellTimes], size: int) -> CellTimes:
    """Of each row the stamp of its first cell; zeros if it has none."""
    present = np.zeros(size, np.bool_)
    timestamp, ttl, expiry = (np.zeros(size, np.int64) for _ in range(3))
    for own in cells:
        new = own.present & ~present
        for mine, theirs in ((timestamp, own.timestamp), (ttl, own.ttl), (expiry, own.expiry)):
            mine[new] = theirs[new]
        present |= new
    return CellTimes(present, timestamp, ttl, expiry)


def encode_lists(by_ordinal: Sequence[CellTimes | None], count: int) -> pa.Array:
    """For every row a list with one item for each ordinal: its stamp, or nil where there is no cell."""
    chunks = []
    for start in range(0, count, _CHUNK):
        rows = slice(start, min(count, start + _CHUNK))
        size = rows.stop - start
        parts = [_constant(_list_header(len(by_ordinal)), size)]
        for times in by_ordinal:
            parts += [_constant(bytes([_NIL]), size)] if times is None else _item(times.at(rows))
        chunks.append(_written(parts))
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.binary())


_Part = tuple[Matrix, Flags]


def _item(times: CellTimes) -> list[_Part]:
    head = np.where(times.present, np.uint8(_TRIPLE), np.uint8(_NIL)).astype(np.uint8).reshape(-1, 1)
    parts = [(head, np.ones(head.shape, np.bool_))]
    for numbers in (times.timestamp, times.ttl, times.expiry):
        matrix, used = _number(numbers)
        parts.append((matrix, used & times.present[:, None]))
    return parts


def _number(values: Ints) -> _Part:
    matrix = np.zeros((len(values), _INT_BYTES), np.uint8)
    lengths = np.ones(len(values), np.int64)
    matrix[:, 0] = values.astype(np.uint8)  # Small numbers, also negative ones, are one byte.
    left = (values < -32) | (values > 127)
    for first, size, low, high in _FORMS:
        if not left.any():
            break
        rows = np.flatnonzero(left & (values >= low) & (values <= high))
        matrix[rows, 0] = first
        big = values[rows].astype(">i8").view(np.uint8).reshape(-1, 8)
        matrix[rows, 1 : 1 + size] = big[:, 8 - size :]
        lengths[rows] = 1 + size
        left[rows] = False
    return matrix, np.arange(_INT_BYTES) < lengths[:, None]


def _constant(value: bytes, count: int) -> _Part:
    matrix = np.broadcast_to(np.frombuffer(value, np.uint8), (count, len(value)))
    return matrix, np.ones(matrix.shape, np.bool_)


def _list_header(count: int) -> bytes:
    if count < 16:
        return bytes([0x90 | count])
    if count < 2**16:
        return b"\xdc" + count.to_bytes(2, "big")
    return b"\xdd" + count.to_bytes(4, "big")


def _written(parts: Sequence[_Part]) -> pa.Array:
    matrix = np.hstack([matrix for matrix, _ in parts])
    used = np.hstack([used for _, used in parts])
    offsets = np.zeros(len(matrix) + 1, np.int32)
    np.cumsum(used.sum(axis=1), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(matrix[used])]
    return pa.Array.from_buffers(pa.binary(), len(matrix), buffers, 0)
