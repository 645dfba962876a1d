"""The native protocol's vocabulary: versions, opcodes, flags, and the primitive notations in message bodies.

Everything here and in the other codec modules (`frames`, `envelope`, `messages_*`, `compression`) turns bytes
into values and back. None of it knows of sockets or event loops.
"""

from struct import Struct
from typing import Final

from belvedere.query.access import UNSET, BoundValue
from belvedere.query.errors import ProtocolError

V3: Final = 3
V4: Final = 4
V5: Final = 5
SUPPORTED_VERSIONS: Final = (V3, V4, V5)
HIGHEST_VERSION: Final = V5
RESPONSE_BIT: Final = 0x80

CQL_VERSION: Final = "3.4.7"

# Opcodes.
ERROR: Final = 0x00
STARTUP: Final = 0x01
READY: Final = 0x02
AUTHENTICATE: Final = 0x03
OPTIONS: Final = 0x05
SUPPORTED: Final = 0x06
QUERY: Final = 0x07
RESULT: Final = 0x08
PREPARE: Final = 0x09
EXECUTE: Final = 0x0A
REGISTER: Final = 0x0B
EVENT: Final = 0x0C
BATCH: Final = 0x0D
AUTH_CHALLENGE: Final = 0x0E
AUTH_RESPONSE: Final = 0x0F
AUTH_SUCCESS: Final = 0x10

OPCODE_NAMES: Final = {
    ERROR: "ERROR", STARTUP: "STARTUP", READY: "READY", AUTHENTICATE: "AUTHENTICATE", OPTIONS: "OPTIONS",
    SUPPORTED: "SUPPORTED", QUERY: "QUERY", RESULT: "RESULT", PREPARE: "PREPARE", EXECUTE: "EXECUTE",
    REGISTER: "REGISTER", EVENT: "EVENT", BATCH: "BATCH", AUTH_CHALLENGE: "AUTH_CHALLENGE",
    AUTH_RESPONSE: "AUTH_RESPONSE", AUTH_SUCCESS: "AUTH_SUCCESS",
}  # fmt: skip
REQUEST_OPCODES: Final = frozenset(
    {STARTUP, OPTIONS, QUERY, PREPARE, EXECUTE, REGISTER, BATCH, AUTH_RESPONSE}
)

# Flags of an envelope.
FLAG_COMPRESSED: Final = 0x01
FLAG_TRACING: Final = 0x02
FLAG_CUSTOM_PAYLOAD: Final = 0x04
FLAG_WARNING: Final = 0x08
FLAG_USE_BETA: Final = 0x10

# Flags of the parameters of QUERY, EXECUTE and BATCH; PREPARE has the keyspace alone, as its lowest bit.
QUERY_VALUES: Final = 0x01
QUERY_SKIP_METADATA: Final = 0x02
QUERY_PAGE_SIZE: Final = 0x04
QUERY_PAGING_STATE: Final = 0x08
QUERY_SERIAL_CONSISTENCY: Final = 0x10
QUERY_TIMESTAMP: Final = 0x20
QUERY_NAMES: Final = 0x40
QUERY_KEYSPACE: Final = 0x80
QUERY_NOW_SECONDS: Final = 0x100
PREPARE_KEYSPACE: Final = 0x01

# Kinds of RESULT and flags of its metadata.
RESULT_VOID: Final = 1
RESULT_ROWS: Final = 2
RESULT_SET_KEYSPACE: Final = 3
RESULT_PREPARED: Final = 4
RESULT_SCHEMA_CHANGE: Final = 5
METADATA_GLOBAL_TABLE: Final = 0x01
METADATA_MORE_PAGES: Final = 0x02
METADATA_NONE: Final = 0x04
METADATA_CHANGED: Final = 0x08

EVENT_KINDS: Final = ("TOPOLOGY_CHANGE", "STATUS_CHANGE", "SCHEMA_CHANGE")

BYTE = Struct(">B")
SHORT = Struct(">H")
INT = Struct(">i")
LONG = Struct(">q")
#: version, flags, stream, opcode, length of the body
HEADER = Struct(">BBhBi")
HEADER_LENGTH: Final = 9

