"""One tablet: changes of its files, readers meanwhile, snapshots, truncation, damage, old definitions."""

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from belvedere.model.mutations import Mutation
from belvedere.model.rows import Row
from belvedere.model.schema import Table
from belvedere.model.token import token_of
from belvedere.runtime.errors import DiskError
from belvedere.sim.world import World
from belvedere.storage.engine import StorageEngine
from belvedere.storage.errors import CommitRefused, CommitUnknown, TabletCorrupt
from belvedere.storage.reads import KeySlice, PartitionRead, PartitionRows, RangeRead
from belvedere.storage.sstable_format import CorruptSSTable
from belvedere.storage.tablet import TabletStore
from tests.storage.engine_help import in_world, open_engine, small_options, write
from tests.storage.storage_model import clustering_key, make_table, wire_int

NOW = 1_000_000
PLAIN = make_table(clustering=False, sets=False)
WIDE = make_table(statics=False, sets=False)
QUIET = {"compaction": False, "memtable_bytes": 1 << 30, "segment_bytes": 1 << 20}


def put(number: int, value: bytes = b"v", timestamp: int = 1, **row: Any) -> Mutation:
    key = wire_int(number)
    cells = [value, b"y", b"z"]
    return Mutation(PLAIN.id, token_of(key), key, [(b"", Row(timestamp, 0, 0, True, None, cells))], **row)


def remove(number: int, timestamp: int) -> Mutation:
    key = wire_int(number)
    return Mutation(PLAIN.id, token_of(key), key, [], deletion=(timestamp, NOW))


async def get(store: TabletStore, number: int) -> bytes | None:
    key = wire_int(number)
    found = await store.read(PartitionRead(token_of(key), key, row=b""), NOW)
    return found.rows[0][1].cells[0] if found.rows else None  # type: ignore[return-value]


async def open_one(runtime: Any, table: Table = PLAIN, **changes: Any) -> tuple[StorageEngine, TabletStore]:
    engine = await open_engine(runtime, table, 1, small_options(**{**QUIET, **changes}))
    return engine, engine.store(1)


async def create(runtime: Any) -> None:
    engine, _ = await open_one(runtime)
    await engine.close()


async def files_in(runtime: Any, store: TabletStore) -> list[str]:
    return [name for name in await runtime.disk.list(store.directory) if name.endswith(".parquet")]


def test_newer_values_and_deletions_win_wherever_they_are() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, store = await open_one(runtime)
            await write(engine, put(1, b"old", 10))
            await write(engine, put(2, b"old", 10))
            await write(engine, put(3, b"new", 30))
            await store.flush()
            await write(engine, put(1, b"new", 20))
            await write(engine, remove(2, 20))
            await write(engine, put(3, b"older", 20))
            for _ in range(2):
                assert [await get(store, n) for n in (1, 2, 3, 4)] == [b"new", None, b"new", None]
                await store.flush()
            assert len(await files_in(runtime, store)) == 2
            assert await engine.compact(store)
            await store.removals()
            assert len(await files_in(runtime, store)) == 1
            assert [await get(store, n) for n in (1, 2, 3, 4)] == [b"new", None, b"new", None]

        await runtime.perform(life())

    in_world(main)


def test_a_whole_newer_row_in_memory_needs_no_file() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, store = await open_one(runtime, cache_bytes=0)
            await write(engine, put(1, b"old", 10))
            await store.flush()
            read = PartitionRead(token_of(wire_int(1)), wire_int(1), row=b"")
            assert store.read_now(read, NOW) is None
            await write(engine, put(1, b"new", 20))
            found = store.read_now(read, NOW)
            assert found is not None
            assert found.rows[0][1].cells[0] == b"new"
            # Not so if the memtable's row is not the newest, or lacks a column.
            await store.flush()
            await write(engine, put(1, b"older", 15))
            assert store.read_now(read, NOW) is None
            part = Row(50, 0, 0, True, None, [b"part"])
            await write(engine, Mutation(PLAIN.id, read.token, read.key, [(b"", part)]))
            assert store.read_now(read, NOW) is None
            found = await store.read(read, NOW)
            assert [found.rows[0][1].cells[0], found.rows[0][1].cells[1]] == [b"part", (b"y", 20, 0, 0)]

        await runtime.perform(life())

    in_world(main)


