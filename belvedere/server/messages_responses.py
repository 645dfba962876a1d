"""What the server answers: bodies of responses and events.

A response is a pair (flags, body) for the envelope. Rows have their own module, `messages_rows`, because
they are where time goes.
"""

import ipaddress

from belvedere.query import errors
from belvedere.query.errors import CQLError
from belvedere.query.results import SchemaChange
from belvedere.server import protocol as wire
from belvedere.server.compression import ALGORITHMS
from belvedere.server.protocol import BYTE, INT, SHORT, V4, V5, short_bytes, string

READY_BODY = b""
VOID_BODY = INT.pack(wire.RESULT_VOID)
SUPPORTED_BODY = wire.string_multimap(
    {
        "CQL_VERSION": [wire.CQL_VERSION],
        "COMPRESSION": list(ALGORITHMS),
        "PROTOCOL_VERSIONS": [f"{version}/v{version}" for version in wire.SUPPORTED_VERSIONS],
    }
)


def with_warnings(version: int, warnings: tuple[str, ...], body: bytes) -> tuple[int, bytes]:
    """(flags, body); protocol v3 has no warnings."""
    if not warnings or version < V4:
        return 0, body
    return wire.FLAG_WARNING, wire.string_list(warnings[:0xFFFF]) + body


def set_keyspace_body(keyspace: str) -> bytes:
    return INT.pack(wire.RESULT_SET_KEYSPACE) + string(keyspace)


def schema_change_body(change: SchemaChange, version: int) -> bytes:
    return INT.pack(wire.RESULT_SCHEMA_CHANGE) + _schema_change(change, version)


def _schema_change(change: SchemaChange, version: int) -> bytes:
    if change.target in ("FUNCTION", "AGGREGATE"):
        if version < V4:
            # v3 knows of no functions: what clients can do is to look at the keyspace again.
            return string("UPDATED") + string("KEYSPACE") + string(change.keyspace)
        name, arguments = _split_signature(change.name)
        described = string(name) + wire.string_list(arguments)
    else:
        described = b"" if change.target == "KEYSPACE" else string(change.name)
    return string(change.change) + string(change.target) + string(change.keyspace) + described


def _split_signature(signature: str) -> tuple[str, list[str]]:
    """`f(int, text)` as the name and its argument types."""
    name, _, arguments = signature.partition("(")
    return name, [argument.strip() for argument in arguments.rstrip(")").split(",") if argument.strip()]


# --- events ----------------------------------------------------------------------------------------------


def schema_event_body(change: SchemaChange, version: int) -> bytes:
    return string("SCHEMA_CHANGE") + _schema_change(change, version)


def node_event_body(kind: str, change: str, host: str, port: int) -> bytes:
    """`kind` TOPOLOGY_CHANGE with NEW_NODE, REMOVED_NODE; STATUS_CHANGE with UP, DOWN."""
    return string(kind) + string(change) + inet_address(host) + INT.pack(port)


def inet_address(host: str) -> bytes:
    try:
        packed = ipaddress.ip_address(host).packed
    except ValueError:
        # A name instead of an address has no form on the wire.
        packed = b"\0\0\0\0"
    return BYTE.pack(len(packed)) + packed


# --- errors ----------------------------------------------------------------------------------------------


def error_body(error: CQLError, version: int) -> bytes:
    """The ERROR body, with what each code adds; kinds that a version does not know become their nearest."""
    error = _for_version(error, version)
    return INT.pack(error.code) + string(error.message) + _error_details(error, version)


def _for_version(error: CQLError, version: int) -> CQLError:
    if version >= V4:
        return error
    match error:
        case errors.ReadFailure():
            return errors.ReadTimeout(
                error.message, error.consistency, error.received, error.required, error.data_present
            )
        case errors.WriteFailure():
            return errors.WriteTimeout(
                error.message, error.consistency, error.received, error.required, error.write_type
            )
        case errors.FunctionFailure():
            return errors.InvalidRequest(error.message)
    return error


def _error_details(error: CQLError, version: int) -> bytes:
    match error:
        case errors.Unavailable():
            return SHORT.pack(error.consistency) + INT.pack(error.required) + INT.pack(error.alive)
        case errors.WriteTimeout():
            contentions = SHORT.pack(0) if version >= V5 and error.write_type == "CAS" else b""
            return _counts(error) + string(error.write_type) + contentions
        case errors.ReadTimeout():
            return _counts(error) + BYTE.pack(error.data_present)
        case errors.ReadFailure():
            return _counts(error) + _failures(error, version) + BYTE.pack(error.data_present)
        case errors.WriteFailure():
            return _counts(error) + _failures(error, version) + string(error.write_type)
        case errors.FunctionFailure():
            return string(error.keyspace) + string(error.function) + wire.string_list(error.argument_types)
        case errors.AlreadyExists():
            return string(error.keyspace) + string(error.table)
        case errors.Unprepared():
            return short_bytes(error.statement_id)
    return b""


def _counts(
    error: errors.WriteTimeout | errors.ReadTimeout | errors.ReadFailure | errors.WriteFailure,
) -> bytes:
    return SHORT.pack(error.consistency) + INT.pack(error.received) + INT.pack(error.required)


def _failures(error: errors.ReadFailure | errors.WriteFailure, version: int) -> bytes:
    """v4 wants to know how many failed, v5 who and why."""
    if version < V5:
        return INT.pack(len(error.failures))
    return INT.pack(len(error.failures)) + b"".join(
        inet_address(host) + SHORT.pack(reason) for host, reason in error.failures.items()
    )
