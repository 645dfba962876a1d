"""Every metadata store, two handles at a time: two handles stand for two processes on one store."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from belvedere.meta.etcd import EtcdStore
from belvedere.meta.memory import MemoryStore
from belvedere.meta.sqlite import SqliteStore
from belvedere.meta.store import Absent, Delete, MetadataStore, Put, Transaction, Unchanged
from belvedere.runtime.api import Runtime
from belvedere.runtime.etcd_client import EtcdClient
from belvedere.runtime.real import run
from belvedere.sim.metastore import MetadataService
from belvedere.sim.world import World
from tests.meta.etcd_server import EtcdServer


@dataclass
class Stores:
    runtime: Runtime
    one: MetadataStore
    other: MetadataStore
    #: Open one more handle.
    another: Callable[[], Coroutine[Any, Any, MetadataStore]]
    #: Make changes up to a revision unavailable, where `history` does not do that.
    compact: Callable[[int], Coroutine[Any, Any, None]]


Test = Callable[[Stores], Coroutine[Any, Any, None]]
Harness = Callable[..., None]

_clusters = itertools.count(1)


def in_simulation(test: Test, history: int) -> None:
    """Virtual time: leases cost none of ours."""

    async def main(world: World) -> None:
        runtime = world.boot("machine")
        # Reached over a line, so that those who use it at once really take turns.
        service = MetadataService(world, MemoryStore(history))

        async def another() -> MetadataStore:
            return service.connect(runtime)

        async def compact(revision: int) -> None: ...

        await runtime.perform(test(Stores(runtime, await another(), await another(), another, compact)))

    world = World(1, buggify=False)
    world.run(main)
    world.check_no_failures()


def on_sqlite(test: Test, path: str, history: int) -> None:
    async def compact(revision: int) -> None: ...

    async def opened(runtime: Runtime) -> MetadataStore:
        store = SqliteStore(path, history)
        await store.open()
        return store

    _in_reality(test, opened, compact)


def on_etcd(test: Test, server: EtcdServer, history: int) -> None:
    cluster = f"cluster-{next(_clusters)}"

    async def compact(revision: int) -> None:
        client = EtcdClient([server.endpoint])
        client.open()
        await client.compact(revision)
        await client.close()

    async def opened(runtime: Runtime) -> MetadataStore:
        store = EtcdStore(runtime, EtcdClient([server.endpoint]), cluster, history)
        await store.open()
        return store

    _in_reality(test, opened, compact)


def _in_reality(test: Test, opened: Any, compact: Any) -> None:
    async def main(runtime: Runtime) -> None:
        handles: list[MetadataStore] = []

        async def another() -> MetadataStore:
            handles.append(await opened(runtime))
            return handles[-1]

        try:
            async with asyncio.timeout(100):
                await test(Stores(runtime, await another(), await another(), another, compact))
        finally:
            for handle in handles:
                await handle.close()

    run(main, log_level="error")


_ids = itertools.count(1)


def transaction(*parts: Any) -> Transaction:
    """Assertions and updates, in any order, under a fresh id."""
    asserts = tuple(part for part in parts if isinstance(part, Absent | Unchanged))
    updates = tuple(part for part in parts if isinstance(part, Put | Delete))
    return Transaction(next(_ids).to_bytes(16), asserts, updates)
