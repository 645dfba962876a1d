"""The linearizability checker against the definition, violations by hand, unknown outcomes, planted bugs."""

import re
import time

import msgspec
import pytest
from hypothesis import given, settings

from belvedere.sim.checkers.history import History, Kind, Operation, Outcome, Value
from belvedere.sim.checkers.linearizability import GaveUp, check, is_linearizable
from belvedere.sim.checkers.telling import Violation
from belvedere.sim.world import World
from tests.sim.checkers import brute_force
from tests.sim.checkers.histories import correct_history, history_of, small_histories
from tests.sim.checkers.toy_store import BUGS, run_clients


class Tick:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 1000
        return self.now


@pytest.fixture
def history() -> History:
    return History(Tick())


def wrote(history: History, client: str, value: Value) -> Operation:
    op = history.write(client, "k", value)
    history.done(op)
    return op


def read(history: History, client: str, value: Value) -> Operation:
    op = history.read(client, "k")
    history.found(op, value)
    return op


def violation(history: History) -> Violation:
    found = check(history)
    assert isinstance(found, Violation), found
    # Whatever is told is a contradiction by itself, and no more than one.
    told = list(found.operations)
    assert not brute_force.is_linearizable(told)
    return found


# ----------------------------------------------------------------------------------------- the definition


@settings(max_examples=1500, deadline=None)
@given(small_histories())
def test_agrees_with_the_definition(operations: list[Operation]) -> None:
    expected = brute_force.is_linearizable(operations)
    assert is_linearizable(operations) is expected
    found = check(history_of(operations))
    assert (found is None) is expected
    if found is not None:
        assert isinstance(found, Violation)
        assert not brute_force.is_linearizable(found.operations)


@settings(max_examples=300, deadline=None)
@given(small_histories())
def test_a_register_may_begin_with_a_value(operations: list[Operation]) -> None:
    assert is_linearizable(operations, 2) is brute_force.is_linearizable(operations, 2)
    assert (check(history_of(operations), initial={"k": 2}) is None) is is_linearizable(operations, 2)


@pytest.mark.parametrize("distinct", [True, False])
@pytest.mark.parametrize("unknown", [0.0, 0.05, 0.3])
def test_what_a_correct_register_tells_is_accepted(distinct: bool, unknown: float) -> None:
    for seed in range(60):
        history = correct_history(seed, clients=4, operations=60, unknown=unknown, distinct=distinct)
        assert check(history) is None, seed


def test_one_changed_answer_is_found_unless_it_could_be_so() -> None:
    found = 0
    for seed in range(100):
        history = correct_history(seed, clients=3, operations=6, unknown=0.2)
        reads = [op for op in history.operations if op.kind is Kind.READ and op.outcome is Outcome.DONE]
        if not reads:
            continue
        reads[-1].seen = 1 if reads[-1].seen != 1 else None
        expected = brute_force.is_linearizable(history.operations)
        assert (check(history) is None) is expected, seed
        found += not expected
    assert found > 50


# ---------------------------------------------------------------------------------------------- by hand


def test_a_stale_read(history: History) -> None:
    wrote(history, "a", 1)
    wrote(history, "a", 2)
    read(history, "b", 1)
    assert [op.describe() for op in violation(history).operations] == ["write 1", "write 2", "read 1"]


def test_two_reads_of_concurrent_clients_disagree(history: History) -> None:
    first, second = history.write("a", "k", 1), history.write("b", "k", 2)
    read(history, "c", 1)
    read(history, "c", 2)
    read(history, "d", 1)
    history.done(first)
    history.done(second)
    assert len(violation(history).operations) == 5


def test_a_lost_update(history: History) -> None:
    wrote(history, "a", 1)
    first, second = history.cas("a", "k", 1, 2), history.cas("b", "k", 1, 3)
    history.done(first)
    history.done(second)
    told = [op.describe() for op in violation(history).operations]
    assert told == ["cas 1 → 2", "cas 1 → 3"] or told == ["write 1", "cas 1 → 2", "cas 1 → 3"]


def test_a_condition_refused_though_it_held(history: History) -> None:
    wrote(history, "a", 1)
    op = history.cas("b", "k", 1, 2)
    history.refused(op)
    assert len(violation(history).operations) == 2


def test_a_condition_refused_for_a_value_that_was_gone(history: History) -> None:
    wrote(history, "a", 1)
    wrote(history, "a", 2)
    history.refused(history.cas("b", "k", 5, 6), 1)
    assert len(violation(history).operations) == 3


def test_what_certainly_failed_must_not_be_read(history: History) -> None:
    wrote(history, "a", 1)
    history.failed(history.write("a", "k", 2))
    read(history, "b", 2)
    assert [op.describe() for op in violation(history).operations] == ["write 2 failed", "read 2"]


def test_a_read_of_what_was_never_written(history: History) -> None:
    wrote(history, "a", 1)
    read(history, "b", 7)
    assert [op.describe() for op in violation(history).operations] == ["read 7"]


def test_operations_that_touch_are_concurrent() -> None:
    write = Operation("a", "k", Kind.WRITE, 10, 1, ended=20, outcome=Outcome.DONE)
    read = Operation("b", "k", Kind.READ, 20, ended=30, outcome=Outcome.DONE, seen=None)
    assert check(history_of([write, read])) is None
    read.began = 21
    assert check(history_of([write, read])) is not None


# -------------------------------------------------------------------------------------- unknown outcomes


