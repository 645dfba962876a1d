"""A violation told to people: as few operations as contradict each other, and when they were under way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from belvedere.sim.checkers.history import Kind, Operation, Outcome, Value


@dataclass(frozen=True, slots=True)
class Violation:
    key: str
    initial: Value
    #: They alone cannot be explained, and without any one of them the rest could be.
    operations: Sequence[Operation]

    def __str__(self) -> str:
        told = f"{self.key}: no order of these operations explains their results"
        if self.initial is not None:
            told += f", beginning with {self.initial!r}"
        return told + "\n" + drawn(self.operations)


def shortest_telling(
    operations: Sequence[Operation], is_violation: Callable[[Sequence[Operation]], bool]
) -> list[Operation]:
    """A part of a violation that is one by itself. Without its last answer, or without any operation that may
    be left out, it would be none."""
    left = _until_contradicted(operations, is_violation)
    size = max(1, len(left) // 2)
    while True:
        shorter = _thinned(left, size, is_violation)
        if size == 1 and len(shorter) == len(left):
            return left
        left, size = shorter, max(1, size // 2)


def _until_contradicted(
    operations: Sequence[Operation], is_violation: Callable[[Sequence[Operation]], bool]
) -> list[Operation]:
    """What was known when the first answer came that cannot be right. Every longer history is wrong, too."""
    ends = sorted(op.ended for op in operations if op.ended is not None)
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        if is_violation(_as_known_at(operations, ends[middle])):
            high = middle
        else:
            low = middle + 1
    return [
        op
        for op in operations
        if op.began <= ends[high] and (op.kind is not Kind.READ or (op.ended or 0) <= ends[high])
    ]


def _as_known_at(operations: Sequence[Operation], now: int) -> list[Operation]:
    """What had not ended yet had an unknown outcome. Only of failures it is always known."""
    return [
        op
        if op.outcome is Outcome.FAILED or op.ended is None or op.ended <= now
        else msgspec.structs.replace(op, ended=None, outcome=Outcome.UNKNOWN, seen=msgspec.UNSET)
        for op in operations
        if op.began <= now
    ]


def _thinned(
    operations: list[Operation], size: int, is_violation: Callable[[Sequence[Operation]], bool]
) -> list[Operation]:
    """Without each group of this size of which the rest is a violation all the same."""
    left = operations
    start = 0
    while start < len(left):
        group = left[start : start + size]
        rest = left[:start] + left[start + size :]
        if _may_be_left_out(group, rest) and is_violation(rest):
            left = rest
        else:
            start += size
    return left


def _may_be_left_out(group: Sequence[Operation], rest: Sequence[Operation]) -> bool:
    """Who leaves out a write must not make others wrong that saw it: only what explains nothing may go. A
    failed write explains nothing, but tells where a value came from that nobody should have seen."""
    if any(op.outcome is Outcome.REFUSED and op.seen is msgspec.UNSET for op in rest):
        return not any(op.may_have_written for op in group)
    written = [op.value for op in group if op.kind is not Kind.READ and op.outcome is not Outcome.REFUSED]
    for op in rest:
        if op.seen is not msgspec.UNSET and op.seen in written:
            return False
        if op.kind is Kind.CAS and op.outcome in (Outcome.DONE, Outcome.UNKNOWN) and op.expected in written:
            return False
    return True


def drawn(operations: Sequence[Operation]) -> str:
    """One line for each operation: from when to when, who, what. Time is drawn as the order of events."""
    times = sorted([op.began for op in operations] + [op.ended for op in operations if op.ended is not None])
    column = {time: number * 3 for number, time in enumerate(times)}
    # What has no end goes on beyond the last event.
    width = 3 * len(times) - 2 + 3 * any(op.ended is None for op in operations)
    who = max((len(op.client) for op in operations), default=0)
    lines = []
    for op in sorted(operations, key=lambda op: op.began):
        begin = column[op.began]
        if op.ended is None:
            bar = " " * begin + "├" + "─" * (width - begin - 2) + "┄"
        else:
            bar = " " * begin + "├" + "─" * (column[op.ended] - begin - 1) + "┤"
        ended = "?" if op.ended is None else _seconds(op.ended)
        lines.append(
            f"  {op.client:<{who}}  {bar:<{width}}  {op.describe()}  ({_seconds(op.began)} to {ended})"
        )
    return "\n".join(lines)


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.6f} s"
