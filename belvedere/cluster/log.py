"""A replica's log as its state machine knows it: what is in it, what is on disk, what is for good."""

from collections.abc import Sequence
from dataclasses import dataclass

from belvedere.cluster.events import AppendToLog, ApplyUpTo, CutLog, Effect
from belvedere.cluster.tail import Tail
from belvedere.model.positions import Position, Record


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds."""

    #: Operations under way at a primary; beyond that: Overloaded.
    pending: int = 1024
    #: Records in one message, and on the way to one follower.
    batch: int = 64
    #: About how many bytes of records in one message: half of what a frame between nodes holds.
    batch_bytes: int = 8 << 20
    window: int = 1024
    #: Committed records that stay in memory for those who are a little behind.
    remembered: int = 1024
    #: After that long without an answer, say it again.
    resend: float = 0.2
    #: After that long without progress, a backup is taken out.
    patience: float = 3.0
    #: After that long, followers are told what was committed if nothing else tells them.
    notice: float = 0.005
    #: How long a read at a backup waits to hear that what is in its log is committed.
    linger: float = 0.1
    #: Between attempts of learners to catch up, and of proposals.
    retry: float = 0.5


class Log:
    """Nobody shows readers what is not committed: so nothing that they saw, or that went into a file, is ever
    taken back."""

    __slots__ = ("tail", "durable", "committed", "_remembered")

    def __init__(self, tail: Tail, committed: Position, remembered: int) -> None:
        self.tail = tail
        #: What was found at the start was read from disk.
        self.durable = tail.last
        self.committed = committed
        self._remembered = remembered

    @property
    def last(self) -> Position:
        return self.tail.last

    def append(self, records: Sequence[Record]) -> AppendToLog:
        for record in records:
            self.tail.append(record)
        return AppendToLog(tuple(records), self.committed)

    def written(self, position: Position) -> None:
        self.durable = max(self.durable, min(position, self.tail.last))

    def commit(self, position: Position) -> list[Effect]:
        """Everything up to here is in the log of every replica that could ever become primary."""
        if position <= self.committed:
            return []
        self.committed = position
        self.tail.forget(position, self._remembered)
        return [ApplyUpTo(position)]

    def restart(self, position: Position) -> None:
        """With nothing in it: everything up to here came some other way, and is on disk."""
        self.tail = Tail(position)
        self.durable = self.committed = position

    def cut(self, position: Position) -> CutLog:
        last = self.tail.floor(position)
        if last < self.committed:
            raise AssertionError(f"cut to {last}, though {self.committed} was committed")
        self.tail.cut(last)
        self.durable = min(self.durable, last)
        return CutLog(last)
