"""Conditional statements: read, decide and write while the partition is held.

The answer has a column `[applied]` and, when it is false, what stood in the way: the columns of the
conditions, or the whole row for IF [NOT] EXISTS. A refusal is a read: it may not be told before what it shows
is durable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from belvedere.model.rows import NO_TIMESTAMP, newest_timestamp
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.types import BOOLEAN
from belvedere.query.access import Execution
from belvedere.query.errors import InvalidRequest
from belvedere.query.modify.conditions import Conditions, Existence
from belvedere.query.modify.locked import LockedRows, locked_rows
from belvedere.query.modify.merge import merge_mutations
from belvedere.query.results import ResultColumn, Rows, bound_to
from belvedere.query.select.row_views import RowView, column_reader
from belvedere.storage.reads import PartitionRead, PartitionRows

if TYPE_CHECKING:
    from belvedere.query.modify.plan import Modification, Run

APPLIED = "[applied]"
MAX_TIMESTAMP = 2**63 - 1
_TRUE, _FALSE = b"\x01", b"\x00"


@dataclass(frozen=True, slots=True)
class RowCondition:
    """What one statement demands of its row; row None stands for the static cells."""

    row: bytes | None
    conditions: Conditions
    execution: Execution


async def execute_conditional(plan: "Modification", execution: Execution) -> Rows:
    return await apply_if([plan.start(execution)], execution, in_batch=False)


async def apply_if(runs: "Sequence[Run]", execution: Execution, *, in_batch: bool) -> Rows:
    """All runs or none, by the conditions of those that have some. They share one partition."""
    demands = [_demand(run) for run in runs if run.plan.conditions is not None]
    _check_mixture(demands)
    table = runs[0].plan.table
    async with locked_rows(execution.access, runs, execution.now) as locked:
        # Before anything is waited for: plain writes that come from here on are ordered, and dated, later.
        timestamp = execution.access.next_timestamp()
        found = await _read(locked, runs[0], demands)
        if all(_holds(table, found, demand) for demand in demands):
            _outlast(runs, found, timestamp)
            mutations = merge_mutations(await locked.settle(runs))
            after = await locked.write(mutations)
            return Rows(after=after, columns=(_applied(table),), rows=[[_TRUE]])
        return _refusal(runs, found, demands, locked.after, in_batch=in_batch)


def _outlast(runs: "Sequence[Run]", found: "_Found", timestamp: int) -> None:
    """What is applied must be seen, even over cells that a client dated ahead of this node's clock.

    `timestamp` was taken with the partition held: one taken before would lie behind a deletion by whoever
    held it meanwhile, and what is written now would be deleted already.
    """
    seen = [row for _, row in found.partition.rows]
    if found.partition.static is not None:
        seen.append(found.partition.static)
    newest = max(map(newest_timestamp, seen), default=NO_TIMESTAMP)
    for run in runs:
        run.context.timestamp = max(timestamp, min(newest + 1, MAX_TIMESTAMP))


def _demand(run: "Run") -> RowCondition:
    plan = run.plan
    assert plan.conditions is not None
    (target,) = run.targets
    if target.slices:
        raise InvalidRequest(
            "DELETE statements must restrict all PRIMARY KEY columns with equality relations "
            "in order to use IF conditions"
        )
    row = target.rows[0] if target.rows and plan.updates_regular_rows else None
    return RowCondition(row, plan.conditions, run.context.execution)


def _check_mixture(demands: Sequence[RowCondition]) -> None:
    """Statements of a batch may not contradict each other about one row."""
    kinds: dict[bytes | None, Existence | None] = {}
    for demand in demands:
        existence = demand.conditions.existence
        known = kinds.setdefault(demand.row, existence)
        if known is existence:
            continue
        if known is not None and existence is not None:
            raise InvalidRequest("Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row")
        raise InvalidRequest("Cannot mix IF conditions and IF NOT EXISTS for the same row")


@dataclass(slots=True)
class _Found:
    """The partition as far as the conditions look at it."""

    partition: PartitionRows
    rows: dict[bytes, RowView]
    #: A view of the static cells alone.
    static: RowView


async def _read(locked: LockedRows, run: "Run", demands: Sequence[RowCondition]) -> _Found:
    table, target = run.plan.table, run.targets[0]
    wanted = sorted({demand.row for demand in demands if demand.row is not None and _looks_at_row(demand)})
    reads = [PartitionRead(target.token, target.key, row=row) for row in wanted]
    # With nothing but static conditions, the first row tells an empty partition from one that has no
    # static cells.
    partition = PartitionRows(target.token, target.key, None, [])
    for read in reads or [PartitionRead(target.token, target.key, limit=1)]:
        piece = await locked.read(table, read)
        partition.static = piece.static
        partition.rows.extend(piece.rows)
    views = {
        key: RowView(table, target.token, target.key, partition.static, key, row)
        for key, row in partition.rows
    }
    static = RowView(table, target.token, target.key, partition.static, None, None)
    return _Found(partition, views, static)


def _looks_at_row(demand: RowCondition) -> bool:
    return not demand.conditions.only_static


def _holds(table: Table, found: _Found, demand: RowCondition) -> bool:
    view = found.static if demand.row is None else found.rows.get(demand.row)
    existence = demand.conditions.existence
    if existence is not None:
        exists = found.partition.static is not None if demand.row is None else view is not None
        return exists is (existence is Existence.EXISTS)
    return demand.conditions.hold(view or found.static, demand.execution)


def _refusal(
    runs: "Sequence[Run]",
    found: _Found,
    demands: Sequence[RowCondition],
    after: int,
    *,
    in_batch: bool,
) -> Rows:
    table = runs[0].plan.table
    columns = _shown_columns(table, demands, in_batch=in_batch)
    views = [found.rows[key] for key in sorted(found.rows)]
    if not views and found.partition.static is not None and _shows_static(runs, columns, demands):
        views = [found.static]
    if not views:
        return Rows(after=after, columns=(_applied(table),), rows=[[_FALSE]])
    readers = [column_reader(column) for column in columns]
    described = (_applied(table), *(bound_to(table, column) for column in columns))
    return Rows(
        after=after,
        columns=described,
        rows=[[_FALSE, *(read(view) for read in readers)] for view in views],
    )


def _shown_columns(table: Table, demands: Sequence[RowCondition], *, in_batch: bool) -> list[Column]:
    if any(demand.conditions.existence is not None for demand in demands):
        return list(table.select_order)
    shown: dict[str, Column] = {}
    if in_batch:
        # They tell apart the rows that the statements of a batch are about.
        shown.update((column.name, column) for column in (*table.partition_key, *table.clustering))
    for demand in demands:
        shown.update((condition.column.name, condition.column) for condition in demand.conditions.columns)
    return list(shown.values())


def _shows_static(runs: "Sequence[Run]", columns: Sequence[Column], demands: Sequence[RowCondition]) -> bool:
    """Whether static cells without a row are worth showing: something is said about them."""
    if any(run.plan.static for run in runs) or any(demand.row is None for demand in demands):
        return True
    asked = any(demand.conditions.existence is None for demand in demands)
    return asked and any(column.kind is ColumnKind.STATIC for column in columns)


def _applied(table: Table) -> ResultColumn:
    return ResultColumn(table.keyspace, table.name, APPLIED, BOOLEAN)
