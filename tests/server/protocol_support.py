"""A database, a runtime and a transport without any machinery, and a client that talks to our connection."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from belvedere.model.types import native
from belvedere.query.access import UNSET
from belvedere.query.errors import AlreadyExists, InvalidRequest, SyntaxException
from belvedere.query.options import QueryOptions
from belvedere.query.results import Result, ResultColumn, Rows, SchemaChange, SetKeyspace, Void
from belvedere.server.connection import CqlConnection
from belvedere.server.connection_api import ServerSettings
from belvedere.server.connection_requests import ResultMetadata
from belvedere.server.envelope import EnvelopeDecoder
from belvedere.server.events import EventHub
from belvedere.server.frames import encode_segments
from belvedere.server.messages_client import Reply, decode_response
from belvedere.server.messages_requests import Request, Startup, encode_request
from belvedere.server.protocol import V5, envelope

BLOB = native("blob")


@dataclass
class FakePlan:
    bindings: tuple[ResultColumn, ...]
    result_columns: tuple[ResultColumn, ...]
    partition_key_bindings: tuple[int, ...] = ()


@dataclass
class FakeStatement:
    id: bytes
    text: str
    plan: FakePlan
    result_metadata_id: bytes


def columns(count: int, prefix: str = "c") -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn("ks", "t", f"{prefix}{number}", BLOB) for number in range(count))


class FakeDatabase:
    """What a statement does is said by its first word; SELECT gives its values back as a row."""

    def __init__(self) -> None:
        self.durable_position = 0
        self.position = 0
        self.log_waiters: list[tuple[int, Callable[[BaseException | None], None]]] = []
        self.listeners: list[Callable[[SchemaChange], None]] = []
        self.statements: dict[bytes, FakeStatement] = {}
        self.gates: list[asyncio.Future[None]] = []
        self.seen: list[tuple[str, str | None, QueryOptions]] = []
        self.batches: list[tuple[str, Any, QueryOptions]] = []
        self.remember = True
        self.failure: Exception = RuntimeError("no failure was chosen")
        #: What looks for a newer schema find; None: nobody is there to ask. NEWER is known after a find.
        self.looks: list[bool] | None = None
        self.knows_newer = False

    def make_durable(self, position: int | None = None, error: BaseException | None = None) -> None:
        if error is None:
            self.durable_position = self.position if position is None else position
        ready = [w for w in self.log_waiters if error is not None or w[0] <= self.durable_position]
        self.log_waiters = [w for w in self.log_waiters if w not in ready]
        for _, callback in ready:
            callback(error)

    def on_durable(self, position: int, callback: Callable[[BaseException | None], None]) -> None:
        self.log_waiters.append((position, callback))

    def on_schema_change(self, listener: Callable[[SchemaChange], None]) -> None:
        self.listeners.append(listener)

    def knows_more(self, unknown: InvalidRequest) -> Awaitable[bool] | None:
        return None if self.looks is None else self._look(self.looks)

    async def _look(self, looks: list[bool]) -> bool:
        await asyncio.sleep(0)
        self.knows_newer = looks.pop(0)
        return self.knows_newer

    def _check_known(self, text: str) -> None:
        if text.startswith("NEWER") and not self.knows_newer:
            raise InvalidRequest("table newer does not exist")

    def prepare(self, text: str, keyspace: str | None) -> FakeStatement:
        self._check_known(text)
        if text.startswith("BAD"):
            raise SyntaxException("line 1:0 no viable alternative at input 'BAD'")
        statement_id = hashlib.md5(f"{keyspace}{text}".encode()).digest()
        count = text.count("?")
        result = columns(count) if text.startswith("SELECT") else ()
        plan = FakePlan(columns(count, "v"), result, (0,) if count else ())
        statement = FakeStatement(statement_id, text, plan, hashlib.md5(repr(result).encode()).digest())
        self.statements[statement_id] = statement
        if len(self.statements) > 1000:
            self.statements.clear()
        return statement

    def prepared(self, statement_id: bytes) -> FakeStatement | None:
        found = self.statements.get(statement_id)
        if found is not None:
            self._check_known(found.text)
        return found

    def execute(self, prepared: FakeStatement, options: QueryOptions) -> Result | Awaitable[Result]:
        text = prepared.text
        if text.startswith("SLOW"):
            return self._gated(Void())
        return self._outcome(text, options, prepared.plan.result_columns)

    async def query(self, text: str, keyspace: str | None, options: QueryOptions) -> Result:
        if self.remember:
            self.seen.append((text, keyspace, options))
        if text.startswith("SLOW"):
            return await self._gated(Void())
        return self._outcome(text, options, columns(len(options.values)))

    async def batch(self, kind: str, children: Any, keyspace: str | None, options: QueryOptions) -> Result:
        if self.remember:
            self.batches.append((kind, children, options))
        return Void()

    async def _gated(self, result: Result) -> Result:
        gate = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        await gate
        return result

    def open_gates(self) -> None:
        gates, self.gates = self.gates, []
        for gate in gates:
            gate.set_result(None)

    def _outcome(self, text: str, options: QueryOptions, result_columns: tuple[ResultColumn, ...]) -> Result:
        word, _, rest = text.partition(" ")
        match word:
            case "SELECT":
                row = [None if value is UNSET else value for value in options.values]
                state = b"next" if options.page_size else None
                return Rows(0, (), result_columns, [row], state)
            case "READ":
                return Rows(self.position, (), columns(1), [[b"dirty"]])
            case "BIG":
                return Rows(
                    0, (), columns(1), [[b"x" * min(int(rest), 1 << 20) if rest.isdecimal() else b""]]
                )
            case "USE":
                return SetKeyspace(0, (), rest)
            case "CREATE":
                change = SchemaChange(0, (), "CREATED", "TABLE", "ks", rest)
                for listener in self.listeners:
                    listener(change)
                return change
            case "WARN":
                return Void(0, ("careful", "really"))
            case "INVALID":
                raise InvalidRequest("unconfigured table")
            case "EXISTS":
                raise AlreadyExists("ks", "t")
            case "FAIL":
                raise self.failure
            case "BUG":
                raise RuntimeError("a bug")
            case "INSERT":
                self.position += 1
                return Void(self.position)
        return Void()


class FakeRuntime:
    """Tasks and callbacks of the running event loop; nothing else is used by connections."""

    def __init__(self) -> None:
        self.logged: list[tuple[str, str, dict[str, object]]] = []
        self.tasks: set[asyncio.Task[None]] = set()

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def call_soon(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(callback)

    def log(self, level: str, event: str, **fields: object) -> None:
        if len(self.logged) < 100:
            self.logged.append((level, event, fields))


class FakeTransport:
    """`network` False keeps what was sent as pending, as a client that does not read makes it."""

    peer = "test:1"

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.reading = True
        self.closed = False
        self.aborted = False
        self.stuck = False
        self.waiting = 0

    @property
    def pending(self) -> int:
        return self.waiting

    def send(self, data: bytes) -> None:
        self.sent.append(data)
        if self.stuck:
            self.waiting += len(data)

    def take(self) -> bytes:
        data = b"".join(self.sent)
        self.sent.clear()
        return data

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


@dataclass
class FakeOwner:
    database: FakeDatabase = field(default_factory=FakeDatabase)
    settings: ServerSettings = field(default_factory=ServerSettings)
    runtime: FakeRuntime = field(default_factory=FakeRuntime)
    events: EventHub = field(default_factory=EventHub)
    metadata: ResultMetadata = field(default_factory=ResultMetadata)
    forgotten: int = 0

    def __post_init__(self) -> None:
        self.database.on_schema_change(self.events.schema_changed)

    def admit(self, connection: CqlConnection) -> bool:
        return True

    def forget(self, connection: CqlConnection) -> None:
        self.forgotten += 1


class Talk:
    """One client and its connection, without a network between."""

    def __init__(self, owner: FakeOwner | None = None, version: int = 4, compression: str = "") -> None:
        self.owner = owner or FakeOwner()
        self.version = version
        self.compression = compression
        self.transport = FakeTransport()
        self.connection = CqlConnection(self.owner)
        self.connection.on_open(self.transport)
        self.decoder = EnvelopeDecoder(1 << 28, responses=True)
        self.segmented = False
        self.warnings: list[str] = []

    @property
    def database(self) -> FakeDatabase:
        return self.owner.database

    def start(self) -> "Talk":
        options = {"CQL_VERSION": "3.0.0"}
        if self.compression:
            options["COMPRESSION"] = self.compression
        self.send(1, Startup(options))
        replies = self.received()
        assert [type(reply).__name__ for _, reply in replies] == ["ReadyReply"], replies
        if self.version >= V5:
            self.segmented = True
            self.decoder.use_segments(bool(self.compression))
        return self

    def bytes_of(self, stream: int, request: Request, flags: int = 0) -> bytes:
        opcode, body = encode_request(request, self.version)
        return envelope(self.version, stream, opcode, body, flags)

    def send(self, stream: int, request: Request, flags: int = 0) -> None:
        self.send_raw(self.bytes_of(stream, request, flags))

    def send_raw(self, *envelopes: bytes) -> None:
        if self.segmented:
            self.connection.on_data(encode_segments(envelopes, bool(self.compression)))
        else:
            self.connection.on_data(b"".join(envelopes))

    def received(self) -> list[tuple[int, Reply]]:
        """(stream, reply) of everything that came since."""
        replies = []
        for flags, stream, opcode, body in self.decoder.feed(self.transport.take()):
            reply, warnings = decode_response(opcode, body, self.decoder.version, flags)
            self.warnings += warnings
            replies.append((stream, reply))
        assert self.decoder.failure is None, self.decoder.failure
        return replies

    async def ask(self, request: Request, stream: int = 7) -> Reply:
        self.send(stream, request)
        await settle()
        ((answered, reply),) = self.received()
        assert answered == stream
        return reply


async def settle() -> None:
    """Let tasks and callbacks run until there is nothing left but those that wait for a gate."""
    for _ in range(8):
        await asyncio.sleep(0)


def run_async(test: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
    asyncio.run(test(*arguments))
