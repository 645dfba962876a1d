"""What a client's requests mean: the conversation on one connection, without its bytes.

`handle` answers a request at once when it can, and otherwise gives back the work to wait for. Protocol state
lives here: version, keyspace, whether the client has introduced itself, what was negotiated.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

from belvedere.cql.syntax import BatchKind
from belvedere.query.errors import InvalidRequest, ProtocolError, ServerError, Unprepared
from belvedere.query.failures import as_cql_error
from belvedere.query.results import Result, ResultColumn, Rows, SchemaChange, SetKeyspace, Void
from belvedere.runtime.api import Runtime
from belvedere.server import protocol as wire
from belvedere.server.compression import ALGORITHMS, WORTHWHILE, compress_body, decompress_body
from belvedere.server.connection_api import ServedDatabase, ServerSettings
from belvedere.server.events import EventHub, EventListener
from belvedere.server.messages_requests import (
    AuthResponse,
    Batch,
    Execute,
    OptionsRequest,
    Prepare,
    Query,
    Register,
    Request,
    Startup,
    decode_execute,
    decode_request,
)
from belvedere.server.messages_responses import (
    READY_BODY,
    SUPPORTED_BODY,
    VOID_BODY,
    error_body,
    schema_change_body,
    set_keyspace_body,
    with_warnings,
)
from belvedere.server.messages_rows import EncodedColumns, encode_rows, prepared_body, rows_body
from belvedere.server.protocol import HEADER, HIGHEST_VERSION, RESPONSE_BIT, V5

if TYPE_CHECKING:
    from belvedere.query.database import PreparedStatement

#: The whole of a RESULT Void.
_VOID = Struct(">BBhBiI")
_MAX_REMEMBERED = 10_000
_BATCH_KINDS: tuple[BatchKind, ...] = ("LOGGED", "UNLOGGED", "COUNTER")


class Waiting:
    """A request whose result is not there yet."""

    __slots__ = ("execute", "prepared", "skip_metadata", "stream", "work")

    def __init__(
        self,
        stream: int,
        work: Awaitable[Result],
        skip_metadata: bool,
        execute: Execute | None = None,
        prepared: "PreparedStatement | None" = None,
    ) -> None:
        self.stream = stream
        self.work = work
        self.skip_metadata = skip_metadata
        self.execute = execute
        self.prepared = prepared


#: The envelope and the log position that must be durable before it may leave.
Answer = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class Later:
    """A request that could not even be begun yet."""

    stream: int
    answer: Awaitable[Answer]


Again = Callable[[], Answer | Waiting | Later]


class ResultMetadata:
    """Metadata bytes of prepared statements' results, shared by all connections of a server."""

    def __init__(self) -> None:
        #: By version, then by statement.
        self._encoded: dict[int, dict[bytes, EncodedColumns]] = {v: {} for v in wire.SUPPORTED_VERSIONS}
        self._given: dict[bytes, bytes] = {}

    def encoded(self, statement_id: bytes, columns: tuple[ResultColumn, ...], version: int) -> EncodedColumns:
        by_statement = self._encoded[version]
        found = by_statement.get(statement_id)
        if found is None or found.columns is not columns:
            found = by_statement[statement_id] = EncodedColumns(columns, version)
            _forget_oldest(by_statement)
        return found

    def note_given(self, statement_id: bytes, metadata_id: bytes) -> None:
        """Some client has just been told how this statement's result looks."""
        if self._given.setdefault(statement_id, metadata_id) != metadata_id:
            # Clients now differ in what they know, and none of those before v5 says what.
            self._given[statement_id] = b""
        _forget_oldest(self._given)

    def known_to_all(self, statement_id: bytes, metadata_id: bytes) -> bool:
        """Whether every client that prepared the statement was told of this very result."""
        return self._given.get(statement_id) == metadata_id


def _forget_oldest(remembered: dict[bytes, EncodedColumns] | dict[bytes, bytes]) -> None:
    if len(remembered) > _MAX_REMEMBERED:
        del remembered[next(iter(remembered))]


