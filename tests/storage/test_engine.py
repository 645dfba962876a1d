"""The storage engine in simulation: the model test, crashes, full and broken disks, bounds."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.model.mutations import Mutation
from belvedere.model.rows import Row
from belvedere.model.schema import Table
from belvedere.model.token import token_of
from belvedere.runtime.errors import AlreadyLocked
from belvedere.sim.incarnation import MachineCrashed
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World
from belvedere.storage.engine import StorageEngine, Write
from belvedere.storage.errors import (
    Dropped,
    LogBroken,
    LogFull,
    LogUnavailable,
    MutationTooLarge,
    WritesRefused,
)
from belvedere.storage.merge import slices_after
from belvedere.storage.reads import (
    MAX_TOKEN,
    MIN_TOKEN,
    KeySlice,
    PartitionRead,
    PartitionRows,
    Position,
    RangeRead,
)
from belvedere.storage.scan import after_partition
from tests.storage.engine_help import in_world, open_engine, small_options, store_for, tablets_of, write
from tests.storage.storage_model import Model, Writes, clustering_key, make_table, told, wire_int

#: When readers look. In the far future, so that compaction (by the simulated clock) purges nothing before:
#: a write with an old timestamp that comes after a purge would rightly not be deleted any more.
NOW = 4_000_000_000


async def scan_all(engine: StorageEngine, read: RangeRead, now: int = NOW) -> list[PartitionRows]:
    found: list[PartitionRows] = []
    for store in sorted(engine.stores.values(), key=lambda s: s.first_token):
        start: Position | None = (max(store.first_token, read.start[0]), b"")
        first_slices = None
        while start is not None:
            page = await store.scan(
                RangeRead(
                    start,
                    min(store.last_token, read.end_token),
                    read.slices,
                    read.reverse,
                    first_slices,
                    read.limit,
                    read.partition_limit,
                ),
                now,
            )
            found += page.partitions
            start, first_slices = page.next, None
            if page.partitions and page.partitions[-1].more and start is not None:
                last = page.partitions[-1]
                assert start == (last.token, last.key)
                rest = await store.read(
                    PartitionRead(last.token, last.key, _rest(read, last), read.reverse), now
                )
                last.rows = last.rows + rest.rows
                start = after_partition(start)
    return found


def _rest(read: RangeRead, found: PartitionRows) -> tuple[KeySlice, ...]:
    return slices_after(read.slices, found.rows[-1][0], read.reverse)


async def check_everything(
    engine: StorageEngine, model: Model, writes: Writes, generator: random.Random, now: int = NOW
) -> None:
    for key in writes.keys:
        store = store_for(engine, token_of(key))
        slices, reverse = writes.slices(), generator.random() < 0.5
        limit = generator.choice([0, 0, 1, 3])
        found = await store.read(PartitionRead(token_of(key), key, slices, reverse, limit), now)
        static, rows = model.read(key, now, slices, reverse)
        assert told(found) == (static, rows[:limit] if limit else rows)
        point = clustering_key(writes.table, generator.randint(-8, 8))
        found = await store.read(PartitionRead(token_of(key), key, row=point), now)
        expected = [item for item in model.read(key, now)[1] if item[0] == point]
        assert told(found) == (static, expected)
        now_found = store.read_now(PartitionRead(token_of(key), key, row=point), now)
        assert now_found is None or told(now_found) == (static, expected)
    await check_scan(engine, model, writes, generator, now)


async def check_scan(
    engine: StorageEngine, model: Model, writes: Writes, generator: random.Random, now: int
) -> None:
    slices, reverse = writes.slices(), generator.random() < 0.3
    if generator.random() < 0.5:
        slices = RangeRead().slices
    per_partition = generator.choice([0, 0, 2])
    read = RangeRead(slices=slices, reverse=reverse, limit=generator.choice([1, 3, 1000]))
    if per_partition:
        # Going on inside a partition would need what is left of its limit: take pages that do not cut it.
        read = RangeRead(slices=slices, reverse=reverse, limit=1000, partition_limit=per_partition)
    found = await scan_all(engine, read, now)
    expected = []
    for token, key in model.positions():
        static, rows = model.read(key, now, slices, reverse)
        rows = rows[:per_partition] if per_partition else rows
        if static or rows:
            expected.append(((token, key), (static, rows)))
    assert [((p.token, p.key), told(p)) for p in found] == expected


@given(st.integers(0, 10**9))
def test_random_writes_flushes_compactions_and_restarts_against_the_model(seed: int) -> None:
    generator = random.Random(seed)
    table = make_table(clustering=generator.random() < 0.8, sets=generator.random() < 0.7)
    writes = Writes(table, generator, now=NOW)
    model = Model()

    async def life(runtime: SimRuntime, steps: int) -> None:
        engine = await open_engine(runtime, table)
        await check_everything(engine, model, writes, generator)
        for _ in range(steps):
            roll = generator.random()
            if roll < 0.75:
                mutation = writes.mutation()
                await write(engine, mutation)
                model.apply(mutation)
            elif roll < 0.80:
                batch = [writes.mutation() for _ in range(3)]
                routed = [Write(store_for(engine, m.token), m) for m in batch]
                await engine.durable(await engine.write(routed))
                for mutation in batch:
                    model.apply(mutation)
            elif roll < 0.88:
                await engine.flush()
            elif roll < 0.94:
                for store in list(engine.stores.values()):
                    await engine.compact(store, everything=generator.random() < 0.5)
            else:
                await check_everything(engine, model, writes, generator)
        await check_everything(engine, model, writes, generator)
        if generator.random() < 0.5:
            await engine.close()

    async def main(world: World) -> None:
        for _ in range(generator.randint(1, 3)):
            runtime = world.boot("node")
            await runtime.perform(life(runtime, generator.randint(1, 40)))
            world.crash("node", lose_unsynced=True)

    in_world(main, seed)


@given(st.integers(0, 10**9))
def test_what_is_purged_is_not_missed(seed: int) -> None:
    """All expired cells and tombstones are past their grace: compactions drop what they may, and readers see
    the same before and after."""
    generator = random.Random(seed)
    table = make_table(clustering=generator.random() < 0.8, sets=generator.random() < 0.7)
    writes = Writes(table, generator, now=1_000_000)
    model = Model()

    async def life(runtime: SimRuntime) -> None:
        engine = await open_engine(runtime, table, 1, small_options(compaction=False))
        store = engine.store(1)
        now = runtime.clock.wall_micros() // 1_000_000
        for _ in range(generator.randint(1, 50)):
            mutation = writes.mutation()
            await write(engine, mutation)
            model.apply(mutation)
            if generator.random() < 0.2:
                await store.flush()
        for everything in (False, True):
            await engine.compact(store, everything)
            await check_everything(engine, model, writes, generator, now)
        await store.flush()
        await engine.compact(store)
        await check_everything(engine, model, writes, generator, now)
        assert store.statistics()["file_rows"] <= sum(len(p.rows) + 1 for p in model.partitions.values())

    async def main(world: World) -> None:
        runtime = world.boot("node")
        await runtime.perform(life(runtime))

    in_world(main, seed)


# --------------------------------------------------------------------------------------- crashes


async def serve_until_crash(
    runtime: SimRuntime, world: World, table: Table, acknowledged: dict[bytes, int], tried: dict[bytes, int]
) -> None:
    """Each key has a counter that only grows; the reader must never see less than was acknowledged."""
    engine = await open_engine(runtime, table, options=small_options(memtable_bytes=30_000))
    for key, least in acknowledged.items():
        value = await read_counter(engine, key)
        assert least <= value <= tried[key], f"{key!r}: {least} acknowledged, {value} found"
        if value > least:
            world.mark("unacknowledged survived")
        tried[key] = acknowledged[key] = value

    async def client(keys: list[bytes]) -> None:
        while True:
            key = keys[runtime.random.randint(0, len(keys) - 1)]
            tried[key] = value = tried.get(key, 0) + 1
            row = Row(value, 0, 0, True, None, [b"%d" % value, b"x" * runtime.random.randint(0, 300)])
            await write(engine, Mutation(table.id, token_of(key), key, [(b"", row)]))
            acknowledged[key] = value
            if runtime.random.random() < 0.05:
                await runtime.clock.sleep(runtime.random.random() * 0.02)

    async def upkeep() -> None:
        while True:
            await runtime.clock.sleep(runtime.random.random() * 0.2)
            store = list(engine.stores.values())[runtime.random.randint(0, len(engine.stores) - 1)]
            if runtime.random.random() < 0.5:
                await engine.flush([store])
            else:
                await engine.compact(store)
            world.mark("upkeep")

    for name in range(4):
        runtime.spawn("client", client([wire_int(8 * name + number) for number in range(8)]))
    runtime.spawn("upkeep", upkeep())


async def read_counter(engine: StorageEngine, key: bytes) -> int:
    store = store_for(engine, token_of(key))
    found = await store.read(PartitionRead(token_of(key), key, row=b""), NOW)
    if not found.rows:
        return 0
    return int(found.rows[0][1].cells[0])  # type: ignore[arg-type]


def test_acknowledged_writes_survive_crashes_at_random_points() -> None:
    table = make_table(clustering=False, sets=False)

    async def main(world: World) -> None:
        acknowledged: dict[bytes, int] = {}
        tried: dict[bytes, int] = {}
        for _ in range(5):
            runtime = world.boot("node")
            serving = asyncio.create_task(
                runtime.perform(serve_until_crash(runtime, world, table, acknowledged, tried))
            )
            await world.sleep(world.fault_random.random() * 1.5)
            if serving.done():
                serving.result()
            world.crash("node", lose_unsynced=world.fault_random.random() < 0.8)
            try:
                await serving
            except MachineCrashed:
                world.mark("crashed while opening")
            for key, value in tried.items():
                acknowledged.setdefault(key, 0)
                assert value >= acknowledged[key]
        assert sum(acknowledged.values()) > 50

    marks: dict[str, int] = {}
    for seed in range(15):
        for name, count in in_world(main, seed).marks.items():
            marks[name] = marks.get(name, 0) + count
    assert {"upkeep", "unacknowledged survived"} <= set(marks)


def test_a_batch_over_tablets_survives_whole_or_not_at_all() -> None:
    table = make_table(clustering=False, sets=False)
    keys = [wire_int(number) for number in range(8)]

    async def life(runtime: SimRuntime) -> None:
        engine = await open_engine(runtime, table, tablets=4)
        assert len({store_for(engine, token_of(key)).id for key in keys}) > 1
        values = {await read_counter(engine, key) for key in keys}
        assert len(values) == 1
        value = values.pop()

        async def flushes() -> None:
            while True:
                await runtime.clock.sleep(runtime.random.random() * 0.05)
                for store in engine.stores.values():
                    store.freeze()
                    await engine.flush([store])

        runtime.spawn("flushes", flushes())
        while True:
            value += 1
            row = Row(value, 0, 0, True, None, [b"%d" % value])
            batch = [Mutation(table.id, token_of(key), key, [(b"", row)]) for key in keys]
            position = await engine.write([Write(store_for(engine, m.token), m) for m in batch])
            if runtime.random.random() < 0.3:
                await engine.durable(position)

    async def main(world: World) -> None:
        for _ in range(5):
            runtime = world.boot("node")
            living = asyncio.create_task(runtime.perform(life(runtime)))
            await world.sleep(0.1 + world.fault_random.random() * 0.5)
            world.crash("node")
            with pytest.raises(MachineCrashed):
                await living

    for seed in range(6):
        in_world(main, seed)


# ------------------------------------------------------------------------------------ bad disks


def plain(table: Table, number: int, size: int = 10, timestamp: int = 1) -> Mutation:
    key = wire_int(number)
    row = Row(timestamp, 0, 0, True, None, [b"v%d" % number, b"." * size])
    return Mutation(table.id, token_of(key), key, [(b"", row)])


async def expect_rows(engine: StorageEngine, table: Table, numbers: range, present: bool = True) -> None:
    for number in numbers:
        key = wire_int(number)
        store = store_for(engine, token_of(key))
        found = await store.read(PartitionRead(token_of(key), key, row=b""), NOW)
        assert [row.cells[0] for _, row in found.rows] == ([b"v%d" % number] if present else [])


def test_on_a_full_disk_writes_are_refused_and_reads_go_on() -> None:
    table = make_table(clustering=False, sets=False)

    async def main(world: World) -> None:
        runtime = world.boot("node")
        faults = world.disk("node").faults

        async def life() -> int:
            engine = await open_engine(runtime, table)
            for number in range(20):
                await write(engine, plain(table, number))
            faults.full = True
            taken = 20
            try:
                while taken < 2000:
                    await write(engine, plain(table, taken, 500))
                    taken += 1
            except LogFull:
                pass
            assert taken < 200
            await expect_rows(engine, table, range(taken))
            await expect_rows(engine, table, range(taken, taken + 1), present=False)
            assert engine.statistics()["log_failure"]
            for store in engine.stores.values():
                if store.freeze():
                    engine._background.flush_soon(store)
            await runtime.clock.sleep(2)
            assert engine.statistics()["flush_failure"]
            await expect_rows(engine, table, range(taken))
            faults.full = False
            await runtime.clock.sleep(30)
            assert not engine.statistics()["flush_failure"]
            assert not engine.statistics()["log_failure"]
            assert all(store.frozen_count == 0 for store in engine.stores.values())
            await write(engine, plain(table, taken))
            return taken + 1

        taken = await runtime.perform(life())
        world.crash("node")
        runtime = world.boot("node")
        await runtime.perform(expect_after_open(runtime, table, range(taken)))

    in_world(main)


async def expect_after_open(runtime: SimRuntime, table: Table, numbers: range) -> None:
    engine = await open_engine(runtime, table)
    await expect_rows(engine, table, numbers)


def test_a_failed_log_sync_stops_writes_and_shows_nothing_that_could_be_lost() -> None:
    table = make_table(clustering=False, sets=False)

    async def main(world: World) -> None:
        runtime = world.boot("node")
        faults = world.disk("node").faults

        async def life() -> None:
            engine = await open_engine(runtime, table)
            await write(engine, plain(table, 1))
            faults.broken_syncs = 1.0
            mutation = plain(table, 2)
            store = store_for(engine, mutation.token)
            position = engine.write_now(store, mutation)
            assert position is not None
            with pytest.raises(LogBroken):
                await engine.durable(position)
            faults.broken_syncs = 0.0
            found = await store.read(PartitionRead(mutation.token, mutation.key, row=b""), NOW)
            assert found.after == position
            with pytest.raises(LogBroken):
                await engine.durable(found.after)
            with pytest.raises(LogBroken):
                await write(engine, plain(table, 3))
            with pytest.raises(LogUnavailable):
                await engine.flush([store])
            await expect_rows(engine, table, range(1, 2))

        await runtime.perform(life())
        world.crash("node")
        runtime = world.boot("node")
        await runtime.perform(expect_after_open(runtime, table, range(1, 2)))

    in_world(main)


def test_random_disk_errors_lose_nothing_that_was_acknowledged() -> None:
    table = make_table(clustering=False, sets=False)

    async def main(world: World) -> None:
        acknowledged: list[int] = []
        next_number = [0]
        faults = world.disk("node").faults

        async def life(runtime: SimRuntime) -> None:
            engine = await open_engine(runtime, table, options=small_options(memtable_bytes=20_000))
            for number in acknowledged:
                await expect_rows(engine, table, range(number, number + 1))
            faults.broken_writes = 0.03
            faults.broken_syncs = 0.03
            try:
                for _ in range(300):
                    number = next_number[0] = next_number[0] + 1
                    try:
                        await write(engine, plain(table, number, 100))
                    except WritesRefused:
                        # A flush failed; it is tried again.
                        world.mark("refused")
                        await runtime.clock.sleep(1)
                        continue
                    acknowledged.append(number)
            except LogUnavailable:
                world.mark("broken")
            faults.broken_writes = faults.broken_syncs = 0.0
            for number in acknowledged:
                await expect_rows(engine, table, range(number, number + 1))

        for _ in range(4):
            runtime = world.boot("node")
            await runtime.perform(life(runtime))
            world.crash("node")

    marks: set[str] = set()
    for seed in range(8):
        marks |= set(in_world(main, seed).marks)
    assert {"broken", "refused"} <= marks


def test_a_second_engine_on_the_same_directory_is_refused() -> None:
    table = make_table()

    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine = await open_engine(runtime, table)
            with pytest.raises(AlreadyLocked):
                await open_engine(runtime, table)
            await engine.close()
            await (await open_engine(runtime, table)).close()

        await runtime.perform(life())

    in_world(main)


# ---------------------------------------------------------------------------- bounds, tables, order


def test_memory_and_log_stay_bounded_under_load() -> None:
    table = make_table(clustering=False, sets=False)

    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            options = small_options(memtable_bytes=40_000)
            engine = await open_engine(runtime, table, options=options)
            most = segments = 0
            for number in range(1500):
                await write(engine, plain(table, number, 200))
                most = max(most, engine._memory.used)
                segments = max(segments, engine.log.statistics()["segments"])
            assert most < 2 * 40_000 + 2000
            assert segments < 12
            assert sum(int(s.statistics()["flushes"]) for s in engine.stores.values()) > 5
            assert sum(int(s.statistics()["compactions"]) for s in engine.stores.values()) > 0
            await expect_rows(engine, table, range(0, 1500, 7))

        await runtime.perform(life())

    in_world(main)


def test_a_quiet_tablet_does_not_hold_the_log_back() -> None:
    table = make_table(clustering=False, sets=False)

    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine = await open_engine(runtime, table, tablets=4)
            quiet = plain(table, 0)
            await write(engine, quiet)
            home = store_for(engine, quiet.token)
            for number in range(1, 1500):
                if store_for(engine, plain(table, number).token) is not home:
                    await write(engine, plain(table, number, 200))
            await runtime.clock.sleep(5)
            assert home.statistics()["flushes"] == 1
            assert engine.log.statistics()["segments"] <= 5

        await runtime.perform(life())

    in_world(main)


def test_commit_versions_only_grow_also_over_restarts_and_clock_jumps() -> None:
    table = make_table(clustering=False, sets=False)

    async def main(world: World) -> None:
        versions: list[int] = []

        async def life(runtime: SimRuntime, flush: bool) -> None:
            engine = await open_engine(runtime, table, tablets=1)
            store = engine.store(1)
            for number in range(10):
                await write(engine, plain(table, number))
                versions.append(store.last_version)
            if flush:
                await engine.flush()
            await engine.close()

        for number in range(4):
            runtime = world.boot("node")
            await runtime.perform(life(runtime, number % 2 == 0))
            world.crash("node")
            world.jump_wall_clock("node", -3600.0)
        assert versions == sorted(set(versions))

    in_world(main)


def test_a_version_that_only_a_manifest_knows_is_not_given_again() -> None:
    """Its record was in the log's buffer when the power failed; the clock has gone back since."""
    table = make_table(clustering=False, sets=False)

    async def main(world: World) -> None:
        runtime = world.boot("node")
        options = small_options(compaction=False)
        known = 0

        async def life() -> None:
            nonlocal known
            engine = await open_engine(runtime, table, 1, options)
            store = engine.store(1)
            for number in range(2):
                await write(engine, plain(table, number))
                await store.flush()
            await write(engine, plain(table, 2))
            store.last_version += 1_000_000_000
            known = store.last_version
            await engine.compact(store)

        await runtime.perform(life())
        world.crash("node")
        world.jump_wall_clock("node", -1000)
        runtime = world.boot("node")

        async def again() -> None:
            engine = await open_engine(runtime, table, 1, options)
            await write(engine, plain(table, 3))
            assert engine.store(1).last_version > known

        await runtime.perform(again())

    in_world(main)


