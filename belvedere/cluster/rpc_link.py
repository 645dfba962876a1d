"""Our requests to one life of another node: many in flight on one connection, made again when it breaks.

A request waits for the connection within its own deadline; when an attempt to connect fails, those that wait
fail with it, since nothing of them was sent. Once sent, a request is never sent again: whether that is safe,
only its caller knows. An idle link makes no connection.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from belvedere.cluster import rpc_frames as frames
from belvedere.cluster.rpc_errors import (
    Overloaded,
    PeerLost,
    PeerUnreachable,
    RpcClosed,
    RpcError,
    as_error,
    as_farewell,
)
from belvedere.cluster.rpc_frames import MAX_FRAME, FrameDecoder, FrameTooLarge, Message
from belvedere.cluster.rpc_settings import Identity, Peer, RpcSettings
from belvedere.runtime.api import Connection, Runtime, TaskHandle
from belvedere.runtime.errors import NetworkError

#: What a request weighs besides its body.
_OVERHEAD = 64


@dataclass(slots=True, eq=False)
class Request:
    number: int
    method: str
    body: bytes
    #: By this node's monotonic clock.
    deadline: float
    answer: "asyncio.Future[frames.Answer]"
    sent: bool = False

    def fail(self, error: RpcError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
            # Fetched: who waits may be cancelled in this very step, and then nobody else would.
            self.answer.exception()


class _Line:
    """One connection, from its first byte on. What comes of an old one is told apart by being another."""

    def __init__(self, link: "Link") -> None:
        self._link = link
        self._decoder = FrameDecoder()
        self.connection: Connection | None = None
        self.welcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed = False
        #: Heartbeats since the last byte.
        self.silent_for = 0
        self.farewell: RpcError | None = None

    def on_open(self, connection: Connection) -> None:
        self.connection = connection
        connection.send(self._link.hello())

    def on_data(self, data: bytes) -> None:
        self.silent_for = 0
        for message in self._decoder.feed(data):
            self._take(message)
        if self._decoder.failure is not None:
            self.drop(PeerLost(f"the stream from {self._link.peer} is damaged: {self._decoder.failure}"))

    def on_drained(self) -> None: ...

    def on_close(self, error: Exception | None) -> None:
        reason = f"the connection to {self._link.peer} was closed" if error is None else str(error)
        self._over(self.farewell or PeerLost(reason))

    def drop(self, error: RpcError) -> None:
        if self.connection is not None and not self.closed:
            self.connection.abort()
        self._over(error)

    def _over(self, error: RpcError) -> None:
        if self.closed:
            return
        self.closed = True
        if not self.welcome.done():
            self.welcome.set_exception(error)
            # Fetched, so that nobody complains when nobody waits any more.
            self.welcome.exception()
        self._link.lost(self, error)

    def _take(self, message: Message) -> None:
        if self.closed:
            return
        match message:
            case frames.Answer() | frames.Failure():
                self._link.answered(message)
            case frames.Ping(answer=True):
                pass
            case frames.Welcome():
                self._decoder.limit = MAX_FRAME
                if not self.welcome.done():
                    self.welcome.set_result(None)
            case frames.Farewell(kind, text):
                self.farewell = as_farewell(kind, text)
            case _:
                self.drop(PeerLost(f"{self._link.peer} does not keep to the protocol"))


class Link:
    def __init__(
        self,
        runtime: Runtime,
        identity: Identity,
        peer: Peer,
        revision: Callable[[], int],
        settings: RpcSettings,
    ) -> None:
        self._runtime = runtime
        self._identity = identity
        self._revision = revision
        self._settings = settings
        self._pending: dict[int, Request] = {}
        self._bytes = 0
        self._last_number = 0
        self._line: _Line | None = None
        self._connecting: TaskHandle | None = None
        self._watching: TaskHandle | None = None
        self._pause = 0.0
        self._next_attempt = 0.0
        self._closed: RpcError | None = None
        self.peer = peer
        #: Why the last attempt to connect failed.
        self.trouble: RpcError | None = None

    # --- asking --------------------------------------------------------------------------------------

    async def answer(self, request: Request) -> frames.Answer:
        """Raises what became of it; give it a timeout. When who waits is cancelled, the peer is told."""
        try:
            return await request.answer
        finally:
            self._leave(request)

    def ask(self, method: str, body: bytes, deadline: float) -> Request:
        """Send it, or have it wait for the connection; `answer` must be awaited next."""
        if self._closed is not None:
            raise self._closed
        settings, size = self._settings, len(body) + _OVERHEAD
        if size > MAX_FRAME:
            raise FrameTooLarge(f"a request of {len(body)} bytes; a frame holds {MAX_FRAME}")
        if len(self._pending) >= settings.max_in_flight or (
            self._pending and self._bytes + size > settings.max_bytes
        ):
            raise Overloaded(
                f"{len(self._pending)} requests with {self._bytes} bytes to {self.peer} are under way already"
            )
        self._last_number += 1
        answer = asyncio.get_running_loop().create_future()
        request = Request(self._last_number, method, body, deadline, answer)
        if self._line is not None:
            self._send(self._line, request)
        self._pending[request.number] = request
        self._bytes += size
        if self._line is None and self._connecting is None:
            self._connecting = self._runtime.spawn("rpc.connect", self._connect())
        return request

    def _leave(self, request: Request) -> None:
        if self._pending.pop(request.number, None) is not None:
            self._bytes -= len(request.body) + _OVERHEAD
        line = self._line
        if request.sent and request.answer.cancelled() and line is not None and line.connection is not None:
            line.connection.send(frames.encode(frames.Cancel(request.number)))

    def _send(self, line: _Line, request: Request) -> None:
        assert line.connection is not None
        left = request.deadline - self._runtime.clock.monotonic()
        ask = frames.Ask(request.number, request.method, self._revision(), left, request.body)
        line.connection.send(frames.encode(ask))
        request.sent = True

    # --- the connection ------------------------------------------------------------------------------

    def hello(self) -> bytes:
        own, peer = self._identity, self.peer
        return frames.encode(
            frames.Hello(
                frames.OLDEST_VERSION,
                frames.NEWEST_VERSION,
                own.cluster,
                own.node,
                own.incarnation,
                peer.node,
                peer.incarnation,
                self._revision(),
            )
        )

    async def _connect(self) -> None:
        try:
            while self._pending and self._line is None and self._closed is None:
                pause = self._next_attempt - self._runtime.clock.monotonic()
                if pause > 0:
                    await self._runtime.clock.sleep(pause)
                    continue
                await self._attempt()
        finally:
            self._connecting = None

    async def _attempt(self) -> None:
        line = _Line(self)
        try:
            async with asyncio.timeout(self._settings.connect_seconds):
                await self._runtime.network.connect(self.peer.host, self.peer.port, line)
                await line.welcome
        except TimeoutError:
            self._attempt_failed(line, PeerUnreachable(f"{self.peer} does not answer"))
        except NetworkError as error:
            self._attempt_failed(line, PeerUnreachable(f"{self.peer} cannot be reached: {error}"))
        except PeerLost as error:
            self._attempt_failed(line, PeerUnreachable(f"{self.peer} broke off: {error}"))
        except RpcError as error:
            self._attempt_failed(line, error)
        except asyncio.CancelledError:
            line.drop(RpcClosed("closed while connecting"))
            raise
        else:
            self._opened(line)

    def _attempt_failed(self, line: _Line, error: RpcError) -> None:
        line.drop(error)
        settings = self._settings
        self._pause = min(settings.longest_pause, max(settings.first_pause, 2 * self._pause))
        # Spread, so that nodes do not come back all at once.
        spread = 0.5 + self._runtime.random.random() / 2
        self._next_attempt = self._runtime.clock.monotonic() + self._pause * spread
        self.trouble = error
        for request in self._pending.values():
            request.fail(type(error)(str(error)))

    def _opened(self, line: _Line) -> None:
        if line.closed or self._closed is not None:
            line.drop(PeerLost("closed"))
            return
        self._line = line
        self._pause, self.trouble = 0.0, None
        for request in list(self._pending.values()):
            if not request.answer.done():
                self._send(line, request)
        self._watching = self._runtime.spawn("rpc.heartbeat", self._watch(line))

    async def _watch(self, line: _Line) -> None:
        """A peer whose machine lost its power never closes its connection."""
        while not line.closed:
            await self._runtime.clock.sleep(self._settings.heartbeat_seconds)
            if not self._pending or line.closed or line.connection is None:
                line.silent_for = 0
                continue
            # Heartbeats are counted, not seconds: it may be we who were stopped for a while.
            if line.silent_for >= self._settings.heartbeats_missed:
                line.drop(PeerLost(f"{self.peer} has fallen silent"))
                return
            if line.silent_for:
                line.connection.send(frames.encode(frames.Ping()))
            line.silent_for += 1

    # --- what connections tell -----------------------------------------------------------------------

    def answered(self, message: frames.Answer | frames.Failure) -> None:
        request = self._pending.get(message.number)
        if request is None or request.answer.done():
            return  # Nobody waits any more.
        if isinstance(message, frames.Answer):
            request.answer.set_result(message)
        else:
            request.fail(as_error(message.kind, message.text, message.begun))

    def lost(self, line: _Line, error: RpcError) -> None:
        if line is not self._line:
            return
        self._line = None
        if self._watching is not None:
            self._watching.cancel()
        for request in self._pending.values():
            request.fail(PeerLost(str(error)))

    def close(self, error: RpcError) -> None:
        """Whoever waits, or asks from now on, gets the error."""
        if self._closed is not None:
            return
        self._closed = error
        if self._connecting is not None:
            self._connecting.cancel()
        line, self._line = self._line, None
        if self._watching is not None:
            self._watching.cancel()
        for request in self._pending.values():
            request.fail(PeerLost(str(error)) if request.sent else type(error)(str(error)))
        if line is not None and line.connection is not None:
            line.closed = True
            line.connection.close()
