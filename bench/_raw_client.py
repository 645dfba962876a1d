"""A small native-protocol client that is fast enough not to be the limit: it speaks in raw v4 frames.

It keeps a fixed number of requests in flight per connection and takes the time of each. Request bodies are
made before the clock starts.
"""

import asyncio
import struct
import time
from collections.abc import Sequence

_HEADER = struct.Struct(">BBhBi")
_STARTUP, _QUERY, _PREPARE, _EXECUTE = 0x01, 0x07, 0x09, 0x0A
_ERROR = 0x00


def frame(opcode: int, body: bytes, stream: int = 0) -> bytes:
    return _HEADER.pack(4, 0, stream, opcode, len(body)) + body


def long_string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">i", len(raw)) + raw


def execute_body(statement_id: bytes, values: Sequence[bytes], consistency: int = 1) -> bytes:
    """EXECUTE with values and nothing else (SKIP_METADATA set, as drivers do)."""
    parts = [
        struct.pack(">H", len(statement_id)),
        statement_id,
        struct.pack(">HBH", consistency, 0x03, len(values)),
    ]
    for value in values:
        parts.append(struct.pack(">i", len(value)))
        parts.append(value)
    return b"".join(parts)


class RawConnection(asyncio.Protocol):
    def __init__(self) -> None:
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._single: asyncio.Future[tuple[int, bytes]] | None = None
        self._bodies: list[bytes] = []
        self._next = 0
        self._answered = 0
        self._sent_at: list[float] = []
        self._done: asyncio.Future[None] | None = None
        self.latencies: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    async def request(self, opcode: int, body: bytes) -> bytes:
        self._single = asyncio.get_running_loop().create_future()
        assert self._transport is not None
        self._transport.write(frame(opcode, body))
        answer, reply = await self._single
        self._single = None
        if answer == _ERROR:
            raise RuntimeError(f"server said: {reply[6:].decode(errors='replace')}")
        return reply

    async def start(self) -> None:
        await self.request(_STARTUP, b"\0\1\0\x0bCQL_VERSION\0\x053.0.0")

    async def query(self, text: str) -> bytes:
        return await self.request(_QUERY, long_string(text) + struct.pack(">HB", 1, 0))

    async def prepare(self, text: str) -> bytes:
        reply = await self.request(_PREPARE, long_string(text))
        (length,) = struct.unpack_from(">H", reply, 4)
        return reply[6 : 6 + length]

    async def pipeline(self, bodies: list[bytes], in_flight: int, opcode: int = _EXECUTE) -> None:
        """Send all bodies with so many in flight; `latencies` gets the seconds of each."""
        self._bodies = [frame(opcode, body, index % 32768) for index, body in enumerate(bodies)]
        self._sent_at = [0.0] * len(bodies)
        self.latencies = []
        self._next = self._answered = 0
        self._done = asyncio.get_running_loop().create_future()
        self._send(in_flight)
        await self._done

    def _send(self, count: int) -> None:
        first, last = self._next, min(self._next + count, len(self._bodies))
        if first == last:
            return
        now = time.perf_counter()
        self._sent_at[first:last] = [now] * (last - first)
        self._next = last
        assert self._transport is not None
        self._transport.write(b"".join(self._bodies[first:last]))

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        position, end, answered = 0, len(buffer), 0
        now = time.perf_counter()
        while end - position >= 9:
            _, _, stream, opcode, length = _HEADER.unpack_from(buffer, position)
            if end - position < 9 + length:
                break
            if self._single is not None:
                self._single.set_result((opcode, buffer[position + 9 : position + 9 + length]))
            else:
                if opcode == _ERROR:
                    self._fail(buffer[position + 15 : position + 9 + length])
                    return
                # Stream numbers go round; with fewer in flight than numbers the latest holder is meant.
                index = stream + (self._answered + answered) // 32768 * 32768
                if index >= len(self._sent_at) or self._sent_at[index] == 0.0:
                    index = max(0, index - 32768)
                self.latencies.append(now - self._sent_at[index])
                answered += 1
            position += 9 + length
        self._buffer = buffer[position:]
        if answered:
            self._answered += answered
            self._send(answered)
            if self._answered == len(self._bodies) and self._done is not None and not self._done.done():
                self._done.set_result(None)

    def _fail(self, message: bytes) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(RuntimeError(message.decode(errors="replace")))

    def connection_lost(self, error: Exception | None) -> None:
        for waiting in (self._single, self._done):
            if waiting is not None and not waiting.done():
                waiting.set_exception(ConnectionError("the server closed the connection"))


async def connect(host: str, port: int) -> RawConnection:
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(RawConnection, host, port)
    await connection.start()
    return connection


async def run_pipelines(
    connections: list[RawConnection], bodies: list[bytes], in_flight: int
) -> tuple[float, list[float]]:
    """Spread bodies over the connections; returns (seconds, sorted latencies)."""
    share = -(-len(bodies) // len(connections))
    parts = [bodies[start : start + share] for start in range(0, len(bodies), share)]
    began = time.perf_counter()
    await asyncio.gather(
        *(connection.pipeline(part, in_flight) for connection, part in zip(connections, parts, strict=False))
    )
    seconds = time.perf_counter() - began
    latencies = sorted(latency for connection in connections for latency in connection.latencies)
    return seconds, latencies