def test_truncation_removes_what_was_written_before_and_a_crash_keeps_it_removed() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, store = await open_one(runtime)
            await write(engine, put(1))
            await store.flush()
            await write(engine, put(2))
            store.freeze()
            await write(engine, put(3))
            truncating = asyncio.ensure_future(engine.truncate(store))
            while not store.frozen_count > 1:
                await runtime.clock.sleep(0)
            await write(engine, put(4))
            await truncating
            assert [await get(store, n) for n in (1, 2, 3, 4)] == [None, None, None, b"v"]
            await store.removals()
            assert await files_in(runtime, store) == []
            assert engine.statistics()["memtable_bytes"] == store.statistics()["memtable_bytes"]

        await runtime.perform(life())
        world.crash("node")
        runtime = world.boot("node")

        async def again() -> None:
            _, store = await open_one(runtime)
            assert [await get(store, n) for n in (1, 2, 3, 4)] == [None, None, None, b"v"]

        await runtime.perform(again())

    in_world(main, policy="fifo", buggify=False)


def test_a_snapshot_keeps_its_files_through_compaction_and_truncation() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, store = await open_one(runtime)
            await write(engine, put(1))
            await store.flush()
            await write(engine, put(2))
            snapshot = await store.snapshot()
            assert snapshot.version == store.last_version
            assert sum(facts.rows for _, facts in snapshot.files) == 2
            await engine.compact(store)
            await engine.truncate(store)
            await store.removals()
            for path, facts in snapshot.files:
                assert await runtime.disk.size(path) == facts.size
            snapshot.release()
            snapshot.release()
            await store.removals()
            assert await files_in(runtime, store) == []

        await runtime.perform(life())

    in_world(main)


def test_readers_and_scans_run_through_flush_and_compaction() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, store = await open_one(runtime, cache_bytes=0)
            for number in range(60):
                await write(engine, put(number, b"%d" % number))
                if number % 15 == 14:
                    await store.flush()
            stop = [False]
            rounds = [0]

            async def reader() -> None:
                while not stop[0]:
                    number = runtime.random.randint(0, 59)
                    assert await get(store, number) == b"%d" % number
                    rounds[0] += 1

            async def scanner() -> None:
                while not stop[0]:
                    found: list[PartitionRows] = []
                    start = RangeRead().start
                    while True:
                        page = await store.scan(RangeRead(start, limit=7), NOW)
                        found += page.partitions
                        if page.next is None:
                            break
                        start = page.next
                    assert len({partition.key for partition in found}) == len(found) == 60
                    rounds[0] += 1

            tasks = [runtime.spawn("reader", reader()), runtime.spawn("scanner", scanner())]
            for turn in range(6):
                for number in range(10):
                    await write(engine, put(number * turn, b"%d" % (number * turn), 2 + turn))
                await store.flush()
                await engine.compact(store)
            stop[0] = True
            for task in tasks:
                await task.wait()
            assert rounds[0] > 10

        await runtime.perform(life())

    for seed in range(4):
        in_world(main, seed)


def test_partitions_larger_than_a_row_group_are_read_in_pieces() -> None:
    rows = 9000

    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, store = await open_one(runtime, WIDE, cache_bytes=64 << 20, segment_bytes=4 << 20)
            key = wire_int(7)
            token = token_of(key)
            keys = [clustering_key(WIDE, number) for number in range(rows)]
            for part in (keys[::2], keys[1::2]):
                live = [(ck, Row(1, 0, 0, True, None, [ck, None, b"z"])) for ck in part]
                await write(engine, Mutation(WIDE.id, token, key, live))
                for number in (6, 8):
                    other = wire_int(number)
                    await write(engine, Mutation(WIDE.id, token_of(other), other, live[:3]))
                await store.flush()
            dead = [(ck, Row(5, 0, 0, False, (5, NOW), [])) for ck in keys[100:140]]
            await write(engine, Mutation(WIDE.id, token, key, dead))
            left = keys[:100] + keys[140:]
            for _ in range(2):
                found = await store.read(PartitionRead(token, key, limit=105), NOW)
                assert ([ck for ck, _ in found.rows], found.more) == (left[:105], True)
                found = await store.read(PartitionRead(token, key, reverse=True, limit=5000), NOW)
                assert [ck for ck, _ in found.rows] == left[::-1][:5000]
                found = await store.read(PartitionRead(token, key, (KeySlice(keys[8990]),)), NOW)
                assert ([ck for ck, _ in found.rows], found.more) == (keys[8990:], False)
                assert await scan_pages(store, 1000) == sorted(
                    [(token, key, ck) for ck in left]
                    + [(token_of(wire_int(n)), wire_int(n), ck) for n in (6, 8) for ck in keys[:6]]
                )
                await engine.compact(store)

        await runtime.perform(life())

    in_world(main)


