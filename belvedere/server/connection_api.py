"""What a connection needs of the database behind it, and how much a client may ask of it at once."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from belvedere.cql.syntax import BatchKind
from belvedere.query.access import BoundValue
from belvedere.query.errors import InvalidRequest
from belvedere.query.options import QueryOptions
from belvedere.query.results import Result, SchemaChange
from belvedere.server.envelope import MAX_FRAME, MEBIBYTE

if TYPE_CHECKING:
    from belvedere.query.database import PreparedStatement

#: A statement's text or the id it was prepared under, and its values.
BatchChild = tuple[str | bytes, Sequence[BoundValue]]


class ServedDatabase(Protocol):
    """`query.database.Database`, as far as the protocol server uses it."""

    def prepare(self, text: str, keyspace: str | None) -> "PreparedStatement": ...
    def prepared(self, statement_id: bytes, /) -> "PreparedStatement | None": ...
    def execute(self, prepared: "PreparedStatement", options: QueryOptions) -> Result | Awaitable[Result]: ...
    def knows_more(self, unknown: InvalidRequest, /) -> Awaitable[bool] | None:
        """After an InvalidRequest of `prepare` or `prepared`: whether they may know better now."""

    async def query(self, text: str, keyspace: str | None, options: QueryOptions) -> Result: ...
    async def batch(
        self,
        kind: BatchKind,
        children: Sequence[BatchChild],
        keyspace: str | None,
        options: QueryOptions,
    ) -> Result: ...
    @property
    def durable_position(self) -> int: ...
    def on_durable(self, position: int, callback: Callable[[BaseException | None], None]) -> None: ...
    def on_schema_change(self, listener: Callable[[SchemaChange], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class ServerSettings:
    host: str = "127.0.0.1"
    port: int = 9042
    max_connections: int = 10_000
    #: The longest body a client may send once it has introduced itself, and before.
    max_request: int = 16 * MEBIBYTE
    max_request_before_startup: int = 64 * 1024
    #: The longest body we send; a larger result is an error that says so.
    max_response: int = MAX_FRAME
    #: Per connection: requests begun and not yet answered, and the bytes of those and of answers not sent.
    max_in_flight: int = 1024
    max_in_flight_bytes: int = 32 * MEBIBYTE
    #: A client that lets this much wait to be read gets no further answers computed. More than what the
    #: transport itself calls too much, or nobody would tell us that it has drained.
    max_unsent: int = MEBIBYTE
    #: How long a stopping server waits for requests in flight.
    stop_seconds: float = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.max_request <= MAX_FRAME or not 0 < self.max_response <= MAX_FRAME:
            raise ValueError(f"frames are limited to {MAX_FRAME // MEBIBYTE} MiB")
        if self.max_in_flight < 1 or self.max_in_flight_bytes < 1 or self.max_connections < 1:
            raise ValueError("limits must be positive")
