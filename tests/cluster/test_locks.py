"""Keys that one at a time has."""

from belvedere.cluster.locks import KeyLocks

KEY = b"k"


def test_first_come_first_served() -> None:
    locks, got = KeyLocks(), []
    for number in range(3):
        locks.take(KEY, lambda number=number: got.append(number))  # type: ignore[misc]
    assert got == [0]
    locks.release(KEY)
    locks.release(KEY)
    assert got == [0, 1, 2]
    assert locks.is_held(KEY)
    locks.release(KEY)
    assert not locks.any_held


def test_thousands_that_let_go_at_once() -> None:
    locks, got = KeyLocks(), []

    def turn() -> None:
        got.append(1)
        locks.release(KEY)

    locks.take(KEY, lambda: None)
    for _ in range(5000):
        locks.take(KEY, turn)
    locks.release(KEY)
    assert len(got) == 5000
    assert not locks.any_held


def test_one_that_keeps_it_in_between() -> None:
    locks, got = KeyLocks(), []
    locks.take(KEY, lambda: None)
    locks.take(KEY, lambda: (got.append("passes"), locks.release(KEY)))  # type: ignore[arg-type, func-returns-value]
    locks.take(KEY, lambda: got.append("keeps"))
    locks.take(KEY, lambda: got.append("last"))
    locks.release(KEY)
    assert got == ["passes", "keeps"]
    locks.release(KEY)
    assert got == ["passes", "keeps", "last"]


def test_whoever_fails_with_a_key_leaves_the_others_their_turn() -> None:
    locks, got = KeyLocks(), []

    def fails() -> None:
        raise ValueError

    locks.take(KEY, lambda: None)
    locks.take(KEY, fails)
    locks.take(KEY, lambda: got.append("next"))
    try:
        locks.release(KEY)
    except ValueError:
        locks.release(KEY)
    assert got == ["next"]
