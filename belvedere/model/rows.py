"""What is stored of a row: cells with write times, merged cell by cell, newest wins.

A `Row` keeps one *stamp* (timestamp, ttl, expiry). A cell that was written with exactly that stamp is kept
as its bare wire value; any other cell carries its own stamp in a tuple. A row written by one INSERT, the
ordinary case, so costs one list of bytes. Rows are values: after construction nobody changes them, `merge`
makes new ones, and so frozen memtables, readers and threads may share them.

Merging follows Cassandra's rules, ties included, so that it is commutative, associative and idempotent:
the order in which versions of a row meet (memtable, files, replicas) does not matter.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

#: A cell with its own stamp: (value or None for a tombstone, timestamp µs, ttl s, expiry s).
#: For a live cell without ttl both ttl and expiry are 0. A tombstone's expiry is the local second at which
#: it was written: compaction may purge it gc_grace later.
Cell = tuple[bytes | None, int, int, int]

#: A deletion of everything not newer: (timestamp µs, local second when it was written).
Deletion = tuple[int, int]

NO_TIMESTAMP: Final = -(2**63)

#: What the cells of a row that needs no second look are made of.
_PLAIN: Final = frozenset((bytes, type(None)))
_BARE: Final = frozenset((bytes,))


class Complex(msgspec.Struct, gc=True):
    """A non-frozen collection or user type: one cell per element, by path.

    Paths are wire bytes: map key, set element, list position (a 16-byte time UUID), or the two-byte index
    of a user type's field. Set elements have the value b"".
    """

    deletion: Deletion | None
    items: dict[bytes, Cell]


AnyCell = bytes | Cell | Complex | None


class Row(msgspec.Struct, array_like=True, gc=False):
    """The regular cells of one row, or the static cells of one partition.

    `live` says that the row exists by itself (it was INSERTed at the stamp, until `expiry` if there is a
    ttl); otherwise it exists only through its live cells. `cells` is indexed by the column's ordinal and
    may be shorter than the table is wide: columns added later are absent. Rows are in no cycle, so the
    collector need not look at them.
    """

    timestamp: int
    ttl: int
    expiry: int
    live: bool
    deletion: Deletion | None
    cells: list[AnyCell]


def newer(left: Cell, right: Cell) -> Cell:
    """The surviving one of two cells: timestamp, then tombstone over expiring over plain, then the larger."""
    if left[1] != right[1]:
        return left if left[1] > right[1] else right
    return left if _rank(left) >= _rank(right) else right


def _rank(cell: Cell) -> tuple[int, int, bytes]:
    value, _, ttl, expiry = cell
    if value is None:
        return (2, expiry, b"")
    return (1 if ttl else 0, expiry, value)


def newer_deletion(left: Deletion | None, right: Deletion | None) -> Deletion | None:
    if left is None:
        return right
    if right is None:
        return left
    return left if left >= right else right


def merge_complex(left: Complex, right: Complex) -> Complex:
    deletion = newer_deletion(left.deletion, right.deletion)
    items = dict(left.items)
    for path, cell in right.items.items():
        mine = items.get(path)
        items[path] = cell if mine is None else newer(mine, cell)
    if deletion is not None:
        floor = deletion[0]
        items = {path: cell for path, cell in items.items() if cell[1] > floor}
    return Complex(deletion, items)


def stamped(row: Row, cell: bytes | Cell) -> Cell:
    """The cell with its stamp spelled out."""
    if type(cell) is bytes:
        return (cell, row.timestamp, row.ttl, row.expiry)
    return cell  # type: ignore[return-value]


def merge_rows(left: Row, right: Row) -> Row:
    """Both rows' cells, newest wins. Symmetric up to representation."""
    if right.deletion is not None and _buries(right, left):
        return right
    if left.deletion is not None and _buries(left, right):
        return left
    base, other = (left, right) if _stamp_of(left, right) else (right, left)
    deletion = newer_deletion(left.deletion, right.deletion)
    if deletion is None:
        if _covers(base, other):
            return base
        return Row(base.timestamp, base.ttl, base.expiry, base.live, None, _merge_undeleted(base, other))
    floor = deletion[0]
    live = base.live and base.timestamp > floor
    cells: list[AnyCell] = []
    base_cells, other_cells = base.cells, other.cells
    for index in range(max(len(base_cells), len(other_cells))):
        mine = base_cells[index] if index < len(base_cells) else None
        theirs = other_cells[index] if index < len(other_cells) else None
        cells.append(_merge_cells(base, mine, other, theirs, floor))
    return Row(base.timestamp, base.ttl, base.expiry, live, deletion, cells)


