"""The tail of a log against a plain list."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.cluster.tail import Tail
from belvedere.model.positions import NOWHERE, Position, Record


def records_at(steps: list[tuple[bool, int]]) -> list[Record]:
    """Each step: whether a new epoch begins, and by how much the version grows."""
    found: list[Record] = []
    last = NOWHERE
    for new_epoch, more in steps:
        position = Position(max(1, last.epoch + new_epoch), last.version + more)
        found.append(Record(position, last, b"%d" % len(found)))
        last = position
    return found


histories = st.lists(st.tuples(st.booleans(), st.integers(1, 5)), max_size=12).map(records_at)
somewhere = st.builds(Position, st.integers(0, 8), st.integers(0, 40))


@given(histories, somewhere, st.integers(0, 12), st.integers(1, 5), st.integers(0, 4))
def test_it_answers_as_a_list_would(
    records: list[Record], position: Position, forgotten: int, limit: int, keep: int
) -> None:
    tail = Tail(NOWHERE, records)
    if records:
        upto = records[min(forgotten, len(records) - 1)].position
        tail.forget(upto, keep)
        dropped = [one for one in records if one.position <= upto][: max(0, len(records) - keep)]
    else:
        dropped = []
    held = records[len(dropped) :]
    base = dropped[-1].position if dropped else NOWHERE
    positions = [base, *(record.position for record in held)]
    assert (tail.base, tail.last, len(tail)) == (base, positions[-1], len(held))
    assert (position in tail) == (position in positions)
    assert tail.floor(position) == max([base, *(one for one in positions if one <= position)])
    later = [record for record in held if record.position > position]
    assert tail.after(position, limit) == tuple(later[:limit])
    assert tail.count_after(position) == len(later)
    tail.cut(position)
    kept = [record for record in held if record.position <= position]
    assert tail.last == (kept[-1].position if kept else base)
    assert tail.after(base, 100) == tuple(kept)


@given(histories)
def test_only_what_follows_is_taken(records: list[Record]) -> None:
    tail = Tail(NOWHERE, records)
    with pytest.raises(AssertionError):
        tail.append(Record(Position(99, 99), Position(98, 98), b""))
    if len(records) > 1:
        with pytest.raises(AssertionError):
            tail.append(records[-1])
