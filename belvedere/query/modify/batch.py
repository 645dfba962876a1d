"""BATCH: several modifications with one write time, written all or none."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from belvedere.cql import syntax
from belvedere.model.types import BIGINT
from belvedere.query.access import BoundValue, Execution, Plan
from belvedere.query.errors import InvalidRequest
from belvedere.query.modify.attributes import Attributes, check_timestamp
from belvedere.query.modify.conditions_execute import apply_if
from belvedere.query.modify.merge import merge_mutations
from belvedere.query.modify.plan import (
    NOTHING_EXISTS,
    Modification,
    Run,
    check_count,
    write_after_reading,
    write_all,
)
from belvedere.query.results import Result, ResultColumn, Void
from belvedere.query.terms.values import BindCollector, prepare_term

NOT_A_MODIFICATION = "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed."


@dataclass(slots=True)
class BatchPlan:
    """Statements and the values of each; None for those that share the values of the whole batch."""

    children: tuple[tuple[Modification, Sequence[BoundValue] | None], ...]
    kind: syntax.BatchKind
    bindings: tuple[ResultColumn, ...] = ()
    attributes: Attributes = Attributes()  # noqa: RUF009 - immutable
    has_conditions: bool = False
    needs_read: bool = False
    partition_key_bindings: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        plans = [plan for plan, _ in self.children]
        self.has_conditions = any(plan.conditions is not None for plan in plans)
        self.needs_read = any(plan.needs_read for plan in plans)

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        return ()

    def execute(self, execution: Execution) -> Result | Awaitable[Result]:
        if all(values is None for _, values in self.children):
            check_count(self.bindings, execution)
        runs = self._start(execution)
        if not runs:
            return Void()
        if self.has_conditions:
            return apply_if(_in_one_partition(runs), execution, in_batch=True)
        if self.needs_read:
            return write_after_reading(runs, execution)
        made = [mutation for run in runs for mutation in run.mutations(NOTHING_EXISTS)]
        return write_all(execution.access, merge_mutations(made))

    def _start(self, execution: Execution) -> list[Run]:
        timestamp = self._timestamp(execution)
        runs = []
        for plan, values in self.children:
            child = execution
            if values is not None:
                child = replace(execution, values=values)
                check_count(plan.bindings, child)
            # Each counter update is newer than the one before it; all else has one time.
            runs.append(plan.start(child, None if plan.is_counter else timestamp))
        return runs

    def _timestamp(self, execution: Execution) -> int:
        own = self.attributes.timestamp_of(execution)
        if own is not None:
            return own
        if execution.timestamp is None or self.has_conditions:
            return execution.access.next_timestamp()
        return check_timestamp(execution.timestamp)


def plan_batch(
    children: Sequence[tuple[Plan, Sequence[BoundValue]]], kind: syntax.BatchKind = "LOGGED"
) -> BatchPlan:
    """A batch of statements that were planned one by one, each with values of its own."""
    plans: list[tuple[Modification, Sequence[BoundValue] | None]] = []
    for plan, values in children:
        if not isinstance(plan, Modification):
            raise InvalidRequest(NOT_A_MODIFICATION)
        plans.append((plan, values))
    return _checked(BatchPlan(tuple(plans), kind))


def plan_batch_statement(
    node: syntax.Batch, collector: BindCollector, children: Sequence[Modification]
) -> BatchPlan:
    """BEGIN BATCH … APPLY BATCH: bind variables are numbered through the whole text."""
    if node.ttl is not None:
        raise InvalidRequest("Global TTL on the BATCH statement is not supported.")
    timestamp = None
    if node.timestamp is not None:
        timestamp = prepare_term(node.timestamp, ResultColumn("", "", "[timestamp]", BIGINT), collector)
    for child in children:
        child.partition_key_bindings = ()
    return _checked(
        BatchPlan(
            tuple((child, None) for child in children), node.kind, collector.bindings, Attributes(timestamp)
        )
    )


def _checked(batch: BatchPlan) -> BatchPlan:
    plans = [plan for plan, _ in batch.children]
    counters = any(plan.is_counter for plan in plans)
    others = any(not plan.is_counter for plan in plans)
    if batch.attributes.timestamp is not None:
        if batch.has_conditions:
            raise InvalidRequest("Cannot provide custom timestamp for conditional BATCH")
        if batch.kind == "COUNTER":
            raise InvalidRequest("Cannot provide custom timestamp for counter BATCH")
        if any(plan.attributes.timestamp is not None for plan in plans):
            raise InvalidRequest("Timestamp must be set either on BATCH or individual statements")
        if counters:
            raise InvalidRequest("Cannot provide custom timestamp for a BATCH containing counters")
    if batch.kind == "COUNTER" and others:
        raise InvalidRequest("Cannot include non-counter statement in a counter batch")
    if counters and others:
        raise InvalidRequest("Counter and non-counter mutations cannot exist in the same batch")
    if batch.kind == "LOGGED" and counters:
        raise InvalidRequest("Cannot include a counter statement in a logged batch")
    if batch.has_conditions:
        _check_conditional(plans)
    return batch


def _check_conditional(plans: Sequence[Modification]) -> None:
    if len({plan.table.id for plan in plans}) > 1:
        raise InvalidRequest("Batch with conditions cannot span multiple tables")
    for plan in plans:
        if plan.attributes.timestamp is not None:
            raise InvalidRequest("Cannot provide custom timestamp for conditional BATCH")
        if plan.keys.partition_has_in:
            raise InvalidRequest(
                "Batch with conditions cannot span multiple partitions "
                "(you cannot use IN on the partition key)"
            )
        if plan.keys.clustering_has_in:
            what = "deletions" if plan.verb == "DELETE" else "updates"
            raise InvalidRequest(f"IN on the clustering key columns is not supported with conditional {what}")


def _in_one_partition(runs: list[Run]) -> list[Run]:
    if len({target.key for run in runs for target in run.targets}) > 1:
        raise InvalidRequest("Batch with conditions cannot span multiple partitions")
    return runs
