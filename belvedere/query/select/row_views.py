"""One row as selectors and filters see it, and how a column's value is read from it."""

from collections.abc import Callable

from belvedere.model.ordering import split_partition_key
from belvedere.model.rows import AnyCell, Complex, Row
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.query.select.collections_out import assemble

Wire = bytes | None


class RowView:
    """A row with the partition it belongs to. Keys are taken apart only when somebody asks."""

    __slots__ = ("_clustering", "_parts", "clustering_key", "key", "row", "static", "table", "token")

    def __init__(
        self,
        table: Table,
        token: int,
        key: bytes,
        static: Row | None,
        clustering_key: bytes | None,
        row: Row | None,
    ) -> None:
        self.table = table
        self.token = token
        self.key = key
        self.static = static
        #: None for a partition of which only static cells are left.
        self.clustering_key = clustering_key
        self.row = row
        self._parts: list[bytes] | None = None
        self._clustering: list[bytes] | None = None

    def key_part(self, position: int) -> Wire:
        if self._parts is None:
            self._parts = split_partition_key(self.key, len(self.table.partition_key))
        return self._parts[position]

    @property
    def clustering(self) -> list[bytes] | None:
        if self._clustering is None and self.clustering_key is not None:
            self._clustering = self.table.clustering_order.decode(self.clustering_key)
        return self._clustering


Reader = Callable[[RowView], Wire]
CellReader = Callable[[RowView], tuple[Row | None, AnyCell]]


def column_reader(column: Column) -> Reader:
    """The value of a column as wire bytes; non-frozen collections are put together."""
    position = column.position
    if column.kind is ColumnKind.PARTITION_KEY:
        return lambda view: view.key_part(position)
    if column.kind is ColumnKind.CLUSTERING:

        def read_clustering(view: RowView) -> Wire:
            values = view.clustering
            return None if values is None else values[position]

        return read_clustering
    if column.type.is_multicell:
        return _complex_reader(column)
    return _simple_reader(column)


def _simple_reader(column: Column) -> Reader:
    read_cell = cell_reader(column)

    def read_simple(view: RowView) -> Wire:
        cell = read_cell(view)[1]
        return cell[0] if type(cell) is tuple else cell  # type: ignore[return-value]

    return read_simple


def _complex_reader(column: Column) -> Reader:
    read_cell, type_ = cell_reader(column), column.type

    def read_complex(view: RowView) -> Wire:
        cell = read_cell(view)[1]
        return assemble(type_, cell) if isinstance(cell, Complex) else None

    return read_complex


def cell_reader(column: Column) -> CellReader:
    """The cell of a static or regular column as stored, with the row that holds its stamp."""
    position = column.position
    if column.kind is ColumnKind.STATIC:

        def read_static(view: RowView) -> tuple[Row | None, AnyCell]:
            static = view.static
            if static is None or position >= len(static.cells):
                return None, None
            return static, static.cells[position]

        return read_static

    def read_regular(view: RowView) -> tuple[Row | None, AnyCell]:
        row = view.row
        if row is None or position >= len(row.cells):
            return None, None
        return row, row.cells[position]

    return read_regular
