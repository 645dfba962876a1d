"""A view's rows as clients see them: with the base's write times in place of the stamps of images."""

import msgspec

from belvedere.model.mutations import Mutation
from belvedere.model.rows import AnyCell, Complex, Row
from belvedere.model.schema import WRITE_TIMES, Table
from belvedere.storage.reads import PartitionRows

#: (timestamp, ttl, expiry) of a cell of the base.
Times = tuple[int, int, int]
#: Of a row's cells by ordinal; of a collection by path. One number: all cells have this timestamp, no ttl.
RowTimes = int | list[Times | dict[bytes, Times] | None]

encode_times = msgspec.msgpack.Encoder().encode
_decode_times = msgspec.msgpack.Decoder(int | list[Times | dict[bytes, Times] | None]).decode


def unwrap_partition(view: Table, found: PartitionRows) -> PartitionRows:
    """What was read of a view's tablet. Rows are shared with memtables and caches: these are new ones."""
    if found.rows:
        hidden = view.by_name[WRITE_TIMES].position
        found.rows = [(key, unwrap(row, hidden)) for key, row in found.rows]
    return found


def unwrap(row: Row, hidden: int) -> Row:
    """A view's row with the base's write times in place of image stamps."""
    encoded = row.cells[hidden] if hidden < len(row.cells) else None
    if encoded is None:
        return row
    assert isinstance(encoded, bytes | tuple)
    raw = encoded if isinstance(encoded, bytes) else encoded[0]
    assert raw is not None
    times: RowTimes = _decode_times(raw)
    cells = list(row.cells)
    cells[hidden] = None
    if isinstance(times, int):
        return Row(times, 0, 0, row.live, None, cells)
    for ordinal, own in enumerate(times):
        cell = cells[ordinal] if ordinal < len(cells) else None
        if cell is None or own is None:
            continue
        if isinstance(cell, Complex):
            assert isinstance(own, dict)
            cells[ordinal] = Complex(None, {path: (item[0], *own[path]) for path, item in cell.items.items()})
        else:
            assert isinstance(own, tuple)
            cells[ordinal] = (cell if isinstance(cell, bytes) else cell[0], *own)
    return Row(row.timestamp, row.ttl, row.expiry, row.live, None, cells)


def stamp(update: Mutation, version: int) -> Mutation:
    """A view update that was made for version 0, for the version that it got (`views.images`): images stand
    at 2V + 1 above a deletion of everything older, at 2V."""
    rows = [(key, _stamped(row, version)) for key, row in update.rows]
    return Mutation(update.table, update.token, update.key, rows)


def _stamped(row: Row, version: int) -> Row:
    assert row.deletion is not None
    deletion = (row.deletion[0] + 2 * version, version // 1_000_000)
    timestamp = row.timestamp + 2 * version if row.live else row.timestamp
    cells = [_stamped_cell(cell, 2 * version) for cell in row.cells]
    return Row(timestamp, row.ttl, row.expiry, row.live, deletion, cells)


def _stamped_cell(cell: AnyCell, by: int) -> AnyCell:
    if cell is None or isinstance(cell, bytes):
        return cell
    if isinstance(cell, Complex):
        items = {path: (item[0], item[1] + by, *item[2:]) for path, item in cell.items.items()}
        return Complex(cell.deletion, items)
    return (cell[0], cell[1] + by, *cell[2:])