async def scan_pages(store: TabletStore, limit: int) -> list[tuple[int, bytes, bytes]]:
    """Every row, page by page, going on inside partitions."""
    found: list[tuple[int, bytes, bytes]] = []
    read = RangeRead(limit=limit)
    while True:
        page = await store.scan(read, NOW)
        assert sum(len(partition.rows) for partition in page.partitions) <= limit
        found += [(p.token, p.key, ck) for p in page.partitions for ck, _ in p.rows]
        if page.next is None:
            return found
        last = page.partitions[-1]
        resume = (KeySlice(last.rows[-1][0] + b"\0"),) if last.more else None
        read = RangeRead(page.next, limit=limit, first_slices=resume)


def test_columns_may_come_and_go() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, store = await open_one(runtime)
            await write(engine, put(1))
            await store.flush()
            await write(engine, put(2))
            new = replace(PLAIN.columns[1], name="w", position=3)
            without = tuple(column for column in PLAIN.columns if column.name != "y")
            table = replace(PLAIN, columns=(*without, new), regular_ordinals=4)
            maps = {PLAIN.id: _Map(store)}
            await engine.align({PLAIN.id: table}, maps)
            assert engine.store(1) is store
            only_dropped = Mutation(
                PLAIN.id, token_of(wire_int(3)), wire_int(3), [(b"", Row(1, 0, 0, False, None, [None, b"y"]))]
            )
            await write(engine, only_dropped)
            for _ in range(3):
                for number, expected in ((1, [b"v", None, b"z"]), (2, [b"v", None, b"z"]), (3, None)):
                    key = wire_int(number)
                    found = await store.read(PartitionRead(token_of(key), key, row=b""), NOW)
                    cells = [row.cells[:3] for _, row in found.rows]
                    assert cells == ([] if expected is None else [expected])
                page = await store.scan(RangeRead(), NOW)
                assert len(page.partitions) == 2
                await store.flush()
                await engine.compact(store)
            row = Row(9, 0, 0, True, None, [b"v", None, b"z", b"w"])
            await write(engine, Mutation(PLAIN.id, token_of(wire_int(1)), wire_int(1), [(b"", row)]))
            await store.flush()
            found = await store.read(PartitionRead(token_of(wire_int(1)), wire_int(1), row=b""), NOW)
            assert found.rows[0][1].cells == [b"v", None, b"z", b"w"]

        await runtime.perform(life())

    in_world(main)


class _Map:
    def __init__(self, store: TabletStore) -> None:
        self.tablets = (_Info(store),)


class _Info:
    def __init__(self, store: TabletStore) -> None:
        self.id, self.table, self.epoch = store.id, store.table.id, store.epoch
        self.first_token, self.last_token = store.first_token, store.last_token


# ---------------------------------------------------------------------------- failures of changes


def test_a_refused_flush_leaves_everything_readable_and_nothing_behind() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, store = await open_one(runtime)
            await write(engine, put(1))
            world.disk("node").faults.full = True
            with pytest.raises((DiskError, CommitRefused)):
                await store.flush()
            assert await get(store, 1) == b"v"
            assert await files_in(runtime, store) == []
            world.disk("node").faults.full = False
            await store.flush()
            assert len(await files_in(runtime, store)) == 1
            assert await get(store, 1) == b"v"
            assert store.frozen_count == 0

        await runtime.perform(life())

    in_world(main)


