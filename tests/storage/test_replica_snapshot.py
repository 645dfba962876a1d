"""Replicas given away as files, and replaced by such: whole, in part, and with a crash at every await."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from belvedere.model.positions import NOWHERE, Position, Record
from belvedere.sim.every_await import Steps, Strike, Watch
from belvedere.sim.incarnation import MachineCrashed
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World
from belvedere.storage.engine import StorageEngine
from belvedere.storage.errors import CommitUnknown, SnapshotDamaged, StorageError
from belvedere.storage.replica_log import ReplicaLog
from belvedere.storage.replica_snapshot import ABOUT_NAME, IncomingSnapshot, ReplicaSnapshot
from tests.storage.engine_help import in_world, small_options
from tests.storage.replica_help import Told, chain, expected, open_replicas, record, shown

#: What the donor has: some of it flushed, compacted, or neither.
GIVEN = chain((0, 0), [(1, n) for n in range(1, 20)] + [(4, n) for n in range(30, 50)])
END = GIVEN[-1].position
#: What the learner has: the tail of a deposed primary, partly applied and flushed before.
COMMON = GIVEN[:12]
DEPOSED = chain(COMMON[-1].position, [(2, n) for n in range(13, 40)])
#: What comes after the restoration.
NEXT = chain(END, [(4, 60), (5, 61)])


async def donor(runtime: SimRuntime, records: tuple[Record, ...] = GIVEN) -> StorageEngine:
    engine = await open_replicas(runtime)
    replica, told = engine.replica(1), Told()
    for index, one in enumerate(records):
        told.append(replica, (one,), NOWHERE)
        replica.apply(one.position)
        if index % 7 == 3:
            await engine.flush()
        if index == 17:
            await engine.compact(engine.store(1))
    return engine


async def learner(runtime: SimRuntime) -> StorageEngine:
    engine = await open_replicas(runtime)
    replica, told = engine.replica(1), Told()
    told.append(replica, COMMON, NOWHERE)
    replica.apply(COMMON[8].position)
    await engine.flush()
    replica.apply(COMMON[-1].position)
    told.append(replica, DEPOSED, COMMON[-1].position)
    await runtime.clock.sleep(0.1)
    return engine


async def copy(snapshot: ReplicaSnapshot, replica: ReplicaLog, piece: int = 1000) -> IncomingSnapshot:
    incoming = await replica.receive(snapshot.files)
    for file in snapshot.files:
        for offset in range(0, file.size, piece):
            await incoming.write(file.name, offset, await snapshot.read(file.name, offset, piece))
    return incoming


def on_two_machines(
    work: Callable[[World, SimRuntime, StorageEngine, StorageEngine], Awaitable[None]],
    given: tuple[Record, ...] = GIVEN,
) -> World:
    """`work` runs on the learner's machine."""

    async def main(world: World) -> None:
        giving = world.boot("donor")
        taking = world.boot("learner")
        engine = await giving.perform(donor(giving, given))

        async def life() -> None:
            await work(world, taking, engine, await learner(taking))

        await taking.perform(life())

    return in_world(main)


async def restart(world: World, check: Callable[[StorageEngine], Awaitable[None]]) -> None:
    """A next life of the learner's machine, from outside of the one that ends."""
    world.crash("learner")
    runtime = world.boot("learner")

    async def life() -> None:
        await check(await open_replicas(runtime))

    await runtime.perform(life())


async def check_restored(engine: StorageEngine, more: tuple[Record, ...] = ()) -> None:
    opened = engine.replica(1).opened()
    assert (opened.base, opened.records) == (END, more)
    assert opened.committed == END
    assert await shown(engine) == expected(GIVEN)


async def check_as_before(engine: StorageEngine) -> None:
    opened = engine.replica(1).opened()
    assert (opened.base, opened.records) == (NOWHERE, (*COMMON, *DEPOSED))
    assert opened.committed == COMMON[-1].position
    assert await shown(engine) == expected(COMMON)


