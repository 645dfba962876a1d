"""What a view row is: a versioned image of its base row.

The image of a base row at commit version V is written into the view with one stamp for the whole row, 2V + 1,
above a deletion of everything older, 2V; that a base row left a view key is a deletion at 2V + 1. So ordinary
cell merging makes the newest image win as a whole: view rows resolve by base version alone, in memtables,
files and compaction, with no code of their own, in whatever order and however often images arrive.

The base's own write times travel in the hidden column `_write_times`; `query.view_rows` puts them back, so
that WRITETIME and TTL answer on the view as on the base. Expiry needs nobody's help: an image carries the
second at which its row stops being in the view, and each cell the second at which it ends.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from xxhash import xxh3_128_digest

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
from belvedere.query.where.filters import ComparisonFilter, Predicate, comparable
from belvedere.query.where.relations import Comparison, read_relations
from belvedere.storage.tablet_changes import RowChange

NEVER = 2**62

_BARE = frozenset((bytes, type(None)))
encode_image = msgspec.msgpack.Encoder().encode

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
        self.hidden = view.by_name[WRITE_TIMES].position
        self._width = view.regular_ordinals
        #: (ordinal in the base, ordinal in the view) of each selected column outside the view's key.
        self.cells = [
            (base.by_name[column.name].position, column.position)
            for column in view.regulars
            if not column.hidden
        ]
        self.restrictions = _restrictions(base, view.view.where, schema)
        self._tests = [one.test for one in self.restrictions]
        restricted = {column.name for one in self.restrictions for column in one.columns}
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
        before = self.image(token, key, change.clustering, change.before, version)
        after = self.image(token, key, change.clustering, change.after, version)
        if before == after and not change.also:
            return []  # A newer version would tell readers nothing.
        found = []
        gone = b"" if before is None else self._digest(before)
        moved = before is not None and (after is None or before.place != after.place)
        if before is not None and moved:
            found.append(removal(self.view, before.place, version, gone))
        for row in change.also:
            place = self.place(token, key, change.clustering, row)
            own = place is None or (after is not None and place == after.place)
            if place is not None and not own and (before is None or place != before.place):
                found.append(removal(self.view, place, version))
        if after is not None:
            found.append(self.arrival(after, b"" if moved else gone))
        return found

    def _digest(self, image: Image) -> bytes:
        return digest_of(image.key, image.clustering, _end(image.row), image.row.cells)

    def arrival(self, image: Image, gone: bytes = b"") -> ViewUpdate:
        row = (image.clustering, image.row)
        return ViewUpdate(self.view.id, Mutation(self.view.id, image.token, image.key, [row]), gone)

    def _image_row(self, row: Row, version: int) -> Row:
        stamp, until = 2 * version + 1, self._until(row)
        ttl, expiry = (1, until) if until < NEVER else (0, 0)
        cells: list[AnyCell] = [None] * self._width
        times: list[Times | dict[bytes, Times] | None] = [None] * self._width
        for source, target in self.cells:
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
        cells[self.hidden] = encode_times(_shortened(times))
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


def removal(view: Table, place: Place, version: int, gone: bytes = b"") -> ViewUpdate:
    """No base row stands here any more since this version."""
    row = Row(0, 0, 0, False, (2 * version + 1, version // 1_000_000), [])
    return ViewUpdate(view.id, Mutation(view.id, token_of(place[0]), place[0], [(place[1], row)]), gone)


def digest_of(key: bytes, clustering: bytes, end: int, cells: Sequence[AnyCell]) -> bytes:
    """16 bytes that tell images with different contents apart: place, end and cells, the base's write times
    among them. The version, and so the stamps, do not count."""
    if not _BARE.issuperset(map(type, cells)):
        cells = [cell if cell is None or type(cell) is bytes else _spelled(cell) for cell in cells]
    return xxh3_128_digest(encode_image((key, clustering, end, cells)))


def _spelled(cell: AnyCell) -> Any:
    if isinstance(cell, Complex):
        return [(path, item[0], _ends(item)) for path, item in sorted(cell.items.items())]
    assert isinstance(cell, tuple)
    return cell[0], _ends(cell)


def _end(image: Row) -> int:
    """The second at which an image ends, 0 if it does not."""
    return image.expiry if image.ttl else 0


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


@dataclass(frozen=True, slots=True)
class Restriction:
    """Something that a view asks of a base row. Of a comparison with one value, `key` maps values to bytes
    that compare like them, and `wanted` is what those are compared with."""

    columns: tuple[Column, ...]
    test: Predicate
    #: IS NOT NULL.
    present: bool = False
    operator: str = ""
    key: Callable[[bytes], bytes] | None = None
    wanted: bytes | None = None


def _restrictions(base: Table, where: str, schema: SchemaView) -> tuple[Restriction, ...]:
    """A view's filter."""
    collector = BindCollector(schema, base.keyspace)
    found = read_relations(base, parse_where(where), collector, for_view=True)
    execution = Execution(None)  # type: ignore[arg-type]  # Literals need nothing of it.
    return (
        *(_comparison(one, execution) for one in found.comparisons),
        *(Restriction(one.columns, one.bind(execution)) for one in found.filters),
        *(Restriction((column,), _present(column), present=True) for column in found.not_null),
    )


def _comparison(found: Comparison, execution: Execution) -> Restriction:
    own = ComparisonFilter(found.columns, found.operator, found.source)
    key, wanted = None, None
    if len(found.columns) == 1 and found.operator != "IN":
        key = comparable(found.columns[0].type)
        wanted = key(found.source.tuples(execution)[0][0])
    return Restriction(found.columns, own.bind(execution), False, found.operator, key, wanted)


def _present(column: Column) -> Predicate:
    read = column_reader(column)
    return lambda seen: read(seen) is not None
