"""Bytes to envelopes, however the network cuts them, and streams that stop making sense."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.server import protocol as wire
from belvedere.server.envelope import EnvelopeDecoder, UnsupportedVersion
from belvedere.server.frames import crc24, encode_segment, encode_segments
from belvedere.server.protocol import envelope

LIMIT = 1 << 20
MESSAGES = [(0, 1, wire.OPTIONS, b""), (2, -3, wire.QUERY, b"q" * 1000), (0, 32767, wire.EXECUTE, b"e")]


def encoded(messages: list[tuple[int, int, int, bytes]], version: int) -> list[bytes]:
    return [envelope(version, stream, opcode, body, flags) for flags, stream, opcode, body in messages]


def fed(decoder: EnvelopeDecoder, data: bytes, step: int) -> list[tuple[int, int, int, bytes]]:
    return [found for at in range(0, len(data), step) for found in decoder.feed(data[at : at + step])]


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("step", [1, 2, 8, 9, 10, 1017, 100_000])
def test_whole_in_pieces_and_with_trailing_bytes(version: int, step: int) -> None:
    decoder = EnvelopeDecoder(LIMIT)
    data = b"".join(encoded(MESSAGES, version))
    assert fed(decoder, data, step) == MESSAGES
    assert (decoder.version, decoder.failure, decoder.buffered) == (version, None, 0)
    trailing = envelope(version, 5, wire.QUERY, b"12345")
    assert fed(decoder, data + trailing[:-1], step) == MESSAGES
    assert decoder.buffered == len(trailing) - 1
    assert decoder.feed(trailing[-1:]) == [(0, 5, wire.QUERY, b"12345")]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("step", [1, 7, 5000, 1_000_000])
def test_segments_carry_small_and_large_messages(compressed: bool, step: int) -> None:
    messages = [
        *MESSAGES,
        (0, 4, wire.QUERY, bytes(range(256)) * 1500),
        (0, 5, wire.QUERY, b"z" * 131_072),
        *MESSAGES,
        (0, 6, wire.QUERY, b"z" * (131_071 - 9)),
        (0, 7, wire.QUERY, b"z" * (131_071 - 8)),
    ]
    data = encode_segments(encoded(messages, 5), compressed)
    decoder = EnvelopeDecoder(LIMIT)
    decoder.use_segments(compressed)
    if step == 1:
        data = encode_segments(encoded(messages[:4], 5), compressed)
        messages = messages[:4]
    assert fed(decoder, data, step) == messages
    assert (decoder.failure, decoder.buffered) == (None, 0)


@given(
    st.lists(st.tuples(st.integers(0, 32767), st.binary(max_size=200)), max_size=8),
    st.lists(st.integers(1, 300), min_size=1, max_size=20),
    st.booleans(),
    st.booleans(),
)
def test_any_cut_gives_the_same(
    bodies: list[tuple[int, bytes]], cuts: list[int], segmented: bool, compressed: bool
) -> None:
    messages = [(0, stream, wire.QUERY, body) for stream, body in bodies]
    decoder = EnvelopeDecoder(LIMIT)
    data = b"".join(encoded(messages, 5))
    if segmented:
        decoder.use_segments(compressed)
        data = encode_segments(encoded(messages, 5), compressed)
    found, at = [], 0
    while at < len(data):
        step = cuts[at % len(cuts)]
        found += decoder.feed(data[at : at + step])
        at += step
    assert found == messages
    assert decoder.buffered == 0


def test_what_comes_after_startup_waits_until_its_framing_is_known() -> None:
    decoder = EnvelopeDecoder(LIMIT)
    startup = (0, 1, wire.STARTUP, b"\0\0")
    after = encode_segments(encoded(MESSAGES, 5), False)
    assert decoder.feed(envelope(5, 1, wire.STARTUP, b"\0\0") + after) == [startup]
    decoder.use_segments(False)
    assert decoder.feed(b"") == MESSAGES


def test_bytes_after_a_startup_that_changed_nothing_are_read_on() -> None:
    decoder = EnvelopeDecoder(LIMIT)
    data = envelope(4, 1, wire.STARTUP, b"\0\0") + b"".join(encoded(MESSAGES, 4))
    assert len(decoder.feed(data)) == 1
    assert decoder.feed(b"") == MESSAGES


FAILURES = [
    (envelope(66, 9, wire.OPTIONS, b""), 9, "unsupported protocol version (66); supported versions are"),
    (envelope(6, 9, wire.OPTIONS, b""), 9, "(6)"),
    (b"\x02\0\x07\x05\0\0\0\0", 7, "(2)"),
    (envelope(0, 9, wire.QUERY, b"x"), 0, "(0)"),
    (b"GET / HTTP/1.1\r\n", 0x5420, "(71)"),
    (envelope(0x84, 9, wire.OPTIONS, b""), 9, "direction"),
    (b"\x04\0\0\x09\x05\xff\xff\xff\xff", 9, "Invalid frame length -1"),
    (b"\x04\0\0\x09\x07\x00\x10\x00\x01", 9, "length 1048577 exceeds maximum allowed length 1048576"),
]


@pytest.mark.parametrize(("data", "stream", "message"), FAILURES)
def test_streams_that_make_no_sense_end(data: bytes, stream: int, message: str) -> None:
    for step in (1, 100):
        decoder = EnvelopeDecoder(LIMIT)
        assert fed(decoder, data, step) == []
        assert decoder.failure is not None
        assert message in decoder.failure.message
        assert decoder.failure.stream == stream
        assert decoder.feed(envelope(4, 1, wire.OPTIONS, b"")) == []
        assert decoder.buffered == 0


def test_requests_before_the_failure_are_still_read() -> None:
    decoder = EnvelopeDecoder(LIMIT)
    found = decoder.feed(b"".join(encoded(MESSAGES, 4)) + envelope(5, 1, wire.OPTIONS, b""))
    assert found == MESSAGES
    assert decoder.failure is not None
    assert "Got 5/v5 but previous messages on this connection had version 4/v4" in decoder.failure.message
    assert not isinstance(decoder.failure, UnsupportedVersion)


def whole(payload: bytes) -> bytes:
    return encode_segment(payload, True, False)


def part(payload: bytes) -> bytes:
    return encode_segment(payload, False, False)


BIG = envelope(5, 1, wire.QUERY, b"x" * 100)
SEGMENT_FAILURES = [
    (whole(BIG[:50]), "ends in the middle"),
    (part(BIG[:50]) + whole(BIG), "in the middle of a large message"),
    (part(BIG[:50]) + part(BIG), "longer than its header says"),
    (part(BIG[:50]) + part(BIG[50:] + b"!"), "longer than its header says"),
    (part(envelope(4, 1, wire.QUERY, b"x")[:9]) + part(envelope(5, 1, wire.QUERY, b"x")), "header says"),
    (part(b"\x05\0\0\x09\x07\x7f\xff\xff\xff"), "exceeds maximum"),
    (b"\0" + whole(BIG)[1:], "Corrupted frame header"),
    (whole(BIG)[:-1] + b"\0", "Corrupted frame payload"),
    (whole(BIG)[:20] + b"\0" + whole(BIG)[21:], "Corrupted frame payload"),
]


@pytest.mark.parametrize(("data", "message"), SEGMENT_FAILURES)
def test_segments_that_make_no_sense_end_the_stream(data: bytes, message: str) -> None:
    for step in (1, 1000):
        decoder = EnvelopeDecoder(LIMIT)
        decoder.use_segments(False)
        found = fed(decoder, data, step)
        assert decoder.failure is not None
        assert message in decoder.failure.message
        assert found in ([], [(0, 1, wire.QUERY, b"x")])
        assert decoder.buffered == 0


def test_a_compressed_segment_that_lies_about_its_size_ends_the_stream() -> None:
    honest = encode_segment(BIG, True, True)
    decoder = EnvelopeDecoder(LIMIT)
    decoder.use_segments(True)
    assert len(decoder.feed(honest)) == 1
    fields = int.from_bytes(honest[:5], "little")
    for wrong in (len(BIG) - 1, len(BIG) + 1, 131_071):
        header = (fields & ~(0x1FFFF << 17) | wrong << 17).to_bytes(5, "little")
        decoder = EnvelopeDecoder(LIMIT)
        decoder.use_segments(True)
        assert decoder.feed(header + crc24(header).to_bytes(3, "little") + honest[8:]) == []
        assert decoder.failure is not None
        assert "Cannot decompress" in decoder.failure.message
