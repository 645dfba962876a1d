"""One contract for every runtime: the same tests run on the real one and on the simulated one."""

import asyncio
import contextvars
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from belvedere.runtime.api import Connection, Runtime
from belvedere.runtime.errors import (
    AddressInUse,
    AlreadyLocked,
    ConnectionRefused,
    DiskError,
    FileExists,
    FileMissing,
)
from belvedere.runtime.real import run
from belvedere.sim.world import World

Test = Callable[[Runtime, str], Coroutine[Any, Any, None]]
Harness = Callable[[Test], None]

SIMULATED = [(policy, seed) for policy in ("fifo", "random", "pct") for seed in (1, 2)]


@pytest.fixture(params=["real", *(f"{policy}-{seed}" for policy, seed in SIMULATED)])
def on_runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    """Runs a coroutine function (runtime, directory) to its end."""

    def run_real(test: Test) -> None:
        async def main(runtime: Runtime) -> None:
            # A hang must end by itself: the event loop swallows what a test runner's signal raises.
            async with asyncio.timeout(100):
                await test(runtime, str(tmp_path))

        run(main, log_level="error")

    def run_simulated(test: Test) -> None:
        policy, seed = request.param.split("-")
        world = World(int(seed), policy=policy)

        async def main(world: World) -> None:
            runtime = world.boot("machine")
            await runtime.disk.make_directory("home")
            await runtime.perform(test(runtime, "home"))

        world.run(main)

    return run_real if request.param == "real" else run_simulated


# ----------------------------------------------------------------------------------------------------- disk


