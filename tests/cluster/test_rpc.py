"""One contract for messages between nodes, on the real network and on simulated ones."""

import asyncio
from typing import Any

import pytest

from belvedere.cluster import rpc_frames as frames
from belvedere.cluster.rpc_errors import (
    Behind,
    DeadlinePassed,
    NotMember,
    NotServing,
    Overloaded,
    PeerLost,
    PeerUnreachable,
    RemoteFailure,
    RpcClosed,
    Superseded,
    UnknownMethod,
    VersionMismatch,
    WrongPeer,
)
from belvedere.cluster.rpc_frames import MEBIBYTE, FrameDecoder, FrameTooLarge
from belvedere.cluster.rpc_settings import Peer, RpcSettings
from belvedere.runtime.api import Connection
from belvedere.runtime.errors import DiskBroken
from tests.cluster.rpc_pair import ECHO, FAIL, REVISION, REVISION_LATER, WAIT, Harness, TestCluster, TestNode


async def echo(one: TestNode, peer: Peer, body: bytes = b"x", within: float = 10.0) -> bytes:
    return await one.rpc.call(peer, ECHO, body, within)


class Raw:
    """The other side of a connection, byte by byte."""

    def __init__(self) -> None:
        self.decoder = FrameDecoder(frames.MAX_FRAME)
        self.messages: list[frames.Message] = []
        self.connection: Connection | None = None
        self.closed = asyncio.Event()

    def on_open(self, connection: Connection) -> None:
        self.connection = connection

    def on_data(self, data: bytes) -> None:
        self.messages.extend(self.decoder.feed(data))

    def on_drained(self) -> None: ...

    def on_close(self, error: Exception | None) -> None:
        self.closed.set()

    def send(self, message: frames.Message) -> None:
        assert self.connection is not None
        self.connection.send(frames.encode(message))


def hello(own: TestNode, other: TestNode, **changed: Any) -> frames.Hello:
    fields: dict[str, Any] = {
        "oldest_version": 1,
        "newest_version": 1,
        "cluster": "test",
        "node": own.name,
        "incarnation": own.incarnation,
        "wanted_node": other.name,
        "wanted_incarnation": other.incarnation,
        "revision": 0,
    }
    return frames.Hello(**fields | changed)


async def connected(on: TestCluster, to: TestNode, raw: Raw) -> Raw:
    await on.runtime.network.connect(*to.address, raw)
    return raw


# --- answers -------------------------------------------------------------------------------------------


