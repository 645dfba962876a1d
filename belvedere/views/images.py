"""What a view row is: a versioned image of its base row.

The image of a base row at commit version V is written into the view with one stamp for the whole row, 2V + 1,
above a deletion of everything older, 2V; that a base row left a view key is a deletion at 2V + 1. So ordinary
cell merging makes the newest image win as a whole: view rows resolve by base version alone, in memtables,
files and compaction, with no code of their own, in whatever order and however often images arrive.

The base's own write times travel in the hidden column `_write_times`; `unwrap` puts them back, so that
WRITETIME and TTL answer on the view as on the base. Expiry needs nobody's help: an image carries the second
at which its row stops being in the view, and each cell the second at which it ends.
"""

from collections.abc import Sequence

import msgspec

from belvedere.cql.parser import parse_where
from belvedere.model.mutations import Mutation
from belvedere.model.ordering import join_partition_key
from belvedere.model.rows import AnyCell, Cell, Complex, Row, stamped
from belvedere.model.schema import WRITE_TIMES, Column, Table
from belvedere.model.token import token_of
from belvedere.query.access import Execution
from belvedere.query.restrictions_filters import ComparisonFilter, Predicate
from belvedere.query.restrictions_relations import read_relations
from belvedere.query.schema_view import SchemaView
from belvedere.query.selection_rows import RowView, column_reader
from belvedere.query.terms import BindCollector

NEVER = 2**62

#: (timestamp, ttl, expiry) of a cell of the base.
_Times = tuple[int, int, int]
#: Of a row's cells by ordinal; of a collection by path. One number: all cells have this timestamp, no ttl.
_RowTimes = int | list[_Times | dict[bytes, _Times] | None]

_encode_times = msgspec.msgpack.Encoder().encode
_decode_times = msgspec.msgpack.Decoder(int | list[_Times | dict[bytes, _Times] | None]).decode


class Image(msgspec.Struct, frozen=True):
    """Where a base row stands in a view, and as what."""

    token: int
    key: bytes
    clustering: bytes
    row: Row


