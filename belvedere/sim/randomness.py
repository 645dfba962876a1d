"""Randomness of a run: every consumer has its own stream, named under the seed.

Streams keep apart what must not disturb each other (a fault more on the network leaves the schedule as it
was). Where even the number of draws may differ between two runs to be compared, `fate` draws by name and
number instead of by order.
"""

import builtins
import hashlib
import random

import xxhash

from belvedere.runtime.real import version_4


def stream(seed: int, *names: object) -> random.Random:
    """An independent generator for this name under this seed."""
    text = "/".join(str(name) for name in (seed, *names))
    return random.Random(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big"))


def fate(seed: int, *names: object) -> float:
    """A number in [0, 1) that depends on nothing but the seed and these names."""
    text = "/".join(str(name) for name in names)
    return xxhash.xxh3_64_intdigest(text.encode(), seed & 0xFFFF_FFFF_FFFF_FFFF) / 2.0**64


def between(share: float, low: float, high: float) -> float:
    """Spread a share in [0, 1) over a range, evenly in orders of magnitude: short is common, long happens."""
    return float(low * (high / low) ** share)


class SimRandom:
    """The runtime's Random. Its stream names the incarnation, so a rebooted machine draws other ids."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator

    def random(self) -> float:
        return self._generator.random()

    def randint(self, low: int, high: int) -> int:
        return self._generator.randint(low, high)

    def bytes(self, count: int) -> builtins.bytes:
        return self._generator.randbytes(count)

    def uuid_bytes(self) -> builtins.bytes:
        return version_4(self._generator.randbytes(16))
