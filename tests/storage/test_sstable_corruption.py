"""A damaged file is told by name; rows are never lost or changed silently, and nothing crashes."""

import asyncio
import random

import crc32c
import msgspec
import pytest

from belvedere.storage import sstable_write
from belvedere.storage.cache import GroupCache
from belvedere.storage.errors import StorageError
from belvedere.storage.sstable_format import BuiltSSTable, CorruptSSTable
from belvedere.storage.sstable_write import build_sstable
from tests.conftest import LONG
from tests.storage.sstable_samples import canonical, open_built, random_partitions, random_table, read_all


def built_sample(monkeypatch: pytest.MonkeyPatch) -> tuple[BuiltSSTable, object]:
    monkeypatch.setattr(sstable_write, "GROUP_ROWS", 32)
    rnd = random.Random(5)
    table = random_table(rnd, ["int", "text", "set<int>"])
    return build_sstable(table, random_partitions(rnd, table, 40, 5)), table


def outcome(built: BuiltSSTable, table: object) -> object:
    async def read() -> object:
        sstable = await open_built(built, table, GroupCache(10**6))  # type: ignore[arg-type]
        return [canonical(p) for p in await read_all(sstable)]

    try:
        return asyncio.run(read())
    except CorruptSSTable as error:
        return None if "a.parquet" in str(error) else error


def test_flipped_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    built, table = built_sample(monkeypatch)
    good = outcome(built, table)
    assert good
    rnd = random.Random(1)
    places = range(len(built.data)) if LONG else rnd.sample(range(len(built.data)), 300)
    detected = 0
    for place in places:
        data = bytearray(built.data)
        data[place] ^= 1 << rnd.randrange(8)
        found = outcome(BuiltSSTable(bytes(data), built.facts), table)
        assert found is None or (place < 4 and found == good)
        detected += found is None
    assert detected >= len(places) - 4


def test_cut_and_grown_files(monkeypatch: pytest.MonkeyPatch) -> None:
    built, table = built_sample(monkeypatch)
    for data in (built.data[:-1], built.data[:100], b"", built.data + b"x"):
        assert outcome(BuiltSSTable(data, built.facts), table) is None


def test_bytes_whose_checksum_was_made_to_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no Parquet at all is refused too."""
    built, table = built_sample(monkeypatch)
    rnd = random.Random(2)
    for _ in range(20):
        group = built.facts.groups[0]
        junk = rnd.randbytes(group.length)
        data = built.data[: group.offset] + junk + built.data[group.offset + group.length :]
        groups = (
            msgspec.structs.replace(group, crc32c=crc32c.crc32c(junk)),
            *built.facts.groups[1:],
        )
        facts = msgspec.structs.replace(built.facts, groups=groups)
        assert outcome(BuiltSSTable(data, facts), table) is None


def test_another_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    built, table = built_sample(monkeypatch)
    facts = msgspec.structs.replace(built.facts, format=99)
    assert outcome(BuiltSSTable(built.data, facts), table) is None


def test_a_damaged_file_is_a_failure_of_storage_for_those_who_catch_such() -> None:
    assert isinstance(CorruptSSTable("a.parquet", "damaged"), StorageError)