def test_answers(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        assert await echo(one, two.peer, b"hello") == b"hello"
        assert await echo(two, one.peer, b"back") == b"back"
        (caller,) = two.seen
        assert (caller.node, caller.incarnation) == ("one", one.incarnation)  # type: ignore[attr-defined]

    on_network(test)


def test_many_are_in_flight_and_the_quick_ones_do_not_wait(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        slow = asyncio.ensure_future(one.rpc.call(two.peer, WAIT, 1.0, 20.0))
        answers = await asyncio.gather(*(echo(one, two.peer, b"%d" % number) for number in range(200)))
        assert answers == [b"%d" % number for number in range(200)]
        assert not slow.done()
        assert len({id(link) for link in one.rpc._links.values()}) == 1
        assert len(two.rpc._incoming) == 1
        assert await slow == "1.0"

    on_network(test)


def test_large_messages(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        body = bytes(range(256)) * (10 * MEBIBYTE // 256)
        assert await echo(one, two.peer, body, 60.0) == body
        with pytest.raises(FrameTooLarge):
            await echo(one, two.peer, bytes(frames.MAX_FRAME))
        assert await echo(one, two.peer) == b"x"

    on_network(test)


# --- failures, each by its name --------------------------------------------------------------------------


def test_a_broken_disk_there_is_not_a_lost_peer(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        on.failures["disk"] = DiskBroken("I/O error", "data/log")
        on.failures["nested"] = Overloaded("of a third node")
        with pytest.raises(RemoteFailure) as raised:
            await one.rpc.call(two.peer, FAIL, "disk", 10.0)
        assert raised.value.kind == "DiskBroken"
        assert "data/log" in str(raised.value)
        # What a handler met elsewhere says nothing of whether it had begun.
        with pytest.raises(RemoteFailure) as raised:
            await one.rpc.call(two.peer, FAIL, "nested", 10.0)
        assert raised.value.may_have_happened
        assert len(two.rpc._incoming) == 1, "the connection is not to blame"

    on_network(test)


def test_unknown_methods(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        del two.rpc.methods[ECHO.name]
        with pytest.raises(UnknownMethod):
            await echo(one, two.peer)

    on_network(test)


def test_nobody_there(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        peer = two.peer
        await two.rpc.close()
        for _ in range(3):
            with pytest.raises(PeerUnreachable) as raised:
                await echo(one, peer)
            assert not raised.value.may_have_happened

    on_network(test)


def test_a_deadline_ends_the_work_there(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        with pytest.raises(DeadlinePassed) as raised:
            await one.rpc.call(two.peer, WAIT, 50.0, 0.5)
        assert raised.value.may_have_happened
        await on.until(lambda: two.seen == ["begun", "cancelled"])
        assert two.rpc.running == 0
        assert await echo(one, two.peer) == b"x"

    on_network(test)


def test_who_gives_up_ends_the_work_there(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        waiting = asyncio.ensure_future(one.rpc.call(two.peer, WAIT, 50.0, 60.0))
        await on.until(lambda: two.seen == ["begun"])
        waiting.cancel()
        await on.until(lambda: two.seen == ["begun", "cancelled"])
        assert two.rpc.running == 0
        assert await echo(one, two.peer) == b"x"

    on_network(test)


def test_a_connection_that_breaks(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        waiting = asyncio.ensure_future(one.rpc.call(two.peer, WAIT, 50.0, 60.0))
        await on.until(lambda: two.seen == ["begun"])
        for incoming in list(two.rpc._incoming):
            assert incoming._connection is not None
            incoming._connection.abort()
        with pytest.raises(PeerLost) as raised:
            await waiting
        assert raised.value.may_have_happened
        await on.until(lambda: two.seen == ["begun", "cancelled"])
        assert await echo(one, two.peer) == b"x", "the next one makes a connection"

    on_network(test)


def test_waiting_while_there_is_no_connection_is_bounded_by_the_deadline(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two(RpcSettings(first_pause=30.0, longest_pause=30.0))
        peer = two.peer
        await two.rpc.close()
        with pytest.raises(PeerUnreachable):
            await echo(one, peer)
        with pytest.raises(DeadlinePassed) as raised:
            await echo(one, peer, within=0.3)
        assert not raised.value.may_have_happened
        assert "cannot be reached" in str(raised.value)

    on_network(test)


def test_a_peer_that_falls_silent(on_network: Harness) -> None:
    """It takes the connection, says welcome, and then its machine loses its power."""

    async def test(on: TestCluster) -> None:
        one, two = await on.two(RpcSettings(heartbeat_seconds=0.1))
        silent = Raw()
        listener = await on.runtime.network.listen("127.0.0.1", 0, lambda: silent)
        peer = Peer("two", two.incarnation, *listener.address)
        waiting = asyncio.ensure_future(echo(one, peer, within=60.0))
        await on.until(lambda: bool(silent.messages))
        silent.send(frames.Welcome(1, 0))
        with pytest.raises(PeerLost, match="silent"):
            await waiting
        assert frames.Ping() in silent.messages
        # One that works for long, and answers pings, is not silent.
        assert await one.rpc.call(two.peer, WAIT, 2.0, 20.0) == "2.0"
        await listener.close()

    on_network(test)


# --- how much at once ----------------------------------------------------------------------------------


def test_more_than_fits_is_refused_here(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two(RpcSettings(max_in_flight=5, max_bytes=MEBIBYTE))
        waiting = [asyncio.ensure_future(one.rpc.call(two.peer, WAIT, 1.0, 20.0)) for _ in range(5)]
        await on.until(lambda: len(two.seen) == 5)
        with pytest.raises(Overloaded) as raised:
            await echo(one, two.peer)
        assert not raised.value.may_have_happened
        assert await asyncio.gather(*waiting) == ["1.0"] * 5
        large = (echo(one, two.peer, bytes(700_000)) for _ in range(2))
        outcomes = await asyncio.gather(*large, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {Overloaded, bytes}
        assert await echo(one, two.peer, bytes(2 * MEBIBYTE)) == bytes(2 * MEBIBYTE), "alone it may be larger"

    on_network(test)


def test_more_than_fits_is_refused_there(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one = await on.node("one")
        two = await on.node("two", settings=RpcSettings(max_running=3))
        waiting = [asyncio.ensure_future(one.rpc.call(two.peer, WAIT, 1.0, 20.0)) for _ in range(3)]
        await on.until(lambda: len(two.seen) == 3)
        with pytest.raises(Overloaded) as raised:
            await one.rpc.call(two.peer, WAIT, 0.0, 20.0)
        assert not raised.value.may_have_happened
        assert len(two.seen) == 3
        await asyncio.gather(*waiting)
        assert await one.rpc.call(two.peer, WAIT, 0.0, 20.0) == "0.0"

    on_network(test)


def test_who_does_not_read_its_answers_is_not_read_either(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one = await on.node("one")
        two = await on.node("two", settings=RpcSettings(max_bytes=2 * MEBIBYTE))
        raw = await connected(on, two, Raw())
        raw.send(hello(one, two))
        await on.until(lambda: bool(raw.messages))
        assert raw.connection is not None
        raw.connection.pause_reading()
        for number in range(100):
            raw.send(frames.Ask(number, ECHO.name, 0, 60.0, _packed(bytes(200_000))))
        await on.until(lambda: any(incoming._paused for incoming in two.rpc._incoming))
        await on.runtime.clock.sleep(0.2)
        assert len(two.seen) < 60, "the rest waits outside"
        raw.connection.resume_reading()
        await on.until(lambda: sum(isinstance(one, frames.Answer) for one in raw.messages) == 100)

    on_network(test)


def _packed(body: bytes) -> bytes:
    import msgspec

    return msgspec.msgpack.encode(body)


# --- metadata ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [REVISION, REVISION_LATER], ids=lambda method: method.name)
def test_who_is_behind_catches_up_before_it_looks(on_network: Harness, method: Any) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        await echo(one, two.peer)
        two.store.gate.clear()
        newest = await on.change()
        await one.metadata.catch_up(newest)
        asking = asyncio.ensure_future(one.rpc.call(two.peer, method, None, 20.0))
        await on.runtime.clock.sleep(0.3)
        assert not asking.done()
        assert two.metadata.state.revision < newest
        two.store.gate.set()
        assert await asking >= newest

    on_network(test)


def test_who_cannot_catch_up_says_so_and_begins_nothing(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        two.store.gate.clear()
        await one.metadata.catch_up(await on.change())
        raw = await connected(on, two, Raw())
        raw.send(hello(one, two))
        await on.until(lambda: bool(raw.messages))
        raw.send(frames.Ask(1, ECHO.name, one.metadata.state.revision, 0.3, b"x"))
        await on.until(lambda: len(raw.messages) == 2)
        failure = raw.messages[1]
        assert isinstance(failure, frames.Failure)
        assert (failure.kind, failure.begun) == ("Behind", False)
        assert two.seen == []

    on_network(test)


def test_who_gets_an_answer_from_the_future_catches_up_first(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        await echo(one, two.peer)
        one.store.gate.clear()
        newest = await on.change()
        await two.metadata.catch_up(newest)
        asking = asyncio.ensure_future(one.rpc.call(two.peer, REVISION, None, 20.0))
        await on.runtime.clock.sleep(0.3)
        assert not asking.done()
        with pytest.raises(Behind) as raised:
            await echo(one, two.peer, within=0.3)
        assert raised.value.may_have_happened
        one.store.gate.set()
        assert await asking == newest
        assert one.metadata.state.revision >= newest

    on_network(test)


# --- who is who ----------------------------------------------------------------------------------------


def test_the_wrong_one_at_the_right_address(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        for peer in (
            Peer("three", two.incarnation, *two.address),
            Peer("two", two.incarnation + 5, *two.address),
        ):
            with pytest.raises(WrongPeer) as raised:
                await echo(one, peer)
            assert not raised.value.may_have_happened
        old = two.peer
        await two.register()
        with pytest.raises(WrongPeer):
            await echo(one, old)
        assert await echo(one, two.peer) == b"x"
        assert len(two.seen) == 1

    on_network(test)


def test_another_cluster(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        stranger = await on.node("one", cluster_name="other", member=False)
        stranger.rpc.introduce(one.incarnation)
        with pytest.raises(WrongPeer, match="cluster test, not of other"):
            await echo(stranger, two.peer)
        assert two.seen == []

    on_network(test)


def test_a_dead_incarnation_is_not_heard(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        again = await on.node("one", member=False)
        await echo(one, two.peer)
        # Its connection is open, and its messages say that they know of nothing newer.
        one.store.gate.clear()
        await again.register()
        await two.metadata.catch_up(again.metadata.state.revision)
        with pytest.raises(Superseded):
            await echo(one, two.peer, within=5.0)
        one.store.gate.set()
        assert await echo(again, two.peer) == b"x"
        assert [caller.incarnation for caller in two.seen] == [  # type: ignore[attr-defined]
            one.incarnation,
            again.incarnation,
        ]

    on_network(test)


def test_who_is_no_member_is_not_heard(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        stranger = await on.node("three", member=False)
        with pytest.raises(NotServing):
            await echo(stranger, two.peer)
        stranger.rpc.introduce(7)
        with pytest.raises(NotMember):
            await echo(stranger, two.peer)
        await echo(one, two.peer)
        await on.remove("one")
        await two.metadata.until(lambda state: "one" not in state.nodes)
        with pytest.raises((NotMember, NotServing)):
            await echo(one, two.peer)
        assert len(two.seen) == 1

    on_network(test)


def test_who_is_not_introduced_says_so(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        await echo(one, two.peer)
        two.rpc.retire()
        with pytest.raises((NotServing, PeerLost)):
            await echo(one, two.peer)
        with pytest.raises(NotServing):
            await echo(one, two.peer)
        two.rpc.introduce(two.incarnation)
        await on.until(lambda: not two.rpc._incoming)
        assert await echo(one, two.peer) == b"x"

    on_network(test)


def test_somebody_can_be_asked_whether_it_is_there(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        stranger = await on.node("three", member=False)
        assert await stranger.rpc.answers_to(two.peer, 5.0)
        assert not await stranger.rpc.answers_to(Peer("one", one.incarnation, *two.address), 5.0)
        gone = two.peer
        await two.rpc.close()
        assert not await stranger.rpc.answers_to(gone, 5.0)

    on_network(test)


def test_versions_must_meet(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        newer = await connected(on, two, Raw())
        newer.send(hello(one, two, oldest_version=2, newest_version=3))
        both = await connected(on, two, Raw())
        both.send(hello(one, two, newest_version=3))
        await newer.closed.wait()
        (farewell,) = newer.messages
        assert isinstance(farewell, frames.Farewell)
        assert farewell.kind == VersionMismatch.__name__
        await on.until(lambda: bool(both.messages))
        assert isinstance(both.messages[0], frames.Welcome)
        assert both.messages[0].version == 1

    on_network(test)


# --- other people's bytes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(8),
        frames.encode(frames.Ping()),
        frames.encode(frames.Ask(1, "test.echo", 0, 1.0, b"x")),
        b"\xff" * 100,
    ],
    ids=["http", "zeros", "ping", "ask", "ones"],
)
def test_who_does_not_introduce_itself_is_turned_away(on_network: Harness, data: bytes) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        raw = await connected(on, two, Raw())
        assert raw.connection is not None
        raw.connection.send(data)
        await raw.closed.wait()
        assert (raw.messages, two.seen) == ([], [])
        assert await echo(one, two.peer) == b"x"

    on_network(test)


def test_who_says_nothing_is_not_waited_for(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        two = await on.node("two", settings=RpcSettings(connect_seconds=0.3))
        raw = await connected(on, two, Raw())
        async with asyncio.timeout(10):
            await raw.closed.wait()
        assert not two.rpc._incoming

    on_network(test)


# --- the end -------------------------------------------------------------------------------------------


def test_closing_ends_what_waits_on_both_sides(on_network: Harness) -> None:
    async def test(on: TestCluster) -> None:
        one, two = await on.two()
        asked = asyncio.ensure_future(one.rpc.call(two.peer, WAIT, 50.0, 60.0))
        asking = asyncio.ensure_future(two.rpc.call(one.peer, WAIT, 50.0, 60.0))
        await on.until(lambda: one.seen == ["begun"] == two.seen)
        await two.rpc.close()
        for waiting in (asked, asking):
            with pytest.raises(PeerLost):
                await waiting
        with pytest.raises((RpcClosed, NotServing)):
            await echo(two, one.peer)
        await on.until(lambda: one.seen == ["begun", "cancelled"] == two.seen)
        assert (one.rpc.running, two.rpc.running) == (0, 0)

    on_network(test)
