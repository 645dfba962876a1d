"""One client's connection: bytes in and out, order of durability, and how much may be under way at once.

Everything that can be answered at once is answered within the same `on_data`, and leaves in one `send`. An
answer that tells of something not yet durable is held until the commit log has it; requests that must wait
run as one task each. When too much is under way, or the client does not read, requests already received
stay in the backlog and the transport stops reading, so that what one connection can hold is bounded:
one chunk, one partial message, and the limits of `ServerSettings`.
"""

from collections import deque
from typing import TYPE_CHECKING, Protocol

from belvedere.query.errors import WriteTimeout
from belvedere.runtime.api import Connection, Runtime
from belvedere.server import protocol as wire
from belvedere.server.connection_api import ServedDatabase, ServerSettings
from belvedere.server.connection_requests import Answer, Conversation, Later, ResultMetadata, Waiting
from belvedere.server.envelope import Envelope, EnvelopeDecoder
from belvedere.server.events import EventHub
from belvedere.server.frames import encode_segments
from belvedere.server.protocol import HEADER, HIGHEST_VERSION, V5

if TYPE_CHECKING:
    from collections.abc import Callable


class ConnectionOwner(Protocol):
    """The server, as its connections see it."""

    runtime: Runtime
    database: ServedDatabase
    settings: ServerSettings
    events: EventHub
    metadata: ResultMetadata

    def admit(self, connection: "CqlConnection") -> bool:
        """False when there are too many connections, or the server is stopping."""

    def forget(self, connection: "CqlConnection") -> None: ...


