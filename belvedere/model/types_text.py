"""Text, bytes, addresses and UUIDs."""

import ipaddress
import re
import uuid
from typing import Any

from belvedere.model.types_base import InvalidValue, KeyAndOffset, ScalarType

# Bytes of any length as a key: zeros are escaped and two zeros end it, so no key is the prefix of another.
_ZERO, _ESCAPED_ZERO, _END = b"\x00", b"\x00\xff", b"\x00\x00"


def bytes_key(raw: bytes) -> bytes:
    """A prefix-free key of any byte string, in unsigned lexicographic order."""
    return raw.replace(_ZERO, _ESCAPED_ZERO) + _END


def read_bytes_key(buffer: bytes, offset: int) -> KeyAndOffset:
    end = buffer.index(_END, offset)
    return buffer[offset:end].replace(_ESCAPED_ZERO, _ZERO), end + 2


class _BytesOrdered(ScalarType):
    def to_key(self, wire: bytes) -> bytes:
        return wire.replace(_ZERO, _ESCAPED_ZERO) + _END

    def from_key(self, buffer: bytes, offset: int) -> KeyAndOffset:
        return read_bytes_key(buffer, offset)


class TextType(_BytesOrdered):
    name = "text"
    marshal_name = "org.apache.cassandra.db.marshal.UTF8Type"
    option_id = 0x0D
    quoted_literal = True

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise self._wrong_value(value)
        return self.parse_text(value)

    def decode(self, wire: bytes) -> str:
        return wire.decode()

    def validate(self, wire: bytes) -> None:
        if wire.isascii():
            return
        try:
            wire.decode()
        except UnicodeDecodeError:
            raise InvalidValue("String didn't validate.") from None

    def parse_text(self, text: str) -> bytes:
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise InvalidValue("String didn't validate.") from None

    def to_string(self, wire: bytes) -> str:
        return wire.decode()

    def from_json(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise self._wrong_json("a UTF-8 string", value)
        return self.parse_text(value)


class AsciiType(_BytesOrdered):
    name = "ascii"
    marshal_name = "org.apache.cassandra.db.marshal.AsciiType"
    option_id = 0x01
    quoted_literal = True

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise self._wrong_value(value)
        return self.parse_text(value)

    def decode(self, wire: bytes) -> str:
        return wire.decode("ascii")

    def validate(self, wire: bytes) -> None:
        if not wire.isascii():
            # Java's bytes are signed, and the message shows one.
            raise InvalidValue(f"Invalid byte for ascii: {next(b for b in wire if b > 127) - 256}")

    def parse_text(self, text: str) -> bytes:
        if not text.isascii():
            raise InvalidValue(f"Invalid ASCII character in string literal: {text}")
        return text.encode("ascii")

    def to_string(self, wire: bytes) -> str:
        return wire.decode("ascii")

    def from_json(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise self._wrong_json("an ascii string", value)
        return self.parse_text(value)


class BlobType(_BytesOrdered):
    name = "blob"
    marshal_name = "org.apache.cassandra.db.marshal.BytesType"
    option_id = 0x03

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise self._wrong_value(value)
        return bytes(value)

    def decode(self, wire: bytes) -> bytes:
        return wire

    def validate(self, wire: bytes) -> None:
        pass

    def parse_text(self, text: str) -> bytes:
        digits = text[2:] if text[:2] in ("0x", "0X") else text
        try:
            if not digits.isalnum() and digits:  # bytes.fromhex would skip white space
                raise ValueError
            return bytes.fromhex(digits)
        except ValueError:
            raise InvalidValue(f"cannot parse '{digits}' as hex bytes") from None

    def to_string(self, wire: bytes) -> str:
        return "0x" + wire.hex()

    def to_json_text(self, wire: bytes) -> str:
        return f'"0x{wire.hex()}"'

    def from_json(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise InvalidValue(f"Value '{value}' is not a valid blob representation: not a string")
        if not value.startswith(("0x", "0X")):
            raise InvalidValue(
                f"Value '{value}' is not a valid blob representation: "
                "String representation of blob is missing 0x prefix"
            )
        try:
            return self.parse_text(value)
        except InvalidValue as error:
            raise InvalidValue(f"Value '{value}' is not a valid blob representation: {error}") from None


class InetType(_BytesOrdered):
    name = "inet"
    marshal_name = "org.apache.cassandra.db.marshal.InetAddressType"
    option_id = 0x10
    quoted_literal = True

    def encode(self, value: Any) -> bytes:
        if isinstance(value, (ipaddress.IPv4Address, ipaddress.IPv6Address)):
            return value.packed
        if not isinstance(value, str):
            raise self._wrong_value(value)
        return self.parse_text(value)

    def decode(self, wire: bytes) -> str:
        if len(wire) == 4:
            return f"{wire[0]}.{wire[1]}.{wire[2]}.{wire[3]}"
        return str(ipaddress.IPv6Address(wire))

    def validate(self, wire: bytes) -> None:
        if len(wire) not in (4, 16):
            if not wire:
                raise self._refuse_empty()
            raise InvalidValue(f"Expected 4 or 16 byte inetaddress; got {len(wire)}")

    def parse_text(self, text: str) -> bytes:
        try:
            if "%" in text:  # a scope would be lost silently
                raise ValueError
            return ipaddress.ip_address(text).packed
        except ValueError:
            raise InvalidValue(f"Unable to make inet address from '{text}'") from None

    def to_string(self, wire: bytes) -> str:
        return self.decode(wire)

    def from_json(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise self._wrong_json("a string representation of an inet value", value)
        return self.parse_text(value)


_UUID_TEXT = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\Z")


class UuidType(ScalarType):
    """Ordered by version, then by time for version 1, then by bytes."""

    name = "uuid"
    marshal_name = "org.apache.cassandra.db.marshal.UUIDType"
    option_id = 0x0C
    fixed_width = vector_width = 16
    label = "UUID"

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, uuid.UUID):
            raise self._wrong_value(value)
        return value.bytes

    def decode(self, wire: bytes) -> uuid.UUID:
        return uuid.UUID(bytes=wire)

    def validate(self, wire: bytes) -> None:
        if len(wire) != 16:
            self._check_width(wire, f"{self.label} should be 16 or 0 bytes (%d)")

    def parse_text(self, text: str) -> bytes:
        if not _UUID_TEXT.match(text):
            raise InvalidValue(f"Unable to make UUID from '{text}'")
        return bytes.fromhex(text.replace("-", ""))

    def to_string(self, wire: bytes) -> str:
        digits = wire.hex()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def to_json_text(self, wire: bytes) -> str:
        return f'"{self.to_string(wire)}"'

    def from_json(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise self._wrong_json(f"a string representation of a {self.name}", value)
        return self.parse_text(value)

    def to_key(self, wire: bytes) -> bytes:
        version = wire[6] >> 4
        if version == 1:
            return b"\x01" + wire[6:8] + wire[4:6] + wire[:4] + wire[8:]
        return bytes((version,)) + wire

    def from_key(self, buffer: bytes, offset: int) -> KeyAndOffset:
        end = offset + 17
        if buffer[offset] != 1:
            return buffer[offset + 1 : end], end
        body = buffer[offset + 1 : end]
        return body[4:8] + body[2:4] + body[:2] + body[8:], end


#: Cassandra compares the last eight bytes of time UUIDs as signed bytes.
_FLIP_ALL_SIGNS = bytes(byte ^ 0x80 for byte in range(256))


class TimeuuidType(UuidType):
    """Version 1 only; ordered by time, then by the remaining bytes as signed ones."""

    name = "timeuuid"
    marshal_name = "org.apache.cassandra.db.marshal.TimeUUIDType"
    option_id = 0x0F
    label = "TimeUUID"

    def encode(self, value: Any) -> bytes:
        wire = super().encode(value)
        self.validate(wire)
        return wire

    def validate(self, wire: bytes) -> None:
        super().validate(wire)
        if wire[6] >> 4 != 1:
            raise InvalidValue("Invalid version for TimeUUID type.")

    def parse_text(self, text: str) -> bytes:
        wire = super().parse_text(text)
        self.validate(wire)
        return wire

    def to_key(self, wire: bytes) -> bytes:
        return wire[6:8] + wire[4:6] + wire[:4] + wire[8:].translate(_FLIP_ALL_SIGNS)

    def from_key(self, buffer: bytes, offset: int) -> KeyAndOffset:
        end = offset + 16
        body = buffer[offset:end]
        return body[4:8] + body[2:4] + body[:2] + body[8:].translate(_FLIP_ALL_SIGNS), end
