"""A restoration and the commit log: what of the log counts before, meanwhile and after."""

from typing import Any

import pytest

from belvedere.model.positions import NOWHERE
from belvedere.runtime.errors import DiskFull
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World
from belvedere.storage.commitlog import SyncPolicy
from belvedere.storage.engine import StorageEngine
from belvedere.storage.errors import CommitRefused, LogBroken
from belvedere.storage.replica_log import ReplicaLog
from tests.storage.engine_help import in_world, small_options, tablets_of
from tests.storage.replica_help import TABLE, Told, chain, expected, open_replicas, record, shown
from tests.storage.storage_model import make_table
from tests.storage.test_replica_snapshot import COMMON, DEPOSED, copy, learner, restart
from tests.storage.test_replica_snapshot import donor as quiet_donor

OTHER = make_table(clustering=False, sets=False, seed=1)

FIRST = record((1, 10), (1, 9), to_deliver=True)
QUIET = chain((0, 0), [(1, n) for n in range(1, 10)])
REST = chain((1, 10), [(3, n) for n in range(11, 60)])
END = REST[-1].position


async def donor(runtime: SimRuntime) -> StorageEngine:
    engine = await open_replicas(runtime)
    replica, told = engine.replica(1), Told()
    told.append(replica, QUIET[:5], NOWHERE)
    replica.apply(QUIET[4].position)
    await engine.truncate(engine.store(1))
    told.append(replica, (*QUIET[5:], FIRST, *REST), NOWHERE)
    replica.apply(END)
    return engine


async def open_two_tables(runtime: SimRuntime, policy: SyncPolicy = SyncPolicy.GROUP) -> StorageEngine:
    tables = {TABLE.id: TABLE, OTHER.id: OTHER}
    maps = {TABLE.id: tablets_of(TABLE, 1), OTHER.id: tablets_of(OTHER, 1, first_id=2)}
    options = small_options(closed_segments=1, compaction=False, sync_policy=policy)
    return await StorageEngine.open(runtime, "data", tables, maps, options, replicated=True)


async def fill_log(engine: StorageEngine, replica: ReplicaLog) -> None:
    """Until the segments of before are gone, if nobody needs them."""
    told = Told()
    for _ in range(300):
        end = replica.end
        told.append(replica, (record((9, end.version + 1), end, size=150),), end)
        replica.apply(replica.end)
        await engine.log.wait_written(engine.log.newest)
    await engine.flush([engine.store(2)])
    await engine._runtime.clock.sleep(1)


@pytest.mark.parametrize("policy", [SyncPolicy.GROUP, SyncPolicy.PERIODIC])
def test_what_comes_with_a_snapshot_is_in_the_log_before_it_counts_and_stays_there(
    policy: SyncPolicy,
) -> None:
    async def main(world: World) -> None:
        giving, taking = world.boot("donor"), world.boot("learner")
        engine = await giving.perform(donor(giving))
        snapshot = await giving.perform(engine.replica(1).snapshot())

        async def life() -> None:
            mine = await open_two_tables(taking, policy)
            replica, store = mine.replica(1), mine.store(1)
            restore = store.restore

            async def late(new: Any) -> None:
                assert mine.log.written == mine.log.newest
                oldest = mine.log.oldest
                await fill_log(mine, mine.replica(2))
                assert mine.log.newest - oldest > 100
                await restore(new)

            store.restore = late  # type: ignore[method-assign]
            await replica.restore(await copy(snapshot, replica))
            assert await replica.read_tail(QUIET[-1].position, 100) == (QUIET[-1].position, (FIRST, *REST))
            assert store.truncated_version == 5

        await taking.perform(life())
        world.crash("learner")
        runtime = world.boot("learner")

        async def again() -> None:
            mine = await open_two_tables(runtime)
            opened = mine.replica(1).opened()
            assert (opened.base, opened.records) == (QUIET[-1].position, (FIRST, *REST))
            assert mine.store(1).truncated_version == 5
            assert await shown(mine) == expected([*QUIET[5:], FIRST, *REST])

        await runtime.perform(again())

    in_world(main)


def test_without_a_log_nothing_is_restored() -> None:
    """Frames that are not on disk would be numbered once more, and would not count then."""

    async def main(world: World) -> None:
        giving, taking = world.boot("donor"), world.boot("learner")
        engine = await giving.perform(quiet_donor(giving))
        snapshot = await giving.perform(engine.replica(1).snapshot())

        async def life() -> None:
            mine = await learner(taking)
            replica, told = mine.replica(1), Told()
            incoming = await copy(snapshot, replica)
            world.disk("learner").faults.broken_syncs = 1.0
            told.append(replica, chain(replica.end, [(2, 90)]), NOWHERE)
            await taking.clock.sleep(1)
            world.disk("learner").faults.broken_syncs = 0.0
            with pytest.raises(LogBroken):
                await replica.restore(incoming)
            assert await shown(mine) == expected(COMMON)

        await taking.perform(life())

    in_world(main)


def test_a_restoration_that_was_refused_leaves_nothing_in_the_log_that_counts() -> None:
    """What it would have brought is in there, between what came before and what comes now."""
    more = chain(DEPOSED[-1].position, [(2, 80), (2, 81)])

    async def main(world: World) -> None:
        giving, taking = world.boot("donor"), world.boot("learner")
        engine = await giving.perform(donor(giving))
        snapshot = await giving.perform(engine.replica(1).snapshot())

        async def life() -> None:
            mine = await learner(taking)
            replica, told, disk = mine.replica(1), Told(), taking.disk
            incoming = await copy(snapshot, replica)
            write = disk.write

            async def no_room(path: str, data: bytes) -> None:
                if "manifest" in path:
                    raise DiskFull("no space left on disk", path)
                await write(path, data)

            disk.write = no_room  # type: ignore[method-assign]
            with pytest.raises(CommitRefused):
                await replica.restore(incoming)
            disk.write = write  # type: ignore[method-assign]
            told.append(replica, more, NOWHERE)
            await taking.clock.sleep(1)
            assert told.written == [more[-1].position]
            replica.apply(more[-1].position)
            assert await replica.read_tail(NOWHERE, 100) == (NOWHERE, (*COMMON, *DEPOSED, *more))
            assert await shown(mine) == expected([*COMMON, *DEPOSED, *more])

        await taking.perform(life())

        async def check(mine: StorageEngine) -> None:
            assert mine.replica(1).opened().records == (*COMMON, *DEPOSED, *more)

        await restart(world, check)

    in_world(main)
