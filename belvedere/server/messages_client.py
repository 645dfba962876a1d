"""The protocol from the other side: responses decoded, for clients of our own (tests, load, simulation)."""

import ipaddress

import msgspec

from belvedere.query.errors import ProtocolError
from belvedere.server import protocol as wire
from belvedere.server.compression import decompress_body
from belvedere.server.envelope import MAX_FRAME
from belvedere.server.protocol import V4, V5, BodyReader

#: A type as the protocol describes it: its number and what belongs to it.
TypeOption = tuple[object, ...]


class ClientColumn(msgspec.Struct):
    keyspace: str
    table: str
    name: str
    type: TypeOption


class ErrorReply(msgspec.Struct):
    code: int
    message: str
    #: What the code adds, by name.
    details: dict[str, object] = {}


class ReadyReply(msgspec.Struct):
    pass


class SupportedReply(msgspec.Struct):
    options: dict[str, list[str]]


class VoidReply(msgspec.Struct):
    pass


class SetKeyspaceReply(msgspec.Struct):
    keyspace: str


class Metadata(msgspec.Struct):
    count: int
    #: None when it was left out.
    columns: list[ClientColumn] | None = None
    paging_state: bytes | None = None
    new_id: bytes | None = None


class RowsReply(msgspec.Struct):
    metadata: Metadata
    rows: list[list[bytes | None]]


class PreparedReply(msgspec.Struct):
    id: bytes
    metadata_id: bytes | None
    bindings: list[ClientColumn]
    partition_key: list[int]
    result: Metadata


class SchemaChangeReply(msgspec.Struct):
    change: str
    target: str
    keyspace: str
    name: str = ""
    arguments: list[str] = []


class NodeEvent(msgspec.Struct):
    kind: str
    change: str
    host: str
    port: int


class SchemaEvent(msgspec.Struct):
    schema: SchemaChangeReply


Reply = (
    ErrorReply | ReadyReply | SupportedReply | VoidReply | SetKeyspaceReply | RowsReply | PreparedReply
    | SchemaChangeReply | NodeEvent | SchemaEvent
)  # fmt: skip


def decode_response(opcode: int, body: bytes, version: int, flags: int = 0) -> tuple[Reply, list[str]]:
    """Any response, and the warnings that came with it."""
    if flags & wire.FLAG_COMPRESSED and version < V5:
        body = decompress_body(body, MAX_FRAME)
    reader = BodyReader(body)
    if flags & wire.FLAG_TRACING:
        reader.take(16)
    warnings = reader.string_list() if flags & wire.FLAG_WARNING else []
    if flags & wire.FLAG_CUSTOM_PAYLOAD:
        reader.bytes_map()
    reply = _decode(opcode, reader, version)
    if reader.at != len(body):
        raise ProtocolError(f"{len(body) - reader.at} bytes too many in a response of opcode {opcode}")
    return reply, warnings


def _decode(opcode: int, reader: BodyReader, version: int) -> Reply:
    match opcode:
        case wire.ERROR:
            return _error(reader, version)
        case wire.READY:
            return ReadyReply()
        case wire.SUPPORTED:
            return SupportedReply(reader.string_multimap())
        case wire.RESULT:
            return _result(reader, version)
        case wire.EVENT:
            return _event(reader)
    raise ProtocolError(f"Unknown opcode {opcode} in a response")


def _event(reader: BodyReader) -> Reply:
    kind = reader.string()
    if kind == "SCHEMA_CHANGE":
        return SchemaEvent(_schema_change(reader))
    return NodeEvent(kind, reader.string(), _inet(reader), reader.int32())


def _inet(reader: BodyReader) -> str:
    return str(ipaddress.ip_address(reader.take(reader.byte())))