def test_a_snapshot_replaces_everything_that_a_replica_had() -> None:
    async def main(world: World) -> None:
        giving, taking = world.boot("donor"), world.boot("learner")
        engine = await giving.perform(donor(giving))

        async def life() -> None:
            mine = await learner(taking)
            replica, told = mine.replica(1), Told()
            snapshot = await giving.perform(engine.replica(1).snapshot())
            assert snapshot.position == END
            opened = await replica.restore(await copy(snapshot, replica))
            snapshot.release()
            assert (opened.base, opened.records, opened.committed) == (END, (), END)
            assert replica.end == END
            assert await shown(mine) == expected(GIVEN)
            assert mine._memory.used == mine._memory.frozen == 0
            assert await replica.read_tail(END, 10) == (END, ())
            assert await replica.read_tail(COMMON[0].position, 10) is None
            told.append(replica, NEXT, END)
            await taking.clock.sleep(1)
            assert "incoming" not in await taking.disk.list(mine.store(1).directory)

        await taking.perform(life())
        await restart(world, lambda engine: check_restored(engine, NEXT))

        async def goes_on(engine: StorageEngine) -> None:
            replica = engine.replica(1)
            replica.apply(NEXT[-1].position)
            await engine.flush()
            assert await shown(engine) == expected([*GIVEN, *NEXT])

        await restart(world, goes_on)

        async def later(engine: StorageEngine) -> None:
            assert engine.replica(1).opened().committed == NEXT[-1].position
            assert await shown(engine) == expected([*GIVEN, *NEXT])

        await restart(world, later)

    in_world(main)


@pytest.mark.parametrize("lose_unsynced", [False, True])
def test_a_restoration_that_a_crash_interrupts_is_whole_or_has_not_happened(lose_unsynced: bool) -> None:
    """Before every step that leaves the disk otherwise than the one before."""
    steps = restore_and_crash(None)
    assert len(steps.distinct) > 20
    outcomes = {restore_and_crash(Strike(step, lose_unsynced)) for step in steps.distinct}
    assert outcomes == {"before", "restored"}


def restore_and_crash(strike: Strike | None) -> Steps | str:
    outcome: list[Steps | str] = []

    async def main(world: World) -> None:
        giving, taking = world.boot("donor"), world.boot("learner")
        engine = await giving.perform(donor(giving))
        snapshot = await giving.perform(engine.replica(1).snapshot())
        mine = await taking.perform(learner(taking))
        watch = Watch(world, lambda: None, strike)
        watch.begin(taking)

        async def restore() -> None:
            replica = mine.replica(1)
            await replica.restore(await copy(snapshot, replica))

        try:
            await taking.perform(restore())
            assert strike is None
        except MachineCrashed:
            assert strike is not None
        steps = watch.end()
        if strike is None:
            outcome.append(steps)
            return
        outcome.append(await look_after_crash(world))

    in_world(main, buggify=False)
    return outcome[0]


async def look_after_crash(world: World) -> str:
    found = ""

    async def look(engine: StorageEngine) -> None:
        nonlocal found
        assert "incoming" not in await engine._runtime.disk.list(engine.store(1).directory)
        replica, told = engine.replica(1), Told()
        found = "restored" if replica.end == END else "before"
        if found == "restored":
            await check_restored(engine)
            told.append(replica, NEXT, END)
            replica.apply(NEXT[0].position)
        else:
            await check_as_before(engine)
            replica.cut(COMMON[-1].position)
            told.append(replica, GIVEN[12:], COMMON[-1].position)
            replica.apply(END)
        await engine.flush()
        await engine._runtime.clock.sleep(1)

    async def once_more(engine: StorageEngine) -> None:
        """Nothing of a former life comes back."""
        opened = engine.replica(1).opened()
        if found == "restored":
            assert (opened.records, opened.committed) == (NEXT, NEXT[0].position)
            assert await shown(engine) == expected([*GIVEN, NEXT[0]])
        else:
            # Segments of before, with what is flushed now, may have gone.
            assert opened.records in (GIVEN, GIVEN[12:])
            assert opened.committed == END
            assert await shown(engine) == expected(GIVEN)

    runtime = world.boot("learner")

    async def life() -> None:
        await look(await open_replicas(runtime))

    await runtime.perform(life())
    await restart(world, once_more)
    return found