def test_an_unknown_commit_deletes_nothing_and_the_next_settles_it() -> None:
    """The manifest is renamed, but the directory's sync fails: either manifest may survive a crash."""

    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, store = await open_one(runtime)
            for number in range(4):
                await write(engine, put(number, b"%d" % number))
                await store.flush()
            hold = world.arm("manifest.rename")
            compacting = asyncio.ensure_future(engine.compact(store))
            await hold.reached()
            world.disk("node").faults.broken_syncs = 1.0
            hold.release()
            with pytest.raises(CommitUnknown):
                await compacting
            world.disk("node").faults.broken_syncs = 0.0
            assert len(await files_in(runtime, store)) == 5
            assert [await get(store, number) for number in range(4)] == [b"0", b"1", b"2", b"3"]

        await runtime.perform(life())
        world.crash("node")
        runtime = world.boot("node")

        async def again() -> None:
            engine, store = await open_one(runtime)
            assert [await get(store, number) for number in range(4)] == [b"0", b"1", b"2", b"3"]
            assert len(await files_in(runtime, store)) in (1, 4)
            await engine.compact(store)
            assert [await get(store, number) for number in range(4)] == [b"0", b"1", b"2", b"3"]

        await runtime.perform(again())

    for seed in range(8):
        in_world(main, seed)


def test_a_manifest_that_was_only_renamed_is_made_durable_before_it_is_trusted() -> None:
    """A process dies between rename and sync of the directory; the next finds the new manifest, lets go of
    log and old files, and then the power fails."""

    async def main(world: World) -> None:
        runtime = world.boot("node")
        faults = world.disk("node").faults

        async def life() -> None:
            engine, store = await open_one(runtime)
            for number in range(3):
                await write(engine, put(number))
                await store.flush()
            await write(engine, put(3))
            hold = world.arm("manifest.rename")
            if world.seed % 2:
                changing = asyncio.ensure_future(engine.compact(store))
            else:
                changing = asyncio.ensure_future(store.flush())  # type: ignore[arg-type]
            await hold.reached()
            faults.broken_syncs = 1.0
            hold.release()
            with pytest.raises(CommitUnknown):
                await changing

        await runtime.perform(life())
        faults.broken_syncs = 0.0
        world.crash("node", lose_unsynced=False)
        runtime = world.boot("node")

        async def second() -> None:
            engine, store = await open_one(runtime)
            assert [await get(store, number) for number in range(4)] == [b"v"] * 4
            # Everything is in files: the log has nothing that is needed.
            engine._retire_log()
            await runtime.clock.sleep(1)

        await runtime.perform(second())
        world.crash("node", lose_unsynced=True)
        runtime = world.boot("node")

        async def third() -> None:
            _, store = await open_one(runtime)
            assert [await get(store, number) for number in range(4)] == [b"v"] * 4

        await runtime.perform(third())

    for seed in range(12):
        in_world(main, seed)


def test_a_truncation_overtakes_a_running_compaction() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, store = await open_one(runtime)
            for number in range(3):
                await write(engine, put(number))
                await store.flush()
            compacting = asyncio.ensure_future(engine.compact(store))
            await runtime.clock.sleep(runtime.random.random() * 0.01)
            await engine.truncate(store)
            await compacting
            assert [await get(store, number) for number in range(3)] == [None, None, None]
            await store.removals()
            assert await files_in(runtime, store) == []

        await runtime.perform(life())

    for seed in range(10):
        in_world(main, seed)


def test_files_of_unfinished_changes_are_removed_at_the_next_open() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")
        await runtime.perform(create(runtime))
        hold = world.arm("manifest.rename")

        async def life() -> None:
            engine, store = await open_one(runtime)
            await write(engine, put(1))
            flushing = asyncio.ensure_future(store.flush())
            await hold.reached()
            assert len(await files_in(runtime, store)) == 1
            assert not flushing.done()

        await runtime.perform(life())
        world.crash("node", lose_unsynced=False)
        hold.release()
        runtime = world.boot("node")

        async def again() -> None:
            engine, store = await open_one(runtime)
            assert await files_in(runtime, store) == []
            assert await get(store, 1) == b"v"
            await engine.flush()
            assert await get(store, 1) == b"v"

        await runtime.perform(again())

    in_world(main)


