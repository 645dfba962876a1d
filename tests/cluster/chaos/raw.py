"""A client that shows each answer as it came: one connection, no policies, no tries of its own.

What drivers do cleverly (look for another node, reconnect, give up on time) would hide what one node said
over a connection that was open all the time. Statements can be sent to a process that does not run: they lie
in its socket, and are the first that it sees when it wakes.
"""

import socket
import struct
from dataclasses import dataclass
from typing import Self

from belvedere.server.messages_client import ErrorReply, RowsReply, decode_response
from belvedere.server.protocol import V4

_STARTUP, _QUERY = 0x01, 0x07
_HEADER = struct.Struct(">BBhBi")


@dataclass(frozen=True, slots=True)
class Told:
    """An error's code, or the first row as it is on the wire; neither if there was no row."""

    error: int | None = None
    text: str = ""
    row: tuple[bytes | None, ...] | None = None

    @property
    def number(self) -> int | None:
        """The first column of the row, a bigint."""
        cell = self.row[0] if self.row else None
        return None if cell is None else int.from_bytes(cell, signed=True)


class RawClient:
    def __init__(self, host: str, port: int, timeout: float = 30.0) -> None:
        self._socket = socket.create_connection((host, port), timeout)
        self._send(_STARTUP, struct.pack(">H", 1) + _text("CQL_VERSION") + _text("3.4.5"), 0)
        self._message()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, text: str, consistency: int, number: int) -> None:
        body = text.encode()
        self._send(_QUERY, struct.pack(">i", len(body)) + body + struct.pack(">HB", consistency, 0), number)

    def receive(self) -> tuple[int, Told]:
        """The number of a statement that was sent, in whatever order answers come."""
        number, opcode, body = self._message()
        reply = decode_response(opcode, body, V4, 0)[0]
        if isinstance(reply, ErrorReply):
            return number, Told(reply.code, reply.message)
        rows = reply.rows if isinstance(reply, RowsReply) else []
        return number, Told(row=tuple(rows[0]) if rows else None)

    def ask(self, text: str, consistency: int) -> Told:
        self.send(text, consistency, 1)
        return self.receive()[1]

    def _send(self, opcode: int, body: bytes, number: int) -> None:
        self._socket.sendall(_HEADER.pack(4, 0, number, opcode, len(body)) + body)

    def _message(self) -> tuple[int, int, bytes]:
        _, _, number, opcode, length = _HEADER.unpack(self._exactly(_HEADER.size))
        return number, opcode, self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the server closed the connection")
            data += more
        return data


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
