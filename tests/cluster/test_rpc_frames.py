"""The codec of messages between nodes: however the bytes come, and whatever is wrong with them."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.cluster import rpc_frames as frames
from belvedere.cluster.rpc_frames import FrameDecoder, FrameTooLarge, Message, encode

texts = st.text(max_size=20)
numbers = st.integers(0, 2**63 - 1)
bodies = st.binary(max_size=300)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(frames.Hello, numbers, numbers, texts, texts, numbers, texts, numbers, numbers),
    st.builds(frames.Welcome, numbers, numbers),
    st.builds(frames.Farewell, texts, texts),
    st.builds(frames.Ask, numbers, texts, numbers, st.floats(allow_nan=False), bodies),
    st.builds(frames.Answer, numbers, numbers, bodies),
    st.builds(frames.Failure, numbers, numbers, texts, texts, st.booleans()),
    st.builds(frames.Cancel, numbers),
    st.builds(frames.Ping, st.booleans()),
)


def taken(decoder: FrameDecoder, *pieces: bytes) -> list[Message]:
    return [message for piece in pieces for message in decoder.feed(piece)]


@given(st.lists(messages, max_size=6))
def test_whole_and_byte_by_byte(sent: list[Message]) -> None:
    data = b"".join(map(encode, sent))
    assert taken(FrameDecoder(), data) == sent
    decoder = FrameDecoder()
    assert taken(decoder, *(data[at : at + 1] for at in range(len(data)))) == sent
    assert decoder.failure is None


@given(st.lists(messages, min_size=1, max_size=6), st.lists(st.integers(0, 2000), max_size=8))
def test_cut_anywhere(sent: list[Message], cuts: list[int]) -> None:
    data = b"".join(map(encode, sent))
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[one:other] for one, other in itertools.pairwise(bounds)]
    assert taken(FrameDecoder(), *pieces) == sent


@given(messages, messages, st.data())
def test_a_tail_waits_for_its_rest(first: Message, second: Message, data: st.DataObject) -> None:
    tail = encode(second)
    cut = data.draw(st.integers(0, len(tail) - 1))
    decoder = FrameDecoder()
    assert taken(decoder, encode(first) + tail[:cut]) == [first]
    assert decoder.failure is None
    assert taken(decoder, tail[cut:]) == [second]


def test_a_frame_beyond_the_cap_is_refused_by_its_header() -> None:
    decoder = FrameDecoder(limit=100)
    assert taken(decoder, encode(frames.Ping()), struct.pack(">II", 101, 0)) == [frames.Ping()]
    assert "101 bytes" in str(decoder.failure)
    assert taken(decoder, encode(frames.Ping())) == [], "nothing is read after that"


def test_the_cap_can_be_raised_between_frames() -> None:
    large = frames.Ask(1, "m", 2, 3.0, b"x" * 5000)
    decoder = FrameDecoder()
    assert taken(decoder, encode(frames.Ping())) == [frames.Ping()]
    decoder.limit = frames.MAX_FRAME
    assert taken(decoder, encode(large)) == [large]


def test_what_is_too_large_is_not_sent() -> None:
    with pytest.raises(FrameTooLarge):
        encode(frames.Answer(1, 1, bytes(frames.MAX_FRAME)))


@given(messages, st.data())
def test_a_damaged_frame_is_noticed(message: Message, data: st.DataObject) -> None:
    """One flipped bit, wherever it is: either nothing is taken for the message, or it still is incomplete."""
    whole = bytearray(encode(message))
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    whole[bit // 8] ^= 1 << bit % 8
    assert taken(FrameDecoder(), bytes(whole)) == []


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_are_survived(pieces: list[bytes]) -> None:
    decoder = FrameDecoder()
    taken(decoder, *pieces)
    if decoder.failure is not None:
        assert decoder.feed(encode(frames.Ping())) == ()


@pytest.mark.parametrize("payload", [b"", b"\x00", b"\x90", b"\x91\x63", b"\x92\x07\x01", b"\x91\x06\xff"])
def test_a_whole_frame_that_holds_no_message(payload: bytes) -> None:
    import crc32c

    decoder = FrameDecoder()
    assert taken(decoder, struct.pack(">II", len(payload), crc32c.crc32c(payload)) + payload) == []
    assert decoder.failure is not None


def test_fields_of_a_newer_version_are_skipped() -> None:
    import crc32c
    import msgspec

    payload = msgspec.msgpack.encode([6, 42, "something new"])
    data = struct.pack(">II", len(payload), crc32c.crc32c(payload)) + payload
    assert taken(FrameDecoder(), data) == [frames.Cancel(42)]