def _result(reader: BodyReader, version: int) -> Reply:
    match reader.int32():
        case wire.RESULT_VOID:
            return VoidReply()
        case wire.RESULT_ROWS:
            metadata = _metadata(reader)
            rows = [[reader.bytes_or_null() for _ in range(metadata.count)] for _ in range(reader.int32())]
            return RowsReply(metadata, rows)
        case wire.RESULT_SET_KEYSPACE:
            return SetKeyspaceReply(reader.string())
        case wire.RESULT_PREPARED:
            return _prepared(reader, version)
        case wire.RESULT_SCHEMA_CHANGE:
            return _schema_change(reader)
        case kind:
            raise ProtocolError(f"Unknown kind of result {kind}")


def _schema_change(reader: BodyReader) -> SchemaChangeReply:
    reply = SchemaChangeReply(reader.string(), reader.string(), reader.string())
    if reply.target != "KEYSPACE":
        reply.name = reader.string()
    if reply.target in ("FUNCTION", "AGGREGATE"):
        reply.arguments = reader.string_list()
    return reply


def _metadata(reader: BodyReader) -> Metadata:
    flags = reader.int32()
    metadata = Metadata(reader.int32())
    if flags & wire.METADATA_MORE_PAGES:
        metadata.paging_state = reader.bytes_or_null()
    if flags & wire.METADATA_CHANGED:
        metadata.new_id = reader.short_bytes()
    if not flags & wire.METADATA_NONE:
        metadata.columns = _columns(reader, flags, metadata.count)
    return metadata


def _columns(reader: BodyReader, flags: int, count: int) -> list[ClientColumn]:
    keyspace = table = None
    if flags & wire.METADATA_GLOBAL_TABLE:
        keyspace, table = reader.string(), reader.string()
    return [
        ClientColumn(
            reader.string() if keyspace is None else keyspace,
            reader.string() if table is None else table,
            reader.string(),
            _type(reader),
        )
        for _ in range(count)
    ]


def _type(reader: BodyReader) -> TypeOption:
    number = reader.short()
    match number:
        case 0x00:
            return number, reader.string()
        case 0x20 | 0x22:
            return number, _type(reader)
        case 0x21:
            return number, _type(reader), _type(reader)
        case 0x30:
            keyspace, name = reader.string(), reader.string()
            fields = tuple((reader.string(), _type(reader)) for _ in range(reader.short()))
            return number, keyspace, name, fields
        case 0x31:
            return number, tuple(_type(reader) for _ in range(reader.short()))
    return (number,)


def _prepared(reader: BodyReader, version: int) -> PreparedReply:
    statement_id = reader.short_bytes()
    metadata_id = reader.short_bytes() if version >= V5 else None
    flags, count = reader.int32(), reader.int32()
    partition_key = [reader.short() for _ in range(reader.int32())] if version >= V4 else []
    bindings = _columns(reader, flags, count)
    return PreparedReply(statement_id, metadata_id, bindings, partition_key, _metadata(reader))


def _error(reader: BodyReader, version: int) -> ErrorReply:
    reply = ErrorReply(reader.int32(), reader.string())
    details = reply.details = {}
    match reply.code:
        case 0x1000:
            details["consistency"] = reader.short()
            details["required"], details["alive"] = reader.int32(), reader.int32()
        case 0x1100 | 0x1200 | 0x1300 | 0x1500:
            details["consistency"] = reader.short()
            details["received"], details["required"] = reader.int32(), reader.int32()
            _timeout_or_failure(reply, reader, version)
        case 0x1400:
            details["keyspace"], details["function"] = reader.string(), reader.string()
            details["argument_types"] = reader.string_list()
        case 0x2400:
            details["keyspace"], details["table"] = reader.string(), reader.string()
        case 0x2500:
            details["id"] = reader.short_bytes()
    return reply


def _timeout_or_failure(reply: ErrorReply, reader: BodyReader, version: int) -> None:
    details = reply.details
    if reply.code in (0x1300, 0x1500):
        count = reader.int32()
        details["failures"] = (
            {_inet(reader): reader.short() for _ in range(count)} if version >= V5 else count
        )
    if reply.code in (0x1200, 0x1300):
        details["data_present"] = bool(reader.byte())
        return
    details["write_type"] = reader.string()
    if reply.code == 0x1100 and version >= V5 and details["write_type"] == "CAS":
        details["contentions"] = reader.short()
