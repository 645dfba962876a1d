"""What other nodes ask of this one: their connections, who they are, what runs for them.

A request is begun only when this node's metadata is at least as new as what the request was written under,
and its sender is, by that metadata, the living incarnation of its node. What runs for a peer is cancelled
when the peer gives up, when its time is over, or when its connection breaks.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from belvedere.cluster import rpc_frames as frames
from belvedere.cluster.members import standing
from belvedere.cluster.rpc_errors import (
    Behind,
    DeadlinePassed,
    NotServing,
    Overloaded,
    RpcError,
    UnknownMethod,
    VersionMismatch,
    WrongPeer,
)
from belvedere.cluster.rpc_frames import MAX_FRAME, FrameDecoder, FrameTooLarge, Message
from belvedere.cluster.rpc_settings import Identity, RpcSettings
from belvedere.meta.state import ClusterState
from belvedere.runtime.api import Connection, Runtime, TaskHandle


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. Together with the number it names a request for good: no two lives of a node share one."""

    node: str
    incarnation: int
    number: int


@dataclass(frozen=True, slots=True)
class Served:
    """A method as it is offered: `at_once` answers within the step, the other as a task of its own."""

    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]
    at_once: Callable[[Caller, Any], Any] | None
    task: Callable[[Caller, Any], Awaitable[Any]] | None


class Host(Protocol):
    """The node, as its incoming connections see it."""

    runtime: Runtime
    settings: RpcSettings
    cluster: str
    identity: Identity | None
    methods: dict[str, Served]
    running: int

    @property
    def state(self) -> ClusterState: ...
    async def caught_up(self, revision: int) -> None: ...
    def admit(self, incoming: "Incoming") -> None: ...
    def forget(self, incoming: "Incoming") -> None: ...


@dataclass(slots=True, eq=False)
class _Running:
    task: TaskHandle
    size: int


