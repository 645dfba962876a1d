"""Segments of v5 against the implementation that cassandra-driver has of them."""

import io
import itertools
import os

import pytest
from cassandra.connection import lz4_compress, lz4_decompress
from cassandra.segment import CRC24_LENGTH, SegmentCodec, compute_crc24
from hypothesis import given
from hypothesis import strategies as st

from belvedere.server.frames import (
    MAX_COMPRESSIBLE,
    MAX_PAYLOAD,
    SegmentDecoder,
    crc24,
    encode_segment,
    encode_segments,
)


def drivers_codec(compressed: bool) -> SegmentCodec:
    return SegmentCodec(lz4_compress, lz4_decompress) if compressed else SegmentCodec()


def drivers_segments(data: bytes, compressed: bool) -> list[tuple[bytes, bool]]:
    codec, stream, found = drivers_codec(compressed), io.BytesIO(data), []
    while stream.tell() < len(data):
        header = codec.decode_header(stream)
        found.append((codec.decode(stream, header).payload, header.is_self_contained))
    return found


@given(st.binary(min_size=1, max_size=8))
def test_crc24_agrees(data: bytes) -> None:
    assert crc24(data) == compute_crc24(int.from_bytes(data, "little"), len(data))
    assert CRC24_LENGTH == 3


PAYLOADS = [b"x", b"hello" * 100, os.urandom(1000), b"a" * MAX_PAYLOAD, bytes(range(256)) * 511]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("self_contained", [False, True])
def test_the_driver_reads_ours(compressed: bool, self_contained: bool) -> None:
    for payload in PAYLOADS:
        data = encode_segment(payload, self_contained, compressed)
        assert drivers_segments(data, compressed) == [(payload, self_contained)]


@pytest.mark.parametrize("compressed", [False, True])
def test_we_read_the_drivers(compressed: bool) -> None:
    for payload in [*PAYLOADS, b"big" * 200_000]:
        out = io.BytesIO()
        drivers_codec(compressed).encode(out, payload)
        segments, failure = SegmentDecoder(compressed).feed(out.getvalue())
        assert failure is None
        assert b"".join(data for data, _ in segments) == payload
        assert all(alone == (len(payload) <= MAX_PAYLOAD) for _, alone in segments)


def test_what_cannot_be_compressed_still_fits_a_segment() -> None:
    for size in (1, 100, MAX_COMPRESSIBLE, MAX_PAYLOAD):
        payload = os.urandom(size)
        data = encode_segment(payload, True, True)
        assert SegmentDecoder(True).feed(data) == ([(payload, True)], None)
        fields = int.from_bytes(data[:5], "little")
        assert fields >> 17 & MAX_PAYLOAD == (size if size <= MAX_COMPRESSIBLE else 0)


@given(st.lists(st.integers(1, 200_000), max_size=12), st.booleans())
def test_packing_fills_segments_and_splits_what_is_larger(sizes: list[int], compressed: bool) -> None:
    envelopes = [bytes([number]) * size for number, size in enumerate(sizes)]
    segments, failure = SegmentDecoder(compressed).feed(encode_segments(envelopes, compressed))
    assert failure is None
    assert b"".join(data for data, _ in segments) == b"".join(envelopes)
    assert all(0 < len(data) <= MAX_PAYLOAD for data, _ in segments)
    # Never two neighbours that would have fitted into one.
    limit = MAX_COMPRESSIBLE if compressed else MAX_PAYLOAD
    for (left, left_alone), (right, right_alone) in itertools.pairwise(segments):
        if left_alone and right_alone:
            first_of_right = next(e for e in envelopes if right.startswith(e))
            assert len(left) + len(first_of_right) > limit
