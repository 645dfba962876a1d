"""A line between a client and a server that a test can cut, deafen, or hold up."""

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self


class TcpProxy:
    """While `answers_lost`, what the server says is thrown away. While `requests_held`, what the client says
    is kept; `release` delivers it on the connection it was meant for, though the client hung up long ago."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._open: list[asyncio.StreamWriter] = []
        self._clients: list[asyncio.StreamWriter] = []
        self._held: list[tuple[asyncio.StreamWriter, bytes]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.answers_lost = False
        self.requests_held = False
        self.closed = False
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def holds(self) -> bool:
        return bool(self._held)

    def hang_up(self) -> None:
        """Break every connection of the client. Upstream they stay open: the server has not noticed."""
        clients, self._clients = self._clients, []
        for client in clients:
            client.transport.abort()

    def release(self) -> None:
        held, self._held = self._held, []
        for server, data in held:
            server.write(data)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.closed:
            writer.transport.abort()
            return
        try:
            upstream, server = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._clients.append(writer)
        self._open += [writer, server]
        self._start(self._pump(reader, lambda data: self._to_server(server, data), lambda: None))
        self._start(self._pump(upstream, lambda data: self._to_client(writer, data), writer.close))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.ensure_future(work))

    def _to_server(self, server: asyncio.StreamWriter, data: bytes) -> None:
        if self.requests_held:
            self._held.append((server, data))
        else:
            server.write(data)

    def _to_client(self, client: asyncio.StreamWriter, data: bytes) -> None:
        if not self.answers_lost and not client.transport.is_closing():
            client.write(data)

    async def _pump(
        self, reader: asyncio.StreamReader, deliver: Callable[[bytes], None], end: Callable[[], None]
    ) -> None:
        try:
            while data := await reader.read(65536):
                deliver(data)
        except OSError:
            pass
        end()