def test_what_is_not_delivered_comes_with_the_snapshot() -> None:
    """So that whoever was restored can deliver it, as many records as there are."""
    quiet = chain((0, 0), [(1, n) for n in range(1, 10)])
    first = record((1, 10), (1, 9), to_deliver=True)
    rest = chain((1, 10), [(1, n) for n in range(11, 200)])

    async def main(world: World) -> None:
        giving, taking = world.boot("donor"), world.boot("learner")
        engine = await giving.perform(donor(giving, (*quiet, first, *rest)))

        async def life() -> None:
            mine = await learner(taking)
            replica = mine.replica(1)
            snapshot = await giving.perform(engine.replica(1).snapshot())
            assert snapshot.files[0].size > mine.log.largest
            opened = await replica.restore(await copy(snapshot, replica))
            assert (opened.base, opened.records) == (quiet[-1].position, (first, *rest))
            assert await shown(mine) == expected([*quiet, first, *rest])
            await mine.flush()
            await taking.clock.sleep(1)
            found = await replica.read_tail(quiet[-1].position, 1000)
            assert found == (quiet[-1].position, (first, *rest))

        await taking.perform(life())

        async def check(engine: StorageEngine) -> None:
            replica = engine.replica(1)
            opened = replica.opened()
            assert (opened.base, opened.records) == (quiet[-1].position, (first, *rest))
            assert opened.committed == rest[-1].position
            assert replica.first_needed is not None
            replica.keep_from(10)
            assert replica.first_needed is None
            assert await shown(engine) == expected([*quiet, first, *rest])

        await restart(world, check)

    in_world(main)


