"""Replicated logs in simulation against a dumb model: appended, applied, cut, flushed, read, found again."""

import random
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from belvedere.model.positions import NOWHERE, Position
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World
from belvedere.storage import replica_replay
from belvedere.storage.engine import StorageEngine
from tests.storage.engine_help import in_world, small_options
from tests.storage.replica_help import open_replicas
from tests.storage.replica_model import ReplicaModel


async def do_something(
    runtime: SimRuntime, engine: StorageEngine, model: ReplicaModel, generator: random.Random
) -> None:
    replica = engine.replica(model.tablet)
    roll = generator.random()
    if roll < 0.40:
        # Who does not ask for room is taken, too.
        if replica.has_room() or generator.random() < 0.2:
            model.append(replica, generator)
    elif roll < 0.55:
        model.commit(generator)
        if generator.random() < 0.8:
            model.apply(replica)
    elif roll < 0.62:
        model.cut(replica, generator)
    elif roll < 0.72:
        await flush(engine, model)
    elif roll < 0.78:
        version = model.deliver(generator)
        if generator.random() < 0.5:
            replica.keep_from(version)
    elif roll < 0.84:
        await look(engine, model, generator)
    elif roll < 0.90:
        runtime.spawn("look", look(engine, model, generator))
    elif roll < 0.95:
        await model.check_shown(engine)
    else:
        await runtime.clock.sleep(generator.random() * 0.02)


async def flush(engine: StorageEngine, model: ReplicaModel) -> None:
    before = model.applied
    await engine.flush([engine.store(model.tablet)])
    model.flushed = max(model.flushed, before)


async def look(engine: StorageEngine, model: ReplicaModel, generator: random.Random) -> None:
    after = NOWHERE
    if model.records and generator.random() < 0.9:
        after = generator.choice(model.records).position
        if generator.random() < 0.4:
            after = Position(after.epoch, after.version + generator.randint(-3, 3))
    limit = generator.choice([1, 10, 1000])
    found = await engine.replica(model.tablet).read_tail(after, limit)
    # Flushes happen in the background, too. That they claim no more than they did, the next start shows.
    model.flushed = engine.store(model.tablet).flushed
    model.check_tail(after, limit, found)


@given(st.integers(0, 10**9))
def test_random_histories_of_several_replicas_against_the_model(seed: int) -> None:
    generator = random.Random(seed)
    models = [ReplicaModel(tablet) for tablet in (1, 2, 3)[: generator.randint(1, 3)]]
    remembered = generator.choice([3, 1024])
    memory = generator.choice([20_000, 200_000])

    async def life(runtime: SimRuntime, steps: int) -> None:
        options = small_options(memtable_bytes=memory, compaction=generator.random() < 0.5)
        engine = await open_replicas(runtime, 3, options)
        for model in models:
            model.check_opened(engine.replica(model.tablet).opened(), remembered)
            await model.check_shown(engine)
        for _ in range(steps):
            await do_something(runtime, engine, generator.choice(models), generator)
        for model in models:
            await model.check_shown(engine)
            await look(engine, model, generator)
        if generator.random() < 0.4:
            await engine.close()
            await runtime.clock.sleep(0)
            for model in models:
                if not model.refused:
                    # Everything that was done is on disk.
                    model.histories = [model.records]

    async def main(world: World) -> None:
        for _ in range(generator.randint(1, 5)):
            runtime = world.boot("node")
            await runtime.perform(life(runtime, generator.randint(1, 150)))
            world.crash("node", lose_unsynced=generator.random() < 0.7)

    with patch.object(replica_replay, "REMEMBERED", remembered):
        in_world(main, seed)
