"""Write times that a node chose for a client that gave none.

Clocks of nodes differ. If their times stood as they were chosen, a write could be ordered, acknowledged, and
lose against an older one. So the primary moves them: later than all that it has ordered. What it orders later
is later than they are, too, however far ahead of its own clock that of the node is. Times that a client gave
stay as they are.
"""

from collections.abc import Callable, Iterator

import msgspec

from belvedere.model.mutations import Mutation, RangeDeletion
from belvedere.model.rows import NO_TIMESTAMP, AnyCell, Cell, Complex, Deletion, Row


class Chosen(msgspec.Struct, array_like=True, frozen=True):
    """Write times of a mutation that are not a client's: those from `first` to `last`, and what lies right
    before them (a collection is emptied before it is filled)."""

    first: int
    last: int
    #: The latest that the node took from its clock.
    clock: int


def chosen_times(mutation: Mutation, first: int, last: int, *, decided: bool) -> Chosen | None:
    """Of what a node wants to write that took times from `first` to `last`. If it was `decided` by what is
    stored, all times are the node's: also one that lies beyond its clock, to be later than what it saw."""
    if decided:
        newest = newest_time(mutation)
        return None if newest == NO_TIMESTAMP else Chosen(newest, newest, min(newest, last))
    return Chosen(first, last, last) if any(first <= time <= last for time in _times(mutation)) else None


def newest_time(mutation: Mutation) -> int:
    """The write time of what the mutation writes; parts of it may be older."""
    return max(_times(mutation), default=NO_TIMESTAMP)


def _times(mutation: Mutation) -> Iterator[int]:
    if mutation.deletion is not None:
        yield mutation.deletion[0]
    for piece in mutation.ranges:
        yield piece.deletion[0]
    rows = [row for _, row in mutation.rows]
    if mutation.static is not None:
        rows.append(mutation.static)
    for row in rows:
        yield row.timestamp
        if row.deletion is not None:
            yield row.deletion[0]
        for cell in row.cells:
            if type(cell) is tuple:
                yield cell[1]
            elif isinstance(cell, Complex):
                yield from (item[1] for item in cell.items.values())


Move = Callable[[int], int]


def moved(mutation: Mutation, chosen: Chosen, by: int) -> Mutation:
    """The same mutation, what was chosen of its times this much later."""
    if not by:
        return mutation
    first, last = chosen.first - 1, chosen.last

    def move(time: int) -> int:
        return time + by if first <= time <= last else time

    return Mutation(
        mutation.table,
        mutation.token,
        mutation.key,
        [(key, _row(row, move)) for key, row in mutation.rows],
        None if mutation.static is None else _row(mutation.static, move),
        _deletion(mutation.deletion, move),
        [
            RangeDeletion(piece.start, piece.end, (move(piece.deletion[0]), piece.deletion[1]))
            for piece in mutation.ranges
        ],
    )


def _row(row: Row, move: Move) -> Row:
    cells = [_any_cell(cell, move) for cell in row.cells]
    return Row(move(row.timestamp), row.ttl, row.expiry, row.live, _deletion(row.deletion, move), cells)


def _any_cell(cell: AnyCell, move: Move) -> AnyCell:
    if cell is None or isinstance(cell, bytes):
        return cell
    if isinstance(cell, Complex):
        items = {path: _cell(item, move) for path, item in cell.items.items()}
        return Complex(_deletion(cell.deletion, move), items)
    return _cell(cell, move)


def _cell(cell: Cell, move: Move) -> Cell:
    return (cell[0], move(cell[1]), cell[2], cell[3])


def _deletion(deletion: Deletion | None, move: Move) -> Deletion | None:
    return None if deletion is None else (move(deletion[0]), deletion[1])
