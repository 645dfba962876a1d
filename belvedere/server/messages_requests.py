"""What clients ask: bodies of requests decoded, and encoded for clients of our own (tests, load, simulation).

Decoding raises ProtocolError for anything that is not well formed. Values stay the bytes they came as.
"""

from collections.abc import Sequence
from struct import error as StructError

import msgspec

from belvedere.query.access import UNSET, BoundValue
from belvedere.query.errors import CONSISTENCY_NAMES, ProtocolError
from belvedere.query.options import QueryOptions
from belvedere.server import protocol as wire
from belvedere.server.protocol import INT, LONG, SHORT, V4, V5, BodyReader

_MIN_TIMESTAMP = -(2**63) + 1
_BATCH_KINDS = 3
_NO_OPTIONS = QueryOptions()


class Startup(msgspec.Struct):
    options: dict[str, str]


class OptionsRequest(msgspec.Struct):
    pass


class AuthResponse(msgspec.Struct):
    token: bytes | None


class Query(msgspec.Struct):
    text: str
    options: QueryOptions
    skip_metadata: bool = False


class Prepare(msgspec.Struct):
    text: str
    keyspace: str | None = None


class Execute(msgspec.Struct, gc=False):
    id: bytes
    #: What the client believes the result looks like (protocol v5).
    metadata_id: bytes | None
    skip_metadata: bool
    options: QueryOptions


class Batch(msgspec.Struct):
    #: 0 logged, 1 unlogged, 2 counter
    kind: int
    children: list[tuple[str | bytes, list[BoundValue]]]
    options: QueryOptions


class Register(msgspec.Struct):
    events: list[str]


Request = Startup | OptionsRequest | AuthResponse | Query | Prepare | Execute | Batch | Register


def decode_request(opcode: int, body: bytes, version: int, flags: int = 0) -> Request:
    """Any request. The custom payload a client may send along has no meaning here and is skipped."""
    if opcode not in wire.REQUEST_OPCODES:
        name = wire.OPCODE_NAMES.get(opcode)
        if name is None:
            raise ProtocolError(f"Unknown opcode {opcode}")
        raise ProtocolError(f"Wrong protocol direction (opcode {name}) for a request")
    reader = BodyReader(body)
    if flags & wire.FLAG_CUSTOM_PAYLOAD:
        if version < V4:
            raise ProtocolError("Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4")
        reader.bytes_map()
    match opcode:
        case wire.EXECUTE:
            return decode_execute(body if reader.at == 0 else body[reader.at :], version)
        case wire.QUERY:
            text = reader.long_string()
            options, parameter_flags = _parameters(reader, version)
            return Query(text, options, bool(parameter_flags & wire.QUERY_SKIP_METADATA))
        case wire.PREPARE:
            return _prepare(reader, version)
        case wire.BATCH:
            return _batch(reader, version)
        case wire.STARTUP:
            return Startup(reader.string_map())
        case wire.REGISTER:
            return _register(reader)
        case wire.AUTH_RESPONSE:
            return AuthResponse(reader.bytes_or_null())
    return OptionsRequest()


def decode_execute(body: bytes, version: int) -> Execute:
    """The hot one, so without a reader: ids, consistency, flags and values by their offsets."""
    size = len(body)
    if size < 4:
        raise ProtocolError("Not enough bytes in the message body of EXECUTE")
    end = 2 + (body[0] << 8 | body[1])
    statement_id = body[2:end]
    metadata_id = None
    if version >= V5:
        start = end + 2
        if size < start:
            raise ProtocolError("Not enough bytes in the message body of EXECUTE")
        end = start + (body[end] << 8 | body[end + 1])
        metadata_id = body[start:end]
        at = end + 6
        if size < at:
            raise ProtocolError("Not enough bytes in the message body of EXECUTE")
        flags = INT.unpack_from(body, end + 2)[0]
    else:
        at = end + 3
        if size < at:
            raise ProtocolError("Not enough bytes in the message body of EXECUTE")
        flags = body[end + 2]
    consistency = body[end] << 8 | body[end + 1]
    if consistency > 10:
        raise ProtocolError(f"Unknown code {consistency} for a consistency level")
    if flags & ~0x23:
        reader = BodyReader(body, end)
        options, flags = _parameters(reader, version)
        return Execute(statement_id, metadata_id, bool(flags & 2), options)
    # Only values, a timestamp and the wish to skip metadata: what nearly every client sends.
    values: list[BoundValue] = []
    if flags & 1:
        values, at = _values(body, at, size, version)
    timestamp = None
    if flags & 0x20:
        if size < at + 8:
            raise ProtocolError("Not enough bytes in the message body of EXECUTE")
        timestamp = _timestamp(LONG.unpack_from(body, at)[0])
    return Execute(
        statement_id,
        metadata_id,
        flags & 2 != 0,
        QueryOptions(consistency, values, None, 0, None, 8, timestamp),
    )