def test_directories_of_unknown_tables_are_kept_and_named() -> None:
    table = make_table(clustering=False, sets=False)

    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine = await open_engine(runtime, table, 1)
            await write(engine, plain(table, 1))
            await engine.flush()
            await engine.close()
            engine = await StorageEngine.open(runtime, "data", {}, {}, small_options())
            await engine.close()
            assert any("engine.unknown_table" in line and table.id.hex() in line for line in world.log_lines)
            engine = await open_engine(runtime, table, 1)
            await expect_rows(engine, table, range(1, 2))

        await runtime.perform(life())

    in_world(main)


def test_tables_come_and_go() -> None:
    one, two = make_table(clustering=False, sets=False), make_table(clustering=False, sets=False, seed=1)
    two = type(two)(two.id, "ks", "other", two.columns, two.options, two.regular_ordinals)
    maps = {one.id: tablets_of(one, 2), two.id: tablets_of(two, 2, first_id=10)}

    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine = await StorageEngine.open(runtime, "data", {}, {}, small_options())
            assert engine.stores == {}
            await engine.align({one.id: one}, maps)
            assert sorted(engine.stores) == [1, 2]
            await engine.align({one.id: one, two.id: two}, maps)
            store = engine.store(10)
            mutation = next(m for n in range(99) if (m := plain(two, n)).token <= store.last_token)
            await engine.durable(await engine.write([Write(store, mutation)]))
            await engine.flush()
            position = engine.write_now(store, mutation)
            assert position is not None
            snapshot = await store.snapshot()
            await engine.align({one.id: one}, maps)
            assert sorted(engine.stores) == [1, 2]
            with pytest.raises(Dropped):
                engine.write_now(store, mutation)
            with pytest.raises(Dropped):
                await engine.write([Write(store, mutation)])
            for path, facts in snapshot.files:
                assert await runtime.disk.size(path) == facts.size
            snapshot.release()
            await runtime.clock.sleep(1)
            names = await runtime.disk.list("data/tables")
            assert names == [f"ks.t-{one.id.hex()}"]
            await write(engine, plain(one, 5))
            await engine.close()

        await runtime.perform(life())
        world.crash("node")
        runtime = world.boot("node")

        async def again() -> None:
            # Records of the dropped table are still in the log, and skipped.
            engine = await StorageEngine.open(runtime, "data", {one.id: one}, maps, small_options())
            await expect_rows(engine, one, range(5, 6))

        await runtime.perform(again())

    in_world(main)


