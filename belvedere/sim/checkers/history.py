"""What clients asked of a store and what they were told, in the order in which it happened.

Keys are registers: each holds one value, `None` where nothing was written yet or it was deleted. A client
notes an operation when it begins and again when it knows how it ended. What is never noted a second time
stays unknown: it may have been carried out at any time after it began, even long after its client gave up, or
never. So a client that times out, or crashes with the machine it runs on, has nothing more to do.

A history is recorded by one process. Those of several processes of one machine are put together with
`History.merged`, if all took their times from its monotonic clock.
"""

import enum
from collections.abc import Callable, Iterable

import msgspec

Value = int | str | None


class Kind(enum.Enum):
    READ = "read"
    WRITE = "write"
    #: Compare and set: write `value` if the register holds `expected`.
    CAS = "cas"


class Outcome(enum.Enum):
    #: Nobody told the client: carried out at any time after it began, or never.
    UNKNOWN = "unknown"
    #: A read was answered, a write or a compare-and-set was carried out.
    DONE = "done"
    #: A compare-and-set was not carried out, for the register held something else.
    REFUSED = "refused"
    #: Certainly not carried out, neither before it was told nor after.
    FAILED = "failed"


class Operation(msgspec.Struct, eq=False, omit_defaults=True):
    client: str
    key: str
    kind: Kind
    began: int
    #: What a write or a compare-and-set writes.
    value: Value = None
    #: What a compare-and-set demands.
    expected: Value = None
    ended: int | None = None
    outcome: Outcome = Outcome.UNKNOWN
    #: What the register held: told by every read, and by a refused compare-and-set if it likes.
    seen: Value | msgspec.UnsetType = msgspec.UNSET

    @property
    def may_have_written(self) -> bool:
        return self.kind is not Kind.READ and self.outcome in (Outcome.DONE, Outcome.UNKNOWN)

    def describe(self) -> str:
        """In words: `cas 1 → 2 refused, saw 3`."""
        told = "" if self.seen is msgspec.UNSET else repr(self.seen)
        if self.kind is Kind.READ:
            return f"read {told}" if self.outcome is Outcome.DONE else f"read, {self.outcome.value}"
        asked = f"write {self.value!r}"
        if self.kind is Kind.CAS:
            asked = f"cas {self.expected!r} → {self.value!r}"
        if self.outcome is Outcome.DONE:
            return asked
        return f"{asked} {self.outcome.value}" + (f", saw {told}" if told else "")


class History:
    """`now` is a clock in nanoseconds that every client of this history shares."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._last = -1
        self.operations: list[Operation] = []

    def _stamp(self) -> int:
        """No two alike, so that what happens within one tick keeps its order."""
        self._last = max(self._now(), self._last + 1)
        return self._last

    # Beginning.

    def read(self, client: str, key: str) -> Operation:
        return self._begin(Operation(client, key, Kind.READ, self._stamp()))

    def write(self, client: str, key: str, value: Value) -> Operation:
        return self._begin(Operation(client, key, Kind.WRITE, self._stamp(), value))

    def cas(self, client: str, key: str, expected: Value, value: Value) -> Operation:
        return self._begin(Operation(client, key, Kind.CAS, self._stamp(), value, expected))

    def _begin(self, operation: Operation) -> Operation:
        self.operations.append(operation)
        return operation

    # Ending.

    def found(self, operation: Operation, value: Value) -> None:
        """A read was answered."""
        assert operation.kind is Kind.READ
        self._end(operation, Outcome.DONE)
        operation.seen = value

    def done(self, operation: Operation) -> None:
        """A write or a compare-and-set was carried out."""
        assert operation.kind is not Kind.READ
        self._end(operation, Outcome.DONE)

    def refused(self, operation: Operation, seen: Value | msgspec.UnsetType = msgspec.UNSET) -> None:
        """A compare-and-set was not carried out: the register held something else, `seen` if it was told."""
        assert operation.kind is Kind.CAS
        self._end(operation, Outcome.REFUSED)
        operation.seen = seen

    def failed(self, operation: Operation) -> None:
        """It was certainly not carried out and never will be. Leave a timeout as it is: unknown."""
        self._end(operation, Outcome.FAILED)

    def _end(self, operation: Operation, outcome: Outcome) -> None:
        assert operation.ended is None
        operation.ended = self._stamp()
        operation.outcome = outcome

    # Lookups.

    def by_key(self) -> dict[str, list[Operation]]:
        """The operations of each key in the order in which they began, keys as they were first used."""
        found: dict[str, list[Operation]] = {}
        for operation in self.operations:
            found.setdefault(operation.key, []).append(operation)
        return found

    # To and from bytes: one JSON object a line.

    def to_lines(self) -> bytes:
        encode = msgspec.json.Encoder().encode
        return b"".join(encode(operation) + b"\n" for operation in self.operations)

    @staticmethod
    def merged(parts: Iterable[bytes]) -> "History":
        """One history of those that several processes wrote as lines. It is complete: it has no clock."""
        history = History(_no_clock)
        decode = msgspec.json.Decoder(Operation).decode
        for part in parts:
            history.operations += [decode(line) for line in part.splitlines()]
        history.operations.sort(key=lambda operation: operation.began)
        return history


def _no_clock() -> int:
    raise RuntimeError("a merged history cannot be continued")
