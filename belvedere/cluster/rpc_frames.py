"""Messages between nodes as bytes: length, checksum, msgpack. No socket: bytes in, messages out.

A frame is the payload's length and its CRC-32C, four bytes each, big endian, then the payload: an array of
the message's kind and its fields. Fields that a newer node adds at the end are skipped by an older one; what
an older one must not skip needs a new version, which both sides agree on before anything else is said.
"""

from collections.abc import Sequence
from struct import Struct

import crc32c
import msgspec

#: The versions of the protocol that this code speaks.
OLDEST_VERSION = 1
NEWEST_VERSION = 1

MEBIBYTE = 1 << 20
#: The largest payload; nodes move large things in pieces, or as files on another channel.
MAX_FRAME = 16 * MEBIBYTE
#: Before the handshake: who has not said who it is must not make us hold more.
MAX_FRAME_BEFORE_HANDSHAKE = 4096

_HEADER = Struct(">II")


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """The first message of who opened the connection: who it is, and whom it wants to talk to."""

    oldest_version: int
    newest_version: int
    cluster: str
    node: str
    incarnation: int
    wanted_node: str
    wanted_incarnation: int
    revision: int


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=1):
    version: int
    revision: int


class Farewell(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The last message before the connection is closed: why. `kind` is one of `rpc_errors.FAREWELLS`."""

    kind: str
    text: str


class Ask(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A request. Together with node and incarnation of the Hello its number names it for good."""

    number: int
    method: str
    #: Of the sender's metadata: who is behind catches up first.
    revision: int
    #: Seconds that are left, since clocks differ.
    patience: float
    body: bytes


class Answer(msgspec.Struct, frozen=True, array_like=True, tag=4):
    number: int
    revision: int
    body: bytes


class Failure(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """`kind` is one of `rpc_errors.FAILURES`; once the handler has begun, it names what that raised."""

    number: int
    revision: int
    kind: str
    text: str
    begun: bool


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Nobody waits for the answer any more."""

    number: int


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """Are you there? Answered by the like."""

    answer: bool = False


Message = Hello | Welcome | Farewell | Ask | Answer | Failure | Cancel | Ping

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


class BadFrame(Exception):
    """The bytes are no message of this protocol, or were damaged on their way."""


class FrameTooLarge(Exception):
    """The message is larger than what a frame may hold; nothing was sent."""


def encode(message: Message, limit: int = MAX_FRAME) -> bytes:
    payload = _encoder.encode(message)
    if len(payload) > limit:
        raise FrameTooLarge(f"a message of {len(payload)} bytes, more than the {limit} that a frame may have")
    return _HEADER.pack(len(payload), crc32c.crc32c(payload)) + payload


class FrameDecoder:
    """`feed` gives the messages that are complete. It never raises: once the stream makes no sense, `failure`
    says why, and nothing of it is read any more. What it holds is bounded by one frame and one chunk."""

    def __init__(self, limit: int = MAX_FRAME_BEFORE_HANDSHAKE) -> None:
        #: The largest payload that is taken; a frame that is larger is refused by its header.
        self.limit = limit
        self.failure: BadFrame | None = None
        #: So many bytes must be there before looking again is of any use.
        self._needed = _HEADER.size
        self._pieces: list[bytes] = []
        self._held = 0

    def feed(self, data: bytes) -> Sequence[Message]:
        if self.failure is not None:
            return ()
        self._pieces.append(data)
        self._held += len(data)
        if self._held < self._needed:
            # Joined only when a frame is complete: else a large one in small pieces costs their square.
            return ()
        buffer = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        messages: list[Message] = []
        try:
            used = self._take(buffer, messages)
        except BadFrame as failure:
            self.failure = failure
            self._pieces.clear()
            self._held = 0
            return messages
        rest = buffer[used:]
        self._pieces = [rest] if rest else []
        self._held = len(rest)
        return messages

    def _take(self, buffer: bytes, messages: list[Message]) -> int:
        at = 0
        while len(buffer) - at >= _HEADER.size:
            length, checksum = _HEADER.unpack_from(buffer, at)
            if length > self.limit:
                raise BadFrame(f"a frame of {length} bytes, more than {self.limit}")
            end = at + _HEADER.size + length
            if end > len(buffer):
                self._needed = end - at
                return at
            payload = buffer[at + _HEADER.size : end]
            if crc32c.crc32c(payload) != checksum:
                raise BadFrame("a frame whose checksum is wrong")
            try:
                message = _decoder.decode(payload)
            except msgspec.MsgspecError as error:
                raise BadFrame(f"a frame that holds no message: {error}") from error
            messages.append(message)
            at = end
        self._needed = _HEADER.size
        return at
