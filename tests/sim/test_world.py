"""The simulated world: time, schedules, crashes of machines, networks with faults, points in the code."""

import asyncio
import collections
import itertools

import pytest

from belvedere.runtime.api import Connection
from belvedere.runtime.errors import ConnectionRefused, NetworkError
from belvedere.sim.incarnation import MachineCrashed
from belvedere.sim.loop import Deadlock, OutOfTime, SimulationError
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import UnhandledFailure, World

POLICIES = ("fifo", "random", "pct")


class Handler:
    def __init__(self, *, echo: bool = False) -> None:
        self.echo = echo
        self.chunks: list[bytes] = []
        self.closed: list[Exception | None] = []
        self.connection: Connection | None = None

    @property
    def data(self) -> bytes:
        return b"".join(self.chunks)

    def on_open(self, connection: Connection) -> None:
        self.connection = connection

    def on_data(self, data: bytes) -> None:
        self.chunks.append(data)
        if self.echo and self.connection is not None:
            self.connection.send(data)

    def on_drained(self) -> None: ...

    def on_close(self, error: Exception | None) -> None:
        self.closed.append(error)


async def connected(
    client: SimRuntime, server: SimRuntime, *, echo: bool = False
) -> tuple[Connection, Handler, Handler]:
    ours, theirs = Handler(), Handler(echo=echo)
    await server.network.listen("0.0.0.0", 7000, lambda: theirs)
    connection = await client.network.connect(server.machine, 7000, ours)
    await client.clock.sleep(1)
    return connection, ours, theirs


# ------------------------------------------------------------------------------------------------ the loop


@pytest.mark.parametrize("policy", POLICIES)
def test_hours_pass_in_no_time(policy: str) -> None:
    async def main(world: World) -> float:
        await world.sleep(3000)
        return world.loop.time()

    assert World(0, policy=policy).run(main) == pytest.approx(3000, abs=0.001)


def test_time_moves_for_code_that_spins() -> None:
    async def main(world: World) -> None:
        deadline = world.loop.time() + 0.01
        while world.loop.time() < deadline:
            await asyncio.sleep(0)

    for policy in POLICIES:
        World(0, policy=policy).run(main)


def test_policies_differ_in_order_and_fifo_is_the_order_of_a_real_loop() -> None:
    def order(policy: str, seed: int) -> tuple[int, ...]:
        seen: list[int] = []

        async def note(number: int) -> None:
            for _ in range(2):
                seen.append(number)
                await asyncio.sleep(0)

        async def main(world: World) -> None:
            await asyncio.gather(*(note(number) for number in range(4)))

        World(seed, policy=policy).run(main)
        return tuple(seen)

    assert {order("fifo", seed) for seed in range(5)} == {(0, 1, 2, 3, 0, 1, 2, 3)}
    assert len({order("random", seed) for seed in range(20)}) > 10
    assert len({order("pct", seed) for seed in range(40)}) > 10


def test_a_spinning_task_starves_nobody_for_ever() -> None:
    async def main(world: World) -> None:
        done = asyncio.Event()

        async def spin() -> None:
            while not done.is_set():
                await asyncio.sleep(0)

        async def other() -> None:
            await asyncio.sleep(0.001)
            done.set()

        await asyncio.gather(spin(), other())

    for seed in range(20):
        World(seed, policy="pct").run(main, limit_steps=100_000)


def test_a_run_that_cannot_end_says_who_waits() -> None:
    async def wait_for_nothing() -> None:
        await asyncio.Event().wait()

    async def main(world: World) -> None:
        await asyncio.gather(wait_for_nothing())

    with pytest.raises(Deadlock, match="wait_for_nothing"):
        World(0).run(main)

    async def endless(world: World) -> None:
        while True:
            await world.sleep(1)

    with pytest.raises(OutOfTime, match="virtual time"):
        World(0).run(endless, limit_seconds=10)
    with pytest.raises(OutOfTime, match="steps"):
        World(0).run(endless, limit_steps=10)


def test_task_groups_cancel_in_the_order_of_creation() -> None:
    def order() -> tuple[int, ...]:
        cancelled: list[int] = []

        async def wait(number: int) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(number)
                raise

        async def fail() -> None:
            await asyncio.sleep(1)
            raise LookupError

        async def group_that_fails() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(20):
                    group.create_task(wait(number))
                group.create_task(fail())

        async def main(world: World) -> None:
            with pytest.raises(ExceptionGroup):
                await group_that_fails()

        World(0, policy="fifo").run(main)
        return tuple(cancelled)

    # Small numbers hash to themselves and iterate in one order, whatever was allocated in between.
    orders = set()
    for round_ in range(5):
        ballast = [object() for _ in range(round_ * 1000)]
        orders.add(order())
        del ballast
    assert len(orders) == 1


def test_threads_do_not_exist() -> None:
    async def main(world: World) -> None:
        with pytest.raises(SimulationError, match="use runtime"):
            await asyncio.to_thread(lambda: None)

    World(0).run(main)