class ImageMaker:
    """Makes the images of one base table's rows in one view."""

    def __init__(self, base: Table, view: Table, schema: SchemaView) -> None:
        assert view.view is not None
        self.base = base
        self.view = view
        self._key_readers = [column_reader(base.by_name[column.name]) for column in view.partition_key]
        self._clustering_readers = [column_reader(base.by_name[column.name]) for column in view.clustering]
        self._hidden = view.by_name[WRITE_TIMES].position
        self._width = view.regular_ordinals
        #: (ordinal in the base, ordinal in the view) of each selected column outside the view's key.
        self._cells = [
            (base.by_name[column.name].position, column.position)
            for column in view.regulars
            if not column.hidden
        ]
        self._tests, restricted = _filters(base, view.view.where, schema)
        key_names = {column.name for column in (*view.partition_key, *view.clustering)}
        #: Ordinals of the base's cells without which the row is not in the view.
        self._needed = [
            column.position
            for column in base.regulars
            if column.name in key_names or column.name in restricted
        ]

    def image(self, token: int, key: bytes, clustering: bytes, row: Row | None, version: int) -> Image | None:
        """The image of a base row as readers see it (`row` has no tombstones, nothing expired)."""
        if row is None:
            return None
        seen = RowView(self.base, token, key, None, clustering, row)
        if not all(test(seen) for test in self._tests):
            return None
        parts = [read(seen) for read in self._key_readers]
        inner = [read(seen) for read in self._clustering_readers]
        if None in parts or None in inner:
            return None
        view_key = join_partition_key(parts)  # type: ignore[arg-type]
        view_clustering = self.view.clustering_order.encode(inner)  # type: ignore[arg-type]
        return Image(token_of(view_key), view_key, view_clustering, self._image_row(row, version))

    def _image_row(self, row: Row, version: int) -> Row:
        stamp, until = 2 * version + 1, self._until(row)
        ttl, expiry = (1, until) if until < NEVER else (0, 0)
        cells: list[AnyCell] = [None] * self._width
        times: list[_Times | dict[bytes, _Times] | None] = [None] * self._width
        for source, target in self._cells:
            cell = row.cells[source] if source < len(row.cells) else None
            if cell is None:
                continue
            if isinstance(cell, Complex):
                cells[target] = Complex(
                    None, {path: _capped(item, stamp, until) for path, item in cell.items.items()}
                )
                times[target] = {path: item[1:] for path, item in cell.items.items()}
            else:
                spelled = stamped(row, cell)
                times[target] = spelled[1:]
                capped = _capped(spelled, stamp, until)
                cells[target] = capped[0] if _ends(capped) == until else capped
        cells[self._hidden] = _encode_times(_shortened(times))
        return Row(stamp, ttl, expiry, True, (2 * version, version // 1_000_000), cells)

    def _until(self, row: Row) -> int:
        """The second at which the row is no longer in the view."""
        exists = (row.expiry if row.ttl else NEVER) if row.live else 0
        until = NEVER
        for ordinal, cell in enumerate(row.cells):
            if cell is None:
                continue
            if isinstance(cell, Complex):
                ends = max((_ends(item) for item in cell.items.values()), default=0)
            else:
                ends = _ends(stamped(row, cell))
            exists = max(exists, ends)
            if ordinal in self._needed:
                until = min(until, ends)
        return min(until, exists)


def updates(maker: ImageMaker, before: Image | None, after: Image | None, version: int) -> list[Mutation]:
    """What a change of one base row does to the view: leave the old key, stand under the new one."""
    view, found = maker.view.id, []
    if before is not None and (after is None or _place(before) != _place(after)):
        gone = Row(0, 0, 0, False, (2 * version + 1, version // 1_000_000), [])
        found.append(Mutation(view, before.token, before.key, [(before.clustering, gone)]))
    if after is not None:
        found.append(Mutation(view, after.token, after.key, [(after.clustering, after.row)]))
    return found


def unwrap(row: Row, hidden: int) -> Row:
    """A view's row with the base's write times in place of image stamps."""
    encoded = row.cells[hidden] if hidden < len(row.cells) else None
    if encoded is None:
        return row
    assert isinstance(encoded, bytes | tuple)
    raw = encoded if isinstance(encoded, bytes) else encoded[0]
    assert raw is not None
    times: _RowTimes = _decode_times(raw)
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
            cells[ordinal] = Complex(
                None, {path: (item[0], *own[path]) for path, item in cell.items.items()}
            )
        else:
            assert isinstance(own, tuple)
            cells[ordinal] = (cell if isinstance(cell, bytes) else cell[0], *own)
    return Row(row.timestamp, row.ttl, row.expiry, row.live, None, cells)


def _place(image: Image) -> tuple[bytes, bytes]:
    return image.key, image.clustering


def _ends(cell: Cell) -> int:
    return cell[3] if cell[2] else NEVER


def _capped(cell: Cell, stamp: int, until: int) -> Cell:
    """The cell under the image's stamp, ending with the row at the latest."""
    ends = min(_ends(cell), until)
    return (cell[0], stamp, cell[2] or 1, ends) if ends < NEVER else (cell[0], stamp, 0, 0)


def _shortened(times: list[_Times | dict[bytes, _Times] | None]) -> _RowTimes:
    """One number where one says it all: the row that one INSERT wrote."""
    given = [own for own in times if own is not None]
    first = given[0] if given else (0, 0, 0)
    if isinstance(first, tuple) and first[1] == 0 and all(own == first for own in given):
        return first[0]
    return times


def _filters(base: Table, where: str, schema: SchemaView) -> tuple[Sequence[Predicate], set[str]]:
    """Tests of a view's filter besides IS NOT NULL on its key, and the columns that they look at."""
    collector = BindCollector(schema, base.keyspace)
    found = read_relations(base, parse_where(where), collector, for_view=True)
    execution = Execution(None)  # type: ignore[arg-type]  # Literals need nothing of it.
    tests: list[Predicate] = [
        ComparisonFilter(one.columns, one.operator, one.source).bind(execution) for one in found.comparisons
    ]
    tests += [one.bind(execution) for one in found.filters]
    tests += [_present(column) for column in found.not_null]
    named = {column.name for one in found.comparisons for column in one.columns}
    named |= {column.name for one in found.filters for column in one.columns}
    named |= {column.name for column in found.not_null}
    return tests, named


def _present(column: Column) -> Predicate:
    read = column_reader(column)
    return lambda seen: read(seen) is not None
