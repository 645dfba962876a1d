"""Linearizability straight from its definition: all orders of all choices of unknown operations."""

import itertools
from collections.abc import Iterator, Sequence

import msgspec

from belvedere.sim.checkers.history import Kind, Operation, Outcome, Value


def is_linearizable(operations: Sequence[Operation], initial: Value = None) -> bool:
    happened = [op for op in operations if op.outcome in (Outcome.DONE, Outcome.REFUSED)]
    unknown = [op for op in operations if op.outcome is Outcome.UNKNOWN]
    return any(
        explains(order, initial)
        for count in range(len(unknown) + 1)
        for chosen in itertools.combinations(unknown, count)
        for order in orders([*happened, *chosen])
    )


def orders(operations: list[Operation]) -> Iterator[tuple[Operation, ...]]:
    for order in itertools.permutations(operations):
        pairs = itertools.combinations(order, 2)
        if not any(second.ended is not None and second.ended < first.began for first, second in pairs):
            yield order


def explains(order: Sequence[Operation], held: Value) -> bool:
    for op in order:
        carried_out = op.kind is Kind.WRITE or (op.kind is Kind.CAS and held == op.expected)
        if op.kind is Kind.CAS and op.outcome is Outcome.DONE and not carried_out:
            return False
        if op.outcome is Outcome.REFUSED and carried_out:
            return False
        if op.seen is not msgspec.UNSET and op.seen != held:
            return False
        if carried_out:
            held = op.value
    return True