def _values(body: bytes, at: int, size: int, version: int) -> tuple[list[BoundValue], int]:
    """A counted list of values, cut out in one loop."""
    if size < at + 2:
        raise ProtocolError("Not enough bytes in the message body: values announced, none there")
    count = body[at] << 8 | body[at + 1]
    at += 2
    values: list[BoundValue] = []
    append = values.append
    unpack = INT.unpack_from
    try:
        for _ in range(count):
            (length,) = unpack(body, at)
            at += 4
            if length >= 0:
                append(body[at : (at := at + length)])
            else:
                append(_absent(length, version))
    except StructError:
        raise ProtocolError(f"Not enough bytes in the message body for {count} values") from None
    # A slice beyond the end is silently shorter: noticed here, once for all values.
    if at > size:
        raise ProtocolError("Not enough bytes in the message body: a value is cut off")
    return values, at


def _absent(length: int, version: int) -> BoundValue:
    if length == -1 or version < V4:
        return None
    if length == -2:
        return UNSET
    raise ProtocolError(f"Invalid value length {length}")


def _timestamp(value: int) -> int:
    if value < _MIN_TIMESTAMP:
        raise ProtocolError(
            f"Out of bound timestamp, must be in [{_MIN_TIMESTAMP}, {2**63 - 1}] (got {value})"
        )
    return value


def _consistency(reader: BodyReader) -> int:
    code = reader.short()
    if code not in CONSISTENCY_NAMES:
        raise ProtocolError(f"Unknown code {code} for a consistency level")
    return code


def _parameters(reader: BodyReader, version: int) -> tuple[QueryOptions, int]:
    """Consistency, flags and everything the flags announce, in the order of the specification."""
    options = QueryOptions(_consistency(reader))
    flags = reader.int32() if version >= V5 else reader.byte()
    if flags & wire.QUERY_VALUES:
        if flags & wire.QUERY_NAMES:
            options.names, options.values = _named_values(reader, version)
        else:
            options.values, reader.at = _values(reader.body, reader.at, len(reader.body), version)
    if flags & wire.QUERY_PAGE_SIZE:
        options.page_size = max(0, reader.int32())
    if flags & wire.QUERY_PAGING_STATE:
        options.paging_state = reader.bytes_or_null()
    _common_parameters(reader, version, flags, options)
    return options, flags


def _common_parameters(reader: BodyReader, version: int, flags: int, options: QueryOptions) -> None:
    """The tail that BATCH has too."""
    if flags & wire.QUERY_SERIAL_CONSISTENCY:
        options.serial_consistency = _consistency(reader)
    if flags & wire.QUERY_TIMESTAMP:
        options.timestamp = _timestamp(reader.int64())
    if version >= V5:
        if flags & wire.QUERY_KEYSPACE:
            options.keyspace = reader.string()
        if flags & wire.QUERY_NOW_SECONDS:
            options.now_seconds = reader.int32()


def _named_values(reader: BodyReader, version: int) -> tuple[list[str], list[BoundValue]]:
    names: list[str] = []
    values: list[BoundValue] = []
    for _ in range(reader.short()):
        names.append(reader.string())
        values.append(reader.bound_value(version))
    return names, values


def _prepare(reader: BodyReader, version: int) -> Prepare:
    text = reader.long_string()
    if version >= V5 and reader.int32() & wire.PREPARE_KEYSPACE:
        return Prepare(text, reader.string())
    return Prepare(text)


def _batch(reader: BodyReader, version: int) -> Batch:
    kind = reader.byte()
    if kind >= _BATCH_KINDS:
        raise ProtocolError(f"Invalid BATCH message type {kind}")
    children: list[tuple[str | bytes, list[BoundValue]]] = []
    for _ in range(reader.short()):
        statement_kind = reader.byte()
        if statement_kind > 1:
            raise ProtocolError(
                f"Invalid query kind in BATCH messages. Must be 0 or 1 but got {statement_kind}"
            )
        statement = reader.short_bytes() if statement_kind else reader.long_string()
        values, reader.at = _values(reader.body, reader.at, len(reader.body), version)
        children.append((statement, values))
    options = QueryOptions(_consistency(reader))
    flags = reader.int32() if version >= V5 else reader.byte()
    if flags & wire.QUERY_NAMES:
        # The specification's own mistake: the names would come after the values that they name.
        raise ProtocolError("Named values are not supported in BATCH messages")
    _common_parameters(reader, version, flags, options)
    return Batch(kind, children, options)


