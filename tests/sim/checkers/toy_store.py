"""A store of registers too simple to be wrong, in which bugs can be planted, and clients that record what it
tells them. Its steps are interleaved as the seed has it."""

import asyncio
import random

from belvedere.sim.checkers.history import History, Operation, Value
from belvedere.sim.randomness import stream
from belvedere.sim.world import World

KEYS = ("x", "y", "z")
CLIENTS = 4
OPERATIONS = 25

BUGS = (
    "compares, waits, then sets",
    "reads a copy that lags",
    "acknowledges before it is durable",
    "carries out what it says has failed",
    "carries out again what was acknowledged long ago",
    "shows what is not durable",
)


class Refused(Exception):
    """Certainly not carried out."""


class ToyStore:
    def __init__(self, world: World, bug: str | None, generator: random.Random) -> None:
        self._bug = bug
        self._world = world
        self._generator = generator
        self.durable: dict[str, Value] = {}
        self._lagging: dict[str, Value] = {}
        self._unsynced: dict[str, Value] = {}
        self._life = 0

    def crash(self) -> None:
        """Forget what is not durable, and answer nobody who waits."""
        self._life += 1
        self._unsynced.clear()

    async def _step(self) -> None:
        await self._world.sleep(self._generator.random() * 0.002)

    async def _alive_step(self) -> None:
        life = self._life
        await self._step()
        if life != self._life:
            raise TimeoutError

    async def read(self, key: str) -> Value:
        await self._alive_step()
        if self._bug == "reads a copy that lags" and self._generator.random() < 0.2:
            found = self._lagging.get(key)
        elif self._bug == "shows what is not durable" and key in self._unsynced:
            found = self._unsynced[key]
        else:
            found = self.durable.get(key)
        await self._alive_step()
        return found

    async def write(self, key: str, value: Value) -> None:
        await self._alive_step()
        if self._generator.random() < 0.1:
            if self._bug == "carries out what it says has failed":
                await self._set(key, value)
            raise Refused
        await self._set(key, value)
        await self._alive_step()

    async def cas(self, key: str, expected: Value, value: Value) -> tuple[bool, Value]:
        await self._alive_step()
        found = self.durable.get(key)
        if self._bug == "compares, waits, then sets":
            await self._alive_step()
        if found != expected:
            return False, found
        # In one step with the comparison.
        self._install(key, value)
        await self._alive_step()
        return True, found

    async def _set(self, key: str, value: Value) -> None:
        later = asyncio.get_running_loop().call_later
        if self._bug in ("acknowledges before it is durable", "shows what is not durable"):
            self._unsynced[key] = value
            life = self._life
            later(self._generator.random() * 0.002, self._sync, key, value, life)
            if self._bug == "shows what is not durable":
                await self._world.sleep(0.002)
                if life != self._life:
                    raise TimeoutError
            return
        self._install(key, value)
        if self._bug == "carries out again what was acknowledged long ago" and self._generator.random() < 0.1:
            later(0.02, self._install, key, value)

    def _sync(self, key: str, value: Value, life: int) -> None:
        if life == self._life:
            self._unsynced.pop(key, None)
            self._install(key, value)

    def _install(self, key: str, value: Value) -> None:
        self.durable[key] = value
        if self._bug == "reads a copy that lags":
            asyncio.get_running_loop().call_later(0.005, self._lagging.__setitem__, key, value)


async def run_clients(world: World, bug: str | None) -> tuple[History, dict[str, Value]]:
    """What the clients recorded through crashes and timeouts, and what the store holds at the end."""
    history = History(lambda: world.loop.now_ns)
    store = ToyStore(world, bug, stream(world.seed, "toy store"))
    clients = [asyncio.create_task(_client(world, history, store, number)) for number in range(CLIENTS)]
    generator = stream(world.seed, "crashes")
    for _ in range(3):
        await world.sleep(generator.random() * 0.05)
        store.crash()
    for client in clients:
        await client
    await world.sleep(1)
    return history, {key: store.durable.get(key) for key in KEYS}


async def _client(world: World, history: History, store: ToyStore, number: int) -> None:
    generator = stream(world.seed, "client", number)
    name = f"c{number}"
    last: dict[str, Value] = {}
    for count in range(OPERATIONS):
        key = generator.choice(KEYS)
        value = number * OPERATIONS + count
        kind = generator.random()
        if kind < 0.5:
            op = history.read(name, key)
        elif kind < 0.8:
            op = history.write(name, key, value)
        else:
            op = history.cas(name, key, last.get(key), value)
        try:
            async with asyncio.timeout(0.005):
                await _carry_out(history, store, op, last)
        except TimeoutError:
            continue
        except Refused:
            history.failed(op)


async def _carry_out(history: History, store: ToyStore, op: Operation, last: dict[str, Value]) -> None:
    match op.kind.value:
        case "read":
            last[op.key] = await store.read(op.key)
            history.found(op, last[op.key])
        case "write":
            await store.write(op.key, op.value)
            last[op.key] = op.value
            history.done(op)
        case _:
            applied, seen = await store.cas(op.key, op.expected, op.value)
            if applied:
                last[op.key] = op.value
                history.done(op)
            else:
                last[op.key] = seen
                history.refused(op, seen)
