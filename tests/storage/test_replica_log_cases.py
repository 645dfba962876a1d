"""Single cases of replicated logs: what the commit log keeps, full and broken disks, drops, ends."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from belvedere.model.positions import NOWHERE, Position
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World
from belvedere.storage.engine import StorageEngine
from belvedere.storage.errors import (
    Dropped,
    LogBroken,
    LogCorrupt,
    MutationTooLarge,
    StorageError,
    TabletCorrupt,
)
from belvedere.storage.replica_records import REMEMBERED
from tests.storage.engine_help import in_world, open_engine, small_options, tablets_of
from tests.storage.replica_help import TABLE, Told, chain, expected, open_replicas, record, shown

Life = Callable[[SimRuntime], Coroutine[None, None, None]]


def lives(*parts: Life, lose_unsynced: bool = True) -> World:
    """One after the other on one machine, with a crash after each."""

    async def main(world: World) -> None:
        for part in parts:
            runtime = world.boot("node")
            await runtime.perform(part(runtime))
            world.crash("node", lose_unsynced=lose_unsynced)

    return in_world(main)


def numbers(first: int, count: int, epoch: int = 1) -> list[tuple[int, int]]:
    return [(epoch, first + index) for index in range(count)]


async def settled(runtime: SimRuntime) -> None:
    await runtime.clock.sleep(1)


def log_segments(engine: StorageEngine) -> int:
    return engine.log.statistics()["segments"]


# --------------------------------------------------------------------------------- what the log keeps


def test_the_log_keeps_what_is_not_applied_and_no_more() -> None:
    records = chain((0, 0), numbers(1, 400))
    half = records[199].position

    async def life(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime, 2, small_options(closed_segments=1, compaction=False))
        replica, other = engine.replica(1), engine.replica(2)
        told = Told()
        for index, one in enumerate(records):
            told.append(replica, (one,), NOWHERE)
            told.append(
                other, (record((1, 10 + index), (1, 9 + index) if index else (0, 0), size=100),), NOWHERE
            )
            other.apply(other.end)
            if index % 20 == 0:
                await runtime.clock.sleep(0.02)
        await settled(runtime)
        # Whatever the other one flushes: not one record of this may go.
        assert engine.store(2).statistics()["flushes"] >= 1
        kept = log_segments(engine)
        assert kept > 4
        found = await replica.read_tail(NOWHERE, 1000)
        assert found == (NOWHERE, records)

        replica.apply(half)
        await engine.flush()
        await settled(runtime)
        assert 2 <= log_segments(engine) < kept
        found = await replica.read_tail(half, 1000)
        assert found == (half, records[200:])
        assert await replica.read_tail(NOWHERE, 1000) is None
        assert await shown(engine) == expected(records[:200])

        replica.apply(replica.end)
        await engine.flush()
        await settled(runtime)
        assert log_segments(engine) == 1
        assert engine.replica(1).first_needed is None

    async def again(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime, 2)
        opened = engine.replica(1).opened()
        assert opened.committed == records[-1].position
        assert await shown(engine) == expected(records)

    lives(life, again)


def test_a_log_that_is_too_long_is_shortened_by_flushing_what_was_applied() -> None:
    records = chain((0, 0), numbers(1, 800))

    async def life(runtime: SimRuntime) -> None:
        options = small_options(closed_segments=2, memtable_bytes=10 << 20, compaction=False)
        engine = await open_replicas(runtime, 1, options)
        replica, told = engine.replica(1), Told()
        for one in records:
            told.append(replica, (one,), one.previous)
            replica.apply(one.previous)
            if one.position.version % 20 == 0:
                await runtime.clock.sleep(0.02)
        await settled(runtime)
        assert engine.store(1).statistics()["flushes"] >= 1
        assert log_segments(engine) <= 4
        assert await shown(engine) == expected(records[:-1])

    lives(life)


def test_records_that_change_nothing_are_flushed_as_well() -> None:
    """They are only in the log and in the manifest."""

    async def life(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        replica, told = engine.replica(1), Told()
        end = NOWHERE
        for version in range(1, 300):
            told.append(replica, (record((3, version), end, empty=True, size=0),), end)
            end = replica.end
            if version % 20 == 0:
                await runtime.clock.sleep(0.02)
        replica.apply(end)
        await engine.flush()
        await settled(runtime)
        assert replica.first_needed is None
        assert log_segments(engine) == 1
        assert engine.store(1).statistics()["files"] == 0

    async def again(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        assert engine.replica(1).opened().committed == (3, 299)

    lives(life, again)


def test_when_everything_is_flushed_and_the_log_is_gone_its_end_is_known_exactly() -> None:
    records = chain((0, 0), [*numbers(1, 30), *numbers(40, 30, epoch=7)])
    end = Position(7, 69)

    async def life(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        replica, told = engine.replica(1), Told()
        told.append(replica, records, NOWHERE)
        replica.apply(end)
        await engine.flush()
        # As if all segments had been filled and retired.
        await engine.close()
        for name in await runtime.disk.list("data/commitlog"):
            if name.startswith("log-"):
                await runtime.disk.remove(f"data/commitlog/{name}")
        await runtime.disk.sync_directory("data/commitlog")

    async def again(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        replica, told = engine.replica(1), Told()
        opened = replica.opened()
        assert (opened.base, opened.records, opened.committed) == (end, (), end)
        assert replica.end == end
        assert await replica.read_tail(end, 5) == (end, ())
        assert await replica.read_tail(Position(7, 68), 5) is None
        told.append(replica, chain(end, [(8, 70)]), end)
        await settled(runtime)

    async def third(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        opened = engine.replica(1).opened()
        assert (opened.base, opened.records, opened.committed) == (end, chain(end, [(8, 70)]), end)
        assert await shown(engine) == expected(records)

    lives(life, again, third)


def test_what_is_not_delivered_is_kept_though_it_is_flushed() -> None:
    first = record((1, 5), (0, 0), to_deliver=True)

    async def fill(runtime: SimRuntime, engine: StorageEngine, count: int) -> None:
        replica, told = engine.replica(1), Told()
        for version in range(replica.end.version + 1, replica.end.version + count):
            told.append(replica, (record((1, version), replica.end),), replica.end)
            if version % 20 == 0:
                await runtime.clock.sleep(0.02)
        replica.apply(replica.end)
        await engine.flush()
        await settled(runtime)

    async def life(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        replica, told = engine.replica(1), Told()
        told.append(replica, (first,), NOWHERE)
        await fill(runtime, engine, REMEMBERED + 500)
        assert log_segments(engine) > 5

    async def again(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        replica = engine.replica(1)
        # More than is remembered: from the oldest on that has something to deliver.
        opened = replica.opened()
        assert opened.records[0] == first
        assert len(opened.records) == REMEMBERED + 500
        replica.keep_from(4)
        await settled(runtime)
        assert log_segments(engine) > 5
        replica.keep_from(5)
        await settled(runtime)
        assert log_segments(engine) <= 3

    async def third(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        assert len(engine.replica(1).opened().records) <= REMEMBERED

    lives(life, again, third)


def test_records_that_say_what_was_delivered_let_the_log_go() -> None:
    async def life(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        replica, told = engine.replica(1), Told()
        told.append(replica, (record((1, 5), (0, 0), to_deliver=True),), NOWHERE)
        replica.apply(replica.end)
        await engine.flush()
        assert replica.first_needed is not None
        told.append(replica, (record((1, 6), (1, 5), delivered=5),), NOWHERE)
        await engine.flush()
        needed = replica.first_needed
        assert needed is not None  # Not applied: it may be cut.
        replica.apply(replica.end)
        await engine.flush()
        assert replica.first_needed is None

    lives(life)


def test_no_more_is_offered_than_is_remembered() -> None:
    records = chain((0, 0), numbers(1, 2 * REMEMBERED))
    committed = records[-101].position

    async def life(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime, 1, small_options(closed_segments=100))
        replica, told = engine.replica(1), Told()
        for index in range(0, len(records), 64):
            told.append(replica, records[index : index + 64], min(committed, replica.end))
            await runtime.clock.sleep(0.02)
        told.append(replica, (record((1, 9000), records[-1].position),), committed)
        await settled(runtime)

    async def again(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        opened = engine.replica(1).opened()
        assert opened.committed == committed
        assert len(opened.records) == REMEMBERED + 101
        assert opened.base == opened.records[0].previous
        assert await shown(engine) == expected(records[:-100])

    lives(life, again)


@pytest.mark.parametrize("anew", [[], [(2, 11), (2, 12)]])
def test_the_beginning_of_what_was_cut_may_be_gone(anew: list[tuple[int, int]]) -> None:
    """Records that were cut lie in two segments; the first of these goes, and with it the first of them. What
    is left of them follows nothing."""
    kept, cut = (1, 10), numbers(11, 300)

    async def life(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        replica, told = engine.replica(1), Told()
        told.append(replica, chain((0, 0), [kept]), NOWHERE)
        for one in chain(kept, cut):
            told.append(replica, (one,), NOWHERE)
            if one.position.version % 10 == 0:
                await runtime.clock.sleep(0.02)
        replica.apply(Position(*kept))
        replica.cut(Position(*kept))
        await engine.flush()
        await settled(runtime)
        assert log_segments(engine) == 1
        if anew:
            told.append(replica, chain(kept, anew), Position(*kept))
        await settled(runtime)

    async def again(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        opened = engine.replica(1).opened()
        assert (opened.base, opened.records, opened.committed) == (kept, chain(kept, anew), kept)

    lives(life, again)


def test_a_log_that_lacks_records_is_refused() -> None:
    async def life(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        replica, told = engine.replica(1), Told()
        for one in chain((0, 0), numbers(1, 300)):
            told.append(replica, (one,), NOWHERE)
            if one.position.version % 10 == 0:
                await runtime.clock.sleep(0.02)
        await engine.close()
        names = await runtime.disk.list("data/commitlog")
        await runtime.disk.remove(f"data/commitlog/{names[0]}")
        await runtime.disk.sync_directory("data/commitlog")

    async def again(runtime: SimRuntime) -> None:
        with pytest.raises(TabletCorrupt, match="lacks records of tablet 1"):
            await open_replicas(runtime)

    lives(life, again)


# ------------------------------------------------------------------------------------------ reading


def test_what_is_cut_while_somebody_reads_is_not_read() -> None:
    """The frames that are read hold what was cut; by the time they are there, other records are beyond it."""
    old, cut, new = chain((0, 0), numbers(1, 5)), numbers(6, 5), [(2, 7), (2, 9)]

    async def life(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        replica, told = engine.replica(1), Told()
        told.append(replica, old, NOWHERE)
        told.append(replica, chain((1, 5), cut), NOWHERE)
        replica.apply(Position(1, 5))
        await settled(runtime)
        disk = runtime.disk
        read, begun, go_on = disk.read, asyncio.Event(), asyncio.Event()

        async def slow_read(path: str, offset: int = 0, length: int | None = None) -> bytes:
            data = await read(path, offset, length)
            if not begun.is_set():
                begun.set()
                await go_on.wait()
            return data

        disk.read = slow_read  # type: ignore[method-assign]
        reading = asyncio.create_task(replica.read_tail(NOWHERE, 100))
        await begun.wait()
        replica.cut(Position(1, 5))
        told.append(replica, chain((1, 5), new), Position(1, 5))
        replica.apply(Position(2, 9))
        await settled(runtime)
        go_on.set()
        assert await reading == (NOWHERE, (*old, *chain((1, 5), new)))

    lives(life)


def test_segments_that_go_while_somebody_reads_are_not_missed() -> None:
    records = chain((0, 0), numbers(1, 400))

    async def life(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime, 1, small_options(closed_segments=100))
        replica, told = engine.replica(1), Told()
        for one in records:
            told.append(replica, (one,), NOWHERE)
            if one.position.version % 20 == 0:
                await runtime.clock.sleep(0.02)
        replica.apply(replica.end)
        await settled(runtime)
        gone = 0
        for _ in range(20):
            reading = asyncio.create_task(replica.read_tail(NOWHERE, 1000))
            await runtime.clock.sleep(0.001 * runtime.random.random())
            await engine.flush()
            found = await reading
            gone += found is None
            assert found in (None, (NOWHERE, records))
        assert gone > 10

    lives(life)


# ------------------------------------------------------------------------------- disks, ends, limits


def test_on_a_full_disk_what_is_appended_all_the_same_waits_and_keeps_its_order() -> None:
    records = chain((0, 0), numbers(1, 400))

    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine = await open_replicas(runtime, 1, small_options(closed_segments=100))
            replica, told = engine.replica(1), Told()
            await settled(runtime)
            world.disk("node").faults.full = True
            taken = 0
            while replica.has_room():
                told.append(replica, (records[taken],), NOWHERE)
                taken += 1
                await runtime.clock.sleep(0.01)
            assert 50 < taken < 300
            for one in records[taken:]:
                told.append(replica, (one,), NOWHERE)
            replica.cut(Position(1, 390))
            await settled(runtime)
            assert len(told.heard) < 400
            before = len(told.heard)
            # What waits is in the log for whoever asks, and is not shown before it really is.
            found = await replica.read_tail(Position(1, 350), 100)
            assert found == (Position(1, 350), records[350:390])
            replica.apply(Position(1, 390))
            assert await shown(engine) == expected(records[:before])
            world.disk("node").faults.full = False
            await runtime.clock.sleep(20)
            assert told.written == [one.position for one in records]
            assert await shown(engine) == expected(records[:390])
            assert replica.has_room()

        await runtime.perform(life())
        world.crash("node")
        runtime = world.boot("node")

        async def again() -> None:
            engine = await open_replicas(runtime)
            opened = engine.replica(1).opened()
            assert opened.records[-1] == records[389]

        await runtime.perform(again())

    world = in_world(main)
    assert "replica.backlog" in world.marks


def test_a_broken_log_says_so_to_everybody() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            engine = await open_replicas(runtime)
            replica, told = engine.replica(1), Told()
            told.append(replica, chain((0, 0), [(1, 1)]), NOWHERE)
            await settled(runtime)
            world.disk("node").faults.broken_syncs = 1.0
            told.append(replica, chain((1, 1), [(1, 2)]), NOWHERE)
            await settled(runtime)
            told.append(replica, chain((1, 2), [(1, 3)]), NOWHERE)
            assert not replica.has_room()
            await settled(runtime)
            assert [position.version for position, _ in told.heard] == [1, 2, 3]
            assert told.heard[0][1] is None
            assert all(isinstance(error, LogBroken) for _, error in told.heard[1:])

        await runtime.perform(life())

    in_world(main)


def test_a_closed_engine_takes_nothing_and_has_lost_nothing() -> None:
    told = Told()

    async def life(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        replica = engine.replica(1)
        told.append(replica, chain((0, 0), [(1, 1), (1, 2)]), NOWHERE)
        await engine.close()
        assert told.heard == [(Position(1, 2), None)]
        assert not replica.has_room()
        told.append(replica, chain((1, 2), [(1, 3)]), NOWHERE)
        await settled(runtime)
        assert isinstance(told.heard[1][1], StorageError)

    async def again(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        assert engine.replica(1).opened().records == chain((0, 0), [(1, 1), (1, 2)])

    lives(life, again)


@pytest.mark.parametrize("with_snapshot", [False, True])
@pytest.mark.parametrize("restart", [False, True])
def test_a_tablet_that_leaves_and_comes_back_is_empty(restart: bool, with_snapshot: bool) -> None:
    """Though the log still has records of its former life."""
    maps = {TABLE.id: tablets_of(TABLE, 2)}
    fewer = {TABLE.id: type(maps[TABLE.id])(maps[TABLE.id].tablets[1:])}

    async def check(runtime: SimRuntime, engine: StorageEngine) -> None:
        replica, told = engine.replica(1), Told()
        opened = replica.opened()
        assert (opened.base, opened.records, opened.committed) == (NOWHERE, (), NOWHERE)
        assert await shown(engine) == {}
        told.append(replica, chain((0, 0), [(5, 3)]), NOWHERE)
        await settled(runtime)
        assert told.written == [(5, 3)]

    async def life(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime, 2)
        replica, told = engine.replica(1), Told()
        told.append(replica, chain((0, 0), numbers(1, 20)), NOWHERE)
        replica.apply(Position(1, 10))
        await engine.flush()
        await settled(runtime)
        held = await replica.snapshot() if with_snapshot else None
        await engine.align({TABLE.id: TABLE}, fewer)
        told.append(replica, chain((1, 20), [(1, 21)]), NOWHERE)
        await settled(runtime)
        assert isinstance(told.heard[1][1], Dropped)
        assert not replica.has_room()
        if not restart:
            back = asyncio.create_task(engine.align({TABLE.id: TABLE}, maps))
            await settled(runtime)
            # The files are read until they are released; the new tablet needs their place.
            assert back.done() == (held is None)
            if held is not None:
                held.release()
            await back
            await check(runtime, engine)

    async def again(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime, 2)
        if restart:
            await check(runtime, engine)
        else:
            assert engine.replica(1).opened().records == chain((0, 0), [(5, 3)])

    async def third(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime, 2)
        assert engine.replica(1).opened().records == chain((0, 0), [(5, 3)])

    lives(life, again, third)


def test_the_last_tablet_of_a_table_may_leave_and_come_back() -> None:
    maps = {TABLE.id: tablets_of(TABLE, 1)}

    async def life(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        await engine.align({TABLE.id: TABLE}, {})
        await engine.align({TABLE.id: TABLE}, maps)
        replica, told = engine.replica(1), Told()
        told.append(replica, chain((0, 0), [(1, 1)]), NOWHERE)
        await settled(runtime)
        replica.apply(Position(1, 1))
        await engine.flush()
        assert await shown(engine) == expected(chain((0, 0), [(1, 1)]))

    async def again(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        assert await shown(engine) == expected(chain((0, 0), [(1, 1)]))

    lives(life, again)


def test_a_tablet_that_was_not_wanted_at_the_start_has_its_files_and_none_of_its_log() -> None:
    """Segments may have gone that it would have needed."""
    maps = {TABLE.id: tablets_of(TABLE, 1)}
    records = chain((0, 0), numbers(1, 20))

    async def life(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        replica, told = engine.replica(1), Told()
        told.append(replica, records, NOWHERE)
        replica.apply(Position(1, 10))
        await engine.flush()
        replica.apply(Position(1, 20))
        await settled(runtime)

    async def away(runtime: SimRuntime) -> None:
        options = small_options()
        engine = await StorageEngine.open(runtime, "data", {TABLE.id: TABLE}, {}, options, replicated=True)
        await engine.align({TABLE.id: TABLE}, maps)
        opened = engine.replica(1).opened()
        assert (opened.base, opened.records, opened.committed) == ((1, 10), (), (1, 10))
        assert await shown(engine) == expected(records[:10])

    async def again(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        opened = engine.replica(1).opened()
        assert (opened.base, opened.records, opened.committed) == ((1, 10), (), (1, 10))
        assert await shown(engine) == expected(records[:10])

    lives(life, away, again)


def test_a_record_that_fits_into_no_frame_is_not_taken() -> None:
    async def life(runtime: SimRuntime) -> None:
        engine = await open_replicas(runtime)
        replica, told = engine.replica(1), Told()
        large = record((1, 2), (1, 1), size=9000)
        with pytest.raises(MutationTooLarge):
            replica.check_size(large.data)
        with pytest.raises(MutationTooLarge):
            told.append(replica, (*chain((0, 0), [(1, 1)]), large), NOWHERE)
        assert replica.end == NOWHERE
        # Many that do not fit together go in several.
        many = [record((1, n), (1, n - 1) if n > 1 else (0, 0), size=3000) for n in range(1, 11)]
        for one in many:
            replica.check_size(one.data)
        told.append(replica, tuple(many), NOWHERE)
        await settled(runtime)
        assert told.written == [(1, 10)]
        assert await replica.read_tail(NOWHERE, 100) == (NOWHERE, tuple(many))

    lives(life)


def test_a_server_alone_and_a_node_of_a_cluster_do_not_read_each_others_logs() -> None:
    async def alone(runtime: SimRuntime) -> None:
        await (await open_engine(runtime, TABLE, 1)).close()
        with pytest.raises(LogCorrupt, match="a server alone"):
            await open_replicas(runtime)
        await runtime.disk.remove_tree("data")
        await (await open_replicas(runtime)).close()
        with pytest.raises(LogCorrupt, match="a cluster"):
            await open_engine(runtime, TABLE, 1)

    lives(alone)
