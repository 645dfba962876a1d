"""Tokens agree with the implementation that Cassandra's drivers use."""

import numpy as np
import pytest
from cassandra.metadata import Murmur3Token
from cassandra.murmur3 import murmur3 as murmur3_in_python
from hypothesis import given
from hypothesis import strategies as st

from belvedere.model.token import (
    MAX_TOKEN,
    MIN_TOKEN,
    token_of,
    tokens_of,
    tokens_of_fixed,
    tokens_of_offsets,
)

# Computed with Murmur3Token.hash_fn of cassandra-driver 3.30; they must never change.
KNOWN = {
    b"123": -7468325962851647638,
    b"\x00\xff\x10\xfa\x99" * 10: 5837342703291459765,
    b"\xfe" * 8: -8927430733708461935,
    b"\x10" * 8: 1446172840243228796,
    b"9223372036854775807": 7162290910810015547,
}


@pytest.mark.parametrize(("key", "token"), KNOWN.items())
def test_known_tokens(key: bytes, token: int) -> None:
    assert token_of(key) == token
    assert tokens_of([key]).tolist() == [token]


def random_keys(count: int) -> list[bytes]:
    """Keys of all lengths around the block size, with and without bytes that Java sees as negative."""
    generator = np.random.default_rng(7)
    keys = []
    for index in range(count):
        top = 256 if index % 3 else 128
        keys.append(generator.integers(0, top, 1 + index % 70, dtype=np.int64).astype(np.uint8).tobytes())
    return keys


def test_thousands_of_keys_as_the_driver_hashes_them() -> None:
    keys = random_keys(7000)
    expected = [Murmur3Token.hash_fn(key) for key in keys]
    assert [token_of(key) for key in keys] == expected
    assert tokens_of(keys).tolist() == expected


@pytest.mark.parametrize("width", [1, 2, 4, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 48, 63])
def test_keys_of_one_width(width: int) -> None:
    generator = np.random.default_rng(width)
    data = generator.bytes(width * 20_000)
    keys = [data[start : start + width] for start in range(0, len(data), width)]
    tokens = tokens_of_fixed(data, width)
    assert tokens.tolist() == [Murmur3Token.hash_fn(key) for key in keys]


@given(st.binary(min_size=1, max_size=100))
def test_any_key_agrees_with_the_pure_python_reference(key: bytes) -> None:
    assert token_of(key) == murmur3_in_python(key)


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_many_keys_equal_each_key_alone(keys: list[bytes]) -> None:
    expected = [token_of(key) for key in keys]
    assert tokens_of(keys).tolist() == expected
    offsets = np.cumsum([3, *map(len, keys)])
    assert tokens_of_offsets(offsets, b"gap" + b"".join(keys)).tolist() == expected


def test_the_empty_key_has_the_smallest_token() -> None:
    assert token_of(b"") == MIN_TOKEN
    assert tokens_of([b"", b"a"]).tolist() == [MIN_TOKEN, token_of(b"a")]


def test_no_key_has_the_smallest_token() -> None:
    """A hash of exactly -2^63 becomes 2^63 - 1: built backwards from the wanted hash."""
    key = _key_with_hash(MIN_TOKEN)
    assert murmur3_in_python(key) == MIN_TOKEN
    assert token_of(key) == MAX_TOKEN
    assert tokens_of([key]).tolist() == [MAX_TOKEN]


def _key_with_hash(wanted: int) -> bytes:
    """A 16-byte key with a given Murmur3 hash: every step of the hash can be undone."""
    mask = 2**64 - 1
    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
    f1, f2 = 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53

    def undo(factor: int, value: int) -> int:
        return value * pow(factor, -1, 2**64) & mask

    def rotate_right(value: int, bits: int) -> int:
        return (value >> bits | value << (64 - bits)) & mask

    def unmix(h: int) -> int:
        h = undo(f2, h ^ h >> 33)
        h = undo(f1, h ^ h >> 33)
        return h ^ h >> 33

    # After the last mixing h1 + h2 is the hash; any h2 will do.
    second = 12345
    first = (wanted - second) & mask
    h1, h2 = unmix(first), unmix(second)
    h2 = (h2 - h1) & mask
    h1 = (h1 - h2) & mask
    h1, h2 = h1 ^ 16, h2 ^ 16
    # One block: h1 = (rot27(k1') + 0) * 5 + n1, then h2 = (rot31(k2') + h1) * 5 + n2.
    mixed_k2 = rotate_right((undo(5, h2 - 0x38495AB5) - h1) & mask, 31)
    mixed_k1 = rotate_right(undo(5, h1 - 0x52DCE729), 27)
    k1 = undo(c1, rotate_right(undo(c2, mixed_k1), 31))
    k2 = undo(c2, rotate_right(undo(c1, mixed_k2), 33))
    return k1.to_bytes(8, "little") + k2.to_bytes(8, "little")
