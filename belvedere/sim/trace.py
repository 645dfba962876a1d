"""What happened in a run, in order, with a running hash: equal hashes mean equal runs."""

import collections
import hashlib

_FLUSH_EVERY = 512


class Trace:
    """Only what is the same in every process may be recorded: times, kinds, names. No object's repr."""

    def __init__(self, *, keep_all: bool = False, tail: int = 200) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._buffer: list[str] = []
        self._kept: list[str] | None = [] if keep_all else None
        self._tail: collections.deque[str] = collections.deque(maxlen=tail)
        self._frozen = False
        self.events = 0

    def record(self, now_ns: int, kind: str, name: str) -> None:
        if self._frozen:
            return
        self.events += 1
        buffer = self._buffer
        buffer.append(f"{now_ns} {kind} {name}\n")
        if len(buffer) >= _FLUSH_EVERY:
            self._flush()

    def _flush(self) -> None:
        buffer = self._buffer
        if not buffer:
            return
        self._hash.update("".join(buffer).encode())
        self._tail.extend(buffer)
        if self._kept is not None:
            self._kept.extend(buffer)
        self._buffer = []

    def freeze(self) -> None:
        """Nothing that happens from now on belongs to the run."""
        self._flush()
        self._frozen = True

    @property
    def digest(self) -> str:
        self._flush()
        return self._hash.hexdigest()

    def tail(self, count: int = 50) -> list[str]:
        self._flush()
        return [line.rstrip("\n") for line in list(self._tail)[-count:]]

    def lines(self) -> list[str]:
        """Everything, when `keep_all` was asked for; otherwise the tail."""
        self._flush()
        if self._kept is None:
            return self.tail(len(self._tail))
        return [line.rstrip("\n") for line in self._kept]