def test_a_drop_that_a_crash_interrupts_is_finished_at_the_next_start() -> None:
    table = make_table(clustering=False, sets=False)
    maps = {table.id: tablets_of(table, 2)}

    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine = await StorageEngine.open(runtime, "data", {table.id: table}, maps, small_options())
            for number in range(10):
                await write(engine, plain(table, number))
            await engine.flush()
            held = [await store.snapshot() for store in engine.stores.values()]
            await engine.align({}, maps)
            await runtime.clock.sleep(0.5)
            assert held
            assert await runtime.disk.list("data/tables") != []

        await runtime.perform(life())
        world.crash("node")
        runtime = world.boot("node")

        async def again() -> None:
            await StorageEngine.open(runtime, "data", {}, maps, small_options())
            assert await runtime.disk.list("data/tables") == []

        await runtime.perform(again())

    in_world(main)


def test_a_mutation_larger_than_the_log_takes_is_refused() -> None:
    table = make_table(clustering=False, sets=False)

    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine = await open_engine(runtime, table)
            with pytest.raises(MutationTooLarge):
                await write(engine, plain(table, 1, 9000))
            store = engine.store(1)
            with pytest.raises(MutationTooLarge):
                await engine.write([Write(store, plain(table, 1, 3000)) for _ in range(4)])
            await write(engine, plain(table, 2))

        await runtime.perform(life())

    in_world(main)


def test_readers_are_told_what_must_be_durable_first() -> None:
    table = make_table(clustering=False, sets=False)

    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine = await open_engine(runtime, table, tablets=1)
            store = engine.store(1)
            mutation = plain(table, 1)
            read = PartitionRead(mutation.token, mutation.key, row=b"")
            position = engine.write_now(store, mutation)
            found = store.read_now(read, NOW)
            assert found is not None
            assert found.after == position
            page = await store.scan(RangeRead((MIN_TOKEN, b""), MAX_TOKEN), NOW)
            assert page.after == position
            await engine.durable(found.after)
            assert found.rows
            found = store.read_now(read, NOW)
            assert found is not None
            assert found.after == 0
            # A deletion tells something, too.
            gone = Mutation(table.id, mutation.token, mutation.key, [], deletion=(10, 1))
            position = engine.write_now(store, gone)
            found = store.read_now(read, NOW)
            assert found is not None
            assert (found.rows, found.after) == ([], position)

        await runtime.perform(life())

    in_world(main)
