"""A connection from its first byte to its last, against a database without machinery."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from belvedere.meta.store import StoreUnavailable
from belvedere.query.access import UNSET
from belvedere.query.options import QueryOptions
from belvedere.runtime.errors import DiskBroken
from belvedere.server import protocol as wire
from belvedere.server.compression import compress_body
from belvedere.server.connection_api import ServerSettings
from belvedere.server.messages_client import (
    ErrorReply,
    PreparedReply,
    ReadyReply,
    RowsReply,
    SchemaChangeReply,
    SchemaEvent,
    SetKeyspaceReply,
    SupportedReply,
    VoidReply,
)
from belvedere.server.messages_requests import (
    AuthResponse,
    Batch,
    Execute,
    OptionsRequest,
    Prepare,
    Query,
    Register,
    Startup,
)
from belvedere.server.protocol import envelope
from belvedere.storage.errors import LogFull, MutationTooLarge
from tests.server.protocol_support import FakeOwner, Talk, run_async, settle

Scenario = Callable[[Talk], Coroutine[Any, Any, None]]
FLAVOURS = [(3, ""), (3, "lz4"), (4, ""), (4, "lz4"), (5, ""), (5, "lz4")]


def started(
    scenario: Scenario, owner: FakeOwner | None = None, version: int = 4, compression: str = ""
) -> None:
    async def main() -> None:
        await scenario(Talk(owner, version, compression).start())

    run_async(main)


@pytest.mark.parametrize(("version", "compression"), FLAVOURS)
def test_a_whole_conversation(version: int, compression: str) -> None:
    async def scenario(talk: Talk) -> None:
        assert isinstance(await talk.ask(OptionsRequest()), SupportedReply)
        assert await talk.ask(Query("USE shop", QueryOptions())) == SetKeyspaceReply("shop")
        prepared = await talk.ask(Prepare("SELECT ?, ?"))
        assert isinstance(prepared, PreparedReply)
        assert [column.name for column in prepared.bindings] == ["v0", "v1"]
        execute = Execute(prepared.id, prepared.metadata_id, False, QueryOptions(values=[b"a" * 2000, None]))
        rows = await talk.ask(execute)
        assert isinstance(rows, RowsReply)
        assert rows.rows == [[b"a" * 2000, None]]
        assert rows.metadata.columns is not None
        execute.skip_metadata = True
        rows = await talk.ask(execute)
        assert isinstance(rows, RowsReply)
        assert (rows.rows, rows.metadata.columns) == ([[b"a" * 2000, None]], None)
        reply = await talk.ask(Query("SELECT", QueryOptions(values=[b"z" * 400_000])))
        assert isinstance(reply, RowsReply)
        assert reply.rows == [[b"z" * 400_000]]
        assert await talk.ask(Batch(2, [("X", [b"1"])], QueryOptions(6))) == VoidReply()
        kind, children, options = talk.database.batches[0]
        assert (kind, children, options.consistency) == ("COUNTER", [("X", [b"1"])], 6)
        assert [keyspace for _, keyspace, _ in talk.database.seen] == [None, "shop"]

    started(scenario, version=version, compression=compression)


def test_big_bodies_are_compressed_when_agreed() -> None:
    async def scenario(talk: Talk) -> None:
        talk.send(1, Query("BIG 100000", QueryOptions()))
        await settle()
        sent = talk.transport.take()
        assert len(sent) < 2000
        assert sent[1] == wire.FLAG_COMPRESSED
        # And requests may be.
        body = compress_body(b"\0\0\0\x09WARN this\0\x01\0")
        talk.send_raw(envelope(4, 2, wire.QUERY, body, wire.FLAG_COMPRESSED))
        await settle()
        assert talk.received() == [(2, VoidReply())]
        assert talk.warnings == ["careful", "really"]

    started(scenario, compression="lz4")


ERRORS = [
    (Query("INVALID", QueryOptions()), 0x2200, "unconfigured table"),
    (Query("EXISTS", QueryOptions()), 0x2400, "already existing"),
    (Prepare("BAD"), 0x2000, "no viable alternative"),
    (Execute(b"\0" * 16, b"", False, QueryOptions()), 0x2500, "00000000000000000000000000000000 not found"),
    (Startup({"CQL_VERSION": "3.0.0"}), 0x000A, "already initialized"),
    (AuthResponse(b"x"), 0x000A, "Unexpected message AUTH_RESPONSE"),
    (Query("BUG", QueryOptions()), 0x0000, "RuntimeError: a bug"),
]


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(("request_", "code", "message"), ERRORS)
def test_errors_are_answers_and_the_connection_goes_on(
    version: int, request_: Any, code: int, message: str
) -> None:
    async def scenario(talk: Talk) -> None:
        reply = await talk.ask(request_)
        assert isinstance(reply, ErrorReply)
        assert reply.code == code
        assert message in reply.message
        assert await talk.ask(Query("X", QueryOptions())) == VoidReply()
        assert talk.connection.in_flight == 0

    started(scenario, version=version)


def test_bugs_are_logged_with_their_place() -> None:
    async def scenario(talk: Talk) -> None:
        prepared = await talk.ask(Prepare("BUG"))
        assert isinstance(prepared, PreparedReply)
        reply = await talk.ask(Execute(prepared.id, None, False, QueryOptions()))
        assert isinstance(reply, ErrorReply)
        ((level, event, fields),) = talk.owner.runtime.logged
        assert (level, event) == ("error", "request.failed")
        assert "protocol_support.py" in str(fields["at"])

    started(scenario)


@pytest.mark.parametrize(
    ("failure", "code", "logged"),
    [
        (DiskBroken("input/output error", "a/b"), 0x0000, ["warning"]),
        (LogFull("no room"), 0x1001, []),
        (MutationTooLarge("too large"), 0x2200, []),
        (StoreUnavailable("etcd is away"), 0x0000, ["warning"]),
    ],
)
def test_failures_are_named_for_what_they_are(failure: Exception, code: int, logged: list[str]) -> None:
    async def scenario(talk: Talk) -> None:
        prepared = await talk.ask(Prepare("FAIL"))
        assert isinstance(prepared, PreparedReply)
        talk.database.failure = failure
        for request in (Execute(prepared.id, None, False, QueryOptions()), Query("FAIL", QueryOptions())):
            reply = await talk.ask(request)
            assert isinstance(reply, ErrorReply)
            assert (reply.code, str(failure) in reply.message) == (code, True)
        assert [level for level, _, _ in talk.owner.runtime.logged] == logged * 2

    started(scenario)


def test_values_are_counted_and_named() -> None:
    async def scenario(talk: Talk) -> None:
        prepared = await talk.ask(Prepare("SELECT ?, ?"))
        assert isinstance(prepared, PreparedReply)
        reply = await talk.ask(Execute(prepared.id, None, False, QueryOptions(values=[b"1"])))
        assert isinstance(reply, ErrorReply)
        assert reply.message == "there were 2 markers(?) in CQL but 1 bound variables"
        named = QueryOptions(values=[b"2", b"1"], names=["v1", "v0"])
        reply = await talk.ask(Execute(prepared.id, None, False, named))
        assert isinstance(reply, RowsReply)
        assert reply.rows == [[b"1", b"2"]]
        unset = QueryOptions(values=[UNSET, b"1"])
        reply = await talk.ask(Execute(prepared.id, None, False, unset))
        assert isinstance(reply, RowsReply)
        assert reply.rows == [[None, b"1"]]

    started(scenario)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Missing value CQL_VERSION"),
        ({"CQL_VERSION": "2.0.0"}, "CQL version 2.0.0 is not supported"),
        ({"CQL_VERSION": "3.0.0", "COMPRESSION": "snappy"}, "Unknown compression algorithm: snappy"),
    ],
)
def test_startup_that_cannot_be_may_be_tried_again(options: dict[str, str], message: str) -> None:
    async def main() -> None:
        talk = Talk(version=5)
        reply = await talk.ask(Startup(options))
        assert isinstance(reply, ErrorReply)
        assert message in reply.message
        talk.start()
        assert await talk.ask(Query("X", QueryOptions())) == VoidReply()

    run_async(main)


def test_nothing_but_options_before_startup() -> None:
    async def main() -> None:
        talk = Talk(version=3)
        assert isinstance(await talk.ask(OptionsRequest()), SupportedReply)
        assert talk.decoder.version == 3
        for request in (Query("X", QueryOptions()), Execute(b"", None, False, QueryOptions())):
            reply = await talk.ask(request)
            assert isinstance(reply, ErrorReply)
            assert (reply.code, "expecting STARTUP or OPTIONS" in reply.message) == (0x000A, True)
        talk.start()

    run_async(main)


def test_an_unknown_version_hears_of_the_highest_we_speak() -> None:
    async def main() -> None:
        talk = Talk()
        talk.connection.on_data(envelope(66, 5, wire.OPTIONS, b""))
        ((stream, reply),) = talk.received()
        assert (stream, talk.decoder.version) == (5, 5)
        assert reply == ErrorReply(
            0x000A,
            "Invalid or unsupported protocol version (66); supported versions are (3/v3, 4/v4, 5/v5)",
        )
        assert talk.transport.closed

    run_async(main)


def test_a_body_that_makes_no_sense_keeps_the_connection() -> None:
    async def scenario(talk: Talk) -> None:
        talk.send_raw(
            envelope(talk.version, 1, wire.QUERY, b"\x7f"),
            envelope(talk.version, 2, 0x77, b""),
            envelope(talk.version, 3, wire.QUERY, b"\0\0", wire.FLAG_COMPRESSED),
            talk.bytes_of(4, Query("X", QueryOptions())),
        )
        await settle()
        replies = talk.received()
        assert [stream for stream, _ in replies] == [1, 2, 3, 4]
        assert [getattr(reply, "code", None) for _, reply in replies] == [10, 10, 10, None]
        assert not talk.transport.closed

    for version in (3, 4, 5):
        started(scenario, version=version)


def test_too_big_is_answered_and_the_connection_closed() -> None:
    async def scenario(talk: Talk) -> None:
        slow = Query("SLOW", QueryOptions())
        talk.send_raw(
            talk.bytes_of(1, slow),
            talk.bytes_of(9, Query("x" * 3000, QueryOptions())),
            talk.bytes_of(2, slow),
        )
        await settle()
        ((stream, reply),) = talk.received()
        assert isinstance(reply, ErrorReply)
        assert (stream, "exceeds maximum allowed length 2000" in reply.message) == (9, True)
        # What was in flight is still answered; then it ends.
        assert not talk.transport.closed
        assert not talk.transport.reading
        talk.database.open_gates()
        await settle()
        assert talk.received() == [(1, VoidReply())]
        assert talk.transport.closed

    for version in (4, 5):
        started(scenario, FakeOwner(settings=ServerSettings(max_request=2000)), version=version)


def test_a_response_too_big_is_an_error() -> None:
    async def scenario(talk: Talk) -> None:
        reply = await talk.ask(Query("BIG 5000", QueryOptions()))
        assert isinstance(reply, ErrorReply)
        assert "ask for smaller pages" in reply.message

    started(scenario, FakeOwner(settings=ServerSettings(max_response=4000)))


def test_events_go_to_those_who_registered() -> None:
    async def main() -> None:
        owner = FakeOwner()
        talks = [Talk(owner, version).start() for version in (3, 4, 5)]
        deaf = Talk(owner).start()
        for talk in talks:
            assert await talk.ask(Register(["SCHEMA_CHANGE", "STATUS_CHANGE"])) == ReadyReply()
        assert isinstance(await deaf.ask(Query("CREATE t", QueryOptions())), SchemaChangeReply)
        expected = SchemaEvent(SchemaChangeReply("CREATED", "TABLE", "ks", "t"))
        for talk in talks:
            assert talk.received() == [(-1, expected)]
        owner.events.status_changed("UP", "127.0.0.1", 9042)
        owner.events.topology_changed("NEW_NODE", "127.0.0.1", 9042)
        await settle()
        for talk in talks:
            ((stream, event),) = talk.received()
            assert (stream, event.kind) == (-1, "STATUS_CHANGE")
        talks[0].connection.on_close(None)
        owner.events.status_changed("DOWN", "127.0.0.1", 9042)
        await settle()
        assert [len(talk.received()) for talk in talks] == [0, 1, 1]

    run_async(main)


def test_v5_tells_of_changed_metadata_and_older_versions_get_it_sent() -> None:
    async def main() -> None:
        owner = FakeOwner()
        v4, v5 = Talk(owner, 4).start(), Talk(owner, 5).start()
        prepared = await v5.ask(Prepare("SELECT ?"))
        assert isinstance(prepared, PreparedReply)
        assert prepared.metadata_id is not None
        values = QueryOptions(values=[b"1"])
        known = Execute(prepared.id, prepared.metadata_id, True, values)

        async def told(talk: Talk, request: Execute) -> tuple[bool, bytes | None]:
            reply = await talk.ask(request)
            assert isinstance(reply, RowsReply)
            return reply.metadata.columns is not None, reply.metadata.new_id

        assert await told(v5, known) == (False, None)
        assert await told(v4, known) == (False, None)
        stale = Execute(prepared.id, b"other", True, values)
        assert await told(v5, stale) == (True, prepared.metadata_id)

        statement = owner.database.statements[prepared.id]
        statement.result_metadata_id = b"another shape"
        assert await told(v5, known) == (True, b"another shape")
        assert await told(v4, known) == (True, None)
        # Clients of v4 that have prepared since and those that have not cannot be told apart.
        await v4.ask(Prepare("OTHER"))
        assert await told(v4, known) == (True, None)

    run_async(main)


def test_rows_whose_columns_nobody_announced_always_carry_them() -> None:
    async def scenario(talk: Talk) -> None:
        prepared = await talk.ask(Prepare("READ"))
        assert isinstance(prepared, PreparedReply)
        reply = await talk.ask(Execute(prepared.id, prepared.metadata_id, True, QueryOptions()))
        assert isinstance(reply, RowsReply)
        assert reply.metadata.columns is not None
        assert reply.metadata.new_id is None

    for version in (3, 4, 5):
        started(scenario, version=version)


def test_what_is_unknown_here_is_looked_up_before_it_is_refused() -> None:
    unknown = Prepare("NEWER ?")

    async def scenario(talk: Talk) -> None:
        database = talk.owner.database
        # Alone: there is nobody to ask.
        reply = await talk.ask(unknown)
        assert isinstance(reply, ErrorReply)
        assert (reply.code, reply.message) == (0x2200, "table newer does not exist")
        database.looks = [False, True]
        reply = await talk.ask(unknown)
        assert isinstance(reply, ErrorReply)
        assert (reply.code, reply.message) == (0x2200, "table newer does not exist")
        prepared = await talk.ask(unknown)
        assert isinstance(prepared, PreparedReply)
        assert [column.name for column in prepared.bindings] == ["v0"]
        assert database.looks == []
        # Dropped and created again: this node has heard of the first half.
        database.knows_newer, database.looks = False, [True]
        execute = Execute(prepared.id, prepared.metadata_id, False, QueryOptions(values=[b"a"]))
        assert isinstance(await talk.ask(execute), VoidReply)
        database.knows_newer, database.looks = False, [False]
        reply = await talk.ask(execute)
        assert isinstance(reply, ErrorReply)
        assert reply.code == 0x2200

    started(scenario)