def _register(reader: BodyReader) -> Register:
    events = reader.string_list()
    for event in events:
        if event not in wire.EVENT_KINDS:
            raise ProtocolError(f"Invalid value '{event}' for Type")
    return Register(events)


# --- the way back: what a client writes ------------------------------------------------------------------


def encode_request(request: Request, version: int) -> tuple[int, bytes]:
    """The opcode and body of a request."""
    match request:
        case Startup(options):
            return wire.STARTUP, wire.string_map(options)
        case OptionsRequest():
            return wire.OPTIONS, b""
        case AuthResponse(token):
            return wire.AUTH_RESPONSE, wire.value_bytes(token)
        case Query(text, options, skip):
            return wire.QUERY, wire.long_string(text) + _encode_parameters(options, version, skip)
        case Prepare(text, keyspace):
            flags = INT.pack(int(keyspace is not None)) if version >= V5 else b""
            named = wire.string(keyspace) if keyspace is not None and version >= V5 else b""
            return wire.PREPARE, wire.long_string(text) + flags + named
        case Execute(statement_id, metadata_id, skip, options):
            ids = wire.short_bytes(statement_id)
            if version >= V5:
                ids += wire.short_bytes(metadata_id or b"")
            return wire.EXECUTE, ids + _encode_parameters(options, version, skip)
        case Batch():
            return wire.BATCH, _encode_batch(request, version)
        case Register(events):
            return wire.REGISTER, wire.string_list(events)


def _encode_values(values: Sequence[BoundValue]) -> bytes:
    return SHORT.pack(len(values)) + b"".join(map(wire.value_bytes, values))


def _encode_flags(flags: int, version: int) -> bytes:
    return INT.pack(flags) if version >= V5 else bytes((flags & 0xFF,))


def _encode_parameters(options: QueryOptions, version: int, skip_metadata: bool) -> bytes:
    flags = wire.QUERY_SKIP_METADATA if skip_metadata else 0
    parts = []
    if options.values:
        flags |= wire.QUERY_VALUES
        if options.names is None:
            parts.append(_encode_values(options.values))
        else:
            flags |= wire.QUERY_NAMES
            parts.append(SHORT.pack(len(options.values)))
            for name, value in zip(options.names, options.values, strict=True):
                parts += [wire.string(name), wire.value_bytes(value)]
    if options.page_size:
        flags |= wire.QUERY_PAGE_SIZE
        parts.append(INT.pack(options.page_size))
    if options.paging_state is not None:
        flags |= wire.QUERY_PAGING_STATE
        parts.append(wire.value_bytes(options.paging_state))
    more_flags, tail = _encode_common(options, version)
    return (
        SHORT.pack(options.consistency) + _encode_flags(flags | more_flags, version) + b"".join(parts) + tail
    )


def _encode_common(options: QueryOptions, version: int) -> tuple[int, bytes]:
    flags, parts = 0, []
    if options.serial_consistency != _NO_OPTIONS.serial_consistency:
        flags |= wire.QUERY_SERIAL_CONSISTENCY
        parts.append(SHORT.pack(options.serial_consistency))
    if options.timestamp is not None:
        flags |= wire.QUERY_TIMESTAMP
        parts.append(LONG.pack(options.timestamp))
    if version >= V5 and options.keyspace is not None:
        flags |= wire.QUERY_KEYSPACE
        parts.append(wire.string(options.keyspace))
    if version >= V5 and options.now_seconds is not None:
        flags |= wire.QUERY_NOW_SECONDS
        parts.append(INT.pack(options.now_seconds))
    return flags, b"".join(parts)


def _encode_batch(batch: Batch, version: int) -> bytes:
    parts = [bytes((batch.kind,)), SHORT.pack(len(batch.children))]
    for statement, values in batch.children:
        if isinstance(statement, bytes):
            parts += [b"\x01", wire.short_bytes(statement), _encode_values(values)]
        else:
            parts += [b"\x00", wire.long_string(statement), _encode_values(values)]
    flags, tail = _encode_common(batch.options, version)
    return b"".join((*parts, SHORT.pack(batch.options.consistency), _encode_flags(flags, version), tail))