class CqlConnection:
    def __init__(self, owner: ConnectionOwner) -> None:
        settings = owner.settings
        self._owner = owner
        self._runtime = owner.runtime
        self._database = owner.database
        self._max_in_flight = settings.max_in_flight
        self._max_bytes = settings.max_in_flight_bytes
        self._max_unsent = settings.max_unsent
        self._decoder = EnvelopeDecoder(settings.max_request_before_startup)
        self._conversation = Conversation(
            owner.runtime, owner.database, settings, owner.events, owner.metadata, self
        )
        self._handle: Callable[[int, int, int, bytes], Answer | Waiting | Later] = self._conversation.handle
        self._connection: Connection | None = None
        self._backlog: deque[Envelope] = deque()
        self._out: list[bytes] = []
        self._out_bytes = 0
        #: Answers that wait for the commit log, with the position each waits for.
        self._held: deque[tuple[int, bytes]] = deque()
        self._running = 0
        #: Bytes of what is in `_out`, in `_held` and in requests that run.
        self._load = 0
        #: What one more answer may be expected to weigh: the largest of late, fading.
        self._expected_answer = 64
        self._segmented = False
        self._inside = False
        self._awaiting_log = False
        self._flush_planned = False
        self._congested = False
        self._paused = False
        self._closing = False
        self._closed = False

    # --- what the transport calls ------------------------------------------------------------------------

    def on_open(self, connection: Connection) -> None:
        self._connection = connection
        if not self._owner.admit(self):
            self._closed = True
            connection.close()

    def on_data(self, data: bytes) -> None:
        if self._closing or self._closed:
            return
        self._backlog.extend(self._decoder.feed(data))
        if not self._conversation.version:
            self._conversation.version = self._decoder.version
        self._work()

    def on_drained(self) -> None:
        self._congested = False
        self._work()

    def on_close(self, error: Exception | None) -> None:
        self._closed = True
        self._backlog.clear()
        self._held.clear()
        self._out.clear()
        self._owner.events.forget(self)
        self._owner.forget(self)

    # --- what the server calls ---------------------------------------------------------------------------

    @property
    def version(self) -> int:
        return self._conversation.version or HIGHEST_VERSION

    @property
    def peer(self) -> str:
        return "?" if self._connection is None else self._connection.peer

    def describe(self) -> dict[str, object]:
        """The client as a row of system_views.clients."""
        conversation, (host, _, port) = self._conversation, self.peer.rpartition(":")
        options = conversation.client_options
        return {
            "address": host.strip("[]"),
            "port": int(port) if port.isdecimal() else 0,
            "client_options": options,
            "connection_stage": "ready" if conversation.started else "startup",
            "driver_name": options.get("DRIVER_NAME"),
            "driver_version": options.get("DRIVER_VERSION"),
            "keyspace_name": conversation.keyspace,
            "protocol_version": conversation.version or None,
            "ssl_enabled": False,
            "username": "anonymous",
        }

    @property
    def in_flight(self) -> int:
        return self._running + len(self._held)

    def push_event(self, body: bytes) -> None:
        if self._closed or self._closing:
            return
        connection = self._connection
        if connection is not None and connection.pending > self._max_bytes:
            # A client that registered for events and never reads would make us hold them all.
            connection.abort()
            return
        self._append(self._conversation.event(body))
        self._plan_flush()

    def finish(self) -> None:
        """Begin nothing more; close when what is in flight has been answered."""
        if not self._closing and not self._closed:
            self._closing = True
            self._backlog.clear()
            self._update_reading()
            self._close_if_done()

    def abort(self) -> None:
        if not self._closed and self._connection is not None:
            self._connection.abort()

    # --- requests ----------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Go on with the backlog as far as the limits allow, then send."""
        if self._inside or self._closed:
            return
        self._inside = True
        try:
            while self._backlog and not self._congested and not self._is_full():
                self._work_through()
                self._flush()
        finally:
            self._inside = False
        if self._decoder.failure is not None and not self._backlog and not self._closing:
            self._give_up()
        self._update_reading()

    def _work_through(self) -> None:
        backlog, handle, held = self._backlog, self._handle, self._held
        durable = self._database.durable_position
        while backlog:
            flags, stream, opcode, body = backlog.popleft()
            if opcode == wire.STARTUP:
                self._start(flags, stream, body)
                continue
            answer = handle(flags, stream, opcode, body)
            if type(answer) is tuple:
                frame, after = answer
                if after <= durable:
                    self._out.append(frame)
                    self._out_bytes += len(frame)
                else:
                    held.append((after, frame))
                self._load += len(frame)
            else:
                assert isinstance(answer, Waiting | Later)
                self._run(answer, len(body))
            if self._load >= self._max_bytes or self._running + len(held) >= self._max_in_flight:
                break
        if held and not self._awaiting_log:
            self._await_log()

    def _is_full(self) -> bool:
        return self._load >= self._max_bytes or self._running + len(self._held) >= self._max_in_flight

    def _start(self, flags: int, stream: int, body: bytes) -> None:
        """STARTUP: its answer still goes out as before, what follows may be framed in another way."""
        conversation = self._conversation
        was_started = conversation.started
        answer = self._handle(flags, stream, wire.STARTUP, body)
        assert isinstance(answer, tuple)
        self._append(answer[0])
        if conversation.started and not was_started:
            self._decoder.max_body = self._owner.settings.max_request
            if conversation.version >= V5:
                self._flush()
                self._segmented = True
                self._decoder.use_segments(conversation.compress_segments)
        self._backlog.extend(self._decoder.feed(b""))

    def _run(self, waiting: Waiting | Later, size: int) -> None:
        """Wait for a result in a task of its own, charged with its request and the answer to be expected."""
        charge = size + self._expected_answer
        self._running += 1
        self._load += charge
        self._runtime.spawn("cql.request", self._wait_for(waiting, charge))

    async def _wait_for(self, waiting: Waiting | Later, charge: int) -> None:
        try:
            answer = await self._conversation.awaited(waiting)
        except Exception as error:
            answer = self._conversation.failed(waiting.stream, error)
        self._running -= 1
        self._load -= charge
        if self._closed:
            return
        frame, after = answer
        self._expected_answer = max(len(frame), self._expected_answer * 3 // 4)
        if after <= self._database.durable_position:
            self._append(frame)
            self._plan_flush()
        else:
            self._held.append((after, frame))
            self._load += len(frame)
            if not self._awaiting_log:
                self._await_log()
        if self._backlog:
            self._work()
        elif self._paused:
            self._update_reading()

    # --- answers -----------------------------------------------------------------------------------------

    def _await_log(self) -> None:
        self._awaiting_log = True
        self._database.on_durable(self._held[0][0], self._on_durable)

    def _on_durable(self, error: BaseException | None) -> None:
        """Release what the commit log has by now. One call serves all answers of a group commit."""
        self._awaiting_log = False
        held = self._held
        if error is not None:
            self._answer_unknown(error)
        durable = self._database.durable_position
        while held and held[0][0] <= durable:
            frame = held.popleft()[1]
            self._out.append(frame)
            self._out_bytes += len(frame)
        if self._closed:
            return
        if held:
            self._await_log()
        if self._inside:
            return
        self._flush()
        if self._backlog or self._paused or self._closing:
            self._work()
            self._close_if_done()

    def _answer_unknown(self, error: BaseException) -> None:
        """The log has failed: nobody can say whether what was held will be there after a restart."""
        timeout = WriteTimeout(
            f"The commit log failed and the outcome is unknown: {error}", 1, 0, 1, "SIMPLE"
        )
        while self._held:
            frame = self._held.popleft()[1]
            self._load -= len(frame)
            stream = HEADER.unpack_from(frame)[2]
            self._append(self._conversation.failed(stream, timeout)[0])

    def _append(self, frame: bytes) -> None:
        self._out.append(frame)
        self._out_bytes += len(frame)
        self._load += len(frame)

    def _plan_flush(self) -> None:
        """Answers of tasks that finish in the same step leave together."""
        if not self._inside and not self._flush_planned:
            self._flush_planned = True
            self._runtime.call_soon(self._flush_planned_answers)

    def _flush_planned_answers(self) -> None:
        self._flush_planned = False
        self._flush()
        if self._backlog or self._paused:
            self._work()
        self._close_if_done()

    def _flush(self) -> None:
        out, connection = self._out, self._connection
        if not out or connection is None or self._closed:
            return
        self._out = []
        self._load -= self._out_bytes
        self._out_bytes = 0
        if self._segmented:
            connection.send(encode_segments(out, self._conversation.compress_segments))
        else:
            connection.send(out[0] if len(out) == 1 else b"".join(out))
        if connection.pending > self._max_unsent and not self._congested:
            self._congested = True
            # Perhaps the network takes it all at once: then nobody will call `on_drained`.
            self._runtime.call_soon(self._look_again)

    def _look_again(self) -> None:
        if self._congested and self._connection is not None and self._connection.pending <= self._max_unsent:
            self.on_drained()

    # --- flow and end ------------------------------------------------------------------------------------

    def _update_reading(self) -> None:
        connection = self._connection
        if connection is None or self._closed:
            return
        pause = self._closing or self._congested or bool(self._backlog) or self._is_full()
        if pause != self._paused:
            self._paused = pause
            if pause:
                connection.pause_reading()
            else:
                connection.resume_reading()

    def _give_up(self) -> None:
        """The stream makes no sense any more: say so, answer what is in flight, close."""
        failure = self._decoder.failure
        assert failure is not None
        self._append(self._conversation.failed(failure.stream, failure)[0])
        self._flush()
        self.finish()

    def _close_if_done(self) -> None:
        if self._closing and not self._closed and self.in_flight == 0:
            self._flush()
            if self._connection is not None:
                self._connection.close()
