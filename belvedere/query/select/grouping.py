"""GROUP BY and aggregates: where one group of rows ends and the next begins."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from belvedere.cql.syntax import ColumnRef, FunctionCall, Select
from belvedere.cql.text import to_text
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.query.access import Execution
from belvedere.query.errors import InvalidRequest
from belvedere.query.schema_view import existing_column
from belvedere.query.select.row_views import RowView
from belvedere.query.select.selection import Selection
from belvedere.query.select.selectors import CallSelector, Selector
from belvedere.query.select.selectors_build import SelectorBuilder
from belvedere.query.terms.values import BindCollector
from belvedere.query.where.restrictions import Restrictions

GroupKey = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Grouping:
    """Rows with equal keys are neighbours, because groups follow the primary key."""

    #: All rows are one group: aggregates without GROUP BY.
    everything: bool
    #: How many clustering columns, from the first on, must be equal.
    prefix: int = 0
    #: The last element of GROUP BY when it is a function of the clustering column behind the prefix.
    function: Selector | None = None

    def key_of(self, execution: Execution) -> Callable[[RowView], GroupKey]:
        if self.everything:
            return lambda view: ()
        prefix, function = self.prefix, self.function

        def key(view: RowView) -> GroupKey:
            values = view.clustering if prefix else None
            parts = () if values is None else tuple(values[:prefix])
            if function is None:
                return (view.key, parts)
            return (view.key, parts, function.read(view, execution))

        return key


def prepare_grouping(
    table: Table, node: Select, selection: Selection, restrictions: Restrictions, collector: BindCollector
) -> Grouping | None:
    """None when rows are returned one by one."""
    if not node.group_by:
        return Grouping(True) if selection.has_aggregate else None
    remaining = iter((*table.partition_key, *table.clustering))
    function: Selector | None = None
    prefix = 0
    for expression in node.group_by:
        if isinstance(expression, FunctionCall):
            column, function = _group_function(table, expression, collector)
        else:
            column = _group_column(table, expression)
            if function is not None:
                raise InvalidRequest(
                    "Functions are only supported on the last element of the GROUP BY clause"
                )
        prefix += _advance(remaining, column, restrictions)
    following = next(remaining, None)
    if following is not None and following.kind is ColumnKind.PARTITION_KEY:
        raise InvalidRequest("Group by is not supported on only a part of the partition key")
    if prefix and node.distinct:
        raise InvalidRequest("Grouping on clustering columns is not allowed for SELECT DISTINCT queries")
    return Grouping(False, prefix - (function is not None), function)


def _advance(remaining: Iterator[Column], column: Column, restrictions: Restrictions) -> int:
    """Step over the primary key up to a column; how many clustering columns were passed."""
    passed = 0
    for candidate in remaining:
        passed += candidate.kind is ColumnKind.CLUSTERING
        if candidate == column:
            return passed
        if not restrictions.equals(candidate):
            break
    raise InvalidRequest(
        "Group by currently only support groups of columns following their declared order in the PRIMARY KEY"
    )


def _group_column(table: Table, expression: object) -> Column:
    if not isinstance(expression, ColumnRef):
        raise InvalidRequest(
            "Only column names and monotonic scalar functions are supported in the GROUP BY clause"
        )
    column = existing_column(table, expression.name)
    if not column.is_key:
        raise InvalidRequest(
            f"Group by is currently only supported on the columns of the PRIMARY KEY, got {column.name}"
        )
    return column


def _group_function(table: Table, call: FunctionCall, collector: BindCollector) -> tuple[Column, Selector]:
    builder = SelectorBuilder(table, collector)
    selector = builder.build(call)
    if selector.has_aggregate:
        raise InvalidRequest(
            f"Aggregate functions are not supported within the GROUP BY clause, got: {call.name}"
        )
    if not (isinstance(selector, CallSelector) and selector.monotonic):
        raise InvalidRequest(
            f"Only monotonic functions are supported in the GROUP BY clause. Got: {to_text(call)} "
        )
    if not builder.columns:
        raise InvalidRequest("GROUP BY functions must have one clustering column name as parameter")
    if len(builder.columns) > 1:
        names = ", ".join(builder.columns)
        raise InvalidRequest(
            f"GROUP BY functions accept only one clustering column as parameter, got: {names}"
        )
    column = existing_column(table, next(iter(builder.columns)))
    if column.kind is not ColumnKind.CLUSTERING:
        raise InvalidRequest(
            f"Group by functions are only supported on clustering columns, got {column.name}"
        )
    return column, selector