def test_damage_on_the_way_is_noticed_and_changes_nothing() -> None:
    async def work(world: World, runtime: SimRuntime, giver: StorageEngine, mine: StorageEngine) -> None:
        replica = mine.replica(1)
        snapshot = await giver._runtime.perform(giver.replica(1).snapshot())  # type: ignore[attr-defined]
        incoming = await replica.receive(snapshot.files)
        with pytest.raises(SnapshotDamaged):
            await incoming.write("sst-99999999.parquet", 0, b"x")
        with pytest.raises(SnapshotDamaged):
            await incoming.write(ABOUT_NAME, 5, b"x")
        with pytest.raises(SnapshotDamaged):
            await incoming.write(ABOUT_NAME, 0, bytes(snapshot.files[0].size + 1))
        with pytest.raises(SnapshotDamaged):
            await replica.restore(incoming)
        for index, file in enumerate(snapshot.files):
            data = bytearray(await snapshot.read(file.name, 0, file.size))
            if index == 1:
                data[len(data) // 2] ^= 1
            await incoming.write(file.name, 0, bytes(data))
            await incoming.write(file.name, 0, bytes(data))  # Sent once more.
        with pytest.raises(SnapshotDamaged, match=r"sst-.*has not arrived"):
            await replica.restore(incoming)
        assert replica.end == DEPOSED[-1].position
        assert await shown(mine) == expected(COMMON)
        assert replica.has_room()
        # Another try, with what is whole.
        await replica.restore(await copy(snapshot, replica))
        assert await shown(mine) == expected(GIVEN)

    on_two_machines(work)


def test_what_was_not_restored_is_gone_at_the_next_start() -> None:
    async def main(world: World) -> None:
        giving, taking = world.boot("donor"), world.boot("learner")
        engine = await giving.perform(donor(giving))
        mine = await taking.perform(learner(taking))
        snapshot = await giving.perform(engine.replica(1).snapshot())
        incoming = await taking.perform(copy(snapshot, mine.replica(1)))
        assert len(await taking.disk.list(incoming.directory)) == len(snapshot.files)

        async def check(engine: StorageEngine) -> None:
            assert await engine._runtime.disk.list(incoming.directory) == []
            await check_as_before(engine)

        await restart(world, check)

    in_world(main)


def test_the_files_of_a_snapshot_stay_as_long_as_it_is_held() -> None:
    async def work(world: World, runtime: SimRuntime, giver: StorageEngine, mine: StorageEngine) -> None:
        async def others_go_on() -> ReplicaSnapshot:
            snapshot = await giver.replica(1).snapshot()
            told = Told()
            told.append(giver.replica(1), NEXT, END)
            giver.replica(1).apply(NEXT[-1].position)
            await giver.flush()
            await giver.compact(giver.store(1))
            return snapshot

        replica, machine = mine.replica(1), giver._runtime
        snapshot = await machine.perform(others_go_on())  # type: ignore[attr-defined]
        opened = await replica.restore(await copy(snapshot, replica))
        assert opened.committed == END
        assert await shown(mine) == expected(GIVEN)
        snapshot.release()
        await runtime.clock.sleep(1)
        with pytest.raises(Exception, match="no such file"):
            await machine.perform(snapshot.read(snapshot.files[1].name, 0, 10))  # type: ignore[attr-defined]

    on_two_machines(work)


def test_while_it_is_unknown_which_manifest_counts_nothing_is_appended() -> None:
    async def work(world: World, runtime: SimRuntime, giver: StorageEngine, mine: StorageEngine) -> None:
        replica, told, disk = mine.replica(1), Told(), runtime.disk
        snapshot = await giver._runtime.perform(giver.replica(1).snapshot())  # type: ignore[attr-defined]
        incoming = await copy(snapshot, replica)
        rename = disk.rename

        async def rename_and_fail(source: str, target: str) -> None:
            await rename(source, target)
            world.disk("learner").faults.broken_syncs = 1.0

        disk.rename = rename_and_fail  # type: ignore[method-assign]
        with pytest.raises(CommitUnknown):
            await replica.restore(incoming)
        world.disk("learner").faults.broken_syncs = 0.0
        disk.rename = rename  # type: ignore[method-assign]
        told.append(replica, chain(replica.end, [(2, 90)]), NOWHERE)
        assert not replica.has_room()
        await runtime.clock.sleep(0.1)
        assert isinstance(told.heard[0][1], StorageError)
        assert await shown(mine) == expected(COMMON)
        # The same once more, and all is well.
        await replica.restore(incoming)
        assert await shown(mine) == expected(GIVEN)
        told.append(replica, NEXT, END)
        await runtime.clock.sleep(0.1)
        assert told.heard[1] == (NEXT[-1].position, None)

    on_two_machines(work)


def test_who_reads_the_log_meanwhile_sees_one_life_of_it() -> None:
    async def work(world: World, runtime: SimRuntime, giver: StorageEngine, mine: StorageEngine) -> None:
        replica = mine.replica(1)
        snapshot = await giver._runtime.perform(giver.replica(1).snapshot())  # type: ignore[attr-defined]
        incoming = await copy(snapshot, replica)
        disk, read, go_on = runtime.disk, runtime.disk.read, asyncio.Event()

        async def slow_read(path: str, offset: int = 0, length: int | None = None) -> bytes:
            data = await read(path, offset, length)
            if "/log-" in path:
                await go_on.wait()
            return data

        disk.read = slow_read  # type: ignore[method-assign]
        reading = asyncio.create_task(replica.read_tail(NOWHERE, 1000))
        await runtime.clock.sleep(0.1)
        await replica.restore(incoming)
        go_on.set()
        assert await reading is None
        assert replica.end == Position(*END)

    on_two_machines(work)


def test_a_snapshot_of_an_empty_replica_is_one_too() -> None:
    async def main(world: World) -> None:
        giving, taking = world.boot("donor"), world.boot("learner")
        engine = await giving.perform(open_replicas(giving, options=small_options()))
        mine = await taking.perform(learner(taking))

        async def life() -> None:
            replica = mine.replica(1)
            snapshot = await giving.perform(engine.replica(1).snapshot())
            assert snapshot.position == NOWHERE
            assert [file.name for file in snapshot.files] == [ABOUT_NAME]
            await replica.restore(await copy(snapshot, replica))
            assert await shown(mine) == {}

        await taking.perform(life())

        async def check(engine: StorageEngine) -> None:
            opened = engine.replica(1).opened()
            assert (opened.base, opened.records, opened.committed) == (NOWHERE, (), NOWHERE)

        await restart(world, check)

    in_world(main)
