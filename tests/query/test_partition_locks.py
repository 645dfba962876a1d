"""Partition locks: who waits gets a turn, and who gives up takes nothing along."""

import asyncio

import pytest

from belvedere.query.partition_locks import PartitionLocks
from tests.query.database_help import Client, with_database

TABLE = b"t" * 16


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_waiter_cancelled_in_the_step_of_the_release() -> None:
    async def go() -> None:
        locks = PartitionLocks()

        async def wait() -> None:
            async with locks.hold([(TABLE, b"k")]):
                pass

        async with locks.hold([(TABLE, b"k")]):
            waiter = asyncio.ensure_future(wait())
            await settle()
            waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert not locks.held

    asyncio.run(go())


def test_a_waiter_cancelled_when_it_was_handed_the_lock() -> None:
    async def go() -> None:
        locks = PartitionLocks()

        async def wait() -> None:
            async with locks.hold([(TABLE, b"k")]):
                pass

        async with locks.hold([(TABLE, b"k")]):
            first, second = (asyncio.ensure_future(wait()) for _ in range(2))
            await settle()
        first.cancel()
        await asyncio.wait([first, second])
        assert first.cancelled()
        assert not second.cancelled()
        assert not locks.held

    asyncio.run(go())


@pytest.mark.parametrize("seed", range(5))
def test_a_plain_write_among_endless_holders(seed: int) -> None:
    """It gets its turn, however many others queue up behind it."""

    async def use(client: Client) -> None:
        await client.run("CREATE TABLE t (k int PRIMARY KEY, v int)")
        access, table = client.database.access, client.database.schema.table("ks", "t")
        key = (1).to_bytes(4, "big")
        turns = 0
        done = False

        async def insist() -> None:
            nonlocal turns
            while not done:
                async with access.lock([(table, key)]):
                    turns += 1
                    assert turns < 100
                    await client.runtime.clock.sleep(0.001)

        others = [asyncio.ensure_future(insist()) for _ in range(4)]
        await client.runtime.clock.sleep(0.01)
        try:
            await client.run("INSERT INTO t (k, v) VALUES (1, 7)")
        finally:
            done = True
            await asyncio.gather(*others)
        assert await client.rows("SELECT v FROM t") == [(7,)]

    with_database(use, seed)
