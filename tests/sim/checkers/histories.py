"""Histories for tests: written down by hand, or drawn at random."""

import random
from collections.abc import Sequence

from hypothesis import strategies as st

from belvedere.sim.checkers.history import History, Kind, Operation, Outcome, Value

TOLD = {
    Kind.READ: (Outcome.DONE, Outcome.UNKNOWN, Outcome.FAILED),
    Kind.WRITE: (Outcome.DONE, Outcome.UNKNOWN, Outcome.FAILED),
    Kind.CAS: (Outcome.DONE, Outcome.REFUSED, Outcome.UNKNOWN, Outcome.FAILED),
}


def history_of(operations: Sequence[Operation]) -> History:
    history = History(lambda: 0)
    history.operations += sorted(operations, key=lambda op: op.began)
    return history


@st.composite
def small_histories(draw: st.DrawFn) -> list[Operation]:
    """Few operations on few values: most of them nearly right, many of them wrong."""
    count = draw(st.integers(1, 6))
    times = draw(st.permutations(range(2 * count)))
    values = st.sampled_from([None, 1, 2, 3])
    operations = []
    for number in range(count):
        began, ended = sorted(times[2 * number : 2 * number + 2])
        kind = draw(st.sampled_from(Kind))
        op = Operation(f"c{number}", "k", kind, began, outcome=draw(st.sampled_from(TOLD[kind])))
        if kind is not Kind.READ:
            op.value = draw(values)
        if kind is Kind.CAS:
            op.expected = draw(values)
        if op.outcome is not Outcome.UNKNOWN:
            op.ended = ended
        sees = kind is Kind.READ and op.outcome is Outcome.DONE
        if sees or (op.outcome is Outcome.REFUSED and draw(st.booleans())):
            op.seen = draw(values)
        operations.append(op)
    return operations


def correct_history(
    seed: int,
    *,
    clients: int,
    operations: int,
    unknown: float = 0.0,
    distinct: bool = True,
    key: str = "k",
) -> History:
    """What clients of one correct register could have been told. Each operation takes hold at a random moment
    of its own; some answers are lost, and what they asked for takes hold late, or never."""
    generator = random.Random(f"correct history {seed}")
    now = 0
    history = History(lambda: now)
    held: Value = None
    free = [f"c{number}" for number in range(clients)]
    begun: list[Operation] = []
    answers: list[tuple[Operation, bool, Value]] = []
    straying: list[Operation] = []
    count = 0
    while count < operations or begun or answers:
        now += generator.randint(1, 1000)
        choices = [1] * bool(count < operations and free) + [2] * bool(begun) + [3] * bool(answers)
        if straying and generator.random() < 0.05:
            held, _ = _carried_out(straying.pop(generator.randrange(len(straying))), held)
        match generator.choice(choices):
            case 1:
                client = free.pop(generator.randrange(len(free)))
                begun.append(_drawn(history, generator, client, key, held, count if distinct else None))
                count += 1
            case 2:
                op = begun.pop(generator.randrange(len(begun)))
                if generator.random() < unknown:
                    straying.append(op)
                    free.append(op.client)
                else:
                    seen = held
                    held, done = _carried_out(op, held)
                    answers.append((op, done, seen))
            case _:
                op, done, seen = answers.pop(generator.randrange(len(answers)))
                _told(history, op, done, seen)
                free.append(op.client)
    return history


def _drawn(
    history: History, generator: random.Random, client: str, key: str, held: Value, number: int | None
) -> Operation:
    value = generator.randint(0, 4) if number is None else number + 1
    kind = generator.random()
    if kind < 0.5:
        return history.read(client, key)
    if kind < 0.8:
        return history.write(client, key, value)
    return history.cas(client, key, held if generator.random() < 0.8 else generator.randint(0, 4), value)


def _carried_out(op: Operation, held: Value) -> tuple[Value, bool]:
    if op.kind is Kind.WRITE or (op.kind is Kind.CAS and op.expected == held):
        return op.value, True
    return held, False


def _told(history: History, op: Operation, done: bool, seen: Value) -> None:
    if op.kind is Kind.READ:
        history.found(op, seen)
    elif done:
        history.done(op)
    else:
        history.refused(op, seen)
