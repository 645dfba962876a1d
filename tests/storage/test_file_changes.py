"""Changes of a tablet's files that fail half-way, or whose caller goes away in the middle."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from belvedere.model.mutations import Mutation
from belvedere.model.rows import Row
from belvedere.model.token import token_of
from belvedere.runtime.errors import DiskError
from belvedere.sim.world import World
from belvedere.storage.compaction import compact
from belvedere.storage.engine import StorageEngine
from belvedere.storage.errors import CommitRefused, Dropped
from belvedere.storage.reads import PartitionRead
from belvedere.storage.tablet import TabletStore
from tests.storage.engine_help import in_world, open_engine, small_options, store_for, tablets_of, write
from tests.storage.storage_model import make_table, wire_int

TABLE = make_table(clustering=False, sets=False)
NOW = 1_000_000
QUIET = {"compaction": False, "memtable_bytes": 1 << 30, "segment_bytes": 1 << 20}


def put(number: int, size: int = 1) -> Mutation:
    key = wire_int(number)
    row = Row(number + 1, 0, 0, True, None, [b"%d" % number, b"y", bytes(size)])
    return Mutation(TABLE.id, token_of(key), key, [(b"", row)])


async def has(store: TabletStore, number: int) -> bool:
    key = wire_int(number)
    return bool((await store.read(PartitionRead(token_of(key), key, row=b""), NOW)).rows)


async def open_one(runtime: Any, **changes: Any) -> tuple[StorageEngine, TabletStore]:
    engine = await open_engine(runtime, TABLE, 1, small_options(**{**QUIET, **changes}))
    return engine, engine.store(1)


async def names_in(runtime: Any, store: TabletStore) -> list[str]:
    return [name for name in await runtime.disk.list(store.directory) if name.startswith("sst-")]


async def fail(engine: StorageEngine, store: TabletStore, change: str) -> None:
    changes: dict[str, Callable[[], Awaitable[object]]] = {
        "flush": lambda: engine.flush([store]),
        "truncate": lambda: engine.truncate(store),
        "snapshot": store.snapshot,
    }
    with pytest.raises((DiskError, CommitRefused)):
        await changes[change]()


@pytest.mark.parametrize("change", ["flush", "truncate", "snapshot"])
def test_writes_go_on_after_changes_that_failed(change: str) -> None:
    """What they set aside is flushed all the same, or it would fill the memory for writes for ever."""

    async def main(world: World) -> None:
        runtime = world.boot("node")
        faults = world.disk("node").faults

        async def life() -> None:
            engine, store = await open_one(runtime, memtable_bytes=40_000)
            number = 0
            faults.full = True
            for most in (32_000, 64_000):
                while engine._memory.used < most:
                    await write(engine, put(number))
                    number += 1
                await fail(engine, store, change)
            faults.full = False
            for more in range(number, number + 300):
                await asyncio.wait_for(write(engine, put(more)), 100)
            assert await has(store, 0)
            assert await has(store, number)

        await runtime.perform(life())

    in_world(main)


@pytest.mark.parametrize("change", ["flush", "truncate", "snapshot"])
def test_a_failed_change_of_a_quiet_tablet_does_not_hold_the_log_back(change: str) -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine = await open_engine(runtime, TABLE, tablets=4)
            await write(engine, put(0))
            home = store_for(engine, put(0).token)
            world.disk("node").faults.full = True
            await fail(engine, home, change)
            world.disk("node").faults.full = False
            for number in range(1, 1500):
                if store_for(engine, put(number).token) is not home:
                    await write(engine, put(number, 200))
            await runtime.clock.sleep(5)
            assert home.statistics()["flushes"] == 1
            assert engine.log.statistics()["segments"] <= 5

        await runtime.perform(life())

    in_world(main)


@pytest.mark.parametrize("change", ["flush", "compact", "truncate", "save_version"])
def test_a_change_goes_on_when_its_caller_goes_away(change: str) -> None:
    """A disk operation cannot be called back: the next change must not begin in the middle of it."""

    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, store = await open_one(runtime)
            for number in range(4):
                await write(engine, put(number))
                if number < 3:
                    await store.flush()
            hold = world.arm("manifest.rename")
            work: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
                "flush": store.flush,
                "compact": lambda: engine.compact(store),
                "truncate": store.truncate,
                "save_version": store.save_version,
            }
            changing = asyncio.ensure_future(work[change]())
            await hold.reached()
            changing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await changing
            assert store._changing.locked()
            await write(engine, put(4))
            behind = asyncio.ensure_future(store.flush())
            await runtime.clock.sleep(1)
            assert not behind.done()
            hold.release()
            await behind
            expected = [change != "truncate"] * 4 + [True]
            assert [await has(store, number) for number in range(5)] == expected
            assert store.frozen_count == 0
            await store.removals()
            wanted = {file.path.rsplit("/", 1)[1].split(".")[0] for file in store._files.live}
            assert {name.split(".")[0] for name in await names_in(runtime, store)} == wanted

        await runtime.perform(life())

    in_world(main, buggify=False)


def test_a_compaction_cancelled_anywhere_leaves_a_whole_tablet_and_no_files() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, store = await open_one(runtime)
            for number in range(12):
                await write(engine, put(number))
                await store.flush()
                compacting = asyncio.ensure_future(engine.compact(store))
                await runtime.clock.sleep(runtime.random.random() * 0.03)
                compacting.cancel()
                await asyncio.wait([compacting])
            await store.flush()
            await engine.compact(store)
            await store.removals()
            await runtime.clock.sleep(1)
            assert all([await has(store, number) for number in range(12)])
            assert len(await names_in(runtime, store)) == 2

        await runtime.perform(life())

    for seed in range(10):
        in_world(main, seed)


def test_a_compaction_that_fails_at_a_later_output_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "belvedere.storage.tablet_compaction.compact", functools.partial(compact, max_output=1)
    )
    monkeypatch.setattr("belvedere.storage.sstable_write.GROUP_ROWS", 8)
    monkeypatch.setattr("belvedere.storage.compaction._WINDOW_GROUPS", 1)

    async def main(world: World) -> None:
        runtime = world.boot("node")
        faults = world.disk("node").faults

        async def life() -> None:
            engine, store = await open_one(runtime)
            for part in range(3):
                for number in range(40):
                    await write(engine, put(100 * part + number))
                await store.flush()
            before = await names_in(runtime, store)
            faults.capacity = world.disk("node").files.used_bytes() + 12_000
            with pytest.raises(DiskError):
                await engine.compact(store)
            await store.removals()
            await runtime.clock.sleep(1)
            assert await names_in(runtime, store) == before
            faults.capacity = None
            await engine.compact(store)
            assert len(store._files.live) > 1

        await runtime.perform(life())

    in_world(main)


def test_a_snapshot_of_a_table_that_is_dropped_meanwhile_is_refused() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, store = await open_one(runtime)
            await write(engine, put(1))
            hold = world.arm("manifest.rename")
            asked = asyncio.ensure_future(store.snapshot())
            await hold.reached()
            dropping = asyncio.ensure_future(engine.align({}, {}))
            await runtime.clock.sleep(0.1)
            hold.release()
            await dropping
            with pytest.raises(Dropped):
                await asked

        await runtime.perform(life())

    in_world(main)


def test_a_drop_goes_on_when_its_caller_goes_away() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, store = await open_one(runtime)
            await write(engine, put(1))
            hold = world.arm("manifest.rename")
            flushing = asyncio.ensure_future(store.flush())
            await hold.reached()
            dropping = asyncio.ensure_future(engine.align({}, {}))
            await runtime.clock.sleep(0.1)
            dropping.cancel()
            await asyncio.wait([dropping])
            hold.release()
            await flushing
            await runtime.clock.sleep(5)
            assert not await runtime.disk.exists(store.directory)
            assert engine._memory.used == engine._memory.frozen == 0
            await engine.align({TABLE.id: TABLE}, {TABLE.id: tablets_of(TABLE, 1, first_id=2)})

        await runtime.perform(life())

    in_world(main, buggify=False)


def test_a_definition_that_had_to_wait_does_not_replace_a_newer_one() -> None:
    newer = replace(TABLE, options={"gc_grace_seconds": 1})

    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, _ = await open_one(runtime)
            async with engine._aligning:
                older = asyncio.ensure_future(
                    engine.align({TABLE.id: TABLE}, {TABLE.id: tablets_of(TABLE, 2)})
                )
                await runtime.clock.sleep(0.1)
                engine.use_tables({TABLE.id: newer})
            await older
            assert [one.table for one in engine.stores.values()] == [newer, newer]

        await runtime.perform(life())

    in_world(main)


def test_closing_does_not_wait_for_a_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")
        begun: asyncio.Future[None] = world.loop.create_future()

        async def endless(*_: object, **__: object) -> list[Any]:
            begun.set_result(None)
            await runtime.clock.sleep(1e6)
            return []

        monkeypatch.setattr("belvedere.storage.tablet_compaction.compact", endless)

        async def life() -> None:
            engine, store = await open_one(runtime, compaction=True)
            for number in range(4):
                await write(engine, put(number))
                await store.flush()
            engine._background.consider_compaction(store)
            await begun
            await asyncio.wait_for(engine.close(), 10)
            assert len(await names_in(runtime, store)) == 8

        await runtime.perform(life())

    in_world(main)