def test_write_then_read(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        disk = runtime.disk
        await disk.write(f"{home}/a", b"0123456789")
        assert await disk.read(f"{home}/a") == b"0123456789"
        assert await disk.read(f"{home}/a", 3) == b"3456789"
        assert await disk.read(f"{home}/a", 3, 4) == b"3456"
        assert await disk.read(f"{home}/a", 8, 10) == b"89"
        assert await disk.read(f"{home}/a", 20, 10) == b""
        assert await disk.read(f"{home}/a", 20) == b""
        await disk.write(f"{home}/a", b"new")
        assert await disk.read(f"{home}/a") == b"new"
        assert await disk.size(f"{home}/a") == 3

    on_runtime(test)


def test_append_continues_at_the_end(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        file = await runtime.disk.append(f"{home}/log")
        assert file.path == f"{home}/log"
        assert file.position == 0
        await file.write(b"one,")
        await file.write_and_sync(b"two,")
        await file.sync()
        assert file.position == 8
        await file.close()
        file = await runtime.disk.append(f"{home}/log")
        assert file.position == 8
        await file.write(b"three")
        await file.close()
        assert await runtime.disk.read(f"{home}/log") == b"one,two,three"

    on_runtime(test)


def test_append_at_a_position_of_a_preallocated_file(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        file = await runtime.disk.append(f"{home}/log", preallocate=100)
        assert file.position == 0
        await file.write_and_sync(b"abc")
        await file.close()
        assert await runtime.disk.size(f"{home}/log") == 100
        assert await runtime.disk.read(f"{home}/log") == b"abc" + bytes(97)
        file = await runtime.disk.append(f"{home}/log", preallocate=200, position=3)
        await file.write(b"def")
        await file.close()
        assert await runtime.disk.read(f"{home}/log") == b"abcdef" + bytes(194)
        file = await runtime.disk.append(f"{home}/log", preallocate=10)
        assert file.position == 200
        await file.close()
        assert await runtime.disk.size(f"{home}/log") == 200

    on_runtime(test)


def test_a_closed_file_refuses_writes(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        file = await runtime.disk.append(f"{home}/log")
        await file.close()
        await file.close()
        with pytest.raises(DiskError, match="closed"):
            await file.write(b"x")
        with pytest.raises(DiskError, match="closed"):
            await file.sync()

    on_runtime(test)


def test_cancelling_a_write_does_not_stop_it(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        file = await runtime.disk.append(f"{home}/log")
        writing = asyncio.create_task(file.write_and_sync(b"first"))
        await asyncio.sleep(0)
        while file.position == 0:
            await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert file.position == 5
        await file.write_and_sync(b"second")
        await file.close()
        while await runtime.disk.size(f"{home}/log") < 11:
            await runtime.clock.sleep(0.001)
        assert await runtime.disk.read(f"{home}/log") == b"firstsecond"

    on_runtime(test)


def test_operations_on_a_file_keep_their_order(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        file = await runtime.disk.append(f"{home}/log")
        async with asyncio.TaskGroup() as group:
            for number in range(30):
                operation = file.write if number % 3 else file.write_and_sync
                group.create_task(operation(b"%d," % number))
            group.create_task(file.sync())
        # Tasks start in any order under a random schedule; what they wrote must be whole, without holes.
        content = await runtime.disk.read(f"{home}/log")
        assert file.position == len(content)
        assert sorted(content.split(b",")) == sorted([b"", *(b"%d" % number for number in range(30))])
        for number in range(5):
            begun = asyncio.create_task(file.write(b"%d" % number))
            while file.position == len(content) + number:
                await asyncio.sleep(0)
            begun.cancel()
        await file.sync()
        await file.close()
        assert (await runtime.disk.read(f"{home}/log"))[len(content) :] == b"01234"

    on_runtime(test)


def test_rename_replaces(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        disk = runtime.disk
        await disk.write(f"{home}/new", b"new")
        await disk.write(f"{home}/old", b"old")
        await disk.rename(f"{home}/new", f"{home}/old")
        await disk.sync_directory(home)
        assert await disk.list(home) == ["old"]
        assert await disk.read(f"{home}/old") == b"new"
        await disk.make_directory(f"{home}/work/deep")
        await disk.rename(f"{home}/work", f"{home}/done")
        assert await disk.list(f"{home}/done") == ["deep"]

    on_runtime(test)


def test_links_share_content(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        disk = runtime.disk
        await disk.write(f"{home}/a", b"content")
        await disk.link(f"{home}/a", f"{home}/b")
        with pytest.raises(FileExists):
            await disk.link(f"{home}/a", f"{home}/b")
        await disk.remove(f"{home}/a")
        assert await disk.read(f"{home}/b") == b"content"

    on_runtime(test)


def test_directories(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        disk = runtime.disk
        await disk.make_directory(f"{home}/x/y/z")
        await disk.make_directory(f"{home}/x/y/z")
        for name in ("b", "a", "c"):
            await disk.write(f"{home}/x/{name}", b"")
        assert await disk.list(f"{home}/x") == ["a", "b", "c", "y"]
        assert await disk.list(f"{home}/absent") == []
        assert await disk.exists(f"{home}/x/a")
        assert not await disk.exists(f"{home}/x/d")
        await disk.remove(f"{home}/x/b")
        assert not await disk.exists(f"{home}/x/b")
        await disk.remove_tree(f"{home}/x")
        await disk.remove_tree(f"{home}/x")
        assert await disk.list(home) == []

    on_runtime(test)


def test_what_is_missing_is_named(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        disk = runtime.disk
        absent = f"{home}/absent"
        with pytest.raises(FileMissing, match="absent"):
            await disk.read(absent)
        with pytest.raises(FileMissing):
            await disk.size(absent)
        with pytest.raises(FileMissing):
            await disk.remove(absent)
        with pytest.raises(FileMissing):
            await disk.rename(absent, f"{home}/b")
        with pytest.raises(FileMissing):
            await disk.link(absent, f"{home}/b")
        with pytest.raises(FileMissing):
            await disk.write(f"{absent}/file", b"")
        with pytest.raises(FileMissing):
            await disk.append(f"{absent}/file")
        with pytest.raises(FileMissing):
            await disk.sync_directory(absent)
        with pytest.raises(FileMissing):
            await disk.lock(f"{absent}/lock")

    on_runtime(test)


def test_files_and_directories_are_not_confused(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        disk = runtime.disk
        await disk.make_directory(f"{home}/directory")
        await disk.write(f"{home}/file", b"")
        with pytest.raises(DiskError):
            await disk.read(f"{home}/directory")
        with pytest.raises(DiskError):
            await disk.write(f"{home}/directory", b"")
        with pytest.raises(DiskError):
            await disk.remove(f"{home}/directory")
        with pytest.raises(DiskError):
            await disk.list(f"{home}/file")
        with pytest.raises(DiskError):
            await disk.remove_tree(f"{home}/file")
        with pytest.raises(FileExists):
            await disk.make_directory(f"{home}/file")

    on_runtime(test)


def test_a_lock_is_held_until_released(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        lock = await runtime.disk.lock(f"{home}/lock")
        with pytest.raises(AlreadyLocked):
            await runtime.disk.lock(f"{home}/lock")
        await lock.release()
        await lock.release()
        again = await runtime.disk.lock(f"{home}/lock")
        await lock.release()
        with pytest.raises(AlreadyLocked):
            await runtime.disk.lock(f"{home}/lock")
        await again.release()

    on_runtime(test)


def test_there_is_room(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        assert await runtime.disk.free_bytes(home) > 0

    on_runtime(test)


# -------------------------------------------------------------------------------------------------- network


class Recorder:
    """A handler that writes down what it hears."""

    def __init__(self, *, echo: bool = False) -> None:
        self.echo = echo
        self.data = bytearray()
        self.events: list[str] = []
        self.error: Exception | None = None
        self.connection: Connection
        self.closed = asyncio.Event()
        self.changed = asyncio.Event()

    def on_open(self, connection: Connection) -> None:
        self.connection = connection
        self.events.append("open")

    def on_data(self, data: bytes) -> None:
        assert data
        assert "close" not in self.events
        self.data += data
        if self.echo:
            self.connection.send(data)
        self.changed.set()

    def on_drained(self) -> None:
        self.events.append("drained")
        self.changed.set()

    def on_close(self, error: Exception | None) -> None:
        self.error = error
        self.events.append("close")
        self.closed.set()
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()


class Server:
    def __init__(self, **options: Any) -> None:
        self.options = options
        self.accepted: list[Recorder] = []

    def __call__(self) -> Recorder:
        self.accepted.append(Recorder(**self.options))
        return self.accepted[-1]

    async def start(self, runtime: Runtime) -> int:
        self.listener = await runtime.network.listen("127.0.0.1", 0, self)
        host, port = self.listener.address
        assert host == "127.0.0.1"
        return port


def test_bytes_arrive_whole_and_in_order(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        server, client = Server(echo=True), Recorder()
        port = await server.start(runtime)
        connection = await runtime.network.connect("127.0.0.1", port, client)
        assert client.events == ["open"]
        assert client.connection is connection
        assert connection.peer == f"127.0.0.1:{port}" or connection.peer.endswith(f":{port}")
        sent = b"".join(b"%d," % number for number in range(2000))
        for number in range(2000):
            connection.send(b"%d," % number)
            if number % 100 == 0:
                await asyncio.sleep(0)
        await client.until(lambda: len(client.data) == len(sent))
        assert bytes(client.data) == sent
        assert connection.pending == 0
        connection.close()
        await client.closed.wait()
        await server.accepted[0].closed.wait()
        assert client.error is None
        assert server.accepted[0].error is None
        await server.listener.close()

    on_runtime(test)


def test_close_flushes_and_abort_does_not_look_orderly(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        server = Server()
        port = await server.start(runtime)
        flushed, aborted = Recorder(), Recorder()
        connection = await runtime.network.connect("127.0.0.1", port, flushed)
        connection.send(bytes(1_000_000))
        connection.close()
        connection.send(b"ignored")
        connection.close()
        await flushed.closed.wait()
        await server.accepted[0].closed.wait()
        assert len(server.accepted[0].data) == 1_000_000
        assert server.accepted[0].error is None
        connection = await runtime.network.connect("127.0.0.1", port, aborted)
        while len(server.accepted) < 2 or not server.accepted[1].events:
            await runtime.clock.sleep(0.001)
        connection.abort()
        await aborted.closed.wait()
        await server.accepted[1].closed.wait()
        assert aborted.error is None
        assert server.accepted[1].error is not None
        for handler in (flushed, aborted, *server.accepted):
            assert handler.events.count("open") == 1
            assert handler.events.count("close") == 1
        await server.listener.close()

    on_runtime(test)


def test_a_slow_reader_makes_bytes_pend(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        server, client = Server(), Recorder()
        port = await server.start(runtime)
        connection = await runtime.network.connect("127.0.0.1", port, client)
        while not server.accepted or not server.accepted[0].events:
            await runtime.clock.sleep(0.001)
        reader = server.accepted[0]
        reader.connection.pause_reading()
        for _ in range(200):
            connection.send(bytes(100_000))
        await runtime.clock.sleep(0.05)
        assert connection.pending > 1_000_000
        assert "drained" not in client.events
        reader.connection.resume_reading()
        await client.until(lambda: "drained" in client.events)
        assert connection.pending <= 256 * 1024
        await reader.until(lambda: len(reader.data) == 20_000_000)
        connection.close()
        await reader.closed.wait()
        await server.listener.close()

    on_runtime(test)


def test_listening_and_refusing(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        server = Server()
        port = await server.start(runtime)
        with pytest.raises(AddressInUse):
            await runtime.network.listen("127.0.0.1", port, server)
        client = Recorder()
        connection = await runtime.network.connect("127.0.0.1", port, client)
        connection.send(b"before")
        await server.listener.close()
        await asyncio.sleep(0)
        with pytest.raises(ConnectionRefused):
            await runtime.network.connect("127.0.0.1", port, Recorder())
        while not server.accepted or server.accepted[0].data != b"before":
            await runtime.clock.sleep(0.001)
        connection.send(b" and after")
        await server.accepted[0].until(lambda: server.accepted[0].data == b"before and after")
        connection.close()
        await server.accepted[0].closed.wait()

    on_runtime(test)


# ------------------------------------------------------------------------------------ clock and randomness


def test_the_monotonic_clock_moves_on_and_is_no_wall_clock(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        clock = runtime.clock
        before = clock.monotonic()
        await clock.sleep(0.01)
        assert clock.monotonic() >= before + 0.009
        assert before > 100_000
        assert abs(clock.wall_micros() / 1e6 - before) > 1e8

    on_runtime(test)


def test_randomness(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        random = runtime.random
        assert 0.0 <= random.random() < 1.0
        assert {random.randint(1, 2) for _ in range(200)} == {1, 2}
        assert len(random.bytes(7)) == 7
        ids = [uuid.UUID(bytes=random.uuid_bytes()) for _ in range(100)]
        assert {one.version for one in ids} == {4}
        assert {one.variant for one in ids} == {uuid.RFC_4122}
        assert len({*ids}) == 100

    on_runtime(test)


# ---------------------------------------------------------------------------------------- tasks and compute


def test_spawned_tasks(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        seen: list[str] = []
        go = asyncio.Event()

        async def work() -> None:
            await go.wait()
            seen.append("worked")

        task = runtime.spawn("work", work())
        await asyncio.sleep(0)
        assert not task.done()
        go.set()
        await task.wait()
        assert task.done()
        assert seen == ["worked"]

    on_runtime(test)


def test_a_failure_reaches_who_waits(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        async def fail() -> None:
            await asyncio.sleep(0)
            raise LookupError("on purpose")

        task = runtime.spawn("fail", fail())
        with pytest.raises(LookupError, match="on purpose"):
            await task.wait()
        with pytest.raises(LookupError, match="on purpose"):
            await task.wait()

    on_runtime(test)


def test_cancelling_a_task_and_cancelling_who_waits(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        ended: list[str] = []

        async def forever() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cleaned up")

        task = runtime.spawn("forever", forever())
        waiting = asyncio.create_task(task.wait())
        await runtime.clock.sleep(0.001)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not task.done()
        task.cancel()
        await task.wait()
        assert task.done()
        assert ended == ["cleaned up"]

    on_runtime(test)


def test_tasks_inherit_context(on_runtime: Harness) -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)

    async def test(runtime: Runtime, home: str) -> None:
        variable.set(7)
        seen: list[int] = []

        async def look() -> None:
            seen.append(variable.get())

        await runtime.spawn("look", look()).wait()
        assert seen == [7]

    on_runtime(test)


def test_callbacks_keep_their_order(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        seen: list[int] = []
        done = asyncio.Event()
        for number in range(20):
            runtime.call_soon(lambda number=number: seen.append(number))  # type: ignore[misc]
        assert seen == []
        runtime.call_soon(done.set)
        await done.wait()
        assert seen == list(range(20))

    on_runtime(test)


def test_timers(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        seen: list[str] = []
        done = asyncio.Event()
        cancel = runtime.call_later(0.001, lambda: seen.append("cancelled"))
        runtime.call_later(0.002, lambda: seen.append("first"))
        runtime.call_later(0.050, done.set)
        cancel()
        cancel()
        await done.wait()
        assert seen == ["first"]

    on_runtime(test)


def test_compute(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        assert await runtime.compute(lambda: 6 * 7) == 42
        results = await asyncio.gather(*(runtime.compute(lambda n=n: n * n) for n in range(20)))  # type: ignore[misc]
        assert results == [n * n for n in range(20)]
        with pytest.raises(ZeroDivisionError):
            await runtime.compute(lambda: 1 // 0)

    on_runtime(test)


def test_timeouts_and_task_groups_work(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.005):
                await runtime.clock.sleep(30)
        cancelled: list[int] = []

        async def wait(number: int) -> None:
            try:
                await runtime.clock.sleep(30)
            except asyncio.CancelledError:
                cancelled.append(number)
                raise

        async def fail() -> None:
            await runtime.clock.sleep(0.001)
            raise LookupError

        async def group_that_fails() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(5):
                    group.create_task(wait(number))
                group.create_task(fail())

        with pytest.raises(ExceptionGroup) as caught:
            await group_that_fails()
        assert caught.group_contains(LookupError)
        assert sorted(cancelled) == [0, 1, 2, 3, 4]

    on_runtime(test)


def test_points_may_pause_and_marks_are_free(on_runtime: Harness) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        runtime.sometimes("reached")
        for _ in range(10):
            if pause := runtime.buggify("point"):
                await pause
        runtime.log("debug", "contract.checked", detail="text with spaces", error=ValueError("x"))

    on_runtime(test)
