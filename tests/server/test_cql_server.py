"""The server with connections over a network, real and simulated, against a database without machinery."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from belvedere.query.options import QueryOptions
from belvedere.runtime.api import Connection, Runtime
from belvedere.runtime.errors import ConnectionRefused
from belvedere.runtime.real import run
from belvedere.server.connection_api import ServerSettings
from belvedere.server.cql_server import CqlServer
from belvedere.server.envelope import EnvelopeDecoder
from belvedere.server.messages_client import (
    ErrorReply,
    PreparedReply,
    ReadyReply,
    Reply,
    RowsReply,
    VoidReply,
    decode_response,
)
from belvedere.server.messages_requests import Execute, Prepare, Query, Request, Startup, encode_request
from belvedere.server.protocol import envelope
from belvedere.sim.world import World
from tests.server.protocol_support import FakeDatabase

Test = Callable[[Runtime], Coroutine[Any, Any, None]]


@pytest.fixture(params=["real", "fifo-1", "random-1", "random-2", "pct-3"])
def on_runtime(request: pytest.FixtureRequest) -> Callable[[Test], None]:
    def run_real(test: Test) -> None:
        async def main(runtime: Runtime) -> None:
            async with asyncio.timeout(60):
                await test(runtime)

        run(main, log_level="error")

    def run_simulated(test: Test) -> None:
        policy, seed = request.param.split("-")
        world = World(int(seed), policy=policy)

        async def main(world: World) -> None:
            runtime = world.boot("machine")
            await runtime.perform(test(runtime))

        world.run(main)

    return run_real if request.param == "real" else run_simulated


class Client:
    """A client over a real or simulated network, protocol v4."""

    def __init__(self) -> None:
        self.decoder = EnvelopeDecoder(1 << 28, responses=True)
        self.replies: dict[int, asyncio.Future[Reply]] = {}
        self.closed: asyncio.Event = asyncio.Event()
        self.connection: Connection | None = None

    @classmethod
    async def connect(cls, runtime: Runtime, address: tuple[str, int]) -> "Client":
        client = cls()
        await runtime.network.connect(*address, client)
        assert await client.ask(0, Startup({"CQL_VERSION": "3.4.7"})) == ReadyReply()
        return client

    def on_open(self, connection: Connection) -> None:
        self.connection = connection

    def on_data(self, data: bytes) -> None:
        for flags, stream, opcode, body in self.decoder.feed(data):
            self.replies.pop(stream).set_result(decode_response(opcode, body, 4, flags)[0])
        assert self.decoder.failure is None

    def on_drained(self) -> None:
        pass

    def on_close(self, error: Exception | None) -> None:
        self.closed.set()

    def send(self, stream: int, request: Request) -> "asyncio.Future[Reply]":
        assert self.connection is not None
        opcode, body = encode_request(request, 4)
        self.replies[stream] = asyncio.get_running_loop().create_future()
        self.connection.send(envelope(4, stream, opcode, body))
        return self.replies[stream]

    async def ask(self, stream: int, request: Request) -> Reply:
        return await self.send(stream, request)


def test_requests_of_many_clients(on_runtime: Callable[[Test], None]) -> None:
    async def test(runtime: Runtime) -> None:
        server = CqlServer(runtime, FakeDatabase(), ServerSettings(port=0))
        address = await server.start()
        clients = [await Client.connect(runtime, address) for _ in range(5)]
        assert len(server.connections) == 5
        for number, client in enumerate(clients):
            prepared = await client.ask(1, Prepare("SELECT ?"))
            assert isinstance(prepared, PreparedReply)
            wanted = [
                client.send(stream, Execute(prepared.id, None, False, QueryOptions(values=[b"%d" % stream])))
                for stream in range(100 + number)
            ]
            for stream, future in enumerate(wanted):
                reply = await future
                assert isinstance(reply, RowsReply)
                assert reply.rows == [[b"%d" % stream]]
        big = await clients[0].ask(9, Query("BIG 1000000", QueryOptions()))
        assert isinstance(big, RowsReply)
        assert len(big.rows[0][0] or b"") == 1_000_000
        assert {row["protocol_version"] for row in server.client_rows()} == {4}
        await server.stop()
        for client in clients:
            await client.closed.wait()
        assert server.connections == ()

    on_runtime(test)


def test_too_many_connections_are_closed_at_once(on_runtime: Callable[[Test], None]) -> None:
    async def test(runtime: Runtime) -> None:
        server = CqlServer(runtime, FakeDatabase(), ServerSettings(port=0, max_connections=2))
        address = await server.start()
        clients = [await Client.connect(runtime, address) for _ in range(2)]
        refused = Client()
        await runtime.network.connect(*address, refused)
        await refused.closed.wait()
        assert server.refused_connections == 1
        assert await clients[0].ask(1, Query("X", QueryOptions())) == VoidReply()
        # Room for one more as soon as one has gone.
        assert clients[0].connection is not None
        clients[0].connection.close()
        while len(server.connections) == 2:
            await runtime.clock.sleep(0.01)
        await Client.connect(runtime, address)
        await server.stop()

    on_runtime(test)


def test_stop_waits_for_requests_in_flight(on_runtime: Callable[[Test], None]) -> None:
    async def test(runtime: Runtime) -> None:
        database = FakeDatabase()
        server = CqlServer(runtime, database, ServerSettings(port=0, stop_seconds=1000))
        address = await server.start()
        client = await Client.connect(runtime, address)
        slow = client.send(1, Query("SLOW", QueryOptions()))
        written = client.send(2, Query("INSERT", QueryOptions()))
        while not database.gates or not database.position:
            await runtime.clock.sleep(0.01)
        stopping = runtime.spawn("stop", server.stop())
        await runtime.clock.sleep(0.1)
        assert not stopping.done()
        with pytest.raises(ConnectionRefused):
            await runtime.network.connect(*address, Client())
        database.open_gates()
        database.make_durable()
        await stopping.wait()
        assert (await slow, await written) == (VoidReply(), VoidReply())

    on_runtime(test)


def test_stop_waits_no_longer_than_it_should(on_runtime: Callable[[Test], None]) -> None:
    async def test(runtime: Runtime) -> None:
        database = FakeDatabase()
        server = CqlServer(runtime, database, ServerSettings(port=0, stop_seconds=0.2))
        client = await Client.connect(runtime, await server.start())
        client.send(1, Query("SLOW", QueryOptions()))
        while not database.gates:
            await runtime.clock.sleep(0.01)
        await server.stop()
        await client.closed.wait()
        assert server.connections == ()
        database.open_gates()

    on_runtime(test)


def test_a_client_that_reads_slowly_still_gets_everything(on_runtime: Callable[[Test], None]) -> None:
    async def test(runtime: Runtime) -> None:
        server = CqlServer(runtime, FakeDatabase(), ServerSettings(port=0, max_in_flight_bytes=3_000_000))
        client = await Client.connect(runtime, await server.start())
        assert client.connection is not None
        client.connection.pause_reading()
        futures = [client.send(stream, Query("BIG 500000", QueryOptions())) for stream in range(40)]
        await runtime.clock.sleep(0.5)
        (ours,) = server.connections
        assert ours._load < 6_000_000
        assert any(not future.done() for future in futures)
        client.connection.resume_reading()
        for future in futures:
            reply = await future
            assert isinstance(reply, RowsReply)
            assert len(reply.rows[0][0] or b"") == 500_000
        await server.stop()

    on_runtime(test)


def test_a_client_that_breaks_off_harms_nobody(on_runtime: Callable[[Test], None]) -> None:
    async def test(runtime: Runtime) -> None:
        database = FakeDatabase()
        server = CqlServer(runtime, database, ServerSettings(port=0))
        address = await server.start()
        gone, stays = await Client.connect(runtime, address), await Client.connect(runtime, address)
        gone.send(1, Query("SLOW", QueryOptions()))
        gone.send(2, Query("INSERT", QueryOptions()))
        while not database.gates or not database.position:
            await runtime.clock.sleep(0.01)
        assert gone.connection is not None
        gone.connection.abort()
        while len(server.connections) == 2:
            await runtime.clock.sleep(0.01)
        database.open_gates()
        database.make_durable()
        reply = await stays.ask(1, Query("INVALID", QueryOptions()))
        assert isinstance(reply, ErrorReply)
        await server.stop()

    on_runtime(test)


def test_limits_that_make_no_sense_are_refused() -> None:
    for wrong in (
        {"max_request": 1 << 29},
        {"max_in_flight": 0},
        {"max_connections": 0},
        {"max_response": 0},
    ):
        with pytest.raises(ValueError, match=r"limit"):
            ServerSettings(**wrong)  # type: ignore[arg-type]
