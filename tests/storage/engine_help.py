"""Engines in simulation for tests."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from belvedere.model.mutations import Mutation
from belvedere.model.schema import Table
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World
from belvedere.storage.engine import EngineOptions, StorageEngine, Write
from belvedere.storage.reads import MAX_TOKEN, MIN_TOKEN
from belvedere.storage.tablet import TabletStore


@dataclass(frozen=True)
class SomeTablet:
    id: int
    table: bytes
    first_token: int
    last_token: int
    epoch: int = 1


@dataclass(frozen=True)
class SomeTablets:
    tablets: tuple[SomeTablet, ...]


def tablets_of(table: Table, count: int, first_id: int = 1) -> SomeTablets:
    step = 2**64 // count
    bounds = [MIN_TOKEN + index * step for index in range(count)] + [MAX_TOKEN + 1]
    return SomeTablets(
        tuple(
            SomeTablet(first_id + index, table.id, bounds[index], bounds[index + 1] - 1)
            for index in range(count)
        )
    )


def small_options(**changes: Any) -> EngineOptions:
    """Everything happens often."""
    options = EngineOptions(
        segment_bytes=16 << 10, closed_segments=3, memtable_bytes=200 << 10, cache_bytes=1 << 20
    )
    for name, value in changes.items():
        setattr(options, name, value)
    return options


async def open_engine(
    runtime: SimRuntime, table: Table, tablets: int = 2, options: EngineOptions | None = None
) -> StorageEngine:
    return await StorageEngine.open(
        runtime, "data", {table.id: table}, {table.id: tablets_of(table, tablets)}, options or small_options()
    )


def store_for(engine: StorageEngine, token: int) -> TabletStore:
    return next(s for s in engine.stores.values() if s.first_token <= token <= s.last_token)


async def write(engine: StorageEngine, mutation: Mutation) -> int:
    """Returns once the write is durable."""
    store = store_for(engine, mutation.token)
    position = engine.write_now(store, mutation)
    if position is None:
        position = await engine.write([Write(store, mutation)])
    await engine.durable(position)
    return position


def in_world(main: Callable[[World], Coroutine[Any, Any, Any]], seed: int = 1, **options: Any) -> World:
    world = World(seed, **options)
    world.run(main)
    world.check_no_failures()
    return world