class Incoming:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._decoder = FrameDecoder()
        self._connection: Connection | None = None
        self._hello: frames.Hello | None = None
        self._backlog: deque[Message] = deque()
        self._running: dict[int, _Running] = {}
        self._bytes = 0
        self._closed = False
        self._paused = False
        self._judged: tuple[ClusterState, RpcError | None] | None = None
        self._cancel_waiting: Callable[[], None] | None = None

    # --- what the transport calls --------------------------------------------------------------------

    def on_open(self, connection: Connection) -> None:
        self._connection = connection
        self._host.admit(self)
        seconds = self._host.settings.connect_seconds
        self._cancel_waiting = self._host.runtime.call_later(seconds, self._no_hello)

    def on_data(self, data: bytes) -> None:
        self._backlog.extend(self._decoder.feed(data))
        self._work()

    def _work(self) -> None:
        """Take what has come, as long as its sender reads what it is answered."""
        backlog = self._backlog
        while backlog and not self._paused and not self._closed:
            message = backlog.popleft()
            if self._hello is None:
                self._introduce(message)
            else:
                self._take(message)
        if backlog:
            return
        if self._decoder.failure is not None and not self._closed:
            self._host.runtime.log("warning", "rpc.bad_stream", peer=self.peer, cause=self._decoder.failure)
            self._abort()

    def on_drained(self) -> None:
        if self._paused and self._connection is not None:
            self._paused = False
            self._work()
            if not self._paused:
                self._connection.resume_reading()

    def on_close(self, error: Exception | None) -> None:
        self._closed = True
        self._backlog.clear()
        if self._cancel_waiting is not None:
            self._cancel_waiting()
        for number in list(self._running):
            self._cancel(number)
        self._host.forget(self)

    # --- what the host calls -------------------------------------------------------------------------

    @property
    def peer(self) -> str:
        where = "?" if self._connection is None else self._connection.peer
        return where if self._hello is None else f"{self._hello.node}#{self._hello.incarnation} at {where}"

    def end(self, error: RpcError) -> None:
        """Say why, and close; what runs is cancelled."""
        if self._closed or self._connection is None:
            return
        self._connection.send(frames.encode(frames.Farewell(type(error).__name__, str(error))))
        self._closed = True
        self._connection.close()
        for number in list(self._running):
            self._cancel(number)

    # --- introduction --------------------------------------------------------------------------------

    def _no_hello(self) -> None:
        if self._hello is None and not self._closed:
            self._abort()

    def _abort(self) -> None:
        self._closed = True
        if self._connection is not None:
            self._connection.abort()

    def _introduce(self, message: Message) -> None:
        if not isinstance(message, frames.Hello) or self._connection is None:
            self._abort()
            return
        error = self._objection(message)
        if error is not None:
            self._host.runtime.log(
                "info", "rpc.refused", node=message.node, incarnation=message.incarnation, cause=str(error)
            )
            self.end(error)
            return
        self._hello = message
        self._decoder.limit = MAX_FRAME
        version = min(frames.NEWEST_VERSION, message.newest_version)
        self._connection.send(frames.encode(frames.Welcome(version, self._host.state.revision)))

    def _objection(self, hello: frames.Hello) -> RpcError | None:
        host = self._host
        if hello.oldest_version > frames.NEWEST_VERSION or hello.newest_version < frames.OLDEST_VERSION:
            return VersionMismatch(
                f"it speaks versions {hello.oldest_version} to {hello.newest_version}, "
                f"this node {frames.OLDEST_VERSION} to {frames.NEWEST_VERSION}"
            )
        if hello.cluster != host.cluster:
            return WrongPeer(f"this is a node of cluster {host.cluster}, not of {hello.cluster}")
        own = host.identity
        if own is None:
            return NotServing("this node is not a member of the cluster at the moment")
        if (hello.wanted_node, hello.wanted_incarnation) != (own.node, own.incarnation):
            return WrongPeer(
                f"this is {own.node}#{own.incarnation}, not {hello.wanted_node}#{hello.wanted_incarnation}"
            )
        if hello.revision > host.state.revision:
            return None  # With the first request, when we know as much as it does.
        return standing(host.state, hello.node, hello.incarnation)

    # --- requests ------------------------------------------------------------------------------------

    def _take(self, message: Message) -> None:
        match message:
            case frames.Ask():
                self._ask(message)
            case frames.Cancel(number):
                self._cancel(number)
            case frames.Ping(answer=False):
                self._send(frames.Ping(True))
            case _:
                self._abort()

    def _ask(self, ask: frames.Ask) -> None:
        host, settings = self._host, self._host.settings
        size = len(ask.body)
        if (
            len(self._running) >= settings.max_in_flight
            or host.running >= settings.max_running
            or (self._running and self._bytes + size > settings.max_bytes)
        ):
            self._fail(ask, Overloaded("too much is under way on this node"))
            return
        method = host.methods.get(ask.method)
        if method is None:
            self._fail(ask, UnknownMethod(f"there is no {ask.method} here"))
        elif ask.revision <= host.state.revision and method.at_once is not None:
            self._answer_at_once(ask, method)
        else:
            host.running += 1
            self._bytes += size
            task = host.runtime.spawn(f"rpc {ask.method}", self._run(ask, method))
            self._running[ask.number] = _Running(task, size)

    def _caller(self, ask: frames.Ask) -> Caller:
        assert self._hello is not None
        return Caller(self._hello.node, self._hello.incarnation, ask.number)

    def _standing(self) -> RpcError | None:
        """By the newest metadata that is here; looked at again when that changes."""
        assert self._hello is not None
        state = self._host.state
        if self._judged is None or self._judged[0] is not state:
            self._judged = state, standing(state, self._hello.node, self._hello.incarnation)
        return self._judged[1]

    def _answer_at_once(self, ask: frames.Ask, method: Served) -> None:
        assert method.at_once is not None
        objection = self._standing()
        if objection is not None:
            self._fail(ask, objection)
            return
        try:
            body = method.encode(method.at_once(self._caller(ask), method.decode(ask.body)))
        except Exception as error:
            self._fail(ask, error, begun=True)
        else:
            self._answer(ask, body)

    async def _run(self, ask: frames.Ask, method: Served) -> None:
        begun = False
        try:
            async with asyncio.timeout(max(0.0, ask.patience)) as limit:
                await self._host.caught_up(ask.revision)
                objection = self._standing()
                if objection is not None:
                    raise objection
                begun = True
                question = method.decode(ask.body)
                if method.task is not None:
                    answer = await method.task(self._caller(ask), question)
                else:
                    assert method.at_once is not None
                    answer = method.at_once(self._caller(ask), question)
            self._answer(ask, method.encode(answer))
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                error = self._too_late(ask, begun)
            self._fail(ask, error, begun=begun)
        finally:
            self._over(ask.number)

    def _too_late(self, ask: frames.Ask, begun: bool) -> RpcError:
        if begun:
            return DeadlinePassed(f"{ask.method} did not end in time")
        return Behind(
            f"this node knows the metadata up to revision {self._host.state.revision} and could not learn of "
            f"revision {ask.revision} in time"
        )

    def _cancel(self, number: int) -> None:
        running = self._running.get(number)
        if running is not None:
            running.task.cancel()
            # Here, since a task that never took its first step takes no last one.
            self._over(number)

    def _over(self, number: int) -> None:
        running = self._running.pop(number, None)
        if running is not None:
            self._bytes -= running.size
            self._host.running -= 1

    # --- answers -------------------------------------------------------------------------------------

    def _answer(self, ask: frames.Ask, body: bytes) -> None:
        try:
            self._send(frames.Answer(ask.number, self._host.state.revision, body))
        except FrameTooLarge as error:
            self._fail(ask, error, begun=True)

    def _fail(self, ask: frames.Ask, error: Exception, begun: bool = False) -> None:
        if begun and not isinstance(error, RpcError):
            self._host.runtime.log("debug", "rpc.handler_failed", method=ask.method, cause=repr(error))
        kind, text = type(error).__name__, str(error)[:4000]
        self._send(frames.Failure(ask.number, self._host.state.revision, kind, text, begun))

    def _send(self, message: Message) -> None:
        connection = self._connection
        if self._closed or connection is None:
            return
        connection.send(frames.encode(message))
        if connection.pending > self._host.settings.max_bytes and not self._paused:
            # Who does not read its answers is not read either; what runs for it is bounded, too.
            self._paused = True
            connection.pause_reading()
            # Perhaps the network takes it all at once: then nobody will call `on_drained`.
            self._host.runtime.call_soon(self._look_again)

    def _look_again(self) -> None:
        connection = self._connection
        if self._paused and connection is not None and connection.pending <= self._host.settings.max_bytes:
            self.on_drained()
