"""One simulated connection: two ends and a pipe in each direction."""

import collections
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from belvedere.runtime.api import ConnectionHandler
from belvedere.runtime.errors import ConnectionClosed, NetworkError
from belvedere.sim.incarnation import Incarnation
from belvedere.sim.randomness import between, fate

if TYPE_CHECKING:
    from belvedere.sim.network import Fabric

# What the kernels at both ends and the wire hold before bytes count as pending at the sender.
WINDOW = 256 * 1024
HIGH_WATER = 256 * 1024
LOW_WATER = 64 * 1024

MakeHandler = Callable[[], ConnectionHandler]


class Pipe:
    """One direction. Pieces wait in one queue of their own, whatever order the scheduler runs arrivals in.

    An empty piece is the end of the stream: nobody sends one otherwise.
    """

    def __init__(self, stream: "Stream", sender: "SimConnection", receiver: "SimConnection") -> None:
        self._stream = stream
        self._fabric = stream.fabric
        self.sender = sender
        self.receiver = receiver
        self._travelling: collections.deque[bytes] = collections.deque()
        self._sent = 0
        self._last_arrival = 0.0
        self._held = 0
        self._stalls = 0
        self.in_flight = 0

    def put(self, data: bytes) -> None:
        source, target = self.sender.owner.machine, self.receiver.owner.machine
        link = self._stream.link_number
        self._sent += 1
        if self._fabric.breaks(source, target, link, self._sent):
            self._stream.reset("connection reset by peer")
            return
        cut = self._fabric.split_at(source, target, link, self._sent, len(data))
        self.in_flight += len(data)
        for piece in (data[:cut], data[cut:]) if cut else (data,):
            self._send_piece(piece, self._fabric.piece_delay(source, target, link, self._sent))
        if not self.receiver.owner.alive and self._fabric.is_up(target):
            # A rebooted machine knows nothing of the connection and says so.
            self.sender.finish_later(ConnectionClosed("connection reset by peer"), self._round_trip())

    def _round_trip(self) -> float:
        return 2 * self._fabric.piece_delay(
            self.sender.owner.machine, self.receiver.owner.machine, self._stream.link_number, -3
        )

    def _send_piece(self, piece: bytes, delay: float) -> None:
        loop = self._fabric.loop
        self._last_arrival = max(self._last_arrival, loop.time() + delay)
        self._travelling.append(piece)
        loop.call_at(self._last_arrival, self._arrive, context=self.receiver.owner.context)

    def _arrive(self) -> None:
        if not self._travelling:
            return
        if self._fabric.is_blocked(self.sender.owner.machine, self.receiver.owner.machine):
            self._hold()
            return
        piece = self._travelling.popleft()
        self._fabric.record("net.arrive", f"{self.receiver.label} {len(piece)} {zlib.crc32(piece):08x}")
        self.receiver.receive(piece)

    def _hold(self) -> None:
        """TCP sends again and again, and gives up after a while."""
        self._held += 1
        if self._held > 1:
            return
        self._stalls += 1
        stall = self._stalls
        share = fate(self._stream.link_number, "stall", self.sender.label, stall)

        def give_up() -> None:
            if self._held and self._stalls == stall:
                self._stream.reset("connection timed out")

        self.sender.owner.call_later(between(share, 5.0, 120.0), give_up)

    def link_opened(self) -> None:
        held, self._held = self._held, 0
        for number in range(held):
            delay = self._fabric.piece_delay(
                self.sender.owner.machine, self.receiver.owner.machine, self._stream.link_number, -10 - number
            )
            self._fabric.loop.call_later(delay, self._arrive, context=self.receiver.owner.context)

    def taken(self, count: int) -> None:
        self.in_flight -= count
        self.sender.some_was_taken()

    def clear(self) -> None:
        self._travelling.clear()
        self._held = 0
        self.in_flight = 0


