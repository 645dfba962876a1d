"""Scenarios that can be run by name under any seed. Each uses the world as product code would."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from belvedere.runtime.api import Connection, Runtime
from belvedere.runtime.errors import DiskError, NetworkError
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World

Scenario = Callable[[World], Coroutine[Any, Any, None]]


class _Counter:
    """Serves "append one byte" requests from its log, and answers only what is durable."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._queue: asyncio.Queue[tuple[bytes, Connection]] = asyncio.Queue()

    async def start(self, port: int) -> None:
        disk = self._runtime.disk
        await disk.make_directory("data")
        self._log = await disk.append("data/log", preallocate=8192)
        await disk.sync_directory("data")
        await self._runtime.network.listen("0.0.0.0", port, lambda: _Requests(self._queue))
        self._runtime.spawn("serve", self._serve())

    async def _serve(self) -> None:
        while True:
            data, connection = await self._queue.get()
            if pause := self._runtime.buggify("counter.before_append"):
                await pause
            await self._log.write_and_sync(data)
            checksum = await self._runtime.compute(lambda data=data: sum(data) % 256)  # type: ignore[misc]
            self._runtime.sometimes("counter.batched", len(data) > 1)
            connection.send(bytes([len(data), checksum]))


class _Requests:
    def __init__(self, queue: "asyncio.Queue[tuple[bytes, Connection]]") -> None:
        self._queue = queue

    def on_open(self, connection: Connection) -> None:
        self._connection = connection

    def on_data(self, data: bytes) -> None:
        self._queue.put_nowait((data, self._connection))

    def on_drained(self) -> None: ...

    def on_close(self, error: Exception | None) -> None: ...


class _Answers:
    def __init__(self) -> None:
        self.confirmed = 0
        self._rest = b""
        self.closed = asyncio.Event()

    def on_open(self, connection: Connection) -> None: ...

    def on_data(self, data: bytes) -> None:
        data = self._rest + data
        whole = len(data) - len(data) % 2
        self._rest = data[whole:]
        self.confirmed += sum(data[:whole:2])

    def on_drained(self) -> None: ...

    def on_close(self, error: Exception | None) -> None:
        self.closed.set()


async def _client(runtime: SimRuntime, server: str, confirmed: list[int]) -> None:
    for _ in range(5):
        answers = _Answers()
        try:
            async with asyncio.timeout(2.0):
                connection = await runtime.network.connect(server, 7000, answers)
        except (NetworkError, TimeoutError):
            await runtime.clock.sleep(runtime.random.random())
            continue
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(_send_some(runtime, connection))
        await runtime.clock.sleep(0.5)
        connection.close()
        await answers.closed.wait()
        confirmed.append(answers.confirmed)


async def _send_some(runtime: SimRuntime, connection: Connection) -> None:
    for _ in range(runtime.random.randint(1, 8)):
        connection.send(runtime.random.bytes(1).replace(b"\0", b"\1"))
        await runtime.clock.sleep(runtime.random.random() / 50)


async def appends(world: World) -> None:
    """Clock, tasks, disk, network and crashes: what a server confirmed is in its log after a power loss."""
    faults = world.fault_random
    server = world.boot("server")
    await server.perform(_Counter(server).start(7000))
    confirmed: list[int] = []
    clients = [world.boot(f"client-{number}") for number in range(3)]
    work = [asyncio.create_task(client.perform(_client(client, "server", confirmed))) for client in clients]
    await world.sleep(faults.random() * 2)
    world.network.partition(["client-0"], ["server"], one_way=faults.random() < 0.5)
    await world.sleep(faults.random() * 3)
    world.network.heal()
    world.pause("server", 0.2)
    await world.sleep(faults.random())
    world.crash("server", lose_unsynced=faults.random() < 0.7)
    await world.sleep(faults.random())
    server = world.boot("server")
    try:
        survived = len((await server.disk.read("data/log")).rstrip(b"\0"))
    except DiskError as error:
        world.record("scenario", type(error).__name__)
        survived = 0
    before_crash = sum(confirmed)
    world.record("scenario", f"survived {survived} confirmed {before_crash}")
    if survived < before_crash:
        raise AssertionError(f"{before_crash} bytes were confirmed, {survived} survived")
    await asyncio.gather(*work)


SCENARIOS: dict[str, Scenario] = {"appends": appends}


def register(name: str, scenario: Scenario) -> None:
    """Make a scenario known to `python -m belvedere.sim.determinism` and to whatever runs seeds by name."""
    if SCENARIOS.setdefault(name, scenario) is not scenario:
        raise ValueError(f"there is another scenario named {name!r}")
