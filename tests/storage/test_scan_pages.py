"""A page of a scan costs what is on it, not what its row group holds."""

import asyncio
import struct
from typing import Any

import pytest

from belvedere.model.rows import Row
from belvedere.model.token import token_of
from belvedere.storage import sstable_group
from belvedere.storage.cache import GroupCache
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.reads import MAX_TOKEN, MIN_TOKEN
from belvedere.storage.sstable_group import DecodedGroup
from belvedere.storage.sstable_write import build_sstable
from tests.storage.sstable_samples import MemoryRuntime, open_built
from tests.storage.storage_model import make_table

TABLE = make_table(clustering=False, sets=False)
ROWS = 10_000
PAGE = 50


def test_rows_are_made_for_a_page_and_not_for_the_whole_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sstable_group, "_ROWS_AT_A_TIME", PAGE)
    made: list[int] = []
    keyed_rows = DecodedGroup.keyed_rows

    def counted(self: DecodedGroup, low: int, high: int) -> Any:
        made.append(high - low)
        return keyed_rows(self, low, high)

    monkeypatch.setattr(DecodedGroup, "keyed_rows", counted)
    keys = [struct.pack(">i", number) for number in range(ROWS)]
    rows = [(b"", Row(1, 0, 0, True, None, [b"x", b"y", b"z"]))]
    source = [StoredPartition(token_of(key), key, rows=rows) for key in keys]
    source.sort(key=lambda p: (p.token, p.key))

    async def run() -> list[bytes]:
        cache: GroupCache[DecodedGroup] = GroupCache(1 << 30)
        runtime = MemoryRuntime()
        sstable = await open_built(build_sstable(TABLE, source), TABLE, cache, runtime, "one.parquet")
        found: list[bytes] = []
        position: Any = (MIN_TOKEN, b"")
        while position is not None:
            page, position = await sstable.batch(position, MAX_TOKEN, PAGE)
            found += [partition.key for partition in page]
        return found

    assert asyncio.run(run()) == [p.key for p in source]
    assert sum(made) <= 2 * ROWS
