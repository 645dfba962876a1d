"""ORDER BY: reading in clustering order, in its reverse, or sorting what several partitions gave."""

from collections.abc import Sequence
from dataclasses import dataclass

from belvedere.cql.syntax import Select
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.query.errors import InvalidRequest
from belvedere.query.schema_view import existing_column
from belvedere.query.select.row_views import RowView
from belvedere.query.where.restrictions import Restrictions


@dataclass(frozen=True, slots=True)
class Order:
    reverse: bool = False
    #: Sort all rows by these clustering columns after reading: partitions named by IN.
    sort_by: tuple[Column, ...] = ()

    def sorted(self, views: Sequence[RowView]) -> list[RowView]:
        def key(view: RowView) -> bytes:
            values = view.clustering
            if values is None:
                return b""
            encode = view.table.clustering_order.encode_component
            return b"".join([encode(c.position, values[c.position]) for c in self.sort_by])

        return sorted(views, key=key, reverse=self.reverse)


def prepare_order(table: Table, node: Select, restrictions: Restrictions) -> Order:
    if not node.order_by:
        return Order()
    columns = []
    for ordering in node.order_by:
        column = existing_column(table, ordering.column)
        if ordering.ann_of is not None:
            raise InvalidRequest("ANN ordering by vector requires the column to be indexed")
        if column.kind is not ColumnKind.CLUSTERING:
            raise InvalidRequest(
                "Order by is currently only supported on the clustered columns of the PRIMARY KEY, "
                f"got {column.name}"
            )
        columns.append(column)
    if not restrictions.has_keys:
        raise InvalidRequest(
            "ORDER BY is only supported when the partition key is restricted by an EQ or an IN."
        )
    _check_declared_order(table, columns, restrictions)
    directions = {
        ordering.descending != column.descending
        for ordering, column in zip(node.order_by, columns, strict=True)
    }
    if len(directions) > 1:
        raise InvalidRequest("Unsupported order by relation")
    return Order(directions.pop(), tuple(columns) if restrictions.partition_has_in else ())


def _check_declared_order(table: Table, columns: Sequence[Column], restrictions: Restrictions) -> None:
    """Columns may only be skipped when they have a single value."""
    position = 0
    for column in columns:
        skipped = table.clustering[position : column.position]
        if column.position < position or not all(restrictions.equals(one) for one in skipped):
            raise InvalidRequest(
                "Order by currently only supports the ordering of columns following their "
                "declared order in the PRIMARY KEY"
            )
        position = column.position + 1
