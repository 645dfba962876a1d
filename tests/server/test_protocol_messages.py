"""Every kind of message, there and back, for every version that has it."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.model.types import native
from belvedere.query import errors
from belvedere.query.access import UNSET
from belvedere.query.errors import ProtocolError
from belvedere.query.options import QueryOptions
from belvedere.query.results import ResultColumn, Rows, SchemaChange
from belvedere.server import protocol as wire
from belvedere.server.messages_client import (
    ClientColumn,
    ErrorReply,
    NodeEvent,
    PreparedReply,
    ReadyReply,
    RowsReply,
    SchemaChangeReply,
    SchemaEvent,
    SetKeyspaceReply,
    SupportedReply,
    VoidReply,
    decode_response,
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
    decode_request,
    encode_request,
)
from belvedere.server.messages_responses import (
    READY_BODY,
    SUPPORTED_BODY,
    VOID_BODY,
    error_body,
    node_event_body,
    schema_change_body,
    schema_event_body,
    set_keyspace_body,
    with_warnings,
)
from belvedere.server.messages_rows import EncodedColumns, prepared_body, rows_body

VERSIONS = (3, 4, 5)
ID = bytes(range(16))
FULL = {
    "consistency": 6,
    "page_size": 5000,
    "paging_state": b"\0state",
    "serial_consistency": 9,
    "timestamp": 1_700_000_000_000_000,
}
V5_ONLY = {"keyspace": "shop", "now_seconds": 1_700_000_000}

REQUESTS = [
    Startup({"CQL_VERSION": "3.0.0", "COMPRESSION": "lz4", "DRIVER_NAME": "ü"}),
    OptionsRequest(),
    AuthResponse(b"\0user\0password"),
    AuthResponse(None),
    Query("SELECT * FROM ks.t", QueryOptions()),
    Query("SELECT 'ü€😀'", QueryOptions(4, [b"", b"x" * 300, None]), skip_metadata=True),
    Query("INSERT", QueryOptions(values=[b"1", None], names=["a", "B c"], **FULL)),
    Prepare("SELECT * FROM t WHERE k = ?"),
    Execute(ID, None, False, QueryOptions()),
    Execute(ID, None, True, QueryOptions(1, [b"a", None, b"", b"c" * 70_000])),
    Execute(ID, None, True, QueryOptions(10, [b"a"], timestamp=-5)),
    Execute(ID, None, False, QueryOptions(values=[b"1", b"2"], **FULL)),
    Execute(ID, None, False, QueryOptions(values=[b"1", b"2"], names=["a", "b"], page_size=10)),
    Batch(0, [("INSERT 1", []), (ID, [b"1", None]), ("INSERT ?", [b"2"])], QueryOptions(6)),
    Batch(2, [], QueryOptions(serial_consistency=9, timestamp=12)),
    Register(["SCHEMA_CHANGE", "TOPOLOGY_CHANGE", "STATUS_CHANGE"]),
]
REQUESTS_SINCE_V4 = [
    Query("INSERT", QueryOptions(values=[b"1", UNSET])),
    Execute(ID, None, False, QueryOptions(values=[UNSET, b"2", UNSET])),
    Batch(1, [(ID, [UNSET])], QueryOptions()),
]
REQUESTS_OF_V5 = [
    Query("SELECT", QueryOptions(**FULL, **V5_ONLY)),
    Prepare("SELECT", "shop"),
    Execute(ID, b"m" * 16, True, QueryOptions(values=[b"1"], **FULL, **V5_ONLY)),
    Execute(ID, b"", True, QueryOptions(values=[b"1"], timestamp=5)),
    Batch(1, [("X", [])], QueryOptions(timestamp=3, **V5_ONLY)),
]
REQUEST_CASES = [
    *((request, version) for request in REQUESTS for version in VERSIONS),
    *((request, version) for request in REQUESTS_SINCE_V4 for version in (4, 5)),
    *((request, 5) for request in REQUESTS_OF_V5),
]


@pytest.mark.parametrize(("request_", "version"), REQUEST_CASES)
def test_requests_come_back_as_they_were(request_: object, version: int) -> None:
    if isinstance(request_, Execute) and version == 5 and request_.metadata_id is None:
        request_ = Execute(request_.id, b"meta", request_.skip_metadata, request_.options)
    opcode, body = encode_request(request_, version)
    decoded = decode_request(opcode, body, version)
    if isinstance(decoded, Query | Execute):
        decoded.options.values = list(decoded.options.values)
        request_.options.values = list(request_.options.values)
    assert decoded == request_


@pytest.mark.parametrize(("request_", "version"), REQUEST_CASES)
def test_a_request_cut_anywhere_is_a_protocol_error_or_another_request(
    request_: object, version: int
) -> None:
    opcode, body = encode_request(request_, version)
    for end in range(0, len(body), max(1, len(body) // 200)):
        try:
            decode_request(opcode, body[:end], version)
        except ProtocolError:
            continue
        assert isinstance(request_, OptionsRequest), f"cut at {end} of {len(body)} and still read"


def test_custom_payload_is_skipped() -> None:
    opcode, body = encode_request(Execute(ID, None, False, QueryOptions(values=[b"1"])), 4)
    payload = b"\0\x01" + wire.string("key") + wire.value_bytes(b"value")
    decoded = decode_request(opcode, payload + body, 4, wire.FLAG_CUSTOM_PAYLOAD)
    assert isinstance(decoded, Execute)
    assert decoded.options.values == [b"1"]
    with pytest.raises(ProtocolError, match="CUSTOM_PAYLOAD"):
        decode_request(opcode, payload + body, 3, wire.FLAG_CUSTOM_PAYLOAD)


@pytest.mark.parametrize(
    ("opcode", "body", "message"),
    [
        (0x55, b"", "Unknown opcode 85"),
        (wire.READY, b"", "READY"),
        (wire.QUERY, b"\xff\xff\xff\xff", "Invalid string length -1"),
        (wire.QUERY, b"\0\0\0\x01\xff\0\x01\0", "Cannot decode string as UTF8"),
        (wire.QUERY, b"\0\0\0\x01S\0\x63\0", "Unknown code 99 for a consistency level"),
        (wire.EXECUTE, b"\0\x01I\0\x63\0", "Unknown code 99 for a consistency level"),
        (wire.EXECUTE, b"\0\x01I\0\x01\x01\0\x01\xff\xff\xff\xfd", "Invalid value length -3"),
        (wire.EXECUTE, b"\0\x01I\0\x01\x01\xff\xff", "Not enough bytes"),
        (wire.EXECUTE, b"\0\x01I\0\x01\x01\0\x01\x7f\xff\xff\xff", "Not enough bytes"),
        (wire.EXECUTE, b"\0\x01I\0\x01\x20" + struct.pack(">q", -(2**63)), "Out of bound timestamp"),
        (wire.BATCH, b"\x07", "Invalid BATCH message type 7"),
        (wire.BATCH, b"\0\0\x01\x05", "Must be 0 or 1 but got 5"),
        (wire.BATCH, b"\0\0\0\0\x01\x40", "Named values are not supported"),
        (wire.REGISTER, b"\0\x01\0\x03FOO", "Invalid value 'FOO' for Type"),
    ],
)
def test_malformed_requests_say_what_is_wrong(opcode: int, body: bytes, message: str) -> None:
    with pytest.raises(ProtocolError, match=message.replace("(", r"\(")):
        decode_request(opcode, body, 4)


def test_negative_lengths_were_all_null_in_v3() -> None:
    decoded = decode_request(wire.EXECUTE, b"\0\x01I\0\x01\x01\0\x01\xff\xff\xff\xfe", 3)
    assert isinstance(decoded, Execute)
    assert decoded.options.values == [None]


@given(st.binary(max_size=200), st.sampled_from(sorted(wire.REQUEST_OPCODES)), st.sampled_from(VERSIONS))
def test_any_bytes_are_a_request_or_a_protocol_error(body: bytes, opcode: int, version: int) -> None:
    with contextlib.suppress(ProtocolError):
        decode_request(opcode, body, version)


# --- responses -------------------------------------------------------------------------------------------


def reply_of(opcode: int, body: bytes, version: int = 4, flags: int = 0) -> object:
    return decode_response(opcode, body, version, flags)[0]


def test_plain_responses() -> None:
    assert reply_of(wire.READY, READY_BODY) == ReadyReply()
    assert reply_of(wire.RESULT, VOID_BODY) == VoidReply()
    assert reply_of(wire.RESULT, set_keyspace_body("shop")) == SetKeyspaceReply("shop")
    assert reply_of(wire.SUPPORTED, SUPPORTED_BODY) == SupportedReply(
        {
            "CQL_VERSION": ["3.4.7"],
            "COMPRESSION": ["lz4"],
            "PROTOCOL_VERSIONS": ["3/v3", "4/v4", "5/v5"],
        }
    )


def test_warnings_come_in_front_of_the_body() -> None:
    flags, body = with_warnings(4, ("a", "b"), VOID_BODY)
    assert decode_response(wire.RESULT, body, 4, flags) == (VoidReply(), ["a", "b"])
    assert with_warnings(3, ("a",), VOID_BODY) == (0, VOID_BODY)


FAILED = errors.ReadFailure("no", 4, 1, 2)
FAILED.failures = {"10.0.0.1": 1, "::1": 2}
WRITE_FAILED = errors.WriteFailure("no", 4, 1, 2, "BATCH")
WRITE_FAILED.failures = {"10.0.0.1": 0}
COUNTS = {"consistency": 4, "received": 1, "required": 2}
ERROR_CASES = [
    (errors.ServerError("s"), VERSIONS, 0x0000, {}),
    (errors.ProtocolError("p"), VERSIONS, 0x000A, {}),
    (errors.BadCredentials("p"), VERSIONS, 0x0100, {}),
    (errors.Unavailable(4, 2, 1), VERSIONS, 0x1000, {"consistency": 4, "required": 2, "alive": 1}),
    (errors.Overloaded("o"), VERSIONS, 0x1001, {}),
    (errors.TruncateError("o"), VERSIONS, 0x1003, {}),
    (errors.WriteTimeout("t", 4, 1, 2, "SIMPLE"), VERSIONS, 0x1100, {**COUNTS, "write_type": "SIMPLE"}),
    (errors.WriteTimeout("t", 4, 1, 2, "CAS"), (3, 4), 0x1100, {**COUNTS, "write_type": "CAS"}),
    (errors.WriteTimeout("t", 4, 1, 2, "CAS"), (5,), 0x1100,
     {**COUNTS, "write_type": "CAS", "contentions": 0}),
    (errors.ReadTimeout("t", 4, 1, 2, True), VERSIONS, 0x1200, {**COUNTS, "data_present": True}),
    (FAILED, (3,), 0x1200, {**COUNTS, "data_present": False}),
    (FAILED, (4,), 0x1300, {**COUNTS, "failures": 2, "data_present": False}),
    (FAILED, (5,), 0x1300, {**COUNTS, "failures": {"10.0.0.1": 1, "::1": 2}, "data_present": False}),
    (WRITE_FAILED, (3,), 0x1100, {**COUNTS, "write_type": "BATCH"}),
    (WRITE_FAILED, (4,), 0x1500, {**COUNTS, "failures": 1, "write_type": "BATCH"}),
    (WRITE_FAILED, (5,), 0x1500, {**COUNTS, "failures": {"10.0.0.1": 0}, "write_type": "BATCH"}),
    (errors.FunctionFailure("f", "ks", "fn", ("int",)), (3,), 0x2200, {}),
    (errors.FunctionFailure("f", "ks", "fn", ("int",)), (4, 5), 0x1400,
     {"keyspace": "ks", "function": "fn", "argument_types": ["int"]}),
    (errors.SyntaxException("x"), VERSIONS, 0x2000, {}),
    (errors.Unauthorized("x"), VERSIONS, 0x2100, {}),
    (errors.InvalidRequest("x"), VERSIONS, 0x2200, {}),
    (errors.ConfigurationError("x"), VERSIONS, 0x2300, {}),
    (errors.AlreadyExists("ks", "t"), VERSIONS, 0x2400, {"keyspace": "ks", "table": "t"}),
    (errors.AlreadyExists("ks"), VERSIONS, 0x2400, {"keyspace": "ks", "table": ""}),
    (errors.Unprepared(ID), VERSIONS, 0x2500, {"id": ID}),
]  # fmt: skip


@pytest.mark.parametrize(("error", "versions", "code", "details"), ERROR_CASES)
def test_errors_carry_what_their_code_adds(
    error: errors.CQLError, versions: tuple[int, ...], code: int, details: dict[str, object]
) -> None:
    for version in versions:
        body = error_body(error, version)
        assert reply_of(wire.ERROR, body, version) == ErrorReply(code, error.message, details)


def test_a_message_too_long_for_a_string_is_cut_at_a_character() -> None:
    reply = reply_of(wire.ERROR, error_body(errors.InvalidRequest("ü" * 40_000), 4))
    assert isinstance(reply, ErrorReply)
    assert reply.message == "ü" * 32_767


SCHEMA_CASES = [
    (SchemaChange(0, (), "CREATED", "KEYSPACE", "ks"), ("CREATED", "KEYSPACE", "ks", "", [])),
    (SchemaChange(0, (), "UPDATED", "TABLE", "ks", "t"), ("UPDATED", "TABLE", "ks", "t", [])),
    (SchemaChange(0, (), "DROPPED", "TYPE", "ks", "Ü"), ("DROPPED", "TYPE", "ks", "Ü", [])),
    (
        SchemaChange(0, (), "CREATED", "FUNCTION", "ks", "f(int, text)"),
        ("CREATED", "FUNCTION", "ks", "f", ["int", "text"]),
    ),
]


@pytest.mark.parametrize(("change", "expected"), SCHEMA_CASES)
def test_schema_changes_as_result_and_as_event(change: SchemaChange, expected: tuple[object, ...]) -> None:
    for version in (4, 5):
        reply = SchemaChangeReply(*expected)
        assert reply_of(wire.RESULT, schema_change_body(change, version), version) == reply
        assert reply_of(wire.EVENT, schema_event_body(change, version), version) == SchemaEvent(reply)


def test_v3_hears_of_functions_as_a_changed_keyspace() -> None:
    body = schema_change_body(SchemaChange(0, (), "CREATED", "FUNCTION", "ks", "f(int)"), 3)
    assert reply_of(wire.RESULT, body, 3) == SchemaChangeReply("UPDATED", "KEYSPACE", "ks")


def test_node_events() -> None:
    body = node_event_body("STATUS_CHANGE", "UP", "127.0.0.1", 9042)
    assert reply_of(wire.EVENT, body) == NodeEvent("STATUS_CHANGE", "UP", "127.0.0.1", 9042)
    body = node_event_body("TOPOLOGY_CHANGE", "NEW_NODE", "2001:db8::1", 1)
    assert reply_of(wire.EVENT, body) == NodeEvent("TOPOLOGY_CHANGE", "NEW_NODE", "2001:db8::1", 1)


COLUMNS = (
    ResultColumn("ks", "t", "k", native("int")),
    ResultColumn("ks", "t", "Näme", native("text")),
    ResultColumn("ks", "t", "d", native("date")),
)
CLIENT_COLUMNS = [
    ClientColumn("ks", "t", "k", (9,)),
    ClientColumn("ks", "t", "Näme", (13,)),
    ClientColumn("ks", "t", "d", (17,)),
]
ROWS: list[list[bytes | None]] = [[b"\0\0\0\x01", b"x" * 600, None], [b"", b"y", b"\0\0\0\0"]]


def rows_reply(body: bytes, version: int = 4) -> RowsReply:
    reply = reply_of(wire.RESULT, body, version)
    assert isinstance(reply, RowsReply)
    return reply


def test_rows_with_metadata_pages_and_new_ids() -> None:
    encoded = EncodedColumns(COLUMNS, 5)
    reply = rows_reply(rows_body(Rows(0, (), COLUMNS, ROWS), encoded), 5)
    assert (reply.rows, reply.metadata.columns) == (ROWS, CLIENT_COLUMNS)
    assert (reply.metadata.paging_state, reply.metadata.new_id) == (None, None)

    reply = rows_reply(rows_body(Rows(0, (), COLUMNS, ROWS), encoded, skip_metadata=True), 5)
    assert (reply.rows, reply.metadata.columns, reply.metadata.count) == (ROWS, None, 3)

    paged = Rows(0, (), COLUMNS, [], b"more")
    reply = rows_reply(rows_body(paged, encoded, skip_metadata=True), 5)
    assert (reply.rows, reply.metadata.columns, reply.metadata.paging_state) == ([], None, b"more")

    reply = rows_reply(rows_body(paged, encoded, skip_metadata=True, new_id=b"new"), 5)
    assert reply.metadata.columns == CLIENT_COLUMNS
    assert (reply.metadata.paging_state, reply.metadata.new_id) == (b"more", b"new")


def test_columns_of_several_tables_name_their_table_each() -> None:
    mixed = (COLUMNS[0], ResultColumn("ks", "other", "x", native("blob")))
    reply = rows_reply(rows_body(Rows(0, (), mixed, []), EncodedColumns(mixed, 4)))
    assert reply.metadata.columns == [CLIENT_COLUMNS[0], ClientColumn("ks", "other", "x", (3,))]


def test_types_that_a_version_does_not_know_are_named_by_class() -> None:
    reply = rows_reply(rows_body(Rows(0, (), COLUMNS, []), EncodedColumns(COLUMNS, 3)), 3)
    assert reply.metadata.columns is not None
    assert reply.metadata.columns[2].type == (0, "org.apache.cassandra.db.marshal.SimpleDateType")


@pytest.mark.parametrize("version", VERSIONS)
def test_prepared(version: int) -> None:
    body = prepared_body(version, ID, b"meta", COLUMNS[:2], (1, 0), COLUMNS)
    reply = reply_of(wire.RESULT, body, version)
    assert isinstance(reply, PreparedReply)
    assert (reply.id, reply.bindings, reply.result.columns) == (ID, CLIENT_COLUMNS[:2], _for_v3(version))
    assert reply.metadata_id == (b"meta" if version == 5 else None)
    assert reply.partition_key == ([1, 0] if version >= 4 else [])

    reply = reply_of(wire.RESULT, prepared_body(version, ID, b"meta", (), (), ()), version)
    assert isinstance(reply, PreparedReply)
    assert (reply.bindings, reply.result.columns, reply.result.count) == ([], None, 0)


def _for_v3(version: int) -> list[ClientColumn]:
    if version > 3:
        return CLIENT_COLUMNS
    return [
        *CLIENT_COLUMNS[:2],
        ClientColumn("ks", "t", "d", (0, "org.apache.cassandra.db.marshal.SimpleDateType")),
    ]
