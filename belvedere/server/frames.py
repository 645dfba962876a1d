"""Segments of protocol v5: checksummed, optionally compressed carriers of envelopes.

The public specification calls a segment a "frame" and what older versions called a frame an "envelope". A
self-contained segment holds one or more whole envelopes; a larger envelope is spread over several segments
that are not self-contained. The header's checksum (CRC24) protects the lengths, so that a damaged payload
(CRC32) is noticed at the right place.
"""

import zlib
from collections.abc import Iterable

from belvedere.query.errors import ProtocolError
from belvedere.server.compression import compress_block, decompress_block
from belvedere.server.protocol import FatalProtocolError

MAX_PAYLOAD = (1 << 17) - 1
#: What LZ4 can never make longer than MAX_PAYLOAD.
MAX_COMPRESSIBLE = MAX_PAYLOAD - MAX_PAYLOAD // 255 - 16
_LENGTH_MASK = MAX_PAYLOAD
_CRC24_START = 0x875060
_CRC24_POLYNOMIAL = 0x1974F0B
_CRC32_START = zlib.crc32(b"\xfa\x2d\x55\xca")
_PLAIN_HEADER = 3
_COMPRESSED_HEADER = 5
_CRC24_LENGTH = 3
_CRC32_LENGTH = 4


def _crc24_step(byte: int) -> int:
    value = byte << 16
    for _ in range(8):
        value <<= 1
        if value & 0x1000000:
            value ^= _CRC24_POLYNOMIAL
    return value


_CRC24_TABLE = tuple(_crc24_step(byte) for byte in range(256))


def crc24(data: bytes) -> int:
    value = _CRC24_START
    for byte in data:
        value = ((value << 8) & 0xFFFFFF) ^ _CRC24_TABLE[(value >> 16) ^ byte]
    return value


def encode_segment(payload: bytes, self_contained: bool, compressed: bool) -> bytes:
    """One segment around at most MAX_PAYLOAD bytes."""
    size = len(payload)
    if compressed:
        # Also when that makes it longer. The protocol allows for payloads that are not compressed after all
        # (a plain length of zero), but cassandra-driver miscounts their header by two bytes.
        packed = compress_block(payload)
        plain_size = size
        if len(packed) > MAX_PAYLOAD:
            packed, plain_size = payload, 0
        fields = len(packed) | plain_size << 17 | self_contained << 34
        header = fields.to_bytes(_COMPRESSED_HEADER, "little")
        payload = packed
    else:
        header = (size | self_contained << 17).to_bytes(_PLAIN_HEADER, "little")
    return b"".join(
        (
            header,
            crc24(header).to_bytes(_CRC24_LENGTH, "little"),
            payload,
            zlib.crc32(payload, _CRC32_START).to_bytes(_CRC32_LENGTH, "little"),
        )
    )


def encode_segments(envelopes: Iterable[bytes], compressed: bool) -> bytes:
    """Pack whole envelopes: as many small ones as fit share a segment, large ones are split."""
    segments: list[bytes] = []
    shared: list[bytes] = []
    room = limit = MAX_COMPRESSIBLE if compressed else MAX_PAYLOAD
    for envelope in envelopes:
        size = len(envelope)
        if size > room and shared:
            segments.append(encode_segment(b"".join(shared), True, compressed))
            shared, room = [], limit
        if size <= room:
            shared.append(envelope)
            room -= size
            continue
        for start in range(0, size, limit):
            segments.append(encode_segment(envelope[start : start + limit], False, compressed))
    if shared:
        segments.append(encode_segment(b"".join(shared), True, compressed))
    return segments[0] if len(segments) == 1 else b"".join(segments)


class SegmentDecoder:
    """Bytes in, payloads out, however the bytes are cut. Holds at most one segment that is not whole yet."""

    def __init__(self, compressed: bool) -> None:
        self._compressed = compressed
        self._header = _COMPRESSED_HEADER if compressed else _PLAIN_HEADER
        self._partial = bytearray()
        self._need = 0

    @property
    def buffered(self) -> int:
        return len(self._partial)

    def feed(self, data: bytes) -> tuple[list[tuple[bytes, bool]], FatalProtocolError | None]:
        """(payload, self-contained) of each segment that is now whole, and what ended the stream."""
        if self._partial:
            self._partial += data
            if len(self._partial) < self._need:
                return [], None
            data = bytes(self._partial)
        payloads: list[tuple[bytes, bool]] = []
        at, failure = 0, None
        try:
            while (found := self._segment(data, at)) is not None:
                payload, self_contained, at = found
                payloads.append((payload, self_contained))
        except FatalProtocolError as error:
            failure = error
            at = len(data)
        self._partial = bytearray(data[at:])
        return payloads, failure

    def _segment(self, data: bytes, at: int) -> tuple[bytes, bool, int] | None:
        """The segment that begins at `at` and where the next begins, None if it is not whole yet."""
        start = at + self._header + _CRC24_LENGTH
        if len(data) < start:
            self._need = start - at
            return None
        header = data[at : at + self._header]
        if crc24(header) != int.from_bytes(data[at + self._header : start], "little"):
            raise FatalProtocolError("Corrupted frame header: its checksum does not match")
        fields = int.from_bytes(header, "little")
        length = fields & _LENGTH_MASK
        end = start + length
        if len(data) < end + _CRC32_LENGTH:
            self._need = end + _CRC32_LENGTH - at
            return None
        payload = data[start:end]
        checksum = int.from_bytes(data[end : end + _CRC32_LENGTH], "little")
        if zlib.crc32(payload, _CRC32_START) != checksum:
            raise FatalProtocolError("Corrupted frame payload: its checksum does not match")
        if not self._compressed:
            return payload, bool(fields >> 17 & 1), end + _CRC32_LENGTH
        plain_size = fields >> 17 & _LENGTH_MASK
        if plain_size:
            try:
                payload = decompress_block(payload, plain_size)
            except ProtocolError as error:
                raise FatalProtocolError(error.message) from error
        return payload, bool(fields >> 34 & 1), end + _CRC32_LENGTH
