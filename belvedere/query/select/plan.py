"""SELECT: planning. Everything about the statement's shape is settled here, once."""

from collections.abc import Awaitable
from dataclasses import dataclass, replace

from belvedere.cql.syntax import Select
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.query.access import Execution
from belvedere.query.errors import InvalidRequest
from belvedere.query.results import Result, ResultColumn
from belvedere.query.schema_view import SchemaView, find_table
from belvedere.query.select.fast import FastSelect, fast_select
from belvedere.query.select.grouping import Grouping, prepare_grouping
from belvedere.query.select.limits import prepare_limit
from belvedere.query.select.ordering import Order, prepare_order
from belvedere.query.select.run import SelectRun
from belvedere.query.select.selection import Selection, prepare_selection
from belvedere.query.system.virtual import VirtualTable
from belvedere.query.terms.values import BindCollector, MarkerTerm, TermValue
from belvedere.query.where.restrictions import Purpose, Restrictions, analyse


@dataclass(frozen=True, slots=True)
class SelectPlan:
    """A SELECT ready to run."""

    table: Table
    selection: Selection
    restrictions: Restrictions
    distinct: bool
    grouping: Grouping | None
    order: Order
    limit: TermValue | None
    partition_limit: TermValue | None
    bindings: tuple[ResultColumn, ...]
    partition_key_bindings: tuple[int, ...]
    fast: FastSelect | None = None

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        return self.selection.columns

    def execute(self, execution: Execution) -> Result | Awaitable[Result]:
        if self.table.view is not None:
            return self._of_view(execution, execution.access.view_warnings(self.table))
        if self.fast is not None:
            result = self.fast(execution)
            if result is not None:
                return result
        return SelectRun(self, execution).run()

    def _of_view(self, execution: Execution, warnings: tuple[str, ...]) -> Result | Awaitable[Result]:
        if self.fast is not None:
            result = self.fast(execution)
            if result is not None:
                result.warnings += warnings
                return result
        run = SelectRun(self, execution).run()
        return _with_warnings(run, warnings) if warnings else run


async def _with_warnings(run: Awaitable[Result], warnings: tuple[str, ...]) -> Result:
    result = await run
    result.warnings += warnings
    return result


def plan_select(node: Select, schema: SchemaView, keyspace: str | None) -> SelectPlan:
    """Check a SELECT against the schema."""
    table = find_table(schema, node.table.keyspace, keyspace, node.table.name)
    collector = BindCollector(schema, keyspace)
    selection = prepare_selection(table, node, collector)
    # Tables made up from the node's state are small: filtering them needs no permission.
    lenient = node.allow_filtering or isinstance(table, VirtualTable)
    restrictions = analyse(table, node.where, collector, purpose=Purpose.SELECT, allow_filtering=lenient)
    if node.distinct:
        _check_distinct(table, selection, restrictions)
    grouping = prepare_grouping(table, node, selection, restrictions, collector)
    order = prepare_order(table, node, restrictions)
    per_partition = prepare_limit(table, node.per_partition_limit, "[per_partition_limit]", collector)
    limit = prepare_limit(table, node.limit, "[limit]", collector)
    if per_partition is not None and node.distinct:
        raise InvalidRequest("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries")
    if per_partition is not None and grouping is not None and grouping.everything:
        raise InvalidRequest("PER PARTITION LIMIT is not allowed with aggregate queries.")
    plan = SelectPlan(
        table,
        selection,
        restrictions,
        node.distinct,
        grouping,
        order,
        limit,
        per_partition,
        collector.bindings,
        _key_bindings(restrictions),
    )
    return _with_fast(plan)


def _with_fast(plan: SelectPlan) -> SelectPlan:
    plain = plan.grouping is None and not plan.distinct and plan.partition_limit is None
    if not plain or isinstance(plan.table, VirtualTable):
        return plan
    fast = fast_select(plan.table, plan.selection, plan.restrictions, plan.order, plan.limit)
    return replace(plan, fast=fast)


def _key_bindings(restrictions: Restrictions) -> tuple[int, ...]:
    """For token-aware clients: which variables make up the partition key."""
    indexes = []
    for term in restrictions.key_terms:
        if not isinstance(term, MarkerTerm):
            return ()
        indexes.append(term.index)
    return tuple(indexes)


def _check_distinct(table: Table, selection: Selection, restrictions: Restrictions) -> None:
    if not _only_partition(table, restrictions):
        raise InvalidRequest(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key "
            "and/or static columns."
        )
    for column in selection.used:
        if column.kind not in (ColumnKind.PARTITION_KEY, ColumnKind.STATIC):
            raise InvalidRequest(
                "SELECT DISTINCT queries must only request partition key columns and/or static columns "
                f"(not {column.name})"
            )
    # Without this, partitions that look the same would have to be merged after reading.
    if restrictions.has_keys:
        return
    for column in table.partition_key:
        if column not in selection.used:
            raise InvalidRequest(
                f"SELECT DISTINCT queries must request all the partition key columns (missing {column.name})"
            )


def _only_partition(table: Table, restrictions: Restrictions) -> bool:
    allowed = (ColumnKind.PARTITION_KEY, ColumnKind.STATIC)
    columns: list[Column] = [table.by_name[name] for name in restrictions.columns]
    return all(column.kind in allowed for column in columns)
