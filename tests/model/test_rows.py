"""Merging rows is commutative, associative and idempotent, and agrees with a dumb model of cells."""

from hypothesis import given
from hypothesis import strategies as st

from belvedere.model.rows import (
    AnyCell,
    Cell,
    Complex,
    Deletion,
    Row,
    cut,
    merge_rows,
    newest_timestamp,
    visible,
)

stamps = st.integers(1, 4)
deletions = st.none() | st.tuples(stamps, st.integers(10, 11))
values = st.sampled_from([b"", b"a", b"b"])


@st.composite
def cells(draw: st.DrawFn) -> Cell:
    timestamp = draw(stamps)
    kind = draw(st.sampled_from(["live", "ttl", "tombstone"]))
    if kind == "tombstone":
        return (None, timestamp, 0, draw(st.integers(10, 12)))
    if kind == "ttl":
        return (draw(values), timestamp, 5, draw(st.integers(15, 17)))
    return (draw(values), timestamp, 0, 0)


@st.composite
def complexes(draw: st.DrawFn) -> Complex:
    items = draw(st.dictionaries(st.sampled_from([b"x", b"y"]), cells(), max_size=2))
    deletion = draw(deletions)
    if deletion is not None:
        items = {path: cell for path, cell in items.items() if cell[1] > deletion[0]}
    return Complex(deletion, items)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """Two plain columns and a collection, none older than the row's own deletion, as writers make them."""
    ttl = draw(st.sampled_from([0, 0, 5]))
    row = Row(
        draw(stamps),
        ttl,
        draw(st.integers(15, 17)) if ttl else 0,
        draw(st.booleans()),
        None,
        [
            draw(st.none() | values | cells()),
            draw(st.none() | values | cells()),
            draw(st.none() | complexes()),
        ],
    )
    deletion = draw(deletions)
    if deletion is None:
        return row
    remaining = cut(row, deletion)
    if remaining is None:
        gone: list[AnyCell] = draw(st.sampled_from([[None, None, None], []]))
        return Row(row.timestamp, row.ttl, row.expiry, False, deletion, gone)
    return Row(row.timestamp, row.ttl, row.expiry, remaining.live, deletion, remaining.cells)


def spelled_out(row: Row) -> object:
    """What a row says, free of how it is represented."""

    def cell(any_cell: AnyCell) -> object:
        if any_cell is None:
            return None
        if isinstance(any_cell, Complex):
            if any_cell.deletion is None and not any_cell.items:
                return None
            return (any_cell.deletion, sorted(any_cell.items.items()))
        if isinstance(any_cell, bytes):
            return (any_cell, row.timestamp, row.ttl, row.expiry)
        return any_cell

    live = (row.timestamp, row.ttl, row.expiry) if row.live else None
    spelled = [cell(any_cell) for any_cell in row.cells]
    return (live, row.deletion, spelled + [None] * (3 - len(spelled)))


@given(rows(), rows())
def test_merge_is_commutative(a: Row, b: Row) -> None:
    assert spelled_out(merge_rows(a, b)) == spelled_out(merge_rows(b, a))


@given(rows(), rows(), rows())
def test_merge_is_associative(a: Row, b: Row, c: Row) -> None:
    left = merge_rows(merge_rows(a, b), c)
    right = merge_rows(a, merge_rows(b, c))
    assert spelled_out(left) == spelled_out(right)


@given(rows())
def test_merge_is_idempotent(a: Row) -> None:
    assert spelled_out(merge_rows(a, a)) == spelled_out(a)


@given(rows(), rows())
def test_merge_against_a_model_of_single_cells(a: Row, b: Row) -> None:
    """Each plain column on its own: the surviving write is the largest not deleted."""
    merged = merge_rows(a, b)
    floor = max((row.deletion[0] for row in (a, b) if row.deletion), default=0)
    for column in (0, 1):
        written = [
            found
            for row in (a, b)
            if (found := spelled_out(row)[2][column]) is not None  # type: ignore[index]
        ]
        candidates = [found for found in written if found[1] > floor]
        expected = max(
            candidates,
            key=lambda found: (found[1], found[0] is None, found[2] > 0, found[3], found[0] or b""),
            default=None,
        )
        assert spelled_out(merged)[2][column] == expected  # type: ignore[index]


@given(rows(), rows(), st.tuples(stamps, st.just(10)))
def test_cutting_before_or_after_merging_is_the_same(a: Row, b: Row, deletion: Deletion) -> None:
    def after(row: Row | None) -> object:
        return None if row is None else spelled_out(row)

    cut_a, cut_b = cut(a, deletion), cut(b, deletion)
    if cut_a is None or cut_b is None:
        first = cut_a or cut_b
    else:
        first = merge_rows(cut_a, cut_b)
    assert after(first) == after(cut(merge_rows(a, b), deletion))


@given(rows(), st.integers(9, 20))
def test_visible_shows_no_tombstone_and_nothing_expired(row: Row, now: int) -> None:
    seen = visible(row, now)
    if seen is None:
        return
    assert seen.deletion is None
    assert seen.live or any(cell is not None for cell in seen.cells)
    for cell in seen.cells:
        plain = list(cell.items.values()) if isinstance(cell, Complex) else [cell]
        for one in plain:
            if isinstance(one, tuple):
                assert one[0] is not None
                assert not one[2] or one[3] > now
            elif one is not None:
                assert not row.ttl or row.expiry > now


@given(rows(), rows())
def test_newest_timestamp_of_a_merge_is_the_larger_one(a: Row, b: Row) -> None:
    merged = merge_rows(a, b)
    assert newest_timestamp(merged) == max(newest_timestamp(a), newest_timestamp(b))