@pytest.mark.parametrize(
    ("victim", "damage"),
    [("manifest.json", "flip"), ("manifest.json", "remove"), ("sst-00000001.parquet", "remove")],
)
def test_damage_is_refused_with_the_path(victim: str, damage: str) -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")
        directory: list[str] = []

        async def life() -> None:
            engine, store = await open_one(runtime)
            await write(engine, put(1))
            await store.flush()
            directory.append(store.directory)

        await runtime.perform(life())
        world.crash("node")
        runtime = world.boot("node")
        path = f"{directory[0]}/{victim}"
        if damage == "flip":
            world.disk("node").corrupt(path, 60, b"~")
        else:
            await runtime.perform(runtime.disk.remove(path))
        with pytest.raises((TabletCorrupt, CorruptSSTable, DiskError), match=victim):
            await runtime.perform(open_one(runtime))

    in_world(main)


def test_a_damaged_row_group_is_an_error_and_not_a_missing_row() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, store = await open_one(runtime, cache_bytes=0)
            for number in range(50):
                await write(engine, put(number))
            await store.flush()
            path = f"{store.directory}/sst-00000001.parquet"
            assert await get(store, 5) == b"v"
            world.disk("node").corrupt(path, 200, b"\x55\xaa\x55")
            with pytest.raises(CorruptSSTable, match="sst-00000001"):
                await get(store, 5)
            # The node goes on: other data is served.
            await write(engine, put(99))
            assert await get(store, 99) == b"v"

        await runtime.perform(life())

    in_world(main)


def test_tombstones_are_purged_only_when_nothing_older_is_left() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, store = await open_one(runtime)
            seconds = runtime.clock.wall_micros() // 1_000_000
            grace = PLAIN.gc_grace_seconds
            key = wire_int(1)

            def deletion(age: int) -> Mutation:
                return Mutation(PLAIN.id, token_of(key), key, [], deletion=(100, seconds - age))

            await write(engine, put(2, b"v", 500))
            await write(engine, deletion(grace + 60))
            await store.flush()
            # Older data in the memtable keeps the tombstone.
            await write(engine, put(1, b"old", 50))
            await engine.compact(store)
            assert await get(store, 1) is None
            assert store.statistics()["file_rows"] == 2
            await store.flush()
            await engine.compact(store)
            assert await get(store, 1) is None
            assert store.statistics()["file_rows"] == 1
            # Young tombstones stay.
            await write(engine, deletion(grace - 600))
            await store.flush()
            await engine.compact(store)
            assert store.statistics()["file_rows"] == 2

        await runtime.perform(life())

    in_world(main)


def test_files_of_expired_rows_go() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine, store = await open_one(runtime)
            grace = store.table.gc_grace_seconds
            for number in range(20):
                mutation = put(number)
                row = replace_stamp(mutation.rows[0][1], ttl=100, expiry=NOW + 100 + number)
                await write(engine, Mutation(PLAIN.id, mutation.token, mutation.key, [(b"", row)]))
            await store.flush()
            last = NOW + 120 + grace
            assert not store.wants_compaction(NOW + 100)
            assert not store.wants_compaction(last - 10)
            assert store.wants_compaction(last)
            assert await store.compact(last)
            await store.removals()
            assert await files_in(runtime, store) == []

        await runtime.perform(life())

    in_world(main)


def replace_stamp(row: Row, ttl: int, expiry: int) -> Row:
    return Row(row.timestamp, ttl, expiry, row.live, row.deletion, row.cells)


def test_compaction_keeps_up_by_itself() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            options = {"memtable_bytes": 20_000, "segment_bytes": 16 << 10, "compaction": True}
            engine, store = await open_one(runtime, **options)
            generator = random.Random(3)
            expected: dict[int, bytes] = {}
            for turn in range(800):
                number = generator.randint(0, 150)
                expected[number] = b"%d" % turn
                await write(engine, put(number, expected[number], turn))
            await runtime.clock.sleep(5)
            assert store.statistics()["compactions"] > 0
            assert store.statistics()["files"] < 8
            for number, value in expected.items():
                assert await get(store, number) == value

        await runtime.perform(life())

    in_world(main)
