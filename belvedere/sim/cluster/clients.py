"""Clients of the simulated cluster: registers, batches, counters, and a table that is truncated at times."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from belvedere.sim.checkers.history import Operation
from belvedere.sim.cluster.asking import ALL, ONE, QUORUM, Asker, NoAnswer, Refused, Row, Unknown
from belvedere.sim.cluster.memory import Batch, Increment, Insert, Memory, Told, WeakRead
from belvedere.sim.cluster.nodes import Cluster
from belvedere.sim.randomness import stream

#: Registers that are written under conditions, too; and those that batches write, which do not go with them:
#: a part of a batch has the time of its batch, so what was decided meanwhile is not aware of it.
KEYS, PAIRED = 3, 2
#: Partitions that batches write to.
SHELVES = 6

#: Most of what clients ask is asked at QUORUM.
_LEVELS = (QUORUM, QUORUM, QUORUM, ONE, ALL)

T = TypeVar("T")
Work = Callable[[], Awaitable[None]]


class Client:
    """One thing after the other, as long as the run lasts."""

    def __init__(self, cluster: Cluster, memory: Memory, name: str) -> None:
        self.name = name
        self.random = stream(cluster.world.seed, "cluster client", name)
        self.asker = Asker(cluster, self.random)
        self.cluster = cluster
        self.memory = memory

    def works(self) -> dict[str, Work]:
        """By the names that a plan has for them."""
        return {}

    async def run(self) -> None:
        works = [work for name, work in self.works().items() if name in self.cluster.plan.works]
        while works and not self.memory.stopped:
            await asyncio.sleep(self.cluster.plan.haste * (0.2 + 1.6 * self.random.random()))
            try:
                await self.one_of(works)()
            except Unknown as error:
                self.cluster.findings.append(f"{self.name} was told: {error}")
            except (Refused, NoAnswer):
                # As somebody who tries again would.
                await asyncio.sleep(0.02)

    def one_of(self, some: Sequence[T]) -> T:
        return some[int(self.random.random() * len(some))]

    @property
    def now(self) -> int:
        return self.cluster.world.loop.now_ns

    async def do(self, told: Told, text: str, level: int) -> None:
        """Ask for something to be done, and note how that ended."""
        try:
            await self.asker.ask(text, level)
        except Refused:
            told.done, told.ended = False, self.now
            raise
        told.done, told.ended = True, self.now


class DataClient(Client):
    def __init__(self, cluster: Cluster, memory: Memory, name: str) -> None:
        super().__init__(cluster, memory, name)
        self._seen: dict[str, int | None] = {}

    def works(self) -> dict[str, Work]:
        return {
            "registers": self._register,
            "batches": self._batch,
            "counters": self._increment,
            "truncation": self._insert,
        }

    # --- registers -----------------------------------------------------------------------------------

    async def _register(self) -> None:
        key = str(int(self.random.random() * (KEYS + PAIRED)))
        share = self.random.random()
        if share < 0.3:
            await self.read(key)
        elif share < 0.4:
            await self._read_at_one(key)
        elif share < 0.65:
            await self.write(key, self.memory.next_value(), self.one_of(_LEVELS))
        elif share < 0.7:
            await self.write(key, None, QUORUM)
        elif int(key) >= KEYS:
            await self._write_pair()
        else:
            await self._swap(key)

    async def read(self, key: str, machine: str | None = None) -> None:
        operation = self.memory.history.read(self.name, key)
        rows = await self._noting(operation, f"SELECT v FROM registers WHERE k = {key}", QUORUM, machine)
        value = self._seen[key] = rows[0]["v"] if rows else None
        self.memory.history.found(operation, value)

    async def _read_at_one(self, key: str) -> None:
        began = self.now
        rows = await self.asker.ask(f"SELECT v FROM registers WHERE k = {key}", ONE)
        self.memory.weak_reads.append(WeakRead(key, rows[0]["v"] if rows else None, began))

    async def write(self, key: str, value: int | None, level: int, machine: str | None = None) -> None:
        operation = self.memory.history.write(self.name, key, value)
        if value is None:
            text = f"DELETE FROM registers WHERE k = {key}"
        elif value % 2:
            text = f"INSERT INTO registers (k, v) VALUES ({key}, {value})"
        else:
            text = f"UPDATE registers SET v = {value} WHERE k = {key}"
        await self._noting(operation, text, level, machine)
        self._seen[key] = value
        self.memory.history.done(operation)

    async def _swap(self, key: str) -> None:
        """Often under a condition that holds."""
        expected, value = self._seen.get(key), self.memory.next_value()
        operation = self.memory.history.cas(self.name, key, expected, value)
        if expected is None:
            text = f"INSERT INTO registers (k, v) VALUES ({key}, {value}) IF NOT EXISTS"
        else:
            text = f"UPDATE registers SET v = {value} WHERE k = {key} IF v = {expected}"
        row = (await self._noting(operation, text, QUORUM))[0]
        if row["[applied]"]:
            self._seen[key] = value
            self.memory.history.done(operation)
        else:
            seen = self._seen[key] = row.get("v")
            self.memory.history.refused(operation, seen)

    async def _noting(
        self, operation: Operation, text: str, level: int, machine: str | None = None
    ) -> list[Row]:
        try:
            return await self.asker.ask(text, level, machine=machine)
        except Refused:
            self.memory.history.failed(operation)
            raise

    async def _write_pair(self) -> None:
        """One batch: both are written, each at a moment of its own."""
        keys = [str(KEYS + number) for number in self.random.sample(range(PAIRED), PAIRED)]
        values = [self.memory.next_value() for _ in keys]
        operations = [
            self.memory.history.write(self.name, key, value) for key, value in zip(keys, values, strict=True)
        ]
        parts = [
            f"INSERT INTO registers (k, v) VALUES ({key}, {value})"
            for key, value in zip(keys, values, strict=True)
        ]
        try:
            await self.asker.ask(f"BEGIN BATCH {'; '.join(parts)}; APPLY BATCH", self.one_of(_LEVELS))
        except Refused:
            for operation in operations:
                self.memory.history.failed(operation)
            raise
        for operation in operations:
            self.memory.history.done(operation)

    # --- batches -------------------------------------------------------------------------------------

    async def _batch(self) -> None:
        """What is acknowledged is there, whomever one asks."""
        number = self.memory.next_value()
        count = self.one_of((1, 2, 2, 3, 4))
        keys = tuple(self.random.sample(range(SHELVES), count))
        batch = Batch(self.now, number=number, keys=keys)
        self.memory.batches.append(batch)
        parts = [f"INSERT INTO parts (k, n, v) VALUES ({key}, {number}, {number % 5})" for key in keys]
        text = parts[0] if count == 1 else f"BEGIN BATCH {'; '.join(parts)}; APPLY BATCH"
        await self.do(batch, text, self.one_of(_LEVELS))
        if self.random.random() < 0.3:
            key = self.one_of(keys)
            found = await self.asker.ask(f"SELECT v FROM parts WHERE k = {key} AND n = {number}")
            if not found:
                self.cluster.findings.append(f"batch {number} was acknowledged, and {key} has it not yet")

    # --- counters ------------------------------------------------------------------------------------

    async def _increment(self) -> None:
        key = int(self.random.random() * KEYS)
        if self.random.random() < 0.3:
            await self._look_at_counter(key)
            return
        increment = Increment(self.now, key=key)
        self.memory.increments.append(increment)
        await self.do(increment, f"UPDATE counters SET n = n + 1 WHERE k = {key}", QUORUM)

    async def _look_at_counter(self, key: int) -> None:
        known = [one for one in self.memory.increments if one.key == key]
        least = sum(one.done is True for one in known)
        rows = await self.asker.ask(f"SELECT n FROM counters WHERE k = {key}")
        found = rows[0]["n"] if rows else 0
        most = sum(one.done is not False for one in self.memory.increments if one.key == key)
        # Those that were refused meanwhile were never counted.
        if not least <= found <= most:
            self.cluster.findings.append(f"counter {key} shows {found}, of {least} to {most} increments")

    # --- truncation ----------------------------------------------------------------------------------

    async def _insert(self) -> None:
        if self.random.random() < 0.08:
            truncation = Told(self.now)
            self.memory.truncations.append(truncation)
            await self.do(truncation, "TRUNCATE emptied", QUORUM)
            return
        numbers = tuple(self.memory.next_value() for _ in range(self.one_of((1, 1, 2, 3))))
        insert = Insert(self.now, numbers=numbers)
        self.memory.inserts.append(insert)
        parts = [f"INSERT INTO emptied (k, n) VALUES ({number % 4}, {number})" for number in numbers]
        text = parts[0] if len(parts) == 1 else f"BEGIN BATCH {'; '.join(parts)}; APPLY BATCH"
        await self.do(insert, text, self.one_of(_LEVELS))
