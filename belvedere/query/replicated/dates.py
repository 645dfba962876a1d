"""Write times that a node chose for a client that gave none.

Clocks of nodes differ. If their times stood as they were chosen, a write could be ordered, acknowledged, and
lose against an older one. So the primary moves them: later than all that it has ordered.
"""

from collections.abc import Iterator

from belvedere.model.mutations import Mutation, RangeDeletion
from belvedere.model.rows import NO_TIMESTAMP, AnyCell, Cell, Complex, Deletion, Row


def newest_time(mutation: Mutation) -> int:
    """The write time of what the mutation writes; parts of it may be a little older."""
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


def later(mutation: Mutation, by: int) -> Mutation:
    """The same mutation, all of it this much later."""
    if by <= 0:
        return mutation
    return Mutation(
        mutation.table,
        mutation.token,
        mutation.key,
        [(key, _row(row, by)) for key, row in mutation.rows],
        None if mutation.static is None else _row(mutation.static, by),
        _deletion(mutation.deletion, by),
        [
            RangeDeletion(piece.start, piece.end, (piece.deletion[0] + by, piece.deletion[1]))
            for piece in mutation.ranges
        ],
    )


def _row(row: Row, by: int) -> Row:
    cells = [_any_cell(cell, by) for cell in row.cells]
    return Row(row.timestamp + by, row.ttl, row.expiry, row.live, _deletion(row.deletion, by), cells)


def _any_cell(cell: AnyCell, by: int) -> AnyCell:
    if cell is None or isinstance(cell, bytes):
        return cell
    if isinstance(cell, Complex):
        items = {path: _cell(item, by) for path, item in cell.items.items()}
        return Complex(_deletion(cell.deletion, by), items)
    return _cell(cell, by)


def _cell(cell: Cell, by: int) -> Cell:
    return (cell[0], cell[1] + by, cell[2], cell[3])


def _deletion(deletion: Deletion | None, by: int) -> Deletion | None:
    return None if deletion is None else (deletion[0] + by, deletion[1])
