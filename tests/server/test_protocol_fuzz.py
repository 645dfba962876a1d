"""Mutated frames: only protocol errors or closed connections, and bounded memory."""

import asyncio
import gc
import random
import resource
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.server.protocol import envelope
from tests.server.protocol_fuzz import Tally, fuzz, one_connection
from tests.server.protocol_support import FakeOwner, Talk, run_async, settle


def check(tally: Tally) -> None:
    """The mutations must have reached both sides of every door."""
    assert tally.closed > 0
    assert tally.replies["error 0x000a"] > 0
    assert tally.replies["VoidReply"] > 0
    assert tally.replies["RowsReply"] > 0


def test_mutated_frames() -> None:
    tally = asyncio.run(fuzz(20_000, seed=1))
    check(tally)
    assert tally.closed < tally.connections


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_million_mutated_frames_leak_nothing() -> None:
    check(asyncio.run(fuzz(100_000, seed=random.randrange(1 << 32))))
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    check(asyncio.run(fuzz(1_000_000, seed)))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 32 * 1024, f"{grown} KiB more than before"


@given(st.integers(0, 2**32))
def test_any_seed(seed: int) -> None:
    asyncio.run(one_connection(random.Random(seed), Tally(), 40))


@given(st.binary(max_size=300), st.sampled_from([0, 3, 4, 5]))
def test_any_bytes(data: bytes, version: int) -> None:
    async def main() -> None:
        owner = FakeOwner()
        talk = Talk(owner, version or 4)
        if version:
            talk.start()
        talk.connection.on_data(data)
        await settle()
        talk.received()
        assert all("a bug" in str(fields) for _, _, fields in owner.runtime.logged)

    run_async(main)


def test_announced_lengths_allocate_nothing() -> None:
    """What only claims to be large must not cost memory."""

    async def main() -> None:
        talk = Talk().start()
        for opcode in (7, 9, 10, 13, 11):
            for body in (b"\x7f\xff\xff\xff", b"\xff\xff" * 8, struct.pack(">H", 0xFFFF) + b"\0" * 20):
                talk.send_raw(envelope(4, 1, opcode, body))
                await settle()
                assert talk.received()

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run_async(main)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024
