"""Replicated logs in simulation against a dumb model: appended, applied, cut, flushed, read, found again."""

import random

from hypothesis import given
from hypothesis import strategies as st

from belvedere.model.positions import NOWHERE, Position
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World
from belvedere.storage.engine import StorageEngine
from belvedere.storage.replica_log import ReplicaLog
from tests.storage.engine_help import in_world, small_options
from tests.storage.replica_help import open_replicas
from tests.storage.replica_model import ReplicaModel


async def do_something(
    runtime: SimRuntime, engine: StorageEngine, model: ReplicaModel, generator: random.Random
) -> None:
    replica = engine.replica(model.tablet)
    roll = generator.random()
    if roll < 0.40:
        if replica.has_room():
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
    elif roll < 0.90:
        await look(replica, model, generator)
    elif roll < 0.95:
        await model.check_shown(engine)
    else:
        await runtime.clock.sleep(generator.random() * 0.02)


async def flush(engine: StorageEngine, model: ReplicaModel) -> None:
    before = model.applied
    await engine.flush([engine.store(model.tablet)])
    model.flushed = max(model.flushed, before)


async def look(replica: ReplicaLog, model: ReplicaModel, generator: random.Random) -> None:
    after = NOWHERE
    if model.records and generator.random() < 0.9:
        after = generator.choice(model.records).position
        if generator.random() < 0.4:
            after = Position(after.epoch, after.version + generator.randint(-3, 3))
    limit = generator.choice([1, 10, 1000])
    model.check_tail(after, limit, await replica.read_tail(after, limit))


@given(st.integers(0, 10**9))
def test_random_histories_of_several_replicas_against_the_model(seed: int) -> None:
    generator = random.Random(seed)
    models = [ReplicaModel(tablet) for tablet in (1, 2, 3)[: generator.randint(1, 3)]]
    memory = generator.choice([20_000, 200_000])

    async def life(runtime: SimRuntime, steps: int) -> None:
        options = small_options(memtable_bytes=memory, compaction=generator.random() < 0.5)
        engine = await open_replicas(runtime, 3, options)
        for model in models:
            model.check_opened(engine.replica(model.tablet).opened())
            await model.check_shown(engine)
        for _ in range(steps):
            await do_something(runtime, engine, generator.choice(models), generator)
        for model in models:
            await model.check_shown(engine)
            await look(engine.replica(model.tablet), model, generator)
        if generator.random() < 0.4:
            await engine.close()
            for model in models:
                # Everything that was done is on disk.
                model.histories = [model.records]

    async def main(world: World) -> None:
        for _ in range(generator.randint(1, 5)):
            runtime = world.boot("node")
            await runtime.perform(life(runtime, generator.randint(1, 150)))
            world.crash("node", lose_unsynced=generator.random() < 0.7)

    in_world(main, seed)
