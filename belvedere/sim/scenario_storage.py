"""Scenario: a storage engine under load, crashes and disk errors, checked after each restart.

Every key holds a counter that only grows and is written by one client. What a client was told, by an
acknowledged write or by a durable read, must never be taken back. Batches write one number into a key of each
tablet, and must be found everywhere or nowhere.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from belvedere.model.mutations import Mutation
from belvedere.model.rows import Row
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.token import token_of
from belvedere.model.types import native
from belvedere.runtime.errors import DiskError
from belvedere.sim.incarnation import MachineCrashed
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.scenarios import register
from belvedere.sim.world import World
from belvedere.storage.engine import EngineOptions, StorageEngine, Write
from belvedere.storage.errors import StorageError
from belvedere.storage.reads import MAX_TOKEN, MIN_TOKEN, PartitionRead, RangeRead
from belvedere.storage.tablet import TabletStore

_TABLETS = 4
_CLIENTS = 3
_KEYS = 6
_LIVES = 3


@dataclass(frozen=True)
class _Tablet:
    id: int
    table: bytes
    first_token: int
    last_token: int
    epoch: int = 1


@dataclass(frozen=True)
class _Tablets:
    tablets: Sequence[_Tablet]


def _table() -> Table:
    def column(name: str, type_name: str, kind: ColumnKind, position: int) -> Column:
        return Column(name, native(type_name), kind, position)

    columns = (
        column("k", "int", ColumnKind.PARTITION_KEY, 0),
        column("n", "bigint", ColumnKind.REGULAR, 0),
        column("filler", "blob", ColumnKind.REGULAR, 1),
    )
    return Table(bytes(16), "sim", "counters", columns, {}, regular_ordinals=2)


def _tablets(table: Table) -> _Tablets:
    step = 2**64 // _TABLETS
    firsts = [MIN_TOKEN + index * step for index in range(_TABLETS)]
    lasts = [first - 1 for first in firsts[1:]] + [MAX_TOKEN]
    pairs = zip(firsts, lasts, strict=True)
    return _Tablets([_Tablet(index + 1, table.id, *bounds) for index, bounds in enumerate(pairs)])


@dataclass
class _Known:
    """What the outside knows: it survives every crash."""

    tried: dict[bytes, int] = field(default_factory=dict)
    told: dict[bytes, int] = field(default_factory=dict)
    batches: int = 0


def _key(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


class _Node:
    """One life of the machine."""

    def __init__(self, world: World, runtime: SimRuntime, known: _Known) -> None:
        self._world = world
        self._runtime = runtime
        self._known = known
        self._table = _table()

    async def live(self) -> None:
        options = EngineOptions(
            segment_bytes=16 << 10, closed_segments=3, memtable_bytes=60_000, cache_bytes=200_000
        )
        tables, tablets = {self._table.id: self._table}, {self._table.id: _tablets(self._table)}
        self._engine = await StorageEngine.open(self._runtime, "data", tables, tablets, options)
        self._batch_keys = [self._key_in(store) for store in self._engine.stores.values()]
        await self._check()
        for client in range(_CLIENTS):
            self._runtime.spawn(f"client {client}", self._client(client))
        self._runtime.spawn("batches", self._batches())
        self._runtime.spawn("upkeep", self._upkeep())

    def _store(self, token: int) -> TabletStore:
        stores = self._engine.stores.values()
        return next(store for store in stores if store.first_token <= token <= store.last_token)

    def _key_in(self, store: TabletStore) -> bytes:
        """A key of the batches' own in this tablet."""
        keys = (_key(number) for number in range(1000, 9999))
        return next(key for key in keys if store.first_token <= token_of(key) <= store.last_token)

    def _mutation(self, key: bytes, number: int) -> Mutation:
        filler = bytes(self._runtime.random.randint(0, 300))
        row = Row(number, 0, 0, True, None, [number.to_bytes(8, "big"), filler])
        return Mutation(self._table.id, token_of(key), key, [(b"", row)])

    async def _read(self, key: bytes) -> int:
        read = PartitionRead(token_of(key), key, row=b"")
        found = await self._store(read.token).read(read, 0)
        if found.after:
            await self._engine.durable(found.after)
        return int.from_bytes(found.rows[0][1].cells[0], "big") if found.rows else 0  # type: ignore[arg-type]

    # After a restart.

    async def _check(self) -> None:
        known = self._known
        for key in sorted(known.tried):
            number, told = await self._read(key), known.told.get(key, 0)
            if not told <= number <= known.tried[key]:
                raise AssertionError(f"{key.hex()}: told {told}, tried {known.tried[key]}, found {number}")
            self._runtime.sometimes("storage.unacknowledged_survived", number > told)
            known.told[key] = number
        found = [await self._read(key) for key in self._batch_keys]
        if len(set(found)) > 1 or found[0] < known.batches:
            raise AssertionError(f"batches: told {known.batches}, found {found}")
        known.batches = found[0]
        await self._check_scan()

    async def _check_scan(self) -> None:
        count = 0
        for store in self._engine.stores.values():
            read = RangeRead((store.first_token, b""), store.last_token, limit=5)
            while True:
                page = await store.scan(read, 0)
                count += len(page.partitions)
                if page.next is None:
                    break
                read = RangeRead(page.next, store.last_token, limit=5)
        expected = sum(1 for number in self._known.told.values() if number)
        expected += _TABLETS if self._known.batches else 0
        if count != expected:
            raise AssertionError(f"a scan found {count} partitions, {expected} are there")

    # Under load.

    async def _client(self, client: int) -> None:
        known, random = self._known, self._runtime.random
        keys = [_key(client * _KEYS + number) for number in range(_KEYS)]
        while True:
            key = keys[random.randint(0, _KEYS - 1)]
            try:
                if random.random() < 0.8:
                    number = known.tried[key] = known.tried.get(key, 0) + 1
                    await self._write(self._mutation(key, number))
                else:
                    number = await self._read(key)
            except (StorageError, DiskError):
                self._runtime.sometimes("storage.refused")
                await self._runtime.clock.sleep(0.1)
                continue
            if number < known.told.get(key, 0):
                raise AssertionError(f"{key.hex()}: told {known.told[key]}, found {number}")
            known.told[key] = number
            if random.random() < 0.1:
                await self._runtime.clock.sleep(random.random() * 0.02)

    async def _write(self, mutation: Mutation) -> None:
        store = self._store(mutation.token)
        position = self._engine.write_now(store, mutation)
        if position is None:
            self._runtime.sometimes("storage.waited_for_room")
            position = await self._engine.write([Write(store, mutation)])
        await self._engine.durable(position)

    async def _batches(self) -> None:
        number = self._known.batches
        while True:
            number += 1
            mutations = [self._mutation(key, number) for key in self._batch_keys]
            try:
                position = await self._engine.write([Write(self._store(m.token), m) for m in mutations])
                await self._engine.durable(position)
            except StorageError:
                await self._runtime.clock.sleep(0.1)
                continue
            self._known.batches = number
            await self._runtime.clock.sleep(self._runtime.random.random() * 0.05)

    async def _upkeep(self) -> None:
        random = self._runtime.random
        while True:
            await self._runtime.clock.sleep(random.random() * 0.3)
            store = self._engine.store(random.randint(1, _TABLETS))
            try:
                if random.random() < 0.6:
                    await self._engine.flush([store])
                else:
                    await self._engine.compact(store)
            except (StorageError, DiskError):
                self._runtime.sometimes("storage.upkeep_failed")


async def storage(world: World) -> None:
    known = _Known()
    faults, plan = world.disk("node").faults, world.fault_random
    for life in range(_LIVES):
        runtime = world.boot("node")
        living = asyncio.create_task(runtime.perform(_Node(world, runtime, known).live()))
        await world.sleep(plan.random() * 0.6)
        if plan.random() < 0.3:
            faults.broken_writes = faults.broken_syncs = 0.01
        if plan.random() < 0.3:
            faults.full = True
        await world.sleep(plan.random() * 0.6)
        faults.broken_writes = faults.broken_syncs = 0.0
        faults.full = False
        await world.sleep(plan.random() * 0.3)
        world.crash("node", lose_unsynced=plan.random() < 0.8)
        try:
            await living
        except MachineCrashed:
            world.mark("storage.crashed_while_opening")
        except (DiskError, StorageError):
            world.mark("storage.refused_to_open")
        world.record("scenario", f"life {life}: told {sorted(known.told.values())} {known.batches}")
    runtime = world.boot("node")
    await runtime.perform(_Node(world, runtime, known).live())


register("storage", storage)