def test_what_waits_at_the_end_is_closed_without_effect() -> None:
    events: list[str] = []

    async def main(world: World) -> None:
        async def forever() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                events.append("finally")
                await asyncio.sleep(1)
                events.append("never")

        world.boot("a").spawn("forever", forever())
        await world.sleep(1)

    world = World(0)
    world.run(main)
    world.check_no_failures()
    assert "never" not in events


def test_unseen_failures_are_collected() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("a")

        async def fail() -> None:
            raise LookupError("nobody looks")

        runtime.spawn("fail", fail())
        runtime.call_soon(lambda: 1 // 0)
        lost = asyncio.get_running_loop().create_task(fail())
        await world.sleep(1)
        assert lost.done()

    world = World(0)
    world.run(main)
    assert len(world.failures) == 3
    with pytest.raises(UnhandledFailure, match="nobody looks"):
        world.check_no_failures()
    assert any("task.failed" in line for line in world.log_lines)


# ------------------------------------------------------------------------------------------------ machines


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_of_a_crashed_machine_runs_again(policy: str) -> None:
    events: list[str] = []

    async def main(world: World) -> None:
        runtime = world.boot("a")

        async def tick() -> None:
            try:
                while True:
                    events.append("tick")
                    await runtime.clock.sleep(0.1)
            finally:
                events.append("finally")

        runtime.spawn("tick", tick())
        runtime.call_later(2.0, lambda: events.append("late callback"))
        await world.sleep(1.05)
        world.crash("a")
        count = len(events)
        await world.sleep(10)
        assert len(events) == count
        assert {*events} == {"tick"}

    World(0, policy=policy).run(main)


def test_who_waits_outside_hears_of_a_crash() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("a")

        async def long() -> None:
            await runtime.clock.sleep(100)

        waiting = asyncio.create_task(runtime.perform(long()))
        await world.sleep(1)
        world.crash("a")
        with pytest.raises(MachineCrashed):
            await waiting
        with pytest.raises(MachineCrashed):
            await runtime.disk.write("f", b"")
        with pytest.raises(SimulationError):
            world.crash("a")
        world.boot("a")
        with pytest.raises(SimulationError):
            world.boot("a")

    World(0).run(main)


def test_a_rebooted_machine_draws_other_ids_and_another_clock() -> None:
    async def main(world: World) -> None:
        ids = []
        clocks = []
        for _ in range(3):
            runtime = world.boot("a")
            ids.append(runtime.random.uuid_bytes())
            clocks.append(runtime.clock.monotonic())
            world.crash("a")
        assert len({*ids}) == 3
        assert len({round(clock) for clock in clocks}) == 3

    World(0).run(main)


def test_clocks_drift_apart_and_wall_clocks_jump() -> None:
    async def main(world: World) -> float:
        one, two = world.boot("a"), world.boot("b")
        starts = one.clock.monotonic(), two.clock.monotonic()
        await world.sleep(3000)
        passed = one.clock.monotonic() - starts[0], two.clock.monotonic() - starts[1]
        assert passed == (pytest.approx(3000, rel=1.1e-3), pytest.approx(3000, rel=1.1e-3))
        wall = one.clock.wall_micros()
        world.jump_wall_clock("a", -60)
        assert one.clock.wall_micros() == wall - 60_000_000
        before = one.clock.monotonic()
        await one.clock.sleep(10)
        assert one.clock.monotonic() - before == pytest.approx(10, abs=1e-3)
        return abs(passed[0] - passed[1])

    assert max(World(seed).run(main) for seed in range(20)) > 0.01


def test_a_paused_machine_stands_still() -> None:
    events: list[float] = []

    async def main(world: World) -> None:
        runtime = world.boot("a")

        async def tick() -> None:
            while True:
                events.append(world.loop.time())
                await runtime.clock.sleep(0.1)

        runtime.spawn("tick", tick())
        await world.sleep(1)
        world.pause("a", 5)
        await world.sleep(10)

    World(0).run(main)
    gaps = [later - earlier for earlier, later in itertools.pairwise(events)]
    assert max(gaps) == pytest.approx(5, abs=0.2)
    assert sum(gap > 0.2 for gap in gaps) == 1


# ------------------------------------------------------------------------------------------------- network


def test_messages_are_cut_and_joined_but_keep_their_order() -> None:
    sizes: collections.Counter[int] = collections.Counter()

    async def main(world: World) -> None:
        connection, ours, _ = await connected(world.boot("a"), world.boot("b"), echo=True)
        sent = b""
        for number in range(200):
            message = b"%03d|" % number
            sent += message
            connection.send(message)
            await world.sleep(20e-6 if number % 3 else 0.001)
        await world.sleep(10)
        assert ours.data == sent
        sizes.update(len(chunk) for chunk in ours.chunks)

    for seed in range(10):
        World(seed).run(main)
    assert len(sizes) > 4
    assert any(size < 4 for size in sizes)
    assert any(size > 4 for size in sizes)


def test_a_partition_stalls_streams_until_healed() -> None:
    async def main(world: World) -> None:
        connection, ours, theirs = await connected(world.boot("a"), world.boot("b"), echo=True)
        world.network.partition(["a"], ["b"])
        connection.send(b"held")
        await world.sleep(2)
        assert theirs.data == b""
        world.network.heal()
        await world.sleep(2)
        assert ours.data == b"held"
        world.network.partition(["b"], ["a"], one_way=True)
        connection.send(b"!")
        await world.sleep(2)
        assert theirs.data == b"held!"
        assert ours.data == b"held"
        await world.sleep(300)
        assert len(ours.closed) == len(theirs.closed) == 1
        assert isinstance(ours.closed[0], NetworkError)

    for seed in range(10):
        World(seed).run(main)


def test_connecting_through_a_partition_and_to_nobody() -> None:
    async def main(world: World) -> None:
        a, b = world.boot("a"), world.boot("b")
        with pytest.raises(ConnectionRefused):
            await a.network.connect("b", 7000, Handler())
        with pytest.raises(ConnectionRefused):
            await a.network.connect("nobody", 7000, Handler())
        await b.network.listen("0.0.0.0", 7000, Handler)
        world.network.partition(["a"], ["b"])
        with pytest.raises(NetworkError, match="timed out"):
            await a.network.connect("b", 7000, Handler())
        world.network.heal()
        await a.network.connect("b", 7000, Handler())
        world.crash("b")
        with pytest.raises(NetworkError, match="timed out"):
            await a.network.connect("b", 7000, Handler())
        world.boot("b")
        with pytest.raises(ConnectionRefused):
            await a.network.connect("b", 7000, Handler())

    World(0).run(main)


@pytest.mark.parametrize("lose_unsynced", [True, False])
def test_a_peer_hears_of_a_crash_once(lose_unsynced: bool) -> None:
    errors: collections.Counter[str] = collections.Counter()

    async def main(world: World) -> None:
        _, ours, theirs = await connected(world.boot("a"), world.boot("b"))
        world.crash("b", lose_unsynced=lose_unsynced)
        await world.sleep(0.3)
        assert not (lose_unsynced and ours.closed)
        await world.sleep(200)
        assert len(ours.closed) == 1
        assert theirs.closed == []
        errors[type(ours.closed[0]).__name__] += 1

    for seed in range(20):
        World(seed).run(main)
    assert {*errors} == ({"ConnectionClosed"} if lose_unsynced else {"ConnectionClosed", "NoneType"})


def test_streams_break() -> None:
    async def main(world: World) -> int:
        connection, ours, theirs = await connected(world.boot("a"), world.boot("b"))
        world.network.faults.breaks = 0.05
        for _ in range(200):
            connection.send(b"x")
            await world.sleep(0.001)
        await world.sleep(1)
        assert len(ours.closed) == len(theirs.closed) == 1
        assert isinstance(ours.closed[0], NetworkError)
        return len(theirs.data)

    assert len({World(seed).run(main) for seed in range(10)}) > 3


def test_a_handler_that_fails_loses_its_connection_only() -> None:
    class Failing(Handler):
        def on_data(self, data: bytes) -> None:
            raise LookupError("cannot read this")

    async def main(world: World) -> None:
        failing, ours = Failing(), Handler()
        a, b = world.boot("a"), world.boot("b")
        await b.network.listen("0.0.0.0", 7000, lambda: failing)
        connection = await a.network.connect("b", 7000, ours)
        connection.send(b"x")
        await world.sleep(1)
        assert len(ours.closed) == len(failing.closed) == 1

    world = World(0)
    world.run(main)
    assert len(world.failures) == 1
    assert "cannot read this" in world.failures[0]


# -------------------------------------------------------------------------------------- points in the code


def test_points_delay_in_some_seeds_only() -> None:
    async def main(world: World) -> int:
        runtime = world.boot("a")
        pauses = 0
        for _ in range(200):
            if pause := runtime.buggify("point"):
                pauses += 1
                await pause
            runtime.sometimes("reached", pauses > 0)
        assert (world.marks.get("reached", 0) > 0) == (pauses > 0)
        return pauses

    pauses = [World(seed).run(main) for seed in range(30)]
    assert 0 < sum(count > 0 for count in pauses) < 30
    assert sum(World(seed, buggify=False).run(main) for seed in range(10)) == 0


def test_a_scenario_can_stop_code_at_a_point() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("a")
        events: list[str] = []

        async def flush() -> None:
            events.append("before")
            if pause := runtime.buggify("flush.rename"):
                await pause
            events.append("after")

        hold = world.arm("flush.rename")
        runtime.spawn("flush", flush())
        await hold.reached()
        await world.sleep(100)
        assert events == ["before"]
        hold.release()
        await world.sleep(1)
        assert events == ["before", "after"]
        await runtime.perform(flush())

    World(0, buggify=False).run(main)