def test_an_unknown_write_may_land_late_or_never(history: History) -> None:
    history.write("a", "k", 1)
    wrote(history, "b", 2)
    read(history, "c", 2)
    assert check(history) is None
    read(history, "c", 1)
    assert check(history) is None
    read(history, "c", 2)
    assert len(violation(history).operations) == 4


def test_an_unknown_write_does_not_land_before_it_began(history: History) -> None:
    read(history, "c", 1)
    history.write("a", "k", 1)
    assert len(violation(history).operations) == 1


def test_an_unknown_condition_may_apply_once(history: History) -> None:
    wrote(history, "a", 1)
    history.cas("a", "k", 1, 2)
    read(history, "b", 1)
    read(history, "b", 2)
    assert check(history) is None
    wrote(history, "a", 1)
    read(history, "b", 2)
    violation(history)


def test_unknown_writes_may_explain_each_other(history: History) -> None:
    history.write("a", "k", 1)
    history.cas("b", "k", 1, 2)
    history.cas("c", "k", 2, 3)
    read(history, "d", 3)
    assert check(history) is None


def test_a_condition_refused_by_an_unknown_write_that_nobody_read(history: History) -> None:
    wrote(history, "a", 1)
    history.write("b", "k", 9)
    op = history.cas("c", "k", 1, 2)
    history.refused(op)
    assert check(history) is None


# ----------------------------------------------------------------------------------------- the toy store


def toy_history(seed: int, bug: str | None) -> History:
    world = World(seed)
    history, _ = world.run(lambda world: run_clients(world, bug))
    world.check_no_failures()
    return history


def test_a_store_without_bugs_is_linearizable() -> None:
    unknown = 0
    for seed in range(200):
        history = toy_history(seed, None)
        assert check(history) is None, seed
        unknown += sum(op.outcome is Outcome.UNKNOWN for op in history.operations)
    assert unknown > 1000


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str) -> None:
    found = [seed for seed in range(100) if isinstance(check(toy_history(seed, bug)), Violation)]
    assert found, bug


def test_what_is_told_is_the_same_in_every_run() -> None:
    def told() -> list[str]:
        return [str(check(toy_history(seed, BUGS[0]))) for seed in range(10)]

    assert told() == told()


# ---------------------------------------------------------------------------------------- effort and text


def test_gives_up_rather_than_search_for_ever() -> None:
    history = correct_history(1, clients=5, operations=100, unknown=0.1, distinct=False)
    found = check(history, effort=3)
    assert isinstance(found, GaveUp)
    assert str(found) == "k: gave up on 100 operations after 3 places"


def test_a_violation_of_one_key_is_told_though_another_was_given_up_on() -> None:
    history = correct_history(1, clients=5, operations=100, unknown=0.1, distinct=False)
    op = Operation("z", "other", Kind.READ, 1, ended=2, outcome=Outcome.DONE, seen=5)
    history.operations.append(op)
    found = check(history, effort=3)
    assert isinstance(found, Violation)
    assert found.key == "other"


def test_many_operations_are_checked_fast() -> None:
    begun = time.process_time()
    for seed in range(10):
        assert check(correct_history(seed, clients=5, operations=200, unknown=0.02)) is None
    # Some 10 ms each; this much only where something is badly wrong.
    assert time.process_time() - begun < 5


def test_a_violation_in_a_long_history_is_told_in_a_few_lines() -> None:
    history = correct_history(3, clients=5, operations=200, unknown=0.05)
    stale = history.read("late", "k")
    history.found(stale, 1)
    found = violation(history)
    assert len(found.operations) <= 4
    text = str(found)
    assert text.startswith("k: no order of these operations explains their results\n")
    assert re.search(r"late +├─+┤ +read 1  \(\d\.\d{6} s to \d\.\d{6} s\)", text), text


def test_how_a_violation_is_drawn(history: History) -> None:
    slow = history.write("a", "k", 1)
    wrote(history, "bb", "two")
    read(history, "c", 1)
    read(history, "c", None)
    history.done(slow)
    text = str(Violation("k", 0, history.operations))
    assert text.splitlines() == [
        "k: no order of these operations explains their results, beginning with 0",
        "  a   ├────────────────────┤  write 1  (0.000001 s to 0.000008 s)",
        "  bb     ├──┤                 write 'two'  (0.000002 s to 0.000003 s)",
        "  c            ├──┤           read 1  (0.000004 s to 0.000005 s)",
        "  c                  ├──┤     read None  (0.000006 s to 0.000007 s)",
    ]


# ------------------------------------------------------------------------------------ histories as such


def test_histories_of_several_processes_are_put_together() -> None:
    first, second = History(Tick()), History(Tick())
    wrote(first, "a", "x")
    first.write("a", "k", None)
    history = first
    history.refused(history.cas("a", "k", None, 3))
    read(second, "b", "x")
    merged = History.merged([first.to_lines(), second.to_lines()])
    assert [(op.began, op.client) for op in merged.operations] == [
        (1000, "a"),
        (1000, "b"),
        (3000, "a"),
        (4000, "a"),
    ]
    lines = sorted(op.describe() for op in merged.operations)
    assert lines == sorted(op.describe() for op in first.operations + second.operations)
    assert msgspec.UNSET in [op.seen for op in merged.operations]
    with pytest.raises(RuntimeError, match="cannot be continued"):
        merged.read("a", "k")


def test_what_happens_within_one_tick_keeps_its_order() -> None:
    history = History(lambda: 7)
    wrote(history, "a", 1)
    read(history, "a", None)
    assert check(history) is not None