class Conversation:
    def __init__(
        self,
        runtime: Runtime,
        database: ServedDatabase,
        settings: ServerSettings,
        events: EventHub,
        metadata: ResultMetadata,
        listener: EventListener,
    ) -> None:
        self._runtime = runtime
        self._database = database
        self._settings = settings
        self._events = events
        self._metadata = metadata
        self._listener = listener
        self._compress_bodies = False
        self.version = 0
        self.keyspace: str | None = None
        self.started = False
        #: What the client said of itself in STARTUP.
        self.client_options: dict[str, str] = {}
        #: Whether v5's segments are compressed.
        self.compress_segments = False

    # --- requests ----------------------------------------------------------------------------------------

    def handle(self, flags: int, stream: int, opcode: int, body: bytes) -> Answer | Waiting | Later:
        """Never raises: whatever goes wrong is the answer."""
        try:
            if flags & wire.FLAG_COMPRESSED:
                body = self._decompressed(body)
            if opcode == wire.EXECUTE and self.started and not flags & wire.FLAG_CUSTOM_PAYLOAD:
                return self._execute(stream, decode_execute(body, self.version))
            return self._handle_request(stream, self._decoded(flags, opcode, body))
        except Exception as error:
            return self.failed(stream, error)

    def failed(self, stream: int, error: BaseException) -> Answer:
        """The answer to a request that raised."""
        told = as_cql_error(error)
        if told is None:
            self._runtime.log("error", "request.failed", error=error, at=_where(error))
            told = ServerError(f"{type(error).__name__}: {error}")
        elif told is not error and isinstance(told, ServerError):
            self._runtime.log("warning", "request.failed", error=error)
        version = self.version or HIGHEST_VERSION
        return self._envelope(stream, wire.ERROR, error_body(told, version)), 0

    async def awaited(self, waiting: Waiting | Later) -> Answer:
        if isinstance(waiting, Later):
            return await waiting.answer
        return self.finished(waiting, await waiting.work)

    def finished(self, waiting: Waiting, result: Result) -> Answer:
        """The answer to a request that had to wait."""
        try:
            if waiting.execute is not None and waiting.prepared is not None:
                return self._executed(waiting.stream, waiting.execute, waiting.prepared, result)
            return self._result(waiting.stream, result, waiting.skip_metadata), result.after
        except Exception as error:
            return self.failed(waiting.stream, error)

    def _decompressed(self, body: bytes) -> bytes:
        if self.version >= V5:
            return body
        if not self._compress_bodies:
            raise ProtocolError("Received a compressed frame, but no compression was agreed on in STARTUP")
        return decompress_body(body, self._settings.max_request)

    def _decoded(self, flags: int, opcode: int, body: bytes) -> Request:
        request = decode_request(opcode, body, self.version, flags)
        name = wire.OPCODE_NAMES[opcode]
        if not self.started and opcode not in (wire.STARTUP, wire.OPTIONS):
            raise ProtocolError(f"Unexpected message {name}, expecting STARTUP or OPTIONS")
        if self.started and opcode == wire.STARTUP:
            raise ProtocolError("Unexpected message STARTUP, the connection is already initialized")
        if opcode == wire.AUTH_RESPONSE:
            raise ProtocolError("Unexpected message AUTH_RESPONSE, the server did not ask for authentication")
        return request

    def _handle_request(self, stream: int, request: Request) -> Answer | Waiting | Later:
        match request:
            case Query(text, options, skip_metadata):
                return Waiting(stream, self._database.query(text, self.keyspace, options), skip_metadata)
            case Execute():
                return self._execute(stream, request)
            case Prepare():
                return self._prepare(stream, request)
            case Batch(kind, children, options):
                work = self._database.batch(_BATCH_KINDS[kind], children, self.keyspace, options)
                return Waiting(stream, work, False)
            case Register(events):
                self._events.register(self._listener, events)
                return self._envelope(stream, wire.READY, READY_BODY), 0
            case Startup(options):
                self._start(options)
                return self._envelope(stream, wire.READY, READY_BODY), 0
            case OptionsRequest():
                return self._envelope(stream, wire.SUPPORTED, SUPPORTED_BODY), 0
            case AuthResponse():
                raise ProtocolError("Unexpected message AUTH_RESPONSE")

    def _start(self, options: dict[str, str]) -> None:
        version = options.get("CQL_VERSION")
        if version is None:
            raise ProtocolError("Missing value CQL_VERSION in STARTUP message")
        if not version.startswith("3."):
            raise ProtocolError(
                f"CQL version {version} is not supported by the binary protocol"
                " (supported version are >= 3.0.0)"
            )
        algorithm = options.get("COMPRESSION", "").lower()
        if algorithm and algorithm not in ALGORITHMS:
            raise ProtocolError(f"Unknown compression algorithm: {algorithm}")
        self._compress_bodies = bool(algorithm) and self.version < V5
        self.compress_segments = bool(algorithm) and self.version >= V5
        self.client_options = options
        self.started = True

    def _prepare(self, stream: int, request: Prepare) -> Answer | Later:
        try:
            prepared = self._database.prepare(request.text, request.keyspace or self.keyspace)
        except InvalidRequest as error:
            return self._perhaps_later(stream, error, lambda: self._prepare(stream, request))
        return self._prepared(stream, prepared), 0

    def _perhaps_later(self, stream: int, error: InvalidRequest, again: Again) -> Later:
        """Once more, if by a newer schema the statement can be planned."""
        more = self._database.knows_more(error)
        if more is None:
            raise error
        return Later(stream, self._again(more, error, again))

    async def _again(self, more: Awaitable[bool], error: InvalidRequest, again: Again) -> Answer:
        if not await more:
            raise error
        answer = again()
        return answer if isinstance(answer, tuple) else await self.awaited(answer)

    def _prepared(self, stream: int, prepared: "PreparedStatement") -> bytes:
        plan = prepared.plan
        self._metadata.note_given(prepared.id, prepared.result_metadata_id)
        body = prepared_body(
            self.version,
            prepared.id,
            prepared.result_metadata_id,
            plan.bindings,
            plan.partition_key_bindings,
            plan.result_columns,
        )
        return self._envelope(stream, wire.RESULT, body)

    def _execute(self, stream: int, request: Execute) -> Answer | Waiting | Later:
        database = self._database
        try:
            prepared = database.prepared(request.id)
        except InvalidRequest as error:
            return self._perhaps_later(stream, error, lambda: self._execute(stream, request))
        if prepared is None:
            raise Unprepared(request.id)
        options = request.options
        if options.names is not None:
            options.values = options.values_for(prepared.plan.bindings)
        elif len(options.values) != len(prepared.plan.bindings):
            raise InvalidRequest(
                f"there were {len(prepared.plan.bindings)} markers(?) in CQL"
                f" but {len(options.values)} bound variables"
            )
        result = database.execute(prepared, options)
        if isinstance(result, Result):
            return self._executed(stream, request, prepared, result)
        return Waiting(stream, result, request.skip_metadata, request, prepared)

    # --- results -----------------------------------------------------------------------------------------

    def _executed(
        self, stream: int, request: Execute, prepared: "PreparedStatement", result: Result
    ) -> Answer:
        if type(result) is Void and not result.warnings:
            void = _VOID.pack(self.version | RESPONSE_BIT, 0, stream, wire.RESULT, 4, wire.RESULT_VOID)
            return void, result.after
        if type(result) is not Rows:
            return self._result(stream, result, False), result.after
        encoded = self._metadata.encoded(request.id, result.columns, self.version)
        skip, new_id = request.skip_metadata, None
        if result.columns is not prepared.plan.result_columns:
            # The columns depend on the outcome: nobody was told of them before.
            skip = False
        elif self.version >= V5:
            if request.metadata_id != prepared.result_metadata_id:
                new_id = prepared.result_metadata_id
        elif skip:
            skip = self._metadata.known_to_all(request.id, prepared.result_metadata_id)
        if skip and new_id is None and result.paging_state is None:
            body = encode_rows(encoded.skipping_prefix, result.rows)
        else:
            body = rows_body(result, encoded, skip_metadata=skip, new_id=new_id)
        return self._result_envelope(stream, result, body), result.after

    def _result(self, stream: int, result: Result, skip_metadata: bool) -> bytes:
        match result:
            case Rows():
                columns = EncodedColumns(result.columns, self.version)
                body = rows_body(result, columns, skip_metadata=skip_metadata)
            case SetKeyspace():
                self.keyspace = result.keyspace
                body = set_keyspace_body(result.keyspace)
            case SchemaChange():
                body = schema_change_body(result, self.version)
            case _:
                body = VOID_BODY
        return self._result_envelope(stream, result, body)

    def _result_envelope(self, stream: int, result: Result, body: bytes) -> bytes:
        flags = 0
        if result.warnings:
            flags, body = with_warnings(self.version, result.warnings, body)
        if len(body) > self._settings.max_response:
            raise InvalidRequest(
                f"The result has {len(body)} bytes, more than the {self._settings.max_response} that one"
                " response may have; ask for smaller pages"
            )
        return self._envelope(stream, wire.RESULT, body, flags)

    def event(self, body: bytes) -> bytes:
        return self._envelope(-1, wire.EVENT, body)

    def _envelope(self, stream: int, opcode: int, body: bytes, flags: int = 0) -> bytes:
        if self._compress_bodies and len(body) >= WORTHWHILE:
            body = compress_body(body)
            flags |= wire.FLAG_COMPRESSED
        version = (self.version or HIGHEST_VERSION) | RESPONSE_BIT
        return HEADER.pack(version, flags, stream, opcode, len(body)) + body


def _where(error: BaseException) -> str:
    """The traceback, innermost call first, in one line."""
    frames = []
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        frames.append(f"{code.co_filename.rpartition('belvedere/')[2]}:{step.tb_lineno} {code.co_name}")
        step = step.tb_next
    return " < ".join(reversed(frames))
