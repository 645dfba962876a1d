"""Could registers that do one thing at a time have answered so?

A history is linearizable if every operation can be given one moment between its beginning and its end, so
that a register that carries them out at these moments answers each as it was answered. An operation with
unknown outcome may be given any moment after its beginning, or none.

This is the search of Wing and Gong with the memory of Lowe: take operations one after the other, each time
one that no open operation precedes, go back when stuck, and never search twice from the same place (what was
taken, what the register holds). Registers are independent, so each is searched alone. What makes it fast:

- What changes nothing is taken as soon as it fits. It would fit nowhere better.
- An unknown write that nobody saw is forgotten. One that somebody saw, and that nobody else could have
  written, was carried out before it was seen: it is no longer unknown.
- Another unknown write is only taken where the next operation sees it.

Let clients write each value once: then nothing is left to guess about unknown outcomes, and what a violation
tells is short.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from belvedere.sim.checkers.history import History, Kind, Operation, Outcome, Value
from belvedere.sim.checkers.search import GaveUpSearching, Move, can_be_ordered
from belvedere.sim.checkers.telling import Violation, shortest_telling

#: Places visited in one search. With five clients and 200 operations it takes a few hundred.
EFFORT = 100_000

# For each of the many searches that make a violation short.
_EFFORT_OF_TELLING = 5_000


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The search of this key took too long: nothing is known about it. All other keys are right."""

    key: str
    operations: int
    effort: int

    def __str__(self) -> str:
        return f"{self.key}: gave up on {self.operations} operations after {self.effort} places"


def check(
    history: History, *, initial: Mapping[str, Value] | None = None, effort: int = EFFORT
) -> Violation | GaveUp | None:
    """None if the history is linearizable; a violation if some key's is not, else the first key that was
    given up on. `initial` says what registers hold at the beginning, where it is not None."""
    gave_up: GaveUp | None = None
    for key, operations in history.by_key().items():
        value = (initial or {}).get(key)
        try:
            if not is_linearizable(operations, value, effort):
                return _violation(key, operations, value, effort)
        except GaveUpSearching:
            gave_up = gave_up or GaveUp(key, len(operations), effort)
    return gave_up


def is_linearizable(operations: Sequence[Operation], initial: Value = None, effort: int = EFFORT) -> bool:
    """Of one key. Raises GaveUpSearching."""
    moves = _moves(operations, initial)
    required = [move for move in moves if move.ended is not None]
    return can_be_ordered(required, [move for move in moves if move.ended is None], initial, effort)


def _violation(key: str, operations: Sequence[Operation], initial: Value, effort: int) -> Violation:
    def is_violation(part: Sequence[Operation]) -> bool:
        try:
            return not is_linearizable(part, initial, min(effort, _EFFORT_OF_TELLING))
        except GaveUpSearching:
            return False

    return Violation(key, initial, shortest_telling(operations, is_violation))


def _moves(operations: Sequence[Operation], initial: Value) -> list[Move]:
    """What the search has to order: without what tells nothing, with as few unknown ends as can be."""
    certain = [op for op in operations if op.outcome in (Outcome.DONE, Outcome.REFUSED)]
    unknown = [op for op in operations if op.outcome is Outcome.UNKNOWN and op.kind is not Kind.READ]
    unknown = _worth_trying(certain, unknown)
    seen_by = _first_ends(certain)
    writers: dict[Value, int] = {initial: 1}
    for op in certain + unknown:
        if op.may_have_written:
            writers[op.value] = writers.get(op.value, 0) + 1
    moves = []
    for op in certain + unknown:
        ended = op.ended if op.outcome is not Outcome.UNKNOWN else None
        if op.may_have_written and writers[op.value] == 1 and op.value in seen_by:
            # Nobody else can have written what was seen, so this one was carried out by then.
            seen = seen_by[op.value]
            if seen >= op.began:
                ended = seen if ended is None else min(ended, seen)
        moves.append(_move(op, ended))
    return moves


def _worth_trying(certain: Sequence[Operation], unknown: Sequence[Operation]) -> list[Operation]:
    """Those whose value somebody saw, or that lead to such a value."""
    if any(op.outcome is Outcome.REFUSED and op.seen is msgspec.UNSET for op in certain):
        # It saw something else than it expected, whatever it was.
        return list(unknown)
    seen = set(_first_ends(certain))
    tried: list[Operation] = []
    left = list(unknown)
    while found := [op for op in left if op.value in seen]:
        tried += found
        left = [op for op in left if op.value not in seen]
        seen.update(op.expected for op in found if op.kind is Kind.CAS)
    return tried


def _first_ends(certain: Sequence[Operation]) -> dict[Value, int]:
    """Of each value that was certainly seen, the end of the first operation that saw it."""
    ends: dict[Value, int] = {}
    for op in certain:
        seen = op.expected if op.kind is Kind.CAS and op.outcome is Outcome.DONE else op.seen
        if seen is not msgspec.UNSET and op.ended is not None:
            ends[seen] = min(op.ended, ends.get(seen, op.ended))
    return ends


def _move(op: Operation, ended: int | None) -> Move:
    if op.kind is Kind.READ:
        return Move(op.began, ended, needs=op.seen)
    if op.outcome is Outcome.REFUSED:
        return Move(op.began, ended, needs=op.seen, refuses=op.expected)
    if op.kind is Kind.CAS:
        return Move(op.began, ended, needs=op.expected, writes=op.value)
    return Move(op.began, ended, writes=op.value)
