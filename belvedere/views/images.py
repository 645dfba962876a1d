"""What a view row is: a versioned image of its base row.

The image of a base row at commit version V is written into the view with one stamp for the whole row, 2V + 1,
above a deletion of everything older, 2V; that a base row left a view key is a deletion at 2V + 1. So ordinary
cell merging makes the newest image win as a whole: view rows resolve by base version alone, in memtables,
files and compaction, with no code of their own, in whatever order and however often images arrive.

The base's own write times travel in the hidden column `_write_times`; `query.view_rows` puts them back, so
that WRITETIME and TTL answer on the view as on the base. Expiry needs nobody's help: an image carries the
second at which its row stops being in the view, and each cell the second at which it ends.
"""

from collections.abc import Sequence

import msgspec

from belvedere.cql.parser import parse_where
from belvedere.model.mutations import Mutation, ViewUpdate
from belvedere.model.ordering import join_partition_key
from belvedere.model.rows import AnyCell, Cell, Complex, Row, stamped
from belvedere.model.schema import WRITE_TIMES, Column, Table
from belvedere.model.token import token_of
from belvedere.query.access import Execution
from belvedere.query.schema_view import SchemaView
from belvedere.query.select.row_views import RowView, column_reader
from belvedere.query.terms.values import BindCollector
from belvedere.query.view_rows import RowTimes, Times, encode_times
from belvedere.query.where.filters import ComparisonFilter, Predicate
from belvedere.query.where.relations import read_relations
from belvedere.storage.tablet_changes import RowChange

NEVER = 2**62

#: Partition key and clustering key of a view's row.
Place = tuple[bytes, bytes]


class Image(msgspec.Struct, frozen=True):
    """Where a base row stands in a view, and as what."""

    token: int
    key: bytes
    clustering: bytes
    row: Row

    @property
    def place(self) -> Place:
        return self.key, self.clustering


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
        """The image of a base row without tombstones; what has expired may still be in it."""
        place = self.place(token, key, clustering, row)
        if place is None or row is None:
            return None
        return Image(token_of(place[0]), *place, self._image_row(row, version))

    def place(self, token: int, key: bytes, clustering: bytes, row: Row | None) -> Place | None:
        """Under which key the row stands in the view, if it does."""
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
        return view_key, self.view.clustering_order.encode(inner)  # type: ignore[arg-type]

    def updates(self, token: int, key: bytes, change: RowChange, version: int) -> list[ViewUpdate]:
        """What the change of one base row does to the view: leave the old key, stand under the new one."""
        before = self.place(token, key, change.clustering, change.before)
        after = self.image(token, key, change.clustering, change.after, version)
        found = []
        if before is not None and (after is None or before != (after.key, after.clustering)):
            found.append(removal(self.view, before, version))
        for row in change.also:
            place = self.place(token, key, change.clustering, row)
            if place is not None and place != before and (after is None or place != after.place):
                found.append(removal(self.view, place, version))
        if after is not None:
            found.append(self.arrival(after))
        return found

    def arrival(self, image: Image) -> ViewUpdate:
        row = (image.clustering, image.row)
        return ViewUpdate(self.view.id, Mutation(self.view.id, image.token, image.key, [row]))

    def _image_row(self, row: Row, version: int) -> Row:
        stamp, until = 2 * version + 1, self._until(row)
        ttl, expiry = (1, until) if until < NEVER else (0, 0)
        cells: list[AnyCell] = [None] * self._width
        times: list[Times | dict[bytes, Times] | None] = [None] * self._width
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
        cells[self._hidden] = encode_times(_shortened(times))
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


def removal(view: Table, place: Place, version: int) -> ViewUpdate:
    """No base row stands here any more since this version."""
    gone = Row(0, 0, 0, False, (2 * version + 1, version // 1_000_000), [])
    return ViewUpdate(view.id, Mutation(view.id, token_of(place[0]), place[0], [(place[1], gone)]))


def _ends(cell: Cell) -> int:
    return cell[3] if cell[2] else NEVER


def _capped(cell: Cell, stamp: int, until: int) -> Cell:
    """The cell under the image's stamp, ending with the row at the latest."""
    ends = min(_ends(cell), until)
    return (cell[0], stamp, cell[2] or 1, ends) if ends < NEVER else (cell[0], stamp, 0, 0)


def _shortened(times: list[Times | dict[bytes, Times] | None]) -> RowTimes:
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