class SimConnection:
    """One end: the runtime's Connection."""

    def __init__(self, stream: "Stream", owner: Incarnation, peer: str, label: str) -> None:
        self._stream = stream
        self.owner = owner
        self.label = label
        self._peer = peer
        self._handler: ConnectionHandler | None = None
        self.out: Pipe
        self._inbox: collections.deque[bytes] = collections.deque()
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._over_high_water = False
        self._paused = False
        self._closing = False
        self.closed = False

    # The life of an end.

    def open(self, handler: ConnectionHandler) -> None:
        self._handler = handler
        self._stream.fabric.record("net.open", self.label)
        handler.on_open(self)
        self._deliver()

    @property
    def is_open(self) -> bool:
        return self._handler is not None

    def finish_later(self, error: Exception | None, delay: float) -> None:
        self._stream.fabric.loop.call_later(delay, self._finish, error, context=self.owner.context)

    def _finish(self, error: Exception | None) -> None:
        if self.closed:
            return
        self.vanish()
        if self._handler is not None:
            self._stream.fabric.record("net.close", f"{self.label} {type(error).__name__}")
            self._handler.on_close(error)

    def vanish(self) -> None:
        """Closed without a word to the handler."""
        self.closed = True
        self._inbox.clear()
        self._unsent.clear()
        self._unsent_bytes = 0
        self._stream.end_closed()

    # Receiving.

    def receive(self, piece: bytes) -> None:
        if self.closed:
            return
        if self._closing:
            self._stream.pipe_to(self).taken(len(piece))
            return
        self._inbox.append(piece)
        self._deliver()

    def _deliver(self) -> None:
        inbox = self._inbox
        while inbox and self._handler is not None and not (self._paused or self._closing or self.closed):
            if not inbox[0]:
                self._finish(None)
                return
            # All that has arrived comes at once, as from a socket.
            parts: list[bytes] = []
            while inbox and inbox[0]:
                parts.append(inbox.popleft())
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            self._stream.pipe_to(self).taken(len(data))
            try:
                self._handler.on_data(data)
            except Exception as error:
                # As asyncio does: the handler's failure is reported and costs it the connection.
                self._stream.fabric.loop.call_exception_handler({"message": self.label, "exception": error})
                self._stream.other(self).finish_later(ConnectionClosed("connection reset by peer"), 0.0)
                self._finish(NetworkError(str(error)))

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        if self._paused and not self.closed:
            self._paused = False
            self._stream.fabric.loop.call_soon(self._deliver, context=self.owner.context)

    # Sending.

    @property
    def peer(self) -> str:
        return self._peer

    @property
    def pending(self) -> int:
        return 0 if self.closed else self._unsent_bytes + max(0, self.out.in_flight - WINDOW)

    def send(self, data: bytes) -> None:
        if self.closed or self._closing or not data:
            return
        if not self._unsent:
            self._stream.fabric.loop.call_soon(self._flush, context=self.owner.context)
        self._unsent.append(data)
        self._unsent_bytes += len(data)

    def _flush(self) -> None:
        unsent = self._unsent
        if not unsent or self.closed:
            return
        self._unsent = []
        self._unsent_bytes = 0
        self.out.put(unsent[0] if len(unsent) == 1 else b"".join(unsent))
        self._over_high_water = self._over_high_water or self.pending > HIGH_WATER

    def some_was_taken(self) -> None:
        """Called in the receiver's step; the handler must hear of it in one of its own."""
        if self.closed or not (self._closing or self._over_high_water) or self.pending > LOW_WATER:
            return
        self._over_high_water = False
        self._stream.fabric.loop.call_soon(self._drained, context=self.owner.context)

    def _drained(self) -> None:
        if self.closed:
            return
        if self._closing:
            if self.pending == 0:
                self._finish(None)
        elif self._handler is not None:
            self._handler.on_drained()

    def close(self) -> None:
        if self.closed or self._closing:
            return
        self._flush()
        self._closing = True
        self._drop_inbox()
        self.out.put(b"")
        if self.pending == 0:
            self.finish_later(None, 0.0)

    def abort(self) -> None:
        if self.closed:
            return
        self._closing = True
        self._unsent.clear()
        self._unsent_bytes = 0
        self._drop_inbox()
        self._stream.reset("connection reset by peer", by=self)

    def _drop_inbox(self) -> None:
        dropped = sum(len(piece) for piece in self._inbox)
        self._inbox.clear()
        if dropped:
            self._stream.pipe_to(self).taken(dropped)


class Stream:
    """Both ends. `link_number` counts the connections of this link: fates are drawn by it."""

    def __init__(
        self,
        fabric: "Fabric",
        number: int,
        link_number: int,
        client: Incarnation,
        server: Incarnation,
        port: int,
    ) -> None:
        self.fabric = fabric
        self.number = number
        self.link_number = link_number
        self._broken = False
        name = f"{client.label}>{server.label}:{port}/{link_number}"
        self.client = SimConnection(self, client, f"{server.machine}:{port}", f"{name} client")
        self.server = SimConnection(
            self, server, f"{client.machine}:{50_000 + link_number}", f"{name} server"
        )
        self.client.out = Pipe(self, self.client, self.server)
        self.server.out = Pipe(self, self.server, self.client)

    def other(self, end: SimConnection) -> SimConnection:
        return self.server if end is self.client else self.client

    def pipe_to(self, end: SimConnection) -> Pipe:
        return self.other(end).out

    def joins(self, one: str, other: str) -> bool:
        machines = (self.client.owner.machine, self.server.owner.machine)
        return machines in ((one, other), (other, one))

    def touches(self, owner: Incarnation) -> bool:
        return self.client.owner is owner or self.server.owner is owner

    @property
    def broken(self) -> bool:
        return self._broken

    def link_opened(self, source: str, target: str) -> None:
        for end in (self.client, self.server):
            if (end.owner.machine, self.other(end).owner.machine) == (source, target):
                end.out.link_opened()

    def reset(self, reason: str, by: SimConnection | None = None) -> None:
        """Break the stream; what was on its way is lost. Whoever did it on purpose sees an orderly close."""
        if self._broken:
            return
        self._broken = True
        self.client.out.clear()
        self.server.out.clear()
        for number, end in enumerate((self.client, self.server)):
            if end is by:
                end.finish_later(None, 0.0)
            else:
                machines = (self.other(end).owner.machine, end.owner.machine)
                delay = self.fabric.piece_delay(*machines, self.link_number, -4 - number)
                end.finish_later(ConnectionClosed(reason), delay)

    def side_died(self, dead: Incarnation, silence: float, orderly: bool) -> None:
        """`silence` 0: the kernel lives and closes for its process, in order or with a reset."""
        ends = [end for end in (self.client, self.server) if end.owner is dead]
        if len(ends) == 2:
            self.client.vanish()
            self.server.vanish()
            return
        end = ends[0]
        peer = self.other(end)
        if not end.closed:
            if silence == 0.0 and orderly:
                end.out.put(b"")
            else:
                peer.finish_later(ConnectionClosed("connection reset by peer"), silence)
            end.vanish()

    def end_closed(self) -> None:
        if self.client.closed and self.server.closed:
            self.fabric.forget_stream(self.number)
