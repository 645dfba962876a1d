"""What may be demanded of registers that are not linearizable: that nothing acknowledged is lost, and that a
client does not see time run backwards.

Both know only what is certain: that one write was over before another began, and which write a value came
from, when no other wrote the same. Stores that promise less than one order for all can be held to these.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from belvedere.sim.checkers.history import History, Kind, Operation, Outcome, Value
from belvedere.sim.checkers.telling import drawn


@dataclass(frozen=True, slots=True)
class LostWrite:
    """At the end the register held what an acknowledged write had replaced, or what nobody wrote."""

    key: str
    found: Value
    #: What replaced it. None: nobody wrote what was found.
    lost: Operation | None
    #: Where the value that was found could have come from.
    writers: Sequence[Operation]

    def __str__(self) -> str:
        if self.lost is None:
            why = "which nobody can have written"
        else:
            why = f"though {self.lost.client} was told later that it holds {self.lost.value!r}"
        lost = [] if self.lost is None else [self.lost]
        return f"{self.key}: holds {self.found!r}, {why}\n{drawn([*self.writers, *lost])}"


def check_durability(
    history: History, found: Mapping[str, Value], *, initial: Mapping[str, Value] | None = None
) -> LostWrite | None:
    """`found` is what registers hold at the end, None where nothing is; keys that it leaves out are not
    checked. A register may hold what was written last, by any of several that nobody ordered; also what an
    operation with unknown outcome wrote, for it may have landed at any time."""
    by_key = history.by_key()
    for key, value in found.items():
        operations = [op for op in by_key.get(key, []) if op.kind is not Kind.READ]
        lost = _lost(key, operations, value, (initial or {}).get(key))
        if lost is not None:
            return lost
    return None


def _lost(key: str, operations: Sequence[Operation], found: Value, initial: Value) -> LostWrite | None:
    acknowledged = [op for op in operations if op.outcome is Outcome.DONE]
    # Who began last leaves the least to explain it.
    last = max(acknowledged, key=lambda op: op.began, default=None)
    writers = [op for op in operations if op.may_have_written and op.value == found]
    if found == initial and last is None:
        return None
    if any(last is None or op.ended is None or op.ended >= last.began for op in writers):
        return None
    if not writers and found != initial:
        failed = [op for op in operations if op.outcome is Outcome.FAILED and op.value == found]
        return LostWrite(key, found, None, failed)
    return LostWrite(key, found, last, writers)


@dataclass(frozen=True, slots=True)
class WentBack:
    """A client read what had been replaced before what it knew already."""

    key: str
    why: str
    operations: Sequence[Operation]

    def __str__(self) -> str:
        return f"{self.key}: {self.why}\n{drawn(self.operations)}"


def check_monotonic_reads(
    history: History, *, initial: Mapping[str, Value] | None = None, own_writes: bool = False
) -> WentBack | None:
    """No client reads what is older than what it read before; with `own_writes`, nor what is older than what
    it was told it had written. A client whose operations overlap is held only to what had ended."""
    for key, operations in history.by_key().items():
        origins = _Origins(operations, (initial or {}).get(key))
        clients: dict[str, list[Operation]] = {}
        for op in operations:
            if op.outcome is Outcome.DONE and (op.kind is Kind.READ or own_writes):
                clients.setdefault(op.client, []).append(op)
        for told in clients.values():
            back = _went_back(key, told, origins)
            if back is not None:
                return back
    return None


class _Origins:
    """Which operation wrote a value, where only one can have."""

    def __init__(self, operations: Sequence[Operation], initial: Value) -> None:
        self._initial = initial
        self._writers: dict[Value, list[Operation]] = {}
        for op in operations:
            if op.may_have_written:
                self._writers.setdefault(op.value, []).append(op)

    def of(self, op: Operation) -> Operation | None:
        """The write that this operation knows to have happened."""
        if op.kind is not Kind.READ:
            return op
        assert op.seen is None or isinstance(op.seen, int | str)
        writers = self._writers.get(op.seen, [])
        return writers[0] if len(writers) == 1 and op.seen != self._initial else None

    def never_written(self, op: Operation) -> bool:
        assert op.seen is None or isinstance(op.seen, int | str)
        return op.seen not in self._writers


def _went_back(key: str, told: Sequence[Operation], origins: _Origins) -> WentBack | None:
    """`told` is what one client was told, in the order in which it asked."""
    for number, later in enumerate(told):
        if later.kind is not Kind.READ:
            continue
        now = origins.of(later)
        before = [op for op in told[:number] if op.ended is not None and op.ended < later.began]
        for earlier in before:
            known = origins.of(earlier)
            if known is None:
                continue
            if now is not None and now.ended is not None and now.ended < known.began:
                return WentBack(key, "went back to an older write", [now, known, earlier, later])
            if origins.never_written(later):
                return WentBack(key, "went back to what was there at the beginning", [known, earlier, later])
        left = _left_and_seen_again(before, later, now)
        if left is not None:
            return WentBack(key, "came back to a value that it had seen replaced", [*left, later])
    return None


def _left_and_seen_again(
    before: Sequence[Operation], later: Operation, now: Operation | None
) -> list[Operation] | None:
    """A read of the same write, then one of something else that began after it had ended."""
    if now is None:
        return None
    reads = [op for op in before if op.kind is Kind.READ]
    for first in reads:
        if first.seen == later.seen and first.ended is not None:
            for between in reads:
                if between.seen != later.seen and between.began > first.ended:
                    return [first, between]
    return None
