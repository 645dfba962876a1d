"""The network between simulated machines: streams that delay, stall, break and tear messages apart.

What a stream carries arrives whole and in order, or the stream breaks; but where one piece ends is drawn
anew, as TCP promises nothing about it. Each piece's fate is drawn by its link and number, not from a common
stream of draws: dropping one message from a failing run leaves the fate of the others as it was.
"""

import asyncio
import dataclasses
import random

from belvedere.runtime.api import ConnectionHandler
from belvedere.runtime.errors import AddressInUse, ConnectionClosed, ConnectionRefused, NetworkError
from belvedere.sim.incarnation import Incarnation
from belvedere.sim.loop import SimLoop
from belvedere.sim.randomness import between, fate
from belvedere.sim.stream import MakeHandler, SimConnection, Stream

_LOOPBACK = ("127.0.0.1", "localhost", "::1", "0.0.0.0", "::", "")
_CONNECT_TIMEOUT = 20.0
_FIRST_FREE_PORT = 40_000


@dataclasses.dataclass
class NetworkFaults:
    """Shares are probabilities for each piece sent; `slowness` multiplies every delay."""

    breaks: float = 0.0
    spikes: float = 0.002
    splits: float = 0.1
    slowness: float = 1.0


class Fabric:
    """All links of the world. A link has a direction: (from machine, to machine)."""

    def __init__(self, loop: SimLoop, seed: int, generator: random.Random) -> None:
        self.loop = loop
        self.faults = NetworkFaults()
        self._seed = seed
        self._delay_low = between(generator.random(), 20e-6, 1e-3)
        self._blocked: dict[tuple[str, str], None] = {}
        self._listeners: dict[tuple[str, int], SimListener] = {}
        self._streams: dict[int, Stream] = {}
        self._opened: dict[tuple[str, str], int] = {}
        self._machines: dict[str, Incarnation] = {}
        self._stream_count = 0
        self._next_port = _FIRST_FREE_PORT

    # What scenarios do to it.

    def partition(self, left: list[str], right: list[str], *, one_way: bool = False) -> None:
        """Nothing gets from the left machines to the right ones, nor back unless `one_way`. Streams stall."""
        for source in left:
            for target in right:
                self.block(source, target)
                if not one_way:
                    self.block(target, source)

    def block(self, source: str, target: str) -> None:
        self._blocked[source, target] = None
        self.loop.trace.record(self.loop.now_ns, "net.block", f"{source}>{target}")

    def unblock(self, source: str, target: str) -> None:
        if (source, target) in self._blocked:
            del self._blocked[source, target]
            self.loop.trace.record(self.loop.now_ns, "net.unblock", f"{source}>{target}")
            for stream in list(self._streams.values()):
                stream.link_opened(source, target)

    def heal(self) -> None:
        for source, target in list(self._blocked):
            self.unblock(source, target)

    def is_blocked(self, source: str, target: str) -> bool:
        return (source, target) in self._blocked

    def break_streams(self, one: str, other: str) -> int:
        """Reset every open connection between two machines; returns how many."""
        chosen = [stream for stream in self._streams.values() if stream.joins(one, other)]
        for stream in chosen:
            stream.reset("connection reset by peer")
        return len(chosen)

    # What streams ask.

    def piece_delay(self, source: str, target: str, stream: int, number: int) -> float:
        share = fate(self._seed, "delay", source, target, stream, number)
        low = 5e-6 if source == target else self._delay_low
        delay = between(share, low, low * 20)
        if fate(self._seed, "spike", source, target, stream, number) < self.faults.spikes:
            delay += between(share, 0.005, 0.5)
        return delay * self.faults.slowness

    def split_at(self, source: str, target: str, stream: int, number: int, length: int) -> int:
        """Where a piece is cut in two; 0 for not at all."""
        if length < 2 or fate(self._seed, "split", source, target, stream, number) >= self.faults.splits:
            return 0
        return 1 + int(fate(self._seed, "cut", source, target, stream, number) * (length - 1))

    def breaks(self, source: str, target: str, stream: int, number: int) -> bool:
        share = self.faults.breaks
        return share > 0.0 and fate(self._seed, "break", source, target, stream, number) < share

    def forget_stream(self, number: int) -> None:
        self._streams.pop(number, None)

    def record(self, kind: str, name: str) -> None:
        self.loop.trace.record(self.loop.now_ns, kind, name)

    # What incarnations ask.

    def listen(self, owner: Incarnation, host: str, port: int, make_handler: MakeHandler) -> "SimListener":
        if host not in _LOOPBACK and host != owner.machine:
            raise NetworkError(f"cannot listen on {host}: not an address of {owner.machine}")
        if port == 0:
            self._next_port += 1
            port = self._next_port
        key = (owner.machine, port)
        if key in self._listeners:
            raise AddressInUse(f"address already in use: {owner.machine}:{port}")
        listener = self._listeners[key] = SimListener(self, owner, (host, port), make_handler)
        self.record("net.listen", f"{owner.label}:{port}")
        return listener

    def stop_listening(self, listener: "SimListener") -> None:
        key = (listener.owner.machine, listener.address[1])
        if self._listeners.get(key) is listener:
            del self._listeners[key]

    async def connect(
        self, owner: Incarnation, host: str, port: int, handler: ConnectionHandler
    ) -> SimConnection:
        target = owner.machine if host in _LOOPBACK else host
        link = (owner.machine, target)
        attempt = self._opened[link] = self._opened.get(link, 0) + 1
        there = self.piece_delay(owner.machine, target, attempt, -1)
        back = self.piece_delay(target, owner.machine, attempt, -2)
        if self._blocked_either_way(*link) or (target in self._machines and not self.is_up(target)):
            there = _CONNECT_TIMEOUT
        opened: list[Stream] = []
        cancelled: list[bool] = []

        def arrive() -> None:
            if self._blocked_either_way(*link) or (target in self._machines and not self.is_up(target)):
                raise NetworkError(f"connecting to {host}:{port} timed out")
            opened.append(self._open_stream(owner, target, port, attempt))

        def answered() -> SimConnection:
            stream = opened[0]
            if cancelled:
                stream.client.abort()
            elif stream.broken or stream.client.closed:
                raise ConnectionClosed(f"connection to {host}:{port} broke while it was being made")
            else:
                stream.client.open(handler)
            return stream.client

        try:
            connection: SimConnection = await owner.operation((there, arrive), (back, answered))
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return connection

    def _blocked_either_way(self, one: str, other: str) -> bool:
        return self.is_blocked(one, other) or self.is_blocked(other, one)

    def _open_stream(self, owner: Incarnation, target: str, port: int, attempt: int) -> Stream:
        listener = self._listeners.get((target, port))
        if listener is None:
            raise ConnectionRefused(f"connection refused: {target}:{port}")
        self._stream_count += 1
        stream = Stream(self, self._stream_count, attempt, owner, listener.owner, port)
        self._streams[stream.number] = stream

        def accept() -> None:
            if not stream.broken and not stream.server.closed:
                stream.server.open(listener.make_handler())

        self.loop.call_soon(accept, context=listener.owner.context)
        return stream

    def booted(self, incarnation: Incarnation) -> None:
        self._machines[incarnation.machine] = incarnation

    def is_up(self, machine: str) -> bool:
        incarnation = self._machines.get(machine)
        return incarnation is not None and incarnation.alive

    def crash(self, dead: Incarnation, *, silent: bool, generator: random.Random) -> None:
        """A killed process has its sockets closed by the kernel; a machine without power says nothing, and
        its peers find out when they next hear of it or when their keep-alive gives up."""
        for key, listener in list(self._listeners.items()):
            if listener.owner is dead:
                del self._listeners[key]
        for stream in list(self._streams.values()):
            if stream.touches(dead):
                silence = between(generator.random(), 0.5, 60.0) if silent else 0.0
                stream.side_died(dead, silence, orderly=generator.random() < 0.7)


class SimListener:
    def __init__(
        self, fabric: Fabric, owner: Incarnation, address: tuple[str, int], make: MakeHandler
    ) -> None:
        self._fabric = fabric
        self.owner = owner
        self._address = address
        self.make_handler = make

    @property
    def address(self) -> tuple[str, int]:
        return self._address

    async def close(self) -> None:
        self._fabric.stop_listening(self)


class SimNetwork:
    """One incarnation's way to the fabric: the runtime's Network. Hosts are names of machines; the usual
    loopback and any-addresses mean the own one."""

    def __init__(self, fabric: Fabric, owner: Incarnation) -> None:
        self._fabric = fabric
        self._owner = owner

    async def listen(self, host: str, port: int, make_handler: MakeHandler) -> SimListener:
        self._owner.check_alive()
        return self._fabric.listen(self._owner, host, port, make_handler)

    async def connect(self, host: str, port: int, handler: ConnectionHandler) -> SimConnection:
        return await self._fabric.connect(self._owner, host, port, handler)
