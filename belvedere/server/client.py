"""A small CQL client for our own command line: one connection, one request at a time, protocol v4."""

import asyncio
from typing import Any, Self

from belvedere.model.types import NATIVE_TYPES, CQLType, ListType, MapType, SetType
from belvedere.query.errors import CQLError, ProtocolError
from belvedere.query.options import QueryOptions
from belvedere.runtime.api import Connection, Runtime
from belvedere.runtime.errors import ConnectionClosed
from belvedere.server.envelope import EnvelopeDecoder
from belvedere.server.messages_client import ErrorReply, Reply, RowsReply, TypeOption, decode_response
from belvedere.server.messages_requests import Query, Request, Startup, encode_request
from belvedere.server.protocol import V4, envelope

_MAX_RESPONSE = 256 << 20
_BY_OPTION = {scalar.option_id: scalar for scalar in NATIVE_TYPES.values()}


class _Handler:
    """Hands each response to whoever waits for it."""

    def __init__(self) -> None:
        self._decoder = EnvelopeDecoder(_MAX_RESPONSE, responses=True)
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Reply] = self._loop.create_future()
        self._failure: Exception | None = None

    def on_open(self, connection: Connection) -> None:
        pass

    def on_data(self, data: bytes) -> None:
        try:
            for flags, _, opcode, body in self._decoder.feed(data):
                if not self._answer.done():
                    self._answer.set_result(decode_response(opcode, body, V4, flags)[0])
        except CQLError as error:
            self._fail(error)
        if self._decoder.failure is not None:
            self._fail(self._decoder.failure)

    def on_drained(self) -> None:
        pass

    def on_close(self, error: Exception | None) -> None:
        self._fail(ConnectionClosed("the server closed the connection"))

    def expect(self) -> "asyncio.Future[Reply]":
        """The answer to the request that is sent next."""
        self._answer = self._loop.create_future()
        if self._failure is not None:
            self._answer.set_exception(self._failure)
        return self._answer

    def _fail(self, failure: Exception) -> None:
        self._failure = self._failure or failure
        if not self._answer.done():
            self._answer.set_exception(self._failure)
            # Nobody need be waiting for it.
            self._answer.exception()


class Client:
    def __init__(self, connection: Connection, handler: _Handler) -> None:
        self._connection = connection
        self._handler = handler

    @classmethod
    async def connect(cls, runtime: Runtime, host: str, port: int) -> Self:
        handler = _Handler()
        client = cls(await runtime.network.connect(host, port, handler), handler)
        await client._request(Startup({"CQL_VERSION": "3.0.0"}))
        return client

    async def query(self, text: str) -> list[dict[str, Any]]:
        """Rows as dicts; [] for statements without rows. Raises CQLError with the server's code."""
        reply = await self._request(Query(text, QueryOptions()))
        if not isinstance(reply, RowsReply) or reply.metadata.columns is None:
            return []
        columns = [(column.name, _type(column.type)) for column in reply.metadata.columns]
        return [
            {
                name: None if value is None else cql_type.decode(value)
                for (name, cql_type), value in zip(columns, row, strict=True)
            }
            for row in reply.rows
        ]

    def close(self) -> None:
        self._connection.close()

    async def _request(self, request: Request) -> Reply:
        opcode, body = encode_request(request, V4)
        answer = self._handler.expect()
        self._connection.send(envelope(V4, 0, opcode, body))
        reply = await answer
        if isinstance(reply, ErrorReply):
            error = CQLError(reply.message)
            error.code = reply.code
            raise error
        return reply


def _type(option: TypeOption) -> CQLType:
    """The types that our own tables use."""
    match option:
        case (0x20, (*element,)):
            return ListType(_type(tuple(element)))
        case (0x22, (*element,)):
            return SetType(_type(tuple(element)))
        case (0x21, (*key,), (*value,)):
            return MapType(_type(tuple(key)), _type(tuple(value)))
        case (int() as number, *_) if number in _BY_OPTION:
            return _BY_OPTION[number]
    raise ProtocolError(f"cannot decode type {option}")
