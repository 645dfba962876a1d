"""Several readers of one row group that is not in the cache: one reads it for all."""

import asyncio
import struct

import pytest

from belvedere.model.rows import Row
from belvedere.model.token import token_of
from belvedere.runtime.errors import DiskBroken
from belvedere.sim.world import World
from belvedere.storage.cache import GroupCache
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.sstable_read import SSTable
from belvedere.storage.sstable_write import build_sstable
from tests.storage.engine_help import in_world
from tests.storage.storage_model import make_table

TABLE = make_table(clustering=False, sets=False)
KEYS = sorted((struct.pack(">i", number) for number in range(40)), key=token_of)


@pytest.mark.parametrize("first", ["finishes", "is cancelled", "fails"])
@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_readers_share_a_read(first: str, cache_bytes: int) -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            made = build_sstable(
                TABLE,
                [
                    StoredPartition(token_of(key), key, rows=[(b"", Row(1, 0, 0, True, None, [b"x"]))])
                    for key in KEYS
                ],
            )
            await runtime.disk.write("one.parquet", made.data)
            sstable = await SSTable.open(runtime, "one.parquet", made.facts, GroupCache(cache_bytes), TABLE)
            reads: list[int] = []
            read_group = sstable.read_group

            async def counted(number: int) -> bytes:
                reads.append(number)
                if first == "fails" and len(reads) == 1:
                    await runtime.clock.sleep(1)
                    raise DiskBroken("input/output error", sstable.path)
                return await read_group(number)

            sstable.read_group = counted  # type: ignore[method-assign]
            readers = [asyncio.ensure_future(sstable.partition(token_of(key), key)) for key in KEYS]
            while not reads:
                await runtime.clock.sleep(0)
            for _ in range(200):  # Until all have begun, in whatever order.
                await runtime.clock.sleep(0)
            if first == "is cancelled":
                for reader in readers[:20]:
                    reader.cancel()
            found = await asyncio.gather(*readers, return_exceptions=True)
            good = [one for one in found if isinstance(one, StoredPartition)]
            assert len(good) == {"finishes": 40, "is cancelled": 20, "fails": 39}[first]
            assert len(reads) <= 2
            assert not sstable._loading

        await runtime.perform(life())

    in_world(main)
