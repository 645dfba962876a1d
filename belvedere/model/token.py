"""Tokens: Cassandra's Murmur3Partitioner, bit for bit.

Cassandra's MurmurHash3 (x64, 128 bits, first half) reads the last, incomplete 16 bytes as *signed* bytes,
which the reference implementation does not. Both agree on keys whose tail has no byte from 0x80 up, so the
C implementation serves those and all keys of whole blocks. For the rest it hashes the whole blocks; its
final mixing is undone, which gives the inner state, and the tail is mixed in here.
"""

from collections.abc import Sequence
from typing import Any, Final

import mmh3
import numpy as np
from numpy.typing import NDArray

MIN_TOKEN: Final = -(2**63)
MAX_TOKEN: Final = 2**63 - 1

_MASK: Final = 2**64 - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F
_F1: Final = 0xFF51AFD7ED558CCD
_F2: Final = 0xC4CEB9FE1A85EC53
_UNDO_F1: Final = pow(_F1, -1, 2**64)
_UNDO_F2: Final = pow(_F2, -1, 2**64)

_SIGNS: Final = 0x8080808080808080


def _sign_corrections() -> dict[int, int]:
    """What the sign extension of up to eight bytes changes, by which of them have their sign bit set."""
    corrections = {0: 0}
    for index in range(8):
        bit, change = 0x80 << (8 * index), (-1 << (8 * (index + 1))) & _MASK
        corrections.update({signs | bit: seen ^ change for signs, seen in corrections.items()})
    return corrections


_CORRECTIONS: Final = _sign_corrections()


