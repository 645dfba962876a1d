"""That judging chaos runs finds what it is for: each violation is planted in a record that is right."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest

from belvedere.sim.checkers.history import History, Kind, Operation, Outcome
from tests.cluster.chaos import schema
from tests.cluster.chaos.judging import judged
from tests.cluster.chaos.nemesis import ALL, ONE, STORE, drawn
from tests.cluster.chaos.recording import Contents, LifeTold, Record, Trouble

PLAIN, CONDITIONAL = "registers/0.1", "conditional/0.1"
LEFT, RIGHT, COUNTER = "left/0.1", "right/0.1", "counters/0.1"


def right_record() -> Record:
    """What three clients were told by a cluster that does one thing at a time."""
    clock = iter(range(10**9))
    history = History(lambda: 10 * next(clock))

    def wrote(client: str, name: str, value: int | None) -> None:
        history.done(history.write(client, name, value))

    def read(client: str, name: str, value: int | None) -> None:
        history.found(history.read(client, name), value)

    for number in range(1, 6):
        wrote("a", PLAIN, 100 + number)
        read("b", PLAIN, 100 + number)
        read("c", schema.WEAK + PLAIN, 100 + max(1, number - 1))
    history.write("c", PLAIN, 300)  # Nobody was told, and it never was.
    history.failed(history.write("c", PLAIN, 301))
    expected = None
    for number in range(1, 5):
        history.done(history.cas("a", CONDITIONAL, expected, 200 + number))
        history.refused(history.cas("b", CONDITIONAL, expected, 400 + number), 200 + number)
        expected = 200 + number
        read("c", CONDITIONAL, expected)
    for number in (501, 502):
        both = [history.write("a", LEFT, number), history.write("a", RIGHT, number)]
        for one in both:
            history.done(one)
        read("b", RIGHT, number)
    items = []
    for shelf, size in ((0, 701), (1, 702), (2, 707)):
        wrote("a", schema.item(shelf, 1), size - 70)
        wrote("a", schema.item(shelf, 1), size)
        items.append((shelf, 1, schema.place_of(size), size))
    for _ in range(3):
        wrote("b", COUNTER, 1)
    history.write("b", COUNTER, 1)
    ends = 10 * next(clock)
    contents = [
        Contents(
            node,
            "QUORUM",
            ends + 10 * number + 1,
            ends + 10 * number + 9,
            registers={PLAIN: 105, CONDITIONAL: 204, LEFT: 502, RIGHT: 502}
            | {schema.item(shelf, 1): size for shelf, _, _, size in items},
            counters={COUNTER: 4},
            items=list(items),
            views={"by_place": [row for row in items if row[2] is not None], "by_size": list(items)},
        )
        for number, node in enumerate(("n1", "n2", "n3"))
    ]
    troubles = [Trouble("c", 5, "WriteTimeout", "", True)]
    lives = [
        LifeTold("n1", -9, True, False, ["2026-01-01T00:00:00.000Z warning lease.lost lease=7"]),
        LifeTold("n1", 0, False, True, []),
    ]
    return Record(history, troubles, contents, lives)


def of(record: Record, name: str, kind: Kind) -> list[Operation]:
    return [one for one in record.history.operations if one.key == name and one.kind is kind]


def lose_the_last_write(record: Record) -> None:
    for one in record.contents:
        one.registers[PLAIN] = 104


def lose_a_register(record: Record) -> None:
    for one in record.contents:
        del one.registers[PLAIN]


def lose_it_on_one_node(record: Record) -> None:
    record.contents[2].registers[CONDITIONAL] = 203


def read_what_was_replaced(record: Record) -> None:
    of(record, PLAIN, Kind.READ)[3].seen = 102


def read_what_was_refused(record: Record) -> None:
    of(record, PLAIN, Kind.READ)[4].seen = 301


def let_two_swaps_from_the_same_value_succeed(record: Record) -> None:
    of(record, CONDITIONAL, Kind.CAS)[3].outcome = Outcome.DONE


def let_two_claims_succeed(record: Record) -> None:
    of(record, CONDITIONAL, Kind.CAS)[1].outcome = Outcome.DONE


def refuse_for_a_value_that_it_had_left(record: Record) -> None:
    of(record, CONDITIONAL, Kind.CAS)[5].seen = 201


def tear_a_batch(record: Record) -> None:
    unfinished = [Operation("c", side, Kind.WRITE, 10**8, value=503) for side in (LEFT, RIGHT)]
    record.history.operations += unfinished
    for one in record.contents:
        one.registers[LEFT] = 503


def leave_half_of_a_row(record: Record) -> None:
    for one in record.contents:
        one.items[0] = (0, 1, "p3", 701)
        one.views["by_place"][0] = one.views["by_size"][0] = one.items[0]


def lose_a_view_row(record: Record) -> None:
    del record.contents[0].views["by_size"][1]


def orphan_a_view_row(record: Record) -> None:
    record.contents[1].views["by_place"].append((0, 1, schema.place_of(631), 631))


def change_a_view_row(record: Record) -> None:
    record.contents[2].views["by_place"][0] = (0, 1, "p1", 708)


def double_a_view_row(record: Record) -> None:
    record.contents[2].views["by_size"] *= 2


def lose_an_increment(record: Record) -> None:
    for one in record.contents:
        one.counters[COUNTER] = 2


def count_twice(record: Record) -> None:
    for one in record.contents:
        one.counters[COUNTER] = 5


def show_one_what_was_never_written(record: Record) -> None:
    of(record, schema.WEAK + PLAIN, Kind.READ)[1].seen = 301


def say_something_unexpected(record: Record) -> None:
    record.troubles.append(Trouble("a", 7, "ServerError", "the unexpected", False))


def complain(record: Record) -> None:
    record.lives[1].log.append("2026-01-01T00:00:00.000Z error task.failed name=replica")


def end_by_itself(record: Record) -> None:
    record.lives[1].status = 1


def find_no_rest(record: Record) -> None:
    record.failures.append("no rest within 60 s")


PLANTED: dict[Callable[[Record], None], str] = {
    lose_the_last_write: "registers/0.1: no order",
    lose_a_register: "registers/0.1: no order",
    lose_it_on_one_node: "conditional/0.1: no order",
    read_what_was_replaced: "registers/0.1: no order",
    read_what_was_refused: "registers/0.1: no order",
    let_two_swaps_from_the_same_value_succeed: "conditional/0.1: no order",
    let_two_claims_succeed: "conditional/0.1: no order",
    refuse_for_a_value_that_it_had_left: "conditional/0.1: no order",
    tear_a_batch: "a batch was torn: left/0.1 holds 503, right 502",
    leave_half_of_a_row: "half of a write",
    lose_a_view_row: "view by_size: (1, 1, 'p2', 702) is missing",
    orphan_a_view_row: "view by_place: (0, 1, 'p1', 631) should not be there",
    change_a_view_row: "view by_place: (0, 1, 'p1', 708) should not be there",
    double_a_view_row: "3 rows are there twice",
    lose_an_increment: "was counted 3 to 4 times",
    count_twice: "was counted 3 to 4 times",
    show_one_what_was_never_written: "nobody can have written",
    say_something_unexpected: "a was told ServerError: the unexpected",
    complain: "n1 said: 2026-01-01T00:00:00.000Z error task.failed",
    end_by_itself: "ended with 1, not 0",
    find_no_rest: "no rest within 60 s",
}


def test_what_is_right_is_found_right(tmp_path: Path) -> None:
    record = right_record()
    verdict = judged(record)
    assert not verdict.findings
    assert verdict.undecided == 0
    assert verdict.unknown == 2
    # And so it is when it was written to files and read again.
    record.save(tmp_path)
    again = judged(Record.load(tmp_path))
    assert (again.findings, again.acknowledged) == ([], verdict.acknowledged)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__.replace("_", " "))
def test_a_planted_violation_is_found(plant: Callable[[Record], None], tmp_path: Path) -> None:
    record = copy.deepcopy(right_record())
    plant(record)
    findings = judged(record).findings
    assert any(PLANTED[plant] in finding for finding in findings), findings
    record.save(tmp_path)
    assert judged(Record.load(tmp_path)).findings == findings


def test_the_nemesis_is_drawn_from_its_seed() -> None:
    plans = [drawn(seed, 60, 3, 2.0, with_store=True) for seed in range(20)]
    assert plans == [drawn(seed, 60, 3, 2.0, with_store=True) for seed in range(20)]
    assert {fault.kind for plan in plans for fault in plan} == ONE.keys() | ALL.keys() | STORE.keys()
    assert not [fault for seed in range(20) for fault in drawn(seed, 60, 3, 2.0) if fault.kind in STORE]
    assert {fault.node for plan in plans for fault in plan} == {0, 1, 2, 3}
    for plan in plans:
        assert 60 <= sum(fault.lasts + fault.calm for fault in plan) < 75
        assert all((fault.node == 0) == (fault.kind not in ONE) for fault in plan)
