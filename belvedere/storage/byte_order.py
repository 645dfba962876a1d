"""The order of very many byte strings, in numbers.

Keys of one table are often of one length, and differ in a few of their bytes only: those, as numbers, sort
many times faster than strings.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]

#: Ranks stay below this.
RANK_BITS = 48


def ranks_of(column: pa.Array) -> Ints:
    """Numbers that order like the byte strings, equal where these are; below 2**48."""
    words = words_of(column)
    if len(words) > 1 or (len(words[0]) and int(words[0].max()) >= 1 << RANK_BITS):
        return _dense(words)
    return words[0].astype(np.int64)


def _dense(words: Sequence[NDArray[Any]]) -> Ints:
    order = np.argsort(words[0]) if len(words) == 1 else np.lexsort(words[::-1])
    new = np.zeros(len(order), np.int64)
    for word in words:
        inner = word[order]
        new[1:] |= inner[1:] != inner[:-1]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(new)
    return ranks


def words_of(column: pa.Array) -> list[NDArray[Any]]:
    """Numbers that order like byte strings, the most important first: of strings of one length the bytes that
    differ anywhere, in words."""
    if not len(column):
        return [np.zeros(0, np.uint64)]
    _, offset_buffer, data = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(column) + 1, 4 * column.offset)
    width = int(offsets[1] - offsets[0])
    if column.null_count or data is None or (np.diff(offsets) != width).any():
        return [np.asarray(pc.rank(column, tiebreaker="dense"))]
    raw = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].reshape(len(column), width)
    varying = np.flatnonzero(raw.min(axis=0) != raw.max(axis=0)) if width else np.zeros(0, np.int64)
    words = []
    for start in range(0, len(varying), 8):
        chosen = varying[start : start + 8]
        padded = np.zeros((len(column), 8), np.uint8)
        padded[:, 8 - len(chosen) :] = raw[:, chosen]
        words.append(padded.view(">u8").reshape(-1).astype(np.uint64))
    return words or [np.zeros(len(column), np.uint64)]