def _stamp_of(left: Row, right: Row) -> bool:
    """Whether the merged row keeps the stamp of `left`: the newest live one; between non-live rows simply the
    newest."""
    if left.live is not right.live:
        return left.live
    if left.timestamp != right.timestamp:
        return left.timestamp > right.timestamp
    return (bool(left.ttl), left.expiry) >= (bool(right.ttl), right.expiry)


def _covers(base: Row, other: Row) -> bool:
    """The common overwrite: every cell of `other` is replaced by a bare, newer cell of `base`."""
    return (
        base.timestamp > other.timestamp
        and len(base.cells) >= len(other.cells)
        and _BARE.issuperset(map(type, base.cells))
        and _PLAIN.issuperset(map(type, other.cells))
    )


def _buries(upper: Row, lower: Row) -> bool:
    """How rows of views follow each other (views.images): the upper row's deletion takes all of the lower one
    and none of the upper."""
    deletion: Deletion = upper.deletion  # type: ignore[assignment]
    floor = deletion[0]
    return (
        lower.timestamp <= floor
        and (upper.timestamp > floor or not (upper.live or upper.cells))
        and (lower.deletion is None or lower.deletion <= deletion)
        and _PLAIN.issuperset(map(type, lower.cells))
        and _PLAIN.issuperset(map(type, upper.cells))
    )


def _merge_undeleted(base: Row, other: Row) -> list[AnyCell]:
    """The cells of two rows without deletions: nearly all need no look at more than their rows' stamps."""
    mine, theirs = base.cells, other.cells
    if len(mine) != len(theirs):
        width = max(len(mine), len(theirs))
        mine = mine + [None] * (width - len(mine))
        theirs = theirs + [None] * (width - len(theirs))
    timestamp, ttl, expiry = other.timestamp, other.ttl, other.expiry
    newer_mine, newer_theirs = base.timestamp > timestamp, base.timestamp < timestamp
    cells: list[AnyCell] = []
    for one, two in zip(mine, theirs, strict=True):
        kind = type(one)
        if two is None and kind is not tuple:
            cells.append(one)
        elif type(two) is not bytes:
            cells.append(_merge_cells(base, one, other, two, NO_TIMESTAMP))
        elif newer_mine and kind is bytes:
            cells.append(one)
        elif (kind is bytes and newer_theirs) or (one is None and (newer_mine or newer_theirs)):
            cells.append((two, timestamp, ttl, expiry))
        else:
            cells.append(_merge_cells(base, one, other, two, NO_TIMESTAMP))
    return cells


def _merge_cells(base: Row, mine: AnyCell, other: Row, theirs: AnyCell, floor: int) -> AnyCell:
    if isinstance(mine, Complex) or isinstance(theirs, Complex):
        return _merge_complex_cells(mine, theirs, floor)
    if mine is None and theirs is None:
        return None
    if theirs is None:
        winner = stamped(base, mine)  # type: ignore[arg-type]
    elif mine is None:
        winner = stamped(other, theirs)
    else:
        winner = newer(stamped(base, mine), stamped(other, theirs))
    if winner[1] <= floor:
        return None
    return _compact(base, winner)


def _compact(row: Row, cell: Cell) -> AnyCell:
    """Drop the stamp where it equals the row's."""
    if cell[1] == row.timestamp and cell[0] is not None and cell[2] == row.ttl and cell[3] == row.expiry:
        return cell[0]
    return cell