def token_of(key: bytes) -> int:
    """The token of a partition key's bytes."""
    if key.isascii():
        if not key:
            return MIN_TOKEN
        token: int = mmh3.hash64(key, 0, True)[0]
        return token if token != MIN_TOKEN else MAX_TOKEN
    length = len(key)
    tail_length = length & 15
    if tail_length == 0 or (length > 16 and key[-tail_length:].isascii()):
        token = mmh3.hash64(key, 0, True)[0]
        return token if token != MIN_TOKEN else MAX_TOKEN
    if length == 8:
        # What the signs change stays within the eight bytes: other bytes, hashed alike.
        k1 = int.from_bytes(key, "little")
        k1 ^= _CORRECTIONS[k1 & _SIGNS]
        token = mmh3.hash64(k1.to_bytes(8, "little"), 0, True)[0]
        return token if token != MIN_TOKEN else MAX_TOKEN
    h1 = h2 = 0
    if length > 16:
        h1, h2 = _state_after_blocks(key[:-tail_length])
        key = key[-tail_length:]
    if tail_length > 8:
        k2 = int.from_bytes(key[8:], "little")
        k2 ^= _CORRECTIONS[k2 & _SIGNS]
        k2 = k2 * _C2 & _MASK
        h2 ^= ((k2 << 33 | k2 >> 31) & _MASK) * _C1 & _MASK
        key = key[:8]
    k1 = int.from_bytes(key, "little")
    k1 ^= _CORRECTIONS[k1 & _SIGNS]
    k1 = k1 * _C1 & _MASK
    h1 ^= ((k1 << 31 | k1 >> 33) & _MASK) * _C2 & _MASK
    # The final mixing.
    h2 ^= length
    h1 = ((h1 ^ length) + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1 = (h1 ^ h1 >> 33) * _F1 & _MASK
    h1 = (h1 ^ h1 >> 33) * _F2 & _MASK
    h2 = (h2 ^ h2 >> 33) * _F1 & _MASK
    h2 = (h2 ^ h2 >> 33) * _F2 & _MASK
    token = ((h1 ^ h1 >> 33) + (h2 ^ h2 >> 33)) & _MASK
    if token >= 2**63:
        return token - 2**64 if token != 2**63 else MAX_TOKEN
    return token


def _unmix(h: int) -> int:
    """The inverse of the final 64-bit mixing: x ^ x >> 33 undoes itself."""
    h = (h ^ h >> 33) * _UNDO_F2 & _MASK
    h = (h ^ h >> 33) * _UNDO_F1 & _MASK
    return h ^ h >> 33


def _state_after_blocks(blocks: bytes) -> tuple[int, int]:
    h1, h2 = mmh3.hash64(blocks, 0, True, False)
    h2 = (h2 - h1) & _MASK
    h1 = (h1 - h2) & _MASK
    h1, h2 = _unmix(h1), _unmix(h2)
    h2 = (h2 - h1) & _MASK
    h1 = (h1 - h2) & _MASK
    return h1 ^ len(blocks), h2 ^ len(blocks)


# -- many keys at once -----------------------------------------------------------------------------

Tokens = NDArray[np.int64]
_Words = NDArray[np.uint64]
_CHUNK: Final = 8192  # keys at a time: intermediate columns stay in the processor's cache


def tokens_of(keys: Sequence[bytes]) -> Tokens:
    """The tokens of many keys."""
    lengths = np.fromiter(map(len, keys), dtype=np.int64, count=len(keys))
    data = b"".join(keys)
    if data and (lengths == lengths[0]).all():
        return tokens_of_fixed(data, int(lengths[0]))
    offsets = np.zeros(len(keys) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return tokens_of_offsets(offsets, data)


def tokens_of_fixed(data: Any, width: int) -> Tokens:
    """The tokens of keys of one width, given as one buffer without gaps."""
    raw = np.frombuffer(data, dtype=np.uint8)
    if width < 1:
        raise ValueError("keys without bytes cannot be counted")
    rows = raw.reshape(-1, width)
    tokens = np.empty(len(rows), dtype=np.int64)
    for start in range(0, len(rows), _CHUNK):
        tokens[start : start + _CHUNK] = _hash_rows(rows[start : start + _CHUNK])
    return tokens


def tokens_of_offsets(offsets: NDArray[np.integer[Any]], data: Any) -> Tokens:
    """The tokens of keys of any widths: key i is data[offsets[i]:offsets[i + 1]], as Arrow keeps them."""
    raw = np.frombuffer(data, dtype=np.uint8)
    starts = np.asarray(offsets[:-1], dtype=np.int64)
    lengths = np.asarray(offsets[1:], dtype=np.int64) - starts
    tokens = np.full(len(starts), MIN_TOKEN, dtype=np.int64)
    by_length = np.argsort(lengths, kind="stable")
    widths, firsts = np.unique(lengths[by_length], return_index=True)
    for width, group in zip(widths.tolist(), np.split(by_length, firsts[1:]), strict=False):
        if width == 0:
            continue
        columns = np.arange(width)
        for start in range(0, len(group), _CHUNK):
            chosen = group[start : start + _CHUNK]
            tokens[chosen] = _hash_rows(raw[starts[chosen][:, None] + columns])
    return tokens


def _hash_rows(rows: NDArray[np.uint8]) -> Tokens:
    """Murmur3 of every row of bytes; unsigned arithmetic wraps around as it must."""
    count, width = rows.shape
    h1 = np.zeros(count, dtype=np.uint64)
    h2 = np.zeros(count, dtype=np.uint64)
    whole = width - width % 16
    for start in range(0, whole, 16):
        h1 ^= _mix_k1(_words(rows[:, start : start + 8]))
        h1 = (_rotate(h1, 27) + h2) * np.uint64(5) + np.uint64(0x52DCE729)
        h2 ^= _mix_k2(_words(rows[:, start + 8 : start + 16]))
        h2 = (_rotate(h2, 31) + h1) * np.uint64(5) + np.uint64(0x38495AB5)
    if width - whole > 8:
        h2 ^= _mix_k2(_signed_words(rows[:, whole + 8 :]))
    if width > whole:
        h1 ^= _mix_k1(_signed_words(rows[:, whole : whole + 8]))
    h1 ^= np.uint64(width)
    h2 ^= np.uint64(width)
    h1 += h2
    h2 += h1
    tokens = (_final_mix(h1) + _final_mix(h2)).view(np.int64)
    tokens[tokens == MIN_TOKEN] = MAX_TOKEN
    return tokens


def _words(columns: NDArray[np.uint8]) -> _Words:
    """Up to eight byte columns as one little-endian word a row."""
    count, width = columns.shape
    if width == 8:
        return np.ascontiguousarray(columns).view("<u8").reshape(count).astype(np.uint64)
    padded = np.zeros((count, 8), dtype=np.uint8)
    padded[:, :width] = columns
    return padded.view("<u8").reshape(count).astype(np.uint64, copy=False)


def _signed_words(columns: NDArray[np.uint8]) -> _Words:
    """The same with every byte sign-extended before it is XORed in.

    The bytes of value 0x80 and more become 0x01 in `signs`. Extending byte i flips all bytes above it, so
    byte j is flipped when an odd number of bytes below j have their sign set: a prefix XOR of `signs`.
    """
    words = _words(columns)
    signs = (words >> np.uint64(7)) & np.uint64(0x0101010101010101)
    prefix = signs << np.uint64(8)
    prefix ^= prefix << np.uint64(8)
    prefix ^= prefix << np.uint64(16)
    prefix ^= prefix << np.uint64(32)
    return words ^ (prefix * np.uint64(0xFF))


def _rotate(words: _Words, bits: int) -> _Words:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _mix_k1(k1: _Words) -> _Words:
    return _rotate(k1 * np.uint64(_C1), 31) * np.uint64(_C2)


def _mix_k2(k2: _Words) -> _Words:
    return _rotate(k2 * np.uint64(_C2), 33) * np.uint64(_C1)


def _final_mix(h: _Words) -> _Words:
    h ^= h >> np.uint64(33)
    h *= np.uint64(_F1)
    h ^= h >> np.uint64(33)
    h *= np.uint64(_F2)
    h ^= h >> np.uint64(33)
    return h
