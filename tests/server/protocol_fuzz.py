"""Damaged requests against one connection after another.

Also a program: `python -m tests.server.protocol_fuzz [frames] [seed]`.

A frame is a valid request that was mutated: bits flipped, bytes cut out, put in or repeated, lengths
replaced by interesting ones, two requests spliced. Frames go in whole or cut in pieces, before and after
STARTUP, in v3, v4, v5, with and without lz4, with valid checksums around damaged content or with damaged
ones. A connection must answer with well-formed responses or close; nothing may escape it, no request may
stay without an answer, and what it holds must stay within its limits.
"""

import asyncio
import random
import sys
from dataclasses import dataclass, field

from belvedere.query.access import UNSET
from belvedere.query.options import QueryOptions
from belvedere.server.connection_api import ServerSettings
from belvedere.server.frames import encode_segments
from belvedere.server.messages_requests import (
    AuthResponse,
    Batch,
    Execute,
    OptionsRequest,
    Prepare,
    Query,
    Register,
    Request,
    Startup,
)
from tests.server.protocol_support import FakeOwner, Talk, settle

SETTINGS = ServerSettings(
    max_request=64 * 1024, max_in_flight=16, max_in_flight_bytes=256 * 1024, max_unsent=64 * 1024
)
FLAVOURS = [(3, ""), (3, "lz4"), (4, ""), (4, "lz4"), (5, ""), (5, "lz4")]
INTERESTING = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF]
#: More than the limits and one request, one answer, one chunk on top.
MOST_BYTES_HELD = 4 * SETTINGS.max_in_flight_bytes
FRAMES_PER_CONNECTION = 40


@dataclass
class Tally:
    frames: int = 0
    connections: int = 0
    closed: int = 0
    replies: dict[str, int] = field(default_factory=dict)
    most_held: int = 0

    def count(self, reply: object) -> None:
        code = getattr(reply, "code", None)
        name = type(reply).__name__ if code is None else f"error {code:#06x}"
        self.replies[name] = self.replies.get(name, 0) + 1


def requests(version: int, statement_id: bytes, metadata_id: bytes | None) -> list[Request]:
    values = [b"abcd", None, b"x" * 40] + ([UNSET] if version > 3 else [])
    options = QueryOptions(4, values, None, 100, b"state", 8, 1_700_000_000_000)
    return [
        Query("SELECT * FROM ks.t", QueryOptions()),
        Query("INSERT", options),
        Query("BIG 3000", QueryOptions(values=[b"1", b"2"], names=["a", "b"])),
        Query("SLOW", QueryOptions()),
        Prepare("SELECT ?, ?, ?"),
        Prepare("INSERT"),
        Execute(statement_id, metadata_id, True, QueryOptions(values=[b"a", b"b"])),
        Execute(statement_id, metadata_id, False, QueryOptions(values=[None, b"b"], timestamp=5)),
        Batch(0, [("INSERT", [b"1"]), (statement_id, [b"1", b"2"])], QueryOptions(timestamp=7)),
        Register(["SCHEMA_CHANGE"]),
        Query("CREATE t", QueryOptions()),
        Query("BUG", QueryOptions()),
        OptionsRequest(),
        AuthResponse(b"\0a\0b"),
        Startup({"CQL_VERSION": "3.0.0"}),
    ]


def mutated(rng: random.Random, frame: bytes, other: bytes) -> bytes:
    data = bytearray(frame)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(data)) if data else 0
        match rng.randrange(8):
            case 0 if data:
                data[at] ^= 1 << rng.randrange(8)
            case 1 if data:
                data[at] = rng.randrange(256)
            case 2:
                del data[at : at + rng.randrange(1, 9)]
            case 3:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 4:
                width = rng.choice((1, 2, 4))
                number = rng.choice(INTERESTING) & (1 << 8 * width) - 1
                data[at : at + width] = number.to_bytes(width, "big")
            case 5:
                data[at:] = other[min(at, len(other)) :]
            case 6:
                data += data[at : at + 64]
            case _:
                del data[at:]
    return bytes(data)