NULL_VALUE: Final = b"\xff\xff\xff\xff"
UNSET_VALUE: Final = b"\xff\xff\xff\xfe"


class FatalProtocolError(ProtocolError):
    """After this the bytes that follow cannot be trusted: it is answered and the connection closed."""

    def __init__(self, message: str, stream: int = 0) -> None:
        super().__init__(message)
        self.stream = stream


def supported_versions_text() -> str:
    return "(" + ", ".join(f"{version}/v{version}" for version in SUPPORTED_VERSIONS) + ")"


class BodyReader:
    """Reads a message body from front to back; a body too short or not well formed is a ProtocolError."""

    __slots__ = ("at", "body")

    def __init__(self, body: bytes, at: int = 0) -> None:
        self.body = body
        self.at = at

    def take(self, count: int) -> bytes:
        start = self.at
        end = start + count
        if end > len(self.body):
            raise ProtocolError(
                f"Not enough bytes in the message body: {count} wanted, {len(self.body) - start} left"
            )
        self.at = end
        return self.body[start:end]

    def byte(self) -> int:
        return self.take(1)[0]

    def short(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def string(self) -> str:
        return _text(self.take(self.short()))

    def long_string(self) -> str:
        length = self.int32()
        if length < 0:
            raise ProtocolError(f"Invalid string length {length}")
        return _text(self.take(length))

    def short_bytes(self) -> bytes:
        return self.take(self.short())

    def bytes_or_null(self) -> bytes | None:
        length = self.int32()
        return self.take(length) if length >= 0 else None

    def bound_value(self, version: int) -> BoundValue:
        length = self.int32()
        if length >= 0:
            return self.take(length)
        if length == -1 or version < V4:
            return None
        if length == -2:
            return UNSET
        raise ProtocolError(f"Invalid value length {length}")

    def string_list(self) -> list[str]:
        return [self.string() for _ in range(self.short())]

    def string_map(self) -> dict[str, str]:
        return {self.string(): self.string() for _ in range(self.short())}

    def string_multimap(self) -> dict[str, list[str]]:
        return {self.string(): self.string_list() for _ in range(self.short())}

    def bytes_map(self) -> dict[str, bytes | None]:
        return {self.string(): self.bytes_or_null() for _ in range(self.short())}


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"Cannot decode string as UTF8: '{raw[:80].hex()}'") from error


# Writers. Lengths were checked, or are small, where the values come from.


def string(text: str) -> bytes:
    """A [string]; what is too long for one (an error message) is cut at a character."""
    raw = text.encode("utf-8", "replace")
    if len(raw) > 0xFFFF:
        raw = raw[:0xFFFF].decode("utf-8", "ignore").encode()
    return SHORT.pack(len(raw)) + raw


def long_string(text: str) -> bytes:
    raw = text.encode()
    return INT.pack(len(raw)) + raw


def short_bytes(raw: bytes) -> bytes:
    return SHORT.pack(len(raw)) + raw


def value_bytes(value: BoundValue) -> bytes:
    if value is None:
        return NULL_VALUE
    if value is UNSET:
        return UNSET_VALUE
    assert isinstance(value, bytes)
    return INT.pack(len(value)) + value


def string_list(texts: list[str] | tuple[str, ...]) -> bytes:
    return SHORT.pack(len(texts)) + b"".join(string(text) for text in texts)


def string_map(texts: dict[str, str]) -> bytes:
    return SHORT.pack(len(texts)) + b"".join(string(key) + string(text) for key, text in texts.items())


def string_multimap(texts: dict[str, list[str]]) -> bytes:
    return SHORT.pack(len(texts)) + b"".join(string(key) + string_list(some) for key, some in texts.items())


def envelope(version: int, stream: int, opcode: int, body: bytes, flags: int = 0) -> bytes:
    """One whole message; `version` carries the response bit where it must."""
    return HEADER.pack(version, flags, stream, opcode, len(body)) + body
