"""Durability and monotonic reads: by hand, on correct histories, and with bugs planted in the toy store."""

import pytest

from belvedere.sim.checkers.history import History, Operation, Value
from belvedere.sim.checkers.registers import LostWrite, check_durability, check_monotonic_reads
from belvedere.sim.world import World
from tests.sim.checkers.histories import correct_history
from tests.sim.checkers.toy_store import run_clients


@pytest.fixture
def history() -> History:
    return History(lambda: 0)


def wrote(history: History, value: Value, client: str = "a") -> Operation:
    op = history.write(client, "k", value)
    history.done(op)
    return op


def read(history: History, value: Value, client: str = "a") -> None:
    history.found(history.read(client, "k"), value)


def lost(history: History, found: Value) -> LostWrite:
    result = check_durability(history, {"k": found})
    assert result is not None
    return result


# --------------------------------------------------------------------------------------------- durability


def test_the_last_acknowledged_write_must_be_there(history: History) -> None:
    first, second = wrote(history, 1), wrote(history, 2)
    assert check_durability(history, {"k": 2}) is None
    assert lost(history, 1).lost is second
    assert lost(history, 1).writers == [first]
    assert lost(history, None).lost is second
    assert lost(history, 3).lost is None


def test_any_of_several_concurrent_writes_may_be_there(history: History) -> None:
    slow = history.write("a", "k", 1)
    wrote(history, 2, "b")
    wrote(history, 3, "b")
    history.done(slow)
    assert check_durability(history, {"k": 1}) is None
    assert check_durability(history, {"k": 3}) is None
    assert lost(history, 2).lost is not None


def test_an_unknown_write_may_be_there_or_not(history: History) -> None:
    history.write("a", "k", 1)
    wrote(history, 2)
    assert check_durability(history, {"k": 1}) is None
    assert check_durability(history, {"k": 2}) is None
    assert check_durability(history, {}) is None


def test_deletions_and_conditions_are_writes(history: History) -> None:
    wrote(history, 1)
    history.done(history.cas("a", "k", 1, 2))
    assert lost(history, 1).lost is history.operations[1]
    history.refused(history.cas("a", "k", 1, 3), 2)
    assert lost(history, 3).lost is None
    wrote(history, None)
    assert check_durability(history, {"k": None}) is None
    assert lost(history, 2).lost is history.operations[3]


def test_what_certainly_failed_must_not_be_there(history: History) -> None:
    history.failed(history.write("a", "k", 1))
    assert check_durability(history, {"k": None}) is None
    text = str(lost(history, 1))
    assert text.startswith("k: holds 1, which nobody can have written\n")
    assert "write 1 failed" in text


def test_a_register_may_have_begun_with_a_value(history: History) -> None:
    assert check_durability(history, {"k": 5}, initial={"k": 5}) is None
    assert lost(history, 5).lost is None
    wrote(history, 6)
    assert check_durability(history, {"k": 5}, initial={"k": 5}) is not None


def test_it_tells_what_replaced_what(history: History) -> None:
    wrote(history, 1)
    wrote(history, 2, "b")
    assert str(lost(history, 1)).splitlines() == [
        "k: holds 1, though b was told later that it holds 2",
        "  a  ├──┤        write 1  (0.000000 s to 0.000000 s)",
        "  b        ├──┤  write 2  (0.000000 s to 0.000000 s)",
    ]


# ---------------------------------------------------------------------------------------- monotonic reads


def test_a_client_must_not_go_back_to_an_older_write(history: History) -> None:
    wrote(history, 1, "w")
    wrote(history, 2, "w")
    read(history, 1, "b")
    assert check_monotonic_reads(history) is None
    read(history, 2, "a")
    assert check_monotonic_reads(history) is None
    read(history, 1, "a")
    back = check_monotonic_reads(history)
    assert back is not None
    assert str(back).startswith("k: went back to an older write\n")


def test_a_client_must_not_see_again_what_was_there_before_anything(history: History) -> None:
    read(history, None)
    wrote(history, 1, "w")
    read(history, 1)
    assert check_monotonic_reads(history) is None
    read(history, None)
    assert check_monotonic_reads(history) is not None
    # If somebody may have deleted it, it is another matter.
    history.write("w", "k", None)
    assert check_monotonic_reads(history) is None


def test_concurrent_writes_come_in_one_order_for_a_client(history: History) -> None:
    history.write("v", "k", 1)
    history.write("w", "k", 2)
    for client, values in {"a": (1, 2), "b": (2, 1)}.items():
        for value in values:
            read(history, value, client)
    assert check_monotonic_reads(history) is None
    read(history, 1, "a")
    back = check_monotonic_reads(history)
    assert back is not None
    assert [op.describe() for op in back.operations] == ["read 1", "read 2", "read 1"]


def test_values_that_several_wrote_say_nothing(history: History) -> None:
    wrote(history, 1, "w")
    wrote(history, 2, "w")
    read(history, 2)
    history.write("w", "k", 1)
    read(history, 1)
    assert check_monotonic_reads(history) is None


def test_a_value_that_was_there_at_the_beginning_says_nothing(history: History) -> None:
    read(history, 0)
    wrote(history, 1, "w")
    wrote(history, 0, "w")
    read(history, 1)
    assert check_monotonic_reads(history, initial={"k": 0}) is None


def test_own_writes_only_when_asked_for(history: History) -> None:
    wrote(history, 1)
    wrote(history, 2)
    read(history, 1)
    assert check_monotonic_reads(history) is None
    assert check_monotonic_reads(history, own_writes=True) is not None


def test_a_correct_register_passes() -> None:
    for seed in range(100):
        history = correct_history(seed, clients=4, operations=60, unknown=0.1)
        assert check_monotonic_reads(history, own_writes=True) is None, seed


# ------------------------------------------------------------------------------------------ the toy store


def test_a_store_without_bugs_keeps_what_it_acknowledged() -> None:
    for seed in range(100):
        history, held = World(seed).run(lambda world: run_clients(world, None))
        assert check_durability(history, held) is None, seed
        assert check_monotonic_reads(history, own_writes=True) is None, seed


def test_writes_that_are_lost_are_found() -> None:
    found = 0
    for seed in range(100):
        history, held = World(seed).run(lambda world: run_clients(world, "acknowledges before it is durable"))
        found += check_durability(history, held) is not None
    assert found


def test_reads_of_a_copy_that_lags_are_found() -> None:
    found = 0
    for seed in range(20):
        history, _ = World(seed).run(lambda world: run_clients(world, "reads a copy that lags"))
        found += check_monotonic_reads(history) is not None
    assert found
