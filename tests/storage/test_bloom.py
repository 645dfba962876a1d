"""The filters that pyarrow writes are read as Parquet's specification says."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from belvedere.storage.bloom import BloomFilter, probe_of, probe_of_hash


def written(tokens: list[int], ndv: int, fpp: float = 0.05) -> tuple[BloomFilter, bytes]:
    sink = pa.BufferOutputStream()
    table = pa.table({"_token": pa.array(tokens, pa.int64())})
    pq.write_table(table, sink, bloom_filter_options={"_token": {"ndv": ndv, "fpp": fpp}})
    data = sink.getvalue().to_pybytes()
    column = pq.read_metadata(pa.BufferReader(data)).row_group(0).column(0)
    start = column.bloom_filter_offset
    stored = data[start : start + column.bloom_filter_length]
    return BloomFilter.from_parquet(stored), stored[-BloomFilter.from_parquet(stored).nbytes :]


def bits_by_specification(tokens: list[int], size: int) -> bytes:
    blocks = [0] * (size // 32)
    for token in tokens:
        high, mask = probe_of(token)
        blocks[(high * len(blocks)) >> 32] |= mask
    return b"".join(block.to_bytes(32, "little") for block in blocks)


@pytest.mark.parametrize("count", [1, 7, 100, 4096])
def test_every_bit_is_as_specified(count: int) -> None:
    rnd = random.Random(count)
    tokens = [rnd.randint(-(2**63), 2**63 - 1) for _ in range(count)] + [-(2**63), 2**63 - 1, 0, -1]
    found, bits = written(tokens, len(tokens))
    assert bits_by_specification(tokens, len(bits)) == bits
    assert all(found.might_contain(probe_of(token)) for token in tokens)


def test_few_tokens_that_are_not_there_pass() -> None:
    rnd = random.Random(1)
    found, _ = written([rnd.randint(-(2**63), 2**63 - 1) for _ in range(4096)], 4096)
    passed = sum(found.might_contain(probe_of(rnd.randint(-(2**63), 2**63 - 1))) for _ in range(10_000))
    assert passed < 500


def test_one_bit_in_each_word() -> None:
    for digest in (0, 1, 2**64 - 1, 0x0123456789ABCDEF):
        _, mask = probe_of_hash(digest)
        words = [(mask >> (32 * index)) & 0xFFFFFFFF for index in range(8)]
        assert [word.bit_count() for word in words] == [1] * 8


@pytest.mark.parametrize(
    "stored", [b"\x15\x00\x00", b"\x16" + bytes(40), b"\x15\x40\x1c\x1d\x00\x00" + bytes(60)]
)
def test_other_bytes_are_refused(stored: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        BloomFilter.from_parquet(stored)
