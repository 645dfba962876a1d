"""From a stream of bytes to envelopes: the sans-I/O front of a connection, for requests and for responses.

`feed` never raises. What it could read comes back in order; after something that makes the rest of the stream
meaningless (`failure`) it reads no more. Memory is bounded: at most one envelope that is not whole yet, whose
announced length was checked before the first byte of it was kept.
"""

from struct import Struct

from belvedere.server.frames import SegmentDecoder
from belvedere.server.protocol import (
    HEADER,
    HEADER_LENGTH,
    RESPONSE_BIT,
    STARTUP,
    SUPPORTED_VERSIONS,
    V3,
    FatalProtocolError,
    supported_versions_text,
)

#: flags, stream, opcode, body
Envelope = tuple[int, int, int, bytes]

MEBIBYTE = 1 << 20
#: No frame may be longer than this, whatever is configured: the specification's own limit.
MAX_FRAME = 256 * MEBIBYTE

_OLD_HEADER = Struct(">BBb")
_OLD_HEADER_LENGTH = 8


class UnsupportedVersion(FatalProtocolError):
    pass


class EnvelopeDecoder:
    """`max_body` may be changed at any time: small until a client has introduced itself."""

    def __init__(self, max_body: int, *, responses: bool = False) -> None:
        self.max_body = max_body
        #: Of the first envelope; all others must have the same.
        self.version = 0
        self.failure: FatalProtocolError | None = None
        self._direction = RESPONSE_BIT if responses else 0
        self._partial = bytearray()
        self._need = 0
        self._segments: SegmentDecoder | None = None
        #: The parts of an envelope that is spread over several segments, and its length once it is known.
        self._large = bytearray()
        self._large_length = 0
        self._stop_after_startup = not responses

    @property
    def buffered(self) -> int:
        inside = self._segments.buffered if self._segments is not None else 0
        return len(self._partial) + len(self._large) + inside

    def use_segments(self, compressed: bool) -> None:
        """From here on the stream is in protocol v5's segments. Follow with `feed(b"")`."""
        self._segments = SegmentDecoder(compressed)
        self._stop_after_startup = False

    def feed(self, data: bytes) -> list[Envelope]:
        found: list[Envelope] = []
        if self.failure is None:
            try:
                if self._segments is None:
                    self._feed_plain(data, found)
                else:
                    self._feed_segments(data, found)
            except FatalProtocolError as error:
                self.failure = error
        if self.failure is not None:
            self._partial.clear()
            self._large.clear()
        return found

    def _feed_plain(self, data: bytes, found: list[Envelope]) -> None:
        if self._partial:
            self._partial += data
            if len(self._partial) < self._need:
                return
            data = bytes(self._partial)
            self._partial.clear()
        at = self._read(data, found)
        if at < len(data):
            self._partial += memoryview(data)[at:] if at else data

    def _read(self, data: bytes, found: list[Envelope]) -> int:
        """Read whole envelopes; returns where the first one that is not whole begins, and sets `_need`."""
        at: int = 0
        size = len(data)
        # Nothing equals -1: the first header is always looked at.
        expected = self.version | self._direction if self.version else -1
        unpack = HEADER.unpack_from
        while size - at >= HEADER_LENGTH:
            version, flags, stream, opcode, length = unpack(data, at)
            if version != expected or length < 0 or length > self.max_body:
                self._check_header(version, stream, length)
                expected = version
            end: int = at + HEADER_LENGTH + length
            if end > size:
                self._need = end - at
                return at
            found.append((flags, stream, opcode, data[at + HEADER_LENGTH : end]))
            at = end
            if opcode == STARTUP and self._stop_after_startup:
                # How the bytes after it are framed depends on the answer.
                self._need = 0
                return at
        self._need = self._needed_for_header(data, at) if size > at else HEADER_LENGTH
        return at

    def _check_header(self, version: int, stream: int, length: int) -> None:
        number = version & ~RESPONSE_BIT
        if number not in SUPPORTED_VERSIONS:
            # The stream's number had one byte in the oldest versions, where its high byte is now.
            raise unsupported_version(number, stream if number >= V3 else stream >> 8)
        if version & RESPONSE_BIT != self._direction:
            raise FatalProtocolError("Wrong protocol message direction", stream)
        if self.version and number != self.version:
            raise FatalProtocolError(
                f"Invalid message version. Got {number}/v{number} but previous messages on this connection"
                f" had version {self.version}/v{self.version}",
                stream,
            )
        self.version = number
        if length < 0:
            raise FatalProtocolError(f"Invalid frame length {length}", stream)
        if length > self.max_body:
            raise FatalProtocolError(
                f"Request is too big: length {length} exceeds maximum allowed length {self.max_body}", stream
            )

    def _needed_for_header(self, data: bytes, at: int) -> int:
        """Versions before v3 had a header of eight bytes: do not wait for a ninth that may never come."""
        number = data[at] & ~RESPONSE_BIT
        if number >= V3:
            return HEADER_LENGTH
        if len(data) - at >= _OLD_HEADER_LENGTH:
            raise unsupported_version(number, _OLD_HEADER.unpack_from(data, at)[2])
        return _OLD_HEADER_LENGTH

    def _feed_segments(self, data: bytes, found: list[Envelope]) -> None:
        assert self._segments is not None
        if self._partial:
            # Bytes that came along with STARTUP, before the stream was known to be segmented.
            data = bytes(self._partial) + data
            self._partial.clear()
        payloads, failure = self._segments.feed(data)
        for payload, self_contained in payloads:
            if self_contained:
                self._read_self_contained(payload, found)
            else:
                self._read_part(payload, found)
        if failure is not None:
            raise failure

    def _read_self_contained(self, payload: bytes, found: list[Envelope]) -> None:
        if self._large:
            raise FatalProtocolError("A self-contained frame came in the middle of a large message")
        if self._read(payload, found) != len(payload):
            raise FatalProtocolError("A self-contained frame ends in the middle of a message")

    def _read_part(self, payload: bytes, found: list[Envelope]) -> None:
        """One part of an envelope that is spread over several segments."""
        large = self._large
        large += payload
        if not self._large_length:
            if len(large) < HEADER_LENGTH:
                return
            version, _, stream, _, length = HEADER.unpack_from(large)
            self._check_header(version, stream, length)
            self._large_length = HEADER_LENGTH + length
        if len(large) > self._large_length:
            raise FatalProtocolError("A large message is longer than its header says")
        if len(large) == self._large_length:
            self._read(bytes(large), found)
            large.clear()
            self._large_length = 0


def unsupported_version(number: int, stream: int) -> UnsupportedVersion:
    supported = supported_versions_text()
    return UnsupportedVersion(
        f"Invalid or unsupported protocol version ({number}); supported versions are {supported}", stream
    )