def _merge_complex_cells(mine: AnyCell, theirs: AnyCell, floor: int) -> AnyCell:
    if not isinstance(mine, Complex):
        merged = theirs
    elif not isinstance(theirs, Complex):
        merged = mine
    else:
        merged = merge_complex(mine, theirs)
    assert isinstance(merged, Complex)
    return _cut_complex(merged, floor)


def _cut_complex(cell: Complex, floor: int) -> Complex | None:
    """What a deletion of the whole row leaves of a collection."""
    if floor == NO_TIMESTAMP:
        return cell
    deletion = cell.deletion if cell.deletion is not None and cell.deletion[0] > floor else None
    items = {path: item for path, item in cell.items.items() if item[1] > floor}
    return Complex(deletion, items) if deletion is not None or items else None


def cut(row: Row, deletion: Deletion) -> Row | None:
    """What a deletion (of the partition, a range or the row) leaves of a row; None if nothing is left."""
    floor = deletion[0]
    own = row.deletion if row.deletion is not None and row.deletion[0] > floor else None
    live = row.live and row.timestamp > floor
    cells: list[AnyCell] = []
    left = live or own is not None
    for cell in row.cells:
        kept: AnyCell = None
        if isinstance(cell, Complex):
            kept = _cut_complex(cell, floor)
        elif cell is not None:
            kept = cell if stamped(row, cell)[1] > floor else None
        left = left or kept is not None
        cells.append(kept)
    return Row(row.timestamp, row.ttl, row.expiry, live, own, cells) if left else None


def visible(row: Row, now: int) -> Row | None:
    """The row as a reader sees it at second `now`: no tombstones, nothing expired; None if it is not there.

    Deletions of enclosing ranges must have been applied (`cut`) before.
    """
    if row.deletion is None and not row.ttl and _PLAIN.issuperset(map(type, row.cells)):
        if row.live or any(cell is not None for cell in row.cells):
            return row
        return None
    return row if _lasts(row) else _visible_slow(row, now)


def _lasts(row: Row) -> bool:
    """Whether a row that exists by itself has only cells that nothing ends: parts of it were updated."""
    if row.deletion is not None or row.ttl or not row.live:
        return False
    for cell in row.cells:
        if type(cell) is tuple:
            if cell[0] is None or cell[2]:
                return False
        elif isinstance(cell, Complex):
            return False
    return True


def _visible_slow(row: Row, now: int) -> Row | None:
    stamp_alive = not row.ttl or row.expiry > now
    live = row.live and stamp_alive
    cells: list[AnyCell] = []
    seen = live
    for cell in row.cells:
        kept: AnyCell = None
        if type(cell) is bytes:
            kept = cell if stamp_alive else None
        elif isinstance(cell, Complex):
            items = {path: item for path, item in cell.items.items() if is_live(item, now)}
            kept = Complex(None, items) if items else None
        elif type(cell) is tuple:
            kept = cell if is_live(cell, now) else None
        seen = seen or kept is not None
        cells.append(kept)
    return Row(row.timestamp, row.ttl, row.expiry, live, None, cells) if seen else None


def is_live(cell: Cell, now: int) -> bool:
    return cell[0] is not None and (not cell[2] or cell[3] > now)


def newest_timestamp(row: Row) -> int:
    """The largest write time anywhere in the row, deletions included."""
    newest = row.timestamp if row.live else NO_TIMESTAMP
    if row.deletion is not None:
        newest = max(newest, row.deletion[0])
    for cell in row.cells:
        if type(cell) is bytes:
            newest = max(newest, row.timestamp)
        elif isinstance(cell, Complex):
            newest = max(newest, _newest_in(cell))
        elif type(cell) is tuple:
            newest = max(newest, cell[1])
    return newest


def _newest_in(cell: Complex) -> int:
    stamps: Iterable[int] = (item[1] for item in cell.items.values())
    newest = max(stamps, default=NO_TIMESTAMP)
    return newest if cell.deletion is None else max(newest, cell.deletion[0])
