"""Parquet's split-block bloom filters, read: is a token certainly not in a row group?

pyarrow writes these filters but does not probe them. The format is Parquet's own (BloomFilter.md): blocks
of 256 bits, the upper half of the hash picks the block, eight salts pick one bit in each of its words.
"""

from collections.abc import Sequence
from typing import Final

import xxhash

_SALTS: Final = (
    0x47B6137B,
    0x44974D91,
    0x8824AD5B,
    0xA2B7289D,
    0x705495C7,
    0x2DF1424B,
    0x9EFC4947,
    0x5C6BFB31,
)
_BLOCK: Final = 32

#: (upper half of the hash, the eight bits as one 256-bit little-endian number)
Probe = tuple[int, int]


def probe_of(token: int) -> Probe:
    """What must be looked up for a token; the same for every filter."""
    return probe_of_hash(xxhash.xxh64_intdigest(token.to_bytes(8, "little", signed=True)))


def probe_of_hash(digest: int) -> Probe:
    low = digest & 0xFFFFFFFF
    mask = 0
    shift = 0
    for salt in _SALTS:
        mask |= 1 << (shift + (((low * salt) & 0xFFFFFFFF) >> 27))
        shift += 32
    return digest >> 32, mask


class BloomFilter:
    """The bit set of one column chunk."""

    __slots__ = ("_bits", "_blocks")

    def __init__(self, bits: bytes | memoryview) -> None:
        if len(bits) % _BLOCK or not bits:
            raise ValueError(f"a bloom filter has whole blocks of {_BLOCK} bytes, not {len(bits)} bytes")
        self._bits = bits
        self._blocks = len(bits) // _BLOCK

    @classmethod
    def from_parquet(cls, stored: bytes | memoryview) -> "BloomFilter":
        """From the bytes at `bloom_filter_offset`: a Thrift header, then the bits."""
        size, header = _read_header(stored)
        return cls(stored[header : header + size])

    def might_contain(self, probe: Probe) -> bool:
        high, mask = probe
        start = ((high * self._blocks) >> 32) * _BLOCK
        return int.from_bytes(self._bits[start : start + _BLOCK], "little") & mask == mask

    @property
    def nbytes(self) -> int:
        return len(self._bits)


def _read_header(stored: Sequence[int]) -> tuple[int, int]:
    """(number of bytes of the bit set, length of the header), from Thrift's compact protocol.

    struct BloomFilterHeader { 1: i32 numBytes; 2, 3, 4: unions, each of one empty struct }: the unions
    say algorithm, hash and compression, of which Parquet has defined one each.
    """
    if stored[0] != 0x15:  # field 1, an i32
        raise ValueError("not a bloom filter header")
    value = shift = 0
    offset = 1
    while True:
        byte = stored[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    expected = (0x1C, 0x1C, 0x00, 0x00)
    for _ in range(3):
        if tuple(stored[offset : offset + 4]) != expected:
            raise ValueError("a bloom filter of an unknown kind")
        offset += 4
    if stored[offset] != 0:
        raise ValueError("a bloom filter header that does not end")
    return (value >> 1) ^ -(value & 1), offset + 1