def framed_again(rng: random.Random, frame: bytes, version: int) -> bytes:
    """Mostly with a header that fits the damaged body, so that the damage reaches the message decoder."""
    if len(frame) < 9 or rng.random() < 0.05:
        return frame
    return bytes((version,)) + frame[1:5] + (len(frame) - 9).to_bytes(4, "big") + frame[9:]


async def one_connection(rng: random.Random, tally: Tally, frames: int) -> None:
    version, compression = rng.choice(FLAVOURS)
    owner = FakeOwner(settings=SETTINGS)
    owner.database.remember = False
    talk = Talk(owner, version, compression)
    statement = owner.database.prepare("SELECT ?, ?", None)
    started = rng.random() < 0.9
    if started:
        talk.start()
    metadata_id = statement.result_metadata_id if version == 5 else None
    choices = requests(version, statement.id, metadata_id)
    if version == 5 and not started:
        # Such a client would not notice that what it is answered is framed in segments.
        choices.pop()
    plain = [talk.bytes_of(rng.randrange(-1, 300), request) for request in choices]
    for _ in range(frames):
        frame = mutated(rng, rng.choice(plain), rng.choice(plain))
        frame = framed_again(rng, frame, version) if rng.random() < 0.9 else rng.choice(plain)
        if talk.segmented:
            frame = encode_segments([frame], bool(compression)) if frame else b""
            if rng.random() < 0.05:
                frame = mutated(rng, frame, frame)
        tally.frames += 1
        feed(rng, talk, frame)
        if rng.random() < 0.3:
            await progress(rng, talk, tally)
        if talk.transport.closed or talk.transport.aborted:
            break
    await finish(talk, tally)


def feed(rng: random.Random, talk: Talk, frame: bytes) -> None:
    if rng.random() < 0.8 or len(frame) > 2000:
        talk.connection.on_data(frame)
        return
    at = 0
    while at < len(frame):
        step = rng.choice((1, 3, 20))
        talk.connection.on_data(frame[at : at + step])
        at += step


async def progress(rng: random.Random, talk: Talk, tally: Tally) -> None:
    await settle()
    connection, transport = talk.connection, talk.transport
    held = connection._load + connection._decoder.buffered + sum(len(e[3]) for e in connection._backlog)
    tally.most_held = max(tally.most_held, held)
    assert held <= MOST_BYTES_HELD, f"{held} bytes held"
    assert connection.in_flight <= SETTINGS.max_in_flight
    if rng.random() < 0.5:
        talk.database.open_gates()
    if rng.random() < 0.5:
        talk.database.make_durable()
    transport.stuck = rng.random() < 0.2
    if not transport.stuck and transport.waiting:
        transport.waiting = 0
        connection.on_drained()
    read(talk, tally)


def read(talk: Talk, tally: Tally) -> None:
    """Every response must be well formed."""
    for _, reply in talk.received():
        tally.count(reply)


async def finish(talk: Talk, tally: Tally) -> None:
    transport = talk.transport
    transport.stuck = False
    for _ in range(10_000):
        talk.database.open_gates()
        talk.database.make_durable()
        transport.waiting = 0
        talk.connection.on_drained()
        await settle()
        read(talk, tally)
        if not talk.connection.in_flight and not talk.connection._backlog:
            break
    assert talk.connection.in_flight == 0
    assert not talk.connection._backlog
    assert talk.connection._load == 0
    tally.connections += 1
    tally.closed += transport.closed
    for _, _, fields in talk.owner.runtime.logged:
        assert "a bug" in str(fields["error"]), fields
    talk.connection.on_close(None)
    assert not talk.owner.runtime.tasks


async def fuzz(frames: int, seed: int) -> Tally:
    rng, tally = random.Random(seed), Tally()
    while tally.frames < frames:
        await one_connection(rng, tally, min(FRAMES_PER_CONNECTION, frames - tally.frames))
    return tally


def main() -> None:
    frames = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    print(f"{frames} frames, seed {seed}")
    print(asyncio.run(fuzz(frames, seed)))


if __name__ == "__main__":
    main()
